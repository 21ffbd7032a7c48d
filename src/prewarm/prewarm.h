/*-------------------------------------------------------------------------
 *
 * prewarm/prewarm.h
 *	  Loads pages from data files to flash: those of relations,
 *	  pg_flashcache_prewarm(), or those that a map names,
 *	  pg_flashcache_import_map().
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_PREWARM_H
#define FC_PREWARM_H

#include "cache/cache.h"
#include "map/map.h"

typedef struct FcPrewarm
{
	Oid			relation;
	bool		indexes;		/* and its indexes */
	bool		toast;			/* and its TOAST table, with the index of that */
	bool		replace;		/* may take slots of pages that were not hit
								 * lately */
	const int64 *first;			/* blocks of the relation, NULL: from its
								 * first one, to its last one */
	const int64 *last;
} FcPrewarm;

typedef struct FcPrewarmed
{
	int			relations;
	uint64		blocks;
	FcLoadCounts pages;
} FcPrewarmed;

/*
 * Who calls it must be allowed to read the table.  Raises when something is
 * wrong with what is asked for, before anything is done; when the cache does
 * not stay active; when a data file can't be read; when cancelled.  Pages that
 * have been loaded by then stay.
 */
extern void fc_prewarm(const FcPrewarm *what, FcPrewarmed *done);

typedef struct FcImported
{
	uint64		rows;			/* of the map */
	uint64		rows_skipped;	/* that name nothing of this database */
	uint64		named;			/* pages that the others name; what follows
								 * adds up to that */
	uint64		locked;			/* of relations that somebody has locked */
	uint64		gone;			/* for fc_prewarm_rows(): not in a file here */
	uint64		unreadable;		/* for fc_prewarm_rows(): the server has
								 * raised an error */
	FcLoadCounts pages;
} FcImported;

/*
 * Loads what the rows name that a query returns; its columns are those of
 * pg_flashcache_export_map().  `replace`: as above.  Raises as fc_prewarm(),
 * when the query does, and at a row that cannot be of a map.
 */
extern void fc_prewarm_import(const char *query, bool replace, FcImported *done);

/*
 * The same for a background worker, outside a transaction, with rows that
 * `next` gives: a transaction for each run of blocks.  Pages that are here
 * already, on flash or in shared buffers, are not looked at.  Errors go to the
 * log.  False: it has ended early, since `goes_on` has said so, or the cache is
 * not in use, or others load, as many as there may be.
 */
extern bool fc_prewarm_rows(bool (*next) (void *arg, FcMapRow *row), void *arg, bool (*goes_on) (void),
							bool replace, FcImported *done);

#endif							/* FC_PREWARM_H */
