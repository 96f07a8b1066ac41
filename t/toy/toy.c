/*-------------------------------------------------------------------------
 *
 * toy.c
 *	  A client of the undo store that has no pages of its own: it writes undo
 *	  records by SQL function, reads them back, and notes which pages it was
 *	  asked to roll back.  It proves that the store stands without zheap.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/relation.h"
#include "access/xact.h"
#include "access/xlog_internal.h"
#include "access/xloginsert.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "undo/undo.h"
#include "undo/log/undo_shmem.h"
#include "undo/rollback/undo_worker.h"

PG_MODULE_MAGIC;

#define XLOG_TOY_WRITE		0x70

typedef struct ToyWriteRecord
{
	uint16		offset;			/* of the undo record */
	uint16		unused;
	BlockNumber block;			/* of the relation */
} ToyWriteRecord;

#define TOY_KIND			1
#define TOY_MAX_ASKED		256

typedef struct ToyAsked
{
	Oid			reloid;
	BlockNumber block;
	int			times;
	int			background;
} ToyAsked;

typedef struct ToyShared
{
	LWLock	   *lock;
	int			nasked;
	ToyAsked	asked[TOY_MAX_ASKED];
} ToyShared;

static ToyShared *toy_shared;
static int	toy_fail_block = -1;
static shmem_request_hook_type prev_request = NULL;
static shmem_startup_hook_type prev_startup = NULL;

PG_FUNCTION_INFO_V1(toy_write);
PG_FUNCTION_INFO_V1(toy_read);
PG_FUNCTION_INFO_V1(toy_read_kept);
PG_FUNCTION_INFO_V1(toy_chain);
PG_FUNCTION_INFO_V1(toy_outer_error);
PG_FUNCTION_INFO_V1(toy_asked);
PG_FUNCTION_INFO_V1(toy_forget_asked);
PG_FUNCTION_INFO_V1(toy_undo_logs);
PG_FUNCTION_INFO_V1(toy_horizons);
PG_FUNCTION_INFO_V1(toy_has_unapplied);

void		_PG_init(void);

/* ----------------------------------------------------------------
 *	what a client registers
 * ----------------------------------------------------------------
 */

static void
toy_rollback_page(Relation rel, BlockNumber block)
{
	int			i;

	if (toy_fail_block >= 0 && block == (BlockNumber) toy_fail_block)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("toy rollback of block %u fails as it was told to",
						block)));

	LWLockAcquire(toy_shared->lock, LW_EXCLUSIVE);
	for (i = 0; i < toy_shared->nasked; i++)
		if (toy_shared->asked[i].reloid == RelationGetRelid(rel) &&
			toy_shared->asked[i].block == block)
			break;
	if (i == toy_shared->nasked && i < TOY_MAX_ASKED)
	{
		memset(&toy_shared->asked[i], 0, sizeof(ToyAsked));
		toy_shared->asked[i].reloid = RelationGetRelid(rel);
		toy_shared->asked[i].block = block;
		toy_shared->nasked++;
	}
	if (i < TOY_MAX_ASKED)
	{
		toy_shared->asked[i].times++;
		if (MyBgworkerEntry != NULL)
			toy_shared->asked[i].background++;
	}
	LWLockRelease(toy_shared->lock);
}

/* the toy's relations are ordinary tables */
static Oid
toy_am(void)
{
	return HEAP_TABLE_AM_OID;
}

static void
toy_redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info <= XLOG_UNDO_LAST)
		undo_redo(record);
	else if (info == XLOG_TOY_WRITE)
	{
		ToyWriteRecord *data = (ToyWriteRecord *) XLogRecGetData(record);

		undo_insert_redo(record, 0, data->offset, &data->block,
						 InvalidOffsetNumber);
	}
	else
		elog(PANIC, "undo_toy: unknown record %u", info);
}

static void
toy_desc(StringInfo buf, XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;

	if (info <= XLOG_UNDO_LAST)
		undo_desc(buf, record);
	else
		appendStringInfo(buf, "offset %u",
						 ((ToyWriteRecord *) XLogRecGetData(record))->offset);
}

static const char *
toy_identify(uint8 info)
{
	if ((info & ~XLR_INFO_MASK) <= XLOG_UNDO_LAST)
		return undo_identify(info);
	return "TOY_WRITE";
}

static void
toy_mask(char *page, BlockNumber block)
{
	if (!undo_page_mask(page, block))
		elog(ERROR, "block %u is not a page of the undo store", block);
}

static RmgrData toy_rmgr = {
	.rm_name = ZHEAP_RMGR_NAME,
	.rm_redo = toy_redo,
	.rm_desc = toy_desc,
	.rm_identify = toy_identify,
	.rm_mask = toy_mask,
};

static void
toy_shmem_request(void)
{
	if (prev_request)
		prev_request();
	undo_shmem_request();
	undo_stat_shmem_request();
	undo_snapshot_limit_shmem_request();
	RequestAddinShmemSpace(MAXALIGN(sizeof(ToyShared)));
	RequestNamedLWLockTranche("undo_toy", 1);
}

static void
toy_shmem_startup(void)
{
	bool		found;

	if (prev_startup)
		prev_startup();
	undo_shmem_startup();
	undo_stat_shmem_startup();
	undo_snapshot_limit_shmem_startup();
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	toy_shared = ShmemInitStruct("undo_toy", sizeof(ToyShared), &found);
	if (!found)
	{
		memset(toy_shared, 0, sizeof(ToyShared));
		toy_shared->lock = &(GetNamedLWLockTranche("undo_toy"))->lock;
	}
	LWLockRelease(AddinShmemInitLock);
}

void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("undo_toy must be loaded via shared_preload_libraries")));

	undo_xact_define_settings();
	undo_launcher_define_settings();
	DefineCustomIntVariable("undo_toy.fail_block",
							"Rolling back this block fails.", NULL,
							&toy_fail_block, -1, -1, INT_MAX, PGC_SUSET, 0,
							NULL, NULL, NULL);
	prev_request = shmem_request_hook;
	shmem_request_hook = toy_shmem_request;
	prev_startup = shmem_startup_hook;
	shmem_startup_hook = toy_shmem_startup;
	RegisterCustomRmgr(ZHEAP_RMGR_ID, &toy_rmgr);
	undo_apply_register_client(toy_rollback_page, toy_am);
	undo_xact_register_callbacks();
	undo_launcher_register();
}

/* ----------------------------------------------------------------
 *	writing
 * ----------------------------------------------------------------
 */

static void
fill_payload(char *payload, int size, uint32 number)
{
	for (int i = 0; i < size; i++)
		payload[i] = (char) ((number + i) & 0xFF);
}

static bool
payload_is_right(const UndoRecord *rec)
{
	for (int i = 1; i < rec->payload_len; i++)
		if ((uint8) rec->payload[i] != (uint8) (rec->payload[0] + i))
			return false;
	return true;
}

static UndoRecPtr
write_one(Relation rel, BlockNumber block, UndoRecPtr chain,
		  const char *payload, int size, OffsetNumber number, Fxid keep_for,
		  bool until_u, Fxid *writer)
{
	UndoInsertion ins;
	UndoRecPtr	urp;

	undo_insertion_init(&ins, rel);
	if (keep_for != InvalidFxid)
		undo_insertion_keep(&ins, keep_for, until_u);
	undo_insertion_add(&ins, TOY_KIND, 0, block, number, chain, payload, size);
	undo_insert_prepare(&ins);

	START_CRIT_SECTION();
	undo_insert_apply(&ins);
	if (RelationNeedsWAL(rel))
	{
		ToyWriteRecord data = {0};
		XLogRecPtr	lsn;

		data.offset = undo_insertion_offset(&ins, 0);
		data.block = block;
		XLogBeginInsert();
		XLogRegisterData((char *) &data, sizeof(data));
		undo_insert_register(&ins, 0, InvalidOffsetNumber);
		lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_TOY_WRITE);
		undo_insert_set_lsn(&ins, lsn);
	}
	else
		undo_insert_log_alone(&ins);
	END_CRIT_SECTION();
	urp = ins.rec[0].urp;
	*writer = ins.fxid;
	undo_insert_release(&ins);
	return urp;
}

/*
 * Abort a subtransaction inside a catch block, and throw the error on, as an
 * apply worker does: it must arrive although the rollback may fail too.
 */
Datum
toy_outer_error(PG_FUNCTION_ARGS)
{
	Oid			reloid = PG_GETARG_OID(0);
	BlockNumber block = PG_GETARG_INT32(1);
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;

	(void) undo_log_horizons();
	BeginInternalSubTransaction(NULL);
	PG_TRY();
	{
		Relation	rel = relation_open(reloid, RowExclusiveLock);
		Fxid		writer;

		write_one(rel, block, InvalidUndoRecPtr, "x", 1, 1, InvalidFxid,
				  false, &writer);
		ereport(ERROR,
				(errcode(ERRCODE_RAISE_EXCEPTION),
				 errmsg("outer error of block %u", block),
				 errdetail("It has a detail.")));
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		PG_RE_THROW();
	}
	PG_END_TRY();
	PG_RETURN_VOID();
}

static TupleDesc
result_desc(FunctionCallInfo fcinfo)
{
	TupleDesc	desc;

	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	return BlessTupleDesc(desc);
}

Datum
toy_write(PG_FUNCTION_ARGS)
{
	Oid			reloid = PG_GETARG_OID(0);
	int			n = PG_GETARG_INT32(1);
	int			size = PG_GETARG_INT32(2);
	BlockNumber block = PG_GETARG_INT32(3);
	Fxid		keep_for = (Fxid) PG_GETARG_INT64(4);
	Relation	rel = relation_open(reloid, RowExclusiveLock);
	UndoRecPtr	urp = InvalidUndoRecPtr;
	Fxid		writer = InvalidFxid;
	char	   *payload;
	Datum		values[2];
	bool		nulls[2] = {0};

	if (size < 0 || size > UNDO_MAX_PAYLOAD)
		elog(ERROR, "payload size must be in 0 .. %d", (int) UNDO_MAX_PAYLOAD);
	/* a writer samples the horizons first; that loads the store if need be */
	(void) undo_log_horizons();
	payload = palloc(size + 1);
	for (int i = 0; i < n; i++)
	{
		CHECK_FOR_INTERRUPTS();
		fill_payload(payload, size, i);
		urp = write_one(rel, block, urp, payload, size,
						(OffsetNumber) (i % 60000 + 1), keep_for,
						PG_GETARG_BOOL(5), &writer);
	}
	relation_close(rel, NoLock);
	values[0] = Int64GetDatum((int64) urp);
	values[1] = Int64GetDatum((int64) writer);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(result_desc(fcinfo),
													  values, nulls)));
}

/* ----------------------------------------------------------------
 *	reading
 * ----------------------------------------------------------------
 */

static Datum
record_text(const UndoRecord *rec)
{
	return CStringGetTextDatum(psprintf("kind %u, offset %u, block %u, %u bytes, %s",
										rec->kind, rec->offset, rec->block,
										rec->payload_len,
										payload_is_right(rec) ? "right" :
										"WRONG"));
}

Datum
toy_read(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	UndoReader	reader;
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	bool		found;

	undo_record_reader_open(&reader, rel);
	found = undo_record_fetch(&reader, (UndoRecPtr) PG_GETARG_INT64(1),
							  (Fxid) PG_GETARG_INT64(2), PG_GETARG_INT32(3),
							  PG_GETARG_BOOL(4), rec);
	undo_record_reader_close(&reader);
	relation_close(rel, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	return record_text(rec);
}

Datum
toy_read_kept(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	UndoReader	reader;
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	bool		found;

	undo_record_reader_open(&reader, rel);
	found = undo_record_fetch_kept(&reader, (UndoRecPtr) PG_GETARG_INT64(1),
								   (Fxid) PG_GETARG_INT64(2),
								   PG_GETARG_BOOL(3), PG_GETARG_INT32(4),
								   rec);
	undo_record_reader_close(&reader);
	relation_close(rel, AccessShareLock);
	if (!found)
		PG_RETURN_NULL();
	return record_text(rec);
}

Datum
toy_chain(PG_FUNCTION_ARGS)
{
	Relation	rel = relation_open(PG_GETARG_OID(0), AccessShareLock);
	UndoRecPtr	urp = (UndoRecPtr) PG_GETARG_INT64(1);
	UndoReader	reader;
	UndoRecord *rec = palloc(sizeof(UndoRecord));
	int			n = 0;

	undo_record_reader_open(&reader, rel);
	while (UndoRecPtrIsValid(urp))
	{
		CHECK_FOR_INTERRUPTS();
		if (!undo_record_fetch(&reader, urp, (Fxid) PG_GETARG_INT64(2),
							   PG_GETARG_INT32(3), false, rec))
			break;
		if (!payload_is_right(rec) || rec->reloid != RelationGetRelid(rel))
			elog(ERROR, "record " UndoRecPtrFormat " is wrong",
				 UndoRecPtrFormatArgs(urp));
		n++;
		urp = rec->chain;
	}
	undo_record_reader_close(&reader);
	relation_close(rel, AccessShareLock);
	PG_RETURN_INT32(n);
}

/* ----------------------------------------------------------------
 *	looking inside
 * ----------------------------------------------------------------
 */

Datum
toy_asked(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	LWLockAcquire(toy_shared->lock, LW_SHARED);
	for (int i = 0; i < toy_shared->nasked; i++)
	{
		ToyAsked   *asked = &toy_shared->asked[i];
		Datum		values[4];
		bool		nulls[4] = {0};

		values[0] = ObjectIdGetDatum(asked->reloid);
		values[1] = Int32GetDatum((int32) asked->block);
		values[2] = Int32GetDatum(asked->times);
		values[3] = Int32GetDatum(asked->background);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values,
							 nulls);
	}
	LWLockRelease(toy_shared->lock);
	return (Datum) 0;
}

Datum
toy_forget_asked(PG_FUNCTION_ARGS)
{
	LWLockAcquire(toy_shared->lock, LW_EXCLUSIVE);
	toy_shared->nasked = 0;
	LWLockRelease(toy_shared->lock);
	PG_RETURN_VOID();
}

Datum
toy_undo_logs(PG_FUNCTION_ARGS)
{
	static const char *const states[] = {"absent", "free", "attached",
	"resting", "busy", "retired"};
	static const char kinds[] =
	{RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	(void) undo_log_horizons();
	for (int k = 0; k < 2; k++)
		for (int i = 0; i < undo_shmem_log_count(kinds[k]); i++)
		{
			UndoLogShared *log = undo_shmem_log(kinds[k], i);
			uint64		head = pg_atomic_read_u64(&log->head);
			BlockNumber tail = pg_atomic_read_u32(&log->tail);
			Datum		values[10];
			bool		nulls[10] = {0};

			values[0] = CStringGetTextDatum(k == 0 ? "p" : "u");
			values[1] = Int32GetDatum(i);
			values[2] =
				CStringGetTextDatum(states[pg_atomic_read_u32(&log->state)]);
			values[3] = Int64GetDatum(UndoLogHeadBlock(head));
			values[4] = Int32GetDatum(UndoLogHeadOffset(head));
			values[5] = Int64GetDatum(tail);
			values[6] = Int64GetDatum(pg_atomic_read_u32(&log->used_blocks));
			values[7] = Int64GetDatum((int64) pg_atomic_read_u64(&log->seq));
			values[8] = Int64GetDatum(pg_atomic_read_u32(&log->pending));
			values[9] = Int32GetDatum(pg_atomic_read_u32(&log->owner_pid));
			nulls[3] = nulls[4] = nulls[5] = tail == InvalidBlockNumber;
			nulls[8] = pg_atomic_read_u32(&log->pending) == InvalidBlockNumber;
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc,
								 values, nulls);
		}
	return (Datum) 0;
}

Datum
toy_horizons(PG_FUNCTION_ARGS)
{
	UndoHorizons horizons = undo_log_horizons();
	Datum		values[3];
	bool		nulls[3] = {0};

	values[0] = Int64GetDatum((int64) horizons.all_visible_before);
	values[1] = Int64GetDatum((int64) horizons.discard_before);
	values[2] =
		Int64GetDatum((int64) pg_atomic_read_u64(&UndoShmem->oldest_unapplied));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(result_desc(fcinfo),
													  values, nulls)));
}

Datum
toy_has_unapplied(PG_FUNCTION_ARGS)
{
	PG_RETURN_BOOL(undo_scan_has_unapplied(PG_GETARG_OID(0)));
}
