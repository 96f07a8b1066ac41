/*-------------------------------------------------------------------------
 *
 * zheap_rollback.c
 *	  Taking back the changes of aborted owners of one page (Z20, Z21).
 *
 * A page is rolled back, never a transaction: each xact slot is peeled,
 * newest record first, until its owner isn't aborted (Z20).  Each peeled
 * prefix is a legal state of the page, so long chains are taken in batches
 * with the lock given up in between.
 *
 * Runs in abort callbacks, in writers and in background workers; the relcache
 * entry may be a hand-made one, without name, catalog rows or indexes.  It
 * writes no undo, doesn't touch the visibility map, and changes the page by
 * deltas (zheap_delta.c): an error leaves the page as it was before
 * the batch.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "undo/undo.h"
#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"

/* records taken back under one lock and in one delta */
#define ROLLBACK_BATCH			UNDO_KNOB("rollback-batch", 1000, 1, 1000)

/* records that a reader passes before it takes them back */
#define READER_PATIENCE			UNDO_KNOB("reader-patience", 2000, 1, 2000)

/* between batches, for those that wait for the lock; microseconds */
#define ROLLBACK_PAUSE			50

uint64		zheap_rollback_pages = 0;

/*
 * Owners of the tenures of an xact slot, newest first, as far as they have been
 * asked about.
 */
typedef struct Tenures
{
	UndoRecPtr	head_urp;		/* newest record of the first ... */
	UndoRecPtr	last_urp;		/* ... and of the last */
	bool		all;			/* those below, if any, are visible to all */
	ZRing		ring;
	int			n;
	int			allocated;
	Fxid	   *owners;
} Tenures;

/* one batch */
typedef struct Rollback
{
	ZWalk		walk;			/* its rel, reader, block; the record read */
	Page		page;			/* private copy */
	ZPageDelta *delta;			/* whose copy it is, or NULL */
	bool		checked;		/* all its line pointers were */
	int			left;			/* records that this batch may still take */
	bool		inserts;		/* there were inserts among them */
	ZRing		ring;			/* of one xact slot's records, on a copy */
	Tenures    *tenures[ZHEAP_MAX_XACT_SLOTS + 1];	/* by xact slot, or NULL */
} Rollback;

/*
 * A page that is rolled back in batches: where the last batch ended, which is
 * on the page, so that a ring of more records than a batch has is noticed.  If
 * the xact slot stands anywhere else by now, others were there in between: and
 * what they wrote may lead to a place that was passed.
 */
static struct
{
	RelFileLocator locator;
	BlockNumber block;
	uint8		id;				/* its xact slot */
	ZXactSlotData slot;			/* as it was left; no record: it doesn't go on */
	ZRing		ring;
}			last_batch;

/* ----------------------------------------------------------------
 *	one record
 * ----------------------------------------------------------------
 */

/*
 * What comes changes any row, and line pointers: so these are all looked at,
 * lest a damaged one leads out of the copy.
 */
static void
change_any(Rollback *rb)
{
	Assert(rb->delta == NULL || rb->page == (Page) rb->delta->work.data);
	if (!rb->checked)
		zheap_page_check_bodies(rb->walk.rel, rb->walk.block, rb->page);
	rb->checked = true;
	if (rb->delta != NULL)
		rb->delta->whole = true;
}

/* the tuple at off, or NULL if the pointer is not NORMAL or doesn't exist */
static char *
normal_tuple(Page page, OffsetNumber off)
{
	ItemId		lp;

	if (off < FirstOffsetNumber || off > PageGetMaxOffsetNumber(page))
		return NULL;
	lp = PageGetItemId(page, off);
	return ItemIdIsNormal(lp) ? (char *) PageGetItem(page, lp) : NULL;
}

/* The same of a tuple that is going to change within its allocation. */
static char *
tuple_to_change(Rollback *rb, OffsetNumber off)
{
	char	   *tuple = normal_tuple(rb->page, off);
	ItemId		lp;

	if (tuple == NULL)
		return NULL;
	lp = PageGetItemId(rb->page, off);
	if (!zheap_item_is_in_page(rb->page, lp))
		change_any(rb);			/* which says what is wrong */
	if (rb->delta != NULL)
		zheap_delta_part(rb->delta, tuple, ItemIdGetLength(lp));
	return tuple;
}

/*
 * Rows inserted through the xact slot are no rows any more, nor are copies.  A
 * LOCK_ONLY tuple with it belongs to nobody in this tenure.
 */
static void
rollback_insert(Rollback *rb, uint8 id)
{
	OffsetNumber max = PageGetMaxOffsetNumber(rb->page);
	OffsetNumber off;

	Assert(id >= 1 &&
		   (ZUndoIsInsert(&rb->walk.undo) || ZUndoIsCopy(&rb->walk.undo)));
	rb->inserts = true;
	change_any(rb);
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		char	   *tuple = normal_tuple(rb->page, off);
		ZTupleHeader hdr;

		if (tuple == NULL)
			continue;
		zheap_header_get(tuple, &hdr);
		if (zheap_undo_covers(&rb->walk.undo, off, &hdr) &&
			hdr.slot == id && (hdr.flags2 & ZH_LOCK_ONLY) == 0)
			zheap_page_set_dead(rb->page, off);
	}
}

static void
add_tenure(Tenures *t, Fxid owner, UndoRecPtr urp)
{
	if (t->n == t->allocated)
	{
		t->allocated = Max(8, 2 * t->allocated);
		t->owners = t->owners == NULL ?
			palloc(t->allocated * sizeof(Fxid)) :
			repalloc(t->owners, t->allocated * sizeof(Fxid));
	}
	t->owners[t->n++] = owner;
	t->last_urp = urp;
}

/* what is known of the tenures of an xact slot as it is now */
static Tenures *
get_tenures(Rollback *rb, uint8 id)
{
	ZXactSlot	slot = ZPageGetXactSlot(rb->page, id);
	Tenures    *t = rb->tenures[id];

	Assert(!ZXactSlotIsFree(slot));
	if (t == NULL)
		t = rb->tenures[id] = palloc0(sizeof(Tenures));
	if (t->n == 0 || t->owners[0] != ZXactSlotFxid(slot) ||
		t->head_urp != slot->urp)
	{
		t->n = 0;
		t->all = false;
		zheap_ring_begin(&t->ring);
		t->head_urp = slot->urp;
		add_tenure(t, ZXactSlotFxid(slot), slot->urp);
	}
	return t;
}

/* For each record of others' tenures: is it enough? */
static void
look_up(ZWalk *walk)
{
	if (IsTransactionState())
		zheap_walk_look_up(&walk->until_look);
	else if (--walk->until_look <= 0)
	{
		/* in an abort callback interrupts wait, but not for long (U13) */
		walk->until_look = ZWALK_LOOK_UP;
		undo_apply_check_time();
	}
}

/*
 * Go through the last tenure known, to the one below; false if there is none, or
 * it is visible to all.
 */
static bool
next_tenure(Rollback *rb, Tenures *t)
{
	ZWalk	   *walk = &rb->walk;
	ZXactStatus status;

	Assert(t->n > 0);
	if (t->all)
		return false;
	walk->slot = NULL;
	walk->fxid = t->owners[t->n - 1];
	walk->urp = t->last_urp;
	status = zheap_xact_slot_fxid_status(walk->fxid, walk->hz);
	while (status != ZXACT_ALL_VISIBLE &&
		   zheap_walk_fetch(walk, status == ZXACT_ABORTED))
	{
		bool		base = (walk->undo.flags & ZUNDO_BASE) != 0;
		Fxid		below = base ? walk->undo.base_fxid : walk->undo.prev_fxid;
		UndoRecPtr	next = base ? walk->undo.base_urp : walk->undo.chain;

		zheap_ring_step(&t->ring, base || (walk->undo.flags &
										   ZUNDO_TENURE_START) ?
						below : walk->fxid, next, walk->block);
		look_up(walk);
		if (base || (walk->undo.flags & ZUNDO_TENURE_START))
		{
			t->all = below == InvalidFxid;
			if (!t->all)
				add_tenure(t, below, next);
			return !t->all;
		}
		walk->urp = next;
	}
	t->all = true;
	return false;
}

/*
 * Is lf, the newest of its family if at all, among the owners of the xact slot's
 * tenures?  A tenure whose undo is gone is visible to all, and all below are, so
 * "no" then means frozen.  Each record is read once in a batch, for however many
 * rows it is asked.
 */
static bool
has_tenure(Rollback *rb, uint8 id, Fxid lf)
{
	Tenures    *t = get_tenures(rb, id);
	ZUndo		keep = rb->walk.undo;
	bool		result = false;

	Assert(lf != InvalidFxid && id >= 1);
	for (int i = 0; !result && (i < t->n || next_tenure(rb, t)); i++)
		result = t->owners[i] == lf;

	/* the record being taken back; its pointers into raw are not used again */
	rb->walk.undo = keep;
	rb->walk.undo.diff.oldbytes = NULL;
	rb->walk.undo.jump.diff.oldbytes = NULL;
	return result;
}

/*
 * Whose is the restored version?  Derived from the page as it is now, not as
 * it was when the record was written (Z21).
 */
static void
restore_owner(Rollback *rb, uint8 id, ZTupleHeader *hdr)
{
	const ZUndo *r = &rb->walk.undo;
	uint8		old = r->flags & ZUNDO_OLD_MASK;
	ZXactSlot	slot = zheap_page_row_slot(rb->page, hdr);

	Assert(ZUndoIsChange(r) && !ZHeaderIsEnded(hdr));
	if (old == ZUNDO_OLD_IN_CHAIN && (hdr->flags2 & ZH_LOCK_ONLY) == 0)
	{
		if (r->oldhdr.slot != id)
			zheap_walk_corrupt(rb->walk.rel, rb->walk.block, r->offset,
							   "an old version in the xact slot of its change");
		hdr->slot = id;
		if (ZHeaderReused(hdr) == ZH_REUSED_NONE &&
			(r->flags & ZUNDO_TENURE_START))
			ZHeaderSetReused(hdr, (r->flags & ZUNDO_FAMILY) ?
							 ZH_REUSED_FAMILY : ZH_REUSED_FOREIGN);
		return;
	}
	if (old == ZUNDO_OLD_LINK && (hdr->flags2 & ZH_LOCK_ONLY) == 0 &&
		r->link_fxid >= rb->walk.hz->all_visible_before && slot != NULL)
	{
		if (ZXactSlotFxid(slot) == r->link_fxid)
			return;				/* slot and REUSED as recorded */
		if (has_tenure(rb, hdr->slot, r->link_fxid))
		{
			ZHeaderSetReused(hdr, ZH_REUSED_FOREIGN);
			return;
		}
	}

	/* an owner below the shared xact slot's chain, as recorded */
	if (old == ZUNDO_OLD_LINK && (hdr->flags2 & ZH_LOCK_ONLY) == 0 &&
		r->link_fxid >= rb->walk.hz->all_visible_before &&
		hdr->slot == ZXACT_SHARED && ZPageHasShared(rb->page))
		return;

	/* visible to all, then already or frozen since */
	hdr->slot = 0;
	hdr->flags2 &= ~(ZH_REUSED_MASK | ZH_INPLACE);
}

/*
 * Lock bits are no undoable state (Z22): rollback only adds.  A
 * LOCK_ONLY of then becomes MULTI: the chains decide whether it is alive.
 * STALE stays as it is: index entries do (Z45), and VACUUM may have cleared it
 * since the version was replaced (Z46); and so does SWEPT, which a change of the
 * key that is rolled back now has taken off (Z52).
 */
static void
restore_lock_bits(ZTupleHeader *hdr, const ZTupleHeader *cur)
{
	uint16		bits = cur->flags2 & (ZH_MULTI_LOCKED | ZH_MANY);
	uint16		mode = Max(cur->flags2 & ZH_MODE_MASK,
						   hdr->flags2 & ZH_MODE_MASK);

	if (hdr->flags2 & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED))
		bits |= ZH_MULTI_LOCKED | (hdr->flags2 & ZH_MANY);
	if (bits & ZH_MULTI_LOCKED)
		bits |= mode;
	else
		bits = 0;
	hdr->flags2 = (hdr->flags2 & ~(ZH_LOCK_BITS | ZH_STALE | ZH_SWEPT)) |
		bits | (cur->flags2 & (ZH_STALE | ZH_SWEPT));
}

/* an open delete: every row that is still deleted through the xact slot */
static void
rollback_open_delete(Rollback *rb, uint8 id)
{
	OffsetNumber max = PageGetMaxOffsetNumber(rb->page);
	OffsetNumber off;

	Assert(id >= 1 && ZUndoIsOpenDelete(&rb->walk.undo));
	change_any(rb);
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		char	   *tuple = normal_tuple(rb->page, off);
		ZTupleHeader cur;
		ZTupleHeader hdr;

		if (tuple == NULL)
			continue;
		zheap_header_get(tuple, &cur);
		if (cur.slot != id || (cur.flags2 & ZH_LOCK_ONLY) ||
			!zheap_undo_covers(&rb->walk.undo, off, &cur))
			continue;
		zheap_undo_old_header(&rb->walk.undo, &cur, &hdr);
		restore_lock_bits(&hdr, &cur);
		zheap_header_put(tuple, &hdr);
	}
}

/* an update, delete or move */
static void
rollback_change(Rollback *rb, uint8 id)
{
	const ZUndo *r = &rb->walk.undo;
	char	   *tuple = tuple_to_change(rb, r->offset);
	PGAlignedBlock image;
	ZTupleHeader cur;
	ZTupleHeader hdr;
	uint16		alloc;
	uint16		len;

	Assert(id >= 1 && ZUndoIsChange(r) && !ZUndoIsOpenDelete(r));
	if (tuple == NULL)
		zheap_walk_corrupt(rb->walk.rel, rb->walk.block, r->offset,
						   "a tuple whose change is to be taken back");
	zheap_header_get(tuple, &cur);
	if (cur.slot != id || (cur.flags2 & ZH_LOCK_ONLY))
		zheap_walk_corrupt(rb->walk.rel, rb->walk.block, r->offset,
						   "a tuple in the xact slot of its aborted change");

	alloc = PageGetItemId(rb->page, r->offset)->lp_len;
	len = zheap_page_tuple_len(tuple, alloc);
	memcpy(image.data, tuple, len);
	zheap_undo_step_back(r, image.data, &len);
	if (len > alloc)
		zheap_walk_corrupt(rb->walk.rel, rb->walk.block, r->offset,
						   "an allocation that holds the version to be restored");

	zheap_header_get(image.data, &hdr);
	if (ZHeaderIsEnded(&hdr))
		zheap_walk_corrupt(rb->walk.rel, rb->walk.block, r->offset,
						   "a row that had not ended before it was changed");
	restore_owner(rb, id, &hdr);
	restore_lock_bits(&hdr, &cur);
	zheap_header_put(image.data, &hdr);

	if (!zheap_page_replace(rb->page, r->offset, image.data, len))
		elog(ERROR, "could not restore a tuple within its allocation");
	Assert(PageGetItemId(rb->page, r->offset)->lp_len == alloc);
}

/*
 * A row's copy into a file that goes, the rewriting having been aborted.  For
 * that of a temporary table core's list of such files has no entry (U13); of
 * another nobody gets here.
 */
static void
rollback_copy(Rollback *rb, uint8 id)
{
	if (rb->walk.rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP)
		zheap_walk_corrupt(rb->walk.rel, rb->walk.block,
						   rb->walk.undo.offset,
						   "no rewritten table whose rewriting was aborted");
	rollback_insert(rb, id);
}

/*
 * A row lock.  FAMILY tuples too: else an older record of the family could
 * kill the row.
 */
static void
rollback_lock(Rollback *rb, uint8 id)
{
	const ZUndo *r = &rb->walk.undo;
	char	   *tuple = tuple_to_change(rb, r->offset);
	ZTupleHeader hdr;

	Assert(id >= 1 && r->kind == ZUNDO_LOCK);
	if (tuple == NULL)
		return;
	zheap_header_get(tuple, &hdr);
	if (hdr.slot != id || (hdr.flags2 & ZH_LOCK_ONLY) == 0 ||
		ZHeaderReused(&hdr) == ZH_REUSED_FOREIGN)
		return;

	hdr.slot = 0;
	hdr.flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK | ZH_INPLACE);
	if (r->replaced)
		hdr.flags2 |= ZH_MULTI_LOCKED;
	if ((hdr.flags2 & ZH_MULTI_LOCKED) == 0)
		hdr.flags2 &= ~(ZH_MODE_MASK | ZH_MANY);
	zheap_header_put(tuple, &hdr);
}

/* ----------------------------------------------------------------
 *	one xact slot, one batch
 * ----------------------------------------------------------------
 */

/* the record at rb->walk.urp, whose writer aborted: it is kept for us (U4) */
static void
fetch_record(Rollback *rb)
{
	Assert(UndoRecPtrIsValid(rb->walk.urp));
	if (!zheap_walk_fetch(&rb->walk, true))
		zheap_walk_corrupt(rb->walk.rel, rb->walk.block, rb->walk.off,
						   "the undo record of an aborted change");
}

/*
 * The ring of an xact slot's records.  After a batch that failed, its records
 * are met again, and so the next one begins anew.
 */
static ZRing *
begin_ring(Rollback *rb, uint8 id)
{
	RelFileLocator locator = rb->walk.rel->rd_locator;
	ZXactSlot	slot = ZPageGetXactSlot(rb->page, id);

	Assert(!ZXactSlotIsFree(slot));
	Assert(id >= 1 && id <= ZPageGetOpaque(rb->page)->nslots);
	if (rb->delta == NULL)
	{
		zheap_ring_begin(&rb->ring);
		return &rb->ring;
	}
	if (last_batch.slot.urp != slot->urp ||
		last_batch.slot.fxid_bits != slot->fxid_bits || last_batch.id != id ||
		last_batch.block != rb->walk.block ||
		!RelFileLocatorEquals(last_batch.locator, locator))
		zheap_ring_begin(&last_batch.ring);
	last_batch.slot.urp = InvalidUndoRecPtr;
	last_batch.locator = locator;
	last_batch.block = rb->walk.block;
	last_batch.id = id;
	return &last_batch.ring;
}

/*
 * Take back records of one xact slot until its owner isn't aborted (true) or
 * the batch is full (false).
 */
static bool
rollback_xact_slot(Rollback *rb, uint8 id)
{
	ZXactSlot	slot = ZPageGetXactSlot(rb->page, id);
	ZUndo	   *r = &rb->walk.undo;
	ZRing	   *ring = NULL;

	Assert(id >= 1 && id <= ZPageGetOpaque(rb->page)->nslots);
	while (!ZXactSlotIsFree(slot) &&
		   zheap_xact_slot_fxid_status(ZXactSlotFxid(slot), rb->walk.hz) ==
		   ZXACT_ABORTED)
	{
		UndoRecPtr	chain;

		if (rb->left-- <= 0)
		{
			if (ring == &last_batch.ring)
				last_batch.slot = *slot;
			return false;
		}
		if (ring == NULL)
			ring = begin_ring(rb, id);

		UNDO_POINT("record-taken-back");
		zheap_walk_at_slot(&rb->walk, rb->page, id);
		rb->walk.off = InvalidOffsetNumber;
		fetch_record(rb);
		rb->walk.off = r->offset;
		chain = r->chain;

		if (ZUndoIsInsert(r))
			rollback_insert(rb, id);
		else if (ZUndoIsCopy(r))
			rollback_copy(rb, id);
		else if (ZUndoIsOpenDelete(r))
			rollback_open_delete(rb, id);
		else if (ZUndoIsChange(r))
			rollback_change(rb, id);
		else
		{
			Assert(r->kind == ZUNDO_LOCK);
			rollback_lock(rb, id);
		}

		/* the xact slot as it was before the record */
		if (rb->delta != NULL)
			zheap_delta_part(rb->delta, slot, sizeof(ZXactSlotData));
		if ((r->flags & ZUNDO_TENURE_START) == 0)
			slot->urp = chain;
		else if (r->prev_fxid == InvalidFxid)
		{
			slot->fxid_bits = 0;
			slot->urp = InvalidUndoRecPtr;
		}
		else
		{
			slot->fxid_bits = r->prev_fxid |
				((r->flags & ZUNDO_FAMILY) ? 0 : ZXACT_AMBIGUOUS);
			slot->urp = chain;
		}
		zheap_ring_step(ring, ZXactSlotFxid(slot), slot->urp, rb->walk.block);
	}
	return true;
}

/*
 * Rows that ended by the shared xact slot, and whose ender aborted: rows, and what
 * becomes of them, don't depend on each other, nor on any xact slot (Z59).  The
 * entry stays in the chain, dead.  Likewise a row that was put on a page which it
 * fills, its lockers carried along: its insertion is the base of the chain.
 * False: the batch is full.
 */
static bool
rollback_shared(Rollback *rb)
{
	OffsetNumber max = PageGetMaxOffsetNumber(rb->page);
	ZWalk	   *walk = &rb->walk;

	if (!zheap_shared_any_aborted(walk->reader, walk->hz, rb->page,
								  walk->block))
		return true;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		if (!zheap_shared_is_aborted(walk->reader, walk->hz, rb->page,
									 walk->block, off))
			continue;
		if (rb->left-- <= 0)
			return false;
		UNDO_POINT("end-taken-back");
		walk->off = off;
		walk->slot = NULL;
		walk->fxid = zheap_shared_owner(walk->reader, walk->hz, rb->page,
										walk->block, off, &walk->urp);
		fetch_record(rb);
		if (ZUndoIsInsert(&walk->undo) && !zheap_shared_ended(rb->page, off))
		{
			rollback_insert(rb, ZXACT_SHARED);
			continue;
		}
		if (!ZUndoIsShared(&walk->undo) || !ZUndoIsChange(&walk->undo) ||
			ZUndoIsCopy(&walk->undo) || walk->undo.offset != off)
			zheap_walk_corrupt(walk->rel, walk->block, off,
							   "a record that ended the row");
		rollback_change(rb, ZXACT_SHARED);
		/* what it was before may be the base's */
		off--;
	}
	return true;
}

static void
forget_tenures(Rollback *rb)
{
	for (int id = 1; id <= ZPageGetOpaque(rb->page)->nslots; id++)
	{
		if (rb->tenures[id] == NULL)
			continue;
		if (rb->tenures[id]->owners != NULL)
			pfree(rb->tenures[id]->owners);
		pfree(rb->tenures[id]);
	}
}

/*
 * One batch on a private copy, that of delta if there is one, of a page that is
 * locked and valid, hz having been sampled before or under this lock.  Returns
 * whether that was all.  *inserts: whether there were inserts.
 *
 * Line pointers are checked before they are followed: a row passed over would be
 * nobody's, or the xact slot's next owner's.
 */
static bool
rollback_work(Relation rel, UndoReader *reader, const UndoHorizons *hz,
			  Page work, ZPageDelta *delta, BlockNumber block, bool *inserts)
{
	Rollback	rb;
	bool		done = true;

	Assert(zheap_page_is_valid(work) && (delta == NULL || !delta->whole));
	rb.page = work;
	rb.delta = delta;
	rb.checked = false;
	rb.left = ROLLBACK_BATCH;
	rb.inserts = false;
	zheap_walk_init(&rb.walk, rel, reader, hz, block, InvalidOffsetNumber,
					NULL, NULL);
	memset(rb.tenures, 0, (ZPageGetOpaque(work)->nslots + 1) *
		   sizeof(Tenures *));
	for (int id = 1; done && id <= ZPageGetOpaque(work)->nslots; id++)
		done = rollback_xact_slot(&rb, (uint8) id);
	done = done && rollback_shared(&rb);
	forget_tenures(&rb);
	zheap_page_assert_sound(work, block, "rollback");
	*inserts = rb.inserts;
	return done;
}

/*
 * One batch on a page that is exclusively locked and valid.  Returns false if
 * nothing is left to do.  *same_room: something was done, and it freed no room.
 */
static bool
rollback_batch(Relation rel, Buffer buffer, const UndoHorizons *hz,
			   bool *same_room)
{
	Page		page = BufferGetPage(buffer);
	ZPageDelta	delta;
	Page		work;
	UndoReader	reader;
	bool		inserts;
	bool		done;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	*same_room = false;
	undo_record_reader_open(&reader, rel);
	if (!zheap_xact_slot_any_aborted(buffer, page, hz) &&
		!zheap_shared_any_aborted(&reader, hz, page,
								  BufferGetBlockNumber(buffer)))
	{
		undo_record_reader_close(&reader);
		return false;
	}
	work = zheap_delta_begin_parts(&delta, rel, buffer);
	done = rollback_work(rel, &reader, hz, work, &delta,
						 BufferGetBlockNumber(buffer), &inserts);

	/* aborted changes were visible to no snapshot: no conflict */
	undo_record_reader_close(&reader);
	zheap_delta_finish(&delta, InvalidFxid);
	*same_room = done && !inserts;
	if (done)
	{
		zheap_rollback_pages++;
		undo_stat_count_rollback_page();
	}
	UNDO_POINT("page-rolled-back");
	return !done;
}

/* ----------------------------------------------------------------
 *	pages
 * ----------------------------------------------------------------
 */

/*
 * Horizons are sampled under the lock: while it is held no aborted owner of
 * this page can become applied, so all_visible_before can't pass one.  (The
 * caller of a writer has loaded the shared state before.)  A new page is left
 * alone.
 */
bool
zheap_rollback_buffer(Relation rel, Buffer buffer)
{
	UndoHorizons hz = undo_log_horizons();
	Page		page = BufferGetPage(buffer);
	bool		same_room;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0);
	if (PageIsNew(page))
		return true;
	zheap_page_check(rel, BufferGetBlockNumber(buffer), page);
	return !rollback_batch(rel, buffer, &hz, &same_room);
}

/*
 * The lock of a page was given up between two batches.  A process that waited
 * for it gets it now, which it wouldn't if it were taken again at once.
 */
static void
pause_between_batches(void)
{
	AssertNoPageLocked();
	Assert(CritSectionCount == 0);
	UNDO_POINT("rollback-page-released");
	/* in an abort callback interrupts are held off: the time alone counts */
	undo_apply_check_time();
	if (InterruptHoldoffCount > 0)
		return;
	CHECK_FOR_INTERRUPTS();
	UNDO_ERROR_POINT("rollback-between-batches");
	pg_usleep(ROLLBACK_PAUSE);
}

void
zheap_rollback_lock(Relation rel, Buffer buffer)
{
	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	for (;;)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		AssertPageExclusive(buffer);
		if (zheap_rollback_buffer(rel, buffer))
			return;
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		pause_between_batches();
	}
}

void
zheap_rollback_limit_reader(ZReadContext *cx)
{
	cx->gives_up = InterruptHoldoffCount == 0;
	if (cx->gives_up && !RecoveryInProgress())
		cx->patience = READER_PATIENCE;
}

void
zheap_rollback_for_reader(Relation rel, BlockNumber block)
{
	AssertNoPageLocked();
	if (!RecoveryInProgress())
		zheap_rollback_page(rel, block);
	CHECK_FOR_INTERRUPTS();
}

/*
 * The state that a rollback of the page would leave: each record is read once,
 * where a walk for each row reads them over and over.  Whoever rolls back the
 * page itself has to wait for the reader's lock, so the undo is there.
 */
void
zheap_rollback_copy(ZReadContext *cx, Page copy, BlockNumber block)
{
	bool		inserts;

	zheap_page_check_bodies(cx->rel, block, copy);
	(void) rollback_work(cx->rel, &cx->reader, &cx->hz, copy, NULL, block,
						 &inserts);
}

/*
 * A top transaction that aborts doesn't run any more when its callbacks are
 * called, and no log tells of its temporary undo: U may have passed it, and then
 * what it did would be everybody's.
 */
static UndoHorizons
horizons_for(Relation rel)
{
	UndoHorizons hz = undo_log_horizons();
	Fxid		top = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());

	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP &&
		top != InvalidFxid)
		hz.all_visible_before = Min(hz.all_visible_before, top);
	return hz;
}

/*
 * Roll back a page; the undo store's client.  No lock held by the caller.  A
 * new page is left alone.  ERROR (data corrupted) if it isn't a zheap page, or
 * what the storage manager throws if there is none: what can't be read isn't
 * rolled back, and its undo has to stay.  (Who names a page has a lock on the
 * table that no truncation gets past.  Only a temporary table may be emptied
 * in place by the transaction that aborts.)
 */
void
zheap_rollback_page(Relation rel, BlockNumber block)
{
	Buffer		buffer = zheap_buffer_recent(rel, block);
	bool		more = true;
	Size		room = 0;

	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP &&
		block >= smgrnblocks(RelationGetSmgr(rel), MAIN_FORKNUM))
		return;

	while (more)
	{
		UndoHorizons hz = horizons_for(rel);
		Page		page;
		bool		same_room = false;

		if (!BufferIsValid(buffer))
			buffer = ReadBuffer(rel, block);
		UNDO_POINT("rollback-horizon");
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		page = BufferGetPage(buffer);
		more = false;
		if (!PageIsNew(page))
		{
			zheap_page_check(rel, block, page);
			more = rollback_batch(rel, buffer, &hz, &same_room);
			if (!same_room)
				room = zheap_page_insert_room(page);
		}
		UnlockReleaseBuffer(buffer);
		buffer = InvalidBuffer;
		if (more)
			pause_between_batches();
	}

	/* an abort extends no file, so the map's turn comes later (U13) */
	if (!IsTransactionState())
		zheap_fsm_notes_rolled_back(rel, block, room);
	else if (room >= BLCKSZ / 8)
		zheap_fsm_notes_tell(rel, block, room);
}
