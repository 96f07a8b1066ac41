/*-------------------------------------------------------------------------
 *
 * zheap_predicate.c
 *	  What SERIALIZABLE is told: which version of a row was read, which one is
 *	  going to be replaced, and by whom rows were changed that a snapshot does
 *	  not see.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/subtrans.h"
#include "access/xact.h"
#include "storage/predicate.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/sees/zheap_sees.h"

/*
 * A writer that the snapshot doesn't see was stepped over: tell the
 * serializable machinery, as heap does for each such tuple it meets.
 */
void
zheap_predicate_conflict_out(const ZReadContext *cx, Fxid writer)
{
	TransactionId xid = XidFromFxid(writer);

	if (!cx->check_serializable)
		return;
	if (TransactionIdPrecedes(xid, TransactionXmin))
		return;
	xid = SubTransGetTopmostTransaction(xid);
	if (TransactionIdEquals(xid, GetTopTransactionIdIfAny()) ||
		TransactionIdPrecedes(xid, TransactionXmin))
		return;
	CheckForSerializableConflictOut(cx->rel, xid, cx->snapshot);
}

/* bits of a predicate lock's offset that say which version is meant */
#define VERSION_SHIFT			9

StaticAssertDecl(MaxHeapTuplesPerPage < (1 << VERSION_SHIFT),
				 "offsets leave room for a hash of the version");

static void
predicate_tid(BlockNumber block, OffsetNumber off, uint32 hash,
			  ItemPointer tid)
{
	Assert(off < (1 << VERSION_SHIFT));
	ItemPointerSet(tid, block, (OffsetNumber) (off | (hash << VERSION_SHIFT)));
}

/* See zheap_sees.h. */
void
zheap_predicate_lock(Relation rel, Snapshot snapshot, BlockNumber block,
					 OffsetNumber off, const ZVersion *v)
{
	ItemPointerData tid;

	if (!IsolationIsSerializable() || !IsMVCCSnapshot(snapshot))
		return;
	predicate_tid(block, off, v->copied ? v->copy_hash :
				  zheap_tuple_hash(RelationGetRelid(rel), block, off, v->data,
								   v->len), &tid);
	PredicateLockTID(rel, &tid, snapshot, XidFromFxid(v->writer));
}

/* See zheap_sees.h. */
void
zheap_predicate_conflict_in(Relation rel, BlockNumber block, OffsetNumber off,
							const char *tuple, uint16 len)
{
	ItemPointerData tid;

	if (!IsolationIsSerializable())
		return;
	predicate_tid(block, off,
				  zheap_tuple_hash(RelationGetRelid(rel), block, off, tuple,
								   len), &tid);
	CheckForSerializableConflictIn(rel, &tid, block);
}
