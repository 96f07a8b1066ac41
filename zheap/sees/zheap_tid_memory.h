/*-------------------------------------------------------------------------
 *
 * zheap_tid_memory.h
 *	  What TIDs mean within a command, as far as the tag alone does not say it
 *	  (Z34).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_TID_MEMORY_H
#define ZHEAP_TID_MEMORY_H

#include "storage/itemptr.h"

#include "undo/undo_defs.h"

/* what a DIRTY fetch found last (tag DIRTY), by relation and TID */
extern void zheap_tid_memory_note_dirty(Oid relid, const ItemPointerData *tid,
								  Fxid writer, CommandId cid);
extern bool zheap_tid_memory_dirty(Oid relid, const ItemPointerData *tid,
								  Fxid *writer, CommandId *cid);

/* the last update in place: whose PRE image wasn't fetched before */
extern void zheap_tid_memory_note_update(Oid relid, const ItemPointerData *tid);
extern bool zheap_tid_memory_updated_last(Oid relid, const ItemPointerData *tid);

/* does the executor run a statement, rather than what follows it (Z34) */
extern bool zheap_tid_memory_statement_runs(void);
extern void zheap_tid_memory_register_hooks(void);

#endif							/* ZHEAP_TID_MEMORY_H */
