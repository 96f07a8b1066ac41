/*-------------------------------------------------------------------------
 *
 * zheap_row_write.c
 *	  Writing a change of one row on one page, and row locks, once
 *	  zheap_row_take() has taken the row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_logical.h"

StaticAssertDecl(ZROW_MAX_MORE <= ZCHANGE_MAX_MORE,
				 "one WAL record for the rows of one insertion of undo");

/*
 * The header that w's row will have after a change (its natts and value flags
 * as they are).  Live lockers of the row must be found by later writers:
 * MULTI_LOCKED stays.  For a lock of my own that isn't stronger than the change
 * the change stands; if that is rolled back, so is the header (Z23).
 */
void
zheap_row_header(const ZRowWrite *w, ZTupleHeader *header)
{
	Assert(w->held.pages);
	*header = w->header;
	header->slot = w->choice.id;
	header->flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK);
	if (w->lockers.foreign_live ||
		(w->lockers.own_live && w->lockers.own_mode > w->mode))
		header->flags2 |= ZH_MULTI_LOCKED;
	else
		header->flags2 &= ~ZH_MULTI_LOCKED;
	if ((header->flags2 & ZH_MULTI_LOCKED) == 0)
		header->flags2 &= ~(ZH_MODE_MASK | ZH_MANY);
}

/* The record of a change of w's row, and that header. */
void
zheap_row_describe(ZRowWrite *w, uint8 kind, bool key, ZUndo *u,
				   ZTupleHeader *header)
{
	Assert(w->held.pages && w->choice.id != 0);
	AssertPageExclusive(w->buffer);

	memset(u, 0, offsetof(ZUndo, first));
	ItemPointerSetInvalid(&u->tid);
	u->kind = kind;
	u->offset = w->off;
	u->writer = w->fxid;
	u->cid = w->cid;
	zheap_describe_old(&w->cx, w->page, w->block, w->off, &w->choice,
					   &w->header, u);
	if (key)
		u->flags |= ZUNDO_KEY;
	zheap_row_header(w, header);
}

/*
 * Does the old header follow from the new one (PLAIN)?  Only if the version
 * replaced is visible to all, which the record has to say, too.
 */
bool
zheap_row_is_plain(const ZRowWrite *w, const ZTupleHeader *header)
{
	return (w->header.slot == 0 || w->top.status == ZXACT_ALL_VISIBLE) &&
		((w->header.flags2 | header->flags2) & ZH_LOCK_BITS) == 0 &&
		((w->header.natts_flags1 ^ header->natts_flags1) & ~ZH_SLACK) == 0;
}

static inline bool
tells(const ZRowWrite *w)
{
	return w->logical != NULL && w->logical->wanted;
}

/*
 * What of the new row's bytes is logged: those that differ; all if decoding is
 * told.  In the critical section.
 */
static void
row_register_bytes(const ZRowWrite *w, const ZUndo *u, const char *tuple,
				   uint16 len)
{
	char	   *body = unconstify(char *, tuple) + ZHEAP_HEADER_SIZE;

	Assert(CritSectionCount > 0 && len >= ZHEAP_HEADER_SIZE);
	if (tells(w))
		XLogRegisterBufData(0, body, len - ZHEAP_HEADER_SIZE);
	else if (u->diff.newmid > 0)
		XLogRegisterBufData(0, body + u->diff.prefix, u->diff.newmid);
}

/* What redo has to know, packed; returns its length. */
static uint16
row_pack_head(const ZRowWrite *w, uint8 info, const ZUndo *u,
			  const UndoInsertion *ins, const ZOwnChange *own,
			  const ZTupleHeader *header, uint8 flags, char *packed)
{
	bool		whole = info == XLOG_ZHEAP_UPDATE && tells(w);
	ZTupleHeader present;
	ZChangeHead head;

	Assert(info != XLOG_ZHEAP_UPDATE || u != NULL);
	/* SLACK is the page's affair (zheap_xlog_change_apply_row) */
	zheap_header_get((char *) PageGetItem(w->page,
										  PageGetItemId(w->page, w->off)),
					 &present);
	head.flags = flags;
	if (whole)
		head.flags |= ZCHANGE_WHOLE;
	else if (((present.natts_flags1 ^ header->natts_flags1) & ~ZH_SLACK) == 0)
		head.flags |= ZCHANGE_SAME_NATTS;
	if (header->slot != w->choice.id)
		head.flags |= ZCHANGE_OTHER_SLOT;
	head.tenure = w->choice.tenure;
	head.xact_slot = w->choice.id;
	head.offset = w->off;
	if (u == NULL)
		head.flags |= ZCHANGE_NO_UNDO;
	else
		head.undo_offset = undo_insertion_offset(ins, 0);
	if (unlikely(w->more != NULL))
	{
		head.flags |= ZCHANGE_SEVERAL;
		head.nmore = w->more->n;
		memcpy(head.more, w->more->offset, sizeof(w->more->offset));
		memcpy(head.more_flags2, w->more->flags2, sizeof(w->more->flags2));
		if (u != NULL)
			head.last_offset = undo_insertion_offset(ins, ins->nrecs - 1);
	}
	head.conflict = zheap_conflict_pack(w->fxid, w->choice.conflict);
	if (own->tenure == ZTENURE_SHARED)
		head.youngest = zheap_shared_pack(own);
	head.header = *header;
	head.new_key = w->new_key;
	if (info == XLOG_ZHEAP_UPDATE)
	{
		head.prefix = u->diff.prefix;
		head.oldmid = u->diff.oldmid;
		head.newmid = u->diff.newmid;
	}
	return zheap_xlog_change_pack(packed, info, &head);
}

/* Prepare the undo record, and those of further rows that have one. */
static void
row_prepare_undo(const ZRowWrite *w, const ZUndo *u, char *payload,
				 UndoInsertion *ins)
{
	const ZRowsMore *more = w->more;

	undo_insertion_init(ins, w->rel);
	undo_insertion_add(ins, u->kind, u->flags, w->block, w->off, u->chain,
					   payload, zheap_undo_encode(u, payload));
	if (w->choice.tenure == ZTENURE_SHARED)
		undo_insertion_keep(ins, u->youngest, u->ends);
	if (unlikely(more != NULL && !more->covered))
	{
		for (int i = 0; i < more->n; i++)
			undo_insertion_add(ins, ZUNDO_DELETE, more->undo_flags[i],
							   w->block, more->offset[i], UNDO_CHAIN_PREVIOUS,
							   more->payload[i], more->payload_len[i]);
	}
	undo_insert_prepare(ins);
}

static void
row_apply_more(const ZRowWrite *w)
{
	for (int i = 0; i < w->more->n; i++)
		zheap_xlog_change_apply_more(w->page, w->more->offset[i],
									 w->choice.id, w->more->flags2[i]);
}

static void
note_ended(const ZRowWrite *w, OffsetNumber off)
{
	zheap_fsm_notes_add(w->rel, w->block, w->page,
						ItemIdGetLength(PageGetItemId(w->page, off)));
}

/* What this backend keeps in mind of a record. */
static inline void
row_note_undo(const ZRowWrite *w, const ZXactSlotChoice *choice,
			  const ZUndo *u, const UndoInsertRec *rec)
{
	zheap_own_history_note(w->rel, w->block, choice, w->fxid, rec->urp,
						   u->cid, u->kind == ZUNDO_LOCK);
	zheap_xact_slot_note_rows(w->rel, choice, w->fxid, rec->urp, rec->offset,
							  rec->offset);
}

/* Of further rows: room of theirs, and their records, each after another. */
static void
row_note_more(const ZRowWrite *w, const ZUndo *u, const UndoInsertion *ins)
{
	ZXactSlotChoice choice = w->choice;

	for (int i = 0; i < w->more->n; i++)
	{
		if (!w->more->covered)
		{
			choice.tenure = ZTENURE_CONTINUE;
			choice.prev_fxid = w->fxid;
			choice.prev_urp = ins->rec[i].urp;
			row_note_undo(w, &choice, u, &ins->rec[i + 1]);
		}
		note_ended(w, w->more->offset[i]);
	}
}

/* The WAL record; ins is NULL if there is no undo.  In the critical section. */
static inline void
row_log(const ZRowWrite *w, uint8 info, const ZUndo *u, UndoInsertion *ins,
		char *packed, uint16 packed_len, const ZRowChange *row, ZVmClear *vm)
{
	bool		decoded = info != XLOG_ZHEAP_LOCK && tells(w);

	XLogBeginInsert();
	XLogRegisterData(packed, packed_len);
	if (decoded)
		zheap_logical_register(w->logical, false);
	XLogRegisterBuffer(0, w->buffer, REGBUF_STANDARD |
					   (decoded ? REGBUF_KEEP_DATA : 0));
	if (row->tuple != NULL)
		row_register_bytes(w, u, row->tuple, row->len);
	zheap_xlog_finish(info, w->page, 1, ins, w->off, vm);
}

UndoRecPtr
zheap_row_write(ZRowWrite *w, uint8 info, const ZUndo *u,
				const ZTupleHeader *header, const char *tuple, uint16 len)
{
	char		small[512];
	char	   *payload = small;
	UndoInsertion ins;
	ZVmClear	vm;
	ZOwnChange	own;
	ZRowChange	row;
	char		packed[ZCHANGE_MAX_HEAD];
	uint16		packed_len;

	Assert(w->held.pages && w->choice.id != 0);
	Assert((info == XLOG_ZHEAP_UPDATE) == (tuple != NULL));
	Assert(u != NULL || w->choice.tenure == ZTENURE_CONTINUE);
	Assert(CritSectionCount == 0);
	AssertPageExclusive(w->buffer);

	/* prepare */
	memset(&vm, 0, sizeof(vm));
	if ((ZHeaderIsEnded(header) || w->new_key) && PageIsAllVisible(w->page))
	{
		zheap_space_vm_add(&vm, w->block, w->vmbuffer);
		zheap_space_vm_lock(&vm);
	}
	own.urp = InvalidUndoRecPtr;
	if (u != NULL)
	{
		if (zheap_undo_payload_bound(u) > sizeof(small))
			payload = palloc(zheap_undo_payload_size(u));
		row_prepare_undo(w, u, payload, &ins);
		own.urp = ins.rec[ins.nrecs - 1].urp;
	}

	own.xact_slot = w->choice.id;
	own.tenure = w->choice.tenure;
	own.fxid = w->fxid;
	if (own.tenure == ZTENURE_SHARED)
	{
		Assert(ZUndoIsShared(u));
		own.youngest = u->youngest;
		own.ends = u->ends;
	}
	row.offset = w->off;
	row.header = *header;
	row.tuple = tuple;
	row.len = len;
	row.new_key = w->new_key;
	packed_len = row_pack_head(w, info, u, &ins, &own, header,
							   vm.nblocks > 0 ? ZCHANGE_CLEARED_VM : 0,
							   packed);

	START_CRIT_SECTION();

	/* apply */
	if (u != NULL)
	{
		zheap_xlog_change_apply_own(w->page, &own);
		undo_insert_apply(&ins);
	}
	if (!zheap_xlog_change_apply_row(w->page, &row))
		elog(PANIC, "no room for the new version of row (%u,%u)",
			 w->block, w->off);
	if (unlikely(w->more != NULL))
		row_apply_more(w);
	MarkBufferDirty(w->buffer);
	zheap_space_vm_clear(&vm);
	if (own.tenure == ZTENURE_FOREIGN)
		UNDO_POINT("taking-over");

	/* log */
	if (RelationNeedsWAL(w->rel))
		row_log(w, info, u, u == NULL ? NULL : &ins, packed, packed_len, &row,
				&vm);
	else if (u != NULL)
		undo_insert_log_alone(&ins);

	END_CRIT_SECTION();
	if (own.tenure == ZTENURE_FOREIGN)
		UNDO_POINT("taken-over");

	/* release */
	if (u != NULL)
	{
		undo_insert_release(&ins);
		row_note_undo(w, &w->choice, u, &ins.rec[0]);
	}
	zheap_space_vm_release(&vm);
	if (payload != small)
		pfree(payload);

	if (own.tenure == ZTENURE_SHARED)
		zheap_stat_count(w->rel, ZSTAT_XACT_SLOTS_SHARED, 1);

	/* room for others, once this has committed */
	if (ZHeaderIsEnded(header))
		note_ended(w, w->off);
	else if (tuple != NULL && len < w->image_len)
		zheap_fsm_notes_add(w->rel, w->block, w->page, w->image_len - len);
	if (unlikely(w->more != NULL))
		row_note_more(w, u, &ins);
	return own.urp;
}

/*
 * LOCK_ONLY, the cheap form, only on an all-visible version without other
 * lockers.  A stronger lock of mine replaces my LOCK_ONLY; rolled back, the
 * weaker one is searched for (u->replaced).
 */
void
zheap_row_write_lock(ZRowWrite *w)
{
	ZTupleHeader h = w->header;
	bool		flagged = (h.flags2 & (ZH_LOCK_ONLY | ZH_MULTI_LOCKED)) != 0;
	bool		shared = w->choice.tenure == ZTENURE_SHARED;
	int			mode = flagged ? (h.flags2 & ZH_MODE_MASK) >> ZH_MODE_SHIFT :
		0;
	ZUndo		u;

	Assert(w->held.pages);
	if (w->found.lock_suffices)
		return;
	memset(&u, 0, offsetof(ZUndo, first));
	ItemPointerSetInvalid(&u.tid);
	u.kind = ZUNDO_LOCK;
	u.offset = w->off;
	u.writer = w->fxid;
	u.cid = w->cid;
	u.lockmode = (uint8) w->mode;
	zheap_describe_tenure(&w->cx, w->page, w->block, &w->choice, &u);

	/* the takeover pass goes over this row too */
	zheap_xact_slot_flag_header(&h, w->choice.id, w->choice.tenure);

	if (!shared && (h.flags2 & ZH_LOCK_ONLY) && w->lockers.own_live &&
		!w->lockers.foreign_live &&
		(h.flags2 & ZH_MULTI_LOCKED) == 0)
	{
		Assert(h.slot == w->choice.id);
		ZHeaderSetReused(&h, ZH_REUSED_NONE);
		u.replaced = true;
	}
	else if (h.flags2 & ZH_LOCK_ONLY)
	{
		h.slot = 0;
		h.flags2 &= ~(ZH_LOCK_ONLY | ZH_REUSED_MASK | ZH_INPLACE);
		h.flags2 |= ZH_MULTI_LOCKED;
	}
	else if (!shared && (h.flags2 & ZH_MULTI_LOCKED) == 0 &&
			 (h.slot == 0 || w->top.status == ZXACT_ALL_VISIBLE))
	{
		h.slot = w->choice.id;
		h.flags2 &= ~(ZH_REUSED_MASK | ZH_INPLACE);
		h.flags2 |= ZH_LOCK_ONLY;
	}
	else
		h.flags2 |= ZH_MULTI_LOCKED;

	mode = Max(mode, (int) w->mode);
	/* beside another one's lock, or a change that may lie above one (Z23) */
	if ((h.flags2 & ZH_MULTI_LOCKED) &&
		(w->lockers.foreign_live || w->top.status == ZXACT_RUNNING))
		h.flags2 |= ZH_MANY;
	h.flags2 = (h.flags2 & ~ZH_MODE_MASK) | (mode << ZH_MODE_SHIFT);

	zheap_row_write(w, XLOG_ZHEAP_LOCK, &u, &h, NULL, 0);
	zheap_lockers_remember(w);
}
