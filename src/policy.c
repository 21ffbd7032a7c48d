/*-------------------------------------------------------------------------
 *
 * policy.c
 *	  See policy.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "policy.h"

#include <string.h>

/* A burst of one second's worth may be saved up. */
#define BURST_SECONDS 1.0

/*
 * What reading an extent takes more than a page does, at 100 MB a second: at
 * most, since a stream may tell that it is less, and at least of a seek.
 */
#define EXTENT_COST_NS 573440.0
#define EXTENT_COST_MIN (1.0 / 16)

/* Extents must save so many times what they cost, and a neighbour be worth a share of a page that is asked for. */
#define EXTENT_MARGIN 2.0
#define EXTENT_WORTH (1.0 / 8)

/* A verdict rests on so many hits on pages that were asked for; or on so many neighbours. */
#define EXTENT_ASKED_HITS 64
#define EXTENT_LEAST 64
#define EXTENT_MOST 65536

/* A run must earn the seek back this many times over before it is taken. */
#define RUN_MARGIN 1.5

/* What may be saved up in a bucket: at least one page, or nobody could ever take one. */
static double
room(const FcBudget *budget, uint64_t limit, uint32_t bytes)
{
	double		burst = (double) limit * BURST_SECONDS;

	if (budget->shared)
		burst /= 2;
	return burst > bytes ? burst : bytes;
}

/* What has come since the last time. */
static void
fill_budget(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes)
{
	double		most = room(budget, limit, bytes);
	double		more = 0;

	if (now_ns > budget->filled_at_ns)
	{
		more = (double) (now_ns - budget->filled_at_ns) * 1e-9 * (double) limit;
		budget->filled_at_ns = now_ns;
	}
	if (budget->shared)
	{
		budget->own += more / 2;
		more /= 2;
		if (budget->own > most)
		{
			more += budget->own - most;
			budget->own = most;
		}
	}
	budget->tokens += more;
	if (budget->tokens <= most)
		return;
	if (budget->shared)
	{
		budget->own += budget->tokens - most;
		if (budget->own > most)
			budget->own = most;
	}
	budget->tokens = most;
}

/* Takes `bytes`, and leaves at least `reserve`. */
static bool
spend(double *tokens, uint32_t bytes, double reserve)
{
	if (*tokens < bytes + reserve)
		return false;
	*tokens -= bytes;
	return true;
}

bool
fc_policy_spend(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes)
{
	if (limit == 0)
		return true;
	fill_budget(budget, limit, now_ns, bytes);
	return spend(&budget->tokens, bytes, 0);
}

bool
fc_policy_spend_spare(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes)
{
	double		most = room(budget, limit, bytes);
	double		reserve = most / 2;

	if (limit == 0)
		return true;
	/* a full bucket has something to spare, however small it is */
	if (reserve > most - bytes)
		reserve = most - bytes;
	fill_budget(budget, limit, now_ns, bytes);
	return spend(&budget->tokens, bytes, reserve);
}

void
fc_policy_share(FcBudget *budget, bool shared)
{
	if (shared == budget->shared)
		return;
	budget->shared = shared;
	if (shared)
		budget->own = budget->tokens /= 2;
	else
	{
		budget->tokens += budget->own;
		budget->own = 0;
	}
}

bool
fc_policy_spend_own(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes)
{
	if (limit == 0)
		return true;
	fill_budget(budget, limit, now_ns, bytes);
	return spend(budget->shared ? &budget->own : &budget->tokens, bytes, 0);
}

/* Does reading blk continue s?  Reading its last block again does, too. */
static bool
continues(const FcStream *s, uint64_t rel, uint32_t blk)
{
	return s->rel == rel && s->length > 0 && blk + 1 >= s->next &&
		(blk + 1 == s->next || blk - s->next <= FC_STREAM_GAP);
}

/* One block more in a row, after so many that were left out. */
static uint32_t
steadier(uint32_t steady, uint32_t left_out)
{
	uint32_t	penalty = left_out * FC_AHEAD_PENALTY;

	if (penalty == 0)
		return steady < FC_AHEAD_WINDOW * FC_AHEAD_SHARE ? steady + 1 : steady;
	return steady > penalty ? steady - penalty : 1;
}

bool
fc_policy_in_stream(const FcStreams *streams, uint64_t rel, uint32_t blk)
{
	for (int i = 0; i < FC_STREAMS; i++)
		if (continues(&streams->stream[i], rel, blk))
			return streams->stream[i].length >= FC_STREAM_LENGTH;
	return false;
}

FcStream *
fc_policy_stream(FcStreams *streams, uint64_t rel, uint32_t blk)
{
	FcStream   *oldest = &streams->stream[0];

	streams->now++;
	for (int i = 0; i < FC_STREAMS; i++)
	{
		FcStream   *s = &streams->stream[i];

		if (continues(s, rel, blk))
		{
			if (blk >= s->next)
			{
				s->length++;
				s->steady = steadier(s->steady, blk - s->next);
			}
			s->next = blk + 1;
			s->used_at = streams->now;
			return s->length > FC_STREAM_LENGTH ? s : NULL;
		}
		if (streams->now - s->used_at > streams->now - oldest->used_at)
			oldest = s;
	}
	memset(oldest, 0, sizeof(*oldest));
	oldest->rel = rel;
	oldest->next = blk + 1;
	oldest->length = 1;
	oldest->steady = 1;
	oldest->used_at = streams->now;
	return NULL;
}

uint32_t
fc_policy_ahead(const FcStream *stream, uint32_t blk, uint32_t *from)
{
	uint32_t	window = stream->steady / FC_AHEAD_SHARE;
	uint32_t	left = stream->ahead_until > blk ? stream->ahead_until - blk : 0;

	if (stream->steady <= FC_STREAM_LENGTH || left > window / 2)
		return 0;
	*from = blk + left;
	return window;
}

uint32_t
fc_policy_run_that_pays(const FcTimes *times, bool together)
{
	double		flash = together ? times->flash_run : times->flash;
	double		gain = times->disk_stream - flash;
	double		run;

	/*
	 * Nothing measured yet, or the disk streams faster than flash answers one
	 * page at a time: stay.  While a stream stays with the disk its times are
	 * measured with every page, so a disk that gets busy changes the verdict.
	 */
	if (times->disk_stream == 0 || flash == 0 || gain <= 0)
		return 0;
	run = times->disk_single * RUN_MARGIN / gain;
	if (run > FC_STREAM_MAX_RUN)
		return 0;
	return run < FC_STREAM_LENGTH ? FC_STREAM_LENGTH : (uint32_t) run;
}

uint32_t
fc_policy_mean(uint32_t mean, uint64_t sum_ns, uint32_t n, uint32_t memory)
{
	double		samples = (double) sum_ns / n;

	if (mean != 0)
		samples = mean + (samples - mean) * n / (n + memory - 1.0);
	if (samples < 1)
		return 1;
	return samples < UINT32_MAX ? (uint32_t) (samples + 0.5) : UINT32_MAX;
}

bool
fc_policy_stream_tells_single(const FcTimes *times)
{
	return times->disk_stream > times->disk_single && times->disk_single != 0;
}

bool
fc_policy_worth_filling(const FcTimes *times)
{
	return times->disk_single == 0 || times->flash == 0 ||
		times->disk_single * 4 >= times->flash;
}

bool
fc_policy_slower(uint64_t flash_ns, uint64_t disk_ns)
{
	return flash_ns > disk_ns + disk_ns / 2;
}

bool
fc_policy_fast_again(uint64_t flash_ns, uint64_t disk_ns)
{
	return flash_ns < disk_ns - disk_ns / 4;
}

uint32_t
fc_policy_longer_pause(uint32_t seconds)
{
	return seconds * 2 < FC_LONGEST_PAUSE_S ? seconds * 2 : FC_LONGEST_PAUSE_S;
}

/* FNV-1a (Fowler, Noll, Vo) of all but the digits; never 0. */
static uint64_t
cause_of(const char *reason)
{
	uint64_t	hash = UINT64_C(14695981039346656037);

	for (; *reason; reason++)
		if (*reason < '0' || *reason > '9')
			hash = (hash ^ (unsigned char) *reason) * UINT64_C(1099511628211);
	return hash != 0 ? hash : 1;
}

bool
fc_policy_warn(FcWarnings *warnings, const char *reason, uint64_t now_ns)
{
	uint64_t	cause = cause_of(reason);
	int			at = 0;

	for (int i = 0; i < FC_CAUSES; i++)
	{
		if (warnings->of[i].cause == cause)
		{
			if (now_ns - warnings->of[i].warned_at_ns < FC_WARNING_NS)
				return false;
			at = i;
			break;
		}
		if (warnings->of[i].warned_at_ns < warnings->of[at].warned_at_ns)
			at = i;
	}
	warnings->of[at].cause = cause;
	warnings->of[at].warned_at_ns = now_ns;
	return true;
}

/* What an extent costs, in reads of a page. */
static double
extent_cost(double disk_ns, double stream_ns)
{
	double		cost = EXTENT_COST_NS;

	if (stream_ns > 0 && stream_ns * (FC_EXTENT_PAGES - 1) < cost)
		cost = stream_ns * (FC_EXTENT_PAGES - 1);
	cost = disk_ns > 0 ? cost / disk_ns : 1;
	return cost < EXTENT_COST_MIN ? EXTENT_COST_MIN : cost > 1 ? 1 : cost;
}

/*
 * Of a neighbour that was brought today nobody knows how often it will be hit;
 * nor of a page that was asked for.  But both get old together: so the share of
 * neighbours that were hit is compared with that of such pages, and what these
 * are worth is what they have cost, a read each.  Where hardly any page is
 * hit, the neighbours that were must have earned what all have cost.
 */
static bool
extents_pay(const FcExtents *since, double cost, bool compare)
{
	double		worth;

	if (!compare)
		return since->hits > since->reads * cost;
	worth = (double) since->hits / since->inserts * since->asked_inserts / since->asked_hits;
	if (worth > 1)
		worth = 1;
	return worth >= EXTENT_WORTH && worth * since->inserts > since->reads * cost * EXTENT_MARGIN;
}

uint32_t
fc_policy_extents(uint32_t interval, const FcExtents *since, uint64_t slots,
				  double disk_ns, double stream_ns, bool *verdict)
{
	uint64_t	enough = slots / 8;
	bool		compare = since->asked_hits >= EXTENT_ASKED_HITS && since->asked_inserts >= since->asked_hits;

	if (enough > EXTENT_MOST)
		enough = EXTENT_MOST;
	if (enough < EXTENT_LEAST || interval > 1)
		enough = EXTENT_LEAST;
	*verdict = since->inserts >= EXTENT_LEAST && (compare || since->inserts >= enough);
	if (!*verdict)
		return interval;
	if (extents_pay(since, extent_cost(disk_ns, stream_ns), compare))
		return 1;
	if (interval < FC_EXTENTS_RETRY)
		return FC_EXTENTS_RETRY;
	return interval < FC_EXTENTS_RETRY_MAX ? interval * 4 : FC_EXTENTS_RETRY_MAX;
}

uint32_t
fc_policy_probe_interval(uint64_t asked, uint64_t found)
{
	return found * 100 < asked ? FC_PROBE_SPARSE : 1;
}

const char *
fc_policy_verdict(const FcRecent *recent)
{
	uint64_t	wanted = recent->hits + recent->misses;

	if (!recent->writer)
		return "no writer";
	if (recent->bypassed >= FC_VERDICT_READS && recent->bypassed > wanted)
		return "bypassed";
	if (wanted < FC_VERDICT_READS)
		return recent->disk_reads < FC_VERDICT_READS ? "no reads" : "nothing to take";
	if (recent->os_cache_hits * 2 > wanted)
		return "the page cache answers";
	if (recent->flash_ns != 0 && recent->disk_ns != 0 && recent->flash_ns >= recent->disk_ns)
		return recent->disk_ns < FC_PAGE_CACHE_NS ? "the page cache answers" : "flash is not faster";
	if (recent->hits * 20 >= wanted)
		return "useful";
	if (recent->offered * 20 < wanted)
		return "nothing to take";
	return fc_policy_filling(recent->used, recent->slots) ? "filling" : "few hits";
}
