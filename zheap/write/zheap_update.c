/*-------------------------------------------------------------------------
 *
 * zheap_update.c
 *	  Update a row: in place, or as a move, which ends the old version where
 *	  it is and puts the new one under another TID.
 *
 * In place iff no indexed column changes but those of soft indexes (Z10), the
 * page has room, Z35 allows to overwrite the present version, and no trigger's
 * condition wants to look at the old version's TID.  Rows that need toasting
 * are locked first and toasted then, so that no chunk is written for an update
 * that isn't going to happen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/tupmacs.h"
#include "access/xloginsert.h"
#include "catalog/partition.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_jump.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/sees/zheap_tid_memory.h"
#include "zheap/soft/zheap_announce.h"
#include "zheap/soft/zheap_entry.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_xlog_logical.h"
#include "zheap/write/zheap_tablespace.h"
#include "zheap/write/zheap_update.h"
#include "zheap/write/zheap_write.h"

/* of an undo record's payload, so much is left for the replaced bytes */
#define UPDATE_MAX_OLD_BYTES	\
	UNDO_KNOB("update-old-bytes", ZUNDO_MAX_ROW_BYTES, 64, ZUNDO_MAX_ROW_BYTES)

/* ----------------------------------------------------------------
 *	what changes
 * ----------------------------------------------------------------
 */

/*
 * Which of attrs have another value in the new row?  As long as that may have
 * to be toasted, a value out of line that can't be fetched now counts as
 * changed.  Once it is, what was found before: TOAST doesn't change values.
 */
static Bitmapset *
update_changed(const ZRowWrite *w, const ZUpdatePlan *plan, Bitmapset *attrs)
{
	if (plan->toasted)
		return bms_intersect(attrs, plan->changed);
	if (plan->tuple == NULL)
		return zheap_same_changed_values(plan->rel, attrs, w->image,
										 w->image_len,
										 plan->slot->tts_values,
										 plan->slot->tts_isnull, false);
	return zheap_same_changed(plan->rel, attrs, w->image, w->image_len,
							  plan->tuple->data, plan->tuple->len);
}

/*
 * The indexed columns "changed" change, all in soft indexes: then the row may
 * stay, and only gets new entries.
 */
static void
update_decide_entries(ZRowWrite *w, ZUpdatePlan *plan, Bitmapset *changed)
{
	Assert(plan->soft == NULL || plan->tuple != NULL);
	if (plan->soft == NULL)
	{
		bms_free(changed);
		return;
	}
	bms_free(plan->new_entries);
	plan->new_entries = NULL;
	plan->waited = false;
	if (plan->index_changed && !plan->has_equal &&
		zheap_keyed_may_stay(plan->rel, plan->soft, changed, w->image,
							 w->image_len, plan->tuple->data,
							 plan->tuple->len))
	{
		Assert(!plan->key_changed);
		if (!plan->soft_waits)
		{
			plan->index_changed = false;
			plan->new_entries = changed;
			plan->look_first = !plan->looked &&
				zheap_keyed_may_be_equal(plan->soft, changed);
			return;
		}
		plan->waited = true;
	}
	bms_free(changed);
}

/*
 * Called by zheap_row_take() with the page locked: compare the version on the
 * page with the new row, and set the lock strength that goes with it.
 */
static void
update_decide(ZRowWrite *w, void *arg)
{
	ZUpdatePlan *plan = arg;
	Bitmapset  *changed;

	Assert(w->held.pages && w->image_len >= ZHEAP_HEADER_SIZE);
	plan->look_first = false;
	if (plan->tuple == NULL)
	{
		plan->toast_first = true;
		plan->index_changed = true;
		changed = update_changed(w, plan, plan->key_attrs);
		plan->key_changed = !bms_is_empty(changed);
	}
	else
	{
		plan->toast_first = !plan->toasted &&
			zheap_tuple_has_external(w->image);
		changed = update_changed(w, plan, plan->indexed_attrs);
		plan->index_changed = !bms_is_empty(changed);
		plan->key_changed = bms_overlap(changed, plan->key_attrs);
		update_decide_entries(w, plan, changed);
		changed = update_changed(w, plan, plan->summarized_attrs);
		plan->summary_changed = !bms_is_empty(changed);
	}
	bms_free(changed);
	w->mode = plan->key_changed ? LockTupleExclusive : LockTupleNoKeyExclusive;
}

/*
 * Form the new row now if that surely needs no toasting; no lock held.
 */
static void
update_form_early(ZUpdatePlan *plan)
{
	Assert(plan->tuple == NULL && !plan->toasted);
	plan->tuple = zheap_toast_form_untoasted(plan->rel, plan->slot);
}

/*
 * What changes, before the new row is toasted; no page locked.  Of all columns
 * that anybody will ask for, because nobody can tell afterwards.
 */
static void
update_find_changed(ZRowWrite *w, ZUpdatePlan *plan)
{
	Bitmapset  *asked = bms_union(plan->indexed_attrs, plan->summarized_attrs);

	Assert(!plan->toasted && plan->changed == NULL);
	asked = bms_add_members(asked, plan->key_attrs);
	if (w->logical->wanted)
		asked = bms_add_members(asked, w->logical->key);
	slot_getallattrs(plan->slot);
	plan->changed =
		zheap_same_changed_values(plan->rel, asked, w->image, w->image_len,
								  plan->slot->tts_values,
								  plan->slot->tts_isnull, true);
	bms_free(asked);
}

/*
 * The row is taken but must be toasted: lock it, give up the page, toast
 * against the version locked.  Nobody else can change that version now.
 */
static void
update_lock_and_toast(ZRowWrite *w, ZUpdatePlan *plan)
{
	TupleTableSlot *oldslot;

	Assert(w->held.pages && !plan->toasted);
	zheap_row_write_lock(w);
	zheap_row_unlock(w);
	zheap_logical_lock_values(w->logical);

	AssertNoPageLocked();
	update_find_changed(w, plan);
	oldslot = MakeSingleTupleTableSlot(RelationGetDescr(plan->rel),
									   &TTSOpsZHeapTuple);
	zheap_tuple_slot_store(oldslot, RelationGetRelid(plan->rel), &w->tid,
						   w->image, w->image_len, w->image_writer,
						   w->image_cid);
	if (plan->tuple != NULL)
		pfree(plan->tuple);
	plan->tuple =
		zheap_toast_form_from_slot(plan->rel, plan->slot, oldslot,
								   zheap_insert_chunks, 0);
	plan->toasted = true;
	ExecDropSingleTupleTableSlot(oldslot);
}

/*
 * The row would get an entry whose key may be equal to one that it has: lock
 * it, so that nobody else gives it entries, and look.
 */
static void
update_lock_and_look(ZRowWrite *w, ZUpdatePlan *plan)
{
	Assert(w->held.pages && plan->new_entries != NULL && !plan->looked);
	zheap_row_write_lock(w);
	zheap_row_unlock(w);
	plan->has_equal = zheap_entry_has_equal(plan->rel, plan->soft,
											plan->new_entries, plan->slot,
											&w->tid);
	plan->looked = true;
}

/* ----------------------------------------------------------------
 *	queued trigger events (Z35)
 * ----------------------------------------------------------------
 */

/*
 * Is some AFTER trigger event of this relation, or of a root it belongs to,
 * waiting to refetch rows by TID?  No lock held (partition ancestors are
 * looked up in the catalog).
 */
static bool
update_look_for_events(Relation rel)
{
	ListCell   *lc;
	List	   *ancestors;
	bool		pending;

	AssertNoPageLocked();
	if (AfterTriggerPendingOnRel(RelationGetRelid(rel)))
		return true;
	if (!rel->rd_rel->relispartition)
		return false;

	pending = false;
	ancestors = get_partition_ancestors(RelationGetRelid(rel));
	foreach(lc, ancestors)
	{
		if (AfterTriggerPendingOnRel(lfirst_oid(lc)))
			pending = true;
	}
	list_free(ancestors);
	return pending;
}

/*
 * The same, asked once for all rows of a command: core goes through the events
 * of all tables.  What the command itself has queued since is about rows that
 * it doesn't change again; commands within it have higher numbers, and get one
 * even if they queue events without having seen a change before, since this one
 * counts as used.  A subtransaction's rollback takes back that events are done.
 */
static bool
update_events_are_pending(Relation rel)
{
	static struct
	{
		Oid			relid;
		FullTransactionId top;
		SubTransactionId sub;
		CommandId	cid;
		bool		pending;
	}			known;
	FullTransactionId top = GetTopFullTransactionId();

	if (known.relid != RelationGetRelid(rel) ||
		!FullTransactionIdEquals(known.top, top) ||
		known.sub != GetCurrentSubTransactionId() ||
		known.cid != GetCurrentCommandId(false))
	{
		known.relid = InvalidOid;
		known.pending = update_look_for_events(rel);
		known.top = top;
		known.sub = GetCurrentSubTransactionId();
		known.cid = GetCurrentCommandId(true);
		known.relid = RelationGetRelid(rel);
	}
	return known.pending;
}

/*
 * Does the condition of a trigger look at a ctid?  It is evaluated while OLD
 * still has the tag that says which image of the row it is.  (In a stored
 * expression columns are named by number.)
 */
static bool
update_conditions_want_tid(Relation rel)
{
	const TriggerDesc *desc = rel->trigdesc;

	if (desc == NULL || !desc->trig_update_after_row)
		return false;
	for (int i = 0; i < desc->numtriggers; i++)
	{
		const char *condition = desc->triggers[i].tgqual;

		if (condition != NULL && TRIGGER_FOR_AFTER(desc->triggers[i].tgtype) &&
			strstr(condition, ":varattno -1 ") != NULL)
			return true;
	}
	return false;
}

/*
 * May the version on top be overwritten?  Not if I made it and an event still
 * has to show it to a trigger (Z35).  False
 * with events_known unset: find out first.
 */
static bool
update_may_overwrite(ZRowWrite *w, ZUpdatePlan *plan)
{
	Assert(w->held.pages);
	if (w->top.status != ZXACT_CURRENT || plan->rel->trigdesc == NULL)
		return true;
	return plan->events_known && !plan->events_pending;
}

/* ----------------------------------------------------------------
 *	where to
 * ----------------------------------------------------------------
 */

/* The new row's bytes for the page. */
static void
update_make_body(ZRowWrite *w, ZUpdatePlan *plan)
{
	Assert(w->held.pages && plan->tuple != NULL);
	if (plan->body != NULL)
		pfree(plan->body);
	plan->bodylen = plan->tuple->len;
	plan->body = palloc(plan->bodylen);
	memcpy(plan->body, plan->tuple->data, plan->bodylen);
}

/*
 * Free bytes that the new row needs in place.  A row that grows leaves the
 * page what inserts leave it: room for the xact slots that make writers of
 * other rows independent.
 */
static Size
update_need(ZRowWrite *w, ZUpdatePlan *plan)
{
	Size		need = zheap_page_replace_need(w->page, w->off, plan->bodylen);
	int			nslots = ZPageGetOpaque(w->page)->nslots;

	Assert(w->held.pages && plan->bodylen >= ZHEAP_HEADER_SIZE);
	if (need > 0)
		need += zheap_page_shared_room(w->page);
	if (need > 0 && nslots < ZHEAP_XACT_SLOT_RESERVE)
		need += (ZHEAP_XACT_SLOT_RESERVE - nslots) * sizeof(ZXactSlotData);
	return need;
}

/*
 * Prune and spill the row's page for bytes that are missing.  False: that
 * changed nothing.  The row must be taken again in any case.
 */
static bool
update_reclaim(ZRowWrite *w, ZUpdatePlan *plan, Size missing)
{
	Assert(missing > 0);
	AssertPageExclusive(w->buffer);
	/* spilling writes undo, which may wait: no undo pin may be kept (U16) */
	undo_record_reader_close(&w->cx.reader);
	return zheap_make_room(plan->rel, w->buffer, &w->cx.hz, missing,
						   plan->room_options);
}

/*
 * Do the bytes that an update in place replaces fit into an undo record?  They
 * do, but for the biggest rows.
 */
static bool
update_fits_undo(ZRowWrite *w, ZUpdatePlan *plan)
{
	ZUndoDiff	diff;

	Assert(plan->bodylen >= ZHEAP_HEADER_SIZE);
	if (w->image_len <= UPDATE_MAX_OLD_BYTES)
		return true;
	zheap_undo_diff(&diff, w->image, w->image_len, plan->body, plan->bodylen);
	return diff.oldmid <= UPDATE_MAX_OLD_BYTES;
}

/*
 * Make sure that the other page of a move, locked along, takes the new row:
 * aborted changes rolled back, xact slot chosen, room there.  False: nothing
 * is locked any more, take the row again.  As an insert, it doesn't wait for an
 * xact slot: a new page has one.
 */
static bool
update_prepare_new_page(ZRowWrite *w, ZUpdatePlan *plan)
{
	Page		page = BufferGetPage(w->newbuf);
	ZReserveResult reserved;
	bool		append;

	Assert(w->held.pages && w->newbuf != w->buffer);
	AssertPageExclusive(w->newbuf);
	if (PageIsNew(page))
	{
		memset(&plan->new_choice, 0, sizeof(ZXactSlotChoice));
		plan->new_choice.id = 1;
		plan->new_choice.tenure = ZTENURE_FREE;
		plan->new_off = FirstOffsetNumber;
		return true;
	}

	zheap_page_check(plan->rel, BufferGetBlockNumber(w->newbuf), page);
	if (zheap_xact_slot_any_aborted(w->newbuf, page, &w->cx.hz) &&
		!zheap_rollback_buffer(plan->rel, w->newbuf))
	{
		zheap_row_unlock(w);
		zheap_rollback_page(plan->rel, BufferGetBlockNumber(w->newbuf));
		return false;
	}

	if (zheap_page_insert_room(page) >= plan->bodylen)
	{
		reserved = zheap_xact_slot_reserve(plan->rel, w->newbuf, &w->cx.hz,
										   w->fxid, ZRESERVE_FOR_NEW_ROW, 0,
										   &plan->new_choice);
		if (reserved == ZRESERVE_ABORTED)
		{
			zheap_row_unlock(w);
			return false;
		}
		plan->no_xact_slot = reserved == ZRESERVE_NONE;
		plan->new_off = zheap_page_free_offset(page, &append);
		if (reserved == ZRESERVE_OK &&
			zheap_page_insert_room(page) >= plan->bodylen &&
			OffsetNumberIsValid(plan->new_off))
			return true;
	}

	/* filled up while it was unlocked: look for another one */
	zheap_page_check_bodies(plan->rel, BufferGetBlockNumber(w->newbuf), page);
	zheap_row_unlock(w);
	ReleaseBuffer(w->newbuf);
	w->newbuf = InvalidBuffer;
	return false;
}

/* Find a place for the new version of a move; false as above. */
static bool
update_find_home(ZRowWrite *w, ZUpdatePlan *plan)
{
	bool		shared = w->choice.tenure == ZTENURE_SHARED;
	Buffer		buffer;
	bool		append;
	bool		crowded;
	Size		room;

	Assert(w->held.pages && plan->body != NULL);
	plan->same_page = false;
	if (BufferIsValid(w->newbuf))
		return update_prepare_new_page(w, plan);

	room = zheap_page_insert_room(w->page);
	if (room >= plan->bodylen && !shared)
	{
		plan->new_off = zheap_page_free_offset(w->page, &append);
		if (OffsetNumberIsValid(plan->new_off))
		{
			plan->same_page = true;
			return true;
		}
	}
	else if (!plan->reclaimed_move &&
			 (room > 0 || shared ||
			  PageGetMaxOffsetNumber(w->page) < MaxHeapTuplesPerPage))
	{
		plan->reclaimed_move = true;
		/* for the row; or for an xact slot, so that it may stay */
		if (update_reclaim(w, plan, shared ? sizeof(ZXactSlotData) :
						   plan->bodylen - room))
		{
			zheap_row_unlock(w);
			return false;
		}
	}

	/* full, it may have no room to grow so far */
	crowded = shared ||
		ZPageGetOpaque(w->page)->nslots >= ZHEAP_CROWDED_XACT_SLOTS;
	zheap_row_unlock(w);
	AssertNoPageLocked();
	buffer = zheap_space_find_page(plan->rel, plan->bodylen, 1,
								   plan->no_xact_slot ?
								   ZHEAP_INSERT_NEW_PAGE :
								   crowded ? ZHEAP_INSERT_SPREAD : 0,
								   NULL, &w->newvm);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (BufferGetBlockNumber(buffer) == w->block)
	{
		ReleaseBuffer(buffer);	/* the old page has room by now */
		plan->no_xact_slot = shared;
	}
	else
		w->newbuf = buffer;
	return false;
}

/* what became of a try to decide where the new version goes */
typedef enum UpdateStep
{
	UPDATE_READY,
	UPDATE_MOVES,				/* not in place */
	UPDATE_AGAIN				/* the row was given up: take it again */
} UpdateStep;

/*
 * Only moves, and changes of keys, clear the page's all-visible bit: have the
 * map pinned.  False: the row was given up.
 */
static bool
update_pin_map(ZRowWrite *w)
{
	Assert(w->held.pages);
	if (w->wish.vm)
		return true;
	w->wish.vm = true;
	if (!PageIsAllVisible(w->page))
		return true;
	zheap_row_unlock(w);
	return false;
}

/* w is taken */
static UpdateStep
update_try_in_place(ZRowWrite *w, ZUpdatePlan *plan)
{
	Size		need;
	Size		room;

	Assert(w->held.pages && !plan->toast_first);
	if (plan->index_changed || plan->no_room || plan->tid_wanted ||
		w->choice.tenure == ZTENURE_SHARED)
		return UPDATE_MOVES;
	/* a STALE row isn't all-visible (Z53) */
	if (plan->new_entries != NULL && !update_pin_map(w))
		return UPDATE_AGAIN;
	if (!update_may_overwrite(w, plan))
	{
		if (plan->events_known)
			return UPDATE_MOVES;
		zheap_row_unlock(w);
		plan->events_pending = update_events_are_pending(plan->rel);
		plan->events_known = true;
		return UPDATE_AGAIN;
	}
	update_make_body(w, plan);

	need = update_need(w, plan);
	room = need > 0 ? zheap_page_total_free(w->page) : 0;
	if (!update_fits_undo(w, plan) || (need > room && plan->reclaimed))
		plan->no_room = true;
	else if (need <= room)
		return UPDATE_READY;
	else
	{
		plan->reclaimed = true;
		plan->no_room = !update_reclaim(w, plan, need - room);
	}
	zheap_row_unlock(w);
	return UPDATE_AGAIN;
}

/* w is taken */
static UpdateStep
update_try_move(ZRowWrite *w, ZUpdatePlan *plan)
{
	Assert(w->held.pages && !plan->toast_first);
	zheap_tablespace_check(plan->rel);

	if (!update_pin_map(w))
		return UPDATE_AGAIN;
	update_make_body(w, plan);
	/* they keep their locks at the new place (Z24) */
	plan->carried.n = 0;
	if (w->lockers.foreign_live &&
		!zheap_lockers_collect(&w->cx, w->page, w->block, w->off,
							   &plan->carried))
	{
		zheap_row_unlock(w);
		return UPDATE_AGAIN;
	}
	Assert(plan->carried.n == 0 || !plan->key_changed);
	return update_find_home(w, plan) ? UPDATE_READY : UPDATE_AGAIN;
}

/*
 * Take the row until everything is decided: in place, or where to.  As
 * zheap_row_take().
 */
static TM_Result
update_take(ZRowWrite *w, ZUpdatePlan *plan)
{
	for (;;)
	{
		TM_Result	result = zheap_row_take(w);
		UpdateStep	step;

		if (result != TM_Ok && plan->toasted)
			elog(ERROR,
				 "row (%u,%u) of relation \"%s\" changed although it was locked",
				 w->block, w->off, RelationGetRelationName(plan->rel));
		if (result != TM_Ok)
			return result;
		if (plan->toast_first)
		{
			update_lock_and_toast(w, plan);
			continue;
		}
		if (plan->look_first)
		{
			update_lock_and_look(w, plan);
			continue;
		}

		step = update_try_in_place(w, plan);
		plan->move = step == UPDATE_MOVES;
		if (plan->move)
			step = update_try_move(w, plan);
		Assert(step != UPDATE_READY || (w->held.pages && plan->body != NULL));
		if (step == UPDATE_READY)
			return TM_Ok;
	}
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

/* what decoding is told; of the row as it is logged */
static void
update_tell(ZRowWrite *w, ZUpdatePlan *plan)
{
	Assert(w->logical->wanted && w->held.pages);
	w->logical->key_same = plan->toasted &&
		!bms_overlap(plan->changed, w->logical->key);
	zheap_logical_start(w->logical, ZLOGICAL_LAST);
	zheap_logical_add_new(w->logical, plan->body, plan->bodylen);
	zheap_logical_add_old(w->logical, w->image, w->image_len, plan->body,
						  plan->bodylen);
}

/* for statistics: which way the row went, and why */
static ZStatCounter
update_counter(const ZRowWrite *w, const ZUpdatePlan *plan)
{
	if (!plan->move)
		return ZSTAT_IN_PLACE;
	if (plan->index_changed)
		return plan->waited ? ZSTAT_MOVED_SNAPSHOTS : ZSTAT_MOVED_INDEXED;
	/* or for an xact slot */
	return plan->no_room ||
		w->choice.tenure == ZTENURE_SHARED ? ZSTAT_MOVED_NO_ROOM :
		ZSTAT_MOVED_TRIGGER;
}

static void
update_write_in_place(ZRowWrite *w, ZUpdatePlan *plan)
{
	ZUndo		u;
	ZTupleHeader header;
	ZTupleHeader formed;
	char	   *jump;

	Assert(!plan->key_changed);
	Assert(!plan->move && w->held.pages && plan->body != NULL);
	zheap_header_get(plan->body, &formed);
	zheap_row_describe(w, ZUNDO_UPDATE, plan->key_changed, &u, &header);
	header.natts_flags1 = formed.natts_flags1;
	header.flags2 |= ZH_INPLACE;
	if (plan->new_entries != NULL)
	{
		plan->may_have_entry = (header.flags2 & ZH_STALE) != 0;
		header.flags2 |= ZH_STALE;
		w->new_key = true;
	}
	if ((u.flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE &&
		zheap_row_is_plain(w, &header))
		u.flags |= ZUNDO_PLAIN;
	zheap_undo_diff(&u.diff, w->image, w->image_len, plan->body,
					plan->bodylen);
	jump = zheap_jump_describe(&w->cx, w->page, w->block, plan->body,
							   plan->bodylen, &u);
	zheap_row_write(w, XLOG_ZHEAP_UPDATE, &u, &header, plan->body,
					plan->bodylen);
	if (jump != NULL)
		pfree(jump);
}

static void
update_begin(ZUpdatePlan *plan, Relation rel, TupleTableSlot *slot)
{
	/* no catalog lookups with a page locked */
	memset(plan, 0, sizeof(ZUpdatePlan));
	plan->rel = rel;
	plan->slot = slot;
	plan->indexed_attrs =
		RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_HOT_BLOCKING);
	plan->summarized_attrs =
		RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_SUMMARIZED);
	plan->key_attrs = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	plan->room_options = zheap_make_room_options(rel);
	plan->tid_wanted = update_conditions_want_tid(rel);
	/* entries without a STALE row, after a rollback (Z45) */
	if (zheap_keyed_wanted && !zheap_tablespace_is_pending(rel))
		plan->soft = zheap_keyed_indexes(rel);
	plan->soft_waits = plan->soft != NULL && !zheap_announce_allows(rel);
	update_form_early(plan);
}

static void
update_end(ZUpdatePlan *plan)
{
	if (plan->tuple != NULL)
		pfree(plan->tuple);
	if (plan->body != NULL)
		pfree(plan->body);
	bms_free(plan->indexed_attrs);
	bms_free(plan->summarized_attrs);
	bms_free(plan->key_attrs);
	bms_free(plan->new_entries);
	bms_free(plan->changed);
	if (plan->soft != NULL)
		zheap_keyed_free_indexes(plan->soft);
}

/* The caller's tuple slot holds the new version, at newtid. */
static void
update_set_slot(const ZRowWrite *w, const ZUpdatePlan *plan,
				TupleTableSlot *slot, const ItemPointerData *newtid,
				bool was_locked)
{
	/*
	 * A slot of ours shall know whose version it holds (Z37).  Large values
	 * stay in it as they were given: RETURNING may put them where they outlive
	 * a rollback of their chunks.
	 */
	if (TTS_IS_ZHEAP(slot))
	{
		if (plan->toasted)
			zheap_tuple_slot_set_writer(slot, w->fxid, w->cid);
		else
			zheap_tuple_slot_store(slot, RelationGetRelid(w->rel), newtid,
								   plan->tuple->data, plan->tuple->len,
								   w->fxid, w->cid);
		if (was_locked || w->lockers.own_live)
			zheap_tuple_slot_set_was_locked(slot);
	}
	slot->tts_tableOid = RelationGetRelid(w->rel);
	slot->tts_tid = *newtid;
}

static void
update_count(Relation rel, const ZRowWrite *w, const ZUpdatePlan *plan)
{
	bool		hot = !plan->move && plan->new_entries == NULL;

	zheap_stat_count(rel, update_counter(w, plan), 1);
	if (!plan->move && !hot)
		zheap_stat_count(rel, ZSTAT_NEW_KEYS, 1);
	pgstat_count_heap_update(rel, hot, plan->move && !plan->same_page);
	/* it leaves no dead row behind, unlike others: old entries are VACUUM's work */
	if (hot)
		pgstat_update_heap_dead_tuples(rel, 1);
}

/*
 * See table_tuple_update().  TM_Ok in place: *otid gets the tag PRE, so that
 * triggers find the old version; slot->tts_tid is the plain TID.
 */
TM_Result
zheap_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
			 CommandId cid, Snapshot snapshot, Snapshot crosscheck, bool wait,
			 TM_FailureData *tmfd, LockTupleMode *lockmode,
			 TU_UpdateIndexes *update_indexes)
{
	ZRowWrite	row;
	ZRowWrite  *w = &row;
	ZUpdatePlan plan;
	ItemPointerData newtid;
	bool		was_locked = zheap_tid_tag(otid) == ZTID_LOCKED;
	ZLogical	logical;
	TM_Result	result;

	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	AssertNoPageLocked();
	UNDO_IDLE_POINT("update");

	update_begin(&plan, rel, slot);
	zheap_logical_begin(&logical, rel, 0, true);

	/* find and wait */
	zheap_row_begin(w, rel, otid, cid, snapshot, crosscheck);
	w->mode = LockTupleNoKeyExclusive;
	w->wish.wait = wait;
	w->wish.vm = false;
	w->oper = XLTW_Update;
	w->decide = update_decide;
	w->decide_arg = &plan;
	w->logical = &logical;
	result = update_take(w, &plan);
	*lockmode = w->mode;
	*update_indexes = TU_None;

	if (result == TM_Ok)
	{
		zheap_predicate_conflict_in(rel, w->block, w->off, w->image,
									w->image_len);

		if (logical.wanted)
			update_tell(w, &plan);
		newtid = w->tid;
		if (plan.move)
			zheap_move_write(w, &plan, &newtid);
		else
			update_write_in_place(w, &plan);
		zheap_row_end(w);

		update_set_slot(w, &plan, slot, &newtid, was_locked);
		if (plan.move)
			*update_indexes = TU_All;
		else if (plan.summary_changed)
			*update_indexes = TU_Summarizing;
		if (plan.move && plan.waited)
			zheap_announce_make(rel);
		if (!plan.move && plan.new_entries != NULL)
			zheap_entry_insert(rel, plan.soft, plan.new_entries, w->image,
							   w->image_len, slot, &newtid,
							   plan.may_have_entry);

		update_count(rel, w, &plan);
		if (!plan.move)
		{
			*otid = w->tid;
			zheap_tid_set_tag(otid, ZTID_PRE);
			zheap_tid_memory_note_update(RelationGetRelid(rel), otid);
		}
	}
	else
	{
		*tmfd = w->failure;
		zheap_row_end(w);
	}

	zheap_logical_end(&logical);
	update_end(&plan);
	return result;
}
