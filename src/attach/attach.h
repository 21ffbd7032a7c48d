/*-------------------------------------------------------------------------
 *
 * attach/attach.h
 *	  The way into the server.
 *
 * Ways, tried in this order, once, in the postmaster before it forks:
 *	1. a registration API, if the running server exports one that is known;
 *	2. interception of the storage-manager table, if the server's version is
 *	   known and the exact table is found exactly once;
 *	3. none: the server runs without the cache.
 * Nothing is changed unless everything has been checked.
 *
 * Wrapped calls behave exactly as md's own but for pages answered from
 * flash.  Rules for code in them: no ereport(ERROR), no palloc, leaf locks
 * only, nothing held across I/O, and on to md on any doubt.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_ATTACH_H
#define FC_ATTACH_ATTACH_H

#include "../types.h"

typedef enum FcAttachWay
{
	FC_ATTACHED_NOT,
	FC_ATTACHED_BY_REGISTRATION,
	FC_ATTACHED_BY_INTERCEPTION,
} FcAttachWay;

/* Tries the ways; on failure `reason` and `hint` say why. */
extern FcAttachWay fc_attach(char *reason, size_t reason_len, char *hint, size_t hint_len);

/* How this server was attached to: "registration", "interception" or NULL. */
extern const char *fc_attach_way_name(void);

/*
 * Does every wrapper get called?  Works on a temporary relation of its own,
 * in a process that may do file I/O.
 */
extern bool fc_attach_self_test(char *reason, size_t len);

/* Hooks for what changes files behind the storage manager. */
extern void fc_attach_events(void);

#endif							/* FC_ATTACH_ATTACH_H */
