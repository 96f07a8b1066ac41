/*-------------------------------------------------------------------------
 *
 * undo_log.h
 *	  Logs attached and given back, and their tails.
 *
 * Private to undo/ and inspect/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_LOG_H
#define UNDO_LOG_H

#include "storage/buf.h"

#include "undo/undo_defs.h"

/* settings */
extern int	undo_log_rest_size; /* kB: a log above this rests */
extern int	undo_max_size;		/* kB of undo that may be kept; -1: any */
extern int	undo_xact_limit;	/* kB that a transaction may write; -1: any */

/* block of the tail page, InvalidBlockNumber if there is none */
extern BlockNumber undo_log_tail(char persistence, UndoLogNumber log);

/* attach a log for the running transaction; reuses the one last used if free */
extern UndoLogNumber undo_log_attach(char persistence);
extern void undo_log_detach(char persistence, UndoLogNumber log);

/*
 * Temporary log: a top transaction begins to write; unless "keep" from the first
 * page on, committed writers before it being visible to all.  Remove its file.
 */
extern void undo_log_begin_temp(Fxid top, bool keep);
extern void undo_log_drop_temp(void);

/*
 * Make another page the tail: recycles the ring successor if it was
 * discarded, else extends.  Called with the log attached and no undo buffer
 * locked.  ERROR (53100 from the storage manager) leaves everything as it was.
 * Returns the new tail, pinned and exclusively locked.
 */
extern Buffer undo_log_switch(char persistence, UndoLogNumber log);

#endif							/* UNDO_LOG_H */
