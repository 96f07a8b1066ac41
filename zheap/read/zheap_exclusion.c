/*-------------------------------------------------------------------------
 *
 * zheap_exclusion.c
 *	  Is core checking the rows of a table against a new exclusion constraint?
 *
 * When an index with exclusion operators was built, core scans the table once
 * more and looks for rows in conflict with each row, by a DIRTY scan of the
 * index.  That finds the row itself, too, which core knows by its TID.  So
 * these DIRTY scans must show plain TIDs, where all others show tagged ones.
 *
 *	no check --index built--> expected --scan begins--> running --scan ends--> no
 *																		  check
 *
 * Nothing else begins a scan of the table between build and check.  An error
 * ends the subtransaction, whose xid doesn't come back; so nothing has to be
 * reset.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "access/xact.h"
#include "utils/rel.h"

#include "zheap/read/zheap_scan.h"

typedef enum ExclusionCheck
{
	CHECK_NONE,
	CHECK_EXPECTED,
	CHECK_RUNNING
} ExclusionCheck;

static ExclusionCheck check = CHECK_NONE;
static Oid	check_relid = InvalidOid;
static FullTransactionId check_xid; /* of the subtransaction */

static bool
is_of(Relation rel, ExclusionCheck wanted)
{
	return unlikely(check == wanted) && check_relid == RelationGetRelid(rel) &&
		FullTransactionIdEquals(check_xid, GetCurrentFullTransactionIdIfAny());
}

/* An index of rel with exclusion operators has got its entries. */
void
zheap_exclusion_index_built(Relation rel)
{
	/* the check is made by the leader */
	if (IsParallelWorker())
		return;
	check = CHECK_EXPECTED;
	check_relid = RelationGetRelid(rel);
	check_xid = GetCurrentFullTransactionIdIfAny();
	Assert(FullTransactionIdIsValid(check_xid));
}

/* A sequential scan begins.  Returns whether it is the check. */
bool
zheap_exclusion_scan_begins(Relation rel)
{
	if (!is_of(rel, CHECK_EXPECTED))
		return false;
	check = CHECK_RUNNING;
	return true;
}

void
zheap_exclusion_scan_ends(void)
{
	Assert(check == CHECK_RUNNING);
	check = CHECK_NONE;
}

/* Are DIRTY scans of rel the check's? */
bool
zheap_exclusion_is_checked(Relation rel)
{
	return is_of(rel, CHECK_RUNNING);
}
