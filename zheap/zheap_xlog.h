/*-------------------------------------------------------------------------
 *
 * zheap_xlog.h
 *	  Redo of what changes pages in this engine: dispatch to the rooms.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_XLOG_H
#define ZHEAP_XLOG_H

#include "access/xlogreader.h"
#include "lib/stringinfo.h"

extern void zheap_xlog_redo(XLogReaderState *record);
extern void zheap_xlog_desc(StringInfo buf, XLogReaderState *record);
extern const char *zheap_xlog_identify(uint8 info);

#endif							/* ZHEAP_XLOG_H */
