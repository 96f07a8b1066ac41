/*-------------------------------------------------------------------------
 *
 * zheap_describe.c
 *	  How the undo record of a change names its tenure and the version that it
 *	  replaces.
 *
 * The page is exclusively locked by the caller during a whole call, and not
 * changed yet.  Undo may be read.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"

/* a running tenure repeats its BASE about every so many records */
#define BASE_INTERVAL			UNDO_KNOB("base-interval", 32, 1, 32)

/*
 * Content of the xact slot below the family's tenures: walk from the record u
 * of writer w to the start of the oldest one.  All of them are of the own,
 * running top transaction, so their undo is there.
 */
static void
find_base(ZReadContext *cx, BlockNumber block, Fxid w, UndoRecPtr u,
		  Fxid *base_fxid, UndoRecPtr *base_urp)
{
	ZWalk		walk;
	ZRing		ring;

	Assert(w != InvalidFxid && UndoRecPtrIsValid(u));
	zheap_ring_begin(&ring);
	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block,
					InvalidOffsetNumber, NULL, NULL);
	walk.fxid = w;
	walk.urp = u;
	for (;;)
	{
		const ZUndo *r = &walk.undo;

		zheap_walk_look_up(&walk.until_look);
		if (!zheap_walk_fetch(&walk, false))
			zheap_walk_corrupt(cx->rel, block, InvalidOffsetNumber,
							   "undo of the running transaction");
		if (r->flags & ZUNDO_BASE)
		{
			*base_fxid = r->base_fxid;
			*base_urp = r->base_urp;
			return;
		}
		if ((r->flags & ZUNDO_TENURE_START) && !(r->flags & ZUNDO_FAMILY))
		{
			*base_fxid = r->prev_fxid;
			*base_urp = r->chain;
			return;
		}
		if (r->flags & ZUNDO_TENURE_START)
			walk.fxid = r->prev_fxid;
		walk.urp = r->chain;
		zheap_ring_step(&ring, walk.fxid, walk.urp, block);
	}
}

/*
 * Is it time to repeat BASE within a tenure?  Only worth it while
 * rows of older foreign owners still refer to the xact slot.  The pointer's
 * bits stand in for a counter.
 */
static bool
base_is_due(Page page, const ZXactSlotChoice *choice)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	uint64		hash = choice->prev_urp * UINT64CONST(0x9E3779B97F4A7C15);
	OffsetNumber off;

	Assert(UndoRecPtrIsValid(choice->prev_urp));
	if ((hash >> 32) % BASE_INTERVAL != 0)
		return false;
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		ZTupleHeader hdr;

		if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
			continue;
		zheap_header_get((char *) PageGetItem(page, lp), &hdr);
		if (hdr.slot == choice->id &&
			ZHeaderReused(&hdr) == ZH_REUSED_FOREIGN)
			return true;
	}
	return false;
}

/*
 * Fill chain, TENURE_START, FAMILY, prev_fxid and BASE of a record that is
 * about to be written with choice.  Exclusive lock held; nothing was changed
 * yet.  May read undo.
 */
void
zheap_describe_tenure(ZReadContext *cx, Page page, BlockNumber block,
					  const ZXactSlotChoice *choice, ZUndo *u)
{
	ZXactSlot	slot;

	Assert(CritSectionCount == 0 && u->writer != InvalidFxid);
	if (choice->tenure == ZTENURE_SHARED)
	{
		zheap_shared_describe(page, &cx->hz, u);
		return;
	}
	slot = ZPageGetXactSlot(page, choice->id);
	Assert(slot->urp == choice->prev_urp);
	Assert((choice->tenure == ZTENURE_FREE) == ZXactSlotIsFree(slot));

	u->flags &= ~(ZUNDO_TENURE_START | ZUNDO_FAMILY | ZUNDO_BASE);
	u->chain = choice->prev_urp;
	u->prev_fxid = InvalidFxid;
	u->base_fxid = InvalidFxid;
	u->base_urp = InvalidUndoRecPtr;

	switch (choice->tenure)
	{
		case ZTENURE_CONTINUE:
			if (base_is_due(page, choice))
			{
				u->flags |= ZUNDO_BASE;
				find_base(cx, block, ZXactSlotFxid(slot), slot->urp,
						  &u->base_fxid, &u->base_urp);
			}
			break;
		case ZTENURE_FREE:
		case ZTENURE_FROZEN:
			u->flags |= ZUNDO_TENURE_START;
			u->chain = InvalidUndoRecPtr;
			break;
		case ZTENURE_FAMILY:
			Assert(choice->prev_fxid == ZXactSlotFxid(slot));
			u->flags |= ZUNDO_TENURE_START | ZUNDO_FAMILY | ZUNDO_BASE;
			u->prev_fxid = choice->prev_fxid;
			find_base(cx, block, choice->prev_fxid, choice->prev_urp,
					  &u->base_fxid, &u->base_urp);
			break;
		case ZTENURE_FOREIGN:
			Assert(choice->prev_fxid == ZXactSlotFxid(slot));
			u->flags |= ZUNDO_TENURE_START;
			u->prev_fxid = choice->prev_fxid;
			break;
		case ZTENURE_SHARED:
			Assert(false);
			break;
	}
}

/*
 * Describe the version that a change replaces (Z6): see zheap_history.h.
 *
 * An old version in another xact slot is named by that slot's content, walked
 * down to the first committed tenure: a running foreign taker above it may
 * vanish before the record is read.
 */
void
zheap_describe_old(ZReadContext *cx, Page page, BlockNumber block,
				   OffsetNumber off, const ZXactSlotChoice *choice,
				   const ZTupleHeader *hdr, ZUndo *u)
{
	ZWalk		walk;

	Assert(ZUndoIsChange(u) && !ZHeaderIsEnded(hdr));
	zheap_describe_tenure(cx, page, block, choice, u);

	u->flags &= ~ZUNDO_OLD_MASK;
	u->link_fxid = InvalidFxid;
	u->link_urp = InvalidUndoRecPtr;
	u->oldhdr = *hdr;
	zheap_xact_slot_flag_header(&u->oldhdr, choice->id, choice->tenure);
	Assert(!ZHeaderIsEnded(hdr));

	if (hdr->slot == 0 || (hdr->flags2 & ZH_LOCK_ONLY))
	{
		u->flags |= ZUNDO_OLD_ALLVISIBLE;
		return;
	}
	Assert(!(hdr->slot == choice->id && choice->tenure == ZTENURE_FROZEN));
	if (hdr->slot == choice->id && choice->tenure != ZTENURE_SHARED)
	{
		u->flags |= ZUNDO_OLD_IN_CHAIN;
		return;
	}

	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					NULL, NULL);
	walk.hdr = *hdr;
	zheap_walk_at_slot(&walk, page, hdr->slot);
	for (;;)
	{
		ZXactStatus status = zheap_xact_slot_fxid_status(walk.fxid, &cx->hz);

		if (status == ZXACT_ALL_VISIBLE)
		{
			u->flags |= ZUNDO_OLD_ALLVISIBLE;
			return;
		}
		/* or mine, where it became the base of the shared xact slot */
		if (status == ZXACT_COMMITTED ||
			(status == ZXACT_CURRENT && hdr->slot == ZXACT_SHARED))
		{
			u->flags |= ZUNDO_OLD_LINK;
			u->link_fxid = walk.fxid;
			u->link_urp = walk.urp;
			return;
		}

		/*
		 * Running above a committed tenure; or aborted since the xact slot
		 * was chosen, which is no different: our lock keeps its undo.
		 */
		switch (zheap_walk_find(&walk, status == ZXACT_ABORTED))
		{
			case ZFIND_OTHER:
				break;
			case ZFIND_GONE:
				u->flags |= ZUNDO_OLD_ALLVISIBLE;
				return;
			default:
				/* a running foreign writer is waited for before */
				zheap_walk_corrupt(cx->rel, block, off,
								   "no running change of a row that is changed");
		}
	}
}
