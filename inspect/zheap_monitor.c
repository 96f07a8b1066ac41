/*-------------------------------------------------------------------------
 *
 * zheap_monitor.c
 *	  Functions for operators of a server: what holds undo, and waiting until
 *	  rollbacks are done.  (Looking at pages is zheap_inspect.c's.)
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "access/xlog.h"
#include "funcapi.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/xid8.h"

#include "undo/undo.h"
#include "zheap/zheap.h"
#include "inspect/zheap_inspect.h"

PG_FUNCTION_INFO_V1(pg_zheap_undo_holders);
PG_FUNCTION_INFO_V1(pg_zheap_drain_undo);

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
pg_zheap_undo_holders(PG_FUNCTION_ARGS)
{
	Fxid		next = U64FromFullTransactionId(ReadNextFullTransactionId());
	ListCell   *lc;

	undo_shmem_require();
	refuse_in_recovery();
	InitMaterializedSRF(fcinfo, 0);
	foreach(lc, undo_holders())
	{
		UndoHolder *holder = lfirst(lc);
		Datum		values[5];
		bool		nulls[5] = {false};

		values[0] = CStringGetTextDatum(undo_holders_kind_name(holder->kind));
		values[1] = Int32GetDatum(holder->pid);
		nulls[1] = holder->pid == 0;
		nulls[2] = holder->name == NULL;
		if (!nulls[2])
			values[2] = CStringGetTextDatum(holder->name);
		values[3] =
			FullTransactionIdGetDatum(FullTransactionIdFromU64(holder->oldest));
		values[4] = Int64GetDatum((int64) (next - holder->oldest));
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
