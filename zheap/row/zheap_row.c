/*-------------------------------------------------------------------------
 *
 * zheap_row.c
 *	  A write to a row in flight: begin, lock its pages, wait for others, end.
 *
 * Which version is meant and which transaction is in the way is judged by
 * zheap_lock.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/visibilitymap.h"
#include "access/xact.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/sees/zheap_tid_memory.h"

/* heavyweight locks as strong as the four row lock modes */
static const LOCKMODE heavy_mode[] = {
	[LockTupleKeyShare] = AccessShareLock,
	[LockTupleShare] = RowShareLock,
	[LockTupleNoKeyExclusive] = ExclusiveLock,
	[LockTupleExclusive] = AccessExclusiveLock
};

/* ----------------------------------------------------------------
 *	begin, lock the page, end
 * ----------------------------------------------------------------
 */

/*
 * No lock held.  The caller then fills in mode,
 * policy and the like where the defaults (a change, FOR UPDATE strength,
 * waiting) don't fit.
 */
void
zheap_row_begin(ZRowWrite *w, Relation rel, const ItemPointerData *tid,
				CommandId cid, Snapshot snapshot, Snapshot crosscheck)
{
	uint16		tag = zheap_tid_tag(tid);

	Assert(ItemPointerIsValid(tid));
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	AssertNoPageLocked();
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot change or lock rows during a parallel operation")));
	if (tag & ZTID_PRE)
		elog(ERROR,
			 "row version (%u,%u) of relation \"%s\" is the image before an update and cannot be changed or locked",
			 ItemPointerGetBlockNumberNoCheck(tid), zheap_tid_offset(tid),
			 RelationGetRelationName(rel));
	undo_check_room(rel->rd_rel->relpersistence);

	memset(w, 0, offsetof(ZRowWrite, room));
	w->image = w->room;
	w->rel = rel;
	w->snapshot = snapshot;
	w->crosscheck = crosscheck;
	w->cid = cid;
	w->mode = LockTupleExclusive;
	w->policy = LockWaitBlock;
	w->wish.wait = true;
	w->oper = XLTW_Update;
	w->choice.id = 0;

	w->block = ItemPointerGetBlockNumberNoCheck(tid);
	w->off = zheap_tid_offset(tid);
	ItemPointerSet(&w->tid, w->block, w->off);

	if (tag & ZTID_LOCKED)
		w->meant = ZMEANT_TOP;
	else if (tag & ZTID_DIRTY)
	{
		w->found.dirty = true;
		w->meant = ZMEANT_DIRTY;
		if (!zheap_tid_memory_dirty(RelationGetRelid(rel), tid,
								   &w->dirty_writer, &w->dirty_cid))
		{
			/* forgotten: nothing but an all-visible version matches */
			w->dirty_writer = InvalidFxid;
			w->dirty_cid = InvalidCommandId;
		}
	}
	else if (snapshot == NULL || !IsMVCCSnapshot(snapshot))
		w->meant = ZMEANT_TOP;
	else
		w->meant = ZMEANT_SNAPSHOT;

	w->fxid = InvalidFxid;
	w->buffer = InvalidBuffer;
	w->vmbuffer = InvalidBuffer;
	w->newbuf = InvalidBuffer;
	w->newvm = InvalidBuffer;
}

static void
row_pin_vm(ZRowWrite *w)
{
	AssertNoPageLocked();
	if (w->wish.vm && PageIsAllVisible(BufferGetPage(w->buffer)))
		visibilitymap_pin(w->rel, w->block, &w->vmbuffer);
	if (BufferIsValid(w->newbuf) &&
		PageIsAllVisible(BufferGetPage(w->newbuf)))
		visibilitymap_pin(w->rel, BufferGetBlockNumber(w->newbuf), &w->newvm);
}

static bool
row_vm_pinned(ZRowWrite *w)
{
	if (w->wish.vm && PageIsAllVisible(BufferGetPage(w->buffer)) &&
		!visibilitymap_pin_ok(w->block, w->vmbuffer))
		return false;
	return !(BufferIsValid(w->newbuf) &&
			 PageIsAllVisible(BufferGetPage(w->newbuf)) &&
			 !visibilitymap_pin_ok(BufferGetBlockNumber(w->newbuf), w->newvm));
}

/* ascending, as always */
static void
row_lock_buffers(ZRowWrite *w)
{
	bool		new_first = BufferIsValid(w->newbuf) &&
		BufferGetBlockNumber(w->newbuf) < w->block;

	Assert(!BufferIsValid(w->newbuf) || w->newbuf != w->buffer);
	AssertNoPageLocked();
	if (new_first)
		LockBuffer(w->newbuf, BUFFER_LOCK_EXCLUSIVE);
	LockBuffer(w->buffer, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(w->newbuf) && !new_first)
		LockBuffer(w->newbuf, BUFFER_LOCK_EXCLUSIVE);
}

static void
row_unlock_buffers(ZRowWrite *w)
{
	LockBuffer(w->buffer, BUFFER_LOCK_UNLOCK);
	if (BufferIsValid(w->newbuf))
		LockBuffer(w->newbuf, BUFFER_LOCK_UNLOCK);
	UNDO_POINT("row-unlocked");
}

/*
 * Sample horizons, then lock the page, and the other page of a move.  VM pages
 * are pinned as far as all-visible flags ask for it.
 */
void
zheap_row_lock(ZRowWrite *w)
{
	Assert(!w->held.pages && !w->held.context);

	if (!BufferIsValid(w->buffer))
		w->buffer = zheap_buffer_read(w->rel, w->block);
	zheap_visibility_begin(&w->cx, w->rel, w->snapshot);
	w->held.context = true;

	row_pin_vm(w);
	row_lock_buffers(w);
	while (!row_vm_pinned(w))
	{
		row_unlock_buffers(w);
		row_pin_vm(w);
		row_lock_buffers(w);
	}
	AssertPageExclusive(w->buffer);
	w->held.pages = true;
	w->page = BufferGetPage(w->buffer);
}

/* Give up page locks and undo pins; table and VM pins are kept. */
void
zheap_row_unlock(ZRowWrite *w)
{
	Assert(!w->held.pages || w->held.context);
	if (w->held.pages)
		row_unlock_buffers(w);
	w->held.pages = false;
	if (w->held.context)
		zheap_visibility_end(&w->cx);
	w->held.context = false;
}

static void
row_release_pins(ZRowWrite *w)
{
	Buffer	   *pins[4] = {&w->buffer, &w->vmbuffer, &w->newbuf, &w->newvm};

	Assert(!w->held.pages && !w->held.context);
	for (int i = 0; i < 4; i++)
	{
		if (BufferIsValid(*pins[i]))
			ReleaseBuffer(*pins[i]);
		*pins[i] = InvalidBuffer;
	}
}

/* give up the place in the queue of the row's waiters */
static void
row_leave_queue(ZRowWrite *w)
{
	Assert(!w->held.pages);
	if (w->held.queue)
		UnlockTuple(w->rel, &w->tid, heavy_mode[w->held.queue_mode]);
	w->held.queue = false;
}

/* Release everything: w may be forgotten, or aimed at another row. */
void
zheap_row_end(ZRowWrite *w)
{
	zheap_row_unlock(w);
	row_release_pins(w);
	row_leave_queue(w);
}

/* ----------------------------------------------------------------
 *	waiting
 * ----------------------------------------------------------------
 */

static void
row_not_available(ZRowWrite *w)
{
	ereport(ERROR,
			(errcode(ERRCODE_LOCK_NOT_AVAILABLE),
			 errmsg("could not obtain lock on row in relation \"%s\"",
					RelationGetRelationName(w->rel))));
}

/*
 * Queue for the row, so that waiters get it in turn.  A transaction that
 * already has some lock on the row does not queue: it would wait for those
 * that wait for it. False: policy is to skip, and somebody is first.
 */
static bool
row_queue(ZRowWrite *w)
{
	LOCKMODE	heavy = heavy_mode[w->mode];

	AssertNoPageLocked();
	Assert(w->wish.wait);
	if (w->held.queue || w->lockers.own_live ||
		w->top.status == ZXACT_CURRENT)
		return true;

	UNDO_ERROR_POINT("before-wait");
	if (w->policy == LockWaitBlock)
		LockTuple(w->rel, &w->tid, heavy);
	else if (!ConditionalLockTuple(w->rel, &w->tid, heavy, false))
	{
		if (w->policy == LockWaitError)
			row_not_available(w);
		return false;
	}
	w->held.queue = true;
	w->held.queue_mode = w->mode;
	return true;
}

/*
 * Give the pages up and wait for a transaction whose change or lock is in the
 * way.  TM_Ok: it ended, look again.
 */
TM_Result
zheap_row_wait_for(ZRowWrite *w, Fxid fxid)
{
	TransactionId xid = XidFromFxid(fxid);

	Assert(fxid != InvalidFxid && CritSectionCount == 0);
	zheap_row_unlock(w);
	AssertNoPageLocked();
	w->failure.ctid = w->tid;
	w->failure.xmax = xid;
	w->failure.cmax = InvalidCommandId;

	if (!w->wish.wait)
		return TM_BeingModified;
	if (!row_queue(w))
		return TM_WouldBlock;

	if (w->policy == LockWaitBlock)
		XactLockTableWait(xid, w->rel, &w->tid, w->oper);
	else if (!ConditionalXactLockTableWait(xid, false))
	{
		if (w->policy == LockWaitError)
			row_not_available(w);
		return TM_WouldBlock;
	}
	return TM_Ok;
}
