/*-------------------------------------------------------------------------
 *
 * zheap_memo.c
 *	  A few undo chains, remembered by backend-local memory.
 *
 * A page on which one transaction made many changes has a long chain, and
 * each of its rows would walk it from the top.  What a walk needs to know of
 * a record that isn't about its row is small (the link, the offset, a flag or
 * two), so it is kept and passed over without reading undo again.
 *
 * Why this can't be stale: records are immutable, and the place of a record of
 * writer w is not written again while w might still write (its undo is reused
 * only when w is below the discard horizon), so {persistence, w, urp} names
 * one record for ever.  The record at which a walk stops is always read, and
 * judged, afresh.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "zheap/zheap_memo.h"

#define MEMO_CHAINS		8
#define MEMO_RECORDS	1024

typedef struct MemoRecord
{
	UndoRecPtr	urp;
	OffsetNumber first;			/* rows it covers; first > last: none */
	OffsetNumber last;
	uint8		flags;
} MemoRecord;

/*
 * Consecutive records of one tenure, newest first, in records[start ..
 * start + n - 1]; the links between them are their order.  Older ones are
 * appended, newer ones put before.
 */
typedef struct MemoChain
{
	Fxid		w;
	char		persistence;
	int			start;
	int			n;
	bool		descending;		/* by urp; always, unless w changed its log */
	UndoRecPtr	below;			/* chain of the oldest one */
	uint64		used;			/* clock, for replacement */
	MemoRecord	records[MEMO_RECORDS];
} MemoChain;

static MemoChain chains[MEMO_CHAINS];
static uint64 memo_clock = 0;

/* index of urp in a chain, or -1 */
static int
memo_index(const MemoChain *chain, UndoRecPtr urp)
{
	if (chain->descending)
	{
		int			low = chain->start;
		int			high = chain->start + chain->n - 1;

		if (urp > chain->records[low].urp || urp < chain->records[high].urp)
			return -1;			/* most of the other chains */
		while (low <= high)
		{
			int			mid = low + (high - low) / 2;

			if (chain->records[mid].urp == urp)
				return mid;
			if (chain->records[mid].urp > urp)
				low = mid + 1;
			else
				high = mid - 1;
		}
		return -1;
	}
	for (int i = chain->start; i < chain->start + chain->n; i++)
	{
		if (chain->records[i].urp == urp)
			return i;
	}
	return -1;
}

static inline bool
memo_is_of(const MemoChain *chain, char persistence, Fxid w)
{
	return chain->n > 0 && chain->w == w && chain->persistence == persistence;
}

UndoRecPtr
zheap_memo_pass(char persistence, Fxid w, UndoRecPtr u, OffsetNumber off,
				bool stop_at_base)
{
	for (int c = 0; c < MEMO_CHAINS; c++)
	{
		MemoChain  *chain = &chains[c];
		int			end = chain->start + chain->n;
		int			i;

		if (!memo_is_of(chain, persistence, w) ||
			(i = memo_index(chain, u)) < 0)
			continue;
		chain->used = ++memo_clock;
		for (; i < end; i++)
		{
			const MemoRecord *r = &chain->records[i];

			if ((off >= r->first && off <= r->last) ||
				(r->flags & ZUNDO_TENURE_START) ||
				(stop_at_base && (r->flags & ZUNDO_BASE)))
				return r->urp;
		}
		return chain->below;
	}
	return u;
}

/* the rows that a record may be about, as a range */
static void
memo_fill(MemoRecord *m, UndoRecPtr urp, const ZUndo *r)
{
	m->urp = urp;
	m->flags = r->flags;
	m->first = m->last = r->offset;
	if (r->kind == ZUNDO_INSERT_OPEN)
		m->last = MaxOffsetNumber;
	else if (r->kind == ZUNDO_INSERT_SET || (r->flags & ZUNDO_OPEN))
	{
		m->first = FirstOffsetNumber;
		m->last = MaxOffsetNumber;
	}
	else if (!ZUndoIsChange(r))
		m->first = m->last + 1; /* LOCK, SPILL: none */
}

/* forget the chain used longest ago */
static MemoChain *
memo_new_chain(void)
{
	MemoChain  *oldest = &chains[0];

	for (int c = 1; c < MEMO_CHAINS; c++)
	{
		if (chains[c].used < oldest->used)
			oldest = &chains[c];
	}
	oldest->start = MEMO_RECORDS / 2;
	oldest->n = 0;
	return oldest;
}

void
zheap_memo_note(char persistence, UndoRecPtr urp, const ZUndo *r)
{
	MemoChain  *chain;

	for (int c = 0; c < MEMO_CHAINS; c++)
	{
		int			end;

		chain = &chains[c];
		end = chain->start + chain->n;
		if (!memo_is_of(chain, persistence, r->writer))
			continue;
		if (chain->below == urp && end < MEMO_RECORDS &&
			(chain->records[end - 1].flags & ZUNDO_TENURE_START) == 0)
		{
			memo_fill(&chain->records[end], urp, r);
			if (urp >= chain->records[end - 1].urp)
				chain->descending = false;
			chain->n++;
			chain->below = r->chain;
			chain->used = ++memo_clock;
			return;
		}
		if (r->chain == chain->records[chain->start].urp &&
			(r->flags & ZUNDO_TENURE_START) == 0 && chain->start > 0)
		{
			memo_fill(&chain->records[--chain->start], urp, r);
			if (urp <= chain->records[chain->start + 1].urp)
				chain->descending = false;
			chain->n++;
			chain->used = ++memo_clock;
			return;
		}
		if (memo_index(chain, urp) >= 0)
			return;
	}

	chain = memo_new_chain();
	chain->w = r->writer;
	chain->persistence = persistence;
	memo_fill(&chain->records[chain->start], urp, r);
	chain->n = 1;
	chain->descending = true;
	chain->below = r->chain;
	chain->used = ++memo_clock;
}
