/*-------------------------------------------------------------------------
 *
 * undo_assert.h
 *	  What assertions ask about locks on buffers.
 *
 * Which locks a function needs, or must not hold because it waits, stands in
 * its contract; these say it where it can fail.  Buffers of temporary tables
 * have no content lock: they count as locked by their owner.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_ASSERT_H
#define UNDO_ASSERT_H

#include "storage/buf.h"

#ifdef USE_ASSERT_CHECKING

/* undo_debug.c */
extern bool undo_debug_page_is_locked(Buffer buffer, bool exclusively);
extern bool undo_debug_no_page_is_locked(void);

#endif

/* held by this process, in any mode, or exclusively */
#define AssertPageLocked(buffer) \
	Assert(undo_debug_page_is_locked(buffer, false))
#define AssertPageExclusive(buffer) \
	Assert(undo_debug_page_is_locked(buffer, true))

/* where it waits, or calls what may lock any page */
#define AssertNoPageLocked() \
	Assert(undo_debug_no_page_is_locked())

#endif							/* UNDO_ASSERT_H */
