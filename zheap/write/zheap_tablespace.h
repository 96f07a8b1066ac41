/*-------------------------------------------------------------------------
 *
 * zheap_tablespace.h
 *	  SET TABLESPACE.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_TABLESPACE_H
#define ZHEAP_TABLESPACE_H

#include "utils/relcache.h"

#include "undo/undo_defs.h"

extern void zheap_tablespace_copy(Relation rel,
								  const RelFileLocator *newlocator);
extern void zheap_tablespace_rebuild_indexes(void);
extern bool zheap_tablespace_is_pending(Relation rel);
extern void zheap_tablespace_check(Relation rel);

#endif							/* ZHEAP_TABLESPACE_H */
