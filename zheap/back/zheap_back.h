/*-------------------------------------------------------------------------
 *
 * zheap_back.h
 *	  Taking back what aborted, page by page, with the buffers that were used
 *	  lately and what the free space map is told of room that comes free.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_BACK_H
#define ZHEAP_BACK_H

#include "zheap/history/zheap_history.h"

/* ----------------------------------------------------------------
 *	zheap_buffer.c
 * ----------------------------------------------------------------
 */
extern void zheap_buffer_note(Relation rel, BlockNumber block, Buffer buffer);
extern Buffer zheap_buffer_recent(Relation rel, BlockNumber block);
extern Buffer zheap_buffer_read(Relation rel, BlockNumber block);
extern const char *zheap_buffer_next_page(Relation rel, Buffer buffer,
										  BufferAccessStrategy strategy);

/* ----------------------------------------------------------------
 *	zheap_rollback.c
 * ----------------------------------------------------------------
 */

/*
 * Rolls a page back (Z20).  Takes and releases the exclusive lock itself, in
 * batches; no lock held by the caller.  The registered undo client.
 */
extern void zheap_rollback_page(Relation rel, BlockNumber block);

/*
 * One batch, with the buffer pinned and exclusively locked by the caller, kept
 * so.  False: more is left to do.  A caller that wants all of it done gives the
 * lock up before it goes on, for a history may be long.
 */
extern bool zheap_rollback_buffer(Relation rel, Buffer buffer);

/*
 * Lock a pinned buffer exclusively, its page rolled back.  No lock held by the
 * caller; the lock is given up between batches, where interrupts are served.
 */
extern void zheap_rollback_lock(Relation rel, Buffer buffer);

/* pages that this process has rolled back, as pgBufferUsage counts */
extern uint64 zheap_rollback_pages;

/*
 * A reader with cx, for which no page is locked yet, need not stay on a page
 * with a long history: where it may roll the page back, in recovery it may not,
 * it gives up after some records of aborted changes; elsewhere it does when it
 * is interrupted, or, when interrupts are held off by an index page's lock,
 * fails.  Whoever finds cx->too_long calls zheap_rollback_for_reader(), with
 * nothing locked, and begins again.
 */
extern void zheap_rollback_limit_reader(ZReadContext *cx);
extern void zheap_rollback_for_reader(Relation rel, BlockNumber block);

/*
 * Roll back a reader's copy of a page that it holds locked (share is enough),
 * as far as one batch goes.  Nothing is logged, no hint is set.
 */
extern void zheap_rollback_copy(ZReadContext *cx, Page copy,
								BlockNumber block);

/* ----------------------------------------------------------------
 *	zheap_fsm_notes.c
 * ----------------------------------------------------------------
 */

/* what to tell the free space map: for it, nothing is larger than heap's rows */
static inline Size
zheap_fsm_room(Size room)
{
	return room >= ZHEAP_MAX_TUPLE_SIZE ? MaxHeapTupleSize : room;
}

/*
 * A change of the running transaction made this page's room grow, once it has
 * committed, by about bytes: the free space map is told at commit.  Page
 * locked; may allocate.
 */
extern void zheap_fsm_notes_add(Relation rel, BlockNumber block, Page page,
								Size bytes);

/* a page was rolled back; in an abort callback.  Never throws */
extern void zheap_fsm_notes_rolled_back(Relation rel, BlockNumber block,
										Size room);

/*
 * Tell the map of a page at once, if there is room for it.  In a transaction, no
 * lock held; throws what isn't about room.
 */
extern void zheap_fsm_notes_tell(Relation rel, BlockNumber block, Size room);

extern void zheap_fsm_notes_register(void); /* transaction callback */

#endif							/* ZHEAP_BACK_H */
