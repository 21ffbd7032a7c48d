/*-------------------------------------------------------------------------
 *
 * prewarm.h
 *	  Loads relations from their data files to flash: pg_flashcache_prewarm().
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_PREWARM_H
#define FC_PREWARM_H

#include "cache/cache.h"

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

#endif							/* FC_PREWARM_H */
