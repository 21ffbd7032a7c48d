/*-------------------------------------------------------------------------
 *
 * store.c
 *	  See store.h; layout.h says what lies where.
 *
 * Refused, because each has cost somebody data or privacy: a path inside the
 * data directory or a tablespace (base backups would copy it, and
 * tools that walk the directory would stumble on it), folders in which others
 * could put another file in its place, symbolic links (they can be
 * re-pointed), files with other names (hard links), files owned by or
 * readable to others (all this in store_place.c), files that carry no header
 * of ours (a mistyped path), mounted block devices.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "compat.h"
#include "failpoint.h"
#include "layout.h"
#include "port/atomics.h"
#include "stats.h"
#include "storage/shmem.h"
#include "store.h"
#include "store_place.h"
#include "store_uring.h"

/* Failures in a row, over all processes, after which the device is given up. */
#define FAILURES_IN_A_ROW 3

/* A device that somebody else has is tried for so often, for 2 s. */
#define CLAIM_TRIES 200
#define CLAIM_STEP_US 10000

#define HUNG "the flash device did not answer for %d ms"
#define HUNG_HINT "See the kernel's log for what ails the device."
#define REPLACED "\"%s\" has been replaced by another file"
#define REPLACED_HINT "Nobody but the server may touch the file."

typedef struct StoreShared
{
	pg_atomic_uint32 generation;	/* counts openings, after the rest has been set; 0 = not open */
	pg_atomic_uint32 read_failures; /* in a row; no order needed */
	pg_atomic_uint32 write_failures;	/* likewise; reads don't excuse them */
	bool		direct;
	bool		in_memory;		/* tmpfs: nothing hangs there */
	uint32		slots;
	uint8		identity[FC_IDENTITY_BYTES];	/* what its header has; for the writer */
	pg_atomic_uint32 alignment; /* of memory that is read into; no order needed */
	struct stat seen;			/* what was opened; see same_thing() */
	char		path[MAXPGPATH];
	char		shares[32];		/* as fc_store_shares() */
} StoreShared;

static StoreShared *shared = NULL;

/* This process's way to the device. */
static int	my_fd = -1;
static uint32 my_generation = 0;

/* Was it checked and locked, so that it may be written to?  In the writer only. */
static bool claimed = false;

static FcStoreError trouble;

/*
 * Memory that is read into.  The device may write there until the results are
 * known, so that a stage which somebody turned away from stays as it is, and
 * the next read takes another.  When none is left this process reads no more
 * from flash, until an answer comes.
 */
#define STAGES 4
#define STAGE_PAGES FC_URING_BATCH

typedef struct Stage
{
	char	   *memory;			/* STAGE_PAGES pages, never given back (H2) */
	ssize_t		result[STAGE_PAGES];
	int			nresults;
} Stage;

static Stage stages[STAGES];

/* A call of the writer, and whether it has finished. */
static ssize_t call_result = FC_NOT_BEGUN;

Size
fc_store_shmem_size(void)
{
	return sizeof(StoreShared);
}

void
fc_store_shmem_init(void)
{
	bool		found;

	shared = ShmemInitStruct("pg_flashcache store", sizeof(StoreShared), &found);
	memset(shared, 0, sizeof(*shared));
	pg_atomic_init_u32(&shared->generation, 0);
	pg_atomic_init_u32(&shared->read_failures, 0);
	pg_atomic_init_u32(&shared->write_failures, 0);
	pg_atomic_init_u32(&shared->alignment, FC_IO_ALIGN);
	my_generation = 0;
}

/* ---- calls that end ---- */

static uint64
deadline_after(int timeout_ms)
{
	return timeout_ms > 0 ? fc_now_ns() + (uint64) timeout_ms * 1000000 : FC_FOR_EVER;
}

static bool
stage_idle(const Stage *stage)
{
	for (int i = 0; i < stage->nresults; i++)
		if (stage->result[i] == FC_IN_FLIGHT)
			return false;
	return true;
}

/* Is the device still busy with something that this process has turned away from? */
static bool
calls_in_flight(void)
{
	bool		busy = call_result == FC_IN_FLIGHT;

	for (int i = 0; i < STAGES; i++)
		busy |= !stage_idle(&stages[i]);
	return busy;
}

typedef enum Call
{
	CALL_READ,
	CALL_WRITE,
	CALL_SYNC,					/* of the device's cache */
} Call;

static ssize_t
call_and_wait(Call what, int fd, const struct iovec *iov, int n, off_t offset)
{
	switch (what)
	{
		case CALL_READ:
			return preadv(fd, iov, n, offset);
		case CALL_WRITE:
			return pwritev(fd, iov, n, offset);
		case CALL_SYNC:
			break;
	}
	return fdatasync(fd);
}

static void
begin_call(Call what, int fd, const struct iovec *iov, int n, off_t offset, uint32 late_us)
{
	switch (what)
	{
		case CALL_READ:
			fc_uring_read(fd, iov->iov_base, iov->iov_len, offset, &call_result, late_us);
			break;
		case CALL_WRITE:
			fc_uring_write(fd, iov, n, offset, &call_result, late_us);
			break;
		case CALL_SYNC:
			fc_uring_sync(fd, &call_result, late_us);
			break;
	}
}

/*
 * A read (into one iovec), a write or a flush of the writer's, which it does
 * one at a time.  Returns bytes or -errno.  -ETIMEDOUT: no answer in time, neither to
 * this call nor, as long as that is so, to the next ones, which do nothing.
 */
static ssize_t
timed_call(Call what, int fd, const struct iovec *iov, int n, off_t offset, int timeout_ms, uint32 late_us)
{
	ssize_t		rc;

	if (timeout_ms > 0 && fc_uring_ready())
	{
		uint64		deadline = deadline_after(timeout_ms);

		fc_uring_look();
		if (call_result == FC_IN_FLIGHT)
			return -ETIMEDOUT;	/* H5 */
		begin_call(what, fd, iov, n, offset, late_us);	/* H1 */
		fc_uring_wait(&call_result, deadline);
		return call_result == FC_IN_FLIGHT ? -ETIMEDOUT : call_result;
	}
	if (unlikely(late_us > 0))
		pg_usleep(late_us);
	do
		rc = call_and_wait(what, fd, iov, n, offset);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ? -errno : rc;
}

/* ---- opening ---- */

/*
 * Are these the same file or device?  A device is known by its number: its
 * node may be made anew, and there may be several.
 */
static bool
same_thing(const struct stat *a, const struct stat *b)
{
	if (S_ISBLK(a->st_mode) || S_ISBLK(b->st_mode))
		return S_ISBLK(a->st_mode) && S_ISBLK(b->st_mode) && a->st_rdev == b->st_rdev;
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Bytes read at a place of the device, before it is in use; -1 with the reason. */
static ssize_t
read_block(int fd, const char *path, char *block, off_t offset, int timeout_ms, FcStoreError *error)
{
	struct iovec iov = {block, FC_HEADER_BLOCK};
	ssize_t		n = timed_call(CALL_READ, fd, &iov, 1, offset, timeout_ms, 0);

	if (n >= 0)
		return n;
	errno = -n;
	if (n == -ETIMEDOUT)
		fc_store_fail(error, HUNG_HINT, HUNG, timeout_ms);
	else
		fc_store_fail(error, "Check the device.", "could not read \"%s\": %m", path);
	return -1;
}

/* It has no header.  Only what this server has had open may be called ours all the same. */
static const char *
foreign_hint(const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return "Choose another device; or, if nobody needs what is on it, clear its first megabyte (wipefs, dd).";
	if (pg_atomic_read_u32(&shared->generation) != 0 && same_thing(st, &shared->seen))
		return "It was the cache's file until somebody wrote to it. Remove it if what it holds now is not needed.";
	return "Choose another path.";
}

/* The header must be ours, or the place must be empty. */
static bool
check_header(int fd, const char *path, const struct stat *st, char *block, int timeout_ms, FcStoreError *error)
{
	off_t		offset = 0;
	ssize_t		n;
	bool		empty;

	if (S_ISREG(st->st_mode) && st->st_size == 0)
		return true;
	n = read_block(fd, path, block, 0, timeout_ms, error);
	if (n == FC_HEADER_BLOCK && fc_layout_is_header(block, n))
		return true;
	empty = n == FC_HEADER_BLOCK;
	while (empty && n > 0 && offset < FC_EMPTY_BYTES)
	{
		empty = fc_layout_is_empty(block, n);
		offset += n;
		n = read_block(fd, path, block, offset, timeout_ms, error);
	}
	if (n < 0)
		return false;
	if (empty)
		return true;
	return fc_store_fail(error, foreign_hint(st),
						 "\"%s\" holds something that is not a flash cache", path);
}

/* The header must be the one that was written when the device was opened, to the last bit. */
static bool
check_same_header(int fd, int timeout_ms, FcStoreError *error)
{
	static char wanted[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	static char found[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	ssize_t		n = read_block(fd, shared->path, found, 0, timeout_ms, error);

	if (n < 0)
		return false;
	fc_layout_make_header(wanted, shared->slots, shared->identity);
	if (n == FC_HEADER_BLOCK && memcmp(wanted, found, FC_HEADER_BLOCK) == 0)
		return true;
	return fc_store_fail(error, "Find out who has written to it. It is opened anew if it still is a flash cache.",
						 "\"%s\" no longer begins with what the server wrote there", shared->path);
}

static bool
check_size(int fd, const char *path, const struct stat *st, uint32 slots, FcStoreError *error)
{
	uint64		needed = fc_layout_bytes(slots);
	uint64		size = st->st_size;

	if (S_ISBLK(st->st_mode) && ioctl(fd, BLKGETSIZE64, &size) != 0)
		size = 0;
	if (size >= needed)
		return true;
	return fc_store_fail(error, !S_ISBLK(st->st_mode) ? "It is given its length back when it is opened anew." :
						 size > 0 ? "Lower pg_flashcache.size." : "Check that the device is attached.",
						 "%s\"%s\" has %llu bytes, %llu are needed", S_ISBLK(st->st_mode) ? "block device " : "",
						 path, (unsigned long long) size, (unsigned long long) needed);
}

static bool
write_header(int fd, const char *path, uint32 slots, const uint8 *identity, char *block, int timeout_ms, FcStoreError *error)
{
	struct iovec iov = {block, FC_HEADER_BLOCK};
	ssize_t		n;

	fc_layout_make_header(block, slots, identity);
	n = timed_call(CALL_WRITE, fd, &iov, 1, 0, timeout_ms, 0);
	if (n == FC_HEADER_BLOCK)
		return true;
	errno = n < 0 ? -n : EIO;
	return fc_store_fail(error, "Check the device.", "could not write to \"%s\": %m", path);
}

static bool
make_room(int fd, const char *path, const struct stat *st, uint32 slots, FcStoreError *error)
{
	off_t		bytes = fc_layout_bytes(slots);
	int			rc;

	if (S_ISBLK(st->st_mode))
		return true;			/* check_size() has looked */
	if (st->st_size > bytes && ftruncate(fd, bytes) != 0)
		return fc_store_fail(error, "Remove the file.", "could not shorten \"%s\": %m", path);

	/*
	 * Real blocks now, so that no write runs out of space later.  What is
	 * there already is left alone: less to wait for on a device that failed.
	 */
	if (st->st_size >= bytes && (off_t) st->st_blocks * 512 >= bytes)
		return true;
	rc = fc_failpoint_fault(FC_FP_STORE_OPEN).action == FC_FP_NOSPACE ? ENOSPC : posix_fallocate(fd, 0, bytes);
	if (rc != 0)
	{
		(void) !ftruncate(fd, st->st_size); /* give back what was taken */
		errno = rc;
		return fc_store_fail(error, rc == ENOSPC ? "Free space on flash, or lower pg_flashcache.size." :
							 "Check the file system.",
							 "could not reserve %llu bytes for \"%s\": %m",
							 (unsigned long long) bytes, path);
	}
	return true;
}

/* Opens without following a symbolic link; O_DIRECT where it can be had. */
static int
open_device(int folder, const char *name, int flags, bool *direct)
{
	int			fd;

	if (fc_failpoint(FC_FP_STORE_OPEN))
	{
		errno = EIO;
		return -1;
	}
	flags |= O_RDWR | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC;
	*direct = true;
	fd = openat(folder, name, flags | O_DIRECT, S_IRUSR | S_IWUSR);
	if (fd < 0 && errno == EINVAL)
	{
		*direct = false;
		/* some kernels have made the file all the same */
		if (flags & O_CREAT)
			flags &= ~O_EXCL;
		fd = openat(folder, name, flags, S_IRUSR | S_IWUSR);
	}

	/*
	 * H6: a read that updates the time of access writes to the file system's
	 * journal, and so could hang where the read itself can be turned away
	 * from.  Only the owner may ask for this.
	 */
	if (fd >= 0)
		(void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NOATIME);
	return fd;
}

/*
 * What the device asks of the memory that it reads into: often far less than
 * a page of memory, 4 bytes with NVMe and 512 with most others.  Kernels
 * before 6.1 don't say.
 */
static uint32
memory_alignment(int fd, bool direct)
{
#ifdef STATX_DIOALIGN
	struct statx stx;

	if (direct && statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &stx) == 0 &&
		(stx.stx_mask & STATX_DIOALIGN) != 0 &&
		stx.stx_dio_mem_align > 0 && stx.stx_dio_mem_align < FC_IO_ALIGN)
		return stx.stx_dio_mem_align;
#endif
	return direct ? FC_IO_ALIGN : 1;
}

static bool
in_memory(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC);
}

static const char *
open_hint(bool is_device)
{
	switch (errno)
	{
		case EACCES:
		case EPERM:
			return is_device ? "Give the device to the server's user, with a udev rule that lasts." :
				"The file and its folder must belong to the server's user.";
		case EBUSY:
			return "A block device that is mounted, or in use by others, cannot be used (lsblk, fuser).";
		case EROFS:
			return "The file system is mounted read-only.";
		default:
			return "Check that the flash device is there and mounted.";
	}
}

/* Is that what this process has open? */
static bool
is_mine(const struct stat *st)
{
	struct stat mine;

	return my_fd >= 0 && fstat(my_fd, &mine) == 0 && same_thing(&mine, st);
}

/*
 * The device was not to be had, errno says why.  Somebody else has it: is it
 * worth another try?  A process that was killed lets go of its files after
 * its shared memory, and the kernel ends its requests later still: the server
 * may be up again by then.  So this waits, a little.
 */
static bool
try_again(int *tries)
{
	if ((errno != EWOULDBLOCK && errno != EBUSY) || ++*tries >= CLAIM_TRIES)
		return false;
	fc_failpoint(FC_FP_STORE_CLAIM);
	pg_usleep(CLAIM_STEP_US);
	return true;
}

/* Opens a block device for the whole server: nobody else uses it meanwhile. */
static int
open_exclusively(int folder, const char *name, const struct stat *st, bool *direct)
{
	/* refuses one that is mounted, and our own claim as well */
	int			fd = open_device(folder, name, O_EXCL, direct);

	if (fd < 0 && errno == EBUSY && is_mine(st))
	{
		close(my_fd);
		my_fd = -1;
		fd = open_device(folder, name, O_EXCL, direct);
	}
	for (int tries = 0; fd < 0 && try_again(&tries);)
		fd = open_device(folder, name, O_EXCL, direct);
	return fd;
}

/* Was there a device under that name when it was opened last? */
static bool
was_device(const char *path)
{
	return pg_atomic_read_u32(&shared->generation) != 0 && S_ISBLK(shared->seen.st_mode) &&
		strcmp(path, shared->path) == 0;
}

/*
 * What is there, and may it be used?  Where it should be a device, no file is
 * made: the kernel would keep it in memory.
 */
static bool
look_at(int folder, const char *name, const char *path, bool *found, struct stat *st, FcStoreError *error)
{
	*found = fstatat(folder, name, st, AT_SYMLINK_NOFOLLOW) == 0;
	if (!*found && errno != ENOENT)
		return fc_store_fail(error, open_hint(false), "could not open \"%s\": %m", path);
	if (*found && !fc_place_check(path, st, error))
		return false;
	if (*found && S_ISREG(st->st_mode) && fc_place_in_dev(folder))
		return fc_store_fail(error, "Name a block device, or a file on local flash.",
							 "\"%s\" is a regular file in /dev, which is kept in memory", path);
	if (!*found && (was_device(path) || fc_place_in_dev(folder)))
		return fc_store_fail(error, "Check that the device is attached, and its name (lsblk).",
							 "block device \"%s\" does not exist", path);
	return true;
}

/* May it lie on that file system? */
static bool
check_system(int at, const char *path, bool require_mount, FcStoreError *error)
{
	const char *with = require_mount ? fc_place_shares(at) : "";

	return with[0] == '\0' ||
		fc_store_fail(error, "Mount the flash device, or set pg_flashcache.require_mount to off.",
					  "\"%s\" is on the same file system as %s", path, with);
}

/*
 * Opens what is to be the device; `make`: makes it if it is not there.  Looks
 * before: merely to open a tape or a watchdog is to do something to it.  And
 * after: what is open may no longer be what was seen.
 */
static int
open_checked(const char *path, bool make, bool require_mount, struct stat *st, bool *direct, FcStoreError *error)
{
	const char *name;
	int			folder = fc_place_open(path, &name, error);
	bool		found;
	int			fd = -1;

	if (folder < 0)
		return -1;
	if (!look_at(folder, name, path, &found, st, error) ||
		(!found && !check_system(folder, path, require_mount, error)))
	{
		close(folder);
		return -1;
	}
	fc_failpoint(FC_FP_STORE_LOOKED);
	errno = ENOENT;
	if (found && S_ISBLK(st->st_mode))
		fd = open_exclusively(folder, name, st, direct);
	else if (found)
		fd = open_device(folder, name, 0, direct);
	else if (make)
		fd = open_device(folder, name, O_CREAT | O_EXCL, direct);
	if (fd < 0)
		fc_store_fail(error, open_hint(found && S_ISBLK(st->st_mode)), "could not open \"%s\": %m", path);
	close(folder);
	if (fd < 0)
		return -1;
	if (fstat(fd, st) != 0)
		fc_store_fail(error, "Check the device.", "could not stat \"%s\": %m", path);
	else if (fc_place_check(path, st, error) &&
			 (S_ISBLK(st->st_mode) ||
			  (fc_place_check_foreign(fd, path, error) && check_system(fd, path, require_mount, error))))
		return fd;
	close(fd);
	return -1;
}

/*
 * Locks it against other servers.  The descriptor is a new one even for a
 * file that is open already: the old one may belong to a device or a mount
 * that has gone and come back.  Hence the lock moves.
 */
static bool
lock_device(int fd, const char *path, FcStoreError *error)
{
	int			rc = flock(fd, LOCK_EX | LOCK_NB);

	if (rc != 0 && errno == EWOULDBLOCK && my_fd >= 0 && flock(my_fd, LOCK_UN) == 0)
		rc = flock(fd, LOCK_EX | LOCK_NB);
	for (int tries = 0; rc != 0 && try_again(&tries);)
		rc = flock(fd, LOCK_EX | LOCK_NB);
	if (rc == 0)
		return true;
	if (errno == EWOULDBLOCK)
		return fc_store_fail(error, "Give every server a file of its own. One that ended while the device hung keeps it until the device answers.",
							 "\"%s\" is in use by another server", path);
	return fc_store_fail(error, "Check the file system.", "could not lock \"%s\": %m", path);
}

/* Numbers of openings; one process at a time opens. */
static uint32
count_opening(void)
{
	uint32		generation = pg_atomic_read_u32(&shared->generation);

	generation = generation == 0 ? FC_START_32 + 1 : generation + 1;
	if (generation == 0)
		generation = 1;			/* 0 says that it is not open */
	pg_atomic_write_u32(&shared->generation, generation);
	return generation;
}

bool
fc_store_open(const char *path, uint32 slots, bool require_mount, int timeout_ms, FcStoreError *error)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	uint8		identity[FC_IDENTITY_BYTES];
	struct stat st;
	bool		direct;
	int			fd;

	claimed = false;			/* the lock may move */
	if (!pg_strong_random(identity, sizeof(identity)))
		return fc_store_fail(error, "Check the kernel's random number generator.", "could not generate random bytes");
	fd = open_checked(path, true, require_mount, &st, &direct, error);
	if (fd < 0)
		return false;
	if (!lock_device(fd, path, error) ||
		(S_ISBLK(st.st_mode) && !check_size(fd, path, &st, slots, error)) ||
		!check_header(fd, path, &st, block, timeout_ms, error) ||
		!make_room(fd, path, &st, slots, error) ||
		!write_header(fd, path, slots, identity, block, timeout_ms, error))
	{
		close(fd);
		return false;
	}

	if (my_fd >= 0)
		close(my_fd);
	my_fd = fd;
	claimed = true;
	memcpy(shared->identity, identity, sizeof(identity));
	shared->direct = direct;
	shared->in_memory = in_memory(fd);
	shared->slots = slots;
	pg_atomic_write_u32(&shared->alignment, memory_alignment(my_fd, direct));
	shared->seen = st;
	strlcpy(shared->path, path, sizeof(shared->path));
	strlcpy(shared->shares, S_ISBLK(st.st_mode) ? "" : fc_place_shares(fd), sizeof(shared->shares));
	pg_atomic_write_u32(&shared->read_failures, 0);
	pg_atomic_write_u32(&shared->write_failures, 0);
	pg_write_barrier();			/* what leads to the device before its number */
	my_generation = count_opening();
	return true;
}

/* H4 */
bool
fc_store_answers(int timeout_ms, FcStoreError *error)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	struct iovec iov = {block, FC_HEADER_BLOCK};
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);

	if (timeout_ms <= 0 || !fc_uring_ready())
		return true;
	fc_uring_look();
	if (calls_in_flight() ||
		(my_fd >= 0 && timed_call(CALL_READ, my_fd, &iov, 1, 0, timeout_ms, fault.us) == -ETIMEDOUT))
		return fc_store_fail(error, HUNG_HINT, HUNG, timeout_ms);
	return true;
}

/* H7 */
void
fc_store_close(void)
{
	if (my_fd < 0)
		return;
	close(my_fd);
	my_fd = -1;
	claimed = false;
}

const char *
fc_store_shares(void)
{
	return shared->shares;
}

bool
fc_store_direct_io(void)
{
	return shared->direct;
}

bool
fc_store_can_time_out(void)
{
	return fc_uring_ready();
}

const FcStoreError *
fc_store_trouble(void)
{
	return &trouble;
}

/*
 * Makes my_fd lead to the device as opened last, for reading: what it returns
 * is believed only if the checksum of R3 agrees.  A file put in its place
 * since is refused, unless it has got the same inode.
 */
static bool
follow(void)
{
	uint32		generation = pg_atomic_read_u32(&shared->generation);
	struct stat st;
	bool		direct;
	int			fd;

	if (likely(my_generation == generation && my_fd >= 0))
		return true;
	errno = EAGAIN;
	if (generation == 0)
		return false;
	pg_read_barrier();			/* pairs with that of fc_store_open() */
	fd = open_device(AT_FDCWD, shared->path, 0, &direct);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || !same_thing(&st, &shared->seen))
	{
		close(fd);
		/* opened anew at this moment, or replaced behind our back */
		errno = generation == pg_atomic_read_u32(&shared->generation) ? ESTALE : EAGAIN;
		return false;
	}
	if (my_fd >= 0)
		close(my_fd);
	my_fd = fd;
	my_generation = generation;
	claimed = false;
	return true;
}

/* For writing nothing is followed: it takes what opening takes. */
static bool
may_write(void)
{
	if (claimed && my_generation == pg_atomic_read_u32(&shared->generation))
		return true;
	errno = EAGAIN;
	return false;
}

/* Is what is open what was opened last, and as it was then? */
static bool
is_as_opened(int fd, int timeout_ms, FcStoreError *error)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fc_store_fail(error, "Check the device.", "could not stat \"%s\": %m", shared->path);
	if (!same_thing(&st, &shared->seen))
		return fc_store_fail(error, REPLACED_HINT, REPLACED, shared->path);
	return fc_place_check(shared->path, &st, error) &&
		check_size(fd, shared->path, &st, shared->slots, error) &&
		check_same_header(fd, timeout_ms, error);
}

bool
fc_store_adopt(int timeout_ms, FcStoreError *error)
{
	uint32		generation = pg_atomic_read_u32(&shared->generation);
	struct stat st;
	bool		direct;
	int			fd;

	if (generation == 0)
		return fc_store_fail(error, "Set pg_flashcache.enabled to on first.",
							 "the flash device has not been opened since the server started");
	if (may_write())
		return is_as_opened(my_fd, timeout_ms, error);
	fd = open_checked(shared->path, false, false, &st, &direct, error);
	if (fd < 0)
		return false;
	if (!lock_device(fd, shared->path, error) || !is_as_opened(fd, timeout_ms, error))
	{
		close(fd);
		return false;
	}
	if (my_fd >= 0)
		close(my_fd);
	my_fd = fd;
	my_generation = generation;
	claimed = true;
	return true;
}

/* ---- reading and writing ---- */

/* There is no way to the device: is it gone, or is this process to blame? */
static FcIo
no_way(FcCounter errors)
{
	switch (errno)
	{
		case EMFILE:
		case ENFILE:
		case ENOMEM:
		case EINTR:
		case EAGAIN:
			return FC_IO_FAILED;
		case ESTALE:
			fc_store_fail(&trouble, REPLACED_HINT, REPLACED, shared->path);
			break;
		default:
			fc_store_fail(&trouble, open_hint(S_ISBLK(shared->seen.st_mode)), "could not open \"%s\": %m", shared->path);
	}
	fc_count(errors);
	return FC_IO_BROKEN;
}

/* Judges the result of a read or write: a time-out is enough, other failures may happen. */
static FcIo
note_result(bool write, bool ok, ssize_t result, size_t bytes, off_t offset, int timeout_ms)
{
	pg_atomic_uint32 *failures = write ? &shared->write_failures : &shared->read_failures;

	if (likely(ok))
	{
		if (unlikely(pg_atomic_read_u32(failures) != 0))
			pg_atomic_write_u32(failures, 0);
		return FC_IO_OK;
	}
	if (result == FC_IN_FLIGHT && !fc_uring_ready())
		return FC_IO_FAILED;	/* the ring broke, not the device */
	fc_count(write ? FC_WRITE_ERRORS : FC_READ_ERRORS);
	if (result == FC_IN_FLIGHT || result == -ETIMEDOUT) /* or the kernel gave up */
	{
		fc_count(FC_TIMEOUTS);
		fc_store_fail(&trouble, HUNG_HINT, HUNG, timeout_ms);
		return FC_IO_BROKEN;	/* H3 */
	}
	if (pg_atomic_add_fetch_u32(failures, 1) < FAILURES_IN_A_ROW)
		return FC_IO_FAILED;
	errno = result < 0 ? -result : 0;
	if (result < 0)
		fc_store_fail(&trouble, "Check the device.", "%d failures in a row, the last: could not %s %zu bytes at offset %lld of \"%s\": %m",
					  FAILURES_IN_A_ROW, write ? "write" : "read", bytes, (long long) offset, shared->path);
	else
		fc_store_fail(&trouble, "Check the device, and that nobody has shortened the file.",
					  "%d failures in a row, the last: could %s only %zd of %zu bytes at offset %lld of \"%s\"",
					  FAILURES_IN_A_ROW, write ? "write" : "read", result, bytes, (long long) offset, shared->path);
	return FC_IO_BROKEN;
}

/* Where a test wants a request to go instead: to a neighbour. */
static off_t
misplaced(const FcFault *fault, FcSlotNo first, int n)
{
	if (likely(fault->action != FC_FP_MISPLACED))
		return fc_slot_offset(first);
	return fc_slot_offset(first + n < shared->slots ? first + 1 : first - 1);
}

/* What a test wants the device to have answered. */
static ssize_t
spoiled(const FcFault *fault, ssize_t result, char *page)
{
	if (fault->action == FC_FP_ERROR)
		return -EIO;
	if (fault->action == FC_FP_SHORT && result > 0)
		return Min(result, BLCKSZ / 2);
	if (fault->action == FC_FP_FLIP && result > 0)
		page[BLCKSZ / 2] ^= 1;
	return result;
}

/* How many of the first n slots lie in a row. */
static int
neighbours(const FcSlotNo *slots, int n)
{
	int			i = 1;

	while (i < n && slots[i] == slots[0] + i)
		i++;
	return i;
}

/* ---- reading by io_uring ---- */

static Stage *
idle_stage(void)
{
	for (int i = 0; i < STAGES; i++)
	{
		Stage	   *stage = &stages[i];

		if (unlikely(!stage_idle(stage)))
		{
			fc_uring_look();
			if (!stage_idle(stage))
				continue;
		}
		if (unlikely(stage->memory == NULL))
		{
			stage->memory = fc_store_memory(STAGE_PAGES);
			if (stage->memory != NULL && i == 0)
				fc_uring_pin(stage->memory, BLCKSZ);	/* single pages */
		}
		return stage->memory != NULL ? stage : NULL;
	}
	return NULL;
}

/* Reads n <= STAGE_PAGES slots, all requests at once, and copies what was read in time. */
static int
read_staged(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, uint64 deadline, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	Stage	   *stage = idle_stage();
	int			done = 0;
	int			run;

	if (stage == NULL)
	{
		*io = FC_IO_FAILED;		/* a miss, and no news about the device */
		return 0;
	}
	stage->nresults = 0;
	for (int i = 0; i < n; i += run)
	{
		run = neighbours(&slots[i], n - i);
		fc_uring_read(my_fd, stage->memory + (size_t) i * BLCKSZ, (size_t) run * BLCKSZ,
					  misplaced(&fault, slots[i], run), &stage->result[stage->nresults++], fault.us);
	}
	for (int r = 0; r < stage->nresults && *io == FC_IO_OK; r++)
	{
		char	   *from = stage->memory + (size_t) done * BLCKSZ;
		ssize_t		result;
		int			got;

		run = neighbours(&slots[done], n - done);
		fc_uring_wait(&stage->result[r], deadline);
		result = spoiled(&fault, stage->result[r], from);
		got = result < 0 ? 0 : result / BLCKSZ;
		*io = note_result(false, got > 0, result, (size_t) run * BLCKSZ, fc_slot_offset(slots[done]), timeout_ms);
		for (int i = 0; i < got; i++)
			memcpy(pages[done + i], from + (size_t) i * BLCKSZ, BLCKSZ);
		done += got;
		if (got < run)
			break;				/* only what is there from the start on */
	}
	return done;
}

/* ---- reading by preadv ---- */

/* One slot, through memory of our own: for targets that are not aligned. */
static ssize_t
read_through_bounce(off_t offset, char *page)
{
	static char bounce[BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
	ssize_t		n;

	do
		n = pread(my_fd, bounce, BLCKSZ, offset);
	while (n < 0 && errno == EINTR);
	if (n == BLCKSZ)
		memcpy(page, bounce, BLCKSZ);
	return n < 0 ? -errno : n;
}

static bool
all_aligned(char *const *pages, int n, uint32 alignment)
{
	for (int i = 0; i < n; i++)
		if ((uintptr_t) pages[i] % alignment != 0)
			return false;
	return true;
}

/* Reads the first of n slots, those that lie in a row or one alone; bytes, or -errno. */
static ssize_t
read_plain(off_t offset, char *const *pages, int n)
{
	struct iovec iov[FC_STORE_MAX_READ];
	uint32		alignment = pg_atomic_read_u32(&shared->alignment);
	ssize_t		result;

	if (!all_aligned(pages, n, alignment))
		return read_through_bounce(offset, pages[0]);
	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
	}
	do
		result = preadv(my_fd, iov, n, offset);
	while (result < 0 && errno == EINTR);
	if (result >= 0)
		return result;
	if (errno != EINVAL || alignment >= FC_IO_ALIGN)
		return -errno;
	/* the device asks for more than it said */
	pg_atomic_write_u32(&shared->alignment, FC_IO_ALIGN);
	return read_through_bounce(offset, pages[0]);
}

/* The same for one run after the other. */
static int
read_blocking(const FcSlotNo *slots, char *const *pages, int n, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	int			done = 0;
	int			got = 1;

	for (; done < n && *io == FC_IO_OK && got > 0; done += got)
	{
		int			run = neighbours(&slots[done], n - done);
		ssize_t		result;

		if (unlikely(fault.us > 0))
			pg_usleep(fault.us);
		result = spoiled(&fault, read_plain(misplaced(&fault, slots[done], run), &pages[done], run), pages[done]);
		got = result < 0 ? 0 : result / BLCKSZ;
		*io = note_result(false, got > 0, result, (size_t) run * BLCKSZ, fc_slot_offset(slots[done]), 0);
	}
	return done;
}

/*
 * Is a read to go through io_uring?  A file system in memory makes io_uring
 * hand each read to a thread of the kernel, which takes several times as long
 * as to copy a page.  Devices that tests make slow are an exception.
 */
static bool
by_uring(const FcSlotNo *slots, int n, int timeout_ms)
{
	if (!fc_uring_ready() || (shared->in_memory && !fc_failpoints_armed()))
		return false;
	return timeout_ms > 0 || neighbours(slots, n) < n;
}

int
fc_store_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, FcIo *io)
{
	int			done = 0;

	Assert(n > 0 && n <= FC_STORE_MAX_READ);
	*io = FC_IO_OK;
	if (unlikely(!follow()))
	{
		*io = no_way(FC_READ_ERRORS);
		return 0;
	}
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (by_uring(slots, n, timeout_ms))
	{
		uint64		deadline = deadline_after(timeout_ms);
		int			now;
		int			got;

		do
		{
			now = Min(n - done, STAGE_PAGES);
			got = read_staged(&slots[done], &pages[done], now, timeout_ms, deadline, io);
			done += got;
		} while (done < n && got == now && *io == FC_IO_OK);
	}
	else
		done = read_blocking(slots, pages, n, io);
	pgstat_report_wait_end();
	return done;
}

/* ---- reading ahead ---- */

char *
fc_store_memory(int pages)
{
	/* not palloc: this is called within the storage manager */
	char	   *memory = mmap(NULL, (size_t) pages * BLCKSZ, PROT_READ | PROT_WRITE,
							  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return NULL;
	/* a child would get its own copy when either writes, and the device might fill that one */
	(void) madvise(memory, (size_t) pages * BLCKSZ, MADV_DONTFORK);
	return memory;
}

bool
fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);

	if (!follow() || !fc_uring_ready())
		return false;
	ahead->n = n;
	ahead->offset = fc_slot_offset(first);
	fc_uring_read(my_fd, pages, (size_t) n * BLCKSZ, misplaced(&fault, first, n), &ahead->result, fault.us);
	fc_uring_submit();
	return true;
}

bool
fc_store_ahead_done(FcAhead *ahead)
{
	if (ahead->result == FC_IN_FLIGHT)
		fc_uring_look();
	return ahead->result != FC_IN_FLIGHT;
}

int
fc_store_ahead_finish(FcAhead *ahead, char *pages, int timeout_ms, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	ssize_t		result;
	int			got;

	pgstat_report_wait_start(ahead->n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_uring_wait(&ahead->result, deadline_after(timeout_ms));
	pgstat_report_wait_end();
	result = spoiled(&fault, ahead->result, pages);
	got = result < 0 ? 0 : result / BLCKSZ;
	*io = note_result(false, got > 0, result, (size_t) ahead->n * BLCKSZ, ahead->offset, timeout_ms);
	return got;
}

/* ---- writing ---- */

/* Of each page only the first half gets there, as when power fails; nobody notices. */
static ssize_t
write_torn(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	for (int i = 0; i < n; i++)
	{
		struct iovec half = {pages[i], BLCKSZ / 2};
		ssize_t		rc = timed_call(CALL_WRITE, my_fd, &half, 1, fc_slot_offset(first + i), timeout_ms, 0);

		if (rc != BLCKSZ / 2)
			return rc;
	}
	return (ssize_t) n * BLCKSZ;
}

static ssize_t
write_slots(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	struct iovec iov[FC_STORE_MAX_RUN];
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_WRITE);

	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
	}
	switch (fault.action)
	{
		case FC_FP_ERROR:
			return -EIO;
		case FC_FP_NOSPACE:
			return -ENOSPC;
		case FC_FP_TORN:
			return write_torn(first, pages, n, timeout_ms);
		case FC_FP_SHORT:
			iov[0].iov_len = BLCKSZ / 2;
			n = 1;
			break;
		case FC_FP_FLIP:
			pages[0][BLCKSZ / 2] ^= 1;
			break;
		default:
			break;
	}
	return timed_call(CALL_WRITE, my_fd, iov, n, misplaced(&fault, first, n), timeout_ms, fault.us);
}

FcIo
fc_store_write(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	ssize_t		expected = (ssize_t) n * BLCKSZ;
	uint64		begin = fc_now_ns();
	ssize_t		written;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	if (!may_write())
		return no_way(FC_WRITE_ERRORS);
	pgstat_report_wait_start(FC_WAIT_WRITE);
	fc_failpoint(FC_FP_STORE_WRITING);
	written = write_slots(first, pages, n, timeout_ms);
	pgstat_report_wait_end();
	if (written == expected)
	{
		fc_count(FC_WRITES);
		fc_count_n(FC_WRITE_BYTES, expected);
		fc_count_n(FC_WRITE_NS, fc_now_ns() - begin);
	}
	return note_result(true, written == expected, written, expected, fc_slot_offset(first), timeout_ms);
}

FcIo
fc_store_sync(int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_SYNC);
	ssize_t		result = -EIO;

	if (!may_write())
		return no_way(FC_WRITE_ERRORS);
	pgstat_report_wait_start(FC_WAIT_WRITE);
	if (fault.action != FC_FP_ERROR)
		result = timed_call(CALL_SYNC, my_fd, NULL, 0, 0, timeout_ms, fault.us);
	pgstat_report_wait_end();
	return note_result(true, result == 0, result, 0, 0, timeout_ms);
}
