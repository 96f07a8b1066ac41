/*-------------------------------------------------------------------------
 *
 * table_stats.c
 *	  Counters per table that all backends share.
 *
 * Since PostgreSQL 18 they are a kind of core's cumulative statistics, which
 * sees to everything: backends flush at most once a second, a clean shutdown
 * writes them to core's file, a standby drops what its primary has dropped.
 *
 * Before, they are in a hash table of our own in dynamic shared memory.  Its
 * first part is in the main segment, as core's is, so that few tables need no
 * more.  The postmaster writes the table to a file when the server ends
 * cleanly; the first process that needs it afterwards reads the file.  Nothing
 * tells a standby of dropped tables: what was counted for one stays there until
 * the counters are reset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

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
	pgstat_drop_transactional(TABLE_STATS_KIND, dboid, relid);
}

/* core does */
void
table_stats_drop_database(Oid dboid)
{
}

#else

#include "common/hashfn.h"
#include "lib/dshash.h"
#include "storage/fd.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/dsa.h"
#include "utils/memutils.h"

#define STAT_FILE			PGSTAT_STAT_PERMANENT_DIRECTORY "/zheap_tables.stat"
#define STAT_FILE_MAGIC		0x5A535432

/* the part in the main segment */
#define FIRST_SIZE			((Size) 256 * 1024)

typedef struct TableKey
{
	Oid			dboid;
	Oid			relid;
} TableKey;

/* what the hash table holds, and the file after its head */
typedef struct TableEntry
{
	TableKey	key;
	TableStats	stats;
} TableEntry;

typedef struct FileHead
{
	uint32		magic;
	uint32		entry_size;
} FileHead;

typedef struct TableStatsShared
{
	int			tranche;
	LWLock		lock;			/* while the file is read */
	bool		loaded;
	dshash_table_handle handle;
	/* then memory for the first part */
} TableStatsShared;

static TableStatsShared *stats_shared = NULL;
static dsa_area *area = NULL;
static dshash_table *table = NULL;

static inline void *
first_part(void)
{
	return (char *) stats_shared + MAXALIGN(sizeof(TableStatsShared));
}

static dshash_parameters
table_parameters(void)
{
	dshash_parameters parameters = {
		.key_size = sizeof(TableKey),
		.entry_size = sizeof(TableEntry),
		.compare_function = dshash_memcmp,
		.hash_function = dshash_memhash,
		COMPAT_DSHASH_COPY
		.tranche_id = stats_shared->tranche
	};

	return parameters;
}

/* ----------------------------------------------------------------
 *	attaching
 * ----------------------------------------------------------------
 */

static void
attach(void)
{
	dshash_parameters parameters = table_parameters();
	MemoryContext old = MemoryContextSwitchTo(TopMemoryContext);

	if (area == NULL)
	{
		area = dsa_attach_in_place(first_part(), NULL);
		dsa_pin_mapping(area);
	}
	table = dshash_attach(area, &parameters, stats_shared->handle, NULL);
	MemoryContextSwitchTo(old);
}

/* what was counted before the last clean shutdown */
static void
read_entries(void)
{
	FILE	   *file = AllocateFile(STAT_FILE, PG_BINARY_R);
	FileHead	head;
	TableEntry	read;

	if (file == NULL)
		return;
	if (fread(&head, sizeof(head), 1, file) == 1 &&
		head.magic == STAT_FILE_MAGIC && head.entry_size == sizeof(TableEntry))
		while (fread(&read, sizeof(read), 1, file) == 1)
		{
			bool		found;
			TableEntry *entry = dshash_find_or_insert(table, &read.key,
													  &found);

			entry->stats = read.stats;
			dshash_release_lock(table, entry);
		}
	FreeFile(file);
	unlink(STAT_FILE);
}

/* in each process before it uses the hash table */
static void
require(void)
{
	if (table != NULL)
		return;
	if (stats_shared == NULL)
		elog(ERROR, "zheap_am must be loaded via shared_preload_libraries");
	attach();
	LWLockAcquire(&stats_shared->lock, LW_EXCLUSIVE);
	if (!stats_shared->loaded)
		read_entries();
	stats_shared->loaded = true;
	LWLockRelease(&stats_shared->lock);
}

static bool
write_entries(FILE *file)
{
	FileHead	head = {STAT_FILE_MAGIC, sizeof(TableEntry)};
	dshash_seq_status status;
	TableEntry *entry;
	bool		good = fwrite(&head, sizeof(head), 1, file) == 1;

	dshash_seq_init(&status, table, false);
	while (good && (entry = dshash_seq_next(&status)) != NULL)
		good = fwrite(entry, sizeof(*entry), 1, file) == 1;
	dshash_seq_term(&status);
	return good;
}

/* The postmaster ends, without a crash: what wasn't loaded is in the file. */
static void
write_file(int code, Datum arg)
{
	FILE	   *file;
	bool		good;

	if (code != 0 || !stats_shared->loaded)
		return;
	if (table == NULL)
		attach();
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

static Size
shmem_size(void)
{
	return add_size(MAXALIGN(sizeof(TableStatsShared)), FIRST_SIZE);
}

void
table_stats_register(void)
{
}

void
table_stats_shmem_request(void)
{
	RequestAddinShmemSpace(shmem_size());
}

static void
create_table(void)
{
	dshash_parameters parameters = table_parameters();
	dsa_area   *created = dsa_create_in_place(first_part(), FIRST_SIZE,
											  stats_shared->tranche, NULL);
	dshash_table *hash;

	dsa_pin(created);
	/* no segments are to be had here */
	dsa_set_size_limit(created, FIRST_SIZE);
	hash = dshash_create(created, &parameters, NULL);
	stats_shared->handle = dshash_get_hash_table_handle(hash);
	dsa_set_size_limit(created, (size_t) -1);
	dshash_detach(hash);
	dsa_detach(created);
}

void
table_stats_shmem_startup(void)
{
	bool		found;

	/* of the shared memory that was there before a crash */
	area = NULL;
	table = NULL;
	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	stats_shared = ShmemInitStruct("zheap table statistics", shmem_size(),
								   &found);
	if (!found)
	{
		stats_shared->tranche = LWLockNewTrancheId();
		LWLockRegisterTranche(stats_shared->tranche, "zheap_table_stats");
		LWLockInitialize(&stats_shared->lock, stats_shared->tranche);
		stats_shared->loaded = false;
		create_table();
	}
	LWLockRelease(AddinShmemInitLock);
	if (!IsUnderPostmaster)
		on_shmem_exit(write_file, (Datum) 0);
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
	bool		found;

	require();
	entry = dshash_find_or_insert(table, &key, &found);
	if (!found)
		memset(&entry->stats, 0, sizeof(TableStats));
	table_stats_merge(&entry->stats, more);
	dshash_release_lock(table, entry);
}

bool
table_stats_get(Oid dboid, Oid relid, TableStats *stats)
{
	TableKey	key = {dboid, relid};
	TableEntry *entry;

	require();
	entry = dshash_find(table, &key, false);
	if (entry == NULL)
		return false;
	*stats = entry->stats;
	dshash_release_lock(table, entry);
	return true;
}

void
table_stats_drop(Oid dboid, Oid relid)
{
	TableKey	key = {dboid, relid};

	require();
	(void) dshash_delete_key(table, &key);
}

/* InvalidOid: those of all databases */
static void
delete_all(Oid dboid)
{
	dshash_seq_status status;
	TableEntry *entry;

	require();
	dshash_seq_init(&status, table, true);
	while ((entry = dshash_seq_next(&status)) != NULL)
		if (!OidIsValid(dboid) || entry->key.dboid == dboid)
			dshash_delete_current(&status);
	dshash_seq_term(&status);
}

void
table_stats_drop_database(Oid dboid)
{
	delete_all(dboid);
}

void
table_stats_reset(void)
{
	delete_all(InvalidOid);
}

#endif
