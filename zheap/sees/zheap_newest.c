/*-------------------------------------------------------------------------
 *
 * zheap_newest.c
 *	  The newest version of a row, for writers and for those that ask whether
 *	  a row is dead to every snapshot.
 *
 * Locks: as in zheap_visibility.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/sees/zheap_visibility.h"

/* undo records worth reading to find out that an index entry is dead */
#define DEAD_BUDGET				UNDO_KNOB("dead-budget", 50, 1, 50)

/* records worth reading to find an owner whom the snapshot sees */
#define SEEN_BUDGET				64

/*
 * Stand at the newest version that isn't of an aborted writer.  If *status
 * isn't COMMITTED or ALL_VISIBLE, or a record is wanted of a committed one,
 * the record that made it is in walk->undo (*found).  *aborted: something was
 * stepped over.
 */
static ZWalkState
walk_to_top(ZReadContext *cx, ZWalk *walk, Page page, Buffer buffer,
			ZXactStatus *status, bool *found, bool *aborted)
{
	ZWalkState	state = zheap_walk_start(walk, page);

	Assert(!BufferIsValid(buffer) || undo_debug_page_is_locked(buffer, false));
	*status = ZXACT_ALL_VISIBLE;
	*found = false;
	*aborted = false;

	while (state == ZWALK_OWNED)
	{
		*status = zheap_walk_status(walk, buffer);
		if (*status == ZXACT_ALL_VISIBLE)
			return ZWALK_SETTLED;

		/* a settled, plain state of affairs: the owner is the writer */
		if (*status == ZXACT_COMMITTED && ZWalkIsExact(walk) &&
			!ZHeaderIsEnded(&walk->hdr))
			return state;

		switch (zheap_visibility_find_patiently(cx, walk, *status))
		{
			case ZFIND_OTHER:
				continue;
			case ZFIND_GONE:
				*status = ZXACT_ALL_VISIBLE;
				return ZWALK_SETTLED;
			case ZFIND_LIMIT:
				return ZWALK_NONE;
			case ZFIND_FOUND:
				break;
			case ZFIND_STOP:
				Assert(false);
				break;
		}
		if (*status != ZXACT_ABORTED)
		{
			*found = true;
			return state;
		}
		*aborted = true;
		state = zheap_walk_step_back(walk);
		*status = ZXACT_ALL_VISIBLE;
	}
	return state;
}

/*
 * The newest non-aborted change of a row.  See zheap_sees.h.  kind is 0 and
 * key_changed false where no record was looked for: the version is visible to
 * all, or committed and not ended.
 */
void
zheap_newest_version(ZReadContext *cx, Buffer buffer, Page page,
					 BlockNumber block, OffsetNumber off, ZTop *top)
{
	ZWalk		walk;
	ZWalkState	state;
	bool		found;
	bool		aborted;

	Assert(zheap_page_is_valid(page));
	memset(top, 0, sizeof(ZTop));
	ItemPointerSetInvalid(&top->next);
	top->cid = InvalidCommandId;

	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					NULL, NULL);
	state =
		walk_to_top(cx, &walk, page, buffer, &top->status, &found, &aborted);
	if (state == ZWALK_NONE)
		return;

	top->exists = true;
	top->ended = ZHeaderIsEnded(&walk.hdr);
	top->moved_partition =
		(walk.hdr.flags2 & ZH_END_MASK) == ZH_MOVED_PARTITION;
	if (top->ended)
		top->kind = kind_of_ended(&walk.hdr);
	if (state == ZWALK_SETTLED)
	{
		Assert(top->status == ZXACT_ALL_VISIBLE);
		return;
	}
	top->writer = walk.fxid;
	if (!found)
		return;
	top->kind = walk.undo.kind;
	if (top->kind == ZUNDO_INSERT_SET)
		top->kept_key = (walk.undo.flags & ZUNDO_KEPT_KEY) != 0;
	else
		top->key_changed = (walk.undo.flags & ZUNDO_KEY) != 0;
	if (top->status == ZXACT_CURRENT)
		top->cid = walk.undo.cid;
	if (top->kind == ZUNDO_MOVE)
		top->next = walk.undo.tid;
}

/*
 * Stand at the newest version of a row that is on the page, and tell what
 * became of the owner that its header names.  CURRENT: my transaction made it.
 * If the owner is neither mine nor aborted it didn't, for nobody takes over
 * from a transaction that hasn't committed (Z2).
 */
static ZXactStatus
walk_to_owner(ZReadContext *cx, ZWalk *walk, Buffer buffer, Page page,
			  BlockNumber block, OffsetNumber off)
{
	ZXactStatus status;

	if (off < FirstOffsetNumber || off > PageGetMaxOffsetNumber(page) ||
		!ItemIdIsNormal(PageGetItemId(page, off)))
		return ZXACT_ALL_VISIBLE;
	zheap_walk_init(walk, cx->rel, &cx->reader, &cx->hz, block, off, NULL,
					NULL);
	if (zheap_walk_start(walk, page) != ZWALK_OWNED)
		return ZXACT_ALL_VISIBLE;
	status = zheap_walk_status(walk, buffer);
	/* before my family's tenure */
	return status == ZXACT_CURRENT && walk->skip ? ZXACT_COMMITTED : status;
}

bool
zheap_newest_own_top(ZReadContext *cx, Buffer buffer, Page page,
						 BlockNumber block, OffsetNumber off, CommandId cid,
						 ZTop *top)
{
	ZWalk		walk;

	AssertPageLocked(buffer);
	if (walk_to_owner(cx, &walk, buffer, page, block, off) != ZXACT_CURRENT ||
		ZHeaderIsEnded(&walk.hdr))
		return false;
	if (!zheap_own_changes_precede(cid) &&
		zheap_walk_own_history(&walk)->bound > cid)
		return false;

#ifdef USE_ASSERT_CHECKING
	if (!undo_debug_damage)
	{
		zheap_newest_version(cx, buffer, page, block, off, top);
		Assert(top->exists && !top->ended && top->status == ZXACT_CURRENT);
		Assert(top->cid < cid);
		Assert((top->kind == ZUNDO_INSERT_OPEN ||
				top->kind == ZUNDO_INSERT_SET) ==
			   ((walk.hdr.flags2 & ZH_INPLACE) == 0));
	}
#endif
	memset(top, 0, sizeof(ZTop));
	ItemPointerSetInvalid(&top->next);
	top->exists = true;
	top->status = ZXACT_CURRENT;
	top->writer = walk.fxid;
	top->cid = FirstCommandId;
	return true;
}

/*
 * The walk stands at a row's newest version: is it one that the snapshot sees,
 * by what the owners say?  Whoever took the xact slot over without changing the
 * row is passed, for there may be as many of them as others changed other rows.
 * If so, the walk stands at the owner whom the snapshot sees.
 */
static bool
walk_to_seen_owner(ZReadContext *cx, ZWalk *walk, Buffer buffer,
				   Snapshot snapshot)
{
	walk->budget = SEEN_BUDGET;
	for (;;)
	{
		ZXactStatus status = zheap_walk_status(walk, buffer);

		if (walk->fxid < cx->hz.all_visible_before ||
			status == ZXACT_ALL_VISIBLE || status == ZXACT_ABORTED)
			return false;
		if (status == ZXACT_COMMITTED &&
			!XidInMVCCSnapshot(XidFromFxid(walk->fxid), snapshot))
			return true;
		if (ZWalkIsExact(walk) || (status == ZXACT_CURRENT && !walk->skip))
			return false;
		if (status == ZXACT_CURRENT)
			(void) zheap_walk_own_history(walk);	/* leads past mine at once */
		if (zheap_walk_find(walk, false) != ZFIND_OTHER)
			return false;
	}
}

#ifdef USE_ASSERT_CHECKING
/* what the records say; true, too, if there are too many */
static bool
top_is_seen(ZReadContext *cx, Buffer buffer, Page page, BlockNumber block,
			OffsetNumber off, Snapshot snapshot)
{
	ZWalk		walk;
	ZXactStatus status;
	ZWalkState	state;
	bool		found;
	bool		aborted;

	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off, NULL,
					NULL);
	walk.budget = 4 * SEEN_BUDGET;
	state = walk_to_top(cx, &walk, page, buffer, &status, &found, &aborted);
	if (walk.budget < 0)
		return true;
	return state != ZWALK_NONE && !ZHeaderIsEnded(&walk.hdr) &&
		(status == ZXACT_ALL_VISIBLE ||
		 (status == ZXACT_COMMITTED &&
		  !XidInMVCCSnapshot(XidFromFxid(walk.fxid), snapshot)));
}
#endif

bool
zheap_newest_is_seen(ZReadContext *cx, Buffer buffer, Page page,
					 BlockNumber block, OffsetNumber off, Snapshot snapshot,
					 ZTop *top)
{
	ZWalk		walk;

	Assert(IsMVCCSnapshot(snapshot));
	AssertPageLocked(buffer);
	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off, NULL,
					NULL);
	if (zheap_walk_start(&walk, page) != ZWALK_OWNED ||
		ZHeaderIsEnded(&walk.hdr) ||
		!walk_to_seen_owner(cx, &walk, buffer, snapshot))
		return false;

	Assert(undo_debug_damage ||
		   top_is_seen(cx, buffer, page, block, off, snapshot));
	memset(top, 0, sizeof(ZTop));
	ItemPointerSetInvalid(&top->next);
	top->exists = true;
	top->status = ZXACT_COMMITTED;
	top->writer = walk.fxid;
	top->cid = InvalidCommandId;
	return true;
}

bool
zheap_newest_is_own(ZReadContext *cx, Buffer buffer, Page page,
						 BlockNumber block, OffsetNumber off)
{
	ZWalk		walk;
	ZTop		top = {0};

	AssertPageLocked(buffer);
	switch (walk_to_owner(cx, &walk, buffer, page, block, off))
	{
		case ZXACT_CURRENT:
			return true;
		case ZXACT_ABORTED:
			/* a savepoint of mine, maybe: what is below it? */
			zheap_newest_version(cx, buffer, page, block, off, &top);
			return top.exists && top.status == ZXACT_CURRENT;
		default:
			return false;
	}
}

/*
 * Image and identity before my latest in-place update of the row.  An own
 * DELETE or MOVE on top is stepped over: the TID was tagged when the update
 * was made, and the row may have been deleted since by the same transaction.
 */
bool
zheap_newest_predecessor(ZReadContext *cx, Buffer buffer, Page page,
						 BlockNumber block, OffsetNumber off, ZVersion *v)
{
	ZWalk		walk;
	ZWalkState	state;
	ZXactStatus status;
	bool		found;
	bool		aborted;

	AssertPageLocked(buffer);
	zheap_visibility_clear(v);
	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					v->data, &v->len);
	state = walk_to_top(cx, &walk, page, buffer, &status, &found, &aborted);

	while (state == ZWALK_OWNED && found && status == ZXACT_CURRENT &&
		   !ZUndoIsInsert(&walk.undo))
	{
		bool		update = walk.undo.kind == ZUNDO_UPDATE;

		state = zheap_walk_step_back(&walk);
		Assert(state != ZWALK_NONE);
		if (update)
		{
			/* aborted savepoints can't lie below a change that stands */
			if (state == ZWALK_OWNED)
				zheap_visibility_identify(cx, &walk, buffer, v);
			v->ended = ZHeaderIsEnded(&walk.hdr);
			return !cx->too_long;
		}

		/* below the DELETE: find the change before, if it is mine */
		found = false;
		while (state == ZWALK_OWNED && !found)
		{
			status = zheap_walk_status(&walk, buffer);
			if (status != ZXACT_CURRENT)
				break;
			switch (zheap_visibility_find_patiently(cx, &walk, status))
			{
				case ZFIND_FOUND:
					found = true;
					break;
				case ZFIND_OTHER:
					break;
				default:
					Assert(cx->too_long);
					state = ZWALK_NONE;
					break;
			}
		}
	}
	v->len = 0;
	return false;
}

/* after a step back over an own change: find the change below, if it is mine */
static bool
find_own_below(ZWalk *walk, Buffer buffer, ZWalkState state)
{
	while (state == ZWALK_OWNED &&
		   zheap_walk_status(walk, buffer) == ZXACT_CURRENT)
	{
		ZFindResult found = zheap_walk_find(walk, false);

		if (found != ZFIND_OTHER)
			return found == ZFIND_FOUND;
	}
	return false;
}

CommandId
zheap_newest_first_command(ZReadContext *cx, Buffer buffer, Page page,
						   BlockNumber block, OffsetNumber off, CommandId cid,
						   Snapshot snapshot, Fxid *unseen)
{
	CommandId	result = InvalidCommandId;
	ZVersion   *v;
	ZWalk		walk;
	ZWalkState	state;
	ZXactStatus status;
	bool		found;
	bool		aborted;

	AssertPageLocked(buffer);
	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off, NULL,
					NULL);
	state = walk_to_top(cx, &walk, page, buffer, &status, &found, &aborted);
	found = found && status == ZXACT_CURRENT;
	while (state == ZWALK_OWNED && found && walk.undo.cid >= cid &&
		   !ZUndoIsInsert(&walk.undo))
	{
		result = walk.undo.cid;
		state = zheap_walk_step_back(&walk);
		found = find_own_below(&walk, buffer, state);
	}
	*unseen = InvalidFxid;
	if (state != ZWALK_OWNED || found || snapshot == NULL)
		return result;

	Assert(IsMVCCSnapshot(snapshot));
	v = palloc(sizeof(ZVersion));
	zheap_version_init(v);
	zheap_visibility_clear(v);
	zheap_visibility_identify(cx, &walk, buffer, v);
	if (v->writer != InvalidFxid && !v->own &&
		XidInMVCCSnapshot(XidFromFxid(v->writer), snapshot))
		*unseen = v->writer;
	pfree(v);
	return result;
}

/*
 * The newest version, committed by another transaction, isn't visible to an
 * MVCC snapshot: was the row merely copied since, by rewrites of its table?
 */
bool
zheap_newest_only_copied(ZReadContext *cx, Buffer buffer, Page page,
						 BlockNumber block, OffsetNumber off,
						 Snapshot snapshot)
{
	ZWalk		walk;
	ZWalkState	state;

	Assert(IsMVCCSnapshot(snapshot));
	AssertPageLocked(buffer);
	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					NULL, NULL);
	state = zheap_walk_start(&walk, page);
	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_walk_status(&walk, buffer);

		if (status == ZXACT_ALL_VISIBLE)
			return true;
		if (status == ZXACT_COMMITTED &&
			!XidInMVCCSnapshot(XidFromFxid(walk.fxid), snapshot))
			return true;
		/* whoever owns the xact slot now may have left this row alone */
		switch (zheap_walk_find(&walk, status == ZXACT_ABORTED))
		{
			case ZFIND_GONE:
				return true;
			case ZFIND_FOUND:
				if (status != ZXACT_COMMITTED || !ZUndoIsCopy(&walk.undo))
					return false;
				state = zheap_walk_step_back(&walk);
				break;
			default:
				break;
		}
	}
	return state == ZWALK_SETTLED;
}

/*
 * Versions looked at, under the page lock: a foreign key's check by an old snapshot
 * doesn't walk all that a hot row has gone through since.
 */
#define LOCKED_LOOK		64

/*
 * Was a version that the snapshot doesn't see made by who had the row locked FOR
 * UPDATE?  The header replaced says so, its bits having been normalised then.
 */
bool
zheap_newest_was_locked(ZReadContext *cx, Buffer buffer, Page page,
						BlockNumber block, OffsetNumber off,
						Snapshot snapshot)
{
	ZWalk		walk;
	ZWalkState	state;
	int			left = LOCKED_LOOK;

	Assert(IsMVCCSnapshot(snapshot));
	AssertPageLocked(buffer);
	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					NULL, NULL);
	state = zheap_walk_start(&walk, page);
	while (state == ZWALK_OWNED && left-- > 0)
	{
		ZXactStatus status = zheap_walk_status(&walk, buffer);
		uint16		f;

		if (status == ZXACT_ALL_VISIBLE ||
			(status == ZXACT_COMMITTED &&
			 !XidInMVCCSnapshot(XidFromFxid(walk.fxid), snapshot)))
			return false;
		/* whoever owns the xact slot now may have left this row alone */
		switch (zheap_walk_find(&walk, status == ZXACT_ABORTED))
		{
			case ZFIND_GONE:
				return false;
			case ZFIND_FOUND:
				state = zheap_walk_step_back(&walk);
				f = walk.hdr.flags2;
				if (state != ZWALK_NONE && status == ZXACT_COMMITTED &&
					(f & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED)) != 0 &&
					(f & ZH_MODE_MASK) >> ZH_MODE_SHIFT == LockTupleExclusive)
					return true;
				break;
			default:
				break;
		}
	}
	return false;
}

/*
 * Is the row surely dead to every snapshot, present and future?  Rows under
 * an aborted owner aren't: first the page must be rolled back.
 */
bool
zheap_newest_dead_to_all(ZReadContext *cx, Buffer buffer, Page page,
						 BlockNumber block, OffsetNumber off)
{
	ZWalk		walk;
	ItemId		lp;
	Fxid		conflict = InvalidFxid;

	AssertPageLocked(buffer);
	if (off < FirstOffsetNumber || off > PageGetMaxOffsetNumber(page))
		return false;
	lp = PageGetItemId(page, off);
	if (ItemIdIsDead(lp))
		return true;
	if (ZItemIdIsSpilled(lp) &&
		(ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL))
	{
		Fxid		p = ZXactSlotFxid(ZPageGetSpill(page));

		return zheap_xact_slot_seen_by_all(cx->rel, p, &cx->hz, NULL);
	}
	if (!ItemIdIsNormal(lp))
		return false;

	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block, off,
					NULL, NULL);
	walk.budget = DEAD_BUDGET;
	return zheap_walk_fate(&walk, page, buffer, &conflict) ==
		ZROW_ENDED_FOR_ALL;
}
