/*-------------------------------------------------------------------------
 *
 * explain.c
 *	  See explain.h.
 *
 * Without the option nothing happens but a look at one variable when a
 * statement starts, and at the tag of a utility command.
 *
 * From 19 on auto_explain takes the option as well, and asks for it when a
 * statement has ended.  So statements are measured while its settings name
 * the option; whether they ever did is known from the check of its value.
 *
 * With it, the function that returns a plan node's next tuple is replaced by
 * execute_node(), which adds what this process has read meanwhile to the
 * node.  A node's numbers contain those of its children, as with BUFFERS.
 *
 * Not measured are nodes that return no tuples (Hash, BitmapIndexScan,
 * BitmapAnd, BitmapOr): they are called otherwise, and nobody can step in.
 * Their reads are those of the node above.  Likewise a parallel hash join,
 * which changes its function when its workers start.
 *
 * Parallel workers have plans of their own, unmeasured.  What they read
 * appears in the numbers of the whole statement only.
 *
 * What belongs to a plan lives in the plan's own memory and is forgotten when
 * that is freed, however the statement ends.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "explain.h"
#include "stats/stats.h"

#if PG_VERSION_NUM >= 180000

#include "access/parallel.h"
#include "commands/defrem.h"
#include "commands/explain.h"
#include "commands/explain_format.h"
#include "commands/explain_state.h"
#include "common/hashfn.h"
#include "executor/executor.h"
#include "lib/ilist.h"
#include "nodes/nodeFuncs.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/memutils.h"

#define OPTION "flashcache"

/* A measured node. */
typedef struct FcNode
{
	PlanState  *planstate;
	ExecProcNodeMtd real;
	slist_node	link;			/* in its plan */
	FcReads		reads;
} FcNode;

/* A measured plan: one of an EXPLAIN, more where rules make several. */
typedef struct FcPlan
{
	PlannedStmt *stmt;
	FcReads		begin;			/* of the session with its workers */
	slist_head	nodes;
	dlist_node	link;			/* in plans */
	MemoryContextCallback forget;
} FcPlan;

typedef struct FcNodeEntry
{
	PlanState  *planstate;
	FcNode	   *node;
	char		status;
} FcNodeEntry;

#define SH_PREFIX nodes
#define SH_ELEMENT_TYPE FcNodeEntry
#define SH_KEY_TYPE PlanState *
#define SH_KEY planstate
#define SH_HASH_KEY(tb, key) murmurhash64((uint64) (uintptr_t) (key))
#define SH_EQUAL(tb, a, b) ((a) == (b))
#define SH_SCOPE static inline
#define SH_DECLARE
#define SH_DEFINE
#include "lib/simplehash.h"

static nodes_hash *nodes = NULL;
static dlist_head plans = DLIST_STATIC_INIT(plans);

static int	extension_id;
static bool measuring = false;	/* in an EXPLAIN with the option */
static bool ever_automatic = false; /* auto_explain has been given the option */

static ProcessUtility_hook_type next_process_utility = NULL;
static ExecutorStart_hook_type next_executor_start = NULL;
static explain_validate_options_hook_type next_validate = NULL;
static explain_per_node_hook_type next_per_node = NULL;
static explain_per_plan_hook_type next_per_plan = NULL;

/* ---- measuring ---- */

/* Adds now - begin. */
static void
add_difference(FcReads *sum, const FcReads *begin, const FcReads *now)
{
	for (int c = 0; c < FC_SESSION_COUNTERS; c++)
		sum->counter[c] += now->counter[c] - begin->counter[c];
}

static TupleTableSlot *
execute_node(PlanState *planstate)
{
	FcNode	   *node = nodes_lookup(nodes, planstate)->node;
	TupleTableSlot *slot;
	FcReads		begin;
	FcReads		end;

	fc_stats_process(&begin);
	slot = node->real(planstate);
	fc_stats_process(&end);
	add_difference(&node->reads, &begin, &end);
	return slot;
}

static bool
returns_tuples(const PlanState *planstate)
{
	return !IsA(planstate, HashState) && !IsA(planstate, BitmapIndexScanState) &&
		!IsA(planstate, BitmapAndState) && !IsA(planstate, BitmapOrState);
}

/* A walker of plan trees; two places in a plan may refer to one subplan. */
static bool
measure_node(PlanState *planstate, void *context)
{
	FcPlan	   *plan = context;

	if (returns_tuples(planstate) && planstate->ExecProcNodeReal != execute_node)
	{
		FcNode	   *node = palloc0(sizeof(FcNode));
		bool		found;

		node->planstate = planstate;
		node->real = planstate->ExecProcNodeReal;
		nodes_insert(nodes, planstate, &found)->node = node;
		slist_push_head(&plan->nodes, &node->link);
		ExecSetExecProcNode(planstate, execute_node);
	}
	return planstate_tree_walker(planstate, measure_node, context);
}

static void
forget_plan(void *arg)
{
	FcPlan	   *plan = arg;
	slist_iter	i;

	slist_foreach(i, &plan->nodes)
		nodes_delete(nodes, slist_container(FcNode, link, i.cur)->planstate);
	dlist_delete(&plan->link);
}

/* Auto_explain is to show what this statement reads. */
static bool
is_automatic(void)
{
	const char *options;
	const char *duration;

	if (likely(!ever_automatic) || IsParallelWorker())
		return false;
	options = GetConfigOption("auto_explain.log_extension_options", true, false);
	duration = GetConfigOption("auto_explain.log_min_duration", true, false);
	return options != NULL && strcasestr(options, OPTION) != NULL &&
		duration != NULL && strcmp(duration, "-1") != 0;
}

static void
fc_executor_start(QueryDesc *queryDesc, int eflags)
{
	ExecutorStart_hook_type next = next_executor_start ? next_executor_start : standard_ExecutorStart;
	MemoryContext old;
	FcPlan	   *plan;
	FcReads		begin;

	/* functions called while the statement is planned are not instrumented */
	if ((eflags & EXEC_FLAG_EXPLAIN_ONLY) != 0 ||
		(!(measuring && queryDesc->instrument_options != 0) && !is_automatic()))
	{
		next(queryDesc, eflags);
		return;
	}
	fc_stats_session(&begin);
	next(queryDesc, eflags);

	if (nodes == NULL)
		nodes = nodes_create(TopMemoryContext, 64, NULL);
	old = MemoryContextSwitchTo(queryDesc->estate->es_query_cxt);
	plan = palloc0(sizeof(FcPlan));
	plan->stmt = queryDesc->plannedstmt;
	plan->begin = begin;
	slist_init(&plan->nodes);
	dlist_push_head(&plans, &plan->link);
	plan->forget.func = forget_plan;
	plan->forget.arg = plan;
	MemoryContextRegisterResetCallback(CurrentMemoryContext, &plan->forget);
	measure_node(queryDesc->planstate, plan);
	MemoryContextSwitchTo(old);
}

/* ---- the option ---- */

static void
fc_option(ExplainState *es, DefElem *opt, ParseState *pstate)
{
	static bool on = true;

	SetExplainExtensionState(es, extension_id, defGetBoolean(opt) ? &on : NULL);
}

#if PG_VERSION_NUM >= 190000
static bool
check_option(const char *option_name, const char *option_value, NodeTag option_type)
{
	ever_automatic = true;
	return GUCCheckBooleanExplainOption(option_name, option_value, option_type);
}
#endif

static bool
is_wanted(ExplainState *es)
{
	return GetExplainExtensionState(es, extension_id) != NULL;
}

static void
fc_validate(ExplainState *es, List *options, ParseState *pstate)
{
	if (next_validate)
		next_validate(es, options, pstate);
	if (!is_wanted(es))
		return;
	if (!es->analyze)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("EXPLAIN option %s requires ANALYZE", "FLASHCACHE"),
				 errhint("Use EXPLAIN (ANALYZE, FLASHCACHE).")));
	measuring = true;
}

/* Bounds the time in which statements are measured. */
static void
fc_process_utility(PlannedStmt *pstmt, const char *query, bool read_only_tree,
				   ProcessUtilityContext context, ParamListInfo params,
				   QueryEnvironment *query_env, DestReceiver *dest, QueryCompletion *qc)
{
	bool		outer = measuring;

	if (!IsA(pstmt->utilityStmt, ExplainStmt))
	{
		next_process_utility(pstmt, query, read_only_tree, context, params, query_env, dest, qc);
		return;
	}
	measuring = false;
	PG_TRY();
	{
		next_process_utility(pstmt, query, read_only_tree, context, params, query_env, dest, qc);
	}
	PG_FINALLY();
	{
		measuring = outer;
	}
	PG_END_TRY();
}

/* ---- printing ---- */

static void
show(const FcReads *reads, bool even_if_zero, ExplainState *es)
{
	const uint64 *c = reads->counter;
	double		ms = c[FC_READ_NS] / 1e6;

	if (es->format == EXPLAIN_FORMAT_TEXT)
	{
		if (c[FC_HITS] == 0 && c[FC_MISSES] == 0 && !even_if_zero)
			return;
		ExplainIndentText(es);
		appendStringInfo(es->str, "Flash Cache: hits=" UINT64_FORMAT " misses=" UINT64_FORMAT,
						 c[FC_HITS], c[FC_MISSES]);
		if (es->timing)
			appendStringInfo(es->str, " read=%.3f ms", ms);
		appendStringInfoChar(es->str, '\n');
		return;
	}
	ExplainPropertyUInteger("Flash Cache Hits", NULL, c[FC_HITS], es);
	ExplainPropertyUInteger("Flash Cache Misses", NULL, c[FC_MISSES], es);
	if (es->timing)
		ExplainPropertyFloat("Flash Cache Read Time", "ms", ms, 3, es);
}

static void
fc_per_node(PlanState *planstate, List *ancestors, const char *relationship,
			const char *plan_name, ExplainState *es)
{
	FcNodeEntry *entry;

	if (next_per_node)
		next_per_node(planstate, ancestors, relationship, plan_name, es);
	if (!is_wanted(es) || nodes == NULL || planstate->ExecProcNodeReal != execute_node)
		return;
	entry = nodes_lookup(nodes, planstate);
	if (entry != NULL)
		show(&entry->node->reads, false, es);
}

static void
fc_per_plan(PlannedStmt *stmt, IntoClause *into, ExplainState *es, const char *query,
			ParamListInfo params, QueryEnvironment *query_env)
{
	dlist_iter	i;

	if (next_per_plan)
		next_per_plan(stmt, into, es, query, params, query_env);
	if (!is_wanted(es))
		return;
	dlist_foreach(i, &plans)
	{
		FcPlan	   *plan = dlist_container(FcPlan, link, i.cur);
		FcReads		now;
		FcReads		sum = {{0}};

		if (plan->stmt != stmt)
			continue;
		fc_stats_session(&now);
		add_difference(&sum, &plan->begin, &now);
		ExplainOpenGroup("Execution", "Execution", true, es);
		if (es->format == EXPLAIN_FORMAT_TEXT)
		{
			ExplainIndentText(es);
			appendStringInfoString(es->str, "Execution:\n");
			es->indent++;
		}
		show(&sum, true, es);
		if (es->format == EXPLAIN_FORMAT_TEXT)
			es->indent--;
		ExplainCloseGroup("Execution", "Execution", true, es);
		break;
	}
}

void
fc_explain_init(void)
{
	extension_id = GetExplainExtensionId("pg_flashcache");
#if PG_VERSION_NUM >= 190000
	RegisterExtensionExplainOption(OPTION, fc_option, check_option);
#else
	RegisterExtensionExplainOption(OPTION, fc_option);
#endif
	next_process_utility = ProcessUtility_hook ? ProcessUtility_hook : standard_ProcessUtility;
	ProcessUtility_hook = fc_process_utility;
	next_executor_start = ExecutorStart_hook;
	ExecutorStart_hook = fc_executor_start;
	next_validate = explain_validate_options_hook;
	explain_validate_options_hook = fc_validate;
	next_per_node = explain_per_node_hook;
	explain_per_node_hook = fc_per_node;
	next_per_plan = explain_per_plan_hook;
	explain_per_plan_hook = fc_per_plan;
}

#else							/* before 18 EXPLAIN takes no options of
								 * extensions */

void
fc_explain_init(void)
{
}

#endif
