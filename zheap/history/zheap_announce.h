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
#include "utils/rel.h"

extern void zheap_announce_shmem_request(void);
extern void zheap_announce_shmem_startup(void);

/*
 * Must a scan that begins now keep the entries of soft indexes that it reads?
 * Its snapshot is taken.  Nothing is locked.
 */
extern bool zheap_announce_is_made(Relation rel);

/*
 * May I change keys of the table in place?  If not, everything is done for it
 * to be allowed as soon as the snapshots of now are gone: the row moves.  The
 * table is locked against truncation, no page is.
 */
extern bool zheap_announce_allows(Relation rel);

/* newrel, a copy that nobody else can see yet, may have what rel may have */
extern void zheap_announce_copy(Relation rel, Relation newrel);

/* The table's first page may be gone.  Its lock excludes everybody else. */
extern void zheap_announce_forget(void);

/* after redo of a page delta */
extern void zheap_announce_redo(XLogReaderState *record);

#endif							/* ZHEAP_ANNOUNCE_H */
