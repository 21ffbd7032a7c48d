/*-------------------------------------------------------------------------
 *
 * writer.h
 *	  The background worker: fills the cache, and runs its state.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WRITER_H
#define FC_WRITER_H

#include "types.h"

/*
 * Proves that the storage-manager calls go through our wrappers; false with
 * a reason if not.  Handed in, since the writer and attach/ do not know each
 * other.
 */
typedef bool (*FcSelfTest) (char *reason, size_t len);

extern Size fc_writer_shmem_size(void);
extern void fc_writer_shmem_init(void);

/* Body of the background worker; does not return. */
extern void fc_writer_run(FcSelfTest self_test);

/*
 * Asks the writer to bring the cache back, cold, and waits for its answer;
 * the state tells.  False if there is no writer to ask.
 */
extern bool fc_writer_enable(void);

/*
 * Process ID of the writer, 0 if it does not run, and what it waits for, NULL
 * for nothing.  pg_stat_activity lists only processes that have registered
 * with the server as if they had a database.
 */
extern int	fc_writer_pid(const char **wait_event);

#endif							/* FC_WRITER_H */
