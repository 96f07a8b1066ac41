/*-------------------------------------------------------------------------
 *
 * zheap_ddl.c
 *	  Commands that would make a table of access method zheap into something
 *	  that it cannot be, and scripts of extensions.
 *
 * A table with option user_catalog_table is refused.  Only core knows which
 * tables a command creates or alters; it tells the object access hook, and
 * they are looked at when the command is done.
 *
 * Tables that the script of an extension creates without naming an access
 * method become heap tables, whatever default_table_access_method says:
 *	- code of extensions may write its tables by heap's functions, past the
 *	  access method
 *	- a dump restores extensions by the order of their names, and the access
 *	  method may not exist yet
 *
 * Indexes of a table that moves to another tablespace inside of a transaction
 * are rebuilt: see zheap_tablespace.c.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/rel.h"

#include "guard/zheap_guard.h"
#include "zheap/write/zheap_tablespace.h"

/* what a command has touched so far; one list for each command on the stack */
typedef struct Touched
{
	List	   *tables;			/* OIDs */
	MemoryContext context;
} Touched;

static Touched *touched = NULL;
static bool in_extension_scripts = false;

static ProcessUtility_hook_type prev_process_utility = NULL;
static object_access_hook_type prev_object_access = NULL;

/* ----------------------------------------------------------------
 *	tables touched
 * ----------------------------------------------------------------
 */

static void
ddl_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
				  int sub_id, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);

	/* an entry of pg_inherits is named by the child */
	if (touched != NULL && sub_id == 0 &&
		(access == OAT_POST_CREATE || access == OAT_POST_ALTER) &&
		(class_id == RelationRelationId || class_id == InheritsRelationId))
	{
		MemoryContext old = MemoryContextSwitchTo(touched->context);

		touched->tables = list_append_unique_oid(touched->tables, object_id);
		MemoryContextSwitchTo(old);
	}
}

/* may the command give a table its access method, options, schema or parent */
static bool
command_counts(Node *stmt)
{
	switch (nodeTag(stmt))
	{
		case T_CreateStmt:
		case T_CreateTableAsStmt:
		case T_ExplainStmt:
		case T_AlterTableStmt:
		case T_AlterObjectSchemaStmt:
			return true;
		default:
			return false;
	}
}

/* The command is done; its locks are still held. */
static void
check_touched(const List *tables)
{
	Oid			zheap = get_table_am_oid("zheap", true);
	ListCell   *lc;

	if (tables == NIL || !OidIsValid(zheap) || IsBinaryUpgrade)
		return;
	CommandCounterIncrement();
	foreach(lc, tables)
	{
		Relation	rel = try_relation_open(lfirst_oid(lc), AccessShareLock);

		if (rel == NULL)
			continue;			/* the command's own transient table */
		if (rel->rd_rel->relam == zheap && RelationIsUsedAsCatalogTable(rel))
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" of access method zheap cannot be used as a catalog table",
							RelationGetRelationName(rel)),
					 errdetail("Logical decoding has no snapshots that a zheap table could be read with."),
					 errhint("Reset storage parameter user_catalog_table, or use access method heap.")));
		relation_close(rel, NoLock);
	}
}

/* ----------------------------------------------------------------
 *	scripts of extensions
 * ----------------------------------------------------------------
 */

/*
 * Returns the GUC nest level to be ended after the command, or 0.  An error
 * ends it, too.
 */
static int
begin_script(Node *stmt)
{
	int			nest_level;

	if (!IsA(stmt, CreateExtensionStmt) && !IsA(stmt, AlterExtensionStmt))
		return 0;
	if (in_extension_scripts ||
		strcmp(default_table_access_method, "zheap") != 0)
		return 0;
	nest_level = NewGUCNestLevel();
	(void) set_config_option("default_table_access_method", "heap",
							 PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE,
							 true, 0, false);
	return nest_level;
}

/* ----------------------------------------------------------------
 *	commands
 * ----------------------------------------------------------------
 */

static void
next_process_utility(PlannedStmt *pstmt, const char *queryString,
					 bool readOnlyTree, ProcessUtilityContext context,
					 ParamListInfo params, QueryEnvironment *queryEnv,
					 DestReceiver *dest, QueryCompletion *qc)
{
	if (prev_process_utility)
		prev_process_utility(pstmt, queryString, readOnlyTree, context, params,
							 queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context,
								params, queryEnv, dest, qc);
}

static void
ddl_process_utility(PlannedStmt *pstmt, const char *queryString,
					bool readOnlyTree, ProcessUtilityContext context,
					ParamListInfo params, QueryEnvironment *queryEnv,
					DestReceiver *dest, QueryCompletion *qc)
{
	Node	   *stmt = pstmt->utilityStmt;
	Touched    *outer = touched;
	Touched		mine = {NIL, CurrentMemoryContext};
	bool		goes_on =
		IsInTransactionBlock(context == PROCESS_UTILITY_TOPLEVEL);
	int			script;

	if (!command_counts(stmt))
	{
		script = begin_script(stmt);
		next_process_utility(pstmt, queryString, readOnlyTree, context, params,
							 queryEnv, dest, qc);
		if (script != 0)
			AtEOXact_GUC(true, script);
		if (IsA(stmt, AlterTableMoveAllStmt) && goes_on)
			zheap_tablespace_rebuild_indexes();
		return;
	}

	touched = &mine;
	PG_TRY();
	{
		next_process_utility(pstmt, queryString, readOnlyTree, context, params,
							 queryEnv, dest, qc);
	}
	PG_FINALLY();
	{
		touched = outer;
	}
	PG_END_TRY();
	check_touched(mine.tables);
	list_free(mine.tables);
	if (IsA(stmt, AlterTableStmt) && goes_on)
		zheap_tablespace_rebuild_indexes();
}

void
zheap_ddl_register(void)
{
	DefineCustomBoolVariable("zheap.in_extension_scripts",
							 "Lets default_table_access_method = zheap hold for tables that scripts of extensions create.",
							 "If off, CREATE EXTENSION and ALTER EXTENSION UPDATE create heap tables where the script names no access method.",
							 &in_extension_scripts, false,
							 PGC_USERSET, 0, NULL, NULL, NULL);

	prev_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = ddl_process_utility;
	prev_object_access = object_access_hook;
	object_access_hook = ddl_object_access;
}
