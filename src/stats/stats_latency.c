/*-------------------------------------------------------------------------
 *
 * stats_latency.c
 *	  See stats_latency.h.
 *
 * As the counters of stats.c: atomic additions to the stripe of the process.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "storage/shmem.h"

typedef pg_atomic_uint64 Histograms[FC_PROCESS_KINDS][FC_LATENCIES][FC_LATENCY_BUCKETS];

static Histograms * stripe = NULL;	/* FC_STRIPES of them */
static int	my_kind = -1;

FcPart
fc_stats_latency_part(void)
{
	return fc_part("pg_flashcache latency", CACHELINEALIGN(FC_STRIPES * sizeof(Histograms)));
}

void
fc_stats_latency_shmem_init(void)
{
	FcPart		part = fc_stats_latency_part();
	pg_atomic_uint64 *count;
	bool		found;

	stripe = ShmemInitStruct(part.name, part.size, &found);
	count = &stripe[0][0][0][0];
	for (int i = 0; i < FC_STRIPES * sizeof(Histograms) / sizeof(*count); i++)
		pg_atomic_init_u64(&count[i], 0);
}

static FcProcessKind
kind_of_process(void)
{
	if (MyBackendType == B_BACKEND)
		return FC_CLIENT_BACKEND;
	if (MyBackendType == B_AUTOVAC_WORKER)
		return FC_AUTOVACUUM_WORKER;
	return IsParallelWorker() ? FC_PARALLEL_WORKER : FC_OTHER_PROCESS;
}

void
fc_count_latency(FcLatency what, uint64 ns)
{
	uint64		us = ns / 1000;
	int			bucket = us == 0 ? 0 : Min(pg_leftmost_one_pos64(us) + 1, FC_LATENCY_BUCKETS - 1);

	if (unlikely(stripe == NULL))
		return;
	if (unlikely(my_kind < 0))
		my_kind = kind_of_process();
	if (unlikely(fc_stats_my_stripe < 0))
		fc_stats_choose_stripe();
	pg_atomic_fetch_add_u64(&stripe[fc_stats_my_stripe][my_kind][what][bucket], 1);
}

void
fc_stats_latency_reset(void)
{
	pg_atomic_uint64 *count;

	if (stripe == NULL)
		return;
	count = &stripe[0][0][0][0];
	for (int i = 0; i < FC_STRIPES * sizeof(Histograms) / sizeof(*count); i++)
		(void) pg_atomic_exchange_u64(&count[i], 0);
}

uint64
fc_stats_latency(FcProcessKind who, FcLatency what, int bucket)
{
	uint64		sum = 0;

	for (int s = 0; stripe != NULL && s < FC_STRIPES; s++)
		sum += pg_atomic_read_u64(&stripe[s][who][what][bucket]);
	return sum;
}
