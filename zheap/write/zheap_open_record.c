/*-------------------------------------------------------------------------
 *
 * zheap_open_record.c
 *	  The inserts' open records of the running command.
 *
 * The last one is at hand; those of other tables, to which a command that fills
 * partitions by turns comes back, are kept in a table.  Whether such a record
 * is still the newest of its xact slot is for the caller to see (Z32).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/write/zheap_open_record.h"

/*
 * My last open record (zheap_undo.h).  INSERT_OPEN, no ranges: it covers
 * further appends.  INSERT_SET: it lists all line pointers that were free.
 */
ZOpenRecord zheap_open_record_last;
static ZOpenRanges last_ranges;
static bool last_is_kept = false;	/* among the others, too */

/*
 * Records of that kind without ranges, on pages of other tables: a command that
 * fills partitions by turns comes back to them.  Found by table and block, in
 * sets of a few places.
 */
#define OPEN_SET			4
#define OPEN_SETS			1024
#define OPEN_SETS_USED	UNDO_KNOB("open-records", OPEN_SETS, 1, OPEN_SETS)

static ZOpenRecord *other_open = NULL;

/* The set of places for a page. */
static inline ZOpenRecord *
open_set(RelFileLocator locator, BlockNumber block)
{
	return &other_open[murmurhash32(locator.relNumber * UINT32_C(0x9E3779B1) +
									block) % OPEN_SETS_USED * OPEN_SET];
}

static inline bool
is_open_there(const ZOpenRecord *open, RelFileLocator locator,
			  BlockNumber block)
{
	return open->block == block &&
		RelFileLocatorEquals(open->locator, locator);
}

/* Keep the last open record, which another table's is going to replace. */
static void
keep_last(Relation rel, Fxid fxid, CommandId cid)
{
	static int	turn = 0;
	const ZOpenRecord *last = &zheap_open_record_last;
	ZOpenRecord *set;
	ZOpenRecord *place;

	if (last_is_kept || !UndoRecPtrIsValid(last->urp) || last_ranges.n > 0 ||
		last->fxid != fxid || last->cid != cid ||
		RelFileLocatorEquals(last->locator, rel->rd_locator))
		return;
	if (other_open == NULL)
		other_open = undo_cache_alloc(OPEN_SETS * OPEN_SET *
									  sizeof(ZOpenRecord));

	/* its own place, that of an earlier command, or one by turns */
	set = open_set(last->locator, last->block);
	place = &set[turn++ % OPEN_SET];
	for (int i = 0; i < OPEN_SET; i++)
	{
		if (is_open_there(&set[i], last->locator, last->block))
		{
			place = &set[i];
			break;
		}
		if (set[i].fxid != fxid || set[i].cid != cid)
			place = &set[i];
	}
	*place = *last;
}

bool
zheap_open_record_recall(Relation rel, BlockNumber block, Fxid fxid,
						 CommandId cid)
{
	ZOpenRecord *last = &zheap_open_record_last;
	const ZOpenRecord *set;

	if (RelFileLocatorEquals(last->locator, rel->rd_locator))
		return UndoRecPtrIsValid(last->urp) && last->block == block &&
			last->fxid == fxid && last->cid == cid;
	if (other_open == NULL)
		return false;
	set = open_set(rel->rd_locator, block);
	for (int i = 0; i < OPEN_SET; i++)
	{
		ZOpenRecord found;

		if (!is_open_there(&set[i], rel->rd_locator, block) ||
			set[i].fxid != fxid || set[i].cid != cid)
			continue;
		found = set[i];
		keep_last(rel, fxid, cid);
		*last = found;
		last_ranges.n = 0;
		last_is_kept = true;
		zheap_buffer_note(rel, block, found.buffer);
		return true;
	}
	return false;
}

bool
zheap_open_record_lists(OffsetNumber first, int n, bool reused)
{
	if (last_ranges.n == 0)
		return !reused;
	for (int i = 0; i < last_ranges.n; i++)
	{
		if (first >= last_ranges.first[i] &&
			first + n - 1 <= last_ranges.last[i])
			return true;
	}
	return false;
}

void
zheap_open_record_note(Relation rel, Buffer buffer, UndoRecPtr urp, Fxid fxid,
					   CommandId cid, const ZOpenRanges *ranges)
{
	keep_last(rel, fxid, cid);
	zheap_xact_slot_note_record(&zheap_open_record_last, rel,
								BufferGetBlockNumber(buffer), urp, fxid, cid);
	zheap_open_record_last.buffer = buffer;
	last_is_kept = false;
	last_ranges.n = ranges->n;
	for (int i = 0; i < ranges->n; i++)
	{
		last_ranges.first[i] = ranges->first[i];
		last_ranges.last[i] = ranges->last[i];
	}
}
