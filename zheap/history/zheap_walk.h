/*-------------------------------------------------------------------------
 *
 * zheap_walk.h
 *	  Walking a row's history on one page: find the record that made a
 *	  version, step back over it.
 *
 * For what judges versions.  The walk knows where it stands, not whether to
 * accept: the caller judges the owner it stands at, then finds and steps back or
 * stops.
 *
 *		state = zheap_walk_start(&walk, ...);
 *		while (state == ZWALK_OWNED)
 *			judge walk.fxid (and walk.hdr)
 *			zheap_walk_find(&walk, held)
 *				ZFIND_OTHER: another owner below: judge again
 *				ZFIND_GONE: the owner is visible to all, so is the version
 *				ZFIND_STOP: it was made by a change of mine that the caller
 *					knows enough about (only if it has set walk.stop)
 *				ZFIND_FOUND: walk.undo made the version; stop, or
 *					state = zheap_walk_step_back(&walk)
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_WALK_H
#define ZHEAP_WALK_H

#include <limits.h>

#include "zheap/history/zheap_look_up.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/history/zheap_ring.h"

typedef enum ZWalkState
{
	ZWALK_NONE,					/* no row here (any more, or yet) */
	ZWALK_SETTLED,				/* this version is visible to all */
	ZWALK_OWNED					/* it belongs to tenure walk->fxid or one
								 * below */
} ZWalkState;

typedef enum ZFindResult
{
	ZFIND_FOUND,				/* walk->undo is the record, of writer
								 * walk->fxid */
	ZFIND_OTHER,				/* walk->fxid is another owner now: judge it */
	ZFIND_GONE,					/* walk->fxid is committed and visible to all */
	ZFIND_STOP,					/* at walk->stop or below: not looked for */
	ZFIND_LIMIT					/* walk->budget is used up */
} ZFindResult;

typedef struct ZWalk
{
	Relation	rel;
	UndoReader *reader;
	const UndoHorizons *hz;
	BlockNumber block;
	OffsetNumber off;			/* Invalid: only tenures are walked */
	/* where we stand */
	Fxid		fxid;			/* owner of the tenure */
	UndoRecPtr	urp;			/* its next record to look at */
	bool		skip;			/* not in the owner's tenure nor its family's */
	int			steps;			/* back to versions before */
	ZXactSlot	slot;			/* the xact slot while fxid is its owner, else
								 * NULL */
	ZTupleHeader hdr;			/* of the version */
	char	   *image;			/* its bytes, or NULL if nobody wants them */
	uint16	   *len;
	int			budget;			/* records that may still be read */
	int			until_look;		/* without a budget: records to be passed
								 * before the next look for interrupts */
	UndoRecPtr	stop;			/* record of stop_fxid at which a version that
								 * isn't found yet needn't be, or invalid */
	Fxid		stop_fxid;
	Fxid		floor;			/* xmin of the snapshot asked for, or 0: what
								 * was spilled before that is dead */
	ZRing		ring;			/* places passed, since the start */
	ZMissing   *missing;		/* defaults for versions of older files,
								 * innermost first; only if image is wanted */
	/* the record read last */
	ZUndo		undo;
	UndoRecord	raw;
} ZWalk;

#define ZWALK_NO_BUDGET			INT_MAX

/*
 * Is walk->fxid itself the writer of the version, without a record having been
 * looked for?  (A version that isn't REUSED was made by the owner.)
 */
#define ZWalkIsExact(walk)		(ZHeaderReused(&(walk)->hdr) == ZH_REUSED_NONE)

/* inserted by w and never changed: there is nothing below */
#define ZWalkIsPlainInsert(walk) \
	(ZWalkIsExact(walk) && ((walk)->hdr.flags2 & ZH_INPLACE) == 0 && \
	 !ZHeaderIsEnded(&(walk)->hdr))

/* give up the list of defaults, where the walk ends before its context does */
extern void zheap_walk_forget_missing(ZWalk *walk);
extern void zheap_walk_init(ZWalk *walk, Relation rel, UndoReader *reader,
							const UndoHorizons *hz, BlockNumber block,
							OffsetNumber off, char *image, uint16 *len);
extern ZWalkState zheap_walk_start(ZWalk *walk, Page page);
extern void zheap_walk_at_slot(ZWalk *walk, Page page, uint8 id);
extern ZXactStatus zheap_walk_status(ZWalk *walk, Buffer buffer);
extern bool zheap_walk_fetch(ZWalk *walk, bool held);
extern ZFindResult zheap_walk_find(ZWalk *walk, bool held);
extern const ZOwnHistory *zheap_walk_own_history(ZWalk *walk);
extern ZWalkState zheap_walk_step_back(ZWalk *walk);
extern bool zheap_walk_jump(ZWalk *walk);

/* Z19 for one row whose xact slot can't be frozen, and Z25 */
typedef enum ZRowFate
{
	ZROW_NONE,					/* nothing but aborted changes */
	ZROW_ENDED_FOR_ALL,			/* its body may go; conflict horizon is set */
	ZROW_ENDED,					/* ended, but somebody may need it */
	ZROW_SETTLED,				/* newest change committed */
	ZROW_CHANGING				/* newest change not committed, or unknown */
} ZRowFate;

extern ZRowFate zheap_walk_fate(ZWalk *walk, Page page, Buffer buffer,
								Fxid *conflict);
extern bool zheap_walk_has_settled_version(ZWalk *walk, Page page,
										   Buffer buffer);

/*
 * Z60: mark the offsets of the page that live row locks name, in "named", which
 * has MaxHeapTuplesPerPage + 1 elements.  False if walk->budget is not enough:
 * then it isn't known which are.
 */
extern bool zheap_walk_mark_locked(ZWalk *walk, Page page, bool *named);

/* corruption of a row, naming relation, block and offset */
pg_noreturn extern void zheap_walk_corrupt(Relation rel, BlockNumber block,
										   OffsetNumber off,
										   const char *expected);

#endif							/* ZHEAP_WALK_H */
