/*-------------------------------------------------------------------------
 *
 * rules/rules_unknown.c
 *	  New files of which nobody knows yet which policy they have.
 *
 * A rule about a relation, a partition tree or a schema is about a file from
 * its first page on, but no look can find that before the transaction that
 * makes it has ended, perhaps hours later.  So where a database has such a rule
 * that says `none`, or may have one, its new files stand here, from before they
 * are made until they are gone, or a look has found them in the catalog.
 * Meanwhile they are treated as `none`.
 *
 * There are as many places as files can have a policy.  A file that finds none
 * is treated as its tablespace or database says.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "rules/rules_internal.h"

/* ---- the caller holds the lock ---- */

FcRel *
fc_rules_unknown_list(void)
{
	return (FcRel *) &fc_rules->file[fc_rules->max_files];
}

static void
list_changed(void)
{
	pg_atomic_write_u32(&fc_rules->changes, pg_atomic_read_u32(&fc_rules->changes) + 1);
}

/* The first one that is not before rel. */
static uint32
lower_bound(const FcRel *list, uint32 n, FcRel rel)
{
	uint32		from = 0;
	uint32		to = n;

	while (from < to)
	{
		uint32		middle = from + (to - from) / 2;

		if (fc_rules_compare_rel(&list[middle], &rel) < 0)
			from = middle + 1;
		else
			to = middle;
	}
	return from;
}

bool
fc_rules_is_unknown(const FcRel *list, uint32 n, FcRel rel)
{
	uint32		at;

	if (likely(n == 0))
		return false;
	at = lower_bound(list, n, rel);
	return at < n && fc_rules_compare_rel(&list[at], &rel) == 0;
}

uint32
fc_rules_count_unknown(Oid db)
{
	const FcRel *list = fc_rules_unknown_list();
	uint32		n = 0;

	for (uint32 i = 0; i < fc_rules->nunknown; i++)
		n += list[i].db == db;
	return n;
}

void
fc_rules_forget_others(const Oid *dbs, uint32 ndbs)
{
	FcRel	   *list = fc_rules_unknown_list();
	uint32		n = 0;

	for (uint32 i = 0; i < fc_rules->nunknown; i++)
		if (bsearch(&list[i].db, dbs, ndbs, sizeof(Oid), fc_rules_compare_oids) != NULL)
			list[n++] = list[i];
	if (n == fc_rules->nunknown)
		return;
	fc_rules->nunknown = n;
	list_changed();
}

static void
forget_one(FcRel rel)
{
	FcRel	   *list = fc_rules_unknown_list();
	uint32		at = lower_bound(list, fc_rules->nunknown, rel);

	if (at == fc_rules->nunknown || fc_rules_compare_rel(&list[at], &rel) != 0)
		return;
	memmove(&list[at], &list[at + 1], (fc_rules->nunknown - at - 1) * sizeof(FcRel));
	fc_rules->nunknown--;
	list_changed();
}

void
fc_rules_seen(const FcRel *seen, uint32 nseen)
{
	FcRel	   *list = fc_rules_unknown_list();
	uint32		n = 0;
	uint32		at = 0;

	for (uint32 i = 0; i < fc_rules->nunknown; i++)
	{
		while (at < nseen && fc_rules_compare_rel(&seen[at], &list[i]) < 0)
			at++;
		if (at == nseen || fc_rules_compare_rel(&seen[at], &list[i]) != 0)
			list[n++] = list[i];
	}
	if (n == fc_rules->nunknown)
		return;
	fc_rules->nunknown = n;
	list_changed();
}

/* May a rule by name say `none` of a file that this process makes now? */
static bool
may_hide(const FcRulesDatabase *d)
{
	return d->looked_at == 0 || d->hides || (int32) (d->heard - d->rule_wanted) < 0 ||
		(d->db == MyDatabaseId && (fc_rules_notes & FC_NOTE_RULES) != 0);
}

/* ---- whoever makes and removes files ---- */

bool
fc_rules_new_file(FcRel rel)
{
	const FcRulesDatabase *database;
	FcRel	   *list;
	uint32		at;
	bool		added = false;

	if (fc_rules == NULL || !OidIsValid(rel.db))
		return false;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_find(rel.db)) != NULL && may_hide(database) && fc_rules->nunknown < fc_rules->max_files)
	{
		list = fc_rules_unknown_list();
		at = lower_bound(list, fc_rules->nunknown, rel);
		if (at == fc_rules->nunknown || fc_rules_compare_rel(&list[at], &rel) != 0)
		{
			memmove(&list[at + 1], &list[at], (fc_rules->nunknown - at) * sizeof(FcRel));
			list[at] = rel;
			fc_rules->nunknown++;
			list_changed();
			added = true;
		}
	}
	LWLockRelease(&fc_rules->lock);
	return added;
}

void
fc_rules_file_gone(FcRel rel)
{
	/* who removes a file can see that it was made */
	if (fc_rules == NULL || fc_rules->nunknown == 0)
		return;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	forget_one(rel);
	LWLockRelease(&fc_rules->lock);
}

/* ---- looks ---- */

FcRel *
fc_rules_unknown(Oid db, uint32 *n)
{
	FcRel	   *files;

	*n = 0;
	if (fc_rules == NULL)
		return NULL;
	files = palloc_extended(fc_rules->max_files * sizeof(FcRel), MCXT_ALLOC_HUGE);
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	for (uint32 i = 0; i < fc_rules->nunknown; i++)
		if (fc_rules_unknown_list()[i].db == db)
			files[(*n)++] = fc_rules_unknown_list()[i];
	LWLockRelease(&fc_rules->lock);
	return files;
}
