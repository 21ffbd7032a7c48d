/*-------------------------------------------------------------------------
 *
 * memory.h
 *	  The cache's shared memory: whether there is room for it, and how the
 *	  server is asked for it.
 *
 * A server that asks for more memory than there is does not start, or is
 * killed once the memory is used.  So it is decided before anything is asked
 * for, and once in the life of the postmaster: whoever takes part then takes
 * part again after a crash.
 *
 * Everything here runs in the postmaster, but for fc_memory_left().
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_MEMORY_H
#define FC_MEMORY_H

#include "reason.h"
#include "types.h"

#define FC_MAX_PARTS 24

typedef struct FcMemoryUser
{
	/* The parts, put into an array of FC_MAX_PARTS; how many they are. */
	int			(*parts) (FcPart *parts);

	/*
	 * Is this server to have a cache?  Asked once; it may say false and the
	 * server goes on without.
	 */
	bool		(*takes_part) (Size bytes);

	/* The parts are there, all zero: at start and after each crash. */
	void		(*init) (Size bytes);
} FcMemoryUser;

/*
 * While libraries are loaded: the server will have these parts.  What was
 * loaded earlier has then said what it needs; what is loaded later has not.
 */
extern void fc_memory_register(const FcMemoryUser *user);

/*
 * For takes_part(): is there room for so many bytes, beside what the server
 * needs for everything else?  `flash` is what the cache may hold, by
 * that setting, for the text.
 */
extern bool fc_memory_fits(Size bytes, uint64 flash, const char *setting, FcReason *why);

/*
 * What a file in memory may take at most: the memory of the machine or its
 * control group, less all shared memory and an eighth.  PG_UINT64_MAX if the
 * machine does not say what it has.
 */
extern uint64 fc_memory_left(void);

#endif							/* FC_MEMORY_H */
