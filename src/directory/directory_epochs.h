/*-------------------------------------------------------------------------
 *
 * directory_epochs.h
 *	  When relations and databases were invalidated.
 *
 * The epoch is a count: how often any relation or database was invalidated
 * (I1).  An entry keeps the epoch at which it was last known to be current;
 * it is dead once its relation or its database has been invalidated in a
 * later one.
 *
 * Exact, though memory is fixed: only what was invalidated lately is kept.  A
 * sweep frees the dead entries and gives the others the epoch in which it
 * began; no older invalidation can concern anybody after that, and its place
 * is free.  If the places of a set don't suffice until then, all relations and
 * databases that hash to the set are taken for invalidated: entries die
 * without need, never the other way round.
 *
 * Locking.  Invalidations exclude each other by a spinlock, a leaf; looking
 * takes no lock, so it may be done under a partition's.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_DIRECTORY_EPOCHS_H
#define FC_DIRECTORY_EPOCHS_H

#include "types.h"

/* A quarter of the range of an epoch. */
#ifndef FC_EPOCHS_UNSWEPT
#define FC_EPOCHS_UNSWEPT (UINT32_C(1) << 30)
#endif

/* A relation or, with rel 0, a database that was invalidated. */
typedef struct FcInvalidated
{
	Oid			db;
	Oid			rel;
} FcInvalidated;

/* So many there can be. */
#define FC_MOST_INVALIDATED 65536

extern Size fc_epochs_size(uint32 slots);

/* In memory that is zero. */
extern void fc_epochs_init(void *memory, uint32 slots);

/* The epoch; invalidations up to it are seen by whoever looks after a read barrier. */
extern uint32 fc_epoch_now(void);

/*
 * I1.  A full barrier.  Returns how many epochs there have been since the last
 * but one sweep began.
 */
extern uint32 fc_epoch_invalidate(FcRel rel);
extern uint32 fc_epoch_invalidate_database(Oid db);

/* Was the relation, or its database, invalidated after that epoch?  Not for one that is forgotten. */
extern bool fc_epoch_ended(FcRel rel, uint32 since);

/* Was something invalidated since the last sweep began?  So much that the next one should not wait? */
extern bool fc_epochs_sweep_wanted(void);
extern bool fc_epochs_sweep_urgent(void);

/* The epoch in which the last sweep began that has ended: no older invalidation concerns an entry. */
extern uint32 fc_epochs_last_swept(void);

/*
 * What was invalidated after that epoch, as long as none of it is forgotten:
 * how many; -1 if there was no place for all of it, or there are more than
 * `max`.
 */
extern int	fc_epochs_since(uint32 epoch, FcInvalidated *list, int max);

/* Is everything known that was invalidated since the start of the server? */
extern bool fc_epochs_whole(void);

/* ---- writer process only ---- */

/*
 * Is the epoch so old that invalidations after it may have been forgotten?  A
 * guard may be; an entry is given a new one in time.
 */
extern bool fc_epoch_forgotten(uint32 epoch);

/* A sweep has ended that began in that epoch: no entry has an older one. */
extern void fc_epochs_swept(uint32 begun);

/* There are no entries any more. */
extern void fc_epochs_forget(void);

#endif							/* FC_DIRECTORY_EPOCHS_H */
