/*-------------------------------------------------------------------------
 *
 * rulebook.h
 *	  The rules of a database: their table, and which files they mean.
 *
 * For the background worker that publishes these (resolver.c), and for
 * sessions that set rules or ask for them (sql_policy.c).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_RULEBOOK_H
#define FC_RULEBOOK_H

#include "rules/rules.h"
#include "utils/relcache.h"

#define FC_RULE_COLUMNS 4		/* kind, schemaname, objname, policy */

/* The rules of a database: an array of text for each column. */
typedef struct FcRules
{
	uint32		n;
	bool		hides;			/* one says `none`, and not of a tablespace or
								 * the database */
	Datum		column[FC_RULE_COLUMNS];
} FcRules;

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
 * rules about tablespaces and the database, one by one.  Raises.
 */
extern FcResolved *fc_rulebook_resolve(const FcRules *rules, bool wide, uint32 *n);

/* The extension's table of rules in that schema; InvalidOid if there is none. */
extern Oid	fc_rulebook_table(Oid schema);

/* A table that a superuser owns: nothing of anybody else's is run when it is read or changed. */
extern bool fc_rulebook_trusts(Relation rel);

/* The numbers of its columns; false if they are not those of the table of rules. */
extern bool fc_rulebook_columns(Relation rel, AttrNumber *attnum);

/* What is in it, by the active snapshot; nothing if it is no longer a superuser's table.  Raises. */
extern FcRules fc_rulebook_read(Oid table);

/*
 * Which of these files, n of them, some relation of the current database has,
 * as the active snapshot sees it; *nseen of them, sorted, in the caller's
 * memory.  Raises.
 */
extern FcRel *fc_rulebook_seen(const FcRel *files, uint32 n, uint32 *nseen);

/* The rules about all files of a tablespace (rel.rel 0), and about all of the database (rel.spc 0 as well).  Raises. */
extern FcRuleFile *fc_rulebook_wide(const FcRules *rules, uint32 *n);

#endif							/* FC_RULEBOOK_H */
