/*
 * test_admission.c
 *	  policy_admission.c and admission/chooser.c: exact answers.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "admission/chooser.h"

static void
admission(void)
{
	const FcVictim none = {false, false, 0};

	check(fc_policy_admit(FC_ADMIT_ALL, false, -1, 0, &none), "all: every page");
	check(!fc_policy_admit(FC_ADMIT_REUSE, true, -1, 0, &none), "reuse: refuses a new page even when empty");
	check(fc_policy_admit(FC_ADMIT_REUSE, true, 2, 0, &none), "reuse: admits one of the last half");
	check(!fc_policy_admit(FC_ADMIT_REUSE, true, 3, 0, &none), "reuse: none before that");
	check(fc_policy_admit(FC_ADMIT_GHOST_HALF, true, -1, 0, &none), "ghost_half: fills");
	check(!fc_policy_admit(FC_ADMIT_GHOST_HALF, false, -1, 0, &none), "ghost_half: then refuses a new page");
	check(fc_policy_admit(FC_ADMIT_GHOST_HALF, false, 2, 0, &none) && !fc_policy_admit(FC_ADMIT_GHOST_HALF, false, 3, 0, &none),
		  "ghost_half: and takes the last half");
	check(fc_policy_admit(FC_ADMIT_GHOST, true, -1, 0, &none) && !fc_policy_admit(FC_ADMIT_GHOST, false, -1, 0, &none) &&
		  fc_policy_admit(FC_ADMIT_GHOST, false, 4, 0, &none) && !fc_policy_admit(FC_ADMIT_GHOST, false, 5, 0, &none),
		  "ghost: takes twice as many");
	check(fc_policy_admit(FC_ADMIT_GHOST_TWO, true, -1, 0, &none) && !fc_policy_admit(FC_ADMIT_GHOST_TWO, false, -1, 0, &none) &&
		  fc_policy_admit(FC_ADMIT_GHOST_TWO, false, 7, 0, &none), "ghost_two: takes what was seen");

	/* 80% of the slots, no rounding, no overflow */
	check(fc_policy_filling(79, 100) && !fc_policy_filling(80, 100), "filling: below 80%");
	check(fc_policy_filling(51, 64) && !fc_policy_filling(52, 64), "filling: 51 of 64 are below, 52 are not");
	check(fc_policy_filling(UINT64_C(1717986917), UINT64_C(2147483647)) &&
		  !fc_policy_filling(UINT64_C(1717986918), UINT64_C(2147483647)), "filling: no overflow with the largest cache");
}

static void
numbers(void)
{
	FcVictim	victim = {false, false, 3};
	const FcVictim idle = {false, true, 0};
	const FcVictim free_slot = {true, true, 0};

	check(!fc_policy_admit(FC_ADMIT_PAGE, true, 0, 4, &victim), "page: one more is not enough");
	check(fc_policy_admit(FC_ADMIT_PAGE, false, -1, 5, &victim), "page: two more are");
	check(fc_policy_admit(FC_ADMIT_PAGE, false, -1, 0, &free_slot), "page: a free slot is for anybody");
	check(fc_policy_admit(FC_ADMIT_PAGE, true, -1, 1, &idle), "page: one that nobody wants is, while the cache fills");
	check(!fc_policy_admit(FC_ADMIT_PAGE, false, -1, 1, &idle), "page: but not for ever");
	victim.worth = 16;
	check(!fc_policy_admit(FC_ADMIT_REGION, false, -1, 19, &victim), "region: an eighth more and one is not enough");
	check(fc_policy_admit(FC_ADMIT_REGION, false, -1, 20, &victim), "region: one more is");
	check(fc_policy_is_worse(&free_slot, &idle) && !fc_policy_is_worse(&idle, &free_slot), "victims: a free slot before any other");
	check(fc_policy_is_worse(&idle, &victim) && !fc_policy_is_worse(&victim, &idle), "victims: the least number");
	check(!fc_policy_is_worse(&victim, &victim), "victims: of equal ones the first");
}

/* The fingerprints of a set, the latest first. */
static bool
has(const FcSeenSet *set, const int *fingerprints)
{
	for (int i = 0; i < FC_SEEN_WAYS; i++)
		if (set->page[i] >> 3 != fingerprints[i])
			return false;
	return true;
}

static void
seen(void)
{
	FcSeenSet	set = {0};

	for (uint16_t f = 1; f <= 8; f++)
		fc_policy_remember(FC_ADMIT_GHOST, &set, f, 1);
	check(has(&set, (int[]) {8, 7, 6, 5, 4, 3, 2, 1}), "seen: the latest is first");
	fc_policy_remember(FC_ADMIT_GHOST, &set, 9, 1);
	check(has(&set, (int[]) {9, 8, 7, 6, 5, 4, 3, 2}), "seen: a ninth pushes the oldest out");
	check(fc_policy_seen(&set, 1) == -1 && fc_policy_seen(&set, 2) == 7 && fc_policy_seen(&set, 9) == 0, "seen: each at its place");
	fc_policy_remember(FC_ADMIT_GHOST, &set, 4, 1);
	check(has(&set, (int[]) {4, 9, 8, 7, 6, 5, 3, 2}), "seen: one that is there becomes the latest, once");
	check(fc_policy_seen_count(&set, 4) == 2 && fc_policy_seen_count(&set, 9) == 1 && fc_policy_seen_count(&set, 1) == 0,
		  "seen: and has a higher number");
	fc_policy_remember(FC_ADMIT_GHOST, &set, 2, 0);
	check(fc_policy_seen(&set, 2) == 0 && fc_policy_seen_count(&set, 2) == 1, "seen: nothing is added to it");

	/* where numbers decide, the least makes room, the oldest of these */
	fc_policy_remember(FC_ADMIT_PAGE, &set, 3, 1);
	fc_policy_remember(FC_ADMIT_PAGE, &set, 10, 1);
	check(has(&set, (int[]) {10, 3, 2, 4, 9, 8, 7, 6}), "seen: the oldest with the least number goes");
	fc_policy_remember(FC_ADMIT_PAGE, &set, 6, 6);
	fc_policy_remember(FC_ADMIT_PAGE, &set, 11, 1);
	check(has(&set, (int[]) {11, 6, 10, 3, 2, 4, 9, 8}) && fc_policy_seen_count(&set, 6) == 7, "seen: not one with a higher number");
	fc_policy_remember(FC_ADMIT_PAGE, &set, 6, 7);
	check(fc_policy_seen_count(&set, 6) == 7, "seen: 7 is the most");
	fc_policy_forget(&set, 10);
	check(has(&set, (int[]) {6, 11, 3, 2, 4, 9, 8, 0}), "seen: one that is taken leaves");
	fc_policy_forget(&set, 10);
	check(has(&set, (int[]) {6, 11, 3, 2, 4, 9, 8, 0}), "seen: once");
	fc_policy_age_seen(&set);
	check(fc_policy_seen_count(&set, 6) == 3 && fc_policy_seen_count(&set, 4) == 1 && fc_policy_seen_count(&set, 11) == 0 &&
		  has(&set, (int[]) {6, 11, 3, 2, 4, 9, 8, 0}), "seen: ageing halves the numbers, and keeps the pages");
	check(fc_policy_fingerprint(0) == 1 && fc_policy_fingerprint(7) == 1 && fc_policy_fingerprint(0xffff) == 0x1fff,
		  "seen: a fingerprint has 13 bits and is never 0");
}

static void
regions(void)
{
	FcRegionSet set[2] = {{{0}, {0}}};

	for (uint16_t f = 1; f <= 8; f++)
		for (int i = 0; i < f; i++)
			fc_policy_note_region(&set[0], f);
	check(fc_policy_region(&set[0], 8) == 8 && fc_policy_region(&set[0], 1) == 1, "regions: counted");
	fc_policy_note_region(&set[0], 9);
	check(fc_policy_region(&set[0], 9) == 1 && fc_policy_region(&set[0], 1) == 0, "regions: the least makes room");
	for (int i = 0; i < 300; i++)
		fc_policy_note_region(&set[1], 5);
	check(fc_policy_region(&set[1], 5) == 255, "regions: 255 is the most");
	fc_policy_age_regions(set, 2);
	check(fc_policy_region(&set[0], 8) == 4 && fc_policy_region(&set[1], 5) == 127, "regions: ageing halves all of them");
	check(fc_policy_seen_sets(64) == 12 && fc_policy_seen_sets(1) == 1 && fc_policy_seen_sets(0x7fffffff) == 402653183,
		  "sets: three pages for two slots");
	check(fc_policy_region_sets(960) == 10 && fc_policy_region_sets(1) == 1, "sets: a region for every twelfth");
}

static void
ageing(void)
{
	enum
	{
		SLOTS = 32,
		SETS = 4
	};
	FcAge		age = {0};
	int			slots[SLOTS] = {0};
	int			sets[SETS] = {0};
	int			nregions = 0;
	int			wrong = 0;

	for (int offer = 0; offer < SLOTS * FC_AGE_PAGES * 2; offer++)
	{
		FcAged		aged = fc_policy_age(&age, SLOTS, SLOTS, SETS);

		if (aged.slot >= 0)
			slots[aged.slot]++;
		if (aged.set >= 0)
			sets[aged.set]++;
		nregions += aged.regions;
	}
	for (int i = 0; i < SLOTS; i++)
		wrong += slots[i] != 2;
	for (int i = 0; i < SETS; i++)
		wrong += sets[i] != 2;
	check(wrong == 0, "ageing: each slot and each set once in ten times the slots");
	check(nregions == 2 * FC_AGE_PAGES / FC_AGE_REGIONS, "ageing: regions once in eight times the slots");
	for (int offer = 0; offer < 1000 * FC_AGE_PAGES; offer++)
		(void) fc_policy_age(&age, SLOTS, 2, SETS);
	check(age.sets_due <= 2, "ageing: what is due does not pile up where few slots are there");
}

static void
hand(void)
{
	check(fc_policy_lowered(1) == 0 && fc_policy_lowered(3) == 2 && fc_policy_lowered(7) == 2, "hand: more than 3 is no more than that");
	check(fc_policy_hand_limit(64, 1) == 256, "hand: at most four laps of a small cache");
	check(fc_policy_hand_limit(64, 64) == 256, "hand: however many are wanted");
	check(fc_policy_hand_limit(1000000, 1) == 8256, "hand: 8192 and 64 for each slot wanted in a large one");
	check(fc_policy_hand_limit(1000000, 64) == 12288, "hand: also for a batch");
	check(fc_policy_hand_limit(0x7fffffff, 64) == 12288, "hand: no overflow with the largest cache");
}

static FcChoice
choice(uint32_t in_force, uint32_t best, uint32_t hits, uint32_t writes)
{
	FcChoice	c = {.reads = 4096,.in_force = in_force};

	for (int i = 0; i < FC_CANDIDATES; i++)
		c.hits[i] = 1000;
	c.hits[best] = hits;
	c.writes[best] = writes;
	return c;
}

static void
choosing(void)
{
	FcChoice	c = choice(3, 4, 1040, 0);

	check(!fc_policy_choose(&c) && c.in_force == 3, "choice: less than a point is not enough");
	c = choice(3, 4, 1042, 0);
	check(fc_policy_choose(&c) && c.in_force == 4, "choice: a point is");
	check(!fc_policy_choose(&c) && c.in_force == 4, "choice: once");
	c = choice(3, 4, 2000, 0);
	c.reads = 3072;
	check(!fc_policy_choose(&c), "choice: not after few reads");
	c = choice(3, 4, 2000, 0);
	c.reads = 4097;
	check(!fc_policy_choose(&c), "choice: not at each of them");
	c = choice(3, 0, 1042, 8);
	check(fc_policy_choose(&c), "choice: eight writes cost a hit");
	c = choice(3, 0, 1042, 16);
	check(!fc_policy_choose(&c), "choice: sixteen cost two");
	c = choice(3, 0, 1300, 1400);
	check(fc_policy_choose(&c), "choice: up to 0.35 a read");
	c = choice(3, 0, 1300, 1800);
	check(!fc_policy_choose(&c), "choice: above it, two hits each");
	c = choice(3, 4, 1000, 0);
	c.reads = 16384;
	check(!fc_policy_choose(&c) && c.reads == 8192 && c.hits[2] == 500, "choice: half of it is forgotten");
}

static uint64_t
key(uint64_t n)
{
	n = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	n = (n ^ (n >> 27)) * UINT64_C(0x94d049bb133111eb);
	return n ^ (n >> 31);
}

static uint32_t
dice(void)
{
	static uint64_t state = 42;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t) (state >> 33);
}

/* A cache of so many slots, and pages of which a fourth is asked for most of the time: runs of 32, or anywhere. */
static FcAdmission
chosen(uint32_t slots, bool neighbours)
{
	FcChooser	c;
	void	   *memory = calloc(1, fc_chooser_size(slots));
	uint32_t	pages = slots * 8;
	FcAdmission mode;

	fc_chooser_init(&c, slots, memory);
	for (uint32_t i = 0; i < slots * 200; i++)
	{
		uint32_t	page = dice() % pages;
		uint32_t	kind = neighbours ? page / FC_REGION_PAGES : page * 2654435761u >> 7;

		if (kind % 4 == 0 || dice() % 16 == 0)
			(void) fc_chooser_offer(&c, key(page), key((page / FC_REGION_PAGES) | UINT64_C(1) << 40), false);
	}
	mode = fc_chooser_mode(&c);
	free(memory);
	return mode;
}

static void
candidates(void)
{
	FcChooser	c;
	int			taken = 0;
	void	   *memory;

	check(chosen(4096, true) == FC_ADMIT_REGION, "chooser: neighbours that are alike: by region");
	check(chosen(4096, false) == FC_ADMIT_PAGE, "chooser: pages anywhere: by page");

	memory = calloc(1, fc_chooser_size(4096));
	fc_chooser_init(&c, 4096, memory);
	check(fc_chooser_mode(&c) == FC_ADMIT_PAGE, "chooser: by page at first");
	for (uint64_t region = 0; region < 4000; region++)
		(void) fc_chooser_offer(&c, key(region), key(region | UINT64_C(1) << 40), false);
	taken = c.choice.reads;
	check(taken > 850 && taken < 1150, "chooser: a quarter of the regions is a sample for a cache of four times the size");
	(void) fc_chooser_offer(&c, key(1), key(1 | UINT64_C(1) << 40), false);
	for (uint64_t region = 0; region < 4000; region++)
		(void) fc_chooser_offer(&c, key(region | UINT64_C(1) << 30), key(region | UINT64_C(1) << 40), false);
	check(c.choice.reads - taken == (uint32_t) taken || c.choice.reads - taken == (uint32_t) taken + 1,
		  "chooser: the same regions each time");

	/* devices are added: the same miniatures stand for four times as much */
	c.choice.in_force = 1;
	fc_chooser_resize(&c, 4096, 16384, memory);
	check(c.choice.in_force == 1 && c.choice.reads == 0, "chooser: another size: what is in force stays, the rest begins anew");
	for (uint64_t region = 0; region < 16000; region++)
		(void) fc_chooser_offer(&c, key(region), key(region | UINT64_C(1) << 40), false);
	check(c.choice.reads > 850 && c.choice.reads < 1150, "chooser: and a sixteenth of the regions is a sample");
	{
		uint64_t	reads = c.choice.reads;

		fc_chooser_resize(&c, 4096, 16384, memory);
		check(c.choice.reads == reads, "chooser: the same size: nothing begins anew");
	}
	fc_chooser_resize(&c, 4096, 4096, memory);
	for (uint64_t region = 0; region < 4000; region++)
		(void) fc_chooser_offer(&c, key(region), key(region | UINT64_C(1) << 40), false);
	check(c.choice.reads == (uint32_t) taken, "chooser: as at first when they are removed");
}

/* Where the page of that number would go. */
static uint32_t
promised_to(FcPromises *promises, uint64_t page, uint32_t *worth)
{
	FcPromise	promise;

	if (!fc_policy_take_promise(promises, page, &promise))
		return UINT32_MAX;
	*worth = promise.victim.worth;
	return promise.slot;
}

static void
promising(void)
{
	FcPromises	p = {0};
	uint32_t	worth = 0;

	/* a page that is worth much is wanted and does not come, one that is worth little comes */
	fc_policy_promise(&p, 100, 7, &(FcVictim) {.worth = 5});
	fc_policy_promise(&p, 200, 9, &(FcVictim) {.worth = 1});
	check(promised_to(&p, 200, &worth) == 9 && worth == 1, "promises: a page gets its own, whoever was before it and has not come");
	check(promised_to(&p, 200, &worth) == UINT32_MAX, "promises: once");
	check(promised_to(&p, 300, &worth) == UINT32_MAX, "promises: not that of another page");
	check(promised_to(&p, 100, &worth) == 7 && worth == 5, "promises: the other one's is still there");

	fc_policy_promise(&p, 100, 7, &(FcVictim) {.worth = 5});
	fc_policy_promise(&p, 100, 8, &(FcVictim) {.worth = 4});
	check(p.n == 1 && promised_to(&p, 100, &worth) == 8, "promises: a page has one, the last");
	fc_policy_promise(&p, 100, 7, &(FcVictim) {.worth = 5});
	fc_policy_promise(&p, 200, 7, &(FcVictim) {.worth = 6});
	check(promised_to(&p, 100, &worth) == UINT32_MAX && promised_to(&p, 200, &worth) == 7, "promises: a slot is promised to one page, the last");
	for (uint32_t i = 0; i <= FC_PROMISES; i++)
		fc_policy_promise(&p, i, i, &(FcVictim) {.worth = i});
	check(p.n == FC_PROMISES && promised_to(&p, 0, &worth) == UINT32_MAX && promised_to(&p, 1, &worth) == 1 &&
		  promised_to(&p, FC_PROMISES, &worth) == FC_PROMISES, "promises: the oldest is forgotten");
}

int
main(void)
{
	promising();
	admission();
	numbers();
	seen();
	regions();
	ageing();
	hand();
	choosing();
	candidates();
	return done();
}
