/*-------------------------------------------------------------------------
 *
 * follow/follow_load.c
 *	  Loads what the map names and is not here: the follower's side, and the
 *	  loader, a background worker for one database.
 *
 * The hottest pages come first.  Those that were hit on the other server may
 * take slots of pages that nobody has asked for, here or there (the follower
 * has marked the others); those that were not take free slots only.  So what
 * this server's own readers want stays, and a map that does not fit does not
 * push itself out.
 *
 * A database whose loader has not come in, since it is gone or takes no
 * connections, is left alone for some rounds: each try is a FATAL in the log.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "access/xact.h"
#include "cache/cache.h"
#include "compat.h"
#include "follow/follow_internal.h"
#include "library.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "prewarm/prewarm.h"
#include "settings.h"
#include "tcop/tcopprot.h"
#include "utils/guc.h"

#define LOOK_NS UINT64CONST(200000000)

/* So many intervals are spent on loading; what is left then is left to the next round, whose map is newer. */
#define LOAD_INTERVALS 2

/* Rounds in which a database is left alone, and how many databases that may be. */
#define LEFT_ROUNDS 20
#define MAX_LEFT 64

/* For the loader: which parts of which file. */
typedef struct Task
{
	int			pid;			/* of the follower */
	uint64		from;
	uint64		to;
	uint64		shared_from;
	uint64		shared_to;
} Task;

StaticAssertDecl(sizeof(Task) <= BGW_EXTRALEN, "a task must fit into bgw_extra");

/* ---- the follower ---- */

static struct
{
	Oid			db;
	int			rounds;			/* to go */
}			left_alone[MAX_LEFT];

static bool
is_left_alone(Oid db)
{
	for (int i = 0; i < MAX_LEFT; i++)
		if (left_alone[i].db == db && left_alone[i].rounds > 0)
			return true;
	return false;
}

static void
leave_alone(Oid db)
{
	for (int i = 0; i < MAX_LEFT; i++)
		if (left_alone[i].rounds == 0)
		{
			left_alone[i].db = db;
			left_alone[i].rounds = LEFT_ROUNDS;
			return;
		}
}

static void
count_rounds(void)
{
	for (int i = 0; i < MAX_LEFT; i++)
		if (left_alone[i].rounds > 0)
			left_alone[i].rounds--;
}

static BackgroundWorkerHandle *
start_loader(Oid db, const Task *task)
{
	BackgroundWorkerHandle *handle = NULL;
	BackgroundWorker w = {0};

	strlcpy(w.bgw_name, "pg_flashcache map loader", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "pg_flashcache map loader", sizeof(w.bgw_type));
	strlcpy(w.bgw_function_name, "fc_follow_load_main", sizeof(w.bgw_function_name));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_ConsistentState;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	w.bgw_main_arg = ObjectIdGetDatum(db);
	w.bgw_notify_pid = MyProcPid;
	memcpy(w.bgw_extra, task, sizeof(*task));
	return fc_library_name(w.bgw_library_name, sizeof(w.bgw_library_name)) &&
		RegisterDynamicBackgroundWorker(&w, &handle) ? handle : NULL;
}

/* Until that moment, or it ends; meanwhile the view learns what is here. */
static FcFollowWhy
wait_for_loader(BackgroundWorkerHandle *handle, FcFollowMap *map, uint64 until, bool *cut)
{
	uint64		interval = (uint64) fc_setting_follow_interval * 1000000000;
	uint64		compare_at = fc_now_ns() + interval;
	FcFollowWhy why = FC_WHY_NONE;
	pid_t		pid;

	while (why == FC_WHY_NONE && GetBackgroundWorkerPid(handle, &pid) != BGWH_STOPPED)
	{
		uint64		now;

		fc_follow_wait(-1, LOOK_NS);
		why = fc_follow_look();
		now = fc_now_ns();
		if (why == FC_WHY_NONE && !*cut && now >= compare_at)
		{
			why = fc_follow_look_again(map);
			compare_at = fc_now_ns() + interval;
		}
		if (why != FC_WHY_NONE || (!*cut && now >= until))
		{
			TerminateBackgroundWorker(handle);	/* it ends without us */
			*cut = true;
		}
	}
	return why;
}

/*
 * One database, until that moment.  *cut: it has not come to its end.
 * FC_WHY_STOP: nor has the follower waited for that.
 */
static FcFollowWhy
load_database(FcFollowMap *map, Oid db, const Task *task, uint64 until, FcFollowLoaded *loaded, bool *cut)
{
	static const FcFollowLoaded none = {0};
	BackgroundWorkerHandle *handle;
	volatile FcFollowWhy why = FC_WHY_NONE;

	*cut = false;
	fc_follow_set_loaded(&none);
	handle = start_loader(db, task);
	if (handle == NULL)
		return FC_WHY_NO_LOADER;
	PG_TRY();
	{
		why = wait_for_loader(handle, map, until, cut);
	}
	PG_CATCH();
	{
		/* the next round has another one */
		TerminateBackgroundWorker(handle);
		PG_RE_THROW();
	}
	PG_END_TRY();
	pfree(handle);
	fc_follow_get_loaded(loaded);
	return why;
}

static void
add_missing(FcFollowMissing *sum, const FcFollowMissing *more)
{
	sum->locked += more->locked;
	sum->no_room += more->no_room;
	sum->database += more->database;
	sum->gone += more->gone;
	sum->unreadable += more->unreadable;
}

/* Where the last round was cut short: the next one begins behind that database. */
static Oid	resume = InvalidOid;

static int
first_part(const FcFollowMap *map, int from)
{
	int			i = from;

	while (i < map->nparts && map->part[i].db < resume)
		i++;
	return i < map->nparts ? i : from;
}

/* Relations that all databases share come first in the map, and go with the first database that is loaded. */
FcFollowWhy
fc_follow_load_all(FcFollowMap *map, FcFollowMissing *missing)
{
	const FcFollowPart *shared = map->nparts > 0 && !OidIsValid(map->part[0].db) ? &map->part[0] : NULL;
	int			from = shared != NULL ? 1 : 0;
	int			n = map->nparts - from;
	int			first = first_part(map, from);
	bool		shared_too = shared != NULL && shared->missing > 0;
	uint64		until = fc_now_ns() + (uint64) fc_setting_follow_interval * LOAD_INTERVALS * 1000000000;

	count_rounds();
	resume = InvalidOid;
	for (int k = 0; k < n; k++)
	{
		const FcFollowPart *part = &map->part[from + (first - from + k) % n];
		Task		task = {MyProcPid, part->from, part->to};
		FcFollowLoaded loaded;
		FcFollowWhy why;
		bool		cut;

		if (part->missing == 0 && !shared_too)
			continue;
		if (is_left_alone(part->db))
		{
			missing->database += part->missing;
			continue;
		}
		if (shared_too)
		{
			task.shared_from = shared->from;
			task.shared_to = shared->to;
		}
		why = load_database(map, part->db, &task, until, &loaded, &cut);
		if (why != FC_WHY_NONE)
			return why;
		add_missing(missing, &loaded.missing);
		if (cut)
		{
			resume = part->db + 1;
			return FC_WHY_NONE;
		}
		if (!loaded.began)
		{
			missing->database += part->missing;
			leave_alone(part->db);
			continue;
		}
		shared_too = false;
		/* what has been loaded is not to go for the next one */
		why = fc_follow_look_again(map);
		if (why != FC_WHY_NONE)
			return why;
	}
	return FC_WHY_NONE;
}

/* ---- the loader ---- */

/* The rows of the parts, of those heats, one heat after the other. */
typedef struct Rows
{
	const Task *task;
	int			fd;
	int			heat;
	int			lowest;
	bool		shared;			/* that part is being read */
	FcFollowReader reader;
} Rows;

static void
begin_rows(Rows *rows, int highest, int lowest)
{
	rows->heat = highest;
	rows->lowest = lowest;
	rows->shared = true;
	fc_follow_read_begin(&rows->reader, rows->fd, rows->task->shared_from, rows->task->shared_to);
}

static bool
next_row(void *arg, FcMapRow *row)
{
	Rows	   *rows = arg;
	const Task *task = rows->task;

	for (;;)
	{
		while (fc_follow_read(&rows->reader, row))
			if (row->heat == rows->heat)
				return true;
		if (rows->shared)
		{
			rows->shared = false;
			fc_follow_read_begin(&rows->reader, rows->fd, task->from, task->to);
		}
		else if (rows->heat == rows->lowest)
			return false;
		else
			begin_rows(rows, rows->heat - 1, rows->lowest);
	}
}

static bool
goes_on(void)
{
	CHECK_FOR_INTERRUPTS();
	return !ShutdownRequestPending;
}

static void
add_imported(FcFollowLoaded *loaded, const FcImported *done)
{
	loaded->loaded += done->pages.loaded;
	loaded->missing.locked += done->locked;
	loaded->missing.no_room += done->pages.full + done->pages.unwanted;
	loaded->missing.gone += done->gone;
	loaded->missing.unreadable += done->pages.corrupt + done->pages.failed + done->unreadable;
}

void
fc_follow_load(Oid database)
{
	static Rows rows;
	static Task task;
	FcFollowLoaded loaded = {0};
	bool		goes_on_cold;
	FcImported	hot = {0};
	FcImported	cold = {0};

	memcpy(&task, MyBgworkerEntry->bgw_extra, sizeof(task));
	pqsignal(SIGHUP, SignalHandlerForConfigReload);
	pqsignal(SIGTERM, die);
	BackgroundWorkerUnblockSignals();
	BackgroundWorkerInitializeConnectionByOid(database, InvalidOid, BGWORKER_BYPASS_ALLOWCONN);
	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	fc_own_settings();
	loaded.began = true;
	fc_follow_set_loaded(&loaded);
	SetCurrentStatementStartTimestamp();
	pgstat_report_activity(STATE_RUNNING, "loading pages to flash that a map names");

	rows.task = &task;
	rows.fd = open(fc_follow_path(task.pid), O_RDONLY | O_CLOEXEC);
	if (rows.fd < 0)
		return;					/* the follower has ended */
	begin_rows(&rows, FC_MAP_HEATS - 1, 1);
	goes_on_cold = fc_prewarm_rows(next_row, &rows, goes_on, true, &hot);
	add_imported(&loaded, &hot);
	fc_follow_set_loaded(&loaded);
	if (goes_on_cold)
	{
		begin_rows(&rows, 0, 0);
		(void) fc_prewarm_rows(next_row, &rows, goes_on, false, &cold);
		add_imported(&loaded, &cold);
		fc_follow_set_loaded(&loaded);
	}
	close(rows.fd);
	pgstat_report_activity(STATE_IDLE, NULL);
}
