/*-------------------------------------------------------------------------
 *
 * prewarm/prewarm_import.c
 *	  Loads the pages that a map names: pg_flashcache_import_map().
 *
 * Its rows are hints, and nothing but that: which relation has the file now is
 * asked of the catalogs, and the pages are loaded by L1-L4 (src/protocol.md),
 * which do not care who named them.
 *
 * Nobody waits for this: a relation is locked, as by a reader, for one run of
 * at most FC_LOAD_PAGES blocks, while they are read, not while the writer has
 * them or waits for the write limit.  A relation that somebody else has locked
 * against readers is left, run by run.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "attach/data_read.h"
#include "catalog/index.h"
#include "catalog/pg_class.h"
#include "compat.h"
#include "map/map.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "prewarm/prewarm.h"
#include "prewarm/prewarm_internal.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "storage/lmgr.h"
#include "utils/acl.h"
#include "utils/rel.h"

typedef struct Importing
{
	FcPrewarmRun run;
	FcImported *done;
} Importing;

/* ---- the relations ---- */

/* May who calls this read it?  The right to read an index is that of its table. */
static bool
may_read(Relation rel)
{
	Oid			table = RelationGetRelid(rel);

	if (rel->rd_rel->relkind == RELKIND_INDEX)
		table = IndexGetRelation(table, true);
	return OidIsValid(table) && pg_class_aclcheck(table, GetUserId(), ACL_SELECT) == ACLCHECK_OK;
}

/* Is it what the row means, and kept on flash? */
static bool
is_meant(Relation rel, FcRel name)
{
	FcRel		now;

	if (!RELKIND_HAS_STORAGE(rel->rd_rel->relkind) || rel->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
		return false;
	now = fc_data_rel(rel);
	return now.rel == name.rel && now.db == name.db && now.spc == name.spc && may_read(rel);
}

FcPrewarmOpened
fc_prewarm_open(FcRel name, Relation *rel)
{
	Oid			oid = fc_relation_of(name.spc, name.rel);

	if (!OidIsValid(oid))
		return OPENED_NONE;
	if (!ConditionalLockRelationOid(oid, AccessShareLock))
		return OPENED_LOCKED;
	*rel = try_relation_open(oid, NoLock);
	if (*rel == NULL)
	{
		UnlockRelationOid(oid, AccessShareLock);
		return OPENED_NONE;
	}
	if (is_meant(*rel, name))
		return OPENED;
	relation_close(*rel, AccessShareLock);
	return OPENED_NONE;
}

/* ---- loading ---- */

FcLoadMask
fc_prewarm_bits(const FcMapRow *row, int bit, int n)
{
	FcLoadMask	mask = 0;

	for (int i = 0; i < n; i++)
		if (fc_map_has(row, bit + i))
			mask |= (FcLoadMask) 1 << i;
	return mask;
}

/*
 * Some blocks in a row, which are in one file.  False: the row names nothing
 * here, and nothing has been counted.
 */
static bool
load_run(Importing *importing, const FcMapRow *row, BlockNumber blk, int n, FcLoadMask wanted)
{
	FcPrewarmRun *run = &importing->run;
	BlockNumber nblocks;
	Relation	rel;
	Oid			relid;

	switch (fc_prewarm_open(row->rel, &rel))
	{
		case OPENED_NONE:
			return false;
		case OPENED_LOCKED:
			importing->done->locked += pg_popcount32(wanted);
			run->blocks_done += pg_popcount32(wanted);
			return true;
		case OPENED:
			break;
	}
	relid = RelationGetRelid(rel);
	nblocks = RelationGetNumberOfBlocks(rel);
	run->blocks_done += pg_popcount32(wanted);
	for (int i = 0; i < n; i++)
		if ((wanted & ((FcLoadMask) 1 << i)) != 0 && (uint64) blk + i >= nblocks)
		{
			wanted &= ~((FcLoadMask) 1 << i);
			run->counts.modified++;
		}
	if (wanted != 0)
		fc_prewarm_read(run, row->rel, blk, n, wanted);
	relation_close(rel, AccessShareLock);
	fc_prewarm_give(run, relid);
	return true;
}

static void
load_row(Importing *importing, const FcMapRow *row)
{
	int			nbits = row->nbytes * 8;
	int			done = 0;		/* pages */
	int			n;

	if (row->rel.db != MyDatabaseId && OidIsValid(row->rel.db))
	{
		importing->done->rows_skipped++;
		return;
	}
	for (int bit = 0; bit < nbits && row->first + bit <= MaxBlockNumber; bit += n)
	{
		BlockNumber blk = (BlockNumber) (row->first + bit);
		FcLoadMask	wanted;

		/* in the runs in which the blocks of a relation are loaded */
		n = fc_data_in_file(blk, Min(FC_LOAD_PAGES - (int) (blk % FC_LOAD_PAGES), nbits - bit));
		wanted = fc_prewarm_bits(row, bit, n);
		if (wanted == 0)
			continue;
		CHECK_FOR_INTERRUPTS();
		if (!fc_cache_in_use())
			fc_prewarm_check_active();
		if (!load_run(importing, row, blk, n, wanted))
			break;
		done += pg_popcount32(wanted);
	}
	if (done == 0)
	{
		importing->done->rows_skipped++;
		return;
	}

	/*
	 * the rest of a relation that has gone on the way, or of what no relation
	 * has
	 */
	importing->run.counts.modified += row->pages - done;
	importing->done->named += row->pages;
}

static void
load_rows(Importing *importing, FcMapQuery *map)
{
	FcMapRow	row;

	while (fc_map_query_next(map, &row))
	{
		importing->done->rows++;
		load_row(importing, &row);
	}
	/* says what has been counted since the last pages were given */
	fc_prewarm_give(&importing->run, InvalidOid);
	fc_prewarm_end(&importing->done->pages);
}

void
fc_prewarm_import(const char *query, bool replace, FcImported *done)
{
	FcLoadProgress about = {0};
	Importing	importing = {0};
	FcMapQuery *map;

	fc_prewarm_check_active();
	fc_prewarm_await_policies(InvalidOid);
	map = fc_map_query_open(query);
	importing.done = done;
	about.pid = MyProcPid;
	about.role = GetUserId();
	about.database = MyDatabaseId;
	fc_prewarm_begin(&importing.run, replace, &about);
	PG_ENSURE_ERROR_CLEANUP(fc_prewarm_leave, (Datum) 0);
	{
		load_rows(&importing, map);
	}
	PG_END_ENSURE_ERROR_CLEANUP(fc_prewarm_leave, (Datum) 0);
	fc_prewarm_leave(0, (Datum) 0);
	fc_map_query_close(map);
}
