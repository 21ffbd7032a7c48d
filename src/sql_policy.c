/*-------------------------------------------------------------------------
 *
 * sql_policy.c
 *	  Policies of objects, as SQL sees them: setting them, and what they mean.
 *
 * The rules are rows of a table, so that they are dumped, replicated and rolled
 * back as all data is.  Whatever else changes it, a trigger notes the change for
 * the end of the transaction (resolver.c).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/genam.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/namespace.h"
#include "catalog/pg_am_d.h"
#include "catalog/pg_class.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_tablespace.h"
#include "cache/cache.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/tablespace.h"
#include "commands/trigger.h"
#include "compat.h"
#include "directory/directory.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "rulebook.h"
#include "rules/rules.h"
#include "settings.h"
#include "sql_row.h"
#include "storage/lmgr.h"
#include "tcop/utility.h"
#include "stats/stats.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/syscache.h"
#include "utils/tuplestore.h"
#include "utils/varlena.h"

FC_EXPORT Datum fc_set_policy_relation(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_set_policy_object(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_policy_changed(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_policy_files(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_policy_stat(PG_FUNCTION_ARGS);
FC_EXPORT Datum fc_policy_databases(PG_FUNCTION_ARGS);

PG_FUNCTION_INFO_V1(fc_set_policy_relation);
PG_FUNCTION_INFO_V1(fc_set_policy_object);
PG_FUNCTION_INFO_V1(fc_policy_changed);
PG_FUNCTION_INFO_V1(fc_policy_files);
PG_FUNCTION_INFO_V1(fc_policy_stat);
PG_FUNCTION_INFO_V1(fc_policy_databases);

/* ---- setting ---- */

static void
check_policy(const char *policy)
{
	static const char *const policies[] = {"keep", "none", "normal", "default"};

	for (int i = 0; i < lengthof(policies); i++)
		if (strcmp(policy, policies[i]) == 0)
			return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("there is no policy \"%s\"", policy),
			 errhint("Policies are \"keep\", \"none\", \"normal\", and \"default\", which removes the rule.")));
}

static void
warn_without_effect(void)
{
	FcRulesInfo info;

	fc_rules_info(&info);
	if (!fc_rules_there())
		ereport(WARNING,
				(errmsg("the policy is noted, but has no effect in this server"),
				 errhint("Policies take a cache that is in use at the start, and a pg_flashcache.max_policy_files above 0.")));
	else if (info.without_place > 0)
		ereport(WARNING,
				(errmsg_plural("%u file has a policy that has no effect, since pg_flashcache.max_policy_files is %u",
							   "%u files have a policy that has no effect, since pg_flashcache.max_policy_files is %u",
							   info.without_place, info.without_place, info.max_files),
				 errhint("pg_stat_flashcache_policy_databases says in which databases. Raise the setting, and restart the server.")));
}

/*
 * Is the table as the extension has made it?  What somebody has added, such as
 * an index on an expression, a constraint or a foreign key, takes SQL to be
 * heeded.
 */
static bool
is_as_made(Relation rel)
{
	TupleDesc	desc = RelationGetDescr(rel);
	int			columns = 0;
	bool		plain = rel->rd_rel->relam == HEAP_TABLE_AM_OID && rel->rd_rules == NULL && !rel->rd_rel->relispartition &&
		desc->constr != NULL && desc->constr->num_check == 2 && rel->trigdesc != NULL && rel->trigdesc->numtriggers == 2;
	List	   *indexes = RelationGetIndexList(rel);
	ListCell   *lc;

	for (int i = 0; i < desc->natts; i++)
		columns += !TupleDescAttr(desc, i)->attisdropped;
	foreach(lc, indexes)
	{
		Relation	index = index_open(lfirst_oid(lc), RowExclusiveLock);

		plain &= RelationGetIndexExpressions(index) == NIL && RelationGetIndexPredicate(index) == NIL &&
			!index->rd_index->indisexclusion && index->rd_index->indimmediate;
		index_close(index, NoLock);
	}
	return plain && columns == FC_RULE_COLUMNS;
}

/*
 * Stores a rule, or removes it; false: there was none to remove.  The table is
 * opened by its OID and changed without SQL: whoever owns its schema can't have
 * another table take its name, and no lock but its own is held until the end of
 * the transaction.
 */
static bool
store(Oid function, const char *kind, const char *schema, const char *name, const char *policy)
{
	Oid			table = fc_rulebook_table(get_func_namespace(function));
	const char *text[FC_RULE_COLUMNS] = {kind, schema, name, policy};
	AttrNumber	attnum[FC_RULE_COLUMNS];
	ScanKeyData key[FC_RULE_COLUMNS - 1];
	Relation	rel;
	Snapshot	snapshot;
	SysScanDesc scan;
	HeapTuple	old;
	Datum	   *values;
	bool	   *nulls;
	bool	   *changes;
	bool		removes = strcmp(policy, "default") == 0;
	bool		found;
	int			natts;

	PreventCommandIfReadOnly("pg_flashcache_set_policy()");
	/* others who change rules wait, those who read them don't */
	rel = OidIsValid(table) ? try_relation_open(table, ShareRowExclusiveLock) : NULL;
	if (rel == NULL || rel->rd_rel->relkind != RELKIND_RELATION || !fc_rulebook_columns(rel, attnum))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the table of rules is not there"),
				 errhint("Run CREATE EXTENSION pg_flashcache, or ALTER EXTENSION pg_flashcache UPDATE.")));
	if (!fc_rulebook_trusts(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the table of rules does not belong to a superuser"),
				 errhint("Run ALTER TABLE %s OWNER TO a superuser.", RelationGetRelationName(rel))));
	if (!is_as_made(rel))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the table of rules is not as the extension has made it"),
				 errhint("Remove columns, constraints, triggers and indexes that were added to %s, or change its rows by SQL.", RelationGetRelationName(rel))));
	natts = RelationGetNumberOfAttributes(rel);
	values = palloc0(natts * sizeof(Datum));
	nulls = palloc(natts * sizeof(bool));
	changes = palloc0(natts * sizeof(bool));
	memset(nulls, true, natts * sizeof(bool));
	for (int i = 0; i < FC_RULE_COLUMNS; i++)
	{
		values[attnum[i] - 1] = CStringGetTextDatum(text[i]);
		nulls[attnum[i] - 1] = false;
		if (i < lengthof(key))
			ScanKeyInit(&key[i], attnum[i], BTEqualStrategyNumber, F_TEXTEQ, values[attnum[i] - 1]);
	}
	changes[attnum[FC_RULE_COLUMNS - 1] - 1] = true;

	/* what has been committed before the lock was there */
	snapshot = RegisterSnapshot(GetLatestSnapshot());
	scan = systable_beginscan(rel, InvalidOid, false, snapshot, lengthof(key), key);
	old = systable_getnext(scan);
	found = HeapTupleIsValid(old);
	if (found)
		CheckCmdReplicaIdentity(rel, removes ? CMD_DELETE : CMD_UPDATE);
	if (removes)
	{
		if (found)
			CatalogTupleDelete(rel, &old->t_self);
	}
	else if (found)
		CatalogTupleUpdate(rel, &old->t_self, heap_modify_tuple(old, RelationGetDescr(rel), values, nulls, changes));
	else
		CatalogTupleInsert(rel, heap_form_tuple(RelationGetDescr(rel), values, nulls));
	systable_endscan(scan);
	UnregisterSnapshot(snapshot);
	table_close(rel, NoLock);
	CommandCounterIncrement();
	fc_rules_note(FC_NOTE_RULES);	/* no trigger has been fired */
	if (!removes)
		warn_without_effect();
	return found || !removes;
}

/* The rule about a relation; that of a partitioned one is about the tree. */
static void
set_relation(Oid function, Oid relid, bool tree_only, const char *policy)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form = HeapTupleIsValid(tuple) ? (Form_pg_class) GETSTRUCT(tuple) : NULL;

	/* nothing locks it: it may have been dropped, and its row be cached still */
	const char *schema = form != NULL ? get_namespace_name(form->relnamespace) : NULL;
	bool		tree;

	if (schema == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("relation with OID %u does not exist", relid)));
	tree = form->relkind == RELKIND_PARTITIONED_TABLE || form->relkind == RELKIND_PARTITIONED_INDEX;
	if (!tree && (tree_only || strchr("rimtS", form->relkind) == NULL))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 tree_only ? errmsg("\"%s\" is not partitioned", NameStr(form->relname)) :
				 errmsg("\"%s\" has no storage", NameStr(form->relname)),
				 errhint("Relations that have a policy are tables, indexes, materialized views, TOAST tables and sequences; partitioned ones are trees.")));
	if (form->relisshared || form->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 form->relisshared ? errmsg("\"%s\" is shared by all databases, and cannot have a policy", NameStr(form->relname)) :
				 errmsg("\"%s\" is temporary, and never cached", NameStr(form->relname)),
				 errhint("Policies are about relations of one database that outlive their session.")));
	if (form->relpersistence == RELPERSISTENCE_UNLOGGED && strcmp(policy, "default") != 0)
		ereport(NOTICE,
				(errmsg("\"%s\" is unlogged, and never cached: its policy is in force once it is set to LOGGED", NameStr(form->relname))));
	store(function, tree ? "partition tree" : "relation", schema, NameStr(form->relname), policy);
	ReleaseSysCache(tuple);
}

Datum
fc_set_policy_relation(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {REGCLASSOID, TEXTOID};
	char	   *policy;

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	policy = text_to_cstring(PG_GETARG_TEXT_PP(1));
	check_policy(policy);
	set_relation(fcinfo->flinfo->fn_oid, PG_GETARG_OID(0), false, policy);
	PG_RETURN_VOID();
}

/* The search path is the function's, not the caller's. */
static RangeVar *
qualified(text *name)
{
	RangeVar   *rv = makeRangeVarFromNameList(textToQualifiedNameList(name));

	if (rv->schemaname == NULL)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_NAME),
				 errmsg("the name of a relation must have its schema"),
				 errhint("Write 'schema.table', or pass the table itself: pg_flashcache_set_policy('table'::regclass, ...).")));
	return rv;
}

/*
 * A rule can be removed when its object is there no longer, or has another name.
 * Where there is none, the object must be there: else its name is a mistake.
 */
static void
set_named(Oid function, const char *kind, text *name, const char *policy)
{
	RangeVar   *rv = qualified(name);

	if (strcmp(policy, "default") != 0 || !store(function, kind, rv->schemaname, rv->relname, policy))
		set_relation(function, RangeVarGetRelid(rv, NoLock, false), strcmp(kind, "partition tree") == 0, policy);
}

Datum
fc_set_policy_object(PG_FUNCTION_ARGS)
{
	static const Oid args[] = {TEXTOID, TEXTOID, TEXTOID};
	Oid			function = fcinfo->flinfo->fn_oid;
	char	   *kind;
	char	   *name;
	char	   *policy;
	bool		removes;

	check_declared(fcinfo, VOIDOID, false, lengthof(args), args);
	kind = text_to_cstring(PG_GETARG_TEXT_PP(0));
	name = text_to_cstring(PG_GETARG_TEXT_PP(1));
	policy = text_to_cstring(PG_GETARG_TEXT_PP(2));
	check_policy(policy);
	removes = strcmp(policy, "default") == 0;
	if (strcmp(kind, "partition tree") == 0 || strcmp(kind, "relation") == 0)
		set_named(function, kind, PG_GETARG_TEXT_PP(1), policy);
	else if (strcmp(kind, "schema") == 0)
	{
		(void) get_namespace_oid(name, removes);	/* raises */
		if (!store(function, kind, "", name, policy))
			(void) get_namespace_oid(name, false);
	}
	else if (strcmp(kind, "tablespace") == 0)
	{
		if (get_tablespace_oid(name, removes) == GLOBALTABLESPACE_OID)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("tablespace \"%s\" is shared by all databases, and cannot have a policy", name),
					 errhint("Policies are about relations of one database.")));
		if (!store(function, kind, "", name, policy))
			(void) get_tablespace_oid(name, false);
	}
	else if (strcmp(kind, "database") == 0)
	{
		if (get_database_oid(name, false) != MyDatabaseId)
			ereport(ERROR,
					(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
					 errmsg("the policy of database \"%s\" can only be set within it", name),
					 errhint("Connect to that database; the extension must have been created there.")));
		/* without its name: a dump may be restored under another one */
		store(function, kind, "", "", policy);
	}
	else
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a \"%s\" cannot have a policy", kind),
				 errhint("Kinds are \"relation\", \"partition tree\", \"schema\", \"tablespace\" and \"database\".")));
	PG_RETURN_VOID();
}

/* Trigger on the table of rules. */
Datum
fc_policy_changed(PG_FUNCTION_ARGS)
{
	if (!CALLED_AS_TRIGGER(fcinfo))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function is not called by a trigger")));
	fc_rules_note(FC_NOTE_RULES);
	PG_RETURN_POINTER(NULL);
}

/* ---- looking ---- */

static const char *
rule_name(uint32 rule)
{
	return rule == FC_RULE_KEEP ? "keep" : rule == FC_RULE_NONE ? "none" : "normal";
}

static int
compare_resolved(const void *a, const void *b)
{
	FcRel		x = (*(FcResolved *const *) a)->file.rel;
	FcRel		y = (*(FcResolved *const *) b)->file.rel;

	if (x.spc != y.spc)
		return x.spc < y.spc ? -1 : 1;
	return x.rel < y.rel ? -1 : x.rel > y.rel;
}

typedef struct Blocks
{
	uint64		flash;
	uint64		kept;
} Blocks;

/* How many pages of these n relations are on flash; in the order of `by_file`, which is sorted. */
static Blocks *
count_blocks(FcResolved **by_file, uint32 n)
{
	Blocks	   *blocks = palloc0(Max(n, 1) * sizeof(Blocks));

	for (FcSlotNo slot = 0; n > 0 && slot < fc_directory_slots(); slot++)
	{
		FcPageInfo	page;
		FcResolved	key;
		FcResolved *k = &key;
		FcResolved **found;

		if (slot % 65536 == 0)
			CHECK_FOR_INTERRUPTS();
		if (!fc_directory_page(slot, &page) || page.tag.db != MyDatabaseId)
			continue;
		key.file.rel = fc_tag_rel(&page.tag);
		found = bsearch(&k, by_file, n, sizeof(*by_file), compare_resolved);
		if (found == NULL)
			continue;
		blocks[found - by_file].flash++;
		blocks[found - by_file].kept += page.kept;
	}
	return blocks;
}

Datum
fc_policy_files(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	static const FcResolved none = {0};
	FcRules		rules;
	Oid			table;
	FcResolved *resolved;
	FcResolved **by_file;
	Blocks	   *blocks;
	uint32		n;
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	table = fc_rulebook_table(get_func_namespace(fcinfo->flinfo->fn_oid));
	if (OidIsValid(table))
		rules = fc_rulebook_read(table);
	else
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("the table of rules is not there"),
				 errhint("Run CREATE EXTENSION pg_flashcache, or ALTER EXTENSION pg_flashcache UPDATE.")));
	resolved = fc_rulebook_resolve(&rules, true, &n);
	by_file = palloc_extended(Max(n, 1) * sizeof(*by_file), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < n; i++)
		by_file[i] = &resolved[i];
	qsort(by_file, n, sizeof(*by_file), compare_resolved);
	blocks = count_blocks(by_file, n);
	for (uint32 i = 0; i < n || i == 0; i++)
	{
		const FcResolved *r = n > 0 ? by_file[i] : &none;

		row.n = 0;
		add_text(&row, r->kind);
		add_text(&row, r->schema);
		add_text(&row, r->name);
		add_oid(&row, r->relid);
		add_oid(&row, r->file.rel.rel);
		add_oid(&row, r->file.rel.spc);
		add_text(&row, rule_name(r->file.rule));
		add_text(&row, rule_name(fc_rules_published(r->file.rel)));
		add_int8(&row, blocks[i].flash);
		add_int8(&row, blocks[i].kept);
		/* the first one tells whether the columns are right */
		if (i == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		if (n > 0)
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}

Datum
fc_policy_stat(PG_FUNCTION_ARGS)
{
	Row			row = {0};
	uint64		c[FC_COUNTERS] = {0};
	TimestampTz reset_at = 0;
	FcRulesInfo info;

	check_declared(fcinfo, RECORDOID, false, 0, NULL);
	if (!fc_stats_snapshot(c, &reset_at))
		fc_stats_read(c, &reset_at);
	fc_rules_info(&info);
	add_int8(&row, fc_directory_kept());
	add_int8(&row, (uint64) fc_directory_capacity() * fc_setting_keep_limit / 100);
	add_int8(&row, c[FC_SKIP_POLICY]);
	add_int8(&row, c[FC_EVICT_POLICY]);
	add_int8(&row, c[FC_KEPT_PASSED]);
	add_int8(&row, info.max_files);
	add_int8(&row, info.files);
	add_int8(&row, info.without_place);
	add_int8(&row, info.databases_without_place);
	add_time(&row, info.looked_at);
	return return_row(fcinfo, &row);
}

static const char *
state_name(FcRulesState state)
{
	switch (state)
	{
		case FC_RULES_WAITING:
			return "waiting";
		case FC_RULES_KNOWN:
			return "known";
		case FC_RULES_LOCKED:
			return "locked";
		case FC_RULES_FAILED:
			return "failed";
	}
	return NULL;
}

Datum
fc_policy_databases(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	FcRulesDatabase *databases = palloc(FC_RULES_DATABASES * sizeof(FcRulesDatabase));
	Row			row;

	check_declared(fcinfo, RECORDOID, true, 0, NULL);
	InitMaterializedSRF(fcinfo, 0);
	fc_rules_databases(databases);
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		FcRulesDatabase d = databases[i];

		row.n = 0;
		add_oid(&row, d.db);
		add_text(&row, state_name(d.state));
		add_text(&row, d.reason[0] ? d.reason : NULL);
		add_int8(&row, d.rules);
		add_int8(&row, d.files);
		add_int8(&row, d.without_place);
		add_time(&row, d.looked_at);
		/* the first one tells whether the columns are right */
		if (i == 0)
			check_columns(fcinfo, &row, rsinfo->setDesc);
		if (OidIsValid(d.db))
			tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, row.values, row.nulls);
	}
	return (Datum) 0;
}
