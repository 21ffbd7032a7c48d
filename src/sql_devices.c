/*-------------------------------------------------------------------------
 *
 * sql_devices.c
 *	  What SQL sees of the devices of the cache: pg_stat_flashcache_device, and
 *	  the functions that change them.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "amount.h"
#include "cache/cache.h"
#include "common/string.h"
#include "compat.h"
#include "settings.h"
#include "sql_row.h"
#include "store/store.h"
#include "store/store_list.h"
#include "utils/tuplestore.h"
#include "writer/writer.h"

FC_EXPORT Datum fc_devices_rows(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_add_device(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_remove_device(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_resize_device(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_disable_device(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_enable_device(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_devices_rows);
PG_FUNCTION_INFO_V1(fc_add_device);
PG_FUNCTION_INFO_V1(fc_remove_device);
PG_FUNCTION_INFO_V1(fc_resize_device);
PG_FUNCTION_INFO_V1(fc_disable_device);
PG_FUNCTION_INFO_V1(fc_enable_device);

/* ---- the view ---- */

/* Microseconds that a request takes on average; NULL if there was none. */
static void
add_mean(Row *row, uint64 ns, uint64 requests)
{
	add(row, FLOAT8OID, requests > 0 ? Float8GetDatum((double) ns / requests / 1e3) : (Datum) 0, requests == 0);
}

static uint64
pages_on(FcDeviceNo no)
{
	uint64		used = 0;
	uint32		index;

	for (uint32 chunk = 0; chunk < fc_chunks(fc_directory_slots()); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
			used += fc_directory_chunk_used(chunk);
	return used;
}

/*
 * Is there no more to say of it than of the cache?  The first one, unless it alone is off;
 * and one that waits to be opened for what keeps the cache from being used.
 */
static bool
is_as_cache(FcDeviceNo no)
{
	FcState		state = fc_cache_state();

	if (fc_cache == NULL)
		return true;
	if (no == FC_THE_DEVICE)
		return fc_store_state(no) != FC_DEVICE_OFF;
	return fc_store_state(no) == FC_DEVICE_CLOSED && (state == FC_STATE_DISABLED || state == FC_STATE_DETACHED);
}

static void
make_row(Row *row, FcDeviceNo no, const char *path, uint32 slots)
{
	bool		as_cache = is_as_cache(no);
	bool		there = fc_cache != NULL;
	uint64		c[FC_DEVICE_COUNTERS] = {0};
	FcReason	why = {""};
	TimestampTz since = 0;
	TimestampTz probe = 0;
	const char *state = as_cache ? fc_state_name(fc_cache_state()) : "";

	if (there)
	{
		since = as_cache ? fc_cache_reason(&why) : fc_store_reason(no, &why);
		probe = as_cache ? fc_writer_next_probe() : fc_store_next_probe(no);
		if (!as_cache)
			state = fc_store_state_name(fc_store_state(no));
		for (int i = 0; i < FC_DEVICE_COUNTERS; i++)
			c[i] = fc_store_counter(no, (FcDeviceCounter) i);
	}
	if (there && fc_store_is_suspect(no) && why.message[0] == '\0')
		fc_fail(&why, "", "another device did not answer; this one is tried before it is used again");
	row->n = 0;
	add(row, INT4OID, Int32GetDatum(no + 1), false);
	add_text(row, path);
	add_text(row, state);
	add_text(row, why.message[0] ? why.message : NULL);
	add_time(row, since);
	add_time(row, probe);
	add_int8(row, (uint64) slots * BLCKSZ);
	add_int8(row, there ? pages_on(no) : 0);
	add_int8(row, c[FC_DEVICE_READS]);
	add_mean(row, c[FC_DEVICE_READ_NS], c[FC_DEVICE_READ_REQUESTS]);
	add_int8(row, c[FC_DEVICE_WRITES]);
	add_int8(row, c[FC_DEVICE_WRITES] * BLCKSZ);
	add_mean(row, c[FC_DEVICE_WRITE_NS], c[FC_DEVICE_WRITE_REQUESTS]);
	add_int8(row, c[FC_DEVICE_READ_ERRORS]);
	add_int8(row, c[FC_DEVICE_WRITE_ERRORS]);
	add_int8(row, c[FC_DEVICE_TIMEOUTS]);
}

/* A row for each device; none without a cache. */
Datum
fc_devices_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	/* also where there are no rows */
	make_row(&row, FC_THE_DEVICE, fc_setting_file, (uint32) fc_setting_size);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	if (fc_cache == NULL)
		return (Datum) 0;
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		FcDeviceEntry entry;

		if (!fc_list_entry(no, &entry))
			continue;
		make_row(&row, no, entry.path, entry.slots);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

/* ---- changes ---- */

static void
check_path(const char *path)
{
	if (!is_absolute_path(path) || strlen(path) >= MAXPGPATH)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("\"%s\" cannot be a device of pg_flashcache", path),
				 errdetail("The path must be absolute, and shorter than %d bytes.", MAXPGPATH),
				 errhint("Name a file on local flash, such as /mnt/nvme/pg_flashcache/cache, or a raw block device.")));
}

/* Bytes as slots; no parts of a page. */
static uint32
slots_of(int64 bytes)
{
	FcAmount	least;

	if (bytes < (int64) FC_MIN_SLOTS * BLCKSZ)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a device of pg_flashcache must have %s at least", fc_amount(&least, (double) FC_MIN_SLOTS * BLCKSZ, FC_AMOUNT_EXACT)),
				 errhint("The size is in bytes; pg_size_bytes('100 GB') makes bytes of an amount.")));
	return (uint32) Min(bytes / BLCKSZ, (int64) INT_MAX);
}

static void
change(FcDeviceChange what, const char *doing, const char *path, uint32 slots)
{
	const char *wait_event;
	FcReason	error;

	check_path(path);
	if (fc_cache == NULL)
	{
		(void) fc_cache_reason(&error);
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("there is no flash cache: %s", error.message),
				 error.hint[0] ? errhint("%s", error.hint) : 0));
	}
	switch (fc_writer_change_device(what, path, slots, &error))
	{
		case FC_DEVICES_DONE:
			if (error.message[0] != '\0')
				ereport(WARNING,
						(errmsg("the change is made, but would not survive a restart of the server: %s", error.message),
						 errdetail("After a restart the devices of the flash cache are those that the file named before."),
						 errhint("%s If the server ends before, repeat the change.", error.hint)));
			return;
		case FC_DEVICES_FAILED:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not %s: %s", doing, error.message),
					 error.hint[0] ? errhint("%s", error.hint) : 0));
			break;
		case FC_DEVICES_UNDER_WAY:
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_IN_USE),
					 errmsg("could not %s: another change of a device is under way", doing),
					 errhint("Try again when it has ended; see pg_stat_flashcache_device.")));
			break;
		case FC_DEVICES_NO_WRITER:
			if (fc_writer_pid(&wait_event) != 0)
				ereport(ERROR,
						(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
						 errmsg("could not %s: the background process \"pg_flashcache writer\" has just begun, and is looking at the devices", doing),
						 errhint("Look at pg_stat_flashcache_device, and try again in a moment.")));
			ereport(ERROR,
					(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
					 errmsg("could not %s: the background process \"pg_flashcache writer\" does not run", doing),
					 errhint("See the server's log; it is started again by itself.")));
			break;
	}
}

Datum
fc_add_device(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID, INT8OID};
	char	   *path;

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	path = text_to_cstring(PG_GETARG_TEXT_PP(0));
	/* all databases see it */
	if (GetDatabaseEncoding() != PG_UTF8 && !pg_is_ascii(path))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("could not add the device: its path has other than ASCII characters, and the encoding of this database is not UTF8"),
				 errhint("Use another path, or add it in a database whose encoding is UTF8.")));
	change(FC_CHANGE_ADD, "add the device", path, slots_of(PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
}

Datum
fc_remove_device(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID};

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	change(FC_CHANGE_REMOVE, "remove the device", text_to_cstring(PG_GETARG_TEXT_PP(0)), 0);
	PG_RETURN_VOID();
}

Datum
fc_resize_device(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID, INT8OID};

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	change(FC_CHANGE_RESIZE, "resize the device", text_to_cstring(PG_GETARG_TEXT_PP(0)), slots_of(PG_GETARG_INT64(1)));
	PG_RETURN_VOID();
}

Datum
fc_disable_device(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID};

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	change(FC_CHANGE_DISABLE, "disable the device", text_to_cstring(PG_GETARG_TEXT_PP(0)), 0);
	PG_RETURN_VOID();
}

Datum
fc_enable_device(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID};

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	change(FC_CHANGE_ENABLE, "enable the device", text_to_cstring(PG_GETARG_TEXT_PP(0)), 0);
	PG_RETURN_VOID();
}
