/*-------------------------------------------------------------------------
 *
 * undo_snapshot_limit.c
 *	  zheap.max_snapshot_undo_size: snapshots that keep too much undo are asked
 *	  to go.
 *
 * Undo is never discarded while a snapshot needs it.  What the limit does is to
 * end the statement or the session that has the snapshot; then a later pass of
 * the launcher finds the horizon higher.  So no reader can miss a row.
 *
 * A snapshot answers for the undo that would go if all client sessions gave up
 * their snapshots: not for what running or prepared transactions, replication
 * slots, standbys and processes that serve no client keep anyway, its own
 * transaction's writes among them.
 *
 * The launcher asks by noting the snapshot's xmin for the process.  A statement
 * that reads a zheap table sees that and fails with 72000.  One that is still
 * there half a second later is cancelled as by pg_cancel_backend(), which
 * becomes the same error where the executor runs; a session that is idle in a
 * transaction is terminated.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <signal.h>

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/shmem.h"
#include "utils/backend_status.h"
#include "utils/timestamp.h"

#include "undo/discard/undo_snapshot_limit.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_stat.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

#ifndef ERRCODE_SNAPSHOT_TOO_OLD
#define ERRCODE_SNAPSHOT_TOO_OLD	MAKE_SQLSTATE('7', '2', '0', '0', '0')
#endif

/* time between asking and a signal, and between signals */
#define SIGNAL_AFTER_MS		UNDO_KNOB("snapshot-signal-after", 500, 1, 500)

/* what was asked of a process; written by the launcher only */
typedef struct Asked
{
	pg_atomic_uint32 xmin;		/* of the snapshot; Invalid: nothing */
	int			pid;
	bool		still;			/* found again by the present round */
	TimestampTz since;			/* when it was asked or signalled last */
} Asked;

typedef struct AskedShared
{
	pg_atomic_uint32 n;			/* snapshots that are asked */
	/* by place in the array of processes; sessions are the first ones */
	Asked		asked[FLEXIBLE_ARRAY_MEMBER];
} AskedShared;

static Asked *asked = NULL;

/* without shared memory nobody is asked, and other errors say so */
static pg_atomic_uint32 nobody;
pg_atomic_uint32 *undo_snapshots_asked = &nobody;

/* setting, kB */
int			undo_snapshot_limit = -1;

static Size
shmem_size(void)
{
	return add_size(offsetof(AskedShared, asked),
					mul_size(sizeof(Asked), MaxBackends));
}

void
undo_snapshot_limit_shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size());
}

void
undo_snapshot_limit_shmem_startup(void)
{
	bool		found;
	AskedShared *shared;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("zheap snapshots that are too old", shmem_size(),
							 &found);
	asked = shared->asked;
	undo_snapshots_asked = &shared->n;
	if (!found)
	{
		memset(shared, 0, shmem_size());
		pg_atomic_init_u32(&shared->n, 0);
		for (int i = 0; i < MaxBackends; i++)
			pg_atomic_init_u32(&asked[i].xmin, InvalidTransactionId);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ----------------------------------------------------------------
 *	in the session that was asked
 * ----------------------------------------------------------------
 */

/* Is it my present snapshot that shall go? */
static bool
am_asked(void)
{
	int			i = MyProc == NULL ? MaxBackends :
		(int) (MyProc - ProcGlobal->allProcs);
	TransactionId xmin;

	if (i >= MaxBackends || !IsTransactionState())
		return false;
	xmin = pg_atomic_read_u32(&asked[i].xmin);
	return TransactionIdIsNormal(xmin) && MyProc->xmin == xmin;
}

static void
give_up(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_SNAPSHOT_TOO_OLD),
			 errmsg("snapshot too old"),
			 errdetail("The snapshot keeps more undo than zheap.max_snapshot_undo_size allows."),
			 errhint("Use shorter transactions, or ask for a higher limit.")));
}

void
undo_snapshot_limit_give_up(void)
{
	Assert(CritSectionCount == 0);
	if (am_asked())
		give_up();
}

/*
 * Not in a subtransaction: handlers for all errors, which leave a
 * cancelling alone, would catch it, be it ours, a user's or statement_timeout's.
 */
void
undo_snapshot_limit_translate(void)
{
	Assert(CritSectionCount == 0);
	if (pg_atomic_read_u32(undo_snapshots_asked) != 0 &&
		geterrcode() == ERRCODE_QUERY_CANCELED &&
		GetCurrentTransactionNestLevel() == 1 && am_asked())
	{
		FlushErrorState();
		give_up();
	}
}

/* ----------------------------------------------------------------
 *	in the launcher
 * ----------------------------------------------------------------
 */

/* a session that has a snapshot */
typedef struct Candidate
{
	int			place;
	int			pid;
	TransactionId xmin;
} Candidate;

/*
 * All snapshots that can be given up; and, in *others, the oldest xid that is
 * needed by something else: a transaction with changes, prepared ones included,
 * a replication slot, a standby.
 */
static int
find_candidates(Candidate *list, Fxid *others)
{
	TransactionId oldest = GetOldestActiveTransactionId();
	TransactionId xmin;
	TransactionId catalog_xmin;
	int			n = 0;

	ProcArrayGetReplicationSlotXmin(&xmin, &catalog_xmin);
	if (TransactionIdIsNormal(xmin) && TransactionIdPrecedes(xmin, oldest))
		oldest = xmin;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < ProcGlobal->allProcCount; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];

		xmin = proc->xmin;
		if (!TransactionIdIsNormal(xmin) || proc->pid == 0 ||
			proc->pid == UndoShmem->launcher_pid ||
			(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)))
			continue;
		/* a parallel worker has its leader's */
		if (i < MaxBackends && (proc->lockGroupLeader == NULL ||
								proc->lockGroupLeader == proc))
		{
			Assert(n < MaxBackends);
			list[n].place = i;
			list[n].pid = proc->pid;
			list[n++].xmin = xmin;
		}
	}
	LWLockRelease(ProcArrayLock);
	*others = undo_log_fxid_from_xid(oldest);
	return n;
}

/*
 * What its session does, as of the last pgstat_clear_backend_activity_snapshot();
 * NULL: it is no client's.
 */
static const PgBackendStatus *
client_status(int pid)
{
	int			n = pgstat_fetch_stat_numbackends();

	for (int i = 1; i <= n; i++)
	{
		LocalPgBackendStatus *local = pgstat_get_local_beentry_by_index(i);

		if (local != NULL && local->backendStatus.st_procpid == pid)
			return local->backendStatus.st_backendType == B_BACKEND ?
				&local->backendStatus : NULL;
	}
	return NULL;
}

/*
 * Who is no client (a walsender with a standby's xmin or one that copies a
 * table, an autovacuum worker, a subscription's worker) isn't asked: what it
 * keeps, others don't.  A walsender that is gone leaves its xmin in its PGPROC.
 */
static int
remove_others(Candidate *list, int n, Fxid *others)
{
	int			clients = 0;

	Assert(n <= MaxBackends);
	pgstat_clear_backend_activity_snapshot();
	for (int i = 0; i < n; i++)
	{
		if (client_status(list[i].pid) != NULL)
			list[clients++] = list[i];
		else if (BackendPidGetProc(list[i].pid) ==
				 &ProcGlobal->allProcs[list[i].place])
			*others = Min(*others, undo_log_fxid_from_xid(list[i].xmin));
	}
	return clients;
}

/*
 * Does it wait for its client in a transaction?  Without track_activities COPY
 * is taken for that, too.
 */
static bool
is_idle(const Candidate *c, const PgBackendStatus *status)
{
	if (status->st_state != STATE_DISABLED)
		return status->st_state == STATE_IDLEINTRANSACTION;
	return ProcGlobal->allProcs[c->place].wait_event_info ==
		WAIT_EVENT_CLIENT_READ;
}

/* It is still there: cancel or terminate it, if it has the snapshot yet. */
static void
send_signal(const Candidate *c, bool idle)
{
	PGPROC	   *proc = &ProcGlobal->allProcs[c->place];

	Assert(c->place < MaxBackends && c->pid != MyProcPid);
	LWLockAcquire(ProcArrayLock, LW_SHARED);
	if (proc->pid == c->pid && proc->xmin == c->xmin)
		kill(c->pid, idle ? SIGTERM : SIGINT);
	LWLockRelease(ProcArrayLock);
}

static void
ask(const Candidate *c, uint64 kb)
{
	Asked	   *a = &asked[c->place];
	const PgBackendStatus *status;
	TimestampTz now = GetCurrentTimestamp();
	bool		idle;

	Assert(c->place < MaxBackends && TransactionIdIsNormal(c->xmin));
	pgstat_clear_backend_activity_snapshot();
	status = client_status(c->pid);
	if (status == NULL)
		return;
	a->still = true;
	if (a->pid != c->pid || pg_atomic_read_u32(&a->xmin) != c->xmin)
	{
		a->pid = c->pid;
		a->since = now;
		pg_atomic_write_u32(&a->xmin, c->xmin);
		ereport(LOG,
				(errmsg("snapshot of process %d keeps " UINT64_FORMAT " kB of undo, more than the %d kB that zheap.max_snapshot_undo_size allows",
						c->pid, kb, undo_snapshot_limit)));
		return;
	}
	if (!TimestampDifferenceExceeds(a->since, now, SIGNAL_AFTER_MS))
		return;
	a->since = now;
	idle = is_idle(c, status);
	if (idle)
		ereport(LOG,
				(errmsg("terminating process %d, which is idle in a transaction with a snapshot that is too old",
						c->pid)));
	send_signal(c, idle);
}

/*
 * After a pass that has left so many pages of undo.  Any number of snapshots
 * may be asked to go.
 */
void
undo_snapshot_limit_round(uint64 retained)
{
	uint64		limit = (uint64) undo_snapshot_limit * 1024 / BLCKSZ;
	uint32		n = 0;

	Assert(!OidIsValid(MyDatabaseId));
	if (undo_snapshot_limit < 0 &&
		pg_atomic_read_u32(undo_snapshots_asked) == 0)
		return;

	for (int i = 0; i < MaxBackends; i++)
		asked[i].still = false;
	if (undo_snapshot_limit >= 0 && retained > limit)
	{
		UndoStatSummary *summary = undo_stat_summary();
		Candidate  *list = palloc(sizeof(Candidate) * MaxBackends);
		Fxid		others;
		int			ncandidates = find_candidates(list, &others);
		uint64		needless;

		ncandidates = remove_others(list, ncandidates, &others);
		needless = undo_stat_pages_before(summary, others);

		for (int i = 0; i < ncandidates; i++)
		{
			uint64		before =
				undo_stat_pages_before(summary,
									   undo_log_fxid_from_xid(list[i].xmin));

			if (needless > before && needless - before > limit)
				ask(&list[i], (needless - before) * (BLCKSZ / 1024));
		}
	}
	for (int i = 0; i < MaxBackends; i++)
	{
		if (asked[i].still)
			n++;
		else
			pg_atomic_write_u32(&asked[i].xmin, InvalidTransactionId);
	}
	pg_atomic_write_u32(undo_snapshots_asked, n);
}
