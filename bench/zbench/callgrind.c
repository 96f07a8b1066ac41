/*
 * callgrind.c: a session under valgrind says from where to where instructions
 * are counted.  Built and loaded by work_instructions.py.
 */
#include "postgres.h"

#include <valgrind/callgrind.h>

#include "access/xlog.h"
#include "fmgr.h"
#include "utils/builtins.h"

PG_MODULE_MAGIC;

static XLogRecPtr begin;

PG_FUNCTION_INFO_V1(callgrind_on);
PG_FUNCTION_INFO_V1(callgrind_begin);
PG_FUNCTION_INFO_V1(callgrind_end);

/* a little is to be run after this, so that code is translated anew */
Datum
callgrind_on(PG_FUNCTION_ARGS)
{
	CALLGRIND_START_INSTRUMENTATION;
	PG_RETURN_VOID();
}

Datum
callgrind_begin(PG_FUNCTION_ARGS)
{
	begin = GetXLogInsertRecPtr();
	CALLGRIND_ZERO_STATS;
	PG_RETURN_VOID();
}

/* write what was counted, with the name and the bytes of WAL since then */
Datum
callgrind_end(PG_FUNCTION_ARGS)
{
	char		what[200];
	uint64		wal = GetXLogInsertRecPtr() - begin;

	snprintf(what, sizeof(what), "%s wal=%llu",
			 text_to_cstring(PG_GETARG_TEXT_PP(0)), (unsigned long long) wal);
	CALLGRIND_DUMP_STATS_AT(what);
	CALLGRIND_STOP_INSTRUMENTATION;
	PG_RETURN_VOID();
}
