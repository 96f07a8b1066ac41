/*-------------------------------------------------------------------------
 *
 * zheap_scan.c
 *	  Scans of a whole table or of listed blocks: their life, and which block
 *	  comes next.  What is read of a block is zheap_scan_page.c's business.
 *
 * No lock is held between calls; a scan row by row keeps its page pinned.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/skey.h"
#include "access/syncscan.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "zheap/format/zheap_format.h"
#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"

static BlockNumber next_of_scan(ReadStream *stream, void *private_data,
								void *per_buffer_data);
#ifndef COMPAT_BITMAP_SCAN
static BlockNumber next_of_bitmap(ReadStream *stream, void *private_data,
								  void *per_buffer_data);
#endif

const TupleTableSlotOps *
zheap_scan_slot_callbacks(Relation rel)
{
	return &TTSOpsZHeapTuple;
}

/* ----------------------------------------------------------------
 *	begin, rescan, end
 * ----------------------------------------------------------------
 */

void
zheap_scan_clear_rows(ZScanDesc scan)
{
	Assert(scan->rows == NULL || scan->rows != scan->spare);
	scan->nrows = 0;
	scan->nquiet = scan->next_quiet = 0;
	scan->current = -1;
	scan->rowsused = 0;
	scan->maxoff = InvalidOffsetNumber;

	/* tuple slots keep what they show */
	if (scan->rows != NULL && scan->rows->refs > 1)
	{
		ZRows	   *shown = scan->rows;

		scan->rows = scan->spare;
		scan->spare = shown;
		if (scan->rows != NULL && scan->rows->refs > 1)
		{
			zheap_rows_release(scan->rows);
			scan->rows = NULL;
		}
	}
}

/*
 * Choose strategy, synchronisation and start.  A rescan keeps its start, so
 * that a rewound cursor shows the same order again.
 */
static void
scan_init(ZScanDesc scan, ScanKey key, bool keep_start)
{
	Relation	rel = scan->base.rs_rd;
	ParallelBlockTableScanDesc parallel;
	bool		big;
	bool		allow_sync;

	parallel = (ParallelBlockTableScanDesc) scan->base.rs_parallel;
	scan->nblocks = parallel ? parallel->phs_nblocks :
		RelationGetNumberOfBlocks(rel);

	big = !RelationUsesLocalBuffers(rel) && scan->nblocks > NBuffers / 4;
	if (big && (scan->base.rs_flags & SO_ALLOW_STRAT))
	{
		if (scan->strategy == NULL)
			scan->strategy = GetAccessStrategy(BAS_BULKREAD);
	}
	else if (scan->strategy != NULL)
	{
		FreeAccessStrategy(scan->strategy);
		scan->strategy = NULL;
	}

	if (parallel != NULL)
		allow_sync = parallel->base.phs_syncscan;
	else
	{
		allow_sync = big && (scan->base.rs_flags & SO_ALLOW_SYNC) &&
			synchronize_seqscans;
		if (!keep_start)
			scan->start = allow_sync ?
				ss_get_location(rel, scan->nblocks) : 0;
	}
	if (allow_sync)
		scan->base.rs_flags |= SO_ALLOW_SYNC;
	else
		scan->base.rs_flags &= ~SO_ALLOW_SYNC;
	if (scan->start >= scan->nblocks)
		scan->start = 0;

	Assert(scan->start == 0 || scan->start < scan->nblocks);
	scan->total = scan->nblocks;
	scan->inited = false;
	scan->next_index = 0;
	scan->direction = ForwardScanDirection;
	scan->block = InvalidBlockNumber;
	scan->off = InvalidOffsetNumber;
	scan->old_reads = 0;
	scan->old_from = 0;
	scan->old_window = 0;
	scan->gather = NULL;
	scan->by_parts = false;
	scan->alone = false;
	scan->part_next = scan->part_end = 0;
	zheap_scan_clear_rows(scan);

	if (key != NULL && scan->base.rs_nkeys > 0)
		memcpy(scan->base.rs_key, key,
			   scan->base.rs_nkeys * sizeof(ScanKeyData));

	if (scan->base.rs_flags & SO_TYPE_SEQSCAN)
		pgstat_count_heap_scan(rel);
}

/* the stream that reads ahead, for the kinds of scan that have one */
static void
begin_stream(ZScanDesc scan)
{
	MemoryContext old = MemoryContextSwitchTo(GetMemoryChunkContext(scan));
	uint32		flags = scan->base.rs_flags;

	Assert(scan->stream == NULL);
	if (flags & (SO_TYPE_SEQSCAN | SO_TYPE_TIDRANGESCAN))
		scan->stream = read_stream_begin_relation(READ_STREAM_SEQUENTIAL |
												  READ_STREAM_USE_BATCHING,
												  scan->strategy,
												  scan->base.rs_rd,
												  MAIN_FORKNUM,
												  next_of_scan, scan, 0);
#ifndef COMPAT_BITMAP_SCAN
	else if (flags & SO_TYPE_BITMAPSCAN)
		scan->stream = read_stream_begin_relation(READ_STREAM_DEFAULT |
												  READ_STREAM_USE_BATCHING,
												  scan->strategy,
												  scan->base.rs_rd,
												  MAIN_FORKNUM,
												  next_of_bitmap, scan,
												  sizeof(TBMIterateResult));
#endif
	MemoryContextSwitchTo(old);
}

TableScanDesc
zheap_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
				 struct ScanKeyData *key, ParallelTableScanDesc pscan,
				 uint32 flags)
{
	ZScanDesc	scan;

	AssertNoPageLocked();
	/* not only where there are rows to be judged */
	if (snapshot != NULL &&
		snapshot->snapshot_type == SNAPSHOT_HISTORIC_MVCC)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" of access method zheap cannot be read by logical decoding",
						RelationGetRelationName(rel))));
	RelationIncrementReferenceCount(rel);

	scan = (ZScanDesc) palloc(sizeof(ZScanDescData));
	memset(scan, 0, offsetof(ZScanDescData, row));
	scan->base.rs_rd = rel;
	scan->base.rs_snapshot = snapshot;
	scan->base.rs_nkeys = nkeys;
	scan->base.rs_flags = flags;
	scan->base.rs_parallel = pscan;
	scan->base.rs_key = nkeys > 0 ? palloc(sizeof(ScanKeyData) * nkeys) : NULL;
	if (pscan != NULL)
		scan->pworker = palloc0(sizeof(ParallelBlockTableScanWorkerData));
	/* a choice of nobody: it follows from the snapshot */
	scan->page_mode = snapshot != NULL && IsMVCCSnapshot(snapshot);
	scan->rows = NULL;
	scan->spare = NULL;
	scan->ahead = scan->ahead_end = NULL;
	scan->last = InvalidBuffer;
	scan->buffer = InvalidBuffer;
	scan->ndead = 0;
	zheap_version_init(&scan->version);

	/* nothing finer is there to be locked; heap forgets ranges of TIDs */
	if (flags & (SO_TYPE_SEQSCAN | SO_TYPE_SAMPLESCAN | SO_TYPE_TIDRANGESCAN))
	{
		Assert(snapshot);
		PredicateLockRelation(rel, snapshot);
	}
	scan->checks_exclusion = (flags & SO_TYPE_SEQSCAN) != 0 &&
		zheap_exclusion_scan_begins(rel);

	scan_init(scan, key, false);
	begin_stream(scan);
	return (TableScanDesc) scan;
}

void
zheap_scan_unpin(ZScanDesc scan)
{
	if (BufferIsValid(scan->buffer))
		ReleaseBuffer(scan->buffer);
	scan->buffer = InvalidBuffer;
}

void
zheap_scan_end(TableScanDesc sscan)
{
	ZScanDesc	scan = (ZScanDesc) sscan;

	AssertNoPageLocked();
	if (scan->checks_exclusion)
		zheap_exclusion_scan_ends();
	zheap_scan_unpin(scan);
	/* the next statement's snapshot needs other records */
	if (unlikely(undo_gather_count > 0) && !IsolationUsesXactSnapshot())
		undo_gather_drop(sscan->rs_rd);
	if (scan->stream != NULL)
		read_stream_end(scan->stream);
	RelationDecrementReferenceCount(sscan->rs_rd);
	if (sscan->rs_key)
		pfree(sscan->rs_key);
	if (scan->strategy != NULL)
		FreeAccessStrategy(scan->strategy);
	if (scan->pworker != NULL)
		pfree(scan->pworker);
	/* tuple slots may show rows even now */
	if (scan->rows != NULL)
		zheap_rows_release(scan->rows);
	if (scan->spare != NULL)
		zheap_rows_release(scan->spare);
	if (sscan->rs_flags & SO_TEMP_SNAPSHOT)
		UnregisterSnapshot(sscan->rs_snapshot);
	pfree(scan);
}

/* page mode isn't a choice here: it follows from the snapshot */
void
zheap_scan_rescan(TableScanDesc sscan, struct ScanKeyData *key,
				  bool set_params, bool allow_strat, bool allow_sync,
				  bool allow_pagemode)
{
	ZScanDesc	scan = (ZScanDesc) sscan;
	BufferAccessStrategy strategy = scan->strategy;

	if (set_params)
	{
		sscan->rs_flags &= ~(SO_ALLOW_STRAT | SO_ALLOW_SYNC);
		if (allow_strat)
			sscan->rs_flags |= SO_ALLOW_STRAT;
		if (allow_sync)
			sscan->rs_flags |= SO_ALLOW_SYNC;
	}
	zheap_scan_unpin(scan);
	/* it refers to what is to be set anew */
	if (scan->stream != NULL)
		read_stream_reset(scan->stream);
	scan_init(scan, key, true);
	if (scan->stream != NULL && scan->strategy != strategy)
	{
		read_stream_end(scan->stream);
		scan->stream = NULL;
		begin_stream(scan);
	}
}

void
zheap_scan_set_limits(ZScanDesc scan, BlockNumber start, BlockNumber total)
{
	Assert(!scan->inited);
	Assert((scan->base.rs_flags & SO_ALLOW_SYNC) == 0);

	scan->start = start < scan->nblocks ? start : 0;
	if (start >= scan->nblocks)
		scan->total = 0;
	else
		scan->total = Min(total, scan->nblocks - start);
}

/* ----------------------------------------------------------------
 *	blocks
 * ----------------------------------------------------------------
 */

/* the number of a block among those of the scan; not parallel */
static BlockNumber
index_of_block(ZScanDesc scan, BlockNumber block)
{
	Assert(scan->base.rs_parallel == NULL && block < scan->nblocks);
	return zheap_scan_distance(scan, scan->start, block);
}

/* the number of the next block to read in the scan; false at the end */
static bool
next_index(ZScanDesc scan)
{
	bool		forward = ScanDirectionIsForward(scan->direction);

	Assert(!scan->inited || scan->next_index < scan->total);
	if (!scan->inited)
	{
		if (scan->total == 0)
			return false;
		/* others shouldn't be led backwards */
		if (!forward)
			scan->base.rs_flags &= ~SO_ALLOW_SYNC;
		scan->next_index = forward ? 0 : scan->total - 1;
		return true;
	}
	if (scan->next_index == (forward ? scan->total - 1 : 0))
		return false;
	scan->next_index += forward ? 1 : -1;
	return true;
}

/* the next block to read, InvalidBlockNumber at the end; takes no pin */
static BlockNumber
next_block(ZScanDesc scan)
{
	Relation	rel = scan->base.rs_rd;
	BlockNumber block = InvalidBlockNumber;

	Assert(scan->total <= scan->nblocks);
	if (scan->base.rs_parallel != NULL)
		return zheap_scan_next_parallel(scan);

	if (next_index(scan))
	{
		BlockNumber left = scan->nblocks - scan->start;

		block = scan->next_index < left ? scan->start + scan->next_index :
			scan->next_index - left;
		if (scan->inited && (scan->base.rs_flags & SO_ALLOW_SYNC))
			ss_report_location(rel, block);
		scan->inited = true;
	}
	else
	{
		/* the next scan that starts together with me starts where I did */
		if (scan->inited && (scan->base.rs_flags & SO_ALLOW_SYNC))
			ss_report_location(rel, scan->start);
		scan->inited = false;
	}
	return block;
}

/* ReadStreamBlockNumberCB; takes no lock that is held while one reads */
static BlockNumber
next_of_scan(ReadStream *stream, void *private_data, void *per_buffer_data)
{
	return next_block((ZScanDesc) private_data);
}

#ifndef COMPAT_BITMAP_SCAN

/* ReadStreamBlockNumberCB; keeps what the bitmap says of the block with it */
static BlockNumber
next_of_bitmap(ReadStream *stream, void *private_data, void *per_buffer_data)
{
	ZScanDesc	scan = private_data;
	TBMIterateResult *found = per_buffer_data;

	/* rows of new pages are later than the snapshot, if not serializable */
	do
	{
		CHECK_FOR_INTERRUPTS();
		if (!tbm_iterate(&scan->base.st.rs_tbmiterator, found))
			return InvalidBlockNumber;
	} while (!IsolationIsSerializable() && found->blockno >= scan->nblocks);
	return found->blockno;
}

#endif

Buffer
zheap_scan_read_block(ZScanDesc scan, BlockNumber block)
{
	Relation	rel = scan->base.rs_rd;

	Assert(BlockNumberIsValid(block));
	AssertNoPageLocked();
#ifdef COMPAT_READ_STREAM
	if (block == scan->block + 1)
		scan->last = read_neighbour(rel, block, scan->last, scan->strategy);
	else
#endif
		scan->last = ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL,
										scan->strategy);
	scan->block = block;
	return scan->last;
}

/*
 * A scan that turns around forgets what it has read ahead.  It goes on from
 * the block at hand, or if there is none from the end where it is.
 */
static void
turn_around(ZScanDesc scan, ScanDirection direction)
{
	scan->direction = direction;
	scan->inited = BlockNumberIsValid(scan->block);
	if (scan->inited)
		scan->next_index = index_of_block(scan, scan->block);
	if (scan->stream != NULL)
		read_stream_reset(scan->stream);
}

Buffer
zheap_scan_next_buffer(ZScanDesc scan, ScanDirection direction)
{
	Buffer		buffer;
	BlockNumber block;

	Assert(!ScanDirectionIsNoMovement(direction));
	AssertNoPageLocked();
	CHECK_FOR_INTERRUPTS();
	if (unlikely(direction != scan->direction))
		turn_around(scan, direction);

	if (scan->stream != NULL)
	{
		buffer = read_stream_next_buffer(scan->stream, NULL);
		scan->block = BufferIsValid(buffer) ? BufferGetBlockNumber(buffer) :
			InvalidBlockNumber;
		return buffer;
	}
	block = next_block(scan);
	if (BlockNumberIsValid(block))
		return zheap_scan_read_block(scan, block);
	scan->block = InvalidBlockNumber;
	return InvalidBuffer;
}

BlockNumber
zheap_scan_blocks_total(ZScanDesc scan)
{
	return scan->base.rs_parallel != NULL ? scan->nblocks : scan->total;
}

BlockNumber
zheap_scan_blocks_done(ZScanDesc scan)
{
	ParallelBlockTableScanDesc parallel;

	if (!BlockNumberIsValid(scan->block))
		return zheap_scan_blocks_total(scan);
	parallel = (ParallelBlockTableScanDesc) scan->base.rs_parallel;
	if (parallel == NULL)
		return index_of_block(scan, scan->block);
	return zheap_scan_distance(scan, parallel->phs_startblock, scan->block);
}
