/*-------------------------------------------------------------------------
 *
 * cache_devices.c
 *	  Devices beyond the first one: when they are opened, and what a writer
 *	  makes of those that one before it had.  Runs in the writer process only.
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
#include "settings.h"

/* Is it to be opened now? */
static bool
is_due(FcDeviceNo no)
{
	FcDeviceState state = fc_store_state(no);

	if (fc_devices_changes(no) || fc_devices_opens(no))
		return false;
	if (fc_devices_waits())
		return fc_devices_is_waited_for(no);
	if (fc_cache_state() != FC_STATE_ACTIVE && fc_cache_state() != FC_STATE_PAUSED)
		return false;
	return state == FC_DEVICE_CLOSED ||
		(state == FC_DEVICE_OFF && fc_devices_probe_is_due(no));
}

void
fc_devices_round(void)
{
	Assert(fc_directory_is_mine());
	fc_devices_note_trouble();
	fc_devices_retry_list();
	fc_directory_recount();
	fc_devices_first_is_alone();
	/* H8: what is under way is looked at, whatever has become of the cache */
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		FcStoreStep step = FC_STEP_MORE;
		FcReason	error;

		if (is_due(no))
		{
			fc_devices_note_tried(no);
			step = fc_devices_begin_to_open(no, false, 0, &error);
		}
		else if (fc_devices_opens(no) && !fc_devices_changes(no))
			step = fc_devices_look(no, &error);
		if (step == FC_STEP_FAILED)
			fc_devices_not_opened(no, &error);
	}
}

void
fc_devices_close(void)
{
	static const FcReason why = {"the cache is disabled"};

	fc_devices_wait_no_more();
	fc_devices_stop_opening(FC_THE_DEVICE);
	fc_devices_first_is_back();
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		FcDeviceState state = fc_store_state(no);
		FcDeviceEntry entry;

		fc_devices_stop_opening(no);
		if (state == FC_DEVICE_NONE || state == FC_DEVICE_DISABLED)
			continue;
		(void) fc_list_entry(no, &entry);
		fc_store_set_state(no, FC_DEVICE_CLOSED, &why);
		fc_devices_set_flags(no, entry.slots, false, false);
		fc_devices_forget_trouble(no);
	}
}

/* ---- the writer begins ---- */

/*
 * One before this one had it in use, or was about to.  True: it is to be adopted,
 * and end_of_take_over() is called with what has come of that.
 */
static bool
take_over(FcDeviceNo no)
{
	static const FcReason interrupted = {"the process that was about to disable it has ended"};
	static const FcDeviceEntry none = {""};
	FcDeviceState state = fc_store_state(no);
	FcDeviceEntry entry;

	if (state == FC_DEVICE_NONE)
	{
		/* D8: that it was removed is all that counts */
		if (fc_list_entry(no, &entry))
			fc_list_set_entry(no, &none);
		return false;
	}
	(void) fc_list_entry(no, &entry);
	if (state == FC_DEVICE_OFF)
	{
		fc_devices_forget_trouble(no);
		fc_devices_schedule_probe(no);
	}
	/* D8: who wanted to add it is told that nothing has come of it */
	if (entry.adding)
	{
		while (fc_devices_forget_some(no))
			fc_store_look_for_stop();
		fc_devices_remove(no);
		return false;
	}
	if (state == FC_DEVICE_DISABLED && !entry.disabled)
	{
		/* it was being disabled: opened anew, it is in use again */
		fc_store_set_state(no, FC_DEVICE_OFF, &interrupted);
		fc_devices_set_flags(no, entry.slots, false, false);
	}
	if (state != FC_DEVICE_ACTIVE && state != FC_DEVICE_DRAINING)
		return false;
	/* D8: what was not done with it is left undone; what was begun is undone */
	fc_store_set_slots(no, entry.slots);
	return true;
}

static void
end_of_take_over(FcDeviceNo no, bool adopted, FcReason *why)
{
	FcDeviceEntry entry;

	(void) fc_list_entry(no, &entry);
	if (!adopted || !fc_devices_place_more(no, entry.slots, why))
	{
		fc_store_set_state(no, FC_DEVICE_OFF, why);
		return;
	}
	fc_devices_note_identity(no, &entry);
	fc_store_set_state(no, FC_DEVICE_ACTIVE, NULL);
	fc_devices_set_flags(no, entry.slots, true, true);
}

/* D7; not by a writer that comes after one that has removed all of them, and maybe could not say so in the file. */
static void
start_with_list(FcState state)
{
	static FcDeviceList list;
	bool		there;

	if (*fc_list_changed)
	{
		fc_devices_write_list();
		return;
	}
	if (state != FC_STATE_STARTING)
		return;
	if (fc_list_read(&list, &there))
		fc_devices_place_list(&list);
	else if (there)
		ereport(WARNING,
				(errmsg("pg_flashcache cannot use \"%s\" in the data directory: it cannot be read, is damaged, or of another version", FC_DEVICES_FILE),
				 errdetail("It named the devices of the flash cache beyond the first one, which are not used."),
				 errhint("Add them again by pg_flashcache_add_device().")));
}

bool
fc_devices_start(FcReason *error)
{
	static FcReason why[FC_DEVICES];
	FcState		state = fc_cache_state();
	bool		there = fc_devices_there();
	uint32		devices = 0;
	uint32		adopted;

	fc_devices_begin_trouble();
	if (fc_devices_first_is_off())
		fc_devices_schedule_probe(FC_THE_DEVICE);
	else if (state == FC_STATE_ACTIVE || state == FC_STATE_PAUSED)
		devices |= FC_DEVICE_BIT(FC_THE_DEVICE);
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (take_over(no))
			devices |= FC_DEVICE_BIT(no);
	adopted = fc_store_adopt(devices, fc_setting_io_timeout, why);
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if ((devices & FC_DEVICE_BIT(no)) != 0)
			end_of_take_over(no, (adopted & FC_DEVICE_BIT(no)) != 0, &why[no]);
	if (there)
		fc_devices_write_list();
	else
		start_with_list(state);
	*error = why[FC_THE_DEVICE];
	return ((devices & ~adopted) & FC_DEVICE_BIT(FC_THE_DEVICE)) == 0;
}
