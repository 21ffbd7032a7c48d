/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  Shared memory of the directory, and the invalidation of what is in it.
 *
 * Memory, per slot: an entry of 32 bytes, a chain head for every second slot
 * (2 bytes), a bit that tells whether it was hit, a fingerprint of a page that
 * was evicted (3 bytes), one of a region for every twelfth (0.25 bytes), four page
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
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"
#include "failpoint.h"
#include "storage/shmem.h"

/* ---- shared memory ---- */

FcPart
fc_directory_part(uint32 slots, bool keep)
{
	Size		size = CACHELINEALIGN(sizeof(FcDirectory));

	size = add_size(size, FC_PARTITIONS * sizeof(LWLockPadded));
	size = add_size(size, CACHELINEALIGN(mul_size(slots, sizeof(FcEntry))));
	size = add_size(size, fc_generations_size(slots));
	size = add_size(size, fc_epochs_size(slots));
	size = add_size(size, fc_chains_size(slots));
	size = add_size(size, fc_ghosts_size(slots));
	size = add_size(size, fc_marks_size(slots));
	size = add_size(size, fc_hits_size(slots));
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
	fc_chains_init(p, slots);
	p += fc_chains_size(slots);
	fc_ghosts_init(p, slots);
	p += fc_ghosts_size(slots);
	fc_marks_init(p);
	p += fc_marks_size(slots);
	fc_hits_init(p);
	p += fc_hits_size(slots);
	if (keep)
		fc_keep_init(p, slots);

	for (int i = 0; i < FC_PARTITIONS; i++)
		LWLockInitialize(&fc_dir_locks[i].lock, tranche);
	fc_dir->slots = slots;
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
