/*-------------------------------------------------------------------------
 *
 * undo_snapshot_limit.h
 *	  zheap.max_snapshot_undo_size.  What sessions call is in undo.h.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_SNAPSHOT_LIMIT_H
#define UNDO_SNAPSHOT_LIMIT_H

#include "port/atomics.h"

/* how many sessions are asked to give up their snapshots */
extern pg_atomic_uint32 *undo_snapshots_asked;

/* ERROR 72000 if mine is asked for; in a critical section it may not be called */
extern void undo_snapshot_limit_give_up(void);

static inline void
undo_check_snapshot(void)
{
	if (unlikely(pg_atomic_read_u32(undo_snapshots_asked) != 0))
		undo_snapshot_limit_give_up();
}

/* In PG_CATCH: throws that error if the one caught is the cancelling of it. */
extern void undo_snapshot_limit_translate(void);

/* setting, kB; -1: none */
extern int	undo_snapshot_limit;

extern void undo_snapshot_limit_round(uint64 retained);

#endif							/* UNDO_SNAPSHOT_LIMIT_H */
