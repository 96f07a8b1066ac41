/*-------------------------------------------------------------------------
 *
 * read_stream.h
 *	  Read streams before PostgreSQL 17: the blocks are read one by one when
 *	  they are asked for.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_READ_STREAM_H
#define COMPAT_READ_STREAM_H

#include "access/relscan.h"
#include "storage/bufmgr.h"

#define READ_STREAM_DEFAULT			0x00
#define READ_STREAM_MAINTENANCE		0x01
#define READ_STREAM_SEQUENTIAL		0x02

typedef struct ReadStream ReadStream;

typedef BlockNumber (*ReadStreamBlockNumberCB) (ReadStream *stream,
												void *private_data,
												void *per_buffer_data);

extern ReadStream *read_stream_begin_relation(int flags,
											  BufferAccessStrategy strategy,
											  Relation rel, ForkNumber fork,
											  ReadStreamBlockNumberCB callback,
											  void *private_data,
											  size_t per_buffer_size);
extern Buffer read_stream_next_buffer(ReadStream *stream,
									  void **per_buffer_data);
extern void read_stream_reset(ReadStream *stream);
extern void read_stream_end(ReadStream *stream);

extern Buffer read_neighbour(Relation rel, BlockNumber block, Buffer last,
							 BufferAccessStrategy strategy);

#endif							/* COMPAT_READ_STREAM_H */
