/*-------------------------------------------------------------------------
 *
 * zheap_lend.h
 *	  Rows logged without bytes that another page has (U24): chunks of a value
 *	  of which most stand in the chunks of the value it replaces.
 *
 * The pages that lend are further blocks of the insert's WAL record, from id
 * ZLEND_BLOCK on, without data.  If there is one, the data of the record's
 * table block begins with the ranges:
 *
 *	number of ranges, packed; each: row, counted from the record's first one,
 *	less that of the range before, packed; page that lends, packed; bytes of the
 *	row between the range before, or its beginning, and this one, packed;
 *	offset on the page u16; length, packed
 *
 * and the coded rows that follow don't have those bytes.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_LEND_H
#define ZHEAP_LEND_H

#include "access/xlogreader.h"

#include "zheap/wal/zheap_xlog_insert.h"

/* pages that one record may name, and the block id of the first one */
#define ZLEND_MAX_PAGES		4
#define ZLEND_BLOCK			4

/* ranges of one record */
#define ZLEND_MAX_RANGES	32

/* a shorter range isn't worth it */
#define ZLEND_MIN_BYTES		64

/*
 * Rows that are being inserted, and bytes that they may do without: those of
 * the pieces, which are sorted by row and place.  Pages are pinned from begin
 * to end.
 */
typedef struct ZLend
{
	Relation	rel;
	const ZLendPiece *piece;
	int			npieces;
	int			npages;
	Buffer		buffer[ZLEND_MAX_PAGES];
	/* of the record that is being made */
	int			nlocked;
	Buffer		locked[ZLEND_MAX_PAGES];	/* exclusively */
	uint16		headlen;
	char		head[(2 + ZLEND_MAX_RANGES * 5) * UNDO_MAX_PACKED];
	PGAlignedBlock rows;		/* what is logged of them */
} ZLend;

/* no lock held */
extern void zheap_lend_begin(ZLend *lend, Relation rel,
							 const ZLendPiece *piece, int npieces);
extern void zheap_lend_end(ZLend *lend);

/*
 * Rows first, first + 1, ... of those that are inserted go to the page in
 * buffer, which is exclusively locked.  True: pages that lend are locked, too,
 * and *logged are the rows as they are to be logged.  Never waits for a lock.
 */
extern bool zheap_lend_take(ZLend *lend, Buffer buffer, int first,
							const ZInsertChange *change,
							ZInsertChange *logged);

/*
 * In the critical section: before the record, while it is put together
 * (headlen bytes at head are registered by the caller, with the table block),
 * and when it was inserted.  The latter logs the page that got the rows
 * once more if redo may not find the pages that lend.
 */
extern void zheap_lend_dirty(ZLend *lend);
extern void zheap_lend_register(ZLend *lend);
extern void zheap_lend_logged(ZLend *lend, Buffer buffer, XLogRecPtr lsn);

/* unlock what was taken */
extern void zheap_lend_release(ZLend *lend);

/* redo: copies of the pages that lend, as they were then */
typedef struct ZLenders
{
	int			npages;
	bool		found[ZLEND_MAX_PAGES];
	PGAlignedBlock page[ZLEND_MAX_PAGES];
} ZLenders;

/* no lock held; npages is 0 if the record's rows are complete */
extern void zheap_lend_redo_read(XLogReaderState *record, ZLenders *lenders);

/*
 * Give rows back what they did not have in the record: p is where the ranges
 * begin, zheap_lend_skip() where they end.  to: BLCKSZ bytes, in which the rows
 * are afterwards.  NULL or false: malformed.
 */
extern const char *zheap_lend_skip(const char *p, const char *end);
extern bool zheap_lend_put_back(const char *p, const char *end,
								const ZLenders *lenders,
								ZInsertChange *change, char *to);

#endif							/* ZHEAP_LEND_H */
