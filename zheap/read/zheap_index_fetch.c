/*-------------------------------------------------------------------------
 *
 * zheap_index_fetch.c
 *	  One row by its TID: for index scans, for the executor's second look at a
 *	  row.  (Building indexes: zheap_index_build.c.)
 *
 * A TID has many versions here; which one is meant is said by the snapshot or,
 * with SnapshotAny, by the tag in the TID (Z34).
 *
 * Functions here lock one table page, share, and under it undo pages.  They may
 * be called with an index page locked, so they never wait for a transaction.
 * What they change is no row: a reader that meets too long a history of aborted
 * changes has the page rolled back and begins again (not with an index page
 * locked, nor in recovery), and old entries that a scan met are noted.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/history/zheap_history.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/read/zheap_read.h"
#include "zheap/read/zheap_scan.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/sees/zheap_tid_memory.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_watch.h"

/* rows next to each other in an index often come from a few pages by turns */
#define FETCH_PINS				4

/* buffers for each possible backend, without which one page must do */
#define FETCH_PINS_BUFFERS		32

/* of rows that turn out to be needed by somebody, so many are not asked for */
#define MAX_UNASKED				UNDO_KNOB("unasked", 63, 0, 63)

typedef struct ZIndexFetchData
{
	ZWatchedFetch watched;		/* must be first */
	int			npins;			/* so many pages may stay pinned */
	int			npinned;		/* those fetched from last */
	int			next;			/* of these, to be replaced next */
	BlockNumber block[FETCH_PINS];
	Buffer		buffer[FETCH_PINS];
	/* is the entry dead to all: asked in ever longer intervals */
	int			unasked;
	int			interval;
	bool		unsettled;		/* was the row fetched last one to be judged */
} ZIndexFetchData;

typedef ZIndexFetchData *ZIndexFetch;

bool
zheap_index_fetch_has_row(Relation rel, BlockNumber block, Page page,
						  OffsetNumber off)
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
	Assert(v->len >= ZHEAP_HEADER_SIZE);
	zheap_tuple_slot_store(slot, RelationGetRelid(rel), tid, v->data, v->len,
						   v->writer, v->cid);
	zheap_tuple_slot_set_unsure(slot, v->approximate, v->ended);
}

/* ----------------------------------------------------------------
 *	index scans
 * ----------------------------------------------------------------
 */

/* three places of a page that is seldom in a cache: header, pointer, end */
static inline void
expect_row(Page page, OffsetNumber off)
{
	fetch_line(page);
	fetch_line((char *) PageGetItemId(page, off));
	fetch_line((char *) ZPageGetOpaque(page));
}

IndexFetchTableData *
zheap_index_fetch_begin(Relation rel)
{
	ZIndexFetch fetch = palloc0(sizeof(ZIndexFetchData));

	Assert(CritSectionCount == 0);
	fetch->watched.base.rel = rel;
	fetch->npins = !RelationUsesLocalBuffers(rel) &&
		NBuffers / MaxBackends >= FETCH_PINS_BUFFERS ? FETCH_PINS : 1;
	zheap_watch_begin(rel);
	return &fetch->watched.base;
}

void
zheap_index_fetch_reset(struct IndexFetchTableData *data)
{
	ZIndexFetch fetch = (ZIndexFetch) data;

	if (unlikely(fetch->watched.nold > 0))
		zheap_watch_delete_old(&fetch->watched);
	while (fetch->npinned > 0)
		ReleaseBuffer(fetch->buffer[--fetch->npinned]);
}

/* the block's buffer, pinned until others have taken its place */
static Buffer
fetch_buffer(ZIndexFetch fetch, BlockNumber block)
{
	Relation	rel = fetch->watched.base.rel;
	int			i;

	Assert(fetch->npinned <= fetch->npins && fetch->npins <= FETCH_PINS);
	for (i = 0; i < fetch->npinned; i++)
	{
		if (fetch->block[i] == block)
			return fetch->buffer[i];
	}
	if (i < fetch->npins)
	{
		fetch->buffer[i] = zheap_buffer_read(rel, block);
		fetch->npinned++;
	}
	else
	{
		i = fetch->next;
		fetch->next = (i + 1) % fetch->npins;
		fetch->buffer[i] = ReleaseAndReadBuffer(fetch->buffer[i], rel, block);
		zheap_buffer_note(rel, block, fetch->buffer[i]);
	}
	fetch->block[i] = block;
	return fetch->buffer[i];
}

/*
 * A row that the scan doesn't see: does nobody?  Under an old snapshot the
 * answer is no for many in a row, and sometimes takes a look into undo.
 */
static bool
is_dead_to_all(ZIndexFetch fetch, ZReadContext *cx, Buffer buffer, Page page,
			   BlockNumber block, OffsetNumber off)
{
	AssertPageLocked(buffer);
	if (fetch->unasked > 0)
	{
		fetch->unasked--;
		return false;
	}
	if (zheap_newest_dead_to_all(cx, buffer, page, block, off))
	{
		fetch->interval = 0;
		return true;
	}
	fetch->interval = Min(2 * fetch->interval + 1, MAX_UNASKED);
	fetch->unasked = fetch->interval;
	return false;
}

void
zheap_index_fetch_end(struct IndexFetchTableData *data)
{
	ZIndexFetch fetch = (ZIndexFetch) data;

	zheap_index_fetch_reset(data);
	if (fetch->watched.old != NULL)
		pfree(fetch->watched.old);
	pfree(fetch);
}

/* what became of the attempt to show a row as it stands on its page */
typedef enum ZShown
{
	ZSHOWN_NOT,					/* its history must be asked */
	ZSHOWN_ROW,
	ZSHOWN_OTHER_KEY,			/* the snapshot sees it, but it hasn't the key
								 * of the scan's entry */
	ZSHOWN_SETTLED_KEY			/* the same, and it is visible to all */
} ZShown;

/*
 * A STALE row that the snapshot sees as it stands: is its key that of the
 * entry?  writer is who made it, or invalid.  Page locked.
 */
static ZShown
compare_as_it_stands(ZIndexFetch fetch, ItemPointer tid, bool *call_again,
					 const UndoHorizons *hz, Fxid writer, const char *tuple,
					 uint16 len)
{
	Assert(len >= ZHEAP_HEADER_SIZE);
	switch (zheap_watch_compare(&fetch->watched, tid, call_again, tuple, len,
								false))
	{
		case ZKEY_SAME:
			return ZSHOWN_ROW;
		case ZKEY_OTHER:
			return writer == InvalidFxid ||
				zheap_xact_slot_seen_by_all(fetch->watched.base.rel, writer,
											hz, NULL) ?
				ZSHOWN_SETTLED_KEY : ZSHOWN_OTHER_KEY;
		default:
			return ZSHOWN_NOT;
	}
}

/*
 * The frequent case of an MVCC snapshot: its row is the one on the page, which
 * is settled, or whose owner is known to have committed and is seen (Z2).  Then
 * the bytes go to the tuple slot at once.  ZSHOWN_NOT for all others.  tid and
 * call_again are what core has passed.  Page locked.
 */
static inline ZShown
show_as_it_stands(ZIndexFetch fetch, ItemPointer tid, bool *call_again,
				  Snapshot snapshot, const UndoHorizons *hz, Page page,
				  OffsetNumber off, TupleTableSlot *slot)
{
	ItemId		lp = PageGetItemId(page, off);
	Fxid		writer = InvalidFxid;
	ItemPointerData plain;
	ZTupleHeader hdr;
	const char *tuple;

	Assert(off >= FirstOffsetNumber && zheap_page_is_valid(page));
	if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
		return ZSHOWN_NOT;
	tuple = (char *) page + lp->lp_off;
	zheap_header_get(tuple, &hdr);
	if ((hdr.flags2 & ZH_END_MASK) || (hdr.natts_flags1 & ZH_SLACK))
		return ZSHOWN_NOT;
	if (hdr.slot != 0 && (hdr.flags2 & ZH_LOCK_ONLY) == 0)
	{
		ZXactSlot	owner = zheap_page_row_slot(page, &hdr);

		if (owner == NULL)
			return ZSHOWN_NOT;
		writer = ZXactSlotFxid(owner);
		if (writer < hz->all_visible_before)
			writer = InvalidFxid;
		else if ((owner->fxid_bits & ZXACT_HINT_COMMITTED) == 0 ||
				 XidInMVCCSnapshot(XidFromFxid(writer), snapshot))
			return ZSHOWN_NOT;
	}
	if (unlikely(hdr.flags2 & ZH_STALE) && ZPageMayHoldStale(page))
	{
		ZShown		shown = compare_as_it_stands(fetch, tid, call_again, hz,
												 writer, tuple, lp->lp_len);

		if (shown != ZSHOWN_ROW)
			return shown;
	}
	ItemPointerSet(&plain, ItemPointerGetBlockNumber(tid), off);
	zheap_tuple_slot_store(slot, RelationGetRelid(fetch->watched.base.rel),
						   &plain, tuple, lp->lp_len, writer,
						   InvalidCommandId);
	zheap_tuple_slot_set_unsure(slot, writer != InvalidFxid &&
								ZHeaderReused(&hdr) != ZH_REUSED_NONE, false);
	return ZSHOWN_ROW;
}

/* The same, and all that it wants before and after; nothing locked. */
static inline ZShown
fetch_as_it_stands(ZIndexFetch fetch, ItemPointer tid, bool *call_again,
				   Snapshot snapshot, Buffer buffer, Page page,
				   OffsetNumber off, TupleTableSlot *slot)
{
	UndoHorizons hz;
	ZShown		shown = ZSHOWN_NOT;

	Assert(snapshot->snapshot_type == SNAPSHOT_MVCC);
	undo_check_snapshot();
	hz = undo_log_horizons();
	UNDO_POINT("horizon-sampled");
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (zheap_index_fetch_has_row(fetch->watched.base.rel,
						ItemPointerGetBlockNumber(tid), page, off))
		shown = show_as_it_stands(fetch, tid, call_again, snapshot, &hz, page,
								  off, slot);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	return shown;
}

/* the scan's entry is of a key that its row doesn't have, or the row is dead */
static void
note_old(ZIndexFetch fetch, ItemPointer tid, Buffer buffer, bool settled)
{
	ItemPointerData plain;

	ItemPointerSet(&plain, ItemPointerGetBlockNumber(tid),
				   zheap_tid_offset(tid));
	zheap_watch_note_old(&fetch->watched, buffer, &plain, settled);
}

/* get_actual_variable_range() takes the key from the entry, not from the row */
static bool
is_end(ZIndexFetch fetch, ItemPointer tid, Buffer buffer)
{
	ItemPointerData plain;

	ItemPointerSet(&plain, ItemPointerGetBlockNumber(tid),
				   zheap_tid_offset(tid));
	return zheap_watch_is_end(&fetch->watched, buffer, &plain);
}

static bool read_version(Relation rel, const ItemPointerData *tid,
						 Snapshot snapshot, bool ended, ZVersion *v);

/*
 * A version was found, but it hasn't the entry's key.  A DIRTY snapshot sees
 * through a change in progress what was committed before: it wants to know of
 * the row by its new key, too, so as to wait.  True: *v is the version in
 * progress then.
 */
static bool
find_in_progress(ZIndexFetch fetch, ItemPointer tid, Snapshot snapshot,
				 bool *call_again, ZVersion *v)
{
	TransactionId changing = snapshot->xmax;

	Assert(snapshot->snapshot_type == SNAPSHOT_DIRTY);
	snapshot->xmin = snapshot->xmax = InvalidTransactionId;
	if (!TransactionIdIsValid(changing) ||
		!read_version(fetch->watched.base.rel, tid, SnapshotAny, false, v) ||
		zheap_watch_compare(&fetch->watched, tid, call_again, v->data,
							v->len, true) != ZKEY_SAME)
		return false;
	snapshot->xmin = changing;
	return true;
}

/*
 * The version that the snapshot sees, by the row's history; not found, whether
 * the entry is dead to all goes to *all_dead, if that is wanted.  Page locked.
 */
static bool
find_by_history(ZIndexFetch fetch, ZReadContext *cx, Buffer buffer, Page page,
				BlockNumber block, OffsetNumber off, bool stale, ZVersion *v,
				bool *all_dead)
{
	bool		own;
	bool		found;

	AssertPageLocked(buffer);
	found = !zheap_visibility_is_past(cx, buffer, page, off, &own) &&
		zheap_visibility_find(cx, buffer, page, block, off, v);
	if (found)
		zheap_predicate_lock(cx->rel, cx->snapshot, block, off, v);

	/*
	 * Others see what I ended.  nbtree marks entries by their TID, of which a
	 * STALE row may have two.
	 */
	if (!found && all_dead && !own && !cx->too_long &&
		!(stale && fetch->watched.scan != NULL))
		*all_dead = is_dead_to_all(fetch, cx, buffer, page, block, off);
	return found;
}

/*
 * Of a STALE row: is *v, which was found or not, the version that the scan's
 * entry stands for?  If not the entry is noted as old where it is, unless
 * *v becomes the one in progress.  Nothing locked.
 */
static bool
is_of_entry(ZIndexFetch fetch, ItemPointer tid, Snapshot snapshot,
			Buffer buffer, bool *call_again, bool noting, bool found,
			ZVersion *v)
{
	if (found &&
		zheap_watch_compare(&fetch->watched, tid, call_again, v->data, v->len,
							true) == ZKEY_SAME)
		return true;
	if (found && snapshot->snapshot_type == SNAPSHOT_NON_VACUUMABLE)
	{
		if (is_end(fetch, tid, buffer))
			return true;
		note_old(fetch, tid, buffer, true);
		return false;
	}
	if (found || noting)
		note_old(fetch, tid, buffer, false);
	return found && snapshot->snapshot_type == SNAPSHOT_DIRTY &&
		find_in_progress(fetch, tid, snapshot, call_again, v);
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
	Buffer		buffer;
	Page		page;
	ZShown		shown = ZSHOWN_NOT;
	bool		found = false;
	bool		settled;
	bool		stale = false;

	Assert(CritSectionCount == 0 && zheap_tid_tag(tid) == 0);
	/* one TID, one version: there is never a second */
	*call_again = false;
	if (all_dead)
		*all_dead = false;
	if (snapshot->snapshot_type == SNAPSHOT_DIRTY)
	{
		snapshot->xmin = snapshot->xmax = InvalidTransactionId;
		snapshot->speculativeToken = 0;
	}

	buffer = fetch_buffer(fetch, block);
	page = BufferGetPage(buffer);
	expect_row(page, off);

	/* history often is wanted for many in a row */
	settled = likely(snapshot->snapshot_type == SNAPSHOT_MVCC) &&
		!IsolationIsSerializable();
	if (settled && likely(!fetch->unsettled))
	{
		shown = fetch_as_it_stands(fetch, tid, call_again, snapshot, buffer,
								   page, off, slot);
		if (likely(shown == ZSHOWN_ROW))
			return true;
		if (shown != ZSHOWN_NOT)
		{
			note_old(fetch, tid, buffer, shown == ZSHOWN_SETTLED_KEY);
			return false;
		}
	}

	zheap_version_init(&v);
	zheap_visibility_begin(&cx, rel, snapshot);
	/* what a DIRTY or ANY snapshot finds is compared by its identity */
	cx.approximate_identity = snapshot->snapshot_type != SNAPSHOT_DIRTY &&
		snapshot->snapshot_type != SNAPSHOT_ANY &&
		!IsolationIsSerializable();
	zheap_rollback_limit_reader(&cx);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (settled && zheap_index_fetch_has_row(rel, block, page, off))
		shown = show_as_it_stands(fetch, tid, call_again, snapshot, &cx.hz,
								  page, off, slot);
	fetch->unsettled = shown == ZSHOWN_NOT;
	if (!fetch->unsettled)
	{
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		zheap_visibility_end(&cx);
		if (shown == ZSHOWN_ROW)
			return true;
		note_old(fetch, tid, buffer, shown == ZSHOWN_SETTLED_KEY);
		return false;
	}

	if (zheap_index_fetch_has_row(rel, block, page, off))
	{
		stale = ZPageMayHoldStale(page) && zheap_page_row_is_stale(page, off);
		found = find_by_history(fetch, &cx, buffer, page, block, off, stale,
								&v, all_dead);
	}
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	zheap_visibility_end(&cx);

	if (!found && cx.too_long)
	{
		zheap_rollback_for_reader(rel, block);
		return zheap_index_fetch_tuple(data, tid, snapshot, slot, call_again,
									   all_dead);
	}
	if (unlikely(stale))
		found = is_of_entry(fetch, tid, snapshot, buffer, call_again,
							all_dead != NULL, found, &v);
	if (found)
	{
		ItemPointerData found_tid;

		ItemPointerSet(&found_tid, block, off);
		zheap_scan_tag_dirty(rel, snapshot, &v, &found_tid);
		store_version(rel, &found_tid, &v, slot);
	}
	zheap_version_forget(&v);
	return found;
}

/* ----------------------------------------------------------------
 *	one version of one row
 * ----------------------------------------------------------------
 */

static bool
row_is_ended(Page page, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(page, off);
	ZTupleHeader header;

	if (!ItemIdIsNormal(lp))
		return false;
	zheap_header_get((char *) PageGetItem(page, lp), &header);
	return ZHeaderIsEnded(&header);
}

/* *v is what a statement sees of an ended row: who ended it, if that was I? */
static void
note_own_end(ZReadContext *cx, Buffer buffer, Page page, OffsetNumber off,
			 ZVersion *v)
{
	ZTop		top;

	zheap_newest_version(cx, buffer, page, BufferGetBlockNumber(buffer), off,
						 &top);
	if (!top.exists || !top.ended || top.status != ZXACT_CURRENT)
		return;
	v->ended = true;
	v->writer = top.writer;
	v->cid = top.cid;
	v->approximate = false;
}

/*
 * The version that a snapshot of any type sees.  With ended = true an ended
 * version that isn't visible will do, too (its bytes are those that were
 * deleted).  With "own" the newest version is taken whatever the snapshot
 * says, if my transaction made it, ended or not; *own says so.  Else, with
 * own_end, a version that is seen names my transaction if that has ended the
 * row.  approximate: as in ZReadContext.  Takes and releases pin and
 * lock.
 */
static bool
read_version_asking(Relation rel, const ItemPointerData *tid,
					Snapshot snapshot, bool ended, bool approximate,
					bool own_end, ZVersion *v, bool *own)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	ZReadContext cx;
	Buffer		buffer;
	Page		page;
	bool		there;
	bool		found = false;
	bool		ended_too = ended;
	bool		any_own = own != NULL ||
		(approximate && snapshot->snapshot_type == SNAPSHOT_SELF);

	Assert(CritSectionCount == 0 && zheap_tid_tag(tid) == 0);
	zheap_version_forget(v);
	buffer = zheap_buffer_read(rel, block);
	zheap_visibility_begin(&cx, rel, snapshot);
	cx.approximate_identity = approximate;
	zheap_rollback_limit_reader(&cx);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (own != NULL)
		*own = false;
	there = zheap_index_fetch_has_row(rel, block, page, off);
	if (there && any_own && zheap_visibility_own_as_it_stands(page, off, v))
	{
		Assert(zheap_newest_is_own(&cx, buffer, page, block, off));
		if (own != NULL)
			*own = true;
		found = true;
	}
	else if (there)
	{
		if (own != NULL &&
			zheap_newest_is_own(&cx, buffer, page, block, off))
		{
			*own = true;
			ended_too = true;
			cx.snapshot = SnapshotAny;
			cx.check_serializable = false;
			cx.approximate_identity = true;
		}
		found = zheap_visibility_find(&cx, buffer, page, block, off, v);
		if (found)
			zheap_predicate_lock(rel, cx.snapshot, block, off, v);
		if (found && own_end && row_is_ended(page, off))
			note_own_end(&cx, buffer, page, off, v);
		if (!found && ended_too && v->ended && v->len > 0)
			found = true;
	}
	UnlockReleaseBuffer(buffer);
	zheap_visibility_end(&cx);
	if (cx.too_long)
	{
		zheap_rollback_for_reader(rel, block);
		return read_version_asking(rel, tid, snapshot, ended, approximate,
								   own_end, v, own);
	}
	return found;
}

static bool
read_version(Relation rel, const ItemPointerData *tid, Snapshot snapshot,
			 bool ended, ZVersion *v)
{
	return read_version_asking(rel, tid, snapshot, ended, false, false, v,
							   NULL);
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

	Assert(zheap_tid_tag(tid) == 0);
	AssertNoPageLocked();
	buffer = zheap_buffer_read(rel, block);
	zheap_visibility_begin(&cx, rel, NULL);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (zheap_index_fetch_has_row(rel, block, page, off))
		found = zheap_newest_predecessor(&cx, buffer, page, block, off, v);
	UnlockReleaseBuffer(buffer);
	zheap_visibility_end(&cx);
	return found;
}

/* do two identities name the same version of a row; all-visible ones do */
static bool
same_identity(Fxid writer1, CommandId cid1, Fxid writer2, CommandId cid2)
{
	Fxid		all_visible_before = undo_log_horizons().all_visible_before;

	if (writer1 < all_visible_before)
		writer1 = InvalidFxid;
	if (writer2 < all_visible_before)
		writer2 = InvalidFxid;
	if (writer1 != writer2)
		return false;
	return writer1 == InvalidFxid ||
		!TransactionIdIsCurrentTransactionId(XidFromFxid(writer1)) ||
		cid1 == cid2;
}

/*
 * Tag DIRTY: the version that a DIRTY fetch found, if it still can be found;
 * else the newest committed one.  The caller compares it with a snapshot next,
 * and a version newer than the one found is none the snapshot sees.
 */
static bool
read_dirty(Relation rel, const ItemPointerData *tid, ZVersion *v)
{
	Fxid		writer;
	CommandId	cid;

	Assert(zheap_tid_tag(tid) == 0);
	if (zheap_tid_memory_dirty(RelationGetRelid(rel), tid, &writer, &cid))
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
 * Z34, SnapshotAny with a plain TID.  (a) What I inserted, changed or
 * deleted: triggers look at it again.  Not while a statement runs: MERGE and
 * EvalPlanQual want rows as it sees them, and RETURNING what it deleted.  (b)
 * What the statement sees.  (c) What was committed last.
 */
static bool
read_meant(Relation rel, const ItemPointerData *tid, ZVersion *v)
{
	/* a transaction without an xid has changed nothing */
	bool		has_xid = TransactionIdIsValid(GetTopTransactionIdIfAny());
	bool		in_statement = zheap_tid_memory_statement_runs();
	bool		own = false;
	Snapshot	snapshot = ActiveSnapshotSet() ? GetActiveSnapshot() :
		SnapshotSelf;

	Assert(zheap_tid_tag(tid) == 0);
	/* a transaction with one snapshot compares what it gets here with that */
	if (read_version_asking(rel, tid, snapshot, false,
							!IsolationUsesXactSnapshot(),
							has_xid && in_statement, v,
							has_xid && !in_statement ? &own : NULL))
		return true;
	return !own && read_version(rel, tid, SnapshotSelf, true, v);
}

bool
zheap_index_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot,
							  TupleTableSlot *slot)
{
	uint16		tag = zheap_tid_tag(tid);
	ItemPointerData plain = *tid;
	ItemPointerData shown;
	ZVersion	v;
	bool		found;

	AssertNoPageLocked();
	if (ItemPointerGetOffsetNumberNoCheck(tid) >= SpecTokenOffsetNumber)
		return false;			/* nobody's TID */
	zheap_tid_set_tag(&plain, 0);
	shown = plain;
	zheap_version_init(&v);

	if (snapshot->snapshot_type != SNAPSHOT_ANY)
	{
		/* from a user: tags come back from core with SnapshotAny alone */
		if (tag != 0)
			return false;
		found = read_version(rel, &plain, snapshot, false, &v);
	}
	else
	{
		switch (tag)
		{
			case 0:
				found = read_meant(rel, &plain, &v);
				break;
			case ZTID_PRE:
				found = read_predecessor(rel, &plain, &v);
				if (zheap_tid_memory_updated_last(RelationGetRelid(rel), tid))
					zheap_tid_set_tag(&shown, ZTID_PRE);
				break;
			case ZTID_LOCKED:
				found = read_version(rel, &plain, SnapshotAny, true, &v);
				break;
			case ZTID_DIRTY:
				found = read_dirty(rel, &plain, &v);
				break;
			default:
				elog(ERROR, "unexpected tag %04X in tuple identifier", tag);
				found = false;	/* keep compiler quiet */
		}
	}
	if (found)
		store_version(rel, &shown, &v, slot);
	zheap_version_forget(&v);
	return found;
}

/*
 * ZFindWriter: whose version is in the tuple slot?  As a rule it is the one
 * that the statement sees.
 */
static bool
find_writer(TupleTableSlot *slot, Fxid *writer, CommandId *cid)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ItemPointerData tid = slot->tts_tid;
	Relation	rel;
	ZVersion	v;
	bool		found;

	Assert(TTS_IS_ZHEAP(slot) && zslot->len > 0);
	AssertNoPageLocked();
	if (!ActiveSnapshotSet() || !ItemPointerIsValid(&tid))
		return false;
	rel = try_relation_open(slot->tts_tableOid, AccessShareLock);
	if (rel == NULL)
		return false;
	zheap_tid_set_tag(&tid, 0);
	zheap_version_init(&v);
	found = read_version(rel, &tid, GetActiveSnapshot(), false, &v) &&
		zheap_same_row(v.data, v.len, zslot->data, zslot->len);
	zheap_version_forget(&v);
	relation_close(rel, AccessShareLock);
	if (found)
	{
		*writer = v.writer;
		*cid = v.cid;
	}
	return found;
}

/* Called from _PG_init. */
void
zheap_index_fetch_register(void)
{
	zheap_find_writer_hook = find_writer;
}

bool
zheap_index_fetch_tid_valid(TableScanDesc scan, ItemPointer tid)
{
	return ItemPointerIsValid(tid) &&
		ItemPointerGetBlockNumber(tid) < ((ZScanDesc) scan)->nblocks;
}

/*
 * Follow the row from *tid to the version that the scan's snapshot sees, as
 * long as it was moved by transactions that the snapshot sees.
 */
void
zheap_index_fetch_latest_tid(TableScanDesc scan, ItemPointer tid)
{
	Relation	rel = scan->rs_rd;
	ItemPointerData at = *tid;
	ItemPointerData passed = *tid;
	uint64		steps = 0;
	uint64		limit = 1;
	ZVersion	v;

	Assert(ItemPointerIsValid(tid));
	if (zheap_tid_tag(tid) != 0)
		return;					/* nobody's TID */
	zheap_version_init(&v);
	for (;;)
	{
		CHECK_FOR_INTERRUPTS();
		if (read_version(rel, &at, scan->rs_snapshot, false, &v))
		{
			*tid = at;
			zheap_version_forget(&v);
			return;
		}
		if (v.len == 0 || !v.ended || v.kind != ZUNDO_MOVE ||
			!ItemPointerIsValid(&v.next) ||
			ItemPointerGetBlockNumber(&v.next) >= ((ZScanDesc) scan)->nblocks)
			return;
		at = v.next;
		/* no row comes back; damaged links may (as in zheap_ring.h) */
		if (ItemPointerEquals(&at, &passed))
			return;
		if (++steps == limit)
		{
			passed = at;
			steps = 0;
			limit *= 2;
		}
	}
}

/*
 * Was a row, whose newest version an MVCC snapshot doesn't see, merely copied
 * since, by rewrites of its table?
 */
static bool
is_only_copied(Relation rel, const ItemPointerData *tid, Snapshot snapshot)
{
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	ZReadContext cx;
	Buffer		buffer;
	Page		page;
	bool		copied;

	Assert(IsMVCCSnapshot(snapshot));
	buffer = zheap_buffer_read(rel, block);
	zheap_visibility_begin(&cx, rel, NULL);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	copied = zheap_index_fetch_has_row(rel, block, page, off) &&
		zheap_newest_only_copied(&cx, buffer, page, block, off, snapshot);
	UnlockReleaseBuffer(buffer);
	zheap_visibility_end(&cx);
	return copied;
}

/*
 * Is *v, which the snapshot sees, the version in the tuple slot?  by_bytes: my
 * own version, of which only its bytes are known.  A foreign writer that the
 * snapshot sees may have been forgotten since; then the same bytes under the
 * same TID are the same version, or one that nobody can tell from it.
 */
static bool
is_version_of(Relation rel, const ItemPointerData *tid, Snapshot snapshot,
			  const ZVersion *v, const ZTupleTableSlot *zslot, bool by_bytes)
{
	if (zslot->len == 0)
		return true;			/* no version in it; the TID is all there is */
	if (by_bytes)
		return zheap_same_row(v->data, v->len, zslot->data, zslot->len);
	if (same_identity(v->writer, v->cid, zslot->writer, zslot->cid))
		return true;
	if (v->own ||
		TransactionIdIsCurrentTransactionId(XidFromFxid(zslot->writer)))
		return false;
	if (zslot->writer >= undo_log_horizons().all_visible_before &&
		IsMVCCSnapshot(snapshot) &&
		XidInMVCCSnapshot(XidFromFxid(zslot->writer), snapshot) &&
		!is_only_copied(rel, tid, snapshot))
		return false;			/* changed since, be it to the same bytes */
	return zheap_same_row(v->data, v->len, zslot->data, zslot->len);
}

/* Is the version in the tuple slot the one that the snapshot sees? */
bool
zheap_index_fetch_satisfies(Relation rel, TupleTableSlot *slot,
							Snapshot snapshot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ItemPointerData tid = slot->tts_tid;
	bool		by_bytes = zslot->approximate &&
		TransactionIdIsCurrentTransactionId(XidFromFxid(zslot->writer));
	ZVersion	v;
	bool		same;

	Assert(TTS_IS_ZHEAP(slot));
	AssertNoPageLocked();
	zheap_tid_set_tag(&tid, 0);
	zheap_version_init(&v);
	same = read_version_asking(rel, &tid, snapshot, false, by_bytes, false,
							   &v, NULL) &&
		is_version_of(rel, &tid, snapshot, &v, zslot, by_bytes);
	zheap_version_forget(&v);
	return same;
}
