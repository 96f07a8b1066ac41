/*-------------------------------------------------------------------------
 *
 * undo_holders.h
 *	  How much undo is kept, by whom, and the limit.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_HOLDERS_H
#define UNDO_HOLDERS_H

#include "catalog/pg_class.h"
#include "nodes/pg_list.h"

#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/*
 * To be called before a change, with no buffer locked: waits for the discard,
 * and throws 53400, if undo has outgrown zheap.max_undo_size.  That of temporary
 * relations isn't counted, so they go on.
 */
extern void undo_holders_wait_for_room(void);

static inline void
undo_check_room(char persistence)
{
	if (unlikely(undo_room_wanted) && persistence != RELPERSISTENCE_TEMP)
		undo_holders_wait_for_room();
}

/* what keeps undo (undo_holders.c) */
typedef enum UndoHolderKind
{
	UNDO_HOLDER_BACKEND,
	UNDO_HOLDER_PREPARED,
	UNDO_HOLDER_REPLICATION_SLOT,
	UNDO_HOLDER_STANDBY,
	UNDO_HOLDER_PENDING_ROLLBACK,
	UNDO_HOLDER_DAMAGED_LOG,
	UNDO_HOLDER_UNREACHABLE
} UndoHolderKind;

typedef struct UndoHolder
{
	UndoHolderKind kind;
	int			pid;			/* 0: none */
	char	   *name;			/* gid or name of the replication slot; log
								 * and block; or NULL */
	Fxid		oldest;			/* keeps undo of writers from here on */
	bool		is_writer;		/* oldest is its own xid */
	uint64		bytes;			/* of undo that goes when it ends */
	uint64		held_bytes;		/* that it needs, maybe beside others */
} UndoHolder;

extern List *undo_holders(void);
extern const char *undo_holders_kind_name(UndoHolderKind kind);

/* pages of a log that are kept */
extern uint64 undo_holders_retained_pages(char persistence, UndoLogNumber log);

#endif							/* UNDO_HOLDERS_H */
