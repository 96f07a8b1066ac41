/*-------------------------------------------------------------------------
 *
 * undo_page.h
 *	  Pages of an undo log, pictured, and the functions that read and change
 *	  one page.  No buffers, no WAL, no shared memory here.
 *
 * Data page (standard header, so full-page images may leave out the hole):
 *
 *	 0        24                    pd_lower          pd_special       8192
 *	+--------+---------------------+-----------------+------------------+
 *	| header | entries, packed     | free            | UndoPageOpaque   |
 *	+--------+---------------------+-----------------+------------------+
 *
 * Entries are written in sequence and never cross a page.  An entry is a run
 * header (who writes, on which relation) or a record; each record names the
 * byte offset of its run header.  A new run starts when the writer (its own
 * subtransaction xid counts) or the relation changes and on each new page.
 *
 *	run header:	len u16 | kind u8 = 255 | flags u8 | reloid u32 | dboid u32 |
 *				fxid u64							   (20 bytes)
 *	record:		len u16 | kind u8 | flags u8 | run u16 | offset u16 |
 *				block u32 | chain u64 | payload		   (20 bytes + payload)
 *
 * Nothing is aligned.  A record never changes once written.  The one bit that
 * may change is APPLIED in the flags of a run header, by a WAL-logged change
 * (rule W23): every page named by a record of this run was rolled back after
 * its writer aborted.
 *
 * Control pages (block 0 of a log; block 0 of the global control relation)
 * keep their struct right behind the page header and set pd_lower behind it.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_PAGE_H
#define UNDO_PAGE_H

#include "storage/bufpage.h"

#include "undo/undo_defs.h"

#define UNDO_PAGE_MAGIC			0x5A48554E	/* data page */
#define UNDO_CONTROL_MAGIC		0x5A484C43	/* control page of a log */
#define UNDO_GLOBAL_MAGIC		0x5A484743	/* global control page */
#define UNDO_FORMAT_VERSION		1

/* special space of every page of the store; of control pages too */
typedef struct UndoPageOpaqueData
{
	uint32		magic;
	uint16		version;
	uint16		unused;
	uint64		seq;			/* raised by one with each switch of the log */
	uint64		min_fxid;		/* over all writers on the page; 0 = none yet */
	uint64		max_fxid;
	BlockNumber next;			/* ring link; an accelerator, seq is the truth */
	uint32		unused2;
} UndoPageOpaqueData;

typedef UndoPageOpaqueData *UndoPageOpaque;

StaticAssertDecl(sizeof(UndoPageOpaqueData) == 40, "undo page opaque is 40 bytes");

#define UndoPageGetOpaque(page) \
	((UndoPageOpaque) PageGetSpecialPointer(page))

typedef struct UndoControlData
{
	BlockNumber tail;			/* page written to; InvalidBlockNumber: none */
	BlockNumber head;			/* oldest page not discarded; likewise */
	uint16		head_offset;	/* and the first byte not discarded on it */
	uint16		unused;
	BlockNumber used_blocks;	/* blocks from here on hold nothing */
	uint64		seq;			/* of the tail page */
} UndoControlData;

typedef struct UndoGlobalData
{
	uint64		u;
	uint64		h;
	uint32		nlogs;			/* highest permanent log number + 1 */
	uint32		nunlogged;		/* likewise for unlogged logs */
} UndoGlobalData;

#define UndoPageGetControl(page)	((UndoControlData *) PageGetContents(page))
#define UndoPageGetGlobal(page)		((UndoGlobalData *) PageGetContents(page))

#define UNDO_FIRST_OFFSET		SizeOfPageHeaderData

/* largest run header + record that fits an empty page */
#define UNDO_PAGE_CAPACITY \
	(BLCKSZ - SizeOfPageHeaderData - MAXALIGN(sizeof(UndoPageOpaqueData)))

#define UNDO_RUN_HEADER_SIZE	20

/* run header flags */
#define UNDO_RUN_APPLIED		0x01

/* an entry of a page, decoded; payload points into the page */
typedef struct UndoEntry
{
	uint16		at;				/* byte offset of the entry */
	uint16		len;
	uint8		kind;
	uint8		flags;
	/* run header */
	Oid			reloid;
	Oid			dboid;
	Fxid		fxid;
	/* record */
	uint16		run;
	OffsetNumber offset;
	BlockNumber block;
	UndoRecPtr	chain;
	const char *payload;
	uint16		payload_len;
} UndoEntry;

extern void undo_page_init(Page page, BlockNumber next, uint64 seq);
extern void undo_control_init(Page page);
extern void undo_global_init(Page page, Fxid u, Fxid h);

/* what is wrong with a page of the wanted magic, or NULL */
extern const char *undo_page_problem(Page page, uint32 magic);

/* encode; the caller has checked the space.  Return the bytes written. */
extern uint16 undo_page_put_run(Page page, uint16 at, Oid reloid, Oid dboid,
								Fxid fxid);
extern uint16 undo_page_put_record(Page page, uint16 at, uint8 kind,
								   uint8 flags, uint16 run,
								   OffsetNumber offset, BlockNumber block,
								   UndoRecPtr chain, const char *payload,
								   uint16 payload_len);

/* what redo repeats */
extern void undo_page_set_applied(Page page, const uint16 *offsets,
								  int noffsets);
extern void undo_control_reset(Page page);

/*
 * Decode the entry at byte offset "at" (bounds checked against pd_lower);
 * false if there is no well-formed entry.
 */
extern bool undo_page_get(Page page, uint16 at, UndoEntry *entry);

#endif							/* UNDO_PAGE_H */
