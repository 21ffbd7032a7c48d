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

int			fc_follow_fd[FC_DEVICES] = {-1, -1, -1, -1, -1, -1, -1, -1};
uint32		fc_follow_opening[FC_DEVICES];

/* Is the descriptor known to lead there? */
static bool followed[FC_DEVICES];

/* Is it that of a file in memory?  Another device may have the number since. */
static bool in_memory[FC_DEVICES];

/* Changes of states that this process knows of. */
static uint32 known_changes = FC_START_32;

/* Has this process opened any, or begun to?  What comes too late is to be closed as well. */
static bool any_opened = false;

/* H7 */
static void
let_go(FcDeviceNo no, int timeout_ms)
{
	Assert(no < FC_DEVICES);
	Assert(!fc_in_writer() || fc_follow_fd[no] < 0);
	if (fc_follow_fd[no] >= 0 && fc_call_close(no, fc_follow_fd[no], timeout_ms > 0 && !in_memory[no]))
		fc_follow_fd[no] = -1;
	(void) fc_call_close_late(no);
}

/* Of all. */
void
fc_store_close_all(int timeout_ms)
{
	bool		left = false;

	if (likely(!any_opened))
		return;
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		let_go(no, timeout_ms);
		left |= fc_follow_fd[no] >= 0 || fc_call_closing(no);
	}
	any_opened = left;
}

/* H7: a device that is not in use any more is let go of by who next reads from any. */
static void
close_unused(uint32 changes, int timeout_ms)
{
	bool		all = true;

	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		if (fc_device_readable(no) || (fc_follow_fd[no] < 0 && !fc_call_closing(no)))
			continue;
		let_go(no, timeout_ms);
		all &= fc_follow_fd[no] < 0 && !fc_call_closing(no);
	}
	if (all)
		known_changes = changes;
}

void
fc_store_let_go(int timeout_ms)
{
	uint32		changes = fc_device_changes();

	if (unlikely(changes != known_changes) && any_opened)
		close_unused(changes, timeout_ms);
}

/*
 * Opens the device for reading.  By io_uring, where the wait is bounded: the
 * kernel may have to read the file's inode again.  Another file may have its
 * name by now: to open a FIFO would wait for who writes to it.
 */
static int
open_to_read(FcDeviceNo no, const FcDevice *device, int timeout_ms)
{
	int			flags = O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | O_NONBLOCK | (device->direct ? O_DIRECT : 0);

	Assert(device->path[0] == '/');
	if (fc_failpoint_of(FC_FP_STORE_OPEN, no + 1))
	{
		errno = EIO;
		return -1;
	}
	if (timeout_ms <= 0 || device->in_memory)
		return open(device->path, flags);
	if (fc_uring_ready())
		return fc_call_open(no, device->path, flags, timeout_ms);
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
fc_follow(FcDeviceNo no, int timeout_ms)
{
	FcDevice   *device = fc_device(no);
	uint32		generation = pg_atomic_read_u32(&device->generation);
	uint32		changes = fc_device_changes();
	int			fd;

	Assert(!fc_in_writer() && !fc_in_device_process());
	Assert(timeout_ms >= 0);
	if (unlikely(changes != known_changes))
		close_unused(changes, timeout_ms);
	if (likely(fc_follow_opening[no] == generation && followed[no] && fc_follow_fd[no] >= 0))
	{
		if (unlikely(fc_call_closing(no)))
			(void) fc_call_close_late(no);
		return true;
	}
	errno = EAGAIN;
	if (generation == 0)
		return false;
	pg_read_barrier();			/* pairs with that of fc_store_open() */
	if (fc_hardly_reads())
		return false;
	let_go(no, timeout_ms);
	if (fc_follow_fd[no] >= 0)
	{
		errno = EAGAIN;			/* one before it is still being closed */
		return false;
	}
	fc_follow_opening[no] = generation;
	followed[no] = false;		/* until it is known to be right */
	any_opened = true;
	fd = open_to_read(no, device, timeout_ms);
	if (fd < 0)
		return false;
	fc_call_opened(fd);
	fc_follow_fd[no] = fd;
	in_memory[no] = device->in_memory;
	if (!is_as_seen(fd, device))
	{
		let_go(no, timeout_ms);
		/* replaced behind our back, if it was not opened anew */
		errno = ESTALE;
		return false;
	}
	(void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
	fc_open_without_atime(fd);
	followed[no] = true;
	return true;
}
