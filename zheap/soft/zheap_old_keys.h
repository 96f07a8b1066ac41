/*-------------------------------------------------------------------------
 *
 * zheap_old_keys.h
 *	  Hints which entries of soft indexes have become old.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_OLD_KEYS_H
#define ZHEAP_OLD_KEYS_H

#include "access/itup.h"
#include "utils/rel.h"

extern void zheap_old_keys_shmem_request(void);
extern void zheap_old_keys_shmem_startup(void);

/*
 * The row at tid has this image no more: the entry that it has in the index
 * will be of no use, once the change is visible to all.  The indexed columns
 * are not out of line.
 */
extern void zheap_old_keys_note(Relation rel, Relation index,
								const char *tuple, uint16 len,
								const ItemPointerData *tid);

/* what an entry's key comes to, and: has the entry with it and tid been noted? */
extern uint32 zheap_old_keys_hash(Relation index, IndexTuple entry);
extern bool zheap_old_keys_noted(uint32 key, const ItemPointerData *tid);

/*
 * How many entries of a table's rows may have become old since VACUUM was there,
 * by what is known of its updates; an upper bound, but if that was lost.
 */
extern int64 zheap_old_keys_count(Relation rel);

#endif							/* ZHEAP_OLD_KEYS_H */
