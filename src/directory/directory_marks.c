/*-------------------------------------------------------------------------
 *
 * directory_marks.c
 *	  How pages that nobody has read from flash yet came there: two bits a slot.
 *
 * A mark is set before the entry is linked, and goes with the first hit, or
 * with the entry.  Nothing but counts and admission rests on it: a mark may be
 * taken by whoever read the slot's last page.
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

static pg_atomic_uint32 *marks;

Size
fc_marks_size(uint32 slots)
{
	return CACHELINEALIGN(mul_size(slots / PER_WORD + 1, sizeof(pg_atomic_uint32)));
}

void
fc_marks_init(void *memory)
{
	marks = memory;
}

static inline uint32
shift_of(FcSlotNo slot)
{
	return slot % PER_WORD * MARK_BITS;
}

FcMark
fc_directory_take_mark(FcSlotNo slot)
{
	pg_atomic_uint32 *word = &marks[slot / PER_WORD];
	uint32		mask = MARK_MASK << shift_of(slot);
	FcMark		mark;

	Assert(slot < fc_dir->slots);
	if (likely((pg_atomic_read_u32(word) & mask) == 0))
		return FC_MARK_NONE;
	mark = (FcMark) ((pg_atomic_fetch_and_u32(word, ~mask) & mask) >> shift_of(slot));
	if (mark == FC_MARK_EXTENT)
		pg_atomic_fetch_sub_u32(&fc_dir->unproven, 1);
	return mark;
}

void
fc_directory_mark(FcSlotNo slot, FcMark mark)
{
	Assert(fc_directory_is_mine());
	(void) fc_directory_take_mark(slot);
	if (mark == FC_MARK_NONE)
		return;
	if (mark == FC_MARK_EXTENT)
		pg_atomic_fetch_add_u32(&fc_dir->unproven, 1);
	pg_atomic_fetch_or_u32(&marks[slot / PER_WORD], (uint32) mark << shift_of(slot));
}

uint32
fc_directory_unproven(void)
{
	return fc_dir ? pg_atomic_read_u32(&fc_dir->unproven) : 0;
}
