/*-------------------------------------------------------------------------
 *
 * zheap_lock.h
 *	  A write to an existing row in flight, what delete, update and lock share:
 *	  its pages and the waiting (zheap_row.c), taking the row (zheap_lock.c),
 *	  writing (zheap_row_write.c), and its live lockers (zheap_lockers.c).
 *
 *		zheap_row_begin(&w, ...);			no lock held; resolves the TID's tag
 *		result = zheap_row_take(&w);		may wait; TM_Ok: page locked, xact
 *											slot chosen, row may be changed
 *		... zheap_row_describe(), zheap_row_write()
 *		zheap_row_unlock(&w);				give the page up; take again if need be
 *		zheap_row_end(&w);					always, unless an error is thrown
 *
 * After every wait and after every release of the page lock the row is judged
 * from the beginning (Z36): zheap_row_take() may be called any number of
 * times.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_LOCK_H
#define ZHEAP_LOCK_H

#include "access/tableam.h"
#include "nodes/lockoptions.h"
#include "storage/lmgr.h"

#include "zheap/sees/zheap_sees.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_logical.h"

/* which version of the row the caller means (Z34) */
typedef enum ZMeant
{
	ZMEANT_SNAPSHOT,			/* plain TID: the one the snapshot sees */
	ZMEANT_TOP,					/* tag LOCKED, no snapshot, or followed to it */
	ZMEANT_DIRTY				/* tag DIRTY: the one found then */
} ZMeant;

/* live lockers of a TID */
typedef struct ZLockers
{
	bool		foreign_live;	/* somebody of another transaction, or it isn't
								 * known */
	Fxid		conflict;		/* one that excludes the wanted mode, or
								 * Invalid */
	bool		own_live;		/* I have a lock ... */
	LockTupleMode own_mode;		/* ... the strongest being */
	bool		collect;		/* all of the others are put into fxids, palloc'd */
	int			n;
	int			max;
	Fxid	   *fxids;
} ZLockers;

/* what the caller of a row write wants */
typedef struct ZRowWish
{
	bool		wait;			/* false: TM_BeingModified instead of waiting */
	bool		lock_only;		/* a lock; else a change of the row */
	bool		later;			/* a later version of a row that is being
								 * locked FOR KEY SHARE below a move */
	bool		last;			/* the last version, by way of those between */
	bool		vm;				/* the page's all-visible bit may be cleared */
} ZRowWish;

/* what was found out about the row, and decided */
typedef struct ZRowFound
{
	bool		dirty;			/* the TID was tagged DIRTY */
	bool		moved_on;		/* KEY SHARE below a move: top.next must be
								 * locked too, before this */
	bool		lock_suffices;	/* the transaction holds a lock or change that
								 * is enough */
	bool		approximate;	/* image_writer may be a later owner of the
								 * xact slot */
} ZRowFound;

/* what the backend holds, to be given back */
typedef struct ZRowHeld
{
	bool		pages;			/* the content locks */
	bool		context;		/* cx is open */
	bool		queue;			/* the heavyweight tuple lock, ... */
	LockTupleMode queue_mode;
} ZRowHeld;

/*
 * Rows of the same page that end along with the first one, by one WAL record
 * (zheap_delete_chunks.c): unended, unlocked.  Either all of them are covered by the
 * first one's open record, or each has one of its own.
 */
#define ZROW_MAX_MORE			(UNDO_MAX_INSERTION - 1)
#define ZROW_MORE_PAYLOAD		192

typedef struct ZRowsMore
{
	int			n;
	bool		covered;
	OffsetNumber offset[ZROW_MAX_MORE];
	uint16		flags2[ZROW_MAX_MORE];	/* of the header, ended */
	uint8		undo_flags[ZROW_MAX_MORE];
	uint16		payload_len[ZROW_MAX_MORE];
	char		payload[ZROW_MAX_MORE][ZROW_MORE_PAYLOAD];
} ZRowsMore;

typedef struct ZRowWrite
{
	/* the caller's wish */
	Relation	rel;
	Snapshot	snapshot;
	Snapshot	crosscheck;
	CommandId	cid;
	LockTupleMode mode;			/* strength needed; decide() may change it */
	LockWaitPolicy policy;
	ZRowWish	wish;
	XLTW_Oper	oper;
	/* called with image and top known, before lockers are judged; or NULL */
	void		(*decide) (struct ZRowWrite *w, void *arg);
	void	   *decide_arg;
	ZLogical   *logical;		/* what decoding is told of a change, or NULL */
	bool		new_key;		/* it changes the key of a soft index (Z45) */
	ZRowsMore  *more;			/* rows of a DELETE besides this one, or NULL */

	/* the row */
	ItemPointerData tid;		/* plain */
	BlockNumber block;
	OffsetNumber off;
	ZMeant		meant;
	Fxid		dirty_writer;	/* what the DIRTY fetch found */
	CommandId	dirty_cid;

	/* resources */
	Fxid		fxid;			/* of the own transaction; of a locker only
								 * when it writes, else Invalid */
	Buffer		buffer;
	Buffer		vmbuffer;
	Buffer		newbuf;			/* a move's other page, locked along; or
								 * Invalid */
	Buffer		newvm;
	ZReadContext cx;
	ZRowHeld	held;

	/* found under the page lock */
	ZRowFound	found;
	Page		page;
	ZTop		top;
	ZTupleHeader header;		/* after normalising dead lock state */
	ZLockers	lockers;		/* of this TID */
	Fxid		image_writer;	/* identity of image */
	CommandId	image_cid;
	uint16		image_len;
	char	   *image;			/* the version to be locked or changed: room,
								 * or palloc'd for one that is longer, which
								 * is only locked */
	char		room[BLCKSZ];
	ZXactSlotChoice choice;
	TM_FailureData failure;		/* filled unless TM_Ok */
} ZRowWrite;

/* the image is not needed any more; without this its context frees it */
static inline void
zheap_row_forget_image(ZRowWrite *w)
{
	if (unlikely(w->image != w->room))
		pfree(w->image);
	w->image = w->room;
}

/* zheap_row.c */
extern void zheap_row_begin(ZRowWrite *w, Relation rel,
							const ItemPointerData *tid, CommandId cid,
							Snapshot snapshot, Snapshot crosscheck);
extern void zheap_row_lock(ZRowWrite *w);
extern void zheap_row_unlock(ZRowWrite *w);
extern void zheap_row_end(ZRowWrite *w);

/* give the pages up, wait for a transaction in the way; TM_Ok: take again */
extern TM_Result zheap_row_wait_for(ZRowWrite *w, Fxid fxid);

/*
 * zheap_delete_chunks.c.  simple: may a row go along with others?  Then its
 * bytes, header and length, else NULL.  delete: open is the caller's last open
 * record; tids are n rows that may go along, w's, which was taken, is the
 * first.  Returns how many went.
 */
extern const char *zheap_row_simple(Page page, OffsetNumber off,
									ZTupleHeader *header, uint16 *len);
extern int	zheap_row_delete(ZRowWrite *w, bool changing_part,
							 ZOpenRecord *open, const ItemPointerData *tids,
							 int n);

/* zheap_lock.c */
extern TM_Result zheap_row_take(ZRowWrite *w);
extern bool zheap_row_take_visible(Snapshot snapshot, Fxid writer, bool own,
								   CommandId cid);

/* zheap_row_write.c */

/* fill a change record and the header of a change (delete, update, move) */
extern void zheap_row_describe(ZRowWrite *w, uint8 kind, bool key, ZUndo *u,
							   ZTupleHeader *header);

extern void zheap_row_header(const ZRowWrite *w, ZTupleHeader *header);
extern bool zheap_row_is_plain(const ZRowWrite *w, const ZTupleHeader *header);

/*
 * Prepare, apply, log and release the undo page of a change of one row on one
 * page; the table page stays locked.  info is XLOG_ZHEAP_UPDATE, DELETE or
 * LOCK; tuple is the new row (UPDATE) or NULL.  Without u no undo is written:
 * an open record of mine covers the row.  Returns the record's place.
 */
extern UndoRecPtr zheap_row_write(ZRowWrite *w, uint8 info, const ZUndo *u,
								  const ZTupleHeader *header,
								  const char *tuple, uint16 len);

/*
 * Record the lock that w asks for, unless it is held already.  w is taken and
 * stays so, but must be taken again before anything else is written.
 */
extern void zheap_row_write_lock(ZRowWrite *w);

/*
 * zheap_share.c.  The shared xact slot was chosen for w: if its chain has grown,
 * make it shorter by a list of what is alive.  Undo is written; nothing that was
 * read of it is pinned any more.
 */
extern void zheap_share_shorten(ZRowWrite *w);

/*
 * A row was put at off of a page, locked, by my transaction; these n, maybe none,
 * have it locked FOR KEY SHARE from now on, as they had the version that it
 * replaces (Z24).  The page gets a shared xact slot.
 */
extern void zheap_share_carry(ZRowWrite *w, Buffer buffer, OffsetNumber off,
							  const Fxid *fxids, int n);

/* zheap_lockers.c */

/* do two modes exclude each other */
extern bool zheap_lockers_exclude(LockTupleMode a, LockTupleMode b);

/* w's transaction has recorded a lock of w's row; did it, so strong, before? */
extern void zheap_lockers_remember(const ZRowWrite *w);
extern bool zheap_lockers_remembered(const ZRowWrite *w);
extern bool zheap_lockers_find(ZReadContext *cx, Page page, BlockNumber block,
							   OffsetNumber off, LockTupleMode want,
							   ZLockers *lockers);
extern bool zheap_lockers_may_live(ZReadContext *cx, Buffer buffer, Page page,
								   BlockNumber block, OffsetNumber off);
extern bool zheap_lockers_find_own(ZReadContext *cx, Page page,
								   BlockNumber block, OffsetNumber off,
								   ZLockers *lockers);

/* all live lockers but my own, whatever their mode */
extern bool zheap_lockers_collect(ZReadContext *cx, Page page,
								  BlockNumber block, OffsetNumber off,
								  ZLockers *lockers);

#endif							/* ZHEAP_LOCK_H */
