/*-------------------------------------------------------------------------
 *
 * store.c
 *	  See store.h; layout.h says what lies where.
 *
 * Two kinds of processes are here.  Sessions open the device for reading and
 * wait for it through io_uring (H1).  The writer has nothing open: all that it
 * wants of the device is a Request to the device process (H4), which runs
 * serve() and what that calls.
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
#include "store_process.h"
#include "store_space.h"
#include "store_uring.h"

/* Failures in a row, over all processes, after which the device is given up. */
#define FAILURES_IN_A_ROW 3

/* A device that somebody else has is tried for so often, for 2 s. */
#define CLAIM_TRIES 200
#define CLAIM_STEP_US 10000

#define HUNG "the flash device did not answer for %d ms"
#define KERNEL_HINT "See the kernel's log for what ails the device."
#define HUNG_HINT KERNEL_HINT " If such pauses are normal for it, raise pg_flashcache.io_timeout."

/*
 * Opening may take longer than reading: a step of it (the walk along the path,
 * a try for the lock, a piece of space) gets as long as this at least.
 */
#define OPEN_TIMEOUT_MS 10000

/* What a call on the device process returns instead of the device's answer, beside -ETIMEDOUT. */
#define NOBODY ((ssize_t) -ECHILD)

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
	pg_atomic_uint32 no_ring;	/* errno of a process that could not bound its wait; 0 = none, or told */
	uint8		identity[FC_IDENTITY_BYTES];	/* what its header has; for the writer */
	pg_atomic_uint32 alignment; /* of memory that is read into; no order needed */
	struct stat seen;			/* what was opened; see same_thing() */
	char		path[MAXPGPATH];
	char		shares[32];		/* as fc_store_shares() */
} StoreShared;

static StoreShared *shared = NULL;	/* in the device process: the copy of the request */

/* This process's way to the device; the writer has none. */
static int	my_fd = -1;
static uint32 my_generation = 0;

/* Was it checked and locked, so that it may be written to?  In the device process only. */
static bool claimed = false;

/* What the writer wants of the device process, and its answer. */
typedef enum Op
{
	OP_OPEN,
	OP_ADOPT,
	OP_READ,
	OP_WRITE,
	OP_SYNC,
	OP_CLOSE,
} Op;

typedef struct Request
{
	Op			op;
	FcFault		fault;			/* what a test wants to go wrong */
	StoreShared shared;			/* a copy: of what was opened last, then of what is open now */
	char		path[MAXPGPATH];
	uint32		slots;
	bool		require_mount;
	int			n;
	off_t		offset[FC_STORE_MAX_RUN];	/* of each page; those of a write lie in a row */
	ssize_t		result;			/* bytes or -errno; for opening -1 and why not */
	uint64		ns;				/* what the device took */
	FcStoreError error;
	char		pages[FC_STORE_MAX_RUN][BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
} Request;

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

/* Opening the device by io_uring, and the descriptor once it has come. */
static ssize_t opening = FC_NOT_BEGUN;

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
	pg_atomic_init_u32(&shared->no_ring, 0);
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

/* ---- in the device process: opening ---- */

static ssize_t
read_device(int fd, char *to, size_t bytes, off_t offset)
{
	ssize_t		n;

	do
		n = pread(fd, to, bytes, offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static ssize_t
write_device(int fd, const char *from, size_t bytes, off_t offset)
{
	ssize_t		n;

	do
		n = pwrite(fd, from, bytes, offset);
	while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static void
close_device(void)
{
	if (my_fd < 0)
		return;
	close(my_fd);
	my_fd = -1;
	claimed = false;
}

/* From now on this process's way to the device is another descriptor. */
static void
replace_device(int fd)
{
	if (my_fd >= 0)
		close(my_fd);
	my_fd = fd;
}

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
read_block(int fd, const char *path, char *block, off_t offset, FcStoreError *error)
{
	ssize_t		n = read_device(fd, block, FC_HEADER_BLOCK, offset);

	if (n >= 0)
		return n;
	errno = -n;
	fc_store_fail(error, "Check the device.", "could not read \"%s\": %m", path);
	return -1;
}

/* It has no header.  Only what this server has had open may be called ours all the same. */
static const char *
foreign_hint(const struct stat *st)
{
	if (S_ISBLK(st->st_mode))
		return "If nobody needs what is on it, clear its first megabyte (wipefs, dd) and call pg_flashcache_enable(); else choose another device and " FC_RESTART ".";
	if (pg_atomic_read_u32(&shared->generation) != 0 && same_thing(st, &shared->seen))
		return "It was the cache's file until somebody wrote to it. Remove it if what it holds now is not needed.";
	return "Choose another path, and " FC_RESTART ".";
}

/* The header must be ours, or the place must be empty. */
static bool
check_header(int fd, const char *path, const struct stat *st, char *block, FcStoreError *error)
{
	off_t		offset = 0;
	ssize_t		n;
	bool		empty;

	if (S_ISREG(st->st_mode) && st->st_size == 0)
		return true;
	n = read_block(fd, path, block, 0, error);
	if (n == FC_HEADER_BLOCK && fc_layout_is_header(block, n))
		return true;
	empty = n == FC_HEADER_BLOCK;
	while (empty && n > 0 && offset < FC_EMPTY_BYTES)
	{
		empty = fc_layout_is_empty(block, n);
		offset += n;
		n = read_block(fd, path, block, offset, error);
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
check_same_header(int fd, FcStoreError *error)
{
	static char wanted[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	static char found[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	ssize_t		n = read_block(fd, shared->path, found, 0, error);

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
						 size > 0 ? "Lower pg_flashcache.size, and " FC_RESTART "." : "Check that the device is attached.",
						 "%s\"%s\" has %llu bytes, %llu are needed", S_ISBLK(st->st_mode) ? "block device " : "",
						 path, (unsigned long long) size, (unsigned long long) needed);
}

static bool
write_header(int fd, const char *path, uint32 slots, const uint8 *identity, char *block, FcStoreError *error)
{
	ssize_t		n;

	fc_layout_make_header(block, slots, identity);
	n = write_device(fd, block, FC_HEADER_BLOCK, 0);
	if (n == FC_HEADER_BLOCK)
		return true;
	errno = n < 0 ? -n : EIO;
	return fc_store_fail(error, "Check the device.", "could not write to \"%s\": %m", path);
}

/*
 * H6: a read that updates the time of access writes to the file system's
 * journal, and so could hang where the read itself can be turned away from.
 * Only the owner may ask for this.
 */
static void
without_atime(int fd)
{
	if (fd >= 0)
		(void) fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NOATIME);
}

/* Opens without following a symbolic link; O_DIRECT where it can be had. */
static int
open_device(int folder, const char *name, int flags, bool *direct)
{
	int			fd;

	if (fc_process_failpoint(FC_FP_STORE_OPEN))
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

	without_atime(fd);
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
				"Check that the flash device is mounted. The file and its folder must belong to the server's user.";
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
	(void) fc_process_failpoint(FC_FP_STORE_CLAIM);
	fc_process_sleep(CLAIM_STEP_US);
	fc_process_goes_on();
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
		return fc_store_fail(error, "Name a block device, or a file on local flash, and " FC_RESTART ".",
							 "\"%s\" is a regular file in /dev, which is kept in memory", path);
	if (!*found && (was_device(path) || fc_place_in_dev(folder)))
		return fc_store_fail(error, DEVICE_HINT,
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
	(void) fc_process_failpoint(FC_FP_STORE_LOOKED);
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
		return fc_store_fail(error, "Give every server a file of its own, and " FC_RESTART ". One that ended while the device hung keeps it until the device answers.",
							 "\"%s\" is in use by another server", path);
	return fc_store_fail(error, "Check the file system.", "could not lock \"%s\": %m", path);
}

/*
 * Is another file to be the device than before?  Then the space of the former
 * one, which may have been deleted, is needed: this process lets go of it.
 * Sessions may have it open still.
 */
static bool
leave_former(const struct stat *st)
{
	if (my_fd >= 0 && !is_mine(st))
		close_device();
	return pg_atomic_read_u32(&shared->generation) != 0 && S_ISREG(shared->seen.st_mode) &&
		shared->seen.st_dev == st->st_dev && !same_thing(&shared->seen, st);
}

static bool
open_for_server(Request *r)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	FcStoreError *error = &r->error;
	bool		refuse = r->fault.action == FC_FP_NOSPACE;
	uint8		identity[FC_IDENTITY_BYTES];
	struct stat st;
	bool		direct;
	int			fd;

	claimed = false;			/* the lock may move */
	if (!pg_strong_random(identity, sizeof(identity)))
		return fc_store_fail(error, "Check the kernel's random number generator.", "could not generate random bytes");
	fd = open_checked(r->path, true, r->require_mount, &st, &direct, error);
	if (fd < 0)
		return false;
	fc_process_goes_on();
	if (!lock_device(fd, r->path, error) ||
		(S_ISBLK(st.st_mode) && !check_size(fd, r->path, &st, r->slots, error)) ||
		!check_header(fd, r->path, &st, block, error) ||
		(S_ISREG(st.st_mode) &&
		 !fc_space_reserve(fd, r->path, &st, fc_layout_bytes(r->slots), leave_former(&st), refuse, error)) ||
		!write_header(fd, r->path, r->slots, identity, block, error))
	{
		close(fd);
		return false;
	}

	replace_device(fd);
	claimed = true;
	memcpy(shared->identity, identity, sizeof(identity));
	shared->direct = direct;
	shared->in_memory = in_memory(fd);
	shared->slots = r->slots;
	pg_atomic_write_u32(&shared->alignment, memory_alignment(my_fd, direct));
	shared->seen = st;
	strlcpy(shared->path, r->path, sizeof(shared->path));
	strlcpy(shared->shares, S_ISBLK(st.st_mode) ? "" : fc_place_shares(fd), sizeof(shared->shares));
	return true;
}

/* Is what is open what was opened last, and as it was then? */
static bool
is_as_opened(int fd, FcStoreError *error)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return fc_store_fail(error, "Check the device.", "could not stat \"%s\": %m", shared->path);
	if (!same_thing(&st, &shared->seen))
		return fc_store_fail(error, REPLACED_HINT, REPLACED, shared->path);
	return fc_place_check(shared->path, &st, error) &&
		check_size(fd, shared->path, &st, shared->slots, error) &&
		check_same_header(fd, error);
}

/* See fc_store_adopt(). */
static bool
adopt(FcStoreError *error)
{
	struct stat st;
	bool		direct;
	int			fd;

	if (claimed)
		return is_as_opened(my_fd, error);
	fd = open_checked(shared->path, false, false, &st, &direct, error);
	if (fd < 0)
		return false;
	if (!lock_device(fd, shared->path, error) || !is_as_opened(fd, error))
	{
		close(fd);
		return false;
	}
	replace_device(fd);
	claimed = true;
	return true;
}

/* ---- in the device process: reading and writing ---- */

/* The pages, those that lie in a row by one call; bytes of the first ones that could be read. */
static ssize_t
read_pages(Request *r)
{
	ssize_t		done = 0;
	int			run;

	for (int i = 0; i < r->n; i += run)
	{
		ssize_t		n;

		for (run = 1; i + run < r->n && r->offset[i + run] == r->offset[i] + (off_t) run * BLCKSZ; run++)
			;
		n = read_device(my_fd, r->pages[i], (size_t) run * BLCKSZ, r->offset[i]);
		if (n < 0)
			return done > 0 ? done : n;
		done += n;
		if (n < (ssize_t) run * BLCKSZ)
			break;
	}
	return done;
}

static ssize_t
write_pages(Request *r)
{
	ssize_t		n;

	if (r->fault.action == FC_FP_SHORT)
		return write_device(my_fd, r->pages[0], BLCKSZ / 2, r->offset[0]);
	if (r->fault.action != FC_FP_TORN)
		return write_device(my_fd, r->pages[0], (size_t) r->n * BLCKSZ, r->offset[0]);
	/* of each page only the first half gets there, as when power fails; nobody notices */
	for (int i = 0; i < r->n; i++)
	{
		n = write_device(my_fd, r->pages[i], BLCKSZ / 2, r->offset[0] + (off_t) i * BLCKSZ);
		if (n != BLCKSZ / 2)
			return n;
	}
	return (ssize_t) r->n * BLCKSZ;
}

static void
serve(void *memory)
{
	Request    *r = memory;
	uint64		begin = fc_now_ns();

	shared = &r->shared;
	fc_process_sleep(r->fault.us);
	switch (r->op)
	{
		case OP_OPEN:
			r->result = open_for_server(r) ? 0 : -1;
			break;
		case OP_ADOPT:
			r->result = adopt(&r->error) ? 0 : -1;
			break;
		case OP_READ:
			r->result = read_pages(r);
			break;
		case OP_WRITE:
			r->result = claimed ? write_pages(r) : -EBADF;
			break;
		case OP_SYNC:
			r->result = fdatasync(my_fd) == 0 ? 0 : -errno;
			break;
		case OP_CLOSE:
			close_device();
			r->result = 0;
			break;
	}
	r->ns = fc_now_ns() - begin;
}

/* ---- in the writer ---- */

void
fc_store_own(const FcStoreOwner *owner)
{
	fc_process_owner = owner;
}

/* A request to be filled in; NULL, and the result instead of one, if none can be made. */
static Request *
new_request(Op op, ssize_t *result)
{
	Request    *r = fc_process_memory(sizeof(Request));
	bool		opens = op == OP_OPEN || op == OP_ADOPT;

	*result = r != NULL ? 0 : NOBODY;
	if (r == NULL)
		return NULL;
	switch (fc_process_ready(opens, serve))
	{
		case FC_ANSWERED:
			r->op = op;
			r->fault.action = FC_FP_OFF;
			r->fault.us = 0;
			return r;
		case FC_NOT_ANSWERED:
			*result = -ETIMEDOUT;	/* H5 */
			break;
		case FC_NOBODY:
			*result = NOBODY;
			break;
	}
	return NULL;
}

static ssize_t
make_request(Request *r, int timeout_ms)
{
	switch (fc_process_call(timeout_ms))
	{
		case FC_ANSWERED:
			return r->result;
		case FC_NOT_ANSWERED:
			return -ETIMEDOUT;
		case FC_NOBODY:
			break;
	}
	return NOBODY;
}

/* Why a request got no answer. */
static bool
no_answer(ssize_t result, int timeout_ms, FcStoreError *error)
{
	if (result == -ETIMEDOUT && timeout_ms == 0)
		return fc_store_fail(error, KERNEL_HINT, "the flash device does not answer");
	if (result == -ETIMEDOUT)
		return fc_store_fail(error, HUNG_HINT, HUNG, timeout_ms);
	if (errno != 0)
		return fc_store_fail(error, "Check the limits of processes, memory and open files.",
							 "could not make the process that uses the flash device: %m");
	return fc_store_fail(error, "See the kernel's log: it may have been killed for lack of memory.",
						 "the process that uses the flash device has ended");
}

/* The device process is to open the device; NULL with the reason. */
static Request *
ask_to_open(Op op, const char *path, uint32 slots, bool require_mount, int timeout_ms, FcStoreError *error)
{
	ssize_t		result;
	Request    *r = new_request(op, &result);

	if (r != NULL)
	{
		timeout_ms = timeout_ms > 0 ? Max(timeout_ms, OPEN_TIMEOUT_MS) : 0;
		r->fault.action = fc_failpoint_fault(FC_FP_STORE_OPEN).action;
		r->shared = *shared;
		strlcpy(r->path, path, sizeof(r->path));
		r->slots = slots;
		r->require_mount = require_mount;
		result = make_request(r, timeout_ms);
	}
	if (result == 0)
		return r;
	if (result == -1)
		*error = r->error;
	else
		no_answer(result, timeout_ms, error);
	return NULL;
}

/* The number of the next opening. */
static uint32
next_opening(void)
{
	uint32		generation = pg_atomic_read_u32(&shared->generation);

	generation = generation == 0 ? FC_START_32 + 1 : generation + 1;
	return generation == 0 ? 1 : generation;	/* 0 says that it is not open */
}

bool
fc_store_open(const char *path, uint32 slots, bool require_mount, int timeout_ms, FcStoreError *error)
{
	Request    *r = ask_to_open(OP_OPEN, path, slots, require_mount, timeout_ms, error);

	if (r == NULL)
		return false;
	memcpy(shared->identity, r->shared.identity, sizeof(shared->identity));
	shared->direct = r->shared.direct;
	shared->in_memory = r->shared.in_memory;
	shared->slots = r->shared.slots;
	pg_atomic_write_u32(&shared->alignment, pg_atomic_read_u32(&r->shared.alignment));
	shared->seen = r->shared.seen;
	strlcpy(shared->path, r->shared.path, sizeof(shared->path));
	strlcpy(shared->shares, r->shared.shares, sizeof(shared->shares));
	pg_atomic_write_u32(&shared->read_failures, 0);
	pg_atomic_write_u32(&shared->write_failures, 0);
	pg_write_barrier();			/* what leads to the device before its number */
	pg_atomic_write_u32(&shared->generation, next_opening());
	return true;
}

bool
fc_store_adopt(int timeout_ms, FcStoreError *error)
{
	if (pg_atomic_read_u32(&shared->generation) == 0)
		return fc_store_fail(error, "Set pg_flashcache.enabled to on first.",
							 "the flash device has not been opened since the server started");
	return ask_to_open(OP_ADOPT, shared->path, shared->slots, false, timeout_ms, error) != NULL;
}

bool
fc_store_answers(int timeout_ms, FcStoreError *error)
{
	ssize_t		result;
	Request    *r = new_request(OP_READ, &result);

	if (r != NULL)
	{
		r->fault.us = fc_failpoint_fault(FC_FP_STORE_READ).us;
		r->n = 1;
		r->offset[0] = 0;
		result = make_request(r, timeout_ms);
	}
	return result != -ETIMEDOUT || no_answer(result, timeout_ms, error);
}

void
fc_store_release(void)
{
	ssize_t		result;
	Request    *r = new_request(OP_CLOSE, &result);

	if (result == NOBODY || (r != NULL && make_request(r, OPEN_TIMEOUT_MS) == 0))
		return;
	fc_process_abandon();
}

/* ---- in sessions ---- */

/* H7 */
void
fc_store_close(void)
{
	close_device();
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

bool
fc_store_may_read(int timeout_ms)
{
	uint32		none = 0;

	if (likely(timeout_ms <= 0 || shared->in_memory || fc_uring_ready()))
		return true;
	(void) pg_atomic_compare_exchange_u32(&shared->no_ring, &none, (uint32) fc_uring_errno());
	return false;
}

int
fc_store_unbounded(void)
{
	if (pg_atomic_read_u32(&shared->no_ring) == 0)
		return 0;
	return (int) pg_atomic_exchange_u32(&shared->no_ring, 0);
}

bool
fc_store_can_bound(int timeout_ms, FcStoreError *error)
{
	int			save_errno;

	if (timeout_ms <= 0 || shared->in_memory || fc_uring_possible(&save_errno))
		return true;
	if (save_errno == 0)
		return fc_store_fail(error, "Install liburing-dev, build and install the extension again, restart; or set pg_flashcache.io_timeout to 0: reads then wait for flash as long as it takes.",
							 "no wait for the flash device can be bounded: pg_flashcache was built without liburing");
	errno = save_errno;
	return fc_store_fail(error, "Allow io_uring, or set pg_flashcache.io_timeout to 0: reads then wait for flash as long as it takes.",
						 "no wait for the flash device can be bounded without io_uring: %m");
}

const FcStoreError *
fc_store_trouble(void)
{
	return &trouble;
}

/*
 * Opens the device for reading.  By io_uring, where the wait is bounded: the
 * kernel may have to read the file's inode again.  -1: no answer in time,
 * EAGAIN as long as that is so.
 */
static int
open_to_read(int timeout_ms)
{
	int			flags = O_RDONLY | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC | (shared->direct ? O_DIRECT : 0);
	int			fd;

	if (fc_failpoint(FC_FP_STORE_OPEN))
	{
		errno = EIO;
		return -1;
	}
	if (timeout_ms <= 0 || shared->in_memory || !fc_uring_ready())
		return open(shared->path, flags);
	fc_uring_look();
	if (opening == FC_IN_FLIGHT)
	{
		errno = EAGAIN;
		return -1;
	}
	if (opening >= 0)
		close((int) opening);	/* came late */
	fc_uring_open(shared->path, flags, &opening);
	fc_uring_wait(&opening, deadline_after(timeout_ms));
	if (opening == FC_IN_FLIGHT)
	{
		errno = fc_uring_ready() ? ETIMEDOUT : EAGAIN;
		return -1;
	}
	fd = opening < 0 ? -1 : (int) opening;
	errno = opening < 0 ? (int) -opening : 0;
	opening = FC_NOT_BEGUN;
	return fd;
}

/*
 * Makes my_fd lead to the device as opened last, for reading: what it returns
 * is believed only if the checksum of R3 agrees.  A file put in its place
 * since is refused, unless it has got the same inode.
 */
static bool
follow(int timeout_ms)
{
	uint32		generation = pg_atomic_read_u32(&shared->generation);
	struct stat st;
	int			fd;

	if (likely(my_generation == generation && my_fd >= 0))
		return true;
	errno = EAGAIN;
	if (generation == 0)
		return false;
	pg_read_barrier();			/* pairs with that of fc_store_open() */
	if (fc_hardly_reads())
		return false;
	fd = open_to_read(timeout_ms);
	if (fd < 0)
		return false;
	without_atime(fd);
	if (fstat(fd, &st) != 0 || !same_thing(&st, &shared->seen))
	{
		close(fd);
		/* opened anew at this moment, or replaced behind our back */
		errno = generation == pg_atomic_read_u32(&shared->generation) ? ESTALE : EAGAIN;
		return false;
	}
	replace_device(fd);
	my_generation = generation;
	return true;
}

/* ---- reading and writing ---- */

/* There is no way to the device: is it gone, or is this process to blame? */
static FcIo
no_way(int timeout_ms)
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
		case ETIMEDOUT:
			fc_count(FC_TIMEOUTS);
			fc_store_fail(&trouble, HUNG_HINT, HUNG, timeout_ms);
			break;				/* H3 */
		default:
			fc_store_fail(&trouble, open_hint(S_ISBLK(shared->seen.st_mode)), "could not open \"%s\": %m", shared->path);
	}
	fc_count(FC_READ_ERRORS);
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
		no_answer(-ETIMEDOUT, timeout_ms, &trouble);
		return FC_IO_BROKEN;	/* H3 */
	}
	if (result == NOBODY)
	{
		no_answer(result, timeout_ms, &trouble);
		return FC_IO_BROKEN;
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
	if (unlikely(!fc_store_may_read(timeout_ms)))
	{
		fc_count(FC_READS_UNBOUNDED);
		*io = FC_IO_FAILED;
		return 0;
	}
	if (unlikely(!follow(timeout_ms)))
	{
		*io = no_way(timeout_ms);
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
fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n, int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);

	if (!fc_uring_ready() || !follow(timeout_ms))
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

/* ---- reading and writing in the writer ---- */

int
fc_store_try_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, uint64 *ns, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	ssize_t		result;
	Request    *r = new_request(OP_READ, &result);
	int			got;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	*ns = 0;
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (r != NULL)
	{
		r->fault = fault;
		r->n = n;
		for (int i = 0; i < n; i++)
			r->offset[i] = misplaced(&fault, slots[i], 1);
		result = make_request(r, timeout_ms);
	}
	pgstat_report_wait_end();
	if (result > 0)
		result = spoiled(&fault, result, r->pages[0]);
	got = result < 0 ? 0 : result / BLCKSZ;
	for (int i = 0; i < got; i++)
		memcpy(pages[i], r->pages[i], BLCKSZ);
	*io = note_result(false, got > 0, result, (size_t) n * BLCKSZ, fc_slot_offset(slots[0]), timeout_ms);
	if (got > 0)
		*ns = r->ns;
	return got;
}

static ssize_t
write_slots(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_WRITE);
	ssize_t		result;
	Request    *r = new_request(OP_WRITE, &result);

	if (r == NULL)
		return result;
	if (fault.action == FC_FP_ERROR)
		return -EIO;
	if (fault.action == FC_FP_NOSPACE)
		return -ENOSPC;
	r->fault = fault;
	r->n = n;
	r->offset[0] = misplaced(&fault, first, n);
	for (int i = 0; i < n; i++)
		memcpy(r->pages[i], pages[i], BLCKSZ);
	if (fault.action == FC_FP_FLIP)
		r->pages[0][BLCKSZ / 2] ^= 1;
	return make_request(r, timeout_ms);
}

FcIo
fc_store_write(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	ssize_t		expected = (ssize_t) n * BLCKSZ;
	uint64		begin = fc_now_ns();
	ssize_t		written;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
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
	ssize_t		result;
	Request    *r = new_request(OP_SYNC, &result);

	pgstat_report_wait_start(FC_WAIT_WRITE);
	if (r != NULL && fault.action == FC_FP_ERROR)
		result = -EIO;
	else if (r != NULL)
	{
		r->fault = fault;
		result = make_request(r, timeout_ms);
	}
	pgstat_report_wait_end();
	return note_result(true, result == 0, result, 0, 0, timeout_ms);
}
