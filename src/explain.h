/*-------------------------------------------------------------------------
 *
 * explain.h
 *	  EXPLAIN (ANALYZE, FLASHCACHE), from PostgreSQL 18 on.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_EXPLAIN_H
#define FC_EXPLAIN_H

/* Adds the option to the server, if it can have such; raises nothing. */
extern void fc_explain_init(void);

#endif							/* FC_EXPLAIN_H */
