/*-------------------------------------------------------------------------
 *
 * zheap_sweep.c
 *	  Old entries of rows that changed their keys in place: VACUUM deletes
 *	  them and clears the rows' mark STALE (Z52).
 *
 * Three visits of a page, by two runs of VACUUM at least:
 *
 *	1	the newest versions of all STALE rows are visible to all: stamp the
 *		page LOOKING and list these rows.  A change of a key takes the stamp
 *		off again.
 *	2	when all soft indexes were swept of listed rows' old entries: pages
 *		still LOOKING are stamped with the next xid.
 *	3	when that xid is behind all snapshots, nobody can have an entry in mind
 *		that was there before the sweep: clear the marks.
 *
 * The sweep is one of nbtree's own bulk deletions.  It passes the address of
 * each TID in the locked leaf, and the entry is found around it.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/transam.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_sweep.h"

/* sweep if at least one page of so many is LOOKING */
#define SWEEP_MIN_FRACTION		50

struct ZSweep
{
	Relation	rel;
	/* rows to be swept, ascending; their pages are stamped LOOKING */
	ItemPointerData *tids;
	Size		ntids;
	Size		maxtids;
	Size		allocated;
	BlockNumber npages;
	/* standbys have been told to do without what left K up to this (Z54) */
	Fxid		told;
	/* pages with an entry that had to stay beside that of the newest version */
	HTAB	   *kept;
	/* the index being swept */
	Relation	index;
	int64		deleted;
};

ZSweep *
zheap_sweep_begin(Relation rel, Size max_bytes)
{
	ZSweep	   *sweep = palloc0(sizeof(ZSweep));

	sweep->rel = rel;
	sweep->maxtids = Max(max_bytes / sizeof(ItemPointerData),
						 MaxHeapTuplesPerPage);
	return sweep;
}

/* ----------------------------------------------------------------
 *	pages
 * ----------------------------------------------------------------
 */

/* what there is on a page that may hold STALE rows */
typedef struct StaleRows
{
	int			n;
	OffsetNumber off[MaxHeapTuplesPerPage];
	bool		bodiless;		/* line pointers in use without a header */
	bool		spilled;
} StaleRows;

static void
find_stale_rows(Page page, StaleRows *rows)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	Assert(ZPageMayHoldStale(page));
	rows->n = 0;
	rows->bodiless = rows->spilled = false;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (!ItemIdIsUsed(lp))
			continue;
		if (!ItemIdIsNormal(lp))
			rows->bodiless = true;
		if (ZItemIdIsSpilled(lp))
			rows->spilled = true;
		if (ItemIdIsNormal(lp) && zheap_page_row_is_stale(page, off))
			rows->off[rows->n++] = off;
	}
}

/* the xid that a page is stamped with, or InvalidFxid */
static Fxid
stamped_fxid(Page page)
{
	TransactionId stamp = ZPageStamp(page);
	Fxid		fxid;

	if (!TransactionIdIsNormal(stamp))
		return InvalidFxid;
	fxid = undo_log_fxid_from_xid(stamp);
	/* too old for its 32 bits: another sweep will do */
	return fxid > U64FromFullTransactionId(ReadNextFullTransactionId()) ?
		InvalidFxid : fxid;
}

/*
 * Is the newest version of a row visible to all?  Then its key is the only one
 * that is needed.  Raises *conflict for standbys, that lag behind.
 */
static bool
newest_is_settled(ZSweep *sweep, UndoReader *reader, const UndoHorizons *hz,
				  Buffer buffer, OffsetNumber off, Fxid *conflict)
{
	ZWalk		walk;
	ZXactStatus status;

	AssertPageLocked(buffer);
	zheap_walk_init(&walk, sweep->rel, reader, hz,
					BufferGetBlockNumber(buffer), off, NULL, NULL);
	if (zheap_walk_start(&walk, BufferGetPage(buffer)) != ZWALK_OWNED)
		return !ZHeaderIsEnded(&walk.hdr);
	if (ZHeaderIsEnded(&walk.hdr))
		return false;
	status = zheap_walk_status(&walk, buffer);
	return status == ZXACT_ALL_VISIBLE ||
		(status == ZXACT_COMMITTED &&
		 zheap_xact_slot_seen_by_all(sweep->rel, walk.fxid, hz, conflict));
}

static bool
all_newest_are_settled(ZSweep *sweep, const UndoHorizons *hz, Buffer buffer,
					   const StaleRows *rows, Fxid *conflict)
{
	UndoReader	reader;
	bool		settled = !rows->spilled;

	undo_record_reader_open(&reader, sweep->rel);
	for (int i = 0; i < rows->n && settled; i++)
		settled = newest_is_settled(sweep, &reader, hz, buffer, rows->off[i],
									conflict);
	undo_record_reader_close(&reader);
	return settled;
}

static void
stamp_page(ZSweep *sweep, Buffer buffer, TransactionId stamp, Fxid conflict)
{
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	Page		page = zheap_delta_begin(delta, sweep->rel, buffer);

	AssertPageExclusive(buffer);
	Assert(stamp == ZPAGE_STAMP_LOOKING || TransactionIdIsNormal(stamp));
	ZPageStamp(page) = stamp;
	zheap_delta_finish(delta, conflict);
	pfree(delta);
}

/* visit 3 */
static void
clear_marks(ZSweep *sweep, Buffer buffer, const StaleRows *rows,
			Fxid conflict)
{
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	Page		page = zheap_delta_begin(delta, sweep->rel, buffer);

	AssertPageExclusive(buffer);
	for (int i = 0; i < rows->n; i++)
	{
		char	   *tuple = (char *) page +
			ItemIdGetOffset(PageGetItemId(page, rows->off[i]));
		ZTupleHeader header;

		zheap_header_get(tuple, &header);
		header.flags2 &= ~ZH_STALE;
		zheap_header_put(tuple, &header);
	}
	ZPageStamp(page) = ZPAGE_STAMP_NONE;
	if (!rows->bodiless)
		ZPageGetOpaque(page)->flags &= ~ZPAGE_HAS_STALE;
	zheap_page_assert_sound(page, BufferGetBlockNumber(buffer), "clearing");
	zheap_delta_finish(delta, conflict);
	pfree(delta);
}

static bool
list_rows(ZSweep *sweep, BlockNumber block, const StaleRows *rows)
{
	Assert(rows->n > 0);
	Assert(sweep->ntids == 0 ||
		   ItemPointerGetBlockNumber(&sweep->tids[sweep->ntids - 1]) < block);
	if (sweep->ntids + rows->n > sweep->maxtids)
		return false;			/* next time */
	if (sweep->ntids + rows->n > sweep->allocated)
	{
		sweep->allocated = Min(Max(2 * sweep->allocated, 1024),
							   sweep->maxtids);
		sweep->tids = sweep->tids == NULL ?
			MemoryContextAllocHuge(CurrentMemoryContext, sweep->allocated *
								   sizeof(ItemPointerData)) :
			repalloc_huge(sweep->tids, sweep->allocated *
						  sizeof(ItemPointerData));
	}
	for (int i = 0; i < rows->n; i++)
		ItemPointerSet(&sweep->tids[sweep->ntids + i], block, rows->off[i]);
	sweep->ntids += rows->n;
	sweep->npages++;
	return true;
}

void
zheap_sweep_clear(ZSweep *sweep, Buffer buffer, const UndoHorizons *hz)
{
	Page		page = BufferGetPage(buffer);
	StaleRows	rows;
	Fxid		stamped;

	AssertPageExclusive(buffer);
	if (likely(!ZPageMayHoldStale(page)))
		return;
	find_stale_rows(page, &rows);
	stamped = stamped_fxid(page);
	if (rows.n == 0 ? !rows.bodiless : stamped != InvalidFxid &&
		zheap_xact_slot_seen_by_all(sweep->rel, stamped, hz, NULL))
		clear_marks(sweep, buffer, &rows, rows.n == 0 ? InvalidFxid : stamped);
}

void
zheap_sweep_list(ZSweep *sweep, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	UndoHorizons hz;
	StaleRows	rows;
	Fxid		conflict = InvalidFxid;

	AssertPageExclusive(buffer);
	if (likely(!ZPageMayHoldStale(page)) || stamped_fxid(page) != InvalidFxid)
		return;
	hz = undo_log_horizons();
	find_stale_rows(page, &rows);
	if (rows.n > 0 &&
		all_newest_are_settled(sweep, &hz, buffer, &rows, &conflict) &&
		list_rows(sweep, BufferGetBlockNumber(buffer), &rows))
	{
		stamp_page(sweep, buffer, ZPAGE_STAMP_LOOKING, conflict);
		sweep->told = Max(sweep->told, conflict);
	}
}

/* ----------------------------------------------------------------
 *	entries
 * ----------------------------------------------------------------
 */

/*
 * The entry around a TID that the index AM has shown, on a leaf that it has
 * locked for cleanup.  ERROR if there is none.
 */
static IndexTuple
entry_around(ItemPointer tid)
{
	char	   *p = (char *) tid;
	Page		leaf;
	OffsetNumber max;

	if (p < BufferBlocks || p >= BufferBlocks + (Size) NBuffers * BLCKSZ)
		elog(ERROR, "an index entry is not shown in its page");
	leaf = (Page) (BufferBlocks + (Size) (p - BufferBlocks) / BLCKSZ * BLCKSZ);
	max = PageGetMaxOffsetNumber(leaf);
	for (OffsetNumber off = P_FIRSTDATAKEY(BTPageGetOpaque(leaf)); off <= max;
		 off++)
	{
		ItemId		lp = PageGetItemId(leaf, off);
		char	   *item = (char *) PageGetItem(leaf, lp);

		if (p >= item && p + sizeof(ItemPointerData) <=
			item + ItemIdGetLength(lp))
			return (IndexTuple) item;
	}
	elog(ERROR, "an index entry is not shown where it is");
	return NULL;				/* keep compiler quiet */
}

static void
keep_page(ZSweep *sweep, BlockNumber block)
{
	Assert(BlockNumberIsValid(block));
	if (sweep->kept == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(BlockNumber);
		ctl.entrysize = sizeof(BlockNumber);
		ctl.hcxt = CurrentMemoryContext;
		sweep->kept = hash_create("zheap pages not swept", 64, &ctl,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	(void) hash_search(sweep->kept, &block, HASH_ENTER, NULL);
}

/* IndexBulkDeleteCallback: judge an entry under the lock of its leaf (Z50) */
static bool
is_garbage(ItemPointer tid, void *arg)
{
	ZSweep	   *sweep = arg;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	ZReadContext cx;
	IndexTuple	entry;
	Buffer		buffer;
	Fxid		conflict = InvalidFxid;
	bool		newest;
	bool		needed;

	Assert(sweep->index != NULL);
	if (bsearch(tid, sweep->tids, sweep->ntids, sizeof(ItemPointerData),
				zheap_keyed_compare_tids) == NULL)
		return false;
	entry = entry_around(tid);
	buffer = ReadBuffer(sweep->rel, block);
	zheap_visibility_begin(&cx, sweep->rel, NULL);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	needed = zheap_keyed_is_needed(&cx, sweep->index, entry, buffer,
								   BufferGetPage(buffer), block,
								   ItemPointerGetOffsetNumber(tid), &conflict,
								   &newest);
	UnlockReleaseBuffer(buffer);
	zheap_visibility_end(&cx);
	/* by a change since: the index AM's record has no conflict horizon */
	if (!needed && conflict > sweep->told)
		needed = true;
	if (!needed)
		sweep->deleted++;
	else if (!newest)
		keep_page(sweep, block);
	return !needed;
}

/* visit 2 */
static void
stamp_pages(ZSweep *sweep)
{
	TransactionId next = ReadNextTransactionId();
	BlockNumber last = InvalidBlockNumber;

	AssertNoPageLocked();
	for (Size i = 0; i < sweep->ntids; i++)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&sweep->tids[i]);
		Buffer		buffer;

		if (block == last)
			continue;
		last = block;
		vacuum_delay_point(false);
		if (sweep->kept != NULL &&
			hash_search(sweep->kept, &block, HASH_FIND, NULL) != NULL)
			continue;
		buffer = ReadBuffer(sweep->rel, block);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		if (ZPageStamp(BufferGetPage(buffer)) == ZPAGE_STAMP_LOOKING)
			stamp_page(sweep, buffer, next, InvalidFxid);
		UnlockReleaseBuffer(buffer);
	}
}

int64
zheap_sweep_indexes(ZSweep *sweep, IndexVacuumInfo *indexes, int nindexes)
{
	AssertNoPageLocked();
	if (sweep->npages == 0 ||
		(uint64) sweep->npages * SWEEP_MIN_FRACTION <
		RelationGetNumberOfBlocks(sweep->rel))
		return 0;
	for (int i = 0; i < nindexes; i++)
	{
		IndexBulkDeleteResult *stats;

		if (!zheap_keyed_is_soft_kind(sweep->rel, indexes[i].index))
			continue;
		UNDO_POINT("sweep");
		sweep->index = indexes[i].index;
		stats = index_bulk_delete(&indexes[i], NULL, is_garbage, sweep);
		if (stats != NULL)
			pfree(stats);
		UNDO_POINT("swept");
	}
	stamp_pages(sweep);
	return sweep->deleted;
}
