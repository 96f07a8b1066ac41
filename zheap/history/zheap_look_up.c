/*-------------------------------------------------------------------------
 *
 * zheap_look_up.c
 *	  Looking up from a long reading of undo: is the process interrupted?
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/timeout.h"

#include "zheap/history/zheap_look_up.h"

/*
 * To be called for each record passed where nothing else bounds their number.
 * Now and then it looks whether the walk is to end.  With pages locked nobody
 * could be told to give that up, so the interrupt that locks hold off is served
 * by an error with core's words; what remains to be done of it is done when the
 * locks are gone.
 */
void
zheap_walk_look_up(int *until_look)
{
	if (likely(--*until_look > 0))
		return;
	*until_look = ZWALK_LOOK_UP;
	Assert(CritSectionCount == 0);
	UNDO_POINT("long-walk");
	if (!InterruptPending || QueryCancelHoldoffCount > 0)
		return;
	if (ProcDiePending)
		ereport(ERROR,
				(errcode(ERRCODE_ADMIN_SHUTDOWN),
				 errmsg("terminating connection due to administrator command")));
	if (!QueryCancelPending)
		return;
	QueryCancelPending = false;
	ereport(ERROR,
			(errcode(ERRCODE_QUERY_CANCELED),
			 get_timeout_indicator(STATEMENT_TIMEOUT, true) ?
			 errmsg("canceling statement due to statement timeout") :
			 errmsg("canceling statement due to user request")));
}
