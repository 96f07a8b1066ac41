/*-------------------------------------------------------------------------
 *
 * zheap_guard.h
 *	  Commands and functions of others that must not touch zheap tables are
 *	  refused.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_GUARD_H
#define ZHEAP_GUARD_H

#include "access/tableam.h"
#include "nodes/nodes.h"

struct LogicalDecodingContext;
struct XLogRecordBuffer;

/* called from _PG_init */
extern void zheap_guard_register(void);
extern void zheap_ddl_register(void);

/* called by the access method's handler; may throw */
extern void zheap_guard_process(void);

/* zheap_publication.c: until zheap tables are decoded */
extern void zheap_publication_check_table(Oid relid, bool becomes_zheap);
extern void zheap_publication_check_command(Node *stmt);
extern void zheap_publication_warn(Relation rel);
extern const TableAmRoutine *zheap_publication_methods(const TableAmRoutine *methods);
extern void zheap_publication_passed_over(struct LogicalDecodingContext *ctx,
										  struct XLogRecordBuffer *buf);

#endif							/* ZHEAP_GUARD_H */
