/*-------------------------------------------------------------------------
 *
 * cache_pace.c
 *	  Is flash slower than the disk?
 *
 * That is a question for all processes together and for single requests,
 * since neither a stream nor the kernel's page cache tells what the disk
 * takes.  Two means in shared memory answer it.  They are seldom written
 * while all is well: a request that is slower than the disk counts at once,
 * of the others one in SAMPLE, for as many.  (Which one is drawn by the
 * number of the process: many sessions are short.)
 *
 * Of flash many requests are remembered: where the disk answers in a fraction
 * of a millisecond, a single one that was held up for 30 ms would otherwise
 * pause a good cache.  A device that really is slow shows it soon all the
 * same, since then each request weighs as much as it takes.
 *
 * (FcTimes of cache_source.c is about something else: whether a run of pages
 * is worth leaving a stream for.)
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache.h"
#include "cache_internal.h"
#include "miscadmin.h"
#include "policy.h"
#include "settings.h"

#define SAMPLE 32
#define DISK_MEMORY 64			/* requests over which the means forget */
#define FLASH_MEMORY 1024

/* Writer only: the disk's mean when flash was last found slower than it. */
static uint32 disk_then = 0;

/* Adds one sample that stands for `weight`.  Of two at once one may be lost. */
static void
note(pg_atomic_uint32 *mean, uint64 ns, int weight, int memory)
{
	double		old = pg_atomic_read_u32(mean);
	double		sample = Min(ns, UINT64CONST(4000000000));

	if (old != 0)
		sample = old + (sample - old) * weight / memory;
	pg_atomic_write_u32(mean, (uint32) sample);
}

void
fc_pace_flash(uint64 ns)
{
	static uint32 requests = 0;
	uint32		disk = pg_atomic_read_u32(&fc_cache->pace_disk);

	if (unlikely(requests == 0))
		requests = (uint32) MyProcPid;
	if (unlikely(disk != 0 && fc_policy_slower(ns, disk)))
		note(&fc_cache->pace_flash, ns, 1, FLASH_MEMORY);
	else if (++requests % SAMPLE == 0)
		note(&fc_cache->pace_flash, ns, SAMPLE, FLASH_MEMORY);
}

void
fc_pace_disk(uint64 ns)
{
	/* each request: the disk is slow enough to carry that */
	if (ns < FC_PAGE_CACHE_NS)
		return;
	note(&fc_cache->pace_disk, ns, 1, DISK_MEMORY);
	if (unlikely(pg_atomic_read_u32(&fc_cache->pace_disk_samples) < DISK_MEMORY))
		pg_atomic_fetch_add_u32(&fc_cache->pace_disk_samples, 1);
}

void
fc_pace_found_slow(void)
{
	disk_then = pg_atomic_read_u32(&fc_cache->pace_disk);
}

bool
fc_cache_disk_slowed(void)
{
	/* twice: a mean wavers */
	return pg_atomic_read_u32(&fc_cache->pace_disk) / 2 > disk_then;
}

bool
fc_cache_slower_than_disk(char *reason, size_t len)
{
	uint32		flash = pg_atomic_read_u32(&fc_cache->pace_flash);
	uint32		disk = pg_atomic_read_u32(&fc_cache->pace_disk);

	if (!fc_setting_pause_when_slow || pg_atomic_read_u32(&fc_cache->pace_disk_samples) < DISK_MEMORY ||
		flash == 0 || !fc_policy_slower(flash, disk))
		return false;
	fc_pace_found_slow();
	snprintf(reason, len, "flash is slower than the disk: %.2f ms a read, the disk %.2f ms", flash / 1e6, disk / 1e6);
	return true;
}
