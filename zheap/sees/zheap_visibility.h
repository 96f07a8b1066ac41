/*-------------------------------------------------------------------------
 *
 * zheap_visibility.h
 *	  Steps of the search for a version.  Private to zheap_visibility.c and
 *	  zheap_newest.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_VISIBILITY_H
#define ZHEAP_VISIBILITY_H

#include "zheap/history/zheap_walk.h"
#include "zheap/sees/zheap_sees.h"

/* a version known to be ended, whose record wasn't looked for */
static inline uint8
kind_of_ended(const ZTupleHeader *hdr)
{
	return (hdr->flags2 & ZH_END_MASK) == ZH_MOVED ? ZUNDO_MOVE : ZUNDO_DELETE;
}

/*
 * zheap_walk_find() for a reader that may give up where an aborted history is
 * long.  Histories of other owners are as long as the snapshot keeps them.
 */
extern ZFindResult zheap_visibility_find_patiently(ZReadContext *cx,
												   ZWalk *walk, ZXactStatus status);

extern void zheap_visibility_clear(ZVersion *v);

/*
 * Name the writer of the version the walk stands at (Z33: an identity
 * is the writer itself; the owner of the xact slot changes with takeovers
 * that don't touch the row).  Any owner's status may be met.  Own writers are
 * always looked for, since their cid is part of the identity; so are moves,
 * for the new TID.  May give up: cx->too_long.
 */
extern void zheap_visibility_identify(ZReadContext *cx, ZWalk *walk,
									  Buffer buffer, ZVersion *v);

#endif							/* ZHEAP_VISIBILITY_H */
