/*-------------------------------------------------------------------------
 *
 * zheap_record_cache.h
 *	  Undo records that this backend read lately.
 *
 * For zheap_walk.c and zheap_visibility.c.  The rows of a page share the
 * chains of its xact slots, so each record would be read once per row; from
 * here it comes without a look at the undo page.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_RECORD_CACHE_H
#define ZHEAP_RECORD_CACHE_H

#include "zheap/format/zheap_undo.h"

/* longer payloads are not kept, only what it takes to pass the record */
#define ZUNDO_CACHED_PAYLOAD	72

typedef struct ZCachedUndo
{
	Fxid		writer;			/* 0 = empty */
	UndoRecPtr	urp;
	UndoRecPtr	chain;
	Fxid		prev_fxid;
	Fxid		base_fxid;
	UndoRecPtr	base_urp;
	CommandId	cid;
	BlockNumber block;
	Oid			reloid;
	Oid			dboid;
	OffsetNumber first;			/* rows that it may cover; first > last: none */
	OffsetNumber last;
	char		persistence;
	uint8		kind;
	uint8		flags;
	bool		has_payload;
	OffsetNumber offset;
	uint16		payload_len;
	char		payload[ZUNDO_CACHED_PAYLOAD];
} ZCachedUndo;

/* the record if it is remembered, else NULL; valid until the next put */
extern const ZCachedUndo *zheap_record_cache_get(char persistence, Fxid writer,
												 UndoRecPtr urp);

/* remember a record that was read and decoded */
extern const ZCachedUndo *zheap_record_cache_put(char persistence,
												 const UndoRecord *rec,
												 const ZUndo *undo);

/* make rec what undo_record_fetch() made it; has_payload required */
extern void zheap_record_cache_unpack(const ZCachedUndo *cached,
									  UndoRecord *rec);

#endif							/* ZHEAP_RECORD_CACHE_H */
