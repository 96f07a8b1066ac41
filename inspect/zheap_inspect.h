/*-------------------------------------------------------------------------
 *
 * zheap_inspect.h
 *	  What the SQL functions that look at tables share, and the state of a
 *	  run of zheap_check().
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_INSPECT_H
#define ZHEAP_INSPECT_H

#include "postgres.h"

#include "executor/tuptable.h"
#include "fmgr.h"
#include "storage/lockdefs.h"
#include "utils/relcache.h"
#include "utils/snapshot.h"

#include "zheap/format/zheap_format.h"

/* open and lock a table of ours; ERROR for any other relation */
extern Relation zheap_inspect_open(Oid relid, LOCKMODE lockmode);

/* a row of the materialized result */
extern void zheap_inspect_put_row(FunctionCallInfo fcinfo, Datum *values,
								  bool *nulls);

/*
 * zheap_check_page.c: pages, xact slots, rows, undo chains, visibility map.
 * zheap_check_toast.c: large values.
 * zheap_check.c: the SQL function, and indexes.
 */
typedef struct ZCheck
{
	FunctionCallInfo fcinfo;
	Relation	rel;
	Datum	   *values;			/* workspace for one row */
	bool	   *isnull;
	MemoryContext context;		/* short-lived */

	/* the page in hand, share-locked */
	BlockNumber block;
	OffsetNumber off;			/* row in hand, or Invalid */
	Buffer		buffer;
	Page		page;
	UndoHorizons hz;			/* sampled before the page was locked */
	Fxid		next_fxid;		/* every owner is before it */
	UndoReader	reader;

	/*
	 * Work on a page is cut into units, so that an error in one of them
	 * leaves the others to be done in another go.
	 */
	int			unit;			/* the one in hand */
	int			resume;			/* those up to it are done */
} ZCheck;

/* Report a finding about the row, page or block in hand; expected may be NULL. */
extern void zheap_check_page_complain(ZCheck *check, const char *what,
									  const char *expected);

/*
 * Run fn(check, arg) so that damage (ERRCODE_DATA_CORRUPTED, also when it is
 * the buffer manager that refuses a page) becomes a finding, and
 * everything else an error as usual.  False if it found damage.  A
 * subtransaction: locks and pins taken by fn are gone after an error.
 */
typedef void (*zheap_check_fn) (ZCheck *check, void *arg);
extern bool zheap_check_page_guard(ZCheck *check, zheap_check_fn fn,
								   void *arg);

extern void zheap_check_pages(ZCheck *check);

/*
 * Large values (zheap_check_toast.c): each row that the snapshot sees is shown,
 * then those that none of them points to are looked for.  NULL stands for a
 * table without any.
 */
typedef struct ZToastCheck ZToastCheck;

extern ZToastCheck *zheap_check_toast_begin(ZCheck *check, Snapshot snapshot);
extern void zheap_check_toast_row(ZCheck *check, ZToastCheck *toast,
								  TupleTableSlot *slot);
extern void zheap_check_toast_orphans(ZCheck *check, ZToastCheck *toast);
extern void zheap_check_toast_end(ZToastCheck *toast);

#endif							/* ZHEAP_INSPECT_H */
