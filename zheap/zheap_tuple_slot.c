/*-------------------------------------------------------------------------
 *
 * zheap_tuple_slot.c
 *	  The tuple slot type: holds one version of a row, its bytes and its
 *	  identity, or values only.
 *
 *	empty	--zheap_slot_store-->		native row: len > 0, bytes in buf
 *	empty	--ExecStoreVirtualTuple-->	virtual row: len = 0, all of tts_values
 *	virtual --materialize-->			the same, values in vdata (SHOULDFREE)
 *
 * A native row needs no materializing: tts_values point into buf or scratch,
 * both of which belong to the tuple slot.  Whoever puts values in itself
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
#include "utils/expandeddatum.h"

#include "undo/undo.h"
#include "zheap/zheap_tuple.h"

/* zheap_index.c's, which can read pages */
ZFindWriter zheap_find_writer_hook = NULL;

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

	if (zslot->buf)
		pfree(zslot->buf);
	if (zslot->scratch)
		pfree(zslot->scratch);
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
	slot->tts_nvalid = 0;
	slot->tts_flags |= TTS_FLAG_EMPTY;
	ItemPointerSetInvalid(&slot->tts_tid);
	zslot->len = 0;
	zslot->off = 0;
	zslot->scratchused = 0;
	zslot->writer = InvalidFxid;
	zslot->cid = FirstCommandId;
	zslot->loose = false;
	zslot->ended = false;
	zslot->was_locked = false;
}

/*
 * Memory for the aligned copies of all columns of the row at once, since
 * values that were handed out must stay where they are.
 */
static void
reserve_scratch(ZTupleTableSlot *zslot, int natts)
{
	uint32		need = MAXALIGN(zslot->len) + natts * MAXIMUM_ALIGNOF;

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

static void
tts_zheap_getsomeattrs(TupleTableSlot *slot, int natts)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ZDeform		d = {0};

	Assert(!TTS_EMPTY(slot));
	if (unlikely(zslot->len == 0))
		elog(ERROR, "virtual contents of a zheap tuple slot are incomplete");

	zheap_deform_start(&d, zslot->buf, zslot->len);
	if (slot->tts_nvalid > 0)
	{
		d.next = slot->tts_nvalid;
		d.off = zslot->off;
	}
	else
		reserve_scratch(zslot, d.natts);
	d.scratch = zslot->scratch;
	d.scratchused = zslot->scratchused;

	zheap_deform_to(&d, slot->tts_tupleDescriptor, natts, slot->tts_values,
					slot->tts_isnull);

	Assert(d.scratchused <= zslot->scratchsize);
	zslot->off = d.off;
	zslot->scratchused = d.scratchused;
	slot->tts_nvalid = d.next;
}

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

/* xmin of the version in the tuple slot, as shown to users */
static TransactionId
shown_xmin(const ZTupleTableSlot *zslot)
{
	Assert(zslot->len > 0 || zslot->writer != InvalidFxid);
	return zslot->writer != InvalidFxid ? XidFromFxid(zslot->writer) :
		zheap_hashed_xmin(zslot->buf, zslot->len);
}

/*
 * Name the writer of the version before a system column of it is shown: scans
 * don't look for it, since hardly anybody asks.  An ended version was written
 * by another than the one who ended it.
 */
static TransactionId
find_xmin(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	Fxid		writer = zslot->writer;
	CommandId	cid = zslot->cid;

	if (!zslot->loose && !zslot->ended)
		return shown_xmin(zslot);

	if (zheap_find_writer_hook == NULL ||
		!zheap_find_writer_hook(slot, &writer, &cid))
		return zslot->ended ? zheap_hashed_xmin(zslot->buf, zslot->len) :
			shown_xmin(zslot);
	if (zslot->ended)
		return writer != InvalidFxid ? XidFromFxid(writer) :
			zheap_hashed_xmin(zslot->buf, zslot->len);
	zslot->writer = writer;
	zslot->cid = cid;
	zslot->loose = false;
	return shown_xmin(zslot);
}

static Datum
tts_zheap_getsysattr(TupleTableSlot *slot, int attnum, bool *isnull)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(!TTS_EMPTY(slot));
	/* values only, and not those of a row just inserted */
	if (zslot->len == 0 && zslot->writer == InvalidFxid)
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
			return CommandIdGetDatum(writer_is_own(zslot) ? zslot->cid :
									 FirstCommandId);
		default:
			elog(ERROR, "invalid system column number %d", attnum);
	}
	return (Datum) 0;
}

/* bytes of a by-reference value of a virtual row */
static Size
virtual_size(Form_pg_attribute att, Datum value)
{
	if (att->attlen == -1 &&
		VARATT_IS_EXTERNAL_EXPANDED(DatumGetPointer(value)))
		return EOH_get_flat_size(DatumGetEOHP(value));
	return att_addlength_datum(0, att->attlen, value);
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
	if (zslot->len > 0 || TTS_SHOULDFREE(slot))
		return;

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
		const char *data = zsrc->buf;
		uint16		len = zsrc->len;
		ZTuple	   *full = NULL;
		ZTupleHeader header;

		zheap_header_get(data, &header);
		if (ZHeaderNatts(&header) < natts &&
			srcdesc != dstslot->tts_tupleDescriptor)
		{
			slot_getallattrs(srcslot);
			full = zheap_form_tuple(srcdesc, srcslot->tts_values,
									srcslot->tts_isnull);
			data = full->data;
			len = full->len;
		}
		zheap_slot_store(dstslot, srcslot->tts_tableOid, &tid, data, len,
						 zsrc->writer, zsrc->cid);
		zheap_slot_set_doubts(dstslot, zsrc->loose, zsrc->ended);
		((ZTupleTableSlot *) dstslot)->was_locked = zsrc->was_locked;
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
		zheap_slot_set_writer(dstslot, ((ZTupleTableSlot *) srcslot)->writer,
							  ((ZTupleTableSlot *) srcslot)->cid);
	tts_zheap_materialize(dstslot);
}

/*
 * The copy has all columns of the descriptor.  Triggers look at its system
 * columns, so a native row gets xmin as the tuple slot would show it.
 */
static HeapTuple
tts_zheap_copy_heap_tuple(TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	HeapTuple	tuple;

	Assert(!TTS_EMPTY(slot));
	slot_getallattrs(slot);
	tuple = heap_form_tuple(slot->tts_tupleDescriptor, slot->tts_values,
							slot->tts_isnull);
	tuple->t_self = slot->tts_tid;
	tuple->t_tableOid = slot->tts_tableOid;
	if (zslot->len > 0 || zslot->writer != InvalidFxid)
	{
		HeapTupleHeader header = tuple->t_data;

		HeapTupleHeaderSetXmin(header, shown_xmin(zslot));
		HeapTupleHeaderSetXmax(header, InvalidTransactionId);
		HeapTupleHeaderSetCmin(header, writer_is_own(zslot) ? zslot->cid :
							   FirstCommandId);
		header->t_infomask |= HEAP_XMAX_INVALID;
		header->t_ctid = slot->tts_tid;
	}
	return tuple;
}

static MinimalTuple
tts_zheap_copy_minimal_tuple(TupleTableSlot *slot)
{
	Assert(!TTS_EMPTY(slot));
	slot_getallattrs(slot);
	return heap_form_minimal_tuple(slot->tts_tupleDescriptor,
								   slot->tts_values, slot->tts_isnull);
}

/*
 * tid and tuple may belong to this very tuple slot.  The header kept says
 * nothing about slack, since the copy has none.
 */
void
zheap_slot_store(TupleTableSlot *slot, Oid tableoid,
				 const ItemPointerData *tid, const char *tuple, uint16 len,
				 Fxid writer, CommandId cid)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ItemPointerData newtid = *tid;
	ZTupleHeader header;

	Assert(TTS_IS_ZHEAP(slot));
	Assert(len >= ZHEAP_HEADER_SIZE);

	tts_zheap_clear(slot);
	if (zslot->bufsize < len)
	{
		uint32		size = Max(256, MAXALIGN(len));

		if (zslot->buf)
			pfree(zslot->buf);
		zslot->buf = NULL;
		zslot->bufsize = 0;
		zslot->buf = MemoryContextAlloc(slot->tts_mcxt, size);
		zslot->bufsize = size;
	}
	memmove(zslot->buf, tuple, len);
	zheap_header_get(zslot->buf, &header);
	header.natts_flags1 &= ~ZH_SLACK;
	zheap_header_put(zslot->buf, &header);
	zslot->len = len;
	zslot->writer = writer;
	zslot->cid = cid;
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_tid = newtid;
	slot->tts_tableOid = tableoid;
}

void
zheap_slot_set_doubts(TupleTableSlot *slot, bool loose, bool ended)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(TTS_IS_ZHEAP(slot) && zslot->len > 0);
	zslot->loose = loose;
	zslot->ended = ended;
}

void
zheap_slot_set_was_locked(TupleTableSlot *slot)
{
	Assert(TTS_IS_ZHEAP(slot) && !TTS_EMPTY(slot));
	((ZTupleTableSlot *) slot)->was_locked = true;
}

void
zheap_slot_set_writer(TupleTableSlot *slot, Fxid writer, CommandId cid)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(TTS_IS_ZHEAP(slot) && !TTS_EMPTY(slot));
	zslot->writer = writer;
	zslot->cid = cid;
}

const TupleTableSlotOps TTSOpsZHeapTuple = {
	.base_slot_size = sizeof(ZTupleTableSlot),
	.init = tts_zheap_init,
	.release = tts_zheap_release,
	.clear = tts_zheap_clear,
	.getsomeattrs = tts_zheap_getsomeattrs,
	.getsysattr = tts_zheap_getsysattr,
	.materialize = tts_zheap_materialize,
	.copyslot = tts_zheap_copyslot,

	/* a tuple slot of ours owns no tuple of another format */
	.get_heap_tuple = NULL,
	.get_minimal_tuple = NULL,
	.copy_heap_tuple = tts_zheap_copy_heap_tuple,
	.copy_minimal_tuple = tts_zheap_copy_minimal_tuple
};
