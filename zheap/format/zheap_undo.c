/*-------------------------------------------------------------------------
 *
 * zheap_undo.c
 *	  Payloads of zheap's undo records: encoding, decoding, the diff of two
 *	  rows, and one step back in a row's history.
 *
 * Works on private memory alone: takes no lock, reads no buffer.  What the
 * bytes mean for visibility is decided by zheap_walk.c and its callers; the
 * layout is pictured in zheap_undo.h.
 *
 * Records come from disk, so the decoder believes nothing: every length is
 * checked against the payload before it is used, and a contradiction is
 * reported as corruption.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "nodes/lockoptions.h"

#include "undo/undo_pack.h"
#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_undo.h"
#include "zheap/format/zheap_words.h"

/* flag byte of INSERT_SET */
#define INSERT_HAS_TOKEN		1
#define INSERT_HAS_TID			2

/* in the byte of a LOCK, with its mode */
#define LOCK_REPLACED			0x80

#define SizeOfTid				6
#define SizeOfElsewhere			8	/* besides link and missing bytes */

/* at most; a diff's are three numbers below 2^16, the last bits are a flag */
#define SizeOfLink				(UNDO_MAX_PACKED + UNDO_MAX_PACKED_URP)
#define SizeOfDiffHead			9

/*
 * cid, prev_fxid, below; base; the old header, its link, where a copy is from;
 * diff; count of ranges, flags, token, a move's TID.  Not all at once, but so
 * it is easily seen.
 */
StaticAssertDecl(3 * UNDO_MAX_PACKED + SizeOfLink +
				 ZHEAP_HEADER_SIZE + SizeOfLink + SizeOfElsewhere +
				 SizeOfDiffHead + 2 + sizeof(uint32) + SizeOfTid <=
				 ZUNDO_MAX_HEAD, "room for all but rows and ranges");
StaticAssertDecl(SizeOfLink + UNDO_MAX_PACKED + sizeof(uint16) +
				 SizeOfDiffHead <= ZUNDO_MAX_JUMP, "room for a jump");

/* where the decoder stands */
typedef struct Cursor
{
	const UndoRecord *rec;
	const char *p;
	const char *end;
} Cursor;

/* ----------------------------------------------------------------
 *	errors
 * ----------------------------------------------------------------
 */

pg_noreturn static void
undo_is_malformed(const UndoRecord *rec, const char *expected)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("malformed undo record at " UndoRecPtrFormat,
					UndoRecPtrFormatArgs(rec->urp)),
			 errdetail("Record of kind %u for relation %u, block %u, offset %u: %s.",
					   rec->kind, rec->reloid, rec->block, rec->offset,
					   expected)));
}

/* ----------------------------------------------------------------
 *	pieces
 * ----------------------------------------------------------------
 */

static char *
put_bytes(char *p, const void *src, Size len)
{
	if (len > 0)				/* else there may be no source */
		memcpy(p, src, len);
	return p + len;
}

static void
get_bytes(Cursor *c, void *dst, Size len)
{
	if ((Size) (c->end - c->p) < len)
		undo_is_malformed(c->rec, "the payload ends too early");
	memcpy(dst, c->p, len);
	c->p += len;
}

static uint8
get_byte(Cursor *c)
{
	uint8		b;

	get_bytes(c, &b, 1);
	return b;
}

static uint64
get_number(Cursor *c, uint64 max)
{
	uint64		value = 0;

	c->p = undo_unpack(c->p, c->end, &value);
	if (c->p == NULL)
		undo_is_malformed(c->rec, "the payload ends too early");
	if (value > max)
		undo_is_malformed(c->rec, "a number is out of bounds");
	return value;
}

/* ----------------------------------------------------------------
 *	encoding
 * ----------------------------------------------------------------
 */

/* the owner before is named unless there was none: then there is no chain */
static inline bool
has_prev_fxid(const ZUndo *u)
{
	return (u->flags & ZUNDO_TENURE_START) != 0 &&
		UndoRecPtrIsValid(u->chain);
}

/* an open delete's rows were visible to all, and nothing is below it */
static inline bool
is_open_delete(const ZUndo *u)
{
	return u->kind == ZUNDO_DELETE &&
		(u->flags & (ZUNDO_OPEN | ZUNDO_PLAIN | ZUNDO_TENURE_START |
					 ZUNDO_FAMILY)) ==
		(ZUNDO_OPEN | ZUNDO_PLAIN | ZUNDO_TENURE_START) &&
		!UndoRecPtrIsValid(u->chain);
}

static inline bool
is_plain_change(const ZUndo *u)
{
	return (u->kind == ZUNDO_UPDATE || u->kind == ZUNDO_DELETE) &&
		(u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE;
}

static inline bool
has_old_header(const ZUndo *u)
{
	return ZUndoIsChange(u) && (u->flags & ZUNDO_PLAIN) == 0;
}

/* a link of a row's history, see zheap_jump.c */
static inline bool
is_jump(const ZUndo *u)
{
	return u->kind == ZUNDO_UPDATE &&
		(u->flags & ZUNDO_OLD_MASK) != ZUNDO_OLD_ALLVISIBLE &&
		(u->flags & ZUNDO_PLAIN) == 0;
}

/* of the page's shared xact slot */
static inline bool
is_shared(const ZUndo *u)
{
	uint8		old = u->flags & ZUNDO_OLD_MASK;

	return ZUndoIsShared(u) &&
		(u->flags & (ZUNDO_FAMILY | ZUNDO_BASE)) == 0 &&
		(old == ZUNDO_OLD_ALLVISIBLE || old == ZUNDO_OLD_LINK);
}

static inline bool
has_below(const ZUndo *u)
{
	return ZUndoIsShared(u) && (u->flags & ZUNDO_TENURE_START) == 0;
}

static inline uint64
pack_below(const ZUndo *u)
{
	return undo_zigzag(u->writer, u->below_youngest) << 1 | u->below_ends;
}

/* Kind and flags must go together; a writer that breaks this is our bug. */
static void
assert_encodable(const ZUndo *u)
{
	Assert(u->kind >= ZUNDO_INSERT_OPEN && u->kind <= ZUNDO_LIST);
	Assert(u->kind != ZUNDO_LIST || ZUndoIsShared(u));
	Assert(u->kind != ZUNDO_SPILL || (u->flags & ZUNDO_TENURE_START));
	Assert(u->offset != InvalidOffsetNumber);
	Assert(ZUndoIsChange(u) || (u->flags & ZUNDO_OLD_MASK) == 0);
	Assert((u->flags & ZUNDO_FAMILY) == 0 || (u->flags & ZUNDO_TENURE_START));
	Assert((u->flags & ZUNDO_FAMILY) == 0 || u->prev_fxid != InvalidFxid);
	Assert((u->flags & ZUNDO_OPEN_OR_JUMP) == 0 || is_open_delete(u) ||
		   is_jump(u) || is_shared(u));
	Assert((u->flags & ZUNDO_PLAIN) == 0 || is_plain_change(u));
	Assert((u->flags & ZUNDO_TENURE_START) == 0 ||
		   (u->prev_fxid == InvalidFxid) == !UndoRecPtrIsValid(u->chain));
	Assert(!has_prev_fxid(u) || u->writer != InvalidFxid);
	Assert(u->nranges >= 0 && u->nranges <= ZUNDO_MAX_RANGES);
	(void) u;
}

static inline Size
link_size(const ZUndo *u, Fxid fxid, UndoRecPtr urp)
{
	Assert(fxid != InvalidFxid || !UndoRecPtrIsValid(urp));
	return undo_packed_size(undo_zigzag(u->writer, fxid)) +
		undo_packed_urp_size(u->chain, urp);
}

static inline char *
put_link(char *p, const ZUndo *u, Fxid fxid, UndoRecPtr urp)
{
	p = undo_pack(p, undo_zigzag(u->writer, fxid));
	return undo_pack_urp(p, u->chain, urp);
}

/* the old length of what a diff replaces, and whether the new one differs */
static inline uint32
diff_lengths(const ZUndoDiff *d)
{
	return (uint32) d->oldmid << 1 | (d->oldmid != d->newmid ? 1 : 0);
}

static inline Size
diff_size(const ZUndoDiff *d)
{
	return undo_packed_size(d->prefix) + undo_packed_size(diff_lengths(d)) +
		(d->oldmid != d->newmid ? undo_packed_size(d->newmid) : 0) +
		d->oldmid;
}

static inline char *
put_diff(char *p, const ZUndoDiff *d)
{
	p = undo_pack(p, d->prefix);
	p = undo_pack(p, diff_lengths(d));
	if (d->oldmid != d->newmid)
		p = undo_pack(p, d->newmid);
	return put_bytes(p, d->oldbytes, d->oldmid);
}

/*
 * Bytes that zheap_undo_encode would write for u.
 */
uint16
zheap_undo_payload_size(const ZUndo *u)
{
	Size		size = undo_packed_size(u->cid);

	assert_encodable(u);

	if (has_prev_fxid(u))
		size += undo_packed_size(undo_zigzag(u->writer, u->prev_fxid));
	if (has_below(u))
		size += undo_packed_size(pack_below(u));
	if (u->flags & ZUNDO_BASE)
		size += link_size(u, u->base_fxid, u->base_urp);
	if (has_old_header(u))
	{
		size += ZHEAP_HEADER_SIZE;
		if ((u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_LINK || ZUndoIsCopy(u))
			size += link_size(u, u->link_fxid, u->link_urp);
		if (ZUndoIsCopy(u))
			size += SizeOfElsewhere + u->missing_len;
	}
	if (ZUndoHasDiff(u))
		size += diff_size(&u->diff);
	if (ZUndoHasJump(u))
		size += link_size(u, u->jump.fxid, u->jump.urp) +
			undo_packed_size(u->jump.span) + sizeof(uint16) +
			diff_size(&u->jump.diff);
	switch (u->kind)
	{
		case ZUNDO_MOVE:
			size += SizeOfTid;
			break;
		case ZUNDO_INSERT_SET:
			size += 1 + u->nranges * 2 * sizeof(uint16) + 1;
			if (u->token != 0)
				size += sizeof(uint32);
			if (ItemPointerIsValid(&u->tid))
				size += SizeOfTid;
			break;
		case ZUNDO_LOCK:
			size += 1;
			break;
		case ZUNDO_SPILL:
		case ZUNDO_LIST:
			size += undo_packed_size(u->nentries) + u->entrieslen;
			break;
		default:
			break;
	}

	/* updates in place are limited so that this holds */
	Assert(size <= UNDO_MAX_PAYLOAD);
	Assert(u->kind == ZUNDO_SPILL || u->kind == ZUNDO_LIST ||
		   size <= zheap_undo_payload_bound(u));
	return (uint16) size;
}

/*
 * Encode the payload of u into buf, which has room for
 * zheap_undo_payload_size(u) bytes; returns that size.
 */
uint16
zheap_undo_encode(const ZUndo *u, char *buf)
{
	char	   *p = buf;
	int			i;

	assert_encodable(u);

	p = undo_pack(p, u->cid);
	if (has_prev_fxid(u))
		p = undo_pack(p, undo_zigzag(u->writer, u->prev_fxid));
	if (has_below(u))
		p = undo_pack(p, pack_below(u));
	if (u->flags & ZUNDO_BASE)
		p = put_link(p, u, u->base_fxid, u->base_urp);
	if (has_old_header(u))
	{
		zheap_header_put(p, &u->oldhdr);
		p += ZHEAP_HEADER_SIZE;
		if ((u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_LINK || ZUndoIsCopy(u))
			p = put_link(p, u, u->link_fxid, u->link_urp);
		if (ZUndoIsCopy(u))
		{
			p = put_bytes(p, &u->old_block, sizeof(BlockNumber));
			p = put_bytes(p, &u->old_offset, sizeof(OffsetNumber));
			p = put_bytes(p, &u->missing_len, sizeof(uint16));
			p = put_bytes(p, u->missing, u->missing_len);
		}
	}
	if (ZUndoHasDiff(u))
		p = put_diff(p, &u->diff);
	if (ZUndoHasJump(u))
	{
		p = put_link(p, u, u->jump.fxid, u->jump.urp);
		p = undo_pack(p, u->jump.span);
		p = put_bytes(p, &u->jump.natts_flags1, sizeof(uint16));
		p = put_diff(p, &u->jump.diff);
	}
	switch (u->kind)
	{
		case ZUNDO_MOVE:
			p = put_bytes(p, &u->tid, SizeOfTid);
			break;
		case ZUNDO_INSERT_SET:
			*p++ = (char) u->nranges;
			for (i = 0; i < u->nranges; i++)
			{
				p = put_bytes(p, &u->first[i], sizeof(uint16));
				p = put_bytes(p, &u->last[i], sizeof(uint16));
			}
			*p++ = (char) ((u->token != 0 ? INSERT_HAS_TOKEN : 0) |
						   (ItemPointerIsValid(&u->tid) ? INSERT_HAS_TID : 0));
			if (u->token != 0)
				p = put_bytes(p, &u->token, sizeof(uint32));
			if (ItemPointerIsValid(&u->tid))
				p = put_bytes(p, &u->tid, SizeOfTid);
			break;
		case ZUNDO_LOCK:
			*p++ = (char) (u->lockmode | (u->replaced ? LOCK_REPLACED : 0));
			break;
		case ZUNDO_SPILL:
		case ZUNDO_LIST:
			p = undo_pack(p, u->nentries);
			p = put_bytes(p, u->entries, u->entrieslen);
			break;
		default:
			break;
	}

	Assert(p - buf == zheap_undo_payload_size(u));
	return (uint16) (p - buf);
}

/* ----------------------------------------------------------------
 *	decoding
 * ----------------------------------------------------------------
 */

static void
get_link(Cursor *c, const ZUndo *u, Fxid *fxid, UndoRecPtr *urp)
{
	*fxid = undo_unzigzag(u->writer, get_number(c, PG_UINT64_MAX));
	c->p = undo_unpack_urp(c->p, c->end, u->chain, urp);
	if (c->p == NULL)
		undo_is_malformed(c->rec, "the payload ends in a link");
}

static void
decode_diff(Cursor *c, ZUndoDiff *d)
{
	uint32		lengths;

	d->prefix = get_number(c, BLCKSZ);
	lengths = get_number(c, 2 * BLCKSZ + 1);
	d->oldmid = lengths >> 1;
	d->newmid = (lengths & 1) ? get_number(c, BLCKSZ) : d->oldmid;
	if (c->end - c->p < d->oldmid)
		undo_is_malformed(c->rec, "the payload ends in the old bytes");
	d->oldbytes = c->p;
	c->p += d->oldmid;
}

static void
decode_jump(Cursor *c, ZUndo *u)
{
	get_link(c, u, &u->jump.fxid, &u->jump.urp);
	u->jump.span = get_number(c, PG_UINT32_MAX);
	get_bytes(c, &u->jump.natts_flags1, sizeof(uint16));
	decode_diff(c, &u->jump.diff);
	if (u->jump.fxid == InvalidFxid || !UndoRecPtrIsValid(u->jump.urp))
		undo_is_malformed(c->rec, "a jump to nowhere");
}

/* the part all kinds share: tenure, base, old header, link */
static void
decode_common(Cursor *c, ZUndo *u)
{
	if ((u->flags & ZUNDO_FAMILY) && (u->flags & ZUNDO_TENURE_START) == 0)
		undo_is_malformed(c->rec,
						  "a family bit without the start of a tenure");

	u->cid = get_number(c, PG_UINT32_MAX);
	if (has_prev_fxid(u))
	{
		u->prev_fxid = undo_unzigzag(u->writer, get_number(c, PG_UINT64_MAX));
		if (u->prev_fxid == InvalidFxid)
			undo_is_malformed(c->rec,
							  "previous owner and chain contradict each other");
	}
	else if ((u->flags & ZUNDO_TENURE_START) == 0 &&
			 !UndoRecPtrIsValid(u->chain))
		undo_is_malformed(c->rec, "its tenure has no first record");
	else if (u->flags & ZUNDO_FAMILY)
		undo_is_malformed(c->rec, "a family tenure follows no owner");
	if (has_below(u))
	{
		uint64		below = get_number(c, PG_UINT64_MAX);

		u->below_youngest = undo_unzigzag(u->writer, below >> 1);
		u->below_ends = (below & 1) != 0;
		if (u->below_youngest == InvalidFxid)
			undo_is_malformed(c->rec, "a shared chain that goes on by nobody");
	}
	if (u->flags & ZUNDO_BASE)
		get_link(c, u, &u->base_fxid, &u->base_urp);
	if (((u->flags & ZUNDO_OPEN_OR_JUMP) && !is_open_delete(u) &&
		 !is_jump(u) && !is_shared(u)) ||
		(u->kind == ZUNDO_LIST && !is_shared(u)) ||
		((u->flags & ZUNDO_PLAIN) && !is_plain_change(u)))
		undo_is_malformed(c->rec,
						  "an open, shared or plain record that cannot be one");
	if (has_old_header(u))
	{
		if ((Size) (c->end - c->p) < ZHEAP_HEADER_SIZE)
			undo_is_malformed(c->rec, "the payload ends in the old header");
		zheap_header_get(c->p, &u->oldhdr);
		c->p += ZHEAP_HEADER_SIZE;
		if ((u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_LINK || ZUndoIsCopy(u))
		{
			get_link(c, u, &u->link_fxid, &u->link_urp);
			if (u->link_fxid == InvalidFxid || !UndoRecPtrIsValid(u->link_urp))
				undo_is_malformed(c->rec,
								  "the link to the old version is empty");
		}
		if (ZUndoIsCopy(u))
		{
			get_bytes(c, &u->old_block, sizeof(BlockNumber));
			get_bytes(c, &u->old_offset, sizeof(OffsetNumber));
			if (u->old_offset == InvalidOffsetNumber ||
				u->old_offset > MaxHeapTuplesPerPage)
				undo_is_malformed(c->rec, "old offset out of bounds");
			get_bytes(c, &u->missing_len, sizeof(uint16));
			if (c->end - c->p < u->missing_len ||
				(u->missing_len != 0 && u->missing_len < ZHEAP_HEADER_SIZE))
				undo_is_malformed(c->rec,
								  "the payload ends in the missing columns");
			u->missing = c->p;
			c->p += u->missing_len;
		}
	}
	else if (u->flags & ZUNDO_OLD_MASK)
		undo_is_malformed(c->rec, "an old version of a row that has none");
	if (ZUndoHasDiff(u))
		decode_diff(c, &u->diff);
	if (ZUndoHasJump(u))
		decode_jump(c, u);
}

static void
decode_insert_set(Cursor *c, ZUndo *u)
{
	uint8		flags;
	int			i;

	Assert(u->kind == ZUNDO_INSERT_SET);
	u->nranges = get_byte(c);
	if (u->nranges == 0 || u->nranges > ZUNDO_MAX_RANGES)
		undo_is_malformed(c->rec, "number of ranges out of bounds");
	for (i = 0; i < u->nranges; i++)
	{
		get_bytes(c, &u->first[i], sizeof(uint16));
		get_bytes(c, &u->last[i], sizeof(uint16));
		if (u->first[i] == InvalidOffsetNumber ||
			u->first[i] > u->last[i] ||
			u->last[i] > MaxHeapTuplesPerPage)
			undo_is_malformed(c->rec, "range of offsets out of bounds");
	}
	flags = get_byte(c);
	if (flags & INSERT_HAS_TOKEN)
		get_bytes(c, &u->token, sizeof(uint32));
	if (flags & INSERT_HAS_TID)
		get_bytes(c, &u->tid, SizeOfTid);
}

char *
zheap_undo_put_entry(char *p, Fxid writer, const ZSpillEntry *entry)
{
	Assert(entry->off != InvalidOffsetNumber &&
		   entry->off <= MaxHeapTuplesPerPage);
	Assert(entry->fxid != InvalidFxid && UndoRecPtrIsValid(entry->urp));
	Assert(entry->len >= ZHEAP_HEADER_SIZE && writer != InvalidFxid);
	p = undo_pack(p, entry->off);
	p = undo_pack(p, undo_zigzag(writer, entry->fxid));
	p = undo_pack_urp(p, InvalidUndoRecPtr, entry->urp);
	p = undo_pack(p, entry->len);
	return put_bytes(p, entry->tuple, entry->len);
}

static void
get_entry(Cursor *c, Fxid writer, ZSpillEntry *entry)
{
	entry->off = get_number(c, MaxHeapTuplesPerPage);
	entry->fxid = undo_unzigzag(writer, get_number(c, PG_UINT64_MAX));
	c->p = undo_unpack_urp(c->p, c->end, InvalidUndoRecPtr, &entry->urp);
	if (c->p == NULL)
		undo_is_malformed(c->rec, "the payload ends in a spilled row");
	entry->len = get_number(c, BLCKSZ);
	entry->tuple = c->p;
	if (entry->len < ZHEAP_HEADER_SIZE || c->end - c->p < entry->len)
		undo_is_malformed(c->rec, "length of a spilled row out of bounds");
	if (entry->off == InvalidOffsetNumber ||
		entry->fxid == InvalidFxid || !UndoRecPtrIsValid(entry->urp))
		undo_is_malformed(c->rec, "a spilled row without offset or ender");
	c->p += entry->len;
}

/* rec is the record that u was decoded from */
bool
zheap_undo_next_entry(const UndoRecord *rec, const ZUndo *u, const char **p,
					  ZSpillEntry *entry)
{
	Cursor		c = {rec, *p, u->entries + u->entrieslen};

	Assert(u->kind == ZUNDO_SPILL);
	Assert(*p >= u->entries && *p <= u->entries + u->entrieslen);
	if (c.p >= c.end)
		return false;
	get_entry(&c, u->writer, entry);
	*p = c.p;
	return true;
}

/* see ZListEntry in zheap_undo.h; before is the entry before's fxid */
char *
zheap_undo_put_list_entry(char *p, Fxid before, const ZListEntry *entry)
{
	Assert(entry->off != InvalidOffsetNumber &&
		   entry->off <= MaxHeapTuplesPerPage);
	Assert(entry->fxid != InvalidFxid && entry->mode <= LockTupleExclusive);
	Assert(!entry->end || UndoRecPtrIsValid(entry->urp));
	p = undo_pack(p, (uint32) entry->off << 3 | entry->mode << 1 |
				  (entry->end ? 1 : 0));
	p = undo_pack(p, undo_zigzag(before, entry->fxid));
	return entry->end ? undo_pack_urp(p, InvalidUndoRecPtr, entry->urp) : p;
}

/* the entry before is replaced by the next one */
static void
get_list_entry(Cursor *c, ZListEntry *entry)
{
	uint32		head = get_number(c, MaxHeapTuplesPerPage << 3 | 7);

	entry->off = head >> 3;
	entry->mode = (head >> 1) & 3;
	entry->end = (head & 1) != 0;
	entry->fxid = undo_unzigzag(entry->fxid, get_number(c, PG_UINT64_MAX));
	entry->urp = InvalidUndoRecPtr;
	if (entry->end)
	{
		c->p = undo_unpack_urp(c->p, c->end, InvalidUndoRecPtr, &entry->urp);
		if (c->p == NULL || !UndoRecPtrIsValid(entry->urp))
			undo_is_malformed(c->rec, "the end of a row without its record");
	}
	if (entry->off == InvalidOffsetNumber || entry->fxid == InvalidFxid)
		undo_is_malformed(c->rec, "an entry without offset or transaction");
}

bool
zheap_undo_next_list_entry(const UndoRecord *rec, const ZUndo *u,
						   const char **p, ZListEntry *entry)
{
	Cursor		c = {rec, *p, u->entries + u->entrieslen};

	Assert(u->kind == ZUNDO_LIST);
	Assert(*p >= u->entries && *p <= u->entries + u->entrieslen);
	if (c.p >= c.end)
		return false;
	get_list_entry(&c, entry);
	*p = c.p;
	return true;
}

static void
decode_list(Cursor *c, ZUndo *u)
{
	ZListEntry	entry = {.fxid = u->writer};

	u->nentries = get_number(c, UNDO_MAX_PAYLOAD);
	u->entries = c->p;
	for (int i = 0; i < u->nentries; i++)
		get_list_entry(c, &entry);
	u->entrieslen = c->p - u->entries;
}

static void
decode_spill(Cursor *c, ZUndo *u)
{
	Assert(u->kind == ZUNDO_SPILL);
	if ((u->flags & ZUNDO_TENURE_START) == 0)
		undo_is_malformed(c->rec,
						  "a spill record names no writer of the one before");
	u->nentries = get_number(c, MaxHeapTuplesPerPage);
	u->entries = c->p;
	for (int i = 0; i < u->nentries; i++)
	{
		ZSpillEntry entry;

		get_entry(c, u->writer, &entry);
	}
	u->entrieslen = c->p - u->entries;
}

/*
 * Decode a record.  Pointers in *u go into rec->data.  ERROR (data
 * corrupted) if it is malformed.
 */
void
zheap_undo_decode(const UndoRecord *rec, ZUndo *u)
{
	Cursor		c;

	Assert(rec->writer != InvalidFxid && rec->payload_len <= UNDO_MAX_PAYLOAD);
	memset(u, 0, offsetof(ZUndo, first));
	u->kind = rec->kind;
	u->flags = rec->flags;
	u->offset = rec->offset;
	u->chain = rec->chain;
	u->writer = rec->writer;
	ItemPointerSetInvalid(&u->tid);

	c.rec = rec;
	c.p = rec->payload;
	c.end = rec->payload + rec->payload_len;

	if (u->kind < ZUNDO_INSERT_OPEN || u->kind > ZUNDO_LIST)
		undo_is_malformed(rec, "no such kind");
	if (u->offset == InvalidOffsetNumber || u->offset > MaxHeapTuplesPerPage)
		undo_is_malformed(rec, "offset out of bounds");

	decode_common(&c, u);

	switch (u->kind)
	{
		case ZUNDO_INSERT_SET:
			decode_insert_set(&c, u);
			break;
		case ZUNDO_MOVE:
			get_bytes(&c, &u->tid, SizeOfTid);
			break;
		case ZUNDO_LOCK:
			u->lockmode = get_byte(&c);
			u->replaced = (u->lockmode & LOCK_REPLACED) != 0;
			u->lockmode &= ~LOCK_REPLACED;
			if (u->lockmode > LockTupleExclusive)
				undo_is_malformed(rec, "no such lock mode");
			break;
		case ZUNDO_SPILL:
			decode_spill(&c, u);
			break;
		case ZUNDO_LIST:
			decode_list(&c, u);
			break;
		default:
			break;
	}

	if (c.p != c.end)
		undo_is_malformed(rec, "the payload is longer than its contents");
}

/* ----------------------------------------------------------------
 *	rows
 * ----------------------------------------------------------------
 */

/*
 * Does the record cover offset o?  Only to be asked for a row version that
 * was reached through the record's own xact slot: an open insert range
 * covers whatever was appended later by others, too.
 */
bool
zheap_undo_covers(const ZUndo *u, OffsetNumber o, const ZTupleHeader *header)
{
	int			i;

	Assert(o != InvalidOffsetNumber && o <= MaxHeapTuplesPerPage);
	switch (u->kind)
	{
		case ZUNDO_INSERT_OPEN:
			return o >= u->offset;
		case ZUNDO_INSERT_SET:
			for (i = 0; i < u->nranges; i++)
			{
				if (o >= u->first[i] && o <= u->last[i])
					return true;
			}
			return false;
		case ZUNDO_DELETE:
			if (ZUndoIsOpenDelete(u))
				return (header->flags2 & ZH_END_MASK) == ZH_DELETED;
			return o == u->offset;
		case ZUNDO_UPDATE:
		case ZUNDO_MOVE:
			return o == u->offset;
		default:
			return false;
	}
}

void
zheap_undo_old_header(const ZUndo *u, const ZTupleHeader *now,
					  ZTupleHeader *old)
{
	Assert(ZUndoIsChange(u));
	if (has_old_header(u))
	{
		*old = u->oldhdr;
		return;
	}
	*old = *now;
	old->slot = 0;
	old->flags2 &= ~(ZH_END_MASK | ZH_REUSED_MASK | ZH_INPLACE | ZH_LOCK_BITS);
}

/*
 * Diff of two rows: one differing stretch behind the fixed headers.  Lengths
 * are true lengths: headers are saved whole, slack is no part of a row.
 */
void
zheap_undo_diff(ZUndoDiff *diff, const char *oldtuple, uint16 oldlen,
				const char *newtuple, uint16 newlen)
{
	const char *o = oldtuple + ZHEAP_HEADER_SIZE;
	const char *n = newtuple + ZHEAP_HEADER_SIZE;
	uint16		olen = oldlen - ZHEAP_HEADER_SIZE;
	uint16		nlen = newlen - ZHEAP_HEADER_SIZE;
	uint16		common = Min(olen, nlen);
	uint16		prefix;
	uint16		suffix;

	Assert(oldlen >= ZHEAP_HEADER_SIZE && newlen >= ZHEAP_HEADER_SIZE);

	Assert(oldlen <= BLCKSZ && newlen <= BLCKSZ);
	prefix = zheap_words_equal(o, n, common);
	suffix = zheap_words_equal_before(o + olen, n + nlen, common - prefix);
	diff->prefix = prefix;
	diff->oldmid = olen - prefix - suffix;
	diff->newmid = nlen - prefix - suffix;
	diff->oldbytes = o + prefix;
}

/* The header stays as it is. */
static void
patch_middle(const ZUndo *u, const ZUndoDiff *d, char *image, uint16 *len)
{
	Size		head = ZHEAP_HEADER_SIZE + (Size) d->prefix;
	Size		suffix;

	Assert(*len >= ZHEAP_HEADER_SIZE && *len <= BLCKSZ);
	if (head + d->newmid > *len ||
		(Size) *len - d->newmid + d->oldmid > BLCKSZ)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo record of an update does not fit its row"),
				 errdetail("Offset %u: the row has %u bytes, the record replaces %u bytes behind %u by %u.",
						   u->offset, *len, d->newmid, (unsigned) head,
						   d->oldmid)));
	suffix = *len - head - d->newmid;
	if (d->oldmid != d->newmid)
		memmove(image + head + d->oldmid, image + head + d->newmid, suffix);
	memcpy(image + head, d->oldbytes, d->oldmid);
	*len = head + d->oldmid + suffix;
}

/*
 * Patch an image back to what it was before the change: UPDATE and a copy
 * replace the middle, every change restores the old header.  image has room for
 * BLCKSZ bytes; *len is its true length, before and after.  The header written
 * never has SLACK, because an image has none.
 */
void
zheap_undo_step_back(const ZUndo *u, char *image, uint16 *len)
{
	ZTupleHeader header;
	ZTupleHeader now;

	Assert(ZUndoIsChange(u) && *len >= ZHEAP_HEADER_SIZE);
	zheap_header_get(image, &now);
	zheap_undo_old_header(u, &now, &header);
	if (ZUndoHasDiff(u))
		patch_middle(u, &u->diff, image, len);
	header.natts_flags1 &= ~ZH_SLACK;
	zheap_header_put(image, &header);
}

/*
 * The same over many changes at once.  The image is then of a version that was
 * changed again, so that of its header only what describes its bytes is meant.
 */
void
zheap_undo_jump_back(const ZUndo *u, char *image, uint16 *len)
{
	ZTupleHeader header = {0};

	Assert(ZUndoHasJump(u));
	patch_middle(u, &u->jump.diff, image, len);
	header.natts_flags1 = u->jump.natts_flags1 & ~ZH_SLACK;
	zheap_header_put(image, &header);
}
