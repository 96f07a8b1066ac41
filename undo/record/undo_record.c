/*-------------------------------------------------------------------------
 *
 * undo_record.c
 *	  Reading undo records: pin, copy, believe.
 *
 * A pointer may be stale and hit anything: bytes of another record, a page
 * recycled since, a block cut off.  So a record is first copied, bounded,
 * under the page's share lock; then the horizon is read again; only then is
 * the copy judged (U3, U11).
 *
 * A reader of several records of one page in a row gets the later ones from a
 * private copy of the page, without pin and lock.  The copy may be older than
 * the page.  What it holds is as true as ever: records are immutable, and
 * {persistence, writer, pointer} names one record for all time, since a page
 * is recycled only when none of its writers will write again.  What the copy
 * doesn't hold, or holds of another writer, is looked for on the page.  A copy
 * of what the page held before it was recycled isn't even asked: a pointer of
 * now may lead into the middle of a record of then, where a user's own bytes
 * may look like any other record.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "executor/instrument.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_page.h"
#include "undo/record/undo_gather.h"
#include "undo/record/undo_record.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"

void
undo_record_reader_open(UndoReader *reader, Relation rel)
{
	reader->persistence = rel->rd_rel->relpersistence;
	Assert(reader->persistence == RELPERSISTENCE_PERMANENT ||
		   reader->persistence == RELPERSISTENCE_UNLOGGED ||
		   reader->persistence == RELPERSISTENCE_TEMP);
	reader->buffer = InvalidBuffer;
	reader->log = 0;
	reader->block = InvalidBlockNumber;
	reader->gather = NULL;
}

void
undo_record_reader_close(UndoReader *reader)
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

	Assert(UndoRecPtrIsValid(urp));
	if (BufferIsValid(reader->buffer) &&
		reader->log == log && reader->block == block)
		return true;
	undo_record_reader_close(reader);
	if ((log == UNDO_TEMP_LOG) != (reader->persistence == RELPERSISTENCE_TEMP))
		return false;
	reader->buffer = undo_file_read_used(reader->persistence, log, block);
	if (!BufferIsValid(reader->buffer))
		return false;
	reader->log = log;
	reader->block = block;
	return true;
}

/*
 * Pages are copied when so many records in a row were read on them.  Reads
 * close to the end of a page don't count: a writer that looks at what it wrote
 * last would copy again and again a page that grows.
 */
#define COPY_AFTER		UNDO_KNOB("copy-after", 4, 1, 8)
#define COPY_NOT_NEAR	UNDO_KNOB("copy-not-near", 512, 0, 512)

/* the page last read from, and its copy */
static struct
{
	char		persistence;	/* 0: none */
	UndoLogNumber log;
	BlockNumber block;
	int			fetches;		/* in a row, without the copy's help */
	bool		copied;
	uint16		lower;			/* of the copy */
	Fxid		max_fxid;		/* likewise: no later writer is on it */
	/* a run header of the copy */
	uint16		run;
	Oid			reloid;
	Oid			dboid;
	Fxid		writer;
	PGAlignedBlock page;
}			recent;

/*
 * Copy a record out of a page that is good and can't change meanwhile, all but
 * what is in its run header, at *run.  False if there is no such record.
 */
static inline bool
get_record(Page page, UndoRecPtr urp, UndoRecord *rec, uint16 *run)
{
	UndoEntry	entry;
	UndoEntryRest rest;

	if (!undo_page_get(page, UndoRecPtrGetOffset(urp), &entry) ||
		entry.kind == UNDO_KIND_RUN ||
		!undo_page_get_rest(&entry, urp, &rest) ||
		rest.payload_len > sizeof(rec->data))
		return false;
	Assert(entry.run < entry.at && entry.at == UndoRecPtrGetOffset(urp));
	rec->urp = urp;
	rec->kind = entry.kind;
	rec->flags = rest.flags;
	rec->offset = rest.offset;
	rec->block = entry.block;
	rec->chain = rest.chain;
	rec->len = entry.len;
	rec->payload_len = rest.payload_len;
	rec->payload = rec->data;
	memcpy(rec->data, rest.payload, rest.payload_len);
	*run = entry.run;
	return true;
}

/* who a record is expected of, and what may have discarded it */
typedef struct Expected
{
	Fxid		writer;			/* or, */
	bool		or_before;		/* any up to it (U25) */
	bool		until_u;
	bool		held;			/* it can't be gone */
} Expected;

static inline bool
is_expected(const UndoRecord *rec, const Expected *expected)
{
	return rec->writer == expected->writer ||
		(expected->or_before && rec->writer < expected->writer);
}

/*
 * The record, if the private copy has it.  Had the page been recycled since, a
 * writer whose record is there now would be later than all of then: these were
 * below the horizon, which isn't above a writer that may still write.
 */
static bool
get_from_copy(char persistence, UndoRecPtr urp, const Expected *expected,
			  BlockNumber block, UndoRecord *rec)
{
	uint16		at;

	if (!recent.copied || recent.block != UndoRecPtrGetBlock(urp) ||
		recent.log != UndoRecPtrGetLog(urp) ||
		recent.persistence != persistence ||
		expected->writer > recent.max_fxid ||
		UndoRecPtrGetOffset(urp) >= recent.lower ||
		!get_record((Page) recent.page.data, urp, rec, &at))
		return false;
	Assert(at < UndoRecPtrGetOffset(urp) && recent.lower >= UNDO_FIRST_OFFSET);
	if (recent.run != at)
	{
		UndoEntry	run;

		if (!undo_page_get((Page) recent.page.data, at, &run) ||
			run.kind != UNDO_KIND_RUN)
			return false;
		recent.run = at;
		recent.reloid = run.reloid;
		recent.dboid = run.dboid;
		recent.writer = run.fxid;
	}
	rec->writer = recent.writer;
	rec->reloid = recent.reloid;
	rec->dboid = recent.dboid;

	return is_expected(rec, expected) && rec->block == block;
}

/* Note that a record was read at "at", and copy its page in time; it is locked. */
static void
note_page(const UndoReader *reader, Page page, uint16 at)
{
	PageHeader	header = (PageHeader) page;

	AssertPageLocked(reader->buffer);
	if (at + COPY_NOT_NEAR > header->pd_lower)
		return;
	if (recent.persistence != reader->persistence ||
		recent.log != reader->log || recent.block != reader->block)
	{
		recent.persistence = reader->persistence;
		recent.log = reader->log;
		recent.block = reader->block;
		recent.fetches = 0;
		recent.copied = false;
	}
	if (++recent.fetches < COPY_AFTER)
		return;
	memcpy(recent.page.data, page, header->pd_lower);
	memcpy(recent.page.data + header->pd_upper,
		   (char *) page + header->pd_upper,
		   BLCKSZ - header->pd_upper);
	recent.lower = header->pd_lower;
	recent.max_fxid = UndoPageGetOpaque(page)->max_fxid;
	recent.run = 0;
	recent.fetches = 0;
	recent.copied = true;
}

/*
 * Copy the record and what its run header says; the page is locked.  NULL or
 * what is wrong.
 */
static const char *
get_from_page(UndoReader *reader, Page page, UndoRecPtr urp, UndoRecord *rec)
{
	const char *problem = undo_page_problem(page, UNDO_PAGE_MAGIC);
	UndoEntry	run;
	uint16		at;

	AssertPageLocked(reader->buffer);
	if (problem != NULL)
		return problem;
	note_page(reader, page, UndoRecPtrGetOffset(urp));
	if (!get_record(page, urp, rec, &at))
		return "there is no undo record at this offset";
	if (!undo_page_get(page, at, &run) || run.kind != UNDO_KIND_RUN)
		return "the undo record has no run header";
	rec->writer = run.fxid;
	rec->reloid = run.reloid;
	rec->dboid = run.dboid;
	return NULL;
}

/* Copy record and run header under the share lock.  NULL or what is wrong. */
static const char *
copy_record(UndoReader *reader, UndoRecPtr urp, UndoRecord *rec)
{
	Page		page = BufferGetPage(reader->buffer);
	const char *problem;

	/* places seldom in a cache: have them fetched at the same time */
	fetch_line((char *) page);
	fetch_line((char *) page + UndoRecPtrGetOffset(urp));
	fetch_line((char *) page + BLCKSZ - sizeof(UndoPageOpaqueData));
	LockBuffer(reader->buffer, BUFFER_LOCK_SHARE);
	problem = get_from_page(reader, page, urp, rec);
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

static inline bool
may_be_gone(const UndoReader *reader, const Expected *expected)
{
	if (expected->held)
		return false;
	return expected->writer <
		(expected->until_u ? undo_log_horizons().all_visible_before :
		 undo_log_horizon(reader->persistence));
}

/*
 * The record, if it was gathered (undo_gather.c).  Of a writer that isn't the one
 * named only if it isn't below the horizon: else the page may have been recycled
 * since, by one whose link was read before the horizon is.
 */
static inline bool
get_gathered(const UndoReader *reader, UndoRecPtr urp,
			 const Expected *expected, BlockNumber block, UndoRecord *rec)
{
	return reader->gather != NULL &&
		undo_gather_get(reader->gather, urp, rec) &&
		is_expected(rec, expected) && rec->block == block &&
		(rec->writer == expected->writer ||
		 rec->writer >= undo_log_horizon(reader->persistence));
}

#ifdef USE_ASSERT_CHECKING
/* is its undo page of the same opinion, or is it gone? */
static bool
page_agrees(UndoReader *reader, const Expected *expected,
			const UndoRecord *rec)
{
	static UndoRecord plain;
	BufferUsage usage = pgBufferUsage;
	const char *problem;

	if (undo_debug_damage)
		return true;
	problem = pin_page(reader, rec->urp) ?
		copy_record(reader, rec->urp, &plain) : "no such block";
	/* who counts reads isn't to count this one */
	pgBufferUsage = usage;
	pg_read_barrier();
	if (may_be_gone(reader, expected))
		return true;
	return problem == NULL && plain.kind == rec->kind &&
		plain.flags == rec->flags && plain.offset == rec->offset &&
		plain.block == rec->block && plain.chain == rec->chain &&
		plain.writer == rec->writer && plain.reloid == rec->reloid &&
		plain.dboid == rec->dboid && plain.len == rec->len &&
		plain.payload_len == rec->payload_len &&
		memcmp(plain.data, rec->data, rec->payload_len) == 0;
}
#endif

static inline bool
fetch(UndoReader *reader, UndoRecPtr urp, const Expected *expected,
	  BlockNumber block, UndoRecord *rec)
{
	const char *problem;

	Assert(expected->writer != InvalidFxid);
	Assert(CritSectionCount == 0 && BlockNumberIsValid(block));

	if (get_gathered(reader, urp, expected, block, rec))
	{
		problem = NULL;
		Assert(page_agrees(reader, expected, rec));
	}
	else if (get_from_copy(reader->persistence, urp, expected, block, rec))
		problem = NULL;
	/* cheap: undo that is known to be gone needn't be looked for */
	else if (may_be_gone(reader, expected))
		return false;
	else if (!UndoRecPtrIsValid(urp))
		problem = "the pointer is null";
	else if (!pin_page(reader, urp))
		problem = "the block is beyond the end of the undo log";
	else
		problem = copy_record(reader, urp, rec);

	/*
	 * The horizon after the copy: a page is reused only after the horizon was
	 * published, and the content lock orders the two.
	 */
	UNDO_POINT("record-copied");
	pg_read_barrier();
	if (may_be_gone(reader, expected))
		return false;

	if (problem == NULL && !is_expected(rec, expected))
		problem = "the undo record is of another transaction";
	else if (problem == NULL && rec->block != block)
		problem = "the undo record is of another table block";
	if (problem != NULL)
		report_corruption(reader, urp, expected->writer, block, problem);
	return true;
}

bool
undo_record_fetch(UndoReader *reader, UndoRecPtr urp, Fxid writer,
				  BlockNumber block, bool held, UndoRecord *rec)
{
	const Expected expected = {.writer = writer,.held = held};

	return fetch(reader, urp, &expected, block, rec);
}

bool
undo_record_fetch_kept(UndoReader *reader, UndoRecPtr urp, Fxid fxid,
					   bool until_u, BlockNumber block, UndoRecord *rec)
{
	const Expected expected = {
		.writer = fxid,.or_before = true,.until_u = until_u
	};

	Assert(reader->persistence != RELPERSISTENCE_TEMP);
	return fetch(reader, urp, &expected, block, rec);
}
