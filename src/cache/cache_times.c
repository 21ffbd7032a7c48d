/*-------------------------------------------------------------------------
 *
 * cache_times.c
 *	  What a read takes, from disk and from flash; and what follows from it.
 *
 * For each kind of read (FcTime) there is a mean in shared memory.  A process
 * adds its own reads up and tells the sums every 5 ms: so shared memory is
 * seldom written, and a read that takes as long is passed on at once.  Of two
 * processes that tell at the same moment one may be lost.
 *
 * Three verdicts rest on the means: whether a run of pages on flash is worth
 * leaving the disk's stream for (policy.c), whether flash gains anything, and
 * whether it is slower than the disk and should rest.  The last one goes by
 * single requests that the disk has answered for sure: neither a stream nor
 * the kernel's page cache tells what the disk takes.  Of flash many requests
 * are remembered for it: where the disk answers in a fraction of a
 * millisecond, a single one that was held up for 30 ms would otherwise pause
 * a good cache.
 *
 * Verdicts must not feed on themselves.  While streams stay with the disk,
 * nobody reads flash in runs, so the writer measures that anew from time to
 * time (fc_cache_review_streams).  Streams taken from flash measure flash with
 * every page; what the disk would take meanwhile is believed to be what it
 * was.  A cache that is not filled since reads from disk are fast measures
 * the disk with every miss.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "miscadmin.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "stats/stats_relation.h"

/* A process tells its times not more often than that; older than a second they tell nothing. */
#define TELL_NS UINT64CONST(5000000)
#define OLD_NEWS_NS UINT64CONST(1000000000)

/*
 * What the disk takes is asked for so often in the whole server, where it is
 * not seen anyway: of a process that has no other read under way, and of one
 * that reads ahead.  The latter waits until all that it has asked for before
 * is there, and the disk has nothing to do when it goes on.
 */
#define TIME_DISK_NS UINT64CONST(250000000)
#define TIME_BUSY_NS UINT64CONST(2000000000)

/* Over so many reads a mean forgets. */
static const uint32 memory_of[FC_SHARED_TIMES] = {
	[FC_TIME_DISK_STREAM] = 64,
	[FC_TIME_DISK_SINGLE] = 64,
	[FC_TIME_DISK_SEEK] = 64,
	[FC_TIME_FLASH] = 64,
	[FC_TIME_FLASH_RUN] = 64,
	[FC_TIME_FLASH_REQUEST] = 1024,
};

/* What this process has not passed on yet. */
static struct
{
	uint64		ns;
	uint32		n;
}			sums[FC_SHARED_TIMES];

/* Writer only: the disk's mean when flash was last found slower than it. */
static uint32 disk_then = 0;

/* ---- the means ---- */

static uint32
mean_of(FcTime what)
{
	Assert(what < FC_SHARED_TIMES);
	return pg_atomic_read_u32(&fc_cache->times_ns[what]);
}

FcTimes
fc_times(void)
{
	FcTimes		times;

	times.disk_stream = mean_of(FC_TIME_DISK_STREAM);
	times.disk_single = mean_of(FC_TIME_DISK_SINGLE);
	times.flash = mean_of(FC_TIME_FLASH);
	times.flash_run = mean_of(FC_TIME_FLASH_RUN);
	return times;
}

uint32
fc_times_seek(void)
{
	return mean_of(FC_TIME_DISK_SEEK);
}

void
fc_times_measured(FcTime what, uint64 ns)
{
	Assert(ns > 0 && fc_directory_is_mine());
	pg_atomic_write_u32(&fc_cache->times_ns[what], (uint32) Min(ns, PG_UINT32_MAX));
}

static void
add(FcTime what, uint64 ns)
{
	Assert(what < FC_SHARED_TIMES);
	sums[what].ns += ns;
	sums[what].n++;
}

static void
tell(void)
{
	for (int i = 0; i < FC_SHARED_TIMES; i++)
	{
		pg_atomic_uint32 *mean = &fc_cache->times_ns[i];

		if (sums[i].n > 0)
			pg_atomic_write_u32(mean, fc_policy_mean(pg_atomic_read_u32(mean), sums[i].ns, sums[i].n, memory_of[i]));
	}
	if (unlikely(pg_atomic_read_u32(&fc_cache->seeks) < memory_of[FC_TIME_DISK_SEEK]))
		pg_atomic_fetch_add_u32(&fc_cache->seeks, sums[FC_TIME_DISK_SEEK].n);
	memset(sums, 0, sizeof(sums));
}

/* A read has ended: is it time to tell?  What is too old by then is forgotten. */
static bool
time_to_tell(uint64 begin, uint64 end)
{
	static uint64 told_at = 0;

	/*
	 * many sessions are short: chance decides which of their reads is passed
	 * on
	 */
	if (unlikely(told_at == 0))
		told_at = begin - (uint64) MyProcPid * 65537 % TELL_NS;
	if (likely(end - told_at < TELL_NS))
		return false;
	if (begin - told_at > OLD_NEWS_NS)
		memset(sums, 0, sizeof(sums));
	told_at = end;
	return true;
}

/* ---- reads ---- */

void
fc_times_flash_read(const FcRun *run, uint64 begin, uint64 end, int n, bool ahead)
{
	bool		now = time_to_tell(begin, end);

	Assert(begin <= end);
	Assert(run->from_flash && n > 0 && n <= run->n);
	if (run->n == 1 && !ahead)
		add(FC_TIME_FLASH, end - begin);
	else if (ahead || n >= FC_STREAM_LENGTH)
		add(FC_TIME_FLASH_RUN, (end - begin) / n);
	if (run->stream == NULL)
		add(FC_TIME_FLASH_REQUEST, end - begin);
	if (now)
		tell();
}

/* Were they left to the kernel, since it holds them? */
static bool
from_page_cache(const FcRun *run, int n)
{
	if (run == NULL || run->from_flash || n > run->n)
		return false;
	for (int i = 0; i < n; i++)
		if (run->why[i] != FC_LEFT_TO_PAGE_CACHE)
			return false;
	return true;
}

void
fc_cache_disk_read(const FcRun *run, FcRel rel, uint64 begin, int n)
{
	uint64		end = fc_now_ns();
	uint64		ns = end - begin;
	bool		now;

	Assert(n > 0 && begin <= end);
	fc_count_n(FC_DISK_READS, n);
	fc_count_n(FC_DISK_READ_NS, ns);
	fc_count_relation(rel, FC_REL_DISK_READS, n, ns);
	fc_count_latency(from_page_cache(run, n) ? FC_LATENCY_PAGE_CACHE_READ : FC_LATENCY_DISK_READ, ns);
	if (fc_cache == NULL)
		return;
	if (run != NULL)
		fc_bypass_disk_read(run, ns);

	/*
	 * the verdicts here are on flash and the disks that it stands in front
	 * of: a tablespace that is as fast as flash must not have flash rest
	 */
	if (run != NULL && run->why[0] == FC_BYPASSED)
		return;
	now = time_to_tell(begin, end);
	if (run != NULL && run->stream != NULL)
	{
		FcTimes		times = fc_times();

		add(FC_TIME_DISK_STREAM, ns / n);
		if (fc_policy_stream_tells_single(&times))
			add(FC_TIME_DISK_SINGLE, ns / n);
	}
	else
	{
		/* a request costs a seek, however many pages it has */
		add(FC_TIME_DISK_SINGLE, ns);
		if (ns >= FC_PAGE_CACHE_NS)
			add(FC_TIME_DISK_SEEK, ns);
	}
	if (now)
		tell();
}

void
fc_cache_disk_read_started(FcRel rel, int n)
{
	fc_count_n(FC_DISK_READS, n);
	fc_count_relation(rel, FC_REL_DISK_READS, n, 0);
}

bool
fc_cache_wants_disk_time(FcRun *run, bool others_under_way)
{
	uint64		now;
	uint64		last;

	if (fc_bypass_wants_time(run))
		return true;
	if (run->why[0] == FC_BYPASSED)
		return false;
	/* that of a stream matters only where flash could be read instead */
	if (run->stream != NULL && run->why[0] != FC_LEFT_TO_STREAM)
		return false;
	now = fc_now_ns();
	last = pg_atomic_read_u64(&fc_cache->disk_timed_at);
	return now - last >= (others_under_way ? TIME_BUSY_NS : TIME_DISK_NS) &&
		pg_atomic_compare_exchange_u64(&fc_cache->disk_timed_at, &last, now);
}

/* ---- verdicts ---- */

void
fc_cache_times(uint64 *flash_ns, uint64 *disk_ns)
{
	*flash_ns = mean_of(FC_TIME_FLASH);
	*disk_ns = mean_of(FC_TIME_DISK_SINGLE);
}

bool
fc_cache_worth_filling(void)
{
	FcTimes		times;

	if (fc_setting_os_cache_probe == FC_PROBE_OFF)
		return true;
	times = fc_times();
	return fc_policy_worth_filling(&times);
}

bool
fc_cache_slower_than_disk(FcReason *why)
{
	uint32		flash = mean_of(FC_TIME_FLASH_REQUEST);
	uint32		disk = mean_of(FC_TIME_DISK_SEEK);

	if (!fc_setting_pause_when_slow || pg_atomic_read_u32(&fc_cache->seeks) < memory_of[FC_TIME_DISK_SEEK] ||
		flash == 0 || !fc_policy_slower(flash, disk))
		return false;
	disk_then = disk;
	fc_fail(why, "See what else uses the flash device.",
			"flash is slower than the disk: %.2f ms a read, the disk %.2f ms", flash / 1e6, disk / 1e6);
	return true;
}

bool
fc_times_fast_again(uint64 ns)
{
	uint32		disk = mean_of(FC_TIME_DISK_SEEK);

	Assert(fc_directory_is_mine());
	if (ns == 0 || (fc_setting_pause_when_slow && !fc_policy_fast_again(ns, disk)))
	{
		disk_then = disk;
		return false;
	}
	fc_times_measured(FC_TIME_FLASH_REQUEST, ns);
	return true;
}

bool
fc_cache_disk_slowed(void)
{
	/* twice: a mean wavers */
	return mean_of(FC_TIME_DISK_SEEK) / 2 > disk_then;
}
