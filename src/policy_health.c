/*-------------------------------------------------------------------------
 *
 * policy_health.c
 *	  See policy_health.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "policy_health.h"

#include <string.h>

#define DAY_S 86400
#define LEAST_S 3600

static int64_t
smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* Percent of the spare blocks above the threshold that are left. */
static int64_t
spare_above(int64_t spare, int64_t threshold)
{
	if (spare >= 100)
		return 100;
	return spare > threshold ? (spare - threshold) * 100 / (100 - threshold) : 0;
}

int64_t
fc_policy_health(int64_t passed, int64_t used_percent, int64_t spare_percent, int64_t spare_threshold)
{
	int64_t		health = FC_UNKNOWN;

	if (passed == 0)
		return 0;
	if (used_percent != FC_UNKNOWN)
		health = 100 - smaller(used_percent, 100);
	if (spare_percent != FC_UNKNOWN)
	{
		int64_t		above = spare_above(spare_percent, spare_threshold != FC_UNKNOWN ? spare_threshold : 0);

		health = health == FC_UNKNOWN ? above : smaller(health, above);
	}
	return health;
}

void
fc_policy_note_written(FcWritten *days, int64_t at, int64_t bytes)
{
	int			last = 0;

	/* clocks may be set back as well */
	if (days[0].at != 0 && (bytes < days[0].bytes || at < days[0].at))
		memset(days, 0, FC_WRITTEN_DAYS * sizeof(*days));
	if (days[0].at != 0 && days[0].at / DAY_S == at / DAY_S)
		return;
	for (last = FC_WRITTEN_DAYS - 1; last > 0; last--)
		days[last] = days[last - 1];
	days[0].at = at;
	days[0].bytes = bytes;
}

int64_t
fc_policy_written_today(const FcWritten *days, int64_t at, int64_t bytes)
{
	if (days[0].at == 0 || days[0].at / DAY_S != at / DAY_S || bytes < days[0].bytes)
		return FC_UNKNOWN;
	return bytes - days[0].bytes;
}

int64_t
fc_policy_days_left(const FcWritten *days, int64_t at, int64_t bytes, int64_t used_percent)
{
	int			oldest = 0;
	double		a_day;
	double		left;

	while (oldest + 1 < FC_WRITTEN_DAYS && days[oldest + 1].at != 0)
		oldest++;
	if (days[oldest].at == 0 || at - days[oldest].at < LEAST_S || bytes <= days[oldest].bytes ||
		used_percent == FC_UNKNOWN || used_percent <= 0)
		return FC_UNKNOWN;
	a_day = (double) (bytes - days[oldest].bytes) / (at - days[oldest].at) * DAY_S;
	left = (double) (100 - smaller(used_percent, 100)) / used_percent * bytes / a_day;
	return left < 1e9 ? (int64_t) left : (int64_t) 1e9;
}
