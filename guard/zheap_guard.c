/*-------------------------------------------------------------------------
 *
 * zheap_guard.c
 *	  Keeps the few contrib functions that take any page for one of heap's
 *	  away from ours: they would print or report nonsense.
 *
 * pageinspect's heap_page_items() is given bytes, pg_visibility's
 * pg_check_visible() and pg_check_frozen() ask only for the kind of relation.
 * (What else in contrib reads heap pages looks for the access method itself.)
 * The function manager's hook lets us stand before them: a guard looks at the
 * argument and refuses, or calls the function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "storage/bufpage.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "guard/zheap_guard.h"
#include "zheap/zheap.h"

typedef struct GuardedFunction
{
	const char *library;		/* end of the name of its library */
	const char *symbol;
	bool		takes_page;		/* bytes of a page, else a table's OID */
	const char *instead;
	PGFunction	original;		/* known once it was called */
} GuardedFunction;

static GuardedFunction guarded[] = {
	{"pageinspect", "heap_page_items", true, "zheap_page_items", NULL},
	{"pg_visibility", "pg_check_visible", false, "zheap_check", NULL},
	{"pg_visibility", "pg_check_frozen", false, "zheap_check", NULL}
};

static needs_fmgr_hook_type prev_needs_fmgr_hook = NULL;
static fmgr_hook_type prev_fmgr_hook = NULL;

static bool
ends_with(const char *s, const char *end)
{
	size_t		n = strlen(s);
	size_t		m = strlen(end);

	return n >= m && strcmp(s + n - m, end) == 0;
}

/* the entry of a function, or NULL; asked whenever a function is looked up */
static GuardedFunction *
guarded_function(Oid function)
{
	GuardedFunction *found = NULL;
	HeapTuple	tuple;

	if (function < FirstNormalObjectId)
		return NULL;
	tuple = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	if (!HeapTupleIsValid(tuple))
		return NULL;

	if (((Form_pg_proc) GETSTRUCT(tuple))->prolang == ClanguageId)
	{
		bool		isnull;
		char	   *symbol = TextDatumGetCString(
												 SysCacheGetAttr(PROCOID,
																 tuple,
																 Anum_pg_proc_prosrc, &isnull));

		for (int i = 0; i < lengthof(guarded) && found == NULL; i++)
		{
			Datum		library;

			if (strcmp(symbol, guarded[i].symbol) != 0)
				continue;
			library = SysCacheGetAttr(PROCOID, tuple, Anum_pg_proc_probin,
									  &isnull);
			if (!isnull && ends_with(TextDatumGetCString(library),
									 guarded[i].library))
				found = &guarded[i];
		}
		pfree(symbol);
	}
	ReleaseSysCache(tuple);
	return found;
}

/* is the argument a page, or a table, of ours */
static bool
argument_is_ours(const GuardedFunction *g, FunctionCallInfo fcinfo)
{
	PGAlignedBlock block;
	bytea	   *raw;
	HeapTuple	tuple;
	bool		ours = false;

	if (PG_NARGS() < 1 || PG_ARGISNULL(0))
		return false;
	if (g->takes_page)
	{
		raw = PG_GETARG_BYTEA_PP(0);
		if (VARSIZE_ANY_EXHDR(raw) != BLCKSZ)
			return false;
		memcpy(block.data, VARDATA_ANY(raw), BLCKSZ);
		return zheap_page_is_valid((Page) block.data);
	}

	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(PG_GETARG_OID(0)));
	if (HeapTupleIsValid(tuple))
	{
		char	   *am =
			get_am_name(((Form_pg_class) GETSTRUCT(tuple))->relam);

		ours = am != NULL && strcmp(am, "zheap") == 0;
		ReleaseSysCache(tuple);
	}
	return ours;
}

/* called in place of the function */
static Datum
guard(PG_FUNCTION_ARGS)
{
	GuardedFunction *g = guarded_function(fcinfo->flinfo->fn_oid);

	if (g == NULL || g->original == NULL)
		elog(ERROR, "function %u has no guard", fcinfo->flinfo->fn_oid);
	if (argument_is_ours(g, fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 g->takes_page ?
				 errmsg("function %s cannot read a page of access method zheap",
						g->symbol) :
				 errmsg("function %s cannot read table \"%s\" of access method zheap",
						g->symbol, get_rel_name(PG_GETARG_OID(0))),
				 errhint("Use function %s.", g->instead)));
	return g->original(fcinfo);
}

static bool
guard_is_needed(Oid function)
{
	if (prev_needs_fmgr_hook && prev_needs_fmgr_hook(function))
		return true;
	return guarded_function(function) != NULL;
}

/*
 * Before each call.  flinfo is the wrapper's own copy, which lives as long as
 * the caller's, so what we put there stays for the calls to come.
 */
static void
guard_call(FmgrHookEventType event, FmgrInfo *flinfo, Datum *arg)
{
	GuardedFunction *g;

	if (prev_fmgr_hook)
		prev_fmgr_hook(event, flinfo, arg);
	if (event != FHET_START || flinfo->fn_addr == guard ||
		(g = guarded_function(flinfo->fn_oid)) == NULL)
		return;
	g->original = flinfo->fn_addr;
	flinfo->fn_addr = guard;
}

void
zheap_register_guard(void)
{
	prev_needs_fmgr_hook = needs_fmgr_hook;
	needs_fmgr_hook = guard_is_needed;
	prev_fmgr_hook = fmgr_hook;
	fmgr_hook = guard_call;
}
