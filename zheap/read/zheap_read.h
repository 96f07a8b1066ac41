/*-------------------------------------------------------------------------
 *
 * zheap_read.h
 *	  Scans and fetches of rows: callbacks of the TableAmRoutine, in its
 *	  order.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_READ_H
#define ZHEAP_READ_H

#include "postgres.h"

#include "access/relscan.h"
#include "access/tableam.h"

#include "zheap/format/zheap_format.h"

/* tuple slots find the writer of a row that was stored without one */
extern void zheap_index_fetch_register(void);
extern void zheap_explain_register(void);	/* zheap_explain.c */

extern void zheap_scan_gather_define_settings(void);

extern const TupleTableSlotOps *zheap_scan_slot_callbacks(Relation rel);
extern TableScanDesc zheap_scan_begin(Relation rel, Snapshot snapshot,
									  int nkeys,
									  struct ScanKeyData *key,
									  ParallelTableScanDesc pscan,
									  uint32 flags);
extern void zheap_scan_end(TableScanDesc scan);
extern void zheap_scan_rescan(TableScanDesc scan, struct ScanKeyData *key,
							  bool set_params, bool allow_strat,
							  bool allow_sync, bool allow_pagemode);
extern Size zheap_parallelscan_estimate(Relation rel);
extern Size zheap_parallelscan_initialize(Relation rel,
										  ParallelTableScanDesc pscan);
extern void zheap_parallelscan_reinitialize(Relation rel,
											ParallelTableScanDesc pscan);
extern bool zheap_scan_getnextslot(TableScanDesc scan, ScanDirection direction,
								   TupleTableSlot *slot);
extern void zheap_scan_set_tidrange(TableScanDesc scan, ItemPointer mintid,
									ItemPointer maxtid);
extern bool zheap_scan_getnextslot_tidrange(TableScanDesc scan,
											ScanDirection direction,
											TupleTableSlot *slot);
#ifndef COMPAT_BITMAP_SCAN
extern bool zheap_scan_bitmap_next_tuple(TableScanDesc scan,
										 TupleTableSlot *slot, bool *recheck,
										 uint64 *lossy_pages,
										 uint64 *exact_pages);
#endif
extern bool zheap_scan_sample_next_block(TableScanDesc scan,
										 struct SampleScanState *state);
extern bool zheap_scan_sample_next_tuple(TableScanDesc scan,
										 struct SampleScanState *state,
										 TupleTableSlot *slot);
extern bool zheap_scan_analyze_next_block(TableScanDesc scan,
										  ReadStream *stream);
extern bool zheap_scan_analyze_next_tuple(TableScanDesc scan,
										  TransactionId oldest_xmin,
										  double *liverows, double *deadrows,
										  TupleTableSlot *slot);

extern struct IndexFetchTableData *zheap_index_fetch_begin(Relation rel);
extern void zheap_index_fetch_reset(struct IndexFetchTableData *data);
extern void zheap_index_fetch_end(struct IndexFetchTableData *data);
extern bool zheap_index_fetch_tuple(struct IndexFetchTableData *data,
									ItemPointer tid, Snapshot snapshot,
									TupleTableSlot *slot, bool *call_again,
									bool *all_dead);
extern bool zheap_index_fetch_row_version(Relation rel, ItemPointer tid,
										  Snapshot snapshot,
										  TupleTableSlot *slot);
extern bool zheap_index_fetch_tid_valid(TableScanDesc scan, ItemPointer tid);
extern void zheap_index_fetch_latest_tid(TableScanDesc scan, ItemPointer tid);
extern bool zheap_index_fetch_satisfies(Relation rel, TupleTableSlot *slot,
										Snapshot snapshot);

/* is there a line pointer in use at off of the locked page; ERROR if damaged */
extern bool zheap_index_fetch_has_row(Relation rel, BlockNumber block,
									  Page page, OffsetNumber off);

extern TransactionId zheap_index_delete_tuples(Relation rel,
											   TM_IndexDeleteOp *delstate);

#endif							/* ZHEAP_READ_H */
