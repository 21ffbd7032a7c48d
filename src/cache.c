/*-------------------------------------------------------------------------
 *
 * cache.c
 *	  State, reading and invalidating; filling is in cache_fill.c.
 *
 * Steps R1-R3 and I1-I2 are those of src/README.md.
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
#include "failpoint.h"
#include "handoff.h"
#include "oscache.h"
#include "pagecmp.h"
#include "settings.h"
#include "stats.h"
#include "storage/bufpage.h"
#include "storage/shmem.h"
#include "store.h"

/* Truncating more blocks than this drops the whole relation's entries. */
#define RANGE_LIMIT 4096

/* A process shares its mean times after so many samples. */
#define TIMES_SHARED_EVERY 32

/* After a prefetch the next reads of the relation are no stream of ours. */
#define PREFETCH_CREDIT 64

/* verify = on: so many differences are logged in full. */
#define VERIFY_LOG_LIMIT 10

#define TRANCHE "pg_flashcache"

FcCacheShared *fc_cache = NULL;

/* State and reason of a server that has no shared memory of ours. */
static FcState startup_state = FC_STATE_DETACHED;
static char startup_reason[FC_REASON_LEN] = "pg_flashcache is not in shared_preload_libraries";

/* This process's view of where reads come from. */
static FcStreams streams;
static FcTimes times;
static bool in_stream;			/* was the last run part of one? */
static uint64 prefetched_rel;	/* relation the server prefetches itself */
static uint32 prefetched_reads; /* how many more reads that is believed */

const char *
fc_cache_tranche(void)
{
	return TRANCHE;
}

int
fc_cache_locks(void)
{
	return fc_directory_locks();
}

Size
fc_cache_shmem_size(uint32 slots)
{
	Size		size = CACHELINEALIGN(sizeof(FcCacheShared));

	size = add_size(size, fc_directory_shmem_size(slots));
	size = add_size(size, fc_handoff_shmem_size(slots));
	size = add_size(size, fc_store_shmem_size());
	size = add_size(size, fc_stats_shmem_size());
	size = add_size(size, fc_failpoint_shmem_size());
	/* ShmemInitStruct() aligns each of the six; the locks are one more */
	return add_size(size, 7 * PG_CACHE_LINE_SIZE);
}

void
fc_cache_shmem_init(uint32 slots, Size memory)
{
	bool		found;

	fc_cache = ShmemInitStruct("pg_flashcache", sizeof(FcCacheShared), &found);
	memset(fc_cache, 0, sizeof(*fc_cache));
	pg_atomic_init_u32(&fc_cache->state, FC_STATE_STARTING);
	pg_atomic_init_u32(&fc_cache->filling_stopped, 0);
	pg_atomic_init_u32(&fc_cache->probe_interval, 1);
	for (int i = 0; i < FC_SHARED_TIMES; i++)
		pg_atomic_init_u32(&fc_cache->times_ns[i], 0);
	pg_atomic_init_u32(&fc_cache->verify_logged, 0);
	SpinLockInit(&fc_cache->lock);
	fc_cache->memory = memory;

	fc_stats_shmem_init();
	fc_failpoint_shmem_init();
	fc_store_shmem_init();
	fc_handoff_shmem_init(slots);
	fc_directory_shmem_init(slots, TRANCHE);
}

Size
fc_cache_memory(void)
{
	return fc_cache ? fc_cache->memory : 0;
}

/* ---- state ---- */

void
fc_cache_stay_out(FcState state, const char *reason)
{
	startup_state = state;
	strlcpy(startup_reason, reason, sizeof(startup_reason));
}

FcState
fc_cache_state(void)
{
	if (unlikely(fc_cache == NULL))
		return startup_state;
	return (FcState) pg_atomic_read_u32(&fc_cache->state);
}

const char *
fc_state_name(FcState state)
{
	switch (state)
	{
		case FC_STATE_DETACHED:
			return "detached";
		case FC_STATE_DISABLED:
			return "disabled";
		case FC_STATE_STARTING:
			return "starting";
		case FC_STATE_ACTIVE:
			return "active";
		case FC_STATE_OFF:
			return "off";
	}
	return "unknown";
}

void
fc_cache_reason(char *reason, size_t len)
{
	if (fc_cache == NULL)
	{
		strlcpy(reason, startup_reason, len);
		return;
	}
	SpinLockAcquire(&fc_cache->lock);
	strlcpy(reason, fc_cache->reason, len);
	SpinLockRelease(&fc_cache->lock);
}

void
fc_cache_set_state(FcState state, const char *reason, const char *hint)
{
	bool		changed = false;

	SpinLockAcquire(&fc_cache->lock);
	if (state != FC_STATE_OFF ||
		fc_cache_state() == FC_STATE_ACTIVE || fc_cache_state() == FC_STATE_STARTING)
	{
		pg_atomic_write_u32(&fc_cache->state, state);
		strlcpy(fc_cache->reason, reason, sizeof(fc_cache->reason));
		strlcpy(fc_cache->hint, hint, sizeof(fc_cache->hint));
		fc_cache->warn = state == FC_STATE_OFF || state == FC_STATE_DETACHED;
		changed = true;
	}
	SpinLockRelease(&fc_cache->lock);
	if (changed)
		fc_handoff_wake();
}

void
fc_cache_device_broken(void)
{
	fc_cache_set_state(FC_STATE_OFF, "three failures in a row reading from or writing to the flash device",
					   "Check the device, then call pg_flashcache_enable().");
}

bool
fc_cache_take_warning(char *reason, char *hint)
{
	bool		warn;

	SpinLockAcquire(&fc_cache->lock);
	warn = fc_cache->warn;
	fc_cache->warn = false;
	strlcpy(reason, fc_cache->reason, FC_REASON_LEN);
	strlcpy(hint, fc_cache->hint, FC_HINT_LEN);
	SpinLockRelease(&fc_cache->lock);
	return warn;
}

void
fc_cache_stop_filling(void)
{
	pg_atomic_write_u32(&fc_cache->filling_stopped, 1);
}

/* ---- where to read from ---- */

static uint64
stream_key(const FcTag *tag)
{
	return ((uint64) tag->db << 32) ^ ((uint64) tag->spc << 16) ^ tag->rel;
}

/* Learns from the other processes, and tells them, now and then. */
static void
share_times(void)
{
	double	   *mine[FC_SHARED_TIMES] = {
		[FC_TIME_DISK_STREAM] = &times.disk_stream,
		[FC_TIME_DISK_SINGLE] = &times.disk_single,
		[FC_TIME_FLASH] = &times.flash,
		[FC_TIME_FLASH_RUN] = &times.flash_run,
	};
	static uint32 samples = 0;

	if (samples++ % TIMES_SHARED_EVERY != 0)
		return;
	for (int i = 0; i < FC_SHARED_TIMES; i++)
	{
		uint32		common = pg_atomic_read_u32(&fc_cache->times_ns[i]);

		if (*mine[i] == 0)
			*mine[i] = common;
		else if (common == 0)
			pg_atomic_write_u32(&fc_cache->times_ns[i], (uint32) Min(*mine[i], 4e9));
		else
		{
			double		mean = common + (*mine[i] - common) / 4;

			pg_atomic_write_u32(&fc_cache->times_ns[i], (uint32) Min(mean, 4e9));
		}
	}
}

void
fc_cache_disk_read(uint64 ns, int n)
{
	fc_count_n(FC_DISK_READS, n);
	fc_count_n(FC_DISK_READ_NS, ns);
	/* outside a stream a request costs a seek, however many pages it has */
	if (in_stream)
		fc_policy_mean(&times.disk_stream, ns / n);
	else
		fc_policy_mean(&times.disk_single, ns);
	share_times();
	in_stream = false;
}

void
fc_cache_disk_read_started(int n)
{
	fc_count_n(FC_DISK_READS, n);
	in_stream = false;
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

	if (prefetched_reads > 0 && key == prefetched_rel)
	{
		prefetched_reads--;
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
	static uint64 last_asked = 0;
	static uint64 last_found = 0;
	uint64		asked = fc_stats_total(FC_PROBES);
	uint64		found = fc_stats_total(FC_PROBES_FOUND);

	if (asked - last_asked < FC_PROBE_WINDOW)
		return;
	pg_atomic_write_u32(&fc_cache->probe_interval,
						fc_policy_probe_interval(asked - last_asked, found - last_found));
	last_asked = asked;
	last_found = found;
}

/* ---- read ---- */

/* Where a page is best read from, and why not from flash. */
typedef enum Source
{
	FROM_FLASH,
	NOT_ACTIVE,					/* no cache: not even a miss */
	NOT_ON_FLASH,
	LEFT_TO_STREAM,
	LEFT_TO_PAGE_CACHE,
} Source;

static Source
choose_source(const FcTag *tag, bool together, FcDataFd data_fd, void *arg,
			  bool *streaming, FcSlotRef *ref)
{
	FcStream   *stream = follow_stream(tag);

	*streaming = stream != NULL;
	if (!fc_directory_lookup(tag, fc_directory_hash(tag), ref)) /* R1 */
		return NOT_ON_FLASH;
	if (fc_setting_verify)
		return FROM_FLASH;
	if (stream != NULL)
		return leave_stream(stream, tag, together) ? FROM_FLASH : LEFT_TO_STREAM;
	if (!fc_cache_ahead_has(tag, ref) && in_page_cache(tag, data_fd, arg))
		return LEFT_TO_PAGE_CACHE;
	return FROM_FLASH;
}

void
fc_cache_plan(FcRun *run, const FcTag *tag, int n, FcDataFd data_fd, void *arg)
{
	FcTag		t = *tag;
	bool		streaming = false;

	n = Min(n, FC_MAX_RUN);
	run->tag = *tag;
	if (fc_cache_state() != FC_STATE_ACTIVE)
	{
		run->n = n;
		run->why = NOT_ACTIVE;
		run->from_flash = false;
		run->in_stream = false;
		return;
	}
	run->why = choose_source(&t, n > 1, data_fd, arg, &streaming, &run->ref[0]);
	run->in_stream = streaming;
	for (run->n = 1; run->n < n; run->n++)
	{
		t.blk++;
		if (choose_source(&t, true, data_fd, arg, &streaming, &run->ref[run->n]) != (Source) run->why)
			break;
	}
	run->from_flash = run->why == FROM_FLASH;
}

/* Counts a run that the caller reads from disk. */
static void
count_left_to_disk(const FcRun *run)
{
	if (run->why == NOT_ACTIVE)
		return;
	fc_count_n(FC_MISSES, run->n);
	if (run->why == LEFT_TO_STREAM)
		fc_count_n(FC_STREAM_READS, run->n);
	if (run->why == LEFT_TO_PAGE_CACHE)
	{
		fc_count_n(FC_OS_CACHE_HITS, run->n);
		for (int i = 0; i < run->n; i++)
			fc_directory_touch(&run->ref[i]);	/* wanted, wherever it came from */
	}
}

/* R3: is what was read the page that was looked up? */
static bool
is_good(const FcTag *tag, const FcSlotRef *ref, const char *page)
{
	if (!fc_directory_unchanged(ref))
		return false;
	if (unlikely(fc_page_checksum(tag, page) != ref->crc))
	{
		fc_count(FC_CHECKSUM_FAILURES);
		fc_directory_retire(tag, fc_directory_hash(tag), ref);
		return false;
	}
	fc_directory_touch(ref);
	return true;
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

	in_stream = run->in_stream;
	if (run->why != NOT_ACTIVE)
		fc_handoff_note_allocations(run->n);
	if (!run->from_flash)
	{
		count_left_to_disk(run);
		return 0;
	}

	/* R2: no lock held; nothing leaks if this process dies here */
	for (int i = 0; i < run->n; i++)
		slots[i] = run->ref[i].slot;
	fc_failpoint(FC_FP_READ_LOOKED_UP);
	begin = fc_now_ns();
	if (run->in_stream)
	{
		FcTag		after = tag;

		after.blk += run->n;
		fc_cache_ahead_continue(&after);
	}
	read = ahead = fc_cache_ahead_take(&tag, run->ref, pages, run->n, &io);
	if (read < run->n && io != FC_IO_BROKEN)
		read += fc_store_read(&slots[read], &pages[read], run->n - read, &io);
	fc_failpoint(FC_FP_READ_DONE);
	if (unlikely(io == FC_IO_BROKEN))
		fc_cache_device_broken();

	/* R3 */
	for (good = 0; good < read && is_good(&tag, &run->ref[good], pages[good]); good++)
		tag.blk++;
	if (unlikely(good < run->n))
		fc_count(FC_MISSES);	/* the one that the caller reads from disk */
	if (likely(good > 0))
	{
		uint64		ns = fc_now_ns() - begin;

		fc_count_n(FC_HITS, good);
		fc_count_n(FC_READ_BYTES, (uint64) good * BLCKSZ);
		fc_count_n(FC_READ_NS, ns);
		if (run->n == 1 && ahead == 0)
			fc_policy_mean(&times.flash, ns);
		else if (ahead > 0 || good >= FC_STREAM_LENGTH)
			fc_policy_mean(&times.flash_run, ns / good);
		share_times();
	}
	return good;
}

int
fc_cache_combine(const FcTag *tag, int limit)
{
	FcTag		t = *tag;
	FcSlotRef	ref;
	bool		first;
	int			n;

	/* of a stream hardly any page is read from flash: don't split it */
	if (fc_cache_state() != FC_STATE_ACTIVE ||
		fc_policy_in_stream(&streams, stream_key(tag), tag->blk))
		return limit;
	first = fc_directory_lookup(&t, fc_directory_hash(&t), &ref);
	for (n = 1; n < limit; n++)
	{
		t.blk++;
		if (fc_directory_lookup(&t, fc_directory_hash(&t), &ref) != first)
			break;
	}
	return n;
}

bool
fc_cache_prefetch(const FcTag *tag)
{
	FcSlotRef	ref;

	if (fc_cache_state() != FC_STATE_ACTIVE)
		return false;
	prefetched_rel = stream_key(tag);
	prefetched_reads = PREFETCH_CREDIT;
	if (!fc_directory_lookup(tag, fc_directory_hash(tag), &ref))
		return false;
	fc_cache_ahead_start(tag, &ref);
	return true;
}

bool
fc_cache_verify(const FcTag *tag, const char *from_flash, const char *from_disk)
{
	int			where;

	fc_count(FC_VERIFY_CHECKS);
	if (fc_pages_equal(from_flash, from_disk, &where))
		return true;
	fc_count(FC_VERIFY_FAILURES);
	fc_cache_invalidate(tag);
	if (pg_atomic_fetch_add_u32(&fc_cache->verify_logged, 1) < VERIFY_LOG_LIMIT)
		ereport(LOG,
				(errmsg("pg_flashcache: block %u of relation %u/%u/%u differs between flash and disk at byte %d",
						tag->blk, tag->spc, tag->db, tag->rel, where),
				 errdetail("Flash has LSN %X/%X and 0x%02X there, the disk LSN %X/%X and 0x%02X.",
						   LSN_FORMAT_ARGS(PageGetLSN((Page) from_flash)), (unsigned char) from_flash[where],
						   LSN_FORMAT_ARGS(PageGetLSN((Page) from_disk)), (unsigned char) from_disk[where])));
	return false;
}

/* ---- invalidate ---- */

uint32
fc_cache_invalidate(const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);
	uint32		generation;

	generation = fc_directory_bump_page(hash);	/* I1 */
	fc_failpoint(FC_FP_INVALIDATE_BUMPED);
	fc_directory_remove(tag, hash, true);	/* I2 */
	return generation;
}

void
fc_cache_invalidate_range(FcRel rel, BlockNumber from, BlockNumber to)
{
	FcTag		tag = {rel.spc, rel.db, rel.rel, 0};

	if (from >= to)
		return;
	if (to - from > RANGE_LIMIT)
	{
		fc_cache_invalidate_relation(rel);
		return;
	}
	for (tag.blk = from; tag.blk < to; tag.blk++)
		fc_cache_invalidate(&tag);
}

void
fc_cache_invalidate_relation(FcRel rel)
{
	fc_directory_bump_relation(rel);
}

void
fc_cache_invalidate_database(Oid db)
{
	fc_directory_bump_database(db);
}

/* ---- eviction of a dirty page ---- */

bool
fc_cache_worth_filling(void)
{
	FcTimes		common = {
		.disk_single = pg_atomic_read_u32(&fc_cache->times_ns[FC_TIME_DISK_SINGLE]),
		.flash = pg_atomic_read_u32(&fc_cache->times_ns[FC_TIME_FLASH]),
	};

	return fc_setting_os_cache_probe == FC_PROBE_OFF || fc_policy_worth_filling(&common);
}

void
fc_cache_evicted(const FcTag *tag, uint32 generation, const char *page)
{
	FcGuard		guard;

	if (fc_cache_state() != FC_STATE_ACTIVE || !fc_handoff_has_writer())
		return;
	if (!fc_cache_worth_filling())
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return;
	}

	/*
	 * E1.  The page's I/O is still ours, so nobody can have truncated or
	 * dropped the relation since the write: those drop the buffer first and
	 * wait for us.  The epoch read now is that of the page's content.
	 */
	guard.generation = generation;
	guard.epoch = fc_directory_epoch(fc_tag_rel(tag));
	if (!fc_handoff_push(tag, &guard, page))
		fc_count(FC_SKIP_OVERLOADED);
}
