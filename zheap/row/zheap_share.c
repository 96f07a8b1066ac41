/*-------------------------------------------------------------------------
 *
 * zheap_share.c
 *	  Lists in the chain of a page's shared xact slot (Z58).
 *
 * The chain grows with each lock and each end of a row that goes through it, and
 * whoever comes new has to read what it can't know to be over.  So now and then
 * who adds to it first replaces it by a list of what is alive: locks of running
 * transactions, and the ends of rows that the page shows as ended so.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_shared.h"
#include "zheap/row/zheap_lock.h"

/* records at which a list is due, if it isn't longer than they are */
#define LIST_AFTER			UNDO_KNOB("list-after", 32, 1, 32)

/* bytes of entries in one record */
#define LIST_MAX_BYTES		UNDO_KNOB("list-bytes", 7000, 64, 7000)

/* a list being written, in one record or several, each naming the one before */
typedef struct ListWrite
{
	Relation	rel;
	Buffer		buffer;
	BlockNumber block;
	ZUndo		u;
	uint16		len;			/* of entries */
	Fxid		last;			/* of the entry put last */
	char		entries[UNDO_MAX_PAYLOAD];
	char		payload[UNDO_MAX_PAYLOAD];
} ListWrite;

static void
list_begin(ListWrite *l, Relation rel, Buffer buffer, Fxid writer,
		   CommandId cid)
{
	ZUndo	   *u = &l->u;

	AssertPageExclusive(buffer);
	l->rel = rel;
	l->buffer = buffer;
	l->block = BufferGetBlockNumber(buffer);
	l->len = 0;
	l->last = writer;
	memset(u, 0, sizeof(ZUndo));
	ItemPointerSetInvalid(&u->tid);
	u->kind = ZUNDO_LIST;
	u->flags = ZUNDO_SHARED | ZUNDO_TENURE_START;
	u->offset = FirstOffsetNumber;
	u->writer = writer;
	u->cid = cid;
	u->chain = InvalidUndoRecPtr;
	u->youngest = writer;
}

/* The head of the chain is this record, which is being written. */
static void
list_put_head(ListWrite *l, UndoInsertion *ins)
{
	const ZUndo *u = &l->u;
	Page		page = BufferGetPage(l->buffer);
	ZOwnChange	own = {.tenure = ZTENURE_SHARED};

	Assert(CritSectionCount > 0);
	own.xact_slot = ZXACT_SHARED;
	own.fxid = u->writer;
	own.urp = ins->rec[0].urp;
	own.youngest = u->youngest;
	own.ends = u->ends;
	zheap_xlog_change_apply_own(page, &own);
	MarkBufferDirty(l->buffer);
	if (RelationNeedsWAL(l->rel))
	{
		ZChangeHead head = {0};
		char		packed[ZCHANGE_MAX_HEAD];

		head.flags = ZCHANGE_LIST;
		head.tenure = ZTENURE_SHARED;
		head.undo_offset = undo_insertion_offset(ins, 0);
		head.youngest = zheap_shared_pack(&own);
		XLogBeginInsert();
		XLogRegisterData(packed,
						 zheap_xlog_change_pack(packed, XLOG_ZHEAP_LOCK,
												&head));
		XLogRegisterBuffer(0, l->buffer, REGBUF_STANDARD);
		zheap_xlog_finish(XLOG_ZHEAP_LOCK, page, 1, ins, InvalidOffsetNumber,
						  NULL);
	}
	else
		undo_insert_log_alone(ins);
}

/* If it isn't the last, another one of the list will name it. */
static void
list_write(ListWrite *l, bool last)
{
	ZUndo	   *u = &l->u;
	UndoInsertion ins;
	uint16		len;

	Assert(CritSectionCount == 0);
	AssertPageExclusive(l->buffer);
	u->entries = l->entries;
	u->entrieslen = l->len;
	len = zheap_undo_encode(u, l->payload);
	undo_insertion_init(&ins, l->rel);
	undo_insertion_add(&ins, u->kind, u->flags, l->block, u->offset, u->chain,
					   l->payload, len);
	undo_insertion_keep(&ins, u->youngest, u->ends);
	undo_insert_prepare(&ins);
	Assert(ins.fxid == u->writer);

	START_CRIT_SECTION();
	undo_insert_apply(&ins);
	if (last)
		list_put_head(l, &ins);
	else
		undo_insert_log_alone(&ins);
	END_CRIT_SECTION();
	undo_insert_release(&ins);

	/* the next one, if any, goes on from here */
	u->flags &= ~ZUNDO_TENURE_START;
	u->prev_fxid = InvalidFxid;
	u->chain = ins.rec[0].urp;
	u->below_youngest = u->youngest;
	u->below_ends = u->ends;
	u->nentries = 0;
	l->len = 0;
	l->last = u->writer;
}

static void
list_add(ListWrite *l, const ZListEntry *entry)
{
	ZUndo	   *u = &l->u;

	if (l->len + LIST_ENTRY_MAX > LIST_MAX_BYTES)
		list_write(l, false);
	l->len = zheap_undo_put_list_entry(l->entries + l->len, l->last, entry) -
		l->entries;
	l->last = entry->fxid;
	u->nentries++;
	u->youngest = Max(u->youngest, entry->fxid);
	u->ends |= entry->end;
}

/* What is alive, or still referred to. */
static void
list_add_all(ListWrite *l, const ZShared *s, const UndoHorizons *hz)
{
	Page		page = BufferGetPage(l->buffer);
	OffsetNumber max = PageGetMaxOffsetNumber(page);

	for (int i = 0; i < s->nlocks; i++)
	{
		const ZSharedLock *lock = &s->lock[i];
		ZListEntry	entry = {.off = lock->off,.mode = lock->mode};
		bool		own;

		entry.fxid = lock->fxid;
		if (zheap_shared_lock_is_live(lock, hz, &own))
			list_add(l, &entry);
	}
	for (OffsetNumber off = FirstOffsetNumber; s->end != NULL && off <= max;
		 off++)
	{
		ZListEntry	entry = {.off = off,.end = true};

		entry.fxid = s->end[off].fxid;
		entry.urp = s->end[off].urp;
		if (entry.fxid >= hz->all_visible_before &&
			zheap_shared_ended(page, off))
			list_add(l, &entry);
	}
}

void
zheap_share_shorten(ZRowWrite *w)
{
	const ZShared *s;
	ListWrite  *l;

	Assert(w->held.pages && w->choice.tenure == ZTENURE_SHARED);
	AssertPageExclusive(w->buffer);
	s = zheap_shared_get(&w->cx.reader, &w->cx.hz, w->page, w->block);
	if (s == NULL || s->nrecords < Max(LIST_AFTER, s->nlisted))
		return;

	/* writing undo may wait: no undo pin may be kept (U16) */
	undo_record_reader_close(&w->cx.reader);
	l = palloc(sizeof(ListWrite));
	list_begin(l, w->rel, w->buffer, w->fxid, w->cid);
	if (s->base_fxid >= w->cx.hz.all_visible_before)
	{
		l->u.prev_fxid = s->base_fxid;
		l->u.chain = s->base_urp;
		/* as long as it may have to be rolled back */
		l->u.ends = zheap_xact_slot_fxid_status(s->base_fxid, &w->cx.hz) !=
			ZXACT_COMMITTED;
		l->u.youngest = Max(l->u.youngest, s->base_fxid);
	}
	list_add_all(l, s, &w->cx.hz);
	list_write(l, true);
	pfree(l);
	w->choice.prev_urp = ZPageGetShared(w->page)->urp;
	UNDO_POINT("shared-listed");
}

/*
 * What there was of the chain stays below.  On a page that the row fills, its only
 * xact slot, which is mine, becomes the base of the shared one, also for lockers
 * to come while I run: if I abort, that is rolled back, too, as the end of a row
 * is.
 */
void
zheap_share_carry(ZRowWrite *w, Buffer buffer, OffsetNumber off,
				  const Fxid *fxids, int n)
{
	Page		page = BufferGetPage(buffer);
	ZXactSlotChoice choice;
	ListWrite  *l;

	Assert(n >= 0 && OffsetNumberIsValid(off) && w->held.pages);
	AssertPageExclusive(buffer);
	zheap_xact_slot_share(w->rel, buffer, &choice);
	if (n == 0)
		return;
	l = palloc(sizeof(ListWrite));
	undo_record_reader_close(&w->cx.reader);
	list_begin(l, w->rel, buffer, w->fxid, w->cid);
	zheap_shared_describe(page, &w->cx.hz, &l->u);
	for (int i = 0; i < n; i++)
	{
		ZListEntry	entry = {.off = off,.mode = LockTupleKeyShare};

		entry.fxid = fxids[i];
		list_add(l, &entry);
	}
	list_write(l, true);
	pfree(l);
	UNDO_POINT("locks-carried");
}
