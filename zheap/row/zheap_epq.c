/*-------------------------------------------------------------------------
 *
 * zheap_epq.c
 *	  Where EvalPlanQual ends.
 *
 * zheap_epq_running is set when a lock was taken on a newer version than the
 * statement's, since EvalPlanQual follows.  It is over when the row is changed
 * or locked; but if the row is skipped nobody tells us, and AFTER triggers,
 * fired when the executor finishes, would be shown the statement's versions
 * of rows instead of those it changed.  EvalPlanQual never outlives the call
 * of the executor that began it, so the flag doesn't either.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"

#include "zheap/write/zheap_write.h"

static ExecutorRun_hook_type prev_executor_run = NULL;
static ExecutorFinish_hook_type prev_executor_finish = NULL;

/*
 * A query run by a function inside somebody's EvalPlanQual starts without the
 * flag and leaves it as it was, with or without an error.
 */
static void
epq_executor_run(QueryDesc *queryDesc, ScanDirection direction, uint64 count)
{
	bool		outer = zheap_epq_running;

	zheap_epq_running = false;
	PG_TRY();
	{
		if (prev_executor_run)
			prev_executor_run(queryDesc, direction, count);
		else
			standard_ExecutorRun(queryDesc, direction, count);
	}
	PG_CATCH();
	{
		zheap_epq_running = outer;
		undo_snapshot_limit_translate();
		PG_RE_THROW();
	}
	PG_END_TRY();
	zheap_epq_running = outer;
}

static void
epq_executor_finish(QueryDesc *queryDesc)
{
	bool		outer = zheap_epq_running;

	zheap_epq_running = false;
	PG_TRY();
	{
		if (prev_executor_finish)
			prev_executor_finish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		zheap_epq_running = outer;
	}
	PG_END_TRY();
}

/* Called from _PG_init. */
void
zheap_epq_register_hooks(void)
{
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = epq_executor_run;
	prev_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = epq_executor_finish;
}
