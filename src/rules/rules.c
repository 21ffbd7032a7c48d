/*-------------------------------------------------------------------------
 *
 * rules/rules.c
 *	  See rules.h.
 *
 * The list is sorted by database, tablespace, file: what a database has
 * published lies together, and what stands for all of it comes first.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "failpoint.h"
#include "port/atomics.h"
#include "rules/rules.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/*
 * How long a look may take: four times what the last one took, twice as long
 * after each that did not succeed, within these bounds.
 */
#define SHORTEST_LOOK_MS 5000
#define LONGEST_LOOK_MS 60000
#define LOOK_MARGIN 4
#define MOST_DOUBLED 4

typedef struct RulesShared
{
	LWLock		lock;			/* protects what follows but the version */
	pg_atomic_uint32 version;	/* of the list; changed under the lock */
	uint32		max_files;
	uint32		nfiles;
	uint32		looks;			/* begun since the start */
	bool		list_wanted;
	bool		all_seen;		/* each database had a place since the start */
	Oid			rotated_to;		/* the last one that was given a place in turn */
	uint32		databases_without_place;
	FcRulesDatabase database[FC_RULES_DATABASES];	/* db 0: a free place */
	FcRuleFile	file[FLEXIBLE_ARRAY_MEMBER];
} RulesShared;

static RulesShared *shared = NULL;

uint32		fc_rules_notes = 0;

/* The writer's copy. */
static FcRuleFile *mine = NULL;
static uint32 nmine = 0;
static uint32 my_version = 0;	/* 0: has none yet */

FcPart
fc_rules_part(int max_files)
{
	return fc_part("pg_flashcache policies",
				   max_files == 0 ? 0 : offsetof(RulesShared, file) + (Size) max_files * sizeof(FcRuleFile));
}

void
fc_rules_shmem_init(int max_files, int tranche)
{
	FcPart		part = fc_rules_part(max_files);
	bool		found;

	if (max_files == 0)
		return;
	shared = ShmemInitStruct(part.name, part.size, &found);
	memset(shared, 0, offsetof(RulesShared, file));
	LWLockInitialize(&shared->lock, tranche);
	pg_atomic_init_u32(&shared->version, 1);
	shared->max_files = max_files;
	shared->list_wanted = true;
}

bool
fc_rules_there(void)
{
	return shared != NULL;
}

/* ---- the order of the list ---- */

static int
compare_rel(const FcRel *a, const FcRel *b)
{
	if (a->db != b->db)
		return a->db < b->db ? -1 : 1;
	if (a->spc != b->spc)
		return a->spc < b->spc ? -1 : 1;
	return a->rel < b->rel ? -1 : a->rel > b->rel;
}

static int
compare_files(const void *a, const void *b)
{
	return compare_rel(&((const FcRuleFile *) a)->rel, &((const FcRuleFile *) b)->rel);
}

/* Those that must not be left out come first. */
static int
compare_rules(const void *a, const void *b)
{
	const FcRuleFile *x = a;
	const FcRuleFile *y = b;

	if ((x->rel.rel == 0) != (y->rel.rel == 0))
		return x->rel.rel == 0 ? -1 : 1;
	return x->rule != y->rule ? (x->rule > y->rule ? -1 : 1) : compare_files(a, b);
}

/* The first file of the list that is not before rel. */
static uint32
lower_bound(const FcRuleFile *list, uint32 n, FcRel rel)
{
	uint32		from = 0;
	uint32		to = n;

	while (from < to)
	{
		uint32		middle = from + (to - from) / 2;

		if (compare_rel(&list[middle].rel, &rel) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

static const FcRuleFile *
find(const FcRuleFile *list, uint32 n, Oid spc, Oid db, Oid file)
{
	FcRel		rel = {spc, db, file};
	uint32		at = lower_bound(list, n, rel);

	return at < n && compare_rel(&list[at].rel, &rel) == 0 ? &list[at] : NULL;
}

static FcRule
look_up(const FcRuleFile *list, uint32 n, FcRel rel)
{
	const FcRuleFile *file = find(list, n, rel.spc, rel.db, rel.rel);

	if (file == NULL)
		file = find(list, n, rel.spc, rel.db, 0);
	if (file == NULL)
		file = find(list, n, 0, rel.db, 0);
	return file != NULL ? (FcRule) file->rule : FC_RULE_NORMAL;
}

/* ---- the writer's copy ---- */

bool
fc_rules_refresh(void)
{
	if (shared == NULL || pg_atomic_read_u32(&shared->version) == my_version)
		return false;
	if (mine == NULL && (mine = malloc(shared->max_files * sizeof(FcRuleFile))) == NULL)
		return false;
	LWLockAcquire(&shared->lock, LW_SHARED);
	my_version = pg_atomic_read_u32(&shared->version);
	nmine = shared->nfiles;
	memcpy(mine, shared->file, nmine * sizeof(FcRuleFile));
	LWLockRelease(&shared->lock);
	return true;
}

FcRule
fc_rule_of(FcRel rel)
{
	/* neighbouring pages are mostly of one file */
	static FcRel last = {0};
	static uint32 last_version = 0;
	static FcRule last_rule;

	if (likely(nmine == 0))
		return FC_RULE_NORMAL;
	if (last_version != my_version || compare_rel(&rel, &last) != 0)
	{
		last_rule = look_up(mine, nmine, rel);
		last = rel;
		last_version = my_version;
	}
	return last_rule;
}

FcRule
fc_rules_published(FcRel rel)
{
	FcRule		rule;

	if (shared == NULL)
		return FC_RULE_NORMAL;
	LWLockAcquire(&shared->lock, LW_SHARED);
	rule = look_up(shared->file, shared->nfiles, rel);
	LWLockRelease(&shared->lock);
	return rule;
}

/* ---- databases: caller holds the lock ---- */

static FcRulesDatabase *
find_database(Oid db)
{
	for (int i = 0; i < FC_RULES_DATABASES; i++)
		if (shared->database[i].db == db)
			return &shared->database[i];
	return NULL;
}

/* The same, unless another look has begun since. */
static FcRulesDatabase *
find_look(Oid db, uint32 look)
{
	FcRulesDatabase *database = find_database(db);

	return database != NULL && database->look == look ? database : NULL;
}

/* A look has found no rules, and nothing has changed since: none is under way, or still to come, that may find some. */
static bool
has_none(const FcRulesDatabase *d)
{
	return d->rules == 0 && fc_rules_succeeded(d) && d->wanted == d->done;
}

/* A free place, or that of the database that was found longest ago to have no rules; NULL if there is none. */
static FcRulesDatabase *
find_place(void)
{
	FcRulesDatabase *place = find_database(InvalidOid);

	if (place != NULL)
		return place;
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		FcRulesDatabase *d = &shared->database[i];

		if (has_none(d) && (place == NULL || d->looked_at < place->looked_at))
			place = d;
	}
	return place;
}

/* The same, made if it is not there; NULL if there is no place. */
static FcRulesDatabase *
need_database(Oid db)
{
	FcRulesDatabase *database = find_database(db);

	if (database == NULL && (database = find_place()) != NULL)
	{
		memset(database, 0, sizeof(*database));
		database->db = db;
		database->wanted = 1;
		/* one from before a restart may be committed without a word */
		database->prepared = 1;
	}
	return database;
}

/* Exchanges what a database has published. */
static uint32
replace(Oid db, const FcRuleFile *files, uint32 n)
{
	FcRel		first = {0, db, 0};
	FcRel		behind = {PG_UINT32_MAX, db, PG_UINT32_MAX};
	uint32		from = lower_bound(shared->file, shared->nfiles, first);
	uint32		to = lower_bound(shared->file, shared->nfiles, behind);
	uint32		fit = Min(n, shared->max_files - (shared->nfiles - (to - from)));

	if (fit == to - from && (fit == 0 || memcmp(&shared->file[from], files, fit * sizeof(FcRuleFile)) == 0))
		return fit;
	memmove(&shared->file[from + fit], &shared->file[to], (shared->nfiles - to) * sizeof(FcRuleFile));
	if (fit > 0)
		memcpy(&shared->file[from], files, fit * sizeof(FcRuleFile));
	shared->nfiles = shared->nfiles - (to - from) + fit;
	pg_atomic_write_u32(&shared->version, Max(pg_atomic_read_u32(&shared->version) + 1, 1));
	return fit;
}

/* Places that each database with rules may have, whatever others want; `db` is one of them. */
static uint32
share_of(Oid db)
{
	uint32		n = 0;

	for (int i = 0; i < FC_RULES_DATABASES; i++)
		n += OidIsValid(shared->database[i].db) && (shared->database[i].rules > 0 || shared->database[i].db == db);
	return Max(shared->max_files / Max(n, 1), 1);
}

/*
 * So many of a database's files can be published: its share, which others give
 * way to, or more where places are free.  What it has beyond its share nobody
 * takes but for a share, or two databases would take it from each other in turn.
 */
static uint32
room_for(Oid db)
{
	uint32		share = share_of(db);
	const FcRulesDatabase *own = find_database(db);
	uint32		others = 0;
	uint32		protected = 0;

	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		const FcRulesDatabase *d = &shared->database[i];

		if (!OidIsValid(d->db) || d == own)
			continue;
		others += d->files;
		protected += Min(d->files, share);
	}
	return Max(Min(share, shared->max_files - Min(protected, shared->max_files)),
			   shared->max_files - Min(others, shared->max_files));
}

/* Takes so many of a database's files out, in the order in which they are left out; returns how many there were. */
static uint32
take_from(FcRulesDatabase *database, uint32 n)
{
	static const FcRule order[] = {FC_RULE_NORMAL, FC_RULE_KEEP, FC_RULE_NONE};
	FcRel		first = {0, database->db, 0};
	FcRel		behind = {PG_UINT32_MAX, database->db, PG_UINT32_MAX};
	uint32		taken = 0;

	for (int turn = 0; turn < lengthof(order) && taken < n; turn++)
	{
		uint32		from = lower_bound(shared->file, shared->nfiles, first);
		uint32		to = lower_bound(shared->file, shared->nfiles, behind);
		uint32		at = from;

		for (uint32 i = from; i < to; i++)
		{
			const FcRuleFile *file = &shared->file[i];

			if (taken < n && file->rel.rel != 0 && file->rule == order[turn])
				taken++;
			else
				shared->file[at++] = *file;
		}
		memmove(&shared->file[at], &shared->file[to], (shared->nfiles - to) * sizeof(FcRuleFile));
		shared->nfiles -= to - at;
	}
	database->files -= taken;
	database->without_place += taken;
	return taken;
}

/* Makes room for n files of a database, from those that have most and more than their share; returns for how many there is. */
static uint32
make_room(FcRulesDatabase *database, uint32 n)
{
	uint32		share = share_of(database->db);
	bool		gives[FC_RULES_DATABASES];

	memset(gives, true, sizeof(gives));
	for (;;)
	{
		uint32		room = shared->max_files - (shared->nfiles - database->files);
		int			most = -1;

		for (int i = 0; i < FC_RULES_DATABASES; i++)
		{
			const FcRulesDatabase *d = &shared->database[i];

			if (gives[i] && OidIsValid(d->db) && d != database && d->files > share &&
				(most < 0 || d->files > shared->database[most].files))
				most = i;
		}
		if (room >= n || most < 0)
			return Min(room, n);
		gives[most] = take_from(&shared->database[most], Min(n - room, shared->database[most].files - share)) > 0;
	}
}

/* ---- publishing ---- */

void
fc_rules_publish(Oid db, uint32 look, FcRuleFile *files, uint32 n, uint32 rules)
{
	FcRulesDatabase *database;
	uint32		fit;

	if (shared == NULL)
		return;

	/*
	 * sorted without the lock; once more where others have taken the room
	 * meanwhile
	 */
	LWLockAcquire(&shared->lock, LW_SHARED);
	fit = Min(n, room_for(db));
	LWLockRelease(&shared->lock);
	for (;;)
	{
		uint32		room;

		if (fit < n)
			qsort(files, n, sizeof(FcRuleFile), compare_rules);
		qsort(files, fit, sizeof(FcRuleFile), compare_files);
		LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
		database = find_look(db, look);
		room = database != NULL ? make_room(database, Min(fit, room_for(db))) : fit;
		if (fit <= room)
			break;
		fit = room;
		LWLockRelease(&shared->lock);
	}
	/* one that has no place any more was dropped, or has given it up */
	if (database != NULL)
	{
		TimestampTz now = GetCurrentTimestamp();

		fit = replace(db, files, fit);
		database->state = FC_RULES_KNOWN;
		database->answered = true;
		database->reason[0] = '\0';
		database->rules = rules;
		database->files = fit;
		database->without_place = n - fit;
		database->took_ms = (uint32) Min(Max(now - database->tried_at, 0) / 1000, LONGEST_LOOK_MS);
		database->looked_at = now;
	}
	LWLockRelease(&shared->lock);
}

void
fc_rules_failed(Oid db, uint32 look, FcRulesState state, const char *reason)
{
	FcRulesDatabase *database;

	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((database = find_look(db, look)) != NULL)
	{
		database->state = state;
		database->answered = true;
		strlcpy(database->reason, reason, sizeof(database->reason));
		/* of another database's encoding, and perhaps cut within a character */
		for (char *c = database->reason; *c; c++)
			if (IS_HIGHBIT_SET(*c))
				*c = '?';
	}
	LWLockRelease(&shared->lock);
}

static int
compare_oids(const void *a, const void *b)
{
	Oid			x = *(const Oid *) a;
	Oid			y = *(const Oid *) b;

	return x < y ? -1 : x > y;
}

/* Where there are more databases than places: the next few of those that have none, in the order of their OIDs. */
static void
rotate(const Oid *dbs, int n)
{
	static const int step = 16;
	int			placed = 0;
	int			j = 0;
	bool		waiting = false;

	while (j < n && dbs[j] <= shared->rotated_to)
		j++;
	for (; j < n && placed < step; j++)
	{
		if (find_database(dbs[j]) == NULL)
		{
			if (need_database(dbs[j]) == NULL)
				break;			/* nobody gives a place up now */
			placed++;
		}
		shared->rotated_to = dbs[j];
	}
	if (j == n)
	{
		shared->rotated_to = InvalidOid;
		shared->all_seen = true;
		return;
	}

	/*
	 * after a start all are to be looked at soon, as long as there are places
	 * that can be given up
	 */
	for (int i = 0; i < FC_RULES_DATABASES; i++)
		waiting |= shared->database[i].tried_at == 0;
	if (!shared->all_seen && (placed > 0 || waiting))
		shared->list_wanted = true;
}

void
fc_rules_databases_are(Oid *dbs, int n)
{
	if (shared == NULL)
		return;
	qsort(dbs, n, sizeof(Oid), compare_oids);
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		FcRulesDatabase *database = &shared->database[i];

		if (!OidIsValid(database->db) || bsearch(&database->db, dbs, n, sizeof(Oid), compare_oids) != NULL)
			continue;
		(void) replace(database->db, NULL, 0);
		memset(database, 0, sizeof(*database));
	}
	/* free places first, so that nobody gives one up for nothing */
	for (int j = 0; j < n && find_database(InvalidOid) != NULL; j++)
		(void) need_database(dbs[j]);
	rotate(dbs, n);
	shared->databases_without_place = 0;
	for (int j = 0; j < n; j++)
		shared->databases_without_place += find_database(dbs[j]) == NULL;
	LWLockRelease(&shared->lock);
}

/* ---- who is to be looked at ---- */

void
fc_rules_want(Oid db, bool urgent)
{
	FcRulesDatabase *database;

	if (shared == NULL || !OidIsValid(db))
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((database = need_database(db)) != NULL)
	{
		database->wanted++;
		database->urgent |= urgent;
	}
	LWLockRelease(&shared->lock);
}

bool
fc_rules_has(Oid db)
{
	FcRulesDatabase *database;
	bool		has;

	if (shared == NULL || !OidIsValid(db))
		return false;
	LWLockAcquire(&shared->lock, LW_SHARED);
	database = find_database(db);
	has = database != NULL && !has_none(database);
	LWLockRelease(&shared->lock);
	return has;
}

void
fc_rules_set_prepared(Oid db)
{
	FcRulesDatabase *database;

	if (shared == NULL || !OidIsValid(db))
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((database = need_database(db)) != NULL)
		database->prepared = Max(database->prepared + 1, 1);
	LWLockRelease(&shared->lock);
}

uint32
fc_rules_prepared(Oid db)
{
	FcRulesDatabase *database;
	uint32		prepared;

	if (shared == NULL || !OidIsValid(db))
		return 0;
	LWLockAcquire(&shared->lock, LW_SHARED);
	database = find_database(db);
	/* of one that has no place nothing is known */
	prepared = database != NULL ? database->prepared : 1;
	LWLockRelease(&shared->lock);
	return prepared;
}

void
fc_rules_none_prepared(Oid db, uint32 prepared)
{
	FcRulesDatabase *database;

	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((database = find_database(db)) != NULL && database->prepared == prepared)
		database->prepared = 0;
	LWLockRelease(&shared->lock);
}

void
fc_rules_want_list(void)
{
	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->list_wanted = true;
	LWLockRelease(&shared->lock);
}

bool
fc_rules_list_wanted(void)
{
	bool		wanted;

	LWLockAcquire(&shared->lock, LW_SHARED);
	wanted = shared->list_wanted;
	LWLockRelease(&shared->lock);
	return wanted;
}

void
fc_rules_list_begins(void)
{
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	shared->list_wanted = false;
	LWLockRelease(&shared->lock);
}

int
fc_rules_patience_ms(Oid db)
{
	FcRulesDatabase *database;
	uint64		patience = SHORTEST_LOOK_MS;

	LWLockAcquire(&shared->lock, LW_SHARED);
	if ((database = find_database(db)) != NULL)
		patience = (uint64) fc_failpoint_number("FC_LOOK_MS", Max(SHORTEST_LOOK_MS, database->took_ms * LOOK_MARGIN)) <<
			Min(database->failures, MOST_DOUBLED);
	LWLockRelease(&shared->lock);
	return (int) Min(patience, LONGEST_LOOK_MS);
}

uint32
fc_rules_begin(Oid db, XLogRecPtr replayed, FcRulesDatabase *before)
{
	FcRulesDatabase *database;
	uint32		look = 0;

	memset(before, 0, sizeof(*before));
	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((database = find_database(db)) != NULL)
	{
		*before = *database;
		/* only a lock in the way says nothing of the next one */
		if (fc_rules_succeeded(database) || database->tried_at == 0)
			database->failures = 0;
		else if (!database->answered || database->state == FC_RULES_FAILED)
			database->failures++;
		look = ++shared->looks;
		database->look = look;
		database->answered = false;
		database->done = database->wanted;
		database->urgent = false;
		database->tried_at = GetCurrentTimestamp();
		database->replayed = replayed;
	}
	LWLockRelease(&shared->lock);
	return look;
}

void
fc_rules_refused(const FcRulesDatabase *before)
{
	FcRulesDatabase *database;

	LWLockAcquire(&shared->lock, LW_EXCLUSIVE);
	if ((database = find_database(before->db)) != NULL)
	{
		database->failures = before->failures;
		database->answered = before->answered;
		database->tried_at = before->tried_at;
		database->replayed = before->replayed;
		database->done = before->done;
		database->urgent = true;
		strlcpy(database->reason, "no background worker is free: see max_worker_processes", sizeof(database->reason));
	}
	LWLockRelease(&shared->lock);
}

void
fc_rules_ended(Oid db, uint32 look)
{
	FcRulesDatabase *database;
	bool		answered;

	LWLockAcquire(&shared->lock, LW_SHARED);
	database = find_look(db, look);
	answered = database == NULL || database->answered;
	LWLockRelease(&shared->lock);
	if (!answered)
		fc_rules_failed(db, look, FC_RULES_FAILED, "the worker ended before it was done: see the server's log");
}

/* ---- inspection ---- */

void
fc_rules_databases(FcRulesDatabase *databases)
{
	memset(databases, 0, FC_RULES_DATABASES * sizeof(FcRulesDatabase));
	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_SHARED);
	memcpy(databases, shared->database, sizeof(shared->database));
	LWLockRelease(&shared->lock);
}

void
fc_rules_info(FcRulesInfo *info)
{
	memset(info, 0, sizeof(*info));
	if (shared == NULL)
		return;
	LWLockAcquire(&shared->lock, LW_SHARED);
	info->max_files = shared->max_files;
	info->files = shared->nfiles;
	info->databases_without_place = shared->databases_without_place;
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		info->without_place += shared->database[i].without_place;
		info->looked_at = Max(info->looked_at, shared->database[i].looked_at);
	}
	LWLockRelease(&shared->lock);
}
