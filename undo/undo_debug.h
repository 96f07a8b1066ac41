/*-------------------------------------------------------------------------
 *
 * undo_debug.h
 *	  Named points at which a test stops or ends a process (assert builds).
 *
 * A point stands between two steps that other processes can tell apart.  It
 * does nothing unless the data directory holds the file zheap_points/NAME.
 * The first process that comes by obeys the file's only word and takes the
 * file away:
 *
 *	crash		the process ends as if killed; the server recovers
 *	wait		the file is renamed to NAME.at; the process waits until
 *				somebody removes that
 *	error		ERROR, where the point allows it
 *
 * A second word is the pid of the only process that is meant.
 *
 * UNDO_POINT may stand anywhere, in critical sections and under LWLocks too.
 * UNDO_ERROR_POINT stands where an error is allowed; only there is a process
 * that waits cancelled.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_DEBUG_H
#define UNDO_DEBUG_H

#ifdef USE_ASSERT_CHECKING
extern void undo_debug_point(const char *name, bool may_fail);
#define UNDO_POINT(name)			undo_debug_point(name, false)
#define UNDO_ERROR_POINT(name)		undo_debug_point(name, true)
#else
#define UNDO_POINT(name)			((void) 0)
#define UNDO_ERROR_POINT(name)		((void) 0)
#endif

#endif							/* UNDO_DEBUG_H */
