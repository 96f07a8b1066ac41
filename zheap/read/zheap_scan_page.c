/*-------------------------------------------------------------------------
 *
 * zheap_scan_page.c
 *	  The rows that a table scan finds on a page, and the next of them:
 *	  sequential scans.
 *
 * Page mode (MVCC snapshots): a page is copied under its share lock and given
 * up; where the snapshot doesn't see all of it, the copy is taken back to what
 * it sees, and rows of which that can't tell are looked for on the page again.
 * Nothing changed later can change what the scan returns, in-place updates of the
 * scanning command itself included.  Tuple slots share that copy, which is
 * never changed while one does.  Other snapshots judge row by row, because
 * their callers want the state of the moment.
 *
 * The visibility map and the page's all-visible flag are never asked: with
 * updates in place they don't tell which version to show.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/skey.h"
#include "pgstat.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/sees/zheap_tid_memory.h"

/* ----------------------------------------------------------------
 *	rows of a page, copied
 * ----------------------------------------------------------------
 */

/* make room for size bytes more */
static void
reserve_rows(ZScanDesc scan, uint32 size)
{
	uint32		need = scan->rowsused + size;

	Assert(scan->rows == NULL || scan->rows->refs == 1);
	if (likely(scan->rows != NULL && need <= scan->rows->size))
		return;
	need = Max(need * 2, 2 * BLCKSZ);
	if (scan->rows == NULL)
	{
		scan->rows = MemoryContextAlloc(GetMemoryChunkContext(scan),
										offsetof(ZRows, data) + need);
		scan->rows->refs = 1;
	}
	else
		scan->rows = repalloc(scan->rows, offsetof(ZRows, data) + need);
	scan->rows->size = need;
}

void
zheap_scan_add_row(ZScanDesc scan, OffsetNumber off, const ZVersion *v)
{
	ZScanRow   *row = &scan->row[scan->nrows++];

	Assert(scan->nrows <= MaxHeapTuplesPerPage);
	Assert(v->len >= ZHEAP_HEADER_SIZE && off >= FirstOffsetNumber);
	Assert(scan->nrows == 1 || row[-1].off < off);
	reserve_rows(scan, v->len);
	memcpy(scan->rows->data + scan->rowsused, v->data, v->len);
	row->off = off;
	row->len = v->len;
	row->at = scan->rowsused;
	row->writer = v->writer;
	row->cid = v->cid;
	row->approximate = v->approximate;
	scan->rowsused += v->len;
}

static inline void
store_row(ZScanDesc scan, int i, TupleTableSlot *slot)
{
	const ZScanRow *row = &scan->row[i];

	Assert(i >= 0 && i < scan->nrows);
	zheap_slot_show(slot, RelationGetRelid(scan->base.rs_rd), scan->block,
					row->off, scan->rows, scan->rows->data + row->at,
					row->len, row->writer, row->cid, row->approximate);
}

void
zheap_scan_store_row(ZScanDesc scan, int i, TupleTableSlot *slot)
{
	store_row(scan, i, slot);
}

/*
 * Copy a page to where rows are kept, so that each byte of a row has the same
 * offset there; the rows of the copy aren't listed yet.
 */
static void
copy_page(ZScanDesc scan, Page page)
{
	PageHeader	ph = (PageHeader) page;

	Assert(scan->rowsused == 0);
	Assert(zheap_page_is_valid(page));
	reserve_rows(scan, BLCKSZ);
	/* not memcpy(), which compilers replace by slower code where it's so big */
	memmove(scan->rows->data, page, ph->pd_lower);
	memset(scan->rows->data + ph->pd_lower, 0, ph->pd_upper - ph->pd_lower);
	memmove(scan->rows->data + ph->pd_upper, (char *) page + ph->pd_upper,
			BLCKSZ - ph->pd_upper);
	scan->rowsused = BLCKSZ;
}

/*
 * List a row of the page's copy that is visible as it stands, unless it has
 * ended.
 */
static inline void
list_row(ZScanDesc scan, const ZOwners *owners, OffsetNumber off, ItemId lp,
		 char *tuple, ZTupleHeader *header)
{
	ZScanRow   *row = &scan->row[scan->nrows];

	Assert(scan->nrows < MaxHeapTuplesPerPage && scan->rowsused >= BLCKSZ);
	if (unlikely(ZHeaderIsEnded(header)))
		return;
	row->off = off;
	row->len = ItemIdGetLength(lp);
	row->at = ItemIdGetOffset(lp);
	row->writer = (header->flags2 & ZH_LOCK_ONLY) != 0 ? InvalidFxid :
		owners->writer[header->slot];
	row->cid = FirstCommandId;
	row->approximate = ZHeaderReused(header) != ZH_REUSED_NONE ||
		header->slot == owners->own;
	if (unlikely(header->natts_flags1 & ZH_SLACK))
	{
		row->len = zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
		header->natts_flags1 &= ~ZH_SLACK;
		zheap_header_put(tuple, header);
	}
	scan->nrows++;
}

/* resolve one row under the page's share lock and keep what is visible */
static void
add_visible(ZScanDesc scan, ZReadContext *cx, Buffer buffer, Page page,
			OffsetNumber off, bool predicate_lock)
{
	ZVersion   *v = &scan->version;

	AssertPageLocked(buffer);
	if (!ItemIdIsUsed(PageGetItemId(page, off)))
		return;
	if (!zheap_visibility_find(cx, buffer, page, scan->block, off, v))
		return;
	zheap_scan_add_row(scan, off, v);
	if (predicate_lock)
		zheap_predicate_lock(scan->base.rs_rd, scan->base.rs_snapshot,
							 scan->block, off, v);
	zheap_version_forget(v);
}

/* List a row that was restored in the page's copy, unless it has ended. */
static inline void
list_restored(ZScanDesc scan, const ZOldPage *old, OffsetNumber off,
			  ItemId lp, char *tuple, ZTupleHeader *header)
{
	ZScanRow   *row = &scan->row[scan->nrows];

	Assert(scan->nrows < MaxHeapTuplesPerPage);
	Assert(old->len[off] >= ZHEAP_HEADER_SIZE &&
		   old->state[off] == ZOLD_FOUND);
	if (ZHeaderIsEnded(header))
		return;
	row->off = off;
	row->len = old->len[off];
	row->at = ItemIdGetOffset(lp);
	row->writer = old->writer[off];
	row->cid = FirstCommandId;
	row->approximate = ZHeaderReused(header) != ZH_REUSED_NONE;
	header->natts_flags1 &= ~ZH_SLACK;
	zheap_header_put(tuple, header);
	scan->nrows++;
}

/* Have the page locked that was given up when it had been copied. */
static void
lock_again(ZReadContext *cx, Buffer buffer, bool *locked)
{
	if (*locked)
		return;
	AssertNoPageLocked();
	zheap_visibility_resample(cx);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	*locked = true;
}

/*
 * A row of which the copy doesn't say all, from the page itself.  That may have
 * changed since it was copied; what the snapshot sees of a row has not.
 */
static void
add_from_page(ZScanDesc scan, ZReadContext *cx, Buffer buffer,
			  OffsetNumber off, bool *locked)
{
	Page		page = BufferGetPage(buffer);
	bool		own;

	lock_again(cx, buffer, locked);
	/* a line pointer that was cut off led to nobody's row */
	if (off <= PageGetMaxOffsetNumber(page) &&
		!zheap_visibility_is_past(cx, buffer, page, off, &own))
		add_visible(scan, cx, buffer, page, off, false);
}

#ifdef USE_ASSERT_CHECKING
/* is a walk through the row's history of the same opinion? */
static bool
walk_agrees(ZScanDesc scan, ZReadContext *cx, Buffer buffer, OffsetNumber off,
			const ZOldPage *old, const char *tuple,
			const ZTupleHeader *header, bool *locked)
{
	ZVersion   *v = &scan->version;
	Page		page = BufferGetPage(buffer);
	bool		shown = old->state[off] == ZOLD_FOUND &&
		!ZHeaderIsEnded(header);

	lock_again(cx, buffer, locked);
	if (off > PageGetMaxOffsetNumber(page) ||
		!zheap_visibility_find(cx, buffer, page, scan->block, off, v))
		return !shown || cx->too_long;
	return shown && zheap_same_row(v->data, v->len, tuple, old->len[off]);
}
#endif

/*
 * All rows of a page that the snapshot sees.  Where every owner is visible to
 * it, and for rows whose owner is, the version on the page is the one.  What
 * the snapshot doesn't see is taken back in the copy, after what was aborted,
 * which nobody sees; rows for which that won't do are walked.
 *
 * buffer is locked, share.  Unlocks it as soon as nothing is read from it any
 * more, or nothing until a row is walked; returns whether it is locked still.
 */
static bool
list_page(ZScanDesc scan, ZReadContext *cx, Buffer buffer, Page page)
{
	ZOwners		owners;
	ZOldPage	old;
	bool		restored;
	bool		walk;
	bool		locked = true;
	Page		copy;
	OffsetNumber max;

	AssertPageLocked(buffer);
	Assert(scan->nrows == 0 && cx->snapshot->snapshot_type == SNAPSHOT_MVCC);
	walk =
		!zheap_visibility_page_owners(cx, buffer, page, scan->block, &owners);
	copy_page(scan, page);
	if (unlikely(owners.aborted))
	{
		copy = (Page) scan->rows->data;
		zheap_rollback_copy(cx, copy, scan->block);
		walk =
			!zheap_visibility_page_owners(cx, InvalidBuffer, copy, scan->block,
										  &owners);
	}
	restored = walk && zheap_old_page_is_possible(cx, &owners);
	if (!walk || restored)
	{
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		locked = false;
		UNDO_POINT("page-copied");
	}
	if (restored)
		zheap_old_page_restore(cx, (Page) scan->rows->data, scan->block,
							   &owners, &old);

	/* rows that are walked may have rows->data moved */
	copy = (Page) scan->rows->data;
	max = PageGetMaxOffsetNumber(copy);
	for (OffsetNumber off = FirstOffsetNumber; off <= max && !cx->too_long;
		 off++)
	{
		ItemId		lp = PageGetItemId(copy, off);
		char	   *tuple;
		ZTupleHeader header;

		if (unlikely(!ItemIdIsNormal(lp)))
		{
			if (walk && ItemIdIsUsed(lp))
			{
				add_from_page(scan, cx, buffer, off, &locked);
				copy = (Page) scan->rows->data;
			}
			continue;
		}
		if (unlikely(!zheap_item_is_in_page(copy, lp)))
			zheap_walk_corrupt(scan->base.rs_rd, scan->block, off,
							   "a tuple within its page");
		tuple = (char *) copy + ItemIdGetOffset(lp);
		zheap_header_get(tuple, &header);
		if (restored && old.state[off] != ZOLD_AS_IT_STANDS &&
			old.state[off] != ZOLD_WALK)
		{
			Assert(cx->too_long || undo_debug_damage ||
				   walk_agrees(scan, cx, buffer, off, &old, tuple, &header,
							   &locked));
			if (old.state[off] == ZOLD_FOUND)
				list_restored(scan, &old, off, lp, tuple, &header);
			continue;
		}
		/* headers that were restored say nothing about the page as it is */
		if (unlikely(header.slot > owners.n) && header.slot != ZXACT_SHARED &&
			!(restored && old.state[off] == ZOLD_WALK))
			zheap_walk_corrupt(scan->base.rs_rd, scan->block, off,
							   "an xact slot id of this page");
		if (restored ? old.state[off] == ZOLD_WALK :
			(owners.unseen[header.slot] &&
			 (header.flags2 & ZH_LOCK_ONLY) == 0))
		{
			add_from_page(scan, cx, buffer, off, &locked);
			copy = (Page) scan->rows->data;
			continue;
		}
		list_row(scan, &owners, off, lp, tuple, &header);
	}
	return locked;
}

/* Of the rows that are listed, those at the offsets, which ascend. */
static void
keep_chosen(ZScanDesc scan, const OffsetNumber *offsets, int noffsets)
{
	int			nrows = 0;

	for (int i = 0, at = 0; i < scan->nrows; i++)
	{
		while (at < noffsets && offsets[at] < scan->row[i].off)
			at++;
		if (at == noffsets)
			break;
		Assert(at == 0 || offsets[at - 1] < offsets[at]);
		if (offsets[at] == scan->row[i].off)
			scan->row[nrows++] = scan->row[i];
	}
	scan->nrows = nrows;
}

/* Where one of so many rows of a page is chosen, all are looked at at once. */
#define ONE_CHOSEN_OF		4

Page
zheap_scan_lock_page(ZScanDesc scan, Buffer buffer, Snapshot snapshot,
					 ZReadContext *cx)
{
	Relation	rel = scan->base.rs_rd;
	Page		page = BufferGetPage(buffer);

	AssertNoPageLocked();
	zheap_visibility_begin(cx, rel, snapshot);
	cx->approximate_identity = true;
	zheap_rollback_limit_reader(cx);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page))
		zheap_page_check(rel, scan->block, page);
	return page;
}

/*
 * Page mode: collect what the snapshot sees of scan->block, which is in that
 * pinned buffer; of the listed offsets only, if any are given.  False: the
 * page has a long history: zheap_rollback_for_reader() first.
 */
static bool
try_load_page(ZScanDesc scan, Buffer buffer, const OffsetNumber *offsets,
			  int noffsets, bool predicate_lock)
{
	Relation	rel = scan->base.rs_rd;
	ZReadContext cx;
	Page		page;
	bool		locked = true;

	Assert(scan->page_mode);
	Assert(BufferGetBlockNumber(buffer) == scan->block);
	zheap_scan_clear_rows(scan);
	zheap_buffer_note(rel, scan->block, buffer);
	scan->ahead = zheap_buffer_next_page(rel, buffer, scan->strategy);
	scan->ahead_end = scan->ahead != NULL ? scan->ahead + BLCKSZ : NULL;
	scan->stale = false;
	page = zheap_scan_lock_page(scan, buffer, scan->base.rs_snapshot, &cx);
	cx.reader.gather = scan->gather;

	if (!PageIsNew(page))
	{
		OffsetNumber max;

		max = scan->maxoff = PageGetMaxOffsetNumber(page);
		scan->stale = ZPageMayHoldStale(page);

		if ((offsets == NULL || noffsets * ONE_CHOSEN_OF >= max) &&
			!predicate_lock &&
			scan->base.rs_snapshot->snapshot_type == SNAPSHOT_MVCC)
		{
			locked = list_page(scan, &cx, buffer, page);
			if (offsets != NULL)
				keep_chosen(scan, offsets, noffsets);
		}
		else if (offsets != NULL)
		{
			for (int i = 0; i < noffsets; i++)
			{
				if (offsets[i] >= FirstOffsetNumber && offsets[i] <= max)
					add_visible(scan, &cx, buffer, page, offsets[i],
								predicate_lock);
			}
		}
		else
		{
			for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
				add_visible(scan, &cx, buffer, page, off, predicate_lock);
		}
	}

	if (locked)
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);
	return !cx.too_long;
}

void
zheap_scan_load_page(ZScanDesc scan, Buffer buffer,
					 const OffsetNumber *offsets, int noffsets,
					 bool predicate_lock)
{
	int64		reads;

	AssertNoPageLocked();
	Assert(noffsets <= MaxHeapTuplesPerPage || offsets != NULL);
	scan->gather = NULL;
	if (unlikely(zheap_scan_may_gather(scan)))
		buffer = zheap_scan_gather(scan, buffer);
	reads = pgBufferUsage.shared_blks_read;
	while (!try_load_page(scan, buffer, offsets, noffsets, predicate_lock))
		zheap_rollback_for_reader(scan->base.rs_rd, scan->block);
	scan->old_reads += pgBufferUsage.shared_blks_read - reads;
	ReleaseBuffer(buffer);
}

/* ----------------------------------------------------------------
 *	sequential scan
 * ----------------------------------------------------------------
 */

/* do the scan keys fit; slot holds the row */
static bool
keys_match(ZScanDesc scan, TupleTableSlot *slot)
{
	for (int i = 0; i < scan->base.rs_nkeys; i++)
	{
		ScanKey		key = &scan->base.rs_key[i];
		bool		isnull;
		Datum		value;

		if (key->sk_flags & SK_ISNULL)
			return false;
		value = slot_getattr(slot, key->sk_attno, &isnull);
		if (isnull ||
			!DatumGetBool(FunctionCall2Coll(&key->sk_func, key->sk_collation,
											value, key->sk_argument)))
			return false;
	}
	return true;
}

/* page mode: the next row into the tuple slot, keys not yet tested */
static bool
next_row_pagemode(ZScanDesc scan, ScanDirection direction,
				  TupleTableSlot *slot)
{
	bool		forward = ScanDirectionIsForward(direction);

	Assert(scan->page_mode && !BufferIsValid(scan->buffer));
	for (;;)
	{
		int			i = scan->current + (forward ? 1 : -1);
		Buffer		buffer;

		if (i >= 0 && i < scan->nrows)
		{
			scan->current = i;
			store_row(scan, i, slot);
			return true;
		}
		/* give the memory back, for the rows of the next block */
		ExecClearTuple(slot);
		buffer = zheap_scan_next_buffer(scan, direction);
		if (!BufferIsValid(buffer))
		{
			zheap_scan_clear_rows(scan);
			return false;
		}
		zheap_scan_load_page(scan, buffer, NULL, 0, false);
		scan->current = forward ? -1 : scan->nrows;
	}
}

/*
 * A version that a DIRTY snapshot found is named by the tag DIRTY, if nothing
 * is in progress on the row.  An insert of my own keeps the plain TID, since
 * core compares it with the TID it has just inserted.  So does any row while a
 * new exclusion constraint is checked, which compares in the same way.
 */
static bool
gets_dirty_tag(Relation rel, Snapshot snapshot, const ZVersion *v)
{
	return snapshot->snapshot_type == SNAPSHOT_DIRTY &&
		!TransactionIdIsValid(snapshot->xmin) &&
		!TransactionIdIsValid(snapshot->xmax) &&
		(!v->own || v->kind == ZUNDO_UPDATE) &&
		!zheap_exclusion_is_checked(rel);
}

void
zheap_scan_tag_dirty(Relation rel, Snapshot snapshot, const ZVersion *v,
					 ItemPointer tid)
{
	if (!gets_dirty_tag(rel, snapshot, v))
		return;
	zheap_tid_memory_note_dirty(RelationGetRelid(rel), tid, v->writer, v->cid);
	zheap_tid_set_tag(tid, ZTID_DIRTY);
}

/*
 * DIRTY, forwards: list the rows of the pinned page behind scan->off, up to
 * the first at which something is in progress, under one lock.  (A subscriber
 * looks for a row without a key in this way.)  What happens to a row between
 * now and its return is found out by whoever locks the version returned.
 */
static void
list_quiet(ZScanDesc scan)
{
	Relation	rel = scan->base.rs_rd;
	Snapshot	snapshot = scan->base.rs_snapshot;
	Page		page = BufferGetPage(scan->buffer);
	ZVersion   *v = &scan->version;
	ZReadContext cx;
	OffsetNumber max;

	AssertNoPageLocked();
	Assert(snapshot->snapshot_type == SNAPSHOT_DIRTY);
	zheap_scan_clear_rows(scan);
	scan->quiet_end = scan->off;

	zheap_visibility_begin(&cx, rel, snapshot);
	zheap_rollback_limit_reader(&cx);
	LockBuffer(scan->buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page))
	{
		zheap_page_check(rel, scan->block, page);
		max = PageGetMaxOffsetNumber(page);
		for (OffsetNumber off = OffsetNumberNext(scan->off); off <= max; off++)
		{
			if (ItemIdIsUsed(PageGetItemId(page, off)))
			{
				bool		found = zheap_visibility_find(&cx, scan->buffer,
														  page, scan->block,
														  off, v);

				if (cx.too_long ||
					TransactionIdIsValid(snapshot->xmin) ||
					TransactionIdIsValid(snapshot->xmax) ||
					(found && v->ended))
					break;
				if (found)
				{
					zheap_scan_add_row(scan, off, v);
					scan->row[scan->nrows - 1].tagged =
						gets_dirty_tag(rel, snapshot, v);
				}
			}
			scan->quiet_end = off;
		}
	}
	LockBuffer(scan->buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);

	scan->nquiet = scan->nrows;
	scan->nrows = 0;
}

/* the next row listed into the tuple slot; false if there is none */
static bool
next_quiet_row(ZScanDesc scan, TupleTableSlot *slot)
{
	Oid			relid = RelationGetRelid(scan->base.rs_rd);
	Snapshot	snapshot = scan->base.rs_snapshot;
	const ZScanRow *row;

	Assert(scan->next_quiet <= scan->nquiet);
	if (scan->next_quiet == scan->nquiet)
	{
		/* go on behind rows that nobody sees, too */
		if (scan->nquiet > 0)
			scan->off = scan->quiet_end;
		return false;
	}

	row = &scan->row[scan->next_quiet++];
	scan->off = row->off;
	snapshot->xmin = InvalidTransactionId;
	snapshot->xmax = InvalidTransactionId;
	snapshot->speculativeToken = 0;
	zheap_slot_show(slot, relid, scan->block, row->off, scan->rows,
					scan->rows->data + row->at, row->len, row->writer,
					row->cid, row->approximate);
	if (row->tagged)
	{
		zheap_tid_memory_note_dirty(relid, &slot->tts_tid, row->writer, row->cid);
		zheap_tid_set_tag(&slot->tts_tid, ZTID_DIRTY);
	}
	return true;
}

/* one row of the pinned page, judged under its lock */
static bool
judge_row(ZScanDesc scan, ScanDirection direction, TupleTableSlot *slot)
{
	Relation	rel = scan->base.rs_rd;
	bool		forward = ScanDirectionIsForward(direction);
	ZReadContext cx;
	Page		page = BufferGetPage(scan->buffer);
	bool		found = false;

	AssertNoPageLocked();
	Assert(!scan->page_mode);
	zheap_visibility_begin(&cx, rel, scan->base.rs_snapshot);
	zheap_rollback_limit_reader(&cx);
	LockBuffer(scan->buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page))
	{
		OffsetNumber max;
		OffsetNumber off;

		zheap_page_check(rel, scan->block, page);
		max = PageGetMaxOffsetNumber(page);
		if (scan->off == InvalidOffsetNumber)
			off = forward ? FirstOffsetNumber : max;
		else
			off = scan->off + (forward ? 1 : -1);

		for (; off >= FirstOffsetNumber && off <= max && !cx.too_long;
			 off += forward ? 1 : -1)
		{
			if (!ItemIdIsUsed(PageGetItemId(page, off)))
				continue;
			if (zheap_visibility_find(&cx, scan->buffer, page, scan->block,
									  off, &scan->version))
			{
				scan->off = off;
				found = true;
				break;
			}
		}
	}
	LockBuffer(scan->buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);

	if (!found && cx.too_long)
	{
		zheap_rollback_for_reader(rel, scan->block);
		return judge_row(scan, direction, slot);
	}
	if (found)
	{
		ZVersion   *v = &scan->version;
		ItemPointerData tid;

		ItemPointerSet(&tid, scan->block, scan->off);
		zheap_scan_tag_dirty(rel, scan->base.rs_snapshot, v, &tid);
		zheap_tuple_slot_store(slot, RelationGetRelid(rel), &tid, v->data,
							   v->len,
							   v->writer, v->cid);
		zheap_tuple_slot_set_unsure(slot, v->approximate, v->ended);
		zheap_version_forget(v);
	}
	return found;
}

static bool
next_row_single(ZScanDesc scan, ScanDirection direction,
				TupleTableSlot *slot)
{
	bool		list = ScanDirectionIsForward(direction) &&
		scan->base.rs_snapshot->snapshot_type == SNAPSHOT_DIRTY;

	Assert(!scan->page_mode);
	if (!list && scan->nquiet > 0)
		zheap_scan_clear_rows(scan);
	for (;;)
	{
		if (BufferIsValid(scan->buffer))
		{
			if (list)
			{
				if (next_quiet_row(scan, slot))
					return true;
				/* give the memory back, for further rows */
				ExecClearTuple(slot);
				list_quiet(scan);
				if (next_quiet_row(scan, slot))
					return true;
			}
			if (judge_row(scan, direction, slot))
				return true;
			zheap_scan_unpin(scan);
		}
		zheap_scan_clear_rows(scan);
		scan->buffer = zheap_scan_next_buffer(scan, direction);
		if (!BufferIsValid(scan->buffer))
			return false;
		scan->off = InvalidOffsetNumber;
	}
}

bool
zheap_scan_getnextslot(TableScanDesc sscan, ScanDirection direction,
					   TupleTableSlot *slot)
{
	ZScanDesc	scan = (ZScanDesc) sscan;

	/* the next row of the block at hand */
	if (likely(scan->current + 1 < scan->nrows &&
			   ScanDirectionIsForward(direction) && sscan->rs_nkeys == 0))
	{
		Assert(BlockNumberIsValid(scan->block) && scan->page_mode);
		if (scan->ahead < scan->ahead_end)
		{
			/* the next page comes nearer while this one's rows are looked at */
			fetch_line(scan->ahead);
			fetch_line(scan->ahead + 64);
			scan->ahead += 128;
		}
		store_row(scan, ++scan->current, slot);
		pgstat_count_heap_getnext(sscan->rs_rd);
		return true;
	}

	do
	{
		bool		found;

		if (scan->page_mode)
			found = next_row_pagemode(scan, direction, slot);
		else
			found = next_row_single(scan, direction, slot);
		if (!found)
		{
			ExecClearTuple(slot);
			return false;
		}
	} while (unlikely(sscan->rs_nkeys > 0) && !keys_match(scan, slot));

	pgstat_count_heap_getnext(sscan->rs_rd);
	return true;
}
