/*-------------------------------------------------------------------------
 *
 * undo_drain.c
 *	  Waiting until all that was aborted is rolled back, and the two that have
 *	  to: pg_upgrade and CREATE DATABASE.
 *
 * pg_upgrade takes table files along but no undo.  In the new cluster all that
 * the pages name counts as committed, which is right for everything but an
 * aborted change that has not been rolled back yet.  So a server in binary
 * upgrade mode executes nothing before the last rollback is done; the workers
 * run in that mode, too.
 *
 * CREATE DATABASE copies pages, but undo belongs to the source: a row of an
 * aborted transaction that has not been rolled back yet would be one of a
 * committed transaction in the copy, some day.  So the source is drained first
 * (U19).  Core's createdb() locks the source as this file does and looks for
 * its sessions afterwards.  Our lock is kept until the end of the transaction,
 * so that nothing new can be left behind in between.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "tcop/utility.h"
#include "utils/acl.h"
#include "utils/syscache.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "undo/log/undo_shmem.h"
#include "undo/record/undo_images.h"
#include "undo/rollback/undo_worker.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_module.h"

/* time between two looks */
#define DRAIN_STEP_MS		UNDO_KNOB("drain-step", 50, 1, 50)

/* how long pg_upgrade and CREATE DATABASE wait for the rollback workers */
#define DRAIN_MS			60000

static ExecutorStart_hook_type prev_executor_start = NULL;
static ProcessUtility_hook_type prev_process_utility = NULL;

/*
 * The one process of single-user mode rolls back itself what is to be rolled
 * back in the database it is connected to; else the workers do.
 */
static void
roll_back_alone(void)
{
	if (IsUnderPostmaster)
		return;
	undo_survey_alone();
	undo_worker_rollback_here();
}

/* Have the launcher look for rollbacks, and wait a moment. */
static void
wait_for_workers(void)
{
	AssertNoPageLocked();
	Assert(IsUnderPostmaster);
	undo_log_wake_launcher();
	(void) WaitLatch(MyLatch,
					 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
					 DRAIN_STEP_MS, undo_wait_event(UNDO_WAIT_DRAIN));
	ResetLatch(MyLatch);
}

/*
 * Wait until no database has an aborted transaction to be rolled back, at
 * most timeout milliseconds; returns whether that was reached.  No lock may
 * be held.
 */
bool
undo_drain(int64 timeout)
{
	TimestampTz start = GetCurrentTimestamp();

	Assert(CritSectionCount == 0);
	AssertNoPageLocked();
	for (;;)
	{
		long		secs;
		int			usecs;

		CHECK_FOR_INTERRUPTS();
		roll_back_alone();
		if (!undo_scan_has_unapplied(InvalidOid))
			return true;
		TimestampDifference(start, GetCurrentTimestamp(), &secs, &usecs);
		if ((int64) secs * 1000 + usecs / 1000 >= timeout ||
			!IsUnderPostmaster)
			return false;
		wait_for_workers();
	}
}

/* ----------------------------------------------------------------
 *	pg_upgrade
 * ----------------------------------------------------------------
 */

/* once a session, before its first query */
static void
upgrade_executor_start(QueryDesc *queryDesc, int eflags)
{
	static bool drained = false;

	if (!drained && !RecoveryInProgress())
	{
		if (!undo_drain(undo_rollback_paused ? 0 : DRAIN_MS))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("cannot upgrade the cluster: aborted transactions on zheap tables are not rolled back yet"),
					 errhint("Start the old server, run SELECT pg_zheap_drain_undo() until it returns true, and try again. Look at zheap.rollback_paused, zheap.max_rollback_workers and the server log.")));
		drained = true;
	}
	if (prev_executor_start)
		prev_executor_start(queryDesc, eflags);
	else
		standard_ExecutorStart(queryDesc, eflags);
}

/* Called from _PG_init. */
void
undo_drain_register_upgrade(void)
{
	if (!IsBinaryUpgrade)
		return;
	prev_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = upgrade_executor_start;
}

/* ----------------------------------------------------------------
 *	CREATE DATABASE
 * ----------------------------------------------------------------
 */

/* the database that will be copied; core reports what is wrong with it */
static char *
source_name(const CreatedbStmt *stmt)
{
	ListCell   *lc;
	char	   *name = NULL;

	foreach(lc, stmt->options)
	{
		DefElem    *option = (DefElem *) lfirst(lc);

		if (strcmp(option->defname, "template") == 0 && option->arg != NULL)
			name = defGetString(option);
	}
	return name != NULL ? name : "template1";
}

/*
 * Lock the database of this name against new sessions; InvalidOid if there is
 * none.  It may be renamed or replaced while we wait for the lock.
 */
static Oid
lock_source(const char *name)
{
	Assert(IsTransactionState());
	for (;;)
	{
		Oid			dboid = get_database_oid(name, true);

		if (!OidIsValid(dboid))
			return InvalidOid;
		LockSharedObject(DatabaseRelationId, dboid, 0, ShareLock);
		if (get_database_oid(name, true) == dboid)
			return dboid;
		UnlockSharedObject(DatabaseRelationId, dboid, 0, ShareLock);
	}
}

/*
 * The source may itself be a copy with changes of another database that are
 * not rolled back yet: what these are is found out when the server has
 * started (undo_survey.c).  Where that can't be done for some other database, a
 * source older than all that waits to be rolled back is none.
 */
static bool
may_be_copy(Oid dboid)
{
	Fxid		oldest = pg_atomic_read_u64(&UndoShmem->oldest_unapplied);
	List	   *copies;
	ListCell   *lc;

	if (pg_atomic_read_u32(&UndoShmem->copies_done) != 0 ||
		!undo_scan_has_unapplied(InvalidOid))
		return false;
	if (pg_atomic_read_u64(&UndoShmem->held_before) == PG_UINT64_MAX ||
		oldest == InvalidFxid)
		return true;
	copies = undo_survey_databases(oldest);
	foreach(lc, copies)
		if (((UndoDatabase *) lfirst(lc))->dboid == dboid)
			return true;
	return false;
}

/*
 * Returns with the source locked and without pending rollbacks, or with
 * something wrong that core is going to report.  While we wait the source
 * isn't locked: the workers have to connect to it.
 */
static void
drain_source(const char *name)
{
	TimestampTz start = GetCurrentTimestamp();

	Assert(!RecoveryInProgress());
	roll_back_alone();
	for (;;)
	{
		Oid			dboid = lock_source(name);
		int			nothers;
		int			nprepared;

		if (!OidIsValid(dboid))
			return;

		/*
		 * Sessions first: one that is aborting now leaves its undo behind.
		 * Only if there is none the question is answered for good.
		 */
		if (!undo_scan_has_unapplied(dboid))
		{
			/* core would say so, but wait before: they may leave, aborting */
			if (CountOtherDBBackends(dboid, &nothers, &nprepared))
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_IN_USE),
						 errmsg("source database \"%s\" is being accessed by other users",
								name),
						 errdetail("Sessions: %d, prepared transactions: %d.",
								   nothers, nprepared)));
			if (!undo_scan_has_unapplied(dboid) && !may_be_copy(dboid))
				return;
		}
		UnlockSharedObject(DatabaseRelationId, dboid, 0, ShareLock);

		if (undo_rollback_paused || !IsUnderPostmaster ||
			TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
									   DRAIN_MS))
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("source database \"%s\" has aborted transactions that are not rolled back yet",
							name),
					 errhint("Try again when the undo rollback workers are done; in single-user mode there are none. Look at zheap.rollback_paused, zheap.max_rollback_workers and the server log.")));
		wait_for_workers();
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * May the user create databases, and copy this one?  Those who may not shall
 * not lock it either; core refuses them.
 */
static bool
may_copy(const char *name)
{
	HeapTuple	tuple;
	Oid			dboid;
	bool		result;

	if (superuser())
		return true;
	tuple = SearchSysCache1(AUTHOID, ObjectIdGetDatum(GetUserId()));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_authid) GETSTRUCT(tuple))->rolcreatedb;
	ReleaseSysCache(tuple);
	if (!result)
		return false;

	dboid = get_database_oid(name, true);
	tuple = SearchSysCache1(DATABASEOID, ObjectIdGetDatum(dboid));
	if (!HeapTupleIsValid(tuple))
		return false;
	result = ((Form_pg_database) GETSTRUCT(tuple))->datistemplate ||
		object_ownercheck(DatabaseRelationId, dboid, GetUserId());
	ReleaseSysCache(tuple);
	return result;
}

static void
createdb_process_utility(PlannedStmt *pstmt, const char *queryString,
						 bool readOnlyTree, ProcessUtilityContext context,
						 ParamListInfo params, QueryEnvironment *queryEnv,
						 DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	bool		copies = IsA(stmt, CreatedbStmt) && !RecoveryInProgress();

	/* core refuses it in a transaction block, in recovery and without right */
	if (copies && context == PROCESS_UTILITY_TOPLEVEL && !IsTransactionBlock())
	{
		char	   *name = source_name((CreatedbStmt *) stmt);

		if (may_copy(name))
			drain_source(name);
	}

	if (prev_process_utility)
		prev_process_utility(pstmt, queryString, readOnlyTree, context, params,
							 queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context,
								params, queryEnv, dest, qc);

	/* not committed yet, so nobody has written to the copies (U24) */
	if (copies)
		undo_images_note_copied();
}

/* Called from _PG_init. */
void
undo_drain_register_createdb(void)
{
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = createdb_process_utility;
}
