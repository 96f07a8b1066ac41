/*-------------------------------------------------------------------------
 *
 * zheap_xact_slot.c
 *	  Xact slots of a page: choosing one for a change, takeover, freezing.
 *
 * This file never rolls back: zheap_xact_slot_reserve reports an aborted owner
 * and the operation has it rolled back and starts over.
 *
 *	FREE --first change of T--> OWNED --freeze--> FREE
 *	OWNED --takeover (zheap_xact_slot_own)--> OWNED by another
 *	OWNED --freeze and own, in one record (ZTENURE_FROZEN)--> OWNED by another
 *	OWNED --rollback (zheap_rollback.c)--> previous owner, or FREE
 *
 * The shared xact slot (Z56) is none of these: it is nobody's, and empty when all
 * that its chain names is settled.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"

/* ----------------------------------------------------------------
 *	freezing (Z19)
 * ----------------------------------------------------------------
 */

bool
zheap_xact_slot_seen_by_all(Relation rel, Fxid fxid, const UndoHorizons *hz,
							Fxid *conflict)
{
	if (fxid < hz->all_visible_before)
		return true;
	if (rel == NULL ||
		!GlobalVisCheckRemovableFullXid(rel, FullTransactionIdFromU64(fxid)))
		return false;
	if (conflict != NULL)
		*conflict = Max(*conflict, fxid);
	return true;
}

/* has the owner committed, visibly to every snapshot */
static bool
is_freezable(Relation rel, ZXactSlot slot, const UndoHorizons *hz)
{
	Fxid		fxid = ZXactSlotFxid(slot);

	if (ZXactSlotIsFree(slot))
		return false;
	switch (zheap_xact_slot_status(InvalidBuffer, slot, hz))
	{
		case ZXACT_ALL_VISIBLE:
			return true;
		case ZXACT_COMMITTED:
			return zheap_xact_slot_seen_by_all(rel, fxid, hz, NULL);
		default:
			return false;
	}
}

/* of a row that isn't ended */
static void
freeze_header(ZTupleHeader *header)
{
	Assert(!ZHeaderIsEnded(header));
	if (header->flags2 & ZH_LOCK_ONLY)
	{
		header->flags2 &= ~ZH_LOCK_ONLY;
		if ((header->flags2 & ZH_MULTI_LOCKED) == 0)
			header->flags2 &= ~(ZH_MODE_MASK | ZH_MANY);
	}
	header->slot = 0;
	header->flags2 &= ~(ZH_INPLACE | ZH_REUSED_MASK);
}

/* freeze one tuple whose xact slot becomes FREE */
static void
freeze_tuple(Page page, OffsetNumber off, char *tuple, ZTupleHeader *header)
{
	if (ZHeaderIsEnded(header))
	{
		zheap_page_set_dead(page, off);
		return;
	}
	freeze_header(header);
	zheap_header_put(tuple, header);
}

/* freeze the tuples of all marked xact slots and set these FREE */
static void
freeze_marked(Page page, const bool *marked)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	OffsetNumber off;
	bool		all_free = true;
	int			id;

	Assert(zheap_page_is_valid(page));
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		char	   *tuple;
		ZTupleHeader header;

		if (!ItemIdIsNormal(lp))
			continue;
		tuple = (char *) PageGetItem(page, lp);
		zheap_header_get(tuple, &header);
		if (header.slot != 0 && marked[header.slot])
			freeze_tuple(page, off, tuple, &header);
	}

	for (id = 1; id <= opaque->nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (marked[id])
			memset(slot, 0, sizeof(ZXactSlotData));
		if (!ZXactSlotIsFree(slot))
			all_free = false;
	}
	if (marked[ZXACT_SHARED])
		memset(ZPageGetShared(page), 0, sizeof(ZXactSlotData));
	else if (ZPageHasShared(page) && ZPageGetShared(page)->fxid_bits != 0)
		all_free = false;
	if (all_free)
		opaque->flags |= ZPAGE_ALL_RESOLVED;
}

Fxid
zheap_xact_slot_freeze_page(Relation rel, Page page, const UndoHorizons *hz,
							bool shared_over, int *nfrozen)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	bool		marked[ZHEAP_MAX_XACT_SLOTS + 2] = {false};
	Fxid		conflict = InvalidFxid;
	int			id;

	Assert(zheap_page_is_valid(page) && CritSectionCount == 0);
	*nfrozen = 0;
	for (id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);
		Fxid		fxid = ZXactSlotFxid(slot);

		if (!is_freezable(rel, slot, hz))
			continue;
		marked[id] = true;
		(*nfrozen)++;
		if (fxid >= hz->all_visible_before && fxid > conflict)
			conflict = fxid;
	}
	if (shared_over)
	{
		Fxid		youngest = ZSharedYoungest(ZPageGetShared(page));

		if (youngest >= hz->all_visible_before)
			conflict = Max(conflict, youngest);
		marked[ZXACT_SHARED] = true;
		(*nfrozen)++;
	}
	if (*nfrozen > 0)
		freeze_marked(page, marked);
	return conflict;
}

/* ----------------------------------------------------------------
 *	rows of an xact slot
 * ----------------------------------------------------------------
 */

/*
 * Rows that may refer to an xact slot with this content, which my backend
 * wrote: those from first to last (Z41).  Known of transactions that wrote to
 * permanent tables only, whose records {fxid, urp} names for ever (U5).
 */
typedef struct HeldRows
{
	Fxid		fxid;			/* 0: empty */
	UndoRecPtr	urp;
	OffsetNumber first;
	OffsetNumber last;
} HeldRows;

#define HELD_ROWS			256
#define HELD_ROWS_USED		UNDO_KNOB("held-rows", HELD_ROWS, 1, HELD_ROWS)

static HeldRows held[HELD_ROWS];
static Fxid mixed_top = InvalidFxid;	/* has written to other logs, too */

static inline HeldRows *
held_place(UndoRecPtr urp)
{
	return &held[murmurhash32((uint32) (urp ^ (urp >> 32))) % HELD_ROWS_USED];
}

/* what is known of the rows, or NULL */
static inline const HeldRows *
held_rows(Fxid fxid, UndoRecPtr urp)
{
	const HeldRows *h = held_place(urp);

	return h->fxid == fxid && h->urp == urp && fxid != InvalidFxid ? h : NULL;
}

/* ----------------------------------------------------------------
 *	choosing one for a change
 * ----------------------------------------------------------------
 */

/* what reserve found on the page */
typedef struct SlotSurvey
{
	uint8		own;			/* owned by my top transaction, or 0 */
	uint8		free;			/* first FREE one, or 0 */
	bool		aborted;
	bool		committed[ZHEAP_MAX_XACT_SLOTS + 2];	/* unless aborted: of
														 * those that exist */
} SlotSurvey;

static void
survey_slots(Buffer buffer, Page page, const UndoHorizons *hz, SlotSurvey *s)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	int			id;

	AssertPageExclusive(buffer);
	memset(s, 0, offsetof(SlotSurvey, committed));
	for (id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		s->committed[id] = false;
		if (ZXactSlotIsFree(slot))
		{
			if (s->free == 0)
				s->free = id;
			continue;
		}
		switch (zheap_xact_slot_status(buffer, slot, hz))
		{
			case ZXACT_CURRENT:
				Assert(s->own == 0);	/* Z4 */
				s->own = id;
				break;
			case ZXACT_RUNNING:
				break;
			case ZXACT_ALL_VISIBLE:
			case ZXACT_COMMITTED:
				s->committed[id] = true;
				break;
			case ZXACT_ABORTED:
				s->aborted = true;	/* not to be taken over (Z5) */
				return;
		}
	}
}

uint8
zheap_xact_slot_only(Page page, Fxid fxid, UndoRecPtr urp,
					 const UndoHorizons *hz)
{
	ZXactSlot	slots = ZPageGetXactSlots(page);
	int			nslots = ZPageGetOpaque(page)->nslots;
	uint8		found = 0;

	Assert(zheap_page_is_valid(page) && UndoRecPtrIsValid(urp));
	for (int i = 0; i < nslots; i++)
	{
		Fxid		owner = ZXactSlotFxid(&slots[i]);

		if (owner == fxid && slots[i].urp == urp)
			found = i + 1;
		else if (owner >= hz->all_visible_before)
			return 0;
	}
	if (unlikely(ZPageHasShared(page)) &&
		ZSharedYoungest(ZPageGetShared(page)) >= hz->all_visible_before)
		return 0;
	return found;
}

static void
set_choice(Page page, uint8 id, ZTenure tenure, ZXactSlotChoice *choice)
{
	ZXactSlot	slot = ZPageGetXactSlot(page, id);

	choice->id = id;
	choice->tenure = tenure;
	choice->prev_fxid = ZXactSlotFxid(slot);
	choice->prev_urp = slot->urp;
	choice->conflict = InvalidFxid;
	Assert((tenure == ZTENURE_FREE) == ZXactSlotIsFree(slot));
}

/*
 * Core knows who is visible to everybody of all that is older than what it
 * found out last.  For younger ones it looks at every connection, once per
 * snapshot; that is, in each transaction of one insert.  Where connections are
 * many, inserts let it look now and then only, and else take over what isn't
 * known to be visible to all.  That costs a few bytes of undo and WAL; a look
 * costs as much for about so many connections.
 */
#define CONNECTIONS_PER_INSERT	25

/* between two counts of them */
#define LOOKS_PER_COUNT		256

static Fxid known_to_all = InvalidFxid; /* core said yes of this one */
static int	inserts_until_look = 0;

static int
inserts_per_look(void)
{
	static int	looks_until_count = 0;
	static int	inserts = 1;

	if (looks_until_count-- <= 0)
	{
		inserts = CountDBBackends(InvalidOid) / CONNECTIONS_PER_INSERT;
		inserts = Max(inserts, 1);
		looks_until_count = LOOKS_PER_COUNT - 1;
	}
	return UNDO_KNOB("inserts-per-look", inserts, 1, 32);
}

/* the youngest owner that an insert may ask core about */
static Fxid
youngest_to_ask(Page page, const UndoHorizons *hz, const SlotSurvey *s)
{
	Fxid		known = Max(known_to_all, hz->all_visible_before);
	int			nslots = ZPageGetOpaque(page)->nslots;
	bool		any = false;

	for (int id = 1; id <= nslots; id++)
	{
		if (!s->committed[id])
			continue;
		if (ZXactSlotFxid(ZPageGetXactSlot(page, id)) <= known)
			return known;
		any = true;
	}
	if (!any || inserts_until_look-- > 0)
		return known;
	inserts_until_look = inserts_per_look() - 1;
	return PG_UINT64_MAX;
}

/*
 * A committed xact slot whose owner, not after youngest, is visible to
 * everybody, standbys excepted (Z19), or 0.  *conflict is what they have to be
 * told.
 */
static uint8
best_freezable(Relation rel, Page page, const UndoHorizons *hz,
			   const SlotSurvey *s, uint8 prefer, Fxid youngest,
			   Fxid *conflict)
{
	int			nslots = ZPageGetOpaque(page)->nslots;

	*conflict = InvalidFxid;
	for (int i = prefer <= nslots ? 0 : 1; i <= nslots; i++)
	{
		int			id = i == 0 ? prefer : i;
		Fxid		fxid;

		if (id == 0 || !s->committed[id])
			continue;
		fxid = ZXactSlotFxid(ZPageGetXactSlot(page, id));
		if (fxid <= youngest &&
			zheap_xact_slot_seen_by_all(rel, fxid, hz, conflict))
		{
			known_to_all = Max(known_to_all, fxid);
			return id;
		}
	}
	return 0;
}

/* one xact slot more, logged; its id, or 0 if there is no room */
static uint8
grow_logged(Relation rel, Buffer buffer)
{
	AssertPageExclusive(buffer);
	if (ZPageGetOpaque(BufferGetPage(buffer))->nslots >=
		ZHEAP_CROWDED_XACT_SLOTS || !zheap_delta_grow(rel, buffer))
		return 0;
	return ZPageGetOpaque(BufferGetPage(buffer))->nslots;
}

/*
 * As many xact slots as a page gets before a committed owner's is taken over.
 * That costs a look at each row, of which a toast table has few on a page, and
 * saves the WAL of growing and the bytes of the xact slot.
 */
static inline int
slots_wanted(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_TOASTVALUE ?
		ZHEAP_INITIAL_XACT_SLOTS : ZHEAP_XACT_SLOT_RESERVE;
}

/* the committed xact slot to take over, or 0 */
static uint8
best_committed(Page page, const SlotSurvey *s, uint8 prefer)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	uint16		ntuples[ZHEAP_MAX_XACT_SLOTS + 2] = {0};
	OffsetNumber off;
	uint8		best = 0;
	int			id;

	if (prefer != 0 && prefer <= nslots && s->committed[prefer])
		return prefer;

	for (off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		ZTupleHeader header;

		if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
			continue;
		zheap_header_get((char *) PageGetItem(page, lp), &header);
		ntuples[header.slot]++;
	}
	for (id = 1; id <= nslots; id++)
	{
		if (s->committed[id] &&
			(best == 0 || ntuples[id] < ntuples[best]))
			best = id;
	}
	return best;
}

/* a committed xact slot of which only my backend wrote the rows, or 0 */
static uint8
committed_of_mine(Page page, const SlotSurvey *s)
{
	int			nslots = ZPageGetOpaque(page)->nslots;

	Assert(zheap_page_is_valid(page));
	for (int id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (s->committed[id] && !ZXactSlotIsAmbiguous(slot) &&
			held_rows(ZXactSlotFxid(slot), slot->urp) != NULL)
			return id;
	}
	return 0;
}

static void
no_room_to_share(Relation rel, Buffer buffer)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("block %u of zheap relation \"%s\" has no room for a shared xact slot",
					BufferGetBlockNumber(buffer),
					RelationGetRelationName(rel))));
}

void
zheap_xact_slot_share(Relation rel, Buffer buffer, ZXactSlotChoice *choice)
{
	Page		page = BufferGetPage(buffer);

	AssertPageExclusive(buffer);
	Assert(zheap_xact_slot_may_share(rel));
	if (!ZPageHasShared(page) && !zheap_delta_share(rel, buffer))
		no_room_to_share(rel, buffer);
	memset(choice, 0, sizeof(ZXactSlotChoice));
	choice->id = ZXACT_SHARED;
	choice->tenure = ZTENURE_SHARED;
	choice->prev_urp = ZPageGetShared(page)->urp;
}

bool
zheap_xact_slot_is_for_one(Relation rel, Page page)
{
	return ZPageGetOpaque(page)->nslots == 1 && !ZPageHasShared(page) &&
		PageGetMaxOffsetNumber(page) > 0 &&
		zheap_page_total_free(page) < sizeof(ZXactSlotData) &&
		zheap_xact_slot_may_share(rel);
}

/* a FREE xact slot, or one that can be had without taking over; false: none */
static bool
reserve_free(Relation rel, Buffer buffer, const UndoHorizons *hz,
			 ZReserveFor what, uint8 prefer, const SlotSurvey *s,
			 ZXactSlotChoice *choice)
{
	Page		page = BufferGetPage(buffer);
	uint8		id = s->free;

	if (id == 0)
	{
		Fxid		youngest = what == ZRESERVE_FOR_NEW_ROW ?
			youngest_to_ask(page, hz, s) : PG_UINT64_MAX;
		Fxid		conflict;

		id = best_freezable(rel, page, hz, s, prefer, youngest, &conflict);
		if (id != 0)
		{
			set_choice(page, id, ZTENURE_FROZEN, choice);
			choice->conflict = conflict;
			return true;
		}

		/* instead of that; the takeover's pass is short */
		if (youngest != PG_UINT64_MAX)
			id = committed_of_mine(page, s);
		if (id != 0)
		{
			set_choice(page, id, ZTENURE_FOREIGN, choice);
			return true;
		}
	}

	if (id == 0 && ZPageGetOpaque(page)->nslots < slots_wanted(rel))
		id = grow_logged(rel, buffer);
	if (id != 0)
		set_choice(page, id, ZTENURE_FREE, choice);
	return id != 0;
}

ZReserveResult
zheap_xact_slot_reserve(Relation rel, Buffer buffer, const UndoHorizons *hz,
						Fxid fxid, ZReserveFor what, uint8 prefer,
						ZXactSlotChoice *choice)
{
	Page		page = BufferGetPage(buffer);
	SlotSurvey	s;
	uint8		id;

	Assert(fxid >= FirstNormalTransactionId && fxid >= hz->all_visible_before);
	Assert(zheap_page_is_valid(page));

	/* nor is what follows from the future */
	zheap_xact_slot_note_given(fxid);
	survey_slots(buffer, page, hz, &s);
	if (s.aborted)
		return ZRESERVE_ABORTED;

	/* my own */
	if (s.own != 0)
	{
		Fxid		owner = ZXactSlotFxid(ZPageGetXactSlot(page, s.own));

		set_choice(page, s.own,
				   owner == fxid ? ZTENURE_CONTINUE : ZTENURE_FAMILY, choice);
		return ZRESERVE_OK;
	}

	if (what == ZRESERVE_FOR_NEW_ROW || !zheap_xact_slot_is_for_one(rel, page))
	{
		if (reserve_free(rel, buffer, hz, what, prefer, &s, choice))
			return ZRESERVE_OK;

		/* one of a committed owner */
		id = best_committed(page, &s, prefer);
		if (id != 0)
		{
			set_choice(page, id, ZTENURE_FOREIGN, choice);
			return ZRESERVE_OK;
		}

		/* only running foreign owners */
		id = what == ZRESERVE_FOR_LOCK ? 0 : grow_logged(rel, buffer);
		if (id != 0)
		{
			set_choice(page, id, ZTENURE_FREE, choice);
			return ZRESERVE_OK;
		}
	}
	if (what == ZRESERVE_FOR_NEW_ROW)
		return ZRESERVE_NONE;
	/* its owner runs: he would have shared it (Z57) */
	if (zheap_xact_slot_is_for_one(rel, page) && s.free == 0 &&
		!s.committed[1])
		no_room_to_share(rel, buffer);
	zheap_xact_slot_share(rel, buffer, choice);
	return ZRESERVE_OK;
}

/* ----------------------------------------------------------------
 *	takeover
 * ----------------------------------------------------------------
 */

/* See zheap_xact_slot.h. */
void
zheap_xact_slot_note_rows(Relation rel, const ZXactSlotChoice *choice,
						  Fxid fxid, UndoRecPtr urp, OffsetNumber first,
						  OffsetNumber last)
{
	Fxid		top = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	HeldRows	h = {fxid, urp, first, last};

	Assert(UndoRecPtrIsValid(urp) && first >= FirstOffsetNumber &&
		   first <= last);
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
	{
		if (mixed_top != top)
			memset(held, 0, sizeof(held));
		mixed_top = top;
	}
	/* the shared xact slot isn't taken over */
	if (mixed_top == top || choice->tenure == ZTENURE_SHARED)
		return;
	if (choice->tenure == ZTENURE_CONTINUE ||
		choice->tenure == ZTENURE_FAMILY ||
		choice->tenure == ZTENURE_FOREIGN)
	{
		const HeldRows *before = held_rows(choice->prev_fxid,
										   choice->prev_urp);

		if (before == NULL)
			return;
		h.first = Min(first, before->first);
		h.last = Max(last, before->last);
	}
	*held_place(urp) = h;
}

void
zheap_xact_slot_note_row(Fxid fxid, UndoRecPtr urp, OffsetNumber off)
{
	HeldRows   *h = held_place(urp);

	Assert(UndoRecPtrIsValid(urp) && OffsetNumberIsValid(off));
	if (h->fxid != fxid || h->urp != urp)
		return;
	h->first = Min(h->first, off);
	h->last = Max(h->last, off);
}

#ifdef USE_ASSERT_CHECKING
static bool
others_refer(Page page, uint8 id, const HeldRows *h)
{
	for (OffsetNumber off = FirstOffsetNumber;
		 off <= PageGetMaxOffsetNumber(page); off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (ItemIdIsNormal(lp) && (off < h->first || off > h->last) &&
			*(uint8 *) PageGetItem(page, lp) == id)
			return true;
	}
	return false;
}
#endif

void
zheap_xact_slot_flag_header(ZTupleHeader *header, uint8 id, ZTenure tenure)
{
	Assert(id != 0);
	if (header->slot != id)
		return;
	Assert(!(tenure == ZTENURE_FROZEN && ZHeaderIsEnded(header)));
	if (tenure == ZTENURE_FROZEN)
		freeze_header(header);
	else if (tenure == ZTENURE_FOREIGN)
		ZHeaderSetReused(header, ZH_REUSED_FOREIGN);
	else if (tenure == ZTENURE_FAMILY &&
			 ZHeaderReused(header) == ZH_REUSED_NONE)
		ZHeaderSetReused(header, ZH_REUSED_FAMILY);
}

/*
 * Everything that belongs to the xact slot's content is renewed with its
 * owner: the hint and AMBIGUOUS go.  Runs in critical sections and in redo.
 */
void
zheap_xact_slot_own(Page page, uint8 id, ZTenure tenure, Fxid fxid,
					UndoRecPtr urp)
{
	ZXactSlot	slot;

	Assert(fxid >= FirstNormalTransactionId && fxid < ZXACT_AMBIGUOUS);
	Assert(UndoRecPtrIsValid(urp));
	/* redo of a page that was damaged since */
	if (unlikely(id > ZPageGetOpaque(page)->nslots ||
				 (tenure == ZTENURE_FREE) !=
				 ZXactSlotIsFree(ZPageGetXactSlot(page, id))))
		elog(PANIC,
			 "xact slot %u of a zheap page is not as its next owner left it",
			 id);
	slot = ZPageGetXactSlot(page, id);

	ZPageGetOpaque(page)->flags &= ~ZPAGE_ALL_RESOLVED;

	if (tenure == ZTENURE_CONTINUE)
	{
		Assert(ZXactSlotFxid(slot) == fxid);
		slot->urp = urp;
		return;
	}

	if (tenure != ZTENURE_FREE)
	{
		const ItemId first = ((PageHeader) page)->pd_linp;
		ItemId		lp = first;
		ItemId		end = first + PageGetMaxOffsetNumber(page);
		const HeldRows *h = ZXactSlotIsAmbiguous(slot) ? NULL :
			held_rows(ZXactSlotFxid(slot), slot->urp);

		if (h != NULL)
		{
			Assert(!others_refer(page, id, h));
			lp = first + h->first - FirstOffsetNumber;
			end = Min(end, first + h->last);
		}
		for (; lp < end; lp++)
		{
			char	   *tuple = (char *) page + lp->lp_off % (unsigned) BLCKSZ;
			ZTupleHeader header;

			/* most rows aren't the xact slot's: one test for them */
			if (likely((uint8) tuple[0] != id))
				continue;
			/* what a damaged pointer leads to isn't the page's to change */
			if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
				continue;
			zheap_header_get(tuple, &header);
			if (tenure == ZTENURE_FROZEN)
			{
				freeze_tuple(page, lp - first + FirstOffsetNumber, tuple,
							 &header);
				continue;
			}
			zheap_xact_slot_flag_header(&header, id, tenure);
			zheap_header_put(tuple, &header);
		}
	}
	slot->fxid_bits = fxid;
	slot->urp = urp;
}

/* ----------------------------------------------------------------
 *	open records
 * ----------------------------------------------------------------
 */

bool
zheap_xact_slot_record_covers(const ZOpenRecord *open, Relation rel,
							  BlockNumber block, const ZXactSlotChoice *choice,
							  Fxid fxid, CommandId cid)
{
	return choice->tenure == ZTENURE_CONTINUE &&
		UndoRecPtrIsValid(open->urp) &&
		choice->prev_urp == open->urp &&
		fxid == open->fxid && cid == open->cid && block == open->block &&
		RelFileLocatorEquals(rel->rd_locator, open->locator);
}

void
zheap_xact_slot_note_record(ZOpenRecord *open, Relation rel, BlockNumber block,
							UndoRecPtr urp, Fxid fxid, CommandId cid)
{
	open->locator = rel->rd_locator;
	open->block = block;
	open->urp = urp;
	open->fxid = fxid;
	open->cid = cid;
}
