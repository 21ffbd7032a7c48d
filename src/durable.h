/*-------------------------------------------------------------------------
 *
 * durable.h
 *	  Small files of ours in the data directory.
 *
 * By system calls: the server's functions for that raise, or obey fsync.  All
 * names are relative to the data directory, where each process of the server
 * is.  Nothing here raises or allocates; false, or -1, says that it failed.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_DURABLE_H
#define FC_DURABLE_H

#include "postgres.h"

#define FC_TMP ".tmp"

extern bool fc_durable_read(int fd, void *to, size_t bytes);
extern bool fc_durable_write(int fd, const void *from, size_t bytes);

/* Something else by that name, such as a FIFO, is not waited for. */
extern int	fc_durable_open(const char *path);

/* A file that gets its name when it is complete: written under that of `tmp` until then. */
extern int	fc_durable_begin(const char *tmp);

/* It is complete, if `ok`: under its name, and `durable`, unless that does not matter. */
extern bool fc_durable_finish(int fd, bool ok, const char *tmp, const char *path, bool durable);

/* There is none by that name any more, also after a loss of power. */
extern bool fc_durable_remove(const char *path);

#endif							/* FC_DURABLE_H */
