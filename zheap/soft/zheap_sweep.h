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
 * zheap_sweep_indexes().  That is due before another page if the list is full.
 */
extern void zheap_sweep_list(ZSweep *sweep, Buffer buffer);
extern bool zheap_sweep_is_full(ZSweep *sweep);

/*
 * Nothing is locked: delete old entries of the rows noted, if there are enough
 * of them or "always", and stamp the pages; then none is noted any more.
 * indexes: info for each of them, and what they said of this VACUUM so far, or
 * NULL if others keep that.  Returns the number of entries deleted.
 */
extern int64 zheap_sweep_indexes(ZSweep *sweep, bool always,
								 IndexVacuumInfo *indexes,
								 IndexBulkDeleteResult **stats,
								 int nindexes);

/*
 * How many of an index's entries are old, or will be, and had to stay: those that
 * weren't worth it aren't counted.
 */
extern int64 zheap_sweep_left(ZSweep *sweep);

#endif							/* ZHEAP_SWEEP_H */
