/*-------------------------------------------------------------------------
 *
 * zheap_announce.c
 *	  Tables whose keys change in place are announced to index scans first.
 *
 * A scan that may meet a STALE row must have kept the entries that it reads
 * (Z49), which costs.  So it does only in tables where a key has changed in
 * place, or is about to: two flags of the table's first page say so (Z55).
 *
 *	ANNOUNCED	scans that begin from now on keep their entries.
 *	ALLOWED		no scan is left that began before: keys may change.
 *
 * Both are set by page deltas, so they are as durable as the rows, and a
 * standby has them.  Between the two there is a stamp, the next xid after
 * ANNOUNCED was set: a scan that doesn't know of it has a snapshot that was
 * taken before, and whose xmin isn't beyond the stamp.  When all snapshots see
 * the stamp as settled, no such scan is left.  On a standby it is the conflict
 * horizon of setting ALLOWED that makes them go.
 *
 * The stamp is in shared memory, one for all tables, the newest: older ones
 * only wait longer.  A server that starts has none and takes the next xid.
 *
 * Backends remember the flags, and look at the page again when the number of
 * announcements has grown.  It grows before the stamp is taken, and both
 * happen before anybody else can see the flag.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlogutils.h"
#include "port/atomics.h"
#include "storage/bufmgr.h"
#include "storage/checksum.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/smgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/soft/zheap_announce.h"
#include "zheap/soft/zheap_keyed.h"

/* in a backend without shared memory, nobody announces anything */
static ZAnnounceShared unshared;

ZAnnounceShared *zheap_announce_shared = &unshared;
ZAnnounceKnown zheap_announce_known[ZANNOUNCE_KNOWN];

#define shared zheap_announce_shared

void
zheap_announce_shmem_request(void)
{
	RequestAddinShmemSpace(sizeof(ZAnnounceShared));
}

void
zheap_announce_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	shared = ShmemInitStruct("zheap announcements", sizeof(ZAnnounceShared),
							 &found);
	if (!found)
	{
		pg_atomic_init_u64(&shared->number, 1);
		pg_atomic_init_u64(&shared->stamp, InvalidFxid);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* the buffer is pinned; the pin is given up */
static uint16
take_flags(Buffer buffer)
{
	Page		page = BufferGetPage(buffer);
	uint16		flags = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	if (!PageIsNew(page))
		flags = zheap_page_is_valid(page) ? ZPageGetOpaque(page)->flags :
			ZANNOUNCE_UNREADABLE;
	UnlockReleaseBuffer(buffer);
	return flags;
}

/*
 * As the file has it, past the buffers: damage is no ERROR here, and is none in
 * a buffer after that.
 */
static uint16
read_flags_of_file(Relation rel)
{
	PGIOAlignedBlock copy;
	Page		page = copy.data;

	smgrread(RelationGetSmgr(rel), MAIN_FORKNUM, 0, copy.data);
	if (PageIsNew(page))
		return 0;
	if (!zheap_page_is_valid(page) ||
		(DataChecksumsEnabled() &&
		 pg_checksum_page(copy.data, 0) != ((PageHeader) page)->pd_checksum))
		return ZANNOUNCE_UNREADABLE;
	return ZPageGetOpaque(page)->flags;
}

/*
 * A scan of an index needs no more of the first page than the flags, and does
 * without the page if it is damaged: most tables have never had a flag.  If the
 * page comes into a buffer while it is read from the file, and gets a flag
 * there, the number of announcements has grown since the caller looked at it.
 */
static uint16
read_flags(Relation rel)
{
	Buffer		recent;

	if (RelationGetNumberOfBlocks(rel) == 0)
		return 0;
	recent = PrefetchBuffer(rel, MAIN_FORKNUM, 0).recent_buffer;
	if (BufferIsValid(recent) &&
		ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, 0, recent))
		return take_flags(recent);
	return read_flags_of_file(rel);
}

/* of zheap_announce_look_up(): not known yet, or not any more */
ZAnnounceKnown *
zheap_announce_read(Relation rel)
{
	ZAnnounceKnown *k =
		&zheap_announce_known[RelationGetRelid(rel) % ZANNOUNCE_KNOWN];
	uint64		number = pg_atomic_read_u64(&shared->number);
	uint64		changes = zheap_keyed_changes;

	k->number = 0;
	k->flags = RelationUsesLocalBuffers(rel) ? 0 : read_flags(rel);
	k->locator = rel->rd_locator;
	k->changes = changes;
	k->number = number;
	return k;
}

/* the first page is locked, so nobody can see the flag without the stamp */
static void
tell_backends(void)
{
	uint64		stamp;
	uint64		before;

	/* a barrier: who hasn't seen this number took its snapshot before */
	pg_atomic_fetch_add_u64(&shared->number, 1);
	stamp = U64FromFullTransactionId(ReadNextFullTransactionId());
	before = pg_atomic_read_u64(&shared->stamp);
	while (before < stamp &&
		   !pg_atomic_compare_exchange_u64(&shared->stamp, &before, stamp))
		;
}

/* set flags of the table's first page, unless they are; false: there is none */
static bool
set_flags(Relation rel, uint16 flags, Fxid conflict)
{
	ZPageDelta *delta;
	Buffer		buffer;
	Page		page;

	if (RelationGetNumberOfBlocks(rel) == 0)
		return false;
	buffer = ReadBuffer(rel, 0);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	if (!zheap_page_is_valid(page))
	{
		UnlockReleaseBuffer(buffer);
		return false;
	}
	if ((ZPageGetOpaque(page)->flags & flags) != flags)
	{
		delta = palloc(sizeof(ZPageDelta));
		page = zheap_delta_begin(delta, rel, buffer);
		ZPageGetOpaque(page)->flags |= flags;
		zheap_delta_finish(delta, conflict);
		pfree(delta);
		if (flags & ZPAGE_ANNOUNCED)
			tell_backends();
	}
	UnlockReleaseBuffer(buffer);
	return true;
}

bool
zheap_announce_allows(Relation rel)
{
	ZAnnounceKnown *k = zheap_announce_look_up(rel);
	UndoHorizons hz;
	Fxid		stamp;

	/* a file of that name may have been dropped, and be another table's now */
	if (k->changes != zheap_keyed_changes)
		k = zheap_announce_read(rel);
	if (k->flags & ZPAGE_KEYS_ALLOWED)
		return true;
	if ((k->flags & ZPAGE_ANNOUNCED) == 0)
		return false;
	stamp = pg_atomic_read_u64(&shared->stamp);
	if (stamp == InvalidFxid)
	{
		tell_backends();
		return false;
	}
	hz = undo_log_horizons();
	if (!zheap_xact_slot_seen_by_all(rel, stamp, &hz, NULL) ||
		!set_flags(rel, ZPAGE_KEYS_ALLOWED, stamp))
		return false;
	UNDO_POINT("allowed");
	k->flags |= ZPAGE_KEYS_ALLOWED;
	return true;
}

void
zheap_announce_make(Relation rel)
{
	if ((zheap_announce_look_up(rel)->flags &
		 (ZPAGE_ANNOUNCED | ZANNOUNCE_UNREADABLE)) == 0)
		(void) set_flags(rel, ZPAGE_ANNOUNCED, InvalidFxid);
}

void
zheap_announce_copy(Relation rel, Relation newrel)
{
	uint16		flags;

	if (RelationGetNumberOfBlocks(rel) == 0)
		return;
	flags = take_flags(ReadBuffer(rel, 0)) &
		(ZPAGE_ANNOUNCED | ZPAGE_KEYS_ALLOWED);
	if (flags != 0)
		(void) set_flags(newrel, flags, InvalidFxid);
}

void
zheap_announce_forget(void)
{
	pg_atomic_fetch_add_u64(&shared->number, 1);
}

void
zheap_announce_redo(XLogReaderState *record)
{
	BlockNumber block;

	XLogRecGetBlockTag(record, 0, NULL, NULL, &block);
	if (block == 0 && InHotStandby)
		pg_atomic_fetch_add_u64(&shared->number, 1);
}
