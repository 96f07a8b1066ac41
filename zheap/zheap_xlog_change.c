/*-------------------------------------------------------------------------
 *
 * zheap_xlog_change.c
 *	  Changes of existing rows as they are applied to a page, by the operation
 *	  and by redo alike, and redo and description of their WAL records.
 *
 * Nothing here decides anything: what to do to the page is in the record.
 * Building the records is the business of the operations (zheap_lock.c,
 * zheap_update.c).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogutils.h"
#include "storage/bufmgr.h"

#include "zheap/zheap.h"
#include "zheap/zheap_xlog.h"
#include "zheap/zheap_xlog_change.h"

/* ----------------------------------------------------------------
 *	apply
 * ----------------------------------------------------------------
 */

/*
 * The takeover pass, then the xact slot is the writer's.
 */
void
zheap_change_apply_own(Page page, const ZOwnChange *own)
{
	zheap_xact_slot_own(page, own->xact_slot, own->tenure, own->fxid,
						own->urp);
	ZPageGetOpaque(page)->flags &= ~ZPAGE_ALL_RESOLVED;
}

/*
 * Give a row its new header and body.  SLACK is a property of the allocation:
 * without a new body the page's own bit stays as it is.  A row that ended
 * makes the page no longer all-visible.
 */
bool
zheap_change_apply_row(Page page, const ZRowChange *change)
{
	ZTupleHeader header = change->header;
	ZTupleHeader present;
	ItemId		lp = PageGetItemId(page, change->offset);
	char	   *tuple;

	Assert(ItemIdIsNormal(lp));

	if (change->tuple != NULL &&
		!zheap_page_replace(page, change->offset, change->tuple, change->len))
		return false;

	lp = PageGetItemId(page, change->offset);
	tuple = (char *) page + ItemIdGetOffset(lp);
	zheap_header_get(tuple, &present);
	header.natts_flags1 = (header.natts_flags1 & ~ZH_SLACK) |
		(present.natts_flags1 & ZH_SLACK);
	zheap_header_put(tuple, &header);

	if (ZHeaderIsEnded(&header))
	{
		PageClearAllVisible(page);
		PageSetPrunable(page, change->prune_xid);
	}
	return true;
}

/* Put the new version of a moved row. */
bool
zheap_change_apply_arrival(Page page, OffsetNumber offset, const char *tuple,
						   uint16 len)
{
	PageClearAllVisible(page);
	return zheap_page_add(page, offset, tuple, len);
}

/* ----------------------------------------------------------------
 *	redo
 * ----------------------------------------------------------------
 */

static void
change_redo_failed(BlockNumber block, OffsetNumber offset)
{
	elog(PANIC, "zheap redo: change of row (%u,%u) doesn't fit its page",
		 block, offset);
}

/*
 * The row to be changed must be there, else the page isn't the one that was
 * logged.
 */
static void
change_redo_check(Page page, BlockNumber block, OffsetNumber offset)
{
	if (!zheap_page_is_valid(page) ||
		offset < FirstOffsetNumber ||
		offset > PageGetMaxOffsetNumber(page) ||
		!ItemIdIsNormal(PageGetItemId(page, offset)))
		elog(PANIC, "zheap redo: no row at (%u,%u)", block, offset);
}

/*
 * Rebuild the new row from the one on the page and the logged middle.
 * Returns its true length.
 */
static uint16
change_redo_body(XLogReaderState *record, Page page, OffsetNumber offset,
				 const ZTupleHeader *header, BlockNumber block, char *tuple)
{
	xl_zheap_middle m;
	ItemId		lp = PageGetItemId(page, offset);
	const char *old = (char *) page + ItemIdGetOffset(lp);
	uint16		oldlen = zheap_tuple_true_len(old, ItemIdGetLength(lp));
	uint16		body = oldlen - ZHEAP_HEADER_SIZE;
	uint16		suffix;
	Size		datalen;
	char	   *data = XLogRecGetBlockData(record, 0, &datalen);
	char	   *to = tuple;

	memcpy(&m, XLogRecGetData(record) + SizeOfZHeapChange, sizeof(m));
	if (m.prefix + m.oldmid > body || datalen != m.newmid ||
		oldlen - m.oldmid + m.newmid > BLCKSZ)
		change_redo_failed(block, offset);
	suffix = body - m.prefix - m.oldmid;

	zheap_header_put(to, header);
	to += ZHEAP_HEADER_SIZE;
	memcpy(to, old + ZHEAP_HEADER_SIZE, m.prefix);
	to += m.prefix;
	if (m.newmid > 0)
		memcpy(to, data, m.newmid);
	to += m.newmid;
	memcpy(to, old + oldlen - suffix, suffix);
	to += suffix;
	return to - tuple;
}

/* UPDATE in place, DELETE, LOCK */
static void
change_redo_row(XLogReaderState *record, bool has_body)
{
	xl_zheap_change xlrec;
	PGAlignedBlock tuple;
	ZOwnChange	own;
	ZRowChange	row;
	BlockNumber block;
	Buffer		buffer;

	memcpy(&xlrec, XLogRecGetData(record), SizeOfZHeapChange);
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);

	undo_redo_insert(record, 1, xlrec.undo_offset, &block);

	own.xact_slot = xlrec.xact_slot;
	own.tenure = (ZTenure) xlrec.tenure;
	own.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	own.urp = undo_redo_urp(record, 1, xlrec.undo_offset);

	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		change_redo_check(page, block, xlrec.offset);
		row.offset = xlrec.offset;
		row.prune_xid = XidFromFxid(own.fxid);
		zheap_header_get(xlrec.header, &row.header);
		row.tuple = NULL;
		row.len = 0;
		if (has_body)
		{
			row.tuple = tuple.data;
			row.len = change_redo_body(record, page, xlrec.offset,
									   &row.header, block, tuple.data);
		}
		zheap_change_apply_own(page, &own);
		if (!zheap_change_apply_row(page, &row))
			change_redo_failed(block, xlrec.offset);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	if (xlrec.flags & ZCHANGE_CLEARED_VM)
		zheap_vm_redo(record, 2, &block, 1);
}

/* the page of the new version, if it is another one; left locked */
static Buffer
change_redo_new_page(XLogReaderState *record, const xl_zheap_move *xlrec,
					 Fxid fxid, BlockNumber block)
{
	XLogRedoAction action = BLK_NEEDS_REDO;
	Buffer		buffer;

	if (xlrec->flags & ZMOVE_INIT_PAGE)
	{
		Size		len;

		XLogRecGetBlockData(record, 1, &len);
		buffer = XLogInitBufferForRedo(record, 1);
		zheap_page_init(BufferGetPage(buffer), zheap_new_page_xact_slots(len));
	}
	else
		action = XLogReadBufferForRedo(record, 1, &buffer);

	if (action == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		Size		len;
		char	   *data = XLogRecGetBlockData(record, 1, &len);
		ZOwnChange	own;

		own.xact_slot = xlrec->xact_slot[1];
		own.tenure = (ZTenure) xlrec->tenure[1];
		own.fxid = fxid;
		own.urp = undo_redo_urp(record, 2, xlrec->undo_offset[1]);
		zheap_change_apply_own(page, &own);
		if (!zheap_change_apply_arrival(page, xlrec->offset[1], data, len))
			change_redo_failed(block, xlrec->offset[1]);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	return buffer;
}

static void
change_redo_move_vm(XLogReaderState *record, uint8 flags,
					const BlockNumber *block)
{
	BlockNumber cleared[2];
	int			n = 0;

	if (flags & ZMOVE_CLEARED_VM_OLD)
		cleared[n++] = block[0];
	if (flags & ZMOVE_CLEARED_VM_NEW)
		cleared[n++] = block[1];
	for (uint8 id = 3; n > 0 && id <= 4; id++)
	{
		if (XLogRecHasBlockRef(record, id))
			zheap_vm_redo(record, id, cleared, n);
	}
}

/* The old page stays locked until the new one is written (rule W4). */
static void
change_redo_move(XLogReaderState *record)
{
	xl_zheap_move xlrec;
	BlockNumber block[2];
	bool		same;
	ZOwnChange	own;
	ZRowChange	row;
	Buffer		oldbuf;
	Buffer		newbuf = InvalidBuffer;

	memcpy(&xlrec, XLogRecGetData(record), SizeOfZHeapMove);
	same = (xlrec.flags & ZMOVE_SAME_PAGE) != 0;
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block[0]);
	if (same)
		block[1] = block[0];
	else
		XLogRecGetBlockTag(record, 1, NULL, NULL, &block[1]);

	undo_redo_insert(record, 2, xlrec.undo_offset[0], block);

	own.xact_slot = xlrec.xact_slot[0];
	own.tenure = (ZTenure) xlrec.tenure[0];
	own.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	own.urp = undo_redo_urp(record, 2, xlrec.undo_offset[same ? 1 : 0]);

	if (XLogReadBufferForRedo(record, 0, &oldbuf) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(oldbuf);

		change_redo_check(page, block[0], xlrec.offset[0]);
		row.offset = xlrec.offset[0];
		row.prune_xid = XidFromFxid(own.fxid);
		zheap_header_get(xlrec.header, &row.header);
		row.tuple = NULL;
		row.len = 0;
		zheap_change_apply_own(page, &own);
		if (!zheap_change_apply_row(page, &row))
			change_redo_failed(block[0], row.offset);
		if (same)
		{
			Size		len;
			char	   *data = XLogRecGetBlockData(record, 0, &len);

			if (!zheap_change_apply_arrival(page, xlrec.offset[1], data, len))
				change_redo_failed(block[1], xlrec.offset[1]);
		}
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(oldbuf);
	}
	if (!same)
		newbuf = change_redo_new_page(record, &xlrec, own.fxid, block[1]);

	if (BufferIsValid(newbuf))
		UnlockReleaseBuffer(newbuf);
	if (BufferIsValid(oldbuf))
		UnlockReleaseBuffer(oldbuf);

	change_redo_move_vm(record, xlrec.flags, block);
}

void
zheap_change_redo(XLogReaderState *record)
{
	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case XLOG_ZHEAP_UPDATE:
			change_redo_row(record, true);
			break;
		case XLOG_ZHEAP_DELETE:
		case XLOG_ZHEAP_LOCK:
			change_redo_row(record, false);
			break;
		case XLOG_ZHEAP_MOVE:
			change_redo_move(record);
			break;
		default:
			elog(PANIC, "zheap_change_redo: unknown info code %u",
				 XLogRecGetInfo(record));
	}
}

void
zheap_change_desc(StringInfo buf, XLogReaderState *record)
{
	const char *data = XLogRecGetData(record);
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info == XLOG_ZHEAP_MOVE)
	{
		xl_zheap_move xlrec;

		memcpy(&xlrec, data, SizeOfZHeapMove);
		appendStringInfo(buf,
						 "off %u new off %u xact slot %u tenure %u new xact slot %u tenure %u flags 0x%02X undo %u %u",
						 xlrec.offset[0], xlrec.offset[1],
						 xlrec.xact_slot[0], xlrec.tenure[0],
						 xlrec.xact_slot[1], xlrec.tenure[1], xlrec.flags,
						 xlrec.undo_offset[0], xlrec.undo_offset[1]);
	}
	else
	{
		xl_zheap_change xlrec;

		memcpy(&xlrec, data, SizeOfZHeapChange);
		appendStringInfo(buf,
						 "off %u xact slot %u tenure %u flags 0x%02X undo %u",
						 xlrec.offset, xlrec.xact_slot, xlrec.tenure,
						 xlrec.flags, xlrec.undo_offset);
		if (info == XLOG_ZHEAP_UPDATE)
		{
			xl_zheap_middle m;

			memcpy(&m, data + SizeOfZHeapChange, sizeof(m));
			appendStringInfo(buf, " prefix %u old %u new %u",
							 m.prefix, m.oldmid, m.newmid);
		}
	}
}
