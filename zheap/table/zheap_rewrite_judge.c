/*-------------------------------------------------------------------------
 *
 * zheap_rewrite_judge.c
 *	  What a rewrite finds in the old file: the class of a row, and of a recent
 *	  one what its versions need besides undo.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "miscadmin.h"
#include "utils/rel.h"

#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/table/zheap_rewrite_state.h"

/* ----------------------------------------------------------------
 *	columns
 * ----------------------------------------------------------------
 */

void
zheap_rewrite_judge_columns(Rewrite *rw)
{
	TupleDesc	desc = rw->desc;

	rw->values = palloc(desc->natts * sizeof(Datum));
	rw->isnull = palloc(desc->natts * sizeof(bool));
	rw->toasts = OidIsValid(rw->newrel->rd_toastoid);

	for (int i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (att->attisdropped)
			rw->has_dropped = true;
		else if (att->atthasmissing)
			rw->has_missing = true;
	}
}

/* the defaults that core will forget into rw->values, all others null */
void
zheap_rewrite_judge_missing(Rewrite *rw)
{
	for (int i = 0; i < rw->desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(rw->desc, i);

		rw->values[i] = (Datum) 0;
		rw->isnull[i] = true;
		if (att->atthasmissing && !att->attisdropped)
			rw->values[i] = getmissingattr(rw->desc, i + 1, &rw->isnull[i]);
	}
}

/* would core fill in a column that a row of natts columns hasn't */
static bool
row_lacks_columns(Rewrite *rw, int natts)
{
	if (!rw->has_missing)
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
void
zheap_rewrite_judge_deform(Rewrite *rw, const char *image, uint16 len)
{
	Assert(len >= ZHEAP_HEADER_SIZE);
	zheap_tuple_deform(rw->desc, image, len, rw->values, rw->isnull);
	for (int i = 0; rw->has_dropped && i < rw->desc->natts; i++)
	{
		if (TupleDescAttr(rw->desc, i)->attisdropped)
			rw->isnull[i] = true;
	}
}

/* ----------------------------------------------------------------
 *	judging a row
 * ----------------------------------------------------------------
 */

/* Have a copy of an old page, rolled back.  Samples the horizons. */
void
zheap_rewrite_judge_load(Rewrite *rw, BlockNumber block)
{
	Buffer		buffer;
	Page		page;

	Assert(BlockNumberIsValid(block));
	AssertNoPageLocked();
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
 * Note the large values of a version, or of defaults.  Those of dropped columns,
 * too: who reads a whole row has all of them fetched.  ended_by: which
 * transaction replaced or deleted it, or none.
 */
static void
note_externals(Rewrite *rw, const char *image, uint16 len, Fxid ended_by)
{
	ZTupleHeader header;
	int			natts;

	zheap_header_get(image, &header);
	natts = ZHeaderNatts(&header);
	if (!rw->toasts || (header.natts_flags1 & ZH_HASEXTERNAL) == 0)
		return;

	zheap_tuple_deform(rw->desc, image, len, rw->values, rw->isnull);
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

/* Note what a version that somebody may see needs besides undo. */
static void
note_version(Rewrite *rw, RecentRow *row, Fxid ended_by)
{
	ZTupleHeader header;

	Assert(rw->len >= ZHEAP_HEADER_SIZE);
	zheap_header_get(rw->image, &header);
	if (row_lacks_columns(rw, ZHeaderNatts(&header)))
		row->lacks = true;
	note_externals(rw, rw->image, rw->len, ended_by);
}

/* The walk stands at the record of a recent row's newest version. */
static void
collect_history(Rewrite *rw)
{
	ZWalk	   *walk = &rw->walk;
	RecentRow  *row = palloc(offsetof(RecentRow, image) + rw->len);
	Fxid		ended_by = InvalidFxid;

	Assert(walk->fxid != InvalidFxid && UndoRecPtrIsValid(walk->urp));
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
		const ZMissing *missing = walk->missing;
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
		/* defaults that a rewrite kept, which deleted them again */
		if (walk->missing != missing)
			note_externals(rw, walk->missing->data, walk->missing->len,
						   ended_by);
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
RowClass
zheap_rewrite_judge_row(Rewrite *rw, OffsetNumber off)
{
	ZWalk	   *walk = &rw->walk;
	ZWalkState	state;

	Assert(off >= FirstOffsetNumber && BlockNumberIsValid(rw->block));
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
