/*-------------------------------------------------------------------------
 *
 * writer.c
 *	  See writer.h.
 *
 * One round:
 *	1. look at settings and requests, change the state if they say so
 *	   (writer_state.c), erase a batch of slots if somebody wants that;
 *	2. take what backends evicted dirty;
 *	3. look again at frames that were in use the last time;
 *	4. look at the frames just ahead of the clock hand, each once a lap
 *	   (writer_scan.c);
 *	5. write and publish;
 *	6. neighbours of pages that sessions have read from disk, out of the page
 *	   cache; and what sessions have read from data files: with what is left of
 *	   the write limit.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/admission.h"
#include "advice/advice.h"
#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "compat.h"
#include "directory/directory.h"
#include "handoff.h"
#include "health.h"
#include "miscadmin.h"
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
#include "utils/memutils.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

#define BUSY_SLEEP_MS 50
#define IDLE_SLEEP_MS 1000
#define IDLE_ROUNDS 100			/* rounds without evictions before it sleeps
								 * longer */
#define MAX_HANDOFF 1024		/* dirty evictions taken before the pool is
								 * looked at */

FcPart
fc_writer_part(void)
{
	return fc_part("pg_flashcache writer", sizeof(FcWriterShared));
}

void
fc_writer_shmem_init(void)
{
	FcPart		part = fc_writer_part();
	bool		found;

	fc_writer_shared = ShmemInitStruct(part.name, part.size, &found);
	pg_atomic_init_u32(&fc_writer_shared->asked, FC_START_32);
	pg_atomic_init_u32(&fc_writer_shared->answered, FC_START_32);
	ConditionVariableInit(&fc_writer_shared->answer);
	fc_writer_shared->proc = NULL;
	fc_writer_shared->pid = 0;
	fc_writer_shared->tested = false;
	pg_atomic_init_u64(&fc_writer_shared->next_probe, 0);
	fc_writer_shared->started = false;
	fc_writer_shared->shares[0] = '\0';
	fc_writer_shared->wrong_warned = fc_stats_total(FC_CHECKSUM_FAILURES);
	fc_writer_shared->wrong_warned_at = 0;
	fc_writer_verdict_shmem_init();
	fc_writer_scrub_shmem_init();
	fc_writer_load_shmem_init();
	fc_writer_devices_shmem_init();
}

/* ---- the process ---- */

static long
sleep_ms(int idle_rounds)
{
	uint64		now = fc_now_ns();
	uint64		probe_at = fc_writer_probe_at();
	int			opening = fc_devices_look_again_ms();

	Assert(idle_rounds >= 0);
	if (opening > 0)
		return opening;
	if (probe_at != 0 && fc_writer_is_away())
		return probe_at <= now ? BUSY_SLEEP_MS : Min((long) ((probe_at - now) / 1000000) + 1, IDLE_SLEEP_MS);
	return idle_rounds < IDLE_ROUNDS ? BUSY_SLEEP_MS : IDLE_SLEEP_MS;
}

static void
on_exit_writer(int code, Datum arg)
{
	Assert(FC_IS_WRITER());
	fc_store_release_all(FC_ALL_DEVICES, fc_setting_io_timeout);
	fc_handoff_set_writer(NULL);
	fc_writer_shared->proc = NULL;
	ConditionVariableBroadcast(&fc_writer_shared->answer);
}

/* The end of the server, or of this process alone: what the next start wants to find. */
static void
finish(void)
{
	if (fc_writer_server_ends() && fc_cache_state() == FC_STATE_ACTIVE)
		fc_writer_copy_buffers();
	fc_writer_tell_log();
	if (!fc_writer_keeps_pages())
		return;
	fc_warm_leave();
	if (fc_writer_server_ends())
		fc_writer_list_buffers();
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
	int			idle = 0;

	fc_writer_test_with(test);
	fc_writer_take_signals();

	Assert(fc_writer_shared->proc == NULL);
	on_shmem_exit(on_exit_writer, (Datum) 0);
	fc_writer_shared->pid = MyProcPid;
	fc_writer_shared->proc = MyProc;
	fc_writer_start();
	fc_writer_scrub_start();
	fc_writer_load_start();
	fc_writer_devices_start();
	fc_handoff_set_writer(MyLatch);

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
			fc_writer_leave();
		}
		fc_handoff_take_trouble();	/* before it looks */
		fc_writer_reload();
		fc_writer_run_state();
		fc_writer_devices_run(&sweeping);
		fc_writer_look_for_others();
		follow_devices();
		fc_writer_take_sample();
		fc_health_note_day();
		fc_writer_warn_wrong_content();
		scrubbing = fc_writer_scrub_run();
		if (fc_cache_state() == FC_STATE_ACTIVE)
		{
			for (int i = 0; i < MAX_HANDOFF && !fc_writer_called_off() && fc_cache_fill_from_handoff(); i++)
			{
				busy = true;
				fc_writer_write_group();
			}
			busy |= fc_writer_scan();
			fc_cache_fill_flush();
			busy |= fc_cache_extents_run(peek, fc_writer_write_group);
			fc_cache_review_probe();
			fc_cache_review_streams();
			fc_cache_review_bypass();
			fc_writer_tell_log();
			fc_writer_warn_unbounded();
		}
		if (fc_writer_load_run(fc_cache_state() == FC_STATE_ACTIVE, &loading))
		{
			busy = true;
			fc_writer_write_group();
		}
		/* paused or off, it keeps its entries: they get old as well */
		if ((fc_cache_state() == FC_STATE_ACTIVE || fc_writer_is_away()) && !fc_warm_pending())
		{
			bool		more = fc_cache_sweep() | fc_cache_apply_rules();

			busy |= more;
			sweeping |= more;
		}
		sweeping |= fc_writer_run_log() || (fc_cache_purges() && fc_cache_state() == FC_STATE_DISABLED);
		fc_writer_run_loaders();
		fc_writer_run_resolvers();
		tend();
		idle = busy ? 0 : idle + 1;
		(void) WaitLatch(MyLatch, WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH,
						 scrubbing || sweeping || loading ? 0 : sleep_ms(idle),
						 FC_WAIT_WRITER_MAIN);
	}
}
