/*-------------------------------------------------------------------------
 *
 * zheap_tuple.h
 *	  Rows: forming, deforming, toasting, and the tuple slot type.  (The row's
 *	  bytes are pictured in zheap_page.h.)
 *
 * Values are stored without padding, so the offsets of leading fixed-length
 * not-null columns are plain sums.  By-value columns are read with memcpy; a
 * by-reference value whose type wants alignment and whose address lacks it is
 * copied to aligned memory of the tuple slot when deformed.
 *
 *-------------------------------------------------------------------------
 */
#ifndef ZHEAP_TUPLE_H
#define ZHEAP_TUPLE_H

#include "access/tupdesc.h"
#include "executor/tuptable.h"

#include "zheap/format/zheap_page.h"

/*
 * Largest tuple: alone on a page with one xact slot.  With its 18 or 19 bytes
 * less of header, what fits into heap fits here, but for the last two bytes.
 */
#define ZHEAP_MAX_TUPLE_SIZE \
	(BLCKSZ - SizeOfPageHeaderData - sizeof(ItemIdData) - \
	 sizeof(ZPageOpaqueData) - sizeof(ZXactSlotData))

/* toast when longer than this */
#define ZHEAP_TOAST_THRESHOLD	2032

/* a formed row: bytes as they go to the page, header with slot id 0, no flags2 */
typedef struct ZTuple
{
	uint16		len;			/* true length */
	char	   *data;			/* palloc'd with the struct */
} ZTuple;

/* what a row will look like */
typedef struct ZFormPlan
{
	Size		len;			/* whole row */
	Size		bitmap;			/* bytes of null bitmap, 0 if none */
	uint16		flags1;			/* ZH_HASNULL, ... */
	bool		expanded;		/* some value must be flattened before */
} ZFormPlan;

extern void zheap_tuple_plan(TupleDesc desc, const Datum *values,
							 const bool *isnull, ZFormPlan *plan);

/* the same; what has to be flat for it is flat in the result */
extern const Datum *zheap_tuple_plan_flat(TupleDesc desc, const Datum *values,
										  const bool *isnull, ZFormPlan *plan);

/* values are flat; raises "row is too big" (54000) */
extern ZTuple *zheap_tuple_form_planned(TupleDesc desc, const Datum *values,
										const bool *isnull,
										const ZFormPlan *plan);

/*
 * Form a row from values (detoasting nothing; short varlena headers are made
 * where the type allows).  Raises "row is too big" (54000) above
 * ZHEAP_MAX_TUPLE_SIZE.  natts as in the descriptor.
 */
extern ZTuple *zheap_tuple_form(TupleDesc desc, const Datum *values,
								const bool *isnull);

/*
 * The same for a version that goes to no page: it may be longer.  Raises above
 * PG_UINT16_MAX.
 */
extern ZTuple *zheap_tuple_form_long(TupleDesc desc, const Datum *values,
									 const bool *isnull);

/*
 * Form a row in *buf, of *bufsize bytes, which is replaced by a larger one from
 * context if need be; none of the values lies there.  0, with nothing done, for
 * a row that may have to be toasted.
 */
extern uint16 zheap_tuple_form_small(TupleDesc desc, const Datum *values,
									 const bool *isnull, MemoryContext context,
									 char **buf, uint32 *bufsize);

/*
 * Bytes of a row to be inserted, the number "row" of those that are given, that
 * a row of the table has, too.  Places are counted backwards from the ends of
 * both rows.
 */
typedef struct ZLendPiece
{
	ItemPointerData tid;
	uint16		row;
	uint16		before_end;
	uint16		from_before_end;
	uint16		len;
} ZLendPiece;

/*
 * What inserts chunks of values that replace others: zheap_insert_chunks(), which
 * stands above those that save values and so is handed down.
 */
typedef void (*ZInsertChunks) (Relation rel, TupleTableSlot **slots,
							   int nslots, CommandId cid, int options,
							   const ZLendPiece *piece, int npieces);

/*
 * Form a row from any kind of tuple slot, toasting as heap would; oldslot is
 * the row version being replaced, or NULL; insert is for it.  options:
 * HEAP_INSERT_*.  Writes to the toast table: no buffer locks held.
 */
extern ZTuple *zheap_toast_form_from_slot(Relation rel, TupleTableSlot *slot,
										  TupleTableSlot *oldslot,
										  ZInsertChunks insert, int options);

/*
 * The same for a row that isn't to be toasted, whatever it replaces, and needs
 * none of that; else NULL.  Buffer locks may be held.
 */
extern ZTuple *zheap_toast_form_untoasted(Relation rel, TupleTableSlot *slot);

/* delete the toasted values of a row version (by DELETE); no buffer locks */
extern void zheap_toast_delete(Relation rel, const char *tuple, uint16 len,
							   bool is_speculative);

extern bool zheap_tuple_has_external(const char *tuple);

/*
 * Deform all columns, or the first so many; by-reference results point into
 * tuple or are palloc'd where alignment demands.  Columns beyond the row's natts
 * come from the descriptor's missing values.
 */
extern void zheap_tuple_deform(TupleDesc desc, const char *tuple, uint16 len,
							   Datum *values, bool *isnull);
extern void zheap_tuple_deform_first(TupleDesc desc, int ncolumns,
									 const char *tuple, uint16 len,
									 Datum *values, bool *isnull);

/*
 * All columns; nothing is palloc'd: by-reference results point into the row, or
 * to the missing values, whatever alignment their type wants.
 */
extern void zheap_tuple_deform_raw(TupleDesc desc, const char *tuple,
								   uint16 len, Datum *values, bool *isnull);

/* how many that is if these n columns are wanted */
extern int	zheap_tuple_first_columns(const AttrNumber *attnum, int n);

/* pfree what was palloc'd for that; values as they were filled */
extern void zheap_tuple_free_first(TupleDesc desc, int ncolumns,
								   const char *tuple, uint16 len,
								   const Datum *values);
extern void zheap_tuple_free_copies(TupleDesc desc, const char *tuple,
									uint16 len, const Datum *values);

/*
 * The same with toasting, from values, for a table that is being rewritten:
 * values that are out of line already keep their identity.
 */
extern ZTuple *zheap_toast_form_rewritten(Relation rel, const Datum *values,
										  const bool *isnull, int options);

/* the same for flat values, as short as out of line values can make it */
extern ZTuple *zheap_toast_form_short(Relation rel, const Datum *values,
									  const bool *isnull, int options);

/*
 * Defaults of columns that were added without a rewrite, for versions of rows
 * that are older than a rewrite: a row with these columns, the others null.
 */
typedef struct ZMissing
{
	struct ZMissing *next;		/* of a later rewrite */
	uint16		len;
	char		data[FLEXIBLE_ARRAY_MEMBER];
} ZMissing;

/*
 * The row with columns added that it hasn't: from the list, first come first
 * served, and from the descriptor beyond.  It may be longer than a page.  What
 * is allocated besides is left to the context.
 */
extern ZTuple *zheap_tuple_add_missing(TupleDesc desc, const char *tuple,
									   uint16 len, const ZMissing *missing);

/* a by-value column at p, which need not be aligned; it is all there */
static inline Datum
zheap_fetch_value(int16 len, const char *p)
{
	switch (len)
	{
		case 4:
			{
				int32		v;

				memcpy(&v, p, sizeof(v));
				return Int32GetDatum(v);
			}
		case 8:
			{
				int64		v;

				memcpy(&v, p, sizeof(v));
				return Int64GetDatum(v);
			}
		case 2:
			{
				int16		v;

				memcpy(&v, p, sizeof(v));
				return Int16GetDatum(v);
			}
		case 1:
			return CharGetDatum(*p);
		default:
			elog(ERROR, "unsupported length %d of a by-value type", len);
	}
	return (Datum) 0;
}

/*
 * Bytes of the value at p, of which "have" are there; 0 if they can't be all.
 * What to say then.  (For tuple slots, which deform rows step by step.)
 */
extern Size zheap_tuple_value_size(int16 attlen, const char *p, Size have);
pg_noreturn extern void zheap_tuple_report_short(uint16 len, int attnum);

/* ----------------------------------------------------------------
 *	tuple slots
 * ----------------------------------------------------------------
 */

/*
 * Row versions copied by a scan, which the tuple slots that show them share
 * with it: every reader of them holds a reference, the scan as well as
 * each tuple slot.  The bytes change only while a scan has the only one, so a
 * tuple slot keeps its row however far the scan goes, and after its end.
 */
typedef struct ZRows
{
	uint32		refs;
	uint32		size;			/* of data */
	char		data[FLEXIBLE_ARRAY_MEMBER];	/* MAXALIGNed */
} ZRows;

static inline void
zheap_rows_release(ZRows *rows)
{
	Assert(rows->refs > 0);
	if (--rows->refs == 0)
		pfree(rows);
}

/* what deforming has to know of a column */
typedef struct ZColumn
{
	int16		len;			/* attlen */
	bool		byval;
	uint8		align;			/* alignment in bytes, less 1 */
} ZColumn;

/*
 * Nothing in a tuple slot ever points into a shared buffer: the row's bytes
 * are in memory of its own (buf), or in a scan's (rows).  It also knows which
 * version it holds (Z37).
 * len == 0: no native row, only tts_values (virtual contents).
 */
typedef struct ZTupleTableSlot
{
	TupleTableSlot base;
	const char *data;			/* the row: in buf or in rows->data */
	uint32		off;			/* deform state: offset of the next column */
	uint16		len;
	/* identity of the version; writer 0: visible to all */
	bool		approximate;	/* writer may be a later owner of its xact
								 * slot */
	bool		ended;			/* writer deleted or moved this version */
	Fxid		writer;
	CommandId	cid;			/* if the writer is a current xid */
	bool		was_locked;		/* writer had locked the row before */
	bool		heap_valid;		/* heap is of the present contents */
	bool		formed;			/* of values: no version, has no identity */
	uint32		scratchused;
	uint32		scratchsize;
	char	   *scratch;		/* aligned copies of misaligned values */
	ZRows	   *rows;			/* reference held, or NULL */
	bool		deformed;		/* a row was, by the descriptor */
	ZColumn    *columns;		/* from the second one on, of a descriptor
								 * that can't change; or NULL */
	uint32		bufsize;
	char	   *buf;			/* MAXALIGNed, in tts_mcxt, kept across clears */
	char	   *vdata;			/* memory of a materialized virtual row */
	HeapTuple	heap;			/* the contents as core's triggers want them, in
								 * tts_mcxt; or NULL */
} ZTupleTableSlot;

extern const TupleTableSlotOps TTSOpsZHeapTuple;

#define TTS_IS_ZHEAP(slot) ((slot)->tts_ops == &TTSOpsZHeapTuple)

/*
 * Store a row version (bytes are copied).  tid may carry a tag.  Any lock may
 * be held; allocates only when the buffer is too small.
 */
extern void zheap_tuple_slot_store(TupleTableSlot *slot, Oid tableoid,
								   const ItemPointerData *tid,
								   const char *tuple, uint16 len,
								   Fxid writer, CommandId cid);

/*
 * Show a row version that lies in rows, without SLACK in its header, under its
 * plain TID.  The tuple slot shares rows from now on, until it is cleared or
 * gets another row.  Once per row of a scan, hence inline.
 */
static inline void
zheap_slot_show(TupleTableSlot *slot, Oid tableoid, BlockNumber block,
				OffsetNumber off, ZRows *rows, const char *tuple, uint16 len,
				Fxid writer, CommandId cid, bool loose)
{
	ZTupleTableSlot *zslot = (ZTupleTableSlot *) slot;

	Assert(TTS_IS_ZHEAP(slot));
	Assert(len >= ZHEAP_HEADER_SIZE);
	Assert(tuple >= rows->data && tuple + len <= rows->data + rows->size);

	if (unlikely(zslot->rows != rows))
	{
		ExecClearTuple(slot);
		rows->refs++;
		zslot->rows = rows;
	}
	/* no virtual contents: these go with no rows */
	Assert(!TTS_SHOULDFREE(slot));
	slot->tts_flags &= ~TTS_FLAG_EMPTY;
	slot->tts_nvalid = 0;
	ItemPointerSet(&slot->tts_tid, block, off);
	slot->tts_tableOid = tableoid;
	zslot->data = tuple;
	zslot->off = 0;
	zslot->len = len;
	zslot->approximate = loose;
	zslot->ended = false;
	zslot->writer = writer;
	zslot->cid = cid;
	zslot->was_locked = false;
	zslot->heap_valid = false;
	zslot->scratchused = 0;
}

/* right after storing: what is not to be taken literally about the writer */
extern void zheap_tuple_slot_set_unsure(TupleTableSlot *slot, bool loose,
										bool ended);

/*
 * After an update: its writer had locked the row before.  Shown as xmax, since
 * INSERT .. ON CONFLICT .. RETURNING xmax is how users tell the updated rows
 * from the inserted ones.
 */
extern void zheap_tuple_slot_set_was_locked(TupleTableSlot *slot);

/*
 * Asked when a user wants to see the writer of a version that is loose or
 * ended: set *writer and *cid to those that made it, 0 if visible to all;
 * false if that can't be found out.  No buffer lock held.
 */
typedef bool (*ZFindWriter) (TupleTableSlot *slot, Fxid *writer,
							 CommandId *cid);
extern ZFindWriter zheap_find_writer_hook;

/* if the writer named is approximate, find out who it was, if that can be had */
extern void zheap_tuple_slot_find_writer(TupleTableSlot *slot);

/* after an insert: name the writer of the row whose values the tuple slot holds */
extern void zheap_tuple_slot_set_writer(TupleTableSlot *slot, Fxid writer,
										CommandId cid);

/* a version by its table, place and bytes */
extern uint32 zheap_tuple_hash(Oid reloid, BlockNumber block, OffsetNumber off,
							   const char *tuple, uint16 len);

/* xmin shown for a version that is visible to all: made of that hash (Z38) */
extern TransactionId zheap_tuple_hashed_xmin(Oid reloid,
											 const ItemPointerData *tid,
											 const char *tuple, uint16 len);

#endif							/* ZHEAP_TUPLE_H */
