/*-------------------------------------------------------------------------
 *
 * cache_fill.c
 *	  Filling the cache; runs in the writer process only.
 *
 * Steps F1-F6 and E1-E2 are those of src/README.md.  Pages are copied one by
 * one (F1-F3), written together (F4, F5), published one by one (F6).  A fill
 * that fails at any step leaves nothing behind but a count.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "bufscan.h"
#include "cache.h"
#include "cache_internal.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "pagecmp.h"
#include "policy.h"
#include "settings.h"
#include "stats.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/checksum.h"
#include "store.h"
#include "utils/memutils.h"

/* Pages written and published together; 512 kB of the writer's memory. */
#define BATCH FC_STORE_MAX_RUN

/* Slots read to learn how fast the device is, each alone and all together. */
#define MEASURED 16

/* Once so many pages on flash were left to streams, flash is measured anew; 32 MB. */
#define LEFT_TO_STREAMS 4096

/* Slots looked at to find some in use. */
#define LOOKED_AT 4096

/* Slots swept in one go: 1 ms, and 35 to 90 ms if all of them are to be freed. */
#define SWEEP_STEP 65536

/* A sweep rests for so many times as long as it took: a tenth of one processor at most. */
#define SWEEP_RESTS 9

typedef struct Staged
{
	FcTag		tag;
	uint64		hash;
	FcGuard		guard;
	uint32		crc;			/* of the copy */
} Staged;

static Staged staged[BATCH];
static char *pages[BATCH];
static int	nstaged = 0;

static FcBudget budget;
static FcSlotNo sweep_at = FC_NO_SLOT;	/* FC_NO_SLOT: no sweep under way */

void
fc_cache_fill_start(void)
{
	char	   *memory = MemoryContextAlloc(TopMemoryContext, (Size) BATCH * BLCKSZ);

	for (int i = 0; i < BATCH; i++)
		pages[i] = memory + (Size) i * BLCKSZ;
	nstaged = 0;
	sweep_at = 0;				/* a writer before this one may have left one undone */
	fc_directory_reclaim();
}

void
fc_cache_purge(void)
{
	nstaged = 0;
	sweep_at = FC_NO_SLOT;
	fc_handoff_clear();			/* guards of unknown age, too */
	fc_directory_purge();
	fc_cache_scrub_again();
}

static int
compare_times(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* The device is measured for no longer than this, and once at least. */
#define MEASURE_NS UINT64CONST(500000000)

/* A page that no other slot gets. */
static void
make_trial(char *page, FcSlotNo slot)
{
	for (int i = 0; i < BLCKSZ; i += sizeof(slot))
	{
		FcSlotNo	word = slot ^ (FcSlotNo) i;

		memcpy(page + i, &word, sizeof(word));
	}
}

/*
 * Median time of reading n slots, one alone (each time another) or all at
 * once; 0 if they can't be read.  If they hold trials: or if these are wrong.
 */
static uint64
measure(const FcSlotNo *slots, int nslots, int n, bool trials, FcIo *io)
{
	uint64		ns[MEASURED];
	uint64		sum = 0;
	int			samples = 0;

	while (samples < MEASURED && sum < MEASURE_NS)
	{
		const FcSlotNo *wanted = n == 1 ? &slots[samples % nslots] : slots;

		if (fc_store_try_read(wanted, &pages[1], n, fc_setting_io_timeout, &ns[samples], io) != n)
			return 0;
		ns[samples] = Max(ns[samples], 1);
		sum += ns[samples++];
		for (int i = 0; trials && i < n; i++)
		{
			make_trial(pages[0], wanted[i]);
			if (memcmp(pages[0], pages[1 + i], BLCKSZ) != 0)
				return 0;
		}
	}
	qsort(ns, samples, sizeof(ns[0]), compare_times);
	return ns[samples / 2];
}

/* Writes trials, at least one; returns how many. */
static int
write_trials(const FcSlotNo *slots, int nslots, FcIo *io)
{
	uint64		begin = fc_now_ns();
	int			written = 0;

	*io = FC_IO_OK;
	while (written < nslots && (written == 0 || fc_now_ns() - begin < MEASURE_NS))
	{
		make_trial(pages[0], slots[written]);
		*io = fc_store_write(slots[written], &pages[0], 1, fc_setting_io_timeout);
		if (*io != FC_IO_OK)
			return 0;
		written++;
	}
	return written;
}

/* Measures on neighbouring slots; the times are those that all begin with. */
static bool
measure_all(const FcSlotNo *slots, int nslots, bool trials, FcIo *io)
{
	uint64		one = measure(slots, nslots, 1, trials, io);
	uint64		all = one > 0 ? measure(slots, nslots, nslots, trials, io) : 0;

	if (all == 0)
		return false;
	pg_atomic_write_u32(&fc_cache->times_ns[FC_TIME_FLASH], (uint32) Min(one, PG_UINT32_MAX));
	pg_atomic_write_u32(&fc_cache->times_ns[FC_TIME_FLASH_RUN],
						(uint32) Min(all / nslots, PG_UINT32_MAX));
	return true;
}

bool
fc_cache_try_flash(FcStoreError *error)
{
	FcSlotNo	slots[MEASURED];
	int			nslots = fc_directory_reserve(MEASURED, slots);
	FcIo		io = FC_IO_OK;
	int			written;
	bool		good;

	/* a slot never written is answered without asking the device */
	written = write_trials(slots, nslots, &io);
	good = written > 0 && measure_all(slots, written, true, &io);
	for (int i = 0; i < nslots; i++)
		fc_directory_release(slots[i]);
	if (good)
	{
		pg_atomic_write_u32(&fc_cache->pace_flash, pg_atomic_read_u32(&fc_cache->times_ns[FC_TIME_FLASH]));
		pg_atomic_write_u32(&fc_cache->wrong_in_a_row, 0);
		return true;
	}
	if (io == FC_IO_BROKEN)
		*error = *fc_store_trouble();
	else
	{
		strlcpy(error->message, written == 0 ? "a page could not be written to the flash device" :
				"a page written to the flash device could not be read back", sizeof(error->message));
		strlcpy(error->hint, "Check the device.", sizeof(error->hint));
	}
	return false;
}

FcIo
fc_cache_still_slow(bool *slow)
{
	uint32		all = fc_directory_slots();
	uint64		disk = pg_atomic_read_u32(&fc_cache->pace_disk);
	FcSlotNo	slots[MEASURED];
	int			nslots = 0;
	FcIo		io = FC_IO_OK;
	uint64		one;

	/* slots in use, from all over the device */
	for (int i = 0; i < MEASURED; i++)
	{
		FcSlotNo	slot = (FcSlotNo) ((uint64) all * i / MEASURED);
		FcSlotNo	end = (FcSlotNo) ((uint64) all * (i + 1) / MEASURED);
		FcPageInfo	page;

		while (slot < end && !fc_directory_page(slot, &page))
			slot++;
		if (slot < end)
			slots[nslots++] = slot;
	}
	if (nslots == 0)
		slots[nslots++] = 0;	/* invalidated meanwhile: it was written once */
	one = measure(slots, nslots, 1, false, &io);
	*slow = one == 0 || (fc_setting_pause_when_slow && !fc_policy_fast_again(one, disk));
	if (*slow)
		fc_pace_found_slow();
	else
		pg_atomic_write_u32(&fc_cache->pace_flash, (uint32) Min(one, PG_UINT32_MAX));
	return io;
}

bool
fc_cache_may_write(void)
{
	return fc_policy_spend(&budget, fc_setting_write_limit, fc_now_ns(), BLCKSZ);
}

/* Neighbouring slots in use, from a random place on; false if there are none so soon. */
static bool
some_slots_in_use(FcSlotNo *slots)
{
	uint32		all = fc_directory_slots();
	FcSlotNo	slot = (FcSlotNo) pg_prng_uint64_range(&pg_global_prng_state, 0, all - 1);
	int			n = 0;

	for (int i = 0; i < LOOKED_AT && n < MEASURED; i++, slot++)
	{
		FcPageInfo	info;

		if (slot == all)
			slot = n = 0;
		if (fc_directory_page(slot, &info))
			slots[n++] = slot;
		else
			n = 0;
	}
	return n == MEASURED;
}

void
fc_cache_review_streams(void)
{
	static uint64 last_left = 0;
	uint64		left = fc_stats_total(FC_STREAM_READS);
	FcSlotNo	slots[MEASURED];
	FcIo		io = FC_IO_OK;

	if (left - last_left < LEFT_TO_STREAMS)
		return;
	last_left = left;
	if (some_slots_in_use(slots))
		(void) measure_all(slots, MEASURED, false, &io);
	if (io == FC_IO_BROKEN)
		fc_cache_device_broken();
}

/* May a page be written now?  Counts the reason if not. */
static bool
may_fill(void)
{
	/* under these settings a clean buffer may differ from the disk */
	if (zero_damaged_pages || ignore_checksum_failure ||
		pg_atomic_read_u32(&fc_cache->filling_stopped))
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	if (!fc_cache_may_write())
	{
		fc_count(FC_SKIP_WRITE_LIMIT);
		return false;
	}
	return true;
}

static bool
is_wanted(const FcTag *tag, uint64 hash)
{
	if (!fc_cache_worth_filling())
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return false;
	}
	switch (fc_directory_offer(tag, hash, (FcAdmission) fc_setting_admission))
	{
		case FC_OFFER_EXISTS:
			fc_count(FC_SKIP_EXISTS);
			return false;
		case FC_OFFER_NOT_USEFUL:
			fc_count(FC_SKIP_NOT_USEFUL);
			return false;
		case FC_OFFER_WANTED:
			break;
	}
	return may_fill();
}

/* F3: is the copied page one to keep? */
static bool
is_sound(const char *page)
{
	/*
	 * Asked again: since may_fill() the frame may have got the page anew from
	 * disk, damaged.  That process sets the flag before it makes the buffer
	 * valid, and F2 has seen it valid.
	 */
	if (pg_atomic_read_u32(&fc_cache->filling_stopped))
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	if (PageIsNew((Page) page))
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return false;
	}
	if (!fc_page_sane(page))
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	return true;
}

/* F3 of a page in the pool: what is on disk, but for hints? */
static bool
is_fit(char *page, BlockNumber blk)
{
	if (!is_sound(page))
		return false;
	if (fc_page_ahead_of_disk(page))
	{
		fc_count(FC_SKIP_NOT_CURRENT);
		return false;
	}
	/* the frame's own checksum dates from its last write or earlier */
	FC_SET_PAGE_CHECKSUM((Page) page, blk);
	return true;
}

/* F3 of a page that was written: it is what is on disk, and has the checksum made for that. */
static bool
is_as_written(const char *page, BlockNumber blk)
{
	if (!is_sound(page))
		return false;
	if (DataChecksumsEnabled() &&
		pg_checksum_page((char *) page, blk) != ((const PageHeaderData *) page)->pd_checksum)
	{
		fc_count(FC_SKIP_CORRUPT);
		return false;
	}
	return true;
}

static void
stage(const FcTag *tag, uint64 hash, const FcGuard *guard)
{
	staged[nstaged].tag = *tag;
	staged[nstaged].hash = hash;
	staged[nstaged].guard = *guard;
	staged[nstaged].crc = fc_page_checksum(tag, pages[nstaged]);
	if (++nstaged == BATCH)
		fc_cache_fill_flush();
}

/* For pause points: whose pages these are. */
static uint32
rel_staged(int i)
{
	return staged[i].tag.rel;
}

FcFill
fc_cache_fill_from_pool(uint32 frame, const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);
	char	   *page = pages[nstaged];
	FcGuard		guard;

	if (!is_wanted(tag, hash))
		return FC_FILL_DONE;
	guard = fc_directory_guard(hash);	/* F1 */
	fc_failpoint_of(FC_FP_FILL_BEGIN, tag->rel);
	switch (fc_bufscan_copy_if_clean(frame, tag, page)) /* F2 */
	{
		case FC_COPY_PINNED:
			fc_count(FC_SKIP_PINNED);
			return FC_FILL_LATER;
		case FC_COPY_NOT_CURRENT:
			fc_count(FC_SKIP_NOT_CURRENT);
			return FC_FILL_DONE;
		case FC_COPY_DONE:
			break;
	}
	fc_failpoint_of(FC_FP_FILL_COPIED, tag->rel);
	if (is_fit(page, tag->blk)) /* F3 */
		stage(tag, hash, &guard);
	return FC_FILL_DONE;
}

bool
fc_cache_fill_from_handoff(void)
{
	char	   *page = pages[nstaged];
	FcTag		tag;
	FcGuard		guard;
	uint64		hash;

	if (!fc_handoff_pop(&tag, &guard, page))	/* E2 */
		return false;
	hash = fc_directory_hash(&tag);
	if (is_wanted(&tag, hash) && is_as_written(page, tag.blk))	/* F3 */
		stage(&tag, hash, &guard);
	return true;
}

/* F6 for one page whose slot has been written. */
static void
publish(const Staged *s, FcSlotNo slot)
{
	switch (fc_directory_publish(slot, &s->tag, s->hash, &s->guard, s->crc))
	{
		case FC_PUBLISH_DONE:
			fc_count(FC_INSERTS);
			break;
		case FC_PUBLISH_MODIFIED:
			fc_count(FC_SKIP_MODIFICATION);
			break;
		case FC_PUBLISH_EXISTS:
			fc_count(FC_SKIP_EXISTS);
			break;
	}
}

/*
 * Leaves out what was modified or dropped since it was copied.  F6 would not
 * publish it; but neither shall it come to the device, since it may have been
 * erased there meanwhile (Z2).
 */
static void
leave_out_stale(void)
{
	int			n = 0;

	for (int i = 0; i < nstaged; i++)
	{
		char	   *page = pages[i];

		if (!fc_directory_guard_holds(&staged[i].tag, staged[i].hash, &staged[i].guard))
		{
			fc_count(FC_SKIP_MODIFICATION);
			continue;
		}
		pages[i] = pages[n];
		pages[n] = page;
		staged[n++] = staged[i];
	}
	nstaged = n;
}

void
fc_cache_fill_flush(void)
{
	FcSlotNo	slots[BATCH];
	int			nslots;
	int			run;

	leave_out_stale();
	if (nstaged == 0)
		return;

	fc_failpoint_about(FC_FP_FILL_STAGED, rel_staged, nstaged);
	nslots = fc_directory_reserve(nstaged, slots);	/* F4 */
	fc_failpoint_about(FC_FP_FILL_RESERVED, rel_staged, nstaged);
	fc_count_n(FC_SKIP_OVERLOADED, nstaged - nslots);

	/* neighbouring slots are written by one call */
	for (int first = 0; first < nslots; first += run)
	{
		FcIo		io = FC_IO_FAILED;

		for (run = 1; first + run < nslots && slots[first + run] == slots[first] + run; run++)
			;
		/* a device that was given up meanwhile is not tried again */
		if (fc_cache_state() == FC_STATE_ACTIVE)
			io = fc_store_write(slots[first], &pages[first], run, fc_setting_io_timeout);	/* F5 */
		fc_failpoint_about(FC_FP_FILL_WRITTEN, rel_staged, nstaged);
		for (int i = first; i < first + run; i++)
		{
			if (io == FC_IO_OK)
				publish(&staged[i], slots[i]);
			else
				fc_directory_release(slots[i]);
		}
		if (io == FC_IO_BROKEN)
			fc_cache_device_broken();
	}
	nstaged = 0;
}

bool
fc_cache_sweep(void)
{
	static uint32 epoch;
	static uint64 took;
	static uint64 rests_until = 0;
	uint64		begin = fc_now_ns();
	bool		more;

	if (sweep_at == FC_NO_SLOT)
	{
		if (!fc_directory_sweep_wanted() || (begin < rests_until && !fc_directory_sweep_urgent()))
			return false;
		sweep_at = 0;
	}
	if (sweep_at == 0)
	{
		epoch = fc_directory_sweep_begin();
		took = 0;
	}
	more = fc_directory_sweep(&sweep_at, SWEEP_STEP, epoch);
	took += fc_now_ns() - begin;
	if (more)
		return true;
	sweep_at = FC_NO_SLOT;
	rests_until = fc_now_ns() + took * SWEEP_RESTS;
	return false;
}
