/*-------------------------------------------------------------------------
 *
 * zheap_vacuum.c
 *	  Vacuum of a whole relation: roll back and prune each page, remove index
 *	  entries of dead line pointers, make those reusable, set visibility map
 *	  bits, keep the free space map, truncate.
 *
 *	1	per page: take back what aborted, prune, collect DEAD line pointers
 *	2	when their memory is full, and at the end: delete index entries, then
 *		DEAD -> UNUSED
 *
 * There is no freezing pass: pages hold 64-bit xids.  A vacuum against
 * wraparound is one change of pg_class (zheap_frozenxid.c).  Vacuum runs with
 * PROC_IN_VACUUM, so it writes no undo (Z1).  Pages are changed under
 * the exclusive lock alone; no cleanup lock is ever needed.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/multixact.h"
#include "access/transam.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "catalog/storage.h"
#include "commands/dbcommands.h"
#include "commands/progress.h"
#include "commands/vacuum.h"
#include "executor/instrument.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/autovacuum.h"
#include "storage/freespace.h"
#include "storage/latch.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/pg_rusage.h"
#include "utils/rel.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/soft/zheap_announce.h"
#include "zheap/soft/zheap_old_keys.h"
#include "zheap/soft/zheap_sweep.h"
#include "zheap/space/zheap_space.h"
#include "zheap/table/zheap_frozenxid.h"
#include "zheap/table/zheap_table.h"

/* truncate when so many pages, or that part of the table, can be given back */
#define TRUNCATE_MIN_PAGES		UNDO_KNOB("truncate-pages", 1000, 1, 1000)
#define TRUNCATE_FRACTION		UNDO_KNOB("truncate-fraction", 16, 1, 16)
#define TRUNCATE_TRY_MS			50
#define TRUNCATE_GIVE_UP_MS		UNDO_KNOB("truncate-give-up", 5000, 50, 5000)

/*
 * Shorter runs of pages that are all-visible aren't skipped, as with heap: a small
 * table's number of rows would drift to what its busy pages have.
 */
#define SKIP_MIN_PAGES			UNDO_KNOB("skip-pages", 32, 1, 32)

/* let upper levels of the free space map know every so many pages */
#define FSM_EVERY_PAGES			UNDO_KNOB("fsm-every", ((BlockNumber) 32768), 1, ((BlockNumber) 32768))

typedef struct Vacuum
{
	Relation	rel;
	VacuumParams *params;
	BufferAccessStrategy strategy;
	int			elevel;			/* for messages on the way */

	/* indexes */
	int			nindexes;
	Relation   *indexes;
	IndexBulkDeleteResult **stats;
	bool		do_indexes;		/* delete entries and clean up */
	ParallelVacuumState *parallel;
	TidStore   *dead;
	VacDeadItemsInfo *dead_info;
	int			nindexscans;
	ZSweep	   *sweep;			/* rows that changed their keys in place */

	/* the table */
	BlockNumber nblocks;
	BlockNumber nonempty;		/* number of the last page seen in use + 1 */
	Buffer		vmbuffer;

	/* what was found and done */
	BlockNumber scanned;
	BlockNumber truncated;
	double		live_scanned;	/* rows on scanned pages */
	double		live;			/* estimate for the table */
	int64		recently_dead;
	int64		reclaimed;
	int64		pointers_freed;
	int64		old_entries;
	int64		dead_left;
	int64		slots_freed;
	int64		spilled_removed;
	int64		spilled_left;
} Vacuum;

/* ----------------------------------------------------------------
 *	one page
 * ----------------------------------------------------------------
 */

/*
 * The record that sets the map is one of heap's, and so are the eyes with
 * which its page image is compared by wal_consistency_checking: to them a
 * hint in an xact slot is a difference.  Clear them, logged: some came to
 * redo's page along with logged bytes, some didn't.
 */
static void
clear_hints(Relation rel, Buffer buffer)
{
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	Page		page = zheap_delta_begin(delta, rel, buffer);

	AssertPageExclusive(buffer);
	zheap_page_clear_hints(page);
	zheap_delta_finish(delta, InvalidFxid);
	pfree(delta);
}

/*
 * Mark the page all-visible if pruning found it to be.  What pruning went by
 * is below all_visible_before or was frozen, so that standbys had their
 * conflict before: the record needs no horizon of its own (Z25).
 */
static void
set_all_visible(Vacuum *vac, Buffer buffer, BlockNumber block)
{
	Page		page = BufferGetPage(buffer);
	XLogRecPtr	before = ProcLastRecPtr;

	AssertPageExclusive(buffer);
	Assert(BufferGetBlockNumber(buffer) == block);
	if (PageIsAllVisible(page) &&
		(visibilitymap_get_status(vac->rel, block, &vac->vmbuffer) &
		 VISIBILITYMAP_ALL_VISIBLE))
		return;

	Assert(visibilitymap_pin_ok(block, vac->vmbuffer));
	clear_hints(vac->rel, buffer);
	PageSetAllVisible(page);
	MarkBufferDirty(buffer);
	visibilitymap_set(vac->rel, block, buffer, InvalidXLogRecPtr,
					  vac->vmbuffer, InvalidTransactionId,
					  VISIBILITYMAP_ALL_VISIBLE);
	undo_images_note(before);
}

/* the dead line pointers of a block */
typedef struct DeadOffsets
{
	int			n;
	OffsetNumber offsets[MaxHeapTuplesPerPage];
} DeadOffsets;

/* does the page hold nothing that anybody may come back to */
static bool
page_is_empty(Page page, const UndoHorizons *hz)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	Assert(zheap_page_is_valid(page));
	if (ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL)
		return false;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		if (ItemIdIsUsed(PageGetItemId(page, off)))
			return false;
	}
	for (int id = 1; id <= ZPageGetOpaque(page)->nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (!ZXactSlotIsFree(slot) &&
			ZXactSlotFxid(slot) >= hz->all_visible_before)
			return false;
	}
	return !ZPageHasShared(page) ||
		ZSharedYoungest(ZPageGetShared(page)) < hz->all_visible_before;
}

/* keep the dead line pointers of a block; allocates, any lock may be held */
static void
remember_dead_items(Vacuum *vac, BlockNumber block, OffsetNumber *offsets,
					int n)
{
	Assert(n > 0 && n <= MaxHeapTuplesPerPage);
	TidStoreSetBlockOffsets(vac->dead, block, offsets, n);
	vac->dead_info->num_items += n;
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS,
								 vac->dead_info->num_items);
	pgstat_progress_update_param(PROGRESS_VACUUM_DEAD_TUPLE_BYTES,
								 TidStoreMemoryUsage(vac->dead));
}

/* what one pass over a page did; the second one may find more to remove */
static void
count_pruned(Vacuum *vac, const ZPruneResult *result)
{
	vac->slots_freed += result->nslots_freed;
	vac->spilled_removed += result->nspilled_removed;
}

/*
 * Step 1 for one page.  The pin of its visibility map page is in vmbuffer.
 * Nothing is locked before or after; the pin of the buffer is released.
 */
static void
vacuum_page(Vacuum *vac, BlockNumber block, Buffer buffer)
{
	UndoHorizons hz = undo_log_horizons();
	ZPruneResult result;
	Page		page;
	Size		room;

	Assert(BufferGetBlockNumber(buffer) == block);
	AssertNoPageLocked();
	UNDO_POINT("vacuum-horizon");
	zheap_rollback_lock(vac->rel, buffer);
	page = BufferGetPage(buffer);
	vac->scanned++;

	if (PageIsNew(page))
	{
		/* left by a crash or an error after extending; offer it again */
		UnlockReleaseBuffer(buffer);
		AssertNoPageLocked();
		if (GetRecordedFreeSpace(vac->rel, block) == 0)
			RecordPageWithFreeSpace(vac->rel, block,
									zheap_fsm_room(ZHEAP_MAX_TUPLE_SIZE));
		return;
	}

	zheap_sweep_clear(vac->sweep, buffer, &hz);
	zheap_prune_page(vac->rel, buffer, &hz, ZPRUNE_TIDY |
					 (vac->nindexes == 0 ? ZPRUNE_NO_INDEXES : 0), &result);

	if (vac->do_indexes && vac->nindexes > 0)
		zheap_sweep_list(vac->sweep, buffer);
	vac->live_scanned += result.live_tuples;
	vac->recently_dead += result.recently_dead;
	vac->reclaimed += result.nreclaimed;
	vac->spilled_left += result.nspilled_left;
	count_pruned(vac, &result);
	/* with dead pointers only, step 2 will tell */
	if ((result.has_tuples || result.ndead == 0 || !vac->do_indexes) &&
		!page_is_empty(page, &hz))
		vac->nonempty = block + 1;

	if (result.ndead > 0 && vac->do_indexes && vac->nindexes > 0)
	{
		OffsetNumber max = PageGetMaxOffsetNumber(page);

		OffsetNumber offsets[MaxHeapTuplesPerPage];
		int			n = 0;

		for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
		{
			if (ItemIdIsDead(PageGetItemId(page, off)))
				offsets[n++] = off;
		}
		remember_dead_items(vac, block, offsets, n);
	}
	else
		vac->dead_left += result.ndead;

	if (result.all_visible && result.ndead == 0)
		set_all_visible(vac, buffer, block);

	room = zheap_make_room_estimate(vac->rel, buffer, &hz);
	UnlockReleaseBuffer(buffer);
	RecordPageWithFreeSpace(vac->rel, block, zheap_fsm_room(room));
}

/*
 * Step 2 for one page: these line pointers of it have no index entries any
 * more.  The pin of its visibility map page is in vmbuffer; the pin of the
 * buffer is released.
 */
static void
free_line_pointers(Vacuum *vac, Buffer buffer, const DeadOffsets *dead)
{
	BlockNumber block = BufferGetBlockNumber(buffer);
	UndoHorizons hz = undo_log_horizons();
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	ZPruneResult result;
	UndoReader	reader;
	Page		page;
	Size		room;
	int			nfreed;

	Assert(dead->n > 0 && vac->nindexes > 0);
	AssertNoPageLocked();
	zheap_rollback_lock(vac->rel, buffer);

	page = zheap_delta_begin(delta, vac->rel, buffer);
	/* nobody else frees a DEAD pointer while I hold my table lock */
	undo_record_reader_open(&reader, vac->rel);
	nfreed = zheap_prune_free_pointers(vac->rel, &reader, &hz, page, block,
									   dead->offsets, dead->n);
	undo_record_reader_close(&reader);
	vac->pointers_freed += nfreed;
	vac->dead_left += dead->n - nfreed;
	/* what removed the rows carried the conflict horizon */
	zheap_delta_finish(delta, InvalidFxid);
	pfree(delta);

	page = BufferGetPage(buffer);
	zheap_prune_page(vac->rel, buffer, &hz, ZPRUNE_TIDY, &result);
	count_pruned(vac, &result);
	vac->spilled_left -= result.nspilled_removed;
	if (result.all_visible && result.ndead == 0)
		set_all_visible(vac, buffer, block);
	if (!page_is_empty(page, &hz))
		vac->nonempty = Max(vac->nonempty, block + 1);

	room = zheap_make_room_estimate(vac->rel, buffer, &hz);
	UnlockReleaseBuffer(buffer);
	RecordPageWithFreeSpace(vac->rel, block, zheap_fsm_room(room));
}

/* ----------------------------------------------------------------
 *	indexes
 * ----------------------------------------------------------------
 */

/* kilobytes of memory for dead TIDs, as lazy vacuum of heap decides */
static int
dead_items_memory(void)
{
	return AmAutoVacuumWorkerProcess() && autovacuum_work_mem != -1 ?
		autovacuum_work_mem : maintenance_work_mem;
}

static void
open_dead_items(Vacuum *vac)
{
	int			memory = dead_items_memory();

	if (vac->params->nworkers >= 0 && vac->nindexes > 1 && vac->do_indexes)
	{
		if (RelationUsesLocalBuffers(vac->rel))
		{
			if (vac->params->nworkers > 0)
				ereport(WARNING,
						(errmsg("disabling parallel option of vacuum on \"%s\" --- cannot vacuum temporary tables in parallel",
								RelationGetRelationName(vac->rel))));
		}
		else
			vac->parallel = parallel_vacuum_init(vac->rel, vac->indexes,
												 vac->nindexes,
												 vac->params->nworkers,
												 memory, vac->elevel,
												 vac->strategy);
	}
	if (vac->parallel != NULL)
		vac->dead = parallel_vacuum_get_dead_items(vac->parallel,
												   &vac->dead_info);
	else
	{
		vac->dead_info = palloc0(sizeof(VacDeadItemsInfo));
		vac->dead_info->max_bytes = memory * (size_t) 1024;
		vac->dead = TidStoreCreateLocal(vac->dead_info->max_bytes, true);
	}
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES,
								 vac->dead_info->max_bytes);
}

/* forget all of them */
static void
reset_dead_items(Vacuum *vac)
{
	if (vac->parallel != NULL)
	{
		parallel_vacuum_reset_dead_items(vac->parallel);
		vac->dead = parallel_vacuum_get_dead_items(vac->parallel,
												   &vac->dead_info);
	}
	else
	{
		TidStoreDestroy(vac->dead);
		vac->dead = TidStoreCreateLocal(vac->dead_info->max_bytes, true);
		vac->dead_info->num_items = 0;
	}
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS, 0);
	pgstat_progress_update_param(PROGRESS_VACUUM_DEAD_TUPLE_BYTES,
								 TidStoreMemoryUsage(vac->dead));
}

static void
fill_index_info(Vacuum *vac, int i, IndexVacuumInfo *info)
{
	info->index = vac->indexes[i];
	index_vacuum_set_heap(info, vac->rel);
	info->analyze_only = false;
	info->report_progress = false;
	info->estimated_count = true;
	info->message_level = vac->elevel;
	info->num_heap_tuples = Max(vac->rel->rd_rel->reltuples, 0);
	info->strategy = vac->strategy;
}

/* ReadStreamBlockNumberCB over the store; hands the offsets on */
static BlockNumber
next_of_dead_items(ReadStream *stream, void *private_data,
				   void *per_buffer_data)
{
	DeadOffsets *dead = per_buffer_data;
	TidStoreIterResult *found = TidStoreIterateNext(private_data);

	if (found == NULL)
		return InvalidBlockNumber;
	dead->n = TidStoreGetBlockOffsets(found, dead->offsets,
									  lengthof(dead->offsets));
	Assert(dead->n <= lengthof(dead->offsets));
	return found->blkno;
}

/* step 2: free the line pointers of all dead TIDs */
static void
free_dead_items(Vacuum *vac)
{
	TidStoreIter *iter = TidStoreBeginIterate(vac->dead);
	ReadStream *stream;
	Buffer		buffer;
	void	   *dead;

	stream = read_stream_begin_relation(READ_STREAM_MAINTENANCE |
										READ_STREAM_USE_BATCHING,
										vac->strategy, vac->rel, MAIN_FORKNUM,
										next_of_dead_items, iter,
										sizeof(DeadOffsets));
	for (;;)
	{
		vacuum_delay_point(false);
		buffer = read_stream_next_buffer(stream, &dead);
		if (!BufferIsValid(buffer))
			break;
		visibilitymap_pin(vac->rel, BufferGetBlockNumber(buffer),
						  &vac->vmbuffer);
		free_line_pointers(vac, buffer, dead);
	}
	read_stream_end(stream);
	TidStoreEndIterate(iter);
}

/* delete the index entries of all dead TIDs, then free these */
static void
vacuum_dead_items(Vacuum *vac)
{
	int			i;

	AssertNoPageLocked();
	Assert(vac->nindexes > 0 || vac->dead_info->num_items == 0);
	if (vac->dead_info->num_items == 0)
		return;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_VACUUM_INDEX);
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_TOTAL,
								 vac->nindexes);
	if (vac->parallel != NULL)
		parallel_vacuum_bulkdel_all_indexes(vac->parallel,
											(long) Max(vac->rel->rd_rel->reltuples, 0),
											vac->nindexscans);
	else
	{
		for (i = 0; i < vac->nindexes; i++)
		{
			IndexVacuumInfo info;

			fill_index_info(vac, i, &info);
			vac->stats[i] = vac_bulkdel_one_index(&info, vac->stats[i],
												  vac->dead, vac->dead_info);
			pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_PROCESSED,
										 i + 1);
		}
	}
	vac->nindexscans++;
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_TOTAL, 0);
	pgstat_progress_update_param(PROGRESS_VACUUM_INDEXES_PROCESSED, 0);
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_INDEX_VACUUMS,
								 vac->nindexscans);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_VACUUM_HEAP);
	free_dead_items(vac);
	reset_dead_items(vac);
}

/*
 * Delete entries of older keys of rows that live, if there are enough; surely
 * if the list of rows is full, for others would never get their turn.
 */
static void
sweep_old_entries(Vacuum *vac, bool full)
{
	IndexVacuumInfo *info = palloc(Max(vac->nindexes, 1) *
								   sizeof(IndexVacuumInfo));

	for (int i = 0; i < vac->nindexes; i++)
		fill_index_info(vac, i, &info[i]);
	vac->old_entries +=
		zheap_sweep_indexes(vac->sweep, full ||
							vac->params->index_cleanup == VACOPTVALUE_ENABLED,
							info, vac->parallel != NULL ? NULL : vac->stats,
							vac->nindexes);
	pfree(info);
}

/* let every index clean up, and note what it says of itself */
static void
cleanup_indexes(Vacuum *vac)
{
	int			i;

	if (vac->nindexes == 0)
		return;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_INDEX_CLEANUP);
	if (vac->parallel != NULL)
		parallel_vacuum_cleanup_all_indexes(vac->parallel, (long) vac->live,
											vac->nindexscans,
											vac->scanned < vac->nblocks);
	else
	{
		for (i = 0; i < vac->nindexes; i++)
		{
			IndexVacuumInfo info;

			fill_index_info(vac, i, &info);
			info.num_heap_tuples = vac->live;
			info.estimated_count = vac->scanned < vac->nblocks;
			vac->stats[i] = vac_cleanup_one_index(&info, vac->stats[i]);
		}
	}
}

static void
update_index_stats(Vacuum *vac)
{
	for (int i = 0; i < vac->nindexes; i++)
	{
		IndexBulkDeleteResult *stats = vac->stats[i];

		if (stats == NULL || stats->estimated_count)
			continue;
		vac_update_relstats(vac->indexes[i], stats->num_pages,
							stats->num_index_tuples, 0, 0, false,
							InvalidTransactionId, InvalidMultiXactId,
							NULL, NULL, false);
	}
}

/* ----------------------------------------------------------------
 *	the table
 * ----------------------------------------------------------------
 */

/* which page step 1 is to read next */
typedef struct ScanPosition
{
	Vacuum	   *vac;
	BlockNumber next;
	BlockNumber run_end;		/* pages up to there are read in any case */
	Buffer		vmbuffer;		/* of its own: it is ahead */
} ScanPosition;

/* Marked all-visible; but not the last one, for truncation. */
static bool
may_skip(ScanPosition *at, BlockNumber block)
{
	Vacuum	   *vac = at->vac;

	return (vac->params->options & VACOPT_DISABLE_PAGE_SKIPPING) == 0 &&
		block != vac->nblocks - 1 &&
		(visibilitymap_get_status(vac->rel, block, &at->vmbuffer) &
		 VISIBILITYMAP_ALL_VISIBLE) != 0;
}

/* ReadStreamBlockNumberCB: all pages but long runs of those that may be skipped. */
static BlockNumber
next_to_vacuum(ReadStream *stream, void *private_data, void *per_buffer_data)
{
	ScanPosition *at = private_data;
	BlockNumber nblocks = at->vac->nblocks;

	if (at->next >= at->run_end)
	{
		at->run_end = at->next;
		while (at->run_end < nblocks && may_skip(at, at->run_end))
		{
			CHECK_FOR_INTERRUPTS();
			at->run_end++;
		}
		if (at->run_end - at->next >= SKIP_MIN_PAGES)
			at->next = at->run_end;
	}
	return at->next < nblocks ? at->next++ : InvalidBlockNumber;
}

/* make room for the dead items of another page; fsm_from as in scan_table() */
static void
make_room_for_dead_items(Vacuum *vac, BlockNumber block,
						 BlockNumber *fsm_from)
{
	Assert(*fsm_from <= block);
	AssertNoPageLocked();
	if (vac->dead_info->num_items > 0 &&
		TidStoreMemoryUsage(vac->dead) > vac->dead_info->max_bytes)
	{
		vacuum_dead_items(vac);
		FreeSpaceMapVacuumRange(vac->rel, *fsm_from, block);
		*fsm_from = block;
		pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
									 PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	}
	else if (block - *fsm_from >= FSM_EVERY_PAGES)
	{
		FreeSpaceMapVacuumRange(vac->rel, *fsm_from, block);
		*fsm_from = block;
	}
}

static void
scan_table(Vacuum *vac)
{
	ScanPosition at = {.vac = vac,.vmbuffer = InvalidBuffer};
	BlockNumber fsm_from = 0;
	ReadStream *stream;

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_VACUUM_TOTAL_HEAP_BLKS,
								 vac->nblocks);

	/* the callback reads the visibility map: nothing to be done in a batch */
	stream = read_stream_begin_relation(READ_STREAM_MAINTENANCE,
										vac->strategy, vac->rel, MAIN_FORKNUM,
										next_to_vacuum, &at, 0);
	for (;;)
	{
		Buffer		buffer;
		BlockNumber block;

		vacuum_delay_point(false);
		/* an empty page may be all-visible, too: truncation looks again */
		buffer = read_stream_next_buffer(stream, NULL);
		if (!BufferIsValid(buffer))
			break;
		block = BufferGetBlockNumber(buffer);
		pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED, block);

		/* before the page is locked, the map's page is read */
		make_room_for_dead_items(vac, block, &fsm_from);
		if (zheap_sweep_is_full(vac->sweep))
			sweep_old_entries(vac, true);
		visibilitymap_pin(vac->rel, block, &vac->vmbuffer);
		vacuum_page(vac, block, buffer);
	}
	read_stream_end(stream);
	if (BufferIsValid(at.vmbuffer))
		ReleaseBuffer(at.vmbuffer);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_SCANNED,
								 vac->nblocks);

	vac->live = vac_estimate_reltuples(vac->rel, vac->nblocks, vac->scanned,
									   vac->live_scanned);
	vacuum_dead_items(vac);
	sweep_old_entries(vac, false);
	if (BufferIsValid(vac->vmbuffer))
		ReleaseBuffer(vac->vmbuffer);
	vac->vmbuffer = InvalidBuffer;
	FreeSpaceMapVacuumRange(vac->rel, fsm_from, vac->nblocks);
	pgstat_progress_update_param(PROGRESS_VACUUM_HEAP_BLKS_VACUUMED,
								 vac->nblocks);
}

/*
 * With the relation locked against everybody: number of blocks that must
 * stay.  Gives up early, keeping more, when somebody waits for the lock.
 */
static BlockNumber
count_needed_blocks(Vacuum *vac)
{
	BlockNumber block = vac->nblocks;
	UndoHorizons hz = undo_log_horizons();

	Assert(CheckRelationLockedByMe(vac->rel, AccessExclusiveLock, false));
	while (block > vac->nonempty)
	{
		Buffer		buffer;
		Page		page;
		bool		empty;

		if (block % 32 == 0 &&
			LockHasWaitersRelation(vac->rel, AccessExclusiveLock))
			return block;
		CHECK_FOR_INTERRUPTS();

		buffer = ReadBufferExtended(vac->rel, MAIN_FORKNUM, block - 1,
									RBM_NORMAL, vac->strategy);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		empty = PageIsNew(page);
		if (!empty)
		{
			zheap_page_check(vac->rel, block - 1, page);
			empty = page_is_empty(page, &hz);
		}
		UnlockReleaseBuffer(buffer);
		if (!empty)
			break;
		block--;
	}
	return block;
}

/*
 * Heap's failsafe, asked of the cluster's oldest xid: where no more are given out
 * VACUUM is to do without, and a lock that standbys are told of takes one.
 */
static bool
xids_run_out(void)
{
	struct VacuumCutoffs cutoffs = {
		.relfrozenxid = TransamVariables->oldestXid,
		.relminmxid = ReadNextMultiXactId()
	};

	return vacuum_xid_failsafe_check(&cutoffs);
}

/* Give empty pages at the end back, unless others use the table. */
static void
truncate_table(Vacuum *vac)
{
	BlockNumber free = vac->nblocks - vac->nonempty;
	BlockNumber keep;
	int			waited = 0;

	Assert(vac->nonempty <= vac->nblocks);
	AssertNoPageLocked();
	if (vac->params->truncate == VACOPTVALUE_DISABLED || free == 0 ||
		(free < TRUNCATE_MIN_PAGES &&
		 free < vac->nblocks / TRUNCATE_FRACTION) || xids_run_out())
		return;
	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_TRUNCATE);

	while (!ConditionalLockRelation(vac->rel, AccessExclusiveLock))
	{
		CHECK_FOR_INTERRUPTS();
		if (waited >= TRUNCATE_GIVE_UP_MS)
		{
			ereport(vac->elevel,
					(errmsg("\"%s\": stopping truncate due to conflicting lock request",
							RelationGetRelationName(vac->rel))));
			return;
		}
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 TRUNCATE_TRY_MS, WAIT_EVENT_VACUUM_TRUNCATE);
		ResetLatch(MyLatch);
		waited += TRUNCATE_TRY_MS;
	}

	/* pages that came since surely hold something */
	if (RelationGetNumberOfBlocks(vac->rel) == vac->nblocks)
	{
		keep = count_needed_blocks(vac);
		Assert(keep >= vac->nonempty && keep <= vac->nblocks);
		if (keep < vac->nblocks)
		{
			RelationTruncate(vac->rel, keep);
			if (keep == 0)
				zheap_announce_forget();
			ereport(vac->elevel,
					(errmsg("table \"%s\": truncated %u to %u pages",
							RelationGetRelationName(vac->rel),
							vac->nblocks, keep)));
			vac->truncated = vac->nblocks - keep;
			vac->nblocks = keep;
		}
	}
	UnlockRelation(vac->rel, AccessExclusiveLock);
}

/* ----------------------------------------------------------------
 *	the whole
 * ----------------------------------------------------------------
 */

static void
update_table_stats(Vacuum *vac, TimestampTz start)
{
	Relation	rel = vac->rel;
	BlockNumber all_visible;

	visibilitymap_count(rel, &all_visible, NULL);
	all_visible = Min(all_visible, vac->nblocks);
	zheap_frozenxid_update(rel, vac->nblocks, vac->live, all_visible,
						   vac->nindexes > 0);
	pgstat_report_vacuum(RelationGetRelid(rel), rel->rd_rel->relisshared,
						 Max(vac->live, 0), vac->recently_dead +
						 (vac->do_indexes ? zheap_sweep_left(vac->sweep) :
						  zheap_old_keys_count(rel)), start);
}

/* what the session had used, and done, when the vacuum began */
typedef struct VacuumUsage
{
	BufferUsage buffers;
	WalUsage	wal;
	uint64		rollback_pages;
} VacuumUsage;

static void
append_usage(StringInfo buf, const VacuumUsage *before, double seconds)
{
	BufferUsage buffers = {0};
	WalUsage	wal = {0};
	int64		misses;
	double		mb = BLCKSZ / (1024.0 * 1024.0);

	BufferUsageAccumDiff(&buffers, &pgBufferUsage, &before->buffers);
	WalUsageAccumDiff(&wal, &pgWalUsage, &before->wal);
	misses = buffers.shared_blks_read + buffers.local_blks_read;
	if (seconds > 0)
		appendStringInfo(buf,
						 "avg read rate: %.3f MB/s, avg write rate: %.3f MB/s\n",
						 misses * mb / seconds,
						 (buffers.shared_blks_dirtied +
						  buffers.local_blks_dirtied) * mb / seconds);
	appendStringInfo(buf,
					 "buffer usage: %lld hits, %lld misses, %lld dirtied\n",
					 (long long) (buffers.shared_blks_hit +
								  buffers.local_blks_hit),
					 (long long) misses,
					 (long long) (buffers.shared_blks_dirtied +
								  buffers.local_blks_dirtied));
	appendStringInfo(buf,
					 "WAL usage: %lld records, %lld full page images, %llu bytes\n",
					 (long long) wal.wal_records, (long long) wal.wal_fpi,
					 (unsigned long long) wal.wal_bytes);
}

static void
report(Vacuum *vac, TimestampTz start, const PGRUsage *usage,
	   const VacuumUsage *before)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		verbose = (vac->params->options & VACOPT_VERBOSE) != 0;
	StringInfoData buf;

	if (!verbose)
	{
		if (!AmAutoVacuumWorkerProcess() ||
			vac->params->log_min_duration < 0 ||
			!TimestampDifferenceExceeds(start, now,
										vac->params->log_min_duration))
			return;
	}

	initStringInfo(&buf);
	appendStringInfo(&buf,
					 "finished vacuuming \"%s.%s.%s\": index scans: %d\n",
					 get_database_name(MyDatabaseId),
					 get_namespace_name(RelationGetNamespace(vac->rel)),
					 RelationGetRelationName(vac->rel), vac->nindexscans);
	appendStringInfo(&buf, "pages: %u removed, %u remain, %u scanned\n",
					 vac->truncated, vac->nblocks, vac->scanned);
	appendStringInfo(&buf,
					 "tuples: %lld removed, %.0f remain, %lld are dead but not yet removable\n",
					 (long long) vac->reclaimed, vac->live,
					 (long long) vac->recently_dead);
	appendStringInfo(&buf, "dead item identifiers: %lld removed, %lld left\n",
					 (long long) vac->pointers_freed,
					 (long long) vac->dead_left);
	appendStringInfo(&buf, "spilled rows: %lld removed, %lld left\n",
					 (long long) vac->spilled_removed,
					 (long long) Max(vac->spilled_left, 0));
	appendStringInfo(&buf,
					 "transaction slots: %lld freed, pages rolled back: %llu\n",
					 (long long) vac->slots_freed,
					 (unsigned long long) (zheap_rollback_pages -
										   before->rollback_pages));
	if (vac->old_entries > 0)
		appendStringInfo(&buf, "index entries of older keys: %lld removed\n",
						 (long long) vac->old_entries);
	appendStringInfo(&buf, "removable cutoff: " UINT64_FORMAT "\n",
					 undo_log_horizons().discard_before);
	append_usage(&buf, before, (now - start) / 1000000.0);
	appendStringInfo(&buf, "system usage: %s", pg_rusage_show(usage));
	ereport(verbose ? INFO : LOG, (errmsg_internal("%s", buf.data)));
	pfree(buf.data);
}

void
zheap_vacuum_relation(Relation rel, struct VacuumParams *params,
					  BufferAccessStrategy strategy)
{
	Vacuum	   *vac = palloc0(sizeof(Vacuum));
	TimestampTz start = GetCurrentTimestamp();
	PGRUsage	usage;
	VacuumUsage before = {.buffers = pgBufferUsage,.wal = pgWalUsage,
	.rollback_pages = zheap_rollback_pages};

	Assert(params->index_cleanup != VACOPTVALUE_UNSPECIFIED);
	Assert(params->truncate != VACOPTVALUE_UNSPECIFIED);
	Assert(CheckRelationLockedByMe(rel, ShareUpdateExclusiveLock, true));
	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && !RecoveryInProgress());

	pg_rusage_init(&usage);
	if (zheap_frozenxid_advance(rel, params))
		return;
	vac->rel = rel;
	vac->params = params;
	vac->strategy = strategy;
	vac->elevel = (params->options & VACOPT_VERBOSE) ? INFO : DEBUG2;
	vac->do_indexes = params->index_cleanup != VACOPTVALUE_DISABLED;
	vac->vmbuffer = InvalidBuffer;

	pgstat_progress_start_command(PROGRESS_COMMAND_VACUUM,
								  RelationGetRelid(rel));
	if (params->options & VACOPT_VERBOSE)
		ereport(INFO,
				(errmsg("vacuuming \"%s.%s.%s\"",
						get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel))));

	vac_open_indexes(rel, RowExclusiveLock, &vac->nindexes, &vac->indexes);
	vac->stats =
		palloc0(Max(vac->nindexes, 1) * sizeof(IndexBulkDeleteResult *));
	vac->nblocks = RelationGetNumberOfBlocks(rel);

	open_dead_items(vac);
	vac->sweep = zheap_sweep_begin(rel, (Size) dead_items_memory() * 1024);
	scan_table(vac);
	if (vac->do_indexes)
		cleanup_indexes(vac);
	if (vac->parallel != NULL)
		parallel_vacuum_end(vac->parallel, vac->stats);
	if (vac->do_indexes)
		update_index_stats(vac);
	vac_close_indexes(vac->nindexes, vac->indexes, NoLock);

	truncate_table(vac);

	pgstat_progress_update_param(PROGRESS_VACUUM_PHASE,
								 PROGRESS_VACUUM_PHASE_FINAL_CLEANUP);
	update_table_stats(vac, start);
	pgstat_progress_end_command();
	report(vac, start, &usage, &before);
}
