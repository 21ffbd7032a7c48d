/*-------------------------------------------------------------------------
 *
 * writer_load.c
 *	  How sessions give the writer pages that they have read from data files:
 *	  pg_flashcache_prewarm().
 *
 * A few sessions at a time, each with a job.  Its pages lie in a segment of
 * dynamic shared memory that the session makes and the writer attaches to, so
 * that nothing has to be kept for them while nobody loads.  What passes
 * between the two:
 *
 *	IDLE --give--> ASKED --writer--> RUNNING --writer--> IDLE, or ASKED again
 *
 * ASKED again while the write limit is reached, or slots are being looked for.
 * The session may leave at any time, cancelled or dead: the job is free at
 * once, and what the writer still does with the segment is counted nowhere.
 * Nothing is lost by that: pages that it publishes are good, and those that it
 * has not come to were never more than a copy.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "failpoint.h"
#include "handoff.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "storage/condition_variable.h"
#include "storage/dsm.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "writer/writer.h"
#include "writer/writer_patience.h"

typedef enum LoadState
{
	LOAD_IDLE,
	LOAD_ASKED,
	LOAD_RUNNING,
} LoadState;

typedef struct Job
{
	bool		used;
	uint32		serial;			/* of the session that has it */
	LoadState	state;
	dsm_handle	segment;		/* an FcLoad */
	FcLap		lap;
	FcLoadProgress progress;
	ConditionVariable ended;	/* not protected by the lock */
} Job;

typedef struct LoadShared
{
	slock_t		lock;			/* protects the jobs; leaf */
	Job			job[FC_LOAD_JOBS];
} LoadShared;

static LoadShared *shared = NULL;

/* This session's. */
static Job *mine = NULL;
static dsm_segment *segment = NULL;

/* The writer's: what it is attached to. */
static dsm_segment *attached[FC_LOAD_JOBS];
static uint32 attached_serial[FC_LOAD_JOBS];

FcPart
fc_writer_load_part(void)
{
	return fc_part("pg_flashcache prewarm", sizeof(LoadShared));
}

void
fc_writer_load_shmem_init(void)
{
	FcPart		part = fc_writer_load_part();
	bool		found;

	shared = ShmemInitStruct(part.name, part.size, &found);
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->lock);
	for (int i = 0; i < FC_LOAD_JOBS; i++)
		ConditionVariableInit(&shared->job[i].ended);
}

/* ---- the writer's side ---- */

void
fc_writer_load_start(void)
{
	/* a writer before this one was at it: what is left is done by this one */
	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < FC_LOAD_JOBS; i++)
		if (shared->job[i].state == LOAD_RUNNING)
			shared->job[i].state = LOAD_ASKED;
	SpinLockRelease(&shared->lock);
}

/* Lets go of a segment whose session has left. */
static void
detach(int i)
{
	if (attached[i] != NULL)
		dsm_detach(attached[i]);
	attached[i] = NULL;
}

/* The pages of a job; NULL if its session has left, or there is no memory. */
static FcLoad *
pages_of(int i, uint32 serial, dsm_handle handle)
{
	MemoryContext context = CurrentMemoryContext;

	if (attached[i] != NULL && attached_serial[i] == serial)
		return dsm_segment_address(attached[i]);
	detach(i);
	PG_TRY();
	{
		attached[i] = dsm_attach(handle);
		if (attached[i] != NULL)
			dsm_pin_mapping(attached[i]);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		/* it may be counted as attached all the same, and would stay */
		attached[i] = dsm_find_mapping(handle);
		detach(i);
	}
	PG_END_TRY();
	attached_serial[i] = serial;
	return attached[i] != NULL ? dsm_segment_address(attached[i]) : NULL;
}

static void
add_counts(FcLoadCounts *sum, const FcLoadCounts *more)
{
	sum->read += more->read;
	sum->exists += more->exists;
	sum->loaded += more->loaded;
	sum->modified += more->modified;
	sum->dirty += more->dirty;
	sum->empty += more->empty;
	sum->corrupt += more->corrupt;
	sum->full += more->full;
	sum->unwanted += more->unwanted;
	sum->failed += more->failed;
}

/* Has somebody given pages for it?  Lets go of what a session that has left gave. */
static bool
is_asked(int i)
{
	Job		   *job = &shared->job[i];
	bool		asked;
	bool		left;

	SpinLockAcquire(&shared->lock);
	asked = job->used && job->state == LOAD_ASKED;
	left = !job->used || job->serial != attached_serial[i];
	SpinLockRelease(&shared->lock);
	if (left)
		detach(i);
	return asked;
}

/* What the writer takes of a job: all of one session, or nothing. */
typedef struct Taken
{
	uint32		serial;
	dsm_handle	segment;
	FcLap		lap;
} Taken;

/*
 * In one section of the lock: between two, the session may leave and another
 * one be half through giving its own pages.
 */
static bool
take_job(int i, Taken *taken)
{
	Job		   *job = &shared->job[i];
	bool		asked;

	SpinLockAcquire(&shared->lock);
	asked = job->used && job->state == LOAD_ASKED;
	if (asked)
	{
		job->state = LOAD_RUNNING;
		taken->serial = job->serial;
		taken->segment = job->segment;
		taken->lap = job->lap;
	}
	SpinLockRelease(&shared->lock);
	return asked;
}

/* One step of one job. */
static FcLoadStep
run_job(int i, Taken *taken)
{
	Job		   *job = &shared->job[i];
	FcLoadCounts counts = {0};
	FcLoadStep	step = FC_LOAD_DONE;
	FcLoad	   *load;

	fc_failpoint(FC_FP_LOAD_TAKEN);
	load = pages_of(i, taken->serial, taken->segment);
	if (load != NULL)
		step = fc_cache_load_step(load, &taken->lap, &counts);
	SpinLockAcquire(&shared->lock);
	if (job->used && job->serial == taken->serial)
	{
		job->state = step == FC_LOAD_DONE ? LOAD_IDLE : LOAD_ASKED;
		job->lap = taken->lap;
		job->progress.limited = step == FC_LOAD_LATER;
		job->progress.unreachable = load == NULL;
		add_counts(&job->progress.counts, &counts);
	}
	SpinLockRelease(&shared->lock);
	ConditionVariableBroadcast(&job->ended);
	return step;
}

bool
fc_writer_load_run(bool active, bool *again)
{
	static int	last = 0;
	int			ran = -1;
	Taken		taken;
	bool		asked = false;

	/* one job a round (K4), each in its turn */
	*again = false;
	for (int k = 1; k <= FC_LOAD_JOBS; k++)
	{
		int			i = (last + k) % FC_LOAD_JOBS;

		if (!is_asked(i))
			continue;
		asked = true;
		if (active && ran < 0 && take_job(i, &taken))
			ran = i;
		else
			*again = active;
	}
	if (ran < 0)
		return asked;
	last = ran;
	if (run_job(ran, &taken) == FC_LOAD_MORE)
		*again = true;
	return true;
}

/* ---- the session's side ---- */

bool
fc_writer_load_begin(bool replace, const FcLoadProgress *about)
{
	FcLap		lap = fc_directory_lap(replace, fc_setting_keep_limit);

	Assert(mine == NULL && segment == NULL);
	segment = dsm_create(sizeof(FcLoad), 0);
	SpinLockAcquire(&shared->lock);
	for (int i = 0; i < FC_LOAD_JOBS && mine == NULL; i++)
	{
		Job		   *job = &shared->job[i];

		if (job->used)
			continue;
		job->used = true;
		job->serial++;
		job->state = LOAD_IDLE;
		job->segment = dsm_segment_handle(segment);
		job->lap = lap;
		job->progress = *about;
		mine = job;
	}
	SpinLockRelease(&shared->lock);
	if (mine != NULL)
		return true;
	dsm_detach(segment);
	segment = NULL;
	return false;
}

void
fc_writer_load_end(void)
{
	if (mine != NULL)
	{
		SpinLockAcquire(&shared->lock);
		mine->used = false;
		mine->state = LOAD_IDLE;
		SpinLockRelease(&shared->lock);
	}
	mine = NULL;
	if (segment != NULL)
		dsm_detach(segment);
	segment = NULL;
	/* lets go of the segment */
	fc_handoff_wake();
}

static bool
is_idle(bool *unreachable)
{
	bool		idle;

	SpinLockAcquire(&shared->lock);
	idle = mine->state == LOAD_IDLE;
	*unreachable = mine->progress.unreachable;
	SpinLockRelease(&shared->lock);
	return idle;
}

FcLoadWait
fc_writer_load_wait(void)
{
	FcLoadWait	result = FC_LOAD_READY;
	bool		unreachable;
	bool		told = false;

	Assert(mine != NULL);
	ConditionVariablePrepareToSleep(&mine->ended);
	while (!is_idle(&unreachable))
	{
		/* looks again now and then, lest the writer ends without a word */
		bool		timed_out = ConditionVariableTimedSleep(&mine->ended, 1000, FC_WAIT_PREWARM);

		if (!fc_cache_in_use())
		{
			result = FC_LOAD_NOT_ACTIVE;
			break;
		}

		/*
		 * a background worker that has been told to end, which raises nothing
		 * then, does not wait for the write limit
		 */
		if (ShutdownRequestPending || (timed_out && !fc_handoff_has_writer()))
		{
			result = FC_LOAD_NO_WRITER;
			break;
		}
		if (timed_out)
			fc_writer_tell_wait(&told);
	}
	ConditionVariableCancelSleep();
	if (result == FC_LOAD_READY && !fc_cache_in_use())
		result = FC_LOAD_NOT_ACTIVE;
	if (result == FC_LOAD_READY && unreachable)
		result = FC_LOAD_NO_MEMORY;
	return result;
}

void
fc_writer_load_give(const FcLoad *load)
{
	FcLoad	   *theirs = dsm_segment_address(segment);

	/* pages are many, and most of the time all of them */
	memcpy(theirs, load, offsetof(FcLoad, page));
	fc_failpoint(FC_FP_LOAD_GIVING);
	memcpy(theirs->page, load->page, (Size) load->n * BLCKSZ);
	SpinLockAcquire(&shared->lock);
	Assert(mine->state == LOAD_IDLE);
	mine->state = LOAD_ASKED;
	SpinLockRelease(&shared->lock);
	fc_handoff_wake();
}

void
fc_writer_load_tell(Oid relation, int relations_done, uint64 blocks_done, const FcLoadCounts *counts)
{
	SpinLockAcquire(&shared->lock);
	mine->progress.current = relation;
	mine->progress.relations_done = relations_done;
	mine->progress.blocks_done = blocks_done;
	add_counts(&mine->progress.counts, counts);
	SpinLockRelease(&shared->lock);
}

void
fc_writer_load_counts(FcLoadCounts *counts)
{
	SpinLockAcquire(&shared->lock);
	*counts = mine->progress.counts;
	SpinLockRelease(&shared->lock);
}

bool
fc_writer_load_progress(int i, FcLoadProgress *progress)
{
	bool		used;

	Assert(i >= 0 && i < FC_LOAD_JOBS);
	if (shared == NULL)
		return false;
	SpinLockAcquire(&shared->lock);
	used = shared->job[i].used;
	*progress = shared->job[i].progress;
	SpinLockRelease(&shared->lock);
	return used;
}
