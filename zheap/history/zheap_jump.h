/*-------------------------------------------------------------------------
 *
 * zheap_jump.h
 *	  Jumps in the history of a row that is updated often.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_JUMP_H
#define ZHEAP_JUMP_H

#include "zheap/history/zheap_history.h"

extern void zheap_jump_define_settings(void);

/*
 * Give u, an UPDATE that is described but for its jump, one if it is due.
 * body: the new version, which isn't on the page yet.  Exclusive lock held,
 * aborted owners rolled back.  May read undo.  Returns what is to be pfree'd
 * when u was written, or NULL.
 */
extern char *zheap_jump_describe(ZReadContext *cx, Page page,
								 BlockNumber block, const char *body,
								 uint16 len, ZUndo *u);

#endif							/* ZHEAP_JUMP_H */
