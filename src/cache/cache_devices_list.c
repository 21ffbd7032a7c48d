/*-------------------------------------------------------------------------
 *
 * cache_devices_list.c
 *	  Writing the list of devices, now or later.  Runs in the writer process
 *	  only.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_devices_internal.h"
#include "compat.h"
#include "durable.h"
#include "settings.h"

/* The list, if it could not be written, is tried again after that. */
#define LIST_PAUSE_S 10
#define LIST_RETRIED "It is written again every 10 s, and by the next change of a device; the server's log says when that has worked."

/* The file of the list is older than the list. */
static bool unwritten = false;
static FcReason list_trouble;	/* why, then */
static uint64 list_retry_at;	/* ns */

void
fc_devices_note_identity(FcDeviceNo no, FcDeviceEntry *entry)
{
	memcpy(entry->identity, fc_store_identity(no), sizeof(entry->identity));
	entry->opened = true;
	fc_list_set_entry(no, entry);
}

static bool
write_list(void)
{
	FcDeviceEntry first;

	(void) fc_list_entry(FC_THE_DEVICE, &first);
	first.slots = (uint32) fc_setting_size;
	fc_list_set_entry(FC_THE_DEVICE, &first);
	unwritten = !fc_list_write();
	if (!unwritten)
		return true;
	list_retry_at = fc_now_ns() + LIST_PAUSE_S * UINT64CONST(1000000000);
	return fc_fail(&list_trouble, errno == ENOSPC || errno == EDQUOT ?
				   "Free space in the data directory. " LIST_RETRIED :
				   "See to it that the server can write that file and \"" FC_DEVICES_FILE FC_TMP "\" there. " LIST_RETRIED,
				   "could not write \"%s\" to the data directory: %m", FC_DEVICES_FILE);
}

void
fc_devices_write_list(void)
{
	if (!write_list())
		ereport(WARNING,
				(errmsg("pg_flashcache %s", list_trouble.message),
				 errdetail("After a restart the devices of the flash cache are those that it named before."),
				 errhint("%s", list_trouble.hint)));
}

static void
write_again(void)
{
	if (write_list())
		ereport(LOG,
				(errmsg("pg_flashcache has written \"%s\", which it could not write before", FC_DEVICES_FILE)));
}

void
fc_devices_retry_list(void)
{
	if (unwritten && fc_now_ns() >= list_retry_at)
		write_again();
}

bool
fc_devices_list_written(FcReason *why)
{
	if (unwritten)
		write_again();
	if (unwritten)
		*why = list_trouble;
	return !unwritten;
}

void
fc_devices_offer(FcDeviceNo no)
{
	FcDeviceEntry entry;

	if (fc_list_offer(no) && fc_list_entry(no, &entry) && !entry.adding)
		fc_devices_write_list();
}
