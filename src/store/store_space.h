/*-------------------------------------------------------------------------
 *
 * store_space.h
 *	  Space on a file system for the cache's file.
 *
 * Others live on that file system, the write-ahead log perhaps: they must not
 * find it full because of the cache, not even for a moment.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_SPACE_H
#define FC_STORE_SPACE_H

#include <sys/stat.h>

#include "store/store.h"

/*
 * Gives the file its length and real blocks for all of it, so that no write
 * runs out of space later.  If there is not enough of it, what was taken is
 * given back, and the file is as long as before.  `first`: of the first device,
 * for hints.  `former`: there was another
 * file before, which processes may have open still.  `refuse` is for tests: the
 * file system is full after the first step.
 */
extern bool fc_space_reserve(int fd, const char *path, const struct stat *st, off_t bytes, bool first, bool former,
							 bool refuse, FcReason *error);

/* What is written there takes memory, and may take more than there is: whoever then needs some is killed. */
extern bool fc_space_in_memory(int fd);

/* Is the file on a file system that a process keeps? */
extern bool fc_space_in_fuse(int fd);

#endif							/* FC_STORE_SPACE_H */
