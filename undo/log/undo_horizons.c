/*-------------------------------------------------------------------------
 *
 * undo_horizons.c
 *	  The two horizons in shared memory and on the global control page.
 *
 * They only rise (U1), but when a cluster starts whose next xid was set back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_horizons.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_xlog.h"
#include "undo/undo_assert.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* raise an atomic that may only rise */
static void
raise_atomic(pg_atomic_uint64 *atomic, uint64 value)
{
	uint64		old = pg_atomic_read_u64(atomic);

	while (old < value &&
		   !pg_atomic_compare_exchange_u64(atomic, &old, value))
		;
}

/*
 * Publish horizons: discard_before first, then all_visible_before, so that a
 * reader that asks in the opposite order has all_visible_before <=
 * discard_before.  Redo publishes too.
 */
void
undo_horizons_publish(Fxid all_visible_before, Fxid discard_before)
{
	Assert(all_visible_before <= discard_before);
	raise_atomic(&UndoShmem->discard_before, discard_before);
	raise_atomic(&UndoShmem->all_visible_before, all_visible_before);
	pg_write_barrier();
}

/* Publish horizons that may be lower; while nobody has asked for them. */
void
undo_horizons_publish_lower(Fxid horizon)
{
	Assert(horizon != InvalidFxid);
	pg_atomic_write_u64(&UndoShmem->all_visible_before, horizon);
	pg_atomic_write_u64(&UndoShmem->discard_before, horizon);
	pg_write_barrier();
}

/* Create the global control page; caller holds the LWLock, not in recovery. */
void
undo_horizons_create(Fxid all_visible_before, Fxid discard_before)
{
	Buffer		buffer =
		undo_file_make_control(undo_file_locator(UNDO_GLOBAL_RELNUMBER), true);
	xl_undo_control xlrec =
	{.all_visible_before = all_visible_before,.discard_before = discard_before,.version = UNDO_FORMAT_VERSION,.flags = UNDO_CONTROL_GLOBAL};
	XLogRecPtr	lsn;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	AssertPageExclusive(buffer);
	Assert(all_visible_before <= discard_before);
	START_CRIT_SECTION();
	undo_page_init_global(BufferGetPage(buffer), all_visible_before,
						  discard_before);
	MarkBufferDirty(buffer);
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfUndoControl);
	XLogRegisterBuffer(1, buffer, REGBUF_WILL_INIT | REGBUF_STANDARD);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_CONTROL);
	PageSetLSN(BufferGetPage(buffer), lsn);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}

/*
 * Set both horizons, to lower values than before.  Caller holds the LWLock,
 * nobody has asked for horizons since the server started, and no log holds
 * anything.
 */
void
undo_horizons_lower(Fxid horizon)
{
	Buffer		buffer =
		undo_file_read_control(undo_file_locator(UNDO_GLOBAL_RELNUMBER),
							   UNDO_GLOBAL_MAGIC, true);
	xl_undo_discard xlrec =
	{.all_visible_before = horizon,.discard_before = horizon,.flags = UNDO_DISCARD_LOWER};
	UndoGlobalData *global;
	XLogRecPtr	lsn;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	if (!BufferIsValid(buffer))
		elog(ERROR, "global control page of the undo store has vanished");
	global = UndoPageGetGlobal(BufferGetPage(buffer));

	ereport(LOG,
			(errmsg("undo horizons are set back from " UINT64_FORMAT " to " UINT64_FORMAT,
					global->discard_before, horizon)));

	AssertPageExclusive(buffer);
	Assert(horizon < global->discard_before);
	START_CRIT_SECTION();
	global	  ->all_visible_before = horizon;
	global	  ->discard_before = horizon;

	MarkBufferDirty(buffer);
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfUndoDiscard);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_DISCARD);
	PageSetLSN(BufferGetPage(buffer), lsn);
	undo_horizons_publish_lower(horizon);
	END_CRIT_SECTION();
	UnlockReleaseBuffer(buffer);
}
