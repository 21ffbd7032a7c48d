/*-------------------------------------------------------------------------
 *
 * stats_latency.h
 *	  How long requests take: a histogram for each kind of process and each
 *	  kind of request.
 *
 * Counted is what is timed anyway, whatever track_io_timing says: no session
 * looks at the clock for this; the writer does, once for a write to flash.
 * From 18 on most reads from disk are not timed.
 * A request may be for several pages, and counts once.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATS_LATENCY_H
#define FC_STATS_LATENCY_H

#include "types.h"

typedef enum FcLatency
{
	FC_LATENCY_DISK_READ,
	FC_LATENCY_PAGE_CACHE_READ,
	FC_LATENCY_FLASH_READ,
	FC_LATENCY_FLASH_WRITE,
	FC_LATENCIES
} FcLatency;

typedef enum FcProcessKind
{
	FC_CLIENT_BACKEND,
	FC_PARALLEL_WORKER,
	FC_AUTOVACUUM_WORKER,
	FC_OTHER_PROCESS,
	FC_PROCESS_KINDS
} FcProcessKind;

/* Bucket 0 is below 1 us, bucket b from 2^(b-1) us on, the last one has no end: 4 s and more. */
#define FC_LATENCY_BUCKETS 24

extern FcPart fc_stats_latency_part(void);
extern void fc_stats_latency_shmem_init(void);

/* A request has ended. */
extern void fc_count_latency(FcLatency what, uint64 ns);

extern void fc_stats_latency_reset(void);

/* For views. */
extern uint64 fc_stats_latency(FcProcessKind who, FcLatency what, int bucket);

#endif							/* FC_STATS_LATENCY_H */
