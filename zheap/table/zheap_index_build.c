/*-------------------------------------------------------------------------
 *
 * zheap_index_build.c
 *	  The table's side of building an index, and of validating one that was
 *	  built concurrently.
 *
 * An ordinary build indexes each row once, by its newest image that isn't of
 * an aborted transaction.  Where older snapshots see another image of the row
 * (updated in place, not yet visible to all), the index is marked as not for
 * them by ii_BrokenHotChain, core's name for the same thing in heap.
 *
 * The page lock is never held while expressions are computed or the index AM
 * is called: images are copied out first.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/sysattr.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "commands/progress.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "optimizer/optimizer.h"
#include "pgstat.h"
#include "storage/lmgr.h"
#include "storage/procarray.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/table/zheap_table.h"

typedef struct Build
{
	Relation	rel;
	Relation	index;
	IndexInfo  *info;
	ZScanDesc	scan;
	bool		anyvisible;
	bool		soft;			/* rows may have several keys (Z47) */
	List	   *older;			/* OlderImages of the block */
	bool		unique;			/* uniqueness or exclusion is checked */

	/* evaluation */
	EState	   *estate;
	ExprContext *econtext;
	ExprState  *predicate;
	TupleTableSlot *slot;
	TupleTableSlot *ended_slot; /* with large values fetched */
	Bitmapset  *columns;		/* that the index looks at, see looks_at() */
	Bitmapset  *hard;			/* of a soft index: those that aren't plain keys */
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	double		reltuples;

	/* rows of the page, beside scan->row */
	Fxid		ended_by[MaxHeapTuplesPerPage]; /* of those not alive */
	bool		counted[MaxHeapTuplesPerPage];
	Fxid		wait_for;		/* must end before the page can be judged */
	OffsetNumber wait_off;
} Build;

static void
build_start(Build *build, Relation rel, Relation index, IndexInfo *info)
{
	Assert(IsTransactionState() && CritSectionCount == 0);
	memset(build, 0, offsetof(Build, values));
	build->rel = rel;
	build->index = index;
	build->info = info;
	build->unique = info->ii_Unique || info->ii_ExclusionOps != NULL;
	build->soft = index != NULL && zheap_keyed_is_soft_kind(rel, index);
	build->reltuples = 0;
	build->estate = CreateExecutorState();
	build->econtext = GetPerTupleExprContext(build->estate);
	build->slot = table_slot_create(rel, NULL);
	build->econtext->ecxt_scantuple = build->slot;
	build->predicate = ExecPrepareQual(info->ii_Predicate, build->estate);

	build->ended_slot = MakeSingleTupleTableSlot(RelationGetDescr(rel),
												 &TTSOpsVirtual);
	build->hard = build->soft ? zheap_keyed_hard_columns(index) : NULL;
	build->columns = NULL;
	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
	{
		AttrNumber	attno = info->ii_IndexAttrNumbers[i];

		if (attno != 0)
			build->columns = bms_add_member(build->columns,
											attno -
											FirstLowInvalidHeapAttributeNumber);
	}
	pull_varattnos((Node *) info->ii_Expressions, 1, &build->columns);
	pull_varattnos((Node *) info->ii_Predicate, 1, &build->columns);
}

static void
build_end(Build *build)
{
	ExecDropSingleTupleTableSlot(build->ended_slot);
	ExecDropSingleTupleTableSlot(build->slot);
	bms_free(build->columns);
	bms_free(build->hard);
	FreeExecutorState(build->estate);
	/* these pointed into the executor state */
	build->info->ii_ExpressionsState = NIL;
	build->info->ii_PredicateState = NULL;
}

/* does the index look at a column of the table */
static bool
looks_at(Build *build, AttrNumber attno)
{
	return bms_is_member(attno - FirstLowInvalidHeapAttributeNumber,
						 build->columns) ||
		bms_is_member(-FirstLowInvalidHeapAttributeNumber, build->columns);
}

static bool
build_form_datum_of(Build *build, TupleTableSlot *slot)
{
	if (build->predicate != NULL &&
		!ExecQual(build->predicate, build->econtext))
		return false;
	FormIndexDatum(build->info, slot, build->estate, build->values,
				   build->isnull);
	return true;
}

/* index columns of the row in the tuple slot; false: not for this index */
static bool
build_form_datum(Build *build)
{
	MemoryContextReset(build->econtext->ecxt_per_tuple_memory);
	return build_form_datum_of(build, build->slot);
}

/*
 * Of a version that was ended, if it was, a value that may be out of line:
 * fetch it.  False: it is gone, with the snapshots that may see it.
 */
static bool
fetch_ended_value(Form_pg_attribute att, Datum *value, bool isnull,
				  Fxid ended_by)
{
	struct varlena *large = (struct varlena *) DatumGetPointer(*value);

	AssertNoPageLocked();
	if (isnull || att->attlen != -1 || !VARATT_IS_EXTERNAL_ONDISK(large) ||
		ended_by == InvalidFxid)
		return true;
	UNDO_ERROR_POINT("index-version-judged");
	large = zheap_chunk_fetch_ended(large, ended_by);
	*value = PointerGetDatum(large);
	return large != NULL;
}

/*
 * The same for a version that was replaced or deleted.  The snapshots that may
 * see it can have gone since it was judged, and its large values with them:
 * then it needs no entry.  So those that the index looks at are fetched first.
 */
static bool
build_form_ended_datum(Build *build, Fxid ended_by)
{
	TupleTableSlot *from = build->slot;
	TupleTableSlot *to = build->ended_slot;
	TupleDesc	desc = from->tts_tupleDescriptor;
	MemoryContext old;
	bool		belongs;

	Assert(ended_by != InvalidFxid);
	AssertNoPageLocked();
	MemoryContextReset(build->econtext->ecxt_per_tuple_memory);
	old = MemoryContextSwitchTo(build->econtext->ecxt_per_tuple_memory);
	ExecClearTuple(to);
	slot_getallattrs(from);
	for (int i = 0; i < desc->natts; i++)
	{
		to->tts_values[i] = from->tts_values[i];
		to->tts_isnull[i] = from->tts_isnull[i];
		if (looks_at(build, i + 1) &&
			!fetch_ended_value(TupleDescAttr(desc, i), &to->tts_values[i],
							   to->tts_isnull[i], ended_by))
		{
			MemoryContextSwitchTo(old);
			return false;
		}
	}
	ExecStoreVirtualTuple(to);
	MemoryContextSwitchTo(old);

	build->econtext->ecxt_scantuple = to;
	belongs = build_form_datum_of(build, to);
	build->econtext->ecxt_scantuple = from;
	return belongs;
}

/* ----------------------------------------------------------------
 *	ordinary build
 * ----------------------------------------------------------------
 */

/* an image of a row before its newest */
typedef struct OlderImage
{
	int			row;			/* index in scan->row */
	uint16		len;
	Fxid		ended_by;		/* replaced by this transaction */
	char		data[FLEXIBLE_ARRAY_MEMBER];
} OlderImage;

/* can a snapshot be open that doesn't see what this foreign xid committed */
static bool
is_recent(Build *build, Fxid writer, const UndoHorizons *hz)
{
	return !zheap_xact_slot_seen_by_all(build->rel, writer, hz, NULL);
}

/* would an index that sums up blocks have the same of it as of the one before */
static bool
adds_nothing(Build *build, int row, const char *image, uint16 len)
{
	const OlderImage *last;
	Bitmapset  *changed;

	if (build->soft || build->older == NIL ||
		bms_is_member(-FirstLowInvalidHeapAttributeNumber, build->columns))
		return false;
	last = llast(build->older);
	if (last->row != row)
		return false;
	changed = zheap_same_changed(build->rel, build->columns, last->data,
								 last->len, image, len);
	if (bms_is_empty(changed))
		return true;
	bms_free(changed);
	return false;
}

static void
keep_older_image(Build *build, int row, Fxid ended_by, const char *image,
				 uint16 len)
{
	OlderImage *older;

	Assert(ended_by != InvalidFxid && len >= ZHEAP_HEADER_SIZE);
	if (adds_nothing(build, row, image, len))
		return;
	older = palloc(offsetof(OlderImage, data) + len);
	older->row = row;
	older->len = len;
	older->ended_by = ended_by;
	memcpy(older->data, image, len);
	build->older = lappend(build->older, older);
}

/*
 * An index that sums up blocks must cover the images of a row that snapshots
 * or a rollback may come back to, which in-place updates can have given other
 * values, and a soft index must have their keys (Z47): keep all before the
 * newest, down to the first that is settled; for the first, only those whose
 * values of it differ from the next newer's.  Not those that aborted: nobody
 * comes back to them, and their large values may be gone (Z43).  Where VACUUM
 * has stamped the page there is nothing before the newest, and there must not
 * be an entry of it again (Z52).  The page is locked; allocates.
 */
static void
collect_older_images(Build *build, ZReadContext *cx, Buffer buffer, Page page,
					 OffsetNumber off, int row)
{
	char	   *image = palloc(BLCKSZ);
	uint16		len = 0;
	Fxid		ended_by = InvalidFxid; /* of an image in undo */
	ZWalk		walk;
	ZWalkState	state;

	AssertPageLocked(buffer);
	zheap_walk_init(&walk, build->rel, &cx->reader, &cx->hz,
					build->scan->block, off, image, &len);
	state = zheap_walk_start(&walk, page);
	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(&walk, buffer);
		Fxid		newer;

		if (status == ZXACT_ALL_VISIBLE ||
			(status == ZXACT_COMMITTED &&
			 !is_recent(build, walk.fxid, &cx->hz)))
			break;
		switch (zheap_walk_find(&walk, status == ZXACT_ABORTED))
		{
			case ZFIND_FOUND:
				break;
			case ZFIND_OTHER:
				continue;
			default:
				state = ZWALK_SETTLED;
				continue;
		}
		if (ended_by != InvalidFxid && status != ZXACT_ABORTED)
			keep_older_image(build, row, ended_by, image, len);
		ended_by = InvalidFxid;
		if (ZUndoIsInsert(&walk.undo))
			break;
		newer = walk.fxid;
		state = zheap_walk_step_back(&walk);
		if (state != ZWALK_NONE)
			ended_by = newer;
	}
	if (ended_by != InvalidFxid)
		keep_older_image(build, row, ended_by, image, len);
	zheap_walk_forget_missing(&walk);
	pfree(image);
}

/*
 * Judge one row of the locked page: keep its image if it is to be indexed.
 * Returns false if its writer must be waited for first.
 */
static bool
judge_row(Build *build, ZReadContext *cx, Buffer buffer, Page page,
		  OffsetNumber off)
{
	ZScanDesc	scan = build->scan;
	ZVersion   *v = &scan->version;
	ZXactStatus status;
	ZTupleHeader header;
	bool		visible PG_USED_FOR_ASSERTS_ONLY;
	bool		changing;
	int			i;

	AssertPageLocked(buffer);
	visible = zheap_visibility_find(cx, buffer, page, scan->block, off, v);
	if (v->len == 0)
		return true;			/* nothing, or nothing but aborted changes */
	Assert(visible == !v->ended);
	status = zheap_xact_slot_fxid_status(v->writer, &cx->hz);

	/* ended for everybody */
	if (v->ended &&
		(status == ZXACT_ALL_VISIBLE ||
		 (status == ZXACT_COMMITTED && !is_recent(build, v->writer, &cx->hz))))
		return true;

	/*
	 * A foreign transaction in progress: unexpected under the ShareLock of an
	 * ordinary build, unless all rows are wanted anyway.
	 */
	changing = status == ZXACT_RUNNING;
	if (changing && !build->anyvisible && build->unique)
	{
		build->wait_for = v->writer;
		build->wait_off = off;
		return false;
	}

	/* does some snapshot see another image of the row */
	zheap_header_get(v->data, &header);
	if ((header.flags2 & ZH_INPLACE) != 0 && !build->anyvisible &&
		status != ZXACT_ALL_VISIBLE &&
		(v->ended || status != ZXACT_COMMITTED ||
		 is_recent(build, v->writer, &cx->hz)))
		build->info->ii_BrokenHotChain = true;

	i = scan->nrows;
	if (status != ZXACT_ALL_VISIBLE &&
		(((header.flags2 & ZH_INPLACE) != 0 && build->anyvisible) ||
		 (build->soft && zheap_page_row_is_stale(page, off) &&
		  !zheap_page_row_is_swept(page, off))))
		collect_older_images(build, cx, buffer, page, off, i);
	zheap_scan_add_row(scan, off, v);
	build->ended_by[i] = v->ended ? v->writer : InvalidFxid;

	/* count as ANALYZE does, but for rows in progress that were asked for */
	if (v->ended)
		build->counted[i] = changing;
	else
		build->counted[i] = !changing || build->anyvisible ||
			v->kind == ZUNDO_UPDATE;
	return true;
}

/*
 * Judge all rows of scan->block, whose pinned buffer it is; false: wait for
 * build->wait_for, try again.
 */
static bool
judge_page(Build *build, Buffer buffer)
{
	ZScanDesc	scan = build->scan;
	ZReadContext cx;
	Page		page;
	bool		done = true;

	Assert(BufferGetBlockNumber(buffer) == scan->block);
	AssertNoPageLocked();
	zheap_scan_clear_rows(scan);
	list_free_deep(build->older);
	build->older = NIL;
	zheap_visibility_begin(&cx, build->rel, SnapshotAny);
	zheap_rollback_limit_reader(&cx);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (!PageIsNew(page))
	{
		OffsetNumber max;

		zheap_page_check(build->rel, scan->block, page);
		max = PageGetMaxOffsetNumber(page);
		for (OffsetNumber off = FirstOffsetNumber; off <= max && done; off++)
		{
			if (ItemIdIsUsed(PageGetItemId(page, off)))
				done = judge_row(build, &cx, buffer, page, off);
		}
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);
	if (cx.too_long)
	{
		zheap_rollback_for_reader(build->rel, scan->block);
		return judge_page(build, buffer);
	}
	return done;
}

/*
 * Was this key of the row indexed already, or one that is equal to it (Z48)?
 * Then its snapshots don't use the index, as with columns that differ.  The
 * values built are those of "older".
 */
static bool
key_was_before(Build *build, const ListCell *upto, const OlderImage *older)
{
	ZScanDesc	scan = build->scan;
	ZScanRow   *row = &scan->row[older->row];
	IndexTuple	entry = index_form_tuple(RelationGetDescr(build->index),
										 build->values, build->isnull);
	ListCell   *lc;
	bool		before;

	Assert(build->soft && older->row < scan->nrows);
	before = zheap_keyed_is_equal(build->rel, build->index, entry,
								  scan->rows->data + row->at, row->len);
	foreach(lc, build->older)
	{
		OlderImage *other = lfirst(lc);

		if (lc == upto || before)
			break;
		before = other->row == older->row &&
			zheap_keyed_is_equal(build->rel, build->index, entry, other->data,
								 other->len);
	}
	pfree(entry);
	return before;
}

/*
 * The ended tuple slot has an older image: are a soft index's hard columns the
 * same as in the newest?  If not, the index wasn't there when they changed, and
 * whoever sees that image doesn't use it (ii_BrokenHotChain); an entry would
 * show others a row with the wrong expression, or one beyond the predicate,
 * since searches compare plain keys only.
 */
static bool
has_hard_columns_of_newest(Build *build, const OlderImage *older)
{
	TupleDesc	desc = RelationGetDescr(build->rel);
	ZScanRow   *newest = &build->scan->row[older->row];
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	bool		same = true;
	int			x = -1;
	MemoryContext old;

	if (bms_is_empty(build->hard))
		return true;
	old = MemoryContextSwitchTo(build->econtext->ecxt_per_tuple_memory);
	zheap_tuple_deform_raw(desc, build->scan->rows->data + newest->at,
						   newest->len, values, isnull);
	while (same && (x = bms_next_member(build->hard, x)) >= 0)
	{
		int			at = x + FirstLowInvalidHeapAttributeNumber - 1;

		/* of all columns one has changed */
		same = at >= 0 &&
			fetch_ended_value(TupleDescAttr(desc, at), &values[at], isnull[at],
							  build->ended_by[older->row]) &&
			zheap_same_value(TupleDescAttr(desc, at), values[at], isnull[at],
							 build->ended_slot->tts_values[at],
							 build->ended_slot->tts_isnull[at],
							 true) == ZSAME_YES;
	}
	MemoryContextSwitchTo(old);
	return same;
}

/*
 * What collect_older_images() has found; their rows are counted already.  A
 * soft index gets each key of a row once (Z48).
 */
static void
index_older_images(Build *build, IndexBuildCallback callback,
				   void *callback_state)
{
	ListCell   *lc;

	AssertNoPageLocked();
	foreach(lc, build->older)
	{
		OlderImage *older = lfirst(lc);
		ItemPointerData tid;

		CHECK_FOR_INTERRUPTS();
		ItemPointerSet(&tid, build->scan->block,
					   build->scan->row[older->row].off);
		zheap_tuple_slot_store(build->slot, RelationGetRelid(build->rel), &tid,
							   older->data, older->len, InvalidFxid,
							   FirstCommandId);
		if (!build_form_ended_datum(build, older->ended_by) ||
			(build->soft && (!has_hard_columns_of_newest(build, older) ||
							 key_was_before(build, lc, older))))
			continue;
		callback(build->index, &tid, build->values, build->isnull, false,
				 callback_state);
	}
}

/* all rows of the scan, whatever snapshots see */
static void
build_from_newest(Build *build, IndexBuildCallback callback,
				  void *callback_state, bool progress)
{
	ZScanDesc	scan = build->scan;

	for (;;)
	{
		Buffer		buffer =
			zheap_scan_next_buffer(scan, ForwardScanDirection);

		if (!BufferIsValid(buffer))
			break;
		if (progress)
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE,
										 zheap_scan_blocks_done(scan));
		while (!judge_page(build, buffer))
		{
			ItemPointerData tid;

			ItemPointerSet(&tid, scan->block, build->wait_off);
			AssertNoPageLocked();
			Assert(build->wait_for != InvalidFxid);
			XactLockTableWait(XidFromFxid(build->wait_for), build->rel, &tid,
							  XLTW_InsertIndexUnique);
			CHECK_FOR_INTERRUPTS();
		}
		ReleaseBuffer(buffer);

		for (int i = 0; i < scan->nrows; i++)
		{
			bool		alive;

			CHECK_FOR_INTERRUPTS();
			if (build->counted[i])
				build->reltuples += 1;
			zheap_scan_store_row(scan, i, build->slot);
			alive = build->ended_by[i] == InvalidFxid;
			if (alive ? build_form_datum(build) :
				build_form_ended_datum(build, build->ended_by[i]))
				callback(build->index, &build->slot->tts_tid, build->values,
						 build->isnull, alive, callback_state);
		}
		index_older_images(build, callback, callback_state);
	}
}

/* what an MVCC snapshot sees: first phase of a concurrent build */
static void
build_from_snapshot(Build *build, IndexBuildCallback callback,
					void *callback_state, bool progress)
{
	BlockNumber previous = InvalidBlockNumber;

	Assert(build->scan->page_mode && !build->anyvisible);
	while (zheap_scan_getnextslot((TableScanDesc) build->scan,
								  ForwardScanDirection, build->slot))
	{
		CHECK_FOR_INTERRUPTS();
		if (progress && build->scan->block != previous)
		{
			previous = build->scan->block;
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE,
										 zheap_scan_blocks_done(build->scan));
		}
		build->reltuples += 1;
		if (build_form_datum(build))
			callback(build->index, &build->slot->tts_tid, build->values,
					 build->isnull, true, callback_state);
	}
}

double
zheap_index_build_range_scan(Relation rel, Relation index,
							 struct IndexInfo *info, bool allow_sync,
							 bool anyvisible, bool progress,
							 BlockNumber start, BlockNumber nblocks,
							 IndexBuildCallback callback,
							 void *callback_state, TableScanDesc sscan)
{
	Build	   *build = palloc(sizeof(Build));
	Snapshot	registered = NULL;
	double		reltuples;

	build_start(build, rel, index, info);
	build->anyvisible = anyvisible;
	Assert(!(anyvisible && build->unique));

	if (sscan == NULL)
	{
		Snapshot	snapshot = SnapshotAny;

		if (info->ii_Concurrent)
			snapshot = registered = RegisterSnapshot(GetTransactionSnapshot());
		sscan = table_beginscan_strat(rel, snapshot, 0, NULL, true,
									  allow_sync);
	}
	build->scan = (ZScanDesc) sscan;
	Assert(sscan->rs_snapshot == SnapshotAny ||
		   IsMVCCSnapshot(sscan->rs_snapshot));
	Assert(sscan->rs_snapshot == SnapshotAny || !anyvisible);

	if (!allow_sync)
		zheap_scan_set_limits(build->scan, start, nblocks);
	else
		Assert(start == 0 && nblocks == InvalidBlockNumber);
	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL,
									 zheap_scan_blocks_total(build->scan));

	if (sscan->rs_snapshot == SnapshotAny)
		build_from_newest(build, callback, callback_state, progress);
	else
		build_from_snapshot(build, callback, callback_state, progress);

	if (progress)
		pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE,
									 zheap_scan_blocks_total(build->scan));
	table_endscan(sscan);
	if (registered != NULL)
		UnregisterSnapshot(registered);

	reltuples = build->reltuples;
	build_end(build);
	pfree(build);
	if (info->ii_ExclusionOps != NULL)
		zheap_exclusion_index_built(rel);
	return reltuples;
}

/* ----------------------------------------------------------------
 *	validation
 * ----------------------------------------------------------------
 */

/* go on in the sorted TIDs of the index until they reach *tid */
static bool
next_index_tid(ValidateIndexState *state, ItemPointer tid)
{
	Datum		value;
	bool		isnull;

	if (!tuplesort_getdatum(state->tuplesort, true, true, &value, &isnull,
							NULL))
		return false;
	Assert(!isnull);
	itemptr_decode(tid, DatumGetInt64(value));
#ifndef USE_FLOAT8_BYVAL
	pfree(DatumGetPointer(value));
#endif
	return true;
}

/*
 * Insert the rows that the snapshot sees and the index hasn't.  Both come in
 * the order of their TIDs: the table is read from its first block on.
 */
void
zheap_index_build_validate(Relation rel, Relation index,
						   struct IndexInfo *info, Snapshot snapshot,
						   struct ValidateIndexState *state)
{
	Build	   *build = palloc(sizeof(Build));
	TableScanDesc sscan;
	ItemPointerData in_index;
	bool		more;
	BlockNumber previous = InvalidBlockNumber;

	Assert(IsMVCCSnapshot(snapshot));
	build_start(build, rel, index, info);
	sscan = table_beginscan_strat(rel, snapshot, 0, NULL, true, false);
	build->scan = (ZScanDesc) sscan;
	pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_TOTAL,
								 zheap_scan_blocks_total(build->scan));

	more = next_index_tid(state, &in_index);
	while (table_scan_getnextslot(sscan, ForwardScanDirection, build->slot))
	{
		ItemPointerData tid = build->slot->tts_tid;

		CHECK_FOR_INTERRUPTS();
		state->htups += 1;
		if (build->scan->block != previous)
		{
			previous = build->scan->block;
			pgstat_progress_update_param(PROGRESS_SCAN_BLOCKS_DONE, previous);
		}

		while (more && ItemPointerCompare(&in_index, &tid) < 0)
			more = next_index_tid(state, &in_index);
		if (more && ItemPointerEquals(&in_index, &tid))
			continue;

		if (!build_form_datum(build))
			continue;
		index_insert(index, build->values, build->isnull, &tid, rel,
					 info->ii_Unique ? UNIQUE_CHECK_YES : UNIQUE_CHECK_NO,
					 false, info);
		state->tups_inserted += 1;
	}

	table_endscan(sscan);
	build_end(build);
	pfree(build);
}
