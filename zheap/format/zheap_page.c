/*-------------------------------------------------------------------------
 *
 * zheap_page.c
 *	  One page of a zheap table: init, add, replace in place, compact, grow
 *	  and trim the xact slots.
 *
 * Pure functions on page bytes: no buffers, no WAL, no transactions.  What
 * changes a page here depends on nothing but the page and the arguments, so
 * that do and redo call the same function and get the same bytes (hints
 * excepted).  None of them allocates or throws, so they may run in a critical
 * section; zheap_page_check_bodies is the exception.
 *
 * The hole between line pointers and tuples is always zero: a function that
 * makes bytes part of it clears them.  Gaps between tuples may hold anything.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"
#include "access/htup_details.h"
#include "access/xlogutils.h"
#include "port/pg_bitutils.h"
#include "storage/bufpage.h"
#include "utils/rel.h"

#include "zheap/format/zheap_page.h"

#define PageHeaderOf(page)		((PageHeader) (page))

/* ----------------------------------------------------------------
 *	tuple headers and slack
 * ----------------------------------------------------------------
 */

/*
 * Unused bytes at the end of an allocation that has SLACK; 0 if their number
 * makes no sense (zheap_page_problem reports it).
 */
static uint16
slack_size(const char *tuple, uint16 lp_len)
{
	uint16		n = (uint8) tuple[lp_len - 1];

	Assert(lp_len >= ZHEAP_HEADER_SIZE);
	if (n == 255)
	{
		if (lp_len < ZHEAP_HEADER_SIZE + 3)
			return 0;
		memcpy(&n, tuple + lp_len - 3, sizeof(uint16));
		if (n < 255)
			return 0;
	}
	if (n + ZHEAP_HEADER_SIZE > lp_len)
		return 0;
	return n;
}

uint16
zheap_page_tuple_len(const char *tuple, uint16 lp_len)
{
	ZTupleHeader header;

	Assert(lp_len >= ZHEAP_HEADER_SIZE);
	zheap_header_get(tuple, &header);
	if ((header.natts_flags1 & ZH_SLACK) == 0)
		return lp_len;
	return lp_len - slack_size(tuple, lp_len);
}

/*
 * Write a body into an allocation of alloc bytes; what is left over becomes
 * slack.  The number of slack bytes is stored in the last of them; 255 there
 * means that a u16 in the two bytes before it has the number.
 */
static void
write_body(char *place, uint16 alloc, const char *tuple, uint16 len)
{
	ZTupleHeader header;
	uint16		slack = alloc - len;

	Assert(len >= ZHEAP_HEADER_SIZE && len <= alloc);
	Assert(alloc <= BLCKSZ);

	memcpy(place, tuple, len);
	zheap_header_get(place, &header);
	header.natts_flags1 &= ~ZH_SLACK;
	if (slack > 0)
	{
		header.natts_flags1 |= ZH_SLACK;
		memset(place + len, 0, slack);
		if (slack < 255)
			place[alloc - 1] = (char) (uint8) slack;
		else
		{
			memcpy(place + alloc - 3, &slack, sizeof(uint16));
			place[alloc - 1] = (char) (uint8) 255;
		}
	}
	zheap_header_put(place, &header);
	Assert(zheap_page_tuple_len(place, alloc) == len);
}

/* ----------------------------------------------------------------
 *	pages
 * ----------------------------------------------------------------
 */

void
zheap_page_init(Page page, int nslots)
{
	ZPageOpaque opaque;

	Assert(nslots >= 1 && nslots <= ZHEAP_MAX_XACT_SLOTS);

	PageInit(page, BLCKSZ,
			 sizeof(ZPageOpaqueData) + nslots * sizeof(ZXactSlotData));
	opaque = ZPageGetOpaque(page);
	opaque->magic = ZHEAP_PAGE_MAGIC;
	opaque->version = ZHEAP_PAGE_VERSION;
	opaque->nslots = (uint8) nslots;
	opaque->flags = ZPAGE_ALL_RESOLVED;
	opaque->unused = 0;
	Assert(zheap_page_is_valid(page));
}

void
zheap_page_note_stale(Page page)
{
	Assert(zheap_page_is_valid(page));
	ZPageGetOpaque(page)->flags |= ZPAGE_HAS_STALE;
	PageClearAllVisible(page);
}

bool
zheap_page_row_is_stale(Page page, OffsetNumber off)
{
	ItemId		lp;
	ZTupleHeader header;

	Assert(off >= FirstOffsetNumber && zheap_page_is_valid(page));
	if (!ZPageMayHoldStale(page) || off > PageGetMaxOffsetNumber(page))
		return false;
	lp = PageGetItemId(page, off);
	if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
		return true;
	zheap_header_get((char *) page + ItemIdGetOffset(lp), &header);
	return (header.flags2 & ZH_STALE) != 0;
}

bool
zheap_page_row_is_swept(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);
	ZTupleHeader header;

	Assert(off >= FirstOffsetNumber && zheap_page_is_valid(page));
	if (!ZPageMayHoldStale(page) || !ItemIdIsNormal(lp) ||
		!zheap_item_is_in_page(page, lp))
		return false;
	zheap_header_get((char *) page + ItemIdGetOffset(lp), &header);
	return (header.flags2 & ZH_SWEPT) != 0;
}

/* what one pass over the line pointers tells */
typedef struct PointerSums
{
	int			used;			/* bytes that NORMAL ones claim */
	int			nrows;			/* NORMAL ones */
	int			nunused;
	int			inside;			/* negative: a NORMAL one leads outside of where
								 * bodies are, or to less than a header */
} PointerSums;

/* where in the word that a line pointer is the compiler puts a field of it */
#define POINTER_SHIFT(field) \
	pg_rightmost_one_pos32(((union {ItemIdData lp; uint32 word;}) \
							{.lp = {.field = 1}}).word)

/*
 * A page has up to 291 of them, and full pages are asked often: a loop without
 * branches over words, of which compilers make one of several at a time.
 */
static inline PointerSums
sum_pointers(Page page)
{
	PageHeader	ph = PageHeaderOf(page);
	const char *words = (const char *) ph->pd_linp;
	int			max = PageGetMaxOffsetNumber(page);
	int			upper = ph->pd_upper;
	int			special = ph->pd_special;
	PointerSums sums = {0};

	StaticAssertStmt(sizeof(ItemIdData) == sizeof(uint32),
					 "a line pointer is a word");
	for (int i = 0; i < max; i++)
	{
		uint32		word;
		int			at;
		int			len;
		int			flags;
		int			normal;

		memcpy(&word, words + i * sizeof(uint32), sizeof(uint32));
		at = (word >> POINTER_SHIFT(lp_off)) & 0x7FFF;
		len = (word >> POINTER_SHIFT(lp_len)) & 0x7FFF;
		flags = (word >> POINTER_SHIFT(lp_flags)) & 0x03;
		normal = -(flags == LP_NORMAL);
		sums.used += len & normal;
		sums.nrows -= normal;
		sums.nunused += flags == LP_UNUSED;
		sums.inside |= normal & ((at - upper) | (special - at - len) |
								 (len - ZHEAP_HEADER_SIZE));
	}
	return sums;
}

Size
zheap_page_total_free(Page page)
{
	PageHeader	ph = PageHeaderOf(page);
	int			room = ph->pd_special - ph->pd_lower;
	int			used = sum_pointers(page).used;

	/* a damaged page must not look like an empty one */
	return used > room ? 0 : room - used;
}

static inline ZPageUse
page_use(Page page, PointerSums sums)
{
	PageHeader	ph = PageHeaderOf(page);
	ZPageUse	use = {sums.nrows, ph->pd_special - ph->pd_lower - sums.used};

	return use;
}

ZPageUse
zheap_page_use(Page page)
{
	return page_use(page, sum_pointers(page));
}

/* Are the tuples where they may be, and no more than that? */
static inline bool
bodies_are_inside(Page page, PointerSums sums)
{
	PageHeader	ph = PageHeaderOf(page);

	return sums.inside >= 0 && sums.used <= ph->pd_special - ph->pd_upper;
}

ZPageUse
zheap_page_check_bodies(Relation rel, BlockNumber block, Page page)
{
	PointerSums sums = sum_pointers(page);

	if (!bodies_are_inside(page, sums))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("line pointers in block %u of relation \"%s\" are damaged",
						block, RelationGetRelationName(rel))));
	return page_use(page, sums);
}

bool
zheap_page_has_tuple(Page page, OffsetNumber off)
{
	ItemId		lp;

	if (!zheap_page_is_valid(page) || off < FirstOffsetNumber ||
		off > PageGetMaxOffsetNumber(page))
		return false;
	lp = PageGetItemId(page, off);
	return ItemIdIsNormal(lp) && zheap_item_is_in_page(page, lp);
}

Size
zheap_page_hole_room(Page page)
{
	PageHeader	ph = PageHeaderOf(page);
	int			nslots = ZPageGetOpaque(page)->nslots;
	Size		room = ph->pd_upper - ph->pd_lower;
	int			kept = zheap_page_slots_kept(PageGetMaxOffsetNumber(page) + 1);
	Size		keep = sizeof(ItemIdData);

	Assert(zheap_page_is_valid(page));
	if (PageGetMaxOffsetNumber(page) >= MaxHeapTuplesPerPage)
		return 0;
	keep += zheap_page_shared_room(page);
	if (nslots < kept)
		keep += (kept - nslots) * sizeof(ZXactSlotData);
	return room > keep ? room - keep : 0;
}

Size
zheap_page_insert_room(Page page)
{
	PageHeader	ph = PageHeaderOf(page);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	int			nslots = ZPageGetOpaque(page)->nslots;
	int			room = ph->pd_special - ph->pd_lower;
	int			keep = 0;
	PointerSums sums = sum_pointers(page);
	int			kept;

	Assert(zheap_page_is_valid(page));
	/* a damaged page has no room */
	if (sums.inside < 0 || sums.used > room)
		return 0;
	room -= sums.used;
	if (sums.nunused == 0)
	{
		if (max >= MaxHeapTuplesPerPage)
			return 0;
		keep += sizeof(ItemIdData);
	}
	kept = zheap_page_slots_kept(sums.nrows + 1);
	if (nslots < kept && max > 0)
		keep += (kept - nslots) * sizeof(ZXactSlotData);
	/* one big row may take the room of all, but that of the only xact slot */
	if (nslots > 1 || max > 0)
		keep += zheap_page_shared_room(page);

	return room > keep ? room - keep : 0;
}

OffsetNumber
zheap_page_free_offset(Page page, bool *append)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	Assert(zheap_page_is_valid(page));
	*append = false;
	if (PageHasFreeLinePointers(page))
	{
		OffsetNumber off;

		for (off = FirstOffsetNumber; off <= max; off++)
		{
			if (!ItemIdIsUsed(PageGetItemId(page, off)))
				return off;
		}
	}
	if (max >= MaxHeapTuplesPerPage)
		return InvalidOffsetNumber;
	*append = true;
	return OffsetNumberNext(max);
}

/* ----------------------------------------------------------------
 *	space
 * ----------------------------------------------------------------
 */

/* push all tuples against the special space, in the order of their pointers */
void
zheap_page_compact(Page page)
{
	PageHeader	ph = PageHeaderOf(page);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	LocationIndex upper = ph->pd_special;
	PGAlignedBlock copy;
	OffsetNumber off;

	Assert(zheap_page_is_valid(page));

	/* whoever gets here without redo has looked before */
	if (unlikely(!bodies_are_inside(page, sum_pointers(page))))
		ereport(PANIC,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("line pointers of a zheap page are damaged")));
	memcpy(copy.data + ph->pd_upper, page + ph->pd_upper,
		   ph->pd_special - ph->pd_upper);
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (!ItemIdIsNormal(lp))
			continue;
		upper -= lp->lp_len;
		memcpy(page + upper, copy.data + lp->lp_off, lp->lp_len);
		lp->lp_off = upper;
	}
	Assert(upper >= ph->pd_upper);
	memset(page + ph->pd_upper, 0, upper - ph->pd_upper);
	ph->pd_upper = upper;
}

bool
zheap_page_make_room(Page page, Size need)
{
	PageHeader	ph = PageHeaderOf(page);

	Assert(zheap_page_is_valid(page));
	if ((Size) (ph->pd_upper - ph->pd_lower) >= need)
		return true;
	if (zheap_page_total_free(page) < need)
		return false;
	zheap_page_compact(page);
	Assert((Size) (ph->pd_upper - ph->pd_lower) >= need);
	return true;
}

/* no pointer is UNUSED any more? then the hint would only cost searches */
static void
clear_free_lines_if_none(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	OffsetNumber off;

	for (off = FirstOffsetNumber; off <= max; off++)
	{
		if (!ItemIdIsUsed(PageGetItemId(page, off)))
			return;
	}
	PageClearHasFreeLinePointers(page);
}

bool
zheap_page_add(Page page, OffsetNumber off, const char *tuple, uint16 len)
{
	PageHeader	ph = PageHeaderOf(page);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	bool		append = (off == OffsetNumberNext(max));
	Size		need = len + (append ? sizeof(ItemIdData) : 0);
	bool		ok;
	ItemId		lp;

	Assert(len >= ZHEAP_HEADER_SIZE);
	Assert(tuple + len <= (char *) page || tuple >= (char *) page + BLCKSZ);
	Assert(len <= BLCKSZ);

	ok = off >= FirstOffsetNumber && off <= MaxHeapTuplesPerPage &&
		(append || (off <= max && !ItemIdIsUsed(PageGetItemId(page, off)))) &&
		zheap_page_make_room(page, need);
	/* redo may meet a page that was damaged since */
	Assert(ok || InRecovery);
	if (!ok)
		return false;

	if (append)
		ph->pd_lower += sizeof(ItemIdData);
	ph->pd_upper -= len;
	lp = PageGetItemId(page, off);
	ItemIdSetNormal(lp, ph->pd_upper, len);
	write_body((char *) page + ph->pd_upper, len, tuple, len);

	if (!append)
		clear_free_lines_if_none(page);
	return true;
}

/*
 * Free bytes, zheap_page_total_free(), that zheap_page_replace will consume.
 * The old body's place counts as free already.
 */
Size
zheap_page_replace_need(Page page, OffsetNumber off, uint16 len)
{
	ItemId		lp = PageGetItemId(page, off);

	Assert(ItemIdIsNormal(lp));
	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	return len > lp->lp_len ? len - lp->lp_len : 0;
}

/*
 * A body that doesn't fit its allocation moves to a new one; the old one is
 * free at once although the change may yet be rolled back, because every
 * older body that can come back fits the new allocation too (Z7).
 */
bool
zheap_page_replace(Page page, OffsetNumber off, const char *tuple, uint16 len)
{
	PageHeader	ph = PageHeaderOf(page);
	ItemId		lp = PageGetItemId(page, off);

	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	Assert(ItemIdIsNormal(lp));
	Assert(len >= ZHEAP_HEADER_SIZE);
	Assert(tuple + len <= (char *) page || tuple >= (char *) page + BLCKSZ);

	if (len > lp->lp_len)
	{
		if ((Size) (ph->pd_upper - ph->pd_lower) < len)
		{
			if (zheap_page_total_free(page) + lp->lp_len < len)
				return false;
			/* compact without the old body */
			ItemIdSetUnused(lp);
			zheap_page_compact(page);
		}
		Assert((Size) (ph->pd_upper - ph->pd_lower) >= len);
		ph->pd_upper -= len;
		ItemIdSetNormal(lp, ph->pd_upper, len);
	}
	Assert(lp->lp_len >= len && lp->lp_off >= ph->pd_upper);
	write_body((char *) page + lp->lp_off, lp->lp_len, tuple, len);
	return true;
}

void
zheap_page_drop_slack(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);
	char	   *tuple = (char *) page + lp->lp_off;
	ZTupleHeader header;

	Assert(ItemIdIsNormal(lp));
	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	zheap_header_get(tuple, &header);
	if ((header.natts_flags1 & ZH_SLACK) == 0)
		return;
	lp->lp_len = zheap_page_tuple_len(tuple, lp->lp_len);
	header.natts_flags1 &= ~ZH_SLACK;
	zheap_header_put(tuple, &header);
}

/* ----------------------------------------------------------------
 *	line pointers
 * ----------------------------------------------------------------
 */

void
zheap_page_set_dead(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);

	Assert(ItemIdIsUsed(lp));
	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	ItemIdSetDead(lp);
}

void
zheap_page_set_spilled(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);

	Assert(ItemIdIsNormal(lp));
	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	ItemIdSetRedirect(lp, 1);
	Assert(ZItemIdIsSpilled(lp));
}

void
zheap_page_set_unused(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);

	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	Assert(ItemIdIsDead(lp));
	ItemIdSetUnused(lp);
	PageSetHasFreeLinePointers(page);
}

void
zheap_page_truncate_line_pointers(Page page)
{
	PageHeader	ph = PageHeaderOf(page);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	LocationIndex lower = ph->pd_lower;

	Assert(zheap_page_is_valid(page));
	while (max >= FirstOffsetNumber &&
		   !ItemIdIsUsed(PageGetItemId(page, max)))
	{
		lower -= sizeof(ItemIdData);
		max--;
	}
	if (lower == ph->pd_lower)
		return;
	memset(page + lower, 0, ph->pd_lower - lower);
	ph->pd_lower = lower;
	clear_free_lines_if_none(page);
}

/* ----------------------------------------------------------------
 *	xact slots
 * ----------------------------------------------------------------
 */

/*
 * Shift tuples and the first nkeep xact slots by delta bytes (negative: to
 * the front).
 */
static void
shift_tuples(Page page, int nkeep, int delta)
{
	PageHeader	ph = PageHeaderOf(page);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	Size		size;
	OffsetNumber off;

	Assert(nkeep >= 0 && nkeep <= ZPageGetOpaque(page)->nslots);
	Assert(delta != 0 && delta % (int) sizeof(ZXactSlotData) == 0);
	size = ph->pd_special - ph->pd_upper + nkeep * sizeof(ZXactSlotData);
	memmove(page + ph->pd_upper + delta, page + ph->pd_upper, size);
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (ItemIdIsNormal(lp))
			lp->lp_off += delta;
	}
	if (delta > 0)
		memset(page + ph->pd_upper, 0, delta);
	ph->pd_upper += delta;
	ph->pd_special += delta;
}

bool
zheap_page_grow_xact_slots(Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	int			n = opaque->nslots;

	Assert(zheap_page_is_valid(page));

	if (n >= ZHEAP_MAX_XACT_SLOTS ||
		!zheap_page_make_room(page, sizeof(ZXactSlotData)))
		return false;

	shift_tuples(page, n, -(int) sizeof(ZXactSlotData));
	opaque->nslots = (uint8) (n + 1);
	memset(ZPageGetXactSlot(page, n + 1), 0, sizeof(ZXactSlotData));
	Assert(zheap_page_is_valid(page));
	return true;
}

/* rows of the only xact slot are those of an owner below the shared one's chain */
static void
share_rows(Page page)
{
	for (OffsetNumber off = FirstOffsetNumber;
		 off <= PageGetMaxOffsetNumber(page); off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		char	   *tuple = (char *) page + lp->lp_off;
		ZTupleHeader header;

		if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
			continue;
		zheap_header_get(tuple, &header);
		if (header.slot != 1)
			continue;
		header.slot = ZXACT_SHARED;
		ZHeaderSetReused(&header, ZH_REUSED_FOREIGN);
		zheap_header_put(tuple, &header);
	}
}

bool
zheap_page_make_shared(Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	int			n = opaque->nslots;
	ZXactSlot	last = ZPageGetXactSlot(page, n);

	Assert(zheap_page_is_valid(page) && !ZPageHasShared(page));
	if (zheap_page_make_room(page, sizeof(ZXactSlotData)))
	{
		shift_tuples(page, n, -(int) sizeof(ZXactSlotData));
		opaque->flags |= ZPAGE_HAS_SHARED;
		memset(ZPageGetShared(page), 0, sizeof(ZXactSlotData));
	}
	else if (n == 1 || ZXactSlotIsFree(last))
	{
		if (!ZXactSlotIsFree(last))
		{
			share_rows(page);
			last->fxid_bits = ZXactSlotFxid(last) | ZSHARED_BASE;
		}
		opaque->nslots = (uint8) (n - 1);
		opaque->flags |= ZPAGE_HAS_SHARED;
	}
	else
		return false;
	Assert(zheap_page_is_valid(page));
	return true;
}

void
zheap_page_trim_xact_slots(Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	int			n = opaque->nslots;
	int			keep = n;
	int			least = PageGetMaxOffsetNumber(page) > 0 ?
		ZHEAP_INITIAL_XACT_SLOTS : 1;
	bool		unshare = ZPageHasShared(page) &&
		ZPageGetShared(page)->fxid_bits == 0;

	Assert(zheap_page_is_valid(page));

	if (unshare && n == 0)
	{
		/* in its own place */
		opaque->flags &= ~ZPAGE_HAS_SHARED;
		opaque->nslots = 1;
		return;
	}
	if (ZPageHasShared(page) && !unshare)
		return;
	while (keep > least &&
		   ZXactSlotIsFree(ZPageGetXactSlot(page, keep)))
		keep--;
	if (keep == n && !unshare)
		return;

	shift_tuples(page, keep,
				 (n - keep + unshare) * (int) sizeof(ZXactSlotData));
	opaque->nslots = (uint8) keep;
	opaque->flags &= ~ZPAGE_HAS_SHARED;
	Assert(zheap_page_is_valid(page));
}

/* ----------------------------------------------------------------
 *	the spill chain
 * ----------------------------------------------------------------
 *
 * The spill field is the last one, in front of the opaque; its place is made by
 * the last xact slot, and by the shared one's moving there.
 */
bool
zheap_page_can_begin_spill(Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);

	Assert(zheap_page_is_valid(page));
	if (opaque->flags & ZPAGE_HAS_SPILL)
		return true;
	return opaque->nslots > 1 &&
		ZXactSlotIsFree(ZPageGetXactSlot(page, opaque->nslots));
}

/* the newest record of the page's spill chain and its writer */
void
zheap_page_put_spill(Page page, Fxid fxid, UndoRecPtr urp)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	ZXactSlot	spill;

	Assert(zheap_page_can_begin_spill(page));
	Assert(fxid >= FirstNormalTransactionId && UndoRecPtrIsValid(urp));

	if ((opaque->flags & ZPAGE_HAS_SPILL) == 0)
	{
		ZXactSlot	last = ZPageGetXactSlot(page, opaque->nslots);

		if (ZPageHasShared(page))
			*last = *ZPageGetShared(page);
		opaque->nslots--;
		opaque->flags |= ZPAGE_HAS_SPILL;
	}
	spill = ZPageGetSpill(page);
	spill->fxid_bits = fxid;
	spill->urp = urp;
	Assert(zheap_page_is_valid(page));
}

/* no pointer is SPILLED any more */
void
zheap_page_end_spill(Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	ZXactSlot	spill = ZPageGetSpill(page);

	Assert(zheap_page_is_valid(page));
	if (opaque->nslots == ZHEAP_MAX_XACT_SLOTS)
	{
		if (ZPageHasShared(page))
			*spill = *ZPageGetShared(page);
		opaque->flags &= ~ZPAGE_HAS_SPILL;
		shift_tuples(page, opaque->nslots, (int) sizeof(ZXactSlotData));
		Assert(zheap_page_is_valid(page));
		return;
	}
	if (ZPageHasShared(page))
	{
		ZXactSlot	shared = ZPageGetShared(page);

		*spill = *shared;
		spill = shared;
	}
	memset(spill, 0, sizeof(ZXactSlotData));
	opaque->flags &= ~ZPAGE_HAS_SPILL;
	opaque->nslots++;
	Assert(zheap_page_is_valid(page));
}

/* ----------------------------------------------------------------
 *	hints
 * ----------------------------------------------------------------
 */

void
zheap_page_clear_hints(Page page)
{
	Assert(zheap_page_is_valid(page));
	for (int id = 1; id <= ZPageGetOpaque(page)->nslots; id++)
		ZPageGetXactSlot(page, id)->fxid_bits &= ~ZXACT_HINT_COMMITTED;
}

void
zheap_page_mask(char *page, BlockNumber blkno)
{
	mask_page_lsn_and_checksum(page);
	if (!zheap_page_is_valid(page))
		return;

	mask_page_hint_bits(page);
	mask_unused_space(page);
	ZPageGetOpaque(page)->flags &= ~ZPAGE_ALL_RESOLVED;
	zheap_page_clear_hints(page);
}
