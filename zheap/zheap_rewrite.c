/*-------------------------------------------------------------------------
 *
 * zheap_rewrite.c
 *	  Copying a table into a new file, for VACUUM FULL and CLUSTER.
 *
 * Both are MVCC-safe: snapshots that are older than the command see afterwards
 * what they saw before.  Each row falls in one of three classes:
 *
 *	ended for all	left behind
 *	settled			visible to all: written as such, without undo
 *	recent			somebody may not see it, or may see an older version,
 *					or that it hasn't ended.  The copy is written as a change by
 *					this transaction whose undo record names the old version:
 *					owner and record in undo, old block and offset.  Who doesn't
 *					see us steps back and goes on in the history that the row
 *					has in undo already, which stays as long as it is needed
 *					(Z1).  Nothing of it is copied.
 *
 * Two things that old versions need don't live in undo.  Their out-of-line
 * values: those of recent rows are saved into the new toast table, under the
 * identities they have, which the swap of toast tables keeps valid.  And
 * defaults of columns added without a rewrite, which core forgets: the copy's
 * record keeps them.
 *
 * A row that moved names its new place in undo; its copy is written last, when
 * the new place of that place is known, and names it.
 *
 * The table is locked in ACCESS EXCLUSIVE mode: nobody changes it, nobody has
 * a row lock, all other writers have finished.  So pages are judged from
 * private copies, after what aborted on them was taken back.  Temporary
 * memory is per row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/multixact.h"
#include "access/relscan.h"
#include "access/xact.h"
#include "commands/progress.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/procarray.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "undo/undo_debug.h"
#include "zheap/history/zheap_announce.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/write/zheap_chunk.h"
#include "zheap/zheap.h"

/* of the payload of a copy record: what is left by its fixed parts */
#define COPY_MAX_OLD_BYTES	(UNDO_MAX_PAYLOAD - 128)

#define REWRITE_OPTIONS		(HEAP_INSERT_SKIP_FSM | HEAP_INSERT_NO_LOGICAL)

typedef enum RowClass
{
	ROW_NONE,					/* no row under this TID */
	ROW_DEAD,					/* ended for all */
	ROW_SETTLED,
	ROW_RECENT
} RowClass;

/* a recent row on its way */
typedef struct RecentRow
{
	ItemPointerData tid;		/* in the old file */
	ItemPointerData next;		/* it moved there; else invalid */
	ItemPointerData from;		/* it came from there by a move, or invalid */
	bool		key;			/* its end is a change of the key */
	bool		lacks;			/* some version lacks columns with defaults */
	ZTupleHeader header;
	Fxid		link_fxid;		/* the newest version's writer and record */
	UndoRecPtr	link_urp;
	uint16		len;
	char		image[FLEXIBLE_ARRAY_MEMBER];
} RecentRow;

/* a large value of some version of a row */
typedef struct External
{
	Fxid		ended_by;		/* of the newest version that has it, or none */
	char		pointer[TOAST_POINTER_SIZE];
} External;

/* where rows went that had come by a move */
typedef struct ArrivedRow
{
	ItemPointerData old;		/* hash key */
	ItemPointerData new;
} ArrivedRow;

typedef struct Rewrite
{
	Relation	oldrel;
	Relation	newrel;
	TupleDesc	desc;
	CommandId	cid;
	BulkInsertState bistate;
	Fxid		horizon;		/* committed below: visible to everybody */
	Fxid		conflict;		/* newest writer settled by that, not by
								 * all_visible_before */
	BlockNumber conflict_block;

	/* columns */
	bool		has_dropped;
	bool		toasts;			/* values are kept out of line */
	ZTuple	   *missing;		/* defaults that core will forget, or NULL */
	Datum	   *values;
	bool	   *isnull;

	/* the old page */
	BlockNumber block;
	BufferAccessStrategy strategy;
	UndoHorizons hz;
	UndoReader	reader;
	PGAlignedBlock page;

	/* the row being judged */
	ZWalk		walk;
	uint16		len;
	char		image[BLCKSZ];
	RecentRow  *recent;			/* of a ROW_RECENT; in row_context */
	List	   *externals;		/* its versions' Externals, each once */
	MemoryContext row_context;

	/* settled rows that are going to be written together */
	int			nbatch;
	Size		batch_bytes;
	ZTuple	   *batch[MaxHeapTuplesPerPage];
	MemoryContext batch_context;
	char	   *scratch;

	/* identities of values that were saved, but no live row has */
	List	   *deleted;

	/* moves */
	List	   *moved;			/* RecentRows whose copy waits for the end */
	HTAB	   *arrived;
	MemoryContext context;

	/* for the caller */
	double		num_tuples;
	double		vacuumed;
	double		recently_dead;
} Rewrite;

#define rewrite_is_corrupt(rw, off, expected) \
	zheap_walk_corrupt((rw)->oldrel, (rw)->block, off, expected)

/* ----------------------------------------------------------------
 *	columns
 * ----------------------------------------------------------------
 */

static void
survey_columns(Rewrite *rw)
{
	TupleDesc	desc = rw->desc;
	bool		any = false;

	rw->values = palloc(desc->natts * sizeof(Datum));
	rw->isnull = palloc(desc->natts * sizeof(bool));
	rw->toasts = OidIsValid(rw->newrel->rd_toastoid);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		rw->values[i] = (Datum) 0;
		rw->isnull[i] = true;
		if (att->attisdropped)
			rw->has_dropped = true;
		else if (att->atthasmissing)
		{
			rw->values[i] = getmissingattr(desc, i + 1, &rw->isnull[i]);
			any = true;
		}
	}
	if (any)
		rw->missing = zheap_tuple_form(desc, rw->values, rw->isnull);
}

/* would core fill in a column that a row of natts columns hasn't */
static bool
row_lacks_columns(Rewrite *rw, int natts)
{
	if (rw->missing == NULL)
		return false;
	for (int i = natts; i < rw->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(rw->desc, i);

		if (att->atthasmissing && !att->attisdropped)
			return true;
	}
	return false;
}

/* the row's values into rw->values, without those of dropped columns */
static void
deform_row(Rewrite *rw, const char *image, uint16 len)
{
	zheap_tuple_deform(rw->desc, image, len, rw->values, rw->isnull);
	for (int i = 0; rw->has_dropped && i < rw->desc->natts; i++)
	{
		if (TupleDescAttr(rw->desc, i)->attisdropped)
			rw->isnull[i] = true;
	}
}

/* is the row without changes one that may stand in the new file */
static bool
row_is_complete(Rewrite *rw, const char *image)
{
	ZTupleHeader header;

	zheap_header_get(image, &header);
	return ZHeaderNatts(&header) == rw->desc->natts &&
		(header.natts_flags1 & ZH_HASEXTERNAL) == 0;
}

/* the same bytes, but for lockers of old TIDs: there are none */
static ZTuple *
form_same_row(const char *image, uint16 len)
{
	ZTuple	   *tuple = palloc(sizeof(ZTuple) + len);
	ZTupleHeader header;

	zheap_header_get(image, &header);
	if (header.natts_flags1 & ZH_ORIGIN)
		len -= zheap_page_tuple_origins(image, len, NULL) * ZHEAP_ORIGIN_SIZE;
	tuple->data = (char *) tuple + sizeof(ZTuple);
	tuple->len = len;
	memcpy(tuple->data, image, len);
	header.slot = 0;
	header.natts_flags1 &= ~ZH_ORIGIN;
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
	if (!rw->has_dropped && len <= ZHEAP_TOAST_THRESHOLD &&
		row_is_complete(rw, image))
		return form_same_row(image, len);

	/* saving chunks may wait for room: no undo pin may be kept then (U16) */
	undo_record_reader_close(&rw->reader);
	deform_row(rw, image, len);
	return zheap_toast_form_rewritten(rw->newrel, rw->values, rw->isnull,
									  REWRITE_OPTIONS);
}

/* ----------------------------------------------------------------
 *	judging a row
 * ----------------------------------------------------------------
 */

/* Have a copy of an old page, rolled back.  Samples the horizons. */
static void
load_page(Rewrite *rw, BlockNumber block)
{
	Buffer		buffer;
	Page		page;

	if (rw->block == block)
		return;
	rw->block = block;
	rw->hz = undo_log_horizons();
	buffer = ReadBufferExtended(rw->oldrel, MAIN_FORKNUM, block, RBM_NORMAL,
								rw->strategy);
	zheap_rollback_lock(rw->oldrel, buffer);
	page = BufferGetPage(buffer);
	memcpy(rw->page.data, page, BLCKSZ);
	UnlockReleaseBuffer(buffer);
}

/*
 * Which transaction made the version that the walk stands at?  True: the walk
 * stands at the record, and the writer is mine or too recent to be visible to
 * all.  False: the version is settled.
 */
static bool
find_recent_writer(Rewrite *rw, ZWalkState state)
{
	ZWalk	   *walk = &rw->walk;

	while (state == ZWALK_OWNED)
	{
		ZXactStatus status = zheap_xact_slot_fxid_status(walk->fxid, &rw->hz);

		if (status == ZXACT_ALL_VISIBLE)
			break;
		if (status == ZXACT_COMMITTED && walk->fxid < rw->horizon)
		{
			if (walk->fxid > rw->conflict)
			{
				rw->conflict = walk->fxid;
				rw->conflict_block = rw->block;
			}
			break;
		}
		if (status != ZXACT_COMMITTED && status != ZXACT_CURRENT)
			rewrite_is_corrupt(rw, walk->off,
							   "no unfinished change in a table that is locked");
		switch (zheap_walk_find(walk, false))
		{
			case ZFIND_FOUND:
				return true;
			case ZFIND_GONE:
				return false;
			default:
				break;
		}
	}
	return false;
}

/*
 * Note what a version that somebody may see needs besides undo.  ended_by:
 * which transaction replaced or deleted it, or none.
 */
static void
note_version(Rewrite *rw, RecentRow *row, Fxid ended_by)
{
	ZTupleHeader header;
	int			natts;

	zheap_header_get(rw->image, &header);
	natts = ZHeaderNatts(&header);
	if (row_lacks_columns(rw, natts))
		row->lacks = true;
	if (!rw->toasts || (header.natts_flags1 & ZH_HASEXTERNAL) == 0)
		return;

	deform_row(rw, rw->image, rw->len);
	for (int i = 0; i < Min(natts, rw->desc->natts); i++)
	{
		void	   *value = DatumGetPointer(rw->values[i]);
		bool		known = false;
		ListCell   *lc;

		if (rw->isnull[i] || TupleDescAttr(rw->desc, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(value))
			continue;
		foreach(lc, rw->externals)
		{
			External   *external = lfirst(lc);

			if (memcmp(external->pointer, value, TOAST_POINTER_SIZE) == 0)
				known = true;
		}
		if (!known)
		{
			External   *external = palloc(sizeof(External));

			external->ended_by = ended_by;
			memcpy(external->pointer, value, TOAST_POINTER_SIZE);
			rw->externals = lappend(rw->externals, external);
		}
	}
}

/* The walk stands at the record of a recent row's newest version. */
static void
collect_history(Rewrite *rw)
{
	ZWalk	   *walk = &rw->walk;
	RecentRow  *row = palloc(offsetof(RecentRow, image) + rw->len);
	Fxid		ended_by = InvalidFxid;

	if (ZHeaderIsEnded(&walk->hdr))
		ended_by = walk->fxid;
	row->header = walk->hdr;
	row->link_fxid = walk->fxid;
	row->link_urp = walk->urp;
	row->len = rw->len;
	memcpy(row->image, rw->image, rw->len);
	ItemPointerSet(&row->tid, rw->block, walk->off);
	ItemPointerSetInvalid(&row->from);
	ItemPointerSetInvalid(&row->next);
	if (walk->undo.kind == ZUNDO_MOVE)
		row->next = walk->undo.tid;
	row->key = (walk->undo.flags & ZUNDO_KEY) != 0;
	row->lacks = false;
	rw->recent = row;
	rw->externals = NIL;

	for (;;)
	{
		ZWalkState	state;

		CHECK_FOR_INTERRUPTS();
		note_version(rw, row, ended_by);
		if (ZUndoIsInsert(&walk->undo))
		{
			row->from = walk->undo.tid;
			break;
		}
		ended_by = walk->fxid;
		state = zheap_walk_step_back(walk);
		if (!find_recent_writer(rw, state))
		{
			note_version(rw, row, ended_by);
			break;
		}
	}
	zheap_walk_forget_missing(walk);
}

/*
 * Class of the row at an offset of the page loaded.  Its bytes are in
 * rw->image; of a recent one in *rw->recent, with all that its versions need.
 */
static RowClass
judge_row(Rewrite *rw, OffsetNumber off)
{
	ZWalk	   *walk = &rw->walk;
	ZWalkState	state;

	if (PageIsNew(rw->page.data))
		return ROW_NONE;
	zheap_walk_init(walk, rw->oldrel, &rw->reader, &rw->hz, rw->block, off,
					rw->image, &rw->len);
	state = zheap_walk_start(walk, rw->page.data);
	if (state == ZWALK_NONE)
		return ROW_NONE;
	if (find_recent_writer(rw, state))
	{
		collect_history(rw);
		return ROW_RECENT;
	}
	return ZHeaderIsEnded(&walk->hdr) ? ROW_DEAD : ROW_SETTLED;
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

static void
write_batch(Rewrite *rw)
{
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
static void
write_settled(Rewrite *rw, ZTuple *tuple)
{
	rw->batch[rw->nbatch++] = tuple;
	rw->batch_bytes += tuple->len + sizeof(ItemIdData);
	if (rw->nbatch == lengthof(rw->batch) ||
		rw->batch_bytes >= ZHEAP_NEW_PAGE_ROOM)
		write_batch(rw);
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

/* values of a copy that won't be written; they were saved for it */
static void
delete_values_of_copy(Rewrite *rw, const ZTuple *tuple)
{
	struct varlena *value;
	int			i = 0;

	if (!zheap_tuple_has_external(tuple->data))
		return;
	zheap_tuple_deform(rw->desc, tuple->data, tuple->len, rw->values,
					   rw->isnull);
	while ((value = next_external(rw, &i)) != NULL)
		delete_at_end(rw, value);
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
		bool		kept = false;

		i = 0;
		while (any && (value = next_external(rw, &i)) != NULL)
		{
			if (memcmp(external->pointer, value, TOAST_POINTER_SIZE) == 0)
				kept = true;
		}
		if (!kept)
			delete_at_end(rw, (struct varlena *) external->pointer);
	}
}

static void
delete_saved(Rewrite *rw)
{
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
									pointer, NULL, NULL,
									REWRITE_OPTIONS);
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

	deform_row(rw, row->image, row->len);
	zheap_tuple_plan(rw->desc, rw->values, rw->isnull, &plan);
	/* defaults of added columns may have made it too long */
	if (plan.len > Max(ZHEAP_TOAST_THRESHOLD, row->len))
		return form_row(rw, row->image, row->len);
	return zheap_tuple_form_planned(rw->desc, rw->values, rw->isnull, &plan);
}

/* copy a recent row; next is its new successor, or invalid */
static void
write_recent(Rewrite *rw, const RecentRow *row, ItemPointer next)
{
	ZTuple	   *tuple = form_recent_row(rw, row);
	uint16		ended = row->header.flags2 & ZH_END_MASK;
	ItemPointerData tid;
	ZUndo		u;

	write_batch(rw);

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
		u.missing_len = rw->missing->len;
		u.missing = rw->missing->data;
	}
	zheap_undo_diff(&u.diff, row->image, row->len, tuple->data, tuple->len);

	/* a huge row that looks quite different now need not: keep its bytes */
	if (u.diff.oldmid + u.missing_len > COPY_MAX_OLD_BYTES &&
		row_is_complete(rw, row->image))
	{
		delete_values_of_copy(rw, tuple);
		tuple = form_same_row(row->image, row->len);
		zheap_undo_diff(&u.diff, row->image, row->len, tuple->data,
						tuple->len);
	}
	if (u.diff.oldmid + u.missing_len > COPY_MAX_OLD_BYTES)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row (%u,%u) of relation \"%s\" is too big to be copied together with what its older versions need",
						u.old_block, u.old_offset,
						RelationGetRelationName(rw->oldrel)),
				 errhint("Try again when the transactions that may see older versions of the row have ended.")));

	delete_values_of_older(rw, row, tuple);
	/* the index will have entries of all its keys (Z47) */
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

/* an ended row was counted that nobody needs any more */
static void
found_dead(Rewrite *rw)
{
	rw->num_tuples -= 1;
	rw->recently_dead -= 1;
	rw->vacuumed += 1;
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
		found_dead(rw);
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
static void
write_moved(Rewrite *rw)
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

/* ----------------------------------------------------------------
 *	the three ways through the table
 * ----------------------------------------------------------------
 */

static void
count_row(Rewrite *rw, RowClass class)
{
	switch (class)
	{
		case ROW_DEAD:
			rw->vacuumed += 1;
			break;
		case ROW_RECENT:
			if (ZHeaderIsEnded(&rw->recent->header))
				rw->recently_dead += 1;
			rw->num_tuples += 1;
			break;
		case ROW_SETTLED:
			rw->num_tuples += 1;
			break;
		case ROW_NONE:
			break;
	}
}

/* copy a row that was judged */
static void
copy_row(Rewrite *rw, RowClass class)
{
	if (class == ROW_SETTLED)
	{
		MemoryContextSwitchTo(rw->batch_context);
		write_settled(rw, form_row(rw, rw->image, rw->len));
	}
	else if (class == ROW_RECENT)
		copy_recent(rw);
}

/*
 * A recent row's values into rw->values.  The sort may look at large ones of an
 * ended row when they are gone, so they are fetched.  False: some are gone
 * already, the row is dead.
 */
static bool
deform_recent_row(Rewrite *rw)
{
	RecentRow  *row = rw->recent;

	deform_row(rw, row->image, row->len);
	for (int i = 0; ZHeaderIsEnded(&row->header) && i < rw->desc->natts; i++)
	{
		struct varlena *value =
			(struct varlena *) DatumGetPointer(rw->values[i]);

		if (rw->isnull[i] || TupleDescAttr(rw->desc, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_ONDISK(value))
			continue;
		undo_record_reader_close(&rw->reader);
		UNDO_ERROR_POINT("rewrite-sort-judged");
		value = zheap_chunk_fetch_ended(value, row->link_fxid);
		if (value == NULL)
			return false;
		rw->values[i] = PointerGetDatum(value);
	}
	return true;
}

/*
 * To the sort.  What the row is doesn't change before it comes back; a recent
 * one, which is judged again then, has a t_ctid.
 */
static void
sort_row(Rewrite *rw, RowClass class, Tuplesortstate *sort, OffsetNumber off)
{
	HeapTuple	tuple;

	if (class != ROW_SETTLED && class != ROW_RECENT)
		return;
	if (class == ROW_SETTLED)
		deform_row(rw, rw->image, rw->len);
	else if (!deform_recent_row(rw))
	{
		found_dead(rw);
		return;
	}
	tuple = heap_form_tuple(rw->desc, rw->values, rw->isnull);
	ItemPointerSet(&tuple->t_self, rw->block, off);
	ItemPointerSetInvalid(&tuple->t_data->t_ctid);
	if (class == ROW_RECENT)
		tuple->t_data->t_ctid = tuple->t_self;
	tuplesort_putheaptuple(sort, tuple);
}

static void
report_tuples(Rewrite *rw, bool written)
{
	const int	index[] = {
		PROGRESS_CLUSTER_HEAP_TUPLES_SCANNED,
		PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN
	};
	int64		value[2];

	value[0] = value[1] = (int64) rw->num_tuples;
	pgstat_progress_update_multi_param(written ? 2 : 1, index, value);
}

/* one row of the page loaded; sort may be NULL */
static void
handle_row(Rewrite *rw, OffsetNumber off, Tuplesortstate *sort)
{
	RowClass	class;

	CHECK_FOR_INTERRUPTS();
	MemoryContextSwitchTo(rw->row_context);
	class = judge_row(rw, off);
	count_row(rw, class);
	if (sort != NULL)
		sort_row(rw, class, sort, off);
	else
		copy_row(rw, class);
	MemoryContextSwitchTo(rw->context);
	MemoryContextReset(rw->row_context);
	if (class == ROW_SETTLED || class == ROW_RECENT)
		report_tuples(rw, sort == NULL);
}

/* in physical order */
static void
scan_blocks(Rewrite *rw, Tuplesortstate *sort)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rw->oldrel);

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE,
								 PROGRESS_CLUSTER_PHASE_SEQ_SCAN_HEAP);
	pgstat_progress_update_param(PROGRESS_CLUSTER_TOTAL_HEAP_BLKS, nblocks);
	rw->strategy = GetAccessStrategy(BAS_BULKREAD);

	for (BlockNumber block = 0; block < nblocks; block++)
	{
		OffsetNumber max;

		CHECK_FOR_INTERRUPTS();
		load_page(rw, block);
		max = PageIsNew(rw->page.data) ? 0 :
			PageGetMaxOffsetNumber(rw->page.data);
		for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
			handle_row(rw, off, sort);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_BLKS_SCANNED,
									 block + 1);
	}
	FreeAccessStrategy(rw->strategy);
	rw->strategy = NULL;
}

/*
 * Rows of the page loaded may have several entries (Z48): has this one come
 * before?
 */
static bool
row_came_before(Rewrite *rw, HTAB *stale, const ItemPointerData *tid)
{
	bool		found;

	if (PageIsNew(rw->page.data) ||
		!zheap_page_row_is_stale(rw->page.data,
								 ItemPointerGetOffsetNumber(tid)))
		return false;
	(void) hash_search(stale, tid, HASH_ENTER, &found);
	return found;
}

/*
 * In the order of an index.  It has one entry for each row that isn't ended
 * for all, or one for each of its keys: no index that may be clustered on is a
 * partial one.
 */
static void
scan_index(Rewrite *rw, Relation index)
{
	const int	param[] = {
		PROGRESS_CLUSTER_PHASE,
		PROGRESS_CLUSTER_INDEX_RELID
	};
	int64		value[2];
	IndexScanDesc scan;
	ItemPointer tid;
	HASHCTL		ctl = {.keysize = sizeof(ItemPointerData),
	.entrysize = sizeof(ItemPointerData),.hcxt = CurrentMemoryContext};
	HTAB	   *stale =
		hash_create("zheap rows with several entries", 128, &ctl,
					HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);

	value[0] = PROGRESS_CLUSTER_PHASE_INDEX_SCAN_HEAP;
	value[1] = RelationGetRelid(index);
	pgstat_progress_update_multi_param(2, param, value);

	scan = index_beginscan(rw->oldrel, index, SnapshotAny, NULL, 0, 0);
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		if (scan->xs_recheck)
			elog(ERROR, "CLUSTER does not support lossy index conditions");
		load_page(rw, ItemPointerGetBlockNumber(tid));
		if (!row_came_before(rw, stale, tid))
			handle_row(rw, ItemPointerGetOffsetNumber(tid), NULL);
	}
	index_endscan(scan);
	hash_destroy(stale);
}

/* write what comes back from the sort */
static void
write_sorted(Rewrite *rw, Tuplesortstate *sort)
{
	double		written = 0;
	HeapTuple	tuple;

	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE,
								 PROGRESS_CLUSTER_PHASE_SORT_TUPLES);
	tuplesort_performsort(sort);
	pgstat_progress_update_param(PROGRESS_CLUSTER_PHASE,
								 PROGRESS_CLUSTER_PHASE_WRITE_NEW_HEAP);

	while ((tuple = tuplesort_getheaptuple(sort, true)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		MemoryContextSwitchTo(rw->row_context);
		if (ItemPointerIsValid(&tuple->t_data->t_ctid))
		{
			OffsetNumber off = ItemPointerGetOffsetNumber(&tuple->t_self);

			load_page(rw, ItemPointerGetBlockNumber(&tuple->t_self));
			copy_row(rw, judge_row(rw, off));
		}
		else
		{
			undo_record_reader_close(&rw->reader);
			heap_deform_tuple(tuple, rw->desc, rw->values, rw->isnull);
			MemoryContextSwitchTo(rw->batch_context);
			write_settled(rw,
						  zheap_toast_form_rewritten(rw->newrel, rw->values,
													 rw->isnull,
													 REWRITE_OPTIONS));
		}
		MemoryContextSwitchTo(rw->context);
		MemoryContextReset(rw->row_context);
		pgstat_progress_update_param(PROGRESS_CLUSTER_HEAP_TUPLES_WRITTEN,
									 (int64) ++written);
	}
	tuplesort_end(sort);
}

/* ----------------------------------------------------------------
 *	the whole
 * ----------------------------------------------------------------
 */

static Rewrite *
rewrite_begin(Relation oldrel, Relation newrel, TransactionId oldest_xmin)
{
	Rewrite    *rw = palloc0(sizeof(Rewrite));
	HASHCTL		ctl;

	Assert(RelationGetTargetBlock(newrel) == InvalidBlockNumber);

	rw->oldrel = oldrel;
	rw->newrel = newrel;
	rw->desc = RelationGetDescr(oldrel);
	rw->cid = GetCurrentCommandId(true);
	rw->bistate = GetBulkInsertState();
	/* old_snapshot_threshold isn't for us: nobody would be told */
	if (OldSnapshotThresholdActive())
		oldest_xmin = GetOldestNonRemovableTransactionId(oldrel);
	rw->horizon = undo_log_fxid_from_xid(oldest_xmin);
	rw->block = InvalidBlockNumber;
	undo_record_reader_open(&rw->reader, oldrel);
	survey_columns(rw);

	rw->context = CurrentMemoryContext;
	rw->row_context = AllocSetContextCreate(CurrentMemoryContext,
											"zheap rewrite row",
											ALLOCSET_DEFAULT_SIZES);
	rw->batch_context = AllocSetContextCreate(CurrentMemoryContext,
											  "zheap rewrite batch",
											  ALLOCSET_DEFAULT_SIZES);
	rw->scratch = palloc(BLCKSZ);

	memset(&ctl, 0, sizeof(ctl));
	ctl.keysize = sizeof(ItemPointerData);
	ctl.entrysize = sizeof(ArrivedRow);
	ctl.hcxt = CurrentMemoryContext;
	rw->arrived = hash_create("zheap rewrite arrivals", 128, &ctl,
							  HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	return rw;
}

/*
 * relfrozenxid of the new file.  Core proposes one that is right for what the
 * file holds; but from there histories lead to older writers, from
 * all_visible_before on or from the old file's relfrozenxid on, whichever is
 * later.  For the toast table, which is new and shares it, anything up to the
 * proposal is right.
 */
static TransactionId
cutoff_for_history(Relation oldrel, TransactionId proposed)
{
	TransactionId known = undo_frozen_xid();
	TransactionId old = oldrel->rd_rel->relfrozenxid;

	if (TransactionIdIsNormal(old) &&
		(!TransactionIdIsNormal(known) || TransactionIdPrecedes(known, old)))
		known = old;
	if (!TransactionIdIsNormal(known))
		return InvalidTransactionId;
	return TransactionIdPrecedes(known, proposed) ? known : proposed;
}

static void
rewrite_error_context(void *arg)
{
	errcontext("while rewriting zheap relation \"%s\"",
			   RelationGetRelationName((Relation) arg));
}

/*
 * See table_relation_copy_for_cluster().
 *
 * xid_cutoff and multi_cutoff become relfrozenxid and relminmxid of the table
 * and, by core's swap, of its toast table.
 */
void
zheap_rewrite_copy(Relation oldrel, Relation newrel, Relation index,
				   bool use_sort, TransactionId oldest_xmin,
				   TransactionId *xid_cutoff, MultiXactId *multi_cutoff,
				   double *num_tuples, double *tups_vacuumed,
				   double *tups_recently_dead)
{
	Rewrite    *rw = rewrite_begin(oldrel, newrel, oldest_xmin);
	ErrorContextCallback context = {
		.previous = error_context_stack,
		.callback = rewrite_error_context,
		.arg = oldrel
	};

	error_context_stack = &context;
	if (index != NULL && !use_sort)
		scan_index(rw, index);
	else
	{
		Tuplesortstate *sort = NULL;

		if (use_sort)
			sort = tuplesort_begin_cluster(rw->desc, index,
										   maintenance_work_mem, NULL,
										   TUPLESORT_NONE);
		scan_blocks(rw, sort);
		if (sort != NULL)
			write_sorted(rw, sort);
	}
	write_batch(rw);
	write_moved(rw);
	zheap_announce_copy(oldrel, newrel);

	if (rw->conflict != InvalidFxid)
		zheap_delta_log_conflict(oldrel, rw->conflict_block, rw->conflict);

	error_context_stack = context.previous;
	*xid_cutoff = cutoff_for_history(oldrel, *xid_cutoff);
	*multi_cutoff = InvalidMultiXactId;
	delete_saved(rw);
	if (rw->toasts)
		zheap_chunk_prepare_swap(oldrel->rd_rel->reltoastrelid,
								 newrel->rd_rel->reltoastrelid);
	*num_tuples = rw->num_tuples;
	*tups_vacuumed = rw->vacuumed;
	*tups_recently_dead = rw->recently_dead;

	undo_record_reader_close(&rw->reader);
	FreeBulkInsertState(rw->bistate);
	hash_destroy(rw->arrived);
	MemoryContextDelete(rw->row_context);
	MemoryContextDelete(rw->batch_context);
	pfree(rw->scratch);
	pfree(rw);
}
