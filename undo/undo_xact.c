/*-------------------------------------------------------------------------
 *
 * undo_xact.c
 *	  Undo of the running transaction: writing records, and what happens to
 *	  them when a transaction or subtransaction ends.
 *
 * A backend attaches a log when its transaction first writes undo and gives
 * it back at the end (COMMIT, ABORT and PREPARE alike, W18).  It remembers
 * which table pages it wrote undo for, so that an abort can roll a few of
 * them back at once; what is more, or fails, is left to the workers, who find
 * it by scanning the logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "undo/undo_log.h"
#include "undo/undo_pack.h"

#define MAX_FOREGROUND_PAGES	64

/* main data of XLOG_UNDO_INSERT; block 0 is the undo page, with data as below */
typedef struct xl_undo_insert
{
	uint16		first_offset;
	BlockNumber table_block[UNDO_MAX_INSERTION];
} xl_undo_insert;

/*
 * Data of the undo block in any WAL record, packed (undo_pack.h):
 *
 *	flags u8
 *	new run:	reloid (nothing if RELOID_IS_FILE; as a difference from the
 *				file number of the table's block 0; or, ALONE, as it is) and,
 *				ALONE, dboid
 *	else:		distance from the run header to the first record
 *	each record: kind u8, with a bit that tells whether there is a chain |
 *				flags u8 | offset | chain, relative to the record's page |
 *				length of the payload, unless it is the last record | payload
 *
 * What can be seen from the reference to the table's block, which is block 0
 * of the client's record, isn't logged again, nor is what the undo page itself
 * makes of it: number of the relation, base of the xid, lengths.
 */
#define UNDO_WAL_NEW_RUN		0x01
#define UNDO_WAL_TWO			0x02	/* two records */
#define UNDO_WAL_ALONE			0x04	/* there is no table block */
#define UNDO_WAL_RELOID_IS_FILE	0x08

#define UNDO_WAL_KIND_CHAIN		0x80	/* with the kind */

/* setting, kB */
static int	rollback_foreground_size = 256;

/* a log this transaction writes to */
typedef struct AttachedLog
{
	bool		attached;
	UndoLogNumber log;
	Buffer		recent;			/* tail buffer, a hint */
	/* the run last written, which later records may join */
	Fxid		run_fxid;
	Oid			run_reloid;
	BlockNumber run_block;
	uint64		run_seq;		/* of the page: blocks are recycled */
	uint16		run_at;
	bool		suspect;		/* its pages can't be read: retire it */
} AttachedLog;

static AttachedLog logs[3];

static const char persistence_of[3] = {
	RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED, RELPERSISTENCE_TEMP
};

/* what the nest levels of the running transaction wrote (ascending levels) */
typedef struct LevelState
{
	int			nest_level;
	int			npages;
	uint64		bytes;
	bool		overflow;		/* not everything was remembered */
} LevelState;

static LevelState *levels;
static int	nlevels;
static int	maxlevels;

static UndoTouchedPage *pages;
static int	npages;
static int	maxpages;

static UndoTouchedRun *runs;
static int	nruns;
static int	maxruns;

static bool in_abort_callback = false;
static bool top_is_aborting = false;

/* temporary undo whose rollback failed keeps the temporary log from restarting */
static bool temp_rollback_failed = false;

static int
which_log(char persistence)
{
	return persistence == RELPERSISTENCE_PERMANENT ? 0 :
		persistence == RELPERSISTENCE_UNLOGGED ? 1 : 2;
}

bool
undo_top_is_aborting(void)
{
	return top_is_aborting;
}

/* ----------------------------------------------------------------
 *	what was touched
 * ----------------------------------------------------------------
 */

static void *
grow(void *array, int *max, Size size)
{
	if (array == NULL)
	{
		*max = 64;
		return MemoryContextAlloc(TopMemoryContext, *max * size);
	}
	*max *= 2;
	return repalloc_huge(array, *max * size);
}

/* The state of the current nest level; may allocate. */
static LevelState *
current_level(void)
{
	int			nest_level = GetCurrentTransactionNestLevel();
	LevelState *level;

	if (nlevels > 0 && levels[nlevels - 1].nest_level == nest_level)
		return &levels[nlevels - 1];
	Assert(nlevels == 0 || levels[nlevels - 1].nest_level < nest_level);
	if (nlevels == maxlevels)
		levels = grow(levels, &maxlevels, sizeof(LevelState));
	level = &levels[nlevels++];
	memset(level, 0, sizeof(*level));
	level->nest_level = nest_level;
	return level;
}

/* Allocate all that remember() will need. */
static void
reserve_memory(void)
{
	current_level();
	while (npages + UNDO_MAX_INSERTION > maxpages)
		pages = grow(pages, &maxpages, sizeof(UndoTouchedPage));
	while (nruns + 1 > maxruns)
		runs = grow(runs, &maxruns, sizeof(UndoTouchedRun));
}

static bool
is_unlimited(char persistence)
{
	return persistence == RELPERSISTENCE_TEMP || !IsUnderPostmaster;
}

static void
remember_page(UndoInsertion *ins, BlockNumber block, LevelState *level)
{
	UndoTouchedPage *page;

	/* runs of changes hit the same few pages: look at the last ones only */
	for (int i = npages - 1; i >= 0 && i >= npages - 4; i--)
	{
		page = &pages[i];
		if (page->block == block && page->nest_level == level->nest_level &&
			page->persistence == ins->persistence &&
			RelFileLocatorEquals(page->locator, ins->locator))
			return;
	}
	page = &pages[npages++];
	page->locator = ins->locator;
	page->reloid = ins->reloid;
	page->block = block;
	page->nest_level = level->nest_level;
	page->persistence = ins->persistence;
	if (!is_unlimited(ins->persistence))
		level->npages++;
}

/* After an insertion: note its pages and its run.  Allocates nothing. */
static void
remember(UndoInsertion *ins, uint16 bytes)
{
	LevelState *level = &levels[nlevels - 1];

	if (!is_unlimited(ins->persistence))
	{
		level->bytes += bytes;
		if (level->npages >= MAX_FOREGROUND_PAGES ||
			level->bytes > (uint64) rollback_foreground_size * 1024)
			level->overflow = true;
		if (level->overflow)
			return;
	}
	for (int i = 0; i < ins->nrecs; i++)
		remember_page(ins, ins->rec[i].block, level);
	if (ins->new_run && ins->persistence != RELPERSISTENCE_TEMP)
	{
		UndoTouchedRun *run = &runs[nruns++];

		run->urp = MakeUndoRecPtr(ins->log, BufferGetBlockNumber(ins->buffer),
								  ins->run);
		run->nest_level = level->nest_level;
		run->persistence = ins->persistence;
	}
}

/* ----------------------------------------------------------------
 *	inserting
 * ----------------------------------------------------------------
 */
void
undo_insertion_init(UndoInsertion *ins, Relation rel)
{
	ins->reloid = RelationGetRelid(rel);
	ins->locator = RelationLocator(rel);
	ins->dboid = RelLocatorDb(ins->locator);
	ins->persistence = rel->rd_rel->relpersistence;
	ins->nrecs = 0;
	ins->buffer = InvalidBuffer;
}

int
undo_insertion_add(UndoInsertion *ins, uint8 kind, uint8 flags,
				   BlockNumber block, OffsetNumber offset, UndoRecPtr chain,
				   const char *payload, uint16 payload_len)
{
	UndoInsertRec *rec;

	if (ins->nrecs >= UNDO_MAX_INSERTION)
		elog(ERROR, "too many undo records in one operation");
	Assert(kind != 0 && kind <= UNDO_MAX_KIND);
	if (payload_len > UNDO_MAX_PAYLOAD)
		elog(ERROR, "undo record of %u bytes is too long", payload_len);
	rec = &ins->rec[ins->nrecs];
	rec->kind = kind;
	rec->flags = flags;
	rec->block = block;
	rec->offset = offset;
	rec->chain = chain;
	rec->chain_previous = chain == UNDO_CHAIN_PREVIOUS && ins->nrecs > 0;
	rec->payload = payload;
	rec->payload_len = payload_len;
	rec->urp = InvalidUndoRecPtr;
	return ins->nrecs++;
}

/* bytes that the insertion takes of a page, at most */
static int
max_size(const UndoInsertion *ins)
{
	int			size = UNDO_MAX_RUN;

	for (int i = 0; i < ins->nrecs; i++)
		size += UNDO_MAX_HEAD + ins->rec[i].payload_len;
	return size;
}

static void
drop_temp_at_exit(int code, Datum arg)
{
	AbortOutOfAnyTransaction();
	undo_log_drop_temp();
}

static AttachedLog *
attach_log(char persistence)
{
	AttachedLog *att = &logs[which_log(persistence)];

	if (!att->attached)
	{
		att->log = undo_log_attach(persistence);
		if (persistence == RELPERSISTENCE_TEMP)
		{
			static bool registered = false;

			/* the file goes after the last abort had its use of it (W34) */
			if (!registered)
				before_shmem_exit(drop_temp_at_exit, (Datum) 0);
			registered = true;

			/*
			 * Nothing of an earlier transaction of this session can be asked
			 * for: start over, unless a failed rollback still needs it.
			 */
			if (!temp_rollback_failed)
				undo_log_restart_temp(U64FromFullTransactionId(GetTopFullTransactionId()));
		}
		att->run_fxid = InvalidFxid;
		att->suspect = false;
		att->recent = InvalidBuffer;
		att->attached = true;
	}
	return att;
}

/*
 * An error while a page of the log was wanted: if the log's pages can't be
 * read the log is given up at the end of the transaction, lest it fail every
 * writer that attaches it.  A full disk, memory or a buffer pool that is all
 * pinned is nothing against the log.
 */
static void
suspect_log(AttachedLog *att)
{
	int			code = geterrcode();

	if (code == ERRCODE_DATA_CORRUPTED || code == ERRCODE_IO_ERROR)
		att->suspect = true;
}

/* The page with the number of the tail, pinned. */
static Buffer
pin_tail(AttachedLog *att, char persistence, BlockNumber tail)
{
	Buffer		buffer = InvalidBuffer;

	if (persistence != RELPERSISTENCE_TEMP && BufferIsValid(att->recent) &&
		ReadRecentBuffer(undo_log_locator(persistence, att->log),
						 MAIN_FORKNUM, tail, att->recent))
		return att->recent;

	PG_TRY();
	{
		buffer = undo_log_read(persistence, att->log, tail);
	}
	PG_CATCH();
	{
		suspect_log(att);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return buffer;
}

/* The tail page, pinned and exclusively locked; Invalid if there is none. */
static Buffer
lock_tail(AttachedLog *att, char persistence, BlockNumber tail)
{
	Buffer		buffer;
	const char *problem;

	if (tail == InvalidBlockNumber)
		return InvalidBuffer;
	buffer = pin_tail(att, persistence, tail);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	problem = undo_page_problem(BufferGetPage(buffer), UNDO_PAGE_MAGIC);
	if (problem != NULL)
	{
		att->suspect = true;
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of undo log %u is damaged: %s",
						tail, att->log, problem)));
	}
	att->recent = buffer;
	return buffer;
}

/* The next page, pinned and exclusively locked. */
static Buffer
switch_page(AttachedLog *att, char persistence)
{
	Buffer		buffer = InvalidBuffer;

	PG_TRY();
	{
		buffer = undo_log_switch(persistence, att->log);
	}
	PG_CATCH();
	{
		suspect_log(att);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return buffer;
}

/*
 * May the records join the run last written by this backend?  ins->buffer is
 * the tail, with number "tail".
 */
static bool
run_continues(AttachedLog *att, UndoInsertion *ins, BlockNumber tail)
{
	return att->run_fxid == ins->fxid && att->run_reloid == ins->reloid &&
		att->run_block == tail &&
		att->run_seq == UndoPageGetOpaque(BufferGetPage(ins->buffer))->seq;
}

/*
 * Form what goes to the page from byte offset ins->start on, where ins->run
 * is known unless the run is new; do and redo.  Returns whether there is room.
 */
static bool
form_insertion(UndoInsertion *ins, Page page, BlockNumber block)
{
	PageHeader	header = (PageHeader) page;
	int			at = ins->start;
	int			end = header->pd_upper;

	ins->run_len = 0;
	ins->new_relation = false;
	if (ins->new_run)
	{
		ins->run = at;
		ins->run_len = undo_page_form_run(page, ins->reloid, ins->dboid,
										  ins->fxid, ins->run_head,
										  &ins->new_relation);
		at += ins->run_len;
		if (ins->new_relation)
			end -= sizeof(UndoPageRelation);
	}
	for (int i = 0; i < ins->nrecs; i++)
	{
		UndoInsertRec *rec = &ins->rec[i];

		/* no pointer could tell of more */
		if (at + UNDO_MAX_HEAD + rec->payload_len > BLCKSZ)
			return false;
		rec->urp = MakeUndoRecPtr(ins->log, block, at);
		if (rec->chain_previous)
			rec->chain = ins->rec[i - 1].urp;
		undo_page_form_record(rec, ins->run);
		at += rec->head_len + rec->payload_len;
	}
	return at <= end;
}

void
undo_prepare(UndoInsertion *ins)
{
	AttachedLog *att;
	BlockNumber tail;
	Page		page;

	Assert(ins->nrecs > 0);
	Assert(!(MyProc->statusFlags & PROC_IN_VACUUM));
	Assert(!in_abort_callback);
	/* the leader of a parallel query may insert its result */
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("parallel workers cannot change rows of a zheap table")));
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_READ_ONLY_SQL_TRANSACTION),
				 errmsg("cannot write undo during recovery")));
	if (max_size(ins) > UNDO_PAGE_CAPACITY)
		elog(ERROR, "undo records of %d bytes don't fit a page", max_size(ins));

	reserve_memory();
	ins->fxid = undo_current_fxid();
	att = attach_log(ins->persistence);
	ins->log = att->log;

	tail = undo_log_tail(ins->persistence, ins->log);
	ins->buffer = lock_tail(att, ins->persistence, tail);
	if (BufferIsValid(ins->buffer))
	{
		page = BufferGetPage(ins->buffer);
		ins->new_run = !run_continues(att, ins, tail);
		ins->run = att->run_at;
		ins->start = ((PageHeader) page)->pd_lower;
		if (!form_insertion(ins, page, tail))
		{
			UnlockReleaseBuffer(ins->buffer);
			ins->buffer = InvalidBuffer;
		}
	}
	if (!BufferIsValid(ins->buffer))
	{
		ins->buffer = switch_page(att, ins->persistence);
		att->recent = ins->buffer;
		page = BufferGetPage(ins->buffer);
		ins->new_run = true;
		ins->start = ((PageHeader) page)->pd_lower;
		if (!form_insertion(ins, page, BufferGetBlockNumber(ins->buffer)))
			elog(ERROR, "undo records don't fit an empty page");
	}
	UNDO_POINT("prepared");
}

/*
 * Write run header and records as they were formed; shared by do and redo.
 */
static void
apply_insertion(UndoInsertion *ins, Page page)
{
	uint16		at = ins->start;

	if (ins->new_relation)
		undo_page_add_relation(page, ins->reloid, ins->dboid);
	if (ins->new_run)
		undo_page_put(page, at, ins->run_head, ins->run_len);
	at += ins->run_len;
	for (int i = 0; i < ins->nrecs; i++)
	{
		UndoInsertRec *rec = &ins->rec[i];

		Assert(at == UndoRecPtrGetOffset(rec->urp));
		undo_page_put(page, at, rec->head, rec->head_len);
		at += rec->head_len;
		undo_page_put(page, at, rec->payload, rec->payload_len);
		at += rec->payload_len;
	}
	((PageHeader) page)->pd_lower = at;
	undo_page_note_writer(page, ins->fxid);
}

void
undo_insert(UndoInsertion *ins)
{
	apply_insertion(ins, BufferGetPage(ins->buffer));
	MarkBufferDirty(ins->buffer);
}

/*
 * Runs in critical sections.  A joined run's offset must be known to redo; it
 * is not derivable from the page (which may be restored from an image).
 */
void
undo_register(UndoInsertion *ins, uint8 block_id)
{
	char	   *start = ins->wal_header;
	char	   *p = start + 1;
	uint8		flags = ins->new_run ? UNDO_WAL_NEW_RUN : 0;
	RelFileNumber file = RelLocatorNumber(ins->locator);

	XLogRegisterBuffer(block_id, ins->buffer, REGBUF_STANDARD);

	if (!ins->new_run)
		p = undo_pack(p, undo_insertion_offset(ins, 0) - ins->run);
	else if (block_id == 0)
	{
		flags |= UNDO_WAL_ALONE;
		p = undo_pack(p, ins->reloid);
		p = undo_pack(p, ins->dboid);
	}
	else if (ins->reloid == file)
		flags |= UNDO_WAL_RELOID_IS_FILE;
	else
		p = undo_pack(p, undo_zigzag(file, ins->reloid));

	for (int i = 0; i < ins->nrecs; i++)
	{
		UndoInsertRec *rec = &ins->rec[i];

		*p++ = (char) (rec->kind |
					   (UndoRecPtrIsValid(rec->chain) ? UNDO_WAL_KIND_CHAIN : 0));
		*p++ = (char) rec->flags;
		p = undo_pack(p, rec->offset);
		if (UndoRecPtrIsValid(rec->chain))
			p = undo_pack_urp(p, rec->urp, rec->chain);
		if (i < ins->nrecs - 1)
		{
			flags |= UNDO_WAL_TWO;
			p = undo_pack(p, rec->payload_len);
		}
		XLogRegisterBufData(block_id, start, p - start);
		start = p;
		if (rec->payload_len > 0)
			XLogRegisterBufData(block_id, unconstify(char *, rec->payload),
								rec->payload_len);
	}
	/* XLogInsert copies, so the first byte may still be set */
	ins->wal_header[0] = (char) flags;
	Assert(p - ins->wal_header <= sizeof(ins->wal_header));
}

void
undo_set_lsn(UndoInsertion *ins, XLogRecPtr lsn)
{
	PageSetLSN(BufferGetPage(ins->buffer), lsn);
}

void
undo_log_alone(UndoInsertion *ins)
{
	xl_undo_insert xlrec = {0};

	if (ins->persistence != RELPERSISTENCE_PERMANENT)
		return;
	xlrec.first_offset = undo_insertion_offset(ins, 0);
	for (int i = 0; i < ins->nrecs; i++)
		xlrec.table_block[i] = ins->rec[i].block;
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, sizeof(xlrec));
	undo_register(ins, 0);
	undo_set_lsn(ins, XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_INSERT));
}

void
undo_release(UndoInsertion *ins)
{
	AttachedLog *att = &logs[which_log(ins->persistence)];
	uint16		bytes =
		((PageHeader) BufferGetPage(ins->buffer))->pd_lower - ins->start +
		(ins->new_relation ? sizeof(UndoPageRelation) : 0);

	if (ins->new_run)
	{
		att->run_fxid = ins->fxid;
		att->run_reloid = ins->reloid;
		att->run_block = BufferGetBlockNumber(ins->buffer);
		att->run_seq = UndoPageGetOpaque(BufferGetPage(ins->buffer))->seq;
		att->run_at = ins->run;
	}
	remember(ins, bytes);
	if (ins->persistence != RELPERSISTENCE_TEMP)
	{
		UndoLogShared *log = undo_log_get(ins->persistence, ins->log);

		pg_atomic_write_u64(&log->bytes_written,
							pg_atomic_read_u64(&log->bytes_written) + bytes);
	}
	UnlockReleaseBuffer(ins->buffer);
	ins->buffer = InvalidBuffer;
	UNDO_POINT("inserted");
}

/* ----------------------------------------------------------------
 *	redo
 * ----------------------------------------------------------------
 */
UndoRecPtr
undo_redo_urp(XLogReaderState *record, uint8 block_id, uint16 offset)
{
	RelFileLocator locator;
	BlockNumber block;

	XLogRecGetBlockTag(record, block_id, &locator, NULL, &block);
	Assert(RelLocatorDb(locator) == UNDO_DATABASE);
	return MakeUndoRecPtr(RelLocatorNumber(locator) - UNDO_PERMANENT_BASE,
						  block, offset);
}

/* the next number of an insertion's data */
static uint64
decode_number(const char **p, const char *end)
{
	uint64		value = 0;

	*p = undo_unpack(*p, end, &value);
	if (*p == NULL)
		elog(PANIC, "undo block data of a WAL record is malformed");
	return value;
}

static void
decode_run(const char **p, const char *end, uint8 flags, uint16 first_offset,
		   XLogReaderState *record, UndoInsertion *ins)
{
	RelFileLocator table;

	if (!ins->new_run)
	{
		uint64		back = decode_number(p, end);

		if (back == 0 || back + UNDO_FIRST_OFFSET > first_offset)
			elog(PANIC, "undo block data of a WAL record names no run header");
		ins->run = first_offset - back;
		return;
	}
	if (flags & UNDO_WAL_ALONE)
	{
		ins->reloid = decode_number(p, end);
		ins->dboid = decode_number(p, end);
		return;
	}
	XLogRecGetBlockTag(record, 0, &table, NULL, NULL);
	ins->dboid = RelLocatorDb(table);
	ins->reloid = RelLocatorNumber(table);
	if ((flags & UNDO_WAL_RELOID_IS_FILE) == 0)
		ins->reloid = undo_unzigzag(ins->reloid, decode_number(p, end));
}

/* Take an insertion apart as undo_register() put it together. */
static void
decode_insertion(XLogReaderState *record, uint8 block_id,
				 uint16 first_offset, const BlockNumber *table_block,
				 UndoInsertion *ins)
{
	Size		len;
	const char *p = XLogRecGetBlockData(record, block_id, &len);
	const char *end = p + len;
	UndoRecPtr	first = undo_redo_urp(record, block_id, first_offset);
	uint8		flags;

	if (p == NULL || len == 0)
		elog(PANIC, "undo block data of a WAL record is missing");
	flags = (uint8) *p++;
	ins->new_run = (flags & UNDO_WAL_NEW_RUN) != 0;
	ins->nrecs = (flags & UNDO_WAL_TWO) ? 2 : 1;
	ins->log = UndoRecPtrGetLog(first);
	decode_run(&p, end, flags, first_offset, record, ins);

	for (int i = 0; i < ins->nrecs; i++)
	{
		UndoInsertRec *rec = &ins->rec[i];
		bool		has_chain;

		if (end - p < 2)
			elog(PANIC, "undo block data of a WAL record is malformed");
		rec->kind = (uint8) *p & ~UNDO_WAL_KIND_CHAIN;
		has_chain = ((uint8) *p++ & UNDO_WAL_KIND_CHAIN) != 0;
		rec->flags = (uint8) *p++;
		rec->offset = decode_number(&p, end);
		rec->block = table_block[i];
		rec->chain = InvalidUndoRecPtr;
		rec->chain_previous = false;
		/* records of one insertion are on one page */
		if (has_chain)
			p = undo_unpack_urp(p, end, first, &rec->chain);
		if (p == NULL || rec->kind == 0 || rec->kind > UNDO_MAX_KIND)
			elog(PANIC, "undo block data of a WAL record is malformed");
		rec->payload_len = i < ins->nrecs - 1 ? decode_number(&p, end) :
			end - p;
		if (rec->payload_len > end - p)
			elog(PANIC, "undo block data of a WAL record has the wrong length");
		rec->payload = p;
		p += rec->payload_len;
	}
}

void
undo_redo_insert(XLogReaderState *record, uint8 block_id, uint16 first_offset,
				 const BlockNumber *table_block)
{
	Buffer		buffer;

	if (XLogReadBufferForRedo(record, block_id, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		UndoInsertion ins;

		decode_insertion(record, block_id, first_offset, table_block, &ins);
		ins.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
		ins.start = ((PageHeader) page)->pd_lower;
		if ((!ins.new_run && ins.start != first_offset) ||
			!form_insertion(&ins, page, BufferGetBlockNumber(buffer)) ||
			undo_insertion_offset(&ins, 0) != first_offset)
			ereport(PANIC,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("undo page %u ends at byte %u, but WAL goes on with a record at byte %u",
							BufferGetBlockNumber(buffer), ins.start,
							first_offset),
					 errhint("The undo page was changed outside WAL, or WAL is missing.")));
		apply_insertion(&ins, page);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	UNDO_POINT("redo-undo-page");
}

void
undo_redo(XLogReaderState *record)
{
	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) == XLOG_UNDO_INSERT)
	{
		xl_undo_insert xlrec;

		memcpy(&xlrec, XLogRecGetData(record), sizeof(xlrec));
		undo_redo_insert(record, 0, xlrec.first_offset, xlrec.table_block);
	}
	else
		undo_log_redo(record);
}

/* ----------------------------------------------------------------
 *	end of transactions
 * ----------------------------------------------------------------
 */

/* Roll back, as far as limits allow, pages [first_page..) and runs of them. */
static void
rollback_from(int first_page, int first_run, bool overflow)
{
	UndoTouchedPage *batch = pages + first_page;
	int			n = npages - first_page;
	int			ntemp = 0;
	int			nbatch_runs = nruns - first_run;

	/* forget first: a second call must do nothing (W20) */
	npages = first_page;
	nruns = first_run;

	in_abort_callback = true;
	/* temporary pages to the front: they are done whatever their number */
	for (int i = 0; i < n; i++)
	{
		if (batch[i].persistence == RELPERSISTENCE_TEMP)
		{
			UndoTouchedPage swap = batch[ntemp];

			batch[ntemp++] = batch[i];
			batch[i] = swap;
		}
	}
	if (ntemp > 0 && !undo_apply_foreground(batch, ntemp, NULL, 0, true))
		temp_rollback_failed = true;
	if (overflow)
		undo_wake_worker();
	else if (n > ntemp)
		undo_apply_foreground(batch + ntemp, n - ntemp,
							  runs + first_run, nbatch_runs,
							  !IsUnderPostmaster);
	in_abort_callback = false;
}

/* Roll back what nest levels from "level" on wrote. */
static void
rollback_levels(int level)
{
	int			first_page = npages;
	int			first_run = nruns;
	bool		overflow = false;

	while (nlevels > 0 && levels[nlevels - 1].nest_level >= level)
		overflow |= levels[--nlevels].overflow;
	while (first_page > 0 && pages[first_page - 1].nest_level >= level)
		first_page--;
	while (first_run > 0 && runs[first_run - 1].nest_level >= level)
		first_run--;
	if (first_page < npages || overflow)
		rollback_from(first_page, first_run, overflow);
}

/* A subtransaction's undo becomes its parent's. */
static void
merge_level(int level)
{
	LevelState *child;

	for (int i = npages - 1; i >= 0 && pages[i].nest_level == level; i--)
		pages[i].nest_level--;
	for (int i = nruns - 1; i >= 0 && runs[i].nest_level == level; i--)
		runs[i].nest_level--;
	if (nlevels == 0 || levels[nlevels - 1].nest_level != level)
		return;
	child = &levels[nlevels - 1];
	if (nlevels > 1 && levels[nlevels - 2].nest_level == level - 1)
	{
		LevelState *parent = &levels[nlevels - 2];

		parent->npages += child->npages;
		parent->bytes += child->bytes;
		parent->overflow |= child->overflow;
		nlevels--;
	}
	else
		child->nest_level--;
}

/* Give all logs back; forget everything. */
static void
end_transaction(void)
{
	for (int i = 0; i < 3; i++)
	{
		if (!logs[i].attached)
			continue;
		logs[i].attached = false;
		if (logs[i].suspect)
			undo_log_retire(persistence_of[i], logs[i].log);
		else
			undo_log_detach(persistence_of[i], logs[i].log);
	}
	nlevels = npages = nruns = 0;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
			top_is_aborting = true;
			rollback_levels(1);
			top_is_aborting = false;
			end_transaction();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			end_transaction();
			break;
		default:
			break;				/* parallel workers write no undo */
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		rollback_levels(GetCurrentTransactionNestLevel());
		/* records of another xid must not join this run */
		for (int i = 0; i < 3; i++)
			logs[i].run_fxid = InvalidFxid;
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		merge_level(GetCurrentTransactionNestLevel());
}

void
undo_register_callbacks(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

void
undo_define_settings(void)
{
	DefineCustomIntVariable("zheap.undo_log_rest_size",
							"Size above which an undo log is drained and truncated before it is written again.",
							NULL, &undo_log_rest_size, 4096, 256, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.max_undo_size",
							"Undo above which transactions that want to write more of it fail.",
							"-1 means no limit. Rollback is never refused.",
							&undo_max_size, -1, -1, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.rollback_foreground_size",
							"Undo up to which an aborting session rolls back by itself.",
							"Larger transactions are rolled back by background workers.",
							&rollback_foreground_size, 256, 0, MAX_KILOBYTES,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
}
