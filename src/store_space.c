/*-------------------------------------------------------------------------
 *
 * store_space.c
 *	  See store_space.h.
 *
 * Runs in the device process.  Space is taken step by step, and before each
 * step the file system must have room for all that is still to come and for
 * the reserve: so what others write meanwhile is seen, and a probe that is
 * repeated for hours takes nothing at all.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "compat.h"
#include "layout.h"
#include "store_place.h"
#include "store_process.h"
#include "store_space.h"

#define MB ((off_t) 1024 * 1024)
#define GB (1024 * MB)

/* Taken at once; a file system does it in milliseconds. */
#define STEP (256 * MB)

/* Left to others: a twentieth of the file system, but no more than this. */
#define MOST_RESERVED GB

#define SIZE_LEN 32

/* Where there was a file before this one. */
#define FORMER_HINT "The former file takes space as long as sessions have it open: each lets go when it next reads a page, or ends (lsof +L1). Free space otherwise if that is not enough."

/* As a setting would have it: whole units, rounded down or up. */
static const char *
size_text(char *text, off_t bytes, bool up)
{
	static const struct
	{
		const char *name;
		off_t		bytes;
	}			unit[] = {{"GB", GB}, {"MB", MB}, {"kB", 1024}};
	int			u = 0;

	/* two digits at least, if there are so many */
	while (u < 2 && bytes < 10 * unit[u].bytes)
		u++;
	snprintf(text, SIZE_LEN, "%lld %s",
			 (long long) ((bytes + (up ? unit[u].bytes - 1 : 0)) / unit[u].bytes), unit[u].name);
	return text;
}

/* What may be taken of the file system; false if it does not say. */
static bool
room(int fd, off_t *left)
{
	struct statvfs fs;
	off_t		reserve;

	if (fstatvfs(fd, &fs) != 0)
		return false;
	reserve = Min((off_t) fs.f_blocks * (off_t) fs.f_frsize / 20, MOST_RESERVED);
	*left = Max((off_t) fs.f_bavail * (off_t) fs.f_frsize - reserve, 0);
	return true;
}

static bool
not_enough(const char *path, off_t wanted, off_t left, off_t has, bool former, FcStoreError *error)
{
	char		hint[FC_HINT_LEN];
	char		text[3][SIZE_LEN];
	off_t		fits = has + left - fc_layout_bytes(0);

	size_text(text[0], wanted, true);
	size_text(text[1], left, false);
	if (former)
		strlcpy(hint, FORMER_HINT, sizeof(hint));
	else if (fits >= (off_t) FC_MIN_SLOTS * BLCKSZ)
		snprintf(hint, sizeof(hint), "Free space and call pg_flashcache_enable(), or lower pg_flashcache.size and " FC_RESTART ": %s would fit now.",
				 size_text(text[2], fits, false));
	else
		strlcpy(hint, "Free space and call pg_flashcache_enable(), or choose another file system and " FC_RESTART ".", sizeof(hint));
	return fc_store_fail(error, hint, "\"%s\" needs %s more, and its file system has %s to spare", path, text[0], text[1]);
}

static bool
failed(int rc, const char *path, off_t bytes, bool former, FcStoreError *error)
{
	char		text[SIZE_LEN];
	const char *hint = "Check the file system.";

	if (rc == ENOSPC || rc == EDQUOT)
		hint = former ? FORMER_HINT :
			"Free space on flash and call pg_flashcache_enable(), or lower pg_flashcache.size and " FC_RESTART ".";
	else if (rc == EFBIG)
		hint = "Raise the limit of file sizes (ulimit -f), or lower pg_flashcache.size, and " FC_RESTART ".";
	size_text(text, bytes, true);
	errno = rc;
	return fc_store_fail(error, hint, "could not reserve %s for \"%s\": %m", text, path);
}

/* For file systems that can't reserve: zeros, where the file had no end yet. */
static int
write_zeros(int fd, off_t from, off_t to)
{
	static char zeros[MB] pg_attribute_aligned(FC_IO_ALIGN);

	for (from -= from % FC_IO_ALIGN; from < to;)
	{
		ssize_t		n = pwrite(fd, zeros, Min(to - from, MB), from);

		if (n < 0 && errno != EINTR)
			return errno;
		if (n == 0)
			return ENOSPC;
		from += Max(n, 0);
	}
	return 0;
}

/* One step; `end` is that of the file as it was. */
static int
take(int fd, off_t from, off_t to, off_t end)
{
	int			rc;

	do
		rc = fallocate(fd, 0, from, to - from) == 0 ? 0 : errno;
	while (rc == EINTR);
	if (rc != EOPNOTSUPP)
		return rc;
	return to > end ? write_zeros(fd, Max(from, end), to) : 0;
}

/*
 * The file gets its old length.  If it had holes, whatever holds no data
 * becomes one: no content is lost, and nothing stays that was taken.
 */
static void
give_back(int fd, const struct stat *st)
{
	off_t		data = 0;

	(void) !ftruncate(fd, st->st_size);
	if ((off_t) st->st_blocks * 512 >= st->st_size)
		return;
	/* what was read from a hole and lies in the page cache would count as data */
	(void) posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	for (off_t at = 0; at < st->st_size; at = lseek(fd, data, SEEK_HOLE))
	{
		if (at < 0)
			return;
		data = lseek(fd, at, SEEK_DATA);
		if (data < 0)
			data = st->st_size; /* ENXIO: none to the end */
		if (data > at)
			(void) fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, data - at);
		if (data >= st->st_size)
			return;
	}
}

bool
fc_space_reserve(int fd, const char *path, const struct stat *st, off_t bytes, bool former,
				 bool refuse, FcStoreError *error)
{
	off_t		has = (off_t) st->st_blocks * 512;
	off_t		wanted = Max(bytes - has, 0);
	bool		holes = has < Min(st->st_size, bytes);
	off_t		at = holes ? 0 : Min(st->st_size, bytes);
	off_t		left;
	int			rc = 0;

	if (st->st_size > bytes && ftruncate(fd, bytes) != 0)
		return fc_store_fail(error, "Remove the file.", "could not shorten \"%s\": %m", path);

	/* what is there already is left alone: less to wait for on a device that failed */
	if (st->st_size >= bytes && !holes)
		return true;
	if (room(fd, &left) && left < wanted)
		return not_enough(path, wanted, left, has, former, error);

	/* a limit of file sizes says so before anything is taken */
	if (st->st_size < bytes && ftruncate(fd, bytes) != 0)
		rc = errno;
	while (rc == 0 && at < bytes)
	{
		off_t		to = Min(at + STEP, bytes);
		struct stat now;

		if (room(fd, &left) && fstat(fd, &now) == 0 &&
			left < Min(to - at, Max(bytes - (off_t) now.st_blocks * 512, 0)))
			rc = ENOSPC;
		else
			rc = take(fd, at, to, st->st_size);
		if (rc == 0 && refuse)
			rc = ENOSPC;
		at = to;
		fc_process_goes_on();
	}
	if (rc == 0)
		return true;
	give_back(fd, st);
	return failed(rc, path, wanted, former, error);
}
