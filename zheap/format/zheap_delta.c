/*-------------------------------------------------------------------------
 *
 * zheap_delta.c
 *	  Logged change of one page by bytes.
 *
 * The rare operations on a page (rollback, freeze, prune, growth of the xact
 * slot array) edit a private copy and log the bytes that differ: one WAL
 * record format and one redo routine for all of them, so none can have a redo
 * bug of its own.  Changes that must share a critical section with an undo
 * record do not come here.
 *
 * What is logged (Z31).  The hole isn't: a full-page image leaves it out
 * and restores it as zeroes, so nothing may depend on what it held.  Therefore
 * bytes that lay in the old hole and don't lie in the new one are logged even
 * where they are equal to the garbage found there, and the new hole is zeroed
 * on the primary and in redo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/standby.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_words.h"

/* equal bytes between two ranges that are cheaper logged than skipped */
#define DELTA_MERGE_GAP			UNDO_KNOB("delta-gap", 8, 1, 64)

/* parts that a change may name, until all of the page is looked at */
#define MAX_PARTS \
	UNDO_KNOB("delta-parts", ZDELTA_MAX_PARTS, 1, ZDELTA_MAX_PARTS)

/* xact slots that a page gets at most (assert builds: fewer than it can have) */
#define XACT_SLOTS_AT_MOST		UNDO_KNOB("xact-slots", ZHEAP_MAX_XACT_SLOTS, 12, 100)

/* more than this and a full image, which may be compressed, is the better */
#define DELTA_MAX_DATA			(BLCKSZ * 3 / 4)

/* main data of a record */
#define DELTA_MAX_HEAD			(1 + UNDO_MAX_PACKED)

/* the page's LSN and checksum belong to the buffer manager */
#define DELTA_FIRST_BYTE		(offsetof(PageHeaderData, pd_flags))

StaticAssertDecl(offsetof(PageHeaderData, pd_flags) == 10,
				 "LSN and checksum come first");

/* collected ranges: offset u16, length u16, bytes; not aligned */
typedef struct DeltaRanges
{
	bool		overflow;		/* log a full image instead */
	uint16		len;
	char		data[DELTA_MAX_DATA];
} DeltaRanges;

static void
delta_add_range(DeltaRanges *ranges, const char *page, uint16 start,
				uint16 end)
{
	uint16		head[2];

	Assert(start < end && end <= BLCKSZ);

	head[0] = start;
	head[1] = end - start;
	if (ranges->overflow ||
		ranges->len + sizeof(head) + head[1] >
		UNDO_KNOB("delta-bytes", DELTA_MAX_DATA, 40, DELTA_MAX_DATA))
	{
		ranges->overflow = true;
		return;
	}
	memcpy(ranges->data + ranges->len, head, sizeof(head));
	memcpy(ranges->data + ranges->len + sizeof(head), page + start, head[1]);
	ranges->len += sizeof(head) + head[1];
}

/* the first byte in [i, to) that differs, or to */
static int
skip_equal(const char *old, const char *new, int i, int to)
{
	/* most of a page is equal: big steps first */
	for (int step = 512; step >= 64; step /= 8)
	{
		while (i + step <= to && memcmp(old + i, new + i, step) == 0)
			i += step;
	}
	return i + zheap_words_equal(old + i, new + i, to - i);
}

/* The range that begins at start, a different byte; returns what follows it. */
static int
take_range(DeltaRanges *ranges, const char *old, const char *new, int start,
		   int to)
{
	int			last = start;	/* its last different byte */
	int			gap = DELTA_MERGE_GAP;
	int			i = start + 1;

	Assert(start < to && old[start] != new[start]);
	while (i + 8 <= to && i - last <= gap + 1)
	{
		uint64		differ = zheap_words_differ(old + i, new + i);

		if (differ != 0)
		{
			if (i + zheap_words_first_set(differ) - last > gap + 1)
				break;
			last = i + zheap_words_last_set(differ);
		}
		i += 8;
	}
	for (; i < to && i - last <= gap + 1; i++)
	{
		if (old[i] != new[i])
			last = i;
	}
	delta_add_range(ranges, new, start, last + 1);
	return last + 1;
}

/* Collect what differs in [from, to). */
static void
delta_compare(DeltaRanges *ranges, const char *old, const char *new,
			  int from, int to)
{
	for (;;)
	{
		from = skip_equal(old, new, from, to);
		if (from >= to)
			return;
		from = take_range(ranges, old, new, from, to);
	}
}

/* Collect what differs outside of the new hole; the old hole always does. */
static void
delta_collect(DeltaRanges *ranges, Page old, Page new)
{
	int			new_lower = ((PageHeader) new)->pd_lower;
	int			new_upper = ((PageHeader) new)->pd_upper;
	int			lower = Min(new_lower, ((PageHeader) old)->pd_lower);
	int			upper = Max(new_upper, ((PageHeader) old)->pd_upper);

	Assert(new_lower <= new_upper && upper <= BLCKSZ);
	ranges->overflow = false;
	ranges->len = 0;
	delta_compare(ranges, old, new, DELTA_FIRST_BYTE, lower);
	if (lower < new_lower)
		delta_add_range(ranges, new, lower, new_lower);
	if (new_upper < upper)
		delta_add_range(ranges, new, new_upper, upper);
	delta_compare(ranges, old, new, upper, BLCKSZ);
}

#ifdef USE_ASSERT_CHECKING
static bool
delta_is_elsewhere(const ZPageDelta *delta, Page old)
{
	PGAlignedBlock copy;

	memcpy(copy.data, old, BLCKSZ);
	for (int i = 0; i < delta->nparts; i++)
		memcpy(copy.data + delta->first[i], delta->work.data + delta->first[i],
			   delta->end[i] - delta->first[i]);
	return memcmp(copy.data + DELTA_FIRST_BYTE,
				  delta->work.data + DELTA_FIRST_BYTE,
				  BLCKSZ - DELTA_FIRST_BYTE) != 0;
}
#endif

/* The same where only these parts may differ, all of them outside of the hole. */
static void
delta_collect_parts(DeltaRanges *ranges, const ZPageDelta *delta, Page old)
{
	Assert(!delta_is_elsewhere(delta, old));
	ranges->overflow = false;
	ranges->len = 0;
	for (int i = 0; i < delta->nparts; i++)
		delta_compare(ranges, old, delta->work.data, delta->first[i],
					  delta->end[i]);
}

/* Copy ranges to the page; PANICs if they are malformed. */
static void
delta_put_ranges(Page page, const char *data, Size len)
{
	const char *end = data + len;

	while (data < end)
	{
		uint16		head[2];

		if (end - data < (ptrdiff_t) sizeof(head))
			elog(PANIC, "truncated range in page delta");
		memcpy(head, data, sizeof(head));
		data += sizeof(head);
		if (head[0] < DELTA_FIRST_BYTE || head[0] + head[1] > BLCKSZ ||
			head[1] > end - data)
			elog(PANIC, "bad range in page delta: offset %u, length %u",
				 head[0], head[1]);
		memcpy((char *) page + head[0], data, head[1]);
		data += head[1];
	}
}

static void
delta_zero_hole(Page page)
{
	PageHeader	hdr = (PageHeader) page;

	Assert(hdr->pd_lower >= SizeOfPageHeaderData);
	Assert(hdr->pd_lower <= hdr->pd_upper && hdr->pd_upper <= BLCKSZ);
	memset((char *) page + hdr->pd_lower, 0, hdr->pd_upper - hdr->pd_lower);
}

/*
 * Start a change: returns a private copy of the page.  The buffer is
 * exclusively locked until zheap_delta_finish(), or the change is dropped.
 */
Page
zheap_delta_begin(ZPageDelta *delta, Relation rel, Buffer buffer)
{
	Assert(CritSectionCount == 0);
	(void) zheap_delta_begin_parts(delta, rel, buffer);
	delta->whole = true;

	/*
	 * The caller goes from line pointer to line pointer and moves tuples: a
	 * damaged one must not lead out of the copy.
	 */
	delta->before = zheap_page_check_bodies(rel, BufferGetBlockNumber(buffer),
											delta->work.data);
	return (Page) delta->work.data;
}

Page
zheap_delta_begin_parts(ZPageDelta *delta, Relation rel, Buffer buffer)
{
	Assert(BufferIsValid(buffer));
	Assert(zheap_page_is_valid(BufferGetPage(buffer)));
	AssertPageExclusive(buffer);

	delta->rel = rel;
	delta->buffer = buffer;
	delta->decoded = false;
	delta->whole = false;
	delta->nparts = 0;
	memcpy(delta->work.data, BufferGetPage(buffer), BLCKSZ);
	return (Page) delta->work.data;
}

/* Rows and xact slots: parts with the same beginning end alike. */
void
zheap_delta_part(ZPageDelta *delta, const void *at, uint16 len)
{
	uint16		first = (const char *) at - delta->work.data;

	Assert(first >= DELTA_FIRST_BYTE && first + len <= BLCKSZ);
	Assert(first >= ((PageHeader) delta->work.data)->pd_upper ||
		   first + len <= ((PageHeader) delta->work.data)->pd_lower);
	for (int i = 0; i < delta->nparts; i++)
	{
		if (delta->first[i] == first)
		{
			delta->end[i] = Max(delta->end[i], first + len);
			return;
		}
	}
	if (delta->nparts >= MAX_PARTS)
	{
		delta->whole = true;
		return;
	}
	delta->first[delta->nparts] = first;
	delta->end[delta->nparts++] = first + len;
}

/* Main data of a record.  head must live until it is inserted. */
static void
delta_register_head(char *head, uint8 flags, Fxid conflict)
{
	char	   *p = head + 1;

	if (conflict != InvalidFxid)
	{
		flags |= ZDELTA_CONFLICT;
		p = undo_pack(p, conflict);
	}
	head[0] = (char) flags;
	if (flags != 0)
		XLogRegisterData(head, p - head);
}

/*
 * Copy the change back and log it.  Exclusive lock held all along; nothing is
 * thrown after the first byte changed.  An unchanged page stays untouched:
 * then false.
 * conflict: largest fxid whose history some standby snapshot may still need
 * and that this change removes, 0 if none.
 */
bool
zheap_delta_finish(ZPageDelta *delta, Fxid conflict)
{
	Page		page = BufferGetPage(delta->buffer);
	DeltaRanges ranges;
	char		head[DELTA_MAX_HEAD];

	Assert(zheap_page_is_valid(delta->work.data));
	Assert(CritSectionCount == 0 && !delta->rel->rd_rel->relisshared);
	AssertPageExclusive(delta->buffer);

	if (delta->whole)
		delta_collect(&ranges, page, delta->work.data);
	else
		delta_collect_parts(&ranges, delta, page);
	if (ranges.len == 0 && !ranges.overflow)
		return false;

	START_CRIT_SECTION();

	/* LSN and checksum are the same in both: nobody else could change them */
	if (ranges.overflow)
		memcpy(page, delta->work.data, BLCKSZ);
	else
		delta_put_ranges(page, ranges.data, ranges.len);
	delta_zero_hole(page);
	MarkBufferDirty(delta->buffer);

	if (RelationNeedsWAL(delta->rel))
	{
		XLogRecPtr	lsn;

		XLogBeginInsert();
		delta_register_head(head, delta->decoded ? ZDELTA_DECODED : 0,
							conflict);
		if (delta->decoded)
			XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		if (ranges.overflow)
			XLogRegisterBuffer(0, delta->buffer,
							   REGBUF_FORCE_IMAGE | REGBUF_STANDARD);
		else
		{
			XLogRegisterBuffer(0, delta->buffer, REGBUF_STANDARD);
			XLogRegisterBufData(0, ranges.data, ranges.len);
		}
		lsn = undo_images_insert(XLOG_ZHEAP_DELTA);
		PageSetLSN(page, lsn);
	}

	END_CRIT_SECTION();
	return true;
}

void
zheap_delta_log_conflict(Relation rel, BlockNumber block, Fxid conflict)
{
	Buffer		buffer;
	Page		page;
	DeltaRanges ranges;
	char		head[DELTA_MAX_HEAD];
	XLogRecPtr	lsn;

	AssertNoPageLocked();
	Assert(conflict != InvalidFxid);
	if (!RelationNeedsWAL(rel) || !XLogStandbyInfoActive())
		return;
	buffer = ReadBuffer(rel, block);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);

	/* a range that changes nothing */
	ranges.overflow = false;
	ranges.len = 0;
	delta_add_range(&ranges, page, DELTA_FIRST_BYTE, DELTA_FIRST_BYTE + 1);

	START_CRIT_SECTION();
	MarkBufferDirty(buffer);
	XLogBeginInsert();
	delta_register_head(head, 0, conflict);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	XLogRegisterBufData(0, ranges.data, ranges.len);
	lsn = undo_images_insert(XLOG_ZHEAP_DELTA);
	PageSetLSN(page, lsn);
	END_CRIT_SECTION();

	UnlockReleaseBuffer(buffer);
}

/*
 * Apply logged ranges; PANICs in redo if they don't make a page.  A standby's
 * readers set hints of their own, of which the ranges know nothing: one that
 * stayed where another xact slot comes to lie, or none, would speak for that.
 */
static void
delta_apply(Page page, const char *data, Size len)
{
	Assert(InRecovery);
	if (zheap_page_is_valid(page))
		zheap_page_clear_hints(page);
	delta_put_ranges(page, data, len);
	if (!zheap_page_is_valid(page))
		elog(PANIC, "page delta left an invalid page");
	delta_zero_hole(page);
}

void
zheap_delta_redo_conflict(XLogReaderState *record, Fxid conflict)
{
	AssertNoPageLocked();
	if (InHotStandby && conflict != InvalidFxid)
	{
		RelFileLocator locator;

		XLogRecGetBlockTag(record, 0, &locator, NULL, NULL);
		ResolveRecoveryConflictWithSnapshotFullXid(FullTransactionIdFromU64(conflict),
												   false,
												   locator);
	}
}

uint8
zheap_delta_flags(XLogReaderState *record)
{
	return XLogRecGetDataLen(record) == 0 ? 0 :
		(uint8) XLogRecGetData(record)[0];
}

static Fxid
delta_conflict(XLogReaderState *record)
{
	const char *p = XLogRecGetData(record);
	uint64		conflict = InvalidFxid;

	if ((zheap_delta_flags(record) & ZDELTA_CONFLICT) != 0 &&
		undo_unpack(p + 1, p + XLogRecGetDataLen(record), &conflict) == NULL)
		elog(ERROR, "WAL record of a page delta is malformed");
	return conflict;
}

/* Repeat the deed, see zheap_delta_grow() and zheap_delta_share(). */
static void
delta_redo_deed(Page page, uint8 flags)
{
	if (!zheap_page_is_valid(page) ||
		!((flags & ZDELTA_GROW) ? zheap_page_grow_xact_slots(page) :
		  zheap_page_make_shared(page)))
		elog(PANIC, "no room for another xact slot of a zheap page in redo");
}

/* Redo; conflicting snapshots are resolved before the page is locked. */
void
zheap_delta_redo(XLogReaderState *record)
{
	XLogRecPtr	lsn = record->EndRecPtr;
	Buffer		buffer;

	Assert(InRecovery);
	zheap_delta_redo_conflict(record, delta_conflict(record));

	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		Size		len;
		char	   *data = XLogRecGetBlockData(record, 0, &len);

		if (zheap_delta_flags(record) & (ZDELTA_GROW | ZDELTA_SHARE))
			delta_redo_deed(page, zheap_delta_flags(record));
		else if (data != NULL)
			delta_apply(page, data, len);
		else
			elog(PANIC, "page delta without data");
		PageSetLSN(page, lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

void
zheap_delta_desc(StringInfo buf, XLogReaderState *record)
{
	Size		len = 0;

	if (zheap_delta_flags(record) & ZDELTA_GROW)
	{
		appendStringInfoString(buf, "one xact slot more");
		return;
	}
	if (zheap_delta_flags(record) & ZDELTA_SHARE)
	{
		appendStringInfoString(buf, "a shared xact slot");
		return;
	}
	(void) XLogRecGetBlockData(record, 0, &len);
	appendStringInfo(buf, "conflict " UINT64_FORMAT ", %zu bytes",
					 delta_conflict(record), len);
}

/* do and log what has its own function on the page and in redo */
static void
delta_do_deed(Relation rel, Buffer buffer, uint8 flag)
{
	Page		page = BufferGetPage(buffer);
	char		head[DELTA_MAX_HEAD];
	bool		done PG_USED_FOR_ASSERTS_ONLY;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0);
	START_CRIT_SECTION();
	done = flag == ZDELTA_GROW ? zheap_page_grow_xact_slots(page) :
		zheap_page_make_shared(page);
	Assert(done);
	MarkBufferDirty(buffer);
	UNDO_POINT("growing");
	if (RelationNeedsWAL(rel))
	{
		XLogRecPtr	lsn;

		XLogBeginInsert();
		delta_register_head(head, flag, InvalidFxid);
		XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
		lsn = undo_images_insert(XLOG_ZHEAP_DELTA);
		PageSetLSN(page, lsn);
	}
	END_CRIT_SECTION();
	UNDO_POINT("grown");
}

bool
zheap_delta_grow(Relation rel, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);

	Assert(zheap_page_is_valid(page));
	if (ZPageGetOpaque(page)->nslots >= XACT_SLOTS_AT_MOST ||
		zheap_page_total_free(page) <
		sizeof(ZXactSlotData) + zheap_page_shared_room(page))
		return false;
	delta_do_deed(rel, buffer, ZDELTA_GROW);
	return true;
}

bool
zheap_delta_share(Relation rel, Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	int			n = ZPageGetOpaque(page)->nslots;

	Assert(zheap_page_is_valid(page) && !ZPageHasShared(page));
	if (zheap_page_total_free(page) < sizeof(ZXactSlotData) && n > 1 &&
		!ZXactSlotIsFree(ZPageGetXactSlot(page, n)))
		return false;
	delta_do_deed(rel, buffer, ZDELTA_SHARE);
	return true;
}
