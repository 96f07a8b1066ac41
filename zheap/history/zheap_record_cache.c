/*-------------------------------------------------------------------------
 *
 * zheap_record_cache.c
 *	  Undo records that this backend read lately, in a small hash table of
 *	  backend-local memory in which a newer record takes the place of an
 *	  older one.
 *
 * An entry cannot be stale: see "Read caches" in the README.  Whether the undo
 * of its writer may still be asked for at all (Z16) is tested by the reader
 * every time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "undo/undo_cache.h"
#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_record_cache.h"

#define CACHE_SIZE		1024	/* a power of two */
#define CACHE_USED	UNDO_KNOB("record-cache", CACHE_SIZE, 1, CACHE_SIZE)

static ZCachedUndo *cache = NULL;	/* until the first record is put */

static inline ZCachedUndo *
place_of(UndoRecPtr urp)
{
	return &cache[murmurhash32((uint32) (urp ^ (urp >> 32))) % CACHE_USED];
}

const ZCachedUndo *
zheap_record_cache_get(char persistence, Fxid writer, UndoRecPtr urp)
{
	const ZCachedUndo *c;

	Assert(writer != InvalidFxid);
	if (cache == NULL)
		return NULL;
	c = place_of(urp);
	return c->urp == urp && c->writer == writer &&
		c->persistence == persistence ? c : NULL;
}

const ZCachedUndo *
zheap_record_cache_put(char persistence, const UndoRecord *rec,
					   const ZUndo *undo)
{
	ZCachedUndo *c;

	if (cache == NULL)
		cache = undo_cache_alloc(CACHE_SIZE * sizeof(ZCachedUndo));
	c = place_of(rec->urp);
	c->writer = rec->writer;
	c->urp = rec->urp;
	c->chain = rec->chain;
	c->prev_fxid = undo->prev_fxid;
	c->base_fxid = undo->base_fxid;
	c->base_urp = undo->base_urp;
	c->cid = undo->cid;
	c->block = rec->block;
	c->reloid = rec->reloid;
	c->dboid = rec->dboid;
	c->persistence = persistence;
	c->kind = rec->kind;
	c->flags = rec->flags;
	c->offset = rec->offset;

	c->first = c->last = rec->offset;
	if (rec->kind == ZUNDO_INSERT_OPEN)
		c->last = MaxOffsetNumber;
	else if (rec->kind == ZUNDO_INSERT_SET || ZUndoIsOpenDelete(undo))
	{
		c->first = FirstOffsetNumber;
		c->last = MaxOffsetNumber;
	}
	else if (!ZUndoIsChange(undo))
		c->first = c->last + 1; /* LOCK, SPILL */

	c->payload_len = rec->payload_len;
	c->has_payload = rec->payload_len <= ZUNDO_CACHED_PAYLOAD;
	if (c->has_payload)
		memcpy(c->payload, rec->payload, rec->payload_len);
	return c;
}

void
zheap_record_cache_unpack(const ZCachedUndo *c, UndoRecord *rec)
{
	Assert(c->has_payload);
	rec->urp = c->urp;
	rec->kind = c->kind;
	rec->flags = c->flags;
	rec->offset = c->offset;
	rec->block = c->block;
	rec->chain = c->chain;
	rec->writer = c->writer;
	rec->reloid = c->reloid;
	rec->dboid = c->dboid;
	rec->payload_len = c->payload_len;
	rec->payload = rec->data;
	memcpy(rec->data, c->payload, c->payload_len);
}
