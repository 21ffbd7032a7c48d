/*-------------------------------------------------------------------------
 *
 * rules_internal.h
 *	  What the files of this module share: rules.c (the list), rules_publish.c
 *	  (what databases put there, and whose share is how large), rules_places.c
 *	  (which databases there are), rules_looks.c (who is to be looked at),
 *	  rules_unknown.c (new files) and rules_state.c (what all of them use).
 *
 * The functions below are for callers that hold the lock, and acquire nothing.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_RULES_INTERNAL_H
#define FC_RULES_INTERNAL_H

#include "port/atomics.h"
#include "rules/rules.h"
#include "storage/lwlock.h"

typedef struct FcRulesShared
{
	LWLock		lock;			/* protects what follows but these versions */
	pg_atomic_uint32 version;	/* of the list; changed under the lock */
	pg_atomic_uint32 heeded;	/* of the writer's copy */
	pg_atomic_uint32 changes;	/* of the list, and of what is unknown;
								 * changed under the lock, too */
	uint32		max_files;
	uint32		nfiles;
	uint32		nunknown;		/* new files, behind the list */
	uint32		looks;			/* begun since the start */
	bool		list_wanted;
	bool		all_seen;		/* each database had a place since the start */
	Oid			rotated_to;		/* the last one that was given a place in turn */
	uint32		databases_without_place;
	FcRulesDatabase database[FC_RULES_DATABASES];	/* db 0: a free place */
	FcRuleFile	file[FLEXIBLE_ARRAY_MEMBER];
} FcRulesShared;

/* No look takes longer. */
#define FC_LONGEST_LOOK_MS 60000

/* ---- rules_state.c ---- */

/* NULL where there is no cache, or max_policy_files is 0. */
extern FcRulesShared *fc_rules;

extern int	fc_rules_compare_rel(const FcRel *a, const FcRel *b);
extern int	fc_rules_compare_oids(const void *a, const void *b);

/* NULL if it has no place; InvalidOid: a free one. */
extern FcRulesDatabase *fc_rules_find(Oid db);

/* ---- rules.c ---- */

extern int	fc_rules_compare(const void *a, const void *b);

/* The first file of the list that is not before rel. */
extern uint32 fc_rules_lower_bound(const FcRuleFile *list, uint32 n, FcRel rel);

/* Exchanges what a database has published. */
extern uint32 fc_rules_replace(Oid db, const FcRuleFile *files, uint32 n);

/* ---- rules_unknown.c ---- */

/* New files of which nobody knows the policy, fc_rules->nunknown of them, sorted. */
extern FcRel *fc_rules_unknown_list(void);

/* Is it one of n? */
extern bool fc_rules_is_unknown(const FcRel *list, uint32 n, FcRel rel);

extern uint32 fc_rules_count_unknown(Oid db);

/* Those of other databases than these; those that a look has found.  What is given is sorted. */
extern void fc_rules_forget_others(const Oid *dbs, uint32 ndbs);
extern void fc_rules_seen(const FcRel *seen, uint32 nseen);

/* ---- rules_places.c ---- */

/* The same, unless another look has begun since. */
extern FcRulesDatabase *fc_rules_find_look(Oid db, uint32 look);

/* The same, made if it is not there; NULL if there is no place. */
extern FcRulesDatabase *fc_rules_need(Oid db);

/* A look has found no rules, and nothing has changed since: none is under way, or still to come, that may find some. */
extern bool fc_rules_has_none(const FcRulesDatabase *d);

#endif							/* FC_RULES_INTERNAL_H */
