/*-------------------------------------------------------------------------
 *
 * undo_survey.c
 *	  Databases that may hold copies of pages to be rolled back.
 *
 * While this library isn't loaded CREATE DATABASE may copy pages of
 * aborted transactions that are not rolled back yet (U19).  The copied pages
 * name the same undo, so that they can be rolled back as the source's; but
 * that must be done before the source's runs are marked applied.  A copy is
 * younger than the aborted transaction, and its row of pg_database tells its
 * age.  So before any rollback worker starts, each database that may be such
 * a copy is visited, and what other databases have to roll back is rolled
 * back there, too, where a table has the same OID.
 *
 * The launcher visits one database after the other with a worker.  One that
 * can't be visited (its files are lost, a table is locked) is tried again, ever
 * later, and doesn't stop the others: when all were tried rollback workers may
 * start, but leave alone what is older than such a database, or than its row
 * of pg_database.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "tcop/tcopprot.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"

#include "undo/discard/undo_scan.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/rollback/undo_apply.h"
#include "undo/rollback/undo_worker.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"

/* a database whose visit failed is left for so long, then for twice as long .. */
#define FIRST_RETRY_MS			2000
#define LAST_RETRY_MS			UNDO_KNOB("survey-last-retry", 60000, 100, 60000)

/* when all were tried, the catalog is looked at no more often than this */
#define LOOK_MS					1000

typedef struct FailedVisit
{
	Oid			dboid;
	int			failures;		/* in a row */
	bool		warned;
	TimestampTz not_before;
} FailedVisit;

/* launcher, in TopMemoryContext: databases visited, and those that can't be */
static List *visited = NIL;
static List *failed_visits = NIL;
static bool all_tried = false;

/* the visit in progress */
static BackgroundWorkerHandle *visit_handle = NULL;
static Oid	visit_database = InvalidOid;

/* the last one to be started found no process */
static TimestampTz visit_not_before = 0;

/* worker: a table was locked */
static bool locked_out = false;

/* ----------------------------------------------------------------
 *	which databases
 * ----------------------------------------------------------------
 */

List *
undo_survey_databases(Fxid copied_after)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	bool		own = !IsTransactionState();
	TransactionId after = XidFromFxid(copied_after);
	List	   *list = NIL;
	Relation	rel;
	TableScanDesc scan;
	HeapTuple	tuple;

	AssertNoPageLocked();
	if (own)
		StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	rel = table_open(DatabaseRelationId, AccessShareLock);
	scan = table_beginscan_catalog(rel, 0, NULL);
	while (HeapTupleIsValid(tuple = heap_getnext(scan, ForwardScanDirection)))
	{
		Form_pg_database form = (Form_pg_database) GETSTRUCT(tuple);

		/* freezing keeps it; ALTER DATABASE makes the row younger */
		TransactionId made = HeapTupleHeaderGetRawXmin(tuple->t_data);
		UndoDatabase *db;
		MemoryContext old;

		if (database_is_invalid_form(form))
			continue;
		if (copied_after != InvalidFxid &&
			(!TransactionIdIsNormal(made) ||
			 !TransactionIdFollows(made, after)))
			continue;
		old = MemoryContextSwitchTo(context);
		db = palloc(sizeof(UndoDatabase));
		db->dboid = form->oid;
		db->tablespace = form->dattablespace;
		db->made = TransactionIdIsNormal(made) ?
			undo_log_fxid_from_xid(made) : InvalidFxid;
		strlcpy(db->name, NameStr(form->datname), NAMEDATALEN);
		list = lappend(list, db);
		MemoryContextSwitchTo(old);
	}
	table_endscan(scan);
	table_close(rel, AccessShareLock);
	PopActiveSnapshot();
	if (own)
		CommitTransactionCommand();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return list;
}

/* See undo_worker.h. */
bool
undo_survey_files_are_lost(const UndoDatabase *db)
{
	char	   *path = GetDatabasePath(db->dboid, db->tablespace);
	char	   *version = psprintf("%s/PG_VERSION", path);
	struct stat st;
	bool		lost = stat(version, &st) != 0 &&
		(errno == ENOENT || errno == ENOTDIR);

	pfree(version);
	pfree(path);
	return lost;
}

/*
 * Single-user mode: nobody could visit another database.  If there may be a
 * copy, rollbacks are left to the server.
 */
void
undo_survey_alone(void)
{
	Assert(!IsUnderPostmaster);
	if (pg_atomic_read_u32(&UndoShmem->copies_done) == 0 &&
		undo_survey_databases(undo_log_horizons().all_visible_before) == NIL)
		pg_atomic_write_u32(&UndoShmem->copies_done, 1);
}

/* ----------------------------------------------------------------
 *	launcher
 * ----------------------------------------------------------------
 */

static void
start_visit(Oid dboid)
{
	BackgroundWorker worker;
	MemoryContext old;

	Assert(visit_handle == NULL && OidIsValid(dboid));
	memset(&worker, 0, sizeof(worker));
	worker.bgw_flags = BGWORKER_SHMEM_ACCESS |
		BGWORKER_BACKEND_DATABASE_CONNECTION;
	worker.bgw_start_time = BgWorkerStart_RecoveryFinished;
	worker.bgw_restart_time = BGW_NEVER_RESTART;
	worker.bgw_main_arg = ObjectIdGetDatum(dboid);
	worker.bgw_notify_pid = MyProcPid;
	snprintf(worker.bgw_library_name, BGW_MAXLEN, UNDO_LIBRARY_NAME);
	snprintf(worker.bgw_function_name, BGW_MAXLEN, "undo_survey_worker_main");
	snprintf(worker.bgw_name, BGW_MAXLEN, "undo survey worker for database %u",
			 dboid);
	snprintf(worker.bgw_type, BGW_MAXLEN, "undo survey worker");

	pg_atomic_write_u32(&UndoShmem->surveyed, InvalidOid);
	old = MemoryContextSwitchTo(TopMemoryContext);
	if (RegisterDynamicBackgroundWorker(&worker, &visit_handle))
		visit_database = dboid;
	else
	{
		visit_handle = NULL;
		visit_not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
													   FIRST_RETRY_MS);
	}
	MemoryContextSwitchTo(old);
}

static FailedVisit *
find_failed(Oid dboid)
{
	ListCell   *lc;

	foreach(lc, failed_visits)
	{
		FailedVisit *failed = lfirst(lc);

		if (failed->dboid == dboid)
			return failed;
	}
	return NULL;
}

/*
 * A visit failed: try it later, ever later.
 */
static void
remember_failed(Oid dboid)
{
	FailedVisit *failed = find_failed(dboid);

	Assert(OidIsValid(dboid));
	if (failed == NULL)
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

		failed = palloc0(sizeof(FailedVisit));
		failed->dboid = dboid;
		failed_visits = lappend(failed_visits, failed);
		MemoryContextSwitchTo(old);
	}
	failed->not_before =
		undo_worker_retry_at(GetCurrentTimestamp(), failed->failures++,
							 FIRST_RETRY_MS, LAST_RETRY_MS);
}

static void
forget_failed(FailedVisit *failed)
{
	failed_visits = list_delete_ptr(failed_visits, failed);
	pfree(failed);
}

/* If a visit has ended, note whether it was good. */
static void
note_visit(void)
{
	BgwHandleStatus status;
	FailedVisit *failed;
	MemoryContext old;
	pid_t		pid;

	if (visit_handle == NULL)
		return;
	status = GetBackgroundWorkerPid(visit_handle, &pid);
	if (status == BGWH_STARTED || status == BGWH_NOT_YET_STARTED)
		return;
	pfree(visit_handle);
	visit_handle = NULL;
	if (pg_atomic_read_u32(&UndoShmem->surveyed) != visit_database)
	{
		remember_failed(visit_database);
		return;
	}
	old = MemoryContextSwitchTo(TopMemoryContext);
	visited = lappend_oid(visited, visit_database);
	MemoryContextSwitchTo(old);
	if ((failed = find_failed(visit_database)) != NULL)
		forget_failed(failed);
}

/*
 * Tell of a visit that failed, once in a row of failures; the first one may
 * have been a matter of a moment.
 */
static void
warn_of_failure(const UndoDatabase *db, FailedVisit *failed)
{
	if (failed->failures < 2 || failed->warned)
		return;
	failed->warned = true;
	ereport(WARNING,
			(errmsg("could not look into database \"%s\" for copied pages that have to be rolled back",
					db->name),
			 undo_survey_files_are_lost(db) ?
			 errdetail("Its files are lost.") :
			 errdetail("Earlier messages tell why."),
			 errhint("Transactions that aborted before it was created or altered are not rolled back until that has been done, or the database is dropped.")));
}

/*
 * Visit one of these databases: the first that wasn't tried yet, else one that
 * failed some time ago.
 */
static void
visit_one(List *databases)
{
	TimestampTz now = GetCurrentTimestamp();
	UndoDatabase *next = NULL;
	ListCell   *lc;

	if (visit_handle != NULL || now < visit_not_before)
		return;
	foreach(lc, databases)
	{
		UndoDatabase *db = lfirst(lc);
		FailedVisit *failed = find_failed(db->dboid);

		if (failed == NULL)
		{
			next = db;
			break;
		}
		if (now >= failed->not_before)
			next = db;
	}
	if (next == NULL)
		return;
	/* the server would only log that there is no such database */
	if (undo_survey_files_are_lost(next))
		remember_failed(next->dboid);
	else
		start_visit(next->dboid);
}

/*
 * If each of these databases was tried, the others may go on.  What is older
 * than one of these may be in it.
 */
static void
let_others_go_on(List *databases)
{
	Fxid		start = pg_atomic_read_u64(&UndoShmem->start_fxid);
	Fxid		held_before = InvalidFxid;
	ListCell   *lc;

	foreach(lc, databases)
	{
		UndoDatabase *db = lfirst(lc);
		FailedVisit *failed = find_failed(db->dboid);

		if (failed == NULL)
			return;
		warn_of_failure(db, failed);
		held_before = Max(held_before, Min(db->made, start));
	}
	/* a row that was altered since is younger, but no more was copied */
	if (held_before < pg_atomic_read_u64(&UndoShmem->held_before))
		pg_atomic_write_u64(&UndoShmem->held_before, held_before);
	all_tried = true;
}

/* those of a list that weren't visited */
static List *
not_visited(List *databases)
{
	List	   *list = NIL;
	ListCell   *lc;

	foreach(lc, databases)
	{
		UndoDatabase *db = lfirst(lc);

		if (!list_member_oid(visited, db->dboid))
			list = lappend(list, db);
	}
	return list;
}

/* See undo_worker.h. */
int
undo_survey_unreachable(Oid *databases, int max)
{
	int			n = 0;
	ListCell   *lc;

	foreach(lc, failed_visits)
	{
		FailedVisit *failed = lfirst(lc);

		if (failed->warned && n < max)
			databases[n++] = failed->dboid;
	}
	return n;
}

/*
 * One step of the launcher, after a pass.  Returns whether rollback workers
 * may start.
 */
bool
undo_survey_round(const UndoScanResult *found)
{
	static TimestampTz last_look = 0;
	Fxid		start = pg_atomic_read_u64(&UndoShmem->start_fxid);
	TimestampTz now = GetCurrentTimestamp();
	List	   *databases = NIL;

	Assert(!OidIsValid(MyDatabaseId));
	if (pg_atomic_read_u32(&UndoShmem->copies_done) != 0)
		return true;
	if (pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY)
		return true;			/* a new cluster under pg_upgrade */
	if (all_tried && !TimestampDifferenceExceeds(last_look, now, LOOK_MS))
		return true;
	last_look = now;

	note_visit();
	if (found->oldest_unapplied != InvalidFxid &&
		found->oldest_unapplied < start)
		databases =
			not_visited(undo_survey_databases(found->oldest_unapplied));
	if (databases != NIL)
	{
		visit_one(databases);
		let_others_go_on(databases);
		return all_tried;
	}
	if (found->blind)
	{
		/* what it holds may be in a copy, and nothing else is so old */
		if (start < pg_atomic_read_u64(&UndoShmem->held_before))
			pg_atomic_write_u64(&UndoShmem->held_before, start);
		all_tried = true;
		return true;
	}
	pg_atomic_write_u32(&UndoShmem->copies_done, 1);
	list_free(visited);
	visited = NIL;
	list_free_deep(failed_visits);
	failed_visits = NIL;
	return true;
}

/* ----------------------------------------------------------------
 *	worker
 * ----------------------------------------------------------------
 */

/*
 * What pg_stat_activity shows as our query: a table by its name, if it has one.
 */
static void
report_table(Oid reloid)
{
	char		query[NAMEDATALEN + 100];
	char	   *name = get_rel_name(reloid);

	if (name == NULL)
		return;
	snprintf(query, sizeof(query),
			 "rolling back copied pages of table \"%s\"", name);
	pgstat_report_activity(STATE_RUNNING, query);
	pfree(name);
}

/* pages of a table of the client that has this OID in my database */
static void
roll_back_copy(Oid reloid, BlockNumber *blocks, int nblocks)
{
	Relation	rel;

	Assert(OidIsValid(reloid) && IsTransactionState());
	report_table(reloid);
	if (!ConditionalLockRelationOid(reloid, AccessShareLock))
	{
		/* others have to be visited, too, so we don't wait here */
		locked_out = true;
		ereport(LOG,
				(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
				 errmsg("could not roll back copied pages of relation %u, which is locked",
						reloid),
				 errdetail("It will be tried again.")));
		return;
	}
	rel = try_relation_open(reloid, NoLock);
	if (rel == NULL)
	{
		UnlockRelationOid(reloid, AccessShareLock);
		return;
	}
	if (RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) &&
		OidIsValid(rel->rd_rel->relam) &&
		rel->rd_rel->relam == undo_apply_client_am())
		(void) undo_worker_apply_pages(rel, blocks, nblocks);
	relation_close(rel, AccessShareLock);
}

/* Visitor: runs of other databases that the server has found at its start. */
static bool
visit_undo_page(char persistence, UndoLogNumber log, BlockNumber block,
				Page page, uint16 from, void *arg)
{
	Fxid		all_visible_before = *(Fxid *) arg;
	Fxid		start = pg_atomic_read_u64(&UndoShmem->start_fxid);
	BlockNumber blocks[UNDO_PAGE_MAX_ENTRIES];
	int			nblocks = 0;
	Oid			reloid = InvalidOid;
	UndoEntry	entry;

	for (uint16 at = from; at < ((PageHeader) page)->pd_lower; at += entry.len)
	{
		if (!undo_page_get(page, at, &entry) || entry.len == 0)
			elog(ERROR, "malformed entry in undo log %u, block %u, offset %u",
				 log, block, at);
		if (entry.kind != UNDO_KIND_RUN)
		{
			if (OidIsValid(reloid))
				blocks[nblocks++] = entry.block;
			continue;
		}
		if (OidIsValid(reloid))
			roll_back_copy(reloid, blocks, nblocks);
		nblocks = 0;
		reloid = entry.dboid != MyDatabaseId && entry.fxid < start &&
			undo_scan_run_is_unapplied(&entry, all_visible_before) ?
			entry.reloid : InvalidOid;
	}
	if (OidIsValid(reloid))
		roll_back_copy(reloid, blocks, nblocks);
	return true;
}

void
undo_survey_worker_main(Datum arg)
{
	Fxid		all_visible_before;

	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	undo_worker_reset_settings();
	BackgroundWorkerInitializeConnectionByOid(DatumGetObjectId(arg),
											  InvalidOid,
											  BGWORKER_BYPASS_ALLOWCONN);

	StartTransactionCommand();
	PushActiveSnapshot(GetTransactionSnapshot());
	all_visible_before = undo_log_horizons().all_visible_before;
	pgstat_report_activity(STATE_RUNNING, "looking for zheap tables");
	(void) undo_scan_visit_unapplied(InvalidOid, visit_undo_page,
									 &all_visible_before);
	PopActiveSnapshot();
	CommitTransactionCommand();
	if (!locked_out)
		pg_atomic_write_u32(&UndoShmem->surveyed, MyDatabaseId);
	proc_exit(0);
}
