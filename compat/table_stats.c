/*-------------------------------------------------------------------------
 *
 * table_stats.c
 *	  Counters per table that all backends share.
 *
 * Since PostgreSQL 18 they are a kind of core's cumulative statistics, which
 * sees to everything: backends flush at most once a second, a clean shutdown
 * writes them to core's file, a standby drops what its primary has dropped.
 *
 * Before, they are in a hash table in shared memory, since the server started.
 * A process hands on what it has counted when its transaction ends.  There is
 * room for a number of tables; others are not counted.  Nothing tells a standby
 * of dropped tables: what was counted for one stays there until the counters
 * are reset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "miscadmin.h"
#include "pgstat.h"

#include "pg_compat.h"
#include "compat/table_stats.h"

#ifndef COMPAT_TABLE_STATS

#include "utils/pgstat_internal.h"

/* of those for extensions; those of core's test modules are below */
#define TABLE_STATS_KIND	(PGSTAT_KIND_CUSTOM_MIN + 5)

typedef struct TableStatsEntry
{
	PgStatShared_Common header;
	TableStats	stats;
} TableStatsEntry;

static bool
flush_entry(PgStat_EntryRef *ref, bool nowait)
{
	if (!pgstat_lock_entry(ref, nowait))
		return false;
	table_stats_merge(&((TableStatsEntry *) ref->shared_stats)->stats,
					  ref->pending);
	pgstat_unlock_entry(ref);
	return true;
}

/* the pending entry that table_stats_mine() found last */
static PgStat_EntryRef *mine = NULL;
static Oid	mine_relid = InvalidOid;

static void
forget_mine(PgStat_EntryRef *ref)
{
	if (ref == mine)
		mine = NULL;
}

static const PgStat_KindInfo table_stats_kind = {
	.name = "zheap_tables",
	.fixed_amount = false,
	.write_to_file = true,
	.shared_size = sizeof(TableStatsEntry),
	.shared_data_off = offsetof(TableStatsEntry, stats),
	.shared_data_len = sizeof(TableStats),
	.pending_size = sizeof(TableStats),
	.flush_pending_cb = flush_entry,
	.delete_pending_cb = forget_mine
};

void
table_stats_register(void)
{
	pgstat_register_kind(TABLE_STATS_KIND, &table_stats_kind);
}

void
table_stats_shmem_request(void)
{
}

void
table_stats_shmem_startup(void)
{
}

TableStats *
table_stats_mine(Oid relid)
{
	if (mine == NULL || relid != mine_relid)
	{
		mine = pgstat_prep_pending_entry(TABLE_STATS_KIND, MyDatabaseId,
										 relid, NULL);
		mine_relid = relid;
	}
	return mine->pending;
}

void
table_stats_add(Oid dboid, Oid relid, const TableStats *more)
{
	PgStat_EntryRef *ref =
		pgstat_prep_pending_entry(TABLE_STATS_KIND, dboid, relid, NULL);

	table_stats_merge(ref->pending, more);
}

bool
table_stats_get(Oid dboid, Oid relid, TableStats *stats)
{
	TableStats *found = pgstat_fetch_entry(TABLE_STATS_KIND, dboid, relid);
	PgStat_EntryRef *ref = pgstat_fetch_pending_entry(TABLE_STATS_KIND, dboid,
													  relid);

	if (found != NULL)
		*stats = *found;
	else
		memset(stats, 0, sizeof(TableStats));
	/* what is still counted for a table that others dropped goes nowhere */
	if (ref != NULL && !ref->shared_entry->dropped)
		table_stats_merge(stats, ref->pending);
	return found != NULL || ref != NULL;
}

/* A look at counters might take a snapshot of all statistics. */
bool
table_stats_exist(Oid dboid, Oid relid)
{
	return pgstat_have_entry(TABLE_STATS_KIND, dboid, relid);
}

void
table_stats_reset(void)
{
	pgstat_reset_of_kind(TABLE_STATS_KIND);
}

void
table_stats_drop(Oid dboid, Oid relid)
{
	/* a transaction without xid could not commit */
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		pgstat_drop_transactional(TABLE_STATS_KIND, dboid, relid);
	else if (!pgstat_drop_entry(TABLE_STATS_KIND, dboid, relid))
		pgstat_request_entry_refs_gc();
}

/* core does */
void
table_stats_drop_database(Oid dboid)
{
}

#else

#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

#define TRANCHE				"zheap_table_stats"

/* of all databases; one takes about 120 bytes */
#define MAX_TABLES			16384

typedef struct TableKey
{
	Oid			dboid;
	Oid			relid;
} TableKey;

typedef struct TableEntry
{
	TableKey	key;
	slock_t		mutex;			/* of stats */
	TableStats	stats;
} TableEntry;

/* what the running transaction has counted, by relid */
#define PLACES				32

typedef struct Place
{
	Oid			relid;			/* Invalid: free */
	TableStats	stats;
} Place;

static Place places[PLACES];
static bool any_taken = false;

static HTAB *table = NULL;
static LWLock *table_lock = NULL;	/* exclusive: entries come and go */

/* ----------------------------------------------------------------
 *	shared memory
 * ----------------------------------------------------------------
 */

void
table_stats_shmem_request(void)
{
	RequestAddinShmemSpace(hash_estimate_size(MAX_TABLES, sizeof(TableEntry)));
	RequestNamedLWLockTranche(TRANCHE, 1);
}

void
table_stats_shmem_startup(void)
{
	HASHCTL		info =
	{.keysize = sizeof(TableKey),.entrysize = sizeof(TableEntry)};

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	table_lock = &(GetNamedLWLockTranche(TRANCHE))->lock;
	table = ShmemInitHash("zheap table statistics", MAX_TABLES, MAX_TABLES,
						  &info, HASH_ELEM | HASH_BLOBS);
	LWLockRelease(AddinShmemInitLock);
}

/* NULL: there are too many; the lock is held exclusively */
static TableEntry *
enter(const TableKey *key)
{
	TableEntry *entry;
	bool		found;

	if (hash_get_num_entries(table) >= MAX_TABLES)
		return hash_search(table, key, HASH_FIND, NULL);
	entry = hash_search(table, key, HASH_ENTER_NULL, &found);
	if (entry != NULL && !found)
	{
		memset(&entry->stats, 0, sizeof(TableStats));
		SpinLockInit(&entry->mutex);
	}
	return entry;
}

/* InvalidOid: those of all databases */
static void
remove_entries(Oid dboid)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;

	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, table);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (!OidIsValid(dboid) || entry->key.dboid == dboid)
			(void) hash_search(table, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(table_lock);
}

/* ----------------------------------------------------------------
 *	counting
 * ----------------------------------------------------------------
 */

/* throws nothing */
void
table_stats_add(Oid dboid, Oid relid, const TableStats *more)
{
	TableKey	key = {dboid, relid};
	TableEntry *entry;

	LWLockAcquire(table_lock, LW_SHARED);
	entry = hash_search(table, &key, HASH_FIND, NULL);
	if (entry == NULL)
	{
		LWLockRelease(table_lock);
		LWLockAcquire(table_lock, LW_EXCLUSIVE);
		entry = enter(&key);
	}
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		table_stats_merge(&entry->stats, more);
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(table_lock);
}

static void
empty_place(Place *place)
{
	if (OidIsValid(place->relid))
		table_stats_add(MyDatabaseId, place->relid, &place->stats);
	place->relid = InvalidOid;
}

static void
empty_places(void)
{
	for (int i = 0; any_taken && i < PLACES; i++)
		empty_place(&places[i]);
	any_taken = false;
}

/*
 * Before the locks on the tables are given up, lest something be counted for
 * one that is gone; not before the end, because a commit may count, too.
 */
static void
stats_xact_callback(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PREPARE:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PARALLEL_ABORT:
			empty_places();
			break;
		default:
			break;
	}
}

static void
stats_subxact_callback(SubXactEvent event, SubTransactionId mySubid,
					   SubTransactionId parentSubid, void *arg)
{
	if (event == SUBXACT_EVENT_ABORT_SUB)
		empty_places();
}

void
table_stats_register(void)
{
	RegisterXactCallback(stats_xact_callback, NULL);
	RegisterSubXactCallback(stats_subxact_callback, NULL);
}

TableStats *
table_stats_mine(Oid relid)
{
	Place	   *place = &places[relid % PLACES];

	if (place->relid != relid)
	{
		empty_place(place);
		memset(&place->stats, 0, sizeof(TableStats));
		place->relid = relid;
		any_taken = true;
	}
	return &place->stats;
}

/* ----------------------------------------------------------------
 *	use
 * ----------------------------------------------------------------
 */

bool
table_stats_get(Oid dboid, Oid relid, TableStats *stats)
{
	TableKey	key = {dboid, relid};
	TableEntry *entry;

	empty_places();
	memset(stats, 0, sizeof(TableStats));
	LWLockAcquire(table_lock, LW_SHARED);
	entry = hash_search(table, &key, HASH_FIND, NULL);
	if (entry != NULL)
	{
		SpinLockAcquire(&entry->mutex);
		*stats = entry->stats;
		SpinLockRelease(&entry->mutex);
	}
	LWLockRelease(table_lock);
	return entry != NULL;
}

bool
table_stats_exist(Oid dboid, Oid relid)
{
	TableStats	stats;

	return table_stats_get(dboid, relid, &stats);
}

void
table_stats_drop(Oid dboid, Oid relid)
{
	TableKey	key = {dboid, relid};

	empty_places();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	(void) hash_search(table, &key, HASH_REMOVE, NULL);
	LWLockRelease(table_lock);
}

void
table_stats_drop_database(Oid dboid)
{
	remove_entries(dboid);
}

void
table_stats_reset(void)
{
	empty_places();
	remove_entries(InvalidOid);
}

#endif
