/*-------------------------------------------------------------------------
 *
 * rules/rules_places.c
 *	  Which databases have a place, and are looked at.
 *
 * There are fewer places than there may be databases.  One that is known to have
 * no rules gives its place up, and those that have none get one in turn.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "rules/rules_internal.h"

/* ---- one of them; the caller holds the lock ---- */

FcRulesDatabase *
fc_rules_find_look(Oid db, uint32 look)
{
	FcRulesDatabase *database = fc_rules_find(db);

	return database != NULL && database->look == look ? database : NULL;
}

bool
fc_rules_has_none(const FcRulesDatabase *d)
{
	return d->rules == 0 && fc_rules_succeeded(d) && d->wanted == d->done;
}

/* A free place, or that of the database that was found longest ago to have no rules; NULL if there is none. */
static FcRulesDatabase *
find_place(void)
{
	FcRulesDatabase *place = fc_rules_find(InvalidOid);

	if (place != NULL)
		return place;
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		FcRulesDatabase *d = &fc_rules->database[i];

		if (fc_rules_has_none(d) && (place == NULL || d->looked_at < place->looked_at))
			place = d;
	}
	return place;
}

FcRulesDatabase *
fc_rules_need(Oid db)
{
	FcRulesDatabase *database = fc_rules_find(db);

	if (database == NULL && (database = find_place()) != NULL)
	{
		memset(database, 0, sizeof(*database));
		database->db = db;
		database->wanted = 1;
		database->rule_wanted = 1;	/* there may be rules */
		/* one from before a restart may be committed without a word */
		database->prepared = 1;
	}
	return database;
}

/* ---- all of them ---- */

/* Where there are more databases than places: the next few of those that have none, in the order of their OIDs. */
static void
rotate(const Oid *dbs, int n)
{
	static const int step = 16;
	int			placed = 0;
	int			j = 0;
	bool		waiting = false;

	while (j < n && dbs[j] <= fc_rules->rotated_to)
		j++;
	for (; j < n && placed < step; j++)
	{
		if (fc_rules_find(dbs[j]) == NULL)
		{
			if (fc_rules_need(dbs[j]) == NULL)
				break;			/* nobody gives a place up now */
			placed++;
		}
		fc_rules->rotated_to = dbs[j];
	}
	if (j == n)
	{
		fc_rules->rotated_to = InvalidOid;
		fc_rules->all_seen = true;
		return;
	}

	/*
	 * after a start all are to be looked at soon, as long as there are places
	 * that can be given up
	 */
	for (int i = 0; i < FC_RULES_DATABASES; i++)
		waiting |= fc_rules->database[i].tried_at == 0;
	if (!fc_rules->all_seen && (placed > 0 || waiting))
		fc_rules->list_wanted = true;
}

void
fc_rules_databases_are(Oid *dbs, int n)
{
	if (fc_rules == NULL)
		return;
	qsort(dbs, n, sizeof(Oid), fc_rules_compare_oids);
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		FcRulesDatabase *database = &fc_rules->database[i];

		if (!OidIsValid(database->db) || bsearch(&database->db, dbs, n, sizeof(Oid), fc_rules_compare_oids) != NULL)
			continue;
		(void) fc_rules_replace(database->db, NULL, 0);
		memset(database, 0, sizeof(*database));
	}
	fc_rules_forget_others(dbs, n);
	/* free places first, so that nobody gives one up for nothing */
	for (int j = 0; j < n && fc_rules_find(InvalidOid) != NULL; j++)
		(void) fc_rules_need(dbs[j]);
	rotate(dbs, n);
	fc_rules->databases_without_place = 0;
	for (int j = 0; j < n; j++)
		fc_rules->databases_without_place += fc_rules_find(dbs[j]) == NULL;
	LWLockRelease(&fc_rules->lock);
}

bool
fc_rules_knows(Oid db)
{
	bool		knows;

	if (fc_rules == NULL)
		return false;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	knows = fc_rules_find(db) != NULL;
	LWLockRelease(&fc_rules->lock);
	return knows;
}
