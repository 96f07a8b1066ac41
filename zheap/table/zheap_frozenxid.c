/*-------------------------------------------------------------------------
 *
 * zheap_frozenxid.c
 *	  relfrozenxid of a table: no page holds a 32-bit transaction id, so it is
 *	  advanced by a change of pg_class (U21).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/multixact.h"
#include "access/transam.h"
#include "commands/dbcommands.h"
#include "commands/vacuum.h"
#include "miscadmin.h"
#include "postmaster/autovacuum.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"

#include "undo/undo.h"
#include "zheap/table/zheap_frozenxid.h"

void
zheap_frozenxid_update(Relation rel, BlockNumber pages, double tuples,
					   BlockNumber all_visible, bool hasindex)
{
	MultiXactId minmulti = InvalidMultiXactId;
	bool		updated;
	bool		updated_multi;

	/*
	 * relminmxid is invalid for our tables, unless a rewrite has set it for
	 * any access method, or for the sake of the toast table.
	 */
	if (MultiXactIdIsValid(rel->rd_rel->relminmxid))
		minmulti = GetOldestMultiXactId();
	vac_update_relstats(rel, pages, tuples, all_visible, 0, hasindex,
						undo_frozen_xid(), minmulti, &updated,
						&updated_multi, false);
}

/* how old a relfrozenxid is; a table without one is very old */
static uint32
frozenxid_age(TransactionId xid)
{
	if (!TransactionIdIsNormal(xid))
		return PG_INT32_MAX;
	return (uint32) Max((int32) (ReadNextTransactionId() - xid), 0);
}

/* does core want relfrozenxid to be advanced, by its own rules */
static bool
wants_frozenxid(Relation rel, const VacuumParams *params)
{
	int			limit = params->freeze_table_age;

	if (limit < 0)
		limit = vacuum_freeze_table_age;
	limit = Min(limit, autovacuum_freeze_max_age * 0.95);
	return params->is_wraparound ||
		frozenxid_age(rel->rd_rel->relfrozenxid) >= (uint32) limit;
}

/* from this age on autovacuum comes for the sake of relfrozenxid */
static uint32
forced_age(Relation rel)
{
	int			limit = autovacuum_freeze_max_age;
	StdRdOptions *options = (StdRdOptions *) rel->rd_options;

	if (options != NULL && options->autovacuum.freeze_max_age >= 0)
		limit = Min(limit, options->autovacuum.freeze_max_age);
	return (uint32) limit;
}

bool
zheap_frozenxid_advance(Relation rel, const VacuumParams *params)
{
	Form_pg_class form = rel->rd_rel;
	uint32		age;

	if (!wants_frozenxid(rel, params))
		return false;
	undo_frozen_raise_horizons();
	age = Min(frozenxid_age(form->relfrozenxid),
			  frozenxid_age(undo_frozen_xid()));
	zheap_frozenxid_update(rel, form->relpages, form->reltuples,
						   form->relallvisible, form->relhasindex);
	undo_frozen_warn_of_age(autovacuum_freeze_max_age);
	if (!params->is_wraparound || age >= forced_age(rel))
		return false;
	if (params->log_min_duration == 0)
		ereport(LOG,
				(errmsg("automatic vacuum to prevent wraparound of table \"%s.%s.%s\": advanced relfrozenxid, read no page",
						get_database_name(MyDatabaseId),
						get_namespace_name(RelationGetNamespace(rel)),
						RelationGetRelationName(rel))));
	return true;
}
