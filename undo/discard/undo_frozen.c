/*-------------------------------------------------------------------------
 *
 * undo_frozen.c
 *	  What keeps core from cutting the commit log that the store needs.
 *
 * The commit log is asked for writers from all_visible_before on.  Core cuts
 * it at the oldest relfrozenxid of all tables, so each table of the client has
 * one (U21). Nothing else holds the commit log: it is safe whether or not this
 * library is loaded, its launcher runs, undo can be read or a rollback can be
 * finished.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "miscadmin.h"
#include "storage/latch.h"
#include "utils/wait_event.h"

#include "undo/discard/undo_frozen.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_shmem.h"
#include "undo/undo_assert.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* how long a vacuum waits for the launcher */
#define RAISE_STEP_MS		10
#define RAISE_MAX_STEPS		100

/*
 * all_visible_before as a value of relfrozenxid, rounded down to a normal
 * xid.  Invalid if all_visible_before is too far behind to be told in 32 bits.
 */
TransactionId
undo_frozen_xid(void)
{
	Fxid		all_visible_before = undo_log_horizons().all_visible_before;
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	TransactionId xid = XidFromFxid(all_visible_before);

	Assert(all_visible_before <= next);
	if (next - all_visible_before >= (Fxid) 1 << 31)
		return InvalidTransactionId;
	return TransactionIdIsNormal(xid) ? xid : MaxTransactionId;
}

/*
 * Have the launcher raise the horizons as far as it can, even if there is
 * nothing to discard.  Waits for about a second at most; no buffer lock may be
 * held.  Without a launcher nothing is raised.
 */
void
undo_frozen_raise_horizons(void)
{
	uint64		wanted;

	AssertNoPageLocked();
	(void) undo_log_horizons(); /* loads shared state */
	if (!IsUnderPostmaster)
		return;

	/* a pass that is in progress began before the call */
	wanted = pg_atomic_read_u64(&UndoShmem->passes) + 2;
	for (int i = 0; i < RAISE_MAX_STEPS; i++)
	{
		if (pg_atomic_read_u64(&UndoShmem->passes) >= wanted ||
			UndoShmem->launcher_latch == NULL)
			return;
		pg_atomic_write_u32(&UndoShmem->raise_wanted, 1);
		undo_log_wake_launcher();
		(void) WaitLatch(MyLatch,
						 WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 RAISE_STEP_MS, undo_wait_event(UNDO_WAIT_HORIZON));
		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
	}
}

/*
 * WARNING if all_visible_before is more than so many transactions old: an
 * operator who vacuums because core said so learns here what else there is to
 * do.
 */
void
undo_frozen_warn_of_age(uint32 limit)
{
	Fxid		all_visible_before = undo_log_horizons().all_visible_before;
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	Fxid		unapplied = pg_atomic_read_u64(&UndoShmem->oldest_unapplied);

	Assert(all_visible_before <= next);
	if (next - all_visible_before <= limit)
		return;
	ereport(WARNING,
			(errmsg("relfrozenxid of zheap tables cannot be advanced beyond transaction " UINT64_FORMAT,
					all_visible_before),
			 unapplied != InvalidFxid ?
			 errdetail("Transaction " UINT64_FORMAT " was aborted and is not rolled back yet.",
					   unapplied) :
			 UndoShmem->launcher_latch == NULL && IsUnderPostmaster ?
			 errdetail("The undo launcher is not running.") :
			 errdetail("Undo from there on is still needed, or cannot be read."),
			 unapplied != InvalidFxid ?
			 errhint("Look for messages of the rollback workers in the server log, and at zheap.rollback_paused and zheap.max_rollback_workers.") :
			 UndoShmem->launcher_latch == NULL && IsUnderPostmaster ?
			 errhint("You might need to increase max_worker_processes.") :
			 errhint("Look at pg_stat_zheap_undo_holders and for messages of the undo launcher in the server log.")));
}
