/*-------------------------------------------------------------------------
 *
 * undo_worker.h
 *	  The background workers that roll back, the launcher and the survey after
 *	  a start.  Private to undo/ and inspect/, but for the entry points that the
 *	  server looks up by name.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_WORKER_H
#define UNDO_WORKER_H

#include "datatype/timestamp.h"
#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "undo/discard/undo_scan.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

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
 * undo_survey.c: a step of the launcher, which returns whether rollback
 * workers may start; what takes its place in single-user mode
 */
extern bool undo_survey_round(const UndoScanResult *found);
extern void undo_survey_alone(void);

typedef struct UndoDatabase
{
	Oid			dboid;
	Oid			tablespace;
	Fxid		made;			/* writer of its row of pg_database; 0: initdb */
	char		name[NAMEDATALEN];
} UndoDatabase;

/*
 * Databases that may have been copied after this writer; with InvalidFxid, all.
 * Half-dropped ones don't count.  A list of UndoDatabase, in the current memory
 * context.  Uses a transaction of its own unless there is one.
 */
extern List *undo_survey_databases(Fxid copied_after);

/* Does the catalog name a database that isn't there?  No worker could connect. */
extern bool undo_survey_files_are_lost(const UndoDatabase *db);

/* launcher: databases whose visits fail, at most max; returns how many */
extern int	undo_survey_unreachable(Oid *databases, int max);

/*
 * Has this run to wait, because it may have been copied to a database that
 * can't be visited?
 */
extern bool undo_worker_run_is_held(Fxid writer);

/*
 * When to try again what failed so many times before: first_ms later, then twice
 * as long each time, last_ms at most.
 */
extern TimestampTz undo_worker_retry_at(TimestampTz from, int failures,
										int first_ms, int last_ms);

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
