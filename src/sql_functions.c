/*-------------------------------------------------------------------------
 *
 * sql_functions.c
 *	  What SQL sees: the functions behind the views, and the two commands.
 *
 * Privileges are granted in the extension script.  docs/views.md describes
 * the columns for users.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/htup_details.h"
#include "attach/attach.h"
#include "cache.h"
#include "compat.h"
#include "directory.h"
#include "failpoint.h"
#include "fmgr.h"
#include "funcapi.h"
#include "miscadmin.h"
#include "settings.h"
#include "stats.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "writer.h"

#define STAT_COLUMNS 47
#define PAGES_COLUMNS 6
#define ENABLE_TIMEOUT_S 60

FC_EXPORT Datum fc_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_session_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_pages(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_enable(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_reset_stats(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_scrub(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_failpoint_set(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_failpoint_wait(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_stat);
PG_FUNCTION_INFO_V1(fc_session_stat);
PG_FUNCTION_INFO_V1(fc_pages);
PG_FUNCTION_INFO_V1(fc_enable);
PG_FUNCTION_INFO_V1(fc_reset_stats);
PG_FUNCTION_INFO_V1(fc_scrub);
PG_FUNCTION_INFO_V1(fc_failpoint_set);
PG_FUNCTION_INFO_V1(fc_failpoint_wait);

/* Row being built: columns in the order of the SQL declaration. */
typedef struct Row
{
	int			n;
	Datum		values[STAT_COLUMNS];
	bool		nulls[STAT_COLUMNS];
} Row;

static void
add(Row *row, Datum value, bool isnull)
{
	row->values[row->n] = value;
	row->nulls[row->n++] = isnull;
}

static void
add_text(Row *row, const char *s)
{
	add(row, s ? CStringGetTextDatum(s) : (Datum) 0, s == NULL);
}

static void
add_int8(Row *row, uint64 value)
{
	add(row, Int64GetDatum((int64) value), false);
}

static void
add_ratio(Row *row, double part, double whole)
{
	add(row, whole > 0 ? Float8GetDatum(part / whole) : (Datum) 0, whole <= 0);
}

/* Nanoseconds are shown as microseconds. */
static void
add_us(Row *row, uint64 ns)
{
	add_int8(row, ns / 1000);
}

static Datum
return_row(Row *row, TupleDesc tupdesc)
{
	if (row->n != tupdesc->natts)
		ereport(ERROR,
				(errmsg("pg_flashcache library and extension script do not match"),
				 errhint("Run ALTER EXTENSION pg_flashcache UPDATE.")));
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), row->values, row->nulls));
}

Datum
fc_stat(PG_FUNCTION_ARGS)
{
	static const FcCounter pages[] = {
		FC_INSERTS, FC_SKIP_CORRUPT, FC_SKIP_EXISTS, FC_SKIP_MODIFICATION,
		FC_SKIP_NOT_CURRENT, FC_SKIP_NOT_USEFUL, FC_SKIP_OVERLOADED,
		FC_SKIP_PINNED, FC_SKIP_WRITE_LIMIT, FC_EVICT_AGED_OUT, FC_EVICT_INVALIDATED,
	};
	static const FcCounter trouble[] = {
		FC_READ_ERRORS, FC_WRITE_ERRORS, FC_TIMEOUTS, FC_SWITCH_OFFS, FC_PROBED, FC_CHECKSUM_FAILURES, FC_SLOTS_RETIRED,
		FC_SLOTS_ERASED,
		FC_VERIFY_CHECKS, FC_VERIFY_FAILURES,
	};
	TimestampTz since;
	TimestampTz next_probe = fc_writer_next_probe();
	int			bounded = fc_writer_waits_bounded();
	TupleDesc	tupdesc;
	Row			row = {0};
	char		reason[FC_REASON_LEN];
	uint64		c[FC_COUNTERS] = {0};
	TimestampTz reset_at = 0;
	const char *writer_wait;
	int			writer_pid = fc_writer_pid(&writer_wait);
	uint32		slots = fc_directory_slots();
	Size		memory = fc_cache_memory();

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	if (!fc_stats_snapshot(c, &reset_at))
		fc_stats_read(c, &reset_at);
	since = fc_cache_reason(reason, sizeof(reason));

	add_text(&row, fc_state_name(fc_cache_state()));
	add_text(&row, reason[0] ? reason : NULL);
	add(&row, TimestampTzGetDatum(since), since == 0);
	add(&row, TimestampTzGetDatum(next_probe), next_probe == 0);
	add_text(&row, fc_attach_way_name());
	add(&row, BoolGetDatum(bounded > 0), bounded < 0);
	add_int8(&row, slots);
	add_int8(&row, fc_directory_used());
	add_int8(&row, c[FC_HITS]);
	add_int8(&row, c[FC_MISSES]);
	add_ratio(&row, c[FC_HITS], (double) c[FC_HITS] + c[FC_MISSES]);
	add_int8(&row, c[FC_DISK_READS]);
	add_us(&row, c[FC_DISK_READ_NS]);
	add_int8(&row, c[FC_OS_CACHE_HITS]);
	add_int8(&row, c[FC_STREAM_READS]);
	add_int8(&row, c[FC_PREFETCHES]);
	add_int8(&row, c[FC_READ_BYTES]);
	add_us(&row, c[FC_READ_NS]);
	for (int i = 0; i < lengthof(pages); i++)
		add_int8(&row, c[pages[i]]);
	add_int8(&row, c[FC_WRITES]);
	add_int8(&row, c[FC_WRITE_BYTES]);
	add_us(&row, c[FC_WRITE_NS]);
	for (int i = 0; i < lengthof(trouble); i++)
		add_int8(&row, c[trouble[i]]);
	add_int8(&row, memory);
	add_ratio(&row, memory, slots);
	add(&row, Int32GetDatum(writer_pid), writer_pid == 0);
	add_text(&row, writer_wait);
	add(&row, TimestampTzGetDatum(reset_at), reset_at == 0);

	return return_row(&row, tupdesc);
}

Datum
fc_session_stat(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Row			row = {0};
	FcReads		reads;
	const uint64 *c = reads.counter;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	fc_stats_session(&reads);

	add_int8(&row, c[FC_HITS]);
	add_int8(&row, c[FC_MISSES]);
	add_int8(&row, c[FC_DISK_READS]);
	add_us(&row, c[FC_DISK_READ_NS]);
	add_int8(&row, c[FC_OS_CACHE_HITS]);
	add_int8(&row, c[FC_STREAM_READS]);
	add_int8(&row, c[FC_READ_BYTES]);
	add_us(&row, c[FC_READ_NS]);
	return return_row(&row, tupdesc);
}

Datum
fc_pages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (FcSlotNo slot = 0; slot < fc_directory_slots(); slot++)
	{
		FcPageInfo	page;
		Datum		values[PAGES_COLUMNS];
		bool		nulls[PAGES_COLUMNS] = {0};

		if (slot % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		if (!fc_directory_page(slot, &page))
			continue;
		values[0] = Int64GetDatum(slot);
		values[1] = ObjectIdGetDatum(page.tag.spc);
		values[2] = ObjectIdGetDatum(page.tag.db);
		values[3] = ObjectIdGetDatum(page.tag.rel);
		values[4] = Int64GetDatum(page.tag.blk);
		values[5] = Int16GetDatum(page.refcount);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}

static void
no_writer(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the pg_flashcache writer is not running"),
			 errhint("See the server log; it is started again by itself if max_worker_processes allows.")));
}

Datum
fc_enable(PG_FUNCTION_ARGS)
{
	char		reason[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];
	FcState		state = fc_cache_state();

	fc_cache_reason(reason, sizeof(reason));
	if (state == FC_STATE_DETACHED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_flashcache is detached: %s", reason),
				 errhint("This can only change with a restart of the server.")));
	if (state == FC_STATE_DISABLED)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_flashcache is disabled: %s", reason),
				 errhint(fc_cache ? "Set pg_flashcache.enabled to on and reload the configuration." :
						 "Set pg_flashcache.file and pg_flashcache.size and restart the server.")));
	if (!fc_writer_enable())
		no_writer();
	fc_cache_reason(reason, sizeof(reason));
	fc_cache_hint(hint, sizeof(hint));
	if (fc_cache_state() != FC_STATE_ACTIVE)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("pg_flashcache could not be enabled: %s", reason),
				 hint[0] ? errhint("%s", hint) : 0));
	PG_RETURN_BOOL(true);
}

Datum
fc_reset_stats(PG_FUNCTION_ARGS)
{
	fc_stats_reset();
	PG_RETURN_VOID();
}

/* Is the device open, and the writer there to erase it? */
static void
check_scrub_possible(void)
{
	FcState		state = fc_cache_state();
	char		reason[FC_REASON_LEN];

	if (state == FC_STATE_ACTIVE || (state == FC_STATE_DISABLED && fc_cache != NULL))
		return;
	fc_cache_reason(reason, sizeof(reason));
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the flash cache cannot be erased while it is %s%s%s", fc_state_name(state),
					reason[0] ? ": " : "", reason),
			 errhint(state == FC_STATE_STARTING ? "Try again in a moment." :
					 state == FC_STATE_OFF ? "Call pg_flashcache_enable() first, or stop the server and remove the file." :
					 "The server does not have the file open; remove it, or clear the device.")));
}

Datum
fc_scrub(PG_FUNCTION_ARGS)
{
	TupleDesc	tupdesc;
	Row			row = {0};
	FcScrubResult result;
	FcScrub		how;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	check_scrub_possible();
	how = fc_writer_scrub(PG_GETARG_BOOL(0), &result);
	if (how == FC_SCRUB_UNDER_WAY)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("the flash cache is already being erased"),
				 errhint("Wait for the other session, or cancel it.")));
	if (how == FC_SCRUB_NO_WRITER)
		no_writer();
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
	return return_row(&row, tupdesc);
}

/* ---- for tests; not declared by the extension script ---- */

static FcFailpointId
failpoint_argument(PG_FUNCTION_ARGS)
{
	char	   *name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	int			id = fc_failpoint_by_name(name);

	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to use failpoints")));
	if (id < 0 || fc_failpoints == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("there is no failpoint \"%s\"", name)));
	return (FcFailpointId) id;
}

Datum
fc_failpoint_set(PG_FUNCTION_ARGS)
{
	FcFailpointId id = failpoint_argument(fcinfo);
	char	   *action = text_to_cstring(PG_GETARG_TEXT_PP(1));
	FcFault		fault;

	if (!fc_failpoint_action(action, &fault))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("unknown action \"%s\"", action),
				 errhint("See src/failpoint.h.")));
	fc_failpoint_arm(id, fault, PG_NARGS() > 2 ? PG_GETARG_OID(2) : InvalidOid);
	PG_RETURN_VOID();
}

Datum
fc_failpoint_wait(PG_FUNCTION_ARGS)
{
	FcFailpointId id = failpoint_argument(fcinfo);

	for (int i = 0; fc_failpoint_paused(id) == 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 60 * 1000)
			ereport(ERROR, (errmsg("nobody came to the failpoint within a minute")));
		pg_usleep(1000);
	}
	PG_RETURN_VOID();
}
