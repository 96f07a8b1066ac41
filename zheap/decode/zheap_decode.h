/*-------------------------------------------------------------------------
 *
 * zheap_decode.h
 *	  Logical decoding of changes of zheap tables.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_DECODE_H
#define ZHEAP_DECODE_H

#include "replication/decode.h"
#include "replication/logical.h"

/*
 * One record of the table engine, of any kind (rm_decode).  ERROR if what it
 * says to decoding is malformed.
 */
extern void zheap_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf);

#endif							/* ZHEAP_DECODE_H */
