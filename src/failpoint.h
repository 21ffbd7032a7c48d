/*-------------------------------------------------------------------------
 *
 * failpoint.h
 *	  Places where a test may stop a process or make an operation fail.
 *
 * Each window of the protocol in src/README.md has a point.  With nothing
 * armed a point costs one load of a shared flag that nobody writes.  Points
 * are armed from SQL through fc_failpoint_set(), which the extension script
 * does not declare: only a superuser can, and only tests do.
 *
 * A pause is bounded (60 s), holds no lock of ours and raises nothing, so it
 * may stand inside storage-manager calls.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_FAILPOINT_H
#define FC_FAILPOINT_H

#include "types.h"

#include "port/atomics.h"

typedef enum FcFailpointId
{
	FC_FP_FILL_BEGIN,			/* fill: between steps 1 and 2 */
	FC_FP_FILL_COPIED,			/* fill: between steps 2 and 4 */
	FC_FP_FILL_RESERVED,		/* fill: between steps 4 and 5 */
	FC_FP_FILL_WRITTEN,			/* fill: between steps 5 and 6 */
	FC_FP_INVALIDATE_BUMPED,	/* invalidate: between steps 1 and 2 */
	FC_FP_READ_LOOKED_UP,		/* read: between steps 1 and 2 */
	FC_FP_READ_DONE,			/* read: between steps 2 and 3 */
	FC_FP_WRITE_BEFORE_MD,		/* between the first invalidation and md */
	FC_FP_WRITE_AFTER_MD,		/* between md and the second invalidation */
	FC_FP_STORE_READING,		/* within the wait for a read from the device */
	FC_FP_STORE_WRITING,		/* within the wait for a write to the device */
	FC_FP_STORE_OPEN,			/* error: opening the device fails */
	FC_FP_STORE_READ,			/* error: a read from the device fails */
	FC_FP_STORE_WRITE,			/* error: a write to the device fails */
	FC_FP_STORE_FLIP,			/* error: a read returns one flipped bit */
	FC_FP_COUNT
} FcFailpointId;

typedef enum FcFailpointAction
{
	FC_FP_OFF,
	FC_FP_PAUSE,
	FC_FP_ERROR,
} FcFailpointAction;

typedef struct FcFailpoints
{
	pg_atomic_uint32 armed;		/* how many points are not off */
	pg_atomic_uint32 action[FC_FP_COUNT];
	pg_atomic_uint32 paused[FC_FP_COUNT];	/* processes standing there */
} FcFailpoints;

extern FcFailpoints *fc_failpoints;

extern Size fc_failpoint_shmem_size(void);
extern void fc_failpoint_shmem_init(void);

/* Index of a point by name, or -1. */
extern int	fc_failpoint_by_name(const char *name);
extern void fc_failpoint_arm(FcFailpointId id, FcFailpointAction action);
extern uint32 fc_failpoint_paused(FcFailpointId id);

extern bool fc_failpoint_slow(FcFailpointId id);

/* Stops here if a test wants it to; true if the operation should fail. */
static inline bool
fc_failpoint(FcFailpointId id)
{
	if (likely(fc_failpoints == NULL || pg_atomic_read_u32(&fc_failpoints->armed) == 0))
		return false;
	return fc_failpoint_slow(id);
}

#endif							/* FC_FAILPOINT_H */
