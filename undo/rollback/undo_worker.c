/*-------------------------------------------------------------------------
 *
 * undo_worker.c
 *	  The rollback worker: one process per database that has something to be
 *	  rolled back, started by the launcher (undo_launcher.c).
 *
 * Rollback workers are connected: the catalog decides whether a relation still
 * exists, and a lock keeps it from going while its pages are changed.
 * Correctness rests on the logs alone; wake-ups only save time.
 *
 * A rollback worker stands in nobody's way: it takes relation locks only if
 * they are free, for about a tenth of a second, and has core treat it as it
 * treats autovacuum, which is cancelled by any backend that waits for its
 * locks, and terminated for DROP DATABASE.  While other databases wait for a
 * worker it ends when it has nothing to do, when it makes no progress, and
 * after a turn.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "undo/discard/undo_scan.h"
#include "undo/log/undo_files.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_log_trim.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_stat.h"
#include "undo/rollback/undo_apply.h"
#include "undo/rollback/undo_worker.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* setting */
bool		undo_rollback_paused = false;

/* rollback workers */
#define BATCH_MS				UNDO_KNOB("batch-ms", 100, 1, 100)
#define WORKER_IDLE_MS			UNDO_KNOB("worker-idle", 5000, 10, 5000)
#define WORKER_NAP_MS			UNDO_KNOB("worker-nap", 500, 1, 500)
#define WORKER_BUSY_NAP_MS		UNDO_KNOB("worker-busy-nap", 100, 1, 100)

/* while others wait: without work for so long, without progress, or at most */
#define WORKER_LINGER_MS		UNDO_KNOB("worker-linger", 600, 0, 600)
#define WORKER_STUCK_MS			UNDO_KNOB("worker-stuck", 1000, 10, 1000)
#define WORKER_TURN_MS			UNDO_KNOB("worker-turn", 60000, 100, 60000)

/* runs that failed are tried again after 1 s, 2 s, 4 s, .. 5 min */
#define MAX_FAILURES			256
#define FIRST_RETRY_MS			UNDO_KNOB("first-retry", 1000, 10, 1000)
#define LAST_RETRY_MS			UNDO_KNOB("last-retry", 300000, 10, 300000)

/* lock tag that makes a rollback worker the only one of its database */
#define WORKER_LOCK_KEY			0x5A48

typedef struct FailedRun
{
	UndoRecPtr	urp;			/* of its header */
	char		persistence;
	int			failures;
	TimestampTz not_before;
} FailedRun;

static FailedRun failed_runs[MAX_FAILURES];
static int	nfailed = 0;
static UndoRecPtr current_run = InvalidUndoRecPtr;
static Fxid current_writer;
static Oid	current_reloid;
static char current_persistence;

/*
 * See undo_worker.h.  As autovacuum does, which the settings of a server or a
 * database are not meant for, either.
 */
void
undo_worker_reset_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", ""},
		{"exit_on_error", "off"},
		{"zero_damaged_pages", "off"},
		{"ignore_checksum_failure", "off"},
		{"statement_timeout", "0"},
		{"lock_timeout", "10s"},	/* for who keeps a catalog locked */
		{"idle_in_transaction_session_timeout", "0"},
		{"transaction_timeout", "0"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_read_only", "off"},
		{"default_transaction_deferrable", "off"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		/* some are younger than other servers */
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			SetConfigOption(settings[i][0], settings[i][1],
							PGC_SUSET, PGC_S_OVERRIDE);
}

static void
set_status_flag(uint8 flag)
{
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags |= flag;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

/*
 * A terminated worker ends at a safe place, and without the FATAL message
 * that CHECK_FOR_INTERRUPTS() would leave in the log at each shutdown.  Not
 * with 0: then the launcher would not come back.
 */
static void
check_for_exit(void)
{
	if (ProcDiePending)
		proc_exit(1);
	QueryCancelPending = false; /* nothing left to cancel */
	CHECK_FOR_INTERRUPTS();
}

/* See undo_worker.h. */
void
undo_worker_nap(long milliseconds, UndoWait wait)
{
	AssertNoPageLocked();
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 milliseconds, undo_wait_event(wait));
	ResetLatch(MyLatch);
	check_for_exit();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* ----------------------------------------------------------------
 *	rollback worker: one run
 * ----------------------------------------------------------------
 */

typedef enum RunOutcome
{
	RUN_DONE,
	RUN_LATER,					/* locked, or failed a short time ago */
	RUN_HELD,					/* undo_worker_run_is_held() */
	RUN_GONE					/* the aborting backend has done it */
} RunOutcome;

/* a batch in progress */
typedef struct Batch
{
	instr_time	start;
	Fxid		all_visible_before;
	int			finished;
	bool		remaining;
	Oid			reloid;			/* relation open now, or known to be gone */
	Relation	rel;
	bool		locked_out;		/* its lock was not to be had */
} Batch;

static FailedRun *
find_failed(char persistence, UndoRecPtr urp)
{
	for (int i = 0; i < nfailed; i++)
		if (failed_runs[i].urp == urp &&
			failed_runs[i].persistence == persistence)
			return &failed_runs[i];
	return NULL;
}

static void
forget_failed(FailedRun *failed)
{
	Assert(nfailed > 0 && failed >= failed_runs &&
		   failed < failed_runs + nfailed);
	*failed = failed_runs[--nfailed];
}

/* See undo_worker.h. */
TimestampTz
undo_worker_retry_at(TimestampTz from, int failures, int first_ms,
					 int last_ms)
{
	int			delay = first_ms;

	for (int i = 0; i < failures && delay < last_ms; i++)
		delay *= 2;
	return TimestampTzPlusMilliseconds(from, Min(delay, last_ms));
}

/*
 * After an error: try this run later, ever later.  If too many fail the one
 * that is due first makes room; it will merely be tried sooner.
 */
static void
remember_failed(char persistence, UndoRecPtr urp)
{
	FailedRun  *failed = find_failed(persistence, urp);

	if (failed == NULL)
	{
		if (nfailed >= UNDO_KNOB("failed-runs", MAX_FAILURES, 1, MAX_FAILURES))
		{
			int			first = 0;

			for (int i = 1; i < nfailed; i++)
				if (failed_runs[i].not_before < failed_runs[first].not_before)
					first = i;
			forget_failed(&failed_runs[first]);
		}
		failed = &failed_runs[nfailed++];
		Assert(nfailed <= MAX_FAILURES);
		failed->persistence = persistence;
		failed->urp = urp;
		failed->failures = 0;
	}
	failed->not_before =
		undo_worker_retry_at(GetCurrentTimestamp(), failed->failures++,
							 FIRST_RETRY_MS, LAST_RETRY_MS);
}

static void
close_batch_relation(Batch *batch)
{
	if (batch->rel != NULL)
		relation_close(batch->rel, AccessShareLock);
	batch->rel = NULL;
	batch->reloid = InvalidOid;
	batch->locked_out = false;
}

/*
 * Open the relation of a run, without waiting.  A relation that is gone, has
 * no storage or belongs to another access method leaves batch->rel NULL: what
 * the run describes doesn't exist any more.  One that this process itself has
 * locked against all others counts as locked: it may have another file now, and
 * its old one again when the transaction aborts.
 */
static void
open_batch_relation(Batch *batch, Oid reloid)
{
	Assert(IsTransactionState());
	if (batch->reloid == reloid)
		return;
	close_batch_relation(batch);
	batch->reloid = reloid;
	if (!ConditionalLockRelationOid(reloid, AccessShareLock))
	{
		batch->locked_out = true;
		return;
	}
	batch->rel = try_relation_open(reloid, NoLock);
	if (batch->rel == NULL)
	{
		UnlockRelationOid(reloid, AccessShareLock);
		return;
	}
	if (CheckRelationLockedByMe(batch->rel, AccessExclusiveLock, true))
	{
		relation_close(batch->rel, AccessShareLock);
		batch->rel = NULL;
		batch->locked_out = true;
		return;
	}
	if (!RELKIND_HAS_TABLE_AM(batch->rel->rd_rel->relkind) ||
		!OidIsValid(batch->rel->rd_rel->relam) ||
		batch->rel->rd_rel->relam != undo_apply_client_am())
	{
		relation_close(batch->rel, AccessShareLock);
		batch->rel = NULL;
	}
}

static int
compare_blocks(const void *a, const void *b)
{
	BlockNumber x = *(const BlockNumber *) a;
	BlockNumber y = *(const BlockNumber *) b;

	return x < y ? -1 : (x > y ? 1 : 0);
}

uint32
undo_worker_apply_pages(Relation rel, BlockNumber *blocks, int nblocks)
{
	BlockNumber end = RelationGetNumberOfBlocks(rel);
	uint32		npages = 0;

	AssertNoPageLocked();
	Assert(CheckRelationLockedByMe(rel, AccessShareLock, true));
	qsort(blocks, nblocks, sizeof(BlockNumber), compare_blocks);
	for (int i = 0; i < nblocks; i++)
	{
		if (i > 0 && blocks[i] == blocks[i - 1])
			continue;
		if (blocks[i] >= end)
			break;				/* truncated away */
		Assert(i == 0 || blocks[i - 1] < blocks[i]);
		CHECK_FOR_INTERRUPTS();
		undo_apply_page(rel, blocks[i]);
		npages++;
	}
	return npages;
}

/* See undo_worker.h. */
bool
undo_worker_run_is_held(Fxid writer)
{
	return pg_atomic_read_u32(&UndoShmem->copies_done) == 0 &&
		writer < pg_atomic_read_u64(&UndoShmem->held_before);
}

/* Is the run, copied some time ago, still there and still not applied? */
static bool
run_is_still_there(char persistence, UndoRecPtr urp, const UndoEntry *run,
				   uint64 seq)
{
	UndoLogNumber log = UndoRecPtrGetLog(urp);
	BlockNumber block = UndoRecPtrGetBlock(urp);
	Buffer		buffer = undo_file_read_used(persistence, log, block);
	Page		page;
	UndoEntry	now;
	bool		result;

	Assert(run->kind == UNDO_KIND_RUN && seq > 0);
	if (!BufferIsValid(buffer))
		return false;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	result = undo_page_problem(page, UNDO_PAGE_MAGIC) == NULL &&
		UndoPageGetOpaque(page)->seq == seq &&
		undo_page_get(page, UndoRecPtrGetOffset(urp), &now) &&
		now.kind == UNDO_KIND_RUN && now.fxid == run->fxid &&
		(now.flags & UNDO_RUN_APPLIED) == 0;
	UnlockReleaseBuffer(buffer);
	UNDO_POINT("run-looked-at");
	return result;
}

/* What pg_stat_activity shows as our query. */
static void
report_activity(Relation rel, Fxid fxid)
{
	static Fxid told_fxid = InvalidFxid;
	static Oid	told_reloid = InvalidOid;
	char text[	NAMEDATALEN + 100];

	if (MyBgworkerEntry == NULL ||
		(fxid == told_fxid && RelationGetRelid(rel) == told_reloid))
		return;
	told_fxid = fxid;
	told_reloid = RelationGetRelid(rel);
	snprintf(text, sizeof(text),
			 "rolling back transaction " UINT64_FORMAT " in table \"%s\"",
			 fxid, RelationGetRelationName(rel));
	pgstat_report_activity(STATE_RUNNING, text);
}

/*
 * Roll back the pages of one run.  Throws what the client throws; current_run
 * tells the catcher which run it was.
 */
static RunOutcome
roll_back_run(Batch *batch, char persistence, UndoRecPtr urp,
			  const UndoEntry *run, uint64 seq,
			  BlockNumber *blocks, int nblocks)
{
	FailedRun  *failed = find_failed(persistence, urp);
	uint32		npages = 0;

	Assert(run->kind == UNDO_KIND_RUN && OidIsValid(MyDatabaseId));
	if (failed != NULL && GetCurrentTimestamp() < failed->not_before)
		return RUN_LATER;

	/*
	 * The aborting backend holds its xid lock until its own rollback is over:
	 * leave it that.  The xid of a released savepoint has no lock any more,
	 * so that both may be at work; that is for nothing, but does no harm.
	 */
	if (!ConditionalXactLockTableWait(XidFromFxid(run->fxid), false))
		return RUN_LATER;
	UNDO_POINT("run-lock-free");
	if (!run_is_still_there(persistence, urp, run, seq))
		return RUN_GONE;

	Assert(run->dboid == MyDatabaseId);
	if (undo_worker_run_is_held(run->fxid))
	{
		undo_stat_report_run(run->fxid, run->dboid, run->reloid,
							 UNDO_ROLLBACK_HELD, 0, NULL);
		return RUN_HELD;
	}
	open_batch_relation(batch, run->reloid);
	if (batch->locked_out)
	{
		undo_stat_report_run(run->fxid, run->dboid, run->reloid,
							 UNDO_ROLLBACK_LOCKED_OUT, 0, NULL);
		return RUN_LATER;
	}
	if (batch->rel != NULL)
	{
		current_run = urp;
		current_writer = run->fxid;
		current_reloid = run->reloid;
		current_persistence = persistence;
		report_activity(batch->rel, run->fxid);
		npages = undo_worker_apply_pages(batch->rel, blocks, nblocks);
		current_run = InvalidUndoRecPtr;
	}
	undo_stat_report_run(run->fxid, run->dboid, run->reloid,
						 UNDO_ROLLBACK_RUNNING, npages, NULL);
	if (failed != NULL)
		forget_failed(failed);
	return RUN_DONE;
}

/* ----------------------------------------------------------------
 *	rollback worker: one undo page, one batch
 * ----------------------------------------------------------------
 */

/*
 * Were entries added to the undo page since it was copied?  The last run of the
 * copy may have been its running writer's, who went on before it aborted.
 */
static bool
page_has_grown(char persistence, UndoLogNumber log, BlockNumber block,
			   Page copy)
{
	Buffer		buffer = undo_file_read_used(persistence, log, block);
	Page		page;
	bool		grown;

	if (!BufferIsValid(buffer))
		return true;
	page = BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	grown = ((PageHeader) page)->pd_lower != ((PageHeader) copy)->pd_lower ||
		UndoPageGetOpaque(page)->seq != UndoPageGetOpaque(copy)->seq;
	UnlockReleaseBuffer(buffer);
	return grown;
}

/*
 * Visitor: the unapplied runs of this database on one undo page.
 */
static bool
roll_back_undo_page(char persistence, UndoLogNumber log, BlockNumber block,
					Page page, uint16 from, void *arg)
{
	Batch	   *batch = arg;
	uint16		lower = ((PageHeader) page)->pd_lower;
	UndoRunMark marks[UNDO_PAGE_MAX_ENTRIES];
	BlockNumber blocks[UNDO_PAGE_MAX_ENTRIES];
	int			nmarks = 0;
	int			nblocks = 0;
	uint16		at = from;
	UndoEntry	entry;
	UndoEntry	run = {0};
	bool		in_run = false;
	instr_time	now;

	Assert(from >= UNDO_FIRST_OFFSET || undo_debug_damage);
	while (at <= lower)
	{
		bool		valid = at < lower;

		if (valid && (!undo_page_get(page, at, &entry) || entry.len == 0))
			elog(ERROR, "malformed entry in undo log %u, block %u, offset %u",
				 log, block, at);

		/* a run ends before the next one and at the end of the page */
		if (in_run && (!valid || entry.kind == UNDO_KIND_RUN))
		{
			UndoRecPtr	urp = MakeUndoRecPtr(log, block, run.at);

			if (!valid && page_has_grown(persistence, log, block, page))
			{
				batch->remaining = true;
				break;
			}
			switch (roll_back_run(batch, persistence, urp, &run,
								  UndoPageGetOpaque(page)->seq,
								  blocks, nblocks))
			{
				case RUN_DONE:
					Assert(nmarks < UNDO_PAGE_MAX_ENTRIES);
					marks[nmarks].offset = run.at;
					marks[nmarks++].writer = run.fxid;
					break;
				case RUN_LATER:
					batch->remaining = true;
					break;
				case RUN_HELD:
				case RUN_GONE:
					break;
			}
			in_run = false;
		}
		if (!valid)
			break;
		if (entry.kind == UNDO_KIND_RUN)
		{
			run = entry;
			run.at = at;
			in_run = entry.dboid == MyDatabaseId &&
				undo_scan_run_is_unapplied(&entry, batch->all_visible_before);
			nblocks = 0;
		}
		else if (in_run)
			blocks[nblocks++] = entry.block;
		at += entry.len;
	}

	if (nmarks > 0)
	{
		UNDO_POINT("mark-by-worker");
		undo_log_mark_applied(persistence, log, block,
							  UndoPageGetOpaque(page)->seq, marks, nmarks);
		batch->finished += nmarks;
	}

	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, batch->start);
	return INSTR_TIME_GET_MILLISEC(now) <= BATCH_MS;
}

static void
run_batch(Batch *batch)
{
	Assert(IsTransactionState() && OidIsValid(MyDatabaseId));
	current_run = InvalidUndoRecPtr;
	PushActiveSnapshot(GetTransactionSnapshot());
	INSTR_TIME_SET_CURRENT(batch->start);
	batch->all_visible_before = undo_log_horizons().all_visible_before;
	UNDO_POINT("batch-horizon");
	if (!undo_scan_visit_unapplied(MyDatabaseId, roll_back_undo_page,
								   batch))
		batch->remaining = true;
	close_batch_relation(batch);
	PopActiveSnapshot();
}

/* See undo_worker.h. */
void
undo_worker_rollback_here(void)
{
	Batch		batch;

	if (pg_atomic_read_u32(&UndoShmem->copies_done) == 0)
		return;
	do
	{
		memset(&batch, 0, sizeof(batch));
		run_batch(&batch);
	} while (batch.remaining && batch.finished > 0);
}

/*
 * See undo_worker.h.  Called outside a transaction; uses one of its own,
 * which has no xid.  Throws: the caller aborts the transaction.
 */
int
undo_worker_rollback_batch(bool *remaining)
{
	Batch		batch = {0};

	Assert(!IsTransactionState() && CritSectionCount == 0);
	SetCurrentStatementStartTimestamp();
	StartTransactionCommand();
	run_batch(&batch);
	CommitTransactionCommand();

	*remaining = batch.remaining;
	return batch.finished;
}

/* ----------------------------------------------------------------
 *	rollback worker: main loop
 * ----------------------------------------------------------------
 */

/*
 * Report a failed batch, and put its run off unless we were only asked to get
 * out of the way, or to end.
 */
static void
worker_recover(MemoryContext context)
{
	ErrorData  *error;

	MemoryContextSwitchTo(context);
	HOLD_INTERRUPTS();
	error = CopyErrorData();
	FlushErrorState();
	AbortOutOfAnyTransaction();
	MemoryContextSwitchTo(context);
	if (error->sqlerrcode != ERRCODE_QUERY_CANCELED &&
		error->sqlerrcode != ERRCODE_ADMIN_SHUTDOWN)
	{
		if (current_run != InvalidUndoRecPtr)
		{
			remember_failed(current_persistence, current_run);
			undo_stat_report_run(current_writer, MyDatabaseId, current_reloid,
								 UNDO_ROLLBACK_FAILED, 0,
								 error->message ? error->message :
								 "unknown error");
			ereport(WARNING,
					(errcode(error->sqlerrcode),
					 errmsg("could not roll back undo run " UndoRecPtrFormat ": %s",
							UndoRecPtrFormatArgs(current_run),
							error->message ? error->message : "unknown error"),
					 errdetail("It will be tried again.")));
		}
		else
			ereport(WARNING,
					(errcode(error->sqlerrcode),
					 errmsg("could not roll back in the background: %s",
							error->message ? error->message :
							"unknown error")));
	}
	current_run = InvalidUndoRecPtr;
	FreeErrorData(error);
	RESUME_INTERRUPTS();
}

/* Is there a database without a worker that could have this one's place? */
static bool
others_wait(void)
{
	return pg_atomic_read_u32(&UndoShmem->databases_waiting) > 0;
}

/*
 * The launcher may have lost count of its workers by a restart of its own.
 */
static bool
is_only_worker(void)
{
	LOCKTAG		tag;

	SET_LOCKTAG_ADVISORY(tag, MyDatabaseId, 0, 0, WORKER_LOCK_KEY);
	tag.locktag_type = LOCKTAG_USERLOCK;
	return LockAcquire(&tag, ExclusiveLock, true, true) !=
		LOCKACQUIRE_NOT_AVAIL;
}

/* Until there may be something to do; shorter while others wait. */
static void
idle_nap(void)
{
	for (long left = WORKER_NAP_MS; left > 0; left -= WORKER_BUSY_NAP_MS)
	{
		undo_worker_nap(Min(left, WORKER_BUSY_NAP_MS), UNDO_WAIT_WORKER);
		if (others_wait())
			break;
	}
}

/*
 * Is it time to end?  last_work: when there was something to do;
 * last_progress: when a run was finished.
 */
static bool
turn_is_over(TimestampTz start, TimestampTz last_work,
			 TimestampTz last_progress)
{
	TimestampTz now = GetCurrentTimestamp();

	if (!others_wait())
		return TimestampDifferenceExceeds(last_work, now, WORKER_IDLE_MS);
	return TimestampDifferenceExceeds(last_work, now, WORKER_LINGER_MS) ||
		TimestampDifferenceExceeds(last_progress, now,
								   WORKER_STUCK_MS) ||
		TimestampDifferenceExceeds(start, now, WORKER_TURN_MS);
}

void
undo_rollback_worker_main(Datum arg)
{
	MemoryContext context;
	TimestampTz start = GetCurrentTimestamp();
	TimestampTz last_work = start;
	TimestampTz last_progress = start;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	undo_worker_reset_settings();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);

	/* core cancels and terminates us where it would an autovacuum worker */
	set_status_flag(PROC_IS_AUTOVACUUM);

	if (!is_only_worker())
		proc_exit(0);

	context = AllocSetContextCreate(TopMemoryContext, "undo rollback worker",
									ALLOCSET_DEFAULT_SIZES);
	pgstat_report_activity(STATE_RUNNING, "rolling back aborted transactions");

	while (!undo_rollback_paused)
	{
		volatile bool remaining = true;
		volatile int finished = 0;

		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		PG_TRY();
		{
			bool		more;

			finished = undo_worker_rollback_batch(&more);
			remaining = more;
		}
		PG_CATCH();
		{
			worker_recover(context);
		}
		PG_END_TRY();

		if (finished > 0 || remaining)
			last_work = GetCurrentTimestamp();
		if (finished > 0)
		{
			last_progress = last_work;
			/* what was held by these runs may go */
			undo_log_wake_launcher();
		}
		if (turn_is_over(start, last_work, last_progress))
			break;
		if (!remaining)
			idle_nap();
		else
			undo_worker_nap(finished > 0 ? 1 : WORKER_BUSY_NAP_MS,
							UNDO_WAIT_WORKER);
	}
	proc_exit(0);
}
