/*-------------------------------------------------------------------------
 *
 * undo_defs.h
 *	  Types of the undo store: undo record pointers, log numbers, where logs
 *	  live.  Types only; no function of ours is declared here.
 *
 * An undo record pointer (URP) is physical:
 *
 *	  63             46 45                         15 14             0
 *	 +-----------------+-----------------------------+----------------+
 *	 |  log number 18  |        block number 31      |  byte offset 15|
 *	 +-----------------+-----------------------------+----------------+
 *
 * Block 0 of a log is its control page, so no record has pointer 0.  A pointer
 * alone never says whether its record still exists: the 64-bit xid of the
 * record's writer does, compared with the two horizons, UndoHorizons.  The
 * number space of logs is separate for permanent and for unlogged relations;
 * a reader that follows a pointer knows the relation and so its persistence.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_DEFS_H
#define UNDO_DEFS_H

#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_tablespace_d.h"
#include "storage/block.h"
#include "storage/off.h"

#include "pg_compat.h"

typedef uint64 UndoRecPtr;

#define InvalidUndoRecPtr			((UndoRecPtr) 0)
#define UndoRecPtrIsValid(p)		((p) != InvalidUndoRecPtr)

#define UNDO_LOG_BITS				18
#define UNDO_BLOCK_BITS				31
#define UNDO_OFFSET_BITS			15

#define MakeUndoRecPtr(log, block, off) \
	((((UndoRecPtr) (log)) << (UNDO_BLOCK_BITS + UNDO_OFFSET_BITS)) | \
	 (((UndoRecPtr) (block)) << UNDO_OFFSET_BITS) | (UndoRecPtr) (off))
#define UndoRecPtrGetLog(p) \
	((uint32) ((p) >> (UNDO_BLOCK_BITS + UNDO_OFFSET_BITS)))
#define UndoRecPtrGetBlock(p) \
	((BlockNumber) (((p) >> UNDO_OFFSET_BITS) & ((UINT64CONST(1) << UNDO_BLOCK_BITS) - 1)))
#define UndoRecPtrGetOffset(p) \
	((uint16) ((p) & ((UINT64CONST(1) << UNDO_OFFSET_BITS) - 1)))

#define UndoRecPtrFormat			"%u/%u/%u"
#define UndoRecPtrFormatArgs(p) \
	UndoRecPtrGetLog(p), UndoRecPtrGetBlock(p), (unsigned) UndoRecPtrGetOffset(p)

typedef uint32 UndoLogNumber;

/* the one log of a session's temporary tables */
#define UNDO_TEMP_LOG				((UndoLogNumber) ((1 << UNDO_LOG_BITS) - 1))
#define UNDO_MAX_LOGS				UNDO_TEMP_LOG

/*
 * Where logs live.  Database 9 cannot exist (CREATE DATABASE refuses OIDs
 * below 16384, and initdb does not use it).  Temporary undo lives in the
 * session's own database and its default tablespace, in local buffers.
 */
#define UNDO_TABLESPACE				DEFAULTTABLESPACE_OID
#define UNDO_DATABASE				((Oid) 9)
#define UNDO_GLOBAL_RELNUMBER		((RelFileNumber) 1)
#define UNDO_PERMANENT_BASE			((RelFileNumber) 100)	/* + log number */
#define UNDO_UNLOGGED_BASE			((RelFileNumber) 1000000)	/* + log number */
#define UNDO_TEMP_RELNUMBER			((RelFileNumber) 9001)

typedef uint64 Fxid;			/* U64FromFullTransactionId(), 0 = none */

#define InvalidFxid					((Fxid) 0)
#define XidFromFxid(f)				((TransactionId) (f))

/*
 * A transaction before all_visible_before (U in the READMEs) committed and is
 * visible to all: neither commit log nor undo may be asked about it.  One
 * before discard_before (H) is visible to all if it committed, and its undo
 * may be gone.  all_visible_before <= discard_before; both only rise.  Sample
 * them before locking a table page and judge the copy by that sample (U1).
 */
typedef struct UndoHorizons
{
	Fxid		all_visible_before;
	Fxid		discard_before;
} UndoHorizons;

/* these kinds belong to the client; what they mean the store doesn't know */
#define UNDO_MAX_KIND		63
#define UNDO_KIND_RUN		255

/*
 * Bytes of a record before its payload, of a run header with what it adds to
 * the page, and of a payload, at most; see undo_page.h, which proves them.
 */
#define UNDO_MAX_HEAD		(BLCKSZ > 1 << 14 ? 26 : 24)
#define UNDO_MAX_RUN		19
#define UNDO_MAX_PAYLOAD	(BLCKSZ - 24 - 40 - UNDO_MAX_RUN - UNDO_MAX_HEAD)

/*
 * As a chain: the record that was added before, in the same insertion.  (For
 * undo_pack.h, a pointer that isn't known yet.)
 */
#define UNDO_CHAIN_PREVIOUS		(~(UndoRecPtr) 0)

/* a record on its way to a page */
typedef struct UndoInsertRec
{
	uint8		kind;
	uint8		flags;
	OffsetNumber offset;
	BlockNumber block;
	UndoRecPtr	chain;			/* previous record of the table page's slot */
	const char *payload;		/* must live until undo_insert_release() */
	uint16		payload_len;
	UndoRecPtr	urp;			/* out: set by undo_insert_prepare() */
	/* private */
	bool		chain_previous; /* chain is the record before */
	uint8		head_len;		/* what goes to the page before the payload */
	char		head[UNDO_MAX_HEAD];
} UndoInsertRec;

/* have a cache line fetched that is going to be read; the address may be any */
#if defined(__GNUC__)
#define fetch_line(p)	__builtin_prefetch(p)
#else
#define fetch_line(p)	((void) 0)
#endif

#endif							/* UNDO_DEFS_H */
