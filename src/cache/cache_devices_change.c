/*-------------------------------------------------------------------------
 *
 * cache_devices_change.c
 *	  Devices are added, removed, resized, disabled and enabled, while the cache
 *	  is in use.  Runs in the writer process only, between two fills.
 *
 * Slots that are to go are drained first, some in each round: nobody takes
 * them any more, what they hold is unlinked, and their versions are raised.
 * Only then is the device made shorter, or let go of, and their chunks are
 * absent.
 *
 * A change that fails has changed nothing, but that drained slots are empty.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices_internal.h"
#include "cache/cache_internal.h"
#include "settings.h"

/* What is under way. */
static struct
{
	bool		active;
	FcDeviceChange what;
	FcDeviceNo	no;
	uint32		slots;			/* that are to be left */
	uint32		chunk;			/* being drained */
	uint32		done;			/* slots of it */
	bool		again;			/* what was under way before is waited for: if
								 * that fails, it is tried once more */
	bool		was_disabled;	/* and is again if it can't be enabled */
}			change;

bool
fc_devices_changes(FcDeviceNo no)
{
	return change.active && change.no == no;
}

/* The next part of a path, without what means nothing: // and /./ */
static const char *
next_part(const char *at, size_t *len)
{
	for (;;)
	{
		at += strspn(at, "/");
		*len = strcspn(at, "/");
		if (*len != 1 || *at != '.')
			return at;
		at++;
	}
}

/* Both are absolute.  What else may be two ways to one file is found when it is opened. */
static bool
is_same_path(const char *a, const char *b)
{
	size_t		a_len;
	size_t		b_len;

	do
	{
		a = next_part(a, &a_len);
		b = next_part(b, &b_len);
		if (a_len != b_len || strncmp(a, b, a_len) != 0)
			return false;
		a += a_len;
		b += b_len;
	} while (a_len > 0);
	return true;
}

static FcDeviceNo
find_device(const char *path)
{
	FcDeviceEntry entry;

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (fc_list_entry(no, &entry) && is_same_path(entry.path, path))
			return no;
	return FC_NO_DEVICE;
}

void
fc_devices_remove(FcDeviceNo no)
{
	static const FcDeviceEntry none = {""};

	fc_devices_unplace(no);
	fc_store_set_state(no, FC_DEVICE_NONE, NULL);
	fc_store_forget(no);
	fc_list_set_entry(no, &none);
	fc_devices_forget_trouble(no);
	if (*fc_list_changed)
		fc_devices_write_list();
	/* D8: last, since the writer may end in it */
	fc_store_release(no, fc_setting_io_timeout);
}

/* Not to be tried again by itself: somebody has said so. */
static void
set_disabled(FcDeviceNo no)
{
	static const FcReason why = {"it was disabled by pg_flashcache_disable_device()"};
	FcDeviceEntry entry;

	(void) fc_list_entry(no, &entry);
	entry.disabled = true;
	fc_list_set_entry(no, &entry);
	fc_devices_forget_trouble(no);
	fc_store_set_state(no, FC_DEVICE_DISABLED, &why);
}

/* ---- add, enable ---- */

/* It is in use, or can't be opened. */
static FcChangeStep
end_of_opening(bool opened, FcReason *error)
{
	FcDeviceNo	no = change.no;

	change.active = false;
	if (opened && change.what == FC_CHANGE_ADD && fc_store_shares(no)[0] != '\0')
		ereport(WARNING,
				(errmsg("pg_flashcache uses a file on the same file system as %s", fc_store_shares(no)),
				 errdetail("\"%s\" takes space and bandwidth from it. A flash device that should be mounted there may not be.",
						   fc_store_path(no)),
				 errhint("Mount the flash device. With pg_flashcache.require_mount such a file is refused.")));
	if (opened)
		return FC_CHANGE_DONE;
	if (change.what == FC_CHANGE_ADD)
	{
		/* it is let go of, and the file goes that was made for it */
		fc_devices_remove(no);
		return FC_CHANGE_FAILED;
	}
	if (change.was_disabled)
		set_disabled(no);
	/* in a cache that was disabled it waits for that */
	else if (fc_store_state(no) != FC_DEVICE_CLOSED || fc_cache_state() != FC_STATE_DISABLED)
		fc_store_set_state(no, FC_DEVICE_OFF, error);
	fc_devices_write_list();
	/* D8: its process may have opened it, for all checks and the trial */
	if (change.was_disabled)
		fc_store_release(no, fc_setting_io_timeout);
	return FC_CHANGE_FAILED;
}

/* H8: begins to open it, or waits for an opening that is under way. */
static FcChangeStep
begin_to_open(FcDeviceChange what, FcDeviceNo no, FcReason *error)
{
	FcStoreStep step = FC_STEP_MORE;

	change.active = true;
	change.what = what;
	change.no = no;
	change.again = fc_devices_opens(no);
	if (!change.again)
		step = fc_devices_begin_to_open(no, what == FC_CHANGE_ADD, 0, error);
	return step == FC_STEP_MORE ? FC_CHANGE_LATER : end_of_opening(step == FC_STEP_DONE, error);
}

static FcChangeStep
look_at_opening(FcReason *error)
{
	FcStoreStep step;

	if (!fc_devices_opens(change.no))
	{
		fc_fail(error, "See pg_stat_flashcache.", "the cache was disabled meanwhile");
		return end_of_opening(false, error);
	}
	step = fc_devices_look(change.no, error);
	if (step == FC_STEP_MORE)
		return FC_CHANGE_LATER;
	if (step == FC_STEP_FAILED && change.again)
		return begin_to_open(change.what, change.no, error);
	return end_of_opening(step == FC_STEP_DONE, error);
}

static FcChangeStep
add_device(const char *path, uint32 slots, FcReason *error)
{
	static const FcReason opening = {"it is being opened"};
	FcDeviceEntry entry = {""};
	FcDeviceNo	no;
	bool		hangs = false;

	/* the process of one that was removed may still hang in the device */
	for (no = FC_THE_DEVICE + 1; no < FC_DEVICES && (fc_store_state(no) != FC_DEVICE_NONE || !fc_store_is_idle(no)); no++)
		hangs |= fc_store_state(no) == FC_DEVICE_NONE;
	if (no == FC_DEVICES)
	{
		fc_fail(error, hangs ? "It can be used again when that device answers, or the server is restarted." : "Remove one first.",
				hangs ? "there is no place for another device: one that was removed has not answered yet" :
				"there are %d devices, which is the most there can be", FC_DEVICES);
		return FC_CHANGE_FAILED;
	}
	change.was_disabled = false;
	strlcpy(entry.path, path, sizeof(entry.path));
	entry.slots = slots;
	entry.adding = true;
	if (!fc_devices_would_fit(no, slots, error))
		return FC_CHANGE_FAILED;
	fc_list_set_entry(no, &entry);
	fc_devices_forget_trouble(no);
	fc_store_set_state(no, FC_DEVICE_CLOSED, &opening);
	return begin_to_open(FC_CHANGE_ADD, no, error);
}

static FcChangeStep
enable_device(FcDeviceNo no, FcReason *error)
{
	static const FcReason opening = {"it is being opened"};
	FcDeviceEntry entry;

	if (fc_store_state(no) == FC_DEVICE_ACTIVE)
		return FC_CHANGE_DONE;
	(void) fc_list_entry(no, &entry);
	change.was_disabled = entry.disabled;
	entry.disabled = false;
	fc_list_set_entry(no, &entry);
	fc_devices_forget_trouble(no);
	if (fc_store_state(no) == FC_DEVICE_DISABLED)
		fc_store_set_state(no, FC_DEVICE_CLOSED, &opening);
	return begin_to_open(FC_CHANGE_ENABLE, no, error);
}

/* ---- slots that are to go: D1 ---- */

/* From now on nobody takes those behind the first so many slots. */
static void
begin_to_drain(FcDeviceChange what, FcDeviceNo no, uint32 slots, bool readable)
{
	FcDeviceEntry entry;
	uint32		index;

	(void) fc_list_entry(no, &entry);
	change.active = true;
	change.what = what;
	change.no = no;
	change.slots = slots;
	change.chunk = 0;
	change.done = 0;
	for (uint32 chunk = 0; chunk < fc_chunks(fc_directory_slots()); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
			fc_directory_set_chunk(chunk, fc_devices_chunk_wants(entry.slots, index), fc_devices_chunk_wants(slots, index), readable);
}

/* Drains some of them; false: that were all. */
static bool
drain_some(void)
{
	uint32		left = FC_DIRECTORY_STEP;
	FcDeviceEntry entry;

	(void) fc_list_entry(change.no, &entry);
	for (; change.chunk < fc_chunks(fc_directory_slots()); change.chunk++, change.done = 0)
	{
		uint32		index;
		uint32		end;
		uint32		n;

		if (fc_store_chunk(change.chunk, &index) != change.no)
			continue;
		end = fc_devices_chunk_wants(entry.slots, index);
		change.done = Max(change.done, fc_devices_chunk_wants(change.slots, index));
		n = Min(end - Min(change.done, end), left);
		if (n > 0)
			fc_directory_drain(fc_devices_chunk_first(change.chunk) + change.done, n);
		change.done += n;
		left -= n;
		if (change.done < end)
			return true;
	}
	return false;
}

/* ---- resize ---- */

static FcDeviceNo resized;

/* O2, D5: it may be another file by now. */
static bool
before_resized(bool same)
{
	if (same)
		fc_directory_forget_erased();
	else if (!fc_devices_begin_empty(resized))
		return false;
	fc_cache_scrub_has_come(resized);
	return true;
}

/* The device is opened with another size, and keeps what it has. */
static bool
reopen(FcDeviceNo no, uint32 slots, FcReason *error)
{
	FcDeviceEntry entry;
	FcKnownDevice known;

	/* as long as it is in use nobody waits for it longer than that */
	if (!fc_store_answers(no, fc_setting_io_timeout, error))
		return false;
	fc_devices_offer(no);
	(void) fc_list_entry(no, &entry);
	known.identity = entry.identity;
	known.slots = entry.slots;
	resized = no;
	if (!fc_store_open_other(no, entry.path, slots, &known, false, fc_setting_require_mount, fc_setting_io_timeout,
							 before_resized, error))
		return false;
	(void) fc_list_entry(no, &entry);	/* what was offered has been taken */
	entry.slots = slots;
	fc_devices_note_identity(no, &entry);
	return true;
}

static FcChangeStep
grow(FcDeviceNo no, uint32 slots, FcReason *error)
{
	FcDeviceEntry entry;
	FcReason	again;

	(void) fc_list_entry(no, &entry);
	if (!fc_devices_would_fit(no, slots, error))
		return FC_CHANGE_FAILED;
	if (!reopen(no, slots, error))
	{
		/* there may be no space: it goes on as it was */
		if (reopen(no, entry.slots, &again))
			fc_devices_write_list();
		else
			fc_store_set_state(no, FC_DEVICE_OFF, &again);
		return FC_CHANGE_FAILED;
	}
	(void) fc_devices_place_more(no, slots, error);
	fc_devices_write_list();
	return FC_CHANGE_DONE;
}

/*
 * What is there behind the new end has been drained, and the device becomes
 * shorter.  Who has looked a slot up there before, and reads it too late, finds
 * no page (R3), and that is no failure of the device: hence its new size comes
 * first.  It has its old one again if it can't be made shorter.
 */
static FcChangeStep
end_of_shrink(FcReason *error)
{
	FcDeviceEntry entry;
	FcReason	again;
	uint32		index;

	(void) fc_list_entry(change.no, &entry);
	fc_store_set_slots(change.no, change.slots);
	if (!reopen(change.no, change.slots, error))
	{
		fc_store_set_slots(change.no, entry.slots);
		if (reopen(change.no, entry.slots, &again))
		{
			fc_devices_set_flags(change.no, entry.slots, true, true);
			fc_devices_write_list();
		}
		else
			fc_store_set_state(change.no, FC_DEVICE_OFF, &again);
		return FC_CHANGE_FAILED;
	}
	for (uint32 chunk = 0; chunk < fc_chunks(fc_directory_slots()); chunk++)
	{
		uint32		n;

		if (fc_store_chunk(chunk, &index) != change.no)
			continue;
		n = fc_devices_chunk_wants(change.slots, index);
		fc_directory_set_chunk(chunk, n, n, n > 0);
		if (n == 0)
			fc_store_set_chunk(chunk, FC_NO_DEVICE, 0);
	}
	fc_devices_write_list();
	return FC_CHANGE_DONE;
}

/* ---- all of them ---- */

FcChangeStep
fc_devices_change_step(FcReason *error)
{
	Assert(change.active);
	if (change.what == FC_CHANGE_ADD || change.what == FC_CHANGE_ENABLE)
		return look_at_opening(error);
	if (drain_some())
		return FC_CHANGE_MORE;
	change.active = false;
	switch (change.what)
	{
		case FC_CHANGE_REMOVE:
			fc_devices_remove(change.no);
			return FC_CHANGE_DONE;
		case FC_CHANGE_RESIZE:
			if (fc_store_state(change.no) == FC_DEVICE_ACTIVE)
				return end_of_shrink(error);
			(void) fc_store_reason(change.no, error);
			return FC_CHANGE_FAILED;	/* it went off meanwhile */
		case FC_CHANGE_DISABLE:
			set_disabled(change.no);
			fc_devices_write_list();
			fc_store_release(change.no, fc_setting_io_timeout); /* D8 */
			return FC_CHANGE_DONE;
		case FC_CHANGE_ADD:
		case FC_CHANGE_ENABLE:
			break;
	}
	Assert(false);
	return FC_CHANGE_FAILED;
}

FcChangeStep
fc_devices_change(FcDeviceChange what, const char *path, uint32 slots, FcReason *error)
{
	static const FcReason disabled = {"it is being disabled by pg_flashcache_disable_device()"};
	static const FcReason draining = {"it is being removed by pg_flashcache_remove_device()"};
	FcDeviceNo	no = find_device(path);
	FcDeviceState state = no == FC_NO_DEVICE ? FC_DEVICE_NONE : fc_store_state(no);
	FcDeviceEntry entry;

	Assert(fc_directory_is_mine() && !change.active);
	if (is_same_path(path, fc_setting_file))
	{
		fc_fail(error, what == FC_CHANGE_ADD ? "Name another one." :
				"It is changed by pg_flashcache.file, pg_flashcache.size and pg_flashcache.enabled; pg_flashcache_enable() tries it again if it is off.",
				"\"%s\" is the first device of the cache, pg_flashcache.file", path);
		return FC_CHANGE_FAILED;
	}
	if (what == FC_CHANGE_ADD)
	{
		if (no == FC_NO_DEVICE)
			return add_device(path, slots, error);
		fc_fail(error, "See pg_stat_flashcache_device.", "\"%s\" is a device of the cache already", path);
		return FC_CHANGE_FAILED;
	}
	if (no == FC_NO_DEVICE)
	{
		fc_fail(error, "See pg_stat_flashcache_device.", "\"%s\" is not a device of the cache", path);
		return FC_CHANGE_FAILED;
	}
	(void) fc_list_entry(no, &entry);
	switch (what)
	{
		case FC_CHANGE_ENABLE:
			return enable_device(no, error);
		case FC_CHANGE_REMOVE:
			fc_devices_stop_opening(no);
			if (state == FC_DEVICE_ACTIVE)
				fc_store_set_state(no, FC_DEVICE_DRAINING, &draining);
			begin_to_drain(what, no, 0, state == FC_DEVICE_ACTIVE);
			return FC_CHANGE_MORE;
		case FC_CHANGE_DISABLE:
			fc_devices_stop_opening(no);
			fc_store_set_state(no, FC_DEVICE_DISABLED, &disabled);
			begin_to_drain(what, no, 0, false);
			return FC_CHANGE_MORE;
		case FC_CHANGE_RESIZE:
			if (state != FC_DEVICE_ACTIVE)
			{
				fc_fail(error, "Enable it first, or remove it and add it again.", "\"%s\" is not in use", path);
				return FC_CHANGE_FAILED;
			}
			if (slots >= entry.slots)
				return slots == entry.slots ? FC_CHANGE_DONE : grow(no, slots, error);
			begin_to_drain(what, no, slots, true);
			return FC_CHANGE_MORE;
		case FC_CHANGE_ADD:
			break;
	}
	Assert(false);
	return FC_CHANGE_FAILED;
}
