/*-------------------------------------------------------------------------
 *
 * zheap_fsm_notes.c
 *	  Pages on which the running transaction ended or shrank rows.
 *
 * Their room can be used once the transaction has committed, by the next
 * writer that prunes or spills (zheap_make_room.c).  So that such a writer
 * comes by, the free space map is told at commit, of a page's room as it will
 * be then.  It is only a hint: a backend that finds less there corrects the
 * map.
 *
 * Pages that were rolled back by the abort itself are remembered until this
 * backend's next commit, because an abort extends no file, the map's neither.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "storage/freespace.h"
#include "storage/fsm_internals.h"
#include "storage/lmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "undo/undo.h"
#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"

/* notes at first, and at most: those of 8 GB, in 24 MB */
#define FREED_START			UNDO_KNOB("freed-start", 256, 1, 256)
#define FREED_MAX			UNDO_KNOB("freed-max", (1024 * 1024), 4, (1024 * 1024))

/* room that grows without passing a multiple of this isn't worth a word */
#define FREED_STEP			UNDO_KNOB("freed-step", (BLCKSZ / 32), 1, (BLCKSZ / 32))

/* levels of the map's tree: enough for all blocks there can be */
#define FSM_LEVELS			((SlotsPerFSMPage >= 1626) ? 3 : 4)

/* neighbours in the map's lowest level, about */
#define FREED_NEAR			((BlockNumber) 4000)

typedef struct FreedPage
{
	Oid			relid;
	RelFileLocator locator;
	BlockNumber block;
	uint16		before;			/* room if the transaction hadn't been */
	uint16		room;
} FreedPage;

static FreedPage *freed = NULL;
static int	nfreed = 0;
static int	maxfreed = 0;

#define ABORTED_MAX			64
#define ABORTED_MAX_USED	UNDO_KNOB("aborted-pages", ABORTED_MAX, 1, ABORTED_MAX)

static FreedPage aborted[ABORTED_MAX];
static int	naborted = 0;

/* ----------------------------------------------------------------
 *	telling the map
 * ----------------------------------------------------------------
 */

static int
freed_compare(const void *a, const void *b)
{
	const FreedPage *x = a;
	const FreedPage *y = b;

	if (x->relid != y->relid)
		return x->relid < y->relid ? -1 : 1;
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	/* of several notes about a page the largest counts */
	return (int) x->room - (int) y->room;
}

/* Tell the map of pages of a table that is open. */
static void
tell_of_pages(Relation rel, const FreedPage *page, int n)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	BlockNumber first = page[0].block;

	Assert(n > 0 && page[0].block <= page[n - 1].block);
	for (int i = 0; i < n; i++)
	{
		if (page[i].block >= nblocks ||
			!RelFileLocatorEquals(page[i].locator, rel->rd_locator))
			continue;
		RecordPageWithFreeSpace(rel, page[i].block,
								zheap_fsm_room(page[i].room));
		if (i + 1 == n || page[i + 1].block - first > FREED_NEAR)
		{
			FreeSpaceMapVacuumRange(rel, first, page[i].block + 1);
			if (i + 1 < n)
				first = page[i + 1].block;
		}
	}
}

/*
 * Does the map's file have a place for this block?  The leaf for a block comes
 * after all leaves before it, and all pages of the upper levels that are
 * needed for these; the root is the first page.
 */
static bool
map_has_place(Relation rel, BlockNumber block)
{
	SMgrRelation smgr = RelationGetSmgr(rel);
	uint64		above = block / SlotsPerFSMPage;
	uint64		place = above;

	if (!smgrexists(smgr, FSM_FORKNUM))
		return false;
	for (int i = 1; i < FSM_LEVELS; i++)
	{
		above /= SlotsPerFSMPage;
		place += above + 1;
	}
	return place < smgrnblocks(smgr, FSM_FORKNUM);
}

/*
 * The same where the map may have to grow, for which there may be no room: a
 * hint must not make the transaction fail.  What an error leaves behind has an
 * owner of its own.  (Core refuses to roll back a subtransaction at this time.)
 */
static void
try_to_tell_of_pages(Relation rel, const FreedPage *page, int n)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ResourceOwner own = ResourceOwnerCreate(owner, "zheap free space notes");
	volatile bool done = false;

	Assert(IsTransactionState());
	CurrentResourceOwner = own;
	PG_TRY();
	{
		UNDO_ROOM_POINT("map-grows");
		tell_of_pages(rel, page, n);
		done = true;
	}
	PG_CATCH();
	{
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(context);
		if (geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		undo_recover_from_error();
		FlushErrorState();
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	ResourceOwnerRelease(own, RESOURCE_RELEASE_BEFORE_LOCKS, done, false);
	ResourceOwnerRelease(own, RESOURCE_RELEASE_LOCKS, done, false);
	ResourceOwnerRelease(own, RESOURCE_RELEASE_AFTER_LOCKS, done, false);
	ResourceOwnerDelete(own);
}

static void
tell_if_there_is_room(Relation rel, const FreedPage *page, int n)
{
	if (map_has_place(rel, page[n - 1].block))
		tell_of_pages(rel, page, n);
	else
		try_to_tell_of_pages(rel, page, n);
}

void
zheap_fsm_notes_tell(Relation rel, BlockNumber block, Size room)
{
	FreedPage	page = {
		.relid = RelationGetRelid(rel),
		.locator = rel->rd_locator,
		.block = block,
		.room = room
	};

	AssertNoPageLocked();
	tell_if_there_is_room(rel, &page, 1);
}

/* Pages of one table, ascending. */
static void
tell_of_table(const FreedPage *page, int n)
{
	Relation	rel;

	Assert(n > 0 && page[0].relid == page[n - 1].relid);
	/* by whatever command, it may be gone or locked against me */
	if (!ConditionalLockRelationOid(page[0].relid, AccessShareLock))
		return;
	rel = try_relation_open(page[0].relid, NoLock);
	if (rel != NULL && RELKIND_HAS_STORAGE(rel->rd_rel->relkind))
		tell_if_there_is_room(rel, page, n);
	if (rel != NULL)
		relation_close(rel, NoLock);
	UnlockRelationOid(page[0].relid, AccessShareLock);
}

/* Some pages, which are sorted.  In a transaction, no lock held. */
static void
tell_map(FreedPage *page, int n)
{
	int			start = 0;

	Assert(CritSectionCount == 0);
	AssertNoPageLocked();
	qsort(page, n, sizeof(FreedPage), freed_compare);
	for (int i = 1; i <= n; i++)
	{
		if (i < n && page[i].relid == page[start].relid)
			continue;
		tell_of_table(page + start, i - start);
		start = i;
	}
}

/* Leave out what isn't worth it; keeps the order.  Returns what is left. */
static int
drop_small(FreedPage *page, int n)
{
	int			left = 0;

	for (int i = 0; i < n; i++)
	{
		if (page[i].before / FREED_STEP < page[i].room / FREED_STEP)
			page[left++] = page[i];
	}
	return left;
}

static void
tell_all(void)
{
	int			n = drop_small(freed, nfreed);

	/* an error on the way must not bring them up again */
	nfreed = 0;
	tell_map(freed, n);
	n = naborted;
	naborted = 0;
	tell_map(aborted, n);
}

/* the end of a transaction: forget, and keep no more memory than usual */
static void
forget_all(void)
{
	nfreed = 0;
	if (maxfreed > FREED_START)
	{
		pfree(freed);
		freed = NULL;
		maxfreed = 0;
	}
}

static void
freed_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			if (nfreed > 0 || naborted > 0)
				tell_all();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_ABORT:
			forget_all();
			break;
		default:
			break;
	}
}

void
zheap_fsm_notes_register(void)
{
	RegisterXactCallback(freed_xact_callback, NULL);
}

/* ----------------------------------------------------------------
 *	notes
 * ----------------------------------------------------------------
 */

/* room of the page when all that runs has committed and was reclaimed */
static Size
room_to_come(Page page)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	Size		room = zheap_page_insert_room(page);

	/* a page without line pointers to give stays out of the map */
	if (room == 0 && max >= MaxHeapTuplesPerPage)
		return 0;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		char	   *tuple;
		ZTupleHeader hdr;

		if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
			continue;
		tuple = (char *) PageGetItem(page, lp);
		zheap_header_get(tuple, &hdr);
		if (ZHeaderIsEnded(&hdr))
			room += ItemIdGetLength(lp);
		else if (hdr.natts_flags1 & ZH_SLACK)
			room += ItemIdGetLength(lp) -
				zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
	}
	return Min(room, BLCKSZ - 1);
}

/* Room for twice as many notes; false if there is no memory for a mere hint. */
static bool
make_room_for_notes(void)
{
	int			more = freed == NULL ? FREED_START : maxfreed * 2;
	FreedPage  *bigger =
		MemoryContextAllocExtended(TopMemoryContext,
								   more * sizeof(FreedPage),
								   MCXT_ALLOC_NO_OOM);

	Assert(nfreed == maxfreed && CritSectionCount == 0);
	if (bigger == NULL)
		return false;
	if (freed != NULL)
	{
		memcpy(bigger, freed, nfreed * sizeof(FreedPage));
		pfree(freed);
	}
	freed = bigger;
	maxfreed = more;
	return true;
}

/*
 * Looking at a page costs more than deleting one row from it, so a little room
 * is noted as if it were FREED_STEP, with the probability that this is on the
 * average.  The generator is the backend's own and starts alike in each: where
 * rows go depends on what was done before, and on nothing else.
 */
void
zheap_fsm_notes_add(Relation rel, BlockNumber block, Page page, Size bytes)
{
	static pg_prng_state generator;
	static bool seeded = false;
	FreedPage  *last;
	Size		room;

	Assert(CritSectionCount == 0 && zheap_page_is_valid(page));
	/* changes of one page after the other are the rule */
	last = nfreed > 0 ? &freed[nfreed - 1] : NULL;
	if (last != NULL && last->block == block &&
		last->relid == RelationGetRelid(rel) &&
		RelFileLocatorEquals(last->locator, rel->rd_locator))
	{
		if (last->room > 0)
			last->room = Min(last->room + bytes, BLCKSZ - 1);
		return;
	}

	if (bytes < FREED_STEP)
	{
		if (!seeded)
			pg_prng_seed(&generator, 0);
		seeded = true;
		if (pg_prng_uint32(&generator) % FREED_STEP >= bytes)
			return;
		bytes = FREED_STEP;
	}
	if (nfreed == FREED_MAX)
		return;					/* left to vacuum */
	if (nfreed == maxfreed && !make_room_for_notes())
		return;
	room = room_to_come(page);
	Assert(nfreed < maxfreed);
	last = &freed[nfreed++];
	last->relid = RelationGetRelid(rel);
	last->locator = rel->rd_locator;
	last->block = block;
	last->room = room;
	last->before = room - Min(room, bytes);
}

void
zheap_fsm_notes_rolled_back(Relation rel, BlockNumber block, Size room)
{
	FreedPage  *page;

	Assert(!IsTransactionState() && room < BLCKSZ);
	if (room < FREED_STEP)
		return;
	if (naborted > 0 && aborted[naborted - 1].block == block &&
		RelFileLocatorEquals(aborted[naborted - 1].locator,
							 rel->rd_locator))
		naborted--;
	if (naborted == ABORTED_MAX_USED)
		return;
	Assert(naborted < ABORTED_MAX);
	page = &aborted[naborted++];
	page->relid = RelationGetRelid(rel);
	page->locator = rel->rd_locator;
	page->block = block;
	page->before = 0;
	page->room = room;
}
