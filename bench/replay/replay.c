/*
 * replay.c
 *	  Replays a stream of page references through the policy code of the
 *	  extension: src/policy_admission.c and src/admission/, as they are.
 *
 *	  replay FILE POOL FLASH [STREAM]
 *
 * FILE has 8 bytes for each reference: the number of a page times two, plus one
 * if the page is changed.  POOL and FLASH are shares of the pages that occur.
 * Above is a buffer pool as PostgreSQL's: a clock with usage counts up to 5. What
 * it evicts is offered to a cache of each candidate, and to one whose candidate
 * is chosen by the miniatures (auto).
 *
 * Prints a line of JSON for each.  STREAM is written for other simulators: what
 * happens below the pool in the same form, a read, or a page that is written
 * back.
 */
#include "admission/chooser.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_USAGE 5

typedef struct Frame
{
	uint64_t	page;
	uint8_t		usage;
	bool		changed;
} Frame;

/* Of a page, in a cache. */
enum
{
	NEVER,
	WRITTEN,
	HIT
};

/* One cache below the pool. */
typedef struct Cache
{
	const char *name;
	FcAdmission mode;			/* FC_ADMIT_AUTO: that of the chooser */
	FcMiniature mini;
	uint64_t	hits;
	uint64_t	writes;
	uint64_t	useful;
	uint64_t	undecided;
	uint8_t    *state;			/* of each page */
} Cache;

/* Pages by number, densely. */
static uint64_t *names;
static uint32_t *numbers;
static uint64_t mask;
static uint32_t npages;

static uint64_t
mix(uint64_t n)
{
	n += UINT64_C(0x9e3779b97f4a7c15);
	n = (n ^ (n >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	n = (n ^ (n >> 27)) * UINT64_C(0x94d049bb133111eb);
	n ^= n >> 31;
	return n != 0 ? n : 1;
}

static uint32_t
number_of(uint64_t page)
{
	uint64_t	i = mix(page) & mask;

	while (numbers[i] != 0 && names[i] != page)
		i = (i + 1) & mask;
	if (numbers[i] == 0)
	{
		names[i] = page;
		numbers[i] = ++npages;
	}
	return numbers[i] - 1;
}

static void *
zeros(size_t n, size_t size)
{
	void	   *memory = calloc(n, size);

	if (memory == NULL)
	{
		perror("replay");
		exit(1);
	}
	return memory;
}

static void
offer(Cache *cache, FcAdmission mode, uint64_t page, uint32_t number, bool changed)
{
	uint64_t	key = mix(page);

	if (changed)
		fc_miniature_forget(&cache->mini, key, mode);
	if (fc_miniature_offer(&cache->mini, key, mix(page / FC_REGION_PAGES + (UINT64_C(1) << 60)), mode))
	{
		cache->writes++;
		cache->state[number] = WRITTEN;
	}
}

int
main(int argc, char **argv)
{
	Cache		caches[] = {
		{.name = "all", .mode = FC_ADMIT_ALL},
		{.name = "ghost_half", .mode = FC_ADMIT_GHOST_HALF},
		{.name = "ghost", .mode = FC_ADMIT_GHOST},
		{.name = "ghost_two", .mode = FC_ADMIT_GHOST_TWO},
		{.name = "page", .mode = FC_ADMIT_PAGE},
		{.name = "region", .mode = FC_ADMIT_REGION},
		{.name = "auto", .mode = FC_ADMIT_AUTO},
	};
	enum
	{
		NCACHES = sizeof(caches) / sizeof(caches[0])
	};
	FcChooser	chooser;
	uint64_t	n;
	uint64_t   *refs;
	uint32_t   *number;
	uint32_t   *frame_of;
	Frame	   *frames;
	uint32_t	nframes;
	uint32_t	used = 0;
	uint32_t	hand = 0;
	uint32_t	slots;
	uint64_t	reads = 0;
	uint32_t	changes = 0;
	FILE	   *f;
	FILE	   *stream = NULL;

	if (argc < 4 || (f = fopen(argv[1], "rb")) == NULL || (argc > 4 && (stream = fopen(argv[4], "wb")) == NULL))
	{
		fprintf(stderr, "usage: replay FILE POOL FLASH [STREAM]\n");
		return 2;
	}
	fseek(f, 0, SEEK_END);
	n = ftell(f) / sizeof(*refs);
	rewind(f);
	refs = zeros(n, sizeof(*refs));
	if (fread(refs, sizeof(*refs), n, f) != n)
	{
		perror(argv[1]);
		return 1;
	}
	fclose(f);
	for (mask = 1; mask < 2 * n; mask *= 2)
		;
	names = zeros(mask, sizeof(*names));
	numbers = zeros(mask--, sizeof(*numbers));
	number = zeros(n, sizeof(*number));
	for (uint64_t i = 0; i < n; i++)
		number[i] = number_of(refs[i] / 2);
	nframes = (uint32_t) (npages * atof(argv[2]));
	slots = (uint32_t) (npages * atof(argv[3]));
	if (nframes < 8)
		nframes = 8;
	if (slots < 64)
		slots = 64;
	frames = zeros(nframes, sizeof(*frames));
	frame_of = zeros(npages, sizeof(*frame_of));
	fc_chooser_init(&chooser, slots, zeros(1, fc_chooser_size(slots)));
	for (int i = 0; i < NCACHES; i++)
	{
		fc_miniature_init(&caches[i].mini, slots, zeros(1, fc_miniature_size(slots)));
		caches[i].state = zeros(npages, 1);
	}

	for (uint64_t t = 0; t < n; t++)
	{
		uint64_t	page = refs[t] / 2;
		bool		change = refs[t] % 2;
		uint32_t	at = frame_of[number[t]];
		Frame	   *frame;

		if (at != 0)
		{
			frame = &frames[at - 1];
			frame->usage += frame->usage < MAX_USAGE;
			frame->changed |= change;
			continue;
		}
		reads++;
		if (stream != NULL)
		{
			uint64_t	event = page * 2;

			fwrite(&event, sizeof(event), 1, stream);
		}
		for (int i = 0; i < NCACHES; i++)
			if (fc_miniature_read(&caches[i].mini, mix(page)))
			{
				caches[i].hits++;
				caches[i].useful += caches[i].state[number[t]] == WRITTEN;
				caches[i].state[number[t]] = HIT;
			}
		if (used < nframes)
			at = used++;
		else
		{
			uint32_t	old;

			for (; frames[hand].usage > 0; hand = (hand + 1) % nframes)
				frames[hand].usage--;
			at = hand;
			hand = (hand + 1) % nframes;
			frame = &frames[at];
			old = number_of(frame->page);
			frame_of[old] = 0;
			if (frame->changed && stream != NULL)
			{
				uint64_t	event = frame->page * 2 + 1;

				fwrite(&event, sizeof(event), 1, stream);
			}
			changes += fc_chooser_offer(&chooser, mix(frame->page), mix(frame->page / FC_REGION_PAGES + (UINT64_C(1) << 60)),
										frame->changed);
			for (int i = 0; i < NCACHES; i++)
				offer(&caches[i], caches[i].mode == FC_ADMIT_AUTO ? fc_chooser_mode(&chooser) : caches[i].mode,
					  frame->page, old, frame->changed);
		}
		frames[at] = (Frame) {page, 1, change};
		frame_of[number[t]] = at + 1;
	}
	/* What was written, was not hit, and is still there, may be hit yet. */
	for (uint64_t i = 0; i <= mask; i++)
		for (int c = 0; numbers[i] != 0 && c < NCACHES; c++)
			if (caches[c].state[numbers[i] - 1] == WRITTEN && fc_miniature_read(&caches[c].mini, mix(names[i])))
				caches[c].undecided++;
	for (int i = 0; i < NCACHES; i++)
		printf("{\"candidate\": \"%s\", \"reads\": %" PRIu64 ", \"slots\": %" PRIu32 ", \"hit_ratio\": %.4f, \"writes_per_read\": %.4f, \"useful\": %.4f%s%s",
			   caches[i].name, reads, slots, (double) caches[i].hits / reads, (double) caches[i].writes / reads,
			   caches[i].writes > caches[i].undecided ? (double) caches[i].useful / (caches[i].writes - caches[i].undecided) : 1,
			   caches[i].mode == FC_ADMIT_AUTO ? ", \"in_force\": \"" : "}\n",
			   caches[i].mode == FC_ADMIT_AUTO ? fc_policy_admission_name(fc_chooser_mode(&chooser)) : "");
	printf("\", \"changes\": %" PRIu32 "}\n", changes);
	if (stream != NULL && fclose(stream) != 0)
		perror(argv[4]);
	return 0;
}
