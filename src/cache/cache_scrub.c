/*-------------------------------------------------------------------------
 *
 * cache_scrub.c
 *	  Erasing what flash holds of pages that are no longer cached; runs in the
 *	  writer process only.
 *
 * Steps Z1-Z3 are those of src/protocol.md.  Slots are taken (Z1), overwritten
 * with zeros (Z2) and given back (Z3) batch by batch, between the rounds of
 * the writer.  No reader and no fill waits for it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "settings.h"
#include "stats/stats.h"
#include "store/store.h"

/* Slots overwritten together. */
#define BATCH FC_STORE_MAX_RUN

/* Slots looked at in one go. */
#define LOOK 16384

/* From fc_cache_scrub_begin() to fc_cache_scrub_end(). */
static bool under_way = false;

static FcSlotNo at;
static bool all_slots;
static FcScrubResult so_far;

/* Devices that may be written to, as of this batch. */
static bool ours[FC_DEVICES];

/* That could not be had: nobody waits for them again and again. */
static bool gone[FC_DEVICES];

/*
 * So many writes in a row that failed, and no more, as everywhere (D4).  They
 * are counted here as well, since a device of a cache that is disabled can't go
 * off.
 */
#define MOST_FAILURES 3

static int	failures[FC_DEVICES];

/* Slots erased on each of them: not for good before it is flushed; and those that could not be. */
static uint64 erased_on[FC_DEVICES];
static uint64 failed_on[FC_DEVICES];

/*
 * How often each has come into use meanwhile.  So often this begins again; from
 * then on the device counts as one that could not be had.
 */
#define MOST_AGAIN 8

static int	has_come[FC_DEVICES];

/*
 * All slots are dealt with, but a device is about to come into use: since when
 * that is waited for, ns, 0 if it is not.  Without io_timeout nobody else bounds
 * it.
 */
#define MOST_WAIT_MS 10000

static uint64 waits_since;

void
fc_cache_scrub_begin(bool everything)
{
	Assert(fc_directory_is_mine());
	under_way = true;
	all_slots = everything;
	fc_cache_share_budget(true);
	memset(has_come, 0, sizeof(has_come));
	fc_cache_scrub_again();
}

void
fc_cache_scrub_again(void)
{
	at = 0;
	waits_since = 0;
	memset(&so_far, 0, sizeof(so_far));
	memset(gone, 0, sizeof(gone));
	memset(failures, 0, sizeof(failures));
	memset(erased_on, 0, sizeof(erased_on));
	memset(failed_on, 0, sizeof(failed_on));
	so_far.failed = fc_devices_slots_without_place();
}

static bool
is_left_out(FcDeviceNo no)
{
	return has_come[no] > MOST_AGAIN;
}

static void
note_failed(FcDeviceNo no, uint64 n)
{
	so_far.failed += n;
	failed_on[no] += n;
}

/* What is there where this has passed is not known to be erased: it comes and goes, or could not be flushed. */
static void
count_as_failed(FcDeviceNo no)
{
	so_far.erased -= erased_on[no];
	so_far.failed -= failed_on[no];
	erased_on[no] = failed_on[no] = 0;
	for (FcSlotNo slot = 0; slot < at; slot++)
		if (fc_store_device_of(slot) == no && fc_directory_has(slot))
			note_failed(no, fc_directory_needs_erasing(slot, all_slots));
}

void
fc_cache_scrub_has_come(FcDeviceNo no)
{
	if (!under_way)
		return;
	if (!is_left_out(no))
		has_come[no]++;
	if (is_left_out(no))
		count_as_failed(no);
	else
		fc_cache_scrub_again();
}

/* Is one about to come into use, for which this would begin again? */
static bool
any_comes(void)
{
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_devices_opens(no) && !is_left_out(no))
			return true;
	return false;
}

/* Its slots have been counted as failed. */
static bool
has_waited_enough(void)
{
	uint64		now = fc_now_ns();

	if (waits_since == 0)
		waits_since = now;
	return fc_setting_io_timeout == 0 && now - waits_since >= (uint64) MOST_WAIT_MS * 1000000;
}

/* Z1: the next slots to be erased; `limited` if there are more, but not now. */
static int
take_slots(FcSlotNo *slots, bool *limited)
{
	int			n = 0;
	uint32		looked = 0;

	*limited = false;
	for (; at < fc_directory_slots() && n < BATCH && looked < LOOK; at++, looked++)
	{
		FcDeviceNo	no = fc_store_device_of(at);

		/* behind the end of a device may lie its log, or what is not ours */
		if (no == FC_NO_DEVICE || !fc_directory_has(at))
			continue;
		if (!ours[no])
		{
			note_failed(no, fc_directory_needs_erasing(at, all_slots));
			continue;
		}
		if (!fc_directory_take_to_erase(at, all_slots))
			continue;
		if (!fc_cache_may_erase())
		{
			fc_directory_give_back(at, false);
			*limited = true;
			break;
		}
		slots[n++] = at;
	}
	Assert(n <= BATCH && at <= fc_directory_slots());
	return n;
}

/* Not to one that has hung, or has gone off, or would have.  The first one's caller sees to that. */
static bool
may_write(FcDeviceNo no)
{
	return ours[no] && fc_store_unanswered_ns(no) == 0 && (no == FC_THE_DEVICE || fc_store_state(no) != FC_DEVICE_OFF);
}

static FcIo
write_zeros(FcDeviceNo no, FcSlotNo first, char *const *pages, int n)
{
	FcIo		io = fc_store_write(first, pages, n, fc_setting_io_timeout);

	failures[no] = io == FC_IO_OK ? 0 : failures[no] + 1;
	if (failures[no] >= MOST_FAILURES)
	{
		gone[no] = true;
		ours[no] = false;
	}
	return io;
}

/* Z2 and Z3 for neighbouring slots; of a broken device Z3 alone. */
static void
erase(const FcSlotNo *slots, int n, bool *broken)
{
	static char zeros[BLCKSZ];
	char	   *pages[BATCH];
	FcDeviceNo	no = fc_store_device_of(slots[0]);	/* a run lies on one */
	FcIo		io = *broken ? FC_IO_BROKEN : FC_IO_FAILED;

	Assert(n > 0 && n <= BATCH && n <= FC_STORE_MAX_RUN);
	Assert(!fc_directory_locked());
	for (int i = 0; i < BATCH; i++)
		pages[i] = zeros;
	if (!*broken && may_write(no))
		io = write_zeros(no, slots[0], pages, n);	/* Z2 */
	*broken = io == FC_IO_BROKEN;
	fc_failpoint(FC_FP_SCRUB_WRITTEN);
	if (io == FC_IO_FAILED && n > 1 && may_write(no))
	{
		/* one bad slot shall not save its neighbours */
		for (int i = 0; i < n; i++)
			erase(&slots[i], 1, broken);
		return;
	}
	for (int i = 0; i < n; i++)
		fc_directory_give_back(slots[i], io == FC_IO_OK);	/* Z3 */
	if (io == FC_IO_OK)
	{
		fc_count_n(FC_SLOTS_ERASED, n);
		so_far.erased += n;
		erased_on[no] += n;
	}
	else
		note_failed(no, n);
}

/*
 * All slots are dealt with: what was written must outlast a loss of power.  False
 * if the first device is in trouble.
 */
static bool
make_durable(void)
{
	uint32		devices = 0;
	uint32		failed;
	FcIo		io;

	Assert(at == fc_directory_slots());
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (ours[no])
			devices |= FC_DEVICE_BIT(no);
		else if (erased_on[no] > 0 && fc_store_state(no) != FC_DEVICE_NONE)
		{
			/*
			 * one that has been erased, and has gone off since, can't be
			 * flushed
			 */
			note_failed(no, erased_on[no]);
			so_far.erased -= erased_on[no];
			erased_on[no] = 0;
			fc_directory_forget_erased();
		}
	io = fc_store_sync_devices(devices, fc_setting_io_timeout, &failed);
	if (failed != 0)
		fc_directory_forget_erased();
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if ((failed & FC_DEVICE_BIT(no)) != 0)
			count_as_failed(no);
	if (io != FC_IO_BROKEN)
		return true;
	fc_cache_device_broken();
	return false;
}

/*
 * Before each batch.  Disabled, the writer has let go of the device: another
 * server, a file system or a file of somebody else may be there now.
 */
static bool
is_ours(FcState state)
{
	static FcReason why[FC_DEVICES];
	uint32		wanted = 0;
	uint32		adopted;

	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		FcDeviceState s = fc_store_state(no);

		if (is_left_out(no))
			continue;
		if (s == FC_DEVICE_ACTIVE || (s == FC_DEVICE_CLOSED && state == FC_STATE_DISABLED && !gone[no]))
			wanted |= FC_DEVICE_BIT(no);
	}
	adopted = fc_store_adopt(wanted, fc_setting_io_timeout, why);
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		ours[no] = (adopted & FC_DEVICE_BIT(no)) != 0;
		if (no == FC_THE_DEVICE || ours[no] || (wanted & FC_DEVICE_BIT(no)) == 0)
			continue;
		gone[no] = true;
		if (fc_store_state(no) == FC_DEVICE_ACTIVE)
			fc_store_set_state(no, FC_DEVICE_OFF, &why[no]);	/* O1 */
	}
	if (ours[FC_THE_DEVICE] || (wanted & FC_DEVICE_BIT(FC_THE_DEVICE)) == 0)
		return true;
	so_far.why = why[FC_THE_DEVICE];
	if (state == FC_STATE_ACTIVE)
		fc_devices_first_is_lost(&so_far.why);	/* D6 */
	return false;
}

FcScrubStep
fc_cache_scrub_step(FcScrubResult *result)
{
	FcState		state = fc_cache_state();
	FcSlotNo	slots[BATCH] = {0};
	bool		limited;
	bool		broken = false;
	bool		done;
	int			run;
	int			n;

	Assert(fc_directory_is_mine() && !fc_directory_locked());
	if ((state != FC_STATE_ACTIVE && state != FC_STATE_DISABLED) || !is_ours(state))
	{
		*result = so_far;
		return FC_SCRUB_GAVE_UP;
	}
	n = take_slots(slots, &limited);
	if (n > 0)
		fc_failpoint(FC_FP_SCRUB_TAKEN);
	for (int first = 0; first < n; first += run)
	{
		for (run = 1; first + run < n && slots[first + run] == slots[first] + run; run++)
			;
		run = fc_store_in_a_row(slots[first], run);
		erase(&slots[first], run, &broken);
	}
	*result = so_far;
	if (broken)
	{
		fc_cache_device_broken();
		return FC_SCRUB_GAVE_UP;
	}
	if (limited)
		return FC_SCRUB_LATER;
	if (at < fc_directory_slots())
		return FC_SCRUB_MORE;
	/* one that is about to come into use makes it begin again */
	if (any_comes() && !has_waited_enough())
		return FC_SCRUB_LATER;
	done = make_durable();
	*result = so_far;
	return done ? FC_SCRUB_DONE : FC_SCRUB_GAVE_UP;
}

void
fc_cache_scrub_end(void)
{
	under_way = false;
	fc_cache_share_budget(false);
	if (fc_cache_state() == FC_STATE_DISABLED)
		fc_devices_release();
}
