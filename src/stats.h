/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counters.  Any room may count; only sql_functions.c reads.
 *
 * Each process adds to one of FC_STRIPES copies, chosen by its number, so
 * processes on the hit path seldom share a cache line.  Additions are atomic
 * and nothing is ever lost: a reset remembers the sums of that moment and
 * the views subtract them.  A sum is exact once the processes it counts are
 * idle; counters read while they run may be a few events apart.
 *
 * Times are kept in nanoseconds.  64 bits of them last 584 years.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATS_H
#define FC_STATS_H

#include "types.h"

#include "port/atomics.h"
#include "datatype/timestamp.h"
#include "storage/spin.h"

typedef enum FcCounter
{
	/* reads of the buffer manager */
	FC_HITS,
	FC_MISSES,
	FC_READ_BYTES,
	FC_READ_NS,
	FC_DISK_READS,
	FC_DISK_READ_NS,
	FC_OS_CACHE_HITS,
	FC_STREAM_READS,
	FC_PROBES,
	FC_PROBES_FOUND,
	FC_PREFETCHES,

	/* pages offered to the cache */
	FC_INSERTS,
	FC_SKIP_CORRUPT,
	FC_SKIP_EXISTS,
	FC_SKIP_MODIFICATION,
	FC_SKIP_NOT_CURRENT,
	FC_SKIP_NOT_USEFUL,
	FC_SKIP_OVERLOADED,
	FC_SKIP_PINNED,
	FC_SKIP_WRITE_LIMIT,

	/* pages that left it */
	FC_EVICT_AGED_OUT,
	FC_EVICT_INVALIDATED,

	/* the device */
	FC_WRITES,
	FC_WRITE_BYTES,
	FC_WRITE_NS,
	FC_READ_ERRORS,
	FC_WRITE_ERRORS,
	FC_CHECKSUM_FAILURES,
	FC_SLOTS_RETIRED,

	/* pg_flashcache.verify */
	FC_VERIFY_CHECKS,
	FC_VERIFY_FAILURES,

	FC_COUNTERS
} FcCounter;

#define FC_STRIPES 16

typedef struct FcStripe
{
	pg_atomic_uint64 counter[FC_COUNTERS];
	char		pad[PG_CACHE_LINE_SIZE - (FC_COUNTERS * sizeof(uint64)) % PG_CACHE_LINE_SIZE];
} FcStripe;

typedef struct FcStats
{
	FcStripe	stripe[FC_STRIPES];
	slock_t		lock;			/* protects what follows; leaf */
	TimestampTz reset_at;
	uint64		base[FC_COUNTERS];	/* sums at the last reset */
} FcStats;

extern FcStats *fc_stats;
extern int	fc_stats_my_stripe;

extern Size fc_stats_shmem_size(void);
extern void fc_stats_shmem_init(void);
extern void fc_stats_choose_stripe(void);

/* Sums since the last reset, and when that was. */
extern void fc_stats_read(uint64 *sums, TimestampTz *reset_at);

/* One sum since start, unaffected by resets. */
extern uint64 fc_stats_total(FcCounter counter);
extern void fc_stats_reset(void);

static inline void
fc_count_n(FcCounter counter, uint64 n)
{
	if (unlikely(fc_stats == NULL))
		return;
	if (unlikely(fc_stats_my_stripe < 0))
		fc_stats_choose_stripe();
	pg_atomic_fetch_add_u64(&fc_stats->stripe[fc_stats_my_stripe].counter[counter], n);
}

static inline void
fc_count(FcCounter counter)
{
	fc_count_n(counter, 1);
}

#endif							/* FC_STATS_H */
