/*-------------------------------------------------------------------------
 *
 * attach/events.c
 *	  Changes of data files that the storage manager does not see.
 *
 * CREATE DATABASE by file copy, DROP DATABASE and ALTER DATABASE SET
 * TABLESPACE copy and remove whole directories (copydir(), rmtree()).
 *
 * Why each matters: SET TABLESPACE there and back revives the old tags;
 * CREATE DATABASE ... OID n reuses an OID; copies of a template keep the
 * template's relation file numbers.
 *
 * A statement that fails must not cost the database its cache: anybody may
 * try.  So on a primary nothing is done before the server has checked what it
 * wants to check, and all entries of the database die
 *	- CREATE: when its OID is known, before the files are copied (C1, object
 *	  access hook), and when they are, before anybody else can see the
 *	  database (C3).
 *	- DROP: when its files are gone, before the transaction commits (C3); also
 *	  if it fails, or its process ends, after it has begun.  It has begun when
 *	  there is a transaction ID: dropdb() makes all its checks, and waits for
 *	  others to leave the database, before it changes the first catalog, and
 *	  files after that.
 *	- SET TABLESPACE: when movedb() commits the new place, with the files
 *	  there and the database still locked (C3).  It gives the lock back before
 *	  the utility hook gets control again, so that would be too late: somebody
 *	  could read there what was read during an earlier stay.
 * Neither DROP nor SET TABLESPACE needs C1: they hold the database's lock, no
 * session is in it, and until C3 nobody can read a page of it.
 *
 * In redo the resource manager's redo function is wrapped: before and after.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/rmgr.h"
#include "access/xact.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "attach/attach.h"
#include "cache/cache.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/dbcommands_xlog.h"
#include "failpoint.h"
#include "handoff.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "rules/rules.h"
#include "stats/stats_relation.h"
#include "storage/ipc.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type next_process_utility = NULL;
static object_access_hook_type next_object_access = NULL;
static void (*next_dbase_redo) (XLogReaderState *record) = NULL;

/* The database that the DROP DATABASE under way is about, once its owner is known to want it. */
static Oid	dropping = InvalidOid;

/* C1: the files of the database, if there is one, are about to change. */
static void
before_change(Oid db)
{
	if (!OidIsValid(db))
		return;
	fc_cache_invalidate_database(db);
	fc_failpoint(FC_FP_DATABASE_BEFORE);
}

/* C3: they have changed. */
static void
after_change(Oid db)
{
	if (!OidIsValid(db))
		return;
	fc_failpoint(FC_FP_DATABASE_AFTER);
	fc_cache_invalidate_database(db);
	fc_stats_forget_database(db);
}

/* Does the statement move a database to another tablespace? */
static bool
moves_database(Node *statement)
{
	ListCell   *lc;

	if (!IsA(statement, AlterDatabaseStmt))
		return false;
	foreach(lc, ((AlterDatabaseStmt *) statement)->options)
	{
		if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") == 0)
			return true;
	}
	return false;
}

/* DROP DATABASE failed, or the process is being ended. */
static void
drop_failed(int code, Datum arg)
{
	if (TransactionIdIsValid(GetTopTransactionIdIfAny()))
		after_change(dropping);
}

/*
 * During ALTER DATABASE SET TABLESPACE: movedb() holds the database's lock, so
 * its name is its own.  All its files have another tablespace then.
 */
static void
move_commits(XactEvent event, void *name)
{
	static Oid	moved = InvalidOid;

	if (event == XACT_EVENT_PRE_COMMIT)
	{
		moved = get_database_oid(name, true);
		after_change(moved);
	}
	else if (event == XACT_EVENT_COMMIT)
	{
		fc_rules_want(moved, true);
		fc_handoff_wake();
	}
}

/* A call of the utility hook. */
typedef struct Utility
{
	PlannedStmt *pstmt;
	const char *query;
	bool		read_only_tree;
	ProcessUtilityContext context;
	ParamListInfo params;
	QueryEnvironment *environment;
	DestReceiver *dest;
	QueryCompletion *qc;
} Utility;

static void
call_next(const Utility *u)
{
	if (next_process_utility)
		next_process_utility(u->pstmt, u->query, u->read_only_tree, u->context, u->params, u->environment, u->dest, u->qc);
	else
		standard_ProcessUtility(u->pstmt, u->query, u->read_only_tree, u->context, u->params, u->environment, u->dest, u->qc);
}

static void
create_database(const Utility *u, const char *name)
{
	call_next(u);				/* C2 */
	CommandCounterIncrement();	/* now its name can be looked up */
	after_change(get_database_oid(name, true));
	fc_rules_note(FC_NOTE_DATABASES);
}

static void
drop_database(const Utility *u)
{
	dropping = InvalidOid;
	PG_ENSURE_ERROR_CLEANUP(drop_failed, (Datum) 0);
	{
		call_next(u);			/* C2 */
	}
	PG_END_ENSURE_ERROR_CLEANUP(drop_failed, (Datum) 0);
	after_change(dropping);
	fc_rules_note(FC_NOTE_DATABASES);
}

static void
move_database(const Utility *u, char *name)
{
	RegisterXactCallback(move_commits, name);
	PG_TRY();
	{
		call_next(u);			/* C2 */
	}
	PG_FINALLY();
	{
		UnregisterXactCallback(move_commits, name);
	}
	PG_END_TRY();
}

/* What changes which relations a policy means, beside their files; the end of the transaction tells the others. */
static void
note_policies(Node *statement)
{
	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:

			/*
			 * its triggers may be on again, after a restore without them; it
			 * is a superuser's, and anybody may name his own so
			 */
			if (strcmp(((AlterTableStmt *) statement)->relation->relname, FC_RULES_TABLE) == 0 && superuser())
				fc_rules_note(FC_NOTE_LOOK);
			fc_rules_note(FC_NOTE_FILES);
			break;
		case T_AlterTableMoveAllStmt:
		case T_AlterObjectSchemaStmt:
		case T_RenameStmt:
			fc_rules_note(FC_NOTE_FILES);
			break;
		case T_DropStmt:
			if (((DropStmt *) statement)->removeType == OBJECT_EXTENSION || ((DropStmt *) statement)->removeType == OBJECT_SCHEMA)
				fc_rules_note(FC_NOTE_FILES);
			break;
		case T_AlterDatabaseStmt:	/* it may accept connections again */
			fc_rules_note(FC_NOTE_DATABASES);
			break;
		case T_TransactionStmt:
			if (((TransactionStmt *) statement)->kind == TRANS_STMT_COMMIT_PREPARED && fc_rules_prepared(MyDatabaseId) != 0)
				fc_rules_note(FC_NOTE_LOOK);
			break;
		default:
			break;
	}
}

/*
 * What commits in between, and goes on: who makes files says so at the first
 * end of a transaction.  To be asked before the statement is executed, after
 * which it may be gone.
 */
static bool
ends_transactions(Node *statement)
{
	ListCell   *lc;

	switch (nodeTag(statement))
	{
		case T_AlterTableStmt:	/* DETACH PARTITION CONCURRENTLY */
		case T_ReindexStmt:
		case T_IndexStmt:
#if PG_VERSION_NUM < 190000
		case T_ClusterStmt:
#else
		case T_RepackStmt:
#endif
			return true;
		case T_VacuumStmt:
			foreach(lc, ((VacuumStmt *) statement)->options)
			{
				if (strcmp(((DefElem *) lfirst(lc))->defname, "full") == 0)
					return true;
			}
			return false;
		default:
			return false;
	}
}

static void
fc_process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				   ProcessUtilityContext context, ParamListInfo params,
				   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	Utility		u = {pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc};
	Node	   *statement = pstmt->utilityStmt;

	if (IsA(statement, CreatedbStmt))
		create_database(&u, ((CreatedbStmt *) statement)->dbname);
	else if (IsA(statement, DropdbStmt))
		drop_database(&u);
	else if (moves_database(statement))
		move_database(&u, ((AlterDatabaseStmt *) statement)->dbname);
	else
	{
		bool		again = ends_transactions(statement);

		note_policies(statement);
		call_next(&u);
		if (again)
			fc_rules_note(FC_NOTE_FILES);
	}
}

static void
fc_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (next_object_access)
		next_object_access(access, classId, objectId, subId, arg);
	if (classId != DatabaseRelationId)
		return;
	if (access == OAT_POST_CREATE)
		before_change(objectId);
	else if (access == OAT_DROP)
		dropping = objectId;
}

static void
fc_dbase_redo(XLogReaderState *record)
{
	uint8		info = XLogRecGetInfo(record) & ~XLR_INFO_MASK;
	Oid			db = InvalidOid;

	if (info == XLOG_DBASE_CREATE_FILE_COPY)
		db = ((xl_dbase_create_file_copy_rec *) XLogRecGetData(record))->db_id;
	else if (info == XLOG_DBASE_CREATE_WAL_LOG)
		db = ((xl_dbase_create_wal_log_rec *) XLogRecGetData(record))->db_id;
	else if (info == XLOG_DBASE_DROP)
		db = ((xl_dbase_drop_rec *) XLogRecGetData(record))->db_id;

	before_change(db);
	next_dbase_redo(record);	/* C2 */
	after_change(db);
}

void
fc_attach_events(void)
{
	next_process_utility = ProcessUtility_hook;
	ProcessUtility_hook = fc_process_utility;
	next_object_access = object_access_hook;
	object_access_hook = fc_object_access;
	next_dbase_redo = RmgrTable[RM_DBASE_ID].rm_redo;
	RmgrTable[RM_DBASE_ID].rm_redo = fc_dbase_redo;
}
