/*-------------------------------------------------------------------------
 *
 * zheap_format.h
 *	  What tuples, pages, undo records, WAL records and TIDs of zheap look
 *	  like: the whole of this folder.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_FORMAT_H
#define ZHEAP_FORMAT_H

#include "postgres.h"

#include "storage/bufmgr.h"

#include "undo/undo.h"
#include "undo/undo_pack.h"
#include "zheap/format/zheap_page.h"
#include "zheap/format/zheap_page_problem.h"
#include "zheap/format/zheap_tuple.h"
#include "zheap/format/zheap_undo.h"

/* ----------------------------------------------------------------
 *	TID tags (zheap/README, What a TID means)
 * ----------------------------------------------------------------
 */
#define ZTID_PRE			0x8000	/* image before my latest in-place update */
#define ZTID_LOCKED			0x4000	/* top image; I hold the lock */
#define ZTID_DIRTY			0x2000	/* the image a DIRTY fetch found */
#define ZTID_TAGS			0xE000
#define ZTID_OFFSET_MASK	0x1FFF

/* moved-partition (0xfffd) and speculative (0xfffe) markers are no tags */
static inline uint16
zheap_tid_tag(const ItemPointerData *tid)
{
	uint16		off = ItemPointerGetOffsetNumberNoCheck(tid);

	return off >= 0xfff0 ? 0 : (off & ZTID_TAGS);
}

static inline OffsetNumber
zheap_tid_offset(const ItemPointerData *tid)
{
	return ItemPointerGetOffsetNumberNoCheck(tid) & ZTID_OFFSET_MASK;
}

static inline void
zheap_tid_set_tag(ItemPointerData *tid, uint16 tag)
{
	Assert((tag & ~ZTID_TAGS) == 0);
	tid->ip_posid = (tid->ip_posid & ZTID_OFFSET_MASK) | tag;
}

/* ----------------------------------------------------------------
 *	zheap_delta.c: logged change of one page by bytes (Z31)
 *
 * delta_begin gives a private copy of the page to change freely (errors are
 * harmless); delta_finish copies it back and logs the difference in a
 * critical section, with a conflict horizon where history visible to some
 * standby snapshot is removed (0 = none).  Buffer exclusively locked all
 * along; rel may be a fake relcache entry.  delta_finish with an unchanged
 * page does nothing and returns false.
 *
 * Who changes a few bytes begins by delta_begin_parts instead and names them,
 * before or after they change; the rest of the page isn't looked at.  Nor are
 * its line pointers: the caller checks those that he follows.
 * ----------------------------------------------------------------
 */
#define ZDELTA_MAX_PARTS		8

typedef struct ZPageDelta
{
	Relation	rel;
	Buffer		buffer;
	bool		decoded;		/* to decoding: a speculative row goes; false
								 * to begin with */
	ZPageUse	before;			/* of the page; only if begun as a whole */
	bool		whole;			/* any byte may have changed, else these: */
	int			nparts;
	uint16		first[ZDELTA_MAX_PARTS];
	uint16		end[ZDELTA_MAX_PARTS];
	PGAlignedBlock work;
} ZPageDelta;

extern Page zheap_delta_begin(ZPageDelta *delta, Relation rel, Buffer buffer);
extern Page zheap_delta_begin_parts(ZPageDelta *delta, Relation rel,
									Buffer buffer);
/* at: in the private copy, outside of the hole */
extern void zheap_delta_part(ZPageDelta *delta, const void *at, uint16 len);
extern bool zheap_delta_finish(ZPageDelta *delta, Fxid conflict);

/*
 * Logs that rows of a relation are about to be gone which standby snapshots
 * may still want: the horizon alone.  Any valid page of it, no lock held.
 */
extern void zheap_delta_log_conflict(Relation rel, BlockNumber block,
									 Fxid conflict);

/*
 * One xact slot more.  Every tuple moves, so a delta would be a whole page;
 * redo repeats the deed instead.  False if there is no room.
 */
extern bool zheap_delta_grow(Relation rel, Buffer buffer);

/* likewise: the page gets a shared xact slot; see zheap_page_make_shared() */
extern bool zheap_delta_share(Relation rel, Buffer buffer);

/*
 *	DELTA		flags u8, or nothing at all if there are none; CONFLICT:
 *				horizon for standby snapshots, packed
 *				block 0: table page: {offset u16, length u16, bytes}, or a
 *				full image; GROW, SHARE: no data
 */
#define ZDELTA_CONFLICT			0x01
#define ZDELTA_DECODED			0x02	/* a speculative insertion failed, and
										 * decoding is to know */
#define ZDELTA_GROW				0x04	/* no ranges: one xact slot more */
#define ZDELTA_SHARE			0x08	/* likewise: a shared xact slot */

extern uint8 zheap_delta_flags(XLogReaderState *record);

/*
 * A conflict horizon, relative to the fxid of the record's writer; 0 if there
 * is none.
 */
static inline uint64
zheap_conflict_pack(Fxid fxid, Fxid conflict)
{
	Assert(fxid != InvalidFxid);
	return conflict == InvalidFxid ? 0 : undo_zigzag(fxid, conflict) + 1;
}

static inline Fxid
zheap_conflict_unpack(Fxid fxid, uint64 packed)
{
	return packed == 0 ? InvalidFxid : undo_unzigzag(fxid, packed - 1);
}

/* hot standby: cancel queries that may need what goes; no lock held */
extern void zheap_delta_redo_conflict(XLogReaderState *record, Fxid conflict);

extern void zheap_delta_redo(XLogReaderState *record);
extern void zheap_delta_desc(StringInfo buf, XLogReaderState *record);

/* ----------------------------------------------------------------
 *	WAL records; those up to XLOG_UNDO_LAST are the undo store's, 0xD0 to 0xF0
 *	are free.  What is rare and like another kind is a flag of that one, which
 *	its description names.
 * ----------------------------------------------------------------
 */
#define XLOG_ZHEAP_INSERT		0x70	/* one row or many */
#define XLOG_ZHEAP_UPDATE		0x80	/* in place */
#define XLOG_ZHEAP_MOVE			0x90
#define XLOG_ZHEAP_DELETE		0xA0
#define XLOG_ZHEAP_LOCK			0xB0	/* or speculative insertion confirmed,
										 * or a list of live locks */
#define XLOG_ZHEAP_DELTA		0xC0	/* or an xact slot more, or a shared one */

#endif							/* ZHEAP_FORMAT_H */
