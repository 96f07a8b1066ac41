/*-------------------------------------------------------------------------
 *
 * zheap_xlog_change.h
 *	  WAL records of changes to rows that exist: UPDATE in place, DELETE, LOCK
 *	  and MOVE; and the changes themselves as both the operation and its redo
 *	  apply them to a page.  What follows the pictures in main data is the
 *	  logical part (zheap_xlog_logical.h); where there is one, an UPDATE's
 *	  row is logged whole, and a MOVE's row isn't coded.
 *
 *	UPDATE, DELETE, LOCK
 *				main data: flags u8, tenure in it; xact slot u8; offset, packed;
 *				byte offset of the record on the undo page u16, unless NO_UNDO;
 *				tenure FROZEN: zheap_conflict_pack(), packed; SHARED: the youngest
 *				transaction that the shared xact slot's chain names, difference
 *				from the writer * 2, + 1 if a row ended by it, packed;
 *				the row's header after the change: slot u8 if OTHER_SLOT,
 *				natts_flags1 u16 unless SAME_NATTS, flags2 packed, with
 *				FLAGS2_NEW_KEY if that applies;
 *				UPDATE: prefix, old and new length of the middle, packed, but
 *				not if WHOLE: block 0 has the new row's bytes behind the header
 *				DELETE, SEVERAL: number of further rows u8; of each: difference
 *				of its offset from the one before and flags2, packed; then,
 *				unless NO_UNDO, byte offset of the last undo record u16
 *				LOCK, CONFIRM, a speculative insertion is confirmed: only
 *				flags and offset, packed; a byte if decoding is to know
 *				LOCK, LIST: the chain's live locks and ends, of no row: flags,
 *				offset on the undo page and youngest transaction only
 *				block 0: table page; UPDATE: new middle bytes
 *				block 1: undo page, unless NO_UNDO (data: see undo_insert_register())
 *				next:	 visibility map page, if CLEARED_VM (DELETE, and
 *				UPDATE of a soft index's key)
 *	MOVE		main data: flags u8; tenures u8, the new one's in the upper
 *				half; both xact slots u8; both offsets, packed; byte offset of
 *				the first undo record u16, and of the second packed as
 *				difference; tenure FROZEN: zheap_conflict_pack(), packed; SHARED, of
 *				the old version: as above; flags2 of the old version, packed
 *				block 0: page of the old version; SAME_PAGE: new tuple bytes
 *				block 1: page of the new version unless SAME_PAGE: new tuple
 *				bytes; CODED: a coded row (zheap_xlog_insert.h), the row before is the
 *				old version if SAME_PAGE
 *				block 2: undo page, two records: MOVE, INSERT_SET
 *				block 3, 4: visibility map pages, ascending
 *
 * Tenure SHARED: the page's shared xact slot gets the record (Z56); a row that
 * ends so refers to it.  The old version of a MOVE isn't SAME_PAGE then.
 *
 * The logged header is the row's final one, so redo decides nothing (Z27): the
 * takeover or freezing pass over the page, then this header and body.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XLOG_CHANGE_H
#define ZHEAP_XLOG_CHANGE_H

#include "access/xlogreader.h"

#include "undo/undo_pack.h"
#include "zheap/space/zheap_space.h"

#define ZCHANGE_CLEARED_VM		0x01
#define ZCHANGE_SAME_NATTS		0x02	/* natts_flags1 is the present row's */
#define ZCHANGE_OTHER_SLOT		0x04	/* header's xact slot isn't the
										 * writer's */
#define ZCHANGE_NO_UNDO			0x08	/* an open record covers it */
#define ZCHANGE_SEVERAL			0x10	/* DELETE of several rows */
#define ZCHANGE_WHOLE			0x10	/* UPDATE: all of the new row */
#define ZCHANGE_CONFIRM			0x10	/* LOCK: the row isn't speculative
										 * any more */
#define ZCHANGE_LIST			0x01	/* LOCK: of no row */
#define ZCHANGE_TENURE_SHIFT	5	/* ZTenure in the bits from here on */

/*
 * In the flags2 that an UPDATE logs: the key of a soft index changes (Z45).  The
 * row is STALE then, so that this bit takes no byte.
 */
#define ZCHANGE_FLAGS2_NEW_KEY	0x1000

/* rows of a DELETE besides the first */
#define ZCHANGE_MAX_MORE		7

/* main data of UPDATE, DELETE and LOCK, unpacked */
typedef struct ZChangeHead
{
	uint8		flags;
	ZTenure		tenure;
	uint8		xact_slot;
	OffsetNumber offset;
	uint16		undo_offset;	/* byte offset of the record on the undo page */
	uint64		conflict;		/* packed form */
	uint64		youngest;		/* SHARED: packed form, zheap_shared_pack() */
	ZTupleHeader header;		/* after the change */
	bool		new_key;		/* UPDATE: of a soft index */
	/* UPDATE, not WHOLE: what replaces what, from behind the row's header on */
	uint16		prefix;
	uint16		oldmid;
	uint16		newmid;
	/* SEVERAL: rows that end along with the first, by the same xact slot */
	uint8		nmore;
	OffsetNumber more[ZCHANGE_MAX_MORE];
	uint16		more_flags2[ZCHANGE_MAX_MORE];
	uint16		last_offset;	/* as undo_offset, of the last record */
	/* unpacked: the logical part */
	const char *logical;
	Size		logical_len;	/* 0: none */
} ZChangeHead;

#define ZCHANGE_MAX_HEAD \
	(10 + (7 + 2 * ZCHANGE_MAX_MORE) * UNDO_MAX_PACKED)

#define ZMOVE_CODED				0x01
#define ZMOVE_SAME_PAGE			0x02
#define ZMOVE_INIT_PAGE			0x04	/* block 1 is WILL_INIT (Z29) */
#define ZMOVE_CLEARED_VM_OLD	0x08
#define ZMOVE_CLEARED_VM_NEW	0x10

/* main data of MOVE, unpacked; [0] old, [1] new */
typedef struct ZMoveHead
{
	uint8		flags;
	ZTenure		tenure[2];		/* [1]: not used if SAME_PAGE */
	uint8		xact_slot[2];
	OffsetNumber offset[2];
	uint16		undo_offset[2]; /* of the MOVE, of the INSERT_SET record */
	uint64		conflict;		/* packed form */
	uint64		youngest;		/* likewise */
	uint16		flags2;			/* of the old version's header, ended */
	/* unpacked: the logical part */
	const char *logical;
	Size		logical_len;	/* 0: none */
} ZMoveHead;

#define ZMOVE_MAX_HEAD			(6 + 6 * UNDO_MAX_PACKED)

/*
 * info: XLOG_ZHEAP_*; unpack: ERROR if the record is malformed.  CONFIRM: head
 * has flags, offset and logical part only; LIST: flags, tenure, undo_offset and
 * youngest.
 */
extern uint16 zheap_xlog_change_pack(char *buf, uint8 info,
									 const ZChangeHead *head);
extern void zheap_xlog_change_unpack(XLogReaderState *record,
									 ZChangeHead *head);
extern uint16 zheap_xlog_change_pack_move(char *buf, const ZMoveHead *head);
extern void zheap_xlog_change_unpack_move(XLogReaderState *record,
										  ZMoveHead *head);

/* the part of a change that takes the xact slot */
typedef struct ZOwnChange
{
	uint8		xact_slot;
	ZTenure		tenure;
	Fxid		fxid;
	UndoRecPtr	urp;
	Fxid		youngest;		/* SHARED: what the shared xact slot gets */
	bool		ends;
} ZOwnChange;

static inline uint64
zheap_shared_pack(const ZOwnChange *own)
{
	Assert(own->youngest >= own->fxid);
	return undo_zigzag(own->fxid, own->youngest) << 1 | own->ends;
}

static inline void
zheap_shared_unpack(ZOwnChange *own, uint64 packed)
{
	own->youngest = undo_unzigzag(own->fxid, packed >> 1);
	own->ends = (packed & 1) != 0;
}

/* an existing row: new header and, if tuple isn't NULL, new body */
typedef struct ZRowChange
{
	OffsetNumber offset;
	ZTupleHeader header;
	const char *tuple;			/* header bytes are ignored; not into the page */
	uint16		len;			/* true length */
	bool		new_key;		/* of a soft index (Z45) */
} ZRowChange;

/*
 * Exclusive lock held, in the critical section that logs it (or redo).  Room
 * was checked; false (page undefined) if it isn't there after all.
 */
extern void zheap_xlog_change_apply_own(Page page, const ZOwnChange *own);
extern bool zheap_xlog_change_apply_row(Page page, const ZRowChange *change);

/* new version of a moved row; tuple bytes hold the final header */
extern bool zheap_xlog_change_apply_arrival(Page page, OffsetNumber offset,
											const char *tuple, uint16 len);

/* a row ends along with the first one of a DELETE, by the same xact slot */
extern void zheap_xlog_change_apply_more(Page page, OffsetNumber offset,
										 uint8 xact_slot, uint16 flags2);

/* a speculative row becomes an ordinary one */
extern void zheap_xlog_change_apply_confirm(Page page, OffsetNumber offset);

extern void zheap_xlog_change_redo(XLogReaderState *record);
extern void zheap_xlog_change_desc(StringInfo buf, XLogReaderState *record);

/*
 * The end of each change's log sequence, in its critical section: the undo page, if
 * ins isn't NULL, and those of vm, if there is one, are registered as blocks from
 * block_id on, the record is inserted, and page and these pages get its LSN, which
 * is returned.  off: see undo_insert_register().
 */
extern XLogRecPtr zheap_xlog_finish(uint8 info, Page page, uint8 block_id,
									UndoInsertion *ins, OffsetNumber off,
									ZVmClear *vm);

#endif							/* ZHEAP_XLOG_CHANGE_H */
