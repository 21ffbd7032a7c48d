/*-------------------------------------------------------------------------
 *
 * directory_generations.c
 *	  When pages were invalidated: a counter that moves with each time.
 *
 * Generations are hashed: a page has four, each in a table of its own, and a
 * guard is broken when all four have moved.  So a fill fails for nothing only
 * if other pages were written that hit each of them: with w pages written
 * meanwhile and n generations in a table, (1 - exp(-w/n))^4.  They have 64
 * bits and don't wrap around.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"
#include "storage/shmem.h"

#define MIN_GENERATIONS 5461
#define MAX_GENERATIONS 65536

static pg_atomic_uint64 *generations;	/* full barrier at I1 and F1 */
static uint32 per_table;

static uint32
generations_for(uint32 slots)
{
	return Max(MIN_GENERATIONS, Min(slots / 24, MAX_GENERATIONS));
}

Size
fc_generations_size(uint32 slots)
{
	return CACHELINEALIGN(mul_size((Size) FC_GENERATIONS * generations_for(slots), sizeof(uint64)));
}

void
fc_generations_init(void *memory, uint32 slots)
{
	generations = memory;
	per_table = generations_for(slots);
	if (FC_START == 0)
		return;
	for (Size i = 0; i < (Size) FC_GENERATIONS * per_table; i++)
		pg_atomic_init_u64(&generations[i], FC_START_64);
}

/* The one in table i: bits 16 i to 16 i + 15. */
static inline pg_atomic_uint64 *
generation_of(uint64 hash, int i)
{
	uint64		part = (hash >> (16 * i)) & 0xffff;

	Assert((uint32) i < FC_GENERATIONS);
	Assert(((part * per_table) >> 16) < per_table);
	return &generations[(Size) i * per_table + ((part * per_table) >> 16)];
}

void
fc_generations_bump(uint64 hash)
{
	for (int i = 0; i < FC_GENERATIONS; i++)
		pg_atomic_fetch_add_u64(generation_of(hash, i), 1);
}

void
fc_generations_read(uint64 hash, FcGuard *guard)
{
	for (int i = 0; i < FC_GENERATIONS; i++)
		guard->generation[i] = pg_atomic_read_u64(generation_of(hash, i));
}

bool
fc_generations_moved(uint64 hash, const FcGuard *guard)
{
	bool		moved = true;

	/* a change of the page moves each of them */
	for (int i = 0; i < FC_GENERATIONS; i++)
		moved &= pg_atomic_read_u64(generation_of(hash, i)) != guard->generation[i];
	return moved;
}
