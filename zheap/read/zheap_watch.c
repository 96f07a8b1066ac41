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
#include "catalog/pg_am_d.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "zheap/history/zheap_keyed.h"
#include "zheap/read/zheap_watch.h"

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

bool
zheap_watch_accepts(ZWatchedFetch *fetch, ItemPointer tid, bool *call_again,
					const ZVersion *v)
{
	IndexScanDesc scan = calling_scan(fetch, tid, call_again);
	BTScanOpaque so;
	BTScanPosItem *item;

	if (fetch->scan != scan)
	{
		if (scan == NULL ||
			zheap_keyed_is_soft_kind(fetch->base.rel, scan->indexRelation))
			elog(ERROR, "scan of an index of \"%s\" isn't watched",
				 RelationGetRelationName(fetch->base.rel));
	}
	if (fetch->scan == NULL)
		return true;

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
	return zheap_keyed_compare(fetch->base.rel, scan->indexRelation,
							   (IndexTuple) (so->currTuples +
											 item->tupleOffset),
							   v->data, v->len, true) == ZKEY_SAME;
}
