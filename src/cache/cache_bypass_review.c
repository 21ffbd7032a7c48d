/*-------------------------------------------------------------------------
 *
 * cache_bypass_review.c
 *	  Tablespaces that are read without the cache: shared memory, what the
 *	  writer makes of samples, and what the view shows.
 *
 * Once a round the writer hands the samples of each tablespace to
 * policy_bypass.c, and tells the readers (cache_bypass.c) which way to go.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_bypass.h"
#include "cache/cache_internal.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "settings.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* How long a sample may take before another one is begun in its place. */
#define LOST_NS UINT64CONST(1000000000)

FcTablespaces *fc_bypass_shared = NULL;

FcPart
fc_bypass_part(void)
{
	return fc_part("pg_flashcache tablespaces", sizeof(FcTablespaces));
}

void
fc_bypass_shmem_init(void)
{
	FcPart		part = fc_bypass_part();
	bool		found;

	fc_bypass_shared = ShmemInitStruct(part.name, part.size, &found);
	memset(fc_bypass_shared, 0, part.size);
	for (int i = 0; i < FC_BYPASS_PLACES; i++)
	{
		FcTablespace *p = &fc_bypass_shared->of[i].place;

		pg_atomic_init_u32(&p->spc, InvalidOid);
		pg_atomic_init_u32(&p->way, FC_WAY_CACHED);
		pg_atomic_init_u32(&p->salt, 0);
		pg_atomic_init_u32(&p->wanted, 0);
		pg_atomic_init_u32(&p->window, 0);
		for (int j = 0; j < 2; j++)
		{
			pg_atomic_init_u32(&p->begun[j], 0);
			pg_atomic_init_u32(&p->n[j], 0);
		}
		pg_atomic_init_u32(&p->disk_now, 0);
		pg_atomic_init_u32(&p->disk_then, 0);
		pg_atomic_init_u64(&p->force_at, 0);
		SpinLockInit(&p->lock);
		for (int j = 0; j < FC_STRIPES; j++)
			pg_atomic_init_u64(&fc_bypass_shared->stripe[j].bypassed[i], 0);
	}
}

/* ---- the writer ---- */

static FcWay
way_by(const FcBypass *policy)
{
	switch (policy->state)
	{
		case FC_BYPASS_CACHED:
			return policy->wanted > 0 ? FC_WAY_WATCHED : FC_WAY_CACHED;
		case FC_BYPASS_HALF:
			return FC_WAY_HALF;
		case FC_BYPASS_MOST:
			return FC_WAY_MOST;
		case FC_BYPASS_BYPASSED:
			return FC_WAY_BYPASSED;
		case FC_BYPASS_BACK:
			return FC_WAY_BACK;
	}
	return FC_WAY_CACHED;
}

/* New samples, of another window. */
static void
clear(FcTablespace *p)
{
	memset(p->arm, 0, sizeof(p->arm));
	for (int i = 0; i < 2; i++)
	{
		pg_atomic_write_u32(&p->begun[i], 0);
		pg_atomic_write_u32(&p->n[i], 0);
	}
	pg_atomic_fetch_add_u32(&p->window, 1);
}

/* A disk that takes twice what it took when it was last compared is a reason not to wait any longer. */
static bool
has_slowed(FcTablespace *p, uint64 now, const FcBypassTimes *times)
{
	double		then = fc_arm_mean(&p->last[FC_ARM_DISK]);

	return p->policy.state == FC_BYPASS_BYPASSED && then > 0 && now + p->policy.pause >= p->policy.due + times->pause &&
		pg_atomic_read_u32(&p->disk_now) > 2 * then;
}

/* Samples that were begun and will never end (they failed, or were the page cache's after all) keep no others away for long. */
static void
forget_lost(FcTablespace *p, uint64 now)
{
	if (now - p->found_lost_at < LOST_NS)
		return;
	p->found_lost_at = now;
	for (int i = 0; i < 2; i++)
		pg_atomic_write_u32(&p->begun[i], pg_atomic_read_u32(&p->n[i]));
}

static void
review(FcTablespace *p, uint64 now, const FcBypassTimes *times)
{
	FcBypass   *policy = &p->policy;
	FcBypassState before = policy->state;
	uint64		windows = policy->windows;
	uint64		since = policy->since;
	bool		trial = fc_policy_on_trial(policy);
	bool		not_due = policy->wanted == 0 && fc_failpoint(FC_FP_BYPASS_DUE);
	TimestampTz time = GetCurrentTimestamp();
	FcArm		arm[2];

	SpinLockAcquire(&p->lock);
	memcpy(arm, p->arm, sizeof(arm));
	if (policy->wanted == 0 && has_slowed(p, now, times))
		policy->due = now;
	if (!not_due &&
		fc_policy_bypass(policy, &arm[FC_ARM_FLASH], &arm[FC_ARM_DISK], now, times))
	{
		if (policy->windows > windows)
			memcpy(p->last, arm, sizeof(arm));
		if (policy->since != since)
			p->since = time;
		if (fc_policy_on_trial(policy) && !trial)
			pg_atomic_write_u32(&p->salt, pg_prng_uint32(&pg_global_prng_state));
		if (policy->state == FC_BYPASS_BYPASSED && before != FC_BYPASS_BYPASSED)
		{
			uint32		then = (uint32) Min(fc_arm_mean(&p->last[FC_ARM_DISK]), (double) PG_UINT32_MAX);

			pg_atomic_write_u32(&p->disk_then, then);
			pg_atomic_write_u32(&p->disk_now, then);
		}
		clear(p);
		pg_atomic_write_u32(&p->way, way_by(policy));
	}
	forget_lost(p, now);
	pg_atomic_write_u32(&p->wanted, policy->wanted);
	SpinLockRelease(&p->lock);
}

/* Switched off: cached, and nothing known, when it is switched on again. */
static void
forget(FcTablespace *p)
{
	if (p->policy.since == 0)
		return;
	SpinLockAcquire(&p->lock);
	memset(&p->policy, 0, sizeof(p->policy));
	memset(p->last, 0, sizeof(p->last));
	p->since = 0;
	clear(p);
	pg_atomic_write_u32(&p->way, FC_WAY_CACHED);
	pg_atomic_write_u32(&p->wanted, 0);
	SpinLockRelease(&p->lock);
}

void
fc_cache_review_bypass(void)
{
	static FcBypassTimes times = {0};
	uint64		now = fc_now_ns();

	Assert(fc_directory_is_mine());
	if (times.samples == 0)
	{
		times.samples = fc_failpoint_number("FC_BYPASS_SAMPLES", FC_BYPASS_SAMPLES);
		times.pause = fc_failpoint_number("FC_BYPASS_PAUSE_MS", FC_BYPASS_FIRST_PAUSE_NS / 1000000) * UINT64CONST(1000000);
		times.trial = fc_failpoint_number("FC_BYPASS_TRIAL_MS", FC_BYPASS_LONGEST_TRIAL_NS / 1000000) * UINT64CONST(1000000);
	}
	for (int i = 0; i < FC_BYPASS_PLACES; i++)
	{
		FcTablespace *p = &fc_bypass_shared->of[i].place;

		if (pg_atomic_read_u32(&p->spc) == InvalidOid)
			continue;
		if (fc_setting_bypass == FC_BYPASS_MODE_OFF)
			forget(p);
		else
			review(p, now, &times);
	}
}

/* ---- views ---- */

bool
fc_cache_bypass_row(int i, FcBypassRow *row)
{
	FcTablespace *p;
	uint64		now = fc_now_ns();
	TimestampTz time = GetCurrentTimestamp();

	Assert(i >= 0 && i < FC_BYPASS_PLACES);
	if (fc_bypass_shared == NULL)
		return false;
	p = &fc_bypass_shared->of[i].place;
	row->spc = pg_atomic_read_u32(&p->spc);
	if (row->spc == InvalidOid)
		return false;
	SpinLockAcquire(&p->lock);
	row->on_trial = fc_policy_on_trial(&p->policy);
	row->bypassed = p->policy.state == FC_BYPASS_BYPASSED;
	row->since = p->since;
	row->disk_ns = fc_arm_mean(&p->last[FC_ARM_DISK]);
	row->flash_ns = fc_arm_mean(&p->last[FC_ARM_FLASH]);
	row->windows = p->policy.windows;
	row->bypasses = p->policy.bypasses;
	row->next = p->policy.wanted > 0 || p->policy.due <= now ? 0 : time + (int64) (p->policy.due - now) / 1000;
	SpinLockRelease(&p->lock);
	row->bypassed_reads = 0;
	for (int j = 0; j < FC_STRIPES; j++)
		row->bypassed_reads += pg_atomic_read_u64(&fc_bypass_shared->stripe[j].bypassed[i]);
	return true;
}
