/*-------------------------------------------------------------------------
 *
 * zheap_open_record.h
 *	  The inserts' open records of the running command (Z32): records that
 *	  this backend wrote and that cover rows to come.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_OPEN_RECORD_H
#define ZHEAP_OPEN_RECORD_H

#include "postgres.h"

#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"

/* offsets that an INSERT_SET record lists */
typedef struct ZOpenRanges
{
	int			n;				/* 0: INSERT_OPEN, every later offset */
	OffsetNumber first[ZUNDO_MAX_RANGES];
	OffsetNumber last[ZUNDO_MAX_RANGES];
} ZOpenRanges;

/* a table's last one: what its rd_amcache holds */
typedef struct ZOpenInsert
{
	ZOpenRecord record;
	ZOpenRanges ranges;
} ZOpenInsert;

/*
 * The table's last open record if it is of this page and command, else NULL.
 * It may be gone when the next relation has been locked or opened.
 */
extern ZOpenInsert *zheap_open_record_get(Relation rel, BlockNumber block,
										  Fxid fxid, CommandId cid);

/* does it cover these n offsets, if it is the newest record? */
extern bool zheap_open_record_lists(const ZOpenInsert *open,
									OffsetNumber first, int n, bool reused);

/* a record that was just written covers more to come; buffer: of the page */
extern void zheap_open_record_note(Relation rel, Buffer buffer,
								   UndoRecPtr urp, Fxid fxid, CommandId cid,
								   const ZOpenRanges *ranges);

#endif							/* ZHEAP_OPEN_RECORD_H */
