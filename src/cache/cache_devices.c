/*-------------------------------------------------------------------------
 *
 * cache_devices.c
 *	  Devices beyond the first one: when they are opened, and what becomes of
 *	  them in trouble.  Runs in the writer process only.
 *
 * A device that goes off keeps its entries; they give no hit meanwhile, and
 * one whose page is filled elsewhere goes.  When it is back and the same, by
 * the identity in its header, those that are left give hits again.
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
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "utils/timestamp.h"

/* Trouble with each, as a series; ns of fc_now_ns(), 0 = none. */
typedef struct Trouble
{
	uint32		pause_s;
	bool		in_series;		/* there was trouble since it was forgotten */
	uint64		probe_at;
	uint64		active_since;
	FcWarnings	warnings;
} Trouble;

/* Ten minutes without trouble end a series. */
#define QUIET_NS UINT64CONST(600000000000)

static Trouble trouble[FC_DEVICES];

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

void
fc_devices_set_flags(FcDeviceNo no, uint32 slots, bool open, bool readable)
{
	uint32		index;

	for (uint32 chunk = 0; chunk < fc_chunks(fc_directory_slots()); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
		{
			uint32		n = fc_devices_chunk_wants(slots, index);

			fc_directory_set_chunk(chunk, n, open ? n : 0, readable);
		}
	/* it has come into use: it may hold anything where a scrub has passed */
	if (readable)
		fc_cache_scrub_has_come(no);
}

void
fc_devices_forget(FcDeviceNo no)
{
	uint32		all = fc_directory_slots();
	uint32		index;

	for (uint32 chunk = 0; chunk < fc_chunks(all); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
			fc_directory_drain(fc_devices_chunk_first(chunk), fc_chunk_slots(all, chunk));
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

/* ---- trouble ---- */

static void
schedule_probe(FcDeviceNo no)
{
	trouble[no].probe_at = fc_now_ns() + (uint64) trouble[no].pause_s * 1000000000;
	fc_store_set_next_probe(no, TimestampTzPlusMilliseconds(GetCurrentTimestamp(), (int64) trouble[no].pause_s * 1000));
}

void
fc_devices_forget_trouble(FcDeviceNo no)
{
	memset(&trouble[no], 0, sizeof(trouble[no]));
	trouble[no].pause_s = FC_FIRST_PAUSE_S;
	fc_store_set_next_probe(no, 0);
}

/* Path and slots of any device. */
static void
look_up(FcDeviceNo no, FcDeviceEntry *entry)
{
	(void) fc_list_entry(no, entry);
	if (no != FC_THE_DEVICE)
		return;
	strlcpy(entry->path, fc_setting_file, sizeof(entry->path));
	entry->slots = (uint32) fc_setting_size;
}

static void
tell_trouble(FcDeviceNo no, const char *path, const FcReason *why, int level)
{
	ereport(level,
			(errmsg("pg_flashcache does not use \"%s\": %s", path, why->message),
			 fc_store_others(no) ?
			 errdetail("Its other devices are used as before. It tries again by itself in %u s.", trouble[no].pause_s) :
			 errdetail("None of its devices is in use. It tries again by itself in %u s.", trouble[no].pause_s),
			 errhint("%s%s%s tries at once.", why->hint, why->hint[0] ? " " : "",
					 no == FC_THE_DEVICE ? "pg_flashcache_enable()" : "pg_flashcache_enable_device()")));
}

/*
 * D4: it has gone off, which whoever found the trouble has seen to: sessions have
 * misses on it since.  Now it is not asked for slots any more, and the server's
 * log is told.  Once for each time that it goes off.
 */
static void
note_trouble(FcDeviceNo no)
{
	Trouble    *t = &trouble[no];
	FcDeviceEntry entry;
	FcReason	why;

	if (!fc_store_take_warning(no, &why))
		return;
	look_up(no, &entry);
	fc_devices_set_flags(no, entry.slots, false, false);
	if (!t->in_series || (t->active_since != 0 && fc_now_ns() - t->active_since >= QUIET_NS))
		fc_devices_forget_trouble(no);
	else if (t->active_since != 0)
		t->pause_s = fc_policy_longer_pause(t->pause_s);
	t->in_series = true;
	t->active_since = 0;
	schedule_probe(no);
	tell_trouble(no, entry.path, &why, fc_policy_warn(&t->warnings, why.message, fc_now_ns()) ? WARNING : LOG);
}

/* A probe has failed.  Who has removed the first cause wants to know of the next one. */
static void
probe_failed(FcDeviceNo no, const FcReason *error)
{
	FcDeviceEntry entry;
	FcReason	before;

	(void) fc_store_reason(no, &before);
	look_up(no, &entry);
	fc_store_set_reason(no, error);
	trouble[no].pause_s = fc_policy_longer_pause(trouble[no].pause_s);
	schedule_probe(no);
	if (!fc_policy_same_cause(before.message, error->message) && fc_policy_warn(&trouble[no].warnings, error->message, fc_now_ns()))
		tell_trouble(no, entry.path, error, WARNING);
}

void
fc_devices_note_trouble(void)
{
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_store_state(no) == FC_DEVICE_OFF)
			note_trouble(no);
}

void
fc_devices_end_series(FcDeviceNo no)
{
	trouble[no].pause_s = FC_FIRST_PAUSE_S;
	trouble[no].in_series = false;
	memset(&trouble[no].warnings, 0, sizeof(trouble[no].warnings));
}

void
fc_devices_note_active(FcDeviceNo no)
{
	trouble[no].active_since = fc_now_ns();
	trouble[no].probe_at = 0;
	fc_store_set_next_probe(no, 0);
}

void
fc_devices_first_failed(const FcReason *error)
{
	probe_failed(FC_THE_DEVICE, error);
}

bool
fc_devices_first_is_due(void)
{
	return fc_devices_first_is_off() && trouble[FC_THE_DEVICE].probe_at != 0 &&
		fc_now_ns() >= trouble[FC_THE_DEVICE].probe_at && !fc_failpoint(FC_FP_PROBE_DUE);
}

/* It could not be opened, for the first time or again. */
static void
not_opened(FcDeviceNo no, const FcReason *error)
{
	if (fc_store_state(no) == FC_DEVICE_CLOSED)
	{
		fc_store_set_state(no, FC_DEVICE_OFF, error);
		note_trouble(no);
		return;
	}
	probe_failed(no, error);
}

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
		(state == FC_DEVICE_OFF && trouble[no].probe_at != 0 && fc_now_ns() >= trouble[no].probe_at &&
		 !fc_failpoint(FC_FP_PROBE_DUE));
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
			not_opened(no, &error);
	}
}

void
fc_devices_release(void)
{
	static const FcReason why = {"the cache is disabled"};
	uint32		devices;

	fc_devices_wait_no_more();
	fc_devices_stop_opening(FC_THE_DEVICE);
	fc_devices_first_is_back();
	devices = FC_DEVICE_BIT(FC_THE_DEVICE);
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
		devices |= FC_DEVICE_BIT(no);
	}
	fc_store_release_all(devices, fc_setting_io_timeout);
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
		schedule_probe(no);
	}
	/* D8: who wanted to add it is told that nothing has come of it */
	if (entry.adding)
	{
		fc_devices_forget(no);
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

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		trouble[no].pause_s = FC_FIRST_PAUSE_S;
	trouble[FC_THE_DEVICE].pause_s = FC_FIRST_PAUSE_S;
	if (fc_devices_first_is_off())
		schedule_probe(FC_THE_DEVICE);
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
