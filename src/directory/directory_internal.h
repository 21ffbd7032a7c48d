/*-------------------------------------------------------------------------
 *
 * directory_internal.h
 *	  What the files of this module share, and nobody else.
 *
 * Hashing: different bits of a tag's hash choose the partition (0-5), the
 * generations (0-15, 16-31, 32-47, 48-63), the fingerprint of the ghost
 * (16-31), and the chain and the ghost set within the partition (32-63).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_DIRECTORY_INTERNAL_H
#define FC_DIRECTORY_INTERNAL_H

#include "directory/directory.h"
#include "directory/directory_epochs.h"
#include "policy.h"
#include "port/atomics.h"
#include "stats/stats.h"
#include "stats/stats_relation.h"
#include "storage/lwlock.h"

#define FC_PARTITIONS 64

/* word: | version: 26 | kept: 1 | state: 2 | number of evictions and hits: 3 | */
#define FC_COUNT_MASK 0x7u
#define FC_STATE_SHIFT 3
#define FC_STATE_MASK 0x18u
#define FC_KEPT_BIT 0x20u		/* linked, and of a file with the policy keep */
#define FC_VERSION_SHIFT 6

/* What may change of a slot that stays linked. */
#define FC_UNSTABLE_BITS (FC_COUNT_MASK | FC_KEPT_BIT)

typedef enum FcSlotState
{
	FC_SLOT_FREE,
	FC_SLOT_RESERVED,			/* being written by the writer */
	FC_SLOT_USED,				/* linked */
	FC_SLOT_RETIRED,			/* gave wrong content once */
} FcSlotState;

StaticAssertDecl(FC_COUNT_MASK >= FC_COUNT_MAX, "the number does not fit");

/* 0, or a slot's number plus 1. */
typedef uint32 FcLink;

#define FC_NO_LINK 0

typedef struct FcEntry
{
	FcTag		tag;
	uint32		crc;			/* of content and tag */
	pg_atomic_uint32 epoch;		/* it was current then; later ones may have
								 * ended it */
	FcLink		next;			/* in the chain, or FC_ERASED */
	pg_atomic_uint32 word;
} FcEntry;

StaticAssertDecl(sizeof(FcEntry) == 32, "directory entry has grown");

/* `next` of a slot that is in no chain and holds zeros.  Writer only. */
#define FC_ERASED ((FcLink) PG_UINT32_MAX)

typedef struct FcDirectory
{
	uint32		slots;			/* these never change */
	uint32		heads_per_partition;
	char		pad1[PG_CACHE_LINE_SIZE];
	pg_atomic_uint32 linked;	/* for admission and views: no order needed */
	pg_atomic_uint32 unproven;	/* of them, marked FC_MARK_EXTENT; the same */
	pg_atomic_uint32 kept;		/* of them, FC_KEPT_BIT; the same */
	char		pad2[PG_CACHE_LINE_SIZE];
	FcSlotNo	hand;			/* these change nobody but the writer */
	FcAge		age;
	pg_atomic_uint32 admission; /* FcAdmission in force; who invalidates reads
								 * it: no order needed */
	bool		ghosts_used;
	pg_atomic_uint32 seen_sets; /* of each partition; no order needed */
	uint32		region_sets;	/* writer only */
	bool		restored;		/* entries were, in this run; all read it */
	bool		erased;			/* there may be slots with FC_ERASED; writer
								 * only */
	pg_atomic_uint32 reached;	/* slots from here on were never in use; views
								 * read it */
	pg_atomic_uint32 touching;	/* set at start, cleared once; see
								 * directory_keep.c */
	bool		doubtful;		/* K12; set only while the cache is not active */
	char		pad3[PG_CACHE_LINE_SIZE];
	uint32		chunk_shift;	/* never changes */
	pg_atomic_uint32 capacity;	/* slots of all chunks that may be read; no
								 * order needed */
	pg_atomic_uint32 chunk[FC_CHUNKS];	/* FC_CHUNK_OPEN, FC_CHUNK_READABLE */
	uint32		chunk_slots[FC_CHUNKS]; /* 0: absent; of the writer */
	pg_atomic_uint32 chunk_used[FC_CHUNKS]; /* as `linked` */
	pg_atomic_uint32 chunk_kept[FC_CHUNKS]; /* as `kept` */
	pg_atomic_uint32 chunk_unproven[FC_CHUNKS]; /* as `unproven` */
	pg_atomic_uint32 away_used; /* of chunks that may not be read, as the
								 * writer has counted last */
	pg_atomic_uint32 away_kept; /* the same */
	pg_atomic_uint32 away_unproven; /* the same */
} FcDirectory;

/* ---- directory_state.c ---- */

/*
 * In shared memory; NULL without one.  Each hit reads them: hidden, so that the
 * compiler need not go by the table of addresses.
 */
#pragma GCC visibility push(hidden)
extern FcDirectory *fc_dir;
extern LWLockPadded *fc_dir_locks;
extern FcEntry *fc_dir_entries;
#pragma GCC visibility pop

/* What decides which pages are wanted; any process may ask. */
extern FcAdmission fc_admission_now(void);

/* ---- assertions ---- */

#ifdef USE_ASSERT_CHECKING

/* This process is the writer. */
extern void fc_directory_note_mine(void);

/* A hash that belongs to the tag, of a page that can be cached. */
static inline bool
fc_is_hash_of(uint64 hash, const FcTag *tag)
{
	return hash == fc_directory_hash(tag) && OidIsValid(tag->rel) && tag->blk != InvalidBlockNumber;
}

#endif

/* ---- partitions ---- */

static inline uint32
fc_partition_of(uint64 hash)
{
	return hash % FC_PARTITIONS;
}

static inline LWLock *
fc_lock_of(uint64 hash)
{
	return &fc_dir_locks[fc_partition_of(hash)].lock;
}

/* Scales the upper half of the hash to 0 .. n-1 (Lemire, 2019). */
static inline uint32
fc_scaled(uint64 hash, uint32 n)
{
	Assert(n > 0);
	return (uint32) (((hash >> 32) * n) >> 32);
}

/* Locks the partition of a hash: a leaf, no second one, and none of ours beside it. */
static inline LWLock *
fc_lock_partition(uint64 hash, LWLockMode mode)
{
	LWLock	   *lock = fc_lock_of(hash);

	Assert(!fc_directory_locked());
	LWLockAcquire(lock, mode);
	return lock;
}

/* ---- entries ---- */

/* Slots from here on were never in use, and their entries never touched. */
static inline uint32
fc_reached(void)
{
	return pg_atomic_read_u32(&fc_dir->reached);
}

static inline FcSlotState
fc_word_state(uint32 word)
{
	return (FcSlotState) ((word & FC_STATE_MASK) >> FC_STATE_SHIFT);
}

static inline uint32
fc_word_version(uint32 word)
{
	return word >> FC_VERSION_SHIFT;
}

static inline uint32
fc_make_word(uint32 version, FcSlotState state, uint32 count)
{
	Assert(count <= FC_COUNT_MASK);
	return (version << FC_VERSION_SHIFT) | ((uint32) state << FC_STATE_SHIFT) | count;
}

static inline FcEntry *
fc_linked(FcLink link)
{
	Assert(link != FC_NO_LINK && link != FC_ERASED && link <= fc_dir->slots);
	return &fc_dir_entries[link - 1];
}

static inline FcSlotNo
fc_slot_of(const FcEntry *e)
{
	Assert(e >= fc_dir_entries && e < fc_dir_entries + fc_dir->slots);
	return (FcSlotNo) (e - fc_dir_entries);
}

/* An entry whose relation or database was invalidated since is dead. */
static inline bool
fc_entry_current(const FcEntry *e)
{
	return !fc_epoch_ended(fc_tag_rel(&e->tag), pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->epoch)));
}

/*
 * Changes the state, keeps the version, clears the reference count and the mark
 * that it is kept.  Not one atomic step, and need not be: others than the caller
 * change nothing but the count (fc_directory_touch()), which may be lost.
 */
static inline void
fc_set_state(FcEntry *e, FcSlotState state)
{
	uint32		word = pg_atomic_read_u32(&e->word);

	pg_atomic_write_u32(&e->word, fc_make_word(fc_word_version(word), state, 0));
}

/* ---- directory_chain.c: the chains ---- */

extern Size fc_chains_size(uint32 slots);
extern Size fc_hits_size(uint32 slots);

/* In memory that is zero. */
extern void fc_chains_init(void *memory, uint32 slots);
extern void fc_hits_init(void *memory);

/* Caller holds the partition's lock.  Finds the link that leads to the tag. */
extern FcLink *fc_find_link(const FcTag *tag, uint64 hash);

/*
 * Marks a linked slot as kept, or not.  Caller holds the partition's lock
 * exclusively; so the mark goes with the entry.
 */
extern void fc_set_kept(FcEntry *e, bool kept);

/* Links a slot, with that number.  Caller holds the partition's lock exclusively.  Writer only. */
extern void fc_link_entry(FcEntry *e, const FcTag *tag, uint64 hash, uint32 crc, uint32 epoch, uint32 count);

/* Caller holds the partition's lock exclusively. */
extern void fc_unlink_entry(FcLink *link, FcSlotState new_state);

/* Has the slot's page been wanted since it was linked?  For counting alone: no order needed. */
extern bool fc_slot_was_hit(FcSlotNo slot);
extern void fc_slot_hit(FcSlotNo slot, bool hit);

/* A page of a relation, which may be gone by now, is no longer there.  No lock may be held. */
static inline void
fc_count_invalidated(FcRel rel)
{
	fc_count(FC_EVICT_INVALIDATED);
	fc_count_old_relation(rel, FC_REL_INVALIDATIONS, 1);
}

/* ---- directory_chunks.c: which slots there are, and which may be used ---- */

#define FC_CHUNK_READABLE 0x80000000u
#define FC_CHUNK_OPEN 0x7FFFFFFFu	/* so many of its first slots may be taken */

extern void fc_chunks_init(uint32 slots);

static inline uint32
fc_chunk_of(FcSlotNo slot)
{
	return pg_atomic_read_u32(&fc_dir->chunk[slot >> fc_dir->chunk_shift]);
}

/* May its entry give a hit?  A late answer does no harm. */
static inline bool
fc_slot_readable(FcSlotNo slot)
{
	return (fc_chunk_of(slot) & FC_CHUNK_READABLE) != 0;
}

/* May the writer take it? */
static inline bool
fc_slot_open(FcSlotNo slot)
{
	return (slot & ((UINT32_C(1) << fc_dir->chunk_shift) - 1)) < (fc_chunk_of(slot) & FC_CHUNK_OPEN);
}

/* The first slot from that one on, round the end, which may be taken; FC_NO_SLOT if there is none. */
extern FcSlotNo fc_next_open(FcSlotNo slot);

/* ---- directory_generations.c: when pages were invalidated ---- */

extern Size fc_generations_size(uint32 slots);

/* In memory that is zero. */
extern void fc_generations_init(void *memory, uint32 slots);

/* I1 for one page.  A full barrier. */
extern void fc_generations_bump(uint64 hash);

/* F1: no barrier. */
extern void fc_generations_read(uint64 hash, FcGuard *guard);

/* Has the page been invalidated since?  Or so many others that this is unknown. */
extern bool fc_generations_moved(uint64 hash, const FcGuard *guard);

/* ---- directory_ghosts.c: which pages were evicted lately ---- */

extern Size fc_ghosts_size(uint32 slots);
extern void fc_ghosts_init(void *memory, uint32 slots);

/*
 * Caller of these three holds the partition's lock exclusively.  A page was
 * evicted, or taken off flash: so much is added to its number.
 */
extern void fc_ghosts_remember(uint64 hash, uint32 add);

/* Where it was seen before (-1: not), and its number. */
extern int	fc_ghosts_seen(uint64 hash, uint32 *count);

/* It gets a slot: its number for there.  0 where numbers do not decide. */
extern uint32 fc_ghosts_take(uint64 hash);

/* Writer only: a page of that region is offered. */
extern void fc_ghosts_note_offer(uint64 region);

/* Writer only: the number of a region. */
extern uint32 fc_regions_worth(uint64 region);

/* Writer only: forgets all. */
extern void fc_ghosts_forget(void);

/* Writer only: they are those of so many slots from now on.  True: all were forgotten for it. */
extern bool fc_ghosts_scale(uint32 slots);

/* ---- directory_victims.c: which slots pages that are wanted get (writer process only) ---- */

/* The next slot to be reserved where numbers decide, for that page (NULL: for none in particular), or FC_NO_SLOT. */
extern FcSlotNo fc_victims_next(const uint64 *page, int keep_percent);
extern void fc_victims_forget(void);

/* ---- directory_marks.c: how pages that were not hit yet came to flash ---- */

extern Size fc_marks_size(uint32 slots);

/* In memory that is zero. */
extern void fc_marks_init(void *memory);

/* ---- directory_keep.c: what is kept for the log ---- */

extern Size fc_keep_size(uint32 slots);

/* In memory that is zero.  Without it, nothing is kept. */
extern void fc_keep_init(void *memory, uint32 slots);
extern bool fc_keep_is_on(void);

/* May the slot have another page than its entry (K12)? */
extern bool fc_entry_doubtful(const FcEntry *e);

/* An entry is linked, or no longer.  Caller holds the partition's lock exclusively. */
extern void fc_keep_used(FcSlotNo slot, bool used);

/* Writer only: the slot may be written to. */
extern void fc_keep_taken(FcSlotNo slot);

/* Has the page been touched (fc_directory_touching())?  Caller holds the lock of its partition. */
extern bool fc_keep_touched(uint64 hash);

/* The version that a slot has until it is taken. */
#define FC_FIRST_VERSION ((uint32) (FC_START_32 << FC_VERSION_SHIFT) >> FC_VERSION_SHIFT)

/* ---- directory_slots.c: taking and freeing slots (writer process only) ---- */

/*
 * Gives a slot that is free or retired that state and the next version, which
 * is raised before anything is written: a reader that looked the slot up
 * earlier sees it (R3).
 */
extern void fc_take_slot(FcEntry *e, FcSlotState state);

/* The same where nothing is written there: its record stays right (K4). */
extern void fc_raise_slot(FcEntry *e, FcSlotState state);

/* Does the policy of its file keep the entry from being evicted? */
extern bool fc_is_kept(uint32 word, const FcEntry *e, int keep_percent);

/* Unlinks a slot in use, unless somebody else is faster. */
extern void fc_free_used(FcSlotNo slot, FcCounter why);

#endif							/* FC_DIRECTORY_INTERNAL_H */
