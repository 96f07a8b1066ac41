/*-------------------------------------------------------------------------
 *
 * undo_discard.c
 *	  What the undo logs hold, and what of it may go.
 *
 * A pass walks each log from its head to its tail, finds runs of aborted
 * writers that nobody has rolled back yet, raises the horizons and moves the
 * heads.  Only one process makes passes: the launcher, or the one process of
 * single-user mode.  Walking without discarding is for everybody: the
 * rollback workers and undo_discard_has_unapplied().
 *
 * A page is judged once.  What is judged is final unless one of its writers
 * is still running or is aborted and not applied; such pages are remembered
 * as ranges and looked at again, the others are left behind by a cursor:
 *
 *		head            range            range     cursor = tail
 *		  v           |-------|          |--|        v
 *		  [final][final][open][open][final][open][final][always looked at]
 *
 * A range is looked at again when its oldest or its last running writer has
 * ended.  Of a page that has more of them, only those of the last transaction
 * and prepared ones can be running: such a page is also looked at in turn.
 * Until then U stays at the oldest writer that was running when the page was
 * last judged, whatever became of it.
 *
 * This memory is private to the process and may be thrown away at any time;
 * the sequence numbers of the pages tell whether it still holds.  At most one
 * undo buffer is locked at a time, and only while it is copied.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"

#include "undo/undo_debug.h"
#include "undo/undo.h"
#include "undo/undo_log.h"
#include "undo/undo_page.h"
#include "undo/undo_worker.h"

/*
 * With all logs empty H follows the horizon only in such steps: each raise is
 * a conflict for queries of a standby, although nothing was removed.
 */
#define IDLE_HORIZON_STEP		UNDO_KNOB("idle-horizon-step", 1000000, 1, 1000)

/* kB above which a log rests, whatever the setting says (assert builds) */
#define REST_SIZE				UNDO_KNOB("rest-size", PG_INT32_MAX, 24, 800)

/* first sizes of arrays */
#define SCANS_START				UNDO_KNOB("scans-start", 64, 1, 64)
#define DATABASES_START			UNDO_KNOB("databases-start", 16, 1, 16)
#define RANGES_START			UNDO_KNOB("ranges-start", 16, 1, 16)

/* mixed ranges that are looked at in one scan of a log, about */
#define MIXED_PER_SCAN			UNDO_KNOB("mixed-per-scan", 64, 1, 64)

/* a log that can't be read is left alone for so long */
#define STUCK_LOG_DELAY_MS		UNDO_KNOB("stuck-log-delay", 60000, 100, 60000)

/* a page by its place and by its sequence number */
typedef struct PagePos
{
	BlockNumber block;
	uint64		seq;
} PagePos;

/* what a page holds that isn't final */
typedef struct PageFindings
{
	uint16		lower;			/* end of what was looked at */
	BlockNumber next;
	Fxid		max_fxid;
	Fxid		awaited;		/* the last running writer, 0 = none */
	Fxid		running;		/* the oldest running writer, 0 = none */
	bool		mixed;			/* there are more running writers than one */
	Fxid		unapplied;		/* oldest unapplied aborted writer, 0 = none */
	Oid			dboid;			/* its database; InvalidOid: several */
} PageFindings;

/* consecutive pages with the same findings */
typedef struct OpenRange
{
	PagePos		first;
	uint32		npages;
	Fxid		awaited;
	Fxid		running;
	bool		mixed;
	Fxid		unapplied;
	Oid			dboid;
} OpenRange;

/* room for ranges; never NULL once something was put there */
typedef struct RangeArray
{
	OpenRange  *ranges;
	int			max;
} RangeArray;

/* what this process knows of a log */
typedef struct LogScan
{
	bool		started;
	bool		in_progress;	/* an error escaped from the last scan */
	bool		moved;			/* somebody else moved the head meanwhile */
	TimestampTz skip_until;
	uint64		head_seen;		/* as in shared memory */
	PagePos		head;
	PagePos		cursor;			/* all before it is final or in a range */
	bool		empty;			/* log without any page */
	PageFindings tail;			/* of the page at the cursor */
	MemoryContext context;		/* of the arrays */
	int			nranges;
	OpenRange  *ranges;			/* in order */
	RangeArray	room;			/* where they are */
	RangeArray	spare;			/* where they were before the last scan */
	uint32		turn;			/* of mixed ranges */
} LogScan;

typedef struct LogRef
{
	char		persistence;
	UndoLogNumber number;
	UndoLogShared *shared;
} LogRef;

/* purpose of a walk */
typedef struct ScanContext
{
	Fxid		all_visible_before; /* runs before it are final */
	Oid			wanted;			/* has_unapplied: this database, or any */
	bool		found;
	UndoScanResult *result;		/* pass: collects databases; may be NULL */
} ScanContext;

/* where a pass wants to move a head */
typedef struct DiscardPlan
{
	LogRef		ref;
	LogScan    *scan;
	bool		moves;
	bool		empty;
	PagePos		head;
	uint16		head_offset;
	Fxid		max_discarded;
} DiscardPlan;

static LogScan **scans[2];		/* permanent, unlogged; each stays in place */
static int	nscans[2];

/* ----------------------------------------------------------------
 *	status of writers
 * ----------------------------------------------------------------
 */

/*
 * Is this writer running, committed or aborted?  Asked for fxid >= U only: for
 * those relfrozenxid of their tables keeps the commit log.  One from before
 * the commit log wrote to a table that is gone, or to a file that the table
 * doesn't have any more (U21): nothing is left to be rolled back, as if it had
 * committed.  ERROR if the xid was never assigned: no guessing; likewise while
 * tables without relfrozenxid may be about.
 */
UndoXidStatus
undo_discard_xid_status(Fxid fxid)
{
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	TransactionId xid = XidFromFxid(fxid);
	Fxid		oldest;

	if (fxid >= next || !TransactionIdIsNormal(xid))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo names transaction " UINT64_FORMAT ", which is not among the transactions before " UINT64_FORMAT,
						fxid, next)));

	LWLockAcquire(XactTruncationLock, LW_SHARED);
	oldest = undo_log_fxid_from_xid(TransamVariables->oldestClogXid);
	LWLockRelease(XactTruncationLock);
	if (fxid < oldest)
	{
		if (pg_atomic_read_u32(&UndoShmem->tables_known) != 0)
			return UNDO_XID_COMMITTED;
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo of transaction " UINT64_FORMAT " was not rolled back before its status was removed",
						fxid),
				 errdetail("The commit log begins at transaction " UINT64_FORMAT ".",
						   oldest)));
	}

	if (TransactionIdIsCurrentTransactionId(xid) ||
		TransactionIdIsInProgress(xid))
		return UNDO_XID_RUNNING;

	return TransactionIdDidCommit(xid) ? UNDO_XID_COMMITTED : UNDO_XID_ABORTED;
}

/*
 * Does this run still have to be rolled back?  u: sample of U from before the
 * page was copied.
 */
bool
undo_discard_run_is_unapplied(const UndoEntry *run, Fxid u)
{
	Assert(run->kind == UNDO_KIND_RUN);
	return (run->flags & UNDO_RUN_APPLIED) == 0 && run->fxid >= u &&
		undo_discard_xid_status(run->fxid) == UNDO_XID_ABORTED;
}

/* ----------------------------------------------------------------
 *	logs and pages
 * ----------------------------------------------------------------
 */

static void
report_log_corruption(const LogRef *ref, BlockNumber block, const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("%s undo log %u, block %u: %s",
					ref->persistence == RELPERSISTENCE_UNLOGGED ?
					"unlogged" : "permanent",
					ref->number, block, what)));
}

/* all logs of both kinds, in the current memory context */
static LogRef *
list_logs(int *count)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	LogRef	   *refs;
	int			n = 0;
	int			counts[2];

	for (int k = 0; k < 2; k++)
		counts[k] = undo_shmem_log_count(kinds[k]);
	refs = palloc(sizeof(LogRef) * (counts[0] + counts[1] + 1));
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < counts[k]; i++)
		{
			refs[n].persistence = kinds[k];
			refs[n].number = i;
			refs[n].shared = undo_shmem_log(kinds[k], i);
			if (refs[n].shared != NULL)
				n++;
		}
	*count = n;
	return refs;
}

/* this process's memory of a log; the answer is good until the process ends */
static LogScan *
get_scan(const LogRef *ref)
{
	int			k = ref->persistence == RELPERSISTENCE_UNLOGGED ? 1 : 0;

	if (ref->number >= nscans[k])
	{
		int			n = Max(SCANS_START, nscans[k]);
		LogScan   **new;

		while (n <= ref->number)
			n *= 2;
		new = MemoryContextAllocZero(TopMemoryContext, n * sizeof(LogScan *));
		if (scans[k] != NULL)
		{
			memcpy(new, scans[k], nscans[k] * sizeof(LogScan *));
			pfree(scans[k]);
		}
		scans[k] = new;
		nscans[k] = n;
	}
	if (scans[k][ref->number] == NULL)
	{
		LogScan    *scan = MemoryContextAllocZero(TopMemoryContext,
												  sizeof(LogScan));

		scan->context = TopMemoryContext;
		scans[k][ref->number] = scan;
	}
	return scans[k][ref->number];
}

static void
forget_scan(LogScan *scan)
{
	scan->started = false;
	scan->moved = false;
	scan->empty = false;
	scan->nranges = 0;
}

/* copy a page and say what is wrong with it, or NULL; locked for the copy only */
static const char *
read_page(const LogRef *ref, BlockNumber block, Page page)
{
	Buffer		buffer;

	CHECK_FOR_INTERRUPTS();
	buffer = undo_file_read_log(ref->persistence, ref->number, block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	UNDO_POINT("scan-page-copied");
	return undo_page_problem(page, UNDO_PAGE_MAGIC);
}

static void
copy_page(const LogRef *ref, BlockNumber block, Page page)
{
	const char *problem = read_page(ref, block, page);

	if (problem != NULL)
		report_log_corruption(ref, block, problem);
}

static bool
block_is_used(const LogRef *ref, BlockNumber block)
{
	return block != 0 && block != InvalidBlockNumber &&
		block < pg_atomic_read_u32(&ref->shared->used_blocks);
}

/*
 * A link led astray: look through the whole log for the page.  Returns
 * InvalidBlockNumber if it isn't there.  Meanwhile the log may be cut and
 * written again, so each block is tested anew, and one that its writer is
 * still behind with is not the page.
 */
static BlockNumber
find_page(const LogRef *ref, uint64 seq)
{
	PGAlignedBlock page;

	for (BlockNumber block = 1; block_is_used(ref, block); block++)
	{
		if (read_page(ref, block, page.data) == NULL &&
			UndoPageGetOpaque(page.data)->seq == seq)
			return block;
	}
	return InvalidBlockNumber;
}

/*
 * Copy the page at pos.  Returns false if it has been discarded and recycled,
 * which the head tells: the caller begins anew at the head.  A broken link is
 * repaired in *pos.
 */
static bool
copy_page_at(const LogRef *ref, const LogScan *scan, PagePos *pos, Page page)
{
	if (block_is_used(ref, pos->block))
	{
		copy_page(ref, pos->block, page);
		if (UndoPageGetOpaque(page)->seq == pos->seq)
			return true;
	}
	if (scan->moved ||
		pg_atomic_read_u64(&ref->shared->head) != scan->head_seen)
		return false;

	pos->block = find_page(ref, pos->seq);
	if (pos->block == InvalidBlockNumber)
		return false;
	copy_page(ref, pos->block, page);
	return UndoPageGetOpaque(page)->seq == pos->seq;
}

static void
step(PagePos *pos, Page page)
{
	pos->block = UndoPageGetOpaque(page)->next;
	pos->seq++;
}

/* ----------------------------------------------------------------
 *	judging a page
 * ----------------------------------------------------------------
 */

static void
add_database(UndoScanResult *result, Oid dboid)
{
	/* the last one is the likeliest */
	for (int i = result->ndatabases - 1; i >= 0; i--)
		if (result->databases[i] == dboid)
			return;
	if (result->ndatabases == result->maxdatabases)
	{
		int			more = Max(DATABASES_START, result->maxdatabases * 2);

		result->databases = result->databases == NULL ?
			palloc(more * sizeof(Oid)) :
			repalloc(result->databases, more * sizeof(Oid));
		result->maxdatabases = more;
	}
	result->databases[result->ndatabases++] = dboid;
}

/* the page's entries from byte offset "from" on */
static void
judge_page(const LogRef *ref, const PagePos *pos, Page page, uint16 from,
		   ScanContext *context, PageFindings *findings)
{
	UndoPageOpaque opaque = UndoPageGetOpaque(page);
	uint16		lower = ((PageHeader) page)->pd_lower;
	Fxid		known = InvalidFxid;
	UndoXidStatus status = UNDO_XID_COMMITTED;
	UndoEntry	entry;

	memset(findings, 0, sizeof(*findings));
	findings->lower = lower;
	findings->next = opaque->next;
	findings->max_fxid = opaque->max_fxid;

	/* whatever aborted before U is applied */
	if (opaque->max_fxid < context->all_visible_before)
		return;

	for (uint16 at = from; at < lower; at += entry.len)
	{
		if (!undo_page_get(page, at, &entry) || entry.len == 0)
			report_log_corruption(ref, pos->block, "malformed entry");
		if (entry.kind != UNDO_KIND_RUN ||
			(entry.flags & UNDO_RUN_APPLIED) != 0 ||
			entry.fxid < context->all_visible_before)
			continue;
		if (entry.fxid != known)
		{
			status = undo_discard_xid_status(entry.fxid);
			known = entry.fxid;
		}
		if (status == UNDO_XID_RUNNING)
		{
			if (findings->running == InvalidFxid ||
				entry.fxid < findings->running)
				findings->running = entry.fxid;
			if (findings->awaited != InvalidFxid &&
				findings->awaited != entry.fxid)
				findings->mixed = true;
			findings->awaited = entry.fxid;
		}
		else if (status == UNDO_XID_ABORTED)
		{
			if (findings->unapplied == InvalidFxid)
				findings->dboid = entry.dboid;
			else if (findings->dboid != entry.dboid)
				findings->dboid = InvalidOid;
			if (findings->unapplied == InvalidFxid ||
				entry.fxid < findings->unapplied)
				findings->unapplied = entry.fxid;
			if (context->result != NULL)
				add_database(context->result, entry.dboid);
			if (!OidIsValid(context->wanted) ||
				context->wanted == entry.dboid)
				context->found = true;
		}
	}
}

static inline bool
is_final(const PageFindings *findings)
{
	return findings->awaited == InvalidFxid &&
		findings->unapplied == InvalidFxid;
}

/* append to the ranges; joins what belongs together */
static void
add_range(LogScan *scan, const OpenRange *range)
{
	if (scan->nranges > 0)
	{
		OpenRange  *last = &scan->ranges[scan->nranges - 1];

		Assert(last->first.seq + last->npages <= range->first.seq);
		if (last->first.seq + last->npages == range->first.seq &&
			last->awaited == range->awaited &&
			last->running == range->running &&
			last->mixed == range->mixed &&
			last->unapplied == range->unapplied &&
			last->dboid == range->dboid &&
			(last->unapplied == InvalidFxid || OidIsValid(last->dboid)) &&
			last->npages <= PG_UINT32_MAX - range->npages)
		{
			last->npages += range->npages;
			return;
		}
	}
	if (scan->nranges == scan->room.max)
	{
		int			max = Max(RANGES_START, scan->room.max * 2);

		/* what fails here has changed nothing */
		if (scan->room.ranges == NULL)
			scan->room.ranges = MemoryContextAlloc(scan->context,
												   max * sizeof(OpenRange));
		else
			scan->room.ranges = repalloc_huge(scan->room.ranges,
											  max * sizeof(OpenRange));
		scan->room.max = max;
		scan->ranges = scan->room.ranges;
	}
	scan->ranges[scan->nranges++] = *range;
}

static void
add_open_page(LogScan *scan, const PagePos *pos, const PageFindings *findings)
{
	OpenRange	range;

	range.first = *pos;
	range.npages = 1;
	range.awaited = findings->awaited;
	range.running = findings->running;
	range.mixed = findings->mixed;
	range.unapplied = findings->unapplied;
	range.dboid = findings->dboid;
	add_range(scan, &range);
}

/* ----------------------------------------------------------------
 *	walking a log
 * ----------------------------------------------------------------
 */

/* first byte of a page that isn't discarded */
static uint16
first_offset(const LogScan *scan, const PagePos *pos)
{
	if (pos->block == UndoLogHeadBlock(scan->head_seen))
		return UndoLogHeadOffset(scan->head_seen);
	return UNDO_FIRST_OFFSET;
}

static bool
start_at_head(const LogRef *ref, LogScan *scan, uint64 head)
{
	PGAlignedBlock page;
	BlockNumber block = UndoLogHeadBlock(head);

	if (!block_is_used(ref, block))
	{
		if (pg_atomic_read_u64(&ref->shared->head) != head)
			return false;
		report_log_corruption(ref, block, "head is beyond the blocks in use");
	}
	copy_page(ref, block, page.data);

	/* heads are published before pages are recycled */
	if (pg_atomic_read_u64(&ref->shared->head) != head)
		return false;

	scan->head_seen = head;
	scan->head.block = block;
	scan->head.seq = UndoPageGetOpaque(page.data)->seq;
	scan->cursor = scan->head;
	scan->nranges = 0;
	scan->moved = false;
	scan->started = true;
	return true;
}

/*
 * Must a range be looked at again, which may be final now or hold an aborted
 * writer?  Not while its oldest and its last running writer go on, unless it
 * is its turn.
 */
static bool
range_is_due(const OpenRange *range, const ScanContext *context, bool turn)
{
	if (range->unapplied != InvalidFxid ||
		range->awaited < context->all_visible_before ||
		(range->mixed && turn))
		return true;
	return undo_discard_xid_status(range->awaited) != UNDO_XID_RUNNING ||
		(range->running != range->awaited &&
		 undo_discard_xid_status(range->running) != UNDO_XID_RUNNING);
}

/*
 * Look at the open pages again.  Of a range only the first page is read, and
 * the following ones as far as those before them have become final: what runs
 * on these is of one top transaction, that of the last running writer, since a
 * log is one transaction's until it ends or is prepared.
 */
static bool
rescan_ranges(const LogRef *ref, LogScan *scan, ScanContext *context)
{
	RangeArray	old = scan->room;
	int			nold = scan->nranges;
	uint32		stride = nold / MIXED_PER_SCAN + 1;
	PGAlignedBlock page;

	if (nold == 0)
		return true;

	/* an error on the way makes the caller forget the scan, not the memory */
	scan->room = scan->spare;
	scan->spare = old;
	scan->ranges = scan->room.ranges;
	scan->nranges = 0;
	scan->turn++;

	for (int i = 0; i < nold; i++)
	{
		OpenRange	range = old.ranges[i];

		if (!range_is_due(&range, context,
						  ((uint32) i + scan->turn) % stride == 0))
		{
			add_range(scan, &range);
			continue;
		}
		while (range.npages > 0)
		{
			PageFindings findings;

			if (!copy_page_at(ref, scan, &range.first, page.data))
				return false;
			judge_page(ref, &range.first, page.data,
					   first_offset(scan, &range.first), context, &findings);
			if (findings.awaited == range.awaited &&
				findings.running == range.running &&
				findings.mixed == range.mixed &&
				findings.unapplied == range.unapplied &&
				findings.dboid == range.dboid)
				break;
			if (!is_final(&findings))
				add_open_page(scan, &range.first, &findings);
			step(&range.first, page.data);
			range.npages--;
		}
		if (range.npages > 0)
			add_range(scan, &range);
	}
	return true;
}

/*
 * Bring this process's memory of a log up to date.  Returns false if the log
 * moved on under us.
 */
static bool
scan_log_once(const LogRef *ref, LogScan *scan, ScanContext *context)
{
	BlockNumber tail = pg_atomic_read_u32(&ref->shared->tail);
	uint64		head = pg_atomic_read_u64(&ref->shared->head);
	PGAlignedBlock page;

	if (tail == InvalidBlockNumber)
	{
		forget_scan(scan);
		scan->empty = true;
		return true;
	}
	if (UndoLogHeadBlock(head) == InvalidBlockNumber ||
		UndoLogHeadBlock(head) == 0)
		return false;			/* being made: tail comes first */
	scan->empty = false;
	if (!scan->started)
	{
		if (!start_at_head(ref, scan, head))
			return false;
	}
	if (scan->head_seen != head)
	{
		scan->moved = true;
		scan->head_seen = head;
	}

	if (!rescan_ranges(ref, scan, context))
		return false;

	while (scan->cursor.block != tail)
	{
		PageFindings findings;

		if (!copy_page_at(ref, scan, &scan->cursor, page.data))
			return false;
		judge_page(ref, &scan->cursor, page.data,
				   first_offset(scan, &scan->cursor), context, &findings);
		if (!is_final(&findings))
			add_open_page(scan, &scan->cursor, &findings);
		step(&scan->cursor, page.data);
	}

	if (!copy_page_at(ref, scan, &scan->cursor, page.data))
		return false;
	judge_page(ref, &scan->cursor, page.data,
			   first_offset(scan, &scan->cursor), context, &scan->tail);
	scan->moved = false;
	return true;
}

static void
scan_log(const LogRef *ref, LogScan *scan, ScanContext *context)
{
	for (int tries = 0; tries < 1000; tries++)
	{
		if (scan_log_once(ref, scan, context))
			return;
		forget_scan(scan);
		CHECK_FOR_INTERRUPTS();
	}
	report_log_corruption(ref, pg_atomic_read_u32(&ref->shared->tail),
						  "pages between head and tail are not to be found");
}

/*
 * As scan_log(), but a log whose last scan ended in an error is left alone
 * for a while; false then.  One bad page must not stop the others.
 */
static bool
scan_log_guarded(const LogRef *ref, LogScan *scan, ScanContext *context)
{
	if (scan->in_progress)
	{
		scan->in_progress = false;
		forget_scan(scan);
		scan->skip_until =
			TimestampTzPlusMilliseconds(GetCurrentTimestamp(),
										STUCK_LOG_DELAY_MS);
	}
	if (scan->skip_until != 0)
	{
		if (GetCurrentTimestamp() < scan->skip_until)
			return false;
		scan->skip_until = 0;
	}
	scan->in_progress = true;
	scan_log(ref, scan, context);
	scan->in_progress = false;
	return true;
}

/* ----------------------------------------------------------------
 *	questions
 * ----------------------------------------------------------------
 */

/*
 * Does any log hold an unapplied aborted run of this database (InvalidOid:
 * of any)?  Exact for transactions that ended before the call.  Nothing is
 * taken from the process's memory.
 */
bool
undo_discard_has_unapplied(Oid dboid)
{
	ScanContext context = {0};
	LogRef	   *refs;
	int			nlogs;

	context.all_visible_before = undo_log_horizons().all_visible_before;
	UNDO_POINT("has-unapplied-horizon");
	context.wanted = dboid;
	refs = list_logs(&nlogs);
	for (int i = 0; i < nlogs && !context.found; i++)
	{
		LogScan		scan = {0};

		scan.context = CurrentMemoryContext;
		scan_log(&refs[i], &scan, &context);
		if (scan.room.ranges != NULL)
			pfree(scan.room.ranges);
		if (scan.spare.ranges != NULL)
			pfree(scan.spare.ranges);
	}
	pfree(refs);
	return context.found;
}

/* where the last walk was ended, by log and page; log -1: nowhere */
typedef struct VisitResume
{
	int			log;
	PagePos		pos;
} VisitResume;

static VisitResume visit_resume = {-1};

/*
 * Visit the pages of a range, from *start on if that is one of them.  Returns
 * false if the visitor said so; *start is the next page then.
 */
static bool
visit_range(const LogRef *ref, const LogScan *scan, const OpenRange *range,
			PagePos *start, undo_visit_fn visit, void *arg)
{
	PagePos		pos = range->first;
	uint64		end = range->first.seq + range->npages;
	PGAlignedBlock page;

	if (start->seq >= end)
		return true;
	if (start->seq > pos.seq)
		pos = *start;
	while (pos.seq < end)
	{
		bool		go_on;

		if (!copy_page_at(ref, scan, &pos, page.data))
			return true;		/* somebody else was faster */
		go_on = visit(ref->persistence, ref->number, pos.block, page.data,
					  first_offset(scan, &pos), arg);
		step(&pos, page.data);
		if (!go_on)
		{
			*start = pos;
			return false;
		}
	}
	return true;
}

static bool
visit_log(const LogRef *ref, const LogScan *scan, Oid dboid, PagePos *start,
		  undo_visit_fn visit, void *arg)
{
	for (int i = 0; i < scan->nranges; i++)
	{
		OpenRange  *range = &scan->ranges[i];

		if (range->unapplied == InvalidFxid ||
			(OidIsValid(dboid) && OidIsValid(range->dboid) &&
			 range->dboid != dboid))
			continue;
		if (!visit_range(ref, scan, range, start, visit, arg))
			return false;
	}
	if (scan->tail.unapplied != InvalidFxid)
	{
		OpenRange	tail = {0};

		tail.first = scan->cursor;
		tail.npages = 1;
		return visit_range(ref, scan, &tail, start, visit, arg);
	}
	return true;
}

/* See undo_worker.h.  Reads the logs with the memory of earlier calls. */
bool
undo_discard_visit_unapplied(Oid dboid, undo_visit_fn visit, void *arg)
{
	ScanContext context = {0};
	VisitResume resume = visit_resume;
	LogRef	   *refs;
	int			nlogs;
	bool		full = resume.log < 0;

	context.all_visible_before = undo_log_horizons().all_visible_before;
	UNDO_POINT("visit-horizon");
	context.wanted = dboid;
	refs = list_logs(&nlogs);
	visit_resume.log = -1;
	for (int i = Max(resume.log, 0); i < nlogs; i++)
	{
		LogScan    *scan = get_scan(&refs[i]);
		PagePos		start = {0};

		if (i == resume.log)
			start = resume.pos;
		if (!scan_log_guarded(&refs[i], scan, &context) || scan->empty)
			continue;
		if (!visit_log(&refs[i], scan, dboid, &start, visit, arg))
		{
			visit_resume.log = i;
			visit_resume.pos = start;
			full = false;
			break;
		}
	}
	pfree(refs);
	return full;
}

/* ----------------------------------------------------------------
 *	discarding
 * ----------------------------------------------------------------
 */

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

/* how far the head of a scanned log may move */
static void
plan_log(DiscardPlan *plan, Fxid horizon)
{
	const LogRef *ref = &plan->ref;
	LogScan    *scan = plan->scan;
	uint64		limit = scan->cursor.seq;
	PagePos		pos = scan->head;
	PGAlignedBlock page;

	plan->empty = false;
	plan->moves = false;
	plan->max_discarded = InvalidFxid;
	if (scan->empty)
	{
		plan->empty = true;
		return;
	}
	if (scan->nranges > 0)
		limit = scan->ranges[0].first.seq;

	while (pos.seq < limit)
	{
		Fxid		max_fxid;

		if (!copy_page_at(ref, scan, &pos, page.data))
			report_log_corruption(ref, pos.block, "page is not to be found");
		max_fxid = UndoPageGetOpaque(page.data)->max_fxid;
		if (max_fxid >= horizon)
			break;
		plan->max_discarded = Max(plan->max_discarded, max_fxid);
		step(&pos, page.data);
	}

	if (pos.seq == scan->cursor.seq && is_final(&scan->tail) &&
		scan->tail.max_fxid < horizon)
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
	LogScan    *scan = plan->scan;
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
			const OpenRange *range = &scan->ranges[i];

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
				forget_scan(plan->scan);
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
publish_plan(DiscardPlan *plan, Fxid u, Fxid h)
{
	Assert(plan->moves && plan->max_discarded < h);
	undo_log_discard(plan->ref.persistence, plan->ref.number,
					 plan->head.block, plan->head_offset, u, h);
	plan->scan->head = plan->head;
	plan->scan->head_seen = UndoLogHead(plan->head.block, plan->head_offset);
}

/*
 * See undo_worker.h.  The order is that of U2 and U3: horizon, scan, then per
 * log WAL record, horizons, head.  An ERROR leaves the published state valid;
 * the next pass goes on from it.
 */
void
undo_discard_pass(bool connected, UndoScanResult *result)
{
	ScanContext context = {0};
	UndoHorizons before;
	Fxid		horizon;
	Fxid		h;
	Fxid		u;
	LogRef	   *refs;
	DiscardPlan *plans;
	int			nlogs;
	int			nplans = 0;
	Fxid		running = InvalidFxid;
	bool		blind = false;
	bool		all_empty = true;
	Fxid		idle_step = IDLE_HORIZON_STEP;

	if (connected && IsUnderPostmaster)
		elog(ERROR, "undo is discarded by the launcher only");

	memset(result, 0, sizeof(*result));
	undo_log_startup();
	if (pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY)
		return;					/* a new cluster under pg_upgrade */
	if (pg_atomic_exchange_u32(&UndoShmem->raise_wanted, 0) != 0)
		idle_step = 1;
	before = undo_log_horizons();
	horizon = oldest_needed(connected);
	UNDO_POINT("pass-horizon");

	context.all_visible_before = before.all_visible_before;
	context.result = result;
	refs = list_logs(&nlogs);
	plans = palloc0(sizeof(DiscardPlan) * (nlogs + 1));
	h = before.discard_before;
	for (int i = 0; i < nlogs; i++)
	{
		DiscardPlan *plan = &plans[nplans];
		Fxid		log_running;

		plan->ref = refs[i];
		plan->scan = get_scan(&refs[i]);
		if (!scan_log_guarded(&refs[i], plan->scan, &context))
		{
			/* whatever it holds: U stays, nothing of it is discarded */
			blind = true;
			all_empty = false;
			continue;
		}
		result->oldest_unapplied =
			older(result->oldest_unapplied,
				  log_oldest_unapplied(plan, &log_running));
		running = older(running, log_running);

		UNDO_POINT("pass-log-scanned");
		plan->scan->in_progress = true;
		plan_log(plan, horizon);
		plan->scan->in_progress = false;
		if (plan->max_discarded != InvalidFxid)
			h = Max(h, plan->max_discarded + 1);
		if (!plan->empty)
		{
			all_empty = false;
			result->retained += plan->scan->cursor.seq - plan->head.seq + 1;
		}
		nplans++;
	}

	Assert(h == before.discard_before || h <= horizon);
	if (all_empty && horizon > h && horizon - h >= idle_step)
		h = horizon;
	u = blind ? before.all_visible_before : h;
	u = older(u, older(result->oldest_unapplied, running));
	u = Max(u, before.all_visible_before);
	Assert(u <= h);
	Assert(h >= before.discard_before);
	UNDO_POINT("pass-decided");
	pg_atomic_write_u64(&UndoShmem->oldest_unapplied,
						result->oldest_unapplied);

	for (int i = 0; i < nplans; i++)
		if (plans[i].moves)
		{
			publish_plan(&plans[i], u, h);
			result->discarded = true;
		}
	if (!result->discarded &&
		(u > before.all_visible_before || h > before.discard_before))
		undo_log_discard(RELPERSISTENCE_PERMANENT, UNDO_TEMP_LOG,
						 InvalidBlockNumber, 0, u, h);

	pg_atomic_write_u64(&UndoShmem->retained, result->retained);
	pg_atomic_fetch_add_u64(&UndoShmem->passes, 1);
	UNDO_POINT("pass-published");

	for (int i = 0; i < nplans; i++)
		shrink_log(&plans[i]);

	pfree(plans);
	pfree(refs);
}
