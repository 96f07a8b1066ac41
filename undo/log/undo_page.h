/*-------------------------------------------------------------------------
 *
 * undo_page.h
 *	  Pages of an undo log, pictured, and the functions that read and change
 *	  one page.  No buffers, no WAL, no shared memory here.
 *
 * Data page (standard header, so full-page images may leave out the hole):
 *
 *	 0        24            pd_lower      pd_upper    pd_special       8192
 *	+--------+-------------+-------------+-----------+------------------+
 *	| header | entries ->  | free        | <- rels   | UndoPageOpaque   |
 *	+--------+-------------+-------------+-----------+------------------+
 *
 * Entries are written in sequence and never cross a page (U6).  An entry is a
 * run header (the writer, and the relation) or a record; each record tells how
 * many bytes before it its run header is.  A new run starts when the writer
 * (its own subtransaction xid counts) or the relation changes and on each new
 * page.  The relations written to stand before the special space, the first
 * one last, so that a run header names one by a small number; redo finds the
 * same number, because it finds the same page.
 *
 * Nothing is aligned but the relations; "packed" as in undo_pack.h.
 *
 *	run header:	u8: 1 | number of the relation (6 bits) | APPLIED (1 bit)
 *				if the number is 63: reloid u32, dboid u32
 *				fxid, packed difference from base_fxid
 *	record:		u8: 0 | has a chain (1 bit) | kind (6 bits)
 *				number of all bytes of the record behind this number, packed
 *				distance from the run header, packed
 *				block, packed
 *				flags u8
 *				offset, packed
 *				chain, packed relative to the record's page, if it has one
 *				payload
 *
 * A record never changes once written.  The one bit that may change is APPLIED
 * of a run header, by a WAL-logged change (U5): every page named by a
 * record of this run was rolled back after its writer aborted.
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
	uint16		flags;
	uint64		seq;			/* raised by one with each switch of the log */
	uint64		base_fxid;		/* first writer on the page; 0 = none yet */
	uint64		max_fxid;		/* over all writers on the page, and those
								 * that its records are kept for (U25) */
	BlockNumber next;			/* ring link; an accelerator, seq is the truth */
	uint32		unused2;
} UndoPageOpaqueData;

typedef UndoPageOpaqueData *UndoPageOpaque;

/* records are kept until max_fxid is below U, not H (U25) */
#define UNDO_PAGE_KEPT			0x0001

StaticAssertDecl(sizeof(UndoPageOpaqueData) == 40,
				 "undo page opaque is 40 bytes");

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
	uint64		all_visible_before;
	uint64		discard_before;
	uint32		nlogs;			/* highest permanent log number + 1 */
	uint32		nunlogged;		/* likewise for unlogged logs */
} UndoGlobalData;

#define UndoPageGetControl(page)	((UndoControlData *) PageGetContents(page))
#define UndoPageGetGlobal(page)		((UndoGlobalData *) PageGetContents(page))

#define UNDO_FIRST_OFFSET		SizeOfPageHeaderData

#define UNDO_PAGE_CAPACITY \
	(BLCKSZ - SizeOfPageHeaderData - MAXALIGN(sizeof(UndoPageOpaqueData)))

/* the largest record fits an empty page, whatever its header */
StaticAssertDecl(UNDO_MAX_RUN + UNDO_MAX_HEAD + UNDO_MAX_PAYLOAD <=
				 UNDO_PAGE_CAPACITY, "undo pages are large enough");

/* a relation that the page has runs of; see the picture */
typedef struct UndoPageRelation
{
	Oid			reloid;
	Oid			dboid;
} UndoPageRelation;

/* with more relations than this, run headers carry theirs themselves */
#define UNDO_PAGE_MAX_RELATIONS	32

/* entries that fit a page, at most */
#define UNDO_PAGE_MAX_ENTRIES	(UNDO_PAGE_CAPACITY / 2)

/* run header flags */
#define UNDO_RUN_APPLIED		0x01

/* an entry of a page, decoded; rest points into the page */
typedef struct UndoEntry
{
	uint16		at;				/* byte offset of the entry */
	uint16		len;
	uint8		kind;
	/* run header */
	uint8		flags;
	Oid			reloid;
	Oid			dboid;
	Fxid		fxid;
	/* record */
	uint16		run;			/* byte offset of its run header */
	BlockNumber block;
	bool		has_chain;
	const char *rest;			/* flags, offset, chain and payload */
	uint16		rest_len;
} UndoEntry;

/* the rest of a record */
typedef struct UndoEntryRest
{
	uint8		flags;
	OffsetNumber offset;
	UndoRecPtr	chain;
	const char *payload;
	uint16		payload_len;
} UndoEntryRest;

extern void undo_page_init(Page page, BlockNumber next, uint64 seq);
extern void undo_page_init_control(Page page);
extern void undo_page_init_global(Page page, Fxid all_visible_before,
								  Fxid discard_before);

/* what is wrong with a page of the wanted magic, or NULL */
extern const char *undo_page_problem(Page page, uint32 magic);

/*
 * Form a run header (head: UNDO_MAX_RUN bytes) that is to be the next entry of
 * the page; *new_relation tells that undo_page_add_relation() has to go first,
 * which takes as many bytes as a UndoPageRelation.  Returns its length.
 */
extern uint8 undo_page_form_run(Page page, Oid reloid, Oid dboid, Fxid fxid,
								char *head, bool *new_relation);

/*
 * Form rec->head: all of the record but the payload.  It is going to be at
 * rec->urp, and run is the byte offset of its run header there.
 */
extern void undo_page_form_record(UndoInsertRec *rec, uint16 run);

/* put what was formed; the caller has checked the space, and sets pd_lower */
extern void undo_page_add_relation(Page page, Oid reloid, Oid dboid);
extern void undo_page_put(Page page, uint16 at, const char *bytes, uint16 len);
extern void undo_page_note_writer(Page page, Fxid fxid);

/* keep its records for the transactions up to fxid: until H passes it, or U */
extern void undo_page_keep(Page page, Fxid fxid, bool until_u);

/* up to whom, if that isn't H alone: until U passes it; else Invalid */
static inline Fxid
undo_page_kept(Page page)
{
	UndoPageOpaque opaque = UndoPageGetOpaque(page);

	return (opaque->flags & UNDO_PAGE_KEPT) != 0 ? opaque->max_fxid :
		InvalidFxid;
}

/* what redo repeats */
extern void undo_page_set_applied(Page page, const uint16 *offsets,
								  int noffsets);
extern void undo_page_reset_control(Page page);

/*
 * Decode the entry at byte offset "at" (bounds checked against pd_lower);
 * false if there is no well-formed entry.  The page is known to be good.
 */
extern bool undo_page_get(Page page, uint16 at, UndoEntry *entry);

/* the rest of the record at self; likewise */
extern bool undo_page_get_rest(const UndoEntry *entry, UndoRecPtr self,
							   UndoEntryRest *rest);

#endif							/* UNDO_PAGE_H */
