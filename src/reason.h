/*-------------------------------------------------------------------------
 *
 * reason.h
 *	  Why something is as it is, and what to do about it: for people.
 *
 * Plain memory without pointers, so that it can lie in shared memory and be
 * copied.  Nothing here raises or allocates.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_REASON_H
#define FC_REASON_H

#include "postgres.h"

/* Room for a sentence, and for the longest name of a file within it. */
#define FC_REASON_LEN (MAXPGPATH + 256)
#define FC_HINT_LEN 256

typedef struct FcReason
{
	char		message[FC_REASON_LEN]; /* "" if there is none */
	char		hint[FC_HINT_LEN];	/* likewise */
	bool		restart;		/* the remedy is, or may be, a restart: the
								 * hint is complete */
} FcReason;

/*
 * Fills in why something has failed, with errno for %m, and what to do;
 * returns false.  The second: a setting that takes a restart is among what may
 * be done.
 */
extern bool fc_fail(FcReason *why, const char *hint, const char *fmt,...) pg_attribute_printf(3, 4);
extern bool fc_fail_restart(FcReason *why, const char *hint, const char *fmt,...) pg_attribute_printf(3, 4);

#endif							/* FC_REASON_H */
