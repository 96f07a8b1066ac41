/*-------------------------------------------------------------------------
 *
 * undo_discard.h
 *	  What of the undo may go.  Private to undo/.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_DISCARD_H
#define UNDO_DISCARD_H

#include "undo/discard/undo_scan.h"

/*
 * One pass: horizon, scan, discard, publish, shrink (U2, U3, U4, U18).
 * connected: the process is connected to a database, so it must use the
 * horizon of shared catalogs (U2).  Holds no lock on return.
 */
extern void undo_discard_pass(bool connected, UndoScanResult *result);

#endif							/* UNDO_DISCARD_H */
