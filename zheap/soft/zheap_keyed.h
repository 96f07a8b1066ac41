/*-------------------------------------------------------------------------
 *
 * zheap_keyed.h
 *	  Soft indexes: those whose columns change in place, so that a row has
 *	  entries of several keys in them (zheap/README, Z44 to Z54).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_KEYED_H
#define ZHEAP_KEYED_H

#include "access/itup.h"
#include "nodes/bitmapset.h"

#include "zheap/format/zheap_same.h"
#include "zheap/sees/zheap_sees.h"

/* by the settings, keys of some tables change in place */
extern bool zheap_keyed_wanted;
extern void zheap_keyed_define_settings(void);

/* grows with each change of a relation that the backend hears of */
extern uint64 zheap_keyed_changes;

/*
 * May entries of this index be stale: is it of the kind that never stops to be
 * soft or not?  Whether its columns may change in place now is asked by
 * zheap_keyed_indexes().  The catalog isn't read.
 */
extern bool zheap_keyed_is_soft_kind(Relation rel, Relation index);

/*
 * Of a soft index: the column of the table that its i-th one, from 0, is, if
 * that may change in place; 0 if not.
 */
extern AttrNumber zheap_keyed_soft_column(Relation index, int i);

/*
 * Columns, as in RelationGetIndexAttrBitmap, that a soft index is about but for
 * its plain keys: in expressions, predicate or INCLUDE.  They don't change in
 * place while it is there.  Palloc'd.
 */
extern Bitmapset *zheap_keyed_hard_columns(Relation index);

/* of a table's indexes, as an update wants to know them */
typedef struct ZSoftIndex
{
	Oid			oid;
	int			natts;			/* plain keys */
	AttrNumber	attnum[INDEX_MAX_KEYS];
	Bitmapset  *attrs;			/* the same, as in RelationGetIndexAttrBitmap */
	bool		varlena;		/* is one of them */
	bool		equals;			/* two values of them can be equal */
	bool		evaluated;		/* it has expressions or a predicate */
} ZSoftIndex;

typedef struct ZSoftIndexes
{
	Bitmapset  *hard;			/* columns that make a row move */
	int			n;
	ZSoftIndex	index[FLEXIBLE_ARRAY_MEMBER];
} ZSoftIndexes;

/*
 * A copy in CurrentMemoryContext; NULL if no column may change in place, or the
 * settings don't want it for the table.
 */
extern ZSoftIndexes *zheap_keyed_indexes(Relation rel);
extern void zheap_keyed_free_indexes(ZSoftIndexes *indexes);

/*
 * May a row with these two images, of which the indexed columns "changed" have
 * other values, stay where it is?
 */
extern bool zheap_keyed_may_stay(Relation rel, const ZSoftIndexes *indexes,
								 Bitmapset *changed,
								 const char *old, uint16 oldlen,
								 const char *new, uint16 newlen);

/*
 * If these columns change in place, may a row have an entry of another value
 * that is equal to the new one (zheap_entry_has_equal())?
 */
extern bool zheap_keyed_may_be_equal(const ZSoftIndexes *indexes,
									 Bitmapset *changed);

/*
 * Is the i-th value, from 0, of an index entry that of its row?  The same value
 * (zheap_same.h), but for blanks at the end of bpchar: nbtree believes that
 * opclass that equal values are the same, and swaps them between rows when it
 * splits a posting list.
 */
extern ZSame zheap_keyed_same_key(Relation index, int i, Datum key,
								  bool keynull, Datum value, bool isnull,
								  bool may_fetch);

/* how an index entry and a version of its row compare (Z49) */
typedef enum ZKeyMatch
{
	ZKEY_SAME,
	ZKEY_OTHER,
	ZKEY_UNKNOWN				/* a value is out of line, and must not be
								 * fetched now */
} ZKeyMatch;

extern ZKeyMatch zheap_keyed_compare(Relation rel, Relation index,
									 IndexTuple entry, const char *tuple,
									 uint16 len, bool may_fetch);

/*
 * Are the plain keys of an entry and a version equal by the opclasses?  No page
 * is locked; values may be fetched, and functions of users called.
 */
extern bool zheap_keyed_is_equal(Relation rel, Relation index,
								 IndexTuple entry, const char *tuple,
								 uint16 len);

/* of ItemPointerData, for qsort() and bsearch() */
extern int	zheap_keyed_compare_tids(const void *a, const void *b);

/*
 * Does a snapshot need this entry of the row, or will it, after a rollback
 * (Z50)?  The leaf and the table page are locked.  False: nobody does; then
 * *conflict has been raised to the conflict horizon of deleting it.  *newest
 * says whether it is the entry of the newest version.  Of a row that is dead
 * to all, true.
 */
extern bool zheap_keyed_is_needed(ZReadContext *cx, Relation index,
								  IndexTuple entry, Buffer buffer, Page page,
								  BlockNumber block, OffsetNumber off,
								  Fxid *conflict, bool *newest);

/* budget: undo records that may be read; if they don't tell, it is needed */
extern bool zheap_keyed_is_needed_within(int budget, ZReadContext *cx,
										 Relation index, IndexTuple entry,
										 Buffer buffer, Page page,
										 BlockNumber block, OffsetNumber off,
										 Fxid *conflict, bool *newest);

#endif							/* ZHEAP_KEYED_H */
