/*-------------------------------------------------------------------------
 *
 * rules/rules_publish.c
 *	  A database publishes its files.
 *
 * Where the list is full, each database with rules has a share; what others have
 * beyond theirs makes room, and what must not be left out comes first.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "rules/rules_internal.h"
#include "utils/timestamp.h"

/* ---- room; the caller holds the lock ---- */

/* Places that each database with rules may have, whatever others want; `db` is one of them. */
static uint32
share_of(Oid db)
{
	uint32		n = 0;

	for (int i = 0; i < FC_RULES_DATABASES; i++)
		n += OidIsValid(fc_rules->database[i].db) && (fc_rules->database[i].rules > 0 || fc_rules->database[i].db == db);
	return Max(fc_rules->max_files / Max(n, 1), 1);
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
	const FcRulesDatabase *own = fc_rules_find(db);
	uint32		others = 0;
	uint32		protected = 0;

	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		const FcRulesDatabase *d = &fc_rules->database[i];

		if (!OidIsValid(d->db) || d == own)
			continue;
		others += d->files;
		protected += Min(d->files, share);
	}
	return Max(Min(share, fc_rules->max_files - Min(protected, fc_rules->max_files)),
			   fc_rules->max_files - Min(others, fc_rules->max_files));
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
		uint32		from = fc_rules_lower_bound(fc_rules->file, fc_rules->nfiles, first);
		uint32		to = fc_rules_lower_bound(fc_rules->file, fc_rules->nfiles, behind);
		uint32		at = from;

		for (uint32 i = from; i < to; i++)
		{
			const FcRuleFile *file = &fc_rules->file[i];

			if (taken < n && file->rel.rel != 0 && file->rule == order[turn])
				taken++;
			else
				fc_rules->file[at++] = *file;
		}
		memmove(&fc_rules->file[at], &fc_rules->file[to], (fc_rules->nfiles - to) * sizeof(FcRuleFile));
		fc_rules->nfiles -= to - at;
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
		uint32		room = fc_rules->max_files - (fc_rules->nfiles - database->files);
		int			most = -1;

		for (int i = 0; i < FC_RULES_DATABASES; i++)
		{
			const FcRulesDatabase *d = &fc_rules->database[i];

			if (gives[i] && OidIsValid(d->db) && d != database && d->files > share &&
				(most < 0 || d->files > fc_rules->database[most].files))
				most = i;
		}
		if (room >= n || most < 0)
			return Min(room, n);
		gives[most] = take_from(&fc_rules->database[most], Min(n - room, fc_rules->database[most].files - share)) > 0;
	}
}

/* ---- publishing ---- */

/* Those that must not be left out come first. */
static int
compare_rules(const void *a, const void *b)
{
	const FcRuleFile *x = a;
	const FcRuleFile *y = b;

	if ((x->rel.rel == 0) != (y->rel.rel == 0))
		return x->rel.rel == 0 ? -1 : 1;
	return x->rule != y->rule ? (x->rule > y->rule ? -1 : 1) : fc_rules_compare(a, b);
}

void
fc_rules_publish(Oid db, uint32 look, FcRuleFile *files, uint32 n, const FcRulesFound *found)
{
	FcRulesDatabase *database;
	uint32		fit;

	if (fc_rules == NULL)
		return;

	/*
	 * sorted without the lock; once more where others have taken the room
	 * meanwhile
	 */
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	fit = Min(n, room_for(db));
	LWLockRelease(&fc_rules->lock);
	for (;;)
	{
		uint32		room;

		if (fit < n)
			qsort(files, n, sizeof(FcRuleFile), compare_rules);
		qsort(files, fit, sizeof(FcRuleFile), fc_rules_compare);
		LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
		database = fc_rules_find_look(db, look);
		room = database != NULL ? make_room(database, Min(fit, room_for(db))) : fit;
		if (fit <= room)
			break;
		fit = room;
		LWLockRelease(&fc_rules->lock);
	}
	/* one that has no place any more was dropped, or has given it up */
	if (database != NULL)
	{
		TimestampTz now = GetCurrentTimestamp();

		fit = fc_rules_replace(db, files, fit);
		database->state = FC_RULES_KNOWN;
		database->answered = true;
		database->heard = database->done;
		database->version = pg_atomic_read_u32(&fc_rules->version);
		database->reason[0] = '\0';
		fc_rules_seen(found->seen, found->nseen);
		database->rules = found->rules;
		database->hides = found->hides;
		database->files = fit;
		database->without_place = n - fit;
		database->took_ms = (uint32) Min(Max(now - database->tried_at, 0) / 1000, FC_LONGEST_LOOK_MS);
		database->looked_at = now;
	}
	LWLockRelease(&fc_rules->lock);
}

void
fc_rules_failed(Oid db, uint32 look, FcRulesState state, const char *reason)
{
	FcRulesDatabase *database;

	if (fc_rules == NULL)
		return;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_find_look(db, look)) != NULL)
	{
		database->state = state;
		database->answered = true;
		database->heard = database->done;
		strlcpy(database->reason, reason, sizeof(database->reason));
		/* of another database's encoding, and perhaps cut within a character */
		for (char *c = database->reason; *c; c++)
			if (IS_HIGHBIT_SET(*c))
				*c = '?';
	}
	LWLockRelease(&fc_rules->lock);
}
