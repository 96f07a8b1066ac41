/*-------------------------------------------------------------------------
 *
 * zheap_stat.h
 *	  What is counted per table, for pg_stat_zheap_tables.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_STAT_H
#define ZHEAP_STAT_H

#include "utils/rel.h"

#include "compat/table_stats.h"

/* in the order of the view's columns */
typedef enum ZStatCounter
{
	ZSTAT_IN_PLACE,				/* updates */
	ZSTAT_NEW_KEYS,				/* of these, of indexed columns */
	ZSTAT_MOVED_INDEXED,		/* updates that moved the row, by reason */
	ZSTAT_MOVED_SNAPSHOTS,		/* that are older than an announcement (Z55) */
	ZSTAT_MOVED_NO_ROOM,
	ZSTAT_MOVED_TRIGGER,
	ZSTAT_XACT_SLOTS_SHARED,	/* changes by a shared xact slot */
	ZSTAT_ROWS_SPILLED,
	ZSTAT_PAGES_COMPACTED,		/* that pruning or VACUUM has changed */
	ZSTAT_OLD_VERSIONS,			/* steps back from a version to the one before */
	ZSTAT_COUNTERS
} ZStatCounter;

StaticAssertDecl(ZSTAT_COUNTERS <= TABLE_STATS_SUMS,
				 "counters of a table don't fit");

extern void zheap_stat_register(void);

/* No critical section; a buffer may be locked.  May allocate. */
extern void zheap_stat_count(Relation rel, ZStatCounter counter, int64 n);

/* a reader went back n versions, of one row "longest" */
extern void zheap_stat_count_walk(Relation rel, int64 n, int longest);

/* add what was counted for a table that the running transaction has made */
extern void zheap_stat_add_new(Oid relid, TableStats *stats);

/* forget that, of all of them; throws nothing */
extern void zheap_stat_forget_new(void);

#endif							/* ZHEAP_STAT_H */
