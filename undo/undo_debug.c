/*-------------------------------------------------------------------------
 *
 * undo_debug.c
 *	  Knobs and points for tests, and what assertions ask about locks; empty
 *	  without assertions.
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <math.h>
#include <unistd.h>

#include "common/hashfn.h"
#include "common/pg_prng.h"
#include "miscadmin.h"
#include "postmaster/postmaster.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "storage/pmsignal.h"
#include "utils/guc.h"
#include "utils/inval.h"

#include "pg_compat.h"
#include "undo/undo_assert.h"
#include "undo/undo_debug.h"

#ifdef USE_ASSERT_CHECKING

#define POINT_FOLDER	"zheap_points"

bool		undo_debug_damage = false;
int			undo_debug_seed = 0;
char	   *undo_debug_set = "";
void		(*undo_debug_wake_launcher) (void) = NULL;
void		(*undo_debug_roll_back) (void) = NULL;

/* settings: see undo_debug_define_settings() */
static int	debug_points = 0;
static int	debug_errors = 0;
static int	debug_crashes = 0;
static int	debug_no_room = 0;
static char *debug_keep = NULL;

static pg_prng_state chance;
static bool chance_is_seeded = false;

/* within the action of an idle point no other has one */
static bool busy = false;

static bool read_order(const char *path, char *word, int size);
static void wait_until_removed(const char *path, bool may_fail);
static void act_by_chance(const char *name, UndoPointKind kind);

/* ----------------------------------------------------------------
 *	knobs
 * ----------------------------------------------------------------
 */

/*
 * What stands behind a knob's name in a list of names, separated by commas;
 * NULL if it isn't one of them.
 */
static const char *
in_list(const char *list, const char *name)
{
	size_t		len = strlen(name);

	for (const char *p = list; *p != '\0';)
	{
		size_t		n = strcspn(p, ",");

		if (strcspn(p, "=,") == len && strncmp(p, name, len) == 0)
			return p + len;
		p += n + (p[n] == ',');
	}
	return NULL;
}

/*
 * What a knob is set to; else what it is drawn to: a quarter each its value, its
 * least; else anything between the bounds, small numbers as likely as large
 * ones.
 */
int
undo_debug_knob(const char *name, int value, int least, int most)
{
	uint32		hash = murmurhash32(hash_bytes((const unsigned char *) name,
											   strlen(name)) ^
									(uint32) undo_debug_seed * 0x9E3779B9u);
	double		part = (hash >> 8) / (double) (1 << 24);
	const char *set = in_list(undo_debug_set, name);

	if (set != NULL && *set == '=')
		return Min(Max(atoi(set + 1), least), most);
	if (undo_debug_seed == 0 || in_list(debug_keep, name) != NULL)
		return value;
	switch (hash & 3)
	{
		case 0:
			return value;
		case 1:
			return least;
		default:
			return least + (int) floor(pow((double) most - least + 1, part)) -
				1;
	}
}

/* ----------------------------------------------------------------
 *	points
 * ----------------------------------------------------------------
 */

/*
 * Do what a test ordered for a point, or what chance wants.  Allocates nothing
 * unless the point is idle.  Raises an error only if that may be.
 */
void
undo_debug_point(const char *name, UndoPointKind kind)
{
	bool		may_fail = kind != UNDO_POINT_ANYWHERE;
	char		path[MAXPGPATH];
	char		taken[MAXPGPATH + 3];
	char		word[64];
	int			save_errno = errno;

	if ((debug_points > 0 || (debug_no_room > 0 && kind == UNDO_POINT_ROOM)) &&
		!busy)
		act_by_chance(name, kind);
	if (likely(access(POINT_FOLDER, F_OK) != 0))
	{
		errno = save_errno;
		return;
	}
	snprintf(path, sizeof(path), POINT_FOLDER "/%s", name);
	snprintf(taken, sizeof(taken), "%s.at", path);

	/* of several processes that come by, one gets the file */
	if (read_order(path, word, sizeof(word)) && rename(path, taken) == 0)
	{
		if (strcmp(word, "wait") == 0)
			wait_until_removed(taken, may_fail);
		else
		{
			unlink(taken);
			/* the postmaster takes this exit code for a crash */
			if (strcmp(word, "crash") == 0)
				_exit(2);
			if (strcmp(word, "error") == 0 && may_fail)
				ereport(ERROR,
						(errcode(ERRCODE_INTERNAL_ERROR),
						 errmsg("error at point \"%s\"", name)));
		}
	}
	errno = save_errno;
}

/* The first word of an order, if it is meant for this process. */
static bool
read_order(const char *path, char *word, int size)
{
	int			fd = open(path, O_RDONLY, 0);
	ssize_t		len;
	int			pid;
	int			words;

	if (fd < 0)
		return false;
	len = read(fd, word, size - 1);
	close(fd);
	if (len <= 0)
		return false;
	word[len] = '\0';
	pid = MyProcPid;
	words = sscanf(word, "%*s %d", &pid);
	word[strcspn(word, " \n")] = '\0';
	return words <= 1 && pid == MyProcPid;
}

/* A process whose test has gone away goes on after three minutes. */
static void
wait_until_removed(const char *path, bool may_fail)
{
	for (int i = 0; i < 180 * 200 && access(path, F_OK) == 0; i++)
	{
		if (may_fail)
			CHECK_FOR_INTERRUPTS();
		if (IsUnderPostmaster && !PostmasterIsAlive())
			_exit(1);
		pg_usleep(5000);
	}
}

/* What only an idle point may do. */
static void
act_idle(void)
{
	busy = true;
	PG_TRY();
	{
		switch (pg_prng_uint32(&chance) % 3)
		{
			case 0:
				InvalidateSystemCaches();
				break;
			case 1:
				if (undo_debug_roll_back != NULL)
					undo_debug_roll_back();
				break;
			default:
				if (undo_debug_wake_launcher != NULL)
					undo_debug_wake_launcher();
				pg_usleep(2000);
				break;
		}
	}
	PG_FINALLY();
	{
		busy = false;
	}
	PG_END_TRY();
}

/*
 * The same seed gives the same numbers to the n-th backend of a server, as far
 * as its backends come and go alike.
 */
static void
act_by_chance(const char *name, UndoPointKind kind)
{
	bool		may_fail = kind != UNDO_POINT_ANYWHERE &&
		CritSectionCount == 0;

	if (!chance_is_seeded)
	{
		pg_prng_seed(&chance, ((uint64) undo_debug_seed << 32) ^
					 (uint64) (MyProcNumber == INVALID_PROC_NUMBER ?
							   MyProcPid :
							   MyProcNumber));
		chance_is_seeded = true;
	}
	if (kind == UNDO_POINT_ROOM && may_fail &&
		pg_prng_uint32(&chance) % 1000 < (uint32) debug_no_room)
		ereport(ERROR,
				(errcode(ERRCODE_DISK_FULL),
				 errmsg("no room at point \"%s\"", name)));
	if (debug_crashes > 0 && !AmStartupProcess() &&
		pg_prng_uint32(&chance) % 1000000 < (uint32) debug_crashes)
		_exit(2);
	if (pg_prng_uint32(&chance) % 1000 >= (uint32) debug_points)
		return;
	if (may_fail && pg_prng_uint32(&chance) % 1000 < (uint32) debug_errors)
		ereport(ERROR,
				(errcode(ERRCODE_QUERY_CANCELED),
				 errmsg("error at point \"%s\"", name)));
	if (kind == UNDO_POINT_IDLE && may_fail && IsUnderPostmaster &&
		InterruptHoldoffCount == 0 && (pg_prng_uint32(&chance) & 3) == 0)
		act_idle();
	else
		pg_usleep(1 + pg_prng_uint32(&chance) % 2000);
}

/* ----------------------------------------------------------------
 *	locks on buffers
 * ----------------------------------------------------------------
 */

bool
undo_debug_page_is_locked(Buffer buffer, bool exclusively)
{
	LWLock	   *lock;

	if (!BufferIsValid(buffer))
		return false;
	if (BufferIsLocal(buffer))
		return true;
	lock = BufferDescriptorGetContentLock(GetBufferDescriptor(buffer - 1));
	return exclusively ? LWLockHeldByMeInMode(lock, LW_EXCLUSIVE) :
		LWLockHeldByMe(lock);
}

bool
undo_debug_no_page_is_locked(void)
{
	BufferDesc *first = GetBufferDescriptor(0);

	return !LWLockAnyHeldByMe(BufferDescriptorGetContentLock(first), NBuffers,
							  sizeof(BufferDescPadded));
}

/* ----------------------------------------------------------------
 *	settings
 * ----------------------------------------------------------------
 */
void
undo_debug_define_settings(void)
{
	DefineCustomIntVariable("zheap.debug_seed",
							"Number from which the sizes and pauses of the engine are drawn.",
							"0 means what a server without assertions uses.",
							&undo_debug_seed, 0, 0, PG_INT32_MAX,
							PGC_POSTMASTER, GUC_NOT_IN_SAMPLE, NULL, NULL,
							NULL);
	DefineCustomStringVariable("zheap.debug_keep",
							   "Names of numbers that are not drawn, separated by commas.",
							   NULL, &debug_keep, "",
							   PGC_POSTMASTER, GUC_NOT_IN_SAMPLE, NULL, NULL,
							   NULL);
	DefineCustomStringVariable("zheap.debug_set",
							   "Numbers that are set, as name=value, separated by commas.",
							   NULL, &undo_debug_set, "",
							   PGC_POSTMASTER, GUC_NOT_IN_SAMPLE, NULL, NULL,
							   NULL);
	DefineCustomIntVariable("zheap.debug_points",
							"How often something happens at a point of the code, in thousandths.",
							NULL, &debug_points, 0, 0, 1000,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.debug_errors",
							"How much of what happens at points is an error, in thousandths.",
							NULL, &debug_errors, 0, 0, 1000,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomIntVariable("zheap.debug_no_room",
							"How often there is no room where a file or an array grows, in thousandths.",
							NULL, &debug_no_room, 0, 0, 1000,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
	DefineCustomBoolVariable("zheap.debug_damage",
							 "Pages may be damaged: no assertion compares what they say.",
							 NULL, &undo_debug_damage, false,
							 PGC_POSTMASTER, GUC_NOT_IN_SAMPLE, NULL, NULL,
							 NULL);
	DefineCustomIntVariable("zheap.debug_crashes",
							"How often a process dies at a point, in millionths.",
							"Counts only if zheap.debug_points is not 0.",
							&debug_crashes, 0, 0, 1000000,
							PGC_SUSET, GUC_NOT_IN_SAMPLE, NULL, NULL, NULL);
}

#else

void
undo_debug_define_settings(void)
{
}

#endif							/* USE_ASSERT_CHECKING */
