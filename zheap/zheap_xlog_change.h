/*-------------------------------------------------------------------------
 *
 * zheap_xlog_change.h
 *	  WAL records of changes to rows that exist: UPDATE in place, DELETE, LOCK
 *	  and MOVE; and the changes themselves as both the operation and its redo
 *	  apply them to a page.
 *
 *	UPDATE, DELETE, LOCK
 *				main data: xl_zheap_change; UPDATE: xl_zheap_middle
 *				block 0: table page; UPDATE: new middle bytes
 *				block 1: undo page (data: see undo_register())
 *				block 2: visibility map page, if CLEARED_VM
 *	MOVE		main data: xl_zheap_move
 *				block 0: page of the old version; SAME_PAGE: new tuple bytes
 *				block 1: page of the new version unless SAME_PAGE: new tuple
 *				block 2: undo page, two records: MOVE, INSERT_SET
 *				block 3, 4: visibility map pages, ascending
 *
 * The logged header is the row's final one, so redo decides nothing (rule
 * W5): the takeover pass over the page, then this header and body.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XLOG_CHANGE_H
#define ZHEAP_XLOG_CHANGE_H

#include "access/xlogreader.h"

#include "zheap/zheap.h"

#define ZCHANGE_CLEARED_VM		0x01
/* xl_zheap_move only */
#define ZMOVE_SAME_PAGE			0x02
#define ZMOVE_INIT_PAGE			0x04	/* block 1 is WILL_INIT (rule W9) */
#define ZMOVE_CLEARED_VM_OLD	0x08
#define ZMOVE_CLEARED_VM_NEW	0x10

typedef struct xl_zheap_change
{
	uint16		undo_offset;	/* byte offset of the record on the undo page */
	OffsetNumber offset;
	uint8		xact_slot;
	uint8		tenure;			/* ZTenure */
	uint8		flags;
	char		header[ZHEAP_HEADER_SIZE];	/* after the change */
} xl_zheap_change;

#define SizeOfZHeapChange \
	(offsetof(xl_zheap_change, header) + ZHEAP_HEADER_SIZE)

/* UPDATE: what replaces what, counted from behind the row's 5 byte header */
typedef struct xl_zheap_middle
{
	uint16		prefix;
	uint16		oldmid;
	uint16		newmid;
} xl_zheap_middle;

typedef struct xl_zheap_move
{
	uint16		undo_offset[2]; /* of the MOVE, of the INSERT_SET record */
	OffsetNumber offset[2];		/* old, new */
	uint8		xact_slot[2];
	uint8		tenure[2];		/* [1]: not used if SAME_PAGE */
	uint8		flags;
	char		header[ZHEAP_HEADER_SIZE];	/* of the old version, ended */
} xl_zheap_move;

#define SizeOfZHeapMove \
	(offsetof(xl_zheap_move, header) + ZHEAP_HEADER_SIZE)

/* the part of a change that takes the xact slot */
typedef struct ZOwnChange
{
	uint8		xact_slot;
	ZTenure		tenure;
	Fxid		fxid;
	UndoRecPtr	urp;
} ZOwnChange;

/* an existing row: new header and, if tuple isn't NULL, new body */
typedef struct ZRowChange
{
	OffsetNumber offset;
	ZTupleHeader header;
	const char *tuple;			/* header bytes are ignored; not into the page */
	uint16		len;			/* true length */
	TransactionId prune_xid;	/* writer, remembered if the row ends */
} ZRowChange;

/*
 * Exclusive lock held, in the critical section that logs it (or redo).  Room
 * was checked; false (page undefined) if it isn't there after all.
 */
extern void zheap_change_apply_own(Page page, const ZOwnChange *own);
extern bool zheap_change_apply_row(Page page, const ZRowChange *change);
/* new version of a moved row; tuple bytes hold the final header */
extern bool zheap_change_apply_arrival(Page page, OffsetNumber offset,
									   const char *tuple, uint16 len);

extern void zheap_change_redo(XLogReaderState *record);
extern void zheap_change_desc(StringInfo buf, XLogReaderState *record);

#endif							/* ZHEAP_XLOG_CHANGE_H */
