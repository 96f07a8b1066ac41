/*-------------------------------------------------------------------------
 *
 * undo_module.h
 *	  What the module that the store is a part of calls: its life cycle, WAL as a
 *	  resource manager, what DDL has to ask.  Defined all over undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_MODULE_H
#define UNDO_MODULE_H

#include "access/xlogreader.h"
#include "lib/stringinfo.h"

#include "undo/undo_defs.h"

/* ERROR with a hint unless the library was preloaded (shared memory exists). */
extern void undo_shmem_require(void);

/* what a process sleeps for, as pg_stat_activity names it where it can */
typedef enum UndoWait
{
	UNDO_WAIT_LAUNCHER,			/* ZheapUndoLauncherMain */
	UNDO_WAIT_WORKER,			/* ZheapRollbackWorkerMain */
	UNDO_WAIT_DRAIN,			/* ZheapRollbackDrain */
	UNDO_WAIT_ROOM,				/* ZheapUndoRoom */
	UNDO_WAIT_HORIZON			/* ZheapUndoHorizon */
} UndoWait;

extern uint32 undo_wait_event(UndoWait wait);

/* undo may have outgrown zheap.max_undo_size (log/undo_log.c) */
extern bool undo_room_wanted;

/* the client has rolled back all of a page (log/undo_stat.c) */
extern void undo_stat_count_rollback_page(void);

/*
 * A reader that is going to fetch a record from another page says so some time
 * before.  A hint; never wrong, never throws.  (log/undo_files.c)
 */
extern void undo_file_expect_page(char persistence, UndoRecPtr urp);

/* ----------------------------------------------------------------
 *	life cycle, called from _PG_init and the rmgr table of zheap_am.c
 * ----------------------------------------------------------------
 */
extern void undo_shmem_request(void);	/* shmem_request_hook */
extern void undo_shmem_startup(void);	/* shmem_startup_hook */
extern void undo_stat_shmem_request(void);	/* both likewise */
extern void undo_stat_shmem_startup(void);
extern void undo_snapshot_limit_shmem_request(void);
extern void undo_snapshot_limit_shmem_startup(void);
extern void undo_xact_define_settings(void);
extern void undo_launcher_define_settings(void);
extern void undo_xact_register_callbacks(void); /* xact and subxact callbacks */
extern void undo_launcher_register(void);
extern void undo_drain_register_createdb(void); /* drains what is to be copied */
extern void undo_drain_register_upgrade(void);	/* pg_upgrade waits for
												 * rollbacks */

/*
 * One resource manager serves both layers: info codes 0x00-0x60 are the undo
 * store's, 0x70-0xF0 its client's.
 */
#define XLOG_UNDO_CONTROL		0x00	/* create global or log control page,
										 * or empty a log before truncation */
#define XLOG_UNDO_SWITCH		0x10	/* go on to another page */
#define XLOG_UNDO_INSERT		0x20	/* records without a table page */
#define XLOG_UNDO_DISCARD		0x30	/* raise horizons, move a head */
#define XLOG_UNDO_APPLIED		0x40	/* runs were rolled back */
#define XLOG_UNDO_LAST			0x60	/* 0x50 and 0x60 are free */

/* a client built without zheap (t/toy) brings its own */
#ifndef ZHEAP_RMGR_ID
#define ZHEAP_RMGR_ID			151
#define ZHEAP_RMGR_NAME			"zheap"
#endif

extern void undo_redo(XLogReaderState *record);
extern void undo_desc(StringInfo buf, XLogReaderState *record);
extern const char *undo_identify(uint8 info);

/* true if the page is one of the undo store's and was masked */
extern bool undo_page_mask(char *page, BlockNumber blkno);

/* pending-rollback questions for DDL (undo_scan.c) */
extern bool undo_scan_has_unapplied(Oid dboid); /* InvalidOid: any database */
extern void undo_log_wake_launcher(void);

/* wait until nothing has to be rolled back; false after so many ms (undo_drain.c) */
extern bool undo_drain(int64 timeout);

/* ERROR or FATAL if the files are of an unknown version (rm_startup) */
extern void undo_redo_startup(void);
extern void undo_images_redo_ends(void);	/* rm_cleanup */

#endif							/* UNDO_MODULE_H */
