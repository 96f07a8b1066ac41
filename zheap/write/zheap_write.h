/*-------------------------------------------------------------------------
 *
 * zheap_write.h
 *	  Inserting, deleting and updating rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_WRITE_H
#define ZHEAP_WRITE_H

#include "postgres.h"

#include "access/tableam.h"

#include "zheap/format/zheap_format.h"

/* ----------------------------------------------------------------
 *	zheap_insert.c, zheap_speculative.c, zheap_delete.c, zheap_update.c
 * ----------------------------------------------------------------
 */
extern void zheap_insert(Relation rel, TupleTableSlot *slot, CommandId cid,
						 int options, struct BulkInsertStateData *bistate);
extern void zheap_insert_speculative(Relation rel, TupleTableSlot *slot,
									 CommandId cid, int options,
									 struct BulkInsertStateData *bistate,
									 uint32 token);
extern void zheap_speculative_complete(Relation rel, TupleTableSlot *slot,
									   uint32 token, bool succeeded);
extern void zheap_insert_multi(Relation rel, TupleTableSlot **slots,
							   int nslots, CommandId cid, int options,
							   struct BulkInsertStateData *bistate);

/*
 * zheap_insert_multi() of rows of which WAL needs but what the pieces, sorted
 * by row and place, don't say.  That the bytes are the same is found out here.
 */
extern void zheap_insert_chunks(Relation rel, TupleTableSlot **slots,
								int nslots, CommandId cid, int options,
								const ZLendPiece *piece, int npieces);

/*
 * For zheap_rewrite.c, whose relation nobody else can see: rows that are
 * visible to all; or one whose history goes on in the file it comes from:
 * undo is a copy record (ZUndoIsCopy) without offset and tenure, flags the
 * row's ZH_END_MASK bits and STALE, *tid the new place.  tuples' headers are changed.
 */
extern void zheap_insert_settled(Relation rel, ZTuple **tuples, int ntuples,
								 int options,
								 struct BulkInsertStateData *bistate,
								 char *scratch);
extern void zheap_insert_copied(Relation rel, ZTuple *tuple,
								const ZUndo *undo, uint16 flags, int options,
								struct BulkInsertStateData *bistate,
								ItemPointer tid);
extern TM_Result zheap_delete(Relation rel, ItemPointer tid, CommandId cid,
							  Snapshot snapshot, Snapshot crosscheck,
							  bool wait,
							  TM_FailureData *tmfd, bool changing_part);

extern TM_Result zheap_update(Relation rel, ItemPointer otid,
							  TupleTableSlot *slot, CommandId cid,
							  Snapshot snapshot, Snapshot crosscheck,
							  bool wait,
							  TM_FailureData *tmfd, LockTupleMode *lockmode,
							  TU_UpdateIndexes *update_indexes);

#endif							/* ZHEAP_WRITE_H */
