/*-------------------------------------------------------------------------
 *
 * undo_log_load.c
 *	  What is on the control pages, in shared memory: loaded at the first need
 *	  after a start or a promotion, and the horizons asked for.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "storage/smgr.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_horizons.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_log_trim.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/undo_assert.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* ----------------------------------------------------------------
 *	numbers of transactions
 * ----------------------------------------------------------------
 */

Fxid
undo_log_fxid_from_xid(TransactionId xid)
{
	FullTransactionId next = ReadNextFullTransactionId();
	uint32		epoch = EpochFromFullTransactionId(next);

	Assert(TransactionIdIsNormal(xid));
	if (xid > XidFromFullTransactionId(next))
		epoch--;
	return ((Fxid) epoch << 32) | xid;
}

Fxid
undo_log_current_fxid(void)
{
	Assert(!RecoveryInProgress());
	return U64FromFullTransactionId(GetCurrentFullTransactionId());
}

/* ----------------------------------------------------------------
 *	loading
 * ----------------------------------------------------------------
 */

/* Does the page at block, whose special space is copied, belong to a log? */
static bool
read_opaque(char persistence, UndoLogNumber number, BlockNumber block,
			UndoPageOpaqueData *opaque)
{
	Buffer		buffer = undo_file_read(undo_file_of_log(persistence, number),
										block, RBM_ZERO_ON_ERROR,
										persistence ==
										RELPERSISTENCE_PERMANENT);
	Page		page = BufferGetPage(buffer);
	bool		good;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	good = undo_page_problem(page, UNDO_PAGE_MAGIC) == NULL;
	if (good)
		*opaque = *UndoPageGetOpaque(page);
	UnlockReleaseBuffer(buffer);
	return good;
}

/*
 * What is wrong with what a log's control page says, or NULL.  The file has
 * nblocks.  Those that aren't in use are new, or left from the time before a
 * RESET: few, as a rule, and older than the head.
 */
static const char *
control_problem(char persistence, UndoLogNumber number,
				const UndoControlData *control, BlockNumber nblocks)
{
	UndoPageOpaqueData tail;
	UndoPageOpaqueData head;
	UndoPageOpaqueData page;

	if (control->used_blocks < 1 || control->used_blocks > nblocks)
		return "it says that the log has blocks that the file has not, or none";
	if (control->tail == InvalidBlockNumber &&
		control->head == InvalidBlockNumber)
		return NULL;
	if (control->tail < 1 || control->tail >= control->used_blocks ||
		control->head < 1 || control->head >= control->used_blocks)
		return "its head or its tail is not among the blocks in use";
	if (control->head_offset < UNDO_FIRST_OFFSET ||
		control->head_offset > UNDO_FIRST_OFFSET + UNDO_PAGE_CAPACITY)
		return "its head is not within a page";
	if (!read_opaque(persistence, number, control->tail, &tail))
		return "the page that it names as the tail can't be read";
	if (tail.seq != control->seq)
		return "the page that it names as the tail is another one";
	if (tail.next < control->used_blocks &&
		read_opaque(persistence, number, tail.next, &page) &&
		page.seq > tail.seq)
		return "the page that it names as the tail was followed by another";
	/* what can't be read there is told by whoever scans the log */
	if (!read_opaque(persistence, number, control->head, &head))
		return NULL;
	if (head.seq > tail.seq ||
		(head.seq == tail.seq) != (control->head == control->tail))
		return "its head is behind its tail";
	for (BlockNumber block = control->used_blocks; block < nblocks; block++)
		if (read_opaque(persistence, number, block, &page) &&
			page.seq >= head.seq)
			return "there are pages behind the blocks in use";
	return NULL;
}

/*
 * There is no control page, or it says what can't be: nobody writes to the log,
 * whoever scans it gets an error, so that U stays (U2, U17), and readers find
 * what the file has.
 */
static void
retire_unknown(char persistence, UndoLogNumber number, BlockNumber nblocks,
			   const char *problem)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);

	pg_atomic_write_u32(&log->tail, UNDO_TAIL_UNKNOWN);
	pg_atomic_write_u32(&log->used_blocks, nblocks);
	pg_atomic_write_u64(&log->seq, 0);
	pg_atomic_write_u64(&log->head, UndoLogHead(InvalidBlockNumber, 0));
	undo_log_retire(persistence, number);
	ereport(LOG,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("control page of %s undo log %u is damaged: %s",
					persistence == RELPERSISTENCE_UNLOGGED ?
					"unlogged" : "permanent", number, problem)));
}

/*
 * Mirror in shared memory the control page of a log that the global page
 * counts.
 */
static void
load_log(char persistence, UndoLogNumber number)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);
	RelFileLocator locator = undo_file_of_log(persistence, number);
	Buffer		buffer =
		undo_file_read_control(locator, UNDO_CONTROL_MAGIC,
							   persistence == RELPERSISTENCE_PERMANENT);
	UndoControlData control;
	BlockNumber nblocks = undo_file_blocks(locator);
	const char *problem;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	if (!BufferIsValid(buffer))
	{
		retire_unknown(persistence, number, nblocks, "there is none");
		return;
	}
	AssertPageExclusive(buffer);
	control = *UndoPageGetControl(BufferGetPage(buffer));
	UnlockReleaseBuffer(buffer);
	problem = control_problem(persistence, number, &control, nblocks);
	if (problem != NULL)
	{
		retire_unknown(persistence, number, nblocks, problem);
		return;
	}
	pg_atomic_write_u32(&log->tail, control.tail);
	pg_atomic_write_u32(&log->used_blocks, control.used_blocks);
	pg_atomic_write_u64(&log->seq, control.seq);
	pg_atomic_write_u64(&log->head,
						UndoLogHead(control.head, control.head_offset));
	pg_atomic_write_u32(&log->state, UNDO_LOG_FREE);
}

/*
 * Does the log hold nothing that isn't discarded?  One that is retired counts
 * as not empty (U17).
 */
static bool
log_is_empty(char persistence, UndoLogNumber number)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);
	BlockNumber tail = pg_atomic_read_u32(&log->tail);
	uint64		head = pg_atomic_read_u64(&log->head);
	Buffer		buffer;
	bool		empty;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	if (tail == InvalidBlockNumber)
		return true;
	if (tail == UNDO_TAIL_UNKNOWN || UndoLogHeadBlock(head) != tail)
		return false;
	buffer = undo_file_read_log(persistence, number, tail);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	empty = undo_page_problem(BufferGetPage(buffer), UNDO_PAGE_MAGIC) == NULL &&
		((PageHeader) BufferGetPage(buffer))->pd_lower <=
		UndoLogHeadOffset(head);
	UnlockReleaseBuffer(buffer);
	return empty;
}

static bool
all_logs_empty(void)
{
	for (int i = 0; i < undo_shmem_log_count(RELPERSISTENCE_PERMANENT); i++)
		if (!log_is_empty(RELPERSISTENCE_PERMANENT, i))
			return false;
	for (int i = 0; i < undo_shmem_log_count(RELPERSISTENCE_UNLOGGED); i++)
		if (!log_is_empty(RELPERSISTENCE_UNLOGGED, i))
			return false;
	return true;
}

/*
 * Read the global page into shared memory, but for the horizons if it is a
 * primary's; false if there is none.
 */
static bool
load_global(UndoHorizons *stored)
{
	Buffer		buffer =
		undo_file_read_control(undo_file_locator(UNDO_GLOBAL_RELNUMBER),
							   UNDO_GLOBAL_MAGIC, true);
	UndoGlobalData *global;
	uint32		maxlogs = (uint32) UndoShmem->maxlogs;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	if (!BufferIsValid(buffer))
		return false;
	AssertPageExclusive(buffer);
	global = UndoPageGetGlobal(BufferGetPage(buffer));

	if (global->nlogs > UNDO_MAX_LOGS || global->nunlogged > UNDO_MAX_LOGS)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("global control page of the undo store is damaged"),
				 errdetail("It says that there are %u permanent and %u unlogged logs.",
						   global->nlogs, global->nunlogged)));
	/* a standby reads them through the files, and may have made less room */
	if (!RecoveryInProgress() &&
		(global->nlogs > maxlogs || global->nunlogged > maxlogs))
		ereport(ERROR,
				(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
				 errmsg("there are more undo logs than this server has made room for"),
				 errdetail("There are %u permanent and %u unlogged logs, and room for %u.",
						   global->nlogs, global->nunlogged, maxlogs),
				 errhint("Restart the server.")));
	stored->all_visible_before = global->all_visible_before;
	stored->discard_before = global->discard_before;

	pg_atomic_write_u32(&UndoShmem->nlogs, Min(global->nlogs, maxlogs));
	pg_atomic_write_u32(&UndoShmem->nunlogged,
						Min(global->nunlogged, maxlogs));
	pg_atomic_write_u32(&UndoShmem->global_exists, 1);
	UnlockReleaseBuffer(buffer);
	return true;
}

/*
 * Does a log hold undo, or was it made to?  A permanent one's control page gets to
 * disk after it was counted in WAL; an init fork may be there before.
 */
static bool
log_was_made(char persistence, UndoLogNumber number)
{
	bool		permanent = persistence == RELPERSISTENCE_PERMANENT;
	Buffer		buffer =
		undo_file_read_control(undo_file_of_log(persistence, number),
							   UNDO_CONTROL_MAGIC, permanent);
	bool		made;

	if (!BufferIsValid(buffer))
		return false;
	made = permanent ||
		UndoPageGetControl(BufferGetPage(buffer))->tail != InvalidBlockNumber;
	UnlockReleaseBuffer(buffer);
	return made;
}

/*
 * ERROR if there are logs that the global page doesn't count: nobody would scan
 * them, and all_visible_before would pass what aborted there (U20).
 */
static void
require_all_counted(char persistence, bool have_global)
{
	int			nfiles = undo_shmem_existing_logs();

	for (int i = undo_shmem_log_count(persistence); i < nfiles; i++)
	{
		if (!log_was_made(persistence, i))
			continue;
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 have_global ?
				 errmsg("global control page of the undo store is damaged") :
				 errmsg("global control page of the undo store is lost"),
				 errdetail("File base/%u/%u does not count %s undo log %d, which exists.",
						   UNDO_DATABASE, UNDO_GLOBAL_RELNUMBER,
						   persistence == RELPERSISTENCE_UNLOGGED ?
						   "unlogged" : "permanent", i),
				 errhint("Restore the file, or the cluster, from a backup.")));
	}
}

static void
load_logs(void)
{
	require_all_counted(RELPERSISTENCE_PERMANENT, true);
	require_all_counted(RELPERSISTENCE_UNLOGGED, true);
	for (int i = 0; i < undo_shmem_log_count(RELPERSISTENCE_PERMANENT); i++)
		load_log(RELPERSISTENCE_PERMANENT, i);
	for (int i = 0; i < undo_shmem_log_count(RELPERSISTENCE_UNLOGGED); i++)
		load_log(RELPERSISTENCE_UNLOGGED, i);
}

/* make logs forget pages that name xids which are going to be used again */
static void
reset_logs(char persistence)
{
	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	Assert(pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY);
	for (int i = 0; i < undo_shmem_log_count(persistence); i++)
	{
		UndoLogShared *log = undo_shmem_log(persistence, i);

		if (pg_atomic_read_u32(&log->state) != UNDO_LOG_FREE ||
			pg_atomic_read_u32(&log->tail) == InvalidBlockNumber)
			continue;
		pg_atomic_write_u32(&log->state, UNDO_LOG_BUSY);
		undo_log_reset(persistence, i);
		pg_atomic_write_u32(&log->state, UNDO_LOG_FREE);
	}
}

/* Make the global page, which there isn't, though not in a cluster that lost it. */
static void
make_global(Fxid horizon)
{
	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	require_all_counted(RELPERSISTENCE_PERMANENT, false);
	require_all_counted(RELPERSISTENCE_UNLOGGED, false);
	undo_horizons_create(horizon, horizon);
	ereport(LOG,
			(errmsg("undo store was created in directory base/%u",
					UNDO_DATABASE)));
}

/*
 * Everything a primary needs.  The horizons jump if there is no undo (U14),
 * also downwards: pg_upgrade and pg_resetwal may set the next xid back.  To
 * readers all writers below all_visible_before are visible, so with undo in
 * the logs nothing can be answered then.  Nothing is made in a cluster that
 * pg_upgrade is going to fill: its next xid isn't known yet.  Returns false in
 * that case.
 */
static bool
load_primary(void)
{
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	Fxid		horizon =
		undo_log_fxid_from_xid(GetOldestNonRemovableTransactionId(NULL));
	UndoHorizons stored;

	Assert(!RecoveryInProgress());
	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	Assert(horizon <= next);
	if (!load_global(&stored))
	{
		if (IsBinaryUpgrade)
			return false;
		make_global(horizon);
		if (!load_global(&stored))
			elog(ERROR,
				 "could not create the global control page of the undo store");
	}
	pg_atomic_write_u64(&UndoShmem->start_fxid, next);
	load_logs();
	if (stored.discard_before > next)
	{
		if (!all_logs_empty())
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("undo belongs to transactions up to " UINT64_FORMAT ", but the next transaction is " UINT64_FORMAT,
							stored.discard_before, next),
					 errdetail("The transaction counter was set back while there was undo."),
					 errhint("Stop the server and set the counter forward again with pg_resetwal.")));
		reset_logs(RELPERSISTENCE_PERMANENT);
		reset_logs(RELPERSISTENCE_UNLOGGED);
		undo_horizons_lower(horizon);
		return true;
	}
	undo_horizons_publish(stored.all_visible_before, stored.discard_before);
	if (all_logs_empty())
		undo_log_discard(RELPERSISTENCE_PERMANENT, UNDO_TEMP_LOG,
						 InvalidBlockNumber, 0, horizon, horizon);
	return true;
}

/*
 * Load shared state if that wasn't done since the server started or since it
 * was promoted.  No buffer lock may be held.
 */
void
undo_log_startup(void)
{
	bool		recovery = RecoveryInProgress();

	undo_shmem_require();
	Assert(CritSectionCount == 0 && !LWLockHeldByMe(UndoShmem->lock));
	AssertNoPageLocked();
	LWLockAcquire(UndoShmem->lock, LW_EXCLUSIVE);
	if (recovery)
	{
		if (pg_atomic_read_u32(&UndoShmem->state) == UNDO_UNINIT)
		{
			UndoHorizons stored;

			if (load_global(&stored))
				undo_horizons_publish(stored.all_visible_before,
									  stored.discard_before);
			pg_atomic_write_u32(&UndoShmem->state, UNDO_STANDBY);
		}
	}
	else if (pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY)
	{
		if (load_primary())
		{
			pg_write_barrier();
			pg_atomic_write_u32(&UndoShmem->state, UNDO_PRIMARY);
		}
	}
	LWLockRelease(UndoShmem->lock);
}

/* ----------------------------------------------------------------
 *	horizons
 * ----------------------------------------------------------------
 */

UndoHorizons
undo_log_horizons(void)
{
	UndoHorizons hz;
	uint32		state;

	if (UndoShmem == NULL)
		undo_shmem_require();
	state = pg_atomic_read_u32(&UndoShmem->state);
	if (unlikely(state != UNDO_PRIMARY) &&
		(state == UNDO_UNINIT || !RecoveryInProgress()))
		undo_log_startup();
	if (unlikely(state != UNDO_PRIMARY) &&
		pg_atomic_read_u32(&UndoShmem->global_exists) == 0)
	{
		/* a cluster that never wrote undo, so far: standby or new */
		hz.all_visible_before = hz.discard_before =
			undo_log_fxid_from_xid(TransamVariables->oldestXid);
		return hz;
	}

	/*
	 * all_visible_before first: discard_before is published before
	 * all_visible_before, so all_visible_before <= discard_before holds in
	 * what we return
	 */
	hz.all_visible_before = pg_atomic_read_u64(&UndoShmem->all_visible_before);
	pg_read_barrier();
	hz.discard_before = pg_atomic_read_u64(&UndoShmem->discard_before);
	Assert(hz.all_visible_before <= hz.discard_before);
	return hz;
}

Fxid
undo_log_start_fxid(void)
{
	/* a standby has none, nor has a primary that is still being promoted */
	if (pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY)
		return InvalidFxid;
	pg_read_barrier();
	return pg_atomic_read_u64(&UndoShmem->start_fxid);
}

Fxid
undo_log_temp_writer(void)
{
	return undo_temp_log.writer ==
		U64FromFullTransactionId(GetTopFullTransactionIdIfAny()) ?
		undo_temp_log.writer_before : undo_temp_log.writer;
}

Fxid
undo_log_horizon(char persistence)
{
	if (persistence == RELPERSISTENCE_TEMP)
		return undo_temp_log.horizon;
	/* asked for each record that is read */
	if (likely(pg_atomic_read_u32(&UndoShmem->state) == UNDO_PRIMARY))
		return pg_atomic_read_u64(&UndoShmem->discard_before);
	return undo_log_horizons().discard_before;
}
