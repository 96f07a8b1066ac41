/*-------------------------------------------------------------------------
 *
 * undo_xact.c
 *	  What becomes of a transaction's undo when it, or a subtransaction, ends.
 *
 * An abort rolls back a few pages at once.  The rest, and what fails, is left
 * to the workers, which find it by scanning the logs.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#include "undo/log/undo_attach.h"
#include "undo/log/undo_log.h"
#include "undo/log/undo_stat.h"
#include "undo/record/undo_touched.h"
#include "undo/rollback/undo_apply.h"
#include "undo/undo_debug.h"
#include "undo/undo_defs.h"
#include "undo/undo_module.h"

/* Roll back, as far as limits allow, what nest levels from "level" on wrote. */
static void
rollback_levels(int level)
{
	UndoTouched touched;
	int			ntemp = 0;

	if (!undo_touched_take(level, &touched))
		return;
	/* temporary pages to the front: they are done whatever their number */
	for (int i = 0; i < touched.npages; i++)
	{
		UndoTouchedPage page = touched.pages[i];

		if (page.persistence == RELPERSISTENCE_TEMP)
		{
			touched.pages[i] = touched.pages[ntemp];
			touched.pages[ntemp++] = page;
		}
	}
	if (ntemp > 0 &&
		!undo_apply_foreground(touched.pages, ntemp, NULL, 0, true))
		undo_attach_keep_temp();
	if (touched.overflow)
		undo_log_wake_launcher();
	else if (touched.npages > ntemp)
	{
		undo_stat_report_foreground(U64FromFullTransactionId(GetTopFullTransactionIdIfAny()),
									touched.bytes);
		if (undo_apply_foreground(touched.pages + ntemp,
								  touched.npages - ntemp,
								  touched.runs, touched.nruns,
								  !IsUnderPostmaster))
			undo_stat_add(UNDO_COUNT_FOREGROUND, 1);
		undo_stat_report_foreground(InvalidFxid, 0);
	}
	undo_touched_done();
}

/* The logs go back; what was touched is forgotten. */
static void
end_transaction(void)
{
	undo_attach_end();
	undo_touched_forget();
}

static void
xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_ABORT:
			rollback_levels(1);
			UNDO_POINT("abort-done");
			end_transaction();
			break;
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PREPARE:
			end_transaction();
			break;
		default:
			break;				/* parallel workers write no undo */
	}
}

static void
subxact_callback(SubXactEvent event, SubTransactionId mySubid,
				 SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
	{
		rollback_levels(GetCurrentTransactionNestLevel());
		undo_attach_close_runs();
	}
	else if (event == SUBXACT_EVENT_COMMIT_SUB)
		undo_touched_merge(GetCurrentTransactionNestLevel());
}

void
undo_xact_register_callbacks(void)
{
	RegisterXactCallback(xact_callback, NULL);
	RegisterSubXactCallback(subxact_callback, NULL);
}

void
undo_xact_define_settings(void)
{
	DefineCustomIntVariable("zheap.undo_log_rest_size",
							"Size above which an undo log is drained and truncated before it is written again.",
							NULL, &undo_log_rest_size, 4096, 256,
							MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.max_undo_size",
							"Undo above which transactions that want to write more of it fail.",
							"-1 means no limit. Rollback is never refused.",
							&undo_max_size, -1, -1, MAX_KILOBYTES,
							PGC_SIGHUP, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.transaction_undo_limit",
							"Limits the undo that a transaction may write.",
							"-1 means no limit. Undo of temporary tables does not count.",
							&undo_xact_limit, -1, -1, MAX_KILOBYTES,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.rollback_foreground_size",
							"Undo up to which an aborting session rolls back by itself.",
							"Larger transactions are rolled back by background workers.",
							&undo_touched_max_size, 256, 0, MAX_KILOBYTES,
							PGC_SUSET, GUC_UNIT_KB, NULL, NULL, NULL);
}
