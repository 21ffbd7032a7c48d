/*-------------------------------------------------------------------------
 *
 * follow/follow.c
 *	  See follow.h: the follower's rounds.
 *
 * A round: pull the map, see how much of it is here, have what is missing
 * loaded, see again.  The pause after it is pg_flashcache.follow_interval, or
 * nine times as long as the pull took, so that a server with a large map is
 * asked a tenth of the time at most.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "cache/cache.h"
#include "compat.h"
#include "follow/follow_internal.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/proc.h"
#include "tcop/tcopprot.h"

#define PULL_SHARE 9			/* a pause is so many times as long */

static FcFollowMap map = {.fd = -1};

static uint64
interval_ns(void)
{
	return (uint64) fc_setting_follow_interval * 1000000000;
}

/* Pauses are counted from the end of a round; ended early by another setting, or when it is to end. */
static FcFollowWhy
pause_for(uint64 ns)
{
	uint64		until = fc_now_ns() + ns;
	int			interval = fc_setting_follow_interval;
	char	   *conninfo = pstrdup(fc_setting_follow_conninfo);
	FcFollowWhy why = FC_WHY_NONE;

	for (uint64 now; (now = fc_now_ns()) < until && why == FC_WHY_NONE;)
	{
		fc_follow_wait(-1, until - now);
		why = fc_follow_look();
		if (interval != fc_setting_follow_interval || strcmp(conninfo, fc_setting_follow_conninfo) != 0)
			break;
	}
	pfree(conninfo);
	return why;
}

/* *pause: until the next round. */
static FcFollowWhy
one_round(uint64 *pause, char *sqlstate)
{
	FcMapCompared pages;
	FcFollowMissing missing = {0};
	FcFollowWhy why;
	uint64		began = fc_now_ns();

	*pause = interval_ns();
	if (!fc_cache_in_use())
		return FC_WHY_NOT_ACTIVE;
	fc_follow_set_state(FC_FOLLOW_PULLING, FC_WHY_NONE, NULL);
	pgstat_report_activity(STATE_RUNNING, "pulling the map of another server's flash cache");
	why = fc_follow_pull(&map, sqlstate);
	if (why != FC_WHY_NONE)
		return why;
	*pause = Max(*pause, PULL_SHARE * (fc_now_ns() - began));
	why = fc_follow_map_compare(&map, &pages);
	if (why != FC_WHY_NONE)
		return why;
	fc_follow_set_pulled(&pages, *pause);

	fc_follow_set_state(FC_FOLLOW_LOADING, FC_WHY_NONE, NULL);
	pgstat_report_activity(STATE_RUNNING, "loading pages to flash that a map names");
	why = fc_follow_load_all(&map, &missing);
	if (why == FC_WHY_STOP)
		return why;
	if (fc_follow_look_again(&map) == FC_WHY_NONE)
		fc_follow_set_missing(&missing);
	return why;
}

/* An error of the server in a round ends that round. */
static FcFollowWhy
try_round(uint64 *pause, char *sqlstate)
{
	MemoryContext context = CurrentMemoryContext;
	volatile FcFollowWhy why = FC_WHY_ERROR;

	PG_TRY();
	{
		why = one_round(pause, sqlstate);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		EmitErrorReport();
		FlushErrorState();
		why = FC_WHY_ERROR;
	}
	PG_END_TRY();
	fc_follow_abandon();
	return why;
}

/* One line when it begins to fail, for each cause, and one when it no longer does. */
static void
tell_log(FcFollowWhy why)
{
	static FcFollowWhy told = FC_WHY_NONE;
	FcFollowInfo info;

	if (why == told)
		return;
	told = why;
	fc_follow_info(&info);
	if (why == FC_WHY_NONE)
		ereport(LOG, (errmsg("pg_flashcache follows another server's cache again")));
	else if (info.why == why)
		ereport(LOG,
				(errmsg("pg_flashcache cannot follow another server's cache: %s", fc_follow_why(&info)),
				 errdetail("It tries again by itself; pg_flashcache_warmth shows how it goes on.")));
}

static void
clean_up(int code, Datum arg)
{
	fc_follow_abandon();
	fc_follow_map_remove(&map);
}

void
fc_follow_run(void)
{
	FcFollowWhy why = FC_WHY_NONE;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(InvalidOid, InvalidOid, 0);
	/* from here on it waits for nobody, and can end without a FATAL */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	if (!fc_follow_claim())
		return;					/* that of a writer before this one */
	before_shmem_exit(clean_up, (Datum) 0);
	while (why != FC_WHY_STOP && fc_follow_look() == FC_WHY_NONE)
	{
		uint64		pause = interval_ns();
		char		sqlstate[6] = {0};

		why = try_round(&pause, sqlstate);
		if (why == FC_WHY_STOP)
			break;
		fc_follow_map_remove(&map);
		fc_follow_set_state(why == FC_WHY_NONE ? FC_FOLLOW_WAITING : FC_FOLLOW_FAILED, why, sqlstate);
		pgstat_report_activity(STATE_IDLE, NULL);
		tell_log(why);
		why = pause_for(pause);
	}
}
