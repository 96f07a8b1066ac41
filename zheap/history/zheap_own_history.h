/*-------------------------------------------------------------------------
 *
 * zheap_own_history.h
 *	  What my own transaction did to a page: up to which command, and what was
 *	  there before.
 *
 * Most of what a transaction meets of its own was done by earlier commands.
 * That is told here for a page at once, so that no command id has to be looked
 * for in undo.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_OWN_HISTORY_H
#define ZHEAP_OWN_HISTORY_H

#include "zheap/history/zheap_history.h"

/*
 * The tenures of my family that end with record urp of fxid.  bound: each
 * change in them is of a command below that (row locks are no changes).  old:
 * the newest record below which a smaller bound, old_bound, is known to hold,
 * or invalid.  base: content of the xact slot below them, 0 if there was none.
 */
typedef struct ZOwnHistory
{
	Fxid		fxid;			/* 0 = empty */
	UndoRecPtr	urp;
	Fxid		old_fxid;
	UndoRecPtr	old_urp;
	Fxid		base_fxid;
	UndoRecPtr	base_urp;
	CommandId	bound;
	CommandId	old_bound;
	char		persistence;
} ZOwnHistory;

/* is each change that my transaction made so far of a command below cid */
extern bool zheap_own_changes_precede(CommandId cid);

/* what is remembered of the tenures that end with urp, or NULL */
extern const ZOwnHistory *zheap_own_history_get(Relation rel,
												BlockNumber block,
												Fxid fxid, UndoRecPtr urp);

/* remember what was found out by reading; valid until the next put or note */
extern const ZOwnHistory *zheap_own_history_put(Relation rel,
												BlockNumber block,
												const ZOwnHistory *h);

/*
 * Record urp was written, by fxid (mine) with this choice, for a change by the
 * command cid, or for a row lock.  To be told of every record, after the
 * critical section; may allocate.
 */
extern void zheap_own_history_note(Relation rel, BlockNumber block,
								   const ZXactSlotChoice *choice, Fxid fxid,
								   UndoRecPtr urp, CommandId cid, bool lock);

#endif							/* ZHEAP_OWN_HISTORY_H */
