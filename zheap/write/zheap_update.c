/*-------------------------------------------------------------------------
 *
 * zheap_update.c
 *	  Update a row: in place, or as a move, which ends the old version where
 *	  it is and puts the new one under another TID.
 *
 * In place iff no indexed column changes, the page has room, and rule T
 * allows to overwrite the present version.  Rows that need toasting are
 * locked first and toasted then, so that no chunk is written for an update
 * that isn't going to happen.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/tupmacs.h"
#include "access/xloginsert.h"
#include "catalog/partition.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/datum.h"
#include "utils/rel.h"

#include "zheap/zheap.h"
#include "zheap/history/zheap_jump.h"
#include "zheap/write/zheap_lock.h"
#include "zheap/write/zheap_xlog_insert.h"
#include "zheap/write/zheap_xlog_change.h"

/* an update in flight, next to its ZRowWrite */
typedef struct UpdatePlan
{
	Relation	rel;
	TupleTableSlot *slot;		/* the new row's values */
	ZTuple	   *tuple;			/* formed; NULL while it must still be toasted */
	char	   *body;			/* the same with origins, as it goes to the page */
	uint16		bodylen;
	bool		toasted;		/* formed with the old version in view */
	Bitmapset  *key_attrs;
	Bitmapset  *all_attrs;
	/* set by update_decide() for the version on top */
	bool		key_changed;
	bool		index_changed;
	bool		toast_first;	/* lock the row, toast, take it again */
	/* rule T */
	bool		events_known;
	bool		events_pending;
	/* what was tried */
	bool		reclaimed;		/* for the row in place */
	bool		no_room;		/* not even after that */
	bool		reclaimed_move; /* for the row as a new one on its page */
	int			reclaim_options;
	bool		move;			/* the outcome */
	/* a move's new version */
	bool		same_page;
	OffsetNumber new_off;
	ZXactSlotChoice new_choice;
} UpdatePlan;

/* of an undo record's payload, so much is left for the replaced bytes */
#define UPDATE_MAX_OLD_BYTES	(UNDO_MAX_PAYLOAD - 128)

/* ----------------------------------------------------------------
 *	what changes
 * ----------------------------------------------------------------
 */

/* equal by their bytes, whatever the length word looks like */
static bool
update_datum_is_same(Form_pg_attribute att, Datum a, Datum b)
{
	if (att->attlen == -1)
	{
		void	   *pa = DatumGetPointer(a);
		void	   *pb = DatumGetPointer(b);

		if (VARATT_IS_EXTENDED(pa) && !VARATT_IS_SHORT(pa))
			return datumIsEqual(a, b, false, -1);
		if (VARATT_IS_EXTENDED(pb) && !VARATT_IS_SHORT(pb))
			return false;
		return VARSIZE_ANY_EXHDR(pa) == VARSIZE_ANY_EXHDR(pb) &&
			memcmp(VARDATA_ANY(pa), VARDATA_ANY(pb),
				   VARSIZE_ANY_EXHDR(pa)) == 0;
	}
	return datumIsEqual(a, b, att->attbyval, att->attlen);
}

/*
 * Does any of attrs differ between a row on disk and values that aren't formed
 * yet?  May answer yes where a toasted value only looks different.
 */
static bool
update_values_change(UpdatePlan *plan, Bitmapset *attrs, const char *old,
					 uint16 oldlen)
{
	TupleDesc	desc = RelationGetDescr(plan->rel);
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	bool		changed = false;
	int			x = -1;

	zheap_deform_tuple(desc, old, oldlen, values, isnull);
	while (!changed && (x = bms_next_member(attrs, x)) >= 0)
	{
		AttrNumber	attno = x + FirstLowInvalidHeapAttributeNumber;

		if (attno == 0)
			changed = true;		/* whole row */
		if (attno <= 0)
			continue;
		if (isnull[attno - 1] != plan->slot->tts_isnull[attno - 1])
			changed = true;
		else if (!isnull[attno - 1])
			changed = !update_datum_is_same(TupleDescAttr(desc, attno - 1),
											values[attno - 1],
											plan->slot->tts_values[attno - 1]);
	}
	pfree(values);
	pfree(isnull);
	return changed;
}

/*
 * Called by zheap_row_take() with the page locked: compare the version on the
 * page with the new row, and set the lock strength that goes with it.
 */
static void
update_decide(ZRowWrite *w, void *arg)
{
	UpdatePlan *plan = arg;

	if (plan->tuple == NULL)
	{
		plan->toast_first = true;
		plan->index_changed = true;
		plan->key_changed = update_values_change(plan, plan->key_attrs,
												 w->image, w->image_len);
	}
	else
	{
		Bitmapset  *changed;

		plan->toast_first = !plan->toasted &&
			zheap_tuple_has_external(w->image);
		changed = zheap_changed_attrs(plan->rel, plan->all_attrs,
									  w->image, w->image_len,
									  plan->tuple->data, plan->tuple->len);
		plan->index_changed = !bms_is_empty(changed);
		plan->key_changed = bms_overlap(changed, plan->key_attrs);
		bms_free(changed);
	}
	w->mode = plan->key_changed ? LockTupleExclusive : LockTupleNoKeyExclusive;
}

/*
 * Form the new row now if that surely needs no toasting; no lock held.
 */
static void
update_form_early(UpdatePlan *plan)
{
	plan->tuple = zheap_form_untoasted(plan->rel, plan->slot);
}

/*
 * The row is taken but must be toasted: lock it, give up the page, toast
 * against the version locked.  Nobody else can change that version now.
 */
static void
update_lock_and_toast(ZRowWrite *w, UpdatePlan *plan)
{
	TupleTableSlot *oldslot;

	zheap_row_write_lock(w);
	zheap_row_unlock(w);

	oldslot = MakeSingleTupleTableSlot(RelationGetDescr(plan->rel),
									   &TTSOpsZHeapTuple);
	zheap_slot_store(oldslot, RelationGetRelid(plan->rel), &w->tid,
					 w->image, w->image_len, w->image_writer, w->image_cid);
	if (plan->tuple != NULL)
		pfree(plan->tuple);
	plan->tuple = zheap_form_from_slot(plan->rel, plan->slot, oldslot, 0);
	plan->toasted = true;
	ExecDropSingleTupleTableSlot(oldslot);
}

/* ----------------------------------------------------------------
 *	rule T
 * ----------------------------------------------------------------
 */

/*
 * Is some AFTER trigger event of this relation, or of a root it belongs to,
 * waiting to refetch rows by TID?  No lock held (partition ancestors are
 * looked up in the catalog).
 */
static bool
update_events_are_pending(Relation rel)
{
	ListCell   *lc;
	List	   *ancestors;
	bool		pending;

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
 * May the version on top be overwritten?  Not if I made it and an event still
 * has to show it to a trigger (core-contract.md, section 1, rule T).  False
 * with events_known unset: find out first.
 */
static bool
update_may_overwrite(ZRowWrite *w, UpdatePlan *plan)
{
	if (w->top.status != ZXACT_CURRENT || plan->rel->trigdesc == NULL)
		return true;
	return plan->events_known && !plan->events_pending;
}

/* ----------------------------------------------------------------
 *	where to
 * ----------------------------------------------------------------
 */

/*
 * Make the new row's bytes for the page: it names the origins at which
 * somebody is alive, and if it moves, the TID it leaves if somebody is alive
 * here (rule M14).  Only FOR KEY SHARE can be; who changes the key has waited
 * for all.  Returns a locker to wait for, in the unlikely case that they are
 * more than can be named.
 */
static Fxid
update_make_body(ZRowWrite *w, UpdatePlan *plan, bool move)
{
	const ZOrigins *o = &w->origins;
	ZOrigin		origin[ZHEAP_MAX_ORIGINS + 1];
	Fxid		fxid = InvalidFxid;
	int			n = 0;

	Assert(o->n == 0 || o->known);
	for (int i = 0; i < o->n; i++)
	{
		if (o->foreign[i] != InvalidFxid)
		{
			origin[n++] = o->origin[i];
			fxid = o->foreign[i];
		}
	}
	if (move && w->lockers.foreign_live)
	{
		origin[n].tid = w->tid;
		origin[n++].newest = w->lockers.newest;
		fxid = w->lockers.foreign;
	}
	Assert(n == 0 || !plan->key_changed);
	if (n > ZHEAP_MAX_ORIGINS ||
		(n > 0 && plan->tuple->len + n * ZHEAP_ORIGIN_SIZE >
		 ZHEAP_MAX_TUPLE_SIZE))
		return fxid;

	if (plan->body != NULL)
		pfree(plan->body);
	plan->body = palloc(plan->tuple->len +
						ZHEAP_MAX_ORIGINS * ZHEAP_ORIGIN_SIZE);
	plan->bodylen = zheap_origins_append(plan->body, plan->tuple->data,
										 plan->tuple->len, origin, n);
	return InvalidFxid;
}

/*
 * Free bytes that the new row needs in place.  A row that grows leaves the
 * page what inserts leave it: room for the xact slots that make writers of
 * other rows independent.
 */
static Size
update_need(ZRowWrite *w, UpdatePlan *plan)
{
	Size		need = zheap_page_replace_need(w->page, w->off, plan->bodylen);
	int			nslots = ZPageGetOpaque(w->page)->nslots;

	if (need > 0 && nslots < ZHEAP_XACT_SLOT_RESERVE)
		need += (ZHEAP_XACT_SLOT_RESERVE - nslots) * sizeof(ZXactSlotData);
	return need;
}

/*
 * Prune and spill the row's page for bytes that are missing.  False: that
 * changed nothing.  The row must be taken again in any case.
 */
static bool
update_reclaim(ZRowWrite *w, UpdatePlan *plan, Size missing)
{
	/* spilling writes undo, which may wait: no undo pin may be kept (W19) */
	undo_reader_close(&w->cx.reader);
	return zheap_page_reclaim(plan->rel, w->buffer, &w->cx.hz, missing,
							  plan->reclaim_options);
}

/*
 * Do the bytes that an update in place replaces fit into an undo record?  They
 * do, but for the biggest rows.
 */
static bool
update_fits_undo(ZRowWrite *w, UpdatePlan *plan)
{
	ZUndoDiff	diff;

	if (w->image_len <= UPDATE_MAX_OLD_BYTES)
		return true;
	zheap_undo_diff(&diff, w->image, w->image_len, plan->body, plan->bodylen);
	return diff.oldmid <= UPDATE_MAX_OLD_BYTES;
}

/*
 * Make sure that the other page of a move, locked along, takes the new row:
 * aborted changes rolled back, xact slot chosen, room there.  False: nothing
 * is locked any more, take the row again.
 */
static bool
update_prepare_new_page(ZRowWrite *w, UpdatePlan *plan)
{
	Page		page = BufferGetPage(w->newbuf);
	ZReserveResult reserved;
	Fxid		wait_for;
	bool		append;

	if (PageIsNew(page))
	{
		memset(&plan->new_choice, 0, sizeof(ZXactSlotChoice));
		plan->new_choice.id = 1;
		plan->new_choice.tenure = ZTENURE_FREE;
		plan->new_off = FirstOffsetNumber;
		return true;
	}

	zheap_page_check(plan->rel, BufferGetBlockNumber(w->newbuf), page);
	if (zheap_page_has_aborted(w->newbuf, page, &w->cx.hz))
		zheap_rollback_buffer(plan->rel, w->newbuf);

	if (zheap_page_insert_room(page) >= plan->bodylen)
	{
		reserved = zheap_xact_slot_reserve(plan->rel, w->newbuf, &w->cx.hz,
										   w->fxid, 0, &plan->new_choice,
										   &wait_for);
		if (reserved == ZRESERVE_WAIT)
		{
			zheap_row_wait_xact_slot(w, wait_for);
			return false;
		}
		if (reserved == ZRESERVE_ABORTED)
		{
			zheap_row_unlock(w);
			return false;
		}
		plan->new_off = zheap_page_free_offset(page, &append);
		if (zheap_page_insert_room(page) >= plan->bodylen &&
			OffsetNumberIsValid(plan->new_off))
			return true;
	}

	/* filled up while it was unlocked: look for another one */
	zheap_row_unlock(w);
	ReleaseBuffer(w->newbuf);
	w->newbuf = InvalidBuffer;
	return false;
}

/* Find a place for the new version of a move; false as above. */
static bool
update_find_home(ZRowWrite *w, UpdatePlan *plan)
{
	Buffer		buffer;
	bool		append;
	Size		room;

	plan->same_page = false;
	if (BufferIsValid(w->newbuf))
		return update_prepare_new_page(w, plan);

	room = zheap_page_insert_room(w->page);
	if (room >= plan->bodylen)
	{
		plan->new_off = zheap_page_free_offset(w->page, &append);
		if (OffsetNumberIsValid(plan->new_off))
		{
			plan->same_page = true;
			return true;
		}
	}
	else if (!plan->reclaimed_move &&
			 (room > 0 ||
			  PageGetMaxOffsetNumber(w->page) < MaxHeapTuplesPerPage))
	{
		plan->reclaimed_move = true;
		if (update_reclaim(w, plan, plan->bodylen - room))
		{
			zheap_row_unlock(w);
			return false;
		}
	}

	zheap_row_unlock(w);
	buffer = zheap_get_page_for_tuple(plan->rel, plan->bodylen,
									  InvalidBuffer, 0, NULL, &w->newvm);
	LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
	if (BufferGetBlockNumber(buffer) == w->block)
		ReleaseBuffer(buffer);	/* the old page has room by now */
	else
		w->newbuf = buffer;
	return false;
}

/* what became of a try to decide where the new version goes */
typedef enum UpdateStep
{
	UPDATE_READY,
	UPDATE_MOVES,				/* not in place */
	UPDATE_AGAIN,				/* the row was given up: take it again */
	UPDATE_WAIT					/* for a transaction in the way */
} UpdateStep;

/* w is taken */
static UpdateStep
update_try_in_place(ZRowWrite *w, UpdatePlan *plan, Fxid *wait_for)
{
	Size		need;
	Size		room;

	if (plan->index_changed || plan->no_room)
		return UPDATE_MOVES;
	if (!update_may_overwrite(w, plan))
	{
		if (plan->events_known)
			return UPDATE_MOVES;
		zheap_row_unlock(w);
		plan->events_pending = update_events_are_pending(plan->rel);
		plan->events_known = true;
		return UPDATE_AGAIN;
	}
	*wait_for = update_make_body(w, plan, false);
	if (*wait_for != InvalidFxid)
		return UPDATE_WAIT;

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
update_try_move(ZRowWrite *w, UpdatePlan *plan, Fxid *wait_for)
{
	/* only moves clear the page's all-visible bit: the map wasn't pinned yet */
	if (!w->need_vm)
	{
		w->need_vm = true;
		if (PageIsAllVisible(w->page))
		{
			zheap_row_unlock(w);
			return UPDATE_AGAIN;
		}
	}
	/* holders of the overflow lock can't be named: wait for them */
	if ((w->header.flags2 & ZH_HW_LOCKED) && !w->alone)
	{
		w->alone = true;
		zheap_row_unlock(w);
		return UPDATE_AGAIN;
	}
	*wait_for = update_make_body(w, plan, true);
	if (*wait_for != InvalidFxid)
		return UPDATE_WAIT;
	return update_find_home(w, plan) ? UPDATE_READY : UPDATE_AGAIN;
}

/*
 * Take the row until everything is decided: in place, or where to.  As
 * zheap_row_take().
 */
static TM_Result
update_take(ZRowWrite *w, UpdatePlan *plan)
{
	for (;;)
	{
		TM_Result	result = zheap_row_take(w);
		Fxid		wait_for = InvalidFxid;
		UpdateStep	step;

		if (result != TM_Ok && plan->toasted)
			elog(ERROR, "row (%u,%u) of relation \"%s\" changed although it was locked",
				 w->block, w->off, RelationGetRelationName(plan->rel));
		if (result != TM_Ok)
			return result;
		if (plan->toast_first)
		{
			update_lock_and_toast(w, plan);
			continue;
		}

		step = update_try_in_place(w, plan, &wait_for);
		plan->move = step == UPDATE_MOVES;
		if (plan->move)
			step = update_try_move(w, plan, &wait_for);
		if (step == UPDATE_READY)
			return TM_Ok;
		if (step == UPDATE_WAIT)
			result = zheap_row_wait_for(w, wait_for);
		if (result != TM_Ok)
			return result;
	}
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

static void
update_write_in_place(ZRowWrite *w, UpdatePlan *plan)
{
	ZUndo		u;
	ZTupleHeader header;
	ZTupleHeader formed;
	char	   *jump;

	Assert(!plan->key_changed);
	zheap_header_get(plan->body, &formed);
	zheap_row_describe(w, ZUNDO_UPDATE, plan->key_changed, &u, &header);
	header.natts_flags1 = formed.natts_flags1;
	header.flags2 |= ZH_INPLACE;
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

/* a move about to be written */
typedef struct UpdateMove
{
	ZRowWrite  *w;
	Buffer		newbuf;			/* w->buffer if on the same page */
	Page		newpage;
	BlockNumber newblock;
	bool		init;
	UndoInsertion ins;
	ZVmClear	vm;
	ZOwnChange	own[2];
	ZRowChange	old;
	ZMoveHead	head;
	char		packed[ZMOVE_MAX_HEAD];
	uint16		packed_len;
	char		coded[ZCODED_ROW_SIZE];
	uint16		coded_len;		/* 0: the row is logged as it is */
} UpdateMove;

/*
 * Two records on one undo page.  On one and the same table page they are
 * neighbours of one chain, else each belongs to its page's xact slot.
 */
static void
update_move_prepare(UpdateMove *m, UpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	ZUndo		u[2];
	char	   *payload[2];
	uint16		len[2];
	BlockNumber block[2] = {w->block, m->newblock};

	zheap_row_describe(w, ZUNDO_MOVE, plan->key_changed, &u[0],
					   &m->old.header);
	m->old.header.flags2 |= ZH_MOVED;
	m->old.offset = w->off;
	m->old.tuple = NULL;
	m->old.len = 0;
	ItemPointerSet(&u[0].tid, m->newblock, plan->new_off);

	memset(&u[1], 0, sizeof(ZUndo));
	u[1].kind = ZUNDO_INSERT_SET;
	u[1].offset = plan->new_off;
	u[1].writer = w->fxid;
	u[1].cid = w->cid;
	u[1].nranges = 1;
	u[1].first[0] = u[1].last[0] = plan->new_off;
	u[1].tid = w->tid;
	u[1].flags = plan->key_changed ? 0 : ZUNDO_KEPT_KEY;
	if (m->init)
		u[1].flags |= ZUNDO_TENURE_START;
	else if (!plan->same_page)
		zheap_undo_describe_tenure(&w->cx, m->newpage, m->newblock,
								   &plan->new_choice, &u[1]);

	undo_insertion_init(&m->ins, w->rel);
	for (int i = 0; i < 2; i++)
	{
		len[i] = zheap_undo_payload_size(&u[i]);
		payload[i] = palloc(len[i]);
		zheap_undo_encode(&u[i], payload[i]);
		undo_insertion_add(&m->ins, u[i].kind, u[i].flags, block[i],
						   u[i].offset,
						   i == 1 && plan->same_page ? UNDO_CHAIN_PREVIOUS :
						   u[i].chain,
						   payload[i], len[i]);
	}

	memset(&m->vm, 0, sizeof(ZVmClear));
	m->head.flags = 0;
	if (PageIsAllVisible(w->page))
	{
		zheap_vm_add(&m->vm, w->block, w->vmbuffer);
		m->head.flags |= ZMOVE_CLEARED_VM_OLD;
	}
	if (!plan->same_page && PageIsAllVisible(m->newpage))
	{
		zheap_vm_add(&m->vm, m->newblock, w->newvm);
		m->head.flags |= ZMOVE_CLEARED_VM_NEW;
	}
	zheap_vm_lock(&m->vm);
	undo_prepare(&m->ins);
}

static void
update_move_log(UpdateMove *m, UpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	uint8		flags = REGBUF_STANDARD | (m->init ? REGBUF_WILL_INIT : 0);
	XLogRecPtr	lsn;

	XLogBeginInsert();
	XLogRegisterData(m->packed, m->packed_len);
	XLogRegisterBuffer(0, w->buffer, REGBUF_STANDARD);
	if (!plan->same_page)
		XLogRegisterBuffer(1, m->newbuf, flags);
	if (m->coded_len > 0)
		XLogRegisterBufData(plan->same_page ? 0 : 1, m->coded, m->coded_len);
	else
		XLogRegisterBufData(plan->same_page ? 0 : 1, plan->body,
							plan->bodylen);
	undo_register(&m->ins, 2);
	zheap_vm_register(&m->vm, 3);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_ZHEAP_MOVE);

	PageSetLSN(w->page, lsn);
	PageSetLSN(m->newpage, lsn);
	undo_set_lsn(&m->ins, lsn);
	zheap_vm_set_lsn(&m->vm, lsn);
}

/* End the old version, put the new one; *newtid is where. */
static void
update_write_move(ZRowWrite *w, UpdatePlan *plan, ItemPointer newtid)
{
	UpdateMove *m = palloc(sizeof(UpdateMove));
	ZTupleHeader header;
	bool		same = plan->same_page;

	m->w = w;
	m->newbuf = same ? w->buffer : w->newbuf;
	m->newpage = BufferGetPage(m->newbuf);
	m->newblock = BufferGetBlockNumber(m->newbuf);
	m->init = PageIsNew(m->newpage);
	update_move_prepare(m, plan);

	/* the new version: just inserted */
	zheap_header_get(plan->body, &header);
	header.slot = same ? w->choice.id : plan->new_choice.id;
	header.flags2 = 0;
	zheap_header_put(plan->body, &header);

	m->own[0].xact_slot = w->choice.id;
	m->own[0].tenure = w->choice.tenure;
	m->own[0].fxid = w->fxid;
	m->own[0].urp = m->ins.rec[same ? 1 : 0].urp;
	m->own[1].xact_slot = header.slot;
	m->own[1].tenure = same ? w->choice.tenure : plan->new_choice.tenure;
	m->own[1].fxid = w->fxid;
	m->own[1].urp = m->ins.rec[1].urp;
	for (int i = 0; i < 2; i++)
	{
		m->head.undo_offset[i] = undo_insertion_offset(&m->ins, i);
		m->head.xact_slot[i] = m->own[i].xact_slot;
		m->head.tenure[i] = m->own[i].tenure;
	}
	m->head.offset[0] = w->off;
	m->head.offset[1] = plan->new_off;
	m->coded_len = zheap_code_row(m->newpage,
								  same ? w->off : plan->new_off - 1,
								  plan->body, plan->bodylen, m->coded);
	m->head.flags |= (same ? ZMOVE_SAME_PAGE : 0) |
		(m->init ? ZMOVE_INIT_PAGE : 0) |
		(m->coded_len > 0 ? ZMOVE_CODED : 0);
	m->head.conflict =
		zheap_conflict_pack(w->fxid,
							Max(w->choice.conflict,
								same ? InvalidFxid : plan->new_choice.conflict));
	m->head.flags2 = m->old.header.flags2;
	m->packed_len = zheap_move_pack(m->packed, &m->head);

	START_CRIT_SECTION();
	if (m->init)
		zheap_page_init(m->newpage,
						zheap_new_page_xact_slots(plan->bodylen));
	zheap_change_apply_own(w->page, &m->own[0]);
	if (!zheap_change_apply_row(w->page, &m->old))
		elog(PANIC, "row (%u,%u) can't be ended", w->block, w->off);
	if (!same)
		zheap_change_apply_own(m->newpage, &m->own[1]);
	if (!zheap_change_apply_arrival(m->newpage, plan->new_off,
									plan->body, plan->bodylen))
		elog(PANIC, "no room for row (%u,%u)", m->newblock, plan->new_off);
	MarkBufferDirty(w->buffer);
	MarkBufferDirty(m->newbuf);
	undo_insert(&m->ins);
	zheap_vm_clear(&m->vm);
	if (RelationNeedsWAL(w->rel))
		update_move_log(m, plan);
	else
		undo_log_alone(&m->ins);
	END_CRIT_SECTION();

	undo_release(&m->ins);
	zheap_vm_release(&m->vm);
	zheap_freed_note(w->rel, w->block, w->page,
					 ItemIdGetLength(PageGetItemId(w->page, w->off)));
	ItemPointerSet(newtid, m->newblock, plan->new_off);
	pfree((char *) m->ins.rec[0].payload);
	pfree((char *) m->ins.rec[1].payload);
	pfree(m);
}

/*
 * See table_tuple_update().  TM_Ok in place: *otid gets the tag PRE, so that
 * triggers find the old version; slot->tts_tid is the plain TID.
 */
TM_Result
zheap_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
			 CommandId cid, Snapshot snapshot, Snapshot crosscheck, bool wait,
			 TM_FailureData *tmfd, LockTupleMode *lockmode,
			 bool *update_indexes)
{
	ZRowWrite	row;
	ZRowWrite  *w = &row;
	UpdatePlan	plan;
	ItemPointerData newtid;
	bool		was_locked = zheap_tid_tag(otid) == ZTID_LOCKED;
	TM_Result	result;

	zheap_epq_running = false;

	/* no catalog lookups with a page locked */
	memset(&plan, 0, sizeof(plan));
	plan.rel = rel;
	plan.slot = slot;
	plan.all_attrs = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_ALL);
	plan.key_attrs = RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_KEY);
	plan.reclaim_options = zheap_reclaim_options(rel);
	update_form_early(&plan);

	/* find and wait */
	zheap_row_begin(w, rel, otid, cid, snapshot, crosscheck);
	w->mode = LockTupleNoKeyExclusive;
	w->wait = wait;
	w->need_vm = false;
	w->oper = XLTW_Update;
	w->decide = update_decide;
	w->decide_arg = &plan;
	result = update_take(w, &plan);
	*lockmode = w->mode;
	*update_indexes = false;

	if (result == TM_Ok)
	{
		zheap_predicate_conflict_in(rel, w->block, w->off, w->image,
									w->image_len);

		newtid = w->tid;
		if (plan.move)
			update_write_move(w, &plan, &newtid);
		else
			update_write_in_place(w, &plan);
		zheap_row_end(w);

		/* a slot of ours shall know whose version it holds (rule R4) */
		if (TTS_IS_ZHEAP(slot))
		{
			zheap_slot_store(slot, RelationGetRelid(rel), &newtid,
							 plan.tuple->data, plan.tuple->len, w->fxid, cid);
			if (was_locked || w->lockers.own_live)
				zheap_slot_set_was_locked(slot);
		}
		slot->tts_tableOid = RelationGetRelid(rel);
		slot->tts_tid = newtid;
		*update_indexes = plan.move;

		/* an in-place update leaves no dead row behind */
		pgstat_count_heap_update(rel, !plan.move);
		if (!plan.move)
		{
			*otid = w->tid;
			zheap_tid_set_tag(otid, ZTID_PRE);
			pgstat_update_heap_dead_tuples(rel, 1);
		}
	}
	else
	{
		*tmfd = w->failure;
		zheap_row_end(w);
	}

	if (plan.tuple != NULL)
		pfree(plan.tuple);
	if (plan.body != NULL)
		pfree(plan.body);
	bms_free(plan.all_attrs);
	bms_free(plan.key_attrs);
	return result;
}
