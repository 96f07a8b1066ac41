/*-------------------------------------------------------------------------
 *
 * zheap_chain_index.h
 *	  Long tenures that this backend has walked: where in them is the next
 *	  record about a row.
 *
 * Private to zheap_chain_index.c and zheap_walk.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_CHAIN_INDEX_H
#define ZHEAP_CHAIN_INDEX_H

#include "zheap/history/zheap_record_cache.h"

/*
 * The first record at or below u, in the tenure of w, that isn't known to be
 * of no interest to row off: one that may cover it, starts the tenure or (if
 * stop_at_base) carries BASE, or that isn't remembered.  *known: it is.
 */
extern UndoRecPtr zheap_chain_index_pass(char persistence, Fxid w,
										 UndoRecPtr u,
										 OffsetNumber off, bool stop_at_base,
										 bool *known);

/* remember a record that was come to, unless it is known */
extern void zheap_chain_index_note(const ZCachedUndo *c);

#endif							/* ZHEAP_CHAIN_INDEX_H */
