/*-------------------------------------------------------------------------
 *
 * zheap_xlog.c
 *	  Redo of inserts and confirmations; dispatch of redo and of descriptions
 *	  for all records of the table engine.  The highest file of zheap/.
 *
 * Redo of a page uses main data, that page's own data and the block
 * references: no other page, no shared state, no catalog (rule W2).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogutils.h"
#include "storage/bufmgr.h"

#include "zheap/zheap.h"
#include "zheap/zheap_xlog.h"
#include "zheap/zheap_xlog_change.h"

static void
insert_get(XLogReaderState *record, xl_zheap_insert *xlrec)
{
	memset(xlrec, 0, sizeof(*xlrec));
	memcpy(xlrec, XLogRecGetData(record), SizeOfZHeapInsert);
}

/* Where the rows are in the data of the table block. */
static void
insert_parse_tuples(XLogReaderState *record, ZInsertChange *change)
{
	Size		len;
	const char *p = XLogRecGetBlockData(record, 0, &len);
	const char *end = p + len;

	if (p == NULL || change->ntuples < 1 ||
		change->ntuples > MaxHeapTuplesPerPage)
		elog(PANIC, "insert record without rows");

	if (change->ntuples == 1)
	{
		change->tuple[0] = p;
		change->len[0] = len;
		return;
	}
	for (int i = 0; i < change->ntuples; i++)
	{
		if (end - p < (ptrdiff_t) sizeof(uint16))
			elog(PANIC, "truncated row in insert record");
		memcpy(&change->len[i], p, sizeof(uint16));
		p += sizeof(uint16);
		if (end - p < change->len[i])
			elog(PANIC, "truncated row in insert record");
		change->tuple[i] = p;
		p += change->len[i];
	}
}

/*
 * INSERT, MULTI_INSERT.  Readers on a standby must never find a pointer into
 * undo that isn't there yet, hence the undo page is finished first (W4).
 */
static void
insert_redo(XLogReaderState *record)
{
	XLogRecPtr	lsn = record->EndRecPtr;
	xl_zheap_insert xlrec;
	ZInsertChange change;
	XLogRedoAction action;
	BlockNumber block;
	Buffer		buffer;
	uint8		next_block = 1;
	Size		room = BLCKSZ;

	insert_get(record, &xlrec);
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);

	change.urp = InvalidUndoRecPtr;
	if (xlrec.flags & ZINSERT_HAS_UNDO)
	{
		undo_redo_insert(record, next_block, xlrec.undo_offset, &block);
		change.urp = undo_redo_urp(record, next_block, xlrec.undo_offset);
		next_block++;
	}

	change.ntuples = xlrec.ntuples;
	if (xlrec.flags & ZINSERT_INIT_PAGE)
	{
		insert_parse_tuples(record, &change);
		buffer = XLogInitBufferForRedo(record, 0);
		zheap_page_init(BufferGetPage(buffer),
						zheap_new_page_xact_slots(change.len[0]));
		action = BLK_NEEDS_REDO;
	}
	else
		action = XLogReadBufferForRedo(record, 0, &buffer);

	if (action == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		change.first = xlrec.first;
		change.reused = (xlrec.flags & ZINSERT_REUSED_POINTER) != 0;
		change.xact_slot = xlrec.xact_slot;
		change.tenure = (ZTenure) xlrec.tenure;
		change.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
		insert_parse_tuples(record, &change);

		if (!zheap_insert_apply(page, &change))
			elog(PANIC, "no room for rows at block %u, offset %u",
				 block, change.first);
		if (xlrec.flags & ZINSERT_CLEARED_VM)
			PageClearAllVisible(page);
		room = zheap_page_insert_room(page);
		PageSetLSN(page, lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	if (xlrec.flags & ZINSERT_CLEARED_VM)
		zheap_vm_redo(record, next_block, &block, 1);
	if (action == BLK_NEEDS_REDO)
		zheap_fsm_redo(record, 0, room);
}

static void
confirm_redo(XLogReaderState *record)
{
	XLogRecPtr	lsn = record->EndRecPtr;
	xl_zheap_confirm xlrec;
	Buffer		buffer;

	memcpy(&xlrec, XLogRecGetData(record), SizeOfZHeapConfirm);

	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		ItemId		lp = NULL;
		ZTupleHeader header;
		char	   *tuple;

		if (xlrec.offset >= FirstOffsetNumber &&
			xlrec.offset <= PageGetMaxOffsetNumber(page))
			lp = PageGetItemId(page, xlrec.offset);
		if (lp == NULL || !ItemIdIsNormal(lp))
			elog(PANIC, "no speculative row at offset %u", xlrec.offset);

		tuple = (char *) PageGetItem(page, lp);
		zheap_header_get(tuple, &header);
		header.flags2 &= ~ZH_SPECULATIVE;
		zheap_header_put(tuple, &header);
		PageSetLSN(page, lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

void
zheap_redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	switch (info)
	{
		case XLOG_ZHEAP_INSERT:
		case XLOG_ZHEAP_MULTI_INSERT:
			insert_redo(record);
			break;
		case XLOG_ZHEAP_UPDATE:
		case XLOG_ZHEAP_MOVE:
		case XLOG_ZHEAP_DELETE:
		case XLOG_ZHEAP_LOCK:
			zheap_change_redo(record);
			break;
		case XLOG_ZHEAP_DELTA:
			zheap_delta_redo(record);
			break;
		case XLOG_ZHEAP_GROW:
			zheap_delta_redo_grow(record);
			break;
		case XLOG_ZHEAP_CONFIRM:
			confirm_redo(record);
			break;
		default:
			elog(PANIC, "unknown zheap record type 0x%02X", info);
	}
}

/* Runs in ordinary backends too (pg_walinspect): nothing but the record. */
void
zheap_desc(StringInfo buf, XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	switch (info)
	{
		case XLOG_ZHEAP_INSERT:
		case XLOG_ZHEAP_MULTI_INSERT:
			{
				xl_zheap_insert xlrec;

				insert_get(record, &xlrec);
				appendStringInfo(buf, "off %u, rows %u, xact slot %u, tenure %u, flags 0x%02X",
								 xlrec.first, xlrec.ntuples, xlrec.xact_slot,
								 xlrec.tenure, xlrec.flags);
				if (xlrec.flags & ZINSERT_HAS_UNDO)
					appendStringInfo(buf, ", undo at %u", xlrec.undo_offset);
				break;
			}
		case XLOG_ZHEAP_CONFIRM:
			{
				xl_zheap_confirm xlrec;

				memcpy(&xlrec, XLogRecGetData(record), SizeOfZHeapConfirm);
				appendStringInfo(buf, "off %u", xlrec.offset);
				break;
			}
		case XLOG_ZHEAP_UPDATE:
		case XLOG_ZHEAP_MOVE:
		case XLOG_ZHEAP_DELETE:
		case XLOG_ZHEAP_LOCK:
			zheap_change_desc(buf, record);
			break;
		case XLOG_ZHEAP_DELTA:
			zheap_delta_desc(buf, record);
			break;
	}
}

const char *
zheap_identify(uint8 info)
{
	switch (info & ~XLR_INFO_MASK)
	{
		case XLOG_ZHEAP_INSERT:
			return "INSERT";
		case XLOG_ZHEAP_MULTI_INSERT:
			return "MULTI_INSERT";
		case XLOG_ZHEAP_UPDATE:
			return "UPDATE";
		case XLOG_ZHEAP_MOVE:
			return "MOVE";
		case XLOG_ZHEAP_DELETE:
			return "DELETE";
		case XLOG_ZHEAP_LOCK:
			return "LOCK";
		case XLOG_ZHEAP_DELTA:
			return "DELTA";
		case XLOG_ZHEAP_GROW:
			return "GROW";
		case XLOG_ZHEAP_CONFIRM:
			return "CONFIRM";
	}
	return NULL;
}
