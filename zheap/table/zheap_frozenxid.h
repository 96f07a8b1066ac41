/*-------------------------------------------------------------------------
 *
 * zheap_frozenxid.h
 *	  relfrozenxid of a table.
 *
 * Private to table/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_FROZENXID_H
#define ZHEAP_FROZENXID_H

#include "commands/vacuum.h"

/*
 * What VACUUM writes to pg_class: sizes, and relfrozenxid and relminmxid, but where
 * these stay.
 */
extern void zheap_frozenxid_update(Relation rel, BlockNumber pages,
								   double tuples, BlockNumber all_visible,
								   bool hasindex);

/*
 * Advance relfrozenxid if core wants that, without a look at any page.  Returns
 * whether that was all that autovacuum came for.
 */
extern bool zheap_frozenxid_advance(Relation rel, const VacuumParams *params);

#endif							/* ZHEAP_FROZENXID_H */
