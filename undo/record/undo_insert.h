/*-------------------------------------------------------------------------
 *
 * undo_insert.h
 *	  Writing undo records, and redo of that.
 *
 * An operation that changes one or two pages of a table writes its
 * undo records together, on one undo page:
 *
 *		UndoInsertion ins;
 *
 *		undo_insertion_init(&ins, relation);
 *		i = undo_insertion_add(&ins, kind, flags, block, offset, chain,
 *							   payload, payload_len);
 *		undo_insert_prepare(&ins);				all that can fail: attach a log, switch
 *										or extend; returns with the undo page
 *										exclusively locked, ins.rec[i].urp set
 *		START_CRIT_SECTION();
 *		... change table pages; undo_insert_apply(&ins);
 *		if (RelationNeedsWAL(relation))
 *			XLogBeginInsert(); register table blocks from 0 on;
 *			undo_insert_register(&ins, block_id);		block 0 is a block of the
 *												table, unless block_id is 0
 *			lsn = undo_images_insert(...); undo_insert_set_lsn(&ins, lsn); PageSetLSN(...)
 *		else
 *			undo_insert_log_alone(&ins);		permanent relation at wal_level=minimal:
 *										logs the undo page only; else nothing
 *		END_CRIT_SECTION();
 *		undo_insert_release(&ins);
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_INSERT_H
#define UNDO_INSERT_H

#include "access/xlogreader.h"
#include "storage/buf.h"
#include "utils/relcache.h"

#include "undo/undo_defs.h"

#define UNDO_MAX_INSERTION		4

typedef struct UndoInsertion
{
	/* set by undo_insertion_init() */
	Oid			reloid;
	Oid			dboid;
	RelFileLocator locator;		/* of the table: foreground rollback finds it
								 * by this */
	char		persistence;
	/* set by undo_insertion_add() */
	int			nrecs;
	UndoInsertRec rec[UNDO_MAX_INSERTION];
	/* set by undo_insertion_keep() */
	Fxid		keep_for;		/* Invalid: its own writer decides */
	bool		keep_until_u;
	/* set by undo_insert_prepare(); private to undo_insert.c */
	Fxid		fxid;
	Buffer		buffer;
	UndoLogNumber log;
	uint16		start;			/* byte offset of the first byte to write */
	bool		lent;			/* logged without bytes that redo copies */
	bool		new_run;		/* a run header goes first */
	bool		new_relation;	/* and a relation entry */
	uint16		run;			/* byte offset of the run header */
	uint8		run_len;
	char		run_head[UNDO_MAX_RUN];
	char		wal_header[112];
} UndoInsertion;

extern void undo_insertion_init(UndoInsertion *ins, Relation rel);
extern int	undo_insertion_add(UndoInsertion *ins, uint8 kind, uint8 flags,
							   BlockNumber block, OffsetNumber offset,
							   UndoRecPtr chain, const char *payload,
							   uint16 payload_len);

/*
 * U25: keep the records until H, or U, is above fxid, not only above their
 * writer.  Read them by undo_record_fetch_kept().  One record, of a table that
 * isn't temporary.
 */
extern void undo_insertion_keep(UndoInsertion *ins, Fxid fxid, bool until_u);

/*
 * A payload whose bytes are only known after the page was prepared may be
 * changed in place until undo_insert_apply(), its length may not.
 *
 * undo_insert_register: block_id 0 says that there is no table page; else the
 * table page was registered before, as block 0.  Runs in critical sections.
 * offset, if it isn't 0, is the row's that the client's main data tells: redo
 * is given it again.
 */
extern void undo_insert_prepare(UndoInsertion *ins);
extern void undo_insert_apply(UndoInsertion *ins);
extern void undo_insert_register(UndoInsertion *ins, uint8 block_id,
								 OffsetNumber offset);
extern void undo_insert_set_lsn(UndoInsertion *ins, XLogRecPtr lsn);
extern void undo_insert_log_alone(UndoInsertion *ins);
extern void undo_insert_release(UndoInsertion *ins);

/*
 * Bytes of a payload that stand on a page of the table's, too.  The ranges are
 * in order and don't overlap.
 */
typedef struct UndoLent
{
	uint16		at;				/* in the payload */
	uint16		from;			/* on the page */
	uint16		len;
} UndoLent;

#define UNDO_MAX_LENT		64
#define UNDO_MIN_LENT		32

/*
 * As undo_insert_log_alone(), of one record, in whose stead redo copies the
 * lent bytes from the table's page, if that is safe (U24).  The page is
 * exclusively locked and dirty; it gets the record's LSN, and keeps these bytes
 * until its next WAL record.
 */
extern void undo_insert_log_lent(UndoInsertion *ins, Buffer source,
								 const UndoLent *lent, int n);

/*
 * Byte offset on its undo page of record i: main data of the client's WAL
 * record must carry it (U7: the table page's redo needs the URP although
 * the undo block's data may have been dropped).
 */
#define undo_insertion_offset(ins, i)	UndoRecPtrGetOffset((ins)->rec[i].urp)

/*
 * Redo: rebuild the undo page of a record that registered it as block_id
 * (locks, applies, sets LSN, releases).  first_offset is the byte offset of
 * record 0 as logged in the client's main data.  table_block[0] is the block
 * number of the table page that record 0 belongs to, [1] that of the others.
 * table_offset is what undo_insert_register() was given.
 */
extern void undo_insert_redo(XLogReaderState *record, uint8 block_id,
							 uint16 first_offset,
							 const BlockNumber *table_block,
							 OffsetNumber table_offset);

/* URP of a record in redo: block reference's tag + logged byte offset */
extern UndoRecPtr undo_insert_redo_urp(XLogReaderState *record, uint8 block_id,
									   uint16 offset);

#endif							/* UNDO_INSERT_H */
