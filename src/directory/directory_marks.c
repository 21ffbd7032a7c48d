/*-------------------------------------------------------------------------
 *
 * directory_marks.c
 *	  How pages that nobody has asked for since came to flash: two bits a slot.
 *
 * A mark is set before the entry is linked, and goes with the first hit, or
 * with the entry.  Nothing but counts and admission rests on it: a mark may be
 * taken by whoever read the slot's last page.
 *
 * Memory is bounded: of a cache with more than MAX_MARKS slots, 128 MB, only
 * every so many-th slot has a mark, and stands for those between.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"

#define MARK_BITS 2
#define PER_WORD (32 / MARK_BITS)
#define MARK_MASK 0x3u

#define MAX_MARKS 16384

static pg_atomic_uint32 *marks;

/* One slot in how many has a mark? */
static uint32
stride_of(uint32 slots)
{
	return (slots + MAX_MARKS - 1) / MAX_MARKS;
}

Size
fc_marks_size(uint32 slots)
{
	return CACHELINEALIGN((slots / stride_of(slots) / PER_WORD + 1) * sizeof(pg_atomic_uint32));
}

void
fc_marks_init(void *memory)
{
	marks = memory;
}

static inline uint32
shift_of(uint32 i)
{
	return i % PER_WORD * MARK_BITS;
}

uint32
fc_directory_mark_share(void)
{
	return stride_of(fc_dir->slots);
}

FcMark
fc_directory_take_mark(FcSlotNo slot)
{
	uint32		stride = stride_of(fc_dir->slots);
	uint32		i = slot / stride;
	pg_atomic_uint32 *word = &marks[i / PER_WORD];
	uint32		mask = MARK_MASK << shift_of(i);
	FcMark		mark;

	Assert(slot < fc_dir->slots);
	if (slot % stride != 0)
		return FC_MARK_NONE;
	if (likely((pg_atomic_read_u32(word) & mask) == 0))
		return FC_MARK_NONE;
	mark = (FcMark) ((pg_atomic_fetch_and_u32(word, ~mask) & mask) >> shift_of(i));
	if (mark == FC_MARK_EXTENT)
	{
		pg_atomic_fetch_sub_u32(&fc_dir->unproven, 1);
		pg_atomic_fetch_sub_u32(&fc_dir->chunk_unproven[slot >> fc_dir->chunk_shift], 1);
	}
	return mark;
}

void
fc_directory_mark(FcSlotNo slot, FcMark mark)
{
	uint32		stride = stride_of(fc_dir->slots);
	uint32		i = slot / stride;

	Assert(fc_directory_is_mine());
	(void) fc_directory_take_mark(slot);
	if (mark == FC_MARK_NONE || slot % stride != 0)
		return;
	if (mark == FC_MARK_EXTENT)
	{
		pg_atomic_fetch_add_u32(&fc_dir->unproven, 1);
		pg_atomic_fetch_add_u32(&fc_dir->chunk_unproven[slot >> fc_dir->chunk_shift], 1);
	}
	pg_atomic_fetch_or_u32(&marks[i / PER_WORD], (uint32) mark << shift_of(i));
}
