/*-------------------------------------------------------------------------
 *
 * admission/chooser.h
 *	  The candidates of admission = auto beside each other, in miniature.
 *
 * Each candidate has a miniature (miniature.h), all of the same size, which are
 * given the pages of a sample of regions.  A page that the buffer pool evicts
 * stands for its read as well: it was read as often as it is evicted.  So what
 * runs ahead of the clock hand has all that is needed, and whoever reads has
 * nothing to do with it.
 *
 * Pure functions, as in miniature.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CHOOSER_H
#define FC_CHOOSER_H

#include "admission/miniature.h"

/* Slots of a miniature, at most. */
#define FC_CHOOSER_SLOTS 1024

typedef struct FcChooser
{
	uint64_t	limit;			/* regions whose mixed hash is below it are
								 * the sample */
	FcMiniature mini[FC_CANDIDATES];
	FcChoice	choice;
} FcChooser;

/* Of a cache of so many slots.  Memory of that size, aligned to 8 bytes, all zero. */
extern size_t fc_chooser_size(uint32_t slots);
extern void fc_chooser_init(FcChooser *chooser, uint32_t slots, void *memory);

/*
 * The cache has that size now, no smaller one than at first.  If the sample is
 * another one for that, they begin empty; what is in force stays.
 */
extern void fc_chooser_resize(FcChooser *chooser, uint32_t first, uint32_t slots, void *memory);

/*
 * The buffer pool has evicted a page; `written`: it was changed since it was
 * read.  Both hashes are evenly distributed.  True if another candidate is in
 * force now.
 */
extern bool fc_chooser_offer(FcChooser *chooser, uint64_t page, uint64_t region, bool written);

static inline FcAdmission
fc_chooser_mode(const FcChooser *chooser)
{
	return fc_policy_candidates[chooser->choice.in_force];
}

#endif							/* FC_CHOOSER_H */
