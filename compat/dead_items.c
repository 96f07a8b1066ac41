/*-------------------------------------------------------------------------
 *
 * dead_items.c
 *	  VACUUM's store of dead TIDs before PostgreSQL 17: an array that grows
 *	  or, with parallel workers, lies in shared memory.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "storage/bufmgr.h"
#include "utils/backend_progress.h"
#include "utils/memutils.h"

#define COMPAT_DEAD_ITEMS_C
#include "pg_compat.h"

#ifdef COMPAT_DEAD_ITEMS

struct TidStore
{
	VacDeadItems *dead;
	int			room;			/* items that fit now */
	int			max;			/* items that may ever fit */
};

struct TidStoreIter
{
	const VacDeadItems *dead;
	int			next;
	TidStoreIterResult result;
};

/* the items that so much memory holds; those of a page at least */
static int
items_of_bytes(size_t bytes)
{
	size_t		n = MAXDEADITEMS(Min(bytes, MaxAllocSize));

	return (int) Max(n, MaxHeapTuplesPerPage);
}

static TidStore *
make_store(VacDeadItems *dead, int room, int max)
{
	TidStore   *store = palloc(sizeof(TidStore));

	store->dead = dead;
	store->room = room;
	store->max = max;
	pgstat_progress_update_param(PROGRESS_VACUUM_MAX_DEAD_TUPLES, max);
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_TUPLES, 0);
	return store;
}

TidStore *
TidStoreCreateLocal(size_t max_bytes, bool insert_only)
{
	int			max = items_of_bytes(max_bytes);
	int			room = Min(max, 4 * MaxHeapTuplesPerPage);
	VacDeadItems *dead = palloc(vac_max_items_to_alloc_size(room));

	dead->max_items = max;
	dead->num_items = 0;
	return make_store(dead, room, max);
}

void
TidStoreDestroy(TidStore *store)
{
	pfree(store->dead);
	pfree(store);
}

/* blocks come in ascending order */
void
TidStoreSetBlockOffsets(TidStore *store, BlockNumber block,
						OffsetNumber *offsets, int noffsets)
{
	VacDeadItems *dead = store->dead;

	Assert(dead->num_items + noffsets <= store->max);
	if (dead->num_items + noffsets > store->room)
	{
		store->room = Min((int64) store->room * 2, store->max);
		dead = repalloc(dead, vac_max_items_to_alloc_size(store->room));
		store->dead = dead;
	}
	for (int i = 0; i < noffsets; i++)
	{
		/* a macro, which evaluates its argument several times */
		ItemPointerSet(&dead->items[dead->num_items], block, offsets[i]);
		dead->num_items++;
	}
	pgstat_progress_update_param(PROGRESS_VACUUM_NUM_DEAD_TUPLES,
								 dead->num_items);
}

/* more than was allowed as soon as another page might not fit */
size_t
TidStoreMemoryUsage(TidStore *store)
{
	if (store->max - store->dead->num_items < MaxHeapTuplesPerPage)
		return SIZE_MAX;
	return offsetof(VacDeadItems, items) +
		store->dead->num_items * sizeof(ItemPointerData);
}

TidStoreIter *
TidStoreBeginIterate(TidStore *store)
{
	TidStoreIter *iter = palloc(sizeof(TidStoreIter));

	iter->dead = store->dead;
	iter->next = 0;
	return iter;
}

TidStoreIterResult *
TidStoreIterateNext(TidStoreIter *iter)
{
	const VacDeadItems *dead = iter->dead;
	TidStoreIterResult *result = &iter->result;

	if (iter->next >= dead->num_items)
		return NULL;
	result->items = &dead->items[iter->next];
	result->blkno = ItemPointerGetBlockNumber(result->items);
	result->num_items = 0;
	while (iter->next < dead->num_items &&
		   ItemPointerGetBlockNumber(&dead->items[iter->next]) == result->blkno)
	{
		result->num_items++;
		iter->next++;
	}
	return result;
}

int
TidStoreGetBlockOffsets(TidStoreIterResult *result, OffsetNumber *offsets,
						int max_offsets)
{
	for (int i = 0; i < Min(result->num_items, max_offsets); i++)
		offsets[i] = ItemPointerGetOffsetNumber(&result->items[i]);
	return result->num_items;
}

void
TidStoreEndIterate(TidStoreIter *iter)
{
	pfree(iter);
}

IndexBulkDeleteResult *
compat_bulkdel_one_index(IndexVacuumInfo *info, IndexBulkDeleteResult *stats,
						 TidStore *store, VacDeadItemsInfo *dinfo)
{
	return vac_bulkdel_one_index(info, stats, store->dead);
}

/* ----------------------------------------------------------------
 *	parallel vacuum
 * ----------------------------------------------------------------
 */

/* no more memory than the table can have dead items for: it is taken at once */
ParallelVacuumState *
compat_parallel_vacuum_init(Relation rel, Relation *indexes, int nindexes,
							int nworkers, int kilobytes, int elevel,
							BufferAccessStrategy strategy)
{
	int64		max = items_of_bytes(kilobytes * (size_t) 1024);
	int64		rows = (int64) RelationGetNumberOfBlocks(rel) *
		MaxHeapTuplesPerPage;

	max = Min(max, Max(rows, MaxHeapTuplesPerPage));
	return parallel_vacuum_init(rel, indexes, nindexes, nworkers, (int) max,
								elevel, strategy);
}

TidStore *
compat_parallel_vacuum_dead_items(ParallelVacuumState *pvs,
								  VacDeadItemsInfo **dinfo)
{
	VacDeadItems *dead = parallel_vacuum_get_dead_items(pvs);

	*dinfo = palloc0(sizeof(VacDeadItemsInfo));
	(*dinfo)->max_bytes = vac_max_items_to_alloc_size(dead->max_items);
	return make_store(dead, dead->max_items, dead->max_items);
}

void
parallel_vacuum_reset_dead_items(ParallelVacuumState *pvs)
{
	parallel_vacuum_get_dead_items(pvs)->num_items = 0;
}

#endif
