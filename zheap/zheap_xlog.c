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

/* a row of the record, with its header, into memory */
static char *
insert_put_row(char *to, const ZInsertHead *head, const char *natts,
			   const char *body, Size len)
{
	ZTupleHeader header;

	header.slot = head->xact_slot;
	memcpy(&header.natts_flags1, natts, sizeof(uint16));
	header.flags2 = head->flags2;
	zheap_header_put(to, &header);
	memcpy(to + ZHEAP_HEADER_SIZE, body, len);
	return to + ZHEAP_HEADER_SIZE + len;
}

/* Take the rows from the data of the table block; rows has BLCKSZ bytes. */
static void
insert_parse_tuples(XLogReaderState *record, const ZInsertHead *head,
					ZInsertChange *change, char *rows)
{
	Size		datalen;
	const char *p = XLogRecGetBlockData(record, 0, &datalen);
	const char *end = p + datalen;
	char	   *to = rows;

	if (p == NULL || change->ntuples < 1 ||
		change->ntuples > MaxHeapTuplesPerPage)
		elog(PANIC, "insert record without rows");

	for (int i = 0; i < change->ntuples; i++)
	{
		uint64		len = datalen - sizeof(uint16);

		if (change->ntuples > 1)
			p = undo_unpack(p, end, &len);
		if (p == NULL || end - p < (ptrdiff_t) sizeof(uint16) ||
			len > (uint64) (end - p) - sizeof(uint16) ||
			len + ZHEAP_HEADER_SIZE > (uint64) (rows + BLCKSZ - to))
			elog(PANIC, "truncated row in insert record");
		change->tuple[i] = to;
		to = insert_put_row(to, head, p, p + sizeof(uint16), len);
		change->len[i] = to - change->tuple[i];
		p += sizeof(uint16) + len;
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
	ZInsertHead head;
	ZInsertChange change;
	PGAlignedBlock rows;
	XLogRedoAction action;
	BlockNumber block;
	Buffer		buffer;
	uint8		next_block = 1;
	Size		room = BLCKSZ;

	zheap_insert_unpack(record, &head);
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);
	change.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	zheap_conflict_redo(record,
						zheap_conflict_unpack(change.fxid, head.conflict));

	change.urp = InvalidUndoRecPtr;
	if (head.flags & ZINSERT_HAS_UNDO)
	{
		undo_redo_insert(record, next_block, head.undo_offset, &block);
		change.urp = undo_redo_urp(record, next_block, head.undo_offset);
		next_block++;
	}

	change.first = head.first;
	change.reused = (head.flags & ZINSERT_REUSED_POINTER) != 0;
	change.xact_slot = head.xact_slot;
	change.tenure = head.tenure;
	change.ntuples = head.ntuples;
	if (head.flags & ZINSERT_INIT_PAGE)
	{
		insert_parse_tuples(record, &head, &change, rows.data);
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

		if (!(head.flags & ZINSERT_INIT_PAGE))
			insert_parse_tuples(record, &head, &change, rows.data);

		if (!zheap_insert_apply(page, &change))
			elog(PANIC, "no room for rows at block %u, offset %u",
				 block, change.first);
		if (head.flags & ZINSERT_CLEARED_VM)
			PageClearAllVisible(page);
		room = zheap_page_insert_room(page);
		PageSetLSN(page, lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	if (head.flags & ZINSERT_CLEARED_VM)
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
				ZInsertHead head;

				zheap_insert_unpack(record, &head);
				appendStringInfo(buf, "off %u, rows %u, xact slot %u, tenure %u, flags 0x%02X",
								 head.first, head.ntuples, head.xact_slot,
								 head.tenure, head.flags);
				if (head.flags & ZINSERT_HAS_UNDO)
					appendStringInfo(buf, ", undo at %u", head.undo_offset);
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
