/*-------------------------------------------------------------------------
 *
 * undo_page.c
 *	  One page of the undo store: initialise, check, write and read entries.
 *
 * Pure functions: no buffer, no WAL, no shared memory.  The formats are
 * pictured in undo_page.h.  Entries are packed, so every field is copied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/bufmask.h"

#include "undo/undo.h"
#include "undo/undo_page.h"

/* byte positions within an entry */
#define ENTRY_LEN		0
#define ENTRY_KIND		2
#define ENTRY_FLAGS		3
#define RUN_RELOID		4
#define RUN_DBOID		8
#define RUN_FXID		12
#define REC_RUN			4
#define REC_OFFSET		6
#define REC_BLOCK		8
#define REC_CHAIN		12

#define PUT(dst, val)	memcpy((dst), &(val), sizeof(val))
#define GET(var, src)	memcpy(&(var), (src), sizeof(var))

static void
init_opaque(Page page, uint32 magic, BlockNumber next, uint64 seq)
{
	UndoPageOpaque opaque;

	PageInit(page, BLCKSZ, sizeof(UndoPageOpaqueData));
	opaque = UndoPageGetOpaque(page);
	opaque->magic = magic;
	opaque->version = UNDO_FORMAT_VERSION;
	opaque->unused = 0;
	opaque->seq = seq;
	opaque->min_fxid = InvalidFxid;
	opaque->max_fxid = InvalidFxid;
	opaque->next = next;
	opaque->unused2 = 0;
}

/* An empty data page. */
void
undo_page_init(Page page, BlockNumber next, uint64 seq)
{
	init_opaque(page, UNDO_PAGE_MAGIC, next, seq);
}

/* A control page of a log that has no data page yet. */
void
undo_control_init(Page page)
{
	UndoControlData *control;

	init_opaque(page, UNDO_CONTROL_MAGIC, InvalidBlockNumber, 0);
	control = UndoPageGetControl(page);
	control->tail = InvalidBlockNumber;
	control->head = InvalidBlockNumber;
	control->head_offset = 0;
	control->unused = 0;
	control->used_blocks = 1;
	control->seq = 0;
	((PageHeader) page)->pd_lower =
		(char *) control + sizeof(UndoControlData) - (char *) page;
}

/* The global control page. */
void
undo_global_init(Page page, Fxid u, Fxid h)
{
	UndoGlobalData *global;

	init_opaque(page, UNDO_GLOBAL_MAGIC, InvalidBlockNumber, 0);
	global = UndoPageGetGlobal(page);
	global->u = u;
	global->h = h;
	global->nlogs = 0;
	global->nunlogged = 0;
	((PageHeader) page)->pd_lower =
		(char *) global + sizeof(UndoGlobalData) - (char *) page;
}

/* What is wrong with a page that should carry this magic, or NULL. */
const char *
undo_page_problem(Page page, uint32 magic)
{
	PageHeader	header = (PageHeader) page;
	UndoPageOpaque opaque;

	if (PageIsNew(page))
		return "page is empty";
	if (PageGetSpecialSize(page) != MAXALIGN(sizeof(UndoPageOpaqueData)))
		return "special space has the wrong size";
	opaque = UndoPageGetOpaque(page);
	if (opaque->magic != magic)
		return "magic number doesn't match";
	if (opaque->version != UNDO_FORMAT_VERSION)
		return "format version is unknown to this library";
	if (header->pd_lower < SizeOfPageHeaderData ||
		header->pd_lower > header->pd_upper ||
		header->pd_upper > header->pd_special)
		return "page bounds are damaged";
	return NULL;
}

uint16
undo_page_put_run(Page page, uint16 at, Oid reloid, Oid dboid, Fxid fxid)
{
	char	   *p = (char *) page + at;
	uint16		len = UNDO_RUN_HEADER_SIZE;

	Assert(at >= UNDO_FIRST_OFFSET);
	Assert(at + len <= ((PageHeader) page)->pd_special);
	PUT(p + ENTRY_LEN, len);
	p[ENTRY_KIND] = (char) UNDO_KIND_RUN;
	p[ENTRY_FLAGS] = 0;
	PUT(p + RUN_RELOID, reloid);
	PUT(p + RUN_DBOID, dboid);
	PUT(p + RUN_FXID, fxid);
	return len;
}

uint16
undo_page_put_record(Page page, uint16 at, uint8 kind, uint8 flags,
					 uint16 run, OffsetNumber offset, BlockNumber block,
					 UndoRecPtr chain, const char *payload,
					 uint16 payload_len)
{
	char	   *p = (char *) page + at;
	uint16		len = SizeOfUndoRecordHeader + payload_len;

	Assert(kind != 0 && kind != UNDO_KIND_RUN);
	Assert(run >= UNDO_FIRST_OFFSET && run < at);
	Assert(at + len <= ((PageHeader) page)->pd_special);
	PUT(p + ENTRY_LEN, len);
	p[ENTRY_KIND] = (char) kind;
	p[ENTRY_FLAGS] = (char) flags;
	PUT(p + REC_RUN, run);
	PUT(p + REC_OFFSET, offset);
	PUT(p + REC_BLOCK, block);
	PUT(p + REC_CHAIN, chain);
	if (payload_len > 0)
		memcpy(p + SizeOfUndoRecordHeader, payload, payload_len);
	return len;
}

/*
 * Decode the entry at a byte offset; false if no well-formed entry is there.
 * The page itself was found good by undo_page_problem().
 */
bool
undo_page_get(Page page, uint16 at, UndoEntry *entry)
{
	uint16		lower = ((PageHeader) page)->pd_lower;
	const char *p = (char *) page + at;

	if (at < UNDO_FIRST_OFFSET || at + SizeOfUndoRecordHeader > lower)
		return false;
	entry->at = at;
	GET(entry->len, p + ENTRY_LEN);
	entry->kind = (uint8) p[ENTRY_KIND];
	entry->flags = (uint8) p[ENTRY_FLAGS];
	if (entry->kind == 0 ||
		entry->len < SizeOfUndoRecordHeader || entry->len > lower - at)
		return false;
	if (entry->kind == UNDO_KIND_RUN)
	{
		if (entry->len != UNDO_RUN_HEADER_SIZE)
			return false;
		GET(entry->reloid, p + RUN_RELOID);
		GET(entry->dboid, p + RUN_DBOID);
		GET(entry->fxid, p + RUN_FXID);
		entry->run = at;
		entry->payload = NULL;
		entry->payload_len = 0;
		return true;
	}
	GET(entry->run, p + REC_RUN);
	GET(entry->offset, p + REC_OFFSET);
	GET(entry->block, p + REC_BLOCK);
	GET(entry->chain, p + REC_CHAIN);
	entry->payload = p + SizeOfUndoRecordHeader;
	entry->payload_len = entry->len - SizeOfUndoRecordHeader;
	return entry->run >= UNDO_FIRST_OFFSET && entry->run < at;
}

/* Set APPLIED in run headers; offsets without one are passed over. */
void
undo_page_set_applied(Page page, const uint16 *offsets, int noffsets)
{
	for (int i = 0; i < noffsets; i++)
	{
		UndoEntry	entry;

		if (undo_page_get(page, offsets[i], &entry) &&
			entry.kind == UNDO_KIND_RUN)
			((char *) page)[offsets[i] + ENTRY_FLAGS] =
				(char) (entry.flags | UNDO_RUN_APPLIED);
	}
}

/* A control page back to a log without data pages; seq goes on. */
void
undo_control_reset(Page page)
{
	UndoControlData *control = UndoPageGetControl(page);

	control->tail = InvalidBlockNumber;
	control->head = InvalidBlockNumber;
	control->head_offset = 0;
	control->used_blocks = 1;
}

/*
 * Mask what a standby's copy of a page may differ in.  The page kind is told
 * by the magic number; false if it is none of ours.
 */
bool
undo_mask(char *page, BlockNumber blkno)
{
	UndoPageOpaque opaque;

	if (PageGetSpecialSize((Page) page) != MAXALIGN(sizeof(UndoPageOpaqueData)))
		return false;
	opaque = UndoPageGetOpaque((Page) page);
	if (opaque->magic != UNDO_PAGE_MAGIC &&
		opaque->magic != UNDO_CONTROL_MAGIC &&
		opaque->magic != UNDO_GLOBAL_MAGIC)
		return false;
	mask_page_lsn_and_checksum((Page) page);
	mask_page_hint_bits((Page) page);
	mask_unused_space((Page) page);
	return true;
}
