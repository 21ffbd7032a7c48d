/*-------------------------------------------------------------------------
 *
 * handoff.h
 *	  What other processes give to the writer: dirty pages being evicted, and
 *	  the news that it should look.
 *
 * The pages go through a bounded queue in shared memory, many producers and
 * one consumer, without locks (Vyukov's bounded queue: each cell carries a
 * sequence number that says whose turn it is).  A full queue refuses; nobody
 * ever waits.  Positions have 64 bits: with 32, a process that is stopped
 * between its look at a cell and its claim of it, for exactly 2^32 pages,
 * would write into a cell that is not its own.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_HANDOFF_H
#define FC_HANDOFF_H

#include "types.h"

#include "storage/latch.h"

extern FcPart fc_handoff_part(uint32 slots);
extern void fc_handoff_shmem_init(uint32 slots);

/* Gives a page away, which was in that frame; false if the queue is full. */
extern bool fc_handoff_push(const FcTag *tag, int frame, const FcGuard *guard, const char *page);

/* Tells that a buffer was allocated; wakes the writer if it should look. */
extern void fc_handoff_note_allocations(uint32 n);
extern void fc_handoff_wake(void);

/*
 * There may be trouble with a device, which the writer is to look at: wakes it,
 * unless somebody has done so since it began to look.
 */
extern void fc_handoff_tell_trouble(void);

/* ---- writer process only ---- */

extern void fc_handoff_set_writer(Latch *latch);
extern bool fc_handoff_has_writer(void);
extern bool fc_handoff_pop(FcTag *tag, int *frame, FcGuard *guard, char *page);

/* Throws away what is there now. */
extern void fc_handoff_clear(void);

/* It begins to look for trouble. */
extern void fc_handoff_take_trouble(void);

/* Allocations since the last call. */
extern uint32 fc_handoff_take_allocations(void);

/* Wake the writer after so many allocations. */
extern void fc_handoff_set_threshold(uint32 allocations);

#endif							/* FC_HANDOFF_H */
