/*-------------------------------------------------------------------------
 *
 * writer_rules.c
 *	  Starts the background workers that find out which files have a policy.
 *
 * One for each look at a database, and one for the list of databases; resolver.c
 * is what they do.  There are looks
 *	- at each database after the start of the server, or when it is new;
 *	- at once when a rule has changed; when files, names or partitions have,
 *	  at most once a second, and for a tenth of the time at most: whose
 *	  transaction has done so says it at its end (fc_rules_want());
 *	- every 10 s at each database of a standby, where nobody says anything, if
 *	  something has been replayed since; every minute at those of a primary
 *	  that have rules, or prepared transactions (what logical replication has
 *	  prepared it commits without a word), and every 10 min at the others;
 *	- 5 s after one that found a lock in its way, and after one that failed
 *	  otherwise, at first; then half as often each time, down to every 10 min.
 *
 * Mostly one at a time.  A worker may have to wait to enter its database, for a
 * second, and a look may take long: after 2 s the others go on beside it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "compat.h"
#include "library.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "rules/rules.h"
#include "utils/timestamp.h"
#include "writer/writer.h"

#define WORKERS 4
#define PATIENCE_MS 2000
#define STEP_MS 100
#define SOON_MS 1000			/* between two looks for files that changed */
#define RESTS 10				/* a look, for so many times as long as the
								 * last one took */
#define AGAIN_MS 5000
#define MOST_DOUBLED 7
#define STANDBY_MS 10000
#define PRIMARY_MS 60000
#define SELDOM_MS 600000		/* not all changes are told */
#define LIST_MS 600000
#define LIST_STANDBY_MS 20000	/* where nobody says that there is a new one */

static struct
{
	BackgroundWorkerHandle *handle; /* NULL: a free place */
	Oid			db;				/* InvalidOid: the list */
	uint32		look;			/* its number */
	TimestampTz started_at;
}			worker[WORKERS];

static TimestampTz looked_at = 0;	/* whether there is something to be done */
static TimestampTz listed_at = 0;
static XLogRecPtr listed_replayed;	/* until where, then; InvalidXLogRecPtr on
									 * a primary */
static TimestampTz refused_at = 0;	/* there was no place for a worker */

static bool
is_after(TimestampTz since, int ms, TimestampTz now)
{
	return since == 0 || now < since || now - since >= (int64) ms * 1000;
}

static void
reap(void)
{
	pid_t		pid;

	for (int i = 0; i < WORKERS; i++)
	{
		if (worker[i].handle == NULL || GetBackgroundWorkerPid(worker[i].handle, &pid) != BGWH_STOPPED)
			continue;
		pfree(worker[i].handle);
		worker[i].handle = NULL;
		if (OidIsValid(worker[i].db))
			fc_rules_ended(worker[i].db, worker[i].look);
	}
}

/* A place for a worker, unless the ones at work are to be waited for; -1 if there is none. */
static int
free_place(TimestampTz now)
{
	int			place = -1;

	for (int i = 0; i < WORKERS; i++)
	{
		if (worker[i].handle == NULL)
			place = i;
		else if (!is_after(worker[i].started_at, PATIENCE_MS, now))
			return -1;
	}
	return place;
}

static bool
is_at_work(Oid db)
{
	for (int i = 0; i < WORKERS; i++)
		if (worker[i].handle != NULL && worker[i].db == db)
			return true;
	return false;
}

static bool
start_worker(int place, Oid db, uint32 look, TimestampTz now)
{
	BackgroundWorker w = {0};

	strlcpy(w.bgw_name, "pg_flashcache policy resolver", sizeof(w.bgw_name));
	strlcpy(w.bgw_type, "pg_flashcache policy resolver", sizeof(w.bgw_type));
	strlcpy(w.bgw_function_name, "fc_resolver_main", sizeof(w.bgw_function_name));
	w.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
	w.bgw_start_time = BgWorkerStart_ConsistentState;
	w.bgw_restart_time = BGW_NEVER_RESTART;
	w.bgw_main_arg = ObjectIdGetDatum(db);
	memcpy(w.bgw_extra, &look, sizeof(look));
	if (!fc_library_name(w.bgw_library_name, sizeof(w.bgw_library_name)) ||
		!RegisterDynamicBackgroundWorker(&w, &worker[place].handle))
	{
		worker[place].handle = NULL;
		refused_at = now;
		return false;
	}
	worker[place].db = db;
	worker[place].look = look;
	worker[place].started_at = now;
	return true;
}

static bool
is_due(const FcRulesDatabase *d, XLogRecPtr replayed, TimestampTz now)
{
	bool		in_vain = d->tried_at != 0 && !fc_rules_succeeded(d);

	if (d->urgent || d->tried_at == 0)
		return true;
	if (in_vain)
		return is_after(d->tried_at, d->answered && d->state == FC_RULES_LOCKED ? AGAIN_MS : AGAIN_MS << Min(d->failures, MOST_DOUBLED), now);
	if (d->wanted != d->done)
		return is_after(d->tried_at, Max(SOON_MS, d->took_ms * RESTS), now);
	if (!XLogRecPtrIsInvalid(replayed))
		return d->replayed != replayed && is_after(d->tried_at, STANDBY_MS, now);

	/*
	 * a standby that has become a primary: what was replayed last may have
	 * been a rule
	 */
	if (!XLogRecPtrIsInvalid(d->replayed))
		return true;
	return is_after(d->tried_at, d->rules > 0 || d->prepared != 0 ? PRIMARY_MS : SELDOM_MS, now);
}

/* The one that is due and was tried least recently. */
static Oid
next_database(XLogRecPtr replayed, TimestampTz now)
{
	static FcRulesDatabase databases[FC_RULES_DATABASES];
	const FcRulesDatabase *next = NULL;
	bool		next_urgent = false;
	bool		urgent;

	fc_rules_databases(databases);
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		const FcRulesDatabase *d = &databases[i];

		if (!OidIsValid(d->db) || is_at_work(d->db) || !is_due(d, replayed, now))
			continue;

		/*
		 * one that is urgent again and again keeps nobody else from being
		 * looked at
		 */
		urgent = d->urgent && is_after(d->tried_at, SOON_MS, now);
		if (next == NULL || urgent > next_urgent || (urgent == next_urgent && d->tried_at < next->tried_at))
		{
			next = d;
			next_urgent = urgent;
		}
	}
	return next != NULL ? next->db : InvalidOid;
}

/*
 * Nobody tells a standby of a new database.  One that has become a primary has
 * to ask once more: what was replayed last may have been one.
 */
static bool
is_list_due(XLogRecPtr replayed, TimestampTz now)
{
	if (fc_rules_list_wanted() && is_after(listed_at, SOON_MS, now))
		return true;
	if (XLogRecPtrIsInvalid(replayed))
		return is_after(listed_at, LIST_MS, now) || !XLogRecPtrIsInvalid(listed_replayed);
	return is_after(listed_at, LIST_STANDBY_MS, now) && listed_replayed != replayed;
}

void
fc_writer_run_resolvers(void)
{
	XLogRecPtr	replayed = InvalidXLogRecPtr;
	FcRulesDatabase before;
	TimestampTz now;
	uint32		look;
	int			place;
	Oid			db;

	if (!fc_rules_there() || ShutdownRequestPending)
		return;
	now = GetCurrentTimestamp();
	if (!is_after(looked_at, STEP_MS, now))
		return;
	looked_at = now;
	if (refused_at != 0 && !is_after(refused_at, SOON_MS, now))
		return;
	reap();
	place = free_place(now);
	if (place < 0)
		return;
	if (RecoveryInProgress())
		replayed = GetXLogReplayRecPtr(NULL);
	if (!is_at_work(InvalidOid) && is_list_due(replayed, now))
	{
		/* said before: what changes from now on, it may not see */
		fc_rules_list_begins();
		if (start_worker(place, InvalidOid, 0, now))
		{
			listed_at = now;
			listed_replayed = replayed;
		}
		else
			fc_rules_want_list();
		return;
	}
	db = next_database(replayed, now);
	if (!OidIsValid(db))
		return;
	look = fc_rules_begin(db, replayed, &before);
	if (!start_worker(place, db, look, now))
		fc_rules_refused(&before);
}
