/*-------------------------------------------------------------------------
 *
 * writer_state.c
 *	  The state of the cache, as the writer runs it: on, off, paused, back.
 *
 * A cache that went off, or paused, is brought back by probes; when they are
 * due is in writer_trouble.c.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "compat.h"
#include "failpoint.h"
#include "handoff.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "storage/condition_variable.h"
#include "storage/proc.h"
#include "store/store.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"
#include "writer/writer_patience.h"

/* Without io_timeout nobody else bounds how long one who asks waits for a device that is being opened. */
#define ENABLE_PATIENCE_S 10

/* First try, or the first after it was switched on. */
static void
open_first(void)
{
	static const FcReason opening = {"the flash device is being opened"};
	FcReason	error;

	/* opening takes as long as the device does */
	fc_cache_set_state(FC_STATE_STARTING, &opening);
	fc_writer_begin_to_wait();
	if (fc_writer_open_device(&error) || fc_cache_state() == FC_STATE_DETACHED)
		return;
	if (fc_writer_wait_for_others(&error))
	{
		fc_cache_set_reason(&error);
		/* they may hang: of the first one, meanwhile */
		fc_writer_schedule_probe();
	}
	else
		fc_cache_set_state(FC_STATE_OFF, &error);
}

/* Flash was slower than the disk: is it still?  Its pages are good, they were looked after all the time. */
static void
probe_paused(void)
{
	bool		slow;

	/*
	 * a session whose read began before the pause may switch off at any
	 * moment
	 */
	if (fc_cache_still_slow(&slow) == FC_IO_BROKEN)
		fc_cache_set_state(FC_STATE_OFF, fc_store_trouble());
	else if (!slow && fc_writer_note_active(fc_cache_resume()))
		ereport(LOG, (errmsg("pg_flashcache is active: flash is faster than the disk again")));
}

/* Off or paused, or starting while others than the first device are waited for: there is something to be probed. */
static bool
may_probe(void)
{
	return fc_writer_is_away() || fc_cache_state() == FC_STATE_STARTING;
}

/* Tries to bring back a cache that is off or paused, or to begin with the first device after all. */
static void
probe(void)
{
	FcReason	before;
	FcReason	error;
	bool		other = false;

	Assert(may_probe());
	fc_writer_no_probe();
	fc_count(FC_PROBED);
	(void) fc_cache_reason(&before);
	if (fc_cache_state() == FC_STATE_PAUSED)
		probe_paused();
	else if (!fc_writer_open_device(&error))
	{
		other = !fc_policy_same_cause(before.message, error.message);
		fc_cache_set_reason(&error);
		(void) fc_writer_wait_for_others(&error);
	}
	if (may_probe())
		fc_writer_probe_failed(other ? &error : NULL);
}

/*
 * The first device alone is off: the cache goes on meanwhile, and nobody waits.
 * True if it is over, whatever has come of it.
 */
static bool
probe_first(void)
{
	FcReason	error;

	if (!fc_devices_opens(FC_THE_DEVICE))
	{
		fc_warm_end();			/* no other request to it (H8) */
		fc_count(FC_PROBED);
	}
	switch (fc_devices_open_first(fc_warm_log_blocks(), &error))
	{
		case FC_STEP_MORE:
			return false;
		case FC_STEP_FAILED:
			fc_devices_first_failed(&error);
			break;
		case FC_STEP_DONE:
			if (fc_warm_begin(false) == FC_IO_BROKEN)
				fc_cache_device_broken();
			break;
	}
	return true;
}

static bool
probe_due(void)
{
	uint64		probe_at = fc_writer_probe_at();

	return probe_at != 0 && fc_now_ns() >= probe_at && !fc_failpoint(FC_FP_PROBE_DUE);
}

/* It is paused, and no probe is needed to know that it may be so no longer: all reads come from the disk now. */
static bool
paused_for_nothing(void)
{
	return fc_cache_state() == FC_STATE_PAUSED &&
		(!fc_setting_pause_when_slow || fc_cache_disk_slowed());
}

/* Another io_timeout: is there a way to keep it?  True if a cache that is off may be on under it. */
static bool
timeout_changed(void)
{
	static int	last = -1;
	bool		changed = last >= 0 && last != fc_setting_io_timeout;
	FcReason	error;

	last = fc_setting_io_timeout;
	if (changed && fc_cache_state() == FC_STATE_ACTIVE && !fc_store_can_bound(FC_THE_DEVICE, last, &error))
		fc_cache_set_state(FC_STATE_OFF, &error);
	return changed && fc_cache_state() == FC_STATE_OFF;
}

/* Some pages of a cache that is disabled; after the last ones it lets go of the devices. */
static void
forget_some(void)
{
	if (fc_cache_purges() && fc_cache_purge_step())
		return;
	fc_devices_release();		/* last, since the writer may end in it */
}

/*
 * A cache that is disabled has no entries.  Before its log has been loaded these
 * are what a writer that has ended has loaded of it; invalidations are kept,
 * which it is to be compared with.
 */
static void
forget_pages(void)
{
	FcSlotNo	at = 0;

	if (!fc_warm_pending())
		fc_cache_purge_begin();
	else if (fc_directory_linked() > 0)
		while (fc_directory_drop_restored(&at, FC_DIRECTORY_STEP))
			fc_store_look_for_stop();
	forget_some();
}

/* By pg_flashcache.enabled. */
static void
set_disabled(void)
{
	static const FcReason why = {"pg_flashcache.enabled is off"};

	fc_cache_set_state(FC_STATE_DISABLED, &why);	/* O1 */
	fc_devices_close();
	ereport(LOG, (errmsg("pg_flashcache is disabled: %s", why.message)));
	fc_writer_no_probe();
	forget_pages();
}

/* Whoever has asked by then. */
static void
answer(uint32 asked)
{
	/* later ones may have been answered by now */
	if ((int32) (asked - pg_atomic_read_u32(&fc_writer_shared->answered)) > 0)
		pg_atomic_write_u32(&fc_writer_shared->answered, asked);
	ConditionVariableBroadcast(&fc_writer_shared->answer);
}

/* Devices are opened, step by step, and without io_timeout they may be for ever: whoever has asked is told how it is. */
static void
answer_at_last(uint32 asked)
{
	static uint64 since = 0;	/* somebody waits; ns, 0 = nobody does */

	if (asked == pg_atomic_read_u32(&fc_writer_shared->answered))
		since = 0;
	else if (since == 0)
		since = fc_now_ns();
	else if (fc_setting_io_timeout == 0 &&
			 fc_now_ns() - since >= fc_failpoint_number("FC_ENABLE_PATIENCE_S", ENABLE_PATIENCE_S) * UINT64CONST(1000000000))
	{
		answer(asked);
		since = 0;
	}
}

void
fc_writer_run_state(void)
{
	static uint32 first_asked;
	static uint32 tried_for = FC_START_32;	/* who asked before that had the
											 * first device tried */
	uint32		others_asked;
	bool		timeout = timeout_changed();
	uint32		asked = pg_atomic_read_u32(&fc_writer_shared->asked);
	FcState		state = fc_cache_state();
	bool		forgets = state == FC_STATE_DISABLED && fc_cache_purges();
	FcReason	why;

	if (asked != pg_atomic_read_u32(&fc_writer_shared->answered))
		fc_devices_first_begins_anew();
	if (!fc_setting_enabled && (state == FC_STATE_ACTIVE || may_probe()))
		set_disabled();
	else if (forgets)
		forget_some();			/* to the end, also if it is enabled again */
	else if (fc_setting_enabled && state == FC_STATE_DISABLED)
	{
		fc_writer_forget_trouble();
		open_first();
	}
	else if (state == FC_STATE_ACTIVE && fc_cache_slower_than_disk(&why))
		fc_cache_set_state(FC_STATE_PAUSED, &why);
	fc_writer_tell_log();
	/* it is opened after that: who asks learns what has come of it */
	if (forgets && fc_setting_enabled)
		return;

	if ((!fc_writer_is_away() || fc_devices_opens(FC_THE_DEVICE)) && fc_devices_first_is_off() &&
		(fc_devices_opens(FC_THE_DEVICE) || asked != pg_atomic_read_u32(&fc_writer_shared->answered) || fc_devices_first_is_due()))
	{
		/* who asks while it is being opened is answered by the next opening */
		if (!fc_devices_opens(FC_THE_DEVICE))
			first_asked = asked;
		if (probe_first())
			answer(first_asked);
	}
	else if (fc_writer_others_looked_for(&others_asked))
		answer(others_asked);
	else if (asked != pg_atomic_read_u32(&fc_writer_shared->answered) && (asked != tried_for || !fc_writer_waits_for_others()))
	{
		tried_for = asked;
		if (may_probe())
		{
			fc_writer_forget_trouble();
			if (fc_writer_waits_for_others())
				(void) fc_devices_wait_for_others();	/* once more for each */
			probe();
		}
		if (!fc_writer_waits_for_others())
			answer(asked);
	}
	else if (paused_for_nothing() || (timeout && fc_writer_is_away()))
	{
		fc_writer_probe_soon();
		probe();
	}
	else if (may_probe() && probe_due())
		probe();
	answer_at_last(asked);
	fc_writer_tell_log();
}

void
fc_writer_start(void)
{
	FcReason	error;
	uint64		log;
	uint64		group;
	bool		found;

	Assert(FC_IS_WRITER());
	fc_cache_fill_start();
	fc_warm_start();
	fc_warm_position(&log, &group);
	fc_devices_set_position(log, group);
	found = fc_devices_start(&error);
	switch (fc_cache_state())
	{
		case FC_STATE_STARTING:
			if (fc_setting_enabled)
				open_first();
			else
				set_disabled(); /* one before this one may have had others in
								 * use */
			break;

		case FC_STATE_ACTIVE:
		case FC_STATE_PAUSED:
			/* a writer before this one has died; what it published is good */
			if (!found)
				fc_devices_first_is_lost(&error);	/* D6 */
			else if (fc_cache_state() == FC_STATE_PAUSED)
				fc_writer_schedule_probe();
			break;

		case FC_STATE_OFF:
			fc_writer_schedule_probe();
			break;

		case FC_STATE_DISABLED:
			/* one before this one may have ended before it had done so */
			forget_pages();
			break;

		case FC_STATE_DETACHED:
			break;
	}
	fc_writer_shared->started = true;
}

bool
fc_writer_enable(void)
{
	uint32		ticket;
	bool		told = false;

	Assert(!FC_IS_WRITER());

	/*
	 * one that is opening the device does not take pages yet, and answers
	 * later
	 */
	if (fc_writer_shared->proc == NULL)
		return false;
	ticket = pg_atomic_add_fetch_u32(&fc_writer_shared->asked, 1);
	fc_handoff_wake();
	ConditionVariablePrepareToSleep(&fc_writer_shared->answer);
	while ((int32) (pg_atomic_read_u32(&fc_writer_shared->answered) - ticket) < 0)
	{
		if (!ConditionVariableTimedSleep(&fc_writer_shared->answer, 1000, FC_WAIT_ENABLE))
			continue;
		if (fc_writer_shared->proc == NULL)
		{
			ConditionVariableCancelSleep();
			return false;
		}
		fc_writer_tell_wait(&told);
	}
	ConditionVariableCancelSleep();
	return true;
}
