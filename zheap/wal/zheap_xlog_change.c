/*-------------------------------------------------------------------------
 *
 * zheap_xlog_change.c
 *	  Changes of existing rows as they are applied to a page, by the operation
 *	  and by redo alike, and redo and description of their WAL records.
 *
 * Nothing here decides anything: what to do to the page is in the record. The
 * records are built by zheap_row_write.c, zheap_delete.c and zheap_move.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlogutils.h"
#include "storage/bufmgr.h"

#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_insert.h"

/* ----------------------------------------------------------------
 *	apply
 * ----------------------------------------------------------------
 */

/*
 * The takeover pass, then the xact slot is the writer's; or the record is the
 * newest of the shared xact slot.
 */
void
zheap_xlog_change_apply_own(Page page, const ZOwnChange *own)
{
	if (own->tenure != ZTENURE_SHARED)
		zheap_xact_slot_own(page, own->xact_slot, own->tenure, own->fxid,
							own->urp);
	else if (unlikely(!ZPageHasShared(page)))
		elog(PANIC, "a zheap page has no shared xact slot");
	else
	{
		ZXactSlot	slot = ZPageGetShared(page);

		Assert(own->youngest >= own->fxid && UndoRecPtrIsValid(own->urp));
		slot->fxid_bits = own->youngest | (own->ends ? ZSHARED_ENDS : 0);
		slot->urp = own->urp;
	}
	ZPageGetOpaque(page)->flags &= ~ZPAGE_ALL_RESOLVED;
}

/*
 * Give a row its new header and body.  SLACK is a property of the allocation:
 * without a new body the page's own bit stays as it is.  A row that ended
 * makes the page no longer all-visible, and so does one that is STALE (Z53).
 */
bool
zheap_xlog_change_apply_row(Page page, const ZRowChange *change)
{
	ZTupleHeader header = change->header;
	ZTupleHeader present;
	ItemId		lp = PageGetItemId(page, change->offset);
	char	   *tuple;

	Assert(ItemIdIsNormal(lp));
	if (change->tuple != NULL &&
		!zheap_page_replace(page, change->offset, change->tuple, change->len))
		return false;

	/* there will be an entry that VACUUM hasn't looked at (Z52) */
	if (unlikely(change->new_key))
		header.flags2 &= ~ZH_SWEPT;
	lp = PageGetItemId(page, change->offset);
	tuple = (char *) page + ItemIdGetOffset(lp);
	zheap_header_get(tuple, &present);
	header.natts_flags1 = (header.natts_flags1 & ~ZH_SLACK) |
		(present.natts_flags1 & ZH_SLACK);
	zheap_header_put(tuple, &header);

	if (ZHeaderIsEnded(&header))
		PageClearAllVisible(page);
	if (unlikely(header.flags2 & ZH_STALE))
		zheap_page_note_stale(page);
	return true;
}

/* Put the new version of a moved row. */
bool
zheap_xlog_change_apply_arrival(Page page, OffsetNumber offset,
								const char *tuple,
								uint16 len)
{
	PageClearAllVisible(page);
	return zheap_page_add(page, offset, tuple, len);
}

void
zheap_xlog_change_apply_more(Page page, OffsetNumber offset, uint8 xact_slot,
							 uint16 flags2)
{
	ZRowChange	row = {.offset = offset};

	zheap_header_get((char *) PageGetItem(page, PageGetItemId(page, offset)),
					 &row.header);
	row.header.slot = xact_slot;
	row.header.flags2 = flags2;
	(void) zheap_xlog_change_apply_row(page, &row);
}

void
zheap_xlog_change_apply_confirm(Page page, OffsetNumber offset)
{
	char	   *tuple = (char *) PageGetItem(page, PageGetItemId(page, offset));
	ZTupleHeader header;

	zheap_header_get(tuple, &header);
	header.flags2 &= ~ZH_SPECULATIVE;
	zheap_header_put(tuple, &header);
}

/* ----------------------------------------------------------------
 *	main data
 * ----------------------------------------------------------------
 */

/* What is behind the head is the logical part; returns its length. */
static Size
check_unpacked(const char *p, const char *end)
{
	if (p == NULL)
		elog(ERROR, "WAL record of a row change is malformed");
	return end - p;
}

static char *
pack_several(char *p, const ZChangeHead *head)
{
	OffsetNumber before = head->offset;

	Assert(head->nmore > 0 && head->nmore <= ZCHANGE_MAX_MORE);
	*p++ = (char) head->nmore;
	for (int i = 0; i < head->nmore; i++)
	{
		p = undo_pack(p, undo_zigzag(before, head->more[i]));
		p = undo_pack(p, head->more_flags2[i]);
		before = head->more[i];
	}
	if ((head->flags & ZCHANGE_NO_UNDO) == 0)
		p = undo_pack_u16(p, head->last_offset);
	return p;
}

static const char *
unpack_several(const char *p, const char *end, ZChangeHead *head)
{
	OffsetNumber before = head->offset;

	p = undo_unpack_u8(p, end, &head->nmore);
	if (p == NULL || head->nmore > ZCHANGE_MAX_MORE)
		return NULL;
	for (int i = 0; i < head->nmore; i++)
	{
		uint64		distance = 0;

		p = undo_unpack(p, end, &distance);
		head->more[i] = (OffsetNumber) undo_unzigzag(before, distance);
		p = undo_unpack_small(p, end, &head->more_flags2[i]);
		before = head->more[i];
	}
	if ((head->flags & ZCHANGE_NO_UNDO) == 0)
		p = undo_unpack_u16(p, end, &head->last_offset);
	return p;
}

static inline bool
is_confirm(uint8 info, uint8 flags)
{
	return info == XLOG_ZHEAP_LOCK && (flags & ZCHANGE_CONFIRM) != 0;
}

static inline bool
is_list(uint8 info, uint8 flags)
{
	return info == XLOG_ZHEAP_LOCK && (flags & ZCHANGE_LIST) != 0;
}

uint16
zheap_xlog_change_pack(char *buf, uint8 info, const ZChangeHead *head)
{
	char	   *p = buf;

	if (is_confirm(info, head->flags))
	{
		*p++ = (char) head->flags;
		return undo_pack(p, head->offset) - buf;
	}
	*p++ = (char) (head->flags | (head->tenure << ZCHANGE_TENURE_SHIFT));
	if (is_list(info, head->flags))
	{
		p = undo_pack_u16(p, head->undo_offset);
		return undo_pack(p, head->youngest) - buf;
	}
	*p++ = (char) head->xact_slot;
	p = undo_pack(p, head->offset);
	if ((head->flags & ZCHANGE_NO_UNDO) == 0)
		p = undo_pack_u16(p, head->undo_offset);
	if (head->tenure == ZTENURE_FROZEN)
		p = undo_pack(p, head->conflict);
	else if (head->tenure == ZTENURE_SHARED)
		p = undo_pack(p, head->youngest);
	if (head->flags & ZCHANGE_OTHER_SLOT)
		*p++ = (char) head->header.slot;
	if ((head->flags & ZCHANGE_SAME_NATTS) == 0)
		p = undo_pack_u16(p, head->header.natts_flags1);
	p = undo_pack(p, head->header.flags2 |
				  (head->new_key ? ZCHANGE_FLAGS2_NEW_KEY : 0));
	if (info == XLOG_ZHEAP_UPDATE)
	{
		if (head->flags & ZCHANGE_WHOLE)
			return p - buf;
		p = undo_pack(p, head->prefix);
		p = undo_pack(p, head->oldmid);
		p = undo_pack(p, head->newmid);
	}
	else if (head->flags & ZCHANGE_SEVERAL)
		p = pack_several(p, head);
	return p - buf;
}

void
zheap_xlog_change_unpack(XLogReaderState *record, ZChangeHead *head)
{
	const char *p = XLogRecGetData(record);
	const char *end = p + XLogRecGetDataLen(record);
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	uint8		flags = 0;

	memset(head, 0, sizeof(*head));
	p = undo_unpack_u8(p, end, &flags);
	head->flags = flags & ((1 << ZCHANGE_TENURE_SHIFT) - 1);
	head->tenure = (ZTenure) (flags >> ZCHANGE_TENURE_SHIFT);
	if (is_confirm(info, flags))
	{
		head->logical = p = undo_unpack_small(p, end, &head->offset);
		head->logical_len = check_unpacked(p, end);
		return;
	}
	if (is_list(info, flags))
	{
		p = undo_unpack_u16(p, end, &head->undo_offset);
		head->last_offset = head->undo_offset;
		head->logical = p = undo_unpack(p, end, &head->youngest);
		head->logical_len = check_unpacked(p, end);
		return;
	}
	p = undo_unpack_u8(p, end, &head->xact_slot);
	p = undo_unpack_small(p, end, &head->offset);
	if ((flags & ZCHANGE_NO_UNDO) == 0)
		p = undo_unpack_u16(p, end, &head->undo_offset);
	if (p != NULL && head->tenure == ZTENURE_FROZEN)
		p = undo_unpack(p, end, &head->conflict);
	else if (p != NULL && head->tenure == ZTENURE_SHARED)
		p = undo_unpack(p, end, &head->youngest);
	head->header.slot = head->xact_slot;
	if (flags & ZCHANGE_OTHER_SLOT)
		p = undo_unpack_u8(p, end, &head->header.slot);
	if ((flags & ZCHANGE_SAME_NATTS) == 0)
		p = undo_unpack_u16(p, end, &head->header.natts_flags1);
	p = undo_unpack_small(p, end, &head->header.flags2);
	head->new_key = (head->header.flags2 & ZCHANGE_FLAGS2_NEW_KEY) != 0;
	head->header.flags2 &= ~ZCHANGE_FLAGS2_NEW_KEY;
	head->last_offset = head->undo_offset;
	if (info == XLOG_ZHEAP_UPDATE)
	{
		if ((flags & ZCHANGE_WHOLE) == 0)
		{
			p = undo_unpack_small(p, end, &head->prefix);
			p = undo_unpack_small(p, end, &head->oldmid);
			p = undo_unpack_small(p, end, &head->newmid);
		}
	}
	else if (p != NULL && (flags & ZCHANGE_SEVERAL))
		p = unpack_several(p, end, head);
	head->logical = p;
	head->logical_len = check_unpacked(p, end);
}

uint16
zheap_xlog_change_pack_move(char *buf, const ZMoveHead *head)
{
	char	   *p = buf;

	*p++ = (char) head->flags;
	*p++ = (char) (head->tenure[0] | (head->tenure[1] << 4));
	*p++ = (char) head->xact_slot[0];
	*p++ = (char) head->xact_slot[1];
	p = undo_pack(p, head->offset[0]);
	p = undo_pack(p, head->offset[1]);
	p = undo_pack_u16(p, head->undo_offset[0]);
	p = undo_pack(p, head->undo_offset[1] - head->undo_offset[0]);
	if (head->tenure[0] == ZTENURE_FROZEN || head->tenure[1] == ZTENURE_FROZEN)
		p = undo_pack(p, head->conflict);
	if (head->tenure[0] == ZTENURE_SHARED)
		p = undo_pack(p, head->youngest);
	p = undo_pack(p, head->flags2);
	return p - buf;
}

void
zheap_xlog_change_unpack_move(XLogReaderState *record, ZMoveHead *head)
{
	const char *p = XLogRecGetData(record);
	const char *end = p + XLogRecGetDataLen(record);
	uint8		tenures = 0;

	memset(head, 0, sizeof(*head));
	p = undo_unpack_u8(p, end, &head->flags);
	p = undo_unpack_u8(p, end, &tenures);
	head->tenure[0] = (ZTenure) (tenures & 0x0F);
	head->tenure[1] = (ZTenure) (tenures >> 4);
	p = undo_unpack_u8(p, end, &head->xact_slot[0]);
	p = undo_unpack_u8(p, end, &head->xact_slot[1]);
	p = undo_unpack_small(p, end, &head->offset[0]);
	p = undo_unpack_small(p, end, &head->offset[1]);
	p = undo_unpack_u16(p, end, &head->undo_offset[0]);
	p = undo_unpack_small(p, end, &head->undo_offset[1]);
	head->undo_offset[1] += head->undo_offset[0];
	if (p != NULL && (head->tenure[0] == ZTENURE_FROZEN ||
					  head->tenure[1] == ZTENURE_FROZEN))
		p = undo_unpack(p, end, &head->conflict);
	if (p != NULL && head->tenure[0] == ZTENURE_SHARED)
		p = undo_unpack(p, end, &head->youngest);
	p = undo_unpack_small(p, end, &head->flags2);
	head->logical = p;
	head->logical_len = check_unpacked(p, end);
}

/* ----------------------------------------------------------------
 *	redo
 * ----------------------------------------------------------------
 */

static void
change_redo_failed(BlockNumber block, OffsetNumber offset)
{
	elog(PANIC, "zheap redo: change of row (%u,%u) does not fit its page",
		 block, offset);
}

/* A page on which no row is looked for must be one of ours all the same. */
static void
change_redo_check_page(Page page, BlockNumber block)
{
	if (!zheap_page_is_valid(page))
		elog(PANIC, "zheap redo: block %u is not a zheap page", block);
}

/*
 * The new version of a moved row, from the data of its page, which is as it was
 * before the move.  Returned where it lies: in the record, or in row.
 */
static const char *
change_redo_arrival(XLogReaderState *record, const ZMoveHead *head, Page page,
					BlockNumber block, char *row, uint16 *len)
{
	bool		same = (head->flags & ZMOVE_SAME_PAGE) != 0;
	Size		size;
	const char *data = XLogRecGetBlockData(record, same ? 0 : 1, &size);

	if ((head->flags & ZMOVE_CODED) == 0)
	{
		*len = (uint16) size;
		return data;
	}
	if (data == NULL ||
		!zheap_xlog_insert_decode_row(page,
									  same ? head->offset[0] :
									  head->offset[1] - 1,
									  data, size, head->xact_slot[1], row,
									  len))
		change_redo_failed(block, head->offset[1]);
	return row;
}

/*
 * The row to be changed must be there, else the page isn't the one that was
 * logged.
 */
static void
change_redo_check(Page page, BlockNumber block, OffsetNumber offset)
{
	if (!zheap_page_has_tuple(page, offset))
		elog(PANIC, "zheap redo: no row at (%u,%u)", block, offset);
}

/*
 * Rebuild the new row from the one on the page and the logged middle.
 * Returns its true length.
 */
static uint16
change_redo_body(XLogReaderState *record, Page page, const ZChangeHead *m,
				 const ZTupleHeader *header, BlockNumber block, char *tuple)
{
	OffsetNumber offset = m->offset;
	ItemId		lp = PageGetItemId(page, offset);
	const char *old = (char *) page + ItemIdGetOffset(lp);
	uint16		oldlen = zheap_page_tuple_len(old, ItemIdGetLength(lp));
	uint16		body = oldlen - ZHEAP_HEADER_SIZE;
	bool		whole = (m->flags & ZCHANGE_WHOLE) != 0;
	uint16		oldmid = whole ? body : m->oldmid;
	uint16		suffix;
	Size		datalen;
	char	   *data = XLogRecGetBlockData(record, 0, &datalen);
	char	   *to = tuple;

	if (m->prefix + oldmid > body || (!whole && datalen != m->newmid) ||
		oldlen - oldmid + datalen > BLCKSZ)
		change_redo_failed(block, offset);
	suffix = body - m->prefix - oldmid;

	zheap_header_put(to, header);
	to += ZHEAP_HEADER_SIZE;
	memcpy(to, old + ZHEAP_HEADER_SIZE, m->prefix);
	to += m->prefix;
	if (datalen > 0)
		memcpy(to, data, datalen);
	to += datalen;
	memcpy(to, old + oldlen - suffix, suffix);
	to += suffix;
	return to - tuple;
}

/* the header that the row will have */
static void
change_redo_header(Page page, const ZChangeHead *head, ZTupleHeader *header)
{
	ZTupleHeader present;

	*header = head->header;
	if (head->flags & ZCHANGE_SAME_NATTS)
	{
		zheap_header_get((char *) PageGetItem(page,
											  PageGetItemId(page,
															head->offset)),
						 &present);
		header->natts_flags1 = present.natts_flags1;
	}
}

static void
change_redo_confirm(XLogReaderState *record, OffsetNumber offset)
{
	BlockNumber block;
	Buffer		buffer;

	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);
	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		change_redo_check(page, block, offset);
		zheap_xlog_change_apply_confirm(page, offset);
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

/* live locks of the shared xact slot, in a record of their own */
static void
change_redo_list(XLogReaderState *record, const ZChangeHead *head)
{
	ZOwnChange	own = {.tenure = ZTENURE_SHARED};
	BlockNumber blocks[2];
	Buffer		buffer;

	XLogRecGetBlockTag(record, 0, NULL, NULL, &blocks[0]);
	blocks[1] = blocks[0];
	own.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	own.urp = undo_insert_redo_urp(record, 1, head->undo_offset);
	zheap_shared_unpack(&own, head->youngest);
	undo_insert_redo(record, 1, head->undo_offset, blocks,
					 InvalidOffsetNumber);
	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		change_redo_check_page(BufferGetPage(buffer), blocks[0]);
		zheap_xlog_change_apply_own(BufferGetPage(buffer), &own);
		PageSetLSN(BufferGetPage(buffer), record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}

/* UPDATE in place, DELETE, LOCK */
static void
change_redo_row(XLogReaderState *record, uint8 info)
{
	bool		has_body = info == XLOG_ZHEAP_UPDATE;
	ZChangeHead head;
	PGAlignedBlock tuple;
	ZOwnChange	own;
	ZRowChange	row;
	BlockNumber block;
	Buffer		buffer;
	bool		has_undo;

	Assert(InRecovery);
	zheap_xlog_change_unpack(record, &head);
	if (is_confirm(info, head.flags))
	{
		change_redo_confirm(record, head.offset);
		return;
	}
	if (is_list(info, head.flags))
	{
		change_redo_list(record, &head);
		return;
	}
	has_undo = (head.flags & ZCHANGE_NO_UNDO) == 0;
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);
	own.xact_slot = head.xact_slot;
	own.tenure = head.tenure;
	own.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	own.urp = InvalidUndoRecPtr;
	zheap_shared_unpack(&own, head.youngest);

	zheap_delta_redo_conflict(record,
							  zheap_conflict_unpack(own.fxid, head.conflict));
	if (has_undo)
	{
		BlockNumber blocks[2] = {block, block};

		own.urp = undo_insert_redo_urp(record, 1, head.last_offset);
		undo_insert_redo(record, 1, head.undo_offset, blocks, head.offset);
	}

	if (XLogReadBufferForRedo(record, 0, &buffer) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);

		change_redo_check(page, block, head.offset);
		row.offset = head.offset;
		change_redo_header(page, &head, &row.header);
		row.tuple = NULL;
		row.len = 0;
		row.new_key = has_body && head.new_key;
		if (has_body)
		{
			row.tuple = tuple.data;
			row.len = change_redo_body(record, page, &head,
									   &row.header, block, tuple.data);
		}
		if (has_undo)
			zheap_xlog_change_apply_own(page, &own);
		if (!zheap_xlog_change_apply_row(page, &row))
			change_redo_failed(block, head.offset);
		for (int i = 0; i < head.nmore; i++)
		{
			change_redo_check(page, block, head.more[i]);
			zheap_xlog_change_apply_more(page, head.more[i], head.xact_slot,
										 head.more_flags2[i]);
		}
		PageSetLSN(page, record->EndRecPtr);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);

	if (head.flags & ZCHANGE_CLEARED_VM)
		zheap_space_vm_redo(record, has_undo ? 2 : 1, &block, 1);
}

/* the page of the new version, if it is another one; left locked */
static Buffer
change_redo_new_page(XLogReaderState *record, const ZMoveHead *xlrec,
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
	{
		action = XLogReadBufferForRedo(record, 1, &buffer);
		if (action == BLK_NEEDS_REDO)
			change_redo_check_page(BufferGetPage(buffer), block);
	}

	if (action == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(buffer);
		PGAlignedBlock row;
		uint16		len;
		const char *data = change_redo_arrival(record, xlrec, page, block,
											   row.data, &len);
		ZOwnChange	own;

		own.xact_slot = xlrec->xact_slot[1];
		own.tenure = xlrec->tenure[1];
		own.fxid = fxid;
		own.urp = undo_insert_redo_urp(record, 2, xlrec->undo_offset[1]);
		zheap_xlog_change_apply_own(page, &own);
		if (!zheap_xlog_change_apply_arrival(page, xlrec->offset[1], data,
											 len))
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
			zheap_space_vm_redo(record, id, cleared, n);
	}
}

/* The old page stays locked until the new one is written (Z28). */
static void
change_redo_move(XLogReaderState *record)
{
	ZMoveHead	xlrec;
	BlockNumber block[2];
	bool		same;
	ZOwnChange	own;
	ZRowChange	row;
	Buffer		oldbuf;
	Buffer		newbuf = InvalidBuffer;

	Assert(InRecovery);
	zheap_xlog_change_unpack_move(record, &xlrec);
	same = (xlrec.flags & ZMOVE_SAME_PAGE) != 0;
	XLogRecGetBlockTag(record, 0, NULL, NULL, &block[0]);
	if (same)
		block[1] = block[0];
	else
		XLogRecGetBlockTag(record, 1, NULL, NULL, &block[1]);

	own.fxid = U64FromFullTransactionId(XLogRecGetFullXid(record));
	zheap_delta_redo_conflict(record,
							  zheap_conflict_unpack(own.fxid, xlrec.conflict));
	undo_insert_redo(record, 2, xlrec.undo_offset[0], block,
					 InvalidOffsetNumber);

	own.xact_slot = xlrec.xact_slot[0];
	own.tenure = xlrec.tenure[0];
	zheap_shared_unpack(&own, xlrec.youngest);
	own.urp = undo_insert_redo_urp(record, 2, xlrec.undo_offset[same ? 1 : 0]);

	if (XLogReadBufferForRedo(record, 0, &oldbuf) == BLK_NEEDS_REDO)
	{
		Page		page = BufferGetPage(oldbuf);
		PGAlignedBlock arrival;
		const char *data = NULL;
		uint16		len = 0;

		change_redo_check(page, block[0], xlrec.offset[0]);
		if (same)
			data = change_redo_arrival(record, &xlrec, page, block[1],
									   arrival.data, &len);
		row.offset = xlrec.offset[0];
		zheap_header_get((char *) PageGetItem(page,
											  PageGetItemId(page, row.offset)),
						 &row.header);
		row.header.slot = own.xact_slot;
		row.header.flags2 = xlrec.flags2;
		row.tuple = NULL;
		row.len = 0;
		row.new_key = false;
		zheap_xlog_change_apply_own(page, &own);
		if (!zheap_xlog_change_apply_row(page, &row))
			change_redo_failed(block[0], row.offset);
		if (same &&
			!zheap_xlog_change_apply_arrival(page, xlrec.offset[1], data, len))
			change_redo_failed(block[1], xlrec.offset[1]);
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
zheap_xlog_change_redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	switch (info)
	{
		case XLOG_ZHEAP_UPDATE:
		case XLOG_ZHEAP_DELETE:
		case XLOG_ZHEAP_LOCK:
			change_redo_row(record, info);
			break;
		case XLOG_ZHEAP_MOVE:
			change_redo_move(record);
			break;
		default:
			elog(PANIC, "zheap_xlog_change_redo: unknown info code %u", info);
	}
}

static void
desc_logical(StringInfo buf, Size len)
{
	if (len > 0)
		appendStringInfo(buf, " logical part of %zu bytes", len);
}

void
zheap_xlog_change_desc(StringInfo buf, XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info == XLOG_ZHEAP_MOVE)
	{
		ZMoveHead	head;

		zheap_xlog_change_unpack_move(record, &head);
		appendStringInfo(buf,
						 "off %u new off %u xact slot %u tenure %u new xact slot %u tenure %u flags 0x%02X undo %u %u",
						 head.offset[0], head.offset[1],
						 head.xact_slot[0], head.tenure[0],
						 head.xact_slot[1], head.tenure[1], head.flags,
						 head.undo_offset[0], head.undo_offset[1]);
		desc_logical(buf, head.logical_len);
	}
	else
	{
		ZChangeHead head;

		zheap_xlog_change_unpack(record, &head);
		if (is_confirm(info, head.flags))
		{
			appendStringInfo(buf, "off %u confirmed", head.offset);
			desc_logical(buf, head.logical_len);
			return;
		}
		if (is_list(info, head.flags))
		{
			appendStringInfo(buf, "live locks undo %u", head.undo_offset);
			return;
		}
		appendStringInfo(buf,
						 "off %u xact slot %u tenure %u flags 0x%02X undo %u",
						 head.offset, head.xact_slot, head.tenure,
						 head.flags, head.undo_offset);
		if (head.nmore > 0)
			appendStringInfo(buf, " and %u rows more", head.nmore);
		if (info == XLOG_ZHEAP_UPDATE)
			appendStringInfo(buf, " prefix %u old %u new %u",
							 head.prefix, head.oldmid, head.newmid);
		desc_logical(buf, head.logical_len);
	}
}

XLogRecPtr
zheap_xlog_finish(uint8 info, Page page, uint8 block_id, UndoInsertion *ins,
				  OffsetNumber off, ZVmClear *vm)
{
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0 && zheap_page_is_valid(page));
	if (ins != NULL)
		undo_insert_register(ins, block_id++, off);
	if (vm != NULL)
		zheap_space_vm_register(vm, block_id);
	lsn = undo_images_insert(info);
	PageSetLSN(page, lsn);
	if (ins != NULL)
		undo_insert_set_lsn(ins, lsn);
	if (vm != NULL)
		zheap_space_vm_set_lsn(vm, lsn);
	return lsn;
}
