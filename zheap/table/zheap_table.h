/*-------------------------------------------------------------------------
 *
 * zheap_table.h
 *	  Work on whole tables: callbacks of the TableAmRoutine.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_TABLE_H
#define ZHEAP_TABLE_H

#include "access/tableam.h"

extern double zheap_index_build_range_scan(Relation rel, Relation index,
										   struct IndexInfo *info,
										   bool allow_sync, bool anyvisible,
										   bool progress, BlockNumber start,
										   BlockNumber nblocks,
										   IndexBuildCallback callback,
										   void *callback_state,
										   TableScanDesc scan);
extern void zheap_index_build_validate(Relation rel, Relation index,
									   struct IndexInfo *info,
									   Snapshot snapshot,
									   struct ValidateIndexState *state);

extern void zheap_vacuum_relation(Relation rel, struct VacuumParams *params,
								  BufferAccessStrategy strategy);
extern void zheap_rewrite_copy(Relation oldrel, Relation newrel,
							   Relation index, bool use_sort,
							   TransactionId oldest_xmin,
							   TransactionId *xid_cutoff,
							   MultiXactId *multi_cutoff,
							   double *num_tuples, double *tups_vacuumed,
							   double *tups_recently_dead);

#endif							/* ZHEAP_TABLE_H */
