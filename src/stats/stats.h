/*-------------------------------------------------------------------------
 *
 * stats.h
 *	  Counters.  Any module may count; sql_functions.c, explain.c and stats_kind.c read.
 *
 * Each process adds to one of FC_STRIPES copies, chosen by its number, so
 * processes on the hit path seldom share a cache line.  Additions are atomic
 * and nothing is ever lost: a reset remembers the sums of that moment and
 * the views subtract them.  A sum is exact once the processes it counts are
 * idle; counters read while they run may be a few events apart.
 *
 * Beside these, each process counts for itself, in plain memory: that is what
 * a session sees of its own reads.  What parallel workers read is added to a
 * cell of their leader in shared memory as it happens, so that a statement's
 * numbers are complete when it is.
 *
 * From 18 on the sums of earlier runs are kept by the server's cumulative
 * statistics (stats_kind.c) and added to those of this run.
 *
 * Times are kept in nanoseconds.  64 bits of them last 584 years of waiting:
 * with a thousand processes that do nothing else, seven months.  Then a sum
 * wraps around; only differences are ever used, so the next reset sets it right.
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
	/* reads of the buffer manager; sessions see the first ones */
	FC_HITS,
	FC_MISSES,
	FC_READ_NS,
	FC_DISK_READS,
	FC_DISK_READ_NS,
	FC_OS_CACHE_HITS,
	FC_STREAM_READS,
#define FC_SESSION_COUNTERS (FC_STREAM_READS + 1)
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

	/* the device again: a counter keeps its number for good */
	FC_TIMEOUTS,
	FC_SWITCH_OFFS,
	FC_PROBED,
	/* pg_flashcache_scrub() */
	FC_SLOTS_ERASED,
	/* the device once more */
	FC_READS_UNBOUNDED,
	/* relations invalidated for which there was no place (directory_epochs.c) */
	FC_EPOCHS_CROWDED,
	/* entries that survive an end of the server (warm/) */
	FC_LOG_BYTES,
	FC_RESTORED_WRONG,
	/* filling by extents (cache_extents.c) */
	FC_EXTENT_READS,
	FC_EXTENT_INSERTS,
	FC_EXTENT_HITS,
	/* policies of files (rules/) */
	FC_SKIP_POLICY,
	FC_EVICT_POLICY,
	FC_KEPT_PASSED,
	/* tablespaces that are as fast as flash (cache_bypass.c) */
	FC_BYPASSED_READS,

	FC_COUNTERS
} FcCounter;

#define FC_STRIPES 16

/* What a sum over all stripes begins with. */
#define FC_STATS_START (FC_START_64 * FC_STRIPES)

typedef struct FcStripe
{
	pg_atomic_uint64 counter[FC_COUNTERS];	/* added to; no order needed */
	char		pad[PG_CACHE_LINE_SIZE - (FC_COUNTERS * sizeof(uint64)) % PG_CACHE_LINE_SIZE];
} FcStripe;

/*
 * Sums of earlier runs, as they stand in the server's statistics file: a
 * longer or shorter struct there would cost the server all of its statistics
 * at the next start, so this one never changes its size.
 */
#define FC_KEPT_COUNTERS 62
#define FC_KEPT_FORMAT 2		/* to be raised when a counter changes its
								 * number */

typedef struct FcKept
{
	uint64		format;			/* FC_KEPT_FORMAT, or nothing is kept */
	TimestampTz reset_at;		/* when these began to count */
	uint64		counter[FC_KEPT_COUNTERS];
} FcKept;

StaticAssertDecl(FC_COUNTERS <= FC_KEPT_COUNTERS, "not all counters can be kept");
StaticAssertDecl(sizeof(FcKept) == 512, "the kept counters must not change their size");

/* What the parallel workers of one process have read. */
typedef struct FcWorkersCell
{
	pg_atomic_uint64 leader;	/* its process ID, written after the counters
								 * were cleared for it */
	pg_atomic_uint64 counter[FC_SESSION_COUNTERS];
} FcWorkersCell;

typedef struct FcStats
{
	FcStripe	stripe[FC_STRIPES];
	slock_t		lock;			/* protects what follows, and what is kept;
								 * leaf */
	TimestampTz reset_at;
	uint64		base[FC_COUNTERS];	/* sums at the last reset */
	slock_t		workers_lock;	/* changes of a cell's leader; leaf */
	int			ncells;
	FcWorkersCell cell[FLEXIBLE_ARRAY_MEMBER];	/* by number of the leader */
} FcStats;

extern FcStats *fc_stats;
extern int	fc_stats_my_stripe;

/* This process's own counters since it began, and where its leader's are. */
extern uint64 fc_stats_mine[FC_COUNTERS];
extern FcWorkersCell *fc_stats_leader;	/* NULL but in parallel workers */

extern FcPart fc_stats_part(void);
extern void fc_stats_shmem_init(void);
extern void fc_stats_choose_stripe(void);

/*
 * Sums since the last reset, and when that was; 0 if nothing has ever been
 * counted.  Works without a cache, too.
 */
extern void fc_stats_read(uint64 *sums, TimestampTz *reset_at);

/* What this process and its parallel workers have read since it began. */
typedef struct FcReads
{
	uint64		counter[FC_SESSION_COUNTERS];
} FcReads;

extern void fc_stats_session(FcReads *reads);

/* The same without the workers. */
static inline void
fc_stats_process(FcReads *reads)
{
	memcpy(reads->counter, fc_stats_mine, sizeof(reads->counter));
}

/* One sum since start, unaffected by resets. */
extern uint64 fc_stats_total(FcCounter counter);

/* Counters, those of relations and statements, and histograms. */
extern void fc_stats_reset(void);

/* When this run began to count, or the last reset in it; 0 without a cache.  What is not kept over a restart counts from there. */
extern TimestampTz fc_stats_reset_at(void);

/* By how much a sum has grown since it was `earlier`, or since the last reset if that is later. */
extern uint64 fc_stats_since(FcCounter counter, uint64 earlier);

/* What was kept, in shared memory; NULL if the server can't (before 18). */
extern FcKept *fc_stats_kept;

/* ---- stats_kind.c ---- */

/* Tells the server, while it loads its libraries, what is to be kept. */
extern void fc_stats_register_kind(void);

/* Whether it is to be kept at the next shutdown. */
extern void fc_stats_keep(bool keep);

/*
 * Does the session want all statistics from one moment, and have they been
 * taken?  Then what fc_stats_read() gave at that moment.
 */
extern bool fc_stats_snapshot(uint64 *sums, TimestampTz *reset_at);

static inline void
fc_count_n(FcCounter counter, uint64 n)
{
	if (unlikely(fc_stats == NULL))
		return;
	if (unlikely(fc_stats_my_stripe < 0))
		fc_stats_choose_stripe();
	pg_atomic_fetch_add_u64(&fc_stats->stripe[fc_stats_my_stripe].counter[counter], n);
	fc_stats_mine[counter] += n;
	if (unlikely(fc_stats_leader != NULL) && counter < FC_SESSION_COUNTERS)
		pg_atomic_fetch_add_u64(&fc_stats_leader->counter[counter], n);
}

static inline void
fc_count(FcCounter counter)
{
	fc_count_n(counter, 1);
}

#endif							/* FC_STATS_H */
