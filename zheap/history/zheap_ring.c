/*-------------------------------------------------------------------------
 *
 * zheap_ring.c
 *	  What is said of a walk over undo records that is where it was.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "zheap/history/zheap_ring.h"

void
zheap_ring_report(UndoRecPtr urp, BlockNumber block)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("undo of table block %u comes back to undo record " UndoRecPtrFormat,
					block, UndoRecPtrFormatArgs(urp))));
}
