/*-------------------------------------------------------------------------
 *
 * zheap_am.c
 *	  Entry of the library: what is registered with the server when it is
 *	  preloaded, and the table access method as a table of contents.
 *
 * Redo, checkpoints of shared state and background rollback can't wait until a
 * session happens to load the library, so it refuses to be loaded later than
 * shared_preload_libraries.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/heapam.h"
#include "access/multixact.h"
#include "access/tableam.h"
#include "access/xlog_internal.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/bufpage.h"
#include "storage/ipc.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "guard/zheap_guard.h"
#include "undo/undo.h"
#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/decode/zheap_decode.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_jump.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/read/zheap_read.h"
#include "zheap/row/zheap_tuple_lock.h"
#include "zheap/sees/zheap_tid_memory.h"
#include "zheap/soft/zheap_announce.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_old_keys.h"
#include "zheap/table/zheap_table.h"
#include "zheap/write/zheap_tablespace.h"
#include "zheap/write/zheap_write.h"
#include "zheap/zheap_xlog.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(zheap_handler);

extern void _PG_init(void);

static shmem_request_hook_type prev_shmem_request_hook = NULL;
static shmem_startup_hook_type prev_shmem_startup_hook = NULL;

/* ----------------------------------------------------------------
 *	resource manager: one for the undo store and the table engine
 * ----------------------------------------------------------------
 */

#define RecordIsUndo(info)	(((info) & ~XLR_INFO_MASK) <= XLOG_UNDO_LAST)

static void
rmgr_redo(XLogReaderState *record)
{
	if (RecordIsUndo(XLogRecGetInfo(record)))
		undo_redo(record);
	else
		zheap_xlog_redo(record);
}

static void
rmgr_desc(StringInfo buf, XLogReaderState *record)
{
	if (RecordIsUndo(XLogRecGetInfo(record)))
		undo_desc(buf, record);
	else
		zheap_xlog_desc(buf, record);
}

static const char *
rmgr_identify(uint8 info)
{
	return RecordIsUndo(info) ? undo_identify(info) :
		zheap_xlog_identify(info);
}

/* what kind of page it is, only the page itself can tell */
static void
rmgr_mask(char *page, BlockNumber blkno)
{
	if (undo_page_mask(page, blkno))
		return;
	if (PageGetSpecialSize((Page) page) == 0)
		mask_page_lsn_and_checksum(page);	/* visibility map */
	else
		zheap_page_mask(page, blkno);
}

static void
rmgr_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	if (!RecordIsUndo(XLogRecGetInfo(buf->record)))
		zheap_decode(ctx, buf);
}

static const RmgrData zheap_rmgr = {
	.rm_name = ZHEAP_RMGR_NAME,
	.rm_startup = undo_redo_startup,
	.rm_redo = rmgr_redo,
	.rm_desc = rmgr_desc,
	.rm_identify = rmgr_identify,
	.rm_cleanup = undo_images_redo_ends,
	.rm_mask = rmgr_mask,
	.rm_decode = rmgr_decode
};

/* ----------------------------------------------------------------
 *	loading
 * ----------------------------------------------------------------
 */

static void
zheap_shmem_request(void)
{
	if (prev_shmem_request_hook)
		prev_shmem_request_hook();
	undo_shmem_request();
	undo_stat_shmem_request();
	undo_snapshot_limit_shmem_request();
	table_stats_shmem_request();
	zheap_announce_shmem_request();
	zheap_old_keys_shmem_request();
}

static void
zheap_shmem_startup(void)
{
	if (prev_shmem_startup_hook)
		prev_shmem_startup_hook();
	undo_shmem_startup();
	undo_stat_shmem_startup();
	undo_snapshot_limit_shmem_startup();
	table_stats_shmem_startup();
	zheap_announce_shmem_startup();
	zheap_old_keys_shmem_startup();
}

/*
 * The undo store asks whose relations it may hand to zheap_rollback_page().
 * That tables of ours use no other access method is seen to by
 * zheap_set_new_filelocator().
 */
static Oid
zheap_am_oid(void)
{
	return get_table_am_oid("zheap", true);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zheap_am must be loaded via shared_preload_libraries"),
				 errhint("Add zheap_am to shared_preload_libraries and restart the server.")));

	undo_debug_define_settings();
	undo_xact_define_settings();
	undo_launcher_define_settings();
	zheap_jump_define_settings();
	zheap_keyed_define_settings();
	zheap_scan_gather_define_settings();
	zheap_ddl_register();
	MarkGUCPrefixReserved("zheap");

	RegisterCustomRmgr(ZHEAP_RMGR_ID, (RmgrData *) &zheap_rmgr);

	prev_shmem_request_hook = shmem_request_hook;
	shmem_request_hook = zheap_shmem_request;
	prev_shmem_startup_hook = shmem_startup_hook;
	shmem_startup_hook = zheap_shmem_startup;

	undo_apply_register_client(zheap_rollback_page, zheap_am_oid);
	undo_xact_register_callbacks();
	zheap_xact_slot_register();
	zheap_fsm_notes_register();
	zheap_stat_register();
	undo_launcher_register();
	undo_drain_register_createdb();
	undo_drain_register_upgrade();
	zheap_tid_memory_register_hooks();
	zheap_explain_register();
	zheap_index_fetch_register();
	zheap_guard_register();
}

/* ----------------------------------------------------------------
 *	storage and planner callbacks: heap's own where it is about files
 * ----------------------------------------------------------------
 */

/*
 * Our pages hold 64-bit xids and no multixacts, so that there is nothing to
 * freeze.  But the commit log is asked for writers from all_visible_before on,
 * and relfrozenxid is what keeps core from cutting it.  In a new file no xid
 * will be older than the transaction that makes it, so heap's choice is right
 * even while all_visible_before lags behind it.
 */
static void
zheap_set_new_filelocator(Relation rel, const RelFileLocator *newlocator,
						  char persistence, TransactionId *freeze_xid,
						  MultiXactId *minmulti)
{
	undo_shmem_require();
	if (rel->rd_rel->relam != zheap_am_oid())
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("handler function zheap_handler cannot be used by an access method of another name than \"zheap\"")));

	GetHeapamTableAmRoutine()->relation_set_new_filelocator(rel, newlocator,
															persistence,
															freeze_xid,
															minmulti);
	*minmulti = InvalidMultiXactId;
}

static void
zheap_nontransactional_truncate(Relation rel)
{
	GetHeapamTableAmRoutine()->relation_nontransactional_truncate(rel);
	zheap_announce_forget();
}

static bool
zheap_needs_toast_table(Relation rel)
{
	return GetHeapamTableAmRoutine()->relation_needs_toast_table(rel);
}

/* chunks are rows like others; zheap_chunk.c writes them */
static Oid
zheap_toast_am(Relation rel)
{
	return rel->rd_rel->relam;
}

#define ZHEAP_OVERHEAD_BYTES_PER_TUPLE \
	(ZHEAP_HEADER_SIZE + sizeof(ItemIdData))
#define ZHEAP_USABLE_BYTES_PER_PAGE \
	(BLCKSZ - SizeOfPageHeaderData - sizeof(ZPageOpaqueData) - \
	 ZHEAP_XACT_SLOTS_ROOM * sizeof(ZXactSlotData))

/*
 * Core takes a small table without statistics for one of ten pages.  That is
 * too much as a rule, so fill them by heap's numbers: the plans are heap's,
 * and the mistake is the smaller.
 */
#define PAGES_GUESSED		10

static void
zheap_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages,
					double *tuples, double *allvisfrac)
{
	Size		overhead = ZHEAP_OVERHEAD_BYTES_PER_TUPLE;
	Size		usable = ZHEAP_USABLE_BYTES_PER_PAGE;

	if (rel->rd_rel->reltuples < 0 &&
		RelationGetNumberOfBlocks(rel) < PAGES_GUESSED)
	{
		overhead = MAXALIGN(SizeofHeapTupleHeader) + sizeof(ItemIdData);
		usable = BLCKSZ - SizeOfPageHeaderData;
	}
	table_block_relation_estimate_size(rel, attr_widths, pages, tuples,
									   allvisfrac, overhead, usable);
}

/* ----------------------------------------------------------------
 *	the access method
 * ----------------------------------------------------------------
 */

static const TableAmRoutine zheap_methods = {
	.type = T_TableAmRoutine,

	.slot_callbacks = zheap_scan_slot_callbacks,

	.scan_begin = zheap_scan_begin,
	.scan_end = zheap_scan_end,
	.scan_rescan = zheap_scan_rescan,
	.scan_getnextslot = zheap_scan_getnextslot,
	.scan_set_tidrange = zheap_scan_set_tidrange,
	.scan_getnextslot_tidrange = zheap_scan_getnextslot_tidrange,

	.parallelscan_estimate = zheap_parallelscan_estimate,
	.parallelscan_initialize = zheap_parallelscan_initialize,
	.parallelscan_reinitialize = zheap_parallelscan_reinitialize,

	.index_fetch_begin = zheap_index_fetch_begin,
	.index_fetch_reset = zheap_index_fetch_reset,
	.index_fetch_end = zheap_index_fetch_end,
	.index_fetch_tuple = zheap_index_fetch_tuple,

	.tuple_fetch_row_version = zheap_index_fetch_row_version,
	.tuple_tid_valid = zheap_index_fetch_tid_valid,
	.tuple_get_latest_tid = zheap_index_fetch_latest_tid,
	.tuple_satisfies_snapshot = zheap_index_fetch_satisfies,
	.index_delete_tuples = zheap_index_delete_tuples,

	.tuple_insert = zheap_insert,
	.tuple_insert_speculative = zheap_insert_speculative,
	.tuple_complete_speculative = zheap_speculative_complete,
	.multi_insert = zheap_insert_multi,
	.tuple_delete = zheap_delete,
	.tuple_update = zheap_update,
	.tuple_lock = zheap_tuple_lock,
	.finish_bulk_insert = NULL, /* wal_level = minimal is core's business */

	.relation_set_new_filelocator = zheap_set_new_filelocator,
	.relation_nontransactional_truncate = zheap_nontransactional_truncate,
	/* undo finds the copy, since it looks for the relation's OID */
	.relation_copy_data = zheap_tablespace_copy,
	.relation_copy_for_cluster = zheap_rewrite_copy,
	.relation_vacuum = zheap_vacuum_relation,
	.scan_analyze_next_block = zheap_scan_analyze_next_block,
	.scan_analyze_next_tuple = zheap_scan_analyze_next_tuple,
	.index_build_range_scan = zheap_index_build_range_scan,
	.index_validate_scan = zheap_index_build_validate,

	.relation_size = table_block_relation_size,
	.relation_needs_toast_table = zheap_needs_toast_table,
	.relation_toast_am = zheap_toast_am,
	.relation_fetch_toast_slice = zheap_chunk_fetch,

	.relation_estimate_size = zheap_estimate_size,

	.scan_bitmap_next_tuple = zheap_scan_bitmap_next_tuple,
	.scan_sample_next_block = zheap_scan_sample_next_block,
	.scan_sample_next_tuple = zheap_scan_sample_next_tuple
};

Datum
zheap_handler(PG_FUNCTION_ARGS)
{
	zheap_guard_process();
	PG_RETURN_POINTER(&zheap_methods);
}
