/*-------------------------------------------------------------------------
 *
 * pg_compat.h
 *	  Differences between PostgreSQL major versions, in one place.
 *
 * The code is written for PostgreSQL 18; what older ones lack is made up for
 * here or, where it takes functions, by a file per subject in compat/.  So
 * an old version is given up by deleting lines.  This is the only file that
 * tests PG_VERSION_NUM.  Since it defines macros that have the names of core's
 * functions, it includes the headers that declare these.
 *
 * A function of ours that core calls with other parameters than it does today
 * gets them by a macro of its name: that changes definition and declaration,
 * and leaves alone the plain name in a table of callbacks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_PG_COMPAT_H
#define ZHEAP_PG_COMPAT_H

#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 190000
#error "zheap_am supports PostgreSQL 15, 16, 17 and 18"
#endif

/* ----------------------------------------------------------------
 *	before 18
 * ----------------------------------------------------------------
 */
#if PG_VERSION_NUM >= 180000

#include "storage/aio.h"
#include "storage/aio_internal.h"
#include "storage/aio_subsys.h"

#else

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/toast_internals.h"
#include "commands/vacuum.h"
#include "executor/executor.h"
#include "pgstat.h"
#include "storage/lmgr.h"

#define pg_noreturn						pg_attribute_noreturn()
#define READ_STREAM_USE_BATCHING		0

#define index_beginscan(heap, index, snapshot, instrument, nkeys, norderbys) \
	index_beginscan(heap, index, snapshot, nkeys, norderbys)
#define ConditionalXactLockTableWait(xid, log) \
	ConditionalXactLockTableWait(xid)
#define ConditionalLockTuple(rel, tid, mode, log) \
	ConditionalLockTuple(rel, tid, mode)
#define vacuum_delay_point(is_analyze)	vacuum_delay_point()
#define vac_update_relstats(rel, pages, tuples, visible, frozen, hasindex, \
							frozenxid, minmulti, xid_updated, \
							multi_updated, in_outer) \
	vac_update_relstats(rel, pages, tuples, visible, hasindex, frozenxid, \
						minmulti, xid_updated, multi_updated, in_outer)
#define pgstat_report_vacuum(table, shared, live, dead, start) \
	pgstat_report_vacuum(table, shared, live, dead)

/* room before the tuple that nobody asks for */
#define heap_form_minimal_tuple(desc, values, isnull, extra) \
	heap_form_minimal_tuple(desc, values, isnull)
#define tts_zheap_copy_minimal_tuple(slot, extra) \
	tts_zheap_copy_minimal_tuple(slot)

/* the caller has the memory of the snapshot, which is the same for all */
static inline Snapshot
get_toast_snapshot(void)
{
	static SnapshotData snapshot;

	init_toast_snapshot(&snapshot);
	return &snapshot;
}

/* execute_once is handed through, whatever it says */
#define statement_executor_run(desc, direction, count) \
	statement_executor_run(desc, direction, count, bool execute_once)
#define prev_executor_run(desc, direction, count) \
	prev_executor_run(desc, direction, count, execute_once)
#define standard_ExecutorRun(desc, direction, count) \
	standard_ExecutorRun(desc, direction, count, execute_once)

/* the executor drives the bitmap */
#define COMPAT_BITMAP_SCAN

/* compat/reorder_buffer.h: names of functions */
#define COMPAT_GET_CHANGE

/* core's cumulative statistics have no kinds of extensions */
#define COMPAT_TABLE_STATS

#endif

/* ----------------------------------------------------------------
 *	before 17
 * ----------------------------------------------------------------
 */
#if PG_VERSION_NUM < 170000

#include "access/nbtree.h"
#include "catalog/index.h"
#include "utils/guc.h"

#define TransamVariables				ShmemVariableCache

/* for what the functions of others find by name, until the GUC nest level ends */
#define RestrictSearchPath() \
	((void) set_config_option("search_path", "pg_catalog, pg_temp", \
							  PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, \
							  true, 0, false))
#if PG_VERSION_NUM >= 160000
#define _bt_search(rel, heaprel, key, leaf, access) \
	_bt_search(rel, heaprel, key, leaf, access, NULL)
#else
#define _bt_search(rel, heaprel, key, leaf, access) \
	_bt_search(rel, key, leaf, access, NULL)
#endif
#define MyProcNumber					MyBackendId
#define INVALID_PROC_NUMBER				InvalidBackendId
#define AmAutoVacuumWorkerProcess()		IsAutoVacuumWorkerProcess()
#define reindex_relation(stmt, relid, flags, params) \
	reindex_relation(relid, flags, params)

/* closing an SMgrRelation leaves its owner a pointer, unless told of it */
#define smgr_forget_relation(rel) \
	do { \
		if ((rel)->rd_smgr != NULL) \
			smgrclearowner(&(rel)->rd_smgr, (rel)->rd_smgr); \
	} while (0)

/* the process that had a virtual transaction's number; may have another now */
#define CompatVxidProc(vxid)			BackendIdGetProc((vxid).backendId)
#define CompatProcLxid(proc)			((proc)->lxid)

#define CompatLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode)

/* tuple slots aren't asked whose row they hold */
#define COMPAT_NO_CURRENT_XACT_TUPLE

/* compat/reorder_buffer.h: tuples of changes */
#define COMPAT_TUPLE_BUF

/* wait events have no names */
#define WaitEventExtensionNew(name)		((void) (name), PG_WAIT_EXTENSION)

#define COMPAT_READ_STREAM
#include "compat/read_stream.h"
#define COMPAT_DEAD_ITEMS
#include "compat/dead_items.h"

#else

#include "storage/procarray.h"
#include "storage/read_stream.h"

#define smgr_forget_relation(rel)		RelationCloseSmgr(rel)
#define OldSnapshotThresholdActive()	false
#define CompatVxidProc(vxid)			ProcNumberGetProc((vxid).procNumber)
#define CompatProcLxid(proc)			((proc)->vxid.lxid)
#define CompatLockHeldByMe(tag, mode)	LockHeldByMe(tag, mode, false)

#if PG_VERSION_NUM < 180000
#include "access/tidstore.h"

/* an iterator's result shows the offsets */
static inline int
TidStoreGetBlockOffsets(TidStoreIterResult *result, OffsetNumber *offsets,
						int max_offsets)
{
	int			n = Min(result->num_offsets, max_offsets);

	memcpy(offsets, result->offsets, n * sizeof(OffsetNumber));
	return result->num_offsets;
}
#endif

#endif

/* ----------------------------------------------------------------
 *	before 16
 * ----------------------------------------------------------------
 */
#if PG_VERSION_NUM < 160000

#include "pgstat.h"
#include "storage/relfilenode.h"
#include "storage/standby.h"
#include "utils/tuplesort.h"

typedef RelFileNode RelFileLocator;
typedef Oid RelFileNumber;
typedef PGAlignedBlock PGIOAlignedBlock;
typedef bool TU_UpdateIndexes;

#define spcOid							spcNode
#define dbOid							dbNode
#define relNumber						relNode
#define rd_locator						rd_node
#define dead_tuples						n_dead_tuples
#define InvalidRelFileNumber			InvalidOid
#define RelFileNumberIsValid(n)			OidIsValid(n)
#define RelFileLocatorEquals(a, b)		RelFileNodeEquals(a, b)
#define RelFileLocatorSkippingWAL(loc)	RelFileNodeSkippingWAL(loc)
#define relation_set_new_filelocator	relation_set_new_filenode

/* any indexed column counts, whatever the index */
#define TU_None							false
#define TU_All							true
#define TU_Summarizing					false	/* a block's column changes: moves */
#define INDEX_ATTR_BITMAP_HOT_BLOCKING	INDEX_ATTR_BITMAP_ALL
#define INDEX_ATTR_BITMAP_SUMMARIZED	INDEX_ATTR_BITMAP_ALL	/* moves anyway */

#define pgstat_count_heap_update(rel, hot, newpage) \
	pgstat_count_heap_update(rel, hot)
#define tuplesort_getdatum(state, forward, copy, value, isnull, abbrev) \
	tuplesort_getdatum(state, forward, value, isnull, abbrev)
#define ResolveRecoveryConflictWithSnapshotFullXid(xid, is_catalog, locator) \
	ResolveRecoveryConflictWithSnapshotFullXid(xid, locator)
#define index_vacuum_set_heap(info, rel)	((void) 0)

struct VacuumCutoffs
{
	TransactionId relfrozenxid;
	MultiXactId relminmxid;
};
#define vacuum_xid_failsafe_check(cutoffs) \
	vacuum_xid_failsafe_check((cutoffs)->relfrozenxid, (cutoffs)->relminmxid)
/* databases only */
#define object_ownercheck(class, object, role) \
	pg_database_ownercheck(object, role)

#define pgstat_get_local_beentry_by_index(i) \
	pgstat_fetch_stat_local_beentry(i)

/* compat/reorder_buffer.h: the table of a change */
#define COMPAT_RELNODE

#define COMPAT_EXTEND
#include "compat/extend.h"

#else

#define index_vacuum_set_heap(info, rel)	((info)->heaprel = (rel))

#endif

#ifdef COMPAT_BITMAP_SCAN
#include "compat/scan_callbacks.h"
#endif

/* the postmaster's list of background workers has another kind since 18 */
#if PG_VERSION_NUM >= 180000
#define CompatWorkerIter				dlist_iter
#define CompatForeachWorker(iter)		dlist_foreach(iter, &BackgroundWorkerList)
#define CompatWorkerOf(iter) \
	dlist_container(RegisteredBgWorker, rw_lnode, (iter).cur)
#else
#define CompatWorkerIter				slist_iter
#define CompatForeachWorker(iter)		slist_foreach(iter, &BackgroundWorkerList)
#define CompatWorkerOf(iter) \
	slist_container(RegisteredBgWorker, rw_lnode, (iter).cur)
#endif

/*
 * Reads in flight that an error left behind; before UnlockBuffers().  Of a read
 * that wasn't begun core leaves the handle to the resource owner, which is
 * released after the callbacks of an abort; until then no other is given out.
 */
#if PG_VERSION_NUM >= 180000
static inline void
reads_error_cleanup(void)
{
	pgaio_error_cleanup();
	if (pgaio_my_backend->handed_out_io != NULL)
		pgaio_io_release(pgaio_my_backend->handed_out_io);
}
#elif PG_VERSION_NUM >= 160000
#define reads_error_cleanup()			((void) 0)
#else
#define reads_error_cleanup()			AbortBufferIO()
#endif

#endif							/* ZHEAP_PG_COMPAT_H */
