/*-------------------------------------------------------------------------
 *
 * prewarm.c
 *	  See prewarm.h.
 *
 * The session that asks does the work: it locks the relations, reads their
 * blocks in order, up to 32 at a time, past the buffer manager, and gives them
 * to the writer, which writes them to flash as the write limit allows.  While
 * the writer has one run, the session reads the next.  Blocks that are on
 * flash already are not read; so whoever was interrupted just asks again.
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
#include "prewarm.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/relcache.h"
#include "writer/writer.h"

/* Relations of one call, and what is being done. */
typedef struct Loading
{
	List	   *relations;		/* open and locked */
	BlockNumber first;			/* of the first relation */
	BlockNumber end;
	uint64		blocks_done;
	int			relations_done;
	bool		full;			/* there is no slot left for this call */
	FcLoad	   *load;
	char	   *pages;			/* FC_LOAD_PAGES, aligned */
} Loading;

/* ---- what is asked for ---- */

/* The cache must be able to take pages, now. */
static void
check_active(void)
{
	FcState		state = fc_cache_state();
	FcReason	why;

	if (fc_cache_in_use())
		return;
	fc_cache_reason(&why);
	if (state == FC_STATE_ACTIVE)
		state = FC_STATE_DISABLED;	/* for this session, and soon for all */
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the flash cache cannot be prewarmed while it is %s%s%s", fc_state_name(state),
					why.message[0] ? ": " : "", why.message),
			 errhint(state == FC_STATE_STARTING ? "Try again in a moment." :
					 state == FC_STATE_OFF ? "Call pg_flashcache_enable() first." :
					 state == FC_STATE_PAUSED ? "It comes back by itself when flash is faster than the disk again." :
					 "See the column \"reason\" of pg_stat_flashcache.")));
}

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
	if (what->first && (*what->first < 0 || *what->first >= n))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("first_block is out of range: " INT64_FORMAT, *what->first),
				 errdetail("The relation has " INT64_FORMAT " blocks, counted from 0.", n)));
	if (what->last && (*what->last < (what->first ? *what->first : 0) || *what->last >= n))
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("last_block is out of range: " INT64_FORMAT, *what->last),
				 errdetail("The relation has " INT64_FORMAT " blocks, counted from 0, and it must not be before the first one.", n)));
	loading->first = what->first ? (BlockNumber) *what->first : 0;
	loading->end = what->last ? (BlockNumber) *what->last + 1 : (BlockNumber) n;
}

/* ---- loading ---- */

/*
 * The writer must be ready for the next pages, or have dealt with the last
 * ones.  Adds up what has been counted so far.
 */
static void
wait_for_writer(FcLoadCounts *counts)
{
	FcLoadWait	result = fc_writer_load_wait();

	fc_writer_load_counts(counts);
	switch (result)
	{
		case FC_LOAD_READY:
			return;
		case FC_LOAD_NOT_ACTIVE:
			check_active();
			break;
		case FC_LOAD_NO_MEMORY:
			ereport(ERROR,
					(errcode(ERRCODE_OUT_OF_MEMORY),
					 errmsg("the pg_flashcache writer could not attach to shared memory"),
					 errhint("The server log has the reason.")));
			break;
		case FC_LOAD_NO_WRITER:
			break;
	}
	ereport(ERROR,
			(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
			 errmsg("the pg_flashcache writer is not running, or was away for a moment"),
			 errdetail("%llu pages have been loaded.", (unsigned long long) counts->loaded),
			 errhint("Call the function again: what is on flash is not read again.")));
}

/* Some blocks in a row, which are in one file. */
static void
load_run(Loading *loading, Relation rel, FcRel name, BlockNumber blk, int n)
{
	FcTag		tag = {name.spc, name.db, name.rel, blk};
	FcLoadCounts counts = {0};
	FcLoad	   *load = loading->load;

	fc_cache_load_begin(load, &tag, n, &counts);	/* L1, L2 */
	if (loading->full)
	{
		counts.full += load->n;
		load->n = 0;
	}
	if (load->n > 0)
	{
		int			span = load->tag[load->n - 1].blk - load->tag[0].blk + 1;
		int			nread = fc_data_read(&load->tag[0], span, loading->pages);	/* L3 */

		fc_cache_load_check(load, loading->pages, nread, &counts);	/* L4 */
	}
	if (load->n > 0)
	{
		FcLoadCounts sum;

		wait_for_writer(&sum);
		loading->full = sum.full > 0;
		fc_writer_load_give(load);
	}
	loading->blocks_done += n;
	fc_writer_load_tell(RelationGetRelid(rel), loading->relations_done, loading->blocks_done, &counts);
}

static void
load_relation(Loading *loading, Relation rel, BlockNumber first, BlockNumber end)
{
	FcRel		name = fc_data_rel(rel);
	int			n;

	for (BlockNumber blk = first; blk < end; blk += n)
	{
		CHECK_FOR_INTERRUPTS();
		if (!fc_cache_in_use())
			check_active();
		n = fc_data_in_file(blk, Min((BlockNumber) FC_LOAD_PAGES, end - blk));
		load_run(loading, rel, name, blk, n);
	}
	loading->relations_done++;
}

static void
leave(int code, Datum arg)
{
	fc_writer_load_end();
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
	wait_for_writer(counts);
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

	check_active();
	open_relations(&loading, what);
	choose_blocks(&loading, what);

	about.pid = MyProcPid;
	about.role = GetUserId();
	about.database = MyDatabaseId;
	about.relation = about.current = what->relation;
	about.relations = list_length(loading.relations);
	about.blocks = count_blocks(&loading);
	loading.load = palloc(sizeof(FcLoad));
	loading.pages = (char *) TYPEALIGN(FC_IO_ALIGN, palloc((Size) FC_LOAD_PAGES * BLCKSZ + FC_IO_ALIGN));
	if (!fc_writer_load_begin(what->replace, &about))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_IN_USE),
				 errmsg("%d sessions are prewarming the flash cache already", FC_LOAD_JOBS),
				 errhint("Wait for one of them, or cancel it: pg_stat_progress_flashcache_prewarm lists them.")));
	PG_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	{
		load_all(&loading, &done->pages);
	}
	PG_END_ENSURE_ERROR_CLEANUP(leave, (Datum) 0);
	leave(0, (Datum) 0);
	done->relations = about.relations;
	done->blocks = loading.blocks_done;
	foreach(cell, loading.relations)
		relation_close((Relation) lfirst(cell), AccessShareLock);
}
