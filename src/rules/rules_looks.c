/*-------------------------------------------------------------------------
 *
 * rules/rules_looks.c
 *	  Who is to be looked at: databases in which rules or files may have changed;
 *	  how long a look may take; what has come of it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "failpoint.h"
#include "rules/rules_internal.h"
#include "utils/timestamp.h"

/*
 * How long a look may take: four times what the last one took, twice as long
 * after each that did not succeed, within these bounds (and FC_LONGEST_LOOK_MS).
 */
#define SHORTEST_LOOK_MS 5000
#define LOOK_MARGIN 4
#define MOST_DOUBLED 4

void
fc_rules_want(Oid db, bool urgent)
{
	FcRulesDatabase *database;

	if (fc_rules == NULL || !OidIsValid(db))
		return;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_need(db)) != NULL)
	{
		database->wanted++;
		if (urgent)
		{
			database->urgent = true;
			database->rule_wanted = database->wanted;
		}
	}
	LWLockRelease(&fc_rules->lock);
}

bool
fc_rules_has(Oid db)
{
	FcRulesDatabase *database;
	bool		has;

	if (fc_rules == NULL || !OidIsValid(db))
		return false;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	database = fc_rules_find(db);
	has = (database != NULL && !fc_rules_has_none(database)) || fc_rules_count_unknown(db) > 0;
	LWLockRelease(&fc_rules->lock);
	return has;
}

/* A look that began after that change has answered, and the writer has what was found. */
static bool
is_heeded(const FcRulesDatabase *database, uint32 change)
{
	return (int32) (database->heard - change) >= 0 &&
		(int32) (pg_atomic_read_u32(&fc_rules->heeded) - database->version) >= 0;
}

bool
fc_rules_changed(Oid db, const FcRel *file, uint32 *change)
{
	FcRulesDatabase *database;
	bool		changed = false;

	if (fc_rules == NULL || !OidIsValid(db))
		return false;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	if ((database = fc_rules_find(db)) != NULL)
	{
		*change = database->rule_wanted;
		changed = !is_heeded(database, *change);
		if (!changed && file != NULL && fc_rules_is_unknown(fc_rules_unknown_list(), fc_rules->nunknown, *file))
		{
			*change = database->wanted;
			changed = !is_heeded(database, *change);
		}
	}
	LWLockRelease(&fc_rules->lock);
	return changed;
}

bool
fc_rules_heeded(Oid db, uint32 change)
{
	FcRulesDatabase *database;
	bool		heeded;

	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	database = fc_rules_find(db);
	heeded = database == NULL || is_heeded(database, change);
	LWLockRelease(&fc_rules->lock);
	return heeded;
}

void
fc_rules_set_prepared(Oid db)
{
	FcRulesDatabase *database;

	if (fc_rules == NULL || !OidIsValid(db))
		return;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_need(db)) != NULL)
		database->prepared = Max(database->prepared + 1, 1);
	LWLockRelease(&fc_rules->lock);
}

uint32
fc_rules_prepared(Oid db)
{
	FcRulesDatabase *database;
	uint32		prepared;

	if (fc_rules == NULL || !OidIsValid(db))
		return 0;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	database = fc_rules_find(db);
	/* of one that has no place nothing is known */
	prepared = database != NULL ? database->prepared : 1;
	LWLockRelease(&fc_rules->lock);
	return prepared;
}

void
fc_rules_none_prepared(Oid db, uint32 prepared)
{
	FcRulesDatabase *database;

	if (fc_rules == NULL)
		return;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_find(db)) != NULL && database->prepared == prepared)
		database->prepared = 0;
	LWLockRelease(&fc_rules->lock);
}

void
fc_rules_want_list(void)
{
	if (fc_rules == NULL)
		return;
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	fc_rules->list_wanted = true;
	LWLockRelease(&fc_rules->lock);
}

bool
fc_rules_list_wanted(void)
{
	bool		wanted;

	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	wanted = fc_rules->list_wanted;
	LWLockRelease(&fc_rules->lock);
	return wanted;
}

void
fc_rules_list_begins(void)
{
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	fc_rules->list_wanted = false;
	LWLockRelease(&fc_rules->lock);
}

int
fc_rules_patience_ms(Oid db)
{
	FcRulesDatabase *database;
	uint64		patience = SHORTEST_LOOK_MS;

	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	if ((database = fc_rules_find(db)) != NULL)
		patience = (uint64) fc_failpoint_number("FC_LOOK_MS", Max(SHORTEST_LOOK_MS, database->took_ms * LOOK_MARGIN)) <<
			Min(database->failures, MOST_DOUBLED);
	LWLockRelease(&fc_rules->lock);
	return (int) Min(patience, FC_LONGEST_LOOK_MS);
}

uint32
fc_rules_begin(Oid db, XLogRecPtr replayed, FcRulesDatabase *before)
{
	FcRulesDatabase *database;
	uint32		look = 0;

	memset(before, 0, sizeof(*before));
	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_find(db)) != NULL)
	{
		*before = *database;
		/* only a lock in the way says nothing of the next one */
		if (fc_rules_succeeded(database) || database->tried_at == 0)
			database->failures = 0;
		else if (!database->answered || database->state == FC_RULES_FAILED)
			database->failures++;
		look = ++fc_rules->looks;
		database->look = look;
		database->answered = false;
		database->done = database->wanted;
		database->urgent = false;
		database->tried_at = GetCurrentTimestamp();
		database->replayed = replayed;
	}
	LWLockRelease(&fc_rules->lock);
	return look;
}

void
fc_rules_refused(const FcRulesDatabase *before)
{
	FcRulesDatabase *database;

	LWLockAcquire(&fc_rules->lock, LW_EXCLUSIVE);
	if ((database = fc_rules_find(before->db)) != NULL)
	{
		database->failures = before->failures;
		database->answered = before->answered;
		database->tried_at = before->tried_at;
		database->replayed = before->replayed;
		database->done = before->done;
		/* or one that has become urgent meanwhile */
		database->urgent |= before->urgent;
		strlcpy(database->reason, "no background worker is free: see max_worker_processes", sizeof(database->reason));
	}
	LWLockRelease(&fc_rules->lock);
}

void
fc_rules_ended(Oid db, uint32 look)
{
	FcRulesDatabase *database;
	bool		answered;

	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	database = fc_rules_find_look(db, look);
	answered = database == NULL || database->answered;
	LWLockRelease(&fc_rules->lock);
	if (!answered)
		fc_rules_failed(db, look, FC_RULES_FAILED, "the worker ended before it was done: see the server's log");
}
