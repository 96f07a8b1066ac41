/*-------------------------------------------------------------------------
 *
 * zheap_spill_chain.c
 *	  Reading the spill chain of a page (Z11).
 *
 * A row that ended leaves its body on the page.  When a writer needs the room
 * and the end has committed, but some snapshot may still see the row, the
 * body goes to undo: the line pointer becomes SPILLED and an entry {row, its
 * ender by value} is written to a SPILL record.  These records form a chain
 * of their own, headed by a field of the page, which belongs to no
 * transaction: their writer may abort, and nothing is taken back.
 * (Writing: zheap_make_room.c.)
 *
 * Which readers need it?  Let p be the writer of a record.  It was running when
 * it wrote that, and all ends in it had committed.  A snapshot with xmin > p
 * began after its end, so it sees these ends: the row is dead for it.  For
 * any other snapshot p >= xmin >= horizon, so the record is there (Z1), and
 * so is the history of an ender that it doesn't see.
 *
 * Locks: the table page's content lock, share is enough, or a private copy of
 * the page; undo pages are locked one at a time inside undo_record_fetch().
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_spill_chain.h"

/*
 * Records read last.  One holds many rows of a page, and a scan asks for them
 * one by one: of large values that were replaced often, for the last one of a
 * long chain each time.  They cannot be stale: see "Read caches" in the README.
 */
#define SPILL_CACHE		32
#define SPILL_CACHE_USED	UNDO_KNOB("spill-cache", SPILL_CACHE, 1, SPILL_CACHE)

typedef struct SpillCache
{
	bool		valid;
	char		persistence;
	BlockNumber block;
	UndoRecord	raw;
	ZUndo		undo;			/* points into raw */
} SpillCache;

static SpillCache *spill_cache = NULL;
static int	spill_cache_next = 0;

static SpillCache *
cache_find(char persistence, Fxid writer, UndoRecPtr urp, BlockNumber block)
{
	for (int i = 0; spill_cache != NULL && i < SPILL_CACHE_USED; i++)
	{
		SpillCache *c = &spill_cache[i];

		if (c->valid && c->raw.urp == urp && c->raw.writer == writer &&
			c->persistence == persistence && c->block == block)
			return c;
	}
	return NULL;
}

/* the page has a spill chain */
void
zheap_spill_chain_start(ZSpillChain *chain, Page page)
{
	ZXactSlot	spill = ZPageGetSpill(page);

	chain->fxid = ZXactSlotFxid(spill);
	chain->urp = spill->urp;
	zheap_ring_begin(&chain->ring);
}

bool
zheap_spill_chain_next(ZSpillChain *chain, UndoReader *reader,
					   BlockNumber block,
					   ZSpillCursor *entries)
{
	SpillCache *c;

	Assert(chain->fxid != InvalidFxid);
	Assert(reader->persistence != RELPERSISTENCE_TEMP);

	if (chain->fxid < undo_log_horizons().discard_before)
		return false;
	c = cache_find(reader->persistence, chain->fxid, chain->urp, block);
	if (c == NULL)
	{
		if (spill_cache == NULL)
			spill_cache = undo_cache_alloc(SPILL_CACHE * sizeof(SpillCache));
		c = &spill_cache[spill_cache_next];
		spill_cache_next = (spill_cache_next + 1) % SPILL_CACHE_USED;
		c->valid = false;
		if (!undo_record_fetch(reader, chain->urp, chain->fxid, block, false,
							   &c->raw))
			return false;
		zheap_undo_decode(&c->raw, &c->undo);
		if (c->undo.kind != ZUNDO_SPILL)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("undo record " UndoRecPtrFormat " of table block %u is of kind %u, expected a spill record",
							UndoRecPtrFormatArgs(chain->urp), block,
							c->undo.kind)));
		c->persistence = reader->persistence;
		c->block = block;
		c->valid = true;
	}
	chain->fxid = c->undo.prev_fxid;
	chain->urp = c->undo.chain;
	zheap_ring_step(&chain->ring, chain->fxid, chain->urp, block);
	entries->raw = &c->raw;
	entries->undo = &c->undo;
	entries->at = c->undo.entries;
	return true;
}

bool
zheap_spill_chain_next_entry(ZSpillCursor *entries, ZSpillEntry *entry)
{
	return zheap_undo_next_entry(entries->raw, entries->undo, &entries->at,
								 entry);
}

ZSpillResult
zheap_spill_chain_find(UndoReader *reader, Page page, BlockNumber block,
					   OffsetNumber off, Fxid floor, ZSpillEntry *entry)
{
	ZSpillChain chain;

	Assert(OffsetNumberIsValid(off));
	zheap_spill_chain_start(&chain, page);
	while (chain.fxid != InvalidFxid)
	{
		ZSpillCursor entries;

		if (chain.fxid < floor ||
			!zheap_spill_chain_next(&chain, reader, block, &entries))
			return ZSPILL_NEEDLESS;
		while (zheap_spill_chain_next_entry(&entries, entry))
		{
			if (entry->off == off)
				return ZSPILL_FOUND;
		}
	}
	return ZSPILL_MISSING;
}
