/*-------------------------------------------------------------------------
 *
 * zheap_sees.h
 *	  Which version of a row a snapshot sees, and which one a writer meets.  The
 *	  ways are listed in the order in which they are tried in zheap/README.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SEES_H
#define ZHEAP_SEES_H

#include "zheap/history/zheap_history.h"

/* ----------------------------------------------------------------
 *	zheap_visibility.c
 * ----------------------------------------------------------------
 */

/*
 * A row version found.  data has its bytes (header as of that version): in
 * room; or palloc'd, if the version is older than a rewrite and, with columns
 * added since, longer than a page.  Only an MVCC snapshot finds such.
 * zheap_version_init() before the first use, zheap_version_forget() when the
 * bytes aren't needed any more.
 */
typedef struct ZVersion
{
	Fxid		writer;			/* 0: visible to all */
	CommandId	cid;			/* valid if own */
	bool		own;			/* writer is a current xid */
	bool		approximate;	/* writer may be a later owner of the xact
								 * slot, see ZReadContext */
	bool		ended;			/* this version is a deletion or move */
	uint8		kind;			/* ZUNDO_* of the record that made it; 0
								 * unknown */
	ItemPointerData next;		/* moved to, if kind is ZUNDO_MOVE; else
								 * invalid */

	/*
	 * SERIALIZABLE: nothing but copies of the row by rewrites of the table
	 * lay above it; what zheap_tuple_hash() makes of the newest one
	 */
	bool		copied;
	uint32		copy_hash;
	uint16		len;
	char	   *data;
	char		room[BLCKSZ];
} ZVersion;

static inline void
zheap_version_init(ZVersion *v)
{
	v->data = v->room;
	v->len = 0;
}

static inline void
zheap_version_forget(ZVersion *v)
{
	if (unlikely(v->data != v->room))
		pfree(v->data);
	zheap_version_init(v);
}

/*
 * begin: samples horizons, opens the undo reader.  No buffer locked.
 * resample: to be called again before each further page is locked.
 * end: gives up pins.
 */
extern void zheap_visibility_begin(ZReadContext *cx, Relation rel,
								   Snapshot snapshot);
extern void zheap_visibility_resample(ZReadContext *cx);
extern void zheap_visibility_end(ZReadContext *cx);

/*
 * Which version of (page, off) does cx->snapshot see?  The page is
 * locked (share is enough) during the whole call.  Returns true and fills *v
 * if there is one that isn't ended.  All snapshot types:
 *	MVCC, SELF, ANY (newest non-aborted image, whatever its status), DIRTY
 *	(fills snapshot->xmin, xmax, speculativeToken), NON_VACUUMABLE, TOAST
 *	(any image of a row whose insertion wasn't rolled back).  With an ended
 *	result true is returned for NON_VACUUMABLE and TOAST only;
 *	otherwise false, but *v is filled (kind,
 *	writer, next) when the newest relevant version is ended, else v->len = 0.
 */
extern bool zheap_visibility_find(ZReadContext *cx, Buffer buffer, Page page,
								  BlockNumber block, OffsetNumber off,
								  ZVersion *v);

/*
 * Do pointer and header alone tell that the snapshot sees no row at off,
 * because it had ended before?  False: zheap_visibility_find knows.  Page
 * locked as there; undo is read only to find out once what my transaction did
 * to the page.  *own: my transaction ended it, so others may see it.
 */
extern bool zheap_visibility_is_past(ZReadContext *cx, Buffer buffer,
									 Page page, OffsetNumber off, bool *own);

/*
 * For page scans: the owners of a page's xact slots, each judged once.  A row
 * that is NORMAL and whose xact slot is seen (or is only a locker's) is
 * seen as it stands, unless it has ended; then not at all.  Index 0 stands for
 * rows without an owner, ZXACT_SHARED for those of the shared xact slot: unseen
 * if any is, or is mine.
 *
 * Returns true if no other row is there: nothing is unseen, and SPILLED
 * pointers are invisible.  Then the page may be unlocked once it is copied.
 * The snapshot is of type MVCC.  buffer is Invalid for a copy of the page,
 * which may have been rolled back.
 */
#define NO_XACT_SLOT	0xFF	/* there are ZHEAP_MAX_XACT_SLOTS at most; the
								 * shared one is never compared with it */

typedef struct ZOwners
{
	int			n;				/* xact slots of the page */
	bool		aborted;		/* is any of the owners */
	bool		own_unseen;		/* are changes of my own transaction */
	uint8		own;			/* xact slot of my transaction, or none */
	bool		unseen[ZXACT_SHARED + 1];
	Fxid		writer[ZXACT_SHARED + 1];
} ZOwners;

extern bool zheap_visibility_page_owners(ZReadContext *cx, Buffer buffer,
										 Page page,
										 BlockNumber block, ZOwners *owners);

/*
 * The frequent case of a row that my transaction, but no savepoint of it, made
 * or changed last, and that hasn't ended: the version as it stands is put into
 * *v, as zheap_visibility_find() does for SELF and ANY with
 * approximate_identity.  False for all others.  The offset has a line pointer.
 */
extern bool zheap_visibility_own_as_it_stands(Page page, OffsetNumber off,
											  ZVersion *v);

/* ----------------------------------------------------------------
 *	zheap_old_page.c
 * ----------------------------------------------------------------
 */

/* what zheap_old_page_restore() made of a line pointer */
typedef enum ZOldRow
{
	ZOLD_AS_IT_STANDS,			/* nothing: its owner is seen, or it is none */
	ZOLD_PENDING,
	ZOLD_FOUND,					/* the bytes in the copy are what is seen */
	ZOLD_NONE,					/* inserted by a transaction that isn't seen */
	ZOLD_WALK					/* zheap_visibility_find() knows */
} ZOldRow;

typedef struct ZOldPage
{
	uint8		state[MaxHeapTuplesPerPage + 1];
	/* if FOUND: true length, and owner as in ZOwners */
	uint16		len[MaxHeapTuplesPerPage + 1];
	Fxid		writer[MaxHeapTuplesPerPage + 1];
} ZOldPage;

/* may a page with these owners, some unseen, be restored? */
static inline bool
zheap_old_page_is_possible(const ZReadContext *cx, const ZOwners *owners)
{
	return !cx->check_serializable && !owners->own_unseen &&
		!owners->aborted;
}

/*
 * Restore what the snapshot sees in a private copy of a page, of which *owners
 * was filled before it was unlocked.  The page needn't be locked any more: what
 * is read of undo are records of writers that the snapshot doesn't see (Z16).
 */
extern void zheap_old_page_restore(ZReadContext *cx, Page copy,
								   BlockNumber block, const ZOwners *owners,
								   ZOldPage *old);

/* ----------------------------------------------------------------
 *	zheap_newest.c
 * ----------------------------------------------------------------
 */

/*
 * The newest non-aborted change of a row, for writers.  Exclusive or share
 * lock held; aborted owners are stepped over.
 */
typedef struct ZTop
{
	bool		exists;			/* a NORMAL pointer with at least one
								 * non-aborted version */
	ZXactStatus status;			/* of writer; ALL_VISIBLE if frozen */
	Fxid		writer;			/* 0 if all-visible */
	CommandId	cid;			/* if CURRENT */
	uint8		kind;			/* ZUNDO_INSERT_*, UPDATE, DELETE, MOVE; 0
								 * unknown */
	bool		key_changed;	/* UPDATE, MOVE of key columns; DELETE */
	bool		kept_key;		/* INSERT_SET: arrived by a move of others */
	bool		ended;
	bool		moved_partition;
	ItemPointerData next;		/* MOVE */
} ZTop;

extern void zheap_newest_version(ZReadContext *cx, Buffer buffer, Page page,
								 BlockNumber block, OffsetNumber off,
								 ZTop *top);

/*
 * The same for a row whose newest change is my own, was made by a command
 * before cid and did not end the row, if that can be told without a look at
 * the record.  Then kind is 0 and cid is 0, whatever it was.
 */
extern bool zheap_newest_own_top(ZReadContext *cx, Buffer buffer,
									 Page page, BlockNumber block,
									 OffsetNumber off, CommandId cid,
									 ZTop *top);

/*
 * The same for a row that did not end, if the MVCC snapshot sees the owner of
 * its xact slot, hence all that the owner found there (Z2).  writer may be that
 * later owner, and kind is 0.
 */
extern bool zheap_newest_is_seen(ZReadContext *cx, Buffer buffer, Page page,
								 BlockNumber block, OffsetNumber off,
								 Snapshot snapshot, ZTop *top);

/* was the row's newest change, aborted ones apart, made by my transaction */
extern bool zheap_newest_is_own(ZReadContext *cx, Buffer buffer,
									 Page page, BlockNumber block,
									 OffsetNumber off);

/*
 * The row's newest change is my own, by cid or a later command: which command
 * made the first of these changes?  *unseen: who made the version before them, if
 * an MVCC snapshot is given and doesn't see him, else Invalid.
 */
extern CommandId zheap_newest_first_command(ZReadContext *cx, Buffer buffer,
											Page page, BlockNumber block,
											OffsetNumber off, CommandId cid,
											Snapshot snapshot, Fxid *unseen);

/*
 * Image and identity before my own most recent in-place update of the row
 * (tag PRE).  False if the top isn't an own in-place update.
 */
extern bool zheap_newest_predecessor(ZReadContext *cx, Buffer buffer,
									 Page page,
									 BlockNumber block, OffsetNumber off,
									 ZVersion *v);

/* was a row, whose top the snapshot doesn't see, only copied since */
extern bool zheap_newest_only_copied(ZReadContext *cx, Buffer buffer,
									 Page page, BlockNumber block,
									 OffsetNumber off, Snapshot snapshot);

/*
 * Did somebody who has committed since the snapshot update the row while he had it
 * locked FOR UPDATE?  Only the last few updates are looked at.
 */
extern bool zheap_newest_was_locked(ZReadContext *cx, Buffer buffer, Page page,
									BlockNumber block, OffsetNumber off,
									Snapshot snapshot);

/* is the row surely dead to every snapshot, present and future (all_dead) */
extern bool zheap_newest_dead_to_all(ZReadContext *cx, Buffer buffer,
									 Page page,
									 BlockNumber block, OffsetNumber off);

/* ----------------------------------------------------------------
 *	zheap_predicate.c
 * ----------------------------------------------------------------
 */

/*
 * SERIALIZABLE knows rows by TID.  A row that was updated in place has other
 * readers than the version before it, so a version is named by its TID and a
 * few bits of a hash of its bytes, in the upper part of the offset.  lock: a
 * version was read; conflict_in: it is going to be replaced.  Content lock
 * held by both; conflict_in raises serialization failures.
 *
 * A rewrite of the table copies a version, and the copy may have other bytes:
 * dropped columns are null there, added ones are filled in, values may be
 * toasted.  A writer that replaces it sees the copy, so a reader of the version
 * itself, below the copy, locks it under the copy's name.
 */
extern void zheap_predicate_conflict_out(const ZReadContext *cx, Fxid writer);
extern void zheap_predicate_lock(Relation rel, Snapshot snapshot,
								 BlockNumber block, OffsetNumber off,
								 const ZVersion *v);
extern void zheap_predicate_conflict_in(Relation rel, BlockNumber block,
										OffsetNumber off, const char *tuple,
										uint16 len);

#endif							/* ZHEAP_SEES_H */
