/*-------------------------------------------------------------------------
 *
 * types.h
 *	  Types that every module uses: what a cached page is called and where it lies.
 *
 * Only the main fork is ever cached, so a tag has no fork number and fits
 * into 16 bytes; together with the rest of a directory entry that makes 32.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_TYPES_H
#define FC_TYPES_H

#include "postgres.h"

#include "storage/block.h"

/* Full identity of a page of a main fork. */
typedef struct FcTag
{
	Oid			spc;			/* tablespace */
	Oid			db;				/* database, 0 for shared relations */
	Oid			rel;			/* relation file number */
	BlockNumber blk;			/* block within the main fork */
} FcTag;

/* The relation part of a tag. */
typedef struct FcRel
{
	Oid			spc;
	Oid			db;
	Oid			rel;
} FcRel;

/*
 * Where shared generations, epochs, versions, positions and counters begin.
 * A build with a small negative number lets all of them pass the end of their
 * range after a few events: the test stage `wrap`.
 */
#ifndef FC_START
#define FC_START 0
#endif

#define FC_START_32 ((uint32) (FC_START))
#define FC_START_64 ((uint64) (int64) (FC_START))

#define FC_GENERATIONS 4

/*
 * What a fill remembers of the moment before it copied the page: if all
 * generations have moved when it publishes, or its relation or database was
 * invalidated after that epoch, D(p) may have changed meanwhile.
 */
typedef struct FcGuard
{
	uint64		generation[FC_GENERATIONS]; /* of the page */
	uint32		epoch;
} FcGuard;

/* Number of a slot on flash, counted from 0. */
typedef uint32 FcSlotNo;

#define FC_NO_SLOT ((FcSlotNo) PG_UINT32_MAX)

/* A cache smaller than this is a typing error rather than a cache. */
#define FC_MIN_SLOTS 64
#define FC_MIN_KB (FC_MIN_SLOTS * (BLCKSZ / 1024))

/*
 * Slots are numbered through, whatever device they lie on.  A chunk of them,
 * 1 << shift slots, lies in a row on one device, or nowhere.  There are at
 * most FC_CHUNKS chunks, and the last one may be shorter.
 */
#define FC_CHUNKS 1024
#define FC_LEAST_CHUNK_SHIFT 7	/* 1 MB */

static inline uint32
fc_chunk_shift(uint32 slots)
{
	uint32		shift = FC_LEAST_CHUNK_SHIFT;

	while (((uint64) slots + (UINT64CONST(1) << shift) - 1) >> shift > FC_CHUNKS)
		shift++;
	return shift;
}

static inline uint32
fc_chunks(uint32 slots)
{
	uint32		shift = fc_chunk_shift(slots);

	return (uint32) (((uint64) slots + (UINT64CONST(1) << shift) - 1) >> shift);
}

/* So many slots has a chunk. */
static inline uint32
fc_chunk_slots(uint32 slots, uint32 chunk)
{
	uint32		shift = fc_chunk_shift(slots);
	uint64		first = (uint64) chunk << shift;

	return (uint32) Min(slots - first, UINT64CONST(1) << shift);
}

/* One part of our shared memory; pg_shmem_allocations shows it under this name. */
typedef struct FcPart
{
	const char *name;
	Size		size;
} FcPart;

static inline FcPart
fc_part(const char *name, Size size)
{
	FcPart		part = {name, size};

	return part;
}

/* What the cache is doing; the word DBAs see is in fc_state_name(). */
typedef enum FcState
{
	FC_STATE_DETACHED,			/* no way into this server: reason says why */
	FC_STATE_DISABLED,			/* size 0, or enabled = off */
	FC_STATE_STARTING,			/* the writer has not opened the device yet */
	FC_STATE_ACTIVE,
	FC_STATE_PAUSED,			/* flash is slower than the disk: keeps its
								 * pages */
	FC_STATE_OFF,				/* switched itself off: reason says why */
} FcState;

/* What came of the proof that the server's calls reach our wrappers. */
typedef enum FcTested
{
	FC_TEST_PASSED,
	FC_TEST_NOT_CALLED,			/* one of them does not */
	FC_TEST_FAILED,				/* it could not be carried out: nothing is
								 * proven either way */
} FcTested;

static inline bool
fc_tag_equal(const FcTag *a, const FcTag *b)
{
	return a->blk == b->blk && a->rel == b->rel && a->db == b->db && a->spc == b->spc;
}

static inline FcRel
fc_tag_rel(const FcTag *tag)
{
	FcRel		rel = {tag->spc, tag->db, tag->rel};

	return rel;
}

#endif							/* FC_TYPES_H */
