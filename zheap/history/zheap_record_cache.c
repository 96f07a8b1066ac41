/*-------------------------------------------------------------------------
 *
 * zheap_record_cache.c
 *	  Undo records that this backend read lately, in a small hash table of
 *	  backend-local memory in which a newer record takes the place of an
 *	  older one.
 *
 * Why an entry can't be stale: records are immutable, and the place of a
 * record of writer w is not written again while w might still write (its undo
 * is reused only when w is below the discard horizon, or rolled back), so
 * {persistence, w, urp} names one record for ever.  Whether the undo of w may
 * still be asked for at all (Z16) is tested by the reader every time.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"

#include "undo/undo_debug.h"
#include "zheap/history/zheap_record_cache.h"

#define CACHE_SIZE		1024	/* a power of two */
#define CACHE_USED	UNDO_KNOB("record-cache", CACHE_SIZE, 1, CACHE_SIZE)

static ZCachedUndo cache[CACHE_SIZE];

static inline ZCachedUndo *
place_of(UndoRecPtr urp)
{
	return &cache[murmurhash32((uint32) (urp ^ (urp >> 32))) % CACHE_USED];
}

void
zheap_record_cache_expect(UndoRecPtr urp)
{
	const char *place = (const char *) place_of(urp);

	fetch_line(place);
	fetch_line(place + 64);
}

const ZCachedUndo *
zheap_record_cache_get(char persistence, Fxid writer, UndoRecPtr urp)
{
	const ZCachedUndo *c = place_of(urp);

	Assert(writer != InvalidFxid);
	return c->urp == urp && c->writer == writer &&
		c->persistence == persistence ? c : NULL;
}

const ZCachedUndo *
zheap_record_cache_put(char persistence, const UndoRecord *rec,
					   const ZUndo *undo)
{
	ZCachedUndo *c = place_of(rec->urp);

	c->writer = rec->writer;
	c->urp = rec->urp;
	c->chain = rec->chain;
	c->prev_fxid = undo->prev_fxid;
	c->base_fxid = undo->base_fxid;
	c->base_urp = undo->base_urp;
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
