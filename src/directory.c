/*-------------------------------------------------------------------------
 *
 * directory.c
 *	  See directory.h.
 *
 * Memory, per slot: an entry of 32 bytes, a chain head for every second slot
 * (2 bytes), a ghost fingerprint for every second (1 byte), a relation epoch
 * for every eighth (0.5 bytes); beside that 16,384 page generations of 8 bytes and
 * 256 database epochs, whatever the size.
 *
 * Generations and epochs are hashed counters: two pages may share one.  A
 * collision can only make a fill fail or an entry die that need not have;
 * it can never keep one alive.
 *
 * An entry keeps the *sum* of its relation's and its database's epoch.  Both
 * only grow, so the sum is unchanged exactly if both are.  It comes round
 * after 2^32 bumps; dead entries are swept long before that, or the cache
 * goes off (FC_EPOCHS_UNSWEPT).  Generations have 64 bits and don't come round.
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
#include "failpoint.h"
#include "port/atomics.h"
#include "stats.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

#define PARTITIONS 64
#define PAGE_GENERATIONS 16384
#define DATABASE_EPOCHS 256
#define MIN_RELATION_EPOCHS 1024
#define MAX_RELATION_EPOCHS 65536

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

typedef struct Entry
{
	FcTag		tag;
	uint32		crc;			/* of content and tag */
	uint32		epoch;			/* relation's plus database's */
	FcSlotNo	next;			/* in the chain, or ERASED */
	pg_atomic_uint32 word;
} Entry;

StaticAssertDecl(sizeof(Entry) == 32, "directory entry has grown");

/* `next` of a slot that is in no chain and holds zeros.  Writer only. */
#define ERASED ((FcSlotNo) (FC_NO_SLOT - 1))

typedef struct Directory
{
	uint32		slots;
	uint32		heads_per_partition;
	uint32		ghosts_per_partition;	/* sets */
	uint32		relation_epochs;	/* power of 2 */
	FcSlotNo	hand;			/* writer only */
	pg_atomic_uint32 used;		/* for admission and views: no order needed */
	pg_atomic_uint32 unswept;	/* bumps of epochs since the last sweep began; raised after the epoch, taken before it is read */
	pg_atomic_uint32 database_epoch[DATABASE_EPOCHS];	/* full barrier at I1 and F1 */
	pg_atomic_uint64 page_generation[PAGE_GENERATIONS]; /* likewise */
} Directory;

static Directory *dir = NULL;
static LWLockPadded *locks;
static pg_atomic_uint32 *relation_epoch;
static Entry *entries;
static FcSlotNo *heads;
static uint16 *ghosts;

/* ---- geometry ---- */

static uint32
relation_epochs_for(uint32 slots)
{
	uint32		n = MIN_RELATION_EPOCHS;

	while (n * 2 <= slots / 8 && n < MAX_RELATION_EPOCHS)
		n *= 2;
	return n;
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
	size = add_size(size, CACHELINEALIGN(mul_size(relation_epochs_for(slots), sizeof(uint32))));
	size = add_size(size, CACHELINEALIGN(mul_size((Size) heads_for(slots) * PARTITIONS, sizeof(FcSlotNo))));
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
	Size		nghosts = (Size) ghost_sets_for(slots) * PARTITIONS * FC_GHOST_WAYS;

	p = ShmemInitStruct("pg_flashcache directory", fc_directory_shmem_size(slots), &found);
	dir = (Directory *) p;
	p += CACHELINEALIGN(sizeof(Directory));
	entries = (Entry *) p;
	p += CACHELINEALIGN(slots * sizeof(Entry));
	relation_epoch = (pg_atomic_uint32 *) p;
	p += CACHELINEALIGN(relation_epochs_for(slots) * sizeof(uint32));
	heads = (FcSlotNo *) p;
	p += CACHELINEALIGN(nheads * sizeof(FcSlotNo));
	ghosts = (uint16 *) p;

	locks = GetNamedLWLockTranche(tranche);
	dir->slots = slots;
	dir->heads_per_partition = heads_for(slots);
	dir->ghosts_per_partition = ghost_sets_for(slots);
	dir->relation_epochs = relation_epochs_for(slots);
	dir->hand = 0;
	pg_atomic_init_u32(&dir->used, 0);
	pg_atomic_init_u32(&dir->unswept, 0);
	for (int i = 0; i < DATABASE_EPOCHS; i++)
		pg_atomic_init_u32(&dir->database_epoch[i], FC_START_32);
	for (int i = 0; i < PAGE_GENERATIONS; i++)
		pg_atomic_init_u64(&dir->page_generation[i], FC_START_64);
	for (uint32 i = 0; i < dir->relation_epochs; i++)
		pg_atomic_init_u32(&relation_epoch[i], FC_START_32);
	for (uint32 i = 0; i < slots; i++)
	{
		entries[i].next = FC_NO_SLOT;
		pg_atomic_init_u32(&entries[i].word, FC_START_32 << VERSION_SHIFT);	/* free */
	}
	memset(heads, 0xff, nheads * sizeof(FcSlotNo));
	memset(ghosts, 0, nghosts * sizeof(uint16));
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

static inline pg_atomic_uint64 *
generation_of(uint64 hash)
{
	return &dir->page_generation[(hash >> 6) % PAGE_GENERATIONS];	/* bits 6-19 */
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

static inline FcSlotNo *
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

static inline pg_atomic_uint32 *
relation_epoch_of(FcRel rel)
{
	uint32		h = hash_combine(murmurhash32(rel.rel),
								 hash_combine(murmurhash32(rel.db), murmurhash32(rel.spc)));

	return &relation_epoch[h & (dir->relation_epochs - 1)];
}

static inline pg_atomic_uint32 *
database_epoch_of(Oid db)
{
	return &dir->database_epoch[murmurhash32(db) % DATABASE_EPOCHS];
}

/*
 * Read in two steps.  A bump in between can give a sum that was current at
 * no moment, but never one above the current one; so a guard made of it holds
 * only if neither part has moved since it was read.
 */
uint32
fc_directory_epoch(FcRel rel)
{
	return pg_atomic_read_u32(relation_epoch_of(rel)) +
		pg_atomic_read_u32(database_epoch_of(rel.db));
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

/* Caller holds the partition's lock.  Finds the link that leads to the tag. */
static FcSlotNo *
find_link(const FcTag *tag, uint64 hash)
{
	FcSlotNo   *link = head_of(hash);

	while (*link != FC_NO_SLOT)
	{
		Entry	   *e = &entries[*link];

		if (fc_tag_equal(&e->tag, tag))
			return link;
		link = &e->next;
	}
	return NULL;
}

/* Caller holds the partition's lock exclusively. */
static void
unlink_entry(FcSlotNo *link, SlotState new_state)
{
	Entry	   *e = &entries[*link];

	Assert(word_state(pg_atomic_read_u32(&e->word)) == SLOT_USED);
	*link = e->next;
	e->next = FC_NO_SLOT;
	pg_write_barrier();			/* the writer takes a free slot without this lock */
	set_state(e, new_state);
	pg_atomic_fetch_sub_u32(&dir->used, 1);
}

/* An entry whose relation or database has moved on is dead. */
static inline bool
entry_current(const Entry *e)
{
	return e->epoch == fc_directory_epoch(fc_tag_rel(&e->tag));
}

/* ---- invalidation ---- */

uint64
fc_directory_bump_page(uint64 hash)
{
	return pg_atomic_add_fetch_u64(generation_of(hash), 1);
}

uint32
fc_directory_bump_relation(FcRel rel)
{
	pg_atomic_fetch_add_u32(relation_epoch_of(rel), 1); /* a full barrier */
	return pg_atomic_add_fetch_u32(&dir->unswept, 1);
}

uint32
fc_directory_bump_database(Oid db)
{
	pg_atomic_fetch_add_u32(database_epoch_of(db), 1);	/* a full barrier */
	return pg_atomic_add_fetch_u32(&dir->unswept, 1);
}

bool
fc_directory_remove(const FcTag *tag, uint64 hash, bool modified)
{
	LWLock	   *lock = lock_of(hash);
	FcSlotNo   *link;
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
	FcSlotNo   *link;
	bool		found = false;

	LWLockAcquire(lock, LW_SHARED);
	link = find_link(tag, hash);
	if (link != NULL && entry_current(&entries[*link]))
	{
		Entry	   *e = &entries[*link];

		ref->slot = *link;
		ref->version = word_version(pg_atomic_read_u32(&e->word));
		ref->crc = e->crc;
		found = true;
	}
	LWLockRelease(lock);
	return found;
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
	FcSlotNo   *link;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	link = find_link(tag, hash);
	if (link != NULL && *link == ref->slot && fc_directory_unchanged(ref))
	{
		unlink_entry(link, SLOT_RETIRED);
		fc_count(FC_SLOTS_RETIRED);
	}
	LWLockRelease(lock);
}

/* ---- filling ---- */

FcGuard
fc_directory_guard(const FcTag *tag, uint64 hash)
{
	FcGuard		guard;

	guard.generation = pg_atomic_read_u64(generation_of(hash));
	guard.epoch = fc_directory_epoch(fc_tag_rel(tag));
	pg_memory_barrier();
	return guard;
}

FcOffer
fc_directory_offer(const FcTag *tag, uint64 hash, FcAdmission mode)
{
	LWLock	   *lock = lock_of(hash);
	FcSlotNo   *link;
	FcOffer		offer;

	/* exclusive because the ghost set changes; held for a short walk */
	LWLockAcquire(lock, LW_EXCLUSIVE);
	link = find_link(tag, hash);
	if (link != NULL && entry_current(&entries[*link]))
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

	e->next = FC_NO_SLOT;
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
				FcSlotNo   *link;
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
					Assert(link != NULL && *link == slot);
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
	FcSlotNo   *link;

	LWLockAcquire(lock, LW_EXCLUSIVE);
	if (!fc_directory_guard_holds(tag, hash, guard))
		result = FC_PUBLISH_MODIFIED;
	else if ((link = find_link(tag, hash)) != NULL)
	{
		if (entry_current(&entries[*link]))
			result = FC_PUBLISH_EXISTS;
		else
		{
			unlink_entry(link, SLOT_FREE);	/* dead, not yet swept */
			fc_count(FC_EVICT_INVALIDATED);
		}
	}
	if (result == FC_PUBLISH_DONE)
	{
		FcSlotNo   *head = head_of(hash);

		e->tag = *tag;
		e->crc = crc;
		e->epoch = guard->epoch;
		e->next = *head;
		*head = slot;
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
	return pg_atomic_read_u64(generation_of(hash)) == guard->generation &&
		fc_directory_epoch(fc_tag_rel(tag)) == guard->epoch;
}

/* ---- housekeeping ---- */

bool
fc_directory_sweep_wanted(void)
{
	/*
	 * A look first: this is asked every round, and seldom true.  Then a full
	 * barrier: whoever counted has raised an epoch before, which is seen now.
	 */
	return pg_atomic_read_u32(&dir->unswept) != 0 && pg_atomic_exchange_u32(&dir->unswept, 0) != 0;
}

/* Frees a used slot; all of them, or only if it is dead. */
static void
free_slot(FcSlotNo slot, bool only_dead)
{
	Entry	   *e = &entries[slot];
	FcTag		tag = e->tag;	/* stable, see reserve_slot() */
	uint64		hash;

	if (word_state(pg_atomic_read_u32(&e->word)) != SLOT_USED ||
		(only_dead && entry_current(e)))
		return;
	hash = fc_directory_hash(&tag);
	LWLockAcquire(lock_of(hash), LW_EXCLUSIVE);
	if (word_state(pg_atomic_read_u32(&e->word)) == SLOT_USED)
	{
		unlink_entry(find_link(&tag, hash), SLOT_FREE);
		fc_count(FC_EVICT_INVALIDATED);
	}
	LWLockRelease(lock_of(hash));
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
	for (FcSlotNo slot = 0; slot < dir->slots; slot++)
	{
		/* of a slot in use it is somebody else's, and not that */
		if (word_state(pg_atomic_read_u32(&entries[slot].word)) != SLOT_USED &&
			entries[slot].next == ERASED)
			entries[slot].next = FC_NO_SLOT;
	}
}

FcSlotNo
fc_directory_sweep(FcSlotNo from, uint32 count)
{
	FcSlotNo	end = Min(dir->slots, from + count);

	for (FcSlotNo slot = from; slot < end; slot++)
		free_slot(slot, true);
	return end;
}

void
fc_directory_reclaim(void)
{
	for (FcSlotNo slot = 0; slot < dir->slots; slot++)
		if (word_state(pg_atomic_read_u32(&entries[slot].word)) == SLOT_RESERVED)
			fc_directory_release(slot);
}

void
fc_directory_purge(void)
{
	pg_atomic_exchange_u32(&dir->unswept, 0);	/* a sweep would find nothing */
	for (FcSlotNo slot = 0; slot < dir->slots; slot++)
	{
		/*
		 * It may be another device by now: what it holds is nobody's, and no
		 * slot is known to be erased.  Who looked the slot up before sees
		 * that by its version (R3).
		 */
		free_slot(slot, false);
		take(&entries[slot], SLOT_FREE);
	}
	for (uint32 p = 0; p < PARTITIONS; p++)
	{
		Size		per_partition = (Size) dir->ghosts_per_partition * FC_GHOST_WAYS;

		LWLockAcquire(&locks[p].lock, LW_EXCLUSIVE);
		memset(&ghosts[p * per_partition], 0, per_partition * sizeof(uint16));
		LWLockRelease(&locks[p].lock);
	}
}

/* ---- inspection ---- */

bool
fc_directory_page(FcSlotNo slot, FcPageInfo *info)
{
	Entry	   *e = &entries[slot];
	uint32		word = pg_atomic_read_u32(&e->word);
	bool		current;

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
