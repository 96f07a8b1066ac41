/*-------------------------------------------------------------------------
 *
 * zheap_watch.c
 *	  Scans of soft indexes: keep the entries that they read, and compare the
 *	  rows fetched with them (Z49).
 *
 * Core fetches a row by nothing but the TID of its entry.  nbtree copies the
 * entries of a leaf as a whole only for index-only scans, into memory that it
 * has for that purpose; whether it does depends on that memory being there.
 * So for each scan of a soft index of a zheap table it is allocated before the
 * scan begins to read, where the scan is told its keys: by a function that
 * takes the place of btrescan() in the index's relcache entry, whose table of
 * functions is its own copy.  Tables in which no key has changed in place are
 * spared (Z55).
 *
 * What this relies on, and what happens if it doesn't hold:
 *	- index_beginscan() calls zheap_index_fetch_begin() before amrescan.
 *	- index_fetch_heap() passes addresses within the IndexScanDesc, by which
 *	  the scan is known.
 *	- BTScanOpaqueData as in nbtree.h.
 * A scan that isn't watched though it should be ends with an ERROR as soon as
 * it finds a STALE row; the entry kept must have the TID that is fetched.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/pg_am_d.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_watch.h"

/* fewer old entries of a leaf aren't worth its lock and WAL */
#define MIN_OLD					UNDO_KNOB("min-old-entries", 4, 1, 4)

/* of entries that turn out to be needed, so many are not asked for */
#define MAX_UNASKED				UNDO_KNOB("old-unasked", 63, 0, 63)

/* versions of a row that are looked at for that */
#define ASK_BUDGET				UNDO_KNOB("ask-budget", 20, 1, 20)

/*
 * For the planner, which only wants to know about where an index ends; and
 * entries that it passes.
 */
#define END_BUDGET				4
#define END_MAX_PASSED			UNDO_KNOB("end-passed", 100, 1, 100)

/* tables whose indexes were seen to */
#define REMEMBERED				64

/*
 * Since a relation has changed, indexes may have lost, or not yet have, what
 * was done to them.
 */
static struct
{
	Oid			relid;
	uint64		changes;
}			seen_to[REMEMBERED];

/* of all zheap tables */
static const TableAmRoutine *zheap_routine = NULL;

/* amrescan of a btree */
static void
watch_rescan(IndexScanDesc scan, ScanKey keys, int nkeys, ScanKey orderbys,
			 int norderbys)
{
	ZWatchedFetch *fetch = (ZWatchedFetch *) scan->xs_heapfetch;
	Relation	rel = scan->heapRelation;

	/* the table may have another access method by now */
	if (rel != NULL && fetch != NULL && fetch->scan == NULL &&
		rel->rd_tableam == zheap_routine &&
		zheap_keyed_is_soft_kind(rel, scan->indexRelation))
	{
		BTScanOpaque so = (BTScanOpaque) scan->opaque;

		/* as btrescan() does for an index-only scan; btendscan() frees it */
		if (so->currTuples == NULL)
		{
			so->currTuples = MemoryContextAlloc(GetMemoryChunkContext(so),
												BLCKSZ * 2);
			so->markTuples = so->currTuples + BLCKSZ;
		}
		fetch->scan = scan;
	}
	btrescan(scan, keys, nkeys, orderbys, norderbys);
}

void
zheap_watch_indexes(Relation rel)
{
	Oid			relid = RelationGetRelid(rel);
	uint64		before;
	List	   *oids;
	ListCell   *lc;

	Assert(InterruptHoldoffCount == 0);
	AssertNoPageLocked();
	if (seen_to[relid % REMEMBERED].relid == relid &&
		seen_to[relid % REMEMBERED].changes == zheap_keyed_changes)
		return;
	zheap_routine = rel->rd_tableam;
	before = zheap_keyed_changes;
	oids = RelationGetIndexList(rel);
	foreach(lc, oids)
	{
		Relation	index = RelationIdGetRelation(lfirst_oid(lc));

		if (index == NULL)
			continue;
		if (index->rd_rel->relam == BTREE_AM_OID &&
			index->rd_indam->amrescan == btrescan &&
			zheap_keyed_is_soft_kind(rel, index))
			index->rd_indam->amrescan = watch_rescan;
		RelationClose(index);
	}
	list_free(oids);
	seen_to[relid % REMEMBERED].relid = relid;
	seen_to[relid % REMEMBERED].changes = before;
}

/* the scan whose index_fetch_heap() has called, or NULL */
static IndexScanDesc
calling_scan(ZWatchedFetch *fetch, ItemPointer tid, bool *call_again)
{
	IndexScanDesc scan;

	if ((char *) call_again - (char *) tid !=
		(ptrdiff_t) offsetof(IndexScanDescData, xs_heap_continue) -
		(ptrdiff_t) offsetof(IndexScanDescData, xs_heaptid))
		return NULL;
	scan = (IndexScanDesc) ((char *) tid -
							offsetof(IndexScanDescData, xs_heaptid));
	return scan->xs_heapfetch == &fetch->base ? scan : NULL;
}

ZKeyMatch
zheap_watch_compare(ZWatchedFetch *fetch, ItemPointer tid, bool *call_again,
					const char *tuple, uint16 len, bool may_fetch)
{
	IndexScanDesc scan = calling_scan(fetch, tid, call_again);
	BTScanOpaque so;
	BTScanPosItem *item;
	ZKeyMatch	match;

	Assert(len >= ZHEAP_HEADER_SIZE);
	if (fetch->scan != scan)
	{
		if (scan == NULL ||
			(scan != fetch->hard &&
			 zheap_keyed_is_soft_kind(fetch->base.rel, scan->indexRelation)))
			elog(ERROR, "scan of an index of \"%s\" isn't watched",
				 RelationGetRelationName(fetch->base.rel));
		fetch->hard = scan;
	}
	if (fetch->scan == NULL)
		return ZKEY_SAME;

	so = (BTScanOpaque) scan->opaque;
	if (!BTScanPosIsValid(so->currPos) || so->currTuples == NULL ||
		so->currPos.itemIndex < so->currPos.firstItem ||
		so->currPos.itemIndex > so->currPos.lastItem)
		elog(ERROR, "scan of index \"%s\" has not kept its entries",
			 RelationGetRelationName(scan->indexRelation));
	item = &so->currPos.items[so->currPos.itemIndex];
	if (!ItemPointerEquals(&item->heapTid, tid))
		elog(ERROR, "scan of index \"%s\" stands at row (%u,%u), not (%u,%u)",
			 RelationGetRelationName(scan->indexRelation),
			 ItemPointerGetBlockNumber(&item->heapTid),
			 ItemPointerGetOffsetNumber(&item->heapTid),
			 ItemPointerGetBlockNumber(tid), ItemPointerGetOffsetNumber(tid));
	match = zheap_keyed_compare(fetch->base.rel, scan->indexRelation,
								(IndexTuple) (so->currTuples +
											  item->tupleOffset),
								tuple, len, may_fetch);
	if (match == ZKEY_OTHER)
		fetch->removed++;
	return match;
}

uint64
zheap_watch_removed(IndexScanDesc scan)
{
	Relation	rel = scan->heapRelation;

	Assert(scan->heapRelation != NULL);
	if (scan->xs_heapfetch == NULL || zheap_routine == NULL ||
		rel->rd_tableam != zheap_routine)
		return 0;
	return ((ZWatchedFetch *) scan->xs_heapfetch)->removed;
}

/* ----------------------------------------------------------------
 *	old entries
 * ----------------------------------------------------------------
 */

/* does nobody need the entry that the scan stands at (Z50) */
static bool
is_old(ZWatchedFetch *fetch, Buffer buffer, const ItemPointerData *plain,
	   int budget)
{
	BTScanOpaque so = (BTScanOpaque) fetch->scan->opaque;
	BTScanPosItem *item = &so->currPos.items[so->currPos.itemIndex];
	BlockNumber block = ItemPointerGetBlockNumber(plain);
	OffsetNumber off = ItemPointerGetOffsetNumber(plain);
	Page		page = BufferGetPage(buffer);
	Fxid		conflict = InvalidFxid;
	ZReadContext cx;
	bool		newest;
	bool		old = false;

	AssertNoPageLocked();
	zheap_visibility_begin(&cx, fetch->base.rel, NULL);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (off <= PageGetMaxOffsetNumber(page) &&
		ItemIdIsUsed(PageGetItemId(page, off)))
		old = zheap_newest_dead_to_all(&cx, buffer, page, block, off) ||
			!zheap_keyed_is_needed_within(budget, &cx,
										  fetch->scan->indexRelation,
										  (IndexTuple) (so->currTuples +
														item->tupleOffset),
										  buffer, page, block, off, &conflict,
										  &newest);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);
	return old;
}

/*
 * Ask whether an entry is old.  Under an old snapshot the answer is no for many
 * in a row, and takes a look into undo.
 */
static bool
ask_whether_old(ZWatchedFetch *fetch, Buffer buffer,
				const ItemPointerData *plain)
{
	if (fetch->unasked > 0)
	{
		fetch->unasked--;
		return false;
	}
	if (is_old(fetch, buffer, plain, ASK_BUDGET))
	{
		fetch->interval = 0;
		return true;
	}
	fetch->interval = Min(2 * fetch->interval + 1, MAX_UNASKED);
	fetch->unasked = fetch->interval;
	return false;
}

void
zheap_watch_note_old(ZWatchedFetch *fetch, Buffer buffer,
					 const ItemPointerData *plain, bool settled)
{
	BlockNumber leaf;

	Assert(zheap_tid_tag(plain) == 0);
	if (fetch->scan == NULL || RecoveryInProgress() ||
		!(settled || ask_whether_old(fetch, buffer, plain)))
		return;
	AssertNoPageLocked();
	leaf = ((BTScanOpaque) fetch->scan->opaque)->currPos.currPage;
	if (fetch->nold > 0 &&
		(leaf != fetch->leaf || fetch->nold == ZWATCH_MAX_OLD))
		zheap_watch_delete_old(fetch);
	if (fetch->old == NULL)
		fetch->old = MemoryContextAlloc(GetMemoryChunkContext(fetch),
										ZWATCH_MAX_OLD *
										sizeof(ItemPointerData));
	Assert(fetch->nold < ZWATCH_MAX_OLD);
	fetch->leaf = leaf;
	fetch->old[fetch->nold++] = *plain;
}

bool
zheap_watch_is_end(ZWatchedFetch *fetch, Buffer buffer,
				   const ItemPointerData *plain)
{
	Assert(zheap_tid_tag(plain) == 0);
	AssertNoPageLocked();
	return fetch->scan != NULL &&
		(fetch->removed > END_MAX_PASSED ||
		 !is_old(fetch, buffer, plain, END_BUDGET));
}

/* all entries on a leaf of the rows noted, whatever their key */
static void
list_entries(ZWatchedFetch *fetch, Page leaf, TM_IndexDeleteOp *op)
{
	OffsetNumber max = PageGetMaxOffsetNumber(leaf);

	for (OffsetNumber off = P_FIRSTDATAKEY(BTPageGetOpaque(leaf)); off <= max;
		 off++)
	{
		IndexTuple	item = (IndexTuple) PageGetItem(leaf,
													PageGetItemId(leaf, off));
		int			n = BTreeTupleIsPosting(item) ?
			BTreeTupleGetNPosting(item) : 1;

		for (int i = 0; i < n; i++)
		{
			ItemPointer tid = BTreeTupleIsPosting(item) ?
				BTreeTupleGetPostingN(item, i) : &item->t_tid;
			TM_IndexStatus *status = &op->status[op->ndeltids];

			if (bsearch(tid, fetch->old, fetch->nold, sizeof(ItemPointerData),
						zheap_keyed_compare_tids) == NULL)
				continue;
			Assert(op->ndeltids < MaxTIDsPerBTreePage);
			op->deltids[op->ndeltids].tid = *tid;
			op->deltids[op->ndeltids].id = op->ndeltids;
			status->idxoffnum = off;
			status->knowndeletable = false;
			status->promising = true;
			status->freespace = 1;
			op->ndeltids++;
		}
	}
}

/*
 * Each entry is judged anew with the leaf locked, by
 * zheap_index_delete_tuples().  A leaf that somebody else has locked is left as
 * it is.
 */
void
zheap_watch_delete_old(ZWatchedFetch *fetch)
{
	Relation	index;
	Buffer		buffer;
	Page		page;
	TM_IndexDeleteOp op;

	Assert(fetch->nold <= ZWATCH_MAX_OLD);
	if (fetch->nold < MIN_OLD)
	{
		fetch->nold = 0;
		return;
	}
	AssertNoPageLocked();
	index = fetch->scan->indexRelation;
	qsort(fetch->old, fetch->nold, sizeof(ItemPointerData),
		  zheap_keyed_compare_tids);
	buffer = ReadBuffer(index, fetch->leaf);
	if (ConditionalLockBuffer(buffer))
	{
		page = BufferGetPage(buffer);
		_bt_checkpage(index, buffer);
		if (P_ISLEAF(BTPageGetOpaque(page)) &&
			!P_IGNORE(BTPageGetOpaque(page)))
		{
			memset(&op, 0, sizeof(op));
			op.irel = index;
			op.iblknum = fetch->leaf;
			/* so that there may be nothing to delete; no limits */
			op.bottomup = true;
			op.bottomupfreespace = BLCKSZ;
			op.deltids = palloc(MaxTIDsPerBTreePage * sizeof(TM_IndexDelete));
			op.status = palloc(MaxTIDsPerBTreePage * sizeof(TM_IndexStatus));
			AssertPageExclusive(buffer);
			list_entries(fetch, page, &op);
			if (op.ndeltids > 0)
				_bt_delitems_delete_check(index, buffer, fetch->base.rel, &op);
			pfree(op.deltids);
			pfree(op.status);
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buffer);
	fetch->nold = 0;
}
