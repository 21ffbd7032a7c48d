/*-------------------------------------------------------------------------
 *
 * cache.c
 *	  State, reading and invalidating; filling is in cache_fill.c, and where a
 *	  page is best read from in cache_source.c.
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
#include "pagecmp.h"
#include "settings.h"
#include "stats.h"
#include "storage/bufpage.h"
#include "storage/shmem.h"
#include "store.h"
#include "utils/timestamp.h"

/* Truncating more blocks than this drops the whole relation's entries. */
#define RANGE_LIMIT 4096

/* So many pages in a row with wrong content: it is not the pages. */
#define WRONG_IN_A_ROW 16

/* verify = on: so many differences are logged in full. */
#define VERIFY_LOG_LIMIT 10

#define TRANCHE "pg_flashcache"

FcCacheShared *fc_cache = NULL;

/* State and reason of a server that has no shared memory of ours. */
static FcState startup_state = FC_STATE_DETACHED;
static char startup_reason[FC_REASON_LEN] = "pg_flashcache is not in shared_preload_libraries";
static char startup_hint[FC_HINT_LEN] = "";

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
	return add_size(size, mul_size(7, PG_CACHE_LINE_SIZE));
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
	pg_atomic_init_u64(&fc_cache->disk_timed_at, 0);
	for (int i = 0; i < FC_SHARED_TIMES; i++)
		pg_atomic_init_u32(&fc_cache->times_ns[i], 0);
	pg_atomic_init_u32(&fc_cache->verify_logged, 0);
	pg_atomic_init_u32(&fc_cache->wrong_in_a_row, 0);
	pg_atomic_init_u32(&fc_cache->pace_flash, 0);
	pg_atomic_init_u32(&fc_cache->pace_disk, 0);
	pg_atomic_init_u32(&fc_cache->pace_disk_samples, 0);
	fc_cache->since = GetCurrentTimestamp();
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
fc_cache_stay_out(FcState state, const char *reason, const char *hint)
{
	startup_state = state;
	strlcpy(startup_reason, reason, sizeof(startup_reason));
	strlcpy(startup_hint, hint, sizeof(startup_hint));
}

FcState
fc_cache_state(void)
{
	if (unlikely(fc_cache == NULL))
		return startup_state;
	return (FcState) pg_atomic_read_u32(&fc_cache->state);
}

bool
fc_cache_in_use(void)
{
	return fc_setting_enabled && fc_cache_state() == FC_STATE_ACTIVE;
}

bool
fc_cache_takes_part(void)
{
	FcState		state = fc_cache_state();

	/* paused: the disk's time tells when to come back */
	if (likely(fc_setting_enabled && (state == FC_STATE_ACTIVE || state == FC_STATE_PAUSED)))
		return true;
	fc_store_close();
	return false;
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
		case FC_STATE_PAUSED:
			return "paused";
		case FC_STATE_OFF:
			return "off";
	}
	return "unknown";
}

TimestampTz
fc_cache_reason(char *reason, size_t len)
{
	TimestampTz since;

	if (fc_cache == NULL)
	{
		strlcpy(reason, startup_reason, len);
		return 0;
	}
	SpinLockAcquire(&fc_cache->lock);
	strlcpy(reason, fc_cache->reason, len);
	since = fc_cache->since;
	SpinLockRelease(&fc_cache->lock);
	return since;
}

void
fc_cache_hint(char *hint, size_t len)
{
	if (fc_cache == NULL)
	{
		strlcpy(hint, startup_hint, len);
		return;
	}
	SpinLockAcquire(&fc_cache->lock);
	strlcpy(hint, fc_cache->hint, len);
	SpinLockRelease(&fc_cache->lock);
}

void
fc_cache_set_state(FcState state, const char *reason, const char *hint)
{
	TimestampTz now = GetCurrentTimestamp();
	bool		changed = false;
	FcState		old;

	SpinLockAcquire(&fc_cache->lock);
	old = fc_cache_state();
	if (state != FC_STATE_OFF || old == FC_STATE_ACTIVE ||
		old == FC_STATE_STARTING || old == FC_STATE_PAUSED)
	{
		pg_atomic_write_u32(&fc_cache->state, state);
		strlcpy(fc_cache->reason, reason, sizeof(fc_cache->reason));
		strlcpy(fc_cache->hint, hint, sizeof(fc_cache->hint));
		fc_cache->warn = state == FC_STATE_OFF || state == FC_STATE_PAUSED || state == FC_STATE_DETACHED;
		fc_cache->since = now;
		changed = true;
	}
	SpinLockRelease(&fc_cache->lock);
	if (!changed)
		return;
	if (old == FC_STATE_ACTIVE && (state == FC_STATE_OFF || state == FC_STATE_PAUSED))
		fc_count(FC_SWITCH_OFFS);
	fc_handoff_wake();
}

void
fc_cache_set_reason(const char *reason, const char *hint)
{
	SpinLockAcquire(&fc_cache->lock);
	strlcpy(fc_cache->reason, reason, sizeof(fc_cache->reason));
	strlcpy(fc_cache->hint, hint, sizeof(fc_cache->hint));
	SpinLockRelease(&fc_cache->lock);
}

void
fc_cache_device_broken(void)
{
	const FcStoreError *trouble = fc_store_trouble();

	/* O1 */
	fc_cache_set_state(FC_STATE_OFF, trouble->message, trouble->hint);
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

bool
fc_cache_filling_stopped(void)
{
	return fc_cache == NULL || pg_atomic_read_u32(&fc_cache->filling_stopped) != 0;
}

/* ---- read ---- */

/* Counts a run that the caller reads from disk. */
static void
count_left_to_disk(const FcRun *run)
{
	if (run->why[0] == FC_NOT_ACTIVE)
		return;
	fc_count_n(FC_MISSES, run->n);
	for (int i = 0; i < run->n; i++)
	{
		if (run->why[i] == FC_LEFT_TO_STREAM)
			fc_count(FC_STREAM_READS);
		else if (run->why[i] == FC_LEFT_UNBOUNDED)
			fc_count(FC_READS_UNBOUNDED);
		else if (run->why[i] == FC_LEFT_TO_PAGE_CACHE)
		{
			fc_count(FC_OS_CACHE_HITS);
			fc_directory_touch(&run->ref[i]);	/* wanted, wherever it came from */
		}
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
		if (pg_atomic_add_fetch_u32(&fc_cache->wrong_in_a_row, 1) >= WRONG_IN_A_ROW)
		{
			char		reason[FC_REASON_LEN];

			snprintf(reason, sizeof(reason), "the flash device returned wrong content for %d pages in a row", WRONG_IN_A_ROW);
			fc_cache_set_state(FC_STATE_OFF, reason, "The device is failing, or somebody else writes to it.");
		}
		return false;
	}
	if (unlikely(pg_atomic_read_u32(&fc_cache->wrong_in_a_row) != 0))
		pg_atomic_write_u32(&fc_cache->wrong_in_a_row, 0);
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

	fc_source_reading(run->stream != NULL);
	if (run->why[0] != FC_NOT_ACTIVE)
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
	if (run->stream != NULL)
		fc_cache_ahead_continue(run->stream, &tag, run->ref, run->n);
	read = ahead = fc_cache_ahead_take(&tag, run->ref, pages, run->n, &io);
	if (read < run->n && io == FC_IO_OK)
		read += fc_store_read(&slots[read], &pages[read], run->n - read, fc_setting_io_timeout, &io);
	fc_failpoint(FC_FP_READ_DONE);
	if (unlikely(io == FC_IO_BROKEN))
		fc_cache_device_broken();

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
		fc_source_flash_read(begin, end, good, run->n, ahead > 0);
		if (run->stream == NULL)
			fc_pace_flash(end - begin);
	}
	return good;
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
		ereport(LOG_SERVER_ONLY,	/* it quotes the page */
				(errmsg("pg_flashcache: block %u of relation %u/%u/%u differs between flash and disk at byte %d",
						tag->blk, tag->spc, tag->db, tag->rel, where),
				 errdetail("Flash has LSN %X/%X and 0x%02X there, the disk LSN %X/%X and 0x%02X.",
						   LSN_FORMAT_ARGS(PageGetLSN((Page) from_flash)), (unsigned char) from_flash[where],
						   LSN_FORMAT_ARGS(PageGetLSN((Page) from_disk)), (unsigned char) from_disk[where])));
	return false;
}

/* ---- invalidate ---- */

void
fc_cache_invalidate(const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);

	fc_directory_bump_page(hash);	/* I1 */
	fc_failpoint(FC_FP_INVALIDATE_BUMPED);
	fc_directory_remove(tag, hash, true);	/* I2 */
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

/*
 * So many epochs have passed since dead entries were last looked for: before
 * they come round, and a dead entry would be current again, the cache goes
 * off.  Only a writer that has stood still for hours lets it come to that.
 */
static void
look_at_epochs(uint32 unswept)
{
	FcState		state = fc_cache_state();

	if (fc_directory_sweep_urgent() && state == FC_STATE_ACTIVE)
		fc_handoff_wake();
	if (unlikely(unswept >= FC_EPOCHS_UNSWEPT) &&
		(state == FC_STATE_ACTIVE || state == FC_STATE_PAUSED))
		fc_cache_set_state(FC_STATE_OFF, "the writer has not come by for too long",
						   "See what the process \"pg_flashcache writer\" waits for, then call pg_flashcache_enable().");
}

void
fc_cache_invalidate_relation(FcRel rel)
{
	look_at_epochs(fc_directory_bump_relation(rel));
}

void
fc_cache_invalidate_database(Oid db)
{
	look_at_epochs(fc_directory_bump_database(db));
}

/* ---- eviction of a dirty page ---- */

void
fc_cache_evicted(const FcTag *tag, const char *page)
{
	FcGuard		guard;

	if (!fc_cache_in_use() || !fc_handoff_has_writer())
		return;
	if (!fc_cache_worth_filling())
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return;
	}

	/*
	 * E1.  The page's I/O is still ours, so nobody can have written it since,
	 * nor truncated or dropped the relation: those drop the buffer first and
	 * wait for us.  The guard taken now is that of the page's content.
	 */
	guard = fc_directory_guard(fc_directory_hash(tag));
	if (!fc_handoff_push(tag, &guard, page))
		fc_count(FC_SKIP_OVERLOADED);
}
