/*-------------------------------------------------------------------------
 *
 * undo_log_load.h
 *	  The shared state, loaded after a start; the horizons and 64-bit xids.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_LOG_LOAD_H
#define UNDO_LOG_LOAD_H

#include "undo/undo_defs.h"

/*
 * Reads the two horizons; loads the shared state from disk at the first call
 * after a server start (may do I/O and, outside recovery, write WAL to create
 * the global control page, so not in a critical section nor with any buffer
 * locked for the first call in a backend).
 */
extern UndoHorizons undo_log_horizons(void);

/*
 * Transactions from here on got their xid in this run of the server, or since
 * it was promoted.  InvalidFxid: it isn't known, on a standby above all.  To be
 * asked after undo_log_horizons().
 */
extern Fxid undo_log_start_fxid(void);

/* 32-bit xid that is within 2^31 of the next xid -> 64 bits */
extern Fxid undo_log_fxid_from_xid(TransactionId xid);

/* fxid of the current (sub)transaction; assigns one if it has none */
extern Fxid undo_log_current_fxid(void);

/* load shared state if need be; see undo_log_horizons() */
extern void undo_log_startup(void);

/*
 * The newest top transaction of this session, before the current one, that wrote
 * temporary undo; InvalidFxid if none did.
 */
extern Fxid undo_log_temp_writer(void);

/* discard_before, or what takes its place for temporary relations */
extern Fxid undo_log_horizon(char persistence);

#endif							/* UNDO_LOG_LOAD_H */
