/*-------------------------------------------------------------------------
 *
 * zheap_stat.c
 *	  What is counted per table, for pg_stat_zheap_tables.
 *
 * A backend counts where table_stats_mine() tells.  Only for tables that the
 * running transaction has made it counts in memory of its own, and hands that
 * on where the transaction is about to commit or has to be prepared: so nothing
 * comes of those that an abort takes away.
 *
 * Counters of a table that is dropped go when the dropping transaction is
 * about to commit.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "commands/defrem.h"
#include "common/hashfn.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

#include "pg_compat.h"
#include "zheap/format/zheap_stat.h"

/* the hash table is made anew above this size */
#define NEW_TABLES_MANY		1024

/* a table that the running transaction has made */
typedef struct NewTable
{
	Oid			relid;
	char		status;
	TableStats	stats;
} NewTable;

#define SH_PREFIX newtables
#define SH_ELEMENT_TYPE NewTable
#define SH_KEY_TYPE Oid
#define SH_KEY relid
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DEFINE
#define SH_DECLARE
#include "lib/simplehash.h"

static newtables_hash * new_tables = NULL;
static NewTable *last_new = NULL;	/* the one that was looked for last */

/*
 * A table or database that the transaction has dropped.  Temporary tables with
 * ON COMMIT DROP go after the counters were looked at: these are left for the
 * next transaction, or the end.
 */
typedef struct Dropped
{
	Oid			class_id;
	Oid			object_id;
	bool		committed;
} Dropped;

static List *dropped = NIL;		/* in TopMemoryContext */

static object_access_hook_type prev_object_access = NULL;

/* ----------------------------------------------------------------
 *	counting
 * ----------------------------------------------------------------
 */

/* throws nothing */
void
zheap_stat_forget_new(void)
{
	last_new = NULL;
	if (new_tables == NULL)
		return;
	if (new_tables->size > NEW_TABLES_MANY)
	{
		newtables_destroy(new_tables);
		new_tables = NULL;
	}
	else if (new_tables->members > 0)
		newtables_reset(new_tables);
}

static TableStats *
stats_of_new(Oid relid)
{
	bool		found;

	if (last_new != NULL && last_new->relid == relid)
		return &last_new->stats;
	if (new_tables == NULL)
		new_tables = newtables_create(TopMemoryContext, 16, NULL);
	last_new = newtables_insert(new_tables, relid, &found);
	if (!found)
		memset(&last_new->stats, 0, sizeof(TableStats));
	return &last_new->stats;
}

static inline TableStats *
stats_of(Relation rel)
{
	if (rel->rd_createSubid != InvalidSubTransactionId)
		return stats_of_new(RelationGetRelid(rel));
	return table_stats_mine(RelationGetRelid(rel));
}

void
zheap_stat_count(Relation rel, ZStatCounter counter, int64 n)
{
	if (pgstat_track_counts)
		stats_of(rel)->sum[counter] += n;
}

void
zheap_stat_count_walk(Relation rel, int64 n, int longest)
{
	TableStats *stats;

	if (!pgstat_track_counts)
		return;
	stats = stats_of(rel);
	stats->sum[ZSTAT_OLD_VERSIONS] += n;
	stats->largest = Max(stats->largest, longest);
}

void
zheap_stat_add_new(Oid relid, TableStats *stats)
{
	NewTable   *entry = new_tables == NULL ? NULL :
		newtables_lookup(new_tables, relid);

	if (entry != NULL)
		table_stats_merge(stats, &entry->stats);
}

/*
 * Hand on what was counted for tables that the transaction has made, which is
 * about to commit: before, nobody would take their places back if it aborted.
 */
static void
hand_on_new_tables(void)
{
	newtables_iterator i;
	NewTable   *entry;

	if (new_tables == NULL || new_tables->members == 0)
		return;
	newtables_start_iterate(new_tables, &i);
	while ((entry = newtables_iterate(new_tables, &i)) != NULL)
		table_stats_add(MyDatabaseId, entry->relid, &entry->stats);
	zheap_stat_forget_new();
}

/* The process ends: what the last transactions have dropped. */
static void
drop_at_exit(int code, Datum arg)
{
	ListCell   *lc;

	/* what is open is none of the transactions that they belong to */
	AbortOutOfAnyTransaction();
	foreach(lc, dropped)
	{
		Dropped    *d = lfirst(lc);

		if (d->committed && d->class_id == RelationRelationId)
			table_stats_drop(MyDatabaseId, d->object_id);
	}
}

/* once per process */
static void
drop_at_exit_later(void)
{
	static bool done = false;

	if (!done)
		before_shmem_exit(drop_at_exit, (Datum) 0);
	done = true;
}

/* ----------------------------------------------------------------
 *	end of transactions
 * ----------------------------------------------------------------
 */

/* A savepoint may have brought the table back that was dropped after it. */
static void
drop_counters(void)
{
	ListCell   *lc;

	foreach(lc, dropped)
	{
		Dropped    *d = lfirst(lc);
		bool		database = d->class_id == DatabaseRelationId;

		if (SearchSysCacheExists1(database ? DATABASEOID : RELOID,
								  ObjectIdGetDatum(d->object_id)))
			continue;
		if (database)
			table_stats_drop_database(d->object_id);
		else
			table_stats_drop(MyDatabaseId, d->object_id);
	}
	list_free_deep(dropped);
	dropped = NIL;
}

/* The transaction has ended; throws nothing. */
static void
end_dropped(bool committed)
{
	ListCell   *lc;

	foreach(lc, dropped)
	{
		Dropped    *d = lfirst(lc);

		if (committed)
			d->committed = true;
		else if (!d->committed)
			dropped = foreach_delete_current(dropped, lc);
	}
}

static void
stat_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_PREPARE:
			/* it may be rolled back by who knows nothing of them */
			zheap_stat_forget_new();
			/* FALLTHROUGH */
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			hand_on_new_tables();
			if (dropped != NIL)
				drop_counters();
			break;
		case XACT_EVENT_COMMIT:
			end_dropped(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			end_dropped(false);
			zheap_stat_forget_new();
			break;
		default:
			break;
	}
}

static void
stat_subxact_callback(SubXactEvent event, SubTransactionId mySubid,
					  SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		zheap_stat_forget_new();
}

static bool
is_zheap(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			am = InvalidOid;

	if (HeapTupleIsValid(tuple))
	{
		am = ((Form_pg_class) GETSTRUCT(tuple))->relam;
		ReleaseSysCache(tuple);
	}
	return OidIsValid(am) && am == get_table_am_oid("zheap", true);
}

/* also if it was a zheap table once */
static bool
has_counters(Oid relid)
{
	return is_zheap(relid) || table_stats_exist(MyDatabaseId, relid);
}

static void
stat_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
				   int sub_id, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && sub_id == 0 &&
		(class_id == DatabaseRelationId ||
		 (class_id == RelationRelationId && has_counters(object_id))))
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
		Dropped    *d = palloc(sizeof(Dropped));

		d->class_id = class_id;
		d->object_id = object_id;
		d->committed = false;
		dropped = lappend(dropped, d);
		drop_at_exit_later();
		MemoryContextSwitchTo(old);
	}
}

/* Called from _PG_init. */
void
zheap_stat_register(void)
{
	table_stats_register();
	RegisterXactCallback(stat_xact_callback, NULL);
	RegisterSubXactCallback(stat_subxact_callback, NULL);
	prev_object_access = object_access_hook;
	object_access_hook = stat_object_access;
}
