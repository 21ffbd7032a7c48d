/*-------------------------------------------------------------------------
 *
 * admission/admission.h
 *	  Which admission is in force: as set, or what the miniatures prefer.
 *
 * The writer tells what the buffer pool evicts (chooser.h), and reads the
 * answer; others read only.  The figures are those of the last reads of the
 * sample; nothing is locked, so a view may see them a moment apart.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ADMISSION_H
#define FC_ADMISSION_H

#include "types.h"

#include "policy_admission.h"

extern FcPart fc_admission_part(uint32 slots);

/* In memory that is zero. */
extern void fc_admission_shmem_init(uint32 slots);

/* The cache has so many slots now, the first device's or more.  Writer only. */
extern void fc_admission_set_slots(uint32 slots);

/* What that setting means now: never FC_ADMIT_AUTO.  Also where there is no cache. */
extern FcAdmission fc_admission_mode(FcAdmission set);

/* Writer only: the buffer pool evicts a page; `written`: changed since it was read. */
extern void fc_admission_offered(uint64 page, uint64 region, bool written);

/* One candidate; numbers are of the sample. */
typedef struct FcCandidate
{
	FcAdmission mode;
	bool		best;			/* auto would be this one */
	uint32		reads;
	uint32		hits;
	uint32		writes;
} FcCandidate;

/* False if there is no cache.  i: 0 to FC_CANDIDATES - 1. */
extern bool fc_admission_candidate(int i, FcCandidate *candidate);

#endif							/* FC_ADMISSION_H */
