/*-------------------------------------------------------------------------
 *
 * undo_attach.h
 *	  The undo logs that the running transaction writes to, and what it has
 *	  touched.  Private to undo_attach.c, undo_xact.c and undo_insert.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_ATTACH_H
#define UNDO_ATTACH_H

#include "undo/log/undo_log.h"

#define UNDO_ATTACH_TABLES		8

/* an undo log that the running transaction writes to */
typedef struct AttachedLog
{
	bool		attached;
	UndoLogNumber log;
	Buffer		recent;			/* tail buffer, a hint, also of earlier ones */
	/* the run last written, which later records may join */
	Fxid		run_fxid;
	Oid			run_reloid;
	BlockNumber run_block;
	uint64		run_seq;		/* of the page: blocks are recycled */
	uint16		run_at;
	bool		suspect;		/* its pages can't be read: retire it */
	/* tables that the transaction wrote; as many are remembered, for a view */
	int			ntables;
	Oid			tables[UNDO_ATTACH_TABLES];
	struct HTAB *more_tables;	/* of the transaction; or NULL */
} AttachedLog;

/* ----------------------------------------------------------------
 *	undo_attach.c
 * ----------------------------------------------------------------
 */

/* the attached log for relations of this persistence; it may not be attached */
extern AttachedLog *undo_attach_get(char persistence);

/* the same, attached if it wasn't; see undo_log_attach() for errors */
extern AttachedLog *undo_attach(char persistence);

/* a table is going to be written, another one than before; may throw */
extern void undo_attach_note_table(AttachedLog *att, char persistence,
								   Oid reloid);

/*
 * The tail page, or the page that takes its place, pinned and exclusively
 * locked; the tail is Invalid if there is none.  An error that tells that the
 * pages of the log are unreadable makes undo_attach_end() retire the log.
 */
extern Buffer undo_attach_lock_tail(AttachedLog *att, char persistence,
									BlockNumber tail);
extern Buffer undo_attach_switch(AttachedLog *att, char persistence);

/* records of another (sub)transaction must not join the run last written */
extern void undo_attach_close_runs(void);

/* rollback of temporary undo failed: its log must not start over */
extern void undo_attach_keep_temp(void);

/* give all logs back */
extern void undo_attach_end(void);

/* ----------------------------------------------------------------
 *	undo_xact.c
 * ----------------------------------------------------------------
 */

/* allocate all that undo_xact_remember() will need */
extern void undo_xact_reserve_memory(void);

/* after an insertion: note its pages and its run.  Allocates nothing. */
extern void undo_xact_remember(UndoInsertion *ins, uint16 bytes);

/* an abort callback is rolling back: no undo may be written */
extern bool undo_xact_in_abort;

#endif							/* UNDO_ATTACH_H */
