/*-------------------------------------------------------------------------
 *
 * undo_horizons.h
 *	  The two horizons in shared memory and on the global control page.
 *
 * Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_HORIZONS_H
#define UNDO_HORIZONS_H

#include "undo/undo_defs.h"

/*
 * Raise the published horizons, lower values are ignored; set them lower, at a
 * start only; create the global control page
 */
extern void undo_horizons_publish(Fxid all_visible_before,
								  Fxid discard_before);
extern void undo_horizons_publish_lower(Fxid horizon);
extern void undo_horizons_lower(Fxid horizon);
extern void undo_horizons_create(Fxid all_visible_before, Fxid discard_before);

#endif							/* UNDO_HORIZONS_H */
