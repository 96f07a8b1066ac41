/*-------------------------------------------------------------------------
 *
 * zheap_rewrite.c
 *	  Copying a table into a new file, for VACUUM FULL and CLUSTER.
 *
 * Both are MVCC-safe: snapshots that are older than the command see afterwards
 * what they saw before.  Each row falls in one of three classes:
 *
 *	ended for all	left behind
 *	settled			visible to all: written as such, without undo
 *	recent			somebody may not see it, or may see an older version,
 *					or that it hasn't ended.  The copy is written as a change by
 *					this transaction whose undo record names the old version:
 *					owner and record in undo, old block and offset.  Who doesn't
 *					see us steps back and goes on in the history that the row
 *					has in undo already, which stays as long as it is needed
 *					(Z1).  Nothing of it is copied.
 *
 * Two things that old versions need don't live in undo.  Their out-of-line
 * values: those of recent rows are saved into the new toast table, under the
 * identities they have, which the swap of toast tables keeps valid.  And
 * defaults of columns added without a rewrite, which core forgets: the copy's
 * record keeps them.
 *
 * A row that moved names its new place in undo; its copy is written last, when
 * the new place of that place is known, and names it.
 *
 * The table is locked in ACCESS EXCLUSIVE mode: nobody changes it, nobody has
 * a row lock, all other writers have finished.  So pages are judged from
 * private copies, after what aborted on them was taken back.  Temporary
 * memory is per row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/multixact.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/soft/zheap_announce.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/table/zheap_rewrite_state.h"
#include "zheap/table/zheap_table.h"

/* ----------------------------------------------------------------
 *	the three ways through the table
 * ----------------------------------------------------------------
 */

static void
count_row(Rewrite *rw, RowClass class)
{
	switch (class)
	{
		case ROW_DEAD:
			rw->vacuumed += 1;
			break;
		case ROW_RECENT:
			if (ZHeaderIsEnded(&rw->recent->header))
				rw->recently_dead += 1;
			rw->num_tuples += 1;
			break;
		case ROW_SETTLED:
			rw->num_tuples += 1;
			break;
		case ROW_NONE:
			break;
	}
}

/*
 * A recent row's values into rw->values.  The sort may look at large ones of an
 * ended row when they are gone, so they are fetched.  False: some are gone
 * already, the row is dead.
 */
static bool
deform_recent_row(Rewrite *rw)
{
	RecentRow  *row = rw->recent;

	Assert(row->len >= ZHEAP_HEADER_SIZE);
	AssertNoPageLocked();
	zheap_rewrite_judge_deform(rw, row->image, row->len);
	for (int i = 0; ZHeaderIsEnded(&row->header) && i < rw->desc->natts; i++)
	{
		struct varlena *value =
			(struct varlena *) DatumGetPointer(rw->values[i]);

		if (rw->isnull[i] || TupleDescAttr(rw->desc, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(value))
			continue;
		undo_record_reader_close(&rw->reader);
		UNDO_ERROR_POINT("rewrite-sort-judged");
		value = zheap_chunk_fetch_ended(value, row->link_fxid);
		if (value == NULL)
			return false;
		rw->values[i] = PointerGetDatum(value);
	}
	return true;
}

/*
 * To the sort.  What the row is doesn't change before it comes back; a recent
 * one, which is judged again then, has a t_ctid.
 */
static void
sort_row(Rewrite *rw, RowClass class, Tuplesortstate *sort, OffsetNumber off)
{
	HeapTuple	tuple;

	if (class != ROW_SETTLED && class != ROW_RECENT)
		return;
	if (class == ROW_SETTLED)
		zheap_rewrite_judge_deform(rw, rw->image, rw->len);
	else if (!deform_recent_row(rw))
	{
		rewrite_found_dead(rw);
		return;
	}
	tuple = heap_form_tuple(rw->desc, rw->values, rw->isnull);
	ItemPointerSet(&tuple->t_self, rw->block, off);
	ItemPointerSetInvalid(&tuple->t_data->t_ctid);
	if (class == ROW_RECENT)
		tuple->t_data->t_ctid = tuple->t_self;
	tuplesort_putheaptuple(sort, tuple);
}

static void
report_tuples(Rewrite *rw, bool written)
{
	const int	index[] = {
		PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED,
		PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN
	};
	int64		value[2];

	value[0] = value[1] = (int64) rw->num_tuples;
	pgstat_progress_update_multi_param(written ? 2 : 1, index, value);
}

/* one row of the page loaded; sort may be NULL */
static void
handle_row(Rewrite *rw, OffsetNumber off, Tuplesortstate *sort)
{
	RowClass	class;

	Assert(CurrentMemoryContext == rw->context);
	CHECK_FOR_INTERRUPTS();
	MemoryContextSwitchTo(rw->row_context);
	class = zheap_rewrite_judge_row(rw, off);
	count_row(rw, class);
	if (sort != NULL)
		sort_row(rw, class, sort, off);
	else
		zheap_rewrite_write_row(rw, class);
	MemoryContextSwitchTo(rw->context);
	MemoryContextReset(rw->row_context);
	if (class == ROW_SETTLED || class == ROW_RECENT)
		report_tuples(rw, sort == NULL);
}

/* in physical order */
static void
scan_blocks(Rewrite *rw, Tuplesortstate *sort)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rw->oldrel);

	Assert(rw->strategy == NULL);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE,
								 PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, nblocks);
	rw->strategy = GetAccessStrategy(BAS_BULKREAD);

	for (BlockNumber block = 0; block < nblocks; block++)
	{
		OffsetNumber max;

		CHECK_FOR_INTERRUPTS();
		zheap_rewrite_judge_load(rw, block);
		max = PageIsNew(rw->page.data) ? 0 :
			PageGetMaxOffsetNumber(rw->page.data);
		for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
			handle_row(rw, off, sort);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED,
									 block + 1);
	}
	FreeAccessStrategy(rw->strategy);
	rw->strategy = NULL;
}

/* a row that may have several entries in the index (Z48) */
typedef struct StaleRow
{
	ItemPointerData tid;
	bool		handled;
} StaleRow;

/*
 * Is an entry, or NULL if one can't be asked, that of the newest version of its
 * row, on the page loaded?  A row that ended has none: any place will do.
 */
static bool
entry_is_newest(Rewrite *rw, Relation index, IndexTuple entry,
				OffsetNumber off)
{
	ZTupleHeader header;
	uint16		len;
	char	   *tuple = zheap_page_row(rw->page.data, off, &len);

	AssertNoPageLocked();
	if (entry == NULL || tuple == NULL)
		return true;
	zheap_header_get(tuple, &header);
	return ZHeaderIsEnded(&header) ||
		zheap_keyed_compare(rw->oldrel, index, entry, tuple, len,
							true) == ZKEY_SAME;
}

/*
 * Of a row of the page loaded: is it to be handled now?  A STALE one is, once,
 * when the entry of its newest version comes, where it belongs.
 */
static bool
row_is_due(Rewrite *rw, HTAB *stale, Relation index, IndexTuple entry,
		   const ItemPointerData *tid)
{
	OffsetNumber off = ItemPointerGetOffsetNumber(tid);
	StaleRow   *row;
	MemoryContext old;
	bool		found;

	Assert(ItemPointerGetBlockNumber(tid) == rw->block);
	if (PageIsNew(rw->page.data) ||
		!zheap_page_row_is_stale(rw->page.data, off))
		return true;
	row = hash_search(stale, tid, HASH_ENTER, &found);
	if (!found)
		row->handled = false;
	if (row->handled)
		return false;
	old = MemoryContextSwitchTo(rw->row_context);
	row->handled = entry_is_newest(rw, index, entry, off);
	MemoryContextSwitchTo(old);
	MemoryContextReset(rw->row_context);
	return row->handled;
}

/* no row is lost, should the index not have the entry that it was looked for by */
static void
handle_left(Rewrite *rw, HTAB *stale)
{
	HASH_SEQ_STATUS status;
	StaleRow   *row;

	hash_seq_init(&status, stale);
	while ((row = hash_seq_search(&status)) != NULL)
	{
		if (row->handled)
			continue;
		zheap_rewrite_judge_load(rw, ItemPointerGetBlockNumber(&row->tid));
		handle_row(rw, ItemPointerGetOffsetNumber(&row->tid), NULL);
	}
}

/*
 * In the order of an index.  It has one entry for each row that isn't ended
 * for all, or one for each of its keys: no index that may be clustered on is a
 * partial one.
 */
static void
scan_index(Rewrite *rw, Relation index)
{
	const int	param[] = {
		PROGRESS_CLUSTER_PHASE,
		PROGRESS_CLUSTER_INDEX_RELID
	};
	int64		value[2];
	IndexScanDesc scan;
	ItemPointer tid;
	HASHCTL		ctl = {.keysize = sizeof(ItemPointerData),
	.entrysize = sizeof(StaleRow),.hcxt = CurrentMemoryContext};
	HTAB	   *stale =
		hash_create("zheap rows with several entries", 128, &ctl,
					HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	value[0] = PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP;
	value[1] = RelationGetRelid(index);
	pgstat_progress_update_multi_param(2, param, value);

	scan = index_beginscan(rw->oldrel, index, SnapshotAny, NULL, 0, 0);
	/* in another index a row has one entry */
	scan->xs_want_itup = zheap_keyed_is_soft_kind(rw->oldrel, index);
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		if (scan->xs_recheck)
			elog(ERROR, "CLUSTER does not support lossy index conditions");
		zheap_rewrite_judge_load(rw, ItemPointerGetBlockNumber(tid));
		if (row_is_due(rw, stale, index,
					   scan->xs_want_itup ? scan->xs_itup : NULL, tid))
			handle_row(rw, ItemPointerGetOffsetNumber(tid), NULL);
	}
	index_endscan(scan);
	handle_left(rw, stale);
	hash_destroy(stale);
}

/* write what comes back from the sort */
static void
write_sorted(Rewrite *rw, Tuplesortstate *sort)
{
	double		written = 0;
	HeapTuple	tuple;

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE,
								 PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
	tuplesort_performsort(sort);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE,
								 PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);

	while ((tuple = tuplesort_getheaptuple(sort, true)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(rw->row_context);
		if (ItemPointerIsValid(&tuple->t_data->t_ctid))
		{
			OffsetNumber off = ItemPointerGetOffsetNumber(&tuple->t_self);

			zheap_rewrite_judge_load(rw,
									 ItemPointerGetBlockNumber(&tuple->t_self));
			zheap_rewrite_write_row(rw, zheap_rewrite_judge_row(rw, off));
		}
		else
		{
			undo_record_reader_close(&rw->reader);
			heap_deform_tuple(tuple, rw->desc, rw->values, rw->isnull);
			MemoryContextSwitchTo(rw->batch_context);
			zheap_rewrite_write_settled(rw,
										zheap_toast_form_rewritten(rw->newrel, rw->values,
																   rw->isnull,
																   REWRITE_OPTIONS));
		}
		MemoryContextSwitchTo(rw->context);
		MemoryContextReset(rw->row_context);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN,
									 (int64) ++written);
	}
	tuplesort_end(sort);
}

/* ----------------------------------------------------------------
 *	the whole
 * ----------------------------------------------------------------
 */

static Rewrite *
rewrite_begin(Relation oldrel, Relation newrel, TransactionId oldest_xmin)
{
	Rewrite    *rw = palloc0(sizeof(Rewrite));
	HASHCTL		ctl;

	Assert(RelationGetTargetBlock(newrel) == InvalidBlockNumber);
	Assert(CheckRelationLockedByMe(oldrel, AccessExclusiveLock, false));
	AssertNoPageLocked();

	rw->oldrel = oldrel;
	rw->newrel = newrel;
	rw->desc = RelationGetDescr(oldrel);
	rw->cid = GetCurrentCommandId(true);
	rw->bistate = GetBulkInsertState();
	/* old_snapshot_threshold isn't for us: nobody would be told */
	if (OldSnapshotThresholdActive())
		oldest_xmin = GetOldestNonRemovableTransactionId(oldrel);
	rw->horizon = undo_log_fxid_from_xid(oldest_xmin);
	rw->block = InvalidBlockNumber;
	undo_record_reader_open(&rw->reader, oldrel);
	zheap_rewrite_judge_columns(rw);

	rw->context = CurrentMemoryContext;
	rw->row_context = AllocSetContextCreate(CurrentMemoryContext,
											"zheap rewrite row",
											ALLOCSET_DEFAULT_SIZES);
	rw->batch_context = AllocSetContextCreate(CurrentMemoryContext,
											  "zheap rewrite batch",
											  ALLOCSET_DEFAULT_SIZES);
	rw->scratch = palloc(BLCKSZ);

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(ItemPointerData);
	ctl.entrysize = sizeof(ArrivedRow);
	ctl.hcxt = CurrentMemoryContext;
	rw->arrived = hash_create("zheap rewrite arrivals", 128, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return rw;
}

/*
 * relfrozenxid of the new file.  Core proposes one that is right for what the
 * file holds; but from there histories lead to older writers, from
 * all_visible_before on or from the old file's relfrozenxid on, whichever is
 * later.  For the toast table, which is new and shares it, anything up to the
 * proposal is right.
 */
static TransactionId
cutoff_for_history(Relation oldrel, TransactionId proposed)
{
	TransactionId known = undo_frozen_xid();
	TransactionId old = oldrel->rd_rel->relfrozenxid;

	if (TransactionIdIsNormal(old) &&
		(!TransactionIdIsNormal(known) || TransactionIdPrecedes(known, old)))
		known = old;
	if (!TransactionIdIsNormal(known))
		return InvalidTransactionId;
	return TransactionIdPrecedes(known, proposed) ? known : proposed;
}

static void
rewrite_error_context(void *arg)
{
	errcontext("while rewriting zheap relation \"%s\"",
			   RelationGetRelationName((Relation) arg));
}

/*
 * See table_relation_copy_for_cluster().
 *
 * xid_cutoff and multi_cutoff become relfrozenxid and relminmxid of the table
 * and, by core's swap, of its toast table.
 */
void
zheap_rewrite_copy(Relation oldrel, Relation newrel, Relation index,
				   bool use_sort, TransactionId oldest_xmin,
				   TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
				   double *num_tuples, double *tups_vacuumed,
				   double *tups_recently_dead)
{
	Rewrite    *rw = rewrite_begin(oldrel, newrel, oldest_xmin);
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = rewrite_error_context,
		.arg = oldrel
	};

	error_context_stack = &context;
	if (index != NULL && !use_sort)
		scan_index(rw, index);
	else
	{
		Tuplesortstate *sort = NULL;

		if (use_sort)
			sort = tuplesort_begin_cluster(rw->desc, index,
										   maintenance_work_mem, NULL,
										   TUPLESORT_NONE);
		scan_blocks(rw, sort);
		if (sort != NULL)
			write_sorted(rw, sort);
	}
	zheap_rewrite_write_batch(rw);
	zheap_rewrite_write_moved(rw);
	Assert(rw->nbatch == 0 && rw->moved == NIL);
	zheap_announce_copy(oldrel, newrel);

	if (rw->conflict != InvalidFxid)
		zheap_delta_log_conflict(oldrel, rw->conflict_block, rw->conflict);

	error_context_stack = context.previous;
	*xid_cutoff = cutoff_for_history(oldrel, *xid_cutoff);
	*multi_cutoff = InvalidMultiXactId;
	zheap_rewrite_write_deleted(rw);
	*num_tuples = rw->num_tuples;
	*tups_vacuumed = rw->vacuumed;
	*tups_recently_dead = rw->recently_dead;

	undo_record_reader_close(&rw->reader);
	FreeBulkInsertState(rw->bistate);
	hash_destroy(rw->arrived);
	MemoryContextDelete(rw->row_context);
	MemoryContextDelete(rw->batch_context);
	pfree(rw->scratch);
	pfree(rw);
}
