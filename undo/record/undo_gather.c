/*-------------------------------------------------------------------------
 *
 * undo_gather.c
 *	  Undo of one relation, read once in the order in which it lies and handed
 *	  out in the order of the relation's blocks.
 *
 * A reader that follows the chains of each page reads undo at random, and a
 * block again for each table page that has a record there: 233 times over where
 * rows were changed 8.5 times at random.  When undo has outgrown memory it's
 * cheaper to read all of it from one end to the other, to keep the records of
 * the relation in temporary files, each for a range of its blocks (a part), and
 * to load these one by one.
 *
 * What is kept is a read cache like the others: a record never changes, and
 * {persistence, writer, pointer} names one for ever (U5).  Whether it may still
 * be asked for is the reader's business, as with any copy (U3, U11).
 *
 * Memory: what a hash table may have (work_mem, hash_mem_multiplier), a quarter
 * of it for buffers of files, the rest for the part that is loaded.  Disk: half
 * of temp_file_limit.  Where that isn't enough, fewer blocks are covered.
 *
 * Files belong to a resource owner below that of the transaction: a savepoint
 * that is rolled back to doesn't take them away, and one call gives them back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "common/hashfn.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "storage/buffile.h"
#include "storage/bufmgr.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/record/undo_gather.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_pack.h"

/*
 * A record that is kept: kind, with a bit that tells whether it has a chain |
 * length of the rest | length of what was before the rest | place, as a
 * difference from the record before | writer, likewise | block in its part | the
 * rest as on the undo page.
 */
#define KEPT_HAS_CHAIN		0x40
#define KEPT_MAX_HEAD		(1 + 5 * UNDO_MAX_PACKED)

/* longer ones are left where they are: SPILL records, large values */
#define KEPT_MAX_REST		512

#define MIN_PARTS			4
#define MAX_PARTS			UNDO_KNOB("gather-parts", 1024, 1, 1024)

/* relations at a time; the one asked for longest ago makes way */
#define MAX_GATHERED		8

/* a record of the part that is loaded */
typedef struct Kept
{
	UndoRecPtr	urp;
	Fxid		writer;
	uint32		at;				/* of its rest, in data */
	uint16		rest_len;
	uint8		head_len;
	uint8		kind;			/* and KEPT_HAS_CHAIN */
} Kept;

/* the records of a range of blocks, in a file */
typedef struct Part
{
	BufFile    *file;			/* NULL: none yet */
	uint32		nrecs;
	Size		bytes;
	UndoRecPtr	urp;			/* of the last one */
	Fxid		writer;
} Part;

struct UndoGather
{
	char		persistence;
	Oid			reloid;
	Oid			dboid;
	Fxid		floor;			/* no earlier writer's records are here */
	uint64		used;			/* when it was asked for last */
	MemoryContext context;
	ResourceOwner owner;		/* of the files */
	BlockNumber begin;			/* blocks that are covered */
	BlockNumber end;
	BlockNumber per_part;
	int			nparts;
	Part	   *parts;
	Size		part_limit;		/* bytes of a part when it is loaded */
	Size		disk_limit;		/* of all */
	Size		kept;			/* bytes */
	Size		passed_over;	/* bytes that were too much */

	/* the part that is loaded, -1 if none */
	int			loaded;
	char	   *data;
	Size		data_room;
	Kept	   *recs;			/* by block */
	Size		recs_room;
	uint32	   *first;			/* of each block: index in recs; one more */

	/* the block that records are asked for, and a hash table of them */
	BlockNumber at;
	uint32		mask;
	uint32	   *table;			/* index in recs + 1 */
	uint32		table_room;
};

int			undo_gather_count = 0;

static UndoGather *gathered[MAX_GATHERED];
static uint64 uses = 0;

/* ----------------------------------------------------------------
 *	life
 * ----------------------------------------------------------------
 */

/* Nothing is written any more: files go as they are. */
static void
give_back(UndoGather *g)
{
	ResourceOwner owner = g->owner;

	ResourceOwnerRelease(owner, RESOURCE_RELEASE_BEFORE_LOCKS, false, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_LOCKS, false, false);
	ResourceOwnerRelease(owner, RESOURCE_RELEASE_AFTER_LOCKS, false, false);
	ResourceOwnerDelete(owner);
	MemoryContextDelete(g->context);
}

static void
drop(int i)
{
	UndoGather *g = gathered[i];

	Assert(i >= 0 && i < undo_gather_count);
	gathered[i] = gathered[--undo_gather_count];
	gathered[undo_gather_count] = NULL;
	give_back(g);
}

static void
at_end_of_transaction(XactEvent event, void *arg)
{
	switch (event)
	{
		case XACT_EVENT_PRE_COMMIT:
		case XACT_EVENT_PARALLEL_PRE_COMMIT:
		case XACT_EVENT_PRE_PREPARE:
			/* again, if others that are called here read tables, too */
		case XACT_EVENT_COMMIT:
		case XACT_EVENT_PARALLEL_COMMIT:
		case XACT_EVENT_PREPARE:
			while (undo_gather_count > 0)
				drop(undo_gather_count - 1);
			break;
		case XACT_EVENT_ABORT:
		case XACT_EVENT_PARALLEL_ABORT:
			/* files and memory go with those of the transaction */
			undo_gather_count = 0;
			break;
	}
}

static int
find(char persistence, Oid reloid)
{
	for (int i = 0; i < undo_gather_count; i++)
	{
		if (gathered[i]->reloid == reloid &&
			gathered[i]->persistence == persistence)
			return i;
	}
	return -1;
}

UndoGather *
undo_gather_find(Relation rel)
{
	int			i = find(rel->rd_rel->relpersistence, RelationGetRelid(rel));

	if (i < 0)
		return NULL;
	gathered[i]->used = ++uses;
	return gathered[i];
}

void
undo_gather_drop(Relation rel)
{
	int			i = find(rel->rd_rel->relpersistence, RelationGetRelid(rel));

	if (i >= 0)
		drop(i);
}

/* Put it where it is found, in the place of another one if need be. */
static void
publish(UndoGather *g)
{
	if (undo_gather_count == MAX_GATHERED)
	{
		int			oldest = 0;

		for (int i = 1; i < MAX_GATHERED; i++)
		{
			if (gathered[i]->used < gathered[oldest]->used)
				oldest = i;
		}
		drop(oldest);
	}
	g->used = ++uses;
	gathered[undo_gather_count++] = g;
}

/* ----------------------------------------------------------------
 *	the pass
 * ----------------------------------------------------------------
 */

/* A standby doesn't keep count of logs made since it looked last: files do. */
static int
count_logs(char persistence)
{
	int			nlogs = undo_shmem_log_count(persistence);

	if (pg_atomic_read_u32(&UndoShmem->state) == UNDO_PRIMARY)
		return nlogs;
	while (nlogs < UNDO_MAX_LOGS &&
		   undo_file_used_blocks(persistence, nlogs) > 0)
		nlogs++;
	return nlogs;
}

uint64
undo_gather_cost(char persistence)
{
	uint64		blocks = 0;
	int			nlogs = count_logs(persistence);

	Assert(persistence != RELPERSISTENCE_TEMP);
	for (int log = 0; log < nlogs; log++)
	{
		BlockNumber used = undo_file_used_blocks(persistence, log);

		if (used > 1)
			blocks += used - 1;
	}
	return blocks;
}

static BufFile *
make_file(UndoGather *g)
{
	ResourceOwner owner = CurrentResourceOwner;
	MemoryContext old = MemoryContextSwitchTo(g->context);
	BufFile    *file = NULL;

	CurrentResourceOwner = g->owner;
	PG_TRY();
	{
		file = BufFileCreateTemp(false);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = owner;
		MemoryContextSwitchTo(old);
	}
	PG_END_TRY();
	return file;
}

static void
keep(UndoGather *g, const UndoEntry *e, UndoRecPtr urp, Fxid writer)
{
	char		buf[KEPT_MAX_HEAD + KEPT_MAX_REST];
	char	   *q = buf;
	BlockNumber b = e->block - g->begin;
	Part	   *p = &g->parts[b / g->per_part];

	Assert(e->block >= g->begin && e->block < g->end);
	if (e->rest_len > KEPT_MAX_REST)
		return;
	*q++ = (char) (e->kind | (e->has_chain ? KEPT_HAS_CHAIN : 0));
	q = undo_pack(q, e->rest_len);
	q = undo_pack(q, e->len - e->rest_len);
	q = undo_pack(q, undo_zigzag(p->urp, urp));
	q = undo_pack(q, undo_zigzag(p->writer, writer));
	q = undo_pack(q, b % g->per_part);
	memcpy(q, e->rest, e->rest_len);
	q += e->rest_len;

	if (p->bytes + p->nrecs * sizeof(Kept) + (q - buf) + sizeof(Kept) >
		g->part_limit || g->kept + (q - buf) > g->disk_limit)
	{
		g->passed_over += q - buf;
		return;
	}
	if (p->file == NULL)
		p->file = make_file(g);
	BufFileWrite(p->file, buf, q - buf);
	p->urp = urp;
	p->writer = writer;
	p->bytes += q - buf;
	p->nrecs++;
	g->kept += q - buf;
}

/* What is wanted of a copy of an undo page. */
static void
gather_page(UndoGather *g, Page page, UndoLogNumber log, BlockNumber block)
{
	uint16		at = UNDO_FIRST_OFFSET;
	uint16		run = 0;
	bool		wanted = false;
	Fxid		writer = InvalidFxid;
	UndoEntry	e;

	while (undo_page_get(page, at, &e))
	{
		if (e.kind == UNDO_KIND_RUN)
		{
			run = e.at;
			writer = e.fxid;
			wanted = e.reloid == g->reloid && e.dboid == g->dboid &&
				e.fxid >= g->floor;
		}
		else if (wanted && e.run == run &&
				 e.block >= g->begin && e.block < g->end)
			keep(g, &e, MakeUndoRecPtr(log, block, at), writer);
		at += e.len;
	}
}

/* so much was too much that the pass begins anew, for fewer blocks */
static inline bool
is_too_much(const UndoGather *g)
{
	return g->passed_over > g->kept / 8 + BLCKSZ && g->end - g->begin > 1;
}

/* Pages are read with a ring, and copied: no page stays pinned (U16). */
static void
gather_log(UndoGather *g, UndoLogNumber log, BufferAccessStrategy strategy)
{
	BlockNumber used = undo_file_used_blocks(g->persistence, log);
	PGAlignedBlock copy;

	for (BlockNumber block = 1; block < used && !is_too_much(g); block++)
	{
		Buffer		buffer;
		Page		page;
		bool		wanted;

		CHECK_FOR_INTERRUPTS();
		UNDO_ERROR_POINT("gather-block");
		buffer = undo_file_read_in_order(g->persistence, log, block,
										 strategy);
		if (!BufferIsValid(buffer))
			break;
		LockBuffer(buffer, BUFFER_LOCK_SHARE);
		page = BufferGetPage(buffer);
		wanted = undo_page_problem(page, UNDO_PAGE_MAGIC) == NULL &&
			UndoPageGetOpaque(page)->max_fxid >= g->floor;
		if (wanted)
			memcpy(copy.data, page, BLCKSZ);
		UnlockReleaseBuffer(buffer);
		if (wanted)
			gather_page(g, (Page) copy.data, log, block);
	}
}

/* False if it is too much. */
static bool
gather_logs(UndoGather *g, BufferAccessStrategy strategy)
{
	int			nlogs = count_logs(g->persistence);

	for (int log = 0; log < nlogs && !is_too_much(g); log++)
		gather_log(g, log, strategy);
	return !is_too_much(g);
}

/* Into as many parts as there is memory for, or as are needed. */
static void
choose_parts(UndoGather *g, BlockNumber nblocks, BlockNumber per_part)
{
	Size		memory = get_hash_memory_limit();
	Size		most = Min(Max(memory / 4 / BLCKSZ, MIN_PARTS), MAX_PARTS);
	double		expected = (double) undo_gather_cost(g->persistence) * BLCKSZ;

	g->part_limit = Min(memory / 4 * 3, MaxAllocHugeSize / 4);
	g->part_limit = Min(g->part_limit, PG_UINT32_MAX);
	g->disk_limit = temp_file_limit < 0 ? SIZE_MAX :
		(Size) temp_file_limit * 1024 / 2;
	if (per_part == 0)
	{
		/* loaded, records take twice as much */
		most = Min((double) most, 2 + 4 * expected / g->part_limit);
		per_part = nblocks / most + 1;
	}
	g->per_part = per_part;
	g->nparts = Min((nblocks - 1) / per_part + 1, most);
	g->end = g->begin + Min((uint64) g->nparts * per_part, nblocks);
	g->nparts = (g->end - g->begin - 1) / per_part + 1;
}

/* For nblocks blocks from "first" on; NULL if that is too much. */
static UndoGather *
try_build(Relation rel, Fxid floor, BlockNumber first, BlockNumber nblocks,
		  BlockNumber per_part)
{
	MemoryContext context =
		AllocSetContextCreate(TopTransactionContext, "zheap undo gathered",
							  ALLOCSET_DEFAULT_SIZES);
	UndoGather *g = MemoryContextAllocZero(context, sizeof(UndoGather));
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	volatile bool done = false;

	g->context = context;
	g->persistence = rel->rd_rel->relpersistence;
	g->reloid = RelationGetRelid(rel);
	g->dboid = rel->rd_locator.dbOid;
	g->floor = floor;
	g->begin = first;
	g->loaded = -1;
	g->at = InvalidBlockNumber;
	choose_parts(g, nblocks, per_part);
	g->parts = MemoryContextAllocZero(context, sizeof(Part) * g->nparts);
	g->first = MemoryContextAllocHuge(context, sizeof(uint32) *
									  ((Size) g->per_part + 1));
	g->owner = ResourceOwnerCreate(TopTransactionResourceOwner,
								   "zheap undo gathered");
	PG_TRY();
	{
		done = gather_logs(g, strategy);
	}
	PG_FINALLY();
	{
		if (!done)
			give_back(g);
	}
	PG_END_TRY();
	FreeAccessStrategy(strategy);
	return done ? g : NULL;
}

UndoGather *
undo_gather_build(Relation rel, Fxid floor, BlockNumber first,
				  BlockNumber *nblocks, BlockNumber per_part)
{
	static bool registered = false;
	UndoGather *g = NULL;
	BlockNumber n = *nblocks;

	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && n > 0 && IsTransactionState());
	Assert(rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP);
	if (!registered)
		RegisterXactCallback(at_end_of_transaction, NULL);
	registered = true;
	undo_gather_drop(rel);

	*nblocks = 0;
	if (temp_file_limit >= 0 && temp_file_limit < 2 * BLCKSZ / 1024)
		return NULL;
	while (n > 0 && (g = try_build(rel, floor, first, n, per_part)) == NULL)
		n /= 4;
	if (g == NULL)
		return NULL;
	publish(g);
	*nblocks = g->end - g->begin;
	ereport(DEBUG1,
			(errmsg_internal("gathered undo of \"%s\": blocks %u to %u in %d parts, %zu kB",
							 RelationGetRelationName(rel), g->begin,
							 g->end - 1, g->nparts, g->kept / 1024)));
	return g;
}

/* ----------------------------------------------------------------
 *	handing out
 * ----------------------------------------------------------------
 */

static void *
more_room(UndoGather *g, void *old, Size *room, Size need)
{
	if (need <= *room)
		return old;
	if (old != NULL)
		pfree(old);
	*room = 0;
	old = MemoryContextAllocHuge(g->context, need);
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

/* Read a part and order its records by block. */
static void
load_part(UndoGather *g, int n)
{
	Part	   *p = &g->parts[n];
	const char *end;
	Kept		k;
	uint64		b = 0;

	g->loaded = -1;
	g->at = InvalidBlockNumber;
	memset(g->first, 0, sizeof(uint32) * ((Size) g->per_part + 1));
	if (p->nrecs > 0)
	{
		g->data = more_room(g, g->data, &g->data_room, p->bytes);
		g->recs = more_room(g, g->recs, &g->recs_room,
							p->nrecs * sizeof(Kept));
		if (BufFileSeek(p->file, 0, 0L, SEEK_SET) != 0 ||
			BufFileRead(p->file, g->data, p->bytes) != p->bytes)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read a temporary file of gathered undo: %m")));
	}
	end = g->data + p->bytes;
	for (int pass = 0; pass < 2 && p->nrecs > 0; pass++)
	{
		const char *q = g->data;

		memset(&k, 0, sizeof(k));
		for (uint32 i = 0; i < p->nrecs; i++)
		{
			q = unpack(q, end, &k, &b);
			Assert(q <= end && b < g->per_part);
			if (pass == 0)
				g->first[b + 1]++;
			else
			{
				k.at = q - k.rest_len - g->data;
				g->recs[g->first[b]++] = k;
			}
		}
		/* numbers become beginnings; what they became in pass 1 goes up by one */
		if (pass == 0)
		{
			for (b = 0; b < g->per_part; b++)
				g->first[b + 1] += g->first[b];
		}
		else
		{
			for (b = g->per_part; b > 0; b--)
				g->first[b] = g->first[b - 1];
			g->first[0] = 0;
		}
	}
	g->loaded = n;
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
	if (block < g->begin || block >= g->end)
		return false;
	b = block - g->begin;
	if (g->loaded != (int) (b / g->per_part))
		load_part(g, b / g->per_part);
	b %= g->per_part;
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
