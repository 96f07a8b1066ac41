/*-------------------------------------------------------------------------
 *
 * zheap_lend.c
 *	  Rows logged without bytes that another page of the table has (U24).
 *
 * A value out of line that is changed here and there gets new chunks.  Most of
 * their bytes stand in the old ones.  So the record of the insertion names the
 * pages of those, and redo copies the bytes from there, where it finds them as
 * they were.
 *
 * Pages that lend are locked while another one is, whatever their numbers:
 * nobody waits for such a lock.  A page that isn't to be had lends nothing.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/wal/zheap_lend.h"
#include "zheap/wal/zheap_xlog_insert.h"

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */
void
zheap_lend_begin(ZLend *lend, Relation rel, const ZLendPiece *piece,
				 int npieces)
{
	Assert(npieces > 0);
	AssertNoPageLocked();
	lend->rel = rel;
	lend->piece = piece;
	lend->npieces = npieces;
	lend->npages = 0;
	lend->nlocked = 0;
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		!RelationNeedsWAL(rel) || !undo_images_are_complete())
		lend->npieces = 0;
	for (int i = 0; i < lend->npieces; i++)
	{
		BlockNumber block = ItemPointerGetBlockNumber(&piece[i].tid);
		bool		known = false;

		for (int k = 0; k < lend->npages; k++)
			known |= BufferGetBlockNumber(lend->buffer[k]) == block;
		if (!known && lend->npages < ZLEND_MAX_PAGES)
			lend->buffer[lend->npages++] = ReadBuffer(rel, block);
	}
	/* not in a critical section */
	if (lend->npages > 0)
		XLogEnsureRecordSpace(ZLEND_BLOCK + ZLEND_MAX_PAGES - 1, 0);
}

void
zheap_lend_end(ZLend *lend)
{
	Assert(lend->nlocked == 0);
	for (int i = 0; i < lend->npages; i++)
		ReleaseBuffer(lend->buffer[i]);
	lend->npages = 0;
}

/* the number of the block among the locked pages, or -1 */
static int
find_locked(const ZLend *lend, BlockNumber block)
{
	for (int i = 0; i < lend->nlocked; i++)
		if (BufferGetBlockNumber(lend->locked[i]) == block)
			return i;
	return -1;
}

/* Lock the pages that the pieces from "from" to "to" name, but for "own". */
static void
lock_pages(ZLend *lend, BlockNumber own, int from, int to)
{
	for (int k = 0; k < lend->npages; k++)
	{
		BlockNumber block = BufferGetBlockNumber(lend->buffer[k]);
		bool		wanted = false;

		for (int i = from; i < to; i++)
			wanted |= ItemPointerGetBlockNumber(&lend->piece[i].tid) == block;
		if (wanted && block != own &&
			ConditionalLockBuffer(lend->buffer[k]))
			lend->locked[lend->nlocked++] = lend->buffer[k];
	}
}

/* where on the page the piece's bytes stand; NULL: they aren't there */
static const char *
find_bytes(Page page, const ZLendPiece *piece, const char *bytes)
{
	const char *tuple;
	uint16		len;

	if (!zheap_page_is_valid(page))
		return NULL;
	tuple = zheap_page_row(page, ItemPointerGetOffsetNumber(&piece->tid),
						   &len);
	if (tuple == NULL)
		return NULL;
	if (piece->from_before_end + ZHEAP_HEADER_SIZE > len ||
		piece->len > piece->from_before_end)
		return NULL;
	tuple += len - piece->from_before_end;
	return memcmp(tuple, bytes, piece->len) == 0 ? tuple : NULL;
}

/*
 * The row without the bytes of its pieces, which begin at *i, to "to"; returns
 * what is behind it.  The pieces that are used are added to p.
 */
static char *
cut_row(ZLend *lend, int *i, int row, int *row_before, const char *tuple,
		uint16 len, char *to, char **p, int *nranges)
{
	int			at = 0;			/* so much of the row is done */

	for (; *i < lend->npieces && lend->piece[*i].row == row; (*i)++)
	{
		const ZLendPiece *piece = &lend->piece[*i];
		int			start = len - piece->before_end;
		int			k = find_locked(lend,
									ItemPointerGetBlockNumber(&piece->tid));
		const char *from;

		if (k < 0 || *nranges == ZLEND_MAX_RANGES ||
			piece->len < ZLEND_MIN_BYTES ||
			start < Max(at, ZHEAP_HEADER_SIZE) ||
			piece->len > piece->before_end)
			continue;
		from = find_bytes(BufferGetPage(lend->locked[k]), piece,
						  tuple + start);
		if (from == NULL)
			continue;
		memcpy(to, tuple + at, start - at);
		to += start - at;
		*p = undo_pack(*p, row - *row_before);
		*p = undo_pack(*p, k);
		*p = undo_pack(*p, start - at);
		*p = undo_pack_u16(*p, from - (char *) BufferGetPage(lend->locked[k]));
		*p = undo_pack(*p, piece->len);
		*row_before = row;
		at = start + piece->len;
		(*nranges)++;
	}
	memcpy(to, tuple + at, len - at);
	return to + (len - at);
}

bool
zheap_lend_take(ZLend *lend, Buffer buffer, int first,
				const ZInsertChange *change, ZInsertChange *logged)
{
	char		ranges[sizeof(lend->head)];
	char	   *p = ranges;
	char	   *to = lend->rows.data;
	int			nranges = 0;
	int			row_before = first;
	int			i = 0;
	int			last;

	Assert(lend->nlocked == 0);
	AssertPageExclusive(buffer);
	Assert(lend->nlocked == 0);
	if (lend->npages == 0 || !undo_images_are_complete())
		return false;
	while (i < lend->npieces && lend->piece[i].row < first)
		i++;
	for (last = i; last < lend->npieces; last++)
		if (lend->piece[last].row >= first + change->ntuples)
			break;
	lock_pages(lend, BufferGetBlockNumber(buffer), i, last);
	if (lend->nlocked == 0)
		return false;

	*logged = *change;
	for (int r = 0; r < change->ntuples; r++)
	{
		char	   *start = to;

		to = cut_row(lend, &i, first + r, &row_before, change->tuple[r],
					 change->len[r], to, &p, &nranges);
		logged->tuple[r] = start;
		logged->len[r] = to - start;
	}
	if (nranges == 0)
	{
		zheap_lend_release(lend);
		return false;
	}
	lend->headlen = undo_pack(lend->head, nranges) - lend->head;
	memcpy(lend->head + lend->headlen, ranges, p - ranges);
	lend->headlen += p - ranges;
	return true;
}

void
zheap_lend_dirty(ZLend *lend)
{
	Assert(CritSectionCount > 0);
	for (int i = 0; i < lend->nlocked; i++)
		MarkBufferDirty(lend->locked[i]);
}

void
zheap_lend_register(ZLend *lend)
{
	Assert(CritSectionCount > 0);
	for (int i = 0; i < lend->nlocked; i++)
		XLogRegisterBuffer(ZLEND_BLOCK + i, lend->locked[i], REGBUF_STANDARD);
}

void
zheap_lend_logged(ZLend *lend, Buffer buffer, XLogRecPtr lsn)
{
	Assert(CritSectionCount > 0);
	for (int i = 0; i < lend->nlocked; i++)
		PageSetLSN(BufferGetPage(lend->locked[i]), lsn);

	/* switched off in between: the page itself, then */
	if (lend->nlocked > 0 && !undo_images_are_complete())
		(void) log_newpage_buffer(buffer, true);
}

void
zheap_lend_release(ZLend *lend)
{
	for (int i = 0; i < lend->nlocked; i++)
		LockBuffer(lend->locked[i], BUFFER_LOCK_UNLOCK);
	lend->nlocked = 0;
}

/* ----------------------------------------------------------------
 *	redo
 * ----------------------------------------------------------------
 */
void
zheap_lend_redo_read(XLogReaderState *record, ZLenders *lenders)
{
	lenders->npages = 0;
	for (int i = 0; i < ZLEND_MAX_PAGES &&
		 XLogRecHasBlockRef(record, ZLEND_BLOCK + i); i++)
		lenders->found[lenders->npages++] =
			undo_images_redo_read(record, ZLEND_BLOCK + i,
								  lenders->page[i].data);
}

/* the next range; NULL if it isn't complete */
static const char *
get_range(const char *p, const char *end, uint16 *row, uint16 *page,
		  uint16 *own, uint16 *from, uint16 *len)
{
	p = undo_unpack_small(p, end, row);
	p = undo_unpack_small(p, end, page);
	p = undo_unpack_small(p, end, own);
	p = undo_unpack_u16(p, end, from);
	return undo_unpack_small(p, end, len);
}

const char *
zheap_lend_skip(const char *p, const char *end)
{
	uint16		n = 0;
	uint16		dummy[5];

	p = undo_unpack_small(p, end, &n);
	for (int i = 0; i < n && p != NULL; i++)
		p = get_range(p, end, &dummy[0], &dummy[1], &dummy[2], &dummy[3],
					  &dummy[4]);
	return p;
}

/*
 * Bytes whose page redo doesn't find become zeroes: an image of the page
 * follows, and nobody reads it before.
 */
bool
zheap_lend_put_back(const char *p, const char *end, const ZLenders *lenders,
					ZInsertChange *change, char *to)
{
	const char *limit = to + BLCKSZ;
	uint16		nleft = 0;
	uint16		ahead = 0;
	uint16		page = 0;
	uint16		own = 0;
	uint16		from = 0;
	uint16		len = 0;
	int			next;			/* row of the next range */

	p = undo_unpack_small(p, end, &nleft);
	if (p != NULL && nleft > 0)
		p = get_range(p, end, &ahead, &page, &own, &from, &len);
	next = ahead;
	for (int r = 0; r < change->ntuples && p != NULL; r++)
	{
		const char *row = change->tuple[r];
		const char *row_end = row + change->len[r];
		char	   *start = to;

		while (nleft > 0 && next == r)
		{
			if (own > row_end - row || page >= lenders->npages ||
				from + len > BLCKSZ || own + len > limit - to)
				return false;
			memcpy(to, row, own);
			row += own;
			to += own;
			if (lenders->found[page])
				memcpy(to, lenders->page[page].data + from, len);
			else
				memset(to, 0, len);
			to += len;
			if (--nleft > 0)
				p = get_range(p, end, &ahead, &page, &own, &from, &len);
			if (p == NULL)
				return false;
			next += ahead;
		}
		if (row_end - row > limit - to)
			return false;
		memcpy(to, row, row_end - row);
		to += row_end - row;
		change->tuple[r] = start;
		change->len[r] = to - start;
	}
	return p != NULL && nleft == 0;
}
