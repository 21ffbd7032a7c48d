/*-------------------------------------------------------------------------
 *
 * follow/follow_shared.c
 *	  What the follower is doing, for the view; and whether there is to be one.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cache/cache.h"
#include "compat.h"
#include "directory/directory.h"
#include "follow/follow_internal.h"
#include "library.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

/* A follower that has ended is started again after a while. */
#define RESTART_NS UINT64CONST(5000000000)

/* A map is too old after so many pauses: loading takes two of them at most. */
#define OLD_ROUNDS 5

typedef struct FollowShared
{
	slock_t		lock;			/* protects all of it; leaf */
	FcFollowInfo info;
	FcFollowLoaded loaded;
} FollowShared;

static FollowShared *shared = NULL;

FcPart
fc_follow_part(void)
{
	return fc_part("pg_flashcache follower", sizeof(FollowShared));
}

void
fc_follow_shmem_init(void)
{
	FcPart		part = fc_follow_part();
	bool		found;

	shared = ShmemInitStruct(part.name, part.size, &found);
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->lock);
}

/* ---- the follower's side ---- */

static void
leave(int code, Datum arg)
{
	SpinLockAcquire(&shared->lock);
	shared->info.pid = 0;
	shared->info.state = FC_FOLLOW_OFF;
	shared->info.why = FC_WHY_NONE;
	SpinLockRelease(&shared->lock);
}

bool
fc_follow_claim(void)
{
	bool		mine;

	SpinLockAcquire(&shared->lock);
	mine = shared->info.pid == 0;
	if (mine)
		shared->info.pid = MyProcPid;
	SpinLockRelease(&shared->lock);
	if (mine)
		on_shmem_exit(leave, (Datum) 0);
	return mine;
}

void
fc_follow_set_state(FcFollowState state, FcFollowWhy why, const char *sqlstate)
{
	SpinLockAcquire(&shared->lock);
	shared->info.state = state;
	shared->info.why = why;
	memset(shared->info.sqlstate, 0, sizeof(shared->info.sqlstate));
	if (sqlstate != NULL)
		memcpy(shared->info.sqlstate, sqlstate, sizeof(shared->info.sqlstate) - 1);
	SpinLockRelease(&shared->lock);
}

void
fc_follow_set_pulled(const FcMapCompared *pages, uint64 pause_ns)
{
	TimestampTz at = GetCurrentTimestamp();
	uint64		now = fc_now_ns();

	SpinLockAcquire(&shared->lock);
	shared->info.known = true;
	shared->info.pulled_at = at;
	shared->info.pulled_ns = now;
	shared->info.pause_ns = pause_ns;
	shared->info.pages = *pages;
	shared->info.used = fc_directory_used();
	SpinLockRelease(&shared->lock);
}

void
fc_follow_set_pages(const FcMapCompared *pages)
{
	SpinLockAcquire(&shared->lock);
	shared->info.pages = *pages;
	shared->info.used = fc_directory_used();
	SpinLockRelease(&shared->lock);
}

/* The end of a round. */
void
fc_follow_set_missing(const FcFollowMissing *missing)
{
	SpinLockAcquire(&shared->lock);
	shared->info.missing = *missing;
	shared->info.rounds++;
	SpinLockRelease(&shared->lock);
}

void
fc_follow_set_loaded(const FcFollowLoaded *loaded)
{
	SpinLockAcquire(&shared->lock);
	shared->info.loaded += loaded->loaded - Min(shared->loaded.loaded, loaded->loaded);
	shared->loaded = *loaded;
	SpinLockRelease(&shared->lock);
}

void
fc_follow_get_loaded(FcFollowLoaded *loaded)
{
	SpinLockAcquire(&shared->lock);
	*loaded = shared->loaded;
	SpinLockRelease(&shared->lock);
}

/* ---- the view's side ---- */

FcFollowWhy
fc_follow_wanted(void)
{
	if (shared == NULL)
		return FC_WHY_NO_CACHE;
	if (!RecoveryInProgress())
		return FC_WHY_NOT_STANDBY;
	if (!fc_setting_follow)
		return FC_WHY_SETTING;
	return FC_WHY_NONE;
}

/*
 * What was here when it was compared may be gone: a cache that is off has
 * nothing, and of one that was emptied since, or has lost a device, as large a
 * share is taken to be gone as of all its pages.
 */
static void
forget_what_is_gone(FcFollowInfo *info)
{
	uint32		used = fc_directory_used();

	if (!fc_cache_in_use())
		memset(info->pages.here, 0, sizeof(info->pages.here));
	else if (used < info->used)
		for (int heat = 0; heat < FC_MAP_HEATS; heat++)
			info->pages.here[heat] = info->pages.here[heat] * used / info->used;
}

void
fc_follow_info(FcFollowInfo *info)
{
	FcFollowWhy wanted = fc_follow_wanted();

	memset(info, 0, sizeof(*info));
	if (shared != NULL)
	{
		SpinLockAcquire(&shared->lock);
		*info = shared->info;
		SpinLockRelease(&shared->lock);
		forget_what_is_gone(info);
	}
	if (info->pid != 0 && wanted == FC_WHY_NONE)
		return;
	info->state = FC_FOLLOW_OFF;
	info->why = wanted != FC_WHY_NONE ? wanted : FC_WHY_NO_FOLLOWER;
}

const char *
fc_follow_state_name(FcFollowState state)
{
	switch (state)
	{
		case FC_FOLLOW_OFF:
			return "off";
		case FC_FOLLOW_PULLING:
			return "pulling";
		case FC_FOLLOW_LOADING:
			return "loading";
		case FC_FOLLOW_WAITING:
			return "waiting";
		case FC_FOLLOW_FAILED:
			return "failed";
	}
	return "off";
}

const char *
fc_follow_why(const FcFollowInfo *info)
{
	static const char *const text[FC_WHY_COUNT] = {
		[FC_WHY_SETTING] = "pg_flashcache.follow is off",
		[FC_WHY_NO_CACHE] = "there is no flash cache in this server",
		[FC_WHY_NOT_STANDBY] = "this server is not a standby",
		[FC_WHY_NO_FOLLOWER] = "the background process \"pg_flashcache follower\" does not run",
		[FC_WHY_NOT_ACTIVE] = "the flash cache of this server is not in use",
		[FC_WHY_NO_LIBPQ] = "the server's libpqwalreceiver cannot be loaded",
		[FC_WHY_NO_PROCESS] = "no process could be started for the connection",
		[FC_WHY_NO_PRIMARY] = "neither pg_flashcache.follow_conninfo nor primary_conninfo names a server",
		[FC_WHY_BAD_CONNINFO] = "pg_flashcache.follow_conninfo, or primary_conninfo, is not a valid connection string",
		[FC_WHY_NO_ANSWER] = "no server answers at that address",
		[FC_WHY_NOT_READY] = "the other server does not accept connections at present",
		[FC_WHY_REFUSED] = "the other server has refused the connection: see its log",
		[FC_WHY_TOO_SLOW] = "the other server has not answered in time",
		[FC_WHY_LOST] = "the connection was lost",
		[FC_WHY_ITSELF] = "the connection leads to this server itself",
		[FC_WHY_OTHER_CLUSTER] = "the other server is of another cluster: its system identifier differs",
		[FC_WHY_NO_EXTENSION] = "the database that was connected to does not have the extension pg_flashcache",
		[FC_WHY_UNTRUSTED] = "the schema of the extension on the other server belongs to a role that is no superuser",
		[FC_WHY_NO_RIGHT] = "the role may not call pg_flashcache_export_map() on the other server",
		[FC_WHY_QUERY] = "a query has failed on the other server: see its log",
		[FC_WHY_BAD_MAP] = "what the other server returns is not a map",
		[FC_WHY_TOO_LARGE] = "the map is too large",
		[FC_WHY_NO_SPACE] = "the map could not be written to a temporary file",
		[FC_WHY_NO_LOADER] = "no background process could be started to load pages",
		[FC_WHY_ERROR] = "an error that the log of this server shows",
	};

	if (info->why == FC_WHY_QUERY && info->sqlstate[0] != '\0')
		return psprintf("%s (SQLSTATE %s)", text[info->why], info->sqlstate);
	return text[info->why];
}

uint64
fc_follow_age(const FcFollowInfo *info, bool *too_old)
{
	uint64		now = fc_now_ns();
	uint64		age = info->known && now > info->pulled_ns ? now - info->pulled_ns : 0;

	*too_old = !info->known || age > OLD_ROUNDS * info->pause_ns;
	return age;
}

/* ---- the writer's side ---- */

void
fc_follow_tend(void)
{
	static BackgroundWorkerHandle *worker = NULL;
	static uint64 ended_at = 0;
	BackgroundWorker w = {0};
	pid_t		pid;

	if (worker != NULL)
	{
		if (GetBackgroundWorkerPid(worker, &pid) != BGWH_STOPPED)
			return;
		pfree(worker);
		worker = NULL;
		ended_at = fc_now_ns();
	}
	if (ShutdownRequestPending || fc_follow_wanted() != FC_WHY_NONE ||
		(ended_at != 0 && fc_now_ns() - ended_at < RESTART_NS))
		return;
	strlcpy(w.bgw_name, "pg_flashcache follower", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "pg_flashcache follower", sizeof(w.bgw_type));
	strlcpy(w.bgw_function_name, "fc_follow_main", sizeof(w.bgw_function_name));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_ConsistentState;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	if (!fc_library_name(w.bgw_library_name, sizeof(w.bgw_library_name)) ||
		!RegisterDynamicBackgroundWorker(&w, &worker))
	{
		worker = NULL;
		ended_at = fc_now_ns();
	}
}
