/*-------------------------------------------------------------------------
 *
 * undo_scan.c
 *	  What the undo logs hold: which pages have runs that are not final.
 *
 * A scan walks a log from its head to its tail and finds runs of aborted
 * writers that are not rolled back yet.  The launcher scans to discard
 * (undo_discard.c), the rollback workers to find their work, DDL to ask whether
 * there is any.
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
 * Until then all_visible_before stays at the oldest writer that was running
 * when the page was last judged, whatever became of it.
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

#include "undo/discard/undo_scan.h"
#include "undo/log/undo_files.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* first sizes of arrays */
#define SCANS_START				UNDO_KNOB("scans-start", 64, 1, 64)
#define DATABASES_START			UNDO_KNOB("databases-start", 16, 1, 16)
#define RANGES_START			UNDO_KNOB("ranges-start", 16, 1, 16)

/* mixed ranges that are looked at in one scan of a log, about */
#define MIXED_PER_SCAN			UNDO_KNOB("mixed-per-scan", 64, 1, 64)

/* a log that can't be read is left alone for so long */
#define STUCK_LOG_DELAY_MS		UNDO_KNOB("stuck-log-delay", 60000, 100, 60000)

/* block looked at last */
static BlockNumber last_block = InvalidBlockNumber;

static UndoLogScan **scans[2];	/* permanent, unlogged; each stays in place */
static int	nscans[2];

/* ----------------------------------------------------------------
 *	status of writers
 * ----------------------------------------------------------------
 */

/*
 * Is this writer running, committed or aborted?  Asked for fxid >=
 * all_visible_before only: for those relfrozenxid of their tables keeps the
 * commit log.  One from before the commit log wrote to a table that is gone,
 * or to a file that the table doesn't have any more (U21): nothing is left to
 * be rolled back, as if it had committed.  ERROR if the xid was never
 * assigned: no guessing.
 */
UndoXidStatus
undo_scan_xid_status(Fxid fxid)
{
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	TransactionId xid = XidFromFxid(fxid);
	Fxid		oldest;

	Assert(CritSectionCount == 0 && fxid != InvalidFxid);
	if (fxid >= next || !TransactionIdIsNormal(xid))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo names transaction " UINT64_FORMAT ", which is not among the transactions before " UINT64_FORMAT,
						fxid, next)));

	LWLockAcquire(XactTruncationLock, LW_SHARED);
	oldest = undo_log_fxid_from_xid(TransamVariables->oldestClogXid);
	LWLockRelease(XactTruncationLock);
	if (fxid < oldest)
		return UNDO_XID_COMMITTED;

	if (TransactionIdIsCurrentTransactionId(xid) ||
		TransactionIdIsInProgress(xid))
		return UNDO_XID_RUNNING;

	return TransactionIdDidCommit(xid) ? UNDO_XID_COMMITTED : UNDO_XID_ABORTED;
}

/*
 * Does this run still have to be rolled back?  all_visible_before: a sample
 * from before the page was copied.
 */
bool
undo_scan_run_is_unapplied(const UndoEntry *run, Fxid all_visible_before)
{
	Assert(run->kind == UNDO_KIND_RUN);
	return (run->flags & UNDO_RUN_APPLIED) == 0 &&
		run->fxid >= all_visible_before &&
		undo_scan_xid_status(run->fxid) == UNDO_XID_ABORTED;
}

/* ----------------------------------------------------------------
 *	logs and pages
 * ----------------------------------------------------------------
 */

void
undo_scan_report_corruption(const UndoLogRef *ref, BlockNumber block,
							const char *what)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("%s undo log %u, block %u: %s",
					ref->persistence == RELPERSISTENCE_UNLOGGED ?
					"unlogged" : "permanent",
					ref->number, block, what),
			 errdetail("All undo of the log is kept, and all_visible_before stands still."),
			 errhint("Promote a standby, restore a backup, or dump the databases and load them into a new cluster.")));
}

/* all logs of both kinds, in the current memory context */
UndoLogRef *
undo_scan_list_logs(int *count)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	UndoLogRef *refs;
	int			n = 0;
	int			counts[2];

	for (int k = 0; k < 2; k++)
		counts[k] = undo_shmem_log_count(kinds[k]);
	refs = palloc(sizeof(UndoLogRef) * (counts[0] + counts[1] + 1));
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
UndoLogScan *
undo_scan_of_log(const UndoLogRef *ref)
{
	int			k = ref->persistence == RELPERSISTENCE_UNLOGGED ? 1 : 0;

	Assert(ref->persistence != RELPERSISTENCE_TEMP);
	Assert(ref->number < UNDO_MAX_LOGS);
	if (ref->number >= nscans[k])
	{
		int			n = Max(SCANS_START, nscans[k]);
		UndoLogScan **new;

		while (n <= ref->number)
			n *= 2;
		new =
			MemoryContextAllocZero(TopMemoryContext,
								   n * sizeof(UndoLogScan *));
		if (scans[k] != NULL)
		{
			memcpy(new, scans[k], nscans[k] * sizeof(UndoLogScan *));
			pfree(scans[k]);
		}
		scans[k] = new;
		nscans[k] = n;
	}
	if (scans[k][ref->number] == NULL)
	{
		UndoLogScan *scan = MemoryContextAllocZero(TopMemoryContext,
												   sizeof(UndoLogScan));

		scan->context = TopMemoryContext;
		scans[k][ref->number] = scan;
	}
	return scans[k][ref->number];
}

void
undo_scan_forget(UndoLogScan *scan)
{
	scan->started = false;
	scan->moved = false;
	scan->empty = false;
	scan->nranges = 0;
	scan->nmarks = 0;
}

/*
 * The page at the cursor is full.  When there is no room for another mark two
 * and two are joined: marks of late pages are close to each other.
 */
static void
note_page(UndoLogScan *scan, const UndoPageFindings *findings)
{
	UndoScanMark *last = scan->nmarks == 0 ? NULL :
		&scan->marks[scan->nmarks - 1];

	Assert(scan->started && scan->nmarks <= UNDO_SCAN_MARKS);
	Assert(last == NULL || last->end_seq < scan->cursor.seq);
	if (last == NULL || findings->max_fxid > last->last)
	{
		if (scan->nmarks == UNDO_SCAN_MARKS)
		{
			scan->nmarks /= 2;
			for (int i = 0; i < scan->nmarks; i++)
				scan->marks[i] = scan->marks[2 * i + 1];
		}
		last = &scan->marks[scan->nmarks++];
		last->last = findings->max_fxid;
		last->kept = scan->nmarks > 1 ? last[-1].kept : InvalidFxid;
	}
	last->kept = Max(last->kept, findings->kept);
	last->end_seq = scan->cursor.seq;
	last->next = findings->next;
}

/*
 * Copy a page, which is locked for that only, and say in *problem what is wrong
 * with it, or NULL.  False if the log doesn't have this block, or not any more:
 * then the head that is read afterwards is another one, too.
 */
static bool
read_page(const UndoLogRef *ref, BlockNumber block, Page page,
		  const char **problem)
{
	Buffer		buffer;

	AssertNoPageLocked();
	CHECK_FOR_INTERRUPTS();
	last_block = block;
	buffer = undo_file_read_used(ref->persistence, ref->number, block);
	if (!BufferIsValid(buffer))
	{
		pg_read_barrier();
		return false;
	}
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(page, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	UNDO_POINT("scan-page-copied");
	*problem = undo_page_problem(page, UNDO_PAGE_MAGIC);
	return true;
}

/* the same; ERROR if anything is wrong with the page */
static bool
copy_page(const UndoLogRef *ref, BlockNumber block, Page page)
{
	const char *problem;

	if (!read_page(ref, block, page, &problem))
		return false;
	if (problem != NULL)
		undo_scan_report_corruption(ref, block, problem);
	return true;
}

/*
 * A link led astray: look through the whole log for the page.  Returns
 * InvalidBlockNumber if it isn't there.  Meanwhile the log may be cut and
 * written again, so each block is tested anew, and one that its writer is
 * still behind with is not the page.
 */
static BlockNumber
find_page(const UndoLogRef *ref, uint64 seq)
{
	PGAlignedBlock page;
	const char *problem;

	for (BlockNumber block = 1;
		 read_page(ref, block, page.data, &problem); block++)
	{
		if (problem == NULL && UndoPageGetOpaque(page.data)->seq == seq)
			return block;
	}
	return InvalidBlockNumber;
}

/*
 * Copy the page at pos.  Returns false if it has been discarded and recycled,
 * which the head tells: the caller begins anew at the head.  A broken link is
 * repaired in *pos.
 */
bool
undo_scan_copy_page(const UndoLogRef *ref, const UndoLogScan *scan,
					UndoPagePos *pos, Page page)
{
	Assert(pos->seq > 0);
	if (copy_page(ref, pos->block, page) &&
		UndoPageGetOpaque(page)->seq == pos->seq)
		return true;
	if (scan->moved ||
		pg_atomic_read_u64(&ref->shared->head) != scan->head_seen)
		return false;

	pos->block = find_page(ref, pos->seq);
	if (pos->block == InvalidBlockNumber)
		return false;
	return copy_page(ref, pos->block, page) &&
		UndoPageGetOpaque(page)->seq == pos->seq;
}

void
undo_scan_step(UndoPagePos *pos, Page page)
{
	Assert(UndoPageGetOpaque(page)->seq == pos->seq);
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
	Assert(result->ndatabases <= result->maxdatabases);
}

/*
 * The entry at byte offset "at", false at the end.  Pages are discarded by the
 * latest writer in their special space, so there may be no later one.  Whatever
 * aborted before all_visible_before is applied, malformed or not.
 */
static bool
entry_to_judge(const UndoLogRef *ref, BlockNumber block, Page page, uint16 at,
			   Fxid all_visible_before, UndoEntry *entry)
{
	UndoPageOpaque opaque = UndoPageGetOpaque(page);

	if (at >= ((PageHeader) page)->pd_lower)
		return false;
	if (!undo_page_get(page, at, entry) || entry->len == 0)
	{
		if (opaque->max_fxid < all_visible_before)
			return false;
		undo_scan_report_corruption(ref, block, "malformed entry");
	}
	if (entry->kind == UNDO_KIND_RUN && entry->fxid > opaque->max_fxid)
		undo_scan_report_corruption(ref, block,
									"it has a later writer than it says");
	return true;
}

/* the page's entries from byte offset "from" on */
static void
judge_page(const UndoLogRef *ref, const UndoPagePos *pos, Page page,
		   uint16 from,
		   UndoScanContext *context, UndoPageFindings *findings)
{
	UndoPageOpaque opaque = UndoPageGetOpaque(page);
	Fxid		known = InvalidFxid;
	UndoXidStatus status = UNDO_XID_COMMITTED;
	UndoEntry	entry;

	Assert(opaque->magic == UNDO_PAGE_MAGIC && opaque->seq == pos->seq);
	Assert(from >= UNDO_FIRST_OFFSET || undo_debug_damage);
	memset(findings, 0, sizeof(*findings));
	findings->lower = ((PageHeader) page)->pd_lower;
	findings->next = opaque->next;
	findings->max_fxid = opaque->max_fxid;
	findings->kept = undo_page_kept(page);

	for (uint16 at = from; entry_to_judge(ref, pos->block, page, at,
										  context->all_visible_before, &entry);
		 at += entry.len)
	{
		if (entry.kind != UNDO_KIND_RUN ||
			(entry.flags & UNDO_RUN_APPLIED) != 0 ||
			entry.fxid < context->all_visible_before)
			continue;
		if (entry.fxid != known)
		{
			if (entry.fxid >=
				U64FromFullTransactionId(ReadNextFullTransactionId()))
				undo_scan_report_corruption(ref, pos->block,
											"run of a transaction that was never started");
			status = undo_scan_xid_status(entry.fxid);
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

/* append to the ranges; joins what belongs together */
static void
add_range(UndoLogScan *scan, const UndoOpenRange *range)
{
	Assert(range->npages > 0 && range->running <= range->awaited);
	Assert(range->awaited != InvalidFxid || range->unapplied != InvalidFxid);
	if (scan->nranges > 0)
	{
		UndoOpenRange *last = &scan->ranges[scan->nranges - 1];

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
												   max *
												   sizeof(UndoOpenRange));
		else
			scan->room.ranges = repalloc_huge(scan->room.ranges,
											  max * sizeof(UndoOpenRange));
		scan->room.max = max;
		scan->ranges = scan->room.ranges;
	}
	Assert(scan->nranges < scan->room.max);
	scan->ranges[scan->nranges++] = *range;
}

static void
add_open_page(UndoLogScan *scan, const UndoPagePos *pos,
			  const UndoPageFindings *findings)
{
	UndoOpenRange range;

	Assert(!undo_scan_is_final(findings));
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
first_offset(const UndoLogScan *scan, const UndoPagePos *pos)
{
	if (pos->block == UndoLogHeadBlock(scan->head_seen))
		return UndoLogHeadOffset(scan->head_seen);
	return UNDO_FIRST_OFFSET;
}

/*
 * What is wrong with the first byte that isn't discarded, or NULL.  It is one of
 * an entry, or the end of the page; else a scan would read bytes of a record as
 * entries.  What is before it is below H, which was published first, and nothing
 * of it is left to be rolled back.
 */
static const char *
head_problem(Page page, uint16 offset)
{
	UndoHorizons hz = undo_log_horizons();
	uint16		at = UNDO_FIRST_OFFSET;
	UndoEntry	entry;

	while (at < offset)
	{
		if (!undo_page_get(page, at, &entry) || entry.len == 0)
			return "malformed entry, or none, before the head";
		if (entry.kind == UNDO_KIND_RUN &&
			(entry.fxid >= hz.discard_before ||
			 undo_scan_run_is_unapplied(&entry, hz.all_visible_before)))
			return "the head is behind records that are still needed";
		at += entry.len;
	}
	return at == offset ? NULL : "the head is within an entry";
}

static bool
start_at_head(const UndoLogRef *ref, UndoLogScan *scan, uint64 head)
{
	PGAlignedBlock page;
	BlockNumber block = UndoLogHeadBlock(head);
	const char *problem;

	Assert((BlockNumberIsValid(block) && block != 0) || undo_debug_damage);
	if (!copy_page(ref, block, page.data))
	{
		if (pg_atomic_read_u64(&ref->shared->head) != head)
			return false;
		undo_scan_report_corruption(ref, block,
									"head is beyond the blocks in use");
	}

	/* heads are published before pages are recycled */
	if (pg_atomic_read_u64(&ref->shared->head) != head)
		return false;
	problem = head_problem(page.data, UndoLogHeadOffset(head));
	if (problem != NULL)
		undo_scan_report_corruption(ref, block, problem);

	scan->head_seen = head;
	scan->head.block = block;
	scan->head.seq = UndoPageGetOpaque(page.data)->seq;
	scan->cursor = scan->head;
	scan->nranges = 0;
	scan->nmarks = 0;
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
range_is_due(const UndoOpenRange *range, const UndoScanContext *context,
			 bool turn)
{
	Assert(range->awaited != InvalidFxid || range->unapplied != InvalidFxid);
	if (range->unapplied != InvalidFxid ||
		range->awaited < context->all_visible_before ||
		(range->mixed && turn))
		return true;
	return undo_scan_xid_status(range->awaited) != UNDO_XID_RUNNING ||
		(range->running != range->awaited &&
		 undo_scan_xid_status(range->running) != UNDO_XID_RUNNING);
}

/*
 * Look at the open pages again.  Of a range only the first page is read, and
 * the following ones as far as those before them have become final: what runs
 * on these is of one top transaction, that of the last running writer, since a
 * log is one transaction's until it ends or is prepared.
 */
static bool
rescan_ranges(const UndoLogRef *ref, UndoLogScan *scan,
			  UndoScanContext *context)
{
	UndoRangeArray old = scan->room;
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
		UndoOpenRange range = old.ranges[i];

		if (!range_is_due(&range, context,
						  ((uint32) i + scan->turn) % stride == 0))
		{
			add_range(scan, &range);
			continue;
		}
		while (range.npages > 0)
		{
			UndoPageFindings findings;

			if (!undo_scan_copy_page(ref, scan, &range.first, page.data))
				return false;
			judge_page(ref, &range.first, page.data,
					   first_offset(scan, &range.first), context, &findings);
			if (findings.awaited == range.awaited &&
				findings.running == range.running &&
				findings.mixed == range.mixed &&
				findings.unapplied == range.unapplied &&
				findings.dboid == range.dboid)
				break;
			if (!undo_scan_is_final(&findings))
				add_open_page(scan, &range.first, &findings);
			undo_scan_step(&range.first, page.data);
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
scan_log_once(const UndoLogRef *ref, UndoLogScan *scan,
			  UndoScanContext *context)
{
	BlockNumber tail = pg_atomic_read_u32(&ref->shared->tail);
	uint64		head = pg_atomic_read_u64(&ref->shared->head);
	PGAlignedBlock page;

	if (tail == InvalidBlockNumber)
	{
		undo_scan_forget(scan);
		scan->empty = true;
		return true;
	}
	if (tail == UNDO_TAIL_UNKNOWN)
	{
		last_block = 0;
		undo_scan_report_corruption(ref, 0, "the control page is damaged");
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

	Assert(scan->started && !scan->empty);
	if (!rescan_ranges(ref, scan, context))
		return false;

	while (scan->cursor.block != tail)
	{
		UndoPageFindings findings;

		if (!undo_scan_copy_page(ref, scan, &scan->cursor, page.data))
			return false;
		judge_page(ref, &scan->cursor, page.data,
				   first_offset(scan, &scan->cursor), context, &findings);
		if (!undo_scan_is_final(&findings))
			add_open_page(scan, &scan->cursor, &findings);
		note_page(scan, &findings);
		undo_scan_step(&scan->cursor, page.data);
	}

	if (!undo_scan_copy_page(ref, scan, &scan->cursor, page.data))
		return false;
	judge_page(ref, &scan->cursor, page.data,
			   first_offset(scan, &scan->cursor), context, &scan->tail);
	scan->moved = false;
	return true;
}

/* a page that isn't found so often with the head where it was is lost */
#define STUCK_TRIES		20

/* has the log got head and tail; the tail of a new one comes first */
static bool
head_is_known(const UndoLogRef *ref)
{
	BlockNumber head =
		UndoLogHeadBlock(pg_atomic_read_u64(&ref->shared->head));

	return head != InvalidBlockNumber && head != 0;
}

static void
scan_log(const UndoLogRef *ref, UndoLogScan *scan, UndoScanContext *context)
{
	uint64		last_head = 0;
	int			stuck = 0;

	/* each try may read the whole log to look for one page */
	for (int tries = 0; tries < 1000 && stuck < STUCK_TRIES; tries++)
	{
		uint64		head = pg_atomic_read_u64(&ref->shared->head);

		if (scan_log_once(ref, scan, context))
			return;
		undo_scan_forget(scan);
		stuck = head == last_head && head_is_known(ref) ? stuck + 1 : 0;
		last_head = head;
		CHECK_FOR_INTERRUPTS();
	}
	undo_scan_report_corruption(ref, pg_atomic_read_u32(&ref->shared->tail),
								"pages between head and tail are not to be found");
}

bool
undo_scan_is_damage(int code)
{
	return code == ERRCODE_DATA_CORRUPTED || code == ERRCODE_IO_ERROR ||
		code == ERRCODE_UNDEFINED_FILE;
}

/* As scan_log(); tells the views where a log can't be read. */
static void
scan_log_noting_damage(const UndoLogRef *ref, UndoLogScan *scan,
					   UndoScanContext *context)
{
	PG_TRY();
	{
		scan_log(ref, scan, context);
	}
	PG_CATCH();
	{
		if (undo_scan_is_damage(geterrcode()))
			pg_atomic_write_u32(&ref->shared->unreadable, last_block);
		PG_RE_THROW();
	}
	PG_END_TRY();
	if (pg_atomic_read_u32(&ref->shared->unreadable) != InvalidBlockNumber)
		pg_atomic_write_u32(&ref->shared->unreadable, InvalidBlockNumber);
}

/*
 * As scan_log(), but a log whose last scan ended in an error is left alone
 * for a while; false then.  One bad page must not stop the others.
 */
bool
undo_scan_log(const UndoLogRef *ref, UndoLogScan *scan,
			  UndoScanContext *context)
{
	AssertNoPageLocked();
	Assert(CritSectionCount == 0);
	if (scan->in_progress)
	{
		scan->in_progress = false;
		undo_scan_forget(scan);
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
	scan_log_noting_damage(ref, scan, context);
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
undo_scan_has_unapplied(Oid dboid)
{
	UndoScanContext context = {0};
	UndoLogRef *refs;
	int			nlogs;

	AssertNoPageLocked();
	context.all_visible_before = undo_log_horizons().all_visible_before;
	UNDO_POINT("has-unapplied-horizon");
	context.wanted = dboid;
	refs = undo_scan_list_logs(&nlogs);
	for (int i = 0; i < nlogs && !context.found; i++)
	{
		UndoLogScan scan = {0};

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
	UndoPagePos pos;
} VisitResume;

static VisitResume visit_resume = {-1};

/*
 * Visit the pages of a range, from *start on if that is one of them.  Returns
 * false if the visitor said so; *start is the next page then.
 */
static bool
visit_range(const UndoLogRef *ref, const UndoLogScan *scan,
			const UndoOpenRange *range,
			UndoPagePos *start, undo_visit_fn visit, void *arg)
{
	UndoPagePos pos = range->first;
	uint64		end = range->first.seq + range->npages;
	PGAlignedBlock page;

	Assert(range->npages > 0);
	if (start->seq >= end)
		return true;
	if (start->seq > pos.seq)
		pos = *start;
	while (pos.seq < end)
	{
		bool		go_on;

		if (!undo_scan_copy_page(ref, scan, &pos, page.data))
			return true;		/* somebody else was faster */
		UNDO_POINT("undo-page-copied");
		go_on = visit(ref->persistence, ref->number, pos.block, page.data,
					  first_offset(scan, &pos), arg);
		undo_scan_step(&pos, page.data);
		if (!go_on)
		{
			*start = pos;
			return false;
		}
	}
	return true;
}

static bool
visit_log(const UndoLogRef *ref, const UndoLogScan *scan, Oid dboid,
		  UndoPagePos *start,
		  undo_visit_fn visit, void *arg)
{
	for (int i = 0; i < scan->nranges; i++)
	{
		UndoOpenRange *range = &scan->ranges[i];

		if (range->unapplied == InvalidFxid ||
			(OidIsValid(dboid) && OidIsValid(range->dboid) &&
			 range->dboid != dboid))
			continue;
		if (!visit_range(ref, scan, range, start, visit, arg))
			return false;
	}
	if (scan->tail.unapplied != InvalidFxid)
	{
		UndoOpenRange tail = {0};

		tail.first = scan->cursor;
		tail.npages = 1;
		return visit_range(ref, scan, &tail, start, visit, arg);
	}
	return true;
}

/* See undo_scan.h.  Reads the logs with the memory of earlier calls. */
bool
undo_scan_visit_unapplied(Oid dboid, undo_visit_fn visit, void *arg)
{
	UndoScanContext context = {0};
	VisitResume resume = visit_resume;
	UndoLogRef *refs;
	int			nlogs;
	bool		full = resume.log < 0;

	AssertNoPageLocked();
	Assert(CritSectionCount == 0);
	context.all_visible_before = undo_log_horizons().all_visible_before;
	UNDO_POINT("visit-horizon");
	context.wanted = dboid;
	refs = undo_scan_list_logs(&nlogs);
	visit_resume.log = -1;
	for (int i = Max(resume.log, 0); i < nlogs; i++)
	{
		UndoLogScan *scan = undo_scan_of_log(&refs[i]);
		UndoPagePos start = {0};

		if (i == resume.log)
			start = resume.pos;
		if (!undo_scan_log(&refs[i], scan, &context) || scan->empty)
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
