/*-------------------------------------------------------------------------
 *
 * directory_sweep.c
 *	  Passes of the writer over all slots: dead entries are freed, slots are
 *	  taken to be erased, everything is forgotten.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"
#include "rules/rules.h"

/* ---- erasing ---- */

/* Frees a used slot; all of them, or only if it is dead.  True if it is not in use, or no longer. */
static bool
free_slot(FcSlotNo slot, bool only_dead)
{
	Assert(slot < fc_dir->slots);
	if (fc_word_state(pg_atomic_read_u32(&fc_dir_entries[slot].word)) != FC_SLOT_USED)
		return true;
	if (only_dead && fc_entry_current(&fc_dir_entries[slot]))
		return false;
	fc_free_used(slot, FC_EVICT_INVALIDATED);
	return true;
}

bool
fc_directory_take_to_erase(FcSlotNo slot, bool everything)
{
	FcEntry    *e = &fc_dir_entries[slot];
	FcSlotState state;

	Assert(fc_directory_is_mine() && slot < fc_dir->slots);
	free_slot(slot, !everything && !fc_entry_doubtful(e));
	state = fc_word_state(pg_atomic_read_u32(&e->word));
	Assert(state != FC_SLOT_RESERVED);
	if (state == FC_SLOT_USED || (e->next == FC_ERASED && !everything))
		return false;
	fc_take_slot(e, state == FC_SLOT_RETIRED ? FC_SLOT_RETIRED : FC_SLOT_RESERVED);
	return true;
}

bool
fc_directory_needs_erasing(FcSlotNo slot, bool everything)
{
	const FcEntry *e = &fc_dir_entries[slot];
	bool		used = fc_word_state(pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->word))) == FC_SLOT_USED;

	return everything || (used ? !fc_entry_current(e) || fc_entry_doubtful(e) : e->next != FC_ERASED);
}

void
fc_directory_give_back(FcSlotNo slot, bool erased)
{
	FcEntry    *e = &fc_dir_entries[slot];

	Assert(fc_directory_is_mine() && slot < fc_reached());
	Assert(fc_word_state(pg_atomic_read_u32(&e->word)) != FC_SLOT_USED && e->next == FC_NO_LINK);
	if (erased)
	{
		e->next = FC_ERASED;
		fc_dir->erased = true;
	}
	if (fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_RESERVED)
		fc_directory_release(slot);
}

void
fc_directory_forget_erased(void)
{
	Assert(fc_directory_is_mine());
	/* a pass over all slots, and hardly ever was one erased */
	if (!fc_dir->erased)
		return;
	fc_dir->erased = false;
	for (FcSlotNo slot = 0; slot < fc_reached(); slot++)
	{
		/* of a slot in use it is somebody else's, and not that */
		if (fc_word_state(pg_atomic_read_u32(&fc_dir_entries[slot].word)) != FC_SLOT_USED &&
			fc_dir_entries[slot].next == FC_ERASED)
			fc_dir_entries[slot].next = FC_NO_LINK;
	}
}

/* ---- housekeeping ---- */

bool
fc_directory_sweep_wanted(void)
{
	return fc_epochs_sweep_wanted();
}

bool
fc_directory_sweep_urgent(void)
{
	return fc_epochs_sweep_urgent();
}

uint32
fc_directory_sweep_begin(void)
{
	uint32		epoch = fc_epoch_now();

	Assert(fc_directory_is_mine());
	pg_read_barrier();			/* invalidations up to it are seen from now on */
	return epoch;
}

bool
fc_directory_sweep(FcSlotNo *at, uint32 count, uint32 epoch)
{
	FcSlotNo	end = Min(fc_reached(), *at + count);

	Assert(fc_directory_is_mine() && count > 0);
	Assert(*at <= end && end <= fc_dir->slots);
	for (FcSlotNo slot = *at; slot < end; slot++)
	{
		FcEntry    *e = &fc_dir_entries[slot];

		/*
		 * Whoever reads the old epoch finds the same: the entry was current
		 * in both.  Of an entry that dies just now it means nothing.
		 */
		if (!free_slot(slot, true) &&
			(int32) (epoch - pg_atomic_read_u32(&e->epoch)) > 0)
			pg_atomic_write_u32(&e->epoch, epoch);
	}
	*at = end;
	if (end < fc_reached())
		return true;
	fc_epochs_swept(epoch);
	return false;
}

/* Marks a slot in use, if it is still, or no longer. */
static void
mark_kept(FcSlotNo slot, bool kept)
{
	FcEntry    *e = &fc_dir_entries[slot];
	LWLock	   *lock = fc_lock_partition(fc_directory_hash(&e->tag), LW_EXCLUSIVE);

	if (fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_USED)
		fc_set_kept(e, kept);
	LWLockRelease(lock);
}

bool
fc_directory_apply_rules(FcSlotNo *at, uint32 count)
{
	FcSlotNo	end = Min(fc_reached(), *at + count);

	Assert(fc_directory_is_mine() && count > 0);
	for (FcSlotNo slot = *at; slot < end; slot++)
	{
		FcEntry    *e = &fc_dir_entries[slot];
		uint32		word = pg_atomic_read_u32(&e->word);
		FcRule		rule;

		/* its tag is stable: only this process links */
		if (fc_word_state(word) != FC_SLOT_USED)
			continue;
		rule = fc_rule_of(fc_tag_rel(&e->tag));
		if (rule == FC_RULE_NONE)
			fc_free_used(slot, fc_entry_current(e) ? FC_EVICT_POLICY : FC_EVICT_INVALIDATED);
		else if (((word & FC_KEPT_BIT) != 0) != (rule == FC_RULE_KEEP))
			mark_kept(slot, rule == FC_RULE_KEEP);
	}
	*at = Max(*at, end);
	return *at < fc_reached();
}

void
fc_directory_reclaim(void)
{
#ifdef USE_ASSERT_CHECKING
	fc_directory_note_mine();
#endif
	for (FcSlotNo slot = 0; slot < fc_reached(); slot++)
		if (fc_word_state(pg_atomic_read_u32(&fc_dir_entries[slot].word)) == FC_SLOT_RESERVED)
			fc_directory_release(slot);
}

bool
fc_directory_purge(FcSlotNo *at, uint32 count)
{
	FcSlotNo	end = Min(fc_reached(), *at + count);

	Assert(fc_directory_is_mine() && count > 0 && *at <= end);
	for (FcSlotNo slot = *at; slot < end; slot++)
	{
		/*
		 * It may be another device by now: what it holds is nobody's, and no
		 * slot is known to be erased.  Who looked the slot up before sees
		 * that by its version (R3).
		 */
		free_slot(slot, false);
		fc_take_slot(&fc_dir_entries[slot], FC_SLOT_FREE);
	}
	*at = end;
	if (end < fc_reached())
		return true;
	fc_epochs_forget();
	fc_victims_forget();
	fc_ghosts_forget();
	return false;
}
