/*-------------------------------------------------------------------------
 *
 * undo_fake.c
 *	  Relcache entries made by hand, for places where catalogs can't be read:
 *	  abort callbacks, and the undo of temporary tables.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/storage.h"
#include "miscadmin.h"
#include "storage/smgr.h"
#include "utils/builtins.h"

#include "undo/log/undo_fake.h"

/*
 * A relcache entry made by hand, good for buffers, smgr, FSM and
 * RelationNeedsWAL(), in places where catalogs can't be read.  It has no
 * tuple descriptor and no table AM: RelationGetNumberOfBlocks() would crash,
 * smgrnblocks(RelationGetSmgr(rel), ..) is the way.  It must be ended before
 * its memory goes, because the storage manager points back at it.
 */
Relation
undo_fake_relation_init(UndoFakeRelation *fake, RelFileLocator locator,
						char persistence, Oid reloid)
{
	Relation	rel = &fake->rel;

	Assert(RelFileNumberIsValid(locator.relNumber));
	Assert(persistence == RELPERSISTENCE_PERMANENT ||
		   persistence == RELPERSISTENCE_UNLOGGED ||
		   persistence == RELPERSISTENCE_TEMP);

	memset(fake, 0, sizeof(*fake));
	rel->rd_rel = &fake->form;
	rel->rd_locator = locator;
	rel->rd_id = reloid;
	rel->rd_refcnt = 1;
	rel->rd_isvalid = true;
	if (persistence == RELPERSISTENCE_TEMP)
	{
		rel->rd_backend = MyProcNumber;
		rel->rd_islocaltemp = true;
	}
	else
		rel->rd_backend = INVALID_PROC_NUMBER;

	fake->form.oid = reloid;
	fake->form.relkind = RELKIND_RELATION;
	fake->form.relpersistence = persistence;
	fake->form.relfilenode = locator.relNumber;
	fake->form.relam = InvalidOid;
	/* zeroes follow */
	(void) pg_ultoa_n(reloid, NameStr(fake->form.relname));

	rel->rd_lockInfo.lockRelId.dbId = locator.dbOid;
	rel->rd_lockInfo.lockRelId.relId = reloid;

	/*
	 * At wal_level=minimal a file created in this transaction is synced at
	 * commit instead of being logged: RelationNeedsWAL() has to be false
	 * then, and it decides by this field.
	 */
	if (persistence == RELPERSISTENCE_PERMANENT &&
		RelFileLocatorSkippingWAL(locator))
		rel->rd_createSubid = TopSubTransactionId;

	return rel;
}

void
undo_fake_relation_end(Relation rel)
{
	Assert(rel->rd_refcnt == 1 && rel->rd_att == NULL);
	smgr_forget_relation(rel);
}

/* In the current memory context; to be freed before that goes. */
Relation
undo_fake_relation(RelFileLocator locator, char persistence, Oid reloid)
{
	return undo_fake_relation_init(palloc(sizeof(UndoFakeRelation)), locator,
								   persistence, reloid);
}

void
undo_fake_relation_free(Relation rel)
{
	undo_fake_relation_end(rel);
	pfree(rel);
}
