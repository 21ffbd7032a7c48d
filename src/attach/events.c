/*-------------------------------------------------------------------------
 *
 * attach/events.c
 *	  Changes of data files that the storage manager does not see.
 *
 * CREATE DATABASE by file copy, DROP DATABASE and ALTER DATABASE SET
 * TABLESPACE copy and remove whole directories (copydir(), rmtree()).  Each
 * kills all entries of the database, before and after:
 *	- on a primary through the utility hook, and for CREATE DATABASE, whose
 *	  OID is not known in advance, through the object access hook, which is
 *	  called before the files are copied;
 *	- in redo by wrapping the resource manager's redo function.
 *
 * Why each matters: SET TABLESPACE there and back revives the old tags;
 * CREATE DATABASE ... OID n reuses an OID; copies of a template keep the
 * template's relation file numbers.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "../cache.h"
#include "../failpoint.h"
#include "access/rmgr.h"
#include "access/xlog_internal.h"
#include "access/xlogreader.h"
#include "attach.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_database.h"
#include "commands/dbcommands.h"
#include "commands/dbcommands_xlog.h"
#include "nodes/parsenodes.h"
#include "tcop/utility.h"

static ProcessUtility_hook_type next_process_utility = NULL;
static object_access_hook_type next_object_access = NULL;
static void (*next_dbase_redo) (XLogReaderState *record) = NULL;

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
}

/* The database whose files the statement moves or removes, if it does. */
static const char *
database_named_by(Node *statement)
{
	if (IsA(statement, DropdbStmt))
		return ((DropdbStmt *) statement)->dbname;
	if (IsA(statement, CreatedbStmt))
		return ((CreatedbStmt *) statement)->dbname;
	if (IsA(statement, AlterDatabaseStmt))
	{
		ListCell   *lc;

		foreach(lc, ((AlterDatabaseStmt *) statement)->options)
		{
			if (strcmp(((DefElem *) lfirst(lc))->defname, "tablespace") == 0)
				return ((AlterDatabaseStmt *) statement)->dbname;
		}
	}
	return NULL;
}

static void
call_next(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
		  ProcessUtilityContext context, ParamListInfo params,
		  QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	if (next_process_utility)
		next_process_utility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
	else
		standard_ProcessUtility(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
}

static void
fc_process_utility(PlannedStmt *pstmt, const char *queryString, bool readOnlyTree,
				   ProcessUtilityContext context, ParamListInfo params,
				   QueryEnvironment *queryEnv, DestReceiver *dest, QueryCompletion *qc)
{
	const char *dbname = database_named_by(pstmt->utilityStmt);
	Oid			db = dbname ? get_database_oid(dbname, true) : InvalidOid;

	/* everything else: not even a PG_TRY */
	if (dbname == NULL)
	{
		call_next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);
		return;
	}
	before_change(db);
	PG_TRY();
	{
		call_next(pstmt, queryString, readOnlyTree, context, params, queryEnv, dest, qc);	/* C2 */
	}
	PG_FINALLY();
	{
		after_change(db);
	}
	PG_END_TRY();
}

static void
fc_object_access(ObjectAccessType access, Oid classId, Oid objectId, int subId, void *arg)
{
	if (next_object_access)
		next_object_access(access, classId, objectId, subId, arg);
	if (classId == DatabaseRelationId && (access == OAT_POST_CREATE || access == OAT_DROP))
		before_change(objectId);
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
