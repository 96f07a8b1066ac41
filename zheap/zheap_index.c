/*-------------------------------------------------------------------------
 *
 * zheap_index.c
 *	  One row by its TID: for index scans, for the executor's second look at a
 *	  row, for index AMs that want to drop entries.  (Building indexes:
 *	  zheap_index_build.c.)
 *
 * A TID has many versions here; which one is meant is said by the snapshot or,
 * with SnapshotAny, by the tag in the TID (core-contract.md, section 0).
 *
 * Functions here lock one table page, share, and under it undo pages.  They
 * may be called with an index page locked, so they never wait for a
 * transaction and change nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relscan.h"
#include "access/xact.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "zheap/zheap_scan.h"

typedef struct ZIndexFetchData
{
	IndexFetchTableData base;	/* must be first */
	Buffer		buffer;			/* page fetched from last, pinned, or Invalid */
} ZIndexFetchData;

typedef ZIndexFetchData *ZIndexFetch;

/* is there a line pointer in use at off of the locked page; ERROR if damaged */
static bool
has_row_pointer(Relation rel, BlockNumber block, Page page, OffsetNumber off)
{
	if (PageIsNew(page))
		return false;
	zheap_page_check(rel, block, page);
	return off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page) &&
		ItemIdIsUsed(PageGetItemId(page, off));
}

/* put *v into the tuple slot under the given TID, which may be tagged */
static void
store_version(Relation rel, const ItemPointerData *tid, const ZVersion *v,
			  TupleTableSlot *slot)
{
	zheap_slot_store(slot, RelationGetRelid(rel), tid, v->data, v->len,
					 v->writer, v->cid);
}

/* ----------------------------------------------------------------
 *	index scans
 * ----------------------------------------------------------------
 */

IndexFetchTableData *
zheap_index_fetch_begin(Relation rel)
{
	ZIndexFetch fetch = palloc0(sizeof(ZIndexFetchData));

	fetch->base.rel = rel;
	fetch->buffer = InvalidBuffer;
	return &fetch->base;
}

void
zheap_index_fetch_reset(struct IndexFetchTableData *data)
{
	ZIndexFetch fetch = (ZIndexFetch) data;

	if (BufferIsValid(fetch->buffer))
		ReleaseBuffer(fetch->buffer);
	fetch->buffer = InvalidBuffer;
}

void
zheap_index_fetch_end(struct IndexFetchTableData *data)
{
	zheap_index_fetch_reset(data);
	pfree(data);
}

bool
zheap_index_fetch_tuple(struct IndexFetchTableData *data, ItemPointer tid,
						Snapshot snapshot, TupleTableSlot *slot,
						bool *call_again, bool *all_dead)
{
	ZIndexFetch fetch = (ZIndexFetch) data;
	Relation	rel = data->rel;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	ZReadContext cx;
	ZVersion	v;
	Page		page;
	bool		found = false;

	/* one TID, one version: there is never a second */
	*call_again = false;
	if (all_dead)
		*all_dead = false;
	if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
	{
		snapshot->xmin = snapshot->xmax = InvalidTransactionId;
		snapshot->speculativeToken = 0;
	}

	fetch->buffer = ReleaseAndReadBuffer(fetch->buffer, rel, block);
	zheap_note_buffer(rel, block, fetch->buffer);
	zheap_read_begin(&cx, rel, snapshot);
	LockBuffer(fetch->buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(fetch->buffer);

	if (has_row_pointer(rel, block, page, off))
	{
		found = zheap_visible_version(&cx, fetch->buffer, page, block, off, &v);
		if (found && IsMVCCSnapshot(snapshot))
			PredicateLockTID(rel, tid, snapshot, XidFromFxid(v.writer));
		if (!found && all_dead)
			*all_dead = zheap_row_is_dead_to_all(&cx, fetch->buffer, page,
												 block, off);
	}

	LockBuffer(fetch->buffer, BUFFER_LOCK_UNLOCK);
	zheap_read_end(&cx);

	if (found)
	{
		ItemPointerData found_tid;

		ItemPointerSet(&found_tid, block, off);
		zheap_scan_tag_dirty(rel, snapshot, &v, &found_tid);
		store_version(rel, &found_tid, &v, slot);
	}
	return found;
}

/* ----------------------------------------------------------------
 *	one version of one row
 * ----------------------------------------------------------------
 */

/*
 * The version that a snapshot of any type sees.  With ended = true an ended
 * version that isn't visible will do, too (its bytes are those that were
 * deleted).  Takes and releases pin and lock.
 */
static bool
read_version(Relation rel, const ItemPointerData *tid, Snapshot snapshot,
			 bool ended, ZVersion *v)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	ZReadContext cx;
	Buffer		buffer;
	Page		page;
	bool		found = false;

	v->len = 0;
	buffer = zheap_read_buffer(rel, block);
	zheap_read_begin(&cx, rel, snapshot);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (has_row_pointer(rel, block, page, off))
	{
		found = zheap_visible_version(&cx, buffer, page, block, off, v);
		if (found && IsMVCCSnapshot(snapshot))
			PredicateLockTID(rel, unconstify(ItemPointerData *, tid), snapshot,
							 XidFromFxid(v->writer));
		if (!found && ended && v->ended && v->len > 0)
			found = true;
	}
	UnlockReleaseBuffer(buffer);
	zheap_read_end(&cx);
	return found;
}

/* tag PRE: the image before my latest update in place */
static bool
read_predecessor(Relation rel, const ItemPointerData *tid, ZVersion *v)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	ZReadContext cx;
	Buffer		buffer;
	Page		page;
	bool		found = false;

	buffer = zheap_read_buffer(rel, block);
	zheap_read_begin(&cx, rel, NULL);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (has_row_pointer(rel, block, page, off))
		found = zheap_predecessor(&cx, buffer, page, block, off, v);
	UnlockReleaseBuffer(buffer);
	zheap_read_end(&cx);
	return found;
}

/* was the row's newest change made by my own transaction */
static bool
top_is_mine(Relation rel, const ItemPointerData *tid)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	ZReadContext cx;
	Buffer		buffer;
	Page		page;
	ZTop		top = {0};

	/* who has no xid has changed nothing */
	if (!TransactionIdIsValid(GetTopTransactionIdIfAny()))
		return false;

	buffer = zheap_read_buffer(rel, block);
	zheap_read_begin(&cx, rel, NULL);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (has_row_pointer(rel, block, page, off))
		zheap_top_version(&cx, buffer, page, block, off, &top);
	UnlockReleaseBuffer(buffer);
	zheap_read_end(&cx);
	return top.exists && top.status == ZXACT_CURRENT;
}

/* do two identities name the same version of a row; all-visible ones do */
static bool
same_identity(Fxid writer1, CommandId cid1, Fxid writer2, CommandId cid2)
{
	Fxid		u = undo_horizons().u;

	if (writer1 < u)
		writer1 = InvalidFxid;
	if (writer2 < u)
		writer2 = InvalidFxid;
	if (writer1 != writer2)
		return false;
	return writer1 == InvalidFxid ||
		!TransactionIdIsCurrentTransactionId(XidFromFxid(writer1)) ||
		cid1 == cid2;
}

/*
 * Tag DIRTY: the version that a DIRTY fetch found, if it still can be found;
 * else the newest committed one.  Who asks compares with a snapshot next, and
 * a version newer than the one found is none the snapshot sees.
 */
static bool
read_memo(Relation rel, const ItemPointerData *tid, ZVersion *v)
{
	Fxid		writer;
	CommandId	cid;

	if (zheap_dirty_memo_get(RelationGetRelid(rel), tid, &writer, &cid))
	{
		if (read_version(rel, tid, SnapshotAny, true, v) &&
			same_identity(v->writer, v->cid, writer, cid))
			return true;
		if (ActiveSnapshotSet() &&
			read_version(rel, tid, GetActiveSnapshot(), false, v) &&
			same_identity(v->writer, v->cid, writer, cid))
			return true;
	}
	return read_version(rel, tid, SnapshotSelf, true, v);
}

/*
 * Rule R1, SnapshotAny with a plain TID.  (a) What I inserted, changed or
 * deleted: triggers and RETURNING look at it again.  Not while EvalPlanQual
 * runs, which wants the partners of a join as the statement sees them.  (b)
 * What the statement sees.  (c) What was committed last.
 */
static bool
read_meant(Relation rel, const ItemPointerData *tid, ZVersion *v)
{
	if (!zheap_epq_running && top_is_mine(rel, tid))
		return read_version(rel, tid, SnapshotAny, true, v);
	if (ActiveSnapshotSet() &&
		read_version(rel, tid, GetActiveSnapshot(), false, v))
		return true;
	return read_version(rel, tid, SnapshotSelf, true, v);
}

bool
zheap_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
						TupleTableSlot *slot)
{
	uint16		tag = zheap_tid_tag(tid);
	ItemPointerData plain = *tid;
	ItemPointerData shown;
	ZVersion	v;
	bool		found;

	if (ItemPointerGetOffsetNumberNoCheck(tid) >= SpecTokenOffsetNumber)
		return false;			/* nobody's TID */
	zheap_tid_set_tag(&plain, 0);
	shown = plain;

	if (snapshot->snapshot_type != SNAPSHOT_ANY)
		found = read_version(rel, &plain, snapshot, false, &v);
	else
	{
		switch (tag)
		{
			case 0:
				found = read_meant(rel, &plain, &v);
				break;
			case ZTID_PRE:
				found = read_predecessor(rel, &plain, &v);
				zheap_tid_set_tag(&shown, ZTID_PRE);
				break;
			case ZTID_LOCKED:
				zheap_epq_running = false;
				found = read_version(rel, &plain, SnapshotAny, true, &v);
				break;
			case ZTID_DIRTY:
				found = read_memo(rel, &plain, &v);
				break;
			default:
				elog(ERROR, "unexpected tag %04X in tuple identifier", tag);
				found = false;	/* keep compiler quiet */
		}
	}
	if (found)
		store_version(rel, &shown, &v, slot);
	return found;
}

bool
zheap_tid_valid(TableScanDesc scan, ItemPointer tid)
{
	return ItemPointerIsValid(tid) &&
		ItemPointerGetBlockNumber(tid) < ((ZScanDesc) scan)->nblocks;
}

/*
 * Follow the row from *tid to the version that the scan's snapshot sees, as
 * long as it was moved by transactions that the snapshot sees.
 */
void
zheap_get_latest_tid(TableScanDesc scan, ItemPointer tid)
{
	Relation	rel = scan->rs_rd;
	ItemPointerData at = *tid;
	ZVersion	v;

	Assert(ItemPointerIsValid(tid));
	zheap_tid_set_tag(&at, 0);
	for (;;)
	{
		if (read_version(rel, &at, scan->rs_snapshot, false, &v))
		{
			*tid = at;
			return;
		}
		if (v.len == 0 || !v.ended || v.kind != ZUNDO_MOVE ||
			!ItemPointerIsValid(&v.next) ||
			ItemPointerGetBlockNumber(&v.next) >= ((ZScanDesc) scan)->nblocks)
			return;
		at = v.next;
	}
}

/*
 * Rule R3: is the version in the tuple slot the one that the snapshot sees?
 * A foreign writer may have been forgotten since; then the same bytes under
 * the same TID are the same version, or one that nobody can tell from it.
 */
bool
zheap_satisfies_snapshot(Relation rel, TupleTableSlot *slot,
						 Snapshot snapshot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ItemPointerData tid = slot->tts_tid;
	ZVersion	v;

	Assert(TTS_IS_ZHEAP(slot));
	zheap_tid_set_tag(&tid, 0);
	if (!read_version(rel, &tid, snapshot, false, &v))
		return false;
	if (zslot->len == 0)
		return true;			/* no version in it; the TID is all there is */
	if (same_identity(v.writer, v.cid, zslot->writer, zslot->cid))
		return true;
	if (v.own || TransactionIdIsCurrentTransactionId(XidFromFxid(zslot->writer)))
		return false;
	return v.len == zslot->len &&
		memcmp(v.data + ZHEAP_HEADER_SIZE, zslot->buf + ZHEAP_HEADER_SIZE,
			   v.len - ZHEAP_HEADER_SIZE) == 0;
}

/* ----------------------------------------------------------------
 *	deletable index entries
 * ----------------------------------------------------------------
 */

/*
 * The index AM vouches for its entries, by all_dead.  What is missing is the
 * conflict horizon for standbys: the newest transaction that ended one of the
 * rows.  What has no body any more, or was ended below U, had its horizon
 * logged when that came about (rules W5, W14).
 *
 * Bottom-up deletion finds nothing here: in-place updates don't leave the
 * duplicates that it looks for.
 */
TransactionId
zheap_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate)
{
	Buffer		buffer = InvalidBuffer;
	Fxid		conflict = InvalidFxid;
	ZReadContext cx;

	if (delstate->bottomup)
	{
		delstate->ndeltids = 0;
		return InvalidTransactionId;
	}

	zheap_read_begin(&cx, rel, NULL);
	for (int i = 0; i < delstate->ndeltids; i++)
	{
		ItemPointer tid = &delstate->deltids[i].tid;
		BlockNumber block = ItemPointerGetBlockNumber(tid);
		OffsetNumber off = zheap_tid_offset(tid);
		Page		page;

		if (!delstate->status[delstate->deltids[i].id].knowndeletable)
			continue;

		buffer = ReleaseAndReadBuffer(buffer, rel, block);
		zheap_read_resample(&cx);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		if (has_row_pointer(rel, block, page, off) &&
			ZItemIdIsSpilled(PageGetItemId(page, off)))
		{
			/* dead to snapshots that are younger than who spilled it */
			if (ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL)
				conflict = Max(conflict, ZXactSlotFxid(ZPageGetSpill(page)));
		}
		else if (has_row_pointer(rel, block, page, off) &&
				 ItemIdIsNormal(PageGetItemId(page, off)))
		{
			ZTop		top;

			zheap_top_version(&cx, buffer, page, block, off, &top);
			if (top.exists && top.ended && top.writer > conflict)
				conflict = top.writer;
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	if (BufferIsValid(buffer))
		ReleaseBuffer(buffer);
	zheap_read_end(&cx);

	return XidFromFxid(conflict);
}
