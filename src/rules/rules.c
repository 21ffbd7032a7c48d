/*-------------------------------------------------------------------------
 *
 * rules/rules.c
 *	  The list of files that have a policy, and the writer's copy of it.  See
 *	  rules.h.
 *
 * The list is sorted by database, tablespace, file: what a database has
 * published lies together, and what stands for all of it comes first.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "rules/rules_internal.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"

/* The writer's copy. */
static FcRuleFile *mine = NULL;
static uint32 nmine = 0;
static FcRel *my_unknown = NULL;
static uint32 nmy_unknown = 0;
static uint32 my_version = 0;	/* 0: has none yet */
static uint32 my_changes = 0;

FcPart
fc_rules_part(int max_files)
{
	return fc_part("pg_flashcache policies",
				   max_files == 0 ? 0 : offsetof(FcRulesShared, file) + (Size) max_files * (sizeof(FcRuleFile) + sizeof(FcRel)));
}

void
fc_rules_shmem_init(int max_files, int tranche)
{
	FcPart		part = fc_rules_part(max_files);
	bool		found;

	if (max_files == 0)
		return;
	fc_rules = ShmemInitStruct(part.name, part.size, &found);
	memset(fc_rules, 0, offsetof(FcRulesShared, file));
	LWLockInitialize(&fc_rules->lock, tranche);
	pg_atomic_init_u32(&fc_rules->version, 1);
	pg_atomic_init_u32(&fc_rules->heeded, 0);
	pg_atomic_init_u32(&fc_rules->changes, 1);
	fc_rules->max_files = max_files;
	fc_rules->list_wanted = true;
}

bool
fc_rules_there(void)
{
	return fc_rules != NULL;
}

/* ---- the order of the list ---- */

int
fc_rules_compare(const void *a, const void *b)
{
	return fc_rules_compare_rel(&((const FcRuleFile *) a)->rel, &((const FcRuleFile *) b)->rel);
}

uint32
fc_rules_lower_bound(const FcRuleFile *list, uint32 n, FcRel rel)
{
	uint32		from = 0;
	uint32		to = n;

	while (from < to)
	{
		uint32		middle = from + (to - from) / 2;

		if (fc_rules_compare_rel(&list[middle].rel, &rel) < 0)
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
	uint32		at = fc_rules_lower_bound(list, n, rel);

	return at < n && fc_rules_compare_rel(&list[at].rel, &rel) == 0 ? &list[at] : NULL;
}

static FcRule
look_up(const FcRuleFile *list, uint32 n, const FcRel *unknown, uint32 nunknown, FcRel rel)
{
	const FcRuleFile *file;

	if (fc_rules_is_unknown(unknown, nunknown, rel))
		return FC_RULE_NONE;
	file = find(list, n, rel.spc, rel.db, rel.rel);
	if (file == NULL)
		file = find(list, n, rel.spc, rel.db, 0);
	if (file == NULL)
		file = find(list, n, 0, rel.db, 0);
	return file != NULL ? (FcRule) file->rule : FC_RULE_NORMAL;
}

/* The caller holds the lock. */
uint32
fc_rules_replace(Oid db, const FcRuleFile *files, uint32 n)
{
	FcRel		first = {0, db, 0};
	FcRel		behind = {PG_UINT32_MAX, db, PG_UINT32_MAX};
	uint32		from = fc_rules_lower_bound(fc_rules->file, fc_rules->nfiles, first);
	uint32		to = fc_rules_lower_bound(fc_rules->file, fc_rules->nfiles, behind);
	uint32		fit = Min(n, fc_rules->max_files - (fc_rules->nfiles - (to - from)));

	if (fit == to - from && (fit == 0 || memcmp(&fc_rules->file[from], files, fit * sizeof(FcRuleFile)) == 0))
		return fit;
	memmove(&fc_rules->file[from + fit], &fc_rules->file[to], (fc_rules->nfiles - to) * sizeof(FcRuleFile));
	if (fit > 0)
		memcpy(&fc_rules->file[from], files, fit * sizeof(FcRuleFile));
	fc_rules->nfiles = fc_rules->nfiles - (to - from) + fit;
	pg_atomic_write_u32(&fc_rules->version, Max(pg_atomic_read_u32(&fc_rules->version) + 1, 1));
	pg_atomic_write_u32(&fc_rules->changes, pg_atomic_read_u32(&fc_rules->changes) + 1);
	return fit;
}

/* ---- the writer's copy ---- */

static void
take_copy(void)
{
	if (mine == NULL)
		mine = malloc(fc_rules->max_files * sizeof(FcRuleFile));
	if (my_unknown == NULL)
		my_unknown = malloc(fc_rules->max_files * sizeof(FcRel));
	if (mine == NULL || my_unknown == NULL)
		return;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	my_version = pg_atomic_read_u32(&fc_rules->version);
	my_changes = pg_atomic_read_u32(&fc_rules->changes);
	nmine = fc_rules->nfiles;
	memcpy(mine, fc_rules->file, nmine * sizeof(FcRuleFile));
	nmy_unknown = fc_rules->nunknown;
	memcpy(my_unknown, fc_rules_unknown_list(), nmy_unknown * sizeof(FcRel));
	LWLockRelease(&fc_rules->lock);
	pg_atomic_write_u32(&fc_rules->heeded, my_version);
}

bool
fc_rules_refresh(void)
{
	static uint32 told = 0;

	if (fc_rules == NULL)
		return false;
	if (pg_atomic_read_u32(&fc_rules->changes) != my_changes)
		take_copy();
	if (told == my_version)
		return false;
	told = my_version;
	return true;
}

FcRule
fc_rule_of(FcRel rel)
{
	/* neighbouring pages are mostly of one file */
	static FcRel last = {0};
	static uint32 last_changes = 0;
	static FcRule last_rule;

	if (likely(nmine == 0 && nmy_unknown == 0))
		return FC_RULE_NORMAL;
	if (last_changes != my_changes || fc_rules_compare_rel(&rel, &last) != 0)
	{
		last_rule = look_up(mine, nmine, my_unknown, nmy_unknown, rel);
		last = rel;
		last_changes = my_changes;
	}
	return last_rule;
}

FcRule
fc_rule_now(FcRel rel)
{
	if (fc_rules == NULL)
		return FC_RULE_NORMAL;

	/*
	 * The page of a new file was seen before this: so is what stood here
	 * before the file was made.
	 */
	pg_read_barrier();
	if (unlikely(pg_atomic_read_u32(&fc_rules->changes) != my_changes))
		take_copy();
	return fc_rule_of(rel);
}

FcRule
fc_rules_published(FcRel rel)
{
	FcRule		rule;

	if (fc_rules == NULL)
		return FC_RULE_NORMAL;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	rule = look_up(fc_rules->file, fc_rules->nfiles, fc_rules_unknown_list(), fc_rules->nunknown, rel);
	LWLockRelease(&fc_rules->lock);
	return rule;
}

/* ---- inspection ---- */

void
fc_rules_databases(FcRulesDatabase *databases)
{
	memset(databases, 0, FC_RULES_DATABASES * sizeof(FcRulesDatabase));
	if (fc_rules == NULL)
		return;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	memcpy(databases, fc_rules->database, sizeof(fc_rules->database));
	LWLockRelease(&fc_rules->lock);
}

void
fc_rules_info(FcRulesInfo *info)
{
	memset(info, 0, sizeof(*info));
	if (fc_rules == NULL)
		return;
	LWLockAcquire(&fc_rules->lock, LW_SHARED);
	info->max_files = fc_rules->max_files;
	info->files = fc_rules->nfiles;
	info->databases_without_place = fc_rules->databases_without_place;
	for (int i = 0; i < FC_RULES_DATABASES; i++)
	{
		info->without_place += fc_rules->database[i].without_place;
		info->looked_at = Max(info->looked_at, fc_rules->database[i].looked_at);
	}
	LWLockRelease(&fc_rules->lock);
}
