/*-------------------------------------------------------------------------
 *
 * undo_xact.c
 *	  What becomes of a transaction's undo when it, or a subtransaction, ends.
 *
 * A backend remembers the table pages for which its transaction wrote undo, so
 * that an abort can roll back a few of them at once.  The rest, and what
 * fails, is left to the workers, which find it by scanning the logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "undo/undo_debug.h"
#include "undo/undo_attach.h"
#include "undo/undo_stat.h"

#define MAX_FOREGROUND_PAGES	UNDO_KNOB("foreground-pages", 64, 1, 64)
#define FOREGROUND_BYTES		UNDO_KNOB("foreground-bytes", PG_INT32_MAX, 100, 100000)

/* a touched array's first size */
#define ARRAY_START				UNDO_KNOB("touched-start", 64, 2, 64)

/* setting, kB */
static int	rollback_foreground_size = 256;

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

bool		undo_xact_in_abort = false;

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

void
undo_xact_reserve_memory(void)
{
	Assert(CritSectionCount == 0 && !undo_xact_in_abort);
	current_level();
	while (npages + UNDO_MAX_INSERTION > maxpages)
		pages = grow(pages, &maxpages, sizeof(UndoTouchedPage));
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
		Min((uint64) rollback_foreground_size * 1024, FOREGROUND_BYTES))
		level->overflow = true;
}

void
undo_xact_remember(UndoInsertion *ins, uint16 bytes)
{
	LevelState *level = &levels[nlevels - 1];

	Assert(nlevels > 0);
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
 *	end of transactions
 * ----------------------------------------------------------------
 */

/* Roll back, as far as limits allow, pages [first_page..) and runs of them. */
static void
rollback_from(int first_page, int first_run, bool overflow, uint64 bytes)
{
	UndoTouchedPage *batch = pages + first_page;
	int			n = npages - first_page;
	int			ntemp = 0;
	int			nbatch_runs = nruns - first_run;

	Assert(!undo_xact_in_abort);
	Assert(first_page <= npages && first_run <= nruns);
	/* forget first: a second call must do nothing (U13) */
	npages = first_page;
	nruns = first_run;

	undo_xact_in_abort = true;
	/* temporary pages to the front: they are done whatever their number */
	for (int i = 0; i < n; i++)
	{
		if (batch[i].persistence == RELPERSISTENCE_TEMP)
		{
			UndoTouchedPage swap = batch[ntemp];

			batch[ntemp++] = batch[i];
			batch[i] = swap;
		}
	}
	Assert(ntemp <= n && CritSectionCount == 0);
	if (ntemp > 0 && !undo_apply_foreground(batch, ntemp, NULL, 0, true))
		undo_attach_keep_temp();
	if (overflow)
		undo_log_wake_launcher();
	else if (n > ntemp)
	{
		undo_stat_report_foreground(U64FromFullTransactionId(GetTopFullTransactionIdIfAny()),
									bytes);
		if (undo_apply_foreground(batch + ntemp, n - ntemp,
								  runs + first_run, nbatch_runs,
								  !IsUnderPostmaster))
			undo_stat_add(UNDO_COUNT_FOREGROUND, 1);
		undo_stat_report_foreground(InvalidFxid, 0);
	}
	undo_xact_in_abort = false;
}

/* Roll back what nest levels from "level" on wrote. */
static void
rollback_levels(int level)
{
	int			first_page = npages;
	int			first_run = nruns;
	bool		overflow = false;
	uint64		bytes = 0;

	Assert(level >= 1);
	while (nlevels > 0 && levels[nlevels - 1].nest_level >= level)
	{
		overflow |= levels[--nlevels].overflow;
		bytes += levels[nlevels].bytes;
	}
	while (first_page > 0 && pages[first_page - 1].nest_level >= level)
		first_page--;
	while (first_run > 0 && runs[first_run - 1].nest_level >= level)
		first_run--;
	if (first_page < npages || overflow)
		rollback_from(first_page, first_run, overflow, bytes);
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

/* A subtransaction's undo becomes its parent's. */
static void
merge_level(int level)
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

/* The logs go back; what was touched is forgotten. */
static void
end_transaction(void)
{
	Assert(!undo_xact_in_abort && nlevels <= 1);
	undo_attach_end();
	nlevels = npages = nruns = 0;
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
			rollback_levels(1);
			UNDO_POINT("abort-done");
			end_transaction();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			end_transaction();
			break;
		default:
			break;				/* parallel workers write no undo */
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		rollback_levels(GetCurrentTransactionNestLevel());
		undo_attach_close_runs();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		merge_level(GetCurrentTransactionNestLevel());
}

void
undo_xact_register_callbacks(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

void
undo_xact_define_settings(void)
{
	DefineCustomIntVariable("zheap.undo_log_rest_size",
							"Size above which an undo log is drained and truncated before it is written again.",
							NULL, &undo_log_rest_size, 4096, 256,
							MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.max_undo_size",
							"Undo above which transactions that want to write more of it fail.",
							"-1 means no limit. Rollback is never refused.",
							&undo_max_size, -1, -1, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.transaction_undo_limit",
							"Limits the undo that a transaction may write.",
							"-1 means no limit. Undo of temporary tables does not count.",
							&undo_xact_limit, -1, -1, MAX_KILOBYTES,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.rollback_foreground_size",
							"Undo up to which an aborting session rolls back by itself.",
							"Larger transactions are rolled back by background workers.",
							&rollback_foreground_size, 256, 0, MAX_KILOBYTES,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
}
