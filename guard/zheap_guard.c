/*-------------------------------------------------------------------------
 *
 * zheap_guard.c
 *	  Keeps the few functions of other modules that take any table for one of
 *	  heap's away from ours.
 *
 * pageinspect's heap_page_items() is given bytes, pg_visibility's
 * pg_check_visible() and pg_check_frozen() ask only for the kind of relation:
 * they would print or report nonsense.  (What else in contrib reads heap pages
 * looks for the access method itself.)
 *
 * pg_repack copies a table into one of the default access method, changes the
 * files of the two in pg_class, and leaves the access methods there as they
 * were.  It also sets a relfrozenxid that only heap could mean.  So it is kept
 * away from zheap tables: when its copy takes their place, and, if it can be
 * told then, before it has begun to copy.
 *
 * Workers of pglogical apply changes by heap's functions.
 *
 * The function manager's hook lets us stand before them: a guard looks at the
 * argument and refuses, or calls the function.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/tableam.h"
#include "access/transam.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_language.h"
#include "catalog/pg_proc.h"
#include "commands/defrem.h"
#include "fmgr.h"
#include "postmaster/bgworker.h"
#include "storage/bufpage.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "guard/zheap_guard.h"
#include "guard/zheap_guard.h"
#include "zheap/format/zheap_format.h"

/* what a function is given, and by that how it is refused */
typedef enum GuardedArgument
{
	GUARD_PAGE,					/* the bytes of a page */
	GUARD_TABLE,				/* a table */
	GUARD_REPACK_HELPER,		/* pg_repack's table log_OID or table_OID */
	GUARD_REPACK_SWAP			/* the table whose copy takes its place */
} GuardedArgument;

typedef struct GuardedFunction
{
	const char *library;		/* end of the name of its library */
	const char *symbol;
	GuardedArgument argument;
	const char *instead;
	PGFunction	original;		/* known once it was called */
} GuardedFunction;

static GuardedFunction guarded[] = {
	{"pageinspect", "heap_page_items", GUARD_PAGE, "zheap_page_items", NULL},
	{"pg_visibility", "pg_check_visible", GUARD_TABLE, "zheap_check", NULL},
	{"pg_visibility", "pg_check_frozen", GUARD_TABLE, "zheap_check", NULL},
	{"pg_repack", "repack_disable_autovacuum", GUARD_REPACK_HELPER, NULL,
	NULL},
	{"pg_repack", "repack_swap", GUARD_REPACK_SWAP, NULL, NULL}
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

static bool
page_is_ours(bytea *raw)
{
	PGAlignedBlock block;

	if (VARSIZE_ANY_EXHDR(raw) != BLCKSZ)
		return false;
	memcpy(block.data, VARDATA_ANY(raw), BLCKSZ);
	return zheap_page_is_valid((Page) block.data);
}

/* false, too, if there is no such table */
static bool
table_is_ours(Oid table)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(table));
	bool		ours = false;

	if (HeapTupleIsValid(tuple))
	{
		char	   *am =
			get_am_name(((Form_pg_class) GETSTRUCT(tuple))->relam);

		ours = am != NULL && strcmp(am, "zheap") == 0;
		ReleaseSysCache(tuple);
	}
	return ours;
}

static void
refuse_page(const GuardedFunction *g)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("function %s cannot read a page of access method zheap",
					g->symbol),
			 errhint("Use function %s.", g->instead)));
}

static void
refuse_table(const GuardedFunction *g, Oid table)
{
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("function %s cannot read table \"%s\" of access method zheap",
					g->symbol, get_rel_name(table)),
			 errhint("Use function %s.", g->instead)));
}

/* The table is ours, or its copy is or is going to be. */
static void
refuse_repack(Oid table)
{
	bool		ours = table_is_ours(table);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 ours ?
			 errmsg("pg_repack cannot reorganize table \"%s\" of access method zheap",
					get_rel_name(table)) :
			 errmsg("pg_repack cannot replace table \"%s\" by a copy of access method zheap",
					get_rel_name(table)),
			 ours ?
			 errhint("Use VACUUM FULL or CLUSTER.") :
			 errhint("Set default_table_access_method to heap for pg_repack: PGOPTIONS='-c default_table_access_method=heap'.")));
}

/* the OID at the end of a helper table's name, or InvalidOid */
static Oid
repacked_table(const char *name, const char *prefix)
{
	size_t		n = strlen(prefix);

	if (name == NULL || strncmp(name, prefix, n) != 0)
		return InvalidOid;
	return (Oid) strtoul(name + n, NULL, 10);
}

/*
 * pg_repack has created the table for its log, or its copy.  The copy will
 * have the default access method, if there is none yet.
 */
static void
check_repack_helper(Oid helper)
{
	char	   *name = get_rel_name(helper);
	Oid			copied = repacked_table(name, "table_");
	Oid			logged = repacked_table(name, "log_");

	if (OidIsValid(copied) &&
		(table_is_ours(copied) || table_is_ours(helper)))
		refuse_repack(copied);
	if (OidIsValid(logged) && OidIsValid(get_rel_namespace(logged)) &&
		(table_is_ours(logged) ||
		 strcmp(default_table_access_method, "zheap") == 0))
		refuse_repack(logged);
}

static void
check_repack_swap(Oid table)
{
	Oid			schema = get_namespace_oid("repack", true);
	Oid			copy = InvalidOid;

	if (OidIsValid(schema))
		copy = get_relname_relid(psprintf("table_%u", table), schema);
	if (table_is_ours(table) || table_is_ours(copy))
		refuse_repack(table);
}

/* called in place of the function */
static Datum
guard(PG_FUNCTION_ARGS)
{
	GuardedFunction *g = guarded_function(fcinfo->flinfo->fn_oid);

	if (g == NULL || g->original == NULL)
		elog(ERROR, "function %u has no guard", fcinfo->flinfo->fn_oid);
	if (PG_NARGS() < 1 || PG_ARGISNULL(0))
		return g->original(fcinfo);
	switch (g->argument)
	{
		case GUARD_PAGE:
			if (page_is_ours(PG_GETARG_BYTEA_PP(0)))
				refuse_page(g);
			break;
		case GUARD_TABLE:
			if (table_is_ours(PG_GETARG_OID(0)))
				refuse_table(g, PG_GETARG_OID(0));
			break;
		case GUARD_REPACK_HELPER:
			check_repack_helper(PG_GETARG_OID(0));
			break;
		case GUARD_REPACK_SWAP:
			check_repack_swap(PG_GETARG_OID(0));
			break;
	}
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

/*
 * A process looks up the access method of a table.  A worker of pglogical
 * would go on to write the table as if it were heap's, unless it is told to
 * use SQL.
 */
void
zheap_guard_process(void)
{
	const char *use_spi;

	if (MyBgworkerEntry == NULL ||
		strcmp(MyBgworkerEntry->bgw_library_name, "pglogical") != 0)
		return;
	use_spi = GetConfigOption("pglogical.use_spi", true, false);
	if (use_spi != NULL && strcmp(use_spi, "on") == 0)
		return;
	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("pglogical cannot apply changes to tables of access method zheap"),
			 errdetail("It writes tables past their access method."),
			 errhint("Set pglogical.use_spi = on, or use CREATE SUBSCRIPTION.")));
}

void
zheap_guard_register(void)
{
	prev_needs_fmgr_hook = needs_fmgr_hook;
	needs_fmgr_hook = guard_is_needed;
	prev_fmgr_hook = fmgr_hook;
	fmgr_hook = guard_call;
}
