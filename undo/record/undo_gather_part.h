/*-------------------------------------------------------------------------
 *
 * undo_gather_part.h
 *	  How gathered undo is kept.  Private to undo_gather*.c.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_GATHER_PART_H
#define UNDO_GATHER_PART_H

#include "port/atomics.h"
#include "storage/buffile.h"
#include "storage/dsm.h"
#include "storage/fileset.h"
#include "utils/resowner.h"

#include "undo/record/undo_gather.h"
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

/* what this process writes of the records of a range of blocks */
typedef struct Part
{
	BufFile    *file;			/* NULL: none yet */
	Size		size;			/* of what it wrote, when it is loaded */
	Size		granted;		/* how large that may become */
	UndoRecPtr	urp;			/* of the last one */
	Fxid		writer;
} Part;

/*
 * In the segment: what the processes share.  Behind it come the logs, as many
 * blocks of each as were in use when it was made.  Nothing but the atomic
 * variables changes then.
 */
typedef struct Shared
{
	FileSet		files;			/* each "PART.MEMBER" */
	pg_atomic_uint32 attached;	/* processes; the last one deletes the files */
	Fxid		floor;			/* no earlier writer's records are here */
	BlockNumber begin;			/* blocks that are covered */
	BlockNumber end;
	BlockNumber per_part;
	uint32		nparts;
	uint32		nlogs;
	Size		part_limit;		/* bytes of a part when it is loaded */
	pg_atomic_uint64 next;		/* piece of undo to be read next */
	pg_atomic_uint64 kept;		/* bytes in files */
	pg_atomic_uint32 members;	/* processes that read undo, or did */
	pg_atomic_uint32 too_much;
	pg_atomic_uint64 granted[FLEXIBLE_ARRAY_MEMBER];	/* of each part */
} Shared;

#define SharedLogs(s)		((BlockNumber *) &(s)->granted[(s)->nparts])

struct UndoGather
{
	char		persistence;
	Oid			reloid;
	Oid			dboid;
	uint64		used;			/* when it was asked for last */
	MemoryContext context;
	ResourceOwner owner;		/* of segment and files */
	dsm_segment *segment;
	Shared	   *shared;

	/* while undo is read */
	uint32		member;			/* the number of this process */
	Part	   *parts;
	bool		writing;		/* an error is one of its files or segment */
	Size		disk_limit;		/* of its files */
	Size		kept;			/* bytes */
	Size		passed_over;	/* bytes that were too much */

	/* the part that is loaded, -1 if none */
	int			loaded;
	char	   *data;
	Size		data_room;
	Size	   *ends;			/* of the data of each member */
	Kept	   *recs;			/* by block */
	Size		recs_room;
	uint32	   *first;			/* of each block: index in recs; one more */

	/* the block that records are asked for, and a hash table of them */
	BlockNumber at;
	uint32		mask;
	uint32	   *table;			/* index in recs + 1 */
	uint32		table_room;
};

extern void undo_gather_release(ResourceOwner owner);
extern void undo_gather_name_file(char *name, uint32 part, uint32 member);

#endif							/* UNDO_GATHER_PART_H */
