/*-------------------------------------------------------------------------
 *
 * directory.h
 *	  Which page lies in which slot.
 *
 * Knows nothing of devices or buffers.  All memory is shared, sized once,
 * never grows.  No function here allocates, raises, or does I/O, so each may
 * be called inside storage-manager calls and critical sections.
 *
 * Locking.  The hash table is split into partitions by the hash of the tag,
 * each with an LWLock that protects its chains, the entries linked into
 * them and its ghost sets.  These locks are leaves: nothing is acquired
 * while one is held, and no function holds two.  An entry's `word` (state,
 * version, reference count) is atomic; reference counts change without a
 * lock.  Only the writer process reserves, publishes and releases slots.
 *
 * The numbers in comments (F1, R1, I1 ...) are the steps of the protocol in
 * src/protocol.md.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_DIRECTORY_H
#define FC_DIRECTORY_H

#include "types.h"

#include "directory/directory_epochs.h"
#include "policy.h"

/* What a reader takes along from a look-up. */
typedef struct FcSlotRef
{
	FcSlotNo	slot;
	uint32		version;
	uint32		crc;
} FcSlotRef;

typedef enum FcOffer
{
	FC_OFFER_WANTED,
	FC_OFFER_EXISTS,
	FC_OFFER_NOT_USEFUL,
} FcOffer;

typedef enum FcPublish
{
	FC_PUBLISH_DONE,
	FC_PUBLISH_MODIFIED,		/* the guard no longer holds */
	FC_PUBLISH_EXISTS,			/* somebody published the page meanwhile */
} FcPublish;

/* One row of pg_flashcache_pages. */
typedef struct FcPageInfo
{
	FcTag		tag;
	uint32		refcount;
	bool		hit;			/* since it came to flash */
	bool		kept;			/* by the policy of its file */
} FcPageInfo;

/* `keep`: entries are to survive an end of the server; see the end of this file. */
extern FcPart fc_directory_part(uint32 slots, bool keep);
extern void fc_directory_shmem_init(uint32 slots, bool keep, int tranche);
extern uint32 fc_directory_slots(void);

/* Slots in use whose entries may give a hit; and all that are linked. */
extern uint32 fc_directory_used(void);
extern uint32 fc_directory_linked(void);

/*
 * Slots come in chunks (types.h), and each chunk lies on a device, or is
 * absent.  The directory knows no devices: it is told which chunks there are.
 * At first all slots are there, may be read, and may be taken.
 *
 * `n`: so many slots the chunk has, 0 if it is absent.  `open`: so many of
 * them may be taken.  `readable`: its entries may give a hit; if not they are
 * still looked after, but are as good as none to whoever has the same page to
 * fill.  Writer only, or before there are processes.
 */
extern void fc_directory_set_chunk(uint32 chunk, uint32 n, uint32 open, bool readable);

/* Slots of all chunks whose entries may give a hit. */
extern uint32 fc_directory_capacity(void);

/* Is the slot there?  The last chunk of a device may be shorter than others.  Writer only. */
extern bool fc_directory_has(FcSlotNo slot);

/* Counts the entries that may not give a hit; once a round, since they become fewer.  Writer only. */
extern void fc_directory_recount(void);

/* How many slots of the chunk are in use? */
extern uint32 fc_directory_chunk_used(uint32 chunk);

/*
 * Frees slots, each with a raised version: whoever looked one up before finds
 * that in R3.  None of them may be reserved.  Writer only.
 */
extern void fc_directory_drain(FcSlotNo first, uint32 n);

/* As fc_directory_reserve_free(), of these slots, be they open or not; `by_force`: frees some for it. */
extern uint32 fc_directory_reserve_of(FcSlotNo first, uint32 n, uint32 wanted, bool by_force, FcSlotNo *slots);

/* Those of fc_directory_used() that are of files with the policy keep; some of them dead, until the next sweep. */
extern uint32 fc_directory_kept(void);

extern uint64 fc_directory_hash(const FcTag *tag);

/*
 * For assertions.  Is this process the writer, which has called
 * fc_directory_reclaim()?  Does it hold a partition's lock?
 */
#ifdef USE_ASSERT_CHECKING
extern bool fc_directory_is_mine(void);
extern bool fc_directory_locked(void);
#endif

/* ---- invalidation ---- */

/* What is remembered of evicted pages is that of a cache of so many slots.  Writer only, while nothing is staged. */
extern void fc_directory_scale_ghosts(uint32 slots);

/* I1 for one page.  A full barrier. */
extern void fc_directory_bump_page(uint64 hash);

/*
 * I1 for a relation or a database: its entries are dead at once.  Returns how
 * many epochs have passed since the last but one sweep began, or the last
 * purge: no entry, and no guard that is still good, is older.  As long as
 * that is no more than FC_EPOCHS_UNSWEPT, none has wrapped around.
 */
extern uint32 fc_directory_bump_relation(FcRel rel);
extern uint32 fc_directory_bump_database(Oid db);

/*
 * I2: removes the entry of a page, if there is one.  The page may live on with
 * other content, so its next eviction is admitted.
 */
extern void fc_directory_remove(const FcTag *tag, uint64 hash);

/* ---- reading ---- */

/* R1: finds a current entry. */
extern bool fc_directory_lookup(const FcTag *tag, uint64 hash, FcSlotRef *ref);

/*
 * Is an entry that was looked up before still there, and current?  Without the
 * lock: for whoever holds the page's I/O by now, so that nobody changes D(p).
 */
extern bool fc_directory_still(const FcSlotRef *ref);

/* R3: does the slot still hold what was looked up? */
extern bool fc_directory_unchanged(const FcSlotRef *ref);

/* Counts a reference. */
extern void fc_directory_touch(const FcSlotRef *ref);

/*
 * How a page came to flash, as long as nobody has read it from there.  Taking
 * the mark clears it.  Hints: see directory_marks.c.
 */
typedef enum FcMark
{
	FC_MARK_NONE,
	FC_MARK_ASKED,				/* it was evicted from the buffer pool */
	FC_MARK_EXTENT,				/* as a neighbour: nobody has asked for it */
} FcMark;

extern FcMark fc_directory_take_mark(FcSlotNo slot);

/* Writer only: of a slot that it has reserved. */
extern void fc_directory_mark(FcSlotNo slot, FcMark mark);

/* One slot in so many has a mark: for how many pages one mark stands. */
extern uint32 fc_directory_mark_share(void);

/* How many pages that may be read are marked FC_MARK_EXTENT. */
extern uint32 fc_directory_unproven(void);

/* Takes a slot whose content was wrong out of service, until the next purge. */
extern void fc_directory_retire(const FcTag *tag, uint64 hash, const FcSlotRef *ref);

/* ---- filling (writer process only) ---- */

/* F1: the guard of a page.  A full barrier follows.  Other processes take it, too (E1). */
extern FcGuard fc_directory_guard(uint64 hash);

/* Which pages are wanted from now on: a candidate, or FC_ADMIT_REUSE. */
extern void fc_directory_set_admission(FcAdmission mode);

/* A hash of the page's region. */
extern uint64 fc_directory_region(const FcTag *tag);

/* Was the page offered before, in the same stay in the buffer pool?  That counts as one eviction. */
typedef enum FcLooked
{
	FC_LOOKED_NOT,
	FC_LOOKED_EXISTS,			/* it was on flash, or came there */
	FC_LOOKED_REFUSED,
	FC_LOOKED_WANTED,			/* but could not be copied or written */
} FcLooked;

/* The buffer pool evicts a page: is it wanted?  `any`: whatever is known of it. */
extern FcOffer fc_directory_offer(const FcTag *tag, uint64 hash, uint64 region, bool any, FcLooked before,
								  int keep_percent);

/*
 * F4: gives up to `wanted` slots, each unmapped and with a raised version, as a
 * rule in ascending order but for one wrap.  Returns how many.  By the hashes of
 * the pages that they are for, in this order, each gets the slot that was promised
 * to it, if one was (NULL: they are for no pages in particular).  Slots that are
 * kept are passed over, as long as they are no more than that share of all.
 */
extern uint32 fc_directory_reserve(uint32 wanted, const uint64 *pages, int keep_percent, FcSlotNo *slots);

/* F6: links a reserved slot, or releases it. */
extern FcPublish fc_directory_publish(FcSlotNo slot, const FcTag *tag, uint64 hash,
									  const FcGuard *guard, uint32 crc);

/*
 * As fc_directory_reserve(), but nothing is given up for it: so many
 * neighbouring free slots, or none if there are none near the hand.
 */
extern uint32 fc_directory_reserve_free(uint32 wanted, FcSlotNo *slots);

/*
 * A walk of the hand in search of slots for pages that nobody has asked for
 * yet: once round, and no page that is in use has to go for them.
 */
typedef struct FcLap
{
	uint32		left;			/* slots still to be looked at; 0: it is over */
	bool		replace;		/* also takes the slot of a page of another
								 * relation that was not hit since the hand
								 * last came by */
	FcMark		mark;			/* that the pages get */
	int			keep_percent;	/* as for fc_directory_reserve() */
} FcLap;

extern FcLap fc_directory_lap(bool replace, int keep_percent);

/*
 * F4 for one such page: the next slot.  FC_NO_SLOT: the lap is over, or *look
 * slots were looked at in vain.  Counts of references stay as they are.
 */
extern FcSlotNo fc_directory_reserve_in_lap(FcLap *lap, const FcTag *tag, uint32 *look);

/* Gives a reserved slot back unused. */
extern void fc_directory_release(FcSlotNo slot);

/* Does the guard hold?  The next moment it may not; only F6 is sure. */
extern bool fc_directory_guard_holds(const FcTag *tag, uint64 hash, const FcGuard *guard);

/* The same in any process, of a guard that is not old: true if it holds no more. */
extern bool fc_directory_guard_broken(const FcTag *tag, uint64 hash, const FcGuard *guard);

/* ---- erasing (writer process only) ---- */

/*
 * Z1: takes a slot that holds no current entry and is not known to be erased,
 * or, with `everything`, any.  What was there is unlinked, the version raised.
 * False: there is nothing to erase.
 */
extern bool fc_directory_take_to_erase(FcSlotNo slot, bool everything);

/* Would it be taken? */
extern bool fc_directory_needs_erasing(FcSlotNo slot, bool everything);

/* Z3: gives it back; `erased`: it holds zeros until it is reserved again. */
extern void fc_directory_give_back(FcSlotNo slot, bool erased);

/* No slot is known to be erased any more. */
extern void fc_directory_forget_erased(void);

/* ---- housekeeping (writer process only) ---- */

/*
 * Was a relation or a database invalidated since the last sweep began, so that
 * there may be dead entries?  So many that a sweep should not wait?
 */
extern bool fc_directory_sweep_wanted(void);
extern bool fc_directory_sweep_urgent(void);

/*
 * The policies of files have changed: goes over the next slots from `*at` on,
 * marks what is to be kept, and frees what is not to be on flash.  False: that
 * was the last one.
 */
extern bool fc_directory_apply_rules(FcSlotNo *at, uint32 count);

/* Begins a sweep; returns its epoch. */
extern uint32 fc_directory_sweep_begin(void);

/*
 * Frees the dead entries of the next slots from `*at` on, and dates the others
 * anew.  False: that was the end of the sweep.
 */
extern bool fc_directory_sweep(FcSlotNo *at, uint32 count, uint32 epoch);

/* To be called first of all: frees slots that a writer which died had reserved. */
extern void fc_directory_reclaim(void);

/*
 * So many slots are dealt with in one go, where all of them are to be: 1 ms if
 * none is in use, 35 to 90 ms if all of them are and go.
 */
#define FC_DIRECTORY_STEP 65536

/*
 * Forgets everything, retired slots included, from `*at` on, so many slots of
 * it.  False: that was the end of it.  Nothing may be linked meanwhile.
 */
extern bool fc_directory_purge(FcSlotNo *at, uint32 count);

/* ---- entries that survive an end of the server: src/warm.md ---- */

/* A bit for each slot, set while an entry is linked there; NULL without `keep`. */
extern const void *fc_directory_map(Size *bytes);

/* K3: until this ends, pages that are invalidated, or noted here, are touched. */
extern bool fc_directory_touching(void);
extern void fc_directory_note_touched(uint64 hash);

/* What the log has of a slot; `tag.rel` is 0 if nothing. */
typedef struct FcRecord
{
	FcTag		tag;
	uint32		crc;
} FcRecord;

/* Were entries restored from the log, in this run? */
extern bool fc_directory_has_restored(void);

/* K12: may its slot have been written after its record, without trouble of the device? */
extern bool fc_directory_doubtful(const FcSlotRef *ref);

/* The page that was restored into the slot; false if that holds it no longer.  Without a lock, so only a hint. */
extern bool fc_directory_restored_page(FcSlotNo slot, FcTag *tag);

/* K12: such a slot with wrong content is free.  And all of them, by the writer, as fc_directory_purge(). */
extern void fc_directory_drop(const FcTag *tag, uint64 hash, const FcSlotRef *ref);
extern bool fc_directory_drop_restored(FcSlotNo *at, uint32 count);

/* Relations and databases invalidated after that epoch; see directory_epochs.h.  In any process. */
extern int	fc_directory_invalidated(uint32 since, FcInvalidated *list, int max);
extern uint32 fc_directory_epoch(void);

/* Writer only, from here on. */
typedef enum FcRestore
{
	FC_RESTORE_DONE,
	FC_RESTORE_TAKEN,			/* the slot is in use */
	FC_RESTORE_TOUCHED,			/* or its relation was invalidated */
	FC_RESTORE_EXISTS,
} FcRestore;

/* K11 */
extern FcRestore fc_directory_restore(FcSlotNo slot, const FcRecord *record);

#ifdef FC_FAILPOINTS
/*
 * For benches: as if the first n slots had been restored, with pages of
 * relations that there are not.  Writer only, before the cache is active.
 */
extern void fc_directory_make_up(uint32 n);
#endif

/* Could epochs have been forgotten, or have come round, since the start? */
extern bool fc_directory_epochs_whole(void);

/* Invalidates what an earlier run has invalidated. */
extern void fc_directory_invalidate_again(const FcInvalidated *list, int n);
extern void fc_directory_touching_ends(void);

/* May restored entries be doubtful?  To be said before they are read. */
extern void fc_directory_doubt_restored(bool doubt);

/* Are there any, in this run, that may? */
extern bool fc_directory_doubts_restored(void);

/* Records of `n` slots from the first one on. */
extern void fc_directory_export(FcSlotNo first, uint32 n, FcRecord *records);

/*
 * Slots that have been taken since this was last forgotten: `most` of them are
 * listed, perhaps twice; of others it is known in which runs of `run` they lie.
 * False: no memory.  Then how many; the list; the first run from that one on
 * that has any besides, or the number of runs.  All that may be in use can be
 * said to be taken.
 */
extern bool fc_directory_track(uint32 run, uint32 most);
extern uint32 fc_directory_taken(void);
extern const FcSlotNo *fc_directory_listed(uint32 *n);
extern void fc_directory_forget_listed(void);
extern uint32 fc_directory_run_taken(uint32 from);
extern void fc_directory_forget_run(uint32 run);
extern void fc_directory_taken_all(void);
extern void fc_directory_forget_taken(void);

extern FcSlotNo fc_directory_hand(void);
extern void fc_directory_set_hand(FcSlotNo slot);

/* The epoch in which the last sweep began that has ended: what was dead then is not linked any more. */
extern uint32 fc_directory_swept(void);

/* ---- inspection ---- */

/* Of a slot that is looked at soon: memory is slow, and looks at slots here and there would wait for it one by one. */
extern void fc_directory_prefetch(FcSlotNo slot);

/* What a slot holds; false if nothing. */
extern bool fc_directory_page(FcSlotNo slot, FcPageInfo *info);

#endif							/* FC_DIRECTORY_H */
