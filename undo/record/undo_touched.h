/*-------------------------------------------------------------------------
 *
 * undo_touched.h
 *	  The table pages for which the running transaction wrote undo, and the
 *	  runs of that, by nest level.  Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_TOUCHED_H
#define UNDO_TOUCHED_H

#include "undo/record/undo_insert.h"
#include "undo/undo_defs.h"

/* a page that a transaction wrote undo for */
typedef struct UndoTouchedPage
{
	RelFileLocator locator;
	Oid			reloid;
	BlockNumber block;
	int			nest_level;
	char		persistence;
} UndoTouchedPage;

/* a run header that a transaction wrote */
typedef struct UndoTouchedRun
{
	UndoRecPtr	urp;			/* of the run header */
	uint64		seq;			/* of its page */
	Fxid		writer;
	int			nest_level;
	char		persistence;
} UndoTouchedRun;

/* what nest levels that end have touched; good until the next insertion */
typedef struct UndoTouched
{
	UndoTouchedPage *pages;
	int			npages;
	UndoTouchedRun *runs;
	int			nruns;
	bool		overflow;		/* not everything was remembered */
	uint64		bytes;			/* of undo */
} UndoTouched;

/* setting, kB: of more undo than that the pages aren't remembered */
extern int	undo_touched_max_size;

/* allocate all that undo_touched_add() will need */
extern void undo_touched_reserve(void);

/* after an insertion: note its pages and its run.  Allocates nothing. */
extern void undo_touched_add(UndoInsertion *ins, uint16 bytes);

/*
 * Take what nest levels from "level" on touched, and forget it.  False: there
 * is nothing to be rolled back.  From then on until undo_touched_done() no undo
 * may be written.
 */
extern bool undo_touched_take(int level, UndoTouched *touched);
extern void undo_touched_done(void);
extern bool undo_touched_is_taken(void);

/* a subtransaction's undo becomes its parent's */
extern void undo_touched_merge(int level);

/* the transaction has ended */
extern void undo_touched_forget(void);

#endif							/* UNDO_TOUCHED_H */
