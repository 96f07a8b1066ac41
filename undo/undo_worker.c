/*-------------------------------------------------------------------------
 *
 * undo_worker.c
 *	  Background workers of the undo store.
 *
 * The launcher is connected to no database.  It makes the discard passes and
 * starts a rollback worker for each database in which a pass found unapplied
 * aborted runs.  Rollback workers are connected: the catalog decides whether
 * a relation still exists, and a lock keeps it from going while its pages are
 * changed.  Correctness rests on the logs alone; wake-ups only save time.
 *
 * A rollback worker stands in nobody's way: it takes relation locks only if
 * they are free, for about a tenth of a second, and has core treat it as it
 * treats autovacuum, which is cancelled by any backend that waits for its
 * locks, and terminated for DROP DATABASE.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "portability/instr_time.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "undo/undo_debug.h"
#include "undo/undo.h"
#include "undo/undo_log.h"
#include "undo/undo_worker.h"

/* settings */
static int	undo_discard_naptime = 200;
static int	undo_max_rollback_workers = 2;
bool		undo_rollback_paused = false;

/* the launcher sleeps no longer than this, however quiet it is */
#define MAX_NAP_MS				UNDO_KNOB("max-nap", 2000, 1, 2000)

/* nor longer than this when it is busy (assert builds) */
#define DISCARD_NAP_MS			UNDO_KNOB("discard-nap", PG_INT32_MAX, 1, 200)

/* rollback workers */
#define BATCH_MS				UNDO_KNOB("batch-ms", 100, 1, 100)
#define WORKER_IDLE_MS			UNDO_KNOB("worker-idle", 5000, 10, 5000)
#define WORKER_NAP_MS			UNDO_KNOB("worker-nap", 500, 1, 500)
#define WORKER_BUSY_NAP_MS		UNDO_KNOB("worker-busy-nap", 100, 1, 100)

/* a database whose worker failed to start or died is left for so long */
#define DATABASE_RETRY_MS		UNDO_KNOB("database-retry", 1000, 10, 1000)
#define MAX_WORKERS				64

/*
 * At this age of an aborted writer that isn't rolled back the operator is
 * told.  It keeps relfrozenxid of all tables from being advanced.
 */
#define WARN_AGE				50000000

/* runs that failed are tried again after 1 s, 2 s, 4 s, .. 5 min */
#define MAX_FAILURES			256
#define FIRST_RETRY_MS			UNDO_KNOB("first-retry", 1000, 10, 1000)
#define LAST_RETRY_MS			UNDO_KNOB("last-retry", 300000, 10, 300000)

/* lock tag that makes a rollback worker the only one of its database */
#define WORKER_LOCK_KEY			0x5A48

typedef struct KnownWorker
{
	Oid			dboid;			/* InvalidOid: not in use */
	BackgroundWorkerHandle *handle; /* NULL: not running */
	TimestampTz started;
	TimestampTz not_before;
} KnownWorker;

typedef struct FailedRun
{
	UndoRecPtr	urp;			/* of its header */
	char		persistence;
	int			failures;
	TimestampTz not_before;
} FailedRun;

/* launcher */
static KnownWorker known_workers[MAX_WORKERS];

/* rollback worker */
static FailedRun failed_runs[MAX_FAILURES];
static int	nfailed = 0;
static UndoRecPtr current_run = InvalidUndoRecPtr;
static char current_persistence;

/* ----------------------------------------------------------------
 *	settings and registration
 * ----------------------------------------------------------------
 */

/* Called once, from _PG_init. */
void
undo_worker_define_settings(void)
{
	DefineCustomIntVariable("zheap.discard_naptime",
							"Time between two passes over the undo logs.",
							"When there is nothing to do the time grows to two seconds.",
							&undo_discard_naptime,
							200, 10, 60000,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.max_rollback_workers",
							"Maximum number of background workers that roll back aborted transactions.",
							"They are taken from max_worker_processes.",
							&undo_max_rollback_workers,
							2, 0, MAX_WORKERS,
							PGC_SIGHUP,
							0,
							NULL, NULL, NULL);
	DefineCustomBoolVariable("zheap.rollback_paused",
							 "Stops the background rollback of aborted transactions.",
							 "For tests: undo is kept, and the horizon with it, until this is off again.",
							 &undo_rollback_paused,
							 false,
							 PGC_SIGHUP,
							 GUC_NOT_IN_SAMPLE,
							 NULL, NULL, NULL);
}

/*
 * Single-user mode has no launcher and no workers: do their work before the
 * first commit and then now and then, where an ERROR still rolls back.
 */
static void
single_user_callback(XactEvent event, void *arg)
{
	static int	commits = 0;
	UndoScanResult result;

	if (event != XACT_EVENT_PRE_COMMIT || IsBootstrapProcessingMode() ||
		(MyProc->statusFlags & PROC_IN_VACUUM) || commits++ % 100 != 0)
		return;
	if (!undo_rollback_paused)
		undo_worker_rollback_here();
	undo_discard_pass(true, &result);
}

/* Called from _PG_init while libraries are preloaded. */
void
undo_worker_register(void)
{
	BackgroundWorker worker;

#ifdef USE_ASSERT_CHECKING
	undo_debug_wake_launcher = undo_log_wake_launcher;
	undo_debug_roll_back = undo_worker_rollback_here;
#endif
	if (!IsUnderPostmaster && !IsPostmasterEnvironment)
	{
		RegisterXactCallback(single_user_callback, NULL);
		return;
	}

	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = 1;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, UNDO_LIBRARY_NAME);
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "undo_launcher_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "undo launcher");
	snprintf(worker.bgw_type, BGW_MAXLEN, "undo launcher");
	RegisterBackgroundWorker(&worker);
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

static void
nap(long milliseconds)
{
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 milliseconds, PG_WAIT_EXTENSION);
	ResetLatch(MyLatch);
	check_for_exit();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
}

/* ----------------------------------------------------------------
 *	launcher: workers
 * ----------------------------------------------------------------
 */

static bool
worker_is_running(KnownWorker *known)
{
	pid_t		pid;

	if (known->handle == NULL)
		return false;
	switch (GetBackgroundWorkerPid(known->handle, &pid))
	{
		case BGWH_STARTED:
		case BGWH_NOT_YET_STARTED:
			return true;
		default:
			break;
	}
	pfree(known->handle);
	known->handle = NULL;
	known->not_before =
		TimestampTzPlusMilliseconds(known->started, DATABASE_RETRY_MS);
	return false;
}

static KnownWorker *
find_worker(Oid dboid)
{
	KnownWorker *unused = NULL;

	for (int i = 0; i < MAX_WORKERS; i++)
	{
		if (known_workers[i].dboid == dboid)
			return &known_workers[i];
		if (unused == NULL && known_workers[i].handle == NULL)
			unused = &known_workers[i];
	}
	if (unused != NULL)
	{
		memset(unused, 0, sizeof(KnownWorker));
		unused->dboid = dboid;
	}
	return unused;
}

static void
start_worker(KnownWorker *known)
{
	static bool warned = false;
	BackgroundWorker worker;
	MemoryContext old;

	Assert(OidIsValid(known->dboid));
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(known->dboid);
	worker.bgw_notify_pid = MyProcPid;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, UNDO_LIBRARY_NAME);
	snprintf(worker.bgw_function_name, BGW_MAXLEN,
			 "undo_rollback_worker_main");
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 "undo rollback worker for database %u",
			 known->dboid);
	snprintf(worker.bgw_type, BGW_MAXLEN, "undo rollback worker");

	known->started = GetCurrentTimestamp();
	old = MemoryContextSwitchTo(TopMemoryContext);
	if (RegisterDynamicBackgroundWorker(&worker, &known->handle))
		warned = false;
	else
	{
		known->handle = NULL;
		known->not_before =
			TimestampTzPlusMilliseconds(known->started, DATABASE_RETRY_MS);
		if (!warned)
			ereport(WARNING,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("out of background worker slots for the rollback of aborted transactions"),
					 errhint("You might need to increase max_worker_processes.")));
		warned = true;
	}
	MemoryContextSwitchTo(old);
}

/*
 * Does the database exist?  A half-dropped one counts as gone.
 */
static bool
database_exists(Oid dboid)
{
	MemoryContext old = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;
	bool		found = false;

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (!found &&
		   HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		found = form->oid == dboid && !database_is_invalid_form(form);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PopActiveSnapshot();
	CommitTransactionCommand();
	MemoryContextSwitchTo(old);
	CurrentResourceOwner = owner;
	return found;
}

/* all unapplied runs of a page that belong to a database that is gone */
static bool
forget_page(char persistence, UndoLogNumber log, BlockNumber block, Page page,
			uint16 from, void *arg)
{
	Oid			dboid = *(Oid *) arg;
	Fxid		u = undo_log_horizons().all_visible_before;
	UndoRunMark marks[UNDO_PAGE_MAX_ENTRIES];
	int			nmarks = 0;
	UndoEntry	entry;

	for (uint16 at = from; at < ((PageHeader) page)->pd_lower; at += entry.len)
	{
		if (!undo_page_get(page, at, &entry) || entry.len == 0)
			break;				/* reported by the scan */
		if (entry.kind == UNDO_KIND_RUN && entry.dboid == dboid &&
			undo_discard_run_is_unapplied(&entry, u))
		{
			marks[nmarks].offset = at;
			marks[nmarks++].writer = entry.fxid;
		}
	}
	undo_log_mark_applied(persistence, log, block,
						  UndoPageGetOpaque(page)->seq, marks, nmarks);
	return true;
}

/*
 * Start workers for the databases that a pass found.  A worker that ended at
 * once may have found no database to connect to.
 */
static void
start_workers(const UndoScanResult *found)
{
	TimestampTz now = GetCurrentTimestamp();
	int			running = 0;

	for (int i = 0; i < MAX_WORKERS; i++)
		if (worker_is_running(&known_workers[i]))
			running++;
	if (undo_rollback_paused)
		return;

	for (int i = 0; i < found->ndatabases; i++)
	{
		Oid			dboid = found->databases[i];
		KnownWorker *known = find_worker(dboid);

		if (known == NULL || known->handle != NULL || now < known->not_before)
			continue;
		if (!database_exists(dboid))
		{
			(void) undo_discard_visit_unapplied(dboid, forget_page, &dboid);
			continue;
		}
		if (running >= undo_max_rollback_workers)
		{
			known->not_before =
				TimestampTzPlusMilliseconds(now, DATABASE_RETRY_MS);
			continue;
		}
		start_worker(known);
		if (known->handle != NULL)
			running++;
	}
}

/* ----------------------------------------------------------------
 *	launcher: main loop
 * ----------------------------------------------------------------
 */

/* tell of an aborted writer that can't be rolled back, once */
static void
warn_of_old_rollback(Fxid oldest_unapplied)
{
	static Fxid told = InvalidFxid;
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (oldest_unapplied == InvalidFxid || oldest_unapplied == told ||
		next - oldest_unapplied <= WARN_AGE)
		return;
	told = oldest_unapplied;
	ereport(WARNING,
			(errmsg("transaction " UINT64_FORMAT " was aborted long ago and is not rolled back yet",
					oldest_unapplied),
			 errdetail("Undo and the commit log are kept until it is, and VACUUM cannot advance relfrozenxid of zheap tables."),
			 errhint("Look for earlier messages of the rollback workers, and at zheap.rollback_paused and zheap.max_rollback_workers.")));
}

static void
launcher_exit(int code, Datum arg)
{
	UndoShmem->launcher_latch = NULL;
	UndoShmem->launcher_pid = 0;
}

/* one round; may throw */
static bool
launcher_round(void)
{
	UndoScanResult result;

	undo_discard_pass(false, &result);
	warn_of_old_rollback(result.oldest_unapplied);
	start_workers(&result);
	return result.discarded || result.retained > 0 || result.ndatabases > 0;
}

/* after an error in a round: what AbortTransaction() would do */
static void
launcher_recover(ResourceOwner owner)
{
	HOLD_INTERRUPTS();
	EmitErrorReport();
	if (IsTransactionState())
		AbortCurrentTransaction();
	LWLockReleaseAll();
	ConditionVariableCancelSleep();
	pgstat_report_wait_end();
	AbortBufferIO();
	UnlockBuffers();
	XLogResetInsertion();
	LockErrorCleanup();
	CurrentResourceOwner = owner;
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, true);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, true);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, true);
	FlushErrorState();
	RESUME_INTERRUPTS();
}

void
undo_launcher_main(Datum arg)
{
	MemoryContext context;
	ResourceOwner owner;
	volatile long naptime;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);

	before_shmem_exit(launcher_exit, 0);
	UndoShmem->launcher_pid = MyProcPid;
	UndoShmem->launcher_latch = MyLatch;

	owner = ResourceOwnerCreate(NULL, "undo launcher");
	CurrentResourceOwner = owner;
	context = AllocSetContextCreate(TopMemoryContext, "undo launcher",
									ALLOCSET_DEFAULT_SIZES);
	naptime = undo_discard_naptime;

	for (;;)
	{
		volatile bool busy = false;

		MemoryContextSwitchTo(context);
		MemoryContextReset(context);
		PG_TRY();
		{
			busy = launcher_round();
			naptime = busy ? Min(undo_discard_naptime, DISCARD_NAP_MS) :
				Max(undo_discard_naptime, Min(naptime * 2, MAX_NAP_MS));
		}
		PG_CATCH();
		{
			MemoryContextSwitchTo(context);
			launcher_recover(owner);
			naptime = Max(undo_discard_naptime, MAX_NAP_MS);
		}
		PG_END_TRY();
		nap(naptime);
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
	RUN_GONE					/* the aborting backend has done it */
} RunOutcome;

/* a batch in progress */
typedef struct Batch
{
	instr_time	start;
	Fxid		u;
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
	*failed = failed_runs[--nfailed];
}

/*
 * After an error: try this run later, ever later.  If too many fail the one
 * that is due first makes room; it will merely be tried sooner.
 */
static void
remember_failed(char persistence, UndoRecPtr urp)
{
	FailedRun  *failed = find_failed(persistence, urp);
	int			delay = FIRST_RETRY_MS;

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
		failed->persistence = persistence;
		failed->urp = urp;
		failed->failures = 0;
	}
	for (int i = 0; i < failed->failures && delay < LAST_RETRY_MS; i++)
		delay *= 2;
	failed->failures++;
	failed->not_before =
		TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
									Min(delay, LAST_RETRY_MS));
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
 * the run describes doesn't exist any more.
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

/* Is the run, copied some time ago, still there and still not applied? */
static bool
run_is_still_there(char persistence, UndoRecPtr urp, const UndoEntry *run,
				   uint64 seq)
{
	UndoLogNumber log = UndoRecPtrGetLog(urp);
	BlockNumber block = UndoRecPtrGetBlock(urp);
	UndoLogShared *shared = undo_shmem_log(persistence, log);
	Buffer		buffer;
	Page		page;
	UndoEntry	now;
	bool		result;

	if (block >= pg_atomic_read_u32(&shared->used_blocks))
		return false;
	buffer = undo_file_read_log(persistence, log, block);
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
	BlockNumber end;

	Assert(run->kind == UNDO_KIND_RUN && OidIsValid(MyDatabaseId));
	if (failed != NULL && GetCurrentTimestamp() < failed->not_before)
		return RUN_LATER;

	/*
	 * The aborting backend holds its xid lock until its own rollback is over:
	 * leave it that.  The xid of a released savepoint has no lock any more,
	 * so that both may be at work; that is for nothing, but does no harm.
	 */
	if (!ConditionalXactLockTableWait(XidFromFxid(run->fxid)))
		return RUN_LATER;
	UNDO_POINT("run-lock-free");
	if (!run_is_still_there(persistence, urp, run, seq))
		return RUN_GONE;

	open_batch_relation(batch, run->reloid);
	if (batch->locked_out)
		return RUN_LATER;
	if (batch->rel != NULL)
	{
		current_run = urp;
		current_persistence = persistence;
		qsort(blocks, nblocks, sizeof(BlockNumber), compare_blocks);
		end = RelationGetNumberOfBlocks(batch->rel);
		for (int i = 0; i < nblocks; i++)
		{
			if (i > 0 && blocks[i] == blocks[i - 1])
				continue;
			if (blocks[i] >= end)
				break;			/* truncated away */
			CHECK_FOR_INTERRUPTS();
			undo_apply_page(batch->rel, blocks[i]);
		}
		current_run = InvalidUndoRecPtr;
	}
	if (failed != NULL)
		forget_failed(failed);
	return RUN_DONE;
}

/* ----------------------------------------------------------------
 *	rollback worker: one undo page, one batch
 * ----------------------------------------------------------------
 */

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

			switch (roll_back_run(batch, persistence, urp, &run,
								  UndoPageGetOpaque(page)->seq,
								  blocks, nblocks))
			{
				case RUN_DONE:
					marks[nmarks].offset = run.at;
					marks[nmarks++].writer = run.fxid;
					break;
				case RUN_LATER:
					batch->remaining = true;
					break;
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
				undo_discard_run_is_unapplied(&entry, batch->u);
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
	current_run = InvalidUndoRecPtr;
	PushActiveSnapshot(GetTransactionSnapshot());
	INSTR_TIME_SET_CURRENT(batch->start);
	batch->u = undo_log_horizons().all_visible_before;
	UNDO_POINT("batch-horizon");
	if (!undo_discard_visit_unapplied(MyDatabaseId, roll_back_undo_page,
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
 * out of the way.
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
	if (error->sqlerrcode != ERRCODE_QUERY_CANCELED)
	{
		if (current_run != InvalidUndoRecPtr)
		{
			remember_failed(current_persistence, current_run);
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

void
undo_rollback_worker_main(Datum arg)
{
	MemoryContext context;
	TimestampTz last_work;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);

	/* core cancels and terminates us where it would an autovacuum worker */
	set_status_flag(PROC_IS_AUTOVACUUM);

	if (!is_only_worker())
		proc_exit(0);

	context = AllocSetContextCreate(TopMemoryContext, "undo rollback worker",
									ALLOCSET_DEFAULT_SIZES);
	last_work = GetCurrentTimestamp();
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
		else if (TimestampDifferenceExceeds(last_work, GetCurrentTimestamp(),
											WORKER_IDLE_MS))
			break;

		if (finished > 0)
		{
			/* what was held by these runs may go */
			undo_log_wake_launcher();
			nap(remaining ? 1 : WORKER_NAP_MS);
		}
		else
			nap(remaining ? WORKER_BUSY_NAP_MS : WORKER_NAP_MS);
	}
	proc_exit(0);
}
