/*-------------------------------------------------------------------------
 *
 * zheap_watch.h
 *	  Scans of soft indexes: which entry does a row come from?
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_WATCH_H
#define ZHEAP_WATCH_H

#include "access/genam.h"
#include "access/relscan.h"
#include "miscadmin.h"

#include "zheap/soft/zheap_announce.h"
#include "zheap/soft/zheap_keyed.h"

/* rows whose old entries a scan deletes at a time */
#define ZWATCH_MAX_OLD			64

/* what an index scan keeps between fetches; the beginning of it */
typedef struct ZWatchedFetch
{
	IndexFetchTableData base;	/* must be first */
	IndexScanDesc scan;			/* of a soft index, whose entries are kept; or
								 * NULL */
	IndexScanDesc hard;			/* of an index that isn't of a soft kind */
	uint64		removed;		/* versions that were not accepted */
	/* entries of a leaf that nobody needs, by their rows */
	BlockNumber leaf;
	int			nold;
	ItemPointerData *old;		/* ZWATCH_MAX_OLD of them, or NULL */
	/* does nobody need an entry: asked in ever longer intervals */
	int			unasked;
	int			interval;
} ZWatchedFetch;

/* A scan of an index of an announced table begins: have it watched. */
extern void zheap_watch_indexes(Relation rel);

static inline void
zheap_watch_begin(Relation rel)
{
	/* a uniqueness check, with a leaf locked, is no scan */
	if (InterruptHoldoffCount == 0 && unlikely(zheap_announce_is_made(rel)))
		zheap_watch_indexes(rel);
}

/*
 * Has a version of a row the key of the entry that the scan stands at (Z49)?
 * Of a row that is STALE; tid and call_again are what core has passed.  The
 * row's page may be locked if may_fetch is false.  ZKEY_SAME if the row isn't
 * fetched for a scan, or the index has no stale entries.  ERROR if the scan
 * should be watched and isn't.
 */
extern ZKeyMatch zheap_watch_compare(ZWatchedFetch *fetch, ItemPointer tid,
									 bool *call_again, const char *tuple,
									 uint16 len, bool may_fetch);

/*
 * The entry that a watched scan stands at is that of a key which its row
 * doesn't have, or its row is dead to all.  Those that nobody needs are deleted
 * when the scan leaves their leaf.  settled: the version that has another key
 * is the newest one, and visible to all.  buffer is the row's page, pinned and
 * not locked; plain is its TID.
 */
extern void zheap_watch_note_old(ZWatchedFetch *fetch, Buffer buffer,
								 const ItemPointerData *plain, bool settled);

/*
 * The planner looks for the least or greatest key, and the row doesn't have that
 * of the entry any more.  Does it count nevertheless?  Yes if a snapshot may
 * need it, which is how heap answers, or if the scan has passed so many that it
 * must stop.  As zheap_watch_note_old() else.
 */
extern bool zheap_watch_is_end(ZWatchedFetch *fetch, Buffer buffer,
							   const ItemPointerData *plain);

/* The scan ends, or begins anew. */
extern void zheap_watch_delete_old(ZWatchedFetch *fetch);

/* How many versions were not accepted in this scan?  0 if it isn't watched. */
extern uint64 zheap_watch_removed(IndexScanDesc scan);

#endif							/* ZHEAP_WATCH_H */
