/*-------------------------------------------------------------------------
 *
 * zheap_insert.c
 *	  Insert, multi-insert, the beginning of a speculative insert.
 *
 * Every insert is one or more steps; a step puts one or more rows on one page
 * with one WAL record and at most one undo record:
 *
 *	1	form and toast the rows; no lock
 *	2	find a page with room; choose an xact slot; if the page turns out not to
 *		be usable: start over
 *	3	decide the line pointers and whether an undo record is needed
 *	4	lock the visibility map page if its bit is set; reserve undo
 *	5	critical section: change, undo, WAL
 *
 * Rows that are appended behind the last line pointer are covered by an
 * open-ended undo record ("every offset from here on"), and the next insert of
 * the same command on the page needs none (Z32).  So it is with free line
 * pointers: the record of the first one used lists those that are free besides.
 * Speculative rows have a record of their own.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/parallel.h"
#include "access/visibilitymap.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "storage/predicate.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_own_history.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/sees/zheap_sees.h"
#include "zheap/space/zheap_space.h"
#include "zheap/wal/zheap_lend.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_insert.h"
#include "zheap/wal/zheap_xlog_logical.h"
#include "zheap/write/zheap_open_record.h"
#include "zheap/write/zheap_tablespace.h"
#include "zheap/write/zheap_write.h"

/* an insert's undo payload */
#define INSERT_MAX_PAYLOAD \
	(ZUNDO_MAX_HEAD + ZUNDO_MAX_RANGES * 2 * (int) sizeof(OffsetNumber))

/* an insert in progress, over all its pages */
typedef struct InsertOp
{
	Relation	rel;
	CommandId	cid;
	int			options;
	BulkInsertState bistate;
	Fxid		fxid;			/* of the current (sub)transaction */
	uint32		token;			/* speculative token, 0 = none */
	bool		frozen;
	const ZUndo *copied;		/* a rewrite copies one row with its history */
	uint16		copy_flags;		/* copied: ZH_END_MASK bits, STALE */
	ZLogical	logical;
	Buffer		vmbuffer;		/* kept over pages */
	ZLend	   *lend;			/* or NULL */
	int			done;			/* lend: rows inserted before this step */
} InsertOp;

/* one page of it */
typedef struct InsertStep
{
	Buffer		buffer;			/* pinned, exclusively locked */
	Page		page;
	BlockNumber block;
	bool		is_new;
	bool		unfinished;		/* the page has a long aborted history */
	ZReadContext cx;
	ZXactSlotChoice choice;		/* not if frozen */
	bool		needs_undo;
	UndoInsertion undo;
	ZOpenRanges ranges;			/* offsets that the record lists */
	bool		open;			/* and those of its command to come */
	char	   *payload;		/* local, or longer and palloc'd */
	char		local[INSERT_MAX_PAYLOAD];
	ZVmClear	vm;
	ZInsertChange change;
	bool		lent;			/* without what other pages lend */
	char	   *coded;			/* the rows for WAL */
	uint16		coded_len;		/* 0: one row, logged as it is */
	char		coded_row[ZCODED_ROW_SIZE];
} InsertStep;

/* ----------------------------------------------------------------
 *	step 2: a page and an xact slot on it
 * ----------------------------------------------------------------
 */

/* A zero page: its first xact slot will be ours. */
static void
choose_on_new_page(ZXactSlotChoice *choice)
{
	choice->id = 1;
	choice->tenure = ZTENURE_FREE;
	choice->prev_fxid = InvalidFxid;
	choice->prev_urp = InvalidUndoRecPtr;
	choice->conflict = InvalidFxid;
}

/*
 * Choose the xact slot on a page found; false if the page isn't usable now.
 * Only the room on a page matters to an insert, so it never waits for an xact
 * slot: it takes a new page, where one is free.
 */
static bool
choose_xact_slot(InsertOp *op, InsertStep *step)
{
	Assert(step->is_new || undo_debug_page_is_locked(step->buffer, true));
	if (op->frozen)
		return true;
	if (step->is_new)
	{
		choose_on_new_page(&step->choice);
		return true;
	}

	switch (zheap_xact_slot_reserve(op->rel, step->buffer, &step->cx.hz,
									op->fxid, ZRESERVE_FOR_NEW_ROW, 0,
									&step->choice))
	{
		case ZRESERVE_OK:
			return true;
		case ZRESERVE_ABORTED:
			step->unfinished = !zheap_rollback_buffer(op->rel, step->buffer);
			return false;
		case ZRESERVE_NONE:
			op->options |= ZHEAP_INSERT_NEW_PAGE;
			return false;
	}
	return false;				/* keep the compiler quiet */
}

/*
 * Line pointers for as many of the rows as this page shall take, at least
 * one: the run of free ones at the first free one, or new ones.  Beyond the
 * first row the fillfactor counts.  False if not even one fits: choosing the
 * xact slot may have used room that the search had seen.
 */
static bool
choose_offsets(InsertOp *op, InsertStep *step, ZTuple **tuples, int ntuples)
{
	ZInsertChange *change = &step->change;
	Size		save = RelationGetTargetPageFreeSpace(op->rel,
													  HEAP_DEFAULT_FILLFACTOR);
	Size		limit;			/* for bodies and new line pointers */
	Size		need;
	OffsetNumber max = 0;
	bool		append = true;
	Size		per_row;
	int			kept;

	if (step->is_new)
		change->first = FirstOffsetNumber;
	else
	{
		change->first = zheap_page_free_offset(step->page, &append);
		if (change->first == InvalidOffsetNumber)
			return false;
		max = PageGetMaxOffsetNumber(step->page);
	}
	change->reused = !append;
	per_row = append ? sizeof(ItemIdData) : 0;

	/* the frequent case: one row, and the hole takes it */
	change->ntuples = 1;
	if (ntuples == 1 && !step->is_new &&
		zheap_page_hole_room(step->page) >= tuples[0]->len)
		return true;

	/* insert_room already leaves out the line pointer of one row */
	if (step->is_new)
		limit = ZHEAP_MAX_TUPLE_SIZE + per_row;
	else
		limit = Min(zheap_page_insert_room(step->page) + per_row,
					zheap_page_total_free(step->page));

	need = tuples[0]->len + per_row;
	if (need > limit)
		return false;

	/* a big row may use up an empty page's reserve for xact slots, alone */
	kept = zheap_page_slots_kept(max + 1);
	if (max == 0)
		limit = Min(limit, BLCKSZ - SizeOfPageHeaderData -
					sizeof(ZPageOpaqueData) -
					(kept + 1) * sizeof(ZXactSlotData));
	while (change->ntuples < ntuples)
	{
		OffsetNumber off = change->first + change->ntuples;
		Size		more = (zheap_page_slots_kept(max + change->ntuples + 1) -
							kept) * sizeof(ZXactSlotData);

		if (off > MaxHeapTuplesPerPage)
			break;
		if (!append &&
			(off > max || ItemIdIsUsed(PageGetItemId(step->page, off))))
			break;
		if (need + tuples[change->ntuples]->len + per_row + save + more >
			limit)
			break;
		need += tuples[change->ntuples]->len + per_row;
		change->ntuples++;
	}
	return true;
}

/* Give a page back that isn't usable. */
static void
drop_page(InsertStep *step)
{
	zheap_visibility_end(&step->cx);
	UnlockReleaseBuffer(step->buffer);
	step->buffer = InvalidBuffer;
}

/*
 * Find a page for the first of the rows.  Returns with it pinned and locked,
 * and the xact slot and line pointers chosen.  No lock held by the caller.
 */
static void
find_page(InsertOp *op, InsertStep *step, ZTuple **tuples, int ntuples)
{
	int			failed = 0;
	int			options = op->options;

	/* chunks of a value: fewer pages, and fewer records when it goes */
	bool		several = op->rel->rd_rel->relkind == RELKIND_TOASTVALUE;

	for (;;)
	{
		CHECK_FOR_INTERRUPTS();

		/* horizons first: they judge what the page lock will show (Z16) */
		zheap_visibility_begin(&step->cx, op->rel, NULL);
		step->buffer = zheap_space_find_page(op->rel, tuples[0]->len,
											 several ? ntuples : 1,
											 op->options,
											 op->bistate, &op->vmbuffer);
		step->page = BufferGetPage(step->buffer);
		step->block = BufferGetBlockNumber(step->buffer);
		step->is_new = PageIsNew(step->page);
		step->unfinished = false;

		if (choose_xact_slot(op, step) &&
			choose_offsets(op, step, tuples, ntuples))
			break;
		drop_page(step);
		if (step->unfinished)
			zheap_rollback_page(op->rel, step->block);

		/* the search and this file disagree about a page: don't go round */
		if (++failed > 3)
			op->options |= ZHEAP_INSERT_NEW_PAGE;
	}
	op->options = options;
}

/* ----------------------------------------------------------------
 *	steps 3 to 5
 * ----------------------------------------------------------------
 */

/* does the last open record cover what goes to the page? */
static bool
extends_last_open(const InsertOp *op, const InsertStep *step)
{
	const ZInsertChange *change = &step->change;
	const ZOpenInsert *open = zheap_open_record_get(op->rel, step->block,
													op->fxid, op->cid);

	return open != NULL && op->token == 0 && op->copied == NULL &&
		zheap_xact_slot_record_covers(&open->record, op->rel, step->block,
									  &step->choice, op->fxid, op->cid) &&
		zheap_open_record_lists(open, change->first, change->ntuples,
								change->reused);
}

/*
 * The frequent case of a single row: it goes to the page of my last open
 * record, which covers it, and what else is there is visible to all.
 * Then nothing is to be chosen, frozen or rolled back.  True with the page
 * pinned and locked and the step complete; else nothing is locked.
 */
static bool
append_to_last(const InsertOp *op, InsertStep *step, const ZTuple *tuple)
{
	Relation	rel = op->rel;
	ZOpenInsert *open;
	UndoHorizons hz;
	bool		append;
	uint8		id = 0;

	if (op->token != 0 || op->copied != NULL || op->frozen)
		return false;
	CHECK_FOR_INTERRUPTS();
	step->block = RelationGetTargetBlock(rel);
	open = zheap_open_record_get(rel, step->block, op->fxid, op->cid);
	if (open == NULL)
		return false;
	hz = undo_log_horizons();
	UNDO_POINT("open-insert-horizon");
	zheap_buffer_note(rel, step->block, open->record.buffer);
	step->buffer = zheap_buffer_read(rel, step->block);
	open->record.buffer = step->buffer;
	step->page = BufferGetPage(step->buffer);
	LockBuffer(step->buffer, BUFFER_LOCK_EXCLUSIVE);

	if (zheap_page_is_valid(step->page) && !PageIsAllVisible(step->page) &&
		zheap_page_hole_room(step->page) >=
		tuple->len + RelationGetTargetPageFreeSpace(rel,
													HEAP_DEFAULT_FILLFACTOR))
	{
		step->change.ntuples = 1;
		step->change.first = zheap_page_free_offset(step->page, &append);
		step->change.reused = !append;
		if (zheap_open_record_lists(open, step->change.first, 1, !append))
			id = zheap_xact_slot_only(step->page, op->fxid,
									  open->record.urp, &hz);
	}
	if (id == 0)
	{
		UnlockReleaseBuffer(step->buffer);
		return false;
	}

	step->is_new = false;
	step->choice.id = id;
	step->choice.tenure = ZTENURE_CONTINUE;
	step->needs_undo = false;
	return true;
}

/*
 * The line pointers that the record lists: those of the rows, which are the
 * first ones free; and if it is open, the others that are free, as far as they
 * fit into a record.
 */
static void
list_offsets(InsertStep *step)
{
	const ZInsertChange *change = &step->change;
	ZOpenRanges *ranges = &step->ranges;
	OffsetNumber max;
	OffsetNumber off = change->first + change->ntuples;

	ranges->n = 1;
	ranges->first[0] = change->first;
	ranges->last[0] = off - 1;
	if (!step->open)
		return;

	max = PageGetMaxOffsetNumber(step->page);
	for (; off <= max; off++)
	{
		if (ItemIdIsUsed(PageGetItemId(step->page, off)))
			continue;
		if (ranges->last[ranges->n - 1] != off - 1)
		{
			if (ranges->n == ZUNDO_MAX_RANGES)
				break;
			ranges->first[ranges->n++] = off;
		}
		ranges->last[ranges->n - 1] = off;
	}
}

/* Build the undo record.  May read undo, so no other page is locked yet. */
static void
describe_undo(InsertOp *op, InsertStep *step)
{
	ZInsertChange *change = &step->change;
	ZUndo		u;
	uint16		len;

	Assert(CritSectionCount == 0);
	memset(&u, 0, offsetof(ZUndo, first));
	ItemPointerSetInvalid(&u.tid);
	step->ranges.n = 0;
	step->open = op->token == 0 && op->copied == NULL;
	if (op->copied != NULL)
		u = *op->copied;
	u.writer = op->fxid;
	u.cid = op->cid;
	u.offset = change->first;
	if (op->copied != NULL)
		Assert(ZUndoIsCopy(&u) && change->ntuples == 1);
	else if (change->reused || op->token != 0)
	{
		list_offsets(step);
		u.kind = ZUNDO_INSERT_SET;
		u.nranges = step->ranges.n;
		memcpy(u.first, step->ranges.first,
			   step->ranges.n * sizeof(OffsetNumber));
		memcpy(u.last, step->ranges.last,
			   step->ranges.n * sizeof(OffsetNumber));
		u.token = op->token;
	}
	else
		u.kind = ZUNDO_INSERT_OPEN;

	if (step->is_new)
		u.flags |= ZUNDO_TENURE_START;	/* after nobody */
	else
		zheap_describe_tenure(&step->cx, step->page, step->block,
							  &step->choice, &u);

	step->payload = step->local;
	if (zheap_undo_payload_size(&u) > INSERT_MAX_PAYLOAD)
	{
		if (op->copied == NULL)
			elog(ERROR, "undo payload of an insert is too long: %u bytes",
				 zheap_undo_payload_size(&u));
		step->payload = palloc(zheap_undo_payload_size(&u));
	}
	len = zheap_undo_encode(&u, step->payload);

	undo_insertion_init(&step->undo, op->rel);
	undo_insertion_add(&step->undo, u.kind, u.flags, step->block, u.offset,
					   u.chain, step->payload, len);
}

/* the second flags of all rows of an operation */
static uint16
step_flags2(const InsertOp *op)
{
	/* no plain insert: a snapshot that does not see it has to look further */
	if (op->copied != NULL)
		return ZH_INPLACE | op->copy_flags;
	return op->token != 0 ? ZH_SPECULATIVE : 0;
}

/*
 * The rows as they will be logged, while the page is as redo will find it.
 * scratch holds BLCKSZ bytes for those of a multi-insert.  Decoding has no
 * page, hence no row before the first.
 */
static void
code_rows(const InsertOp *op, InsertStep *step, char *scratch)
{
	ZInsertChange logged;

	step->lent = op->lend != NULL && !op->logical.wanted &&
		zheap_lend_take(op->lend, step->buffer, op->done, &step->change,
						&logged);
	if (step->lent)
	{
		step->coded = scratch;
		step->coded_len = zheap_xlog_insert_code_rows(step->page, &logged,
													  scratch);
	}
	else if (step->change.ntuples == 1 && op->logical.wanted)
		step->coded_len = 0;
	else if (step->change.ntuples == 1)
	{
		step->coded = step->coded_row;
		step->coded_len =
			zheap_xlog_insert_code_row(step->page, step->change.first - 1,
									   step->change.tuple[0],
									   step->change.len[0], step->coded);
	}
	else
	{
		step->coded = scratch;
		step->coded_len =
			zheap_xlog_insert_code_rows(op->logical.wanted ? NULL : step->page,
										&step->change, scratch);
	}
}

/* What decoding is told; last: no row follows in this call. */
static void
tell_rows(InsertOp *op, const InsertStep *step, bool last)
{
	const ZInsertChange *change = &step->change;

	if (!op->logical.wanted)
		return;
	zheap_logical_start(&op->logical,
						(op->token != 0 ? ZLOGICAL_SPECULATIVE : 0) |
						(last ? ZLOGICAL_LAST : 0));
	for (int i = 0; i < change->ntuples; i++)
		zheap_logical_add_new(&op->logical, change->tuple[i], change->len[i]);
}

/*
 * The row's bytes without what all rows of a record have in common: xact slot
 * and second flags, first and last in the header.
 */
static void
log_plain_row(const char *tuple, uint16 len)
{
	char	   *p = unconstify(char *, tuple);

	XLogRegisterBufData(0, p + 1, sizeof(uint16));
	XLogRegisterBufData(0, p + ZHEAP_HEADER_SIZE, len - ZHEAP_HEADER_SIZE);
}

/* Log the step.  In the critical section. */
static void
log_step(const InsertOp *op, InsertStep *step)
{
	ZInsertChange *change = &step->change;
	ZInsertHead head;
	char		packed[ZINSERT_MAX_HEAD];
	uint16		packed_len;
	bool		brief;
	XLogRecPtr	lsn;

	Assert(CritSectionCount > 0);
	head.flags = 0;
	head.tenure = change->tenure;
	head.xact_slot = change->xact_slot;
	head.first = change->first;
	head.ntuples = change->ntuples;
	head.undo_offset = 0;
	head.conflict = 0;
	if (change->tenure == ZTENURE_FROZEN)
		head.conflict = zheap_conflict_pack(op->fxid, step->choice.conflict);
	if (step->needs_undo)
	{
		head.flags |= ZINSERT_HAS_UNDO;
		head.undo_offset = undo_insertion_offset(&step->undo, 0);
	}
	if (step->coded_len > 0)
		head.flags |= ZINSERT_CODED;
	if (step->vm.nblocks > 0)
		head.flags |= ZINSERT_CLEARED_VM;
	if (change->reused)
		head.flags |= ZINSERT_REUSED_POINTER;
	head.flags2 = step_flags2(op);
	if (head.ntuples > 1 || head.flags2 != 0)
		head.flags |= ZINSERT_MORE;
	head.logical = op->logical.wanted ? op->logical.part.data : NULL;
	head.logical_len = op->logical.wanted ? op->logical.part.len : 0;
	packed_len = zheap_xlog_insert_pack(packed, &head, &brief);

	XLogBeginInsert();
	XLogRegisterData(packed, packed_len);
	zheap_logical_register(&op->logical, brief);
	XLogRegisterBuffer(0, step->buffer,
					   REGBUF_STANDARD |
					   (step->is_new ? REGBUF_WILL_INIT : 0) |
					   (op->logical.wanted ? REGBUF_KEEP_DATA : 0));
	if (step->lent)
		XLogRegisterBufData(0, op->lend->head, op->lend->headlen);
	if (step->coded_len > 0)
		XLogRegisterBufData(0, step->coded, step->coded_len);
	else
		log_plain_row(change->tuple[0], change->len[0]);
	if (step->lent)
		zheap_lend_register(op->lend);
	lsn = zheap_xlog_finish(XLOG_ZHEAP_INSERT, step->page, 1,
							step->needs_undo ? &step->undo : NULL,
							change->first, &step->vm);
	if (step->lent)
		zheap_lend_logged(op->lend, step->buffer, lsn);
}

/* The critical section.  Everything that can fail was done. */
static void
perform_step(const InsertOp *op, InsertStep *step)
{
	AssertPageExclusive(step->buffer);
	START_CRIT_SECTION();

	if (step->is_new)
		zheap_page_init(step->page,
						zheap_new_page_xact_slots(step->change.len[0]));
	if (!zheap_xlog_insert_apply(step->page, &step->change))
		elog(PANIC, "no room for an insert that was planned");
	if (step->vm.nblocks > 0)
	{
		PageClearAllVisible(step->page);
		zheap_space_vm_clear(&step->vm);
	}
	if (step->needs_undo)
		undo_insert_apply(&step->undo);
	MarkBufferDirty(step->buffer);
	if (step->lent)
		zheap_lend_dirty(op->lend);

	if (RelationNeedsWAL(op->rel))
		log_step(op, step);
	else if (step->needs_undo)
		undo_insert_log_alone(&step->undo);

	END_CRIT_SECTION();
}

/* Put the final header on the rows of this step: they are private memory. */
static void
finish_tuples(const InsertOp *op, InsertStep *step, ZTuple **tuples)
{
	ZInsertChange *change = &step->change;

	for (int i = 0; i < change->ntuples; i++)
	{
		ZTupleHeader header;

		zheap_header_get(tuples[i]->data, &header);
		header.slot = change->xact_slot;
		header.flags2 = step_flags2(op);
		zheap_header_put(tuples[i]->data, &header);

		change->tuple[i] = tuples[i]->data;
		change->len[i] = tuples[i]->len;
	}
}

/*
 * Insert the first rows of an array, as many as go to one page; returns their
 * number and sets *first to the TID of the first, the others follow it.
 */
static int
insert_step(InsertOp *op, ZTuple **tuples, int ntuples, char *scratch,
			ItemPointer first)
{
	InsertStep	step;
	ZInsertChange *change = &step.change;

	Assert(ntuples > 0);
	AssertNoPageLocked();
	memset(&step.vm, 0, sizeof(step.vm));
	if (ntuples > 1 || !append_to_last(op, &step, tuples[0]))
	{
		find_page(op, &step, tuples, ntuples);
		step.needs_undo = !op->frozen && !extends_last_open(op, &step);
		if (step.needs_undo)
			describe_undo(op, &step);
		/* the reserving of undo may wait: no undo pin may be kept then (U16) */
		zheap_visibility_end(&step.cx);
	}

	change->fxid = op->fxid;
	change->urp = InvalidUndoRecPtr;
	change->xact_slot = op->frozen ? 0 : step.choice.id;
	change->tenure = op->frozen ? ZTENURE_CONTINUE : step.choice.tenure;
	finish_tuples(op, &step, tuples);

	if (!step.is_new && PageIsAllVisible(step.page))
	{
		zheap_space_vm_add(&step.vm, step.block, op->vmbuffer);
		zheap_space_vm_lock(&step.vm);
	}
	if (step.needs_undo)
	{
		undo_insert_prepare(&step.undo);
		change->urp = step.undo.rec[0].urp;
	}
	Assert(op->frozen || step.needs_undo ||
		   ZXactSlotFxid(ZPageGetXactSlot(step.page, step.choice.id)) ==
		   op->fxid);

	step.lent = false;
	if (RelationNeedsWAL(op->rel))
	{
		code_rows(op, &step, scratch);
		tell_rows(op, &step, change->ntuples == ntuples);
	}
	perform_step(op, &step);
	if (step.lent)
		zheap_lend_release(op->lend);

	if (step.needs_undo)
	{
		undo_insert_release(&step.undo);
		zheap_own_history_note(op->rel, step.block, &step.choice, op->fxid,
							   change->urp, op->cid, false);
		/* an open record covers rows to come, wherever there is room */
		zheap_xact_slot_note_rows(op->rel, &step.choice, op->fxid,
								  change->urp, step.ranges.n > 0 ?
								  FirstOffsetNumber : change->first,
								  MaxOffsetNumber);
		if (step.open)
			zheap_open_record_note(op->rel, step.buffer, change->urp, op->fxid,
								   op->cid, &step.ranges);
		if (step.payload != step.local)
			pfree(step.payload);
	}
	zheap_space_vm_release(&step.vm);
	ItemPointerSet(first, step.block, change->first);
	UnlockReleaseBuffer(step.buffer);
	UNDO_ERROR_POINT("rows-inserted");
	return change->ntuples;
}

/* ----------------------------------------------------------------
 *	the operations
 * ----------------------------------------------------------------
 */

/* No lock held.  Gives the transaction an xid. */
static void
insert_begin(InsertOp *op, Relation rel, CommandId cid, int options,
			 BulkInsertState bistate, uint32 token)
{
	if (IsParallelWorker())
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_TRANSACTION_STATE),
				 errmsg("parallel workers cannot insert rows")));
	zheap_tablespace_check(rel);
	undo_check_room(rel->rd_rel->relpersistence);

	op->rel = rel;
	op->cid = cid;
	op->options = options & ~ZHEAP_INSERT_NEW_PAGE;
	op->bistate = bistate;
	op->token = token;
	op->copied = NULL;
	op->copy_flags = 0;
	op->frozen = (options & HEAP_INSERT_FROZEN) != 0;
	op->vmbuffer = InvalidBuffer;
	op->lend = NULL;
	op->done = 0;
	op->fxid = undo_log_current_fxid();
	Assert(!op->frozen || token == 0);
	zheap_logical_begin(&op->logical, rel, options, false);

	/* a new row conflicts with readers of the whole table only */
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
}

static void
insert_end(InsertOp *op)
{
	if (BufferIsValid(op->vmbuffer))
		ReleaseBuffer(op->vmbuffer);
	zheap_logical_end(&op->logical);
}

/* tell the tuple slot which row version it now is */
static void
note_inserted(InsertOp *op, TupleTableSlot *slot, const ItemPointerData *tid)
{
	slot->tts_tableOid = RelationGetRelid(op->rel);
	slot->tts_tid = *tid;
	if (TTS_IS_ZHEAP(slot))
		zheap_tuple_slot_set_writer(slot, op->frozen ? InvalidFxid : op->fxid,
									op->cid);
}

static void
insert_one(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
		   BulkInsertState bistate, uint32 token)
{
	InsertOp	op;
	ZTuple	   *tuple;
	ItemPointerData tid;

	UNDO_IDLE_POINT("insert");
	insert_begin(&op, rel, cid, options, bistate, token);
	tuple = zheap_toast_form_from_slot(rel, slot, NULL, NULL, options);
	(void) insert_step(&op, &tuple, 1, NULL, &tid);
	insert_end(&op);

	note_inserted(&op, slot, &tid);
	pgstat_count_heap_insert(rel, 1);
	pfree(tuple);
}

void
zheap_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
			 struct BulkInsertStateData *bistate)
{
	insert_one(rel, slot, cid, options, bistate, 0);
}

/*
 * Insert a row that others may see as "perhaps": they wait for the token.
 * Ends with zheap_speculative_complete().
 */
void
zheap_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
						 int options, struct BulkInsertStateData *bistate,
						 uint32 token)
{
	Assert(token != 0);
	insert_one(rel, slot, cid, options | HEAP_INSERT_SPECULATIVE, bistate,
			   token);
}

/*
 * Rows for many tuple slots: as many per page and WAL record as fit.  lend
 * may be NULL.
 */
static void
insert_several(Relation rel, TupleTableSlot **slots, int nslots,
			   CommandId cid, int options,
			   struct BulkInsertStateData *bistate, ZLend *lend)
{
	InsertOp	op;
	ZTuple	  **tuples = palloc(nslots * sizeof(ZTuple *));
	char	   *scratch = palloc(BLCKSZ);
	int			done = 0;

	UNDO_IDLE_POINT("insert");
	insert_begin(&op, rel, cid, options, bistate, 0);
	op.lend = lend;

	for (int i = 0; i < nslots; i++)
		tuples[i] = zheap_toast_form_from_slot(rel, slots[i], NULL, NULL,
											   options);

	while (done < nslots)
	{
		ItemPointerData tid;
		int			n;

		n = insert_step(&op, tuples + done, nslots - done, scratch, &tid);
		for (int i = 0; i < n; i++)
		{
			note_inserted(&op, slots[done + i], &tid);
			tid.ip_posid++;
		}
		op.done = done += n;
	}
	insert_end(&op);

	/* a page touched by COPY is checked once more, as late as possible */
	CheckForSerializableConflictIn(rel, NULL, InvalidBlockNumber);
	pgstat_count_heap_insert(rel, nslots);

	for (int i = 0; i < nslots; i++)
		pfree(tuples[i]);
	pfree(tuples);
	pfree(scratch);
}

void
zheap_insert_multi(Relation rel, TupleTableSlot **slots, int nslots,
				   CommandId cid, int options,
				   struct BulkInsertStateData *bistate)
{
	insert_several(rel, slots, nslots, cid, options, bistate, NULL);
}

void
zheap_insert_chunks(Relation rel, TupleTableSlot **slots, int nslots,
					CommandId cid, int options, const ZLendPiece *piece,
					int npieces)
{
	ZLend	   *lend = palloc(sizeof(ZLend));

	zheap_lend_begin(lend, rel, piece, npieces);
	insert_several(rel, slots, nslots, cid, options, NULL, lend);
	zheap_lend_end(lend);
	pfree(lend);
}

/* ----------------------------------------------------------------
 *	rows of a table that is being rewritten
 * ----------------------------------------------------------------
 */

/* scratch: BLCKSZ bytes */
void
zheap_insert_settled(Relation rel, ZTuple **tuples, int ntuples, int options,
					 BulkInsertState bistate, char *scratch)
{
	InsertOp	op;
	ItemPointerData tid;
	int			done = 0;

	insert_begin(&op, rel, FirstCommandId, options | HEAP_INSERT_FROZEN,
				 bistate, 0);
	while (done < ntuples)
		done += insert_step(&op, tuples + done, ntuples - done, scratch, &tid);
	insert_end(&op);
}

void
zheap_insert_copied(Relation rel, ZTuple *tuple, const ZUndo *undo,
					uint16 flags, int options, BulkInsertState bistate,
					ItemPointer tid)
{
	InsertOp	op;

	Assert((flags & ~(ZH_END_MASK | ZH_STALE)) == 0);
	insert_begin(&op, rel, undo->cid, options & ~HEAP_INSERT_FROZEN, bistate,
				 0);
	op.copied = undo;
	op.copy_flags = flags;
	(void) insert_step(&op, &tuple, 1, NULL, tid);
	insert_end(&op);
}
