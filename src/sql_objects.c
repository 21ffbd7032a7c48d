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

#include <sys/stat.h>

#include "access/xact.h"
#include "cache/cache.h"
#include "catalog/pg_authid_d.h"
#include "compat.h"
#include "executor/executor.h"
#include "executor/spi.h"
#include "mb/pg_wchar.h"
#include "miscadmin.h"
#include "objects.h"
#include "sql_row.h"
#include "statements.h"
#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "stats/stats_relation.h"
#include "stats/stats_statement.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgrprotos.h"
#include "utils/hsearch.h"
#include "utils/resowner.h"
#include "utils/tuplestore.h"

FC_EXPORT Datum fc_relation_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_relation_pages(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_relation_bytes(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_statement_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_latency_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_tracking_stat(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_relation_stat);
PG_FUNCTION_INFO_V1(fc_relation_pages);
PG_FUNCTION_INFO_V1(fc_relation_bytes);
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
	add_int8(row, c[FC_REL_DISK_WRITES]);
	add_int8(row, c[FC_REL_DISK_EXTENDS]);
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

/*
 * Size of a relation's main fork, NULL if it has none or is gone.  As
 * pg_relation_size() but for the lock on the relation: a view of many must not
 * wait for whoever changes one of them.  The file may be exchanged for another
 * meanwhile.
 */
Datum
fc_relation_bytes(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {OIDOID};

	LOCAL_FCINFO(path_of, 1);
	Datum		found;
	char	   *path;
	int64		bytes = 0;

	check_declared(fcinfo, INT8OID, false, lengthof(args), args);
	InitFunctionCallInfoData(*path_of, NULL, 1, InvalidOid, NULL, NULL);
	path_of->args[0].value = PG_GETARG_DATUM(0);
	path_of->args[0].isnull = false;
	found = pg_relation_filepath(path_of);
	if (path_of->isnull)
		PG_RETURN_NULL();
	path = text_to_cstring(DatumGetTextPP(found));
	for (int segment = 0;; segment++)
	{
		char	   *file = segment == 0 ? path : psprintf("%s.%d", path, segment);
		struct stat st;

		CHECK_FOR_INTERRUPTS();
		if (stat(file, &st) == 0)
			bytes += st.st_size;
		else if (errno != ENOENT)
			ereport(ERROR, (errcode_for_file_access(), errmsg("could not stat file \"%s\": %m", file)));
		else if (segment == 0)
			PG_RETURN_NULL();
		else
			PG_RETURN_INT64(bytes);
	}
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
				 errmsg("max_slots must be greater than zero"),
				 errhint("It is how many slots of the cache are looked at, at most; the default looks at all of a cache of up to 128 GB.")));
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

/*
 * The function behind pg_stat_statements, if it is installed in this database
 * and this user may read it.  It is called by its OID: a name could mean
 * something else by then, of whoever owns the schema.
 */
#define FIND_FUNCTION \
	"SELECT p.oid FROM pg_catalog.pg_extension e " \
	"JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass " \
	"AND d.refobjid OPERATOR(pg_catalog.=) e.oid AND d.deptype OPERATOR(pg_catalog.=) 'e' " \
	"AND d.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass " \
	"JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) d.objid " \
	"JOIN pg_catalog.pg_language l ON l.oid OPERATOR(pg_catalog.=) p.prolang " \
	"WHERE e.extname OPERATOR(pg_catalog.=) 'pg_stat_statements' AND p.proname OPERATOR(pg_catalog.=) 'pg_stat_statements' " \
	"AND p.pronargs OPERATOR(pg_catalog.=) 1 AND l.lanname OPERATOR(pg_catalog.=) 'c' " \
	"AND pg_catalog.has_schema_privilege(p.pronamespace, 'USAGE') " \
	"AND pg_catalog.has_function_privilege(p.oid, 'EXECUTE')"

static Oid
find_function(void)
{
	Oid			function = InvalidOid;

	/* it raises unless its library was preloaded */
	if (strstr(shared_preload_libraries_string, "pg_stat_statements") == NULL)
		return InvalidOid;
	SPI_connect();
	if (SPI_execute(FIND_FUNCTION, true, 2) == SPI_OK_SELECT && SPI_processed == 1)
	{
		bool		isnull;

		function = DatumGetObjectId(SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &isnull));
	}
	SPI_finish();
	return function;
}

/* In bytes. */
#define LONGEST_TEXT 8192

/* Its columns have other places in each of its versions. */
static int
column(TupleDesc desc, const char *name, Oid type)
{
	for (int i = 0; i < desc->natts; i++)
		if (strcmp(NameStr(TupleDescAttr(desc, i)->attname), name) == 0 && TupleDescAttr(desc, i)->atttypid == type)
			return i;
	return -1;
}

static void
take_texts(HTAB *texts, Tuplestorestate *rows, TupleDesc desc)
{
	int			user = column(desc, "userid", OIDOID);
	int			db = column(desc, "dbid", OIDOID);
	int			query = column(desc, "queryid", INT8OID);
	int			toplevel = column(desc, "toplevel", BOOLOID);
	int			words = column(desc, "query", TEXTOID);
	TupleTableSlot *slot;

	if (user < 0 || db < 0 || query < 0 || toplevel < 0 || words < 0)
		return;
	slot = MakeSingleTupleTableSlot(desc, &TTSOpsMinimalTuple);
	while (tuplestore_gettupleslot(rows, true, false, slot))
	{
		TextKey		key = {0};
		TextEntry  *entry;
		text	   *words_of;
		int			len;

		slot_getallattrs(slot);

		/*
		 * of a statement of somebody else's this user may not see the
		 * identifier
		 */
		if (slot->tts_isnull[query] || slot->tts_isnull[words])
			continue;
		key.user = DatumGetObjectId(slot->tts_values[user]);
		key.db = DatumGetObjectId(slot->tts_values[db]);
		key.query = (uint64) DatumGetInt64(slot->tts_values[query]);
		key.toplevel = DatumGetBool(slot->tts_values[toplevel]);
		entry = hash_search(texts, &key, HASH_FIND, NULL);
		if (entry == NULL)
			continue;
		words_of = DatumGetTextPP(slot->tts_values[words]);
		len = VARSIZE_ANY_EXHDR(words_of);
		if (len > LONGEST_TEXT)
			len = pg_mbcliplen(VARDATA_ANY(words_of), len, LONGEST_TEXT);
		entry->text = pnstrdup(VARDATA_ANY(words_of), len);
	}
	ExecDropSingleTupleTableSlot(slot);
}

/* A statement that has counters, and that this user may see: those of his own roles, as in pg_stat_activity. */
static bool
read_statement(uint32 i, bool sees_all, FcStatement *s, uint64 *c)
{
	return fc_stats_statement_read(i, s, c) && (sees_all || has_privs_of_role(GetUserId(), s->user));
}

/* Asks that function, and takes what it has of those statements. */
static void
ask_for_texts(Oid function, HTAB *texts)
{
	ReturnSetInfo rsinfo = {.type = T_ReturnSetInfo,.allowedModes = SFRM_Materialize};
	FmgrInfo	flinfo;

	LOCAL_FCINFO(call, 1);

	rsinfo.econtext = CreateStandaloneExprContext();
	rsinfo.returnMode = SFRM_ValuePerCall;
	fmgr_info(function, &flinfo);
	InitFunctionCallInfoData(*call, &flinfo, 1, InvalidOid, NULL, (Node *) &rsinfo);
	call->args[0].value = BoolGetDatum(true);
	call->args[0].isnull = false;
	(void) FunctionCallInvoke(call);
	if (rsinfo.returnMode == SFRM_Materialize && rsinfo.setResult != NULL)
	{
		take_texts(texts, rsinfo.setResult, rsinfo.setDesc);
		tuplestore_end(rsinfo.setResult);
	}
	FreeExprContext(rsinfo.econtext, true);
}

/* That a text has no form in the encoding of this database. */
static bool
of_encoding(int sqlstate)
{
	/* the last one: nothing converts between the two */
	return sqlstate == ERRCODE_CHARACTER_NOT_IN_REPERTOIRE || sqlstate == ERRCODE_UNTRANSLATABLE_CHARACTER ||
		sqlstate == ERRCODE_UNDEFINED_FUNCTION;
}

/*
 * pg_stat_statements has the statements of all databases, in their encodings,
 * and answers nobody while one of them can't be converted.  That is no reason
 * to show no counters: false then, and `problem` says why.
 */
static bool
try_texts(Oid function, HTAB *texts, char *problem, Size size)
{
	MemoryContext context = CurrentMemoryContext;
	ResourceOwner owner = CurrentResourceOwner;
	volatile bool done = false;

	BeginInternalSubTransaction(NULL);
	MemoryContextSwitchTo(context);
	PG_TRY();
	{
		ask_for_texts(function, texts);
		ReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		done = true;
	}
	PG_CATCH();
	{
		ErrorData  *error;

		MemoryContextSwitchTo(context);
		error = CopyErrorData();
		FlushErrorState();
		RollbackAndReleaseCurrentSubTransaction();
		MemoryContextSwitchTo(context);
		CurrentResourceOwner = owner;
		if (!of_encoding(error->sqlerrcode))
			ReThrowError(error);
		strlcpy(problem, error->message, size);
		FreeErrorData(error);
	}
	PG_END_TRY();
	return done;
}

/*
 * The texts of those statements, as far as this user may see them; NULL where
 * they can't be had.  Of others, and of what is longer than LONGEST_TEXT, there
 * may be any amount.
 */
static HTAB *
read_texts(bool sees_all)
{
	HASHCTL		ctl = {.keysize = sizeof(TextKey),.entrysize = sizeof(TextEntry),.hcxt = CurrentMemoryContext};
	Oid			function = find_function();
	char		problem[256];
	HTAB	   *texts;
	FcStatement s = {0};
	uint64		c[FC_PLACE_COUNTERS] = {0};

	if (!OidIsValid(function))
		return NULL;
	texts = hash_create("statement texts", 256, &ctl, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
	for (uint32 i = 0; i < fc_stats_statement_places(); i++)
		if (read_statement(i, sees_all, &s, c))
		{
			TextKey		key = {s.user, s.db, s.query, s.toplevel};
			TextEntry  *entry = hash_search(texts, &key, HASH_ENTER, NULL);

			entry->text = NULL;
		}
	/* a parallel query can't have a subtransaction */
	if (IsInParallelMode())
		ask_for_texts(function, texts);
	else if (!try_texts(function, texts, problem, sizeof(problem)))
	{
		ereport(NOTICE,
				(errmsg("texts of statements are not shown: %s", problem),
				 errhint("pg_stat_statements has one of a database with another encoding. pg_stat_statements(false) shows of which databases it has statements, pg_stat_statements_reset() removes those of one.")));
		return NULL;
	}
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
	add_int8(row, c[FC_STATEMENT_MISSES]);
	add_us(row, c[FC_STATEMENT_READ_NS]);
	add_int8(row, c[FC_STATEMENT_DISK_READS]);
	add_us(row, c[FC_STATEMENT_DISK_READ_NS]);
	add_int8(row, c[FC_STATEMENT_OS_CACHE_HITS]);
	add_text(row, text);
}

Datum
fc_statement_stat(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {BOOLOID};
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	bool		sees_all = has_privs_of_role(GetUserId(), ROLE_PG_READ_ALL_STATS);
	uint64		c[FC_PLACE_COUNTERS] = {0};
	FcStatement s = {0};
	bool		none = true;
	const char *reason;
	const char *hint;
	HTAB	   *texts;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, lengthof(args), args);
	InitMaterializedSRF(fcinfo, 0);
	make_statement_row(&row, &s, c, NULL);
	check_columns(fcinfo, &row, rsinfo->setDesc);
	texts = PG_GETARG_BOOL(0) ? read_texts(sees_all) : NULL;
	for (uint32 i = 0; i < fc_stats_statement_places(); i++)
	{
		if (!read_statement(i, sees_all, &s, c))
			continue;
		make_statement_row(&row, &s, c, text_of(texts, &s));
		put(rsinfo, &row);
		none = false;
	}
	/* who reads texts is a person, who would wonder */
	if (none && PG_GETARG_BOOL(0) && (reason = fc_statements_reason(&hint)) != NULL)
		ereport(NOTICE,
				(errmsg("statements are not counted: %s", reason),
				 errhint("%s", hint)));
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
	const char *hint = NULL;
	const char *reason = fc_statements_reason(&hint);
	uint64		given_up;
	Row			row = {0};

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	add(&row, INT4OID, Int32GetDatum((int32) fc_stats_relations_tracked()), false);
	add(&row, INT4OID, Int32GetDatum(fc_setting_max_tracked_relations), false);
	add(&row, INT4OID, Int32GetDatum((int32) fc_stats_statements_tracked(&given_up)), false);
	add(&row, INT4OID, Int32GetDatum(fc_setting_max_tracked_statements), false);
	add_int8(&row, given_up);
	add_text(&row, reason);
	add_text(&row, reason != NULL ? hint : NULL);
	add_time(&row, fc_stats_reset_at());
	return return_row(fcinfo, &row);
}
