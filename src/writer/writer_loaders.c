/*-------------------------------------------------------------------------
 *
 * writer_loaders.c
 *	  Starts the background workers that load shared_buffers from flash: K13.
 *
 * One for each database, one after the other: a process can be connected to
 * one only, and must be, to lock relations.  buffers.c is what they do.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "bufscan.h"
#include "cache/cache.h"
#include "compat.h"
#include "library.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "settings.h"
#include "utils/guc.h"
#include "warm/warm.h"
#include "writer/writer.h"

/* Whatever is of more databases than that is left out. */
#define MAX_DATABASES 1024

static Oid	database[MAX_DATABASES];	/* the one of the hottest page first */
static int	ndatabases;
static int	next;
static bool found = false;		/* the databases are known */
static BackgroundWorkerHandle *worker = NULL;

/* Is pg_prewarm preloaded, and doing the same from the disk? */
static bool
autoprewarm(void)
{
	static const char name[] = "pg_prewarm.autoprewarm";
	const char *value = GetConfigOption(name, true, false);

	return value != NULL && strcmp(value, "on") == 0 &&
		(GetConfigOptionFlags(name, true) & GUC_CUSTOM_PLACEHOLDER) == 0;
}

static void
add_database(Oid db)
{
	for (int i = ndatabases - 1; i >= 0; i--)
		if (database[i] == db)
			return;
	if (ndatabases < MAX_DATABASES)
		database[ndatabases++] = db;
}

/* False: the list is not there. */
static bool
find_databases(void)
{
	uint32		n;
	FcSlotNo   *slots = fc_warm_list(&n);
	Oid			last = InvalidOid;

	if (slots == NULL)
		return false;
	ndatabases = next = 0;
	for (uint32 i = 0; i < Min(n, fc_bufscan_frames()); i++)
	{
		FcTag		tag;

		/* shared relations go with the first database */
		if (!fc_directory_restored_page(slots[i], &tag) || !OidIsValid(tag.db) || tag.db == last)
			continue;
		last = tag.db;
		add_database(last);
	}
	free(slots);
	return true;
}

/* It is over. */
static void
end(FcBuffers how)
{
	FcWarmInfo	info;

	fc_warm_set_buffers(how);
	fc_warm_forget_list();
	if (!fc_warm_info(&info))
		return;
	if (how == FC_BUFFERS_AUTOPREWARM)
		ereport(LOG, (errmsg("pg_flashcache leaves it to autoprewarm to load shared buffers")));
	else
		ereport(LOG, (errmsg("pg_flashcache has loaded %llu of %u pages from flash into shared buffers",
							 (unsigned long long) info.buffers_loaded, info.list_pages),
					  errdetail("It took %llu ms.", (unsigned long long) (info.buffers_load_us / 1000))));
}

/* False if there is no place for it at present. */
static bool
start_worker(Oid db, bool first)
{
	BackgroundWorker w = {0};

	strlcpy(w.bgw_name, "pg_flashcache buffer loader", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "pg_flashcache buffer loader", sizeof(w.bgw_type));
	strlcpy(w.bgw_function_name, "fc_buffers_main", sizeof(w.bgw_function_name));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_ConsistentState;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	w.bgw_main_arg = ObjectIdGetDatum(db);
	w.bgw_extra[0] = first;
	return fc_library_name(w.bgw_library_name, sizeof(w.bgw_library_name)) &&
		RegisterDynamicBackgroundWorker(&w, &worker);
}

static bool
is_working(void)
{
	pid_t		pid;

	if (worker == NULL)
		return false;
	if (GetBackgroundWorkerPid(worker, &pid) != BGWH_STOPPED)
		return true;
	pfree(worker);
	worker = NULL;
	return false;
}

void
fc_writer_run_loaders(void)
{
	FcBuffers	now = fc_warm_buffers();

	if ((now != FC_BUFFERS_WAITING && now != FC_BUFFERS_LOADING) || is_working())
		return;
	if (ShutdownRequestPending)
		return;					/* it may have been cut short: what is left
								 * stays listed */
	if (autoprewarm())
		end(FC_BUFFERS_AUTOPREWARM);
	else if (fc_cache_state() != FC_STATE_ACTIVE || fc_setting_max_shutdown_delay == 0)
		end(FC_BUFFERS_STOPPED);
	else if (!found && !(found = find_databases()))
		end(FC_BUFFERS_STOPPED);
	else if (next == ndatabases)
		end(FC_BUFFERS_LOADED);
	else if (!fc_bufscan_has_free())
		end(FC_BUFFERS_FULL);
	else if (start_worker(database[next], next == 0))
	{
		fc_warm_set_buffers(FC_BUFFERS_LOADING);
		next++;
	}
}
