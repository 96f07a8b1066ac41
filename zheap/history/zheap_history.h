/*-------------------------------------------------------------------------
 *
 * zheap_history.h
 *	  Reading the history of rows, and what a record says of the version that it
 *	  replaces (zheap_describe.c).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_HISTORY_H
#define ZHEAP_HISTORY_H

#include "postgres.h"
#include "utils/snapshot.h"

#include "zheap/owner/zheap_xact_slot.h"

/* an AM call's reading: horizons sampled before the page was locked, reader */
typedef struct ZReadContext
{
	Relation	rel;
	Snapshot	snapshot;
	UndoHorizons hz;
	UndoReader	reader;
	bool		check_serializable; /* report conflicts out */

	/*
	 * Set after zheap_visibility_begin, by zheap_rollback_limit_reader(), for
	 * who gives up: so many records of aborted changes may be passed, 0 for
	 * as many as there are.  When they are used up, or the process is
	 * interrupted, nothing is found and too_long is set: give the page up,
	 * let zheap_rollback_for_reader() do the rest and begin again.  Others,
	 * as writers, fail when they are interrupted.
	 */
	bool		gives_up;
	int			patience;
	bool		too_long;
	int			until_look;		/* records to pass before the next look */

	/*
	 * Set after zheap_visibility_begin by readers that don't compare
	 * versions: the identity of a version may be the xact slot's owner
	 * instead of its writer, the command id of an own one isn't told, and
	 * "next" of a moved row isn't looked for.  Saves undo reads.
	 */
	bool		approximate_identity;
} ZReadContext;

/*
 * Fill oldhdr, OLD_* flags and link of a change record (Z6): the row's
 * present version as seen by the change that is about to be made with
 * choice.  Exclusive lock held, aborted owners already rolled back; hdr is
 * the tuple's header after normalising (before the takeover pass).  Also sets
 * TENURE_START, FAMILY, prev_fxid, BASE, chain.
 */
extern void zheap_describe_old(ZReadContext *cx, Page page,
							   BlockNumber block, OffsetNumber off,
							   const ZXactSlotChoice *choice,
							   const ZTupleHeader *hdr, ZUndo *u);

/* the same for records without an old version (inserts, locks) */
extern void zheap_describe_tenure(ZReadContext *cx, Page page,
								  BlockNumber block,
								  const ZXactSlotChoice *choice,
								  ZUndo *u);

#endif							/* ZHEAP_HISTORY_H */
