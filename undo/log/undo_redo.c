/*-------------------------------------------------------------------------
 *
 * undo_redo.c
 *	  Redo and description of the WAL records of undo logs (undo_xlog.h).
 *
 * Redo of a block looks at nothing but the record and that block, and
 * touches shared state by atomics alone (U7).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xlogutils.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/standby.h"

#include "undo/log/undo_horizons.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_xlog.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/*
 * Pages of the store and all WAL of this resource manager have one version in
 * common.  Nothing is replayed by a library that doesn't know it.
 */
static void
check_version(uint16 version)
{
	if (version != UNDO_FORMAT_VERSION)
		ereport(FATAL,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("WAL of zheap_am has format version %u, but this library knows version %u only",
						version, UNDO_FORMAT_VERSION),
				 errhint("Install the version of zheap_am that wrote it, and start the server again.")));
}

/*
 * Before WAL is replayed.  The global control page tells the version of what
 * was written until now; where it doesn't exist yet, the record that creates
 * it is going to.  The page may be torn or of zeroes: its version can't be,
 * since that never changes once written.
 */
void
undo_redo_startup(void)
{
	char		path[MAXPGPATH];
	PGAlignedBlock page;
	int			fd;
	int			len;

	snprintf(path, sizeof(path), "base/%u/%u", UNDO_DATABASE,
			 UNDO_GLOBAL_RELNUMBER);
	fd = OpenTransientFile(path, O_RDONLY | PG_BINARY);
	if (fd < 0)
		return;
	len = read(fd, page.data, BLCKSZ);
	CloseTransientFile(fd);
	if (len != BLCKSZ || PageIsNew(page.data) ||
		PageGetPageSize(page.data) != BLCKSZ ||
		PageGetSpecialSize(page.data) !=
		MAXALIGN(sizeof(UndoPageOpaqueData)) ||
		UndoPageGetOpaque(page.data)->magic != UNDO_GLOBAL_MAGIC)
		return;
	check_version(UndoPageGetOpaque(page.data)->version);
}

/*
 * A page that redo is going to change was read from disk: PANIC if it isn't what
 * it should be, for its numbers lead redo to where it writes.
 */
void
undo_redo_check(XLogReaderState *record, uint8 block_id, Page page,
				uint32 magic)
{
	const char *problem = undo_page_problem(page, magic);
	RelFileLocator locator;
	BlockNumber block;

	Assert(InRecovery);
	if (problem == NULL)
		return;
	XLogRecGetBlockTag(record, block_id, &locator, NULL, &block);
	ereport(PANIC,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("undo page %u of file base/%u/%u: %s", block,
					locator.dbOid, locator.relNumber, problem),
			 errhint("The undo page was changed outside WAL, or WAL is missing.")));
}

static void
redo_reset(XLogReaderState *record)
{
	Buffer		buffer;

	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		undo_redo_check(record, 0, BufferGetPage(buffer), UNDO_CONTROL_MAGIC);
		undo_page_reset_control(BufferGetPage(buffer));
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	/* wal_consistency_checking compares what is going to be truncated away */
	for (int i = 1; i <= XLogRecMaxBlockId(record); i++)
		if (XLogRecHasBlockImage(record, i))
		{
			buffer = XLogInitBufferForRedo(record, i);
			memset(BufferGetPage(buffer), 0, BLCKSZ);
			MarkBufferDirty(buffer);
			UnlockReleaseBuffer(buffer);
		}
}

static void
redo_control(XLogReaderState *record)
{
	xl_undo_control *xlrec = (xl_undo_control *) XLogRecGetData(record);
	XLogRecPtr	lsn = record->EndRecPtr;
	Buffer		buffer;

	Assert(InRecovery);
	check_version(xlrec->version);
	if (xlrec->flags & UNDO_CONTROL_RESET)
	{
		redo_reset(record);
		return;
	}

	if (XLogRecHasBlockRef(record, 0))
	{
		buffer = XLogInitBufferForRedo(record, 0);
		undo_page_init_control(BufferGetPage(buffer));
		PageSetLSN(BufferGetPage(buffer), lsn);
		MarkBufferDirty(buffer);
		UnlockReleaseBuffer(buffer);
	}
	if (xlrec->flags & UNDO_CONTROL_GLOBAL)
	{
		Assert(xlrec->all_visible_before <= xlrec->discard_before);
		buffer = XLogInitBufferForRedo(record, 1);
		undo_page_init_global(BufferGetPage(buffer),
							  xlrec->all_visible_before,
							  xlrec->discard_before);
		PageSetLSN(BufferGetPage(buffer), lsn);
		MarkBufferDirty(buffer);
		UnlockReleaseBuffer(buffer);
		if (UndoShmem != NULL)
		{
			undo_horizons_publish(xlrec->all_visible_before, xlrec->discard_before);
			pg_atomic_write_u32(&UndoShmem->global_exists, 1);
		}
	}
	else if (XLogReadBufferForRedo(record, 1, &buffer) == BLK_NEEDS_REDO)
	{
		UndoGlobalData *data = UndoPageGetGlobal(BufferGetPage(buffer));

		undo_redo_check(record, 1, BufferGetPage(buffer), UNDO_GLOBAL_MAGIC);
		Assert(xlrec->nlogs >= data->nlogs);
		Assert(xlrec->nunlogged >= data->nunlogged);
		data->nlogs = xlrec->nlogs;
		data->nunlogged = xlrec->nunlogged;
		PageSetLSN(BufferGetPage(buffer), lsn);
		MarkBufferDirty(buffer);
		UnlockReleaseBuffer(buffer);
	}
	else if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

/* new page first, then the link to it, control page last (U15) */
static void
redo_switch(XLogReaderState *record)
{
	xl_undo_switch *xlrec = (xl_undo_switch *) XLogRecGetData(record);
	XLogRecPtr	lsn = record->EndRecPtr;
	Buffer		buffer;
	BlockNumber block;

	Assert(InRecovery);
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);
	Assert(block != 0 && xlrec->used_blocks > block && xlrec->seq > 0);
	Assert(!xlrec->first || !XLogRecHasBlockRef(record, 2));
	buffer = XLogInitBufferForRedo(record, 0);
	undo_page_init(BufferGetPage(buffer), xlrec->next, xlrec->seq);
	PageSetLSN(BufferGetPage(buffer), lsn);
	MarkBufferDirty(buffer);
	UnlockReleaseBuffer(buffer);

	if (XLogRecHasBlockRef(record, 2))
	{
		if (XLogReadBufferForRedo(record, 2, &buffer) == BLK_NEEDS_REDO)
		{
			undo_redo_check(record, 2, BufferGetPage(buffer),
							UNDO_PAGE_MAGIC);
			UndoPageGetOpaque(BufferGetPage(buffer))->next = block;
			PageSetLSN(BufferGetPage(buffer), lsn);
			MarkBufferDirty(buffer);
		}
		if (BufferIsValid(buffer))
			UnlockReleaseBuffer(buffer);
	}
	if (XLogReadBufferForRedo(record, 1, &buffer) == BLK_NEEDS_REDO)
	{
		UndoControlData *control = UndoPageGetControl(BufferGetPage(buffer));

		undo_redo_check(record, 1, BufferGetPage(buffer), UNDO_CONTROL_MAGIC);
		control->tail = block;
		control->seq = xlrec->seq;
		control->used_blocks = xlrec->used_blocks;
		if (xlrec->first)
		{
			control->head = block;
			control->head_offset = UNDO_FIRST_OFFSET;
		}
		PageSetLSN(BufferGetPage(buffer), lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

static void
redo_discard(XLogReaderState *record)
{
	xl_undo_discard *xlrec = (xl_undo_discard *) XLogRecGetData(record);
	XLogRecPtr	lsn = record->EndRecPtr;
	Buffer		buffer;

	Assert(InRecovery);
	Assert(xlrec->all_visible_before <= xlrec->discard_before);
	/* snapshots of any database may need what goes (database 0 = all) */
	if (InHotStandby && (xlrec->flags & UNDO_DISCARD_CONFLICT))
	{
		RelFileLocator all = {0};

		ResolveRecoveryConflictWithSnapshotFullXid(FullTransactionIdFromU64(xlrec->discard_before - 1),
												   false,
												   all);
	}
	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		UndoGlobalData *data = UndoPageGetGlobal(BufferGetPage(buffer));

		undo_redo_check(record, 0, BufferGetPage(buffer), UNDO_GLOBAL_MAGIC);
		data->discard_before = xlrec->discard_before;
		data->all_visible_before = xlrec->all_visible_before;
		PageSetLSN(BufferGetPage(buffer), lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
	/* published before the head moves, as on the primary */
	if (UndoShmem != NULL)
	{
		if (xlrec->flags & UNDO_DISCARD_LOWER)
			undo_horizons_publish_lower(xlrec->discard_before);
		else
			undo_horizons_publish(xlrec->all_visible_before, xlrec->discard_before);
	}
	if (XLogRecHasBlockRef(record, 1))
	{
		if (XLogReadBufferForRedo(record, 1, &buffer) == BLK_NEEDS_REDO)
		{
			UndoControlData *control =
				UndoPageGetControl(BufferGetPage(buffer));

			undo_redo_check(record, 1, BufferGetPage(buffer),
							UNDO_CONTROL_MAGIC);
			control->head = UndoLogHeadBlock(xlrec->head);
			control->head_offset = UndoLogHeadOffset(xlrec->head);
			PageSetLSN(BufferGetPage(buffer), lsn);
			MarkBufferDirty(buffer);
		}
		if (BufferIsValid(buffer))
			UnlockReleaseBuffer(buffer);
	}
}

static void
redo_applied(XLogReaderState *record)
{
	Buffer		buffer;

	Assert(InRecovery);
	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Size		len;
		char	   *data = XLogRecGetBlockData(record, 0, &len);
		uint16		offsets[BLCKSZ / sizeof(uint16)];

		Assert(len > 0 && len <= sizeof(offsets) && len % sizeof(uint16) == 0);
		memcpy(offsets, data, len);
		undo_redo_check(record, 0, BufferGetPage(buffer), UNDO_PAGE_MAGIC);
		undo_page_set_applied(BufferGetPage(buffer), offsets,
							  len / sizeof(uint16));
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

/* redo of every record of the store but XLOG_UNDO_INSERT (undo_xact.c) */
void
undo_log_redo(XLogReaderState *record)
{
	Assert(!LWLockHeldByMe(UndoShmem->lock));
	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case XLOG_UNDO_CONTROL:
			redo_control(record);
			break;
		case XLOG_UNDO_SWITCH:
			redo_switch(record);
			break;
		case XLOG_UNDO_DISCARD:
			redo_discard(record);
			break;
		case XLOG_UNDO_APPLIED:
			redo_applied(record);
			break;
		default:
			elog(PANIC, "undo store: unknown WAL record type %u",
				 XLogRecGetInfo(record));
	}
}

void
undo_desc(StringInfo buf, XLogReaderState *record)
{
	char	   *data = XLogRecGetData(record);

	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case XLOG_UNDO_CONTROL:
			{
				xl_undo_control *xlrec = (xl_undo_control *) data;

				appendStringInfo(buf, "version %u, logs %u, unlogged %u%s",
								 xlrec->version, xlrec->nlogs,
								 xlrec->nunlogged,
								 xlrec->flags & UNDO_CONTROL_GLOBAL ? ", global page" :
								 xlrec->flags & UNDO_CONTROL_RESET ? ", reset" : "");
				break;
			}
		case XLOG_UNDO_SWITCH:
			{
				xl_undo_switch *xlrec = (xl_undo_switch *) data;

				appendStringInfo(buf,
								 "seq " UINT64_FORMAT ", next %u, used %u%s",
								 xlrec->seq, xlrec->next, xlrec->used_blocks,
								 xlrec->first ? ", first" : "");
				break;
			}
		case XLOG_UNDO_DISCARD:
			{
				xl_undo_discard *xlrec = (xl_undo_discard *) data;

				appendStringInfo(buf, "u " UINT64_FORMAT ", h " UINT64_FORMAT
								 ", head %u/%u%s", xlrec->all_visible_before,
								 xlrec->discard_before,
								 UndoLogHeadBlock(xlrec->head),
								 UndoLogHeadOffset(xlrec->head),
								 xlrec->flags & UNDO_DISCARD_CONFLICT ? ", conflict" :
								 xlrec->flags & UNDO_DISCARD_LOWER ? ", lower" : "");
				break;
			}
		default:
			break;
	}
}

const char *
undo_identify(uint8 info)
{
	switch (info & ~XLR_INFO_MASK)
	{
		case XLOG_UNDO_CONTROL:
			return "UNDO_CONTROL";
		case XLOG_UNDO_SWITCH:
			return "UNDO_SWITCH";
		case XLOG_UNDO_INSERT:
			return "UNDO_INSERT";
		case XLOG_UNDO_DISCARD:
			return "UNDO_DISCARD";
		case XLOG_UNDO_APPLIED:
			return "UNDO_APPLIED";
		default:
			return NULL;
	}
}
