/*-------------------------------------------------------------------------
 *
 * undo_snapshot_limit.h
 *	  zheap.max_snapshot_undo_size.  What sessions call is in undo.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_SNAPSHOT_LIMIT_H
#define UNDO_SNAPSHOT_LIMIT_H

/* setting, kB; -1: none */
extern int	undo_snapshot_limit;

extern void undo_snapshot_limit_round(uint64 retained);

#endif							/* UNDO_SNAPSHOT_LIMIT_H */
