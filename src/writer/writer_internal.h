/*-------------------------------------------------------------------------
 *
 * writer_internal.h
 *	  What the files of the writer share.
 *
 * All is for the writer's own process, but for what the comments say.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WRITER_INTERNAL_H
#define FC_WRITER_INTERNAL_H

#include "cache/cache.h"
#include "postmaster/interrupt.h"
#include "storage/condition_variable.h"
#include "storage/proc.h"
#include "writer/writer.h"

/* What a verdict on the last ten minutes is drawn from: some sums as they stood, once a minute. */
#define FC_WRITER_SAMPLES 10
#define FC_WRITER_SAMPLED 15

typedef struct FcWriterShared
{
	pg_atomic_uint64 sample[FC_WRITER_SAMPLES][FC_WRITER_SAMPLED];
	pg_atomic_uint32 next_sample;	/* the oldest one */
	pg_atomic_uint32 asked;		/* requests to enable; the latch orders them */
	pg_atomic_uint32 answered;	/* the condition variable orders it */
	ConditionVariable answer;
	PGPROC	   *volatile proc;	/* of the writer, or NULL; a hint */
	int			pid;
	bool		tested;			/* the self-test has passed */
	pg_atomic_uint64 next_probe;	/* TimestampTz; 0 = none */
	bool		started;		/* a writer has looked at the device */
	char		shares[32];		/* what fc_writer_warn_shares() has found */
	uint64		wrong_warned;	/* pages with wrong content that the log knows
								 * of */
	uint64		wrong_warned_at;	/* ns; 0 = never */
} FcWriterShared;

/* Sessions read it as well, and ask for something in it. */
extern FcWriterShared *fc_writer_shared;

/* For assertions: is this process the writer? */
#define FC_IS_WRITER() (fc_writer_shared->proc == MyProc && MyProc != NULL)

static inline bool
fc_writer_is_away(void)
{
	return fc_cache_state() == FC_STATE_OFF || fc_cache_state() == FC_STATE_PAUSED;
}

static inline bool
fc_writer_keeps_pages(void)
{
	return fc_cache_state() == FC_STATE_ACTIVE || fc_cache_state() == FC_STATE_PAUSED;
}

/* Is there something to be done first?  A slow device makes each round long. */
static inline bool
fc_writer_called_off(void)
{
	return ShutdownRequestPending || ConfigReloadPending || fc_cache_state() != FC_STATE_ACTIVE;
}

/* ---- writer_process.c ---- */

/* From now on the signals are those of the writer, and the device processes belong to it. */
extern void fc_writer_take_signals(void);

/* A SIGTERM has come from the postmaster. */
extern bool fc_writer_server_ends(void);

/* Asked to end.  Whatever is under way is left as it is, as when this process is killed. */
extern void fc_writer_leave(void);

/* ---- writer_state.c ---- */

/* What an earlier writer has left, or the first opening. */
extern void fc_writer_start(void);

/* Once a round: what settings, requests, faults and probes make of the state. */
extern void fc_writer_run_state(void);

/* ---- writer_trouble.c ---- */

/* Tells the server's log of a state that nobody has been told of; sees to the next probe. */
extern void fc_writer_tell_log(void);

/* Takes whether the state is active now; returns it. */
extern bool fc_writer_note_active(bool active);

/* The series is over. */
extern void fc_writer_forget_trouble(void);

extern void fc_writer_schedule_probe(void);
extern void fc_writer_no_probe(void);

/* The pauses begin anew. */
extern void fc_writer_probe_soon(void);

/* The next pause is longer; `other`: a cause that is not that of before. */
extern void fc_writer_probe_failed(const FcReason *other);

/* In ns of fc_now_ns(), 0 = none. */
extern uint64 fc_writer_probe_at(void);

/* ---- writer_open.c ---- */

extern void fc_writer_test_with(FcSelfTest test);

/*
 * Opens the first device and tries it.  The cache begins empty, or with the
 * pages that it has on this device, in this run or from an earlier one.
 */
extern bool fc_writer_open_device(FcReason *error);

/*
 * D6: the first device can't be opened.  Are there others to go on with?  One
 * of them is waited for, in the rounds that follow.
 */
extern bool fc_writer_wait_for_others(const FcReason *why);
extern bool fc_writer_waits_for_others(void);

/* The cache begins, or has been switched on: a log is waited for from the next failure on. */
extern void fc_writer_begin_to_wait(void);

/* Once a round: has one of them come into use, or none? */
extern void fc_writer_look_for_others(void);

/* Is that over, since the last call?  And whose requests to enable that answers. */
extern bool fc_writer_others_looked_for(uint32 *asked);

/* ---- writer_scan.c ---- */

/* Looks at all frames from the hand to the end of the window; true if it moved. */
extern bool fc_writer_scan(void);

/*
 * K4: between two batches, none of whose slots is taken yet.  A cache that has
 * just been disabled or went off has a log until fc_writer_run_log(), but no
 * device to write it to.
 */
extern void fc_writer_write_group(void);

/* ---- writer_verdict.c ---- */

extern void fc_writer_verdict_shmem_init(void);

/* Once a round. */
extern void fc_writer_take_sample(void);

/* ---- writer_warn.c ---- */

/* Pages with wrong content: a warning when there are any, and then one an hour with the number since. */
extern void fc_writer_warn_wrong_content(void);

/* A file on the file system of the server's own: once, not at each opening. */
extern void fc_writer_warn_shares(void);

/* A session could not bound its waits: a warning an hour. */
extern void fc_writer_warn_unbounded(void);

#endif							/* FC_WRITER_INTERNAL_H */
