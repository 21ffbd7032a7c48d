/*-------------------------------------------------------------------------
 *
 * sql_functions.c
 *	  What SQL sees: the functions behind the views, and the commands.
 *
 * Privileges are granted in the extension script.  docs/views.md describes
 * the columns for users.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "attach/attach.h"
#include "cache/cache.h"
#include "catalog/pg_authid_d.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "fmgr.h"
#include "map/map.h"
#include "miscadmin.h"
#include "prewarm/prewarm.h"
#include "settings.h"
#include "sql_row.h"
#include "stats/stats.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"
#include "utils/tuplestore.h"
#include "utils/pg_lsn.h"
#include "warm/warm.h"
#include "writer/writer.h"

FC_EXPORT Datum fc_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_session_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_pages(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_persistence(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_enable(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_reset_stats(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_scrub(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_prewarm_relation(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_prewarm_progress(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_export_map(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_import_map(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_compare_map(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_stat);
PG_FUNCTION_INFO_V1(fc_session_stat);
PG_FUNCTION_INFO_V1(fc_pages);
PG_FUNCTION_INFO_V1(fc_persistence);
PG_FUNCTION_INFO_V1(fc_enable);
PG_FUNCTION_INFO_V1(fc_reset_stats);
PG_FUNCTION_INFO_V1(fc_scrub);
PG_FUNCTION_INFO_V1(fc_prewarm_relation);
PG_FUNCTION_INFO_V1(fc_prewarm_progress);
PG_FUNCTION_INFO_V1(fc_export_map);
PG_FUNCTION_INFO_V1(fc_import_map);
PG_FUNCTION_INFO_V1(fc_compare_map);

/* ---- views ---- */

Datum
fc_stat(PG_FUNCTION_ARGS)
{
	static const FcCounter pages[] = {
		FC_INSERTS, FC_SKIP_CORRUPT, FC_SKIP_EXISTS, FC_SKIP_MODIFICATION,
		FC_SKIP_NOT_CURRENT, FC_SKIP_NOT_USEFUL, FC_SKIP_OVERLOADED,
		FC_SKIP_PINNED, FC_SKIP_WRITE_LIMIT, FC_EVICT_AGED_OUT, FC_EVICT_INVALIDATED,
		FC_EPOCHS_CROWDED,
	};
	static const FcCounter trouble[] = {
		FC_READ_ERRORS, FC_WRITE_ERRORS, FC_TIMEOUTS, FC_READS_UNBOUNDED, FC_SWITCH_OFFS, FC_PROBED,
		FC_CHECKSUM_FAILURES, FC_SLOTS_RETIRED,
		FC_SLOTS_ERASED,
		FC_VERIFY_CHECKS, FC_VERIFY_FAILURES,
	};
	TimestampTz since;
	int			bounded = fc_writer_waits_bounded();
	Row			row = {0};
	FcReason	why;
	uint64		c[FC_COUNTERS] = {0};
	TimestampTz reset_at = 0;
	const char *writer_wait;
	int			writer_pid = fc_writer_pid(&writer_wait);
	uint32		slots = fc_directory_capacity();
	Size		memory = fc_cache_memory();

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	if (!fc_stats_snapshot(c, &reset_at))
		fc_stats_read(c, &reset_at);
	since = fc_cache_reason(&why);

	add_text(&row, fc_state_name(fc_cache_state()));
	if (fc_cache_state() == FC_STATE_STARTING && writer_pid == 0)
		strlcpy(why.message, "the background process \"pg_flashcache writer\" does not run", sizeof(why.message));
	add_text(&row, why.message[0] ? why.message : NULL);
	add_text(&row, fc_writer_verdict());
	add_time(&row, since);
	add_time(&row, fc_writer_next_probe());
	add_text(&row, fc_attach_way_name());
	add(&row, BOOLOID, BoolGetDatum(bounded > 0), bounded < 0);
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
	add_int8(&row, c[FC_HITS] * BLCKSZ);
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
	add(&row, INT4OID, Int32GetDatum(writer_pid), writer_pid == 0);
	add_text(&row, writer_wait);
	add_time(&row, reset_at);

	return return_row(fcinfo, &row);
}

Datum
fc_session_stat(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	FcReads		reads;
	const uint64 *c = reads.counter;

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	fc_stats_session(&reads);

	add_int8(&row, c[FC_HITS]);
	add_int8(&row, c[FC_MISSES]);
	add_int8(&row, c[FC_DISK_READS]);
	add_us(&row, c[FC_DISK_READ_NS]);
	add_int8(&row, c[FC_OS_CACHE_HITS]);
	add_int8(&row, c[FC_STREAM_READS]);
	add_int8(&row, c[FC_HITS] * BLCKSZ);
	add_us(&row, c[FC_READ_NS]);
	return return_row(fcinfo, &row);
}

/* NULL: there is nothing to be loaded. */
static const char *
buffers_name(FcBuffers buffers)
{
	switch (buffers)
	{
		case FC_BUFFERS_NONE:
			return NULL;
		case FC_BUFFERS_WAITING:
			return "waiting";
		case FC_BUFFERS_LOADING:
			return "loading";
		case FC_BUFFERS_LOADED:
			return "loaded";
		case FC_BUFFERS_FULL:
			return "full";
		case FC_BUFFERS_AUTOPREWARM:
			return "autoprewarm";
		case FC_BUFFERS_STOPPED:
			return "stopped";
	}
	return NULL;
}

/* What survives an end of the server; all NULL where that is not asked for. */
Datum
fc_persistence(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	FcWarmInfo	info = {0};
	bool		keeps = fc_warm_info(&info);
	bool		stamped = info.stamped_at != 0;

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	add(&row, BOOLOID, BoolGetDatum(info.writing), !keeps);
	add_time(&row, info.loaded_at);
	add(&row, INT8OID, Int64GetDatum((int64) info.loading_us), info.loaded_at == 0);
	add(&row, INT8OID, Int64GetDatum((int64) info.restored), info.loaded_at == 0);
	add(&row, INT8OID, Int64GetDatum((int64) info.touched), info.loaded_at == 0);
	add(&row, INT8OID, Int64GetDatum((int64) info.removed), info.loaded_at == 0);
	add(&row, INT8OID, Int64GetDatum((int64) info.torn), info.loaded_at == 0);
	add_text(&row, info.refused[0] ? info.refused : NULL);
	add(&row, PG_LSNOID, LSNGetDatum(info.checkpoint), !stamped);
	add_time(&row, info.stamped_at);
	add(&row, INT8OID, Int64GetDatum((int64) (keeps ? fc_stats_total(FC_LOG_BYTES) - FC_STATS_START : 0)), !keeps);
	add(&row, INT8OID, Int64GetDatum((int64) (keeps ? fc_stats_total(FC_RESTORED_WRONG) - FC_STATS_START : 0)), !keeps);
	add(&row, INT8OID, Int64GetDatum((int64) info.list_pages), !info.listed);
	add(&row, INT8OID, Int64GetDatum((int64) info.list_copied), !info.listed);
	add(&row, INT8OID, Int64GetDatum((int64) info.list_copy_us), !info.listed);
	add_text(&row, buffers_name(info.buffers));
	add(&row, INT8OID, Int64GetDatum((int64) info.buffers_loaded), !info.listed);
	add(&row, INT8OID, Int64GetDatum((int64) info.buffers_load_us), info.buffers_load_us == 0);
	return return_row(fcinfo, &row);
}

Datum
fc_pages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	for (FcSlotNo slot = 0; slot < fc_directory_slots(); slot++)
	{
		FcPageInfo	page = {0};
		bool		cached = fc_directory_page(slot, &page);

		if (slot % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		/* the first one tells whether the columns are right */
		if (!cached && slot > 0)
			continue;
		row.n = 0;
		add_int8(&row, slot);
		add_oid(&row, page.tag.spc);
		add_oid(&row, page.tag.db);
		add_oid(&row, page.tag.rel);
		add_int8(&row, page.tag.blk);
		add(&row, INT2OID, Int16GetDatum(page.refcount), false);
		if (slot == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		if (cached)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

static void
add_map_row(Row *row, const FcMapRow *of)
{
	bytea	   *bitmap = palloc(VARHDRSZ + of->nbytes);

	SET_VARSIZE(bitmap, VARHDRSZ + of->nbytes);
	memcpy(VARDATA(bitmap), of->bits, of->nbytes);
	row->n = 0;
	add_oid(row, of->rel.spc);
	add_oid(row, of->rel.db);
	add_oid(row, of->rel.rel);
	add(row, INT2OID, Int16GetDatum(of->heat), false);
	add_int8(row, of->first);
	add(row, INT4OID, Int32GetDatum(of->pages), false);
	add(row, BYTEAOID, PointerGetDatum(bitmap), false);
}

Datum
fc_export_map(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {OIDOID};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcMapExport *map;
	FcMapRow	of = {0};
	Row			row;

	check_declared_nulls(fcinfo, RECORDOID, true, lengthof(args), args, 0);
	InitMaterializedSRF(fcinfo, 0);
	add_map_row(&row, &of);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	map = fc_map_export_begin(PG_ARGISNULL(0), PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0));
	while (fc_map_export_next(map, &of))
	{
		add_map_row(&row, &of);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
		pfree(DatumGetPointer(row.values[row.n - 1]));
	}
	fc_map_export_end(map);
	return (Datum) 0;
}

/* The hottest pages first; a row for each heat, whether the map has any or not. */
Datum
fc_compare_map(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcMapCompared compared = {0};
	Row			row;

	check_declared(fcinfo, RECORDOID, true, lengthof(args), args);
	InitMaterializedSRF(fcinfo, 0);
	fc_map_compare(text_to_cstring(PG_GETARG_TEXT_PP(0)), &compared);
	for (int heat = FC_MAP_HEATS - 1; heat >= 0; heat--)
	{
		row.n = 0;
		add(&row, INT2OID, Int16GetDatum(heat), false);
		add_int8(&row, compared.named[heat]);
		add_int8(&row, compared.here[heat]);
		add_ratio(&row, compared.here[heat], compared.named[heat]);
		check_columns(fcinfo, &row, rsinfo->setDesc);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

/* ---- commands ---- */

static void
no_writer(void)
{
	const char *wait_event;

	if (fc_writer_pid(&wait_event) != 0)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the pg_flashcache writer has just begun, and is looking at the devices"),
				 errhint("Try again in a moment.")));
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
	return return_row(fcinfo, &row);
}

/* What became of pages that were looked at. */
static void
add_load_counts(Row *row, const FcLoadCounts *pages)
{
	add_int8(row, pages->read);
	add_int8(row, pages->loaded);
	add_int8(row, pages->exists);
	add_int8(row, pages->modified);
	add_int8(row, pages->dirty);
	add_int8(row, pages->empty);
	add_int8(row, pages->corrupt);
	add_int8(row, pages->full + pages->unwanted);
	add_int8(row, pages->failed);
}

Datum
fc_prewarm_relation(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {REGCLASSOID, BOOLOID, BOOLOID, BOOLOID, INT8OID, INT8OID};
	Row			row = {0};
	FcPrewarm	what = {0};
	FcPrewarmed done = {0};
	int64		first;
	int64		last;

	check_declared_nulls(fcinfo, RECORDOID, false, lengthof(args), args, 4);
	first = PG_ARGISNULL(4) ? 0 : PG_GETARG_INT64(4);
	last = PG_ARGISNULL(5) ? 0 : PG_GETARG_INT64(5);
	what.relation = PG_GETARG_OID(0);
	what.indexes = PG_GETARG_BOOL(1);
	what.toast = PG_GETARG_BOOL(2);
	what.replace = PG_GETARG_BOOL(3);
	what.first = PG_ARGISNULL(4) ? NULL : &first;
	what.last = PG_ARGISNULL(5) ? NULL : &last;
	fc_prewarm(&what, &done);

	add(&row, INT4OID, Int32GetDatum(done.relations), false);
	add_int8(&row, done.blocks);
	add_load_counts(&row, &done.pages);
	return return_row(fcinfo, &row);
}

Datum
fc_import_map(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID, BOOLOID};
	Row			row = {0};
	FcImported	done = {0};

	check_declared(fcinfo, RECORDOID, false, lengthof(args), args);
	fc_prewarm_import(text_to_cstring(PG_GETARG_TEXT_PP(0)), PG_GETARG_BOOL(1), &done);
	add_int8(&row, done.rows);
	add_int8(&row, done.rows_skipped);
	add_int8(&row, done.named);
	add_load_counts(&row, &done.pages);
	add_int8(&row, done.locked);
	return return_row(fcinfo, &row);
}

/* As pg_stat_progress_*: everybody sees who is at work, and more of whom he may see it. */
static void
add_progress(Row *row, const FcLoadProgress *p)
{
	bool		hidden = !has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS) &&
		!has_privs_of_role(GetUserId(), p->role);

	/* from a map, whose length is not known */
	bool		open_ended = hidden || !OidIsValid(p->relation);
	const uint64 totals[] = {p->relations, p->relations_done, p->blocks};
	const uint64 numbers[] = {
		p->blocks_done,
		p->counts.read, p->counts.loaded, p->counts.exists,
		p->counts.modified + p->counts.dirty + p->counts.empty + p->counts.corrupt + p->counts.full + p->counts.unwanted + p->counts.failed,
	};

	row->n = 0;
	add(row, INT4OID, Int32GetDatum(p->pid), false);
	add_oid(row, p->database);
	add(row, OIDOID, ObjectIdGetDatum(p->relation), open_ended);
	add(row, OIDOID, ObjectIdGetDatum(p->current), hidden || !OidIsValid(p->current));
	add_text(row, hidden ? NULL : p->limited ? "waiting for write_limit" : "loading");
	for (int i = 0; i < lengthof(totals); i++)
		add(row, INT8OID, Int64GetDatum((int64) totals[i]), open_ended);
	for (int i = 0; i < lengthof(numbers); i++)
		add(row, INT8OID, Int64GetDatum((int64) numbers[i]), hidden);
}

Datum
fc_prewarm_progress(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < FC_LOAD_JOBS; i++)
	{
		FcLoadProgress progress = {0};
		bool		used = fc_writer_load_progress(i, &progress);

		add_progress(&row, &progress);
		/* the first one tells whether the columns are right */
		if (i == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		if (used)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

#ifdef FC_FAILPOINTS

/* ---- for tests; not declared by the extension script ---- */

FC_EXPORT Datum fc_failpoint_set(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_failpoint_wait(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_failpoint_set);
PG_FUNCTION_INFO_V1(fc_failpoint_wait);

static FcFailpointId
failpoint_argument(FunctionCallInfo fcinfo, int nargs)
{
	static const Oid args[] = {TEXTOID, TEXTOID, OIDOID};
	char	   *name;
	int			id;

	check_declared(fcinfo, VOIDOID, false, nargs, args);
	name = text_to_cstring(PG_GETARG_TEXT_PP(0));
	id = fc_failpoint_by_name(name);
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
	FcFailpointId id = failpoint_argument(fcinfo, PG_NARGS() > 2 ? 3 : 2);
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
	FcFailpointId id = failpoint_argument(fcinfo, 1);

	for (int i = 0; fc_failpoint_paused(id) == 0; i++)
	{
		CHECK_FOR_INTERRUPTS();
		if (i > 60 * 1000)
			ereport(ERROR, (errmsg("nobody came to the failpoint within a minute")));
		pg_usleep(1000);
	}
	PG_RETURN_VOID();
}

#endif							/* FC_FAILPOINTS */
