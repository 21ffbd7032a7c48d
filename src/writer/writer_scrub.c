/*-------------------------------------------------------------------------
 *
 * writer_scrub.c
 *	  How a session has the writer erase slots: pg_flashcache_scrub().
 *
 * One scrub at a time (writer_request.h).  If the session leaves, the writer
 * stops at its next batch.
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

typedef struct ScrubAnswer
{
	bool		done;
	FcScrubResult result;
} ScrubAnswer;

typedef struct ScrubShared
{
	FcRequest	request;
	bool		everything;		/* what is asked */
	ScrubAnswer answer;
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
	fc_request_init(&shared->request, &shared->everything, sizeof(shared->everything), &shared->answer, sizeof(shared->answer));
}

/* ---- the writer's side ---- */

/* What was erased is, also if the writer ends while it lets go of the devices. */
static void
end(bool done, const FcScrubResult *result)
{
	static ScrubAnswer answer;

	answer.done = done;
	answer.result = *result;
	fc_request_note(&shared->request, &answer);
	fc_cache_scrub_end();
	fc_request_end(&shared->request, &answer);
}

void
fc_writer_scrub_start(void)
{
	ScrubAnswer answer = {0};

	if (!fc_request_is_orphaned(&shared->request))
		return;
	(void) fc_request_was_noted(&shared->request, &answer);
	end(answer.done, &answer.result);
}

bool
fc_writer_scrub_run(void)
{
	FcScrubResult result = {0};
	bool		abandoned;
	FcRequestState state = fc_request_look(&shared->request, &abandoned);

	if (state != FC_REQUEST_ASKED && state != FC_REQUEST_RUNNING)
		return false;
	if (abandoned)
	{
		end(false, &result);
		return false;
	}
	if (state == FC_REQUEST_ASKED)
		fc_cache_scrub_begin(shared->everything);
	/* all pages are being forgotten: then all of it is to be erased */
	if (fc_cache_purges())
		return false;
	switch (fc_cache_scrub_step(&result))
	{
		case FC_SCRUB_MORE:
			return true;
		case FC_SCRUB_LATER:
			return false;
		case FC_SCRUB_DONE:
			if (result.failed == 0)
				fc_warm_doubt_ends();
			end(true, &result);
			break;
		case FC_SCRUB_GAVE_UP:
			end(false, &result);
			break;
	}
	return false;
}

/* ---- the session's side ---- */

FcScrub
fc_writer_scrub(bool everything, FcScrubResult *result)
{
	ScrubAnswer answer;

	memset(result, 0, sizeof(*result));
	if (shared == NULL)
		return FC_SCRUB_NO_WRITER;
	switch (fc_request_make(&shared->request, &everything, &answer, FC_WAIT_SCRUB))
	{
		case FC_REQUEST_UNDER_WAY:
			return FC_SCRUB_UNDER_WAY;
		case FC_REQUEST_NO_WRITER:
			return FC_SCRUB_NO_WRITER;
		case FC_REQUEST_ANSWERED:
			break;
	}
	*result = answer.result;
	return answer.done ? FC_SCRUBBED : FC_SCRUB_FAILED;
}
