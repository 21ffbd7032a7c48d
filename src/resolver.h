/*-------------------------------------------------------------------------
 *
 * resolver.h
 *	  Has the files that the policies of a database mean published: a background
 *	  worker for each look, and what each transaction says at its end.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_RESOLVER_H
#define FC_RESOLVER_H

#include "types.h"

/* In the postmaster: each transaction that changes something will say so. */
extern void fc_resolver_init(void);

/* Body of the background worker: looks at that database, by that number, or, InvalidOid, at which there are. */
extern void fc_resolver_run(Oid db, uint32 look);

#endif							/* FC_RESOLVER_H */
