/*-------------------------------------------------------------------------
 *
 * admission/miniature.h
 *	  Caches in miniature: pure functions.
 *
 * A cache of a thousand slots that is given one page in a thousand behaves as
 * one of a million slots that is given all of them, if pages are chosen by a
 * hash of their names, so that all reads of a page are seen or none.
 * (Waldspurger, Saemundsson, Ahmad, Park: Cache Modeling and Optimization
 * using Miniature Simulations, USENIX ATC 2017.)
 *
 * Three kinds.  A *miniature* is the flash cache: admission and replacement
 * are policy_admission.c's, as in the directory, with what is remembered for
 * each slot.  Where regions are to be told apart, they must be in the sample as
 * a whole, or not at all.  A *queue* holds the keys that were put in
 * last; as a cache in which a hit takes the key out, and into which goes what
 * the buffer pool evicts, it is what a larger buffer pool would have.
 * *Frames* are the buffer pool itself: which page of the sample is in which
 * frame, so that a page that comes to a frame tells which one has left it.
 *
 * Nothing here allocates, locks, waits or reads a clock.  Keys are hashes of
 * 64 bits, which are evenly distributed; 0 is none.  Whoever owns the memory
 * keeps others away from it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_MINIATURE_H
#define FC_MINIATURE_H

#include "policy_admission.h"

#include <stddef.h>

/* Which keys are where: chains in an array beside the keys. */
typedef struct FcKeys
{
	uint32_t	slots;
	uint32_t	buckets;		/* a power of two */
	uint64_t   *key;			/* 0 = free */
	uint32_t   *next;			/* of a chain, from 1; 0 = its end */
	uint32_t   *first;			/* of each bucket */
} FcKeys;

typedef struct FcMiniature
{
	FcKeys		keys;
	uint32_t	used;
	uint32_t	hand;
	uint32_t	seen_sets;
	uint32_t	region_sets;
	FcSeenSet  *seen;
	FcRegionSet *regions;
	uint64_t   *region;			/* of each slot */
	uint8_t    *count;
	FcAge		age;
	uint32_t	planned;		/* victim, a slot from 1; 0 = none */
	uint32_t	tries;			/* so often it was not taken */
} FcMiniature;

typedef struct FcQueue
{
	FcKeys		keys;
	uint32_t	used;
	uint32_t	newest;			/* slots from 1; 0 = none */
	uint32_t	oldest;
	uint32_t	free;			/* chained by `older` */
	uint32_t	fresh;			/* slots never used begin here */
	uint32_t   *older;
	uint32_t   *newer;
} FcQueue;

typedef struct FcFrames
{
	FcKeys		by_frame;		/* number of a frame, plus 1 */
	FcKeys		by_page;		/* the same slots, by page */
	uint32_t	used;
	uint32_t	free;			/* slots from 1, chained by `next_free` */
	uint32_t	fresh;			/* slots never used begin here */
	uint32_t   *next_free;
} FcFrames;

/* At least one slot.  Memory of that size, aligned to 8 bytes, all zero. */
extern size_t fc_miniature_size(uint32_t slots);
extern void fc_miniature_init(FcMiniature *mini, uint32_t slots, void *memory);

extern size_t fc_queue_size(uint32_t slots);
extern void fc_queue_init(FcQueue *queue, uint32_t slots, void *memory);

/* A page is read: is it there? */
extern bool fc_miniature_read(FcMiniature *mini, uint64_t key);

/* The buffer pool evicts a page of that region: is it written to flash? */
extern bool fc_miniature_offer(FcMiniature *mini, uint64_t key, uint64_t region, FcAdmission mode);

/* A page was changed and written: what flash has is outdated. */
extern void fc_miniature_forget(FcMiniature *mini, uint64_t key, FcAdmission mode);

/* Puts a key in as the newest, also if it is there; returns what is pushed out, or 0. */
extern uint64_t fc_queue_put(FcQueue *queue, uint64_t key);

/* Takes a key out; was it there? */
extern bool fc_queue_take(FcQueue *queue, uint64_t key);
extern bool fc_queue_has(const FcQueue *queue, uint64_t key);

/* Slots are the pages that there can be; of others nothing is known. */
extern size_t fc_frames_size(uint32_t slots);
extern void fc_frames_init(FcFrames *frames, uint32_t slots, void *memory);

/*
 * The page is in the frame now, and in no other one; 0 is one that is not of
 * the sample.  Returns the page that was there before, or 0.
 */
extern uint64_t fc_frames_put(FcFrames *frames, uint32_t frame, uint64_t key);

/* The page is in no frame any more; was it in one? */
extern bool fc_frames_take(FcFrames *frames, uint64_t key);

#endif							/* FC_MINIATURE_H */
