/*-------------------------------------------------------------------------
 *
 * zheap_same.c
 *	  Is it the same value; which columns of a row changed.
 *
 * zheap_same.h says what "same" means, and to whom.  Nothing here asks an
 * opclass or runs a type's code, so pages may be locked; but values out of line
 * are fetched only for callers that hold none.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/sysattr.h"
#include "access/tupmacs.h"
#include "utils/datum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/undo_assert.h"
#include "zheap/format/zheap_same.h"

/* ----------------------------------------------------------------
 *	values
 * ----------------------------------------------------------------
 */

/* of a by-value type only these bytes count: the rest of a Datum may be dirt */
static bool
same_by_value(int16 len, Datum a, Datum b)
{
	switch (len)
	{
		case 1:
			return DatumGetChar(a) == DatumGetChar(b);
		case 2:
			return DatumGetInt16(a) == DatumGetInt16(b);
		case 4:
			return DatumGetInt32(a) == DatumGetInt32(b);
		default:
			return a == b;
	}
}

/* bytes that a value of a by-reference type takes where it lies, which any may be */
static Size
size_of(Form_pg_attribute att, const char *p)
{
	if (att->attlen == -1 && VARATT_IS_1B_E(p))
		return VARSIZE_EXTERNAL(p);
	return zheap_tuple_value_size(att->attlen, p, MaxAllocSize);
}

/* a varlena that is flat and not compressed: its content, wherever it lies */
static const char *
plain_content(const char *p, Size size, Size *len)
{
	Size		header = VARATT_IS_1B(p) ? VARHDRSZ_SHORT : VARHDRSZ;

	Assert(!VARATT_IS_1B_E(p) && size >= header);
	*len = size - header;
	return p + header;
}

static bool
is_compressed(const char *p)
{
	return !VARATT_IS_1B(p) && VARATT_IS_4B_C(p);
}

static Datum
aligned_copy(const char *p, Size size)
{
	char	   *copy = palloc(size);

	memcpy(copy, p, size);
	return PointerGetDatum(copy);
}

/* two varlenas that aren't stored by the same bytes */
static ZSame
same_content(Form_pg_attribute att, const char *a, Size asize,
			 const char *b, Size bsize, bool may_fetch)
{
	Datum		acopy;
	Datum		bcopy;
	bool		same;

	if ((VARATT_IS_1B_E(a) || VARATT_IS_1B_E(b)) && !may_fetch)
		return ZSAME_UNKNOWN;
	if (!VARATT_IS_1B_E(a) && !VARATT_IS_1B_E(b) &&
		!is_compressed(a) && !is_compressed(b))
	{
		Size		alen;
		Size		blen;
		const char *adata = plain_content(a, asize, &alen);
		const char *bdata = plain_content(b, bsize, &blen);

		return alen == blen && memcmp(adata, bdata, alen) == 0 ?
			ZSAME_YES : ZSAME_NO;
	}

	acopy = aligned_copy(a, asize);
	bcopy = aligned_copy(b, bsize);
	same = datum_image_eq(acopy, bcopy, att->attbyval, att->attlen);
	pfree(DatumGetPointer(acopy));
	pfree(DatumGetPointer(bcopy));
	return same ? ZSAME_YES : ZSAME_NO;
}

ZSame
zheap_same_value(Form_pg_attribute att, Datum a, bool anull, Datum b,
				 bool bnull, bool may_fetch)
{
	const char *pa;
	const char *pb;
	Size		asize;
	Size		bsize;

	if (anull || bnull)
		return anull && bnull ? ZSAME_YES : ZSAME_NO;
	if (att->attbyval)
		return same_by_value(att->attlen, a, b) ? ZSAME_YES : ZSAME_NO;
	pa = DatumGetPointer(a);
	pb = DatumGetPointer(b);
	asize = size_of(att, pa);
	bsize = size_of(att, pb);
	Assert(asize > 0 && bsize > 0);
	if (asize == bsize && memcmp(pa, pb, asize) == 0)
		return ZSAME_YES;
	if (att->attlen != -1)
		return ZSAME_NO;
	return same_content(att, pa, asize, pb, bsize, may_fetch);
}

bool
zheap_same_is_plain(Form_pg_attribute att, Datum value, bool isnull)
{
	const char *p = DatumGetPointer(value);

	/* a pointer out of line has a header of one byte, too */
	return isnull || att->attlen != -1 ||
		(!VARATT_IS_1B_E(p) && !is_compressed(p));
}

/* ----------------------------------------------------------------
 *	columns of a row
 * ----------------------------------------------------------------
 */

/* where the values of a row begin; NULL if one of the first n is null */
static const char *
leading_values(const char *tuple, int n)
{
	const bits8 *bits = (const bits8 *) tuple + ZHEAP_HEADER_SIZE;
	ZTupleHeader header;

	zheap_header_get(tuple, &header);
	if (n > ZHeaderNatts(&header))
		return NULL;
	if ((header.natts_flags1 & ZH_HASNULL) == 0)
		return tuple + ZHEAP_HEADER_SIZE;
	for (int i = 0; i < n; i++)
	{
		if (att_isnull(i, bits))
			return NULL;
	}
	return tuple + ZHEAP_HEADER_SIZE + BITMAPLEN(ZHeaderNatts(&header));
}

/*
 * The frequent case without deforming: all attributes asked for are among the
 * leading columns of fixed length, of which none is null.  *changed are those
 * that differ.
 */
static bool
compare_leading_attrs(TupleDesc desc, Bitmapset *attrs,
					  const char *oldtuple, uint16 oldlen,
					  const char *newtuple, uint16 newlen,
					  Bitmapset **changed)
{
	const char *old;
	const char *new;
	int			member = -1;
	int			last = 0;		/* attribute number */
	Size		size = 0;

	while ((member = bms_next_member(attrs, member)) >= 0)
	{
		last = member + FirstLowInvalidHeapAttributeNumber;
		if (last <= 0)
			return false;		/* system column or whole row */
	}
	old = leading_values(oldtuple, last);
	new = leading_values(newtuple, last);
	if (old == NULL || new == NULL)
		return false;
	for (int i = 0; i < last; i++)
	{
		if (TupleDescAttr(desc, i)->attlen <= 0)
			return false;
		size += TupleDescAttr(desc, i)->attlen;
	}
	if (old + size > oldtuple + oldlen || new + size > newtuple + newlen)
		return false;

	*changed = NULL;
	if (memcmp(old, new, size) == 0)
		return true;
	for (int attnum = 1; attnum <= last; attnum++)
	{
		int			attlen = TupleDescAttr(desc, attnum - 1)->attlen;

		member = attnum - FirstLowInvalidHeapAttributeNumber;
		if (memcmp(old, new, attlen) != 0 && bms_is_member(member, attrs))
			*changed = bms_add_member(*changed, member);
		old += attlen;
		new += attlen;
	}
	return true;
}

/* a row and the one that replaces it, deformed */
typedef struct RowPair
{
	TupleDesc	desc;
	Datum	   *old;
	bool	   *oldnull;
	const Datum *new;
	const bool *newnull;
	bool		may_fetch;
} RowPair;

static bool
column_changed(const RowPair *pair, int i)
{
	return zheap_same_value(TupleDescAttr(pair->desc, i),
							pair->old[i], pair->oldnull[i],
							pair->new[i], pair->newnull[i],
							pair->may_fetch) != ZSAME_YES;
}

/* of an attribute number, which may be 0 or a system column's */
static bool
attribute_changed(const RowPair *pair, AttrNumber attnum)
{
	if (attnum > 0)
		return column_changed(pair, attnum - 1);
	if (attnum != InvalidAttrNumber)
		return attnum != TableOidAttributeNumber;
	/* a whole-row reference is changed by any column */
	for (int i = 0; i < pair->desc->natts; i++)
	{
		if (column_changed(pair, i))
			return true;
	}
	return false;
}

/* pair->old is filled here */
static Bitmapset *
changed_of_pair(RowPair *pair, Bitmapset *attrs, const char *oldtuple,
				uint16 oldlen)
{
	Bitmapset  *changed = NULL;
	int			x = -1;

	pair->old = palloc(pair->desc->natts * sizeof(Datum));
	pair->oldnull = palloc(pair->desc->natts * sizeof(bool));
	zheap_tuple_deform_raw(pair->desc, oldtuple, oldlen, pair->old,
						   pair->oldnull);
	while ((x = bms_next_member(attrs, x)) >= 0)
	{
		if (attribute_changed(pair, x + FirstLowInvalidHeapAttributeNumber))
			changed = bms_add_member(changed, x);
	}
	pfree(pair->old);
	pfree(pair->oldnull);
	return changed;
}

Bitmapset *
zheap_same_changed(Relation rel, Bitmapset *attrs,
				   const char *oldtuple, uint16 oldlen,
				   const char *newtuple, uint16 newlen)
{
	RowPair		pair = {.desc = RelationGetDescr(rel)};
	Bitmapset  *changed = NULL;
	Datum	   *values;
	bool	   *isnull;

	Assert(oldlen >= ZHEAP_HEADER_SIZE && newlen >= ZHEAP_HEADER_SIZE);
	if (bms_is_empty(attrs) ||
		compare_leading_attrs(pair.desc, attrs, oldtuple, oldlen, newtuple,
							  newlen, &changed))
		return changed;

	values = palloc(pair.desc->natts * sizeof(Datum));
	isnull = palloc(pair.desc->natts * sizeof(bool));
	zheap_tuple_deform_raw(pair.desc, newtuple, newlen, values, isnull);
	pair.new = values;
	pair.newnull = isnull;
	changed = changed_of_pair(&pair, attrs, oldtuple, oldlen);
	pfree(values);
	pfree(isnull);
	return changed;
}

Bitmapset *
zheap_same_changed_values(Relation rel, Bitmapset *attrs,
						  const char *oldtuple, uint16 oldlen,
						  const Datum *values, const bool *isnull,
						  bool may_fetch)
{
	RowPair		pair = {.desc = RelationGetDescr(rel),.new = values,
		.newnull = isnull,.may_fetch = may_fetch};

	Assert(oldlen >= ZHEAP_HEADER_SIZE);
	if (may_fetch)
		AssertNoPageLocked();
	if (bms_is_empty(attrs))
		return NULL;
	return changed_of_pair(&pair, attrs, oldtuple, oldlen);
}
