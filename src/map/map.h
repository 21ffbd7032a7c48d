/*-------------------------------------------------------------------------
 *
 * map/map.h
 *	  A map of what is on flash, in rows that can be taken to another server.
 *
 * A row is about one file, at most FC_MAP_BLOCKS neighbouring blocks of it, and
 * pages of one heat: a bit for each of the blocks.  So a map of a TB of pages
 * that lie together has 16,384 ranges, each with a row of 1 kB for each heat.
 *
 * Whoever reads a map must take it for hints: it may be old, damaged, or of
 * another server.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_MAP_H
#define FC_MAP_H

#include "types.h"

/* Blocks of one row: 64 MB; a range begins at a multiple of that. */
#define FC_MAP_BLOCKS 8192
#define FC_MAP_BYTES (FC_MAP_BLOCKS / 8)

/*
 * How often a page was wanted lately, as the directory counts: 0, if it was not
 * hit on flash, to 3 and more; in shared_buffers after it was read.
 */
#define FC_MAP_HEATS 4

typedef struct FcMapRow
{
	FcRel		rel;
	int			heat;
	int64		first;			/* block of the first bit; a multiple of 8 as
								 * we make them */
	int			pages;			/* bits that are set */
	int			nbytes;
	uint8		bits[FC_MAP_BYTES]; /* the lowest bit of a byte comes first,
									 * as for get_bit() */
} FcMapRow;

static inline bool
fc_map_has(const FcMapRow *row, int bit)
{
	return (row->bits[bit / 8] & (1 << bit % 8)) != 0;
}

/*
 * The map of this server: all of it, or what belongs to one database (0: what
 * is shared); with what is in shared_buffers, or without.  Rows come in the order of database, tablespace, file, block, the
 * hottest pages of a range first.
 *
 * Pages are sorted on the way, in work_mem and then in temporary files.  Slots
 * are looked at without locks: what changes meanwhile may be missing.  Raises as sorting does, and when cancelled.
 */
typedef struct FcMapExport FcMapExport;

extern FcMapExport *fc_map_export_begin(bool all, Oid db, bool buffers);
extern bool fc_map_export_next(FcMapExport *map, FcMapRow *row);
extern void fc_map_export_end(FcMapExport *map);

/*
 * A map that a query returns; its columns are those of
 * pg_flashcache_export_map().  Its rows are kept in work_mem and then in a
 * temporary file, so that its size does not matter.  Opening runs the query to
 * its end, and raises when that does, or when it returns anything else; a row
 * that cannot be of a map raises when it is read.
 *
 * The caller is in a memory context of SPI's from open to close.
 */
typedef struct FcMapQuery FcMapQuery;

extern FcMapQuery *fc_map_query_open(const char *query);
extern bool fc_map_query_next(FcMapQuery *map, FcMapRow *row);
extern void fc_map_query_close(FcMapQuery *map);

/* Of a map: pages that it names, and how many of these are on flash here, by heat. */
typedef struct FcMapCompared
{
	uint64		named[FC_MAP_HEATS];
	uint64		here[FC_MAP_HEATS];
} FcMapCompared;

/* Of whatever database they are.  None is here while the cache is not in use. */
extern void fc_map_compare(const char *query, FcMapCompared *result);

#endif							/* FC_MAP_H */
