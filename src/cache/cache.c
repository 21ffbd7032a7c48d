/*-------------------------------------------------------------------------
 *
 * cache.c
 *	  The state of the cache, and its shared memory.
 *
 * Step O1 is that of src/protocol.md.  Whoever gives the device up enters *off*;
 * all other changes are the writer's.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "handoff_hints.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "stats/stats_relation.h"
#include "stats/stats_statement.h"
#include "storage/shmem.h"
#include "store/store.h"
#include "utils/timestamp.h"

FcCacheShared *fc_cache = NULL;

/* State and reason of a server that has no shared memory of ours. */
static FcState startup_state = FC_STATE_DETACHED;
static FcReason startup_why = {"pg_flashcache is not in shared_preload_libraries"};

static FcPart
own_part(void)
{
	return fc_part("pg_flashcache", sizeof(FcCacheShared));
}

int
fc_cache_parts(uint32 slots, bool keep, FcPart *parts)
{
	const FcPart part[FC_CACHE_PARTS] = {
		own_part(), fc_stats_part(), fc_stats_relation_part(), fc_stats_statement_part(), fc_stats_latency_part(),
		fc_failpoint_part(), fc_store_part(), fc_store_map_part(), fc_handoff_part(slots), fc_hints_part(), fc_bypass_part(),
		fc_directory_part(slots, keep)
	};
	int			n = 0;

	for (int i = 0; i < FC_CACHE_PARTS; i++)
	{
		if (part[i].name == NULL)
			continue;
		*parts++ = part[i];
		n++;
	}
	return n;
}

void
fc_cache_shmem_init(uint32 slots, uint32 first, bool keep, Size memory, int tranche)
{
	FcPart		part = own_part();
	bool		found;

	fc_cache = ShmemInitStruct(part.name, part.size, &found);
	memset(fc_cache, 0, sizeof(*fc_cache));
	pg_atomic_init_u32(&fc_cache->state, FC_STATE_STARTING);
	pg_atomic_init_u32(&fc_cache->filling_stopped, 0);
	pg_atomic_init_u32(&fc_cache->probe_interval, 1);
	pg_atomic_init_u64(&fc_cache->disk_timed_at, 0);
	for (int i = 0; i < FC_SHARED_TIMES; i++)
		pg_atomic_init_u32(&fc_cache->times_ns[i], 0);
	pg_atomic_init_u32(&fc_cache->verify_logged, 0);
	pg_atomic_init_u32(&fc_cache->distrusted, 0);
	pg_atomic_init_u32(&fc_cache->seeks, 0);
	pg_atomic_init_u32(&fc_cache->extents, 0);
	pg_atomic_init_u32(&fc_cache->extents_state, FC_EXTENTS_NOT_IN_USE);
	pg_atomic_init_u64(&fc_cache->asked_inserts, 0);
	pg_atomic_init_u64(&fc_cache->asked_hits, 0);
	fc_cache->since = GetCurrentTimestamp();
	SpinLockInit(&fc_cache->lock);
	fc_cache->memory = memory;

	fc_stats_shmem_init();
	fc_stats_relation_shmem_init();
	fc_stats_statement_shmem_init();
	fc_stats_latency_shmem_init();
	fc_failpoint_shmem_init();
	fc_store_shmem_init(slots, first);
	fc_handoff_shmem_init(slots);
	fc_hints_shmem_init();
	fc_bypass_shmem_init();
	fc_directory_shmem_init(slots, keep, tranche);
	for (uint32 chunk = 0; chunk < fc_chunks(slots); chunk++)
	{
		uint64		begin = (uint64) chunk << fc_chunk_shift(slots);
		uint32		n = (uint32) Min(fc_chunk_slots(slots, chunk), first - Min(begin, first));

		fc_directory_set_chunk(chunk, n, n, true);
	}
}

Size
fc_cache_memory(void)
{
	return fc_cache ? fc_cache->memory : 0;
}

/* ---- state ---- */

void
fc_cache_stay_out(FcState state, const FcReason *why)
{
	startup_state = state;
	startup_why = *why;
}

FcState
fc_cache_state(void)
{
	if (unlikely(fc_cache == NULL))
		return startup_state;
	return (FcState) pg_atomic_read_u32(&fc_cache->state);
}

bool
fc_cache_in_use(void)
{
	return fc_setting_enabled && fc_cache_state() == FC_STATE_ACTIVE;
}

bool
fc_cache_takes_part(void)
{
	FcState		state = fc_cache_state();

	/* paused: the disk's time tells when to come back */
	if (likely(fc_setting_enabled && (state == FC_STATE_ACTIVE || state == FC_STATE_PAUSED)))
		return true;
	fc_store_close_all(fc_setting_io_timeout);
	return false;
}

const char *
fc_state_name(FcState state)
{
	switch (state)
	{
		case FC_STATE_DETACHED:
			return "detached";
		case FC_STATE_DISABLED:
			return "disabled";
		case FC_STATE_STARTING:
			return "starting";
		case FC_STATE_ACTIVE:
			return "active";
		case FC_STATE_PAUSED:
			return "paused";
		case FC_STATE_OFF:
			return "off";
	}
	return "unknown";
}

TimestampTz
fc_cache_reason(FcReason *why)
{
	TimestampTz since;

	if (fc_cache == NULL)
	{
		*why = startup_why;
		return 0;
	}
	SpinLockAcquire(&fc_cache->lock);
	*why = fc_cache->why;
	since = fc_cache->since;
	SpinLockRelease(&fc_cache->lock);
	return since;
}

#define FROM(state) (1u << (state))
#define FROM_ANY PG_UINT32_MAX

/*
 * Changes the state if it is one of `from`: others may have changed it since
 * the caller looked.  Not for trouble with a device that was opened anew
 * meanwhile: that is counted (O3) before the cache is active on it (O4), which
 * takes the same lock.
 */
static bool
change_state(FcState state, uint32 from, const FcReason *why)
{
	static const FcReason none = {""};
	TimestampTz now = GetCurrentTimestamp();
	bool		changed;
	FcState		old;

	Assert(why != NULL || state == FC_STATE_ACTIVE);
	Assert(state == FC_STATE_OFF || fc_directory_is_mine());
	Assert(!fc_directory_locked());
	SpinLockAcquire(&fc_cache->lock);
	old = fc_cache_state();
	changed = (from & FROM(old)) != 0 &&
		(state != FC_STATE_ACTIVE || pg_atomic_read_u32(&fc_cache->distrusted) == 0) &&
		(why != fc_store_trouble() || !fc_store_trouble_is_over());
	if (changed)
	{
		pg_atomic_write_u32(&fc_cache->state, state);
		fc_cache->why = why != NULL ? *why : none;
		fc_cache->warn = state == FC_STATE_OFF || state == FC_STATE_PAUSED || state == FC_STATE_DETACHED;
		fc_cache->since = now;
	}
	SpinLockRelease(&fc_cache->lock);
	if (!changed)
		return false;
	if (old == FC_STATE_ACTIVE && (state == FC_STATE_OFF || state == FC_STATE_PAUSED))
		fc_count(FC_SWITCH_OFFS);
	fc_handoff_wake();
	return true;
}

bool
fc_cache_set_state(FcState state, const FcReason *why)
{
	uint32		from = FROM_ANY;

	if (state == FC_STATE_OFF)
		from = FROM(FC_STATE_ACTIVE) | FROM(FC_STATE_STARTING) | FROM(FC_STATE_PAUSED);
	else if (state == FC_STATE_PAUSED)
		from = FROM(FC_STATE_ACTIVE);
	return change_state(state, from, why);
}

bool
fc_cache_resume(void)
{
	return change_state(FC_STATE_ACTIVE, FROM(FC_STATE_PAUSED), NULL);
}

void
fc_cache_set_reason(const FcReason *why)
{
	Assert(fc_directory_is_mine());
	SpinLockAcquire(&fc_cache->lock);
	fc_cache->why = *why;
	SpinLockRelease(&fc_cache->lock);
}

void
fc_cache_off_and_forget(const FcReason *why)
{
	/*
	 * in this order: the cache is not on after that before its pages are
	 * forgotten, even if it is off already
	 */
	pg_atomic_fetch_add_u32(&fc_cache->distrusted, 1);
	fc_cache_set_state(FC_STATE_OFF, why);	/* O1 */
}

void
fc_cache_device_broken(void)
{
	Assert(fc_store_trouble()->message[0] != '\0');
	if (fc_store_others(FC_THE_DEVICE) && fc_cache_state() == FC_STATE_ACTIVE)
		fc_store_first_is_off();	/* the others go on */
	else
		fc_cache_set_state(FC_STATE_OFF, fc_store_trouble());	/* O1 */
}

bool
fc_cache_take_warning(FcReason *why)
{
	bool		warn;

	Assert(fc_directory_is_mine());
	SpinLockAcquire(&fc_cache->lock);
	warn = fc_cache->warn;
	fc_cache->warn = false;
	*why = fc_cache->why;
	SpinLockRelease(&fc_cache->lock);
	return warn;
}

void
fc_cache_stop_filling(void)
{
	pg_atomic_write_u32(&fc_cache->filling_stopped, 1);
}

bool
fc_cache_filling_stopped(void)
{
	return fc_cache == NULL || pg_atomic_read_u32(&fc_cache->filling_stopped) != 0;
}

/* ---- what the writer may do ---- */

static FcBudget budget;

bool
fc_cache_may_write(void)
{
	Assert(fc_directory_is_mine());
	return fc_policy_spend(&budget, fc_setting_write_limit, fc_now_ns(), BLCKSZ);
}

bool
fc_cache_may_write_spare(void)
{
	Assert(fc_directory_is_mine());
	return fc_policy_spend_spare(&budget, fc_setting_write_limit, fc_now_ns(), BLCKSZ);
}

void
fc_cache_share_budget(bool shared)
{
	Assert(fc_directory_is_mine());
	fc_policy_share(&budget, shared);
}

bool
fc_cache_may_erase(void)
{
	Assert(fc_directory_is_mine());
	return fc_policy_spend_own(&budget, fc_setting_write_limit, fc_now_ns(), BLCKSZ);
}
