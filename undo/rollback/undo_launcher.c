/*-------------------------------------------------------------------------
 *
 * undo_launcher.c
 *	  The launcher: discard passes, and a rollback worker for each database
 *	  that has something to be rolled back.
 *
 * The launcher is connected to no database.  It makes the discard passes and
 * starts a worker (undo_worker.c) for each database in which a pass found
 * unapplied aborted runs, as many at a time as the setting allows.  Of
 * databases that have no worker the one that waits longest comes first; while
 * any waits, workers without progress make place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/bgworker_internals.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/smgr.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/timestamp.h"

#include "undo/discard/undo_discard.h"
#include "undo/discard/undo_scan.h"
#include "undo/discard/undo_snapshot_limit.h"
#include "undo/log/undo_log.h"
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

/* settings */
static int	undo_discard_naptime = 200;
static int	undo_max_rollback_workers = 2;

#define LAUNCHER_NAME			"undo launcher"

/* the launcher sleeps no longer than this, however quiet it is */
#define MAX_NAP_MS				UNDO_KNOB("max-nap", 2000, 1, 2000)

/* nor longer than this when it is busy (assert builds) */
#define DISCARD_NAP_MS			UNDO_KNOB("discard-nap", PG_INT32_MAX, 1, 200)

/*
 * A worker that failed to start or died is started again so long after its
 * last start at the earliest, twice as long after each time, up to a limit; a
 * long life makes that good.
 */
#define DATABASE_RETRY_MS		UNDO_KNOB("database-retry", 1000, 10, 1000)
#define LAST_RETRY_MS			UNDO_KNOB("database-last-retry", 10000, 10, 10000)
#define LONG_LIFE_MS			10000

#define MAX_WORKERS				64

/* first size of an array */
#define DATABASES_START			UNDO_KNOB("databases-start", 16, 1, 16)

/*
 * At this age of an aborted writer that isn't rolled back the operator is
 * told.  It keeps relfrozenxid of all tables from being advanced.
 */
#define WARN_AGE				50000000

/* a database in which the last pass found something, or that has a worker */
typedef struct KnownDatabase
{
	Oid			dboid;
	bool		found;			/* by the last pass */
	bool		refused;		/* there was no process for its worker */
	BackgroundWorkerHandle *handle; /* NULL: not running */
	TimestampTz started;		/* last start of a worker; 0: never */
	TimestampTz not_before;
	int			short_lives;	/* of workers, in a row */
	int			lost;			/* looks in a row that didn't find its files */
} KnownDatabase;

static KnownDatabase *known = NULL;
static int	nknown = 0;
static int	maxknown = 0;

/* ----------------------------------------------------------------
 *	settings and registration
 * ----------------------------------------------------------------
 */

/* Called once, from _PG_init. */
void
undo_launcher_define_settings(void)
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
	DefineCustomIntVariable("zheap.log_rollback_min_duration",
							"Sets the minimum time above which rollbacks by background workers are logged.",
							"Zero logs all of them. -1 turns this off.",
							&undo_stat_log_rollback,
							-1, -1, INT_MAX,
							PGC_SIGHUP,
							GUC_UNIT_MS,
							NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.max_snapshot_undo_size",
							"Undo above which sessions whose snapshots keep it are made to give them up.",
							"Their statements fail with \"snapshot too old\"; sessions that are idle in a transaction are terminated. -1 means no limit.",
							&undo_snapshot_limit, -1, -1, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
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
	undo_survey_alone();
	if (!undo_rollback_paused)
		undo_worker_rollback_here();
	undo_discard_pass(true, &result);
}

/* Has the postmaster found room for the launcher? */
static bool
launcher_is_registered(void)
{
	CompatWorkerIter iter;

	CompatForeachWorker(iter)
	{
		if (strcmp(CompatWorkerOf(iter)->rw_worker.bgw_type,
				   LAUNCHER_NAME) == 0)
			return true;
	}
	return false;
}

/* Called from _PG_init while libraries are preloaded. */
void
undo_launcher_register(void)
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
	snprintf(worker.bgw_name, BGW_MAXLEN, LAUNCHER_NAME);
	snprintf(worker.bgw_type, BGW_MAXLEN, LAUNCHER_NAME);
	RegisterBackgroundWorker(&worker);
	if (!IsUnderPostmaster && !launcher_is_registered())
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there is no background worker slot for the undo launcher"),
				 errdetail("Undo is not discarded, and what is not rolled back at once stays so."),
				 errhint("Increase max_worker_processes and restart the server.")));
}

/* ----------------------------------------------------------------
 *	databases
 * ----------------------------------------------------------------
 */

static bool
worker_is_running(const KnownDatabase *db)
{
	pid_t		pid;
	BgwHandleStatus status;

	if (db->handle == NULL)
		return false;
	status = GetBackgroundWorkerPid(db->handle, &pid);
	return status == BGWH_STARTED || status == BGWH_NOT_YET_STARTED;
}

/* Forget a worker that has ended, and tell when there may be another one. */
static void
bury_worker(KnownDatabase *db, TimestampTz now)
{
	Assert(db->handle != NULL);
	pfree(db->handle);
	db->handle = NULL;
	if (TimestampDifferenceExceeds(db->started, now, LONG_LIFE_MS))
		db->short_lives = 0;
	db->not_before = undo_worker_retry_at(db->started, db->short_lives++,
										  DATABASE_RETRY_MS, LAST_RETRY_MS);
}

static KnownDatabase *
find_database(Oid dboid)
{
	for (int i = 0; i < nknown; i++)
		if (known[i].dboid == dboid)
			return &known[i];
	return NULL;
}

static KnownDatabase *
add_database(Oid dboid)
{
	KnownDatabase *db;

	Assert(find_database(dboid) == NULL);
	if (nknown == maxknown)
	{
		int			more = Max(maxknown * 2, DATABASES_START);

		known = known == NULL ?
			MemoryContextAlloc(TopMemoryContext,
							   more * sizeof(KnownDatabase)) :
			repalloc(known, more * sizeof(KnownDatabase));
		maxknown = more;
	}
	db = &known[nknown++];
	memset(db, 0, sizeof(KnownDatabase));
	db->dboid = dboid;
	return db;
}

/*
 * Bring what is known up to what a pass found and what became of the workers.
 * Returns the number of workers that run.
 */
static int
note_databases(const UndoScanResult *found, TimestampTz now)
{
	int			running = 0;
	int			kept = 0;

	for (int i = 0; i < nknown; i++)
		known[i].found = false;
	for (int i = 0; i < found->ndatabases; i++)
	{
		KnownDatabase *db = find_database(found->databases[i]);

		if (db == NULL)
			db = add_database(found->databases[i]);
		db->found = true;
	}
	for (int i = 0; i < nknown; i++)
	{
		if (worker_is_running(&known[i]))
			running++;
		else if (known[i].handle != NULL)
			bury_worker(&known[i], now);
		Assert(kept <= i);
		if (known[i].found || known[i].handle != NULL)
			known[kept++] = known[i];
	}
	nknown = kept;
	return running;
}

static const UndoDatabase *
find_row(List *rows, Oid dboid)
{
	ListCell   *lc;

	foreach(lc, rows)
	{
		const UndoDatabase *row = lfirst(lc);

		if (row->dboid == dboid)
			return row;
	}
	return NULL;
}

/* may a worker be started for it now? */
static bool
wants_worker(const KnownDatabase *db, TimestampTz now)
{
	return db->found && db->handle == NULL && now >= db->not_before;
}

/* Of those that want a worker, the one that has waited longest, or NULL. */
static KnownDatabase *
next_database(TimestampTz now)
{
	KnownDatabase *next = NULL;

	for (int i = 0; i < nknown; i++)
		if (wants_worker(&known[i], now) &&
			(next == NULL || known[i].started < next->started))
			next = &known[i];
	return next;
}

static void
start_worker(KnownDatabase *db)
{
	static bool warned = false;
	BackgroundWorker worker;
	MemoryContext old;

	Assert(OidIsValid(db->dboid));
	Assert(db->handle == NULL && !OidIsValid(MyDatabaseId));
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(db->dboid);
	worker.bgw_notify_pid = MyProcPid;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, UNDO_LIBRARY_NAME);
	snprintf(worker.bgw_function_name, BGW_MAXLEN,
			 "undo_rollback_worker_main");
	snprintf(worker.bgw_name, BGW_MAXLEN,
			 "undo rollback worker for database %u",
			 db->dboid);
	snprintf(worker.bgw_type, BGW_MAXLEN, "undo rollback worker");

	db->started = GetCurrentTimestamp();
	old = MemoryContextSwitchTo(TopMemoryContext);
	if (RegisterDynamicBackgroundWorker(&worker, &db->handle))
	{
		db->refused = false;
		warned = false;
	}
	else
	{
		db->handle = NULL;
		db->refused = true;
		db->not_before =
			TimestampTzPlusMilliseconds(db->started, DATABASE_RETRY_MS);
		if (!warned)
			ereport(WARNING,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("out of background worker slots for the rollback of aborted transactions"),
					 errhint("You might need to increase max_worker_processes.")));
		warned = true;
	}
	MemoryContextSwitchTo(old);
}

/* all unapplied runs of a page that belong to a database that is gone */
static bool
forget_page(char persistence, UndoLogNumber log, BlockNumber block, Page page,
			uint16 from, void *arg)
{
	Oid			dboid = *(Oid *) arg;
	Fxid		all_visible_before = undo_log_horizons().all_visible_before;
	UndoRunMark marks[UNDO_PAGE_MAX_ENTRIES];
	int			nmarks = 0;
	UndoEntry	entry;

	Assert(!OidIsValid(MyDatabaseId));
	for (uint16 at = from; at < ((PageHeader) page)->pd_lower; at += entry.len)
	{
		if (!undo_page_get(page, at, &entry) || entry.len == 0)
			break;				/* reported by the scan */
		if (entry.kind == UNDO_KIND_RUN && entry.dboid == dboid &&
			!undo_worker_run_is_held(entry.fxid) &&
			undo_scan_run_is_unapplied(&entry, all_visible_before))
		{
			Assert(nmarks < UNDO_PAGE_MAX_ENTRIES);
			marks[nmarks].offset = at;
			marks[nmarks++].writer = entry.fxid;
		}
	}
	undo_log_mark_applied(persistence, log, block,
						  UndoPageGetOpaque(page)->seq, marks, nmarks);
	return true;
}

/*
 * A database whose files are lost: a worker couldn't connect.  Tells of it once,
 * at the second look, for the files may be on their way to another tablespace.
 */
static void
put_off_lost_database(KnownDatabase *db, const UndoDatabase *row,
					  TimestampTz now)
{
	db->not_before =
		TimestampTzPlusMilliseconds(now, ++db->lost == 1 ? DATABASE_RETRY_MS :
									LAST_RETRY_MS);
	if (db->lost == 2)
		ereport(WARNING,
				(errcode(ERRCODE_UNDEFINED_FILE),
				 errmsg("could not roll back in database \"%s\": its files are lost",
						row->name),
				 errdetail("Its undo is kept, and all_visible_before stands still."),
				 errhint("Bring the files of database %u back, or drop it.",
						 row->dboid)));
}

/*
 * Databases that are gone need no worker: their runs are marked here.  Those
 * whose files are lost get none.  Looks at the catalog once a second at most,
 * unless a worker is to be started.
 */
static void
forget_dropped_databases(TimestampTz now, bool must)
{
	static TimestampTz last_look = 0;
	List	   *existing = NIL;

	if (next_database(now) == NULL ||
		(!must && !TimestampDifferenceExceeds(last_look, now,
											  DATABASE_RETRY_MS)))
		return;
	last_look = now;
	existing = undo_survey_databases(InvalidFxid);
	for (int i = 0; i < nknown; i++)
	{
		KnownDatabase *db = &known[i];
		const UndoDatabase *row;
		char		query[64];

		if (!wants_worker(db, now))
			continue;
		if ((row = find_row(existing, db->dboid)) != NULL)
		{
			if (undo_survey_files_are_lost(row))
				put_off_lost_database(db, row, now);
			else
				db->lost = 0;
			continue;
		}
		snprintf(query, sizeof(query),
				 "forgetting rollbacks of dropped database %u",
				 db->dboid);
		pgstat_report_activity(STATE_RUNNING, query);
		(void) undo_scan_visit_unapplied(db->dboid, forget_page, &db->dboid);
		db->not_before = TimestampTzPlusMilliseconds(now, DATABASE_RETRY_MS);
	}
	list_free_deep(existing);
}

/* Start workers for the databases that a pass found. */
static void
start_workers(const UndoScanResult *found)
{
	TimestampTz now = GetCurrentTimestamp();
	int			running = note_databases(found, now);
	uint32		waiting = 0;
	KnownDatabase *db;

	if (!undo_rollback_paused)
	{
		bool		room = running < undo_max_rollback_workers;

		forget_dropped_databases(now, room);
		while (running < undo_max_rollback_workers &&
			   (db = next_database(now)) != NULL)
		{
			start_worker(db);
			if (db->handle != NULL)
				running++;
		}
		for (int i = 0; i < nknown; i++)
			if (wants_worker(&known[i], now) ||
				(known[i].refused && known[i].found))
				waiting++;
	}
	pg_atomic_write_u32(&UndoShmem->databases_waiting, waiting);
}

/* Tell the views in which databases nothing can be rolled back. */
static void
publish_unreachable(void)
{
	Oid			databases[UNDO_UNREACHABLE_SHOWN] = {0};
	int			n = undo_survey_unreachable(databases, UNDO_UNREACHABLE_SHOWN);
	int			visits = n;

	for (int i = 0; i < nknown && n < UNDO_UNREACHABLE_SHOWN; i++)
	{
		bool		shown = known[i].lost < 2;

		for (int j = 0; j < visits && !shown; j++)
			shown = databases[j] == known[i].dboid;
		if (!shown)
			databases[n++] = known[i].dboid;
	}
	for (int i = 0; i < UNDO_UNREACHABLE_SHOWN; i++)
		pg_atomic_write_u32(&UndoShmem->unreachable[i], databases[i]);
}

/* ----------------------------------------------------------------
 *	main loop
 * ----------------------------------------------------------------
 */

/* tell of an aborted writer that can't be rolled back, once */
static void
warn_of_old_rollback(Fxid oldest_unapplied)
{
	static Fxid warned = InvalidFxid;
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	if (oldest_unapplied == InvalidFxid || oldest_unapplied == warned ||
		next - oldest_unapplied <= WARN_AGE)
		return;
	warned = oldest_unapplied;
	ereport(WARNING,
			(errmsg("transaction " UINT64_FORMAT " was aborted long ago and is not rolled back yet",
					oldest_unapplied),
			 errdetail("Undo and the commit log are kept until it is, and VACUUM cannot advance relfrozenxid of zheap tables."),
			 errhint("Look for earlier messages of the rollback workers, and at zheap.rollback_paused and zheap.max_rollback_workers.")));
}

/*
 * Tell when undo comes near to zheap.max_undo_size, and again only when it has
 * been well below it in between.
 */
static void
warn_of_limit(uint64 npages)
{
	static bool warned = false;
	uint64		kb = npages * (BLCKSZ / 1024);

	if (undo_max_size < 0 || kb * 100 < (uint64) undo_max_size * 70)
		warned = false;
	else if (!warned && kb * 100 >= (uint64) undo_max_size * 80)
	{
		warned = true;
		ereport(WARNING,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("undo takes " UINT64_FORMAT " kB of the %d kB that zheap.max_undo_size allows",
						kb, undo_max_size),
				 errhint("View pg_stat_zheap_undo_holders names what keeps it.")));
	}
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

	Assert(!OidIsValid(MyDatabaseId) && !IsTransactionState());
	pgstat_report_activity(STATE_RUNNING, "discarding undo");
	undo_discard_pass(false, &result);
	warn_of_old_rollback(result.oldest_unapplied);
	warn_of_limit(result.retained);
	undo_snapshot_limit_round(result.retained);
	if (undo_survey_round(&result))
		start_workers(&result);
	publish_unreachable();
	/* files that the pass has read: no end of transaction closes them */
	AtEOXact_SMgr();
	AssertNoPageLocked();
	return result.discarded || result.retained > 0 || result.ndatabases > 0;
}

/*
 * After an error in a round: what AbortTransaction() would do.  Returns the
 * resource owner to go on with, for one that was released is of no more use.
 */
static ResourceOwner
launcher_recover(ResourceOwner owner)
{
	HOLD_INTERRUPTS();
	EmitErrorReport();
	/* also where a transaction was neither running nor ended yet */
	AbortOutOfAnyTransaction();
	undo_recover_from_error();
	CurrentResourceOwner = owner;
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, true);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, true);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, true);
	CurrentResourceOwner = NULL;
	ResourceOwnerDelete(owner);
	owner = ResourceOwnerCreate(NULL, LAUNCHER_NAME);
	CurrentResourceOwner = owner;
	FlushErrorState();
	RESUME_INTERRUPTS();
	return owner;
}

void
undo_launcher_main(Datum arg)
{
	MemoryContext context;
	ResourceOwner volatile owner;
	volatile long naptime;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	undo_worker_reset_settings();
	BackgroundWorkerInitializeConnection(NULL, NULL, 0);
	undo_shmem_require();

	before_shmem_exit(launcher_exit, 0);
	UndoShmem->launcher_pid = MyProcPid;
	UndoShmem->launcher_latch = MyLatch;

	owner = ResourceOwnerCreate(NULL, LAUNCHER_NAME);
	CurrentResourceOwner = owner;
	context = AllocSetContextCreate(TopMemoryContext, LAUNCHER_NAME,
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
			owner = launcher_recover(owner);
			naptime = Max(undo_discard_naptime, MAX_NAP_MS);
		}
		PG_END_TRY();
		/* the query of the last round stays to be seen */
		pgstat_report_activity(STATE_IDLE, NULL);
		undo_worker_nap(naptime, UNDO_WAIT_LAUNCHER);
	}
}
