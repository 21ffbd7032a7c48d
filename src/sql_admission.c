/*-------------------------------------------------------------------------
 *
 * sql_admission.c
 *	  What SQL sees of admission = auto: pg_flashcache_admission.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/admission.h"
#include "compat.h"
#include "miscadmin.h"
#include "settings.h"
#include "sql_row.h"
#include "utils/tuplestore.h"

FC_EXPORT Datum fc_admission_rows(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_admission_rows);

/* One for each candidate; none without a cache. */
Datum
fc_admission_rows(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcAdmission set = (FcAdmission) fc_setting_admission;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < FC_CANDIDATES; i++)
	{
		FcCandidate c = {0};
		bool		there = fc_admission_candidate(i, &c);

		row.n = 0;
		add_text(&row, fc_policy_admission_name(c.mode));
		add(&row, BOOLOID, BoolGetDatum(c.mode == fc_admission_mode(set)), false);
		add(&row, BOOLOID, BoolGetDatum(c.best), false);
		add_ratio(&row, c.hits, c.reads);
		add_ratio(&row, c.writes, c.reads);
		add_int8(&row, c.reads);
		/* the first one tells whether the columns are right */
		if (i == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		if (there)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
