/*-------------------------------------------------------------------------
 *
 * cache_devices_place.c
 *	  Chunks of slots find a place on a device.  Runs in the writer process
 *	  only.
 *
 * The number space of slots is that of pg_flashcache.max_size.  A device has as
 * many chunks of it as its size takes; the last one may be shorter.  Which
 * chunk it is does not matter, but for the last one of all, which may be
 * shorter, too.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "amount.h"
#include "cache/cache.h"
#include "cache/cache_devices_internal.h"
#include "cache/cache_internal.h"
#include "settings.h"

/* The log's, as far as the writer knows. */
static FcChunkSince position;

static uint32
nchunks(void)
{
	return fc_chunks(fc_directory_slots());
}

void
fc_devices_set_position(uint64 log, uint64 group)
{
	bool		other = log != position.log;
	bool		changed = false;

	position.log = log;
	position.group = group;
	if (!other || log == 0 || log == FC_EVERY_LOG)
		return;
	/* what was not known has been loaded, or given up; this one goes on */
	for (uint32 chunk = 0; chunk < nchunks(); chunk++)
		if (fc_device_list->since[chunk].log == FC_EVERY_LOG)
		{
			fc_device_list->since[chunk] = position;
			changed = true;
		}
	if (changed)
		fc_devices_write_list();
}

/* The chunk that lies in that place of a device; nchunks() if there is none. */
static uint32
find_chunk(FcDeviceNo no, uint32 wanted)
{
	uint32		index;
	uint32		chunk;

	for (chunk = 0; chunk < nchunks(); chunk++)
		if (fc_store_chunk(chunk, &index) == no && (no == FC_NO_DEVICE || index == wanted))
			break;
	return chunk;
}

/* One that is absent and large enough; nchunks() if there is none.  The smallest one is best: it may be the last. */
static uint32
find_absent(uint32 n, const bool *taken)
{
	uint32		best = nchunks();
	uint32		index;

	for (uint32 chunk = 0; chunk < nchunks(); chunk++)
	{
		uint32		has = fc_chunk_slots(fc_directory_slots(), chunk);

		if (fc_store_chunk(chunk, &index) == FC_NO_DEVICE && !taken[chunk] && has >= n &&
			(best == nchunks() || has < fc_chunk_slots(fc_directory_slots(), best)))
			best = chunk;
	}
	return best;
}

/* D1: nothing has to be written elsewhere, it is only forgotten. */
static void
drain_chunk(uint32 chunk)
{
	fc_directory_drain(fc_devices_chunk_first(chunk), fc_chunk_slots(fc_directory_slots(), chunk));
	fc_directory_set_chunk(chunk, 0, 0, false);
	fc_store_set_chunk(chunk, FC_NO_DEVICE, 0);
}

/*
 * Finds a chunk for each place of a device of so many slots that has none, or
 * the last one of all, which is too short for it: that one is drained.
 * `really`: gives it to them.
 */
static bool
find_all(FcDeviceNo no, uint32 slots, bool really, bool open, FcReason *error)
{
	bool		taken[FC_CHUNKS] = {false};
	uint64		found = 0;
	bool		more = really && open;
	uint32		n;

	for (uint32 index = 0; (n = fc_devices_chunk_wants(slots, index)) > 0; index++)
	{
		uint32		chunk = find_chunk(no, index);
		uint32		former;

		if (chunk < nchunks() && fc_chunk_slots(fc_directory_slots(), chunk) >= n)
		{
			if (really && open)
				fc_directory_set_chunk(chunk, n, n, true);
			found += n;
			continue;
		}
		former = chunk;
		chunk = find_absent(n, taken);
		if (chunk == nchunks())
		{
			FcAmount	wanted;
			FcAmount	left;

			return fc_fail_restart(error, "Raise pg_flashcache.max_size and restart the server, or choose a smaller size.",
								   "%s are more than pg_flashcache.max_size leaves, which is %s",
								   fc_amount(&wanted, (double) slots * BLCKSZ, FC_AMOUNT_EXACT),
								   fc_amount(&left, (double) found * BLCKSZ, FC_AMOUNT_DOWN));
		}
		taken[chunk] = true;
		found += n;
		if (!really)
			continue;
		if (former < nchunks())
			drain_chunk(former);
		more = true;
		fc_device_list->since[chunk] = position;	/* K16 */
		fc_directory_set_chunk(chunk, n, open ? n : 0, open);
		fc_store_set_chunk(chunk, no, index);
	}
	/* there is more of it than a scrub has seen */
	if (more)
		fc_cache_scrub_has_come(no);
	return true;
}

bool
fc_devices_would_fit(FcDeviceNo no, uint32 slots, FcReason *error)
{
	return find_all(no, slots, false, false, error);
}

bool
fc_devices_place(FcDeviceNo no, FcReason *error)
{
	FcDeviceEntry entry;

	Assert(fc_store_state(no) != FC_DEVICE_ACTIVE);
	return fc_list_entry(no, &entry) && find_all(no, entry.slots, false, false, error) &&
		find_all(no, entry.slots, true, false, error);
}

bool
fc_devices_place_more(FcDeviceNo no, uint32 slots, FcReason *error)
{
	return find_all(no, slots, true, true, error);
}

bool
fc_devices_begin_empty(FcDeviceNo no)
{
	uint32		index;

	if (fc_devices_forget_some(no))
		return false;
	/* with the first one the log begins anew */
	for (uint32 chunk = 0; no != FC_THE_DEVICE && chunk < nchunks(); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
			fc_device_list->since[chunk] = position;	/* K17 */
	return true;
}

void
fc_devices_unplace(FcDeviceNo no)
{
	uint32		index;

	for (uint32 chunk = 0; chunk < nchunks(); chunk++)
		if (fc_store_chunk(chunk, &index) == no)
		{
			fc_directory_set_chunk(chunk, 0, 0, false);
			fc_store_set_chunk(chunk, FC_NO_DEVICE, 0);
		}
}

/* ---- at start ---- */

/* Are the places of the list those of its devices, each once, in chunks that are large enough? */
static bool
is_whole(const FcDeviceList *list)
{
	static uint8 seen[FC_DEVICES][FC_CHUNKS];

	memset(seen, 0, sizeof(seen));
	for (uint32 chunk = 0; chunk < nchunks(); chunk++)
	{
		uint32		index;
		FcDeviceNo	no = fc_store_place_of_list(list->place[chunk], &index);
		uint32		n;

		if (no == FC_NO_DEVICE)
			continue;
		if (no >= FC_DEVICES || index >= FC_CHUNKS || seen[no][index])
			return false;
		n = fc_devices_chunk_wants(list->device[no].slots, index);
		if (n == 0 || n > fc_chunk_slots(list->slots, chunk))
			return false;
		seen[no][index] = 1;
	}
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		bool		placed = no == FC_THE_DEVICE || seen[no][0];

		/* one that has found no place has none at all */
		for (uint32 i = 0; placed && fc_devices_chunk_wants(list->device[no].slots, i) > 0; i++)
			if (i >= FC_CHUNKS || !seen[no][i])
				return false;
	}
	return true;
}

void
fc_devices_place_list(const FcDeviceList *list)
{
	static const FcReason starting = {"it has not been opened yet"};
	static const FcReason disabled = {"it was disabled by pg_flashcache_disable_device()"};
	bool		as_it_was = list->slots == fc_directory_slots() && list->device[FC_THE_DEVICE].slots == (uint32) fc_setting_size &&
		is_whole(list);

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		const FcDeviceEntry *entry = &list->device[no];

		if (entry->path[0] == '\0' || entry->slots < FC_MIN_SLOTS)
			continue;
		fc_list_set_entry(no, entry);
		fc_store_set_state(no, entry->disabled ? FC_DEVICE_DISABLED : FC_DEVICE_CLOSED, entry->disabled ? &disabled : &starting);
	}
	for (uint32 chunk = 0; as_it_was && chunk < nchunks(); chunk++)
	{
		uint32		index;
		FcDeviceNo	no = fc_store_place_of_list(list->place[chunk], &index);
		uint32		n = no == FC_NO_DEVICE ? 0 : fc_devices_chunk_wants(list->device[no].slots, index);
		bool		first = no == FC_THE_DEVICE;

		/* K17: entries will be restored there, and give no hit */
		fc_device_list->since[chunk] = list->since[chunk];
		fc_directory_set_chunk(chunk, n, first ? n : 0, first);
		fc_store_set_chunk(chunk, no, index);
	}
}
