/*-------------------------------------------------------------------------
 *
 * undo_gather.h
 *	  Undo of one relation, read once in the order in which it lies and handed
 *	  out in the order of the relation's blocks.
 *
 *		g = undo_gather_find(rel)	or	undo_gather_build(rel, ...)
 *		if (undo_gather_position(g, block))
 *			reader.gather = g;
 *
 * Then undo_record_fetch() of that block's records asks here first.  What isn't
 * here is read from its undo page: so it may be incomplete, but not wrong.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_GATHER_H
#define UNDO_GATHER_H

#include "storage/barrier.h"
#include "storage/dsm.h"
#include "utils/relcache.h"

#include "undo/record/undo_record.h"

/* how many relations there are for which undo was gathered */
extern int	undo_gather_count;

/* undo blocks that a pass would read now */
extern uint64 undo_gather_cost(char persistence);

/* what there is for a relation, or NULL */
extern UndoGather *undo_gather_find(Relation rel);

/*
 * Read all undo of the relation by writers from floor on, for its blocks from
 * "first" on, nblocks of them in all.  If that is too much for memory and disk,
 * for less of them; *nblocks is how many it covers from "first" on, 0 if none,
 * as where there is no room for files: NULL is returned then.  per_part: blocks
 * to be loaded at once, 0 to choose.
 *
 * Takes the place of what there was for the relation.  Lasts until the end of the
 * transaction or undo_gather_drop().  Takes as long as it takes to read undo
 * from one end to the other; may be cancelled.  Nothing is locked, and no page
 * should be pinned.  Not for temporary relations.
 */
extern UndoGather *undo_gather_build(Relation rel, Fxid floor,
									 BlockNumber first, BlockNumber *nblocks,
									 BlockNumber per_part);
extern void undo_gather_drop(Relation rel);

/*
 * Processes that scan a relation together and gather together, in memory that
 * they share.
 */
typedef struct UndoGatherTeam
{
	Barrier		barrier;
	dsm_handle	segment;		/* of what was gathered, if it was */
	bool		ready;			/* it was, before there was a team */
	bool		no_room;		/* for the files of one of its processes, or
								 * the segment */
} UndoGatherTeam;

/* g, of the process that sets the team up, or NULL: it is the team's, too */
extern void undo_gather_team_init(UndoGatherTeam *team, const UndoGather *g);

/* Has anybody joined yet? */
extern bool undo_gather_team_begun(UndoGatherTeam *team);

/*
 * Gather together with others who join, for the blocks from 0 to nblocks - 1 (the
 * same for all); or attach to what they gathered.  NULL: that was too much, or is
 * there no more.  Else as undo_gather_build().  Nobody may wait for this process
 * to do anything else.
 */
extern UndoGather *undo_gather_join(UndoGatherTeam *team, Relation rel,
									Fxid floor, BlockNumber nblocks,
									BlockNumber per_part);

/* it covers blocks below that; and so many are loaded at once */
extern BlockNumber undo_gather_end(const UndoGather *g);
extern BlockNumber undo_gather_per_part(const UndoGather *g);

/*
 * Records of this block are going to be asked for.  False if it isn't covered.
 * Reads files; no page is locked.
 */
extern bool undo_gather_position(UndoGather *g, BlockNumber block);

/*
 * The record at urp, if it is one of the block that g stands at.  Writer and
 * block are for the caller to compare.
 */
extern bool undo_gather_get(const UndoGather *g, UndoRecPtr urp,
							UndoRecord *rec);

#endif							/* UNDO_GATHER_H */
