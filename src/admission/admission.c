/*-------------------------------------------------------------------------
 *
 * admission/admission.c
 *	  See admission.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/admission.h"
#include "admission/chooser.h"
#include "storage/shmem.h"

/* Nobody but the writer writes to it. */
static FcChooser *chooser = NULL;

/* For so many slots there is memory. */
static uint32 first_slots;

FcPart
fc_admission_part(uint32 slots)
{
	return fc_part("pg_flashcache admission", add_size(MAXALIGN(sizeof(FcChooser)), fc_chooser_size(slots)));
}

void
fc_admission_shmem_init(uint32 slots)
{
	FcPart		part = fc_admission_part(slots);
	bool		found;

	chooser = ShmemInitStruct(part.name, part.size, &found);
	first_slots = slots;
	fc_chooser_init(chooser, slots, (char *) chooser + MAXALIGN(sizeof(FcChooser)));
}

void
fc_admission_set_slots(uint32 slots)
{
	Assert(slots >= first_slots);
	fc_chooser_resize(chooser, first_slots, slots, (char *) chooser + MAXALIGN(sizeof(FcChooser)));
}

FcAdmission
fc_admission_mode(FcAdmission set)
{
	if (set != FC_ADMIT_AUTO)
		return set;
	return chooser != NULL ? fc_chooser_mode(chooser) : fc_policy_candidates[FC_FIRST_CANDIDATE];
}

void
fc_admission_offered(uint64 page, uint64 region, bool written)
{
	if (fc_chooser_offer(chooser, page, region, written))
		elog(DEBUG1, "pg_flashcache: admission = auto is now as %s", fc_policy_admission_name(fc_chooser_mode(chooser)));
}

bool
fc_admission_candidate(int i, FcCandidate *candidate)
{
	Assert(i >= 0 && i < FC_CANDIDATES);
	if (chooser == NULL)
		return false;
	candidate->mode = fc_policy_candidates[i];
	candidate->best = i == chooser->choice.in_force;
	candidate->reads = chooser->choice.reads;
	candidate->hits = chooser->choice.hits[i];
	candidate->writes = chooser->choice.writes[i];
	return true;
}
