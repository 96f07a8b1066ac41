/*-------------------------------------------------------------------------
 *
 * undo_cache.c
 *	  Memory of this backend's read caches: allocated when first used, in one
 *	  memory context, which pg_backend_memory_contexts shows.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "utils/memutils.h"

#include "undo/undo_cache.h"

static MemoryContext cache_context = NULL;

void *
undo_cache_alloc(Size size)
{
	Assert(CritSectionCount == 0);
	if (cache_context == NULL)
		cache_context = AllocSetContextCreate(TopMemoryContext,
											  "zheap read caches",
											  ALLOCSET_START_SMALL_SIZES);
	return MemoryContextAllocExtended(cache_context, size,
									  MCXT_ALLOC_ZERO | MCXT_ALLOC_HUGE);
}
