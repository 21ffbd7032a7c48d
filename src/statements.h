/*-------------------------------------------------------------------------
 *
 * statements.h
 *	  What statements read: measured around the executor, and counted by query
 *	  identifier (stats/stats_statement.h).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATEMENTS_H
#define FC_STATEMENTS_H

/*
 * While libraries are loaded, on a server that is to have a cache: steps in, and
 * asks for query identifiers if track_statements is on.
 */
extern void fc_statements_init(void);

/* Why statements of a session with the settings of this one are not counted, and what to do; NULL: they are. */
extern const char *fc_statements_reason(const char **hint);

#endif							/* FC_STATEMENTS_H */
