/*-------------------------------------------------------------------------
 *
 * undo_fake.h
 *	  Relcache entries made by hand, in memory of the caller's.  Private to
 *	  undo/; others get them from undo_fake_relation().
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_FAKE_H
#define UNDO_FAKE_H

#include "catalog/pg_class.h"
#include "utils/rel.h"

#include "undo/undo_defs.h"

typedef struct UndoFakeRelation
{
	RelationData rel;
	FormData_pg_class form;
} UndoFakeRelation;

/*
 * As undo_fake_relation(), in this memory; undo_fake_relation_end() goes with
 * it, before the memory goes.
 */
extern Relation undo_fake_relation_init(UndoFakeRelation *fake,
										RelFileLocator locator,
										char persistence, Oid reloid);
extern void undo_fake_relation_end(Relation rel);

/* for use by the client's own rollback code: relation without a catalog */
extern Relation undo_fake_relation(RelFileLocator locator, char persistence,
								   Oid reloid);
extern void undo_fake_relation_free(Relation rel);

#endif							/* UNDO_FAKE_H */
