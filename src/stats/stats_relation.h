/*-------------------------------------------------------------------------
 *
 * stats_relation.h
 *	  Counters of relations.
 *
 * A relation is known here by its file, as to the storage manager: a rewrite
 * gives it another, and its counters begin anew.  What it had read goes to the
 * rest of its database when the old file is removed; there are also the reads
 * of temporary relations, and of relations that found no place.
 *
 * A process remembers the places of a few relations, so that a page costs a
 * look at one of them and an addition for each counter.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STATS_RELATION_H
#define FC_STATS_RELATION_H

#include "types.h"

#include "datatype/timestamp.h"
#include "stats/stats_places.h"

typedef enum FcRelCounter
{
	FC_REL_HITS,
	FC_REL_READ_NS,
	FC_REL_DISK_READS,
	FC_REL_DISK_READ_NS,
	FC_REL_OS_CACHE_HITS,
	FC_REL_INSERTS,
	FC_REL_INVALIDATIONS,
	FC_REL_USELESS,				/* evicted without a hit */
	FC_REL_DISK_WRITES,			/* of blocks that were there */
	FC_REL_DISK_EXTENDS,
	FC_REL_COUNTERS
} FcRelCounter;

StaticAssertDecl(FC_REL_COUNTERS <= FC_PLACE_COUNTERS, "too many counters of a relation");

/* Databases that have a rest of their own, and one more. */
#define FC_REST_PLACES 64

/* pg_flashcache.track_relations, pg_flashcache.max_tracked_relations */
extern bool fc_setting_track_relations;
extern int	fc_setting_max_tracked_relations;

extern FcPart fc_stats_relation_part(void);
extern void fc_stats_relation_shmem_init(void);

/* The rest of a database, as a relation: for what belongs to none that is counted. */
static inline FcRel
fc_rest_of(Oid db)
{
	FcRel		rel = {0, db, 0};

	return rel;
}

/* Adds to a counter of a relation; `and` is added to the next one.  It gets a place if it has none. */
extern void fc_count_relation(FcRel rel, FcRelCounter counter, uint64 n, uint64 and);

/* The same for one that may be gone by now: it gets no place. */
extern void fc_count_old_relation(FcRel rel, FcRelCounter counter, uint64 n);

/* The same for one that is written, to disk or to flash: it gets a place only while these are not scarce. */
extern void fc_count_written_relation(FcRel rel, FcRelCounter counter, uint64 n);

/* Its file is gone, or all files of a database. */
extern void fc_stats_forget_relation(FcRel rel);
extern void fc_stats_forget_database(Oid db);

extern void fc_stats_relation_reset(void);

/* For views: place by place.  `rel.rel` is 0 in the rest of a database, and so is `rel.db` in that of those that have none. */
extern uint32 fc_stats_relation_places(void);
extern bool fc_stats_relation_read(uint32 place, FcRel *rel, uint64 *counter);

/* Relations that have a place. */
extern uint32 fc_stats_relations_tracked(void);

#endif							/* FC_STATS_RELATION_H */
