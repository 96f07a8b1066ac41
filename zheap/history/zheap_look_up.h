/*-------------------------------------------------------------------------
 *
 * zheap_look_up.h
 *	  Looking up from a long reading of undo: is the process interrupted?
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_LOOK_UP_H
#define ZHEAP_LOOK_UP_H

#include "undo/undo_debug.h"

/* records to be passed before one looks whether the process is interrupted */
#define ZWALK_LOOK_UP			UNDO_KNOB("look-up", 2000, 1, 2000)

extern void zheap_walk_look_up(int *until_look);

#endif							/* ZHEAP_LOOK_UP_H */
