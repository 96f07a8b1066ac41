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

#endif							/* ZHEAP_ENTRY_H */
