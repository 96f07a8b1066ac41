/*-------------------------------------------------------------------------
 *
 * zheap_xlog.c
 *	  Redo of confirmations; dispatch of redo and of descriptions for all
 *	  records of the table engine.  The highest file of zheap/.
 *
 * Redo of a page uses main data, that page's own data and the block
 * references: no other page, no shared state, no catalog (U7).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogutils.h"
#include "storage/bufmgr.h"

#include "zheap/format/zheap_format.h"
#include "zheap/soft/zheap_announce.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_insert.h"
#include "zheap/zheap_xlog.h"

static void
confirm_redo(XLogReaderState *record)
{
	XLogRecPtr	lsn = record->EndRecPtr;
	xl_zheap_confirm xlrec;
	Buffer		buffer;

	Assert(InRecovery && XLogRecGetDataLen(record) >= SizeOfZHeapConfirm);
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
zheap_xlog_redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	Assert(InRecovery);
	AssertNoPageLocked();
	switch (info)
	{
		case XLOG_ZHEAP_INSERT:
		case XLOG_ZHEAP_MULTI_INSERT:
			zheap_xlog_insert_redo(record);
			break;
		case XLOG_ZHEAP_UPDATE:
		case XLOG_ZHEAP_MOVE:
		case XLOG_ZHEAP_DELETE:
		case XLOG_ZHEAP_LOCK:
			zheap_xlog_change_redo(record);
			break;
		case XLOG_ZHEAP_DELTA:
			zheap_delta_redo(record);
			zheap_announce_redo(record);
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
zheap_xlog_desc(StringInfo buf, XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	switch (info)
	{
		case XLOG_ZHEAP_INSERT:
		case XLOG_ZHEAP_MULTI_INSERT:
			zheap_xlog_insert_desc(buf, record);
			break;
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
			zheap_xlog_change_desc(buf, record);
			break;
		case XLOG_ZHEAP_DELTA:
			zheap_delta_desc(buf, record);
			break;
	}
}

const char *
zheap_xlog_identify(uint8 info)
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
