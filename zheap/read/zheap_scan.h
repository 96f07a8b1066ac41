/*-------------------------------------------------------------------------
 *
 * zheap_scan.h
 *	  A table scan in flight.  Private to zheap_scan*.c, zheap_exclusion.c,
 *	  zheap_index_fetch.c and zheap_index_build.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SCAN_H
#define ZHEAP_SCAN_H

#include "executor/instrument.h"

#include "undo/undo.h"
#include "undo/undo_debug.h"
#include "zheap/read/zheap_read.h"
#include "zheap/sees/zheap_sees.h"

/*
 * What the processes of a parallel scan share.  Blocks are handed out by core,
 * until undo was gathered: what is left then goes by the parts in which that is
 * loaded, one for one process.
 */
typedef struct ZParallelScanData
{
	ParallelBlockTableScanDescData base;	/* must be first */
	UndoGatherTeam team;
	slock_t		mutex;			/* of the next two */
	BlockNumber rest;			/* block from which on parts are handed out,
								 * counted in core's order; invalid: none */
	BlockNumber per_part;
	pg_atomic_uint32 next_part;
} ZParallelScanData;

typedef ZParallelScanData *ZParallelScan;

/* a row version found on the page, copied */
typedef struct ZScanRow
{
	OffsetNumber off;
	uint16		len;			/* true length */
	uint32		at;				/* its bytes: rows->data + at */
	Fxid		writer;
	CommandId	cid;
	bool		approximate;	/* as in ZVersion */
	bool		tagged;			/* quiet row: its TID gets the tag DIRTY */
} ZScanRow;

typedef struct ZScanDescData
{
	TableScanDescData base;		/* must be first */
	BufferAccessStrategy strategy;

	/* parallel: what core knows of this process; the part that it has */
	ParallelBlockTableScanWorkerData *pworker;
	bool		by_parts;
	bool		alone;			/* it can't gather with the others */
	BlockNumber part_next;
	BlockNumber part_end;

	/* which blocks: total of them from start on, wrapping around at nblocks */
	BlockNumber nblocks;
	BlockNumber start;
	BlockNumber total;

	/*
	 * Where the scan is: block, InvalidBlockNumber if none.  A stream reads
	 * ahead of it, up to the block at next_index among those of the scan (not
	 * parallel), once inited says that it has begun.
	 */
	BlockNumber block;
	ScanDirection direction;
	bool		inited;
	BlockNumber next_index;
	ReadStream *stream;			/* NULL: none */

	/*
	 * What the snapshot sees of the block (page mode), copied, so that no
	 * lock or pin is needed any more; offsets ascend.  current is the row
	 * returned last, -1 or nrows before the first.  rows is NULL or ours
	 * alone while a block is loaded; tuple slots may share it afterwards.
	 * spare: the rows of the block before, which a tuple slot may still show.
	 */
	bool		page_mode;
	int			nrows;
	int			current;
	bool		stale;			/* entries of the page's rows may have other
								 * keys (Z49) */
	OffsetNumber maxoff;
	ZScanRow	row[MaxHeapTuplesPerPage];
	ZRows	   *rows;
	ZRows	   *spare;
	uint32		rowsused;

	/* buffer read last without a stream, not pinned */
	Buffer		last;

	/* what to have fetched of the next page: a hint, never read from */
	const char *ahead;
	const char *ahead_end;

	/* a scan row by row: pinned page, offset of the row returned last */
	Buffer		buffer;
	OffsetNumber off;

	/*
	 * DIRTY: rows of the page behind off at which nothing was in progress,
	 * listed in row and rows; those before next_quiet were returned.  What is
	 * behind quiet_end wasn't judged.
	 */
	int			nquiet;
	int			next_quiet;
	OffsetNumber quiet_end;

	/* does core check a new exclusion constraint by it */
	bool		checks_exclusion;

	/* ANALYZE: rows of the block that are dead */
	int			ndead;

	/*
	 * Undo that was read at random for the blocks from old_from on, counted in
	 * the scan's order, and what was gathered for the block at hand, or NULL:
	 * zheap_scan_gather.c.
	 */
	uint64		old_reads;
	BlockNumber old_from;
	BlockNumber old_window;		/* blocks that a pass covers; 0: not known */
	const UndoGather *gather;

	/* TID range */
	ItemPointerData mintid;
	ItemPointerData maxtid;

	ZVersion	version;		/* workspace */
} ZScanDescData;

typedef ZScanDescData *ZScanDesc;

/* give the page up that a scan row by row has pinned */
extern void zheap_scan_unpin(ZScanDesc scan);

/*
 * Read the next block of the scan, which becomes scan->block: its buffer,
 * pinned, or InvalidBuffer at the end.  The other reads one that is named.
 */
extern Buffer zheap_scan_next_buffer(ZScanDesc scan, ScanDirection direction);
extern Buffer zheap_scan_read_block(ZScanDesc scan, BlockNumber block);

/*
 * Page mode: collect what the snapshot sees of scan->block, which is in that
 * buffer; of the listed offsets only, if any are given.  Releases the pin.
 */
extern void zheap_scan_load_page(ZScanDesc scan, Buffer buffer,
								 const OffsetNumber *offsets, int noffsets,
								 bool predicate_lock);

/* restrict a scan not yet begun; total InvalidBlockNumber: to the end */
extern void zheap_scan_set_limits(ZScanDesc scan, BlockNumber start,
								  BlockNumber total);

/* parallel: the block that nobody else has taken, invalid at the end; no pin */
extern BlockNumber zheap_scan_next_parallel(ZScanDesc scan);

/* from now on, by the parts of what was gathered */
extern void zheap_scan_hand_out_parts(ZParallelScan shared,
									  const UndoGather *g);

/* how far a block is from the one where a scan that wraps around began */
static inline BlockNumber
zheap_scan_distance(ZScanDesc scan, BlockNumber start, BlockNumber block)
{
	return block >= start ? block - start : scan->nblocks - start + block;
}

/* blocks in the whole scan, and done so far, for progress reports */
extern BlockNumber zheap_scan_blocks_total(ZScanDesc scan);
extern BlockNumber zheap_scan_blocks_done(ZScanDesc scan);

/* forget the rows; add a copy of one (allocates; any lock may be held) */
extern void zheap_scan_clear_rows(ZScanDesc scan);

/*
 * Begin to read scan->block, which is in that pinned buffer: cx is open and the
 * page share-locked; it was checked, unless it is new.
 */
extern Page zheap_scan_lock_page(ZScanDesc scan, Buffer buffer,
								 Snapshot snapshot, ZReadContext *cx);
extern void zheap_scan_add_row(ZScanDesc scan, OffsetNumber off,
							   const ZVersion *v);

/*
 * To be called before scan->block is loaded, which is in that pinned buffer, and
 * if something is to be gathered or was: sets scan->gather.  Returns the
 * block's buffer, pinned.
 */
extern Buffer zheap_scan_gather(ZScanDesc scan, Buffer buffer);

/* reads that are too few to think about; and 0: do not wait for any */
#define FEW_OLD_READS		UNDO_KNOB("gather-reads", 500, 1, 500)
#define GATHER_AT_ONCE		UNDO_KNOB("gather", 0, 0, 7)

/* has another process of a parallel scan begun to gather */
static inline bool
zheap_scan_team_calls(ZScanDesc scan)
{
	ZParallelScan shared = (ZParallelScan) scan->base.rs_parallel;

	return shared != NULL && !scan->alone &&
		undo_gather_team_begun(&shared->team);
}

static inline bool
zheap_scan_may_gather(ZScanDesc scan)
{
	return undo_gather_count > 0 || scan->old_reads >= FEW_OLD_READS ||
		GATHER_AT_ONCE > 0 || zheap_scan_team_calls(scan);
}

/* put row i into a tuple slot, under its plain TID */
extern void zheap_scan_store_row(ZScanDesc scan, int i, TupleTableSlot *slot);

/* core's check of a new exclusion constraint: zheap_exclusion.c */
extern void zheap_exclusion_index_built(Relation rel);
extern bool zheap_exclusion_scan_begins(Relation rel);
extern void zheap_exclusion_scan_ends(void);
extern bool zheap_exclusion_is_checked(Relation rel);

/* mark the TID of a version that a DIRTY snapshot has just found */
extern void zheap_scan_tag_dirty(Relation rel, Snapshot snapshot,
								 const ZVersion *v, ItemPointer tid);

#endif							/* ZHEAP_SCAN_H */
