/*-------------------------------------------------------------------------
 *
 * zheap_stat.c
 *	  What is counted per table, for pg_stat_zheap_tables.
 *
 * A backend counts in its own memory.  It hands its counts on where a
 * transaction is about to commit or has to be prepared, or when it ends: there
 * an error does no harm.  So those of an aborted transaction come with the next
 * one, apart from those of tables that the abort takes away.
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
#include "zheap/history/zheap_stat.h"

/* the hash table is made anew above this size */
#define PENDING_MANY		1024

typedef struct Pending
{
	Oid			relid;
	char		status;
	bool		is_new;			/* made by the running transaction */
	bool		is_gone;		/* that was rolled back */
	bool		is_unlocked;	/* since an abort: others may have dropped it */
	TableStats	stats;
} Pending;

#define SH_PREFIX pending
#define SH_ELEMENT_TYPE Pending
#define SH_KEY_TYPE Oid
#define SH_KEY relid
#define SH_HASH_KEY(tb, key) murmurhash32(key)
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DEFINE
#define SH_DECLARE
#include "lib/simplehash.h"

static pending_hash * counted = NULL;
static Pending *last = NULL;	/* in counted */
static bool some_are_new = false;

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

/* may_look: the catalog can be read */
static void
hand_on(bool may_look)
{
	pending_iterator i;
	Pending    *entry;

	pending_start_iterate(counted, &i);
	while ((entry = pending_iterate(counted, &i)) != NULL)
	{
		if (may_look && entry->is_unlocked &&
			!SearchSysCacheExists1(RELOID, ObjectIdGetDatum(entry->relid)))
			entry->is_gone = true;
		if (!entry->is_gone)
			table_stats_add(MyDatabaseId, entry->relid, &entry->stats);
	}
	last = NULL;
	some_are_new = false;
	if (counted->size > PENDING_MANY)
	{
		pending_destroy(counted);
		counted = NULL;
	}
	else
		pending_reset(counted);
}

static void
flush_at_exit(int code, Datum arg)
{
	ListCell   *lc;

	if (counted != NULL && counted->members > 0)
		hand_on(false);
	foreach(lc, dropped)
	{
		Dropped    *d = lfirst(lc);

		if (d->committed && d->class_id == RelationRelationId)
			table_stats_drop(MyDatabaseId, d->object_id);
	}
}

/* once per process */
static void
flush_at_exit_later(void)
{
	static bool done = false;

	if (!done)
		before_shmem_exit(flush_at_exit, (Datum) 0);
	done = true;
}

static Pending *
find_pending(Relation rel)
{
	bool		found;

	if (counted == NULL)
		counted = pending_create(TopMemoryContext, 16, NULL);
	flush_at_exit_later();
	last = pending_insert(counted, RelationGetRelid(rel), &found);
	if (!found || last->is_gone)
	{
		memset(&last->stats, 0, sizeof(TableStats));
		last->is_gone = false;
		last->is_unlocked = false;
		last->is_new = rel->rd_createSubid != InvalidSubTransactionId;
		some_are_new |= last->is_new;
	}
	return last;
}

static inline TableStats *
stats_of(Relation rel)
{
	Pending    *entry = last;

	if (entry == NULL || entry->relid != RelationGetRelid(rel))
		entry = find_pending(rel);
	return &entry->stats;
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
zheap_stat_flush(void)
{
	if (counted != NULL && counted->members > 0)
		hand_on(true);
}

/* ----------------------------------------------------------------
 *	end of transactions
 * ----------------------------------------------------------------
 */

/* Nothing that was counted is locked any more; throws nothing. */
static void
note_unlocked(void)
{
	pending_iterator i;
	Pending    *entry;

	if (counted == NULL)
		return;
	pending_start_iterate(counted, &i);
	while ((entry = pending_iterate(counted, &i)) != NULL)
		entry->is_unlocked = true;
}

/* Tables made by what is rolled back are gone; throws nothing. */
static void
forget_new(void)
{
	pending_iterator i;
	Pending    *entry;

	if (!some_are_new)
		return;
	last = NULL;
	pending_start_iterate(counted, &i);
	while ((entry = pending_iterate(counted, &i)) != NULL)
		entry->is_gone |= entry->is_new;
}

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
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
			zheap_stat_flush();
			if (dropped != NIL)
				drop_counters();
			break;
		case XACT_EVENT_COMMIT:
			end_dropped(true);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			end_dropped(false);
			forget_new();
			note_unlocked();
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
		forget_new();
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

static void
stat_object_access(ObjectAccessType access, Oid class_id, Oid object_id,
				   int sub_id, void *arg)
{
	if (prev_object_access)
		prev_object_access(access, class_id, object_id, sub_id, arg);
	if (access == OAT_DROP && sub_id == 0 &&
		(class_id == DatabaseRelationId ||
		 (class_id == RelationRelationId && is_zheap(object_id))))
	{
		MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);
		Dropped    *d = palloc(sizeof(Dropped));

		d->class_id = class_id;
		d->object_id = object_id;
		d->committed = false;
		dropped = lappend(dropped, d);
		flush_at_exit_later();
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
