/*-------------------------------------------------------------------------
 *
 * sql_row.h
 *	  What the functions that SQL sees have in common: looking at how they are
 *	  declared, and building a row.
 *
 * A superuser may declare each of these with other arguments, another result
 * or other columns than the script does, and nothing else would notice: each
 * begins with check_declared(), and a row is compared with its columns when
 * it is returned.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_SQL_ROW_H
#define FC_SQL_ROW_H

#include "postgres.h"

#include "access/htup_details.h"
#include "catalog/pg_type_d.h"
#include "fmgr.h"
#include "funcapi.h"
#include "library.h"
#include "mb/pg_wchar.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/regproc.h"
#include "utils/timestamp.h"

#define STAT_COLUMNS 50

/* ---- declarations ---- */

static inline void
not_declared_so(FunctionCallInfo fcinfo)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_FUNCTION_DEFINITION),
			 errmsg("function %s is not declared as the pg_flashcache library defines it",
					format_procedure(fcinfo->flinfo->fn_oid)),
			 errhint("Run CREATE EXTENSION pg_flashcache, or ALTER EXTENSION pg_flashcache UPDATE after an upgrade.")));
}

/*
 * Is this the library that runs the cache, and is the function declared with these arguments and this result, and called
 * without NULL in the first nnotnull of them?  RECORDOID stands for any row type: its columns are compared
 * with those of the row.
 */
static inline void
check_declared_nulls(FunctionCallInfo fcinfo, Oid result, bool set, int nargs, const Oid *args, int nnotnull)
{
	const char *preloaded = fc_library_preloaded();
	Oid		   *declared;
	int			n;
	Oid			declared_result = get_func_signature(fcinfo->flinfo->fn_oid, &declared, &n);

	if (preloaded != NULL)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("this is not the copy of the pg_flashcache library that the server has preloaded"),
				 errdetail("The function is from \"%s\", preloaded is \"%s\".", fc_library_path(), preloaded),
				 errhint("Name the library in shared_preload_libraries as \"pg_flashcache\", and restart the server.")));
	if (n != nargs || fcinfo->nargs != nargs || get_func_retset(fcinfo->flinfo->fn_oid) != set ||
		(result == RECORDOID ? get_call_result_type(fcinfo, NULL, NULL) != TYPEFUNC_COMPOSITE : declared_result != result))
		not_declared_so(fcinfo);
	for (int i = 0; i < nargs; i++)
		if (declared[i] != args[i])
			not_declared_so(fcinfo);
	for (int i = 0; i < nnotnull; i++)
		if (PG_ARGISNULL(i))
			ereport(ERROR,
					(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
					 errmsg("argument %d of function %s must not be null",
							i + 1, format_procedure(fcinfo->flinfo->fn_oid))));
}

static inline void
check_declared(FunctionCallInfo fcinfo, Oid result, bool set, int nargs, const Oid *args)
{
	check_declared_nulls(fcinfo, result, set, nargs, args, nargs);
}

/* Row being built: columns in the order of the SQL declaration. */
typedef struct Row
{
	int			n;
	Oid			types[STAT_COLUMNS];
	Datum		values[STAT_COLUMNS];
	bool		nulls[STAT_COLUMNS];
} Row;

static inline void
check_columns(FunctionCallInfo fcinfo, const Row *row, TupleDesc tupdesc)
{
	if (tupdesc->natts != row->n)
		not_declared_so(fcinfo);
	for (int i = 0; i < row->n; i++)
		if (TupleDescAttr(tupdesc, i)->attisdropped || TupleDescAttr(tupdesc, i)->atttypid != row->types[i])
			not_declared_so(fcinfo);
}

static inline void
add(Row *row, Oid type, Datum value, bool isnull)
{
	if (row->n == STAT_COLUMNS)
		elog(ERROR, "too many columns");
	row->types[row->n] = type;
	row->values[row->n] = value;
	row->nulls[row->n++] = isnull;
}

/* Paths, and reasons that name them, have the encoding of whoever made them: what this database can't have is a '?'. */
static inline const char *
readable(const char *s)
{
	int			encoding = GetDatabaseEncoding();
	size_t		len = strlen(s);
	char	   *copy;

	if (pg_verify_mbstr(encoding, s, (int) len, true))
		return s;
	copy = pstrdup(s);
	for (char *p = copy; *p != '\0';)
	{
		int			n = pg_encoding_mblen(encoding, p);

		if (n > copy + len - p || !pg_verify_mbstr(encoding, p, n, true))
		{
			*p = '?';
			n = 1;
		}
		p += n;
	}
	return copy;
}

static inline void
add_text(Row *row, const char *s)
{
	add(row, TEXTOID, s ? CStringGetTextDatum(readable(s)) : (Datum) 0, s == NULL);
}

static inline void
add_int8(Row *row, uint64 value)
{
	add(row, INT8OID, Int64GetDatum((int64) value), false);
}

static inline void
add_oid(Row *row, Oid value)
{
	add(row, OIDOID, ObjectIdGetDatum(value), false);
}

static inline void
add_ratio(Row *row, double part, double whole)
{
	add(row, FLOAT8OID, whole > 0 ? Float8GetDatum(part / whole) : (Datum) 0, whole <= 0);
}

/* 0 is NULL. */
static inline void
add_time(Row *row, TimestampTz value)
{
	add(row, TIMESTAMPTZOID, TimestampTzGetDatum(value), value == 0);
}

/* Nanoseconds are shown as microseconds. */
static inline void
add_us(Row *row, uint64 ns)
{
	add_int8(row, ns / 1000);
}

static inline Datum
return_row(FunctionCallInfo fcinfo, Row *row)
{
	TupleDesc	tupdesc;

	if (get_call_result_type(fcinfo, NULL, &tupdesc) != TYPEFUNC_COMPOSITE)
		not_declared_so(fcinfo);
	check_columns(fcinfo, row, tupdesc);
	return HeapTupleGetDatum(heap_form_tuple(BlessTupleDesc(tupdesc), row->values, row->nulls));
}

#endif							/* FC_SQL_ROW_H */
