/*-------------------------------------------------------------------------
 *
 * zheap_write.h
 *	  Inserting, deleting, updating and locking rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_WRITE_H
#define ZHEAP_WRITE_H

#include "postgres.h"

#include "access/tableam.h"
#include "nodes/lockoptions.h"

#include "zheap/space/zheap_space.h"

/* ----------------------------------------------------------------
 *	zheap_row.c, zheap_tuple_lock.c
 * ----------------------------------------------------------------
 */

/* what a DIRTY fetch found last (tag DIRTY), by relation and TID */
extern void zheap_dirty_found_set(Oid relid, const ItemPointerData *tid,
								  Fxid writer, CommandId cid);
extern bool zheap_dirty_found_get(Oid relid, const ItemPointerData *tid,
								  Fxid *writer, CommandId *cid);

/* the last update in place: whose PRE image wasn't fetched before */
extern void zheap_row_note_update(Oid relid, const ItemPointerData *tid);
extern bool zheap_row_was_updated_last(Oid relid, const ItemPointerData *tid);

/* EvalPlanQual is running: set by a traversed tuple_lock, see Z34 */
extern bool zheap_epq_running;
extern void zheap_epq_register_hooks(void); /* zheap_epq.c */

extern TM_Result zheap_tuple_lock(Relation rel, ItemPointer tid,
								  Snapshot snapshot, TupleTableSlot *slot,
								  CommandId cid, LockTupleMode mode,
								  LockWaitPolicy wait_policy, uint8 flags,
								  TM_FailureData *tmfd);

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

/*
 * Delete rows of a toast table, all on one page (zheap_delete_chunks.c).  As
 * many of the first of them as go together; *done is their number, unless the
 * result, of the first one, isn't TM_Ok.
 */
extern TM_Result zheap_delete_chunks(Relation rel,
									 const ItemPointerData *tids, int n,
									 CommandId cid, int *done);
extern TM_Result zheap_update(Relation rel, ItemPointer otid,
							  TupleTableSlot *slot, CommandId cid,
							  Snapshot snapshot, Snapshot crosscheck,
							  bool wait,
							  TM_FailureData *tmfd, LockTupleMode *lockmode,
							  TU_UpdateIndexes *update_indexes);

#endif							/* ZHEAP_WRITE_H */
