/*-------------------------------------------------------------------------
 *
 * undo_apply.c
 *	  Rolling back: the registered client, and the rollback that an aborting
 *	  backend does itself.
 *
 * How a table page is rolled back is the client's affair; here is when it is
 * done in the foreground, and what must hold around it.  The rollback that
 * workers do is in undo_worker.c.
 *
 * An abort callback must not let an error out (the server would abort the
 * abort, and PANIC in the end), and core's error recovery has already run
 * when it is called.  So undo_apply_foreground() catches everything and does
 * that recovery again (U13).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xact.h"
#include "access/xloginsert.h"
#include "catalog/pg_class.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "portability/instr_time.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "undo/log/undo_fake.h"
#include "undo/log/undo_log_trim.h"
#include "undo/log/undo_shmem.h"
#include "undo/record/undo_touched.h"
#include "undo/rollback/undo_apply.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* limits of a foreground rollback: it can't be cancelled (U13) */
#define FOREGROUND_MAX_PAGES	UNDO_KNOB("foreground-apply-pages", 64, 1, 64)
#define FOREGROUND_MAX_MS		UNDO_KNOB("foreground-ms", 50, 0, 50)

static undo_rollback_page_fn client_rollback_page = NULL;
static Oid	(*client_am_oid) (void) = NULL;

/* files that the abort in progress unlinks; valid inside one callback */
static RelFileLocator *doomed_files = NULL;
static int	ndoomed = -1;		/* -1: not known */

/* top transaction in which a foreground rollback failed */
static Fxid failed_top_fxid = InvalidFxid;

/* is there a foreground rollback with a time limit, since when, is that over? */
static bool limited = false;
static bool out_of_time = false;
static instr_time foreground_start;

/* what must be as before when an error was swallowed */
typedef struct SavedState
{
	uint32		interrupt_holdoff;
	uint32		cancel_holdoff;
	MemoryContext context;
	ResourceOwner owner;
	ErrorContextCallback *error_context;
} SavedState;

/* progress of one foreground rollback; volatile across errors */
typedef struct ForegroundState
{
	const UndoTouchedPage *page;	/* being rolled back */
	Relation	rel;
	UndoFakeRelation *fake;		/* memory for it, which outlives errors */
	bool		temp;			/* pages of temporary tables */
	bool		done;
} ForegroundState;

/* ----------------------------------------------------------------
 *	the client
 * ----------------------------------------------------------------
 */

/* Called once, from _PG_init. */
void
undo_apply_register_client(undo_rollback_page_fn rollback_page,
						   Oid (*am_oid) (void))
{
	Assert(client_rollback_page == NULL);
	client_rollback_page = rollback_page;
	client_am_oid = am_oid;
}

/*
 * OID of the client's access method in the connected database, InvalidOid if
 * it has none there.  Reads catalogs: needs a transaction.
 */
Oid
undo_apply_client_am(void)
{
	if (client_am_oid == NULL)
		return InvalidOid;
	return client_am_oid();
}

/*
 * Let the client roll back one page.  Holds nothing before or after; throws
 * what the client throws.
 */
void
undo_apply_page(Relation rel, BlockNumber block)
{
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	AssertNoPageLocked();
	Assert(!LWLockHeldByMe(UndoShmem->lock));
	if (client_rollback_page == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("no client of the undo store is registered")));
	client_rollback_page(rel, block);
	AssertNoPageLocked();
}

/* ----------------------------------------------------------------
 *	files that are about to go
 * ----------------------------------------------------------------
 */

/*
 * The abort record in WAL already carries the unlink of these files; logging
 * a change of their pages after it would make recovery fail (U13).
 * Only meaningful inside an abort callback; temporary files are never
 * included and needn't be: the client takes back what is in them, too.
 */
static bool
file_is_doomed(RelFileLocator locator)
{
	RelFileLocator *files = doomed_files;
	int			nfiles = ndoomed;
	bool		found = false;

	if (nfiles < 0)
		nfiles = smgrGetPendingDeletes(false, &files);
	for (int i = 0; i < nfiles && !found; i++)
		found = RelFileLocatorEquals(files[i], locator);
	if (ndoomed < 0 && files != NULL)
		pfree(files);
	return found;
}

/* ----------------------------------------------------------------
 *	surviving errors in an abort callback
 * ----------------------------------------------------------------
 */

static void
save_state(SavedState *saved)
{
	saved->interrupt_holdoff = InterruptHoldoffCount;
	saved->cancel_holdoff = QueryCancelHoldoffCount;
	saved->context = CurrentMemoryContext;
	saved->owner = CurrentResourceOwner;
	saved->error_context = error_context_stack;
}

static void
restore_state(const SavedState *saved)
{
	error_context_stack = saved->error_context;
	InterruptHoldoffCount = saved->interrupt_holdoff;
	QueryCancelHoldoffCount = saved->cancel_holdoff;
	CurrentResourceOwner = saved->owner;
	MemoryContextSwitchTo(saved->context);
}

/*
 * Is an error being handled further up, as when AbortCurrentTransaction() is
 * called in somebody's catch block?  If so a copy goes to *outer (NULL if
 * there is none): FlushErrorState() will empty the whole stack, and that
 * handler may want to look at its error, or throw it on.
 *
 * The error stack can't be looked at from outside.  Where nothing has used
 * ErrorContext since it was last emptied there is none, for the message of an
 * error lies there.  Else: asking an empty stack for its error code raises an
 * error, and this is the answer.
 *
 * Returns false if the pending error couldn't be copied.  It is then still on
 * the stack, beneath the error that prevented it, and no rollback must be
 * tried.
 */
static bool
save_outer_error(const SavedState *saved, ErrorData **outer)
{
	volatile bool pending = false;
	volatile bool result = true;
	ErrorData  *volatile copy = NULL;

	*outer = NULL;
	if (ErrorContext->isReset)
		return true;
	PG_TRY();
	{
		error_context_stack = NULL;
		(void) geterrcode();
		pending = true;
		copy = CopyErrorData();
	}
	PG_CATCH();
	{
		restore_state(saved);
		if (pending)
			result = false;
		else
			FlushErrorState();
	}
	PG_END_TRY();
	error_context_stack = saved->error_context;

	/* an error further up is an ERROR: FATAL never reaches a handler */
	Assert(copy == NULL || copy->elevel == ERROR);
	*outer = copy;
	return result;
}

static const char *
keep_string(const char *string)
{
	return string ? MemoryContextStrdup(TopMemoryContext, string) : NULL;
}

/*
 * Put the pending error back where its handler expects it.  ReThrowError()
 * pushes it and jumps to our own catch block, which lets it lie.  The strings
 * that core takes for constants are not copied by it and have to outlive the
 * transaction; a failed rollback is rare enough to leak them.
 */
static void
restore_outer_error(const SavedState *saved, ErrorData *outer)
{
	PG_TRY();
	{
		outer->filename = keep_string(outer->filename);
		outer->funcname = keep_string(outer->funcname);
		outer->domain = keep_string(outer->domain);
		outer->context_domain = keep_string(outer->context_domain);
		outer->message_id = keep_string(outer->message_id);
		ReThrowError(outer);
	}
	PG_CATCH();
	{
		restore_state(saved);
	}
	PG_END_TRY();
}

/*
 * What AbortTransaction() did before it called us, as far as our
 * own work can have left something behind.  Buffer pins are left to the
 * resource owner, which is released right after us.
 */
void
undo_recover_from_error(void)
{
	LWLockReleaseAll();
	pgstat_report_wait_end();
	reads_error_cleanup();
	UnlockBuffers();
	XLogResetInsertion();
	ConditionVariableCancelSleep();
	LockErrorCleanup();
	AssertNoPageLocked();
}

/* ----------------------------------------------------------------
 *	foreground rollback
 * ----------------------------------------------------------------
 */

static int
compare_runs(const void *a, const void *b)
{
	const UndoTouchedRun *x = a;
	const UndoTouchedRun *y = b;

	if (x->persistence != y->persistence)
		return x->persistence < y->persistence ? -1 : 1;
	if (x->urp != y->urp)
		return x->urp < y->urp ? -1 : 1;
	return 0;
}

static bool
is_same_page(const UndoTouchedRun *a, const UndoTouchedRun *b)
{
	return a->persistence == b->persistence && a->seq == b->seq &&
		UndoRecPtrGetLog(a->urp) == UndoRecPtrGetLog(b->urp) &&
		UndoRecPtrGetBlock(a->urp) == UndoRecPtrGetBlock(b->urp);
}

/*
 * Log runs as applied, one call per undo page.  Comes after the page changes it stands for, in WAL too.
 */
static void
mark_runs(const UndoTouchedRun *runs, int nruns)
{
	UndoTouchedRun *sorted;
	UndoRunMark *marks;

	if (nruns == 0)
		return;
	Assert(nruns > 0);
	sorted = palloc(sizeof(UndoTouchedRun) * nruns);
	marks = palloc(sizeof(UndoRunMark) * nruns);
	memcpy(sorted, runs, sizeof(UndoTouchedRun) * nruns);
	qsort(sorted, nruns, sizeof(UndoTouchedRun), compare_runs);

	for (int i = 0; i < nruns;)
	{
		const UndoTouchedRun *first = &sorted[i];
		int			nmarks = 0;

		for (; i < nruns && is_same_page(&sorted[i], first); i++)
		{
			marks[nmarks].offset = UndoRecPtrGetOffset(sorted[i].urp);
			marks[nmarks++].writer = sorted[i].writer;
		}
		Assert(nmarks > 0 && first->persistence != RELPERSISTENCE_TEMP);
		UNDO_POINT("mark-in-abort");
		undo_log_mark_applied(first->persistence,
							  UndoRecPtrGetLog(first->urp),
							  UndoRecPtrGetBlock(first->urp), first->seq,
							  marks, nmarks);
	}
	pfree(sorted);
	pfree(marks);
}

/* See undo_apply.h. */
void
undo_apply_check_time(void)
{
	instr_time	now;

	if (!limited)
		return;
	INSTR_TIME_SET_CURRENT(now);
	INSTR_TIME_SUBTRACT(now, foreground_start);
	if (INSTR_TIME_GET_MILLISEC(now) < FOREGROUND_MAX_MS)
		return;
	out_of_time = true;
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 errmsg("rollback takes too long to be done at once")));
}

/* Roll back pages.  Throws when the time is up. */
static void
apply_pages(const UndoTouchedPage *pages, int npages, ForegroundState *state)
{
	Assert(npages > 0 && state->rel == NULL);
	for (int i = 0; i < npages; i++)
	{
		const UndoTouchedPage *page = &pages[i];

		Assert((page->persistence == RELPERSISTENCE_TEMP) == state->temp);
		/* the list has no temporary files, whose numbers may be others' */
		if (!state->temp && file_is_doomed(page->locator))
			continue;

		/* one page is begun in any case */
		if (state->rel != NULL)
			undo_apply_check_time();

		/* pages come in runs of one relation */
		if (state->rel != NULL &&
			!(RelFileLocatorEquals(state->rel->rd_locator,
								   page->locator) &&
			  RelationGetRelid(state->rel) == page->reloid))
		{
			undo_fake_relation_end(state->rel);
			state->rel = NULL;
		}
		if (state->rel == NULL)
			state->rel = undo_fake_relation_init(state->fake, page->locator,
												 page->persistence,
												 page->reloid);
		state->page = page;
		undo_apply_page(state->rel, page->block);
		state->page = NULL;
	}
	/* in any case: smgr knows where its field for the open file is */
	if (state->rel != NULL)
		undo_fake_relation_end(state->rel);
	state->rel = NULL;
}

/*
 * The part that may fail.  After a failure of this transaction only temporary
 * pages are rolled back (not_others): nobody else can do that.
 */
static void
apply_all(const UndoTouchedPage *pages, int npages,
		  const UndoTouchedRun *runs, int nruns,
		  bool unlimited, bool not_others, ForegroundState *state)
{
	Assert(!state->temp || nruns == 0);
	ndoomed = smgrGetPendingDeletes(false, &doomed_files);

	if (state->temp)
	{
		UNDO_POINT("temporary-begins");
		apply_pages(pages, npages, state);
		state->done = true;
		return;
	}
	if (not_others || (npages > FOREGROUND_MAX_PAGES && !unlimited))
		return;
	UNDO_POINT("foreground-begins");
	apply_pages(pages, npages, state);
	UNDO_POINT("foreground-applied");
	mark_runs(runs, nruns);
	state->done = true;
}

static void
report_failure(const ForegroundState *state, const ErrorData *error)
{
	const char *next = state->temp ? "The session ends." :
		"A background worker will try again.";

	if (state->page != NULL)
		ereport(LOG,
				(errmsg("could not roll back block %u of relation %u at once: %s",
						state->page->block, state->page->reloid,
						error->message ? error->message : "unknown error"),
				 errdetail("%s", next)));
	else
		ereport(LOG,
				(errmsg("could not finish a rollback at once: %s",
						error->message ? error->message : "unknown error"),
				 errdetail("%s", next)));
}

/*
 * A temporary table whose changes couldn't be taken back would show them as
 * committed one day, and no worker can help.
 */
static void
end_session(void)
{
	ereport(LOG,
			(errmsg("session ends because a temporary table could not be rolled back")));
	InterruptPending = true;
	ProcDiePending = true;
}

/* The work of undo_apply_foreground(): was all done? */
static bool
try_foreground(const UndoTouchedPage *pages, int npages,
			   const UndoTouchedRun *runs, int nruns, bool unlimited)
{
	SavedState	saved;
	MemoryContext volatile workcontext = NULL;
	ErrorData  *outer;
	Fxid		top;
	UndoFakeRelation fake;
	volatile ForegroundState state = {0};
	volatile bool failed = false;

	state.temp = pages[0].persistence == RELPERSISTENCE_TEMP;
	state.fake = &fake;

	/*
	 * While the process exits any ERROR would be FATAL, and cut the abort
	 * short; temporary tables are gone then in any case.
	 */
	if (proc_exit_inprogress || CurrentResourceOwner == NULL)
		return false;
	/* the top transaction's xid is known until its clean-up */
	top = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());

	save_state(&saved);
	if (!save_outer_error(&saved, &outer))
	{
		failed_top_fxid = top;
		return false;
	}

	INSTR_TIME_SET_CURRENT(foreground_start);
	limited = !unlimited;
	out_of_time = false;
	PG_TRY();
	{
		error_context_stack = NULL;
		reads_error_cleanup();
		workcontext = AllocSetContextCreate(saved.context,
											"undo foreground rollback",
											ALLOCSET_SMALL_SIZES);
		MemoryContextSwitchTo(workcontext);
		apply_all(pages, npages, runs, nruns, unlimited,
				  top == failed_top_fxid && top != InvalidFxid,
				  (ForegroundState *) &state);
	}
	PG_CATCH();
	{
		ErrorData  *error;

		/* back in the abort context, which keeps memory for such moments */
		undo_recover_from_error();
		restore_state(&saved);
		error = CopyErrorData();
		FlushErrorState();
		failed = true;
		if (!out_of_time)
		{
			failed_top_fxid = top;
			report_failure((const ForegroundState *) &state, error);
		}
		if (state.rel != NULL)
			undo_fake_relation_end(state.rel);
		if (outer != NULL)
			restore_outer_error(&saved, outer);
	}
	PG_END_TRY();

	/* the hand-made entry must not outlive its memory */
	Assert(failed || state.rel == NULL);
	restore_state(&saved);
	limited = false;
	ndoomed = -1;
	doomed_files = NULL;
	if (workcontext != NULL)
		MemoryContextDelete(workcontext);
	if (outer != NULL)
		FreeErrorData(outer);

	Assert(InterruptHoldoffCount == saved.interrupt_holdoff);
	return !failed && state.done;
}

/*
 * Called in an abort callback: no locks of ours held, the
 * own xid lock and relation locks are; a resource owner is set; catalogs
 * can't be read.  Never throws.
 */
bool
undo_apply_foreground(const UndoTouchedPage *pages, int npages,
					  const UndoTouchedRun *runs, int nruns, bool unlimited)
{
	bool		exit_on_error = ExitOnAnyError;
	bool		done;

	Assert(CritSectionCount == 0);
	Assert(npages > 0);
	AssertNoPageLocked();
	Assert(nruns == 0 || pages[0].persistence != RELPERSISTENCE_TEMP);

	/* by this setting, too, an ERROR would be FATAL */
	ExitOnAnyError = false;
	done = try_foreground(pages, npages, runs, nruns,
						  unlimited || !IsUnderPostmaster);
	ExitOnAnyError = exit_on_error;
	if (!done)
		undo_log_wake_launcher();
	if (!done && pages[0].persistence == RELPERSISTENCE_TEMP &&
		!proc_exit_inprogress)
		end_session();
	return done;
}
