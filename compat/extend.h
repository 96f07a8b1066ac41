/*-------------------------------------------------------------------------
 *
 * extend.h
 *	  Extending a file by several blocks at once, for PostgreSQL 15.
 *
 *-------------------------------------------------------------------------
 */
#ifndef COMPAT_EXTEND_H
#define COMPAT_EXTEND_H

#include "storage/bufmgr.h"
#include "storage/smgr.h"
#include "utils/rel.h"

/* a relation, or a file that has no relcache entry */
typedef struct BufferManagerRelation
{
	Relation	rel;
	SMgrRelation smgr;
	char		relpersistence;
} BufferManagerRelation;

#define BMR_REL(r)				((BufferManagerRelation) {.rel = (r)})
#define BMR_SMGR(s, p)			((BufferManagerRelation) {.smgr = (s), .relpersistence = (p)})

#define EB_SKIP_EXTENSION_LOCK	0x01
#define EB_LOCK_FIRST			0x08

extern BlockNumber ExtendBufferedRelBy(BufferManagerRelation bmr,
									   ForkNumber fork,
									   BufferAccessStrategy strategy,
									   uint32 flags, uint32 extend_by,
									   Buffer *buffers, uint32 *extended_by);
extern Buffer ExtendBufferedRel(BufferManagerRelation bmr, ForkNumber fork,
								BufferAccessStrategy strategy, uint32 flags);

#endif							/* COMPAT_EXTEND_H */
