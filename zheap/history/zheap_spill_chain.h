/*-------------------------------------------------------------------------
 *
 * zheap_spill_chain.h
 *	  The spill chain of a page: bodies of ended rows that were moved to undo
 *	  to make room (Z11).
 *
 * Private to zheap_spill_chain.c, zheap_walk.c, zheap_prune.c,
 * zheap_make_room.c and zheap_check_page.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SPILL_CHAIN_H
#define ZHEAP_SPILL_CHAIN_H

#include "zheap/format/zheap_undo.h"
#include "zheap/history/zheap_ring.h"

typedef enum ZSpillResult
{
	ZSPILL_FOUND,
	ZSPILL_NEEDLESS,			/* ended for every snapshot that may ask */
	ZSPILL_MISSING				/* corruption: the chain has no such row */
} ZSpillResult;

/* A position in the chain: the record at urp, written by fxid; fxid 0: end. */
typedef struct ZSpillChain
{
	Fxid		fxid;
	UndoRecPtr	urp;
	ZRing		ring;
} ZSpillChain;

extern void zheap_spill_chain_start(ZSpillChain *chain, Page page);

/* the entries of a record */
typedef struct ZSpillCursor
{
	const UndoRecord *raw;
	const ZUndo *undo;
	const char *at;
} ZSpillCursor;

/*
 * Read the record at the position, which isn't the end, and go on to the one
 * before.  False: its writer is below discard_before, so that nobody needs
 * what it holds. The cursor, and entries read by it, live until the next call.
 */
extern bool zheap_spill_chain_next(ZSpillChain *chain, UndoReader *reader,
								   BlockNumber block, ZSpillCursor *entries);
extern bool zheap_spill_chain_next_entry(ZSpillCursor *entries,
										 ZSpillEntry *entry);

/*
 * Look for a spilled row.  floor is the xmin of the snapshot that asks, or 0:
 * what a writer below it spilled is dead for that snapshot, so the record is
 * not read.  entry->tuple lives until the next call.
 */
extern ZSpillResult zheap_spill_chain_find(UndoReader *reader, Page page,
										   BlockNumber block, OffsetNumber off,
										   Fxid floor, ZSpillEntry *entry);

#endif							/* ZHEAP_SPILL_CHAIN_H */
