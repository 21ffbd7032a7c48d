/*-------------------------------------------------------------------------
 *
 * attach/shape.h
 *	  The storage-manager table of this major version, and our entries.
 *
 * One file smgr_*.c for each shape of the calls defines these; it is the
 * only kind of file that knows a call's arguments.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_SHAPE_H
#define FC_ATTACH_SHAPE_H

#include "../types.h"

#define FC_SHAPE_MAX_ENTRIES 20

typedef struct FcShape
{
	int			min_version;	/* server_version_num, inclusive */
	int			max_version;	/* exclusive */
	int			entries;
	void	   *md[FC_SHAPE_MAX_ENTRIES];	/* the table as the server has it */
	void	   *ours[FC_SHAPE_MAX_ENTRIES]; /* NULL: left alone */
	const char *name[FC_SHAPE_MAX_ENTRIES];
} FcShape;

extern const FcShape *fc_shape(void);

/* How often each of our entries was called in this process. */
extern uint64 fc_shape_calls[FC_SHAPE_MAX_ENTRIES];

/*
 * Makes a temporary relation and calls each wrapped function on it through
 * the storage manager.  May raise; false if a page comes back different.
 */
extern bool fc_shape_exercise(void);

#endif							/* FC_ATTACH_SHAPE_H */
