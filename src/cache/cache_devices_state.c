/*-------------------------------------------------------------------------
 *
 * cache_devices_state.c
 *	  What all files about devices use: which there are, which chunks of slots
 *	  lie on one, which are being opened.  Runs in the writer process only.
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
#include "directory/directory.h"
#include "failpoint.h"
#include "settings.h"

bool
fc_devices_there(void)
{
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (fc_store_state(no) != FC_DEVICE_NONE)
			return true;
	return false;
}

uint32
fc_devices_slots(void)
{
	uint64		n = (uint64) fc_setting_size;

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		FcDeviceState state = fc_store_state(no);
		const FcDeviceEntry *entry = &fc_device_list->device[no];

		if ((state == FC_DEVICE_ACTIVE || state == FC_DEVICE_OFF || state == FC_DEVICE_CLOSED) && !entry->adding)
			n += entry->slots;
	}
	/* some may have found no place */
	return (uint32) Min(n, (uint64) fc_directory_slots());
}

FcDeviceOpening fc_devices_openings[FC_DEVICES];

/* Where fc_devices_forget_some() has come to: so many slots of that chunk. */
static struct
{
	uint32		chunk;
	uint32		done;
}			forgotten[FC_DEVICES];

bool
fc_devices_opens(FcDeviceNo no)
{
	return fc_devices_openings[no].step != FC_OPENING_NONE;
}

bool
fc_devices_first_is_off(void)
{
	return fc_store_state(FC_THE_DEVICE) == FC_DEVICE_OFF;
}

void
fc_devices_first_is_lost(const FcReason *why)
{
	if (fc_store_others(FC_THE_DEVICE) && fc_cache_state() == FC_STATE_ACTIVE)
		fc_store_set_state(FC_THE_DEVICE, FC_DEVICE_OFF, why);
	else
		fc_cache_set_state(FC_STATE_OFF, why);	/* O1 */
}

/* ---- chunks of a device ---- */

uint32
fc_devices_chunk_wants(uint32 slots, uint32 index)
{
	uint32		all = fc_directory_slots();
	uint64		first = (uint64) index << fc_chunk_shift(all);

	return first >= slots ? 0 : (uint32) Min(slots - first, UINT64CONST(1) << fc_chunk_shift(all));
}

FcSlotNo
fc_devices_chunk_first(uint32 chunk)
{
	return (FcSlotNo) (chunk << fc_chunk_shift(fc_directory_slots()));
}

bool
fc_devices_forget_some(FcDeviceNo no)
{
	uint32		all = fc_directory_slots();
	uint32		left = fc_failpoint_number("FC_PURGE_STEP", FC_DIRECTORY_STEP);
	uint32		index;

	if (fc_failpoint_of(FC_FP_PURGE_STEP, no + 1))
		return true;
	for (; forgotten[no].chunk < fc_chunks(all); forgotten[no].chunk++, forgotten[no].done = 0)
	{
		uint32		chunk = forgotten[no].chunk;
		uint32		n = Min(fc_chunk_slots(all, chunk) - forgotten[no].done, left);

		if (fc_store_chunk(chunk, &index) != no)
			continue;
		fc_directory_drain(fc_devices_chunk_first(chunk) + forgotten[no].done, n);
		forgotten[no].done += n;
		left -= n;
		if (forgotten[no].done < fc_chunk_slots(all, chunk))
			return true;
	}
	fc_devices_forget_anew(no);
	return false;
}

void
fc_devices_release(void)
{
	uint32		devices = FC_DEVICE_BIT(FC_THE_DEVICE);

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (fc_store_state(no) == FC_DEVICE_CLOSED)
			devices |= FC_DEVICE_BIT(no);
	fc_store_release_all(devices, fc_setting_io_timeout);
}

void
fc_devices_forget_anew(FcDeviceNo no)
{
	memset(&forgotten[no], 0, sizeof(forgotten[no]));
}

int
fc_devices_reserve(FcDeviceNo no, int wanted, FcSlotNo *slots)
{
	FcDeviceEntry entry;
	uint32		index;

	if (!fc_list_entry(no, &entry))
		entry.slots = no == FC_THE_DEVICE ? fc_store_slots(no) : 0;
	for (int by_force = 0; by_force <= 1; by_force++)
		for (uint32 chunk = 0; chunk < fc_chunks(fc_directory_slots()); chunk++)
			if (fc_store_chunk(chunk, &index) == no)
			{
				int			n = fc_directory_reserve_of(fc_devices_chunk_first(chunk), fc_devices_chunk_wants(entry.slots, index),
														wanted, by_force, slots);

				if (n > 0)
					return n;
			}
	return 0;
}

uint32
fc_devices_slots_without_place(void)
{
	uint32		n = 0;

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		uint32		chunk = 0;
		uint32		index;

		if (fc_store_state(no) == FC_DEVICE_NONE)
			continue;
		while (chunk < fc_chunks(fc_directory_slots()) && fc_store_chunk(chunk, &index) != no)
			chunk++;
		if (chunk == fc_chunks(fc_directory_slots()))
			n += fc_device_list->device[no].slots;
	}
	return n;
}
