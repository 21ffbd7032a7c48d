/*-------------------------------------------------------------------------
 *
 * sql_functions.c
 *	  The functions behind the views of the whole cache.
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
#include "compat.h"
#include "directory/directory.h"
#include "fmgr.h"
#include "settings.h"
#include "sql_row.h"
#include "stats/stats.h"
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

PG_FUNCTION_INFO_V1(fc_stat);
PG_FUNCTION_INFO_V1(fc_session_stat);
PG_FUNCTION_INFO_V1(fc_pages);
PG_FUNCTION_INFO_V1(fc_persistence);

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
