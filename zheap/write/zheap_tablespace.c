/*-------------------------------------------------------------------------
 *
 * zheap_tablespace.c
 *	  Tables that this transaction has moved to another tablespace.
 *
 * Core moves such a table's file, not its indexes.  Rows that the transaction
 * adds afterwards get entries in the indexes; a rollback brings the old file
 * back, which doesn't know their TIDs and gives them to other rows.  So, inside
 * of a transaction, the indexes are rebuilt, and the rollback brings the old
 * ones back, too.  What is meant to be a transaction of its own isn't made to
 * pay for that; where it turns out to be none, no row can be added before the
 * commit, nor a key change in place: the old file's row isn't STALE.
 *
 * A move is known by the file that it made, and by the transaction: after a
 * rollback to a savepoint the table has another file.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/index.h"
#include "nodes/pg_list.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/undo.h"
#include "zheap/write/zheap_tablespace.h"

#include "pg_compat.h"

typedef struct Move
{
	Oid			relid;
	RelFileLocator locator;		/* of the new file */
} Move;

/* of the top transaction moves_xid, without those whose indexes were rebuilt */
static List *moves = NIL;
static FullTransactionId moves_xid;

static bool
moves_are_current(void)
{
	return moves != NIL &&
		FullTransactionIdEquals(moves_xid, GetTopFullTransactionIdIfAny());
}

/* Callback: copy the table block by block. */
void
zheap_tablespace_copy(Relation rel, const RelFileLocator *newlocator)
{
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
	Move	   *move;

	Assert(CritSectionCount == 0 && IsTransactionState());
	if (!moves_are_current())
	{
		list_free_deep(moves);
		moves = NIL;
		moves_xid = GetTopFullTransactionId();
	}
	move = palloc(sizeof(Move));
	move->relid = RelationGetRelid(rel);
	move->locator = *newlocator;
	moves = lappend(moves, move);
	MemoryContextSwitchTo(old);

	GetHeapamTableAmRoutine()->relation_copy_data(rel, newlocator);
	undo_images_note_copied();
}

/*
 * A command of a transaction that goes on is done: rebuild the indexes of
 * tables that it moved.
 */
void
zheap_tablespace_rebuild_indexes(void)
{
	List	   *now;
	ListCell   *lc;

	AssertNoPageLocked();
	if (!moves_are_current())
		return;
	CommandCounterIncrement();
	now = moves;
	moves = NIL;
	foreach(lc, now)
	{
		Move	   *move = lfirst(lc);
		Relation	rel = try_relation_open(move->relid, AccessShareLock);
		bool		is_there = rel != NULL &&
			RelFileLocatorEquals(rel->rd_locator, move->locator);
		ReindexParams params = {0};

		if (rel != NULL)
			relation_close(rel, NoLock);
		if (is_there)
			(void) reindex_relation(NULL, move->relid, 0, &params);
	}
	list_free_deep(now);
}

/*
 * Has this transaction moved the table, and not rebuilt its indexes?  Then what
 * goes into them outlives a rollback that brings the old file back.
 */
bool
zheap_tablespace_is_pending(Relation rel)
{
	ListCell   *lc;

	if (likely(moves == NIL) || !moves_are_current() ||
		!rel->rd_rel->relhasindex)
		return false;
	foreach(lc, moves)
	{
		const Move *move = lfirst(lc);

		if (move->relid == RelationGetRelid(rel) &&
			RelFileLocatorEquals(rel->rd_locator, move->locator))
			return true;
	}
	return false;
}

/* Called before rows get TIDs. */
void
zheap_tablespace_check(Relation rel)
{
	if (zheap_tablespace_is_pending(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot add rows to table \"%s\", which this transaction has moved to another tablespace",
						RelationGetRelationName(rel)),
				 errdetail("After a rollback its indexes would have entries of rows that it does not have."),
				 errhint("Commit first, or move the table in a transaction block, where no event trigger adds rows to it.")));
}
