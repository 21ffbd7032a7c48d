/*-------------------------------------------------------------------------
 *
 * cache_bypass.h
 *	  What readers and the writer know of tablespaces in common: see
 *	  cache_bypass.c.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_BYPASS_H
#define FC_CACHE_BYPASS_H

#include "cache/cache.h"
#include "policy_bypass.h"
#include "stats/stats.h"
#include "types.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"

/* What readers go by. */
typedef enum FcWay
{
	FC_WAY_CACHED,				/* no samples */
	FC_WAY_WATCHED,				/* cached; a window is open */
	FC_WAY_HALF,
	FC_WAY_MOST,
	FC_WAY_BYPASSED,
	FC_WAY_BACK,
} FcWay;

typedef struct FcTablespace
{
	pg_atomic_uint32 spc;		/* tablespace; 0: free */
	pg_atomic_uint32 way;
	pg_atomic_uint32 salt;		/* of the hash, by which pages are divided */
	pg_atomic_uint32 wanted;	/* samples of each arm */
	pg_atomic_uint32 window;	/* its number */
	pg_atomic_uint32 begun[2];	/* samples that were begun, by FcArmOf */
	pg_atomic_uint32 n[2];		/* samples so far, by FcArmOf */
	pg_atomic_uint32 disk_now;	/* bypassed: what a read takes, ns; 0: unknown */
	pg_atomic_uint32 disk_then; /* what it took when that began */
	pg_atomic_uint64 force_at;	/* ns: a read may be made for a sample from
								 * then on */
	slock_t		lock;			/* protects what follows */
	FcArm		arm[2];
	/* the writer's, shown by the view */
	FcBypass	policy;
	FcArm		last[2];		/* of the last window */
	TimestampTz since;
	uint64		found_lost_at;	/* ns */
} FcTablespace;

typedef union FcPaddedTablespace
{
	FcTablespace place;
	char		pad[TYPEALIGN(PG_CACHE_LINE_SIZE, sizeof(FcTablespace))];
} FcPaddedTablespace;

/* Pages that were not looked for on flash; each process adds to one of the stripes. */
typedef struct FcBypassStripe
{
	pg_atomic_uint64 bypassed[FC_BYPASS_PLACES];
} FcBypassStripe;

typedef struct FcTablespaces
{
	FcPaddedTablespace of[FC_BYPASS_PLACES];
	FcBypassStripe stripe[FC_STRIPES];
} FcTablespaces;

extern FcTablespaces *fc_bypass_shared;

#endif							/* FC_CACHE_BYPASS_H */
