/*-------------------------------------------------------------------------
 *
 * undo_files.c
 *	  Files of undo logs: their names, their blocks in shared buffers, control
 *	  pages, init forks.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "catalog/pg_class.h"
#include "catalog/storage_xlog.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/smgr.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

UndoTempLog undo_temp_log;

RelFileLocator
undo_file_locator(RelFileNumber number)
{
	RelFileLocator locator;

	locator.spcOid = UNDO_TABLESPACE;
	locator.dbOid = UNDO_DATABASE;
	locator.relNumber = number;
	return locator;
}

RelFileLocator
undo_file_of_log(char persistence, UndoLogNumber log)
{
	Assert(persistence != RELPERSISTENCE_TEMP);
	Assert(log < UNDO_MAX_LOGS);
	return undo_file_locator((persistence == RELPERSISTENCE_PERMANENT ?
							  UNDO_PERMANENT_BASE : UNDO_UNLOGGED_BASE) + log);
}

Buffer
undo_file_read(RelFileLocator locator, BlockNumber block, ReadBufferMode mode,
			   bool permanent)
{
	Assert(CritSectionCount == 0);
	return ReadBufferWithoutRelcache(locator, MAIN_FORKNUM, block, mode, NULL,
									 permanent);
}

/*
 * Where undo pages were found last in shared buffers: saves readers, which jump
 * from log to log, the look into the buffer mapping table.  The buffer manager
 * checks the answer (ReadRecentBuffer), so it may be wrong.
 */
#define RECENT_PAGES	16384	/* a power of two */
#define RECENT_PAGES_USED	UNDO_KNOB("recent-pages", RECENT_PAGES, 1, RECENT_PAGES)

typedef struct RecentPage
{
	UndoLogNumber log;
	BlockNumber block;
	Buffer		buffer;			/* Invalid = unused */
} RecentPage;

static RecentPage *recent_pages[2]; /* each NULL until first used */

static inline RecentPage *
recent_page(char persistence, UndoLogNumber log, BlockNumber block)
{
	RecentPage *pages = recent_pages[persistence == RELPERSISTENCE_PERMANENT];

	Assert(persistence != RELPERSISTENCE_TEMP);
	return pages == NULL ? NULL :
		&pages[(block * 31 + log) % RECENT_PAGES_USED];
}

/* the block's place among them; allocates */
static RecentPage *
find_recent_page(char persistence, UndoLogNumber log, BlockNumber block)
{
	RecentPage *recent = recent_page(persistence, log, block);

	if (recent == NULL)
	{
		recent_pages[persistence == RELPERSISTENCE_PERMANENT] =
			undo_cache_alloc(RECENT_PAGES * sizeof(RecentPage));
		recent = recent_page(persistence, log, block);
	}
	return recent;
}

/* pin the block if it is where it was */
static inline bool
pin_recent_page(const RecentPage *recent, char persistence, UndoLogNumber log,
				BlockNumber block)
{
	return BufferIsValid(recent->buffer) && recent->log == log &&
		recent->block == block &&
		ReadRecentBuffer(undo_file_of_log(persistence, log), MAIN_FORKNUM,
						 block, recent->buffer);
}

static Buffer
read_page(RecentPage *recent, char persistence, UndoLogNumber log,
		  BlockNumber block)
{
	recent->buffer = undo_file_read(undo_file_of_log(persistence, log), block,
									RBM_NORMAL,
									persistence == RELPERSISTENCE_PERMANENT);
	recent->log = log;
	recent->block = block;
	return recent->buffer;
}

Buffer
undo_file_read_log(char persistence, UndoLogNumber log, BlockNumber block)
{
	RecentPage *recent;

	Assert((log == UNDO_TEMP_LOG) == (persistence == RELPERSISTENCE_TEMP));
	Assert(BlockNumberIsValid(block));
	if (persistence == RELPERSISTENCE_TEMP)
		return ReadBuffer(undo_temp_log.rel, block);
	recent = find_recent_page(persistence, log, block);
	if (pin_recent_page(recent, persistence, log, block))
		return recent->buffer;
	return read_page(recent, persistence, log, block);
}

Buffer
undo_file_read_used(char persistence, UndoLogNumber log, BlockNumber block)
{
	RecentPage *recent;
	Buffer		buffer = InvalidBuffer;

	Assert((log == UNDO_TEMP_LOG) == (persistence == RELPERSISTENCE_TEMP));
	Assert(!LWLockHeldByMe(UndoShmem->reading));
	if (block == 0 || block >= undo_file_used_blocks(persistence, log))
		return InvalidBuffer;
	if (persistence == RELPERSISTENCE_TEMP)
		return ReadBuffer(undo_temp_log.rel, block);
	recent = find_recent_page(persistence, log, block);
	if (pin_recent_page(recent, persistence, log, block))
		return recent->buffer;

	/* a truncation waits between its RESET and the file (U18) */
	LWLockAcquire(UndoShmem->reading, LW_SHARED);
	if (block < undo_file_used_blocks(persistence, log))
	{
		UNDO_POINT("block-in-use");
		buffer = read_page(recent, persistence, log, block);
	}
	LWLockRelease(UndoShmem->reading);
	return buffer;
}

/* what was found of recent pages stays: these aren't going to be */
Buffer
undo_file_read_in_order(char persistence, UndoLogNumber log,
						BlockNumber block, BufferAccessStrategy strategy)
{
	Buffer		buffer = InvalidBuffer;

	Assert(persistence != RELPERSISTENCE_TEMP && block != 0);
	Assert(!LWLockHeldByMe(UndoShmem->reading));
	LWLockAcquire(UndoShmem->reading, LW_SHARED);
	if (block < undo_file_used_blocks(persistence, log))
		buffer =
			ReadBufferWithoutRelcache(undo_file_of_log(persistence, log),
									  MAIN_FORKNUM, block, RBM_NORMAL,
									  strategy,
									  persistence == RELPERSISTENCE_PERMANENT);
	LWLockRelease(UndoShmem->reading);
	return buffer;
}

void
undo_file_expect_page(char persistence, UndoRecPtr urp)
{
	const RecentPage *recent;
	const char *page;

	if (persistence == RELPERSISTENCE_TEMP)
		return;
	recent = recent_page(persistence, UndoRecPtrGetLog(urp),
						 UndoRecPtrGetBlock(urp));

	if (recent == NULL || !BufferIsValid(recent->buffer) ||
		recent->log != UndoRecPtrGetLog(urp) ||
		recent->block != UndoRecPtrGetBlock(urp))
		return;
	/* addresses only: nothing is pinned, and nothing is read */
	page = (const char *) BufferGetPage(recent->buffer);
	fetch_line(GetBufferDescriptor(recent->buffer - 1));
	fetch_line(page);
	fetch_line(page + UndoRecPtrGetOffset(urp));
	fetch_line(page + UndoRecPtrGetOffset(urp) + 64);
	fetch_line(page + BLCKSZ - sizeof(UndoPageOpaqueData));
}

/*
 * Blocks of a log that hold something.  On a standby the shared mirror isn't
 * kept, so the file is asked.
 */
BlockNumber
undo_file_used_blocks(char persistence, UndoLogNumber log)
{
	if (persistence == RELPERSISTENCE_TEMP)
		return undo_temp_log.nblocks;
	if (pg_atomic_read_u32(&UndoShmem->state) == UNDO_PRIMARY)
	{
		if (log >= (UndoLogNumber) UndoShmem->maxlogs)
			return 0;
		return pg_atomic_read_u32(&undo_shmem_log(persistence,
												  log)->used_blocks);
	}
	return undo_file_blocks(undo_file_of_log(persistence, log));
}

BlockNumber
undo_file_blocks(RelFileLocator locator)
{
	SMgrRelation smgr = smgropen(locator, INVALID_PROC_NUMBER);

	return smgrexists(smgr, MAIN_FORKNUM) ?
		smgrnblocks(smgr, MAIN_FORKNUM) : 0;
}

Buffer
undo_file_read_control(RelFileLocator locator, uint32 magic, bool permanent)
{
	Buffer		buffer;
	Page		page;
	const char *problem;

	Assert((magic == UNDO_GLOBAL_MAGIC) ==
		   (locator.relNumber == UNDO_GLOBAL_RELNUMBER));
	Assert(magic == UNDO_GLOBAL_MAGIC || magic == UNDO_CONTROL_MAGIC);
	if (undo_file_blocks(locator) == 0)
		return InvalidBuffer;
	buffer = undo_file_read(locator, 0, RBM_NORMAL, permanent);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	page = BufferGetPage(buffer);
	if (PageIsNew(page))
	{
		UnlockReleaseBuffer(buffer);
		return InvalidBuffer;
	}
	problem = undo_page_problem(page, magic);
	if (problem != NULL)
	{
		UnlockReleaseBuffer(buffer);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("control page of undo file base/%u/%u is damaged: %s",
						locator.dbOid, locator.relNumber, problem)));
	}
	return buffer;
}

Buffer
undo_file_make_control(RelFileLocator locator, bool permanent)
{
	SMgrRelation smgr = smgropen(locator, INVALID_PROC_NUMBER);

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	if (!smgrexists(smgr, MAIN_FORKNUM))
	{
		smgrcreate(smgr, MAIN_FORKNUM, false);
		if (permanent)
			log_smgrcreate(&locator, MAIN_FORKNUM);
	}
	if (smgrnblocks(smgr, MAIN_FORKNUM) == 0)
		return ExtendBufferedRel(BMR_SMGR(smgr, permanent ?
										  RELPERSISTENCE_PERMANENT :
										  RELPERSISTENCE_UNLOGGED),
								 MAIN_FORKNUM, NULL,
								 EB_SKIP_EXTENSION_LOCK | EB_LOCK_FIRST);
	return undo_file_read(locator, 0, RBM_ZERO_AND_LOCK, permanent);
}

void
undo_file_make_init_fork(RelFileLocator locator)
{
	SMgrRelation smgr = smgropen(locator, INVALID_PROC_NUMBER);
	PGIOAlignedBlock page;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	Assert(locator.relNumber >= UNDO_UNLOGGED_BASE);
	if (!smgrexists(smgr, INIT_FORKNUM))
	{
		smgrcreate(smgr, INIT_FORKNUM, false);
		log_smgrcreate(&locator, INIT_FORKNUM);
	}
	/* an empty one is left by an error on the way here */
	else if (smgrnblocks(smgr, INIT_FORKNUM) > 0)
		return;
	undo_page_init_control(page.data);
	log_newpage(&locator, INIT_FORKNUM, 0, page.data, true);
	PageSetChecksumInplace(page.data, 0);
	smgrextend(smgr, INIT_FORKNUM, 0, page.data, true);
	smgrimmedsync(smgr, INIT_FORKNUM);
}
