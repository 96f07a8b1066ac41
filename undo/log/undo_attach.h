/*-------------------------------------------------------------------------
 *
 * undo_attach.h
 *	  The undo logs that the running transaction writes to.  Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_ATTACH_H
#define UNDO_ATTACH_H

#include "storage/buf.h"

#include "undo/undo_defs.h"

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

#endif							/* UNDO_ATTACH_H */
