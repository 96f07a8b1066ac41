/*-------------------------------------------------------------------------
 *
 * undo_scan.h
 *	  What a scan of an undo log finds.  Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_SCAN_H
#define UNDO_SCAN_H

#include "utils/timestamp.h"

#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/undo_defs.h"

/* what one pass over all logs found */
typedef struct UndoScanResult
{
	Fxid		oldest_unapplied;	/* 0 = none */
	bool		blind;			/* some log couldn't be read */
	int			ndatabases;		/* databases with unapplied aborted runs */
	int			maxdatabases;
	Oid		   *databases;		/* in the caller's memory context; or NULL */
	bool		discarded;		/* some head moved */
	uint64		retained;		/* blocks still held in all logs */
} UndoScanResult;

/* a page by its place and by its sequence number */
typedef struct UndoPagePos
{
	BlockNumber block;
	uint64		seq;
} UndoPagePos;

/* what a page holds that isn't final */
typedef struct UndoPageFindings
{
	uint16		lower;			/* end of what was looked at */
	BlockNumber next;
	Fxid		max_fxid;
	Fxid		kept;			/* the same, if U has to pass it, too (U25) */
	Fxid		awaited;		/* the last running writer, 0 = none */
	Fxid		running;		/* the oldest running writer, 0 = none */
	bool		mixed;			/* there are more running writers than one */
	Fxid		unapplied;		/* oldest unapplied aborted writer, 0 = none */
	Oid			dboid;			/* its database; InvalidOid: several */
} UndoPageFindings;

/* consecutive pages with the same findings */
typedef struct UndoOpenRange
{
	UndoPagePos first;
	uint32		npages;
	Fxid		awaited;
	Fxid		running;
	bool		mixed;
	Fxid		unapplied;
	Oid			dboid;
} UndoOpenRange;

/* room for ranges; never NULL once something was put there */
typedef struct UndoRangeArray
{
	UndoOpenRange *ranges;
	int			max;
} UndoRangeArray;

/*
 * Pages up to one with this sequence number that the head can pass when the
 * horizon has passed "last": the latest writer on them or on one before.
 * "next" is where the page behind them was, as undo_scan_step() would tell.
 */
typedef struct UndoScanMark
{
	uint64		end_seq;
	BlockNumber next;
	Fxid		last;
	Fxid		kept;			/* U must have passed this one, too (U25) */
} UndoScanMark;

#define UNDO_SCAN_MARKS		32

/* what this process knows of a log */
typedef struct UndoLogScan
{
	bool		started;
	bool		in_progress;	/* an error escaped from the last scan */
	bool		moved;			/* somebody else moved the head meanwhile */
	bool		passed_checked; /* the pages before the head were discarded */
	TimestampTz skip_until;
	uint64		head_seen;		/* as in shared memory */
	UndoPagePos head;
	UndoPagePos cursor;			/* all before it is final or in a range */
	bool		empty;			/* log without any page */
	UndoPageFindings tail;		/* of the page at the cursor */
	MemoryContext context;		/* of the arrays */
	int			nranges;
	UndoOpenRange *ranges;		/* in order */
	UndoRangeArray room;		/* where they are */
	UndoRangeArray spare;		/* where they were before the last scan */
	uint32		turn;			/* of mixed ranges */
	/* of the pages before the cursor */
	int			nmarks;
	UndoScanMark marks[UNDO_SCAN_MARKS];
} UndoLogScan;

typedef struct UndoLogRef
{
	char		persistence;
	UndoLogNumber number;
	UndoLogShared *shared;
} UndoLogRef;

/* purpose of a walk */
typedef struct UndoScanContext
{
	Fxid		all_visible_before; /* runs before it are final */
	Oid			wanted;			/* has_unapplied: this database, or any */
	bool		found;
	UndoScanResult *result;		/* pass: collects databases; may be NULL */
} UndoScanContext;

static inline bool
undo_scan_is_final(const UndoPageFindings *findings)
{
	return findings->awaited == InvalidFxid &&
		findings->unapplied == InvalidFxid;
}

/* all logs of both kinds, in the current memory context */
extern UndoLogRef *undo_scan_list_logs(int *count);

/* this process's memory of a log; the answer is good until the process ends */
extern UndoLogScan *undo_scan_of_log(const UndoLogRef *ref);

extern void undo_scan_forget(UndoLogScan *scan);

/*
 * As scan_log(), but a log whose last scan ended in an error is left alone
 * for a while; false then.  One bad page must not stop the others.
 */
extern bool undo_scan_log(const UndoLogRef *ref, UndoLogScan *scan,
						  UndoScanContext *context);

/*
 * Copy the page at pos.  Returns false if it has been discarded and recycled,
 * which the head tells: the caller begins anew at the head.  A broken link is
 * repaired in *pos.
 */
extern bool undo_scan_copy_page(const UndoLogRef *ref,
								const UndoLogScan *scan, UndoPagePos *pos,
								Page page);

/* does an error of this code tell of the log, and not of the process? */
extern bool undo_scan_is_damage(int code);

extern void undo_scan_step(UndoPagePos *pos, Page page);

extern void undo_scan_report_corruption(const UndoLogRef *ref,
										BlockNumber block, const char *what);

/* status of a writer, tested in this order (U22) */
typedef enum UndoXidStatus
{
	UNDO_XID_RUNNING,
	UNDO_XID_COMMITTED,
	UNDO_XID_ABORTED
} UndoXidStatus;
extern UndoXidStatus undo_scan_xid_status(Fxid fxid);

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

/* is this run aborted, not applied, not before all_visible_before */
extern bool undo_scan_run_is_unapplied(const UndoEntry *run,
									   Fxid all_visible_before);

#endif							/* UNDO_SCAN_H */
