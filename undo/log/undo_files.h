/*-------------------------------------------------------------------------
 *
 * undo_files.h
 *	  Files and control pages of undo logs, and their blocks.
 *
 * Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_FILES_H
#define UNDO_FILES_H

#include "storage/buf.h"
#include "storage/bufmgr.h"
#include "utils/relcache.h"

#include "undo/undo_defs.h"

/* the session's temporary log, moved by undo_log.c */
typedef struct UndoTempLog
{
	Relation	rel;			/* hand-made, lives as long as the session */
	BlockNumber nblocks;
	BlockNumber tail;			/* 0: none since the last restart */
	uint64		seq;
	Fxid		horizon;		/* committed writers below are visible to all */
	/* top transactions: the newest that has written, and the one before */
	Fxid		writer;
	Fxid		writer_before;
} UndoTempLog;

extern UndoTempLog undo_temp_log;

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

/* the same for who reads a log from one end to the other, through a ring */
extern Buffer undo_file_read_in_order(char persistence, UndoLogNumber log,
									  BlockNumber block,
									  BufferAccessStrategy strategy);

/* blocks of a file, 0 if there is none */
extern BlockNumber undo_file_blocks(RelFileLocator locator);

/* blocks of a log that hold something */
extern BlockNumber undo_file_used_blocks(char persistence, UndoLogNumber log);

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
