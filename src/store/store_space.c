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
#include <linux/magic.h>
#include <sys/statvfs.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "amount.h"
#include "compat.h"
#include "layout.h"
#include "memory.h"
#include "store/store_place.h"
#include "store/store_process.h"
#include "store/store_space.h"

#define MB ((off_t) 1024 * 1024)
#define GB (1024 * MB)

/* Taken at once; a file system does it in milliseconds. */
#define STEP (256 * MB)

/* Left to others: a twentieth of the file system, but no more than this. */
#define MOST_RESERVED GB

/* Where there was a file before this one. */
#define FORMER_HINT "The former file takes space as long as sessions have it open: each lets go when it next reads a page, or ends (lsof +L1). Free space otherwise if that is not enough."

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

bool
fc_space_in_memory(int fd)
{
	struct statfs fs;
	struct stat st;

	/* the node of a block device is on a tmpfs as a rule, the device is not */
	return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

bool
fc_space_in_fuse(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && fs.f_type == FUSE_SUPER_MAGIC;
}

static bool
not_enough(const char *path, off_t wanted, off_t left, off_t has, bool first, bool former, FcReason *error)
{
	static const char what[] = "\"%s\" needs %s more, and its file system has %s to spare";
	FcAmount	wanted_text;
	FcAmount	left_text;
	FcAmount	fits_text;
	char		hint[FC_HINT_LEN];
	off_t		fits = has + left - fc_layout_bytes(0, 0);

	Assert(wanted > left && left >= 0 && has >= 0);
	fc_amount(&wanted_text, wanted, FC_AMOUNT_UP);
	fc_amount(&left_text, left, FC_AMOUNT_DOWN);
	if (former)
		return fc_fail(error, FORMER_HINT, what, path, wanted_text.string, left_text.string);
	if (!first)
	{
		if (fits >= (off_t) FC_MIN_SLOTS * BLCKSZ)
			snprintf(hint, sizeof(hint), "Free space there, or choose a smaller size: %s would fit now.",
					 fc_amount(&fits_text, fits, FC_AMOUNT_DOWN));
		else
			strlcpy(hint, "Free space there, or choose another file system.", sizeof(hint));
		return fc_fail(error, hint, what, path, wanted_text.string, left_text.string);
	}
	if (fits >= (off_t) FC_MIN_SLOTS * BLCKSZ)
		snprintf(hint, sizeof(hint), "Free space and call pg_flashcache_enable(), or lower pg_flashcache.size and restart the server: %s would fit now.",
				 fc_amount(&fits_text, fits, FC_AMOUNT_DOWN));
	else
		strlcpy(hint, "Free space and call pg_flashcache_enable(), or choose another file system and restart the server.", sizeof(hint));
	return fc_fail_restart(error, hint, what, path, wanted_text.string, left_text.string);
}

static bool
failed(int rc, const char *path, off_t bytes, bool first, bool former, FcReason *error)
{
	static const char what[] = "could not reserve %s for \"%s\": %m";
	FcAmount	amount;

	Assert(rc > 0);
	fc_amount(&amount, bytes, FC_AMOUNT_UP);
	errno = rc;
	if ((rc == ENOSPC || rc == EDQUOT) && former)
		return fc_fail(error, FORMER_HINT, what, amount.string, path);
	if (!first && (rc == ENOSPC || rc == EDQUOT))
		return fc_fail(error, "Free space there, or choose a smaller size.", what, amount.string, path);
	if (!first && rc == EFBIG)
		return fc_fail_restart(error, "Raise the limit of file sizes (ulimit -f), and restart the server, or choose a smaller size.",
							   what, amount.string, path);
	if (rc == ENOSPC || rc == EDQUOT)
		return fc_fail_restart(error, "Free space on flash and call pg_flashcache_enable(), or lower pg_flashcache.size and restart the server.",
							   what, amount.string, path);
	if (rc == EFBIG)
		return fc_fail_restart(error, "Raise the limit of file sizes (ulimit -f), or lower pg_flashcache.size, and restart the server.",
							   what, amount.string, path);
	return fc_fail(error, "Check the file system.", what, amount.string, path);
}

/* For file systems that can't reserve: zeros, where the file had no end yet. */
static int
write_zeros(int fd, off_t from, off_t to)
{
	static char zeros[MB] pg_attribute_aligned(FC_IO_ALIGN);

	Assert(from >= 0);
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

	Assert(fd >= 0 && from >= 0 && from < to);
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

	Assert(S_ISREG(st->st_mode));
	(void) !ftruncate(fd, st->st_size);
	if ((off_t) st->st_blocks * 512 >= st->st_size)
		return;

	/*
	 * what was read from a hole and lies in the page cache would count as
	 * data
	 */
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
fc_space_reserve(int fd, const char *path, const struct stat *st, off_t bytes, bool first, bool former,
				 bool refuse, FcReason *error)
{
	static const char in_memory[] = "\"%s\" needs %s, its file system is in memory, and there is room for %s";
	off_t		has = (off_t) st->st_blocks * 512;
	off_t		wanted = Max(bytes - has, 0);
	bool		holes = has < Min(st->st_size, bytes);
	off_t		at = holes ? 0 : Min(st->st_size, bytes);
	off_t		left;
	int			rc = 0;

	Assert(fc_in_device_process());
	Assert(fd >= 0 && S_ISREG(st->st_mode) && bytes > FC_HEADER_BYTES);
	if (st->st_size > bytes && ftruncate(fd, bytes) != 0)
		return fc_fail(error, "Remove the file.", "could not shorten \"%s\": %m", path);

	/*
	 * what is there already is left alone: less to wait for on a device that
	 * failed
	 */
	if (st->st_size >= bytes && !holes)
		return true;
	if (room(fd, &left) && left < wanted)
		return not_enough(path, wanted, left, has, first, former, error);

	if (fc_space_in_memory(fd) && fc_memory_left() < (uint64) bytes)
	{
		FcAmount	needed;
		FcAmount	there;

		if (!first)
			return fc_fail(error,
						   "Choose a file on flash, or a smaller size. Counted is the memory of the machine or of its control group, less the server's shared memory and an eighth.",
						   in_memory, path, fc_amount(&needed, bytes, FC_AMOUNT_UP),
						   fc_amount(&there, fc_memory_left(), FC_AMOUNT_DOWN));
		return fc_fail_restart(error,
							   "Put the file on flash, or lower pg_flashcache.size, and restart the server. Counted is the memory of the machine or of its control group, less the server's shared memory and an eighth.",
							   in_memory, path, fc_amount(&needed, bytes, FC_AMOUNT_UP),
							   fc_amount(&there, fc_memory_left(), FC_AMOUNT_DOWN));
	}

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
	return failed(rc, path, wanted, first, former, error);
}
