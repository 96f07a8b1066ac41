/*-------------------------------------------------------------------------
 *
 * undo_attach.c
 *	  The undo logs of the running transaction: attached when it first writes
 *	  undo for a persistence, given back when it ends (COMMIT, ABORT and
 *	  PREPARE alike).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/pg_class.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "utils/hsearch.h"
#include "utils/memutils.h"

#include "undo/log/undo_attach.h"
#include "undo/log/undo_files.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_log_trim.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/undo_assert.h"
#include "undo/undo_defs.h"

static AttachedLog logs[3];

static const char persistence_of[3] = {
	RELPERSISTENCE_PERMANENT, RELPERSISTENCE_UNLOGGED, RELPERSISTENCE_TEMP
};

/* temporary undo whose rollback failed keeps the temporary log from restarting */
static bool temp_rollback_failed = false;

AttachedLog *
undo_attach_get(char persistence)
{
	Assert(persistence == RELPERSISTENCE_PERMANENT ||
		   persistence == RELPERSISTENCE_UNLOGGED ||
		   persistence == RELPERSISTENCE_TEMP);
	return &logs[persistence == RELPERSISTENCE_PERMANENT ? 0 :
				 persistence == RELPERSISTENCE_UNLOGGED ? 1 : 2];
}

static void
drop_temp_at_exit(int code, Datum arg)
{
	AbortOutOfAnyTransaction();
	undo_log_drop_temp();
}

AttachedLog *
undo_attach(char persistence)
{
	AttachedLog *att = undo_attach_get(persistence);

	Assert(!IsParallelWorker() && !RecoveryInProgress());
	Assert(CritSectionCount == 0);
	if (!att->attached)
	{
		att->log = undo_log_attach(persistence);
		if (persistence == RELPERSISTENCE_TEMP)
		{
			static bool registered = false;

			/* the file goes after the last abort had its use of it (U23) */
			if (!registered)
				before_shmem_exit(drop_temp_at_exit, (Datum) 0);
			registered = true;

			/*
			 * Nothing of an earlier transaction of this session can be asked
			 * for: start over, unless a failed rollback still needs it.
			 */
			undo_log_begin_temp(U64FromFullTransactionId(GetTopFullTransactionId()),
								temp_rollback_failed);
		}
		att->run_fxid = InvalidFxid;
		att->suspect = false;
		att->ntables = 0;
		att->more_tables = NULL;
		att->attached = true;
	}
	Assert((att->log == UNDO_TEMP_LOG) ==
		   (persistence == RELPERSISTENCE_TEMP));
	return att;
}

/*
 * Counts a table once in a transaction.  The first few are in an array, others
 * in a table that goes with the transaction.
 */
void
undo_attach_note_table(AttachedLog *att, char persistence, Oid reloid)
{
	bool		found = false;

	Assert(att->attached && att == undo_attach_get(persistence));
	Assert(att->ntables <= UNDO_ATTACH_TABLES);
	if (persistence == RELPERSISTENCE_TEMP)
		return;
	for (int i = 0; i < att->ntables; i++)
		if (att->tables[i] == reloid)
			return;
	if (att->ntables < UNDO_ATTACH_TABLES)
		att->tables[att->ntables++] = reloid;
	else
	{
		if (att->more_tables == NULL)
		{
			HASHCTL		ctl = {0};

			ctl.keysize = ctl.entrysize = sizeof(Oid);
			ctl.hcxt = TopTransactionContext;
			att->more_tables = hash_create("tables written", 64, &ctl,
										   HASH_ELEM | HASH_BLOBS |
										   HASH_CONTEXT);
		}
		(void) hash_search(att->more_tables, &reloid, HASH_ENTER, &found);
	}
	if (!found)
		undo_shmem_log(persistence, att->log)->tables++;
}

/*
 * An error while a page of the log was wanted: if the log's pages can't be
 * read the log is given up at the end of the transaction, lest it fail every
 * writer that attaches it.  A full disk, memory or a buffer pool that is all
 * pinned is nothing against the log.
 */
static void
suspect_log(AttachedLog *att)
{
	int			code = geterrcode();

	if (code == ERRCODE_DATA_CORRUPTED || code == ERRCODE_IO_ERROR)
		att->suspect = true;
}

/* The page with the number of the tail, pinned. */
static Buffer
pin_tail(AttachedLog *att, char persistence, BlockNumber tail)
{
	Buffer		buffer = InvalidBuffer;

	Assert(att->attached && BlockNumberIsValid(tail));
	if (persistence != RELPERSISTENCE_TEMP && BufferIsValid(att->recent) &&
		ReadRecentBuffer(undo_file_of_log(persistence, att->log),
						 MAIN_FORKNUM, tail, att->recent))
		return att->recent;

	PG_TRY();
	{
		buffer = undo_file_read_log(persistence, att->log, tail);
	}
	PG_CATCH();
	{
		suspect_log(att);
		PG_RE_THROW();
	}
	PG_END_TRY();
	return buffer;
}

Buffer
undo_attach_lock_tail(AttachedLog *att, char persistence, BlockNumber tail)
{
	Buffer		buffer;
	const char *problem;

	Assert(att->attached && tail != 0);
	if (tail == InvalidBlockNumber)
		return InvalidBuffer;
	buffer = pin_tail(att, persistence, tail);
	LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
	problem = undo_page_problem(BufferGetPage(buffer), UNDO_PAGE_MAGIC);
	if (problem != NULL)
	{
		att->suspect = true;
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("page %u of undo log %u is damaged: %s",
						tail, att->log, problem)));
	}
	AssertPageExclusive(buffer);
	att->recent = buffer;
	return buffer;
}

Buffer
undo_attach_switch(AttachedLog *att, char persistence)
{
	Buffer		buffer = InvalidBuffer;

	Assert(att->attached);
	Assert(CritSectionCount == 0);
	PG_TRY();
	{
		buffer = undo_log_switch(persistence, att->log);
	}
	PG_CATCH();
	{
		suspect_log(att);
		PG_RE_THROW();
	}
	PG_END_TRY();
	AssertPageExclusive(buffer);
	return buffer;
}

void
undo_attach_close_runs(void)
{
	for (int i = 0; i < 3; i++)
		logs[i].run_fxid = InvalidFxid;
}

void
undo_attach_keep_temp(void)
{
	temp_rollback_failed = true;
}

void
undo_attach_end(void)
{
	for (int i = 0; i < 3; i++)
	{
		if (!logs[i].attached)
			continue;
		logs[i].attached = false;
		if (logs[i].suspect)
			undo_log_retire(persistence_of[i], logs[i].log);
		else
			undo_log_detach(persistence_of[i], logs[i].log);
	}
}
