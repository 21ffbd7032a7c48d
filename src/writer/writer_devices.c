/*-------------------------------------------------------------------------
 *
 * writer_devices.c
 *	  How a session has the writer add, remove, resize, disable and enable
 *	  devices.
 *
 * One change at a time (writer_request.h).  If the session leaves, the writer
 * finishes the change all the same.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "storage/shmem.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_request.h"

typedef struct ChangeAsked
{
	FcDeviceChange what;
	uint32		slots;
	char		path[MAXPGPATH];
} ChangeAsked;

typedef struct ChangeAnswer
{
	bool		done;
	FcReason	reason;			/* why not; or what to warn of, if anything */
} ChangeAnswer;

typedef struct DevicesShared
{
	FcRequest	request;
	ChangeAsked asked;
	ChangeAnswer answer;
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
	fc_request_init(&shared->request, &shared->asked, sizeof(shared->asked), &shared->answer, sizeof(shared->answer));
}

/* ---- the writer's side ---- */

static void
end(bool done, const FcReason *reason)
{
	static ChangeAnswer answer;

	answer.done = done;
	answer.reason = *reason;
	fc_request_end(&shared->request, &answer);
}

void
fc_writer_devices_start(void)
{
	static const FcReason orphaned = {"the process that did it has ended", "Look at pg_stat_flashcache_device, and try again."};

	if (fc_request_is_orphaned(&shared->request))
		end(false, &orphaned);
}

/* Whatever has come of the change, the list is tried again if it has not been written. */
static void
end_change(bool done, const FcReason *error)
{
	FcReason	unwritten = {""};

	(void) fc_devices_list_written(&unwritten);
	end(done, done ? &unwritten : error);
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
	FcRequestState state;
	bool		abandoned;
	uint64		log;
	uint64		group;

	fc_warm_position(&log, &group);
	fc_devices_set_position(log, group);
	fc_cache_try_suspects();
	fc_devices_round();
	state = fc_request_look(&shared->request, &abandoned);
	if (state != FC_REQUEST_ASKED && state != FC_REQUEST_RUNNING)
		return;
	if (state == FC_REQUEST_RUNNING)
		step = fc_devices_change_step(&error);
	else if (may_change(&error))
		step = fc_devices_change(shared->asked.what, shared->asked.path, shared->asked.slots, &error);
	if (step == FC_CHANGE_MORE)
		*again = true;
	else if (step != FC_CHANGE_LATER)
		end_change(step == FC_CHANGE_DONE, &error);
}

/* ---- the session's side ---- */

FcDevicesAnswer
fc_writer_change_device(FcDeviceChange what, const char *path, uint32 slots, FcReason *reason)
{
	ChangeAsked asked = {what, slots, ""};
	ChangeAnswer answer;

	if (shared == NULL)
		return FC_DEVICES_NO_WRITER;
	strlcpy(asked.path, path, sizeof(asked.path));
	switch (fc_request_make(&shared->request, &asked, &answer, FC_WAIT_ENABLE))
	{
		case FC_REQUEST_UNDER_WAY:
			return FC_DEVICES_UNDER_WAY;
		case FC_REQUEST_NO_WRITER:
			return FC_DEVICES_NO_WRITER;
		case FC_REQUEST_ANSWERED:
			break;
	}
	*reason = answer.reason;
	return answer.done ? FC_DEVICES_DONE : FC_DEVICES_FAILED;
}
