/*-------------------------------------------------------------------------
 *
 * attach/attach.h
 *	  The way into the server.
 *
 * Interception of the storage-manager table, once, in the postmaster before
 * it forks: if the server's version is known, it has no other interface for
 * storage managers, and the exact table is found exactly once.  Otherwise
 * nothing is changed, and the server runs without the cache.
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

#include "reason.h"
#include "types.h"

/* Takes the way in, or says why not. */
extern bool fc_attach(FcReason *why);

/* The same for a server without a cache: reads and writes are noted for advice, and nothing else (listen.c). */
extern bool fc_attach_listener(FcReason *why);

/* How this server was attached to: "interception" or NULL. */
extern const char *fc_attach_way_name(void);

/*
 * Does every wrapper get called?  Works on a temporary relation of its own,
 * in a process that may do file I/O, and may be asked again after a failure.
 */
extern FcTested fc_attach_self_test(char *reason, size_t len);

/* Hooks for what changes files behind the storage manager. */
extern void fc_attach_events(void);

#endif							/* FC_ATTACH_ATTACH_H */
