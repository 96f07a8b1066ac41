/*-------------------------------------------------------------------------
 *
 * zheap_index_delete.c
 *	  Which entries of an index may go: asked by index AMs that want room on a
 *	  page, or whose scans were told that entries are dead.
 *
 * An index page is locked meanwhile.  So functions here lock one table page,
 * share, and under it undo pages; they never wait for a transaction and change
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/nbtree.h"
#include "common/pg_prng.h"
#include "executor/instrument.h"
#include "port/pg_bitutils.h"
#include "storage/bufmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/read/zheap_read.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_old_keys.h"

/* pages that one call of bottom-up deletion may look at, or read from disk */
#define BOTTOMUP_MAX_BLOCKS		UNDO_KNOB("bottomup-blocks", 6, 1, 6)

/*
 * In a soft index it looks at as many as this for each entry found, and for
 * none.
 */
#define SOFT_BLOCKS_PER_ENTRY	UNDO_KNOB("soft-blocks-per-entry", 16, 1, 16)
#define SOFT_BLOCKS_FOR_NONE	UNDO_KNOB("soft-blocks-for-none", 32, 1, 32)

/* up to this, numbers of promising entries are as good as each other */
#define ALIKE					3

/* entries of an index page that name rows of one table page */
typedef struct EntryGroup
{
	BlockNumber block;
	int			first;			/* in the sorted array of entries */
	int			n;
	int			promising;		/* so many does the index AM expect to be dead */
	int			noted;			/* so many have been noted as old */
} EntryGroup;

/* by TID; index pages have hundreds */
static int
compare_entries(const void *a, const void *b)
{
	const ItemPointerData *ta = &((const TM_IndexDelete *) a)->tid;
	const ItemPointerData *tb = &((const TM_IndexDelete *) b)->tid;
	uint64		ka = (uint64) BlockIdGetBlockNumber(&ta->ip_blkid) << 16 |
		ta->ip_posid;
	uint64		kb = (uint64) BlockIdGetBlockNumber(&tb->ip_blkid) << 16 |
		tb->ip_posid;

	return ka < kb ? -1 : ka > kb;
}

/*
 * Pages where most is to be expected come first: what was noted, then what the
 * index AM promises.  Small differences of that don't count: then it is the
 * lower block from *arg on, and after the last one the first.
 */
static int
compare_groups(const void *a, const void *b, void *arg)
{
	const EntryGroup *ga = a;
	const EntryGroup *gb = b;
	BlockNumber start = *(BlockNumber *) arg;
	int			la = pg_leftmost_one_pos32(ga->promising | ALIKE);
	int			lb = pg_leftmost_one_pos32(gb->promising | ALIKE);

	if (ga->noted != gb->noted)
		return ga->noted > gb->noted ? -1 : 1;
	if (la != lb)
		return la > lb ? -1 : 1;
	la = pg_leftmost_one_pos32(ga->n);
	lb = pg_leftmost_one_pos32(gb->n);
	if (la != lb)
		return la > lb ? -1 : 1;
	return ga->block - start < gb->block - start ? -1 : 1;
}

/*
 * Sort the entries by TID and list the table pages; returns their number.
 * leaf is NULL if the index isn't soft.
 */
static int
group_entries(TM_IndexDeleteOp *delstate, Page leaf, EntryGroup *groups)
{
	int			ngroups = 0;
	OffsetNumber at = InvalidOffsetNumber;
	uint32		key = 0;

	Assert(delstate->ndeltids > 0);
	qsort(delstate->deltids, delstate->ndeltids, sizeof(TM_IndexDelete),
		  compare_entries);
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		TM_IndexDelete *entry = &delstate->deltids[i];
		BlockNumber block = ItemPointerGetBlockNumber(&entry->tid);

		if (ngroups == 0 || groups[ngroups - 1].block != block)
		{
			groups[ngroups].block = block;
			groups[ngroups].first = i;
			groups[ngroups].n = 0;
			groups[ngroups].promising = 0;
			groups[ngroups].noted = 0;
			ngroups++;
		}
		groups[ngroups - 1].n++;
		if (delstate->status[entry->id].promising)
			groups[ngroups - 1].promising++;
		if (leaf == NULL || !delstate->bottomup)
			continue;
		if (at != delstate->status[entry->id].idxoffnum)
		{
			at = delstate->status[entry->id].idxoffnum;
			key = zheap_old_keys_hash(delstate->irel, (IndexTuple)
									  PageGetItem(leaf, PageGetItemId(leaf, at)));
		}
		if (zheap_old_keys_noted(key, &entry->tid))
			groups[ngroups - 1].noted++;
	}
	return ngroups;
}

/*
 * Is the entry at an offset of the leaf one that its row, which lives, has had
 * but that nobody needs any more (Z50)?  leaf is NULL if the index isn't soft.
 */
static bool
is_old_entry(ZReadContext *cx, Relation index, Page leaf,
			 OffsetNumber entryoff, Buffer buffer, Page page,
			 BlockNumber block, OffsetNumber off, Fxid *conflict)
{
	bool		newest;

	Assert(leaf == NULL || P_ISLEAF(BTPageGetOpaque(leaf)));
	return leaf != NULL && ZPageMayHoldStale(page) &&
		!zheap_keyed_is_needed(cx, index,
							   (IndexTuple) PageGetItem(leaf,
														PageGetItemId(leaf,
																	  entryoff)),
							   buffer, page, block, off, conflict, &newest);
}

/*
 * One table page: find out which more of these entries are dead to everybody;
 * returns their number, and in *freed what deleting them will free in the
 * index (not each frees something: many may share a posting list).  *conflict
 * rises to the newest transaction that ended one of the rows, of those the
 * index AM vouches for too.  What has no body any more, or was ended below
 * all_visible_before, had its horizon logged when that came about (Z27, U3).
 */
static int
judge_entries(ZReadContext *cx, Buffer buffer, TM_IndexDeleteOp *delstate,
			  Page leaf, const TM_IndexDelete *entries, int n, int *freed,
			  Fxid *conflict)
{
	BlockNumber block = BufferGetBlockNumber(buffer);
	Page		page = BufferGetPage(buffer);
	int			found = 0;

	Assert(n > 0);
	*freed = 0;
	zheap_visibility_resample(cx);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	for (int i = 0; i < n; i++)
	{
		TM_IndexStatus *status = &delstate->status[entries[i].id];
		OffsetNumber off = zheap_tid_offset(&entries[i].tid);
		ZTop		top;

		if (!zheap_index_fetch_has_row(cx->rel, block, page, off))
			continue;
		if (!status->knowndeletable)
		{
			if (!zheap_newest_dead_to_all(cx, buffer, page, block, off) &&
				!is_old_entry(cx, delstate->irel, leaf, status->idxoffnum,
							  buffer, page, block, off, conflict))
				continue;
			status->knowndeletable = true;
			*freed += status->freespace;
			found++;
		}

		/*
		 * spilled: dead to snapshots that are younger than the spilling
		 * transaction
		 */
		if (ZItemIdIsSpilled(PageGetItemId(page, off)) &&
			(ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) &&
			ZXactSlotFxid(ZPageGetSpill(page)) >= cx->hz.all_visible_before)
			*conflict = Max(*conflict, ZXactSlotFxid(ZPageGetSpill(page)));
		if (!ItemIdIsNormal(PageGetItemId(page, off)))
			continue;
		zheap_newest_version(cx, buffer, page, block, off, &top);
		if (top.exists && top.ended && top.writer > *conflict)
			*conflict = top.writer;
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return found;
}

/* so far of a bottom-up deletion */
typedef struct Progress
{
	int			blocks;			/* looked at */
	int64		read;			/* of these, from disk */
	int			found_last;		/* entries found by the last one */
	int			found;			/* by all */
	int			freed;
} Progress;

static bool
another_block_is_worth_it(const Progress *p, bool soft, bool noted, int wanted)
{
	if (p->freed >= wanted && !noted)
		return false;
	if (soft)
		return p->read < BOTTOMUP_MAX_BLOCKS &&
			p->blocks < SOFT_BLOCKS_FOR_NONE +
			p->found * SOFT_BLOCKS_PER_ENTRY;
	return p->blocks < BOTTOMUP_MAX_BLOCKS &&
		(p->blocks < 2 || p->found_last > 0);
}

/*
 * Simple deletion: the index AM vouches for some entries (all_dead); others of
 * the same table pages are looked at by the way.
 *
 * Bottom-up deletion: an index page is full.  Rows that moved without changing
 * this index's columns may have left entries that nobody needs.  Look where
 * the index AM expects them, until enough is found or a second page has none
 * (the first one often has the newest versions).  In a soft index changed
 * rows have left others, and the index AM expects none: where most keys are
 * different, each entry is of another page, and those of the rows that changed
 * are anywhere.  There those come first that were noted as old, as many as there
 * are; then it goes on while enough are found to pay for the pages, each time
 * from another one, so as not to begin with what was cleaned last.
 * The entries of pages visited are what comes back in deltids, or none if
 * none of them can be deleted.
 *
 * The index page is locked all along.
 */
TransactionId
zheap_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	int			nentries = delstate->ndeltids;
	TM_IndexDelete *sorted;
	EntryGroup *groups;
	Buffer		buffer = InvalidBuffer;
	Buffer		leafbuf = InvalidBuffer;
	Page		leaf = NULL;
	Fxid		conflict = InvalidFxid;
	Progress	progress = {0};
	int64		read_before = pgBufferUsage.shared_blks_read;
	ZReadContext cx;

	/* nbtree asks for less than a page; zheap_watch_delete_old() for all */
	bool		limited = delstate->bottomup &&
		delstate->bottomupfreespace < BLCKSZ;
	bool		soft = zheap_keyed_is_soft_kind(rel, delstate->irel);
	int			ngroups;
	int			visited = 0;	/* entries */

	if (nentries == 0)
		return InvalidTransactionId;
	groups = palloc(sizeof(EntryGroup) * nentries);
	/* the caller has the leaf locked, exclusively (Z50) */
	if (soft)
	{
		leafbuf = ReadBuffer(delstate->irel, delstate->iblknum);
		AssertPageExclusive(leafbuf);
		leaf = BufferGetPage(leafbuf);
	}
	ngroups = group_entries(delstate, leaf, groups);
	sorted = palloc(sizeof(TM_IndexDelete) * nentries);
	memcpy(sorted, delstate->deltids, sizeof(TM_IndexDelete) * nentries);
	if (delstate->bottomup)
	{
		BlockNumber start = soft ?
			groups[pg_prng_uint32(&pg_global_prng_state) % ngroups].block : 0;

		qsort_arg(groups, ngroups, sizeof(EntryGroup), compare_groups, &start);
	}

	Assert(ngroups > 0 && ngroups <= nentries);
	zheap_visibility_begin(&cx, rel, NULL);
	for (int g = 0; g < ngroups; g++)
	{
		const TM_IndexDelete *entries = sorted + groups[g].first;
		int			n = groups[g].n;
		int			freed_here;

		buffer = ReleaseAndReadBuffer(buffer, rel, groups[g].block);
		progress.found_last = judge_entries(&cx, buffer, delstate, leaf,
											entries, n, &freed_here,
											&conflict);
		Assert(visited + n <= nentries);
		memcpy(delstate->deltids + visited, entries,
			   sizeof(TM_IndexDelete) * n);
		visited += n;
		progress.blocks++;
		progress.read = pgBufferUsage.shared_blks_read - read_before;
		progress.found += progress.found_last;
		progress.freed += freed_here;
		if (limited && g + 1 < ngroups &&
			!another_block_is_worth_it(&progress, soft,
									   groups[g + 1].noted > 0,
									   delstate->bottomupfreespace))
			break;
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	if (BufferIsValid(leafbuf))
		ReleaseBuffer(leafbuf);
	zheap_visibility_end(&cx);
	pfree(sorted);
	pfree(groups);

	delstate->ndeltids = delstate->bottomup && progress.found == 0 ? 0 :
		visited;
	return XidFromFxid(conflict);
}
