/*-------------------------------------------------------------------------
 *
 * cache_devices_trouble.c
 *	  Devices that go off and come back: what follows for their slots, when
 *	  they are tried again, and what the server's log is told.  Runs in the
 *	  writer process only.
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

void
fc_devices_begin_trouble(void)
{
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		trouble[no].pause_s = FC_FIRST_PAUSE_S;
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
fc_devices_schedule_probe(FcDeviceNo no)
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
	fc_devices_schedule_probe(no);
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
	fc_devices_schedule_probe(no);
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
fc_devices_not_opened(FcDeviceNo no, const FcReason *error)
{
	if (fc_store_state(no) == FC_DEVICE_CLOSED)
	{
		fc_store_set_state(no, FC_DEVICE_OFF, error);
		note_trouble(no);
		return;
	}
	probe_failed(no, error);
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
fc_devices_probe_is_due(FcDeviceNo no)
{
	return trouble[no].probe_at != 0 && fc_now_ns() >= trouble[no].probe_at && !fc_failpoint(FC_FP_PROBE_DUE);
}

bool
fc_devices_first_is_due(void)
{
	return fc_devices_first_is_off() && fc_devices_probe_is_due(FC_THE_DEVICE);
}

void
fc_devices_first_is_back(void)
{
	if (!fc_devices_first_is_off())
		return;
	fc_store_set_state(FC_THE_DEVICE, FC_DEVICE_ACTIVE, NULL);
	fc_devices_set_flags(FC_THE_DEVICE, (uint32) fc_setting_size, true, true);

	/*
	 * where the cache was in use meanwhile, the series goes on if there is
	 * trouble again
	 */
	if (fc_cache_state() != FC_STATE_ACTIVE)
		fc_devices_forget_trouble(FC_THE_DEVICE);
}
