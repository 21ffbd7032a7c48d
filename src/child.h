/*-------------------------------------------------------------------------
 *
 * child.h
 *	  A process that a process of the server makes by fork() alone, and that is
 *	  none of the server's: whatever becomes of it, the server does not care.
 *
 * To be called in the child.  What can't be done is told; the child must then
 * end, by _exit(0).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CHILD_H
#define FC_CHILD_H

#include "types.h"

/*
 * First of all.  It is in a session of its own, so that signals to the parent's
 * process group (SIGQUIT, at an immediate stop) don't end it with a core; those
 * that the server uses among its processes, or that whoever ends it sends to
 * all of them, are none of its business.  Beyond a limit of file sizes it gets
 * an error.  It has no callbacks at its exit, no latch and no PGPROC: whoever
 * looks at these by mistake does nothing, or crashes here.
 */
extern void fc_child_begin(void);

/* Keeps nothing open but `keep`: not the log's pipe, no socket of a client, no data file. */
extern bool fc_child_descriptors(int keep);

/*
 * Unmaps all that is shared and can be written to, but what begins at `keep`.
 * (What can only be read is of libraries, which may look there.)
 * dsm_detach_all() would give back what belongs to the parent, whose segments
 * these are; and what is mapped with the server's shared memory, statistics
 * and rings, all goes at once.
 */
extern bool fc_child_memory(const void *keep);

/*
 * Has it gone, which has ended or was told to?  It is waited for, for 0.1 s;
 * *process is 0 when it has been collected.
 */
extern bool fc_child_collected(pid_t *process);

#endif							/* FC_CHILD_H */
