/*-------------------------------------------------------------------------
 *
 * writer_devices.c
 *	  How a session has the writer add, remove, resize, disable and enable
 *	  devices.
 *
 * One change at a time.  The session that asked waits for the end; it may
 * leave earlier, cancelled or dead, and the writer then finishes the change all
 * the same.  What passes between the two:
 *
 *	IDLE --ask--> ASKED --writer--> RUNNING --writer--> DONE or FAILED --> IDLE
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
#include "warm/warm.h"
#include "writer/writer.h"

typedef enum ChangeState
{
	CHANGE_IDLE,
	CHANGE_ASKED,
	CHANGE_RUNNING,
	CHANGE_DONE,
	CHANGE_FAILED,
} ChangeState;

typedef struct DevicesShared
{
	slock_t		lock;			/* protects what follows but the last; leaf */
	ChangeState state;
	bool		abandoned;		/* nobody waits any more */
	FcDeviceChange what;
	uint32		slots;
	char		path[MAXPGPATH];
	FcReason	error;
	ConditionVariable ended;
} DevicesShared;

static DevicesShared *shared = NULL;

FcPart
fc_writer_devices_part(void)
{
	return fc_part("pg_flashcache device changes", sizeof(DevicesShared));
}

void
fc_writer_devices_shmem_init(void)
{
	FcPart		part = fc_writer_devices_part();
	bool		found;

	shared = ShmemInitStruct(part.name, part.size, &found);
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->lock);
	ConditionVariableInit(&shared->ended);
}

/* ---- the writer's side ---- */

static void
end(ChangeState state, const FcReason *error)
{
	Assert(state == CHANGE_DONE || state == CHANGE_FAILED);
	SpinLockAcquire(&shared->lock);
	shared->state = shared->abandoned ? CHANGE_IDLE : state;
	shared->error = *error;
	SpinLockRelease(&shared->lock);
	ConditionVariableBroadcast(&shared->ended);
}

void
fc_writer_devices_start(void)
{
	static const FcReason orphaned = {"the process that did it has ended", "Look at pg_stat_flashcache_device, and try again."};
	ChangeState state;

	/* a writer before this one was at it */
	SpinLockAcquire(&shared->lock);
	state = shared->state;
	SpinLockRelease(&shared->lock);
	if (state == CHANGE_RUNNING)
		end(CHANGE_FAILED, &orphaned);
}

/* May devices come and go at present?  Not before the log has been loaded. */
static bool
may_change(FcReason *error)
{
	FcState		state = fc_cache_state();

	if ((state == FC_STATE_ACTIVE || state == FC_STATE_PAUSED) && !fc_warm_pending())
		return true;
	return fc_fail(error, "See pg_stat_flashcache.", "the cache is %s", fc_state_name(state));
}

void
fc_writer_devices_run(bool *again)
{
	FcChangeStep step = FC_CHANGE_FAILED;
	static FcReason error;
	ChangeState state;
	uint64		log;
	uint64		group;

	fc_warm_position(&log, &group);
	fc_devices_set_position(log, group);
	fc_cache_try_suspects();
	fc_devices_round();
	SpinLockAcquire(&shared->lock);
	state = shared->state;
	if (state == CHANGE_ASKED)
		shared->state = CHANGE_RUNNING;
	SpinLockRelease(&shared->lock);
	if (state != CHANGE_ASKED && state != CHANGE_RUNNING)
		return;
	if (state == CHANGE_RUNNING)
		step = fc_devices_change_step(&error);
	else if (may_change(&error))
		step = fc_devices_change(shared->what, shared->path, shared->slots, &error);
	if (step == FC_CHANGE_MORE)
		*again = true;
	else
		end(step == FC_CHANGE_DONE ? CHANGE_DONE : CHANGE_FAILED, &error);
}

/* ---- the session's side ---- */

/* The session leaves, with the answer or without. */
static void
leave(int code, Datum arg)
{
	SpinLockAcquire(&shared->lock);
	if (shared->state == CHANGE_RUNNING)
		shared->abandoned = true;
	else
		shared->state = CHANGE_IDLE;
	SpinLockRelease(&shared->lock);
}

static bool
ask(FcDeviceChange what, const char *path, uint32 slots)
{
	bool		free;

	SpinLockAcquire(&shared->lock);
	free = shared->state == CHANGE_IDLE;
	if (free)
	{
		shared->state = CHANGE_ASKED;
		shared->abandoned = false;
		shared->what = what;
		shared->slots = slots;
		strlcpy(shared->path, path, sizeof(shared->path));
	}
	SpinLockRelease(&shared->lock);
	return free;
}

/* Has it ended, and how? */
static bool
look(FcDevicesAnswer *answer, FcReason *error)
{
	ChangeState state;

	SpinLockAcquire(&shared->lock);
	state = shared->state;
	*error = shared->error;
	SpinLockRelease(&shared->lock);
	*answer = state == CHANGE_DONE ? FC_DEVICES_DONE : FC_DEVICES_FAILED;
	return state == CHANGE_DONE || state == CHANGE_FAILED;
}

FcDevicesAnswer
fc_writer_change_device(FcDeviceChange what, const char *path, uint32 slots, FcReason *error)
{
	FcDevicesAnswer answer = FC_DEVICES_NO_WRITER;

	if (shared == NULL || !fc_handoff_has_writer())
		return FC_DEVICES_NO_WRITER;
	if (!ask(what, path, slots))
		return FC_DEVICES_UNDER_WAY;
	PG_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	{
		fc_handoff_wake();
		ConditionVariablePrepareToSleep(&shared->ended);
		while (!look(&answer, error))
		{
			/* looks again now and then, lest the writer ends without a word */
			if (ConditionVariableTimedSleep(&shared->ended, 1000, FC_WAIT_ENABLE) &&
				!fc_handoff_has_writer())
			{
				answer = FC_DEVICES_NO_WRITER;
				break;
			}
		}
		ConditionVariableCancelSleep();
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	leave(0, (Datum) 0);
	return answer;
}
