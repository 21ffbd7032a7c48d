/*-------------------------------------------------------------------------
 *
 * cache_devices_open.c
 *	  Opening a device of a cache that is in use, step by step, while nobody
 *	  waits (H8).  Runs in the writer process only.
 *
 * The steps: does what is open answer?  Opening, with all checks; a trial.  In
 * between the writer does what it always does, and looks again in its next
 * round.  Until the last step is done the device is not in use: nobody takes
 * its slots, its entries give no hit, and what is invalidated there is gone.
 * The slots of the trial are free all the time; a write that comes late meets
 * no page, since none is filled on this device before it has been answered (H5).
 *
 * Whatever else becomes of the device meanwhile ends this first
 * (fc_devices_stop_opening()): it is removed or disabled, the cache is disabled, or
 * all of it is off, and the first device is opened as at a start.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_devices_internal.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "failpoint.h"
#include "settings.h"

/* So soon a device that answers has answered, as a rule: it is looked at often, and then less. */
#define SOON_NS UINT64CONST(100000000)
#define SOON_MS 2
#define LATER_MS 50

/* That is being opened. */
static FcDeviceNo opening;

int
fc_devices_look_again_ms(void)
{
	int			ms = 0;

	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_store_prepares(no))
			return 1;
		else if (fc_devices_opens(no) && ms != SOON_MS)
			ms = fc_now_ns() - fc_devices_openings[no].since < SOON_NS ? SOON_MS : LATER_MS;
	return ms;
}

void
fc_devices_stop_opening(FcDeviceNo no)
{
	fc_devices_forget_anew(no);
	if (!fc_devices_opens(no))
		return;
	fc_devices_openings[no].step = FC_OPENING_NONE;
	fc_store_turn_away(no);
}

/* O2, D5 */
static bool
before_use(bool same)
{
	if (same && !fc_store_doubtful(opening))
		fc_directory_forget_erased();
	else if (!fc_devices_begin_empty(opening))
		return false;
	fc_store_forget_wrong(opening);
	fc_failpoint(FC_FP_SWITCH_PURGED);
	return true;
}

/* ---- the steps ---- */

static FcStoreStep
begin_to_open(FcDeviceNo no, FcReason *error)
{
	FcDeviceOpening *o = &fc_devices_openings[no];
	FcDeviceEntry entry;
	FcKnownDevice known;

	fc_devices_forget_anew(no);
	if (no == FC_THE_DEVICE)
		return fc_store_begin_to_open(no, fc_setting_file, (uint32) fc_setting_size, o->log_blocks, NULL, true,
									  fc_setting_require_mount, fc_setting_io_timeout, error);
	fc_devices_offer(no);
	(void) fc_list_entry(no, &entry);
	known.identity = entry.identity;
	known.slots = entry.slots;
	return fc_store_begin_to_open(no, entry.path, entry.slots, 0, entry.opened ? &known : NULL, o->make,
								  fc_setting_require_mount, fc_setting_io_timeout, error);
}

/* It has been opened (O3): sessions know where it is, and don't go there yet. */
static FcStoreStep
begin_to_try(FcDeviceNo no, FcReason *error)
{
	FcDeviceEntry entry;

	if (no != FC_THE_DEVICE)
	{
		(void) fc_list_entry(no, &entry);
		fc_devices_note_identity(no, &entry);

		/*
		 * one that is being added is in the list when it can be used: else it
		 * is no device
		 */
		if (!fc_devices_openings[no].make)
			fc_devices_write_list();
	}
	if (!fc_store_can_bound(no, fc_setting_io_timeout, error))
		return FC_STEP_FAILED;
	return fc_cache_begin_trial(no, error);
}

static void
begin_to_use(FcDeviceNo no)
{
	FcDeviceEntry entry;
	uint32		kept = 0;
	uint32		index;

	fc_failpoint(FC_FP_SWITCH_OPENED);
	if (no == FC_THE_DEVICE)
	{
		fc_devices_first_is_back(); /* O4 */
		fc_devices_note_active(no);
		ereport(LOG, (errmsg("pg_flashcache uses \"%s\" again: %u slots", fc_setting_file, (uint32) fc_setting_size)));
		return;
	}
	(void) fc_list_entry(no, &entry);
	for (uint32 chunk = 0; chunk < fc_chunks(fc_directory_slots()); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
			kept += fc_directory_chunk_used(chunk);
	fc_store_set_state(no, FC_DEVICE_ACTIVE, NULL); /* O4 */
	fc_devices_set_flags(no, entry.slots, true, true);	/* D2 */
	fc_devices_note_active(no);
	if (fc_devices_openings[no].make)
	{
		/* D8: from here on it is a device */
		entry.adding = false;
		fc_list_set_entry(no, &entry);
		fc_store_keep(no);
		fc_devices_write_list();
	}
	ereport(LOG,
			(errmsg("pg_flashcache uses \"%s\": %u slots, %s", entry.path, entry.slots,
					fc_store_direct_io(no) ? "direct I/O" : "through the page cache, since its file system has no direct I/O"),
			 kept > 0 ? errdetail_plural("It has kept %u page.", "It has kept %u pages.", kept, kept) : 0));
}

/* What is looked for has come to that: begins what is next, as far as that ends at once. */
static FcStoreStep
go_on(FcDeviceNo no, FcStoreStep step, FcReason *error)
{
	FcDeviceOpening *o = &fc_devices_openings[no];

	while (step == FC_STEP_DONE && o->step != FC_OPENING_TRIED)
	{
		if (o->step == FC_OPENING_ASKED)
			step = begin_to_open(no, error);
		else
			step = begin_to_try(no, error);
		o->step++;
	}
	if (step == FC_STEP_MORE)
		return step;
	if (step == FC_STEP_DONE)
		begin_to_use(no);
	o->step = FC_OPENING_NONE;
	return step;
}

FcStoreStep
fc_devices_begin_to_open(FcDeviceNo no, bool make, uint32 log_blocks, FcReason *error)
{
	FcDeviceOpening *o = &fc_devices_openings[no];

	Assert(fc_directory_is_mine() && !fc_devices_opens(no));
	if (no != FC_THE_DEVICE && !fc_devices_place(no, error))
		return FC_STEP_FAILED;
	o->make = make;
	o->log_blocks = log_blocks;
	o->since = fc_now_ns();
	o->step = FC_OPENING_ASKED;
	return go_on(no, fc_store_begin_to_ask(no, fc_setting_io_timeout, error), error);
}

FcStoreStep
fc_devices_look(FcDeviceNo no, FcReason *error)
{
	FcStoreTrial trial;
	FcStoreStep step;

	Assert(fc_directory_is_mine() && fc_devices_opens(no));
	opening = no;
	step = fc_store_look(no, fc_setting_io_timeout, before_use, &trial, error);
	if (fc_devices_openings[no].step == FC_OPENING_TRIED && step != FC_STEP_MORE)
		fc_cache_end_trial(no, &trial, step == FC_STEP_DONE, error);
	return go_on(no, step, error);
}
