/*-------------------------------------------------------------------------
 *
 * writer_open.c
 *	  The first device: opens and tries it, or finds out whether there are
 *	  others to go on with (D6).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "settings.h"
#include "storage/proc.h"
#include "store/store.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

#define FIRST_PATIENCE_S 30		/* for the first device, if it has a log */

static FcSelfTest self_test;

/* D6: it may go on with other devices than the first, which can't be opened for that reason. */
static bool waits_for_others;
static FcReason without_first;

/* Since when it can't be opened, and the log is waited for; ns, 0 = it was not tried. */
static uint64 failed_at;

/* That is over, and whose requests to enable it answers. */
static bool others_looked_for;
static uint32 others_asked;

void
fc_writer_test_with(FcSelfTest test)
{
	self_test = test;
}

/*
 * Do the server's calls reach us?  Asked until there is an answer: what keeps
 * the test from being carried out may pass.
 */
static bool
test_passed(FcReason *error)
{
	char		what[FC_REASON_LEN];

	if (fc_writer_shared->tested)
		return true;
	switch (self_test(what, sizeof(what)))
	{
		case FC_TEST_PASSED:
			fc_writer_shared->tested = true;
			return true;
		case FC_TEST_NOT_CALLED:
			fc_writer_no_probe();
			fc_fail(error, "Please report the exact version of your server.", "%s", what);
			fc_cache_set_state(FC_STATE_DETACHED, error);
			break;
		case FC_TEST_FAILED:
			fc_fail(error, "The test writes a small file below \"base\" in the data directory.", "%s", what);
			break;
	}
	return false;
}

/*
 * It may be another device that was opened: before anybody is led to it.  At
 * first there is nothing to be forgotten, but invalidations that the log must
 * be compared with.
 */
static bool
before_use(bool same)
{
	if (!fc_warm_pending() && !fc_cache_purge_unless(same)) /* O2 */
		return false;
	fc_failpoint(FC_FP_SWITCH_PURGED);
	return true;
}

/* Loads what an earlier run has left; the device has been tried.  False if that fails it. */
static bool
load_log(bool *restored, FcReason *error)
{
	switch (fc_warm_load())
	{
		case FC_WARM_LOADED:
			*restored = true;
			return true;
		case FC_WARM_COLD:
			fc_cache_purge();
			return true;
		case FC_WARM_STOPPED:
			fc_writer_leave();
			break;
		case FC_WARM_FAILED:
			fc_cache_purge();
			break;
	}
	return fc_fail(error, "Check the device.", "the log on the flash device could not be read");
}

bool
fc_writer_open_device(FcReason *error)
{
	bool		pending = fc_warm_pending();
	bool		restored = false;
	uint32		kept;

	fc_devices_stop_opening(FC_THE_DEVICE);
	if (!test_passed(error) || !fc_store_answers(FC_THE_DEVICE, fc_setting_io_timeout, error))
		return false;
	if (!fc_store_open(FC_THE_DEVICE, fc_setting_file, fc_setting_size, fc_warm_log_blocks(), fc_setting_require_mount, fc_setting_io_timeout, before_use, error) ||	/* O3 */
		!fc_store_can_bound(FC_THE_DEVICE, fc_setting_io_timeout, error))
		return false;
	if (pending && !fc_warm_look())
	{
		pending = false;
		fc_cache_purge();
	}
	if (!fc_cache_try_flash(error) || (pending && !load_log(&restored, error)))
		return false;
#ifdef FC_FAILPOINTS
	if (!restored)
		fc_directory_make_up(fc_failpoint_number("FC_MADE_UP", 0));
#endif
	if (fc_warm_begin(restored) == FC_IO_BROKEN)
	{
		*error = *fc_store_trouble();
		return false;
	}
	fc_failpoint(FC_FP_SWITCH_OPENED);
	fc_devices_first_is_back();
	kept = fc_directory_used();
	if (!fc_writer_note_active(fc_cache_set_state(FC_STATE_ACTIVE, NULL)))	/* O4 */
	{
		(void) fc_cache_reason(error);
		return false;
	}
	ereport(LOG,
			(errmsg("pg_flashcache is active: %u slots on \"%s\", %s",
					fc_store_slots(FC_THE_DEVICE), fc_setting_file,
					fc_store_direct_io(FC_THE_DEVICE) ? "direct I/O" :
					"through the page cache, since its file system has no direct I/O"),
			 kept > 0 ? errdetail_plural("It has kept %u page.", "It has kept %u pages.", kept, kept) : 0));
	fc_writer_warn_shares();
	return true;
}

void
fc_writer_begin_to_wait(void)
{
	failed_at = 0;
}

/*
 * A log that the first device has for the whole cache is worth a while: its
 * file system may be mounted late.
 */
bool
fc_writer_wait_for_others(const FcReason *why)
{
	uint64		now = fc_now_ns();

	FcReason	unbounded;

	if (!fc_writer_shared->tested || !fc_store_can_bound(FC_THE_DEVICE, fc_setting_io_timeout, &unbounded))
		return false;
	if (failed_at == 0)
		failed_at = now;
	if (fc_warm_pending() && now - failed_at < fc_failpoint_number("FC_FIRST_PATIENCE_S", FIRST_PATIENCE_S) * UINT64CONST(1000000000))
		return false;
	without_first = *why;
	/* each is tried once, however often the first one is tried meanwhile */
	if (!waits_for_others)
		waits_for_others = fc_devices_wait_for_others();
	return waits_for_others;
}

void
fc_writer_look_for_others(void)
{
	FcStoreStep step;

	if (!waits_for_others)
		return;
	if (fc_cache_state() != FC_STATE_STARTING && fc_cache_state() != FC_STATE_OFF)
		fc_devices_wait_no_more();	/* it has been opened, or disabled */
	step = fc_devices_others();
	if (step == FC_STEP_MORE)
		return;

	/*
	 * who has asked by now is answered in the next round, by what has come of
	 * it
	 */
	waits_for_others = false;
	others_asked = pg_atomic_read_u32(&fc_writer_shared->asked);
	others_looked_for = true;
	if (step == FC_STEP_FAILED)
	{
		if (fc_cache_state() == FC_STATE_STARTING)
			fc_cache_set_state(FC_STATE_OFF, &without_first);
		return;
	}
	if (fc_warm_pending())
	{
		fc_warm_give_up("the first device cannot be opened");
		fc_cache_purge();		/* what a writer that has ended has loaded of
								 * it */
	}
	while (!fc_cache_purge_unless(true))	/* O2 */
		fc_store_look_for_stop();
	fc_devices_first_is_away(&without_first);
	if (fc_writer_note_active(fc_cache_set_state(FC_STATE_ACTIVE, NULL)))	/* O4 */
		ereport(LOG, (errmsg("pg_flashcache is active without its first device")));
}

bool
fc_writer_waits_for_others(void)
{
	return waits_for_others;
}

bool
fc_writer_others_looked_for(uint32 *asked)
{
	bool		over = others_looked_for;

	others_looked_for = false;
	*asked = others_asked;
	return over;
}
