/*-------------------------------------------------------------------------
 *
 * zheap_xlog_logical.h
 *	  What WAL records of changes of rows say to logical decoding, besides what
 *	  redo needs: the logical part, at the end of their main data.
 *
 * It is there if the table is logically logged; redo passes over it.  Then
 * the new rows are whole in the data of their block, which is kept beside a
 * page image.  Decoding knows no table and no column, so each row comes with a
 * recipe that makes heap's row of it:
 *
 *	logical part	flags u8; a recipe for each new row; with OLD: a coded row
 *					(zheap_xlog_insert.h), the row before is the new one, if
 *					there is one, and its recipe; with OLD_HEAP: t_infomask2
 *					u16, t_infomask u16, t_hoff u8, heap's row from its null
 *					bitmap to the end
 *	recipe			0: that of the row before, the first time one without gaps;
 *					else number of gaps + 1, packed; for each {bytes before it
 *					<< 3 | number of zeroes, packed}
 *
 * Recipes that would be 0 and are the last of the part are left out.
 *
 * A row's null bitmap is heap's, and so are its values, but for the padding.
 * The recipe counts from the first value on.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XLOG_LOGICAL_H
#define ZHEAP_XLOG_LOGICAL_H

#include "access/htup_details.h"
#include "lib/stringinfo.h"

#include "zheap/format/zheap_format.h"

#define ZLOGICAL_SPECULATIVE	0x01	/* an insertion that will be
										 * confirmed, or not */
#define ZLOGICAL_LAST			0x02	/* out-of-line values logged before
										 * belong to no row behind the last
										 * one */
#define ZLOGICAL_CHUNK			0x04	/* a row of a toast table */
#define ZLOGICAL_OLD			0x08	/* the old row, or its key */
#define ZLOGICAL_OLD_HEAP		0x10	/* the same as heap has it */

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

/* the logical part of one operation's records, one after the other */
typedef struct ZLogical
{
	bool		wanted;			/* else nothing below is set */
	Relation	rel;
	char		identity;		/* REPLICA_IDENTITY_* */
	Bitmapset  *key;			/* its columns, if it is an index */
	bool		key_same;		/* they are known not to change */
	StringInfoData part;
	int			recipe;			/* where the last one is in part, -1: none */
	int			recipe_len;
	int			same;			/* rows since then, not in part yet */
} ZLogical;

/*
 * Is the table logically logged, and what identifies its rows?  options:
 * HEAP_INSERT_*; old: will an old row be told?  Reads catalogs: no lock held.
 */
extern void zheap_logical_begin(ZLogical *logical, Relation rel, int options,
								bool old);
extern void zheap_logical_end(ZLogical *logical);

/*
 * Take the locks on the toast table and its indexes that telling a row with
 * values out of line needs, until the transaction ends.  No page locked.
 */
extern void zheap_logical_lock_values(const ZLogical *logical);

/*
 * Begin the part of a record, and add to it, new rows first.  Only if wanted.
 * The old row's values are fetched from the toast table where need be; a page
 * may be locked.  It is told as the replica identity demands; new is the row
 * that replaces it as it is logged, or NULL.
 */
extern void zheap_logical_start(ZLogical *logical, uint8 flags);
extern void zheap_logical_add_new(ZLogical *logical, const char *tuple,
								  uint16 len);
extern void zheap_logical_add_old(ZLogical *logical, const char *old,
								  uint16 oldlen, const char *new,
								  uint16 newlen);

/*
 * After the rest of main data, unless it is said there; nothing unless wanted.
 */
extern void zheap_logical_register(const ZLogical *logical, bool said);

/* ----------------------------------------------------------------
 *	reading
 * ----------------------------------------------------------------
 */

/* what heap would make of a row; of what it was read from */
typedef struct ZHeapRow
{
	uint32		len;			/* t_len */
	uint16		infomask2;
	uint16		infomask;
	uint8		hoff;
	const char *bits;			/* behind heap's fixed header */
	uint32		bitslen;
	const char *data;			/* the values, without the gaps */
	uint32		datalen;
	const char *gaps;			/* recipe; NULL: data has its padding */
	int			ngaps;
} ZHeapRow;

typedef struct ZLogicalReader
{
	uint8		flags;
	const char *p;
	const char *end;
	const char *gaps;			/* of the last recipe */
	int			ngaps;
} ZLogicalReader;

/* ERROR if malformed, all of them; rows refer to what they were read from */
extern void zheap_logical_read(ZLogicalReader *reader, const char *part,
							   Size size);
extern void zheap_logical_read_new(ZLogicalReader *reader, const char *tuple,
								   uint16 len, ZHeapRow *row);

/* only with OLD or OLD_HEAP; tuple has BLCKSZ bytes; new as when written */
extern void zheap_logical_read_old(ZLogicalReader *reader, const char *new,
								   uint16 newlen, char *tuple, ZHeapRow *row);

/* to has room for row->len bytes */
extern void zheap_logical_put_heap(const ZHeapRow *row, HeapTupleHeader to);

#endif							/* ZHEAP_XLOG_LOGICAL_H */
