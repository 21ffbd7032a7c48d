/*-------------------------------------------------------------------------
 *
 * directory_ghosts.c
 *	  Which pages were evicted lately: sets of fingerprints.
 *
 * A partition's sets are protected by its lock.  What is done with a set is
 * policy.c's.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"
#include "storage/shmem.h"

static uint16 *ghosts;
static uint32 sets_per_partition;

static uint32
ghost_sets_for(uint32 slots)
{
	return Max(1, slots / 2 / FC_GHOST_WAYS / FC_PARTITIONS);
}

Size
fc_ghosts_size(uint32 slots)
{
	return CACHELINEALIGN(mul_size((Size) ghost_sets_for(slots) * FC_PARTITIONS,
								   FC_GHOST_WAYS * sizeof(uint16)));
}

void
fc_ghosts_init(void *memory, uint32 slots)
{
	ghosts = memory;
	sets_per_partition = ghost_sets_for(slots);
}

static inline uint16
fingerprint_of(uint64 hash)
{
	uint16		fp = (uint16) (hash >> 16);

	return fp ? fp : 1;			/* 0 marks an empty way */
}

/* The set of a page. */
static inline uint16 *
set_of(uint64 hash)
{
	uint32		n = sets_per_partition;

	return &ghosts[((Size) fc_partition_of(hash) * n + fc_scaled(hash, n)) * FC_GHOST_WAYS];
}

void
fc_ghosts_remember(uint64 hash)
{
	Assert(LWLockHeldByMeInMode(fc_lock_of(hash), LW_EXCLUSIVE));
	(void) fc_policy_remember(set_of(hash), fingerprint_of(hash));
}

bool
fc_ghosts_admit(uint64 hash, FcAdmission mode)
{
	uint32		used = fc_directory_used();
	uint32		unproven = fc_directory_unproven();

	Assert(LWLockHeldByMeInMode(fc_lock_of(hash), LW_EXCLUSIVE));

	/*
	 * neighbours that nobody has asked for do not make the cache full for
	 * those that somebody has
	 */
	used -= Min(used, unproven);
	return fc_policy_admit(mode, used, fc_dir->slots, set_of(hash), fingerprint_of(hash));
}

void
fc_ghosts_forget(void)
{
	Size		per_partition = (Size) sets_per_partition * FC_GHOST_WAYS;

	Assert(fc_directory_is_mine() && !fc_directory_locked());
	if (!fc_dir->ghosts_used)
		return;
	for (uint32 p = 0; p < FC_PARTITIONS; p++)
	{
		LWLockAcquire(&fc_dir_locks[p].lock, LW_EXCLUSIVE);
		memset(&ghosts[p * per_partition], 0, per_partition * sizeof(uint16));
		LWLockRelease(&fc_dir_locks[p].lock);
	}
	fc_dir->ghosts_used = false;
}
