/*-------------------------------------------------------------------------
 *
 * stats.c
 *	  See stats.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "stats.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

FcStats    *fc_stats = NULL;
int			fc_stats_my_stripe = -1;

Size
fc_stats_shmem_size(void)
{
	return CACHELINEALIGN(sizeof(FcStats));
}

void
fc_stats_shmem_init(void)
{
	bool		found;

	fc_stats = ShmemInitStruct("pg_flashcache stats", fc_stats_shmem_size(), &found);
	for (int s = 0; s < FC_STRIPES; s++)
		for (int c = 0; c < FC_COUNTERS; c++)
			pg_atomic_init_u64(&fc_stats->stripe[s].counter[c], 0);
	memset(fc_stats->base, 0, sizeof(fc_stats->base));
	SpinLockInit(&fc_stats->lock);
	fc_stats->reset_at = GetCurrentTimestamp();
}

void
fc_stats_choose_stripe(void)
{
	if (MyProc != NULL)
		fc_stats_my_stripe = FC_MY_PROC_NUMBER % FC_STRIPES;
	else
		fc_stats_my_stripe = 0;
}

uint64
fc_stats_total(FcCounter counter)
{
	uint64		sum = 0;

	for (int s = 0; s < FC_STRIPES; s++)
		sum += pg_atomic_read_u64(&fc_stats->stripe[s].counter[counter]);
	return sum;
}

void
fc_stats_read(uint64 *sums, TimestampTz *reset_at)
{
	uint64		base[FC_COUNTERS];

	/* base first: sums only grow, so no difference is negative */
	SpinLockAcquire(&fc_stats->lock);
	memcpy(base, fc_stats->base, sizeof(base));
	*reset_at = fc_stats->reset_at;
	SpinLockRelease(&fc_stats->lock);

	for (int c = 0; c < FC_COUNTERS; c++)
		sums[c] = fc_stats_total(c) - base[c];
}

void
fc_stats_reset(void)
{
	TimestampTz now = GetCurrentTimestamp();
	uint64		sums[FC_COUNTERS];

	for (int c = 0; c < FC_COUNTERS; c++)
		sums[c] = fc_stats_total(c);

	/* of two resets at once the later sums win: a base never goes back */
	SpinLockAcquire(&fc_stats->lock);
	for (int c = 0; c < FC_COUNTERS; c++)
		fc_stats->base[c] = Max(fc_stats->base[c], sums[c]);
	fc_stats->reset_at = now;
	SpinLockRelease(&fc_stats->lock);
}
