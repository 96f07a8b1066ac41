/*-------------------------------------------------------------------------
 *
 * zheap_toast_heap.c
 *	  Toast tables of version 1.0, which are heaps: telling them, and what
 *	  VACUUM and rewriting make of them.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "zheap/write/zheap_open_record.h"
#include "zheap/write/zheap_toast_heap.h"

#include "pg_compat.h"

/*
 * pg_upgrade lets the new cluster create a toast table and puts the old file
 * there.  The new one is a zheap, but a table that version 1.0 made has a
 * heap's file.
 */
static bool
has_heap_file(Relation toastrel)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(toastrel);

	for (BlockNumber block = 0; block < nblocks; block++)
	{
		Buffer		buffer = ReadBuffer(toastrel, block);
		bool		is_new;
		bool		is_heap;

		CHECK_FOR_INTERRUPTS();
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		is_new = PageIsNew(BufferGetPage(buffer));
		is_heap = !is_new && PageGetSpecialSize(BufferGetPage(buffer)) == 0;
		UnlockReleaseBuffer(buffer);
		if (!is_new)
			return is_heap;
	}
	return false;
}

/*
 * Is the toast table a heap?  A file that is one, in spite of the catalog, is
 * used as one until VACUUM puts that right.
 */
bool
zheap_toast_heap_is_one(Relation toastrel)
{
	if (toastrel->rd_tableam == GetHeapamTableAmRoutine())
		return true;
	if (toastrel->rd_amcache != NULL)
		return false;
	if (has_heap_file(toastrel))
	{
		toastrel->rd_tableam = GetHeapamTableAmRoutine();
		return true;
	}
	/* not empty, and not a heap: the answer stays */
	if (RelationGetNumberOfBlocks(toastrel) > 0)
		toastrel->rd_amcache = MemoryContextAllocZero(CacheMemoryContext,
													   sizeof(ZOpenInsert));
	return false;
}

/*
 * Snapshots leave the xid of a lazy VACUUM out: a row that it has written would
 * be taken for aborted, and be marked so, while it runs.  From here on it is a
 * transaction like others.
 */
static void
leave_lazy_vacuum(void)
{
	Assert(!TransactionIdIsValid(GetTopTransactionIdIfAny()));
	LWLockAcquire(ProcArrayLock, LW_EXCLUSIVE);
	MyProc->statusFlags &= ~PROC_IN_VACUUM;
	ProcGlobal->statusFlags[MyProc->pgxactoff] = MyProc->statusFlags;
	LWLockRelease(ProcArrayLock);
}

/* Change pg_class.relam.  (Toast tables have no dependency on it.) */
static void
set_access_method(Oid toastrelid, Oid am)
{
	Relation	class_rel = table_open(RelationRelationId, RowExclusiveLock);
	HeapTuple	tuple = SearchSysCacheCopy1(RELOID,
											ObjectIdGetDatum(toastrelid));

	if (!HeapTupleIsValid(tuple))
		elog(ERROR, "cache lookup failed for relation %u", toastrelid);
	((Form_pg_class) GETSTRUCT(tuple))->relam = am;
	CatalogTupleUpdate(class_rel, &tuple->t_self, tuple);
	heap_freetuple(tuple);
	table_close(class_rel, RowExclusiveLock);
}

bool
zheap_toast_heap_vacuum(Relation toastrel)
{
	if (!zheap_toast_heap_is_one(toastrel))
		return false;
	leave_lazy_vacuum();
	set_access_method(RelationGetRelid(toastrel), HEAP_TABLE_AM_OID);
	ereport(LOG,
			(errmsg("toast table \"%s\" is a heap and will be treated as such from now on",
					RelationGetRelationName(toastrel))));
	return true;
}

/*
 * Core swaps access methods, too, but can't if they differ: it looks for
 * dependencies that toast tables don't have.
 */
void
zheap_toast_heap_prepare_swap(Oid oldtoast, Oid newtoast)
{
	Relation	oldrel = table_open(oldtoast, AccessExclusiveLock);
	Relation	newrel = table_open(newtoast, AccessShareLock);
	Oid			am = newrel->rd_rel->relam;

	if (oldrel->rd_rel->relam != am)
		set_access_method(oldtoast, am);
	table_close(newrel, AccessShareLock);
	table_close(oldrel, NoLock);
}
