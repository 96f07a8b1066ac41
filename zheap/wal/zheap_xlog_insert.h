/*-------------------------------------------------------------------------
 *
 * zheap_xlog_insert.h
 *	  WAL records of inserts.  (Records of delete, update, move and lock:
 *	  zheap_xlog_change.h; page deltas: zheap_format.h.)
 *
 * Main data comes first in each picture; "packed" numbers are undo_pack.h's.
 * What follows it in main data is the logical part (zheap_xlog_logical.h).
 *
 *	INSERT		flags u8, tenure in it; xact slot u8; first, packed;
 *				HAS_UNDO: byte offset of the record on the undo page u16;
 *				MORE: number of rows, and the second flags of their headers,
 *				both packed; else it is one row, and they are 0;
 *				tenure FROZEN: zheap_conflict_pack(), packed
 *				or, of one row, BRIEF: flags u8; tenure u3, xact slot u5; lower
 *				eight bits of first u8; highest bit of first u1, byte offset
 *				of the record on the undo page u15; the last two as above.  The
 *				logical part is ZINSERT_BRIEF_LOGICAL
 *				block 0: table page, WILL_INIT if the rows are its first:
 *				natts_flags1 u16 and the bytes behind the row's header;
 *				CODED, as several rows always are: coded rows
 *				block 1: undo page, if HAS_UNDO (data: see undo_insert_register())
 *				next:	 visibility map page, if CLEARED_VM
 *				block 4 and further: pages that lend bytes (zheap_lend.h)
 *
 * A coded row is one of
 *	plain		bytes behind the header << 1, packed; natts_flags1 u16; bytes
 *	difference	1 + (zigzag difference of that number from the row before << 1),
 *				packed; bytes at the end that are alike, packed; for what is
 *				before them: {token u8, numbers, bytes}: as many bytes as the
 *				upper half of the token says are alike, as many as the lower
 *				half says follow; 15 there: the number, less 15, follows,
 *				packed.  natts_flags1 is that of the row before
 * The row before is the one before in the record, or at the offset before: not
 * the latter if there is a logical part.
 *
 * Order in redo (Z28): undo page, table page, visibility map; each is
 * released before the next is locked.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XLOG_INSERT_H
#define ZHEAP_XLOG_INSERT_H

#include "access/xlogreader.h"

#include "undo/undo_pack.h"
#include "zheap/space/zheap_space.h"

/* flags of inserts */
#define ZINSERT_HAS_UNDO		0x01	/* else it extends an open range */
#define ZINSERT_CODED			0x02	/* the rows are coded ones */
#define ZINSERT_CLEARED_VM		0x04	/* page flag and map bits cleared */
#define ZINSERT_REUSED_POINTER	0x08	/* free line pointers are used */
#define ZINSERT_MORE			0x10	/* than one row, or second flags:
										 * speculative, copied */
#define ZINSERT_TENURE_SHIFT	5	/* ZTenure in the bits from here on, */
#define ZINSERT_BRIEF			(7 << ZINSERT_TENURE_SHIFT) /* or that */

/* main data of an insert, unpacked */
typedef struct ZInsertHead
{
	uint8		flags;
	ZTenure		tenure;
	uint8		xact_slot;		/* 0 = frozen */
	OffsetNumber first;			/* rows get first, first + 1, ... */
	uint16		ntuples;
	uint16		undo_offset;	/* byte offset of the record on the undo page */
	uint16		flags2;			/* of the rows' headers */
	uint64		conflict;		/* packed form */
	/* the logical part; packed here only if the record is brief */
	const char *logical;
	Size		logical_len;	/* 0: none */
} ZInsertHead;

/* what most single rows say to decoding: ZLOGICAL_LAST, no gaps */
#define ZINSERT_BRIEF_LOGICAL	"\002"

#define ZINSERT_MAX_HEAD		(4 + 4 * UNDO_MAX_PACKED)

/*
 * Main data of an insert record, without the logical part unless that goes
 * without saying: then *brief.  unpack: ERROR if it is malformed.
 */
extern uint16 zheap_xlog_insert_pack(char *buf, const ZInsertHead *head,
									 bool *brief);
extern void zheap_xlog_insert_unpack(XLogReaderState *record,
									 ZInsertHead *head);

/*
 * An insert as both the operation and its redo apply it to the page
 * (zheap_xlog_insert.c).  Tuple bytes hold the final header.
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
extern bool zheap_xlog_insert_apply(Page page, const ZInsertChange *change);

/*
 * Coding of rows (see above).  page is locked and as it is before the change
 * that is logged; or new.
 *
 * One row as its difference from the one at offset "before", if there is one
 * and that saves bytes; else 0.  buf has ZCODED_ROW_SIZE bytes.
 */
#define ZCODED_ROW_SIZE		256

extern uint16 zheap_xlog_insert_code_row(Page page, OffsetNumber before,
										 const char *tuple, uint16 len,
										 char *buf);

/* back, its second flags 0; to has BLCKSZ bytes; false if malformed */
extern bool zheap_xlog_insert_decode_row(Page page, OffsetNumber before,
										 const char *coded,
										 Size size, uint8 xact_slot, char *to,
										 uint16 *len);

/* the change's rows; buf has BLCKSZ bytes; page may be NULL, as for redo */
extern uint16 zheap_xlog_insert_code_rows(Page page,
										  const ZInsertChange *change,
										  char *buf);

/*
 * One coded row after prev, which may be NULL; returns the byte behind it.  get:
 * false if malformed, else *p goes behind it; tuple has BLCKSZ bytes.
 */
#define ZCODED_ROW_MAX_HEAD		16

extern char *zheap_xlog_insert_put_row(char *to, const char *prev,
									   uint16 prevlen, const char *tuple,
									   uint16 len);
extern bool zheap_xlog_insert_get_row(const char **p, const char *end,
									  const char *prev, uint16 prevlen,
									  char *tuple, uint16 *len);

/*
 * The rows of an insert record, into rows (BLCKSZ bytes) and change, whose
 * first and ntuples are set.  page is as it was before them, NULL if the record
 * initialises it or has a logical part.  elevel if they are malformed.
 */
struct ZLenders;				/* zheap_lend.h; NULL: no page lends */
extern void zheap_xlog_insert_rows(XLogReaderState *record,
								   const ZInsertHead *head, Page page,
								   const struct ZLenders *lenders,
								   ZInsertChange *change, char *rows,
								   int elevel);

extern void zheap_xlog_insert_redo(XLogReaderState *record);
extern void zheap_xlog_insert_desc(StringInfo buf, XLogReaderState *record);

#endif							/* ZHEAP_XLOG_INSERT_H */
