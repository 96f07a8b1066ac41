/*-------------------------------------------------------------------------
 *
 * undo_holders.c
 *	  How much undo is kept, what keeps it, and zheap.max_undo_size.
 *
 * The limit is looked at where a writer holds no lock: the page switch only
 * notes that room may have run out (undo_room_wanted), and the client asks
 * before its next change.  So a log may exceed the limit by a page, and an
 * error can be thrown, or the discard waited for, at a place where both are
 * harmless.  Rollback writes no undo and is never refused.
 *
 * What keeps undo is told here, but not decided: that is undo_discard.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/twophase.h"
#include "access/xact.h"
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "commands/dbcommands.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "replication/slot.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "storage/spin.h"
#include "utils/builtins.h"
#include "utils/memutils.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/wait_event.h"
#include "utils/xid8.h"

#include "undo/discard/undo_holders.h"
#include "undo/log/undo_files.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_stat.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* a writer waits so long for the next passes of the launcher */
#define ROOM_WAIT_MS	UNDO_KNOB("room-wait", 1000, 10, 1000)
#define ROOM_STEP_MS	UNDO_KNOB("room-step", 20, 1, 20)

/* ----------------------------------------------------------------
 *	how much
 * ----------------------------------------------------------------
 */

/*
 * Pages from a log's head to its tail; 0 if nothing on them is kept.  Reads
 * the head page; ERROR only from that.
 */
uint64
undo_holders_retained_pages(char persistence, UndoLogNumber log)
{
	UndoLogShared *shared = undo_shmem_log(persistence, log);
	uint64		head = pg_atomic_read_u64(&shared->head);
	BlockNumber tail = pg_atomic_read_u32(&shared->tail);
	uint64		tail_seq = pg_atomic_read_u64(&shared->seq);
	uint64		head_seq;
	Buffer		buffer;
	Page		page;
	bool		empty = false;

	Assert(CritSectionCount == 0 && persistence != RELPERSISTENCE_TEMP);
	if (!BlockNumberIsValid(tail) ||
		!BlockNumberIsValid(UndoLogHeadBlock(head)) ||
		pg_atomic_read_u32(&shared->state) == UNDO_LOG_RETIRED)
		return 0;

	buffer = undo_file_read_used(persistence, log, UndoLogHeadBlock(head));
	if (!BufferIsValid(buffer))
		return 0;				/* reset meanwhile */
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	if (undo_page_problem(page, UNDO_PAGE_MAGIC) != NULL)
	{
		/* reset meanwhile, or damaged: then all of the log is kept */
		empty = pg_atomic_read_u64(&shared->head) != head;
		tail_seq = pg_atomic_read_u32(&shared->used_blocks);
	}
	else
	{
		head_seq = UndoPageGetOpaque(page)->seq;
		if (head_seq >= tail_seq)
		{
			tail_seq = head_seq;
			empty = UndoLogHeadOffset(head) >= ((PageHeader) page)->pd_lower;
		}
		tail_seq = tail_seq - head_seq + 1;
	}
	UnlockReleaseBuffer(buffer);
	return empty ? 0 : tail_seq;
}

/* kB of undo of all logs of a primary, in whole pages */
static uint64
retained_kb(void)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	uint64		npages = 0;

	for (int k = 0; k < lengthof(kinds); k++)
	{
		int			n = undo_shmem_log_count(kinds[k]);

		for (UndoLogNumber log = 0; log < n; log++)
			if (pg_atomic_read_u32(&undo_shmem_log(kinds[k], log)->state) !=
				UNDO_LOG_ABSENT)
				npages += undo_holders_retained_pages(kinds[k], log);
	}
	return npages * (BLCKSZ / 1024);
}

/* ----------------------------------------------------------------
 *	holders
 * ----------------------------------------------------------------
 */

static UndoHolder *
add_holder(List **list, UndoHolderKind kind, int pid, const char *name,
		   Fxid oldest)
{
	UndoHolder *holder = palloc0(sizeof(UndoHolder));

	Assert(oldest != InvalidFxid);
	holder->kind = kind;
	holder->pid = pid;
	holder->name = name == NULL ? NULL : pstrdup(name);
	holder->oldest = oldest;
	*list = lappend(*list, holder);
	return holder;
}

/*
 * Running transactions and snapshots of processes.  Those that core's
 * horizons leave out are left out here; so is the launcher, whose xmin stands
 * for a pending rollback.  A walsender that is gone leaves its xmin in its
 * PGPROC, until another process takes that.
 */
static void
add_backends(List **list)
{
	int			n = ProcGlobal->allProcCount;
	UndoHolder *found = palloc0(sizeof(UndoHolder) * n);
	PGPROC	  **procs = palloc(sizeof(PGPROC *) * n);
	int			nfound = 0;

	LWLockAcquire(ProcArrayLock, LW_SHARED);
	for (int i = 0; i < n; i++)
	{
		PGPROC	   *proc = &ProcGlobal->allProcs[i];
		TransactionId xid = proc->xid;
		TransactionId xmin = proc->xmin;

		if (proc->pid == 0 || proc->pid == UndoShmem->launcher_pid ||
			(proc->statusFlags & (PROC_IN_VACUUM | PROC_IN_LOGICAL_DECODING)))
			continue;
		if (!TransactionIdIsNormal(xid))
			xid = xmin;
		else if (TransactionIdIsNormal(xmin) &&
				 TransactionIdPrecedes(xmin, xid))
			xid = xmin;
		if (!TransactionIdIsNormal(xid))
			continue;
		/* only a walsender without a slot stands for others */
		found[nfound].kind = proc->statusFlags & PROC_AFFECTS_ALL_HORIZONS ?
			UNDO_HOLDER_STANDBY : UNDO_HOLDER_BACKEND;
		found[nfound].is_writer = xid == proc->xid;
		found[nfound].oldest = xid;
		found[nfound].pid = proc->pid;
		procs[nfound++] = proc;
	}
	LWLockRelease(ProcArrayLock);

	for (int i = 0; i < nfound; i++)
	{
		UndoHolder *holder;

		if (BackendPidGetProc(found[i].pid) != procs[i])
			continue;
		holder = add_holder(list, found[i].kind, found[i].pid, NULL,
							undo_log_fxid_from_xid(XidFromFxid(found[i].oldest)));
		holder->is_writer = found[i].is_writer;
	}
	pfree(procs);
	pfree(found);
}

static void
add_replication_slots(List **list)
{
	for (int i = 0; i < max_replication_slots; i++)
	{
		ReplicationSlot *repslot = &ReplicationSlotCtl->replication_slots[i];
		char		name[NAMEDATALEN];
		TransactionId xmin;
		int			pid;

		LWLockAcquire(ReplicationSlotControlLock, LW_SHARED);
		SpinLockAcquire(&repslot->mutex);
		xmin = repslot->in_use ? repslot->effective_xmin :
			InvalidTransactionId;
		pid = repslot->active_pid;
		memcpy(name, NameStr(repslot->data.name), NAMEDATALEN);
		SpinLockRelease(&repslot->mutex);
		LWLockRelease(ReplicationSlotControlLock);
		if (TransactionIdIsNormal(xmin))
			add_holder(list, UNDO_HOLDER_REPLICATION_SLOT, pid, name,
					   undo_log_fxid_from_xid(xmin));
	}
}

/* Their names are known to core's view only. */
static void
add_prepared(List **list)
{
	MemoryContext caller = CurrentMemoryContext;
	bool		pushed = !ActiveSnapshotSet();
	Oid			userid;
	int			sec_context;

	if (max_prepared_xacts == 0)
		return;
	/* it is for a hint, whoever may read that view */
	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID,
						   sec_context | SECURITY_LOCAL_USERID_CHANGE);
	if (pushed)
		PushActiveSnapshot(GetTransactionSnapshot());
	if (SPI_connect() != SPI_OK_CONNECT ||
		SPI_execute("SELECT gid, transaction FROM pg_catalog.pg_prepared_xacts",
					true, 0) != SPI_OK_SELECT)
		elog(ERROR, "could not read pg_prepared_xacts");
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		HeapTuple	tuple = SPI_tuptable->vals[i];
		TupleDesc	desc = SPI_tuptable->tupdesc;
		char	   *gid = SPI_getvalue(tuple, desc, 1);
		bool		isnull;
		TransactionId xid =
			DatumGetTransactionId(SPI_getbinval(tuple, desc, 2, &isnull));
		MemoryContext spi = MemoryContextSwitchTo(caller);

		add_holder(list, UNDO_HOLDER_PREPARED, 0, gid,
				   undo_log_fxid_from_xid(xid));
		MemoryContextSwitchTo(spi);
	}
	SPI_finish();
	SetUserIdAndSecContext(userid, sec_context);
	if (pushed)
		PopActiveSnapshot();
}

/*
 * Logs that can't be read keep all of theirs, and all_visible_before.  How much
 * that is, is not known.
 */
static void
add_damaged_logs(List **list)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	Fxid		u = undo_log_horizons().all_visible_before;

	for (int k = 0; k < lengthof(kinds); k++)
		for (int i = 0; i < undo_shmem_log_count(kinds[k]); i++)
		{
			BlockNumber block =
				pg_atomic_read_u32(&undo_shmem_log(kinds[k], i)->unreadable);

			if (block != InvalidBlockNumber)
				add_holder(list, UNDO_HOLDER_DAMAGED_LOG, 0,
						   psprintf("%s undo log %d, block %u",
									k == 0 ? "permanent" : "unlogged", i,
									block), u);
		}
}

/*
 * So do databases in which nothing can be rolled back.  They are named by the
 * launcher, which may not have seen yet that one is dropped.
 */
static void
add_unreachable_databases(List **list)
{
	Fxid		u = undo_log_horizons().all_visible_before;

	for (int i = 0; i < UNDO_UNREACHABLE_SHOWN; i++)
	{
		Oid			dboid = pg_atomic_read_u32(&UndoShmem->unreachable[i]);
		char	   *name = OidIsValid(dboid) ? get_database_name(dboid) : NULL;

		if (name != NULL)
			add_holder(list, UNDO_HOLDER_UNREACHABLE, 0, name, u);
	}
}

/*
 * How much undo each holder keeps, by what the last pass found.  When a holder
 * ends the horizon rises to the oldest of the others, of which the snapshot of
 * whoever asks is none; so only the oldest has any bytes to give.  A pending
 * rollback holds the horizon of nobody, but what stands behind it in its logs.
 */
static void
measure(List *list)
{
	UndoStatSummary *summary = undo_stat_summary();
	Fxid		oldest = PG_UINT64_MAX;
	Fxid		second = PG_UINT64_MAX;
	ListCell   *lc;

	foreach(lc, list)
	{
		UndoHolder *holder = lfirst(lc);

		if (holder->kind == UNDO_HOLDER_PENDING_ROLLBACK ||
			holder->pid == MyProcPid)
			continue;
		second = Min(second, Max(oldest, holder->oldest));
		Assert(oldest <= second);
		oldest = Min(oldest, holder->oldest);
	}
	foreach(lc, list)
	{
		UndoHolder *holder = lfirst(lc);
		Fxid		others = holder->oldest == oldest &&
			holder->pid != MyProcPid ? second : oldest;

		if (holder->kind == UNDO_HOLDER_PENDING_ROLLBACK)
		{
			holder->bytes = undo_stat_pages_blocked(summary, oldest) * BLCKSZ;
			holder->held_bytes =
				undo_stat_pages_blocked(summary, PG_UINT64_MAX) * BLCKSZ;
			continue;
		}
		holder->held_bytes =
			undo_stat_pages_from(summary, holder->oldest) * BLCKSZ;
		if (holder->oldest < others)
			holder->bytes = (undo_stat_pages_before(summary, others) -
							 undo_stat_pages_before(summary,
													holder->oldest)) * BLCKSZ;
	}
}

/*
 * Whatever may keep undo, in no order, in the current memory context.  No
 * buffer lock may be held: a catalog is read.
 */
List *
undo_holders(void)
{
	List	   *list = NIL;
	Fxid		unapplied = pg_atomic_read_u64(&UndoShmem->oldest_unapplied);

	Assert(CritSectionCount == 0);
	AssertNoPageLocked();
	add_backends(&list);
	add_replication_slots(&list);
	add_prepared(&list);
	if (unapplied != InvalidFxid)
		add_holder(&list, UNDO_HOLDER_PENDING_ROLLBACK, 0, NULL, unapplied);
	measure(list);
	add_damaged_logs(&list);
	add_unreachable_databases(&list);
	return list;
}

const char *
undo_holders_kind_name(UndoHolderKind kind)
{
	switch (kind)
	{
		case UNDO_HOLDER_BACKEND:
			return "backend";
		case UNDO_HOLDER_PREPARED:
			return "prepared transaction";
		case UNDO_HOLDER_REPLICATION_SLOT:
			return "replication slot";
		case UNDO_HOLDER_STANDBY:
			return "standby feedback";
		case UNDO_HOLDER_PENDING_ROLLBACK:
			return "pending rollback";
		case UNDO_HOLDER_DAMAGED_LOG:
			return "damaged undo log";
		case UNDO_HOLDER_UNREACHABLE:
			return "unreachable database";
	}
	return "unknown";
}

/* what a user can do about the oldest of them */
static char *
holder_hint(void)
{
	UndoHolder *oldest = NULL;
	ListCell   *lc;

	foreach(lc, undo_holders())
	{
		UndoHolder *holder = lfirst(lc);

		/* of equals, another backend: our own snapshot is as old as its xid */
		if (oldest == NULL || holder->oldest < oldest->oldest ||
			(holder->oldest == oldest->oldest && oldest->pid == MyProcPid))
			oldest = holder;
	}
	if (oldest == NULL)
		return pstrdup("Try again when the undo launcher has discarded what is not needed any more.");
	switch (oldest->kind)
	{
		case UNDO_HOLDER_BACKEND:
			if (oldest->pid == MyProcPid)
				return pstrdup("This transaction is the oldest one itself. Split it, or raise zheap.max_undo_size.");
			return psprintf("The oldest transaction that holds undo is that of process %d. End it, or raise zheap.max_undo_size.",
							oldest->pid);
		case UNDO_HOLDER_PREPARED:
			return psprintf("Prepared transaction \"%s\" holds the oldest undo. Commit it or roll it back, or raise zheap.max_undo_size.",
							oldest->name);
		case UNDO_HOLDER_REPLICATION_SLOT:
			return psprintf("Replication slot \"%s\" holds the oldest undo. Let its user catch up or drop it, or raise zheap.max_undo_size.",
							oldest->name);
		case UNDO_HOLDER_STANDBY:
			return psprintf("Queries of the standby that process %d serves hold the oldest undo. End them, or raise zheap.max_undo_size.",
							oldest->pid);
		case UNDO_HOLDER_PENDING_ROLLBACK:
			return psprintf("The rollback of transaction " UINT64_FORMAT " is not finished. Wait for it, or raise zheap.max_undo_size; look at zheap.rollback_paused and zheap.max_rollback_workers.",
							oldest->oldest);
		case UNDO_HOLDER_DAMAGED_LOG:
			return psprintf("A page cannot be read: %s. Look for messages of the undo launcher in the server log, or raise zheap.max_undo_size.",
							oldest->name);
		case UNDO_HOLDER_UNREACHABLE:
			return psprintf("Nothing can be rolled back in database \"%s\". Look for messages of the undo launcher in the server log, or raise zheap.max_undo_size.",
							oldest->name);
	}
	return NULL;
}

/* ----------------------------------------------------------------
 *	the limit
 * ----------------------------------------------------------------
 */

/* zheap.transaction_undo_limit */
static void
check_xact_limit(void)
{
	uint64		bytes;

	if (undo_xact_limit < 0 ||
		(bytes = undo_stat_own_bytes()) <= (uint64) undo_xact_limit * 1024)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("undo of the transaction exceeds zheap.transaction_undo_limit (%d kB)",
					undo_xact_limit),
			 errdetail("The transaction has written " UINT64_FORMAT " kB of undo.",
					   bytes / 1024),
			 errhint("Split the transaction, or ask for a higher limit.")));
}

/*
 * See undo_check_room().  What is over the limit may only be waiting for the
 * launcher, so let it have some passes before giving up.  No lock on a buffer
 * may be held.  ERROR 53400 names what keeps the undo.
 */
void
undo_holders_wait_for_room(void)
{
	TimestampTz start = GetCurrentTimestamp();

	Assert(CritSectionCount == 0);
	AssertNoPageLocked();
	check_xact_limit();
	for (;;)
	{
		uint64		kept;

		if (undo_max_size < 0 ||
			(kept = retained_kb()) <= (uint64) undo_max_size)
		{
			undo_room_wanted = false;
			return;
		}
		if (!IsUnderPostmaster ||
			TimestampDifferenceExceeds(start, GetCurrentTimestamp(),
									   ROOM_WAIT_MS))
			ereport(ERROR,
					(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
					 errmsg("undo has reached the limit of %d kB set by zheap.max_undo_size",
							undo_max_size),
					 errdetail(UINT64_FORMAT " kB of undo are kept for snapshots, running transactions and rollbacks.",
							   kept),
					 errhint("%s", holder_hint())));
		undo_log_wake_launcher();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 ROOM_STEP_MS, undo_wait_event(UNDO_WAIT_ROOM));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}
