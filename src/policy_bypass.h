/*-------------------------------------------------------------------------
 *
 * policy_bypass.h
 *	  When a tablespace had better be read without the cache: pure functions,
 *	  as those of policy.h.
 *
 * What is compared is always two arms of a trial: reads from flash and reads
 * from the disk, of the same tablespace, made at the same time.  How they
 * come about is the business of cache_bypass.c.
 *
 * A verdict needs more than means on either side of a limit.  Devices stall,
 * and many answer at two speeds; so the distance from the limit must be three
 * times its standard error as well.  A single stall makes the error large, and
 * decides nothing.  Where the samples are not enough for a verdict, there are
 * more, up to FC_BYPASS_MOST_SAMPLES; and where these are not enough either,
 * things stay as they are.  Hence the mean, not the median: of a disk that
 * answers nine reads in 0.1 ms and the tenth in 10 ms the median tells nothing
 * of what the cache would save.
 *
 *	cached		now and then it is looked whether the disk is about as fast.
 *	half		it was: half of the blocks are read from disk,
 *	most		and then all but one in sixteen, which is nearly the load that
 *				the disk will have.  Only if it stands both in three windows
 *				each,
 *	bypassed	is the cache left out, until it is tried again:
 *	back		half of the blocks are read from flash.  Only if the disk is
 *				clearly slower in three windows it is
 *	cached		again.
 *
 * Each trial that changes nothing, and each change that did not last, doubles
 * the time until the next trial.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_POLICY_BYPASS_H
#define FC_POLICY_BYPASS_H

#include <stdbool.h>
#include <stdint.h>

/* Reads of one arm; times in ns. */
typedef struct FcArm
{
	uint64_t	n;
	double		sum;
	double		squares;
} FcArm;

static inline void
fc_arm_add(FcArm *arm, uint64_t ns)
{
	arm->n++;
	arm->sum += (double) ns;
	arm->squares += (double) ns * (double) ns;
}

static inline double
fc_arm_mean(const FcArm *arm)
{
	return arm->n > 0 ? arm->sum / (double) arm->n : 0;
}

/* The disk is as fast as flash below the first limit, and slower above the second one. */
#define FC_BYPASS_ALIKE 1.25
#define FC_BYPASS_SLOWER 1.5

typedef enum FcCompared
{
	FC_COMPARED_UNKNOWN,		/* the samples do not tell */
	FC_COMPARED_ALIKE,			/* the disk is about as fast, or faster */
	FC_COMPARED_BETWEEN,		/* neither, for sure */
	FC_COMPARED_SLOWER,			/* the disk is slower */
} FcCompared;

extern FcCompared fc_policy_compare(const FcArm *flash, const FcArm *disk);

typedef enum FcBypassState
{
	FC_BYPASS_CACHED,
	FC_BYPASS_HALF,
	FC_BYPASS_MOST,
	FC_BYPASS_BYPASSED,
	FC_BYPASS_BACK,
} FcBypassState;

/* Samples of each arm before it is looked at, and at most. */
#define FC_BYPASS_SAMPLES 512
#define FC_BYPASS_MOST_SAMPLES 16384

#define FC_BYPASS_WINDOWS 3		/* that must agree, in a row */
#define FC_BYPASS_UNDECIDED 8	/* windows that tell nothing end a trial */

#define FC_BYPASS_FIRST_PAUSE_NS UINT64_C(60000000000)
#define FC_BYPASS_LONGEST_PAUSE_NS UINT64_C(3600000000000)
#define FC_BYPASS_LONGEST_TRIAL_NS UINT64_C(60000000000)

/* What tests shorten. */
typedef struct FcBypassTimes
{
	uint32_t	samples;		/* FC_BYPASS_SAMPLES */
	uint64_t	pause;			/* FC_BYPASS_FIRST_PAUSE_NS */
	uint64_t	trial;			/* FC_BYPASS_LONGEST_TRIAL_NS */
} FcBypassTimes;

/* One tablespace.  All zeros: cached, nothing known. */
typedef struct FcBypass
{
	FcBypassState state;
	uint32_t	wanted;			/* samples of each arm until the next look; 0:
								 * none are taken */
	uint32_t	agreed;			/* windows in a row */
	uint32_t	undecided;		/* windows of this trial */
	uint64_t	since;			/* ns: begin of being cached, or bypassed */
	uint64_t	begun;			/* of this trial */
	uint64_t	due;			/* the next window, or trial, not before */
	uint64_t	pause;			/* before the last trial that was; 0: none yet */
	uint64_t	windows;		/* that are over */
	uint64_t	bypasses;		/* changes to bypassed */
} FcBypass;

/* Is it under trial? */
static inline bool
fc_policy_on_trial(const FcBypass *b)
{
	return b->state == FC_BYPASS_HALF || b->state == FC_BYPASS_MOST || b->state == FC_BYPASS_BACK;
}

/*
 * Goes on with a tablespace, whose arms have these samples.  True if they are
 * used up: new ones are to be begun with.  Also if the state has changed.
 */
extern bool fc_policy_bypass(FcBypass *b, const FcArm *flash, const FcArm *disk, uint64_t now,
							 const FcBypassTimes *times);

#endif							/* FC_POLICY_BYPASS_H */
