/*-------------------------------------------------------------------------
 *
 * undo_record.h
 *	  Reading undo records.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_RECORD_H
#define UNDO_RECORD_H

#include "storage/buf.h"
#include "utils/relcache.h"

#include "undo/undo_defs.h"

/* a record, copied */
typedef struct UndoRecord
{
	UndoRecPtr	urp;
	uint8		kind;
	uint8		flags;
	OffsetNumber offset;
	BlockNumber block;
	UndoRecPtr	chain;
	Fxid		writer;			/* from the run header */
	Oid			reloid;
	Oid			dboid;
	uint16		len;			/* bytes on the undo page */
	uint16		payload_len;
	const char *payload;		/* into data[], not aligned */
	char		data[UNDO_MAX_PAYLOAD];
} UndoRecord;

typedef struct UndoGather UndoGather;	/* undo_gather.h */

/*
 * Keeps the last undo page pinned between fetches.  Must be closed before the
 * AM call ends and before any wait (U16).  Errors and aborts release the
 * pin through the resource owner.
 */
typedef struct UndoReader
{
	char		persistence;
	Buffer		buffer;
	UndoLogNumber log;
	BlockNumber block;
	const UndoGather *gather;	/* asked first, or NULL */
} UndoReader;

extern void undo_record_reader_open(UndoReader *reader, Relation rel);
extern void undo_record_reader_close(UndoReader *reader);

/*
 * Copy the record at urp, which writer is expected to have written on behalf
 * of table block "block".
 *
 * held = true: the record cannot have been discarded (its writer is aborted
 * and the table page is locked); anything unexpected is reported as corruption
 * (ERRCODE_DATA_CORRUPTED, naming log, block, offset). held = false: after the
 * copy was taken discard_before is read again; returns false if writer <
 * discard_before (its undo may be gone and, being committed, it is visible to
 * all, U3), else as above.
 */
extern bool undo_record_fetch(UndoReader *reader, UndoRecPtr urp, Fxid writer,
							  BlockNumber block, bool held, UndoRecord *rec);

/*
 * The same of a record that is kept for fxid, as undo_insertion_keep() said (or
 * a later one, until U): written by any transaction up to that.  False if H,
 * read again after the copy was taken, or U is above fxid.
 */
extern bool undo_record_fetch_kept(UndoReader *reader, UndoRecPtr urp,
								   Fxid fxid, bool until_u,
								   BlockNumber block, UndoRecord *rec);

#endif							/* UNDO_RECORD_H */
