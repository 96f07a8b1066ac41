/*-------------------------------------------------------------------------
 *
 * undo_stat.h
 *	  What the store counts, and what the last discard pass found, for views.
 *	  Nothing here decides anything.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_STAT_H
#define UNDO_STAT_H

#include "datatype/timestamp.h"

#include "undo/undo_defs.h"

/* cumulative counters; the first ones are saved at a clean shutdown */
typedef enum UndoCounter
{
	UNDO_COUNT_RECORDS,			/* without those of running logs */
	UNDO_COUNT_BYTES,
	UNDO_COUNT_PAGES_DISCARDED,
	UNDO_COUNT_PASSES,
	UNDO_COUNT_FOREGROUND,		/* rollbacks finished by the aborting session */
	UNDO_COUNT_FINISHED,		/* rollbacks that passes saw pending, and done */
	UNDO_COUNT_FOREGROUND_PAGES,	/* table pages rolled back, by whom */
	UNDO_COUNT_WORKER_PAGES,
	UNDO_COUNT_VISITOR_PAGES,
	UNDO_COUNTERS
} UndoCounter;

/* why the last pass left undo where it is; may be combined */
#define UNDO_KEPT_BY_HORIZON	0x01
#define UNDO_KEPT_BY_ROLLBACK	0x02
#define UNDO_KEPT_UNREADABLE	0x04

/*
 * Undo by the horizon that lets it go: pages that can be discarded when no
 * snapshot or transaction needs xids up to "last".  Those on which "blocked"
 * is counted stand behind a run that has to be rolled back first.
 */
typedef struct UndoStatStep
{
	Fxid		last;
	uint64		pages;			/* blocked ones included */
	uint64		blocked;
} UndoStatStep;

#define UNDO_STAT_STEPS		128

/* where the rollback of a transaction stands */
typedef enum UndoRollbackState
{
	UNDO_ROLLBACK_WAITING,		/* for a worker */
	UNDO_ROLLBACK_RUNNING,
	UNDO_ROLLBACK_LOCKED_OUT,	/* a lock on its table was not to be had */
	UNDO_ROLLBACK_HELD,			/* a database that may have a copy can't be
								 * visited */
	UNDO_ROLLBACK_FAILED,		/* an error; it is tried again */
	UNDO_ROLLBACK_FOREGROUND	/* the aborting session is at it */
} UndoRollbackState;

#define UNDO_STAT_ERROR_LEN		200

typedef struct UndoRollbackStat
{
	Fxid		fxid;			/* of the writer: a (sub)transaction */
	Oid			dboid;			/* InvalidOid: of several databases */
	uint64		pages_total;	/* pages of undo, at most at a time */
	uint64		pages_left;
	uint64		table_pages;	/* looked at by workers */
	int			tries;			/* failed ones */
	UndoRollbackState state;
	int			pid;
	Oid			reloid;			/* the worker's last table */
	TimestampTz started;		/* when a pass or a worker saw it first */
	TimestampTz failed_at;
	char		error[UNDO_STAT_ERROR_LEN];
} UndoRollbackStat;

#define UNDO_STAT_ROLLBACKS		128

/* what a pass tells of undo that is kept */
typedef struct UndoPassReport
{
	UndoStatStep *steps;		/* in no order, any number */
	int			nsteps;
	UndoRollbackStat *rollbacks;	/* fxid, dboid and pages_left are set */
	int			nrollbacks;
	uint32		kept_by;
	Fxid		horizon;
} UndoPassReport;

/* what views read, in the memory context of the caller */
typedef struct UndoStatSummary
{
	TimestampTz last_pass;		/* 0: none yet */
	uint32		kept_by;
	Fxid		horizon;
	UndoStatStep *steps;
	int			nsteps;
	UndoRollbackStat *rollbacks;
	int			nrollbacks;
} UndoStatSummary;

/* setting, ms: rollbacks by workers that took longer are logged; -1: none */
extern int	undo_stat_log_rollback;

extern void undo_stat_add(UndoCounter counter, uint64 n);
extern uint64 undo_stat_total(UndoCounter counter);
extern TimestampTz undo_stat_reset_time(void);
extern void undo_stat_reset(void);

extern UndoStatSummary *undo_stat_summary(void);
extern uint64 undo_stat_pages_before(const UndoStatSummary *summary,
									 Fxid from);
extern uint64 undo_stat_pages_from(const UndoStatSummary *summary, Fxid from);
extern uint64 undo_stat_pages_blocked(const UndoStatSummary *summary,
									  Fxid horizon);

/* undo that the running transaction has written, without temporary tables' */
extern uint64 undo_stat_own_bytes(void);

/* the launcher publishes what a pass found */
extern void undo_stat_report_pass(UndoPassReport *report);

/* a worker tells of its rollback of one run; error: message or NULL */
extern void undo_stat_report_run(Fxid fxid, Oid dboid, Oid reloid,
								 UndoRollbackState state, uint32 npages,
								 const char *error);

/* an aborting session begins to roll back, or has ended (InvalidFxid) */
extern void undo_stat_report_foreground(Fxid fxid, uint64 bytes);

#endif							/* UNDO_STAT_H */
