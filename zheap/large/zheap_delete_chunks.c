/*-------------------------------------------------------------------------
 *
 * zheap_delete_chunks.c
 *	  The end of a row that was taken, and of rows of the same page that go
 *	  along: chunks of a large value that are on one page end by one WAL record
 *	  and by one visit to the undo log.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"

/* my last open record of chunks (zheap_undo.h) */
static ZOpenRecord last_open;

/*
 * May a row go along with others: does it need neither waiting nor thinking?
 * Never locked since it got its xact slot, and without values out of line or
 * old TIDs at which lockers might be.  Then its header.
 */
const char *
zheap_row_simple(Page page, OffsetNumber off, ZTupleHeader *header,
				 uint16 *len)
{
	const char *tuple = zheap_page_row(page, off, len);

	if (tuple == NULL)
		return NULL;
	zheap_header_get(tuple, header);
	if ((header->flags2 & (ZH_END_MASK | ZH_LOCK_BITS | ZH_SPECULATIVE)) !=
		0 ||
		(header->natts_flags1 & ZH_HASEXTERNAL) != 0)
		return NULL;
	return tuple;
}

/*
 * Those of the rows tids[] that can go along with w's, the first of them: all
 * under an open record, which covers what is visible to all, or each with a
 * record as if they were deleted one after the other.  May read undo.
 */
static void
add_more(ZRowWrite *w, const ItemPointerData *tids, int n, ZRowsMore *more)
{
	more->n = 0;
	for (int i = 1; i < n && more->n < ZROW_MAX_MORE; i++)
	{
		OffsetNumber off = ItemPointerGetOffsetNumber(&tids[i]);
		ZTupleHeader header;
		uint16		len;
		ZUndo		u;

		if (zheap_row_simple(w->page, off, &header, &len) == NULL)
			break;
		/* what becomes of it when the xact slot is taken */
		zheap_xact_slot_flag_header(&header, w->choice.id, w->choice.tenure);
		memset(&u, 0, offsetof(ZUndo, first));
		ItemPointerSetInvalid(&u.tid);
		u.kind = ZUNDO_DELETE;
		u.offset = off;
		u.writer = w->fxid;
		u.cid = w->cid;
		u.flags = ZUNDO_KEY;
		zheap_describe_old(&w->cx, w->page, w->block, off, &w->choice, &header,
						   &u);
		if ((u.flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE)
			u.flags |= ZUNDO_PLAIN;
		else if (more->covered)
			break;
		u.flags &= ~(ZUNDO_TENURE_START | ZUNDO_FAMILY | ZUNDO_BASE);
		if (!more->covered)
		{
			u.chain = UNDO_CHAIN_PREVIOUS;
			Assert(zheap_undo_payload_size(&u) <= ZROW_MORE_PAYLOAD);
			more->payload_len[more->n] =
				zheap_undo_encode(&u, more->payload[more->n]);
			more->undo_flags[more->n] = u.flags;
		}
		ZHeaderSetReused(&header, ZH_REUSED_NONE);
		more->offset[more->n] = off;
		more->flags2[more->n++] = header.flags2 | ZH_DELETED;
	}
}

int
zheap_row_delete(ZRowWrite *w, bool changing_part, ZOpenRecord *open,
				 const ItemPointerData *tids, int n)
{
	ZUndo		u;
	ZTupleHeader header;
	bool		plain;
	bool		covered;
	bool		opens = false;
	UndoRecPtr	urp;
	ZRowsMore	more;

	zheap_row_header(w, &header);
	Assert(!ZHeaderIsEnded(&header));
	plain = !changing_part && w->choice.tenure != ZTENURE_SHARED &&
		zheap_row_is_plain(w, &header);
	covered = plain &&
		zheap_xact_slot_record_covers(open, w->rel, w->block, &w->choice,
									  w->fxid, w->cid);
	if (!covered)
	{
		zheap_row_describe(w, ZUNDO_DELETE, true, &u, &header);
		if (plain && (u.flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE)
		{
			u.flags |= ZUNDO_PLAIN;
			opens = w->choice.tenure == ZTENURE_FREE ||
				w->choice.tenure == ZTENURE_FROZEN;
			if (opens)
				u.flags |= ZUNDO_OPEN;
		}
	}
	header.flags2 |= changing_part ? ZH_MOVED_PARTITION : ZH_DELETED;

	if (n > 1 && w->choice.tenure != ZTENURE_SHARED)
	{
		more.covered = covered || opens;
		add_more(w, tids, n, &more);
		w->more = more.n > 0 ? &more : NULL;
	}
	urp = zheap_row_write(w, XLOG_ZHEAP_DELETE, covered ? NULL : &u, &header,
						  NULL, 0);
	if (opens)
		zheap_xact_slot_note_record(open, w->rel, w->block, urp, w->fxid,
									w->cid);
	if (covered)
		zheap_xact_slot_note_row(w->fxid, open->urp, w->off);
	if (w->more == NULL)
		return 1;
	for (int i = 0; more.covered && i < more.n; i++)
		zheap_xact_slot_note_row(w->fxid, open->urp, more.offset[i]);
	w->more = NULL;
	return 1 + more.n;
}

/*
 * Decoding isn't told of chunks: it keeps those that a transaction inserts, and
 * forgets them along with the row.
 */
TM_Result
zheap_delete_chunks(Relation rel, const ItemPointerData *tids, int n,
					CommandId cid, int *done)
{
	ZRowWrite	w;
	TM_Result	result;

	UNDO_IDLE_POINT("delete");
	zheap_row_begin(&w, rel, &tids[0], cid, SnapshotAny, InvalidSnapshot);
	w.wish.vm = true;
	w.oper = XLTW_Delete;
	result = zheap_row_take(&w);
	*done = result != TM_Ok ? 0 :
		zheap_row_delete(&w, false, &last_open, tids, n);
	zheap_row_end(&w);
	for (int i = 0; i < *done; i++)
		pgstat_count_heap_delete(rel);
	return result;
}
