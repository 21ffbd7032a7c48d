/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  Shared memory of the directory, its chains, and what readers call.
 *
 * Memory, per slot: an entry of 32 bytes, a chain head for every second slot
 * (2 bytes), a bit that tells whether it was hit, a fingerprint of a page that
 * was evicted (1.5 bytes), one of a region for every twelfth (0.25 bytes), four page
 * generations of 8 bytes for every 24th (1.3 bytes), and 0.8 bytes of
 * epochs; the last two within limits.
 *
 * Shared memory is new, hence zero, whenever the server starts or comes back
 * after a crash: shmem_exit() unmaps or removes what there was, and what mmap()
 * or shmget(IPC_EXCL) then gives has been cleared by the kernel, huge pages
 * as well.  So nothing is initialised that is zero anyway, and what no
 * slot has needed yet is not even mapped: a cache that can't be opened costs
 * addresses, not memory.  Hence a link is a slot's number plus 1, and `reached`
 * says which entries have ever been in use.
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

#include "common/hashfn.h"
#include "directory/directory_internal.h"
#include "failpoint.h"
#include "storage/shmem.h"

FcDirectory *fc_dir = NULL;
LWLockPadded *fc_dir_locks;
FcEntry    *fc_dir_entries;
static FcLink *heads;

/* One bit a slot: its page has been wanted since it was linked. */
static pg_atomic_uint32 *hit_map;

/* ---- shared memory ---- */

static uint32
heads_for(uint32 slots)
{
	return Max(1, slots / 2 / FC_PARTITIONS);
}

static Size
hit_map_size(uint32 slots)
{
	return CACHELINEALIGN(((Size) slots + 31) / 32 * sizeof(pg_atomic_uint32));
}

FcPart
fc_directory_part(uint32 slots, bool keep)
{
	Size		size = CACHELINEALIGN(sizeof(FcDirectory));

	size = add_size(size, FC_PARTITIONS * sizeof(LWLockPadded));
	size = add_size(size, CACHELINEALIGN(mul_size(slots, sizeof(FcEntry))));
	size = add_size(size, fc_generations_size(slots));
	size = add_size(size, fc_epochs_size(slots));
	size = add_size(size, CACHELINEALIGN(mul_size((Size) heads_for(slots) * FC_PARTITIONS, sizeof(FcLink))));
	size = add_size(size, fc_ghosts_size(slots));
	size = add_size(size, fc_marks_size(slots));
	size = add_size(size, hit_map_size(slots));
	if (keep)
		size = add_size(size, fc_keep_size(slots));
	return fc_part("pg_flashcache directory", size);
}

void
fc_directory_shmem_init(uint32 slots, bool keep, int tranche)
{
	FcPart		part = fc_directory_part(slots, keep);
	bool		found;
	char	   *p;

	p = ShmemInitStruct(part.name, part.size, &found);
	fc_dir = (FcDirectory *) p;
	p += CACHELINEALIGN(sizeof(FcDirectory));
	fc_dir_locks = (LWLockPadded *) p;
	p += FC_PARTITIONS * sizeof(LWLockPadded);
	fc_dir_entries = (FcEntry *) p;
	p += CACHELINEALIGN((Size) slots * sizeof(FcEntry));
	fc_generations_init(p, slots);
	p += fc_generations_size(slots);
	fc_epochs_init(p, slots);
	p += fc_epochs_size(slots);
	heads = (FcLink *) p;
	p += CACHELINEALIGN((Size) heads_for(slots) * FC_PARTITIONS * sizeof(FcLink));
	fc_ghosts_init(p, slots);
	p += fc_ghosts_size(slots);
	fc_marks_init(p);
	p += fc_marks_size(slots);
	hit_map = (pg_atomic_uint32 *) p;
	p += hit_map_size(slots);
	if (keep)
		fc_keep_init(p, slots);

	for (int i = 0; i < FC_PARTITIONS; i++)
		LWLockInitialize(&fc_dir_locks[i].lock, tranche);
	fc_dir->slots = slots;
	fc_dir->heads_per_partition = heads_for(slots);
	fc_chunks_init(slots);
	pg_atomic_init_u32(&fc_dir->linked, 0);
	pg_atomic_init_u32(&fc_dir->unproven, 0);
	pg_atomic_init_u32(&fc_dir->kept, 0);
	pg_atomic_init_u32(&fc_dir->reached, 0);
	pg_atomic_init_u32(&fc_dir->admission, FC_ADMIT_ALL);
	pg_atomic_init_u32(&fc_dir->touching, keep);
	if (FC_START == 0)
		return;
	for (uint32 i = 0; i < slots; i++)
		pg_atomic_init_u32(&fc_dir_entries[i].word, FC_START_32 << FC_VERSION_SHIFT);	/* free */
}

uint32
fc_directory_slots(void)
{
	return fc_dir ? fc_dir->slots : 0;
}

uint32
fc_directory_linked(void)
{
	return fc_dir ? pg_atomic_read_u32(&fc_dir->linked) : 0;
}

/* ---- assertions ---- */

#ifdef USE_ASSERT_CHECKING

bool
fc_directory_locked(void)
{
	return LWLockAnyHeldByMe(&fc_dir_locks[0].lock, FC_PARTITIONS, sizeof(LWLockPadded));
}

#endif

/* ---- the chains ---- */

uint64
fc_directory_hash(const FcTag *tag)
{
	return hash_bytes_extended((const unsigned char *) tag, sizeof(*tag), 0);
}

LWLock *
fc_lock_partition(uint64 hash, LWLockMode mode)
{
	LWLock	   *lock = fc_lock_of(hash);

	Assert(!fc_directory_locked());
	LWLockAcquire(lock, mode);
	return lock;
}

FcLink *
fc_chain(uint64 hash)
{
	uint32		n = fc_dir->heads_per_partition;

	return &heads[(Size) fc_partition_of(hash) * n + fc_scaled(hash, n)];
}

FcLink *
fc_find_link(const FcTag *tag, uint64 hash)
{
	FcLink	   *link = fc_chain(hash);

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

/* ---- invalidation ---- */

void
fc_directory_bump_page(uint64 hash)
{
	if (unlikely(pg_atomic_read_u32(&fc_dir->touching)) && !fc_breaks("K3-write"))
		fc_directory_note_touched(hash);	/* K3 */
	fc_generations_bump(hash);
}

uint32
fc_directory_bump_relation(FcRel rel)
{
	return fc_epoch_invalidate(rel);
}

uint32
fc_directory_bump_database(Oid db)
{
	return fc_epoch_invalidate_database(db);
}

void
fc_directory_remove(const FcTag *tag, uint64 hash)
{
	LWLock	   *lock;
	FcLink	   *link;
	bool		found;

	/*
	 * Most pages written are not on flash: look under the shared lock first.
	 * "Not there" is final: the generation was bumped before (I1), so a fill
	 * that inserts after this look finds its guard broken.
	 */
	lock = fc_lock_partition(hash, LW_SHARED);
	found = fc_find_link(tag, hash) != NULL;
	LWLockRelease(lock);
	if (!found)
		return;

	lock = fc_lock_partition(hash, LW_EXCLUSIVE);
	link = fc_find_link(tag, hash);
	if (link != NULL)
	{
		uint32		count = pg_atomic_read_u32(&fc_linked(*link)->word) & FC_COUNT_MASK;

		fc_unlink_entry(link, FC_SLOT_FREE);
		fc_ghosts_remember(hash, count);
	}
	LWLockRelease(lock);
	if (link != NULL)
		fc_count_invalidated(fc_tag_rel(tag));
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

void
fc_directory_retire(const FcTag *tag, uint64 hash, const FcSlotRef *ref)
{
	LWLock	   *lock = fc_lock_partition(hash, LW_EXCLUSIVE);
	FcLink	   *link = fc_find_link(tag, hash);

	if (link != NULL && *link == ref->slot + 1 && fc_directory_unchanged(ref))
	{
		fc_unlink_entry(link, FC_SLOT_RETIRED);
		fc_count(FC_SLOTS_RETIRED);
	}
	LWLockRelease(lock);
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
