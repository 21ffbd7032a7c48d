/*-------------------------------------------------------------------------
 *
 * store_list.c
 *	  See store_list.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "durable.h"
#include "port/pg_crc32c.h"
#include "storage/spin.h"
#include "store/store_internal.h"
#include "store/store_list.h"
#include "store/store_process.h"

#define MAGIC "fc devices\n\032"
#define FORMAT 2				/* 1 had no offers */

static uint32
list_crc(const FcDeviceList *list)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, list, offsetof(FcDeviceList, crc));
	FIN_CRC32C(crc);
	return crc;
}

bool
fc_list_entry(FcDeviceNo no, FcDeviceEntry *entry)
{
	slock_t    *lock;

	Assert(no < FC_DEVICES);
	if (fc_device_list == NULL)
		return false;
	lock = fc_device_lock(no);
	SpinLockAcquire(lock);
	*entry = fc_device_list->device[no];
	SpinLockRelease(lock);
	return entry->path[0] != '\0';
}

/* D8: what is being added is in no file. */
static bool
is_listed(const FcDeviceEntry *entry)
{
	return entry->path[0] != '\0' && !entry->adding;
}

void
fc_list_set_entry(FcDeviceNo no, const FcDeviceEntry *entry)
{
	slock_t    *lock = fc_device_lock(no);
	bool		listed;

	Assert(fc_in_writer());
	SpinLockAcquire(lock);
	listed = is_listed(&fc_device_list->device[no]) || is_listed(entry);
	fc_device_list->device[no] = *entry;
	SpinLockRelease(lock);
	/* of the first one pg_flashcache.file counts */
	if (no != FC_THE_DEVICE && listed)
		*fc_list_changed = true;
}

bool
fc_list_offer(FcDeviceNo no)
{
	FcDeviceEntry entry = {""};

	Assert(fc_in_writer());
	(void) fc_list_entry(no, &entry);
	if (entry.offered || !pg_strong_random(entry.offer, sizeof(entry.offer)))
		return false;
	entry.offered = true;
	fc_list_set_entry(no, &entry);
	return true;
}

void
fc_list_take_back(FcDeviceNo no)
{
	FcDeviceEntry entry = {""};

	Assert(fc_in_writer());
	(void) fc_list_entry(no, &entry);
	entry.offered = false;
	memset(entry.offer, 0, sizeof(entry.offer));
	fc_list_set_entry(no, &entry);
}

bool
fc_list_read(FcDeviceList *list, bool *there)
{
	int			fd = fc_durable_open(FC_DEVICES_FILE);
	int			open_errno = errno;
	bool		ok = fd >= 0 && fc_durable_read(fd, list, sizeof(*list)) &&
		memcmp(list->magic, MAGIC, sizeof(MAGIC)) == 0 && list->format == FORMAT && list->crc == list_crc(list);

	*there = fd >= 0 || open_errno != ENOENT;
	if (fd >= 0)
		close(fd);
	for (int no = 0; ok && no < FC_DEVICES; no++)
	{
		const char *path = list->device[no].path;

		ok = memchr(path, '\0', MAXPGPATH) != NULL && (path[0] == '\0' || path[0] == '/');
	}
	return ok;
}

static bool
is_empty(const FcDeviceList *list)
{
	for (int no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (list->device[no].path[0] != '\0')
			return false;
	return true;
}

/* A device that is not in use yet, and its chunks. */
static void
leave_out(FcDeviceList *list, FcDeviceNo no)
{
	uint32		index;

	memset(&list->device[no], 0, sizeof(list->device[no]));
	for (uint32 chunk = 0; chunk < FC_CHUNKS; chunk++)
		if (fc_store_place_of_list(list->place[chunk], &index) == no)
			list->place[chunk] = FC_LIST_NOWHERE;
}

static bool
write_file(FcDeviceList *list)
{
	int			fd;

	memset(list->magic, 0, sizeof(list->magic));
	memcpy(list->magic, MAGIC, sizeof(MAGIC));
	list->format = FORMAT;
	list->crc = list_crc(list);
	fd = fc_durable_begin(FC_DEVICES_FILE FC_TMP);
	return fc_durable_finish(fd, fd >= 0 && fc_durable_write(fd, list, sizeof(*list)),
							 FC_DEVICES_FILE FC_TMP, FC_DEVICES_FILE, true);
}

bool
fc_list_write(void)
{
	static FcDeviceList copy;
	FcDeviceList *list = &copy;
	bool		written;

	Assert(fc_in_writer());
	*list = *fc_device_list;
	fc_map_export(&list->slots, list->place);
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (list->device[no].adding)
			leave_out(list, no);
	written = is_empty(list) ? fc_durable_remove(FC_DEVICES_FILE) : write_file(list);
	if (written)
		*fc_list_changed = false;
	return written;
}

bool
fc_list_believes(FcSlotNo slot, uint64 log, uint64 group)
{
	const FcChunkSince *since = &fc_device_list->since[fc_map_chunk(slot)];

	return since->log != FC_EVERY_LOG && (since->log != log || group > since->group);
}
