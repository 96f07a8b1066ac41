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

/* called from _PG_init */
extern void zheap_guard_register(void);
extern void zheap_ddl_register(void);

/* called by the access method's handler; may throw */
extern void zheap_guard_process(void);

#endif							/* ZHEAP_GUARD_H */
