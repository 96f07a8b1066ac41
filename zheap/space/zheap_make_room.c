/*-------------------------------------------------------------------------
 *
 * zheap_make_room.c
 *	  A writer needs room on a page: prune it and, if that isn't enough, spill.
 *
 * To spill (Z11) is to move the bodies of rows whose end has committed, but
 * that some snapshot may still see, to undo: see zheap_spill_chain.c.  It is
 * lazy: most bodies of deleted rows are never asked for again, and a DELETE
 * pays for none.  All that can be spilled on a page is spilled at once, or
 * nothing.
 *
 * Two kinds of WAL records: the SPILL records, each like an undo record that
 * has no table page, but that redo copies the rows from there (U24); then one
 * page delta with the line pointers and the head of the chain.  A crash in between leaves records that nothing refers to,
 * which is harmless: a SPILL record is never taken back and belongs to no
 * xact slot.
 *
 * Locks: the table page is exclusively locked all along.  Undo is read first
 * and written after that, so that no undo page is pinned when writing waits.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/proc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/history/zheap_spill_chain.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/space/zheap_space.h"

/* less than this isn't worth a spill */
#define SPILL_MIN_BYTES			17

/* what no record could hold: the biggest rows, each alone on its page */
#define SPILL_MAX_BYTES			ZUNDO_MAX_ROW_BYTES

/* undo records that may be read to find the enders of the rows of a page */
#define SPILL_BUDGET			UNDO_KNOB("spill-budget", 500, 1, 500)

/*
 * Entries of a page go to records of about this size: undo pages are filled
 * better by several small records than by one that just doesn't fit.
 */
#define SPILL_RECORD_SIZE		UNDO_KNOB("spill-record", 1900, 100, 1900)

/*
 * Rows of a quarter of a page, which chunks of large values are, go to records
 * by two: half as many are logged, and undo pages hold nearly as much.
 */
#define SPILL_PAIR_SIZE			UNDO_KNOB("spill-pair", 4100, 100, 4100)

/* a row that can be spilled */
typedef struct SpillRow
{
	OffsetNumber off;
	Fxid		ender;
	UndoRecPtr	urp;
} SpillRow;

typedef struct Spill
{
	Relation	rel;
	Buffer		buffer;
	Page		page;
	BlockNumber block;
	const UndoHorizons *hz;
	int			nrows;
	SpillRow	row[MaxHeapTuplesPerPage];
	Size		gain;			/* bytes that come free */
	ZSpillChain head;			/* the newest record, written or found */
	/* the record being filled */
	ZUndo		undo;
	UndoLent	lent[UNDO_MAX_LENT];	/* bytes that are on the page, too;
										 * .at counted from the entries' start */
	int			nlent;
	char		entries[UNDO_MAX_PAYLOAD];
	char		payload[UNDO_MAX_PAYLOAD];
	ZWalk		walk;
} Spill;

/* ----------------------------------------------------------------
 *	what may come free
 * ----------------------------------------------------------------
 */

/* what may become of the rows that an xact slot's owner ended or shrank */
typedef enum OwnerFate
{
	OWNER_UNKNOWN,				/* not asked yet */
	OWNER_REMOVABLE,			/* committed for everybody */
	OWNER_COMMITTED,
	OWNER_UNSETTLED				/* running, own, or aborted since */
} OwnerFate;

typedef struct Survey
{
	Relation	rel;
	Buffer		buffer;
	Page		page;
	const UndoHorizons *hz;
	OwnerFate	owner[ZHEAP_MAX_XACT_SLOTS + 2];
	Size		gain;			/* what pruning gives, and spilling may give */
} Survey;

static OwnerFate
fate_of(const Survey *s, Fxid owner, ZXactStatus status)
{
	if (status == ZXACT_ALL_VISIBLE)
		return OWNER_REMOVABLE;
	if (status != ZXACT_COMMITTED)
		return OWNER_UNSETTLED;
	return zheap_xact_slot_seen_by_all(s->rel, owner, s->hz, NULL) ?
		OWNER_REMOVABLE : OWNER_COMMITTED;
}

static OwnerFate
owner_fate(Survey *s, uint8 id)
{
	Assert(id >= 1 && id <= ZPageGetOpaque(s->page)->nslots);
	if (s->owner[id] == OWNER_UNKNOWN)
	{
		ZXactSlot	slot = ZPageGetXactSlot(s->page, id);

		s->owner[id] = fate_of(s, ZXactSlotFxid(slot),
							   zheap_xact_slot_status(s->buffer, slot, s->hz));
	}
	return s->owner[id];
}

/* likewise of who ended a row by the shared xact slot */
static OwnerFate
shared_fate(const Survey *s, OffsetNumber off)
{
	UndoReader	reader;
	Fxid		fxid;
	UndoRecPtr	urp;

	undo_record_reader_open(&reader, s->rel);
	fxid = zheap_shared_owner(&reader, s->hz, s->page,
							  BufferGetBlockNumber(s->buffer), off, &urp);
	undo_record_reader_close(&reader);
	return fate_of(s, fxid, zheap_xact_slot_fxid_status(fxid, s->hz));
}

static void
survey_row(Survey *s, ItemId lp, OffsetNumber off)
{
	char	   *tuple = (char *) PageGetItem(s->page, lp);
	ZTupleHeader hdr;
	OwnerFate	fate;

	Assert(ItemIdIsNormal(lp) && zheap_item_is_in_page(s->page, lp));
	zheap_header_get(tuple, &hdr);
	if (!ZHeaderIsEnded(&hdr) && (hdr.natts_flags1 & ZH_SLACK) == 0)
		return;
	if (hdr.slot == ZXACT_SHARED && ZPageHasShared(s->page))
		fate = shared_fate(s, off);
	else if (hdr.slot > ZPageGetOpaque(s->page)->nslots)
		return;
	else
		fate = hdr.slot == 0 ? OWNER_REMOVABLE : owner_fate(s, hdr.slot);

	/* a foreign tenure below a running one had committed before */
	if (fate == OWNER_UNSETTLED && ZHeaderReused(&hdr) == ZH_REUSED_FOREIGN)
		fate = OWNER_COMMITTED;
	if (hdr.flags2 & ZH_LOCK_ONLY)
		fate = OWNER_REMOVABLE;
	if (fate == OWNER_UNSETTLED)
		return;
	if (!ZHeaderIsEnded(&hdr))
		s->gain += ItemIdGetLength(lp) -
			zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
	else if (fate == OWNER_REMOVABLE ||
			 ItemIdGetLength(lp) <= SPILL_MAX_BYTES)
		s->gain += ItemIdGetLength(lp);
}

/*
 * What pruning and spilling may give, an estimate from above; no more than
 * enough is looked for.
 */
static Size
survey_page(Relation rel, Buffer buffer, const UndoHorizons *hz, int options,
			Size enough)
{
	Page		page = BufferGetPage(buffer);
	OffsetNumber max = PageGetMaxOffsetNumber(page);
	Survey		s = {.rel = rel,.buffer = buffer,.page = page,.hz = hz};

	AssertPageLocked(buffer);
	Assert((options & ~(ZPRUNE_NO_INDEXES | ZPRUNE_TIDY)) == 0);
	for (OffsetNumber off = FirstOffsetNumber;
		 off <= max && s.gain < enough; off++)
	{
		ItemId		lp = PageGetItemId(page, off);

		if (ItemIdIsNormal(lp))
		{
			if (zheap_item_is_in_page(page, lp))
				survey_row(&s, lp, off);
		}
		else if (ItemIdIsDead(lp) && (options & ZPRUNE_NO_INDEXES))
			s.gain += sizeof(ItemIdData);
	}
	return s.gain;
}

/*
 * Room for inserts on a page, with what a writer that wants it can make of it
 * by now.  For the free space map: an estimate from above, never counting
 * what doesn't help because there is no line pointer.
 */
Size
zheap_make_room_estimate(Relation rel, Buffer buffer,
						 const UndoHorizons *hz)
{
	Page		page = BufferGetPage(buffer);
	Size		room = zheap_page_insert_room(page);

	AssertPageLocked(buffer);
	if (room == 0 && PageGetMaxOffsetNumber(page) >= MaxHeapTuplesPerPage)
		return 0;
	return Min(room + survey_page(rel, buffer, hz, 0, BLCKSZ), BLCKSZ - 1);
}

/* ----------------------------------------------------------------
 *	the ender of a row
 * ----------------------------------------------------------------
 */

/*
 * Find the ender of a row.  True if it has committed and is not visible to
 * all: then it, and where to find its record, are added to the rows to be
 * spilled.  What isn't REUSED was ended by the xact slot's owner, whose record
 * needn't be looked for.
 */
static bool
find_ender(Spill *spill, UndoReader *reader, OffsetNumber off)
{
	ZWalk	   *walk = &spill->walk;
	int			budget = walk->budget;
	ZXactStatus status;

	zheap_walk_init(walk, spill->rel, reader, spill->hz, spill->block, off,
					NULL, NULL);
	walk->budget = budget;
	if (zheap_walk_start(walk, spill->page) != ZWALK_OWNED)
		return false;
	for (;;)
	{
		status = zheap_walk_status(walk, spill->buffer);
		if (status == ZXACT_ALL_VISIBLE || status == ZXACT_ABORTED)
			return false;
		if (ZWalkIsExact(walk))
			break;
		if (walk->budget <= 0)
			return false;
		switch (zheap_walk_find(walk, false))
		{
			case ZFIND_OTHER:
				continue;
			case ZFIND_GONE:
			case ZFIND_LIMIT:
			case ZFIND_STOP:
				return false;
			case ZFIND_FOUND:
				break;
		}
		break;
	}
	if (status != ZXACT_COMMITTED ||
		zheap_xact_slot_seen_by_all(spill->rel, walk->fxid, walk->hz, NULL))
		return false;
	Assert(spill->nrows < MaxHeapTuplesPerPage);
	Assert(walk->fxid != InvalidFxid && UndoRecPtrIsValid(walk->urp));
	spill->row[spill->nrows].off = off;
	spill->row[spill->nrows].ender = walk->fxid;
	spill->row[spill->nrows].urp = walk->urp;
	spill->nrows++;
	return true;
}

/* All rows of the page that can be spilled. */
static void
find_rows(Spill *spill)
{
	OffsetNumber max = PageGetMaxOffsetNumber(spill->page);
	UndoReader	reader;

	Assert(spill->nrows == 0);
	undo_record_reader_open(&reader, spill->rel);
	spill->walk.budget = SPILL_BUDGET;
	for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
	{
		ItemId		lp = PageGetItemId(spill->page, off);
		ZTupleHeader hdr;

		if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(spill->page, lp) ||
			ItemIdGetLength(lp) > SPILL_MAX_BYTES)
			continue;
		zheap_header_get((char *) PageGetItem(spill->page, lp), &hdr);
		if (ZHeaderIsEnded(&hdr) && find_ender(spill, &reader, off))
			spill->gain += ItemIdGetLength(lp);
	}
	/* writing undo may wait: no undo pin may be kept then (U16) */
	undo_record_reader_close(&reader);
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

static void
record_begin(Spill *spill)
{
	ZUndo	   *u = &spill->undo;

	Assert((spill->head.fxid == InvalidFxid) ==
		   !UndoRecPtrIsValid(spill->head.urp));
	memset(u, 0, sizeof(ZUndo));
	ItemPointerSetInvalid(&u->tid);
	u->kind = ZUNDO_SPILL;
	u->writer = undo_log_current_fxid();
	u->flags = ZUNDO_TENURE_START;
	u->prev_fxid = spill->head.fxid;
	u->chain = spill->head.urp;
	u->entries = spill->entries;
	spill->nlent = 0;
}

/* Write the record that was filled; it is the head of the chain then. */
static void
record_write(Spill *spill)
{
	ZUndo	   *u = &spill->undo;
	UndoInsertion ins;
	uint16		len = zheap_undo_encode(u, spill->payload);

	Assert(CritSectionCount == 0 && u->nentries > 0);
	AssertPageExclusive(spill->buffer);
	/* the entries are the payload's end */
	for (int i = 0; i < spill->nlent; i++)
		spill->lent[i].at += len - u->entrieslen;
	undo_insertion_init(&ins, spill->rel);
	Assert(len <= UNDO_MAX_PAYLOAD);
	undo_insertion_add(&ins, u->kind, u->flags, spill->block, u->offset,
					   u->chain, spill->payload, len);
	undo_insert_prepare(&ins);
	Assert(ins.fxid == u->writer);

	START_CRIT_SECTION();
	undo_insert_apply(&ins);
	if (RelationNeedsWAL(spill->rel))
	{
		MarkBufferDirty(spill->buffer);
		undo_insert_log_lent(&ins, spill->buffer, spill->lent, spill->nlent);
	}
	else
		undo_insert_log_alone(&ins);
	END_CRIT_SECTION();

	spill->head.fxid = ins.fxid;
	spill->head.urp = ins.rec[0].urp;
	undo_insert_release(&ins);
	UNDO_POINT("spill-record-written");
}

/* the row as its entry holds it: without slack, REUSED by nobody */
static void
record_add(Spill *spill, const SpillRow *row, char *image)
{
	ZUndo	   *u = &spill->undo;
	ItemId		lp = PageGetItemId(spill->page, row->off);
	const char *tuple = (char *) PageGetItem(spill->page, lp);
	ZSpillEntry entry;
	ZTupleHeader hdr;
	int			full;

	Assert(ItemIdIsNormal(lp) && ItemIdGetLength(lp) <= SPILL_MAX_BYTES);
	entry.off = row->off;
	entry.fxid = row->ender;
	entry.urp = row->urp;
	entry.len = zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
	entry.tuple = image;
	memcpy(image, tuple, entry.len);
	zheap_header_get(image, &hdr);
	hdr.natts_flags1 &= ~ZH_SLACK;
	ZHeaderSetReused(&hdr, ZH_REUSED_NONE);
	zheap_header_put(image, &hdr);

	full = Max(u->entrieslen, entry.len) > SPILL_RECORD_SIZE ?
		SPILL_PAIR_SIZE : SPILL_RECORD_SIZE;
	if (u->nentries > 0 &&
		u->entrieslen + SPILL_ENTRY_MAX_HEAD + entry.len > full)
	{
		record_write(spill);
		record_begin(spill);
	}
	if (u->nentries == 0)
		u->offset = row->off;
	u->nentries++;
	u->entrieslen =
		zheap_undo_put_entry(spill->entries + u->entrieslen, u->writer,
							 &entry) - spill->entries;

	/* all but the header stands on the page as it is in the entry */
	if (entry.len >= ZHEAP_HEADER_SIZE + UNDO_MIN_LENT &&
		spill->nlent < UNDO_MAX_LENT)
	{
		UndoLent   *lent = &spill->lent[spill->nlent++];

		lent->len = entry.len - ZHEAP_HEADER_SIZE;
		lent->at = u->entrieslen - lent->len;
		Assert(lent->at + lent->len <= u->entrieslen);
		lent->from = tuple + ZHEAP_HEADER_SIZE - (const char *) spill->page;
	}
}

/* The bodies are in undo: take them from the page. */
static void
spill_page(Spill *spill)
{
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	Page		work = zheap_delta_begin(delta, spill->rel, spill->buffer);

	Assert(spill->nrows > 0 && spill->head.fxid != InvalidFxid);
	for (int i = 0; i < spill->nrows; i++)
		zheap_page_set_spilled(work, spill->row[i].off);
	/* moves all tuples; see write_spill() */
	if (!zheap_page_can_begin_spill(work) &&
		!zheap_page_grow_xact_slots(work))
		elog(ERROR,
			 "no room for the spill chain of block %u of relation \"%s\"",
			 spill->block, RelationGetRelationName(spill->rel));
	zheap_page_put_spill(work, spill->head.fxid, spill->head.urp);

	zheap_page_assert_sound(work, spill->block, "spilling");

	/* no history is removed: no conflict */
	zheap_delta_finish(delta, InvalidFxid);
	pfree(delta);
	UNDO_POINT("spill-done");
}

static void
write_spill(Spill *spill)
{
	PGAlignedBlock image;

	Assert(spill->nrows > 0 && spill->gain > 0);
	/*
	 * The head of the chain takes the place of a FREE xact slot.  Better to
	 * grow one by the record made for it than to log all moved tuples.
	 */
	if (!zheap_page_can_begin_spill(spill->page))
		(void) zheap_delta_grow(spill->rel, spill->buffer);

	spill->head.fxid = InvalidFxid;
	spill->head.urp = InvalidUndoRecPtr;
	if (ZPageGetOpaque(spill->page)->flags & ZPAGE_HAS_SPILL)
		zheap_spill_chain_start(&spill->head, spill->page);

	record_begin(spill);
	for (int i = 0; i < spill->nrows; i++)
		record_add(spill, &spill->row[i], image.data);
	record_write(spill);
	spill_page(spill);
	zheap_stat_count(spill->rel, ZSTAT_ROWS_SPILLED, spill->nrows);
}

/*
 * Spill all that can be spilled, if that gives what is missing.  A process
 * that may not write undo may not spill (Z1).  Temporary tables have no use
 * for it: no snapshot outlives its transaction.
 */
static bool
page_spill(Relation rel, Buffer buffer, const UndoHorizons *hz, Size missing)
{
	Spill	   *spill;
	bool		enough;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0);
	if (IsParallelWorker() || (MyProc->statusFlags & PROC_IN_VACUUM) ||
		rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP ||
		!TransactionIdIsValid(GetCurrentTransactionIdIfAny()))
		return false;
	if (!zheap_page_can_begin_spill(BufferGetPage(buffer)) &&
		ZPageGetOpaque(BufferGetPage(buffer))->nslots >= ZHEAP_MAX_XACT_SLOTS)
		return false;

	spill = palloc(sizeof(Spill));
	spill->rel = rel;
	spill->buffer = buffer;
	spill->page = BufferGetPage(buffer);
	spill->block = BufferGetBlockNumber(buffer);
	spill->hz = hz;
	spill->nrows = 0;
	spill->gain = 0;

	find_rows(spill);
	enough = spill->gain >= Max(missing, SPILL_MIN_BYTES);
	if (enough)
		write_spill(spill);
	pfree(spill);
	return enough;
}

/* ----------------------------------------------------------------
 *	the whole
 * ----------------------------------------------------------------
 */

/*
 * Has the table had no index since the last VACUUM that found none?  Then no
 * index has entries of its line pointers: a command that builds one waits for
 * writers that do not know it.  The relcache entry's list of indexes is not
 * asked.  It lacks an index that this transaction has dropped, and a rollback
 * brings that one back, but not the line pointers.  relhasindex is taken back
 * by VACUUM alone, which runs in no transaction block and waits for a
 * transaction that drops one.
 */
int
zheap_make_room_options(Relation rel)
{
	return rel->rd_rel->relhasindex ? 0 : ZPRUNE_NO_INDEXES;
}

/*
 * A survey costs half as much as a prune, and where rows move all the time its
 * answer is always yes.  So a prune of a table that gave what was missing lets
 * the next one go without; until one doesn't.
 */
#define PRUNES_KNOWN_OF	64		/* tables that share a place only guess worse */

static bool prune_helped[PRUNES_KNOWN_OF];

bool
zheap_make_room(Relation rel, Buffer buffer, const UndoHorizons *hz,
				Size missing, int options)
{
	bool	   *helped = &prune_helped[rel->rd_id % PRUNES_KNOWN_OF];
	bool		survey = !*helped;
	ZPruneResult result;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0 && missing > 0);
	Assert(options == 0 || options == ZPRUNE_NO_INDEXES);
	if (survey && survey_page(rel, buffer, hz, options, missing) < missing)
		return false;

	/* what is dead to all isn't worth spilling, so this comes first */
	zheap_prune_page(rel, buffer, hz, options, &result);
	*helped = result.gain >= (int) missing;
	if (*helped)
		return true;
	missing -= result.gain;
	if (!survey && survey_page(rel, buffer, hz, options, missing) < missing)
		return result.changed;
	return page_spill(rel, buffer, hz, missing) || result.changed;
}
