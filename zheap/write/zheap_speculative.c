/*-------------------------------------------------------------------------
 *
 * zheap_speculative.c
 *	  The end of a speculative insertion: the row is confirmed, or goes.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "zheap/format/zheap_format.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/write/zheap_write.h"

/*
 * The pointer of my speculative row; ERROR if it isn't one.  Chunks of one
 * are plain rows, which nobody finds before it is confirmed.
 */
static ItemId
speculative_item(Relation rel, Page page, const ItemPointerData *tid)
{
	OffsetNumber off = zheap_tid_offset(tid);
	ItemId		lp = NULL;
	ZTupleHeader header;

	if (off >= FirstOffsetNumber && off <= PageGetMaxOffsetNumber(page))
		lp = PageGetItemId(page, off);
	if (lp != NULL && ItemIdIsNormal(lp))
	{
		zheap_header_get((char *) PageGetItem(page, lp), &header);
		if ((header.flags2 & ZH_SPECULATIVE) != 0 ||
			rel->rd_rel->relkind == RELKIND_TOASTVALUE)
			return lp;
	}
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("no speculative row at block %u, offset %u of relation \"%s\"",
					ItemPointerGetBlockNumberNoCheck(tid), off,
					RelationGetRelationName(rel))));
	return NULL;
}

/* It has become an ordinary row: clear the flag. */
static void
confirm_speculative(Relation rel, Buffer buffer, ItemPointer tid)
{
	Page		page = BufferGetPage(buffer);
	ZChangeHead head = {.flags = ZCHANGE_CONFIRM,.offset = zheap_tid_offset(tid)};
	char		packed[ZCHANGE_MAX_HEAD];
	char		decoded = 1;

	AssertPageExclusive(buffer);
	Assert(CritSectionCount == 0);
	(void) speculative_item(rel, page, tid);

	START_CRIT_SECTION();

	zheap_xlog_change_apply_confirm(page, head.offset);
	MarkBufferDirty(buffer);

	if (RelationNeedsWAL(rel))
	{
		XLogBeginInsert();
		XLogRegisterData(packed,
						 zheap_xlog_change_pack(packed, XLOG_ZHEAP_LOCK,
												&head));
		if (RelationIsLogicallyLogged(rel))
		{
			XLogRegisterData(&decoded, sizeof(decoded));
			XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
		}
		XLogRegisterBuffer(0, buffer, REGBUF_STANDARD);
		zheap_xlog_finish(XLOG_ZHEAP_LOCK, page, 1, NULL, head.offset, NULL);
	}

	END_CRIT_SECTION();
}

/*
 * It failed: the row is gone for everybody, although its inserter goes on and
 * may commit.  The pointer stays DEAD (Z8) until the indexes are cleaned.
 * No snapshot could see the row, so there is no conflict horizon.  Returns a
 * copy of the row if it has toasted values, else NULL.
 */
static char *
remove_speculative(Relation rel, Buffer buffer, ItemPointer tid, uint16 *len)
{
	ZPageDelta *delta = palloc(sizeof(ZPageDelta));
	Page		work = zheap_delta_begin(delta, rel, buffer);
	ItemId		lp = speculative_item(rel, work, tid);
	char	   *tuple = (char *) PageGetItem(work, lp);
	char	   *copy = NULL;

	AssertPageExclusive(buffer);
	if (zheap_tuple_has_external(tuple))
	{
		*len = zheap_page_tuple_len(tuple, ItemIdGetLength(lp));
		copy = palloc(*len);
		memcpy(copy, tuple, *len);
	}
	zheap_page_set_dead(work, zheap_tid_offset(tid));
	/* decoding forgets the chunks along with the row */
	delta->decoded = RelationIsLogicallyLogged(rel) &&
		rel->rd_rel->relkind != RELKIND_TOASTVALUE;
	zheap_delta_finish(delta, InvalidFxid);
	pfree(delta);
	return copy;
}

void
zheap_speculative_complete(Relation rel, TupleTableSlot *slot, uint32 token,
						   bool succeeded)
{
	ItemPointer tid = &slot->tts_tid;
	BlockNumber block = ItemPointerGetBlockNumber(tid);
	Buffer		buffer;
	char	   *removed = NULL;
	uint16		len = 0;

	AssertNoPageLocked();
	Assert(zheap_tid_tag(tid) == 0);

	buffer = ReadBuffer(rel, block);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	zheap_page_check(rel, block, BufferGetPage(buffer));

	if (succeeded)
		confirm_speculative(rel, buffer, tid);
	else
		removed = remove_speculative(rel, buffer, tid, &len);
	UnlockReleaseBuffer(buffer);

	if (succeeded)
		return;
	if (removed != NULL)
	{
		zheap_toast_delete(rel, removed, len, true);
		pfree(removed);
	}
	pgstat_count_heap_delete(rel);
}
