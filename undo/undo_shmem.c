/*-------------------------------------------------------------------------
 *
 * undo_shmem.c
 *	  The undo store's shared memory and files: names, blocks, control pages.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "access/xlog.h"
#include "access/xloginsert.h"
#include "access/xlogutils.h"
#include "catalog/storage_xlog.h"
#include "miscadmin.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/smgr.h"

#include "undo/undo_log.h"
#include "undo/undo_shmem.h"

/*
 * The arrays have room for more logs than are ever made, so that a standby
 * whose settings differ a little can take all logs of its primary.
 */
#define UNDO_LOG_SLACK		64
#define UNDO_LOG_SPARE		32

UndoShared *UndoShmem = NULL;

UndoTempLog undo_temp_log;

/* ----------------------------------------------------------------
 *	shared memory
 * ----------------------------------------------------------------
 */

/* highest log number found among the files of the pseudo-database, plus 1 */
static int
count_existing_logs(void)
{
	DIR		   *dir;
	struct dirent *de;
	char		path[MAXPGPATH];
	int			count = 0;

	snprintf(path, sizeof(path), "base/%u", UNDO_DATABASE);
	dir = AllocateDir(path);
	if (dir == NULL)
		return 0;
	while ((de = ReadDirExtended(dir, path, LOG)) != NULL)
	{
		unsigned long rel = strtoul(de->d_name, NULL, 10);

		if (rel >= UNDO_UNLOGGED_BASE)
			rel -= UNDO_UNLOGGED_BASE;
		else if (rel >= UNDO_PERMANENT_BASE)
			rel -= UNDO_PERMANENT_BASE;
		else
			continue;
		if (rel < UNDO_MAX_LOGS)
			count = Max(count, (int) rel + 1);
	}
	FreeDir(dir);
	return count;
}

/*
 * Size of the arrays.  Asked twice, and files may have come in between (when
 * the postmaster starts over after a crash): the first answer stands.
 */
static int
max_logs(void)
{
	static int	answer = 0;
	int			need = MaxBackends + max_prepared_xacts;

	if (answer == 0)
		answer = Min(Max(need, count_existing_logs()) + UNDO_LOG_SLACK,
					 (int) UNDO_MAX_LOGS);
	return answer;
}

UndoLogNumber
undo_creation_limit(void)
{
	return (UndoLogNumber) Min(MaxBackends + max_prepared_xacts +
							   UNDO_LOG_SPARE, UndoShmem->maxlogs);
}

static Size
shmem_size(int maxlogs)
{
	return add_size(offsetof(UndoShared, logs),
					mul_size(sizeof(UndoLogShared), mul_size(2, maxlogs)));
}

void
undo_shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size(max_logs()));
	RequestNamedLWLockTranche("zheap_undo", 1);
}

static void
init_log(UndoLogShared *log)
{
	pg_atomic_init_u32(&log->state, UNDO_LOG_ABSENT);
	pg_atomic_init_u32(&log->tail, InvalidBlockNumber);
	pg_atomic_init_u32(&log->used_blocks, 0);
	pg_atomic_init_u64(&log->head, UndoLogHead(InvalidBlockNumber, 0));
	pg_atomic_init_u64(&log->seq, 0);
	pg_atomic_init_u32(&log->owner_pid, 0);
	pg_atomic_init_u32(&log->pending, InvalidBlockNumber);
	pg_atomic_init_u64(&log->bytes_written, 0);
}

void
undo_shmem_startup(void)
{
	bool		found;
	int			maxlogs = max_logs();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	UndoShmem = ShmemInitStruct("zheap undo logs", shmem_size(maxlogs), &found);
	if (!found)
	{
		UndoShmem->lock = &(GetNamedLWLockTranche("zheap_undo"))->lock;
		pg_atomic_init_u32(&UndoShmem->state, UNDO_UNINIT);
		pg_atomic_init_u64(&UndoShmem->u, 0);
		pg_atomic_init_u64(&UndoShmem->h, 0);
		pg_atomic_init_u32(&UndoShmem->global_exists, 0);
		pg_atomic_init_u32(&UndoShmem->nlogs, 0);
		pg_atomic_init_u32(&UndoShmem->nunlogged, 0);
		UndoShmem->maxlogs = maxlogs;
		UndoShmem->launcher_latch = NULL;
		UndoShmem->launcher_pid = 0;
		pg_atomic_init_u64(&UndoShmem->oldest_unapplied, 0);
		pg_atomic_init_u64(&UndoShmem->retained, 0);
		for (int i = 0; i < 2 * maxlogs; i++)
			init_log(&UndoShmem->logs[i]);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
undo_require_preloaded(void)
{
	if (UndoShmem == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zheap_am must be loaded via shared_preload_libraries"),
				 errhint("Add zheap_am to shared_preload_libraries and restart the server.")));
}

/* ----------------------------------------------------------------
 *	names and files
 * ----------------------------------------------------------------
 */

RelFileLocator
undo_make_locator(RelFileNumber number)
{
	RelFileLocator locator;

	RelLocatorSpc(locator) = UNDO_TABLESPACE;
	RelLocatorDb(locator) = UNDO_DATABASE;
	RelLocatorNumber(locator) = number;
	return locator;
}

RelFileLocator
undo_log_locator(char persistence, UndoLogNumber log)
{
	Assert(persistence != RELPERSISTENCE_TEMP);
	return undo_make_locator((persistence == RELPERSISTENCE_PERMANENT ?
							 UNDO_PERMANENT_BASE : UNDO_UNLOGGED_BASE) + log);
}

UndoLogShared *
undo_log_get(char persistence, UndoLogNumber log)
{
	Assert(persistence != RELPERSISTENCE_TEMP);
	Assert(log < (UndoLogNumber) UndoShmem->maxlogs);
	return &UndoShmem->logs[persistence == RELPERSISTENCE_PERMANENT ?
							log : UndoShmem->maxlogs + log];
}

int
undo_log_count(char persistence)
{
	return (int) pg_atomic_read_u32(persistence == RELPERSISTENCE_PERMANENT ?
									&UndoShmem->nlogs : &UndoShmem->nunlogged);
}

Buffer
undo_read_block(RelFileLocator locator, BlockNumber block, ReadBufferMode mode,
				bool permanent)
{
	return ReadBufferWithoutRelcache(locator, MAIN_FORKNUM, block, mode, NULL,
									 permanent);
}

/*
 * Where undo pages were found last in shared buffers: saves readers, who jump
 * from log to log, the look into the buffer mapping table.  The buffer manager
 * checks the answer (ReadRecentBuffer), so it may be wrong.
 */
#define RECENT_PAGES	16384	/* a power of two */

typedef struct RecentPage
{
	UndoLogNumber log;
	BlockNumber block;
	Buffer		buffer;			/* Invalid = unused */
} RecentPage;

static RecentPage recent_pages[2][RECENT_PAGES];

static inline RecentPage *
recent_page(char persistence, UndoLogNumber log, BlockNumber block)
{
	return &recent_pages[persistence == RELPERSISTENCE_PERMANENT]
		[(block * 31 + log) & (RECENT_PAGES - 1)];
}

Buffer
undo_log_read(char persistence, UndoLogNumber log, BlockNumber block)
{
	RelFileLocator locator;
	RecentPage *recent;

	if (persistence == RELPERSISTENCE_TEMP)
		return ReadBuffer(undo_temp_log.rel, block);

	locator = undo_log_locator(persistence, log);
	recent = recent_page(persistence, log, block);
	if (BufferIsValid(recent->buffer) && recent->log == log &&
		recent->block == block &&
		ReadRecentBuffer(locator, MAIN_FORKNUM, block, recent->buffer))
		return recent->buffer;
	recent->buffer = undo_read_block(locator, block, RBM_NORMAL,
									 persistence == RELPERSISTENCE_PERMANENT);
	recent->log = log;
	recent->block = block;
	return recent->buffer;
}

void
undo_expect(char persistence, UndoRecPtr urp)
{
	if (persistence != RELPERSISTENCE_TEMP)
		fetch_line(recent_page(persistence, UndoRecPtrGetLog(urp),
							   UndoRecPtrGetBlock(urp)));
}

void
undo_expect_page(char persistence, UndoRecPtr urp)
{
	const RecentPage *recent;
	const char *page;

	if (persistence == RELPERSISTENCE_TEMP)
		return;
	recent = recent_page(persistence, UndoRecPtrGetLog(urp),
						 UndoRecPtrGetBlock(urp));
	if (!BufferIsValid(recent->buffer) ||
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
undo_log_used_blocks(char persistence, UndoLogNumber log)
{
	if (persistence == RELPERSISTENCE_TEMP)
		return undo_temp_log.nblocks;
	if (pg_atomic_read_u32(&UndoShmem->state) == UNDO_PRIMARY)
	{
		if (log >= (UndoLogNumber) UndoShmem->maxlogs)
			return 0;
		return pg_atomic_read_u32(&undo_log_get(persistence, log)->used_blocks);
	}
	else
	{
		SMgrRelation smgr = smgropen(undo_log_locator(persistence, log),
									 InvalidBackendId);

		return smgrexists(smgr, MAIN_FORKNUM) ?
			smgrnblocks(smgr, MAIN_FORKNUM) : 0;
	}
}

Buffer
undo_read_control(RelFileLocator locator, uint32 magic, bool permanent)
{
	SMgrRelation smgr = smgropen(locator, InvalidBackendId);
	Buffer		buffer;
	Page		page;
	const char *problem;

	if (!smgrexists(smgr, MAIN_FORKNUM) || smgrnblocks(smgr, MAIN_FORKNUM) == 0)
		return InvalidBuffer;
	buffer = undo_read_block(locator, 0, RBM_NORMAL, permanent);
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
						RelLocatorDb(locator), RelLocatorNumber(locator), problem)));
	}
	return buffer;
}

Buffer
undo_make_control(RelFileLocator locator, bool permanent)
{
	SMgrRelation smgr = smgropen(locator, InvalidBackendId);

	if (!smgrexists(smgr, MAIN_FORKNUM))
	{
		smgrcreate(smgr, MAIN_FORKNUM, false);
		if (permanent)
			log_smgrcreate(&locator, MAIN_FORKNUM);
	}
	return undo_read_block(locator,
						   smgrnblocks(smgr, MAIN_FORKNUM) == 0 ? P_NEW : 0,
					  RBM_ZERO_AND_LOCK, permanent);
}

void
undo_make_init_fork(RelFileLocator locator)
{
	SMgrRelation smgr = smgropen(locator, InvalidBackendId);
	PGAlignedBlock page;

	if (smgrexists(smgr, INIT_FORKNUM))
		return;
	smgrcreate(smgr, INIT_FORKNUM, false);
	log_smgrcreate(&locator, INIT_FORKNUM);
	undo_control_init(page.data);
	log_newpage(&locator, INIT_FORKNUM, 0, page.data, true);
	PageSetChecksumInplace(page.data, 0);
	smgrextend(smgr, INIT_FORKNUM, 0, page.data, true);
	smgrimmedsync(smgr, INIT_FORKNUM);
}
