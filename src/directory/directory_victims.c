/*-------------------------------------------------------------------------
 *
 * directory_victims.c
 *	  Offers of pages, and which slots they would get.  Writer process only.
 *
 * Where numbers decide (policy_admission.h), a page is compared with the one
 * that would have to go: the least of the next slots under the hand.  That one
 * is *planned* until a page is wanted in its place; then it is *promised* to that
 * page, and fc_directory_reserve() gives it to that one and to no other, which may
 * be worth less.  A slot may change meanwhile: so it is looked at again when it is
 * reserved, and is not taken if what it holds is worth more than it was.  A page
 * that does not come leaves its promise to time: only so many are remembered.
 *
 * Otherwise the hand searches when slots are reserved, and lowers numbers on
 * its way (directory_fill.c).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"

/* Looks for a slot that may be filled, for one page: 512 entries, some 10 us. */
#define FILL_LOOKS 16

static FcSlotNo planned = FC_NO_SLOT;
static uint32 tries;			/* so often it was not taken */

static FcPromises promises;

void
fc_directory_set_admission(FcAdmission mode)
{
	Assert(fc_directory_is_mine() && mode != FC_ADMIT_AUTO);
	if (fc_admission_now() == mode)
		return;
	pg_atomic_write_u32(&fc_dir->admission, mode);
	fc_victims_forget();
}

void
fc_victims_forget(void)
{
	planned = FC_NO_SLOT;
	promises.n = 0;
}

void
fc_directory_scale_ghosts(uint32 slots)
{
	if (fc_ghosts_scale(slots))
		fc_victims_forget();
}

/* What would be lost with the slot; false if it cannot be had. */
static bool
judge(FcSlotNo slot, int keep_percent, FcVictim *victim)
{
	FcEntry    *e = &fc_dir_entries[slot];
	uint32		word = pg_atomic_read_u32(&e->word);

	memset(victim, 0, sizeof(*victim));
	if (!fc_slot_open(slot))
		return false;
	victim->idle = true;
	victim->free = fc_word_state(word) == FC_SLOT_FREE;
	if (victim->free)
		return true;
	if (fc_word_state(word) != FC_SLOT_USED)
		return false;
	victim->free = !fc_entry_current(e);
	if (victim->free)
		return true;
	if (fc_is_kept(word, e, keep_percent))
	{
		fc_count(FC_KEPT_PASSED);
		return false;
	}
	victim->worth = word & FC_COUNT_MASK;
	victim->idle = victim->worth == 0;
	if (fc_admission_now() == FC_ADMIT_REGION)
		victim->worth = fc_regions_worth(fc_directory_region(&e->tag));
	return true;
}

/* The least of the next slots; FC_NO_SLOT if none of them can be had. */
static FcSlotNo
look_for(int keep_percent, FcVictim *best)
{
	/* so few in a small cache that the hand does not come round in a batch */
	uint32		look = Min(FC_VICTIM_LOOK, Max(1, fc_directory_capacity() / FC_PROMISES));
	FcSlotNo	found = FC_NO_SLOT;

	for (uint32 i = 0; i < look && !(found != FC_NO_SLOT && best->free); i++)
	{
		FcSlotNo	slot = fc_next_open(fc_dir->hand);
		FcVictim	victim;

		if (slot == FC_NO_SLOT)
			break;
		fc_dir->hand = slot + 1 < fc_dir->slots ? slot + 1 : 0;
		if (judge(slot, keep_percent, &victim) && (found == FC_NO_SLOT || fc_policy_is_worse(&victim, best)))
		{
			*best = victim;
			found = slot;
		}
	}
	return found;
}

/* A free one has no worth: it may be in use by now, by one that had none. */
static bool
has_risen(const FcVictim *now, const FcVictim *was)
{
	return !now->free && (now->worth > was->worth || (was->idle && !now->idle));
}

FcSlotNo
fc_victims_next(const uint64 *page, int keep_percent)
{
	FcPromise	promise;
	FcVictim	victim;

	if (page != NULL && fc_policy_take_promise(&promises, *page, &promise) &&
		judge(promise.slot, keep_percent, &victim) && !has_risen(&victim, &promise.victim))
		return promise.slot;
	return look_for(keep_percent, &victim);
}

/* Is the page worth more than the one in the slot that it would get? */
static bool
beats_victim(uint64 page, uint32 worth, bool filling, int keep_percent)
{
	FcVictim	victim;

	if (planned == FC_NO_SLOT || tries >= FC_VICTIM_TRIES || !judge(planned, keep_percent, &victim))
	{
		planned = look_for(keep_percent, &victim);
		tries = 0;
	}
	tries++;

	/*
	 * While the cache fills there are slots for any page, though not under
	 * the hand: what was asked for lies together, as it was written together.
	 */
	for (int looks = 0; filling && looks < FILL_LOOKS && planned != FC_NO_SLOT && !victim.free && !victim.idle; looks++)
		planned = look_for(keep_percent, &victim);
	if (planned == FC_NO_SLOT || !fc_policy_admit(fc_admission_now(), filling, -1, worth, &victim))
		return false;
	fc_policy_promise(&promises, page, planned, &victim);
	planned = FC_NO_SLOT;
	return true;
}

/* Are there slots for pages that were not evicted before? */
static bool
is_filling(void)
{
	uint32		used = fc_directory_used();

	/*
	 * neighbours that nobody has asked for do not make the cache full for
	 * those that somebody has
	 */
	return fc_policy_filling(used - Min(used, fc_directory_unproven()), fc_directory_capacity());
}

FcOffer
fc_directory_offer(const FcTag *tag, uint64 hash, uint64 region, bool any, FcLooked before, int keep_percent)
{
	FcAdmission mode = fc_admission_now();
	int			seen = -1;
	uint32		count = 0;
	bool		exists;
	LWLock	   *lock;
	FcLink	   *link;

	Assert(fc_directory_is_mine());
	if (before == FC_LOOKED_NOT)
	{
		fc_dir->ghosts_used = true;
		fc_ghosts_note_offer(region);
	}

	/* exclusive because the set changes; held for a short walk */
	lock = fc_lock_partition(hash, LW_EXCLUSIVE);
	link = fc_find_link(tag, hash);
	exists = link != NULL && fc_entry_current(fc_linked(*link)) && fc_slot_readable(*link - 1);
	if (!exists)
		seen = fc_ghosts_seen(hash, &count);
	if (before == FC_LOOKED_NOT && (!exists || !fc_policy_by_number(mode)))
	{
		fc_ghosts_remember(hash, exists ? 0 : 1);
		count = Min(count + 1, FC_COUNT_MAX);
	}
	LWLockRelease(lock);

	if (exists)
		return FC_OFFER_EXISTS;
	if (any || before == FC_LOOKED_WANTED)
		return FC_OFFER_WANTED;
	if (fc_policy_by_number(mode))
		return beats_victim(hash, mode == FC_ADMIT_REGION ? fc_regions_worth(region) : count,
							is_filling() || fc_policy_extents_give_way(fc_directory_unproven(), fc_directory_capacity()),
							keep_percent) ?
			FC_OFFER_WANTED : FC_OFFER_NOT_USEFUL;
	/* where it is now, it has come by this eviction */
	if (before == FC_LOOKED_REFUSED)
		return FC_OFFER_NOT_USEFUL;
	return fc_policy_admit(mode, is_filling(), seen, 0, NULL) ? FC_OFFER_WANTED : FC_OFFER_NOT_USEFUL;
}
