/*-------------------------------------------------------------------------
 *
 * undo_worker.h
 *	  Discard (undo_discard.c) and the background workers that do it and roll
 *	  back (undo_worker.c).  Private to undo/, but for the entry points that
 *	  the server looks up by name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_WORKER_H
#define UNDO_WORKER_H

#include "undo/log/undo_log.h"

/* what one pass over all logs found */
typedef struct UndoScanResult
{
	Fxid		oldest_unapplied;	/* 0 = none */
	int			ndatabases;		/* databases with unapplied aborted runs */
	int			maxdatabases;
	Oid		   *databases;		/* in the caller's memory context; or NULL */
	bool		discarded;		/* some head moved */
	uint64		retained;		/* blocks still held in all logs */
} UndoScanResult;

/*
 * One pass: horizon, scan, discard, publish, shrink (U2, U3, U4, U18).
 * connected: the process is connected to a database, so it must use the
 * horizon of shared catalogs (U2).  Holds no lock on return.
 */
extern void undo_discard_pass(bool connected, UndoScanResult *result);

/* status of a writer, tested in this order (U22) */
typedef enum UndoXidStatus
{
	UNDO_XID_RUNNING,
	UNDO_XID_COMMITTED,
	UNDO_XID_ABORTED
} UndoXidStatus;
extern UndoXidStatus undo_scan_xid_status(Fxid fxid);

/*
 * Roll back the unapplied aborted runs of the connected database, a batch at
 * a time.  Returns the number of runs finished; *remaining tells whether any
 * is left (locked relation, failed page).
 */
extern int	undo_worker_rollback_batch(bool *remaining);

/*
 * Roll back these pages of a table, each once; sorts them.  Those behind its end
 * are truncated away.  Returns how many there were.
 */
extern uint32 undo_worker_apply_pages(Relation rel, BlockNumber *blocks,
									  int nblocks);

/*
 * The same within the running transaction, until nothing is left or nothing
 * more can be done: for single-user mode, which has no workers.
 */
extern void undo_worker_rollback_here(void);

/*
 * Visit each retained page that holds unapplied aborted runs of a database,
 * or of any (InvalidOid).
 * page is a private copy, from the byte offset of the first entry to look at;
 * no buffer is held.  The visitor returns false to end the walk.
 *
 * A walk begins where the visitor ended the one before, so that pages which
 * can't be dealt with don't keep others waiting.  Returns true if it was a
 * full one, false if pages were left out.
 */
typedef bool (*undo_visit_fn) (char persistence, UndoLogNumber log,
							   BlockNumber block, Page page, uint16 from,
							   void *arg);
extern bool undo_scan_visit_unapplied(Oid dboid, undo_visit_fn visit,
									  void *arg);

/* is this run aborted, not applied, not before all_visible_before; see undo_discard.c */
extern bool undo_scan_run_is_unapplied(const UndoEntry *run,
									   Fxid all_visible_before);

/*
 * undo_survey.c: a step of the launcher, which returns whether rollback
 * workers may start; what takes its place in single-user mode
 */
extern bool undo_survey_round(const UndoScanResult *found);
extern void undo_survey_alone(void);

/*
 * Databases that may have been copied after this writer and before the server
 * started; with InvalidFxid, all.  Half-dropped ones don't count.  In the
 * current memory context.  Uses a transaction of its own unless there is one.
 */
extern List *undo_survey_databases(Fxid copied_after);

extern bool undo_rollback_paused;

/* what launcher and workers share: sleep, end if told to, read new settings */
extern void undo_worker_nap(long milliseconds, UndoWait wait);

/*
 * To be called before the process connects: settings that would keep it from
 * its work, or would have it work on damaged pages, are set to their defaults.
 */
extern void undo_worker_reset_settings(void);

/* the library that the server loads to start the workers */
#ifndef UNDO_LIBRARY_NAME
#define UNDO_LIBRARY_NAME		"zheap_am"
#endif

extern PGDLLEXPORT void undo_launcher_main(Datum arg);
extern PGDLLEXPORT void undo_rollback_worker_main(Datum arg);
extern PGDLLEXPORT void undo_survey_worker_main(Datum arg);

#endif							/* UNDO_WORKER_H */
