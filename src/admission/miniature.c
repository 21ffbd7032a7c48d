/*-------------------------------------------------------------------------
 *
 * admission/miniature.c
 *	  See miniature.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "admission/miniature.h"

#include <assert.h>
#include <string.h>

#define NONE UINT32_MAX

/* ---- keys ---- */

static uint32_t
buckets_for(uint32_t slots)
{
	uint32_t	buckets = 1;

	while (buckets < slots && buckets < UINT32_C(1) << 30)
		buckets *= 2;
	return buckets;
}

static size_t
keys_size(uint32_t slots)
{
	return slots * (sizeof(uint64_t) + sizeof(uint32_t)) + buckets_for(slots) * sizeof(uint32_t);
}

/* Returns what is left of the memory. */
static char *
keys_init(FcKeys *keys, uint32_t slots, char *memory)
{
	keys->slots = slots;
	keys->buckets = buckets_for(slots);
	keys->key = (uint64_t *) memory;
	keys->next = (uint32_t *) (memory + slots * sizeof(uint64_t));
	keys->first = keys->next + slots;
	return (char *) (keys->first + keys->buckets);
}

/* Bits that chose the page as one of the sample are the highest. */
static uint32_t *
bucket_of(const FcKeys *keys, uint64_t key)
{
	return &keys->first[(uint32_t) key & (keys->buckets - 1)];
}

/* The slot of a key, or NONE. */
static uint32_t
find(const FcKeys *keys, uint64_t key)
{
	uint32_t	i = *bucket_of(keys, key);

	while (i != 0 && keys->key[i - 1] != key)
		i = keys->next[i - 1];
	return i == 0 ? NONE : i - 1;
}

static void
insert(FcKeys *keys, uint32_t slot, uint64_t key)
{
	uint32_t   *first = bucket_of(keys, key);

	assert(key != 0 && keys->key[slot] == 0);
	keys->key[slot] = key;
	keys->next[slot] = *first;
	*first = slot + 1;
}

static void
discard(FcKeys *keys, uint32_t slot)
{
	uint32_t   *link = bucket_of(keys, keys->key[slot]);

	while (*link != slot + 1)
		link = &keys->next[*link - 1];
	*link = keys->next[slot];
	keys->key[slot] = 0;
}

/* ---- the flash cache ---- */

static size_t
aligned(size_t size)
{
	return (size + 7) / 8 * 8;
}

size_t
fc_miniature_size(uint32_t slots)
{
	return aligned(keys_size(slots)) + slots * sizeof(uint64_t) +
		aligned(fc_policy_seen_sets(slots) * sizeof(FcSeenSet)) +
		aligned(fc_policy_region_sets(slots) * sizeof(FcRegionSet)) + aligned(slots);
}

void
fc_miniature_init(FcMiniature *mini, uint32_t slots, void *memory)
{
	char	   *at = memory;

	assert(slots > 0);
	(void) keys_init(&mini->keys, slots, at);
	at += aligned(keys_size(slots));
	mini->region = (uint64_t *) at;
	at += slots * sizeof(uint64_t);
	mini->seen_sets = fc_policy_seen_sets(slots);
	mini->seen = (FcSeenSet *) at;
	at += aligned(mini->seen_sets * sizeof(FcSeenSet));
	mini->region_sets = fc_policy_region_sets(slots);
	mini->regions = (FcRegionSet *) at;
	at += aligned(mini->region_sets * sizeof(FcRegionSet));
	mini->count = (uint8_t *) at;
	mini->used = 0;
	mini->hand = 0;
	memset(&mini->age, 0, sizeof(mini->age));
	mini->planned = 0;
	mini->tries = 0;
}

static FcSeenSet *
seen_set(const FcMiniature *mini, uint64_t key)
{
	uint64_t	part = (key >> 16) & UINT32_MAX;

	return &mini->seen[part * mini->seen_sets >> 32];
}

static FcRegionSet *
region_set(const FcMiniature *mini, uint64_t region)
{
	return &mini->regions[(region >> 32) * mini->region_sets >> 32];
}

static uint16_t
region_print(uint64_t region)
{
	return (uint16_t) region != 0 ? (uint16_t) region : 1;
}

static uint32_t
region_worth(const FcMiniature *mini, uint64_t region)
{
	return fc_policy_region(region_set(mini, region), region_print(region));
}

bool
fc_miniature_read(FcMiniature *mini, uint64_t key)
{
	uint32_t	slot = find(&mini->keys, key);

	if (slot == NONE)
		return false;
	if (mini->count[slot] < FC_COUNT_MAX)
		mini->count[slot]++;
	return true;
}

/* ---- replacement ---- */

static uint32_t
turn(FcMiniature *mini)
{
	uint32_t	slot = mini->hand;

	mini->hand = slot + 1 < mini->keys.slots ? slot + 1 : 0;
	return slot;
}

static FcVictim
victim_at(const FcMiniature *mini, uint32_t slot, FcAdmission mode)
{
	FcVictim	victim = {mini->keys.key[slot] == 0, mini->count[slot] == 0, mini->count[slot]};

	if (mode == FC_ADMIT_REGION)
		victim.worth = region_worth(mini, mini->region[slot]);
	return victim;
}

/* The least of the next slots: kept until it is taken, or was refused too often. */
static FcVictim
plan(FcMiniature *mini, FcAdmission mode)
{
	FcVictim	best = {false, false, UINT32_MAX};

	if (mini->planned != 0 && mini->tries++ < FC_VICTIM_TRIES)
		return victim_at(mini, mini->planned - 1, mode);
	for (int i = 0; i < FC_VICTIM_LOOK && !best.free; i++)
	{
		uint32_t	slot = turn(mini);
		FcVictim	victim = victim_at(mini, slot, mode);

		if (i == 0 || fc_policy_is_worse(&victim, &best))
		{
			best = victim;
			mini->planned = slot + 1;
		}
	}
	mini->tries = 0;
	return best;
}

/* The hand finds a slot. */
static uint32_t
clock_slot(FcMiniature *mini)
{
	uint32_t	limit = fc_policy_hand_limit(mini->keys.slots, 1);

	for (uint32_t passed = 1;; passed++)
	{
		uint32_t	slot = turn(mini);

		if (mini->keys.key[slot] == 0 || mini->count[slot] == 0 || passed >= limit)
			return slot;
		mini->count[slot] = fc_policy_lowered(mini->count[slot]);
	}
}

/* Takes the page off the slot; it is remembered by its number. */
static void
release(FcMiniature *mini, uint32_t slot, FcAdmission mode)
{
	uint64_t	key = mini->keys.key[slot];

	if (key == 0)
		return;
	if (fc_policy_by_number(mode))
		fc_policy_remember(mode, seen_set(mini, key), fc_policy_fingerprint((uint16_t) key), mini->count[slot]);
	discard(&mini->keys, slot);
	mini->used--;
}

/* ---- what is offered ---- */

static void
age(FcMiniature *mini, FcAdmission mode)
{
	FcAged		aged = fc_policy_age(&mini->age, mini->keys.slots, mini->keys.slots, mini->seen_sets);

	/* elsewhere the hand lowers them */
	if (aged.slot >= 0 && fc_policy_by_number(mode))
		mini->count[aged.slot] /= 2;
	if (aged.set >= 0)
		fc_policy_age_seen(&mini->seen[aged.set]);
	if (aged.regions)
		fc_policy_age_regions(mini->regions, mini->region_sets);
}

bool
fc_miniature_offer(FcMiniature *mini, uint64_t key, uint64_t region, FcAdmission mode)
{
	FcSeenSet  *set = seen_set(mini, key);
	uint16_t	fingerprint = fc_policy_fingerprint((uint16_t) key);
	FcVictim	victim = {false, false, 0};
	uint32_t	worth;
	int			seen;
	uint32_t	slot;
	uint8_t		count;

	age(mini, mode);
	fc_policy_note_region(region_set(mini, region), region_print(region));
	if (find(&mini->keys, key) != NONE)
	{
		if (!fc_policy_by_number(mode))
			fc_policy_remember(mode, set, fingerprint, 0);
		return false;
	}
	seen = fc_policy_seen(set, fingerprint);
	fc_policy_remember(mode, set, fingerprint, 1);
	worth = mode == FC_ADMIT_REGION ? region_worth(mini, region) : fc_policy_seen_count(set, fingerprint);
	if (fc_policy_by_number(mode))
		victim = plan(mini, mode);
	if (!fc_policy_admit(mode, fc_policy_filling(mini->used, mini->keys.slots), seen, worth, &victim))
		return false;
	slot = fc_policy_by_number(mode) ? mini->planned - 1 : clock_slot(mini);
	mini->planned = 0;
	count = (uint8_t) fc_policy_seen_count(set, fingerprint);
	release(mini, slot, mode);
	insert(&mini->keys, slot, key);
	mini->region[slot] = region;
	mini->count[slot] = fc_policy_by_number(mode) ? count : 0;
	if (fc_policy_by_number(mode))
		fc_policy_forget(set, fingerprint);
	mini->used++;
	return true;
}

void
fc_miniature_forget(FcMiniature *mini, uint64_t key, FcAdmission mode)
{
	uint32_t	slot = find(&mini->keys, key);

	if (slot == NONE)
		return;
	fc_policy_remember(mode, seen_set(mini, key), fc_policy_fingerprint((uint16_t) key), mini->count[slot]);
	discard(&mini->keys, slot);
	mini->used--;
}

/* ---- a larger buffer pool ---- */

size_t
fc_queue_size(uint32_t slots)
{
	return (keys_size(slots) + 2 * (size_t) slots * sizeof(uint32_t) + 7) / 8 * 8;
}

void
fc_queue_init(FcQueue *queue, uint32_t slots, void *memory)
{
	assert(slots > 0);
	queue->older = (uint32_t *) keys_init(&queue->keys, slots, memory);
	queue->newer = queue->older + slots;
	queue->used = 0;
	queue->newest = 0;
	queue->oldest = 0;
	queue->free = 0;
	queue->fresh = 0;
}

static void
take_slot(FcQueue *queue, uint32_t slot)
{
	uint32_t	older = queue->older[slot];
	uint32_t	newer = queue->newer[slot];

	*(newer != 0 ? &queue->older[newer - 1] : &queue->newest) = older;
	*(older != 0 ? &queue->newer[older - 1] : &queue->oldest) = newer;
	discard(&queue->keys, slot);
	queue->older[slot] = queue->free;
	queue->free = slot + 1;
	queue->used--;
}

bool
fc_queue_take(FcQueue *queue, uint64_t key)
{
	uint32_t	slot = find(&queue->keys, key);

	if (slot == NONE)
		return false;
	take_slot(queue, slot);
	return true;
}

uint64_t
fc_queue_put(FcQueue *queue, uint64_t key)
{
	uint64_t	pushed_out = 0;
	uint32_t	slot;

	if (!fc_queue_take(queue, key) && queue->used == queue->keys.slots)
	{
		pushed_out = queue->keys.key[queue->oldest - 1];
		take_slot(queue, queue->oldest - 1);
	}
	if (queue->free != 0)
	{
		slot = queue->free - 1;
		queue->free = queue->older[slot];
	}
	else
		slot = queue->fresh++;
	insert(&queue->keys, slot, key);
	queue->older[slot] = queue->newest;
	queue->newer[slot] = 0;
	*(queue->newest != 0 ? &queue->newer[queue->newest - 1] : &queue->oldest) = slot + 1;
	queue->newest = slot + 1;
	queue->used++;
	return pushed_out;
}

bool
fc_queue_has(const FcQueue *queue, uint64_t key)
{
	return find(&queue->keys, key) != NONE;
}

/* ---- the buffer pool ---- */

size_t
fc_frames_size(uint32_t slots)
{
	size_t		keys = (keys_size(slots) + 7) / 8 * 8;

	return (2 * keys + slots * sizeof(uint32_t) + 7) / 8 * 8;
}

void
fc_frames_init(FcFrames *frames, uint32_t slots, void *memory)
{
	size_t		keys = (keys_size(slots) + 7) / 8 * 8;

	assert(slots > 0);
	(void) keys_init(&frames->by_frame, slots, memory);
	(void) keys_init(&frames->by_page, slots, (char *) memory + keys);
	frames->next_free = (uint32_t *) ((char *) memory + 2 * keys);
	frames->used = 0;
	frames->free = 0;
	frames->fresh = 0;
}

static void
empty_frame(FcFrames *frames, uint32_t slot)
{
	discard(&frames->by_frame, slot);
	discard(&frames->by_page, slot);
	frames->next_free[slot] = frames->free;
	frames->free = slot + 1;
	frames->used--;
}

bool
fc_frames_take(FcFrames *frames, uint64_t key)
{
	uint32_t	slot = find(&frames->by_page, key);

	if (slot == NONE)
		return false;
	empty_frame(frames, slot);
	return true;
}

uint64_t
fc_frames_put(FcFrames *frames, uint32_t frame, uint64_t key)
{
	uint32_t	slot = find(&frames->by_frame, (uint64_t) frame + 1);
	uint64_t	before = 0;

	if (slot != NONE)
	{
		before = frames->by_page.key[slot];
		if (before == key)
			return 0;
		empty_frame(frames, slot);
	}
	if (key == 0)
		return before;
	(void) fc_frames_take(frames, key);
	if (frames->used == frames->by_frame.slots)
		return before;
	if (frames->free != 0)
	{
		slot = frames->free - 1;
		frames->free = frames->next_free[slot];
	}
	else
		slot = frames->fresh++;
	insert(&frames->by_frame, slot, (uint64_t) frame + 1);
	insert(&frames->by_page, slot, key);
	frames->used++;
	return before;
}
