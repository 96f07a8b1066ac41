/*-------------------------------------------------------------------------
 *
 * zheap_ring.h
 *	  A walk over undo records notices that it has come back to where it was.
 *
 * What a record names was written before it, so no walk meets a record twice
 * ({writer, pointer} names one for ever, U5).  Links come from disk; damaged ones
 * may make a ring, of any length, and a walk in it has no end.  One passed place
 * is remembered, and moved on after twice as many steps each time (Brent): a ring
 * is found in constant memory, after three times as many steps as it and what
 * leads to it have records, at most.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_RING_H
#define ZHEAP_RING_H

#include "undo/undo.h"

typedef struct ZRing
{
	Fxid		fxid;			/* a place passed; Invalid: none yet */
	UndoRecPtr	urp;
	uint64		steps;			/* from there */
	uint64		limit;			/* then the place is moved on */
} ZRing;

static inline void
zheap_ring_begin(ZRing *ring)
{
	ring->fxid = InvalidFxid;
	ring->urp = InvalidUndoRecPtr;
	ring->steps = 0;
	ring->limit = 1;
}

/* ERROR, naming record and table block */
pg_noreturn extern void zheap_ring_report(UndoRecPtr urp, BlockNumber block);

/* The walk goes on to this record, or to nowhere: not to be called for the first. */
static inline void
zheap_ring_step(ZRing *ring, Fxid fxid, UndoRecPtr urp, BlockNumber block)
{
	if (unlikely(urp == ring->urp && fxid == ring->fxid &&
				 UndoRecPtrIsValid(urp)))
		zheap_ring_report(urp, block);
	if (++ring->steps == ring->limit)
	{
		ring->fxid = fxid;
		ring->urp = urp;
		ring->steps = 0;
		ring->limit *= 2;
	}
}

#endif							/* ZHEAP_RING_H */
