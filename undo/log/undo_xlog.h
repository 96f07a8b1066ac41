/*-------------------------------------------------------------------------
 *
 * undo_xlog.h
 *	  WAL records of the undo logs: main data and block references.  (Undo
 *	  records themselves go with the client's WAL records: undo_insert.c.)
 *
 * Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_XLOG_H
#define UNDO_XLOG_H

#include "access/xlogreader.h"
#include "storage/bufpage.h"

#include "undo/undo_defs.h"

/*
 * CONTROL: 0 log control page (WILL_INIT), 1 global page (WILL_INIT or not);
 * RESET: 0 log control page, 1.. blocks that are about to be truncated away
 * (WILL_INIT; redo leaves them alone)
 */
typedef struct xl_undo_control
{
	Fxid		all_visible_before;
	Fxid		discard_before;
	uint32		nlogs;
	uint32		nunlogged;
	uint16		version;		/* UNDO_FORMAT_VERSION: of pages and WAL */
	uint8		flags;
} xl_undo_control;

#define UNDO_CONTROL_GLOBAL		0x01	/* the global page is created */
#define UNDO_CONTROL_RESET		0x02	/* the log is emptied; no other field
										 * but the version counts */

/* SWITCH: 0 new page (WILL_INIT), 1 control page, 2 old tail if relinked */
typedef struct xl_undo_switch
{
	uint64		seq;
	BlockNumber next;
	BlockNumber used_blocks;
	uint8		first;			/* the log was empty: head starts here */
} xl_undo_switch;

/* DISCARD: 0 global page, 1 control page of the log if its head moves */
typedef struct xl_undo_discard
{
	Fxid		all_visible_before;
	Fxid		discard_before;
	uint64		head;
	uint8		flags;
} xl_undo_discard;

#define UNDO_DISCARD_CONFLICT	0x01	/* h rises: conflict horizon h - 1 */
#define UNDO_DISCARD_LOWER		0x02	/* the horizons are lower than before */

/* APPLIED: 0 undo page, its data: byte offsets of run headers */

#define SizeOfUndoControl	(offsetof(xl_undo_control, flags) + 1)
#define SizeOfUndoSwitch	(offsetof(xl_undo_switch, first) + 1)
#define SizeOfUndoDiscard	(offsetof(xl_undo_discard, flags) + 1)

/* undo_redo.c: redo of every record of the store but XLOG_UNDO_INSERT */
extern void undo_log_redo(XLogReaderState *record);

/* PANIC if the page, read from disk to be changed, isn't of the wanted magic */
extern void undo_redo_check(XLogReaderState *record, uint8 block_id, Page page,
							uint32 magic);

#endif							/* UNDO_XLOG_H */
