/*-------------------------------------------------------------------------
 *
 * zheap_tuple_lock.h
 *	  The access method's locking of rows.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_TUPLE_LOCK_H
#define ZHEAP_TUPLE_LOCK_H

#include "access/tableam.h"
#include "nodes/lockoptions.h"

extern TM_Result zheap_tuple_lock(Relation rel, ItemPointer tid,
								  Snapshot snapshot, TupleTableSlot *slot,
								  CommandId cid, LockTupleMode mode,
								  LockWaitPolicy wait_policy, uint8 flags,
								  TM_FailureData *tmfd);

#endif							/* ZHEAP_TUPLE_LOCK_H */
