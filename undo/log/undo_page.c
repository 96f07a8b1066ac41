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

#include "undo/log/undo_page.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"
#include "undo/undo_pack.h"

/* first byte of a run header, and of a record */
#define HEAD_IS_RUN			0x80
#define HEAD_RELATION(b)	(((b) >> 1) & 0x3F)
#define HEAD_APPLIED		UNDO_RUN_APPLIED
#define HEAD_HAS_CHAIN		0x40
#define HEAD_KIND			UNDO_MAX_KIND

/* number of a relation that isn't among those of the page */
#define RELATION_INLINE		63

StaticAssertDecl(UNDO_PAGE_MAX_RELATIONS < RELATION_INLINE,
				 "numbers of relations have six bits");
StaticAssertDecl(UNDO_MAX_RUN ==
				 1 + sizeof(UndoPageRelation) + UNDO_MAX_PACKED,
				 "longest run header");
/* first byte; length and distance < BLCKSZ; block; flags; offset; chain */
StaticAssertDecl(UNDO_MAX_HEAD ==
				 1 + (BLCKSZ > 1 << 14 ? 3 + 3 : 2 + 2) + 5 + 1 + 3 +
				 UNDO_MAX_PACKED_URP, "longest record header");

/* where the structs of control pages end */
#define CONTROL_LOWER \
	(MAXALIGN(SizeOfPageHeaderData) + sizeof(UndoControlData))
#define GLOBAL_LOWER \
	(MAXALIGN(SizeOfPageHeaderData) + sizeof(UndoGlobalData))

/* relation number i of a page */
#define PageRelation(page, i) \
	((UndoPageRelation *) ((char *) (page) + \
						   ((PageHeader) (page))->pd_special) - (i) - 1)
#define PageNumRelations(page) \
	((((PageHeader) (page))->pd_special - ((PageHeader) (page))->pd_upper) / \
	 (int) sizeof(UndoPageRelation))

static void
init_opaque(Page page, uint32 magic, BlockNumber next, uint64 seq)
{
	UndoPageOpaque opaque;

	Assert(magic == UNDO_PAGE_MAGIC || magic == UNDO_CONTROL_MAGIC ||
		   magic == UNDO_GLOBAL_MAGIC);
	PageInit(page, BLCKSZ, sizeof(UndoPageOpaqueData));
	opaque = UndoPageGetOpaque(page);
	opaque->magic = magic;
	opaque->version = UNDO_FORMAT_VERSION;
	opaque->flags = 0;
	opaque->seq = seq;
	opaque->base_fxid = InvalidFxid;
	opaque->max_fxid = InvalidFxid;
	opaque->next = next;
	opaque->unused2 = 0;
}

/* An empty data page. */
void
undo_page_init(Page page, BlockNumber next, uint64 seq)
{
	Assert(next != 0);
	init_opaque(page, UNDO_PAGE_MAGIC, next, seq);
}

/* A control page of a log that has no data page yet. */
void
undo_page_init_control(Page page)
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
	((PageHeader) page)->pd_lower = CONTROL_LOWER;
}

/* The global control page. */
void
undo_page_init_global(Page page, Fxid all_visible_before, Fxid discard_before)
{
	UndoGlobalData *global;

	Assert(all_visible_before <= discard_before);
	init_opaque(page, UNDO_GLOBAL_MAGIC, InvalidBlockNumber, 0);
	global = UndoPageGetGlobal(page);
	global	  ->all_visible_before = all_visible_before;
	global	  ->discard_before = discard_before;
	global	  ->nlogs = 0;
	global	  ->nunlogged = 0;
	((PageHeader) page)->pd_lower = GLOBAL_LOWER;
}

/* What is wrong with a page that should carry this magic, or NULL. */
const char *
undo_page_problem(Page page, uint32 magic)
{
	PageHeader	header = (PageHeader) page;
	UndoPageOpaque opaque;

	Assert(magic == UNDO_PAGE_MAGIC || magic == UNDO_CONTROL_MAGIC ||
		   magic == UNDO_GLOBAL_MAGIC);
	if (PageIsNew(page))
		return "page is empty";
	if (PageGetSpecialSize(page) != MAXALIGN(sizeof(UndoPageOpaqueData)))
		return "special space has the wrong size";
	opaque = UndoPageGetOpaque(page);
	if (opaque->magic != magic)
		return "magic number does not match";
	if (opaque->version != UNDO_FORMAT_VERSION)
		return "format version is unknown to this library";
	if (header->pd_lower < SizeOfPageHeaderData ||
		header->pd_lower > header->pd_upper ||
		header->pd_upper > header->pd_special ||
		(header->pd_special - header->pd_upper) %
		sizeof(UndoPageRelation) != 0 ||
		PageNumRelations(page) > UNDO_PAGE_MAX_RELATIONS ||
		(magic == UNDO_CONTROL_MAGIC && header->pd_lower != CONTROL_LOWER) ||
		(magic == UNDO_GLOBAL_MAGIC && header->pd_lower != GLOBAL_LOWER))
		return "page bounds are damaged";
	if (opaque->max_fxid < opaque->base_fxid ||
		(magic == UNDO_PAGE_MAGIC && header->pd_lower > UNDO_FIRST_OFFSET) !=
		(opaque->base_fxid != InvalidFxid))
		return "its writers contradict each other";
	if (magic == UNDO_PAGE_MAGIC && opaque->next == 0)
		return "its successor is the control page";
	if (magic == UNDO_GLOBAL_MAGIC &&
		UndoPageGetGlobal(page)->all_visible_before >
		UndoPageGetGlobal(page)->discard_before)
		return "its horizons contradict each other";
	return NULL;
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

/* The number of a relation on a page; RELATION_INLINE if it has none there. */
static int
find_relation(Page page, Oid reloid, Oid dboid)
{
	int			n = PageNumRelations(page);

	for (int i = 0; i < n; i++)
	{
		UndoPageRelation *rel = PageRelation(page, i);

		if (rel->reloid == reloid && rel->dboid == dboid)
			return i;
	}
	return RELATION_INLINE;
}

uint8
undo_page_form_run(Page page, Oid reloid, Oid dboid, Fxid fxid, char *head,
				   bool *new_relation)
{
	Fxid		base = UndoPageGetOpaque(page)->base_fxid;
	int			number = find_relation(page, reloid, dboid);
	char	   *p = head + 1;

	Assert(UndoPageGetOpaque(page)->magic == UNDO_PAGE_MAGIC);
	Assert(fxid != InvalidFxid);
	*new_relation = number == RELATION_INLINE &&
		PageNumRelations(page) < UNDO_PAGE_MAX_RELATIONS;
	if (*new_relation)
		number = PageNumRelations(page);
	head[0] = (char) (HEAD_IS_RUN | number << 1);
	if (number == RELATION_INLINE)
	{
		UndoPageRelation rel = {reloid, dboid};

		memcpy(p, &rel, sizeof(rel));
		p += sizeof(rel);
	}
	p = undo_pack(p, undo_zigzag(base == InvalidFxid ? fxid : base, fxid));
	Assert(p - head <= UNDO_MAX_RUN);
	return p - head;
}

void
undo_page_form_record(UndoInsertRec *rec, uint16 run)
{
	char	   *body = rec->head + 2;
	char	   *p = body;
	bool		has_chain = UndoRecPtrIsValid(rec->chain);
	int			len;

	Assert(rec->kind != 0 && rec->kind <= UNDO_MAX_KIND);
	Assert(run >= UNDO_FIRST_OFFSET && run < UndoRecPtrGetOffset(rec->urp));
	Assert(rec->payload_len <= UNDO_MAX_PAYLOAD);

	p = undo_pack(p, UndoRecPtrGetOffset(rec->urp) - run);
	p = undo_pack(p, rec->block);
	*p++ = (char) rec->flags;
	p = undo_pack(p, rec->offset);
	if (has_chain)
		p = undo_pack_urp(p, rec->urp, rec->chain);
	rec->head[0] = (char) (rec->kind | (has_chain ? HEAD_HAS_CHAIN : 0));

	/* most lengths need but the byte that was left for them */
	len = (p - body) + rec->payload_len;
	if (unlikely(len >= 0x80))
	{
		int			more = undo_packed_size(len) - 1;

		memmove(body + more, body, p - body);
		p += more;
	}
	(void) undo_pack(rec->head + 1, len);
	rec->head_len = p - rec->head;
	Assert(rec->head_len <= UNDO_MAX_HEAD);
}

void
undo_page_add_relation(Page page, Oid reloid, Oid dboid)
{
	PageHeader	header = (PageHeader) page;
	UndoPageRelation *rel = PageRelation(page, PageNumRelations(page));

	Assert(header->pd_lower + sizeof(UndoPageRelation) <= header->pd_upper);
	Assert(UndoPageGetOpaque(page)->magic == UNDO_PAGE_MAGIC);
	Assert(find_relation(page, reloid, dboid) == RELATION_INLINE);
	rel->reloid = reloid;
	rel->dboid = dboid;
	header->pd_upper -= sizeof(UndoPageRelation);
	Assert(PageNumRelations(page) <= UNDO_PAGE_MAX_RELATIONS);
}

void
undo_page_put(Page page, uint16 at, const char *bytes, uint16 len)
{
	Assert(at >= UNDO_FIRST_OFFSET);
	Assert(at + len <= ((PageHeader) page)->pd_upper);
	Assert(at >= ((PageHeader) page)->pd_lower);
	if (len > 0)
		memcpy((char *) page + at, bytes, len);
}

/* A transaction that has written to the page.  The first one stays its base. */
void
undo_page_note_writer(Page page, Fxid fxid)
{
	UndoPageOpaque opaque = UndoPageGetOpaque(page);

	Assert(opaque->magic == UNDO_PAGE_MAGIC);
	Assert(fxid != InvalidFxid);
	if (opaque->base_fxid == InvalidFxid)
		opaque->base_fxid = fxid;
	if (fxid > opaque->max_fxid)
		opaque->max_fxid = fxid;
}

void
undo_page_keep(Page page, Fxid fxid, bool until_u)
{
	UndoPageOpaque opaque = UndoPageGetOpaque(page);

	Assert(opaque->magic == UNDO_PAGE_MAGIC);
	Assert(fxid != InvalidFxid);
	opaque->max_fxid = Max(opaque->max_fxid, fxid);
	if (until_u)
		opaque->flags |= UNDO_PAGE_KEPT;
}

/* ----------------------------------------------------------------
 *	reading
 * ----------------------------------------------------------------
 */

/* A run header; its place is within bounds. */
static bool
get_run(Page page, UndoEntry *entry)
{
	const char *start = (char *) page + entry->at;
	const char *end = (char *) page + ((PageHeader) page)->pd_lower;
	const char *p = start + 1;
	uint8		number = HEAD_RELATION((uint8) *start);
	uint64		diff;

	Assert(entry->at >= UNDO_FIRST_OFFSET && start < end);
	entry->kind = UNDO_KIND_RUN;
	entry->flags = (uint8) *start & HEAD_APPLIED;
	entry->run = entry->at;
	if (number == RELATION_INLINE)
	{
		UndoPageRelation rel;

		if (end - p < (ptrdiff_t) sizeof(rel))
			return false;
		memcpy(&rel, p, sizeof(rel));
		p += sizeof(rel);
		entry->reloid = rel.reloid;
		entry->dboid = rel.dboid;
	}
	else if (number < PageNumRelations(page))
	{
		entry->reloid = PageRelation(page, number)->reloid;
		entry->dboid = PageRelation(page, number)->dboid;
	}
	else
		return false;
	p = undo_unpack(p, end, &diff);
	if (p == NULL)
		return false;
	entry->fxid = undo_unzigzag(UndoPageGetOpaque(page)->base_fxid, diff);
	entry->len = p - start;
	return entry->fxid != InvalidFxid;
}

bool
undo_page_get(Page page, uint16 at, UndoEntry *entry)
{
	uint16		lower = ((PageHeader) page)->pd_lower;
	const char *start = (char *) page + at;
	const char *p;
	const char *end = (char *) page + lower;
	uint16		back;
	uint64		number;

	Assert(UndoPageGetOpaque(page)->magic == UNDO_PAGE_MAGIC);
	if (at < UNDO_FIRST_OFFSET || at >= lower)
		return false;
	entry->at = at;
	if ((uint8) *start & HEAD_IS_RUN)
		return get_run(page, entry);

	entry->kind = (uint8) *start & HEAD_KIND;
	entry->has_chain = ((uint8) *start & HEAD_HAS_CHAIN) != 0;
	p = undo_unpack(start + 1, end, &number);
	if (entry->kind == 0 || p == NULL || number > (uint64) (end - p))
		return false;
	end = p + number;
	entry->len = end - start;

	p = undo_unpack_small(p, end, &back);
	if (p == NULL || back == 0 || at < back + UNDO_FIRST_OFFSET)
		return false;
	entry->run = at - back;
	p = undo_unpack(p, end, &number);
	if (p == NULL || number > MaxBlockNumber)
		return false;
	entry->block = number;
	Assert(p <= end && entry->run < at);
	entry->rest = p;
	entry->rest_len = end - p;
	return true;
}

bool
undo_page_get_rest(const UndoEntry *entry, UndoRecPtr self,
				   UndoEntryRest *rest)
{
	const char *p = entry->rest;
	const char *end = p + entry->rest_len;

	Assert(entry->kind != UNDO_KIND_RUN);
	p = undo_unpack_u8(p, end, &rest->flags);
	p = undo_unpack_small(p, end, &rest->offset);
	rest->chain = InvalidUndoRecPtr;
	if (entry->has_chain && p != NULL)
		p = undo_unpack_urp(p, end, self, &rest->chain);
	if (p == NULL)
		return false;
	Assert(p <= end);
	rest->payload = p;
	rest->payload_len = end - p;
	return true;
}

/* Set APPLIED in run headers; offsets without one are passed over. */
void
undo_page_set_applied(Page page, const uint16 *offsets, int noffsets)
{
	Assert(UndoPageGetOpaque(page)->magic == UNDO_PAGE_MAGIC);
	Assert(noffsets > 0 && noffsets <= UNDO_PAGE_MAX_ENTRIES);
	for (int i = 0; i < noffsets; i++)
	{
		UndoEntry	entry;

		if (undo_page_get(page, offsets[i], &entry) &&
			entry.kind == UNDO_KIND_RUN)
			((uint8 *) page)[offsets[i]] |= HEAD_APPLIED;
	}
}

/* A control page back to a log without data pages; seq goes on. */
void
undo_page_reset_control(Page page)
{
	UndoControlData *control = UndoPageGetControl(page);

	Assert(UndoPageGetOpaque(page)->magic == UNDO_CONTROL_MAGIC);
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
undo_page_mask(char *page, BlockNumber blkno)
{
	UndoPageOpaque opaque;

	if (PageIsNew((Page) page))
	{
		/* RESET names those that go */
		mask_page_lsn_and_checksum((Page) page);
		return true;
	}
	if (PageGetSpecialSize((Page) page) !=
		MAXALIGN(sizeof(UndoPageOpaqueData)))
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
