/*-------------------------------------------------------------------------
 *
 * zheap_tuple.c
 *	  Rows: forming and deforming.
 *
 * A row's bytes are pictured in zheap_page.h.  Values follow each other
 * without padding, so nothing read from a row may be assumed to be aligned:
 * fixed-length values are read with memcpy, lengths of varlenas byte-wise or
 * with memcpy.  Knows nothing of pages or visibility.  The tuple slot type,
 * which deforms rows step by step, is in zheap_tuple_slot.c; rows on their way
 * into a table are zheap_toast.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "utils/expandeddatum.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_tuple.h"

/* ----------------------------------------------------------------
 *	forming
 * ----------------------------------------------------------------
 */

/* may the header of a long varlena be made short (heap's rule) */
static inline bool
can_make_short(Form_pg_attribute att, const struct varlena *val)
{
	return att->attstorage != TYPSTORAGE_PLAIN && VARATT_CAN_MAKE_SHORT(val);
}

/* bytes that a not-null value takes in a row */
static inline Size
stored_size(Form_pg_attribute att, Datum value)
{
	if (att->attlen > 0)
		return att->attlen;
	if (att->attlen == -1)
	{
		struct varlena *val = (struct varlena *) DatumGetPointer(value);

		if (can_make_short(att, val))
			return VARATT_CONVERTED_SHORT_SIZE(val);
		return VARSIZE_ANY(val);
	}
	Assert(att->attlen == -2);
	return strlen(DatumGetCString(value)) + 1;
}

/*
 * Flat copies of expanded values, so that they can be copied like any other.
 * Returns values itself if there is none.
 */
static const Datum *
flatten_expanded(TupleDesc desc, const Datum *values, const bool *isnull)
{
	Datum	   *flat = NULL;
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		ExpandedObjectHeader *eoh;
		Size		size;
		char	   *copy;

		if (isnull[i] || TupleDescAttr(desc, i)->attlen != -1 ||
			!VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(values[i])))
			continue;
		if (flat == NULL)
		{
			flat = palloc(desc->natts * sizeof(Datum));
			memcpy(flat, values, desc->natts * sizeof(Datum));
		}
		eoh = DatumGetEOHP(values[i]);
		size = EOH_get_flat_size(eoh);
		copy = palloc(size);
		EOH_flatten_into(eoh, copy, size);
		flat[i] = PointerGetDatum(copy);
	}
	return flat != NULL ? flat : values;
}

void
zheap_tuple_plan(TupleDesc desc, const Datum *values, const bool *isnull,
				 ZFormPlan *plan)
{
	Size		size = 0;
	uint16		flags1 = 0;
	int			natts = desc->natts;
	int			i;

	Assert(natts <= ZH_NATTS_MASK);
	plan->expanded = false;
	for (i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);

		if (isnull[i])
			flags1 |= ZH_HASNULL;
		else if (att->attlen > 0)
			size += att->attlen;
		else
		{
			flags1 |= ZH_HASVARWIDTH;
			if (att->attlen == -1 &&
				VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			{
				flags1 |= ZH_HASEXTERNAL;
				plan->expanded |=
					VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(values[i]));
			}
			size += stored_size(att, values[i]);
		}
	}
	plan->flags1 = flags1;
	plan->bitmap = (flags1 & ZH_HASNULL) ? BITMAPLEN(natts) : 0;
	plan->len = ZHEAP_HEADER_SIZE + plan->bitmap + size;
}

const Datum *
zheap_tuple_plan_flat(TupleDesc desc, const Datum *values, const bool *isnull,
					  ZFormPlan *plan)
{
	zheap_tuple_plan(desc, values, isnull, plan);
	if (unlikely(plan->expanded))
	{
		values = flatten_expanded(desc, values, isnull);
		zheap_tuple_plan(desc, values, isnull, plan);
	}
	Assert(!plan->expanded);
	return values;
}

/* store a not-null value; returns the place behind it */
static char *
store_value(Form_pg_attribute att, char *place, Datum value)
{
	Size		size;

	if (att->attbyval)
	{
		switch (att->attlen)
		{
			case 1:
				*place = DatumGetChar(value);
				break;
			case 2:
				{
					int16		v = DatumGetInt16(value);

					memcpy(place, &v, sizeof(v));
					break;
				}
			case 4:
				{
					int32		v = DatumGetInt32(value);

					memcpy(place, &v, sizeof(v));
					break;
				}
			case 8:
				{
					int64		v = DatumGetInt64(value);

					memcpy(place, &v, sizeof(v));
					break;
				}
			default:
				elog(ERROR, "unsupported length %d of a by-value type",
					 att->attlen);
		}
		return place + att->attlen;
	}

	size = stored_size(att, value);
	Assert(att->attlen == -1 || att->attlen == -2 || size == att->attlen);
	if (att->attlen == -1 &&
		can_make_short(att, (struct varlena *) DatumGetPointer(value)))
	{
		SET_VARSIZE_SHORT(place, size);
		memcpy(place + VARHDRSZ_SHORT, VARDATA(DatumGetPointer(value)),
			   size - VARHDRSZ_SHORT);
	}
	else
		memcpy(place, DatumGetPointer(value), size);
	return place + size;
}

/* write a row whose values are flat and whose plan is made */
static void
put_planned(TupleDesc desc, const Datum *values, const bool *isnull,
			const ZFormPlan *plan, char *data)
{
	ZTupleHeader header;
	bits8	   *bits;
	char	   *place;
	int			i;

	Assert(desc->natts <= ZH_NATTS_MASK);
	Assert(!plan->expanded &&
		   (plan->bitmap > 0) == ((plan->flags1 & ZH_HASNULL) != 0));
	header.slot = 0;
	header.natts_flags1 = (uint16) desc->natts | plan->flags1;
	header.flags2 = 0;
	zheap_header_put(data, &header);

	bits = (bits8 *) (data + ZHEAP_HEADER_SIZE);
	memset(bits, 0, plan->bitmap);
	place = (char *) bits + plan->bitmap;
	for (i = 0; i < desc->natts; i++)
	{
		if (isnull[i])
			continue;
		if (plan->bitmap > 0)
			bits[i >> 3] |= 1 << (i & 7);
		place = store_value(TupleDescAttr(desc, i), place, values[i]);
	}
	Assert(place == data + plan->len);
}

static ZTuple *
form_up_to(Size limit, TupleDesc desc, const Datum *values,
		   const bool *isnull, const ZFormPlan *plan)
{
	ZTuple	   *tup;

	Assert(!plan->expanded && limit <= PG_UINT16_MAX);
	if (plan->len > limit)
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("row is too big: size %zu, maximum size %zu",
						plan->len, limit)));

	tup = palloc(sizeof(ZTuple) + plan->len);
	tup->len = (uint16) plan->len;
	tup->data = (char *) tup + sizeof(ZTuple);
	put_planned(desc, values, isnull, plan, tup->data);
	return tup;
}

ZTuple *
zheap_tuple_form_planned(TupleDesc desc, const Datum *values,
						 const bool *isnull,
						 const ZFormPlan *plan)
{
	return form_up_to(ZHEAP_MAX_TUPLE_SIZE, desc, values, isnull, plan);
}

ZTuple *
zheap_tuple_form(TupleDesc desc, const Datum *values, const bool *isnull)
{
	ZFormPlan	plan;

	values = zheap_tuple_plan_flat(desc, values, isnull, &plan);
	return zheap_tuple_form_planned(desc, values, isnull, &plan);
}

ZTuple *
zheap_tuple_form_long(TupleDesc desc, const Datum *values, const bool *isnull)
{
	ZFormPlan	plan;

	values = zheap_tuple_plan_flat(desc, values, isnull, &plan);
	return form_up_to(PG_UINT16_MAX, desc, values, isnull, &plan);
}

uint16
zheap_tuple_form_small(TupleDesc desc, const Datum *values, const bool *isnull,
					   MemoryContext context, char **buf, uint32 *bufsize)
{
	ZFormPlan	plan;

	zheap_tuple_plan(desc, values, isnull, &plan);
	if (plan.len > ZHEAP_TOAST_THRESHOLD ||
		(plan.flags1 & ZH_HASEXTERNAL) != 0)
		return 0;
	if (*bufsize < plan.len)
	{
		uint32		size = Max(256, MAXALIGN(plan.len));
		char	   *bigger = MemoryContextAlloc(context, size);

		if (*buf != NULL)
			pfree(*buf);
		*buf = bigger;
		*bufsize = size;
	}
	Assert(*bufsize >= plan.len && !plan.expanded);
	put_planned(desc, values, isnull, &plan, *buf);
	return (uint16) plan.len;
}

/* ----------------------------------------------------------------
 *	deforming
 * ----------------------------------------------------------------
 */

void
zheap_tuple_report_short(uint16 len, int attnum)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("zheap row of %u bytes ends within column %d",
					len, attnum)));
}

/* bytes of a varlena of which "have" are there; 0 if they can't be all */
static Size
unaligned_varsize(const char *p, Size have)
{
	uint32		word;
	Size		size;

	if (have < 1)
		return 0;
	if (VARATT_IS_1B_E(p))
	{
		/* others are places in memory, which no row holds */
		if (have < VARHDRSZ_EXTERNAL || VARTAG_EXTERNAL(p) != VARTAG_ONDISK)
			return 0;
		size = VARSIZE_EXTERNAL(p);
	}
	else if (VARATT_IS_1B(p))
		size = VARSIZE_1B(p);
	else
	{
		if (have < sizeof(word))
			return 0;
		memcpy(&word, p, sizeof(word));
		size = VARSIZE_4B(&word);
		if (size < VARHDRSZ)
			return 0;
	}
	return size <= have ? size : 0;
}

static inline Size
size_at(int16 attlen, const char *p, Size have)
{
	if (attlen > 0)
		return (Size) attlen <= have ? attlen : 0;
	if (attlen == -1)
		return unaligned_varsize(p, have);
	else
	{
		Size		n = strnlen(p, have);

		return n < have ? n + 1 : 0;
	}
}

Size
zheap_tuple_value_size(int16 attlen, const char *p, Size have)
{
	return size_at(attlen, p, have);
}

/* does the type's code rely on an alignment that p doesn't have */
static inline bool
is_misaligned(Form_pg_attribute att, const char *p)
{
	/* short and external varlenas are read by bytes */
	if (att->attlen == -1 && VARATT_IS_1B(p))
		return false;
	switch (att->attalign)
	{
		case TYPALIGN_INT:
			return (char *) INTALIGN(p) != p;
		case TYPALIGN_DOUBLE:
			return (char *) DOUBLEALIGN(p) != p;
		case TYPALIGN_SHORT:
			return (char *) SHORTALIGN(p) != p;
		default:
			return false;
	}
}

/*
 * The first ncolumns.  By-reference values point into the row, but where
 * alignment demands it, and raw doesn't forbid it, are palloc'd.
 */
static void
deform_columns(TupleDesc desc, int ncolumns, const char *tuple, uint16 len,
			   bool raw, Datum *values, bool *isnull)
{
	const char *end = tuple + len;
	const char *p = tuple + ZHEAP_HEADER_SIZE;
	const bits8 *bits = NULL;
	ZTupleHeader header;
	int			natts;

	Assert(len >= ZHEAP_HEADER_SIZE && ncolumns <= desc->natts);
	zheap_header_get(tuple, &header);
	natts = ZHeaderNatts(&header);
	if (header.natts_flags1 & ZH_HASNULL)
	{
		bits = (const bits8 *) p;
		p += BITMAPLEN(natts);
	}
	if (p > end)
		zheap_tuple_report_short(len, 1);

	natts = Min(natts, ncolumns);
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Size		size;

		if (bits && (bits[i >> 3] & (1 << (i & 7))) == 0)
		{
			values[i] = (Datum) 0;
			isnull[i] = true;
			continue;
		}
		isnull[i] = false;
		size = size_at(att->attlen, p, end - p);
		if (unlikely(size == 0))
			zheap_tuple_report_short(end - tuple, i + 1);

		if (att->attbyval)
			values[i] = zheap_fetch_value(att->attlen, p);
		else if (raw || !is_misaligned(att, p))
			values[i] = PointerGetDatum(p);
		else
		{
			char	   *copy = palloc(size);

			memcpy(copy, p, size);
			values[i] = PointerGetDatum(copy);
		}
		p += size;
	}
	for (int i = natts; i < ncolumns; i++)
		values[i] = getmissingattr(desc, i + 1, &isnull[i]);
}

void
zheap_tuple_deform(TupleDesc desc, const char *tuple, uint16 len,
				   Datum *values, bool *isnull)
{
	deform_columns(desc, desc->natts, tuple, len, false, values, isnull);
}

void
zheap_tuple_deform_raw(TupleDesc desc, const char *tuple, uint16 len,
					   Datum *values, bool *isnull)
{
	deform_columns(desc, desc->natts, tuple, len, true, values, isnull);
}

void
zheap_tuple_deform_first(TupleDesc desc, int ncolumns, const char *tuple,
						 uint16 len, Datum *values, bool *isnull)
{
	deform_columns(desc, ncolumns, tuple, len, false, values, isnull);
}

int
zheap_tuple_first_columns(const AttrNumber *attnum, int n)
{
	AttrNumber	last = 0;

	for (int i = 0; i < n; i++)
		last = Max(last, attnum[i]);
	return last;
}

void
zheap_tuple_free_copies(TupleDesc desc, const char *tuple, uint16 len,
						const Datum *values)
{
	zheap_tuple_free_first(desc, desc->natts, tuple, len, values);
}

void
zheap_tuple_free_first(TupleDesc desc, int ncolumns, const char *tuple,
					   uint16 len, const Datum *values)
{
	ZTupleHeader header;
	int			natts;

	Assert(ncolumns <= desc->natts && len >= ZHEAP_HEADER_SIZE);
	zheap_header_get(tuple, &header);
	natts = Min(ZHeaderNatts(&header), ncolumns);
	for (int i = 0; i < natts; i++)
	{
		char	   *value;

		if (TupleDescAttr(desc, i)->attbyval)
			continue;
		value = DatumGetPointer(values[i]);
		if (value != NULL && (value < tuple || value >= tuple + len))
			pfree(value);
	}
}

ZTuple *
zheap_tuple_add_missing(TupleDesc desc, const char *tuple, uint16 len,
						const ZMissing *missing)
{
	Datum	   *values = palloc(desc->natts * sizeof(Datum));
	bool	   *isnull = palloc(desc->natts * sizeof(bool));
	Datum	   *mvalues = palloc(desc->natts * sizeof(Datum));
	bool	   *misnull = palloc(desc->natts * sizeof(bool));
	ZTupleHeader header;
	ZTupleHeader formed;
	ZTuple	   *full;
	int			natts;

	Assert(len >= ZHEAP_HEADER_SIZE && len <= BLCKSZ);
	zheap_header_get(tuple, &header);
	natts = ZHeaderNatts(&header);
	zheap_tuple_deform(desc, tuple, len, values, isnull);
	for (; missing != NULL; missing = missing->next)
	{
		ZTupleHeader mheader;

		Assert(missing->len >= ZHEAP_HEADER_SIZE);
		zheap_header_get(missing->data, &mheader);
		zheap_tuple_deform(desc, missing->data, missing->len, mvalues,
						   misnull);
		for (; natts < ZHeaderNatts(&mheader) && natts < desc->natts; natts++)
		{
			values[natts] = mvalues[natts];
			isnull[natts] = misnull[natts];
		}
	}

	full = zheap_tuple_form_long(desc, values, isnull);
	zheap_header_get(full->data, &formed);
	formed.slot = header.slot;
	formed.flags2 = header.flags2;
	Assert(ZHeaderNatts(&formed) == desc->natts);
	zheap_header_put(full->data, &formed);
	return full;
}

bool
zheap_tuple_has_external(const char *tuple)
{
	ZTupleHeader header;

	zheap_header_get(tuple, &header);
	return (header.natts_flags1 & ZH_HASEXTERNAL) != 0;
}

/*
 * The header is left out of the hash: locks and freezing change it, and must
 * not look like an update.  With the cluster's secret, the table and the place in
 * it, nobody can find out what makes the same hash of columns that he may not read.
 */
uint32
zheap_tuple_hash(Oid reloid, BlockNumber block, OffsetNumber off,
				 const char *tuple, uint16 len)
{
	uint64		seed;

	Assert(len >= ZHEAP_HEADER_SIZE);
	memcpy(&seed, GetMockAuthenticationNonce(), sizeof(seed));
	seed = hash_combine64(seed, reloid);
	seed = hash_combine64(seed, (uint64) block << 16 | off);
	return (uint32) hash_bytes_extended((const unsigned char *) tuple + ZHEAP_HEADER_SIZE,
										len - ZHEAP_HEADER_SIZE, seed);
}

/*
 * Bit 31 is unlike that of the next xid, so that the result is never taken for a
 * recent transaction.
 */
TransactionId
zheap_tuple_hashed_xmin(Oid reloid, const ItemPointerData *tid,
						const char *tuple, uint16 len)
{
	TransactionId next;
	TransactionId xid;

	next = XidFromFullTransactionId(ReadNextFullTransactionId());
	xid = zheap_tuple_hash(reloid, ItemPointerGetBlockNumberNoCheck(tid),
						   ItemPointerGetOffsetNumberNoCheck(tid), tuple, len);
	xid = (xid & 0x7FFFFFFF) | (~next & 0x80000000);
	if (!TransactionIdIsNormal(xid))
		xid += FirstNormalTransactionId;
	return xid;
}
