/*-------------------------------------------------------------------------
 *
 * zheap_history.h
 *	  Owners of xact slots, versions of rows, and what each snapshot sees of
 *	  them.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_HISTORY_H
#define ZHEAP_HISTORY_H

#include "postgres.h"

#include "utils/snapshot.h"

#include "zheap/format/zheap_format.h"

/* ----------------------------------------------------------------
 *	zheap_xact_slot_status.c
 * ----------------------------------------------------------------
 */

/* status of a writer, tested in the order of Z15 */
typedef enum ZXactStatus
{
	ZXACT_ALL_VISIBLE,			/* fxid < all_visible_before, or 0 */
	ZXACT_CURRENT,				/* of my own top transaction, not aborted */
	ZXACT_RUNNING,				/* foreign; asked for an MVCC snapshot: in
								 * progress for it, even if committed since */
	ZXACT_COMMITTED,
	ZXACT_ABORTED
} ZXactStatus;

extern void zheap_xact_slot_register(void);

/* this fxid was given to a transaction, so none up to it is from the future */
extern void zheap_xact_slot_note_given(Fxid fxid);

extern ZXactStatus zheap_xact_slot_fxid_status(Fxid fxid,
											   const UndoHorizons *hz);

/* as above for an xact slot; uses and sets the COMMITTED hint (Z18) */
extern ZXactStatus zheap_xact_slot_status(Buffer buffer, ZXactSlot slot,
										  const UndoHorizons *hz);

/* Is its owner my own transaction?  Nobody else is asked about. */
extern bool zheap_xact_slot_is_mine(ZXactSlot slot, const UndoHorizons *hz);

/*
 * Does any xact slot of the page have an aborted owner (share lock)?  Stubs
 * aren't asked about: what is done to other rows needn't wait for them (Z57).
 */
extern bool zheap_xact_slot_any_aborted(Buffer buffer, Page page,
										const UndoHorizons *hz);

/* was the row at off, if it is a stub, ended by a transaction that aborted */
extern bool zheap_xact_slot_stub_is_aborted(Page page, OffsetNumber off,
											const UndoHorizons *hz);

/* is any row of the page such a stub */
extern bool zheap_xact_slot_any_stub_aborted(Page page,
											 const UndoHorizons *hz);

/* ----------------------------------------------------------------
 *	zheap_xact_slot.c
 * ----------------------------------------------------------------
 */

/*
 * Is a committed transaction visible to every snapshot, present and future, of
 * every backend that may read the relation?  Ended rows of it are dead to
 * all.  rel may be NULL: then only those before all_visible_before are.
 * Standbys may lag behind: *conflict, unless conflict is NULL, is raised to
 * the conflict horizon that removing what it ended must log.
 */
extern bool zheap_xact_slot_seen_by_all(Relation rel, Fxid fxid,
										const UndoHorizons *hz,
										Fxid *conflict);

typedef enum ZTenure
{
	ZTENURE_CONTINUE,			/* mine already, exactly this xid */
	ZTENURE_FREE,				/* was FREE */
	ZTENURE_FAMILY,				/* another xid of my top transaction */
	ZTENURE_FOREIGN,			/* committed foreign owner */
	ZTENURE_FROZEN,				/* the same, visible to all: its tuples are
								 * frozen (Z19), then as FREE */
	ZTENURE_STUB				/* no xact slot: the row ends as a stub, id is
								 * ZXACT_STUB (Z56) */
} ZTenure;

typedef struct ZXactSlotChoice
{
	uint8		id;
	ZTenure		tenure;
	Fxid		prev_fxid;		/* owner before (FAMILY, FOREIGN) */
	UndoRecPtr	prev_urp;		/* urp before: the new record's chain */
	Fxid		conflict;		/* FROZEN: conflict horizon to be logged, or 0 */
} ZXactSlotChoice;

/*
 * An open record that this backend wrote (INSERT_OPEN, open DELETE).  While it
 * is the newest of its xact slot, further rows of the same command need none.
 * Nothing has to be reset at the end of a transaction: fxids don't come back.
 */
typedef struct ZOpenRecord
{
	RelFileLocator locator;
	BlockNumber block;
	UndoRecPtr	urp;			/* Invalid: none yet */
	Fxid		fxid;
	CommandId	cid;
	Buffer		buffer;			/* of inserts: where the page was, a hint */
} ZOpenRecord;

extern bool zheap_xact_slot_record_covers(const ZOpenRecord *open,
										  Relation rel,
										  BlockNumber block,
										  const ZXactSlotChoice *choice,
										  Fxid fxid, CommandId cid);
extern void zheap_xact_slot_note_record(ZOpenRecord *open, Relation rel,
										BlockNumber block, UndoRecPtr urp,
										Fxid fxid, CommandId cid);

typedef enum ZReserveResult
{
	ZRESERVE_OK,
	ZRESERVE_ABORTED,			/* an aborted owner is on the page: roll it
								 * back first, start over */
	ZRESERVE_WAIT				/* only running foreign owners: release the
								 * page, wait for *wait_for, start over */
} ZReserveResult;

/*
 * The xact slot with this content, if all others are FREE or their owners
 * visible to all; else 0.
 */
extern uint8 zheap_xact_slot_only(Page page, Fxid fxid, UndoRecPtr urp,
								  const UndoHorizons *hz);

/*
 * Choose the xact slot for a change by fxid (mine); see zheap/README.
 * Exclusive lock held.  May grow the page (own WAL record), never freezes or
 * takes over: that is part of the change itself.  prefer: xact slot id of the
 * row to be changed, which may be 0, or ZRESERVE_NEW_ROW.
 */
#define ZRESERVE_NEW_ROW	0xFF

extern ZReserveResult zheap_xact_slot_reserve(Relation rel, Buffer buffer,
											  const UndoHorizons *hz,
											  Fxid fxid, uint8 prefer,
											  ZXactSlotChoice *choice,
											  Fxid *wait_for);

/*
 * Part of every change's apply, in do and redo: the takeover or freezing pass
 * over the page's tuples, then slot = {fxid, urp}.  Deterministic.
 */
extern void zheap_xact_slot_own(Page page, uint8 id, ZTenure tenure,
								Fxid fxid, UndoRecPtr urp);

/*
 * Record urp was written, by fxid (mine) with this choice.  Besides the rows
 * that referred to the xact slot before, rows from first to last may do so from
 * now on.  To be told of every record, so that the next pass is short.
 */
extern void zheap_xact_slot_note_rows(Relation rel,
									  const ZXactSlotChoice *choice,
									  Fxid fxid, UndoRecPtr urp,
									  OffsetNumber first, OffsetNumber last);

/* record urp, which is an open one, covers one row more */
extern void zheap_xact_slot_note_row(Fxid fxid, UndoRecPtr urp,
									 OffsetNumber off);

/* what that pass will make of a header (before the change) that isn't ended */
extern void zheap_xact_slot_flag_header(ZTupleHeader *header, uint8 id,
										ZTenure tenure);

/*
 * Z19 on a private copy of the page: freeze every xact slot whose owner
 * committed and is < all_visible_before or removable for the relation.
 * Returns the largest fxid frozen by more than all_visible_before (the
 * conflict horizon), 0 if none; *nfrozen is the number of xact slots.  rel may
 * be NULL: then only < all_visible_before.
 */
extern Fxid zheap_xact_slot_freeze_page(Relation rel, Page page,
										const UndoHorizons *hz,
										int *nfrozen);

/* ----------------------------------------------------------------
 *	zheap_visibility.c
 * ----------------------------------------------------------------
 */

/*
 * A row version found.  data[] holds its bytes (header as of that version).
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
	 * lay above it; what zheap_predicate_hash() makes of the newest one
	 */
	bool		copied;
	uint32		copy_hash;
	uint16		len;
	char		data[BLCKSZ];
} ZVersion;

/* an AM call's reading: horizons sampled before the page was locked, reader */
typedef struct ZReadContext
{
	Relation	rel;
	Snapshot	snapshot;
	UndoHorizons hz;
	UndoReader	reader;
	bool		check_serializable; /* report conflicts out */

	/*
	 * Set after zheap_visibility_begin, by zheap_rollback_limit_reader(), for
	 * who gives up: so many records of aborted changes may be passed, 0 for
	 * as many as there are.  When they are used up, or the process is
	 * interrupted, nothing is found and too_long is set: give the page up,
	 * let zheap_rollback_for_reader() do the rest and begin again.  Others,
	 * as writers, fail when they are interrupted.
	 */
	bool		gives_up;
	int			patience;
	bool		too_long;
	int			until_look;		/* records to pass before the next look */

	/*
	 * Set after zheap_visibility_begin by readers that don't compare
	 * versions: the identity of a version may be the xact slot's owner
	 * instead of its writer, the command id of an own one isn't told, and
	 * "next" of a moved row isn't looked for.  Saves undo reads.
	 */
	bool		approximate_identity;
} ZReadContext;

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
 * to the page.  *mine: my transaction ended it, so others may see it.
 */
extern bool zheap_visibility_is_past(ZReadContext *cx, Buffer buffer,
									 Page page, OffsetNumber off, bool *mine);

/*
 * For page scans: the owners of a page's xact slots, each judged once.  A row
 * that is NORMAL and whose xact slot is seen (or is only a locker's) is
 * seen as it stands, unless it has ended; then not at all.  Index 0 stands for
 * rows without an owner, ZXACT_STUB for stubs: unseen if any is, or is mine.
 *
 * Returns true if no other row is there: nothing is unseen, and SPILLED
 * pointers are invisible.  Then the page may be unlocked once it is copied.
 * The snapshot is of type MVCC.  buffer is Invalid for a copy of the page,
 * which may have been rolled back.
 */
#define NO_XACT_SLOT	0xFF	/* there are ZHEAP_MAX_XACT_SLOTS at most; a
								 * stub's is never compared with it */

typedef struct ZOwners
{
	int			n;				/* xact slots of the page */
	bool		aborted;		/* is any of the owners */
	bool		own_unseen;		/* are changes of my own transaction */
	uint8		own;			/* xact slot of my transaction, or none */
	bool		unseen[ZXACT_STUB + 1];
	Fxid		writer[ZXACT_STUB + 1];
} ZOwners;

extern bool zheap_visibility_page_owners(ZReadContext *cx, Buffer buffer,
										 Page page,
										 BlockNumber block, ZOwners *owners);

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
extern bool zheap_visibility_own_top(ZReadContext *cx, Buffer buffer,
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

/*
 * The frequent case of a row that my transaction, but no savepoint of it, made
 * or changed last, and that hasn't ended: the version as it stands is put into
 * *v, as zheap_visibility_find() does for SELF and ANY with
 * approximate_identity.  False for all others.  The offset has a line pointer.
 */
extern bool zheap_visibility_own_as_it_stands(Page page, OffsetNumber off,
											  ZVersion *v);

/* was the row's newest change, aborted ones apart, made by my transaction */
extern bool zheap_visibility_is_mine(ZReadContext *cx, Buffer buffer,
									 Page page, BlockNumber block,
									 OffsetNumber off);

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
extern uint32 zheap_predicate_hash(const char *tuple, uint16 len);
extern void zheap_predicate_conflict_out(const ZReadContext *cx, Fxid writer);
extern void zheap_predicate_lock(Relation rel, Snapshot snapshot,
								 BlockNumber block, OffsetNumber off,
								 const ZVersion *v);
extern void zheap_predicate_conflict_in(Relation rel, BlockNumber block,
										OffsetNumber off, const char *tuple,
										uint16 len);

/* ----------------------------------------------------------------
 *	zheap_describe.c
 * ----------------------------------------------------------------
 */

/*
 * Fill oldhdr, OLD_* flags and link of a change record (Z6): the row's
 * present version as seen by the change that is about to be made with
 * choice.  Exclusive lock held, aborted owners already rolled back; hdr is
 * the tuple's header after normalising (before the takeover pass).  Also sets
 * TENURE_START, FAMILY, prev_fxid, BASE, chain.
 */
extern void zheap_describe_old(ZReadContext *cx, Page page,
							   BlockNumber block, OffsetNumber off,
							   const ZXactSlotChoice *choice,
							   const ZTupleHeader *hdr, ZUndo *u);

/* the same for records without an old version (inserts, locks) */
extern void zheap_describe_tenure(ZReadContext *cx, Page page,
								  BlockNumber block,
								  const ZXactSlotChoice *choice,
								  ZUndo *u);

#endif							/* ZHEAP_HISTORY_H */
