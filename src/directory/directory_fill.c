/*-------------------------------------------------------------------------
 *
 * directory_fill.c
 *	  Slots on their way into the directory: guards, reservation, publication.
 *	  All but the guard in the writer process only.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"

/* Slots looked at to find free ones beside each other. */
#define LOOK_FOR_FREE 65536

/* Kept slots that the hand passes in one call: about 1 ms. */
#define MOST_PASSED 131072

FcGuard
fc_directory_guard(uint64 hash)
{
	FcGuard		guard;

	fc_generations_read(hash, &guard);
	guard.epoch = fc_epoch_now();
	pg_memory_barrier();
	return guard;
}

bool
fc_directory_guard_holds(const FcTag *tag, uint64 hash, const FcGuard *guard)
{
	Assert(fc_directory_is_mine() && fc_is_hash_of(hash, tag));
	return !fc_generations_moved(hash, guard) && !fc_epoch_forgotten(guard->epoch) &&
		!fc_epoch_ended(fc_tag_rel(tag), guard->epoch);
}

bool
fc_directory_guard_broken(const FcTag *tag, uint64 hash, const FcGuard *guard)
{
	Assert(fc_is_hash_of(hash, tag));
	return fc_generations_moved(hash, guard) || fc_epoch_ended(fc_tag_rel(tag), guard->epoch);
}

/* Takes the slot under the hand, if it may be taken. */
static bool
reserve_slot(FcSlotNo slot, bool by_force)
{
	FcEntry    *e = &fc_dir_entries[slot];
	uint32		word = pg_atomic_read_u32(&e->word);

	if (fc_word_state(word) == FC_SLOT_USED)
	{
		bool		was_current = fc_entry_current(e);

		if ((word & FC_COUNT_MASK) > 0 && was_current && !by_force)
		{
			pg_atomic_compare_exchange_u32(&e->word, &word, (word & ~FC_COUNT_MASK) | fc_policy_lowered(word & FC_COUNT_MASK));
			return false;
		}
		fc_free_used(slot, was_current ? FC_EVICT_AGED_OUT : FC_EVICT_INVALIDATED);
		word = pg_atomic_read_u32(&e->word);
	}
	if (fc_word_state(word) != FC_SLOT_FREE)
		return false;			/* reserved, or retired */
	fc_take_slot(e, FC_SLOT_RESERVED);
	return true;
}

/* Those that are worth least; what was promised to a page is for that one. */
static uint32
reserve_least(uint32 wanted, const uint64 *pages, int keep_percent, FcSlotNo *slots)
{
	uint32		n = 0;

	/* twice as many looks: behind a stretch of retired slots it gives up */
	for (uint32 looked = 0; n < wanted && looked < 2 * wanted + Min(fc_directory_capacity(), MOST_PASSED) / FC_VICTIM_LOOK; looked++)
	{
		FcSlotNo	slot = fc_victims_next(pages != NULL ? &pages[n] : NULL, keep_percent);

		if (slot != FC_NO_SLOT && reserve_slot(slot, true))
			slots[n++] = slot;
	}
	return n;
}

/* Those that the clock finds. */
static uint32
reserve_by_clock(uint32 wanted, int keep_percent, FcSlotNo *slots)
{
	uint32		n = 0;
	uint32		passed = 0;
	uint32		patience = fc_policy_hand_limit(fc_directory_capacity(), wanted);

	/*
	 * Twice the limit: behind a stretch of retired slots it gives up.  Slots
	 * that are kept do not count, since others lie behind them, as far away
	 * as the end of the cache; but the writer has other things to do as well,
	 * and the hand stays where it has come to.
	 */
	for (uint32 looked = 0; n < wanted && looked < 2 * patience && passed < MOST_PASSED;)
	{
		FcSlotNo	slot = fc_next_open(fc_dir->hand);
		const FcEntry *e;

		if (slot == FC_NO_SLOT)
			break;
		e = &fc_dir_entries[slot];
		fc_dir->hand = slot + 1 < fc_dir->slots ? slot + 1 : 0;
		if (fc_is_kept(pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->word)), e, keep_percent))
		{
			passed++;
			continue;
		}
		if (reserve_slot(slot, looked >= patience))
			slots[n++] = slot;
		looked++;
	}
	if (passed > 0)
		fc_count_n(FC_KEPT_PASSED, passed);
	return n;
}

uint32
fc_directory_reserve(uint32 wanted, const uint64 *pages, int keep_percent, FcSlotNo *slots)
{
	Assert(fc_directory_is_mine() && wanted > 0);
	Assert(fc_dir->hand < fc_dir->slots);

	/* all is kept: there is none to be found */
	if (fc_directory_kept() >= fc_directory_capacity() && keep_percent >= 100)
		return 0;
	return fc_policy_by_number(fc_admission_now()) ? reserve_least(wanted, pages, keep_percent, slots) :
		reserve_by_clock(wanted, keep_percent, slots);
}

FcLap
fc_directory_lap(bool replace, int keep_percent)
{
	FcLap		lap = {fc_directory_capacity(), replace, FC_MARK_NONE, keep_percent};

	return lap;
}

/* Was it hit, not long ago?  Its number alone may be of evictions before. */
static bool
is_wanted(FcSlotNo slot, uint32 word)
{
	return (word & FC_COUNT_MASK) > 0 && fc_slot_was_hit(slot);
}

/* May the page there go for one of that relation?  Not for a page of its own. */
static bool
may_replace(const FcEntry *e, const FcTag *tag)
{
	return e->tag.rel != tag->rel || e->tag.db != tag->db || e->tag.spc != tag->spc;
}

FcSlotNo
fc_directory_reserve_in_lap(FcLap *lap, const FcTag *tag, uint32 *look)
{
	Assert(fc_directory_is_mine());
	/* full: no need to look at each */
	if (!lap->replace && fc_directory_used() >= fc_directory_capacity())
		lap->left = 0;
	for (; lap->left > 0 && *look > 0; (*look)--)
	{
		FcSlotNo	slot = fc_next_open(fc_dir->hand);
		const FcEntry *e;
		uint32		word;

		if (slot == FC_NO_SLOT)
		{
			lap->left = 0;
			break;
		}
		e = &fc_dir_entries[slot];
		word = pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->word));
		/* the hand moves on, so that the page has a lap to prove its worth */
		fc_dir->hand = slot + 1 < fc_dir->slots ? slot + 1 : 0;
		lap->left--;
		if (fc_word_state(word) == FC_SLOT_USED &&
			(!lap->replace || is_wanted(slot, word) || !may_replace(e, tag) || fc_is_kept(word, e, lap->keep_percent)))
			continue;
		if (reserve_slot(slot, true))
		{
			(*look)--;
			return slot;
		}
	}
	return FC_NO_SLOT;
}

uint32
fc_directory_reserve_free(uint32 wanted, FcSlotNo *slots)
{
	FcSlotNo	slot = fc_dir->hand;
	uint32		n = 0;

	Assert(fc_directory_is_mine() && wanted > 0);
	for (uint32 looked = 0; n < wanted && looked < Min(fc_dir->slots, LOOK_FOR_FREE); looked++, slot++)
	{
		if (slot == fc_dir->slots)
			slot = n = 0;
		if (!fc_slot_open(slot))
		{
			n = 0;
			slot = fc_next_open(slot);
			if (slot == FC_NO_SLOT)
				return 0;
		}
		if (fc_word_state(pg_atomic_read_u32(&fc_dir_entries[slot].word)) == FC_SLOT_FREE)
			slots[n++] = slot;
		else
			n = 0;
	}
	if (n < wanted)
		return 0;
	for (uint32 i = 0; i < n; i++)
		fc_take_slot(&fc_dir_entries[slots[i]], FC_SLOT_RESERVED);
	return n;
}

FcPublish
fc_directory_publish(FcSlotNo slot, const FcTag *tag, uint64 hash,
					 const FcGuard *guard, uint32 crc)
{
	FcEntry    *e = &fc_dir_entries[slot];
	LWLock	   *lock = fc_lock_partition(hash, LW_EXCLUSIVE);
	FcPublish	result = FC_PUBLISH_DONE;
	bool		replaced = false;
	FcLink	   *link;
	uint32		epoch;

	Assert(fc_directory_is_mine() && slot < fc_reached());
	Assert(fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_RESERVED && e->next == FC_NO_LINK);
	/* first the epoch, then the look: one that begins after it ends the entry */
	epoch = fc_epoch_now();
	pg_read_barrier();
	if (!fc_directory_guard_holds(tag, hash, guard))
		result = FC_PUBLISH_MODIFIED;
	else if ((link = fc_find_link(tag, hash)) != NULL)
	{
		if (fc_entry_current(fc_linked(*link)) && fc_slot_readable(*link - 1))
			result = FC_PUBLISH_EXISTS;
		else
		{
			fc_unlink_entry(link, FC_SLOT_FREE);	/* dead, not yet swept, or
													 * out of reach */
			replaced = true;
		}
	}
	if (result == FC_PUBLISH_DONE)
		fc_link_entry(e, tag, hash, crc, epoch, fc_ghosts_take(hash));
	else
	{
		fc_directory_mark(slot, FC_MARK_NONE);
		fc_set_state(e, FC_SLOT_FREE);
	}
	LWLockRelease(lock);
	if (replaced)
		fc_count_invalidated(fc_tag_rel(tag));
	return result;
}

void
fc_directory_release(FcSlotNo slot)
{
	Assert(fc_directory_is_mine() && slot < fc_reached());
	Assert(fc_word_state(pg_atomic_read_u32(&fc_dir_entries[slot].word)) == FC_SLOT_RESERVED);
	fc_directory_mark(slot, FC_MARK_NONE);
	fc_set_state(&fc_dir_entries[slot], FC_SLOT_FREE);
}
