/*-------------------------------------------------------------------------
 *
 * policy_health.h
 *	  How well is a drive, by what it reports?
 *
 * Pure functions, without postgres.h.  Days are those of the Unix epoch, times
 * are seconds since then, amounts are bytes.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_POLICY_HEALTH_H
#define FC_POLICY_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

/* A drive does not report that, or it can't be told. */
#define FC_UNKNOWN INT64_MIN

/* What it has been written in its life, at the first report of each of the last days, the newest first. */
#define FC_WRITTEN_DAYS 8

typedef struct FcWritten
{
	int64_t		at;				/* 0: none */
	int64_t		bytes;
} FcWritten;

/*
 * From 100 down to 0, whole numbers, rounded down: the smaller of
 *
 *	100 - used, and not below 0
 *	100 * (spare - threshold) / (100 - threshold), and 0 from the threshold down;
 *		100 while all spare blocks are there, whatever the threshold is
 *
 * of those that it reports; a threshold that it does not report is 0.  0 if it
 * does not pass its own assessment, whatever else it reports.  FC_UNKNOWN if it
 * reports neither.
 */
extern int64_t fc_policy_health(int64_t passed, int64_t used_percent, int64_t spare_percent, int64_t spare_threshold);

/* A report has come.  A smaller amount than the last one is another drive's: what was known is forgotten. */
extern void fc_policy_note_written(FcWritten *days, int64_t at, int64_t bytes);

/* Since the first report of this day (UTC). */
extern int64_t fc_policy_written_today(const FcWritten *days, int64_t at, int64_t bytes);

/*
 * Until its rated life is used up, if it goes on as since the oldest report that
 * is known, an hour ago at least.  What it has used up for what it was written so far
 * tells how much more it takes.
 */
extern int64_t fc_policy_days_left(const FcWritten *days, int64_t at, int64_t bytes, int64_t used_percent);

#endif							/* FC_POLICY_HEALTH_H */
