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

#include "cache/cache.h"
#include "cache/cache_devices.h"

/*
 * Proves that the storage-manager calls go through our wrappers; a reason if
 * it does not.  Handed in, since the writer and attach/ do not know each
 * other.
 */
typedef FcTested (*FcSelfTest) (char *reason, size_t len);

extern FcPart fc_writer_part(void);
extern FcPart fc_writer_scrub_part(void);
extern FcPart fc_writer_load_part(void);
extern FcPart fc_writer_devices_part(void);
extern void fc_writer_shmem_init(void);

/* What else is to be done once a round, by a module that the writer does not know; it raises nothing. */
typedef void (*FcTend) (void);

/* Body of the background worker; does not return. */
extern void fc_writer_run(FcSelfTest self_test, FcDataPeek peek, FcTend tend);

/*
 * Asks the writer to bring the cache back, and waits for its answer;
 * the state tells.  False if there is no writer to ask.
 */
extern bool fc_writer_enable(void);

/*
 * Is there a device that has not answered the writer for seconds?  Then whoever
 * waits for the writer waits for that: which, for how long, and what to do.
 */
extern bool fc_writer_hanging_device(FcReason *what);

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

/*
 * Has the writer change the devices of the cache, and waits.  Raises when the
 * session is cancelled; the change is finished all the same.
 */
typedef enum FcDevicesAnswer
{
	FC_DEVICES_DONE,			/* *reason has a message if it would not
								 * survive a restart */
	FC_DEVICES_FAILED,			/* *reason says why */
	FC_DEVICES_UNDER_WAY,		/* another session changes them */
	FC_DEVICES_NO_WRITER,
} FcDevicesAnswer;

extern FcDevicesAnswer fc_writer_change_device(FcDeviceChange what, const char *path, uint32 slots, FcReason *reason);

/* ---- pages that sessions have read from data files ---- */

/* Sessions that load at the same time. */
#define FC_LOAD_JOBS 4

/* What a session has done so far, and is to do. */
typedef struct FcLoadProgress
{
	int			pid;
	Oid			role;
	Oid			database;
	Oid			relation;		/* that was asked for */
	Oid			current;		/* that is being read */
	int			relations;
	int			relations_done;
	uint64		blocks;
	uint64		blocks_done;
	FcLoadCounts counts;
	bool		limited;		/* waits for the write limit */
	bool		unreachable;	/* the writer had no memory for the pages */
} FcLoadProgress;

/*
 * Begins to load; false if others do, as many as there may be.  Raises if
 * there is no memory.  From here on fc_writer_load_end() must be called,
 * whatever happens.
 */
extern bool fc_writer_load_begin(bool replace, const FcLoadProgress *about);
extern void fc_writer_load_end(void);

typedef enum FcLoadWait
{
	FC_LOAD_READY,
	FC_LOAD_NOT_ACTIVE,			/* the cache is no longer in use */
	FC_LOAD_NO_WRITER,
	FC_LOAD_NO_MEMORY,			/* the writer could not attach */
} FcLoadWait;

/* Waits until the writer has dealt with the last pages.  Raises when cancelled. */
extern FcLoadWait fc_writer_load_wait(void);

/* Gives it the next ones, copied.  It must be ready. */
extern void fc_writer_load_give(const FcLoad *load);

/* Where this session is, and what it has counted since it said so last. */
extern void fc_writer_load_tell(Oid relation, int relations_done, uint64 blocks_done, const FcLoadCounts *counts);

/* The session's sums, and the writer's. */
extern void fc_writer_load_counts(FcLoadCounts *counts);

/* Of the i-th of FC_LOAD_JOBS; false if nobody has it. */
extern bool fc_writer_load_progress(int i, FcLoadProgress *progress);

/* ---- for writer.c ---- */

extern void fc_writer_load_shmem_init(void);
extern void fc_writer_load_start(void);

/*
 * Once a round: fills from the pages of one session, if the cache is active.
 * True if somebody waits, *again if there is something to do at once.
 */
extern bool fc_writer_load_run(bool active, bool *again);

extern void fc_writer_devices_shmem_init(void);
extern void fc_writer_devices_start(void);

/* Once a round, when nothing is staged; *again if there is more to do at once. */
extern void fc_writer_devices_run(bool *again);

extern void fc_writer_scrub_shmem_init(void);
extern void fc_writer_scrub_start(void);

/* Once a round; true if it wants to go on at once. */
extern bool fc_writer_scrub_run(void);

/*
 * The server ends, and the cache is active: copies what is in shared_buffers to
 * flash (K13), for a bounded time.  And then, with the log complete, leaves
 * the list of it.
 */
extern void fc_writer_copy_buffers(void);
extern void fc_writer_list_buffers(void);

/* Once a round: has shared_buffers loaded by background workers, database by database. */
extern void fc_writer_run_loaders(void);

/* Once a round: has background workers find out which files have a policy, database by database. */
extern void fc_writer_run_resolvers(void);

/* ---- writer_process.c, writer_log.c, writer_shared.c ---- */

/* Has the writer been asked to hurry?  By a second SIGTERM, not the postmaster's. */
extern bool fc_writer_hurries(void);

/* The log of what is on flash, to be called between any two batches; true: there is more to do, at once. */
extern bool fc_writer_run_log(void);

/* Reads the settings if they have changed. */
extern void fc_writer_reload(void);

/*
 * Process ID of the writer, 0 if it does not run, and what it waits for, NULL
 * for nothing.  pg_stat_activity lists only processes that have registered
 * with the server as if they had a database.
 */
extern int	fc_writer_pid(const char **wait_event);

#endif							/* FC_WRITER_H */
