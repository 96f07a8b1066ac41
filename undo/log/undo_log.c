/*-------------------------------------------------------------------------
 *
 * undo_log.c
 *	  Undo logs and their writers: attach and detach, page switch and its WAL
 *	  record.
 *
 * What is written into a page is undo_page.c's and undo_insert.c's affair; how a
 * log gets rid of pages is undo_log_trim.c's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xloginsert.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/latch.h"
#include "storage/smgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "undo/log/undo_fake.h"
#include "undo/log/undo_files.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_log_load.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/log/undo_xlog.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* blocks by which a log's file grows at least and at most */
#define UNDO_EXTEND_MIN		UNDO_KNOB("extend-min", 8, 1, 8)
#define UNDO_EXTEND_MAX		UNDO_KNOB("extend-max", 64, 1, 64)

/* blocks that are extended by in one go */
#define UNDO_EXTEND_STEP	16

int			undo_log_rest_size = 4096;
int			undo_max_size = -1;
int			undo_xact_limit = -1;

bool		undo_room_wanted = false;

/* log last used by this backend, by persistence (0 permanent, 1 unlogged) */
static UndoLogNumber last_log[2];

/* buffer of a control page last used; a hint for ReadRecentBuffer */
static Buffer recent_control = InvalidBuffer;

/* Something for the launcher to do.  Never throws; needs nothing held. */
void
undo_log_wake_launcher(void)
{
	struct Latch *latch;

	if (UndoShmem == NULL || !IsUnderPostmaster)
		return;
	latch = UndoShmem->launcher_latch;
	if (latch != NULL)
		SetLatch(latch);
}

/* ----------------------------------------------------------------
 *	attach, detach
 * ----------------------------------------------------------------
 */

/*
 * Make an ABSENT log valid on disk.  Caller holds the LWLock.  On error the
 * log stays ABSENT.  Lock order: global page, control page.
 */
static void
create_log(char persistence, UndoLogNumber number)
{
	bool		permanent = persistence == RELPERSISTENCE_PERMANENT;
	RelFileLocator locator = undo_file_of_log(persistence, number);
	UndoLogShared *log = undo_shmem_log(persistence, number);
	Buffer global;
	Buffer		control;
	UndoGlobalData *data;
	xl_undo_control xlrec = {0};
	XLogRecPtr	lsn;

	Assert(LWLockHeldByMeInMode(UndoShmem->lock, LW_EXCLUSIVE));
	Assert(pg_atomic_read_u32(&log->state) == UNDO_LOG_ABSENT);
	if (!permanent)
		undo_file_make_init_fork(locator);
	global = undo_file_read_control(undo_file_locator(UNDO_GLOBAL_RELNUMBER),
									UNDO_GLOBAL_MAGIC, true);

	if (!BufferIsValid(global))
		elog(ERROR, "global control page of the undo store has vanished");
	LockBuffer(global, BUFFER_LOCK_UNLOCK);
	control = undo_file_make_control(locator, permanent);
	LockBuffer(control, BUFFER_LOCK_UNLOCK);
	LockBuffer(global, BUFFER_LOCK_EXCLUSIVE);
	LockBuffer(control, BUFFER_LOCK_EXCLUSIVE);
	data = UndoPageGetGlobal(BufferGetPage(global));

	START_CRIT_SECTION();
	Assert(number < undo_shmem_creation_limit());
	undo_page_init_control(BufferGetPage(control));
	MarkBufferDirty(control);
	if (permanent)
		data->nlogs = Max(data->nlogs, number + 1);
	else
		data->nunlogged = Max(data->nunlogged, number + 1);
	MarkBufferDirty(global);
	xlrec.nlogs = data->nlogs;
	xlrec.nunlogged = data->nunlogged;
	xlrec.version = UNDO_FORMAT_VERSION;
	XLogBeginInsert();
	XLogRegisterData((char *) &xlrec, SizeOfUndoControl);
	if (permanent)
		XLogRegisterBuffer(0, control, REGBUF_WILL_INIT | REGBUF_STANDARD);
	XLogRegisterBuffer(1, global, REGBUF_STANDARD);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_CONTROL);
	if (permanent)
		PageSetLSN(BufferGetPage(control), lsn);
	PageSetLSN(BufferGetPage(global), lsn);
	pg_atomic_write_u32(&log->tail, InvalidBlockNumber);
	pg_atomic_write_u32(&log->used_blocks, 1);
	pg_atomic_write_u64(&log->head, UndoLogHead(InvalidBlockNumber, 0));
	pg_atomic_write_u64(&log->seq, 0);
	END_CRIT_SECTION();

	UnlockReleaseBuffer(control);
	UnlockReleaseBuffer(global);
}

/* For views: the log is ours, and all that is written from now on. */
static void
note_owner(UndoLogShared *log)
{
	Assert(pg_atomic_read_u32(&log->owner_pid) == 0);
	log->bytes_at_attach = pg_atomic_read_u64(&log->bytes_written);
	log->records_at_attach = pg_atomic_read_u64(&log->records);
	log->tables = 0;
	pg_atomic_write_u32(&log->owner_pid, MyProcPid);
}

/* Take a log that is in this state, FREE or RESTING. */
static bool
try_attach(char persistence, UndoLogNumber number, uint32 from)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);
	uint32		expected = from;

	Assert(from == UNDO_LOG_FREE || from == UNDO_LOG_RESTING);
	if (pg_atomic_read_u32(&log->state) != from ||
		!pg_atomic_compare_exchange_u32(&log->state, &expected,
										UNDO_LOG_ATTACHED))
		return false;
	note_owner(log);
	UNDO_POINT("attached");
	return true;
}

/*
 * Take over a log that doesn't exist yet.  If there are as many as there may
 * be, a resting one has to serve again: under an old snapshot all logs rest
 * and none can drain, which must make them grow and not stop the writers.
 * The launcher takes a log from RESTING to BUSY before it resets it, so one
 * that is attached here is left alone; it rests again when it is detached.
 */
static UndoLogNumber
attach_new(char persistence)
{
	pg_atomic_uint32 *count = persistence == RELPERSISTENCE_PERMANENT ?
		&UndoShmem->nlogs : &UndoShmem->nunlogged;

	Assert(CritSectionCount == 0 && !LWLockHeldByMe(UndoShmem->lock));
	LWLockAcquire(UndoShmem->lock, LW_EXCLUSIVE);
	for (UndoLogNumber i = 0; i < undo_shmem_creation_limit(); i++)
	{
		UndoLogShared *log = undo_shmem_log(persistence, i);

		if (pg_atomic_read_u32(&log->state) != UNDO_LOG_ABSENT)
			continue;
		create_log(persistence, i);
		UNDO_POINT("log-created");
		note_owner(log);
		pg_atomic_write_u32(&log->state, UNDO_LOG_ATTACHED);
		if (pg_atomic_read_u32(count) < i + 1)
			pg_atomic_write_u32(count, i + 1);
		LWLockRelease(UndoShmem->lock);
		return i;
	}
	LWLockRelease(UndoShmem->lock);
	for (int i = 0; i < undo_shmem_log_count(persistence); i++)
		if (try_attach(persistence, i, UNDO_LOG_FREE) ||
			try_attach(persistence, i, UNDO_LOG_RESTING))
			return i;
	ereport(ERROR,
			(errcode(ERRCODE_CONFIGURATION_LIMIT_EXCEEDED),
			 errmsg("all %d undo logs are in use or retired",
					undo_shmem_log_count(persistence)),
			 errhint("Look for damaged undo in the server log, or restart the server.")));
	return 0;					/* keep compiler quiet */
}

/* the session's temporary log: files of its own in its own database */
static void
attach_temp(void)
{
	if (undo_temp_log.rel == NULL)
	{
		RelFileLocator locator;
		MemoryContext old;
		Relation	rel;
		SMgrRelation smgr;

		locator.spcOid = MyDatabaseTableSpace;
		locator.dbOid = MyDatabaseId;
		locator.relNumber = UNDO_TEMP_RELNUMBER;
		/* a file of an earlier session with this backend id is worthless */
		smgr = smgropen(locator, MyProcNumber);
		if (smgrexists(smgr, MAIN_FORKNUM))
			smgrdounlinkall(&smgr, 1, false);
		smgrcreate(smgropen(locator, MyProcNumber), MAIN_FORKNUM, false);

		/* only now is it ours: what failed above is tried again next time */
		old = MemoryContextSwitchTo(TopMemoryContext);
		rel = undo_fake_relation(locator, RELPERSISTENCE_TEMP,
								 UNDO_TEMP_RELNUMBER);
		MemoryContextSwitchTo(old);
		undo_temp_log.nblocks = 0;
		undo_temp_log.tail = 0;
		undo_temp_log.seq = 0;
		undo_temp_log.rel = rel;
	}
}

/*
 * Top transaction "top" begins to write temporary undo.  Unless it is to be kept,
 * all that there is is forgotten: none of it can be asked for again, but by a
 * snapshot of another session, which undo_log_temp_writer() is there to refuse.
 */
void
undo_log_begin_temp(Fxid top, bool keep)
{
	Assert(undo_temp_log.rel != NULL);
	Assert(top > undo_temp_log.writer && top >= undo_temp_log.horizon);
	undo_temp_log.writer_before = undo_temp_log.writer;
	undo_temp_log.writer = top;
	if (keep)
		return;
	undo_temp_log.tail = 0;
	undo_temp_log.horizon = top;
}

/* Remove the session's temporary undo file; at session end. */
void
undo_log_drop_temp(void)
{
	if (undo_temp_log.rel != NULL)
	{
		SMgrRelation smgr = RelationGetSmgr(undo_temp_log.rel);

		smgrdounlinkall(&smgr, 1, false);
		undo_temp_log.rel = NULL;
	}
}

UndoLogNumber
undo_log_attach(char persistence)
{
	int			which = persistence == RELPERSISTENCE_PERMANENT ? 0 : 1;

	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	if (persistence == RELPERSISTENCE_TEMP)
	{
		attach_temp();
		return UNDO_TEMP_LOG;
	}
	/* not loaded, every log looks as if it had yet to be made (U10) */
	if (unlikely(pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY))
		undo_log_startup();
	if (unlikely(pg_atomic_read_u32(&UndoShmem->state) != UNDO_PRIMARY))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot write to zheap tables of a new cluster while pg_upgrade runs")));
	if (try_attach(persistence, last_log[which], UNDO_LOG_FREE))
		return last_log[which];
	for (int i = 0; i < undo_shmem_log_count(persistence); i++)
	{
		if (try_attach(persistence, i, UNDO_LOG_FREE))
			return last_log[which] = i;
	}
	return last_log[which] = attach_new(persistence);
}

void
undo_log_detach(char persistence, UndoLogNumber number)
{
	UndoLogShared *log;

	if (persistence == RELPERSISTENCE_TEMP)
		return;
	log = undo_shmem_log(persistence, number);
	Assert(pg_atomic_read_u32(&log->owner_pid) == MyProcPid);
	pg_atomic_write_u32(&log->owner_pid, 0);
	UNDO_POINT("detaching");
	pg_write_barrier();
	if (pg_atomic_read_u32(&log->state) == UNDO_LOG_ATTACHED)
		pg_atomic_write_u32(&log->state, UNDO_LOG_FREE);
}

/* ----------------------------------------------------------------
 *	page switch
 * ----------------------------------------------------------------
 */

/* Make sure that block exists in the file; ERROR 53100 when the disk is full. */
static void
extend_to(RelFileLocator locator, BlockNumber block, bool permanent)
{
	SMgrRelation smgr = smgropen(locator, INVALID_PROC_NUMBER);
	BlockNumber nblocks = smgrnblocks(smgr, MAIN_FORKNUM);
	BlockNumber want;

	Assert(CritSectionCount == 0 && block != 0);
	if (block < nblocks)
		return;
	UNDO_ROOM_POINT("undo-extends");
	want = block + Min(Max(nblocks / 8, UNDO_EXTEND_MIN), UNDO_EXTEND_MAX);
	while (nblocks < want)
	{
		Buffer		buffers[UNDO_EXTEND_STEP];
		uint32		n;

		nblocks = ExtendBufferedRelBy(BMR_SMGR(smgr, permanent ?
											   RELPERSISTENCE_PERMANENT :
											   RELPERSISTENCE_UNLOGGED),
									  MAIN_FORKNUM, NULL,
									  EB_SKIP_EXTENSION_LOCK,
									  Min(want - nblocks, UNDO_EXTEND_STEP),
									  buffers, &n);
		Assert(n > 0 && n <= UNDO_EXTEND_STEP);
		for (uint32 i = 0; i < n; i++)
			ReleaseBuffer(buffers[i]);
		nblocks += n;
	}
}

/*
 * Sequence number of the oldest page that isn't discarded.  ERROR if that
 * can't be read: nothing can be told from it then.
 */
static uint64
head_seq(char persistence, UndoLogNumber number, BlockNumber head)
{
	Buffer		buffer = undo_file_read_log(persistence, number, head);
	Page		page = BufferGetPage(buffer);
	const char *problem;
	uint64		seq = 0;

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	problem = undo_page_problem(page, UNDO_PAGE_MAGIC);
	if (problem == NULL)
		seq = UndoPageGetOpaque(page)->seq;
	UnlockReleaseBuffer(buffer);
	if (problem != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("undo log %u, block %u: %s", number, head, problem)));
	return seq;
}

/*
 * May this page, which isn't the tail, be written anew?  Its sequence number
 * must be lower than the head's: links and the number of blocks in use come
 * from disk and may lead to a page that is still needed.  Without a head what
 * is left of the time before a RESET is below H (U4).
 */
static bool
page_is_spare(Page page, char persistence, UndoLogNumber number)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);
	BlockNumber head = UndoLogHeadBlock(pg_atomic_read_u64(&log->head));

	if (undo_page_problem(page, UNDO_PAGE_MAGIC) != NULL)
		return PageIsNew(page);
	if (head == InvalidBlockNumber)
		return UndoPageGetOpaque(page)->max_fxid <
			undo_log_horizons().discard_before;
	return UndoPageGetOpaque(page)->seq < head_seq(persistence, number, head);
}

/* Copy a page of the log; true if it may be written anew. */
static bool
copy_spare_page(char persistence, UndoLogNumber number, BlockNumber block,
				Page copy)
{
	Buffer		buffer = undo_file_read_log(persistence, number, block);

	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	memcpy(copy, BufferGetPage(buffer), BLCKSZ);
	UnlockReleaseBuffer(buffer);
	return page_is_spare(copy, persistence, number);
}

static void
report_page_in_use(UndoLogNumber number, BlockNumber block)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("undo log %u: block %u is to be written, but is in use",
					number, block),
			 errdetail("The log's control page or a page of it is damaged.")));
}

/*
 * The page after the tail, if it was discarded: then it is the one to write
 * next and *after is its own successor.  Invalid: splice a new page in.
 */
static BlockNumber
recyclable_page(char persistence, UndoLogNumber number, BlockNumber tail,
				BlockNumber *after)
{
	UndoLogShared *log = undo_shmem_log(persistence, number);
	uint64		head = pg_atomic_read_u64(&log->head);
	BlockNumber next;
	Buffer		buffer;
	PGAlignedBlock page;

	Assert(BlockNumberIsValid(tail) && tail != 0);
	buffer = undo_file_read_log(persistence, number, tail);
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	next = UndoPageGetOpaque(BufferGetPage(buffer))->next;
	UnlockReleaseBuffer(buffer);
	UNDO_POINT("switch-tail-read");
	*after = next;				/* successor of a page spliced in */
	if (next == 0 || next == tail || next == UndoLogHeadBlock(head) ||
		next >= pg_atomic_read_u32(&log->used_blocks) ||
		!copy_spare_page(persistence, number, next, page.data) ||
		PageIsNew(page.data))
		return InvalidBlockNumber;
	*after = UndoPageGetOpaque(page.data)->next;
	return next;
}

static Buffer
switch_temp(void)
{
	BlockNumber block = undo_temp_log.tail + 1;
	Buffer		buffer;

	Assert(undo_temp_log.rel != NULL);
	while (undo_temp_log.nblocks <= block)
	{
		buffer = ReadBuffer(undo_temp_log.rel, P_NEW);
		undo_temp_log.nblocks = BufferGetBlockNumber(buffer) + 1;
		ReleaseBuffer(buffer);
	}
	buffer = ReadBufferExtended(undo_temp_log.rel, MAIN_FORKNUM, block,
								RBM_ZERO_AND_LOCK, NULL);
	undo_page_init(BufferGetPage(buffer), InvalidBlockNumber,
				   ++undo_temp_log.seq);
	MarkBufferDirty(buffer);
	undo_temp_log.tail = block;
	Assert(block < undo_temp_log.nblocks);
	return buffer;
}

/* pin a log's control page, cheaply when it is still where it was */
static Buffer
pin_control(char persistence, UndoLogNumber number)
{
	RelFileLocator locator = undo_file_of_log(persistence, number);

	Assert(persistence != RELPERSISTENCE_TEMP);
	if (BufferIsValid(recent_control) &&
		ReadRecentBuffer(locator, MAIN_FORKNUM, 0, recent_control))
		return recent_control;
	return recent_control = undo_file_read_log(persistence, number, 0);
}

/*
 * One page more is kept.  The sum is what the launcher's last pass counted
 * and the switches since: good enough to tell whether it is worth counting.
 * What the transaction has written is looked at after each page.
 */
static void
note_growth(void)
{
	uint64		npages = pg_atomic_add_fetch_u64(&UndoShmem->retained, 1);

	if (undo_xact_limit >= 0 ||
		(undo_max_size >= 0 &&
		 npages * (BLCKSZ / 1024) > (uint64) undo_max_size))
		undo_room_wanted = true;
}

/* a page switch on its way: pages are pinned first, then locked */
typedef struct PageSwitch
{
	char		persistence;
	UndoLogNumber number;
	UndoLogShared *log;
	BlockNumber tail;			/* Invalid: the log has no page yet */
	BlockNumber block;			/* of the tail to be */
	Buffer		newbuf;
	Buffer		oldbuf;			/* the tail, if its link changes */
	Buffer		ctlbuf;
	xl_undo_switch rec;
} PageSwitch;

/* find a page that was discarded, or extend the file, and pin everything */
static void
switch_prepare(PageSwitch *s)
{
	UndoLogShared *log = s->log;
	RelFileLocator locator = undo_file_of_log(s->persistence, s->number);
	bool		permanent = s->persistence == RELPERSISTENCE_PERMANENT;
	bool		splice = false;
	BlockNumber after = InvalidBlockNumber;
	PGAlignedBlock spare;

	Assert(pg_atomic_read_u32(&log->state) == UNDO_LOG_ATTACHED);
	Assert(pg_atomic_read_u32(&log->owner_pid) == MyProcPid);
	s->tail = pg_atomic_read_u32(&log->tail);
	s->block = s->tail == InvalidBlockNumber ? InvalidBlockNumber :
		recyclable_page(s->persistence, s->number, s->tail, &after);
	if (s->block == InvalidBlockNumber)
	{
		splice = true;
		s->block = pg_atomic_read_u32(&log->used_blocks);
		if (s->tail == InvalidBlockNumber)
			after = s->block;	/* a ring of one */
		if (s->block == 0)
			report_page_in_use(s->number, s->block);
		extend_to(locator, s->block, permanent);
		if (!copy_spare_page(s->persistence, s->number, s->block, spare.data))
			report_page_in_use(s->number, s->block);
	}
	if (s->block == s->tail || after == 0)
		report_page_in_use(s->number, s->block);
	s->newbuf = undo_file_read_log(s->persistence, s->number, s->block);
	s->oldbuf = InvalidBuffer;
	if (splice && s->tail != InvalidBlockNumber)
		s->oldbuf = undo_file_read_log(s->persistence, s->number, s->tail);
	s->ctlbuf = pin_control(s->persistence, s->number);
	s->rec.seq = pg_atomic_read_u64(&log->seq) + 1;
	s->rec.next = after;
	s->rec.used_blocks = Max(pg_atomic_read_u32(&log->used_blocks),
							 s->block + 1);
	s->rec.first = s->tail == InvalidBlockNumber;
}

/* the pages, all locked, in the critical section */
static void
switch_apply(const PageSwitch *s, UndoControlData *control)
{
	undo_page_init(BufferGetPage(s->newbuf), s->rec.next, s->rec.seq);
	MarkBufferDirty(s->newbuf);
	if (BufferIsValid(s->oldbuf))
	{
		UndoPageGetOpaque(BufferGetPage(s->oldbuf))->next = s->block;
		MarkBufferDirty(s->oldbuf);
	}
	control->tail = s->block;
	control->seq = s->rec.seq;
	control->used_blocks = s->rec.used_blocks;
	if (s->rec.first)
	{
		control->head = s->block;
		control->head_offset = UNDO_FIRST_OFFSET;
	}
	MarkBufferDirty(s->ctlbuf);
}

static void
switch_log(const PageSwitch *s)
{
	XLogRecPtr	lsn;

	XLogBeginInsert();
	XLogRegisterData((char *) &s->rec, SizeOfUndoSwitch);
	XLogRegisterBuffer(0, s->newbuf, REGBUF_WILL_INIT | REGBUF_STANDARD);
	XLogRegisterBuffer(1, s->ctlbuf, REGBUF_STANDARD);
	if (BufferIsValid(s->oldbuf))
		XLogRegisterBuffer(2, s->oldbuf, REGBUF_STANDARD);
	lsn = XLogInsert(ZHEAP_RMGR_ID, XLOG_UNDO_SWITCH);
	PageSetLSN(BufferGetPage(s->newbuf), lsn);
	PageSetLSN(BufferGetPage(s->ctlbuf), lsn);
	if (BufferIsValid(s->oldbuf))
		PageSetLSN(BufferGetPage(s->oldbuf), lsn);
}

Buffer
undo_log_switch(char persistence, UndoLogNumber number)
{
	PageSwitch	s = {.persistence = persistence, .number = number};
	UndoLogShared *log;
	UndoControlData *control;

	Assert(CritSectionCount == 0 && !RecoveryInProgress());
	Assert((number == UNDO_TEMP_LOG) == (persistence == RELPERSISTENCE_TEMP));
	if (persistence == RELPERSISTENCE_TEMP)
		return switch_temp();

	log = s.log = undo_shmem_log(persistence, number);
	switch_prepare(&s);
	UNDO_POINT("switch-extended");

	/* lock, apply, log */
	LockBuffer(s.ctlbuf, BUFFER_LOCK_EXCLUSIVE);
	LockBuffer(s.newbuf, BUFFER_LOCK_EXCLUSIVE);
	if (BufferIsValid(s.oldbuf))
		LockBuffer(s.oldbuf, BUFFER_LOCK_EXCLUSIVE);
	control = UndoPageGetControl(BufferGetPage(s.ctlbuf));

	/* it may have been read again since it was loaded */
	if (control->tail != s.tail || control->seq + 1 != s.rec.seq)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("control page of undo log %u has changed its tail",
						number)));
	Assert(s.rec.used_blocks > s.block);
	START_CRIT_SECTION();
	switch_apply(&s, control);
	if (persistence == RELPERSISTENCE_PERMANENT)
		switch_log(&s);
	UNDO_POINT("switch-logged");

	/* mirrors last (U9) */
	pg_atomic_write_u32(&log->used_blocks, s.rec.used_blocks);
	pg_atomic_write_u64(&log->seq, s.rec.seq);
	if (s.rec.first)
		pg_atomic_write_u64(&log->head,
							UndoLogHead(s.block, UNDO_FIRST_OFFSET));
	pg_atomic_write_u32(&log->tail, s.block);
	END_CRIT_SECTION();

	if (BufferIsValid(s.oldbuf))
		UnlockReleaseBuffer(s.oldbuf);
	UnlockReleaseBuffer(s.ctlbuf);
	note_growth();
	AssertPageExclusive(s.newbuf);
	UNDO_POINT("switch-done");
	return s.newbuf;
}

/* The tail page's block; Invalid (0 for a temporary log) if there is none. */
BlockNumber
undo_log_tail(char persistence, UndoLogNumber number)
{
	if (persistence == RELPERSISTENCE_TEMP)
		return undo_temp_log.tail == 0 ? InvalidBlockNumber :
			undo_temp_log.tail;
	return pg_atomic_read_u32(&undo_shmem_log(persistence, number)->tail);
}
