/*-------------------------------------------------------------------------
 *
 * zheap_xlog_logical.c
 *	  The logical part of WAL records: written by changes of rows, read by
 *	  logical decoding (zheap_decode.c).
 *
 * A row of ours with zeroes where heap aligns values is heap's row.  Where that
 * is only the writer knows, which has the table's descriptor.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/sysattr.h"
#include "access/table.h"
#include "access/toast_internals.h"
#include "access/tupmacs.h"
#include "access/xloginsert.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_same.h"
#include "zheap/wal/zheap_xlog_insert.h"
#include "zheap/wal/zheap_xlog_logical.h"

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

void
zheap_logical_begin(ZLogical *logical, Relation rel, int options, bool old)
{
	logical->wanted = RelationIsLogicallyLogged(rel) &&
		(options & HEAP_INSERT_NO_LOGICAL) == 0;
	if (!logical->wanted)
		return;
	logical->rel = rel;
	logical->identity = rel->rd_rel->relreplident;
	logical->key = old ?
		RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_IDENTITY_KEY) : NULL;
	logical->key_same = false;
	initStringInfo(&logical->part);
}

void
zheap_logical_end(ZLogical *logical)
{
	if (!logical->wanted)
		return;
	bms_free(logical->key);
	pfree(logical->part.data);
	logical->wanted = false;
}

void
zheap_logical_lock_values(const ZLogical *logical)
{
	Relation	toastrel;
	Relation   *indexes;
	int			nindexes;

	if (!logical->wanted ||
		!OidIsValid(logical->rel->rd_rel->reltoastrelid))
		return;
	toastrel = table_open(logical->rel->rd_rel->reltoastrelid,
						  AccessShareLock);
	(void) toast_open_indexes(toastrel, AccessShareLock, &indexes, &nindexes);
	toast_close_indexes(indexes, nindexes, NoLock);
	table_close(toastrel, NoLock);
}

void
zheap_logical_start(ZLogical *logical, uint8 flags)
{
	Assert(logical->wanted);
	resetStringInfo(&logical->part);
	logical->recipe = -1;
	logical->same = 0;
	if (logical->rel->rd_rel->relkind == RELKIND_TOASTVALUE)
		flags |= ZLOGICAL_CHUNK;
	appendStringInfoCharMacro(&logical->part, (char) flags);
}

static void
append_packed(StringInfo buf, uint64 value)
{
	char		packed[UNDO_MAX_PACKED];

	appendBinaryStringInfo(buf, packed, undo_pack(packed, value) - packed);
}

/* What was left out isn't the last any more. */
static void
add_same_recipes(ZLogical *logical)
{
	for (; logical->same > 0; logical->same--)
		append_packed(&logical->part, 0);
}

/* The recipe for a row. */
static void
add_recipe(ZLogical *logical, const char *tuple, uint16 len)
{
	TupleDesc	desc = RelationGetDescr(logical->rel);
	StringInfo	part = &logical->part;
	const char *p = tuple + ZHEAP_HEADER_SIZE;
	const char *end = tuple + len;
	const bits8 *bits = NULL;
	char		gaps[MaxTupleAttributeNumber * 4];
	char	   *gap = gaps;
	ZTupleHeader header;
	Size		off = 0;		/* in heap's row, from its first value on */
	Size		copied = 0;
	int			ngaps = 0;
	int			start;
	int			natts;

	zheap_header_get(tuple, &header);
	natts = Min(ZHeaderNatts(&header), desc->natts);
	if (header.natts_flags1 & ZH_HASNULL)
	{
		bits = (const bits8 *) p;
		p += BITMAPLEN(ZHeaderNatts(&header));
	}
	for (int i = 0; i < natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Size		aligned = off;
		Size		size;

		if (bits && (bits[i >> 3] & (1 << (i & 7))) == 0)
			continue;
		size = zheap_tuple_value_size(att->attlen, p, end - p);
		if (size == 0)
			zheap_tuple_report_short(len, i + 1);
		if (att->attlen != -1 || !VARATT_IS_1B(p))
			aligned = att_align_nominal(off, att->attalign);
		if (aligned > off)
		{
			Assert(aligned - off < MAXIMUM_ALIGNOF);
			gap = undo_pack(gap, copied << 3 | (aligned - off));
			ngaps++;
			copied = 0;
		}
		off = aligned + size;
		copied += size;
		p += size;
	}

	if (logical->recipe < 0 ? ngaps == 0 :
		gap - gaps == logical->recipe_len &&
		memcmp(gaps, part->data + logical->recipe, gap - gaps) == 0)
	{
		logical->same++;
		return;
	}
	add_same_recipes(logical);
	append_packed(part, ngaps + 1);
	start = part->len;
	appendBinaryStringInfo(part, gaps, gap - gaps);
	logical->recipe = start;
	logical->recipe_len = gap - gaps;
}

void
zheap_logical_add_new(ZLogical *logical, const char *tuple, uint16 len)
{
	add_recipe(logical, tuple, len);
}

/* a row of ours, as its difference from new if that can be */
static void
add_old_row(ZLogical *logical, const char *old, uint16 oldlen,
			const char *new, uint16 newlen)
{
	StringInfo	part = &logical->part;
	char	   *copy = palloc(oldlen);
	ZTupleHeader header;
	char	   *end;

	zheap_header_get(old, &header);
	memcpy(copy, old, oldlen);
	header.natts_flags1 &= ~ZH_SLACK;
	zheap_header_put(copy, &header);

	part->data[0] |= ZLOGICAL_OLD;
	add_same_recipes(logical);
	enlargeStringInfo(part, oldlen + ZCODED_ROW_MAX_HEAD);
	end = zheap_xlog_insert_put_row(part->data + part->len, new, newlen, copy,
									oldlen);
	part->len = end - part->data;
	add_recipe(logical, copy, oldlen);
	pfree(copy);
}

/* the same with values that must be fetched: it may be larger than any row */
static void
add_old_heap(ZLogical *logical, Datum *values, bool *isnull)
{
	TupleDesc	desc = RelationGetDescr(logical->rel);
	StringInfo	part = &logical->part;
	HeapTuple	stored = heap_form_tuple(desc, values, isnull);
	HeapTuple	flat = toast_flatten_tuple(stored, desc);

	part->data[0] |= ZLOGICAL_OLD_HEAP;
	add_same_recipes(logical);
	appendBinaryStringInfo(part, (char *) &flat->t_data->t_infomask2,
						   sizeof(uint16));
	appendBinaryStringInfo(part, (char *) &flat->t_data->t_infomask,
						   sizeof(uint16));
	appendStringInfoCharMacro(part, (char) flat->t_data->t_hoff);
	appendBinaryStringInfo(part,
						   (char *) flat->t_data + SizeofHeapTupleHeader,
						   flat->t_len - SizeofHeapTupleHeader);
	heap_freetuple(flat);
	heap_freetuple(stored);
}

static bool
key_changes(const ZLogical *logical, const char *old, uint16 oldlen,
			const char *new, uint16 newlen)
{
	Bitmapset  *changed;
	bool		result;

	if (logical->key_same)
		return false;
	changed = zheap_same_changed(logical->rel, logical->key, old, oldlen, new,
								 newlen);
	result = !bms_is_empty(changed);
	bms_free(changed);
	return result;
}

/* Is a value of the key out of line? */
static bool
key_is_external(const ZLogical *logical, const Datum *values,
				const bool *isnull)
{
	TupleDesc	desc = RelationGetDescr(logical->rel);
	int			x = -1;

	while ((x = bms_next_member(logical->key, x)) >= 0)
	{
		int			i = x + FirstLowInvalidHeapAttributeNumber - 1;

		if (i >= 0 && !isnull[i] && TupleDescAttr(desc, i)->attlen == -1 &&
			VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
			return true;
	}
	return false;
}

void
zheap_logical_add_old(ZLogical *logical, const char *old, uint16 oldlen,
					  const char *new, uint16 newlen)
{
	TupleDesc	desc = RelationGetDescr(logical->rel);
	bool		full = logical->identity == REPLICA_IDENTITY_FULL;
	bool		decoded;
	bool		external = false;
	Datum	   *values;
	bool	   *isnull;

	if (!full && bms_is_empty(logical->key))
		return;
	if (full && !zheap_tuple_has_external(old))
	{
		add_old_row(logical, old, oldlen, new, newlen);
		return;
	}
	decoded = full || new == NULL ||
		key_changes(logical, old, oldlen, new, newlen);
	if (!decoded && !zheap_tuple_has_external(old))
		return;

	values = palloc(desc->natts * sizeof(Datum));
	isnull = palloc(desc->natts * sizeof(bool));
	zheap_tuple_deform(desc, old, oldlen, values, isnull);
	if (decoded || key_is_external(logical, values, isnull))
	{
		for (int i = 0; i < desc->natts; i++)
		{
			if (!full &&
				!bms_is_member(i + 1 - FirstLowInvalidHeapAttributeNumber,
							   logical->key))
				isnull[i] = true;
			else if (!isnull[i] && TupleDescAttr(desc, i)->attlen == -1 &&
					 VARATT_IS_EXTERNAL(DatumGetPointer(values[i])))
				external = true;
		}
		if (external)
			add_old_heap(logical, values, isnull);
		else
		{
			ZTuple	   *key = zheap_tuple_form(desc, values, isnull);

			add_old_row(logical, key->data, key->len, NULL, 0);
			pfree(key);
		}
	}
	zheap_tuple_free_copies(desc, old, oldlen, values);
	pfree(values);
	pfree(isnull);
}

void
zheap_logical_register(const ZLogical *logical, bool said)
{
	if (!logical->wanted)
		return;
	if (!said)
		XLogRegisterData(logical->part.data, logical->part.len);
	XLogSetRecordFlags(XLOG_INCLUDE_ORIGIN);
}

/* ----------------------------------------------------------------
 *	reading
 * ----------------------------------------------------------------
 */

pg_noreturn static void
report_malformed(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("logical part of a WAL record of a zheap table is malformed")));
}

void
zheap_logical_read(ZLogicalReader *reader, const char *part, Size size)
{
	reader->p = part;
	reader->end = part + size;
	reader->gaps = NULL;
	reader->ngaps = 0;
	reader->p = undo_unpack_u8(reader->p, reader->end, &reader->flags);
	if (reader->p == NULL)
		report_malformed();
}

/* The next recipe; returns the zeroes that it adds to "have" bytes. */
static uint32
read_recipe(ZLogicalReader *reader, uint32 have)
{
	const char *p = reader->p;
	uint16		number = 0;
	uint32		zeroes = 0;

	if (p < reader->end)
		p = undo_unpack_small(p, reader->end, &number);
	if (p == NULL)
		report_malformed();
	reader->p = p;
	if (number == 0)
		p = reader->gaps;
	else
	{
		reader->gaps = p;
		reader->ngaps = number - 1;
	}
	for (int i = 0; i < reader->ngaps; i++)
	{
		uint16		gap = 0;

		p = undo_unpack_small(p, reader->end, &gap);
		if (p == NULL || gap >> 3 > have)
			report_malformed();
		have -= gap >> 3;
		zeroes += gap & 7;
	}
	if (number != 0)
		reader->p = p;
	return zeroes;
}

void
zheap_logical_read_new(ZLogicalReader *reader, const char *tuple, uint16 len,
					   ZHeapRow *row)
{
	ZTupleHeader header;
	uint16		flags;

	if (len < ZHEAP_HEADER_SIZE)
		report_malformed();
	zheap_header_get(tuple, &header);
	flags = header.natts_flags1;

	row->bits = tuple + ZHEAP_HEADER_SIZE;
	row->bitslen = (flags & ZH_HASNULL) ? BITMAPLEN(ZHeaderNatts(&header)) : 0;
	row->data = row->bits + row->bitslen;
	if (row->data > tuple + len)
		report_malformed();
	row->datalen = tuple + len - row->data;
	row->infomask2 = ZHeaderNatts(&header);
	row->infomask = ((flags & ZH_HASNULL) ? HEAP_HASNULL : 0) |
		((flags & ZH_HASVARWIDTH) ? HEAP_HASVARWIDTH : 0) |
		((flags & ZH_HASEXTERNAL) ? HEAP_HASEXTERNAL : 0);
	row->hoff = MAXALIGN(SizeofHeapTupleHeader + row->bitslen);
	row->len = row->hoff + row->datalen + read_recipe(reader, row->datalen);
	row->gaps = reader->gaps;
	row->ngaps = reader->ngaps;
}

void
zheap_logical_read_old(ZLogicalReader *reader, const char *new, uint16 newlen,
					   char *tuple, ZHeapRow *row)
{
	const char *p = reader->p;
	uint16		len = 0;

	if (reader->flags & ZLOGICAL_OLD_HEAP)
	{
		p = undo_unpack_u16(p, reader->end, &row->infomask2);
		p = undo_unpack_u16(p, reader->end, &row->infomask);
		p = undo_unpack_u8(p, reader->end, &row->hoff);
		if (p == NULL || row->hoff < SizeofHeapTupleHeader ||
			row->hoff - SizeofHeapTupleHeader > reader->end - p)
			report_malformed();
		row->bits = p;
		row->bitslen = row->hoff - SizeofHeapTupleHeader;
		row->data = p + row->bitslen;
		row->datalen = reader->end - row->data;
		row->gaps = NULL;
		row->ngaps = 0;
		row->len = row->hoff + row->datalen;
		return;
	}

	if (!zheap_xlog_insert_get_row(&reader->p, reader->end, new, newlen, tuple,
								   &len))
		report_malformed();
	zheap_logical_read_new(reader, tuple, len, row);
}

void
zheap_logical_put_heap(const ZHeapRow *row, HeapTupleHeader to)
{
	char	   *start = (char *) to;
	char	   *end = start + row->len;
	char	   *place = start + row->hoff;
	const char *data = row->data;
	const char *gap = row->gaps;
	uint32		left = row->datalen;

	memset(start, 0, row->hoff);
	to->t_infomask2 = row->infomask2;
	to->t_infomask = row->infomask;
	to->t_hoff = row->hoff;
	memcpy(start + SizeofHeapTupleHeader, row->bits, row->bitslen);

	/* checked when it was read */
	for (int i = 0; i < row->ngaps; i++)
	{
		uint64		number = 0;
		Size		before;
		Size		pad;

		gap = undo_unpack(gap, gap + UNDO_MAX_PACKED, &number);
		before = number >> 3;
		pad = number & 7;
		memcpy(place, data, before);
		memset(place + before, 0, pad);
		place += before + pad;
		data += before;
		left -= before;
	}
	memcpy(place, data, left);
	Assert(place + left == end);
	(void) end;
}
