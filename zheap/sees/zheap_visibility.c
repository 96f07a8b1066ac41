/*-------------------------------------------------------------------------
 *
 * zheap_visibility.c
 *	  Which version of a row a snapshot sees.
 *
 * The walk through a row's history is zheap_walk.c's; here is what each kind
 * of snapshot makes of the owners met on the way.  Nothing here changes a
 * page, hints of xact slots excepted.
 *
 * Locks: callers hold the page's content lock, share or exclusive, during a
 * whole call.  Only zheap_visibility_begin() and zheap_visibility_resample()
 * want no page locked.  Undo pages are locked one at a time inside
 * undo_record_fetch().
 *
 * What may be thrown: corruption found on the way, serialization failures
 * (check_serializable), "not supported" for historic snapshots, and what
 * zheap_walk_look_up() throws.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "storage/predicate.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/sees/zheap_visibility.h"

/* ----------------------------------------------------------------
 *	reading as such
 * ----------------------------------------------------------------
 */

/*
 * What a session has done to temporary relations is seen by all of its later
 * transactions, so no undo of it is kept and their pages are pruned.  That isn't so
 * for a snapshot that another session has lent (SET TRANSACTION SNAPSHOT).
 */
static void
refuse_older_snapshot(Relation rel, Snapshot snapshot)
{
	Fxid		writer = undo_log_temp_writer();

	if (writer >= undo_log_fxid_from_xid(snapshot->xmin) &&
		XidInMVCCSnapshot(XidFromFxid(writer), snapshot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot read temporary table \"%s\" by an imported snapshot",
						RelationGetRelationName(rel)),
				 errdetail("This session has changed temporary tables since the snapshot was taken.")));
}

/*
 * snapshot may be NULL if only questions of writers will be asked.  ERROR 72000
 * if the snapshot has to go (zheap.max_snapshot_undo_size), 0A000 if it is older
 * than what it is to see of a temporary relation.
 */
void
zheap_visibility_begin(ZReadContext *cx, Relation rel, Snapshot snapshot)
{
	Assert(CritSectionCount == 0);
	undo_check_snapshot();
	if (unlikely(rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP) &&
		snapshot != NULL && IsMVCCSnapshot(snapshot))
		refuse_older_snapshot(rel, snapshot);
	cx->rel = rel;
	cx->snapshot = snapshot;
	cx->approximate_identity = false;
	cx->patience = 0;
	cx->too_long = false;
	cx->gives_up = false;
	cx->until_look = 0;
	cx->check_serializable = snapshot != NULL && IsMVCCSnapshot(snapshot) &&
		CheckForSerializableConflictOutNeeded(rel, snapshot);
	cx->hz = undo_log_horizons();
	UNDO_POINT("horizon-sampled");
	undo_record_reader_open(&cx->reader, rel);
}

void
zheap_visibility_resample(ZReadContext *cx)
{
	Assert(CritSectionCount == 0);
	cx->hz = undo_log_horizons();
	UNDO_POINT("horizon-resampled");
}

void
zheap_visibility_end(ZReadContext *cx)
{
	undo_record_reader_close(&cx->reader);
}

/* ----------------------------------------------------------------
 *	judging an owner
 * ----------------------------------------------------------------
 */

/*
 * Status of the owner the walk stands at, for an MVCC snapshot: RUNNING means
 * in progress for the snapshot, whatever became of it.  64-bit tests come
 * before 32-bit ones (Z15).
 */
static ZXactStatus
mvcc_status(const ZReadContext *cx, ZWalk *walk, Buffer buffer)
{
	TransactionId xid = XidFromFxid(walk->fxid);

	Assert(IsMVCCSnapshot(cx->snapshot));
	if (walk->fxid < cx->hz.all_visible_before)
		return ZXACT_ALL_VISIBLE;
	if (TransactionIdIsCurrentTransactionId(xid))
		return ZXACT_CURRENT;
	if (XidInMVCCSnapshot(xid, cx->snapshot))
		return ZXACT_RUNNING;
	return zheap_walk_status(walk, buffer);
}

/*
 * The record found is a foreign writer's whom the snapshot doesn't see.  Go
 * back along jumps as long as it does not see the change at their end: see
 * zheap_jump.c.
 */
static void
jump_back(const ZReadContext *cx, ZWalk *walk)
{
	if (cx->check_serializable)
		return;
	while (ZUndoHasJump(&walk->undo))
	{
		Fxid		fxid = walk->undo.jump.fxid;

		if (fxid < cx->hz.all_visible_before ||
			TransactionIdIsCurrentTransactionId(XidFromFxid(fxid)) ||
			!XidInMVCCSnapshot(XidFromFxid(fxid), cx->snapshot))
			return;
		if (!zheap_walk_jump(walk))
			zheap_walk_corrupt(cx->rel, walk->block, walk->off,
							   "undo of a transaction that is in progress for the snapshot");
	}
}

/* what a snapshot's rules say about the version the walk stands at */
typedef enum Verdict
{
	VERDICT_ACCEPT,				/* this one; its writer may be below w */
	VERDICT_ACCEPT_IF_FOUND,	/* this one if w made it, else judge below */
	VERDICT_STEP_BACK,			/* not if w made it */
	VERDICT_JUDGE_RECORD		/* find it, the record decides */
} Verdict;

/* the rules of the snapshot's type, before any record was read */
static Verdict
judge_owner(SnapshotType type, ZXactStatus status)
{
	if (status == ZXACT_ALL_VISIBLE || status == ZXACT_COMMITTED)
		return VERDICT_ACCEPT;
	if (status == ZXACT_ABORTED)
		return VERDICT_STEP_BACK;
	/* any version of a chunk is the same (Z43) */
	if (type == SNAPSHOT_TOAST)
		return VERDICT_ACCEPT;

	switch (type)
	{
		case SNAPSHOT_MVCC:
			/* owning the xact slot decides nothing (Z17) */
			return status == ZXACT_CURRENT ? VERDICT_JUDGE_RECORD :
				VERDICT_STEP_BACK;
		case SNAPSHOT_SELF:
		case SNAPSHOT_DIRTY:
			return status == ZXACT_CURRENT ? VERDICT_ACCEPT_IF_FOUND :
				VERDICT_STEP_BACK;
		case SNAPSHOT_ANY:
		case SNAPSHOT_NON_VACUUMABLE:
			return VERDICT_ACCEPT_IF_FOUND;
		default:
			break;
	}
	elog(ERROR, "unexpected snapshot type %d", (int) type);
	return VERDICT_ACCEPT;		/* keep compiler quiet */
}

/* ----------------------------------------------------------------
 *	identity
 * ----------------------------------------------------------------
 */

void
zheap_visibility_clear(ZVersion *v)
{
	v->writer = InvalidFxid;
	v->cid = InvalidCommandId;
	v->own = false;
	v->approximate = false;
	v->ended = false;
	v->kind = 0;
	ItemPointerSetInvalid(&v->next);
	v->copied = false;
	zheap_version_forget(v);
}

/* the record that made the version was found */
static void
version_from_record(ZVersion *v, const ZWalk *walk, ZXactStatus status)
{
	v->writer = walk->fxid;
	v->kind = walk->undo.kind;
	if (status == ZXACT_CURRENT)
	{
		v->own = true;
		v->cid = walk->undo.cid;
	}
	if (walk->undo.kind == ZUNDO_MOVE)
		v->next = walk->undo.tid;
}

/*
 * Name the writer of the version the walk stands at (Z33: an identity
 * is the writer itself; the owner of the xact slot changes with takeovers
 * that don't touch the row).  Any owner's status may be met.  Own writers are
 * always looked for, since their cid is part of the identity; so are moves,
 * for the new TID.  May give up: cx->too_long.
 */
void
zheap_visibility_identify(ZReadContext *cx, ZWalk *walk, Buffer buffer,
						  ZVersion *v)
{
	Assert(walk->fxid != InvalidFxid || undo_debug_damage);
	for (;;)
	{
		ZXactStatus status = zheap_walk_status(walk, buffer);
		bool		moved = !cx->approximate_identity &&
			(walk->hdr.flags2 & ZH_END_MASK) == ZH_MOVED;

		if (status == ZXACT_ALL_VISIBLE)
			return;
		if (status != ZXACT_CURRENT && !moved &&
			(ZWalkIsExact(walk) || cx->approximate_identity))
		{
			v->writer = walk->fxid;
			v->approximate = !ZWalkIsExact(walk);
			return;
		}
		switch (zheap_visibility_find_patiently(cx, walk, status))
		{
			case ZFIND_FOUND:
				version_from_record(v, walk, status);
				return;
			case ZFIND_GONE:
			case ZFIND_LIMIT:
				return;
			default:
				break;
		}
	}
}

/* ----------------------------------------------------------------
 *	the visible version
 * ----------------------------------------------------------------
 */

/*
 * A foreign running writer is going to be stepped over by a DIRTY snapshot.
 * Returns true if the row is to be reported as it stands: inserted, not yet
 * committed.  The record was found, unless the header says "plain insert".
 */
static bool
dirty_step_over(ZReadContext *cx, const ZWalk *walk, bool inserted)
{
	Snapshot	snapshot = cx->snapshot;

	Assert(snapshot->snapshot_type == SNAPSHOT_DIRTY);
	if (inserted)
	{
		snapshot->xmin = XidFromFxid(walk->fxid);
		snapshot->xmax = InvalidTransactionId;
		return true;
	}
	/* the newest writer is the one to wait for */
	if (!TransactionIdIsValid(snapshot->xmax))
		snapshot->xmax = XidFromFxid(walk->fxid);
	return false;
}

static inline bool
is_speculative(const ZWalk *walk)
{
	return (walk->hdr.flags2 & ZH_SPECULATIVE) != 0;
}

/* the offset may be any */
static inline bool
is_spilled(Page page, OffsetNumber off)
{
	return (ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) != 0 &&
		off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page) &&
		ZItemIdIsSpilled(PageGetItemId(page, off));
}

/*
 * What writers below this have spilled is dead for an MVCC snapshot: see
 * zheap_spill_chain.c.  0 if nothing is spilled on the page.
 */
static Fxid
spill_floor(Snapshot snapshot, Page page)
{
	if (likely((ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) == 0) ||
		!TransactionIdIsNormal(snapshot->xmin))
		return InvalidFxid;
	return undo_log_fxid_from_xid(snapshot->xmin);
}

/*
 * The version may lack columns that were added before a rewrite: add them.
 * Nothing but v->data, if that is palloc'd, stays allocated.
 */
static void
version_add_missing(ZReadContext *cx, ZWalk *walk, ZVersion *v)
{
	TupleDesc	desc = RelationGetDescr(cx->rel);
	MemoryContext context;
	MemoryContext old;
	ZTuple	   *full;

	Assert(v->data == v->room && walk->missing != NULL);
	if (ZHeaderNatts(&walk->hdr) >= desc->natts)
		return;
	context = AllocSetContextCreate(CurrentMemoryContext,
									"zheap missing columns",
									ALLOCSET_SMALL_SIZES);
	old = MemoryContextSwitchTo(context);
	full = zheap_tuple_add_missing(desc, v->data, v->len, walk->missing);
	MemoryContextSwitchTo(old);
	if (full->len > sizeof(v->room))
		v->data = palloc(full->len);
	v->len = full->len;
	memcpy(v->data, full->data, full->len);
	MemoryContextDelete(context);
}

/*
 * The walk arrived at the version to be judged visible: fill *v and tell
 * whether it is a row.
 */
static bool
version_accept(ZReadContext *cx, ZWalk *walk, ZWalkState state, Buffer buffer,
			   ZVersion *v)
{
	v->ended = ZHeaderIsEnded(&walk->hdr);
	if (unlikely(walk->missing != NULL))
	{
		/* only an MVCC snapshot looks below a copy: it shows no ended one */
		if (!v->ended)
			version_add_missing(cx, walk, v);
		zheap_walk_forget_missing(walk);
	}
	/* nobody asks who made a chunk or ended it */
	if (cx->snapshot->snapshot_type == SNAPSHOT_TOAST)
	{
		v->approximate = true;
		return true;
	}
	if (state == ZWALK_OWNED && v->kind == 0 && !v->approximate)
	{
		zheap_visibility_identify(cx, walk, buffer, v);
		if (cx->too_long)
		{
			zheap_version_forget(v);
			return false;
		}
	}
	if (!v->ended)
		return true;
	if (v->kind == 0)
		v->kind = kind_of_ended(&walk->hdr);

	/* ended, but for this snapshot type only what nobody needs is gone */
	if (cx->snapshot->snapshot_type == SNAPSHOT_NON_VACUUMABLE)
	{
		if (v->writer == InvalidFxid)
			return false;
		if (zheap_xact_slot_fxid_status(v->writer, &cx->hz) != ZXACT_COMMITTED)
			return true;
		return !GlobalVisTestIsRemovableFullXid(cx->snapshot->vistest,
												FullTransactionIdFromU64(v->writer));
	}
	return false;
}

#ifdef USE_ASSERT_CHECKING
/* records looked at for that; a history of my own may be of any length */
#define AGREE_BUDGET			50

/*
 * An MVCC snapshot is taken to see the version: do its records say so?  Yes, too,
 * when the budget is used up.
 */
static bool
records_agree_within(const ZReadContext *cx, const ZWalk *walk, int *budget)
{
	ZWalk		at = *walk;
	ZFindResult found = ZFIND_OTHER;
	bool		agree = false;

	at.stop = InvalidUndoRecPtr;
	at.image = NULL;
	at.missing = NULL;
	at.budget = *budget;
	while (found == ZFIND_OTHER)
	{
		ZXactStatus status = mvcc_status(cx, &at, InvalidBuffer);

		agree = status == ZXACT_ALL_VISIBLE || status == ZXACT_COMMITTED;
		if (status != ZXACT_CURRENT)
			break;
		found = zheap_walk_find(&at, false);
		agree = found == ZFIND_LIMIT ||
			(found == ZFIND_FOUND && at.undo.cid < cx->snapshot->curcid);
	}
	*budget = Max(at.budget, 0);
	return agree;
}

static bool
records_agree(const ZReadContext *cx, const ZWalk *walk)
{
	int			budget = AGREE_BUDGET;

	return records_agree_within(cx, walk, &budget);
}

/* the same for a row as it stands on the page */
static bool
row_agrees(const ZReadContext *cx, Page page, BlockNumber block,
		   OffsetNumber off, int *budget)
{
	ZWalk		walk;

	zheap_walk_init(&walk, cx->rel, unconstify(UndoReader *, &cx->reader),
					&cx->hz, block, off, NULL, NULL);
	return zheap_walk_start(&walk, page) != ZWALK_OWNED ||
		records_agree_within(cx, &walk, budget);
}

/* and for all rows with the xact slot id, within one budget */
static bool
rows_agree(const ZReadContext *cx, Page page, BlockNumber block, uint8 id)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	int			budget = AGREE_BUDGET;

	for (OffsetNumber off = FirstOffsetNumber; off <= max && budget > 0; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (ItemIdIsNormal(lp) &&
			*(uint8 *) PageGetItem(page, lp) == id &&
			!row_agrees(cx, page, block, off, &budget))
			return false;
	}
	return true;
}
#endif

/*
 * The walk stands at a version of my own transaction, or at one that it found
 * on the page.  May it be accepted without a look at the record?  Only if the
 * reader doesn't ask which command made it.  An MVCC snapshot asks for that,
 * but not if it sees all commands that changed the page; else the walk may
 * stop where it comes to what was done before.
 */
static bool
own_is_accepted(const ZReadContext *cx, ZWalk *walk)
{
	CommandId	curcid = cx->snapshot->curcid;
	const ZOwnHistory *h;

	if (!cx->approximate_identity)
		return false;
	switch (cx->snapshot->snapshot_type)
	{
		case SNAPSHOT_SELF:
			return true;
		case SNAPSHOT_DIRTY:
			return ZHeaderIsEnded(&walk->hdr);
		case SNAPSHOT_NON_VACUUMABLE:
			return !walk->skip;
		case SNAPSHOT_ANY:
			/* which transaction ended it is shown to users */
			return !walk->skip && !ZHeaderIsEnded(&walk->hdr);
		case SNAPSHOT_MVCC:
			break;
		default:
			return false;
	}

	/* predicate locks want to know whether the version is mine */
	if (walk->skip || IsolationIsSerializable())
		return false;
	if (zheap_own_changes_precede(curcid))
		return true;
	/* once a walk: on the way back each record would be another history */
	h = walk->slot != NULL && walk->steps == 0 ?
		zheap_walk_own_history(walk) :
		zheap_own_history_get(walk->rel, walk->block, walk->fxid, walk->urp);
	if (h == NULL)
		return false;
	if (h->bound <= curcid)
		return true;
	if (UndoRecPtrIsValid(h->old_urp) && h->old_bound <= curcid)
	{
		walk->stop = h->old_urp;
		walk->stop_fxid = h->old_fxid;
	}
	return false;
}

/* such a version: whose command made it isn't known */
static void
version_is_own(ZVersion *v, const ZWalk *walk)
{
	Assert(walk->fxid != InvalidFxid);
	v->writer = walk->fxid;
	v->own = !walk->skip;
	v->approximate = true;
	v->cid = FirstCommandId;
}

/*
 * The walk is going to step over a record that the snapshot doesn't see: under
 * which name will predicate locks know what lies below?
 */
static inline void
note_copy(const ZReadContext *cx, const ZWalk *walk, ZVersion *v)
{
	if (likely(!ZUndoIsCopy(&walk->undo)))
		v->copied = false;
	else if (!v->copied && cx->check_serializable)
	{
		v->copied = true;
		v->copy_hash = zheap_tuple_hash(RelationGetRelid(cx->rel), walk->block,
										walk->off, v->data, v->len);
	}
}

/*
 * zheap_walk_find() for a reader that gives up where an aborted history is
 * long, and where it is interrupted.  Histories of other owners are as long as
 * the snapshot keeps them.
 */
ZFindResult
zheap_visibility_find_patiently(ZReadContext *cx, ZWalk *walk,
								ZXactStatus status)
{
	bool		aborted = status == ZXACT_ABORTED;
	ZFindResult found;

	if (!cx->gives_up)
		return zheap_walk_find(walk, aborted);
	if (cx->too_long)
		return ZFIND_LIMIT;
	if (aborted && cx->patience > 0)
	{
		walk->budget = cx->patience;
		found = zheap_walk_find(walk, true);
		if (found == ZFIND_LIMIT || walk->budget <= 0)
			cx->too_long = true;
		else
			cx->patience = walk->budget;
	}
	else
	{
		do
		{
			if (cx->until_look <= 0)
				cx->until_look = ZWALK_LOOK_UP;
			walk->budget = cx->until_look;
			found = zheap_walk_find(walk, aborted);
			cx->until_look = walk->budget;
			if (cx->until_look > 0)
				continue;
			UNDO_POINT("long-walk");
			if (InterruptPending && QueryCancelHoldoffCount == 0)
			{
				cx->too_long = true;
				found = ZFIND_LIMIT;
			}
		} while (found == ZFIND_LIMIT && !cx->too_long);
	}
	walk->budget = ZWALK_NO_BUDGET;
	return found;
}

/* what a version on the way back comes to */
typedef enum ZFate
{
	ZFATE_ACCEPT,				/* the snapshot sees it */
	ZFATE_NOTHING,				/* it sees no version of the row */
	ZFATE_UNDECIDED				/* ask its record; of a record: step back */
} ZFate;

/* Is what the owner of the version is enough?  Else its record is needed. */
static inline ZFate
judge_by_owner(ZReadContext *cx, const ZWalk *walk, Verdict verdict,
			   ZXactStatus status)
{
	SnapshotType type = cx->snapshot->snapshot_type;

	if (verdict == VERDICT_ACCEPT)
		return ZFATE_ACCEPT;

	/* inserted by a transaction in progress */
	if (verdict == VERDICT_STEP_BACK && status == ZXACT_RUNNING &&
		ZWalkIsPlainInsert(walk) &&
		!(type == SNAPSHOT_DIRTY && is_speculative(walk)))
	{
		zheap_predicate_conflict_out(cx, walk->fxid);
		return type == SNAPSHOT_DIRTY && dirty_step_over(cx, walk, true) ?
			ZFATE_ACCEPT : ZFATE_NOTHING;
	}

	/* a foreign writer's name is known */
	if (verdict == VERDICT_ACCEPT_IF_FOUND && status != ZXACT_CURRENT &&
		ZWalkIsExact(walk) && !ZHeaderIsEnded(&walk->hdr))
		return ZFATE_ACCEPT;
	return ZFATE_UNDECIDED;
}

/*
 * The record of the version was found: walk->undo.  Undecided: the version
 * isn't for this snapshot.
 */
static inline ZFate
judge_by_record(ZReadContext *cx, ZWalk *walk, Verdict verdict,
				ZXactStatus status, ZVersion *v)
{
	Snapshot	snapshot = cx->snapshot;
	SnapshotType type = snapshot->snapshot_type;
	bool		inserted;

	if (verdict == VERDICT_ACCEPT_IF_FOUND ||
		(verdict == VERDICT_JUDGE_RECORD &&
		 walk->undo.cid < snapshot->curcid))
	{
		version_from_record(v, walk, status);
		return ZFATE_ACCEPT;
	}
	if (status != ZXACT_RUNNING)
		return ZFATE_UNDECIDED;

	inserted = ZUndoIsInsert(&walk->undo);
	if (!ZUndoIsCopy(&walk->undo))
		zheap_predicate_conflict_out(cx, walk->fxid);
	if (type == SNAPSHOT_DIRTY && dirty_step_over(cx, walk, inserted))
	{
		if (is_speculative(walk))
			snapshot->speculativeToken = walk->undo.token;
		version_from_record(v, walk, status);
		return ZFATE_ACCEPT;
	}
	if (type == SNAPSHOT_MVCC)
		jump_back(cx, walk);
	return ZFATE_UNDECIDED;
}

/* the snapshot sees no version of the row */
static inline bool
version_none(ZWalk *walk, ZVersion *v)
{
	zheap_walk_forget_missing(walk);
	v->len = 0;
	return false;
}

/* zheap_visibility_find() with a walk that it may look at afterwards */
static inline bool
find_version(ZReadContext *cx, Buffer buffer, Page page, BlockNumber block,
			 OffsetNumber off, ZVersion *v, ZWalk *walk)
{
	Snapshot	snapshot = cx->snapshot;
	SnapshotType type = snapshot->snapshot_type;
	ZWalkState	state;

	Assert(zheap_page_is_valid(page) && OffsetNumberIsValid(off));
	if (type == SNAPSHOT_HISTORIC_MVCC)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("table \"%s\" of access method zheap cannot be read by logical decoding",
						RelationGetRelationName(cx->rel))));
	if (type == SNAPSHOT_DIRTY)
	{
		snapshot->xmin = InvalidTransactionId;
		snapshot->xmax = InvalidTransactionId;
		snapshot->speculativeToken = 0;
	}

	zheap_visibility_clear(v);
	/* the ender of a spilled row has committed: no transaction to wait for */
	if (type == SNAPSHOT_DIRTY && is_spilled(page, off))
		return false;
	zheap_walk_init(walk, cx->rel, &cx->reader, &cx->hz, block, off,
					v->data, &v->len);
	if (type == SNAPSHOT_MVCC)
		walk->floor = spill_floor(snapshot, page);
	state = zheap_walk_start(walk, page);

	while (state == ZWALK_OWNED)
	{
		ZXactStatus status;
		Verdict		verdict;
		ZFate		fate;

		if (type == SNAPSHOT_MVCC)
			status = mvcc_status(cx, walk, buffer);
		else					/* chunks are read without a trace */
			status = zheap_walk_status(walk, type == SNAPSHOT_TOAST ?
									   InvalidBuffer : buffer);
		verdict = judge_owner(type, status);
		fate = judge_by_owner(cx, walk, verdict, status);
		if (fate == ZFATE_ACCEPT)
			return version_accept(cx, walk, state, buffer, v);
		if (fate == ZFATE_NOTHING)
			return version_none(walk, v);
		if (status == ZXACT_CURRENT && own_is_accepted(cx, walk))
		{
			Assert(type != SNAPSHOT_MVCC || undo_debug_damage ||
				   records_agree(cx, walk));
			version_is_own(v, walk);
			return version_accept(cx, walk, state, buffer, v);
		}

		switch (zheap_visibility_find_patiently(cx, walk, status))
		{
			case ZFIND_OTHER:
				continue;
			case ZFIND_LIMIT:
				return version_none(walk, v);
			case ZFIND_STOP:
				Assert(undo_debug_damage || records_agree(cx, walk));
				version_is_own(v, walk);
				return version_accept(cx, walk, state, buffer, v);
			case ZFIND_GONE:
				/* can't be: the snapshot itself keeps what it doesn't see */
				if (type == SNAPSHOT_MVCC)
					zheap_walk_corrupt(cx->rel, block, off,
									   "undo of a transaction that is in progress for the snapshot");
				/* it committed and became visible to all since it was judged */
				return version_accept(cx, walk, ZWALK_SETTLED, buffer, v);
			case ZFIND_FOUND:
				break;
		}
		if (judge_by_record(cx, walk, verdict, status, v) == ZFATE_ACCEPT)
			return version_accept(cx, walk, state, buffer, v);
		note_copy(cx, walk, v);
		state = zheap_walk_step_back(walk);
	}
	return state == ZWALK_NONE ? version_none(walk, v) :
		version_accept(cx, walk, state, buffer, v);
}

/*
 * See zheap_sees.h for the contract.  An ended version found is left in
 * *v with its bytes.  True is returned for one with NON_VACUUMABLE, if it isn't
 * removable yet, and with TOAST.
 */
bool
zheap_visibility_find(ZReadContext *cx, Buffer buffer, Page page,
					  BlockNumber block, OffsetNumber off, ZVersion *v)
{
	ZWalk		walk;
	bool		found;

	Assert(!BufferIsValid(buffer) || undo_debug_page_is_locked(buffer, false));
	walk.steps = 0;
	found = find_version(cx, buffer, page, block, off, v, &walk);
	if (unlikely(walk.steps > 0))
		zheap_stat_count_walk(cx->rel, walk.steps, walk.steps);
	return found;
}

/*
 * A row that isn't marked REUSED was changed last by the owner of its xact slot,
 * which is me; what such a version is called, own_is_accepted() says.
 */
bool
zheap_visibility_own_as_it_stands(Page page, OffsetNumber off, ZVersion *v)
{
	ItemId		lp = PageGetItemId(page, off);
	ZXactSlot	owner;
	ZTupleHeader hdr;

	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
		return false;
	zheap_header_get((char *) PageGetItem(page, lp), &hdr);
	if (hdr.slot == 0 || (hdr.natts_flags1 & ZH_SLACK) ||
		(hdr.flags2 & (ZH_END_MASK | ZH_LOCK_ONLY | ZH_REUSED_MASK)))
		return false;
	owner = zheap_page_row_slot(page, &hdr);
	if (owner == NULL || ZXactSlotIsFree(owner) ||
		ZXactSlotFxid(owner) !=
		U64FromFullTransactionId(GetTopFullTransactionIdIfAny()))
		return false;

	zheap_visibility_clear(v);
	v->writer = ZXactSlotFxid(owner);
	v->own = true;
	v->approximate = true;
	v->cid = FirstCommandId;
	v->len = ItemIdGetLength(lp);
	memcpy(v->data, PageGetItem(page, lp), v->len);
	return true;
}

/*
 * The walk stands at an xact slot of my own transaction.  Does the MVCC
 * snapshot see all that was ever done through it?
 */
static bool
own_slot_is_seen(ZReadContext *cx, ZWalk *walk, Page page, uint8 id)
{
	const ZOwnHistory *h = zheap_walk_own_history(walk);

	if (h->bound > cx->snapshot->curcid)
		return false;
	/* the owner before me had committed, and all of that was seen (Z2) */
	if (h->base_fxid >= cx->hz.all_visible_before &&
		XidInMVCCSnapshot(XidFromFxid(h->base_fxid), cx->snapshot))
		return false;
	Assert(undo_debug_damage || rows_agree(cx, page, walk->block, id));
	return true;
}

/*
 * See zheap_sees.h.  If the snapshot sees the owner of the xact slot, it sees the
 * writer that ended the row, be it the owner or somebody below (Z2).
 */
bool
zheap_visibility_is_past(ZReadContext *cx, Buffer buffer, Page page,
						 OffsetNumber off, bool *own)
{
	ItemId		lp = PageGetItemId(page, off);
	SnapshotType type = cx->snapshot->snapshot_type;
	bool		mvcc = type == SNAPSHOT_MVCC;
	ZTupleHeader hdr;
	ZWalk		walk;

	Assert(off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page));
	AssertPageLocked(buffer);
	*own = false;

	if (!mvcc && type != SNAPSHOT_DIRTY && type != SNAPSHOT_SELF)
		return false;
	if (ZItemIdIsSpilled(lp))
	{
		Fxid		p;

		if ((ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) == 0)
			return false;		/* the slow path will say what is wrong */
		p = ZXactSlotFxid(ZPageGetSpill(page));
		return !mvcc || p < cx->hz.all_visible_before ||
			TransactionIdPrecedes(XidFromFxid(p), cx->snapshot->xmin);
	}
	if (ItemIdIsDead(lp))
		return true;
	if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
		return false;
	zheap_header_get((char *) PageGetItem(page, lp), &hdr);
	if (!ZHeaderIsEnded(&hdr) || (hdr.flags2 & ZH_LOCK_ONLY))
		return false;

	walk.slot = zheap_page_row_slot(page, &hdr);
	if (hdr.slot == ZXACT_SHARED && ZPageHasShared(page))
	{
		UndoRecPtr	urp;

		walk.fxid = zheap_shared_owner(&cx->reader, &cx->hz, page,
									   BufferGetBlockNumber(buffer), off,
									   &urp);
	}
	else if (walk.slot == NULL)
		return false;			/* damaged, as above */
	else
		walk.fxid = ZXactSlotFxid(walk.slot);
	walk.hz = &cx->hz;
	switch (mvcc ? mvcc_status(cx, &walk, buffer) :
			zheap_walk_status(&walk, buffer))
	{
		case ZXACT_ALL_VISIBLE:
		case ZXACT_COMMITTED:
			return true;
		case ZXACT_CURRENT:
			*own = ZHeaderReused(&hdr) != ZH_REUSED_FOREIGN;
			if (!mvcc)
				return true;
			if (*own && zheap_own_changes_precede(cx->snapshot->curcid))
			{
				Assert(undo_debug_damage ||
					   row_agrees(cx, page, BufferGetBlockNumber(buffer),
								  off, &(int) {AGREE_BUDGET}));
				return true;
			}
			if (walk.slot == NULL)
				return false;	/* the record tells */
			zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz,
							BufferGetBlockNumber(buffer), off, NULL, NULL);
			zheap_walk_at_slot(&walk, page, hdr.slot);
			return own_slot_is_seen(cx, &walk, page, hdr.slot);
		default:
			return false;
	}
}

/* ----------------------------------------------------------------
 *	whole pages
 * ----------------------------------------------------------------
 */

/*
 * Is there a row whose xact slot is the shared one, and whose owner or ender the
 * snapshot doesn't see, or is mine?  *base: that owner.
 */
static bool
any_shared_unseen(ZReadContext *cx, Page page, BlockNumber block, Fxid *base)
{
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	const ZShared *s;
	ZWalk		walk;

	*base = InvalidFxid;
	if (likely(!ZPageHasShared(page)))
		return false;
	s = zheap_shared_get(&cx->reader, &cx->hz, page, block);
	if (s == NULL)
		return false;
	*base = s->base_fxid;
	if (s->end == NULL && s->base_fxid == InvalidFxid)
		return false;
	walk.hz = &cx->hz;
	walk.slot = NULL;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		walk.fxid = zheap_shared_row_fxid(s, page, off);
		if (walk.fxid == InvalidFxid)
			continue;
		switch (mvcc_status(cx, &walk, InvalidBuffer))
		{
			case ZXACT_ALL_VISIBLE:
			case ZXACT_COMMITTED:
				break;
			default:
				return true;
		}
	}
	return false;
}

/*
 * Judge each owner once.  See zheap_sees.h.
 *
 * Rows that refer to an owner seen are seen as they stand, though an older
 * tenure may have changed them: what lies below an owner that the snapshot sees
 * it sees too (Z2).  PD_ALL_VISIBLE and ZPAGE_ALL_RESOLVED are not
 * asked: a standby's snapshot may be older than they are (Z26).
 */
bool
zheap_visibility_page_owners(ZReadContext *cx, Buffer buffer, Page page,
							 BlockNumber block, ZOwners *owners)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);
	bool		all = true;
	ZWalk		walk;

	Assert(cx->snapshot->snapshot_type == SNAPSHOT_MVCC);
	Assert(!BufferIsValid(buffer) || undo_debug_page_is_locked(buffer, false));
	owners->n = opaque->nslots;
	owners->aborted = false;
	owners->own_unseen = false;
	owners->own = NO_XACT_SLOT;
	owners->unseen[0] = false;
	owners->writer[0] = InvalidFxid;
	owners->unseen[ZXACT_SHARED] =
		any_shared_unseen(cx, page, block, &owners->writer[ZXACT_SHARED]);
	if (owners->unseen[ZXACT_SHARED])
		all = false;
	if ((opaque->flags & ZPAGE_HAS_SPILL) &&
		ZXactSlotFxid(ZPageGetSpill(page)) >= spill_floor(cx->snapshot, page))
		all = false;

	zheap_walk_init(&walk, cx->rel, &cx->reader, &cx->hz, block,
					InvalidOffsetNumber, NULL, NULL);
	for (int id = 1; id <= opaque->nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);
		ZXactStatus status;

		owners->unseen[id] = false;
		owners->writer[id] = ZXactSlotFxid(slot);
		if (ZXactSlotIsFree(slot) ||
			owners->writer[id] < cx->hz.all_visible_before)
			continue;
		zheap_walk_at_slot(&walk, page, (uint8) id);
		status = mvcc_status(cx, &walk, buffer);
		switch (status)
		{
			case ZXACT_ALL_VISIBLE:
			case ZXACT_COMMITTED:
				break;
			case ZXACT_CURRENT:
				owners->own = (uint8) id;
				if (!own_slot_is_seen(cx, &walk, page, (uint8) id))
				{
					owners->unseen[id] = true;
					owners->own_unseen = true;
					all = false;
				}
				break;
			case ZXACT_RUNNING:
			case ZXACT_ABORTED:
				owners->aborted |= status == ZXACT_ABORTED;
				owners->unseen[id] = true;
				all = false;
				break;
		}
	}
	return all;
}
