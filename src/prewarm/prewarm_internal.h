/*-------------------------------------------------------------------------
 *
 * prewarm/prewarm_internal.h
 *	  What loading relations and loading from a map share: the session's side
 *	  of L1-L4, and of the writer's jobs.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_PREWARM_INTERNAL_H
#define FC_PREWARM_INTERNAL_H

#include "cache/cache.h"
#include "map/map.h"
#include "utils/rel.h"
#include "writer/writer.h"

/* What a session is loading. */
typedef struct FcPrewarmRun
{
	FcLoad	   *load;			/* read last, and not given yet */
	char	   *pages;			/* FC_LOAD_PAGES, aligned */
	bool		full;			/* there is no slot left for this call */
	FcLoadCounts counts;		/* that have not been told yet */
	int			relations_done;
	uint64		blocks_done;
} FcPrewarmRun;

/* Raises unless the cache can take pages now. */
extern void fc_prewarm_check_active(void);

/* The policy that has just been set, or of that relation, which has just been made, comes into force in a moment, which is waited for. */
extern void fc_prewarm_await_policies(Oid relation);

/*
 * Raises if other sessions load, as many as there may be.  From here on
 * fc_prewarm_leave() must be called, whatever happens.
 */
extern void fc_prewarm_begin(FcPrewarmRun *run, bool replace, const FcLoadProgress *about);

/* For PG_ENSURE_ERROR_CLEANUP. */
extern void fc_prewarm_leave(int code, Datum arg);

/* L1-L4 for some blocks in a row, which are in one file, and of these for those that are wanted. */
extern void fc_prewarm_read(FcPrewarmRun *run, FcRel name, BlockNumber blk, int n, FcLoadMask wanted);

/* Gives the writer what was read last, when it is ready for it, and says where this session is. */
extern void fc_prewarm_give(FcPrewarmRun *run, Oid relid);

/* Waits for the writer's end of it; returns what has become of all pages. */
extern void fc_prewarm_end(FcLoadCounts *counts);

/* ---- what a map names ---- */

/* What has become of a relation. */
typedef enum FcPrewarmOpened
{
	OPENED,
	OPENED_LOCKED,				/* somebody else has it */
	OPENED_NONE,				/* nothing here has this file, or nothing that
								 * is kept on flash and may be read */
} FcPrewarmOpened;

/* Locks and opens the relation that has the file. */
extern FcPrewarmOpened fc_prewarm_open(FcRel name, Relation *rel);

/* The bits of the row from `bit` on, `n` of them. */
extern FcLoadMask fc_prewarm_bits(const FcMapRow *row, int bit, int n);

#endif							/* FC_PREWARM_INTERNAL_H */
