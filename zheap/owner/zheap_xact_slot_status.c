/*-------------------------------------------------------------------------
 *
 * zheap_xact_slot_status.c
 *	  What became of an xact slot's owner.
 *
 * An xact slot never says whether its owner runs, committed or aborted; every
 * backend that asks decides it here, in the order of Z15.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/clog.h"
#include "access/transam.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/owner/zheap_xact_slot.h"

/*
 * Finished transactions that were looked up, and how they ended: on pages that
 * one backend fills these are its own last ones, by turns, on pages that many
 * change those of all who did so lately.  Each has one place.
 */
typedef struct Finished
{
	Fxid		fxid;			/* 0: empty */
	ZXactStatus status;
	XLogRecPtr	lsn;			/* of the commit, if it is to be flushed */
} Finished;

#define FINISHED			256

static Finished finished[FINISHED];

static inline Finished *
finished_place(Fxid fxid)
{
	return &finished[fxid % FINISHED];
}

static inline const Finished *
find_finished(Fxid fxid)
{
	const Finished *f = finished_place(fxid);

	return f->fxid == fxid ? f : NULL;
}

/*
 * Transactions of this backend that committed last.  They have no subtransactions
 * here, and nobody else's answer is needed: when they were noted they ran no
 * more.
 */
#define MY_COMMITTED		4

static Fxid my_committed[MY_COMMITTED];

static inline bool
is_my_committed(Fxid fxid)
{
	/* entries not used yet are InvalidFxid */
	Assert(fxid != InvalidFxid);
	return fxid == my_committed[0] || fxid == my_committed[1] ||
		fxid == my_committed[2] || fxid == my_committed[3];
}

StaticAssertDecl(MY_COMMITTED == 4, "is_my_committed() looks at each");

/* no fxid below this is from the future; raised when one is met */
static Fxid known_next_fxid = InvalidFxid;

void
zheap_xact_slot_note_given(Fxid fxid)
{
	Assert(fxid != InvalidFxid);
	known_next_fxid = Max(known_next_fxid, fxid + 1);
}

static const Finished *
note_finished(Fxid fxid, ZXactStatus status, XLogRecPtr lsn)
{
	Finished   *f = finished_place(fxid);

	Assert(fxid != InvalidFxid &&
		   (status == ZXACT_COMMITTED || status == ZXACT_ABORTED));
	f->fxid = fxid;
	f->status = status;
	f->lsn = lsn;
	return f;
}

/*
 * The abort is recorded when callbacks are told of it, and the first to ask is
 * the rollback, whose callback comes after this one.
 */
static void
ended_callback(XactEvent event, void *arg)
{
	static int	next = 0;
	Fxid		fxid;

	if (event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT)
		return;
	fxid = U64FromFullTransactionId(GetTopFullTransactionIdIfAny());
	if (fxid == InvalidFxid)
		return;
	if (event == XACT_EVENT_ABORT)
		(void) note_finished(fxid, ZXACT_ABORTED, InvalidXLogRecPtr);
	else
	{
		my_committed[next] = fxid;
		next = (next + 1) % MY_COMMITTED;
	}
	zheap_xact_slot_note_given(fxid);
}

void
zheap_xact_slot_register(void)
{
	RegisterXactCallback(ended_callback, NULL);
}

/* true if no transaction can have fxid yet, so that it is garbage */
static bool
fxid_is_future(Fxid fxid)
{
	if (likely(fxid < known_next_fxid))
		return false;
	known_next_fxid = U64FromFullTransactionId(ReadNextFullTransactionId());
	return fxid >= known_next_fxid;
}

/*
 * Is xid, which isn't mine, surely running?  Core looks through all connections
 * for that; the commit log knows it in one step of a transaction that got its
 * xid in this run of the server: whoever ends there says so in the log first.
 * From earlier runs, and on a standby, there are those that never ended.
 */
static bool
is_surely_running(Fxid fxid)
{
	static Fxid this_run = InvalidFxid;
	XLogRecPtr	lsn;

	if (unlikely(this_run == InvalidFxid))
	{
		this_run = undo_log_start_fxid();
		if (this_run == InvalidFxid)
			return false;
	}
	return fxid >= this_run &&
		TransactionIdGetStatus(XidFromFxid(fxid), &lsn) ==
		TRANSACTION_STATUS_IN_PROGRESS;
}

/*
 * Z15.  The 32-bit questions are legal only because fxid >= all_visible_before
 * and fxid < next: then it is within 2^31 of the running xids.  Works in
 * recovery too, where TransactionIdIsInProgress asks the known assigned xids.
 * Any buffer lock may be held; not in a critical section.
 */
static ZXactStatus
status_of(Fxid fxid)
{
	TransactionId xid = XidFromFxid(fxid);
	const Finished *known = find_finished(fxid);

	Assert(CritSectionCount == 0 && fxid != InvalidFxid);
	if (known != NULL)
		return known->status;
	if (TransactionIdIsCurrentTransactionId(xid))
	{
		/*
		 * In the abort callback of a top-level transaction core still calls
		 * its xid current (and in progress), although the abort is recorded.
		 */
		if (IsTransactionState() || GetCurrentTransactionNestLevel() > 1)
			return ZXACT_CURRENT;
	}
	else if (is_surely_running(fxid) || TransactionIdIsInProgress(xid))
		return ZXACT_RUNNING;
	if (TransactionIdDidCommit(xid))
		known = note_finished(fxid, ZXACT_COMMITTED,
							  TransactionIdGetCommitLSN(xid));
	else
		known = note_finished(fxid, ZXACT_ABORTED, InvalidXLogRecPtr);
	return known->status;
}

ZXactStatus
zheap_xact_slot_fxid_status(Fxid fxid, const UndoHorizons *hz)
{
	if (fxid < hz->all_visible_before)
		return ZXACT_ALL_VISIBLE;
	if (unlikely(fxid_is_future(fxid)))
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("zheap row or undo record names transaction %llu, which is in the future",
						(unsigned long long) fxid),
				 errdetail("The next transaction is %llu.",
						   (unsigned long long) known_next_fxid)));
	return is_my_committed(fxid) ? ZXACT_COMMITTED : status_of(fxid);
}

bool
zheap_xact_slot_is_own(ZXactSlot slot, const UndoHorizons *hz)
{
	Fxid		fxid = ZXactSlotFxid(slot);

	return fxid >= hz->all_visible_before &&
		TransactionIdIsCurrentTransactionId(XidFromFxid(fxid));
}

/*
 * Remember in the xact slot that its owner committed.  The commit record must
 * reach the disk before the page does: it is flushed, or the page's LSN is
 * behind it (Z18).  A share lock is enough: the word is written at once and
 * everybody writes the same.
 *
 * Not at the end of an abort: a checkpoint waits for a backend that has logged
 * an image of a page and not yet marked it dirty, but only while the backend's
 * transaction is running for others.  Without that the page could be torn.
 */
static void
set_committed_hint(Buffer buffer, ZXactSlot slot, Fxid fxid)
{
	const Finished *f = find_finished(fxid);
	XLogRecPtr	lsn;
	XLogRecPtr	before;

	AssertPageLocked(buffer);
	if (!IsTransactionState())
		return;
	lsn = f != NULL ? f->lsn : TransactionIdGetCommitLSN(XidFromFxid(fxid));
	if (BufferIsPermanent(buffer) && XLogNeedsFlush(lsn) &&
		BufferGetLSNAtomic(buffer) < lsn)
		return;
	*(volatile uint64 *) &slot->fxid_bits |= ZXACT_HINT_COMMITTED;
	before = ProcLastRecPtr;
	MarkBufferDirtyHint(buffer, true);
	undo_images_note(before);
}

/*
 * Status of an xact slot's owner.  At least a share lock is held.  The xact
 * slot may also be a copy outside of the buffer's page: then the hint is used
 * but never set.  ERROR (data corrupted) if the owner is from the future.
 */
ZXactStatus
zheap_xact_slot_status(Buffer buffer, ZXactSlot slot, const UndoHorizons *hz)
{
	Fxid		fxid = ZXactSlotFxid(slot);
	ZXactStatus status;
	bool		in_page = false;

	if (fxid < hz->all_visible_before)
		return ZXACT_ALL_VISIBLE;
	/* of mine others may set the hint */
	if ((slot->fxid_bits & ZXACT_HINT_COMMITTED) != 0 ||
		is_my_committed(fxid))
		return ZXACT_COMMITTED;

	if (BufferIsValid(buffer))
	{
		char	   *page = (char *) BufferGetPage(buffer);

		in_page = (char *) slot >= page && (char *) slot < page + BLCKSZ;
	}
	if (unlikely(fxid_is_future(fxid)))
	{
		RelFileLocator locator = {0};
		ForkNumber	fork = MAIN_FORKNUM;
		BlockNumber block = InvalidBlockNumber;

		if (BufferIsValid(buffer))
			BufferGetTag(buffer, &locator, &fork, &block);
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg("block %u of zheap relation %u/%u/%u has an xact slot owned by transaction %llu, which is in the future",
						block, locator.spcOid, locator.dbOid,
						locator.relNumber,
						(unsigned long long) fxid),
				 errdetail("The next transaction is %llu.",
						   (unsigned long long) known_next_fxid)));
	}

	status = status_of(fxid);
	if (status == ZXACT_COMMITTED && in_page)
		set_committed_hint(buffer, slot, fxid);
	return status;
}

bool
zheap_xact_slot_any_aborted(Buffer buffer, Page page, const UndoHorizons *hz)
{
	int			nslots = ZPageGetOpaque(page)->nslots;
	int			id;

	for (id = 1; id <= nslots; id++)
	{
		ZXactSlot	slot = ZPageGetXactSlot(page, id);

		if (!ZXactSlotIsFree(slot) &&
			zheap_xact_slot_status(buffer, slot, hz) == ZXACT_ABORTED)
			return true;
	}
	return false;
}
