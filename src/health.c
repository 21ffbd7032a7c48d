/*-------------------------------------------------------------------------
 *
 * health.c
 *	  See health.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "health.h"
#include "port/atomics.h"
#include "storage/shmem.h"
#include "storage/spin.h"
#include "utils/timestamp.h"

typedef struct HealthShared
{
	uint64		day;			/* that is today; 0 = none yet; the writer's */
	slock_t		lock;			/* protects what follows; leaf */
	uint64		path[FC_DEVICES];	/* hash of that which the report is about */
	FcHealth	health[FC_DEVICES];
} HealthShared;

static HealthShared *shared = NULL;

FcPart
fc_health_part(void)
{
	return fc_part("pg_flashcache health", sizeof(HealthShared));
}

void
fc_health_shmem_init(void)
{
	FcPart		part = fc_health_part();
	bool		found;

	shared = ShmemInitStruct(part.name, part.size, &found);
	memset(shared, 0, sizeof(*shared));
	SpinLockInit(&shared->lock);
}

static uint64
hash_of(const char *path)
{
	return hash_bytes_extended((const unsigned char *) path, strlen(path), 0);
}

static int64
seconds(TimestampTz at)
{
	return (int64) timestamptz_to_time_t(at);
}

/* ---- reports ---- */

void
fc_health_report(FcDeviceNo no, const char *path, const char *drive, const char *model, const int64 *values)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		hash = hash_of(path);
	FcHealth   *health = &shared->health[no];
	int64		rated;

	SpinLockAcquire(&shared->lock);
	/* on another device, or another drive below it: a history of its own */
	if (shared->path[no] != hash || strncmp(health->drive, drive, sizeof(health->drive) - 1) != 0)
	{
		memset(health, 0, sizeof(*health));
		health->value[FC_HEALTH_RATED] = FC_UNKNOWN;
	}
	rated = values[FC_HEALTH_RATED] != FC_UNKNOWN ? values[FC_HEALTH_RATED] : health->value[FC_HEALTH_RATED];
	shared->path[no] = hash;
	health->reported = now;
	strlcpy(health->drive, drive, sizeof(health->drive));
	strlcpy(health->model, model, sizeof(health->model));
	memcpy(health->value, values, sizeof(health->value));
	health->value[FC_HEALTH_RATED] = rated;
	if (values[FC_HEALTH_WRITTEN] != FC_UNKNOWN)
		fc_policy_note_written(health->days, seconds(now), values[FC_HEALTH_WRITTEN]);
	SpinLockRelease(&shared->lock);
}

bool
fc_health_of(FcDeviceNo no, const char *path, FcHealth *health)
{
	uint64		hash = hash_of(path);
	bool		there;

	if (shared == NULL)
		return false;
	SpinLockAcquire(&shared->lock);
	there = shared->health[no].reported != 0 && shared->path[no] == hash;
	if (there)
		*health = shared->health[no];
	SpinLockRelease(&shared->lock);
	return there;
}

/* ---- what the cache has written ---- */

void
fc_health_note_day(void)
{
	uint64		today = (uint64) seconds(GetCurrentTimestamp()) / SECS_PER_DAY;

	if (today == shared->day)
		return;
	/* a server that has just been started has written nothing on days before */
	for (FcDeviceNo no = 0; no < FC_DEVICES && shared->day != 0; no++)
		fc_store_begin_day(no);
	shared->day = today;
}

uint64
fc_health_cache_written_today(FcDeviceNo no)
{
	return fc_store_written_today(no) * BLCKSZ;
}
