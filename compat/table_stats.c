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

static const PgStat_KindInfo table_stats_kind = {
	.name = "zheap_tables",
	.fixed_amount = false,
	.write_to_file = true,
	.shared_size = sizeof(TableStatsEntry),
	.shared_data_off = offsetof(TableStatsEntry, stats),
	.shared_data_len = sizeof(TableStats),
	.pending_size = sizeof(TableStats),
	.flush_pending_cb = flush_entry
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

	if (found != NULL)
		*stats = *found;
	return found != NULL;
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

#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
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

static HTAB *table = NULL;
static LWLock *table_lock = NULL;	/* exclusive: entries come and go */

static void
require(void)
{
	if (table == NULL)
		elog(ERROR, "zheap_am must be loaded via shared_preload_libraries");
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

	hash_seq_init(&status, table);
	while ((entry = hash_seq_search(&status)) != NULL)
	{
		FileEntry	content = {.key = entry->key,.stats = entry->stats};

		good = good && fwrite(&content, sizeof(content), 1, file) == 1;
	}
	return good;
}

/* The postmaster ends. */
static void
write_file(int code, Datum arg)
{
	FILE	   *file;
	bool		good;

	/* a crash: what is in shared memory may be anything */
	if (code != 0)
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

	require();
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

void
table_stats_drop(Oid dboid, Oid relid)
{
	TableKey	key = {dboid, relid};

	require();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	(void) hash_search(table, &key, HASH_REMOVE, NULL);
	LWLockRelease(table_lock);
}

/* InvalidOid: those of all databases */
static void
remove_all(Oid dboid)
{
	HASH_SEQ_STATUS status;
	TableEntry *entry;

	require();
	LWLockAcquire(table_lock, LW_EXCLUSIVE);
	hash_seq_init(&status, table);
	while ((entry = hash_seq_search(&status)) != NULL)
		if (!OidIsValid(dboid) || entry->key.dboid == dboid)
			(void) hash_search(table, &entry->key, HASH_REMOVE, NULL);
	LWLockRelease(table_lock);
}

void
table_stats_drop_database(Oid dboid)
{
	remove_all(dboid);
}

void
table_stats_reset(void)
{
	remove_all(InvalidOid);
}

#endif
