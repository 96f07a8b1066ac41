/*-------------------------------------------------------------------------
 *
 * undo_stat.c
 *	  What the store counts, and what the last discard pass found, for views.
 *
 * Counters of rare events are atomics.  What happens with each record is
 * counted in the shared state of the log, by its one writer, and summed up when
 * somebody asks.
 *
 * The launcher publishes after each pass how much undo goes with which xid, and
 * which rollbacks are pending; rollback workers add how they get on.  That is
 * behind an LWLock, which is held for the copy of a few kilobytes.
 *
 * Counters survive a clean shutdown, as those of core do.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#include "undo/log/undo_shmem.h"
#include "undo/log/undo_stat.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* counters at a clean shutdown */
#define STAT_FILE			PGSTAT_STAT_PERMANENT_DIRECTORY "/zheap_undo.stat"
#define STAT_FILE_MAGIC		0x5A535431

#define STAT_TRANCHE		"zheap_stats"

/* a rollback by the aborting session, by number of its process */
typedef struct ForegroundStat
{
	pg_atomic_uint64 fxid;		/* Invalid: none */
	uint64		bytes;
	int			pid;
	TimestampTz started;
} ForegroundStat;

typedef struct UndoStatShared
{
	LWLock	   *lock;
	pg_atomic_uint64 counters[UNDO_COUNTERS];
	pg_atomic_uint64 reset_at;	/* a TimestampTz */
	/* behind the lock */
	TimestampTz last_pass;
	uint32		kept_by;
	Fxid		horizon;
	int			nsteps;
	UndoStatStep steps[UNDO_STAT_STEPS];
	int			nrollbacks;
	UndoRollbackStat rollbacks[UNDO_STAT_ROLLBACKS];
	ForegroundStat foreground[FLEXIBLE_ARRAY_MEMBER];
} UndoStatShared;

/* what stands in the file */
typedef struct UndoStatFile
{
	uint32		magic;
	uint32		ncounters;
	TimestampTz reset_at;
	uint64		counters[UNDO_COUNTERS];
} UndoStatFile;

static UndoStatShared *stat_shared = NULL;

/* setting, ms */
int			undo_stat_log_rollback = -1;

/* ----------------------------------------------------------------
 *	shared memory, and what lasts longer
 * ----------------------------------------------------------------
 */

static int
max_processes(void)
{
	return MaxBackends + 1;
}

static Size
shmem_size(void)
{
	return add_size(offsetof(UndoStatShared, foreground),
					mul_size(sizeof(ForegroundStat), max_processes()));
}

void
undo_stat_shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size());
	RequestNamedLWLockTranche(STAT_TRANCHE, 1);
}

/* What the logs have counted since the server started. */
static uint64
sum_of_logs(UndoCounter counter)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	uint64		sum = 0;

	Assert(counter == UNDO_COUNT_BYTES || counter == UNDO_COUNT_RECORDS);
	for (int k = 0; k < lengthof(kinds); k++)
	{
		int			n = undo_shmem_log_count(kinds[k]);

		for (UndoLogNumber i = 0; i < n; i++)
		{
			UndoLogShared *log = undo_shmem_log(kinds[k], i);

			sum += pg_atomic_read_u64(counter == UNDO_COUNT_BYTES ?
									  &log->bytes_written : &log->records);
		}
	}
	return sum;
}

uint64
undo_stat_total(UndoCounter counter)
{
	uint64		value = pg_atomic_read_u64(&stat_shared->counters[counter]);

	Assert(counter < UNDO_COUNTERS);
	if (counter == UNDO_COUNT_BYTES || counter == UNDO_COUNT_RECORDS)
		value += sum_of_logs(counter);
	return value;
}

static void
reset_counters(void)
{
	for (int i = 0; i < UNDO_COUNTERS; i++)
		pg_atomic_write_u64(&stat_shared->counters[i],
							i == UNDO_COUNT_BYTES || i == UNDO_COUNT_RECORDS ?
							0 - sum_of_logs(i) : 0);
	pg_atomic_write_u64(&stat_shared->reset_at, GetCurrentTimestamp());
}

void
undo_stat_reset(void)
{
	reset_counters();
}

/* The postmaster ends. */
static void
write_file(int code, Datum arg)
{
	UndoStatFile content =
	{.magic = STAT_FILE_MAGIC,.ncounters = UNDO_COUNTERS};
	FILE	   *file;

	/* a crash: what is in shared memory may be anything */
	if (code != 0)
		return;
	content.reset_at = pg_atomic_read_u64(&stat_shared->reset_at);
	for (int i = 0; i < UNDO_COUNTERS; i++)
		content.counters[i] = undo_stat_total(i);
	file = AllocateFile(STAT_FILE ".tmp", PG_BINARY_W);
	if (file == NULL ||
		fwrite(&content, sizeof(content), 1, file) != 1 ||
		FreeFile(file) != 0 ||
		durable_rename(STAT_FILE ".tmp", STAT_FILE, LOG) != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STAT_FILE)));
}

/* What is counted goes on from the file, which doesn't outlive a crash. */
static void
read_file(void)
{
	UndoStatFile content;
	FILE	   *file = AllocateFile(STAT_FILE, PG_BINARY_R);

	if (file == NULL)
		return;
	if (fread(&content, sizeof(content), 1, file) == 1 &&
		content.magic == STAT_FILE_MAGIC &&
		content.ncounters == UNDO_COUNTERS)
	{
		pg_atomic_write_u64(&stat_shared->reset_at, content.reset_at);
		for (int i = 0; i < UNDO_COUNTERS; i++)
			pg_atomic_write_u64(&stat_shared->counters[i],
								content.counters[i]);
	}
	FreeFile(file);
	unlink(STAT_FILE);
}

void
undo_stat_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	stat_shared =
		ShmemInitStruct("zheap undo statistics", shmem_size(), &found);
	if (!found)
	{
		memset(stat_shared, 0, shmem_size());
		stat_shared->lock = &(GetNamedLWLockTranche(STAT_TRANCHE))->lock;
		for (int i = 0; i < UNDO_COUNTERS; i++)
			pg_atomic_init_u64(&stat_shared->counters[i], 0);
		pg_atomic_init_u64(&stat_shared->reset_at, GetCurrentTimestamp());
		for (int i = 0; i < max_processes(); i++)
			pg_atomic_init_u64(&stat_shared->foreground[i].fxid, InvalidFxid);
		read_file();
	}
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
		on_shmem_exit(write_file, (Datum) 0);
}

void
undo_stat_add(UndoCounter counter, uint64 n)
{
	Assert(counter < UNDO_COUNTERS);
	pg_atomic_fetch_add_u64(&stat_shared->counters[counter], n);
}

/* Which process does it tells why it was done. */
void
undo_stat_count_rollback_page(void)
{
	if (MyBgworkerEntry != NULL)
		undo_stat_add(UNDO_COUNT_WORKER_PAGES, 1);
	else if (MyProcNumber >= 0 && MyProcNumber < max_processes() &&
			 pg_atomic_read_u64(&stat_shared->foreground[MyProcNumber].fxid) !=
			 InvalidFxid)
		undo_stat_add(UNDO_COUNT_FOREGROUND_PAGES, 1);
	else
		undo_stat_add(UNDO_COUNT_VISITOR_PAGES, 1);
}

TimestampTz
undo_stat_reset_time(void)
{
	return (TimestampTz) pg_atomic_read_u64(&stat_shared->reset_at);
}

/* ----------------------------------------------------------------
 *	undo by xid
 * ----------------------------------------------------------------
 */

static int
compare_steps(const void *a, const void *b)
{
	const UndoStatStep *x = a;
	const UndoStatStep *y = b;

	return x->last < y->last ? -1 : (x->last > y->last ? 1 : 0);
}

/*
 * Sort the steps and join neighbours until they are few.  The joined one goes
 * with the later xid: what can be discarded is rather told too small.
 */
static int
compact_steps(UndoStatStep *steps, int n)
{
	uint64		total = 0;
	uint64		share;
	int			kept = 0;

	qsort(steps, n, sizeof(UndoStatStep), compare_steps);
	for (int i = 0; i < n; i++)
		total += steps[i].pages;
	share = n <= UNDO_STAT_STEPS ? 0 : total / (UNDO_STAT_STEPS / 2) + 1;
	for (int i = 0; i < n; i++)
	{
		Assert(steps[i].blocked <= steps[i].pages);
		if (kept > 0 && (steps[kept - 1].last == steps[i].last ||
						 steps[kept - 1].pages + steps[i].pages <= share))
		{
			steps[kept - 1].last = steps[i].last;
			steps[kept - 1].pages += steps[i].pages;
			steps[kept - 1].blocked += steps[i].blocked;
		}
		else
			steps[kept++] = steps[i];
	}
	Assert(kept <= UNDO_STAT_STEPS);
	return kept;
}

/* ----------------------------------------------------------------
 *	rollbacks
 * ----------------------------------------------------------------
 */

static UndoRollbackStat *
find_rollback(Fxid fxid, Oid dboid)
{
	Assert(LWLockHeldByMeInMode(stat_shared->lock, LW_EXCLUSIVE));
	Assert(fxid != InvalidFxid);
	for (int i = 0; i < stat_shared->nrollbacks; i++)
	{
		UndoRollbackStat *entry = &stat_shared->rollbacks[i];

		if (entry->fxid == fxid && (entry->dboid == dboid ||
									!OidIsValid(entry->dboid) ||
									!OidIsValid(dboid)))
			return entry;
	}
	return NULL;
}

/* NULL: there are too many */
static UndoRollbackStat *
find_or_add_rollback(Fxid fxid, Oid dboid)
{
	UndoRollbackStat *entry = find_rollback(fxid, dboid);

	if (entry != NULL || stat_shared->nrollbacks == UNDO_STAT_ROLLBACKS)
		return entry;
	entry = &stat_shared->rollbacks[stat_shared->nrollbacks++];
	memset(entry, 0, sizeof(*entry));
	entry->fxid = fxid;
	entry->dboid = dboid;
	entry->started = GetCurrentTimestamp();
	return entry;
}

static void
log_finished(const UndoRollbackStat *entry)
{
	TimestampTz now = GetCurrentTimestamp();

	Assert(!LWLockHeldByMe(stat_shared->lock));
	if (undo_stat_log_rollback < 0 || entry->table_pages == 0 ||
		!TimestampDifferenceExceeds(entry->started, now,
									undo_stat_log_rollback))
		return;
	ereport(LOG,
			(errmsg("rollback of transaction " UINT64_FORMAT " finished after %ld ms: " UINT64_FORMAT " undo pages, " UINT64_FORMAT " visits to table pages, %d failed attempts",
					entry->fxid,
					TimestampDifferenceMilliseconds(entry->started, now),
					entry->pages_total, entry->table_pages, entry->tries)));
}

/*
 * Take over what a pass found.  Those that it doesn't name any more are
 * finished, unless a log couldn't be read; they go to *finished.
 */
static int
merge_rollbacks(const UndoPassReport *report, UndoRollbackStat *finished)
{
	int			nfinished = 0;
	int			kept = 0;

	Assert(LWLockHeldByMeInMode(stat_shared->lock, LW_EXCLUSIVE));
	for (int i = 0; i < stat_shared->nrollbacks; i++)
		stat_shared->rollbacks[i].pages_left = 0;
	for (int i = 0; i < report->nrollbacks; i++)
	{
		const UndoRollbackStat *found = &report->rollbacks[i];
		UndoRollbackStat *entry = find_or_add_rollback(found->fxid,
													   found->dboid);

		if (entry == NULL)
			break;
		entry->pages_left += found->pages_left;
		entry->pages_total = Max(entry->pages_total, entry->pages_left);
	}
	for (int i = 0; i < stat_shared->nrollbacks; i++)
	{
		UndoRollbackStat *entry = &stat_shared->rollbacks[i];

		Assert(nfinished + kept == i);
		if (entry->pages_left == 0 &&
			(report->kept_by & UNDO_KEPT_UNREADABLE) == 0)
			finished[nfinished++] = *entry;
		else
			stat_shared->rollbacks[kept++] = *entry;
	}
	stat_shared->nrollbacks = kept;
	return nfinished;
}

void
undo_stat_report_pass(UndoPassReport *report)
{
	UndoRollbackStat *finished =
		palloc(sizeof(UndoRollbackStat) * UNDO_STAT_ROLLBACKS);
	int			nsteps = compact_steps(report->steps, report->nsteps);
	int			nfinished;

	Assert(CritSectionCount == 0 && !LWLockHeldByMe(stat_shared->lock));
	LWLockAcquire(stat_shared->lock, LW_EXCLUSIVE);
	stat_shared->last_pass = GetCurrentTimestamp();
	stat_shared->kept_by = report->kept_by;
	stat_shared->horizon = report->horizon;
	memcpy(stat_shared->steps, report->steps, nsteps * sizeof(UndoStatStep));
	stat_shared->nsteps = nsteps;
	nfinished = merge_rollbacks(report, finished);
	LWLockRelease(stat_shared->lock);

	undo_stat_add(UNDO_COUNT_PASSES, 1);
	for (int i = 0; i < nfinished; i++)
	{
		if (finished[i].table_pages > 0)
			undo_stat_add(UNDO_COUNT_FINISHED, 1);
		log_finished(&finished[i]);
	}
	pfree(finished);
}

/* See undo_stat.h. */
void
undo_stat_report_run(Fxid fxid, Oid dboid, Oid reloid,
					 UndoRollbackState state, uint32 npages,
					 const char *error)
{
	UndoRollbackStat *entry;

	Assert(state != UNDO_ROLLBACK_FOREGROUND);
	Assert((state == UNDO_ROLLBACK_FAILED) == (error != NULL));
	LWLockAcquire(stat_shared->lock, LW_EXCLUSIVE);
	entry = find_or_add_rollback(fxid, dboid);
	if (entry != NULL)
	{
		entry->state = state;
		entry->pid = MyProcPid;
		entry->reloid = reloid;
		entry->table_pages += npages;
		if (error != NULL)
		{
			entry->tries++;
			entry->failed_at = GetCurrentTimestamp();
			strlcpy(entry->error, error, UNDO_STAT_ERROR_LEN);
		}
	}
	LWLockRelease(stat_shared->lock);
}

/* See undo_stat.h.  In abort callbacks: throws nothing, takes no lock. */
void
undo_stat_report_foreground(Fxid fxid, uint64 bytes)
{
	ForegroundStat *entry;

	if (MyProcNumber < 0 || MyProcNumber >= max_processes())
		return;
	entry = &stat_shared->foreground[MyProcNumber];
	entry->bytes = bytes;
	entry->pid = MyProcPid;
	if (fxid != InvalidFxid)
		entry->started = GetCurrentTimestamp();
	pg_write_barrier();
	pg_atomic_write_u64(&entry->fxid, fxid);
}

static void
add_foreground(UndoRollbackStat *list, int *n)
{
	for (int i = 0; i < max_processes() && *n < UNDO_STAT_ROLLBACKS * 2; i++)
	{
		ForegroundStat *shared = &stat_shared->foreground[i];
		Fxid		fxid = pg_atomic_read_u64(&shared->fxid);
		UndoRollbackStat *entry = NULL;

		if (fxid == InvalidFxid)
			continue;
		pg_read_barrier();
		for (int k = 0; k < *n && entry == NULL; k++)
			if (list[k].fxid == fxid)
				entry = &list[k];
		if (entry == NULL)
		{
			Assert(*n < UNDO_STAT_ROLLBACKS * 2);
			entry = &list[(*n)++];
			memset(entry, 0, sizeof(*entry));
			entry->fxid = fxid;
			entry->pages_total = entry->pages_left =
				(shared->bytes + BLCKSZ - 1) / BLCKSZ;
			entry->started = shared->started;
		}
		entry->state = UNDO_ROLLBACK_FOREGROUND;
		entry->pid = shared->pid;
	}
}

/* ----------------------------------------------------------------
 *	what views read
 * ----------------------------------------------------------------
 */

/* See undo_stat.h.  Results are in the current memory context. */
UndoStatSummary *
undo_stat_summary(void)
{
	UndoStatSummary *summary = palloc0(sizeof(UndoStatSummary));

	Assert(CritSectionCount == 0);
	undo_shmem_require();
	summary->steps = palloc(sizeof(UndoStatStep) * UNDO_STAT_STEPS);
	summary->rollbacks =
		palloc(sizeof(UndoRollbackStat) * UNDO_STAT_ROLLBACKS * 2);

	LWLockAcquire(stat_shared->lock, LW_SHARED);
	summary->last_pass = stat_shared->last_pass;
	summary->kept_by = stat_shared->kept_by;
	summary->horizon = stat_shared->horizon;
	summary->nsteps = stat_shared->nsteps;
	memcpy(summary->steps, stat_shared->steps,
		   sizeof(UndoStatStep) * summary->nsteps);
	summary->nrollbacks = stat_shared->nrollbacks;
	memcpy(summary->rollbacks, stat_shared->rollbacks,
		   sizeof(UndoRollbackStat) * summary->nrollbacks);
	LWLockRelease(stat_shared->lock);

	add_foreground(summary->rollbacks, &summary->nrollbacks);
	return summary;
}

/* pages of undo that could go if only xids from "from" on were needed */
uint64
undo_stat_pages_before(const UndoStatSummary *summary, Fxid from)
{
	uint64		pages = 0;

	for (int i = 0; i < summary->nsteps; i++)
		if (summary->steps[i].last < from)
			pages += summary->steps[i].pages - summary->steps[i].blocked;
	return pages;
}

/* pages that a holder of xids from "from" on keeps, with others or alone */
uint64
undo_stat_pages_from(const UndoStatSummary *summary, Fxid from)
{
	uint64		pages = 0;

	for (int i = 0; i < summary->nsteps; i++)
		if (summary->steps[i].last >= from)
			pages += summary->steps[i].pages;
	return pages;
}

/* pages behind runs that have to be rolled back; of those, which could go */
uint64
undo_stat_pages_blocked(const UndoStatSummary *summary, Fxid horizon)
{
	uint64		pages = 0;

	for (int i = 0; i < summary->nsteps; i++)
		if (summary->steps[i].last < horizon)
			pages += summary->steps[i].blocked;
	return pages;
}

/* See undo_stat.h. */
uint64
undo_stat_own_bytes(void)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	uint64		bytes = 0;

	for (int k = 0; k < lengthof(kinds); k++)
	{
		int			n = undo_shmem_log_count(kinds[k]);

		for (UndoLogNumber i = 0; i < n; i++)
		{
			UndoLogShared *log = undo_shmem_log(kinds[k], i);

			if (pg_atomic_read_u32(&log->owner_pid) == MyProcPid)
				bytes += pg_atomic_read_u64(&log->bytes_written) -
					log->bytes_at_attach;
		}
	}
	return bytes;
}
