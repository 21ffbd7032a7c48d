/*-------------------------------------------------------------------------
 *
 * writer.c
 *	  See writer.h.
 *
 * One round:
 *	1. look at settings and requests, change the state if they say so, erase
 *	   a batch of slots if somebody wants that;
 *	2. take what backends evicted dirty;
 *	3. look again at frames that were in use the last time;
 *	4. look at the frames just ahead of the clock hand, each once a lap;
 *	5. write and publish;
 *	6. neighbours of pages that sessions have read from disk, out of the page
 *	   cache; and what sessions have read from data files: with what is left of
 *	   the write limit.
 *
 * How far ahead: twice what the hand moved since the last round, so that a
 * round may come as late again and still be in time.  Backends wake the
 * writer when a quarter of that is used up; where nothing is evicted it
 * sleeps.  A hand that overtakes the writer is not chased: the frames in
 * between are counted as lost ("writer overloaded").
 *
 * A cache that went off, or paused because flash was slower than the disk, is
 * brought back by probes: the first one a second later, then after pauses
 * that double, up to five minutes; and at once where the disk has become twice
 * as slow as it was when the cache paused.  A cache that is back and goes off again
 * soon goes on with the longer pause, so that a device that comes and goes
 * costs less and less; a while without trouble, or pg_flashcache_enable(),
 * starts from the beginning.  Of such a series the first fault of each cause
 * is a WARNING, and then one an hour.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/admission.h"
#include "advice/advice.h"
#include "bufscan.h"
#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_looked.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "health.h"
#include "miscadmin.h"
#include "policy.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "stats/stats.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "store/store.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "utils/timestamp.h"
#include "warm/warm.h"
#include "writer/writer.h"

#define BUSY_SLEEP_MS 50
#define IDLE_SLEEP_MS 1000
#define FIRST_PATIENCE_S 30		/* for the first device, if it has a log */
#define IDLE_ROUNDS 100			/* rounds without evictions before it sleeps
								 * longer */
#define MIN_WINDOW 512			/* frames */
#define MAX_HANDOFF 1024		/* dirty evictions taken before the pool is
								 * looked at */
#define MAX_LATER 4096			/* frames to be looked at again */
#define QUIET_NS UINT64CONST(600000000000)	/* ten minutes without trouble end
											 * a series */

/* What a verdict on the last ten minutes is drawn from: some sums as they stood, once a minute. */
#define SAMPLES 10
#define SAMPLE_NS UINT64CONST(60000000000)

static const FcCounter sampled[] = {
	FC_HITS, FC_MISSES, FC_OS_CACHE_HITS, FC_DISK_READS, FC_BYPASSED_READS,
	/* and what becomes of a page that is offered */
	FC_INSERTS, FC_SKIP_CORRUPT, FC_SKIP_EXISTS, FC_SKIP_MODIFICATION, FC_SKIP_NOT_CURRENT,
	FC_SKIP_NOT_USEFUL, FC_SKIP_OVERLOADED, FC_SKIP_PINNED, FC_SKIP_WRITE_LIMIT, FC_SKIP_POLICY,
};
#define FIRST_OFFERED 5			/* in sampled[] */

typedef struct WriterShared
{
	pg_atomic_uint64 sample[SAMPLES][lengthof(sampled)];
	pg_atomic_uint32 next_sample;	/* the oldest one */
	pg_atomic_uint32 asked;		/* requests to enable; the latch orders them */
	pg_atomic_uint32 answered;	/* the condition variable orders it */
	ConditionVariable answer;
	PGPROC	   *volatile proc;	/* of the writer, or NULL; a hint */
	int			pid;
	bool		tested;			/* the self-test has passed */
	pg_atomic_uint64 next_probe;	/* TimestampTz; 0 = none */
	bool		started;		/* a writer has looked at the device */
	char		shares[32];		/* what warn_shares() has found */
	uint64		wrong_warned;	/* pages with wrong content that the log knows
								 * of */
	uint64		wrong_warned_at;	/* ns; 0 = never */
} WriterShared;

static WriterShared *shared = NULL;

/* For assertions: is this process the writer? */
#define IS_WRITER() (shared->proc == MyProc && MyProc != NULL)
static FcSelfTest self_test;

/* A SIGTERM came from the postmaster, which sends one only when the server is being shut down. */
static volatile sig_atomic_t server_ends = false;
static volatile sig_atomic_t hurries = false;

/* Positions count frames since start, as fc_bufscan_hand() does. */
static uint64 scanned_to;
static uint64 last_hand;
static double window;
static uint64 later[MAX_LATER];
static int	nlater;

/* Trouble with the device, as a series; all in ns of fc_now_ns(), 0 = none. */
static uint32 pause_s = FC_FIRST_PAUSE_S;
static uint64 probe_at;
static uint64 active_since;
static bool in_series;			/* there was trouble since forget_trouble() */
static FcWarnings warnings;

/* D6: it may go on with other devices than the first, which can't be opened for that reason. */
static bool waits_for_others;
static FcReason without_first;

/* That is over, and whose requests to enable it answers. */
static bool others_looked_for;
static uint32 others_asked;

FcPart
fc_writer_part(void)
{
	return fc_part("pg_flashcache writer", sizeof(WriterShared));
}

void
fc_writer_shmem_init(void)
{
	FcPart		part = fc_writer_part();
	bool		found;

	shared = ShmemInitStruct(part.name, part.size, &found);
	for (int i = 0; i < SAMPLES; i++)
		for (int j = 0; j < lengthof(sampled); j++)
			pg_atomic_init_u64(&shared->sample[i][j], FC_STATS_START);
	pg_atomic_init_u32(&shared->next_sample, 0);
	pg_atomic_init_u32(&shared->asked, FC_START_32);
	pg_atomic_init_u32(&shared->answered, FC_START_32);
	ConditionVariableInit(&shared->answer);
	shared->proc = NULL;
	shared->pid = 0;
	shared->tested = false;
	pg_atomic_init_u64(&shared->next_probe, 0);
	shared->started = false;
	shared->shares[0] = '\0';
	shared->wrong_warned = fc_stats_total(FC_CHECKSUM_FAILURES);
	shared->wrong_warned_at = 0;
	fc_writer_scrub_shmem_init();
	fc_writer_load_shmem_init();
	fc_writer_devices_shmem_init();
}

/* ---- state ---- */

static void leave(void);

static void
schedule_probe(void)
{
	Assert(IS_WRITER() && pause_s >= FC_FIRST_PAUSE_S && pause_s <= FC_LONGEST_PAUSE_S);
	probe_at = fc_now_ns() + (uint64) pause_s * 1000000000;
	pg_atomic_write_u64(&shared->next_probe,
						(uint64) TimestampTzPlusMilliseconds(GetCurrentTimestamp(), (int64) pause_s * 1000));
}

static void
no_probe(void)
{
	probe_at = 0;
	pg_atomic_write_u64(&shared->next_probe, 0);
}

static void
forget_trouble(void)
{
	pause_s = FC_FIRST_PAUSE_S;
	in_series = false;
	memset(&warnings, 0, sizeof(warnings));
	active_since = 0;
}

/* The cache is off or paused: does that continue a series, or begin one? */
static void
note_trouble(void)
{
	if (active_since != 0 && fc_now_ns() - active_since >= QUIET_NS)
		forget_trouble();
	else if (in_series && active_since != 0)
		pause_s = fc_policy_longer_pause(pause_s);
	in_series = true;
	active_since = 0;
	schedule_probe();
}

static void
tell_log(void)
{
	FcReason	why;
	FcState		state = fc_cache_state();

	if (!fc_cache_take_warning(&why))
		return;
	if (state == FC_STATE_DETACHED)
	{
		ereport(WARNING,
				(errmsg("pg_flashcache is %s: %s", fc_state_name(state), why.message),
				 why.hint[0] ? errhint("%s", why.hint) : 0));
		return;
	}
	note_trouble();
	ereport(fc_policy_warn(&warnings, why.message, fc_now_ns()) ? WARNING : LOG,
			(errmsg("pg_flashcache is %s: %s", fc_state_name(state), why.message),
			 errdetail("PostgreSQL runs on without the cache, which tries again by itself in %u s.", pause_s),
			 why.restart ? errhint("%s", why.hint) :
			 errhint("%s%spg_flashcache_enable() tries at once.", why.hint, why.hint[0] ? " " : "")));
}

/* Pages with wrong content: a warning when there are any, and then one an hour with the number since. */
static void
warn_wrong_content(void)
{
	uint64		now = fc_now_ns();
	uint64		n = fc_stats_total(FC_CHECKSUM_FAILURES) - shared->wrong_warned;

	if (n == 0 || (shared->wrong_warned_at != 0 && now - shared->wrong_warned_at < FC_WARNING_NS))
		return;
	shared->wrong_warned += n;
	shared->wrong_warned_at = now;
	ereport(WARNING,
			(errmsg_plural("pg_flashcache has read %llu page with wrong content from flash",
						   "pg_flashcache has read %llu pages with wrong content from flash",
						   (unsigned long) n, (unsigned long long) n),
			 fc_devices_there() ? errdetail("Queries got the right content from the disk. The slots are no longer used.") :
			 errdetail("Queries got the right content from the disk. The slots in \"%s\" are no longer used.", fc_setting_file),
			 errhint("Find out whether somebody else has shortened the file or written to it. If nobody has and it happens again, replace the device.")));
}

/* If the state is active now. */
static bool
note_active(bool active)
{
	if (!active)
		return false;
	active_since = fc_now_ns();
	no_probe();
	return true;
}

/* A file on the file system of the server's own: once, not at each opening. */
static void
warn_shares(void)
{
	const char *with = fc_store_shares(FC_THE_DEVICE);

	if (with[0] != '\0' && strcmp(with, shared->shares) != 0)
		ereport(WARNING,
				(errmsg("pg_flashcache uses a file on the same file system as %s", with),
				 errdetail("\"%s\" takes space and bandwidth from it. A flash device that should be mounted there may not be.",
						   fc_setting_file),
				 errhint("Mount the flash device. With pg_flashcache.require_mount such a file is refused.")));
	strlcpy(shared->shares, with, sizeof(shared->shares));
}

/*
 * Do the server's calls reach us?  Asked until there is an answer: what keeps
 * the test from being carried out may pass.
 */
static bool
test_passed(FcReason *error)
{
	char		what[FC_REASON_LEN];

	if (shared->tested)
		return true;
	switch (self_test(what, sizeof(what)))
	{
		case FC_TEST_PASSED:
			shared->tested = true;
			return true;
		case FC_TEST_NOT_CALLED:
			no_probe();
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
static void
before_use(bool same)
{
	if (!fc_warm_pending())
		fc_cache_purge_unless(same);	/* O2 */
	fc_failpoint(FC_FP_SWITCH_PURGED);
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
			leave();
			break;
		case FC_WARM_FAILED:
			fc_cache_purge();
			break;
	}
	return fc_fail(error, "Check the device.", "the log on the flash device could not be read");
}

/*
 * Opens the device and tries it.  The cache begins empty, or with the pages
 * that it has on this device, in this run or from an earlier one.
 */
static bool
open_device(FcReason *error)
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
	if (fc_warm_begin(restored) == FC_IO_BROKEN)
	{
		*error = *fc_store_trouble();
		return false;
	}
	fc_failpoint(FC_FP_SWITCH_OPENED);
	fc_devices_first_is_back();
	kept = fc_directory_used();
	if (!note_active(fc_cache_set_state(FC_STATE_ACTIVE, NULL)))	/* O4 */
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
	warn_shares();
	return true;
}

/*
 * D6: the first device can't be opened.  Are there others to go on with?  One
 * of them is waited for, in the rounds that follow.  A log that the first one
 * has for the whole cache is worth a while: its file system may be mounted late.
 */
static bool
wait_for_others(const FcReason *why)
{
	static uint64 failed_at = 0;
	uint64		now = fc_now_ns();

	FcReason	unbounded;

	if (!shared->tested || !fc_store_can_bound(FC_THE_DEVICE, fc_setting_io_timeout, &unbounded))
		return false;
	if (failed_at == 0)
		failed_at = now;
	if (fc_warm_pending() && now - failed_at < fc_failpoint_number("FC_FIRST_PATIENCE_S", FIRST_PATIENCE_S) * UINT64CONST(1000000000))
		return false;
	without_first = *why;
	waits_for_others = fc_devices_wait_for_others();
	return waits_for_others;
}

static void
look_for_others(void)
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
	others_asked = pg_atomic_read_u32(&shared->asked);
	others_looked_for = true;
	if (step == FC_STEP_FAILED)
	{
		if (fc_cache_state() == FC_STATE_STARTING)
			fc_cache_set_state(FC_STATE_OFF, &without_first);
		return;
	}
	if (fc_warm_pending())
		fc_warm_give_up("the first device cannot be opened");
	fc_cache_purge_unless(true);	/* O2 */
	fc_devices_first_is_away(&without_first);
	if (note_active(fc_cache_set_state(FC_STATE_ACTIVE, NULL))) /* O4 */
		ereport(LOG, (errmsg("pg_flashcache is active without its first device")));
}

/* First try, or the first after it was switched on. */
static void
open_first(void)
{
	static const FcReason opening = {"the flash device is being opened"};
	FcReason	error;

	/* opening takes as long as the device does */
	fc_cache_set_state(FC_STATE_STARTING, &opening);
	if (open_device(&error) || fc_cache_state() == FC_STATE_DETACHED)
		return;
	if (wait_for_others(&error))
		fc_cache_set_reason(&error);
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
	else if (!slow && note_active(fc_cache_resume()))
		ereport(LOG, (errmsg("pg_flashcache is active: flash is faster than the disk again")));
}

static bool
is_away(void)
{
	return fc_cache_state() == FC_STATE_OFF || fc_cache_state() == FC_STATE_PAUSED;
}

/* Tries to bring back a cache that is off or paused. */
static void
probe(void)
{
	FcReason	error;

	Assert(is_away());
	no_probe();
	fc_count(FC_PROBED);
	if (fc_cache_state() == FC_STATE_PAUSED)
		probe_paused();
	else if (!open_device(&error))
	{
		fc_cache_set_reason(&error);
		(void) wait_for_others(&error);
	}
	if (is_away())
	{
		pause_s = fc_policy_longer_pause(pause_s);
		schedule_probe();
	}
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

/* A session could not bound its waits: a warning an hour. */
static void
warn_unbounded(void)
{
	static uint64 warned_at = 0;
	uint64		now = fc_now_ns();
	int			why = 0;

	if (warned_at != 0 && now - warned_at < FC_WARNING_NS)
		return;
	for (FcDeviceNo no = 0; no < FC_DEVICES && why == 0; no++)
		why = fc_store_unbounded(no);
	if (why == 0)
		return;
	warned_at = now;
	errno = why;
	ereport(WARNING,
			(errmsg("pg_flashcache: a session reads from the disk alone, since it could not bound its waits for flash: %m"),
			 errdetail("Each session needs a ring of io_uring while pg_flashcache.io_timeout is set. It tries again by itself; reads_unbounded in pg_stat_flashcache counts pages."),
			 why == EMFILE || why == ENFILE ? errhint("Raise the limit of open files (ulimit -n, LimitNOFILE).") :
			 why == ENOMEM ? errhint("Raise the limit of locked memory (ulimit -l, LimitMEMLOCK).") :
			 errhint("Allow io_uring, or set pg_flashcache.io_timeout to 0.")));
}

/* By pg_flashcache.enabled. */
static void
set_disabled(void)
{
	static const FcReason why = {"pg_flashcache.enabled is off"};

	fc_cache_set_state(FC_STATE_DISABLED, &why);	/* O1 */
	ereport(LOG, (errmsg("pg_flashcache is disabled: %s", why.message)));
}

/* Whoever has asked by then. */
static void
answer(uint32 asked)
{
	/* later ones may have been answered by now */
	if ((int32) (asked - pg_atomic_read_u32(&shared->answered)) > 0)
		pg_atomic_write_u32(&shared->answered, asked);
	ConditionVariableBroadcast(&shared->answer);
}

static void
run_state(void)
{
	static uint32 first_asked;
	bool		timeout = timeout_changed();
	uint32		asked = pg_atomic_read_u32(&shared->asked);
	FcState		state = fc_cache_state();
	FcReason	why;

	if (asked != pg_atomic_read_u32(&shared->answered))
		fc_devices_first_begins_anew();
	if (!fc_setting_enabled && (state == FC_STATE_ACTIVE || is_away()))
	{
		set_disabled();
		no_probe();
		fc_devices_release();
		fc_cache_purge();
	}
	else if (fc_setting_enabled && state == FC_STATE_DISABLED)
	{
		forget_trouble();
		open_first();
	}
	else if (state == FC_STATE_ACTIVE && fc_cache_slower_than_disk(&why))
		fc_cache_set_state(FC_STATE_PAUSED, &why);
	tell_log();

	if ((!is_away() || fc_devices_opens(FC_THE_DEVICE)) && fc_devices_first_is_off() &&
		(fc_devices_opens(FC_THE_DEVICE) || asked != pg_atomic_read_u32(&shared->answered) || fc_devices_first_is_due()))
	{
		/* who asks while it is being opened is answered by the next opening */
		if (!fc_devices_opens(FC_THE_DEVICE))
			first_asked = asked;
		if (probe_first())
			answer(first_asked);
	}
	else if (others_looked_for)
	{
		others_looked_for = false;
		answer(others_asked);
	}
	else if (asked != pg_atomic_read_u32(&shared->answered) && !waits_for_others)
	{
		if (is_away())
		{
			forget_trouble();
			probe();
		}
		if (!waits_for_others)
			answer(asked);
	}
	else if (paused_for_nothing() || (timeout && is_away()))
	{
		pause_s = FC_FIRST_PAUSE_S;
		probe();
	}
	else if (is_away() && probe_due())
		probe();
	tell_log();
}

static void
start(void)
{
	FcReason	error;
	uint64		log;
	uint64		group;
	bool		found;

	Assert(IS_WRITER());
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
				set_disabled();
			break;

		case FC_STATE_ACTIVE:
		case FC_STATE_PAUSED:
			/* a writer before this one has died; what it published is good */
			if (!found)
				fc_devices_first_is_lost(&error);	/* D6 */
			else if (fc_cache_state() == FC_STATE_PAUSED)
				schedule_probe();
			break;

		case FC_STATE_OFF:
			schedule_probe();
			break;

		case FC_STATE_DETACHED:
		case FC_STATE_DISABLED:
			break;
	}
	shared->started = true;
}

bool
fc_writer_enable(void)
{
	uint32		ticket;

	Assert(!IS_WRITER());

	/*
	 * one that is opening the device does not take pages yet, and answers
	 * later
	 */
	if (shared->proc == NULL)
		return false;
	ticket = pg_atomic_add_fetch_u32(&shared->asked, 1);
	fc_handoff_wake();
	ConditionVariablePrepareToSleep(&shared->answer);
	while ((int32) (pg_atomic_read_u32(&shared->answered) - ticket) < 0)
	{
		if (ConditionVariableTimedSleep(&shared->answer, 1000, FC_WAIT_ENABLE) &&
			shared->proc == NULL)
		{
			ConditionVariableCancelSleep();
			return false;
		}
	}
	ConditionVariableCancelSleep();
	return true;
}

/* ---- the verdict ---- */

static void
take_sample(void)
{
	static uint64 taken_at = 0;
	uint32		next = pg_atomic_read_u32(&shared->next_sample);
	uint64		now = fc_now_ns();

	if (taken_at == 0)
		taken_at = now;
	if (now - taken_at < SAMPLE_NS)
		return;
	taken_at = now;
	Assert(next < SAMPLES);
	for (int j = 0; j < lengthof(sampled); j++)
		pg_atomic_write_u64(&shared->sample[next][j], fc_stats_total(sampled[j]));
	pg_atomic_write_u32(&shared->next_sample, (next + 1) % SAMPLES);
}

/* The oldest sample may be exchanged for a new one meanwhile: then it is a shorter while that is judged. */
const char *
fc_writer_verdict(void)
{
	uint32		oldest;
	uint64		moved[lengthof(sampled)];
	FcRecent	recent;

	if (shared == NULL || fc_cache_state() != FC_STATE_ACTIVE)
		return NULL;
	oldest = pg_atomic_read_u32(&shared->next_sample);
	Assert(oldest < SAMPLES);
	for (int j = 0; j < lengthof(sampled); j++)
		moved[j] = fc_stats_since(sampled[j], pg_atomic_read_u64(&shared->sample[oldest][j]));
	recent.writer = shared->proc != NULL;
	recent.used = fc_directory_used();
	recent.slots = fc_directory_capacity();
	recent.hits = moved[0];
	recent.misses = moved[1];
	recent.os_cache_hits = moved[2];
	recent.disk_reads = moved[3];
	recent.bypassed = moved[4];
	recent.offered = 0;
	for (int j = FIRST_OFFERED; j < lengthof(sampled); j++)
		recent.offered += moved[j];
	fc_cache_times(&recent.flash_ns, &recent.disk_ns);
	return fc_policy_verdict(&recent);
}

TimestampTz
fc_writer_next_probe(void)
{
	return shared != NULL ? (TimestampTz) pg_atomic_read_u64(&shared->next_probe) : 0;
}

int
fc_writer_waits_bounded(void)
{
	if (shared == NULL || !shared->started)
		return -1;
	return fc_setting_io_timeout > 0;
}

int
fc_writer_pid(const char **wait_event)
{
	PGPROC	   *proc = shared != NULL ? shared->proc : NULL;
	int			pid = proc != NULL ? shared->pid : 0;

	*wait_event = NULL;
	if (proc != NULL)
	{
		uint32		info = *(volatile uint32 *) &proc->wait_event_info;

		*wait_event = pgstat_get_wait_event(info);
	}
	return pid;
}

/* ---- scanning ---- */

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

/* Is there something to be done first?  A slow device makes each round long. */
static bool
called_off(void)
{
	return ShutdownRequestPending || ConfigReloadPending || fc_cache_state() != FC_STATE_ACTIVE;
}

static bool
keeps_pages(void)
{
	return fc_cache_state() == FC_STATE_ACTIVE || fc_cache_state() == FC_STATE_PAUSED;
}

/*
 * K4: between two batches, none of whose slots is taken yet.  A cache that has
 * just been disabled or went off has a log until fc_writer_run_log(), but no
 * device to write it to.
 */
static void
write_group(void)
{
	if (!keeps_pages() || !fc_warm_group_due())
		return;
	do
		if (fc_warm_group() == FC_IO_BROKEN)
			fc_cache_device_broken();
	while (fc_warm_group_unfinished() && !called_off());
}

/* Looks at all frames from the hand to the end of the window; true if it moved. */
static bool
scan(void)
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
	for (; useful && scanned_to < end && !called_off(); scanned_to++)
	{
		look_at(scanned_to);
		write_group();
	}
	Assert(scanned_to >= hand);
	last_hand = hand;
	return moved > 0;
}

/* Not of a cache that is off. */
void
fc_writer_run_log(void)
{
	if (!keeps_pages())
	{
		if (!fc_warm_pending())
			fc_warm_end();
		return;
	}
	/* the log is on the first device */
	if (fc_devices_first_is_off())
		fc_warm_end();
	else if (fc_warm_round() == FC_IO_BROKEN)
		fc_cache_device_broken();
	if (fc_warm_restored_is_wrong())
	{
		fc_directory_drop_restored();
		ereport(WARNING,
				(errmsg("pg_flashcache has dropped the pages that it had restored: too many of them had wrong content"),
				 errdetail("Queries got the right content from the disk. After a crash a few hundred may be wrong, not this many; restored_wrong in pg_stat_flashcache_persistence counts them."),
				 errhint("Find out whether somebody else has written to \"%s\", or the device has lost writes.", fc_setting_file)));
	}
}

/* ---- the process ---- */

static long
sleep_ms(int idle_rounds)
{
	uint64		now = fc_now_ns();
	int			opening = fc_devices_look_again_ms();

	Assert(idle_rounds >= 0);
	if (opening > 0)
		return opening;
	if (probe_at != 0 && is_away())
		return probe_at <= now ? BUSY_SLEEP_MS : Min((long) ((probe_at - now) / 1000000) + 1, IDLE_SLEEP_MS);
	return idle_rounds < IDLE_ROUNDS ? BUSY_SLEEP_MS : IDLE_SLEEP_MS;
}

static void
on_exit_writer(int code, Datum arg)
{
	Assert(IS_WRITER());
	fc_store_release_all(FC_ALL_DEVICES, fc_setting_io_timeout);
	fc_handoff_set_writer(NULL);
	shared->proc = NULL;
	ConditionVariableBroadcast(&shared->answer);
}

/* Asked to end.  Whatever is under way is left as it is, as when this process is killed. */
static void
leave(void)
{
	Assert(IS_WRITER());
	if (proc_exit_inprogress)
		return;
	if (server_ends && keeps_pages() && fc_warm_unfinished())
		ereport(LOG,
				(errmsg("pg_flashcache could not complete its log: the next start begins with an empty cache"),
				 errdetail("The flash device did not answer while the server ended.")));
	/* 1 is started again, and tells the log; no FATAL in either case */
	proc_exit(server_ends ? 0 : 1);
}

bool
fc_writer_hurries(void)
{
	return hurries;
}

static int
reload_settings(void)
{
	ConfigReloadPending = false;
	ProcessConfigFile(PGC_SIGHUP);
	return fc_setting_enabled ? fc_setting_io_timeout : -1;
}

void
fc_writer_reload(void)
{
	if (ConfigReloadPending)
		(void) reload_settings();
}

/* The end of the server, or of this process alone: what the next start wants to find. */
static void
finish(void)
{
	if (server_ends && fc_cache_state() == FC_STATE_ACTIVE)
		fc_writer_copy_buffers();
	tell_log();
	if (!keeps_pages())
		return;
	fc_warm_leave();
	if (server_ends)
		fc_writer_list_buffers();
}

/* Who sends it tells an end of the server from one of this process alone. */
static void
on_sigterm(int signo, siginfo_t * info, void *context)
{
	int			save_errno = errno;

	if (MyProcPid != (int) getpid())
		return;					/* a child that has not got rid of this
								 * handler yet */
	if (info->si_pid == PostmasterPid)
		server_ends = true;
	else if (server_ends)
		hurries = true;
	ShutdownRequestPending = true;
	SetLatch(MyLatch);
	errno = save_errno;
}

/*
 * What stands for the whole cache, in miniature, or as what is remembered of
 * evicted pages, follows its devices.  Each begins anew only if it is for another
 * size: a new writer finds them as they are.
 */
static void
follow_devices(void)
{
	static uint32 last = 0;
	uint32		slots = fc_devices_slots();

	if (slots == last)
		return;
	fc_advice_set_base(slots);
	fc_admission_set_slots(slots);
	fc_directory_scale_ghosts(slots);
	last = slots;
}

void
fc_writer_run(FcSelfTest test, FcDataPeek peek, FcTend tend)
{
	static const FcStoreOwner owner = {leave, reload_settings};
	struct sigaction sigterm = {
		.sa_sigaction = on_sigterm,
		.sa_flags = SA_RESTART | SA_SIGINFO
	};
	int			idle = 0;

	self_test = test;
	fc_store_own(&owner);
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	sigemptyset(&sigterm.sa_mask);
	sigaction(SIGTERM, &sigterm, NULL);
	BackgroundWorkerUnblockSignals();

	Assert(shared->proc == NULL);
	on_shmem_exit(on_exit_writer, (Datum) 0);
	shared->pid = MyProcPid;
	shared->proc = MyProc;
	start();
	fc_writer_scrub_start();
	fc_writer_load_start();
	fc_writer_devices_start();
	fc_handoff_set_writer(MyLatch);
	last_hand = 0;
	scanned_to = 0;
	nlater = 0;

	for (;;)
	{
		bool		busy = false;
		bool		scrubbing;
		bool		loading = false;
		bool		sweeping = false;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		if (ShutdownRequestPending)
		{
			finish();
			leave();
		}
		fc_writer_reload();
		run_state();
		fc_writer_devices_run(&sweeping);
		look_for_others();
		follow_devices();
		take_sample();
		fc_health_note_day();
		warn_wrong_content();
		scrubbing = fc_writer_scrub_run();
		if (fc_cache_state() == FC_STATE_ACTIVE)
		{
			for (int i = 0; i < MAX_HANDOFF && !called_off() && fc_cache_fill_from_handoff(); i++)
			{
				busy = true;
				write_group();
			}
			busy |= scan();
			fc_cache_fill_flush();
			busy |= fc_cache_extents_run(peek, write_group);
			fc_cache_review_probe();
			fc_cache_review_streams();
			fc_cache_review_bypass();
			tell_log();
			warn_unbounded();
		}
		if (fc_writer_load_run(fc_cache_state() == FC_STATE_ACTIVE, &loading))
		{
			busy = true;
			write_group();
		}
		/* paused or off, it keeps its entries: they get old as well */
		if ((fc_cache_state() == FC_STATE_ACTIVE || is_away()) && !fc_warm_pending())
		{
			bool		more = fc_cache_sweep() | fc_cache_apply_rules();

			busy |= more;
			sweeping |= more;
		}
		fc_writer_run_log();
		fc_writer_run_loaders();
		fc_writer_run_resolvers();
		tend();
		idle = busy ? 0 : idle + 1;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 scrubbing || sweeping || loading ? 0 : sleep_ms(idle),
						 FC_WAIT_WRITER_MAIN);
	}
}
