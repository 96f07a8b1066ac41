/*-------------------------------------------------------------------------
 *
 * zheap_buffer.c
 *	  Pinning a block of a table that was pinned a moment ago.
 *
 * An UPDATE or DELETE reads a row's block two or three times: by a scan, to
 * fetch the old version, to change it.  Where the block lies in the buffer
 * pool is remembered, so that only the first of these has to look it up.  What
 * is remembered is a hint: the buffer's tag decides.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"
#include "pgstat.h"
#include "storage/bufmgr.h"
#include "utils/rel.h"

#include "undo/undo_debug.h"
#include "zheap/back/zheap_back.h"

#define RECENT_BUFFERS		16
#define RECENT_BUFFERS_USED	UNDO_KNOB("recent-buffers", RECENT_BUFFERS, 1, RECENT_BUFFERS)

static struct
{
	RelFileLocator locator;
	BlockNumber block;
	Buffer		buffer;			/* Invalid: empty */
}			recent[RECENT_BUFFERS];

/* Remember that the block is in that buffer. */
void
zheap_buffer_note(Relation rel, BlockNumber block, Buffer buffer)
{
	int			i = block % RECENT_BUFFERS_USED;

	Assert(BufferIsValid(buffer) && BlockNumberIsValid(block));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		return;
	recent[i].locator = rel->rd_locator;
	recent[i].block = block;
	recent[i].buffer = buffer;
}

/*
 * The block, pinned, if it was pinned a moment ago and is in memory still; so
 * it exists.  Else Invalid.
 */
Buffer
zheap_buffer_recent(Relation rel, BlockNumber block)
{
	int			i = block % RECENT_BUFFERS_USED;

	Assert(BlockNumberIsValid(block));
	/* a temporary table may bear another table's number */
	if (BufferIsValid(recent[i].buffer) && recent[i].block == block &&
		!RelationUsesLocalBuffers(rel) &&
		RelFileLocatorEquals(recent[i].locator, rel->rd_locator) &&
		ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block,
						 recent[i].buffer))
	{
		pgstat_count_buffer_read(rel);
		pgstat_count_buffer_hit(rel);
		Assert(BufferGetBlockNumber(recent[i].buffer) == block);
		return recent[i].buffer;
	}
	return InvalidBuffer;
}

/* As ReadBuffer(). */
Buffer
zheap_buffer_read(Relation rel, BlockNumber block)
{
	Buffer		buffer = zheap_buffer_recent(rel, block);

	if (!BufferIsValid(buffer))
	{
		buffer = ReadBuffer(rel, block);
		zheap_buffer_note(rel, block, buffer);
	}
	return buffer;
}

/*
 * Where the page of the next block will probably be, since blocks that were
 * loaded one after the other tend to lie so in the buffer pool; NULL if that
 * can't be said.  An address, nothing more: not to be read from.
 */
const char *
zheap_buffer_next_page(Relation rel, Buffer buffer,
					   BufferAccessStrategy strategy)
{
	if (RelationUsesLocalBuffers(rel) || strategy != NULL ||
		buffer >= NBuffers)
		return NULL;
	return (const char *) BufferGetPage(buffer + 1);
}
