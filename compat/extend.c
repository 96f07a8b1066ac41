/*-------------------------------------------------------------------------
 *
 * extend.c
 *	  Extending a file, for PostgreSQL 15.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_class.h"

#include "pg_compat.h"

#ifdef COMPAT_EXTEND

/*
 * The caller keeps others from extending the file at the same time, which
 * EB_SKIP_EXTENSION_LOCK says.
 */
Buffer
ExtendBufferedRel(BufferManagerRelation bmr, ForkNumber fork,
				  BufferAccessStrategy strategy, uint32 flags)
{
	ReadBufferMode mode = (flags & EB_LOCK_FIRST) ? RBM_ZERO_AND_LOCK :
		RBM_NORMAL;

	Assert(flags & EB_SKIP_EXTENSION_LOCK);
	if (bmr.rel != NULL)
		return ReadBufferExtended(bmr.rel, fork, P_NEW, mode, strategy);
	return ReadBufferWithoutRelcache(bmr.smgr->smgr_rnode.node, fork, P_NEW,
									 mode, strategy,
									 bmr.relpersistence ==
									 RELPERSISTENCE_PERMANENT);
}

/* one block at a time; buffers are returned pinned */
BlockNumber
ExtendBufferedRelBy(BufferManagerRelation bmr, ForkNumber fork,
					BufferAccessStrategy strategy, uint32 flags,
					uint32 extend_by, Buffer *buffers, uint32 *extended_by)
{
	buffers[0] = ExtendBufferedRel(bmr, fork, strategy, flags);
	*extended_by = 1;
	return BufferGetBlockNumber(buffers[0]);
}

#endif
