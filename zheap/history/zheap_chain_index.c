/*-------------------------------------------------------------------------
 *
 * zheap_chain_index.c
 *	  A few long tenures of undo chains, remembered by backend-local memory.
 *
 * A page on which one transaction made many changes has a long chain, and
 * each of its rows would walk it from the top.  Here is, for each row, the
 * next record that may be about it, so that the walk gets there in one step.
 * That is for index scans by old snapshots: of rows all of which were updated
 * since, once and five times, they take 1.08 and 1.49 of heap's instructions,
 * and 1.70 and 5.82 without.  (Own changes need it no more, see
 * zheap_own_history.c.)
 *
 * It cannot be stale: see "Read caches" in the README.  The record at which a
 * walk stops is always looked at by itself.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "common/hashfn.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_chain_index.h"
#include "zheap/history/zheap_record_cache.h"

#define INDEX_CHAINS		8
#define INDEX_RECORDS	1024
#define INDEX_RECORDS_USED	UNDO_KNOB("chain-index-records", INDEX_RECORDS, 8, INDEX_RECORDS)
#define INDEX_PLACES	2048	/* of a hash table of them; a power of two */

/* rows 1 .. ROWS - 1; number 0 stands for records that may be about many */
#define ROWS			(MaxHeapTuplesPerPage + 1)
#define MANY			0
#define NONE			(-1)

typedef struct IndexedRecord
{
	UndoRecPtr	urp;
	int16		row;			/* or MANY, or NONE */
	int16		older;			/* next one of the same row, or NONE */
	uint8		flags;
} IndexedRecord;

/*
 * Consecutive records of one tenure, newest first, in records[start .. end -
 * 1]; the links between them are their order.  Older ones are appended, newer
 * ones put before.
 */
typedef struct IndexedChain
{
	Fxid		w;
	char		persistence;
	int			start;
	int			end;
	UndoRecPtr	below;			/* chain of the oldest one */
	uint64		used;			/* clock, for replacement */
	int16		newest[ROWS];	/* of each row, or NONE */
	int16		oldest[ROWS];
	int16		place[INDEX_PLACES]; /* records by urp; NONE: free */
	IndexedRecord	records[INDEX_RECORDS];
} IndexedChain;

static IndexedChain *chains = NULL; /* until the first record is noted */
static uint64 index_clock = 0;

static inline bool
chain_is_of(const IndexedChain *chain, char persistence, Fxid w)
{
	return chain->w == w && chain->persistence == persistence &&
		chain->end > chain->start;
}

/* where in the hash table urp is, or would be put */
static inline int16 *
chain_place(IndexedChain *chain, UndoRecPtr urp)
{
	uint32		at = murmurhash32((uint32) (urp ^ (urp >> 32)));

	for (;; at++)
	{
		int16	   *place = &chain->place[at & (INDEX_PLACES - 1)];

		if (*place == NONE || chain->records[*place].urp == urp)
			return place;
	}
}

/* index of urp in a chain, or NONE */
static inline int
chain_find(IndexedChain *chain, UndoRecPtr urp)
{
	return *chain_place(chain, urp);
}

/* the first record of a row at or behind index i, or NONE */
static int
indexed_next_of(const IndexedChain *chain, int row, int i)
{
	int			at = chain->newest[row];

	/* a step back over the row's own record is what leads into the middle */
	if (i > chain->start && chain->records[i - 1].row == row)
		at = chain->records[i - 1].older;
	while (at != NONE && at < i)
		at = chain->records[at].older;
	return at;
}

/* index of the record at which a walk for the row stops, or chain->end */
static int
chain_stop(const IndexedChain *chain, int i, OffsetNumber off,
		   bool stop_at_base)
{
	int			stop = chain->end;
	int			at;

	/* nothing starts a tenure but its oldest record */
	if (chain->records[stop - 1].flags & ZUNDO_TENURE_START)
		stop--;
	if (off < ROWS && (at = indexed_next_of(chain, off, i)) != NONE)
		stop = Min(stop, at);
	if ((at = indexed_next_of(chain, MANY, i)) != NONE)
		stop = Min(stop, at);
	if (stop_at_base)
	{
		for (at = i; at < stop; at++)
		{
			if (chain->records[at].flags & ZUNDO_BASE)
				return at;
		}
	}
	return stop;
}

UndoRecPtr
zheap_chain_index_pass(char persistence, Fxid w, UndoRecPtr u,
					   OffsetNumber off,
					   bool stop_at_base, bool *known)
{
	for (int c = 0; chains != NULL && c < INDEX_CHAINS; c++)
	{
		IndexedChain *chain = &chains[c];
		int			i;
		int			stop;

		if (!chain_is_of(chain, persistence, w) ||
			(i = chain_find(chain, u)) == NONE)
			continue;
		chain->used = ++index_clock;
		stop = chain_stop(chain, i, off, stop_at_base);
		*known = stop < chain->end;
		return *known ? chain->records[stop].urp : chain->below;
	}
	*known = false;
	return u;
}

/* the record's row; rows beyond what a page can have are as good as many */
static int
row_of(const ZCachedUndo *c)
{
	if (c->first > c->last)
		return NONE;
	return c->first == c->last && c->first < ROWS ? c->first : MANY;
}

static void
chain_put(IndexedChain *chain, int i, const ZCachedUndo *c)
{
	IndexedRecord *m = &chain->records[i];
	int			row = row_of(c);

	m->urp = c->urp;
	*chain_place(chain, c->urp) = (int16) i;
	m->flags = c->flags;
	m->row = (int16) row;
	m->older = NONE;
	if (row == NONE)
		return;
	if (chain->newest[row] == NONE)
		chain->newest[row] = chain->oldest[row] = (int16) i;
	else if (i < chain->newest[row])
	{
		m->older = chain->newest[row];
		chain->newest[row] = (int16) i;
	}
	else
	{
		chain->records[chain->oldest[row]].older = (int16) i;
		chain->oldest[row] = (int16) i;
	}
}

/* forget the chain used longest ago */
static IndexedChain *
new_chain(void)
{
	IndexedChain *chain = &chains[0];

	for (int c = 1; c < INDEX_CHAINS; c++)
	{
		if (chains[c].used < chain->used)
			chain = &chains[c];
	}
	chain->start = chain->end = INDEX_RECORDS_USED / 4;
	memset(chain->newest, 0xff, sizeof(chain->newest));
	memset(chain->oldest, 0xff, sizeof(chain->oldest));
	memset(chain->place, 0xff, sizeof(chain->place));
	return chain;
}

void
zheap_chain_index_note(const ZCachedUndo *c)
{
	IndexedChain *chain;

	if (chains == NULL)
		chains = undo_cache_alloc(INDEX_CHAINS * sizeof(IndexedChain));
	for (int i = 0; i < INDEX_CHAINS; i++)
	{
		chain = &chains[i];
		if (!chain_is_of(chain, c->persistence, c->writer))
			continue;
		if (chain->below == c->urp && chain->end < INDEX_RECORDS_USED &&
			(chain->records[chain->end - 1].flags & ZUNDO_TENURE_START) == 0)
		{
			chain_put(chain, chain->end++, c);
			chain->below = c->chain;
			chain->used = ++index_clock;
			return;
		}
		if (c->chain == chain->records[chain->start].urp &&
			(c->flags & ZUNDO_TENURE_START) == 0 && chain->start > 0)
		{
			chain_put(chain, --chain->start, c);
			chain->used = ++index_clock;
			return;
		}
		if (chain_find(chain, c->urp) != NONE)
			return;
	}

	chain = new_chain();
	chain->w = c->writer;
	chain->persistence = c->persistence;
	chain_put(chain, chain->end++, c);
	chain->below = c->chain;
	chain->used = ++index_clock;
}
