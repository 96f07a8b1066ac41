/*-------------------------------------------------------------------------
 *
 * undo_discard.c
 *	  What of the undo logs may go: passes over all logs, which raise the
 *	  horizons and move the heads.
 *
 * Only one process makes passes: the launcher, or the one process of
 * single-user mode.  What the logs hold is found by undo_scan.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/condition_variable.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "undo/discard/undo_discard.h"
#include "undo/discard/undo_scan.h"
#include "undo/log/undo_fake.h"
#include "undo/log/undo_files.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_log_trim.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_stat.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"

/*
 * With all logs empty discard_before follows the horizon only in such steps:
 * each raise is a conflict for queries of a standby, although nothing was
 * removed.
 */
#define IDLE_HORIZON_STEP		UNDO_KNOB("idle-horizon-step", 1000000, 1, 1000)

/* kB above which a log rests, whatever the setting says (assert builds) */
#define REST_SIZE				UNDO_KNOB("rest-size", PG_INT32_MAX, 24, 800)

/* where a pass wants to move a head */
typedef struct DiscardPlan
{
	UndoLogRef	ref;
	UndoLogScan *scan;
	bool		moves;
	bool		empty;
	UndoPagePos head;
	uint16		head_offset;
	Fxid		max_discarded;
	Fxid		kept;			/* U, but not H, keeps the head's page up to it */
} DiscardPlan;

/*
 * Oldest xid that some snapshot may still see as running.  Logs hold undo of
 * all databases.  The launcher is connected to none, so to core every session
 * counts for the horizon of an ordinary table; any other process has to take
 * the horizon of shared catalogs (U2).
 */
static Fxid
oldest_needed(bool connected)
{
	TransactionId xid;

	if (connected)
		xid = GetOldestNonRemovableTransactionId(NULL);
	else
	{
		RelFileLocator locator = {0};
		Relation	rel;

		Assert(!OidIsValid(MyDatabaseId));
		locator.spcOid = UNDO_TABLESPACE;
		locator.dbOid = UNDO_DATABASE;
		locator.relNumber = UNDO_GLOBAL_RELNUMBER;
		rel = undo_fake_relation(locator, RELPERSISTENCE_PERMANENT,
								 FirstNormalObjectId);
		xid = GetOldestNonRemovableTransactionId(rel);
		undo_fake_relation_free(rel);
	}
	return undo_log_fxid_from_xid(xid);
}

/*
 * U25: must pages stay until U has passed kept?  If H has, it is going to be
 * raised for that: nothing else might do it, since U follows H.
 */
static bool
is_kept(DiscardPlan *plan, Fxid kept, const UndoHorizons *hz)
{
	if (kept == InvalidFxid || kept < hz->all_visible_before)
		return false;
	Assert(kept < hz->discard_before);
	plan->kept = Max(plan->kept, kept);
	return true;
}

/*
 * Move pos over pages of which the scan's marks tell that the horizon has passed
 * them: nothing of them is read.  Pages from limit on stay.
 */
static void
pass_marked_pages(DiscardPlan *plan, UndoPagePos *pos, uint64 limit,
				  const UndoHorizons *hz)
{
	const UndoLogScan *scan = plan->scan;

	Assert(scan->started && pos->seq <= limit);
	for (int i = 0; i < scan->nmarks; i++)
	{
		const UndoScanMark *mark = &scan->marks[i];

		if (mark->last >= hz->discard_before || mark->end_seq >= limit ||
			is_kept(plan, mark->kept, hz))
			break;
		if (mark->end_seq < pos->seq)
			continue;
		pos->seq = mark->end_seq + 1;
		pos->block = mark->next;
		plan->max_discarded = mark->last;
	}
}

/*
 * How far the head of a scanned log may move: hz is H as it may become, and U as
 * it is.
 */
static void
plan_log(DiscardPlan *plan, const UndoHorizons *hz)
{
	const UndoLogRef *ref = &plan->ref;
	UndoLogScan *scan = plan->scan;
	uint64		limit = scan->cursor.seq;
	UndoPagePos pos = scan->head;
	PGAlignedBlock page;

	plan->empty = false;
	plan->moves = false;
	plan->max_discarded = InvalidFxid;
	plan->kept = InvalidFxid;
	if (scan->empty)
	{
		plan->empty = true;
		return;
	}
	Assert(scan->started && scan->head.seq <= scan->cursor.seq);
	if (scan->nranges > 0)
		limit = scan->ranges[0].first.seq;

	pass_marked_pages(plan, &pos, limit, hz);
	while (pos.seq < limit)
	{
		Fxid		max_fxid;

		if (!undo_scan_copy_page(ref, scan, &pos, page.data))
			undo_scan_report_corruption(ref, pos.block,
										"page is not to be found");
		max_fxid = UndoPageGetOpaque(page.data)->max_fxid;
		if (max_fxid >= hz->discard_before ||
			is_kept(plan, undo_page_kept(page.data), hz))
			break;
		plan->max_discarded = Max(plan->max_discarded, max_fxid);
		undo_scan_step(&pos, page.data);
	}

	if (pos.seq == scan->cursor.seq && undo_scan_is_final(&scan->tail) &&
		scan->tail.max_fxid < hz->discard_before &&
		!is_kept(plan, scan->tail.kept, hz))
	{
		pos = scan->cursor;
		plan->empty = true;
		plan->head_offset = scan->tail.lower;
		plan->max_discarded = Max(plan->max_discarded, scan->tail.max_fxid);
	}
	else if (pos.seq == scan->head.seq)
		plan->head_offset = UndoLogHeadOffset(scan->head_seen);
	else
		plan->head_offset = UNDO_FIRST_OFFSET;

	/*
	 * A link may have been found broken at the place where the walk ended, so
	 * take the block from where the page was seen.
	 */
	if (pos.seq == scan->cursor.seq)
		pos = scan->cursor;
	else if (scan->nranges > 0 && pos.seq == scan->ranges[0].first.seq)
		pos = scan->ranges[0].first;
	Assert(pos.seq >= scan->head.seq && pos.seq <= scan->cursor.seq);
	Assert(plan->max_discarded < hz->discard_before);
	plan->head = pos;
	plan->moves = UndoLogHead(pos.block, plan->head_offset) != scan->head_seen;
}

/* the older of two writers, of which any may be none */
static Fxid
older(Fxid a, Fxid b)
{
	if (a == InvalidFxid || b == InvalidFxid)
		return Max(a, b);
	return Min(a, b);
}

/*
 * The oldest unapplied aborted writer of a log, and the oldest that was
 * running when its page was last judged, in *running.  Tells the views where
 * the first unapplied page is.
 */
static Fxid
log_oldest_unapplied(const DiscardPlan *plan, Fxid *running)
{
	UndoLogScan *scan = plan->scan;
	BlockNumber pending = InvalidBlockNumber;
	Fxid		oldest = InvalidFxid;

	*running = InvalidFxid;
	if (!scan->empty)
	{
		oldest = scan->tail.unapplied;
		*running = scan->tail.running;
		if (oldest != InvalidFxid)
			pending = scan->cursor.block;
		for (int i = scan->nranges - 1; i >= 0; i--)
		{
			const UndoOpenRange *range = &scan->ranges[i];

			*running = older(*running, range->running);
			oldest = older(oldest, range->unapplied);
			if (range->unapplied != InvalidFxid)
				pending = range->first.block;
		}
	}
	pg_atomic_write_u32(&plan->ref.shared->pending, pending);
	return oldest;
}

/*
 * Logs that have grown too big are taken out of service, and cut down to
 * nothing when they are drained.
 */
static void
shrink_log(const DiscardPlan *plan)
{
	UndoLogShared *shared = plan->ref.shared;
	uint64		size = (uint64) pg_atomic_read_u32(&shared->used_blocks) *
		(BLCKSZ / 1024);
	uint32		state = UNDO_LOG_FREE;

	if (size > Min((uint64) undo_log_rest_size, REST_SIZE))
		(void) pg_atomic_compare_exchange_u32(&shared->state, &state,
											  UNDO_LOG_RESTING);
	if (!plan->empty || plan->scan->empty)
		return;
	state = UNDO_LOG_RESTING;
	if (!pg_atomic_compare_exchange_u32(&shared->state, &state, UNDO_LOG_BUSY))
		return;

	/* it was FREE when the plan was made; it may have been used since */
	PG_TRY();
	{
		if (pg_atomic_read_u32(&shared->tail) == plan->head.block)
		{
			Buffer		buffer = undo_file_read_log(plan->ref.persistence,
													plan->ref.number,
													plan->head.block);
			Page		page = BufferGetPage(buffer);
			bool		unused;

			LockBuffer(buffer, BUFFER_LOCK_SHARE);
			unused = UndoPageGetOpaque(page)->seq == plan->head.seq &&
				((PageHeader) page)->pd_lower == plan->head_offset;
			UnlockReleaseBuffer(buffer);
			if (unused)
			{
				undo_log_reset(plan->ref.persistence, plan->ref.number);
				Assert(!plan->scan->empty);
				undo_scan_forget(plan->scan);
			}
		}
	}
	PG_CATCH();
	{
		state = UNDO_LOG_BUSY;
		(void) pg_atomic_compare_exchange_u32(&shared->state, &state,
											  UNDO_LOG_RESTING);
		PG_RE_THROW();
	}
	PG_END_TRY();

	/* not reset: next time; reset: it is small now and may serve again */
	state = UNDO_LOG_BUSY;
	(void) pg_atomic_compare_exchange_u32(&shared->state, &state,
										  plan->scan->started ?
										  UNDO_LOG_RESTING : UNDO_LOG_FREE);
}

static void
publish_plan(DiscardPlan *plan, Fxid all_visible_before, Fxid discard_before)
{
	Assert(plan->moves && plan->max_discarded < discard_before);
	Assert(all_visible_before <= discard_before);
	Assert(plan->head.seq >= plan->scan->head.seq);
	undo_log_discard(plan->ref.persistence, plan->ref.number,
					 plan->head.block, plan->head_offset, all_visible_before,
					 discard_before);
	undo_stat_add(UNDO_COUNT_PAGES_DISCARDED,
				  plan->head.seq - plan->scan->head.seq);
	plan->scan->head = plan->head;
	plan->scan->head_seen = UndoLogHead(plan->head.block, plan->head_offset);
}

/* ----------------------------------------------------------------
 *	for views
 * ----------------------------------------------------------------
 */

static void
add_step(UndoPassReport *report, Fxid last, uint64 pages, uint64 blocked)
{
	UndoStatStep *step = &report->steps[report->nsteps++];

	Assert(blocked <= pages);
	step->last = last;
	step->pages = pages;
	step->blocked = blocked;
}

/* pages of a pending rollback: one entry for each writer and database */
static void
add_rollback(UndoPassReport *report, int *max, Fxid fxid, Oid dboid,
			 uint64 pages)
{
	UndoRollbackStat *entry;

	Assert(fxid != InvalidFxid && pages > 0);
	/* the last ones are the likeliest */
	for (int i = report->nrollbacks - 1;
		 i >= Max(0, report->nrollbacks - UNDO_STAT_ROLLBACKS); i--)
	{
		entry = &report->rollbacks[i];
		if (entry->fxid == fxid && entry->dboid == dboid)
		{
			entry->pages_left += pages;
			return;
		}
	}
	if (report->nrollbacks == *max)
	{
		*max = Max(16, *max * 2);
		report->rollbacks = report->rollbacks == NULL ?
			palloc(*max * sizeof(UndoRollbackStat)) :
			repalloc(report->rollbacks, *max * sizeof(UndoRollbackStat));
	}
	entry = &report->rollbacks[report->nrollbacks++];
	memset(entry, 0, sizeof(*entry));
	entry->fxid = fxid;
	entry->dboid = dboid;
	entry->pages_left = pages;
}

/*
 * What a log keeps when its head is where the plan has put it: steps by xid,
 * and pending rollbacks.  Pages from the first unapplied one on are blocked.
 */
static void
report_log(const DiscardPlan *plan, UndoPassReport *report, int *max)
{
	UndoLogScan *scan = plan->scan;
	uint64		at = plan->head.seq;
	uint64		blocked_from = PG_UINT64_MAX;
	Fxid		last = InvalidFxid;

	if (plan->empty)
		return;
	for (int i = 0; i < scan->nranges; i++)
	{
		const UndoOpenRange *range = &scan->ranges[i];

		if (range->unapplied == InvalidFxid)
			continue;
		blocked_from = Min(blocked_from, range->first.seq);
		add_rollback(report, max, range->unapplied, range->dboid,
					 range->npages);
	}
	if (scan->tail.unapplied != InvalidFxid)
	{
		blocked_from = Min(blocked_from, scan->cursor.seq);
		add_rollback(report, max, scan->tail.unapplied, scan->tail.dboid, 1);
	}
	if (blocked_from != PG_UINT64_MAX)
		report->kept_by |= UNDO_KEPT_BY_ROLLBACK;
	if (blocked_from > plan->head.seq)
		report->kept_by |= UNDO_KEPT_BY_HORIZON;

	/* the page at the cursor is the tail, which marks don't count */
	for (int i = 0; i <= scan->nmarks; i++)
	{
		bool		is_tail = i == scan->nmarks;
		uint64		end = is_tail ? scan->cursor.seq : scan->marks[i].end_seq;
		uint64		free_pages;

		last = Max(last, is_tail ? scan->tail.max_fxid : scan->marks[i].last);
		if (end < at)
			continue;
		free_pages = blocked_from <= at ? 0 : Min(end + 1, blocked_from) - at;
		add_step(report, last, end + 1 - at, end + 1 - at - free_pages);
		at = end + 1;
	}
}

/* a pass over all logs */
typedef struct DiscardPass
{
	UndoHorizons before;		/* U and H as they are */
	UndoHorizons after;			/* as they will be */
	Fxid		horizon;		/* H at the most */
	Fxid		running;		/* oldest writer met that was running */
	DiscardPlan *plans;			/* of logs that could be read */
	int			nplans;
	bool		all_empty;
	UndoScanResult *result;
} DiscardPass;

static void
report_pass(const DiscardPass *pass)
{
	UndoPassReport report = {0};
	int			max = 0;

	report.horizon = pass->horizon;
	if (pass->result->blind)
		report.kept_by |= UNDO_KEPT_UNREADABLE;
	report.steps = palloc(sizeof(UndoStatStep) *
						  (pass->nplans * (UNDO_SCAN_MARKS + 1) + 1));
	for (int i = 0; i < pass->nplans; i++)
		report_log(&pass->plans[i], &report, &max);
	undo_stat_report_pass(&report);
	pfree(report.steps);
}

/* ----------------------------------------------------------------
 *	the pass
 * ----------------------------------------------------------------
 */

/* What is wrong with a page that the head has passed, or NULL (U3, U4). */
static const char *
passed_problem(Page page, const UndoHorizons *hz)
{
	UndoEntry	entry;

	if (UndoPageGetOpaque(page)->max_fxid >= hz->discard_before)
		return "it is before the head, but still needed";
	for (uint16 at = UNDO_FIRST_OFFSET;
		 undo_page_get(page, at, &entry) && entry.len > 0; at += entry.len)
		if (entry.kind == UNDO_KIND_RUN &&
			undo_scan_run_is_unapplied(&entry, hz->all_visible_before))
			return "it is before the head, but not rolled back";
	return NULL;
}

/* What it holds isn't known: nobody writes to it any more. */
static void
retire_unless_attached(UndoLogShared *shared)
{
	uint32		state = UNDO_LOG_FREE;

	if (!pg_atomic_compare_exchange_u32(&shared->state, &state,
										UNDO_LOG_RETIRED))
	{
		state = UNDO_LOG_RESTING;
		(void) pg_atomic_compare_exchange_u32(&shared->state, &state,
											  UNDO_LOG_RETIRED);
	}
}

/*
 * Nothing but the control page tells where the head is.  If it is too far ahead
 * scans don't see what aborted before it, and U passes that: so look once at the
 * pages from the tail to the head, which were discarded.  A writer may be about to
 * write them anew; what can't be read tells nothing, and isn't needed.
 */
static void
check_passed_pages(const UndoLogRef *ref, const UndoLogScan *scan)
{
	/* later than the head was read: H is published first */
	UndoHorizons hz = undo_log_horizons();
	BlockNumber used = pg_atomic_read_u32(&ref->shared->used_blocks);
	BlockNumber block = scan->tail.next;
	PGAlignedBlock page;

	Assert(scan->started && !scan->empty);
	for (BlockNumber n = 1;
		 n < used && block < used && block != scan->head.block; n++)
	{
		Buffer		buffer =
			undo_file_read(undo_file_of_log(ref->persistence, ref->number),
						   block, RBM_ZERO_ON_ERROR,
						   ref->persistence == RELPERSISTENCE_PERMANENT);
		const char *problem = NULL;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		memcpy(page.data, BufferGetPage(buffer), BLCKSZ);
		UnlockReleaseBuffer(buffer);
		if (undo_page_problem(page.data, UNDO_PAGE_MAGIC) != NULL)
			return;
		if (UndoPageGetOpaque(page.data)->seq < scan->head.seq)
			problem = passed_problem(page.data, &hz);
		if (problem != NULL)
		{
			retire_unless_attached(ref->shared);
			pg_atomic_write_u32(&ref->shared->unreadable, block);
			undo_scan_report_corruption(ref, block, problem);
		}
		block = UndoPageGetOpaque(page.data)->next;
	}
}

/* Scan a log and plan how far its head moves, and what H must be for that. */
static void
pass_over_log(DiscardPass *pass, const UndoLogRef *ref,
			  UndoScanContext *context)
{
	UndoHorizons planned = pass->before;
	DiscardPlan *plan = &pass->plans[pass->nplans];
	UndoScanResult *result = pass->result;
	Fxid		running;

	plan->ref = *ref;
	plan->scan = undo_scan_of_log(ref);
	if (!undo_scan_log(ref, plan->scan, context))
	{
		/*
		 * whatever it holds: all_visible_before stays, nothing of it is
		 * discarded
		 */
		result->blind = true;
		pass->all_empty = false;
		return;
	}
	plan->scan->in_progress = true;
	if (!plan->scan->empty && !plan->scan->passed_checked)
		check_passed_pages(ref, plan->scan);
	plan->scan->passed_checked = true;
	result->oldest_unapplied = older(result->oldest_unapplied,
									 log_oldest_unapplied(plan, &running));
	pass->running = older(pass->running, running);

	UNDO_POINT("pass-log-scanned");
	planned.discard_before = pass->horizon;
	plan_log(plan, &planned);
	plan->scan->in_progress = false;
	if (plan->max_discarded != InvalidFxid)
		pass->after.discard_before = Max(pass->after.discard_before,
										 plan->max_discarded + 1);
	if (plan->kept != InvalidFxid)
		pass->after.discard_before = Max(pass->after.discard_before,
										 plan->kept + 1);
	if (!plan->empty)
	{
		pass->all_empty = false;
		result->retained += plan->scan->cursor.seq - plan->head.seq + 1;
	}
	pass->nplans++;
}

/* What an error on the way to a page may have left behind, but for pins. */
static void
recover_from_bad_page(void)
{
	LWLockReleaseAll();
	pgstat_report_wait_end();
	reads_error_cleanup();
	UnlockBuffers();
	ConditionVariableCancelSleep();
}

/*
 * The same.  The error of a log that can't be read ends here: it holds U (U2), but
 * doesn't keep the others from being scanned.
 */
static void
pass_over_log_or_report(DiscardPass *pass, const UndoLogRef *ref,
						UndoScanContext *context)
{
	MemoryContext memory = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	ResourceOwner own = ResourceOwnerCreate(owner, "undo log scan");

	CurrentResourceOwner = own;
	PG_TRY();
	{
		pass_over_log(pass, ref, context);
	}
	PG_CATCH();
	{
		CurrentResourceOwner = owner;
		if (!undo_scan_is_damage(geterrcode()))
			PG_RE_THROW();
		MemoryContextSwitchTo(memory);
		HOLD_INTERRUPTS();
		EmitErrorReport();
		recover_from_bad_page();
		FlushErrorState();
		RESUME_INTERRUPTS();
		pass->result->blind = true;
		pass->all_empty = false;
	}
	PG_END_TRY();
	CurrentResourceOwner = owner;
	ResourceOwnerRelease(own, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerRelease(own, RESOURCE_RELEASE_LOCKS, false, false);
	ResourceOwnerRelease(own, RESOURCE_RELEASE_AFTER_LOCKS, false, false);
	ResourceOwnerDelete(own);
}

/* All logs were scanned: decide U and H. */
static void
pass_decide(DiscardPass *pass, Fxid idle_step)
{
	const UndoHorizons *before = &pass->before;
	UndoHorizons *after = &pass->after;

	Assert(after->discard_before == before->discard_before ||
		   after->discard_before <= pass->horizon);
	if (pass->all_empty && pass->horizon > after->discard_before &&
		pass->horizon - after->discard_before >= idle_step)
		after->discard_before = pass->horizon;
	if (!pass->result->blind)
		after->all_visible_before = after->discard_before;
	after->all_visible_before =
		older(after->all_visible_before,
			  older(pass->result->oldest_unapplied, pass->running));
	after->all_visible_before = Max(after->all_visible_before,
									before->all_visible_before);
	Assert(after->all_visible_before <= after->discard_before);
	Assert(after->discard_before >= before->discard_before);
}

/* Move the heads; if none moves, the horizons alone. */
static void
pass_publish(DiscardPass *pass)
{
	const UndoHorizons *after = &pass->after;
	UndoScanResult *result = pass->result;

	for (int i = 0; i < pass->nplans; i++)
		if (pass->plans[i].moves)
		{
			publish_plan(&pass->plans[i], after->all_visible_before,
						 after->discard_before);
			result->discarded = true;
		}
	if (!result->discarded &&
		(after->all_visible_before > pass->before.all_visible_before ||
		 after->discard_before > pass->before.discard_before))
		undo_log_discard(RELPERSISTENCE_PERMANENT, UNDO_TEMP_LOG,
						 InvalidBlockNumber, 0, after->all_visible_before,
						 after->discard_before);
}

/*
 * See undo_discard.h.  The order is that of U2 and U3: horizon, scan, then per
 * log WAL record, horizons, head.  An ERROR leaves the published state valid;
 * the next pass goes on from it.
 */
void
undo_discard_pass(bool connected, UndoScanResult *result)
{
	DiscardPass pass = {.all_empty = true, .result = result};
	UndoScanContext context = {.result = result};
	UndoLogRef *refs;
	int			nlogs;
	Fxid		idle_step = IDLE_HORIZON_STEP;

	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	if (connected && IsUnderPostmaster)
		elog(ERROR, "undo is discarded by the launcher only");

	memset(result, 0, sizeof(*result));
	undo_log_startup();
	if (pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY)
		return;					/* a new cluster under pg_upgrade */
	if (pg_atomic_exchange_u32(&UndoShmem->raise_wanted, 0) != 0)
		idle_step = 1;
	pass.before = pass.after = undo_log_horizons();
	pass.horizon = oldest_needed(connected);
	UNDO_POINT("pass-horizon");

	context.all_visible_before = pass.before.all_visible_before;
	refs = undo_scan_list_logs(&nlogs);
	pass.plans = palloc0(sizeof(DiscardPlan) * (nlogs + 1));
	for (int i = 0; i < nlogs; i++)
		pass_over_log_or_report(&pass, &refs[i], &context);
	pass_decide(&pass, idle_step);
	UNDO_POINT("pass-decided");
	pg_atomic_write_u64(&UndoShmem->oldest_unapplied,
						result->oldest_unapplied);

	pass_publish(&pass);
	pg_atomic_write_u64(&UndoShmem->retained, result->retained);
	pg_atomic_fetch_add_u64(&UndoShmem->passes, 1);
	report_pass(&pass);
	UNDO_POINT("pass-published");

	for (int i = 0; i < pass.nplans; i++)
		shrink_log(&pass.plans[i]);

	pfree(pass.plans);
	pfree(refs);
}
