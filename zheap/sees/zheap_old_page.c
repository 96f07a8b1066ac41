/*-------------------------------------------------------------------------
 *
 * zheap_old_page.c
 *	  A page as an older snapshot sees it: what the snapshot doesn't see is
 *	  taken back in a private copy, each undo record read once.
 *
 * Taken back are the tenures of committed or running owners, newest records
 * first, of the xact slot whose owner has the highest xid; xact slot by xact
 * slot until each has an owner that the snapshot sees.  A row comes by its
 * version as on the walk through its history (zheap_walk.c): the records of
 * the xact slot that its header names are tried in the order of the chain; the
 * first that covers it made its version, and says where the version before
 * belongs.  Two things may go otherwise than for a walk:
 *
 *	- xids aren't in the order of commits, so a change may lie above another
 *	  of a higher xid.  Then a record is met whose row isn't in the xact slot;
 *	- the version before may belong to a tenure that was passed already.  It
 *	  wasn't, if its xid is below all those whose records were taken back in its
 *	  xact slot (Z40).
 *
 * Such rows, and others of which more is to be known than a page can say, are
 * left to be walked.  So is a row that was changed very often, which a walk knows
 * how to jump over; but not what lies below its records, for whose walks would
 * pass each of them.
 *
 * Not for SERIALIZABLE, which is told of each writer passed for each row, nor
 * where the snapshot sees some of the own transaction's changes only.  Undo
 * pages are locked one at a time.  What may be thrown: corruption.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_history.h"
#include "zheap/sees/zheap_sees.h"

/* changes of a row to be taken back: a walk jumps over more */
#define STEPS_OF_ROW		UNDO_KNOB("old-page-steps", 128, 0, 128)

/*
 * Records to be read in vain, which change no row that is looked for: for each
 * of these, and besides.  Where a row's walk would have to pass them, too, they
 * aren't in vain: so many more for each such row.
 */
#define VAIN_PER_ROW		8
#define VAIN_BESIDES		16
#define VAIN_MORE			UNDO_KNOB("old-page-more", 64, 1, 64)

/* a writer, for the snapshot */
typedef enum Judged
{
	JUDGED_SEEN,
	JUDGED_UNSEEN,
	JUDGED_MINE					/* of my transaction: the command decides */
} Judged;

/* an xact slot whose owner the snapshot doesn't see */
typedef struct Unseen
{
	Fxid		fxid;
	uint8		id;
} Unseen;

#define ST_SORT			sort_unseen
#define ST_ELEMENT_TYPE	Unseen
#define ST_COMPARE(a, b) \
	((a)->fxid < (b)->fxid ? -1 : (a)->fxid > (b)->fxid)
#define ST_SCOPE		static
#define ST_DEFINE
#include "lib/sort_template.h"

typedef struct TakeBack
{
	ZReadContext *cx;
	const ZOwners *owners;
	ZOldPage   *old;
	Page		copy;
	BlockNumber block;
	OffsetNumber max;
	int			pending;		/* rows whose version isn't known yet */
	int			left;			/* records that may still be read in vain */
	Fxid		last_asked;		/* and the answer of judge() */
	Judged		last_answer;
	/* for statistics: steps back to versions before */
	int			steps;
	int			longest;
	uint16		row_steps[MaxHeapTuplesPerPage + 1];
	/* xact slots whose owner isn't seen, the one with the highest xid last */
	int			nunseen;
	Unseen		order[ZHEAP_MAX_XACT_SLOTS];
	/* of each xact slot */
	Fxid		fxid[ZHEAP_MAX_XACT_SLOTS + 1];
	UndoRecPtr	urp[ZHEAP_MAX_XACT_SLOTS + 1];
	bool		unseen[ZHEAP_MAX_XACT_SLOTS + 1];	/* its owner; 0: none */
	Fxid		passed[ZHEAP_MAX_XACT_SLOTS + 1];	/* least xid of which a
													 * record was taken back */
	/* the record read last */
	ZUndo		undo;
	UndoRecord	raw;
} TakeBack;

static Judged
judge(TakeBack *t, Fxid fxid)
{
	TransactionId xid = XidFromFxid(fxid);

	Assert(fxid != InvalidFxid);
	if (fxid < t->cx->hz.all_visible_before)
		return JUDGED_SEEN;
	if (fxid != t->last_asked)
	{
		t->last_asked = fxid;
		if (TransactionIdIsCurrentTransactionId(xid))
			t->last_answer = JUDGED_MINE;
		else
			t->last_answer = XidInMVCCSnapshot(xid, t->cx->snapshot) ?
				JUDGED_UNSEEN : JUDGED_SEEN;
	}
	return t->last_answer;
}

static inline char *
row_bytes(TakeBack *t, OffsetNumber off)
{
	return (char *) t->copy +
		ItemIdGetOffset(PageGetItemId(t->copy, off));
}

static inline void
settle_row(TakeBack *t, OffsetNumber off, ZOldRow state, Fxid writer)
{
	Assert(t->old->state[off] == ZOLD_PENDING);
	t->old->state[off] = state;
	t->old->writer[off] = writer;
	t->pending--;
}

/* The rows to be looked for. */
static void
find_rows(TakeBack *t)
{
	for (OffsetNumber off = FirstOffsetNumber; off <= t->max; off++)
	{
		ItemId		lp = PageGetItemId(t->copy, off);
		ZTupleHeader header;

		t->old->state[off] = ZOLD_AS_IT_STANDS;
		if (!ItemIdIsNormal(lp) || !zheap_item_is_in_page(t->copy, lp))
			continue;
		zheap_header_get(row_bytes(t, off), &header);
		if (header.slot == ZXACT_SHARED)
		{
			/* its record is in no xact slot's chain */
			if (t->owners->unseen[ZXACT_SHARED])
				t->old->state[off] = ZOLD_WALK;
			continue;
		}
		if (header.slot > t->owners->n || !t->unseen[header.slot] ||
			(header.flags2 & ZH_LOCK_ONLY))
			continue;
		t->old->state[off] = ZOLD_PENDING;
		t->old->len[off] = zheap_page_tuple_len(row_bytes(t, off),
												ItemIdGetLength(lp));
		t->pending++;
	}
}

/* The record, of xact slot id, made the row's version: back to the one before. */
static void
step_back(TakeBack *t, uint8 id, OffsetNumber off)
{
	const ZUndo *u = &t->undo;
	uint16	   *len = &t->old->len[off];
	char	   *row = row_bytes(t, off);
	ZTupleHeader header;

	Assert(ZUndoIsChange(u));
	/* room that was given back since it committed; a history elsewhere */
	if (ZUndoIsCopy(u) || t->row_steps[off] >= STEPS_OF_ROW ||
		(ZUndoHasDiff(u) && *len + u->diff.oldmid - u->diff.newmid >
		 ItemIdGetLength(PageGetItemId(t->copy, off))))
	{
		settle_row(t, off, ZOLD_WALK, InvalidFxid);
		return;
	}
	zheap_undo_step_back(u, row, len);
	t->steps++;
	t->longest = Max(t->longest, ++t->row_steps[off]);
	zheap_header_get(row, &header);
	if (ZHeaderIsEnded(&header))
		settle_row(t, off, ZOLD_WALK, InvalidFxid);
	else if ((u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE ||
			 header.slot == 0 || (header.flags2 & ZH_LOCK_ONLY))
		settle_row(t, off, ZOLD_FOUND, InvalidFxid);
	else if ((u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_IN_CHAIN)
	{
		if (header.slot != id)
			settle_row(t, off, ZOLD_WALK, InvalidFxid);
	}
	else if (judge(t, u->link_fxid) == JUDGED_SEEN)
		settle_row(t, off, ZOLD_FOUND, u->link_fxid);
	else if (judge(t, u->link_fxid) == JUDGED_MINE ||
			 header.slot > t->owners->n || !t->unseen[header.slot] ||
			 u->link_fxid >= t->passed[header.slot])
		settle_row(t, off, ZOLD_WALK, InvalidFxid);
}

/* All rows from first to last that the record covers. */
static void
take_back_range(TakeBack *t, uint8 id, OffsetNumber first, OffsetNumber last)
{
	bool		insert = ZUndoIsInsert(&t->undo);

	last = Min(last, t->max);
	for (OffsetNumber off = first; off <= last; off++)
	{
		ZTupleHeader header;

		if (t->old->state[off] != ZOLD_PENDING)
			continue;
		zheap_header_get(row_bytes(t, off), &header);
		if (header.slot != id || !zheap_undo_covers(&t->undo, off, &header))
			continue;
		if (insert)
			settle_row(t, off, ZOLD_NONE, InvalidFxid);
		else
			step_back(t, id, off);
	}
}

/* What the record that was read did to the page through xact slot id. */
static void
take_back(TakeBack *t, uint8 id)
{
	const ZUndo *u = &t->undo;

	if (u->kind == ZUNDO_INSERT_OPEN)
		take_back_range(t, id, u->offset, t->max);
	else if (u->kind == ZUNDO_INSERT_SET)
	{
		for (int i = 0; i < u->nranges; i++)
			take_back_range(t, id, u->first[i], u->last[i]);
	}
	else if (ZUndoIsOpenDelete(u))
		take_back_range(t, id, FirstOffsetNumber, t->max);
	else if (ZUndoIsChange(u) && u->offset <= t->max)
	{
		if (t->old->state[u->offset] != ZOLD_PENDING)
			return;
		if ((uint8) *row_bytes(t, u->offset) == id)
			step_back(t, id, u->offset);
		else
			settle_row(t, u->offset, ZOLD_WALK, InvalidFxid);
	}
}

/* More records may be read for the rows whose version is in the xact slot. */
static bool
allow_more(TakeBack *t, uint8 id)
{
	for (OffsetNumber off = FirstOffsetNumber; off <= t->max; off++)
	{
		if (t->old->state[off] == ZOLD_PENDING &&
			(uint8) *row_bytes(t, off) == id)
			t->left += VAIN_MORE;
	}
	return t->left > 0;
}

/*
 * Take back the newest tenure of the xact slot.  False if records are too many
 * or are not to be had.
 */
static bool
take_back_tenure(TakeBack *t, uint8 id)
{
	char		persistence = t->cx->reader.persistence;
	Fxid		fxid = t->fxid[id];

	Assert(fxid != InvalidFxid);
	t->passed[id] = Min(t->passed[id], fxid);
	do
	{
		int			steps = t->steps;
		int			pending = t->pending;

		CHECK_FOR_INTERRUPTS();
		if ((t->left <= 0 && !allow_more(t, id)) ||
			!undo_record_fetch(&t->cx->reader, t->urp[id], fxid, t->block,
							   false, &t->raw))
			return false;
		zheap_undo_decode(&t->raw, &t->undo);
		t->urp[id] = t->undo.chain;
		if (UndoRecPtrIsValid(t->urp[id]) &&
			UndoRecPtrGetBlock(t->urp[id]) != UndoRecPtrGetBlock(t->raw.urp))
			undo_file_expect_page(persistence, t->urp[id]);
		take_back(t, id);
		if (t->steps == steps && t->pending == pending)
			t->left--;
	} while ((t->undo.flags & ZUNDO_TENURE_START) == 0 && t->pending > 0);

	/*
	 * The owner before.  My own transaction is below a savepoint that was
	 * rolled back to, whose changes are still on the page: not to be judged
	 * here.
	 */
	t->fxid[id] = t->undo.prev_fxid;
	t->unseen[id] = false;
	if (t->fxid[id] != InvalidFxid)
	{
		switch (judge(t, t->fxid[id]))
		{
			case JUDGED_SEEN:
				break;
			case JUDGED_UNSEEN:
				t->unseen[id] = true;
				break;
			case JUDGED_MINE:
				t->fxid[id] = InvalidFxid;
				break;
		}
	}
	return true;
}

/* The xact slot whose newest tenure was taken back goes where it belongs now. */
static void
put_in_order(TakeBack *t, uint8 id)
{
	int			i;

	if (!t->unseen[id])
		return;
	for (i = t->nunseen++; i > 0 && t->order[i - 1].fxid > t->fxid[id]; i--)
		t->order[i] = t->order[i - 1];
	t->order[i].fxid = t->fxid[id];
	t->order[i].id = id;
}

/* Rows that no record covers are as the owner left them who is seen. */
static void
find_rest(TakeBack *t)
{
	for (OffsetNumber off = FirstOffsetNumber;
		 off <= t->max && t->pending > 0; off++)
	{
		uint8		id;

		if (t->old->state[off] != ZOLD_PENDING)
			continue;
		id = (uint8) *row_bytes(t, off);
		if (t->unseen[id] || t->fxid[id] == InvalidFxid)
			settle_row(t, off, ZOLD_WALK, InvalidFxid);
		else
			settle_row(t, off, ZOLD_FOUND, t->fxid[id]);
	}
}

/* See zheap_sees.h. */
void
zheap_old_page_restore(ZReadContext *cx, Page copy, BlockNumber block,
					   const ZOwners *owners, ZOldPage *old)
{
	TakeBack	t;

	Assert(zheap_old_page_is_possible(cx, owners));
	Assert(zheap_page_is_valid(copy));
	t.cx = cx;
	t.owners = owners;
	t.old = old;
	t.copy = copy;
	t.block = block;
	t.max = PageGetMaxOffsetNumber(copy);
	t.pending = 0;
	t.steps = t.longest = 0;
	memset(t.row_steps, 0, (t.max + 1) * sizeof(uint16));
	t.last_asked = InvalidFxid;
	t.unseen[0] = false;
	t.fxid[0] = InvalidFxid;
	t.nunseen = 0;
	for (uint8 id = 1; id <= owners->n; id++)
	{
		t.unseen[id] = owners->unseen[id];
		t.fxid[id] = owners->writer[id];
		t.urp[id] = ZPageGetXactSlot(copy, id)->urp;
		t.passed[id] = PG_UINT64_MAX;
		if (!t.unseen[id])
			continue;
		undo_file_expect_page(cx->reader.persistence, t.urp[id]);
		t.order[t.nunseen].fxid = t.fxid[id];
		t.order[t.nunseen++].id = id;
	}
	sort_unseen(t.order, t.nunseen);
	find_rows(&t);
	t.left = VAIN_PER_ROW * t.pending + VAIN_BESIDES;
	while (t.pending > 0 && t.nunseen > 0)
	{
		uint8		id = t.order[--t.nunseen].id;

		if (!take_back_tenure(&t, id))
			break;
		put_in_order(&t, id);
	}
	find_rest(&t);
	if (t.steps > 0)
		zheap_stat_count_walk(cx->rel, t.steps, t.longest);
}
