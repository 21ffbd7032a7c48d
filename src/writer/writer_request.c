/*-------------------------------------------------------------------------
 *
 * writer_request.c
 *	  See writer_request.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "handoff.h"
#include "storage/ipc.h"
#include "writer/writer_patience.h"
#include "writer/writer_request.h"

/* So often who waits looks whether there still is a writer, lest that ends without a word. */
#define LOOK_MS 1000

void
fc_request_init(FcRequest *request, void *asked, size_t asked_bytes, void *answered, size_t answered_bytes)
{
	memset(request, 0, sizeof(*request));
	request->asked = asked;
	request->asked_bytes = asked_bytes;
	request->answered = answered;
	request->answered_bytes = answered_bytes;
	SpinLockInit(&request->lock);
	ConditionVariableInit(&request->ended);
}

/* ---- the writer's side ---- */

FcRequestState
fc_request_look(FcRequest *request, bool *abandoned)
{
	FcRequestState state;

	SpinLockAcquire(&request->lock);
	state = request->state;
	if (state == FC_REQUEST_ASKED)
		request->state = FC_REQUEST_RUNNING;
	*abandoned = request->abandoned;
	SpinLockRelease(&request->lock);
	return state;
}

void
fc_request_note(FcRequest *request, const void *answer)
{
	SpinLockAcquire(&request->lock);
	Assert(request->state == FC_REQUEST_RUNNING);
	memcpy(request->answered, answer, request->answered_bytes);
	request->known = true;
	SpinLockRelease(&request->lock);
}

void
fc_request_end(FcRequest *request, const void *answer)
{
	SpinLockAcquire(&request->lock);
	Assert(request->state == FC_REQUEST_RUNNING);
	request->state = request->abandoned ? FC_REQUEST_IDLE : FC_REQUEST_ENDED;
	memcpy(request->answered, answer, request->answered_bytes);
	request->known = true;
	SpinLockRelease(&request->lock);
	ConditionVariableBroadcast(&request->ended);
}

bool
fc_request_is_orphaned(FcRequest *request)
{
	FcRequestState state;

	SpinLockAcquire(&request->lock);
	state = request->state;
	SpinLockRelease(&request->lock);
	return state == FC_REQUEST_RUNNING;
}

bool
fc_request_was_noted(FcRequest *request, void *answer)
{
	bool		known;

	SpinLockAcquire(&request->lock);
	Assert(request->state == FC_REQUEST_RUNNING);
	known = request->known;
	if (known)
		memcpy(answer, request->answered, request->answered_bytes);
	SpinLockRelease(&request->lock);
	return known;
}

/* ---- the session's side ---- */

/* It leaves, with the answer or without. */
static void
leave(int code, Datum arg)
{
	FcRequest  *request = (FcRequest *) DatumGetPointer(arg);

	SpinLockAcquire(&request->lock);
	if (request->state == FC_REQUEST_RUNNING)
		request->abandoned = true;
	else
		request->state = FC_REQUEST_IDLE;
	SpinLockRelease(&request->lock);
}

static bool
ask(FcRequest *request, const void *asked)
{
	bool		idle;

	SpinLockAcquire(&request->lock);
	idle = request->state == FC_REQUEST_IDLE;
	if (idle)
	{
		request->state = FC_REQUEST_ASKED;
		request->abandoned = false;
		request->known = false;
		memcpy(request->asked, asked, request->asked_bytes);
	}
	SpinLockRelease(&request->lock);
	return idle;
}

/* Without a writer the answer is what is known: nobody is there to end it. */
static bool
is_answered(FcRequest *request, bool writer, void *answer)
{
	bool		ended;

	SpinLockAcquire(&request->lock);
	ended = writer ? request->state == FC_REQUEST_ENDED : request->known;
	if (ended)
		memcpy(answer, request->answered, request->answered_bytes);
	SpinLockRelease(&request->lock);
	return ended;
}

FcRequestMade
fc_request_make(FcRequest *request, const void *asked, void *answer, uint32 wait_event)
{
	volatile FcRequestMade made = FC_REQUEST_ANSWERED;
	bool		told = false;

	if (!fc_handoff_has_writer())
		return FC_REQUEST_NO_WRITER;
	if (!ask(request, asked))
		return FC_REQUEST_UNDER_WAY;
	PG_ENSURE_ERROR_CLEANUP(leave, PointerGetDatum(request));
	{
		fc_handoff_wake();
		ConditionVariablePrepareToSleep(&request->ended);
		while (!is_answered(request, true, answer))
		{
			if (!ConditionVariableTimedSleep(&request->ended, LOOK_MS, wait_event))
				continue;
			if (!fc_handoff_has_writer())
			{
				if (!is_answered(request, false, answer))
					made = FC_REQUEST_NO_WRITER;
				break;
			}
			fc_writer_tell_wait(&told);
		}
		ConditionVariableCancelSleep();
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave, PointerGetDatum(request));
	leave(0, PointerGetDatum(request));
	return made;
}
