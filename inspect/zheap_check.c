/*-------------------------------------------------------------------------
 *
 * zheap_check.c
 *	  zheap_check(): verifies a table, the undo of its rows, its visibility
 *	  map, its large values, and its indexes both ways.
 *
 * Indexes.  All TIDs of an index are sorted.  Then the table is read in TID
 * order by a snapshot taken before: each row that it sees and that belongs
 * into the index must be there, and every TID that remains must be that of a
 * line pointer in use.  Entries of a btree are also compared with the values
 * of the row.  VACUUM is kept out by its own lock meanwhile, so no entry that
 * the snapshot needs goes away and no line pointer is freed; writers go on.
 * TIDs of other index kinds come from the kind's bulk deletion, with nothing
 * to delete (as CREATE INDEX CONCURRENTLY gets them).  On a standby, where
 * that lock can't be had, only btrees are looked at, from the table's side.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/amapi.h"
#include "access/genam.h"
#include "access/relation.h"
#include "access/tableam.h"
#include "access/xlog.h"
#include "catalog/index.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_operator_d.h"
#include "catalog/pg_type_d.h"
#include "commands/defrem.h"
#include "executor/executor.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "nodes/execnodes.h"
#include "utils/builtins.h"
#include "utils/datum.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/snapmgr.h"
#include "utils/tuplesort.h"

#include "inspect/zheap_inspect.h"
#include "zheap/soft/zheap_keyed.h"

PG_FUNCTION_INFO_V1(zheap_check);

typedef struct IndexCheck
{
	Relation	rel;
	IndexInfo  *info;
	ExprState  *predicate;
	Tuplesortstate *tids;		/* as int8, ascending */
	ResourceOwner owner;		/* of its temporary files */
	int64		tid;			/* the next one, or END_OF_TIDS */
	int64		previous;		/* the one before it, or -1 */
} IndexCheck;

/* state of the pass over table and indexes */
typedef struct IndexPass
{
	Snapshot	snapshot;
	EState	   *estate;
	ExprContext *econtext;
	TupleTableSlot *slot;
	int			nindexes;
	IndexCheck *indexes;
	bool		entries_stay;	/* VACUUM is kept out */
	ZToastCheck *toast;			/* NULL: no toast table */
} IndexPass;

#define END_OF_TIDS		PG_INT64_MAX

static inline int64
encode_tid(const ItemPointerData *tid)
{
	return ((int64) ItemPointerGetBlockNumberNoCheck(tid) << 16) |
		ItemPointerGetOffsetNumberNoCheck(tid);
}

/* findings are about this TID of the table from now on */
static void
look_at_tid(ZCheck *check, int64 tid)
{
	check->block = (BlockNumber) (tid >> 16);
	check->off = (OffsetNumber) (tid & 0xffff);
}

static void
look_at_nothing(ZCheck *check)
{
	check->block = InvalidBlockNumber;
	check->off = InvalidOffsetNumber;
}

static void
complain_of_index(ZCheck *check, IndexCheck *index, const char *what,
				  const char *expected)
{
	zheap_check_page_complain(check,
							  psprintf("index \"%s\": %s",
									   RelationGetRelationName(index->rel),
									   what),
							  expected);
}

/* ----------------------------------------------------------------
 *	the TIDs of an index
 * ----------------------------------------------------------------
 */

static bool
collect_tid(ItemPointer tid, void *arg)
{
	IndexCheck *index = (IndexCheck *) arg;
	ResourceOwner old = CurrentResourceOwner;

	/* files opened for the sort outlive the guard's subtransaction */
	CurrentResourceOwner = index->owner;
	tuplesort_putdatum(index->tids, Int64GetDatum(encode_tid(tid)), false);
	CurrentResourceOwner = old;
	return false;				/* nothing to delete */
}

/* index kinds whose bulk deletion tells every TID */
static bool
lists_tids(Oid am)
{
	if (am == BTREE_AM_OID || am == HASH_AM_OID || am == GIST_AM_OID ||
		am == GIN_AM_OID || am == SPGIST_AM_OID)
		return true;
	return OidIsValid(am) && am == get_index_am_oid("bloom", true);
}

static void
collect_by_bulk_delete(ZCheck *check, IndexCheck *index)
{
	IndexVacuumInfo info = {0};

	info.index = index->rel;
	index_vacuum_set_heap(&info, check->rel);
	info.estimated_count = true;
	info.message_level = DEBUG2;
	info.num_heap_tuples = check->rel->rd_rel->reltuples;
	(void) index_bulk_delete(&info, NULL, collect_tid, index);
}

/* do the row's values, in pass->slot, say what the index entry says */
static bool
entry_matches(IndexPass *pass, IndexCheck *index, IndexTuple entry)
{
	TupleDesc	desc = RelationGetDescr(index->rel);
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];
	Datum		found[INDEX_MAX_KEYS];
	bool		found_null[INDEX_MAX_KEYS];

	pass->econtext->ecxt_scantuple = pass->slot;
	FormIndexDatum(index->info, pass->slot, pass->estate, values, isnull);
	index_deform_tuple(entry, desc, found, found_null);
	for (int i = 0; i < desc->natts; i++)
	{
		/* name_ops stores C strings, not names */
		if (TupleDescAttr(desc, i)->atttypid == CSTRINGOID &&
			!isnull[i] && !found_null[i])
			continue;
		if (zheap_keyed_same_key(index->rel, i, found[i], found_null[i],
								 values[i], isnull[i], true) != ZSAME_YES)
			return false;
	}
	return true;
}

/* defined below */
static void check_pointer(ZCheck *check, void *arg);

static bool
row_is_stale(ZCheck *check, const ItemPointerData *tid)
{
	Buffer		buffer;
	Page		page;
	bool		stale;

	AssertNoPageLocked();
	if (ItemPointerGetBlockNumber(tid) >=
		RelationGetNumberOfBlocks(check->rel))
		return false;
	buffer = ReadBuffer(check->rel, ItemPointerGetBlockNumber(tid));
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	stale = zheap_page_is_valid(page) &&
		zheap_page_row_is_stale(page, ItemPointerGetOffsetNumber(tid));
	UnlockReleaseBuffer(buffer);
	return stale;
}

/*
 * Walk a btree from end to end: TIDs, and the values of rows that the
 * snapshot sees.  Of a row that is STALE only the entry through which it is
 * seen counts (Z49); the others must have a line pointer.
 */
static void
collect_by_scan(ZCheck *check, IndexPass *pass, IndexCheck *index)
{
	IndexScanDesc scan = index_beginscan(check->rel, index->rel,
										 pass->snapshot, NULL, 0, 0);
	ItemPointer tid;

	AssertNoPageLocked();
	scan->xs_want_itup = true;
	scan->ignore_killed_tuples = false;
	index_rescan(scan, NULL, 0, NULL, 0);
	while ((tid = index_getnext_tid(scan, ForwardScanDirection)) != NULL)
	{
		CHECK_FOR_INTERRUPTS();
		ResetPerTupleExprContext(pass->estate);
		if (!index_fetch_heap(scan, pass->slot))
		{
			if (!row_is_stale(check, tid))
				collect_tid(tid, index);
			else if (pass->entries_stay)
			{
				look_at_tid(check, encode_tid(tid));
				(void) zheap_check_page_guard(check, check_pointer, index);
				look_at_nothing(check);
			}
			continue;
		}
		collect_tid(tid, index);
		if (!entry_matches(pass, index, scan->xs_itup))
		{
			look_at_tid(check, encode_tid(tid));
			complain_of_index(check, index,
							  "entry with other values than those of its row",
							  "the row's values");
		}
	}
	index_endscan(scan);
}

static void
next_tid(IndexCheck *index)
{
	Datum		value;
	bool		isnull;

	index->previous = index->tid;
	if (tuplesort_getdatum(index->tids, true, true, &value, &isnull, NULL))
		index->tid = DatumGetInt64(value);
	else
		index->tid = END_OF_TIDS;
}

typedef struct CollectArgs
{
	IndexPass  *pass;
	IndexCheck *index;
} CollectArgs;

static void
collect_tids(ZCheck *check, void *arg)
{
	IndexPass  *pass = ((CollectArgs *) arg)->pass;
	IndexCheck *index = ((CollectArgs *) arg)->index;

	look_at_nothing(check);
	if (index->rel->rd_rel->relam == BTREE_AM_OID)
		collect_by_scan(check, pass, index);
	else
		collect_by_bulk_delete(check, index);
}

/* ----------------------------------------------------------------
 *	one pass over the table
 * ----------------------------------------------------------------
 */

/* what the line pointer of a TID without a visible row must be, at least */
static void
check_pointer(ZCheck *check, void *arg)
{
	IndexCheck *index = (IndexCheck *) arg;
	Buffer		buffer;
	Page		page;
	bool		used = false;

	AssertNoPageLocked();
	if (check->block < RelationGetNumberOfBlocks(check->rel))
	{
		buffer = ReadBuffer(check->rel, check->block);
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		used = zheap_page_is_valid(page) &&
			check->off != InvalidOffsetNumber &&
			check->off <= PageGetMaxOffsetNumber(page) &&
			ItemIdIsUsed(PageGetItemId(page, check->off));
		UnlockReleaseBuffer(buffer);
	}
	if (!used)
		complain_of_index(check, index, "entry without a line pointer",
						  "a line pointer that is in use");
}

/*
 * Does bulk deletion name each entry of the index once?  GIN has an entry for
 * each of a row's keys.  SP-GiST goes once more where a redirection that is
 * younger than some transaction leads to; a hash index has entries in two
 * buckets after a split, if a scan was in its way.
 */
static bool
names_once(const IndexCheck *index)
{
	return index->rel->rd_rel->relam == BTREE_AM_OID ||
		index->rel->rd_rel->relam == GIST_AM_OID;
}

/* TIDs of the index before "upto" belong to rows that the snapshot can't see */
static void
pass_over(ZCheck *check, IndexPass *pass, IndexCheck *index, int64 upto)
{
	AssertNoPageLocked();
	while (index->tid < upto)
	{
		CHECK_FOR_INTERRUPTS();
		look_at_tid(check, index->tid);
		if (pass->entries_stay && index->tid != index->previous)
			(void) zheap_check_page_guard(check, check_pointer, index);
		if (index->tid == index->previous && names_once(index))
			complain_of_index(check, index, "two entries of one row",
							  "one entry");
		next_tid(index);
	}
}

/* does the row in pass->slot belong into the index */
static bool
belongs(IndexPass *pass, IndexCheck *index)
{
	Datum		values[INDEX_MAX_KEYS];
	bool		isnull[INDEX_MAX_KEYS];

	pass->econtext->ecxt_scantuple = pass->slot;
	if (!ExecQual(index->predicate, pass->econtext))
		return false;
	if (index->rel->rd_rel->relam != HASH_AM_OID)
		return true;
	/* hash indexes leave nulls out */
	FormIndexDatum(index->info, pass->slot, pass->estate, values, isnull);
	return !isnull[0];
}

static void
check_row_in_indexes(ZCheck *check, IndexPass *pass)
{
	int64		tid = encode_tid(&pass->slot->tts_tid);

	for (int i = 0; i < pass->nindexes; i++)
	{
		IndexCheck *index = &pass->indexes[i];

		pass_over(check, pass, index, tid);
		look_at_tid(check, tid);
		if (belongs(pass, index))
		{
			if (index->tid != tid)
				complain_of_index(check, index, "no entry for a row",
								  "one entry");
		}
		else if (index->tid == tid)
			complain_of_index(check, index,
							  "entry for a row that it is not about",
							  "no entry");
		if (index->tid == tid)
			next_tid(index);
	}
	zheap_check_toast_row(check, pass->toast, pass->slot);
	ResetPerTupleExprContext(pass->estate);
}

/*
 * All rows, against all indexes.  Damage that ends the scan was reported with
 * its page before.
 */
static void
check_rows(ZCheck *check, void *arg)
{
	IndexPass  *pass = (IndexPass *) arg;
	TableScanDesc scan = table_beginscan_strat(check->rel, pass->snapshot, 0,
											   NULL, true, false);

	while (table_scan_getnextslot(scan, ForwardScanDirection, pass->slot))
	{
		CHECK_FOR_INTERRUPTS();
		check_row_in_indexes(check, pass);
		look_at_nothing(check);
	}
	table_endscan(scan);
	for (int i = 0; i < pass->nindexes; i++)
		pass_over(check, pass, &pass->indexes[i], END_OF_TIDS);
}

/* ----------------------------------------------------------------
 *	the function
 * ----------------------------------------------------------------
 */

/* open what can be checked; those that are being built are left out */
static void
open_indexes(ZCheck *check, IndexPass *pass)
{
	List	   *oids = RelationGetIndexList(check->rel);
	ListCell   *lc;

	pass->indexes = palloc0(sizeof(IndexCheck) * (list_length(oids) + 1));
	foreach(lc, oids)
	{
		Relation	rel = index_open(lfirst_oid(lc), AccessShareLock);
		IndexCheck *index = &pass->indexes[pass->nindexes];

		if (!rel->rd_index->indisvalid || !lists_tids(rel->rd_rel->relam) ||
			(RecoveryInProgress() && rel->rd_rel->relam != BTREE_AM_OID))
		{
			index_close(rel, AccessShareLock);
			continue;
		}
		index->rel = rel;
		index->info = BuildIndexInfo(rel);
		index->predicate = ExecPrepareQual(index->info->ii_Predicate,
										   pass->estate);
		index->tids = tuplesort_begin_datum(INT8OID, Int8LessOperator,
											InvalidOid, false,
											Max(maintenance_work_mem /
												list_length(oids), 64),
											NULL, TUPLESORT_NONE);
		index->owner = CurrentResourceOwner;
		index->tid = -1;
		pass->nindexes++;
	}
}

static void
close_indexes(IndexPass *pass)
{
	for (int i = 0; i < pass->nindexes; i++)
	{
		tuplesort_end(pass->indexes[i].tids);
		index_close(pass->indexes[i].rel, AccessShareLock);
	}
}

static void
check_indexes(ZCheck *check, LOCKMODE lockmode)
{
	IndexPass	pass = {0};

	Assert(lockmode == ShareUpdateExclusiveLock ||
		   lockmode == AccessShareLock);
	pass.snapshot = GetActiveSnapshot();
	pass.entries_stay = lockmode == ShareUpdateExclusiveLock;
	pass.estate = CreateExecutorState();
	pass.econtext = GetPerTupleExprContext(pass.estate);
	pass.slot = table_slot_create(check->rel, NULL);
	pass.toast = zheap_check_toast_begin(check, pass.snapshot);
	open_indexes(check, &pass);
	for (int i = 0; i < pass.nindexes; i++)
	{
		CollectArgs args = {&pass, &pass.indexes[i]};

		(void) zheap_check_page_guard(check, collect_tids, &args);
		tuplesort_performsort(pass.indexes[i].tids);
		next_tid(&pass.indexes[i]);
	}
	/* values of rows that couldn't be read would be missed */
	if (zheap_check_page_guard(check, check_rows, &pass))
	{
		look_at_nothing(check);
		zheap_check_toast_orphans(check, pass.toast);
	}
	zheap_check_toast_end(pass.toast);
	close_indexes(&pass);
	ExecDropSingleTupleTableSlot(pass.slot);
	FreeExecutorState(pass.estate);
}

/*
 * zheap_check(rel, indexes) returns (block, offset, what, expected), a row
 * for each finding.  Indexes are checked under ShareUpdateExclusiveLock (not
 * on a standby), as the owner of the table, whose functions they may call, and
 * which must not find what the caller has put into the search path; everything
 * else under AccessShareLock.
 */
Datum
zheap_check(PG_FUNCTION_ARGS)
{
	bool		indexes = PG_GETARG_BOOL(1);
	LOCKMODE	lockmode = indexes && !RecoveryInProgress() ?
		ShareUpdateExclusiveLock : AccessShareLock;
	ZCheck		check = {0};
	Oid			userid;
	int			sec_context;
	int			gucs;

	InitMaterializedSRF(fcinfo, 0);
	check.fcinfo = fcinfo;
	check.rel = zheap_inspect_open(PG_GETARG_OID(0), lockmode);
	check.values =
		palloc(RelationGetNumberOfAttributes(check.rel) * sizeof(Datum) + 1);
	check.isnull =
		palloc(RelationGetNumberOfAttributes(check.rel) * sizeof(bool) + 1);
	check.context = AllocSetContextCreate(CurrentMemoryContext, "zheap_check",
										  ALLOCSET_DEFAULT_SIZES);
	GetUserIdAndSecContext(&userid, &sec_context);
	SetUserIdAndSecContext(check.rel->rd_rel->relowner,
						   sec_context | SECURITY_RESTRICTED_OPERATION);
	gucs = NewGUCNestLevel();
	RestrictSearchPath();

	/* one that is younger than every change made before the lock was had */
	PushActiveSnapshot(GetLatestSnapshot());
	zheap_check_pages(&check);
	if (indexes)
		check_indexes(&check, lockmode);
	PopActiveSnapshot();

	AtEOXact_GUC(false, gucs);
	SetUserIdAndSecContext(userid, sec_context);
	MemoryContextDelete(check.context);
	relation_close(check.rel, lockmode);
	return (Datum) 0;
}
