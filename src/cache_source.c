/*-------------------------------------------------------------------------
 *
 * cache_source.c
 *	  Where a page is best read from: flash, the disk as part of a stream, or
 *	  the kernel's page cache; and whether flash gains anything at all.
 *
 * The verdicts are those of policy.c.  Here is what they rest on: the streams
 * that this process reads, and mean times of reading from disk and flash.  A
 * process measures its own reads and exchanges the means with the others now
 * and then (exchange_times).
 *
 * Verdicts must not feed on themselves.  While streams stay with the disk,
 * nobody reads flash in runs, so the writer measures that anew from time to
 * time (fc_cache_review_streams).  Streams taken from flash measure flash with
 * every page; what the disk would take meanwhile is believed to be what it
 * was.  A cache that is not filled since reads from disk are fast measures
 * the disk with every miss.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache.h"
#include "cache_internal.h"
#include "compat.h"
#include "directory.h"
#include "oscache.h"
#include "policy.h"
#include "settings.h"
#include "stats.h"
#include "storage/proc.h"

/* A process exchanges its mean times not more often than that. */
#define EXCHANGE_NS UINT64CONST(5000000)
#define OLD_NEWS_NS UINT64CONST(1000000000)

/* What the disk takes is asked for so often in the whole server, where it is not seen anyway. */
#define TIME_DISK_NS UINT64CONST(250000000)

/* After a prefetch the next reads of the relation are no stream of ours. */
#define PREFETCH_CREDIT 64

/* A relation that the server prefetches itself, and how many more reads that is believed. */
typedef struct Prefetched
{
	uint64		rel;
	uint32		reads;
} Prefetched;

static FcStreams streams;
static bool in_stream;			/* was the last run part of one? */
static Prefetched prefetched[FC_STREAMS];

static FcTimes times;			/* what this process goes by */
static bool news[FC_SHARED_TIMES];	/* measured since the last exchange? */

/* ---- times ---- */

/* Time to exchange?  News that are too old by now are forgotten. */
static bool
exchange_due(uint64 now)
{
	static uint64 last = 0;
	uint64		since = now - last;

	if (likely(since < EXCHANGE_NS))
		return false;
	if (since > OLD_NEWS_NS)
		memset(news, 0, sizeof(news));
	last = now;
	return true;
}

/*
 * A mean of which this process has news becomes the common one, which it
 * started from the last time; the others are taken over.  Of processes that
 * tell at the same moment one prevails, and the others measure on from there.
 */
static void
exchange_times(void)
{
	double	   *mine[FC_SHARED_TIMES] = {
		[FC_TIME_DISK_STREAM] = &times.disk_stream,
		[FC_TIME_DISK_SINGLE] = &times.disk_single,
		[FC_TIME_FLASH] = &times.flash,
		[FC_TIME_FLASH_RUN] = &times.flash_run,
	};

	for (int i = 0; i < FC_SHARED_TIMES; i++)
	{
		if (news[i])
			pg_atomic_write_u32(&fc_cache->times_ns[i], (uint32) Min(*mine[i], 4e9));
		else
			*mine[i] = pg_atomic_read_u32(&fc_cache->times_ns[i]);
		news[i] = false;
	}
}

void
fc_source_reading(bool stream)
{
	in_stream = stream;
}

void
fc_source_flash_read(uint64 begin, uint64 end, int n, int asked, bool ahead)
{
	bool		due = exchange_due(end);

	if (due)
		exchange_times();
	if (asked == 1 && !ahead)
	{
		fc_policy_mean(&times.flash, end - begin);
		news[FC_TIME_FLASH] = true;
	}
	else if (ahead || n >= FC_STREAM_LENGTH)
	{
		fc_policy_mean(&times.flash_run, (end - begin) / n);
		news[FC_TIME_FLASH_RUN] = true;
	}
	if (due)
		exchange_times();
}

void
fc_cache_disk_read(uint64 begin, int n)
{
	uint64		end = fc_now_ns();

	fc_count_n(FC_DISK_READS, n);
	fc_count_n(FC_DISK_READ_NS, end - begin);
	if (fc_cache != NULL)
	{
		bool		due = exchange_due(end);
		double		single;

		if (due)
			exchange_times();
		single = times.disk_single;
		fc_policy_disk_read(&times, end - begin, n, in_stream);
		news[FC_TIME_DISK_SINGLE] |= times.disk_single != single;
		news[FC_TIME_DISK_STREAM] |= in_stream;
		if (due)
			exchange_times();
		if (!in_stream)
			fc_pace_disk(end - begin);
	}
	in_stream = false;
}

void
fc_cache_disk_read_started(int n)
{
	fc_count_n(FC_DISK_READS, n);
	in_stream = false;
}

bool
fc_cache_wants_disk_time(const FcRun *run)
{
	uint64		now;
	uint64		last;

	/* that of a stream matters only where flash could be read instead */
	if (run->stream != NULL && run->why[0] != FC_LEFT_TO_STREAM)
		return false;
	now = fc_now_ns();
	last = pg_atomic_read_u64(&fc_cache->disk_timed_at);
	return now - last >= TIME_DISK_NS &&
		pg_atomic_compare_exchange_u64(&fc_cache->disk_timed_at, &last, now);
}

void
fc_cache_times(uint64 *flash_ns, uint64 *disk_ns)
{
	*flash_ns = pg_atomic_read_u32(&fc_cache->times_ns[FC_TIME_FLASH]);
	*disk_ns = pg_atomic_read_u32(&fc_cache->times_ns[FC_TIME_DISK_SINGLE]);
}

bool
fc_cache_worth_filling(void)
{
	uint64		flash;
	uint64		disk;
	FcTimes		common = {0};

	fc_cache_times(&flash, &disk);
	common.flash = flash;
	common.disk_single = disk;
	return fc_setting_os_cache_probe == FC_PROBE_OFF || fc_policy_worth_filling(&common);
}

/* ---- look-ups ---- */

/*
 * What this process has looked up of the pages that it is about to ask for:
 * from fc_cache_combine() to the plan of that request, and from a plan to that
 * of what it left over.  A plan that begins elsewhere forgets it.
 */
static struct
{
	LocalTransactionId in;
	FcTag		tag;			/* of the first page */
	int			n;
	bool		found[FC_MAX_RUN];
	FcSlotRef	ref[FC_MAX_RUN];
} known;

/*
 * R1 for the page that is `i` pages after the first one.  The request's I/O is
 * held by now, but was not necessarily when the page was looked up.  "Not on
 * flash" may be believed: at worst it is a miss too many.  An entry must be
 * there still, see src/README.md.
 */
static bool
look_up(const FcTag *tag, int i, FcSlotRef *ref)
{
	bool		found;

	if (i < known.n && !known.found[i])
		return false;
	if (i < known.n && fc_directory_still(&known.ref[i]))
	{
		*ref = known.ref[i];
		return true;
	}
	found = fc_directory_lookup(tag, fc_directory_hash(tag), ref);
	if (i == known.n && i < FC_MAX_RUN)
	{
		known.found[i] = found;
		known.ref[i] = *ref;
		known.n++;
	}
	return found;
}

/* The request for the first n pages has been planned. */
static void
forget(int n)
{
	known.n = Max(known.n - n, 0);
	known.tag.blk += n;
	memmove(known.found, known.found + n, known.n * sizeof(known.found[0]));
	memmove(known.ref, known.ref + n, known.n * sizeof(known.ref[0]));
}

/* ---- streams ---- */

static uint64
stream_key(const FcTag *tag)
{
	return ((uint64) tag->db << 32) ^ ((uint64) tag->spc << 16) ^ tag->rel;
}

/* The relation's place; or that of the one which was prefetched longest ago. */
static Prefetched *
prefetched_of(uint64 rel)
{
	Prefetched *oldest = &prefetched[0];

	for (int i = 0; i < FC_STREAMS; i++)
	{
		if (prefetched[i].rel == rel)
			return &prefetched[i];
		if (prefetched[i].reads < oldest->reads)
			oldest = &prefetched[i];
	}
	return oldest;
}

/*
 * The stream this read continues, if any.  Where the server itself prefetches
 * (bitmap scans, recovery), pages on flash were left out of the prefetch, so
 * they are to be read from there.
 */
static FcStream *
follow_stream(const FcTag *tag)
{
	uint64		key = stream_key(tag);
	Prefetched *p = prefetched_of(key);

	if (p->reads > 0 && p->rel == key)
	{
		p->reads--;
		return NULL;
	}
	return fc_policy_stream(&streams, key, tag->blk);
}

/* Counts the pages from blk on that are on flash, up to `limit`. */
static uint32
run_length(const FcTag *tag, uint32 limit)
{
	FcTag		t = *tag;
	uint32		n = 0;

	for (; n < limit; n++, t.blk++)
	{
		FcSlotRef	ref;

		if (!fc_directory_lookup(&t, fc_directory_hash(&t), &ref))
			break;
	}
	return n;
}

/*
 * This process reads block after block.  The disk streams, and the kernel
 * reads ahead; taking single pages from flash in between would turn the
 * stream into seeks.  Leave it only for a run of flash pages that saves more
 * than the seek back costs.
 */
static bool
leave_stream(FcStream *stream, const FcTag *tag, bool together)
{
	uint32		pays;
	uint32		run;

	if (tag->blk < stream->flash_until)
		return true;
	if (tag->blk < stream->disk_until)
		return false;
	pays = fc_policy_run_that_pays(&times, together);
	run = pays == 0 ? FC_STREAM_LENGTH : run_length(tag, pays);
	if (pays != 0 && run >= pays)
	{
		stream->flash_until = tag->blk + run;
		return true;
	}
	stream->disk_until = tag->blk + run;
	return false;
}

/* ---- page cache ---- */

/* Does the kernel hold the page, so that reading it costs a copy only? */
static bool
in_page_cache(const FcTag *tag, FcDataFd data_fd, void *arg)
{
	static uint32 skipped = 0;
	off_t		offset;
	int			fd;

	if (fc_setting_os_cache_probe == FC_PROBE_OFF || !fc_oscache_available())
		return false;
	if (++skipped < pg_atomic_read_u32(&fc_cache->probe_interval))
		return false;
	skipped = 0;
	fd = data_fd(arg, tag->blk, &offset);
	if (fd < 0)
		return false;
	fc_count(FC_PROBES);
	if (!fc_oscache_holds(fd, offset, BLCKSZ))
		return false;
	fc_count(FC_PROBES_FOUND);
	return true;
}

void
fc_cache_review_probe(void)
{
	static uint64 last_asked = FC_STATS_START;
	static uint64 last_found = FC_STATS_START;
	uint64		asked = fc_stats_total(FC_PROBES);
	uint64		found = fc_stats_total(FC_PROBES_FOUND);

	if (asked - last_asked < FC_PROBE_WINDOW)
		return;
	pg_atomic_write_u32(&fc_cache->probe_interval,
						fc_policy_probe_interval(asked - last_asked, found - last_found));
	last_asked = asked;
	last_found = found;
}

/* ---- the choice ---- */

static FcSource
choose(const FcTag *tag, int i, bool together, FcDataFd data_fd, void *arg,
	   FcStream **stream, FcSlotRef *ref)
{
	fc_cache_ahead_asked(tag);
	*stream = follow_stream(tag);
	if (!look_up(tag, i, ref))	/* R1 */
		return FC_NOT_ON_FLASH;
	if (!fc_store_may_read(fc_setting_io_timeout))
		return FC_LEFT_UNBOUNDED;
	if (fc_setting_verify || fc_cache_ahead_has(tag, ref))
		return FC_FROM_FLASH;
	if (*stream != NULL)
		return leave_stream(*stream, tag, together) ? FC_FROM_FLASH : FC_LEFT_TO_STREAM;
	if (in_page_cache(tag, data_fd, arg))
		return FC_LEFT_TO_PAGE_CACHE;
	return FC_FROM_FLASH;
}

void
fc_cache_plan(FcRun *run, const FcTag *tag, int n, FcDataFd data_fd, void *arg)
{
	FcTag		t = *tag;

	n = Min(n, FC_MAX_RUN);
	run->tag = *tag;
	run->asks_again = false;
	if (!fc_cache_in_use())
	{
		(void) fc_cache_takes_part();
		run->n = n;
		run->why[0] = FC_NOT_ACTIVE;
		run->from_flash = false;
		run->stream = NULL;
		return;
	}
	if (!fc_tag_equal(&known.tag, tag) || known.in != FC_MY_TRANSACTION)
		known.n = 0;
	known.tag = *tag;
	known.in = FC_MY_TRANSACTION;
	run->why[0] = choose(&t, 0, n > 1, data_fd, arg, &run->stream, &run->ref[0]);
	run->from_flash = run->why[0] == FC_FROM_FLASH;
	for (run->n = 1; run->n < n; run->n++)
	{
		FcStream   *stream;

		t.blk++;
		run->why[run->n] = choose(&t, run->n, true, data_fd, arg, &stream, &run->ref[run->n]);
		if ((run->why[run->n] == FC_FROM_FLASH) != run->from_flash)
			break;
		run->stream = stream;
	}
	forget(run->n);
}

int
fc_cache_combine(const FcTag *tag, int limit)
{
	FcTag		t = *tag;
	FcSlotRef	ref;
	bool		first;
	int			n;

	/* of a stream hardly any page is read from flash: don't split it */
	if (!fc_cache_in_use() || !fc_store_may_read(fc_setting_io_timeout) ||
		fc_policy_in_stream(&streams, stream_key(tag), tag->blk))
		return limit;
	known.tag = *tag;
	known.in = FC_MY_TRANSACTION;
	known.n = 0;
	first = look_up(&t, 0, &ref);
	for (n = 1; n < limit; n++)
	{
		t.blk++;
		if (look_up(&t, n, &ref) != first)
			break;
	}
	return n;
}

bool
fc_cache_prefetch(const FcTag *tag)
{
	uint64		key = stream_key(tag);
	FcSlotRef	ref;

	if (!fc_cache_in_use() || !fc_store_may_read(fc_setting_io_timeout))
		return false;
	*prefetched_of(key) = (Prefetched) {key, PREFETCH_CREDIT};
	if (!fc_directory_lookup(tag, fc_directory_hash(tag), &ref))
		return false;
	fc_cache_ahead_announce(tag);
	return true;
}
