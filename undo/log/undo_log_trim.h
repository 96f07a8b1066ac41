/*-------------------------------------------------------------------------
 *
 * undo_log_trim.h
 *	  Heads and horizons moved, runs marked, logs emptied or given up.
 *
 * Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_LOG_TRIM_H
#define UNDO_LOG_TRIM_H

#include "undo/undo_defs.h"

/* a log that can't be written isn't handed out again (U17) */
extern void undo_log_retire(char persistence, UndoLogNumber log);

/*
 * Record that head of a log moves to (block, offset) and/or the horizons rise
 * to all_visible_before and discard_before: inserts the WAL record (conflict
 * horizon discard_before - 1 where discard_before rises), then publishes
 * discard_before, all_visible_before, then the head, in this order (U3).  log
 * = UNDO_TEMP_LOG: horizons only.  Values below the published ones are
 * ignored.
 */
extern void undo_log_discard(char persistence, UndoLogNumber log,
							 BlockNumber head, uint16 head_offset,
							 Fxid all_visible_before, Fxid discard_before);

/* empty, detached log back to its control page alone (U18); state BUSY held */
extern void undo_log_reset(char persistence, UndoLogNumber log);

/* a run by its place on a page, and by its writer */
typedef struct UndoRunMark
{
	uint16		offset;			/* of the run header */
	Fxid		writer;
} UndoRunMark;

/*
 * Set APPLIED in run headers of one page (WAL-logged for permanent logs).  The
 * page may have been discarded and recycled since the runs were seen on it:
 * then it has another sequence number, and is left alone, as is a run of
 * another writer.
 */
extern void undo_log_mark_applied(char persistence, UndoLogNumber log,
								  BlockNumber block, uint64 seq,
								  const UndoRunMark *runs, int nruns);

#endif							/* UNDO_LOG_TRIM_H */
