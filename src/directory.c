/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  See directory.h.
 *
 * Memory, per slot: an entry of 32 bytes, a chain head for every second slot
 * (2 bytes), a ghost fingerprint for every second (1 byte), four page
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
 * Generations are hashed: a page has four, each in a table of its own, and a
 * guard is broken when all four have moved.  So a fill fails for nothing only
 * if other pages were written that hit each of them: with w pages written
 * meanwhile and n generations in a table, (1 - exp(-w/n))^4.  They have 64
 * bits and don't come round.
 *
 * Memory order.  What is read and written under a partition's lock is ordered
 * by it.  src/README.md ("Atomics") says for each counter here what orders it
 * beside that; comments at the accesses say which of the sides this is.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/hashfn.h"
#include "directory.h"
#include "directory_epochs.h"
#include "port/atomics.h"
#include "stats.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define PARTITIONS 64
#define MIN_GENERATIONS 5461
#define MAX_GENERATIONS 65536

/* word: | version: 28 | state: 2 | reference count: 2 | */
#define COUNT_MASK 0x3u
#define STATE_SHIFT 2
#define STATE_MASK 0xCu
#define VERSION_SHIFT 4

typedef enum SlotState
{
	SLOT_FREE,
	SLOT_RESERVED,				/* being written by the writer */
	SLOT_USED,					/* linked */
	SLOT_RETIRED,				/* gave wrong content once */
} SlotState;

StaticAssertDecl(COUNT_MASK >= FC_REFCOUNT_MAX, "reference count does not fit");

/* 0, or a slot's number plus 1. */
typedef uint32 Link;

#define NOTHING 0

typedef struct Entry
{
	FcTag		tag;
	uint32		crc;			/* of content and tag */
	pg_atomic_uint32 epoch;		/* it was current then; later ones may have ended it */
	Link		next;			/* in the chain, or ERASED */
	pg_atomic_uint32 word;
} Entry;

StaticAssertDecl(sizeof(Entry) == 32, "directory entry has grown");

/* `next` of a slot that is in no chain and holds zeros.  Writer only. */
#define ERASED ((Link) PG_UINT32_MAX)

typedef struct Directory
{
	uint32		slots;			/* these never change */
	uint32		heads_per_partition;
	uint32		ghosts_per_partition;	/* sets */
	uint32		generations;	/* in a table */
	char		pad1[PG_CACHE_LINE_SIZE];
	pg_atomic_uint32 used;		/* for admission and views: no order needed */
	char		pad2[PG_CACHE_LINE_SIZE];
	FcSlotNo	hand;			/* these change nobody but the writer */
	bool		ghosts_used;
	pg_atomic_uint32 reached;	/* slots from here on were never in use; views read it */
} Directory;

static Directory *dir = NULL;
static LWLockPadded *locks;
static pg_atomic_uint64 *generations;	/* full barrier at I1 and F1 */
static Entry *entries;
static Link *heads;
static uint16 *ghosts;

/* ---- geometry ---- */

static uint32
generations_for(uint32 slots)
{
	return Max(MIN_GENERATIONS, Min(slots / 24, MAX_GENERATIONS));
}

static uint32
heads_for(uint32 slots)
{
	return Max(1, slots / 2 / PARTITIONS);
}

static uint32
ghost_sets_for(uint32 slots)
{
	return Max(1, slots / 2 / FC_GHOST_WAYS / PARTITIONS);
}

Size
fc_directory_shmem_size(uint32 slots)
{
	Size		size = CACHELINEALIGN(sizeof(Directory));

	size = add_size(size, CACHELINEALIGN(mul_size(slots, sizeof(Entry))));
	size = add_size(size, CACHELINEALIGN(mul_size((Size) FC_GENERATIONS * generations_for(slots), sizeof(uint64))));
	size = add_size(size, fc_epochs_size(slots));
	size = add_size(size, CACHELINEALIGN(mul_size((Size) heads_for(slots) * PARTITIONS, sizeof(Link))));
	size = add_size(size, CACHELINEALIGN(mul_size((Size) ghost_sets_for(slots) * PARTITIONS,
												  FC_GHOST_WAYS * sizeof(uint16))));
	return size;
}

int
fc_directory_locks(void)
{
	return PARTITIONS;
}

void
fc_directory_shmem_init(uint32 slots, const char *tranche)
{
	bool		found;
	char	   *p;
	Size		nheads = (Size) heads_for(slots) * PARTITIONS;
	Size		ngenerations = (Size) FC_GENERATIONS * generations_for(slots);

	p = ShmemInitStruct("pg_flashcache directory", fc_directory_shmem_size(slots), &found);
	dir = (Directory *) p;
	p += CACHELINEALIGN(sizeof(Directory));
	entries = (Entry *) p;
	p += CACHELINEALIGN((Size) slots * sizeof(Entry));
	generations = (pg_atomic_uint64 *) p;
	p += CACHELINEALIGN(ngenerations * sizeof(uint64));
	fc_epochs_init(p, slots);
	p += fc_epochs_size(slots);
	heads = (Link *) p;
	p += CACHELINEALIGN(nheads * sizeof(Link));
	ghosts = (uint16 *) p;

	locks = GetNamedLWLockTranche(tranche);
	dir->slots = slots;
	dir->heads_per_partition = heads_for(slots);
	dir->ghosts_per_partition = ghost_sets_for(slots);
	dir->generations = generations_for(slots);
	pg_atomic_init_u32(&dir->used, 0);
	pg_atomic_init_u32(&dir->reached, 0);
	if (FC_START == 0)
		return;
	for (Size i = 0; i < ngenerations; i++)
		pg_atomic_init_u64(&generations[i], FC_START_64);
	for (uint32 i = 0; i < slots; i++)
		pg_atomic_init_u32(&entries[i].word, FC_START_32 << VERSION_SHIFT);	/* free */
}

uint32
fc_directory_slots(void)
{
	return dir ? dir->slots : 0;
}

uint32
fc_directory_used(void)
{
	return dir ? pg_atomic_read_u32(&dir->used) : 0;
}

/* Slots from here on were never in use, and their entries never touched. */
static inline uint32
reached(void)
{
	return pg_atomic_read_u32(&dir->reached);
}

/* ---- hashing: different bits of one hash for different purposes ---- */

uint64
fc_directory_hash(const FcTag *tag)
{
	return hash_bytes_extended((const unsigned char *) tag, sizeof(*tag), 0);
}

static inline uint32
partition_of(uint64 hash)
{
	return hash % PARTITIONS;	/* bits 0-5 */
}

static inline LWLock *
lock_of(uint64 hash)
{
	return &locks[partition_of(hash)].lock;
}

/* The one in table i: bits 16 i to 16 i + 15. */
static inline pg_atomic_uint64 *
generation_of(uint64 hash, int i)
{
	uint64		part = (hash >> (16 * i)) & 0xffff;

	return &generations[(Size) i * dir->generations + ((part * dir->generations) >> 16)];
}

static inline uint16
fingerprint_of(uint64 hash)
{
	uint16		fp = (uint16) (hash >> 16); /* bits 16-31 */

	return fp ? fp : 1;			/* 0 marks an empty way */
}

/* Scales the upper half of the hash to 0 .. n-1 (Lemire, 2019). */
static inline uint32
scaled(uint64 hash, uint32 n)
{
	return (uint32) (((hash >> 32) * n) >> 32);
}

static inline Link *
head_of(uint64 hash)
{
	uint32		n = dir->heads_per_partition;

	return &heads[(Size) partition_of(hash) * n + scaled(hash, n)];
}

static inline uint16 *
ghost_of(uint64 hash)
{
	uint32		n = dir->ghosts_per_partition;

	return &ghosts[((Size) partition_of(hash) * n + scaled(hash, n)) * FC_GHOST_WAYS];
}

/* ---- entries ---- */

static inline SlotState
word_state(uint32 word)
{
	return (SlotState) ((word & STATE_MASK) >> STATE_SHIFT);
}

static inline uint32
word_version(uint32 word)
{
	return word >> VERSION_SHIFT;
}

static inline uint32
make_word(uint32 version, SlotState state, uint32 count)
{
	return (version << VERSION_SHIFT) | ((uint32) state << STATE_SHIFT) | count;
}

/*
 * Changes the state, keeps the version, clears the reference count.  Not one
 * atomic step, and need not be: others than the caller change nothing but the
 * count (fc_directory_touch()), which may be lost.
 */
static void
set_state(Entry *e, SlotState state)
{
	uint32		word = pg_atomic_read_u32(&e->word);

	pg_atomic_write_u32(&e->word, make_word(word_version(word), state, 0));
}

static inline Entry *
linked(Link link)
{
	return &entries[link - 1];
}

static inline FcSlotNo
slot_of(const Entry *e)
{
	return (FcSlotNo) (e - entries);
}

/* Caller holds the partition's lock.  Finds the link that leads to the tag. */
static Link *
find_link(const FcTag *tag, uint64 hash)
{
	Link	   *link = head_of(hash);

	while (*link != NOTHING)
	{
		Entry	   *e = linked(*link);

		if (fc_tag_equal(&e->tag, tag))
			return link;
		link = &e->next;
	}
	return NULL;
}

/* Caller holds the partition's lock exclusively. */
static void
unlink_entry(Link *link, SlotState new_state)
{
	Entry	   *e = linked(*link);

	Assert(word_state(pg_atomic_read_u32(&e->word)) == SLOT_USED);
	*link = e->next;
	e->next = NOTHING;
	pg_write_barrier();			/* the writer takes a free slot without this lock */
	set_state(e, new_state);
	pg_atomic_fetch_sub_u32(&dir->used, 1);
}

/* An entry whose relation or database was invalidated since is dead. */
static inline bool
entry_current(const Entry *e)
{
	return !fc_epoch_ended(fc_tag_rel(&e->tag), pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->epoch)));
}

/* ---- invalidation ---- */

void
fc_directory_bump_page(uint64 hash)
{
	for (int i = 0; i < FC_GENERATIONS; i++)
		pg_atomic_fetch_add_u64(generation_of(hash, i), 1);
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

bool
fc_directory_remove(const FcTag *tag, uint64 hash, bool modified)
{
	LWLock	   *lock = lock_of(hash);
	Link	   *link;
	bool		found;

	/*
	 * Most pages written are not on flash: look under the shared lock first.
	 * "Not there" is final: the generation was bumped before (I1), so a fill
	 * that inserts after this look finds its guard broken.
	 */
	LWLockAcquire(lock, LW_SHARED);
	found = find_link(tag, hash) != NULL;
	LWLockRelease(lock);
	if (!found)
		return false;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	link = find_link(tag, hash);
	if (link != NULL)
	{
		unlink_entry(link, SLOT_FREE);
		if (modified)
			(void) fc_policy_remember(ghost_of(hash), fingerprint_of(hash));
	}
	LWLockRelease(lock);
	if (link != NULL)
		fc_count(FC_EVICT_INVALIDATED);
	return link != NULL;
}

/* ---- reading ---- */

bool
fc_directory_lookup(const FcTag *tag, uint64 hash, FcSlotRef *ref)
{
	LWLock	   *lock = lock_of(hash);
	Link	   *link;
	bool		found = false;

	LWLockAcquire(lock, LW_SHARED);
	link = find_link(tag, hash);
	if (link != NULL && entry_current(linked(*link)))
	{
		Entry	   *e = linked(*link);

		ref->slot = slot_of(e);
		ref->version = word_version(pg_atomic_read_u32(&e->word));
		ref->crc = e->crc;
		found = true;
	}
	LWLockRelease(lock);
	return found;
}

bool
fc_directory_still(const FcSlotRef *ref)
{
	Entry	   *e = &entries[ref->slot];
	uint32		word = pg_atomic_read_u32(&e->word);

	/*
	 * Linked, and of the same version: then it has been linked all the time,
	 * since a slot that was unlinked gets another version before it is linked
	 * again.  Should it be reused at this moment, R3 sees that.
	 */
	if (word_state(word) != SLOT_USED || word_version(word) != ref->version || !entry_current(e))
		return false;
	/* dead entries are freed before their end is forgotten: so it is in use after that look, too */
	pg_read_barrier();
	return (pg_atomic_read_u32(&e->word) & ~COUNT_MASK) == (word & ~COUNT_MASK);
}

bool
fc_directory_unchanged(const FcSlotRef *ref)
{
	/*
	 * The page has been read before, the version is read now: pairs with the
	 * barrier of reserve_slot(), before which the version is raised and after
	 * which the slot is written.
	 */
	pg_read_barrier();
	return word_version(pg_atomic_read_u32(&entries[ref->slot].word)) == ref->version;
}

void
fc_directory_touch(const FcSlotRef *ref)
{
	pg_atomic_uint32 *word = &entries[ref->slot].word;
	uint32		old = pg_atomic_read_u32(word);

	/* a lost race loses a reference, nothing else; no order needed */
	if (word_version(old) == ref->version && word_state(old) == SLOT_USED &&
		(old & COUNT_MASK) < FC_REFCOUNT_MAX)
		pg_atomic_compare_exchange_u32(word, &old, old + 1);
}

void
fc_directory_retire(const FcTag *tag, uint64 hash, const FcSlotRef *ref)
{
	LWLock	   *lock = lock_of(hash);
	Link	   *link;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	link = find_link(tag, hash);
	if (link != NULL && *link == ref->slot + 1 && fc_directory_unchanged(ref))
	{
		unlink_entry(link, SLOT_RETIRED);
		fc_count(FC_SLOTS_RETIRED);
	}
	LWLockRelease(lock);
}

/* ---- filling ---- */

FcGuard
fc_directory_guard(uint64 hash)
{
	FcGuard		guard;

	for (int i = 0; i < FC_GENERATIONS; i++)
		guard.generation[i] = pg_atomic_read_u64(generation_of(hash, i));
	guard.epoch = fc_epoch_now();
	pg_memory_barrier();
	return guard;
}

FcOffer
fc_directory_offer(const FcTag *tag, uint64 hash, FcAdmission mode)
{
	LWLock	   *lock = lock_of(hash);
	Link	   *link;
	FcOffer		offer;

	dir->ghosts_used = true;

	/* exclusive because the ghost set changes; held for a short walk */
	LWLockAcquire(lock, LW_EXCLUSIVE);
	link = find_link(tag, hash);
	if (link != NULL && entry_current(linked(*link)))
	{
		(void) fc_policy_remember(ghost_of(hash), fingerprint_of(hash));
		offer = FC_OFFER_EXISTS;
	}
	else if (fc_policy_admit(mode, fc_directory_used(), dir->slots,
							 ghost_of(hash), fingerprint_of(hash)))
		offer = FC_OFFER_WANTED;
	else
		offer = FC_OFFER_NOT_USEFUL;
	LWLockRelease(lock);
	return offer;
}

/*
 * Nobody but this process changes a slot that is free or retired.  The
 * version is raised before anything is written: a reader that looked the slot
 * up earlier will see it (R3).
 */
static void
take(Entry *e, SlotState state)
{
	uint32		word = pg_atomic_read_u32(&e->word);

	if (slot_of(e) >= reached())
		pg_atomic_write_u32(&dir->reached, slot_of(e) + 1);
	e->next = NOTHING;
	pg_atomic_write_u32(&e->word, make_word(word_version(word) + 1, state, 0));
	pg_memory_barrier();
}

/* Takes the slot under the hand, if it may be taken. */
static bool
reserve_slot(FcSlotNo slot, bool by_force)
{
	Entry	   *e = &entries[slot];
	uint32		word = pg_atomic_read_u32(&e->word);

	switch (word_state(word))
	{
		case SLOT_RESERVED:
		case SLOT_RETIRED:
			return false;
		case SLOT_FREE:
			break;
		case SLOT_USED:
			{
				/* the tag is stable: only this process publishes */
				FcTag		tag = e->tag;
				uint64		hash = fc_directory_hash(&tag);
				Link	   *link;
				bool		was_current;

				was_current = entry_current(e);
				if ((word & COUNT_MASK) > 0 && was_current && !by_force)
				{
					pg_atomic_compare_exchange_u32(&e->word, &word, word - 1);
					return false;
				}
				LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
				if (word_state(pg_atomic_read_u32(&e->word)) == SLOT_USED)
				{
					link = find_link(&tag, hash);
					Assert(link != NULL && *link == slot + 1);
					unlink_entry(link, SLOT_FREE);
					fc_count(was_current ? FC_EVICT_AGED_OUT : FC_EVICT_INVALIDATED);
				}
				LWLockRelease(lock_of(hash));
				if (word_state(pg_atomic_read_u32(&e->word)) != SLOT_FREE)
					return false;	/* retired meanwhile */
				break;
			}
	}

	take(e, SLOT_RESERVED);
	return true;
}

uint32
fc_directory_reserve(uint32 wanted, FcSlotNo *slots)
{
	uint32		n = 0;
	uint32		patience = fc_policy_hand_limit(dir->slots, wanted);

	/* twice the limit: behind a stretch of retired slots it gives up */
	for (uint32 looked = 0; n < wanted && looked < 2 * patience; looked++)
	{
		FcSlotNo	slot = dir->hand;

		dir->hand = slot + 1 < dir->slots ? slot + 1 : 0;
		if (reserve_slot(slot, looked >= patience))
			slots[n++] = slot;
	}
	return n;
}

FcPublish
fc_directory_publish(FcSlotNo slot, const FcTag *tag, uint64 hash,
					 const FcGuard *guard, uint32 crc)
{
	Entry	   *e = &entries[slot];
	LWLock	   *lock = lock_of(hash);
	FcPublish	result = FC_PUBLISH_DONE;
	Link	   *link;
	uint32		epoch;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	/* first the epoch, then the look: one that begins after it ends the entry */
	epoch = fc_epoch_now();
	pg_read_barrier();
	if (!fc_directory_guard_holds(tag, hash, guard))
		result = FC_PUBLISH_MODIFIED;
	else if ((link = find_link(tag, hash)) != NULL)
	{
		if (entry_current(linked(*link)))
			result = FC_PUBLISH_EXISTS;
		else
		{
			unlink_entry(link, SLOT_FREE);	/* dead, not yet swept */
			fc_count(FC_EVICT_INVALIDATED);
		}
	}
	if (result == FC_PUBLISH_DONE)
	{
		Link	   *head = head_of(hash);

		e->tag = *tag;
		e->crc = crc;
		pg_atomic_write_u32(&e->epoch, epoch);
		e->next = *head;
		*head = slot + 1;
		/* fc_directory_page() looks without the lock: the entry before its state */
		pg_write_barrier();
		set_state(e, SLOT_USED);
		pg_atomic_fetch_add_u32(&dir->used, 1);
	}
	else
		set_state(e, SLOT_FREE);
	LWLockRelease(lock);
	return result;
}

void
fc_directory_release(FcSlotNo slot)
{
	Assert(word_state(pg_atomic_read_u32(&entries[slot].word)) == SLOT_RESERVED);
	set_state(&entries[slot], SLOT_FREE);
}

bool
fc_directory_guard_holds(const FcTag *tag, uint64 hash, const FcGuard *guard)
{
	bool		moved = true;

	/* a change of the page moves each of them */
	for (int i = 0; i < FC_GENERATIONS; i++)
		moved &= pg_atomic_read_u64(generation_of(hash, i)) != guard->generation[i];
	return !moved && !fc_epoch_forgotten(guard->epoch) &&
		!fc_epoch_ended(fc_tag_rel(tag), guard->epoch);
}

/* ---- housekeeping ---- */

/* Frees a used slot; all of them, or only if it is dead.  True if it is not in use, or no longer. */
static bool
free_slot(FcSlotNo slot, bool only_dead)
{
	Entry	   *e = &entries[slot];
	FcTag		tag = e->tag;	/* stable, see reserve_slot() */
	uint64		hash;

	if (word_state(pg_atomic_read_u32(&e->word)) != SLOT_USED)
		return true;
	if (only_dead && entry_current(e))
		return false;
	hash = fc_directory_hash(&tag);
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	if (word_state(pg_atomic_read_u32(&e->word)) == SLOT_USED)
	{
		unlink_entry(find_link(&tag, hash), SLOT_FREE);
		fc_count(FC_EVICT_INVALIDATED);
	}
	LWLockRelease(lock_of(hash));
	return true;
}

bool
fc_directory_take_to_erase(FcSlotNo slot, bool everything)
{
	Entry	   *e = &entries[slot];
	SlotState	state;

	free_slot(slot, !everything);
	state = word_state(pg_atomic_read_u32(&e->word));
	Assert(state != SLOT_RESERVED);
	if (state == SLOT_USED || (e->next == ERASED && !everything))
		return false;
	take(e, state == SLOT_RETIRED ? SLOT_RETIRED : SLOT_RESERVED);
	return true;
}

void
fc_directory_give_back(FcSlotNo slot, bool erased)
{
	Entry	   *e = &entries[slot];

	if (erased)
		e->next = ERASED;
	if (word_state(pg_atomic_read_u32(&e->word)) == SLOT_RESERVED)
		fc_directory_release(slot);
}

void
fc_directory_forget_erased(void)
{
	for (FcSlotNo slot = 0; slot < reached(); slot++)
	{
		/* of a slot in use it is somebody else's, and not that */
		if (word_state(pg_atomic_read_u32(&entries[slot].word)) != SLOT_USED &&
			entries[slot].next == ERASED)
			entries[slot].next = NOTHING;
	}
}

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

	pg_read_barrier();			/* invalidations up to it are seen from now on */
	return epoch;
}

bool
fc_directory_sweep(FcSlotNo *at, uint32 count, uint32 epoch)
{
	FcSlotNo	end = Min(reached(), *at + count);

	for (FcSlotNo slot = *at; slot < end; slot++)
	{
		Entry	   *e = &entries[slot];

		/*
		 * Whoever reads the old epoch finds the same: the entry was current
		 * in both.  Of an entry that dies just now it means nothing.
		 */
		if (!free_slot(slot, true) &&
			(int32) (epoch - pg_atomic_read_u32(&e->epoch)) > 0)
			pg_atomic_write_u32(&e->epoch, epoch);
	}
	*at = end;
	if (end < reached())
		return true;
	fc_epochs_swept(epoch);
	return false;
}

void
fc_directory_reclaim(void)
{
	for (FcSlotNo slot = 0; slot < reached(); slot++)
		if (word_state(pg_atomic_read_u32(&entries[slot].word)) == SLOT_RESERVED)
			fc_directory_release(slot);
}

static void
forget_ghosts(void)
{
	Size		per_partition = (Size) dir->ghosts_per_partition * FC_GHOST_WAYS;

	if (!dir->ghosts_used)
		return;
	for (uint32 p = 0; p < PARTITIONS; p++)
	{
		LWLockAcquire(&locks[p].lock, LW_EXCLUSIVE);
		memset(&ghosts[p * per_partition], 0, per_partition * sizeof(uint16));
		LWLockRelease(&locks[p].lock);
	}
	dir->ghosts_used = false;
}

void
fc_directory_purge(void)
{
	for (FcSlotNo slot = 0; slot < reached(); slot++)
	{
		/*
		 * It may be another device by now: what it holds is nobody's, and no
		 * slot is known to be erased.  Who looked the slot up before sees
		 * that by its version (R3).
		 */
		free_slot(slot, false);
		take(&entries[slot], SLOT_FREE);
	}
	fc_epochs_forget();
	forget_ghosts();
}

/* ---- inspection ---- */

bool
fc_directory_page(FcSlotNo slot, FcPageInfo *info)
{
	Entry	   *e = &entries[slot];
	uint32		word;
	bool		current;

	if (slot >= reached())
		return false;
	word = pg_atomic_read_u32(&e->word);

	/*
	 * Without a lock, so that looking costs the cache nothing: copy, then see
	 * whether the slot was reused meanwhile.
	 */
	if (word_state(word) != SLOT_USED)
		return false;
	pg_read_barrier();			/* pairs with that of fc_directory_publish() */
	info->tag = e->tag;
	info->refcount = word & COUNT_MASK;
	current = entry_current(e);
	pg_read_barrier();			/* pairs with that of reserve_slot() */
	return current &&
		(pg_atomic_read_u32(&e->word) & ~COUNT_MASK) == (word & ~COUNT_MASK);
}
