/*-------------------------------------------------------------------------
 *
 * zheap_entry.h
 *	  Index entries that an update in place makes itself.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_ENTRY_H
#define ZHEAP_ENTRY_H

#include "executor/tuptable.h"

#include "zheap/soft/zheap_keyed.h"

/*
 * The row at *tid, changed by me just now, has the new values in the tuple
 * slot, and had the image old: make its entries in the soft indexes over the
 * columns "changed".  may_exist: an entry of this key may be there, because the row was STALE
 * before.  Nothing is locked.  Raises serialization failures, and what index
 * AMs raise.
 */
extern void zheap_entry_insert(Relation rel, const ZSoftIndexes *indexes,
							   Bitmapset *changed, const char *old,
							   uint16 oldlen, TupleTableSlot *slot,
							   const ItemPointerData *tid, bool may_exist);

/*
 * The row at *tid is locked by me and is to get the new values in the tuple
 * slot: has it an entry, in one of the soft indexes over the columns "changed",
 * of another value that is equal to the new one?  Then it can't stay where it
 * is, as nbtree must not have two of a key and TID (Z48).  Nothing is locked.
 */
extern bool zheap_entry_has_equal(Relation rel, const ZSoftIndexes *indexes,
								  Bitmapset *changed, TupleTableSlot *slot,
								  const ItemPointerData *tid);

#endif							/* ZHEAP_ENTRY_H */
