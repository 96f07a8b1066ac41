/*-------------------------------------------------------------------------
 *
 * undo_gather.c
 *	  Undo of one relation, read once in the order in which it lies: what there
 *	  is, how it comes into being, alone or with others, and goes.  How it is
 *	  handed out is in undo_gather_part.c.
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
 * of temp_file_limit.  Where that isn't enough, fewer blocks are covered.  Where
 * other files of the session leave less of the limit, or the disk is full,
 * nothing is gathered: a scan doesn't fail for room that it can do without.
 *
 * The processes of a parallel scan gather together: each reads other pieces of
 * undo, and writes a file for each part of which it finds something; who loads a
 * part reads the files of all.  What they share stands in a segment of dynamic
 * shared memory, which takes the files along when nobody is attached any more.
 * One process alone is a team of one.  The phases of a team: one process is
 * elected, makes the segment, then all read that have come meanwhile.  Nobody
 * returns rows between joining and the end of that, so that none waits for
 * another that waits for it (as in a parallel hash join).
 *
 * Files and segment belong to a resource owner below that of the transaction: a
 * savepoint that is rolled back to doesn't take them away, and one call gives
 * them back.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xact.h"
#include "catalog/pg_class.h"
#include "executor/nodeHash.h"
#include "miscadmin.h"
#include "storage/buffile.h"
#include "storage/bufmgr.h"
#include "storage/dsm.h"
#include "storage/sharedfileset.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/resowner.h"
#include "utils/wait_event.h"

#include "undo/log/undo_files.h"
#include "undo/log/undo_page.h"
#include "undo/log/undo_shmem.h"
#include "undo/record/undo_gather.h"
#include "undo/record/undo_gather_part.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"
#include "undo/undo_pack.h"

#define MIN_PARTS			4
#define MAX_PARTS			UNDO_KNOB("gather-parts", 1024, 1, 1024)

/* blocks of undo that a process of a team takes at a time */
#define PIECE				UNDO_KNOB("gather-piece", 128, 1, 128)

/* phases of a team; later ones: done */
#define TEAM_ELECTS			0
#define TEAM_MAKES			1
#define TEAM_READS			2

/* relations at a time; the one asked for longest ago makes way */
#define MAX_GATHERED		8

/* what is to be gathered */
typedef struct GatherOrder
{
	Relation	rel;
	Fxid		floor;			/* of writers from there on */
	BlockNumber first;			/* for so many blocks from there on */
	BlockNumber nblocks;
	BlockNumber per_part;		/* blocks to be loaded at once, 0 to choose */
} GatherOrder;

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
	undo_gather_release(g->owner);
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

/* so much was too much that the pass begins anew, for fewer blocks */
static inline bool
is_too_much(const UndoGather *g)
{
	return pg_atomic_read_u32(&g->shared->too_much) != 0;
}

/* May this process write so many bytes more, as they are loaded, of a part? */
static bool
grant(UndoGather *g, uint32 part, Size need)
{
	Part	   *p = &g->parts[part];
	pg_atomic_uint64 *granted = &g->shared->granted[part];
	Size		step = Max(need, g->shared->part_limit / 64);

	if (p->size + need <= p->granted)
		return true;
	if (pg_atomic_add_fetch_u64(granted, step) > g->shared->part_limit)
	{
		pg_atomic_sub_fetch_u64(granted, step);
		return false;
	}
	p->granted += step;
	return true;
}

static void
keep(UndoGather *g, const UndoEntry *e, UndoRecPtr urp, Fxid writer)
{
	Shared	   *sh = g->shared;
	char		buf[KEPT_MAX_HEAD + KEPT_MAX_REST];
	char	   *q = buf;
	BlockNumber b = e->block - sh->begin;
	uint32		part = b / sh->per_part;
	Part	   *p = &g->parts[part];
	Size		need;

	Assert(e->block >= sh->begin && e->block < sh->end);
	if (e->rest_len > KEPT_MAX_REST)
		return;
	*q++ = (char) (e->kind | (e->has_chain ? KEPT_HAS_CHAIN : 0));
	q = undo_pack(q, e->rest_len);
	q = undo_pack(q, e->len - e->rest_len);
	q = undo_pack(q, undo_zigzag(p->urp, urp));
	q = undo_pack(q, undo_zigzag(p->writer, writer));
	q = undo_pack(q, b % sh->per_part);
	memcpy(q, e->rest, e->rest_len);
	q += e->rest_len;

	need = q - buf + sizeof(Kept);
	if (g->kept + (q - buf) > g->disk_limit || !grant(g, part, need))
	{
		g->passed_over += q - buf;
		if (g->passed_over > g->kept / 8 + BLCKSZ && sh->end - sh->begin > 1)
			pg_atomic_write_u32(&sh->too_much, 1);
		return;
	}
	g->writing = true;
	if (p->file == NULL)
	{
		char		name[MAXPGPATH];
		MemoryContext old = MemoryContextSwitchTo(g->context);

		UNDO_ROOM_POINT("gather-file");
		undo_gather_name_file(name, part, g->member);
		p->file = BufFileCreateFileSet(&sh->files, name);
		MemoryContextSwitchTo(old);
	}
	BufFileWrite(p->file, buf, q - buf);
	g->writing = false;
	p->urp = urp;
	p->writer = writer;
	p->size += need;
	g->kept += q - buf;
}

/* What is wanted of a copy of an undo page. */
static void
gather_page(UndoGather *g, Page page, UndoLogNumber log, BlockNumber block)
{
	const Shared *sh = g->shared;
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
				e.fxid >= sh->floor;
		}
		else if (wanted && e.run == run &&
				 e.block >= sh->begin && e.block < sh->end)
			keep(g, &e, MakeUndoRecPtr(log, block, at), writer);
		at += e.len;
	}
}

/* Pages are read with a ring, and copied: no page stays pinned (U16). */
static void
gather_block(UndoGather *g, UndoLogNumber log, BlockNumber block,
			 BufferAccessStrategy strategy)
{
	PGAlignedBlock copy;
	Page		page;
	bool		wanted;
	Buffer		buffer = undo_file_read_in_order(g->persistence, log, block,
												 strategy);

	if (!BufferIsValid(buffer))
		return;
	LockBuffer(buffer, BUFFER_LOCK_SHARE);
	page = BufferGetPage(buffer);
	wanted = undo_page_problem(page, UNDO_PAGE_MAGIC) == NULL &&
		UndoPageGetOpaque(page)->max_fxid >= g->shared->floor;
	if (wanted)
		memcpy(copy.data, page, BLCKSZ);
	UnlockReleaseBuffer(buffer);
	if (wanted)
		gather_page(g, (Page) copy.data, log, block);
}

/* Take the next piece of undo that none of the team has taken: from .. end - 1. */
static bool
take_piece(UndoGather *g, UndoLogNumber *log, BlockNumber *from,
		   BlockNumber *end)
{
	uint64		n = pg_atomic_fetch_add_u64(&g->shared->next, 1);

	for (uint32 i = 0; i < g->shared->nlogs; i++)
	{
		BlockNumber used = SharedLogs(g->shared)[i];
		uint64		pieces = ((uint64) used + PIECE - 1) / PIECE;

		if (n < pieces)
		{
			*log = i;
			*from = Max(1, (BlockNumber) n * PIECE);
			*end = Min(used, ((BlockNumber) n + 1) * PIECE);
			return true;
		}
		n -= pieces;
	}
	return false;
}

/* Read what there is for this process to read, and let others have its files. */
static bool
read_pieces(UndoGather *g, const GatherOrder *order)
{
	Shared	   *sh = g->shared;
	BufferAccessStrategy strategy = GetAccessStrategy(BAS_BULKREAD);
	UndoLogNumber log;
	BlockNumber block;
	BlockNumber end;

	g->member = pg_atomic_fetch_add_u32(&sh->members, 1);
	g->parts = MemoryContextAllocZero(g->context, sizeof(Part) * sh->nparts);
	g->disk_limit = temp_file_limit < 0 ? SIZE_MAX :
		(Size) temp_file_limit * 1024 / 2;
	while (!is_too_much(g) && take_piece(g, &log, &block, &end))
	{
		for (; block < end && !is_too_much(g); block++)
		{
			CHECK_FOR_INTERRUPTS();
			UNDO_ERROR_POINT("gather-block");
			gather_block(g, log, block, strategy);
		}
	}
	FreeAccessStrategy(strategy);
	g->writing = true;
	for (uint32 i = 0; i < sh->nparts; i++)
	{
		if (g->parts[i].file == NULL)
			continue;
		BufFileExportFileSet(g->parts[i].file);
		BufFileClose(g->parts[i].file);
	}
	g->writing = false;
	pfree(g->parts);
	g->parts = NULL;
	pg_atomic_fetch_add_u64(&sh->kept, g->kept);
	return true;
}

/*
 * Do a step of that; false if it does, or if there is no room for its files or
 * its segment, which can't be known beforehand: core alone counts all files of a
 * session.  An error while one is written leaves nothing held but what g's owner
 * has: no page is pinned nor locked then, core waits for nothing, and the files go
 * with the owner.
 */
static bool
do_if_there_is_room(UndoGather *g, const GatherOrder *order,
					bool (*step) (UndoGather *g, const GatherOrder *order))
{
	MemoryContext caller = CurrentMemoryContext;
	volatile bool done = false;

	/* an error would let interrupts come */
	Assert(InterruptHoldoffCount == 0 && QueryCancelHoldoffCount == 0);
	PG_TRY();
	{
		done = step(g, order);
	}
	PG_CATCH();
	{
		if (!g->writing || geterrcode() == ERRCODE_QUERY_CANCELED)
			PG_RE_THROW();
		g->writing = false;
		MemoryContextSwitchTo(caller);
		FlushErrorState();
		CurrentResourceOwner = g->owner;
	}
	PG_END_TRY();
	return done;
}

/* Into as many parts as there is memory for, or as are needed. */
static void
choose_parts(Shared *sh, uint64 undo_blocks, BlockNumber nblocks,
			 BlockNumber per_part)
{
	Size		memory = get_hash_memory_limit();
	Size		most = Min(Max(memory / 4 / BLCKSZ, MIN_PARTS), MAX_PARTS);
	double		expected = (double) undo_blocks * BLCKSZ;

	sh->part_limit = Min(memory / 4 * 3, MaxAllocHugeSize / 4);
	sh->part_limit = Min(sh->part_limit, PG_UINT32_MAX);
	if (per_part == 0)
	{
		/* loaded, records take twice as much */
		most = Min((double) most, 2 + 4 * expected / sh->part_limit);
		per_part = nblocks / most + 1;
	}
	sh->per_part = per_part;
	sh->nparts = Min((nblocks - 1) / per_part + 1, most);
	sh->end = sh->begin + Min((uint64) sh->nparts * per_part, nblocks);
	sh->nparts = (sh->end - sh->begin - 1) / per_part + 1;
}

/* Nothing is gathered, and it is found nowhere yet. */
static UndoGather *
new_gather(Relation rel)
{
	static bool registered = false;
	MemoryContext context =
		AllocSetContextCreate(TopTransactionContext, "zheap undo gathered",
							  ALLOCSET_DEFAULT_SIZES);
	UndoGather *g = MemoryContextAllocZero(context, sizeof(UndoGather));

	Assert(rel->rd_rel->relpersistence != RELPERSISTENCE_TEMP);
	if (!registered)
		RegisterXactCallback(at_end_of_transaction, NULL);
	registered = true;
	g->context = context;
	g->persistence = rel->rd_rel->relpersistence;
	g->reloid = RelationGetRelid(rel);
	g->dboid = rel->rd_locator.dbOid;
	g->loaded = -1;
	g->at = InvalidBlockNumber;
	g->owner = ResourceOwnerCreate(TopTransactionResourceOwner,
								   "zheap undo gathered");
	return g;
}

/*
 * A process detaches.  (Core's SharedFileSet does the same, but raises an error if
 * one comes as the last one goes.)
 */
static void
at_detach(dsm_segment *segment, Datum shared)
{
	Shared	   *sh = (Shared *) DatumGetPointer(shared);

	if (pg_atomic_sub_fetch_u32(&sh->attached, 1) > 0)
		return;
	UNDO_POINT("gather-last-leaves");
	FileSetDeleteAll(&sh->files);
}

/* Make the segment; false if there is none to be had.  Under g's owner. */
static bool
make_segment(UndoGather *g, const GatherOrder *order)
{
	Shared		plan = {.floor = order->floor,.begin = order->first};
	Shared	   *sh;

	/* none for a server without a postmaster */
	if (!IsUnderPostmaster ||
		(temp_file_limit >= 0 && temp_file_limit < 2 * BLCKSZ / 1024))
		return false;
	choose_parts(&plan, undo_gather_cost(g->persistence), order->nblocks,
				 order->per_part);
	plan.nlogs = count_logs(g->persistence);
	g->writing = true;
	UNDO_ROOM_POINT("gather-segment");
	g->segment = dsm_create(offsetof(Shared, granted) +
							sizeof(pg_atomic_uint64) * plan.nparts +
							sizeof(BlockNumber) * plan.nlogs,
							DSM_CREATE_NULL_IF_MAXSEGMENTS);
	g->writing = false;
	if (g->segment == NULL)
		return false;
	sh = g->shared = dsm_segment_address(g->segment);
	*sh = plan;
	FileSetInit(&sh->files);
	pg_atomic_init_u32(&sh->attached, 1);
	on_dsm_detach(g->segment, at_detach, PointerGetDatum(sh));
	pg_atomic_init_u64(&sh->next, 0);
	pg_atomic_init_u64(&sh->kept, 0);
	pg_atomic_init_u32(&sh->members, 0);
	pg_atomic_init_u32(&sh->too_much, 0);
	for (uint32 i = 0; i < sh->nparts; i++)
		pg_atomic_init_u64(&sh->granted[i], 0);
	for (uint32 i = 0; i < sh->nlogs; i++)
		SharedLogs(sh)[i] = undo_file_used_blocks(g->persistence, i);
	return true;
}

/* Attach to a segment; false if it is no more, or its files.  Under g's owner. */
static bool
attach_segment(UndoGather *g, dsm_handle handle)
{
	Shared	   *sh;
	uint32		attached;

	g->segment = dsm_attach(handle);
	if (g->segment == NULL)
		return false;
	sh = g->shared = dsm_segment_address(g->segment);
	on_dsm_detach(g->segment, at_detach, PointerGetDatum(sh));
	attached = pg_atomic_read_u32(&sh->attached);
	while (attached > 0)
	{
		if (pg_atomic_compare_exchange_u32(&sh->attached, &attached,
										   attached + 1))
			return true;
	}
	ereport(DEBUG1,
			(errmsg_internal("gathered undo goes as this process comes")));
	cancel_on_dsm_detach(g->segment, at_detach, PointerGetDatum(sh));
	dsm_detach(g->segment);
	g->segment = NULL;
	g->shared = NULL;
	return false;
}

static void
tell(const UndoGather *g, Relation rel)
{
	ereport(DEBUG1,
			(errmsg_internal("gathered undo of \"%s\": blocks %u to %u in %u parts, %llu kB, by %u processes",
							 RelationGetRelationName(rel), g->shared->begin,
							 g->shared->end - 1, g->shared->nparts,
							 (unsigned long long) pg_atomic_read_u64(&g->shared->kept) / 1024,
							 pg_atomic_read_u32(&g->shared->members))));
}

/* ----------------------------------------------------------------
 *	teams
 * ----------------------------------------------------------------
 */

void
undo_gather_team_init(UndoGatherTeam *team, const UndoGather *g)
{
	BarrierInit(&team->barrier, 0);
	team->segment = g != NULL ? dsm_segment_handle(g->segment) :
		DSM_HANDLE_INVALID;
	team->ready = g != NULL;
	team->no_room = false;
}

bool
undo_gather_team_begun(UndoGatherTeam *team)
{
	return team->ready || BarrierPhase(&team->barrier) != TEAM_ELECTS;
}

static void
note_no_room(UndoGatherTeam *team, const GatherOrder *order)
{
	team->no_room = true;
	ereport(DEBUG1,
			(errmsg_internal("no room to gather undo of \"%s\"",
							 RelationGetRelationName(order->rel))));
}

/*
 * Do with the team what it is about to do.  True if g is attached, and there is
 * something.  Under g's owner; waits for others that read.
 */
static bool
join(UndoGather *g, UndoGatherTeam *team, const GatherOrder *order)
{
	Barrier    *barrier = &team->barrier;

	switch (team->ready ? TEAM_READS + 1 : BarrierAttach(barrier))
	{
		case TEAM_ELECTS:
			if (!BarrierArriveAndWait(barrier, PG_WAIT_EXTENSION))
				 /* another one does */ ;
			else if (do_if_there_is_room(g, order, make_segment))
				team->segment = dsm_segment_handle(g->segment);
			else
				note_no_room(team, order);
			/* FALLTHROUGH */
		case TEAM_MAKES:
			BarrierArriveAndWait(barrier, PG_WAIT_EXTENSION);
			/* FALLTHROUGH */
		case TEAM_READS:
			if (team->segment != DSM_HANDLE_INVALID &&
				(g->segment != NULL || attach_segment(g, team->segment)) &&
				!do_if_there_is_room(g, order, read_pieces))
			{
				/* what it read nobody has */
				pg_atomic_write_u32(&g->shared->too_much, 1);
				note_no_room(team, order);
			}
			if (BarrierArriveAndWait(barrier, PG_WAIT_EXTENSION) &&
				g->segment != NULL && !is_too_much(g))
				tell(g, order->rel);
			break;
		default:
			break;
	}
	if (!team->ready)
		BarrierDetach(barrier);
	return team->segment != DSM_HANDLE_INVALID &&
		(g->segment != NULL || attach_segment(g, team->segment)) &&
		!is_too_much(g);
}

/* The same for one that is new; NULL if there is nothing. */
static UndoGather *
join_anew(UndoGatherTeam *team, const GatherOrder *order)
{
	UndoGather *volatile g = new_gather(order->rel);
	ResourceOwner volatile caller = CurrentResourceOwner;
	volatile bool done = false;

	CurrentResourceOwner = g->owner;
	PG_TRY();
	{
		done = join(g, team, order);
	}
	PG_FINALLY();
	{
		CurrentResourceOwner = caller;
		if (!done)
			give_back(g);
	}
	PG_END_TRY();
	return done ? g : NULL;
}

UndoGather *
undo_gather_join(UndoGatherTeam *team, Relation rel, Fxid floor,
				 BlockNumber nblocks, BlockNumber per_part)
{
	GatherOrder order = {rel, floor, 0, nblocks, per_part};
	UndoGather *g = undo_gather_find(rel);

	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && nblocks > 0 && IsTransactionState());
	/* one can't attach to a segment twice */
	if (g != NULL && team->segment == dsm_segment_handle(g->segment))
		return g;
	undo_gather_drop(rel);
	UNDO_ERROR_POINT("gather-joins");
	g = join_anew(team, &order);
	/* what was there before the scan may cover less: the table has grown */
	if (g != NULL && !team->ready && g->shared->end < nblocks)
	{
		give_back(g);
		return NULL;
	}
	if (g != NULL)
		publish(g);
	return g;
}

/* A team of one. */
UndoGather *
undo_gather_build(Relation rel, Fxid floor, BlockNumber first,
				  BlockNumber *nblocks, BlockNumber per_part)
{
	GatherOrder order = {rel, floor, first, *nblocks, per_part};
	UndoGather *g = NULL;

	AssertNoPageLocked();
	Assert(CritSectionCount == 0 && *nblocks > 0 && IsTransactionState());
	undo_gather_drop(rel);

	for (; order.nblocks > 0 && g == NULL; order.nblocks /= 4)
	{
		UndoGatherTeam team;

		undo_gather_team_init(&team, NULL);
		g = join_anew(&team, &order);
		if (team.no_room)
			break;
	}
	*nblocks = 0;
	if (g == NULL)
		return NULL;
	publish(g);
	*nblocks = g->shared->end - g->shared->begin;
	return g;
}
