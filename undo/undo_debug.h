/*-------------------------------------------------------------------------
 *
 * undo_debug.h
 *	  Knobs and points for tests (assert builds only).
 *
 * Knobs.  UNDO_KNOB stands for a number that is nobody's business but the
 * engine's: a size, a budget, a pause.  With zheap.debug_seed each is drawn
 * between its bounds by the seed and the knob's name, the same in all
 * processes; so the cases for which a million rows are needed otherwise happen
 * within a hundred.  What two knobs of one name are drawn to is the same.
 * zheap.debug_set gives single ones a value, with a seed or without.
 * Redo may depend on a knob only if it is drawn from the same seed, so a
 * server that crashed has to recover with the seed it had.
 *
 * Points.  A point stands between two steps that other processes can tell
 * apart.  A test gives orders by files in the data directory: zheap_points/NAME
 * holds one word.  The first process that comes by obeys and takes the file
 * away:
 *
 *	crash		the process ends as if killed; the server recovers
 *	wait		the file is renamed to NAME.at; the process waits until
 *				somebody removes that
 *	error		ERROR, where the point allows it
 *
 * A second word is the pid of the only process that is meant.  Besides, with
 * zheap.debug_points something happens by chance: a short sleep, and whatever
 * else the kind of the point allows.
 *
 *	UNDO_POINT			may stand anywhere, in critical sections and under
 *						LWLocks too
 *	UNDO_ERROR_POINT	where an error is allowed; only there is a process that
 *						waits cancelled
 *	UNDO_ROOM_POINT		the same, where a file or an array is about to grow: with
 *						zheap.debug_no_room there is often no room
 *	UNDO_IDLE_POINT		the same, and no buffer nor LWLock is held: caches are
 *						thrown away, a rollback pass is made, the launcher woken
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_DEBUG_H
#define UNDO_DEBUG_H

#ifdef USE_ASSERT_CHECKING

typedef enum UndoPointKind
{
	UNDO_POINT_ANYWHERE,
	UNDO_POINT_MAY_FAIL,
	UNDO_POINT_ROOM,
	UNDO_POINT_IDLE
} UndoPointKind;

extern int	undo_debug_seed;
extern char *undo_debug_set;

/* pages may be damaged: then two ways to an answer need not agree */
extern bool undo_debug_damage;

/* what an idle point may call; set by the files that know how */
extern void (*undo_debug_wake_launcher) (void);
extern void (*undo_debug_roll_back) (void);

extern int	undo_debug_knob(const char *name, int value, int least, int most);
extern void undo_debug_point(const char *name, UndoPointKind kind);

#define UNDO_KNOB(name, value, least, most) \
	(undo_debug_seed == 0 && undo_debug_set[0] == '\0' ? (value) : \
	 undo_debug_knob(name, value, least, most))
#define UNDO_POINT(name)			undo_debug_point(name, UNDO_POINT_ANYWHERE)
#define UNDO_ERROR_POINT(name)		undo_debug_point(name, UNDO_POINT_MAY_FAIL)
#define UNDO_ROOM_POINT(name)		undo_debug_point(name, UNDO_POINT_ROOM)
#define UNDO_IDLE_POINT(name)		undo_debug_point(name, UNDO_POINT_IDLE)

#else

#define UNDO_KNOB(name, value, least, most)		(value)
#define UNDO_POINT(name)			((void) 0)
#define UNDO_ERROR_POINT(name)		((void) 0)
#define UNDO_ROOM_POINT(name)		((void) 0)
#define UNDO_IDLE_POINT(name)		((void) 0)

#endif

/* define what there is of zheap.debug_*; called once, from _PG_init */
extern void undo_debug_define_settings(void);

#endif							/* UNDO_DEBUG_H */
