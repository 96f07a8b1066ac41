/*-------------------------------------------------------------------------
 *
 * zheap_xlog.h
 *	  WAL records of inserts, page deltas and confirmations, and the parts of
 *	  redo that several records share.  (Records of delete, update, move and
 *	  lock: zheap_xlog_change.h.)
 *
 * Main data comes first in each picture; structs are written without their
 * tail padding and read by memcpy.
 *
 *	INSERT		xl_zheap_insert
 *				block 0: table page: tuple bytes
 *				block 1: undo page, if HAS_UNDO (data: see undo_register())
 *				next:	 visibility map page, if CLEARED_VM
 *	MULTI_INSERT	the same; block 0: per tuple {length u16, bytes}
 *	CONFIRM		xl_zheap_confirm
 *				block 0: table page: no data
 *	DELTA		xl_zheap_delta
 *				block 0: table page: {offset u16, length u16, bytes}, or a
 *				full image
 *
 * Order in redo (rule W4): undo page, table page, visibility map; each is
 * released before the next is locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XLOG_H
#define ZHEAP_XLOG_H

#include "access/xlogreader.h"

#include "zheap/zheap.h"

/* xl_zheap_insert flags */
#define ZINSERT_HAS_UNDO		0x01	/* else it extends an open range */
#define ZINSERT_INIT_PAGE		0x02	/* block 0 is WILL_INIT (rule W9) */
#define ZINSERT_CLEARED_VM		0x04	/* page flag and map bits cleared */
#define ZINSERT_REUSED_POINTER	0x08	/* free line pointers are used */

typedef struct xl_zheap_insert
{
	uint16		undo_offset;	/* byte offset of the record on the undo page */
	OffsetNumber first;			/* rows get first, first + 1, ... */
	uint16		ntuples;
	uint8		xact_slot;		/* 0 = frozen */
	uint8		tenure;			/* ZTenure */
	uint8		flags;
} xl_zheap_insert;

#define SizeOfZHeapInsert		(offsetof(xl_zheap_insert, flags) + sizeof(uint8))

typedef struct xl_zheap_confirm
{
	OffsetNumber offset;
} xl_zheap_confirm;

#define SizeOfZHeapConfirm		sizeof(xl_zheap_confirm)

typedef struct xl_zheap_delta
{
	Fxid		conflict;		/* horizon for standby snapshots, or 0 */
} xl_zheap_delta;

#define SizeOfZHeapDelta		sizeof(xl_zheap_delta)

/*
 * An insert as both the operation and its redo apply it to the page
 * (zheap_insert.c).  Tuple bytes hold the final header.
 */
typedef struct ZInsertChange
{
	OffsetNumber first;
	bool		reused;			/* free line pointers are used, all of them */
	uint8		xact_slot;
	ZTenure		tenure;
	Fxid		fxid;			/* with urp: new content of the xact slot */
	UndoRecPtr	urp;			/* Invalid: the xact slot stays as it is */
	int			ntuples;
	const char *tuple[MaxHeapTuplesPerPage];
	uint16		len[MaxHeapTuplesPerPage];
} ZInsertChange;

/* on an initialised page with room; false (page undefined) if it has none */
extern bool zheap_insert_apply(Page page, const ZInsertChange *change);

/*
 * Redo of a VM page registered by zheap_vm_register(): clears the bits of
 * those of the n table blocks that it maps.  Takes and releases its lock.
 */
extern void zheap_vm_redo(XLogReaderState *record, uint8 block_id,
						  const BlockNumber *heap_blocks, int n);

/*
 * Tell the free space map of a page changed by redo, if it has become rather
 * full.  Called without its lock, with the room found under it.
 */
extern void zheap_fsm_redo(XLogReaderState *record, uint8 block_id, Size room);

#endif							/* ZHEAP_XLOG_H */
