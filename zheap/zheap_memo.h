/*-------------------------------------------------------------------------
 *
 * zheap_memo.h
 *	  What this backend remembers of undo chains it has walked, so that the
 *	  next row of a page needn't read records that are not about it.
 *
 * Private to zheap_walk.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_MEMO_H
#define ZHEAP_MEMO_H

#include "zheap/zheap_undo.h"

/*
 * The first record at or below u, in the tenure of w, that isn't known to be
 * of no interest to row off: one that covers it, starts the tenure or (if
 * stop_at_base) carries BASE, or that isn't remembered.
 */
extern UndoRecPtr zheap_memo_pass(char persistence, Fxid w, UndoRecPtr u,
								  OffsetNumber off, bool stop_at_base);

/* remember a record that was read */
extern void zheap_memo_note(char persistence, UndoRecPtr urp, const ZUndo *r);

#endif							/* ZHEAP_MEMO_H */
