/*-------------------------------------------------------------------------
 *
 * undo_record.c
 *	  Reading undo records: pin, copy, believe.
 *
 * A pointer may be stale and hit anything: bytes of another record, a page
 * recycled since, a block cut off.  So a record is first copied, bounded,
 * under the page's share lock; then the horizon is read again; only then is
 * the copy judged (rules W13, W19, M7).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_log.h"

void
undo_reader_open(UndoReader *reader, Relation rel)
{
	reader->persistence = rel->rd_rel->relpersistence;
	reader->buffer = InvalidBuffer;
	reader->log = 0;
	reader->block = InvalidBlockNumber;
	reader->run = 0;
}

void
undo_reader_close(UndoReader *reader)
{
	if (BufferIsValid(reader->buffer))
		ReleaseBuffer(reader->buffer);
	reader->buffer = InvalidBuffer;
}

/* Pin the page of urp, keeping the last one; false if there is no such block. */
static bool
pin_page(UndoReader *reader, UndoRecPtr urp)
{
	UndoLogNumber log = UndoRecPtrGetLog(urp);
	BlockNumber block = UndoRecPtrGetBlock(urp);

	if (BufferIsValid(reader->buffer) &&
		reader->log == log && reader->block == block)
		return true;
	undo_reader_close(reader);
	if ((log == UNDO_TEMP_LOG) != (reader->persistence == RELPERSISTENCE_TEMP))
		return false;
	if (block == 0 || block >= undo_log_used_blocks(reader->persistence, log))
		return false;
	reader->buffer = undo_log_read(reader->persistence, log, block);
	reader->log = log;
	reader->block = block;
	reader->run = 0;
	return true;
}

#if defined(__GNUC__)
#define prefetch(p)		__builtin_prefetch(p)
#else
#define prefetch(p)		((void) 0)
#endif

/*
 * Have the record's run header in the reader.  It is immutable as long as the
 * page has the same number, but for a bit that no reader asks for; between two
 * fetches the page is pinned only, and may be recycled.
 */
static bool
read_run(UndoReader *reader, Page page, uint16 at)
{
	uint64		seq = UndoPageGetOpaque(page)->seq;
	UndoEntry	run;

	if (reader->run == at && reader->run_seq == seq)
		return true;
	if (!undo_page_get(page, at, &run) || run.kind != UNDO_KIND_RUN)
		return false;
	reader->run = at;
	reader->run_seq = seq;
	reader->run_reloid = run.reloid;
	reader->run_dboid = run.dboid;
	reader->run_fxid = run.fxid;
	return true;
}

/*
 * Copy the record and what its run header says; the page is locked.  NULL or
 * what is wrong.
 */
static const char *
copy_locked(UndoReader *reader, Page page, UndoRecPtr urp, UndoRecord *rec)
{
	const char *problem = undo_page_problem(page, UNDO_PAGE_MAGIC);
	UndoEntry	entry;
	UndoEntryRest rest;

	if (problem != NULL)
		return problem;
	if (!undo_page_get(page, UndoRecPtrGetOffset(urp), &entry) ||
		entry.kind == UNDO_KIND_RUN ||
		!undo_page_get_rest(&entry, urp, &rest) ||
		rest.payload_len > sizeof(rec->data))
		return "there is no undo record at this offset";
	if (!read_run(reader, page, entry.run))
		return "the undo record has no run header";

	rec->urp = urp;
	rec->kind = entry.kind;
	rec->flags = rest.flags;
	rec->offset = rest.offset;
	rec->block = entry.block;
	rec->chain = rest.chain;
	rec->writer = reader->run_fxid;
	rec->reloid = reader->run_reloid;
	rec->dboid = reader->run_dboid;
	rec->len = entry.len;
	rec->payload_len = rest.payload_len;
	rec->payload = rec->data;
	memcpy(rec->data, rest.payload, rest.payload_len);
	return NULL;
}

/* Copy record and run header under the share lock.  NULL or what is wrong. */
static const char *
copy_record(UndoReader *reader, UndoRecPtr urp, UndoRecord *rec)
{
	Page		page = BufferGetPage(reader->buffer);
	const char *problem;

	/* three places, seldom in a cache: have them fetched at the same time */
	prefetch((char *) page + UndoRecPtrGetOffset(urp));
	prefetch((char *) page + BLCKSZ - sizeof(UndoPageOpaqueData));
	LockBuffer(reader->buffer, BUFFER_LOCK_SHARE);
	problem = copy_locked(reader, page, urp, rec);
	LockBuffer(reader->buffer, BUFFER_LOCK_UNLOCK);
	return problem;
}

static void
report_corruption(UndoReader *reader, UndoRecPtr urp, Fxid writer,
				  BlockNumber block, const char *problem)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("undo record " UndoRecPtrFormat " cannot be read: %s",
					UndoRecPtrFormatArgs(urp), problem),
			 errdetail("Expected a record of transaction " UINT64_FORMAT
					   " for table block %u, persistence \"%c\".",
					   writer, block, reader->persistence)));
}

bool
undo_fetch(UndoReader *reader, UndoRecPtr urp, Fxid writer,
		   BlockNumber block, bool held, UndoRecord *rec)
{
	const char *problem;

	Assert(writer != InvalidFxid);

	/* cheap: undo that is known to be gone needn't be looked for */
	if (!held && writer < undo_log_horizon(reader->persistence))
		return false;

	if (!UndoRecPtrIsValid(urp))
		problem = "the pointer is null";
	else if (!pin_page(reader, urp))
		problem = "the block is beyond the end of the undo log";
	else
		problem = copy_record(reader, urp, rec);

	/*
	 * The horizon after the copy: a page is reused only after the horizon was
	 * published, and the content lock orders the two.
	 */
	pg_read_barrier();
	if (!held && writer < undo_log_horizon(reader->persistence))
		return false;

	if (problem == NULL && rec->writer != writer)
		problem = "the undo record is of another transaction";
	else if (problem == NULL && rec->block != block)
		problem = "the undo record is of another table block";
	if (problem != NULL)
		report_corruption(reader, urp, writer, block, problem);
	return true;
}
