/*-------------------------------------------------------------------------
 *
 * policy_bypass.c
 *	  See policy_bypass.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "policy_bypass.h"

/* Standard errors squared that a verdict must be away from its limit. */
#define SURE 9.0

/* Of the mean, squared. */
static double
error_of(const FcArm *arm)
{
	double		mean = fc_arm_mean(arm);
	double		variance = arm->squares / (double) arm->n - mean * mean;

	return variance > 0 ? variance / (double) arm->n : 0;
}

/* Is the disk's mean below so many times flash's (-1), above (1), or can't that be told (0)? */
static int
against(const FcArm *flash, const FcArm *disk, double limit)
{
	double		distance = fc_arm_mean(disk) - limit * fc_arm_mean(flash);
	double		error = error_of(disk) + limit * limit * error_of(flash);

	if (distance * distance <= SURE * error)
		return 0;
	return distance < 0 ? -1 : 1;
}

FcCompared
fc_policy_compare(const FcArm *flash, const FcArm *disk)
{
	int			alike;
	int			slower;

	if (flash->n == 0 || disk->n == 0)
		return FC_COMPARED_UNKNOWN;
	alike = against(flash, disk, FC_BYPASS_ALIKE);
	slower = against(flash, disk, FC_BYPASS_SLOWER);
	if (alike < 0)
		return FC_COMPARED_ALIKE;
	if (slower > 0)
		return FC_COMPARED_SLOWER;
	return alike > 0 && slower < 0 ? FC_COMPARED_BETWEEN : FC_COMPARED_UNKNOWN;
}

static void
begin_window(FcBypass *b, const FcBypassTimes *times)
{
	b->wanted = times->samples;
}

static void
begin_trial(FcBypass *b, FcBypassState state, uint64_t now, const FcBypassTimes *times)
{
	b->state = state;
	b->agreed = 0;
	b->undecided = 0;
	b->begun = now;
	begin_window(b, times);
}

static uint64_t
longer(uint64_t pause, const FcBypassTimes *times)
{
	uint64_t	longest = times->pause * (FC_BYPASS_LONGEST_PAUSE_NS / FC_BYPASS_FIRST_PAUSE_NS);

	if (pause == 0)
		return times->pause;
	return pause * 2 < longest ? pause * 2 : longest;
}

/* The trial is over: it is `state` from now on, or still. */
static void
settle(FcBypass *b, FcBypassState state, bool change, uint64_t now, const FcBypassTimes *times)
{
	uint64_t	longest = times->pause * (FC_BYPASS_LONGEST_PAUSE_NS / FC_BYPASS_FIRST_PAUSE_NS);

	/* what has lasted was no mistake */
	if (change && now - b->since >= longest)
		b->pause = 0;
	b->pause = longer(b->pause, times);
	b->state = state;
	if (change)
		b->since = now;
	if (change && state == FC_BYPASS_BYPASSED)
		b->bypasses++;
	b->agreed = 0;
	b->wanted = 0;
	b->due = now + b->pause;
}

static void
give_up(FcBypass *b, uint64_t now, const FcBypassTimes *times)
{
	settle(b, b->state == FC_BYPASS_BACK ? FC_BYPASS_BYPASSED : FC_BYPASS_CACHED, false, now, times);
}

/* A window of a trial is over. */
static void
judge_trial(FcBypass *b, FcCompared compared, uint64_t now, const FcBypassTimes *times)
{
	FcCompared	change = b->state == FC_BYPASS_BACK ? FC_COMPARED_SLOWER : FC_COMPARED_ALIKE;
	FcCompared	stay = b->state == FC_BYPASS_BACK ? FC_COMPARED_ALIKE : FC_COMPARED_SLOWER;

	begin_window(b, times);
	if (compared == stay)
		give_up(b, now, times);
	else if (compared != change)
	{
		b->agreed = 0;
		if (++b->undecided == FC_BYPASS_UNDECIDED)
			give_up(b, now, times);
	}
	else if (++b->agreed == FC_BYPASS_WINDOWS)
	{
		if (b->state == FC_BYPASS_HALF)
			begin_trial(b, FC_BYPASS_MOST, now, times);
		else
			settle(b, b->state == FC_BYPASS_BACK ? FC_BYPASS_CACHED : FC_BYPASS_BYPASSED, true, now, times);
	}
}

bool
fc_policy_bypass(FcBypass *b, const FcArm *flash, const FcArm *disk, uint64_t now, const FcBypassTimes *times)
{
	FcCompared	compared;

	if (b->wanted == 0)
	{
		if (now < b->due)
			return false;
		if (b->since == 0)
			b->since = now;
		if (b->state == FC_BYPASS_BYPASSED)
			begin_trial(b, FC_BYPASS_BACK, now, times);
		else
			begin_window(b, times);
		return true;
	}
	if (fc_policy_on_trial(b) && now - b->begun >= times->trial)
	{
		give_up(b, now, times);
		return true;
	}
	if (flash->n < b->wanted || disk->n < b->wanted)
		return false;
	compared = fc_policy_compare(flash, disk);
	if (compared == FC_COMPARED_UNKNOWN && b->wanted < FC_BYPASS_MOST_SAMPLES)
	{
		b->wanted *= 2;
		return false;
	}
	b->windows++;
	if (fc_policy_on_trial(b))
		judge_trial(b, compared, now, times);
	else if (compared == FC_COMPARED_ALIKE)
		begin_trial(b, FC_BYPASS_HALF, now, times);
	else
	{
		/* no trial was needed to see that: no longer pause either */
		b->wanted = 0;
		b->due = now + times->pause;
	}
	return true;
}
