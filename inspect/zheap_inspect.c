/*-------------------------------------------------------------------------
 *
 * zheap_inspect.c
 *	  SQL functions to look at pages, xact slots, undo records and logs.
 *
 * Pages are copied under the share lock and looked at afterwards.  Nothing is
 * changed, not even hints.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "funcapi.h"
#include "lib/stringinfo.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/xid8.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_shmem.h"
#include "inspect/zheap_inspect.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_ring.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "inspect/zheap_inspect.h"

PG_FUNCTION_INFO_V1(zheap_page_items);
PG_FUNCTION_INFO_V1(zheap_page_flags);
PG_FUNCTION_INFO_V1(zheap_page_slots);
PG_FUNCTION_INFO_V1(zheap_undo_records);
PG_FUNCTION_INFO_V1(pg_stat_get_zheap_undo_logs);
PG_FUNCTION_INFO_V1(pg_zheap_undo_size);
PG_FUNCTION_INFO_V1(pg_zheap_undo_file_size);
PG_FUNCTION_INFO_V1(zheap_horizons);

/* ----------------------------------------------------------------
 *	help
 * ----------------------------------------------------------------
 */

/* name of a bit or of the value of a group of bits */
typedef struct FlagName
{
	uint16		mask;
	uint16		value;
	const char *name;
} FlagName;

static ArrayType *
flags_to_array(uint16 flags, const FlagName *names, int nnames,
			   Datum *more, int nmore)
{
	Datum	   *items = palloc((nnames + nmore) * sizeof(Datum));
	int			n = 0;

	for (int i = 0; i < nmore; i++)
		items[n++] = more[i];
	for (int i = 0; i < nnames; i++)
	{
		if ((flags & names[i].mask) == names[i].value)
			items[n++] = CStringGetTextDatum(names[i].name);
	}
	return construct_array(items, n, TEXTOID, -1, false, TYPALIGN_INT);
}

static Datum
urp_to_text(UndoRecPtr urp)
{
	return PointerGetDatum(cstring_to_text(psprintf(UndoRecPtrFormat,
													UndoRecPtrFormatArgs(urp))));
}

#define FxidGetDatum(f) \
	FullTransactionIdGetDatum(FullTransactionIdFromU64(f))

void
zheap_inspect_put_row(FunctionCallInfo fcinfo, Datum *values, bool *nulls)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

Relation
zheap_inspect_open(Oid relid, LOCKMODE lockmode)
{
	Relation	rel = relation_open(relid, lockmode);

	undo_shmem_require();
	if (!RELKIND_HAS_TABLE_AM(rel->rd_rel->relkind) ||
		rel->rd_rel->relam != get_table_am_oid("zheap", false))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a table of access method zheap",
						RelationGetRelationName(rel))));
	if (RELATION_IS_OTHER_TEMP(rel))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary tables of other sessions")));
	if (RecoveryInProgress() && rel->rd_rel->relpersistence ==
		RELPERSISTENCE_UNLOGGED)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("cannot access temporary or unlogged relations during recovery")));
	return rel;
}

/*
 * Copy a block.  Returns false if the page is new; ERROR if it is beyond the
 * end or isn't a zheap page.
 */
static bool
copy_block(Relation rel, int64 block, char *copy)
{
	Buffer		buffer;

	if (block < 0 || block >= RelationGetNumberOfBlocks(rel))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("block %lld is out of range for table \"%s\"",
						(long long) block, RelationGetRelationName(rel))));
	buffer = ReadBuffer(rel, (BlockNumber) block);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	if (PageIsNew((Page) copy))
		return false;
	zheap_page_check(rel, (BlockNumber) block, (Page) copy);
	return true;
}

/* ----------------------------------------------------------------
 *	pages
 * ----------------------------------------------------------------
 */

static const FlagName flags1_names[] = {
	{ZH_HASNULL, ZH_HASNULL, "hasnull"},
	{ZH_HASEXTERNAL, ZH_HASEXTERNAL, "hasexternal"},
	{ZH_HASVARWIDTH, ZH_HASVARWIDTH, "hasvarwidth"},
	{ZH_SLACK, ZH_SLACK, "slack"}
};

static const FlagName flags2_names[] = {
	{ZH_INPLACE, ZH_INPLACE, "inplace"},
	{ZH_END_MASK, ZH_DELETED, "deleted"},
	{ZH_END_MASK, ZH_MOVED, "moved"},
	{ZH_END_MASK, ZH_MOVED_PARTITION, "moved_partition"},
	{ZH_REUSED_MASK, ZH_REUSED_FAMILY, "reused_family"},
	{ZH_REUSED_MASK, ZH_REUSED_FOREIGN, "reused_foreign"},
	{ZH_LOCK_ONLY, ZH_LOCK_ONLY, "lock_only"},
	{ZH_MULTI_LOCKED, ZH_MULTI_LOCKED, "multi_locked"},
	{ZH_MANY, ZH_MANY, "many"},
	{ZH_SPECULATIVE, ZH_SPECULATIVE, "speculative"},
	{ZH_STALE, ZH_STALE, "stale"},
	{ZH_SWEPT, ZH_SWEPT, "swept"}
};

/* names of flags1, then those of flags2 */
static Datum
header_flags(const ZTupleHeader *header)
{
	ArrayType  *first = flags_to_array(header->natts_flags1, flags1_names,
									   lengthof(flags1_names), NULL, 0);
	Datum	   *items;
	int			n;

	deconstruct_array(first, TEXTOID, -1, false, TYPALIGN_INT, &items, NULL,
					  &n);
	return PointerGetDatum(flags_to_array(header->flags2, flags2_names,
										  lengthof(flags2_names), items, n));
}

static const char *
pointer_state(ItemId lp)
{
	if (ItemIdIsNormal(lp))
		return "normal";
	if (ItemIdIsDead(lp))
		return "dead";
	if (ZItemIdIsSpilled(lp))
		return "spilled";
	return ItemIdIsUsed(lp) ? "unknown" : "unused";
}

Datum
zheap_page_items(PG_FUNCTION_ARGS)
{
	Relation	rel = zheap_inspect_open(PG_GETARG_OID(0), AccessShareLock);
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;

	InitMaterializedSRF(fcinfo, 0);
	if (copy_block(rel, PG_GETARG_INT64(1), copy.data))
	{
		OffsetNumber max = PageGetMaxOffsetNumber(page);

		for (OffsetNumber off = FirstOffsetNumber; off <= max; off++)
		{
			ItemId		lp = PageGetItemId(page, off);
			Datum		values[7];
			bool		nulls[7] = {false};

			values[0] = Int16GetDatum(off);
			values[1] = Int16GetDatum(lp->lp_off);
			values[2] = Int16GetDatum(lp->lp_len);
			values[3] = CStringGetTextDatum(pointer_state(lp));
			if (ItemIdIsNormal(lp) && lp->lp_len >= ZHEAP_HEADER_SIZE &&
				lp->lp_off + lp->lp_len <= BLCKSZ)
			{
				ZTupleHeader header;

				zheap_header_get(copy.data + lp->lp_off, &header);
				values[4] = Int16GetDatum(header.slot);
				values[5] = Int16GetDatum(ZHeaderNatts(&header));
				values[6] = header_flags(&header);
			}
			else
				nulls[4] = nulls[5] = nulls[6] = true;
			zheap_inspect_put_row(fcinfo, values, nulls);
		}
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* bits of the opaque; all_visible is one of core's */
static const FlagName page_flag_names[] = {
	{ZPAGE_HAS_SPILL, ZPAGE_HAS_SPILL, "has_spill"},
	{ZPAGE_ALL_RESOLVED, ZPAGE_ALL_RESOLVED, "all_resolved"},
	{ZPAGE_ANNOUNCED, ZPAGE_ANNOUNCED, "announced"},
	{ZPAGE_KEYS_ALLOWED, ZPAGE_KEYS_ALLOWED, "keys_allowed"},
	{ZPAGE_HAS_SHARED, ZPAGE_HAS_SHARED, "has_shared"},
	{ZPAGE_HAS_STALE, ZPAGE_HAS_STALE, "stale"}
};

Datum
zheap_page_flags(PG_FUNCTION_ARGS)
{
	Relation	rel = zheap_inspect_open(PG_GETARG_OID(0), AccessShareLock);
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	bool		used = copy_block(rel, PG_GETARG_INT64(1), copy.data);
	Datum		more[2];
	int			n = 0;

	relation_close(rel, AccessShareLock);
	if (!used)
		PG_RETURN_NULL();
	if (PageIsAllVisible(page))
		more[n++] = CStringGetTextDatum("all_visible");
	PG_RETURN_ARRAYTYPE_P(flags_to_array(ZPageGetOpaque(page)->flags,
										 page_flag_names,
										 lengthof(page_flag_names), more, n));
}

static const char *
status_name(Fxid fxid, const UndoHorizons *hz)
{
	switch (zheap_xact_slot_fxid_status(fxid, hz))
	{
		case ZXACT_ALL_VISIBLE:
			return "all visible";
		case ZXACT_CURRENT:
			return "current";
		case ZXACT_RUNNING:
			return "running";
		case ZXACT_COMMITTED:
			return "committed";
		case ZXACT_ABORTED:
			return "aborted";
	}
	return "unknown";
}

/* the shared one, with the youngest transaction that its chain names */
static void
put_shared_slot(FunctionCallInfo fcinfo, ZXactSlot slot)
{
	bool		empty = slot->fxid_bits == 0;
	Datum		values[5];
	bool		nulls[5] = {false, empty, empty, false, false};

	values[0] = Int16GetDatum(ZXACT_SHARED);
	values[1] = FxidGetDatum(ZSharedYoungest(slot));
	values[2] = empty ? (Datum) 0 : urp_to_text(slot->urp);
	values[3] = BoolGetDatum(false);
	values[4] = CStringGetTextDatum(empty ? "free" : "shared");
	zheap_inspect_put_row(fcinfo, values, nulls);
}

Datum
zheap_page_slots(PG_FUNCTION_ARGS)
{
	Relation	rel = zheap_inspect_open(PG_GETARG_OID(0), AccessShareLock);
	UndoHorizons hz = undo_log_horizons();
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;

	InitMaterializedSRF(fcinfo, 0);
	if (copy_block(rel, PG_GETARG_INT64(1), copy.data))
	{
		for (int id = 1; id <= ZPageGetOpaque(page)->nslots; id++)
		{
			ZXactSlot	slot = ZPageGetXactSlot(page, id);
			Datum		values[5];
			bool		nulls[5] = {false};

			values[0] = Int16GetDatum(id);
			if (ZXactSlotIsFree(slot))
			{
				nulls[1] = nulls[2] = true;
				values[3] = BoolGetDatum(false);
				values[4] = CStringGetTextDatum("free");
			}
			else
			{
				values[1] = FxidGetDatum(ZXactSlotFxid(slot));
				values[2] = urp_to_text(slot->urp);
				values[3] = BoolGetDatum(ZXactSlotIsAmbiguous(slot));
				values[4] =
					CStringGetTextDatum(status_name(ZXactSlotFxid(slot),
													&hz));
			}
			zheap_inspect_put_row(fcinfo, values, nulls);
		}
		if (ZPageHasShared(page))
			put_shared_slot(fcinfo, ZPageGetShared(page));
	}
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 *	undo records
 * ----------------------------------------------------------------
 */

static const FlagName undo_flag_names[] = {
	{ZUNDO_TENURE_START, ZUNDO_TENURE_START, "tenure_start"},
	{ZUNDO_FAMILY, ZUNDO_FAMILY, "family"},
	{ZUNDO_BASE, ZUNDO_BASE, "base"},
	{ZUNDO_OLD_MASK, ZUNDO_OLD_IN_CHAIN, "old_in_chain"},
	{ZUNDO_OLD_MASK, ZUNDO_OLD_LINK, "old_link"},
	{ZUNDO_OLD_MASK, ZUNDO_OLD_ELSEWHERE, "old_elsewhere"},
	{ZUNDO_PLAIN, ZUNDO_PLAIN, "plain"}
};

/* the flags' names; what two bits mean depends on the record's kind */
static Datum
undo_flags_to_array(const ZUndo *undo)
{
	Datum		more[2];
	int			n = 0;

	if (undo->kind == ZUNDO_INSERT_SET ? undo->flags & ZUNDO_KEPT_KEY :
		undo->flags & ZUNDO_KEY)
		more[n++] = CStringGetTextDatum(undo->kind == ZUNDO_INSERT_SET ?
										"kept_key" : "key");
	if (ZUndoHasJump(undo))
		more[n++] = CStringGetTextDatum("jump");
	else if (ZUndoIsOpenDelete(undo))
		more[n++] = CStringGetTextDatum("open");
	else if (ZUndoIsShared(undo))
		more[n++] = CStringGetTextDatum("shared");
	return PointerGetDatum(flags_to_array(undo->flags, undo_flag_names,
										  lengthof(undo_flag_names), more, n));
}

static const char *
undo_kind_name(uint8 kind)
{
	switch (kind)
	{
		case ZUNDO_INSERT_OPEN:
			return "insert_open";
		case ZUNDO_INSERT_SET:
			return "insert_set";
		case ZUNDO_UPDATE:
			return "update";
		case ZUNDO_DELETE:
			return "delete";
		case ZUNDO_MOVE:
			return "move";
		case ZUNDO_LOCK:
			return "lock";
		case ZUNDO_SPILL:
			return "spill";
		case ZUNDO_LIST:
			return "list";
		default:
			return "unknown";
	}
}

/*
 * The chain of an xact slot, or of spilled rows (0), as far as its undo is
 * sure to be there: it ends below discard_before.
 */
Datum
zheap_undo_records(PG_FUNCTION_ARGS)
{
	Relation	rel = zheap_inspect_open(PG_GETARG_OID(0), AccessShareLock);
	int64		block = PG_GETARG_INT64(1);
	int32		id = PG_GETARG_INT32(2);
	PGAlignedBlock copy;
	Page		page = (Page) copy.data;
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	ZUndo	   *undo = palloc(sizeof(ZUndo));
	UndoReader	reader;
	ZRing		ring;
	UndoRecPtr	urp = InvalidUndoRecPtr;
	Fxid		writer = InvalidFxid;
	bool		shared = false;
	bool		ends = false;

	InitMaterializedSRF(fcinfo, 0);
	if (copy_block(rel, block, copy.data))
	{
		ZXactSlot	slot = NULL;

		shared = id == ZXACT_SHARED && ZPageHasShared(page);
		if (shared && (ZPageGetShared(page)->fxid_bits & ZSHARED_BASE) == 0)
		{
			slot = ZPageGetShared(page);
			writer = ZSharedYoungest(slot);
			ends = (slot->fxid_bits & ZSHARED_ENDS) != 0;
			urp = slot->urp;
		}
		else if (shared)
			;
		else if (id < 0 || id > ZPageGetOpaque(page)->nslots)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("block %lld of table \"%s\" has %d transaction slots",
							(long long) block, RelationGetRelationName(rel),
							ZPageGetOpaque(page)->nslots)));
		if (id > 0 && !shared)
			slot = ZPageGetXactSlot(page, id);
		else if (id == 0 && (ZPageGetOpaque(page)->flags & ZPAGE_HAS_SPILL))
			slot = ZPageGetSpill(page);
		if (slot != NULL && !shared)
		{
			writer = ZXactSlotFxid(slot);
			urp = slot->urp;
		}
	}

	undo_record_reader_open(&reader, rel);
	zheap_ring_begin(&ring);
	/* a damaged page may name a record without a transaction */
	while (UndoRecPtrIsValid(urp) && writer != InvalidFxid &&
		   (shared || writer >= undo_log_horizons().discard_before))
	{
		Datum		values[8];
		bool		nulls[8] = {false};
		bool		start;

		CHECK_FOR_INTERRUPTS();
		if (shared ?
			!undo_record_fetch_kept(&reader, urp, writer, ends,
									(BlockNumber) block, rec) :
			!undo_record_fetch(&reader, urp, writer, (BlockNumber) block,
							   false, rec))
			break;
		zheap_undo_decode(rec, undo);
		start = (undo->flags & ZUNDO_TENURE_START) != 0;

		values[0] = urp_to_text(urp);
		values[1] = CStringGetTextDatum(undo_kind_name(undo->kind));
		values[2] = undo_flags_to_array(undo);
		values[3] = Int16GetDatum(undo->offset);
		values[4] = FxidGetDatum(rec->writer);
		values[5] = Int64GetDatum((int64) undo->cid);
		values[6] = FxidGetDatum(undo->prev_fxid);
		nulls[6] = !start || undo->prev_fxid == InvalidFxid;
		values[7] = Int32GetDatum(rec->len);
		zheap_inspect_put_row(fcinfo, values, nulls);

		if (start)
		{
			writer = undo->prev_fxid;
			if (writer == InvalidFxid)
				break;
			shared = false;
		}
		else if (shared)
		{
			writer = undo->below_youngest;
			ends = undo->below_ends;
		}
		urp = undo->chain;
		zheap_ring_step(&ring, writer, urp, (BlockNumber) block);
	}
	undo_record_reader_close(&reader);
	relation_close(rel, AccessShareLock);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 *	undo logs
 * ----------------------------------------------------------------
 */

static const char *
log_state_name(uint32 state)
{
	switch ((UndoLogState) state)
	{
		case UNDO_LOG_ABSENT:
			return "absent";
		case UNDO_LOG_FREE:
			return "free";
		case UNDO_LOG_ATTACHED:
			return "attached";
		case UNDO_LOG_RESTING:
			return "resting";
		case UNDO_LOG_BUSY:
			return "busy";
		case UNDO_LOG_RETIRED:
			return "retired";
	}
	return "unknown";
}

/* logs of unlogged tables mean nothing while standing by */
static bool
log_is_readable(char persistence)
{
	return persistence != RELPERSISTENCE_UNLOGGED || !RecoveryInProgress();
}

/* physical size of a log's file */
static uint64
log_file_blocks(char persistence, UndoLogNumber log)
{
	return undo_file_blocks(undo_file_of_log(persistence, log));
}

typedef uint64 (*log_measure_fn) (char persistence, UndoLogNumber log);

/* bytes, over all logs that exist */
static int64
sum_over_logs(log_measure_fn measure)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	uint64		blocks = 0;

	for (int k = 0; k < lengthof(kinds); k++)
	{
		int			n = log_is_readable(kinds[k]) ?
			undo_shmem_log_count(kinds[k]) : 0;

		for (UndoLogNumber log = 0; log < n; log++)
		{
			CHECK_FOR_INTERRUPTS();
			if (pg_atomic_read_u32(&undo_shmem_log(kinds[k], log)->state) !=
				UNDO_LOG_ABSENT)
				blocks += measure(kinds[k], log);
		}
	}
	return (int64) (blocks * BLCKSZ);
}

Datum
pg_zheap_undo_size(PG_FUNCTION_ARGS)
{
	(void) undo_log_horizons(); /* loads shared state */
	PG_RETURN_INT64(sum_over_logs(undo_holders_retained_pages));
}

Datum
pg_zheap_undo_file_size(PG_FUNCTION_ARGS)
{
	(void) undo_log_horizons();
	PG_RETURN_INT64(sum_over_logs(log_file_blocks));
}

static void
put_log(FunctionCallInfo fcinfo, char persistence, UndoLogNumber log)
{
	UndoLogShared *shared = undo_shmem_log(persistence, log);
	uint32		state = pg_atomic_read_u32(&shared->state);
	uint64		head = pg_atomic_read_u64(&shared->head);
	BlockNumber tail = pg_atomic_read_u32(&shared->tail);
	uint32		pid = pg_atomic_read_u32(&shared->owner_pid);
	Datum		values[10];
	bool		nulls[10] = {false};

	if (state == UNDO_LOG_ABSENT)
		return;
	values[0] = Int32GetDatum((int32) log);
	values[1] = CStringGetTextDatum(persistence == RELPERSISTENCE_PERMANENT ?
									"permanent" : "unlogged");
	values[2] = CStringGetTextDatum(log_state_name(state));
	values[3] = Int32GetDatum((int32) pid);
	nulls[3] = pid == 0;
	nulls[4] = !BlockNumberIsValid(UndoLogHeadBlock(head));
	if (!nulls[4])
		values[4] = urp_to_text(MakeUndoRecPtr(log, UndoLogHeadBlock(head),
											   UndoLogHeadOffset(head)));
	nulls[5] = !BlockNumberIsValid(tail);
	if (!nulls[5])
		values[5] = CStringGetTextDatum(psprintf("%u/%u", log, tail));
	values[6] =
		Int64GetDatum((int64) pg_atomic_read_u32(&shared->used_blocks));
	values[7] =
		Int64GetDatum((int64) (undo_holders_retained_pages(persistence, log) *
							   BLCKSZ));
	values[8] =
		Int64GetDatum((int64) pg_atomic_read_u64(&shared->bytes_written));
	values[9] = Int64GetDatum((int64) pg_atomic_read_u64(&shared->records));
	zheap_inspect_put_row(fcinfo, values, nulls);
}

Datum
pg_stat_get_zheap_undo_logs(PG_FUNCTION_ARGS)
{
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};

	(void) undo_log_horizons();
	InitMaterializedSRF(fcinfo, 0);
	for (int k = 0; k < lengthof(kinds); k++)
	{
		int			n = log_is_readable(kinds[k]) ?
			undo_shmem_log_count(kinds[k]) : 0;

		for (UndoLogNumber log = 0; log < n; log++)
			put_log(fcinfo, kinds[k], log);
	}
	return (Datum) 0;
}

Datum
zheap_horizons(PG_FUNCTION_ARGS)
{
	UndoHorizons hz = undo_log_horizons();
	TupleDesc	desc;
	Datum		values[2];
	bool		nulls[2] = {false};

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	values[0] = FxidGetDatum(hz.all_visible_before);
	values[1] = FxidGetDatum(hz.discard_before);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}
