/*-------------------------------------------------------------------------
 *
 * zheap_old_keys.c
 *	  Hints which entries of soft indexes have become old.
 *
 * An index page that is full wants to be rid of entries that nobody needs
 * (zheap_index_delete.c).  Where most keys are different each of its entries is
 * of another table page, and one in ten may be old.  So that it needn't look at
 * ten pages for each, those who change a key in place leave a hint in shared
 * memory which entry that was.
 *
 * Hints are bytes, each in the place that its entry's hash says, and one
 * replaces another.  They may be missing or wrong: they say where to look
 * first, and the table page what is true.  Written and read without a lock.
 *
 * How many there may be is known from core's counters of the table.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/datum.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_stat.h"
#include "zheap/soft/zheap_keyed.h"
#include "zheap/soft/zheap_old_keys.h"

#define HINTS			(1024 * 1024)
#define HINTS_USED		UNDO_KNOB("old-key-hints", HINTS, 1, HINTS)

/* NULL in a backend without shared memory */
static uint8 *hints = NULL;

void
zheap_old_keys_shmem_request(void)
{
	RequestAddinShmemSpace(HINTS);
}

void
zheap_old_keys_shmem_startup(void)
{
	bool		found;

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	hints = ShmemInitStruct("zheap old keys", HINTS, &found);
	if (!found)
		memset(hints, 0, HINTS);
	LWLockRelease(AddinShmemInitLock);
}

static inline uint32
add_value(uint32 hash, Form_pg_attribute att, Datum value, bool isnull)
{
	return hash_combine(hash, isnull ? 0 :
						datum_image_hash(value, att->attbyval, att->attlen));
}

/* where the hint of an entry is, and what it is; 0 means none */
static inline uint8 *
hint_place(uint32 key, const ItemPointerData *tid, uint8 *hint)
{
	uint32		hash = hash_combine(key,
									murmurhash32(ItemPointerGetBlockNumberNoCheck(tid)) +
									ItemPointerGetOffsetNumberNoCheck(tid));

	hash = murmurhash32(hash);
	*hint = hash >> 24 | 1;
	return &hints[hash % HINTS_USED];
}

void
zheap_old_keys_note(Relation rel, Relation index, const char *tuple,
					uint16 len, const ItemPointerData *tid)
{
	TupleDesc	desc = RelationGetDescr(rel);
	TupleDesc	keydesc = RelationGetDescr(index);
	const int16 *columns = index->rd_index->indkey.values;
	uint32		key = RelationGetRelid(index);
	Datum		values[MaxHeapAttributeNumber];
	bool		isnull[MaxHeapAttributeNumber];
	int			nkeys = index->rd_index->indnkeyatts;
	int			last = zheap_tuple_first_columns(columns, nkeys);
	uint8		hint;
	uint8	   *place;

	if (hints == NULL)
		return;
	zheap_tuple_deform_first(desc, last, tuple, len, values, isnull);
	for (int i = 0; i < nkeys; i++)
	{
		int			at = zheap_keyed_soft_column(index, i) - 1;

		if (at >= 0)
			key = add_value(key, TupleDescAttr(keydesc, i), values[at],
							isnull[at]);
	}
	zheap_tuple_free_first(desc, last, tuple, len, values);
	place = hint_place(key, tid, &hint);
	*place = hint;
}

uint32
zheap_old_keys_hash(Relation index, IndexTuple entry)
{
	TupleDesc	keydesc = RelationGetDescr(index);
	uint32		key = RelationGetRelid(index);

	for (int i = 0; i < index->rd_index->indnkeyatts; i++)
	{
		bool		isnull;
		Datum		value = index_getattr(entry, i + 1, keydesc, &isnull);

		if (zheap_keyed_soft_column(index, i) == 0)
			continue;
		key = add_value(key, TupleDescAttr(keydesc, i), value, isnull);
	}
	return key;
}

/*
 * Each change of a key in place counts as a dead row, which is what autovacuum
 * looks at, until VACUUM tells core how many it has left.  There are others.
 */
int64
zheap_old_keys_count(Relation rel)
{
	PgStat_StatTabEntry *entry;
	TableStats	stats;

	if (!table_stats_get(MyDatabaseId, RelationGetRelid(rel), &stats) ||
		stats.sum[ZSTAT_NEW_KEYS] == 0)
		return 0;
	entry = pgstat_fetch_stat_tabentry_ext(rel->rd_rel->relisshared,
										   RelationGetRelid(rel));
	return entry == NULL ? 0 :
		Min(entry->dead_tuples, stats.sum[ZSTAT_NEW_KEYS]);
}

bool
zheap_old_keys_noted(uint32 key, const ItemPointerData *tid)
{
	uint8		hint;
	uint8	   *place;

	if (hints == NULL)
		return false;
	place = hint_place(key, tid, &hint);
	return *place == hint;
}
