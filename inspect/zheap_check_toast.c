/*-------------------------------------------------------------------------
 *
 * zheap_check_toast.c
 *	  zheap_check(): the large values of a table.  Each that a row points to can
 *	  be had in full, and each that is there is pointed to.
 *
 * A value is inserted and deleted by the (sub)transaction that inserts,
 * replaces or deletes the row which points to it (Z42).  So to any snapshot the
 * chunks that it sees are those of the values that the rows which it sees point
 * to: chunks of transactions in progress, of aborted ones and of older versions
 * don't count.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_internals.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "inspect/zheap_inspect.h"

#define END_OF_VALUES	PG_INT64_MAX

struct ZToastCheck
{
	Relation	rel;
	Snapshot	snapshot;
	Tuplesortstate *values;		/* identities in rows, as int8, ascending */
	ResourceOwner owner;		/* of its temporary files */
	int64		value;			/* the next one, or END_OF_VALUES */
};

ZToastCheck *
zheap_check_toast_begin(ZCheck *check, Snapshot snapshot)
{
	ZToastCheck *toast;

	if (!OidIsValid(check->rel->rd_rel->reltoastrelid))
		return NULL;
	toast = palloc(sizeof(ZToastCheck));
	toast->rel = table_open(check->rel->rd_rel->reltoastrelid,
							AccessShareLock);
	toast->snapshot = snapshot;
	toast->values = tuplesort_begin_datum(INT8OID, Int8LessOperator,
										  InvalidOid, false,
										  Max(maintenance_work_mem / 4, 64),
										  NULL, TUPLESORT_NONE);
	toast->owner = CurrentResourceOwner;
	return toast;
}

void
zheap_check_toast_end(ZToastCheck *toast)
{
	if (toast == NULL)
		return;
	tuplesort_end(toast->values);
	table_close(toast->rel, AccessShareLock);
	pfree(toast);
}

/* out-of-line values can be had in full */
static void
fetch_values(ZCheck *check, void *arg)
{
	TupleTableSlot *slot = (TupleTableSlot *) arg;
	TupleDesc	desc = slot->tts_tupleDescriptor;

	AssertNoPageLocked();
	for (int i = 0; i < desc->natts; i++)
	{
		if (TupleDescAttr(desc, i)->attlen == -1 && !slot->tts_isnull[i] &&
			VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(slot->tts_values[i])))
			pfree(PG_DETOAST_DATUM_COPY(slot->tts_values[i]));
	}
}

static void
note_value(ZToastCheck *toast, Oid value)
{
	ResourceOwner old = CurrentResourceOwner;

	/* files opened for the sort outlive the guard's subtransaction */
	CurrentResourceOwner = toast->owner;
	tuplesort_putdatum(toast->values, Int64GetDatum((int64) value), false);
	CurrentResourceOwner = old;
}

void
zheap_check_toast_row(ZCheck *check, ZToastCheck *toast,
					  TupleTableSlot *slot)
{
	TupleDesc	desc = slot->tts_tupleDescriptor;
	bool		any = false;

	if (toast == NULL)
		return;
	slot_getallattrs(slot);
	for (int i = 0; i < desc->natts; i++)
	{
		struct varlena *value =
			(struct varlena *) DatumGetPointer(slot->tts_values[i]);
		struct varatt_external pointer;

		if (TupleDescAttr(desc, i)->attlen != -1 || slot->tts_isnull[i] ||
			!VARATT_IS_EXTERNAL_ONDISK(value))
			continue;
		VARATT_EXTERNAL_GET_POINTER(pointer, value);
		if (pointer.va_toastrelid == RelationGetRelid(toast->rel))
			note_value(toast, pointer.va_valueid);
		any = true;
	}
	if (any)
		(void) zheap_check_page_guard(check, fetch_values, slot);
}

static void
next_value(ZToastCheck *toast)
{
	Datum		value;
	bool		isnull;

	if (tuplesort_getdatum(toast->values, true, true, &value, &isnull, NULL))
		toast->value = DatumGetInt64(value);
	else
		toast->value = END_OF_VALUES;
}

/* all chunks that the snapshot sees, by identity */
static void
check_chunks(ZCheck *check, void *arg)
{
	ZToastCheck *toast = (ZToastCheck *) arg;
	TupleTableSlot *slot = table_slot_create(toast->rel, NULL);
	Oid			previous = InvalidOid;
	Relation   *indexes;
	int			nindexes;
	int			valid;
	IndexScanDesc scan;

	AssertNoPageLocked();
	valid = toast_open_indexes(toast->rel, AccessShareLock, &indexes,
							   &nindexes);
	scan = index_beginscan(toast->rel, indexes[valid], toast->snapshot, NULL,
						   0, 0);
	index_rescan(scan, NULL, 0, NULL, 0);
	while (index_getnext_slot(scan, ForwardScanDirection, slot))
	{
		bool		isnull;
		Oid			value = DatumGetObjectId(slot_getattr(slot, 1, &isnull));

		CHECK_FOR_INTERRUPTS();
		if (value == previous)
			continue;
		previous = value;
		while (toast->value < (int64) value)
			next_value(toast);
		if (toast->value != (int64) value)
			zheap_check_page_complain(check,
									  psprintf("value %u in toast table \"%s\", at (%u,%u), to which no row points",
											   value,
											   RelationGetRelationName(toast->rel),
											   ItemPointerGetBlockNumber(&slot->tts_tid),
											   ItemPointerGetOffsetNumber(&slot->tts_tid)),
									  "a row that points to it");
	}
	index_endscan(scan);
	toast_close_indexes(indexes, nindexes, AccessShareLock);
	ExecDropSingleTupleTableSlot(slot);
}

void
zheap_check_toast_orphans(ZCheck *check, ZToastCheck *toast)
{
	AssertNoPageLocked();
	/* heap's rewrites leave the values of old versions behind */
	if (toast == NULL ||
		toast->rel->rd_tableam != check->rel->rd_tableam)
		return;
	tuplesort_performsort(toast->values);
	next_value(toast);
	(void) zheap_check_page_guard(check, check_chunks, toast);
}
