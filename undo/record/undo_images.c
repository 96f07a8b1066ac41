/*-------------------------------------------------------------------------
 *
 * undo_images.c
 *	  Does recovery find a page as it was when a record was written?
 *
 * A page that is changed for the first time since the last checkpoint began is
 * logged as an image (or made anew by WILL_INIT), and so redo finds it as it
 * was at each later record, however new the page on disk is.  That is what a
 * record relies on that lets redo copy bytes from a page instead of holding
 * them (U24).  It is not so while full_page_writes is off, nor from then, or
 * from the end of recovery, to the beginning of the next checkpoint: pages may
 * have been changed without an image.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogrecovery.h"
#include "access/xlogutils.h"
#include "storage/bufmgr.h"

#include "undo/log/undo_shmem.h"
#include "undo/record/undo_images.h"
#include "undo/undo_module.h"

/* the latest position up to which pages may have been changed without image */
static void
note(XLogRecPtr lsn)
{
	uint64		old = pg_atomic_read_u64(&UndoShmem->no_images_before);

	while (old < lsn &&
		   !pg_atomic_compare_exchange_u64(&UndoShmem->no_images_before,
										   &old, lsn))
		;
}

/* What the last insertion of this process found, core remembers. */
static bool
images_were_on(XLogRecPtr *checkpoint)
{
	bool		on;

	GetFullPageWriteInfo(checkpoint, &on);
	return on;
}

void
undo_images_note(XLogRecPtr before)
{
	XLogRecPtr	checkpoint;

	Assert(!InRecovery);
	if (ProcLastRecPtr != before && !images_were_on(&checkpoint) &&
		pg_atomic_read_u64(&UndoShmem->no_images_before) <= checkpoint)
		note(ProcLastRecPtr + 1);
}

void
undo_images_note_copied(void)
{
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	if (!XLogIsNeeded())
		note(GetXLogInsertRecPtr());
}

XLogRecPtr
undo_images_insert(uint8 info)
{
	XLogRecPtr	before = ProcLastRecPtr;
	XLogRecPtr	lsn = XLogInsert(ZHEAP_RMGR_ID, info);

	Assert(CritSectionCount > 0 && !InRecovery);
	undo_images_note(before);
	return lsn;
}

bool
undo_images_are_complete(void)
{
	XLogRecPtr	checkpoint;

	return images_were_on(&checkpoint) &&
		pg_atomic_read_u64(&UndoShmem->no_images_before) <= checkpoint;
}

bool
undo_images_redo_read(XLogReaderState *record, uint8 block_id, char *copy)
{
	Buffer		buffer;
	XLogRedoAction action = XLogReadBufferForRedo(record, block_id, &buffer);
	bool		found = action == BLK_NEEDS_REDO || action == BLK_RESTORED;

	Assert(InRecovery);
	if (found)
		memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	if (action == BLK_NEEDS_REDO)
	{
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	return found;
}

void
undo_images_redo_ends(void)
{
	if (UndoShmem != NULL)
		note(GetXLogReplayRecPtr(NULL));
}
