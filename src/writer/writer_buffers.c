/*-------------------------------------------------------------------------
 *
 * writer_buffers.c
 *	  What is in shared_buffers comes along over a clean stop: K13.
 *
 * Pages that stay in shared_buffers never come to flash.  At the end of the
 * server, those that are clean are copied there, by the steps F1 to F6, while
 * other processes end as well; nothing may be assumed of what they still do,
 * and F2 looks at each frame.  For those that are dirty a checkpoint is asked
 * for: the server is about to make one anyway, when the writer has left, and
 * then finds less to do.
 *
 * The hottest are copied first, for pg_flashcache.max_shutdown_delay at most.
 * The drive's write limit holds.  No more than half of the slots: the hand
 * would come round to the first ones.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "bufscan.h"
#include "cache/cache.h"
#include "compat.h"
#include "directory/directory.h"
#include "miscadmin.h"
#include "postmaster/bgwriter.h"
#include "settings.h"
#include "stats/stats.h"
#include "storage/latch.h"
#include "storage/pmsignal.h"
#include "warm/warm.h"
#include "writer/writer.h"

/* Of the time, copying may take so much; the rest is for the list. */
#define COPY_SHARE 0.8

/* Frames looked at between two looks at the clock. */
#define LOOK 1024

/* With the write limit reached, and between two looks for pages that have become clean. */
#define SLEEP_MS 10

/* No page has become clean for so long: none will. */
#define PATIENCE_NS UINT64CONST(1000000000)

#define ANY_USAGE (-1)

static uint64 began_at = 0;		/* 0: nothing is to be copied or listed */
static uint64 copy_us;
static uint32 copied;

/* While it copies: slots that may still be used, pages taken, and those that a pass has found dirty or in use. */
static uint32 room;
static uint32 taken;
static uint32 busy;

/* Is there time left?  `share` of what is allowed, from the begin on. */
static bool
has_time(double share)
{
	return fc_now_ns() - began_at < (uint64) (fc_setting_max_shutdown_delay * share * 1000000.0) &&
		!fc_writer_hurries() && PostmasterIsAlive();
}

/* Between two pages.  False: copying is over. */
static bool
goes_on(void)
{
	fc_writer_reload();
	(void) fc_cache_sweep();
	(void) fc_writer_run_log();
	return room > 0 && has_time(COPY_SHARE) && fc_cache_state() == FC_STATE_ACTIVE;
}

static bool
rest(void)
{
	(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH, SLEEP_MS, FC_WAIT_WRITER_MAIN);
	ResetLatch(MyLatch);
	return goes_on();
}

/* One pass over all frames: copies pages with that usage count.  False: copying is over. */
static bool
copy(int usage)
{
	for (uint32 frame = 0; frame < fc_bufscan_frames(); frame++)
	{
		FcTag		tag;
		FcPeek		peek;
		FcCopyHot	result;
		int			has;

		if (frame % LOOK == 0 && !goes_on())
			return false;
		peek = fc_bufscan_look(frame, &tag, &has);
		if (peek == FC_PEEK_NO || (usage != ANY_USAGE && has != usage))
			continue;
		if (peek == FC_PEEK_LATER)
		{
			busy++;
			continue;
		}
		while ((result = fc_cache_fill_hot(frame, &tag)) == FC_HOT_NO_BUDGET)
			if (!rest())
				return false;
		if (result != FC_HOT_TAKEN)
			continue;
		taken++;
		room--;
		if (!goes_on())
			return false;
	}
	return true;
}

/* Is any page dirty, or in use? */
static bool
any_busy(void)
{
	FcTag		tag;
	int			usage;

	for (uint32 frame = 0; frame < fc_bufscan_frames(); frame++)
		if (fc_bufscan_look(frame, &tag, &usage) == FC_PEEK_LATER)
			return true;
	return false;
}

/* Until all is copied, or it is time to stop. */
static void
copy_all(void)
{
	/* a standby can only repeat a checkpoint of its primary */
	bool		checkpoint = !RecoveryInProgress() && any_busy();
	uint64		progress_at;

	if (checkpoint)
		RequestCheckpoint(FC_CHECKPOINT_FAST);
	for (int usage = FC_USAGE_MAX; usage > 0; usage--)
		if (!copy(usage))
			return;
	/* those of 0, and what has become warmer, or clean, meanwhile */
	progress_at = fc_now_ns();
	do
	{
		uint32		before = taken;

		fc_cache_fill_flush();
		busy = 0;
		if (!copy(ANY_USAGE))
			return;
		if (taken > before)
			progress_at = fc_now_ns();
	} while (checkpoint && busy > 0 && fc_now_ns() - progress_at < PATIENCE_NS && rest());
}

void
fc_writer_copy_buffers(void)
{
	uint64		inserts = fc_stats_total(FC_INSERTS);

	/* without a log of it nobody would find it again */
	if (!fc_warm_writes() || fc_setting_max_shutdown_delay == 0)
		return;
	began_at = fc_now_ns();
	room = fc_directory_capacity() / 2;
	taken = 0;
	copy_all();
	if (fc_cache_state() == FC_STATE_ACTIVE)
		fc_cache_fill_flush();
	copied = (uint32) (fc_stats_total(FC_INSERTS) - inserts);
	copy_us = (fc_now_ns() - began_at) / 1000;
}

/*
 * Lists what the former list has beyond the n slots that are listed: this stop
 * has come before all of it was loaded.  Returns how many there are then.
 */
static uint32
list_former(FcSlotNo *slots, uint32 n, uint32 most)
{
	FcBuffers	now = fc_warm_buffers();
	uint32		nformer;
	FcSlotNo   *former;
	uint8	   *listed;

	if ((now != FC_BUFFERS_WAITING && now != FC_BUFFERS_LOADING) || (former = fc_warm_list(&nformer)) == NULL)
		return n;
	listed = calloc(fc_directory_slots() / 8 + 1, 1);
	for (uint32 i = 0; listed != NULL && i < n; i++)
		listed[slots[i] / 8] |= 1 << (slots[i] % 8);
	for (uint32 i = 0; listed != NULL && i < nformer && n < most; i++)
	{
		FcTag		tag;

		if (i % LOOK == 0 && !has_time(1.0))
			break;
		if (fc_directory_restored_page(former[i], &tag) && !(listed[former[i] / 8] & (1 << (former[i] % 8))))
			slots[n++] = former[i];
	}
	free(listed);
	free(former);
	return n;
}

void
fc_writer_list_buffers(void)
{
	uint32		most = Min(fc_bufscan_frames(), fc_directory_slots());
	FcSlotNo   *slots;
	uint32		n = 0;

	if (began_at == 0 || (slots = malloc((size_t) most * sizeof(FcSlotNo))) == NULL)
		return;
	for (int usage = FC_USAGE_MAX; usage >= 0; usage--)
		for (uint32 frame = 0; frame < fc_bufscan_frames() && n < most; frame++)
		{
			FcTag		tag;
			FcSlotRef	ref;
			int			has;

			if (frame % LOOK == 0 && !has_time(1.0))
				break;
			/* one that is dirty will be taken off flash when it is written */
			if (fc_bufscan_look(frame, &tag, &has) != FC_PEEK_NO && has == usage &&
				fc_directory_lookup(&tag, fc_directory_hash(&tag), &ref))
				slots[n++] = ref.slot;
		}
	n = list_former(slots, n, most);
	fc_warm_save_list(slots, n, copied, copy_us);
	free(slots);
}
