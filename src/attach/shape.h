/*-------------------------------------------------------------------------
 *
 * attach/shape.h
 *	  The storage-manager table of this major version, and our entries.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_SHAPE_H
#define FC_ATTACH_SHAPE_H

#include "types.h"

#define FC_SHAPE_MAX_ENTRIES 20

typedef struct FcShape
{
	int			min_version;	/* server_version_num, inclusive */
	int			max_version;	/* exclusive */
	int			entries;
	void	   *md[FC_SHAPE_MAX_ENTRIES];	/* the table as the server has it */
	void	   *ours[FC_SHAPE_MAX_ENTRIES]; /* NULL: left alone */
	void	   *listening[FC_SHAPE_MAX_ENTRIES];	/* the same, to listen */
} FcShape;

extern const FcShape *fc_shape(void);

/*
 * Makes a temporary relation and calls each wrapped function on it through
 * the storage manager.  May raise; false if a page comes back different.
 */
extern bool fc_shape_exercise(void);

/* After an exercise that raised: leaves nothing behind that would spoil the next. */
extern void fc_shape_clean_up(void);

/* Name of a wrapped call that the last exercise did not reach, or NULL. */
extern const char *fc_shape_not_called(void);

#endif							/* FC_ATTACH_SHAPE_H */
