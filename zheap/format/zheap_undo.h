/*-------------------------------------------------------------------------
 *
 * zheap_undo.h
 *	  What zheap writes into undo records, and one step back in a row's
 *	  history (Z6).
 *
 * Record header (undo_page.h): kind, flags, offset, block, chain = the xact
 * slot's urp before this record.  Payload, nothing aligned, "packed" as in
 * undo_pack.h:
 *
 *	cid packed
 *	TENURE_START:	prev_fxid, packed difference from the writer; nothing if
 *					the xact slot was FREE (then chain is invalid)
 *	SHARED, unless TENURE_START:	the youngest transaction named at chain or
 *					below it, difference from the writer * 2, + 1 if a row ended
 *					there, packed
 *	BASE:			link to the foreign tenure below the family's tenures
 *	UPDATE, DELETE, MOVE:	old header, 5 bytes (as after the takeover pass and
 *					after normalising dead locks), but not if PLAIN;
 *					OLD_LINK: link to the old version
 *					OLD_ELSEWHERE: the same; old block u32, old offset u16;
 *					missing length u16, missing bytes; and for DELETE and MOVE
 *					too what follows for UPDATE
 *	UPDATE:			prefix, packed; old middle length * 2, + 1 if the new one
 *					is another, which follows then, both packed; old middle
 *					bytes (behind the 5 byte header, true lengths)
 *					JUMP: link, span packed, natts_flags1 u16 of the version
 *					there, and a diff to it of the same form
 *	MOVE:			new TID, 6 bytes
 *	INSERT_SET:		nranges u8, {first u16, last u16} each; flag byte
 *					(1 token, 2 old TID); token u32; old TID 6 bytes
 *	LOCK:			mode u8, with a bit that says it replaced a LOCK_ONLY
 *	SPILL:			nentries packed, then {offset packed, fxid, packed difference
 *					from the writer, urp, packed as one of log 0, length packed,
 *					bytes}
 *	LIST:			nentries packed, then {offset * 8 + mode * 2 + 1 if it is the
 *					end of a row, packed; fxid, packed difference from the entry
 *					before (the first one's from the writer); of an end urp,
 *					packed as one of log 0}
 *
 * A link is fxid, packed difference from the writer, and urp, packed relative
 * to chain; 0 and null if there is nothing.
 *
 * SPILL records form a chain of their own, headed by the page's spill field.
 * Each is a TENURE_START: prev_fxid is the writer of the record at chain (0 =
 * it is the oldest).  An entry is the row as it was, header included; fxid is
 * the committed writer that ended it, urp a record of it on the page at or
 * below which, in its tenure, the one that ended it is found.
 *
 * PLAIN: the old version was visible to all and had no locks, so that its
 * header follows from the new one.
 *
 * INSERT_SET may list line pointers that were free when it was written, for
 * inserts of the same command while it is the newest record.  Another insert
 * that uses one of them does so in another xact slot, or writes a newer
 * record, and its version is never looked for here; so it is with INSERT_OPEN.
 *
 * An open DELETE covers every row of the xact slot that is DELETED and isn't
 * covered by a newer record; all of them were plain.  It is the first record
 * of its top transaction in the xact slot, with nothing below (tenure FREE or
 * FROZEN), lest it cover what others deleted; and those rows were deleted by
 * the same (sub)transaction and command while it was the newest record, lest
 * another cid be theirs.
 *
 * SHARED, of a LOCK, DELETE, MOVE and each LIST: the record belongs to the page's
 * shared xact slot (Z56), whose chain goes on at chain, by whatever writer.
 * TENURE_START: nothing is there, or the tenure of an owner of the page's only
 * xact slot.  A LIST takes the place of what was the chain before: locks that are
 * alive and the ends of rows that the page shows as ended by the shared xact slot,
 * with their records.  Or it names lockers of a row that was moved to the page.
 *
 * JUMP names an older change of the same row by the same block, and how to get
 * from the version that this record made to the one that change made: see
 * zheap_jump.c.
 *
 * An old version is named by value, never by xact slot id:
 *	OLD_ALLVISIBLE	its writer was visible to all: no link
 *	OLD_IN_CHAIN	it belongs to this xact slot: look on along chain
 *	OLD_LINK		content of the xact slot it belonged to, walked down to the
 *					first committed tenure
 *	OLD_ELSEWHERE	a rewrite of the table brought the row here: owner and newest
 *					record of the old version, whose history goes on under its
 *					old block and offset.  "missing" is a row with the defaults
 *					of columns that versions there don't have, for core forgets
 *					these defaults when it rewrites a table
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_UNDO_H
#define ZHEAP_UNDO_H

#include "undo/undo.h"
#include "zheap/format/zheap_page.h"
#include "storage/itemptr.h"

#define ZUNDO_INSERT_OPEN		1	/* every o >= offset */
#define ZUNDO_INSERT_SET		2	/* those of the listed offsets that it
									 * uses */
#define ZUNDO_UPDATE			3
#define ZUNDO_DELETE			4
#define ZUNDO_MOVE				5
#define ZUNDO_LOCK				6
#define ZUNDO_SPILL				7
#define ZUNDO_LIST				8

/* flags byte of the record header */
#define ZUNDO_TENURE_START		0x01
#define ZUNDO_FAMILY			0x02	/* previous tenure is of my top xact */
#define ZUNDO_BASE				0x04
#define ZUNDO_OLD_MASK			0x18
#define ZUNDO_OLD_ALLVISIBLE	0x00
#define ZUNDO_OLD_IN_CHAIN		0x08
#define ZUNDO_OLD_LINK			0x10
#define ZUNDO_OLD_ELSEWHERE		0x18
#define ZUNDO_KEY				0x20	/* UPDATE, DELETE, MOVE: of a key
										 * column */
#define ZUNDO_KEPT_KEY			0x20	/* INSERT_SET: arrived by a move that
										 * left the key columns alone */

#define ZUNDO_PLAIN				0x40	/* UPDATE, DELETE: see above */
#define ZUNDO_OPEN				0x80	/* DELETE, PLAIN too: see above */
#define ZUNDO_JUMP				0x80	/* UPDATE: see above */
#define ZUNDO_SHARED			0x80	/* LOCK, LIST, MOVE, DELETE that isn't
										 * PLAIN: see above */
#define ZUNDO_OPEN_OR_JUMP		0x80	/* whichever the kind makes it */

#define ZUNDO_MAX_RANGES		16

/*
 * Of a payload, at most: everything but bytes of rows, ranges and the jump; and
 * the jump but for its bytes.  zheap_undo.c proves both by what it writes.
 */
#define ZUNDO_MAX_HEAD			128
#define ZUNDO_MAX_JUMP			48
#define ZUNDO_MAX_ROW_BYTES		(UNDO_MAX_PAYLOAD - ZUNDO_MAX_HEAD)

/* one differing stretch behind the headers of two versions of a row */
typedef struct ZUndoDiff
{
	uint16		prefix;
	uint16		oldmid;			/* lengths of the stretch */
	uint16		newmid;
	const char *oldbytes;
} ZUndoDiff;

/* to an older change of the row */
typedef struct ZUndoJump
{
	Fxid		fxid;			/* its writer */
	UndoRecPtr	urp;			/* its record */
	uint32		span;			/* for the writers of jumps */
	uint16		natts_flags1;	/* of the version that it made */
	ZUndoDiff	diff;			/* and its bytes */
} ZUndoJump;

typedef struct ZUndo
{
	uint8		kind;
	uint8		flags;
	OffsetNumber offset;
	UndoRecPtr	chain;
	Fxid		writer;
	CommandId	cid;
	Fxid		prev_fxid;
	Fxid		base_fxid;
	UndoRecPtr	base_urp;
	ZTupleHeader oldhdr;
	Fxid		link_fxid;
	UndoRecPtr	link_urp;
	BlockNumber old_block;		/* OLD_ELSEWHERE */
	OffsetNumber old_offset;
	uint16		missing_len;
	const char *missing;
	ZUndoDiff	diff;			/* UPDATE and copies */
	ZUndoJump	jump;			/* UPDATE with JUMP */
	Fxid		below_youngest; /* SHARED: what is at chain, see above; 0 if
								 * there is nothing */
	bool		below_ends;
	Fxid		youngest;		/* not in the record: the same of it and all
								 * below */
	bool		ends;
	ItemPointerData tid;		/* MOVE: new TID; INSERT_SET: old TID or
								 * invalid */
	uint32		token;			/* INSERT_SET: speculative token or 0 */
	uint8		lockmode;		/* LockTupleMode */
	bool		replaced;
	uint16		nentries;		/* SPILL, LIST */
	uint16		entrieslen;
	const char *entries;
	int			nranges;
	/* last: only nranges of them mean something */
	OffsetNumber first[ZUNDO_MAX_RANGES];
	OffsetNumber last[ZUNDO_MAX_RANGES];
} ZUndo;

/* an entry of a SPILL record */
typedef struct ZSpillEntry
{
	OffsetNumber off;
	Fxid		fxid;
	UndoRecPtr	urp;
	uint16		len;			/* true length */
	const char *tuple;			/* without SLACK; not aligned */
} ZSpillEntry;

#define SPILL_ENTRY_MAX_HEAD	24	/* bytes besides the tuple, at most */

/* an entry of a LIST record */
typedef struct ZListEntry
{
	OffsetNumber off;
	bool		end;			/* else a lock */
	uint8		mode;			/* LockTupleMode */
	Fxid		fxid;
	UndoRecPtr	urp;			/* of an end */
} ZListEntry;

#define LIST_ENTRY_MAX			(3 * UNDO_MAX_PACKED + 2)

#define ZUndoIsInsert(u) \
	((u)->kind == ZUNDO_INSERT_OPEN || (u)->kind == ZUNDO_INSERT_SET)
#define ZUndoIsChange(u) \
	((u)->kind >= ZUNDO_UPDATE && (u)->kind <= ZUNDO_MOVE)
/* no change of the row, but its copy into another file */
#define ZUndoIsCopy(u) \
	(ZUndoIsChange(u) && ((u)->flags & ZUNDO_OLD_MASK) == ZUNDO_OLD_ELSEWHERE)
#define ZUndoIsOpenDelete(u) \
	((u)->kind == ZUNDO_DELETE && \
	 ((u)->flags & (ZUNDO_OPEN | ZUNDO_PLAIN)) == (ZUNDO_OPEN | ZUNDO_PLAIN))
#define ZUndoIsShared(u) \
	(((u)->flags & ZUNDO_SHARED) != 0 && \
	 ((u)->kind == ZUNDO_LOCK || (u)->kind == ZUNDO_LIST || \
	  (((u)->kind == ZUNDO_DELETE || (u)->kind == ZUNDO_MOVE) && \
	   ((u)->flags & ZUNDO_PLAIN) == 0)))
#define ZUndoHasJump(u) \
	((u)->kind == ZUNDO_UPDATE && ((u)->flags & ZUNDO_JUMP) != 0)
#define ZUndoHasDiff(u)		((u)->kind == ZUNDO_UPDATE || ZUndoIsCopy(u))

/* payload bytes that encode would write */
extern uint16 zheap_undo_payload_size(const ZUndo *u);

/* the same, too much but quick; no SPILL, no LIST */
static inline Size
zheap_undo_payload_bound(const ZUndo *u)
{
	Assert(u->kind != ZUNDO_SPILL && u->kind != ZUNDO_LIST);
	return ZUNDO_MAX_HEAD + ZUNDO_MAX_RANGES * 2 * sizeof(OffsetNumber) +
		u->diff.oldmid + u->missing_len +
		(ZUndoHasJump(u) ? ZUNDO_MAX_JUMP + u->jump.diff.oldmid : 0);
}

/* encode the payload into buf (at least payload_size bytes); returns size */
extern uint16 zheap_undo_encode(const ZUndo *u, char *buf);

/* ERROR (data corrupted) if malformed; pointers go into rec->data */
extern void zheap_undo_decode(const UndoRecord *rec, ZUndo *u);

/* append an entry at p; returns the byte behind it */
extern char *zheap_undo_put_entry(char *p, Fxid writer,
								  const ZSpillEntry *entry);

/*
 * The entry at *p, which starts as u->entries and is moved on; false at the
 * end.  u is rec, decoded, which has checked them all.
 */
extern bool zheap_undo_next_entry(const UndoRecord *rec, const ZUndo *u,
								  const char **p, ZSpillEntry *entry);

/* the same of a LIST; *entry is the one before, or has the writer as fxid */
extern char *zheap_undo_put_list_entry(char *p, Fxid before,
									   const ZListEntry *entry);
extern bool zheap_undo_next_list_entry(const UndoRecord *rec, const ZUndo *u,
									   const char **p, ZListEntry *entry);

/*
 * Does the record cover offset o, whose version has this header (LOCK, LIST and
 * SPILL never do)?
 */
extern bool zheap_undo_covers(const ZUndo *u, OffsetNumber o,
							  const ZTupleHeader *header);

/* the header before a change, which made it what it is now */
extern void zheap_undo_old_header(const ZUndo *u, const ZTupleHeader *now,
								  ZTupleHeader *old);

/* diff of two rows; oldbytes points into oldtuple */
extern void zheap_undo_diff(ZUndoDiff *diff, const char *oldtuple,
							uint16 oldlen, const char *newtuple,
							uint16 newlen);

/*
 * Patch an image back: UPDATE replaces the middle; every change restores the
 * old header.  image has room for BLCKSZ bytes; *len is its true length.
 * ERROR (data corrupted) if the lengths don't fit.
 */
extern void zheap_undo_step_back(const ZUndo *u, char *image, uint16 *len);

/* likewise, back to the version at the end of u's jump; no lock bits in it */
extern void zheap_undo_jump_back(const ZUndo *u, char *image, uint16 *len);

#endif							/* ZHEAP_UNDO_H */
