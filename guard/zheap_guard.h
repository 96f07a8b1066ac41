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
extern void zheap_register_guard(void);
extern void zheap_register_ddl(void);

#endif							/* ZHEAP_GUARD_H */
