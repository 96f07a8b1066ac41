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

#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "zheap/zheap.h"
#include "zheap/zheap_lock.h"

/* my last open record of a delete (zheap_undo.h) */
static ZOpenRecord last_open;

static void
delete_write(ZRowWrite *w, bool changing_part)
{
	ZUndo		u;
	ZTupleHeader header;
	bool		plain;
	UndoRecPtr	urp;

	zheap_row_header(w, &header);
	Assert(!ZHeaderIsEnded(&header));
	plain = !changing_part && zheap_row_is_plain(w, &header);
	if (plain &&
		zheap_open_record_goes_on(&last_open, w->rel, w->block, &w->choice,
								  w->fxid, w->cid))
	{
		header.flags2 |= ZH_DELETED;
		zheap_row_write(w, XLOG_ZHEAP_DELETE, NULL, &header, NULL, 0);
		return;
	}

	zheap_row_describe(w, ZUNDO_DELETE, true, &u, &header);
	header.flags2 |= changing_part ? ZH_MOVED_PARTITION : ZH_DELETED;
	if (plain && (u.flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE)
	{
		u.flags |= ZUNDO_PLAIN;
		if (w->choice.tenure == ZTENURE_FREE ||
			w->choice.tenure == ZTENURE_FROZEN)
			u.flags |= ZUNDO_OPEN;
	}
	urp = zheap_row_write(w, XLOG_ZHEAP_DELETE, &u, &header, NULL, 0);
	if (u.flags & ZUNDO_OPEN)
		zheap_open_record_note(&last_open, w->rel, w->block, urp, w->fxid,
							   w->cid);
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
	TM_Result	result;

	zheap_epq_running = false;

	/* find and wait */
	zheap_row_begin(&w, rel, tid, cid, snapshot, crosscheck);
	w.mode = LockTupleExclusive;
	w.wait = wait;
	w.need_vm = true;
	w.oper = XLTW_Delete;
	result = zheap_row_take(&w);
	if (result != TM_Ok)
	{
		*tmfd = w.failure;
		zheap_row_end(&w);
		return result;
	}

	zheap_predicate_conflict_in(rel, w.block, w.off, w.image, w.image_len);
	delete_write(&w, changing_part);
	zheap_row_end(&w);

	/* chunks are deleted by the same transaction, no page locked */
	if (zheap_tuple_has_external(w.image))
		zheap_toast_delete(rel, w.image, w.image_len, false);

	pgstat_count_heap_delete(rel);
	return TM_Ok;
}
