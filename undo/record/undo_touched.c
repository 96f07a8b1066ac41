/*-------------------------------------------------------------------------
 *
 * undo_touched.c
 *	  The table pages for which the running transaction wrote undo, and the
 *	  runs of that, by nest level.
 *
 * So that an abort can roll back a few of them at once.  What is too much for
 * that isn't remembered: the workers find it by scanning the logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/memutils.h"

#include "undo/log/undo_page.h"
#include "undo/record/undo_insert.h"
#include "undo/record/undo_touched.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"

#define MAX_FOREGROUND_PAGES	UNDO_KNOB("foreground-pages", 64, 1, 64)
#define FOREGROUND_BYTES		UNDO_KNOB("foreground-bytes", PG_INT32_MAX, 100, 100000)

/* a touched array's first size */
#define ARRAY_START				UNDO_KNOB("touched-start", 64, 2, 64)

/* setting */
int			undo_touched_max_size = 256;

/* what the nest levels of the running transaction wrote (ascending levels) */
typedef struct LevelState
{
	int			nest_level;
	int			npages;
	uint64		bytes;
	bool		overflow;		/* not everything is remembered */
} LevelState;

static LevelState *levels;
static int	nlevels;
static int	maxlevels;

static UndoTouchedPage *pages;
static int	npages;
static int	maxpages;

static UndoTouchedRun *runs;
static int	nruns;
static int	maxruns;

/* an abort is rolling back what was taken */
static bool taken = false;

/* ----------------------------------------------------------------
 *	what was touched
 * ----------------------------------------------------------------
 */

static void *
grow(void *array, int *max, Size size)
{
	int			more = array == NULL ? ARRAY_START : *max * 2;

	UNDO_ROOM_POINT("array-grows");
	array = array == NULL ? MemoryContextAlloc(TopMemoryContext, more * size) :
		repalloc_huge(array, more * size);
	*max = more;
	return array;
}

/* The state of the current nest level; may allocate. */
static LevelState *
current_level(void)
{
	int			nest_level = GetCurrentTransactionNestLevel();
	LevelState *level;

	if (nlevels > 0 && levels[nlevels - 1].nest_level == nest_level)
		return &levels[nlevels - 1];
	Assert(nlevels == 0 || levels[nlevels - 1].nest_level < nest_level);
	if (nlevels == maxlevels)
		levels = grow(levels, &maxlevels, sizeof(LevelState));
	level = &levels[nlevels++];
	memset(level, 0, sizeof(*level));
	level->nest_level = nest_level;
	return level;
}

static int
compare_pages(const void *a, const void *b)
{
	const UndoTouchedPage *x = a;
	const UndoTouchedPage *y = b;

	if (x->nest_level != y->nest_level)
		return x->nest_level < y->nest_level ? -1 : 1;
	if (x->persistence != y->persistence)
		return x->persistence < y->persistence ? -1 : 1;
	if (!RelFileLocatorEquals(x->locator, y->locator))
		return memcmp(&x->locator, &y->locator, sizeof(RelFileLocator));
	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return 0;
}

/*
 * Room for one more insertion.  The array grows only if half of it is of
 * different pages of their levels, or else a long transaction's temporary
 * tables, whose pages have no limit, would cost for each change.
 */
static void
reserve_pages(void)
{
	int			n = npages > 0 ? 1 : 0;

	if (npages + UNDO_MAX_INSERTION <= maxpages)
		return;
	if (npages > 1)
		qsort(pages, npages, sizeof(UndoTouchedPage), compare_pages);
	for (int i = 1; i < npages; i++)
		if (compare_pages(&pages[n - 1], &pages[i]) != 0)
			pages[n++] = pages[i];
	npages = n;
	while ((npages + UNDO_MAX_INSERTION) * 2 > maxpages)
		pages = grow(pages, &maxpages, sizeof(UndoTouchedPage));
}

void
undo_touched_reserve(void)
{
	Assert(CritSectionCount == 0 && !taken);
	current_level();
	reserve_pages();
	while (nruns + 1 > maxruns)
		runs = grow(runs, &maxruns, sizeof(UndoTouchedRun));
}

static bool
is_unlimited(char persistence)
{
	return persistence == RELPERSISTENCE_TEMP || !IsUnderPostmaster;
}

static void
remember_page(UndoInsertion *ins, BlockNumber block, LevelState *level)
{
	UndoTouchedPage *page;

	/* runs of changes hit the same few pages: look at the last ones only */
	for (int i = npages - 1; i >= 0 && i >= npages - 4; i--)
	{
		page = &pages[i];
		if (page->block == block && page->nest_level == level->nest_level &&
			page->persistence == ins->persistence &&
			RelFileLocatorEquals(page->locator, ins->locator))
			return;
	}
	Assert(npages < maxpages);
	page = &pages[npages++];
	page->locator = ins->locator;
	page->reloid = ins->reloid;
	page->block = block;
	page->nest_level = level->nest_level;
	page->persistence = ins->persistence;
	if (!is_unlimited(ins->persistence))
		level->npages++;
}

/* Is it too much for a rollback in the foreground, with so many pages? */
static void
note_limits(LevelState *level, int n)
{
	if (n > MAX_FOREGROUND_PAGES ||
		level->bytes >
		Min((uint64) undo_touched_max_size * 1024, FOREGROUND_BYTES))
		level->overflow = true;
}

void
undo_touched_add(UndoInsertion *ins, uint16 bytes)
{
	LevelState *level = &levels[nlevels - 1];

	Assert(nlevels > 0 && !taken);
	Assert(level->nest_level == GetCurrentTransactionNestLevel());
	Assert(ins->fxid != InvalidFxid);
	AssertPageExclusive(ins->buffer);
	if (!is_unlimited(ins->persistence))
	{
		level->bytes += bytes;
		note_limits(level, level->npages + 1);
		if (level->overflow)
			return;
	}
	for (int i = 0; i < ins->nrecs; i++)
		remember_page(ins, ins->rec[i].block, level);
	if (ins->new_run && ins->persistence != RELPERSISTENCE_TEMP)
	{
		UndoTouchedRun *run = &runs[nruns++];

		Assert(nruns <= maxruns);
		run->urp = MakeUndoRecPtr(ins->log, BufferGetBlockNumber(ins->buffer),
								  ins->run);
		run->seq = UndoPageGetOpaque(BufferGetPage(ins->buffer))->seq;
		run->writer = ins->fxid;
		run->nest_level = level->nest_level;
		run->persistence = ins->persistence;
	}
}

/* ----------------------------------------------------------------
 *	end of (sub)transactions
 * ----------------------------------------------------------------
 */

bool
undo_touched_take(int level, UndoTouched *touched)
{
	int			first_page = npages;
	int			first_run = nruns;

	Assert(!taken && level >= 1);
	touched->overflow = false;
	touched->bytes = 0;
	while (nlevels > 0 && levels[nlevels - 1].nest_level >= level)
	{
		touched->overflow |= levels[--nlevels].overflow;
		touched->bytes += levels[nlevels].bytes;
	}
	while (first_page > 0 && pages[first_page - 1].nest_level >= level)
		first_page--;
	while (first_run > 0 && runs[first_run - 1].nest_level >= level)
		first_run--;
	touched->pages = pages + first_page;
	touched->npages = npages - first_page;
	touched->runs = runs + first_run;
	touched->nruns = nruns - first_run;
	if (touched->npages == 0 && !touched->overflow)
		return false;
	/* forget first: a second call must do nothing (U13) */
	npages = first_page;
	nruns = first_run;
	taken = true;
	return true;
}

void
undo_touched_done(void)
{
	taken = false;
}

bool
undo_touched_is_taken(void)
{
	return taken;
}

/*
 * Forget what a nest level wrote, the last one: it is the workers' to roll
 * back.  All but temporary pages, which nobody else can.
 */
static void
forget_level(int level)
{
	int			first = npages;
	int			kept;

	Assert(nlevels > 0 && levels[nlevels - 1].nest_level == level);
	while (first > 0 && pages[first - 1].nest_level == level)
		first--;
	kept = first;
	for (int i = first; i < npages; i++)
		if (pages[i].persistence == RELPERSISTENCE_TEMP)
			pages[kept++] = pages[i];
	npages = kept;
	while (nruns > 0 && runs[nruns - 1].nest_level == level)
		nruns--;
}

void
undo_touched_merge(int level)
{
	LevelState *child;

	Assert(level > 1);
	if (nlevels == 0 || levels[nlevels - 1].nest_level != level)
		return;
	child = &levels[nlevels - 1];
	if (nlevels > 1 && levels[nlevels - 2].nest_level == level - 1)
	{
		LevelState *parent = &levels[nlevels - 2];

		parent->npages += child->npages;
		parent->bytes += child->bytes;
		parent->overflow |= child->overflow;
		note_limits(parent, parent->npages);
		if (parent->overflow)
			forget_level(level);
		nlevels--;
	}
	else
		child->nest_level--;
	Assert(nlevels > 0 && levels[nlevels - 1].nest_level < level);
	for (int i = npages - 1; i >= 0 && pages[i].nest_level == level; i--)
		pages[i].nest_level--;
	for (int i = nruns - 1; i >= 0 && runs[i].nest_level == level; i--)
		runs[i].nest_level--;
}

void
undo_touched_forget(void)
{
	Assert(!taken && nlevels <= 1);
	nlevels = npages = nruns = 0;
	if (maxpages > ARRAY_START * 64)
	{
		pfree(pages);
		pages = NULL;
		maxpages = 0;
	}
}
