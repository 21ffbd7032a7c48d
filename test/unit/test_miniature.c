/*
 * test_miniature.c
 *	  admission/miniature.c: exact answers, and against plain models of the same.
 */
#include "check.h"

#include <stdlib.h>
#include <string.h>

#include "admission/miniature.h"

/* Evenly distributed keys, none of which is 0. */
static uint64_t
key(uint64_t n)
{
	n = (n + 1) * UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return n ^ (n >> 27);
}

/* Eight pages each. */
static uint64_t
region_of(uint64_t n)
{
	return key(n >> 61);
}

static uint32_t
dice(void)
{
	static uint64_t state = 42;

	state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (uint32_t) (state >> 33);
}

static FcMiniature
miniature(uint32_t slots)
{
	FcMiniature mini;

	fc_miniature_init(&mini, slots, calloc(1, fc_miniature_size(slots)));
	return mini;
}

static FcQueue
queue(uint32_t slots)
{
	FcQueue		q;

	fc_queue_init(&q, slots, calloc(1, fc_queue_size(slots)));
	return q;
}

static void
flash(void)
{
	FcMiniature mini = miniature(4);

	check(!fc_miniature_read(&mini, key(1)), "nothing is there at first");
	check(fc_miniature_offer(&mini, key(1), region_of(key(1)), FC_ADMIT_ALL), "all: a page is written");
	check(fc_miniature_read(&mini, key(1)), "and is there");
	check(!fc_miniature_offer(&mini, key(1), region_of(key(1)), FC_ADMIT_ALL), "a page that is there is not written again");
	for (int i = 2; i <= 4; i++)
		fc_miniature_offer(&mini, key(i), region_of(key(i)), FC_ADMIT_ALL);
	check(mini.used == 4, "four slots are used");
	check(fc_miniature_offer(&mini, key(5), region_of(key(5)), FC_ADMIT_ALL), "a fifth page is written");
	check(mini.used == 4, "four slots are used still");
	check(fc_miniature_read(&mini, key(1)), "the page that was hit is passed over");
	check(!fc_miniature_read(&mini, key(2)), "the next one goes");
	fc_miniature_forget(&mini, key(1), FC_ADMIT_ALL);
	check(mini.used == 3 && !fc_miniature_read(&mini, key(1)), "a page that was written is gone");
	fc_miniature_forget(&mini, key(1), FC_ADMIT_ALL);
	check(mini.used == 3, "once");

	mini = miniature(4);
	check(!fc_miniature_offer(&mini, key(1), region_of(key(1)), FC_ADMIT_REUSE), "reuse: a new page is refused");
	check(fc_miniature_offer(&mini, key(1), region_of(key(1)), FC_ADMIT_REUSE), "reuse: the second time it is written");
	fc_miniature_forget(&mini, key(1), FC_ADMIT_REUSE);
	check(fc_miniature_offer(&mini, key(1), region_of(key(1)), FC_ADMIT_REUSE), "reuse: so is a page that was there and was changed");

	mini = miniature(1);
	check(fc_miniature_offer(&mini, key(1), region_of(key(1)), FC_ADMIT_ALL) && fc_miniature_read(&mini, key(1)), "one slot will do");
	check(fc_miniature_offer(&mini, key(2), region_of(key(2)), FC_ADMIT_ALL) && !fc_miniature_read(&mini, key(1)) &&
		  fc_miniature_read(&mini, key(2)), "and is taken in turn");
}

/* By numbers: who has a slot keeps it until somebody is worth two more. */
static void
numbers(void)
{
	FcMiniature mini = miniature(2);

	check(fc_miniature_offer(&mini, key(1), 1, FC_ADMIT_PAGE) && fc_miniature_offer(&mini, key(2), 1, FC_ADMIT_PAGE), "page: free slots are taken");
	check(mini.count[0] == 1 && mini.count[1] == 1, "page: an eviction each");
	check(fc_miniature_read(&mini, key(1)) && mini.count[0] == 2, "page: a hit counts");
	check(!fc_miniature_offer(&mini, key(3), 1, FC_ADMIT_PAGE) && !fc_miniature_offer(&mini, key(3), 1, FC_ADMIT_PAGE),
		  "page: another one is refused twice");
	check(fc_miniature_offer(&mini, key(3), 1, FC_ADMIT_PAGE), "page: the third time it is written");
	check(!fc_miniature_read(&mini, key(2)) && fc_miniature_read(&mini, key(1)) && fc_miniature_read(&mini, key(3)),
		  "page: in the place of the one that is worth least");
	fc_miniature_forget(&mini, key(1), FC_ADMIT_PAGE);
	check(fc_miniature_offer(&mini, key(1), 1, FC_ADMIT_PAGE) && mini.count[0] == 4, "page: one that was changed has kept its number");

	mini = miniature(2);
	for (int i = 0; i < 5; i++)
		(void) fc_miniature_offer(&mini, key(1 + i % 2), 1, FC_ADMIT_REGION);
	check(mini.used == 2 && !fc_miniature_offer(&mini, key(3), 2, FC_ADMIT_REGION), "region: a new one is refused");
	for (int i = 0; i < 5; i++)
		check(!fc_miniature_offer(&mini, key(4 + i), 2, FC_ADMIT_REGION), "region: as long as it is worth less");
	check(fc_miniature_offer(&mini, key(3), 2, FC_ADMIT_REGION), "region: and taken when its neighbours are worth more");
}

static void
order(void)
{
	FcQueue		q = queue(3);

	check(fc_queue_put(&q, key(1)) == 0 && fc_queue_put(&q, key(2)) == 0 && fc_queue_put(&q, key(3)) == 0,
		  "three keys have room");
	check(fc_queue_put(&q, key(1)) == 0, "a key that is there pushes nothing out");
	check(fc_queue_put(&q, key(4)) == key(2), "the oldest is pushed out: the one put in again is not");
	check(fc_queue_take(&q, key(3)) && !fc_queue_take(&q, key(3)), "a key is taken out once");
	check(fc_queue_put(&q, key(5)) == 0, "and has left room");
	check(fc_queue_put(&q, key(6)) == key(1), "in the order in which they came");
	check(fc_queue_has(&q, key(4)) && !fc_queue_has(&q, key(1)), "what is there is there");
}

/* A queue against an array that is searched. */
static void
queue_model(void)
{
	enum
	{
		SLOTS = 37
	};
	FcQueue		q = queue(SLOTS);
	uint64_t	model[SLOTS];	/* the oldest first */
	int			n = 0;
	int			wrong = 0;

	for (int step = 0; step < 100000; step++)
	{
		uint64_t	k = key(dice() % 90);
		bool		take = dice() % 4 == 0;
		uint64_t	pushed_out = 0;
		int			at = 0;

		while (at < n && model[at] != k)
			at++;
		if (take)
			wrong += fc_queue_take(&q, k) != (at < n);
		if (at < n)
		{
			memmove(&model[at], &model[at + 1], (n - at - 1) * sizeof(model[0]));
			n--;
		}
		else if (!take && n == SLOTS)
		{
			pushed_out = model[0];
			memmove(&model[0], &model[1], (n - 1) * sizeof(model[0]));
			n--;
		}
		if (!take)
		{
			model[n++] = k;
			wrong += fc_queue_put(&q, k) != pushed_out;
		}
		wrong += q.used != (uint32_t) n;
	}
	check(wrong == 0, "a queue does what an array does, 100,000 times");
}

static FcFrames
pool(uint32_t slots)
{
	FcFrames	f;

	fc_frames_init(&f, slots, calloc(1, fc_frames_size(slots)));
	return f;
}

static void
frames(void)
{
	FcFrames	f = pool(3);

	check(fc_frames_put(&f, 7, key(1)) == 0, "a frame of which nothing is known has evicted nothing");
	check(fc_frames_put(&f, 7, key(1)) == 0, "a page that is there already has evicted nothing");
	check(fc_frames_put(&f, 7, key(2)) == key(1), "another one has evicted it");
	check(fc_frames_put(&f, 7, 0) == key(2) && f.used == 0, "so has one that is not of the sample");
	check(fc_frames_put(&f, 7, 0) == 0, "once");
	check(fc_frames_put(&f, 0, key(1)) == 0 && fc_frames_put(&f, 1, key(1)) == 0 && f.used == 1,
		  "a page is in one frame");
	check(fc_frames_put(&f, 0, key(3)) == 0 && fc_frames_put(&f, 1, key(2)) == key(1), "the last one");
	check(fc_frames_take(&f, key(3)) && !fc_frames_take(&f, key(3)), "a page leaves once");
	check(fc_frames_put(&f, 0, key(4)) == 0, "and is not evicted any more");
	check(fc_frames_put(&f, 2, key(5)) == 0 && f.used == 3, "three pages have room");
	check(fc_frames_put(&f, 3, key(6)) == 0 && !fc_frames_take(&f, key(6)), "of a fourth nothing is known");
	check(fc_frames_put(&f, 2, key(6)) == key(5) && fc_frames_take(&f, key(6)), "but where it takes another one's place");
}

/* Frames against an array of them. */
static void
frames_model(void)
{
	enum
	{
		SLOTS = 20,
		FRAMES = 31
	};
	FcFrames	f = pool(SLOTS);
	uint64_t	model[FRAMES] = {0};
	int			wrong = 0;

	for (int step = 0; step < 100000; step++)
	{
		uint64_t	k = dice() % 3 == 0 ? 0 : key(dice() % 60);
		uint32_t	frame = dice() % FRAMES;
		uint64_t	before = 0;
		uint32_t	used = 0;

		if (dice() % 8 == 0)
			frame = FRAMES;		/* taken out */
		for (int i = 0; i < FRAMES; i++)
		{
			if ((uint32_t) i == frame && model[i] != k)
			{
				before = model[i];
				model[i] = 0;
			}
			if (k != 0 && model[i] == k && (uint32_t) i != frame)
			{
				model[i] = 0;
				wrong += frame == FRAMES && !fc_frames_take(&f, k);
			}
			used += model[i] != 0;
		}
		if (frame < FRAMES)
		{
			if (k != 0 && model[frame] == 0 && used < SLOTS)
			{
				model[frame] = k;
				used++;
			}
			wrong += fc_frames_put(&f, frame, k) != before;
		}
		else
			wrong += fc_frames_take(&f, k);
		wrong += f.used != used;
	}
	check(wrong == 0, "frames do what an array does, 100,000 times");
}

/* Whatever is done: as many keys as are used, each found. */
static void
consistent(FcAdmission mode)
{
	FcMiniature mini = miniature(50);
	int			wrong = 0;

	for (int step = 0; step < 100000; step++)
	{
		uint64_t	k = key(dice() % 200);
		bool		there = fc_miniature_read(&mini, k);

		switch (dice() % 4)
		{
			case 0:
				fc_miniature_forget(&mini, k, mode);
				wrong += fc_miniature_read(&mini, k);
				break;
			case 1:
				wrong += fc_miniature_offer(&mini, k, region_of(k), FC_ADMIT_ALL) == there;
				wrong += !fc_miniature_read(&mini, k);
				break;
			default:
				if (fc_miniature_offer(&mini, k, region_of(k), mode))
					wrong += there || !fc_miniature_read(&mini, k);
		}
		if (step % 1000 == 0)
		{
			uint32_t	keys = 0;

			for (int i = 0; i < 50; i++)
				if (mini.keys.key[i] != 0)
					keys += fc_miniature_read(&mini, mini.keys.key[i]);
			wrong += keys != mini.used;
		}
	}
	check(wrong == 0, "a miniature stays consistent, 100,000 times, whatever decides");
}

/* A cache of a tenth of the slots with a tenth of the pages: the same share of hits. */
static double
hit_ratio(FcAdmission mode, uint32_t slots, uint32_t one_in)
{
	FcMiniature mini = miniature(slots / one_in);
	uint64_t	reads = 0;
	uint64_t	hits = 0;

	for (int i = 0; i < 2000000; i++)
	{
		/* 80% of the reads go to a fifth of 100,000 pages */
		uint32_t	page = dice() % 5 != 0 ? dice() % 20000 : dice() % 100000;
		uint64_t	k = key(page);

		if (k % one_in != 0)
			continue;
		reads++;
		if (fc_miniature_read(&mini, k))
			hits++;
		else
			fc_miniature_offer(&mini, k, region_of(k), mode);
	}
	return (double) hits / reads;
}

static void
small(FcAdmission mode)
{
	for (uint32_t slots = 10000; slots <= 40000; slots *= 2)
	{
		double		whole = hit_ratio(mode, slots, 1);
		double		part = hit_ratio(mode, slots, 10);
		char		what[100];

		snprintf(what, sizeof(what), "%s, %u slots: a tenth of them tells the hit ratio to two points (%.3f, %.3f)",
				 fc_policy_admission_name(mode), slots, whole, part);
		check(whole - part < 0.02 && part - whole < 0.02, what);
	}
}

int
main(void)
{
	flash();
	order();
	queue_model();
	frames();
	frames_model();
	for (int i = 0; i < FC_CANDIDATES; i++)
	{
		consistent(fc_policy_candidates[i]);
		/* regions are told by all of their pages */
		if (fc_policy_candidates[i] != FC_ADMIT_REGION)
			small(fc_policy_candidates[i]);
	}
	numbers();
	return done();
}
