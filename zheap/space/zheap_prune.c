/*-------------------------------------------------------------------------
 *
 * zheap_prune.c
 *	  Reclaiming space of one page: freeze xact slots, drop the bodies of rows
 *	  that ended for all, slack, line pointers (Z19, Z25).
 *
 * Doesn't roll back: aborted owners are gone before.  Doesn't touch indexes:
 * pointers become UNUSED only where the table has none.
 *
 * What is decided here from horizons and the commit log isn't decided again
 * in redo: the page delta has the bytes, with a conflict horizon that keeps
 * standby snapshots from missing what was removed (Z27).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_spill_chain.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/space/zheap_space.h"

/*
 * Undo records that one call may read under the exclusive lock.  Rows that
 * would need more are taken for needed.
 */
#define PRUNE_BUDGET			UNDO_KNOB("prune-budget", 200, 1, 200)

/* the same, to find out which line pointers row locks name (Z60) */
#define LOCKED_BUDGET			UNDO_KNOB("locked-budget", 1000, 1, 1000)

typedef struct Prune
{
	Relation	rel;
	Page		page;			/* private copy */
	UndoReader	reader;
	const UndoHorizons *hz;
	BlockNumber block;
	Fxid		conflict;
	bool		leave_chain;	/* don't read it: end it or leave it alone */
	ZWalk		walk;
} Prune;

/* set up the walk for a row, keeping what is left of the budget */
static void
prune_walk(Prune *prune, OffsetNumber off)
{
	int			budget = Max(prune->walk.budget, 0);

	Assert(off >= FirstOffsetNumber &&
		   off <= PageGetMaxOffsetNumber(prune->page));
	zheap_walk_init(&prune->walk, prune->rel, &prune->reader, prune->hz,
					prune->block, off, NULL, NULL);
	prune->walk.budget = budget;
}

/*
 * Is all that the shared xact slot's chain names over?  Whoever is before a
 * transaction that is removable for everybody has ended, and is seen by all if it
 * committed; if it aborted, the rows that it ended are rolled back before.
 */
static bool
shared_is_over(Prune *prune)
{
	Fxid		youngest;

	if (!ZPageHasShared(prune->page))
		return false;
	youngest = ZSharedYoungest(ZPageGetShared(prune->page));
	return youngest != InvalidFxid &&
		(youngest < prune->hz->all_visible_before ||
		 (zheap_xact_slot_seen_by_all(prune->rel, youngest, prune->hz, NULL) &&
		  !zheap_shared_any_aborted(&prune->reader, prune->hz, prune->page,
									prune->block)));
}

/*
 * A row that freezing left NORMAL: drop it if it ended for all, or its slack
 * if its newest change is committed.
 */
static void
prune_row(Prune *prune, OffsetNumber off)
{
	ItemId		lp = PageGetItemId(prune->page, off);
	ZTupleHeader hdr;

	Assert(ItemIdIsNormal(lp));
	zheap_header_get((char *) PageGetItem(prune->page, lp), &hdr);

	/* most rows need no question asked */
	if (!ZHeaderIsEnded(&hdr) && (hdr.natts_flags1 & ZH_SLACK) == 0)
		return;

	prune_walk(prune, off);
	switch (zheap_walk_fate(&prune->walk, prune->page, InvalidBuffer,
							&prune->conflict))
	{
		case ZROW_ENDED_FOR_ALL:
			zheap_page_set_dead(prune->page, off);
			break;
		case ZROW_SETTLED:
			zheap_page_drop_slack(prune->page, off);
			break;
		case ZROW_ENDED:
		case ZROW_CHANGING:
		case ZROW_NONE:
			break;
	}
}

static inline bool
is_spilled(Page page, OffsetNumber off)
{
	return off <= PageGetMaxOffsetNumber(page) &&
		ZItemIdIsSpilled(PageGetItemId(page, off));
}

/*
 * Go down the spill chain, marking the spilled rows that somebody may need.
 * False: it is too long, or to be left; nothing is known of those not marked.
 */
static bool
mark_needed_entries(Prune *prune, bool *needed, Fxid *conflict)
{
	Page		page = prune->page;
	bool		seen[MaxHeapTuplesPerPage + 1] = {false};
	ZSpillChain chain;

	Assert(ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL);
	zheap_spill_chain_start(&chain, page);
	while (chain.fxid != InvalidFxid)
	{
		ZSpillCursor entries;
		ZSpillEntry entry;

		/* whatever it and those before it spilled */
		if (zheap_xact_slot_seen_by_all(prune->rel, chain.fxid, prune->hz,
										conflict))
			return true;
		if (prune->leave_chain || --prune->walk.budget < 0)
			return false;
		/* if it is gone, its horizon's raise carried the conflict */
		if (!zheap_spill_chain_next(&chain, &prune->reader, prune->block,
									&entries))
			return true;

		while (zheap_spill_chain_next_entry(&entries, &entry))
		{
			/* an older entry of an offset is about another row */
			if (!is_spilled(page, entry.off) || seen[entry.off])
				continue;
			seen[entry.off] = true;
			needed[entry.off] =
				!zheap_xact_slot_seen_by_all(prune->rel, entry.fxid,
											 prune->hz, conflict);
		}
	}
	for (OffsetNumber off = FirstOffsetNumber;
		 off <= PageGetMaxOffsetNumber(page); off++)
	{
		if (is_spilled(page, off) && !seen[off])
			zheap_walk_corrupt(prune->rel, prune->block, off,
							   "the row in the page's spill chain");
	}
	return true;
}

/*
 * SPILLED pointers of rows that nobody can see any more become DEAD, and the
 * chain goes with the last one (Z11).
 */
static void
prune_spilled(Prune *prune, ZPruneResult *result)
{
	Page		page = prune->page;
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	bool		needed[MaxHeapTuplesPerPage + 1] = {false};
	Fxid		conflict = InvalidFxid;
	bool		left = false;
	bool		known;

	if ((ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) == 0)
		return;

	known = mark_needed_entries(prune, needed, &conflict);
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		if (!is_spilled(page, off))
			continue;
		if (!known || needed[off])
		{
			left = true;
			result->nspilled_left++;
			continue;
		}
		zheap_page_set_dead(page, off);
		result->nspilled_removed++;
		prune->conflict = Max(prune->conflict, conflict);
	}
	if (!left)
		zheap_page_end_spill(page);
}

/*
 * Z60.  Without running owners nothing is read.  Where they have written more
 * than the budget the pointers wait, as they do for those locked.
 */
int
zheap_prune_free_pointers(Relation rel, UndoReader *reader,
						  const UndoHorizons *hz, Page page,
						  BlockNumber block, const OffsetNumber *offsets,
						  int n)
{
	bool		named[MaxHeapTuplesPerPage + 1] = {false};
	int			nfreed = 0;
	ZWalk	   *walk = palloc(sizeof(ZWalk));
	bool		known;

	zheap_walk_init(walk, rel, reader, hz, block, InvalidOffsetNumber, NULL,
					NULL);
	walk->budget = LOCKED_BUDGET;
	known = zheap_walk_mark_locked(walk, page, named);
	pfree(walk);
	if (!known)
		return 0;
	for (int i = 0; i < n; i++)
	{
		OffsetNumber off = offsets[i];

		if (off > PageGetMaxOffsetNumber(page) || named[off] ||
			!ItemIdIsDead(PageGetItemId(page, off)))
			continue;
		zheap_page_set_unused(page, off);
		nfreed++;
	}
	zheap_page_truncate_line_pointers(page);
	return nfreed;
}

/* Without indexes no entry has to go before. */
static void
prune_dead_pointers(Prune *prune)
{
	OffsetNumber offsets[MaxHeapTuplesPerPage];
	OffsetNumber max = PageGetMaxOffsetNumber(prune->page);
	int			n = 0;

	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		if (ItemIdIsDead(PageGetItemId(prune->page, off)))
			offsets[n++] = off;
	}
	if (n > 0)
		(void) zheap_prune_free_pointers(prune->rel, &prune->reader,
										 prune->hz, prune->page,
										 prune->block, offsets, n);
	else
		zheap_page_truncate_line_pointers(prune->page);
}

/*
 * After everything else was done (Z25): may the page be marked
 * all-visible?  Counts what the caller wants to know, too.
 */
static void
prune_survey(Prune *prune, ZPruneResult *result)
{
	Page		page = prune->page;
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	OffsetNumber off;

	result->all_visible = !PageIsNew(page) &&
		!(ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL) &&
		!zheap_xact_slot_any_aborted(InvalidBuffer, page, prune->hz);

	for (off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(page, off);
		ZTupleHeader hdr;

		if (!ItemIdIsUsed(lp))
			continue;
		if (ItemIdIsDead(lp))
		{
			result->ndead++;
			result->all_visible = false;
			continue;
		}
		result->has_tuples = true;
		/* a spilled row without a spill chain: the page is damaged */
		if (!ItemIdIsNormal(lp))
			result->all_visible = false;
		if (!result->all_visible)
			continue;

		zheap_header_get((char *) PageGetItem(page, lp), &hdr);
		if (ZHeaderIsEnded(&hdr) || (hdr.flags2 & ZH_STALE))
			result->all_visible = false;
		else if (hdr.slot != 0 && (hdr.flags2 & ZH_LOCK_ONLY) == 0)
		{
			prune_walk(prune, off);
			result->all_visible =
				zheap_walk_has_settled_version(&prune->walk, page,
											   InvalidBuffer);
		}
	}
}

/*
 * What core's counters are to be told, as heap does: whoever runs will tell them of
 * its rows itself, so an insertion in progress hasn't happened, and an end hasn't
 * either.
 */
static void
prune_count(Prune *prune, ZPruneResult *result)
{
	ZWalk	   *walk = &prune->walk;
	Page		page = prune->page;
	Fxid		known = InvalidFxid;
	bool		runs = false;

	result->recently_dead = result->nspilled_left;
	for (OffsetNumber off = FirstOffsetNumber;
		 off <= PageGetMaxOffsetNumber(page); off++)
	{
		bool		in_progress;
		bool		ended;

		if (!ItemIdIsNormal(PageGetItemId(page, off)))
			continue;
		prune_walk(prune, off);
		in_progress = zheap_walk_start(walk, page) == ZWALK_OWNED &&
			!walk->skip;
		if (in_progress && walk->fxid != known)
		{
			ZXactStatus status = zheap_walk_status(walk, InvalidBuffer);

			known = walk->fxid;
			runs = status == ZXACT_RUNNING || status == ZXACT_CURRENT;
		}
		ended = ZHeaderIsEnded(&walk->hdr);
		if (in_progress && runs)
			result->live_tuples += ended || (walk->hdr.flags2 & ZH_INPLACE);
		else if (ended)
			result->recently_dead++;
		else
			result->live_tuples++;
	}
}

/*
 * Moving tuples makes the delta as large as they are.  Writers do without: one
 * that needs the gaps compacts the page, and redo of its record does too.
 * Here it is done where the gaps would make full page images larger by more.
 */
static void
tidy_page(Page page)
{
	PageHeader	ph = (PageHeader) page;
	Size		hole = ph->pd_upper - ph->pd_lower;
	Size		gaps = zheap_page_total_free(page) - hole;
	Size		tuples = ph->pd_special - ph->pd_upper - gaps;
	int			nslots = ZPageGetOpaque(page)->nslots;

	Assert(zheap_page_total_free(page) >= hole);
	if (tuples == 0 || gaps > tuples || nslots > ZHEAP_XACT_SLOT_RESERVE ||
		(ZPageHasShared(page) && ZPageGetShared(page)->fxid_bits == 0))
	{
		zheap_page_trim_xact_slots(page);
		if (gaps > 0)
			zheap_page_compact(page);
	}
}

/*
 * See zheap_space.h.  The buffer is pinned and exclusively locked; hz was sampled
 * before that, or under the lock.  May throw (corruption) before anything is
 * changed.
 */
void
zheap_prune_page(Relation rel, Buffer buffer, const UndoHorizons *hz,
				 int options, ZPruneResult *result)
{
	ZPageDelta	delta;
	Prune		prune;
	OffsetNumber max;
	OffsetNumber off;
	ZPageUse	after;
	Page		page;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	Assert((options & ~(ZPRUNE_NO_INDEXES | ZPRUNE_TIDY)) == 0);
	memset(result, 0, sizeof(ZPruneResult));
	page = zheap_delta_begin(&delta, rel, buffer);

	prune.rel = rel;
	prune.page = page;
	prune.hz = hz;
	prune.block = BufferGetBlockNumber(buffer);
	prune.walk.budget = PRUNE_BUDGET;

	/*
	 * DEAD pointers give a writer no room while indexes have entries of them.
	 * So it doesn't read the chain, which under an old snapshot is long,
	 * cold, and needed; it only ends one that nobody needs.
	 */
	prune.leave_chain = options == 0;
	undo_record_reader_open(&prune.reader, rel);

	max = PageGetMaxOffsetNumber(page);
	prune.conflict = zheap_xact_slot_freeze_page(rel, page, hz,
												 shared_is_over(&prune),
												 &result->nslots_freed);
	for (off = FirstOffsetNumber; off <= max; off++)
	{
		if (ItemIdIsNormal(PageGetItemId(page, off)))
			prune_row(&prune, off);
	}

	prune_spilled(&prune, result);

	if (options & ZPRUNE_NO_INDEXES)
		prune_dead_pointers(&prune);

	if (options & ZPRUNE_TIDY)
	{
		tidy_page(page);
		prune_survey(&prune, result);
		prune_count(&prune, result);
	}

	zheap_page_assert_sound(page, prune.block, "pruning");
	after = zheap_page_use(page);
	result->nreclaimed = delta.before.nrows - after.nrows;
	result->gain = after.free - delta.before.free;

	Assert(result->nreclaimed >= 0 && result->gain >= 0);
	undo_record_reader_close(&prune.reader);
	result->changed = zheap_delta_finish(&delta, prune.conflict);
	if (result->changed)
		zheap_stat_count(rel, ZSTAT_PAGES_COMPACTED, 1);
}
