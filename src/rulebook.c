/*-------------------------------------------------------------------------
 *
 * rulebook.c
 *	  See rulebook.h.
 *
 * Rules name their objects, so that they survive a dump, and whatever gives a
 * relation another file or another OID.  The catalogs say which files these
 * have now; the map file says it of mapped catalogs.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_type_d.h"
#include "commands/extension.h"
#include "executor/spi.h"
#include "miscadmin.h"
#include "rulebook.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"

/*
 * The best rule of each relation that has a file.  An index follows its table,
 * a TOAST table the table it belongs to: these are its chain.  $1: also rules
 * about tablespaces and the database; $2 to $5: the rules.
 *
 * What has the name of a partitioned table may be another table by now, and
 * its owner may have anything inherit from it, by more paths than can be
 * followed.  A partition has one parent.
 */
#define FC_RULES \
	"SELECT kind, schemaname, objname, policy FROM ROWS FROM (pg_catalog.unnest($2), pg_catalog.unnest($3), " \
	"pg_catalog.unnest($4), pg_catalog.unnest($5)) AS r(kind, schemaname, objname, policy)"

static const char *const resolve_sql =
"WITH RECURSIVE rules AS (" FC_RULES "), named AS ("
"  SELECT c.oid, r.kind, r.policy, r.schemaname, r.objname"
"  FROM rules r JOIN pg_catalog.pg_namespace n ON n.nspname = r.schemaname"
"    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = r.objname"
"  WHERE r.kind IN ('relation', 'partition tree')"
"), tree AS ("
"  SELECT n.oid, n.policy, n.schemaname, n.objname, 0 AS depth"
"  FROM named n JOIN pg_catalog.pg_class c ON c.oid = n.oid WHERE n.kind = 'partition tree' AND c.relkind IN ('p', 'I')"
"  UNION ALL"
"  SELECT i.inhrelid, t.policy, t.schemaname, t.objname, t.depth + 1"
"  FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid"
"    JOIN pg_catalog.pg_class c ON c.oid = i.inhrelid AND c.relispartition"
"), files AS ("
"  SELECT c.oid, CASE c.relfilenode WHEN 0 THEN pg_catalog.pg_relation_filenode(c.oid) ELSE c.relfilenode END AS file,"
"    CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END AS spc"
"  FROM pg_catalog.pg_class c, pg_catalog.pg_database d"
"  WHERE c.relkind IN ('r', 'i', 't', 'm', 'S') AND c.relpersistence = 'p' AND NOT c.relisshared"
"    AND d.datname = pg_catalog.current_database()"
"), chain AS ("
"  SELECT f.oid, f.oid AS link, 0 AS step FROM files f"
"  UNION ALL"
"  SELECT ch.oid, coalesce(x.indrelid, t.oid), ch.step + 1"
"  FROM chain ch LEFT JOIN pg_catalog.pg_index x ON x.indexrelid = ch.link"
"    LEFT JOIN pg_catalog.pg_class t ON t.reltoastrelid = ch.link"
"  WHERE x.indrelid IS NOT NULL OR t.oid IS NOT NULL"
"), candidate AS ("
"  SELECT ch.oid, n.policy, n.kind, n.schemaname, n.objname, ch.step * 10000 AS rank"
"  FROM chain ch JOIN named n ON n.oid = ch.link AND n.kind = 'relation'"
"  UNION ALL"
"  SELECT ch.oid, t.policy, 'partition tree', t.schemaname, t.objname, ch.step * 10000 + 1 + t.depth"
"  FROM chain ch JOIN tree t ON t.oid = ch.link"
"  UNION ALL"
"  SELECT ch.oid, r.policy, r.kind, r.schemaname, r.objname, 1000000 - ch.step"
"  FROM rules r JOIN pg_catalog.pg_namespace n ON n.nspname = r.objname"
"    JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid JOIN chain ch ON ch.link = c.oid"
"  WHERE r.kind = 'schema'"
"  UNION ALL"
"  SELECT f.oid, r.policy, r.kind, r.schemaname, r.objname, 2000000"
"  FROM rules r JOIN pg_catalog.pg_tablespace s ON s.spcname = r.objname JOIN files f ON f.spc = s.oid"
"  WHERE r.kind = 'tablespace' AND $1"
"  UNION ALL"
"  SELECT f.oid, r.policy, r.kind, r.schemaname, r.objname, 3000000"
"  FROM rules r, files f WHERE r.kind = 'database' AND $1"
") "
"SELECT DISTINCT ON (c.oid) c.oid, f.spc, f.file, c.policy, c.kind, c.schemaname, c.objname "
"FROM candidate c JOIN files f ON f.oid = c.oid WHERE f.file IS NOT NULL ORDER BY c.oid, c.rank";

/* All files of a tablespace, and all files. */
static const char *const wide_sql =
"WITH rules AS (" FC_RULES ") SELECT s.oid, r.policy FROM rules r JOIN pg_catalog.pg_tablespace s ON s.spcname = r.objname WHERE r.kind = 'tablespace' "
"UNION ALL SELECT 0::pg_catalog.oid, r.policy FROM rules r WHERE r.kind = 'database'";

/* Which of some files relations have, unlogged ones included: $1, $2. */
static const char *const seen_sql =
"SELECT u.spc, u.file FROM ROWS FROM (pg_catalog.unnest($1), pg_catalog.unnest($2)) AS u(spc, file)"
" JOIN pg_catalog.pg_database d ON d.datname = pg_catalog.current_database()"
" JOIN pg_catalog.pg_class c ON u.file = CASE c.relfilenode WHEN 0 THEN pg_catalog.pg_relation_filenode(c.oid) ELSE c.relfilenode END"
"   AND u.spc = CASE c.reltablespace WHEN 0 THEN d.dattablespace ELSE c.reltablespace END"
" WHERE c.relkind IN ('r', 'i', 't', 'm', 'S') AND NOT c.relisshared AND c.relpersistence <> 't'"
/* one that is being built concurrently may get another name */
"   AND NOT EXISTS (SELECT FROM pg_catalog.pg_index x WHERE x.indexrelid = c.oid AND NOT x.indisvalid)"
" ORDER BY 1, 2";

static FcRule
rule_of(const char *policy)
{
	return strcmp(policy, "keep") == 0 ? FC_RULE_KEEP :
		strcmp(policy, "none") == 0 ? FC_RULE_NONE : FC_RULE_NORMAL;
}

/*
 * The table of rules that belongs to the extension in this schema, or
 * InvalidOid.  Only its OID is used from here on: whoever owns the schema may
 * rename it, and let its name mean a table of his own.
 */
Oid
fc_rulebook_table(Oid schema)
{
	Oid			extension = get_extension_oid("pg_flashcache", true);
	Oid			table = OidIsValid(schema) ? get_relname_relid(FC_RULES_TABLE, schema) : InvalidOid;

	return OidIsValid(extension) && OidIsValid(table) &&
		getExtensionOfObject(RelationRelationId, table) == extension ? table : InvalidOid;
}

bool
fc_rulebook_trusts(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION && superuser_arg(rel->rd_rel->relowner);
}

bool
fc_rulebook_columns(Relation rel, AttrNumber *attnum)
{
	static const char *const columns[FC_RULE_COLUMNS] = {"kind", "schemaname", "objname", "policy"};
	bool		good = true;

	for (int i = 0; i < FC_RULE_COLUMNS && good; i++)
	{
		attnum[i] = get_attnum(RelationGetRelid(rel), columns[i]);
		good = attnum[i] != InvalidAttrNumber && get_atttype(RelationGetRelid(rel), attnum[i]) == TEXTOID;
	}
	return good;
}

/* Does it say `none` of files that it does not name as a whole? */
static bool
hides(Datum kind, bool kind_is_null, Datum policy, bool policy_is_null)
{
	char	   *which;

	if (kind_is_null || policy_is_null || rule_of(TextDatumGetCString(policy)) != FC_RULE_NONE)
		return false;
	which = TextDatumGetCString(kind);
	return strcmp(which, "tablespace") != 0 && strcmp(which, "database") != 0;
}

FcRules
fc_rulebook_read(Oid table)
{
	FcRules		rules = {0};
	ArrayBuildState *built[FC_RULE_COLUMNS] = {NULL};
	AttrNumber	attnum[FC_RULE_COLUMNS];
	Relation	rel = try_relation_open(table, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;
	Datum	   *values;
	bool	   *nulls;

	if (rel != NULL && fc_rulebook_trusts(rel) && fc_rulebook_columns(rel, attnum))
	{
		scan = systable_beginscan(rel, InvalidOid, false, GetActiveSnapshot(), 0, NULL);
		values = palloc(RelationGetNumberOfAttributes(rel) * sizeof(Datum));
		nulls = palloc(RelationGetNumberOfAttributes(rel) * sizeof(bool));
		while (HeapTupleIsValid(tuple = systable_getnext(scan)))
		{
			/*
			 * heap_getattr() takes a function that not all minor releases
			 * have
			 */
			heap_deform_tuple(tuple, RelationGetDescr(rel), values, nulls);
			for (int i = 0; i < FC_RULE_COLUMNS; i++)
				built[i] = accumArrayResult(built[i], values[attnum[i] - 1], nulls[attnum[i] - 1], TEXTOID, CurrentMemoryContext);
			rules.n++;
			rules.hides |= hides(values[attnum[0] - 1], nulls[attnum[0] - 1], values[attnum[3] - 1], nulls[attnum[3] - 1]);
		}
		systable_endscan(scan);
	}
	if (rel != NULL)
		relation_close(rel, NoLock);
	for (int i = 0; i < FC_RULE_COLUMNS; i++)
		rules.column[i] = built[i] ? makeArrayResult(built[i], CurrentMemoryContext) :
			PointerGetDatum(construct_empty_array(TEXTOID));
	return rules;
}

/* A column of the i-th row, in the memory of SPI. */
static char *
value(uint64 i, int column)
{
	char	   *s = SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column);

	return s != NULL ? s : pstrdup("");
}

static Oid
oid_value(uint64 i, int column)
{
	bool		isnull;
	Datum		datum = SPI_getbinval(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, column, &isnull);

	return isnull ? InvalidOid : DatumGetObjectId(datum);
}

static void
query(const char *sql, bool wide, const FcRules *rules)
{
	Oid			types[1 + FC_RULE_COLUMNS] = {BOOLOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID, TEXTARRAYOID};
	Datum		args[1 + FC_RULE_COLUMNS] = {BoolGetDatum(wide)};

	memcpy(&args[1], rules->column, sizeof(rules->column));
	if (SPI_execute_with_args(sql, lengthof(args), types, args, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the rules could not be resolved");
}

FcResolved *
fc_rulebook_resolve(const FcRules *rules, bool wide, uint32 *n)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext spi;
	FcResolved *resolved;

	SPI_connect();
	query(resolve_sql, wide, rules);
	*n = (uint32) SPI_processed;
	spi = MemoryContextSwitchTo(caller);
	resolved = palloc_extended(Max(*n, 1) * sizeof(FcResolved), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < *n; i++)
	{
		FcResolved *r = &resolved[i];

		r->relid = oid_value(i, 1);
		r->file.rel.spc = oid_value(i, 2);
		r->file.rel.db = MyDatabaseId;
		r->file.rel.rel = oid_value(i, 3);
		r->file.rule = rule_of(value(i, 4));
		r->kind = value(i, 5);
		r->schema = value(i, 6);
		r->name = value(i, 7);
	}
	MemoryContextSwitchTo(spi);
	SPI_finish();
	return resolved;
}

FcRel *
fc_rulebook_seen(const FcRel *files, uint32 n, uint32 *nseen)
{
	MemoryContext caller = CurrentMemoryContext;
	Oid			types[] = {OIDARRAYOID, OIDARRAYOID};
	Datum	   *spc = palloc_extended(Max(n, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	Datum	   *file = palloc_extended(Max(n, 1) * sizeof(Datum), MCXT_ALLOC_HUGE);
	Datum		args[2];
	MemoryContext spi;
	FcRel	   *seen;

	*nseen = 0;
	if (n == 0)
		return NULL;
	for (uint32 i = 0; i < n; i++)
	{
		spc[i] = ObjectIdGetDatum(files[i].spc);
		file[i] = ObjectIdGetDatum(files[i].rel);
	}
	args[0] = PointerGetDatum(construct_array(spc, (int) n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	args[1] = PointerGetDatum(construct_array(file, (int) n, OIDOID, sizeof(Oid), true, TYPALIGN_INT));
	SPI_connect();
	if (SPI_execute_with_args(seen_sql, lengthof(args), types, args, NULL, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the new files could not be looked up");
	spi = MemoryContextSwitchTo(caller);
	seen = palloc_extended(Max(SPI_processed, 1) * sizeof(FcRel), MCXT_ALLOC_HUGE);
	for (uint64 i = 0; i < SPI_processed; i++)
	{
		seen[i].spc = oid_value(i, 1);
		seen[i].db = MyDatabaseId;
		seen[i].rel = oid_value(i, 2);
	}
	*nseen = (uint32) SPI_processed;
	MemoryContextSwitchTo(spi);
	SPI_finish();
	return seen;
}

FcRuleFile *
fc_rulebook_wide(const FcRules *rules, uint32 *n)
{
	MemoryContext caller = CurrentMemoryContext;
	MemoryContext spi;
	FcRuleFile *files;

	SPI_connect();
	query(wide_sql, true, rules);
	*n = (uint32) SPI_processed;
	spi = MemoryContextSwitchTo(caller);
	files = palloc0(Max(*n, 1) * sizeof(FcRuleFile));
	for (uint32 i = 0; i < *n; i++)
	{
		files[i].rel.spc = oid_value(i, 1);
		files[i].rel.db = MyDatabaseId;
		files[i].rule = rule_of(value(i, 2));
	}
	MemoryContextSwitchTo(spi);
	SPI_finish();
	return files;
}
