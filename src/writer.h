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

#include "datatype/timestamp.h"

#include "cache.h"

/*
 * Proves that the storage-manager calls go through our wrappers; a reason if
 * it does not.  Handed in, since the writer and attach/ do not know each
 * other.
 */
typedef FcTested (*FcSelfTest) (char *reason, size_t len);

extern Size fc_writer_shmem_size(void);
extern void fc_writer_shmem_init(void);

/* Body of the background worker; does not return. */
extern void fc_writer_run(FcSelfTest self_test);

/*
 * Asks the writer to bring the cache back, cold, and waits for its answer;
 * the state tells.  False if there is no writer to ask.
 */
extern bool fc_writer_enable(void);

/* Of what use the cache was in the last ten minutes; NULL if it is not active. */
extern const char *fc_writer_verdict(void);

/* When the writer tries by itself to bring the cache back; 0 if it has no reason to. */
extern TimestampTz fc_writer_next_probe(void);

/*
 * Is nobody's wait for flash longer than pg_flashcache.io_timeout?  As the
 * writer has found; -1 if it has not looked yet.
 */
extern int	fc_writer_waits_bounded(void);

/*
 * Has the writer erase the slots that hold no cached page, or all, and waits.
 * Raises when the session is cancelled; the writer then stops soon.
 */
typedef enum FcScrub
{
	FC_SCRUBBED,				/* all slots were dealt with; see the result */
	FC_SCRUB_FAILED,			/* given up on the way */
	FC_SCRUB_UNDER_WAY,			/* another session's is */
	FC_SCRUB_NO_WRITER,
} FcScrub;

extern FcScrub fc_writer_scrub(bool everything, FcScrubResult *result);

/* ---- for writer.c ---- */

extern Size fc_writer_scrub_shmem_size(void);
extern void fc_writer_scrub_shmem_init(void);
extern void fc_writer_scrub_start(void);

/* Once a round; true if it wants to go on at once. */
extern bool fc_writer_scrub_run(void);

/*
 * Process ID of the writer, 0 if it does not run, and what it waits for, NULL
 * for nothing.  pg_stat_activity lists only processes that have registered
 * with the server as if they had a database.
 */
extern int	fc_writer_pid(const char **wait_event);

#endif							/* FC_WRITER_H */
