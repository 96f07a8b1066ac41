/*-------------------------------------------------------------------------
 *
 * table_stats.h
 *	  Counters per table that all backends share: a kind of statistics of
 *	  core's since PostgreSQL 18, a hash table of our own before that.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_TABLE_STATS_H
#define COMPAT_TABLE_STATS_H

#define TABLE_STATS_SUMS	10

typedef struct TableStats
{
	int64		sum[TABLE_STATS_SUMS];
	int64		largest;		/* the largest one there was */
} TableStats;

static inline void
table_stats_merge(TableStats *to, const TableStats *from)
{
	for (int i = 0; i < TABLE_STATS_SUMS; i++)
		to->sum[i] += from->sum[i];
	to->largest = Max(to->largest, from->largest);
}

/* called from _PG_init and from the two hooks of shared memory */
extern void table_stats_register(void);
extern void table_stats_shmem_request(void);
extern void table_stats_shmem_startup(void);

/*
 * What follows may throw; nothing but a buffer may be locked.
 */

/*
 * Where this process counts for a table of its database; good until the next
 * call, the next statement, or the table's end.
 */
extern TableStats *table_stats_mine(Oid relid);

extern void table_stats_add(Oid dboid, Oid relid, const TableStats *more);
extern bool table_stats_get(Oid dboid, Oid relid, TableStats *stats);
extern bool table_stats_exist(Oid dboid, Oid relid);
extern void table_stats_reset(void);

/* The transaction that is about to commit has dropped it, or an earlier one. */
extern void table_stats_drop(Oid dboid, Oid relid);
extern void table_stats_drop_database(Oid dboid);

#endif							/* COMPAT_TABLE_STATS_H */
