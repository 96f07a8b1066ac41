/*-------------------------------------------------------------------------
 *
 * zheap_chunk.h
 *	  Values that are stored out of line, in chunks of the toast table.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_CHUNK_H
#define ZHEAP_CHUNK_H

#include "postgres.h"

#include "nodes/pg_list.h"
#include "utils/relcache.h"

#include "access/tableam.h"

#include "undo/undo_defs.h"
#include "zheap/format/zheap_tuple.h"

/* What is known of a value before it is saved. */
typedef struct ZSaveHint
{
	/*
	 * The pointer to the value that it replaces, in the row's version which
	 * the caller has locked, or NULL.  What both have in common isn't logged
	 * again if insert isn't NULL; then it is zheap_insert_chunks().
	 */
	struct varlena *replaced;
	ZInsertChunks insert;
	char		defied;			/* compression by this method, a character of
								 * pg_attribute, was given up; or '\0' */
	struct ZCompared *compared; /* NULL at first; the caller frees it */
} ZSaveHint;

/*
 * Would compressing the flat value, not compressed yet, by the method be in
 * vain?  True only if it was for the value replaced, of which the new one has
 * nearly all bytes; and not always then.  No buffer locks held.
 */
extern bool zheap_chunk_defies(Relation rel, ZSaveHint *hint, Datum value,
							   char method);

/*
 * Save a flat value for a row of rel and return the pointer that the row gets.
 * old: the pointer by which the value was known before, or NULL; in a rewrite
 * the value keeps its identity, and is saved once.  hint: or NULL.  options:
 * HEAP_INSERT_*.  No buffer locks held.
 */
extern Datum zheap_chunk_save(Relation rel, Datum value, struct varlena *old,
							  ZSaveHint *hint, int options);

/*
 * Delete the value that a row of rel points to; does nothing if it is no such
 * pointer.  With speculative the row was inserted speculatively by the same
 * command, and nobody may see the value again.  No buffer locks held.
 */
extern void zheap_chunk_delete(Relation rel, Datum value, bool speculative);

/*
 * For a rewrite.  Has the value been deleted by what committed, or by mine?
 * Delete values by their identities, which earlier commands have saved into the
 * toast table of rel.
 */
extern bool zheap_chunk_is_deleted(struct varlena *value);
extern void zheap_chunk_delete_saved(Relation rel, const List *valueids);

/* See table_relation_fetch_toast_slice(). */
extern void zheap_chunk_fetch(Relation toastrel, Oid valueid, int32 attrsize,
							  int32 sliceoffset, int32 slicelength,
							  struct varlena *result);

/*
 * The value that a version of a row points to, as it is stored: not
 * decompressed; palloc'd.  The version was ended by a transaction that
 * committed.  The caller has found that some snapshot may see the version, but
 * that snapshot can have gone since.  NULL: the value is gone because no other
 * one needs it.
 */
extern struct varlena *zheap_chunk_fetch_ended(struct varlena *value,
											   Fxid ended_by);

/*
 * Delete rows of a toast table, all on one page (zheap_delete_chunks.c).  As
 * many of the first of them as go together; *done is their number, unless the
 * result, of the first one, isn't TM_Ok.
 */
extern TM_Result zheap_delete_chunks(Relation rel,
									 const ItemPointerData *tids, int n,
									 CommandId cid, int *done);
#endif							/* ZHEAP_CHUNK_H */
