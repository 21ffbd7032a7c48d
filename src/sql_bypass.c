/*-------------------------------------------------------------------------
 *
 * sql_bypass.c
 *	  What SQL sees of tablespaces that are read without the cache:
 *	  pg_flashcache_tablespaces.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "compat.h"
#include "sql_row.h"
#include "utils/tuplestore.h"

FC_EXPORT Datum fc_tablespaces(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_tablespaces);

static const char *
state_of(const FcBypassRow *from)
{
	if (from->on_trial)
		return "trial";
	return from->bypassed ? "bypassed" : "cached";
}

static void
add_mean(Row *row, double ns)
{
	add(row, FLOAT8OID, Float8GetDatum(ns / 1e3), ns == 0);
}

static void
make_row(Row *row, const FcBypassRow *from)
{
	row->n = 0;
	add_oid(row, from->spc);
	add_text(row, state_of(from));
	add_time(row, from->since);
	add_mean(row, from->disk_ns);
	add_mean(row, from->flash_ns);
	add_int8(row, from->windows);
	add_int8(row, from->bypasses);
	add_int8(row, from->bypassed_reads);
	add_time(row, from->next);
}

/* A row for each tablespace that was read. */
Datum
fc_tablespaces(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcBypassRow from = {0};
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	/* also where there are no rows */
	make_row(&row, &from);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	for (int i = 0; i < FC_BYPASS_PLACES; i++)
	{
		if (!fc_cache_bypass_row(i, &from))
			continue;
		make_row(&row, &from);
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
