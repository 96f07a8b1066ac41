/*-------------------------------------------------------------------------
 *
 * zheap_rewrite_write.c
 *	  What a rewrite writes to the new file: rows, and the large values of their
 *	  versions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/space/zheap_space.h"
#include "zheap/table/zheap_rewrite_state.h"
#include "zheap/write/zheap_write.h"

/* ----------------------------------------------------------------
 *	forming
 * ----------------------------------------------------------------
 */

/* is the row without changes one that may stand in the new file */
static bool
row_is_complete(Rewrite *rw, const char *image)
{
	ZTupleHeader header;

	zheap_header_get(image, &header);
	return ZHeaderNatts(&header) == rw->desc->natts &&
		(header.natts_flags1 & ZH_HASEXTERNAL) == 0;
}

/* the same bytes */
static ZTuple *
form_same_row(const char *image, uint16 len)
{
	ZTuple	   *tuple = palloc(sizeof(ZTuple) + len);
	ZTupleHeader header;

	Assert(len >= ZHEAP_HEADER_SIZE);
	zheap_header_get(image, &header);
	tuple->data = (char *) tuple + sizeof(ZTuple);
	tuple->len = len;
	memcpy(tuple->data, image, len);
	header.slot = 0;
	header.flags2 = 0;
	zheap_header_put(tuple->data, &header);
	return tuple;
}

/*
 * The row as it goes to the new file.  Most go as they are.  Else all columns
 * are filled in, dropped ones are null, and large values go to the new toast
 * table.
 */
static ZTuple *
form_row(Rewrite *rw, const char *image, uint16 len)
{
	Assert(len >= ZHEAP_HEADER_SIZE && CritSectionCount == 0);
	if (!rw->has_dropped && len <= ZHEAP_TOAST_THRESHOLD &&
		row_is_complete(rw, image))
		return form_same_row(image, len);

	/* saving chunks may wait for room: no undo pin may be kept then (U16) */
	undo_record_reader_close(&rw->reader);
	zheap_rewrite_judge_deform(rw, image, len);
	return zheap_toast_form_rewritten(rw->newrel, rw->values, rw->isnull,
									  REWRITE_OPTIONS);
}

/* ----------------------------------------------------------------
 *	large values
 *
 * What is saved for versions that have ended is deleted again at the end, so
 * that it goes when no snapshot is older than the rewrite.  A value of an ended
 * row that isn't deleted in the old toast table has gone on with the row when
 * it moved, and is left to where it went.
 * ----------------------------------------------------------------
 */

static void
delete_at_end(Rewrite *rw, struct varlena *pointer)
{
	MemoryContext old = MemoryContextSwitchTo(rw->context);
	struct varatt_external ext;

	Assert(VARATT_IS_EXTERNAL_ONDISK(pointer));
	VARATT_EXTERNAL_GET_POINTER(ext, pointer);
	rw->deleted = lappend_oid(rw->deleted, ext.va_valueid);
	MemoryContextSwitchTo(old);
}

/* the next pointer to a large value in rw->values, from column *i on, or NULL */
static struct varlena *
next_external(Rewrite *rw, int *i)
{
	for (; *i < rw->desc->natts; (*i)++)
	{
		struct varlena *value =
			(struct varlena *) DatumGetPointer(rw->values[*i]);

		if (!rw->isnull[*i] && TupleDescAttr(rw->desc, *i)->attlen == -1 &&
			VARATT_IS_EXTERNAL_ONDISK(value))
		{
			(*i)++;
			return value;
		}
	}
	return NULL;
}

/* is a pointer to a large value in rw->values */
static bool
has_external(Rewrite *rw, const void *pointer)
{
	struct varlena *value;
	int			i = 0;

	while ((value = next_external(rw, &i)) != NULL)
	{
		if (memcmp(pointer, value, TOAST_POINTER_SIZE) == 0)
			return true;
	}
	return false;
}

/*
 * Delete what was saved for a row that won't be written, but not what the one
 * that is written instead, or NULL, has, too.
 */
static void
delete_values_of_copy(Rewrite *rw, const ZTuple *tuple, const ZTuple *instead)
{
	List	   *saved = NIL;
	struct varlena *value;
	ListCell   *lc;
	int			i = 0;

	if (!zheap_tuple_has_external(tuple->data))
		return;
	zheap_tuple_deform(rw->desc, tuple->data, tuple->len, rw->values,
					   rw->isnull);
	while ((value = next_external(rw, &i)) != NULL)
		saved = lappend(saved, value);
	if (instead != NULL)
		zheap_tuple_deform(rw->desc, instead->data, instead->len, rw->values,
						   rw->isnull);
	foreach(lc, saved)
	{
		if (instead == NULL || !has_external(rw, lfirst(lc)))
			delete_at_end(rw, lfirst(lc));
	}
}

/* a row's copy is going to be written: which values does no live row have */
static void
delete_values_of_older(Rewrite *rw, const RecentRow *row, const ZTuple *tuple)
{
	bool		ended = ZHeaderIsEnded(&row->header);
	bool		any = zheap_tuple_has_external(tuple->data);
	struct varlena *value;
	ListCell   *lc;
	int			i = 0;

	if (any)
		zheap_tuple_deform(rw->desc, tuple->data, tuple->len, rw->values,
						   rw->isnull);
	if (ended)
	{
		while (any && (value = next_external(rw, &i)) != NULL)
		{
			if (zheap_chunk_is_deleted(value))
				delete_at_end(rw, value);
		}
		return;
	}
	foreach(lc, rw->externals)
	{
		External   *external = lfirst(lc);

		if (!any || !has_external(rw, external->pointer))
			delete_at_end(rw, (struct varlena *) external->pointer);
	}
}

void
zheap_rewrite_write_deleted(Rewrite *rw)
{
	Assert(rw->nbatch == 0 && rw->moved == NIL);
	if (rw->deleted == NIL)
		return;
	list_sort(rw->deleted, list_oid_cmp);
	list_deduplicate_oid(rw->deleted);
	/* chunks that this command has inserted can't be deleted by it */
	CommandCounterIncrement();
	zheap_chunk_delete_saved(rw->newrel, rw->deleted);
	list_free(rw->deleted);
}

/*
 * Save the values of all versions of a recent row.  Those that the row itself
 * keeps are found saved when it is formed.  The snapshots for which a version
 * is kept may have gone since it was judged, and its values with them.  False:
 * so has the row itself, which had ended.
 */
static bool
save_externals(Rewrite *rw, const RecentRow *row)
{
	ListCell   *lc;

	AssertNoPageLocked();
	foreach(lc, rw->externals)
	{
		External   *external = lfirst(lc);
		struct varlena *pointer = (struct varlena *) external->pointer;
		struct varatt_external ext;
		struct varlena *value;

		VARATT_EXTERNAL_GET_POINTER(ext, pointer);
		if (ext.va_toastrelid != rw->newrel->rd_toastoid)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg("row of relation \"%s\" has a value in toast table %u instead of %u",
							RelationGetRelationName(rw->oldrel),
							ext.va_toastrelid, rw->newrel->rd_toastoid)));
		if (external->ended_by == InvalidFxid)
			value = detoast_external_attr(pointer);
		else
			value = zheap_chunk_fetch_ended(pointer, external->ended_by);
		if (value != NULL)
		{
			(void) zheap_chunk_save(rw->newrel, PointerGetDatum(value),
									pointer, NULL, REWRITE_OPTIONS);
			pfree(value);
			if (ZHeaderIsEnded(&row->header) &&
				zheap_chunk_is_deleted(pointer))
				delete_at_end(rw, pointer);
		}
		else if (ZHeaderIsEnded(&row->header) &&
				 external->ended_by == row->link_fxid)
			return false;
	}
	return true;
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

void
zheap_rewrite_write_batch(Rewrite *rw)
{
	Assert(rw->nbatch >= 0 && rw->nbatch <= lengthof(rw->batch));
	AssertNoPageLocked();
	if (rw->nbatch == 0)
		return;
	undo_record_reader_close(&rw->reader);
	zheap_insert_settled(rw->newrel, rw->batch, rw->nbatch, REWRITE_OPTIONS,
						 rw->bistate, rw->scratch);
	rw->nbatch = 0;
	rw->batch_bytes = 0;
	MemoryContextReset(rw->batch_context);
}

/* tuple is allocated in batch_context */
void
zheap_rewrite_write_settled(Rewrite *rw, ZTuple *tuple)
{
	Assert(GetMemoryChunkContext(tuple) == rw->batch_context);
	Assert(rw->nbatch < lengthof(rw->batch));
	rw->batch[rw->nbatch++] = tuple;
	rw->batch_bytes += tuple->len + sizeof(ItemIdData);
	if (rw->nbatch == lengthof(rw->batch) ||
		rw->batch_bytes >= ZHEAP_NEW_PAGE_ROOM)
		zheap_rewrite_write_batch(rw);
}

/*
 * A recent row as it goes to the new file.  If it has ended, the pointers to
 * its large values stay as they are: the values have been saved, and may be
 * gone from the old toast table.
 */
static ZTuple *
form_recent_row(Rewrite *rw, const RecentRow *row)
{
	ZFormPlan	plan;

	if (!ZHeaderIsEnded(&row->header) ||
		(row->header.natts_flags1 & ZH_HASEXTERNAL) == 0)
		return form_row(rw, row->image, row->len);

	zheap_rewrite_judge_deform(rw, row->image, row->len);
	zheap_tuple_plan(rw->desc, rw->values, rw->isnull, &plan);
	/* defaults of added columns may have made it too long */
	if (plan.len > Max(ZHEAP_TOAST_THRESHOLD, row->len))
		return form_row(rw, row->image, row->len);
	return zheap_tuple_form_planned(rw->desc, rw->values, rw->isnull, &plan);
}

/*
 * The defaults that core will forget, as a row for the records of all recent
 * rows; most of its bytes are out of line.  No live row has these values, so
 * they are deleted again at the end.  ERROR 54000: it is too big all the same.
 */
static const ZTuple *
missing_row(Rewrite *rw)
{
	MemoryContext old;

	if (rw->missing != NULL)
		return rw->missing;
	old = MemoryContextSwitchTo(rw->context);
	zheap_rewrite_judge_missing(rw);
	rw->missing = zheap_toast_form_short(rw->newrel, rw->values, rw->isnull,
										 REWRITE_OPTIONS);
	delete_values_of_copy(rw, rw->missing, NULL);
	MemoryContextSwitchTo(old);
	return rw->missing;
}

/*
 * A recent row with the bytes that it has: columns that it lacks are added
 * behind, out of line.  NULL: it would be too big, or has none.
 */
static ZTuple *
form_similar_row(Rewrite *rw, const RecentRow *row)
{
	int			natts = ZHeaderNatts(&row->header);
	ZTuple	   *added;
	ZFormPlan	plan;
	Datum	   *values;
	bool	   *isnull;

	if (row_is_complete(rw, row->image))
		return form_same_row(row->image, row->len);
	if (natts == rw->desc->natts)
		return NULL;

	zheap_rewrite_judge_missing(rw);
	memset(rw->isnull, true, natts * sizeof(bool));
	added = zheap_toast_form_short(rw->newrel, rw->values, rw->isnull,
								   REWRITE_OPTIONS);
	values = palloc(rw->desc->natts * sizeof(Datum));
	isnull = palloc(rw->desc->natts * sizeof(bool));
	zheap_tuple_deform(rw->desc, added->data, added->len, values, isnull);
	zheap_rewrite_judge_deform(rw, row->image, row->len);
	memcpy(values, rw->values, natts * sizeof(Datum));
	memcpy(isnull, rw->isnull, natts * sizeof(bool));
	zheap_tuple_plan(rw->desc, values, isnull, &plan);
	return plan.len > ZHEAP_MAX_TUPLE_SIZE ? NULL :
		zheap_tuple_form_planned(rw->desc, values, isnull, &plan);
}

/* copy a recent row; next is its new successor, or invalid */
static void
write_recent(Rewrite *rw, const RecentRow *row, ItemPointer next)
{
	ZTuple	   *tuple = form_recent_row(rw, row);
	ZTuple	   *similar;
	uint16		ended = row->header.flags2 & ZH_END_MASK;
	ItemPointerData tid;
	ZUndo		u;

	Assert(row->link_fxid != InvalidFxid && UndoRecPtrIsValid(row->link_urp));
	Assert(!row->lacks || rw->has_missing);
	zheap_rewrite_write_batch(rw);

	memset(&u, 0, sizeof(u));
	u.tid = *next;
	switch (ended)
	{
		case 0:
			u.kind = ZUNDO_UPDATE;
			break;
		case ZH_MOVED:
			u.kind = ZUNDO_MOVE;
			break;
		default:
			u.kind = ZUNDO_DELETE;
			break;
	}
	u.offset = FirstOffsetNumber;	/* not known yet */
	u.flags = ZUNDO_OLD_ELSEWHERE;
	if (ended != 0 && row->key)
		u.flags |= ZUNDO_KEY;
	u.cid = rw->cid;
	u.oldhdr = row->header;
	u.link_fxid = row->link_fxid;
	u.link_urp = row->link_urp;
	u.old_block = ItemPointerGetBlockNumber(&row->tid);
	u.old_offset = ItemPointerGetOffsetNumber(&row->tid);
	if (row->lacks)
	{
		u.missing_len = missing_row(rw)->len;
		u.missing = missing_row(rw)->data;
	}
	zheap_undo_diff(&u.diff, row->image, row->len, tuple->data, tuple->len);

	/* a huge row that looks quite different now need not */
	if (u.diff.oldmid + u.missing_len > ZUNDO_MAX_ROW_BYTES &&
		(similar = form_similar_row(rw, row)) != NULL)
	{
		delete_values_of_copy(rw, tuple, similar);
		tuple = similar;
		zheap_undo_diff(&u.diff, row->image, row->len, tuple->data,
						tuple->len);
	}
	if (u.diff.oldmid + u.missing_len > ZUNDO_MAX_ROW_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row (%u,%u) of relation \"%s\" is too big to be copied together with what its older versions need",
						u.old_block, u.old_offset,
						RelationGetRelationName(rw->oldrel)),
				 errhint("Try again when the transactions that may see older versions of the row, this one included, have ended.")));

	delete_values_of_older(rw, row, tuple);
	/* the index will have entries of all its keys (Z47) */
	Assert(rw->nbatch == 0);
	zheap_insert_copied(rw->newrel, tuple, &u,
						ended | (row->header.flags2 & ZH_STALE),
						REWRITE_OPTIONS,
						rw->bistate, &tid);

	if (ItemPointerIsValid(&row->from))
	{
		ArrivedRow *entry = hash_search(rw->arrived, &row->tid, HASH_ENTER,
										NULL);

		entry->new = tid;
	}
}

/* a recent row: now, or at the end if it moved */
static void
copy_recent(Rewrite *rw)
{
	RecentRow  *row = rw->recent;
	ItemPointerData none;

	/* no undo page stays pinned where one is reserved (U16) */
	undo_record_reader_close(&rw->reader);
	UNDO_ERROR_POINT("rewrite-row-judged");
	if (!save_externals(rw, row))
	{
		rewrite_found_dead(rw);
		return;
	}
	ItemPointerSetInvalid(&none);
	if (!ItemPointerIsValid(&row->next))
		write_recent(rw, row, &none);
	else
	{
		Size		size = offsetof(RecentRow, image) + row->len;
		RecentRow  *keep = MemoryContextAlloc(rw->context, size);
		MemoryContext old = MemoryContextSwitchTo(rw->context);

		memcpy(keep, row, size);
		rw->moved = lappend(rw->moved, keep);
		MemoryContextSwitchTo(old);
	}
}

/*
 * Copy the rows that moved, the last ones of each chain of moves first.  Where
 * nothing is left of the successor, because it ended for all, so did the row,
 * in truth; it is kept all the same, as one that was deleted.
 */
void
zheap_rewrite_write_moved(Rewrite *rw)
{
	bool		force = false;

	undo_record_reader_close(&rw->reader);
	UNDO_ERROR_POINT("rewrite-moved-rows");
	while (rw->moved != NIL)
	{
		List	   *rest = NIL;
		ListCell   *lc;
		bool		progress = false;

		foreach(lc, rw->moved)
		{
			RecentRow  *row = lfirst(lc);
			ArrivedRow *entry;
			ItemPointerData next;

			CHECK_FOR_INTERRUPTS();
			entry = hash_search(rw->arrived, &row->next, HASH_FIND, NULL);
			if (entry == NULL && !force)
			{
				rest = lappend(rest, row);
				continue;
			}
			ItemPointerSetInvalid(&next);
			if (entry != NULL)
				next = entry->new;
			MemoryContextSwitchTo(rw->row_context);
			write_recent(rw, row, &next);
			MemoryContextReset(rw->row_context);
			MemoryContextSwitchTo(rw->context);
			pfree(row);
			progress = true;
		}
		list_free(rw->moved);
		rw->moved = rest;
		force = !progress;
	}
}

/* copy a row that was judged */
void
zheap_rewrite_write_row(Rewrite *rw, RowClass class)
{
	Assert(class != ROW_RECENT || rw->recent != NULL);
	if (class == ROW_SETTLED)
	{
		MemoryContextSwitchTo(rw->batch_context);
		zheap_rewrite_write_settled(rw, form_row(rw, rw->image, rw->len));
	}
	else if (class == ROW_RECENT)
		copy_recent(rw);
}
