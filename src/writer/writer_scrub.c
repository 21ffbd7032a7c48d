/*-------------------------------------------------------------------------
 *
 * writer_scrub.c
 *	  How a session has the writer erase slots: pg_flashcache_scrub().
 *
 * One scrub at a time.  The session that asked waits for the end; it may
 * leave earlier, cancelled or dead, and the writer then stops at its next
 * batch.  What passes between the two:
 *
 *	IDLE --ask--> ASKED --writer--> RUNNING --writer--> DONE or GAVE_UP --> IDLE
 *
 * The last step is the session's, or the writer's if the session has left.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "handoff.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "writer/writer.h"

typedef enum ScrubState
{
	SCRUB_IDLE,
	SCRUB_ASKED,
	SCRUB_RUNNING,
	SCRUB_DONE,
	SCRUB_GAVE_UP,
} ScrubState;

typedef struct ScrubShared
{
	slock_t		lock;			/* protects what follows but the last; leaf */
	ScrubState	state;
	bool		everything;
	bool		abandoned;		/* nobody waits any more */
	FcScrubResult result;
	ConditionVariable ended;
} ScrubShared;

static ScrubShared *shared = NULL;

FcPart
fc_writer_scrub_part(void)
{
	return fc_part("pg_flashcache scrub", sizeof(ScrubShared));
}

void
fc_writer_scrub_shmem_init(void)
{
	FcPart		part = fc_writer_scrub_part();
	bool		found;

	shared = ShmemInitStruct(part.name, part.size, &found);
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->lock);
	ConditionVariableInit(&shared->ended);
}

/* ---- the writer's side ---- */

static void
end(ScrubState state, const FcScrubResult *result)
{
	Assert(state == SCRUB_DONE || state == SCRUB_GAVE_UP);
	fc_cache_scrub_end();
	SpinLockAcquire(&shared->lock);
	shared->state = shared->abandoned ? SCRUB_IDLE : state;
	shared->result = *result;
	SpinLockRelease(&shared->lock);
	ConditionVariableBroadcast(&shared->ended);
}

void
fc_writer_scrub_start(void)
{
	FcScrubResult none = {0};
	bool		orphaned;

	/* a writer before this one was at it */
	SpinLockAcquire(&shared->lock);
	orphaned = shared->state == SCRUB_RUNNING;
	SpinLockRelease(&shared->lock);
	if (orphaned)
		end(SCRUB_GAVE_UP, &none);
}

bool
fc_writer_scrub_run(void)
{
	FcScrubResult result = {0};
	bool		begin;
	bool		running;
	bool		abandoned;

	SpinLockAcquire(&shared->lock);
	begin = shared->state == SCRUB_ASKED;
	if (begin)
		shared->state = SCRUB_RUNNING;
	running = shared->state == SCRUB_RUNNING;
	abandoned = shared->abandoned;
	SpinLockRelease(&shared->lock);
	if (!running)
		return false;
	if (abandoned)
	{
		end(SCRUB_GAVE_UP, &result);
		return false;
	}
	if (begin)
		fc_cache_scrub_begin(shared->everything);
	switch (fc_cache_scrub_step(&result))
	{
		case FC_SCRUB_MORE:
			return true;
		case FC_SCRUB_LATER:
			return false;
		case FC_SCRUB_DONE:
			end(SCRUB_DONE, &result);
			break;
		case FC_SCRUB_GAVE_UP:
			end(SCRUB_GAVE_UP, &result);
			break;
	}
	return false;
}

/* ---- the session's side ---- */

/* The session leaves, with the answer or without. */
static void
leave(int code, Datum arg)
{
	SpinLockAcquire(&shared->lock);
	if (shared->state == SCRUB_RUNNING)
		shared->abandoned = true;
	else
		shared->state = SCRUB_IDLE;
	SpinLockRelease(&shared->lock);
}

static bool
ask(bool everything)
{
	bool		free;

	SpinLockAcquire(&shared->lock);
	free = shared->state == SCRUB_IDLE;
	if (free)
	{
		shared->state = SCRUB_ASKED;
		shared->everything = everything;
		shared->abandoned = false;
	}
	SpinLockRelease(&shared->lock);
	return free;
}

/* Has it ended, and how? */
static bool
look(FcScrub *how, FcScrubResult *result)
{
	ScrubState	state;

	SpinLockAcquire(&shared->lock);
	state = shared->state;
	*result = shared->result;
	SpinLockRelease(&shared->lock);
	Assert(state != SCRUB_IDLE);
	*how = state == SCRUB_DONE ? FC_SCRUBBED : FC_SCRUB_FAILED;
	return state == SCRUB_DONE || state == SCRUB_GAVE_UP;
}

FcScrub
fc_writer_scrub(bool everything, FcScrubResult *result)
{
	FcScrub		how = FC_SCRUB_NO_WRITER;

	memset(result, 0, sizeof(*result));
	if (!fc_handoff_has_writer())
		return FC_SCRUB_NO_WRITER;
	if (!ask(everything))
		return FC_SCRUB_UNDER_WAY;
	PG_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	{
		fc_handoff_wake();
		ConditionVariablePrepareToSleep(&shared->ended);
		while (!look(&how, result))
		{
			/* looks again now and then, lest the writer ends without a word */
			if (ConditionVariableTimedSleep(&shared->ended, 1000, FC_WAIT_SCRUB) &&
				!fc_handoff_has_writer())
			{
				how = FC_SCRUB_NO_WRITER;
				break;
			}
		}
		ConditionVariableCancelSleep();
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	leave(0, (Datum) 0);
	return how;
}
