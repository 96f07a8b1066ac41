/*-------------------------------------------------------------------------
 *
 * undo_shmem.h
 *	  What is known of the logs and the horizons, in shared memory.
 *
 * Private to undo/ and inspect/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_SHMEM_H
#define UNDO_SHMEM_H

#include "port/atomics.h"
#include "storage/lwlock.h"

#include "undo/undo_defs.h"

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
	pg_atomic_uint32 tail;		/* block, InvalidBlockNumber, or
								 * UNDO_TAIL_UNKNOWN */
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

/* tail of a log whose control page can't be believed, and which is RETIRED */
#define UNDO_TAIL_UNKNOWN	0

#define UndoLogHead(block, off)		((((uint64) (block)) << 16) | (uint64) (off))
#define UndoLogHeadBlock(head)		((BlockNumber) ((head) >> 16))
#define UndoLogHeadOffset(head)		((uint16) ((head) & 0xFFFF))

typedef enum UndoSharedState
{
	UNDO_UNINIT = 0,			/* nobody has read the control pages yet */
	UNDO_STANDBY,				/* read during recovery; redo raises horizons */
	UNDO_PRIMARY
} UndoSharedState;

#define UNDO_UNREACHABLE_SHOWN	8

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
	pg_atomic_uint64 held_before;	/* until copies_done: runs of writers
									 * before it may be in databases that
									 * can't be visited */
	/* databases that the launcher can't have anything rolled back in */
	pg_atomic_uint32 unreachable[UNDO_UNREACHABLE_SHOWN];
	pg_atomic_uint64 no_images_before;	/* undo_images.c: WAL position */
	pg_atomic_uint64 passes;	/* discard passes finished */
	pg_atomic_uint32 raise_wanted;	/* raise the horizons without need */
	pg_atomic_uint64 retained;	/* pages kept: last scan, and switches since */
	UndoLogShared logs[FLEXIBLE_ARRAY_MEMBER];	/* maxlogs permanent, then
												 * maxlogs unlogged */
} UndoShared;

extern UndoShared *UndoShmem;

extern UndoLogShared *undo_shmem_log(char persistence, UndoLogNumber log);
extern int	undo_shmem_log_count(char persistence);

/* highest log number found among the files of the pseudo-database, plus 1 */
extern int	undo_shmem_existing_logs(void);

/* logs with this number or above aren't made, only scanned if they exist */
extern UndoLogNumber undo_shmem_creation_limit(void);

#endif							/* UNDO_SHMEM_H */
