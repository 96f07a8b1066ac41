/*-------------------------------------------------------------------------
 *
 * undo_images.h
 *	  Does redo find a page of a table as it was when a record was written (U24)?
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_IMAGES_H
#define UNDO_IMAGES_H

#include "access/xlogreader.h"

#include "undo/undo_defs.h"

/*
 * XLogInsert() of whatever changes a page of the table's, or the
 * same for core's records: "before" is ProcLastRecPtr before they were
 * inserted.  The page is still locked (U24).
 */
extern XLogRecPtr undo_images_insert(uint8 info);
extern void undo_images_note(XLogRecPtr before);

/*
 * The file of a table was copied as it is, pages with their positions.  WAL has
 * no image of them if wal_level is minimal.
 */
extern void undo_images_note_copied(void);

/* may a record rely on it that redo finds a page as it is now (U24) */
extern bool undo_images_are_complete(void);

/*
 * Redo: a copy of a page that a record names without changing it.  False: the
 * page isn't the one of then.
 */
extern bool undo_images_redo_read(XLogReaderState *record, uint8 block_id,
								  char *copy);

#endif							/* UNDO_IMAGES_H */
