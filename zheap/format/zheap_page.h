/*-------------------------------------------------------------------------
 *
 * zheap_page.h
 *	  Pages of a zheap table, pictured; functions on one page.
 *
 *	 0        24            pd_lower     pd_upper    pd_special          8192
 *	+--------+-------------+------------+-----------+-------------------+
 *	| header | line ptrs   | hole       | tuples    | special space     |
 *	+--------+-------------+------------+-----------+-------------------+
 *
 *	special space:	xact slots 1..n, 16 bytes each | [shared, 16 bytes] |
 *					[spill, 16 bytes] | opaque, 8 bytes (always the last 8 of
 *					the page)
 *
 * Tuples are packed without alignment.  Nobody keeps a pointer into a page
 * after its content lock is given up, so bytes may move under the exclusive
 * lock alone (Z9); no cleanup lock is ever needed.  The hole is kept zeroed.
 *
 * Line pointers: LP_UNUSED; LP_NORMAL (lp_len = allocated bytes); LP_DEAD (no
 * body, the TID is still in indexes); SPILLED = LP_REDIRECT with lp_off 1 and
 * lp_len 0 (body in the page's spill chain).  Never more than
 * MaxHeapTuplesPerPage.
 *
 * Z3, Z12, Z13 and Z14 of zheap/README are checked by zheap_page_problem() and
 * zheap_check().
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_PAGE_H
#define ZHEAP_PAGE_H

#include "postgres.h"

#include "access/htup_details.h"
#include "storage/bufpage.h"
#include "storage/itemid.h"

#include "undo/undo_debug.h"
#include "undo/undo_defs.h"

#define ZHEAP_PAGE_MAGIC		0x5A48
#define ZHEAP_PAGE_VERSION		1

typedef struct ZPageOpaqueData
{
	uint16		magic;
	uint8		version;
	uint8		nslots;
	uint16		flags;
	uint16		unused;
} ZPageOpaqueData;

typedef ZPageOpaqueData *ZPageOpaque;

StaticAssertDecl(sizeof(ZPageOpaqueData) == 8, "zheap page opaque is 8 bytes");

#define ZPAGE_HAS_SPILL			0x0001
#define ZPAGE_ALL_RESOLVED		0x0002	/* hint: every xact slot is FREE */
/* of a table's first page (Z55) */
#define ZPAGE_ANNOUNCED			0x0004	/* index scans expect STALE rows */
#define ZPAGE_KEYS_ALLOWED		0x0008	/* all of them: keys may change in
										 * place */
#define ZPAGE_HAS_SHARED		0x0010	/* has a shared xact slot; see below */
#define ZPAGE_HAS_STALE			0x0020	/* there may be rows marked STALE, or
										 * line pointers without a body that
										 * were (Z45) */

/*
 * Xact slot.  FREE is {0, 0}.  OWNED: whether the owner runs, committed or
 * aborted is decided by each reader, never stored, but for the COMMITTED
 * hint, which only replaces a look into the commit log.  AMBIGUOUS: a rollback
 * returned the xact slot to a foreign owner (Z21).
 */
typedef struct ZXactSlotData
{
	uint64		fxid_bits;
	UndoRecPtr	urp;
} ZXactSlotData;

typedef ZXactSlotData *ZXactSlot;

#define ZXACT_AMBIGUOUS			(UINT64CONST(1) << 62)
#define ZXACT_HINT_COMMITTED	(UINT64CONST(1) << 63)
#define ZXACT_FXID_MASK			(ZXACT_AMBIGUOUS - 1)

#define ZXactSlotFxid(s)		((Fxid) ((s)->fxid_bits & ZXACT_FXID_MASK))
#define ZXactSlotIsFree(s)		((s)->fxid_bits == 0)
#define ZXactSlotIsAmbiguous(s) (((s)->fxid_bits & ZXACT_AMBIGUOUS) != 0)

/*
 * Shared xact slot (Z56): the head of a chain of undo records by any number of
 * transactions, {the youngest of all that the chain names, newest record}; no
 * record: {0, 0}.  Where it took the place of the page's only xact slot, that
 * one's owner and its newest record, with BASE, until there is a record.  Rows
 * that ended by it, and those of that owner, have ZXACT_SHARED for xact slot id.
 */
#define ZXACT_SHARED			255 /* no id of the page's xact slots */
#define ZSHARED_ENDS			(UINT64CONST(1) << 61)	/* rows ended by it */
#define ZSHARED_BASE			(UINT64CONST(1) << 60)
#define ZSHARED_FXID_MASK		(ZSHARED_BASE - 1)
#define ZSharedYoungest(s)		((Fxid) ((s)->fxid_bits & ZSHARED_FXID_MASK))

#define ZHEAP_MAX_XACT_SLOTS	254
#define ZHEAP_INITIAL_XACT_SLOTS 2
#define ZHEAP_XACT_SLOTS_ROOM	6	/* a new page has room to grow to this */

/* inserts leave room to grow to this */
#define ZHEAP_XACT_SLOT_RESERVE \
	UNDO_KNOB("xact-slots-kept", ZHEAP_XACT_SLOTS_ROOM, 2, ZHEAP_XACT_SLOTS_ROOM)

/*
 * ... but no further than is of use on a page with so many rows: one for each.
 * With the room of a shared one, which also does for what is spilled, a page takes
 * four chunks of large values.
 */
static inline int
zheap_page_slots_kept(int nrows)
{
	Assert(nrows >= 0);
	return Min(nrows, ZHEAP_XACT_SLOT_RESERVE);
}

/*
 * On such a page pd_prune_xid, which zheap has no other use for, tells how far
 * VACUUM is with clearing the marks of rows that are SWEPT (Z52).
 */
#define ZPAGE_STAMP_NONE		InvalidTransactionId
#define ZPAGE_STAMP_LOOKING		BootstrapTransactionId
#define ZPageStamp(page)		(((PageHeader) (page))->pd_prune_xid)

#define ZPageGetOpaque(page) \
	((ZPageOpaque) ((char *) (page) + BLCKSZ - sizeof(ZPageOpaqueData)))
#define ZPageGetXactSlots(page) \
	((ZXactSlot) PageGetSpecialPointer(page))
#define ZPageGetXactSlot(page, id) \
	(AssertMacro((id) >= 1 && (id) <= ZPageGetOpaque(page)->nslots), \
	 &ZPageGetXactSlots(page)[(id) - 1])
#define ZPageHasShared(page) \
	((ZPageGetOpaque(page)->flags & ZPAGE_HAS_SHARED) != 0)
#define ZPageGetShared(page) \
	(AssertMacro(ZPageHasShared(page)), \
	 &ZPageGetXactSlots(page)[ZPageGetOpaque(page)->nslots])
#define ZPageGetSpill(page) \
	(AssertMacro(ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL), \
	 (ZXactSlot) ((char *) ZPageGetOpaque(page) - sizeof(ZXactSlotData)))

/* may a row of the page have entries of other keys than its newest in indexes */
#define ZPageMayHoldStale(page) \
	((ZPageGetOpaque(page)->flags & ZPAGE_HAS_STALE) != 0)

#define ZItemIdIsSpilled(lp) \
	(ItemIdIsRedirected(lp) && (lp)->lp_off == 1 && (lp)->lp_len == 0)

/*
 * Tuple: 5 bytes of header, null bitmap if any ((natts + 7) / 8 bytes), then
 * the values without padding; with SLACK unused bytes up to lp_len, the last of which
 * holds their number, or 255 with the number as u16 in the two bytes before it.
 *
 *	byte 0		xact slot id (0 = visible to all)
 *	bytes 1-2	natts (11 bits) | flags1
 *	bytes 3-4	flags2
 *
 * In memory the header is a ZTupleHeader; on the page it is unaligned, so it
 * is always copied by zheap_header_get/put.
 */
typedef struct ZTupleHeader
{
	uint8		slot;			/* xact slot id */
	uint16		natts_flags1;
	uint16		flags2;
} ZTupleHeader;

#define ZHEAP_HEADER_SIZE		5

#define ZH_NATTS_MASK			0x07FF
#define ZH_HASNULL				0x0800
#define ZH_HASEXTERNAL			0x1000	/* some value is toasted out of line */
#define ZH_HASVARWIDTH			0x2000
#define ZH_SLACK				0x8000	/* of the allocation, not of the body */

/* flags2 */
#define ZH_INPLACE				0x0001	/* image was changed after insertion */
#define ZH_END_MASK				0x0006	/* row ended by the owner: */
#define ZH_DELETED				0x0002
#define ZH_MOVED				0x0004	/* updated to another TID */
#define ZH_MOVED_PARTITION		0x0006
#define ZH_REUSED_MASK			0x0018	/* last changed by the xact slot's ... */
#define ZH_REUSED_NONE			0x0000	/* ... present tenure */
#define ZH_REUSED_FAMILY		0x0008	/* ... earlier one of the same top
										 * xact */
#define ZH_REUSED_FOREIGN		0x0010	/* ... older foreign one */
#define ZH_LOCK_ONLY			0x0020	/* the xact slot is a locker's */
#define ZH_MULTI_LOCKED			0x0040
#define ZH_MANY					0x0080	/* maybe more lockers than one (Z23) */
#define ZH_MODE_MASK			0x0300	/* at least the strongest lock mode */
#define ZH_MODE_SHIFT			8	/* LockTupleMode, 0..3 */
#define ZH_SPECULATIVE			0x0400
#define ZH_STALE				0x0800	/* indexes may have entries of older
										 * keys of the row (Z45) */
#define ZH_SWEPT				0x2000	/* a STALE row whose key hasn't changed
										 * since VACUUM chose it (Z52) */

#define ZH_LOCK_BITS \
	(ZH_LOCK_ONLY | ZH_MULTI_LOCKED | ZH_MANY | ZH_MODE_MASK)

#define ZHeaderNatts(h)			((h)->natts_flags1 & ZH_NATTS_MASK)
#define ZHeaderIsEnded(h)		(((h)->flags2 & ZH_END_MASK) != 0)
#define ZHeaderReused(h)		((h)->flags2 & ZH_REUSED_MASK)
#define ZHeaderSetReused(h, r) \
	((h)->flags2 = ((h)->flags2 & ~ZH_REUSED_MASK) | (r))

/* does a NORMAL line pointer name a place in the page's tuple area */
static inline bool
zheap_item_is_in_page(Page page, ItemId lp)
{
	PageHeader	header = (PageHeader) page;

	return lp->lp_len >= ZHEAP_HEADER_SIZE && lp->lp_off >= header->pd_upper &&
		lp->lp_off + lp->lp_len <= header->pd_special;
}

static inline void
zheap_header_get(const char *tuple, ZTupleHeader *header)
{
	header->slot = (uint8) tuple[0];
	memcpy(&header->natts_flags1, tuple + 1, sizeof(uint16));
	memcpy(&header->flags2, tuple + 3, sizeof(uint16));
}

static inline void
zheap_header_put(char *tuple, const ZTupleHeader *header)
{
	tuple[0] = (char) header->slot;
	memcpy(tuple + 1, &header->natts_flags1, sizeof(uint16));
	memcpy(tuple + 3, &header->flags2, sizeof(uint16));
}

/*
 * The xact slot that a row's header names; NULL if it names none, or if the page
 * is damaged and there is no such xact slot or nobody owns it (Z3).
 */
static inline ZXactSlot
zheap_page_row_slot(Page page, const ZTupleHeader *header)
{
	ZXactSlot	slot;

	if (header->slot == 0 || header->slot > ZPageGetOpaque(page)->nslots)
		return NULL;
	slot = ZPageGetXactSlot(page, header->slot);
	return ZXactSlotIsFree(slot) ? NULL : slot;
}

/* true length (header + bitmap + data) of an allocation */
extern uint16 zheap_page_tuple_len(const char *tuple, uint16 lp_len);

/*
 * The row at an offset, which may be any, with its true length; NULL if none is
 * there.
 */
static inline char *
zheap_page_row(Page page, OffsetNumber off, uint16 *len)
{
	ItemId		lp;
	char	   *tuple;

	if (off < FirstOffsetNumber || off > PageGetMaxOffsetNumber(page))
		return NULL;
	lp = PageGetItemId(page, off);
	if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(page, lp))
		return NULL;
	tuple = (char *) PageGetItem(page, lp);
	*len = zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
	return tuple;
}

/* ---- pages: pure functions, exclusive lock on the buffer or private copy */

extern void zheap_page_init(Page page, int nslots);

/* bytes of the special space that the opaque calls for */
static inline Size
zheap_page_special_size(Page page)
{
	ZPageOpaque opaque = ZPageGetOpaque(page);

	return sizeof(ZPageOpaqueData) + sizeof(ZXactSlotData) *
		(opaque->nslots + ((opaque->flags & ZPAGE_HAS_SHARED) != 0) +
		 ((opaque->flags & ZPAGE_HAS_SPILL) != 0));
}

/* magic and version, which begin the opaque, in one comparison */
static inline bool
zheap_page_is_of_known_kind(ZPageOpaque opaque)
{
	return opaque->magic == ZHEAP_PAGE_MAGIC &&
		opaque->version == ZHEAP_PAGE_VERSION;
}

/* cheap test before anything is believed; false for new and foreign pages */
static inline bool
zheap_page_is_valid(Page page)
{
	PageHeader	ph = (PageHeader) page;
	ZPageOpaque opaque = ZPageGetOpaque(page);

	return !PageIsNew(page) &&
		zheap_page_is_of_known_kind(opaque) &&
		opaque->nslots <= ZHEAP_MAX_XACT_SLOTS &&
		(opaque->nslots >= 1 || (opaque->flags & ZPAGE_HAS_SHARED) != 0) &&
		ph->pd_special == BLCKSZ - zheap_page_special_size(page) &&
		ph->pd_lower >= SizeOfPageHeaderData &&
		ph->pd_lower <= ph->pd_upper &&
		ph->pd_upper <= ph->pd_special &&
		PageGetMaxOffsetNumber(page) <= MaxHeapTuplesPerPage;
}

/* what line pointers claim */
typedef struct ZPageUse
{
	int			nrows;			/* NORMAL ones */
	int			free;			/* as zheap_page_total_free() */
} ZPageUse;

/* of a page whose line pointers were checked */
extern ZPageUse zheap_page_use(Page page);

/*
 * The same of any page: ERROR if line pointers lead to where no tuples can be.
 * Before tuples are moved, and where a page turns out to be other than its
 * header says.
 */
extern ZPageUse zheap_page_check_bodies(Relation rel, BlockNumber block,
										Page page);

/* is there a tuple at off, where tuples may be */
extern bool zheap_page_has_tuple(Page page, OffsetNumber off);

/* bytes of the hole + bytes between tuples that belong to none */
extern Size zheap_page_total_free(Page page);

/*
 * Room for one more tuple with a new line pointer, after compaction, leaving
 * what inserts must leave for xact slots to grow to the reserve.  On a page
 * without any line pointer nothing is left out, for one big row.
 */
extern Size zheap_page_insert_room(Page page);

/* as much of it as is there without compaction; without looking at the rows */
extern Size zheap_page_hole_room(Page page);

/* a free line pointer (UNUSED), or next new one; Invalid if at the limit */
extern OffsetNumber zheap_page_free_offset(Page page, bool *append);

/*
 * Deterministic, so used by do and redo alike: make the hole hold "need"
 * bytes (line pointer included), compacting if it doesn't; false if it can't.
 */
extern bool zheap_page_make_room(Page page, Size need);
extern void zheap_page_compact(Page page);

/* Put a tuple at an unused or new offset.  Room must exist (PANICs not: Assert + false). */
extern bool zheap_page_add(Page page, OffsetNumber off, const char *tuple,
						   uint16 len);

/*
 * Replace the body of a NORMAL pointer.  The allocation never shrinks (Z7):
 * a shorter body gets SLACK.  A longer one moves within the page.  len is the
 * true length.  False if there is no room.
 */
extern bool zheap_page_replace(Page page, OffsetNumber off, const char *tuple,
							   uint16 len);

/* extra bytes that replacing off by a body of len would need (0: fits) */
extern Size zheap_page_replace_need(Page page, OffsetNumber off, uint16 len);

/* shrink allocations to true length where the tuple's change is settled */
extern void zheap_page_drop_slack(Page page, OffsetNumber off);

/* A row of the page is STALE: what goes with that. */
extern void zheap_page_note_stale(Page page);

/*
 * May the row at off have entries of older keys?  So may one whose header is
 * gone (Z46).
 */
extern bool zheap_page_row_is_stale(Page page, OffsetNumber off);

/* has VACUUM chosen the row, to free it of that (Z52) */
extern bool zheap_page_row_is_swept(Page page, OffsetNumber off);

extern void zheap_page_set_dead(Page page, OffsetNumber off);

/* NORMAL -> SPILLED; its bytes are free.  Goes with zheap_page_put_spill(). */
extern void zheap_page_set_spilled(Page page, OffsetNumber off);
extern void zheap_page_set_unused(Page page, OffsetNumber off);

/* cut off trailing UNUSED line pointers */
extern void zheap_page_truncate_line_pointers(Page page);

/* one xact slot more (16 bytes from the hole; compacts); false if no room */
extern bool zheap_page_grow_xact_slots(Page page);

/*
 * Does the page lack the 16 bytes that a shared xact slot takes, so that what
 * needs room has to leave them (Z57)?  The number of bytes.
 */
static inline Size
zheap_page_shared_room(Page page)
{
	return ZPageHasShared(page) ? 0 : sizeof(ZXactSlotData);
}

/*
 * The page gets a shared xact slot: 16 bytes more, or in the place of its last
 * xact slot if that is FREE or the only one, whose owner has committed or is the
 * caller; that one's rows are FOREIGN then.  False: none of this can be.
 */
extern bool zheap_page_make_shared(Page page);

/*
 * Give trailing FREE xact slots back, and a shared one without records, down to
 * ZHEAP_INITIAL_XACT_SLOTS, or to one on a page without any line pointer (a big
 * row may come).
 */
extern void zheap_page_trim_xact_slots(Page page);

/*
 * The spill field takes the place of the last xact slot, which must be FREE
 * and not the only one, and gives it back: no other byte of the page moves, but
 * the shared xact slot.
 * can_begin: is there such an xact slot (or a spill field already)?
 */
extern bool zheap_page_can_begin_spill(Page page);
extern void zheap_page_put_spill(Page page, Fxid fxid, UndoRecPtr urp);
extern void zheap_page_end_spill(Page page);

/* forget which owners are known to have committed; the page is valid */
extern void zheap_page_clear_hints(Page page);

/* mask for wal_consistency_checking (LSN, checksum, hints, hole) */
extern void zheap_page_mask(char *page, BlockNumber blkno);

#endif							/* ZHEAP_PAGE_H */
