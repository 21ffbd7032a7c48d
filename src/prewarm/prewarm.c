/*-------------------------------------------------------------------------
 *
 * prewarm/prewarm.c
 *	  Loads relations: which ones, and who may ask for it.  prewarm_run.c has
 *	  the loading itself.
 *
 * The locks are those of a reader.  They are not what keeps flash from being
 * stale (that is L1-L4 in src/protocol.md), but what keeps the files in place.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "attach/data_read.h"
#include "catalog/index.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "miscadmin.h"
#include "prewarm/prewarm.h"
#include "prewarm/prewarm_internal.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"

/* Relations of one call, and what is being done. */
typedef struct Loading
{
	List	   *relations;		/* open and locked */
	BlockNumber first;			/* of the first relation */
	BlockNumber end;
	FcPrewarmRun run;
} Loading;

/* ---- what is asked for ---- */

/* Has it pages, and are they of a kind that is kept on flash? */
static void
check_relation(Relation rel)
{
	char		kind = rel->rd_rel->relkind;

	if (!RELKIND_HAS_STORAGE(kind))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot prewarm relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail_relkind_not_supported(kind),
				 kind == RELKIND_PARTITIONED_TABLE || kind == RELKIND_PARTITIONED_INDEX ?
				 errhint("It has no pages of its own. Prewarm its partitions, which pg_partition_tree() lists.") :
				 errhint("It has no pages of its own.")));
	if (rel->rd_rel->relpersistence == RELPERSISTENCE_TEMP)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot prewarm temporary relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail("Temporary relations are never kept on flash."),
				 errhint("Use a permanent table.")));
	if (rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("cannot prewarm unlogged relation \"%s\"", RelationGetRelationName(rel)),
				 errdetail("Unlogged relations are never kept on flash."),
				 errhint("Use ALTER TABLE ... SET LOGGED.")));
}

/*
 * Opens what is to be loaded first.  The right to read an index is that of its
 * table, which is locked before it, as everybody does.
 */
static Relation
open_asked(Oid relid)
{
	char		kind = get_rel_relkind(relid);
	Oid			table = relid;
	AclResult	allowed;
	Relation	rel;

	if (kind == RELKIND_INDEX || kind == RELKIND_PARTITIONED_INDEX)
		table = IndexGetRelation(relid, true);
	if (OidIsValid(table) && table != relid)
		LockRelationOid(table, AccessShareLock);
	rel = relation_open(relid, AccessShareLock);
	/* the index may have been another one's before it was locked */
	if (table != relid && table != IndexGetRelation(relid, true))
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_TABLE),
				 errmsg("could not find the table of index \"%s\"", RelationGetRelationName(rel)),
				 errhint("It is being dropped. Try again.")));
	allowed = pg_class_aclcheck(table, GetUserId(), ACL_SELECT);
	if (allowed != ACLCHECK_OK)
		aclcheck_error(allowed, get_relkind_objtype(get_rel_relkind(table)), get_rel_name(table));
	check_relation(rel);
	return rel;
}

static void
add_indexes(Loading *loading, Relation table)
{
	ListCell   *cell;
	List	   *indexes = RelationGetIndexList(table);

	foreach(cell, indexes)
		loading->relations = lappend(loading->relations, relation_open(lfirst_oid(cell), AccessShareLock));
	list_free(indexes);
}

static void
open_relations(Loading *loading, const FcPrewarm *what)
{
	Relation	rel = open_asked(what->relation);
	char		kind = rel->rd_rel->relkind;
	bool		is_table = kind == RELKIND_RELATION || kind == RELKIND_MATVIEW || kind == RELKIND_TOASTVALUE;

	loading->relations = list_make1(rel);
	if (what->indexes && is_table)
		add_indexes(loading, rel);
	if (what->toast && OidIsValid(rel->rd_rel->reltoastrelid))
	{
		Relation	toast = relation_open(rel->rd_rel->reltoastrelid, AccessShareLock);

		loading->relations = lappend(loading->relations, toast);
		add_indexes(loading, toast);
	}
}

/* Of a relation of n blocks: from `least` on. */
static void
check_block(const char *name, const int64 *block, int64 least, int64 n)
{
	if (!block || (*block >= least && *block < n))
		return;
	ereport(ERROR,
			(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
			 errmsg("%s is out of range: " INT64_FORMAT, name, *block),
			 errdetail_plural("The relation has " INT64_FORMAT " block, counted from 0.",
							  "The relation has " INT64_FORMAT " blocks, counted from 0.", (unsigned long) n, n),
			 n == 0 ? errhint("It is empty: there is nothing to load.") :
			 least == n - 1 ? errhint("Give " INT64_FORMAT ", or NULL for no limit.", least) :
			 errhint("Give " INT64_FORMAT " to " INT64_FORMAT ", or NULL for no limit.", least, n - 1)));
}

/* Which blocks of the first relation? */
static void
choose_blocks(Loading *loading, const FcPrewarm *what)
{
	int64		n = RelationGetNumberOfBlocks((Relation) linitial(loading->relations));

	if ((what->first || what->last) && (what->indexes || what->toast))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("a range of blocks cannot be combined with indexes or TOAST"),
				 errhint("Prewarm these in a call of their own.")));
	check_block("first_block", what->first, 0, n);
	check_block("last_block", what->last, what->first ? *what->first : 0, n);
	loading->first = what->first ? (BlockNumber) *what->first : 0;
	loading->end = what->last ? (BlockNumber) *what->last + 1 : (BlockNumber) n;
}

/* ---- loading ---- */

static void
load_relation(Loading *loading, Relation rel, BlockNumber first, BlockNumber end)
{
	FcRel		name = fc_data_rel(rel);
	int			n;

	for (BlockNumber blk = first; blk < end; blk += n)
	{
		CHECK_FOR_INTERRUPTS();
		if (!fc_cache_in_use())
			fc_prewarm_check_active();
		n = fc_data_in_file(blk, Min((BlockNumber) FC_LOAD_PAGES, end - blk));
		fc_prewarm_read(&loading->run, name, blk, n, FC_LOAD_ALL);
		loading->run.blocks_done += n;
		fc_prewarm_give(&loading->run, RelationGetRelid(rel));
	}
	loading->run.relations_done++;
}

static void
load_all(Loading *loading, FcLoadCounts *counts)
{
	ListCell   *cell;

	foreach(cell, loading->relations)
	{
		Relation	rel = lfirst(cell);
		bool		asked = cell == list_head(loading->relations);

		if (asked)
			load_relation(loading, rel, loading->first, loading->end);
		else
			load_relation(loading, rel, 0, RelationGetNumberOfBlocks(rel));
	}
	fc_prewarm_end(counts);
}

/* How many blocks there are; those of the first relation have been chosen. */
static uint64
count_blocks(const Loading *loading)
{
	uint64		blocks = loading->end - loading->first;
	ListCell   *cell;

	for_each_from(cell, loading->relations, 1)
		blocks += RelationGetNumberOfBlocks((Relation) lfirst(cell));
	return blocks;
}

void
fc_prewarm(const FcPrewarm *what, FcPrewarmed *done)
{
	FcLoadProgress about = {0};
	Loading		loading = {0};
	ListCell   *cell;

	fc_prewarm_check_active();
	fc_prewarm_await_policies(what->relation);
	open_relations(&loading, what);
	choose_blocks(&loading, what);

	about.pid = MyProcPid;
	about.role = GetUserId();
	about.database = MyDatabaseId;
	about.relation = about.current = what->relation;
	about.relations = list_length(loading.relations);
	about.blocks = count_blocks(&loading);
	fc_prewarm_begin(&loading.run, what->replace, &about);
	PG_ENSURE_ERROR_CLEANUP(fc_prewarm_leave, (Datum) 0);
	{
		load_all(&loading, &done->pages);
	}
	PG_END_ENSURE_ERROR_CLEANUP(fc_prewarm_leave, (Datum) 0);
	fc_prewarm_leave(0, (Datum) 0);
	done->relations = about.relations;
	done->blocks = loading.run.blocks_done;
	foreach(cell, loading.relations)
		relation_close((Relation) lfirst(cell), AccessShareLock);
}
