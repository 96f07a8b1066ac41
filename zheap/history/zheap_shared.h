/*-------------------------------------------------------------------------
 *
 * zheap_shared.h
 *	  What the chain of a page's shared xact slot says (Z56): row locks, and ends
 *	  of rows, by any number of transactions.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SHARED_H
#define ZHEAP_SHARED_H

#include "access/htup_details.h"

#include "zheap/owner/zheap_xact_slot.h"

/* a row lock; whether it is alive is asked, not noted */
typedef struct ZSharedLock
{
	Fxid		fxid;
	int			next;			/* the row's next one + 1, or 0 */
	OffsetNumber off;
	uint8		mode;			/* LockTupleMode */
} ZSharedLock;

/* the newest end of the row at an offset; fxid 0: none */
typedef struct ZSharedEnd
{
	Fxid		fxid;
	UndoRecPtr	urp;
} ZSharedEnd;

/*
 * A chain, read.  What is below a head never changes (U5), so this is never
 * stale: {persistence, youngest, urp} names one head for ever, as no record but
 * that one was written by a transaction up to youngest at urp while that is kept
 * (U25).
 */
typedef struct ZShared
{
	char		persistence;
	BlockNumber block;
	Fxid		youngest;		/* 0: empty */
	UndoRecPtr	urp;
	Fxid		base_fxid;		/* of a tenure below the chain, or 0 */
	UndoRecPtr	base_urp;
	int			nrecords;		/* since the last list */
	int			nlisted;		/* entries of that */
	int			nlocks;
	int			maxlocks;
	int			purge_at;		/* forget dead locks when there are so many */
	ZSharedLock *lock;
	ZSharedEnd *end;			/* by offset, or NULL: there are none */
	int			first[MaxHeapTuplesPerPage + 1];	/* newest lock of a row + 1,
													 * or 0 */
} ZShared;

/*
 * The chain of a page that is locked, or a copy of it, hz having been sampled
 * before.  NULL: there is none, or all that it tells of is visible to all or
 * rolled back, and has no lock any more.  Valid until the next call.  Reads each
 * record once.  ERROR (data corrupted) as for any undo; interrupts are served as
 * by zheap_walk_look_up().
 */
extern const ZShared *zheap_shared_get(UndoReader *reader,
									   const UndoHorizons *hz, Page page,
									   BlockNumber block);

/*
 * Who ended, or else owns, the row at off, whose xact slot id is ZXACT_SHARED,
 * and where its records begin.  ZSHARED_SETTLED, which is below each horizon, if
 * it is visible to all.
 */
#define ZSHARED_SETTLED		((Fxid) FirstNormalTransactionId)

extern Fxid zheap_shared_owner(UndoReader *reader, const UndoHorizons *hz,
							   Page page, BlockNumber block, OffsetNumber off,
							   UndoRecPtr *urp);

/* is the row at off, if that is its xact slot, or any, to be rolled back */
extern bool zheap_shared_is_aborted(UndoReader *reader, const UndoHorizons *hz,
									Page page, BlockNumber block,
									OffsetNumber off);
extern bool zheap_shared_any_aborted(UndoReader *reader,
									 const UndoHorizons *hz, Page page,
									 BlockNumber block);

/* is the lock's transaction mine (CURRENT) or running; else the lock is dead */
extern bool zheap_shared_lock_is_live(const ZSharedLock *lock,
									  const UndoHorizons *hz, bool *own);

/*
 * Fill shared flags and links of a record that is about to be written, of a kind
 * that is in the chain: see ZUndo.
 */
extern void zheap_shared_describe(Page page, const UndoHorizons *hz, ZUndo *u);

/* has the row at off ended by the shared xact slot */
static inline bool
zheap_shared_ended(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);
	ZTupleHeader header;

	if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
		return false;
	zheap_header_get((char *) PageGetItem(page, lp), &header);
	return header.slot == ZXACT_SHARED && ZHeaderIsEnded(&header) &&
		ZHeaderReused(&header) != ZH_REUSED_FOREIGN;
}

/* who ended, or else owns, the row at off, if it is such a row; 0: it is settled */
static inline Fxid
zheap_shared_row_fxid(const ZShared *s, Page page, OffsetNumber off)
{
	if (!zheap_shared_ended(page, off))
		return s->base_fxid;
	return s->end == NULL ? InvalidFxid : s->end[off].fxid;
}

#endif							/* ZHEAP_SHARED_H */
