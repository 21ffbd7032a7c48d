/*-------------------------------------------------------------------------
 *
 * buffers.c
 *	  See buffers.h.
 *
 * The pages are read by the buffer manager, as any session reads them, and so
 * are right whatever the list says; from flash, or not at all.  A page of a
 * relation that is being dropped or cut must not come into the pool behind its
 * back, so each relation is locked meanwhile, and looked up by its file number,
 * which only a session of its database can do.
 *
 * Nobody is to wait for this:
 *	- locks are taken only where they are free, and for PAGES_LOCKED pages;
 *	- a database that somebody wants to drop, move, rename or copy is left: such
 *	  a command waits 5 s until no other session is in it;
 *	- no page is evicted for it: it ends when no buffer is free.
 *
 * The list is loaded in SLICES, the hottest first, each in the order of blocks.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/relation.h"
#include "access/xact.h"
#include "bufscan.h"
#include "cache/cache.h"
#include "catalog/pg_database.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "buffers.h"
#include "settings.h"
#include "storage/bufmgr.h"
#include "storage/lmgr.h"
#include "storage/lock.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/rel.h"
#include "warm/warm.h"

/* So many pages are loaded under one lock; 25 ms of a slow device. */
#define PAGES_LOCKED 256

#define SLICES 8
#define SMALLEST_SLICE 64

/* So many are announced before they are read: cache_ahead.c reads them ahead. */
#define ANNOUNCED 32

static int
compare(const void *a, const void *b)
{
	const FcTag *x = a;
	const FcTag *y = b;

	if (x->db != y->db)
		return x->db < y->db ? -1 : 1;
	if (x->spc != y->spc)
		return x->spc < y->spc ? -1 : 1;
	if (x->rel != y->rel)
		return x->rel < y->rel ? -1 : 1;
	return x->blk < y->blk ? -1 : x->blk > y->blk;
}

/* The pages of the list that are of that database; of more than fit, the hottest. */
static FcTag *
pages_of(Oid db, bool shared, uint32 *n)
{
	uint32		nslots;
	FcSlotNo   *slots = fc_warm_list(&nslots);
	FcTag	   *tags = NULL;

	*n = 0;
	if (slots == NULL)
		return NULL;
	nslots = Min(nslots, fc_bufscan_frames());
	tags = malloc((size_t) Max(nslots, 1) * sizeof(FcTag));
	for (uint32 i = 0; tags != NULL && i < nslots; i++)
	{
		FcTag		tag;

		if (fc_directory_restored_page(slots[i], &tag) &&
			(tag.db == db || (shared && !OidIsValid(tag.db))))
			tags[(*n)++] = tag;
	}
	free(slots);
	return tags;
}

static bool
goes_on(void)
{
	CHECK_FOR_INTERRUPTS();
	return !ShutdownRequestPending && fc_cache_in_use() && fc_bufscan_has_free();
}

/*
 * Does nobody want the database for himself?  If so, nobody will until the end
 * of the transaction.
 */
static bool
lock_database(void)
{
	LOCKTAG		lock;

	SET_LOCKTAG_OBJECT(lock, InvalidOid, DatabaseRelationId, MyDatabaseId, 0);
	return LockAcquire(&lock, RowExclusiveLock, false, true) != LOCKACQUIRE_NOT_AVAIL;
}

/* The relation that has this file, locked until the end of the transaction; NULL if there is none, or somebody has locked it. */
static Relation
open_file(const FcTag *tag)
{
	Oid			oid = fc_relation_of(tag->spc, tag->rel);
	Relation	rel;

	if (!OidIsValid(oid) || !ConditionalLockRelationOid(oid, AccessShareLock))
		return NULL;
	rel = try_relation_open(oid, NoLock);
	if (rel == NULL || FC_FILE_OF(rel) == tag->rel)
		return rel;
	relation_close(rel, NoLock);	/* it has got another one meanwhile */
	return NULL;
}

/* Is the page to be loaded?  Only from flash, and not if it is there already. */
static bool
is_wanted(const FcTag *tag, BlockNumber nblocks)
{
	FcSlotRef	ref;

	return tag->blk < nblocks && !fc_bufscan_holds(tag) &&
		fc_directory_lookup(tag, fc_directory_hash(tag), &ref);
}

/* Some pages of one relation. */
static void
load(Relation rel, const FcTag *tags, uint32 n)
{
	BlockNumber nblocks = RelationGetNumberOfBlocks(rel);
	uint32		announced = 0;
	uint32		loaded = 0;

	for (uint32 i = 0; i < n && goes_on(); i++)
	{
		for (; announced < Min(n, i + ANNOUNCED); announced++)
			if (is_wanted(&tags[announced], nblocks))
				(void) PrefetchBuffer(rel, MAIN_FORKNUM, tags[announced].blk);
		if (!is_wanted(&tags[i], nblocks))
			continue;
		ReleaseBuffer(ReadBufferExtended(rel, MAIN_FORKNUM, tags[i].blk, RBM_NORMAL, NULL));
		loaded++;
	}
	fc_warm_buffers_loaded(loaded);
}

/* As many pages of one relation as there may be under one lock, from the first one on. */
static uint32
one_lock(const FcTag *tags, uint32 n)
{
	uint32		same = 1;

	while (same < Min(n, PAGES_LOCKED) && tags[same].rel == tags[0].rel &&
		   tags[same].spc == tags[0].spc && tags[same].db == tags[0].db)
		same++;
	return same;
}

/* False: there is no point in going on. */
static bool
load_slice(const FcTag *tags, uint32 n)
{
	uint32		now;

	for (uint32 i = 0; i < n; i += now)
	{
		Relation	rel;
		bool		free_for_all;

		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		now = one_lock(tags + i, n - i);
		fc_failpoint_of(FC_FP_BUFFERS_LOAD, tags[i].rel);
		StartTransactionCommand();
		free_for_all = lock_database();
		if (free_for_all && (rel = open_file(&tags[i])) != NULL)
		{
			load(rel, tags + i, now);
			relation_close(rel, NoLock);
		}
		CommitTransactionCommand();
		if (!free_for_all || !goes_on())
			return false;
	}
	return true;
}

void
fc_buffers_load(Oid db, bool shared)
{
	FcTag	   *tags;
	uint32		n;
	uint32		slice;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(db, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	/* from here on it waits for nobody, and can end without a FATAL */
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, "loading shared buffers from flash");
	tags = pages_of(db, shared, &n);
	slice = Max(n / SLICES, SMALLEST_SLICE);
	for (uint32 i = 0; i < n; i += slice)
	{
		uint32		now = Min(slice, n - i);

		qsort(tags + i, now, sizeof(FcTag), compare);
		if (!load_slice(tags + i, now))
			break;
	}
	free(tags);
	pgstat_report_activity(STATE_IDLE, NULL);
}
