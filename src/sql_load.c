/*-------------------------------------------------------------------------
 *
 * sql_load.c
 *	  What SQL sees of loading pages to flash: prewarming, its progress, and maps
 *	  of what is on flash.
 *
 * Who may load what is looked at in prewarm/ and map/; privileges are granted in
 * the extension script.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "catalog/pg_authid_d.h"
#include "compat.h"
#include "map/map.h"
#include "miscadmin.h"
#include "prewarm/prewarm.h"
#include "sql_row.h"
#include "utils/acl.h"
#include "utils/tuplestore.h"
#include "writer/writer.h"

FC_EXPORT Datum fc_prewarm_relation(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_prewarm_progress(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_export_map(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_export_map_with(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_import_map(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_compare_map(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_prewarm_relation);
PG_FUNCTION_INFO_V1(fc_prewarm_progress);
PG_FUNCTION_INFO_V1(fc_export_map);
PG_FUNCTION_INFO_V1(fc_export_map_with);
PG_FUNCTION_INFO_V1(fc_import_map);
PG_FUNCTION_INFO_V1(fc_compare_map);

/* ---- maps ---- */

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

/* The first argument is the database, or NULL. */
static void
export_map(FunctionCallInfo fcinfo, bool buffers)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcMapExport *map;
	FcMapRow	of = {0};
	Row			row;

	InitMaterializedSRF(fcinfo, 0);
	add_map_row(&row, &of);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	map = fc_map_export_begin(PG_ARGISNULL(0), PG_ARGISNULL(0) ? InvalidOid : PG_GETARG_OID(0), buffers);
	while (fc_map_export_next(map, &of))
	{
		add_map_row(&row, &of);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
		pfree(DatumGetPointer(row.values[row.n - 1]));
	}
	fc_map_export_end(map);
}

Datum
fc_export_map(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {OIDOID};

	check_declared_nulls(fcinfo, RECORDOID, true, lengthof(args), args, 0);
	export_map(fcinfo, false);
	return (Datum) 0;
}

Datum
fc_export_map_with(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {OIDOID, BOOLOID};

	check_declared_nulls(fcinfo, RECORDOID, true, lengthof(args), args, 0);
	if (PG_ARGISNULL(1))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("argument %d of function %s must not be null", 2, format_procedure(fcinfo->flinfo->fn_oid))));
	export_map(fcinfo, PG_GETARG_BOOL(1));
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

/* ---- loading ---- */

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
