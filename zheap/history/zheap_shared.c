/*-------------------------------------------------------------------------
 *
 * zheap_shared.c
 *	  Reading the chain of a page's shared xact slot.
 *
 * A link of the chain names the youngest transaction at or below it, for which
 * its record is kept: until H, or until U if a row ended there (U25, Z56).  So a
 * record that is gone says of all that is below that it is over: locks are none,
 * ends of rows are visible to all or were rolled back.
 *
 * A backend keeps what it has read of some pages, and reads the records since.
 *
 * Locks: as in zheap_walk.c.  Writes nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "common/hashfn.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_look_up.h"
#include "zheap/history/zheap_ring.h"
#include "zheap/history/zheap_shared.h"

/* pages whose chain is kept in mind */
#define SHARED_PAGES		16

/* dead locks are looked for when locks have doubled, and are so many */
#define SHARED_PURGE		UNDO_KNOB("shared-purge", 64, 1, 64)

static ZShared *pages[SHARED_PAGES];

/* a place in the chain */
typedef struct SharedLink
{
	Fxid		youngest;
	bool		ends;
	UndoRecPtr	urp;			/* invalid: there is nothing */
} SharedLink;

/* what was read beyond what is known, newest first */
typedef struct SharedRead
{
	int			n;
	int			max;
	ZListEntry *entry;
	int			nrecords;
	int			nlisted;		/* entries of lists read last */
	Fxid		base_fxid;
	UndoRecPtr	base_urp;
} SharedRead;

static ZShared *
shared_place(BlockNumber block)
{
	ZShared   **s = &pages[murmurhash32(block) % SHARED_PAGES];

	if (*s == NULL)
		*s = undo_cache_alloc(sizeof(ZShared));
	return *s;
}

static inline SharedLink
head_of(const ZXactSlotData *slot)
{
	SharedLink	link;

	link.youngest = ZSharedYoungest(slot);
	link.ends = (slot->fxid_bits & ZSHARED_ENDS) != 0;
	link.urp = slot->urp;
	return link;
}

static inline bool
is_head(const ZShared *s, char persistence, BlockNumber block,
		const SharedLink *link)
{
	return s->youngest == link->youngest && s->urp == link->urp &&
		s->block == block && s->persistence == persistence;
}

bool
zheap_shared_lock_is_live(const ZSharedLock *lock, const UndoHorizons *hz,
						  bool *own)
{
	ZXactStatus status = zheap_xact_slot_fxid_status(lock->fxid, hz);

	*own = status == ZXACT_CURRENT;
	return *own || status == ZXACT_RUNNING;
}

/* ----------------------------------------------------------------
 *	reading
 * ----------------------------------------------------------------
 */

static void
add_entry(SharedRead *r, const ZListEntry *entry)
{
	if (r->n == r->max)
	{
		r->max = Max(32, 2 * r->max);
		r->entry = r->entry == NULL ? palloc(r->max * sizeof(ZListEntry)) :
			repalloc(r->entry, r->max * sizeof(ZListEntry));
	}
	r->entry[r->n++] = *entry;
}

static void
add_record(SharedRead *r, const UndoRecord *rec, const ZUndo *u)
{
	ZListEntry	entry = {.fxid = u->writer};

	if (u->kind == ZUNDO_LIST)
	{
		const char *p = u->entries;

		while (zheap_undo_next_list_entry(rec, u, &p, &entry))
			add_entry(r, &entry);
		r->nlisted += u->nentries;
		return;
	}
	/* a list above others is of locks that were carried, and counts as many */
	r->nrecords += 1 + r->nlisted;
	r->nlisted = 0;
	entry.off = u->offset;
	entry.end = u->kind != ZUNDO_LOCK;
	entry.mode = u->lockmode;
	entry.urp = rec->urp;
	add_entry(r, &entry);
}

/* A link leads to a record of the chain, and to no younger transaction. */
static void
check_link(const UndoRecord *rec, const ZUndo *u, const SharedLink *link,
		   BlockNumber block)
{
	bool		back = (u->flags & ZUNDO_TENURE_START) == 0 &&
		(u->below_youngest > link->youngest ||
		 (u->below_ends && !link->ends));

	if (!ZUndoIsShared(u) || back)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo record " UndoRecPtrFormat " of table block %u is none of the page's shared xact slot, or names %s",
						UndoRecPtrFormatArgs(rec->urp), block,
						back ? "a younger one" : "no other")));
}

/* Read from link down to what s has; true: it was met. */
static bool
read_chain(UndoReader *reader, const ZShared *s, BlockNumber block,
		   SharedLink link, SharedRead *r)
{
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	ZUndo	   *u = palloc(sizeof(ZUndo));
	ZRing		ring;
	int			until_look = ZWALK_LOOK_UP;
	bool		met = false;

	zheap_ring_begin(&ring);
	while (UndoRecPtrIsValid(link.urp))
	{
		met = is_head(s, reader->persistence, block, &link);
		if (met)
			break;
		/* in an abort callback nothing may be thrown: interrupts wait there */
		if (IsTransactionState())
			zheap_walk_look_up(&until_look);
		if (!undo_record_fetch_kept(reader, link.urp, link.youngest, link.ends,
									block, rec))
			break;
		zheap_undo_decode(rec, u);
		check_link(rec, u, &link, block);
		/* what was fetched: what a link names may be gone */
		zheap_ring_step(&ring, rec->writer, rec->urp, block);
		add_record(r, rec, u);
		if (u->flags & ZUNDO_TENURE_START)
		{
			r->base_fxid = u->prev_fxid;
			r->base_urp = u->chain;
			break;
		}
		link.youngest = u->below_youngest;
		link.ends = u->below_ends;
		link.urp = u->chain;
	}
	pfree(rec);
	pfree(u);
	return met;
}

/* ----------------------------------------------------------------
 *	keeping it
 * ----------------------------------------------------------------
 */

static void
put_lock(ZShared *s, const ZListEntry *entry)
{
	ZSharedLock *lock;

	if (s->nlocks == s->maxlocks)
	{
		int			max = Max(32, 2 * s->maxlocks);
		ZSharedLock *more = undo_cache_alloc(max * sizeof(ZSharedLock));

		if (s->lock != NULL)
		{
			memcpy(more, s->lock, s->nlocks * sizeof(ZSharedLock));
			pfree(s->lock);
		}
		s->lock = more;
		s->maxlocks = max;
	}
	lock = &s->lock[s->nlocks++];
	lock->fxid = entry->fxid;
	lock->off = entry->off;
	lock->mode = entry->mode;
	lock->next = s->first[entry->off];
	s->first[entry->off] = s->nlocks;
}

static void
put_end(ZShared *s, const ZListEntry *entry)
{
	if (s->end == NULL)
		s->end = undo_cache_alloc((MaxHeapTuplesPerPage + 1) *
								  sizeof(ZSharedEnd));
	s->end[entry->off].fxid = entry->fxid;
	s->end[entry->off].urp = entry->urp;
}

/* Forget locks that are over. */
static void
purge_locks(ZShared *s, const UndoHorizons *hz)
{
	int			n = 0;

	memset(s->first, 0, sizeof(s->first));
	for (int i = 0; i < s->nlocks; i++)
	{
		ZSharedLock lock = s->lock[i];
		bool		own;

		if (!zheap_shared_lock_is_live(&lock, hz, &own))
			continue;
		lock.next = s->first[lock.off];
		s->lock[n++] = lock;
		s->first[lock.off] = n;
	}
	s->nlocks = n;
	s->purge_at = 2 * n + SHARED_PURGE;
}

static void
forget(ZShared *s)
{
	if (s->lock != NULL)
		pfree(s->lock);
	if (s->end != NULL)
		pfree(s->end);
	memset(s, 0, sizeof(ZShared));
	s->purge_at = SHARED_PURGE;
}

/* What was read comes on top of what s has, oldest first. */
static void
keep(ZShared *s, const SharedRead *r, const UndoHorizons *hz)
{
	for (int i = r->n - 1; i >= 0; i--)
	{
		if (r->entry[i].end)
			put_end(s, &r->entry[i]);
		else
			put_lock(s, &r->entry[i]);
	}
	if (s->nlocks >= s->purge_at)
		purge_locks(s, hz);
	s->nrecords += r->nrecords;
}

/* Read down to what s has, or all of it; true: that was met. */
static bool
read_onto(ZShared *s, UndoReader *reader, const UndoHorizons *hz,
		  BlockNumber block, const ZXactSlotData *slot)
{
	SharedLink	head = head_of(slot);
	SharedRead	r = {0};
	bool		met = false;

	if (slot->fxid_bits & ZSHARED_BASE)
	{
		r.base_fxid = head.youngest;
		r.base_urp = head.urp;
	}
	else
		met = read_chain(reader, s, block, head, &r);
	if (met)
		s->nrecords += r.nlisted;
	else
	{
		forget(s);
		s->base_fxid = r.base_fxid;
		s->base_urp = r.base_urp;
		s->nlisted = r.nlisted;
	}
	/* an error would leave what is in between */
	s->youngest = InvalidFxid;
	keep(s, &r, hz);
	if (r.entry != NULL)
		pfree(r.entry);
	s->persistence = reader->persistence;
	s->block = block;
	s->urp = head.urp;
	s->youngest = head.youngest;
	return met;
}

#ifdef USE_ASSERT_CHECKING
/* has b each lock of a that is alive */
static bool
has_locks_of(const ZShared *b, const ZShared *a, const UndoHorizons *hz)
{
	for (int i = 0; i < a->nlocks; i++)
	{
		const ZSharedLock *lock = &a->lock[i];
		int			next = b->first[lock->off];
		bool		own;

		if (!zheap_shared_lock_is_live(lock, hz, &own))
			continue;
		while (next != 0 && (b->lock[next - 1].fxid != lock->fxid ||
							 b->lock[next - 1].mode != lock->mode))
			next = b->lock[next - 1].next;
		if (next == 0)
			return false;
	}
	return true;
}

/*
 * Is what is kept what the chain says, read as if nothing were?  Undo that was
 * discarded in between says of ends of rows that they are visible to all.
 */
static bool
is_as_read_afresh(const ZShared *s, UndoReader *reader, const UndoHorizons *hz,
				  Page page, BlockNumber block)
{
	static ZShared *fresh = NULL;
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	if (fresh == NULL)
		fresh = undo_cache_alloc(sizeof(ZShared));
	/* nothing is met */
	fresh->youngest = InvalidFxid;
	(void) read_onto(fresh, reader, hz, block, ZPageGetShared(page));
	if (!has_locks_of(fresh, s, hz) || !has_locks_of(s, fresh, hz))
		return false;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		Fxid		is = zheap_shared_row_fxid(fresh, page, off);

		if (is >= hz->all_visible_before &&
			is != zheap_shared_row_fxid(s, page, off))
			return false;
	}
	return true;
}
#endif

const ZShared *
zheap_shared_get(UndoReader *reader, const UndoHorizons *hz, Page page,
				 BlockNumber block)
{
	SharedLink	head;
	ZXactSlot	slot;
	ZShared    *s;

	Assert(zheap_page_is_valid(page) && CritSectionCount == 0);
	if (!ZPageHasShared(page))
		return NULL;
	slot = ZPageGetShared(page);
	head = head_of(slot);
	if (head.youngest < hz->all_visible_before)
		return NULL;
	s = shared_place(block);
	if (!is_head(s, reader->persistence, block, &head) &&
		read_onto(s, reader, hz, block, slot))
		Assert(is_as_read_afresh(s, reader, hz, page, block));
	return s;
}

/* ----------------------------------------------------------------
 *	rows
 * ----------------------------------------------------------------
 */

Fxid
zheap_shared_owner(UndoReader *reader, const UndoHorizons *hz, Page page,
				   BlockNumber block, OffsetNumber off, UndoRecPtr *urp)
{
	const ZShared *s = zheap_shared_get(reader, hz, page, block);
	Fxid		fxid;

	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	*urp = InvalidUndoRecPtr;
	fxid = s == NULL ? InvalidFxid : zheap_shared_row_fxid(s, page, off);
	if (fxid == InvalidFxid)
		return ZSHARED_SETTLED;
	*urp = zheap_shared_ended(page, off) ? s->end[off].urp : s->base_urp;
	return fxid;
}

bool
zheap_shared_is_aborted(UndoReader *reader, const UndoHorizons *hz, Page page,
						BlockNumber block, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);
	UndoRecPtr	urp;

	return ItemIdIsNormal(lp) && zheap_item_is_in_page(page, lp) &&
		*(uint8 *) PageGetItem(page, lp) == ZXACT_SHARED &&
		ZPageHasShared(page) &&
		zheap_xact_slot_fxid_status(zheap_shared_owner(reader, hz, page, block,
													   off, &urp), hz) ==
		ZXACT_ABORTED;
}

bool
zheap_shared_any_aborted(UndoReader *reader, const UndoHorizons *hz, Page page,
						 BlockNumber block)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	ZXactSlot	slot;

	if (likely(!ZPageHasShared(page)))
		return false;
	slot = ZPageGetShared(page);
	if ((slot->fxid_bits & (ZSHARED_ENDS | ZSHARED_BASE)) == 0 ||
		ZSharedYoungest(slot) < hz->all_visible_before)
		return false;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		if (zheap_shared_is_aborted(reader, hz, page, block, off))
			return true;
	}
	return false;
}

void
zheap_shared_describe(Page page, const UndoHorizons *hz, ZUndo *u)
{
	ZXactSlot	slot = ZPageGetShared(page);
	Fxid		below = ZSharedYoungest(slot);
	bool		base_runs = false;

	Assert(u->writer >= hz->all_visible_before);
	u->flags &= ~(ZUNDO_TENURE_START | ZUNDO_FAMILY | ZUNDO_BASE);
	u->flags |= ZUNDO_SHARED;
	u->chain = InvalidUndoRecPtr;
	u->prev_fxid = InvalidFxid;
	u->below_youngest = InvalidFxid;
	u->below_ends = false;
	if (below < hz->all_visible_before)
	{
		/* nothing, or what nobody asks for any more */
		below = InvalidFxid;
		u->flags |= ZUNDO_TENURE_START;
	}
	else if (slot->fxid_bits & ZSHARED_BASE)
	{
		u->flags |= ZUNDO_TENURE_START;
		u->prev_fxid = below;
		u->chain = slot->urp;
		/* it may have to be rolled back */
		base_runs = zheap_xact_slot_fxid_status(below, hz) != ZXACT_COMMITTED;
	}
	else
	{
		u->chain = slot->urp;
		u->below_youngest = below;
		u->below_ends = (slot->fxid_bits & ZSHARED_ENDS) != 0;
	}
	u->youngest = Max(u->writer, below);
	u->ends = u->below_ends || base_runs || ZUndoIsChange(u);
}
