/*-------------------------------------------------------------------------
 *
 * zheap_delete_chunks.c
 *	  Delete chunks of a value: all those on one page by one WAL record, and by
 *	  one visit to the undo log.
 *
 * The first row is taken as any row that is deleted.  The others go with it if
 * they are simple: unended, unlocked.  Each has a record of its own, which
 * looks as if the rows had been deleted one after the other; or an open record
 * covers all of them (zheap_undo.h).
 *
 * Decoding isn't told: it keeps the chunks that a transaction inserts, and
 * forgets them along with the row.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/row/zheap_lock.h"
#include "zheap/sees/zheap_tid_memory.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_xlog_change.h"

/* rows of one record */
#define MAX_ROWS				(UNDO_MAX_INSERTION)

StaticAssertDecl(MAX_ROWS <= ZCHANGE_MAX_MORE + 1,
				 "one WAL record for the rows of one insertion of undo");

/* an undo record's payload: header, cid, links of tenure, base and version */
#define DELETE_MAX_PAYLOAD		192

/* my last open record of chunks (zheap_undo.h) */
static ZOpenRecord last_open;

/* rows of a page that are deleted together */
typedef struct DeleteStep
{
	ZRowWrite	w;				/* the first one */
	int			nrows;
	ZRowChange	row[MAX_ROWS];
	int			nrecs;			/* 0: covered by last_open; 1: open, or */
	UndoInsertion undo;			/* one for each row */
	char		payload[MAX_ROWS][DELETE_MAX_PAYLOAD];
	ZVmClear	vm;
	CommandId	cid;
} DeleteStep;

/* ----------------------------------------------------------------
 *	which rows, by which records
 * ----------------------------------------------------------------
 */

/*
 * Describe the deletion of a row whose header is given, and make that the
 * header afterwards.
 */
static void
describe_row(DeleteStep *d, OffsetNumber off, ZTupleHeader *header, ZUndo *u)
{
	ZRowWrite  *w = &d->w;

	memset(u, 0, offsetof(ZUndo, first));
	ItemPointerSetInvalid(&u->tid);
	u->kind = ZUNDO_DELETE;
	u->offset = off;
	u->writer = w->fxid;
	u->cid = d->cid;
	u->flags = ZUNDO_KEY;
	zheap_describe_old(&w->cx, w->page, w->block, off, &w->choice, header, u);
	if ((u->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE)
		u->flags |= ZUNDO_PLAIN;

	header->slot = w->choice.id;
	ZHeaderSetReused(header, ZH_REUSED_NONE);
	header->flags2 |= ZH_DELETED;
}

/* is the row one that needs neither waiting nor thinking; then its header */
static bool
is_simple(const DeleteStep *d, OffsetNumber off, ZTupleHeader *header)
{
	uint16		len;
	const char *tuple = zheap_page_row(d->w.page, off, &len);

	if (tuple == NULL)
		return false;
	zheap_header_get(tuple, header);
	return (header->flags2 & (ZH_END_MASK | ZH_LOCK_BITS |
							  ZH_SPECULATIVE)) == 0 &&
		(header->natts_flags1 & (ZH_HASEXTERNAL | ZH_ORIGIN)) == 0;
}

/* Add a row, with its record unless an open one covers it. */
static void
add_row(DeleteStep *d, OffsetNumber off, const ZTupleHeader *header,
		ZUndo *u)
{
	d->row[d->nrows].offset = off;
	d->row[d->nrows].header = *header;
	d->row[d->nrows].tuple = NULL;
	d->row[d->nrows].len = 0;
	d->row[d->nrows].new_key = false;
	d->row[d->nrows].stub = NULL;
	d->nrows++;
	if (u == NULL)
		return;
	if (d->nrecs > 0)
		u->chain = UNDO_CHAIN_PREVIOUS;
	Assert(zheap_undo_payload_size(u) <= DELETE_MAX_PAYLOAD);
	undo_insertion_add(&d->undo, u->kind, u->flags, d->w.block, off,
					   u->chain, d->payload[d->nrecs],
					   zheap_undo_encode(u, d->payload[d->nrecs]));
	d->nrecs++;
}

/*
 * The first row is taken: describe it, and those of the others that can go
 * along.  May read undo.
 */
static void
choose_rows(DeleteStep *d, const ItemPointerData *tids, int n)
{
	ZRowWrite  *w = &d->w;
	ZTupleHeader header;
	bool		covered;
	ZUndo		u;

	undo_insertion_init(&d->undo, w->rel);
	d->nrows = d->nrecs = 0;

	zheap_row_describe(w, ZUNDO_DELETE, true, &u, &header);
	covered = zheap_row_is_plain(w, &header) &&
		(u.flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ALLVISIBLE;
	header.flags2 |= ZH_DELETED;
	if (covered)
		u.flags |= ZUNDO_PLAIN;
	if (covered &&
		zheap_xact_slot_record_covers(&last_open, w->rel, w->block,
									  &w->choice, w->fxid, d->cid))
		add_row(d, w->off, &header, NULL);
	else
	{
		covered = covered && (w->choice.tenure == ZTENURE_FREE ||
							  w->choice.tenure == ZTENURE_FROZEN);
		if (covered)
			u.flags |= ZUNDO_OPEN;
		add_row(d, w->off, &header, &u);
	}

	for (int i = 1; i < n && d->nrows < MAX_ROWS; i++)
	{
		OffsetNumber off = ItemPointerGetOffsetNumber(&tids[i]);

		if (!is_simple(d, off, &header))
			break;
		/* what becomes of it when the xact slot is taken */
		zheap_xact_slot_flag_header(&header, w->choice.id, w->choice.tenure);
		describe_row(d, off, &header, &u);
		if (covered && (u.flags & ZUNDO_PLAIN) == 0)
			break;
		u.flags &= ~(ZUNDO_TENURE_START | ZUNDO_FAMILY | ZUNDO_BASE);
		add_row(d, off, &header, covered ? NULL : &u);
	}
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

/* In the critical section. */
static void
log_rows(DeleteStep *d)
{
	ZRowWrite  *w = &d->w;
	ZChangeHead head = {0};
	char		packed[ZCHANGE_MAX_HEAD];
	XLogRecPtr	lsn;

	/* chunks have one and the same number of columns */
	head.flags = ZCHANGE_SAME_NATTS;
	if (d->vm.nblocks > 0)
		head.flags |= ZCHANGE_CLEARED_VM;
	if (d->nrows > 1)
		head.flags |= ZCHANGE_SEVERAL;
	head.tenure = w->choice.tenure;
	head.xact_slot = w->choice.id;
	head.offset = d->row[0].offset;
	head.header = d->row[0].header;
	head.conflict = zheap_conflict_pack(w->fxid, w->choice.conflict);
	if (d->nrecs == 0)
		head.flags |= ZCHANGE_NO_UNDO;
	else
	{
		head.undo_offset = undo_insertion_offset(&d->undo, 0);
		head.last_offset = undo_insertion_offset(&d->undo, d->nrecs - 1);
	}
	head.nmore = d->nrows - 1;
	for (int i = 1; i < d->nrows; i++)
	{
		head.more[i - 1] = d->row[i].offset;
		head.more_flags2[i - 1] = d->row[i].header.flags2;
	}

	XLogBeginInsert();
	XLogRegisterData(packed,
					 zheap_xlog_change_pack(packed, XLOG_ZHEAP_DELETE, &head));
	XLogRegisterBuffer(0, w->buffer, REGBUF_STANDARD);
	if (d->nrecs > 0)
		undo_insert_register(&d->undo, 1, head.offset);
	zheap_space_vm_register(&d->vm, d->nrecs > 0 ? 2 : 1);
	lsn = undo_images_insert(XLOG_ZHEAP_DELETE);
	PageSetLSN(w->page, lsn);
	if (d->nrecs > 0)
		undo_insert_set_lsn(&d->undo, lsn);
	zheap_space_vm_set_lsn(&d->vm, lsn);
}

/* what the backend keeps in mind of the records */
static void
note_records(DeleteStep *d)
{
	ZRowWrite  *w = &d->w;
	ZXactSlotChoice choice = w->choice;
	bool		open = d->nrecs > 0 &&
		(d->undo.rec[0].flags & ZUNDO_OPEN) != 0;

	for (int i = 0; i < d->nrecs; i++)
	{
		UndoRecPtr	urp = d->undo.rec[i].urp;

		zheap_own_history_note(w->rel, w->block, &choice, w->fxid, urp,
							   d->cid, false);
		zheap_xact_slot_note_rows(w->rel, &choice, w->fxid, urp,
								  open ? FirstOffsetNumber : d->row[i].offset,
								  open ? MaxOffsetNumber : d->row[i].offset);
		choice.tenure = ZTENURE_CONTINUE;
		choice.prev_fxid = w->fxid;
		choice.prev_urp = urp;
	}
	if (open)
		zheap_xact_slot_note_record(&last_open, w->rel, w->block,
									d->undo.rec[0].urp, w->fxid, d->cid);
}

static void
write_rows(DeleteStep *d)
{
	ZRowWrite  *w = &d->w;
	ZOwnChange	own;

	memset(&d->vm, 0, sizeof(d->vm));
	if (PageIsAllVisible(w->page))
	{
		zheap_space_vm_add(&d->vm, w->block, w->vmbuffer);
		zheap_space_vm_lock(&d->vm);
	}
	if (d->nrecs > 0)
		undo_insert_prepare(&d->undo);

	START_CRIT_SECTION();
	if (d->nrecs > 0)
	{
		own.xact_slot = w->choice.id;
		own.tenure = w->choice.tenure;
		own.fxid = w->fxid;
		own.urp = d->undo.rec[d->nrecs - 1].urp;
		zheap_xlog_change_apply_own(w->page, &own);
		undo_insert_apply(&d->undo);
	}
	for (int i = 0; i < d->nrows; i++)
		(void) zheap_xlog_change_apply_row(w->page, &d->row[i]);
	MarkBufferDirty(w->buffer);
	zheap_space_vm_clear(&d->vm);
	if (RelationNeedsWAL(w->rel))
		log_rows(d);
	else if (d->nrecs > 0)
		undo_insert_log_alone(&d->undo);
	END_CRIT_SECTION();

	if (d->nrecs > 0)
	{
		undo_insert_release(&d->undo);
		note_records(d);
	}
	zheap_space_vm_release(&d->vm);
	for (int i = 0; i < d->nrows; i++)
		zheap_fsm_notes_add(w->rel, w->block, w->page,
							ItemIdGetLength(PageGetItemId(w->page,
														  d->row[i].offset)));
}

/* There is no xact slot for the first row: it goes alone. */
static void
write_stub(DeleteStep *d)
{
	ZTupleHeader header;
	ZUndo		u;

	zheap_row_describe(&d->w, ZUNDO_DELETE, true, &u, &header);
	header.flags2 |= ZH_DELETED;
	zheap_row_write(&d->w, XLOG_ZHEAP_DELETE, &u, &header, NULL, 0);
}

TM_Result
zheap_delete_chunks(Relation rel, const ItemPointerData *tids, int n,
					CommandId cid, int *done)
{
	DeleteStep *d = palloc(sizeof(DeleteStep));
	TM_Result	result;

	zheap_tid_memory_epq_left();
	UNDO_IDLE_POINT("delete");
	d->cid = cid;
	zheap_row_begin(&d->w, rel, &tids[0], cid, SnapshotAny, InvalidSnapshot);
	d->w.wish.vm = true;
	d->w.oper = XLTW_Delete;
	result = zheap_row_take(&d->w);
	*done = 0;
	if (result == TM_Ok && d->w.choice.tenure == ZTENURE_STUB)
	{
		write_stub(d);
		*done = 1;
	}
	else if (result == TM_Ok)
	{
		choose_rows(d, tids, n);
		write_rows(d);
		*done = d->nrows;
	}
	zheap_row_end(&d->w);
	for (int i = 0; i < *done; i++)
		pgstat_count_heap_delete(rel);
	pfree(d);
	return result;
}
