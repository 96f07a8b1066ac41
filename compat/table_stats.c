/*-------------------------------------------------------------------------
 *
 * table_stats.c
 *	  Counters per table that all backends share.
 *
 * Since PostgreSQL 18 they are a kind of core's cumulative statistics, which
 * sees to everything: backends flush at most once a second, a clean shutdown
 * writes them to core's file, a standby drops what its primary has dropped.
 *
 * Before, they are in a hash table of our own, in the main segment of shared
 * memory: the postmaster writes it to a file when the server ends cleanly, and
 * may use no other.  So there is room for a number of tables; others are not
 * counted.  Nothing tells a standby of dropped tables: what was counted for one
 * stays there until the counters are reset.
 *
 * Beside it each process has places for the tables that it counts for at
 * present, which it changes without a lock, so that transactions need not hand
 * anything on.  Readers add what they find there, and what a process leaves at
 * its end its successor goes on with.  To make room for another table the
 * process moves the counts of one to the hash table.
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

#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "common/hashfn.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/hsearch.h"

#define STAT_FILE			PGSTAT_STAT_PERMANENT_DIRECTORY "/zheap_tables.stat"
#define STAT_FILE_MAGIC		0x5A535432

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
	TableStats	stats;
	slock_t		mutex;			/* of stats */
} TableEntry;

/* what the file has after its head, for each table */
typedef struct FileEntry
{
	TableKey	key;
	TableStats	stats;
} FileEntry;

typedef struct FileHead
{
	uint32		magic;
	uint32		entry_size;
} FileHead;

/*
 * A process counts for the tables of a set in so many places.  Only the process
 * itself changes the counts, and gives a place to a table, with the lock shared.
 */
#define SETS				8
#define PLACES				4

typedef struct Place
{
	TableKey	key;			/* no relid: free */
	uint32		resets;			/* those that had been when it was taken */
	TableStats	stats;
} Place;

typedef struct Places
{
	uint32		resets;			/* changed with the lock held exclusively */
	/* by place in the array of processes, then by set */
	Place		places[FLEXIBLE_ARRAY_MEMBER];
} Places;

static HTAB *table = NULL;
static Places *shared = NULL;
static Place *last = NULL;		/* that table_stats_mine() found */

/*
 * Exclusive: entries come and go, counters are read, the places of others
 * change their table.
 */
static LWLock *table_lock = NULL;

static void
require(void)
{
	if (table == NULL)
		elog(ERROR, "zheap_am must be loaded via shared_preload_libraries");
}

static Place *
set_of(int process, Oid relid)
{
	return &shared->places[(process * SETS + murmurhash32(relid) % SETS) *
						   PLACES];
}

static inline bool
is_taken(const Place *place)
{
	return OidIsValid(place->key.relid) && place->resets == shared->resets;
}

static inline bool
is_place_of(const Place *place, const TableKey *key)
{
	return place->key.relid == key->relid && place->key.dboid == key->dboid &&
		is_taken(place);
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

static void
merge(TableEntry *entry, const TableStats *more)
{
	SpinLockAcquire(&entry->mutex);
	table_stats_merge(&entry->stats, more);
	SpinLockRelease(&entry->mutex);
}

/* ----------------------------------------------------------------
 *	what lasts longer than the server runs
 * ----------------------------------------------------------------
 */

/* what was counted before the last clean shutdown; it doesn't outlive a crash */
static void
read_entries(void)
{
	FILE	   *file = AllocateFile(STAT_FILE, PG_BINARY_R);
	FileHead	head;
	FileEntry	read;

	if (file == NULL)
		return;
	if (fread(&head, sizeof(head), 1, file) == 1 &&
		head.magic == STAT_FILE_MAGIC && head.entry_size == sizeof(FileEntry))
		while (fread(&read, sizeof(read), 1, file) == 1)
		{
			TableEntry *entry = enter(&read.key);

			if (entry != NULL)
				entry->stats = read.stats;
		}
	FreeFile(file);
	unlink(STAT_FILE);
}

static bool
write_entries(FILE *file)
{
	FileHead	head = {STAT_FILE_MAGIC, sizeof(FileEntry)};
	bool		good = fwrite(&head, sizeof(head), 1, file) == 1;
	HASH_SEQ_STATUS status;
	TableEntry *entry;

	for (int i = 0; i < MaxBackends * SETS * PLACES; i++)
	{
		Place	   *place = &shared->places[i];

		if (is_taken(place) && (entry = enter(&place->key)) != NULL)
			table_stats_merge(&entry->stats, &place->stats);
	}
	hash_seq_init(&status, table);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		FileEntry	content = {.key = entry->key,.stats = entry->stats};

		good = good && fwrite(&content, sizeof(content), 1, file) == 1;
	}
	return good;
}

/* Not by a crash, nor by an immediate shutdown? */
static bool
ended_cleanly(void)
{
	bool		good;
	ControlFileData *control = get_controlfile(DataDir, &good);

	return good && (control->state == DB_SHUTDOWNED ||
					control->state == DB_SHUTDOWNED_IN_RECOVERY);
}

/* The postmaster ends. */
static void
write_file(int code, Datum arg)
{
	FILE	   *file;
	bool		good;

	/* else what is in shared memory may be anything */
	if (code != 0 || !ended_cleanly())
		return;
	file = AllocateFile(STAT_FILE ".tmp", PG_BINARY_W);
	good = file != NULL && write_entries(file);
	if (file != NULL && FreeFile(file) != 0)
		good = false;
	if (!good || durable_rename(STAT_FILE ".tmp", STAT_FILE, LOG) != 0)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STAT_FILE)));
}

/* ----------------------------------------------------------------
 *	shared memory
 * ----------------------------------------------------------------
 */

void
table_stats_register(void)
{
}

static Size
places_size(void)
{
	return add_size(offsetof(Places, places),
					mul_size(sizeof(Place) * SETS * PLACES, MaxBackends));
}

void
table_stats_shmem_request(void)
{
	RequestAddinShmemSpace(hash_estimate_size(MAX_TABLES, sizeof(TableEntry)));
	RequestAddinShmemSpace(places_size());
	RequestNamedLWLockTranche(TRANCHE, 1);
}

void
table_stats_shmem_startup(void)
{
	HASHCTL		info =
	{.keysize = sizeof(TableKey),.entrysize = sizeof(TableEntry)};
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	table_lock = &(GetNamedLWLockTranche(TRANCHE))->lock;
	table = ShmemInitHash("zheap table statistics", MAX_TABLES, MAX_TABLES,
						  &info, HASH_ELEM | HASH_BLOBS);
	shared = ShmemInitStruct("zheap table statistics in progress",
							 places_size(), &found);
	if (!found)
		memset(shared, 0, places_size());
	if (!IsUnderPostmaster)
	{
		if (hash_get_num_entries(table) == 0)
			read_entries();
		on_shmem_exit(write_file, (Datum) 0);
	}
	LWLockRelease(AddinShmemInitLock);
}

/* ----------------------------------------------------------------
 *	use
 * ----------------------------------------------------------------
 */

/*
 * Move what a place has to the hash table.  The lock is held shared; may be held
 * exclusively after that.
 */
static void
clear_place(Place *place)
{
	TableEntry *entry = hash_search(table, &place->key, HASH_FIND, NULL);

	if (entry == NULL)
	{
		LWLockRelease(table_lock);
		LWLockAcquire(table_lock, LW_EXCLUSIVE);
		if (is_taken(place))	/* still */
			entry = enter(&place->key);
	}
	if (entry != NULL)
		merge(entry, &place->stats);
}

/* A place for a table, which may have been another's. */
static Place *
take_place(Place *set, const TableKey *key)
{
	static int	next = 0;
	Place	   *place = NULL;

	LWLockAcquire(table_lock, LW_SHARED);
	for (int i = 0; i < PLACES && place == NULL; i++)
		if (!is_taken(&set[i]))
			place = &set[i];
	if (place == NULL)
	{
		place = &set[next++ % PLACES];
		clear_place(place);
	}
	memset(&place->stats, 0, sizeof(TableStats));
	place->key = *key;
	place->resets = shared->resets;
	LWLockRelease(table_lock);
	return place;
}

static TableStats *
find_place(Oid relid)
{
	/* processes without a place here see no tables */
	static TableStats nowhere;
	TableKey	key = {MyDatabaseId, relid};
	int			process;
	Place	   *set;

	require();
	process = (int) (MyProc - ProcGlobal->allProcs);
	if (process >= MaxBackends)
		return &nowhere;
	set = set_of(process, relid);
	for (int i = 0; i < PLACES; i++)
		if (is_place_of(&set[i], &key))
		{
			last = &set[i];
			return &last->stats;
		}
	last = take_place(set, &key);
	return &last->stats;
}

TableStats *
table_stats_mine(Oid relid)
{
	if (last != NULL && last->key.relid == relid &&
		last->resets == shared->resets)
		return &last->stats;
	return find_place(relid);
}

void
table_stats_add(Oid dboid, Oid relid, const TableStats *more)
{
	TableKey	key = {dboid, relid};
	TableEntry *entry;

	require();
	LWLockAcquire(table_lock, LW_SHARED);
	entry = hash_search(table, &key, HASH_FIND, NULL);
	if (entry == NULL)
	{
		LWLockRelease(table_lock);
		LWLockAcquire(table_lock, LW_EXCLUSIVE);
		entry = enter(&key);
	}
	if (entry != NULL)
		merge(entry, more);
	LWLockRelease(table_lock);
}

bool
table_stats_get(Oid dboid, Oid relid, TableStats *stats)
{
	TableKey	key = {dboid, relid};
	TableEntry *entry;
	bool		found;

	require();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	entry = hash_search(table, &key, HASH_FIND, &found);
	if (found)
		*stats = entry->stats;
	else
		memset(stats, 0, sizeof(TableStats));
	for (int process = 0; process < MaxBackends; process++)
	{
		Place	   *set = set_of(process, relid);

		for (int i = 0; i < PLACES; i++)
			if (is_place_of(&set[i], &key))
			{
				table_stats_merge(stats, &set[i].stats);
				found = true;
			}
	}
	LWLockRelease(table_lock);
	return found;
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

	require();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	(void) hash_search(table, &key, HASH_REMOVE, NULL);
	for (int process = 0; process < MaxBackends; process++)
	{
		Place	   *set = set_of(process, relid);

		for (int i = 0; i < PLACES; i++)
			if (is_place_of(&set[i], &key))
				set[i].key.relid = InvalidOid;
	}
	LWLockRelease(table_lock);
}

/* InvalidOid: those of all databases.  The lock is held exclusively. */
static void
remove_entries(Oid dboid)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;

	hash_seq_init(&status, table);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (!OidIsValid(dboid) || entry->key.dboid == dboid)
			(void) hash_search(table, &entry->key, HASH_REMOVE, NULL);
}

void
table_stats_drop_database(Oid dboid)
{
	require();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	remove_entries(dboid);
	for (int i = 0; i < MaxBackends * SETS * PLACES; i++)
		if (shared->places[i].key.dboid == dboid)
			shared->places[i].key.relid = InvalidOid;
	LWLockRelease(table_lock);
}

void
table_stats_reset(void)
{
	require();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	remove_entries(InvalidOid);
	shared->resets++;
	LWLockRelease(table_lock);
}

#endif
