/*-------------------------------------------------------------------------
 *
 * stats_kind.c
 *	  The counters as a kind of cumulative statistics (18 and later): the
 *	  server writes them to its statistics file at a clean shutdown and reads
 *	  them back, and throws them away after a crash, as it does its own.
 *
 * The server keeps one FcKept for us in its shared memory.  It holds the sums
 * of earlier runs and does not change while the server runs, but for a reset;
 * this run is counted in FcStats, and a snapshot is the sum of both.  So
 * counting costs what it costs on other versions.
 *
 * The server gives up its whole statistics file when it holds a kind that
 * nobody registers any more.  Hence the kind is registered in every run that
 * loads the library, with a cache or without, and pg_flashcache.keep_stats
 * leaves it out of the file before the library is removed.
 *
 * Registration must not raise: start-up never fails for our sake.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "stats/stats.h"

#if PG_VERSION_NUM >= 180000

#include "utils/pgstat_internal.h"

/*
 * Of the numbers for extensions, 24 to 32.  24 is everybody's for experiments
 * and the next ones belong to the server's own tests.
 */
#define FC_STATS_KIND 31

/* In the postmaster, whose children inherit the pointer. */
static void
init_shmem(void *stats)
{
	fc_stats_kept = stats;
	memset(fc_stats_kept, 0, sizeof(FcKept));
}

static void
reset_all(TimestampTz ts)
{
	fc_stats_reset();
}

/* Also called by the process that writes the file, the last one running. */
static void
snapshot(void)
{
	FcKept	   *snap = pgstat_get_custom_snapshot_data(FC_STATS_KIND);

	memset(snap, 0, sizeof(*snap));
	snap->format = FC_KEPT_FORMAT;
	fc_stats_read(snap->counter, &snap->reset_at);
}

/* Not constant: write_to_file follows pg_flashcache.keep_stats. */
static PgStat_KindInfo kind_info = {
	.name = "pg_flashcache",
	.fixed_amount = true,
	.write_to_file = true,
	.shared_size = sizeof(FcKept),
	.shared_data_off = 0,
	.shared_data_len = sizeof(FcKept),
	.init_shmem_cb = init_shmem,
	.reset_all_cb = reset_all,
	.snapshot_cb = snapshot,
};

static bool registered = false;

void
fc_stats_register_kind(void)
{
	for (PgStat_Kind kind = PGSTAT_KIND_CUSTOM_MIN; kind <= PGSTAT_KIND_CUSTOM_MAX; kind++)
	{
		const PgStat_KindInfo *other = pgstat_get_kind_info(kind);

		if (other != NULL && (kind == FC_STATS_KIND || strcmp(other->name, kind_info.name) == 0))
		{
			ereport(WARNING,
					(errmsg("pg_flashcache does not keep its statistics over restarts"),
					 errdetail("\"%s\" has taken statistics kind %u.", other->name, kind)));
			return;
		}
	}
	pgstat_register_kind(FC_STATS_KIND, &kind_info);
	registered = true;
}

void
fc_stats_keep(bool keep)
{
	kind_info.write_to_file = keep;
}

bool
fc_stats_snapshot(uint64 *sums, TimestampTz *reset_at)
{
	const FcKept *snap;

	if (!registered || pgstat_fetch_consistency != PGSTAT_FETCH_CONSISTENCY_SNAPSHOT)
		return false;
	pgstat_snapshot_fixed(FC_STATS_KIND);
	snap = pgstat_get_custom_snapshot_data(FC_STATS_KIND);
	memcpy(sums, snap->counter, sizeof(uint64) * FC_COUNTERS);
	*reset_at = snap->reset_at;
	return true;
}

#else							/* before 18 nothing is kept */

void
fc_stats_register_kind(void)
{
}

void
fc_stats_keep(bool keep)
{
}

bool
fc_stats_snapshot(uint64 *sums, TimestampTz *reset_at)
{
	return false;
}

#endif
