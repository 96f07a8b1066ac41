/*-------------------------------------------------------------------------
 *
 * undo_insert.c
 *	  Writing undo records: forming them, putting them on the tail page of the
 *	  attached log, logging them, and redo of that.
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
#include "storage/proc.h"
#include "utils/rel.h"

#include "undo/log/undo_attach.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_xlog.h"
#include "undo/record/undo_images.h"
#include "undo/record/undo_insert.h"
#include "undo/record/undo_touched.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"
#include "undo/undo_pack.h"

/* a page with so many bytes is full (assert builds; redo takes what comes) */
#define PAGE_BYTES		UNDO_KNOB("undo-page-bytes", BLCKSZ, 300, BLCKSZ)

/*
 * main data of XLOG_UNDO_INSERT; block 0 is the undo page, with data as below,
 * block 1 the page from which redo copies lent bytes, if any
 */
typedef struct xl_undo_insert
{
	uint16		first_offset;
	BlockNumber table_block[2]; /* of the first record, of others if any */
} xl_undo_insert;

/*
 * Data of the undo block in any WAL record, packed (undo_pack.h):
 *
 *	flags u8
 *	MORE:		number of records u8
 *	new run:	reloid (nothing if RELOID_IS_FILE; as a difference from the
 *				file number of the table's block 0; or, ALONE, as it is) and,
 *				ALONE, dboid
 *	else:		distance from the run header to the first record
 *	KEEP:		fxid (U25), as a difference from the writer's; with the lowest
 *				bit, until U
 *	each record: kind u8, with a bit that tells whether there is a chain |
 *				flags u8 | offset | chain, relative to the record's page |
 *				length of the payload, unless it is the last record | payload
 *
 * What can be seen from the reference to the table's block, which is block 0
 * of the client's record, isn't logged again, nor is what the undo page itself
 * makes of it: number of the relation, base of the xid, lengths.
 *
 * A payload with lent bytes (there is one record then): number of ranges |
 * each range: bytes of its own before it, length, offset on the page | the
 * bytes of its own.
 *
 * BRIEF, for one record whose offset is known to redo from the client's main
 * data: flags and kind u8 | flags of the record u8, if BRIEF_FLAGS, else they
 * are 1 | reloid or distance as above | chain, if BRIEF_CHAIN | payload; none
 * stands for a zero byte.  The most frequent such data is left out: see
 * UNDO_WAL_USUAL.
 */
#define UNDO_WAL_NEW_RUN		0x01
#define UNDO_WAL_TWO			0x02	/* two records */
#define UNDO_WAL_ALONE			0x04	/* there is no table block */
#define UNDO_WAL_RELOID_IS_FILE	0x08
#define UNDO_WAL_LENT			0x10
#define UNDO_WAL_MORE			0x20	/* more than two, their number follows */
#define UNDO_WAL_KEEP			0x40

#define UNDO_WAL_KIND_CHAIN		0x80	/* with the kind */

#define UNDO_WAL_BRIEF			0x80	/* then the other bits are these, and
										 * NEW_RUN and RELOID_IS_FILE */
#define UNDO_WAL_BRIEF_KIND(b)	(((b) >> 4) & 0x07)
#define UNDO_WAL_BRIEF_CHAIN	0x02
#define UNDO_WAL_BRIEF_FLAGS	0x04

/* the client's kind 1 in a new run, nothing else to be said */
#define UNDO_WAL_USUAL \
	(UNDO_WAL_BRIEF | 1 << 4 | UNDO_WAL_NEW_RUN | UNDO_WAL_RELOID_IS_FILE)

void
undo_insertion_init(UndoInsertion *ins, Relation rel)
{
	ins->reloid = RelationGetRelid(rel);
	ins->locator = rel->rd_locator;
	ins->dboid = ins->locator.dbOid;
	ins->persistence = rel->rd_rel->relpersistence;
	ins->nrecs = 0;
	ins->keep_for = InvalidFxid;
	ins->keep_until_u = false;
	ins->lent = false;
	ins->buffer = InvalidBuffer;
}

void
undo_insertion_keep(UndoInsertion *ins, Fxid fxid, bool until_u)
{
	Assert(fxid != InvalidFxid && ins->persistence != RELPERSISTENCE_TEMP);
	Assert(!BufferIsValid(ins->buffer));
	ins->keep_for = fxid;
	ins->keep_until_u = until_u;
}

int
undo_insertion_add(UndoInsertion *ins, uint8 kind, uint8 flags,
				   BlockNumber block, OffsetNumber offset, UndoRecPtr chain,
				   const char *payload, uint16 payload_len)
{
	UndoInsertRec *rec;

	Assert(!BufferIsValid(ins->buffer));
	Assert(chain != UNDO_CHAIN_PREVIOUS || ins->nrecs > 0);
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

	Assert(ins->nrecs <= UNDO_MAX_INSERTION);
	for (int i = 0; i < ins->nrecs; i++)
		size += UNDO_MAX_HEAD + ins->rec[i].payload_len;
	return size;
}

/*
 * May the records join the run last written by this backend?  ins->buffer is
 * the tail, with number "tail".
 */
static bool
run_continues(AttachedLog *att, UndoInsertion *ins, BlockNumber tail)
{
	AssertPageExclusive(ins->buffer);
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

	Assert(ins->start >= UNDO_FIRST_OFFSET && ins->start <= end);
	Assert(ins->nrecs > 0 && ins->nrecs <= UNDO_MAX_INSERTION);
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
		Assert(rec->chain != UNDO_CHAIN_PREVIOUS && ins->run < at);
		undo_page_form_record(rec, ins->run);
		at += rec->head_len + rec->payload_len;
	}
	return at <= end;
}

void
undo_insert_prepare(UndoInsertion *ins)
{
	AttachedLog *att;
	BlockNumber tail;
	Page		page;

	Assert(ins->nrecs > 0);
	Assert(CritSectionCount == 0 && !BufferIsValid(ins->buffer));
	/* U12 */
	Assert(!(MyProc->statusFlags & PROC_IN_VACUUM));
	Assert(!undo_touched_is_taken());
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
		elog(ERROR, "undo records of %d bytes do not fit a page",
			 max_size(ins));

	UNDO_ERROR_POINT("prepare");
	undo_touched_reserve();
	ins->fxid = undo_log_current_fxid();
	att = undo_attach(ins->persistence);
	ins->log = att->log;
	if (att->run_reloid != ins->reloid || att->run_fxid != ins->fxid)
		undo_attach_note_table(att, ins->persistence, ins->reloid);

	tail = undo_log_tail(ins->persistence, ins->log);
	ins->buffer = undo_attach_lock_tail(att, ins->persistence, tail);
	if (BufferIsValid(ins->buffer))
	{
		page = BufferGetPage(ins->buffer);
		ins->new_run = !run_continues(att, ins, tail);
		ins->run = att->run_at;
		ins->start = ((PageHeader) page)->pd_lower;
		if (ins->start >= PAGE_BYTES || !form_insertion(ins, page, tail))
		{
			UnlockReleaseBuffer(ins->buffer);
			ins->buffer = InvalidBuffer;
		}
	}
	if (!BufferIsValid(ins->buffer))
	{
		ins->buffer = undo_attach_switch(att, ins->persistence);
		att->recent = ins->buffer;
		page = BufferGetPage(ins->buffer);
		ins->new_run = true;
		ins->start = ((PageHeader) page)->pd_lower;
		if (!form_insertion(ins, page, BufferGetBlockNumber(ins->buffer)))
			elog(ERROR, "undo records do not fit an empty page");
	}
	AssertPageExclusive(ins->buffer);
	UNDO_POINT("prepared");
}

/*
 * Write run header and records as they were formed; shared by do and redo.
 */
static void
apply_insertion(UndoInsertion *ins, Page page)
{
	uint16		at = ins->start;

	Assert(((PageHeader) page)->pd_lower == ins->start);
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
	Assert(at <= ((PageHeader) page)->pd_upper);
	((PageHeader) page)->pd_lower = at;
	undo_page_note_writer(page, ins->fxid);
	if (ins->keep_for != InvalidFxid)
		undo_page_keep(page, Max(ins->keep_for, ins->fxid), ins->keep_until_u);
}

void
undo_insert_apply(UndoInsertion *ins)
{
	Assert(CritSectionCount > 0);
	AssertPageExclusive(ins->buffer);
	apply_insertion(ins, BufferGetPage(ins->buffer));
	MarkBufferDirty(ins->buffer);
}

/*
 * Which run the records join, for redo; returns the flags that tell how.  A
 * joined run's offset is not derivable from the page, which may be restored
 * from an image.
 */
static uint8
pack_run(const UndoInsertion *ins, char **p)
{
	RelFileNumber file = ins->locator.relNumber;

	Assert(ins->run < undo_insertion_offset(ins, 0));
	Assert(!ins->new_run || ins->run == ins->start);
	if (!ins->new_run)
	{
		*p = undo_pack(*p, undo_insertion_offset(ins, 0) - ins->run);
		return 0;
	}
	if (ins->reloid == file)
		return UNDO_WAL_NEW_RUN | UNDO_WAL_RELOID_IS_FILE;
	*p = undo_pack(*p, undo_zigzag(file, ins->reloid));
	return UNDO_WAL_NEW_RUN;
}

static void
register_brief(UndoInsertion *ins, uint8 block_id)
{
	UndoInsertRec *rec = &ins->rec[0];
	char	   *p = ins->wal_header + 1;
	uint8		brief = UNDO_WAL_BRIEF | rec->kind << 4;
	bool		zero = rec->payload_len == 1 && rec->payload[0] == 0;

	Assert(ins->nrecs == 1 && !ins->lent && rec->kind < 8);
	if (rec->flags != 1)
	{
		brief |= UNDO_WAL_BRIEF_FLAGS;
		*p++ = (char) rec->flags;
	}
	brief |= pack_run(ins, &p);
	if (UndoRecPtrIsValid(rec->chain))
	{
		brief |= UNDO_WAL_BRIEF_CHAIN;
		p = undo_pack_urp(p, rec->urp, rec->chain);
	}
	ins->wal_header[0] = (char) brief;
	Assert(p - ins->wal_header <= sizeof(ins->wal_header));
	if (brief != UNDO_WAL_USUAL || !zero)
		XLogRegisterBufData(block_id, ins->wal_header, p - ins->wal_header);
	if (!zero)
		XLogRegisterBufData(block_id, unconstify(char *, rec->payload),
							rec->payload_len);
}

void
undo_insert_register(UndoInsertion *ins, uint8 block_id, OffsetNumber offset)
{
	char	   *start = ins->wal_header;
	char	   *p = start + 1;
	uint8		flags = ins->lent ? UNDO_WAL_LENT : 0;

	Assert(CritSectionCount > 0);
	AssertPageExclusive(ins->buffer);
	Assert(!ins->lent || ins->nrecs == 1);
	XLogRegisterBuffer(block_id, ins->buffer, REGBUF_STANDARD);
	if (offset != InvalidOffsetNumber && block_id != 0 && !ins->lent &&
		ins->nrecs == 1 && ins->keep_for == InvalidFxid &&
		ins->rec[0].offset == offset &&
		ins->rec[0].kind < 8 && ins->rec[0].payload_len > 0)
	{
		register_brief(ins, block_id);
		return;
	}

	if (ins->nrecs == 2)
		flags |= UNDO_WAL_TWO;
	else if (ins->nrecs > 2)
	{
		flags |= UNDO_WAL_MORE;
		*p++ = (char) ins->nrecs;
	}
	if (ins->new_run && block_id == 0)
	{
		flags |= UNDO_WAL_NEW_RUN | UNDO_WAL_ALONE;
		p = undo_pack(p, ins->reloid);
		p = undo_pack(p, ins->dboid);
	}
	else
		flags |= pack_run(ins, &p);
	if (ins->keep_for != InvalidFxid)
	{
		flags |= UNDO_WAL_KEEP;
		p = undo_pack(p, undo_zigzag(ins->fxid, ins->keep_for) << 1 |
					  ins->keep_until_u);
	}

	for (int i = 0; i < ins->nrecs; i++)
	{
		UndoInsertRec *rec = &ins->rec[i];

		*p++ = (char) (rec->kind |
					   (UndoRecPtrIsValid(rec->chain) ? UNDO_WAL_KIND_CHAIN :
						0));
		*p++ = (char) rec->flags;
		p = undo_pack(p, rec->offset);
		if (UndoRecPtrIsValid(rec->chain))
			p = undo_pack_urp(p, rec->urp, rec->chain);
		if (i < ins->nrecs - 1)
			p = undo_pack(p, rec->payload_len);
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
undo_insert_set_lsn(UndoInsertion *ins, XLogRecPtr lsn)
{
	Assert(CritSectionCount > 0 && !XLogRecPtrIsInvalid(lsn));
	AssertPageExclusive(ins->buffer);
	PageSetLSN(BufferGetPage(ins->buffer), lsn);
}

static void
log_alone(UndoInsertion *ins, Buffer source)
{
	xl_undo_insert xlrec = {0};
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0 &&
		   ins->persistence == RELPERSISTENCE_PERMANENT);
	Assert(!ins->lent || undo_debug_page_is_locked(source, true));
	xlrec.first_offset = undo_insertion_offset(ins, 0);
	for (int i = 0; i < ins->nrecs; i++)
	{
		Assert(i < 2 || ins->rec[i].block == ins->rec[1].block);
		xlrec.table_block[Min(i, 1)] = ins->rec[i].block;
	}
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, ins->nrecs > 1 ? sizeof(xlrec) :
					 offsetof(xl_undo_insert, table_block[1]));
	undo_insert_register(ins, 0, InvalidOffsetNumber);
	if (BufferIsValid(source))
		XLogRegisterBuffer(1, source, REGBUF_STANDARD);
	lsn = undo_images_insert(XLOG_UNDO_INSERT);
	undo_insert_set_lsn(ins, lsn);
	if (BufferIsValid(source))
		PageSetLSN(BufferGetPage(source), lsn);
}

void
undo_insert_log_alone(UndoInsertion *ins)
{
	Assert(CritSectionCount > 0);
	if (ins->persistence == RELPERSISTENCE_PERMANENT)
		log_alone(ins, InvalidBuffer);
}

/* the payload as it is logged, without the lent bytes; returns its length */
static uint16
pack_lent(const UndoInsertRec *rec, const UndoLent *lent, int n, char *buf)
{
	char	   *p = undo_pack(buf, n);
	int			at = 0;

	Assert(n > 0 && n <= UNDO_MAX_LENT);
	for (int i = 0; i < n; i++)
	{
		Assert(lent[i].at >= at);
		Assert(lent[i].at + lent[i].len <= rec->payload_len);
		p = undo_pack(p, lent[i].at - at);
		p = undo_pack(p, lent[i].len);
		p = undo_pack(p, lent[i].from);
		at = lent[i].at + lent[i].len;
	}
	at = 0;
	for (int i = 0; i < n; i++)
	{
		memcpy(p, rec->payload + at, lent[i].at - at);
		p += lent[i].at - at;
		at = lent[i].at + lent[i].len;
	}
	memcpy(p, rec->payload + at, rec->payload_len - at);
	return p + (rec->payload_len - at) - buf;
}

void
undo_insert_log_lent(UndoInsertion *ins, Buffer source, const UndoLent *lent,
					 int n)
{
	UndoInsertRec *rec = &ins->rec[0];
	const char *payload = rec->payload;
	uint16		payload_len = rec->payload_len;

	/* each range stands for more bytes than it takes, see UNDO_MIN_LENT */
	PGAlignedBlock packed;

	Assert(ins->nrecs == 1 && n <= UNDO_MAX_LENT);
	Assert(CritSectionCount > 0);
	AssertPageExclusive(source);
	for (int i = 0; i < n; i++)
	{
		Assert(lent[i].len >= UNDO_MIN_LENT);
		Assert(memcmp(payload + lent[i].at,
					  (char *) BufferGetPage(source) + lent[i].from,
					  lent[i].len) == 0);
	}
	if (n == 0 || ins->persistence != RELPERSISTENCE_PERMANENT ||
		!undo_images_are_complete())
	{
		undo_insert_log_alone(ins);
		return;
	}
	ins->lent = true;
	rec->payload_len = pack_lent(rec, lent, n, packed.data);
	rec->payload = packed.data;
	log_alone(ins, source);
	ins->lent = false;
	rec->payload = payload;
	rec->payload_len = payload_len;

	/* switched off in between: the undo page itself, then */
	if (!undo_images_are_complete())
		(void) log_newpage_buffer(ins->buffer, true);
}

void
undo_insert_release(UndoInsertion *ins)
{
	AttachedLog *att = undo_attach_get(ins->persistence);
	uint16		bytes =
		((PageHeader) BufferGetPage(ins->buffer))->pd_lower - ins->start +
		(ins->new_relation ? sizeof(UndoPageRelation) : 0);

	Assert(CritSectionCount == 0);
	AssertPageExclusive(ins->buffer);
	Assert(att->attached && att->log == ins->log);
	if (ins->new_run)
	{
		att->run_fxid = ins->fxid;
		att->run_reloid = ins->reloid;
		att->run_block = BufferGetBlockNumber(ins->buffer);
		att->run_seq = UndoPageGetOpaque(BufferGetPage(ins->buffer))->seq;
		att->run_at = ins->run;
	}
	undo_touched_add(ins, bytes);
	if (ins->persistence != RELPERSISTENCE_TEMP)
	{
		UndoLogShared *log = undo_shmem_log(ins->persistence, ins->log);

		pg_atomic_write_u64(&log->bytes_written,
							pg_atomic_read_u64(&log->bytes_written) + bytes);
		pg_atomic_write_u64(&log->records,
							pg_atomic_read_u64(&log->records) + ins->nrecs);
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
undo_insert_redo_urp(XLogReaderState *record, uint8 block_id, uint16 offset)
{
	RelFileLocator locator;
	BlockNumber block;

	XLogRecGetBlockTag(record, block_id, &locator, NULL, &block);
	Assert(locator.dbOid == UNDO_DATABASE);
	Assert(locator.relNumber >= UNDO_PERMANENT_BASE &&
		   locator.relNumber < UNDO_UNLOGGED_BASE);
	return MakeUndoRecPtr(locator.relNumber - UNDO_PERMANENT_BASE,
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
	ins->dboid = table.dbOid;
	ins->reloid = table.relNumber;
	if ((flags & UNDO_WAL_RELOID_IS_FILE) == 0)
		ins->reloid = undo_unzigzag(ins->reloid, decode_number(p, end));
}

/* Take apart what register_brief() put together. */
static void
decode_brief(XLogReaderState *record, const char *p, const char *end,
			 UndoRecPtr first, BlockNumber block, OffsetNumber offset,
			 UndoInsertion *ins)
{
	UndoInsertRec *rec = &ins->rec[0];
	uint8		brief = UNDO_WAL_USUAL;

	if (p != end)
		brief = (uint8) *p++;
	ins->nrecs = 1;
	ins->lent = false;
	ins->new_run = (brief & UNDO_WAL_NEW_RUN) != 0;
	rec->kind = UNDO_WAL_BRIEF_KIND(brief);
	rec->flags = 1;
	if (brief & UNDO_WAL_BRIEF_FLAGS)
		p = undo_unpack_u8(p, end, &rec->flags);
	if (p == NULL || rec->kind == 0 || offset == InvalidOffsetNumber)
		elog(PANIC, "undo block data of a WAL record is malformed");
	decode_run(&p, end, brief & UNDO_WAL_RELOID_IS_FILE,
			   UndoRecPtrGetOffset(first), record, ins);
	rec->offset = offset;
	rec->block = block;
	rec->chain = InvalidUndoRecPtr;
	rec->chain_previous = false;
	if (brief & UNDO_WAL_BRIEF_CHAIN)
		p = undo_unpack_urp(p, end, first, &rec->chain);
	if (p == NULL)
		elog(PANIC, "undo block data of a WAL record is malformed");
	rec->payload = p < end ? p : "";
	rec->payload_len = p < end ? end - p : 1;
}

/* Take an insertion apart as undo_insert_register() put it together. */
static void
decode_insertion(XLogReaderState *record, uint8 block_id,
				 uint16 first_offset, const BlockNumber *table_block,
				 OffsetNumber table_offset, UndoInsertion *ins)
{
	Size		len = 0;
	const char *data = XLogRecGetBlockData(record, block_id, &len);
	const char *p = data == NULL ? "" : data;
	const char *end = p + len;
	UndoRecPtr	first = undo_insert_redo_urp(record, block_id, first_offset);
	uint8		flags;

	Assert(table_block != NULL);
	ins->log = UndoRecPtrGetLog(first);
	if (len == 0 || ((uint8) *p & UNDO_WAL_BRIEF) != 0)
	{
		decode_brief(record, p, end, first, table_block[0], table_offset,
					 ins);
		return;
	}
	flags = (uint8) *p++;
	ins->new_run = (flags & UNDO_WAL_NEW_RUN) != 0;
	ins->nrecs = (flags & UNDO_WAL_TWO) ? 2 : 1;
	if (flags & UNDO_WAL_MORE)
		ins->nrecs = p < end ? (uint8) *p++ : 0;
	if (ins->nrecs == 0 || ins->nrecs > UNDO_MAX_INSERTION)
		elog(PANIC, "undo block data of a WAL record is malformed");
	ins->lent = (flags & UNDO_WAL_LENT) != 0;
	decode_run(&p, end, flags, first_offset, record, ins);
	if (flags & UNDO_WAL_KEEP)
	{
		uint64		keep = decode_number(&p, end);

		ins->keep_for = undo_unzigzag(U64FromFullTransactionId(XLogRecGetFullXid(record)),
									  keep >> 1);
		ins->keep_until_u = keep & 1;
	}

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
		rec->block = table_block[Min(i, 1)];
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
			elog(PANIC,
				 "undo block data of a WAL record has the wrong length");
		rec->payload = p;
		p += rec->payload_len;
	}
}

/*
 * Put the lent bytes back into a payload.  Without their page they are
 * missing, and with them the whole payload: then an image of the undo page
 * follows in WAL, and nobody reads this one.
 */
static void
unpack_lent(UndoInsertRec *rec, const char *source, char *buf)
{
	const char *p = rec->payload;
	const char *end = p + rec->payload_len;
	uint64		n = decode_number(&p, end);
	UndoLent	lent[UNDO_MAX_LENT];
	uint64		at = 0;

	Assert(rec->payload_len <= UNDO_MAX_PAYLOAD);
	if (n > UNDO_MAX_LENT)
		elog(PANIC, "undo block data of a WAL record is malformed");
	for (int i = 0; i < (int) n; i++)
	{
		uint64		own = decode_number(&p, end);
		uint64		len = decode_number(&p, end);
		uint64		from = decode_number(&p, end);

		if (own > BLCKSZ || len > BLCKSZ || from > BLCKSZ ||
			from + len > BLCKSZ || at + own + len > UNDO_MAX_PAYLOAD)
			elog(PANIC, "undo block data of a WAL record is malformed");
		lent[i].at = at + own;
		lent[i].len = len;
		lent[i].from = from;
		at += own + len;
	}
	at = 0;
	for (int i = 0; i < (int) n; i++)
	{
		int			own = lent[i].at - at;

		if (own > end - p)
			elog(PANIC,
				 "undo block data of a WAL record has the wrong length");
		memcpy(buf + at, p, own);
		p += own;
		if (source != NULL)
			memcpy(buf + lent[i].at, source + lent[i].from, lent[i].len);
		at = lent[i].at + lent[i].len;
	}
	if (at + (end - p) > UNDO_MAX_PAYLOAD)
		elog(PANIC, "undo block data of a WAL record has the wrong length");
	memcpy(buf + at, p, end - p);
	rec->payload = buf;
	rec->payload_len = at + (end - p);
	if (source == NULL)
		memset(buf, 0, rec->payload_len);
}

/* source: the page that lends bytes, NULL if there is none */
static void
redo_insertion(XLogReaderState *record, uint8 block_id, uint16 first_offset,
			   const BlockNumber *table_block, OffsetNumber table_offset,
			   const char *source)
{
	Buffer		buffer;

	Assert(InRecovery);
	if (XLogReadBufferForRedo(record, block_id, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		UndoInsertion ins;
		char		payload[UNDO_MAX_PAYLOAD];

		undo_redo_check(record, block_id, page, UNDO_PAGE_MAGIC);
		ins.keep_for = InvalidFxid;
		decode_insertion(record, block_id, first_offset, table_block,
						 table_offset, &ins);
		if (ins.lent)
			unpack_lent(&ins.rec[0], source, payload);
		ins.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
		ins.start = ((PageHeader) page)->pd_lower;
		if ((!ins.new_run && ins.start != first_offset) ||
			!form_insertion(&ins, page, BufferGetBlockNumber(buffer)) ||
			undo_insertion_offset(&ins, 0) != first_offset)
			ereport(PANIC,		/* U8 */
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
undo_insert_redo(XLogReaderState *record, uint8 block_id, uint16 first_offset,
				 const BlockNumber *table_block, OffsetNumber table_offset)
{
	redo_insertion(record, block_id, first_offset, table_block, table_offset,
				   NULL);
}

void
undo_redo(XLogReaderState *record)
{
	if ((XLogRecGetInfo(record) & ~XLR_INFO_MASK) == XLOG_UNDO_INSERT)
	{
		xl_undo_insert xlrec = {0};

		PGAlignedBlock copy;
		const char *source = NULL;

		memcpy(&xlrec, XLogRecGetData(record),
			   Min(XLogRecGetDataLen(record), sizeof(xlrec)));
		/* unlocked before the undo page is locked (U15) */
		if (XLogRecHasBlockRef(record, 1) &&
			undo_images_redo_read(record, 1, copy.data))
			source = copy.data;
		redo_insertion(record, 0, xlrec.first_offset, xlrec.table_block,
					   InvalidOffsetNumber, source);
	}
	else
		undo_log_redo(record);
}
