/*-------------------------------------------------------------------------
 *
 * reorder_buffer.h
 *	  Changes queued for logical decoding, as 18 has them.  Not part of
 *	  pg_compat.h, for one file includes this.
 *
 * Before 17 a tuple of a change is a struct that has the heap tuple in it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_REORDER_BUFFER_H
#define COMPAT_REORDER_BUFFER_H

#include "replication/reorderbuffer.h"

#include "pg_compat.h"

#ifdef COMPAT_TUPLE_BUF
typedef ReorderBufferTupleBuf *ChangeTuple;
#define ChangeTupleHeap(t)				(&(t)->tuple)
#else
typedef HeapTuple ChangeTuple;
#define ChangeTupleHeap(t)				(t)
#endif

#ifdef COMPAT_GET_CHANGE
#define ReorderBufferAllocChange(rb)	ReorderBufferGetChange(rb)
#define ReorderBufferAllocTupleBuf(rb, len) \
	ReorderBufferGetTupleBuf(rb, len)
#endif

#ifdef COMPAT_RELNODE
#define rlocator						relnode
#endif

#endif							/* COMPAT_REORDER_BUFFER_H */
