/*-------------------------------------------------------------------------
 *
 * zheap_entry.c
 *	  Entries in soft indexes for a row whose key was changed in place.
 *
 * The executor knows but one answer for all indexes of a table, so after such
 * an update it is told that no index needs an entry.  Those that do get it
 * here.  The row may have had the same key before: then the entry of that time
 * may still be there, and there must not be two (Z48).  One that is not STALE
 * has but the entry of its old key, which is another one: zheap_same_changed()
 * has found that a value of this index differs.  Only the transaction
 * that made the row's newest change inserts entries of its TID, so an entry
 * that isn't found stays away; one that is found stays, because the row needs
 * it from its change on (Z51).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/nbtree.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "storage/predicate.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/soft/zheap_entry.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_old_keys.h"

/* does an item of a leaf, which has the key, name the TID */
static bool
item_names(Page page, OffsetNumber off, ItemPointer tid)
{
	IndexTuple	item = (IndexTuple) PageGetItem(page,
												PageGetItemId(page, off));

	if (!BTreeTupleIsPosting(item))
		return ItemPointerEquals(&item->t_tid, tid);
	for (int i = 0; i < BTreeTupleGetNPosting(item); i++)
	{
		if (ItemPointerEquals(BTreeTupleGetPostingN(item, i), tid))
			return true;
	}
	return false;
}

/* an entry that a row should have, in an index that is open */
typedef struct Wanted
{
	Relation	rel;
	Relation	index;
	ItemPointerData tid;
	EState	   *estate;			/* of what was evaluated, or NULL */
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
} Wanted;

/* as the executor does it for an index; false: the predicate isn't true */
static bool
evaluate(Wanted *wanted, TupleTableSlot *slot)
{
	ExprContext *econtext;
	IndexInfo  *info;
	MemoryContext old;
	bool		belongs;

	wanted->estate = CreateExecutorState();
	old = MemoryContextSwitchTo(wanted->estate->es_query_cxt);
	econtext = GetPerTupleExprContext(wanted->estate);
	econtext->ecxt_scantuple = slot;
	info = BuildIndexInfo(wanted->index);
	belongs = ExecQual(ExecPrepareQual(info->ii_Predicate, wanted->estate),
					   econtext);
	if (belongs)
		FormIndexDatum(info, slot, wanted->estate, wanted->values,
					   wanted->isnull);
	MemoryContextSwitchTo(old);
	return belongs;
}

/* False: the index wants no entry; wanted_end() is due in any case. */
static bool
wanted_start(Wanted *wanted, Relation rel, const ZSoftIndex *soft,
			 TupleTableSlot *slot, const ItemPointerData *tid)
{
	Assert(zheap_tid_tag(tid) == 0);
	AssertNoPageLocked();
	wanted->rel = rel;
	wanted->tid = *tid;
	wanted->estate = NULL;
	wanted->index = index_open(soft->oid, RowExclusiveLock);
	if (!zheap_keyed_is_soft_kind(rel, wanted->index))
		elog(ERROR, "index \"%s\" has changed although its table is locked",
			 RelationGetRelationName(wanted->index));
	if (soft->evaluated)
		return evaluate(wanted, slot);
	for (int i = 0; i < wanted->index->rd_index->indnatts; i++)
		wanted->values[i] =
			slot_getattr(slot, wanted->index->rd_index->indkey.values[i],
						 &wanted->isnull[i]);
	return true;
}

static void
wanted_end(Wanted *wanted)
{
	if (wanted->estate != NULL)
		FreeExecutorState(wanted->estate);
	index_close(wanted->index, RowExclusiveLock);
}

/* are the plain keys of an entry that was found the same values */
static bool
has_same_keys(const Wanted *wanted, IndexTuple entry)
{
	TupleDesc	desc = RelationGetDescr(wanted->index);

	for (int i = 0; i < wanted->index->rd_index->indnkeyatts; i++)
	{
		bool		isnull;
		Datum		value = index_getattr(entry, i + 1, desc, &isnull);

		if (zheap_keyed_soft_column(wanted->index, i) != 0 &&
			zheap_same_value(TupleDescAttr(desc, i), value, isnull,
							 wanted->values[i], wanted->isnull[i],
							 true) != ZSAME_YES)
			return false;
	}
	return true;
}

/* what there is of an entry */
typedef enum Found
{
	FOUND_NONE,
	FOUND_EQUAL,				/* one with this TID and other values, which
								 * are equal by the opclasses */
	FOUND_SAME
} Found;

/* is there an entry with this key and TID */
static Found
wanted_find(const Wanted *wanted)
{
	Relation	index = wanted->index;
	ItemPointerData tid = wanted->tid;
	IndexTuple	entry = index_form_tuple(RelationGetDescr(index),
										 (Datum *) wanted->values,
										 (bool *) wanted->isnull);
	IndexTuple	there = NULL;
	BTInsertStateData state;
	BTScanInsert key;
	BTStack		stack;
	Buffer		leaf;
	Found		found = FOUND_NONE;

	AssertNoPageLocked();
	entry->t_tid = tid;
	key = _bt_mkscankey(index, entry);
	Assert(key->heapkeyspace && key->scantid != NULL);
	stack = _bt_search(index, wanted->rel, key, &leaf, BT_READ);
	if (BufferIsValid(leaf))
	{
		Page		page = BufferGetPage(leaf);
		OffsetNumber off;

		memset(&state, 0, sizeof(state));
		state.itup = entry;
		state.itemsz = MAXALIGN(IndexTupleSize(entry));
		state.itup_key = key;
		state.buf = leaf;
		off = _bt_binsrch_insert(index, &state);
		if (off <= PageGetMaxOffsetNumber(page) &&
			_bt_compare(index, key, page, off) == 0 &&
			item_names(page, off, &tid))
		{
			ItemId		item = PageGetItemId(page, off);

			/* only rows that are dead to all have theirs marked (Z50) */
			if (ItemIdIsDead(item))
				ereport(ERROR,
						(errcode(ERRCODE_INDEX_CORRUPTED),
						 errmsg("entry of row (%u,%u) in index \"%s\" is marked dead, but the row is not",
								ItemPointerGetBlockNumber(&tid),
								ItemPointerGetOffsetNumber(&tid),
								RelationGetRelationName(index))));
			/* a reader of this range hasn't seen the row there, as yet */
			CheckForSerializableConflictIn(index, NULL,
										   BufferGetBlockNumber(leaf));
			there = CopyIndexTuple((IndexTuple) PageGetItem(page, item));
		}
		_bt_relbuf(index, leaf);
	}
	if (there != NULL)
	{
		found = has_same_keys(wanted, there) ? FOUND_SAME : FOUND_EQUAL;
		pfree(there);
	}
	if (stack != NULL)
		_bt_freestack(stack);
	pfree(key);
	pfree(entry);
	return found;
}

bool
zheap_entry_has_equal(Relation rel, const ZSoftIndexes *indexes,
					  Bitmapset *changed, TupleTableSlot *slot,
					  const ItemPointerData *tid)
{
	bool		equal = false;

	for (int i = 0; i < indexes->n && !equal; i++)
	{
		const ZSoftIndex *soft = &indexes->index[i];
		Wanted		wanted;

		if (!soft->equals || !bms_overlap(soft->attrs, changed))
			continue;
		UNDO_IDLE_POINT("equal-entry");
		equal = wanted_start(&wanted, rel, soft, slot, tid) &&
			wanted_find(&wanted) == FOUND_EQUAL;
		wanted_end(&wanted);
	}
	return equal;
}

/* there is none with other values, see zheap_entry_has_equal() */
static void
insert_unless_there(Wanted *wanted, bool may_exist)
{
	Found		found = may_exist ? wanted_find(wanted) : FOUND_NONE;

	Assert(may_exist || wanted_find(wanted) == FOUND_NONE);
	if (found == FOUND_EQUAL)
		elog(ERROR, "row (%u,%u) has an entry of an equal key in index \"%s\"",
			 ItemPointerGetBlockNumber(&wanted->tid),
			 ItemPointerGetOffsetNumber(&wanted->tid),
			 RelationGetRelationName(wanted->index));
	if (found == FOUND_NONE)
		index_insert(wanted->index, wanted->values, wanted->isnull,
					 &wanted->tid, wanted->rel, UNIQUE_CHECK_NO, true, NULL);
}

void
zheap_entry_insert(Relation rel, const ZSoftIndexes *indexes,
				   Bitmapset *changed, const char *old, uint16 oldlen,
				   TupleTableSlot *slot, const ItemPointerData *tid,
				   bool may_exist)
{
	Assert(CritSectionCount == 0);
	for (int i = 0; i < indexes->n; i++)
	{
		const ZSoftIndex *soft = &indexes->index[i];
		Wanted		wanted;

		if (!bms_overlap(soft->attrs, changed))
			continue;
		UNDO_IDLE_POINT("entry");
		if (wanted_start(&wanted, rel, soft, slot, tid))
		{
			insert_unless_there(&wanted, may_exist);
			zheap_old_keys_note(rel, wanted.index, old, oldlen, tid);
		}
		wanted_end(&wanted);
	}
}
