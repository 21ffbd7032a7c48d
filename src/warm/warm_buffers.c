/*-------------------------------------------------------------------------
 *
 * warm_buffers.c
 *	  K13: the list of what was in shared_buffers, from one run to the next.
 *
 * It names slots, since the directory that is loaded knows their pages, and
 * only those that are still right.  So a list that is wrong, torn or of
 * another run could cost time, but never give a wrong page.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "directory/directory.h"
#include "warm/warm_internal.h"

/* Of the writer: when loading began. */
static uint64 began_at = 0;

void
fc_warm_save_list(const FcSlotNo *slots, uint32 n, uint32 copied, uint64 copy_us)
{
	FcWarmList	list;

	if (fc_warm == NULL || !fc_warm->left)
		return;					/* nothing will be restored */
	memset(&list, 0, sizeof(list));
	memcpy(list.magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC));
	list.format = FC_WARM_FORMAT;
	list.slots = fc_directory_slots();
	list.log = fc_warm->root.log;
	list.run = fc_warm->root.run;
	list.group = fc_warm->group;
	list.n = n;
	list.copied = copied;
	list.copy_us = copy_us;
	list.crc = fc_warm_list_crc(&list, slots);
	if (!fc_warm_write_list(&list, slots))
		ereport(LOG, (errmsg("pg_flashcache could not write \"" FC_LIST_FILE "\" to the data directory: %m"),
					  errdetail("Shared buffers will be empty after the next start.")));
	else
		ereport(LOG, (errmsg("pg_flashcache has %u pages of shared buffers on flash", n),
					  errdetail("%u of them were copied now, in %llu ms.", copied, (unsigned long long) (copy_us / 1000))));
}

void
fc_warm_find_list(const FcWarmRoot *root, const FcWarmStamp *stamp, bool clean_stop)
{
	FcWarmList	list;
	FcSlotNo   *slot;

	if (!clean_stop || !fc_warm_read_list(&list, fc_directory_slots(), &slot))
		return;
	free(slot);
	if (list.log != root->log || !fc_run_equal(&list.run, &root->run) || list.group != stamp->group)
		return;
	fc_warm->list_crc = list.crc;
	fc_warm->listed = true;
	SpinLockAcquire(&fc_warm->lock);
	fc_warm->info.listed = true;
	fc_warm->info.list_pages = list.n;
	fc_warm->info.list_copied = list.copied;
	fc_warm->info.list_copy_us = list.copy_us;
	fc_warm->info.buffers = FC_BUFFERS_WAITING;
	SpinLockRelease(&fc_warm->lock);
}

FcSlotNo *
fc_warm_list(uint32 *n)
{
	FcWarmList	list;
	FcSlotNo   *slot;

	if (fc_warm == NULL || !fc_warm->listed ||
		!fc_warm_read_list(&list, fc_directory_slots(), &slot))
		return NULL;
	if (list.crc != fc_warm->list_crc)
	{
		free(slot);
		return NULL;
	}
	*n = list.n;
	return slot;
}

void
fc_warm_forget_list(void)
{
	fc_warm->listed = false;
	fc_warm_remove_list();
}

FcBuffers
fc_warm_buffers(void)
{
	return fc_warm != NULL ? fc_warm->info.buffers : FC_BUFFERS_NONE;
}

void
fc_warm_set_buffers(FcBuffers now)
{
	uint64		us = 0;

	if (now == FC_BUFFERS_LOADING && began_at == 0)
		began_at = fc_now_ns();
	else if (now != FC_BUFFERS_LOADING && began_at != 0)
		us = (fc_now_ns() - began_at) / 1000;
	SpinLockAcquire(&fc_warm->lock);
	fc_warm->info.buffers = now;
	fc_warm->info.buffers_load_us = us;
	SpinLockRelease(&fc_warm->lock);
}

void
fc_warm_buffers_loaded(uint32 pages)
{
	SpinLockAcquire(&fc_warm->lock);
	fc_warm->info.buffers_loaded += pages;
	SpinLockRelease(&fc_warm->lock);
}
