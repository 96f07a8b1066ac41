/*-------------------------------------------------------------------------
 *
 * zheap_xlog_insert.c
 *	  Inserts as they are applied to a page, by the operation and by redo alike;
 *	  their WAL records: main data, the coding of rows, redo, description.
 *
 * Rows that follow each other are alike as a rule.  So a row may be logged as
 * its difference from the row before it: the one at the offset before, which
 * is on the page when redo comes to it, or an earlier one of the same record.
 * (Not if the page is restored from an image, but then the rows of the record
 * aren't needed.)  Bodies are compared at equal distances from their beginning,
 * and, where their lengths differ, at their end.
 *
 * Nothing here decides what to insert where: that is zheap_insert.c's business.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogutils.h"
#include "storage/bufmgr.h"

#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_words.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_lend.h"
#include "zheap/wal/zheap_xlog_insert.h"

/* fewer equal bytes than this don't end a literal */
#define DIFF_MIN_RUN			3
/* after so many unequal bytes the rest is taken for unequal, too */
#define DIFF_MAX_SEARCH		512
/* a token's half byte that says: the number goes on, packed */
#define DIFF_MORE				15
/* the numbers before the tokens, both of 16 bits */
#define DIFF_MAX_HEAD			6

/* ----------------------------------------------------------------
 *	apply
 * ----------------------------------------------------------------
 */
bool
zheap_xlog_insert_apply(Page page, const ZInsertChange *change)
{
	ZTupleHeader header;
	Size		need = 0;

	Assert(change->ntuples > 0);

	/* before the rows: the takeover pass mustn't see them */
	if (UndoRecPtrIsValid(change->urp))
		zheap_xact_slot_own(page, change->xact_slot, change->tenure,
							change->fxid, change->urp);
	if (change->xact_slot != 0)
		ZPageGetOpaque(page)->flags &= ~ZPAGE_ALL_RESOLVED;

	for (int i = 0; i < change->ntuples; i++)
		need += change->len[i] + (change->reused ? 0 : sizeof(ItemIdData));
	if (!zheap_page_make_room(page, need))
		return false;
	for (int i = 0; i < change->ntuples; i++)
	{
		if (!zheap_page_add(page, change->first + i, change->tuple[i],
							change->len[i]))
			return false;
	}
	/* copied rows come one by one */
	zheap_header_get(change->tuple[0], &header);
	if (unlikely(header.flags2 & ZH_STALE))
		zheap_page_note_stale(page);
	return true;
}

/* ----------------------------------------------------------------
 *	main data
 * ----------------------------------------------------------------
 */

static bool
may_be_brief(const ZInsertHead *head)
{
	return head->ntuples == 1 &&
		(head->flags & ZINSERT_HAS_UNDO) != 0 &&
		head->xact_slot < 0x20 && head->first < 0x200 &&
		head->undo_offset < 0x8000 && head->logical_len == 1 &&
		head->logical[0] == ZINSERT_BRIEF_LOGICAL[0];
}

static char *
pack_brief(char *p, const ZInsertHead *head)
{
	*p++ = (char) (head->flags | ZINSERT_BRIEF);
	*p++ = (char) (head->tenure | head->xact_slot << 3);
	*p++ = (char) (head->first & 0xFF);
	return undo_pack_u16(p, head->undo_offset | head->first >> 8 << 15);
}

/* flags are there already */
static const char *
unpack_brief(const char *p, const char *end, ZInsertHead *head)
{
	uint8		owner = 0;
	uint8		first = 0;
	uint16		place = 0;

	p = undo_unpack_u8(p, end, &owner);
	p = undo_unpack_u8(p, end, &first);
	p = undo_unpack_u16(p, end, &place);
	head->tenure = (ZTenure) (owner & 7);
	head->xact_slot = owner >> 3;
	head->first = first | place >> 15 << 8;
	head->undo_offset = place & 0x7FFF;
	return p;
}

uint16
zheap_xlog_insert_pack(char *buf, const ZInsertHead *head, bool *brief)
{
	char	   *p = buf;

	*brief = may_be_brief(head);
	if (*brief)
		p = pack_brief(p, head);
	else
	{
		*p++ = (char) (head->flags | (head->tenure << ZINSERT_TENURE_SHIFT));
		*p++ = (char) head->xact_slot;
		p = undo_pack(p, head->first);
		if (head->flags & ZINSERT_HAS_UNDO)
			p = undo_pack_u16(p, head->undo_offset);
	}
	if (head->flags & ZINSERT_MORE)
	{
		p = undo_pack(p, head->ntuples);
		p = undo_pack(p, head->flags2);
	}
	if (head->tenure == ZTENURE_FROZEN)
		p = undo_pack(p, head->conflict);
	return p - buf;
}

void
zheap_xlog_insert_unpack(XLogReaderState *record, ZInsertHead *head)
{
	const char *p = XLogRecGetData(record);
	const char *end = p + XLogRecGetDataLen(record);
	uint8		flags = 0;
	bool		brief;

	memset(head, 0, sizeof(*head));
	p = undo_unpack_u8(p, end, &flags);
	brief = (flags & ZINSERT_BRIEF) == ZINSERT_BRIEF;
	head->flags = flags & ((1 << ZINSERT_TENURE_SHIFT) - 1);
	if (brief)
		p = unpack_brief(p, end, head);
	else
	{
		head->tenure = (ZTenure) (flags >> ZINSERT_TENURE_SHIFT);
		p = undo_unpack_u8(p, end, &head->xact_slot);
		p = undo_unpack_small(p, end, &head->first);
		if (head->flags & ZINSERT_HAS_UNDO)
			p = undo_unpack_u16(p, end, &head->undo_offset);
	}
	head->ntuples = 1;
	if (head->flags & ZINSERT_MORE)
	{
		p = undo_unpack_small(p, end, &head->ntuples);
		p = undo_unpack_small(p, end, &head->flags2);
	}
	if (p != NULL && head->tenure == ZTENURE_FROZEN)
		p = undo_unpack(p, end, &head->conflict);
	if (p == NULL)
		elog(ERROR, "insert record is malformed");
	head->logical = brief ? ZINSERT_BRIEF_LOGICAL : p;
	head->logical_len = brief ? 1 : end - p;
}

/* ----------------------------------------------------------------
 *	rows in WAL
 * ----------------------------------------------------------------
 */

/* number of bytes until the next DIFF_MIN_RUN equal ones, or max */
static inline Size
unequal_bytes(const char *a, const char *b, Size max)
{
	Size		n = 0;

	while (n + DIFF_MIN_RUN <= max)
	{
		if (a[n] == b[n] && memcmp(a + n, b + n, DIFF_MIN_RUN) == 0)
			return n;
		if (n + sizeof(uint64) <= max &&
			!zheap_words_has_zero(zheap_words_differ(a + n, b + n)))
			n += sizeof(uint64);
		else
			n++;
	}
	return max;
}

static inline Size
token_size(Size skip, Size literal)
{
	Size		size = 1;

	if (skip >= DIFF_MORE)
		size += undo_packed_size(skip - DIFF_MORE);
	if (literal >= DIFF_MORE)
		size += undo_packed_size(literal - DIFF_MORE);
	return size;
}

static inline char *
put_token(char *p, Size skip, Size literal)
{
	*p++ = (char) (Min(skip, DIFF_MORE) << 4 | Min(literal, DIFF_MORE));
	if (skip >= DIFF_MORE)
		p = undo_pack(p, skip - DIFF_MORE);
	if (literal >= DIFF_MORE)
		p = undo_pack(p, literal - DIFF_MORE);
	return p;
}

static const char *
get_token(const char *p, const char *end, uint16 *skip, uint16 *literal)
{
	uint8		token = 0;
	uint16		more = 0;

	p = undo_unpack_u8(p, end, &token);
	*skip = token >> 4;
	*literal = token & 0x0F;
	if (p != NULL && *skip == DIFF_MORE)
	{
		p = undo_unpack_small(p, end, &more);
		*skip = Min(DIFF_MORE + more, BLCKSZ);
	}
	if (p != NULL && *literal == DIFF_MORE)
	{
		p = undo_unpack_small(p, end, &more);
		*literal = Min(DIFF_MORE + more, BLCKSZ);
	}
	return p;
}

/* all bits of natts_flags1 that belong to the body */
static inline uint16
row_natts(const char *tuple)
{
	ZTupleHeader header;

	zheap_header_get(tuple, &header);
	return header.natts_flags1 & ~ZH_SLACK;
}

/*
 * What put_long_difference() does for bodies of equal length, at most
 * ZHEAP_WORDS_BITS bytes, with the same result.
 */
static char *
put_short_difference(char *to, Size max, const char *old, const char *new,
					 int len)
{
	uint64		equal = zheap_words_equal_bytes(old, new, len);
	uint64		all = ~UINT64CONST(0) >> (ZHEAP_WORDS_BITS - len);
	uint64		runs;
	int			stop = 0;
	int			pos = 0;
	char	   *p = to;

	StaticAssertStmt(DIFF_MIN_RUN == 3, "as many are tested below");
	if (equal != all)
		stop = pg_leftmost_one_pos64(equal ^ all) + 1;
	*p++ = 1;					/* undo_zigzag(len, len) << 1 | 1 */
	*p++ = (char) (len - stop);

	/* where a run begins that is long enough to end a literal */
	equal &= ~UINT64CONST(0) >> 1 >> (ZHEAP_WORDS_BITS - 1 - stop);
	runs = equal & equal >> 1 & equal >> 2;
	while (pos < stop)
	{
		int			begin = pos;
		int			literal;

		/* the byte at stop - 1 isn't equal */
		pos += pg_rightmost_one_pos64(~equal >> pos);
		literal = (runs >> pos) == 0 ? stop - pos :
			pg_rightmost_one_pos64(runs >> pos);
		if (p - to + token_size(pos - begin, literal) + literal >= max)
			return NULL;
		p = put_token(p, pos - begin, literal);
		memcpy(p, new + pos, literal);
		p += literal;
		pos += literal;
	}
	return p;
}

static char *
put_long_difference(char *to, Size max, const char *old, Size oldlen,
					const char *new, Size newlen)
{
	Size		suffix;
	Size		both;			/* up to here there are two bytes to compare */
	Size		stop;
	Size		pos = 0;
	char	   *p = to;

	suffix = zheap_words_equal_before(old + oldlen, new + newlen,
									  Min(oldlen, newlen));
	both = Min(oldlen, newlen) - suffix;
	stop = newlen - suffix;
	p = undo_pack(p, undo_zigzag(oldlen, newlen) << 1 | 1);
	p = undo_pack(p, suffix);
	while (pos < stop)
	{
		Size		skip = zheap_words_equal(old + pos, new + pos, both - pos);
		Size		literal;

		pos += skip;
		literal = unequal_bytes(old + pos, new + pos,
								Min(both - pos, DIFF_MAX_SEARCH));
		/* what is left has no counterpart, or is too short for a run */
		if (pos + literal == both || literal == DIFF_MAX_SEARCH)
			literal = stop - pos;
		if (p - to + token_size(skip, literal) + literal >= max)
			return NULL;
		p = put_token(p, skip, literal);
		memcpy(p, new + pos, literal);
		p += literal;
		pos += literal;
	}
	return p;
}

#ifdef USE_ASSERT_CHECKING
static bool
long_difference_is(const char *coded, const char *end, Size max,
				   const char *old, const char *new, Size len)
{
	char		buf[2 * ZHEAP_WORDS_BITS];
	char	   *p = put_long_difference(buf, Min(max, sizeof(buf)), old, len,
										new, len);

	return end == NULL ? p == NULL :
		p - buf == end - coded && memcmp(buf, coded, end - coded) == 0;
}
#endif

/*
 * Write a row as its difference from prev; returns the byte behind it, or NULL
 * if it would need "max" bytes or more.
 */
static char *
put_difference(char *to, Size max, const char *prev, uint16 prevlen,
			   const char *tuple, uint16 len)
{
	const char *old = prev + ZHEAP_HEADER_SIZE;
	const char *new = tuple + ZHEAP_HEADER_SIZE;
	Size		oldlen = prevlen - ZHEAP_HEADER_SIZE;
	Size		newlen = len - ZHEAP_HEADER_SIZE;
	char	   *p;

	if (max <= DIFF_MAX_HEAD || row_natts(prev) != row_natts(tuple))
		return NULL;
	if (oldlen != newlen || newlen == 0 || newlen >= ZHEAP_WORDS_BITS)
		return put_long_difference(to, max, old, oldlen, new, newlen);
	p = put_short_difference(to, max, old, new, newlen);
	Assert(long_difference_is(to, p, max, old, new, newlen));
	return p;
}

/*
 * The reverse: to is where the row goes, header included; NULL if the
 * difference isn't one from prev, or the row has more than "max" bytes.
 */
static const char *
get_difference(const char *p, const char *end, uint64 number,
			   const char *prev, uint16 prevlen, char *to, Size max,
			   uint16 *len)
{
	uint16		oldlen = prevlen - ZHEAP_HEADER_SIZE;
	uint64		newlen = undo_unzigzag(oldlen, number >> 1);
	uint16		suffix = 0;
	uint16		pos = 0;
	char	   *body = to + ZHEAP_HEADER_SIZE;

	p = undo_unpack_small(p, end, &suffix);
	if (p == NULL || newlen > BLCKSZ || newlen + ZHEAP_HEADER_SIZE > max ||
		suffix > newlen || suffix > oldlen)
		return NULL;
	prev += ZHEAP_HEADER_SIZE;
	while (pos < newlen - suffix)
	{
		uint16		skip;
		uint16		literal;

		p = get_token(p, end, &skip, &literal);
		if (p == NULL || skip + literal == 0 ||
			(skip > 0 && pos + skip > oldlen) ||
			pos + skip + literal > newlen - suffix || literal > end - p)
			return NULL;
		memcpy(body + pos, prev + pos, skip);
		pos += skip;
		memcpy(body + pos, p, literal);
		pos += literal;
		p += literal;
	}
	memcpy(body + pos, prev + oldlen - suffix, suffix);
	*len = (uint16) newlen + ZHEAP_HEADER_SIZE;
	return p;
}

uint16
zheap_xlog_insert_code_row(Page page, OffsetNumber before, const char *tuple,
						   uint16 len,
						   char *buf)
{
	const char *prev;
	uint16		prevlen = 0;
	uint16		plain = len - ZHEAP_HEADER_SIZE + sizeof(uint16);
	char	   *p;

	prev = PageIsNew(page) ? NULL : zheap_page_row(page, before, &prevlen);
	if (prev == NULL)
		return 0;
	p = put_difference(buf, Min(plain, ZCODED_ROW_SIZE), prev, prevlen,
					   tuple, len);
	return p == NULL ? 0 : p - buf;
}

char *
zheap_xlog_insert_put_row(char *to, const char *prev, uint16 prevlen,
						  const char *tuple, uint16 len)
{
	uint16		body = len - ZHEAP_HEADER_SIZE;
	char	   *coded = NULL;

	if (prev != NULL)
		coded = put_difference(to, body + 2 * sizeof(uint16), prev, prevlen,
							   tuple, len);
	if (coded == NULL)
	{
		coded = undo_pack(to, (uint64) body << 1);
		coded = undo_pack_u16(coded, row_natts(tuple));
		memcpy(coded, tuple + ZHEAP_HEADER_SIZE, body);
		coded += body;
	}
	return coded;
}

uint16
zheap_xlog_insert_code_rows(Page page, const ZInsertChange *change, char *buf)
{
	const char *prev = NULL;
	uint16		prevlen = 0;
	char	   *p = buf;

	if (page != NULL && !PageIsNew(page))
		prev = zheap_page_row(page, change->first - 1, &prevlen);
	for (int i = 0; i < change->ntuples; i++)
	{
		p = zheap_xlog_insert_put_row(p, prev, prevlen, change->tuple[i],
									  change->len[i]);
		prev = change->tuple[i];
		prevlen = change->len[i];
		Assert(p <= buf + BLCKSZ);
	}
	return p - buf;
}

/* the header of a logged row: what all rows of a record share, and natts */
static void
put_row_header(char *to, const ZInsertHead *head, uint16 natts)
{
	ZTupleHeader header;

	header.slot = head->xact_slot;
	header.natts_flags1 = natts;
	header.flags2 = head->flags2;
	zheap_header_put(to, &header);
}

/*
 * Take the next row from *p: a coded one, or a plain one which is all there
 * is.  False if it is malformed.
 */
static bool
parse_row(const char **p, const char *end, bool coded,
		  const ZInsertHead *head, const char *prev, uint16 prevlen,
		  char *to, Size max, uint16 *len)
{
	uint64		number = 0;
	uint16		natts = 0;
	Size		body;

	if (coded)
		*p = undo_unpack(*p, end, &number);
	if (*p != NULL && (number & 1))
	{
		if (prev == NULL)
			return false;
		*p = get_difference(*p, end, number, prev, prevlen, to, max, len);
		if (*p != NULL)
			put_row_header(to, head, row_natts(prev));
		return *p != NULL;
	}

	*p = undo_unpack_u16(*p, end, &natts);
	if (*p == NULL)
		return false;
	body = coded ? number >> 1 : end - *p;
	if (body > end - *p || body + ZHEAP_HEADER_SIZE > max)
		return false;
	put_row_header(to, head, natts);
	memcpy(to + ZHEAP_HEADER_SIZE, *p, body);
	*p += body;
	*len = body + ZHEAP_HEADER_SIZE;
	return true;
}

bool
zheap_xlog_insert_decode_row(Page page, OffsetNumber before,
							 const char *coded, Size size,
							 uint8 xact_slot, char *to, uint16 *len)
{
	ZInsertHead head = {0};
	const char *end = coded + size;
	const char *prev;
	uint16		prevlen = 0;

	head.xact_slot = xact_slot;
	prev = zheap_page_row(page, before, &prevlen);
	return parse_row(&coded, end, true, &head, prev, prevlen, to, BLCKSZ,
					 len) && coded == end;
}

bool
zheap_xlog_insert_get_row(const char **p, const char *end, const char *prev,
						  uint16 prevlen, char *tuple, uint16 *len)
{
	ZInsertHead head = {0};

	return parse_row(p, end, true, &head, prev, prevlen, tuple, BLCKSZ, len);
}

/* They are the data of the table block. */
void
zheap_xlog_insert_rows(XLogReaderState *record, const ZInsertHead *head,
					   Page page, const ZLenders *lenders,
					   ZInsertChange *change, char *rows, int elevel)
{
	bool		coded = (head->flags & ZINSERT_CODED) != 0;
	Size		datalen;
	const char *p = XLogRecGetBlockData(record, 0, &datalen);
	const char *end = p + datalen;
	const char *ranges = NULL;
	const char *prev = NULL;
	uint16		prevlen = 0;
	PGAlignedBlock cut;
	char	   *to = rows;
	char	   *limit = rows + BLCKSZ;

	if (p == NULL || change->ntuples < 1 ||
		change->ntuples > (coded ? MaxHeapTuplesPerPage : 1))
		elog(elevel, "insert record without rows");

	if (lenders != NULL && lenders->npages > 0)
	{
		ranges = p;
		p = zheap_lend_skip(p, end);
		if (p == NULL)
			elog(elevel, "malformed ranges of lent bytes in insert record");
		to = cut.data;
		limit = to + BLCKSZ;
	}
	if (page != NULL)
		prev = zheap_page_row(page, change->first - 1, &prevlen);
	for (int i = 0; i < change->ntuples; i++)
	{
		if (!parse_row(&p, end, coded, head, prev, prevlen, to,
					   limit - to, &change->len[i]))
			elog(elevel, "malformed row %d in insert record", i + 1);
		change->tuple[i] = prev = to;
		prevlen = change->len[i];
		to += prevlen;
	}
	if (p != end)
		elog(elevel, "insert record has bytes behind its rows");
	if (ranges != NULL &&
		!zheap_lend_put_back(ranges, end, lenders, change, rows))
		elog(elevel, "rows of an insert record do not fit their lent bytes");
}

/* ----------------------------------------------------------------
 *	redo
 * ----------------------------------------------------------------
 */

/* does the record put the first rows on a zero page (Z29)? */
static bool
insert_inits_page(XLogReaderState *record)
{
	return (XLogRecGetBlock(record, 0)->flags & BKPBLOCK_WILL_INIT) != 0;
}

/*
 * Readers on a standby must never find a pointer into
 * undo that isn't there yet, hence the undo page is finished first (Z28).
 */
void
zheap_xlog_insert_redo(XLogReaderState *record)
{
	XLogRecPtr	lsn = record->EndRecPtr;
	ZInsertHead head;
	ZInsertChange change;
	PGAlignedBlock rows;
	XLogRedoAction action;
	BlockNumber block;
	Buffer		buffer;
	uint8		next_block = 1;
	ZLenders	lenders;
	Size		room = BLCKSZ;

	zheap_xlog_insert_unpack(record, &head);
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);
	change.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	zheap_delta_redo_conflict(record,
							  zheap_conflict_unpack(change.fxid,
													head.conflict));

	zheap_lend_redo_read(record, &lenders);

	change.urp = InvalidUndoRecPtr;
	if (head.flags & ZINSERT_HAS_UNDO)
	{
		undo_insert_redo(record, next_block, head.undo_offset, &block,
						 head.first);
		change.urp =
			undo_insert_redo_urp(record, next_block, head.undo_offset);
		next_block++;
	}

	change.first = head.first;
	change.reused = (head.flags & ZINSERT_REUSED_POINTER) != 0;
	change.xact_slot = head.xact_slot;
	change.tenure = head.tenure;
	change.ntuples = head.ntuples;
	if (insert_inits_page(record))
	{
		zheap_xlog_insert_rows(record, &head, NULL, &lenders, &change,
							   rows.data, PANIC);
		buffer = XLogInitBufferForRedo(record, 0);
		zheap_page_init(BufferGetPage(buffer),
						zheap_new_page_xact_slots(change.len[0]));
		action = BLK_NEEDS_REDO;
	}
	else
		action = XLogReadBufferForRedo(record, 0, &buffer);

	if (action == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		if (!insert_inits_page(record))
		{
			if (!zheap_page_is_valid(page))
				elog(PANIC,
					 "block %u, which an insert record refers to, is not a zheap page",
					 block);
			zheap_xlog_insert_rows(record, &head, page, &lenders, &change,
								   rows.data, PANIC);
		}
		if (!zheap_xlog_insert_apply(page, &change))
			elog(PANIC, "no room for rows at block %u, offset %u",
				 block, change.first);
		if (head.flags & ZINSERT_CLEARED_VM)
			PageClearAllVisible(page);
		room = zheap_page_insert_room(page);
		PageSetLSN(page, lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	if (head.flags & ZINSERT_CLEARED_VM)
		zheap_space_vm_redo(record, next_block, &block, 1);
	if (action == BLK_NEEDS_REDO)
		zheap_space_redo_fsm(record, 0, room);
}

void
zheap_xlog_insert_desc(StringInfo buf, XLogReaderState *record)
{
	ZInsertHead head;

	zheap_xlog_insert_unpack(record, &head);
	appendStringInfo(buf,
					 "off %u, rows %u, xact slot %u, tenure %u, flags 0x%02X",
					 head.first, head.ntuples, head.xact_slot,
					 head.tenure, head.flags);
	if (head.flags & ZINSERT_HAS_UNDO)
		appendStringInfo(buf, ", undo at %u", head.undo_offset);
	if (insert_inits_page(record))
		appendStringInfoString(buf, ", new page");
	if (head.logical_len > 0)
		appendStringInfo(buf, ", logical part of %zu bytes", head.logical_len);
}
