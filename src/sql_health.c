/*-------------------------------------------------------------------------
 *
 * sql_health.c
 *	  What SQL sees of the health of drives: the view
 *	  pg_stat_flashcache_device_health, and the function by which it is reported.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "health.h"
#include "settings.h"
#include "sql_row.h"
#include "store/store_list.h"
#include "utils/tuplestore.h"

FC_EXPORT Datum fc_device_health_rows(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_report_drive(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_device_health_rows);
PG_FUNCTION_INFO_V1(fc_report_drive);

static bool
path_of(FcDeviceNo no, FcDeviceEntry *entry)
{
	if (no != FC_THE_DEVICE)
		return fc_list_entry(no, entry);
	strlcpy(entry->path, fc_setting_file, sizeof(entry->path));
	return true;
}

static void
add_known(Row *row, int64 value)
{
	add(row, INT8OID, Int64GetDatum(value), value == FC_UNKNOWN);
}

static void
add_small(Row *row, int64 value)
{
	add(row, INT4OID, Int32GetDatum((int32) value), value == FC_UNKNOWN);
}

static void
make_row(Row *row, FcDeviceNo no, const char *path)
{
	FcHealth	health;
	bool		there = fc_cache != NULL && fc_health_of(no, path, &health);
	int64		reported;
	int64		written;

	if (!there)
	{
		memset(&health, 0, sizeof(health));
		for (int i = 0; i < FC_HEALTH_VALUES; i++)
			health.value[i] = FC_UNKNOWN;
	}
	reported = (int64) timestamptz_to_time_t(health.reported);
	written = health.value[FC_HEALTH_WRITTEN];
	row->n = 0;
	add(row, INT4OID, Int32GetDatum(no + 1), false);
	add_text(row, path);
	add_text(row, there ? health.drive : NULL);
	add_text(row, there && health.model[0] ? health.model : NULL);
	add_time(row, health.reported);
	add_small(row, fc_policy_health(health.value[FC_HEALTH_PASSED], health.value[FC_HEALTH_USED], health.value[FC_HEALTH_SPARE],
									health.value[FC_HEALTH_SPARE_THRESHOLD]));
	add(row, BOOLOID, BoolGetDatum(health.value[FC_HEALTH_PASSED] == 1), health.value[FC_HEALTH_PASSED] == FC_UNKNOWN);
	add_small(row, health.value[FC_HEALTH_USED]);
	add_small(row, health.value[FC_HEALTH_SPARE]);
	add_small(row, health.value[FC_HEALTH_SPARE_THRESHOLD]);
	add_known(row, health.value[FC_HEALTH_MEDIA_ERRORS]);
	add_small(row, health.value[FC_HEALTH_TEMPERATURE]);
	add_known(row, written);
	add_known(row, written == FC_UNKNOWN ? FC_UNKNOWN : fc_policy_written_today(health.days, reported, written));
	add_int8(row, fc_cache != NULL ? fc_health_cache_written_today(no) : 0);
	add_known(row, health.value[FC_HEALTH_RATED]);
	add_known(row, written == FC_UNKNOWN ? FC_UNKNOWN :
			  fc_policy_days_left(health.days, reported, written, health.value[FC_HEALTH_USED]));
}

/* A row for each device; none without a cache. */
Datum
fc_device_health_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	/* also where there are no rows */
	make_row(&row, FC_THE_DEVICE, "");
	check_columns(fcinfo, &row, rsinfo->setDesc);
	for (FcDeviceNo no = FC_THE_DEVICE; fc_cache != NULL && no < FC_DEVICES; no++)
	{
		FcDeviceEntry entry;

		if (!path_of(no, &entry))
			continue;
		make_row(&row, no, entry.path);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

/* ---- reporting ---- */

/* A device's name, by which its reports belong together. */
static void
check_drive(const char *name)
{
	bool		blank = true;

	for (const char *c = name; *c != '\0'; c++)
	{
		if ((unsigned char) *c < ' ' || *c == 0x7f)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("the name of a drive cannot have control characters"),
					 errhint("Give the name of its block device, such as nvme0n1.")));
		blank = blank && *c == ' ';
	}
	if (blank)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the name of a drive cannot be empty"),
				 errhint("Give the name of its block device, such as nvme0n1.")));
}

/* A name that is the same in databases of all encodings. */
static void
plain_name(FunctionCallInfo fcinfo, int arg, char *name)
{
	strlcpy(name, PG_ARGISNULL(arg) ? "" : text_to_cstring(PG_GETARG_TEXT_PP(arg)), FC_DRIVE_NAME);
	for (char *c = name; *c != '\0'; c++)
		if (*c < ' ' || *c > '~')
			*c = '?';
}

static int64
number(FunctionCallInfo fcinfo, int arg, const char *name, int64 value, int64 least, int64 most)
{
	if (PG_ARGISNULL(arg))
		return FC_UNKNOWN;
	if (value < least || value > most)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("%s of a drive cannot be %lld", name, (long long) value),
				 errhint("It is from %lld to %lld, or NULL if it is not known.", (long long) least, (long long) most)));
	return value;
}

static int64
small_number(FunctionCallInfo fcinfo, int arg, const char *name, int32 least, int32 most)
{
	return number(fcinfo, arg, name, PG_ARGISNULL(arg) ? 0 : PG_GETARG_INT32(arg), least, most);
}

static int64
large_number(FunctionCallInfo fcinfo, int arg, const char *name, int64 least)
{
	return number(fcinfo, arg, name, PG_ARGISNULL(arg) ? 0 : PG_GETARG_INT64(arg), least, PG_INT64_MAX);
}

Datum
fc_report_drive(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID, TEXTOID, TEXTOID, BOOLOID, INT4OID, INT4OID, INT4OID, INT8OID, INT4OID, INT8OID, INT8OID};
	char		drive[FC_DRIVE_NAME];
	char		model[FC_DRIVE_NAME];
	int64		value[FC_HEALTH_VALUES];
	const char *path;

	check_declared_nulls(fcinfo, VOIDOID, false, lengthof(args), args, 2);
	path = text_to_cstring(PG_GETARG_TEXT_PP(0));
	check_drive(text_to_cstring(PG_GETARG_TEXT_PP(1)));
	plain_name(fcinfo, 1, drive);
	plain_name(fcinfo, 2, model);
	value[FC_HEALTH_PASSED] = PG_ARGISNULL(3) ? FC_UNKNOWN : PG_GETARG_BOOL(3);
	value[FC_HEALTH_USED] = small_number(fcinfo, 4, "used_percent", 0, 255);
	value[FC_HEALTH_SPARE] = small_number(fcinfo, 5, "spare_percent", 0, 100);
	value[FC_HEALTH_SPARE_THRESHOLD] = small_number(fcinfo, 6, "spare_threshold", 0, 100);
	value[FC_HEALTH_MEDIA_ERRORS] = large_number(fcinfo, 7, "media_errors", 0);
	value[FC_HEALTH_TEMPERATURE] = small_number(fcinfo, 8, "temperature", -273, 1000);
	value[FC_HEALTH_WRITTEN] = large_number(fcinfo, 9, "written", 0);
	value[FC_HEALTH_RATED] = large_number(fcinfo, 10, "rated_bytes_a_day", 1);
	for (FcDeviceNo no = FC_THE_DEVICE; fc_cache != NULL && no < FC_DEVICES; no++)
	{
		FcDeviceEntry entry;

		if (!path_of(no, &entry) || strcmp(entry.path, path) != 0)
			continue;
		fc_health_report(no, path, drive, model, value);
		PG_RETURN_VOID();
	}
	ereport(ERROR,
			(errcode(ERRCODE_UNDEFINED_OBJECT),
			 errmsg("\"%s\" is not a device of the cache", path),
			 errhint("See pg_stat_flashcache_device.")));
}
