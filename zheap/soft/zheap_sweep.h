/*-------------------------------------------------------------------------
 *
 * zheap_sweep.h
 *	  VACUUM's care for rows that changed their keys in place.  Private to
 *	  zheap_vacuum.c and zheap_sweep.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SWEEP_H
#define ZHEAP_SWEEP_H

#include "access/genam.h"

#include "zheap/owner/zheap_xact_slot.h"

typedef struct ZSweep ZSweep;

/* max_bytes: memory for TIDs */
extern ZSweep *zheap_sweep_begin(Relation rel, Size max_bytes);

/*
 * A page that was rolled back, locked exclusively: clear the marks of its rows
 * if that is possible by now.
 */
extern void zheap_sweep_clear(ZSweep *sweep, Buffer buffer,
							  const UndoHorizons *hz);

/*
 * The same page, pruned: note rows that are marked still, for
 * zheap_sweep_indexes().
 */
extern void zheap_sweep_list(ZSweep *sweep, Buffer buffer);

/*
 * All pages were visited, nothing is locked: delete old entries, and stamp the
 * pages whose rows have none any more.  indexes: info for each of them.
 * Returns the number of entries deleted.
 */
extern int64 zheap_sweep_indexes(ZSweep *sweep, IndexVacuumInfo *indexes,
								 int nindexes);

#endif							/* ZHEAP_SWEEP_H */
