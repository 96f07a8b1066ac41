/*-------------------------------------------------------------------------
 *
 * zheap_scan_chosen.c
 *	  Scans of blocks that somebody else chooses: bitmap and sample scans, and
 *	  ANALYZE.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/skey.h"
#include "access/syncscan.h"
#include "access/tsmapi.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "zheap/back/zheap_back.h"
#include "zheap/history/zheap_history.h"
#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/soft/zheap_old_keys.h"

/* ----------------------------------------------------------------
 *	bitmap scan
 * ----------------------------------------------------------------
 */

#ifndef COMPAT_BITMAP_SCAN

/* the next page that the bitmap names; false at the end */
static bool
next_bitmap_page(ZScanDesc scan, bool *recheck, uint64 *lossy_pages,
				 uint64 *exact_pages)
{
	OffsetNumber offsets[TBM_MAX_TUPLES_PER_PAGE];
	int			noffsets = 0;
	TBMIterateResult *found;
	void	   *per_buffer_data;
	Buffer		buffer;

	zheap_scan_clear_rows(scan);
	buffer = read_stream_next_buffer(scan->stream, &per_buffer_data);
	if (!BufferIsValid(buffer))
		return false;
	found = per_buffer_data;
	scan->block = found->blockno;
	if (!found->lossy)
		noffsets = tbm_extract_page_tuple(found, offsets,
										  TBM_MAX_TUPLES_PER_PAGE);
	zheap_scan_load_page(scan, buffer, found->lossy ? NULL : offsets,
						 noffsets, IsolationIsSerializable());
	*recheck = found->recheck || scan->stale;
	*(found->lossy ? lossy_pages : exact_pages) += 1;
	return true;
}

bool
zheap_scan_bitmap_next_tuple(TableScanDesc sscan, TupleTableSlot *slot,
							 bool *recheck, uint64 *lossy_pages,
							 uint64 *exact_pages)
{
	ZScanDesc	scan = (ZScanDesc) sscan;

	while (scan->current + 1 >= scan->nrows)
	{
		/* give the memory back, for the rows of the next block */
		ExecClearTuple(slot);
		if (!next_bitmap_page(scan, recheck, lossy_pages, exact_pages))
			return false;
	}
	zheap_scan_store_row(scan, ++scan->current, slot);
	pgstat_count_heap_fetch(sscan->rs_rd);
	return true;
}

#endif

/* ----------------------------------------------------------------
 *	sample scan
 * ----------------------------------------------------------------
 */

bool
zheap_scan_sample_next_block(TableScanDesc sscan,
							 struct SampleScanState *state)
{
	ZScanDesc	scan = (ZScanDesc) sscan;
	TsmRoutine *tsm = state->tsmroutine;
	Buffer		buffer = InvalidBuffer;

	Assert(scan->page_mode);
	zheap_scan_clear_rows(scan);
	if (scan->nblocks == 0)
		return false;

	CHECK_FOR_INTERRUPTS();
	if (tsm->NextSampleBlock)
	{
		scan->block = tsm->NextSampleBlock(state, scan->nblocks);
		if (BlockNumberIsValid(scan->block))
			buffer = zheap_scan_read_block(scan, scan->block);
	}
	else
		buffer = zheap_scan_next_buffer(scan, ForwardScanDirection);

	if (!BufferIsValid(buffer))
		return false;
	zheap_scan_load_page(scan, buffer, NULL, 0, false);
	return true;
}

/* the row at an offset, by binary search; -1 if it isn't visible */
static int
find_row(ZScanDesc scan, OffsetNumber off)
{
	int			low = 0;
	int			high = scan->nrows - 1;

	Assert(scan->nrows <= MaxHeapTuplesPerPage);
	while (low <= high)
	{
		int			mid = (low + high) / 2;

		if (scan->row[mid].off == off)
			return mid;
		if (scan->row[mid].off < off)
			low = mid + 1;
		else
			high = mid - 1;
	}
	return -1;
}

bool
zheap_scan_sample_next_tuple(TableScanDesc sscan,
							 struct SampleScanState *state,
							 TupleTableSlot *slot)
{
	ZScanDesc	scan = (ZScanDesc) sscan;
	TsmRoutine *tsm = state->tsmroutine;

	Assert(BlockNumberIsValid(scan->block));
	for (;;)
	{
		OffsetNumber off;
		int			i;

		CHECK_FOR_INTERRUPTS();
		off = tsm->NextSampleTuple(state, scan->block, scan->maxoff);
		if (!OffsetNumberIsValid(off))
			break;
		i = find_row(scan, off);
		if (i < 0)
			continue;
		zheap_scan_store_row(scan, i, slot);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}
	ExecClearTuple(slot);
	return false;
}

/* ----------------------------------------------------------------
 *	analyze
 * ----------------------------------------------------------------
 */

/*
 * Count and sample as heap does: foreign transactions in progress haven't
 * happened yet, my own has.  That is what a SELF snapshot sees.  Dead line
 * pointers are work for vacuum, so they count as dead.  False: the page has a
 * long history: zheap_rollback_for_reader() first.
 */
static bool
try_analyze_page(ZScanDesc scan, Buffer buffer)
{
	ZVersion   *v = &scan->version;
	ZReadContext cx;
	BlockNumber block = scan->block;
	Page		page;

	Assert(BufferGetBlockNumber(buffer) == block);
	AssertNoPageLocked();
	zheap_scan_clear_rows(scan);
	scan->ndead = 0;
	page = zheap_scan_lock_page(scan, buffer, SnapshotSelf, &cx);
	if (!PageIsNew(page))
	{
		OffsetNumber max = PageGetMaxOffsetNumber(page);

		for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
		{
			ItemId		lp = PageGetItemId(page, off);

			if (!ItemIdIsUsed(lp))
				continue;
			if (!ItemIdIsNormal(lp))
				scan->ndead++;
			else if (zheap_visibility_find(&cx, buffer, page, block, off, v))
				zheap_scan_add_row(scan, off, v);
			else if (v->ended)
				scan->ndead++;
		}
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);
	return !cx.too_long;
}

bool
zheap_scan_analyze_next_block(TableScanDesc sscan, ReadStream *stream)
{
	ZScanDesc	scan = (ZScanDesc) sscan;
	Buffer		buffer = read_stream_next_buffer(stream, NULL);

	zheap_scan_clear_rows(scan);
	scan->ndead = 0;
	if (!BufferIsValid(buffer))
		return false;
	scan->block = BufferGetBlockNumber(buffer);
	while (!try_analyze_page(scan, buffer))
		zheap_rollback_for_reader(sscan->rs_rd, scan->block);
	ReleaseBuffer(buffer);
	return true;
}

bool
zheap_scan_analyze_next_tuple(TableScanDesc sscan, TransactionId oldest_xmin,
							  double *liverows, double *deadrows,
							  TupleTableSlot *slot)
{
	ZScanDesc	scan = (ZScanDesc) sscan;

	/* and the page's share of old entries, lest autovacuum forget them */
	if (scan->current < 0)
		*deadrows += Max((double) scan->ndead, (double)
						 zheap_old_keys_count(sscan->rs_rd) / scan->nblocks);
	scan->ndead = 0;
	if (scan->current + 1 < scan->nrows)
	{
		zheap_scan_store_row(scan, ++scan->current, slot);
		*liverows += 1;
		return true;
	}
	ExecClearTuple(slot);
	return false;
}

/* ----------------------------------------------------------------
 *	TID range
 * ----------------------------------------------------------------
 */

void
zheap_scan_set_tidrange(TableScanDesc sscan, ItemPointer mintid,
						ItemPointer maxtid)
{
	ZScanDesc	scan = (ZScanDesc) sscan;
	ItemPointerData high;
	ItemPointerData low;

	Assert(scan->base.rs_flags & SO_TYPE_TIDRANGESCAN);
	if (scan->nblocks == 0)
		return;

	/* no line pointer of a zheap page lies outside these */
	ItemPointerSet(&low, 0, FirstOffsetNumber);
	ItemPointerSet(&high, scan->nblocks - 1, MaxHeapTuplesPerPage);
	if (ItemPointerCompare(mintid, &low) > 0)
		ItemPointerCopy(mintid, &low);
	if (ItemPointerCompare(maxtid, &high) < 0)
		ItemPointerCopy(maxtid, &high);

	if (ItemPointerCompare(&high, &low) < 0)
	{
		zheap_scan_set_limits(scan, 0, 0);
		return;
	}
	zheap_scan_set_limits(scan, ItemPointerGetBlockNumberNoCheck(&low),
						  ItemPointerGetBlockNumberNoCheck(&high) -
						  ItemPointerGetBlockNumberNoCheck(&low) + 1);
	ItemPointerCopy(&low, &scan->mintid);
	ItemPointerCopy(&high, &scan->maxtid);
}

bool
zheap_scan_getnextslot_tidrange(TableScanDesc sscan, ScanDirection direction,
								TupleTableSlot *slot)
{
	ZScanDesc	scan = (ZScanDesc) sscan;

	Assert(scan->base.rs_flags & SO_TYPE_TIDRANGESCAN);
	while (zheap_scan_getnextslot(sscan, direction, slot))
	{
		/* only the first and the last page have rows out of range */
		if (ItemPointerCompare(&slot->tts_tid, &scan->mintid) >= 0 &&
			ItemPointerCompare(&slot->tts_tid, &scan->maxtid) <= 0)
			return true;
	}
	return false;
}
