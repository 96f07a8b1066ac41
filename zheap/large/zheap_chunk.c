/*-------------------------------------------------------------------------
 *
 * zheap_chunk.c
 *	  Values that are stored out of line: saved, fetched and deleted as chunks
 *	  of the toast table, through the table access method and the table's index
 *	  on (chunk_id, chunk_seq).
 *
 * A chunk is never updated, and no transaction deletes it but the one that
 * replaces or deletes the last version of the row which points to it (Z42).
 * So who fetches a value asks for no version: any chunk is the right one whose
 * insertion wasn't rolled back, ended, spilled or not (Z43).  That is what
 * SNAPSHOT_TOAST means.
 *
 * A value that goes on with the row's next version is neither written nor
 * touched.  One that is replaced gets a new identity, because a pointer in an
 * older version must lead to the old bytes.  What both have in common at their
 * beginning and at their end isn't logged again (zheap_lend.c).
 *
 * A value that is stored as it is, because compressing it was in vain, says so
 * in its pointer: in the bits that name the method of a compressed one, and
 * that nobody reads of another.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/detoast.h"
#include "access/genam.h"
#include "access/heapam.h"
#include "access/heaptoast.h"
#include "access/htup_details.h"
#include "access/table.h"
#include "access/tableam.h"
#include "access/toast_compression.h"
#include "access/toast_internals.h"
#include "access/transam.h"
#include "access/xact.h"
#include "catalog/catalog.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "executor/tuptable.h"
#include "miscadmin.h"
#include "storage/bufmgr.h"
#include "storage/procarray.h"
#include "utils/fmgroids.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/format/zheap_words.h"
#include "zheap/large/zheap_chunk.h"

#include "pg_compat.h"

/* chunks written by one call: they fill two pages */
#define CHUNKS_AT_ONCE			8

/* columns of a toast table */
#define CHUNK_ID				1
#define CHUNK_SEQ				2
#define CHUNK_DATA				3
#define CHUNK_NATTS				3

/* any chunk whose insertion wasn't rolled back */
static SnapshotData any_chunk = {.snapshot_type = SNAPSHOT_TOAST};

/* the toast table, with its indexes */
typedef struct Chunks
{
	Relation	rel;
	Relation   *index;
	int			nindexes;
	int			valid;			/* index to be searched */
	LOCKMODE	lockmode;
} Chunks;

/* ----------------------------------------------------------------
 *	the toast table
 * ----------------------------------------------------------------
 */

static void
open_indexes(Chunks *chunks, Relation toastrel, LOCKMODE lockmode)
{
	chunks->rel = toastrel;
	chunks->lockmode = lockmode;
	chunks->valid = toast_open_indexes(toastrel, lockmode, &chunks->index,
									   &chunks->nindexes);
}

/* the locks of a writer stay until its transaction ends, as core's do */
static void
close_indexes(Chunks *chunks)
{
	toast_close_indexes(chunks->index, chunks->nindexes,
						chunks->lockmode == AccessShareLock ?
						AccessShareLock : NoLock);
}

/* ----------------------------------------------------------------
 *	searching
 * ----------------------------------------------------------------
 */

/* the chunks first to last of a value, in order */
typedef struct ChunkScan
{
	IndexScanDesc scan;
	TupleTableSlot *slot;
} ChunkScan;

static void
scan_begin(ChunkScan *cs, Chunks *chunks, Snapshot snapshot, Oid valueid,
		   int32 first, int32 last)
{
	ScanKeyData key[3];
	int			nkeys = 0;

	Assert(first <= last && first >= 0);
	Assert(chunks->valid >= 0 && chunks->valid < chunks->nindexes);
	ScanKeyInit(&key[nkeys++], CHUNK_ID, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(valueid));
	if (first == last)
		ScanKeyInit(&key[nkeys++], CHUNK_SEQ, BTEqualStrategyNumber, F_INT4EQ,
					Int32GetDatum(first));
	else
	{
		if (first > 0)
			ScanKeyInit(&key[nkeys++], CHUNK_SEQ,
						BTGreaterEqualStrategyNumber, F_INT4GE,
						Int32GetDatum(first));
		if (last < PG_INT32_MAX)
			ScanKeyInit(&key[nkeys++], CHUNK_SEQ, BTLessEqualStrategyNumber,
						F_INT4LE, Int32GetDatum(last));
	}
	cs->slot = table_slot_create(chunks->rel, NULL);
	cs->scan = index_beginscan(chunks->rel, chunks->index[chunks->valid],
							   snapshot, NULL, nkeys, 0);
	index_rescan(cs->scan, key, nkeys, NULL, 0);
}

/* the next chunk, in cs->slot */
static bool
scan_next(ChunkScan *cs)
{
	return index_getnext_slot(cs->scan, ForwardScanDirection, cs->slot);
}

static void
scan_end(ChunkScan *cs)
{
	index_endscan(cs->scan);
	ExecDropSingleTupleTableSlot(cs->slot);
}

/* does the snapshot see a chunk of the value */
static bool
value_exists(Chunks *chunks, Snapshot snapshot, Oid valueid)
{
	ChunkScan	cs;
	bool		found;

	scan_begin(&cs, chunks, snapshot, valueid, 0, PG_INT32_MAX);
	found = scan_next(&cs);
	scan_end(&cs);
	return found;
}

/* ----------------------------------------------------------------
 *	what is saved of a value: identity, chunks
 * ----------------------------------------------------------------
 */

/* what is stored of a value, and the pointer to it, but for its identity */
static char *
value_bytes(struct varlena *value, struct varatt_external *pointer)
{
	if (VARATT_IS_SHORT(value))
	{
		pointer->va_extinfo = VARSIZE_SHORT(value) - VARHDRSZ_SHORT;
		pointer->va_rawsize = pointer->va_extinfo + VARHDRSZ;
		return VARDATA_SHORT(value);
	}
	if (VARATT_IS_COMPRESSED(value))
	{
		pointer->va_rawsize = VARDATA_COMPRESSED_GET_EXTSIZE(value) + VARHDRSZ;
		VARATT_EXTERNAL_SET_SIZE_AND_COMPRESS_METHOD(*pointer,
													 VARSIZE(value) - VARHDRSZ,
													 VARDATA_COMPRESSED_GET_COMPRESS_METHOD(value));
	}
	else
	{
		pointer->va_rawsize = VARSIZE(value);
		pointer->va_extinfo = VARSIZE(value) - VARHDRSZ;
	}
	return VARDATA(value);
}

/* an identity that nothing in the table has, nor in "other" unless NULL */
static Oid
unused_identity(Chunks *chunks, Chunks *other)
{
	Oid			id;

	do
	{
		CHECK_FOR_INTERRUPTS();
		id = GetNewObjectId();
	} while (value_exists(chunks, &any_chunk, id) ||
			 (other != NULL && value_exists(other, &any_chunk, id)));
	return id;
}

/* are both compressed, by the same method, or neither, and of the same size */
static bool
is_stored_alike(const struct varatt_external *a,
				const struct varatt_external *b)
{
	return a->va_rawsize == b->va_rawsize &&
		VARATT_EXTERNAL_GET_EXTSIZE(*a) == VARATT_EXTERNAL_GET_EXTSIZE(*b) &&
		(!VARATT_EXTERNAL_IS_COMPRESSED(*a) ||
		 VARATT_EXTERNAL_GET_COMPRESS_METHOD(*a) ==
		 VARATT_EXTERNAL_GET_COMPRESS_METHOD(*b));
}

/*
 * The identity of a value to be saved.  In a rewrite versions in undo go on
 * pointing to the values that they had, in the table that core will put in
 * place of the old one; *saved: the value was saved for another version.  If
 * it isn't stored as it was, compressed now or no more, it is another value.
 */
static Oid
choose_identity(Relation rel, Chunks *chunks, struct varatt_external *new,
				struct varlena *old, bool *saved)
{
	Chunks		before;
	Oid			id;

	*saved = false;
	if (!OidIsValid(rel->rd_toastoid))
		return unused_identity(chunks, NULL);

	if (old != NULL && VARATT_IS_EXTERNAL_ONDISK(old))
	{
		struct varatt_external pointer;

		VARATT_EXTERNAL_GET_POINTER(pointer, old);
		if (pointer.va_toastrelid == rel->rd_toastoid &&
			is_stored_alike(&pointer, new))
		{
			/* the same pointer, by which the rewrite knows it */
			new->va_extinfo = pointer.va_extinfo;
			*saved = value_exists(chunks, &any_chunk, pointer.va_valueid);
			return pointer.va_valueid;
		}
	}
	open_indexes(&before, table_open(rel->rd_toastoid, AccessShareLock),
				 AccessShareLock);
	id = unused_identity(chunks, &before);
	close_indexes(&before);
	table_close(before.rel, AccessShareLock);
	return id;
}

/*
 * The index entries of a chunk.  nbtree is told that the value may have
 * replaced another, so that it looks for dead entries before it splits a page;
 * it wouldn't if it had to look for duplicates, which is done below.
 */
static void
insert_entries(Chunks *chunks, TupleTableSlot *slot)
{
	for (int i = 0; i < chunks->nindexes; i++)
	{
		Relation	index = chunks->index[i];

		if (!index->rd_index->indisready)
			continue;
		(void) index_insert(index, slot->tts_values, slot->tts_isnull,
							&slot->tts_tid, chunks->rel, UNIQUE_CHECK_NO,
							true, NULL);
	}
}

/*
 * The first chunk of a value has its index entries: is it the only one with its
 * identity?  If two values get one at the same time, the one that looks later
 * finds the other's chunk.
 */
static void
check_identity(Chunks *chunks, Oid id)
{
	ChunkScan	cs;
	int			found = 0;

	scan_begin(&cs, chunks, &any_chunk, id, 0, 0);
	while (scan_next(&cs))
		found++;
	scan_end(&cs);
	if (found != 1)
		ereport(ERROR,
				(errcode(ERRCODE_UNIQUE_VIOLATION),
				 errmsg_internal("%d first chunks of toast value %u in %s",
								 found, id,
								 RelationGetRelationName(chunks->rel))));
}

/* Fill a tuple slot with a chunk, whose bytes are copied to buf. */
static void
fill_chunk(TupleTableSlot *slot, Oid id, int32 seq, char *buf,
		   const char *data, int32 len)
{
	Assert(len > 0 && len <= TOAST_MAX_CHUNK_SIZE);
	SET_VARSIZE(buf, len + VARHDRSZ);
	memcpy(VARDATA(buf), data, len);
	ExecClearTuple(slot);
	slot->tts_values[CHUNK_ID - 1] = ObjectIdGetDatum(id);
	slot->tts_values[CHUNK_SEQ - 1] = Int32GetDatum(seq);
	slot->tts_values[CHUNK_DATA - 1] = PointerGetDatum(buf);
	memset(slot->tts_isnull, false, CHUNK_NATTS * sizeof(bool));
	ExecStoreVirtualTuple(slot);
}

/* ----------------------------------------------------------------
 *	what a value has in common with the one it replaces
 * ----------------------------------------------------------------
 */

/* a value that is going to be replaced, and what it has of the new one */
typedef struct ZCompared
{
	int32		len;
	/* bytes at both ends that the new value has, too */
	int32		prefix;
	int32		suffix;
	int32		nchunks;
	ItemPointerData tid[FLEXIBLE_ARRAY_MEMBER]; /* of its chunks */
} ZCompared;

/* pieces of one chunk: of the beginning, and two of the end */
#define MAX_PIECES	3

/* a longer value isn't read for that, which takes so much memory */
#define MAX_COMPARED	(16 * 1024 * 1024)

/*
 * Values that have all but a 16th of the bytes of one that couldn't be
 * compressed aren't tried, but for one of so many: what changes by and by is
 * compressed when it can be.
 */
#define DEFIANT_SHARE	16
#define TRY_ONE_OF		UNDO_KNOB("compress-one-of", 8, 1, 8)

/*
 * Read a value's chunks, to data and old->tid; false if something is wrong with
 * them.
 */
static bool
read_old_value(Chunks *chunks, Oid valueid, ZCompared *old, char *data)
{
	int32		next = 0;
	bool		good = true;
	ChunkScan	cs;

	Assert(old->nchunks > 0 && old->len <= MAX_COMPARED);
	scan_begin(&cs, chunks, &any_chunk, valueid, 0, PG_INT32_MAX);
	while (good && scan_next(&cs))
	{
		int32		at = next * TOAST_MAX_CHUNK_SIZE;
		struct varlena *chunk;

		CHECK_FOR_INTERRUPTS();
		slot_getallattrs(cs.slot);
		chunk = (struct varlena *)
			DatumGetPointer(cs.slot->tts_values[CHUNK_DATA - 1]);
		good = next < old->nchunks &&
			DatumGetInt32(cs.slot->tts_values[CHUNK_SEQ - 1]) == next &&
			!VARATT_IS_COMPRESSED(chunk) && !VARATT_IS_EXTERNAL(chunk) &&
			VARSIZE_ANY_EXHDR(chunk) ==
			Min(old->len - at, TOAST_MAX_CHUNK_SIZE);
		if (good)
		{
			memcpy(data + at, VARDATA_ANY(chunk),
				   VARSIZE_ANY_EXHDR(chunk));
			old->tid[next++] = cs.slot->tts_tid;
		}
	}
	scan_end(&cs);
	return good && next == old->nchunks;
}

/* number of bytes that are the same from the beginning on, and at the end */
static int32
same_prefix(const char *a, const char *b, int32 max)
{
	int32		n = 0;

	while (max - n >= 64 && memcmp(a + n, b + n, 64) == 0)
		n += 64;
	return n + zheap_words_equal(a + n, b + n, max - n);
}

static int32
same_suffix(const char *a_end, const char *b_end, int32 max)
{
	int32		n = 0;

	while (max - n >= 64 &&
		   memcmp(a_end - n - 64, b_end - n - 64, 64) == 0)
		n += 64;
	return n + zheap_words_equal_before(a_end - n, b_end - n, max - n);
}

/*
 * Compare the replaced value with the bytes to be stored of the new one, unless
 * that is done; hint->compared is NULL afterwards if it can't be.  The caller
 * has locked its row, so nobody else ends its chunks.
 */
static void
compare_values(Chunks *chunks, ZSaveHint *hint, const char *data, int32 len)
{
	struct varatt_external pointer;
	int32		oldlen;
	int32		nchunks;
	ZCompared  *old;
	char	   *olddata;

	if (hint->compared != NULL)
		return;
	VARATT_EXTERNAL_GET_POINTER(pointer, hint->replaced);
	oldlen = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	if (pointer.va_toastrelid != RelationGetRelid(chunks->rel) ||
		oldlen <= 0 || oldlen > MAX_COMPARED)
		return;

	nchunks = (oldlen - 1) / TOAST_MAX_CHUNK_SIZE + 1;
	old = palloc(offsetof(ZCompared, tid) + nchunks * sizeof(ItemPointerData));
	old->len = oldlen;
	old->nchunks = nchunks;
	olddata = palloc(oldlen);
	if (read_old_value(chunks, pointer.va_valueid, old, olddata))
	{
		int32		both = Min(oldlen, len);

		old->prefix = same_prefix(olddata, data, both);
		old->suffix = same_suffix(olddata + oldlen, data + len,
								  both - old->prefix);
		Assert(old->prefix + old->suffix <= both);
		hint->compared = old;
	}
	else
		pfree(old);
	pfree(olddata);
}

/*
 * Does the replaced value spare WAL a good part of the new one, of which data
 * is what is stored?
 */
static bool
is_lender(Chunks *chunks, ZSaveHint *hint, const char *data, int32 len,
		  bool compressed)
{
	if (hint == NULL || hint->replaced == NULL || hint->insert == NULL ||
		!RelationNeedsWAL(chunks->rel) ||
		RelationIsLogicallyLogged(chunks->rel) ||
		!undo_images_are_complete())
		return false;
	/* compared before it was compressed */
	if (hint->compared != NULL && compressed)
		return false;
	compare_values(chunks, hint, data, len);
	return hint->compared != NULL &&
		hint->compared->prefix + hint->compared->suffix >= len / 8;
}

/* the mark of a value that a method of compression was in vain for */
static uint32
defied_mark(char method)
{
	switch (method)
	{
		case TOAST_PGLZ_COMPRESSION:
			return (TOAST_PGLZ_COMPRESSION_ID + 1) << VARLENA_EXTSIZE_BITS;
		case TOAST_LZ4_COMPRESSION:
			return (TOAST_LZ4_COMPRESSION_ID + 1) << VARLENA_EXTSIZE_BITS;
		default:
			return 0;
	}
}

bool
zheap_chunk_defies(Relation rel, ZSaveHint *hint, Datum value, char method)
{
	struct varlena *new = (struct varlena *) DatumGetPointer(value);
	int32		len = VARSIZE_ANY_EXHDR(new);
	struct varatt_external pointer;
	Relation	toastrel;
	Chunks		chunks;

	Assert(!VARATT_IS_EXTERNAL(new) && !VARATT_IS_COMPRESSED(new));
	AssertNoPageLocked();
	if (hint->replaced == NULL)
		return false;
	VARATT_EXTERNAL_GET_POINTER(pointer, hint->replaced);
	if (VARATT_EXTERNAL_IS_COMPRESSED(pointer) || defied_mark(method) == 0 ||
		(pointer.va_extinfo & ~VARLENA_EXTSIZE_MASK) != defied_mark(method) ||
		murmurhash32(pointer.va_valueid) % TRY_ONE_OF == 0)
		return false;

	toastrel = table_open(rel->rd_rel->reltoastrelid, RowExclusiveLock);
	open_indexes(&chunks, toastrel, RowExclusiveLock);
	compare_values(&chunks, hint, VARDATA_ANY(new), len);
	close_indexes(&chunks);
	table_close(toastrel, NoLock);
	return hint->compared != NULL &&
		Max(len, hint->compared->len) -
		(hint->compared->prefix + hint->compared->suffix) <=
		Min(len, hint->compared->len) / DEFIANT_SHARE;
}

/*
 * The bytes from "at" to "to" of the new value stand in the old one, by
 * "shift" further on.  Add the pieces for the chunk that begins at "start".
 */
static int
add_pieces(ZLendPiece *piece, int n, const ZCompared *old, int row,
		   int32 start, int32 len, int32 at, int32 to, int32 shift)
{
	while (at < to)
	{
		int32		from = at + shift;
		int32		seq = from / TOAST_MAX_CHUNK_SIZE;
		int32		end = Min((seq + 1) * TOAST_MAX_CHUNK_SIZE, old->len);

		Assert(n < CHUNKS_AT_ONCE * MAX_PIECES && seq < old->nchunks);
		piece[n].tid = old->tid[seq];
		piece[n].row = row;
		piece[n].before_end = start + len - at;
		piece[n].from_before_end = end - from;
		piece[n].len = Min(to - at, end - from);
		at += piece[n++].len;
	}
	return n;
}

/* the same for all that a chunk has in common with the old value */
static int
chunk_pieces(ZLendPiece *piece, int n, const ZCompared *old, int row,
			 int32 total, int32 start, int32 len)
{
	Assert(len > 0 && start + len <= total);
	n = add_pieces(piece, n, old, row, start, len, start,
				   Min(start + len, old->prefix), 0);
	return add_pieces(piece, n, old, row, start, len,
					  Max(start, total - old->suffix), start + len,
					  old->len - total);
}

/* ----------------------------------------------------------------
 *	saving a value
 * ----------------------------------------------------------------
 */

static void
insert_chunks(Chunks *chunks, Oid id, const char *data, int32 len,
			  const ZCompared *old, ZInsertChunks insert, int options)
{
	CommandId	cid = GetCurrentCommandId(true);
	Size		bufsize = INTALIGN(TOAST_MAX_CHUNK_SIZE + VARHDRSZ);
	int32		total = (len - 1) / TOAST_MAX_CHUNK_SIZE + 1;
	int			nslots = Min(total, CHUNKS_AT_ONCE);
	TupleTableSlot *slots[CHUNKS_AT_ONCE];
	char	   *buf = palloc(nslots * bufsize);
	int32		seq = 0;

	Assert(len > 0 && total > 0);
	Assert((old == NULL) == (insert == NULL));
	for (int i = 0; i < nslots; i++)
		slots[i] = table_slot_create(chunks->rel, NULL);

	while (seq < total)
	{
		int32		first = seq;
		ZLendPiece	piece[CHUNKS_AT_ONCE * MAX_PIECES];
		int			npieces = 0;
		int			n;

		CHECK_FOR_INTERRUPTS();
		for (n = 0; n < nslots && seq < total; n++, seq++)
		{
			int32		at = seq * TOAST_MAX_CHUNK_SIZE;
			int32		size = Min(len - at, TOAST_MAX_CHUNK_SIZE);

			fill_chunk(slots[n], id, seq, buf + n * bufsize, data + at, size);
			if (old != NULL)
				npieces = chunk_pieces(piece, npieces, old, n, len, at, size);
		}
		if (npieces > 0)
			insert(chunks->rel, slots, n, cid, options, piece, npieces);
		else if (n == 1)
			table_tuple_insert(chunks->rel, slots[0], cid, options, NULL);
		else
			table_multi_insert(chunks->rel, slots, n, cid, options, NULL);
		for (int i = 0; i < n; i++)
		{
			insert_entries(chunks, slots[i]);
			if (first + i == 0)
				check_identity(chunks, id);
		}
	}

	for (int i = 0; i < nslots; i++)
		ExecDropSingleTupleTableSlot(slots[i]);
	pfree(buf);
}

Datum
zheap_chunk_save(Relation rel, Datum value, struct varlena *old,
				 ZSaveHint *hint, int options)
{
	Relation	toastrel = table_open(rel->rd_rel->reltoastrelid,
									  RowExclusiveLock);
	struct varatt_external pointer;
	struct varlena *result;
	Chunks		chunks;
	char	   *data;
	int32		size;
	bool		saved;

	Assert(!VARATT_IS_EXTERNAL(DatumGetPointer(value)));
	AssertNoPageLocked();
	options &= ~HEAP_INSERT_SPECULATIVE;
	data = value_bytes((struct varlena *) DatumGetPointer(value), &pointer);
	if (hint != NULL && !VARATT_EXTERNAL_IS_COMPRESSED(pointer))
		pointer.va_extinfo |= defied_mark(hint->defied);
	open_indexes(&chunks, toastrel, RowExclusiveLock);
	pointer.va_toastrelid = OidIsValid(rel->rd_toastoid) ?
		rel->rd_toastoid : RelationGetRelid(toastrel);
	pointer.va_valueid = choose_identity(rel, &chunks, &pointer, old,
										 &saved);
	size = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	if (!saved && size > 0)
	{
		bool		lent = is_lender(&chunks, hint, data, size,
									 VARATT_EXTERNAL_IS_COMPRESSED(pointer));

		insert_chunks(&chunks, pointer.va_valueid, data, size,
					  lent ? hint->compared : NULL,
					  lent ? hint->insert : NULL, options);
	}
	close_indexes(&chunks);
	table_close(toastrel, NoLock);

	result = palloc(TOAST_POINTER_SIZE);
	SET_VARTAG_EXTERNAL(result, VARTAG_ONDISK);
	memcpy(VARDATA_EXTERNAL(result), &pointer, sizeof(pointer));
	return PointerGetDatum(result);
}

/* ----------------------------------------------------------------
 *	deleting
 * ----------------------------------------------------------------
 */

/* chunks of one page, in tids[] */
static void
delete_chunks(Chunks *chunks, const ItemPointerData *tids, int n, Oid valueid)
{
	CommandId	cid = GetCurrentCommandId(true);

	Assert(n >= 0 && n <= CHUNKS_AT_ONCE);
	for (int done = 0, m; done < n; done += m)
	{
		TM_Result	result = zheap_delete_chunks(chunks->rel, tids + done,
												 n - done, cid, &m);

		if (result != TM_Ok)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg_internal("chunk (%u,%u) of toast value %u in %s was deleted before its row (%d)",
									 ItemPointerGetBlockNumber(&tids[done]),
									 ItemPointerGetOffsetNumber(&tids[done]),
									 valueid,
									 RelationGetRelationName(chunks->rel),
									 result)));
	}
}

static void
delete_value(Relation toastrel, Oid valueid, bool speculative)
{
	ItemPointerData tids[CHUNKS_AT_ONCE];
	int			n = 0;
	Chunks		chunks;
	ChunkScan	cs;

	AssertNoPageLocked();
	open_indexes(&chunks, toastrel, RowExclusiveLock);
	scan_begin(&cs, &chunks, &any_chunk, valueid, 0, PG_INT32_MAX);
	while (scan_next(&cs))
	{
		if (speculative)
		{
			table_tuple_complete_speculative(toastrel, cs.slot, 0, false);
			continue;
		}
		if (n == CHUNKS_AT_ONCE ||
			(n > 0 && ItemPointerGetBlockNumber(&tids[0]) !=
			 ItemPointerGetBlockNumber(&cs.slot->tts_tid)))
		{
			delete_chunks(&chunks, tids, n, valueid);
			n = 0;
		}
		tids[n++] = cs.slot->tts_tid;
	}
	delete_chunks(&chunks, tids, n, valueid);
	scan_end(&cs);
	close_indexes(&chunks);
}

void
zheap_chunk_delete(Relation rel, Datum value, bool speculative)
{
	struct varatt_external pointer;
	Relation	toastrel;

	AssertNoPageLocked();
	if (!VARATT_IS_EXTERNAL_ONDISK(DatumGetPointer(value)))
		return;
	VARATT_EXTERNAL_GET_POINTER(pointer, DatumGetPointer(value));
	toastrel = table_open(pointer.va_toastrelid, RowExclusiveLock);
	delete_value(toastrel, pointer.va_valueid, speculative);
	table_close(toastrel, NoLock);
}

bool
zheap_chunk_is_deleted(struct varlena *value)
{
	struct varatt_external pointer;
	Relation	toastrel;
	Chunks		chunks;
	bool		found;

	Assert(VARATT_IS_EXTERNAL_ONDISK(value));
	AssertNoPageLocked();
	VARATT_EXTERNAL_GET_POINTER(pointer, value);
	toastrel = table_open(pointer.va_toastrelid, AccessShareLock);
	open_indexes(&chunks, toastrel, AccessShareLock);
	found = value_exists(&chunks, SnapshotSelf, pointer.va_valueid);
	close_indexes(&chunks);
	table_close(toastrel, AccessShareLock);
	return !found;
}

void
zheap_chunk_delete_saved(Relation rel, const List *valueids)
{
	Relation	toastrel = table_open(rel->rd_rel->reltoastrelid,
									  RowExclusiveLock);
	ListCell   *lc;

	AssertNoPageLocked();
	foreach(lc, valueids)
	{
		CHECK_FOR_INTERRUPTS();
		delete_value(toastrel, lfirst_oid(lc), false);
	}
	table_close(toastrel, NoLock);
}

/* ----------------------------------------------------------------
 *	fetching
 * ----------------------------------------------------------------
 */

/* the bytes of a chunk; ERROR if their number isn't the one expected */
static const char *
chunk_bytes(Chunks *chunks, TupleTableSlot *slot, Oid valueid, int32 seq,
			int32 expected_len)
{
	struct varlena *chunk =
		(struct varlena *) DatumGetPointer(slot->tts_values[CHUNK_DATA - 1]);

	if (VARATT_IS_COMPRESSED(chunk) || VARATT_IS_EXTERNAL(chunk) ||
		VARSIZE_ANY_EXHDR(chunk) != expected_len)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg_internal("unexpected size of chunk %d (expected %d) for toast value %u in %s",
								 seq, expected_len, valueid,
								 RelationGetRelationName(chunks->rel))));
	return VARDATA_ANY(chunk);
}

/*
 * Fetch a slice of a value.  False, or ERROR unless missing_ok: some chunk
 * isn't there.
 */
static bool
fetch_slice(Relation toastrel, Oid valueid, int32 attrsize, int32 sliceoffset,
			int32 slicelength, struct varlena *result, bool missing_ok)
{
	int32		total = (attrsize - 1) / TOAST_MAX_CHUNK_SIZE + 1;
	int32		end = sliceoffset + slicelength;
	int32		first = sliceoffset / TOAST_MAX_CHUNK_SIZE;
	int32		last = (end - 1) / TOAST_MAX_CHUNK_SIZE;
	int32		next = first;
	bool		complete;
	Chunks		chunks;
	ChunkScan	cs;

	Assert(sliceoffset >= 0 && slicelength > 0 && end <= attrsize);
	/* the caller must have a snapshot, which keeps the value */
	open_indexes(&chunks, toastrel, AccessShareLock);
	scan_begin(&cs, &chunks, get_toast_snapshot(), valueid, first,
			   last == total - 1 ? PG_INT32_MAX : last);
	while (scan_next(&cs))
	{
		int32		at = next * TOAST_MAX_CHUNK_SIZE;
		int32		len = Min(attrsize - at, TOAST_MAX_CHUNK_SIZE);
		int32		from = Max(sliceoffset, at);
		int32		to = Min(end, at + len);
		int32		seq;
		const char *bytes;

		slot_getallattrs(cs.slot);
		seq = DatumGetInt32(cs.slot->tts_values[CHUNK_SEQ - 1]);
		if (seq > next && missing_ok)
			break;
		if (seq != next)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg_internal("unexpected chunk number %d (expected %d) for toast value %u in %s",
									 seq, next, valueid,
									 RelationGetRelationName(toastrel))));
		if (next > last)
			ereport(ERROR,
					(errcode(ERRCODE_DATA_CORRUPTED),
					 errmsg_internal("unexpected chunk number %d (out of range %d..%d) for toast value %u in %s",
									 next, first, last, valueid,
									 RelationGetRelationName(toastrel))));
		bytes = chunk_bytes(&chunks, cs.slot, valueid, next, len);
		memcpy(VARDATA(result) + (from - sliceoffset), bytes + (from - at),
			   to - from);
		next++;
	}
	complete = next > last;
	if (!complete && !missing_ok)
		ereport(ERROR,
				(errcode(ERRCODE_DATA_CORRUPTED),
				 errmsg_internal("missing chunk number %d for toast value %u in %s",
								 next, valueid,
								 RelationGetRelationName(toastrel))));
	scan_end(&cs);
	close_indexes(&chunks);
	return complete;
}

void
zheap_chunk_fetch(Relation toastrel, Oid valueid, int32 attrsize,
				  int32 sliceoffset, int32 slicelength,
				  struct varlena *result)
{
	(void) fetch_slice(toastrel, valueid, attrsize, sliceoffset, slicelength,
					   result, false);
}

/* is what the transaction has ended of no use to any snapshot by now */
static bool
is_ended_for_all(Relation toastrel, Fxid ended_by)
{
	TransactionId oldest = GetOldestNonRemovableTransactionId(toastrel);

	Assert(ended_by != InvalidFxid);
	return ended_by < undo_log_fxid_from_xid(oldest);
}

struct varlena *
zheap_chunk_fetch_ended(struct varlena *value, Fxid ended_by)
{
	struct varatt_external pointer;
	struct varlena *result = NULL;
	Relation	toastrel;
	int32		size;
	bool		found = false;
	bool		gone = false;

	Assert(ended_by != InvalidFxid);
	Assert(VARATT_IS_EXTERNAL_ONDISK(value));
	AssertNoPageLocked();
	VARATT_EXTERNAL_GET_POINTER(pointer, value);
	size = VARATT_EXTERNAL_GET_EXTSIZE(pointer);
	toastrel = table_open(pointer.va_toastrelid, AccessShareLock);
	if (size > 0)
	{
		result = palloc(size + VARHDRSZ);
		if (VARATT_EXTERNAL_IS_COMPRESSED(pointer))
			SET_VARSIZE_COMPRESSED(result, size + VARHDRSZ);
		else
			SET_VARSIZE(result, size + VARHDRSZ);
		found = fetch_slice(toastrel, pointer.va_valueid, size, 0, size,
							result, true);
		gone = !found && is_ended_for_all(toastrel, ended_by);
	}
	table_close(toastrel, AccessShareLock);
	if (found)
		return result;
	/* else let core say what is missing */
	return gone ? NULL : detoast_external_attr(value);
}
