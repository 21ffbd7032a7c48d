/*-------------------------------------------------------------------------
 *
 * directory_ghosts.c
 *	  Which pages were evicted lately, and how often: what admission knows.
 *
 * Sets of fingerprints, as policy_admission.h describes them.  Those of pages
 * are protected by their partition's lock, since whoever changes a page that is
 * on flash leaves its number there.  Those of regions, and where ageing has
 * come to, are the writer's alone.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"
#include "storage/shmem.h"

static FcSeenSet *seen;
static FcRegionSet *regions;

/* Shared memory is for so many slots; as many sets are used as there are slots. */
static uint32 most_slots;

static uint32
seen_sets_for(uint32 slots)
{
	return Max(1, fc_policy_seen_sets(slots) / FC_PARTITIONS);
}

static inline uint32
sets_per_partition(void)
{
	return pg_atomic_read_u32(&fc_dir->seen_sets);
}

static Size
seen_size(uint32 slots)
{
	return CACHELINEALIGN(mul_size((Size) seen_sets_for(slots) * FC_PARTITIONS, sizeof(FcSeenSet)));
}

Size
fc_ghosts_size(uint32 slots)
{
	return add_size(seen_size(slots), CACHELINEALIGN(mul_size(fc_policy_region_sets(slots), sizeof(FcRegionSet))));
}

void
fc_ghosts_init(void *memory, uint32 slots)
{
	seen = memory;
	most_slots = slots;
	pg_atomic_init_u32(&fc_dir->seen_sets, seen_sets_for(slots));
	regions = (FcRegionSet *) ((char *) memory + seen_size(slots));
	fc_dir->region_sets = fc_policy_region_sets(slots);
}

/*
 * All begin to be forgotten: they are found in other sets from now on.  Who is
 * late looks in one of before, and leaves a number there that nobody finds.
 */
bool
fc_ghosts_scale(uint32 slots)
{
	Assert(fc_directory_is_mine() && slots <= most_slots);
	if (seen_sets_for(slots) == sets_per_partition() && fc_policy_region_sets(slots) == fc_dir->region_sets)
		return false;
	fc_ghosts_forget();
	memset(&fc_dir->age, 0, sizeof(fc_dir->age));
	pg_atomic_write_u32(&fc_dir->seen_sets, seen_sets_for(slots));
	fc_dir->region_sets = fc_policy_region_sets(slots);
	return true;
}

/* ---- pages ---- */

static inline uint16
fingerprint_of(uint64 hash)
{
	return fc_policy_fingerprint((uint16) (hash >> 16));
}

/* The set of a page. */
static inline FcSeenSet *
set_of(uint64 hash)
{
	uint32		n = sets_per_partition();

	Assert(LWLockHeldByMeInMode(fc_lock_of(hash), LW_EXCLUSIVE));
	return &seen[(Size) fc_partition_of(hash) * n + fc_scaled(hash, n)];
}

void
fc_ghosts_remember(uint64 hash, uint32 add)
{
	fc_policy_remember(fc_admission_now(), set_of(hash), fingerprint_of(hash), add);
}

int
fc_ghosts_seen(uint64 hash, uint32 *count)
{
	FcSeenSet  *set = set_of(hash);

	*count = fc_policy_seen_count(set, fingerprint_of(hash));
	return fc_policy_seen(set, fingerprint_of(hash));
}

uint32
fc_ghosts_take(uint64 hash)
{
	FcSeenSet  *set = set_of(hash);
	uint32		count = fc_policy_seen_count(set, fingerprint_of(hash));

	if (!fc_policy_by_number(fc_admission_now()))
		return 0;
	fc_policy_forget(set, fingerprint_of(hash));
	return count;
}

/* ---- regions ---- */

/* Of a page and its neighbours. */
uint64
fc_directory_region(const FcTag *tag)
{
	FcTag		region = *tag;

	region.blk /= FC_REGION_PAGES;
	return fc_directory_hash(&region);
}

static inline FcRegionSet *
region_set_of(uint64 region)
{
	return &regions[fc_scaled(region, fc_dir->region_sets)];
}

static inline uint16
region_print(uint64 region)
{
	return (uint16) region != 0 ? (uint16) region : 1;
}

uint32
fc_regions_worth(uint64 region)
{
	Assert(fc_directory_is_mine());
	return fc_policy_region(region_set_of(region), region_print(region));
}

/* ---- what passes by ---- */

/* An offer is noted: its region's number rises, and some get old. */
void
fc_ghosts_note_offer(uint64 region)
{
	uint32		nsets = sets_per_partition() * FC_PARTITIONS;
	FcSlotNo	next = fc_next_open(fc_dir->age.slot);
	FcAged		aged;

	Assert(fc_directory_is_mine() && !fc_directory_locked());
	if (next != FC_NO_SLOT)
		fc_dir->age.slot = next;
	aged = fc_policy_age(&fc_dir->age, fc_dir->slots, Max(fc_directory_capacity(), 1), nsets);
	fc_policy_note_region(region_set_of(region), region_print(region));
	/* elsewhere the hand lowers them */
	if (aged.slot >= 0 && aged.slot < fc_reached() && fc_policy_by_number(fc_admission_now()))
	{
		pg_atomic_uint32 *word = &fc_dir_entries[aged.slot].word;
		uint32		old = pg_atomic_read_u32(word);
		uint32		count = old & FC_COUNT_MASK;

		/* a lost race: it gets old the next time */
		if (count > 0)
			pg_atomic_compare_exchange_u32(word, &old, (old & ~FC_COUNT_MASK) | count / 2);
	}
	if (aged.set >= 0)
	{
		LWLock	   *lock = &fc_dir_locks[aged.set / sets_per_partition()].lock;

		LWLockAcquire(lock, LW_EXCLUSIVE);
		fc_policy_age_seen(&seen[aged.set]);
		LWLockRelease(lock);
	}
	if (aged.regions)
		fc_policy_age_regions(regions, fc_dir->region_sets);
}

void
fc_ghosts_forget(void)
{
	Size		per_partition = sets_per_partition();

	Assert(fc_directory_is_mine() && !fc_directory_locked());
	if (!fc_dir->ghosts_used)
		return;

	/*
	 * What lies behind has been zero since they were scaled; it is not
	 * mapped, if it was never used
	 */
	for (uint32 p = 0; p < FC_PARTITIONS; p++)
	{
		LWLockAcquire(&fc_dir_locks[p].lock, LW_EXCLUSIVE);
		memset(&seen[p * per_partition], 0, per_partition * sizeof(FcSeenSet));
		LWLockRelease(&fc_dir_locks[p].lock);
	}
	memset(regions, 0, fc_dir->region_sets * sizeof(FcRegionSet));
	memset(&fc_dir->age, 0, sizeof(fc_dir->age));
	fc_dir->ghosts_used = false;
}
