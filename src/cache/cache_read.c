/*-------------------------------------------------------------------------
 *
 * cache_read.c
 *	  Reading: where a page is best read from (flash, the disk as part of a
 *	  stream, or the kernel's page cache), and reading it from flash.
 *
 * Steps R1-R3 are those of src/protocol.md.  A request is planned
 * (fc_cache_plan), then read (fc_cache_read).  The verdicts are those of
 * policy.c; here are the streams of this process that they rest on, and in
 * cache_times.c the times.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "oscache.h"
#include "pagecmp.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "stats/stats_relation.h"
#include "storage/bufpage.h"
#include "storage/proc.h"
#include "store/store.h"

/* After a prefetch the next reads of the relation are no stream of ours. */
#define PREFETCH_CREDIT 64

/* So many pages in a row with wrong content: it is not the pages. */
#define WRONG_IN_A_ROW 16

/* verify = on: so many differences are logged in full. */
#define VERIFY_LOG_LIMIT 10

/* A relation that the server prefetches itself, and how many more reads that is believed. */
typedef struct Prefetched
{
	uint64		rel;
	uint32		reads;
} Prefetched;

static FcStreams streams;
static Prefetched prefetched[FC_STREAMS];

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
	bool		chosen;			/* the first page ended the run before it */
	FcSource	source;			/* and this was its choice, */
	FcStream   *stream;			/* as part of this stream */
}			known;

/*
 * R1 for the page that is `i` pages after the first one.  The request's I/O is
 * held by now, but was not necessarily when the page was looked up.  "Not on
 * flash" may be believed: at worst it is a miss too many.  An entry must be
 * there still, see src/protocol.md.
 */
static bool
look_up(const FcTag *tag, int i, FcSlotRef *ref)
{
	bool		found;

	Assert(i >= 0 && known.n >= 0 && known.n <= FC_MAX_RUN);
	Assert(tag->blk == known.tag.blk + i && tag->rel == known.tag.rel);
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
	Assert(n > 0 && n <= FC_MAX_RUN);
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

/* Does the server prefetch pages of the relation itself, as far as we know? */
static bool
is_prefetched(const FcTag *tag)
{
	uint64		key = stream_key(tag);
	const Prefetched *p = prefetched_of(key);

	return p->reads > 0 && p->rel == key;
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
	FcTimes		times;
	uint32		pays;
	uint32		run;

	Assert(stream->length > FC_STREAM_LENGTH);
	if (tag->blk < stream->flash_until)
		return true;
	if (tag->blk < stream->disk_until)
		return false;
	times = fc_times();
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

/* Does the kernel hold the page, so that reading it costs a copy only?  Not asked of one that was read ahead. */
static bool
in_page_cache(const FcTag *tag, const FcSlotRef *ref, FcDataFd data_fd, void *arg)
{
	static uint32 skipped = 0;
	off_t		offset;
	int			fd;

	if (fc_setting_os_cache_probe == FC_PROBE_OFF || !fc_oscache_available())
		return false;
	if (++skipped < pg_atomic_read_u32(&fc_cache->probe_interval) || fc_cache_ahead_has(tag, ref))
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

/*
 * Where is the page that is `i` pages after the first one best read from?  One
 * that ended the run before has been chosen already: it is asked for once, so
 * it follows its stream and asks the page cache once.
 */
static FcSource
choose(const FcTag *tag, int i, bool together, FcDataFd data_fd, void *arg,
	   FcStream **stream, FcSlotRef *ref)
{
	bool		again = i == 0 && known.chosen;

	if (!again)
		fc_cache_ahead_asked(tag);
	*stream = again ? known.stream : follow_stream(tag);
	if (!look_up(tag, i, ref))	/* R1 */
		return FC_NOT_ON_FLASH;
	if (again && known.source != FC_NOT_ON_FLASH)
		return known.source;
	if (!fc_store_may_read_slot(ref->slot, fc_setting_io_timeout))
		return FC_LEFT_UNBOUNDED;
	if (fc_setting_verify)
		return FC_FROM_FLASH;
	if (*stream != NULL)
		return fc_cache_ahead_has(tag, ref) || leave_stream(*stream, tag, together) ? FC_FROM_FLASH : FC_LEFT_TO_STREAM;
	return in_page_cache(tag, ref, data_fd, arg) ? FC_LEFT_TO_PAGE_CACHE : FC_FROM_FLASH;
}

/*
 * Only what is read during recovery may be ahead of what was on flash: later,
 * whoever changes a page invalidates it.
 */
void
fc_cache_note_read(const FcTag *tag, int n)
{
	FcTag		t = *tag;

	if (likely(!fc_directory_touching()) || !RecoveryInProgress() || fc_breaks("K3-read"))
		return;
	for (int i = 0; i < n; i++, t.blk++)
		fc_directory_note_touched(fc_directory_hash(&t));
}

void
fc_cache_plan(FcRun *run, const FcTag *tag, int n, FcDataFd data_fd, void *arg)
{
	FcTag		t = *tag;
	bool		in_use = fc_cache_in_use();
	bool		watched;
	bool		prefetched;

	Assert(n > 0 && OidIsValid(tag->rel) && tag->blk <= MaxBlockNumber);
	n = Min(n, FC_MAX_RUN);
	run->tag = *tag;
	run->asks_again = false;
	run->arm = FC_ARM_NONE;
	run->forced = false;
	run->if_slow = false;
	fc_store_let_go(fc_setting_io_timeout);
	if (!in_use || fc_bypass_leaves(tag, n == 1))
	{
		if (!in_use)
			(void) fc_cache_takes_part();
		fc_cache_note_read(tag, n);
		run->n = n;
		memset(run->why, in_use ? FC_BYPASSED : FC_NOT_ACTIVE, n);
		run->from_flash = false;
		run->stream = NULL;
		return;
	}
	watched = n == 1 && fc_bypass_watches(tag);
	prefetched = watched && is_prefetched(tag);
	if (!fc_tag_equal(&known.tag, tag) || known.in != FC_MY_TRANSACTION)
	{
		known.n = 0;
		known.chosen = false;
	}
	known.tag = *tag;
	known.in = FC_MY_TRANSACTION;
	run->why[0] = choose(&t, 0, n > 1, data_fd, arg, &run->stream, &run->ref[0]);
	run->from_flash = run->why[0] == FC_FROM_FLASH;
	known.chosen = false;
	for (run->n = 1; run->n < n; run->n++)
	{
		t.blk++;
		known.source = run->why[run->n] = choose(&t, run->n, true, data_fd, arg, &known.stream, &run->ref[run->n]);
		known.chosen = (known.source == FC_FROM_FLASH) != run->from_flash;
		if (known.chosen)
			break;
		run->stream = known.stream;
	}
	Assert(run->n <= n);
	forget(run->n);
	if (unlikely(watched))
		fc_bypass_choose(run, prefetched, data_fd, arg);
}

int
fc_cache_combine(const FcTag *tag, int limit)
{
	FcTag		t = *tag;
	FcSlotRef	ref;
	bool		first;
	int			n;

	Assert(limit > 0 && limit <= FC_MAX_RUN);
	/* of a stream hardly any page is read from flash: don't split it */
	if (!fc_cache_in_use() || fc_bypass_leaves(tag, false) || !fc_store_may_read(FC_THE_DEVICE, fc_setting_io_timeout) ||
		fc_policy_in_stream(&streams, stream_key(tag), tag->blk))
		return limit;
	known.tag = *tag;
	known.in = FC_MY_TRANSACTION;
	known.n = 0;
	known.chosen = false;
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
	Prefetched *p;
	FcSlotRef	ref;

	if (!fc_cache_in_use() || !fc_store_may_read(FC_THE_DEVICE, fc_setting_io_timeout))
		return false;
	p = prefetched_of(key);
	p->rel = key;
	p->reads = PREFETCH_CREDIT;
	if (fc_bypass_leaves(tag, false) || !fc_directory_lookup(tag, fc_directory_hash(tag), &ref))
		return false;
	fc_cache_ahead_announce(tag);
	return true;
}

/* ---- reading ---- */

/* Counts a run that the caller reads from disk. */
static void
count_left_to_disk(const FcRun *run)
{
	int			held = 0;

	Assert(!run->from_flash);
	if (run->why[0] == FC_NOT_ACTIVE)
		return;
	if (run->why[0] == FC_BYPASSED)
	{
		fc_bypass_count(run);
		return;
	}
	fc_count_n(FC_MISSES, run->n);
	for (int i = 0; i < run->n; i++)
	{
		if (run->why[i] == FC_LEFT_TO_STREAM)
			fc_count(FC_STREAM_READS);
		else if (run->why[i] == FC_LEFT_UNBOUNDED)
			fc_count(FC_READS_UNBOUNDED);
		else if (run->why[i] == FC_LEFT_TO_PAGE_CACHE)
		{
			held++;
			/* wanted, wherever it came from */
			fc_directory_touch(&run->ref[i]);
			fc_extents_hit(&run->ref[i]);
		}
	}
	if (held == 0)
		return;
	fc_count_n(FC_OS_CACHE_HITS, held);
	fc_count_relation(fc_tag_rel(&run->tag), FC_REL_OS_CACHE_HITS, held, 0);
}

/* R3: is what was read the page that was looked up? */
static bool
is_good(const FcTag *tag, const FcSlotRef *ref, const char *page)
{
	bool		wrong;

	if (!fc_directory_unchanged(ref))
		return false;
	wrong = fc_page_checksum(tag, page) != ref->crc;
	if (unlikely(wrong) && fc_directory_doubtful(ref))
	{
		/* K12: it was written since the log was */
		fc_directory_drop(tag, fc_directory_hash(tag), ref);
		fc_count(FC_RESTORED_WRONG);
		return false;
	}
	if (unlikely(wrong))
	{
		fc_count(FC_CHECKSUM_FAILURES);
		fc_directory_retire(tag, fc_directory_hash(tag), ref);
		if (fc_store_wrong_page(ref->slot, WRONG_IN_A_ROW))
		{
			FcReason	why;

			fc_fail(&why, "The device is failing, or somebody else writes to it.",
					"the flash device returned wrong content for %d pages in a row", WRONG_IN_A_ROW);
			fc_cache_off_and_forget(&why);
		}
		return false;
	}
	if (unlikely(fc_store_any_wrong()))
		fc_store_good_page_slow(ref->slot);
	fc_directory_touch(ref);
	fc_extents_hit(ref);
	return true;
}

/* For pause points: the relation that is read, and the device, by numbers from 1 on. */
static uint32 point_about[2];

static uint32
about(int i)
{
	return point_about[i];
}

static int
at_point(const FcRun *run)
{
	if (unlikely(fc_failpoints_armed()))
	{
		point_about[0] = run->tag.rel;
		point_about[1] = fc_store_device_of(run->ref[0].slot) + 1;
	}
	return lengthof(point_about);
}

int
fc_cache_read(const FcRun *run, char *const *pages)
{
	FcSlotNo	slots[FC_MAX_RUN];
	uint64		begin;
	int			read;
	int			ahead;
	int			good;
	FcIo		io;
	FcTag		tag = run->tag;

	Assert(run->n > 0 && run->n <= FC_MAX_RUN);
	Assert(run->from_flash == (run->why[0] == FC_FROM_FLASH));
	Assert(run->from_flash == (run->why[run->n - 1] == FC_FROM_FLASH) || run->why[0] == FC_NOT_ACTIVE);
	if (run->why[0] != FC_NOT_ACTIVE)
		fc_handoff_note_allocations(run->n);
	if (!run->from_flash)
	{
		count_left_to_disk(run);
		return 0;
	}

	/* R2: no lock held; nothing leaks if this process dies here */
	Assert(!fc_directory_locked());
	for (int i = 0; i < run->n; i++)
		slots[i] = run->ref[i].slot;
	fc_failpoint_about(FC_FP_READ_LOOKED_UP, about, at_point(run));
	begin = fc_now_ns();
	if (run->stream != NULL)
		fc_cache_ahead_continue(run->stream, &tag, run->ref, run->n);
	read = ahead = fc_cache_ahead_take(&tag, run->ref, pages, run->n, &io);
	if (read < run->n && io == FC_IO_OK)
		read += fc_store_read(&slots[read], &pages[read], run->n - read, fc_setting_io_timeout, &io);
	Assert(ahead >= 0 && ahead <= read && read <= run->n);
	fc_failpoint_about(FC_FP_READ_DONE, about, at_point(run));
	if (unlikely(io == FC_IO_BROKEN))
		fc_cache_device_broken();
	if (unlikely(io != FC_IO_OK))
		fc_handoff_tell_trouble();	/* one of several devices may have gone
									 * off, or be suspect */

	/* R3 */
	for (good = 0; good < read && is_good(&tag, &run->ref[good], pages[good]); good++)
		tag.blk++;
	if (unlikely(good < run->n) && !(run->asks_again && good > 0))
		fc_count(FC_MISSES);	/* the one that the caller reads from disk */
	if (likely(good > 0))
	{
		uint64		end = fc_now_ns();

		fc_count_n(FC_HITS, good);
		fc_count_n(FC_READ_NS, end - begin);
		fc_count_relation(fc_tag_rel(&run->tag), FC_REL_HITS, good, end - begin);
		fc_count_latency(FC_LATENCY_FLASH_READ, end - begin);
		fc_times_flash_read(run, begin, end, good, ahead > 0);
		if (ahead == 0)
			fc_store_read_took(slots, good, end - begin);
		if (unlikely(run->arm == FC_ARM_FLASH) && ahead == 0)
			fc_bypass_flash_read(run, end - begin);
	}
	return good;
}

bool
fc_cache_verify(const FcTag *tag, const char *from_flash, const char *from_disk)
{
	int			where;

	fc_count(FC_VERIFY_CHECKS);
	if (fc_pages_equal(from_flash, from_disk, fc_directory_has_restored(), &where))
		return true;
	Assert(where >= 0 && where < BLCKSZ);
	fc_count(FC_VERIFY_FAILURES);
	fc_cache_invalidate(tag);
	if (pg_atomic_fetch_add_u32(&fc_cache->verify_logged, 1) < VERIFY_LOG_LIMIT)
		ereport(LOG_SERVER_ONLY,	/* it quotes the page */
				(errmsg("pg_flashcache: block %u of relation %u/%u/%u differs between flash and disk at byte %d",
						tag->blk, tag->spc, tag->db, tag->rel, where),
				 errdetail("Flash has LSN %X/%X and 0x%02X there, the disk LSN %X/%X and 0x%02X.",
						   LSN_FORMAT_ARGS(PageGetLSN((Page) from_flash)), (unsigned char) from_flash[where],
						   LSN_FORMAT_ARGS(PageGetLSN((Page) from_disk)), (unsigned char) from_disk[where])));
	return false;
}
