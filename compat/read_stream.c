/*-------------------------------------------------------------------------
 *
 * read_stream.c
 *	  Read streams before PostgreSQL 17.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "pgstat.h"

#include "pg_compat.h"

#ifdef COMPAT_READ_STREAM

struct ReadStream
{
	Relation	rel;
	ForkNumber	fork;
	BufferAccessStrategy strategy;
	ReadStreamBlockNumberCB callback;
	void	   *private_data;
	void	   *per_buffer_data;
	BlockNumber last_block;		/* read before, Invalid: none */
	Buffer		last;			/* where; not pinned */
	bool		ended;
};

ReadStream *
read_stream_begin_relation(int flags, BufferAccessStrategy strategy,
						   Relation rel, ForkNumber fork,
						   ReadStreamBlockNumberCB callback,
						   void *private_data, size_t per_buffer_size)
{
	ReadStream *stream = palloc0(sizeof(ReadStream));

	stream->rel = rel;
	stream->fork = fork;
	stream->strategy = strategy;
	stream->callback = callback;
	stream->private_data = private_data;
	stream->per_buffer_data = per_buffer_size > 0 ?
		palloc0(per_buffer_size) : NULL;
	stream->last_block = InvalidBlockNumber;
	return stream;
}

/*
 * As ReadBufferExtended(), for who had the block before in buffer "last" (or
 * Invalid).  Blocks that were loaded one after the other tend to lie so in the
 * buffer pool: try the neighbour before the block is looked up.
 */
Buffer
read_neighbour(Relation rel, BlockNumber block, Buffer last,
			   BufferAccessStrategy strategy)
{
	/* pinning by ReadRecentBuffer would count as heavy use */
	if (last > 0 && last < NBuffers && strategy == NULL &&
		!RelationUsesLocalBuffers(rel) &&
		ReadRecentBuffer(rel->rd_locator, MAIN_FORKNUM, block, last + 1))
	{
		pgstat_count_buffer_read(rel);
		pgstat_count_buffer_hit(rel);
		return last + 1;
	}
	return ReadBufferExtended(rel, MAIN_FORKNUM, block, RBM_NORMAL, strategy);
}

/* The next block, pinned; Invalid at the end, and from then on. */
Buffer
read_stream_next_buffer(ReadStream *stream, void **per_buffer_data)
{
	BlockNumber block = InvalidBlockNumber;
	Buffer		neighbour;

	if (!stream->ended)
		block = stream->callback(stream, stream->private_data,
								 stream->per_buffer_data);
	if (!BlockNumberIsValid(block))
	{
		stream->ended = true;
		return InvalidBuffer;
	}
	if (per_buffer_data != NULL)
		*per_buffer_data = stream->per_buffer_data;
	Assert(stream->fork == MAIN_FORKNUM);
	neighbour = BlockNumberIsValid(stream->last_block) &&
		block == stream->last_block + 1 ? stream->last : InvalidBuffer;
	stream->last = read_neighbour(stream->rel, block, neighbour,
								  stream->strategy);
	stream->last_block = block;
	return stream->last;
}

void
read_stream_reset(ReadStream *stream)
{
	stream->ended = false;
}

void
read_stream_end(ReadStream *stream)
{
	if (stream->per_buffer_data != NULL)
		pfree(stream->per_buffer_data);
	pfree(stream);
}

#endif
