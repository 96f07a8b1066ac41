/*-------------------------------------------------------------------------
 *
 * undo_apply.h
 *	  Rollback by the client, and by the backend that aborts.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_APPLY_H
#define UNDO_APPLY_H

#include "storage/block.h"
#include "utils/relcache.h"

#include "undo/record/undo_touched.h"

/*
 * The client's rollback of one table page: takes back the changes of every
 * aborted owner of the page, in batches, until none is left.  rel may be a
 * hand-made relcache entry (no tuple descriptor, no indexes).  Called without
 * locks on the page; may raise ERROR on corruption; writes no undo.  A page
 * that is new is left alone, and so is one that a temporary table has lost.
 */
typedef void (*undo_rollback_page_fn) (Relation rel, BlockNumber block);

extern void undo_apply_register_client(undo_rollback_page_fn rollback_page,
									   Oid (*client_am_oid) (void));

/*
 * After an error that was caught without a subtransaction: give back locks on
 * buffers and LWLocks, and whatever else no resource owner knows of.
 */
extern void undo_recover_from_error(void);

/*
 * Roll back pages, at least one, all or none of temporary tables, in the abort
 * callback (U13): catches every error, restores holdoff counts, memory context,
 * resource owner and a pending outer error, repeats AbortTransaction's
 * clean-up.  Temporary pages have no runs and no limit.  Returns true if
 * all pages were done within the limits (then the runs are marked applied),
 * false if the rest is left to the workers (which are woken).
 */
extern bool undo_apply_foreground(const UndoTouchedPage *pages, int npages,
								  const UndoTouchedRun *runs, int nruns,
								  bool unlimited);

/*
 * For the client, between the parts of a page's rollback, any locks held: throws
 * when the abort callback that it is in has taken long enough, so that a worker
 * goes on.  Does nothing anywhere else, nor for temporary tables.
 */
extern void undo_apply_check_time(void);

/* roll back one page through the registered client, rel opened by the caller */
extern void undo_apply_page(Relation rel, BlockNumber block);

/* the client's access method OID, InvalidOid if unknown */
extern Oid	undo_apply_client_am(void);

#endif							/* UNDO_APPLY_H */
