/*-------------------------------------------------------------------------
 *
 * zheap_sweep.c
 *	  Old entries of rows that changed their keys in place: VACUUM deletes
 *	  them and clears the rows' mark STALE (Z52).
 *
 * Three visits of a page, by two runs of VACUUM at least:
 *
 *	1	list its STALE rows.  Those whose newest version is visible to all get
 *		the mark SWEPT, and the page the stamp LOOKING.  A change of a row's
 *		key takes SWEPT off again.
 *	2	when all soft indexes were swept of listed rows' old entries: pages
 *		that are LOOKING are stamped with the next xid.
 *	3	when that xid is behind all snapshots, nobody can have an entry in mind
 *		that was there before the sweep: clear the marks of rows still SWEPT.
 *
 * Rows that are changed all the time keep their mark and lose their entries.
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
#include "zheap/soft/zheap_old_keys.h"
#include "zheap/soft/zheap_sweep.h"

/*
 * A sweep reads the indexes from end to end.  It is worth that if one row in so
 * many is to lose an entry, or one page its marks, ...
 */
#define SWEEP_MIN_FRACTION		50

/* ... or if there is an entry to delete for so many pages of the indexes */
#define SWEEP_PAGES_PER_ENTRY	4

/*
 * Versions of a row that a sweep may look at to find out whether an entry is
 * needed.
 */
#define SWEEP_BUDGET			UNDO_KNOB("sweep-budget", 100, 1, 100)

struct ZSweep
{
	Relation	rel;
	/* rows to be swept, ascending */
	ItemPointerData *tids;
	Size		ntids;
	Size		maxtids;
	Size		allocated;
	/* pages of them that are LOOKING */
	BlockNumber npages;
	/* entries of listed rows that are known to be needed; whether all are */
	int64		needed;
	bool		hopeful;
	/* standbys must be told to do without what left K up to this (Z54) */
	Fxid		conflict;
	/* rows with an entry that had to stay beside that of the newest version */
	HTAB	   *kept;
	/* the index being swept, and how many entries it keeps so */
	Relation	index;
	int64		left_here;
	/* by all sweeps */
	int64		left;
	int64		deleted;
};

ZSweep *
zheap_sweep_begin(Relation rel, Size max_bytes)
{
	ZSweep	   *sweep = palloc0(sizeof(ZSweep));

	sweep->rel = rel;
	sweep->maxtids = Max(max_bytes / sizeof(ItemPointerData),
						 2 * MaxHeapTuplesPerPage);
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
	bool		swept[MaxHeapTuplesPerPage];	/* is it marked so */
	int			nswept;
	bool		bodiless;		/* line pointers in use without a header */
} StaleRows;

static void
find_stale_rows(Page page, StaleRows *rows)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	Assert(ZPageMayHoldStale(page));
	rows->n = rows->nswept = 0;
	rows->bodiless = false;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (!ItemIdIsUsed(lp))
			continue;
		if (!ItemIdIsNormal(lp))
			rows->bodiless = true;
		else if (zheap_page_row_is_stale(page, off))
		{
			rows->swept[rows->n] = zheap_page_row_is_swept(page, off);
			rows->nswept += rows->swept[rows->n];
			rows->off[rows->n++] = off;
		}
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
 * How many versions of a row there are above the first that is visible to all;
 * 0: the newest is, and then its key is the only one that is needed.  -1: nobody
 * knows, or the row has ended.  Raises *conflict for standbys, that lag behind.
 */
static int
count_unsettled(ZSweep *sweep, UndoReader *reader, const UndoHorizons *hz,
				Buffer buffer, OffsetNumber off, Fxid *conflict)
{
	ZWalk		walk;
	ZWalkState	state;
	int			n = 0;

	AssertPageLocked(buffer);
	zheap_walk_init(&walk, sweep->rel, reader, hz,
					BufferGetBlockNumber(buffer), off, NULL, NULL);
	walk.budget = SWEEP_BUDGET;
	state = zheap_walk_start(&walk, BufferGetPage(buffer));
	if (ZHeaderIsEnded(&walk.hdr))
		return -1;
	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(&walk, buffer);

		if (status == ZXACT_ALL_VISIBLE ||
			(status == ZXACT_COMMITTED &&
			 zheap_xact_slot_seen_by_all(sweep->rel, walk.fxid, hz,
										 conflict)))
			return n;
		switch (zheap_walk_find(&walk, status == ZXACT_ABORTED))
		{
			case ZFIND_FOUND:
				break;
			case ZFIND_OTHER:
				continue;
			case ZFIND_GONE:
				return n;
			default:
				return -1;
		}
		n++;
		if (ZUndoIsInsert(&walk.undo))
			return n;
		state = zheap_walk_step_back(&walk);
	}
	return state == ZWALK_SETTLED ? n : -1;
}

/*
 * Visit 3, or only take the page's stamp off; and its flag, if nothing needs it
 * any more.
 */
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

		if (!rows->swept[i])
			continue;
		zheap_header_get(tuple, &header);
		header.flags2 &= ~(ZH_STALE | ZH_SWEPT);
		zheap_header_put(tuple, &header);
	}
	ZPageStamp(page) = ZPAGE_STAMP_NONE;
	if (!rows->bodiless && rows->n == rows->nswept)
		ZPageGetOpaque(page)->flags &= ~ZPAGE_HAS_STALE;
	zheap_page_assert_sound(page, BufferGetBlockNumber(buffer), "clearing");
	zheap_delta_finish(delta, rows->nswept > 0 ? conflict : InvalidFxid);
	pfree(delta);
}

/* visits 1 and 2: change marks SWEPT, and stamp the page */
static void
set_marks(ZSweep *sweep, Buffer buffer, const OffsetNumber *offsets,
		  int n, bool swept, TransactionId stamp)
{
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	Page		page = zheap_delta_begin(delta, sweep->rel, buffer);

	AssertPageExclusive(buffer);
	Assert(stamp == ZPAGE_STAMP_LOOKING || TransactionIdIsNormal(stamp));
	for (int i = 0; i < n; i++)
	{
		char	   *tuple = (char *) page +
			ItemIdGetOffset(PageGetItemId(page, offsets[i]));
		ZTupleHeader header;

		zheap_header_get(tuple, &header);
		Assert(header.flags2 & ZH_STALE);
		header.flags2 = (header.flags2 & ~ZH_SWEPT) | (swept ? ZH_SWEPT : 0);
		zheap_header_put(tuple, &header);
	}
	ZPageStamp(page) = stamp;
	(void) zheap_delta_finish(delta, InvalidFxid);
	pfree(delta);
}

static void
list_row(ZSweep *sweep, BlockNumber block, OffsetNumber off)
{
	Assert(sweep->ntids < sweep->maxtids);
	if (sweep->ntids == sweep->allocated)
	{
		sweep->allocated = Min(Max(2 * sweep->allocated, 1024),
							   sweep->maxtids);
		sweep->tids = sweep->tids == NULL ?
			MemoryContextAllocHuge(CurrentMemoryContext, sweep->allocated *
								   sizeof(ItemPointerData)) :
			repalloc_huge(sweep->tids, sweep->allocated *
						  sizeof(ItemPointerData));
	}
	ItemPointerSet(&sweep->tids[sweep->ntids], block, off);
	sweep->ntids++;
	Assert(sweep->ntids < 2 ||
		   zheap_keyed_compare_tids(&sweep->tids[sweep->ntids - 2],
									&sweep->tids[sweep->ntids - 1]) < 0);
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
		clear_marks(sweep, buffer, &rows, stamped);
}

bool
zheap_sweep_is_full(ZSweep *sweep)
{
	return sweep->ntids + MaxHeapTuplesPerPage > sweep->maxtids;
}

void
zheap_sweep_list(ZSweep *sweep, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	BlockNumber block = BufferGetBlockNumber(buffer);
	UndoReader	reader;
	UndoHorizons hz;
	StaleRows	rows;
	OffsetNumber chosen[MaxHeapTuplesPerPage];
	int			nchosen = 0;
	bool		pending;

	AssertPageExclusive(buffer);
	Assert(!zheap_sweep_is_full(sweep));
	if (likely(!ZPageMayHoldStale(page)))
		return;
	hz = undo_log_horizons();
	find_stale_rows(page, &rows);
	/* those that are SWEPT then have no old entries any more */
	pending = stamped_fxid(page) != InvalidFxid;
	undo_record_reader_open(&reader, sweep->rel);
	for (int i = 0; i < rows.n; i++)
	{
		int			n;

		if (pending && rows.swept[i])
			continue;
		n = count_unsettled(sweep, &reader, &hz, buffer, rows.off[i],
							&sweep->conflict);
		/* ended ones too: the end may be rolled back */
		list_row(sweep, block, rows.off[i]);
		sweep->needed += Max(n, 0);
		sweep->hopeful |= n >= 0;
		if (n == 0 && !pending && !rows.swept[i])
			chosen[nchosen++] = rows.off[i];
	}
	undo_record_reader_close(&reader);
	if (pending || rows.nswept + nchosen == 0)
		return;
	sweep->npages++;
	set_marks(sweep, buffer, chosen, nchosen, true, ZPAGE_STAMP_LOOKING);
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
keep_row(ZSweep *sweep, const ItemPointerData *tid)
{
	Assert(ItemPointerIsValid(tid));
	if (sweep->kept == NULL)
	{
		HASHCTL		ctl;

		memset(&ctl, 0, sizeof(ctl));
		ctl.keysize = sizeof(ItemPointerData);
		ctl.entrysize = sizeof(ItemPointerData);
		ctl.hcxt = CurrentMemoryContext;
		sweep->kept = hash_create("zheap rows not swept", 64, &ctl,
								  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	}
	(void) hash_search(sweep->kept, tid, HASH_ENTER, NULL);
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
	needed = zheap_keyed_is_needed_within(SWEEP_BUDGET, &cx, sweep->index,
										  entry, buffer,
										  BufferGetPage(buffer), block,
										  ItemPointerGetOffsetNumber(tid),
										  &conflict, &newest);
	UnlockReleaseBuffer(buffer);
	zheap_visibility_end(&cx);
	/* by a change since: the index AM's record has no conflict horizon */
	if (!needed && conflict > sweep->conflict)
		needed = true;
	if (!needed)
		sweep->deleted++;
	else if (!newest)
	{
		sweep->left_here++;
		keep_row(sweep, tid);
	}
	return !needed;
}

/* visit 2 of a page, whose listed rows are tids */
static void
stamp_page(ZSweep *sweep, const ItemPointerData *tids, int n,
		   TransactionId stamp)
{
	Buffer		buffer = ReadBuffer(sweep->rel,
									ItemPointerGetBlockNumber(&tids[0]));
	OffsetNumber kept[MaxHeapTuplesPerPage];
	int			nkept = 0;
	Page		page;

	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	if (ZPageStamp(page) == ZPAGE_STAMP_LOOKING)
	{
		for (int i = 0; i < n && sweep->kept != NULL; i++)
		{
			OffsetNumber off = ItemPointerGetOffsetNumber(&tids[i]);

			if (hash_search(sweep->kept, &tids[i], HASH_FIND, NULL) != NULL &&
				off <= PageGetMaxOffsetNumber(page) &&
				zheap_page_row_is_swept(page, off))
				kept[nkept++] = off;
		}
		set_marks(sweep, buffer, kept, nkept, false, stamp);
	}
	UnlockReleaseBuffer(buffer);
}

/* visit 2 */
static void
stamp_pages(ZSweep *sweep)
{
	TransactionId next = ReadNextTransactionId();
	Size		end;

	AssertNoPageLocked();
	for (Size i = 0; i < sweep->ntids; i = end)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&sweep->tids[i]);

		for (end = i + 1; end < sweep->ntids; end++)
		{
			if (ItemPointerGetBlockNumber(&sweep->tids[end]) != block)
				break;
		}
		vacuum_delay_point(false);
		stamp_page(sweep, &sweep->tids[i], end - i, next);
	}
}

/* ----------------------------------------------------------------
 *	the whole
 * ----------------------------------------------------------------
 */

/*
 * What is there to gain?  Marks of pages, and entries.  Of these it is known how
 * many have been made, or, if that was lost, that each listed row has one;
 * there is nothing to gain where all are needed, or so many that it takes too
 * long to find out.
 */
static bool
is_worth_it(ZSweep *sweep, IndexVacuumInfo *indexes, int nindexes)
{
	int64		entries = Max(zheap_old_keys_count(sweep->rel) -
							  sweep->needed, 0);
	double		rows = Max(sweep->rel->rd_rel->reltuples, 0);
	BlockNumber pages = 0;

	if ((uint64) sweep->npages * SWEEP_MIN_FRACTION >=
		RelationGetNumberOfBlocks(sweep->rel))
		return true;
	if (!sweep->hopeful)
		return false;
	for (int i = 0; i < nindexes; i++)
	{
		if (zheap_keyed_is_soft_kind(sweep->rel, indexes[i].index))
			pages += RelationGetNumberOfBlocks(indexes[i].index);
	}
	entries = Max(entries, (int64) sweep->ntids - sweep->needed);
	return entries > 0 &&
		((double) entries * SWEEP_MIN_FRACTION >= rows ||
		 entries * SWEEP_PAGES_PER_ENTRY >= pages);
}

/* what nbtree says of a sweep goes to *stats, or to nobody, but its own pages */
static void
sweep_index(ZSweep *sweep, IndexVacuumInfo *info,
			IndexBulkDeleteResult **stats)
{
	IndexBulkDeleteResult *result;

	UNDO_POINT("sweep");
	sweep->index = info->index;
	sweep->left_here = 0;
	result = index_bulk_delete(info, stats != NULL ? *stats : NULL,
							   is_garbage, sweep);
	if (stats != NULL)
		*stats = result;
	else if (result != NULL)
	{
		/* so that it remembers pages that it has given up */
		result = index_vacuum_cleanup(info, result);
		if (result != NULL)
			pfree(result);
	}
	sweep->left = Max(sweep->left, sweep->left_here);
	UNDO_POINT("swept");
}

int64
zheap_sweep_indexes(ZSweep *sweep, bool always, IndexVacuumInfo *indexes,
					IndexBulkDeleteResult **stats, int nindexes)
{
	int64		before = sweep->deleted;

	AssertNoPageLocked();
	if (sweep->ntids > 0 &&
		(always || is_worth_it(sweep, indexes, nindexes)))
	{
		if (sweep->conflict != InvalidFxid)
			zheap_delta_log_conflict(sweep->rel,
									 ItemPointerGetBlockNumber(&sweep->tids[0]),
									 sweep->conflict);
		for (int i = 0; i < nindexes; i++)
		{
			if (zheap_keyed_is_soft_kind(sweep->rel, indexes[i].index))
				sweep_index(sweep, &indexes[i],
							stats != NULL ? &stats[i] : NULL);
		}
		stamp_pages(sweep);
	}
	/* what isn't worth it yet is no reason to come again before there is more */
	else if (sweep->ntids > 0)
		sweep->left = Max(sweep->left, sweep->hopeful ? sweep->needed :
						  zheap_old_keys_count(sweep->rel));
	if (sweep->kept != NULL)
		hash_destroy(sweep->kept);
	sweep->kept = NULL;
	sweep->ntids = 0;
	sweep->npages = 0;
	sweep->needed = 0;
	sweep->hopeful = false;
	return sweep->deleted - before;
}

int64
zheap_sweep_left(ZSweep *sweep)
{
	return sweep->left;
}
