/*-------------------------------------------------------------------------
 *
 * map/map_query.c
 *	  Reads a map that a query returns, and compares it with this server.
 *
 * The query is executed as the caller, read-only, and to its end before the
 * first row is given: it may call any function, ours as well.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "catalog/pg_type_d.h"
#include "executor/spi.h"
#include "executor/tstoreReceiver.h"
#include "executor/tuptable.h"
#include "map/map.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "tcop/dest.h"
#include "utils/builtins.h"
#include "utils/plancache.h"
#include "utils/tuplestore.h"

/* The map's columns, in this order. */
static const struct
{
	const char *name;
	Oid			type;
}			columns[] = {
	{"reltablespace", OIDOID},
	{"reldatabase", OIDOID},
	{"relfilenode", OIDOID},
	{"heat", INT2OID},
	{"first_block", INT8OID},
	{"pages", INT4OID},
	{"bitmap", BYTEAOID},
};

struct FcMapQuery
{
	Tuplestorestate *rows;		/* in work_mem, then in a temporary file */
	TupleTableSlot *slot;
	uint64		number;			/* of rows that were given */
};

static void
check_columns(TupleDesc desc)
{
	bool		right = desc->natts == lengthof(columns);

	for (int i = 0; right && i < lengthof(columns); i++)
		right = TupleDescAttr(desc, i)->atttypid == columns[i].type;
	if (!right)
		ereport(ERROR,
				(errcode(ERRCODE_DATATYPE_MISMATCH),
				 errmsg("the query does not return a map of a flash cache"),
				 errdetail("The columns of a map are, in this order: reltablespace oid, reldatabase oid, relfilenode oid, heat smallint, first_block bigint, pages integer, bitmap bytea."),
				 errhint("Select all columns of a table that has been filled with the rows of pg_flashcache_export_map().")));
}

static void
bad_row(uint64 number, const char *why)
{
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("row %llu of the map is not one that pg_flashcache_export_map() returns: %s",
					(unsigned long long) number, why),
			 errhint("Use the rows as they were exported.")));
}

/* Takes nothing for granted: the row may be of any table. */
static void
read_row(TupleTableSlot *slot, uint64 number, FcMapRow *row)
{
	Datum	   *value = slot->tts_values;
	bytea	   *bitmap;
	int			pages;

	slot_getallattrs(slot);
	for (int i = 0; i < lengthof(columns); i++)
		if (slot->tts_isnull[i])
			bad_row(number, psprintf("%s is null", columns[i].name));
	row->rel.spc = DatumGetObjectId(value[0]);
	row->rel.db = DatumGetObjectId(value[1]);
	row->rel.rel = DatumGetObjectId(value[2]);
	row->heat = DatumGetInt16(value[3]);
	row->first = DatumGetInt64(value[4]);
	pages = DatumGetInt32(value[5]);
	bitmap = DatumGetByteaPP(value[6]);
	row->nbytes = VARSIZE_ANY_EXHDR(bitmap);
	if (!OidIsValid(row->rel.rel))
		bad_row(number, "relfilenode is 0");
	if (row->heat < 0 || row->heat >= FC_MAP_HEATS)
		bad_row(number, psprintf("heat is %d", row->heat));
	if (row->nbytes > FC_MAP_BYTES)
		bad_row(number, psprintf("bitmap has %d bytes, more than %d", row->nbytes, FC_MAP_BYTES));
	if (row->first < 0 || row->first > (int64) MaxBlockNumber)
		bad_row(number, psprintf("first_block is " INT64_FORMAT, row->first));
	memcpy(row->bits, VARDATA_ANY(bitmap), row->nbytes);
	if ((Pointer) bitmap != DatumGetPointer(value[6]))
		pfree(bitmap);
	row->pages = (int) pg_popcount((const char *) row->bits, row->nbytes);
	if (row->pages != pages)
		bad_row(number, psprintf("pages is %d, but bitmap has %d", pages, row->pages));
}

/* Some of them return rows as well. */
static bool
changes_rows(SPIPlanPtr plan)
{
	CommandTag	tag = ((CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan)))->commandTag;

	return tag == CMDTAG_INSERT || tag == CMDTAG_UPDATE || tag == CMDTAG_DELETE || tag == CMDTAG_MERGE;
}

FcMapQuery *
fc_map_query_open(const char *query)
{
	SPIExecuteOptions how = {.read_only = true};
	FcMapQuery *map;
	SPIPlanPtr	plan;
	TupleDesc	desc;
	int			rc;

	if (SPI_connect() != SPI_OK_CONNECT)
		elog(ERROR, "SPI_connect failed");
	map = palloc0(sizeof(FcMapQuery));
	plan = SPI_prepare(query, 0, NULL);
	if (plan == NULL)
		elog(ERROR, "SPI_prepare failed: %s", SPI_result_code_string(SPI_result));
	if (!SPI_is_cursor_plan(plan) || changes_rows(plan))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the query of a map must be a single statement that returns rows and changes none"),
				 errhint("As in pg_flashcache_import_map('SELECT * FROM map ORDER BY heat DESC').")));
	desc = CreateTupleDescCopy(((CachedPlanSource *) linitial(SPI_plan_get_plan_sources(plan)))->resultDesc);
	check_columns(desc);
	map->rows = tuplestore_begin_heap(false, false, work_mem);
	how.dest = CreateDestReceiver(DestTuplestore);
	SetTuplestoreDestReceiverParams(how.dest, map->rows, CurrentMemoryContext, true, desc, "the query of a map returns other columns by now");
	rc = SPI_execute_plan_extended(plan, &how);
	if (rc < 0)
		elog(ERROR, "SPI_execute_plan_extended failed: %s", SPI_result_code_string(rc));
	map->slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	return map;
}

bool
fc_map_query_next(FcMapQuery *map, FcMapRow *row)
{
	if (!tuplestore_gettupleslot(map->rows, true, false, map->slot))
		return false;
	read_row(map->slot, ++map->number, row);
	return true;
}

void
fc_map_query_close(FcMapQuery *map)
{
	ExecDropSingleTupleTableSlot(map->slot);
	tuplestore_end(map->rows);
	SPI_finish();
}

/* Of one row; pages that cannot be are not here. */
static void
compare_row(const FcMapRow *row, FcMapCompared *result)
{
	result->named[row->heat] += row->pages;
	if (!fc_cache_in_use())
		return;
	for (int bit = 0; bit < row->nbytes * 8 && row->first + bit <= MaxBlockNumber; bit++)
	{
		FcTag		tag = {row->rel.spc, row->rel.db, row->rel.rel, (BlockNumber) (row->first + bit)};
		FcSlotRef	ref;

		if (fc_map_has(row, bit) && fc_directory_lookup(&tag, fc_directory_hash(&tag), &ref))
			result->here[row->heat]++;
	}
}

void
fc_map_compare(const char *query, FcMapCompared *result)
{
	FcMapQuery *map = fc_map_query_open(query);
	FcMapRow	row;

	while (fc_map_query_next(map, &row))
	{
		CHECK_FOR_INTERRUPTS();
		compare_row(&row, result);
	}
	fc_map_query_close(map);
}
