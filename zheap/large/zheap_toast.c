/*-------------------------------------------------------------------------
 *
 * zheap_toast.c
 *	  Rows on their way into a table: taken from a tuple slot, and toasted.
 *
 * What is compressed or stored out of line is what heap would choose: core's
 * helpers for table access methods find the values, zheap_chunk.c stores them.
 * But a value that differs a little from one that couldn't be compressed isn't
 * tried each time (zheap_chunk_defies()).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/toast_compression.h"
#include "access/toast_helper.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "undo/undo_assert.h"
#include "zheap/format/zheap_format.h"
#include "zheap/large/zheap_chunk.h"

/* some value of the tuple slot is stored out of line */
static bool
slot_has_external(TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;
	int			i;

	for (i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attlen != -1)
			continue;
		slot_getsomeattrs(slot, i + 1);
		if (!slot->tts_isnull[i] &&
			VARATT_IS_EXTERNAL(DatumGetPointer(slot->tts_values[i])))
			return true;
	}
	return false;
}

/* ----------------------------------------------------------------
 *	making a row shorter
 * ----------------------------------------------------------------
 */

/* a row whose values are compressed, or moved out of line */
typedef struct Toasting
{
	Relation	rel;
	int			options;		/* for chunks */
	ZSaveHint  *hint;			/* of each value */
	ToastTupleContext ttc;
	Size		header;			/* as heap counts it */
} Toasting;

/*
 * Is the row longer than the target?  Heap's measure, so that what is stored
 * out of line, and how, is the same in tables of both kinds.  But what heap
 * takes may be too long for a page of ours, by two bytes.
 */
static bool
is_too_long(const Toasting *t, Size target)
{
	TupleDesc	desc = RelationGetDescr(t->rel);
	ZFormPlan	plan;

	if (heap_compute_data_size(desc, t->ttc.ttc_values, t->ttc.ttc_isnull) +
		t->header > target)
		return true;
	if (target <= ZHEAP_MAX_TUPLE_SIZE)
		return false;
	zheap_tuple_plan(desc, t->ttc.ttc_values, t->ttc.ttc_isnull, &plan);
	return plan.len > ZHEAP_MAX_TUPLE_SIZE;
}

/* what is known of the values; insert: for chunks that replace others, or NULL */
static void
prepare_hints(Toasting *t, int natts, ZInsertChunks insert)
{
	Assert(t->hint == NULL && natts == RelationGetDescr(t->rel)->natts);
	t->hint = palloc0(natts * sizeof(ZSaveHint));
	if (t->ttc.ttc_oldvalues == NULL)
		return;
	for (int i = 0; i < natts; i++)
	{
		struct varlena *old =
			(struct varlena *) DatumGetPointer(t->ttc.ttc_oldvalues[i]);

		if (TupleDescAttr(RelationGetDescr(t->rel), i)->attlen == -1 &&
			!t->ttc.ttc_oldisnull[i] && VARATT_IS_EXTERNAL_ONDISK(old))
			t->hint[i].replaced = old;
		t->hint[i].insert = insert;
	}
}

/* move a value out of line */
static void
externalize(Toasting *t, int i)
{
	ToastAttrInfo *attr = &t->ttc.ttc_attr[i];
	Datum		inline_value = t->ttc.ttc_values[i];

	AssertNoPageLocked();
	t->ttc.ttc_values[i] = zheap_chunk_save(t->rel, inline_value,
											attr->tai_oldexternal,
											&t->hint[i], t->options);
	if (attr->tai_colflags & TOASTCOL_NEEDS_FREE)
		pfree(DatumGetPointer(inline_value));
	attr->tai_colflags |= TOASTCOL_NEEDS_FREE | TOASTCOL_IGNORE;
	t->ttc.ttc_flags |= TOAST_NEEDS_FREE | TOAST_NEEDS_CHANGE;
}

/* Compress a value, unless that is in vain. */
static void
compress_value(Toasting *t, int i)
{
	ToastAttrInfo *attr = &t->ttc.ttc_attr[i];
	char		method = CompressionMethodIsValid(attr->tai_compression) ?
		attr->tai_compression : default_toast_compression;

	AssertNoPageLocked();
	if (zheap_chunk_defies(t->rel, &t->hint[i], t->ttc.ttc_values[i], method))
		attr->tai_colflags |= TOASTCOL_INCOMPRESSIBLE;
	else
		toast_tuple_try_compression(&t->ttc, i);
	if (attr->tai_colflags & TOASTCOL_INCOMPRESSIBLE)
		t->hint[i].defied = method;
}

/* compress the biggest values until the row fits; main: of storage MAIN */
static void
compress_values(Toasting *t, Size target, bool main)
{
	TupleDesc	desc = RelationGetDescr(t->rel);

	while (is_too_long(t, target))
	{
		int			i =
			toast_tuple_find_biggest_attribute(&t->ttc, true, main);

		if (i < 0)
			return;
		if (main || TupleDescAttr(desc, i)->attstorage == TYPSTORAGE_EXTENDED)
			compress_value(t, i);
		else
			t->ttc.ttc_attr[i].tai_colflags |= TOASTCOL_INCOMPRESSIBLE;

		/* too big whatever becomes of the others: these needn't change */
		if (!main && OidIsValid(t->rel->rd_rel->reltoastrelid) &&
			t->ttc.ttc_attr[i].tai_size + t->header > target)
			externalize(t, i);
	}
}

/* move the biggest values out of line until the row fits */
static void
externalize_values(Toasting *t, Size target, bool main)
{
	if (!OidIsValid(t->rel->rd_rel->reltoastrelid))
		return;
	while (is_too_long(t, target))
	{
		int			i =
			toast_tuple_find_biggest_attribute(&t->ttc, false, main);

		if (i < 0)
			return;
		externalize(t, i);
	}
}

/* the values of the old version that the new one doesn't have any more */
static void
delete_old_values(Toasting *t)
{
	TupleDesc	desc = RelationGetDescr(t->rel);

	for (int i = 0; i < desc->natts; i++)
	{
		if (t->ttc.ttc_attr[i].tai_colflags & TOASTCOL_NEEDS_DELETE_OLD)
			zheap_chunk_delete(t->rel, t->ttc.ttc_oldvalues[i], false);
	}
}

/*
 * Form a row with large values compressed, or stored out of line, until it
 * is no longer than the target; values of storage MAIN, than main_target.
 */
static ZTuple *
form_within(Size target, Size main_target, Relation rel, const Datum *values,
			const bool *isnull, TupleTableSlot *oldslot,
			ZInsertChunks insert, int options)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Toasting	t = {.rel = rel,.options = options};
	ZTuple	   *result;

	Assert(rel->rd_rel->relkind != RELKIND_TOASTVALUE);
	AssertNoPageLocked();
	Assert(CritSectionCount == 0);
	t.ttc.ttc_rel = rel;
	t.ttc.ttc_values = palloc(desc->natts * sizeof(Datum));
	t.ttc.ttc_isnull = palloc(desc->natts * sizeof(bool));
	t.ttc.ttc_attr = palloc(desc->natts * sizeof(ToastAttrInfo));
	memcpy(t.ttc.ttc_values, values, desc->natts * sizeof(Datum));
	memcpy(t.ttc.ttc_isnull, isnull, desc->natts * sizeof(bool));
	if (oldslot != NULL)
	{
		slot_getallattrs(oldslot);
		t.ttc.ttc_oldvalues = oldslot->tts_values;
		t.ttc.ttc_oldisnull = oldslot->tts_isnull;
	}
	toast_tuple_init(&t.ttc);
	prepare_hints(&t, desc->natts, insert);
	t.header = MAXALIGN(SizeofHeapTupleHeader +
						((t.ttc.ttc_flags & TOAST_HAS_NULLS) ?
						 BITMAPLEN(desc->natts) : 0));

	compress_values(&t, target, false);
	externalize_values(&t, target, false);
	compress_values(&t, target, true);
	externalize_values(&t, main_target, true);

	result = zheap_tuple_form(desc, t.ttc.ttc_values, t.ttc.ttc_isnull);

	if (t.ttc.ttc_flags & TOAST_NEEDS_DELETE_OLD)
		delete_old_values(&t);
	t.ttc.ttc_flags &= ~TOAST_NEEDS_DELETE_OLD;
	toast_tuple_cleanup(&t.ttc);
	pfree(t.ttc.ttc_values);
	pfree(t.ttc.ttc_isnull);
	pfree(t.ttc.ttc_attr);
	for (int i = 0; i < desc->natts; i++)
		if (t.hint[i].compared != NULL)
			pfree(t.hint[i].compared);
	pfree(t.hint);
	return result;
}

/*
 * As heap does it: values of storage MAIN stay, if a page can hold the row
 * at all.  Logical decoding keeps the chunks for the row, which is the next
 * one it is given in the transaction, but for more rows of a multi-insert.
 */
static ZTuple *
form_toasted(Relation rel, const Datum *values, const bool *isnull,
			 TupleTableSlot *oldslot, ZInsertChunks insert, int options)
{
	return form_within(RelationGetToastTupleTarget(rel, TOAST_TUPLE_TARGET),
					   TOAST_TUPLE_TARGET_MAIN, rel, values, isnull, oldslot,
					   insert, options);
}

/* ----------------------------------------------------------------
 *	rows as they are
 * ----------------------------------------------------------------
 */

/*
 * Would rows of both descriptors be formed of the same values by the same
 * bytes?
 */
static bool
descs_form_alike(TupleDesc a, TupleDesc b)
{
	if (a->natts != b->natts)
		return false;
	for (int i = 0; i < a->natts; i++)
	{
		Form_pg_attribute x = TupleDescAttr(a, i);
		Form_pg_attribute y = TupleDescAttr(b, i);

		if (x->attlen != y->attlen || x->attbyval != y->attbyval ||
			x->attstorage != y->attstorage ||
			x->attisdropped || y->attisdropped)
			return false;
	}
	return true;
}

/*
 * The row for a table with this descriptor, if it is the very bytes of the one
 * that the tuple slot holds; NULL if it has to be formed.
 */
static ZTuple *
copy_stored_row(TupleDesc desc, TupleTableSlot *slot)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;
	ZTupleHeader header;
	ZTuple	   *tup;

	Assert(TTS_IS_ZHEAP(slot));
	if (zslot->len == 0 || zslot->len > ZHEAP_TOAST_THRESHOLD)
		return NULL;
	zheap_header_get(zslot->data, &header);
	if (ZHeaderNatts(&header) != desc->natts ||
		(header.natts_flags1 & (ZH_HASEXTERNAL | ZH_SLACK)) != 0 ||
		(!(zslot->formed && slot->tts_tupleDescriptor == desc) &&
		 !descs_form_alike(desc, slot->tts_tupleDescriptor)))
		return NULL;

	tup = palloc(sizeof(ZTuple) + zslot->len);
	tup->len = zslot->len;
	tup->data = (char *) tup + sizeof(ZTuple);
	memcpy(tup->data, zslot->data, zslot->len);
	header.slot = 0;
	header.flags2 = 0;
	zheap_header_put(tup->data, &header);
	return tup;
}

ZTuple *
zheap_toast_form_untoasted(Relation rel, TupleTableSlot *slot)
{
	TupleDesc	desc = RelationGetDescr(rel);
	ZFormPlan	plan;
	ZTuple	   *copy;

	if (TTS_IS_ZHEAP(slot) && (copy = copy_stored_row(desc, slot)) != NULL)
		return copy;
	slot_getallattrs(slot);
	zheap_tuple_plan(desc, slot->tts_values, slot->tts_isnull, &plan);
	if (plan.len > ZHEAP_TOAST_THRESHOLD ||
		(plan.flags1 & ZH_HASEXTERNAL) != 0)
		return NULL;
	return zheap_tuple_form_planned(desc, slot->tts_values, slot->tts_isnull,
									&plan);
}

ZTuple *
zheap_toast_form_from_slot(Relation rel, TupleTableSlot *slot,
						   TupleTableSlot *oldslot, ZInsertChunks insert,
						   int options)
{
	TupleDesc	desc = RelationGetDescr(rel);
	const Datum *values;
	ZFormPlan	plan;
	bool		toastable;
	ZTuple	   *copy;

	Assert(slot->tts_tupleDescriptor->natts == desc->natts);
	AssertNoPageLocked();
	if (TTS_IS_ZHEAP(slot) &&
		(oldslot == NULL || !slot_has_external(oldslot)) &&
		(copy = copy_stored_row(desc, slot)) != NULL)
		return copy;

	slot_getallattrs(slot);
	values =
		zheap_tuple_plan_flat(desc, slot->tts_values, slot->tts_isnull, &plan);

	toastable = rel->rd_rel->relkind == RELKIND_RELATION ||
		rel->rd_rel->relkind == RELKIND_MATVIEW;
	if (toastable &&
		(plan.len > ZHEAP_TOAST_THRESHOLD ||
		 (plan.flags1 & ZH_HASEXTERNAL) != 0 ||
		 (oldslot != NULL && slot_has_external(oldslot))))
		return form_toasted(rel, values, slot->tts_isnull, oldslot, insert,
							options);
	return zheap_tuple_form_planned(desc, values, slot->tts_isnull, &plan);
}

ZTuple *
zheap_toast_form_rewritten(Relation rel, const Datum *values,
						   const bool *isnull,
						   int options)
{
	ZFormPlan	plan;

	AssertNoPageLocked();
	zheap_tuple_plan(RelationGetDescr(rel), values, isnull, &plan);
	if (plan.len > ZHEAP_TOAST_THRESHOLD ||
		(plan.flags1 & ZH_HASEXTERNAL) != 0)
		return form_toasted(rel, values, isnull, NULL, NULL, options);
	return zheap_tuple_form_planned(RelationGetDescr(rel), values, isnull,
									&plan);
}

/* the least that toast_tuple_target may be */
#define SHORT_TARGET			128

ZTuple *
zheap_toast_form_short(Relation rel, const Datum *values, const bool *isnull,
					   int options)
{
	AssertNoPageLocked();
	return form_within(SHORT_TARGET, SHORT_TARGET, rel, values, isnull, NULL,
					   NULL, options);
}

void
zheap_toast_delete(Relation rel, const char *tuple, uint16 len,
				   bool is_speculative)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values;
	bool	   *isnull;

	Assert(len >= ZHEAP_HEADER_SIZE);
	AssertNoPageLocked();
	if (!zheap_tuple_has_external(tuple))
		return;

	values = palloc(desc->natts * sizeof(Datum));
	isnull = palloc(desc->natts * sizeof(bool));
	zheap_tuple_deform(desc, tuple, len, values, isnull);
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attlen == -1 && !isnull[i])
			zheap_chunk_delete(rel, values[i], is_speculative);
	}
	zheap_tuple_free_copies(desc, tuple, len, values);
	pfree(values);
	pfree(isnull);
}
