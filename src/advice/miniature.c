/*-------------------------------------------------------------------------
 *
 * advice/miniature.c
 *	  See miniature.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "advice/miniature.h"

#include <assert.h>

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

static uint32_t
ghost_sets_for(uint32_t slots)
{
	uint32_t	sets = slots / 2 / FC_GHOST_WAYS;

	return sets > 0 ? sets : 1;
}

size_t
fc_miniature_size(uint32_t slots)
{
	size_t		size = keys_size(slots) + (size_t) ghost_sets_for(slots) * FC_GHOST_WAYS * sizeof(uint16_t) + slots;

	return (size + 7) / 8 * 8;
}

void
fc_miniature_init(FcMiniature *mini, uint32_t slots, void *memory)
{
	assert(slots > 0);
	mini->ghosts = (uint16_t *) keys_init(&mini->keys, slots, memory);
	mini->ghost_sets = ghost_sets_for(slots);
	mini->count = (uint8_t *) (mini->ghosts + (size_t) mini->ghost_sets * FC_GHOST_WAYS);
	mini->used = 0;
	mini->hand = 0;
}

static uint16_t *
ghosts_of(const FcMiniature *mini, uint64_t key)
{
	uint64_t	part = (key >> 16) & UINT32_MAX;

	return &mini->ghosts[(part * mini->ghost_sets >> 32) * FC_GHOST_WAYS];
}

/* 0 is an empty way. */
static uint16_t
fingerprint_of(uint64_t key)
{
	uint16_t	fingerprint = (uint16_t) key;

	return fingerprint != 0 ? fingerprint : 1;
}

bool
fc_miniature_read(FcMiniature *mini, uint64_t key)
{
	uint32_t	slot = find(&mini->keys, key);

	if (slot == NONE)
		return false;
	if (mini->count[slot] < FC_REFCOUNT_MAX)
		mini->count[slot]++;
	return true;
}

/* The hand finds a slot; what is there goes. */
static uint32_t
reserve(FcMiniature *mini)
{
	uint32_t	limit = fc_policy_hand_limit(mini->keys.slots, 1);

	for (uint32_t passed = 1;; passed++)
	{
		uint32_t	slot = mini->hand;

		mini->hand = slot + 1 < mini->keys.slots ? slot + 1 : 0;
		if (mini->keys.key[slot] == 0)
			return slot;
		if (mini->count[slot] == 0 || passed >= limit)
		{
			discard(&mini->keys, slot);
			mini->used--;
			return slot;
		}
		mini->count[slot]--;
	}
}

bool
fc_miniature_offer(FcMiniature *mini, uint64_t key, FcAdmission mode)
{
	uint16_t   *set = ghosts_of(mini, key);
	uint32_t	slot;

	if (find(&mini->keys, key) != NONE)
	{
		(void) fc_policy_remember(set, fingerprint_of(key));
		return false;
	}
	if (!fc_policy_admit(mode, mini->used, mini->keys.slots, set, fingerprint_of(key)))
		return false;
	slot = reserve(mini);
	insert(&mini->keys, slot, key);
	mini->count[slot] = 0;
	mini->used++;
	return true;
}

void
fc_miniature_forget(FcMiniature *mini, uint64_t key)
{
	uint32_t	slot = find(&mini->keys, key);

	if (slot == NONE)
		return;
	discard(&mini->keys, slot);
	mini->used--;
	(void) fc_policy_remember(ghosts_of(mini, key), fingerprint_of(key));
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
