/*-------------------------------------------------------------------------
 *
 * undo_debug.h
 *	  Named points at which a test can crash a process (assert builds only).
 *
 * A point fires once, if the file "zheap_crash_point" in the data directory
 * holds its name: the file is removed and the process ends as if killed, so
 * that the server goes through crash recovery.  See t/013_crash_points.pl.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_DEBUG_H
#define UNDO_DEBUG_H

#ifdef USE_ASSERT_CHECKING
extern void undo_debug_crash_point(const char *point);
#define UNDO_CRASH_POINT(point)		undo_debug_crash_point(point)
#else
#define UNDO_CRASH_POINT(point)		((void) 0)
#endif

#endif							/* UNDO_DEBUG_H */
