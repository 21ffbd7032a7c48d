/*-------------------------------------------------------------------------
 *
 * prewarm/prewarm_rows.c
 *	  Loads the pages that a map names, in a background worker: fc_prewarm_rows().
 *
 * As prewarm_import.c does it for a session, but with a transaction of its own
 * for each run of blocks, so that nothing is held while the writer has the
 * pages or waits for the write limit, and what fails is that run alone.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "attach/data_read.h"
#include "bufscan.h"
#include "directory/directory.h"
#include "miscadmin.h"
#include "port/pg_bitutils.h"
#include "prewarm/prewarm.h"
#include "prewarm/prewarm_internal.h"
#include "storage/bufmgr.h"
#include "storage/ipc.h"
#include "utils/memutils.h"

/* After so many errors there is no point in going on. */
#define MAX_ERRORS 10

typedef struct Loading
{
	FcPrewarmRun run;
	FcImported *done;
	bool		(*goes_on) (void);
	int			errors;
	bool		stopped;
} Loading;

/* Those of the pages that are neither on flash nor in shared buffers. */
static FcLoadMask
missing_of(Loading *loading, FcRel rel, BlockNumber blk, int n, FcLoadMask wanted)
{
	for (int i = 0; i < n; i++)
	{
		FcTag		tag = {rel.spc, rel.db, rel.rel, blk + i};
		FcLoadMask	bit = (FcLoadMask) 1 << i;
		FcSlotRef	ref;

		if ((wanted & bit) == 0 ||
			(!fc_directory_lookup(&tag, fc_directory_hash(&tag), &ref) && !fc_bufscan_holds(&tag)))
			continue;
		wanted &= ~bit;
		loading->run.counts.exists++;
	}
	return wanted;
}

/* Within a transaction.  Returns the relation that was read. */
static Oid
read_run(Loading *loading, FcRel name, BlockNumber blk, int n, FcLoadMask wanted)
{
	BlockNumber nblocks;
	Relation	rel;
	Oid			relid;

	switch (fc_prewarm_open(name, &rel))
	{
		case OPENED_NONE:
			loading->done->gone += pg_popcount32(wanted);
			return InvalidOid;
		case OPENED_LOCKED:
			loading->done->locked += pg_popcount32(wanted);
			return InvalidOid;
		case OPENED:
			break;
	}
	relid = RelationGetRelid(rel);
	nblocks = RelationGetNumberOfBlocks(rel);
	for (int i = 0; i < n; i++)
		if ((wanted & ((FcLoadMask) 1 << i)) != 0 && (uint64) blk + i >= nblocks)
		{
			wanted &= ~((FcLoadMask) 1 << i);
			loading->done->gone++;
		}
	if (wanted != 0)
		fc_prewarm_read(&loading->run, name, blk, n, wanted);
	relation_close(rel, AccessShareLock);
	return relid;
}

/* An error while these pages were being read. */
static void
note_error(Loading *loading, MemoryContext context, FcLoadMask wanted)
{
	int			code = geterrcode();

	MemoryContextSwitchTo(context);
	loading->run.load->n = 0;
	/* recovery wants what is in the way of it: as if it had been locked */
	if (code == ERRCODE_T_R_SERIALIZATION_FAILURE || code == ERRCODE_T_R_DEADLOCK_DETECTED || code == ERRCODE_QUERY_CANCELED)
		loading->done->locked += pg_popcount32(wanted);
	else
	{
		EmitErrorReport();
		loading->done->unreadable += pg_popcount32(wanted);
		loading->stopped |= ++loading->errors >= MAX_ERRORS;
	}
	AbortCurrentTransaction();
	FlushErrorState();
	MemoryContextSwitchTo(context);
}

static void
load_run(Loading *loading, FcRel name, BlockNumber blk, int n, FcLoadMask wanted)
{
	MemoryContext context = CurrentMemoryContext;
	volatile Oid relid = InvalidOid;

	PG_TRY();
	{
		StartTransactionCommand();
		relid = read_run(loading, name, blk, n, wanted);
		CommitTransactionCommand();
	}
	PG_CATCH();
	{
		note_error(loading, context, wanted);
	}
	PG_END_TRY();
	MemoryContextSwitchTo(context);
	fc_prewarm_give(&loading->run, relid);
}

static void
load_row(Loading *loading, const FcMapRow *row)
{
	int			nbits = row->nbytes * 8;
	int			n;

	for (int bit = 0; bit < nbits && !loading->stopped && row->first + bit <= MaxBlockNumber; bit += n)
	{
		BlockNumber blk = (BlockNumber) (row->first + bit);
		FcLoadMask	wanted;

		n = fc_data_in_file(blk, Min(FC_LOAD_PAGES - (int) (blk % FC_LOAD_PAGES), nbits - bit));
		wanted = fc_prewarm_bits(row, bit, n);
		loading->run.blocks_done += pg_popcount32(wanted);
		loading->done->named += pg_popcount32(wanted);
		if (wanted != 0)
			wanted = missing_of(loading, row->rel, blk, n, wanted);
		if (!loading->goes_on() || !fc_cache_in_use())
			loading->stopped = true;
		else if (wanted != 0)
			load_run(loading, row->rel, blk, n, wanted);
	}
}

static void
load_rows(Loading *loading, bool (*next) (void *arg, FcMapRow *row), void *arg)
{
	static FcMapRow row;

	while (!loading->stopped && next(arg, &row))
	{
		loading->done->rows++;
		load_row(loading, &row);
	}
	fc_prewarm_give(&loading->run, InvalidOid);
	fc_prewarm_end(&loading->done->pages);
}

static void
load_all(Loading *loading, bool (*next) (void *arg, FcMapRow *row), void *arg, bool replace)
{
	FcLoadProgress about = {0};

	about.pid = MyProcPid;
	about.role = GetUserId();
	about.database = MyDatabaseId;
	fc_prewarm_begin(&loading->run, replace, &about);
	PG_ENSURE_ERROR_CLEANUP(fc_prewarm_leave, (Datum) 0);
	{
		load_rows(loading, next, arg);
	}
	PG_END_ENSURE_ERROR_CLEANUP(fc_prewarm_leave, (Datum) 0);
	fc_prewarm_leave(0, (Datum) 0);
}

bool
fc_prewarm_rows(bool (*next) (void *arg, FcMapRow *row), void *arg, bool (*goes_on) (void),
				bool replace, FcImported *done)
{
	Loading		loading = {.done = done,.goes_on = goes_on};
	MemoryContext context = CurrentMemoryContext;
	volatile bool ended = false;

	PG_TRY();
	{
		load_all(&loading, next, arg, replace);
		ended = !loading.stopped;
	}
	PG_CATCH();
	{
		int			code = geterrcode();

		MemoryContextSwitchTo(context);
		if (goes_on() && fc_cache_in_use() && code != ERRCODE_OBJECT_IN_USE)
			EmitErrorReport();
		AbortOutOfAnyTransaction();
		FlushErrorState();
		MemoryContextSwitchTo(context);
	}
	PG_END_TRY();
	return ended;
}
