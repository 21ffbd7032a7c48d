/*-------------------------------------------------------------------------
 *
 * cache_devices_first.c
 *	  The first device, in trouble while others are in use, or not there when
 *	  the cache begins (D6).  Runs in the writer process only.
 *
 * As long as others are in use it has a state of its own.  When none is left it
 * is the cache that is off, and the first device has no state but that.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_devices_internal.h"
#include "settings.h"

/* The first one can't be opened, and the cache waits for any of the others. */
static struct
{
	bool		waits;
	bool		tried[FC_DEVICES];
}			others;

void
fc_devices_first_begins_anew(void)
{
	if (fc_devices_first_is_off())
		fc_devices_end_series(FC_THE_DEVICE);
}

FcStoreStep
fc_devices_open_first(uint32 log_blocks, FcReason *error)
{
	if (!fc_devices_opens(FC_THE_DEVICE))
		return fc_devices_begin_to_open(FC_THE_DEVICE, false, log_blocks, error);
	return fc_devices_look(FC_THE_DEVICE, error);
}

void
fc_devices_first_is_away(const FcReason *why)
{
	Assert(fc_cache_state() != FC_STATE_ACTIVE);
	fc_store_set_state(FC_THE_DEVICE, FC_DEVICE_OFF, why);
	fc_devices_set_flags(FC_THE_DEVICE, (uint32) fc_setting_size, false, false);
}

bool
fc_devices_waits(void)
{
	return others.waits;
}

/* Not once more. */
bool
fc_devices_is_waited_for(FcDeviceNo no)
{
	return !others.tried[no] && (fc_store_state(no) == FC_DEVICE_CLOSED || fc_store_state(no) == FC_DEVICE_OFF);
}

bool
fc_devices_wait_for_others(void)
{
	bool		any = false;

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		others.tried[no] = false;
		any |= fc_devices_is_waited_for(no) || fc_store_state(no) == FC_DEVICE_ACTIVE;
	}
	others.waits = any;
	return any;
}

FcStoreStep
fc_devices_others(void)
{
	FcStoreStep step = FC_STEP_FAILED;

	if (!others.waits)
		return step;
	if (fc_store_others(FC_THE_DEVICE))
		step = FC_STEP_DONE;
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES && step == FC_STEP_FAILED; no++)
		if (fc_devices_opens(no) || fc_devices_is_waited_for(no))
			step = FC_STEP_MORE;
	others.waits = step == FC_STEP_MORE;
	return step;
}

void
fc_devices_note_tried(FcDeviceNo no)
{
	others.tried[no] = true;
}

void
fc_devices_wait_no_more(void)
{
	others.waits = false;
}

/* No other is left: from now on it is the cache that is off. */
void
fc_devices_first_is_alone(void)
{
	FcReason	why;

	if (!fc_devices_first_is_off() || fc_store_others(FC_THE_DEVICE))
		return;
	fc_devices_stop_opening(FC_THE_DEVICE);
	(void) fc_store_reason(FC_THE_DEVICE, &why);
	fc_cache_set_state(FC_STATE_OFF, &why); /* O1 */
	fc_devices_first_is_back();
}
