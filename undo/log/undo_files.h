/*-------------------------------------------------------------------------
 *
 * undo_files.h
 *	  Files and control pages of undo logs.  Private to undo_shmem.c,
 *	  undo_files.c and undo_log*.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_FILES_H
#define UNDO_FILES_H

#include "storage/bufmgr.h"

#include "undo/log/undo_log.h"

/* the session's temporary log, moved by undo_log.c */
typedef struct UndoTempLog
{
	Relation	rel;			/* hand-made, lives as long as the session */
	BlockNumber nblocks;
	BlockNumber tail;			/* 0: none since the last restart */
	uint64		seq;
	Fxid		horizon;		/* committed writers below are visible to all */
} UndoTempLog;

extern UndoTempLog undo_temp_log;

/* logs with this number or above aren't made, only scanned if they exist */
extern UndoLogNumber undo_shmem_creation_limit(void);

extern RelFileLocator undo_file_locator(RelFileNumber number);
extern Buffer undo_file_read(RelFileLocator locator, BlockNumber block,
							 ReadBufferMode mode, bool permanent);

/*
 * Block 0 of a file that may be missing, empty or without a valid page
 * (created by a transaction that crashed before its WAL record, U20): pinned
 * and exclusively locked if the page is of the wanted kind, else Invalid.
 */
extern Buffer undo_file_read_control(RelFileLocator locator, uint32 magic,
									 bool permanent);

/* Block 0, made if need be; pinned and exclusively locked, contents unknown. */
extern Buffer undo_file_make_control(RelFileLocator locator, bool permanent);

/* the init fork gives an empty log after a crash */
extern void undo_file_make_init_fork(RelFileLocator locator);

#endif							/* UNDO_FILES_H */
