/*-------------------------------------------------------------------------
 *
 * zheap_space.c
 *	  Blocks of a table: find a page with room, extend, free space map; and
 *	  clearing bits of the visibility map as part of a logged change.
 *
 * Nothing here changes a table page, except that a page that looks full may
 * be rolled back, pruned and spilled (which log what they do) before it is
 * given up.
 * New pages leave here as zeroes: the insert that puts the first row on a page
 * initialises it in the critical section that logs it (Z29).  If that
 * never happens, vacuum finds the empty page and offers it again.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/heapam.h"
#include "access/hio.h"
#include "access/visibilitymap.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/freespace.h"
#include "storage/lmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"
#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/space/zheap_space.h"

/* a page with a few dead line pointers still counts as empty */
#define NEARLY_EMPTY_ROOM \
	(ZHEAP_NEW_PAGE_ROOM - MaxHeapTuplesPerPage / 8 * sizeof(ItemIdData))

StaticAssertDecl(ZHEAP_MAX_TUPLE_SIZE >= ZHEAP_NEW_PAGE_ROOM &&
				 ZHEAP_MAX_TUPLE_SIZE <= MaxHeapTupleSize,
				 "an empty page is known to the free space map as such");

/* extension under contention: this many pages per waiter, up to the limit */
#define EXTEND_PER_WAITER		UNDO_KNOB("extend-per-waiter", 16, 1, 16)
#define EXTEND_LIMIT			UNDO_KNOB("extend-limit", 256, 1, 256)
/* a row that leaves a crowded page goes to one with fewer xact slots than this */
#define SPREAD_XACT_SLOTS		UNDO_KNOB("spread", 8, 3, 8)
/* pages of the map that are looked at for that, besides one with any room */
#define SPREAD_TRIES			4

/* so many by one call, each pinned meanwhile */
#define EXTEND_AT_ONCE			64

/* a search for room */
typedef struct SpaceSearch
{
	Relation	rel;
	Size		want;			/* room that a page must have */
	int			room_options;
	bool		use_fsm;
	BulkInsertStateData *bistate;
	Buffer	   *vmbuffer;
} SpaceSearch;

/* ----------------------------------------------------------------
 *	finding room
 * ----------------------------------------------------------------
 */

static Size
page_room(Page page)
{
	return PageIsNew(page) ? ZHEAP_MAX_TUPLE_SIZE :
		zheap_page_insert_room(page);
}

/*
 * Read a block, keeping the extra pin of a bulk insert on the last one: rows
 * that follow each other go to the same page.
 */
static Buffer
read_block(const SpaceSearch *search, BlockNumber block, ReadBufferMode mode)
{
	BulkInsertStateData *bistate = search->bistate;
	Buffer		buffer;

	Assert(CritSectionCount == 0 && search->want > 0);
	if (bistate == NULL && mode == RBM_NORMAL)
		return zheap_buffer_read(search->rel, block);
	if (bistate == NULL)
		return ReadBufferExtended(search->rel, MAIN_FORKNUM, block, mode,
								  NULL);

	if (BufferIsValid(bistate->current_buf))
	{
		if (BufferGetBlockNumber(bistate->current_buf) == block)
		{
			Assert(mode == RBM_NORMAL);
			IncrBufferRefCount(bistate->current_buf);
			return bistate->current_buf;
		}
		ReleaseBuffer(bistate->current_buf);
		bistate->current_buf = InvalidBuffer;
	}

	buffer = ReadBufferExtended(search->rel, MAIN_FORKNUM, block, mode,
								bistate->strategy);
	IncrBufferRefCount(buffer);
	bistate->current_buf = buffer;
	return buffer;
}

/*
 * The page has too little room: take back aborted changes, prune, spill, if
 * there is reason to believe that this frees enough.  Exclusive lock held and
 * kept.  Returns the room now.
 */
static Size
reclaim_page(const SpaceSearch *search, Buffer buffer, const UndoHorizons *hz)
{
	Page		page = BufferGetPage(buffer);
	Size		room;

	AssertPageExclusive(buffer);
	if (zheap_xact_slot_any_aborted(buffer, page, hz) &&
		!zheap_rollback_buffer(search->rel, buffer))
		return 0;				/* another time */

	room = page_room(page);
	if (room < search->want && !PageIsNew(page))
	{
		/* no room at all may mean no line pointer: spilling gives none */
		if (room == 0 &&
			PageGetMaxOffsetNumber(page) >= MaxHeapTuplesPerPage &&
			!search->room_options)
			return 0;
		if (zheap_make_room(search->rel, buffer, hz, search->want - room,
							search->room_options))
			room = page_room(page);
	}
	return room;
}

/*
 * Lock a candidate and look.  With enough room it is returned pinned and
 * locked, and the VM page is pinned if need be; else nothing is left locked,
 * and *room tells what it has.
 */
static Buffer
try_block(const SpaceSearch *search, BlockNumber block, Size *room)
{
	Buffer		buffer = read_block(search, block, RBM_NORMAL);
	Page		page = BufferGetPage(buffer);
	UndoHorizons hz = undo_log_horizons();

	AssertNoPageLocked();
	if (PageIsAllVisible(page))
		visibilitymap_pin(search->rel, block, search->vmbuffer);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);

	/* no I/O on the map with the page locked: unlock, pin, look again */
	while (PageIsAllVisible(page) &&
		   !visibilitymap_pin_ok(block, *search->vmbuffer))
	{
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		visibilitymap_pin(search->rel, block, search->vmbuffer);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	}

	if (!PageIsNew(page))
		zheap_page_check(search->rel, block, page);
	*room = PageIsNew(page) ? ZHEAP_NEW_PAGE_ROOM : zheap_page_hole_room(page);
	if (*room < search->want)
		*room = page_room(page);
	if (*room < search->want)
		*room = reclaim_page(search, buffer, &hz);
	AssertPageExclusive(buffer);
	if (*room >= search->want)
		return buffer;

	UnlockReleaseBuffer(buffer);
	UNDO_POINT("space-released");
	return InvalidBuffer;
}

/* where to look first */
static BlockNumber
first_candidate(const SpaceSearch *search)
{
	BlockNumber block;
	BlockNumber nblocks;

	if (search->bistate && BufferIsValid(search->bistate->current_buf))
		block = BufferGetBlockNumber(search->bistate->current_buf);
	else
		block = RelationGetTargetBlock(search->rel);
	if (block != InvalidBlockNumber)
		return block;

	if (search->use_fsm)
	{
		block = GetPageWithFreeSpace(search->rel, search->want);
		if (block != InvalidBlockNumber)
			return block;
	}

	/* a small table has no map: its last page is worth a look */
	nblocks = RelationGetNumberOfBlocks(search->rel);
	return nblocks > 0 ? nblocks - 1 : InvalidBlockNumber;
}

/* ----------------------------------------------------------------
 *	extension
 * ----------------------------------------------------------------
 */

/*
 * Add pages for the backends that wait for the extension lock, which is held,
 * and tell the map of them.  They stay zeroes.
 */
static void
add_pages_for_waiters(const SpaceSearch *search)
{
	int			waiters = RelationExtensionLockWaiterCount(search->rel);
	int			npages = Min(waiters * EXTEND_PER_WAITER, EXTEND_LIMIT);
	BlockNumber first = InvalidBlockNumber;
	BlockNumber end = InvalidBlockNumber;

	Assert(search->use_fsm);
	while (npages > 0)
	{
		Buffer		buffers[EXTEND_AT_ONCE];
		uint32		added;
		BlockNumber block = ExtendBufferedRelBy(BMR_REL(search->rel),
												MAIN_FORKNUM, NULL,
												EB_SKIP_EXTENSION_LOCK,
												Min(npages, EXTEND_AT_ONCE),
												buffers, &added);

		for (uint32 i = 0; i < added; i++)
		{
			ReleaseBuffer(buffers[i]);
			RecordPageWithFreeSpace(search->rel, block + i,
									zheap_fsm_room(ZHEAP_MAX_TUPLE_SIZE));
		}
		if (first == InvalidBlockNumber)
			first = block;
		end = block + added;
		npages -= added;
	}
	if (first != InvalidBlockNumber)
		FreeSpaceMapVacuumRange(search->rel, first, end);
}

/*
 * Make the table longer.  Returns a new page pinned and locked.  Or, nothing
 * locked, Invalid: then *candidate is a page that another backend added
 * meanwhile.
 */
static Buffer
extend_table(const SpaceSearch *search, BlockNumber *candidate)
{
	bool		need_lock = !RELATION_IS_LOCAL(search->rel);
	Buffer		buffer;
	Page		page;

	AssertNoPageLocked();
	*candidate = InvalidBlockNumber;
	UNDO_ROOM_POINT("table-extends");

	if (need_lock &&
		!ConditionalLockRelationForExtension(search->rel, ExclusiveLock))
	{
		LockRelationForExtension(search->rel, ExclusiveLock);
		if (search->use_fsm)
		{
			*candidate = GetPageWithFreeSpace(search->rel, search->want);
			if (*candidate != InvalidBlockNumber)
			{
				UnlockRelationForExtension(search->rel, ExclusiveLock);
				return InvalidBuffer;
			}
			add_pages_for_waiters(search);
		}
	}

	buffer = read_block(search, P_NEW, RBM_ZERO_AND_LOCK);
	page = BufferGetPage(buffer);
	if (need_lock)
		UnlockRelationForExtension(search->rel, ExclusiveLock);

	if (!PageIsNew(page))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of relation \"%s\" is not empty although the file was just extended by it",
						BufferGetBlockNumber(buffer),
						RelationGetRelationName(search->rel))));
	AssertPageExclusive(buffer);
	return buffer;
}

/*
 * A page with room for several rows of this length, the more the better,
 * pinned and locked; or Invalid.
 */
static Buffer
find_for_several(SpaceSearch *search, Size len, int nrows)
{
	Size		each = len + sizeof(ItemIdData);
	Size		one = search->want;
	Buffer		buffer = InvalidBuffer;

	Assert(nrows > 1 && search->use_fsm);
	nrows = Min(nrows, 1 + (int) ((ZHEAP_NEW_PAGE_ROOM - one) / each));
	for (; nrows > 1 && !BufferIsValid(buffer); nrows--)
	{
		BlockNumber block;
		Size		room;

		search->want = one + (nrows - 1) * each;
		block = GetPageWithFreeSpace(search->rel, search->want);
		if (block == InvalidBlockNumber)
			continue;
		buffer = try_block(search, block, &room);
		if (!BufferIsValid(buffer))
			RecordPageWithFreeSpace(search->rel, block, room);
	}
	search->want = one;
	return buffer;
}

/*
 * A page that few transactions have worked on at a time, for a row that leaves
 * a crowded one: one of those that the map names, or a new one, of which the map
 * is told at once, so that others come there, too.  The map doesn't know which
 * pages are crowded; but the emptier one is the less it is, and an empty one not
 * at all.
 */
static Buffer
find_to_spread(SpaceSearch *search)
{
	Relation	rel = search->rel;
	Buffer		buffer = InvalidBuffer;
	BlockNumber block;

	Assert(search->use_fsm && search->bistate == NULL);
	for (int i = 0; i <= SPREAD_TRIES; i++)
	{
		Size		room;

		block = GetPageWithFreeSpace(rel, Max(search->want,
											  NEARLY_EMPTY_ROOM * i /
											  SPREAD_TRIES));
		if (block == InvalidBlockNumber)
			continue;
		buffer = try_block(search, block, &room);
		if (!BufferIsValid(buffer))
		{
			RecordPageWithFreeSpace(rel, block, room);
			continue;
		}
		if (PageIsNew(BufferGetPage(buffer)) ||
			ZPageGetOpaque(BufferGetPage(buffer))->nslots < SPREAD_XACT_SLOTS)
			return buffer;
		UnlockReleaseBuffer(buffer);
	}

	do
	{
		Size		room;

		CHECK_FOR_INTERRUPTS();
		buffer = extend_table(search, &block);
		if (!BufferIsValid(buffer))
			buffer = try_block(search, block, &room);
	} while (!BufferIsValid(buffer));
	block = BufferGetBlockNumber(buffer);
	if (PageIsNew(BufferGetPage(buffer)) &&
		search->want < ZHEAP_NEW_PAGE_ROOM)
	{
		/* the map's pages may be read: not with the page locked */
		LockBuffer(buffer, BUFFER_LOCK_UNLOCK);
		RecordPageWithFreeSpace(rel, block,
								zheap_fsm_room(ZHEAP_NEW_PAGE_ROOM -
											   search->want));
		FreeSpaceMapVacuumRange(rel, block, block + 1);
		LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	}
	return buffer;
}

Buffer
zheap_space_find_page(Relation rel, Size len, int nrows, int options,
					  struct BulkInsertStateData *bistate,
					  Buffer *vmbuffer)
{
	SpaceSearch search;
	Size		save = RelationGetTargetPageFreeSpace(rel,
													  HEAP_DEFAULT_FILLFACTOR);
	bool		force_new = (options & ZHEAP_INSERT_NEW_PAGE) != 0;
	BlockNumber candidate = InvalidBlockNumber;

	Assert(len > 0 && len <= ZHEAP_MAX_TUPLE_SIZE);
	Assert(CritSectionCount == 0 && nrows >= 1 && !RecoveryInProgress());
	AssertNoPageLocked();

	search.rel = rel;
	/* a row that no page below the fillfactor can hold may have a fresh one */
	if (len + save > NEARLY_EMPTY_ROOM)
		search.want = Max(len, NEARLY_EMPTY_ROOM);
	else
		search.want = len + save;
	search.room_options = force_new ? 0 : zheap_make_room_options(rel);
	search.use_fsm = !force_new && (options & HEAP_INSERT_SKIP_FSM) == 0;
	search.bistate = bistate;
	search.vmbuffer = vmbuffer;

	if (options & ZHEAP_INSERT_SPREAD)
		return find_to_spread(&search);
	if (nrows > 1 && search.use_fsm && len + save <= NEARLY_EMPTY_ROOM)
	{
		Buffer		buffer = find_for_several(&search, len, nrows);

		if (BufferIsValid(buffer))
		{
			RelationSetTargetBlock(rel, BufferGetBlockNumber(buffer));
			return buffer;
		}
	}
	if (!force_new)
		candidate = first_candidate(&search);

	for (;;)
	{
		Buffer		buffer;

		CHECK_FOR_INTERRUPTS();

		if (candidate == InvalidBlockNumber)
			buffer = extend_table(&search, &candidate);
		else
		{
			Size		room;

			buffer = try_block(&search, candidate, &room);
			if (!BufferIsValid(buffer))
				candidate = !search.use_fsm ? InvalidBlockNumber :
					RecordAndGetPageWithFreeSpace(rel, candidate, room,
												  search.want);
		}

		if (BufferIsValid(buffer))
		{
			RelationSetTargetBlock(rel, BufferGetBlockNumber(buffer));
			return buffer;
		}
	}
}

void
zheap_space_redo_fsm(XLogReaderState *record, uint8 block_id, Size room)
{
	RelFileLocator locator;
	BlockNumber block;

	Assert(InRecovery);
	AssertNoPageLocked();
	/* a map that is a little out of date is fine, so save the work mostly */
	if (room >= BLCKSZ / 5)
		return;
	XLogRecGetBlockTag(record, block_id, &locator, NULL, &block);
	XLogRecordPageWithFreeSpace(locator, block, room);
}

/* ----------------------------------------------------------------
 *	visibility map
 * ----------------------------------------------------------------
 *
 * Core's visibilitymap_clear() neither logs nor lets its caller log, so the
 * bits are cleared here, with the VM page as a block of the change's record.
 * A map page is a bare page header and two bits per table block, the lowest
 * bits of a byte first.
 */
#define VM_CONTENT				MAXALIGN(SizeOfPageHeaderData)
#define VM_BLOCKS_PER_BYTE		(BITS_PER_BYTE / BITS_PER_HEAPBLOCK)
#define VM_BLOCKS_PER_PAGE		((BLCKSZ - VM_CONTENT) * VM_BLOCKS_PER_BYTE)

static BlockNumber
vm_map_block(BlockNumber block)
{
	return block / VM_BLOCKS_PER_PAGE;
}

static void
vm_clear_bits(Page map, BlockNumber block)
{
	uint32		nth = block % VM_BLOCKS_PER_PAGE;
	int			shift = nth % VM_BLOCKS_PER_BYTE * BITS_PER_HEAPBLOCK;
	uint8	   *byte;

	byte = (uint8 *) map + VM_CONTENT + nth / VM_BLOCKS_PER_BYTE;
	*byte &= ~(VISIBILITYMAP_VALID_BITS << shift);
}

/*
 * Add a table block whose all-visible flag is going to be cleared; vmbuffer
 * is a pin of its map page.  Two blocks often share that page, which must be
 * locked and registered once (Z30).
 */
void
zheap_space_vm_add(ZVmClear *vm, BlockNumber block, Buffer vmbuffer)
{
	int			at;

	Assert(vm->nblocks < lengthof(vm->block));
	Assert(visibilitymap_pin_ok(block, vmbuffer));
	Assert(CritSectionCount == 0 && vm->nbuffers <= vm->nblocks);

	for (at = 0; at < vm->nbuffers; at++)
	{
		if (BufferGetBlockNumber(vm->vmbuffer[at]) >= vm_map_block(block))
			break;
	}
	if (at == vm->nbuffers ||
		BufferGetBlockNumber(vm->vmbuffer[at]) != vm_map_block(block))
	{
		/* a new one, in front of those with a higher number */
		for (int i = vm->nbuffers; i > at; i--)
			vm->vmbuffer[i] = vm->vmbuffer[i - 1];
		for (int i = 0; i < vm->nblocks; i++)
		{
			if (vm->buf_of[i] >= at)
				vm->buf_of[i]++;
		}
		vm->vmbuffer[at] = vmbuffer;
		vm->nbuffers++;
	}
	Assert(vm->nbuffers <= lengthof(vm->vmbuffer));
	vm->block[vm->nblocks] = block;
	vm->buf_of[vm->nblocks] = at;
	vm->nblocks++;
}

/* Table pages are locked, no undo page is. */
void
zheap_space_vm_lock(ZVmClear *vm)
{
	Assert(CritSectionCount == 0);
	for (int i = 0; i < vm->nbuffers; i++)
		LockBuffer(vm->vmbuffer[i], BUFFER_LOCK_EXCLUSIVE);
}

/* In the critical section. */
void
zheap_space_vm_clear(ZVmClear *vm)
{
	Assert(CritSectionCount > 0);
	Assert(vm->nbuffers == 0 ||
		   undo_debug_page_is_locked(vm->vmbuffer[0], true));
	for (int i = 0; i < vm->nblocks; i++)
		vm_clear_bits(BufferGetPage(vm->vmbuffer[vm->buf_of[i]]),
					  vm->block[i]);
	for (int i = 0; i < vm->nbuffers; i++)
		MarkBufferDirty(vm->vmbuffer[i]);
}

/* No standard page: the map would be taken for a hole (Z30). */
void
zheap_space_vm_register(ZVmClear *vm, uint8 first_block_id)
{
	Assert(CritSectionCount > 0);
	for (int i = 0; i < vm->nbuffers; i++)
		XLogRegisterBuffer(first_block_id + i, vm->vmbuffer[i], 0);
}

void
zheap_space_vm_set_lsn(ZVmClear *vm, XLogRecPtr lsn)
{
	Assert(CritSectionCount > 0 && !XLogRecPtrIsInvalid(lsn));
	for (int i = 0; i < vm->nbuffers; i++)
		PageSetLSN(BufferGetPage(vm->vmbuffer[i]), lsn);
}

/* Unlocks; pins are left to the caller. */
void
zheap_space_vm_release(ZVmClear *vm)
{
	Assert(CritSectionCount == 0);
	for (int i = 0; i < vm->nbuffers; i++)
		LockBuffer(vm->vmbuffer[i], BUFFER_LOCK_UNLOCK);
}

void
zheap_space_vm_redo(XLogReaderState *record, uint8 block_id,
					const BlockNumber *heap_blocks, int n)
{
	XLogRecPtr	lsn = record->EndRecPtr;
	BlockNumber map_block;
	Buffer		buffer;

	Assert(InRecovery && n > 0 && n <= 2);
	XLogRecGetBlockTag(record, block_id, NULL, NULL, &map_block);

	/* extending the map isn't logged, so its page may not be there */
	if (XLogReadBufferForRedoExtended(record, block_id, RBM_ZERO_ON_ERROR,
									  false, &buffer) == BLK_NEEDS_REDO)
	{
		Page		map = BufferGetPage(buffer);

		if (PageIsNew(map))
			PageInit(map, BLCKSZ, 0);
		for (int i = 0; i < n; i++)
		{
			if (vm_map_block(heap_blocks[i]) == map_block)
				vm_clear_bits(map, heap_blocks[i]);
		}
		PageSetLSN(map, lsn);
		MarkBufferDirty(buffer);
	}
	if (BufferIsValid(buffer))
		UnlockReleaseBuffer(buffer);
}
