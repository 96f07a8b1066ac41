/*-------------------------------------------------------------------------
 *
 * zheap_tuple_slot.c
 *	  The tuple slot type: holds one version of a row, its bytes and its
 *	  identity, or values only.
 *
 *	empty	--zheap_slot_show-->		native row: len > 0, bytes in rows
 *	empty	--zheap_tuple_slot_store-->		native row: len > 0, bytes in buf
 *	in rows --materialize-->			the same, bytes in buf
 *	empty	--ExecStoreVirtualTuple-->	virtual row: len = 0, all of tts_values
 *	virtual --materialize-->			native row, formed, bytes in buf; or, if
 *										it may have to be toasted:
 *										the same, values in vdata (SHOULDFREE)
 *
 * tts_values of a native row point into buf, rows or scratch.  buf and scratch
 * belong to the tuple slot; rows it shares with the scan that made them, and
 * holds a reference (zheap_tuple.h).  Whoever puts values in itself
 * (ExecForceStoreHeapTuple, projections) clears the tuple slot first, which
 * makes the contents virtual.  Nothing here locks or reads pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "access/sysattr.h"
#include "access/transam.h"
#include "access/xact.h"
#include "executor/tuptable.h"
#include "replication/logicalworker.h"
#include "utils/expandeddatum.h"

#include "undo/undo.h"
#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_tuple.h"

/* zheap_index_fetch.c's, which can read pages */
ZFindWriter zheap_find_writer_hook = NULL;

/* what zheap_slot_show() left is given up here, too */
static inline void
free_heap_tuple(ZTupleTableSlot *zslot)
{
	if (unlikely(zslot->heap != NULL))
	{
		heap_freetuple(zslot->heap);
		zslot->heap = NULL;
	}
	zslot->heap_valid = false;
}

static void
tts_zheap_init(TupleTableSlot *slot)
{
	/* the struct was zeroed when it was made */
	Assert(((ZTupleTableSlot *) slot)->buf == NULL);
}

static void
tts_zheap_release(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	/* it was cleared before */
	Assert(zslot->rows == NULL && zslot->heap == NULL);
	if (zslot->buf)
		pfree(zslot->buf);
	if (zslot->scratch)
		pfree(zslot->scratch);
	if (zslot->columns)
		pfree(zslot->columns);
	zslot->columns = NULL;
	zslot->deformed = false;
	zslot->buf = NULL;
	zslot->bufsize = 0;
	zslot->scratch = NULL;
	zslot->scratchsize = 0;
}

static void
tts_zheap_clear(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	if (unlikely(TTS_SHOULDFREE(slot)))
	{
		pfree(zslot->vdata);
		zslot->vdata = NULL;
		slot->tts_flags &= ~TTS_FLAG_SHOULDFREE;
	}
	if (zslot->rows != NULL)
	{
		zheap_rows_release(zslot->rows);
		zslot->rows = NULL;
	}
	slot->tts_nvalid = 0;
	slot->tts_flags |= TTS_FLAG_EMPTY;
	ItemPointerSetInvalid(&slot->tts_tid);
	zslot->data = NULL;
	zslot->len = 0;
	zslot->off = 0;
	zslot->scratchused = 0;
	zslot->writer = InvalidFxid;
	zslot->cid = FirstCommandId;
	zslot->approximate = false;
	zslot->ended = false;
	zslot->was_locked = false;
	zslot->formed = false;
	free_heap_tuple(zslot);
}

/* ----------------------------------------------------------------
 *	deforming
 * ----------------------------------------------------------------
 */

static uint8
align_mask(char attalign)
{
	switch (attalign)
	{
		case TYPALIGN_SHORT:
			return ALIGNOF_SHORT - 1;
		case TYPALIGN_INT:
			return ALIGNOF_INT - 1;
		case TYPALIGN_DOUBLE:
			return ALIGNOF_DOUBLE - 1;
		default:
			return 0;
	}
}

static inline ZColumn
column_of(Form_pg_attribute att)
{
	ZColumn		column;

	column.len = att->attlen;
	column.byval = att->attbyval;
	column.align = align_mask(att->attalign);
	return column;
}

/*
 * What is to be known of the columns, in a few bytes each: for tuple slots that
 * see more than one row.
 */
static void
make_columns(ZTupleTableSlot *zslot)
{
	TupleDesc	desc = zslot->base.tts_tupleDescriptor;

	Assert(zslot->columns == NULL);
	Assert(TTS_FIXED(&zslot->base));
	zslot->columns = MemoryContextAlloc(zslot->base.tts_mcxt,
										Max(desc->natts, 1) * sizeof(ZColumn));
	for (int i = 0; i < desc->natts; i++)
		zslot->columns[i] = column_of(TupleDescAttr(desc, i));
}

/*
 * Memory for the aligned copies of all columns of the row at once, since
 * values that were handed out must stay where they are.
 */
static void
reserve_scratch(ZTupleTableSlot *zslot)
{
	ZTupleHeader header;
	uint32		need;

	Assert(zslot->len >= ZHEAP_HEADER_SIZE);
	zheap_header_get(zslot->data, &header);
	need = MAXALIGN(zslot->len) + ZHeaderNatts(&header) * MAXIMUM_ALIGNOF;
	if (zslot->scratchsize >= need)
		return;
	Assert(zslot->scratchused == 0);
	if (zslot->scratch)
		pfree(zslot->scratch);
	zslot->scratch = NULL;
	zslot->scratchsize = 0;
	need = Max(need, 256);
	zslot->scratch = MemoryContextAlloc(zslot->base.tts_mcxt, need);
	zslot->scratchsize = need;
}

/* The row ends too early: say which one it is. */
static void
report_short(const ZTupleTableSlot *zslot, const char *end, int attnum)
{
	const TupleTableSlot *slot = &zslot->base;

	if (!OidIsValid(slot->tts_tableOid))
		zheap_tuple_report_short(end - zslot->data, attnum);
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("row (%u,%u) of the zheap relation with OID %u, of %d bytes, ends within column %d",
					ItemPointerGetBlockNumberNoCheck(&slot->tts_tid),
					ItemPointerGetOffsetNumberNoCheck(&slot->tts_tid),
					slot->tts_tableOid, (int) (end - zslot->data), attnum)));
}

/*
 * A by-reference value, column i, at p, in the row or, if its type wants an
 * alignment that p lacks, copied to scratch.  Returns the place behind it.
 */
static pg_noinline const char *
deform_reference(ZTupleTableSlot *zslot, int i, ZColumn column,
				 const char *p, const char *end)
{
	Size		size = zheap_tuple_value_size(column.len, p, end - p);

	Assert(p <= end && i < zslot->base.tts_tupleDescriptor->natts);
	if (size == 0)
		report_short(zslot, end, i + 1);
	/* short and external varlenas are read by bytes */
	if (((uintptr_t) p & column.align) == 0 ||
		(column.len == -1 && VARATT_IS_1B(p)))
		zslot->base.tts_values[i] = PointerGetDatum(p);
	else
	{
		char	   *copy;

		if (zslot->scratchused == 0)
			reserve_scratch(zslot);
		copy = zslot->scratch + zslot->scratchused;
		zslot->scratchused += MAXALIGN(size);
		Assert(zslot->scratchused <= zslot->scratchsize);
		memcpy(copy, p, size);
		zslot->base.tts_values[i] = PointerGetDatum(copy);
	}
	return p + size;
}

/*
 * Columns i .. natts - 1, which lie from p on, as desc says, or zslot->columns
 * if that is NULL; bits is the null bitmap or NULL.  What is NULL is a constant
 * where many rows are deformed.  Returns the place behind them.
 */
static pg_attribute_always_inline const char *
deform_columns(ZTupleTableSlot *zslot, TupleDesc desc, int i, int natts,
			   const char *p, const char *end, const bits8 *bits)
{
	const ZColumn *columns = zslot->columns;
	Datum	   *values = zslot->base.tts_values;
	bool	   *isnull = zslot->base.tts_isnull;

	for (; i < natts; i++)
	{
		Form_pg_attribute att = desc ? TupleDescAttr(desc, i) : NULL;
		int16		len = desc ? att->attlen : columns[i].len;

		if (bits != NULL && (bits[i >> 3] & (1 << (i & 7))) == 0)
		{
			values[i] = (Datum) 0;
			isnull[i] = true;
			continue;
		}
		isnull[i] = false;
		if (desc ? att->attbyval : columns[i].byval)
		{
			if (unlikely(end - p < len))
				report_short(zslot, end, i + 1);
			values[i] = zheap_fetch_value(len, p);
			p += len;
		}
		else if (len == -1 && likely(p < end) && VARATT_IS_1B(p) &&
				 !VARATT_IS_1B_E(p))
		{
			Size		size = VARSIZE_1B(p);

			if (unlikely((Size) (end - p) < size))
				report_short(zslot, end, i + 1);
			values[i] = PointerGetDatum(p);
			p += size;
		}
		else
			p = deform_reference(zslot, i,
								 desc ? column_of(att) : columns[i], p, end);
	}
	return p;
}

static void
tts_zheap_getsomeattrs(TupleTableSlot *slot, int natts)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	const char *p = zslot->data + ZHEAP_HEADER_SIZE;
	const char *end = zslot->data + zslot->len;
	const bits8 *bits = NULL;
	uint16		flags;
	TupleDesc	desc = NULL;

	Assert(!TTS_EMPTY(slot));
	Assert(natts <= slot->tts_tupleDescriptor->natts);
	Assert(zslot->len == 0 || zslot->rows != NULL ||
		   zslot->data == zslot->buf);
	if (unlikely(zslot->len == 0))
		elog(ERROR, "virtual contents of a zheap tuple slot are incomplete");
	if (unlikely(zslot->columns == NULL))
	{
		/* most statements of a single row deform no other one */
		if (zslot->deformed && slot->tts_nvalid == 0 && TTS_FIXED(slot))
			make_columns(zslot);
		else
			desc = slot->tts_tupleDescriptor;
		zslot->deformed = true;
	}

	memcpy(&flags, zslot->data + 1, sizeof(flags));
	if (unlikely(flags & ZH_HASNULL))
	{
		bits = (const bits8 *) p;
		p += BITMAPLEN(flags & ZH_NATTS_MASK);
		if (p > end)
			report_short(zslot, zslot->data + zslot->len, 1);
	}
	if (slot->tts_nvalid > 0)
		p = zslot->data + zslot->off;

	natts = Min(natts, flags & ZH_NATTS_MASK);
	if (desc != NULL)
		p = deform_columns(zslot, desc, slot->tts_nvalid, natts, p, end, bits);
	else if (bits == NULL)
		p = deform_columns(zslot, NULL, slot->tts_nvalid, natts, p, end, NULL);
	else
		p = deform_columns(zslot, NULL, slot->tts_nvalid, natts, p, end, bits);

	zslot->off = p - zslot->data;
	slot->tts_nvalid = Max(slot->tts_nvalid, natts);
}

/* ----------------------------------------------------------------
 *	system columns
 * ----------------------------------------------------------------
 */

/* was the version in the tuple slot written by my top transaction */
static bool
writer_is_own(const ZTupleTableSlot *zslot)
{
	FullTransactionId top = GetTopFullTransactionIdIfAny();

	/* a 32-bit question needs the 64-bit test before it */
	return zslot->writer != InvalidFxid && FullTransactionIdIsValid(top) &&
		zslot->writer >= U64FromFullTransactionId(top) &&
		TransactionIdIsCurrentTransactionId(XidFromFxid(zslot->writer));
}

static TransactionId
hashed_xmin(const ZTupleTableSlot *zslot)
{
	return zheap_tuple_hashed_xmin(zslot->base.tts_tableOid,
								   &zslot->base.tts_tid, zslot->data,
								   zslot->len);
}

/* xmin of the version in the tuple slot, as shown to users */
static TransactionId
shown_xmin(const ZTupleTableSlot *zslot)
{
	Assert(zslot->len > 0 || zslot->writer != InvalidFxid);
	if (zslot->writer != InvalidFxid)
		return XidFromFxid(zslot->writer);
	/* it asks who wrote the row, when and where: a hash might be another's */
	if (IsLogicalWorker())
		return FrozenTransactionId;
	return hashed_xmin(zslot);
}

/*
 * Name the writer of the version before a system column of it is shown: scans
 * don't look for it, since hardly anybody asks.  An ended version was written
 * by another transaction than the one that ended it.
 */
static TransactionId
find_xmin(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	Fxid		writer = zslot->writer;
	CommandId	cid = zslot->cid;

	if (!zslot->approximate && !zslot->ended)
		return shown_xmin(zslot);

	if (zheap_find_writer_hook == NULL ||
		!zheap_find_writer_hook(slot, &writer, &cid))
		return zslot->ended ?
			hashed_xmin(zslot) :
			shown_xmin(zslot);
	if (zslot->ended)
		return writer != InvalidFxid ? XidFromFxid(writer) :
			hashed_xmin(zslot);
	zslot->writer = writer;
	zslot->cid = cid;
	zslot->approximate = false;
	return shown_xmin(zslot);
}

void
zheap_tuple_slot_find_writer(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(TTS_IS_ZHEAP(slot));
	if (zslot->approximate && !zslot->ended)
		(void) find_xmin(slot);
}

/* does the tuple slot hold a version of a row, or its values */
static bool
has_identity(const ZTupleTableSlot *zslot)
{
	return zslot->writer != InvalidFxid ||
		(zslot->len > 0 && !zslot->formed);
}

static Datum
tts_zheap_getsysattr(TupleTableSlot *slot, int attnum, bool *isnull)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	/* values only, and not those of a row just inserted */
	if (!has_identity(zslot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot retrieve a system column in this context")));

	*isnull = false;
	switch (attnum)
	{
		case MinTransactionIdAttributeNumber:
			return TransactionIdGetDatum(find_xmin(slot));
		case MaxTransactionIdAttributeNumber:
			return TransactionIdGetDatum(zslot->ended || zslot->was_locked ?
										 XidFromFxid(zslot->writer) :
										 InvalidTransactionId);
		case MinCommandIdAttributeNumber:
		case MaxCommandIdAttributeNumber:
			zheap_tuple_slot_find_writer(slot);
			return CommandIdGetDatum(writer_is_own(zslot) ? zslot->cid :
									 FirstCommandId);
		default:
			elog(ERROR, "invalid system column number %d", attnum);
	}
	return (Datum) 0;
}

#ifndef COMPAT_NO_CURRENT_XACT_TUPLE

/* was the version written by the current transaction or a part of it */
static bool
tts_zheap_is_current_xact_tuple(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	if (!has_identity(zslot))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("do not know who wrote a row that is not of a table")));
	return TransactionIdIsCurrentTransactionId(find_xmin(slot));
}

#endif

/* bytes of a by-reference value of a virtual row */
static Size
virtual_size(Form_pg_attribute att, Datum value)
{
	if (att->attlen == -1 &&
		VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return EOH_get_flat_size(DatumGetEOHP(value));
	return att_addlength_datum(0, att->attlen, value);
}

/*
 * Copy a row's bytes, which may be the tuple slot's, to memory of its own, and
 * give up the reference to a scan's.
 */
static void
set_own_bytes(ZTupleTableSlot *zslot, const char *tuple, uint16 len)
{
	ZRows	   *rows = zslot->rows;

	Assert(len >= ZHEAP_HEADER_SIZE);
	if (zslot->bufsize < len)
	{
		uint32		size = Max(256, MAXALIGN(len));
		char	   *buf = MemoryContextAlloc(zslot->base.tts_mcxt, size);

		memcpy(buf, tuple, len);
		if (zslot->buf)
			pfree(zslot->buf);
		zslot->buf = buf;
		zslot->bufsize = size;
	}
	else
		memmove(zslot->buf, tuple, len);
	zslot->data = zslot->buf;
	zslot->len = len;
	if (rows != NULL)
	{
		zslot->rows = NULL;
		zheap_rows_release(rows);
	}
}

static void
tts_zheap_materialize(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	TupleDesc	desc = slot->tts_tupleDescriptor;
	Size		total = 0;
	char	   *place;
	int			i;

	Assert(!TTS_EMPTY(slot));
	Assert(zslot->len == 0 || zslot->rows != NULL ||
		   zslot->data == zslot->buf);
	if (zslot->rows != NULL)
	{
		/* values that were deformed point into rows: forget them */
		set_own_bytes(zslot, zslot->data, zslot->len);
		slot->tts_nvalid = 0;
		zslot->off = 0;
		zslot->scratchused = 0;
		return;
	}
	if (zslot->len > 0 || TTS_SHOULDFREE(slot))
		return;

	/* as it will be stored, most likely */
	zslot->len =
		zheap_tuple_form_small(desc, slot->tts_values, slot->tts_isnull,
							   slot->tts_mcxt, &zslot->buf,
							   &zslot->bufsize);
	if (zslot->len > 0)
	{
		zslot->data = zslot->buf;
		zslot->formed = true;
		slot->tts_nvalid = 0;
		return;
	}

	for (i = 0; i < desc->natts; i++)
	{
		if (!slot->tts_isnull[i] && !TupleDescAttr(desc, i)->attbyval)
			total += MAXALIGN(virtual_size(TupleDescAttr(desc, i),
										   slot->tts_values[i]));
	}
	if (total == 0)
		return;

	place = zslot->vdata = MemoryContextAlloc(slot->tts_mcxt, total);
	slot->tts_flags |= TTS_FLAG_SHOULDFREE;
	for (i = 0; i < desc->natts; i++)
	{
		Form_pg_attribute att = TupleDescAttr(desc, i);
		Datum		value = slot->tts_values[i];
		Size		size;

		if (slot->tts_isnull[i] || att->attbyval)
			continue;
		size = virtual_size(att, value);
		if (att->attlen == -1 &&
			VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
			EOH_flatten_into(DatumGetEOHP(value), place, size);
		else
			memcpy(place, DatumGetPointer(value), size);
		slot->tts_values[i] = PointerGetDatum(place);
		place += MAXALIGN(size);
	}
}

/*
 * Between zheap tuple slots the bytes and the version's identity are kept;
 * from others the values are copied.  A row that leaves columns to its
 * descriptor's missing values takes them along if the other descriptor may not
 * have them.
 */
static void
tts_zheap_copyslot(TupleTableSlot *dstslot, TupleTableSlot *srcslot)
{
	TupleDesc	srcdesc = srcslot->tts_tupleDescriptor;
	ItemPointerData tid = srcslot->tts_tid;
	int			natts = srcdesc->natts;

	Assert(natts <= dstslot->tts_tupleDescriptor->natts);
	Assert(!TTS_EMPTY(srcslot));

	if (TTS_IS_ZHEAP(srcslot) && ((ZTupleTableSlot *) srcslot)->len > 0)
	{
		ZTupleTableSlot *zsrc = (ZTupleTableSlot *) srcslot;
		const char *data = zsrc->data;
		uint16		len = zsrc->len;
		ZTuple	   *full = NULL;
		ZTupleHeader header;

		zheap_header_get(data, &header);
		if (ZHeaderNatts(&header) < natts &&
			srcdesc != dstslot->tts_tupleDescriptor)
		{
			slot_getallattrs(srcslot);
			full = zheap_tuple_form_long(srcdesc, srcslot->tts_values,
										 srcslot->tts_isnull);
			data = full->data;
			len = full->len;
		}
		zheap_tuple_slot_store(dstslot, srcslot->tts_tableOid, &tid, data, len,
							   zsrc->writer, zsrc->cid);
		zheap_tuple_slot_set_unsure(dstslot, zsrc->approximate, zsrc->ended);
		((ZTupleTableSlot *) dstslot)->was_locked = zsrc->was_locked;
		((ZTupleTableSlot *) dstslot)->formed = zsrc->formed &&
			srcdesc == dstslot->tts_tupleDescriptor;
		if (full != NULL)
			pfree(full);
		return;
	}

	slot_getallattrs(srcslot);
	ExecClearTuple(dstslot);
	memcpy(dstslot->tts_values, srcslot->tts_values, natts * sizeof(Datum));
	memcpy(dstslot->tts_isnull, srcslot->tts_isnull, natts * sizeof(bool));
	/* columns that only the other descriptor has are null */
	for (; natts < dstslot->tts_tupleDescriptor->natts; natts++)
	{
		dstslot->tts_values[natts] = (Datum) 0;
		dstslot->tts_isnull[natts] = true;
	}
	dstslot->tts_nvalid = natts;
	dstslot->tts_flags &= ~TTS_FLAG_EMPTY;
	dstslot->tts_tid = tid;
	dstslot->tts_tableOid = srcslot->tts_tableOid;
	if (TTS_IS_ZHEAP(srcslot))
		zheap_tuple_slot_set_writer(dstslot,
									((ZTupleTableSlot *) srcslot)->writer,
									((ZTupleTableSlot *) srcslot)->cid);
	tts_zheap_materialize(dstslot);
}

/*
 * Triggers look at a heap tuple's system columns, so a native row gets xmin as
 * the tuple slot would show it.
 */
static void
identify_heap_tuple(TupleTableSlot *slot, HeapTuple tuple)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	tuple->t_self = slot->tts_tid;
	tuple->t_tableOid = slot->tts_tableOid;
	if (has_identity(zslot))
	{
		HeapTupleHeader header = tuple->t_data;

		HeapTupleHeaderSetXmin(header, shown_xmin(zslot));
		HeapTupleHeaderSetXmax(header, InvalidTransactionId);
		HeapTupleHeaderSetCmin(header, writer_is_own(zslot) ? zslot->cid :
							   FirstCommandId);
		header->t_infomask |= HEAP_XMAX_INVALID;
		header->t_ctid = slot->tts_tid;
	}
}

/* The copy has all columns of the descriptor. */
static HeapTuple
tts_zheap_copy_heap_tuple(TupleTableSlot *slot)
{
	HeapTuple	tuple;

	Assert(!TTS_EMPTY(slot));
	slot_getallattrs(slot);
	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values,
							slot->tts_isnull);
	identify_heap_tuple(slot, tuple);
	return tuple;
}

/*
 * Such a tuple that is the tuple slot's own, until this is cleared or gets
 * another row: core frees a copy only if a BEFORE trigger returns another tuple
 * than it was given, so that one would stay for each row of the statement.
 */
static HeapTuple
tts_zheap_get_heap_tuple(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	if (zslot->heap_valid)
		identify_heap_tuple(slot, zslot->heap);
	else
	{
		MemoryContext old = MemoryContextSwitchTo(slot->tts_mcxt);

		free_heap_tuple(zslot);
		zslot->heap = tts_zheap_copy_heap_tuple(slot);
		zslot->heap_valid = true;
		MemoryContextSwitchTo(old);
	}
	return zslot->heap;
}

static MinimalTuple
tts_zheap_copy_minimal_tuple(TupleTableSlot *slot, Size extra)
{
	Assert(!TTS_EMPTY(slot));
	slot_getallattrs(slot);
	return heap_form_minimal_tuple(slot->tts_tupleDescriptor,
								   slot->tts_values, slot->tts_isnull, extra);
}

/*
 * tid and tuple may belong to this very tuple slot.  The header kept says
 * nothing about slack, since the copy has none.
 */
void
zheap_tuple_slot_store(TupleTableSlot *slot, Oid tableoid,
					   const ItemPointerData *tid, const char *tuple,
					   uint16 len,
					   Fxid writer, CommandId cid)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ItemPointerData newtid = *tid;
	ZTupleHeader header;

	Assert(TTS_IS_ZHEAP(slot));
	Assert(len >= ZHEAP_HEADER_SIZE);

	/* the bytes first: clearing may give up what tuple points into */
	set_own_bytes(zslot, tuple, len);
	tts_zheap_clear(slot);
	zheap_header_get(zslot->buf, &header);
	header.natts_flags1 &= ~ZH_SLACK;
	zheap_header_put(zslot->buf, &header);
	zslot->data = zslot->buf;
	zslot->len = len;
	zslot->writer = writer;
	zslot->cid = cid;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = newtid;
	slot->tts_tableOid = tableoid;
}

void
zheap_tuple_slot_set_unsure(TupleTableSlot *slot, bool loose, bool ended)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(TTS_IS_ZHEAP(slot) && zslot->len > 0);
	zslot->approximate = loose;
	zslot->ended = ended;
}

void
zheap_tuple_slot_set_was_locked(TupleTableSlot *slot)
{
	Assert(TTS_IS_ZHEAP(slot) && !TTS_EMPTY(slot));
	((ZTupleTableSlot *) slot)->was_locked = true;
}

void
zheap_tuple_slot_set_writer(TupleTableSlot *slot, Fxid writer, CommandId cid)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(TTS_IS_ZHEAP(slot) && !TTS_EMPTY(slot));
	zslot->writer = writer;
	zslot->cid = cid;
	zslot->formed = false;
	/* what else was known of a version that was copied from elsewhere */
	zslot->approximate = false;
	zslot->ended = false;
	zslot->was_locked = false;
}

const TupleTableSlotOps TTSOpsZHeapTuple = {
	.base_slot_size = sizeof(ZTupleTableSlot),
	.init = tts_zheap_init,
	.release = tts_zheap_release,
	.clear = tts_zheap_clear,
	.getsomeattrs = tts_zheap_getsomeattrs,
	.getsysattr = tts_zheap_getsysattr,
#ifndef COMPAT_NO_CURRENT_XACT_TUPLE
	.is_current_xact_tuple = tts_zheap_is_current_xact_tuple,
#endif
	.materialize = tts_zheap_materialize,
	.copyslot = tts_zheap_copyslot,

	.get_heap_tuple = tts_zheap_get_heap_tuple,
	.get_minimal_tuple = NULL,
	.copy_heap_tuple = tts_zheap_copy_heap_tuple,
	.copy_minimal_tuple = tts_zheap_copy_minimal_tuple
};
