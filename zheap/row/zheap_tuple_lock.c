/*-------------------------------------------------------------------------
 *
 * zheap_tuple_lock.c
 *	  The row lock as core asks for it: table_tuple_lock().  Which version of
 *	  the row the lock goes to, and what the caller gets to see.
 *
 * The row is judged by zheap_lock.c, waited for by zheap_row.c and written by
 * zheap_row_write.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/row/zheap_tuple_lock.h"

/* ----------------------------------------------------------------
 *	following a row to its newest version
 * ----------------------------------------------------------------
 */

/*
 * The version meant isn't the newest: may the lock go to the newest instead?
 * If so, aim w at it.
 *
 * A move is followed only if the caller's snapshot doesn't see the mover, or if
 * I am that: then neither the new row nor its line pointer can have been reused,
 * whatever happened to it, while that snapshot exists (Z1), or my transaction
 * lasts.
 */
static bool
lock_follow(ZRowWrite *w)
{
	bool		own = w->top.exists && w->top.status == ZXACT_CURRENT;
	ItemPointerData next;

	Assert(w->held.pages && w->wish.lock_only);
	if (w->snapshot == NULL || !IsMVCCSnapshot(w->snapshot))
		return false;
	if (!(w->top.exists && w->top.ended) || (own && !w->wish.last) ||
		w->top.status == ZXACT_RUNNING)
	{
		/* changed in place, at least until I came, or below a move that isn't over */
		w->meant = ZMEANT_TOP;
		w->wish.last = true;
		zheap_row_unlock(w);
		return true;
	}

	if (w->top.moved_partition)
	{
		zheap_row_end(w);
		ereport(ERROR,
				(errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
				 errmsg("tuple to be locked was already moved to another partition due to concurrent update")));
	}
	next = w->top.next;
	if (w->top.kind != ZUNDO_MOVE || !ItemPointerIsValid(&next) ||
		(!own && zheap_row_take_visible(w->snapshot, w->top.writer, false,
										w->top.cid)))
		return false;

	zheap_row_end(w);
	w->tid = next;
	w->block = ItemPointerGetBlockNumber(&next);
	w->off = ItemPointerGetOffsetNumber(&next);
	w->meant = ZMEANT_TOP;
	w->wish.last = true;
	w->found.dirty = false;
	return true;
}

/* ----------------------------------------------------------------
 *	FOR KEY SHARE below a move (Z24)
 * ----------------------------------------------------------------
 */

static TM_Result lock_take(ZRowWrite *w);

/*
 * Lock the version that the move on top of w's row led to, and all after it.
 * TM_Ok too if there is nothing any more: then the mover aborted.  Nothing is
 * locked on entry and return; w only says what is wanted.
 */
static TM_Result
lock_later(ZRowWrite *w, const ItemPointerData *tid)
{
	ZRowWrite  *next = palloc(sizeof(ZRowWrite));
	TM_Result	result;

	AssertNoPageLocked();
	Assert(w->wish.lock_only && w->mode == LockTupleKeyShare);
	zheap_row_begin(next, w->rel, tid, w->cid, w->snapshot, InvalidSnapshot);
	next->wish.lock_only = true;
	next->wish.later = true;
	next->meant = ZMEANT_TOP;
	next->mode = w->mode;
	next->policy = w->policy;
	next->wish.wait = w->wish.wait;
	next->oper = XLTW_LockUpdated;

	result = lock_take(next);
	if (result == TM_Ok)
		zheap_row_write_lock(next);
	zheap_row_end(next);
	if (result != TM_Ok && result != TM_Invisible)
		w->failure = next->failure;
	pfree(next);
	return result == TM_Invisible ? TM_Ok : result;
}

/*
 * As zheap_row_take(), but the later versions of a row taken below a move are
 * locked on return.
 *
 * They are locked first, the newest before all others, and then it is checked
 * that the same move is still on top here.  So a link is followed only to what
 * its mover put there: had it aborted, it would be gone from the top.  And a
 * transaction that sees the new version meets the lock there or, if it moves
 * it on, takes it along; if the mover aborts it is met here.
 */
static TM_Result
lock_take(ZRowWrite *w)
{
	Fxid		mover = InvalidFxid;
	ItemPointerData next;
	TM_Result	later = TM_Ok;

	Assert(w->wish.lock_only);
	AssertNoPageLocked();
	check_stack_depth();
	ItemPointerSetInvalid(&next);
	for (;;)
	{
		TM_Result	result = zheap_row_take(w);

		if (result != TM_Ok || !w->found.moved_on)
			return result;

		if (mover == w->top.writer && ItemPointerEquals(&next, &w->top.next))
		{
			if (later != TM_Ok)
			{
				w->failure.ctid = next;
				w->failure.xmax = XidFromFxid(mover);
				w->failure.cmax = InvalidCommandId;
			}
			return later;
		}

		mover = w->top.writer;
		next = w->top.next;
		zheap_row_unlock(w);
		later = lock_later(w, &next);
		if (later == TM_WouldBlock || later == TM_BeingModified)
			return later;
	}
}

/* ----------------------------------------------------------------
 *	tuple_lock
 * ----------------------------------------------------------------
 */

/*
 * Give the image to the tuple slot.  tid and slot->tts_tid may be the same
 * memory: on failure it must keep what it was.
 */
static void
lock_give_image(ZRowWrite *w, TupleTableSlot *slot, const ItemPointerData *tid)
{
	AssertNoPageLocked();
	if (w->image_len == 0)
		return;
	zheap_tuple_slot_store(slot, RelationGetRelid(w->rel), tid, w->image,
						   w->image_len, w->image_writer, w->image_cid);
	zheap_tuple_slot_set_unsure(slot, w->found.approximate, false);
}

/*
 * Lock a row; see table_tuple_lock().  On TM_Ok *tid is where the row is, with
 * the tag LOCKED unless flags has LOCK_UPDATE_IN_PROGRESS, and the tuple slot
 * has the version that was locked.  *tid is written on TM_Ok alone.
 */
TM_Result
zheap_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot,
				 TupleTableSlot *slot, CommandId cid, LockTupleMode mode,
				 LockWaitPolicy wait_policy, uint8 flags,
				 TM_FailureData *tmfd)
{
	ItemPointerData orig = *tid;
	bool		traversed = false;
	ZRowWrite	row;
	ZRowWrite  *w = &row;
	TM_Result	result;

	Assert(CritSectionCount == 0);
	AssertNoPageLocked();
	UNDO_IDLE_POINT("lock-row");
	zheap_row_begin(w, rel, &orig, cid, snapshot, InvalidSnapshot);
	w->wish.lock_only = true;
	w->mode = mode;
	w->policy = wait_policy;
	w->oper = XLTW_Lock;
	w->image_len = 0;

	for (;;)
	{
		result = lock_take(w);
		if (result != TM_Updated ||
			(flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) == 0 ||
			!lock_follow(w))
			break;
		traversed = true;
		w->image_len = 0;
	}

	if (result == TM_Ok)
	{
		ItemPointerData found = w->tid;

		zheap_row_write_lock(w);
		zheap_row_end(w);
		lock_give_image(w, slot, &found);
		if ((flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS) == 0)
			zheap_tid_set_tag(&found, ZTID_LOCKED);
		*tid = found;
		/* MERGE of older minor versions goes on from here instead of *tid */
		tmfd->ctid = found;
		tmfd->traversed = traversed;
	}
	else
	{
		zheap_row_end(w);
		if (result == TM_Invisible || result == TM_SelfModified)
			lock_give_image(w, slot, &orig);
		*tmfd = w->failure;
		tmfd->traversed = traversed;
	}
	zheap_row_forget_image(w);
	return result;
}
