/*-------------------------------------------------------------------------
 *
 * zheap_update.h
 *	  An update in flight.  Private to zheap_update.c and zheap_move.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_UPDATE_H
#define ZHEAP_UPDATE_H

#include "zheap/soft/zheap_keyed.h"
#include "zheap/row/zheap_lock.h"

/* an update in flight, next to its ZRowWrite */
typedef struct ZUpdatePlan
{
	Relation	rel;
	TupleTableSlot *slot;		/* the new row's values */
	ZTuple	   *tuple;			/* formed; NULL while it must still be toasted */
	char	   *body;			/* the same as it goes to the page */
	uint16		bodylen;
	bool		toasted;		/* formed with the old version in view */
	Bitmapset  *changed;		/* if toasted: columns that change, of all that
								 * are asked for */
	Bitmapset  *key_attrs;
	Bitmapset  *indexed_attrs;	/* of indexes that know rows by TID */
	Bitmapset  *summarized_attrs;	/* of indexes that sum up blocks */
	ZSoftIndexes *soft;			/* NULL: rows whose indexed columns change
								 * move */
	bool		soft_waits;		/* for old snapshots: they move as yet (Z55) */
	bool		tid_wanted;		/* by a trigger: the old version keeps its own */
	/* set by update_decide() for the version on top */
	bool		key_changed;
	bool		index_changed;
	bool		summary_changed;
	Bitmapset  *new_entries;	/* columns of soft indexes that change in
								 * place, or NULL */
	bool		waited;			/* ... or would, but for soft_waits */
	bool		may_have_entry; /* of its new key, already */
	bool		toast_first;	/* lock the row, toast, take it again */
	bool		look_first;		/* lock it, look for an entry of an equal key */
	bool		looked;			/* done */
	bool		has_equal;		/* what was found */
	/* Z35 */
	bool		events_known;
	bool		events_pending;
	/* what was tried */
	bool		reclaimed;		/* for the row in place */
	bool		no_room;		/* not even after that */
	bool		reclaimed_move; /* for the row as a new one on its page */
	bool		no_xact_slot;	/* on a page that had room: take a new one */
	int			room_options;
	bool		move;			/* the outcome */
	/* a move's new version */
	bool		same_page;
	OffsetNumber new_off;
	ZXactSlotChoice new_choice;
	ZLockers	carried;		/* who has the old version locked */
} ZUpdatePlan;

/*
 * Write a move that was decided on: end the old version, put the new one.  All
 * pages are locked, room and xact slots are chosen; *newtid is the new place.
 */
extern void zheap_move_write(ZRowWrite *w, ZUpdatePlan *plan,
							 ItemPointer newtid);

#endif							/* ZHEAP_UPDATE_H */
