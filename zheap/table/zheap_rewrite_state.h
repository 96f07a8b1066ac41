/*-------------------------------------------------------------------------
 *
 * zheap_rewrite_state.h
 *	  A rewrite under way; private to zheap_rewrite*.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_REWRITE_STATE_H
#define ZHEAP_REWRITE_STATE_H

#include "access/detoast.h"
#include "access/heapam.h"
#include "access/htup_details.h"
#include "nodes/pg_list.h"
#include "utils/hsearch.h"

#include "zheap/history/zheap_walk.h"
#include "zheap/large/zheap_chunk.h"
#include "zheap/table/zheap_table.h"

#define REWRITE_OPTIONS		(HEAP_INSERT_SKIP_FSM | HEAP_INSERT_NO_LOGICAL)

typedef enum RowClass
{
	ROW_NONE,					/* no row under this TID */
	ROW_DEAD,					/* ended for all */
	ROW_SETTLED,
	ROW_RECENT
} RowClass;

/* a recent row on its way */
typedef struct RecentRow
{
	ItemPointerData tid;		/* in the old file */
	ItemPointerData next;		/* it moved there; else invalid */
	ItemPointerData from;		/* it came from there by a move, or invalid */
	bool		key;			/* its end is a change of the key */
	bool		lacks;			/* some version lacks columns with defaults */
	ZTupleHeader header;
	Fxid		link_fxid;		/* the newest version's writer and record */
	UndoRecPtr	link_urp;
	uint16		len;
	char		image[FLEXIBLE_ARRAY_MEMBER];
} RecentRow;

/* a large value of some version of a row */
typedef struct External
{
	Fxid		ended_by;		/* of the newest version that has it, or none */
	char		pointer[TOAST_POINTER_SIZE];
} External;

/* where rows went that had come by a move */
typedef struct ArrivedRow
{
	ItemPointerData old;		/* hash key */
	ItemPointerData new;
} ArrivedRow;

typedef struct Rewrite
{
	Relation	oldrel;
	Relation	newrel;
	TupleDesc	desc;
	CommandId	cid;
	BulkInsertState bistate;
	Fxid		horizon;		/* committed below: visible to everybody */
	Fxid		conflict;		/* newest writer settled by that, not by
								 * all_visible_before */
	BlockNumber conflict_block;

	/* columns */
	bool		has_dropped;
	bool		toasts;			/* values are kept out of line */
	bool		has_missing;	/* defaults that core will forget */
	ZTuple	   *missing;		/* a row of them, once one is needed */
	Datum	   *values;
	bool	   *isnull;

	/* the old page */
	BlockNumber block;
	BufferAccessStrategy strategy;
	UndoHorizons hz;
	UndoReader	reader;
	PGAlignedBlock page;

	/* the row being judged */
	ZWalk		walk;
	uint16		len;
	char		image[BLCKSZ];
	RecentRow  *recent;			/* of a ROW_RECENT; in row_context */
	List	   *externals;		/* its versions' Externals, each once */
	MemoryContext row_context;

	/* settled rows that are going to be written together */
	int			nbatch;
	Size		batch_bytes;
	ZTuple	   *batch[MaxHeapTuplesPerPage];
	MemoryContext batch_context;
	char	   *scratch;

	/* identities of values that were saved, but no live row has */
	List	   *deleted;

	/* moves */
	List	   *moved;			/* RecentRows whose copy waits for the end */
	HTAB	   *arrived;
	MemoryContext context;

	/* for the caller */
	double		num_tuples;
	double		vacuumed;
	double		recently_dead;
} Rewrite;

#define rewrite_is_corrupt(rw, off, expected) \
	zheap_walk_corrupt((rw)->oldrel, (rw)->block, off, expected)

/* an ended row was counted that nobody needs any more */
static inline void
rewrite_found_dead(Rewrite *rw)
{
	rw->num_tuples -= 1;
	rw->recently_dead -= 1;
	rw->vacuumed += 1;
}

/* zheap_rewrite_judge.c */
extern void zheap_rewrite_judge_columns(Rewrite *rw);
extern void zheap_rewrite_judge_missing(Rewrite *rw);
extern void zheap_rewrite_judge_deform(Rewrite *rw, const char *image,
									   uint16 len);
extern void zheap_rewrite_judge_load(Rewrite *rw, BlockNumber block);
extern RowClass zheap_rewrite_judge_row(Rewrite *rw, OffsetNumber off);

/* zheap_rewrite_write.c */
extern void zheap_rewrite_write_batch(Rewrite *rw);
extern void zheap_rewrite_write_settled(Rewrite *rw, ZTuple *tuple);
extern void zheap_rewrite_write_row(Rewrite *rw, RowClass class);
extern void zheap_rewrite_write_moved(Rewrite *rw);
extern void zheap_rewrite_write_deleted(Rewrite *rw);

#endif							/* ZHEAP_REWRITE_STATE_H */
