/*-------------------------------------------------------------------------
 *
 * zheap_decode.c
 *	  Logical decoding: changes of rows become heap tuples in core's reorder
 *	  buffer, in which they are indistinguishable from those of heap tables.
 *
 * Nothing is known here but the record: no table, no column, no undo.  What
 * decoding needs is in the logical part (zheap_xlog_logical.h); a record
 * without one isn't decoded.  Rollbacks, pruning, spilling and freezing have
 * none.
 *
 * Subtransactions, streaming, spilling to disk, prepared transactions and
 * TRUNCATE are core's.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "replication/snapbuild.h"

#include "compat/reorder_buffer.h"
#include "zheap/decode/zheap_decode.h"
#include "zheap/format/zheap_format.h"
#include "zheap/wal/zheap_xlog_change.h"
#include "zheap/wal/zheap_xlog_insert.h"
#include "zheap/wal/zheap_xlog_logical.h"

/* a record being decoded */
typedef struct Decoding
{
	LogicalDecodingContext *ctx;
	XLogRecordBuffer *buf;
	XLogReaderState *record;
	RelFileLocator locator;		/* of the table */
} Decoding;

/* ----------------------------------------------------------------
 *	changes
 * ----------------------------------------------------------------
 */

static ReorderBufferChange *
new_change(const Decoding *d, enum ReorderBufferChangeType action)
{
	ReorderBufferChange *change = ReorderBufferAllocChange(d->ctx->reorder);

	change->action = action;
	change->origin_id = XLogRecGetOrigin(d->record);
	change->data.tp.rlocator = d->locator;
	change->data.tp.clear_toast_afterwards = true;
	return change;
}

static void
queue_change(const Decoding *d, ReorderBufferChange *change, bool chunk)
{
	ReorderBufferQueueChange(d->ctx->reorder, XLogRecGetXid(d->record),
							 d->buf->origptr, change, chunk);
}

static ChangeTuple
make_tuple(const Decoding *d, const ZHeapRow *row)
{
	ChangeTuple result =
		ReorderBufferAllocTupleBuf(d->ctx->reorder,
								   row->len - SizeofHeapTupleHeader);
	HeapTuple	tuple = ChangeTupleHeap(result);

	Assert(row->len >= SizeofHeapTupleHeader);
	tuple->t_len = row->len;
	ItemPointerSetInvalid(&tuple->t_self);
	tuple->t_tableOid = InvalidOid;
	zheap_logical_put_heap(row, tuple->t_data);
	return result;
}

/*
 * A new row.  Rows here aren't padded, so heap's form of one may be larger than
 * MaxHeapTupleSize.  Core allocates what the row takes, spills it, and gives it
 * values of the toast table in place of pointers, which makes it no longer, so
 * that it comes out whole.  But where it does the last (ReorderBufferToastReplace()
 * of 15 to 18) it asserts that no row is that large: the server would go down
 * whenever the change is read.
 */
static ChangeTuple
make_new_tuple(const Decoding *d, const ZHeapRow *row)
{
#ifdef USE_ASSERT_CHECKING
	if (row->len > MaxHeapTupleSize && (row->infomask & HEAP_HASEXTERNAL))
		ereport(ERROR,
				(errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED),
				 errmsg("cannot decode a row of %u bytes that has values out of line, maximum %zu",
						row->len, (Size) MaxHeapTupleSize),
				 errhint("A server that was built without assertions can.")));
#endif
	return make_tuple(d, row);
}

/* the old row, if it was told; new is the new one as it was logged, or NULL */
static void
take_old(const Decoding *d, ZLogicalReader *reader, const char *new,
		 uint16 newlen, ReorderBufferChange *change)
{
	PGAlignedBlock tuple;
	ZHeapRow	row;

	if ((reader->flags & (ZLOGICAL_OLD | ZLOGICAL_OLD_HEAP)) == 0)
		return;
	zheap_logical_read_old(reader, new, newlen, tuple.data, &row);
	change->data.tp.oldtuple = make_tuple(d, &row);
}

/* ----------------------------------------------------------------
 *	records
 * ----------------------------------------------------------------
 */

static void
decode_insert(const Decoding *d)
{
	ZInsertHead head;
	ZInsertChange rows;
	PGAlignedBlock data;
	ZLogicalReader reader;
	bool		chunk;

	zheap_xlog_insert_unpack(d->record, &head);
	if (head.logical_len == 0)
		return;
	zheap_logical_read(&reader, head.logical, head.logical_len);
	chunk = (reader.flags & ZLOGICAL_CHUNK) != 0;

	rows.first = head.first;
	rows.ntuples = head.ntuples;
	zheap_xlog_insert_rows(d->record, &head, NULL, NULL, &rows, data.data,
						   ERROR);
	Assert(rows.ntuples > 0 && rows.ntuples <= MaxHeapTuplesPerPage);
	for (int i = 0; i < rows.ntuples; i++)
	{
		ReorderBufferChange *change;
		ZHeapRow	row;

		zheap_logical_read_new(&reader, rows.tuple[i], rows.len[i], &row);
		change = new_change(d, (reader.flags & ZLOGICAL_SPECULATIVE) ?
							REORDER_BUFFER_CHANGE_INTERNAL_SPEC_INSERT :
							REORDER_BUFFER_CHANGE_INSERT);
		change->data.tp.newtuple = make_new_tuple(d, &row);
		/* the chunks of all rows of a call come before its first row */
		change->data.tp.clear_toast_afterwards = i == rows.ntuples - 1 &&
			(reader.flags & ZLOGICAL_LAST) != 0;
		queue_change(d, change, chunk);
	}
}

/* UPDATE in place */
static void
decode_update(const Decoding *d)
{
	ZChangeHead head;
	ZLogicalReader reader;
	ZHeapRow	row;
	PGAlignedBlock tuple;
	ReorderBufferChange *change;
	Size		size = 0;
	const char *data;
	uint16		len;

	zheap_xlog_change_unpack(d->record, &head);
	if (head.logical_len == 0)
		return;
	zheap_logical_read(&reader, head.logical, head.logical_len);
	data = XLogRecGetBlockData(d->record, 0, &size);
	if ((head.flags & ZCHANGE_WHOLE) == 0 ||
		(head.flags & ZCHANGE_SAME_NATTS) ||
		size > BLCKSZ - ZHEAP_HEADER_SIZE)
		elog(ERROR, "WAL record of an update is malformed");
	zheap_header_put(tuple.data, &head.header);
	if (size > 0)
		memcpy(tuple.data + ZHEAP_HEADER_SIZE, data, size);
	len = ZHEAP_HEADER_SIZE + size;

	change = new_change(d, REORDER_BUFFER_CHANGE_UPDATE);
	zheap_logical_read_new(&reader, tuple.data, len, &row);
	change->data.tp.newtuple = make_new_tuple(d, &row);
	take_old(d, &reader, tuple.data, len, change);
	queue_change(d, change, false);
}

static void
decode_move(const Decoding *d)
{
	ZMoveHead	head;
	ZLogicalReader reader;
	ZHeapRow	row;
	ReorderBufferChange *change;
	Size		size = 0;
	const char *tuple;

	zheap_xlog_change_unpack_move(d->record, &head);
	if (head.logical_len == 0)
		return;
	zheap_logical_read(&reader, head.logical, head.logical_len);
	tuple = XLogRecGetBlockData(d->record,
								(head.flags & ZMOVE_SAME_PAGE) ? 0 : 1, &size);
	if (tuple == NULL || (head.flags & ZMOVE_CODED) || size > BLCKSZ)
		elog(ERROR, "WAL record of a move is malformed");

	Assert(size >= ZHEAP_HEADER_SIZE);
	change = new_change(d, REORDER_BUFFER_CHANGE_UPDATE);
	zheap_logical_read_new(&reader, tuple, size, &row);
	change->data.tp.newtuple = make_new_tuple(d, &row);
	take_old(d, &reader, tuple, size, change);
	queue_change(d, change, false);
}

static void
decode_delete(const Decoding *d)
{
	ZChangeHead head;
	ZLogicalReader reader;
	ReorderBufferChange *change;

	zheap_xlog_change_unpack(d->record, &head);
	if (head.logical_len == 0)
		return;
	zheap_logical_read(&reader, head.logical, head.logical_len);
	change = new_change(d, REORDER_BUFFER_CHANGE_DELETE);
	take_old(d, &reader, NULL, 0, change);
	queue_change(d, change, false);
}

/* a change of a row, or the end of a speculative insertion that is told? */
static bool
is_decoded(XLogReaderState *record)
{
	switch (XLogRecGetInfo(record) & ~XLR_INFO_MASK)
	{
		case XLOG_ZHEAP_INSERT:
		case XLOG_ZHEAP_UPDATE:
		case XLOG_ZHEAP_MOVE:
		case XLOG_ZHEAP_DELETE:
			return true;
		case XLOG_ZHEAP_LOCK:
			{
				ZChangeHead head;

				/* no lock has a logical part, but a confirmation may */
				zheap_xlog_change_unpack(record, &head);
				return head.logical_len > 0;
			}
		case XLOG_ZHEAP_DELTA:
			return (zheap_delta_flags(record) & ZDELTA_DECODED) != 0;
	}
	return false;
}

/*
 * Only of records that are decoded is the transaction noted: those of rollbacks
 * may bear the xid of one that has ended.
 */
void
zheap_decode(LogicalDecodingContext *ctx, XLogRecordBuffer *buf)
{
	Decoding	d = {ctx, buf, buf->record};
	TransactionId xid = XLogRecGetXid(buf->record);
	SnapBuild  *builder = ctx->snapshot_builder;

	Assert(CritSectionCount == 0);
	if (!is_decoded(d.record))
		return;
	ReorderBufferProcessXid(ctx->reorder, xid, buf->origptr);
	if (SnapBuildCurrentState(builder) < SNAPBUILD_FULL_SNAPSHOT ||
		!SnapBuildProcessChange(builder, xid, buf->origptr) ||
		ctx->fast_forward)
		return;

	XLogRecGetBlockTag(d.record, 0, &d.locator, NULL, NULL);
	if (d.locator.dbOid != ctx->slot->data.database ||
		(ctx->callbacks.filter_by_origin_cb != NULL &&
		 filter_by_origin_cb_wrapper(ctx, XLogRecGetOrigin(d.record))))
		return;

	switch (XLogRecGetInfo(d.record) & ~XLR_INFO_MASK)
	{
		case XLOG_ZHEAP_INSERT:
			decode_insert(&d);
			break;
		case XLOG_ZHEAP_UPDATE:
			decode_update(&d);
			break;
		case XLOG_ZHEAP_MOVE:
			decode_move(&d);
			break;
		case XLOG_ZHEAP_DELETE:
			decode_delete(&d);
			break;
		case XLOG_ZHEAP_LOCK:
			queue_change(&d,
						 new_change(&d,
									REORDER_BUFFER_CHANGE_INTERNAL_SPEC_CONFIRM),
						 false);
			break;
		case XLOG_ZHEAP_DELTA:
			queue_change(&d,
						 new_change(&d,
									REORDER_BUFFER_CHANGE_INTERNAL_SPEC_ABORT),
						 false);
			break;
	}
}
