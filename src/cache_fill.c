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

#include "bufscan.h"
#include "cache.h"
#include "cache_internal.h"
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
#include "store.h"
#include "utils/memutils.h"

/* Pages written and published together; 512 kB of the writer's memory. */
#define BATCH FC_STORE_MAX_RUN

/* Slots read to learn how fast the device is, each alone and all together. */
#define MEASURED 16

/* Slots swept in one go. */
#define SWEEP_STEP 16384

typedef struct Staged
{
	FcTag		tag;
	uint64		hash;
	FcGuard		guard;
} Staged;

static Staged staged[BATCH];
static char *pages[BATCH];		/* aligned for direct I/O */
static int	nstaged = 0;

static FcBudget budget;
static FcSlotNo sweep_at = FC_NO_SLOT;	/* FC_NO_SLOT: no sweep under way */

void
fc_cache_fill_start(void)
{
	char	   *memory = MemoryContextAlloc(TopMemoryContext, BATCH * BLCKSZ + FC_IO_ALIGN);

	memory = (char *) TYPEALIGN(FC_IO_ALIGN, memory);
	for (int i = 0; i < BATCH; i++)
		pages[i] = memory + i * BLCKSZ;
	nstaged = 0;
	fc_directory_reclaim();
}

void
fc_cache_purge(void)
{
	nstaged = 0;
	fc_directory_purge();
}

static int
compare_times(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

/* Median time of reading n slots, 0 if they can't be read; ns. */
static uint64
measure(const FcSlotNo *slots, int n)
{
	uint64		ns[MEASURED];
	FcIo		io;

	for (int i = 0; i < MEASURED; i++)
	{
		uint64		begin = fc_now_ns();

		/* single slots one after the other, several all at once */
		if (fc_store_read(n == 1 ? &slots[i] : slots, &pages[1], n, &io) != n)
			return 0;
		ns[i] = fc_now_ns() - begin;
	}
	qsort(ns, MEASURED, sizeof(ns[0]), compare_times);
	return ns[MEASURED / 2];
}

void
fc_cache_measure_flash(void)
{
	FcSlotNo	slots[MEASURED];
	int			nslots = fc_directory_reserve(MEASURED, slots);
	bool		written = nslots == MEASURED;

	/* a slot never written is answered without asking the device */
	memset(pages[0], 0, BLCKSZ);
	for (int i = 0; i < nslots && written; i++)
		written = fc_store_write(slots[i], &pages[0], 1) == FC_IO_OK;
	if (written)
	{
		uint64		one = measure(slots, 1);
		uint64		all = measure(slots, MEASURED);

		pg_atomic_write_u32(&fc_cache->times_ns[FC_TIME_FLASH], (uint32) Min(one, PG_UINT32_MAX));
		pg_atomic_write_u32(&fc_cache->times_ns[FC_TIME_FLASH_RUN],
							(uint32) Min(all / MEASURED, PG_UINT32_MAX));
	}
	for (int i = 0; i < nslots; i++)
		fc_directory_release(slots[i]);
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
	if (!fc_policy_spend(&budget, (uint64) fc_setting_write_limit * 1024 * 1024,
						 fc_now_ns(), BLCKSZ))
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
is_fit(char *page, BlockNumber blk)
{
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
	if (fc_page_ahead_of_disk(page))
	{
		fc_count(FC_SKIP_NOT_CURRENT);
		return false;
	}
	/* the frame's own checksum dates from its last write or earlier */
	FC_SET_PAGE_CHECKSUM((Page) page, blk);
	return true;
}

static void
stage(const FcTag *tag, uint64 hash, const FcGuard *guard)
{
	staged[nstaged].tag = *tag;
	staged[nstaged].hash = hash;
	staged[nstaged].guard = *guard;
	if (++nstaged == BATCH)
		fc_cache_fill_flush();
}

FcFill
fc_cache_fill_from_pool(uint32 frame, const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);
	char	   *page = pages[nstaged];
	FcGuard		guard;

	if (!is_wanted(tag, hash))
		return FC_FILL_DONE;
	guard = fc_directory_guard(tag, hash);	/* F1 */
	fc_failpoint(FC_FP_FILL_BEGIN);
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
	fc_failpoint(FC_FP_FILL_COPIED);
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
	if (is_wanted(&tag, hash) && is_fit(page, tag.blk))
		stage(&tag, hash, &guard);
	return true;
}

/* F6 for one page whose slot has been written. */
static void
publish(const Staged *s, FcSlotNo slot, uint32 crc)
{
	switch (fc_directory_publish(slot, &s->tag, s->hash, &s->guard, crc))
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

void
fc_cache_fill_flush(void)
{
	FcSlotNo	slots[BATCH];
	uint32		crc[BATCH];
	int			nslots;
	int			run;

	if (nstaged == 0)
		return;
	for (int i = 0; i < nstaged; i++)
		crc[i] = fc_page_checksum(&staged[i].tag, pages[i]);

	nslots = fc_directory_reserve(nstaged, slots);	/* F4 */
	fc_failpoint(FC_FP_FILL_RESERVED);
	fc_count_n(FC_SKIP_OVERLOADED, nstaged - nslots);

	/* neighbouring slots are written by one call */
	for (int first = 0; first < nslots; first += run)
	{
		FcIo		io = FC_IO_FAILED;

		for (run = 1; first + run < nslots && slots[first + run] == slots[first] + run; run++)
			;
		/* a device that was given up meanwhile is not tried again */
		if (fc_cache_state() == FC_STATE_ACTIVE)
			io = fc_store_write(slots[first], &pages[first], run);	/* F5 */
		fc_failpoint(FC_FP_FILL_WRITTEN);
		for (int i = first; i < first + run; i++)
		{
			if (io == FC_IO_OK)
				publish(&staged[i], slots[i], crc[i]);
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
	if (sweep_at == FC_NO_SLOT)
	{
		if (!fc_directory_sweep_wanted())
			return false;
		sweep_at = 0;
	}
	sweep_at = fc_directory_sweep(sweep_at, SWEEP_STEP);
	if (sweep_at < fc_directory_slots())
		return true;
	sweep_at = FC_NO_SLOT;
	return false;
}
