/*-------------------------------------------------------------------------
 *
 * store_place.h
 *	  Whether a file or a device may be the cache: where it lies, whose it is,
 *	  who else could put another one in its place.
 *
 * docs/security.md says what is promised.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_PLACE_H
#define FC_STORE_PLACE_H

#include <sys/stat.h>

#include "store/store.h"

/* Where there is no such device. */
#define DEVICE_HINT "Check that the device is attached, and its name (lsblk)."

/*
 * Which device is being looked at: what to do about it depends on that.  Of one
 * beyond the first no setting and no restart is the remedy, and its file is
 * made only when it is added.
 */
typedef enum FcPlaceFor
{
	FC_FOR_FIRST,				/* pg_flashcache.file */
	FC_FOR_ADDED,
	FC_FOR_LISTED,
} FcPlaceFor;

extern void fc_place_for(FcPlaceFor what);

/* The hint for the first one, or for one that is added or in the list. */
extern const char *fc_place_hint(const char *first, const char *added, const char *listed);

/*
 * Opens the folder of a file (O_PATH), for openat(), if it is one that nobody
 * but root and the server's user can replace, and none that belongs to the
 * database or, as far as store_foreign.h goes, to another server, or is the
 * kernel's own, as /proc.  *name becomes the file's name in it.  -1 with the
 * reason if not.
 */
extern int	fc_place_open(const char *path, const char **name, FcReason *error);

/*
 * Is the folder or file none of the database's own: in the data directory,
 * that of the write-ahead log, a tablespace, or where a symbolic link in the
 * data directory leads to?  By whatever mounts, as far as store_mount.h goes.
 */
extern bool fc_place_check_foreign(int at, const char *path, FcReason *error);

/* With what of the server it shares its file system, in words; "" if with nothing. */
extern const char *fc_place_shares(int at);

/* Is this folder /dev or below it, and not on a file system of its own as /dev/shm? */
extern bool fc_place_in_dev(int folder);

/* Is this a thing of ours, as far as stat() tells? */
extern bool fc_place_check(const char *path, const struct stat *st, FcReason *error);

#endif							/* FC_STORE_PLACE_H */
