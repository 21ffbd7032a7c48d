/*-------------------------------------------------------------------------
 *
 * sql_commands.c
 *	  The commands: enabling the cache, resetting its counters, erasing slots.
 *
 * They ask the writer and wait for it, and say what keeps it from doing so.
 * Privileges are granted in the extension script.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "settings.h"
#include "sql_row.h"
#include "stats/stats.h"
#include "store/store.h"
#include "writer/writer.h"

FC_EXPORT Datum fc_enable(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_reset_stats(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_scrub(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_enable);
PG_FUNCTION_INFO_V1(fc_reset_stats);
PG_FUNCTION_INFO_V1(fc_scrub);

static void
no_writer(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the pg_flashcache writer is not running"),
			 errhint("See the server log; it is started again by itself.")));
}

Datum
fc_enable(PG_FUNCTION_ARGS)
{
	FcReason	why;
	FcReason	hangs;
	FcState		state = fc_cache_state();

	check_declared(fcinfo, BOOLOID, false, 0, NULL);
	fc_cache_reason(&why);
	if (state == FC_STATE_DETACHED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_flashcache is detached: %s", why.message),
				 errhint("This can only change with a restart of the server.")));

	/*
	 * switched on, and the writer has not come to it yet: it does before it
	 * answers
	 */
	if (state == FC_STATE_DISABLED && (fc_cache == NULL || !fc_setting_enabled))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_flashcache is disabled: %s", why.message),
				 errhint("%s", fc_cache ? "Set pg_flashcache.enabled to on and reload the configuration." :
						 why.hint[0] ? why.hint : "Set pg_flashcache.file and pg_flashcache.size and restart the server.")));
	if (!fc_writer_enable())
		no_writer();
	fc_cache_reason(&why);
	if (fc_cache_state() != FC_STATE_ACTIVE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_flashcache could not be enabled: %s", why.message),
				 fc_setting_io_timeout == 0 && fc_writer_hanging_device(&hangs) ? errdetail("%s.", hangs.message) : 0,
				 why.hint[0] ? errhint("%s", why.hint) : 0));
	if (fc_store_state(FC_THE_DEVICE) == FC_DEVICE_OFF)
	{
		(void) fc_store_reason(FC_THE_DEVICE, &why);
		ereport(WARNING,
				(errmsg("pg_flashcache goes on without its first device: %s", why.message),
				 why.hint[0] ? errhint("%s", why.hint) : 0));
	}
	PG_RETURN_BOOL(true);
}

Datum
fc_reset_stats(PG_FUNCTION_ARGS)
{
	check_declared(fcinfo, VOIDOID, false, 0, NULL);
	fc_stats_reset();
	PG_RETURN_VOID();
}

/* Is the device open, and the writer there to erase it? */
static void
check_scrub_possible(void)
{
	FcState		state = fc_cache_state();
	FcReason	why;

	if (state == FC_STATE_ACTIVE || (state == FC_STATE_DISABLED && fc_cache != NULL))
		return;
	fc_cache_reason(&why);
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the flash cache cannot be erased while it is %s%s%s", fc_state_name(state),
					why.message[0] ? ": " : "", why.message),
			 errhint(state == FC_STATE_STARTING ? "Try again in a moment." :
					 state == FC_STATE_OFF ? "Call pg_flashcache_enable() first." :
					 state == FC_STATE_PAUSED ? "Set pg_flashcache.pause_when_slow to off, or wait until it continues." :
					 "The server does not have the file open, so it cannot erase it.")));
}

Datum
fc_scrub(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {BOOLOID};
	Row			row = {0};
	FcScrubResult result;
	FcScrub		how;

	check_declared(fcinfo, RECORDOID, false, lengthof(args), args);
	check_scrub_possible();
	how = fc_writer_scrub(PG_GETARG_BOOL(0), &result);
	if (how == FC_SCRUB_UNDER_WAY)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the flash cache is already being erased"),
				 errhint("Wait for the other session, or cancel it.")));
	if (how == FC_SCRUB_NO_WRITER)
	{
		const char *wait_event;

		if (fc_writer_pid(&wait_event) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("the pg_flashcache writer has just begun, and is looking at the devices"),
					 errhint("Try again in a moment.")));
		no_writer();
	}
	check_scrub_possible();
	if (result.why.message[0] != '\0')
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the flash cache could not be erased: %s", result.why.message),
				 errhint("%s", result.why.hint)));
	if (how == FC_SCRUB_FAILED || result.failed > 0)
		ereport(ERROR,
				(errcode(ERRCODE_IO_ERROR),
				 errmsg("the flash cache could not be erased"),
				 errdetail("%llu slots were erased, %llu could not be written.",
						   (unsigned long long) result.erased, (unsigned long long) result.failed),
				 errhint("Check the device, and call pg_flashcache_scrub() again.")));
	add_int8(&row, result.erased);
	add_int8(&row, result.erased * BLCKSZ);
	return return_row(fcinfo, &row);
}
