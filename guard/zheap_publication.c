/*-------------------------------------------------------------------------
 *
 * zheap_publication.c
 *	  Zheap tables cannot be published yet, because their changes are not
 *	  decoded: what would publish one is refused, so that no subscriber misses
 *	  changes without knowing.
 *
 *	- CREATE and ALTER PUBLICATION fail if the publication covers a zheap table
 *	- commands that create a zheap table, or give a table its access method,
 *	  parent, schema or persistence, fail if a publication covers it then
 *	- INSERT, UPDATE and DELETE fail at wal_level = logical if a publication
 *	  publishes them.  That catches what the commands can't: two transactions
 *	  that don't see each other, and what is older than this rule
 *	- decoding for another plugin than pgoutput, which has no publications, is
 *	  logged when it comes by a change of a zheap table for the first time
 *
 * All of this file goes when zheap tables are decoded: with it the calls of
 * its functions, which are declared in zheap_guard.h.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "catalog/namespace.h"
#include "catalog/partition.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "commands/defrem.h"
#include "miscadmin.h"
#include "replication/decode.h"
#include "replication/logical.h"
#include "replication/slot.h"
#include "replication/snapbuild.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/syscache.h"

#include "guard/zheap_guard.h"
#include "pg_compat.h"

/* ----------------------------------------------------------------
 *	which publication covers a table
 * ----------------------------------------------------------------
 */

/*
 * Could a publication cover the table, and is its access method the one given
 * (InvalidOid: any)?
 */
static bool
is_publishable(Oid relid, Oid am)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	bool		result = false;

	if (HeapTupleIsValid(tuple))
	{
		Form_pg_class form = (Form_pg_class) GETSTRUCT(tuple);

		result = form->relkind == RELKIND_RELATION &&
			form->relpersistence == RELPERSISTENCE_PERMANENT &&
			(form->relam == am || !OidIsValid(am));
		ReleaseSysCache(tuple);
	}
	return result;
}

/* one that names the table or its schema, or InvalidOid */
static Oid
publication_of(Oid relid)
{
	List	   *pubs = GetRelationPublications(relid);

	if (pubs == NIL)
		pubs = GetSchemaPublications(get_rel_namespace(relid));
	return pubs == NIL ? InvalidOid : linitial_oid(pubs);
}

/* one that covers the table, by itself or by what it is a partition of */
static Oid
covering_publication(Oid relid)
{
	List	   *pubs = GetAllTablesPublications();
	Oid			pub;

	if (pubs != NIL)
		return linitial_oid(pubs);
	pub = publication_of(relid);
	if (!OidIsValid(pub) && get_rel_relispartition(relid))
	{
		List	   *ancestors = get_partition_ancestors(relid);
		ListCell   *lc;

		foreach(lc, ancestors)
		{
			pub = publication_of(lfirst_oid(lc));
			if (OidIsValid(pub))
				break;
		}
		list_free(ancestors);
	}
	return pub;
}

/* Most databases have no publication at all. */
static bool
any_publication(void)
{
	Relation	rel = table_open(PublicationRelationId, AccessShareLock);
	SysScanDesc scan = systable_beginscan(rel, InvalidOid, false, NULL, 0,
										  NULL);
	bool		result = HeapTupleIsValid(systable_getnext(scan));

	systable_endscan(scan);
	table_close(rel, AccessShareLock);
	return result;
}

static void
refuse(Oid relid, Oid pubid)
{
	Publication *pub = GetPublication(pubid);

	ereport(ERROR,
			(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
			 errmsg("table \"%s\" of access method zheap cannot be published by publication \"%s\"",
					get_rel_name(relid), pub->name),
			 errdetail("Changes of zheap tables are not decoded yet: subscribers would miss them."),
			 pub->alltables ?
			 errhint("Create the table with access method heap (USING heap), or replace the publication by one that names the tables to be published (CREATE PUBLICATION ... FOR TABLE).") :
			 errhint("Use access method heap for the table, or leave the table, its schema and what it is a partition of out of the publication.")));
}

/* the table in which pglogical keeps what it replicates, or InvalidOid */
static Oid
pglogical_sets(void)
{
	Oid			schema = get_namespace_oid("pglogical", true);

	return OidIsValid(schema) ?
		get_relname_relid("replication_set_table", schema) : InvalidOid;
}

/* pglogical's sets are no publications, but their tables are decoded, too. */
static void
check_pglogical_sets(Oid relid)
{
	Oid			sets = pglogical_sets();
	AttrNumber	column = InvalidAttrNumber;
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (OidIsValid(sets))
		column = get_attnum(sets, "set_reloid");
	if (column == InvalidAttrNumber)
		return;
	rel = table_open(sets, AccessShareLock);
	/* systable scans are for heap */
	if (rel->rd_rel->relam != HEAP_TABLE_AM_OID)
	{
		table_close(rel, AccessShareLock);
		return;
	}
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)))
	{
		bool		isnull;
		Datum		table = heap_getattr(tuple, column, RelationGetDescr(rel),
										 &isnull);

		if (!isnull && DatumGetObjectId(table) == relid)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("table \"%s\" of access method zheap cannot be in a replication set of pglogical",
							get_rel_name(relid)),
					 errdetail("Changes of zheap tables are not decoded yet: subscribers would miss them."),
					 errhint("Use access method heap for the table, or take it out of replication sets.")));
	}
	systable_endscan(scan);
	table_close(rel, AccessShareLock);
}

/* ----------------------------------------------------------------
 *	commands
 * ----------------------------------------------------------------
 */

/*
 * A command has created or altered the table, or is going to give it access
 * method zheap.
 */
void
zheap_publication_check_table(Oid relid, bool becomes_zheap)
{
	Oid			zheap = get_table_am_oid("zheap", true);
	List	   *tables;
	ListCell   *lc;

	if (!OidIsValid(zheap) ||
		(!any_publication() && !OidIsValid(pglogical_sets())))
		return;

	if (get_rel_relkind(relid) == RELKIND_PARTITIONED_TABLE)
		tables = find_all_inheritors(relid, NoLock, NULL);
	else
		tables = list_make1_oid(relid);
	foreach(lc, tables)
	{
		Oid			table = lfirst_oid(lc);
		Oid			pub;

		if (!is_publishable(table, becomes_zheap ? InvalidOid : zheap))
			continue;
		pub = covering_publication(table);
		if (OidIsValid(pub))
			refuse(table, pub);
		check_pglogical_sets(table);
	}
	list_free(tables);
}

/* Nothing covers the new table, but there may be slots without publications. */
void
zheap_publication_warn(Relation rel)
{
	if (XLogLogicalInfoActive() &&
		rel->rd_rel->relpersistence == RELPERSISTENCE_PERMANENT)
		ereport(WARNING,
				(errmsg("logical decoding does not see changes of table \"%s\"",
						RelationGetRelationName(rel)),
				 errdetail("Tables of access method zheap are not decoded yet.")));
}

static void
check_publication(const char *name)
{
	Oid			zheap = get_table_am_oid("zheap", true);
	Publication *pub = GetPublicationByName(name, true);
	List	   *tables;
	ListCell   *lc;

	if (!OidIsValid(zheap) || pub == NULL)
		return;
	if (pub->alltables)
		tables = GetAllTablesPublicationRelations(false);
	else
		tables = list_concat(GetPublicationRelations(pub->oid,
													 PUBLICATION_PART_LEAF),
							 GetAllSchemaPublicationRelations(pub->oid,
															  PUBLICATION_PART_LEAF));
	foreach(lc, tables)
		if (is_publishable(lfirst_oid(lc), zheap))
			refuse(lfirst_oid(lc), pub->oid);
	list_free(tables);
}

/* After a command: did it make a publication cover more? */
void
zheap_publication_check_command(Node *stmt)
{
	const char *name = NULL;

	if (IsA(stmt, CreatePublicationStmt))
		name = ((CreatePublicationStmt *) stmt)->pubname;
	else if (IsA(stmt, AlterPublicationStmt))
	{
		AlterPublicationStmt *alter = (AlterPublicationStmt *) stmt;

		if (alter->options == NIL && alter->action != AP_DropObjects)
			name = alter->pubname;
	}
	if (name == NULL || IsBinaryUpgrade)
		return;
	CommandCounterIncrement();
	check_publication(name);
}

/* ----------------------------------------------------------------
 *	changes
 * ----------------------------------------------------------------
 */

static const TableAmRoutine *plain_methods;

/* May the change of a row be published?  Transient tables of rewrites aren't. */
static void
check_change(Relation rel, CmdType change)
{
	PublicationDesc built;
	const PublicationActions *published = &built.pubactions;

	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT ||
		OidIsValid(rel->rd_rel->relrewrite))
		return;
	if (rel->rd_pubdesc != NULL)
		published = &rel->rd_pubdesc->pubactions;
	else
		RelationBuildPublicationDesc(rel, &built);

	if ((change == CMD_INSERT && published->pubinsert) ||
		(change == CMD_UPDATE && published->pubupdate) ||
		(change == CMD_DELETE && published->pubdelete))
	{
		Oid			pub = covering_publication(RelationGetRelid(rel));

		/* none if it was dropped a moment ago */
		if (OidIsValid(pub))
			refuse(RelationGetRelid(rel), pub);
	}
}

static void
checked_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
			   struct BulkInsertStateData *bistate)
{
	check_change(rel, CMD_INSERT);
	plain_methods->tuple_insert(rel, slot, cid, options, bistate);
}

static void
checked_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid,
						   int options, struct BulkInsertStateData *bistate,
						   uint32 token)
{
	check_change(rel, CMD_INSERT);
	plain_methods->tuple_insert_speculative(rel, slot, cid, options, bistate,
											token);
}

static void
checked_multi_insert(Relation rel, TupleTableSlot **slots, int nslots,
					 CommandId cid, int options,
					 struct BulkInsertStateData *bistate)
{
	check_change(rel, CMD_INSERT);
	plain_methods->multi_insert(rel, slots, nslots, cid, options, bistate);
}

static TM_Result
checked_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
			   Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
			   bool changing_part)
{
	check_change(rel, CMD_DELETE);
	return plain_methods->tuple_delete(rel, tid, cid, snapshot, crosscheck,
									   wait, tmfd, changing_part);
}

static TM_Result
checked_update(Relation rel, ItemPointer otid, TupleTableSlot *slot,
			   CommandId cid, Snapshot snapshot, Snapshot crosscheck,
			   bool wait, TM_FailureData *tmfd, LockTupleMode *lockmode,
			   TU_UpdateIndexes *update_indexes)
{
	check_change(rel, CMD_UPDATE);
	return plain_methods->tuple_update(rel, otid, slot, cid, snapshot,
									   crosscheck, wait, tmfd, lockmode,
									   update_indexes);
}

/* The access method's routines, with checks where changes can be published. */
const TableAmRoutine *
zheap_publication_methods(const TableAmRoutine *methods)
{
	static TableAmRoutine checked;

	if (!XLogLogicalInfoActive())
		return methods;
	if (plain_methods == NULL)
	{
		checked = *methods;
		checked.tuple_insert = checked_insert;
		checked.tuple_insert_speculative = checked_insert_speculative;
		checked.multi_insert = checked_multi_insert;
		checked.tuple_delete = checked_delete;
		checked.tuple_update = checked_update;
		plain_methods = methods;
	}
	return &checked;
}

/* ----------------------------------------------------------------
 *	decoding without publications
 * ----------------------------------------------------------------
 */

/* A record of a change of a row passes by a slot. */
void
zheap_publication_passed_over(LogicalDecodingContext *ctx,
							  XLogRecordBuffer *buf)
{
	static NameData told;		/* the last slot that was logged */
	ReplicationSlot *slot = ctx->slot;
	RelFileLocator locator;

	if (ctx->fast_forward ||
		SnapBuildCurrentState(ctx->snapshot_builder) < SNAPBUILD_CONSISTENT ||
		strcmp(NameStr(slot->data.plugin), "pgoutput") == 0 ||
		namestrcmp(&told, NameStr(slot->data.name)) == 0)
		return;
	XLogRecGetBlockTag(buf->record, 0, &locator, NULL, NULL);
	if (locator.dbOid != slot->data.database)
		return;
	told = slot->data.name;
	ereport(LOG,
			(errmsg("replication slot \"%s\" passes over changes of zheap tables",
					NameStr(told)),
			 errdetail("Tables of access method zheap are not decoded yet. The first change is one of the table with file number %u.",
					   locator.relNumber)));
}
