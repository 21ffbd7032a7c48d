/*-------------------------------------------------------------------------
 *
 * writer_request.h
 *	  What a session asks of the writer, and waits for: one request at a time.
 *
 * The session may leave earlier, cancelled or dead; the writer learns of that,
 * and ends the request in its own time.  What passes between the two:
 *
 *	IDLE --make--> ASKED --look--> RUNNING --end--> ENDED --> IDLE
 *
 * The last step is the session's, or the writer's if the session has left.  The
 * answer may be known before the end: then it counts also if the writer ends in
 * what is left to be done.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WRITER_REQUEST_H
#define FC_WRITER_REQUEST_H

#include "postgres.h"

#include "storage/condition_variable.h"
#include "storage/spin.h"

typedef enum FcRequestState
{
	FC_REQUEST_IDLE,
	FC_REQUEST_ASKED,
	FC_REQUEST_RUNNING,
	FC_REQUEST_ENDED,
} FcRequestState;

/* In shared memory. */
typedef struct FcRequest
{
	slock_t		lock;			/* protects what follows but the last, and
								 * what is asked and answered; leaf */
	FcRequestState state;
	bool		abandoned;		/* nobody waits any more */
	bool		known;			/* the answer is there, RUNNING or ENDED */
	void	   *asked;			/* so many bytes each, in shared memory */
	size_t		asked_bytes;
	void	   *answered;
	size_t		answered_bytes;
	ConditionVariable ended;
} FcRequest;

/* `asked` and `answered`: where what is asked for, and the answer, are to be. */
extern void fc_request_init(FcRequest *request, void *asked, size_t asked_bytes, void *answered, size_t answered_bytes);

/* ---- the session's side ---- */

typedef enum FcRequestMade
{
	FC_REQUEST_ANSWERED,
	FC_REQUEST_UNDER_WAY,		/* somebody else's */
	FC_REQUEST_NO_WRITER,		/* it may have been done in part */
} FcRequestMade;

/* Asks, and waits for the answer. */
extern FcRequestMade fc_request_make(FcRequest *request, const void *asked, void *answer, uint32 wait_event);

/* ---- the writer's side ---- */

/* ASKED once, and it is running from then on; RUNNING; or another state, and there is nothing to do.  What was asked stays where it is. */
extern FcRequestState fc_request_look(FcRequest *request, bool *abandoned);
extern void fc_request_end(FcRequest *request, const void *answer);

/* This will be the answer, whatever becomes of this process until the end. */
extern void fc_request_note(FcRequest *request, const void *answer);

/* Has a writer before this one been at it?  And what has it noted, if anything? */
extern bool fc_request_is_orphaned(FcRequest *request);
extern bool fc_request_was_noted(FcRequest *request, void *answer);

#endif							/* FC_WRITER_REQUEST_H */
