/*-------------------------------------------------------------------------
 *
 * directory_slots.c
 *	  Slots that are taken, or freed, one by one or all of a chunk.  Writer
 *	  process only.
 *
 * Nobody but the writer changes a slot that is free, reserved or retired; only
 * what is linked is protected by a partition's lock.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"

void
fc_take_slot(FcEntry *e, FcSlotState state)
{
	fc_keep_taken(fc_slot_of(e));
	fc_raise_slot(e, state);
}

void
fc_raise_slot(FcEntry *e, FcSlotState state)
{
	uint32		word = pg_atomic_read_u32(&e->word);

	Assert(fc_directory_is_mine() && state != FC_SLOT_USED && fc_word_state(word) != FC_SLOT_USED);
	if (fc_slot_of(e) >= fc_reached())
		pg_atomic_write_u32(&fc_dir->reached, fc_slot_of(e) + 1);
	e->next = FC_NO_LINK;
	pg_atomic_write_u32(&e->word, fc_make_word(fc_word_version(word) + 1, state, 0));
	pg_memory_barrier();
}

void
fc_free_used(FcSlotNo slot, FcCounter why)
{
	FcEntry    *e = &fc_dir_entries[slot];
	FcTag		tag = e->tag;	/* stable: only this process publishes */
	uint32		count = pg_atomic_read_u32(&e->word) & FC_COUNT_MASK;
	uint64		hash = fc_directory_hash(&tag);
	bool		was_hit = fc_slot_was_hit(slot);
	bool		freed = false;
	LWLock	   *lock = fc_lock_partition(hash, LW_EXCLUSIVE);

	Assert(fc_directory_is_mine());
	if (fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_USED)
	{
		FcLink	   *link = fc_find_link(&tag, hash);

		Assert(link != NULL && *link == slot + 1);
		fc_unlink_entry(link, FC_SLOT_FREE);
		freed = true;
		if (why == FC_EVICT_AGED_OUT && fc_policy_by_number(fc_admission_now()))
			fc_ghosts_remember(hash, count);
	}
	LWLockRelease(lock);
	if (!freed)
		return;
	if (why == FC_EVICT_INVALIDATED)
	{
		fc_count_invalidated(fc_tag_rel(&tag));
		return;
	}
	fc_count(why);
	if (!was_hit)
		fc_count_old_relation(fc_tag_rel(&tag), FC_REL_USELESS, 1);
}

bool
fc_is_kept(uint32 word, const FcEntry *e, int keep_percent)
{
	return fc_word_state(word) == FC_SLOT_USED && (word & FC_KEPT_BIT) != 0 &&
		fc_policy_keeps(fc_directory_kept(), fc_directory_capacity(), keep_percent) && fc_entry_current(e);
}

/* ---- of a chunk ---- */

/* D1 */
void
fc_directory_drain(FcSlotNo first, uint32 n)
{
	Assert(fc_directory_is_mine() && first + n <= fc_dir->slots);
	for (FcSlotNo slot = first; slot < Min(first + n, fc_reached()); slot++)
	{
		FcSlotState state = fc_word_state(pg_atomic_read_u32(&fc_dir_entries[slot].word));

		Assert(state != FC_SLOT_RESERVED);
		if (state == FC_SLOT_USED)
			fc_free_used(slot, FC_EVICT_AGED_OUT);
		/* nothing is written there: what the log says of it stays right */
		fc_raise_slot(&fc_dir_entries[slot], FC_SLOT_FREE);
	}
}

uint32
fc_directory_reserve_of(FcSlotNo first, uint32 n, uint32 wanted, bool by_force, FcSlotNo *slots)
{
	uint32		got = 0;

	Assert(fc_directory_is_mine() && first + n <= fc_dir->slots);
	for (FcSlotNo slot = first; slot < first + n && got < wanted; slot++)
	{
		FcEntry    *e = &fc_dir_entries[slot];

		if (by_force && fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_USED)
			fc_free_used(slot, FC_EVICT_AGED_OUT);
		if (fc_word_state(pg_atomic_read_u32(&e->word)) != FC_SLOT_FREE)
			continue;
		fc_take_slot(e, FC_SLOT_RESERVED);
		slots[got++] = slot;
	}
	return got;
}
