/*-------------------------------------------------------------------------
 *
 * zheap_explain.c
 *	  EXPLAIN ANALYZE tells of entries whose key the row no longer has.
 *
 * An index scan removes a row that it has found by such an entry (Z49), before
 * the executor sees it.  When a query whose nodes are instrumented has run, in
 * a parallel worker before the worker reports to the leader, their number is
 * added to what the node has removed itself: "Rows Removed by Index Recheck".
 * Bitmap scans check conditions again in their node, which counts already.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "executor/instrument.h"
#include "nodes/nodeFuncs.h"

#include "zheap/read/zheap_read.h"
#include "zheap/soft/zheap_watch.h"

static ExecutorFinish_hook_type prev_executor_finish = NULL;

/* planstate_tree_walker() */
static bool
add_removed(PlanState *node, void *context)
{
	IndexScanDesc scan = NULL;

	if (IsA(node, IndexScanState))
		scan = ((IndexScanState *) node)->iss_ScanDesc;
	else if (IsA(node, IndexOnlyScanState))
		scan = ((IndexOnlyScanState *) node)->ioss_ScanDesc;
	if (scan != NULL && node->instrument != NULL)
		node->instrument->nfiltered2 += zheap_watch_removed(scan);
	return planstate_tree_walker(node, add_removed, context);
}

static void
explain_executor_finish(QueryDesc *queryDesc)
{
	if (prev_executor_finish)
		prev_executor_finish(queryDesc);
	else
		standard_ExecutorFinish(queryDesc);
	if (unlikely(queryDesc->instrument_options != 0) &&
		queryDesc->planstate != NULL)
		(void) add_removed(queryDesc->planstate, NULL);
}

/* Called from _PG_init. */
void
zheap_explain_register(void)
{
	prev_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = explain_executor_finish;
}
