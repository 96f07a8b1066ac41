/*-------------------------------------------------------------------------
 *
 * zheap_scan_gather.c
 *	  When a table scan has undo read from one end to the other, instead of at
 *	  random.
 *
 * An old snapshot's scan needs the records of each page it comes to, and where
 * rows are changed at random these lie anywhere.  While undo is in shared buffers
 * that doesn't matter.  Else each record may cost a read: so a scan counts the
 * blocks that its pages had to read besides themselves, and when what the rest
 * of it would read, going by that, is more than all undo there is, undo is
 * gathered (../../undo/record/undo_gather.c).  It costs at most what it expects
 * to spare.  The same rule decides again where the scan leaves the blocks that
 * a pass covered, or meets too much that was written since.
 *
 * In a parallel scan each process counts what it reads itself, per block that
 * any of them has done: so it reckons with its own share of the rest.  When one
 * has decided, the others gather with it as they come to their next block, and
 * all of them get what is left of the table by parts (zheap_scan_parallel.c).  If
 * it is too much for that, each goes on by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/guc.h"
#include "utils/rel.h"

#include "zheap/format/zheap_format.h"
#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"

static bool gather_undo = true;

void
zheap_scan_gather_define_settings(void)
{
	DefineCustomBoolVariable("zheap.gather_undo",
							 "Old snapshots' scans may read all undo at once, in order.",
							 "Where they would read more of it at random.  Needs temporary files.",
							 &gather_undo, true,
							 PGC_USERSET, 0, NULL, NULL, NULL);
}

/* blocks of the scan before the one at hand, in the direction it goes */
static BlockNumber
blocks_done(ZScanDesc scan)
{
	BlockNumber total = zheap_scan_blocks_total(scan);
	BlockNumber done;

	/* SERIALIZABLE may look at blocks that are new */
	if (scan->block >= scan->nblocks)
		return total;
	done = Min(zheap_scan_blocks_done(scan), total);
	return scan->base.rs_parallel == NULL &&
		ScanDirectionIsBackward(scan->direction) ? total - done : done;
}

/* Would the rest of the scan read more at random than a pass reads in order? */
static bool
gathering_pays(ZScanDesc scan)
{
	BlockNumber total = zheap_scan_blocks_total(scan);
	BlockNumber done = blocks_done(scan);
	BlockNumber rest = total - done;
	double		per_block;

	if (!gather_undo || scan->block >= scan->nblocks)
		return false;
	if (GATHER_AT_ONCE > 0)
		return scan->gather == NULL;
	if (scan->old_reads < FEW_OLD_READS)
		return false;
	if (scan->old_window > 0)
		rest = Min(rest, scan->old_window);
	per_block = (double) scan->old_reads /
		(done > scan->old_from ? done - scan->old_from : 1);
	return per_block * rest >
		undo_gather_cost(scan->base.rs_rd->rd_rel->relpersistence);
}

/* the first writer whose changes the snapshot may not see */
static Fxid
floor_of(ZScanDesc scan)
{
	return undo_log_fxid_from_xid(scan->base.rs_snapshot->xmin);
}

static void
add_context(void *arg)
{
	errcontext("gathering undo for a scan of table \"%s\", as zheap.gather_undo allows",
			   (const char *) arg);
}

/* Gather for n blocks from "first" on, or for less of them: *n. */
static UndoGather *
gather(ZScanDesc scan, BlockNumber first, BlockNumber *n)
{
	return undo_gather_build(scan->base.rs_rd, floor_of(scan), first, n,
							 GATHER_AT_ONCE);
}

/*
 * Gather for all of the table: other scans of the transaction may begin
 * elsewhere.  If that is too much, for blocks from the one at hand on.
 */
static UndoGather *
build(ZScanDesc scan)
{
	BlockNumber first = 0;
	BlockNumber n = scan->nblocks;
	UndoGather *g = NULL;

	if (scan->old_window > 0)
		n = scan->old_window;
	if (n == scan->nblocks)
		g = gather(scan, 0, &n);
	if (n > 0 && n < scan->nblocks && (g == NULL || scan->block >= n))
	{
		if (!ScanDirectionIsBackward(scan->direction))
			first = scan->block;
		else if (scan->block >= n)
			first = scan->block + 1 - n;
		n = Min(n, scan->nblocks - first);
		g = gather(scan, first, &n);
	}
	scan->old_window = Max(n, 1);
	return g;
}

/* Gather with the other processes of a parallel scan. */
static UndoGather *
build_together(ZScanDesc scan)
{
	ZParallelScan shared = (ZParallelScan) scan->base.rs_parallel;
	UndoGather *g = undo_gather_join(&shared->team, scan->base.rs_rd,
									 floor_of(scan), scan->nblocks,
									 GATHER_AT_ONCE);

	if (g != NULL)
		zheap_scan_hand_out_parts(shared, g);
	else
		scan->alone = true;
	return g;
}

/* See zheap_scan.h.  The page is given up meanwhile: it takes seconds. */
Buffer
zheap_scan_gather(ZScanDesc scan, Buffer buffer)
{
	Relation	rel = scan->base.rs_rd;
	bool		together = scan->base.rs_parallel != NULL && !scan->alone;
	UndoGather *g;
	ErrorContextCallback context;

	Assert(BufferGetBlockNumber(buffer) == scan->block);
	AssertNoPageLocked();
	scan->gather = NULL;
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		scan->base.rs_snapshot->snapshot_type != SNAPSHOT_MVCC)
		return buffer;
	g = undo_gather_find(rel);
	if (g != NULL && undo_gather_position(g, scan->block))
		scan->gather = g;
	if (together && scan->gather != NULL)
		return buffer;
	if (!zheap_scan_team_calls(scan) && !gathering_pays(scan))
		return buffer;

	ReleaseBuffer(buffer);
	context.callback = add_context;
	context.arg = RelationGetRelationName(rel);
	context.previous = error_context_stack;
	error_context_stack = &context;
	scan->gather = NULL;
	g = together ? build_together(scan) : build(scan);
	if (g != NULL && undo_gather_position(g, scan->block))
		scan->gather = g;
	error_context_stack = context.previous;
	scan->old_reads = 0;
	scan->old_from = blocks_done(scan);
	return ReadBufferExtended(rel, MAIN_FORKNUM, scan->block, RBM_NORMAL,
							  scan->strategy);
}
