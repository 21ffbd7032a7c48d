/*-------------------------------------------------------------------------
 *
 * cache_looked.c
 *	  See cache_looked.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "cache/cache_looked.h"
#include "utils/memutils.h"

#define RESULT_MASK 0x3

/* Of each frame: 14 bits of the page's hash, and an FcLooked. */
static uint16 *looked = NULL;

void
fc_looked_start(void)
{
	looked = MemoryContextAllocExtended(TopMemoryContext, (Size) fc_bufscan_frames() * sizeof(*looked),
										MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
}

void
fc_looked_forget(void)
{
	if (looked != NULL)
		memset(looked, 0, (Size) fc_bufscan_frames() * sizeof(*looked));
}

static inline uint16
mark_of(uint64 hash, FcLooked result)
{
	return (uint16) ((hash >> 24) & ~(uint64) RESULT_MASK) | result;
}

FcLooked
fc_looked_before(int frame, uint64 hash)
{
	FcLooked	result;

	if (frame < 0)
		return FC_LOOKED_NOT;
	result = (FcLooked) (looked[frame] & RESULT_MASK);
	return looked[frame] == mark_of(hash, result) ? result : FC_LOOKED_NOT;
}

void
fc_looked_note(int frame, uint64 hash, FcLooked result)
{
	if (frame >= 0)
		looked[frame] = mark_of(hash, result);
}

void
fc_looked_no(uint32 frame)
{
	looked[frame] = 0;
}

void
fc_looked_has(uint32 frame, const FcTag *tag)
{
	if (looked[frame] != 0 && fc_looked_before(frame, fc_directory_hash(tag)) == FC_LOOKED_NOT)
		looked[frame] = 0;
}
