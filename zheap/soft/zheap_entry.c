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
#include "storage/predicate.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
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

/* is there an entry with this key and TID */
static bool
entry_exists(Relation rel, Relation index, Datum *values, bool *isnull,
			 ItemPointer tid)
{
	IndexTuple	entry = index_form_tuple(RelationGetDescr(index), values,
										 isnull);
	BTInsertStateData state;
	BTScanInsert key;
	BTStack		stack;
	Buffer		leaf;
	bool		exists = false;

	AssertNoPageLocked();
	Assert(zheap_tid_tag(tid) == 0);
	entry->t_tid = *tid;
	key = _bt_mkscankey(index, entry);
	Assert(key->heapkeyspace && key->scantid != NULL);
	stack = _bt_search(index, rel, key, &leaf, BT_READ);
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
			item_names(page, off, tid))
		{
			/* only rows that are dead to all have theirs marked (Z50) */
			if (ItemIdIsDead(PageGetItemId(page, off)))
				ereport(ERROR,
						(errcode(ERRCODE_INDEX_CORRUPTED),
						 errmsg("entry of row (%u,%u) in index \"%s\" is marked dead, but the row is not",
								ItemPointerGetBlockNumber(tid),
								ItemPointerGetOffsetNumber(tid),
								RelationGetRelationName(index))));
			/* a reader of this range hasn't seen the row there, as yet */
			CheckForSerializableConflictIn(index, NULL,
										   BufferGetBlockNumber(leaf));
			exists = true;
		}
		_bt_relbuf(index, leaf);
	}
	if (stack != NULL)
		_bt_freestack(stack);
	pfree(key);
	pfree(entry);
	return exists;
}

void
zheap_entry_insert(Relation rel, const ZSoftIndexes *indexes,
				   Bitmapset *changed, const char *old, uint16 oldlen,
				   TupleTableSlot *slot, const ItemPointerData *tid,
				   bool may_exist)
{
	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && zheap_tid_tag(tid) == 0);
	for (int i = 0; i < indexes->n; i++)
	{
		const ZSoftIndex *soft = &indexes->index[i];
		ItemPointerData plain = *tid;
		Datum		values[INDEX_MAX_KEYS];
		bool		isnull[INDEX_MAX_KEYS];
		Relation	index;

		if (!bms_overlap(soft->attrs, changed))
			continue;
		UNDO_IDLE_POINT("entry");
		for (int k = 0; k < soft->natts; k++)
			values[k] = slot_getattr(slot, soft->attnum[k], &isnull[k]);
		index = index_open(soft->oid, RowExclusiveLock);
		if (!zheap_keyed_is_soft_kind(rel, index))
			elog(ERROR,
				 "index \"%s\" has changed although its table is locked",
				 RelationGetRelationName(index));
		if (!(may_exist && entry_exists(rel, index, values, isnull, &plain)))
		{
			Assert(may_exist ||
				   !entry_exists(rel, index, values, isnull, &plain));
			index_insert(index, values, isnull, &plain, rel, UNIQUE_CHECK_NO,
						 true, NULL);
		}
		zheap_old_keys_note(rel, index, old, oldlen, tid);
		index_close(index, RowExclusiveLock);
	}
}
