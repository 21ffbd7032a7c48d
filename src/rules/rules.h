/*-------------------------------------------------------------------------
 *
 * rules/rules.h
 *	  Which files have a policy of their own: keep or none.
 *
 * Rules name relations, partition trees, schemas, tablespaces and databases,
 * and stand in a table of each database.  The storage manager knows file
 * numbers only.  So a background worker in each database (resolver.c) finds
 * out which files the rules mean, and publishes them here, in shared memory
 * of a fixed size.  The writer has a copy in its own memory, which it asks for
 * each page, without a lock; nobody else asks.
 *
 * Besides single files there may be a policy for all files of a database in
 * one tablespace, and for all files of a database.  The most particular one
 * counts.  Of a file that is new nobody knows which rule it has; where that may
 * be `none`, it is treated so (rules_unknown.c).
 *
 * Locking.  One LWLock protects all that is shared; a leaf, held for some passes
 * of the list at most.  The version is read without it.  Nothing here raises.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_RULES_H
#define FC_RULES_H

#include "types.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"

typedef enum FcRule
{
	FC_RULE_NORMAL,
	FC_RULE_KEEP,
	FC_RULE_NONE,
} FcRule;

/*
 * A file, or, with rel.rel 0, all of a database in that tablespace, or, with
 * rel.spc 0 as well, all of the database.
 */
typedef struct FcRuleFile
{
	FcRel		rel;
	uint32		rule;			/* FcRule */
} FcRuleFile;

/*
 * Databases that are looked at, at most.  Where there are more, those that have
 * no rules give up their places, and are looked at again in turn.
 */
#define FC_RULES_DATABASES 256

#define FC_RULES_REASON_LEN 72

/* The rules of a database are in it; in the schema of the extension. */
#define FC_RULES_TABLE "pg_flashcache_policy_rules"

typedef enum FcRulesState
{
	FC_RULES_WAITING,			/* to be looked at for the first time */
	FC_RULES_KNOWN,
	FC_RULES_LOCKED,			/* somebody has locked what had to be read */
	FC_RULES_FAILED,
} FcRulesState;

typedef struct FcRulesDatabase
{
	Oid			db;
	FcRulesState state;			/* of the last look */
	TimestampTz looked_at;		/* when the rules were read that are in force;
								 * 0 = never */
	TimestampTz tried_at;		/* when a look was begun; 0 = never */
	uint32		look;			/* number of the last one; 0 = there was none */
	uint32		took_ms;		/* the last one that succeeded */
	XLogRecPtr	replayed;		/* on a standby: until where, at that time */
	uint32		rules;
	bool		hides;			/* one says `none`, and not of a tablespace or
								 * the database */
	uint32		files;			/* published */
	uint32		without_place;	/* for which there was no place */
	uint32		wanted;			/* is raised by who wants a look */
	uint32		done;			/* as it was when the last look began */
	uint32		heard;			/* and the last one that has answered */
	uint32		rule_wanted;	/* as it was raised last for a rule */
	uint32		version;		/* of the list, as was published last */
	uint32		prepared;		/* changes when a transaction is prepared that
								 * has changed something; 0 = there is none */
	uint32		failures;		/* looks in a row that did not succeed, before
								 * the last one */
	bool		urgent;			/* a rule has changed */
	bool		answered;		/* the last look has said what came of it;
								 * false: it is under way, or ended without a
								 * word, or there was none */
	char		reason[FC_RULES_REASON_LEN];	/* of that state, or empty */
} FcRulesDatabase;

extern FcPart fc_rules_part(int max_files);

/* `tranche`: of its lock. */
extern void fc_rules_shmem_init(int max_files, int tranche);

/* Are there policies in this server? */
extern bool fc_rules_there(void);

/* ---- writer only: what a page's policy is ---- */

/* Takes what was published since the last call; true if that was anything. */
extern bool fc_rules_refresh(void);

/* Of the file of a page, as of what was taken last. */
extern FcRule fc_rule_of(FcRel rel);

/*
 * The same, as of now, new files included: for whoever decides about a page
 * that is not on flash.  Acquires the lock if anything has changed.
 */
extern FcRule fc_rule_now(FcRel rel);

/* ---- whoever makes and removes files; these do not raise ---- */

/* The file is about to be made; true: it is unknown from now on, so if it can't be made, it is gone. */
extern bool fc_rules_new_file(FcRel rel);
extern void fc_rules_file_gone(FcRel rel);

/* ---- publishing ---- */

/* What else a look has found. */
typedef struct FcRulesFound
{
	uint32		rules;			/* how many there are */
	bool		hides;			/* one says `none` of what has to be looked up */
	const FcRel *seen;			/* of the new files, those that the look knows */
	uint32		nseen;
} FcRulesFound;

/* New files of a database, whose policy a look is to find out; n of them, palloc'd. */
extern FcRel *fc_rules_unknown(Oid db, uint32 *n);

/*
 * The files of a database from now on, n of them; they are sorted.  `look`, here and below: the number of the look that has
 * found that; one that is not the last any more, since the writer that had
 * begun it died, changes nothing.  What does not fit is left out, `keep` before `none`.
 * Of all places each database that has rules may have an equal share; what it
 * has beyond that gives way to others.
 */
extern void fc_rules_publish(Oid db, uint32 look, FcRuleFile *files, uint32 n, const FcRulesFound *found);

/* The look did not succeed: what was published stays. */
extern void fc_rules_failed(Oid db, uint32 look, FcRulesState state, const char *reason);

/* These are all databases there are, which are sorted; what others have published is dropped. */
extern void fc_rules_databases_are(Oid *dbs, int n);

/* Has it a place? */
extern bool fc_rules_knows(Oid db);

/* ---- who is to be looked at ---- */

/* A look at the database is wanted; `urgent`: without delay, since a rule has changed. */
extern void fc_rules_want(Oid db, bool urgent);

/*
 * May the database have rules, or new files that wait for a look?  No, if a look
 * has found no rules, and nothing has changed since.
 */
extern bool fc_rules_has(Oid db);

/*
 * Has a rule of the database changed, in a transaction that has ended, or is
 * that file new (NULL: none), and no look has found that, or the writer does
 * not know yet?  *change says until when
 * fc_rules_heeded() is false.  A look that did not succeed counts as one; looks
 * for other reasons than a rule matter only if none was made before.
 */
extern bool fc_rules_changed(Oid db, const FcRel *file, uint32 *change);
extern bool fc_rules_heeded(Oid db, uint32 change);

/*
 * A transaction was prepared that changes something in the database; may there
 * be one?  0 if not.  When a look has found none prepared, there is none, if
 * that number is still the same.
 */
extern void fc_rules_set_prepared(Oid db);
extern uint32 fc_rules_prepared(Oid db);
extern void fc_rules_none_prepared(Oid db, uint32 prepared);

/* A new list of databases is wanted; is one? */
extern void fc_rules_want_list(void);
extern bool fc_rules_list_wanted(void);
extern void fc_rules_list_begins(void);

/* Did the last look succeed? */
static inline bool
fc_rules_succeeded(const FcRulesDatabase *d)
{
	return d->answered && d->state == FC_RULES_KNOWN;
}

/* How long a look at the database may take, which its database can't be dropped for so long. */
extern int	fc_rules_patience_ms(Oid db);

/*
 * A look begins, when that had been replayed (InvalidXLogRecPtr on a primary);
 * returns its number.  *before: what was known until then, for the case that
 * it can't begin, since no worker was free.  Its worker has ended.
 */
extern uint32 fc_rules_begin(Oid db, XLogRecPtr replayed, FcRulesDatabase *before);
extern void fc_rules_refused(const FcRulesDatabase *before);
extern void fc_rules_ended(Oid db, uint32 look);

/* ---- what this process has changed, for the end of its transaction ---- */

typedef enum FcRulesNote
{
	FC_NOTE_FILES = 1,			/* files, names or parents of relations */
	FC_NOTE_RULES = 2,
	FC_NOTE_DATABASES = 4,
	FC_NOTE_LOOK = 8,			/* something that matters also where there are
								 * no rules yet */
} FcRulesNote;

extern uint32 fc_rules_notes;	/* of FcRulesNote */

static inline void
fc_rules_note(FcRulesNote note)
{
	fc_rules_notes |= note;
}

/* ---- inspection ---- */

/* All FC_RULES_DATABASES of them; db is InvalidOid where there is none. */
extern void fc_rules_databases(FcRulesDatabase *databases);

typedef struct FcRulesInfo
{
	uint32		max_files;
	uint32		files;
	uint32		without_place;
	uint32		databases_without_place;
	TimestampTz looked_at;		/* the last look of all */
} FcRulesInfo;

extern void fc_rules_info(FcRulesInfo *info);

/* What is published for a file; takes the lock. */
extern FcRule fc_rules_published(FcRel rel);

#endif							/* FC_RULES_H */
