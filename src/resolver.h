/*-------------------------------------------------------------------------
 *
 * resolver.h
 *	  Finds out which files the policies of a database mean.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_RESOLVER_H
#define FC_RESOLVER_H

#include "rules/rules.h"

/* In the postmaster: each transaction that changes something will say so. */
extern void fc_resolver_init(void);

/* Body of the background worker: looks at that database, or, InvalidOid, at which there are. */
extern void fc_resolver_run(Oid db);

/* A rule, and one of the relations that have their policy from it. */
typedef struct FcResolved
{
	Oid			relid;
	FcRuleFile	file;
	const char *kind;
	const char *schema;
	const char *name;
} FcResolved;

/*
 * What the rules of the current database mean, as the current transaction
 * sees them; n of them, in the caller's memory.  `wide`: also the files of
 * rules about tablespaces and the database, one by one.  `rules` is the name
 * of the table of rules, qualified and quoted.  Raises.
 */
extern FcResolved *fc_resolver_resolve(const char *rules, bool wide, uint32 *n);

/* The name of the table of rules in that schema, qualified and quoted. */
extern char *fc_resolver_table(Oid schema);

#endif							/* FC_RESOLVER_H */
