/*-------------------------------------------------------------------------
 *
 * zheap_same.h
 *	  What "same" means, of values and of rows.  Three questions, which must
 *	  not be mistaken for each other:
 *
 *	  the same value	core's datum_image_eq(): the same bytes once both are
 *		flat.  How they are stored, out of line or not, compressed or not,
 *		by a header of one byte or of four, doesn't count: TOAST and ALTER
 *		TABLE change that of values that nobody changed.  Whatever is about
 *		keys asks this: may the row stay (Z10, Z44), how strongly is it
 *		locked, which index gets an entry (Z48), has an entry the version's
 *		key (Z49), is the old key told to logical decoding.
 *	  the same row		byte for byte, but for the header: is this the very
 *		version that was found before, or on another way?
 *	  equal				by an opclass.  Nobody here asks it of values: 1.0 and
 *		1.00 are equal, and two keys.  Where core asks it, what it finds must
 *		be the same value as well: Z44 demands that of soft indexes, and
 *		zheap_keyed.c finds out.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SAME_H
#define ZHEAP_SAME_H

#include "nodes/bitmapset.h"
#include "utils/relcache.h"

#include "zheap/format/zheap_tuple.h"

typedef enum ZSame
{
	ZSAME_NO,
	ZSAME_YES,
	ZSAME_UNKNOWN				/* one is out of line, and must not be fetched */
} ZSame;

/*
 * Are two values of a column the same?  They needn't be aligned.  may_fetch: no
 * page is locked, so that values out of line are fetched and expanded ones made
 * flat if that is needed; never UNKNOWN then.
 */
extern ZSame zheap_same_value(Form_pg_attribute att, Datum a, bool anull,
							  Datum b, bool bnull, bool may_fetch);

/*
 * Which of the attributes in attrs (offset by
 * FirstLowInvalidHeapAttributeNumber, as in RelationGetIndexAttrBitmap) have
 * another value in the new row, or may have: what can't be known counts as
 * changed.  Pages may be locked.  Result palloc'd.
 */
extern Bitmapset *zheap_same_changed(Relation rel, Bitmapset *attrs,
									 const char *oldtuple, uint16 oldlen,
									 const char *newtuple, uint16 newlen);

/* the same with a new row that isn't formed yet; may_fetch as above */
extern Bitmapset *zheap_same_changed_values(Relation rel, Bitmapset *attrs,
											const char *oldtuple,
											uint16 oldlen,
											const Datum *values,
											const bool *isnull,
											bool may_fetch);

/* is a value in the row itself, as it is: not compressed, not out of line */
extern bool zheap_same_is_plain(Form_pg_attribute att, Datum value,
								bool isnull);

/* the same row */
static inline bool
zheap_same_row(const char *a, uint16 alen, const char *b, uint16 blen)
{
	Assert(alen >= ZHEAP_HEADER_SIZE && blen >= ZHEAP_HEADER_SIZE);
	return alen == blen &&
		memcmp(a + ZHEAP_HEADER_SIZE, b + ZHEAP_HEADER_SIZE,
			   alen - ZHEAP_HEADER_SIZE) == 0;
}

#endif							/* ZHEAP_SAME_H */
