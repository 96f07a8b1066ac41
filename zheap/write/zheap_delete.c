/*-------------------------------------------------------------------------
 *
 * zheap_delete.c
 *	  Delete a row.  The body stays where it is, for older snapshots and for
 *	  RETURNING; the header says that the row ended, and a record without a
 *	  body goes to undo: one for all rows of a page that a command deletes, if
 *	  they were visible to all.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_logical.h"
#include "zheap/write/zheap_write.h"

/* my last open record of a delete (zheap_undo.h) */
static ZOpenRecord last_open;

static void
delete_tell(ZLogical *logical, const char *image, uint16 image_len)
{
	if (!logical->wanted)
		return;
	zheap_logical_start(logical, ZLOGICAL_LAST);
	zheap_logical_add_old(logical, image, image_len, NULL, 0);
}

/* ----------------------------------------------------------------
 *	further rows of a page
 * ----------------------------------------------------------------
 */

/* Log the end of a row that an open record covers.  In the critical section. */
static void
log_covered(Buffer buffer, OffsetNumber off, const ZTupleHeader *header,
			const ZLogical *logical)
{
	ZChangeHead head = {0};
	char		packed[ZCHANGE_MAX_HEAD];

	Assert(CritSectionCount > 0 && ZHeaderIsEnded(header));
	AssertPageExclusive(buffer);
	head.flags = ZCHANGE_NO_UNDO | ZCHANGE_SAME_NATTS;
	head.tenure = ZTENURE_CONTINUE;
	head.xact_slot = header->slot;
	head.offset = off;
	head.header = *header;

	XLogBeginInsert();
	XLogRegisterData(packed,
					 zheap_xlog_change_pack(packed, XLOG_ZHEAP_DELETE, &head));
	zheap_logical_register(logical, false);
	XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
	zheap_xlog_finish(XLOG_ZHEAP_DELETE, BufferGetPage(buffer), 1, NULL, off,
					  NULL);
}

/*
 * May the row be deleted under my last open record, and nothing else be done
 * to the page?  What isn't mine on it is visible to all.  So must the row be,
 * hence to any snapshot there is; and simple.  Exclusive lock held.  Returns
 * my xact slot, with the row and its header, or 0.
 */
static uint8
is_covered(Page page, OffsetNumber off, const UndoHorizons *hz, Fxid fxid,
		   ZTupleHeader *header, const char **image, uint16 *len)
{
	uint8		id;

	if (!zheap_page_is_valid(page) || PageIsAllVisible(page))
		return 0;
	*image = zheap_row_simple(page, off, header, len);
	if (*image == NULL)
		return 0;
	id = zheap_xact_slot_only(page, fxid, last_open.urp, hz);
	return header->slot != id ? id : 0;
}

/*
 * The frequent case of a command that deletes many rows: an open record of the
 * command covers the row, so that there is nothing to wait for, to choose and
 * to write to undo.  False, with nothing done, if it isn't that case.
 */
static bool
delete_covered(Relation rel, const ItemPointerData *tid, CommandId cid,
			   ZLogical *logical)
{
	BlockNumber block = ItemPointerGetBlockNumberNoCheck(tid);
	OffsetNumber off = zheap_tid_offset(tid);
	UndoHorizons hz;
	Fxid		fxid;
	Buffer		buffer;
	Page		page;
	ZRowChange	row;
	const char *image;
	uint16		image_len;
	uint8		id;

	if (!UndoRecPtrIsValid(last_open.urp) || last_open.block != block ||
		last_open.cid != cid || zheap_tid_tag(tid) != 0 ||
		!RelFileLocatorEquals(last_open.locator, rel->rd_locator) ||
		IsInParallelMode())
		return false;
	fxid = undo_log_current_fxid();
	if (last_open.fxid != fxid)
		return false;

	CHECK_FOR_INTERRUPTS();
	hz = undo_log_horizons();
	buffer = zheap_buffer_read(rel, block);
	page = BufferGetPage(buffer);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	id = is_covered(page, off, &hz, fxid, &row.header, &image, &image_len);
	if (id == 0)
	{
		UnlockReleaseBuffer(buffer);
		return false;
	}
	AssertPageExclusive(buffer);
	zheap_predicate_conflict_in(rel, block, off, image, image_len);
	delete_tell(logical, image, image_len);

	row.offset = off;
	row.header.slot = id;
	ZHeaderSetReused(&row.header, ZH_REUSED_NONE);
	row.header.flags2 |= ZH_DELETED;
	row.tuple = NULL;
	row.len = 0;
	row.new_key = false;

	START_CRIT_SECTION();

	(void) zheap_xlog_change_apply_row(page, &row);
	MarkBufferDirty(buffer);
	if (RelationNeedsWAL(rel))
		log_covered(buffer, off, &row.header, logical);

	END_CRIT_SECTION();

	zheap_xact_slot_note_row(fxid, last_open.urp, off);
	zheap_fsm_notes_add(rel, block, page,
						ItemIdGetLength(PageGetItemId(page, off)));
	UnlockReleaseBuffer(buffer);
	return true;
}

/*
 * See table_tuple_delete().  tid may carry a tag; it isn't changed.
 */
TM_Result
zheap_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
			 Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
			 bool changing_part)
{
	ZRowWrite	w;
	ZLogical	logical;
	TM_Result	result;

	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	AssertNoPageLocked();
	UNDO_IDLE_POINT("delete");
	zheap_logical_begin(&logical, rel, 0, true);
	if (!changing_part && delete_covered(rel, tid, cid, &logical))
	{
		zheap_logical_end(&logical);
		pgstat_count_heap_delete(rel);
		return TM_Ok;
	}

	/* find and wait */
	zheap_row_begin(&w, rel, tid, cid, snapshot, crosscheck);
	w.mode = LockTupleExclusive;
	w.wish.wait = wait;
	w.wish.vm = true;
	w.oper = XLTW_Delete;
	w.logical = &logical;
	result = zheap_row_take(&w);
	if (result == TM_Ok && logical.wanted &&
		zheap_tuple_has_external(w.image))
	{
		/* the values will be fetched with the page locked */
		zheap_row_unlock(&w);
		zheap_logical_lock_values(&logical);
		result = zheap_row_take(&w);
	}
	if (result != TM_Ok)
	{
		*tmfd = w.failure;
		zheap_row_end(&w);
		zheap_logical_end(&logical);
		return result;
	}

	zheap_predicate_conflict_in(rel, w.block, w.off, w.image, w.image_len);
	delete_tell(&logical, w.image, w.image_len);
	(void) zheap_row_delete(&w, changing_part, &last_open, NULL, 1);
	zheap_row_end(&w);
	zheap_logical_end(&logical);

	/* chunks are deleted by the same transaction, no page locked */
	if (zheap_tuple_has_external(w.image))
		zheap_toast_delete(rel, w.image, w.image_len, false);

	pgstat_count_heap_delete(rel);
	return TM_Ok;
}
