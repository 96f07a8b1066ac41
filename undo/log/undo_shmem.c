/*-------------------------------------------------------------------------
 *
 * undo_shmem.c
 *	  The undo store's shared memory: sizes, creation, access.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/twophase.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#include "undo/log/undo_shmem.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/*
 * The arrays have room for more logs than are ever made: a standby takes all
 * logs of its primary, whose settings may be higher, and which makes them
 * while the standby runs.  Room for one takes about 100 bytes.
 */
#define UNDO_LOG_SLACK		64
#define UNDO_LOG_ROOM		16384
#define UNDO_LOG_SPARE		32

/* logs that are made at most (assert builds) */
#define LOGS_AT_MOST		UNDO_KNOB("logs", PG_INT32_MAX, 16, 100)

UndoShared *UndoShmem = NULL;

/* the hook that asks for shared memory was called */
static bool requested = false;

int
undo_shmem_existing_logs(void)
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
	{
		answer = Max(need, undo_shmem_existing_logs()) + UNDO_LOG_SLACK;
		answer = Min(Max(answer, UNDO_LOG_ROOM), (int) UNDO_MAX_LOGS);
	}
	return answer;
}

UndoLogNumber
undo_shmem_creation_limit(void)
{
	Assert(UndoShmem->maxlogs > 0);
	return (UndoLogNumber) Min(Min(MaxBackends + max_prepared_xacts +
								   UNDO_LOG_SPARE, UndoShmem->maxlogs),
							   LOGS_AT_MOST);
}

static Size
shmem_size(int maxlogs)
{
	Assert(maxlogs > 0 && maxlogs <= (int) UNDO_MAX_LOGS);
	return add_size(offsetof(UndoShared, logs),
					mul_size(sizeof(UndoLogShared), mul_size(2, maxlogs)));
}

void
undo_shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size(max_logs()));
	RequestNamedLWLockTranche("zheap_undo", 2);
	requested = true;
}

/* The server runs, but never called one of our two hooks. */
static void
report_hook_not_called(int elevel)
{
	ereport(elevel,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("zheap_am was kept from setting up its shared memory"),
			 errhint("A library that stands behind zheap_am in shared_preload_libraries does not call the hooks of those before it. Put zheap_am last and restart the server.")));
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
	pg_atomic_init_u32(&log->unreadable, InvalidBlockNumber);
	pg_atomic_init_u64(&log->bytes_written, 0);
	pg_atomic_init_u64(&log->records, 0);
}

void
undo_shmem_startup(void)
{
	bool		found;
	int			maxlogs = max_logs();

	if (!requested)
		report_hook_not_called(FATAL);
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	UndoShmem =
		ShmemInitStruct("zheap undo logs", shmem_size(maxlogs), &found);
	if (!found)
	{
		LWLockPadded *locks = GetNamedLWLockTranche("zheap_undo");

		UndoShmem->lock = &locks[0].lock;
		UndoShmem->reading = &locks[1].lock;
		pg_atomic_init_u32(&UndoShmem->state, UNDO_UNINIT);
		pg_atomic_init_u64(&UndoShmem->all_visible_before, 0);
		pg_atomic_init_u64(&UndoShmem->discard_before, 0);
		pg_atomic_init_u32(&UndoShmem->global_exists, 0);
		pg_atomic_init_u32(&UndoShmem->nlogs, 0);
		pg_atomic_init_u32(&UndoShmem->nunlogged, 0);
		UndoShmem->maxlogs = maxlogs;
		UndoShmem->launcher_latch = NULL;
		UndoShmem->launcher_pid = 0;
		pg_atomic_init_u32(&UndoShmem->databases_waiting, 0);
		pg_atomic_init_u64(&UndoShmem->oldest_unapplied, 0);
		pg_atomic_init_u64(&UndoShmem->start_fxid, 0);
		pg_atomic_init_u32(&UndoShmem->copies_done, 0);
		pg_atomic_init_u32(&UndoShmem->surveyed, InvalidOid);
		pg_atomic_init_u64(&UndoShmem->held_before, PG_UINT64_MAX);
		for (int i = 0; i < UNDO_UNREACHABLE_SHOWN; i++)
			pg_atomic_init_u32(&UndoShmem->unreachable[i], InvalidOid);
		pg_atomic_init_u64(&UndoShmem->no_images_before, 0);
		pg_atomic_init_u64(&UndoShmem->passes, 0);
		pg_atomic_init_u32(&UndoShmem->raise_wanted, 0);
		pg_atomic_init_u64(&UndoShmem->retained, 0);
		for (int i = 0; i < 2 * maxlogs; i++)
			init_log(&UndoShmem->logs[i]);
	}
	LWLockRelease(AddinShmemInitLock);
}

void
undo_shmem_require(void)
{
	if (UndoShmem == NULL && requested)
		report_hook_not_called(ERROR);
	if (UndoShmem == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("zheap_am must be loaded via shared_preload_libraries"),
				 errhint("Add zheap_am to shared_preload_libraries and restart the server.")));
}

/* the number of a wait event; names are registered when they are first used */
uint32
undo_wait_event(UndoWait wait)
{
	static const char *const names[] = {
		[UNDO_WAIT_LAUNCHER] = "ZheapUndoLauncherMain",
		[UNDO_WAIT_WORKER] = "ZheapRollbackWorkerMain",
		[UNDO_WAIT_DRAIN] = "ZheapRollbackDrain",
		[UNDO_WAIT_ROOM] = "ZheapUndoRoom",
		[UNDO_WAIT_HORIZON] = "ZheapUndoHorizon"
	};
	static uint32 events[lengthof(names)];

	Assert((int) wait < lengthof(names));
	if (events[wait] == 0)
		events[wait] = WaitEventExtensionNew(names[wait]);
	return events[wait];
}

UndoLogShared *
undo_shmem_log(char persistence, UndoLogNumber log)
{
	Assert(persistence != RELPERSISTENCE_TEMP);
	Assert(log < (UndoLogNumber) UndoShmem->maxlogs);
	return &UndoShmem->logs[persistence == RELPERSISTENCE_PERMANENT ?
							log : UndoShmem->maxlogs + log];
}

int
undo_shmem_log_count(char persistence)
{
	Assert(persistence != RELPERSISTENCE_TEMP);
	return (int) pg_atomic_read_u32(persistence == RELPERSISTENCE_PERMANENT ?
									&UndoShmem->nlogs : &UndoShmem->nunlogged);
}
