/*-------------------------------------------------------------------------
 *
 * zheap.h
 *	  Work on whole tables, and redo: the files of this folder, which stand
 *	  above all rooms.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_H
#define ZHEAP_H

#include "postgres.h"

#include "zheap/read/zheap_read.h"
#include "zheap/write/zheap_write.h"

/* ----------------------------------------------------------------
 *	zheap_index_build.c, zheap_vacuum.c, zheap_rewrite.c: callbacks of the
 *	TableAmRoutine
 * ----------------------------------------------------------------
 */
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

/* ----------------------------------------------------------------
 *	zheap_xlog.c
 * ----------------------------------------------------------------
 */
extern void zheap_xlog_redo(XLogReaderState *record);
extern void zheap_xlog_desc(StringInfo buf, XLogReaderState *record);
extern const char *zheap_xlog_identify(uint8 info);

#endif							/* ZHEAP_H */
