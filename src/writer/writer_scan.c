/*-------------------------------------------------------------------------
 *
 * writer_scan.c
 *	  The frames of shared_buffers that the clock hand is about to come to.
 *
 * How far ahead: twice what the hand moved since the last round, so that a
 * round may come as late again and still be in time.  Backends wake the
 * writer when a quarter of that is used up; where nothing is evicted it
 * sleeps.  A hand that overtakes the writer is not chased: the frames in
 * between are counted as lost ("writer overloaded").
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_looked.h"
#include "handoff.h"
#include "stats/stats.h"
#include "storage/proc.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

#define MIN_WINDOW 512			/* frames */
#define MAX_LATER 4096			/* frames to be looked at again */

/* Positions count frames since start, as fc_bufscan_hand() does. */
static uint64 scanned_to;
static uint64 last_hand;
static double window;
static uint64 later[MAX_LATER];
static int	nlater;

/* Looks at one frame; remembers it if it may be worth another look. */
static void
look_at(uint64 position)
{
	uint32		frame = position % fc_bufscan_frames();
	FcTag		tag;
	int			usage;
	FcPeek		peek = fc_bufscan_look(frame, &tag, &usage);

	Assert(nlater >= 0 && nlater <= MAX_LATER);
	if (peek == FC_PEEK_NO)
		fc_looked_no(frame);
	else if (peek == FC_PEEK_LATER || usage > 0)
		fc_looked_has(frame, &tag);
	if (usage > 0)
		return;					/* somebody uses it */
	if (peek == FC_PEEK_CANDIDATE && fc_cache_fill_from_pool(frame, &tag) == FC_FILL_LATER)
		peek = FC_PEEK_LATER;
	if (peek == FC_PEEK_LATER && nlater < MAX_LATER)
		later[nlater++] = position;
}

static void
look_again(uint64 hand)
{
	int			n = nlater;

	/* look_at() appends at or before the place just read */
	nlater = 0;
	for (int i = 0; i < n; i++)
	{
		Assert(nlater <= i);
		if (later[i] >= hand)
			look_at(later[i]);
	}
}

void
fc_writer_write_group(void)
{
	if (!fc_writer_keeps_pages() || !fc_warm_group_due())
		return;
	do
		if (fc_warm_group() == FC_IO_BROKEN)
			fc_cache_device_broken();
	while (fc_warm_group_unfinished() && !fc_writer_called_off());
}

bool
fc_writer_scan(void)
{
	uint64		hand = fc_bufscan_hand();
	uint64		moved = hand - last_hand;
	uint32		allocations = fc_handoff_take_allocations();
	uint32		frames = fc_bufscan_frames();
	bool		useful = fc_cache_worth_filling();
	double		frames_per_allocation;
	uint64		end;

	/* grows at once, shrinks slowly */
	window = Max(Max((double) moved * 2, window * 0.98), (double) Min(MIN_WINDOW, frames));
	window = Min(window, (double) frames);
	Assert(window >= 1 && hand >= last_hand);
	frames_per_allocation = allocations > 0 ? Max(1.0, (double) moved / allocations) : 1.0;

	/*
	 * where nothing is worth filling, be gone: the verdict changes while this
	 * sleeps
	 */
	fc_handoff_set_threshold(useful ? (uint32) Max(1.0, window / 4 / frames_per_allocation) : frames);

	if (useful)
		look_again(hand);
	else
		nlater = 0;
	if (scanned_to < hand)
	{
		/*
		 * What was passed unseen is lost, if it was evicted: a hand that only
		 * lowers usage counts evicts nothing, however far it goes.
		 */
		if (last_hand != 0)
			fc_count_n(useful ? FC_SKIP_OVERLOADED : FC_SKIP_NOT_USEFUL, Min(hand - scanned_to, allocations));
		scanned_to = hand;
	}
	end = hand + (uint64) window;
	for (; useful && scanned_to < end && !fc_writer_called_off(); scanned_to++)
	{
		look_at(scanned_to);
		fc_writer_write_group();
	}
	Assert(scanned_to >= hand);
	last_hand = hand;
	return moved > 0;
}
