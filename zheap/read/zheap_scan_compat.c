/*-------------------------------------------------------------------------
 *
 * zheap_scan_compat.c
 *	  How core drives scans of older versions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "nodes/tidbitmap.h"
#include "pgstat.h"

#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"

#ifdef COMPAT_BITMAP_SCAN

bool
zheap_scan_bitmap_next_block(TableScanDesc sscan, TBMIterateResult *tbmres)
{
	ZScanDesc	scan = (ZScanDesc) sscan;
	Buffer		buffer;

	Assert(scan->page_mode);
	zheap_scan_clear_rows(scan);

	/* rows of new pages are later than the snapshot, if not serializable */
	if (!IsolationIsSerializable() && tbmres->blockno >= scan->nblocks)
		return false;

	CHECK_FOR_INTERRUPTS();
	buffer = zheap_scan_read_block(scan, tbmres->blockno);
	zheap_scan_load_page(scan, buffer,
						 tbmres->ntuples >= 0 ? tbmres->offsets : NULL,
						 tbmres->ntuples, IsolationIsSerializable());
	if (scan->stale)
		tbmres->recheck = true;
	return scan->nrows > 0;
}

bool
zheap_scan_bitmap_next_tuple(TableScanDesc sscan, TBMIterateResult *tbmres,
							 TupleTableSlot *slot)
{
	ZScanDesc	scan = (ZScanDesc) sscan;

	Assert(scan->page_mode && scan->current < Max(scan->nrows, 1));
	if (scan->current + 1 >= scan->nrows)
		return false;
	zheap_scan_store_row(scan, ++scan->current, slot);
	pgstat_count_heap_fetch(sscan->rs_rd);
	return true;
}

#endif

#ifdef COMPAT_READ_STREAM

/* a stream of one block */
static BlockNumber
next_of_one(ReadStream *stream, void *private_data, void *per_buffer_data)
{
	BlockNumber *block = private_data;
	BlockNumber result = *block;

	*block = InvalidBlockNumber;
	return result;
}

bool
			(zheap_scan_analyze_next_block) (TableScanDesc sscan, BlockNumber block,
											 BufferAccessStrategy strategy)
{
	ReadStream *stream = read_stream_begin_relation(READ_STREAM_MAINTENANCE,
													strategy, sscan->rs_rd,
													MAIN_FORKNUM, next_of_one,
													&block, 0);
	bool		result = zheap_scan_analyze_next_block(sscan, stream);

	read_stream_end(stream);
	return result;
}

#endif
