/*-------------------------------------------------------------------------
 *
 * writer_verdict.c
 *	  Of what use the cache was in the last ten minutes.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "directory/directory.h"
#include "policy.h"
#include "stats/stats.h"
#include "storage/proc.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

/* How long one sample stands. */
#define SAMPLE_NS UINT64CONST(60000000000)

static const FcCounter sampled[] = {
	FC_HITS, FC_MISSES, FC_OS_CACHE_HITS, FC_DISK_READS, FC_BYPASSED_READS,
	/* and what becomes of a page that is offered */
	FC_INSERTS, FC_SKIP_CORRUPT, FC_SKIP_EXISTS, FC_SKIP_MODIFICATION, FC_SKIP_NOT_CURRENT,
	FC_SKIP_NOT_USEFUL, FC_SKIP_OVERLOADED, FC_SKIP_PINNED, FC_SKIP_WRITE_LIMIT, FC_SKIP_POLICY,
};
#define FIRST_OFFERED 5			/* in sampled[] */

StaticAssertDecl(lengthof(sampled) == FC_WRITER_SAMPLED, "room for each counter");

void
fc_writer_verdict_shmem_init(void)
{
	for (int i = 0; i < FC_WRITER_SAMPLES; i++)
		for (int j = 0; j < lengthof(sampled); j++)
			pg_atomic_init_u64(&fc_writer_shared->sample[i][j], FC_STATS_START);
	pg_atomic_init_u32(&fc_writer_shared->next_sample, 0);
}

void
fc_writer_take_sample(void)
{
	static uint64 taken_at = 0;
	uint32		next = pg_atomic_read_u32(&fc_writer_shared->next_sample);
	uint64		now = fc_now_ns();

	if (taken_at == 0)
		taken_at = now;
	if (now - taken_at < SAMPLE_NS)
		return;
	taken_at = now;
	Assert(next < FC_WRITER_SAMPLES);
	for (int j = 0; j < lengthof(sampled); j++)
		pg_atomic_write_u64(&fc_writer_shared->sample[next][j], fc_stats_total(sampled[j]));
	pg_atomic_write_u32(&fc_writer_shared->next_sample, (next + 1) % FC_WRITER_SAMPLES);
}

/* The oldest sample may be exchanged for a new one meanwhile: then it is a shorter while that is judged. */
const char *
fc_writer_verdict(void)
{
	uint32		oldest;
	uint64		moved[lengthof(sampled)];
	FcRecent	recent;

	if (fc_writer_shared == NULL || fc_cache_state() != FC_STATE_ACTIVE)
		return NULL;
	oldest = pg_atomic_read_u32(&fc_writer_shared->next_sample);
	Assert(oldest < FC_WRITER_SAMPLES);
	for (int j = 0; j < lengthof(sampled); j++)
		moved[j] = fc_stats_since(sampled[j], pg_atomic_read_u64(&fc_writer_shared->sample[oldest][j]));
	recent.writer = fc_writer_shared->proc != NULL;
	recent.used = fc_directory_used();
	recent.slots = fc_directory_capacity();
	recent.hits = moved[0];
	recent.misses = moved[1];
	recent.os_cache_hits = moved[2];
	recent.disk_reads = moved[3];
	recent.bypassed = moved[4];
	recent.offered = 0;
	for (int j = FIRST_OFFERED; j < lengthof(sampled); j++)
		recent.offered += moved[j];
	fc_cache_times(&recent.flash_ns, &recent.disk_ns);
	return fc_policy_verdict(&recent);
}
