/*-------------------------------------------------------------------------
 *
 * sql_extents.c
 *	  What SQL sees of filling by extents: pg_stat_flashcache_extents.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "sql_row.h"
#include "stats/stats.h"

FC_EXPORT Datum fc_extents(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_extents);

Datum
fc_extents(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	uint64		c[FC_COUNTERS] = {0};
	TimestampTz reset_at = 0;
	uint32		interval;

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	if (!fc_stats_snapshot(c, &reset_at))
		fc_stats_read(c, &reset_at);
	add_text(&row, fc_cache_extents_state(&interval));
	add(&row, INT4OID, Int32GetDatum((int32) interval), interval == 0);
	add_int8(&row, c[FC_EXTENT_READS]);
	add_int8(&row, c[FC_EXTENT_INSERTS]);
	add_int8(&row, c[FC_EXTENT_HITS]);
	add_int8(&row, fc_directory_unproven());
	add_time(&row, reset_at);
	return return_row(fcinfo, &row);
}
