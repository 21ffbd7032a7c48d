/*-------------------------------------------------------------------------
 *
 * cache_trial.c
 *	  Trying the device: does it keep what is written, and how fast does it
 *	  answer?  Runs in the writer process only, between two fills.
 *
 * A cache that is opened is tried on free slots, before a page is filled; if
 * all are taken by the pages that it has kept, a few of these make room.  One
 * that is paused, and one whose streams stay with the disk, is tried on slots
 * in use, which are only read.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_internal.h"
#include "common/pg_prng.h"
#include "compat.h"
#include "directory/directory.h"
#include "settings.h"
#include "stats/stats.h"
#include "store/store.h"

/* Slots read to learn how fast the device is, each alone and all together. */
#define MEASURED (FC_IDLE_PAGES - 1)

/* The device is measured for no longer than this, and once at least. */
#define MEASURE_NS UINT64CONST(500000000)

/* Once so many pages on flash were left to streams, flash is measured anew; 32 MB. */
#define LEFT_TO_STREAMS 4096

/* Slots looked at to find some in use. */
#define LOOKED_AT 4096

static int
compare_times(const void *a, const void *b)
{
	uint64		x = *(const uint64 *) a;
	uint64		y = *(const uint64 *) b;

	return x < y ? -1 : x > y;
}

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
	char	   *const *pages = fc_cache_idle_pages();
	uint64		ns[MEASURED];
	uint64		sum = 0;
	int			samples = 0;

	Assert(nslots > 0 && nslots <= MEASURED);
	Assert(n == 1 || n == nslots);
	Assert(fc_directory_is_mine() && !fc_directory_locked());
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
	char	   *const *pages = fc_cache_idle_pages();
	uint64		begin = fc_now_ns();
	int			written = 0;

	Assert(nslots >= 0 && nslots <= MEASURED && !fc_directory_locked());
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
	fc_times_measured(FC_TIME_FLASH, one);
	fc_times_measured(FC_TIME_FLASH_RUN, Max(all / nslots, 1));
	return true;
}

/* What has gone wrong with a trial, into *error; returns false. */
static bool
trial_failed(FcDeviceNo no, int nslots, int written, FcIo io, FcReason *error)
{
	const char *what = nslots == 0 ? "there is no slot to try the flash device with" : written == 0 ? "a page could not be written to the flash device" :
		"a page written to the flash device could not be read back";

	if (io == FC_IO_BROKEN)
	{
		*error = *fc_store_trouble();
		return false;
	}
	errno = io == FC_IO_FAILED ? fc_store_last_errno() : 0;
	if (errno != 0)
		return fc_fail(error, fc_store_hint(no, errno), "%s: %m", what);
	return fc_fail(error, "Check the device.", "%s", what);
}

bool
fc_cache_try_flash(FcReason *error)
{
	FcSlotNo	slots[MEASURED];
	int			nslots;
	FcIo		io = FC_IO_OK;
	int			written;
	bool		good;

	Assert(fc_cache_state() != FC_STATE_ACTIVE);

	/*
	 * a few pages make room, also such as are kept: behind these the hand may
	 * not come to others
	 */
	if (fc_devices_there())
		nslots = fc_devices_reserve(FC_THE_DEVICE, MEASURED, slots);
	else if ((nslots = fc_directory_reserve_free(MEASURED, slots)) == 0)
		nslots = fc_directory_reserve(MEASURED, NULL, 0, slots);
	Assert(nslots <= MEASURED);
	/* a slot never written is answered without asking the device */
	written = write_trials(slots, nslots, &io);
	good = written > 0 && measure_all(slots, written, true, &io);
	for (int i = 0; i < nslots; i++)
		fc_directory_release(slots[i]);
	if (!good)
		return trial_failed(FC_THE_DEVICE, nslots, written, io, error);
	fc_times_measured(FC_TIME_FLASH_REQUEST, (uint64) fc_times().flash);
	fc_store_forget_wrong(FC_THE_DEVICE);
	return true;
}

FcStoreStep
fc_cache_begin_trial(FcDeviceNo no, FcReason *error)
{
	char	   *const *pages = fc_cache_idle_pages();
	FcSlotNo	slots[MEASURED];
	int			nslots = fc_devices_reserve(no, MEASURED, slots);

	/*
	 * nobody takes slots of this device before it is in use, so they stay
	 * free
	 */
	for (int i = 0; i < nslots; i++)
	{
		make_trial(pages[i], slots[i]);
		fc_directory_release(slots[i]);
	}
	if (nslots > 0)
		return fc_store_begin_to_try(no, slots, pages, nslots, fc_setting_io_timeout, error);
	(void) trial_failed(no, 0, 0, FC_IO_OK, error);
	return FC_STEP_FAILED;
}

void
fc_cache_end_trial(FcDeviceNo no, const FcStoreTrial *trial, bool good, FcReason *error)
{
	if (!good)
	{
		if (trial->answered)
			(void) trial_failed(no, MEASURED, trial->written, trial->io, error);
		return;
	}
	/* the first device has not been measured: the cache begins without it */
	if (fc_times().flash > 0)
		return;
	fc_times_measured(FC_TIME_FLASH, trial->ns);
	fc_times_measured(FC_TIME_FLASH_RUN, trial->ns);
	fc_times_measured(FC_TIME_FLASH_REQUEST, trial->ns);
}

/* A slot of the first device. */
static FcSlotNo
first_slot(void)
{
	FcSlotNo	slot = 0;

	while (slot < fc_directory_slots() && fc_store_device_of(slot) != FC_THE_DEVICE)
		slot += UINT32_C(1) << fc_chunk_shift(fc_directory_slots());
	return slot;
}

/* Is it on a device that is in use? */
static bool
can_be_read(FcSlotNo slot)
{
	FcDeviceNo	no = fc_store_device_of(slot);

	return no != FC_NO_DEVICE && fc_store_state(no) == FC_DEVICE_ACTIVE;
}

FcIo
fc_cache_still_slow(bool *slow)
{
	uint32		all = fc_directory_slots();
	FcSlotNo	slots[MEASURED];
	int			nslots = 0;
	FcIo		io = FC_IO_OK;

	Assert(fc_cache_state() != FC_STATE_ACTIVE);
	/* slots in use, from all over the device */
	for (int i = 0; i < MEASURED; i++)
	{
		FcSlotNo	slot = (FcSlotNo) ((uint64) all * i / MEASURED);
		FcSlotNo	end = (FcSlotNo) ((uint64) all * (i + 1) / MEASURED);
		FcPageInfo	page;

		while (slot < end && (!fc_directory_page(slot, &page) || !can_be_read(slot)))
			slot++;
		if (slot < end)
			slots[nslots++] = slot;
	}
	/* invalidated meanwhile: that of the first device was written once */
	*slow = false;
	if (nslots == 0 && fc_devices_first_is_off())
		return io;
	if (nslots == 0)
		slots[nslots++] = first_slot();
	*slow = !fc_times_fast_again(measure(slots, nslots, 1, false, &io));
	return io;
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
	return n == MEASURED && can_be_read(slots[0]) && fc_store_in_a_row(slots[0], MEASURED) == MEASURED;
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

/* ---- D9 ---- */

void
fc_cache_try_suspects(void)
{
	FcState		state = fc_cache_state();

	if (!fc_store_any_suspect())
		return;
	/* otherwise all devices are tried before they are used */
	if (state != FC_STATE_ACTIVE && state != FC_STATE_PAUSED)
		fc_store_forget_suspects();
	else if (fc_store_try_suspects(fc_setting_io_timeout) == FC_IO_BROKEN)
		fc_cache_device_broken();
}
