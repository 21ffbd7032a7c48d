/*-------------------------------------------------------------------------
 *
 * store_mount.h
 *	  Where a place lies, whatever mounts it is reached by.
 *
 * The names and inodes above a folder end at the mount it is reached by: where
 * a part of the data directory is mounted once more elsewhere, nothing above
 * it there tells.  The kernel's table of mounts does.
 *
 * Not seen: what lies below a layer that passes files on (overlayfs, FUSE,
 * NFS), since there the same file belongs to two file systems; anything where
 * /proc is not mounted.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_MOUNT_H
#define FC_STORE_MOUNT_H

#include "types.h"

/* The table of mounts of this moment, to be handed to free(); NULL if it can't be had. */
extern char *fc_mount_table(void);

/*
 * Is what `fd` leads to (a folder or a file) the folder that `folder` leads
 * to, or in it, or in what is mounted below it?  False if that is unknown.
 */
extern bool fc_mount_within(const char *table, int fd, int folder);

/* Are both on the same file system?  By their devices where the table is NULL. */
extern bool fc_mount_same_system(const char *table, int fd, int other);

#endif							/* FC_STORE_MOUNT_H */
