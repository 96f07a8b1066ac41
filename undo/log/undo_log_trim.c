/*-------------------------------------------------------------------------
 *
 * undo_log_trim.c
 *	  What a log needn't keep: the WAL records that move heads and horizons,
 *	  mark runs as applied and empty a log.  Logs given up.
 *
 * What may be discarded is decided by undo_discard.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_horizons.h"
#include "undo/log/undo_log_trim.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_xlog.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* blocks that one RESET names beside the control page */
#define RESET_BLOCKS	XLR_MAX_BLOCK_ID

void
undo_log_discard(char persistence, UndoLogNumber number, BlockNumber head,
				 uint16 head_offset, Fxid all_visible_before,
				 Fxid discard_before)
{
	bool		move = number != UNDO_TEMP_LOG;
	bool		permanent = persistence == RELPERSISTENCE_PERMANENT;
	Buffer global;
	Buffer		ctlbuf = InvalidBuffer;
	UndoGlobalData *data;
	xl_undo_discard xlrec = {0};
	XLogRecPtr	lsn;

	Assert(!RecoveryInProgress());
	Assert(!move || head != InvalidBlockNumber);
	Assert(CritSectionCount == 0 && all_visible_before <= discard_before);
	Assert(!move || (head != 0 && head_offset >= UNDO_FIRST_OFFSET));
	if (move)
		ctlbuf = undo_file_read_log(persistence, number, 0);
	UNDO_POINT("discard-begins");
	global = undo_file_read_control(undo_file_locator(UNDO_GLOBAL_RELNUMBER),
									UNDO_GLOBAL_MAGIC, true);

	if (!BufferIsValid(global))
		elog(ERROR, "global control page of the undo store has vanished");
	if (move)
		LockBuffer(ctlbuf, BUFFER_LOCK_EXCLUSIVE);
	data = UndoPageGetGlobal(BufferGetPage(global));
	xlrec.discard_before = Max(discard_before, data->discard_before);
	xlrec.all_visible_before =
		Min(Max(all_visible_before, data->all_visible_before),
			xlrec.discard_before);
	xlrec.head = UndoLogHead(head, head_offset);
	xlrec.flags = xlrec.discard_before > data->discard_before ?
		UNDO_DISCARD_CONFLICT : 0;

	AssertPageExclusive(global);
	Assert(xlrec.all_visible_before <= xlrec.discard_before);
	START_CRIT_SECTION();
	data->discard_before = xlrec.discard_before;
	data->all_visible_before = xlrec.all_visible_before;
	MarkBufferDirty(global);
	if (move)
	{
		UndoControlData *control = UndoPageGetControl(BufferGetPage(ctlbuf));

		control->head = head;
		control->head_offset = head_offset;
		MarkBufferDirty(ctlbuf);
	}
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfUndoDiscard);
	XLogRegisterBuffer(0, global, REGBUF_STANDARD);
	if (move && permanent)
		XLogRegisterBuffer(1, ctlbuf, REGBUF_STANDARD);
	XLogSetRecordFlags(XLOG_MARK_UNIMPORTANT);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_DISCARD);
	PageSetLSN(BufferGetPage(global), lsn);
	if (move && permanent)
		PageSetLSN(BufferGetPage(ctlbuf), lsn);

	UNDO_POINT("discard-logged");

	/*
	 * publish discard_before, all_visible_before, head in this order; only
	 * then may pages be reused
	 */
	undo_horizons_publish(xlrec.all_visible_before, xlrec.discard_before);
	if (move)
		pg_atomic_write_u64(&undo_shmem_log(persistence, number)->head,
							xlrec.head);
	UNDO_POINT("discard-published");
	END_CRIT_SECTION();

	if (move)
		UnlockReleaseBuffer(ctlbuf);
	UnlockReleaseBuffer(global);
}

/*
 * Which of the runs are there, and still unapplied?  The page is locked, so
 * the answer stays true.  Returns their number.
 */
static int
runs_to_mark(Page page, uint64 seq, const UndoRunMark *runs, int nruns,
			 uint16 *offsets)
{
	int			noffsets = 0;
	UndoEntry	entry;

	Assert(nruns > 0);
	if (undo_page_problem(page, UNDO_PAGE_MAGIC) != NULL ||
		UndoPageGetOpaque(page)->seq != seq)
		return 0;
	for (int i = 0; i < nruns; i++)
		if (undo_page_get(page, runs[i].offset, &entry) &&
			entry.kind == UNDO_KIND_RUN && entry.fxid == runs[i].writer &&
			(entry.flags & UNDO_RUN_APPLIED) == 0)
			offsets[noffsets++] = runs[i].offset;
	return noffsets;
}

void
undo_log_mark_applied(char persistence, UndoLogNumber number,
					  BlockNumber block, uint64 seq,
					  const UndoRunMark *runs, int nruns)
{
	uint16		offsets[UNDO_PAGE_MAX_ENTRIES];
	int			noffsets;
	Buffer		buffer;

	Assert(nruns <= UNDO_PAGE_MAX_ENTRIES);
	Assert(!RecoveryInProgress());
	Assert(CritSectionCount == 0 && block != 0);
	if (persistence == RELPERSISTENCE_TEMP || nruns == 0)
		return;
	buffer = undo_file_read_used(persistence, number, block);
	if (!BufferIsValid(buffer))
		return;
	UNDO_POINT("mark-applied");
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	AssertPageExclusive(buffer);
	noffsets = runs_to_mark(BufferGetPage(buffer), seq, runs, nruns, offsets);
	if (noffsets > 0)
	{
		START_CRIT_SECTION();
		undo_page_set_applied(BufferGetPage(buffer), offsets, noffsets);
		MarkBufferDirty(buffer);
		if (persistence == RELPERSISTENCE_PERMANENT)
		{
			XLogRecPtr	lsn;

			XLogBeginInsert();
			XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
			XLogRegisterBufData(0, (char *) offsets,
								noffsets * sizeof(uint16));
			lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_APPLIED);
			PageSetLSN(BufferGetPage(buffer), lsn);
		}
		UNDO_POINT("applied-logged");
		END_CRIT_SECTION();
	}
	UnlockReleaseBuffer(buffer);
	UNDO_POINT("marked-applied");
}

/*
 * Log that a log is empty, and the blocks [from, to) of its file that are about
 * to be truncated away: at most RESET_BLOCKS.  The control page is locked.
 */
static XLogRecPtr
log_reset(Buffer control, RelFileLocator locator, BlockNumber from,
		  BlockNumber to)
{
	xl_undo_control xlrec =
	{.version = UNDO_FORMAT_VERSION,.flags = UNDO_CONTROL_RESET};
	PGAlignedBlock zeroes = {0};
	XLogRecPtr	lsn;

	AssertPageExclusive(control);
	Assert(from + RESET_BLOCKS >= to);
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfUndoControl);
	XLogRegisterBuffer(0, control, REGBUF_STANDARD);
	for (BlockNumber block = from; block < to; block++)
		XLogRegisterBlock(block - from + 1, &locator, MAIN_FORKNUM, block,
						  zeroes.data, REGBUF_WILL_INIT);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_CONTROL);
	PageSetLSN(BufferGetPage(control), lsn);
	return lsn;
}

/* the control page of a log that nobody can attach, and WAL of it */
static XLogRecPtr
reset_control(char persistence, UndoLogNumber number)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);
	RelFileLocator locator = undo_file_of_log(persistence, number);
	Buffer		buffer = undo_file_read_log(persistence, number, 0);
	bool		permanent = persistence == RELPERSISTENCE_PERMANENT;
	BlockNumber nblocks = !permanent ? 1 :
		smgrnblocks(smgropen(locator, INVALID_PROC_NUMBER), MAIN_FORKNUM);
	XLogRecPtr	lsn = InvalidXLogRecPtr;

	XLogEnsureRecordSpace(RESET_BLOCKS, 0);
	for (BlockNumber block = 1; block == 1 || block < nblocks;
		 block += RESET_BLOCKS)
	{
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
		START_CRIT_SECTION();
		undo_page_reset_control(BufferGetPage(buffer));
		MarkBufferDirty(buffer);
		if (permanent)
			lsn = log_reset(buffer, locator, block,
							Min(block + RESET_BLOCKS, nblocks));
		/* a scan that misses a block finds that the head is another, too */
		pg_atomic_write_u64(&log->head, UndoLogHead(InvalidBlockNumber, 0));
		pg_atomic_write_u32(&log->tail, InvalidBlockNumber);
		pg_write_barrier();
		pg_atomic_write_u32(&log->used_blocks, 1);
		END_CRIT_SECTION();
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	}
	ReleaseBuffer(buffer);
	return lsn;
}

void
undo_log_reset(char persistence, UndoLogNumber number)
{
	XLogRecPtr	lsn;
	Relation	rel;

	Assert(pg_atomic_read_u32(&undo_shmem_log(persistence,
											  number)->state) ==
		   UNDO_LOG_BUSY);
	Assert(pg_atomic_read_u32(&undo_shmem_log(persistence,
											  number)->owner_pid) == 0);
	Assert(!RecoveryInProgress() && CritSectionCount == 0);
	Assert(!LWLockHeldByMe(UndoShmem->reading));
	lsn = reset_control(persistence, number);
	UNDO_POINT("reset-logged");

	/* the truncation must not outrun the reset (U18) */
	if (!XLogRecPtrIsInvalid(lsn))
		XLogFlush(lsn);
	UNDO_POINT("reset-flushed");

	/* whoever saw a block in use has it pinned now, or finds it is not */
	LWLockAcquire(UndoShmem->reading, LW_EXCLUSIVE);
	LWLockRelease(UndoShmem->reading);
	rel = CreateFakeRelcacheEntry(undo_file_of_log(persistence, number));
	rel->rd_rel->relpersistence = persistence;
	RelationTruncate(rel, 1);
	UNDO_POINT("reset-truncated");
	FreeFakeRelcacheEntry(rel);
}

/* Give a log up that can't be written: it isn't handed out again (U17). */
void
undo_log_retire(char persistence, UndoLogNumber number)
{
	if (persistence == RELPERSISTENCE_TEMP)
		return;
	Assert(pg_atomic_read_u32(&undo_shmem_log(persistence,
											  number)->state) !=
		   UNDO_LOG_BUSY);
	pg_atomic_write_u32(&undo_shmem_log(persistence, number)->state,
						UNDO_LOG_RETIRED);
	ereport(WARNING,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("undo log %u cannot be written and is retired", number)));
}
