/*-------------------------------------------------------------------------
 *
 * zheap_toast_heap.h
 *	  Toast tables of version 1.0, which are heaps.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_TOAST_HEAP_H
#define ZHEAP_TOAST_HEAP_H

#include "postgres.h"

#include "utils/relcache.h"

/*
 * Is the toast table a heap, by its file, whatever the catalog says?  Then the
 * relcache entry is used as a heap's from now on.
 */
extern bool zheap_toast_heap_is_one(Relation toastrel);

/*
 * VACUUM of a toast table comes here first.  True if its file is a heap, put
 * there by pg_upgrade: then the catalog says so, too, once the transaction has
 * committed, and there is nothing else to be done.
 */
extern bool zheap_toast_heap_vacuum(Relation toastrel);

/*
 * A rewrite has filled the toast table newtoast, and core is going to swap it
 * with oldtoast, which may be a heap: let both have one access method.
 */
extern void zheap_toast_heap_prepare_swap(Oid oldtoast, Oid newtoast);

#endif							/* ZHEAP_TOAST_HEAP_H */
