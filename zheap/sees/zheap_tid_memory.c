/*-------------------------------------------------------------------------
 *
 * zheap_tid_memory.c
 *	  What TIDs mean within a command, as far as the tag alone does not say it:
 *	  which version a DIRTY fetch found, which row was updated last, whether a
 *	  statement runs (Z34).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "executor/executor.h"
#include "tcop/utility.h"

#include "undo/undo.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/sees/zheap_tid_memory.h"

/* ----------------------------------------------------------------
 *	what DIRTY fetches found
 * ----------------------------------------------------------------
 */

/*
 * The tag DIRTY decides that a caller means the version a DIRTY fetch found;
 * this memory only tells which one that was.  A few entries, since one INSERT
 * may look into several unique indexes before it locks a row.
 */
#define DIRTY_FOUND_SIZE			16
#define DIRTY_FOUND_USED	UNDO_KNOB("dirty-memo", DIRTY_FOUND_SIZE, 1, DIRTY_FOUND_SIZE)

typedef struct DirtyFound
{
	Oid			relid;
	ItemPointerData tid;
	Fxid		writer;
	CommandId	cid;
} DirtyFound;

static DirtyFound dirty_found[DIRTY_FOUND_SIZE];
static int	dirty_found_next = 0;

static DirtyFound *
dirty_found_find(Oid relid, const ItemPointerData *tid)
{
	for (int i = 0; i < DIRTY_FOUND_SIZE; i++)
	{
		DirtyFound *found = &dirty_found[i];

		if (found->relid == relid &&
			ItemPointerGetBlockNumberNoCheck(&found->tid) ==
			ItemPointerGetBlockNumberNoCheck(tid) &&
			zheap_tid_offset(&found->tid) == zheap_tid_offset(tid))
			return found;
	}
	return NULL;
}

void
zheap_tid_memory_note_dirty(Oid relid, const ItemPointerData *tid, Fxid writer,
					  CommandId cid)
{
	DirtyFound *found = dirty_found_find(relid, tid);

	if (found == NULL)
	{
		found = &dirty_found[dirty_found_next];
		dirty_found_next = (dirty_found_next + 1) % DIRTY_FOUND_USED;
	}
	found->relid = relid;
	found->tid = *tid;
	found->writer = writer;
	found->cid = cid;
}

bool
zheap_tid_memory_dirty(Oid relid, const ItemPointerData *tid, Fxid *writer,
					  CommandId *cid)
{
	DirtyFound *found = dirty_found_find(relid, tid);

	if (found == NULL)
		return false;
	*writer = found->writer;
	*cid = found->cid;
	return true;
}

/* ----------------------------------------------------------------
 *	images before updates in place
 * ----------------------------------------------------------------
 */

/*
 * Core fetches the image before an update (tag PRE) right after the update, to
 * queue its TID for AFTER triggers, and again whenever one of them is called.
 * The tag is wanted the first time only; later it would be shown to users.
 */
static Oid	updated_relid = InvalidOid;
static ItemPointerData updated_tid;

void
zheap_tid_memory_note_update(Oid relid, const ItemPointerData *tid)
{
	Assert(zheap_tid_tag(tid) == ZTID_PRE);
	updated_relid = relid;
	updated_tid = *tid;
}

/* Is it the first time, after the update, that the row's image is fetched? */
bool
zheap_tid_memory_updated_last(Oid relid, const ItemPointerData *tid)
{
	if (updated_relid != relid ||
		ItemPointerGetBlockNumberNoCheck(&updated_tid) !=
		ItemPointerGetBlockNumberNoCheck(tid) ||
		zheap_tid_offset(&updated_tid) != zheap_tid_offset(tid))
		return false;
	updated_relid = InvalidOid;
	return true;
}

/* ----------------------------------------------------------------
 *	what runs
 * ----------------------------------------------------------------
 */

/*
 * While the executor runs a statement, who asks for a row by TID wants it as the
 * statement sees it: MERGE, which evaluates its clauses, and EvalPlanQual the
 * partners of a join.  Else my own version is wanted: AFTER triggers are fired
 * when the executor finishes, at commit, or by SET CONSTRAINTS.  What a function
 * runs inside of one has its own answer, and leaves this one as it was, with or
 * without an error.
 */
static bool statement_runs = false;

static ExecutorRun_hook_type prev_executor_run = NULL;
static ExecutorFinish_hook_type prev_executor_finish = NULL;
static ProcessUtility_hook_type prev_process_utility = NULL;

static void
statement_executor_run(QueryDesc *queryDesc, ScanDirection direction,
					uint64 count)
{
	bool		outer = statement_runs;

	statement_runs = true;
	PG_TRY();
	{
		if (prev_executor_run)
			prev_executor_run(queryDesc, direction, count);
		else
			standard_ExecutorRun(queryDesc, direction, count);
	}
	PG_CATCH();
	{
		statement_runs = outer;
		undo_snapshot_limit_translate();
		PG_RE_THROW();
	}
	PG_END_TRY();
	statement_runs = outer;
}

static void
statement_executor_finish(QueryDesc *queryDesc)
{
	bool		outer = statement_runs;

	statement_runs = false;
	PG_TRY();
	{
		if (prev_executor_finish)
			prev_executor_finish(queryDesc);
		else
			standard_ExecutorFinish(queryDesc);
	}
	PG_FINALLY();
	{
		statement_runs = outer;
	}
	PG_END_TRY();
}

static void
statement_process_utility(PlannedStmt *pstmt, const char *queryString,
					   bool readOnlyTree, ProcessUtilityContext context,
					   ParamListInfo params, QueryEnvironment *queryEnv,
					   DestReceiver *dest, QueryCompletion *qc)
{
	bool		outer = statement_runs;

	statement_runs = false;
	PG_TRY();
	{
		if (prev_process_utility)
			prev_process_utility(pstmt, queryString, readOnlyTree, context,
								 params, queryEnv, dest, qc);
		else
			standard_ProcessUtility(pstmt, queryString, readOnlyTree, context,
									params, queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		statement_runs = outer;
	}
	PG_END_TRY();
}

bool
zheap_tid_memory_statement_runs(void)
{
	return statement_runs;
}

/* Called from _PG_init. */
void
zheap_tid_memory_register_hooks(void)
{
	prev_executor_run = ExecutorRun_hook;
	ExecutorRun_hook = statement_executor_run;
	prev_executor_finish = ExecutorFinish_hook;
	ExecutorFinish_hook = statement_executor_finish;
	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = statement_process_utility;
}
