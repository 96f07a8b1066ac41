/*-------------------------------------------------------------------------
 *
 * zheap_xact_slot.h
 *	  Owners of xact slots: what became of them, and choosing an xact slot for
 *	  a change.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XACT_SLOT_H
#define ZHEAP_XACT_SLOT_H

#include "postgres.h"

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
extern bool zheap_xact_slot_is_own(ZXactSlot slot, const UndoHorizons *hz);

/*
 * Does any xact slot of the page have an aborted owner (share lock)?  The shared
 * one isn't asked: what is done to other rows needn't wait for its (Z59).
 */
extern bool zheap_xact_slot_any_aborted(Buffer buffer, Page page,
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
	ZTENURE_SHARED				/* the page's shared xact slot, id is
								 * ZXACT_SHARED (Z56) */
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
	ZRESERVE_NONE				/* for a new row: it has to go elsewhere */
} ZReserveResult;

/*
 * The xact slot with this content, if all others are FREE or their owners
 * visible to all; else 0.
 */
extern uint8 zheap_xact_slot_only(Page page, Fxid fxid, UndoRecPtr urp,
								  const UndoHorizons *hz);

/* what an xact slot is wanted for */
typedef enum ZReserveFor
{
	ZRESERVE_FOR_NEW_ROW,		/* never the shared one */
	ZRESERVE_FOR_CHANGE,
	ZRESERVE_FOR_LOCK			/* the page doesn't grow beyond the reserve */
} ZReserveFor;

/*
 * Choose the xact slot for a change by fxid (mine); see zheap/README.
 * Exclusive lock held.  May grow the page, or give it a shared xact slot (own WAL
 * record), never freezes or takes over: that is part of the change itself.
 * prefer: xact slot id of the row to be changed, or 0.
 */

/*
 * A page doesn't grow beyond so many xact slots: who finds more running owners
 * moves its row, so that small hot tables spread themselves.  For each owner of a
 * page is asked about at each change: tpcb-like with 100 clients at scale 20 takes
 * a quarter less CPU with 16 than with 254.
 */
#define ZHEAP_CROWDED_XACT_SLOTS	UNDO_KNOB("crowded", 16, 8, 16)

extern ZReserveResult zheap_xact_slot_reserve(Relation rel, Buffer buffer,
											  const UndoHorizons *hz,
											  Fxid fxid, ZReserveFor what,
											  uint8 prefer,
											  ZXactSlotChoice *choice);

/*
 * The shared one instead.  ERROR (data corrupted) if the page has no room for it,
 * which the rules of placing rows exclude (S1 in Z57).
 */
extern void zheap_xact_slot_share(Relation rel, Buffer buffer,
								  ZXactSlotChoice *choice);

/*
 * A page whose only row leaves no room for a shared xact slot: then its only xact
 * slot is shared, by the first who wants it (Z57).
 */
extern bool zheap_xact_slot_is_for_one(Relation rel, Page page);

/* may changes of the table's rows go through a shared xact slot */
static inline bool
zheap_xact_slot_may_share(Relation rel)
{
	/* nobody else is there */
	return rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP;
}

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
 * be NULL: then only < all_visible_before.  shared_over: likewise of all that the
 * chain of the shared xact slot names, and no row is to be rolled back by it.
 */
extern Fxid zheap_xact_slot_freeze_page(Relation rel, Page page,
										const UndoHorizons *hz,
										bool shared_over, int *nfrozen);

#endif							/* ZHEAP_XACT_SLOT_H */
