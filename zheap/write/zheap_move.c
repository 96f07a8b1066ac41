/*-------------------------------------------------------------------------
 *
 * zheap_move.c
 *	  Writing the move of a row to another TID: two pages, two undo records,
 *	  one WAL record.  Whether a row moves is decided in zheap_update.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_insert.h"
#include "zheap/wal/zheap_xlog_logical.h"
#include "zheap/write/zheap_update.h"

/* a move about to be written */
typedef struct ZMove
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
} ZMove;

/*
 * Two records on one undo page.  On one and the same table page they are
 * neighbours of one chain, else each belongs to its page's xact slot.
 */
static void
move_prepare(ZMove *m, ZUpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	ZUndo		u[2];
	char	   *payload[2];
	uint16		len[2];
	BlockNumber block[2] = {w->block, m->newblock};

	Assert(!plan->same_page || w->choice.tenure != ZTENURE_SHARED);
	Assert(CritSectionCount == 0 && OffsetNumberIsValid(plan->new_off));
	AssertPageExclusive(m->newbuf);
	zheap_row_describe(w, ZUNDO_MOVE, plan->key_changed, &u[0],
					   &m->old.header);
	m->old.header.flags2 |= ZH_MOVED;
	m->old.offset = w->off;
	m->old.tuple = NULL;
	m->old.len = 0;
	m->old.new_key = false;
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
		zheap_describe_tenure(&w->cx, m->newpage, m->newblock,
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

	m->own[0].youngest = u[0].youngest;
	m->own[0].ends = u[0].ends;
	if (w->choice.tenure == ZTENURE_SHARED)
		undo_insertion_keep(&m->ins, u[0].youngest, u[0].ends);

	memset(&m->vm, 0, sizeof(ZVmClear));
	m->head.flags = 0;
	if (PageIsAllVisible(w->page))
	{
		zheap_space_vm_add(&m->vm, w->block, w->vmbuffer);
		m->head.flags |= ZMOVE_CLEARED_VM_OLD;
	}
	if (!plan->same_page && PageIsAllVisible(m->newpage))
	{
		zheap_space_vm_add(&m->vm, m->newblock, w->newvm);
		m->head.flags |= ZMOVE_CLEARED_VM_NEW;
	}
	zheap_space_vm_lock(&m->vm);
	undo_insert_prepare(&m->ins);
}

static void
move_log(ZMove *m, ZUpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	uint8		flags = REGBUF_STANDARD | (m->init ? REGBUF_WILL_INIT : 0) |
		(w->logical->wanted ? REGBUF_KEEP_DATA : 0);
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0);
	XLogBeginInsert();
	XLogRegisterData(m->packed, m->packed_len);
	zheap_logical_register(w->logical, false);
	XLogRegisterBuffer(0, w->buffer, plan->same_page ? flags :
					   REGBUF_STANDARD);
	if (!plan->same_page)
		XLogRegisterBuffer(1, m->newbuf, flags);
	if (m->coded_len > 0)
		XLogRegisterBufData(plan->same_page ? 0 : 1, m->coded, m->coded_len);
	else
		XLogRegisterBufData(plan->same_page ? 0 : 1, plan->body,
							plan->bodylen);
	lsn = zheap_xlog_finish(XLOG_ZHEAP_MOVE, w->page, 2, &m->ins,
							InvalidOffsetNumber, &m->vm);
	PageSetLSN(m->newpage, lsn);
}

/* What is done to both pages, and the record's head that says so. */
static void
move_describe(ZMove *m, ZUpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	bool		same = plan->same_page;
	ZTupleHeader header;

	/* the new version: just inserted */
	zheap_header_get(plan->body, &header);
	header.slot = same ? w->choice.id : plan->new_choice.id;
	header.flags2 = plan->carried.n == 0 ? 0 :
		ZH_MULTI_LOCKED | ZH_MANY | (LockTupleKeyShare << ZH_MODE_SHIFT);
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
	m->coded_len = w->logical->wanted || header.flags2 != 0 ? 0 :
		zheap_xlog_insert_code_row(m->newpage,
								   same ? w->off : plan->new_off - 1,
								   plan->body, plan->bodylen, m->coded);
	m->head.flags |= (same ? ZMOVE_SAME_PAGE : 0) |
		(m->init ? ZMOVE_INIT_PAGE : 0) |
		(m->coded_len > 0 ? ZMOVE_CODED : 0);
	m->head.conflict =
		zheap_conflict_pack(w->fxid,
							Max(w->choice.conflict,
								same ? InvalidFxid :
								plan->new_choice.conflict));
	m->head.youngest = w->choice.tenure == ZTENURE_SHARED ?
		zheap_shared_pack(&m->own[0]) : 0;
	m->head.flags2 = m->old.header.flags2;
	m->packed_len = zheap_xlog_change_pack_move(m->packed, &m->head);
}

static void
move_apply(ZMove *m, const ZUpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	bool		same = plan->same_page;

	Assert(CritSectionCount > 0);
	if (m->init)
		zheap_page_init(m->newpage,
						zheap_new_page_xact_slots(plan->bodylen));
	zheap_xlog_change_apply_own(w->page, &m->own[0]);
	if (!zheap_xlog_change_apply_row(w->page, &m->old))
		elog(PANIC, "row (%u,%u) cannot be ended", w->block, w->off);
	if (!same)
		zheap_xlog_change_apply_own(m->newpage, &m->own[1]);
	if (!zheap_xlog_change_apply_arrival(m->newpage, plan->new_off,
										 plan->body, plan->bodylen))
		elog(PANIC, "no room for row (%u,%u)", m->newblock, plan->new_off);
	MarkBufferDirty(w->buffer);
	MarkBufferDirty(m->newbuf);
	undo_insert_apply(&m->ins);
	zheap_space_vm_clear(&m->vm);
}

static void
move_note_undo(const ZMove *m, const ZUpdatePlan *plan)
{
	ZRowWrite  *w = m->w;
	bool		same = plan->same_page;

	zheap_own_history_note(w->rel, w->block, &w->choice, w->fxid,
						   m->own[0].urp, w->cid, false);
	zheap_xact_slot_note_rows(w->rel, &w->choice, w->fxid, m->own[0].urp,
							  same ? Min(w->off, plan->new_off) : w->off,
							  same ? Max(w->off, plan->new_off) : w->off);
	if (!same)
	{
		zheap_own_history_note(w->rel, m->newblock, &plan->new_choice,
							   w->fxid, m->own[1].urp, w->cid, false);
		zheap_xact_slot_note_rows(w->rel, &plan->new_choice, w->fxid,
								  m->own[1].urp, plan->new_off, plan->new_off);
	}
}

void
zheap_move_write(ZRowWrite *w, ZUpdatePlan *plan, ItemPointer newtid)
{
	ZMove	   *m = palloc(sizeof(ZMove));
	bool		same = plan->same_page;

	Assert(w->held.pages && plan->body != NULL && w->logical != NULL);
	Assert(same || (BufferIsValid(w->newbuf) && w->newbuf != w->buffer));
	AssertPageExclusive(w->buffer);
	m->w = w;
	m->newbuf = same ? w->buffer : w->newbuf;
	m->newpage = BufferGetPage(m->newbuf);
	m->newblock = BufferGetBlockNumber(m->newbuf);
	m->init = PageIsNew(m->newpage);
	move_prepare(m, plan);
	move_describe(m, plan);

	START_CRIT_SECTION();
	move_apply(m, plan);
	if (RelationNeedsWAL(w->rel))
		move_log(m, plan);
	else
		undo_insert_log_alone(&m->ins);
	END_CRIT_SECTION();

	undo_insert_release(&m->ins);
	move_note_undo(m, plan);
	zheap_space_vm_release(&m->vm);
	if (plan->carried.n > 0 ||
		zheap_xact_slot_is_for_one(w->rel, m->newpage))
		zheap_share_carry(w, m->newbuf, plan->new_off, plan->carried.fxids,
						  plan->carried.n);
	if (w->choice.tenure == ZTENURE_SHARED)
		zheap_stat_count(w->rel, ZSTAT_XACT_SLOTS_SHARED, 1);
	zheap_fsm_notes_add(w->rel, w->block, w->page,
						ItemIdGetLength(PageGetItemId(w->page, w->off)));
	ItemPointerSet(newtid, m->newblock, plan->new_off);
	pfree((char *) m->ins.rec[0].payload);
	pfree((char *) m->ins.rec[1].payload);
	pfree(m);
}
