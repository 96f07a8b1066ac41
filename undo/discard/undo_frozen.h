/*-------------------------------------------------------------------------
 *
 * undo_frozen.h
 *	  relfrozenxid, by which core keeps the commit log (U21).
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_FROZEN_H
#define UNDO_FROZEN_H

#include "undo/undo_defs.h"

/*
 * The commit log is asked for writers from all_visible_before on only, so a
 * table may have this as its relfrozenxid, and each table must have one: it is
 * what keeps core from cutting the commit log (U21; undo_frozen.c).
 */
extern TransactionId undo_frozen_xid(void);
extern void undo_frozen_raise_horizons(void);
extern void undo_frozen_warn_of_age(uint32 limit);

#endif							/* UNDO_FROZEN_H */
