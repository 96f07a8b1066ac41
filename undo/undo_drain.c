/*-------------------------------------------------------------------------
 *
 * undo_drain.c
 *	  Waiting until all that was aborted is rolled back, and pg_upgrade, which
 *	  has to.
 *
 * pg_upgrade takes table files along but no undo.  In the new cluster all that
 * the pages name counts as committed, which is right for everything but an
 * aborted change that nobody has rolled back yet.  So a server in binary
 * upgrade mode executes nothing before the last rollback is done; the workers
 * run in that mode, too.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "undo/undo_debug.h"
#include "undo/undo.h"
#include "undo/undo_worker.h"

#define DRAIN_STEP_MS		UNDO_KNOB("drain-step", 50, 1, 50)

/* how long pg_upgrade waits for the rollback workers */
#define UPGRADE_DRAIN_MS	60000

static ExecutorStart_hook_type prev_executor_start = NULL;

/*
 * Wait until no database has an aborted transaction to be rolled back, at
 * most timeout milliseconds; returns whether that was reached.  No lock may
 * be held.  The one process of single-user mode does the work itself, for the
 * database it is connected to.
 */
bool
undo_drain(int64 timeout)
{
	TimestampTz start = GetCurrentTimestamp();

	Assert(CritSectionCount == 0);
	for (;;)
	{
		long		secs;
		int			usecs;

		CHECK_FOR_INTERRUPTS();
		if (!IsUnderPostmaster)
		{
			undo_survey_alone();
			undo_worker_rollback_here();
		}
		if (!undo_discard_has_unapplied(InvalidOid))
			return true;
		TimestampDifference(start, GetCurrentTimestamp(), &secs, &usecs);
		if ((int64) secs * 1000 + usecs / 1000 >= timeout ||
			!IsUnderPostmaster)
			return false;
		undo_log_wake_launcher();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 DRAIN_STEP_MS, undo_wait_event(UNDO_WAIT_DRAIN));
		ResetLatch(MyLatch);
	}
}

/* once a session, before its first query */
static void
upgrade_executor_start(QueryDesc *queryDesc, int eflags)
{
	static bool drained = false;

	if (!drained && !RecoveryInProgress())
	{
		if (!undo_drain(undo_rollback_paused ? 0 : UPGRADE_DRAIN_MS))
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
