/*-------------------------------------------------------------------------
 *
 * pg_flashcache.h
 *	  What start-up tells the SQL functions.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef PG_FLASHCACHE_H
#define PG_FLASHCACHE_H

#include "types.h"

/* State and reason of a server that has no shared memory of ours. */
extern FcState fc_startup_state;
extern char fc_startup_reason[FC_REASON_LEN];

#endif							/* PG_FLASHCACHE_H */
