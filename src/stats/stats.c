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

#include "miscadmin.h"
#include "stats/stats.h"
#include "stats/stats_internal.h"
#include "stats/stats_latency.h"
#include "stats/stats_relation.h"
#include "stats/stats_statement.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

FcPart
fc_stats_part(void)
{
	return fc_part("pg_flashcache stats",
				   CACHELINEALIGN(add_size(offsetof(FcStats, cell), mul_size(MaxBackends, sizeof(FcWorkersCell)))));
}

void
fc_stats_shmem_init(void)
{
	FcPart		part = fc_stats_part();
	bool		found;

	fc_stats = ShmemInitStruct(part.name, part.size, &found);
	for (int s = 0; s < FC_STRIPES; s++)
		for (int c = 0; c < FC_COUNTERS; c++)
			pg_atomic_init_u64(&fc_stats->stripe[s].counter[c], FC_START_64);
	for (int c = 0; c < FC_COUNTERS; c++)
		fc_stats->base[c] = FC_STATS_START;
	SpinLockInit(&fc_stats->lock);
	fc_stats->reset_at = GetCurrentTimestamp();

	SpinLockInit(&fc_stats->workers_lock);
	fc_stats->ncells = MaxBackends;
	for (int i = 0; i < fc_stats->ncells; i++)
	{
		pg_atomic_init_u64(&fc_stats->cell[i].leader, 0);
		for (int c = 0; c < FC_SESSION_COUNTERS; c++)
			pg_atomic_init_u64(&fc_stats->cell[i].counter[c], 0);
	}
}

uint64
fc_stats_total(FcCounter counter)
{
	uint64		sum = 0;

	for (int s = 0; s < FC_STRIPES; s++)
		sum += pg_atomic_read_u64(&fc_stats->stripe[s].counter[counter]);
	return sum;
}

uint64
fc_stats_since(FcCounter counter, uint64 earlier)
{
	uint64		base;

	SpinLockAcquire(&fc_stats->lock);
	base = fc_stats->base[counter];
	SpinLockRelease(&fc_stats->lock);
	return fc_stats_total(counter) - ((int64) (base - earlier) > 0 ? base : earlier);
}

void
fc_stats_session(FcReads *reads)
{
	FcWorkersCell *cell = fc_stats != NULL && MyProc != NULL ? fc_stats_cell_of(MyProc) : NULL;

	fc_stats_process(reads);
	if (cell != NULL && pg_atomic_read_u64(&cell->leader) == (uint64) MyProcPid)
	{
		pg_read_barrier();		/* pairs with that of find_leader() */
		for (int c = 0; c < FC_SESSION_COUNTERS; c++)
			reads->counter[c] += pg_atomic_read_u64(&cell->counter[c]);
	}
}

void
fc_stats_read(uint64 *sums, TimestampTz *reset_at)
{
	const FcKept *kept = fc_stats_kept;
	FcKept		before = {0};
	uint64		base[FC_COUNTERS] = {0};

	*reset_at = 0;
	/* base first: sums only grow, so no difference is negative */
	if (fc_stats != NULL)
	{
		SpinLockAcquire(&fc_stats->lock);
		memcpy(base, fc_stats->base, sizeof(base));
		*reset_at = fc_stats->reset_at;
		if (kept != NULL)
			before = *kept;
		SpinLockRelease(&fc_stats->lock);
	}
	else if (kept != NULL)
		before = *kept;			/* without a cache nobody changes it */

	if (before.format != FC_KEPT_FORMAT)
		memset(&before, 0, sizeof(before));
	if (before.reset_at != 0)
		*reset_at = before.reset_at;
	for (int c = 0; c < FC_COUNTERS; c++)
		sums[c] = before.counter[c] + (fc_stats != NULL ? fc_stats_total(c) - base[c] : 0);
}

TimestampTz
fc_stats_reset_at(void)
{
	TimestampTz at = 0;

	if (fc_stats == NULL)
		return at;
	SpinLockAcquire(&fc_stats->lock);
	at = fc_stats->reset_at;
	SpinLockRelease(&fc_stats->lock);
	return at;
}

void
fc_stats_reset(void)
{
	TimestampTz now = GetCurrentTimestamp();
	FcKept	   *kept = fc_stats_kept;
	uint64		sums[FC_COUNTERS];

	fc_stats_relation_reset();
	fc_stats_statement_reset();
	fc_stats_latency_reset();
	if (fc_stats == NULL)
	{
		if (kept != NULL)
			memset(kept, 0, sizeof(*kept));
		return;
	}
	for (int c = 0; c < FC_COUNTERS; c++)
		sums[c] = fc_stats_total(c);

	/* of two resets at once the later sums win: a base never goes back */
	SpinLockAcquire(&fc_stats->lock);
	for (int c = 0; c < FC_COUNTERS; c++)
		if ((int64) (sums[c] - fc_stats->base[c]) > 0)
			fc_stats->base[c] = sums[c];
	fc_stats->reset_at = now;
	if (kept != NULL)
		memset(kept, 0, sizeof(*kept));
	SpinLockRelease(&fc_stats->lock);
}
