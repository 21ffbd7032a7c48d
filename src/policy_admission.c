/*-------------------------------------------------------------------------
 *
 * policy_admission.c
 *	  See policy_admission.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "policy_admission.h"

#include <string.h>

#define NUMBER_MASK 0x7
#define NUMBER_BITS 3

/*
 * A choice rests on so many reads, is looked at after so many, and forgets half
 * of them after so many.
 */
#define CHOICE_LEAST 4096
#define CHOICE_STEP 1024
#define CHOICE_MOST 16384

/* Another candidate must be better by this; a write is worth so much of a hit, and above the last figure much more. */
#define CHOICE_MARGIN 0.01
#define WRITE_COST (1.0 / 8)
#define WRITES_BEARABLE 0.35
#define WRITE_COST_ABOVE 2.0

const FcAdmission fc_policy_candidates[FC_CANDIDATES] = {
	FC_ADMIT_ALL, FC_ADMIT_GHOST_HALF, FC_ADMIT_GHOST, FC_ADMIT_GHOST_TWO, FC_ADMIT_PAGE, FC_ADMIT_REGION
};

const char *
fc_policy_admission_name(FcAdmission mode)
{
	static const char *const names[] = {"auto", "all", "reuse", "ghost_half", "ghost", "ghost_two", "page", "region"};

	return names[mode];
}

/* ---- pages ---- */

int
fc_policy_seen(const FcSeenSet *set, uint16_t fingerprint)
{
	for (int i = 0; i < FC_SEEN_WAYS; i++)
		if (set->page[i] >> NUMBER_BITS == fingerprint)
			return i;
	return -1;
}

uint32_t
fc_policy_seen_count(const FcSeenSet *set, uint16_t fingerprint)
{
	int			at = fc_policy_seen(set, fingerprint);

	return at < 0 ? 0 : set->page[at] & NUMBER_MASK;
}

/* The one that makes room. */
static int
least(FcAdmission mode, const FcSeenSet *set)
{
	int			at = FC_SEEN_WAYS - 1;

	if (!fc_policy_by_number(mode))
		return at;
	for (int i = at; i >= 0; i--)
		if ((set->page[i] & NUMBER_MASK) < (set->page[at] & NUMBER_MASK))
			at = i;
	return at;
}

void
fc_policy_remember(FcAdmission mode, FcSeenSet *set, uint16_t fingerprint, uint32_t add)
{
	int			at = fc_policy_seen(set, fingerprint);
	uint32_t	count = add + fc_policy_seen_count(set, fingerprint);

	if (at < 0)
		at = least(mode, set);
	memmove(&set->page[1], &set->page[0], at * sizeof(set->page[0]));
	set->page[0] = fingerprint << NUMBER_BITS | (count < FC_COUNT_MAX ? count : FC_COUNT_MAX);
}

void
fc_policy_forget(FcSeenSet *set, uint16_t fingerprint)
{
	int			at = fc_policy_seen(set, fingerprint);

	if (at < 0)
		return;
	memmove(&set->page[at], &set->page[at + 1], (FC_SEEN_WAYS - 1 - at) * sizeof(set->page[0]));
	set->page[FC_SEEN_WAYS - 1] = 0;
}

void
fc_policy_age_seen(FcSeenSet *set)
{
	for (int i = 0; i < FC_SEEN_WAYS; i++)
		set->page[i] = (set->page[i] & ~NUMBER_MASK) | (set->page[i] & NUMBER_MASK) / 2;
}

/* ---- regions ---- */

uint32_t
fc_policy_region(const FcRegionSet *set, uint16_t fingerprint)
{
	for (int i = 0; i < FC_REGION_WAYS; i++)
		if (set->region[i] == fingerprint)
			return set->count[i];
	return 0;
}

void
fc_policy_note_region(FcRegionSet *set, uint16_t fingerprint)
{
	int			at = FC_REGION_WAYS - 1;
	uint32_t	count = 0;
	int			i;

	for (i = 0; i < FC_REGION_WAYS && set->region[i] != fingerprint; i++)
		;
	if (i < FC_REGION_WAYS)
	{
		at = i;
		count = set->count[i];
	}
	else
		for (i = at; i >= 0; i--)
			if (set->count[i] < set->count[at])
				at = i;
	memmove(&set->region[1], &set->region[0], at * sizeof(set->region[0]));
	memmove(&set->count[1], &set->count[0], at * sizeof(set->count[0]));
	set->region[0] = fingerprint;
	set->count[0] = count < UINT8_MAX ? count + 1 : UINT8_MAX;
}

void
fc_policy_age_regions(FcRegionSet *sets, uint32_t n)
{
	for (uint32_t set = 0; set < n; set++)
		for (int i = 0; i < FC_REGION_WAYS; i++)
			sets[set].count[i] /= 2;
}

uint32_t
fc_policy_seen_sets(uint32_t slots)
{
	uint32_t	sets = (uint32_t) ((uint64_t) slots * 3 / 2 / FC_SEEN_WAYS);

	return sets > 0 ? sets : 1;
}

uint32_t
fc_policy_region_sets(uint32_t slots)
{
	uint32_t	sets = slots / 12 / FC_REGION_WAYS;

	return sets > 0 ? sets : 1;
}

/* ---- ageing ---- */

FcAged
fc_policy_age(FcAge *age, uint32_t slots, uint32_t there, uint32_t seen_sets)
{
	FcAged		aged = {-1, -1, false};

	if (++age->regions >= (uint64_t) there * FC_AGE_REGIONS)
	{
		age->regions = 0;
		aged.regions = true;
	}
	if (++age->rest < FC_AGE_PAGES)
		return aged;
	age->rest = 0;
	aged.slot = age->slot;
	age->slot = age->slot + 1 < slots ? age->slot + 1 : 0;
	age->sets_due += seen_sets;
	if (age->sets_due >= there)
	{
		/* one at a time: more than that is not made up for */
		age->sets_due = age->sets_due < 2 * (uint64_t) there ? age->sets_due - there : there;
		aged.set = age->set;
		age->set = age->set + 1 < seen_sets ? age->set + 1 : 0;
	}
	return aged;
}

/* ---- admission ---- */

bool
fc_policy_admit(FcAdmission mode, bool filling, int seen, uint32_t worth,
				const FcVictim *victim)
{
	switch (mode)
	{
		case FC_ADMIT_AUTO:
		case FC_ADMIT_ALL:
			return true;
		case FC_ADMIT_REUSE:
			return seen >= 0 && seen < FC_SEEN_HALF;
		case FC_ADMIT_GHOST_HALF:
			return filling || (seen >= 0 && seen < FC_SEEN_HALF);
		case FC_ADMIT_GHOST:
			return filling || (seen >= 0 && seen < FC_SEEN_ONE);
		case FC_ADMIT_GHOST_TWO:
			return filling || seen >= 0;
		case FC_ADMIT_PAGE:
		case FC_ADMIT_REGION:
			break;
	}
	if (victim->free || (filling && victim->idle))
		return true;
	return worth > victim->worth + 1 + (mode == FC_ADMIT_REGION ? victim->worth / 8 : 0);
}

static void
forget_promise(FcPromises *promises, uint32_t i)
{
	promises->n--;
	memmove(&promises->promise[i], &promises->promise[i + 1], (promises->n - i) * sizeof(FcPromise));
}

void
fc_policy_promise(FcPromises *promises, uint64_t page, uint32_t slot, const FcVictim *victim)
{
	FcPromise  *promise;

	for (uint32_t i = promises->n; i-- > 0;)
		if (promises->promise[i].page == page || promises->promise[i].slot == slot)
			forget_promise(promises, i);
	if (promises->n == FC_PROMISES)
		forget_promise(promises, 0);
	promise = &promises->promise[promises->n++];
	promise->page = page;
	promise->slot = slot;
	promise->victim = *victim;
}

bool
fc_policy_take_promise(FcPromises *promises, uint64_t page, FcPromise *promise)
{
	for (uint32_t i = 0; i < promises->n; i++)
		if (promises->promise[i].page == page)
		{
			*promise = promises->promise[i];
			forget_promise(promises, i);
			return true;
		}
	return false;
}

uint32_t
fc_policy_hand_limit(uint32_t slots, uint32_t wanted)
{
	uint64_t	lap = (uint64_t) slots * (FC_CLOCK_MAX + 1);
	uint64_t	limit = 8192 + (uint64_t) wanted * 64;

	return (uint32_t) (limit < lap ? limit : lap);
}

/* ---- choosing a candidate ---- */

static double
score(const FcChoice *choice, int i)
{
	double		hits = (double) choice->hits[i] / choice->reads;
	double		writes = (double) choice->writes[i] / choice->reads;

	hits -= writes * WRITE_COST;
	return writes > WRITES_BEARABLE ? hits - (writes - WRITES_BEARABLE) * WRITE_COST_ABOVE : hits;
}

bool
fc_policy_choose(FcChoice *choice)
{
	uint32_t	best = choice->in_force;
	bool		changed;

	if (choice->reads < CHOICE_LEAST || choice->reads % CHOICE_STEP != 0)
		return false;
	for (uint32_t i = 0; i < FC_CANDIDATES; i++)
		if (score(choice, i) > score(choice, best))
			best = i;
	changed = best != choice->in_force && score(choice, best) > score(choice, choice->in_force) + CHOICE_MARGIN;
	if (changed)
		choice->in_force = best;
	if (choice->reads >= CHOICE_MOST)
	{
		choice->reads /= 2;
		for (int i = 0; i < FC_CANDIDATES; i++)
		{
			choice->hits[i] /= 2;
			choice->writes[i] /= 2;
		}
	}
	return changed;
}
