/*-------------------------------------------------------------------------
 *
 * zheap_scan_parallel.c
 *	  Parallel scans of a table: what the processes share, and which block is
 *	  whose.
 *
 * Core hands out blocks in small runs, that all processes work side by side.
 * Where undo was gathered, each of them would load each part of it then: so the
 * blocks that nobody has taken by then go by parts, each to one process.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/spin.h"
#include "utils/rel.h"

#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"

Size
zheap_parallelscan_estimate(Relation rel)
{
	return sizeof(ZParallelScanData);
}

/*
 * Before there are processes: what the leader has gathered, as for an earlier
 * scan of the transaction, is theirs, too.  Blocks behind it are new, and have
 * little to be taken back.
 */
static void
set_up(Relation rel, ZParallelScan shared)
{
	const UndoGather *g = undo_gather_count > 0 ? undo_gather_find(rel) : NULL;

	if (g != NULL && undo_gather_end(g) < shared->base.phs_nblocks / 4 * 3)
		g = NULL;
	shared->rest = InvalidBlockNumber;
	pg_atomic_write_u32(&shared->next_part, 0);
	undo_gather_team_init(&shared->team, g);
	if (g != NULL)
		zheap_scan_hand_out_parts(shared, g);
}

Size
zheap_parallelscan_initialize(Relation rel, ParallelTableScanDesc pscan)
{
	ZParallelScan shared = (ZParallelScan) pscan;

	table_block_parallelscan_initialize(rel, pscan);
	SpinLockInit(&shared->mutex);
	pg_atomic_init_u32(&shared->next_part, 0);
	set_up(rel, shared);
	return sizeof(ZParallelScanData);
}

void
zheap_parallelscan_reinitialize(Relation rel, ParallelTableScanDesc pscan)
{
	table_block_parallelscan_reinitialize(rel, pscan);
	set_up(rel, (ZParallelScan) pscan);
}

/* Core has nothing left to hand out then; any process may say so. */
void
zheap_scan_hand_out_parts(ZParallelScan shared, const UndoGather *g)
{
	BlockNumber nblocks = shared->base.phs_nblocks;

	SpinLockAcquire(&shared->mutex);
	if (!BlockNumberIsValid(shared->rest))
	{
		uint64		taken = pg_atomic_fetch_add_u64(&shared->base.phs_nallocated,
													nblocks);

		shared->rest = Min(taken, nblocks);
		shared->per_part = undo_gather_per_part(g);
	}
	SpinLockRelease(&shared->mutex);
}

/* Where core has nothing left: was that what made an end of it? */
static bool
goes_by_parts(ZParallelScan shared)
{
	bool		result;

	SpinLockAcquire(&shared->mutex);
	result = BlockNumberIsValid(shared->rest);
	SpinLockRelease(&shared->mutex);
	return result;
}

/* the next block of this process's part that core hasn't handed out */
static BlockNumber
next_of_part(ZScanDesc scan, ZParallelScan shared)
{
	while (scan->part_next < scan->part_end)
	{
		BlockNumber block = scan->part_next++;

		if (zheap_scan_distance(scan, shared->base.phs_startblock, block) >=
			shared->rest)
			return block;
	}
	return InvalidBlockNumber;
}

BlockNumber
zheap_scan_next_parallel(ZScanDesc scan)
{
	Relation	rel = scan->base.rs_rd;
	ZParallelScan shared = (ZParallelScan) scan->base.rs_parallel;
	BlockNumber block;

	Assert(ScanDirectionIsForward(scan->direction));
	if (scan->nblocks == 0)
		return InvalidBlockNumber;
	if (!scan->inited)
		table_block_parallelscan_startblock_init(rel, scan->pworker,
												 &shared->base);
	scan->inited = true;
	if (!scan->by_parts)
	{
		block = table_block_parallelscan_nextpage(rel, scan->pworker,
												  &shared->base);
		if (BlockNumberIsValid(block))
			return block;
		scan->by_parts = goes_by_parts(shared);
		if (!scan->by_parts)
			return InvalidBlockNumber;
	}
	while (!BlockNumberIsValid(block = next_of_part(scan, shared)))
	{
		uint32		part = pg_atomic_fetch_add_u32(&shared->next_part, 1);

		if (part > (scan->nblocks - 1) / shared->per_part)
			break;
		scan->part_next = part * shared->per_part;
		scan->part_end = Min((uint64) scan->part_next + shared->per_part,
							 scan->nblocks);
	}
	return block;
}
