/*-------------------------------------------------------------------------
 *
 * zheap_space.h
 *	  Pages with room for rows: finding one, making room, the visibility map.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_SPACE_H
#define ZHEAP_SPACE_H

#include "postgres.h"

#include "zheap/back/zheap_back.h"

/* ----------------------------------------------------------------
 *	zheap_prune.c
 * ----------------------------------------------------------------
 */

typedef struct ZPruneResult
{
	int			nreclaimed;		/* bodies dropped */
	int			gain;			/* bytes that came free */
	bool		changed;
	/* only if TIDY */
	int			ndead;			/* line pointers that are DEAD after it */
	bool		all_visible;	/* every pointer NORMAL/UNUSED, every row has
								 * an all-visible version, nothing ended (Z25) */
	bool		has_tuples;
	int			live_tuples;	/* as heap counts, see prune_count() */
	int			recently_dead;	/* spilled ones included */
	/* always */
	int			nslots_freed;	/* xact slots */
	int			nspilled_removed;	/* spilled rows that nobody can see any
									 * more */
	int			nspilled_left;
} ZPruneResult;

/*
 * Reclaim: freeze what can be frozen, drop bodies of rows that ended for all
 * (pointer DEAD, or UNUSED if NO_INDEXES), spilled ones too, drop slack of
 * settled rows; if TIDY, trim and compact.  Exclusive lock held, aborted
 * owners rolled back first by the caller.  One page delta.
 */
#define ZPRUNE_NO_INDEXES		1
#define ZPRUNE_TIDY				2

extern void zheap_prune_page(Relation rel, Buffer buffer,
							 const UndoHorizons *hz, int options,
							 ZPruneResult *result);

/*
 * On a private copy of a page whose buffer is exclusively locked: DEAD line
 * pointers, those of offsets[0..n - 1], become UNUSED, but for those that a
 * live row lock names (Z60).  Returns how many did.
 */
extern int	zheap_prune_free_pointers(Relation rel, UndoReader *reader,
									  const UndoHorizons *hz, Page page,
									  BlockNumber block,
									  const OffsetNumber *offsets, int n);

/* ----------------------------------------------------------------
 *	zheap_make_room.c
 * ----------------------------------------------------------------
 */

/*
 * A writer lacks "missing" bytes on a page: prune it and, if that isn't
 * enough, spill rows whose end has committed (Z11); nothing is done if
 * both together can't help.  Exclusive lock held and kept; the caller runs in
 * a transaction with an xid and has no undo page pinned.  Returns whether the
 * page may have changed.  options: ZPRUNE_NO_INDEXES, or 0.
 */
extern bool zheap_make_room(Relation rel, Buffer buffer,
							const UndoHorizons *hz, Size missing,
							int options);

/* what inserts can have of a page, for the free space map; page locked */
extern Size zheap_make_room_estimate(Relation rel, Buffer buffer,
									 const UndoHorizons *hz);

/* ZPRUNE_NO_INDEXES if the table surely has none, else 0 */
extern int	zheap_make_room_options(Relation rel);

/* ----------------------------------------------------------------
 *	zheap_space.c
 * ----------------------------------------------------------------
 */

/* bulk insert state: the AM's own use of core's BulkInsertState */
struct BulkInsertStateData;

/*
 * A page with room for len more bytes (tuple; its line pointer is counted
 * here), pinned and exclusively locked.  No page may be locked by the caller.
 * New pages are left PageIsNew (Z29).  ERROR 53100 when the disk is full.
 * *vmbuffer (Invalid or a pin of the VM) holds the right pin if the page is
 * marked all-visible; its pin stays the caller's.
 */
#define ZHEAP_INSERT_NEW_PAGE	0x4000	/* option: extend, don't search */
#define ZHEAP_INSERT_SPREAD		0x8000	/* option: a page with few xact slots, for
										 * a row that leaves one with many */

/* room of a page just initialised, if it keeps the reserve for xact slots */
#define ZHEAP_NEW_PAGE_ROOM \
	(BLCKSZ - SizeOfPageHeaderData - sizeof(ZPageOpaqueData) - \
	 (ZHEAP_XACT_SLOTS_ROOM + 1) * sizeof(ZXactSlotData) - \
	 sizeof(ItemIdData))

/*
 * Xact slots of a new page, by the first row put on it.  A row too big for the
 * reserve has the page for itself: writers of it wait for each other anyway, and
 * row lockers share an xact slot (Z57).
 */
static inline int
zheap_new_page_xact_slots(Size len)
{
	return len <= ZHEAP_NEW_PAGE_ROOM ? ZHEAP_INITIAL_XACT_SLOTS : 1;
}

/*
 * nrows > 1: so many rows of this length are to be placed.  A page with room
 * for more of them is preferred, but none is added as long as another has room
 * for one.
 */
extern Buffer zheap_space_find_page(Relation rel, Size len, int nrows,
									int options,
									struct BulkInsertStateData *bistate,
									Buffer *vmbuffer);

/*
 * Clear the page's all-visible state as part of a change: vm_add and vm_lock
 * before the critical section, vm_clear inside, register, set
 * LSN, release (Z30).  Zeroed by the caller before the first
 * vm_add; without any added block all of these do nothing.  release unlocks:
 * the pins stay the caller's.  Clearing the flag on the table page
 * (PageClearAllVisible) is the caller's too.
 */
typedef struct ZVmClear
{
	Buffer		vmbuffer[2];
	BlockNumber block[2];
	int			nbuffers;		/* distinct VM pages, ascending */
	int			nblocks;
	int			buf_of[2];		/* VM page of block[i] */
} ZVmClear;

extern void zheap_space_vm_add(ZVmClear *vm, BlockNumber block,
							   Buffer vmbuffer);
extern void zheap_space_vm_lock(ZVmClear *vm);
extern void zheap_space_vm_clear(ZVmClear *vm);
extern void zheap_space_vm_register(ZVmClear *vm, uint8 first_block_id);
extern void zheap_space_vm_set_lsn(ZVmClear *vm, XLogRecPtr lsn);
extern void zheap_space_vm_release(ZVmClear *vm);

/*
 * Redo of a VM page registered by zheap_space_vm_register(): clears the bits of
 * those of the n table blocks that it maps.  Takes and releases its lock.
 */
extern void zheap_space_vm_redo(XLogReaderState *record, uint8 block_id,
								const BlockNumber *heap_blocks, int n);

/*
 * Tell the free space map of a page changed by redo, if it has become rather
 * full.  Called without its lock, with the room found under it.
 */
extern void zheap_space_redo_fsm(XLogReaderState *record, uint8 block_id,
								 Size room);

#endif							/* ZHEAP_SPACE_H */
