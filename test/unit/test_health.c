/*
 * test_health.c
 *	  policy_health.c: exact answers.
 */
#include "check.h"

#include <string.h>

#include "policy_health.h"

#define U FC_UNKNOWN
#define DAY INT64_C(86400)
#define GB INT64_C(1000000000)

static void
health(void)
{
	check(fc_policy_health(1, 0, 100, 10) == 100, "health: new");
	check(fc_policy_health(1, 12, 100, 10) == 88, "health: what is left of its life");
	check(fc_policy_health(1, 12, 55, 10) == 50, "health: or of its spare blocks above the threshold");
	check(fc_policy_health(1, 12, 10, 10) == 0, "health: none above it");
	check(fc_policy_health(1, 12, 5, 10) == 0, "health: below it");
	check(fc_policy_health(1, 130, 100, 10) == 0, "health: beyond its life");
	check(fc_policy_health(0, 0, 100, 10) == 0, "health: it does not pass");
	check(fc_policy_health(U, 30, U, U) == 70, "health: wear alone");
	check(fc_policy_health(U, U, 40, U) == 40, "health: spare blocks alone");
	check(fc_policy_health(U, U, 40, 100) == 0, "health: below a threshold of all spare blocks");
	check(fc_policy_health(U, U, 100, 100) == 100, "health: all spare blocks are there");
	check(fc_policy_health(U, U, 99, 99) == 0, "health: at the threshold");
	check(fc_policy_health(1, U, U, U) == U, "health: neither is known");
}

/* Of each threshold: 0 up to it, all at 100, and never less with more spare blocks. */
static void
spare(void)
{
	int			wrong = 0;

	for (int threshold = 0; threshold <= 100; threshold++)
	{
		int64_t		last = 0;

		for (int left = 0; left <= 100; left++)
		{
			int64_t		health = fc_policy_health(1, U, left, threshold);

			if (health < last || (left < 100 && left <= threshold && health != 0) || (left == 100 && health != 100))
				wrong++;
			last = health;
		}
	}
	check(wrong == 0, "health: spare blocks, in order");
}

static void
written(void)
{
	FcWritten	days[FC_WRITTEN_DAYS] = {{0}};
	int64_t		noon = 20000 * DAY + DAY / 2;

	check(fc_policy_written_today(days, noon, GB) == U, "written: no report");
	check(fc_policy_days_left(days, noon, GB, 10) == U, "days: no report");
	fc_policy_note_written(days, noon, 1000 * GB);
	check(fc_policy_written_today(days, noon, 1000 * GB) == 0, "written: since the first report");
	fc_policy_note_written(days, noon + 1800, 1001 * GB);
	check(fc_policy_written_today(days, noon + 1800, 1001 * GB) == GB, "written: and more");
	check(fc_policy_days_left(days, noon + 1800, 1001 * GB, 10) == U, "days: not before an hour");
	check(fc_policy_written_today(days, noon + DAY, 1001 * GB) == U, "written: another day begins with its first report");

	/* 10 GB in an hour are 240 GB a day; of 10,100 GB 1,010 have taken 10% */
	check(fc_policy_days_left(days, noon + 3600, 1010 * GB, 10) == 37, "days: after an hour");
	check(fc_policy_days_left(days, noon + 3600, 1010 * GB, 0) == U, "days: no wear yet");
	check(fc_policy_days_left(days, noon + 3600, 1010 * GB, U) == U, "days: no wear known");
	check(fc_policy_days_left(days, noon + 3600, 1010 * GB, 120) == 0, "days: none");
	check(fc_policy_days_left(days, noon + 3600, 1000 * GB, 10) == U, "days: nothing is written");
	check(fc_policy_days_left(days, noon + DAY * 7, 1000 * GB + 1, 1) == 1000000000, "days: an end to it");

	for (int i = 1; i < 10; i++)
		fc_policy_note_written(days, noon + i * DAY, (1000 + i * 100) * GB);
	check(days[0].at == noon + 9 * DAY && days[FC_WRITTEN_DAYS - 1].at == noon + 2 * DAY, "days: the last eight");
	check(fc_policy_written_today(days, noon + 9 * DAY + 60, 1905 * GB) == 5 * GB, "written: of the last one");
	check(fc_policy_days_left(days, noon + 9 * DAY, 1900 * GB, 50) == 19, "days: as since the oldest");

	fc_policy_note_written(days, noon + 10 * DAY, 5 * GB);
	check(days[1].at == 0 && days[0].bytes == 5 * GB, "another drive: what was known is forgotten");
	fc_policy_note_written(days, noon, 6 * GB);
	check(days[1].at == 0 && days[0].at == noon, "a clock that was set back: the same");
	check(fc_policy_written_today(days, noon, 5 * GB) == U, "written: less than before is not known");
}

int
main(void)
{
	health();
	spare();
	written();
	return done();
}
