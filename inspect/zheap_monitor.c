/*-------------------------------------------------------------------------
 *
 * zheap_monitor.c
 *	  Functions for operators of a server: what holds undo, which transactions
 *	  write it, how rollbacks get on, and waiting until they are done.
 *	  (Looking at pages is zheap_inspect.c's.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "catalog/pg_type.h"
#include "funcapi.h"
#include "storage/proc.h"
#include "storage/procarray.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "undo/log/undo_stat.h"
#include "undo/rollback/undo_worker.h"
#include "zheap/format/zheap_stat.h"
#include "inspect/zheap_inspect.h"

PG_FUNCTION_INFO_V1(pg_stat_get_zheap_undo_holders);
PG_FUNCTION_INFO_V1(pg_zheap_drain_undo);
PG_FUNCTION_INFO_V1(pg_stat_get_zheap_xacts);
PG_FUNCTION_INFO_V1(pg_stat_get_zheap_rollbacks);
PG_FUNCTION_INFO_V1(pg_stat_get_zheap_undo_totals);
PG_FUNCTION_INFO_V1(pg_stat_get_zheap_table);
PG_FUNCTION_INFO_V1(pg_zheap_reset_stats);

#define FxidGetDatum(f) \
	FullTransactionIdGetDatum(FullTransactionIdFromU64(f))

static void
refuse_in_recovery(void)
{
	if (RecoveryInProgress())
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("recovery is in progress"),
				 errhint("Undo is discarded and applied by the primary.")));
}

/* rows of pg_stat_zheap_undo_holders, not yet joined with pg_stat_activity */
Datum
pg_stat_get_zheap_undo_holders(PG_FUNCTION_ARGS)
{
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	ListCell   *lc;

	undo_shmem_require();
	refuse_in_recovery();
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, undo_holders())
	{
		UndoHolder *holder = lfirst(lc);
		Datum		values[8];
		bool		nulls[8] = {false};

		values[0] = CStringGetTextDatum(undo_holders_kind_name(holder->kind));
		values[1] = Int32GetDatum(holder->pid);
		nulls[1] = holder->pid == 0;
		nulls[2] = holder->name == NULL;
		if (!nulls[2])
			values[2] = CStringGetTextDatum(holder->name);
		values[3] = FxidGetDatum(holder->oldest);
		values[4] = Int64GetDatum((int64) (next - holder->oldest));
		values[5] = Int64GetDatum((int64) holder->bytes);
		values[6] = Int64GetDatum((int64) holder->held_bytes);
		values[7] = BoolGetDatum(holder->is_writer);
		zheap_inspect_put_row(fcinfo, values, nulls);
	}
	return (Datum) 0;
}

/* true: nothing is left to roll back, in no database */
Datum
pg_zheap_drain_undo(PG_FUNCTION_ARGS)
{
	Interval   *timeout = PG_GETARG_INTERVAL_P(0);
	int64		ms;

	undo_shmem_require();
	refuse_in_recovery();
	if (timeout->month != 0 || timeout->day < 0 || timeout->time < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("timeout must be a positive interval without months")));
	ms = timeout->day * (int64) (USECS_PER_DAY / 1000) + timeout->time / 1000;
	PG_RETURN_BOOL(undo_drain(ms));
}

/* ----------------------------------------------------------------
 *	running transactions
 * ----------------------------------------------------------------
 */

/* what one process has written, in the logs that it has attached */
typedef struct XactRow
{
	int			pid;
	uint64		bytes;
	uint64		records;
	uint32		tables;
} XactRow;

static void
add_log_of_xact(XactRow *rows, int *n, UndoLogShared *log)
{
	int			pid = (int) pg_atomic_read_u32(&log->owner_pid);
	XactRow    *row = NULL;
	uint64		bytes;
	uint64		records;

	if (pid == 0 || pg_atomic_read_u32(&log->state) != UNDO_LOG_ATTACHED)
		return;
	for (int i = 0; i < *n && row == NULL; i++)
		if (rows[i].pid == pid)
			row = &rows[i];
	if (row == NULL)
	{
		row = &rows[(*n)++];
		memset(row, 0, sizeof(*row));
		row->pid = pid;
	}
	/* in this order: the log may be attached by another one meanwhile */
	bytes = log->bytes_at_attach;
	records = log->records_at_attach;
	pg_read_barrier();
	row->bytes += pg_atomic_read_u64(&log->bytes_written) - bytes;
	row->records += pg_atomic_read_u64(&log->records) - records;
	row->tables += log->tables;
}

static void
put_xact(FunctionCallInfo fcinfo, const XactRow *row)
{
	PGPROC	   *proc = BackendPidGetProc(row->pid);
	TransactionId xid = proc == NULL ? InvalidTransactionId : proc->xid;
	Datum		values[7];
	bool		nulls[7] = {false};

	if (!TransactionIdIsNormal(xid))
		return;					/* it has ended meanwhile */
	values[0] = Int32GetDatum(row->pid);
	values[1] = FxidGetDatum(undo_log_fxid_from_xid(xid));
	values[2] = Int64GetDatum((int64) row->bytes);
	values[3] = Int64GetDatum((int64) row->records);
	values[4] = Int32GetDatum((int32) row->tables);
	values[5] = Int32GetDatum(proc->subxidStatus.count);
	values[6] = BoolGetDatum(proc->subxidStatus.overflowed);
	zheap_inspect_put_row(fcinfo, values, nulls);
}

/* rows of pg_stat_zheap_xacts, not yet joined with pg_stat_activity */
Datum
pg_stat_get_zheap_xacts(PG_FUNCTION_ARGS)
{
	int			nlogs;
	int			nunlogged;
	XactRow    *rows;
	int			n = 0;

	undo_shmem_require();
	InitMaterializedSRF(fcinfo, 0);
	nlogs = undo_shmem_log_count(RELPERSISTENCE_PERMANENT);
	nunlogged = undo_shmem_log_count(RELPERSISTENCE_UNLOGGED);
	rows = palloc(sizeof(XactRow) * (nlogs + nunlogged + 1));
	for (int i = 0; i < nlogs; i++)
		add_log_of_xact(rows, &n, undo_shmem_log(RELPERSISTENCE_PERMANENT, i));
	for (int i = 0; i < nunlogged; i++)
		add_log_of_xact(rows, &n, undo_shmem_log(RELPERSISTENCE_UNLOGGED, i));
	for (int i = 0; i < n; i++)
		put_xact(fcinfo, &rows[i]);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 *	rollbacks
 * ----------------------------------------------------------------
 */

static const char *
rollback_phase(const UndoRollbackStat *stat, bool alive)
{
	if (stat->state == UNDO_ROLLBACK_FOREGROUND)
		return "rolling back in the session";
	if (undo_rollback_paused)
		return "paused";
	switch (stat->state)
	{
		case UNDO_ROLLBACK_LOCKED_OUT:
			return "waiting for table lock";
		case UNDO_ROLLBACK_HELD:
			return "waiting for another database";
		case UNDO_ROLLBACK_FAILED:
			return "waiting to retry";
		case UNDO_ROLLBACK_RUNNING:
			if (alive)
				return "rolling back";
			break;
		default:
			break;
	}
	return "waiting for worker";
}

static void
put_rollback(FunctionCallInfo fcinfo, const UndoRollbackStat *stat)
{
	bool		alive = stat->pid != 0 && BackendPidGetProc(stat->pid) != NULL;
	Datum		values[12];
	bool		nulls[12] = {false};

	values[0] = Int32GetDatum(stat->pid);
	nulls[0] = !alive;
	values[1] = ObjectIdGetDatum(stat->dboid);
	nulls[1] = !OidIsValid(stat->dboid);
	values[2] = FxidGetDatum(stat->fxid);
	values[3] = CStringGetTextDatum(rollback_phase(stat, alive));
	values[4] = ObjectIdGetDatum(stat->reloid);
	nulls[4] = !OidIsValid(stat->reloid);
	values[5] = Int64GetDatum((int64) (stat->pages_total * BLCKSZ));
	values[6] = Int64GetDatum((int64) ((stat->pages_total - stat->pages_left) *
									   BLCKSZ));
	values[7] = Int64GetDatum((int64) stat->table_pages);
	values[8] = Int32GetDatum(stat->tries);
	nulls[9] = nulls[10] = stat->tries == 0;
	if (stat->tries > 0)
	{
		values[9] = CStringGetTextDatum(stat->error);
		values[10] = TimestampTzGetDatum(stat->failed_at);
	}
	values[11] = TimestampTzGetDatum(stat->started);
	zheap_inspect_put_row(fcinfo, values, nulls);
}

/* rows of pg_stat_progress_zheap_rollback */
Datum
pg_stat_get_zheap_rollbacks(PG_FUNCTION_ARGS)
{
	UndoStatSummary *summary;

	undo_shmem_require();
	refuse_in_recovery();
	InitMaterializedSRF(fcinfo, 0);
	summary = undo_stat_summary();
	for (int i = 0; i < summary->nrollbacks; i++)
		put_rollback(fcinfo, &summary->rollbacks[i]);
	return (Datum) 0;
}

/* ----------------------------------------------------------------
 *	totals
 * ----------------------------------------------------------------
 */

static Datum
kept_by_array(uint32 kept_by)
{
	Datum		names[3];
	int			n = 0;

	if (kept_by & UNDO_KEPT_BY_HORIZON)
		names[n++] = CStringGetTextDatum("running transactions or snapshots");
	if (kept_by & UNDO_KEPT_BY_ROLLBACK)
		names[n++] = CStringGetTextDatum("pending rollbacks");
	if (kept_by & UNDO_KEPT_UNREADABLE)
		names[n++] = CStringGetTextDatum("unreadable undo");
	return PointerGetDatum(construct_array(names, n, TEXTOID, -1, false,
										   TYPALIGN_INT));
}

Datum
pg_stat_get_zheap_undo_totals(PG_FUNCTION_ARGS)
{
	UndoStatSummary *summary;
	TupleDesc	desc;
	Datum		values[13];
	bool		nulls[13] = {false};
	int			n = 0;

	undo_shmem_require();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	summary = undo_stat_summary();
	values[n++] = Int64GetDatum((int64) undo_stat_total(UNDO_COUNT_RECORDS));
	values[n++] = Int64GetDatum((int64) undo_stat_total(UNDO_COUNT_BYTES));
	values[n++] =
		Int64GetDatum((int64) undo_stat_total(UNDO_COUNT_PAGES_DISCARDED) *
					  BLCKSZ);
	for (UndoCounter c = UNDO_COUNT_FOREGROUND; c <= UNDO_COUNT_VISITOR_PAGES;
		 c++)
		values[n++] = Int64GetDatum((int64) undo_stat_total(c));
	values[n++] = Int64GetDatum((int64) undo_stat_total(UNDO_COUNT_PASSES));
	nulls[n] = nulls[n + 1] = nulls[n + 2] = summary->last_pass == 0;
	values[n++] = TimestampTzGetDatum(summary->last_pass);
	values[n++] = FxidGetDatum(summary->horizon);
	values[n++] = kept_by_array(summary->kept_by);
	values[n++] = TimestampTzGetDatum(undo_stat_reset_time());
	Assert(n <= lengthof(values));
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

/* counters of a table of this database, with all that this backend counted */
Datum
pg_stat_get_zheap_table(PG_FUNCTION_ARGS)
{
	TableStats	stats = {0};
	TupleDesc	desc;
	Datum		values[ZSTAT_COUNTERS + 1];
	bool		nulls[ZSTAT_COUNTERS + 1] = {false};

	undo_shmem_require();
	if (get_call_result_type(fcinfo, NULL, &desc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	(void) table_stats_get(MyDatabaseId, PG_GETARG_OID(0), &stats);
	zheap_stat_add_new(PG_GETARG_OID(0), &stats);
	for (int i = 0; i < ZSTAT_COUNTERS; i++)
		values[i] = Int64GetDatum(stats.sum[i]);
	values[ZSTAT_COUNTERS] = Int64GetDatum(stats.largest);
	PG_RETURN_DATUM(HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(desc),
													  values, nulls)));
}

Datum
pg_zheap_reset_stats(PG_FUNCTION_ARGS)
{
	undo_shmem_require();
	undo_stat_reset();
	zheap_stat_forget_new();
	table_stats_reset();
	PG_RETURN_VOID();
}
