/*-------------------------------------------------------------------------
 *
 * zheap_toast.c
 *	  Rows on their way into a table: taken from a tuple slot, and toasted.
 *
 * The toast table is a heap, so core's toaster does the work, on heap tuples
 * that are made for it alone and never stored.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "catalog/pg_class.h"
#include "executor/tuptable.h"
#include "utils/rel.h"

#include "zheap/format/zheap_tuple.h"

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

/* form a row from what the toaster makes of the values */
static ZTuple *
form_toasted(Relation rel, const Datum *values, const bool *isnull,
			 TupleTableSlot *oldslot, int options)
{
	TupleDesc	desc = RelationGetDescr(rel);
	HeapTuple	newtup;
	HeapTuple	oldtup = NULL;
	HeapTuple	toasted;
	Datum	   *tvalues = palloc(desc->natts * sizeof(Datum));
	bool	   *tisnull = palloc(desc->natts * sizeof(bool));
	ZTuple	   *result;

	/*
	 * Neither heap tuple is ever stored: they only carry values.  Logical
	 * decoding keeps the chunks for the row, which is the next one it is
	 * given in the transaction, but for more rows of a multi-insert.
	 */
	newtup = heap_form_tuple(desc, (Datum *) values, (bool *) isnull);
	newtup->t_tableOid = RelationGetRelid(rel);
	if (oldslot != NULL)
	{
		slot_getallattrs(oldslot);
		oldtup = heap_form_tuple(desc, oldslot->tts_values,
								 oldslot->tts_isnull);
		oldtup->t_tableOid = RelationGetRelid(rel);
	}

	toasted = heap_toast_insert_or_update(rel, newtup, oldtup, options);
	heap_deform_tuple(toasted, desc, tvalues, tisnull);
	result = zheap_tuple_form(desc, tvalues, tisnull);

	if (toasted != newtup)
		heap_freetuple(toasted);
	heap_freetuple(newtup);
	if (oldtup != NULL)
		heap_freetuple(oldtup);
	pfree(tvalues);
	pfree(tisnull);
	return result;
}

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

	if (zslot->len == 0 || zslot->len > ZHEAP_TOAST_THRESHOLD)
		return NULL;
	zheap_header_get(zslot->data, &header);
	if (ZHeaderNatts(&header) != desc->natts ||
		(header.natts_flags1 & (ZH_HASEXTERNAL | ZH_ORIGIN | ZH_SLACK)) != 0 ||
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
						   TupleTableSlot *oldslot, int options)
{
	TupleDesc	desc = RelationGetDescr(rel);
	const Datum *values;
	ZFormPlan	plan;
	bool		toastable;
	ZTuple	   *copy;

	Assert(slot->tts_tupleDescriptor->natts == desc->natts);
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
		return form_toasted(rel, values, slot->tts_isnull, oldslot, options);
	return zheap_tuple_form_planned(desc, values, slot->tts_isnull, &plan);
}

ZTuple *
zheap_toast_form_rewritten(Relation rel, const Datum *values,
						   const bool *isnull,
						   int options)
{
	ZFormPlan	plan;

	zheap_tuple_plan(RelationGetDescr(rel), values, isnull, &plan);
	if (plan.len > ZHEAP_TOAST_THRESHOLD ||
		(plan.flags1 & ZH_HASEXTERNAL) != 0)
		return form_toasted(rel, values, isnull, NULL, options);
	return zheap_tuple_form_planned(RelationGetDescr(rel), values, isnull,
									&plan);
}

void
zheap_toast_delete(Relation rel, const char *tuple, uint16 len,
				   bool is_speculative)
{
	TupleDesc	desc = RelationGetDescr(rel);
	Datum	   *values;
	bool	   *isnull;
	HeapTuple	htup;

	if (!zheap_tuple_has_external(tuple))
		return;

	values = palloc(desc->natts * sizeof(Datum));
	isnull = palloc(desc->natts * sizeof(bool));
	zheap_tuple_deform(desc, tuple, len, values, isnull);
	htup = heap_form_tuple(desc, values, isnull);
	htup->t_tableOid = RelationGetRelid(rel);
	heap_toast_delete(rel, htup, is_speculative);
	heap_freetuple(htup);
	pfree(values);
	pfree(isnull);
}
