/*-------------------------------------------------------------------------
 *
 * zheap_jump.c
 *	  Jumps: how a snapshot that must not see the last hundred thousand updates
 *	  of a row gets past them without a walk over each (writers' side; readers
 *	  jump in zheap_visibility.c).
 *
 * One of so many updates of a row, if the version it replaces may still be
 * needed, writes a jump into its undo record: {writer, record} of an older
 * change of the row, and a diff that leads from the version made here to the
 * version made there, over all that lies between.
 *
 * Which readers may jump, and why they miss nothing: "Jumps in the history of a
 * hot row" in the README.
 *
 * Which record to point at?  Those with jumps form a skew-binary list, the
 * skip list of append-only histories: each points to the one before, or, where
 * the two before span equal numbers of them, to where the farther one points.
 * From any of them every older one is a logarithmic number of jumps and steps
 * away.  (A step goes over the ordinary records up to the next with a jump.)
 * The list ends where nobody can need history any more.  Past 100,000 updates
 * of a row it leads by 8 pages; a jump to the one before each time, by 267.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

#include "undo/undo_debug.h"
#include "zheap/format/zheap_format.h"
#include "zheap/history/zheap_history.h"
#include "zheap/history/zheap_jump.h"
#include "zheap/history/zheap_walk.h"
#include "zheap/owner/zheap_xact_slot.h"

/* one of so many updates writes a jump; 0: none */
static int	jump_interval = 16;

/*
 * Versions to be passed in search of the last jump, in intervals: a chance of
 * e^-16 that it is farther, which interrupts the list.
 */
#define SEARCH_INTERVALS		UNDO_KNOB("jump-search", 16, 1, 16)

/* records to be read for each; more are of other rows, and this one isn't hot */
#define SEARCH_RECORDS			UNDO_KNOB("jump-records", 16, 1, 16)

/*
 * A row of which there can't be about so many versions since the oldest
 * snapshot isn't hot, either: its undo records lie far apart, and would be read
 * from storage.  Those of so few transactions wouldn't.
 */
#define HOT_VERSIONS			32
#define NEAR_XIDS				UNDO_KNOB("jump-near-xids", 16384, 0, 16384)

/* a jump over rows that differ in more than this isn't worth its bytes */
#define JUMP_MAX_OLD_BYTES		UNDO_KNOB("jump-bytes", 1024, 8, 1024)

/* the end of a jump, and the image there */
typedef struct JumpEnd
{
	bool		found;
	bool		is_node;		/* it has a jump itself */
	int			versions;		/* passed on the way */
	ZUndoJump	jump;
	uint16		len;
	char		image[BLCKSZ];
} JumpEnd;

void
zheap_jump_define_settings(void)
{
	DefineCustomIntVariable("zheap.jump_interval",
							"One of so many updates of a row lets old snapshots pass the ones before at once.",
							"Only where such snapshots exist. 0 means never.",
							&jump_interval, 16, 0, 1024,
							PGC_SUSET, 0, NULL, NULL, NULL);
}

/*
 * The bits of the pointer to the version before stand in for a counter, as
 * the row has none.  Temporary tables have no old snapshots.
 */
static bool
jump_is_due(const ZReadContext *cx, const ZUndo *u)
{
	uint8		old = u->flags & ZUNDO_OLD_MASK;
	UndoRecPtr	prev;

	Assert(u->kind == ZUNDO_UPDATE);
	if (jump_interval == 0 || RelationUsesLocalBuffers(cx->rel) ||
		(old != ZUNDO_OLD_IN_CHAIN && old != ZUNDO_OLD_LINK))
		return false;
	prev = old == ZUNDO_OLD_LINK ? u->link_urp : u->chain;
	return murmurhash32((uint32) (prev ^ (prev >> 32))) % jump_interval == 0;
}

/* may a snapshot exist that doesn't see this writer */
static bool
is_needed(const ZReadContext *cx, Fxid writer)
{
	return writer >= cx->hz.discard_before &&
		!zheap_xact_slot_seen_by_all(cx->rel, writer, &cx->hz, NULL);
}

/*
 * Have the versions up to this writer's, so many, come fast enough for a hot
 * row?  Told by xids, so without reading any undo.
 */
static bool
is_hot(const ZReadContext *cx, Fxid now, Fxid writer, int versions)
{
	Fxid		since = now - Min(now, writer);
	Fxid		needed = now - Min(now, cx->hz.discard_before);

	return needed < NEAR_XIDS || since * HOT_VERSIONS <= needed * versions;
}

/* the walk stands at a version whose record was found */
static void
remember_end(const ZWalk *walk, JumpEnd *end)
{
	Assert(walk->fxid != InvalidFxid && UndoRecPtrIsValid(walk->urp));
	end->found = true;
	end->jump.fxid = walk->fxid;
	end->jump.urp = walk->urp;
	end->jump.natts_flags1 = walk->hdr.natts_flags1 & ~ZH_SLACK;
	end->len = *walk->len;
	memcpy(end->image, walk->image, end->len);
}

/*
 * Walk back from the present version to the last record with a jump, or as far
 * as anybody may have to go, or as far as this is worth it.
 */
static void
find_last(const ZReadContext *cx, Fxid now, ZWalk *walk, Page page,
		  JumpEnd *end)
{
	ZWalkState	state = zheap_walk_start(walk, page);

	walk->budget = SEARCH_RECORDS;
	while (state == ZWALK_OWNED && is_needed(cx, walk->fxid) &&
		   is_hot(cx, now, walk->fxid, end->versions + 1) &&
		   end->versions < SEARCH_INTERVALS * jump_interval)
	{
		switch (zheap_walk_find(walk, false))
		{
			case ZFIND_FOUND:
				break;
			case ZFIND_OTHER:
				continue;
			default:
				return;
		}
		remember_end(walk, end);
		end->versions++;
		end->is_node = ZUndoHasJump(&walk->undo);
		if (end->is_node || ZUndoIsInsert(&walk->undo) ||
			ZUndoIsCopy(&walk->undo))
			return;
		state = zheap_walk_step_back(walk);
		walk->budget = SEARCH_RECORDS;
	}
}

/*
 * The walk stands at *end, a record with a jump; go on to where two jumps
 * lead, if they span the same number of jumps.
 */
static void
join_spans(const ZReadContext *cx, ZWalk *walk, JumpEnd *end)
{
	uint32		span = walk->undo.jump.span;

	end->jump.span = 1;
	if (!is_needed(cx, walk->undo.jump.fxid) || !zheap_walk_jump(walk) ||
		!ZUndoHasJump(&walk->undo) || walk->undo.jump.span != span ||
		span > PG_UINT32_MAX / 4 ||
		!is_needed(cx, walk->undo.jump.fxid) || !zheap_walk_jump(walk))
		return;
	remember_end(walk, end);
	end->jump.span = 1 + 2 * span;
}

char *
zheap_jump_describe(ZReadContext *cx, Page page, BlockNumber block,
					const char *body, uint16 len, ZUndo *u)
{
	ZWalk	   *walk;
	JumpEnd    *end;
	char	   *image;
	uint16		image_len = 0;
	bool		worth_it;

	if (!jump_is_due(cx, u))
		return NULL;

	walk = palloc(sizeof(ZWalk));
	end = palloc(sizeof(JumpEnd));
	image = palloc(BLCKSZ);
	end->found = end->is_node = false;
	end->versions = 0;
	zheap_walk_init(walk, cx->rel, &cx->reader, &cx->hz, block, u->offset,
					image, &image_len);
	find_last(cx, u->writer, walk, page, end);
	if (end->is_node)
		join_spans(cx, walk, end);
	else
		end->jump.span = 1;
	pfree(walk);
	pfree(image);

	worth_it = end->is_node || end->versions >= Max(2, jump_interval / 2);
	if (worth_it)
	{
		Assert(end->found);
		zheap_undo_diff(&end->jump.diff, end->image, end->len, body, len);
		if (end->jump.diff.oldmid <= JUMP_MAX_OLD_BYTES &&
			end->jump.diff.oldmid + u->diff.oldmid <= JUMP_MAX_OLD_BYTES * 4)
		{
			u->flags |= ZUNDO_JUMP;
			u->jump = end->jump;
			return (char *) end;
		}
	}
	pfree(end);
	return NULL;
}
