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
 * src/README.md.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_DIRECTORY_H
#define FC_DIRECTORY_H

#include "types.h"

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
} FcPageInfo;

extern Size fc_directory_shmem_size(uint32 slots);
extern int	fc_directory_locks(void);
extern void fc_directory_shmem_init(uint32 slots, const char *tranche);
extern uint32 fc_directory_slots(void);
extern uint32 fc_directory_used(void);

extern uint64 fc_directory_hash(const FcTag *tag);

/* ---- invalidation ---- */

/* I1 for one page.  A full barrier. */
extern void fc_directory_bump_page(uint64 hash);

/*
 * I1 for a relation or a database: its entries are dead at once.  Returns how
 * many epochs have passed since the last but one sweep began, or the last
 * purge: no entry, and no guard that is still good, is older.  As long as
 * that is no more than FC_EPOCHS_UNSWEPT, none has come round.
 */
extern uint32 fc_directory_bump_relation(FcRel rel);
extern uint32 fc_directory_bump_database(Oid db);

/* A quarter of the range of an epoch. */
#ifndef FC_EPOCHS_UNSWEPT
#define FC_EPOCHS_UNSWEPT (UINT32_C(1) << 30)
#endif

/*
 * I2: removes the entry of a page, if there is one.  `modified` says that
 * the page lives on with other content: its next eviction is then admitted.
 */
extern bool fc_directory_remove(const FcTag *tag, uint64 hash, bool modified);

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

/* Takes a slot whose content was wrong out of service, until the next purge. */
extern void fc_directory_retire(const FcTag *tag, uint64 hash, const FcSlotRef *ref);

/* ---- filling (writer process only) ---- */

/* F1: the guard of a page.  A full barrier follows.  Other processes take it, too (E1). */
extern FcGuard fc_directory_guard(uint64 hash);

extern FcOffer fc_directory_offer(const FcTag *tag, uint64 hash, FcAdmission mode);

/*
 * F4: gives up to `wanted` slots, in ascending order but for one wrap, each
 * unmapped and with a raised version.  Returns how many.
 */
extern uint32 fc_directory_reserve(uint32 wanted, FcSlotNo *slots);

/* F6: links a reserved slot, or releases it. */
extern FcPublish fc_directory_publish(FcSlotNo slot, const FcTag *tag, uint64 hash,
									  const FcGuard *guard, uint32 crc);

/* Gives a reserved slot back unused. */
extern void fc_directory_release(FcSlotNo slot);

/* Does the guard hold?  The next moment it may not; only F6 is sure. */
extern bool fc_directory_guard_holds(const FcTag *tag, uint64 hash, const FcGuard *guard);

/* ---- erasing (writer process only) ---- */

/*
 * Z1: takes a slot that holds no current entry and is not known to be erased,
 * or, with `everything`, any.  What was there is unlinked, the version raised.
 * False: there is nothing to erase.
 */
extern bool fc_directory_take_to_erase(FcSlotNo slot, bool everything);

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

/* Begins a sweep; returns its epoch. */
extern uint32 fc_directory_sweep_begin(void);

/*
 * Frees the dead entries of the next slots from `*at` on, and dates the others
 * anew.  False: that was the end of the sweep.
 */
extern bool fc_directory_sweep(FcSlotNo *at, uint32 count, uint32 epoch);

/* Frees slots that a writer which died had reserved. */
extern void fc_directory_reclaim(void);

/* Forgets everything, retired slots included. */
extern void fc_directory_purge(void);

/* ---- inspection ---- */

/* What a slot holds; false if nothing. */
extern bool fc_directory_page(FcSlotNo slot, FcPageInfo *info);

#endif							/* FC_DIRECTORY_H */
