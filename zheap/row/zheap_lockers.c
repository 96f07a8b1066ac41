/*-------------------------------------------------------------------------
 *
 * zheap_lockers.c
 *	  The live lockers of a row: those in the undo chains of its page (Z23).
 *
 * Whether to wait for them, and how, is decided in zheap_lock.c.  Writes
 * nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/rel.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"

/* do two modes exclude each other; the relation is monotonous in both */
bool
zheap_lockers_exclude(LockTupleMode a, LockTupleMode b)
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

/* one transaction may have a lock twice; it doesn't matter */
static void
collect(ZLockers *lockers, Fxid fxid)
{
	if (lockers->n == lockers->max)
	{
		lockers->max = Max(16, 2 * lockers->max);
		lockers->fxids = lockers->fxids == NULL ?
			palloc(lockers->max * sizeof(Fxid)) :
			repalloc(lockers->fxids, lockers->max * sizeof(Fxid));
	}
	lockers->fxids[lockers->n++] = fxid;
}

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
	lockers->foreign_live = true;
	if (lockers->collect)
		collect(lockers, fxid);
	if (lockers->conflict == InvalidFxid &&
		zheap_lockers_exclude(want, mode))
		lockers->conflict = fxid;
}

/* ----------------------------------------------------------------
 *	mine on one page
 * ----------------------------------------------------------------
 */

/*
 * The row locks in the tenures of my family that end with record urp of fxid;
 * never stale (Z39).  Who changes again and again rows that it has locked asks
 * each time: so it reads what it wrote since, and not all.
 */
typedef struct OwnLocks
{
	Fxid		fxid;			/* 0: empty */
	UndoRecPtr	urp;
	char		persistence;
	int			nrecords;
	uint8		mode[MaxHeapTuplesPerPage + 1]; /* by row: the strongest + 1,
												 * or 0: none */
} OwnLocks;

#define OWN_SETS	64
#define OWN_WAYS	4			/* entries that share a page's place */

/* fewer records are read again rather than remembered */
#define OWN_READ	UNDO_KNOB("own-locks-read", 16, 1, 16)

static OwnLocks *own_locks[OWN_SETS][OWN_WAYS];

/* what is known of the tenures that end with urp, first of its set now, or NULL */
static OwnLocks *
own_locks_get(OwnLocks **set, char persistence, Fxid fxid, UndoRecPtr urp)
{
	for (int i = 0; i < OWN_WAYS && set[i] != NULL; i++)
	{
		OwnLocks   *o = set[i];

		if (o->urp == urp && o->fxid == fxid && o->persistence == persistence)
		{
			memmove(&set[1], &set[0], i * sizeof(OwnLocks *));
			return set[0] = o;
		}
	}
	return NULL;
}

/*
 * Remember more than was known, which is NULL or first of its set.  What another
 * subtransaction wrote last stays: a savepoint may be rolled back to.
 */
static void
own_locks_put(OwnLocks **set, const OwnLocks *known, OwnLocks *more)
{
	if (known != NULL)
	{
		for (int i = FirstOffsetNumber; i <= MaxHeapTuplesPerPage; i++)
			more->mode[i] = Max(more->mode[i], known->mode[i]);
	}
	if (known == NULL || known->fxid != more->fxid)
	{
		OwnLocks   *last = set[OWN_WAYS - 1];

		if (last == NULL)
			last = undo_cache_alloc(sizeof(OwnLocks));
		memmove(&set[1], &set[0], (OWN_WAYS - 1) * sizeof(OwnLocks *));
		set[0] = last;
	}
	*set[0] = *more;
}

/*
 * Read the tenures of my family in an xact slot that is mine, newest record
 * first, as far as nothing is known: family boundaries are crossed, so locks of a
 * parent under a released savepoint are found.  *known: of what is below; set
 * may be NULL.  False: an owner ended meanwhile, begin again.
 */
static bool
read_own(ZReadContext *cx, ZXactSlot slot, BlockNumber block, OwnLocks **set,
		 OwnLocks *own, OwnLocks **known)
{
	int			until_look = ZWALK_LOOK_UP;
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	Fxid		fxid = ZXactSlotFxid(slot);
	UndoRecPtr	urp = slot->urp;
	ZXactStatus status = ZXACT_CURRENT;
	ZRing		ring;

	memset(own, 0, sizeof(OwnLocks));
	own->fxid = fxid;
	own->urp = urp;
	own->persistence = cx->reader.persistence;
	*known = NULL;
	zheap_ring_begin(&ring);
	while (status == ZXACT_CURRENT)
	{
		ZUndo		u;

		if (set != NULL)
			*known = own_locks_get(set, own->persistence, fxid, urp);
		if (*known != NULL)
			break;
		zheap_walk_look_up(&until_look);
		if (!undo_record_fetch(&cx->reader, urp, fxid, block, false, rec))
		{
			status = ZXACT_ABORTED;
			break;
		}
		own->nrecords++;
		zheap_undo_decode(rec, &u);
		if (u.kind == ZUNDO_LOCK)
			own->mode[u.offset] = Max(own->mode[u.offset], u.lockmode + 1);
		urp = u.chain;
		if (u.flags & ZUNDO_TENURE_START)
		{
			fxid = u.prev_fxid;
			status = fxid == InvalidFxid ? ZXACT_COMMITTED :
				zheap_xact_slot_fxid_status(fxid, &cx->hz);
		}
		zheap_ring_step(&ring, fxid, urp, block);
	}
	pfree(rec);
	return status != ZXACT_ABORTED;
}

#ifdef USE_ASSERT_CHECKING
/* longer chains would make tests slow that count what is read */
#define OWN_CHECKED		64

static bool
own_is_as_read_afresh(ZReadContext *cx, ZXactSlot slot, BlockNumber block,
					  OffsetNumber off, int nrecords, int mode)
{
	OwnLocks   *known;
	OwnLocks	fresh;

	return nrecords > OWN_CHECKED ||
		!read_own(cx, slot, block, NULL, &fresh, &known) ||
		(fresh.nrecords == nrecords && fresh.mode[off] == mode);
}
#endif

/* My own lock of the row by an xact slot that is mine; false as above. */
static bool
scan_own(ZReadContext *cx, ZXactSlot slot, BlockNumber block,
		 OffsetNumber off, ZLockers *lockers)
{
	OwnLocks  **set = own_locks[murmurhash32(block) % OWN_SETS];
	OwnLocks   *known;
	OwnLocks	own;
	int			nread;
	int			mode;

	if (!read_own(cx, slot, block, set, &own, &known))
		return false;
	nread = own.nrecords;
	mode = own.mode[off];
	if (known != NULL)
	{
		own.nrecords += known->nrecords;
		mode = Max(mode, known->mode[off]);
	}
	Assert(own_is_as_read_afresh(cx, slot, block, off, own.nrecords, mode));
	if (nread >= OWN_READ)
		own_locks_put(set, known, &own);
	if (mode > 0)
		note_lock(lockers, LockTupleKeyShare, own.fxid, true,
				  (LockTupleMode) (mode - 1));
	return true;
}

/*
 * Look through the tenures of one xact slot as long as their owner runs, his
 * family's too.  False as above.
 */
static bool
scan_xact_slot(ZReadContext *cx, ZXactSlot slot, BlockNumber block,
			   OffsetNumber off, LockTupleMode want, ZLockers *lockers)
{
	int			until_look = ZWALK_LOOK_UP;
	UndoRecord *rec;
	Fxid		fxid = ZXactSlotFxid(slot);
	UndoRecPtr	urp = slot->urp;
	bool		ok = true;
	ZRing		ring;

	/* a pointer that is none is the reader's to refuse */
	Assert(!ZXactSlotIsFree(slot));
	if (zheap_xact_slot_is_own(slot, &cx->hz))
		return scan_own(cx, slot, block, off, lockers);
	rec = palloc(sizeof(UndoRecord));
	zheap_ring_begin(&ring);
	while (ok && fxid != InvalidFxid)
	{
		ZXactStatus status = zheap_xact_slot_fxid_status(fxid, &cx->hz);
		ZUndo		u;

		if (status == ZXACT_ABORTED)
			ok = false;
		if (status != ZXACT_RUNNING)
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
			if (u.kind == ZUNDO_LOCK && u.offset == off)
				note_lock(lockers, want, fxid, false,
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

/* The same in the chain of the page's shared xact slot. */
static void
scan_shared(ZReadContext *cx, Page page, BlockNumber block, OffsetNumber off,
			LockTupleMode want, bool own_only, ZLockers *lockers)
{
	const ZShared *s = zheap_shared_get(&cx->reader, &cx->hz, page, block);

	if (s == NULL)
		return;
	for (int i = s->first[off]; i != 0; i = s->lock[i - 1].next)
	{
		const ZSharedLock *lock = &s->lock[i - 1];
		bool		own;

		if (zheap_shared_lock_is_live(lock, &cx->hz, &own) &&
			(own || !own_only))
			note_lock(lockers, want, lock->fxid, own,
					  (LockTupleMode) lock->mode);
	}
}

static bool
find_all(ZReadContext *cx, Page page, BlockNumber block, OffsetNumber off,
		 LockTupleMode want, ZLockers *lockers)
{
	int			nslots = ZPageGetOpaque(page)->nslots;

	Assert(zheap_page_is_valid(page) && OffsetNumberIsValid(off));
	scan_shared(cx, page, block, off, want, false, lockers);
	for (int id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (ZXactSlotIsFree(slot) ||
			(lockers->conflict != InvalidFxid &&
			 !zheap_xact_slot_is_own(slot, &cx->hz)))
			continue;
		if (!scan_xact_slot(cx, slot, block, off, want, lockers))
			return false;
	}
	return true;
}

/*
 * Fill *lockers with the live lockers of a TID, by their records: what the
 * row's header says, or whether there still is a row, isn't asked.  Page
 * locked, at least in share mode, cx open and its horizons sampled before; no
 * aborted owner on the page, or the result is false: begin again.  Once there is
 * a conflict nobody else is looked for but myself.
 */
bool
zheap_lockers_find(ZReadContext *cx, Page page, BlockNumber block,
				   OffsetNumber off, LockTupleMode want, ZLockers *lockers)
{
	memset(lockers, 0, sizeof(ZLockers));
	return find_all(cx, page, block, off, want, lockers);
}

/* likewise; a lock FOR KEY SHARE conflicts with none that a mover meets */
bool
zheap_lockers_collect(ZReadContext *cx, Page page, BlockNumber block,
					  OffsetNumber off, ZLockers *lockers)
{
	memset(lockers, 0, sizeof(ZLockers));
	lockers->collect = true;
	return find_all(cx, page, block, off, LockTupleKeyShare, lockers);
}

/*
 * May another transaction that runs have a lock on the TID?  Its records on the
 * page aren't read, however many they are.  Page locked, in exclusive mode.
 */
bool
zheap_lockers_may_live(ZReadContext *cx, Buffer buffer, Page page,
					   BlockNumber block, OffsetNumber off)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	ZLockers	shared = {0};

	AssertPageExclusive(buffer);
	for (int id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (!ZXactSlotIsFree(slot) &&
			zheap_xact_slot_status(buffer, slot, &cx->hz) == ZXACT_RUNNING)
			return true;
	}
	scan_shared(cx, page, block, off, LockTupleKeyShare, false, &shared);
	return shared.foreign_live;
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
	scan_shared(cx, page, block, off, LockTupleKeyShare, true, lockers);
	for (int id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		/* there is but one (Z4) */
		if (zheap_xact_slot_is_own(slot, &cx->hz))
			return scan_own(cx, slot, block, off, lockers);
	}
	return true;
}

/* ----------------------------------------------------------------
 *	what this backend has locked
 * ----------------------------------------------------------------
 */

/*
 * Locks that my transactions recorded last, so that one isn't recorded again for
 * each row that refers to the row locked.  As long as the (sub)transaction isn't
 * over the lock is there, and its TID is no other row's (Z60).
 */
typedef struct LockRemembered
{
	Fxid		fxid;			/* 0: empty */
	RelFileLocator locator;
	BlockNumber block;
	OffsetNumber off;
	uint8		mode;
	char		persistence;
} LockRemembered;

#define LOCKS_REMEMBERED	64

static LockRemembered *
remembered_place(const ZRowWrite *w)
{
	static LockRemembered places[LOCKS_REMEMBERED];

	return &places[murmurhash32(w->block * 512 + w->off) % LOCKS_REMEMBERED];
}

void
zheap_lockers_remember(const ZRowWrite *w)
{
	LockRemembered *r = remembered_place(w);

	r->fxid = w->fxid;
	r->locator = w->rel->rd_locator;
	r->persistence = w->rel->rd_rel->relpersistence;
	r->block = w->block;
	r->off = w->off;
	r->mode = (uint8) w->mode;
}

bool
zheap_lockers_remembered(const ZRowWrite *w)
{
	const LockRemembered *r = remembered_place(w);

	return r->fxid >= w->cx.hz.all_visible_before && r->mode >= w->mode &&
		r->block == w->block && r->off == w->off &&
		r->persistence == w->rel->rd_rel->relpersistence &&
		RelFileLocatorEquals(r->locator, w->rel->rd_locator) &&
		TransactionIdIsCurrentTransactionId(XidFromFxid(r->fxid));
}
