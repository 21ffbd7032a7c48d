/*
 * test_bypass.c
 *	  policy_bypass.c: what two arms tell, the way from cached to bypassed and back, and that no device, however it
 *	  answers, makes it flap: each of the simulations goes through 10,000 windows.
 */
#include "check.h"
#include "policy_bypass.h"

#include <math.h>
#include <stdint.h>

#define WINDOWS 10000
#define US 1000.0
#define S UINT64_C(1000000000)

static const FcBypassTimes usual = {FC_BYPASS_SAMPLES, FC_BYPASS_FIRST_PAUSE_NS, FC_BYPASS_LONGEST_TRIAL_NS};

/* xorshift64* (Vigna), always the same numbers */
static uint64_t seed = 88172645463325252u;

static double
random01(void)
{
	seed ^= seed >> 12;
	seed ^= seed << 25;
	seed ^= seed >> 27;
	return (double) ((seed * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

/* ---- how devices answer: ns, with a mean of 100 us each ---- */

static double
flat(void)
{
	return 100 * US;
}

static double
wide(void)
{
	return (20 + 160 * random01()) * US;
}

static double
exponential(void)
{
	return -100 * US * log(1 - random01());
}

/* nine of ten in 12 us, the tenth in 892 */
static double
bimodal(void)
{
	return random01() < 0.9 ? 12 * US : 892 * US;
}

/* two speeds that are as frequent */
static double
halves(void)
{
	return random01() < 0.5 ? 40 * US : 160 * US;
}

/* one in a thousand is held up for 20 ms */
static double
stalls(void)
{
	return random01() < 0.999 ? 80 * US : 20080 * US;
}

typedef double (*Device) (void);

static const struct
{
	const char *name;
	Device		device;
}			devices[] = {
	{"flat", flat}, {"wide", wide}, {"exponential", exponential}, {"bimodal", bimodal}, {"halves", halves}, {"stalls", stalls},
};

#define DEVICES (sizeof(devices) / sizeof(devices[0]))

/* ---- what two arms tell ---- */

static FcArm
arm_of(int n, double ns)
{
	FcArm		arm = {0};

	for (int i = 0; i < n; i++)
		fc_arm_add(&arm, (uint64_t) ns);
	return arm;
}

static void
comparing(void)
{
	FcArm		flash = arm_of(512, 100 * US);
	FcArm		none = {0};
	FcArm		disk;

	check(fc_policy_compare(&flash, &none) == FC_COMPARED_UNKNOWN, "compare: without samples of the disk nothing is known");
	check(fc_policy_compare(&none, &flash) == FC_COMPARED_UNKNOWN, "compare: nor without those of flash");
	check(fc_policy_compare(&flash, &flash) == FC_COMPARED_ALIKE, "compare: the same");
	disk = arm_of(512, 10 * US);
	check(fc_policy_compare(&flash, &disk) == FC_COMPARED_ALIKE, "compare: a faster disk is as good");
	disk = arm_of(512, 124 * US);
	check(fc_policy_compare(&flash, &disk) == FC_COMPARED_ALIKE, "compare: a little slower");
	disk = arm_of(512, 130 * US);
	check(fc_policy_compare(&flash, &disk) == FC_COMPARED_BETWEEN, "compare: neither");
	disk = arm_of(512, 160 * US);
	check(fc_policy_compare(&flash, &disk) == FC_COMPARED_SLOWER, "compare: slower");
	fc_arm_add(&flash, 1 * S);
	check(fc_policy_compare(&flash, &disk) == FC_COMPARED_UNKNOWN, "compare: one stall of flash of a second, and nothing is known");
	flash = disk;
	fc_arm_add(&disk, 1 * S);
	check(fc_policy_compare(&flash, &disk) == FC_COMPARED_UNKNOWN, "compare: nor after one of the disk");
}

/* ---- one step after the other ---- */

/* One window with these means. */
static void
window(FcBypass *b, double flash_us, double disk_us, uint64_t *now)
{
	FcArm		flash;
	FcArm		disk;

	if (b->wanted == 0)
	{
		*now = b->due > *now ? b->due : *now;
		check(fc_policy_bypass(b, &(FcArm) {0}, &(FcArm) {0}, *now, &usual), "window: begins when it is due");
	}
	flash = arm_of(b->wanted, flash_us * US);
	disk = arm_of(b->wanted, disk_us * US);
	*now += S;
	check(fc_policy_bypass(b, &flash, &disk, *now, &usual), "window: is over");
}

static void
steps(void)
{
	FcBypass	b = {0};
	uint64_t	now = 5 * S;
	uint64_t	then;
	FcArm		few = arm_of(100, US);

	window(&b, 100, 1000, &now);
	check(b.state == FC_BYPASS_CACHED && b.wanted == 0, "slow disk: nothing but a look");
	check(b.due == now + 60 * S, "slow disk: the next one in a minute");
	check(!fc_policy_bypass(&b, &few, &few, now + 59 * S, &usual), "slow disk: not before");
	window(&b, 100, 1000, &now);
	check(b.due == now + 60 * S, "slow disk: looks do not get rarer");

	window(&b, 100, 100, &now);
	check(b.state == FC_BYPASS_HALF && b.wanted == FC_BYPASS_SAMPLES, "as fast: tried with half of the blocks");
	check(!fc_policy_bypass(&b, &few, &few, now, &usual), "trial: too few samples");
	window(&b, 100, 100, &now);
	window(&b, 100, 100, &now);
	check(b.state == FC_BYPASS_HALF, "trial: two windows are not enough");
	window(&b, 100, 100, &now);
	check(b.state == FC_BYPASS_MOST, "trial: three are; then with most of them");
	window(&b, 100, 100, &now);
	window(&b, 100, 300, &now);
	check(b.state == FC_BYPASS_CACHED && b.bypasses == 0, "trial: the disk does not stand that load");
	check(b.due == now + 60 * S, "trial: the next one in a minute");
	window(&b, 100, 100, &now);
	window(&b, 100, 200, &now);
	check(b.state == FC_BYPASS_CACHED && b.due == now + 120 * S, "trial: the pause doubles");

	for (int i = 0; i < 7; i++)
		window(&b, 100, 100, &now);
	check(b.state == FC_BYPASS_BYPASSED && b.bypasses == 1 && b.since == now, "bypassed: after seven windows");
	check(b.wanted == 0 && b.due == now + 240 * S, "bypassed: no samples, and a pause");
	for (int i = 0; i < 10; i++)
	{
		then = now;
		window(&b, 100, 110, &now);
		check(b.state == FC_BYPASS_BYPASSED, "back: the disk is as fast");
	}
	check(b.due == now + 3600 * S && now - then == 3600 * S + S, "back: the pauses grow up to an hour");
	window(&b, 100, 140, &now);
	check(b.state == FC_BYPASS_BACK, "back: between the limits it is looked at again");
	window(&b, 100, 300, &now);
	window(&b, 100, 300, &now);
	window(&b, 100, 140, &now);
	window(&b, 100, 300, &now);
	window(&b, 100, 300, &now);
	check(b.state == FC_BYPASS_BACK, "back: in a row");
	window(&b, 100, 300, &now);
	check(b.state == FC_BYPASS_CACHED && b.since == now, "back: cached again after three windows");
	check(b.due == now + 60 * S, "back: what has lasted was no mistake");

	for (int i = 0; i < 7; i++)
		window(&b, 100, 100, &now);
	for (int i = 0; i < 8; i++)
		window(&b, 100, 140, &now);
	check(b.state == FC_BYPASS_BYPASSED && b.due == now + 240 * S, "back: windows that tell nothing end a trial");

	now = b.due;
	(void) fc_policy_bypass(&b, &few, &few, now, &usual);
	check(b.state == FC_BYPASS_BACK, "no samples: a trial begins");
	check(!fc_policy_bypass(&b, &few, &few, now + 59 * S, &usual), "no samples: it waits");
	check(fc_policy_bypass(&b, &few, &few, now + 60 * S, &usual) && b.state == FC_BYPASS_BYPASSED, "no samples: it stays what it is");
	check(b.due == now + 60 * S + 480 * S, "no samples: and is tried later");
}

/* ---- devices ---- */

typedef struct Simulated
{
	FcBypass	b;
	uint64_t	now;
	uint64_t	flips;			/* between cached and bypassed */
	uint64_t	windows;
} Simulated;

static bool
is_bypassed(const FcBypass *b)
{
	return b->state == FC_BYPASS_BYPASSED || b->state == FC_BYPASS_BACK;
}

/* Both are asked at the same rate. */
static void
simulate(Simulated *s, Device flash, double flash_by, Device disk, double disk_by, uint64_t windows)
{
	FcArm		arms[2] = {0};
	uint64_t	until = s->b.windows + windows;

	while (s->b.windows < until)
	{
		bool		bypassed = is_bypassed(&s->b);

		if (s->b.wanted == 0 && s->now < s->b.due)
			s->now = s->b.due;
		for (; arms[0].n < s->b.wanted; s->now += 2000)
		{
			fc_arm_add(&arms[0], (uint64_t) (flash() * flash_by));
			fc_arm_add(&arms[1], (uint64_t) (disk() * disk_by));
		}
		if (fc_policy_bypass(&s->b, &arms[0], &arms[1], s->now, &usual))
			arms[0] = arms[1] = (FcArm) {0};
		s->flips += is_bypassed(&s->b) != bypassed;
	}
}

static void
flapping(void)
{
	static const double ratios[] = {0.5, 1, 1.1, 1.2, 1.25, 1.3, 1.4, 1.5, 1.6, 2, 10};
	char		what[200];

	for (size_t d = 0; d < DEVICES; d++)
		for (size_t e = 0; e < DEVICES; e++)
			for (size_t r = 0; r < sizeof(ratios) / sizeof(ratios[0]); r++)
			{
				Simulated	s = {0};
				double		ratio = ratios[r];

				/* samples are dear */
				simulate(&s, devices[d].device, 1, devices[e].device, ratio, d == e ? WINDOWS / 10 : 100);
				snprintf(what, sizeof(what), "flash %s, disk %s, %.2f times: at most one change", devices[d].name, devices[e].name, ratio);
				check(s.flips <= 1, what);
				/* 512 samples do not show what one in a thousand is like */
				if (ratio >= 1.3 && (devices[e].device != stalls || d == e))
				{
					snprintf(what, sizeof(what), "flash %s, disk %s, %.2f times: stays cached", devices[d].name, devices[e].name, ratio);
					check(s.flips == 0, what);
				}
			}
}

static void
verdicts(void)
{
	char		what[200];

	for (size_t d = 0; d < DEVICES; d++)
	{
		Simulated	s = {0};

		simulate(&s, devices[d].device, 1, devices[d].device, 1, WINDOWS);
		snprintf(what, sizeof(what), "%s, alike: bypassed in 10,000 windows, and never back", devices[d].name);
		check(s.flips == 1 && is_bypassed(&s.b), what);
		s = (Simulated) {0};
		simulate(&s, devices[d].device, 1, devices[d].device, 3, WINDOWS);
		snprintf(what, sizeof(what), "%s, three times: cached in 10,000 windows", devices[d].name);
		check(s.flips == 0, what);
		s = (Simulated) {0};
		simulate(&s, devices[d].device, 1, devices[d].device, 1, WINDOWS / 10);
		simulate(&s, devices[d].device, 1, devices[d].device, 1.38, WINDOWS / 10);
		snprintf(what, sizeof(what), "%s, alike and then between the limits: stays bypassed", devices[d].name);
		check(s.flips == 1 && is_bypassed(&s.b), what);
		simulate(&s, devices[d].device, 1, devices[d].device, 3, WINDOWS / 10);
		snprintf(what, sizeof(what), "%s, then three times: cached again, once", devices[d].name);
		check(s.flips == 2 && !is_bypassed(&s.b), what);
	}
}

/* A disk that is fast as long as it has little to do, and so slow under all of the load that the cache is worth it. */
static void
load_dependent(void)
{
	Simulated	s = {0};
	uint64_t	end = 24 * 3600 * S;
	FcArm		arms[2] = {0};

	while (s.now < end)
	{
		double		share = s.b.state == FC_BYPASS_CACHED ? 0.1 : s.b.state == FC_BYPASS_HALF ? 0.5 : s.b.state == FC_BYPASS_MOST ? 0.94 : 1;

		if (s.b.wanted == 0 && s.now < s.b.due)
			s.now = s.b.due;
		for (; arms[0].n < s.b.wanted; s.now += 20000)
		{
			fc_arm_add(&arms[0], (uint64_t) exponential());
			fc_arm_add(&arms[1], (uint64_t) (exponential() * (share > 0.8 ? 20 : 1)));
		}
		if (fc_policy_bypass(&s.b, &arms[0], &arms[1], s.now, &usual))
			arms[0] = arms[1] = (FcArm) {0};
		if (is_bypassed(&s.b))
			s.flips++;
	}
	check(s.flips == 0, "a disk that does not stand the load: never bypassed in a day");
	check(s.b.windows < 24 * 5 + 60, "a disk that does not stand the load: trials are rare");
}

int
main(void)
{
	comparing();
	steps();
	flapping();
	verdicts();
	load_dependent();
	return done();
}
