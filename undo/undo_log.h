/*-------------------------------------------------------------------------
 *
 * undo_log.h
 *	  Undo logs: where their bytes live, their writers, shared state,
 *	  and the WAL records that move tails, heads and horizons.
 *
 * Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_LOG_H
#define UNDO_LOG_H

#include "access/xlogreader.h"
#include "port/atomics.h"
#include "storage/buf.h"
#include "storage/lwlock.h"

#include "undo/undo.h"
#include "undo/undo_page.h"

/*
 * State of a log in shared memory:
 *
 *	  ABSENT --create--> FREE --attach--> ATTACHED --detach--> FREE
 *	  FREE --(too big)--> RESTING --drained, reset, truncated--> FREE
 *	  RESTING --attach, when no more logs may be made--> ATTACHED
 *	  any --(pages unreadable)--> RETIRED
 *
 * Transitions from FREE are by compare-and-swap, so attach and detach cost
 * one atomic each.  The launcher takes FREE/RESTING -> BUSY to reset a log.
 */
typedef enum UndoLogState
{
	UNDO_LOG_ABSENT = 0,		/* no valid control page on disk */
	UNDO_LOG_FREE,
	UNDO_LOG_ATTACHED,
	UNDO_LOG_RESTING,			/* too big: not handed out until drained */
	UNDO_LOG_BUSY,				/* being created, reset or truncated */
	UNDO_LOG_RETIRED
} UndoLogState;

/*
 * One log.  tail, used_blocks and seq are written by the attached backend
 * (after XLogInsert of its switch record), head by the discarder (after
 * discard_before was published); all are read by others without a lock, hence
 * atomics.
 */
typedef struct UndoLogShared
{
	pg_atomic_uint32 state;		/* UndoLogState */
	pg_atomic_uint32 tail;		/* block, or InvalidBlockNumber */
	pg_atomic_uint32 used_blocks;
	pg_atomic_uint64 head;		/* block << 16 | byte offset */
	pg_atomic_uint64 seq;		/* of the tail page */
	pg_atomic_uint32 owner_pid; /* attached backend, for views */
	/* launcher: oldest page that may hold an unapplied aborted run */
	pg_atomic_uint32 pending;	/* block; InvalidBlockNumber: none known */
	/* page at which the last scan of the log failed */
	pg_atomic_uint32 unreadable;	/* block; InvalidBlockNumber: none */
	/* statistics, written by the attached backend */
	pg_atomic_uint64 bytes_written;
	pg_atomic_uint64 records;
	uint64		bytes_at_attach;	/* when it was attached */
	uint64		records_at_attach;
	uint32		tables;			/* that its transaction has written */
} UndoLogShared;

#define UndoLogHead(block, off)		((((uint64) (block)) << 16) | (uint64) (off))
#define UndoLogHeadBlock(head)		((BlockNumber) ((head) >> 16))
#define UndoLogHeadOffset(head)		((uint16) ((head) & 0xFFFF))

typedef enum UndoSharedState
{
	UNDO_UNINIT = 0,			/* nobody has read the control pages yet */
	UNDO_STANDBY,				/* read during recovery; redo raises horizons */
	UNDO_PRIMARY
} UndoSharedState;

typedef struct UndoShared
{
	LWLock	   *lock;			/* loading, creating logs; redo never takes it */
	LWLock	   *reading;		/* shared: a block that is in use is being
								 * read */
	pg_atomic_uint32 state;		/* UndoSharedState */
	pg_atomic_uint64 all_visible_before;
	pg_atomic_uint64 discard_before;
	pg_atomic_uint32 global_exists; /* the global control page was seen */
	pg_atomic_uint32 nlogs;		/* permanent logs in use: 0 .. nlogs - 1 */
	pg_atomic_uint32 nunlogged;
	int			maxlogs;		/* size of each array */
	/* latch of the launcher, for wake-ups; NULL when it isn't running */
	struct Latch *volatile launcher_latch;
	int			launcher_pid;
	/* databases that wait for the place of another one's rollback worker */
	pg_atomic_uint32 databases_waiting;
	pg_atomic_uint64 oldest_unapplied;	/* fxid, 0 = none; launcher's last
										 * scan */
	pg_atomic_uint64 start_fxid;	/* next xid when this primary started */
	pg_atomic_uint32 copies_done;	/* undo_survey.c: nothing aborted before
									 * start_fxid is in a copied database */
	pg_atomic_uint32 surveyed;	/* database visited last */
	pg_atomic_uint64 no_images_before;	/* undo_images.c: WAL position */
	pg_atomic_uint64 passes;	/* discard passes finished */
	pg_atomic_uint32 raise_wanted;	/* raise the horizons without need */
	pg_atomic_uint64 retained;	/* pages kept: last scan, and switches since */
	UndoLogShared logs[FLEXIBLE_ARRAY_MEMBER];	/* maxlogs permanent, then
												 * maxlogs unlogged */
} UndoShared;

extern UndoShared *UndoShmem;

/* settings */
extern int	undo_log_rest_size; /* kB: a log above this rests */
extern int	undo_max_size;		/* kB of undo that may be kept; -1: any */
extern int	undo_xact_limit;	/* kB that a transaction may write; -1: any */

/*
 * undo_horizons.c: raise the published horizons, lower values are ignored; set
 * them lower, at a start only; create the global control page
 */
extern void undo_horizons_publish(Fxid all_visible_before,
								  Fxid discard_before);
extern void undo_horizons_publish_lower(Fxid horizon);
extern void undo_horizons_lower(Fxid horizon);
extern void undo_horizons_create(Fxid all_visible_before, Fxid discard_before);

/* from now on each table of the client has a relfrozenxid (U21) */

/* load shared state if need be; see undo_log_horizons() */
extern void undo_log_startup(void);

extern UndoLogShared *undo_shmem_log(char persistence, UndoLogNumber log);
extern int	undo_shmem_log_count(char persistence);
extern RelFileLocator undo_file_of_log(char persistence, UndoLogNumber log);

/*
 * Read a block of a log (pinned, not locked).  For temporary logs the buffer
 * is local.  Blocks only that exist and stay: of a log that is attached, or
 * that the caller alone could truncate.
 */
extern Buffer undo_file_read_log(char persistence, UndoLogNumber log,
								 BlockNumber block);

/*
 * The same for any block of any log: Invalid if it is not in use, or not any
 * more (U18).
 */
extern Buffer undo_file_read_used(char persistence, UndoLogNumber log,
								  BlockNumber block);

/* blocks of a log that hold something */
extern BlockNumber undo_file_used_blocks(char persistence, UndoLogNumber log);

/* block of the tail page, InvalidBlockNumber if there is none */
extern BlockNumber undo_log_tail(char persistence, UndoLogNumber log);

/* attach a log for the running transaction; reuses the one last used if free */
extern UndoLogNumber undo_log_attach(char persistence);
extern void undo_log_detach(char persistence, UndoLogNumber log);

/* a log that can't be written isn't handed out again (U17) */
extern void undo_log_retire(char persistence, UndoLogNumber log);

/*
 * Temporary log: start over from its first page, its committed writers below
 * horizon being visible to all; remove its file.
 */
extern void undo_log_restart_temp(Fxid horizon);
extern void undo_log_drop_temp(void);

/*
 * Make another page the tail: recycles the ring successor if it was
 * discarded, else extends.  Called with the log attached and no undo buffer
 * locked.  ERROR (53100 from the storage manager) leaves everything as it was.
 * Returns the new tail, pinned and exclusively locked.
 */
extern Buffer undo_log_switch(char persistence, UndoLogNumber log);

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

/* undo_redo.c: redo of every record of the store but XLOG_UNDO_INSERT */
extern void undo_log_redo(XLogReaderState *record);

/* undo_holders.c: pages of a log that are kept */
extern uint64 undo_holders_retained_pages(char persistence, UndoLogNumber log);

/* discard_before, or what takes its place for temporary relations */
extern Fxid undo_log_horizon(char persistence);


/* ----------------------------------------------------------------
 *	undo_apply.c
 * ----------------------------------------------------------------
 */

/* a page that a transaction wrote undo for; kept by undo_xact.c */
typedef struct UndoTouchedPage
{
	RelFileLocator locator;
	Oid			reloid;
	BlockNumber block;
	int			nest_level;
	char		persistence;
} UndoTouchedPage;

/* a run header that a transaction wrote; kept by undo_xact.c */
typedef struct UndoTouchedRun
{
	UndoRecPtr	urp;			/* of the run header */
	uint64		seq;			/* of its page */
	Fxid		writer;
	int			nest_level;
	char		persistence;
} UndoTouchedRun;

/*
 * Roll back pages, at least one, all or none of temporary tables, in the abort
 * callback (U13): catches every error, restores holdoff counts, memory context,
 * resource owner and a pending outer error, repeats AbortTransaction's
 * clean-up.  Temporary pages have no runs and no limit.  Returns true if
 * all pages were done within the limits (then the runs are marked applied),
 * false if the rest is left to the workers (which are woken).
 */
extern bool undo_apply_foreground(const UndoTouchedPage *pages, int npages,
								  const UndoTouchedRun *runs, int nruns,
								  bool unlimited);

/* roll back one page through the registered client, rel opened by the caller */
extern void undo_apply_page(Relation rel, BlockNumber block);

/* the client's access method OID, InvalidOid if unknown */
extern Oid	undo_apply_client_am(void);

#endif							/* UNDO_LOG_H */
