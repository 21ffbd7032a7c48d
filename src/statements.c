/*-------------------------------------------------------------------------
 *
 * statements.c
 *	  See statements.h.
 *
 * What the session and its parallel workers read is looked at before and after
 * each call of the executor for a statement; so a cursor has what its own
 * fetches read, and nothing of what is done in between.  A statement contains
 * what it calls, and what it calls is counted as well, but not as of the top
 * level.
 *
 * A statement is counted when its memory is freed: the executor does that at
 * its end, and whoever clears up after an error does it too.  Nothing is read
 * from then on; and it must not raise, nor allocate.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/parallel.h"
#include "compat.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "miscadmin.h"
#if PG_VERSION_NUM >= 160000
#include "nodes/queryjumble.h"
#else
#include "utils/queryjumble.h"
#endif
#include "statements.h"
#include "stats/stats_statement.h"
#include "tcop/utility.h"
#include "utils/memutils.h"

#if PG_VERSION_NUM >= 180000
#define RUN_ARGUMENTS QueryDesc *desc, ScanDirection direction, uint64 count
#define RUN_VALUES desc, direction, count
#else
#define RUN_ARGUMENTS QueryDesc *desc, ScanDirection direction, uint64 count, bool once
#define RUN_VALUES desc, direction, count, once
#endif

/* A statement that the executor has begun; lives as long as its state. */
typedef struct Running
{
	QueryDesc  *desc;
	FcStatement statement;
	FcReads		reads;
	dlist_node	link;			/* in running */
	MemoryContextCallback forget;
} Running;

/* The one that began last is the first. */
static dlist_head running = DLIST_STATIC_INIT(running);

/* How many calls of the executor, and utility commands, this process is within. */
static int	level = 0;

static ExecutorStart_hook_type next_start = NULL;
static ExecutorRun_hook_type next_run = NULL;
static ExecutorFinish_hook_type next_finish = NULL;
static ProcessUtility_hook_type next_utility = NULL;

/* What a worker reads is its leader's. */
static bool
is_wanted(uint64 query)
{
	return fc_setting_track_statements != FC_TRACK_STATEMENTS_OFF && query != 0 && fc_stats_statements_counted() && !IsParallelWorker();
}

static void
add_since(FcReads *sum, const FcReads *begin)
{
	FcReads		now;

	fc_stats_session(&now);
	for (int c = 0; c < FC_SESSION_COUNTERS; c++)
		sum->counter[c] += now.counter[c] - begin->counter[c];
}

static FcStatement
statement_of(uint64 query)
{
	FcStatement statement = {GetUserId(), MyDatabaseId, query, level == 0};

	return statement;
}

static Running *
running_as(const QueryDesc *desc)
{
	dlist_iter	i;

	dlist_foreach(i, &running)
	{
		Running    *r = dlist_container(Running, link, i.cur);

		if (r->desc == desc)
			return r;
	}
	return NULL;
}

/* Its memory is being freed, at its end or after an error. */
static void
forget(void *arg)
{
	Running    *r = arg;

	dlist_delete(&r->link);
	fc_count_statement(&r->statement, &r->reads);
}

static void
fc_start(QueryDesc *desc, int eflags)
{
	uint64		query = (uint64) desc->plannedstmt->queryId;
	FcReads		begin;
	Running    *r;

	if (!is_wanted(query) || (eflags & EXEC_FLAG_EXPLAIN_ONLY))
	{
		next_start(desc, eflags);
		return;
	}
	fc_stats_session(&begin);
	next_start(desc, eflags);
	r = MemoryContextAllocZero(desc->estate->es_query_cxt, sizeof(Running));
	r->desc = desc;
	r->statement = statement_of(query);
	add_since(&r->reads, &begin);
	dlist_push_head(&running, &r->link);
	r->forget.func = forget;
	r->forget.arg = r;
	MemoryContextRegisterResetCallback(desc->estate->es_query_cxt, &r->forget);
}

/* A call of the executor, from its begin to its end. */
typedef struct Frame
{
	Running    *of;				/* NULL: of a statement that is not measured */
	FcReads		begin;
} Frame;

static void
enter(Frame *frame, const QueryDesc *desc)
{
	frame->of = running_as(desc);
	if (frame->of != NULL)
		fc_stats_session(&frame->begin);
	level++;
}

static void
leave(const Frame *frame)
{
	level--;
	if (frame->of != NULL)
		add_since(&frame->of->reads, &frame->begin);
}

static void
fc_run(RUN_ARGUMENTS)
{
	Frame		frame;

	enter(&frame, desc);
	PG_TRY();
	{
		next_run(RUN_VALUES);
	}
	PG_FINALLY();
	{
		leave(&frame);
	}
	PG_END_TRY();
}

/* Triggers that wait for the end of the statement. */
static void
fc_finish(QueryDesc *desc)
{
	Frame		frame;

	enter(&frame, desc);
	PG_TRY();
	{
		next_finish(desc);
	}
	PG_FINALLY();
	{
		leave(&frame);
	}
	PG_END_TRY();
}

/* These run another statement, which is the one to be counted. */
static bool
stands_for_another(const Node *command)
{
	return IsA(command, ExecuteStmt) || IsA(command, PrepareStmt) || IsA(command, DeallocateStmt);
}

static void
fc_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
		   ProcessUtilityContext context, ParamListInfo params,
		   QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	/* asked before: the command may free what was parsed */
	uint64		id = (uint64) pstmt->queryId;
	FcStatement statement;
	FcReads		begin;
	FcReads		reads = {{0}};

	if (stands_for_another(pstmt->utilityStmt))
	{
		next_utility(pstmt, query, read_only_tree, context, params, query_env, dest, qc);
		return;
	}
	statement = statement_of(id);
	fc_stats_session(&begin);
	level++;
	PG_TRY();
	{
		next_utility(pstmt, query, read_only_tree, context, params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		level--;
		if (is_wanted(id))
		{
			add_since(&reads, &begin);
			fc_count_statement(&statement, &reads);
		}
	}
	PG_END_TRY();
}

const char *
fc_statements_reason(const char **hint)
{
	if (!fc_stats_statements_counted())
	{
		*hint = "The columns state and reason of pg_stat_flashcache show why.";
		return "the server runs without a cache";
	}
	if (fc_setting_track_statements == FC_TRACK_STATEMENTS_OFF)
	{
		if (IsQueryIdEnabled())
		{
			*hint = "Set pg_flashcache.track_statements = auto.";
			return "pg_flashcache.track_statements is off";
		}
		*hint = "Set pg_flashcache.track_statements = auto and compute_query_id = on, and reload.";
		return "pg_flashcache.track_statements is off, and the server computes no query identifiers";
	}
	if (IsQueryIdEnabled())
		return NULL;
	*hint = "Set compute_query_id = on and reload. Or, with auto, set pg_flashcache.track_statements = on or preload pg_stat_statements, and restart.";
	if (compute_query_id == COMPUTE_QUERY_ID_OFF)
		return "compute_query_id is off: the server computes no query identifiers";
	return "the server computes no query identifiers: no library has asked for them at its start";
}

void
fc_statements_init(void)
{
	/*
	 * The server computes them when it parses a statement: with "auto" nobody
	 * pays for that who does not have them anyway.
	 */
	if (fc_setting_track_statements == FC_TRACK_STATEMENTS_ON)
		EnableQueryId();
	next_start = ExecutorStart_hook ? ExecutorStart_hook : standard_ExecutorStart;
	ExecutorStart_hook = fc_start;
	next_run = ExecutorRun_hook ? ExecutorRun_hook : standard_ExecutorRun;
	ExecutorRun_hook = fc_run;
	next_finish = ExecutorFinish_hook ? ExecutorFinish_hook : standard_ExecutorFinish;
	ExecutorFinish_hook = fc_finish;
	next_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = fc_utility;
}
