# zheap_am: undo-based table access method for PostgreSQL
#
#   make, make install, make installcheck    the usual PGXS targets;
#                      PG_CONFIG chooses the server.  installcheck wants a
#                      running server with zheap_am in shared_preload_libraries
#   make check         builds, installs into a throw-away copy of the server,
#                      starts throw-away clusters and runs every suite
#   make demo          pgbench on heap and on zheap side by side
#   make core-suites   PostgreSQL's own regression and isolation tests on zheap
#                      (core-suites-parallel, -wal, -minimal, -logical:
#                      other settings)
#   make packages      Debian's packages, built and tried; make dist: an archive
#                      for PGXN (DIST=folder); make top: undo, holders, rollbacks, refreshed
#   make bench         measures heap beside zheap: bench/README.md
#   make check-layers  no object may use one that stands to its right in OBJS,
#                      no file include a header of a later folder

MODULE_big = zheap_am
EXTENSION = zheap_am
DATA = zheap_am--1.0.sql
PGFILEDESC = "zheap_am - undo-based table access method"

# The order is the architecture: an object may use those before it, only.
OBJS = \
	compat/extend.o \
	compat/dead_items.o \
	compat/read_stream.o \
	compat/table_stats.o \
	undo/undo_debug.o \
	undo/undo_cache.o \
	undo/log/undo_page.o \
	undo/log/undo_fake.o \
	undo/log/undo_shmem.o \
	undo/log/undo_files.o \
	undo/log/undo_horizons.o \
	undo/log/undo_stat.o \
	undo/log/undo_log_trim.o \
	undo/log/undo_log_load.o \
	undo/log/undo_log.o \
	undo/log/undo_redo.o \
	undo/log/undo_attach.o \
	undo/record/undo_images.o \
	undo/record/undo_gather_part.o \
	undo/record/undo_gather.o \
	undo/record/undo_record.o \
	undo/record/undo_touched.o \
	undo/record/undo_insert.o \
	undo/discard/undo_frozen.o \
	undo/discard/undo_holders.o \
	undo/discard/undo_scan.o \
	undo/discard/undo_discard.o \
	undo/discard/undo_snapshot_limit.o \
	undo/rollback/undo_apply.o \
	undo/rollback/undo_xact.o \
	undo/rollback/undo_worker.o \
	undo/rollback/undo_survey.o \
	undo/rollback/undo_launcher.o \
	undo/rollback/undo_drain.o \
	zheap/format/zheap_page.o \
	zheap/format/zheap_page_problem.o \
	zheap/format/zheap_delta.o \
	zheap/format/zheap_tuple.o \
	zheap/format/zheap_same.o \
	zheap/format/zheap_tuple_slot.o \
	zheap/format/zheap_undo.o \
	zheap/format/zheap_stat.o \
	zheap/owner/zheap_xact_slot_status.o \
	zheap/owner/zheap_xact_slot.o \
	zheap/history/zheap_ring.o \
	zheap/history/zheap_look_up.o \
	zheap/history/zheap_record_cache.o \
	zheap/history/zheap_chain_index.o \
	zheap/history/zheap_own_history.o \
	zheap/history/zheap_spill_chain.o \
	zheap/history/zheap_shared.o \
	zheap/history/zheap_walk.o \
	zheap/history/zheap_jump.o \
	zheap/history/zheap_describe.o \
	zheap/sees/zheap_tid_memory.o \
	zheap/sees/zheap_predicate.o \
	zheap/sees/zheap_visibility.o \
	zheap/sees/zheap_old_page.o \
	zheap/sees/zheap_newest.o \
	zheap/back/zheap_buffer.o \
	zheap/back/zheap_fsm_notes.o \
	zheap/back/zheap_rollback.o \
	zheap/space/zheap_prune.o \
	zheap/space/zheap_make_room.o \
	zheap/space/zheap_space.o \
	zheap/soft/zheap_keyed.o \
	zheap/soft/zheap_old_keys.o \
	zheap/soft/zheap_announce.o \
	zheap/soft/zheap_entry.o \
	zheap/soft/zheap_watch.o \
	zheap/soft/zheap_sweep.o \
	zheap/read/zheap_exclusion.o \
	zheap/read/zheap_scan_parallel.o \
	zheap/read/zheap_scan.o \
	zheap/read/zheap_scan_gather.o \
	zheap/read/zheap_scan_page.o \
	zheap/read/zheap_scan_chosen.o \
	zheap/read/zheap_scan_compat.o \
	zheap/read/zheap_explain.o \
	zheap/read/zheap_index_fetch.o \
	zheap/read/zheap_index_delete.o \
	zheap/wal/zheap_lend.o \
	zheap/wal/zheap_xlog_insert.o \
	zheap/wal/zheap_xlog_change.o \
	zheap/wal/zheap_xlog_logical.o \
	zheap/row/zheap_lockers.o \
	zheap/row/zheap_row.o \
	zheap/row/zheap_share.o \
	zheap/row/zheap_lock.o \
	zheap/row/zheap_row_write.o \
	zheap/row/zheap_tuple_lock.o \
	zheap/large/zheap_delete_chunks.o \
	zheap/large/zheap_chunk.o \
	zheap/large/zheap_toast.o \
	zheap/write/zheap_open_record.o \
	zheap/write/zheap_tablespace.o \
	zheap/write/zheap_insert.o \
	zheap/write/zheap_speculative.o \
	zheap/write/zheap_delete.o \
	zheap/write/zheap_move.o \
	zheap/write/zheap_update.o \
	zheap/decode/zheap_decode.o \
	zheap/table/zheap_index_build.o \
	zheap/table/zheap_frozenxid.o \
	zheap/table/zheap_vacuum.o \
	zheap/table/zheap_rewrite_judge.o \
	zheap/table/zheap_rewrite_write.o \
	zheap/table/zheap_rewrite.o \
	zheap/zheap_xlog.o \
	inspect/zheap_inspect.o \
	inspect/zheap_monitor.o \
	inspect/zheap_check_page.o \
	inspect/zheap_check_toast.o \
	inspect/zheap_check.o \
	guard/zheap_guard.o \
	guard/zheap_ddl.o \
	zheap_am.o

# sql/NAME.sql and specs/NAME.spec, in alphabetical order
REGRESS := $(sort $(basename $(notdir $(wildcard sql/*.sql))))
ISOLATION := $(sort $(basename $(notdir $(wildcard specs/*.spec))))
REGRESS_OPTS = --load-extension=zheap_am
ISOLATION_OPTS = --load-extension=zheap_am
# into the folder of the server's programs
SCRIPTS = tools/zheap-top tools/zheap-advice
SCRIPTS_built = tools/zheap-waldump

TAP_TESTS := $(if $(wildcard t/*.pl),1)

PG_CPPFLAGS = -I$(srcdir)
WERROR = -Werror
PG_CFLAGS = -Wall -Wextra $(WERROR) -Wno-unused-parameter \
	-Wno-sign-compare -Wno-missing-field-initializers

PG_CONFIG = pg_config

# These look for a server themselves and need none to start with.
CORE_MODES = parallel wal minimal logical
TOOLS = check chaos planted demo soak pgbench-soak bench bench-quick core-suites \
	dist packages top \
	$(CORE_MODES:%=core-suites-%)
.PHONY: $(TOOLS) check-layers print-tests
tool_env = $(if $(filter file,$(origin PG_CONFIG)),,PG_CONFIG='$(PG_CONFIG)')

ifneq (,$(filter-out $(TOOLS) print-tests,$(or $(MAKECMDGOALS),all)))
PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq (,$(wildcard $(PGXS)))
$(error no server development files found by "$(PG_CONFIG)"; \
	install them (Debian: postgresql-server-dev-18, -17, -16 or -15) or give PG_CONFIG=...)
endif

# For a server that is built to be fast: as one whole, for callers and what they
# call are in different files.  Where the compiler can, and unless COPT is for
# debugging.  What it suspects with all inlined must not stop a build;
# check-layers reads the objects, hence the fat ones.
WHOLE = -O3 -flto=auto -ffat-lto-objects -fno-semantic-interposition \
	-fno-plt -Wl,-Bsymbolic
WHOLE_CC = $(if $(filter default undefined,$(origin CC)),$(shell $(PG_CONFIG) --cc),$(CC))
ifeq (,$(filter -O0 -O1 -Og -fsanitize%,$(COPT)))
ifneq (,$(filter -O2,$(shell $(PG_CONFIG) --cflags)))
WHOLE_IF_POSSIBLE := $(shell d=$$(mktemp -d) && echo 'int zheap;' >$$d/a.c && \
	$(WHOLE_CC) -Werror $(WHOLE) -fPIC -shared -o $$d/a.so $$d/a.c \
	>/dev/null 2>&1 && echo $(WHOLE) -Wno-error=maybe-uninitialized \
	-Wno-error=stringop-overflow -Wno-error=array-bounds; rm -r $$d)
PG_CFLAGS += $(WHOLE_IF_POSSIBLE)
endif
endif
include $(PGXS)

# whole-project dependency: headers are few and builds short
HEADERS_ALL = $(wildcard $(srcdir)/*.h $(srcdir)/compat/*.h $(srcdir)/undo/*.h $(srcdir)/undo/*/*.h $(srcdir)/inspect/*.h $(srcdir)/guard/*.h \
	$(srcdir)/zheap/*.h $(srcdir)/zheap/*/*.h)
$(OBJS): $(HEADERS_ALL)

# The descriptions of WAL records are those of the library, from the same sources;
# what else stands there, and would need a server, is in sections of its own, which
# the linker throws away.
WALDUMP = undo/log/undo_redo.c zheap/zheap_xlog.c zheap/wal/zheap_xlog_insert.c \
	zheap/wal/zheap_xlog_change.c zheap/format/zheap_delta.c
tools/zheap-waldump: tools/zheap_waldump.c $(WALDUMP) $(HEADERS_ALL)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(filter-out -fsanitize% --coverage,$(CFLAGS)) -fno-lto \
		-ffunction-sections -fdata-sections $(filter %.c,$^) \
		$(filter-out -fsanitize%,$(LDFLAGS)) -Wl,--gc-sections -o $@

check-layers: $(OBJS)
	@cd $(srcdir) && tools/check-layers $(CURDIR) $(OBJS)
endif

ifneq (,$(filter $(TOOLS) print-tests,$(MAKECMDGOALS)))
check:
	@$(tool_env) bash tools/check

demo:
	@$(tool_env) bash tools/demo

soak:
	@HOURS='$(HOURS)' bash tools/soak

pgbench-soak:
	@$(tool_env) bash tools/pgbench-soak

chaos planted:
	@$(tool_env) HOURS='$(HOURS)' SEED='$(SEED)' bash tools/$@

core-suites:
	@$(tool_env) bash tools/core-suites

$(CORE_MODES:%=core-suites-%): core-suites-%:
	@$(tool_env) MODE=$* bash tools/core-suites

bench:
	@$(tool_env) bash bench/run

bench-quick:
	@$(tool_env) QUICK=1 bash bench/run

packages:
	@$(tool_env) bash tools/packages

top:
	@bash tools/zheap-top

# what is committed, under the name and version that META.json has
DIST = .
dist:
	@name=$$(sed -nE '/^ {3}"(name|version)"/s/.*: "(.*)",/\1/p' META.json | paste -sd-); \
	git archive --format zip --prefix "$$name/" -o "$(DIST)/$$name.zip" HEAD && echo "$(DIST)/$$name.zip"

# for tools/check
print-tests:
	@echo "$(REGRESS)"
	@echo "$(ISOLATION)"
endif
