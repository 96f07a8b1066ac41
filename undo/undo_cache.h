/*-------------------------------------------------------------------------
 *
 * undo_cache.h
 *	  Memory of read caches.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_CACHE_H
#define UNDO_CACHE_H

/*
 * Zeroed memory that lives as long as the backend.  ERROR (53200) if there is
 * none, so not to be called in a critical section.
 */
extern void *undo_cache_alloc(Size size);

#endif							/* UNDO_CACHE_H */
