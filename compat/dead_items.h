/*-------------------------------------------------------------------------
 *
 * dead_items.h
 *	  VACUUM's store of dead TIDs before PostgreSQL 17: an array, under the
 *	  names of today.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_DEAD_ITEMS_H
#define COMPAT_DEAD_ITEMS_H

#include "commands/progress.h"
#include "commands/vacuum.h"

typedef struct VacDeadItemsInfo
{
	size_t		max_bytes;
	int64		num_items;
} VacDeadItemsInfo;

typedef struct TidStore TidStore;
typedef struct TidStoreIter TidStoreIter;

typedef struct TidStoreIterResult
{
	BlockNumber blkno;
	const ItemPointerData *items;
	int			num_items;
} TidStoreIterResult;

extern TidStore *TidStoreCreateLocal(size_t max_bytes, bool insert_only);
extern void TidStoreDestroy(TidStore *store);
extern void TidStoreSetBlockOffsets(TidStore *store, BlockNumber block,
									OffsetNumber *offsets, int noffsets);
extern size_t TidStoreMemoryUsage(TidStore *store);
extern TidStoreIter *TidStoreBeginIterate(TidStore *store);
extern TidStoreIterResult *TidStoreIterateNext(TidStoreIter *iter);
extern int	TidStoreGetBlockOffsets(TidStoreIterResult *result,
									OffsetNumber *offsets, int max_offsets);
extern void TidStoreEndIterate(TidStoreIter *iter);

extern IndexBulkDeleteResult *compat_bulkdel_one_index(IndexVacuumInfo *info,
													   IndexBulkDeleteResult *stats,
													   TidStore *store,
													   VacDeadItemsInfo *dinfo);
extern ParallelVacuumState *compat_parallel_vacuum_init(Relation rel,
														Relation *indexes,
														int nindexes,
														int nworkers,
														int kilobytes,
														int elevel,
														BufferAccessStrategy strategy);
extern TidStore *compat_parallel_vacuum_dead_items(ParallelVacuumState *pvs,
												   VacDeadItemsInfo **dinfo);
extern void parallel_vacuum_reset_dead_items(ParallelVacuumState *pvs);

#ifndef COMPAT_DEAD_ITEMS_C
#define vac_bulkdel_one_index		compat_bulkdel_one_index
#define parallel_vacuum_init		compat_parallel_vacuum_init
#define parallel_vacuum_get_dead_items	compat_parallel_vacuum_dead_items
#endif

/* progress: the store reports what there was, the rest is shown nowhere */
#define PROGRESS_VACUUM_NUM_DEAD_ITEM_IDS	15
#define PROGRESS_VACUUM_MAX_DEAD_TUPLE_BYTES 16
#define PROGRESS_VACUUM_DEAD_TUPLE_BYTES	17
#define PROGRESS_VACUUM_INDEXES_TOTAL		18
#define PROGRESS_VACUUM_INDEXES_PROCESSED	19

#endif							/* COMPAT_DEAD_ITEMS_H */
