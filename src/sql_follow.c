/*-------------------------------------------------------------------------
 *
 * sql_follow.c
 *	  What SQL sees of the follower: pg_flashcache_warmth, and
 *	  pg_flashcache_is_warm().
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "follow/follow.h"
#include "sql_row.h"

FC_EXPORT Datum fc_warmth(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_is_warm(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_warmth);
PG_FUNCTION_INFO_V1(fc_is_warm);

/* Pages of those heats. */
static uint64
sum(const uint64 *pages, int lowest)
{
	uint64		n = 0;

	for (int heat = lowest; heat < FC_MAP_HEATS; heat++)
		n += pages[heat];
	return n;
}

/* NULL before the first map. */
static void
add_known(Row *row, const FcFollowInfo *info, uint64 value)
{
	add(row, INT8OID, Int64GetDatum((int64) value), !info->known);
}

Datum
fc_warmth(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	FcFollowInfo info;
	bool		too_old;
	uint64		age;

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	fc_follow_info(&info);
	age = fc_follow_age(&info, &too_old);
	add_text(&row, fc_follow_state_name(info.state));
	add_text(&row, fc_follow_why(&info));
	add_time(&row, info.pulled_at);
	add(&row, FLOAT8OID, Float8GetDatum((double) age / 1e9), !info.known);
	add(&row, BOOLOID, BoolGetDatum(too_old), !info.known);
	for (int lowest = 0; lowest <= 1; lowest++)
	{
		add_known(&row, &info, sum(info.pages.named, lowest));
		add_known(&row, &info, sum(info.pages.here, lowest));
		add_ratio(&row, sum(info.pages.here, lowest), sum(info.pages.named, lowest));
	}
	add_known(&row, &info, info.missing.locked);
	add_known(&row, &info, info.missing.no_room);
	add_known(&row, &info, info.missing.database);
	add_known(&row, &info, info.missing.gone);
	add_known(&row, &info, info.missing.unreadable);
	add_int8(&row, info.rounds);
	add_int8(&row, info.loaded);
	return return_row(fcinfo, &row);
}

Datum
fc_is_warm(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {FLOAT8OID};
	FcFollowInfo info;
	bool		too_old;
	double		share;
	double		named;

	check_declared(fcinfo, BOOLOID, false, lengthof(args), args);
	share = PG_GETARG_FLOAT8(0);
	if (!(share >= 0 && share <= 1))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("share is out of range: %g", share),
				 errhint("It is a number from 0 to 1, such as 0.9.")));
	fc_follow_info(&info);
	(void) fc_follow_age(&info, &too_old);
	named = (double) sum(info.pages.named, 0);
	PG_RETURN_BOOL(info.state != FC_FOLLOW_OFF && fc_cache_in_use() && !too_old && named > 0 &&
				   sum(info.pages.here, 0) >= share * named);
}
