/*-------------------------------------------------------------------------
 *
 * zheap_own_history.c
 *	  Pages that my transaction changed, with a bound of its command ids, in a
 *	  table of backend-local memory in which newer pages take the place of
 *	  older ones.
 *
 * Why an entry can't be stale (Z39): it is about a record, and what lies below
 * it in its chain.  {persistence, writer, place} names one record for ever,
 * and the records below it don't change either.  What grows later, as the rows
 * that an open record covers, is of the record's own command.  Nothing has to
 * be reset: a page that was rolled back shows an older record again, of which
 * the table says what it said then, or nothing.
 *
 * The records of one family aren't in the order of their command ids: a
 * trigger's command has a later one than the command that goes on after it.
 * Hence the bound.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "common/hashfn.h"
#include "utils/rel.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/owner/zheap_xact_slot.h"

#define SETS		512
#define SETS_USED	UNDO_KNOB("own-history", SETS, 1, SETS)
#define WAYS		4			/* entries that share a page's place */

static ZOwnHistory *table = NULL;

/* of all that this top transaction wrote anywhere */
static Fxid last_top = InvalidFxid;
static CommandId last_bound = 0;

/* the page's place; the table must be there */
static inline ZOwnHistory *
set_of(Relation rel, BlockNumber block)
{
	uint32		key = (uint32) rel->rd_locator.relNumber *
		UINT32_C(0x9E3779B1) + block;

	return &table[(murmurhash32(key) % SETS_USED) * WAYS];
}

static inline bool
is_of(const ZOwnHistory *h, Relation rel, Fxid fxid, UndoRecPtr urp)
{
	return h->urp == urp && h->fxid == fxid &&
		h->persistence == rel->rd_rel->relpersistence;
}

static inline ZOwnHistory *
find(ZOwnHistory *set, Relation rel, Fxid fxid, UndoRecPtr urp)
{
	for (int i = 0; i < WAYS; i++)
	{
		if (is_of(&set[i], rel, fxid, urp))
			return &set[i];
	}
	return NULL;
}

/* a place at the front of the set; the entry at its end is forgotten */
static ZOwnHistory *
push(ZOwnHistory *set)
{
	memmove(&set[1], &set[0], (WAYS - 1) * sizeof(ZOwnHistory));
	return &set[0];
}

bool
zheap_own_changes_precede(CommandId cid)
{
	/* a worker wasn't told what its leader wrote */
	return !IsParallelWorker() && last_bound <= cid &&
		last_top != InvalidFxid &&
		last_top == U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
}

const ZOwnHistory *
zheap_own_history_get(Relation rel, BlockNumber block, Fxid fxid,
					  UndoRecPtr urp)
{
	Assert(fxid != InvalidFxid);
	if (table == NULL)
		return NULL;
	return find(set_of(rel, block), rel, fxid, urp);
}

const ZOwnHistory *
zheap_own_history_put(Relation rel, BlockNumber block, const ZOwnHistory *h)
{
	ZOwnHistory *set;
	ZOwnHistory *to;

	if (table == NULL)
		table = undo_cache_alloc(SETS * WAYS * sizeof(ZOwnHistory));
	set = set_of(rel, block);
	to = find(set, rel, h->fxid, h->urp);
	if (to == NULL)
		to = push(set);
	*to = *h;
	return to;
}

/* one more record on top of what h describes */
static void
add_record(ZOwnHistory *h, Fxid fxid, UndoRecPtr urp, CommandId bound)
{
	if (bound > h->bound)
	{
		h->old_fxid = h->fxid;
		h->old_urp = h->urp;
		h->old_bound = h->bound;
		h->bound = bound;
	}
	h->fxid = fxid;
	h->urp = urp;
}

void
zheap_own_history_note(Relation rel, BlockNumber block,
					   const ZXactSlotChoice *choice, Fxid fxid,
					   UndoRecPtr urp, CommandId cid, bool lock)
{
	CommandId	bound = lock ? 0 : cid + 1;
	Fxid		top = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	ZOwnHistory *set;
	ZOwnHistory *h;

	if (last_top != top)
	{
		last_top = top;
		last_bound = 0;
	}
	last_bound = Max(last_bound, bound);
	if (table == NULL)
		table = undo_cache_alloc(SETS * WAYS * sizeof(ZOwnHistory));
	set = set_of(rel, block);

	switch (choice->tenure)
	{
		case ZTENURE_CONTINUE:
			h = find(set, rel, fxid, choice->prev_urp);
			if (h != NULL)
				add_record(h, fxid, urp, bound);
			return;

		case ZTENURE_FAMILY:
			/* what was before is kept: a savepoint may be rolled back to */
			h = find(set, rel, choice->prev_fxid, choice->prev_urp);
			if (h != NULL)
			{
				ZOwnHistory below = *h;

				h = push(set);
				*h = below;
				add_record(h, fxid, urp, bound);
			}
			return;

		case ZTENURE_FREE:
		case ZTENURE_FROZEN:
		case ZTENURE_FOREIGN:
			break;

		case ZTENURE_SHARED:
			/* nothing that is mine is found by the one below */
			return;
	}

	/* my family's first record of the page */
	h = push(set);
	memset(h, 0, sizeof(ZOwnHistory));
	h->fxid = fxid;
	h->urp = urp;
	h->old_urp = InvalidUndoRecPtr;
	h->base_urp = InvalidUndoRecPtr;
	if (choice->tenure == ZTENURE_FOREIGN)
	{
		h->base_fxid = choice->prev_fxid;
		h->base_urp = choice->prev_urp;
	}
	h->bound = bound;
	h->persistence = rel->rd_rel->relpersistence;
}
