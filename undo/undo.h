/*-------------------------------------------------------------------------
 *
 * undo.h
 *	  Public face of the undo store.  This is all that zheap/ may include.
 *
 * Writing.  An operation that changes one or two pages of a table writes its
 * undo records together, on one undo page:
 *
 *		UndoInsertion ins;
 *
 *		undo_insertion_init(&ins, relation);
 *		i = undo_insertion_add(&ins, kind, flags, block, offset, chain,
 *							   payload, payload_len);
 *		undo_insert_prepare(&ins);				all that can fail: attach a log, switch
 *										or extend; returns with the undo page
 *										exclusively locked, ins.rec[i].urp set
 *		START_CRIT_SECTION();
 *		... change table pages; undo_insert_apply(&ins);
 *		if (RelationNeedsWAL(relation))
 *			XLogBeginInsert(); register table blocks from 0 on;
 *			undo_insert_register(&ins, block_id);		block 0 is a block of the
 *												table, unless block_id is 0
 *			lsn = XLogInsert(...); undo_insert_set_lsn(&ins, lsn); PageSetLSN(...)
 *		else
 *			undo_insert_log_alone(&ins);		permanent relation at wal_level=minimal:
 *										logs the undo page only; else nothing
 *		END_CRIT_SECTION();
 *		undo_insert_release(&ins);
 *
 * Lock order: table pages (ascending) -> visibility map -> undo control page
 * -> undo page -> WAL.
 *
 * Reading.  undo_record_fetch() copies a record into private memory.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_H
#define UNDO_H

#include "postgres.h"

#include "access/xlogreader.h"
#include "lib/stringinfo.h"
#include "port/atomics.h"
#include "storage/buf.h"
#include "utils/relcache.h"

#include "undo/undo_defs.h"

/* ----------------------------------------------------------------
 *	horizons (undo_log_load.c)
 * ----------------------------------------------------------------
 */

/*
 * A transaction before all_visible_before (U in the READMEs) committed and is
 * visible to all: neither commit log nor undo may be asked about it.  One
 * before discard_before (H) is visible to all if it committed, and its undo
 * may be gone.  all_visible_before <= discard_before; both only rise.  Sample
 * them before locking a table page and judge the copy by that sample (U1).
 */
typedef struct UndoHorizons
{
	Fxid		all_visible_before;
	Fxid		discard_before;
} UndoHorizons;

/*
 * Reads the two horizons; loads the shared state from disk at the first call
 * after a server start (may do I/O and, outside recovery, write WAL to create
 * the global control page, so not in a critical section nor with any buffer
 * locked for the first call in a backend).
 */
extern UndoHorizons undo_log_horizons(void);

/* ERROR with a hint unless the library was preloaded (shared memory exists). */
extern void undo_shmem_require(void);

/*
 * Transactions from here on got their xid in this run of the server, or since
 * it was promoted.  InvalidFxid: it isn't known, on a standby above all.  To be
 * asked after undo_log_horizons().
 */
extern Fxid undo_log_start_fxid(void);

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

/*
 * The commit log is asked for writers from all_visible_before on only, so a
 * table may have this as its relfrozenxid, and each table must have one: it is
 * what keeps core from cutting the commit log (U21; undo_frozen.c).
 */
extern TransactionId undo_frozen_xid(void);
extern void undo_frozen_raise_horizons(void);
extern void undo_frozen_warn_of_age(uint32 limit);

/* 32-bit xid that is within 2^31 of the next xid -> 64 bits */
extern Fxid undo_log_fxid_from_xid(TransactionId xid);
#define XidFromFxid(f)		((TransactionId) (f))

/* fxid of the current (sub)transaction; assigns one if it has none */
extern Fxid undo_log_current_fxid(void);

/* ----------------------------------------------------------------
 *	inserting (undo_insert.c)
 * ----------------------------------------------------------------
 */

/* these kinds belong to the client; what they mean the store doesn't know */
#define UNDO_MAX_KIND		63
#define UNDO_KIND_RUN		255

/*
 * Bytes of a record before its payload, of a run header with what it adds to
 * the page, and of a payload, at most; see undo_page.h, which proves them.
 */
#define UNDO_MAX_HEAD		(BLCKSZ > 1 << 14 ? 26 : 24)
#define UNDO_MAX_RUN		19
#define UNDO_MAX_PAYLOAD	(BLCKSZ - 24 - 40 - UNDO_MAX_RUN - UNDO_MAX_HEAD)

#define UNDO_MAX_INSERTION		4

/*
 * As a chain: the record that was added before, in the same insertion.  (For
 * undo_pack.h, a pointer that isn't known yet.)
 */
#define UNDO_CHAIN_PREVIOUS		(~(UndoRecPtr) 0)

typedef struct UndoInsertRec
{
	uint8		kind;
	uint8		flags;
	OffsetNumber offset;
	BlockNumber block;
	UndoRecPtr	chain;			/* previous record of the table page's slot */
	const char *payload;		/* must live until undo_insert_release() */
	uint16		payload_len;
	UndoRecPtr	urp;			/* out: set by undo_insert_prepare() */
	/* private */
	bool		chain_previous; /* chain is the record before */
	uint8		head_len;		/* what goes to the page before the payload */
	char		head[UNDO_MAX_HEAD];
} UndoInsertRec;

typedef struct UndoInsertion
{
	/* set by undo_insertion_init() */
	Oid			reloid;
	Oid			dboid;
	RelFileLocator locator;		/* of the table: foreground rollback finds it
								 * by this */
	char		persistence;
	/* set by undo_insertion_add() */
	int			nrecs;
	UndoInsertRec rec[UNDO_MAX_INSERTION];
	/* set by undo_insert_prepare(); private to undo_insert.c */
	Fxid		fxid;
	Buffer		buffer;
	UndoLogNumber log;
	uint16		start;			/* byte offset of the first byte to write */
	bool		lent;			/* logged without bytes that redo copies */
	bool		new_run;		/* a run header goes first */
	bool		new_relation;	/* and a relation entry */
	uint16		run;			/* byte offset of the run header */
	uint8		run_len;
	char		run_head[UNDO_MAX_RUN];
	char		wal_header[112];
} UndoInsertion;

extern void undo_insertion_init(UndoInsertion *ins, Relation rel);
extern int	undo_insertion_add(UndoInsertion *ins, uint8 kind, uint8 flags,
							   BlockNumber block, OffsetNumber offset,
							   UndoRecPtr chain, const char *payload,
							   uint16 payload_len);

/*
 * A payload whose bytes are only known after the page was prepared may be
 * changed in place until undo_insert_apply(), its length may not.
 *
 * undo_insert_register: block_id 0 says that there is no table page; else the
 * table page was registered before, as block 0.  Runs in critical sections.
 * offset, if it isn't 0, is the row's that the client's main data tells: redo
 * is given it again.
 */
extern void undo_insert_prepare(UndoInsertion *ins);
extern void undo_insert_apply(UndoInsertion *ins);
extern void undo_insert_register(UndoInsertion *ins, uint8 block_id,
								 OffsetNumber offset);
extern void undo_insert_set_lsn(UndoInsertion *ins, XLogRecPtr lsn);
extern void undo_insert_log_alone(UndoInsertion *ins);
extern void undo_insert_release(UndoInsertion *ins);

/*
 * To be called before a change, with no buffer locked: waits for the discard,
 * and throws 53400, if undo has outgrown zheap.max_undo_size.
 */
extern bool undo_room_wanted;
extern void undo_holders_wait_for_room(void);

static inline void
undo_check_room(void)
{
	if (unlikely(undo_room_wanted))
		undo_holders_wait_for_room();
}

/* what keeps undo (undo_holders.c) */
typedef enum UndoHolderKind
{
	UNDO_HOLDER_BACKEND,
	UNDO_HOLDER_PREPARED,
	UNDO_HOLDER_REPLICATION_SLOT,
	UNDO_HOLDER_STANDBY,
	UNDO_HOLDER_PENDING_ROLLBACK,
	UNDO_HOLDER_DAMAGED_LOG
} UndoHolderKind;

typedef struct UndoHolder
{
	UndoHolderKind kind;
	int			pid;			/* 0: none */
	char	   *name;			/* gid or name of the replication slot; log
								 * and block; or NULL */
	Fxid		oldest;			/* keeps undo of writers from here on */
	bool		is_writer;		/* oldest is its own xid */
	uint64		bytes;			/* of undo that goes when it ends */
	uint64		held_bytes;		/* that it needs, maybe beside others */
} UndoHolder;

extern List *undo_holders(void);
extern const char *undo_holders_kind_name(UndoHolderKind kind);

/*
 * Bytes of a payload that stand on a page of the table's, too.  The ranges are
 * in order and don't overlap.
 */
typedef struct UndoLent
{
	uint16		at;				/* in the payload */
	uint16		from;			/* on the page */
	uint16		len;
} UndoLent;

#define UNDO_MAX_LENT		64
#define UNDO_MIN_LENT		32

/*
 * As undo_insert_log_alone(), of one record, in whose stead redo copies the
 * lent bytes from the table's page, if that is safe (U24).  The page is
 * exclusively locked and dirty; it gets the record's LSN, and keeps these bytes
 * until its next WAL record.
 */
extern void undo_insert_log_lent(UndoInsertion *ins, Buffer source,
								 const UndoLent *lent, int n);

/*
 * undo_images.c: XLogInsert() of whatever changes a page of the table's, or the
 * same for core's records: "before" is ProcLastRecPtr before they were
 * inserted.  The page is still locked (U24).
 */
extern XLogRecPtr undo_images_insert(uint8 info);
extern void undo_images_note(XLogRecPtr before);

/*
 * The file of a table was copied as it is, pages with their positions.  WAL has
 * no image of them if wal_level is minimal.
 */
extern void undo_images_note_copied(void);

/* may a record rely on it that redo finds a page as it is now (U24) */
extern bool undo_images_are_complete(void);

/*
 * Redo: a copy of a page that a record names without changing it.  False: the
 * page isn't the one of then.
 */
extern bool undo_images_redo_read(XLogReaderState *record, uint8 block_id,
								  char *copy);

/*
 * Byte offset on its undo page of record i: main data of the client's WAL
 * record must carry it (U7: the table page's redo needs the URP although
 * the undo block's data may have been dropped).
 */
#define undo_insertion_offset(ins, i)	UndoRecPtrGetOffset((ins)->rec[i].urp)

/*
 * Redo: rebuild the undo page of a record that registered it as block_id
 * (locks, applies, sets LSN, releases).  first_offset is the byte offset of
 * record 0 as logged in the client's main data.  table_block[0] is the block
 * number of the table page that record 0 belongs to, [1] that of the others.
 * table_offset is what undo_insert_register() was given.
 */
extern void undo_insert_redo(XLogReaderState *record, uint8 block_id,
							 uint16 first_offset,
							 const BlockNumber *table_block,
							 OffsetNumber table_offset);

/* URP of a record in redo: block reference's tag + logged byte offset */
extern UndoRecPtr undo_insert_redo_urp(XLogReaderState *record, uint8 block_id,
									   uint16 offset);

/* ----------------------------------------------------------------
 *	reading (undo_record.c)
 * ----------------------------------------------------------------
 */

/* a record, copied */
typedef struct UndoRecord
{
	UndoRecPtr	urp;
	uint8		kind;
	uint8		flags;
	OffsetNumber offset;
	BlockNumber block;
	UndoRecPtr	chain;
	Fxid		writer;			/* from the run header */
	Oid			reloid;
	Oid			dboid;
	uint16		len;			/* bytes on the undo page */
	uint16		payload_len;
	const char *payload;		/* into data[], not aligned */
	char		data[UNDO_MAX_PAYLOAD];
} UndoRecord;

/*
 * Keeps the last undo page pinned between fetches.  Must be closed before the
 * AM call ends and before any wait (U16).  Errors and aborts release the
 * pin through the resource owner.
 */
typedef struct UndoReader
{
	char		persistence;
	Buffer		buffer;
	UndoLogNumber log;
	BlockNumber block;
} UndoReader;

extern void undo_record_reader_open(UndoReader *reader, Relation rel);
extern void undo_record_reader_close(UndoReader *reader);

/*
 * Copy the record at urp, which writer is expected to have written on behalf
 * of table block "block".
 *
 * held = true: the record cannot have been discarded (its writer is aborted
 * and the table page is locked); anything unexpected is reported as corruption
 * (ERRCODE_DATA_CORRUPTED, naming log, block, offset). held = false: after the
 * copy was taken discard_before is read again; returns false if writer <
 * discard_before (its undo may be gone and, being committed, it is visible to
 * all, U3), else as above.
 */
extern bool undo_record_fetch(UndoReader *reader, UndoRecPtr urp, Fxid writer,
							  BlockNumber block, bool held, UndoRecord *rec);

/*
 * A reader that is going to fetch records from several places says so, for all
 * of them in one go, then for all of them again: their waits for memory
 * overlap. Hints; never wrong, never throw.  (undo_shmem.c)
 */
extern void undo_file_expect(char persistence, UndoRecPtr urp);
extern void undo_file_expect_page(char persistence, UndoRecPtr urp);

/* ----------------------------------------------------------------
 *	rollback (undo_apply.c)
 * ----------------------------------------------------------------
 */

/*
 * The client's rollback of one table page: takes back the changes of every
 * aborted owner of the page, in batches, until none is left.  rel may be a
 * hand-made relcache entry (no tuple descriptor, no indexes).  Called without
 * locks on the page; may raise ERROR on corruption; writes no undo.  A page
 * that is new, beyond the end or not the client's is left alone.
 */
typedef void (*undo_rollback_page_fn) (Relation rel, BlockNumber block);

extern void undo_apply_register_client(undo_rollback_page_fn rollback_page,
									   Oid (*client_am_oid) (void));

/*
 * After an error that was caught without a subtransaction: give back locks on
 * buffers and LWLocks, and whatever else no resource owner knows of.
 */
extern void undo_recover_from_error(void);

/* for use by the client's own rollback code: relation without a catalog */
extern Relation undo_fake_relation(RelFileLocator locator, char persistence,
								   Oid reloid);
extern void undo_fake_relation_free(Relation rel);

/* the client has rolled back all of a page (undo_stat.c) */
extern void undo_stat_count_rollback_page(void);

/* ----------------------------------------------------------------
 *	zheap.max_snapshot_undo_size (undo_snapshot_limit.c)
 * ----------------------------------------------------------------
 */

/* how many sessions are asked to give up their snapshots */
extern pg_atomic_uint32 *undo_snapshots_asked;

/* ERROR 72000 if mine is asked for; in a critical section it may not be called */
extern void undo_snapshot_limit_give_up(void);

static inline void
undo_check_snapshot(void)
{
	if (unlikely(pg_atomic_read_u32(undo_snapshots_asked) != 0))
		undo_snapshot_limit_give_up();
}

/* In PG_CATCH: throws that error if the one caught is the cancelling of it. */
extern void undo_snapshot_limit_translate(void);

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

#endif							/* UNDO_H */
