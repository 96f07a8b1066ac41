/*-------------------------------------------------------------------------
 *
 * zheap_walk.c
 *	  Walking a row's history on one page: where a version's writer
 *	  is looked for, and how one gets to the version before.
 *
 * Decides nothing about snapshots; that is zheap_visibility.c.  Writes
 * nothing.
 *
 * Locks: the content lock of the table page (share is enough) is held from
 * zheap_walk_start to the end of the walk.  Therefore no owner that is
 * aborted can be rolled back meanwhile, and its undo is there;
 * undo of others is there or they turn out to be visible to all (Z16).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_chain_index.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/history/zheap_record_cache.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_spill_chain.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"

/* records of one tenure to pass before the index of its chain is asked */
#define LONG_TENURE		UNDO_KNOB("long-tenure", 4, 0, 4)

void
zheap_walk_corrupt(Relation rel, BlockNumber block, OffsetNumber off,
				   const char *expected)
{
	/* a hand-made relcache entry has no name but its file's number */
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("corrupted row history in zheap relation \"%s\" (file %u/%u/%u), block %u, offset %u",
					RelationGetRelationName(rel),
					rel->rd_locator.spcOid,
					rel->rd_locator.dbOid,
					rel->rd_locator.relNumber,
					block, off),
			 errdetail("Expected: %s.", expected)));
}

#define walk_is_corrupt(walk, expected) \
	zheap_walk_corrupt((walk)->rel, (walk)->block, (walk)->off, expected)

/*
 * Prepare a walk.  image (BLCKSZ bytes) and len receive the version's bytes,
 * or are NULL if only its header matters.  off may be Invalid: then only
 * zheap_walk_at_slot may start the walk.
 */
void
zheap_walk_init(ZWalk *walk, Relation rel, UndoReader *reader,
				const UndoHorizons *hz, BlockNumber block, OffsetNumber off,
				char *image, uint16 *len)
{
	Assert((image == NULL) == (len == NULL));
	walk->rel = rel;
	walk->reader = reader;
	walk->hz = hz;
	walk->block = block;
	walk->off = off;
	walk->fxid = InvalidFxid;
	walk->urp = InvalidUndoRecPtr;
	walk->skip = false;
	walk->steps = 0;
	walk->slot = NULL;
	memset(&walk->hdr, 0, sizeof(ZTupleHeader));
	walk->image = image;
	walk->len = len;
	walk->budget = ZWALK_NO_BUDGET;
	walk->until_look = ZWALK_LOOK_UP;
	walk->stop = InvalidUndoRecPtr;
	walk->stop_fxid = InvalidFxid;
	walk->floor = InvalidFxid;
	walk->missing = NULL;
	zheap_ring_begin(&walk->ring);
}

/* Free what the walk has collected.  Needed only where memory lives long. */
void
zheap_walk_forget_missing(ZWalk *walk)
{
	while (walk->missing != NULL)
	{
		ZMissing   *m = walk->missing;

		walk->missing = m->next;
		pfree(m);
	}
}

/* is the version settled by its header alone? */
static inline bool
header_is_settled(const ZTupleHeader *hdr)
{
	return hdr->slot == 0 || (hdr->flags2 & ZH_LOCK_ONLY) != 0;
}

/*
 * Stand at the owner of an xact slot of the page, to which the row at walk->off
 * refers; walk->hdr is its header.  Where the version isn't the owner's nor its
 * family's, walk->skip.  ERROR if it is none: no tuple and no link may refer to a
 * FREE xact slot (Z3).
 */
void
zheap_walk_at_slot(ZWalk *walk, Page page, uint8 id)
{
	ZXactSlot	slot;

	if (id == ZXACT_SHARED && ZPageHasShared(page))
	{
		walk->slot = NULL;
		walk->skip = false;
		walk->fxid = zheap_shared_owner(walk->reader, walk->hz, page,
										walk->block, walk->off, &walk->urp);
		return;
	}
	if (id == 0 || id > ZPageGetOpaque(page)->nslots)
		walk_is_corrupt(walk, "an xact slot id of this page");
	slot = ZPageGetXactSlot(page, id);
	if (ZXactSlotIsFree(slot))
		walk_is_corrupt(walk, "an xact slot that has an owner");

	walk->slot = slot;
	walk->skip = ZHeaderReused(&walk->hdr) == ZH_REUSED_FOREIGN &&
		!ZXactSlotIsAmbiguous(slot);
	walk->fxid = ZXactSlotFxid(slot);
	walk->urp = slot->urp;
	zheap_ring_begin(&walk->ring);
}

/*
 * The start at a spilled row (Z11): the entry holds the row as it was when it
 * left the page, ended, and its committed ender.  NONE if no snapshot that may
 * ask can see it any more.
 */
static ZWalkState
walk_start_spilled(ZWalk *walk, Page page)
{
	ZSpillEntry entry;

	if ((ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) == 0)
		walk_is_corrupt(walk, "a spill chain of the page");
	switch (zheap_spill_chain_find(walk->reader, page, walk->block, walk->off,
								   walk->floor, &entry))
	{
		case ZSPILL_FOUND:
			break;
		case ZSPILL_NEEDLESS:
			return ZWALK_NONE;
		case ZSPILL_MISSING:
			walk_is_corrupt(walk, "the row in the page's spill chain");
	}

	zheap_header_get(entry.tuple, &walk->hdr);
	if (!ZHeaderIsEnded(&walk->hdr) || header_is_settled(&walk->hdr) ||
		!ZWalkIsExact(walk))
		walk_is_corrupt(walk, "an ended row in the spill chain");
	if (walk->image != NULL)
	{
		memcpy(walk->image, entry.tuple, entry.len);
		*walk->len = entry.len;
	}
	walk->slot = NULL;
	walk->skip = false;
	walk->fxid = entry.fxid;
	walk->urp = entry.urp;
	return ZWALK_OWNED;
}

/*
 * Stand at the newest version of the row, copying its bytes if
 * they are wanted.  UNUSED and DEAD pointers, and offsets beyond the page's
 * last, are NONE.
 */
ZWalkState
zheap_walk_start(ZWalk *walk, Page page)
{
	ItemId		lp;
	char	   *tuple;

	zheap_ring_begin(&walk->ring);
	if (walk->off < FirstOffsetNumber ||
		walk->off > PageGetMaxOffsetNumber(page))
		return ZWALK_NONE;
	lp = PageGetItemId(page, walk->off);
	if (ItemIdIsRedirected(lp))
		return walk_start_spilled(walk, page);
	if (!ItemIdIsNormal(lp))
		return ZWALK_NONE;
	if (lp->lp_len < ZHEAP_HEADER_SIZE ||
		lp->lp_off < ((PageHeader) page)->pd_upper ||
		lp->lp_off + lp->lp_len > ((PageHeader) page)->pd_special)
		walk_is_corrupt(walk, "a tuple within its page");

	tuple = (char *) page + lp->lp_off;
	zheap_header_get(tuple, &walk->hdr);
	if (walk->image != NULL)
	{
		ZTupleHeader hdr = walk->hdr;

		*walk->len = zheap_page_tuple_len(tuple, lp->lp_len);
		memcpy(walk->image, tuple, *walk->len);
		hdr.natts_flags1 &= ~ZH_SLACK;
		zheap_header_put(walk->image, &hdr);
	}

	if (header_is_settled(&walk->hdr))
	{
		if (ZHeaderIsEnded(&walk->hdr))
			walk_is_corrupt(walk, "no ended row that is visible to all");
		return ZWALK_SETTLED;
	}
	zheap_walk_at_slot(walk, page, walk->hdr.slot);
	return ZWALK_OWNED;
}

/*
 * Status of the owner we stand at; through the xact slot, whose hint may save
 * a look into the commit log, while it is the slot's content.  buffer may be
 * Invalid when the page is a private copy.
 */
ZXactStatus
zheap_walk_status(ZWalk *walk, Buffer buffer)
{
	Assert(walk->fxid != InvalidFxid);
	if (walk->slot != NULL && BufferIsValid(buffer))
		return zheap_xact_slot_status(buffer, walk->slot, walk->hz);
	return zheap_xact_slot_fxid_status(walk->fxid, walk->hz);
}

/*
 * A record names an older one.  Within a tenure that has the same writer, so
 * that both were on their undo page at once: there the older one comes first.
 * (A link to another tenure may be stale, and its page written anew since.)
 * So a record that names itself, or rings within a page, aren't walked for
 * ever.
 */
static void
check_link(const ZWalk *walk)
{
	UndoRecPtr	self = walk->raw.urp;
	UndoRecPtr	chain = walk->undo.chain;

	if ((walk->undo.flags & ZUNDO_TENURE_START) == 0 &&
		UndoRecPtrIsValid(chain) && chain >= self &&
		UndoRecPtrGetLog(chain) == UndoRecPtrGetLog(self) &&
		UndoRecPtrGetBlock(chain) == UndoRecPtrGetBlock(self))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo record " UndoRecPtrFormat " of table block %u names " UndoRecPtrFormat " as an older one",
						UndoRecPtrFormatArgs(self), walk->block,
						UndoRecPtrFormatArgs(chain))));
}

/*
 * Read the record at walk->urp, written by walk->fxid, into walk->raw and
 * walk->undo, and remember it.  See zheap_walk_fetch.
 */
static const ZCachedUndo *
walk_read(ZWalk *walk, bool held)
{
	Assert(walk->fxid != InvalidFxid && CritSectionCount == 0);
	if (!undo_record_fetch(walk->reader, walk->urp, walk->fxid, walk->block,
						   held,
						   &walk->raw))
	{
		Assert(!held);

		/*
		 * w is below the discard horizon.  That says "visible to all" only of
		 * committed writers; one that aborted since its status was asked
		 * still has its undo, because we hold the page's lock.
		 */
		if (zheap_xact_slot_fxid_status(walk->fxid, walk->hz) != ZXACT_ABORTED)
			return NULL;
		(void) undo_record_fetch(walk->reader, walk->urp, walk->fxid,
								 walk->block, true,
								 &walk->raw);
	}
	zheap_undo_decode(&walk->raw, &walk->undo);
	check_link(walk);
	return zheap_record_cache_put(walk->reader->persistence, &walk->raw,
								  &walk->undo);
}

/* the record at walk->urp as far as one has to know it to pass it, or NULL */
static inline const ZCachedUndo *
walk_peek(ZWalk *walk, bool held)
{
	const ZCachedUndo *c = zheap_record_cache_get(walk->reader->persistence,
												  walk->fxid, walk->urp);

	/* a record of another block can't be the one that is meant */
	return likely(c != NULL && c->block == walk->block) ? c :
		walk_read(walk, held);
}

/*
 * Read and decode the record at walk->urp, written by walk->fxid.  held: w is
 * known to be aborted.  False if w is committed and visible to all, so that
 * its undo may be gone.
 */
bool
zheap_walk_fetch(ZWalk *walk, bool held)
{
	const ZCachedUndo *c = zheap_record_cache_get(walk->reader->persistence,
												  walk->fxid, walk->urp);

	if (c == NULL || !c->has_payload || c->block != walk->block)
		return walk_read(walk, held) != NULL;
	zheap_record_cache_unpack(c, &walk->raw);
	zheap_undo_decode(&walk->raw, &walk->undo);
	return true;
}

/* stand at another owner below */
static void
walk_move(ZWalk *walk, Fxid w, UndoRecPtr u)
{
	walk->fxid = w;
	walk->urp = u;
	walk->slot = NULL;
	zheap_ring_step(&walk->ring, w, u, walk->block);
}

/* stand at the next record of the tenure */
static inline void
walk_on(ZWalk *walk, UndoRecPtr u)
{
	walk->urp = u;
	zheap_ring_step(&walk->ring, walk->fxid, u, walk->block);
}

/* the tenures that end with a record which own history begins anew with */
static void
begin_own_history(ZOwnHistory *h, const ZWalk *walk)
{
	memset(h, 0, sizeof(ZOwnHistory));
	h->fxid = walk->fxid;
	h->urp = walk->urp;
	h->old_urp = h->base_urp = InvalidUndoRecPtr;
	h->persistence = walk->rel->rd_rel->relpersistence;
}

/* what lies below all records that h has so far is known */
static void
end_own_history(ZOwnHistory *h, const ZOwnHistory *below, bool based)
{
	if (below->bound >= h->bound)
	{
		h->bound = below->bound;
		h->old_fxid = below->old_fxid;
		h->old_urp = below->old_urp;
		h->old_bound = below->old_bound;
	}
	else
		h->old_bound = Max(h->old_bound, below->bound);
	if (!based)
	{
		h->base_fxid = below->base_fxid;
		h->base_urp = below->base_urp;
	}
}

/* a change by the command before bound lies below those; we stand below it */
static void
extend_own_history(ZOwnHistory *h, const ZWalk *walk, CommandId bound)
{
	if (bound < h->bound)
		h->old_bound = Max(h->old_bound, bound);
	else
	{
		h->bound = bound;
		h->old_fxid = walk->fxid;
		h->old_urp = walk->urp;
		h->old_bound = 0;
	}
}

/*
 * We stand at a record of my own transaction, so that all of its undo is
 * there: what did the tenures of my family do that end with it?  Read once,
 * then remembered.  The record read last is another one afterwards.
 */
const ZOwnHistory *
zheap_walk_own_history(ZWalk *walk)
{
	const ZOwnHistory *known;
	ZOwnHistory h;
	Fxid		w = walk->fxid;
	UndoRecPtr	u = walk->urp;
	bool		based = false;
	ZRing		ring;

	Assert(w != InvalidFxid && UndoRecPtrIsValid(u));
	known = zheap_own_history_get(walk->rel, walk->block, w, u);
	if (known != NULL)
		return known;

	begin_own_history(&h, walk);
	zheap_ring_begin(&ring);
	while (UndoRecPtrIsValid(walk->urp))
	{
		const ZCachedUndo *c;
		bool		change;
		CommandId	bound;

		zheap_walk_look_up(&walk->until_look);
		known = zheap_own_history_get(walk->rel, walk->block, walk->fxid,
									  walk->urp);
		if (known != NULL)
		{
			end_own_history(&h, known, based);
			break;
		}
		c = walk_peek(walk, false);
		if (c == NULL)
			walk_is_corrupt(walk, "undo of the running transaction");
		change = c->kind != ZUNDO_LOCK;
		bound = c->cid + 1;
		if ((c->flags & ZUNDO_BASE) && !based)
		{
			h.base_fxid = c->base_fxid;
			h.base_urp = c->base_urp;
			based = true;
		}
		walk->urp = c->chain;
		if ((c->flags & ZUNDO_TENURE_START) && (c->flags & ZUNDO_FAMILY))
			walk->fxid = c->prev_fxid;
		else if (c->flags & ZUNDO_TENURE_START)
		{
			if (!based)
			{
				h.base_fxid = c->prev_fxid;
				h.base_urp = c->chain;
			}
			walk->urp = InvalidUndoRecPtr;
		}
		zheap_ring_step(&ring, walk->fxid, walk->urp, walk->block);
		if (change)
			extend_own_history(&h, walk, bound);
	}
	walk->fxid = w;
	walk->urp = u;
	return zheap_own_history_put(walk->rel, walk->block, &h);
}

/*
 * Step 8: look for the record of walk->fxid that made the version we stand at.
 * If it isn't in this tenure, stand at the one below.
 */
ZFindResult
zheap_walk_find(ZWalk *walk, bool held)
{
	char		persistence = walk->rel->rd_rel->relpersistence;
	int			passed = 0;

	Assert(OffsetNumberIsValid(walk->off));
	Assert(walk->fxid != InvalidFxid);

	/* mine, and made before my family came: there is a short cut to it */
	if (walk->skip)
	{
		const ZOwnHistory *h = zheap_own_history_get(walk->rel, walk->block,
													 walk->fxid, walk->urp);

		if (h != NULL)
		{
			if (h->base_fxid == InvalidFxid)
				walk_is_corrupt(walk,
								"a tenure that made the row below its xact slot's");
			walk->skip = false;
			walk_move(walk, h->base_fxid, h->base_urp);
			return ZFIND_OTHER;
		}
	}

	for (;;)
	{
		const ZCachedUndo *c;
		bool		known = true;

		if (unlikely(UndoRecPtrIsValid(walk->stop)) &&
			walk->urp == walk->stop && walk->fxid == walk->stop_fxid &&
			!walk->skip)
			return ZFIND_STOP;

		if (walk->budget == ZWALK_NO_BUDGET)
			zheap_walk_look_up(&walk->until_look);
		else if (--walk->budget < 0)
			return ZFIND_LIMIT;
		if (passed++ >= LONG_TENURE)
			walk->urp =
				zheap_chain_index_pass(persistence, walk->fxid, walk->urp,
									   walk->off, walk->skip, &known);
		c = walk_peek(walk, held);
		if (c == NULL)
			return ZFIND_GONE;
		if (!known)
			zheap_chain_index_note(c);

		if (walk->off >= c->first && walk->off <= c->last)
		{
			if (!zheap_walk_fetch(walk, held))
				return ZFIND_GONE;
			if (zheap_undo_covers(&walk->undo, walk->off, &walk->hdr))
				return ZFIND_FOUND;
		}

		/* BASE also stands at the start of a family tenure: exact there too */
		if (walk->skip && (c->flags & ZUNDO_BASE))
		{
			if (c->base_fxid == InvalidFxid)
				walk_is_corrupt(walk,
								"a tenure that made the row below its xact slot's");
			walk->skip = false;
			walk_move(walk, c->base_fxid, c->base_urp);
			return ZFIND_OTHER;
		}
		if (c->flags & ZUNDO_TENURE_START)
		{
			if (c->prev_fxid == InvalidFxid)
				walk_is_corrupt(walk,
								"an undo record for the row in its xact slot's chain");
			if ((c->flags & ZUNDO_FAMILY) == 0)
				walk->skip = false;
			walk_move(walk, c->prev_fxid, c->chain);
			return ZFIND_OTHER;
		}
		walk_on(walk, c->chain);
	}
}

/*
 * The version before is one of the table's file of then: its history goes on
 * under its old place, the record names owner and newest record.  It was
 * committed, or of the same transaction, when it was copied, so no lock is
 * needed for what lies below.
 */
static ZWalkState
walk_step_elsewhere(ZWalk *walk)
{
	const ZUndo *r = &walk->undo;

	Assert(ZUndoIsCopy(r));
	if (walk->image != NULL && r->missing_len > 0)
	{
		ZMissing   *m = palloc(offsetof(ZMissing, data) + r->missing_len);

		m->len = r->missing_len;
		memcpy(m->data, r->missing, r->missing_len);
		m->next = walk->missing;
		walk->missing = m;
	}
	walk->block = r->old_block;
	walk->off = r->old_offset;
	walk->skip = false;
	walk_move(walk, r->link_fxid, r->link_urp);
	return ZWALK_OWNED;
}

/*
 * Step 9: after ZFIND_FOUND, stand at the version before.
 */
ZWalkState
zheap_walk_step_back(ZWalk *walk)
{
	const ZUndo *r = &walk->undo;
	uint8		old = r->flags & ZUNDO_OLD_MASK;
	ZTupleHeader now;

	Assert(ZUndoIsInsert(r) || ZUndoIsChange(r));
	if (ZUndoIsInsert(r))
	{
		if (walk->image != NULL)
			*walk->len = 0;
		return ZWALK_NONE;
	}
	Assert(ZUndoIsChange(r));

	walk->steps++;
	if (walk->image != NULL)
		zheap_undo_step_back(r, walk->image, walk->len);
	now = walk->hdr;
	zheap_undo_old_header(r, &now, &walk->hdr);
	if (ZUndoIsCopy(r))
		return walk_step_elsewhere(walk);
	if (ZHeaderIsEnded(&walk->hdr))
		walk_is_corrupt(walk,
						"a row that had not ended before it was changed");

	if (old == ZUNDO_OLD_ALLVISIBLE || header_is_settled(&walk->hdr))
		return ZWALK_SETTLED;
	if (old == ZUNDO_OLD_LINK)
	{
		walk->skip = false;
		walk_move(walk, r->link_fxid, r->link_urp);
		return ZWALK_OWNED;
	}

	/* OLD_IN_CHAIN */
	walk->skip = ZHeaderReused(&walk->hdr) == ZH_REUSED_FOREIGN &&
		!((r->flags & ZUNDO_TENURE_START) && !(r->flags & ZUNDO_FAMILY));
	if (r->flags & ZUNDO_TENURE_START)
	{
		if (r->prev_fxid == InvalidFxid)
			walk_is_corrupt(walk, "a previous owner of the xact slot");
		walk_move(walk, r->prev_fxid, r->chain);
	}
	else
		walk_on(walk, r->chain);
	return ZWALK_OWNED;
}

/*
 * After ZFIND_FOUND of a record with a jump: stand at the version at its end,
 * that change found.  False if that is visible to all and its undo may be
 * gone; then the walk is over.  See zheap_jump.c for when it is allowed.
 */
bool
zheap_walk_jump(ZWalk *walk)
{
	const ZUndoJump *jump = &walk->undo.jump;

	Assert(ZUndoHasJump(&walk->undo));
	walk->steps++;
	if (walk->image != NULL)
		zheap_undo_jump_back(&walk->undo, walk->image, walk->len);
	memset(&walk->hdr, 0, sizeof(ZTupleHeader));
	walk->hdr.natts_flags1 = jump->natts_flags1;
	walk->skip = false;
	walk_move(walk, jump->fxid, jump->urp);
	if (!zheap_walk_fetch(walk, false))
		return false;
	if (!zheap_undo_covers(&walk->undo, walk->off, &walk->hdr))
		walk_is_corrupt(walk, "a change of the row at the end of a jump");
	return true;
}

/* ----------------------------------------------------------------
 *	questions of prune and vacuum
 * ----------------------------------------------------------------
 */

/*
 * What may become of the row's body (NORMAL pointer required)?  page may be a
 * private copy, then buffer is Invalid.  Never asks more than the budget of
 * the walk; not knowing counts as "somebody may need it".
 *
 * ENDED_FOR_ALL raises *conflict where the decision rests on more than
 * all_visible_before: a tenure whose committed owner is removable for everyone
 * has only such below (Z2), so the ender itself needn't be found.
 */
ZRowFate
zheap_walk_fate(ZWalk *walk, Page page, Buffer buffer, Fxid *conflict)
{
	ZWalkState	state = zheap_walk_start(walk, page);
	bool		ended;

	if (state == ZWALK_NONE)
		return ZROW_NONE;

	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(walk, buffer);

		ended = ZHeaderIsEnded(&walk->hdr);
		switch (status)
		{
			case ZXACT_ALL_VISIBLE:
				return ended ? ZROW_ENDED_FOR_ALL : ZROW_SETTLED;

			case ZXACT_COMMITTED:
				if (!ended)
					return ZROW_SETTLED;
				if (zheap_xact_slot_seen_by_all(walk->rel, walk->fxid,
												walk->hz, conflict))
					return ZROW_ENDED_FOR_ALL;
				/* the ender may be an older tenure's */
				if (ZWalkIsExact(walk))
					return ZROW_ENDED;
				break;

			case ZXACT_CURRENT:
			case ZXACT_RUNNING:

				/*
				 * Not changed by the family of the running owner, so by a
				 * foreign tenure, which had committed before it was taken
				 * over.
				 */
				if (!ended)
					return walk->skip ? ZROW_SETTLED : ZROW_CHANGING;
				if (!walk->skip)
					return ZROW_ENDED;
				break;

			case ZXACT_ABORTED:
				/* rolled back by the caller before; too late to lie about it */
				return ended ? ZROW_ENDED : ZROW_CHANGING;
		}

		switch (zheap_walk_find(walk, false))
		{
			case ZFIND_FOUND:
				return ZROW_ENDED;
			case ZFIND_GONE:

				/*
				 * below discard_before: its horizon's raise carried the
				 * conflict (U3)
				 */
				return ZROW_ENDED_FOR_ALL;
			case ZFIND_LIMIT:
			case ZFIND_STOP:
				return ZROW_ENDED;
			case ZFIND_OTHER:
				break;
		}
	}
	return ZROW_SETTLED;
}

/*
 * Has the row, which isn't ended, a version that is visible to all, with
 * nothing but updates in place of unindexed columns since (Z25)?  "All" is
 * meant by all_visible_before: what only the local horizon calls visible is
 * frozen first.
 */
bool
zheap_walk_has_settled_version(ZWalk *walk, Page page, Buffer buffer)
{
	ZWalkState	state = zheap_walk_start(walk, page);

	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(walk, buffer);

		if (ZHeaderIsEnded(&walk->hdr))
			return false;
		if (status == ZXACT_ALL_VISIBLE)
			return true;
		if (status == ZXACT_ABORTED || ZWalkIsPlainInsert(walk))
			return false;
		switch (zheap_walk_find(walk, false))
		{
			case ZFIND_FOUND:
				if (walk->undo.kind != ZUNDO_UPDATE ||
					(walk->undo.flags & ZUNDO_KEY))
					return false;
				state = zheap_walk_step_back(walk);
				break;
			case ZFIND_GONE:
				return true;
			case ZFIND_LIMIT:
			case ZFIND_STOP:
				return false;
			case ZFIND_OTHER:
				break;
		}
	}
	return state == ZWALK_SETTLED;
}

/*
 * An aborted owner hides those below it, which may run (Z20): it is passed, as
 * long as its undo is there.
 */
bool
zheap_walk_mark_locked(ZWalk *walk, Page page, bool *named)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	const ZShared *shared;

	Assert(zheap_page_is_valid(page) && walk->budget != ZWALK_NO_BUDGET);
	shared = zheap_shared_get(walk->reader, walk->hz, page, walk->block);
	for (int i = 0; shared != NULL && i < shared->nlocks; i++)
	{
		bool		own;

		if (zheap_shared_lock_is_live(&shared->lock[i], walk->hz, &own))
			named[shared->lock[i].off] = true;
	}
	for (int id = 1; id <= nslots; id++)
	{
		if (ZXactSlotIsFree(ZPageGetXactSlot(page, id)))
			continue;
		zheap_walk_at_slot(walk, page, id);
		while (walk->fxid != InvalidFxid)
		{
			ZXactStatus status = zheap_walk_status(walk, InvalidBuffer);
			const ZCachedUndo *c;

			if (status == ZXACT_ALL_VISIBLE || status == ZXACT_COMMITTED)
				break;
			if (--walk->budget < 0 || (c = walk_peek(walk, false)) == NULL)
				return false;
			if (c->kind == ZUNDO_LOCK && c->offset <= MaxHeapTuplesPerPage)
				named[c->offset] = true;
			if (c->flags & ZUNDO_TENURE_START)
				walk_move(walk, c->prev_fxid, c->chain);
			else
				walk->urp = c->chain;
		}
	}
	return true;
}
