/*-------------------------------------------------------------------------
 *
 * zheap_lockers.c
 *	  The live lockers of a row: those in the undo chains of a page
 *	  (Z23), and those a moved row left behind at its old TIDs (Z24).
 *
 * Whether to wait for them, and how, is decided in zheap_lock.c.  Writes
 * nothing, but that aborted owners of an origin's page are rolled back.
 *
 * Why origins are enough: a row moves while others have it locked only if they
 * hold FOR KEY SHARE, all other modes exclude any update.  The mover names the
 * old TID behind the new row's values.  Once the mover has committed nobody
 * records a new lock at the old TID, and while it runs a locker there has
 * locked the new row before (zheap_tuple_lock.c).  So the lockers at an origin
 * only get fewer, and only a change that excludes FOR KEY SHARE must look
 * there. A stronger lock found there, or that of a younger transaction than
 * the origin names, is another row's, to which the TID was given since.  (An
 * old transaction that locks that row too, FOR KEY SHARE, is waited for
 * without need.)
 *
 * Lockers that got no xact slot hold the overflow lock of the TID.  They can't be
 * told one by one, but the lock manager knows them: an origin says that there
 * are some, and any up to the last xid that was given then may be meant.
 *
 * A row that many have locked, each at another of its old TIDs, can't name all
 * of them.  The mover doesn't wait for one to go away, for that one may soon
 * wait for the mover: the oldest are named together, by the youngest xid that
 * any of them has.  Who excludes FOR KEY SHARE waits for each transaction up to
 * that xid that has locked the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lock.h"
#include "storage/proc.h"
#include "storage/sinvaladt.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/sees/zheap_sees.h"

/* do two modes exclude each other; the relation is monotonous in both */
static bool
modes_conflict(LockTupleMode a, LockTupleMode b)
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

/* ----------------------------------------------------------------
 *	on one page
 * ----------------------------------------------------------------
 */

static void
note_lock(ZLockers *lockers, LockTupleMode want, Fxid fxid, bool own,
		  LockTupleMode mode)
{
	Assert(fxid != InvalidFxid);
	if (own)
	{
		if (!lockers->own_live || mode > lockers->own_mode)
			lockers->own_mode = mode;
		lockers->own_live = true;
		return;
	}
	if (!lockers->foreign_live)
		lockers->foreign = fxid;
	lockers->foreign_live = true;
	lockers->newest = Max(lockers->newest, fxid);
	if (lockers->conflict == InvalidFxid &&
		modes_conflict(want, mode))
		lockers->conflict = fxid;
}

/*
 * Look through the tenures of one xact slot as long as their owner runs:
 * family boundaries are crossed, so locks of a parent under a released
 * savepoint are found.  False: an owner ended meanwhile, begin again.
 */
static bool
scan_xact_slot(ZReadContext *cx, ZXactSlot slot, BlockNumber block,
			   OffsetNumber off, LockTupleMode want, const ZOrigin *origin,
			   ZLockers *lockers)
{
	int			until_look = ZWALK_LOOK_UP;
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	Fxid		fxid = ZXactSlotFxid(slot);
	UndoRecPtr	urp = slot->urp;
	bool		ok = true;
	ZRing		ring;

	Assert(!ZXactSlotIsFree(slot) && UndoRecPtrIsValid(urp));
	zheap_ring_begin(&ring);
	while (ok && fxid != InvalidFxid)
	{
		ZXactStatus status = zheap_xact_slot_fxid_status(fxid, &cx->hz);
		ZUndo		u;

		if (status == ZXACT_ABORTED)
			ok = false;
		if (status != ZXACT_RUNNING && status != ZXACT_CURRENT)
			break;
		do
		{
			zheap_walk_look_up(&until_look);
			if (!undo_record_fetch(&cx->reader, urp, fxid, block, false, rec))
			{
				ok = false;
				break;
			}
			zheap_undo_decode(rec, &u);
			if (u.kind == ZUNDO_LOCK && u.offset == off &&
				(origin == NULL ||
				 (u.lockmode == LockTupleKeyShare && fxid <= origin->newest)))
				note_lock(lockers, want, fxid, status == ZXACT_CURRENT,
						  (LockTupleMode) u.lockmode);
			urp = u.chain;
			zheap_ring_step(&ring, u.flags & ZUNDO_TENURE_START ?
							u.prev_fxid : fxid, urp, block);
		} while ((u.flags & ZUNDO_TENURE_START) == 0);
		if (ok)
			fxid = u.prev_fxid;
	}
	pfree(rec);
	return ok;
}

/*
 * Fill *lockers with the live lockers of a TID, by their records: what the
 * row's header says, or whether there still is a row, isn't asked.  Page
 * locked, at least in share mode, cx open and its horizons sampled before; no
 * aborted owner on the page, or the result is false: begin again.  With
 * origin only locks that it may mean count.  Once there is a conflict nobody
 * else is looked for but myself.
 */
bool
zheap_lockers_find(ZReadContext *cx, Page page, BlockNumber block,
				   OffsetNumber off, LockTupleMode want,
				   const ZOrigin *origin, ZLockers *lockers)
{
	int			nslots = ZPageGetOpaque(page)->nslots;

	Assert(zheap_page_is_valid(page) && OffsetNumberIsValid(off));
	memset(lockers, 0, sizeof(ZLockers));
	for (int id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (ZXactSlotIsFree(slot) ||
			(lockers->conflict != InvalidFxid &&
			 !zheap_xact_slot_is_mine(slot, &cx->hz)))
			continue;
		if (!scan_xact_slot(cx, slot, block, off, want, origin, lockers))
			return false;
	}
	return true;
}

/*
 * The same, but only whether I have a lock: others aren't looked for, nor is
 * found out how many they are.
 */
bool
zheap_lockers_find_own(ZReadContext *cx, Page page, BlockNumber block,
					   OffsetNumber off, ZLockers *lockers)
{
	int			nslots = ZPageGetOpaque(page)->nslots;

	Assert(zheap_page_is_valid(page) && OffsetNumberIsValid(off));
	memset(lockers, 0, sizeof(ZLockers));
	for (int id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		/* there is but one (Z4) */
		if (zheap_xact_slot_is_mine(slot, &cx->hz))
			return scan_xact_slot(cx, slot, block, off, LockTupleKeyShare,
								  NULL, lockers);
	}
	return true;
}

/* ----------------------------------------------------------------
 *	origins
 * ----------------------------------------------------------------
 */

/*
 * Read the origins of a row into *origins.  What was found out about the same
 * ones before stays known.
 */
void
zheap_lockers_read_origins(ZOrigins *origins, const char *tuple, uint16 len)
{
	ZOrigin		origin[ZHEAP_MAX_ORIGINS];
	int			n = zheap_page_tuple_origins(tuple, len, origin);
	bool		same = n == origins->n;

	Assert(len >= ZHEAP_HEADER_SIZE);
	for (int i = 0; same && i < n; i++)
		same = origin[i].newest == origins->origin[i].newest &&
			ItemPointerEquals(&origin[i].tid, &origins->origin[i].tid);
	if (same)
		return;

	memset(origins, 0, sizeof(ZOrigins));
	origins->n = n;
	for (int i = 0; i < n; i++)
		origins->origin[i] = origin[i];
}

/*
 * The live lockers at one origin.  Normally a share lock is enough; aborted
 * owners hide what lies below them and are rolled back first (Z20).
 */
static void
scan_origin(Relation rel, const ZOrigin *origin, LockTupleMode want,
			ZLockers *lockers)
{
	BlockNumber block = ItemPointerGetBlockNumber(&origin->tid);
	OffsetNumber off = ItemPointerGetOffsetNumber(&origin->tid);
	bool		exclusive = false;
	bool		done = false;
	Buffer		buffer;

	Assert(ZOriginHasPlace(origin));
	AssertNoPageLocked();
	memset(lockers, 0, sizeof(ZLockers));

	/* vacuum cuts off no page with a running owner */
	if (block >= RelationGetNumberOfBlocks(rel))
		return;

	buffer = ReadBuffer(rel, block);
	while (!done)
	{
		ZReadContext cx;
		Page		page = BufferGetPage(buffer);

		CHECK_FOR_INTERRUPTS();
		zheap_visibility_begin(&cx, rel, NULL);
		if (exclusive)
			zheap_rollback_lock(rel, buffer);
		else
			LockBuffer(buffer, BUFFER_LOCK_SHARE);
		if (PageIsNew(page))
			done = true;
		else
		{
			zheap_page_check(rel, block, page);
			if (zheap_xact_slot_any_aborted(buffer, page, &cx.hz))
				exclusive = true;
			else
				done = zheap_lockers_find(&cx, page, block, off, want,
										  origin, lockers);
		}
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		zheap_visibility_end(&cx);
	}
	ReleaseBuffer(buffer);
}

/*
 * The xid of a virtual transaction, which may be prepared; Invalid if none.
 *
 * Its process may go on meanwhile.  An xid that was read before the process
 * still had that transaction is the transaction's.  Else the transaction ended,
 * or it was prepared: then it was among the prepared ones before its process
 * gave it up.
 */
static TransactionId
xid_of_virtual(VirtualTransactionId vxid)
{
	PGPROC	   *proc = CompatVxidProc(vxid);
	TransactionId xid = InvalidTransactionId;
	bool		more;

	Assert(VirtualTransactionIdIsValid(vxid));
	/* words that the process itself writes, seldom */
	if (proc != NULL)
		xid = *(volatile TransactionId *) &proc->xid;
	UNDO_POINT("locker-xid-read");
	pg_read_barrier();
	if (TransactionIdIsValid(xid) &&
		CompatProcLxid((volatile PGPROC *) proc) == vxid.localTransactionId)
		return xid;
	return TwoPhaseGetXidByVirtualXID(vxid, &more);
}

void
zheap_lockers_overflow_tag(LOCKTAG *tag, Relation rel, BlockNumber block,
						   OffsetNumber off)
{
	Assert(OffsetNumberIsValid(off));
	tag->locktag_field1 = rel->rd_lockInfo.lockRelId.dbId;
	tag->locktag_field2 = rel->rd_lockInfo.lockRelId.relId;
	tag->locktag_field3 = block;
	tag->locktag_field4 = off;
	tag->locktag_type = LOCKTAG_USERLOCK;
	tag->locktag_lockmethodid = DEFAULT_LOCKMETHOD;
}

/* Holders of a heavyweight lock that conflict with mode, up to newest. */
static void
note_holders(const LOCKTAG *tag, LOCKMODE mode, Fxid newest,
			 LockTupleMode want, ZLockers *lockers)
{
	VirtualTransactionId *vxids;
	int			n;

	vxids = GetLockConflicts(tag, mode, &n);
	for (int i = 0; i < n; i++)
	{
		TransactionId xid = xid_of_virtual(vxids[i]);
		Fxid		fxid;

		/* without an xid nothing was locked */
		if (!TransactionIdIsValid(xid))
			continue;
		fxid = undo_log_fxid_from_xid(xid);
		if (fxid <= newest)
			note_lock(lockers, want, fxid, false, LockTupleKeyShare);
	}
}

/*
 * The lockers that an origin without a place may mean.  Whoever has a row
 * locked has locked the table, too, in a mode that ExclusiveLock conflicts
 * with, so transactions of other tables don't count.  No page locked.
 */
static void
find_old_lockers(Relation rel, Fxid newest, LockTupleMode want,
				 ZLockers *lockers)
{
	Fxid		own = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	LOCKTAG		tag;

	Assert(newest != InvalidFxid);
	AssertNoPageLocked();
	memset(lockers, 0, sizeof(ZLockers));
	if (own != InvalidFxid && own <= newest)
		note_lock(lockers, want, own, true, LockTupleKeyShare);

	SET_LOCKTAG_RELATION(tag, rel->rd_lockInfo.lockRelId.dbId,
						 rel->rd_lockInfo.lockRelId.relId);
	note_holders(&tag, ExclusiveLock, newest, want, lockers);
}

/* The lockers at an origin that hold its overflow lock. */
static void
find_overflow_lockers(Relation rel, const ZOrigin *origin, LockTupleMode want,
					  ZLockers *lockers)
{
	Fxid		own = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	LOCKTAG		tag;

	Assert(ZOriginHasPlace(origin));
	AssertNoPageLocked();
	memset(lockers, 0, sizeof(ZLockers));
	zheap_lockers_overflow_tag(&tag, rel,
							   ItemPointerGetBlockNumber(&origin->tid),
							   ItemPointerGetOffsetNumber(&origin->tid) &
							   ~ZHEAP_ORIGIN_OVERFLOW);
	if (own != InvalidFxid && own <= origin->newest)
		note_lock(lockers, want, own, true, LockTupleKeyShare);
	note_holders(&tag, AccessExclusiveLock, origin->newest, want, lockers);
}

/*
 * Find the live lockers at the origins that were read, and those that a lock or
 * change of strength want has to wait for.  No page locked.
 */
void
zheap_lockers_scan_origins(ZOrigins *origins, Relation rel, LockTupleMode want)
{
	Assert(origins->n <= ZHEAP_MAX_ORIGINS);
	AssertNoPageLocked();
	origins->known = true;
	origins->want = want;
	origins->own_live = false;
	origins->conflict = InvalidFxid;
	for (int i = 0; i < origins->n; i++)
	{
		ZLockers	lockers;

		if (!ZOriginHasPlace(&origins->origin[i]))
			find_old_lockers(rel, origins->origin[i].newest, want, &lockers);
		else if (origins->origin[i].tid.ip_posid & ZHEAP_ORIGIN_OVERFLOW)
			find_overflow_lockers(rel, &origins->origin[i], want, &lockers);
		else
			scan_origin(rel, &origins->origin[i], want, &lockers);
		origins->foreign[i] = lockers.foreign_live ? lockers.foreign :
			InvalidFxid;
		if (lockers.own_live)
			origins->own_live = true;
		if (origins->conflict == InvalidFxid)
			origins->conflict = lockers.conflict;
	}
}

/*
 * Another transaction that holds the overflow lock of a row, or Invalid.  May be
 * asked with the page locked: nobody who holds a light-weight lock of the lock
 * manager waits for a page.
 */
Fxid
zheap_lockers_overflow_holder(Relation rel, BlockNumber block,
							  OffsetNumber off)
{
	ZLockers	lockers = {0};
	LOCKTAG		tag;

	zheap_lockers_overflow_tag(&tag, rel, block, off);
	note_holders(&tag, AccessExclusiveLock, PG_UINT64_MAX,
				 LockTupleKeyShare, &lockers);
	return lockers.foreign;
}

/*
 * Make n origins, oldest first, at most max (1 or more): the oldest become one
 * without a place.  Returns their number.
 */
int
zheap_lockers_merge_origins(ZOrigin *origins, int n, int max)
{
	int			merged = n - max + 1;
	Fxid		newest = InvalidFxid;

	Assert(max >= 1);
	Assert(n <= ZHEAP_MAX_ORIGINS + 2 && max <= ZHEAP_MAX_ORIGINS);
	if (n <= max)
		return n;
	for (int i = 0; i < merged; i++)
		newest = Max(newest, origins[i].newest);
	origins[0].newest = newest;
	ItemPointerSet(&origins[0].tid, InvalidBlockNumber, FirstOffsetNumber);
	memmove(&origins[1], &origins[merged], (max - 1) * sizeof(ZOrigin));
	return max;
}

/*
 * Copy a row without origins to "to" and put these behind it; returns the new
 * length.  "to" has room for ZHEAP_MAX_ORIGINS of them.
 */
uint16
zheap_lockers_append_origins(char *to, const char *tuple, uint16 len,
							 const ZOrigin *origins, int n)
{
	ZTupleHeader header;

	Assert(n >= 0 && n <= ZHEAP_MAX_ORIGINS);
	Assert(len >= ZHEAP_HEADER_SIZE);
	memcpy(to, tuple, len);
	zheap_header_get(to, &header);
	Assert((header.natts_flags1 & (ZH_ORIGIN | ZH_SLACK)) == 0);
	if (n == 0)
		return len;

	header.natts_flags1 |= ZH_ORIGIN;
	zheap_header_put(to, &header);
	for (int i = 0; i < n; i++)
	{
		ItemPointerData tid = origins[i].tid;

		Assert(ItemPointerIsValid(&tid) && origins[i].newest != InvalidFxid);
		if (i > 0)
			tid.ip_posid |= ZHEAP_ORIGIN_MORE;
		memcpy(to + len, &origins[i].newest, sizeof(Fxid));
		memcpy(to + len + sizeof(Fxid), &tid, sizeof(ItemPointerData));
		len += ZHEAP_ORIGIN_SIZE;
	}
	return len;
}
