/*-------------------------------------------------------------------------
 *
 * stats_statement.h
 *	  Counters of statements, by query identifier.
 *
 * When all places are taken, little used ones are given up
 * (fc_places_make_room): used is a place by its calls and by the pages that its
 * statement reads.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATS_STATEMENT_H
#define FC_STATS_STATEMENT_H

#include "types.h"

#include "stats/stats.h"

typedef enum FcStatementCounter
{
	FC_STATEMENT_CALLS,
	FC_STATEMENT_HITS,
	FC_STATEMENT_READ_NS,
	FC_STATEMENT_DISK_READS,
	FC_STATEMENT_DISK_READ_NS,
	FC_STATEMENT_OS_CACHE_HITS,
	FC_STATEMENT_MISSES,
	FC_STATEMENT_COUNTERS
} FcStatementCounter;

typedef struct FcStatement
{
	Oid			user;
	Oid			db;
	uint64		query;			/* identifier */
	bool		toplevel;
} FcStatement;

/* AUTO counts what has an identifier anyway; ON, at the start of the server, asks for identifiers as well. */
typedef enum FcTrackStatements
{
	FC_TRACK_STATEMENTS_OFF,
	FC_TRACK_STATEMENTS_AUTO,
	FC_TRACK_STATEMENTS_ON
} FcTrackStatements;

/* pg_flashcache.track_statements, pg_flashcache.max_tracked_statements */
extern int	fc_setting_track_statements;
extern int	fc_setting_max_tracked_statements;

extern FcPart fc_stats_statement_part(void);
extern void fc_stats_statement_shmem_init(void);

/* Is there shared memory to count in? */
extern bool fc_stats_statements_counted(void);

/* One more call of it has read so much.  Raises nothing. */
extern void fc_count_statement(const FcStatement *statement, const FcReads *reads);

extern void fc_stats_statement_reset(void);

/* For views: place by place. */
extern uint32 fc_stats_statement_places(void);
extern bool fc_stats_statement_read(uint32 place, FcStatement *statement, uint64 *counter);

/* Statements that have a place, and how many lost theirs to others since the last reset. */
extern uint32 fc_stats_statements_tracked(uint64 *given_up);

#endif							/* FC_STATS_STATEMENT_H */
