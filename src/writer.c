/*-------------------------------------------------------------------------
 *
 * writer.c
 *	  See writer.h.
 *
 * One round:
 *	1. look at settings and requests, change the state if they say so;
 *	2. take what backends evicted dirty;
 *	3. look again at frames that were in use the last time;
 *	4. look at the frames just ahead of the clock hand, each once a lap;
 *	5. write and publish.
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
#include "cache.h"
#include "compat.h"
#include "directory.h"
#include "handoff.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "stats.h"
#include "storage/condition_variable.h"
#include "storage/ipc.h"
#include "storage/latch.h"
#include "storage/proc.h"
#include "storage/shmem.h"
#include "store.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"
#include "utils/memutils.h"
#include "writer.h"

#define BUSY_SLEEP_MS 50
#define IDLE_SLEEP_MS 1000
#define IDLE_ROUNDS 100			/* rounds without evictions before it sleeps longer */
#define MIN_WINDOW 512			/* frames */
#define MAX_HANDOFF 1024		/* dirty evictions taken before the pool is looked at */
#define MAX_LATER 4096			/* frames to be looked at again */

typedef struct WriterShared
{
	pg_atomic_uint32 asked;		/* requests to enable */
	pg_atomic_uint32 answered;
	ConditionVariable answer;
	PGPROC	   *volatile proc;	/* of the writer, or NULL; a hint */
	int			pid;
	bool		tested;			/* the self-test has passed */
} WriterShared;

static WriterShared *shared = NULL;

/* Positions count frames since start, as fc_bufscan_hand() does. */
static uint64 scanned_to;
static uint64 last_hand;
static double window;
static uint64 later[MAX_LATER];
static int	nlater;

Size
fc_writer_shmem_size(void)
{
	return sizeof(WriterShared);
}

void
fc_writer_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("pg_flashcache writer", sizeof(WriterShared), &found);
	pg_atomic_init_u32(&shared->asked, 0);
	pg_atomic_init_u32(&shared->answered, 0);
	ConditionVariableInit(&shared->answer);
	shared->proc = NULL;
	shared->pid = 0;
	shared->tested = false;
}

/* ---- state ---- */

static void
tell_log(void)
{
	char		reason[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];

	if (fc_cache_take_warning(reason, hint))
		ereport(WARNING,
				(errmsg("pg_flashcache is %s: %s",
						fc_state_name(fc_cache_state()), reason),
				 hint[0] ? errhint("%s", hint) : 0));
}

static void
activate(void)
{
	fc_cache_purge();
	fc_cache_measure_flash();
	fc_cache_set_state(FC_STATE_ACTIVE, "", "");
	ereport(LOG,
			(errmsg("pg_flashcache is active: %u slots on \"%s\", %s",
					fc_directory_slots(), fc_setting_file,
					fc_store_direct_io() ? "direct I/O" :
					"through the page cache, since its file system has no direct I/O")));
}

static void
open_again(void)
{
	FcStoreError error;

	if (fc_store_open(fc_setting_file, fc_setting_size, &error))
		activate();
	else
	{
		/* through STARTING, so that this reason replaces the old one */
		fc_cache_set_state(FC_STATE_STARTING, "", "");
		fc_cache_set_state(FC_STATE_OFF, error.message, error.hint);
	}
}

static void
run_state(void)
{
	uint32		asked = pg_atomic_read_u32(&shared->asked);
	FcState		state = fc_cache_state();

	if (!fc_setting_enabled && (state == FC_STATE_ACTIVE || state == FC_STATE_OFF))
	{
		fc_cache_set_state(FC_STATE_DISABLED, "pg_flashcache.enabled is off", "");
		fc_cache_purge();
		ereport(LOG, (errmsg("pg_flashcache is disabled")));
	}
	else if (fc_setting_enabled && state == FC_STATE_DISABLED)
		open_again();

	if (asked != pg_atomic_read_u32(&shared->answered))
	{
		state = fc_cache_state();
		if (state == FC_STATE_OFF)
			open_again();
		pg_atomic_write_u32(&shared->answered, asked);
		ConditionVariableBroadcast(&shared->answer);
	}
	tell_log();
}

static void
start(FcSelfTest self_test)
{
	char		reason[FC_REASON_LEN];
	FcStoreError error;

	fc_cache_fill_start();
	if (!shared->tested && !self_test(reason, sizeof(reason)))
	{
		fc_cache_set_state(FC_STATE_DETACHED, reason,
						   "Please report the exact version of your server.");
		return;
	}
	shared->tested = true;
	switch (fc_cache_state())
	{
		case FC_STATE_STARTING:
			if (fc_setting_enabled)
				activate();
			else
				fc_cache_set_state(FC_STATE_DISABLED, "pg_flashcache.enabled is off", "");
			break;

		case FC_STATE_ACTIVE:
			/* a writer before this one has died; what it published is good */
			if (!fc_store_adopt(&error))
				fc_cache_set_state(FC_STATE_OFF, error.message, error.hint);
			break;

		case FC_STATE_DETACHED:
		case FC_STATE_DISABLED:
		case FC_STATE_OFF:
			break;
	}
}

bool
fc_writer_enable(void)
{
	uint32		ticket;

	if (!fc_handoff_has_writer())
		return false;
	ticket = pg_atomic_add_fetch_u32(&shared->asked, 1);
	fc_handoff_wake();
	ConditionVariablePrepareToSleep(&shared->answer);
	while ((int32) (pg_atomic_read_u32(&shared->answered) - ticket) < 0)
	{
		if (ConditionVariableTimedSleep(&shared->answer, 1000, FC_WAIT_ENABLE) &&
			!fc_handoff_has_writer())
		{
			ConditionVariableCancelSleep();
			return false;
		}
	}
	ConditionVariableCancelSleep();
	return true;
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
	FcPeek		peek = fc_bufscan_peek(frame, &tag);

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
		if (later[i] >= hand)
			look_at(later[i]);
}

/* Looks at all frames from the hand to the end of the window; true if it moved. */
static bool
scan(void)
{
	uint64		hand = fc_bufscan_hand();
	uint64		moved = hand - last_hand;
	uint32		allocations = fc_handoff_take_allocations();
	uint32		frames = fc_bufscan_frames();
	double		frames_per_allocation;
	uint64		end;

	/* grows at once, shrinks slowly */
	window = Max(Max((double) moved * 2, window * 0.98), (double) Min(MIN_WINDOW, frames));
	window = Min(window, (double) frames);
	frames_per_allocation = allocations > 0 ? Max(1.0, (double) moved / allocations) : 1.0;
	fc_handoff_set_threshold((uint32) Max(1.0, window / 4 / frames_per_allocation));

	look_again(hand);
	if (scanned_to < hand)
	{
		/*
		 * What was passed unseen is lost, if it was evicted: a hand that only
		 * lowers usage counts evicts nothing, however far it goes.
		 */
		if (last_hand != 0)
			fc_count_n(FC_SKIP_OVERLOADED, Min(hand - scanned_to, allocations));
		scanned_to = hand;
	}
	end = hand + (uint64) window;
	for (; scanned_to < end; scanned_to++)
		look_at(scanned_to);
	last_hand = hand;
	return moved > 0;
}

/* ---- the process ---- */

static void
on_exit_writer(int code, Datum arg)
{
	fc_handoff_set_writer(NULL);
	shared->proc = NULL;
	ConditionVariableBroadcast(&shared->answer);
}

void
fc_writer_run(FcSelfTest self_test)
{
	int			idle = 0;

	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();

	on_shmem_exit(on_exit_writer, (Datum) 0);
	shared->pid = MyProcPid;
	shared->proc = MyProc;
	start(self_test);
	fc_handoff_set_writer(MyLatch);
	last_hand = 0;
	scanned_to = 0;
	nlater = 0;

	for (;;)
	{
		bool		busy = false;

		ResetLatch(MyLatch);
		CHECK_FOR_INTERRUPTS();
		/* as background workers of the server do: no FATAL in the log */
		if (ShutdownRequestPending)
			proc_exit(1);
		if (ConfigReloadPending)
		{
			ConfigReloadPending = false;
			ProcessConfigFile(PGC_SIGHUP);
		}
		run_state();
		if (fc_cache_state() == FC_STATE_ACTIVE)
		{
			for (int i = 0; i < MAX_HANDOFF && fc_cache_fill_from_handoff(); i++)
				busy = true;
			busy |= scan();
			fc_cache_fill_flush();
			busy |= fc_cache_sweep();
			fc_cache_review_probe();
			tell_log();
		}
		idle = busy ? 0 : idle + 1;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 idle < IDLE_ROUNDS ? BUSY_SLEEP_MS : IDLE_SLEEP_MS,
						 FC_WAIT_WRITER_MAIN);
	}
}
