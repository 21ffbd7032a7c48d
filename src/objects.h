/*-------------------------------------------------------------------------
 *
 * objects.h
 *	  How much of each relation is on flash and in shared buffers: a count of
 *	  all slots, or of a sample, and of all buffers.
 *
 * Neither the directory nor the buffer pool is locked: pages that come and go
 * meanwhile may be counted or not.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_OBJECTS_H
#define FC_OBJECTS_H

#include "types.h"

typedef struct FcObjects FcObjects;

typedef struct FcObject
{
	FcRel		rel;
	uint64		flash;			/* pages; of a sample, scaled up */
	uint64		buffers;
} FcObject;

/*
 * Counts the relations of a database, and shared ones.  Where the cache has
 * more slots than max_slots, one slot of `*every` is looked at.
 */
extern FcObjects *fc_objects_count(Oid db, uint64 max_slots, uint32 *every);

/* One by one; false after the last. */
extern bool fc_objects_next(FcObjects *objects, FcObject *object);

#endif							/* FC_OBJECTS_H */
