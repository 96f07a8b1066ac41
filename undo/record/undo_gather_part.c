/*-------------------------------------------------------------------------
 *
 * undo_gather_part.c
 *	  Gathered undo is handed out in the order of the relation's blocks: a part
 *	  of it is loaded, and the records of a block in it are found by their place.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>

#include "common/hashfn.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "utils/memutils.h"

#include "undo/log/undo_page.h"
#include "undo/record/undo_gather.h"
#include "undo/record/undo_gather_part.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"

/* All that it has, and itself. */
void
undo_gather_release(ResourceOwner owner)
{
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, false);
	ResourceOwnerDelete(owner);
}

void
undo_gather_name_file(char *name, uint32 part, uint32 member)
{
	snprintf(name, MAXPGPATH, "%u.%u", part, member);
}

BlockNumber
undo_gather_per_part(const UndoGather *g)
{
	return g->shared->per_part;
}

BlockNumber
undo_gather_end(const UndoGather *g)
{
	return g->shared->begin == 0 ? g->shared->end : 0;
}

/* If there is no more memory it keeps what it has. */
static void *
more_room(UndoGather *g, void *old, Size *room, Size need)
{
	if (need <= *room)
		return old;
	old = old == NULL ? MemoryContextAllocHuge(g->context, need) :
		repalloc_huge(old, need);
	*room = need;
	return old;
}

/* The record at q; returns where the next one is. */
static const char *
unpack(const char *q, const char *end, Kept *k, uint64 *block)
{
	uint64		rest_len = 0;
	uint64		head_len = 0;
	uint64		urp = 0;
	uint64		writer = 0;

	k->kind = (uint8) *q++;
	q = undo_unpack(q, end, &rest_len);
	q = undo_unpack(q, end, &head_len);
	q = undo_unpack(q, end, &urp);
	q = undo_unpack(q, end, &writer);
	q = undo_unpack(q, end, block);
	Assert(q != NULL && rest_len <= KEPT_MAX_REST && head_len <= 0xFF);
	k->rest_len = rest_len;
	k->head_len = head_len;
	k->urp = undo_unzigzag(k->urp, urp);
	k->writer = undo_unzigzag(k->writer, writer);
	return q + rest_len;
}

/* Read what each member of the team wrote of a part. */
static void
read_part(UndoGather *g, uint32 part, uint32 members)
{
	BufFile   **files = palloc(sizeof(BufFile *) * members);
	Size		at = 0;
	char		name[MAXPGPATH];

	for (uint32 i = 0; i < members; i++)
	{
		undo_gather_name_file(name, part, i);
		files[i] = BufFileOpenFileSet(&g->shared->files, name, O_RDONLY,
									  true);
		if (files[i] != NULL)
			at += BufFileSize(files[i]);
		g->ends[i] = at;
	}
	UNDO_ERROR_POINT("gather-loads");
	g->data = more_room(g, g->data, &g->data_room, at);
	at = 0;
	for (uint32 i = 0; i < members; i++)
	{
		Size		size = g->ends[i] - at;

		if (files[i] == NULL)
			continue;
		if (BufFileRead(files[i], g->data + at, size) != size)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read a temporary file of gathered undo: %m")));
		BufFileClose(files[i]);
		at = g->ends[i];
	}
	pfree(files);
}

/* Count a part's records by block, or put them where they belong. */
static void
sort_part(UndoGather *g, uint32 members, bool count)
{
	const char *q = g->data;

	for (uint32 i = 0; i < members; i++)
	{
		const char *end = g->data + g->ends[i];
		Kept		k;

		memset(&k, 0, sizeof(k));
		while (q < end)
		{
			uint64		b = 0;

			q = unpack(q, end, &k, &b);
			Assert(q <= end && b < g->shared->per_part);
			if (count)
				g->first[b + 1]++;
			else
			{
				k.at = q - k.rest_len - g->data;
				g->recs[g->first[b]++] = k;
			}
		}
	}
}

/* Read a part and order its records by block. */
static void
load_part(UndoGather *g, uint32 part)
{
	BlockNumber per_part = g->shared->per_part;
	uint32		members = pg_atomic_read_u32(&g->shared->members);
	ResourceOwner caller = CurrentResourceOwner;
	ResourceOwner owner;

	g->loaded = -1;
	g->at = InvalidBlockNumber;
	if (g->first == NULL)
		g->first = MemoryContextAllocHuge(g->context, sizeof(uint32) *
										  ((Size) per_part + 1));
	if (g->ends == NULL)
		g->ends = MemoryContextAlloc(g->context, sizeof(Size) * members);
	memset(g->first, 0, sizeof(uint32) * ((Size) per_part + 1));

	/* files that are open when an error comes don't stay so while g lasts */
	owner = CurrentResourceOwner = ResourceOwnerCreate(g->owner,
													   "zheap undo part");
	PG_TRY();
	{
		read_part(g, part, members);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = caller;
		undo_gather_release(owner);
	}
	PG_END_TRY();

	/* numbers become beginnings; what they become then goes up by one */
	sort_part(g, members, true);
	for (BlockNumber b = 0; b < per_part; b++)
		g->first[b + 1] += g->first[b];
	g->recs = more_room(g, g->recs, &g->recs_room,
						g->first[per_part] * sizeof(Kept));
	sort_part(g, members, false);
	for (BlockNumber b = per_part; b > 0; b--)
		g->first[b] = g->first[b - 1];
	g->first[0] = 0;
	g->loaded = part;
}

/*
 * The records of a block lie anywhere in its part: without this a third of a
 * scan's time goes for waiting for memory.
 */
static inline void
prefetch(const char *p)
{
#if defined(__GNUC__)
	__builtin_prefetch(p);
#endif
}

static inline uint32
hash_of(UndoRecPtr urp)
{
	return murmurhash32((uint32) (urp ^ (urp >> 32)));
}

bool
undo_gather_position(UndoGather *g, BlockNumber block)
{
	BlockNumber b;
	uint32		n;
	uint32		size;

	AssertNoPageLocked();
	Assert(CritSectionCount == 0);
	if (g->at == block)
		return true;
	if (block < g->shared->begin || block >= g->shared->end)
		return false;
	b = block - g->shared->begin;
	if (g->loaded != (int) (b / g->shared->per_part))
		load_part(g, b / g->shared->per_part);
	b %= g->shared->per_part;
	n = g->first[b + 1] - g->first[b];
	g->at = InvalidBlockNumber;
	size = pg_nextpower2_32(Max(16, Min(n, PG_UINT32_MAX / 4) * 2));
	if (size > g->table_room)
	{
		if (g->table != NULL)
			pfree(g->table);
		g->table = NULL;
		g->table_room = 0;
		g->table = MemoryContextAllocHuge(g->context,
										  (Size) size * sizeof(uint32));
		g->table_room = size;
	}
	g->mask = size - 1;
	memset(g->table, 0, (Size) size * sizeof(uint32));
	for (uint32 i = g->first[b]; i < g->first[b + 1]; i++)
	{
		uint32		h = hash_of(g->recs[i].urp) & g->mask;

		prefetch(g->data + g->recs[i].at);
		while (g->table[h] != 0)
			h = (h + 1) & g->mask;
		g->table[h] = i + 1;
	}
	g->at = block;
	return true;
}

bool
undo_gather_get(const UndoGather *g, UndoRecPtr urp, UndoRecord *rec)
{
	const Kept *k;
	UndoEntry	e;
	UndoEntryRest rest;
	uint32		h = hash_of(urp) & g->mask;

	if (!BlockNumberIsValid(g->at))
		return false;
	for (;; h = (h + 1) & g->mask)
	{
		if (g->table[h] == 0)
			return false;
		k = &g->recs[g->table[h] - 1];
		if (k->urp == urp)
			break;
	}
	e.kind = k->kind & ~KEPT_HAS_CHAIN;
	e.has_chain = (k->kind & KEPT_HAS_CHAIN) != 0;
	e.rest = g->data + k->at;
	e.rest_len = k->rest_len;
	if (!undo_page_get_rest(&e, urp, &rest))
		return false;
	rec->urp = urp;
	rec->kind = e.kind;
	rec->flags = rest.flags;
	rec->offset = rest.offset;
	rec->block = g->at;
	rec->chain = rest.chain;
	rec->writer = k->writer;
	rec->reloid = g->reloid;
	rec->dboid = g->dboid;
	rec->len = k->head_len + k->rest_len;
	rec->payload_len = rest.payload_len;
	rec->payload = rec->data;
	memcpy(rec->data, rest.payload, rest.payload_len);
	return true;
}
