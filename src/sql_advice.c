/*-------------------------------------------------------------------------
 *
 * sql_advice.c
 *	  What SQL sees of advice: pg_flashcache_advice and its reset.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "advice/advice.h"
#include "compat.h"
#include "miscadmin.h"
#include "policy.h"
#include "settings.h"
#include "sql_row.h"
#include "stats/stats.h"
#include "utils/tuplestore.h"

FC_EXPORT Datum fc_advice_rows(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_advice_reset_all(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_advice_rows);
PG_FUNCTION_INFO_V1(fc_advice_reset_all);

/* Mean time of a read from flash in microseconds: as it was measured, or as it is set. */
static double
flash_read_us(void)
{
	uint64		hits = fc_stats ? fc_stats_total(FC_HITS) - FC_STATS_START : 0;
	uint64		ns = fc_stats ? fc_stats_total(FC_READ_NS) - FC_STATS_START : 0;

	return hits >= FC_VERDICT_READS ? ns / 1e3 / hits : fc_setting_advice_flash_read_time * 1e3;
}

static void
add_size_row(Row *row, const FcAdviceSums *sums, const FcAdviceSize *size, bool buffers)
{
	double		hit_ratio = sums->reads > 0 ? (double) size->hits / sums->reads : 0;
	double		missed = (sums->reads - size->hits) / sums->rate / sums->seconds;
	double		disk_us = sums->disk_reads > 0 ? sums->disk_ns / 1e3 / sums->disk_reads : 0;
	double		us = (1 - hit_ratio) * disk_us + (buffers ? 0 : hit_ratio * flash_read_us());
	double		written = size->writes / sums->rate / sums->seconds * BLCKSZ * 86400;

	row->n = 0;
	add_text(row, buffers ? "shared_buffers" : "flash");
	add(row, FLOAT8OID, Float8GetDatum(size->factor), false);
	add_int8(row, (size->pages + (buffers ? NBuffers : 0)) * BLCKSZ);
	add(row, BOOLOID, BoolGetDatum(!buffers && fc_setting_size > 0 && size->factor == 1), false);
	add_ratio(row, size->hits, sums->reads);
	add(row, FLOAT8OID, Float8GetDatum(missed), sums->reads == 0);
	add(row, FLOAT8OID, Float8GetDatum(us), sums->reads == 0 || sums->disk_reads == 0);
	add(row, INT8OID, Int64GetDatum((int64) written), buffers || sums->reads == 0);
	add_int8(row, sums->reads);
	add_int8(row, sums->dropped);
	add(row, FLOAT8OID, Float8GetDatum(sums->rate), false);
	add(row, FLOAT8OID, Float8GetDatum(disk_us), sums->disk_reads == 0);
	add_time(row, sums->since);
}

/* 16 rows; none while advice is off. */
Datum
fc_advice_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcAdviceSums sums;
	bool		on;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	on = fc_advice_sums(&sums);
	for (int i = 0; i < 2 * FC_ADVICE_SIZES; i++)
	{
		bool		buffers = i >= FC_ADVICE_SIZES;

		add_size_row(&row, &sums, buffers ? &sums.buffers[i - FC_ADVICE_SIZES] : &sums.flash[i], buffers);
		/* the first one tells whether the columns are right */
		if (i == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		if (on)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

Datum
fc_advice_reset_all(PG_FUNCTION_ARGS)
{
	check_declared(fcinfo, VOIDOID, false, 0, NULL);
	fc_advice_reset();
	PG_RETURN_VOID();
}
