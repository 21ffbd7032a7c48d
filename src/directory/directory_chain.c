/*-------------------------------------------------------------------------
 *
 * directory_chain.c
 *	  The chains, and what readers call: finding an entry, and what they note
 *	  of it.
 *
 * Memory order.  What is read and written under a partition's lock is ordered
 * by it.  src/appendix.md ("Atomics") says for each counter here what orders it
 * beside that; comments at the accesses say which of the sides this is.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"
#include "rules/rules.h"

static FcLink *heads;

/* One bit a slot: its page has been wanted since it was linked. */
static pg_atomic_uint32 *hit_map;

/* ---- shared memory ---- */

static uint32
heads_for(uint32 slots)
{
	return Max(1, slots / 2 / FC_PARTITIONS);
}

Size
fc_chains_size(uint32 slots)
{
	return CACHELINEALIGN(mul_size((Size) heads_for(slots) * FC_PARTITIONS, sizeof(FcLink)));
}

void
fc_chains_init(void *memory, uint32 slots)
{
	heads = memory;
	fc_dir->heads_per_partition = heads_for(slots);
}

Size
fc_hits_size(uint32 slots)
{
	return CACHELINEALIGN(((Size) slots + 31) / 32 * sizeof(pg_atomic_uint32));
}

void
fc_hits_init(void *memory)
{
	hit_map = memory;
}

/* ---- the chains ---- */

/* Where the chain of a hash begins. */
static FcLink *
chain_of(uint64 hash)
{
	uint32		n = fc_dir->heads_per_partition;

	return &heads[(Size) fc_partition_of(hash) * n + fc_scaled(hash, n)];
}

FcLink *
fc_find_link(const FcTag *tag, uint64 hash)
{
	FcLink	   *link = chain_of(hash);

	Assert(LWLockHeldByMe(fc_lock_of(hash)));
	Assert(fc_is_hash_of(hash, tag));
	while (*link != FC_NO_LINK)
	{
		FcEntry    *e = fc_linked(*link);

		Assert(fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_USED);
		if (fc_tag_equal(&e->tag, tag))
			return link;
		link = &e->next;
	}
	return NULL;
}

void
fc_set_kept(FcEntry *e, bool kept)
{
	uint32		word = pg_atomic_read_u32(&e->word);

	Assert(LWLockHeldByMeInMode(fc_lock_of(fc_directory_hash(&e->tag)), LW_EXCLUSIVE));
	Assert(fc_word_state(word) == FC_SLOT_USED);
	if (((word & FC_KEPT_BIT) != 0) == kept)
		return;
	if (kept)
	{
		pg_atomic_fetch_or_u32(&e->word, FC_KEPT_BIT);
		pg_atomic_fetch_add_u32(&fc_dir->kept, 1);
		pg_atomic_fetch_add_u32(&fc_dir->chunk_kept[fc_slot_of(e) >> fc_dir->chunk_shift], 1);
	}
	else
	{
		pg_atomic_fetch_and_u32(&e->word, ~FC_KEPT_BIT);
		pg_atomic_fetch_sub_u32(&fc_dir->kept, 1);
		pg_atomic_fetch_sub_u32(&fc_dir->chunk_kept[fc_slot_of(e) >> fc_dir->chunk_shift], 1);
	}
}

void
fc_link_entry(FcEntry *e, const FcTag *tag, uint64 hash, uint32 crc, uint32 epoch, uint32 count)
{
	FcLink	   *head = chain_of(hash);

	Assert(fc_directory_is_mine() && LWLockHeldByMeInMode(fc_lock_of(hash), LW_EXCLUSIVE));
	e->tag = *tag;
	e->crc = crc;
	pg_atomic_write_u32(&e->epoch, epoch);
	e->next = *head;
	fc_slot_hit(fc_slot_of(e), false);
	*head = fc_slot_of(e) + 1;

	/*
	 * fc_directory_page() looks without the lock: the entry before its state
	 */
	pg_write_barrier();
	pg_atomic_write_u32(&e->word, fc_make_word(fc_word_version(pg_atomic_read_u32(&e->word)), FC_SLOT_USED, count));
	fc_keep_used(fc_slot_of(e), true);
	pg_atomic_fetch_add_u32(&fc_dir->linked, 1);
	pg_atomic_fetch_add_u32(&fc_dir->chunk_used[fc_slot_of(e) >> fc_dir->chunk_shift], 1);
	if (fc_rule_of(fc_tag_rel(tag)) == FC_RULE_KEEP)
		fc_set_kept(e, true);
}

void
fc_unlink_entry(FcLink *link, FcSlotState new_state)
{
	FcEntry    *e = fc_linked(*link);
	uint32		before PG_USED_FOR_ASSERTS_ONLY;

	Assert(LWLockHeldByMeInMode(fc_lock_of(fc_directory_hash(&e->tag)), LW_EXCLUSIVE));
	Assert(fc_word_state(pg_atomic_read_u32(&e->word)) == FC_SLOT_USED);
	Assert(new_state == FC_SLOT_FREE || new_state == FC_SLOT_RETIRED);
	*link = e->next;
	e->next = FC_NO_LINK;
	fc_set_kept(e, false);
	fc_keep_used(fc_slot_of(e), false);
	(void) fc_directory_take_mark(fc_slot_of(e));
	pg_write_barrier();			/* the writer takes a free slot without this
								 * lock */
	fc_set_state(e, new_state);
	pg_atomic_fetch_sub_u32(&fc_dir->chunk_used[fc_slot_of(e) >> fc_dir->chunk_shift], 1);
	before = pg_atomic_fetch_sub_u32(&fc_dir->linked, 1);
	Assert(before > 0 && before <= fc_dir->slots);
}

/* ---- has it been of use? ---- */

bool
fc_slot_was_hit(FcSlotNo slot)
{
	return (pg_atomic_read_u32(&hit_map[slot / 32]) & (1u << (slot % 32))) != 0;
}

void
fc_slot_hit(FcSlotNo slot, bool hit)
{
	if (fc_slot_was_hit(slot) == hit)
		return;
	if (hit)
		pg_atomic_fetch_or_u32(&hit_map[slot / 32], 1u << (slot % 32));
	else
		pg_atomic_fetch_and_u32(&hit_map[slot / 32], ~(1u << (slot % 32)));
}

/* ---- reading ---- */

bool
fc_directory_lookup(const FcTag *tag, uint64 hash, FcSlotRef *ref)
{
	LWLock	   *lock = fc_lock_partition(hash, LW_SHARED);
	FcLink	   *link;
	bool		found = false;

	link = fc_find_link(tag, hash);
	if (link != NULL && fc_entry_current(fc_linked(*link)) && fc_slot_readable(*link - 1))
	{
		FcEntry    *e = fc_linked(*link);

		ref->slot = fc_slot_of(e);
		ref->version = fc_word_version(pg_atomic_read_u32(&e->word));
		ref->crc = e->crc;
		found = true;
	}
	LWLockRelease(lock);
	return found;
}

bool
fc_directory_still(const FcSlotRef *ref)
{
	FcEntry    *e = &fc_dir_entries[ref->slot];
	uint32		word = pg_atomic_read_u32(&e->word);

	Assert(ref->slot < fc_reached());

	/*
	 * Linked, and of the same version: then it has been linked all the time,
	 * since a slot that was unlinked gets another version before it is linked
	 * again.  Should it be reused at this moment, R3 sees that.
	 */
	if (fc_word_state(word) != FC_SLOT_USED || fc_word_version(word) != ref->version || !fc_entry_current(e))
		return false;

	/*
	 * dead entries are freed before their end is forgotten: so it is in use
	 * after that look, too
	 */
	pg_read_barrier();
	return ((pg_atomic_read_u32(&e->word) ^ word) & ~FC_UNSTABLE_BITS) == 0;
}

bool
fc_directory_unchanged(const FcSlotRef *ref)
{
	Assert(ref->slot < fc_reached());

	/*
	 * The page has been read before, the version is read now: pairs with the
	 * barrier of fc_take_slot(), before which the version is raised and after
	 * which the slot is written.
	 */
	pg_read_barrier();
	return fc_word_version(pg_atomic_read_u32(&fc_dir_entries[ref->slot].word)) == ref->version;
}

void
fc_directory_touch(const FcSlotRef *ref)
{
	pg_atomic_uint32 *word = &fc_dir_entries[ref->slot].word;
	uint32		old = pg_atomic_read_u32(word);

	Assert(ref->slot < fc_reached());
	/* a lost race loses a reference, nothing else; no order needed */
	if (fc_word_version(old) != ref->version || fc_word_state(old) != FC_SLOT_USED)
		return;
	fc_slot_hit(ref->slot, true);
	if ((old & FC_COUNT_MASK) < FC_COUNT_MAX)
		pg_atomic_compare_exchange_u32(word, &old, old + 1);
}

/* Unless the slot holds something else by now, or nothing. */
static bool
unlink_found(const FcTag *tag, uint64 hash, const FcSlotRef *ref, FcSlotState state)
{
	LWLock	   *lock = fc_lock_partition(hash, LW_EXCLUSIVE);
	FcLink	   *link = fc_find_link(tag, hash);
	bool		found = link != NULL && *link == ref->slot + 1 && fc_directory_unchanged(ref);

	if (found)
		fc_unlink_entry(link, state);
	LWLockRelease(lock);
	return found;
}

void
fc_directory_retire(const FcTag *tag, uint64 hash, const FcSlotRef *ref)
{
	if (unlink_found(tag, hash, ref, FC_SLOT_RETIRED))
		fc_count(FC_SLOTS_RETIRED);
}

void
fc_directory_drop(const FcTag *tag, uint64 hash, const FcSlotRef *ref)
{
	(void) unlink_found(tag, hash, ref, FC_SLOT_FREE);
}

/* ---- inspection ---- */

void
fc_directory_prefetch(FcSlotNo slot)
{
	if (slot < fc_reached())
		__builtin_prefetch(&fc_dir_entries[slot]);
}

bool
fc_directory_page(FcSlotNo slot, FcPageInfo *info)
{
	FcEntry    *e = &fc_dir_entries[slot];
	uint32		word;
	bool		current;

	if (slot >= fc_reached())
		return false;
	word = pg_atomic_read_u32(&e->word);

	/*
	 * Without a lock, so that looking costs the cache nothing: copy, then see
	 * whether the slot was reused meanwhile.
	 */
	if (fc_word_state(word) != FC_SLOT_USED)
		return false;
	pg_read_barrier();			/* pairs with that of fc_directory_publish() */
	info->tag = e->tag;
	info->refcount = word & FC_COUNT_MASK;
	info->hit = fc_slot_was_hit(slot);
	info->kept = (word & FC_KEPT_BIT) != 0;
	current = fc_entry_current(e);
	pg_read_barrier();			/* pairs with that of fc_take_slot() */
	return current && ((pg_atomic_read_u32(&e->word) ^ word) & ~FC_UNSTABLE_BITS) == 0;
}
