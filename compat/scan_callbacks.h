/*-------------------------------------------------------------------------
 *
 * scan_callbacks.h
 *	  How core drives scans of older versions.  Bitmap scans before PostgreSQL
 *	  18: the executor names block after block and then asks for the rows of
 *	  each.  ANALYZE before 17 names the blocks, too.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_SCAN_CALLBACKS_H
#define COMPAT_SCAN_CALLBACKS_H

#include "access/tableam.h"
#include "executor/tuptable.h"
#include "nodes/tidbitmap.h"

extern bool zheap_scan_bitmap_next_block(TableScanDesc sscan,
										 TBMIterateResult *tbmres);
extern bool zheap_scan_bitmap_next_tuple(TableScanDesc sscan,
										 TBMIterateResult *tbmres,
										 TupleTableSlot *slot);

/* one callback of today stands for two */
#define scan_bitmap_next_tuple \
	scan_bitmap_next_block = zheap_scan_bitmap_next_block, \
	.scan_bitmap_next_tuple

#ifdef COMPAT_READ_STREAM

/* the callback of today gets a stream of the block */
#define zheap_scan_analyze_next_block(scan, stream) \
	zheap_scan_analyze_next_of_stream(scan, stream)

extern bool (zheap_scan_analyze_next_block) (TableScanDesc sscan,
											 BlockNumber block,
											 BufferAccessStrategy strategy);

#endif

#endif							/* COMPAT_SCAN_CALLBACKS_H */
