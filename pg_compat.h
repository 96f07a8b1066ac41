/*-------------------------------------------------------------------------
 *
 * pg_compat.h
 *	  Differences between PostgreSQL major versions, in one place.
 *
 * The code is written with the names of PostgreSQL 16 and later; this header
 * gives them to 15.  It is the only file that tests PG_VERSION_NUM, and must
 * be included after all core headers.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_PG_COMPAT_H
#define ZHEAP_PG_COMPAT_H

#include "storage/relfilenode.h"
#include "utils/rel.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 160000
#error "zheap_am supports PostgreSQL 15 so far"
#endif

/* relation file locators: spcNode/dbNode/relNode until 15 */
typedef RelFileNode RelFileLocator;
typedef Oid RelFileNumber;

#define InvalidRelFileNumber			InvalidOid
#define RelFileNumberIsValid(n)			OidIsValid(n)
#define RelLocatorSpc(loc)				((loc).spcNode)
#define RelLocatorDb(loc)				((loc).dbNode)
#define RelLocatorNumber(loc)			((loc).relNode)
#define RelationLocator(rel)			((rel)->rd_node)
#define RelFileLocatorEquals(a, b)		RelFileNodeEquals(a, b)
#define RelFileLocatorSkippingWAL(loc)	RelFileNodeSkippingWAL(loc)
#define BackendLocator(bnode)			((bnode).node)
#define CompatMyProcNumber				MyBackendId
#define CompatInvalidProcNumber			InvalidBackendId
/* the process that had a virtual transaction's number; may have another now */
#define CompatVxidProc(vxid)			BackendIdGetProc((vxid).backendId)
#define CompatProcLxid(proc)			((proc)->lxid)
#define CompatDatabaseOwnercheck(db, role)	pg_database_ownercheck(db, role)
#define CompatReindexRelation(relid, params) \
	reindex_relation(relid, 0, params)

#endif							/* ZHEAP_PG_COMPAT_H */
