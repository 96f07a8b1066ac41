/*-------------------------------------------------------------------------
 *
 * zheap_open_record.c
 *	  The inserts' open records of the running command.
 *
 * Each table's last one is in its relcache entry, so that a command that fills
 * partitions by turns comes back to them: an insert into 1,000 partitions
 * takes 1.06 of heap's instructions, 1.48 if only the last record is known.
 * One that is lost with the entry costs another record.  Whether it is still
 * the newest of its xact slot is for the caller to see (Z32).
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "storage/bufmgr.h"
#include "utils/memutils.h"
#include "utils/rel.h"

#include "zheap/owner/zheap_xact_slot.h"
#include "zheap/write/zheap_open_record.h"

ZOpenInsert *
zheap_open_record_get(Relation rel, BlockNumber block, Fxid fxid,
					  CommandId cid)
{
	ZOpenInsert *open = rel->rd_amcache;

	return open != NULL && open->record.block == block &&
		open->record.fxid == fxid && open->record.cid == cid ? open : NULL;
}

bool
zheap_open_record_lists(const ZOpenInsert *open, OffsetNumber first, int n,
						bool reused)
{
	const ZOpenRanges *ranges = &open->ranges;

	if (ranges->n == 0)
		return !reused;
	for (int i = 0; i < ranges->n; i++)
	{
		if (first >= ranges->first[i] && first + n - 1 <= ranges->last[i])
			return true;
	}
	return false;
}

void
zheap_open_record_note(Relation rel, Buffer buffer, UndoRecPtr urp, Fxid fxid,
					   CommandId cid, const ZOpenRanges *ranges)
{
	ZOpenInsert *open = rel->rd_amcache;

	if (open == NULL)
		open = rel->rd_amcache = MemoryContextAllocZero(CacheMemoryContext,
														sizeof(ZOpenInsert));
	zheap_xact_slot_note_record(&open->record, rel,
								BufferGetBlockNumber(buffer), urp, fxid, cid);
	open->record.buffer = buffer;
	open->ranges.n = ranges->n;
	for (int i = 0; i < ranges->n; i++)
	{
		open->ranges.first[i] = ranges->first[i];
		open->ranges.last[i] = ranges->last[i];
	}
}
