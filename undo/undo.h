/*-------------------------------------------------------------------------
 *
 * undo.h
 *	  The face of the undo store: what is included of undo/ elsewhere.
 *
 * tools/check-layers reads the list below.  Within undo/ nobody includes this
 * file.  Beside it, others may include
 *
 *		undo/undo_debug.h		knobs and points for tests
 *		undo/undo_defs.h		types alone
 *		undo/undo_pack.h		numbers and pointers in few bytes
 *		undo/undo_cache.h		memory of read caches
 *		undo/undo_assert.h		asserts of locks held
 *
 * and inspect/, which shows the store's inside,
 *
 *		undo/log/undo_files.h
 *		undo/log/undo_log.h
 *		undo/log/undo_page.h
 *		undo/log/undo_shmem.h
 *		undo/log/undo_stat.h
 *		undo/rollback/undo_worker.h
 *
 * Lock order: undo/README, Locks.
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNDO_H
#define UNDO_H

#include "undo/discard/undo_frozen.h"
#include "undo/discard/undo_holders.h"
#include "undo/discard/undo_snapshot_limit.h"
#include "undo/log/undo_fake.h"
#include "undo/log/undo_log_load.h"
#include "undo/record/undo_gather.h"
#include "undo/record/undo_images.h"
#include "undo/record/undo_insert.h"
#include "undo/record/undo_record.h"
#include "undo/rollback/undo_apply.h"
#include "undo/undo_assert.h"
#include "undo/undo_module.h"

#endif							/* UNDO_H */
