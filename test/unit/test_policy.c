/*
 * test_policy.c
 *	  policy.c: exact answers.
 */
#include "check.h"

#include <string.h>

#include "policy.h"

#define SECOND UINT64_C(1000000000)

static void
keeping(void)
{
	check(fc_policy_keeps(1, 100, 1), "keep: up to the limit");
	check(!fc_policy_keeps(2, 100, 1), "keep: not above it");
	check(fc_policy_keeps(0, 100, 0), "keep: nothing is no more than nothing");
	check(!fc_policy_keeps(1, 100, 0), "keep: limit 0");
	check(fc_policy_keeps(100, 100, 100), "keep: limit 100");
	check(fc_policy_keeps(51, 64, 80), "keep: 51 of 64 are below 80%");
	check(!fc_policy_keeps(52, 64, 80), "keep: 52 of 64 are not");
	check(fc_policy_keeps(UINT64_C(2147483647), UINT64_C(2147483647), 100), "keep: no overflow");
}

static void
budget(void)
{
	FcBudget	b = {0};
	const uint64_t limit = 81920;	/* ten pages a second */
	int			n;

	check(fc_policy_spend(&b, 0, 5 * SECOND, 8192), "budget: 0 is no limit");
	check(b.tokens == 0 && b.filled_at_ns == 0, "budget: and nothing is counted");

	b.filled_at_ns = SECOND;
	check(!fc_policy_spend(&b, limit, SECOND, 8192), "budget: an empty bucket gives nothing");
	check(!fc_policy_spend(&b, limit, SECOND + SECOND / 20, 8192), "budget: half a page's time is too little");
	check(fc_policy_spend(&b, limit, SECOND + SECOND / 10, 8192), "budget: a tenth of a second is one page");
	check(!fc_policy_spend(&b, limit, SECOND + SECOND / 10, 8192), "budget: and no second one");

	/* an hour of rest saves up one second's worth */
	for (n = 0; fc_policy_spend(&b, limit, 3600 * SECOND, 8192); n++)
		;
	check(n == 10, "budget: a burst is one second's worth");
	check(!fc_policy_spend(&b, limit, 3599 * SECOND, 8192), "budget: a clock that goes back fills nothing");
	for (n = 0; fc_policy_spend(&b, limit, 3601 * SECOND, 8192); n++)
		;
	check(n == 10, "budget: nor is the time before counted twice");

	/* what can wait leaves half of that to others */
	check(fc_policy_spend_spare(&b, 0, 3601 * SECOND, 8192), "budget: without a limit there is always something to spare");
	check(!fc_policy_spend_spare(&b, limit, 3601 * SECOND, 8192), "budget: an empty bucket has nothing to spare");
	for (n = 0; fc_policy_spend_spare(&b, limit, 3603 * SECOND, 8192); n++)
		;
	check(n == 5, "budget: half of a full bucket is to spare");
	for (n = 0; fc_policy_spend(&b, limit, 3603 * SECOND, 8192); n++)
		;
	check(n == 5, "budget: the other half is there for others");
	/* the lowest limit there is: a bucket for one page */
	memset(&b, 0, sizeof(b));
	check(fc_policy_spend_spare(&b, 8192, 2 * SECOND, 8192), "budget: a bucket for one page spares it when it is full");
	check(!fc_policy_spend_spare(&b, 8192, 2 * SECOND + SECOND / 2, 8192), "budget: and not before");
}

/* Takes what there is; returns how many pages that were. */
static int
take(FcBudget *b, bool own, uint64_t now_ns)
{
	const uint64_t limit = 819200;	/* a hundred pages a second */
	int			n = 0;

	while (own ? fc_policy_spend_own(b, limit, now_ns, 8192) : fc_policy_spend(b, limit, now_ns, 8192))
		n++;
	return n;
}

static void
shared_budget(void)
{
	FcBudget	b = {0};
	int			n;
	int			all;

	b.filled_at_ns = SECOND;
	check(take(&b, true, 2 * SECOND) == 100, "shared budget: until it is shared there is one bucket");
	fc_policy_share(&b, true);
	check(take(&b, true, 2 * SECOND) == 0 && take(&b, false, 2 * SECOND) == 0, "shared budget: nothing comes of sharing nothing");
	check(take(&b, true, 2 * SECOND + SECOND / 5) == 10, "shared budget: half of what comes for the one, which asks first");
	check(take(&b, false, 2 * SECOND + SECOND / 5) == 10, "shared budget: half for the others");
	check(take(&b, false, 2 * SECOND + SECOND / 5 * 2) == 10, "shared budget: likewise if the others ask first");
	check(take(&b, true, 2 * SECOND + SECOND / 5 * 2) == 10, "shared budget: both have had the same");

	/* for ten seconds, each takes all it gets; the one that takes more comes first */
	b.filled_at_ns = 10 * SECOND;
	n = all = 0;
	for (int i = 1; i <= 200; i++)
	{
		n += take(&b, true, 10 * SECOND + i * SECOND / 20);
		all += take(&b, false, 10 * SECOND + i * SECOND / 20);
	}
	check(n >= 499 && n <= 500, "shared budget: half of it in the long run");
	check(all >= 499 && all <= 500, "shared budget: and half of it");

	/* one of them rests */
	b.filled_at_ns = 30 * SECOND;
	b.tokens = b.own = 0;
	n = 0;
	for (int i = 1; i <= 200; i++)
		n += take(&b, true, 30 * SECOND + i * SECOND / 20);
	check(n >= 949 && n <= 950, "shared budget: what the others don't use, but for half a second's worth");
	check(take(&b, false, 40 * SECOND) == 50, "shared budget: which waits for them");
	n = 0;
	for (int i = 1; i <= 200; i++)
		n += take(&b, false, 40 * SECOND + i * SECOND / 20);
	check(n >= 949 && n <= 950, "shared budget: likewise the other way round");

	/* an hour of rest saves up no more than before */
	n = take(&b, true, 3600 * SECOND);
	check(n == 50 && take(&b, false, 3600 * SECOND) == 50, "shared budget: a burst is half a second's worth for each");
	(void) fc_policy_spend_own(&b, 819200, 7200 * SECOND, 8192);
	fc_policy_share(&b, false);
	check(take(&b, false, 7200 * SECOND) == 99, "shared budget: when that is over it is one bucket again");
	check(take(&b, true, 7201 * SECOND) == 100, "shared budget: for whoever asks");
	check(fc_policy_spend_own(&b, 0, 7201 * SECOND, 8192), "shared budget: 0 is no limit");

	/* what can wait leaves half of what the others may save up */
	fc_policy_share(&b, true);
	for (n = 0; fc_policy_spend_spare(&b, 819200, 9000 * SECOND, 8192); n++)
		;
	check(n == 25, "shared budget: half of that bucket is to spare");
	/* the lowest limit there is */
	memset(&b, 0, sizeof(b));
	fc_policy_share(&b, true);
	check(fc_policy_spend_own(&b, 8192, 2 * SECOND, 8192), "shared budget: a page for the one");
	check(fc_policy_spend_spare(&b, 8192, 2 * SECOND, 8192), "shared budget: and for the others");
	check(!fc_policy_spend_own(&b, 8192, 3 * SECOND, 8192) && !fc_policy_spend(&b, 8192, 3 * SECOND, 8192), "shared budget: half a page each");
	check(fc_policy_spend_own(&b, 8192, 4 * SECOND, 8192) && fc_policy_spend(&b, 8192, 4 * SECOND, 8192), "shared budget: and then a page");
}

/* Reads n blocks one after the other; returns how many were part of a stream. */
static int
read_blocks(FcStreams *s, uint64_t rel, uint32_t from, uint32_t n, uint32_t step)
{
	int			in_stream = 0;

	for (uint32_t i = 0; i < n; i++)
		in_stream += fc_policy_stream(s, rel, from + i * step) != NULL;
	return in_stream;
}

static void
streams(void)
{
	FcStreams	s = {0};
	FcStream   *a;
	int			n;

	check(read_blocks(&s, 1, 0, FC_STREAM_LENGTH, 1) == 0, "stream: eight blocks in a row are none yet");
	check(read_blocks(&s, 1, 8, 1, 1) == 1, "stream: the ninth is");
	check(read_blocks(&s, 1, 9, 100, 1) == 100, "stream: and all that follow");

	a = fc_policy_stream(&s, 1, 109);
	check(a != NULL && a->rel == 1 && a->next == 110 && a->length == 110, "stream: knows where it is");
	check(fc_policy_stream(&s, 1, 110 + FC_STREAM_GAP) == a, "stream: four blocks left out do not end it");
	check(fc_policy_stream(&s, 1, 115 + FC_STREAM_GAP + 1) == NULL, "stream: five do");
	check(fc_policy_stream(&s, 1, 115) == a, "stream: but the old one can still go on");
	check(fc_policy_stream(&s, 2, 116) == NULL, "stream: not in another relation");
	check(fc_policy_in_stream(&s, 1, 116) && !fc_policy_in_stream(&s, 2, 116) && !fc_policy_in_stream(&s, 1, 114),
		  "stream: whether it would go on can be asked");
	n = (int) a->length;
	check(fc_policy_stream(&s, 1, 115) == a && a->next == 116 && (int) a->length == n,
		  "stream: its last block once more changes nothing");
	check(fc_policy_stream(&s, 1, 114) == NULL, "stream: not backwards");

	memset(&s, 0, sizeof(s));
	check(read_blocks(&s, 1, 0, 30, FC_STREAM_GAP + 1) == 22, "stream: every fifth block makes one");

	/* the clock that tells the oldest stream wraps around while four are followed, and a fifth begins */
	memset(&s, 0, sizeof(s));
	s.now = UINT32_MAX - 5;
	for (int time = 0; time < 2; time++)
		for (uint64_t rel = 1; rel <= FC_STREAMS; rel++)
			read_blocks(&s, rel, 0, 1, 1);
	check(s.now == 2, "stream: the clock has wrapped around");
	read_blocks(&s, FC_STREAMS + 1, 0, 1, 1);
	for (uint64_t rel = 2; rel <= FC_STREAMS; rel++)
		check(read_blocks(&s, rel, 1, 8, 1) == 1, "stream: the younger ones go on");
	check(read_blocks(&s, 1, 1, 8, 1) == 0, "stream: the oldest has given its place away");
	check(read_blocks(&s, 2, 0, 30, FC_STREAM_GAP + 2) == 0, "stream: every sixth does not");

	/* several at once, block by block in turn */
	memset(&s, 0, sizeof(s));
	n = 0;
	for (uint32_t i = 0; i < 20; i++)
		for (uint64_t rel = 1; rel <= FC_STREAMS; rel++)
			n += fc_policy_stream(&s, rel, i) != NULL;
	check(n == FC_STREAMS * (20 - FC_STREAM_LENGTH), "stream: four at once are all followed");
	memset(&s, 0, sizeof(s));
	n = 0;
	for (uint32_t i = 0; i < 20; i++)
		for (uint64_t rel = 1; rel <= FC_STREAMS + 1; rel++)
			n += fc_policy_stream(&s, rel, i) != NULL;
	check(n == 0, "stream: of five in turn none is");

	/* two in one relation */
	memset(&s, 0, sizeof(s));
	n = 0;
	for (uint32_t i = 0; i < 20; i++)
	{
		n += fc_policy_stream(&s, 1, i) != NULL;
		n += fc_policy_stream(&s, 1, 1000 + i) != NULL;
	}
	check(n == 2 * (20 - FC_STREAM_LENGTH), "stream: two at different places of one relation");

	/* random reads in between take the places of the least recently used */
	memset(&s, 0, sizeof(s));
	n = 0;
	for (uint32_t i = 0; i < 20; i++)
	{
		n += fc_policy_stream(&s, 1, i) != NULL;
		fc_policy_stream(&s, 2, 100 * i);
		fc_policy_stream(&s, 3, 100 * i);
	}
	check(n == 20 - FC_STREAM_LENGTH, "stream: not lost among random reads");
}

/* Reads n blocks in a row from `from` on; what is to be read ahead then? */
static uint32_t
ahead_after(FcStreams *s, uint32_t from, uint32_t n, uint32_t *first)
{
	FcStream   *stream = NULL;

	for (uint32_t i = 0; i < n; i++)
		stream = fc_policy_stream(s, 1, from + i);
	return stream == NULL ? 0 : fc_policy_ahead(stream, from + n, first);
}

static void
ahead(void)
{
	FcStreams	s = {0};
	FcStream   *a = &s.stream[FC_STREAMS - 1];
	uint32_t	first;
	uint32_t	n = 0;

	check(ahead_after(&s, 0, FC_STREAM_LENGTH, &first) == 0, "ahead: eight blocks are no stream");
	for (int i = 0; i < FC_STREAMS; i++)
		if (s.stream[i].rel == 1)
			a = &s.stream[i];
	check(ahead_after(&s, 8, 1, &first) == 2 && first == 9, "ahead: after nine, two");
	check(ahead_after(&s, 9, 11, &first) == 5 && first == 20, "ahead: a quarter of what was read");
	check(ahead_after(&s, 20, 180, &first) == FC_AHEAD_WINDOW && first == 200, "ahead: 16 at most");
	a->ahead_until = 216;
	check(ahead_after(&s, 200, 7, &first) == 0, "ahead: nothing while more than half of them are left");
	check(ahead_after(&s, 207, 1, &first) == FC_AHEAD_WINDOW && first == 216, "ahead: goes on where it ended");
	a->ahead_until = 232;

	/* every second block: reading ahead would be in vain for each other one */
	for (uint32_t i = 0; i < 100; i++)
		a = fc_policy_stream(&s, 1, 210 + 2 * i);
	check(a != NULL && fc_policy_ahead(a, 409, &first) == 0, "ahead: not where every second block is left out");
	for (uint32_t i = 0; i < 1000; i++)
		if (i % 10 != 0)
			a = fc_policy_stream(&s, 1, 410 + i);
	n = a != NULL ? fc_policy_ahead(a, 1410, &first) : 0;
	check(n == FC_AHEAD_WINDOW && first == 1410, "ahead: one left out in ten does not matter");
}

static void
leaving(void)
{
	FcTimes		t = {0};

	check(fc_policy_run_that_pays(&t, false) == 0, "run: nothing measured, nothing decided");
	t = (FcTimes) {.disk_stream = 0, .disk_single = 4e6, .flash = 1e5};
	check(fc_policy_run_that_pays(&t, false) == 0, "run: the stream's time is needed");
	t = (FcTimes) {.disk_stream = 2e5, .disk_single = 4e6, .flash = 0};
	check(fc_policy_run_that_pays(&t, false) == 0, "run: so is flash's");
	t = (FcTimes) {.disk_stream = 1e5, .disk_single = 4e6, .flash = 1e5};
	check(fc_policy_run_that_pays(&t, false) == 0, "run: flash is not faster than the stream");
	t = (FcTimes) {.disk_stream = 2e5, .disk_single = 4e6, .flash = 1e5};
	check(fc_policy_run_that_pays(&t, false) == 60, "run: half as much again as the seek costs");
	t = (FcTimes) {.disk_stream = 4e6, .disk_single = 4e6, .flash = 1e5};
	check(fc_policy_run_that_pays(&t, false) == FC_STREAM_LENGTH, "run: never below a stream's length");
	t = (FcTimes) {.disk_stream = 2e5, .disk_single = 1e5 * FC_STREAM_MAX_RUN / 1.5, .flash = 1e5};
	check(fc_policy_run_that_pays(&t, false) == FC_STREAM_MAX_RUN, "run: the longest that is looked at");
	t = (FcTimes) {.disk_stream = 2e5, .disk_single = 1e5 * (FC_STREAM_MAX_RUN + 1) / 1.5, .flash = 1e5};
	check(fc_policy_run_that_pays(&t, false) == 0, "run: beyond, none");
	t = (FcTimes) {.disk_stream = 4e4, .disk_single = 4e6, .flash = 6e4, .flash_run = 1e4};
	check(fc_policy_run_that_pays(&t, false) == 0, "run: one page at a time flash is slower than the stream");
	check(fc_policy_run_that_pays(&t, true) == 200, "run: several at a time it is faster");
	t.flash_run = 0;
	check(fc_policy_run_that_pays(&t, true) == 0, "run: if that is known");
}

static void
means_and_probe(void)
{
	FcTimes		t = {.disk_stream = 641, .disk_single = 640, .flash = 100000};

	check(fc_policy_mean(0, 6400, 1, 64) == 6400, "mean: the first sample is the mean");
	check(fc_policy_mean(0, 6400, 4, 64) == 1600, "mean: or the first few");
	check(fc_policy_mean(6400, 0, 1, 64) == 6300, "mean: a sample weighs one in 64");
	check(fc_policy_mean(6400, 0, 63, 64) == 3200, "mean: many together less than alone");
	check(fc_policy_mean(6400, 12800, 1, 1024) == 6406, "mean: rounded");
	check(fc_policy_mean(6400, 0, 1000000, 64) == 1, "mean: 0 is none");
	check(fc_policy_mean(1, UINT64_MAX, 1, 1) == UINT32_MAX, "mean: never wraps around");

	check(fc_policy_stream_tells_single(&t), "disk: a page alone is never cheaper than one of a stream");
	t.disk_stream = 640;
	check(!fc_policy_stream_tells_single(&t), "disk: nothing is learned while it costs as much");
	t = (FcTimes) {.disk_stream = 640, .disk_single = 0};
	check(!fc_policy_stream_tells_single(&t), "disk: nor where none was ever read");
	t = (FcTimes) {.disk_single = 24999, .flash = 100000};
	check(!fc_policy_worth_filling(&t), "fill: not where the disk is more than four times as fast");
	t.disk_single = 25000;
	check(fc_policy_worth_filling(&t), "fill: else it is");
	t.disk_single = 0;
	check(fc_policy_worth_filling(&t), "fill: and where nothing is known of the disk");

	check(fc_policy_probe_interval(1024, 1024) == 1, "probe: always yes: ask always");
	check(fc_policy_probe_interval(1000, 10) == 1, "probe: one in a hundred is enough");
	check(fc_policy_probe_interval(1000, 9) == FC_PROBE_SPARSE, "probe: fewer is not");
	check(fc_policy_probe_interval(1024, 0) == FC_PROBE_SPARSE, "probe: never yes: ask seldom");
}

static void
slow_device(void)
{
	check(!fc_policy_slower(1500, 1000), "slower: by half is still borne");
	check(fc_policy_slower(1501, 1000), "slower: more is not");
	check(!fc_policy_fast_again(750, 1000), "fast again: not at three quarters");
	check(fc_policy_fast_again(749, 1000), "fast again: below");
	for (uint64_t flash = 0; flash <= 4000; flash++)
		if (fc_policy_slower(flash, 1000) && fc_policy_fast_again(flash, 1000))
			check(false, "slower and fast again at once");

	check(fc_policy_longer_pause(FC_FIRST_PAUSE_S) == 2 * FC_FIRST_PAUSE_S, "pause: doubles");
	check(fc_policy_longer_pause(128) == 256, "pause: and again");
	check(fc_policy_longer_pause(256) == FC_LONGEST_PAUSE_S, "pause: up to the longest");
	check(fc_policy_longer_pause(FC_LONGEST_PAUSE_S) == FC_LONGEST_PAUSE_S, "pause: and stays there");
}

static void
warnings(void)
{
	FcWarnings	w = {0};
	uint64_t	now = SECOND;
	char		reason[] = "cause A";

	check(fc_policy_warn(&w, "could not read 8192 bytes at offset 65536: Input/output error", now), "warn: a first cause");
	check(!fc_policy_warn(&w, "could not read 16384 bytes at offset 0: Input/output error", now + FC_WARNING_NS - 1),
		  "warn: not again within an hour, whatever the numbers");
	check(fc_policy_warn(&w, "could not read 8192 bytes at offset 65536: No space left on device", now + 1), "warn: another cause at once");
	check(fc_policy_warn(&w, "could not write 8192 bytes at offset 65536: Input/output error", now + 1), "warn: and a third");
	check(fc_policy_warn(&w, "could not read 8192 bytes at offset 65536: Input/output error", now + FC_WARNING_NS),
		  "warn: again after an hour");
	check(!fc_policy_warn(&w, "could not read 8192 bytes at offset 65536: Input/output error", now + FC_WARNING_NS + 1),
		  "warn: and then for an hour not");

	/* more causes than are kept: the oldest goes */
	w = (FcWarnings) {0};
	for (int i = 0; i < FC_CAUSES; i++, reason[6]++)
		check(fc_policy_warn(&w, reason, now + i), "warn: as many causes as there is room for");
	reason[6] = 'A';
	for (int i = 0; i < FC_CAUSES; i++, reason[6]++)
		check(!fc_policy_warn(&w, reason, now + FC_CAUSES), "warn: each of them once");
	check(fc_policy_warn(&w, reason, now + FC_CAUSES), "warn: one more");
	check(!fc_policy_warn(&w, "cause B", now + FC_CAUSES), "warn: the second is still known");
	check(fc_policy_warn(&w, "cause A", now + FC_CAUSES), "warn: the first was forgotten");
}

static void
test_verdict(void)
{
	FcRecent	recent = {.writer = true, .used = 80, .slots = 100, .hits = 50, .misses = 50, .offered = 100};

#define IS(text) (strcmp(fc_policy_verdict(&recent), text) == 0)
	check(IS("useful"), "verdict: half of the pages are hits");
	recent.hits = 5;
	recent.misses = 95;
	check(IS("useful"), "verdict: one in 20");
	recent.hits = 4;
	recent.misses = 96;
	check(IS("few hits"), "verdict: less than that");
	recent.used = 79;
	check(IS("filling"), "verdict: less than that, and free slots");
	recent.used = 0;
	recent.slots = 64;
	check(IS("filling"), "verdict: the smallest cache, empty");
	recent.used = 51;
	check(IS("filling"), "verdict: the smallest cache, less than 80%");
	recent.used = 52;
	check(IS("few hits"), "verdict: the smallest cache, full");
	recent.used = recent.slots = UINT32_MAX;
	check(IS("few hits"), "verdict: a very large cache, full");
	recent.flash_ns = 100000;
	recent.hits = 50;
	check(IS("useful"), "verdict: the disk's time is not known");
	recent.disk_ns = 100000;
	check(IS("flash is not faster"), "verdict: flash is as slow as the disk");
	recent.disk_ns = 100001;
	check(IS("useful"), "verdict: flash is faster");
	recent.flash_ns = 99999;
	recent.disk_ns = 99999;
	check(IS("the page cache answers"), "verdict: the disk answers as only a page cache does");
	recent.flash_ns = 513000;
	recent.disk_ns = 44000;
	check(IS("the page cache answers"), "verdict: and ten times as fast as flash");
	recent.flash_ns = 43000;
	check(IS("useful"), "verdict: flash is faster than the page cache");
	recent.os_cache_hits = 74;
	check(IS("the page cache answers"), "verdict: more than half are in the page cache");
	recent.os_cache_hits = 73;
	check(IS("useful"), "verdict: half are");
	recent.bypassed = recent.hits + recent.misses;
	check(IS("useful"), "verdict: half are bypassed");
	recent.bypassed++;
	check(IS("bypassed"), "verdict: more than half are");
	recent.bypassed = 0;
	recent.hits = 31;
	recent.misses = 32;
	check(IS("no reads"), "verdict: too few pages");
	recent.disk_reads = 63;
	check(IS("no reads"), "verdict: and too few of any kind");
	recent.disk_reads = 64;
	check(IS("nothing to take"), "verdict: what is read from the disk is nothing that flash holds");
	recent.hits = 50;
	recent.misses = 50;
	recent.os_cache_hits = 0;
	recent.offered = 0;
	recent.used = 0;
	check(IS("useful"), "verdict: nothing is offered, and flash has it all");
	recent.hits = 0;
	recent.misses = 100;
	check(IS("nothing to take"), "verdict: no page that was read is offered");
	recent.offered = 4;
	check(IS("nothing to take"), "verdict: fewer than one in 20");
	recent.offered = 5;
	check(IS("filling"), "verdict: one in 20 is offered");
	recent.writer = false;
	check(IS("no writer"), "verdict: no writer");
#undef IS
}

static void
extents(void)
{
	FcExtents	since = {0};
	bool		verdict;

#define INTERVAL(now, slots, disk, stream) fc_policy_extents(now, &since, slots, disk, stream, &verdict)
	check(fc_policy_extents_fit(93, 100) && !fc_policy_extents_fit(94, 100), "extents: one slot in 16 is left");
	check(!fc_policy_extents_give_way(6, 100) && fc_policy_extents_give_way(7, 100), "extents: more than one slot in 16 has to give way");
	check(fc_policy_extents_fit(UINT64_C(2013265919), UINT64_C(2147483647)) &&
		  !fc_policy_extents_fit(UINT64_C(2013265920), UINT64_C(2147483647)), "extents: of many, too");
	check(INTERVAL(1, 1024, 4e6, 0) == 1 && !verdict, "extents: no verdict without extents");
	since.reads = 18;
	since.inserts = 126;
	check(INTERVAL(1, 1024, 4e6, 0) == 1 && !verdict, "extents: nor before an eighth of the slots was tried");
	since.reads = 19;
	since.inserts = 128;
	check(INTERVAL(1, 1024, 4e6, 0) == 16 && verdict, "extents: without a hit they do not pay");
	check(INTERVAL(16, 1024, 4e6, 0) == 64 && verdict, "extents: the pauses get longer");
	check(INTERVAL(64, 1024, 4e6, 0) == 256 && verdict, "extents: to the longest");
	check(INTERVAL(256, 1024, 4e6, 0) == 256 && verdict, "extents: one");
	since.hits = 2;
	check(INTERVAL(1, 1024, 4.58752e6, 0) == 16 && verdict, "extents: two hits are less than 19 eighths of a read");
	since.hits = 3;
	check(INTERVAL(16, 1024, 4.58752e6, 0) == 1 && verdict, "extents: three are more");
	check(INTERVAL(1, 1024, 4.58752e6, 1e6) == 1 && verdict, "extents: a stream that seeks does not tell what they cost");
	check(INTERVAL(1, 1024, 1e6, 0) == 16 && verdict, "extents: they cost more of a faster disk");
	check(INTERVAL(1, 1024, 1e6, 1e4) == 1 && verdict, "extents: unless a stream tells that it is fast there, too");
	since.hits = 19;
	check(INTERVAL(1, 1024, 1e5, 0) == 16 && verdict, "extents: a read each");
	since.hits = 20;
	check(INTERVAL(1, 1024, 1e5, 0) == 1 && verdict, "extents: at most");
	check(INTERVAL(1, 1024, 0, 0) == 1 && verdict, "extents: or where nothing is known");
	since.hits = 1;
	check(INTERVAL(1, 1024, 4e6, 1e3) == 16 && verdict, "extents: and a 16th at least");

	/* compared with pages that were asked for */
	since.reads = 100;
	since.inserts = 700;
	since.asked_inserts = 640;
	since.asked_hits = 63;
	since.hits = 10;
	check(INTERVAL(1, 1000000, 4e6, 0) == 1 && !verdict, "extents: no comparison with too few hits");
	since.asked_hits = 64;
	check(INTERVAL(1, 1000000, 4e6, 0) == 1 && verdict, "extents: a neighbour is worth a seventh of a page that is asked for");
	since.hits = 8;
	check(INTERVAL(1, 1000000, 4e6, 0) == 16 && verdict, "extents: less than an eighth is too little for a slot");
	since.hits = 10;
	check(INTERVAL(1, 1000000, 5e5, 0) == 16 && verdict, "extents: a seventh does not pay where an extent costs a read");
	since.inserts = 63;
	check(INTERVAL(1, 1000000, 4e6, 0) == 1 && !verdict, "extents: no comparison with too few neighbours");
#undef INTERVAL
}

int
main(void)
{
	keeping();
	budget();
	shared_budget();
	streams();
	ahead();
	leaving();
	means_and_probe();
	slow_device();
	warnings();
	test_verdict();
	extents();
	return done();
}
