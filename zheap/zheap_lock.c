/*-------------------------------------------------------------------------
 *
 * zheap_lock.c
 *	  Writers meeting on a row: which version does the caller mean, who is in
 *	  the way, waiting, the recheck after waiting; and row locks.
 *
 * A row lock is an undo record of the locker plus bits in the row's header
 * (rule M13).  Nobody's bits are believed without a look: live lockers are
 * found in the chains of the page's running xact slot owners.
 *
 * Moves (rule M14): here a mover waits for every live foreign locker of the
 * row, and a locker waits for a running mover whatever its mode, so no lock is
 * ever left behind at the old TID.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/visibilitymap.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "storage/predicate.h"
#include "utils/snapmgr.h"

#include "zheap/zheap.h"
#include "zheap/zheap_lock.h"
#include "zheap/zheap_xlog_change.h"

/* what one look at the locked page came to */
typedef enum RowStep
{
	ROW_TAKEN,
	ROW_REFUSED,				/* result and w->failure say why; still locked */
	ROW_WAIT,					/* for a transaction in the way */
	ROW_WAIT_XACT_SLOT,			/* for an xact slot */
	ROW_GET_TAG,				/* for the overflow lock */
	ROW_AGAIN					/* something ended while we looked */
} RowStep;

/* heavyweight locks as strong as the four row lock modes, on tuple and tag */
static const LOCKMODE heavy_mode[] = {
	[LockTupleKeyShare] = AccessShareLock,
	[LockTupleShare] = RowShareLock,
	[LockTupleNoKeyExclusive] = ExclusiveLock,
	[LockTupleExclusive] = AccessExclusiveLock
};

bool		zheap_epq_running = false;

/* ----------------------------------------------------------------
 *	what DIRTY fetches found
 * ----------------------------------------------------------------
 */

/*
 * The tag DIRTY decides that a caller means the version a DIRTY fetch found;
 * this memory only tells which one that was.  A few entries, since one INSERT
 * may look into several unique indexes before it locks a row.
 */
#define DIRTY_MEMO_SIZE			16

typedef struct DirtyMemo
{
	Oid			relid;
	ItemPointerData tid;
	Fxid		writer;
	CommandId	cid;
} DirtyMemo;

static DirtyMemo dirty_memo[DIRTY_MEMO_SIZE];
static int	dirty_memo_next = 0;

static DirtyMemo *
dirty_memo_find(Oid relid, const ItemPointerData *tid)
{
	for (int i = 0; i < DIRTY_MEMO_SIZE; i++)
	{
		DirtyMemo  *m = &dirty_memo[i];

		if (m->relid == relid &&
			ItemPointerGetBlockNumberNoCheck(&m->tid) ==
			ItemPointerGetBlockNumberNoCheck(tid) &&
			zheap_tid_offset(&m->tid) == zheap_tid_offset(tid))
			return m;
	}
	return NULL;
}

void
zheap_dirty_memo_set(Oid relid, const ItemPointerData *tid, Fxid writer,
					 CommandId cid)
{
	DirtyMemo  *m = dirty_memo_find(relid, tid);

	if (m == NULL)
	{
		m = &dirty_memo[dirty_memo_next];
		dirty_memo_next = (dirty_memo_next + 1) % DIRTY_MEMO_SIZE;
	}
	m->relid = relid;
	m->tid = *tid;
	m->writer = writer;
	m->cid = cid;
}

bool
zheap_dirty_memo_get(Oid relid, const ItemPointerData *tid, Fxid *writer,
					 CommandId *cid)
{
	DirtyMemo  *m = dirty_memo_find(relid, tid);

	if (m == NULL)
		return false;
	*writer = m->writer;
	*cid = m->cid;
	return true;
}

/* ----------------------------------------------------------------
 *	begin, lock the page, end
 * ----------------------------------------------------------------
 */

/*
 * No lock held.  Assigns a transaction id.  The caller then fills in mode,
 * policy and the like where the defaults (a change, FOR UPDATE strength,
 * waiting) don't fit.
 */
void
zheap_row_begin(ZRowWrite *w, Relation rel, const ItemPointerData *tid,
				CommandId cid, Snapshot snapshot, Snapshot crosscheck)
{
	uint16		tag = zheap_tid_tag(tid);

	Assert(ItemPointerIsValid(tid));
	if (IsInParallelMode())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("cannot change or lock rows during a parallel operation")));
	if (tag & ZTID_PRE)
		elog(ERROR, "row version (%u,%u) of relation \"%s\" is the image before an update and can't be changed or locked",
			 ItemPointerGetBlockNumberNoCheck(tid), zheap_tid_offset(tid),
			 RelationGetRelationName(rel));

	memset(w, 0, offsetof(ZRowWrite, image));
	w->rel = rel;
	w->snapshot = snapshot;
	w->crosscheck = crosscheck;
	w->cid = cid;
	w->mode = LockTupleExclusive;
	w->policy = LockWaitBlock;
	w->wait = true;
	w->oper = XLTW_Update;
	w->choice.id = 0;

	w->block = ItemPointerGetBlockNumberNoCheck(tid);
	w->off = zheap_tid_offset(tid);
	ItemPointerSet(&w->tid, w->block, w->off);

	if (tag & ZTID_LOCKED)
		w->meant = ZMEANT_TOP;
	else if (tag & ZTID_DIRTY)
	{
		w->from_dirty = true;
		w->meant = ZMEANT_MEMO;
		if (!zheap_dirty_memo_get(RelationGetRelid(rel), tid,
								  &w->memo_writer, &w->memo_cid))
		{
			/* forgotten: nothing but an all-visible version matches */
			w->memo_writer = InvalidFxid;
			w->memo_cid = InvalidCommandId;
		}
	}
	else if (snapshot == NULL || !IsMVCCSnapshot(snapshot))
		w->meant = ZMEANT_TOP;
	else
		w->meant = ZMEANT_SNAPSHOT;

	w->fxid = undo_current_fxid();
	w->buffer = InvalidBuffer;
	w->vmbuffer = InvalidBuffer;
	w->newbuf = InvalidBuffer;
	w->newvm = InvalidBuffer;
}

static void
row_pin_vm(ZRowWrite *w)
{
	if (w->need_vm && PageIsAllVisible(BufferGetPage(w->buffer)))
		visibilitymap_pin(w->rel, w->block, &w->vmbuffer);
	if (BufferIsValid(w->newbuf) &&
		PageIsAllVisible(BufferGetPage(w->newbuf)))
		visibilitymap_pin(w->rel, BufferGetBlockNumber(w->newbuf), &w->newvm);
}

static bool
row_vm_pinned(ZRowWrite *w)
{
	if (w->need_vm && PageIsAllVisible(BufferGetPage(w->buffer)) &&
		!visibilitymap_pin_ok(w->block, w->vmbuffer))
		return false;
	return !(BufferIsValid(w->newbuf) &&
			 PageIsAllVisible(BufferGetPage(w->newbuf)) &&
			 !visibilitymap_pin_ok(BufferGetBlockNumber(w->newbuf), w->newvm));
}

/* ascending (rule W30) */
static void
row_lock_buffers(ZRowWrite *w)
{
	bool		new_first = BufferIsValid(w->newbuf) &&
	BufferGetBlockNumber(w->newbuf) < w->block;

	Assert(!BufferIsValid(w->newbuf) || w->newbuf != w->buffer);
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
}

/*
 * Sample horizons, then lock the page, and the other page of a move.  VM pages
 * are pinned as far as all-visible flags ask for it.
 */
static void
row_lock(ZRowWrite *w)
{
	Assert(!w->locked && !w->reading);

	if (!BufferIsValid(w->buffer))
		w->buffer = ReadBuffer(w->rel, w->block);
	zheap_read_begin(&w->cx, w->rel, w->snapshot);
	w->reading = true;

	row_pin_vm(w);
	row_lock_buffers(w);
	while (!row_vm_pinned(w))
	{
		row_unlock_buffers(w);
		row_pin_vm(w);
		row_lock_buffers(w);
	}
	w->locked = true;
	w->page = BufferGetPage(w->buffer);
}

/* Give up page locks and undo pins; table and VM pins are kept. */
void
zheap_row_unlock(ZRowWrite *w)
{
	if (w->locked)
		row_unlock_buffers(w);
	w->locked = false;
	if (w->reading)
		zheap_read_end(&w->cx);
	w->reading = false;
}

static void
row_release_pins(ZRowWrite *w)
{
	Buffer	   *pins[4] = {&w->buffer, &w->vmbuffer, &w->newbuf, &w->newvm};

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
	if (w->queued)
		UnlockTuple(w->rel, &w->tid, heavy_mode[w->queue_mode]);
	w->queued = false;
}

/* Release everything.  The overflow lock stays: it is the transaction's. */
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
 * Queue for the row, so that waiters get it in turn.  Who already has some
 * lock on the row doesn't queue: he would wait for those who wait for him.
 * False: policy is to skip, and somebody is first.
 */
static bool
row_queue(ZRowWrite *w)
{
	LOCKMODE	heavy = heavy_mode[w->mode];

	if (w->queued || w->own_live || w->top.status == ZXACT_CURRENT)
		return true;

	if (w->policy == LockWaitBlock)
		LockTuple(w->rel, &w->tid, heavy);
	else if (!ConditionalLockTuple(w->rel, &w->tid, heavy))
	{
		if (w->policy == LockWaitError)
			row_not_available(w);
		return false;
	}
	w->queued = true;
	w->queue_mode = w->mode;
	return true;
}

/*
 * Wait for a transaction whose change or lock is in the way.  Page unlocked.
 * TM_Ok: it ended, look again.
 */
static TM_Result
row_wait(ZRowWrite *w, Fxid fxid)
{
	TransactionId xid = XidFromFxid(fxid);

	Assert(!w->locked && !w->reading);
	w->failure.ctid = w->tid;
	w->failure.xmax = xid;
	w->failure.cmax = InvalidCommandId;

	if (!w->wait)
		return TM_BeingModified;
	if (!row_queue(w))
		return TM_WouldBlock;

	if (w->policy == LockWaitBlock)
		XactLockTableWait(xid, w->rel, &w->tid, w->oper);
	else if (!ConditionalXactLockTableWait(xid))
	{
		if (w->policy == LockWaitError)
			row_not_available(w);
		return TM_WouldBlock;
	}
	return TM_Ok;
}

void
zheap_row_wait_xact_slot(ZRowWrite *w, Fxid fxid)
{
	zheap_row_unlock(w);
	XactLockTableWait(XidFromFxid(fxid), w->rel, &w->tid, w->oper);
}

/*
 * The overflow lock of a row, for lockers that get no xact slot: a lock of
 * the transaction's lifetime that survives PREPARE and is given back at a
 * subtransaction's abort.  TM_Ok or TM_WouldBlock.
 */
static TM_Result
row_get_tag(ZRowWrite *w)
{
	LockTupleMode mode = w->alone ? LockTupleExclusive : w->mode;
	LOCKTAG		tag;

	Assert(!w->locked);
	tag.locktag_field1 = w->rel->rd_lockInfo.lockRelId.dbId;
	tag.locktag_field2 = w->rel->rd_lockInfo.lockRelId.relId;
	tag.locktag_field3 = w->block;
	tag.locktag_field4 = w->off;
	tag.locktag_type = LOCKTAG_USERLOCK;
	tag.locktag_lockmethodid = DEFAULT_LOCKMETHOD;

	if (LockAcquire(&tag, heavy_mode[mode], false,
					w->policy != LockWaitBlock) == LOCKACQUIRE_NOT_AVAIL)
	{
		if (w->policy == LockWaitError)
			row_not_available(w);
		return TM_WouldBlock;
	}
	w->tagged = true;
	w->tag_mode = mode;
	return TM_Ok;
}

/* ----------------------------------------------------------------
 *	judging the version
 * ----------------------------------------------------------------
 */

/* do two modes exclude each other; the relation is monotonous in both */
static bool
row_modes_conflict(LockTupleMode a, LockTupleMode b)
{
	switch (a)
	{
		case LockTupleKeyShare:
			return b == LockTupleExclusive;
		case LockTupleShare:
			return b >= LockTupleNoKeyExclusive;
		case LockTupleNoKeyExclusive:
			return b >= LockTupleShare;
		case LockTupleExclusive:
			break;
	}
	return true;
}

static bool
row_top_is_insert(const ZRowWrite *w)
{
	const ZTop *top = &w->top;

	if (top->kind == 0)
		return !top->ended && (w->header.flags2 & ZH_INPLACE) == 0;
	return top->kind == ZUNDO_INSERT_OPEN || top->kind == ZUNDO_INSERT_SET;
}

/* is a finished or own version of this identity visible to an MVCC snapshot */
static bool
row_visible_to(Snapshot snapshot, Fxid writer, bool own, CommandId cid)
{
	if (writer == InvalidFxid)
		return true;
	if (own)
		return cid < snapshot->curcid;
	return !XidInMVCCSnapshot(XidFromFxid(writer), snapshot);
}

/*
 * Is a live version, own or committed, the one the caller means?  Two
 * all-visible identities of a row are equal, and what became all-visible
 * since the memo was written is what was found then: an update after that
 * can't be all-visible while the caller's snapshot exists (attack A17).
 */
static bool
row_is_meant(ZRowWrite *w, Fxid writer, bool own, CommandId cid, bool insert)
{
	switch (w->meant)
	{
		case ZMEANT_TOP:
			return true;
		case ZMEANT_MEMO:
			return writer == InvalidFxid ||
				(writer == w->memo_writer && (!own || cid == w->memo_cid));
		case ZMEANT_SNAPSHOT:
			break;
	}
	/* a row has no older version than the inserted one */
	return insert || row_visible_to(w->snapshot, writer, own, cid);
}

static RowStep
row_refuse(ZRowWrite *w, TM_Result why, TM_Result *result)
{
	const ZTop *top = &w->top;

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

/*
 * The top is my own change.  Its command id tells whether the present command
 * may see it (heap's rules).
 */
static RowStep
row_judge_own(ZRowWrite *w, TM_Result *result)
{
	const ZTop *top = &w->top;
	bool		insert = row_top_is_insert(w);

	if (top->cid >= w->cid)
	{
		if (insert)
			return row_refuse(w, TM_Invisible, result);
		/* ON CONFLICT meets its own work: "a second time" */
		if (w->from_dirty && !top->ended)
			return row_refuse(w, TM_Invisible, result);
		return row_refuse(w, TM_SelfModified, result);
	}
	if (top->ended)
		return row_refuse(w, TM_Invisible, result);
	if (!row_is_meant(w, top->writer, true, top->cid, insert))
		return row_refuse(w, w->meant == ZMEANT_MEMO ? TM_Updated :
						  TM_Invisible, result);
	return ROW_TAKEN;
}

/*
 * FOR KEY SHARE doesn't care for updates that leave the keys alone, running or
 * committed after the snapshot (in place, none ever changes a key): the row is
 * locked, and the caller gets the version he means below the update.
 */
static RowStep
row_judge_below(ZRowWrite *w, TM_Result *result)
{
	ZVersion   *v = palloc(sizeof(ZVersion));
	Snapshot	save = w->cx.snapshot;
	bool		save_check = w->cx.check_serializable;
	RowStep		step = ROW_TAKEN;
	bool		found;

	/* a lock is no read in the sense of SERIALIZABLE */
	w->cx.check_serializable = false;
	if (w->meant != ZMEANT_SNAPSHOT)
		w->cx.snapshot = SnapshotSelf;
	found = zheap_visible_version(&w->cx, w->buffer, w->page, w->block,
								  w->off, v);
	w->cx.snapshot = save;
	w->cx.check_serializable = save_check;

	if (!found)
		step = row_refuse(w, TM_Invisible, result);
	else if (v->writer != InvalidFxid && v->writer == w->top.writer)
		step = ROW_AGAIN;		/* it committed just now */
	else if (w->meant == ZMEANT_MEMO &&
			 !row_is_meant(w, v->writer, false, InvalidCommandId, false))
	{
		step = row_refuse(w, TM_Updated, result);
		w->failure.xmax = XidFromFxid(v->writer);
	}
	else
	{
		w->old_image = true;
		w->image_writer = v->writer;
		w->image_cid = v->own ? v->cid : InvalidCommandId;
		w->image_len = v->len;
		memcpy(w->image, v->data, v->len);
	}
	pfree(v);
	return step;
}

/*
 * Which version is on top, whose is it, and is it the one meant?  ROW_TAKEN:
 * as far as changes go, the row is free.
 */
static RowStep
row_judge_version(ZRowWrite *w, TM_Result *result, Fxid *wait_for)
{
	const ZTop *top = &w->top;

	if (!top->exists)
		return row_refuse(w, TM_Invisible, result);

	switch (top->status)
	{
		case ZXACT_ABORTED:
			return ROW_AGAIN;	/* aborted since the page was cleaned */

		case ZXACT_RUNNING:
			if (row_top_is_insert(w))
				return row_refuse(w, TM_Invisible, result);
			if (w->lock_only && w->mode == LockTupleKeyShare &&
				top->kind == ZUNDO_UPDATE && !top->key_changed)
				return row_judge_below(w, result);
			*wait_for = top->writer;
			return ROW_WAIT;

		case ZXACT_CURRENT:
			return row_judge_own(w, result);

		case ZXACT_COMMITTED:
		case ZXACT_ALL_VISIBLE:
			break;
	}

	if (top->ended)
		return row_refuse(w, top->moved_partition ||
						  (top->kind == ZUNDO_MOVE &&
						   ItemPointerIsValid(&top->next)) ?
						  TM_Updated : TM_Deleted, result);
	if (!row_is_meant(w, top->status == ZXACT_ALL_VISIBLE ? InvalidFxid :
					  top->writer, false, InvalidCommandId,
					  row_top_is_insert(w)))
	{
		if (w->lock_only && w->mode == LockTupleKeyShare &&
			w->meant == ZMEANT_SNAPSHOT)
			return row_judge_below(w, result);
		return row_refuse(w, TM_Updated, result);
	}
	return ROW_TAKEN;
}

/* ----------------------------------------------------------------
 *	live lockers (rule M13)
 * ----------------------------------------------------------------
 */

static void
row_note_lock(ZRowWrite *w, Fxid fxid, bool own, LockTupleMode mode,
			  Fxid *wait_for)
{
	if (own)
	{
		if (!w->own_live || mode > w->own_mode)
			w->own_mode = mode;
		w->own_live = true;
		return;
	}
	w->foreign_live = true;
	if (*wait_for == InvalidFxid &&
		(w->alone || row_modes_conflict(w->mode, mode)))
		*wait_for = fxid;
}

/*
 * Look through the tenures of one xact slot as long as their owner runs:
 * family boundaries are crossed, so locks of a parent under a released
 * savepoint are found.  False: an owner ended meanwhile, begin again.
 */
static bool
row_scan_lockers(ZRowWrite *w, ZXactSlot slot, Fxid *wait_for)
{
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	Fxid		fxid = ZXactSlotFxid(slot);
	UndoRecPtr	urp = slot->urp;
	bool		ok = true;

	while (ok && fxid != InvalidFxid)
	{
		ZXactStatus status = zheap_xact_status(fxid, &w->cx.hz);
		ZUndo		u;

		if (status == ZXACT_ABORTED)
			ok = false;
		if (status != ZXACT_RUNNING && status != ZXACT_CURRENT)
			break;
		do
		{
			if (!undo_fetch(&w->cx.reader, urp, fxid, w->block, false, rec))
			{
				ok = false;
				break;
			}
			zheap_undo_decode(rec, &u);
			if (u.kind == ZUNDO_LOCK && u.offset == w->off)
				row_note_lock(w, fxid, status == ZXACT_CURRENT,
							  (LockTupleMode) u.lockmode, wait_for);
			urp = u.chain;
		} while ((u.flags & ZUNDO_TENURE_START) == 0);
		if (ok)
			fxid = u.prev_fxid;
	}
	pfree(rec);
	return ok;
}

/* a single lock, by my present tenure or an earlier one of my family */
static bool
row_is_mine_alone(ZRowWrite *w)
{
	uint16		f = w->header.flags2;
	ZXactSlot	slot;

	if ((f & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED | ZH_HW_LOCKED)) !=
		ZH_LOCK_ONLY || ZHeaderReused(&w->header) != ZH_REUSED_NONE)
		return false;
	slot = ZPageGetXactSlot(w->page, w->header.slot);
	return zheap_xact_status(ZXactSlotFxid(slot), &w->cx.hz) == ZXACT_CURRENT;
}

/*
 * Find who has the row locked.  ROW_TAKEN: nobody whom the wanted mode
 * excludes; foreign_live, own_live, own_mode are set.
 */
static RowStep
row_judge_lockers(ZRowWrite *w, Fxid *wait_for)
{
	uint16		f = w->header.flags2;
	int			nslots = ZPageGetOpaque(w->page)->nslots;

	w->foreign_live = w->own_live = false;

	/* the frequent case of a lock taken twice */
	if (row_is_mine_alone(w))
	{
		w->own_live = true;
		w->own_mode = (LockTupleMode) ((f & ZH_MODE_MASK) >> ZH_MODE_SHIFT);
	}
	else if (f & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED))
	{
		for (int id = 1; id <= nslots; id++)
		{
			ZXactSlot	slot = ZPageGetXactSlot(w->page, id);

			if (!ZXactSlotIsFree(slot) &&
				!row_scan_lockers(w, slot, wait_for))
				return ROW_AGAIN;
		}
	}
	return *wait_for != InvalidFxid ? ROW_WAIT : ROW_TAKEN;
}

/* do I need no lock record, because of an own change or lock on top */
static bool
row_is_held(const ZRowWrite *w)
{
	if (w->own_live && w->own_mode >= w->mode)
		return true;
	if (w->top.status != ZXACT_CURRENT)
		return false;
	/* a row nobody else can see */
	if (row_top_is_insert(w))
		return true;
	return w->top.kind == ZUNDO_UPDATE &&
		(w->mode <= LockTupleNoKeyExclusive || w->top.key_changed);
}

/* Clear what dead lockers left in the header, before it is recorded. */
static void
row_normalise(ZRowWrite *w)
{
	ZTupleHeader *h = &w->header;

	if (w->foreign_live || w->own_live)
		return;
	if (h->flags2 & ZH_LOCK_ONLY)
	{
		h->slot = 0;
		h->flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK | ZH_INPLACE);
	}
	h->flags2 &= ~ZH_MULTI_LOCKED;
	if ((h->flags2 & ZH_HW_LOCKED) == 0)
		h->flags2 &= ~ZH_MODE_MASK;
}

/* ----------------------------------------------------------------
 *	taking a row
 * ----------------------------------------------------------------
 */

/* Find the row on the locked page: header, image, top version. */
static RowStep
row_look(ZRowWrite *w, TM_Result *result)
{
	ItemId		lp;
	const char *tuple;

	w->old_image = false;
	w->held = false;
	w->choice.id = 0;
	memset(&w->top, 0, sizeof(w->top));
	memset(&w->failure, 0, sizeof(w->failure));

	if (PageIsNew(w->page))
		return row_refuse(w, TM_Invisible, result);
	zheap_page_check(w->rel, w->block, w->page);
	if (zheap_page_has_aborted(w->buffer, w->page, &w->cx.hz))
		zheap_rollback_buffer(w->rel, w->buffer);

	if (w->off < FirstOffsetNumber ||
		w->off > PageGetMaxOffsetNumber(w->page))
		return row_refuse(w, TM_Invisible, result);
	lp = PageGetItemId(w->page, w->off);
	if (!ItemIdIsUsed(lp))
		return row_refuse(w, TM_Invisible, result);
	if (ZItemIdIsSpilled(lp))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("changing a row whose body was moved to undo is not supported")));
	if (!ItemIdIsNormal(lp))
		return row_refuse(w, TM_Deleted, result);

	tuple = (char *) w->page + ItemIdGetOffset(lp);
	zheap_header_get(tuple, &w->header);
	zheap_top_version(&w->cx, w->buffer, w->page, w->block, w->off, &w->top);
	w->image_writer = w->top.writer;
	w->image_cid = w->top.cid;
	w->image_len = zheap_tuple_true_len(tuple, ItemIdGetLength(lp));
	memcpy(w->image, tuple, w->image_len);
	return ROW_TAKEN;
}

/*
 * Choose the xact slot.  That may freeze or grow the page, so the header is
 * read again.
 */
static RowStep
row_reserve(ZRowWrite *w, Fxid *wait_for)
{
	ItemId		lp;

	switch (zheap_xact_slot_reserve(w->rel, w->buffer, &w->cx.hz, w->fxid,
									w->header.slot, &w->choice, wait_for))
	{
		case ZRESERVE_ABORTED:
			return ROW_AGAIN;
		case ZRESERVE_WAIT:
			w->choice.id = 0;
			if (!w->lock_only)
				return ROW_WAIT_XACT_SLOT;
			w->want_tag = true;
			return w->tagged && w->tag_mode >= w->mode ?
				ROW_TAKEN : ROW_GET_TAG;
		case ZRESERVE_OK:
			break;
	}

	lp = PageGetItemId(w->page, w->off);
	Assert(ItemIdIsNormal(lp));
	zheap_header_get((char *) w->page + ItemIdGetOffset(lp), &w->header);
	row_normalise(w);
	return ROW_TAKEN;
}

/* One look at the row, page locked. */
static RowStep
row_try(ZRowWrite *w, TM_Result *result, Fxid *wait_for)
{
	RowStep		step;
	LockTupleMode tag_mode;

	step = row_look(w, result);
	if (step != ROW_TAKEN)
		return step;
	if (w->decide != NULL && w->top.exists)
		w->decide(w, w->decide_arg);

	step = row_judge_version(w, result, wait_for);
	if (step == ROW_WAIT)
	{
		Fxid		ignored = InvalidFxid;

		/* do I have a lock: who has doesn't queue */
		if (row_judge_lockers(w, &ignored) == ROW_AGAIN)
			return ROW_AGAIN;
	}
	if (step != ROW_TAKEN)
		return step;
	step = row_judge_lockers(w, wait_for);
	if (step != ROW_TAKEN)
		return step;

	if (w->crosscheck != InvalidSnapshot &&
		!row_visible_to(w->crosscheck, w->top.writer,
						w->top.status == ZXACT_CURRENT, w->top.cid))
		return row_refuse(w, TM_Updated, result);

	if (w->lock_only && row_is_held(w))
	{
		w->held = true;
		return ROW_TAKEN;
	}

	/* lockers that got no xact slot hold the tag */
	tag_mode = w->alone ? LockTupleExclusive : w->mode;
	if ((w->header.flags2 & ZH_HW_LOCKED) &&
		!(w->tagged && w->tag_mode >= tag_mode))
		return ROW_GET_TAG;

	return row_reserve(w, wait_for);
}

/*
 * Wait until the row can be changed or locked by w, or find that it can't.
 * Nothing is locked on entry.  TM_Ok: page (and newbuf) locked, choice made
 * (unless held or want_tag without xact slot).  TM_WouldBlock,
 * TM_BeingModified: nothing locked.  Others: page locked, so that the caller
 * can still use image.  Throws what waiting throws, and 55P03 for NOWAIT.
 */
TM_Result
zheap_row_take(ZRowWrite *w)
{
	for (;;)
	{
		TM_Result	result = TM_Ok;
		Fxid		wait_for = InvalidFxid;

		CHECK_FOR_INTERRUPTS();
		row_lock(w);

		switch (row_try(w, &result, &wait_for))
		{
			case ROW_TAKEN:
				return TM_Ok;
			case ROW_REFUSED:
				Assert(result != TM_Ok);
				return result;
			case ROW_WAIT:
				zheap_row_unlock(w);
				result = row_wait(w, wait_for);
				break;
			case ROW_WAIT_XACT_SLOT:
				zheap_row_wait_xact_slot(w, wait_for);
				break;
			case ROW_GET_TAG:
				zheap_row_unlock(w);
				result = row_get_tag(w);
				break;
			case ROW_AGAIN:
				zheap_row_unlock(w);
				break;
		}
		if (result != TM_Ok)
			return result;
	}
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

/*
 * The record of a change of w's row, and the header it will have (its natts
 * and value flags as they are).  Who still has a lock on the row, myself
 * included, must be found by later writers: MULTI_LOCKED stays.
 */
void
zheap_row_describe(ZRowWrite *w, uint8 kind, bool key, ZUndo *u,
				   ZTupleHeader *header)
{
	Assert(w->locked && w->choice.id != 0);

	memset(u, 0, sizeof(ZUndo));
	ItemPointerSetInvalid(&u->tid);
	u->kind = kind;
	u->offset = w->off;
	u->cid = w->cid;
	zheap_undo_describe_old(&w->cx, w->page, w->block, w->off, &w->choice,
							&w->header, u);
	if (key)
		u->flags |= ZUNDO_KEY;

	*header = w->header;
	header->slot = w->choice.id;
	header->flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK);
	if (w->foreign_live || w->own_live)
		header->flags2 |= ZH_MULTI_LOCKED;
	if ((header->flags2 & (ZH_MULTI_LOCKED | ZH_HW_LOCKED)) == 0)
		header->flags2 &= ~ZH_MODE_MASK;
}

void
zheap_row_write(ZRowWrite *w, uint8 info, const ZUndo *u,
				const ZTupleHeader *header, const char *tuple, uint16 len)
{
	uint16		payload_len = zheap_undo_payload_size(u);
	char	   *payload = palloc(payload_len);
	UndoInsertion ins;
	ZVmClear	vm;
	ZOwnChange	own;
	ZRowChange	row;
	xl_zheap_change xlrec;
	xl_zheap_middle middle;

	Assert(w->locked && w->choice.id != 0);
	Assert((info == XLOG_ZHEAP_UPDATE) == (tuple != NULL));

	/* prepare */
	zheap_undo_encode(u, payload);
	undo_insertion_init(&ins, w->rel);
	undo_insertion_add(&ins, u->kind, u->flags, w->block, w->off, u->chain,
					   payload, payload_len);
	memset(&vm, 0, sizeof(vm));
	if (ZHeaderIsEnded(header) && PageIsAllVisible(w->page))
		zheap_vm_add(&vm, w->block, w->vmbuffer);
	zheap_vm_lock(&vm);
	undo_prepare(&ins);

	own.xact_slot = w->choice.id;
	own.tenure = w->choice.tenure;
	own.fxid = w->fxid;
	own.urp = ins.rec[0].urp;
	row.offset = w->off;
	row.header = *header;
	row.tuple = tuple;
	row.len = len;
	row.prune_xid = XidFromFxid(w->fxid);

	xlrec.undo_offset = undo_insertion_offset(&ins, 0);
	xlrec.offset = w->off;
	xlrec.xact_slot = own.xact_slot;
	xlrec.tenure = own.tenure;
	xlrec.flags = vm.nblocks > 0 ? ZCHANGE_CLEARED_VM : 0;
	zheap_header_put(xlrec.header, header);
	middle.prefix = u->prefix;
	middle.oldmid = u->oldmid;
	middle.newmid = u->newmid;

	START_CRIT_SECTION();

	/* apply */
	zheap_change_apply_own(w->page, &own);
	if (!zheap_change_apply_row(w->page, &row))
		elog(PANIC, "no room for the new version of row (%u,%u)",
			 w->block, w->off);
	MarkBufferDirty(w->buffer);
	undo_insert(&ins);
	zheap_vm_clear(&vm);

	/* log */
	if (RelationNeedsWAL(w->rel))
	{
		XLogRecPtr	lsn;

		XLogBeginInsert();
		XLogRegisterData((char *) &xlrec, SizeOfZHeapChange);
		if (tuple != NULL)
			XLogRegisterData((char *) &middle, sizeof(middle));
		XLogRegisterBuffer(0, w->buffer, REGBUF_STANDARD);
		if (tuple != NULL && middle.newmid > 0)
			XLogRegisterBufData(0, (char *) tuple + ZHEAP_HEADER_SIZE +
								middle.prefix, middle.newmid);
		undo_register(&ins, 1);
		zheap_vm_register(&vm, 2);
		lsn = XLogInsert(ZHEAP_RMGR_ID, info);
		PageSetLSN(w->page, lsn);
		undo_set_lsn(&ins, lsn);
		zheap_vm_set_lsn(&vm, lsn);
	}
	else
		undo_log_alone(&ins);

	END_CRIT_SECTION();

	/* release */
	undo_release(&ins);
	zheap_vm_release(&vm);
	pfree(payload);
}

/* a lock without xact slot: the tag is held, say so in the header */
static void
row_mark_tagged(ZRowWrite *w)
{
	ZPageDelta	delta;
	Page		work;
	ZTupleHeader h;
	char	   *tuple;
	int			mode;

	Assert(w->tagged);
	work = zheap_delta_begin(&delta, w->rel, w->buffer);
	tuple = (char *) work + ItemIdGetOffset(PageGetItemId(work, w->off));
	zheap_header_get(tuple, &h);
	mode = (h.flags2 & ZH_MODE_MASK) >> ZH_MODE_SHIFT;
	if ((h.flags2 & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED | ZH_HW_LOCKED)) == 0)
		mode = 0;
	mode = Max(mode, (int) w->mode);
	h.flags2 = (h.flags2 & ~ZH_MODE_MASK) | ZH_HW_LOCKED |
		(mode << ZH_MODE_SHIFT);
	zheap_header_put(tuple, &h);
	zheap_delta_finish(&delta, InvalidFxid);
}

/*
 * LOCK_ONLY, the cheap form, only on an all-visible version without other
 * lockers.  A stronger lock of mine replaces my LOCK_ONLY; rolled back, the
 * weaker one is searched for (u->replaced).
 */
void
zheap_row_write_lock(ZRowWrite *w)
{
	ZTupleHeader h = w->header;
	bool		flagged = (h.flags2 & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED |
									   ZH_HW_LOCKED)) != 0;
	int			mode = flagged ? (h.flags2 & ZH_MODE_MASK) >> ZH_MODE_SHIFT : 0;
	ZUndo		u;

	if (w->held)
		return;
	if (w->choice.id == 0)
	{
		row_mark_tagged(w);
		return;
	}

	memset(&u, 0, sizeof(u));
	ItemPointerSetInvalid(&u.tid);
	u.kind = ZUNDO_LOCK;
	u.offset = w->off;
	u.cid = w->cid;
	u.lockmode = (uint8) w->mode;
	zheap_undo_describe_tenure(&w->cx, w->page, w->block, &w->choice, &u);

	/* the takeover pass goes over this row too */
	zheap_xact_slot_flag_header(&h, w->choice.id, w->choice.tenure);

	if ((h.flags2 & ZH_LOCK_ONLY) && w->own_live && !w->foreign_live &&
		(h.flags2 & ZH_MULTI_LOCKED) == 0)
	{
		Assert(h.slot == w->choice.id);
		ZHeaderSetReused(&h, ZH_REUSED_NONE);
		u.replaced = true;
	}
	else if (h.flags2 & ZH_LOCK_ONLY)
	{
		h.slot = 0;
		h.flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK | ZH_INPLACE);
		h.flags2 |= ZH_MULTI_LOCKED;
	}
	else if ((h.flags2 & (ZH_MULTI_LOCKED | ZH_HW_LOCKED)) == 0 &&
			 (h.slot == 0 || w->top.status == ZXACT_ALL_VISIBLE))
	{
		h.slot = w->choice.id;
		h.flags2 &= ~(ZH_REUSED_MASK | ZH_INPLACE);
		h.flags2 |= ZH_LOCK_ONLY;
	}
	else
		h.flags2 |= ZH_MULTI_LOCKED;

	mode = Max(mode, (int) w->mode);
	h.flags2 = (h.flags2 & ~ZH_MODE_MASK) | (mode << ZH_MODE_SHIFT);

	zheap_row_write(w, XLOG_ZHEAP_LOCK, &u, &h, NULL, 0);
}

/* ----------------------------------------------------------------
 *	tuple_lock
 * ----------------------------------------------------------------
 */

/*
 * The version meant isn't the newest: may the lock go to the newest instead?
 * If so, aim w at it.
 *
 * A move is followed only if the caller's snapshot doesn't see the mover: then
 * neither the new row nor its line pointer can have been reused, whatever
 * happened to it, while that snapshot exists (lemma L1).
 */
static bool
row_follow(ZRowWrite *w)
{
	ItemPointerData next;

	if (w->snapshot == NULL || !IsMVCCSnapshot(w->snapshot))
		return false;
	if (!(w->top.exists && w->top.ended))
	{
		/* changed in place */
		w->meant = ZMEANT_TOP;
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
		row_visible_to(w->snapshot, w->top.writer,
					   w->top.status == ZXACT_CURRENT, w->top.cid))
		return false;

	zheap_row_unlock(w);
	row_release_pins(w);
	row_leave_queue(w);
	w->tid = next;
	w->block = ItemPointerGetBlockNumber(&next);
	w->off = ItemPointerGetOffsetNumber(&next);
	w->meant = ZMEANT_TOP;
	w->from_dirty = false;
	w->tagged = false;
	w->want_tag = false;
	return true;
}

/*
 * Give the image to the tuple slot.  tid and slot->tts_tid may be the same
 * memory (rule R5): on failure it must keep what it was.
 */
static void
row_give_image(ZRowWrite *w, TupleTableSlot *slot, const ItemPointerData *tid)
{
	if (w->image_len > 0)
		zheap_slot_store(slot, RelationGetRelid(w->rel), tid, w->image,
						 w->image_len, w->image_writer, w->image_cid);
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
	ZRowWrite  *w = palloc(sizeof(ZRowWrite));
	TM_Result	result;

	/* rule R1: who comes with LOCKED is through with EvalPlanQual */
	if (zheap_tid_tag(&orig) & ZTID_LOCKED)
		zheap_epq_running = false;

	zheap_row_begin(w, rel, &orig, cid, snapshot, InvalidSnapshot);
	w->lock_only = true;
	w->mode = mode;
	w->policy = wait_policy;
	w->oper = XLTW_Lock;
	w->image_len = 0;

	for (;;)
	{
		result = zheap_row_take(w);
		if (result != TM_Updated ||
			(flags & TUPLE_LOCK_FLAG_FIND_LAST_VERSION) == 0 ||
			!row_follow(w))
			break;
		traversed = true;
		w->image_len = 0;
	}

	if (result == TM_Ok)
	{
		ItemPointerData found = w->tid;

		zheap_row_write_lock(w);
		zheap_row_end(w);
		row_give_image(w, slot, &found);
		if ((flags & TUPLE_LOCK_FLAG_LOCK_UPDATE_IN_PROGRESS) == 0)
			zheap_tid_set_tag(&found, ZTID_LOCKED);
		*tid = found;
		tmfd->traversed = traversed;
		if (traversed)
			zheap_epq_running = true;
	}
	else
	{
		zheap_row_end(w);
		if (result == TM_Invisible || result == TM_SelfModified)
			row_give_image(w, slot, &orig);
		*tmfd = w->failure;
		tmfd->traversed = traversed;
	}
	pfree(w);
	return result;
}
