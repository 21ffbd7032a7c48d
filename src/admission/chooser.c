/*-------------------------------------------------------------------------
 *
 * admission/chooser.c
 *	  See chooser.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "admission/chooser.h"

#include <string.h>

static uint32_t
mini_slots(uint32_t slots)
{
	return slots < FC_CHOOSER_SLOTS ? slots : FC_CHOOSER_SLOTS;
}

size_t
fc_chooser_size(uint32_t slots)
{
	return FC_CANDIDATES * fc_miniature_size(mini_slots(slots));
}

void
fc_chooser_init(FcChooser *chooser, uint32_t slots, void *memory)
{
	uint32_t	mini = mini_slots(slots);

	chooser->limit = mini < slots ? UINT64_MAX / slots * mini : UINT64_MAX;
	memset(&chooser->choice, 0, sizeof(chooser->choice));
	chooser->choice.in_force = FC_FIRST_CANDIDATE;
	for (int i = 0; i < FC_CANDIDATES; i++)
		fc_miniature_init(&chooser->mini[i], mini, (char *) memory + i * fc_miniature_size(mini));
}

void
fc_chooser_resize(FcChooser *chooser, uint32_t first, uint32_t slots, void *memory)
{
	uint32_t	in_force = chooser->choice.in_force;
	uint32_t	mini = mini_slots(first);
	uint64_t	limit = mini < slots ? UINT64_MAX / slots * mini : UINT64_MAX;

	if (limit == chooser->limit)
		return;
	memset(memory, 0, fc_chooser_size(first));
	fc_chooser_init(chooser, first, memory);
	chooser->choice.in_force = in_force;
	chooser->limit = limit;
}

bool
fc_chooser_offer(FcChooser *chooser, uint64_t page, uint64_t region, bool written)
{
	FcChoice   *choice = &chooser->choice;

	/* other bits than those that find things in a miniature */
	if (region * UINT64_C(0x9e3779b97f4a7c15) > chooser->limit)
		return false;
	page = page != 0 ? page : 1;
	choice->reads++;
	for (int i = 0; i < FC_CANDIDATES; i++)
	{
		FcMiniature *mini = &chooser->mini[i];
		FcAdmission mode = fc_policy_candidates[i];

		choice->hits[i] += fc_miniature_read(mini, page);
		if (written)
			fc_miniature_forget(mini, page, mode);
		choice->writes[i] += fc_miniature_offer(mini, page, region, mode);
	}
	return fc_policy_choose(choice);
}
