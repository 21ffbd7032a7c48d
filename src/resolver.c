/*-------------------------------------------------------------------------
 *
 * resolver.c
 *	  See resolver.h.
 *
 * Rules name their objects, so that they survive a dump, and whatever gives a
 * relation another file or another OID.  The catalogs say which files these
 * have now; the map file says it of mapped catalogs.
 *
 * Nobody is to wait for this, and it waits for nobody: the few catalogs that
 * are read are locked only where that is possible at once, relations are not
 * locked at all, and what is locked deeper down ends the look after LOCK_MS.
 * While it lasts nobody can drop, move or copy the database, so it is ended
 * after LOOK_MS at the latest.  Settings of the database or of the role do not
 * count, which its owner has made: he could have it take a plan that never ends.
 * What goes wrong may go wrong every few seconds: the view shows it, not the
 * log; but for what happens while the database is entered.
 *
 * The table of rules is trusted only where it is the extension's and a
 * superuser's.
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
#include "access/xlog.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type_d.h"
#include "utils/fmgroids.h"
#include "commands/extension.h"
#include "compat.h"
#include "executor/spi.h"
#include "handoff.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "resolver.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/array.h"
#include "utils/builtins.h"
#include "utils/guc.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#define RULES_TABLE "pg_flashcache_policy_rules"
#define LOCK_MS "1000"
#define LOOK_MS 30000

#define MOST_DATABASES 65536

/*
 * The best rule of each relation that has a file.  An index follows its table,
 * a TOAST table the table it belongs to: these are its chain.  $1: also rules
 * about tablespaces and the database; $2 to $5: the rules.
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
"  SELECT oid, policy, schemaname, objname, 0 AS depth FROM named WHERE kind = 'partition tree'"
"  UNION ALL"
"  SELECT i.inhrelid, t.policy, t.schemaname, t.objname, t.depth + 1"
"  FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid"
"), files AS ("
"  SELECT c.oid, pg_catalog.pg_relation_filenode(c.oid) AS file,"
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
fc_resolver_table(Oid schema)
{
	Oid			extension = get_extension_oid("pg_flashcache", true);
	Oid			table = OidIsValid(schema) ? get_relname_relid(RULES_TABLE, schema) : InvalidOid;

	return OidIsValid(extension) && OidIsValid(table) &&
		getExtensionOfObject(RelationRelationId, table) == extension ? table : InvalidOid;
}

bool
fc_resolver_trusts(Relation rel)
{
	return rel->rd_rel->relkind == RELKIND_RELATION && superuser_arg(rel->rd_rel->relowner);
}

bool
fc_resolver_columns(Relation rel, AttrNumber *attnum)
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

FcRules
fc_resolver_rules(Oid table)
{
	FcRules		rules = {0};
	ArrayBuildState *built[FC_RULE_COLUMNS] = {NULL};
	AttrNumber	attnum[FC_RULE_COLUMNS];
	Relation	rel = try_relation_open(table, AccessShareLock);
	SysScanDesc scan;
	HeapTuple	tuple;
	Datum	   *values;
	bool	   *nulls;

	if (rel != NULL && fc_resolver_trusts(rel) && fc_resolver_columns(rel, attnum))
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
fc_resolver_resolve(const FcRules *rules, bool wide, uint32 *n)
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

/* ---- the worker ---- */

/*
 * The table of rules of this database, locked; InvalidOid if there is none
 * that counts, or, *locked, somebody keeps it from being read.
 */
static Oid
find_rules(bool *locked)
{
	Oid			extension = get_extension_oid("pg_flashcache", true);
	Oid			schema = InvalidOid;
	Oid			table;
	HeapTuple	tuple;
	Relation	rel;
	bool		trusted;
	ScanKeyData key;
	SysScanDesc scan;

	*locked = false;
	if (!OidIsValid(extension))
		return InvalidOid;
	rel = table_open(ExtensionRelationId, AccessShareLock);
	ScanKeyInit(&key, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(extension));
	scan = systable_beginscan(rel, ExtensionOidIndexId, true, NULL, 1, &key);
	if (HeapTupleIsValid(tuple = systable_getnext(scan)))
		schema = ((Form_pg_extension) GETSTRUCT(tuple))->extnamespace;
	systable_endscan(scan);
	table_close(rel, NoLock);
	table = fc_resolver_table(schema);
	if (!OidIsValid(table))
		return InvalidOid;
	if (!ConditionalLockRelationOid(table, AccessShareLock))
	{
		*locked = true;
		return InvalidOid;
	}
	rel = try_relation_open(table, NoLock);
	if (rel == NULL)
		return InvalidOid;
	trusted = fc_resolver_trusts(rel);
	relation_close(rel, NoLock);
	return trusted ? table : InvalidOid;
}

/* True if nobody keeps the catalogs from being read, until the end of the transaction. */
static bool
lock_catalogs(void)
{
	static const Oid catalogs[] = {
		RelationRelationId, NamespaceRelationId, InheritsRelationId, IndexRelationId,
		ExtensionRelationId, DependRelationId, TableSpaceRelationId, DatabaseRelationId,
	};

	for (int i = 0; i < lengthof(catalogs); i++)
		if (!ConditionalLockRelationOid(catalogs[i], AccessShareLock))
			return false;
	return true;
}

static void
publish(Oid table)
{
	FcRules		rules = fc_resolver_rules(table);
	uint32		n = 0;
	uint32		nwide;
	FcResolved *resolved;
	FcRuleFile *files;

	if (rules.n == 0)
	{
		fc_rules_publish(MyDatabaseId, NULL, 0, 0);
		return;
	}
	resolved = fc_resolver_resolve(&rules, false, &n);
	SPI_connect();
	query(wide_sql, true, &rules);
	nwide = (uint32) SPI_processed;
	files = palloc_extended((n + nwide + 1) * sizeof(FcRuleFile), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < n; i++)
		files[i] = resolved[i].file;
	for (uint32 i = 0; i < nwide; i++)
	{
		FcRuleFile *file = &files[n + i];

		file->rel.spc = oid_value(i, 1);
		file->rel.db = MyDatabaseId;
		file->rel.rel = InvalidOid;
		file->rule = rule_of(value(i, 2));
	}
	fc_rules_publish(MyDatabaseId, files, n + nwide, rules.n);
	SPI_finish();
}

/*
 * Is there a prepared transaction of this database, so that COMMIT PREPARED
 * may change something?  On a standby nobody says it; it is asked again once
 * it is a primary.
 */
static void
look_at_prepared(void)
{
	uint32		prepared = fc_rules_prepared(MyDatabaseId);
	Oid			types[] = {OIDOID};
	Datum		args[] = {ObjectIdGetDatum(MyDatabaseId)};

	if (prepared == 0 || RecoveryInProgress())
		return;
	SPI_connect();
	if (SPI_execute_with_args("SELECT FROM pg_catalog.pg_prepared_xact() p WHERE p.dbid OPERATOR(pg_catalog.=) $1",
							  lengthof(types), types, args, NULL, true, 1) == SPI_OK_SELECT && SPI_processed == 0)
		fc_rules_none_prepared(MyDatabaseId, prepared);
	SPI_finish();
}

static void
look_at_rules(void)
{
	LOCKTAG		lock;
	Oid			table;
	bool		locked;

	SET_LOCKTAG_OBJECT(lock, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	if (LockAcquire(&lock, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		fc_rules_failed(MyDatabaseId, FC_RULES_LOCKED, "somebody is about to drop, move or copy the database");
	else if (!lock_catalogs())
		fc_rules_failed(MyDatabaseId, FC_RULES_LOCKED, "a system catalog is locked");
	else if (OidIsValid(table = find_rules(&locked)))
		publish(table);
	else if (locked)
		fc_rules_failed(MyDatabaseId, FC_RULES_LOCKED, "the table of rules is locked");
	else
		fc_rules_publish(MyDatabaseId, NULL, 0, 0);
}

/* Which databases there are that can have rules. */
static void
look_at_databases(void)
{
	Oid		   *dbs = palloc(MOST_DATABASES * sizeof(Oid));
	int			n = 0;
	Relation	rel;
	SysScanDesc scan;
	HeapTuple	tuple;

	if (!ConditionalLockRelationOid(DatabaseRelationId, AccessShareLock))
	{
		fc_rules_want_list();
		return;
	}
	rel = table_open(DatabaseRelationId, NoLock);
	scan = systable_beginscan(rel, InvalidOid, false, NULL, 0, NULL);
	while (HeapTupleIsValid(tuple = systable_getnext(scan)) && n < MOST_DATABASES)
	{
		Form_pg_database db = (Form_pg_database) GETSTRUCT(tuple);

		if (db->datallowconn && db->datconnlimit >= -1)
			dbs[n++] = db->oid;
	}
	systable_endscan(scan);
	table_close(rel, NoLock);
	fc_rules_databases_are(dbs, n);
}

/* What a database or a role has set must not change, delay or prevent the look. */
static void
own_settings(void)
{
	static const char *const settings[][2] = {
		{"search_path", "pg_catalog, pg_temp"},
		{"lock_timeout", LOCK_MS},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
		{"max_parallel_workers_per_gather", "0"},
		{"jit", "off"},
		{"row_security", "on"},
		{"log_statement", "none"},
		{"log_min_duration_statement", "-1"},
		{"log_lock_waits", "off"},
		{"transaction_timeout", "0"},
	};

	for (int i = 0; i < lengthof(settings); i++)
		if (GetConfigOption(settings[i][0], true, false) != NULL)
			(void) set_config_option(settings[i][0], settings[i][1], PGC_SUSET, PGC_S_OVERRIDE,
									 GUC_ACTION_SET, true, DEBUG1, false);
}

/* Whatever else the database's owner has set for it is as it is in a server that has just been made. */
static void
discard_settings(void)
{
	MemoryContext caller = CurrentMemoryContext;
	static const char *const sql =
		"SELECT s.name, s.boot_val FROM pg_catalog.pg_show_all_settings() s"
		" WHERE s.source OPERATOR(pg_catalog.=) ANY (ARRAY['database', 'user', 'database user'])"
		" AND s.context OPERATOR(pg_catalog.=) ANY (ARRAY['user', 'superuser'])";

	SPI_connect();
	if (SPI_execute(sql, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the settings could not be read");
	for (uint64 i = 0; i < SPI_processed; i++)
		(void) set_config_option(value(i, 1), value(i, 2), PGC_SUSET, PGC_S_OVERRIDE,
								 GUC_ACTION_SET, true, DEBUG1, false);
	SPI_finish();
	MemoryContextSwitchTo(caller);
}

/* A stop of the server does not wait for a look: its query is cancelled, which ends the worker without a FATAL. */
static void
on_sigterm(SIGNAL_ARGS)
{
	int			save_errno = errno;

	ShutdownRequestPending = true;
	InterruptPending = true;
	QueryCancelPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

void
fc_resolver_run(Oid db)
{
	MemoryContext memory;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, OidIsValid(db) ? BGWORKER_BYPASS_ALLOWCONN : 0);
	/* from here on it waits for nobody for long, and can end without a FATAL */
	pqsignal(SIGTERM, on_sigterm);
	own_settings();
	memory = CurrentMemoryContext;
	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, "looking at the policies of flash cache");
	PG_TRY();
	{
		StartTransactionCommand();
		PushActiveSnapshot(GetTransactionSnapshot());
		enable_timeout_after(STATEMENT_TIMEOUT, LOOK_MS);
		if (OidIsValid(db))
		{
			discard_settings();
			look_at_prepared();
			look_at_rules();
		}
		else
			look_at_databases();
		disable_timeout(STATEMENT_TIMEOUT, false);
		PopActiveSnapshot();
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		ErrorData  *error;

		disable_timeout(STATEMENT_TIMEOUT, false);
		MemoryContextSwitchTo(memory);
		error = CopyErrorData();
		FlushErrorState();
		AbortCurrentTransaction();
		if (OidIsValid(db))
			fc_rules_failed(db, error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ? FC_RULES_LOCKED : FC_RULES_FAILED, error->message);
		else
			fc_rules_want_list();
	}
	PG_END_TRY();
	pgstat_report_activity(STATE_IDLE, NULL);
}

/* ---- whoever changes something ---- */

/*
 * Takes effect with the transaction; who comes to the end of it waits for
 * nothing.  Of one that is prepared it is noted before others can see it, and
 * once more when they can: a look in between may have found none.
 */
static void
at_end(XactEvent event, void *arg)
{
	uint32		notes = fc_rules_notes;
	bool		prepares = event == XACT_EVENT_PRE_PREPARE || event == XACT_EVENT_PREPARE;

	if (likely(notes == 0) || event == XACT_EVENT_PRE_COMMIT || event == XACT_EVENT_PARALLEL_PRE_COMMIT)
		return;
	if (event != XACT_EVENT_PRE_PREPARE)
		fc_rules_notes = 0;
	if (event != XACT_EVENT_COMMIT && !prepares)
		return;
	if ((notes & (FC_NOTE_RULES | FC_NOTE_PREPARED)) == 0 && !fc_rules_has(MyDatabaseId))
		notes &= ~FC_NOTE_FILES;
	if (prepares)
	{
		if ((notes & (FC_NOTE_RULES | FC_NOTE_FILES)) != 0)
			fc_rules_set_prepared(MyDatabaseId);
		return;
	}
	if (notes == 0)
		return;
	if (notes & FC_NOTE_DATABASES)
		fc_rules_want_list();
	if (notes & (FC_NOTE_RULES | FC_NOTE_FILES | FC_NOTE_PREPARED))
		fc_rules_want(MyDatabaseId, (notes & FC_NOTE_RULES) != 0);
	fc_handoff_wake();
}

void
fc_resolver_init(void)
{
	RegisterXactCallback(at_end, NULL);
}
