/*-------------------------------------------------------------------------
 *
 * store_made.c
 *	  The file that opening a device beyond the first one has made.  In the
 *	  device process.
 *
 * Whoever adds a device that can't be used has changed nothing, so the file
 * goes again, unless the writer has said that it is to stay (FcDeviceRequest.kept):
 * when opening it fails, when the device is let go of before it has been in use,
 * and when the writer turns away from this process, or ends, meanwhile.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/file.h>

#include "store/store_internal.h"
#include "store/store_place.h"
#include "store/store_process.h"

static char path_made[MAXPGPATH];	/* "": none */
static int	fd_made = -1;

void
fc_made(const char *path, int fd)
{
	Assert(fc_in_device_process() && fd >= 0);
	strlcpy(path_made, path, sizeof(path_made));
	fd_made = fd;
}

void
fc_made_stays(void)
{
	path_made[0] = '\0';
}

void
fc_made_undo(void)
{
	const char *name;
	FcReason	error;
	struct stat there;
	struct stat mine;
	int			folder;

	if (path_made[0] == '\0')
		return;
	folder = fc_place_open(path_made, &name, &error);

	/*
	 * Its path may lead elsewhere by now.  Or somebody else has it: the next
	 * device process of this server, which has been asked for the same.
	 */
	if (folder >= 0 && fstat(fd_made, &mine) == 0 && fstatat(folder, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		fc_same_thing(&there, &mine) && flock(fd_made, LOCK_EX | LOCK_NB) == 0)
		(void) unlinkat(folder, name, 0);
	if (folder >= 0)
		close(folder);
	fc_made_stays();
}
