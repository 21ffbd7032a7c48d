/*-------------------------------------------------------------------------
 *
 * pg_flashcache.c
 *	  Entry points of the library: start-up.
 *
 * Start-up never fails: whatever is wrong with the cache is reported in one
 * WARNING, and PostgreSQL runs without it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "admission/admission.h"
#include "advice/advice.h"
#include "attach/attach.h"
#include "attach/data_read.h"
#include "cache/cache.h"
#include "commands/extension.h"
#include "compat.h"
#include "explain.h"
#include "fmgr.h"
#include "follow/follow.h"
#include "health.h"
#include "library.h"
#include "memory.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "buffers.h"
#include "resolver.h"
#include "rules/rules.h"
#include "settings.h"
#include "statements.h"
#include "stats/stats.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "store/store.h"
#include "warm/warm.h"
#include "writer/writer.h"

FC_MODULE_MAGIC;

#define WRITER_RESTART_S 5
#define USUAL_START "It takes part again when the server is started as usual."

FC_EXPORT void _PG_init(void);
FC_EXPORT void fc_writer_main(Datum arg);
FC_EXPORT void fc_buffers_main(Datum arg);
FC_EXPORT void fc_resolver_main(Datum arg);
FC_EXPORT void fc_follow_main(Datum arg);
FC_EXPORT void fc_follow_load_main(Datum arg);

/* Without a cache: only what reads and writes there are, for advice. */
static bool listens = false;

/* It was decided, in the postmaster, that this server has no cache. */
static bool stayed_out = false;

/* No cache in this run of the server. */
static void
stay_out(int elevel, FcState state, const FcReason *why)
{
	stayed_out = true;
	fc_cache_stay_out(state, why);
	ereport(elevel,
			(errmsg("pg_flashcache is %s: %s", fc_state_name(state), why->message),
			 why->hint[0] ? errhint("%s", why->hint) : 0));
}

/* Is there something to be done?  Else the server runs without a cache. */
static bool
wanted(void)
{
	char		refused[FC_REASON_LEN];
	bool		too_small;
	int			nrefused = fc_settings_refused(refused, sizeof(refused), &too_small);
	FcReason	why;

	if (nrefused > 0 && too_small)
	{
		char		hint[FC_HINT_LEN];

		/*
		 * not even the server's own message names it for a size that it takes
		 * for 0
		 */
		snprintf(hint, sizeof(hint), "The smallest cache is %d kB; 0 disables the cache. Correct %s and restart the server.",
				 FC_MIN_KB, nrefused == 1 ? "it" : "them");
		fc_fail_restart(&why, hint, "%s", refused);
	}
	else if (nrefused > 0)
		fc_fail_restart(&why, nrefused == 1 ? "Correct it and restart the server." : "Correct them and restart the server.", "%s", refused);
	else if (fc_setting_size == 0)
	{
		static const FcReason none = {"pg_flashcache.size is 0"};

		stay_out(LOG, FC_STATE_DISABLED, &none);
		listens = fc_setting_advice;
		return false;
	}
	else if (fc_setting_file[0] == '\0')
		fc_fail_restart(&why, "Set pg_flashcache.file and pg_flashcache.size and restart the server. The file should be on local flash, such as /mnt/nvme/pg_flashcache/cache.",
						"pg_flashcache.file is not set");
	else if (fc_workers_registered() >= max_worker_processes)
		fc_fail_restart(&why, "Raise max_worker_processes and restart the server.",
						"there is no room for its background process: max_worker_processes is %d", max_worker_processes);
	else
		return true;
	stay_out(WARNING, FC_STATE_DISABLED, &why);
	return false;
}

/* True if the postmaster will find this copy of the library again when it starts the writer. */
static bool
prepare_writer(BackgroundWorker *worker)
{
	FcReason	why;

	strlcpy(worker->bgw_name, "pg_flashcache writer", sizeof(worker->bgw_name));
	strlcpy(worker->bgw_type, "pg_flashcache writer", sizeof(worker->bgw_type));
	strlcpy(worker->bgw_function_name, "fc_writer_main", sizeof(worker->bgw_function_name));

	/*
	 * No database connection, although that would show the writer in
	 * pg_stat_activity: a process that has one must answer every
	 * ProcSignalBarrier, so DROP DATABASE would wait for a writer that waits
	 * for a hung device.
	 */
	worker->bgw_flags = BGWORKER_SHMEM_ACCESS;
	worker->bgw_start_time = BgWorkerStart_ConsistentState;
	worker->bgw_restart_time = WRITER_RESTART_S;
	if (fc_library_name(worker->bgw_library_name, sizeof(worker->bgw_library_name)))
		return true;
	fc_fail(&why, "Install the library into $libdir, or below a shorter path.",
			"the path of its library is longer than %d bytes", (int) sizeof(worker->bgw_library_name) - 1);
	stay_out(WARNING, FC_STATE_DISABLED, &why);
	return false;
}

/* CREATE EXTENSION makes functions of this library, and so loads it: the moment to tell who did not preload it. */
static void
warn_not_preloaded(void)
{
	if (creating_extension && !IsBinaryUpgrade && fc_library_preloaded() == NULL)
		ereport(WARNING,
				(errmsg("pg_flashcache is not in shared_preload_libraries: there will be no cache"),
				 errhint("Set shared_preload_libraries = 'pg_flashcache', appended to what is there, and restart the server.")));
}

static int
shmem_parts(FcPart *parts)
{
	int			n = 0;

	StaticAssertStmt(FC_CACHE_PARTS + 10 <= FC_MAX_PARTS, "too many parts of shared memory");
	if (fc_setting_advice)
		parts[n++] = fc_advice_part();
	if (listens)
		return n;
	n += fc_cache_parts(fc_settings_slots(), fc_setting_persistence, parts + n);
	parts[n++] = fc_admission_part(fc_setting_size);
	parts[n++] = fc_writer_part();
	parts[n++] = fc_writer_scrub_part();
	parts[n++] = fc_writer_load_part();
	parts[n++] = fc_writer_devices_part();
	parts[n++] = fc_health_part();
	parts[n++] = fc_warm_part();
	if (fc_setting_max_policy_files > 0)
		parts[n++] = fc_rules_part(fc_setting_max_policy_files);
	parts[n++] = fc_follow_part();
	return n;
}

/* Is there room for it, and a way into the server?  Else the server runs without a cache. */
static bool
take_part(Size bytes)
{
	FcReason	why;

	if (listens)
	{
		if (fc_attach_listener(&why))
			return true;
		ereport(WARNING,
				(errmsg("pg_flashcache cannot give advice: %s", why.message),
				 why.hint[0] ? errhint("%s", why.hint) : 0));
		return false;
	}
	if (!fc_memory_fits(bytes, (uint64) fc_settings_slots() * BLCKSZ,
						fc_settings_slots() > (uint32) fc_setting_size ? "pg_flashcache.max_size" : "pg_flashcache.size", &why))
	{
		stay_out(WARNING, FC_STATE_DISABLED, &why);
		return false;
	}
	if (!fc_attach(&why))
	{
		stay_out(WARNING, FC_STATE_DETACHED, &why);
		return false;
	}
	fc_attach_events();
	fc_resolver_init();
	fc_statements_init();
	return true;
}

/*
 * The device is opened by the writer: the server must start, and start again
 * after a crash, also while the device hangs.
 */
static void
shmem_init(Size bytes)
{
	/* what may raise, and is caught, is done while no lock is held */
	int			tranche = fc_lock_tranche();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	if (fc_setting_advice)
		fc_advice_shmem_init(tranche);
	if (listens)
	{
		LWLockRelease(AddinShmemInitLock);
		return;
	}
	fc_cache_shmem_init(fc_settings_slots(), fc_setting_size, fc_setting_persistence, bytes, tranche);
	fc_admission_shmem_init(fc_setting_size);
	fc_warm_shmem_init(fc_setting_persistence);
	fc_rules_shmem_init(fc_setting_max_policy_files, tranche);
	fc_writer_shmem_init();
	fc_health_shmem_init();
	fc_follow_shmem_init();
	LWLockRelease(AddinShmemInitLock);
	fc_wait_events_init();
}

void
_PG_init(void)
{
	static const FcMemoryUser memory = {shmem_parts, take_part, shmem_init};
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress)
	{
		warn_not_preloaded();
		return;
	}
	if (!fc_library_claim())
	{
		ereport(WARNING,
				(errmsg("pg_flashcache is preloaded already; another copy of its library is left alone"),
				 errdetail("Preloaded is \"%s\", left alone is \"%s\".", fc_library_preloaded(), fc_library_path()),
				 errhint("Name it once in shared_preload_libraries.")));
		return;
	}
	fc_stats_register_kind();
	fc_settings_define();
	fc_explain_init();

	if (!IsPostmasterEnvironment)
	{
		static const FcReason single = {"a single-user server has no background processes", USUAL_START};

		stay_out(LOG, FC_STATE_DISABLED, &single);
		return;
	}
	if (IsBinaryUpgrade)
	{
		static const FcReason upgrade = {"the server is run by pg_upgrade", USUAL_START};

		stay_out(LOG, FC_STATE_DISABLED, &upgrade);
		return;
	}
	if (wanted())
	{
		if (!prepare_writer(&worker))
			return;
		fc_memory_register(&memory);
	}
	else
	{
		if (listens)
			fc_memory_register(&memory);
		return;
	}

	/* now or never; if there is no room for the cache the writer ends at once */
	RegisterBackgroundWorker(&worker);
}

void
fc_writer_main(Datum arg)
{
	if (stayed_out)
		proc_exit(0);			/* and is not started again */

	/*
	 * another copy of the library than the one that the postmaster has: it
	 * knows no shared memory
	 */
	if (fc_cache == NULL)
	{
		ereport(WARNING,
				(errmsg("the pg_flashcache writer was started from a library that the server has not preloaded"),
				 errdetail("It is \"%s\".", fc_library_path()),
				 errhint("Restart the server.")));
		proc_exit(0);
	}
	fc_writer_run(fc_attach_self_test, fc_data_peek, fc_follow_tend);
}

/* Started by the writer, writer_loaders.c. */
void
fc_buffers_main(Datum arg)
{
	if (fc_cache != NULL)
		fc_buffers_load(DatumGetObjectId(arg), MyBgworkerEntry->bgw_extra[0] != 0);
	proc_exit(0);
}

/* Started by the writer, writer_rules.c. */
void
fc_resolver_main(Datum arg)
{
	uint32		look;

	memcpy(&look, MyBgworkerEntry->bgw_extra, sizeof(look));
	if (fc_rules_there())
		fc_resolver_run(DatumGetObjectId(arg), look);
	proc_exit(0);
}

/* Started by the writer, fc_follow_tend().  0: for good, as far as the postmaster knows. */
void
fc_follow_main(Datum arg)
{
	if (fc_cache != NULL)
		fc_follow_run();
	proc_exit(0);
}

/* Started by the follower, follow_load.c. */
void
fc_follow_load_main(Datum arg)
{
	if (fc_cache != NULL)
		fc_follow_load(DatumGetObjectId(arg));
	proc_exit(0);
}
