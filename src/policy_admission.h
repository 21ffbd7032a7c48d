/*-------------------------------------------------------------------------
 *
 * policy_admission.h
 *	  Which evicted pages are worth a slot, and which page in a slot is worth
 *	  least: pure functions, as in policy.h.
 *
 * What is remembered:
 *
 *	seen	pages evicted from the buffer pool lately that are not on flash:
 *			three fingerprints for two slots, in sets of 8, the latest first, each with
 *			the number of its evictions, 3 bits.  (Ghost lists: Megiddo & Modha,
 *			ARC, FAST 2003.  Which is kept when a set is full depends on the
 *			candidate: the latest, or those with the highest numbers.)
 *	count	the same number for a page that is on flash, in its slot: its
 *			evictions before, and its hits.
 *	regions	evictions of 32 neighbouring pages together, on flash or not: a
 *			fingerprint for every twelfth slot.  Few touches a page are all
 *			there is to learn from where a database is large; neighbours share
 *			what they know.
 *
 * All of these age, so that what was wanted once does not stay for ever:
 * numbers of pages are halved one after the other, all of them once while ten
 * times as many pages are offered as there are slots; those of regions all at
 * once, since they are compared more finely.  Where numbers do not decide, those
 * in slots are the clock's, which lowers them.
 *
 * The candidates of admission = auto:
 *
 *	all		every page; the clock hand finds the victim.
 *	ghost_half	a page that was evicted before, within as many evictions as
 *			half of the slots, or about that; the clock.
 *	ghost	the same within about as many as there are slots.
 *	ghost_two	the same within one and a half times as many.
 *	page	a page whose number is higher than that of the victim, the least of
 *			the next 32 slots.  (TinyLFU: Einziger, Friedman & Manes, ACM ToS
 *			2017.)
 *	region	the same with numbers of regions.
 *
 * Each of them, but for `all`, wants a margin: a page that is as good as the one
 * that it would replace is not worth a write.  Which is best depends on the
 * load; the miniatures (admission/) tell, and fc_policy_choose() decides.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_POLICY_ADMISSION_H
#define FC_POLICY_ADMISSION_H

#include <stdbool.h>
#include <stdint.h>

/* Until this share of the slots is used, most candidates take every page. */
#define FC_FILL_PERCENT 80

typedef enum FcAdmission
{
	FC_ADMIT_AUTO,				/* the candidate that the miniatures prefer */
	FC_ADMIT_ALL,
	FC_ADMIT_REUSE,				/* as ghost_half, but not even free slots for
								 * other pages */
	FC_ADMIT_GHOST_HALF,
	FC_ADMIT_GHOST,
	FC_ADMIT_GHOST_TWO,
	FC_ADMIT_PAGE,
	FC_ADMIT_REGION,
} FcAdmission;

static inline bool
fc_policy_filling(uint64_t used, uint64_t slots)
{
	return used * 100 < slots * FC_FILL_PERCENT;
}

/* Is it the number of pages, or of regions, that decides? */
static inline bool
fc_policy_by_number(FcAdmission mode)
{
	return mode == FC_ADMIT_PAGE || mode == FC_ADMIT_REGION;
}

/* ---- pages ---- */

#define FC_COUNT_MAX 7
#define FC_SEEN_WAYS 8

/* The latest ones: as many pages as half of the slots, as the slots. */
#define FC_SEEN_HALF 3
#define FC_SEEN_ONE 5

/* Fingerprint of 13 bits, number of 3; 0 is none. */
typedef struct FcSeenSet
{
	uint16_t	page[FC_SEEN_WAYS];
} FcSeenSet;

/* From any bits of a hash that do not choose the set.  Never 0. */
static inline uint16_t
fc_policy_fingerprint(uint16_t bits)
{
	return (bits >> 3) != 0 ? bits >> 3 : 1;
}

/* Where in the set, 0 the latest; -1: not there. */
extern int	fc_policy_seen(const FcSeenSet *set, uint16_t fingerprint);

/* Its number; 0 as well for one that is not there. */
extern uint32_t fc_policy_seen_count(const FcSeenSet *set, uint16_t fingerprint);

/* Makes it the latest, and adds to its number. */
extern void fc_policy_remember(FcAdmission mode, FcSeenSet *set, uint16_t fingerprint, uint32_t add);

/* It got a slot: there is its number now. */
extern void fc_policy_forget(FcSeenSet *set, uint16_t fingerprint);
extern void fc_policy_age_seen(FcSeenSet *set);

/* ---- regions ---- */

#define FC_REGION_PAGES 32
#define FC_REGION_WAYS 8

typedef struct FcRegionSet
{
	uint16_t	region[FC_REGION_WAYS]; /* fingerprints, the latest first; 0 =
										 * none */
	uint8_t		count[FC_REGION_WAYS];
} FcRegionSet;

extern uint32_t fc_policy_region(const FcRegionSet *set, uint16_t fingerprint);
extern void fc_policy_note_region(FcRegionSet *set, uint16_t fingerprint);
extern void fc_policy_age_regions(FcRegionSet *sets, uint32_t n);

/* Sets for so many slots, at least 1. */
extern uint32_t fc_policy_seen_sets(uint32_t slots);
extern uint32_t fc_policy_region_sets(uint32_t slots);

/* ---- ageing ---- */

#define FC_AGE_PAGES 10
#define FC_AGE_REGIONS 8

/* Where ageing has come to.  All zeros to begin with. */
typedef struct FcAge
{
	uint32_t	rest;			/* offers since the last slot */
	uint32_t	slot;			/* the next ones */
	uint32_t	set;
	uint64_t	sets_due;		/* in units of 1 / slots that there are */
	uint64_t	regions;		/* offers since regions were halved */
} FcAge;

/* What has to be halved after an offer; -1: none. */
typedef struct FcAged
{
	int64_t		slot;
	int64_t		set;
	bool		regions;
} FcAged;

/* `there`: of the slots, those that there are; the caller passes over the others. */
extern FcAged fc_policy_age(FcAge *age, uint32_t slots, uint32_t there, uint32_t seen_sets);

/* ---- admission ---- */

/* Slots of which the worst is taken, where numbers decide. */
#define FC_VICTIM_LOOK 32

/* A victim that is refused so often is looked for anew: others may be worth less by now. */
#define FC_VICTIM_TRIES 16

typedef struct FcVictim
{
	bool		free;			/* or its page is dead */
	bool		idle;			/* its own number is 0 */
	uint32_t	worth;			/* the number that decides */
} FcVictim;

static inline bool
fc_policy_is_worse(const FcVictim *a, const FcVictim *b)
{
	return a->free != b->free ? a->free : a->worth < b->worth;
}

/*
 * Should a page be taken?  It was seen at that place before (or not, -1), and is
 * worth so much.  The victim is looked at only where numbers decide.
 */
extern bool fc_policy_admit(FcAdmission mode, bool filling, int seen, uint32_t worth,
							const FcVictim *victim);

/*
 * A slot is promised to the page that is wanted in its place, and is for no other
 * page, which may be worth less than what is there.  A page has one promise, a
 * slot was promised to one page; of more promises the oldest is forgotten, since
 * its page may never come.
 */
#define FC_PROMISES 64

typedef struct FcPromise
{
	uint64_t	page;			/* its hash */
	uint32_t	slot;
	FcVictim	victim;			/* what the slot was then */
} FcPromise;

typedef struct FcPromises
{
	uint32_t	n;
	FcPromise	promise[FC_PROMISES];	/* in the order in which they were
										 * made */
} FcPromises;

extern void fc_policy_promise(FcPromises *promises, uint64_t page, uint32_t slot, const FcVictim *victim);

/* What was promised to the page, once; false if nothing was. */
extern bool fc_policy_take_promise(FcPromises *promises, uint64_t page, FcPromise *promise);

/* ---- the clock ---- */

/*
 * What the hand leaves of a number that is not 0: more than 3 is no more than
 * that.  (Corbato's CLOCK; the count as in PostgreSQL's sweep.)
 */
#define FC_CLOCK_MAX 3

static inline uint32_t
fc_policy_lowered(uint32_t count)
{
	return count < FC_CLOCK_MAX ? count - 1 : FC_CLOCK_MAX - 1;
}

/*
 * How many slots the hand may pass in search of `wanted` victims before it
 * takes slots regardless of their count: bounds the writer's work.
 */
extern uint32_t fc_policy_hand_limit(uint32_t slots, uint32_t wanted);

/* ---- choosing a candidate ---- */

#define FC_CANDIDATES 6

extern const FcAdmission fc_policy_candidates[FC_CANDIDATES];
extern const char *fc_policy_admission_name(FcAdmission mode);

/* Until the miniatures know better. */
#define FC_FIRST_CANDIDATE 4	/* page */

/* What the miniatures have seen lately.  All zeros to begin with, but for what is in force. */
typedef struct FcChoice
{
	uint32_t	reads;
	uint32_t	hits[FC_CANDIDATES];
	uint32_t	writes[FC_CANDIDATES];
	uint32_t	in_force;		/* of fc_policy_candidates */
} FcChoice;

/*
 * After a read: another candidate is in force when it has been better by a point
 * of the hit ratio, less what its writes cost.  True if it has changed.
 */
extern bool fc_policy_choose(FcChoice *choice);

#endif							/* FC_POLICY_ADMISSION_H */
