/*-------------------------------------------------------------------------
 *
 * zheap_check_page.c
 *	  zheap_check() of pages: structure, xact slots, rows, their histories in
 *	  undo, and the visibility map.  Changes nothing, not even hints of pages.
 *
 * A page is looked at under its share lock: histories can be walked then as
 * readers walk them (Z16), those of aborted owners included, and its bit
 * of the visibility map can't change.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/history/zheap_look_up.h"
#include "zheap/history/zheap_spill_chain.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "inspect/zheap_inspect.h"

/* records to read for one row, and for one xact slot */
#define ROW_BUDGET		1000
#define CHAIN_BUDGET	100000

/* ----------------------------------------------------------------
 *	findings
 * ----------------------------------------------------------------
 */

void
zheap_check_page_complain(ZCheck *check, const char *what,
						  const char *expected)
{
	Datum		values[4];
	bool		nulls[4] = {false};

	values[0] = Int64GetDatum((int64) check->block);
	nulls[0] = !BlockNumberIsValid(check->block);
	values[1] = Int16GetDatum(check->off);
	nulls[1] = check->off == InvalidOffsetNumber;
	values[2] = CStringGetTextDatum(what);
	nulls[3] = expected == NULL;
	if (expected != NULL)
		values[3] = CStringGetTextDatum(expected);
	zheap_inspect_put_row(check->fcinfo, values, nulls);
}

/* an error as a finding; details of ours say "Expected: ..." */
static void
complain_of_error(ZCheck *check, const ErrorData *error)
{
	static const char prefix[] = "Expected: ";
	const char *detail = error->detail;

	if (detail != NULL && strncmp(detail, prefix, strlen(prefix)) == 0)
		detail += strlen(prefix);
	zheap_check_page_complain(check, error->message, detail);
}

bool
zheap_check_page_guard(ZCheck *check, zheap_check_fn fn, void *arg)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool ok = true;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		fn(check, arg);
		ReleaseCurrentSubTransaction();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (error->sqlerrcode != ERRCODE_DATA_CORRUPTED)
			ReThrowError(error);
		complain_of_error(check, error);
		ok = false;
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	CurrentResourceOwner = owner;
	return ok;
}

/* is it the turn of the next unit, or was that done by an earlier go? */
static bool
next_unit(ZCheck *check)
{
	int			until_look = 1;

	zheap_walk_look_up(&until_look);
	return ++check->unit > check->resume;
}

/* ----------------------------------------------------------------
 *	xact slots
 * ----------------------------------------------------------------
 */

static void
check_xact_slot(ZCheck *check, int id)
{
	ZXactSlot	slot = ZPageGetXactSlot(check->page, id);

	AssertPageLocked(check->buffer);
	Assert(id >= 1 && id <= ZPageGetOpaque(check->page)->nslots);
	if (ZXactSlotIsFree(slot))
		return;
	if (ZXactSlotFxid(slot) >= check->next_fxid)
		zheap_check_page_complain(check,
								  psprintf("xact slot %d belongs to transaction " UINT64_FORMAT,
										   id, ZXactSlotFxid(slot)),
								  psprintf("a transaction before " UINT64_FORMAT,
										   check->next_fxid));
	if (!UndoRecPtrIsValid(slot->urp))
		zheap_check_page_complain(check,
								  psprintf("xact slot %d has an owner but no undo record",
										   id),
								  "an undo record pointer");
	for (int other = id + 1; other <= ZPageGetOpaque(check->page)->nslots;
		 other++)
	{
		if (ZXactSlotFxid(ZPageGetXactSlot(check->page, other)) ==
			ZXactSlotFxid(slot))
			zheap_check_page_complain(check,
									  psprintf("xact slots %d and %d have the same owner",
											   id, other),
									  "one xact slot per transaction");
	}
}

/* every record of an xact slot's chain that must still be there */
static void
check_chain(ZCheck *check, int id)
{
	ZWalk	   *walk;

	AssertPageLocked(check->buffer);
	Assert(id >= 1 && id <= ZPageGetOpaque(check->page)->nslots);
	if (ZXactSlotIsFree(ZPageGetXactSlot(check->page, id)))
		return;
	walk = palloc(sizeof(ZWalk));
	zheap_walk_init(walk, check->rel, &check->reader, &check->hz,
					check->block, InvalidOffsetNumber, NULL, NULL);
	zheap_walk_at_slot(walk, check->page, id);

	for (int n = 0; n < CHAIN_BUDGET; n++)
	{
		ZXactStatus status =
			zheap_xact_slot_fxid_status(walk->fxid, &check->hz);

		zheap_walk_look_up(&walk->until_look);
		if (status == ZXACT_ALL_VISIBLE ||
			!zheap_walk_fetch(walk, status == ZXACT_ABORTED))
			break;
		if (walk->undo.flags & ZUNDO_TENURE_START)
		{
			if (walk->undo.prev_fxid == InvalidFxid)
				break;
			if (walk->undo.prev_fxid >= check->next_fxid)
			{
				zheap_check_page_complain(check,
										  psprintf("chain of xact slot %d goes on with transaction " UINT64_FORMAT,
												   id, walk->undo.prev_fxid),
										  psprintf("a transaction before " UINT64_FORMAT,
												   check->next_fxid));
				break;
			}
			walk->fxid = walk->undo.prev_fxid;
		}
		walk->urp = walk->undo.chain;
	}
	pfree(walk);
}

/*
 * The chain of spilled rows, as far as it must still be there.  (That each
 * SPILLED pointer has its row in it is seen when the row's history is walked.)
 */
static void
check_spill_chain(ZCheck *check)
{
	ZSpillChain chain;
	int			until_look = ZWALK_LOOK_UP;

	AssertPageLocked(check->buffer);
	if ((ZPageGetOpaque(check->page)->flags & ZPAGE_HAS_SPILL) == 0)
		return;
	zheap_spill_chain_start(&chain, check->page);
	for (int n = 0; n < CHAIN_BUDGET && chain.fxid != InvalidFxid; n++)
	{
		ZSpillCursor entries;

		zheap_walk_look_up(&until_look);
		if (chain.fxid >= check->next_fxid)
		{
			zheap_check_page_complain(check,
									  psprintf("chain of spilled rows names transaction " UINT64_FORMAT,
											   chain.fxid),
									  psprintf("a transaction before " UINT64_FORMAT,
											   check->next_fxid));
			break;
		}
		if (!zheap_spill_chain_next(&chain, &check->reader, check->block,
									&entries))
			break;
	}
}

/* ----------------------------------------------------------------
 *	rows
 * ----------------------------------------------------------------
 */

/* can the bytes be read as a row of the table; ERROR if they can't */
static void
check_image(ZCheck *check, const char *tuple, uint16 len)
{
	TupleDesc	desc = RelationGetDescr(check->rel);
	ZTupleHeader header;
	char	   *copy;

	zheap_header_get(tuple, &header);
	if (ZHeaderNatts(&header) > desc->natts)
	{
		zheap_check_page_complain(check,
								  psprintf("row has %d columns",
										   ZHeaderNatts(&header)),
								  psprintf("not more than the %d of the table",
										   desc->natts));
		return;
	}
	/* a copy: the reader counts on what lies behind the row */
	copy = palloc0(MAXALIGN(len) + MAXIMUM_ALIGNOF);
	memcpy(copy, tuple, len);
	zheap_tuple_deform(desc, copy, len, check->values, check->isnull);
	pfree(copy);
}

/* where a jump met on the way leads */
typedef struct JumpEnd
{
	struct JumpEnd *next;
	Fxid		fxid;
	UndoRecPtr	urp;
	uint16		len;
	char		image[FLEXIBLE_ARRAY_MEMBER];
} JumpEnd;

/* Follow the jump of the record found, if its end is sure to be there. */
static void
check_jump(ZCheck *check, const ZWalk *walk, JumpEnd **ends)
{
	JumpEnd    *end;

	if (!ZUndoHasJump(&walk->undo) ||
		walk->undo.jump.fxid < undo_log_horizons().discard_before)
		return;
	end = palloc(offsetof(JumpEnd, image) + BLCKSZ);
	end->fxid = walk->undo.jump.fxid;
	end->urp = walk->undo.jump.urp;
	memcpy(end->image, walk->image, *walk->len);
	end->len = *walk->len;
	zheap_undo_jump_back(&walk->undo, end->image, &end->len);
	end->next = *ends;
	*ends = end;
}

/*
 * The walk has arrived at a record step by step: do the jumps that end here
 * bring along the same version?
 */
static void
check_jump_ends(ZCheck *check, const ZWalk *walk, JumpEnd **ends)
{
	while (*ends != NULL)
	{
		JumpEnd    *end = *ends;
		ZTupleHeader h;

		if (end->urp != walk->urp || end->fxid != walk->fxid)
		{
			ends = &end->next;
			continue;
		}
		zheap_header_get(end->image, &h);
		if (h.natts_flags1 != (walk->hdr.natts_flags1 & ~ZH_SLACK) ||
			!zheap_same_row(end->image, end->len, walk->image, *walk->len))
			zheap_check_page_complain(check,
									  "a jump in the row's history leads to another version than its steps",
									  "the same version");
		*ends = end->next;
		pfree(end);
	}
}

/*
 * All versions of a row, from the page down to one that is visible to all.
 * The first record found must be the change that the header tells of.  Versions
 * by aborted writers aren't read: they may have columns that were added by the
 * same transaction.
 */
static void
check_history(ZCheck *check)
{
	char	   *image = palloc(BLCKSZ);
	uint16		len = 0;
	ZWalk	   *walk = palloc(sizeof(ZWalk));
	ZWalkState	state;
	bool		newest = true;
	bool		aborted = false;
	JumpEnd    *ends = NULL;

	AssertPageLocked(check->buffer);
	zheap_walk_init(walk, check->rel, &check->reader, &check->hz,
					check->block, check->off, image, &len);
	walk->budget = ROW_BUDGET;
	state = zheap_walk_start(walk, check->page);
	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(walk, check->buffer);
		bool		ended = ZHeaderIsEnded(&walk->hdr);
		ZFindResult found;

		aborted = status == ZXACT_ABORTED;
		if (status == ZXACT_ALL_VISIBLE)
			break;
		found = zheap_walk_find(walk, status == ZXACT_ABORTED);
		if (found == ZFIND_GONE || found == ZFIND_LIMIT)
			break;
		if (found == ZFIND_OTHER)
			continue;
		if (newest && ended != (walk->undo.kind == ZUNDO_DELETE ||
								walk->undo.kind == ZUNDO_MOVE))
			zheap_check_page_complain(check,
									  psprintf("newest undo record of the row is of kind %d",
											   walk->undo.kind),
									  ended ? "a record that ends the row" :
									  "no record that ends the row");
		newest = false;
		if (!aborted)
			check_image(check, image, len);
		check_jump_ends(check, walk, &ends);
		check_jump(check, walk, &ends);
		state = zheap_walk_step_back(walk);
		aborted = false;
	}
	if (state != ZWALK_NONE && !aborted)
		check_image(check, image, len);
	while (state != ZWALK_OWNED && ends != NULL)
	{
		JumpEnd    *end = ends;

		if (end->fxid >= undo_log_horizons().discard_before)
			zheap_check_page_complain(check,
									  "a jump in the row's history leads to no change of the row",
									  "a change that is met by steps, too");
		ends = end->next;
		pfree(end);
	}
	pfree(walk);
	pfree(image);
}

/*
 * The chain of the shared xact slot can be read, and live locks in it are told by
 * the headers of their rows.  A page has one, or room for it (Z57).
 */
static void
check_shared(ZCheck *check)
{
	Page		page = check->page;
	const ZShared *s = zheap_shared_get(&check->reader, &check->hz, page,
										check->block);
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	AssertPageLocked(check->buffer);
	for (int i = 0; s != NULL && i < s->nlocks; i++)
	{
		const ZSharedLock *lock = &s->lock[i];
		ZTupleHeader header;
		bool		own;

		if (lock->off > max ||
			!ItemIdIsNormal(PageGetItemId(page, lock->off)) ||
			!zheap_shared_lock_is_live(lock, &check->hz, &own))
			continue;
		zheap_header_get((char *) PageGetItem(page,
											  PageGetItemId(page, lock->off)),
						 &header);
		/* a change of the locker's own may stand for its lock (Z23) */
		if (header.slot != 0)
			continue;
		if ((header.flags2 & ZH_MULTI_LOCKED) == 0 ||
			(header.flags2 & ZH_MODE_MASK) >> ZH_MODE_SHIFT < lock->mode)
			zheap_check_page_complain(check,
									  psprintf("the header of row %u doesn't tell of its lock by transaction " UINT64_FORMAT,
											   lock->off, lock->fxid),
									  "lock bits as strong as the lock");
	}
	if (!ZPageHasShared(page) && zheap_xact_slot_may_share(check->rel) &&
		ZPageGetOpaque(page)->nslots > 1 &&
		zheap_page_total_free(page) < sizeof(ZXactSlotData))
		zheap_check_page_complain(check, "the page has no room for a shared xact slot",
								  "16 bytes");
}

/* Live row locks name line pointers that were not freed (Z60). */
static void
check_locked(ZCheck *check)
{
	bool		named[MaxHeapTuplesPerPage + 1] = {false};
	ZWalk	   *walk = palloc(sizeof(ZWalk));
	OffsetNumber max = PageGetMaxOffsetNumber(check->page);

	AssertPageLocked(check->buffer);
	zheap_walk_init(walk, check->rel, &check->reader, &check->hz,
					check->block, InvalidOffsetNumber, NULL, NULL);
	walk->budget = CHAIN_BUDGET;
	(void) zheap_walk_mark_locked(walk, check->page, named);
	for (OffsetNumber off = FirstOffsetNumber; off <= MaxHeapTuplesPerPage;
		 off++)
	{
		if (named[off] &&
			(off > max || !ItemIdIsUsed(PageGetItemId(check->page, off))))
			zheap_check_page_complain(check,
									  psprintf("a row lock names line pointer %u, which is free",
											   off),
									  "none that is free");
	}
	pfree(walk);
}

/* ----------------------------------------------------------------
 *	visibility map
 * ----------------------------------------------------------------
 */

/* why a row doesn't belong on an all-visible page (Z25), or NULL */
static const char *
why_not_all_visible(ZCheck *check)
{
	ItemId		lp = PageGetItemId(check->page, check->off);
	ZWalk	   *walk;
	ZWalkState	state;

	if (!ItemIdIsUsed(lp))
		return NULL;
	if (!ItemIdIsNormal(lp))
		return "line pointer without a row";

	walk = palloc(sizeof(ZWalk));
	zheap_walk_init(walk, check->rel, &check->reader, &check->hz,
					check->block, check->off, NULL, NULL);
	walk->budget = ROW_BUDGET;
	state = zheap_walk_start(walk, check->page);
	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(walk, check->buffer);

		if (ZHeaderIsEnded(&walk->hdr))
			return "ended row";
		if (status == ZXACT_ALL_VISIBLE ||
			(status == ZXACT_COMMITTED &&
			 zheap_xact_slot_seen_by_all(check->rel, walk->fxid, &check->hz,
										 NULL)))
			return NULL;
		if (ZWalkIsPlainInsert(walk))
			return "row that not everybody can see";
		switch (zheap_walk_find(walk, status == ZXACT_ABORTED))
		{
			case ZFIND_FOUND:
				if (ZUndoIsInsert(&walk->undo))
					return "row that not everybody can see";
				if (walk->undo.kind != ZUNDO_UPDATE)
					return "row that was not just updated in place";
				state = zheap_walk_step_back(walk);
				break;
			case ZFIND_GONE:
			case ZFIND_LIMIT:
			case ZFIND_STOP:
				return NULL;
			case ZFIND_OTHER:
				break;
		}
	}
	return NULL;
}

static void
check_all_visible(ZCheck *check)
{
	const char *problem = why_not_all_visible(check);

	AssertPageLocked(check->buffer);
	if (problem != NULL)
		zheap_check_page_complain(check,
								  psprintf("%s on a page marked all-visible in the visibility map",
										   problem),
								  "only rows that are visible to all");
}

/* is the block's bit of the visibility map set */
static bool
map_says_all_visible(ZCheck *check)
{
	Buffer		vmbuffer = InvalidBuffer;
	bool		set = VM_ALL_VISIBLE(check->rel, check->block, &vmbuffer);

	if (BufferIsValid(vmbuffer))
		ReleaseBuffer(vmbuffer);
	return set;
}

/* ----------------------------------------------------------------
 *	pages
 * ----------------------------------------------------------------
 */

/* the page as such; false if nothing on it can be relied on */
static bool
check_structure(ZCheck *check, bool in_map)
{
	char	   *problem = NULL;

	AssertPageLocked(check->buffer);
	if (!PageIsNew(check->page))
		problem = zheap_page_problem(check->page);
	if (next_unit(check))
	{
		if (problem != NULL)
			zheap_check_page_complain(check, problem,
									  "a sound zheap page");
		if (in_map &&
			(PageIsNew(check->page) || !PageIsAllVisible(check->page)))
			zheap_check_page_complain(check,
									  "all-visible in the visibility map but not on the page",
									  "both or none");
	}
	return problem == NULL && !PageIsNew(check->page);
}

/* the units of a page; the page is share-locked */
static void
check_units(ZCheck *check)
{
	bool		in_map = map_says_all_visible(check);
	int			nslots;
	OffsetNumber max;

	if (!check_structure(check, in_map))
		return;
	nslots = ZPageGetOpaque(check->page)->nslots;
	max = PageGetMaxOffsetNumber(check->page);
	for (int id = 1; id <= nslots; id++)
	{
		if (next_unit(check))
			check_xact_slot(check, id);
		if (next_unit(check))
			check_chain(check, id);
	}
	if (next_unit(check))
		check_spill_chain(check);
	if (next_unit(check))
		check_shared(check);
	if (next_unit(check))
		check_locked(check);
	for (check->off = FirstOffsetNumber; check->off <= max; check->off++)
	{
		if (next_unit(check))
			check_history(check);
		if (next_unit(check) && in_map)
			check_all_visible(check);
	}
}

static void
check_page(ZCheck *check, void *arg)
{
	AssertNoPageLocked();
	check->unit = 0;
	check->off = InvalidOffsetNumber;
	check->hz = undo_log_horizons();
	undo_record_reader_open(&check->reader, check->rel);
	check->buffer = ReadBuffer(check->rel, check->block);
	LockBuffer(check->buffer, BUFFER_LOCK_SHARE);
	check->page = BufferGetPage(check->buffer);
	/* under the lock: the owner of an xact slot there has its xid already */
	check->next_fxid = U64FromFullTransactionId(ReadNextFullTransactionId());
	check_units(check);
	UnlockReleaseBuffer(check->buffer);
	undo_record_reader_close(&check->reader);
}

/*
 * Check every page of check->rel.  An active snapshot is needed: its xmin
 * keeps what is read from being discarded.
 */
void
zheap_check_pages(ZCheck *check)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(check->rel);
	MemoryContext old = MemoryContextSwitchTo(check->context);

	Assert(ActiveSnapshotSet());
	AssertNoPageLocked();
	for (check->block = 0; check->block < nblocks; check->block++)
	{
		check->resume = -1;
		check->unit = 0;
		for (;;)
		{
			CHECK_FOR_INTERRUPTS();
			if (zheap_check_page_guard(check, check_page, NULL))
				break;
			/* an error before the first unit: the page can't be had */
			if (check->unit == 0)
				break;
			check->resume = check->unit;
		}
		MemoryContextReset(check->context);
	}
	MemoryContextSwitchTo(old);
}
