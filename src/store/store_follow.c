/*-------------------------------------------------------------------------
 *
 * store_follow.c
 *	  How a session follows the device that the writer has open.
 *
 * Each opens it once for itself, to read, by the path in shared memory; and
 * again when the writer has opened it anew.  The number of the opening is read
 * first, the path and the inode after it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/sysmacros.h>

#include "store/store_internal.h"
#include "store/store_process.h"

int			fc_follow_fd = -1;
uint32		fc_follow_opening = 0;

/* Is the descriptor known to lead there? */
static bool followed = false;

/* H7 */
void
fc_store_close(FcDeviceNo no, int timeout_ms)
{
	Assert(no < FC_DEVICES);
	Assert(!fc_in_writer() || fc_follow_fd < 0);
	if (fc_follow_fd >= 0 && fc_call_close(fc_follow_fd, timeout_ms > 0 && !fc_device(no)->in_memory))
		fc_follow_fd = -1;
	(void) fc_call_close_late();
}

/*
 * Opens the device for reading.  By io_uring, where the wait is bounded: the
 * kernel may have to read the file's inode again.  Another file may have its
 * name by now: to open a FIFO would wait for who writes to it.
 */
static int
open_to_read(const FcDevice *device, int timeout_ms)
{
	int			flags = O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | O_NONBLOCK | (device->direct ? O_DIRECT : 0);

	Assert(device->path[0] == '/');
	if (fc_failpoint(FC_FP_STORE_OPEN))
	{
		errno = EIO;
		return -1;
	}
	if (timeout_ms <= 0 || device->in_memory)
		return open(device->path, flags);
	if (fc_uring_ready())
		return fc_call_open(device->path, flags, timeout_ms);
	errno = EAGAIN;				/* the ring has broken just now */
	return -1;
}

/* What it is, as far as this is known without asking the device. */
static bool
is_as_seen(int fd, const FcDevice *device)
{
	struct statx stx;
	struct stat st = {0};

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &stx) != 0)
		return false;
	st.st_dev = makedev(stx.stx_dev_major, stx.stx_dev_minor);
	st.st_ino = stx.stx_ino;
	st.st_mode = stx.stx_mode;
	st.st_rdev = makedev(stx.stx_rdev_major, stx.stx_rdev_minor);
	return fc_same_thing(&st, &device->seen);
}

/* A file put in its place since is refused, unless it has got the same inode. */
bool
fc_follow(int timeout_ms)
{
	FcDevice   *device = fc_device(FC_THE_DEVICE);
	uint32		generation = pg_atomic_read_u32(&device->generation);
	int			fd;

	Assert(!fc_in_writer() && !fc_in_device_process());
	Assert(timeout_ms >= 0);
	if (likely(fc_follow_opening == generation && followed && fc_follow_fd >= 0))
	{
		if (unlikely(fc_call_closing_fd >= 0))
			(void) fc_call_close_late();
		return true;
	}
	errno = EAGAIN;
	if (generation == 0)
		return false;
	pg_read_barrier();			/* pairs with that of fc_store_open() */
	if (fc_hardly_reads())
		return false;
	fc_store_close(FC_THE_DEVICE, timeout_ms);
	if (fc_follow_fd >= 0)
	{
		errno = EAGAIN;			/* one before it is still being closed */
		return false;
	}
	fc_follow_opening = generation;
	followed = false;			/* until it is known to be right */
	fd = open_to_read(device, timeout_ms);
	if (fd < 0)
		return false;
	if (unlikely(fd == fc_call_closing_fd))
		fc_call_closing_fd = -1;	/* the number was free: that one has gone */
	fc_follow_fd = fd;
	if (!is_as_seen(fd, device))
	{
		fc_store_close(FC_THE_DEVICE, timeout_ms);
		/* replaced behind our back, if it was not opened anew */
		errno = ESTALE;
		return false;
	}
	(void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	fc_open_without_atime(fd);
	followed = true;
	return true;
}
