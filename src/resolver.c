/*-------------------------------------------------------------------------
 *
 * resolver.c
 *	  See resolver.h.
 *
 * Nobody is to wait for this, and it waits for nobody: the few catalogs that
 * are read are locked only where that is possible at once, relations are not
 * locked at all, and what is locked deeper down, or keeps the database from
 * being entered, ends the look after LOCK_MS.  While it lasts nobody can drop,
 * move or copy the database, so it is ended after fc_rules_patience_ms() at the
 * latest.  Settings of the database or of the role do not count, which its owner
 * has made: he could have it take a plan that never ends.  What goes wrong may
 * go wrong every few seconds: the view shows it, not the log; but for what
 * happens while the database is entered, after which the worker is gone.
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
#include "catalog/pg_authid.h"
#include "catalog/pg_class.h"
#include "catalog/pg_database.h"
#include "catalog/pg_depend.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_index.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_namespace.h"
#include "catalog/pg_tablespace.h"
#include "catalog/pg_type_d.h"
#include "commands/extension.h"
#include "compat.h"
#include "executor/spi.h"
#include "failpoint.h"
#include "handoff.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "resolver.h"
#include "rulebook.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/fmgroids.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/rel.h"
#include "utils/snapmgr.h"
#include "utils/timeout.h"

#define LOCK_MS "1000"

/* A look writes no more than this beside the data. */
#define TEMP_FILES_KB "1048576"

#define LIST_MS 5000

#define MOST_DATABASES 65536

/* ---- the worker ---- */

static uint32 this_look;		/* its number */

static void
failed(FcRulesState state, const char *reason)
{
	fc_rules_failed(MyDatabaseId, this_look, state, reason);
}

static void
published(FcRuleFile *files, uint32 n, const FcRulesFound *found)
{
	fc_rules_publish(MyDatabaseId, this_look, files, n, found);
}

/* The new files that are known from now on: the snapshot by which rules are resolved sees whose they are. */
static FcRulesFound
look_at_new_files(void)
{
	FcRulesFound found = {0};
	uint32		n;
	FcRel	   *files = fc_rules_unknown(MyDatabaseId, &n);

	found.seen = fc_rulebook_seen(files, n, &found.nseen);
	return found;
}

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
	table = fc_rulebook_table(schema);
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
	trusted = fc_rulebook_trusts(rel);
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
	FcRulesFound found = look_at_new_files();
	FcRules		rules = fc_rulebook_read(table);
	uint32		n = 0;
	uint32		nwide;
	FcResolved *resolved;
	FcRuleFile *wide;
	FcRuleFile *files;

	found.rules = rules.n;
	found.hides = rules.hides;
	if (rules.n == 0)
	{
		published(NULL, 0, &found);
		return;
	}
	resolved = fc_rulebook_resolve(&rules, false, &n);
	wide = fc_rulebook_wide(&rules, &nwide);
	files = palloc_extended((n + nwide + 1) * sizeof(FcRuleFile), MCXT_ALLOC_HUGE);
	for (uint32 i = 0; i < n; i++)
		files[i] = resolved[i].file;
	memcpy(&files[n], wide, nwide * sizeof(FcRuleFile));
	published(files, n + nwide, &found);
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

	if (RecoveryInProgress())
		return;
	SPI_connect();
	if (SPI_execute_with_args("SELECT FROM pg_catalog.pg_prepared_xact() p WHERE p.dbid OPERATOR(pg_catalog.=) $1",
							  lengthof(types), types, args, NULL, true, 1) != SPI_OK_SELECT)
		elog(ERROR, "the prepared transactions could not be read");
	if (SPI_processed == 0)
		fc_rules_none_prepared(MyDatabaseId, prepared);
	else if (prepared == 0)
		fc_rules_set_prepared(MyDatabaseId);	/* from when there were no
												 * rules that its files could
												 * matter to */
	SPI_finish();
}

static void
look_at_rules(void)
{
	LOCKTAG		lock;
	FcRulesFound found;
	Oid			table;
	bool		locked;

	SET_LOCKTAG_OBJECT(lock, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	(void) fc_failpoint(FC_FP_POLICY_LOOK);
	CHECK_FOR_INTERRUPTS();
	if (LockAcquire(&lock, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
		failed(FC_RULES_LOCKED, "somebody is about to drop, move or copy the database");
	else if (!lock_catalogs())
		failed(FC_RULES_LOCKED, "a system catalog is locked");
	else if (OidIsValid(table = find_rules(&locked)))
		publish(table);
	else if (locked)
		failed(FC_RULES_LOCKED, "the table of rules is locked");
	else
	{
		found = look_at_new_files();
		published(NULL, 0, &found);
	}
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

		/* if nobody may connect any more, sessions that are there go on */
		if (db->datconnlimit >= -1 && (db->datallowconn || fc_rules_knows(db->oid)))
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
		{"temp_file_limit", TEMP_FILES_KB},
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
		"SELECT s.name, coalesce(s.boot_val, '') FROM pg_catalog.pg_show_all_settings() s"
		" WHERE s.source OPERATOR(pg_catalog.=) ANY (ARRAY['database', 'user', 'database user'])"
		" AND s.context OPERATOR(pg_catalog.=) ANY (ARRAY['user', 'superuser'])";

	SPI_connect();
	if (SPI_execute(sql, true, 0) != SPI_OK_SELECT)
		elog(ERROR, "the settings could not be read");
	for (uint64 i = 0; i < SPI_processed; i++)
		(void) set_config_option(SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 1),
								 SPI_getvalue(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, 2), PGC_SUSET, PGC_S_OVERRIDE,
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
fc_resolver_run(Oid db, uint32 look)
{
	MemoryContext memory;
	volatile int patience = 0;
	char		reason[FC_RULES_REASON_LEN];
	Oid			user;
	int			security;

	this_look = look;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	/* whoever has locked the database is not waited for, either */
	SetConfigOption("lock_timeout", LOCK_MS, PGC_SUSET, PGC_S_OVERRIDE);
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
		/* whom the database's own setting of "role" has made of it */
		GetUserIdAndSecContext(&user, &security);
		SetUserIdAndSecContext(BOOTSTRAP_SUPERUSERID, security | SECURITY_LOCAL_USERID_CHANGE);
		patience = OidIsValid(db) ? fc_rules_patience_ms(db) : LIST_MS;
		enable_timeout_after(STATEMENT_TIMEOUT, patience);
		if (OidIsValid(db))
		{
			discard_settings();
			look_at_prepared();
			look_at_rules();
		}
		else
			look_at_databases();
		disable_timeout(STATEMENT_TIMEOUT, false);
		SetUserIdAndSecContext(user, security);
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
		strlcpy(reason, error->message, sizeof(reason));
		if (error->sqlerrcode == ERRCODE_QUERY_CANCELED && !ShutdownRequestPending)
			snprintf(reason, sizeof(reason), "the look was ended after %d ms", patience);
		if (OidIsValid(db))
			fc_rules_failed(db, look, error->sqlerrcode == ERRCODE_LOCK_NOT_AVAILABLE ? FC_RULES_LOCKED : FC_RULES_FAILED, reason);
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
	if ((notes & (FC_NOTE_RULES | FC_NOTE_LOOK)) == 0 && !fc_rules_has(MyDatabaseId))
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
	if (notes & (FC_NOTE_RULES | FC_NOTE_FILES | FC_NOTE_LOOK))
		fc_rules_want(MyDatabaseId, (notes & FC_NOTE_RULES) != 0);
	fc_handoff_wake();
}

void
fc_resolver_init(void)
{
	RegisterXactCallback(at_end, NULL);
}
