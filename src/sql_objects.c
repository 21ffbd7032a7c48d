/*-------------------------------------------------------------------------
 *
 * sql_objects.c
 *	  What SQL sees of relations, statements and latency.
 *
 * Privileges are granted in the extension script.  docs/views.md describes
 * the columns for users.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "catalog/pg_authid_d.h"
#include "compat.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "objects.h"
#include "sql_row.h"
#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "stats/stats_relation.h"
#include "stats/stats_statement.h"
#include "utils/acl.h"
#include "utils/hsearch.h"
#include "utils/tuplestore.h"

FC_EXPORT Datum fc_relation_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_relation_pages(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_statement_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_latency_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_tracking_stat(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_relation_stat);
PG_FUNCTION_INFO_V1(fc_relation_pages);
PG_FUNCTION_INFO_V1(fc_statement_stat);
PG_FUNCTION_INFO_V1(fc_latency_stat);
PG_FUNCTION_INFO_V1(fc_tracking_stat);

static void
put(ReturnSetInfo *rsinfo, Row *row)
{
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row->values, row->nulls);
}

/* ---- relations ---- */

static void
make_relation_row(Row *row, Oid relid, const uint64 *c)
{
	row->n = 0;
	add(row, OIDOID, ObjectIdGetDatum(relid), !OidIsValid(relid));
	add_int8(row, c[FC_REL_HITS]);
	add_us(row, c[FC_REL_READ_NS]);
	add_int8(row, c[FC_REL_DISK_READS]);
	add_us(row, c[FC_REL_DISK_READ_NS]);
	add_int8(row, c[FC_REL_OS_CACHE_HITS]);
	add_int8(row, c[FC_REL_INSERTS]);
	add_int8(row, c[FC_REL_INVALIDATIONS]);
	add_int8(row, c[FC_REL_USELESS]);
	add_time(row, fc_stats_reset_at());
}

static bool
was_counted(const uint64 *c)
{
	for (int i = 0; i < FC_REL_COUNTERS; i++)
		if (c[i] != 0)
			return true;
	return false;
}

/*
 * Relations of this database, and shared ones, that were counted; and in the
 * last row the rest, with what nobody can name: a relation whose transaction
 * has not ended, or that is gone since we looked.
 */
Datum
fc_relation_stat(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	uint64		c[FC_PLACE_COUNTERS] = {0};
	uint64		rest[FC_PLACE_COUNTERS] = {0};
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	make_relation_row(&row, InvalidOid, rest);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	for (uint32 i = 0; i < fc_stats_relation_places(); i++)
	{
		FcRel		rel;
		Oid			relid = InvalidOid;

		if (!fc_stats_relation_read(i, &rel, c) || !was_counted(c))
			continue;
		if (rel.db != MyDatabaseId && (OidIsValid(rel.db) || rel.rel == 0))
			continue;
		if (rel.rel != 0)
			relid = fc_relation_of(rel.spc, rel.rel);
		if (OidIsValid(relid))
		{
			make_relation_row(&row, relid, c);
			put(rsinfo, &row);
		}
		else if (OidIsValid(rel.db))
			for (int k = 0; k < FC_REL_COUNTERS; k++)
				rest[k] += c[k];
	}
	if (fc_stats_relation_places() > 0)
	{
		make_relation_row(&row, InvalidOid, rest);
		put(rsinfo, &row);
	}
	return (Datum) 0;
}

/* What flash and shared buffers hold of the relations of this database, and of shared ones. */
Datum
fc_relation_pages(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {INT8OID};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcObject	object = {{0}};
	FcObjects  *objects;
	int64		max_slots;
	uint32		every = 0;
	Row			row = {0};

	check_declared(fcinfo, RECORDOID, true, lengthof(args), args);
	max_slots = PG_GETARG_INT64(0);
	if (max_slots <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("max_slots must be greater than zero")));
	InitMaterializedSRF(fcinfo, 0);
	objects = fc_objects_count(MyDatabaseId, max_slots, &every);
	for (bool more = true, first = true; more; first = false)
	{
		if (!first && !(more = fc_objects_next(objects, &object)))
			break;
		row.n = 0;
		add(&row, OIDOID, ObjectIdGetDatum(first ? InvalidOid : fc_relation_of(object.rel.spc, object.rel.rel)), false);
		add_int8(&row, object.flash);
		add_int8(&row, object.buffers);
		add(&row, INT4OID, Int32GetDatum((int32) every), false);
		/* the first one tells whether the columns are right */
		if (first)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		else if (DatumGetObjectId(row.values[0]) != InvalidOid)
			put(rsinfo, &row);
	}
	return (Datum) 0;
}

/* ---- statements ---- */

typedef struct TextKey
{
	uint64		user;
	uint64		db;
	uint64		query;
	uint64		toplevel;
} TextKey;

typedef struct TextEntry
{
	TextKey		key;
	char	   *text;
} TextEntry;

/* Where pg_stat_statements is installed in this database, and may be read. */
#define FIND_VIEW \
	"SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) " \
	"FROM pg_catalog.pg_extension e " \
	"JOIN pg_catalog.pg_namespace n ON n.oid OPERATOR(pg_catalog.=) e.extnamespace " \
	"JOIN pg_catalog.pg_class c ON c.relnamespace OPERATOR(pg_catalog.=) n.oid " \
	"JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) c.oid " \
	"WHERE e.extname OPERATOR(pg_catalog.=) 'pg_stat_statements' " \
	"AND c.relname OPERATOR(pg_catalog.=) 'pg_stat_statements' " \
	"AND a.attname OPERATOR(pg_catalog.=) 'toplevel' AND NOT a.attisdropped " \
	"AND pg_catalog.has_schema_privilege(n.oid, 'USAGE') " \
	"AND pg_catalog.has_table_privilege(c.oid, 'SELECT')"

/* Its rows as it shows them to this user, so that nobody gets to see a text that he may not. */
#define READ_VIEW \
	"SELECT userid, dbid, queryid, toplevel, query FROM %s " \
	"WHERE queryid IS NOT NULL AND query IS NOT NULL"

static void
take_text(HTAB *texts, HeapTuple tuple, TupleDesc desc, MemoryContext keep)
{
	TextKey		key = {0};
	TextEntry  *entry;
	bool		isnull;
	bool		found;

	key.user = DatumGetObjectId(SPI_getbinval(tuple, desc, 1, &isnull));
	key.db = DatumGetObjectId(SPI_getbinval(tuple, desc, 2, &isnull));
	key.query = (uint64) DatumGetInt64(SPI_getbinval(tuple, desc, 3, &isnull));
	key.toplevel = DatumGetBool(SPI_getbinval(tuple, desc, 4, &isnull));
	entry = hash_search(texts, &key, HASH_ENTER, &found);
	entry->text = MemoryContextStrdup(keep, TextDatumGetCString(SPI_getbinval(tuple, desc, 5, &isnull)));
}

/* The texts of statements; NULL where they can't be had. */
static HTAB *
read_texts(void)
{
	MemoryContext keep = CurrentMemoryContext;
	HASHCTL		ctl = {.keysize = sizeof(TextKey),.entrysize = sizeof(TextEntry),.hcxt = keep};
	HTAB	   *texts = NULL;
	char	   *view;

	/* the view raises unless the library was preloaded */
	if (strstr(shared_preload_libraries_string, "pg_stat_statements") == NULL)
		return NULL;
	SPI_connect();
	if (SPI_execute(FIND_VIEW, true, 1) == SPI_OK_SELECT && SPI_processed == 1)
	{
		view = SPI_getvalue(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1);
		texts = hash_create("statement texts", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
		if (SPI_execute(psprintf(READ_VIEW, view), true, 0) == SPI_OK_SELECT)
			for (uint64 i = 0; i < SPI_processed; i++)
				take_text(texts, SPI_tuptable->vals[i], SPI_tuptable->tupdesc, keep);
	}
	SPI_finish();
	return texts;
}

static const char *
text_of(HTAB *texts, const FcStatement *s)
{
	TextKey		key = {s->user, s->db, s->query, s->toplevel};
	TextEntry  *entry = texts ? hash_search(texts, &key, HASH_FIND, NULL) : NULL;

	return entry ? entry->text : NULL;
}

static void
make_statement_row(Row *row, const FcStatement *s, const uint64 *c, const char *text)
{
	row->n = 0;
	add_oid(row, s->user);
	add_oid(row, s->db);
	add_int8(row, s->query);
	add(row, BOOLOID, BoolGetDatum(s->toplevel), false);
	add_int8(row, c[FC_STATEMENT_CALLS]);
	add_int8(row, c[FC_STATEMENT_HITS]);
	add_us(row, c[FC_STATEMENT_READ_NS]);
	add_int8(row, c[FC_STATEMENT_DISK_READS]);
	add_us(row, c[FC_STATEMENT_DISK_READ_NS]);
	add_int8(row, c[FC_STATEMENT_OS_CACHE_HITS]);
	add_text(row, text);
}

/* Everybody sees his own statements, and those of others who may. */
Datum
fc_statement_stat(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {BOOLOID};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		sees_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	uint64		c[FC_PLACE_COUNTERS] = {0};
	FcStatement s = {0};
	HTAB	   *texts;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, lengthof(args), args);
	InitMaterializedSRF(fcinfo, 0);
	make_statement_row(&row, &s, c, NULL);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	texts = PG_GETARG_BOOL(0) ? read_texts() : NULL;
	for (uint32 i = 0; i < fc_stats_statement_places(); i++)
	{
		if (!fc_stats_statement_read(i, &s, c) || (!sees_all && s.user != GetUserId()))
			continue;
		make_statement_row(&row, &s, c, text_of(texts, &s));
		put(rsinfo, &row);
	}
	return (Datum) 0;
}

/* ---- latency ---- */

Datum
fc_latency_stat(PG_FUNCTION_ARGS)
{
	static const char *const processes[FC_PROCESS_KINDS] = {
		[FC_CLIENT_BACKEND] = "client backend",
		[FC_PARALLEL_WORKER] = "parallel worker",
		[FC_AUTOVACUUM_WORKER] = "autovacuum worker",
		[FC_OTHER_PROCESS] = "other",
	};
	static const char *const operations[FC_LATENCIES] = {
		[FC_LATENCY_DISK_READ] = "disk read",
		[FC_LATENCY_PAGE_CACHE_READ] = "page cache read",
		[FC_LATENCY_FLASH_READ] = "flash read",
		[FC_LATENCY_FLASH_WRITE] = "flash write",
	};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < FC_PROCESS_KINDS * FC_LATENCIES * FC_LATENCY_BUCKETS; i++)
	{
		int			who = i / (FC_LATENCIES * FC_LATENCY_BUCKETS);
		int			what = i / FC_LATENCY_BUCKETS % FC_LATENCIES;
		int			b = i % FC_LATENCY_BUCKETS;

		row.n = 0;
		add_text(&row, processes[who]);
		add_text(&row, operations[what]);
		add(&row, INT4OID, Int32GetDatum(b), false);
		add_int8(&row, b == 0 ? 0 : UINT64CONST(1) << (b - 1));
		add(&row, INT8OID, Int64GetDatum(INT64CONST(1) << b), b == FC_LATENCY_BUCKETS - 1);
		add_int8(&row, fc_stats_latency(who, what, b));
		if (i == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		put(rsinfo, &row);
	}
	return (Datum) 0;
}

/* ---- how full the tables are ---- */

Datum
fc_tracking_stat(PG_FUNCTION_ARGS)
{
	uint64		given_up;
	Row			row = {0};

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	add(&row, INT4OID, Int32GetDatum((int32) fc_stats_relations_tracked()), false);
	add(&row, INT4OID, Int32GetDatum(fc_setting_max_tracked_relations), false);
	add(&row, INT4OID, Int32GetDatum((int32) fc_stats_statements_tracked(&given_up)), false);
	add(&row, INT4OID, Int32GetDatum(fc_setting_max_tracked_statements), false);
	add_int8(&row, given_up);
	add_time(&row, fc_stats_reset_at());
	return return_row(fcinfo, &row);
}
