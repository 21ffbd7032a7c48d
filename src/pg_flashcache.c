/*-------------------------------------------------------------------------
 *
 * pg_flashcache.c
 *	  Entry points of the library: start-up.
 *
 * Start-up never fails: whatever is wrong with the cache is told in one
 * WARNING, and PostgreSQL runs without it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "attach/attach.h"
#include "cache.h"
#include "compat.h"
#include "explain.h"
#include "fmgr.h"
#include "library.h"
#include "machine.h"
#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "storage/pg_shmem.h"
#include "storage/shmem.h"
#include "stats.h"
#include "store.h"
#include "writer.h"

PG_MODULE_MAGIC;

#define WRITER_RESTART_S 5

/* One part in so many of the memory is left to processes and the page cache. */
#define RESERVE 8

FC_EXPORT void _PG_init(void);
FC_EXPORT void fc_writer_main(Datum arg);

static shmem_request_hook_type next_shmem_request = NULL;
static shmem_startup_hook_type next_shmem_startup = NULL;

static Size
shmem_size(void)
{
	return add_size(fc_cache_shmem_size(fc_setting_size), fc_writer_shmem_size());
}

static void
fc_shmem_request(void)
{
	if (next_shmem_request)
		next_shmem_request();
	RequestAddinShmemSpace(shmem_size());
	RequestNamedLWLockTranche(fc_cache_tranche(), fc_cache_locks());
}

static void
fc_shmem_startup(void)
{
	if (next_shmem_startup)
		next_shmem_startup();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	fc_cache_shmem_init(fc_setting_size,
						shmem_size() + fc_cache_locks() * sizeof(LWLockPadded));
	fc_writer_shmem_init();
	LWLockRelease(AddinShmemInitLock);
	fc_wait_events_init();

	/*
	 * The device is opened by the writer: the server must start, and start
	 * again after a crash, also while the device hangs.
	 */
}

/* No cache in this run of the server. */
static void
stay_out(int elevel, FcState state, const char *reason, const char *hint)
{
	fc_cache_stay_out(state, reason, hint ? hint : "");
	ereport(elevel,
			(errmsg("pg_flashcache is %s: %s", fc_state_name(state), reason),
			 hint ? errhint("%s", hint) : 0));
}

/* A number of bytes, for people. */
static const char *
in_words(char *text, size_t len, uint64 bytes)
{
	if (bytes >= UINT64CONST(10) << 30)
		snprintf(text, len, UINT64_FORMAT " GB", bytes >> 30);
	else
		snprintf(text, len, UINT64_FORMAT " MB", bytes >> 20);
	return text;
}

/*
 * A server that asks for more memory than there is does not start, or is
 * killed once the memory is used.  So what the cache needs must fit into what
 * this machine, or control group, has, beside shared_buffers and a reserve,
 * and the kernel must be willing to map both now.  What happens to be free at
 * the moment is not asked: the answer should be the same at each start.
 */
static bool
fits(void)
{
	Size		need = shmem_size();
	uint64		buffers = (uint64) NBuffers * BLCKSZ;
	uint64		all = fc_machine_memory("");
	uint64		room = all > buffers + all / RESERVE ? all - buffers - all / RESERVE : 0;
	Size		page = BLCKSZ;
	int			flags = 0;
	Size		map;
	char		reason[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];
	char		words[4][32];

	in_words(words[0], sizeof(words[0]), (uint64) fc_setting_size * BLCKSZ);
	in_words(words[1], sizeof(words[1]), need);
	in_words(words[2], sizeof(words[2]), room);
	in_words(words[3], sizeof(words[3]), (uint64) ((double) fc_setting_size * BLCKSZ * ((double) room / need) * 0.95));
	if (all != 0 && need > room)
	{
		snprintf(reason, sizeof(reason), "a pg_flashcache.size of %s needs %s of shared memory, and there is room for %s",
				 words[0], words[1], words[2]);
		snprintf(hint, sizeof(hint), "Set pg_flashcache.size to at most %s and restart the server. Counted is the memory of the machine or of its control group, less shared_buffers and an eighth.",
				 words[3]);
		stay_out(WARNING, FC_STATE_DISABLED, reason, hint);
		return false;
	}
	if (huge_pages == HUGE_PAGES_ON)
		GetHugePageSize(&page, &flags);
	map = TYPEALIGN(page, (Size) buffers + need);
	if (!fc_machine_can_map(map, flags))
	{
		snprintf(reason, sizeof(reason), "the kernel does not map %s of shared memory%s for shared_buffers and a pg_flashcache.size of %s: %m",
				 in_words(words[1], sizeof(words[1]), map), flags != 0 ? " in huge pages" : "", words[0]);
		stay_out(WARNING, FC_STATE_DISABLED, reason,
				 flags != 0 ? "Raise vm.nr_hugepages, or lower pg_flashcache.size, and restart the server." :
				 "See the limits of the server's processes (ulimit -v) and vm.overcommit_memory, or lower pg_flashcache.size, and restart the server.");
		return false;
	}
	return true;
}

/* Is there something to be done, and room for it?  Else the server runs without a cache. */
static bool
wanted(void)
{
	char		reason[FC_REASON_LEN];

	if (fc_settings_refused(reason, sizeof(reason)))
	{
		stay_out(WARNING, FC_STATE_DISABLED, reason, "Correct it and restart the server.");
		return false;
	}
	if (fc_setting_size == 0)
	{
		stay_out(LOG, FC_STATE_DISABLED, "pg_flashcache.size is 0", NULL);
		return false;
	}
	if (fc_setting_file[0] == '\0')
	{
		stay_out(WARNING, FC_STATE_DISABLED, "pg_flashcache.file is not set",
				 "Set pg_flashcache.file and pg_flashcache.size and restart the server. The file should be on local flash, such as /mnt/nvme/pg_flashcache/cache.");
		return false;
	}
	if (fc_workers_registered() >= max_worker_processes)
	{
		snprintf(reason, sizeof(reason), "there is no room for its background process: max_worker_processes is %d",
				 max_worker_processes);
		stay_out(WARNING, FC_STATE_DISABLED, reason, "Raise max_worker_processes and restart the server.");
		return false;
	}
	return fits();
}

/* True if the postmaster will find this copy of the library again when it starts the writer. */
static bool
prepare_writer(BackgroundWorker *worker)
{
	char		reason[FC_REASON_LEN];

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
	snprintf(reason, sizeof(reason), "the path of its library is longer than %d bytes",
			 (int) sizeof(worker->bgw_library_name) - 1);
	stay_out(WARNING, FC_STATE_DISABLED, reason, "Install the library into $libdir, or below a shorter path.");
	return false;
}

void
_PG_init(void)
{
	char		reason[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];
	BackgroundWorker worker = {0};

	if (!process_shared_preload_libraries_in_progress)
		return;
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

	/* a single-user server has no writer, and pg_upgrade wants no guests */
	if (!IsPostmasterEnvironment || IsBinaryUpgrade)
		return;
	if (!wanted() || !prepare_writer(&worker))
		return;
	if (!fc_attach(reason, sizeof(reason), hint, sizeof(hint)))
	{
		stay_out(WARNING, FC_STATE_DETACHED, reason, hint);
		return;
	}
	fc_attach_events();

	next_shmem_request = shmem_request_hook;
	shmem_request_hook = fc_shmem_request;
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = fc_shmem_startup;
	RegisterBackgroundWorker(&worker);
}

void
fc_writer_main(Datum arg)
{
	/* another copy of the library than the one that the postmaster has: it knows no shared memory */
	if (fc_cache == NULL)
	{
		ereport(WARNING,
				(errmsg("the pg_flashcache writer was started from a library that the server has not preloaded"),
				 errdetail("It is \"%s\".", fc_library_path()),
				 errhint("Restart the server.")));
		proc_exit(0);			/* and is not started again */
	}
	fc_writer_run(fc_attach_self_test);
}
