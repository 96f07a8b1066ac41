/*-------------------------------------------------------------------------
 *
 * zheap_lock.c
 *	  Writers meeting on a row: which version the caller means, which
 *	  transaction is in the way, the recheck after waiting.
 *
 * A row lock is an undo record of the locker plus bits in the row's header
 * (Z23).  Nobody's bits are believed without a look: live lockers are
 * found in the chains of the page's running xact slot owners, and in that of its
 * shared xact slot (zheap_lockers.c).
 *
 * The row's pages and the waiting are zheap_row.c's; what is done to a row once
 * it is taken is zheap_row_write.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "replication/logicalworker.h"
#include "storage/bufmgr.h"
#include "utils/snapmgr.h"

#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/sees/zheap_sees.h"

/* what one look at the locked page came to */
typedef enum RowStep
{
	ROW_TAKEN,
	ROW_REFUSED,				/* result and w->failure say why; still locked */
	ROW_WAIT,					/* for a transaction in the way */
	ROW_ROLL_BACK,				/* the page has a long aborted history */
	ROW_AGAIN					/* something ended while we looked */
} RowStep;

/* the version is the one to be locked */
static void
row_keep_image(ZRowWrite *w, const ZVersion *v)
{
	zheap_row_forget_image(w);
	if (unlikely(v->len > sizeof(w->room)))
		w->image = palloc(v->len);
	w->image_len = v->len;
	memcpy(w->image, v->data, v->len);
}

/*
 * The version that another snapshot sees.  A lock is no read in the sense of
 * SERIALIZABLE.
 */
static bool
row_find_as(ZRowWrite *w, Snapshot snapshot, ZVersion *v)
{
	Snapshot	save = w->cx.snapshot;
	bool		save_check = w->cx.check_serializable;
	bool		found;

	Assert(w->held.pages && w->held.context);
	w->cx.check_serializable = false;
	w->cx.snapshot = snapshot;
	found = zheap_visibility_find(&w->cx, w->buffer, w->page, w->block,
								  w->off, v);
	w->cx.snapshot = save;
	w->cx.check_serializable = save_check;
	return found;
}

/* ----------------------------------------------------------------
 *	judging the version
 * ----------------------------------------------------------------
 */

static bool
row_top_is_insert(const ZRowWrite *w)
{
	const ZTop *top = &w->top;

	if (top->kind == 0)
		return !top->ended && (w->header.flags2 & ZH_INPLACE) == 0;
	return top->kind == ZUNDO_INSERT_OPEN || top->kind == ZUNDO_INSERT_SET;
}

/*
 * An update of the key-keeping kind that put the row at another TID: a locker
 * that wants it FOR KEY SHARE isn't in its way.
 */
static bool
row_top_is_kept_move(const ZTop *top)
{
	return top->ended && top->kind == ZUNDO_MOVE && !top->key_changed &&
		!top->moved_partition && ItemPointerIsValid(&top->next);
}

/* is a finished or own version of this identity visible to an MVCC snapshot */
bool
zheap_row_take_visible(Snapshot snapshot, Fxid writer, bool own, CommandId cid)
{
	Assert(IsMVCCSnapshot(snapshot));
	if (writer == InvalidFxid)
		return true;
	if (own)
		return cid < snapshot->curcid;
	return !XidInMVCCSnapshot(XidFromFxid(writer), snapshot);
}

/*
 * Is a live version, own or committed, the one the caller means?  Two
 * all-visible identities of a row are equal, and what became all-visible
 * since the DIRTY fetch is what was found then: an update after that
 * can't be all-visible while the caller's snapshot exists (Z33).
 */
static bool
row_is_meant(ZRowWrite *w, Fxid writer, bool own, CommandId cid, bool insert)
{
	switch (w->meant)
	{
		case ZMEANT_TOP:
			return true;
		case ZMEANT_DIRTY:
			return writer == InvalidFxid ||
				(writer == w->dirty_writer && (!own || cid == w->dirty_cid));
		case ZMEANT_SNAPSHOT:
			break;
	}
	/* a row has no older version than the inserted one */
	return insert || zheap_row_take_visible(w->snapshot, writer, own, cid) ||
		(!own && zheap_newest_only_copied(&w->cx, w->buffer, w->page,
										  w->block, w->off, w->snapshot));
}

static RowStep
row_refuse(ZRowWrite *w, TM_Result why, TM_Result *result)
{
	const ZTop *top = &w->top;

	Assert(why != TM_Ok);
	w->failure.ctid = w->tid;
	if (top->exists && top->ended)
	{
		if (top->moved_partition)
			ItemPointerSetMovedPartitions(&w->failure.ctid);
		else if (top->kind == ZUNDO_MOVE && ItemPointerIsValid(&top->next))
			w->failure.ctid = top->next;
	}
	w->failure.xmax = XidFromFxid(top->writer);
	w->failure.cmax = why == TM_SelfModified ? top->cid : InvalidCommandId;
	*result = why;
	return ROW_REFUSED;
}

/* why the top, ended by a committed transaction or mine, can't be had */
static TM_Result
row_ended_result(const ZTop *top)
{
	Assert(top->ended);
	return top->moved_partition ||
		(top->kind == ZUNDO_MOVE && ItemPointerIsValid(&top->next)) ?
		TM_Updated : TM_Deleted;
}

static RowStep row_judge_below(ZRowWrite *w, TM_Result *result);

/*
 * The top is my own change, by the present command or a later one, which is to
 * be told: the first that changed the version meant.  If somebody else did before
 * them, whom the snapshot doesn't see, the row is outdated, whatever I did
 * to it since.
 */
static RowStep
row_judge_own_later(ZRowWrite *w, TM_Result *result)
{
	bool		by_snapshot = w->meant == ZMEANT_SNAPSHOT;
	CommandId	first;
	Fxid		unseen;

	/* ON CONFLICT meets its own work: "a second time" */
	if (row_top_is_insert(w) || (w->found.dirty && !w->top.ended))
		return row_refuse(w, TM_Invisible, result);

	first = zheap_newest_first_command(&w->cx, w->buffer, w->page, w->block,
									   w->off, w->cid,
									   by_snapshot ? w->snapshot : NULL,
									   &unseen);
	if (unseen == InvalidFxid)
	{
		(void) row_refuse(w, TM_SelfModified, result);
		w->failure.cmax = first;
		return ROW_REFUSED;
	}
	/* in place, nobody changes a key */
	if (w->wish.lock_only && w->mode == LockTupleKeyShare)
		return row_judge_below(w, result);
	return row_refuse(w, TM_Updated, result);
}

/*
 * The top is my own change.  Its command id tells whether the present command
 * may see it (heap's rules).  On the way to a row's last version what I did is
 * followed, too, by whatever command.
 */
static RowStep
row_judge_own(ZRowWrite *w, TM_Result *result)
{
	const ZTop *top = &w->top;
	bool		insert = row_top_is_insert(w);

	Assert(top->exists && top->status == ZXACT_CURRENT);
	if (w->wish.last)
	{
		if (top->ended)
			return row_refuse(w, row_ended_result(top), result);
		return top->cid < w->cid ? ROW_TAKEN :
			row_refuse(w, TM_SelfModified, result);
	}
	if (top->cid >= w->cid)
		return row_judge_own_later(w, result);
	if (top->ended)
		return row_refuse(w, TM_Invisible, result);
	if (!row_is_meant(w, top->writer, true, top->cid, insert))
		return row_refuse(w, w->meant == ZMEANT_DIRTY ? TM_Updated :
						  TM_Invisible, result);
	return ROW_TAKEN;
}

/*
 * FOR KEY SHARE doesn't care for updates that leave the keys alone, running or
 * committed after the snapshot (in place, none ever changes a key): the row is
 * locked, and the caller gets the version that it means below the update.  If
 * that moved the row, the row's later versions must be locked too.  (An update
 * by who had the row locked FOR UPDATE counts as one of the key: heap has one mark
 * for both.)
 */
static RowStep
row_judge_below(ZRowWrite *w, TM_Result *result)
{
	ZVersion   *v;
	RowStep		step = ROW_TAKEN;
	bool		found;

	Assert(w->wish.lock_only && w->mode == LockTupleKeyShare);
	if (w->meant == ZMEANT_SNAPSHOT &&
		zheap_newest_was_locked(&w->cx, w->buffer, w->page, w->block, w->off,
								w->snapshot))
		return row_refuse(w, TM_Updated, result);
	v = palloc(sizeof(ZVersion));
	zheap_version_init(v);
	found = row_find_as(w, w->meant == ZMEANT_SNAPSHOT ? w->cx.snapshot :
						SnapshotSelf, v);

	if (!found && v->ended && w->meant != ZMEANT_SNAPSHOT)
		step = ROW_AGAIN;		/* the mover committed just now */
	else if (!found)
		step = row_refuse(w, TM_Invisible, result);
	else if (v->writer != InvalidFxid && v->writer == w->top.writer)
		step = ROW_AGAIN;		/* it committed just now */
	else if (w->meant == ZMEANT_DIRTY &&
			 !row_is_meant(w, v->writer, false, InvalidCommandId, false))
	{
		step = row_refuse(w, TM_Updated, result);
		w->failure.xmax = XidFromFxid(v->writer);
	}
	else
	{
		/* what I did to the row since is more than a lock */
		w->found.lock_suffices = w->top.status == ZXACT_CURRENT;
		w->found.moved_on = w->top.ended && !w->found.lock_suffices;
		w->image_writer = v->writer;
		w->image_cid = v->own ? v->cid : InvalidCommandId;
		row_keep_image(w, v);
	}
	zheap_version_forget(v);
	pfree(v);
	return step;
}

/*
 * Below a change in progress: did somebody commit one that the caller's
 * snapshot doesn't see?  Then there is nothing to wait for: heap, which meets
 * that one first, fails at once where the isolation level forbids to go on.
 */
static bool
row_is_outdated(ZRowWrite *w)
{
	ZVersion   *v;
	bool		outdated;

	if (w->meant != ZMEANT_SNAPSHOT || !IsolationUsesXactSnapshot())
		return false;

	v = palloc(sizeof(ZVersion));
	zheap_version_init(v);
	outdated = row_find_as(w, SnapshotSelf, v) &&
		!zheap_row_take_visible(w->snapshot, v->writer, v->own, v->cid);
	zheap_version_forget(v);
	pfree(v);
	return outdated;
}

/*
 * A later version of a row whose older version is being locked FOR KEY SHARE:
 * is there a change of the key in the way?  What the row looks like doesn't
 * matter, nor whether anybody sees it.
 */
static RowStep
row_judge_later(ZRowWrite *w, TM_Result *result, Fxid *wait_for)
{
	const ZTop *top = &w->top;

	Assert(w->wish.lock_only && w->mode == LockTupleKeyShare);
	if (!top->exists)
		return row_refuse(w, TM_Invisible, result);

	switch (top->status)
	{
		case ZXACT_ABORTED:
			return ROW_AGAIN;

		case ZXACT_CURRENT:
			/* so are all that follow */
			w->found.lock_suffices = true;
			return ROW_TAKEN;

		case ZXACT_RUNNING:
			if (row_top_is_kept_move(top))
				w->found.moved_on = true;
			else if (top->ended ||
					 (top->kind == ZUNDO_UPDATE && top->key_changed))
			{
				*wait_for = top->writer;
				return ROW_WAIT;
			}
			return ROW_TAKEN;

		case ZXACT_COMMITTED:
			if (w->snapshot != NULL && IsMVCCSnapshot(w->snapshot) &&
				zheap_newest_was_locked(&w->cx, w->buffer, w->page, w->block,
										w->off, w->snapshot))
				return row_refuse(w, TM_Updated, result);
			break;

		case ZXACT_ALL_VISIBLE:
			break;
	}
	if (row_top_is_kept_move(top))
		w->found.moved_on = true;
	else if (top->ended)
		return row_refuse(w, row_ended_result(top), result);
	return ROW_TAKEN;
}

/*
 * Which version is on top, whose is it, and is it the one meant?  ROW_TAKEN:
 * as far as changes go, the row is free.
 */
static RowStep
row_judge_version(ZRowWrite *w, TM_Result *result, Fxid *wait_for)
{
	const ZTop *top = &w->top;

	Assert(w->held.pages);
	if (!top->exists)
		return row_refuse(w, TM_Invisible, result);

	switch (top->status)
	{
		case ZXACT_ABORTED:
			return ROW_AGAIN;	/* aborted since the page was cleaned */

		case ZXACT_RUNNING:
			if (row_top_is_insert(w))
				return row_refuse(w, TM_Invisible, result);
			if (w->wish.lock_only && w->mode == LockTupleKeyShare &&
				((top->kind == ZUNDO_UPDATE && !top->key_changed) ||
				 row_top_is_kept_move(top)))
				return row_judge_below(w, result);
			if (row_is_outdated(w))
				return row_refuse(w, TM_Updated, result);
			*wait_for = top->writer;
			return ROW_WAIT;

		case ZXACT_CURRENT:
			return row_judge_own(w, result);

		case ZXACT_COMMITTED:
		case ZXACT_ALL_VISIBLE:
			break;
	}

	if (top->ended)
	{
		if (w->wish.lock_only && w->mode == LockTupleKeyShare &&
			w->meant == ZMEANT_SNAPSHOT && row_top_is_kept_move(top) &&
			!zheap_row_take_visible(w->snapshot, top->writer, false,
									InvalidCommandId))
			return row_judge_below(w, result);
		return row_refuse(w, row_ended_result(top), result);
	}
	if (!row_is_meant(w, top->status == ZXACT_ALL_VISIBLE ? InvalidFxid :
					  top->writer, false, InvalidCommandId,
					  row_top_is_insert(w)))
	{
		if (w->wish.lock_only && w->mode == LockTupleKeyShare &&
			w->meant == ZMEANT_SNAPSHOT)
			return row_judge_below(w, result);
		return row_refuse(w, TM_Updated, result);
	}
	return ROW_TAKEN;
}

/* ----------------------------------------------------------------
 *	live lockers (Z23)
 * ----------------------------------------------------------------
 */

/* a single lock, by my present tenure or an earlier one of my family */
static bool
row_is_own_alone(const ZRowWrite *w)
{
	uint16		f = w->header.flags2;
	ZXactSlot	slot;

	Assert(w->held.pages);
	if ((f & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED)) != ZH_LOCK_ONLY || ZHeaderReused(&w->header) != ZH_REUSED_NONE)
		return false;
	slot = ZPageGetXactSlot(w->page, w->header.slot);
	return zheap_xact_slot_fxid_status(ZXactSlotFxid(slot), &w->cx.hz) ==
		ZXACT_CURRENT;
}

/*
 * Was a lock of mine found that is surely the only live one?  The header may
 * say so (Z23), and nobody else has a lock beside the strongest.
 */
static bool
row_own_lock_is_only(const ZRowWrite *w)
{
	uint16		f = w->header.flags2;

	return w->lockers.own_live &&
		(w->lockers.own_mode == LockTupleExclusive ||
		 (f & ZH_MANY) == 0);
}

#ifdef USE_ASSERT_CHECKING
static bool
row_has_foreign_lockers(ZRowWrite *w)
{
	ZLockers	all;

	return zheap_lockers_find(&w->cx, w->page, w->block, w->off, w->mode,
							  &all) && all.foreign_live;
}
#endif

/*
 * Does w's lock or change exclude none of the row's locks?  Then it doesn't
 * matter whose they are, only whether somebody may have one: what those who run
 * did on the page isn't read.  False if none is alive.
 */
static bool
row_excludes_none(ZRowWrite *w)
{
	uint16		f = w->header.flags2;
	LockTupleMode mode =
		(LockTupleMode) ((f & ZH_MODE_MASK) >> ZH_MODE_SHIFT);

	if (zheap_lockers_exclude(w->mode, mode))
		return false;
	if ((f & ZH_MULTI_LOCKED) == 0)
	{
		ZXactSlot	slot = zheap_page_row_slot(w->page, &w->header);

		/* one locker: if it has ended, so has the lock */
		return slot != NULL &&
			zheap_xact_slot_status(w->buffer, slot, &w->cx.hz) ==
			ZXACT_RUNNING;
	}
	return w->wish.lock_only ||
		zheap_lockers_may_live(&w->cx, w->buffer, w->page, w->block, w->off);
}

/*
 * Find the live lockers of the row.  ROW_TAKEN: none that the wanted mode
 * excludes.
 */
static RowStep
row_judge_lockers(ZRowWrite *w, Fxid *wait_for)
{
	uint16		f = w->header.flags2;
	ZLockers   *lockers = &w->lockers;

	Assert(w->held.pages && w->held.context);
	memset(lockers, 0, sizeof(ZLockers));

	/* the frequent case of a lock taken twice */
	if (row_is_own_alone(w))
	{
		lockers->own_live = true;
		lockers->own_mode =
			(LockTupleMode) ((f & ZH_MODE_MASK) >> ZH_MODE_SHIFT);
	}
	else if (f & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED))
	{
		bool		none = row_excludes_none(w);

		if (none && w->wish.lock_only)
		{
			/* one that isn't remembered is recorded again: no harm */
			lockers->own_live = zheap_lockers_remembered(w);
			lockers->own_mode = w->mode;
		}
		else if ((f & ZH_MULTI_LOCKED) &&
				 !zheap_lockers_find_own(&w->cx, w->page, w->block, w->off,
										 lockers))
			return ROW_AGAIN;
		if (none)
			lockers->foreign_live = true;
		else if (row_own_lock_is_only(w))
			Assert(!row_has_foreign_lockers(w));
		else if (!zheap_lockers_find(&w->cx, w->page, w->block, w->off,
									 w->mode, lockers))
			return ROW_AGAIN;
	}
	*wait_for = lockers->conflict;
	return *wait_for != InvalidFxid ? ROW_WAIT : ROW_TAKEN;
}

/*
 * Do I need no lock record, because of an own change or lock on top?  A row
 * that only I can see needs none; that isn't true of one that I moved without
 * changing its key, since others may lock it FOR KEY SHARE all the same.
 */
static bool
row_is_held(const ZRowWrite *w)
{
	const ZTop *top = &w->top;

	/* a record isn't enough: the header must lead others to it */
	if (w->lockers.own_live && w->lockers.own_mode >= w->mode &&
		((w->header.flags2 & ZH_MULTI_LOCKED) || row_is_own_alone(w)))
		return true;
	if (top->status != ZXACT_CURRENT)
		return false;
	if (row_top_is_insert(w))
		return w->mode <= LockTupleNoKeyExclusive ||
			!top->kept_key;
	return top->kind == ZUNDO_UPDATE &&
		(w->mode <= LockTupleNoKeyExclusive || top->key_changed);
}

/* Clear what dead lockers left in the header, before it is recorded. */
static void
row_normalise(ZRowWrite *w)
{
	ZTupleHeader *h = &w->header;

	if (w->lockers.foreign_live || w->lockers.own_live)
		return;
	if (h->flags2 & ZH_LOCK_ONLY)
	{
		h->slot = 0;
		h->flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK | ZH_INPLACE);
	}
	h->flags2 &= ~(ZH_MULTI_LOCKED | ZH_MANY | ZH_MODE_MASK);
}

/* ----------------------------------------------------------------
 *	taking a row
 * ----------------------------------------------------------------
 */

/*
 * Look at a row that was spilled.  It can't be taken any more, but why not, and
 * where it went, matters, and to whom locks the version below a move
 * (row_judge_below) so does the rest.
 */
static RowStep
row_look_spilled(ZRowWrite *w, TM_Result *result)
{
	ZVersion   *v = palloc(sizeof(ZVersion));

	Assert(w->held.pages);
	zheap_version_init(v);
	zheap_newest_version(&w->cx, w->buffer, w->page, w->block, w->off,
						 &w->top);
	if (!w->top.exists)
	{
		/* no snapshot that could have seen it is left */
		pfree(v);
		return row_refuse(w, TM_Deleted, result);
	}
	Assert(w->top.ended);
	(void) row_find_as(w, SnapshotAny, v);
	if (v->len == 0)
	{
		/* the last one that could has just gone */
		pfree(v);
		return row_refuse(w, TM_Deleted, result);
	}
	zheap_header_get(v->data, &w->header);
	w->image_writer = w->top.writer;
	w->image_cid = InvalidCommandId;
	row_keep_image(w, v);
	zheap_version_forget(v);
	pfree(v);
	return ROW_TAKEN;
}

/*
 * The frequent case of a change by a later command of a row that is mine
 * already: which command made it matters to nobody, nor what kind of change it
 * was.  Lockers show the version to others, and so tell.
 */
static bool
row_look_own(ZRowWrite *w)
{
	CommandId	cid = w->cid;

	if (w->wish.lock_only || w->crosscheck != InvalidSnapshot ||
		w->meant == ZMEANT_DIRTY)
		return false;
	if (w->meant == ZMEANT_SNAPSHOT)
		cid = Min(cid, w->snapshot->curcid);
	return zheap_newest_own_top(&w->cx, w->buffer, w->page, w->block,
									w->off, cid, &w->top);
}

/*
 * The frequent case of an update or a lock of a version that was seen: whose it
 * is matters to nobody but a worker of logical replication.  A deletion that
 * finds it visible to all may need no record of its own.
 */
static bool
row_look_seen(ZRowWrite *w)
{
	return (w->decide != NULL || w->wish.lock_only) &&
		w->meant == ZMEANT_SNAPSHOT &&
		w->snapshot->snapshot_type == SNAPSHOT_MVCC &&
		w->crosscheck == InvalidSnapshot &&
		!IsolationIsSerializable() && !IsLogicalWorker() &&
		zheap_newest_is_seen(&w->cx, w->buffer, w->page, w->block, w->off,
							 w->snapshot, &w->top);
}

/*
 * The writer of a version that is visible to all, as long as the page names it:
 * the owner of its xact slot, or another subtransaction of the same one.
 * A worker of logical replication looks up its origin, by 32 bits.
 */
static Fxid
settled_writer(Page page, const ZTupleHeader *header)
{
	ZXactSlot	slot = zheap_page_row_slot(page, header);
	Fxid		writer;
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());

	Assert(zheap_page_is_valid(page));
	if (slot == NULL || (header->flags2 & ZH_LOCK_ONLY) != 0 ||
		ZHeaderReused(header) == ZH_REUSED_FOREIGN)
		return InvalidFxid;
	writer = ZXactSlotFxid(slot);
	return writer + MaxTransactionId / 2 > next ? writer : InvalidFxid;
}

/* Find the row on the locked page: header, image, top version. */
static RowStep
row_look(ZRowWrite *w, TM_Result *result)
{
	ItemId		lp;
	const char *tuple;

	Assert(w->held.pages && w->held.context);
	AssertPageExclusive(w->buffer);
	w->found.moved_on = false;
	w->found.lock_suffices = false;
	w->found.approximate = false;
	w->choice.id = 0;
	memset(&w->top, 0, sizeof(w->top));
	memset(&w->failure, 0, sizeof(w->failure));

	if (PageIsNew(w->page))
		return row_refuse(w, TM_Invisible, result);
	zheap_page_check(w->rel, w->block, w->page);
	if (zheap_xact_slot_any_aborted(w->buffer, w->page, &w->cx.hz) &&
		!zheap_rollback_buffer(w->rel, w->buffer))
		return ROW_ROLL_BACK;

	if (w->off < FirstOffsetNumber ||
		w->off > PageGetMaxOffsetNumber(w->page))
		return row_refuse(w, TM_Invisible, result);
	if (zheap_shared_is_aborted(&w->cx.reader, &w->cx.hz, w->page, w->block,
								w->off) &&
		!zheap_rollback_buffer(w->rel, w->buffer))
		return ROW_ROLL_BACK;
	lp = PageGetItemId(w->page, w->off);
	if (!ItemIdIsUsed(lp))
		return row_refuse(w, TM_Invisible, result);
	if (ZItemIdIsSpilled(lp))
		return row_look_spilled(w, result);
	if (!ItemIdIsNormal(lp))
		return row_refuse(w, TM_Deleted, result);

	tuple = (char *) w->page + ItemIdGetOffset(lp);
	zheap_header_get(tuple, &w->header);
	if (row_look_seen(w))
		w->found.approximate = ZHeaderReused(&w->header) != ZH_REUSED_NONE;
	else if (!row_look_own(w))
		zheap_newest_version(&w->cx, w->buffer, w->page, w->block, w->off,
							 &w->top);
	w->image_writer = w->top.writer;
	if (w->image_writer == InvalidFxid && IsLogicalWorker())
		w->image_writer = settled_writer(w->page, &w->header);
	w->image_cid = w->top.cid;
	w->image_len = zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
	memcpy(w->image, tuple, w->image_len);
	return ROW_TAKEN;
}

/* for tests: one of so many locks and ends shares an xact slot; 0: none does */
#define SHARED_MADE				UNDO_KNOB("shared-slot", 0, 0, 4)

/*
 * Is the shared xact slot to be taken although there is another?  (A change that
 * isn't a lock ends the row then.)
 */
static bool
row_tries_shared(const ZRowWrite *w)
{
	int			every = SHARED_MADE;

	return every > 0 && w->choice.tenure != ZTENURE_CONTINUE &&
		w->choice.tenure != ZTENURE_FAMILY &&
		zheap_xact_slot_may_share(w->rel) &&
		(w->fxid + w->off) % every == 0;
}

/*
 * Choose the xact slot.  That may grow the page, so the header is read again;
 * it is shown as it is going to be if the xact slot is frozen for us.
 */
static RowStep
row_reserve(ZRowWrite *w)
{
	ItemId		lp;

	Assert(w->held.pages);
	AssertPageExclusive(w->buffer);
	/* as on heap, who waits for a lock may have no transaction id yet */
	if (w->fxid == InvalidFxid)
		w->fxid = undo_log_current_fxid();
	if (zheap_xact_slot_reserve(w->rel, w->buffer, &w->cx.hz, w->fxid,
								w->wish.lock_only ? ZRESERVE_FOR_LOCK :
								ZRESERVE_FOR_CHANGE, w->header.slot,
								&w->choice) == ZRESERVE_ABORTED)
		return ROW_AGAIN;
	if (row_tries_shared(w))
		zheap_xact_slot_share(w->rel, w->buffer, &w->choice);
	if (w->choice.tenure == ZTENURE_SHARED)
		zheap_share_shorten(w);

	lp = PageGetItemId(w->page, w->off);
	Assert(ItemIdIsNormal(lp));
	Assert(w->choice.id != 0);
	zheap_header_get((char *) w->page + ItemIdGetOffset(lp), &w->header);
	row_normalise(w);
	if (w->choice.tenure == ZTENURE_FROZEN)
		zheap_xact_slot_flag_header(&w->header, w->choice.id,
									w->choice.tenure);
	return ROW_TAKEN;
}

/* One look at the row, page locked. */
static RowStep
row_try(ZRowWrite *w, TM_Result *result, Fxid *wait_for)
{
	RowStep		step;

	step = row_look(w, result);
	if (step != ROW_TAKEN)
		return step;
	if (w->decide != NULL && w->top.exists)
		w->decide(w, w->decide_arg);

	if (w->wish.later)
		step = row_judge_later(w, result, wait_for);
	else
		step = row_judge_version(w, result, wait_for);
	if (step == ROW_WAIT)
	{
		/* a transaction that has a lock does not queue */
		memset(&w->lockers, 0, sizeof(ZLockers));
		if ((w->header.flags2 & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED)) &&
			!zheap_lockers_find_own(&w->cx, w->page, w->block, w->off,
									&w->lockers))
			return ROW_AGAIN;
		return ROW_WAIT;
	}
	if (step != ROW_TAKEN || w->found.lock_suffices)
		return step;
	step = row_judge_lockers(w, wait_for);
	if (step != ROW_TAKEN)
		return step;
	/* who has a lock no more may have committed the change on top, too */
	if (w->top.status == ZXACT_RUNNING &&
		zheap_xact_slot_fxid_status(w->top.writer, &w->cx.hz) != ZXACT_RUNNING)
		return ROW_AGAIN;
	if (w->crosscheck != InvalidSnapshot &&
		!zheap_row_take_visible(w->crosscheck, w->top.writer,
								w->top.status == ZXACT_CURRENT, w->top.cid))
		return row_refuse(w, TM_Updated, result);

	if (w->wish.lock_only && row_is_held(w))
	{
		w->found.lock_suffices = true;
		return ROW_TAKEN;
	}
	if (w->found.moved_on && w->top.status == ZXACT_COMMITTED)
	{
		/* here, nobody will ever want it again */
		w->found.lock_suffices = true;
		return ROW_TAKEN;
	}

	return row_reserve(w);
}

/*
 * Wait until the row can be changed or locked by w, or find that it can't.
 * Nothing is locked on entry.  TM_Ok: page (and newbuf) locked, choice made
 * (unless held).  TM_WouldBlock,
 * TM_BeingModified: nothing locked.  Others: page locked, so that the caller
 * can still use image.  Throws what waiting throws, and 55P03 for NOWAIT.
 */
TM_Result
zheap_row_take(ZRowWrite *w)
{
	if (!w->wish.lock_only && w->fxid == InvalidFxid)
		w->fxid = undo_log_current_fxid();
	for (;;)
	{
		TM_Result	result = TM_Ok;
		Fxid		wait_for = InvalidFxid;

		CHECK_FOR_INTERRUPTS();
		AssertNoPageLocked();
		zheap_row_lock(w);

		switch (row_try(w, &result, &wait_for))
		{
			case ROW_TAKEN:
				return TM_Ok;
			case ROW_REFUSED:
				Assert(result != TM_Ok);
				return result;
			case ROW_WAIT:
				result = zheap_row_wait_for(w, wait_for);
				break;
			case ROW_ROLL_BACK:
				zheap_row_unlock(w);
				zheap_rollback_page(w->rel, w->block);
				break;
			case ROW_AGAIN:
				zheap_row_unlock(w);
				break;
		}
		if (result != TM_Ok)
			return result;
	}
}
