/*-------------------------------------------------------------------------
 *
 * zheap_announce.h
 *	  Tables whose keys change in place are announced to index scans first
 *	  (zheap/README, Z55).
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_ANNOUNCE_H
#define ZHEAP_ANNOUNCE_H

#include "access/xlogreader.h"
#include "port/atomics.h"
#include "utils/rel.h"

#include "zheap/soft/zheap_keyed.h"

extern void zheap_announce_shmem_request(void);
extern void zheap_announce_shmem_startup(void);

typedef struct ZAnnounceShared
{
	pg_atomic_uint64 number;	/* of announcements, and of what may be one */
	pg_atomic_uint64 stamp;		/* of the newest, or InvalidFxid */
} ZAnnounceShared;

/* what a backend remembers of a table; private to zheap_announce.c */
typedef struct ZAnnounceKnown
{
	RelFileLocator locator;
	uint64		number;			/* of announcements when the page was read, 0:
								 * it wasn't */
	uint64		changes;		/* zheap_keyed_changes of then */
	uint16		flags;			/* of the page, or UNREADABLE */
} ZAnnounceKnown;

/* The first page is damaged: scans expect what may be, no key changes. */
#define ZANNOUNCE_UNREADABLE	0x8000

#define ZANNOUNCE_KNOWN			1024
extern ZAnnounceShared *zheap_announce_shared;
extern ZAnnounceKnown zheap_announce_known[ZANNOUNCE_KNOWN];
extern ZAnnounceKnown *zheap_announce_read(Relation rel);

/* what the first page says, or said at the last announcement */
static inline ZAnnounceKnown *
zheap_announce_look_up(Relation rel)
{
	ZAnnounceKnown *k =
		&zheap_announce_known[RelationGetRelid(rel) % ZANNOUNCE_KNOWN];

	if (likely(k->number ==
			   pg_atomic_read_u64(&zheap_announce_shared->number) &&
			   RelFileLocatorEquals(k->locator, rel->rd_locator)))
		return k;
	return zheap_announce_read(rel);
}

/*
 * Must a scan that begins now keep the entries of soft indexes that it reads?
 * Its snapshot is taken.  Nothing is locked.  Not for tables in local buffers,
 * where no key changes in place.
 */
static inline bool
zheap_announce_is_made(Relation rel)
{
	return (zheap_announce_look_up(rel)->flags &
			(ZPAGE_ANNOUNCED | ZANNOUNCE_UNREADABLE)) != 0;
}

/*
 * May I change keys of the table in place?  The table is locked against
 * truncation, no page is.
 */
extern bool zheap_announce_allows(Relation rel);

/*
 * A row had to move because that wasn't allowed: see to it that it will be, as
 * soon as the snapshots of now are gone.  Locks as above.
 */
extern void zheap_announce_make(Relation rel);

/* newrel, a copy that nobody else can see yet, may have what rel may have */
extern void zheap_announce_copy(Relation rel, Relation newrel);

/* The table's first page may be gone.  Its lock excludes everybody else. */
extern void zheap_announce_forget(void);

/* after redo of a page delta */
extern void zheap_announce_redo(XLogReaderState *record);

#endif							/* ZHEAP_ANNOUNCE_H */
