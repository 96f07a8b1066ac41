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

#include "zheap/format/zheap_undo.h"
#include "zheap/history/zheap_history.h"

/* offsets that an INSERT_SET record lists */
typedef struct ZOpenRanges
{
	int			n;				/* 0: INSERT_OPEN, every later offset */
	OffsetNumber first[ZUNDO_MAX_RANGES];
	OffsetNumber last[ZUNDO_MAX_RANGES];
} ZOpenRanges;

/*
 * The open record that was written last or found last, by
 * zheap_open_record_recall().
 */
extern ZOpenRecord zheap_open_record_last;

/*
 * If an open record of the command was kept for the page, it is the last from
 * now on.  Says that of the page of the last record as well.
 */
extern bool zheap_open_record_recall(Relation rel, BlockNumber block,
									 Fxid fxid, CommandId cid);

/* does the last one cover these n offsets, if it is the newest record? */
extern bool zheap_open_record_lists(OffsetNumber first, int n, bool reused);

/* a record that was just written covers more to come; buffer: of the page */
extern void zheap_open_record_note(Relation rel, Buffer buffer,
								   UndoRecPtr urp, Fxid fxid, CommandId cid,
								   const ZOpenRanges *ranges);

#endif							/* ZHEAP_OPEN_RECORD_H */
