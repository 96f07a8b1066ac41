/*-------------------------------------------------------------------------
 *
 * zheap.h
 *	  Prototypes of the table engine, grouped by file in layer order, and the
 *	  few types that cross files.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_H
#define ZHEAP_H

#include "postgres.h"

#include "access/relscan.h"
#include "access/tableam.h"
#include "nodes/lockoptions.h"
#include "storage/bufmgr.h"
#include "utils/snapshot.h"

#include "undo/undo.h"
#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_tuple.h"
#include "zheap/format/zheap_undo.h"

/* ----------------------------------------------------------------
 *	TID tags (core-contract.md, section 0)
 * ----------------------------------------------------------------
 */
#define ZTID_PRE			0x8000	/* image before my latest in-place update */
#define ZTID_LOCKED			0x4000	/* top image; I hold the lock */
#define ZTID_DIRTY			0x2000	/* the image a DIRTY fetch found */
#define ZTID_TAGS			0xE000
#define ZTID_OFFSET_MASK	0x1FFF

/* moved-partition (0xfffd) and speculative (0xfffe) markers are no tags */
static inline uint16
zheap_tid_tag(const ItemPointerData *tid)
{
	uint16		off = ItemPointerGetOffsetNumberNoCheck(tid);

	return off >= 0xfff0 ? 0 : (off & ZTID_TAGS);
}

static inline OffsetNumber
zheap_tid_offset(const ItemPointerData *tid)
{
	return ItemPointerGetOffsetNumberNoCheck(tid) & ZTID_OFFSET_MASK;
}

static inline void
zheap_tid_set_tag(ItemPointerData *tid, uint16 tag)
{
	tid->ip_posid = (tid->ip_posid & ZTID_OFFSET_MASK) | tag;
}

/* ----------------------------------------------------------------
 *	zheap_buffer.c
 * ----------------------------------------------------------------
 */
extern void zheap_note_buffer(Relation rel, BlockNumber block, Buffer buffer);
extern Buffer zheap_read_buffer(Relation rel, BlockNumber block);
extern Buffer zheap_read_next_buffer(Relation rel, BlockNumber block,
									 Buffer last,
									 BufferAccessStrategy strategy);
extern const char *zheap_next_page(Relation rel, Buffer buffer,
								   BufferAccessStrategy strategy);

/* ----------------------------------------------------------------
 *	zheap_delta.c: logged change of one page by bytes (rule W27)
 *
 * delta_begin gives a private copy of the page to change freely (errors are
 * harmless); delta_finish copies it back and logs the difference in a
 * critical section, with a conflict horizon where history visible to some
 * standby snapshot is removed (0 = none).  Buffer exclusively locked all
 * along; rel may be a fake relcache entry.  delta_finish with an unchanged
 * page does nothing.
 * ----------------------------------------------------------------
 */
typedef struct ZPageDelta
{
	Relation	rel;
	Buffer		buffer;
	PGAlignedBlock work;
} ZPageDelta;

extern Page zheap_delta_begin(ZPageDelta *delta, Relation rel, Buffer buffer);
extern void zheap_delta_finish(ZPageDelta *delta, Fxid conflict);
/*
 * Logs that rows of a relation are about to be gone which standby snapshots
 * may still want: the horizon alone.  Any valid page of it, no lock held.
 */
extern void zheap_delta_log_conflict(Relation rel, BlockNumber block,
									 Fxid conflict);
/*
 * One xact slot more.  Every tuple moves, so a delta would be a whole page;
 * redo repeats the deed instead.  False if there is no room.
 */
extern bool zheap_delta_grow(Relation rel, Buffer buffer);
extern void zheap_delta_redo_grow(XLogReaderState *record);

extern void zheap_delta_redo(XLogReaderState *record);
extern void zheap_delta_desc(StringInfo buf, XLogReaderState *record);

/* ----------------------------------------------------------------
 *	zheap_xact_slot.c
 * ----------------------------------------------------------------
 */

/* status of a writer, tested in the order of rule M7 */
typedef enum ZXactStatus
{
	ZXACT_ALL_VISIBLE,			/* fxid < U, or 0 */
	ZXACT_CURRENT,				/* of my own top transaction, not aborted */
	ZXACT_RUNNING,				/* foreign */
	ZXACT_COMMITTED,
	ZXACT_ABORTED
} ZXactStatus;

extern ZXactStatus zheap_xact_status(Fxid fxid, const UndoHorizons *hz);

/* as above for an xact slot; uses and sets the COMMITTED hint (W24) */
extern ZXactStatus zheap_xact_slot_status(Buffer buffer, ZXactSlot slot,
										  const UndoHorizons *hz);

/* does any xact slot of the page have an aborted owner (share lock) */
extern bool zheap_page_has_aborted(Buffer buffer, Page page,
								   const UndoHorizons *hz);

typedef enum ZTenure
{
	ZTENURE_CONTINUE,			/* mine already, exactly this xid */
	ZTENURE_FREE,				/* was FREE */
	ZTENURE_FAMILY,				/* another xid of my top transaction */
	ZTENURE_FOREIGN,			/* committed foreign owner */
	ZTENURE_FROZEN				/* the same, visible to all: its tuples are
								 * frozen (rule M9), then as FREE */
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
} ZOpenRecord;

extern bool zheap_open_record_goes_on(const ZOpenRecord *open, Relation rel,
									  BlockNumber block,
									  const ZXactSlotChoice *choice,
									  Fxid fxid, CommandId cid);
extern void zheap_open_record_note(ZOpenRecord *open, Relation rel,
								   BlockNumber block, UndoRecPtr urp,
								   Fxid fxid, CommandId cid);

typedef enum ZReserveResult
{
	ZRESERVE_OK,
	ZRESERVE_ABORTED,			/* an aborted owner is on the page: roll it
								 * back first, start over */
	ZRESERVE_WAIT				/* only running foreign owners: release the page,
								 * wait for *wait_for, start over */
} ZReserveResult;

/*
 * The xact slot with this content, if all others are FREE or their owners
 * visible to all; else 0.
 */
extern uint8 zheap_xact_slot_only(Page page, Fxid fxid, UndoRecPtr urp,
								  const UndoHorizons *hz);

/*
 * Choose the xact slot for a change by fxid (mine), rule M6 steps 2-8.
 * Exclusive lock held.  May grow the page (own WAL record), never freezes or
 * takes over: that is part of the change itself.  prefer: xact slot id of the
 * row to be changed, or 0.
 */
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

/* what that pass will make of a header (before the change) that isn't ended */
extern void zheap_xact_slot_flag_header(ZTupleHeader *header, uint8 id,
										ZTenure tenure);

/*
 * Rule M9 on a private copy of the page: freeze every xact slot whose owner
 * committed and is < U or removable for the relation.  Returns the largest
 * fxid frozen by more than U (the conflict horizon), 0 if none;
 * *changed tells whether anything was.  rel may be NULL: then only < U.
 */
extern Fxid zheap_page_freeze(Relation rel, Page page, const UndoHorizons *hz,
							  bool *changed);

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
	bool		loose;			/* writer may be a later owner of the xact slot,
								 * see ZReadContext */
	bool		ended;			/* this version is a deletion or move */
	uint8		kind;			/* ZUNDO_* of the record that made it; 0 unknown */
	ItemPointerData next;		/* moved to, if kind is ZUNDO_MOVE; else invalid */
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
	 * Set after zheap_read_begin by readers that don't compare versions: the
	 * identity of a foreign version may be the xact slot's owner instead of
	 * its writer, and "next" of a moved row isn't looked for.  Saves undo
	 * reads.
	 */
	bool		loose_identity;
} ZReadContext;

/*
 * begin: samples horizons, opens the undo reader.  No buffer locked.
 * resample: to be called again before each further page is locked.
 * end: gives up pins.
 */
extern void zheap_read_begin(ZReadContext *cx, Relation rel, Snapshot snapshot);
extern void zheap_read_resample(ZReadContext *cx);
extern void zheap_read_end(ZReadContext *cx);

/*
 * Rule M8: which version of (page, off) does cx->snapshot see?  The page is
 * locked (share is enough) during the whole call.  Returns true and fills *v
 * if there is one that isn't ended.  All snapshot types:
 *	MVCC, SELF, ANY (newest non-aborted image, whatever its status), DIRTY
 *	(fills snapshot->xmin, xmax, speculativeToken), NON_VACUUMABLE, TOAST (as
 *	SELF).  With an ended result true is never returned, but *v is filled (kind,
 *	writer, next) when the newest relevant version is ended, else v->len = 0.
 */
extern bool zheap_visible_version(ZReadContext *cx, Buffer buffer, Page page,
								  BlockNumber block, OffsetNumber off,
								  ZVersion *v);

/*
 * Do pointer and header alone tell that an MVCC snapshot sees no row at off,
 * because it had ended before?  False: zheap_visible_version knows.  Page
 * locked as there; no undo is read.
 */
extern bool zheap_row_is_past(ZReadContext *cx, Buffer buffer, Page page,
							  OffsetNumber off);

/*
 * For page scans: the owners of a page's xact slots, each judged once.  A row
 * that is NORMAL and whose xact slot isn't unseen (or is only a locker's) is
 * seen as it stands, unless it has ended; then not at all.  Index 0 stands for
 * rows without an owner.
 *
 * Returns true if no other row is there: no xact slot is unseen, and SPILLED
 * pointers are invisible.  Then the page may be unlocked once it is copied.
 * The snapshot is of type MVCC.  buffer is Invalid for a copy of the page, which
 * may have been rolled back.
 */
typedef struct ZOwners
{
	int			n;				/* xact slots of the page */
	bool		aborted;		/* is any of the owners */
	bool		unseen[ZHEAP_MAX_XACT_SLOTS + 1];
	Fxid		writer[ZHEAP_MAX_XACT_SLOTS + 1];
} ZOwners;

extern bool zheap_page_owners(ZReadContext *cx, Buffer buffer, Page page,
							  BlockNumber block, ZOwners *owners);

/*
 * SERIALIZABLE knows rows by TID.  A row that was updated in place has other
 * readers than the version before it, so a version is named by its TID and a
 * few bits of a hash of its bytes, in the upper part of the offset.  lock: a
 * version was read; conflict_in: it is going to be replaced.  Content lock
 * held by both; conflict_in raises serialization failures.
 */
extern void zheap_predicate_lock(Relation rel, Snapshot snapshot,
								 BlockNumber block, OffsetNumber off,
								 const ZVersion *v);
extern void zheap_predicate_conflict_in(Relation rel, BlockNumber block,
										OffsetNumber off, const char *tuple,
										uint16 len);

/*
 * The newest non-aborted change of a row, for writers.  Exclusive or share
 * lock held; aborted owners are stepped over.
 */
typedef struct ZTop
{
	bool		exists;			/* a NORMAL pointer with at least one non-aborted version */
	ZXactStatus status;			/* of writer; ALL_VISIBLE if frozen */
	Fxid		writer;			/* 0 if all-visible */
	CommandId	cid;			/* if CURRENT */
	uint8		kind;			/* ZUNDO_INSERT_*, UPDATE, DELETE, MOVE; 0 unknown */
	bool		key_changed;	/* UPDATE touching key columns; DELETE, MOVE with KEY */
	bool		ended;
	bool		moved_partition;
	ItemPointerData next;		/* MOVE */
} ZTop;

extern void zheap_top_version(ZReadContext *cx, Buffer buffer, Page page,
							  BlockNumber block, OffsetNumber off, ZTop *top);

/*
 * Image and identity before my own most recent in-place update of the row
 * (tag PRE).  False if the top isn't an own in-place update.
 */
extern bool zheap_predecessor(ZReadContext *cx, Buffer buffer, Page page,
							  BlockNumber block, OffsetNumber off, ZVersion *v);

/* was a row, whose top the snapshot doesn't see, only copied since */
extern bool zheap_row_was_only_copied(ZReadContext *cx, Buffer buffer,
									  Page page, BlockNumber block,
									  OffsetNumber off, Snapshot snapshot);

/* is the row surely dead to every snapshot, present and future (all_dead) */
extern bool zheap_row_is_dead_to_all(ZReadContext *cx, Buffer buffer, Page page,
									 BlockNumber block, OffsetNumber off);

/*
 * Fill oldhdr, OLD_* flags and link of a change record (rule M4): the row's
 * present version as seen by the change that is about to be made with
 * choice.  Exclusive lock held, aborted owners already rolled back; hdr is
 * the tuple's header after normalising (before the takeover pass).  Also sets
 * TENURE_START, FAMILY, prev_fxid, BASE, chain.
 */
extern void zheap_undo_describe_old(ZReadContext *cx, Page page,
									BlockNumber block, OffsetNumber off,
									const ZXactSlotChoice *choice,
									const ZTupleHeader *hdr, ZUndo *u);

/* the same for records without an old version (inserts, locks) */
extern void zheap_undo_describe_tenure(ZReadContext *cx, Page page,
									   BlockNumber block,
									   const ZXactSlotChoice *choice, ZUndo *u);

/* ----------------------------------------------------------------
 *	zheap_rollback.c
 * ----------------------------------------------------------------
 */

/*
 * Rule M11.  Takes and releases the exclusive lock itself, in batches; no
 * lock held by the caller.  The registered undo client.
 */
extern void zheap_rollback_page(Relation rel, BlockNumber block);

/* with the buffer pinned and exclusively locked by the caller, kept so */
extern void zheap_rollback_buffer(Relation rel, Buffer buffer);

/*
 * Roll back a reader's copy of a page that it holds locked (share is enough),
 * as far as one batch goes.  Nothing is logged, no hint is set.
 */
extern void zheap_rollback_copy(ZReadContext *cx, Page copy, BlockNumber block);

/* ----------------------------------------------------------------
 *	zheap_prune.c
 * ----------------------------------------------------------------
 */

typedef struct ZPruneResult
{
	int			nreclaimed;		/* bodies dropped */
	bool		changed;
	/* only if TIDY */
	int			ndead;			/* line pointers that are DEAD after it */
	bool		all_visible;	/* every pointer NORMAL/UNUSED, every row has an
								 * all-visible version, nothing ended (M15) */
	bool		has_tuples;
	/* always */
	int			live_tuples;
	int			recently_dead;	/* spilled ones included */
} ZPruneResult;

/*
 * Reclaim: freeze what can be frozen, drop bodies of rows that ended for all
 * (pointer DEAD, or UNUSED if NO_INDEXES), spilled ones too, drop slack of
 * settled rows; if TIDY, trim and compact.  Exclusive lock held, aborted
 * owners rolled back first by the caller.  One page delta.
 */
#define ZPRUNE_NO_INDEXES		1
#define ZPRUNE_TIDY				2

extern void zheap_prune_page(Relation rel, Buffer buffer,
							 const UndoHorizons *hz, int options,
							 ZPruneResult *result);

/* ----------------------------------------------------------------
 *	zheap_make_room.c
 * ----------------------------------------------------------------
 */

/*
 * A writer lacks "missing" bytes on a page: prune it and, if that isn't
 * enough, spill rows whose end has committed (rule M12); nothing is done if
 * both together can't help.  Exclusive lock held and kept; the caller runs in
 * a transaction with an xid and has no undo page pinned.  Returns whether the
 * page may have changed.  options: ZPRUNE_NO_INDEXES, or 0.
 */
extern bool zheap_page_reclaim(Relation rel, Buffer buffer,
							   const UndoHorizons *hz, Size missing,
							   int options);

/* what inserts can have of a page, for the free space map; page locked */
extern Size zheap_page_reclaimable_room(Relation rel, Buffer buffer,
										const UndoHorizons *hz);

/* ZPRUNE_NO_INDEXES if the table surely has none, else 0 */
extern int	zheap_reclaim_options(Relation rel);

/* ----------------------------------------------------------------
 *	zheap_fsm_notes.c
 * ----------------------------------------------------------------
 */

/*
 * A change of the running transaction made this page's room grow, once it has
 * committed, by about bytes: the free space map is told at commit.  Page
 * locked; may allocate.
 */
extern void zheap_freed_note(Relation rel, BlockNumber block, Page page,
							 Size bytes);
/* a page was rolled back; in an abort callback.  Never throws */
extern void zheap_freed_by_abort(Relation rel, BlockNumber block, Size room);

extern void zheap_freed_register(void);	/* transaction callback */

/* ----------------------------------------------------------------
 *	zheap_space.c
 * ----------------------------------------------------------------
 */

/* bulk insert state: the AM's own use of core's BulkInsertState */
struct BulkInsertStateData;

/*
 * A page with room for len more bytes (tuple; its line pointer is counted
 * here), pinned and exclusively locked.  other: Invalid, or a page of the
 * table that the caller has locked exclusively; it is unlocked during the
 * search and locked again in block order, so the caller always rechecks it
 * (its all-visible flag too).  Never returns other's own page: try that
 * first.  New pages are left PageIsNew (W9).  ERROR 53100 when the disk is
 * full.  *vmbuffer (Invalid or a pin of the VM) holds the right pin if the
 * page is marked all-visible; its pin stays the caller's.
 */
#define ZHEAP_INSERT_NEW_PAGE	0x4000	/* option: extend, don't search */

/* room of a page just initialised, if it keeps the reserve for xact slots */
#define ZHEAP_NEW_PAGE_ROOM \
	(BLCKSZ - SizeOfPageHeaderData - sizeof(ZPageOpaqueData) - \
	 ZHEAP_XACT_SLOT_RESERVE * sizeof(ZXactSlotData) - sizeof(ItemIdData))

/*
 * Xact slots of a new page, by the first row put on it.  A row too big for the
 * reserve has the page for itself: writers of it would wait for each other
 * anyway, and only row lockers miss the xact slots (HW_LOCKED serves them).
 */
static inline int
zheap_new_page_xact_slots(Size len)
{
	return len <= ZHEAP_NEW_PAGE_ROOM ? ZHEAP_INITIAL_XACT_SLOTS : 1;
}

/* what to tell the free space map: for it, nothing is larger than heap's rows */
static inline Size
zheap_fsm_room(Size room)
{
	return room >= ZHEAP_MAX_TUPLE_SIZE ? MaxHeapTupleSize : room;
}

extern Buffer zheap_get_page_for_tuple(Relation rel, Size len, Buffer other,
									   int options,
									   struct BulkInsertStateData *bistate,
									   Buffer *vmbuffer);

/* record free space of a page in the FSM */
extern void zheap_record_free_space(Relation rel, BlockNumber block, Page page);

/*
 * Clear the page's all-visible state as part of a change: vm_prepare before
 * the critical section (locks the VM page), vm_clear inside, register, set
 * LSN, release.  (W26, storage.md 6)  Zeroed by the caller before the first
 * vm_add; without any added block all of these do nothing.  release unlocks:
 * the pins stay the caller's.  Clearing the flag on the table page
 * (PageClearAllVisible) is the caller's too.
 */
typedef struct ZVmClear
{
	Buffer		vmbuffer[2];
	BlockNumber block[2];
	int			nbuffers;		/* distinct VM pages, ascending */
	int			nblocks;
	int			buf_of[2];		/* VM page of block[i] */
} ZVmClear;

extern void zheap_vm_add(ZVmClear *vm, BlockNumber block, Buffer vmbuffer);
extern void zheap_vm_lock(ZVmClear *vm);
extern void zheap_vm_clear(ZVmClear *vm);
extern void zheap_vm_register(ZVmClear *vm, uint8 first_block_id);
extern void zheap_vm_set_lsn(ZVmClear *vm, XLogRecPtr lsn);
extern void zheap_vm_release(ZVmClear *vm);

/* ----------------------------------------------------------------
 *	zheap_row.c, zheap_tuple_lock.c
 * ----------------------------------------------------------------
 */

/* what a DIRTY fetch found last (tag DIRTY), by relation and TID */
extern void zheap_dirty_memo_set(Oid relid, const ItemPointerData *tid,
								 Fxid writer, CommandId cid);
extern bool zheap_dirty_memo_get(Oid relid, const ItemPointerData *tid,
								 Fxid *writer, CommandId *cid);

/* EvalPlanQual is running: set by a traversed tuple_lock, see R1 */
extern bool zheap_epq_running;
extern void zheap_register_epq_hooks(void); /* zheap_epq.c */
extern void zheap_register_find_writer(void);
extern void zheap_register_guard(void); /* zheap_guard.c */

extern TM_Result zheap_tuple_lock(Relation rel, ItemPointer tid,
								  Snapshot snapshot, TupleTableSlot *slot,
								  CommandId cid, LockTupleMode mode,
								  LockWaitPolicy wait_policy, uint8 flags,
								  TM_FailureData *tmfd);

/* ----------------------------------------------------------------
 *	zheap_insert.c, zheap_delete.c, zheap_update.c
 * ----------------------------------------------------------------
 */
extern void zheap_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
						 int options, struct BulkInsertStateData *bistate);
extern void zheap_insert_speculative(Relation rel, TupleTableSlot *slot,
									 CommandId cid, int options,
									 struct BulkInsertStateData *bistate,
									 uint32 token);
extern void zheap_complete_speculative(Relation rel, TupleTableSlot *slot,
									   uint32 token, bool succeeded);
extern void zheap_multi_insert(Relation rel, TupleTableSlot **slots,
							   int nslots, CommandId cid, int options,
							   struct BulkInsertStateData *bistate);

/*
 * For zheap_rewrite.c, whose relation nobody else can see: rows that are
 * visible to all; or one whose history goes on in the file it comes from:
 * undo is a copy record (ZUndoIsCopy) without offset and tenure, ended the
 * row's ZH_END_MASK bits, *tid the new place.  tuples' headers are changed.
 */
extern void zheap_insert_settled(Relation rel, ZTuple **tuples, int ntuples,
								 int options,
								 struct BulkInsertStateData *bistate,
								 char *scratch);
extern void zheap_insert_copied(Relation rel, ZTuple *tuple,
								const ZUndo *undo, uint16 ended, int options,
								struct BulkInsertStateData *bistate,
								ItemPointer tid);
extern TM_Result zheap_delete(Relation rel, ItemPointer tid, CommandId cid,
							  Snapshot snapshot, Snapshot crosscheck, bool wait,
							  TM_FailureData *tmfd, bool changing_part);
extern TM_Result zheap_update(Relation rel, ItemPointer otid,
							  TupleTableSlot *slot, CommandId cid,
							  Snapshot snapshot, Snapshot crosscheck, bool wait,
							  TM_FailureData *tmfd, LockTupleMode *lockmode,
							  bool *update_indexes);

/* ----------------------------------------------------------------
 *	zheap_scan.c, zheap_index_fetch.c, zheap_vacuum.c: callbacks of the
 *	TableAmRoutine, in its order
 * ----------------------------------------------------------------
 */
extern const TupleTableSlotOps *zheap_slot_callbacks(Relation rel);
extern TableScanDesc zheap_scan_begin(Relation rel, Snapshot snapshot, int nkeys,
									  struct ScanKeyData *key,
									  ParallelTableScanDesc pscan, uint32 flags);
extern void zheap_scan_end(TableScanDesc scan);
extern void zheap_scan_rescan(TableScanDesc scan, struct ScanKeyData *key,
							  bool set_params, bool allow_strat,
							  bool allow_sync, bool allow_pagemode);
extern bool zheap_scan_getnextslot(TableScanDesc scan, ScanDirection direction,
								   TupleTableSlot *slot);
extern void zheap_scan_set_tidrange(TableScanDesc scan, ItemPointer mintid,
									ItemPointer maxtid);
extern bool zheap_scan_getnextslot_tidrange(TableScanDesc scan,
											ScanDirection direction,
											TupleTableSlot *slot);
extern bool zheap_scan_bitmap_next_block(TableScanDesc scan,
										 struct TBMIterateResult *tbmres);
extern bool zheap_scan_bitmap_next_tuple(TableScanDesc scan,
										 struct TBMIterateResult *tbmres,
										 TupleTableSlot *slot);
extern bool zheap_scan_sample_next_block(TableScanDesc scan,
										 struct SampleScanState *state);
extern bool zheap_scan_sample_next_tuple(TableScanDesc scan,
										 struct SampleScanState *state,
										 TupleTableSlot *slot);
extern bool zheap_scan_analyze_next_block(TableScanDesc scan,
										  BlockNumber block,
										  BufferAccessStrategy strategy);
extern bool zheap_scan_analyze_next_tuple(TableScanDesc scan, TransactionId oldest_xmin,
										  double *liverows, double *deadrows,
										  TupleTableSlot *slot);

extern struct IndexFetchTableData *zheap_index_fetch_begin(Relation rel);
extern void zheap_index_fetch_reset(struct IndexFetchTableData *data);
extern void zheap_index_fetch_end(struct IndexFetchTableData *data);
extern bool zheap_index_fetch_tuple(struct IndexFetchTableData *data,
									ItemPointer tid, Snapshot snapshot,
									TupleTableSlot *slot, bool *call_again,
									bool *all_dead);
extern bool zheap_fetch_row_version(Relation rel, ItemPointer tid,
									Snapshot snapshot, TupleTableSlot *slot);
extern bool zheap_tid_valid(TableScanDesc scan, ItemPointer tid);
extern void zheap_get_latest_tid(TableScanDesc scan, ItemPointer tid);
extern bool zheap_satisfies_snapshot(Relation rel, TupleTableSlot *slot,
									 Snapshot snapshot);
extern TransactionId zheap_index_delete_tuples(Relation rel,
											   TM_IndexDeleteOp *delstate);
extern double zheap_index_build_range_scan(Relation rel, Relation index,
										   struct IndexInfo *info,
										   bool allow_sync, bool anyvisible,
										   bool progress, BlockNumber start,
										   BlockNumber nblocks,
										   IndexBuildCallback callback,
										   void *callback_state,
										   TableScanDesc scan);
extern void zheap_index_validate_scan(Relation rel, Relation index,
									  struct IndexInfo *info, Snapshot snapshot,
									  struct ValidateIndexState *state);

extern void zheap_relation_vacuum(Relation rel, struct VacuumParams *params,
								  BufferAccessStrategy strategy);
extern void zheap_copy_for_cluster(Relation oldrel, Relation newrel,
								   Relation index, bool use_sort,
								   TransactionId oldest_xmin,
								   TransactionId *xid_cutoff,
								   MultiXactId *multi_cutoff,
								   double *num_tuples, double *tups_vacuumed,
								   double *tups_recently_dead);

/* ----------------------------------------------------------------
 *	zheap_xlog.c
 * ----------------------------------------------------------------
 */
#define XLOG_ZHEAP_INSERT		0x60
#define XLOG_ZHEAP_MULTI_INSERT	0x70
#define XLOG_ZHEAP_UPDATE		0x80	/* in place */
#define XLOG_ZHEAP_MOVE			0x90
#define XLOG_ZHEAP_DELETE		0xA0
#define XLOG_ZHEAP_LOCK			0xB0
#define XLOG_ZHEAP_DELTA		0xC0
#define XLOG_ZHEAP_CONFIRM		0xD0	/* speculative insertion confirmed */
#define XLOG_ZHEAP_GROW			0xE0	/* one xact slot more */

extern void zheap_redo(XLogReaderState *record);
extern void zheap_desc(StringInfo buf, XLogReaderState *record);
extern const char *zheap_identify(uint8 info);

#endif							/* ZHEAP_H */
