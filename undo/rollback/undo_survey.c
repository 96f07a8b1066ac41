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
 * The launcher visits one database after the other with a worker.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/ipc.h"
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
#include "undo/undo_defs.h"

/* a database whose visit failed is left for so long */
#define SURVEY_RETRY_MS		2000

/* launcher: databases visited, in TopMemoryContext; and the one in progress */
static List *visited = NIL;
static BackgroundWorkerHandle *visit_handle = NULL;
static Oid	visit_database = InvalidOid;
static TimestampTz visit_not_before = 0;

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
	TransactionId start =
		XidFromFxid(pg_atomic_read_u64(&UndoShmem->start_fxid));
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
		MemoryContext old;

		if (database_is_invalid_form(form))
			continue;
		if (copied_after != InvalidFxid &&
			(!TransactionIdIsNormal(made) ||
			 !TransactionIdFollows(made, after) ||
			 !TransactionIdPrecedes(made, start)))
			continue;
		old = MemoryContextSwitchTo(context);
		list = lappend_oid(list, form->oid);
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
	visit_not_before = TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
												   SURVEY_RETRY_MS);
	old = MemoryContextSwitchTo(TopMemoryContext);
	if (RegisterDynamicBackgroundWorker(&worker, &visit_handle))
		visit_database = dboid;
	else
		visit_handle = NULL;
	MemoryContextSwitchTo(old);
}

/* If a visit has ended, note whether it was good. */
static void
note_visit(void)
{
	BgwHandleStatus status;
	MemoryContext old;
	pid_t		pid;

	if (visit_handle == NULL)
		return;
	status = GetBackgroundWorkerPid(visit_handle, &pid);
	if (status == BGWH_STARTED || status == BGWH_NOT_YET_STARTED)
		return;
	pfree(visit_handle);
	visit_handle = NULL;
	if (pg_atomic_read_u32(&UndoShmem->surveyed) == visit_database)
	{
		old = MemoryContextSwitchTo(TopMemoryContext);
		visited = lappend_oid(visited, visit_database);
		MemoryContextSwitchTo(old);
		visit_not_before = 0;
	}
}

/* Visit the first database of the list that wasn't; false if all were. */
static bool
visit_one(List *databases)
{
	ListCell   *lc;

	foreach(lc, databases)
	{
		if (list_member_oid(visited, lfirst_oid(lc)))
			continue;
		if (visit_handle == NULL && GetCurrentTimestamp() >= visit_not_before)
			start_visit(lfirst_oid(lc));
		return true;
	}
	return false;
}

/*
 * One step of the launcher, after a pass.  Returns whether rollback workers
 * may start.
 */
bool
undo_survey_round(const UndoScanResult *found)
{
	Fxid		start = pg_atomic_read_u64(&UndoShmem->start_fxid);

	Assert(!OidIsValid(MyDatabaseId));
	if (pg_atomic_read_u32(&UndoShmem->copies_done) != 0)
		return true;
	if (pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY)
		return true;			/* a new cluster under pg_upgrade */

	note_visit();
	if (found->oldest_unapplied != InvalidFxid &&
		found->oldest_unapplied < start &&
		visit_one(undo_survey_databases(found->oldest_unapplied)))
		return false;
	pg_atomic_write_u32(&UndoShmem->copies_done, 1);
	list_free(visited);
	visited = NIL;
	return true;
}

/* ----------------------------------------------------------------
 *	worker
 * ----------------------------------------------------------------
 */

/*
 * What pg_stat_activity shows as our query: a table by its name, if it has one,
 * before we wait for its lock.
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
	rel = try_relation_open(reloid, AccessShareLock);
	if (rel == NULL)
		return;
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
	pg_atomic_write_u32(&UndoShmem->surveyed, MyDatabaseId);
	proc_exit(0);
}
