/*-------------------------------------------------------------------------
 *
 * durable.c
 *	  See durable.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/file_perm.h"
#include "durable.h"

bool
fc_durable_read(int fd, void *to, size_t bytes)
{
	char	   *p = to;

	while (bytes > 0)
	{
		ssize_t		n = read(fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		bytes -= n;
	}
	return true;
}

bool
fc_durable_write(int fd, const void *from, size_t bytes)
{
	const char *p = from;

	while (bytes > 0)
	{
		ssize_t		n = write(fd, p, bytes);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return false;
		p += n;
		bytes -= n;
	}
	return true;
}

int
fc_durable_open(const char *path)
{
	return open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

int
fc_durable_begin(const char *tmp)
{
	return open(tmp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, pg_file_create_mode);
}

static bool
sync_folder(void)
{
	int			folder = open(".", O_RDONLY | O_CLOEXEC);
	bool		ok = folder >= 0 && fsync(folder) == 0;

	if (folder >= 0)
		close(folder);
	return ok;
}

bool
fc_durable_remove(const char *path)
{
	if (unlink(path) != 0)
		return errno == ENOENT;
	return sync_folder();
}

bool
fc_durable_finish(int fd, bool ok, const char *tmp, const char *path, bool durable)
{
	if (fd < 0)
		return false;
	ok = ok && (!durable || fsync(fd) == 0);
	ok = close(fd) == 0 && ok && rename(tmp, path) == 0;
	if (!ok)
		(void) unlink(tmp);
	if (!durable)
		return ok;
	return ok && sync_folder();
}
