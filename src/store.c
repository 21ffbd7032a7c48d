/*-------------------------------------------------------------------------
 *
 * store.c
 *	  See store.h; layout.h says what lies where.
 *
 * Refused, because each has cost somebody data or privacy: a path inside the
 * data directory or a tablespace (base backups would copy it, and
 * tools that walk the directory would stumble on it), symbolic links (they
 * can be re-pointed), files with other names (hard links), files owned by or
 * readable to others, files that carry no header of ours (a mistyped path),
 * mounted block devices.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "compat.h"
#include "failpoint.h"
#include "layout.h"
#include "miscadmin.h"
#include "port/atomics.h"
#include "port/pg_crc32c.h"
#include "stats.h"
#include "storage/shmem.h"
#include "store.h"
#include "store_uring.h"

/* Failures in a row, over all processes, after which the device is given up. */
#define FAILURES_IN_A_ROW 3

typedef struct StoreShared
{
	pg_atomic_uint32 generation;	/* counts openings; 0 = not open */
	pg_atomic_uint32 read_failures; /* in a row */
	pg_atomic_uint32 write_failures;	/* likewise; reads don't excuse them */
	bool		direct;
	pg_atomic_uint32 alignment; /* of memory that is read into */
	dev_t		dev;
	ino_t		ino;
	char		path[MAXPGPATH];
} StoreShared;

static StoreShared *shared = NULL;

/* This process's (or, inherited, the postmaster's) way to the device. */
static int	my_fd = -1;
static uint32 my_generation = 0;

/* Who holds the lock: only meaningful in the process that opened. */
static dev_t held_dev;
static ino_t held_ino;

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

/* ---- opening ---- */

static bool
fail(FcStoreError *error, const char *hint, const char *fmt,...) pg_attribute_printf(3, 4);

static bool
fail(FcStoreError *error, const char *hint, const char *fmt,...)
{
	int			save_errno = errno;
	va_list		args;

	va_start(args, fmt);
	errno = save_errno;
	vsnprintf(error->message, sizeof(error->message), fmt, args);
	va_end(args);
	strlcpy(error->hint, hint, sizeof(error->hint));
	return false;
}

/* Is `path` `dir` itself or below it?  Both are resolved. */
static bool
lies_below(const char *path, const char *dir)
{
	size_t		len = strlen(dir);

	return strncmp(path, dir, len) == 0 && (path[len] == '/' || path[len] == '\0');
}

/* The folder a file lies in, symbolic links resolved. */
static bool
resolve_parent(const char *path, char *parent)
{
	char		copy[MAXPGPATH];

	strlcpy(copy, path, sizeof(copy));
	get_parent_directory(copy);
	return realpath(copy[0] ? copy : "/", parent) != NULL;
}

static bool
check_place(const char *path, FcStoreError *error)
{
	char		parent[PATH_MAX];
	char		dir[PATH_MAX];
	char		tablespaces[MAXPGPATH];
	DIR		   *d;
	struct dirent *de;

	if (!resolve_parent(path, parent))
		return fail(error, "Create the folder on local flash, owned by the server's user.",
					"folder of \"%s\" cannot be found: %m", path);
	if (realpath(DataDir, dir) != NULL && lies_below(parent, dir))
		return fail(error, "Choose a path on local flash outside the data directory.",
					"\"%s\" lies inside the data directory", path);

	snprintf(tablespaces, sizeof(tablespaces), "%s/pg_tblspc", DataDir);
	d = opendir(tablespaces);
	while (d != NULL && (de = readdir(d)) != NULL)
	{
		char		link[MAXPGPATH * 2];

		if (de->d_name[0] == '.')
			continue;
		snprintf(link, sizeof(link), "%s/%s", tablespaces, de->d_name);
		if (realpath(link, dir) != NULL && lies_below(parent, dir))
		{
			closedir(d);
			return fail(error, "Choose a path that is no tablespace.",
						"\"%s\" lies inside a tablespace", path);
		}
	}
	if (d != NULL)
		closedir(d);
	return true;
}

static bool
check_file(const char *path, const struct stat *st, FcStoreError *error)
{
	if (S_ISBLK(st->st_mode))
		return true;
	if (!S_ISREG(st->st_mode))
		return fail(error, "Name a regular file or a block device.",
					"\"%s\" is neither a regular file nor a block device", path);
	if (st->st_uid != geteuid())
		return fail(error, "Remove the file, or choose another path.",
					"\"%s\" belongs to another user", path);
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return fail(error, "Use chmod 600, or remove the file.",
					"\"%s\" is accessible to other users", path);
	if (st->st_nlink > 1)
		return fail(error, "Remove the file, or choose another path.",
					"\"%s\" has other names (hard links)", path);
	return true;
}

static pg_crc32c
header_crc(const FcHeader *header)
{
	pg_crc32c	crc;

	INIT_CRC32C(crc);
	COMP_CRC32C(crc, header, offsetof(FcHeader, crc));
	FIN_CRC32C(crc);
	return crc;
}

/* The header must be ours, or the place must be empty. */
static bool
check_header(int fd, const char *path, const struct stat *st, char *block, FcStoreError *error)
{
	const FcHeader *header = (const FcHeader *) block;
	ssize_t		n;

	if (S_ISREG(st->st_mode) && st->st_size == 0)
		return true;
	n = pread(fd, block, FC_HEADER_BLOCK, 0);
	if (n == FC_HEADER_BLOCK)
	{
		if (memcmp(header->magic, FC_MAGIC, sizeof(FC_MAGIC)) == 0 &&
			header->crc == header_crc(header))
			return true;
		for (n = 0; n < FC_HEADER_BLOCK && block[n] == 0; n++)
			;
		if (n == FC_HEADER_BLOCK)
			return true;
	}
	else if (n < 0)
		return fail(error, "Check the device.", "could not read \"%s\": %m", path);
	return fail(error, S_ISBLK(st->st_mode) ?
				"If the device may be overwritten, clear its first megabyte (wipefs, dd)." :
				"Remove the file if it may be overwritten, or choose another path.",
				"\"%s\" holds something that is not a flash cache", path);
}

static bool
write_header(int fd, const char *path, uint32 slots, char *block, FcStoreError *error)
{
	FcHeader   *header = (FcHeader *) block;

	memset(block, 0, FC_HEADER_BLOCK);
	memcpy(header->magic, FC_MAGIC, sizeof(FC_MAGIC));
	header->layout_version = FC_LAYOUT_VERSION;
	header->block_size = BLCKSZ;
	header->slots = slots;
	header->crc = header_crc(header);
	if (pwrite(fd, block, FC_HEADER_BLOCK, 0) != FC_HEADER_BLOCK)
		return fail(error, "Check the device.", "could not write to \"%s\": %m", path);
	return true;
}

static bool
make_room(int fd, const char *path, const struct stat *st, uint32 slots, FcStoreError *error)
{
	off_t		bytes = fc_layout_bytes(slots);
	int			rc;

	if (S_ISBLK(st->st_mode))
	{
		uint64		size = 0;

		if (ioctl(fd, BLKGETSIZE64, &size) != 0 || size < (uint64) bytes)
			return fail(error, "Lower pg_flashcache.size.",
						"block device \"%s\" has %llu bytes, %llu are needed", path,
						(unsigned long long) size, (unsigned long long) bytes);
		return true;
	}
	if (st->st_size > bytes && ftruncate(fd, bytes) != 0)
		return fail(error, "Remove the file.", "could not shorten \"%s\": %m", path);

	/* real blocks now, so that no write runs out of space later */
	rc = posix_fallocate(fd, 0, bytes);
	if (rc != 0)
	{
		(void) !ftruncate(fd, st->st_size); /* give back what was taken */
		errno = rc;
		return fail(error, rc == ENOSPC ? "Free space on flash, or lower pg_flashcache.size." :
					"Check the file system.",
					"could not reserve %llu bytes for \"%s\": %m",
					(unsigned long long) bytes, path);
	}
	return true;
}

/* Opens without following a symbolic link; O_DIRECT where it can be had. */
static int
open_device(const char *path, int flags, bool *direct)
{
	int			fd;

	if (fc_failpoint(FC_FP_STORE_OPEN))
	{
		errno = EIO;
		return -1;
	}
	*direct = true;
	fd = open(path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_DIRECT, S_IRUSR | S_IWUSR);
	if (fd < 0 && errno == EINVAL)
	{
		*direct = false;
		fd = open(path, flags | O_RDWR | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
	}
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

static const char *
open_hint(void)
{
	switch (errno)
	{
		case ELOOP:
			return "Symbolic links are refused; name the file itself.";
		case EACCES:
		case EPERM:
			return "The file and its folder must belong to the server's user.";
		case EBUSY:
			return "A mounted block device cannot be used.";
		case EROFS:
			return "The file system is mounted read-only.";
		default:
			return "Check that the flash device is there and mounted.";
	}
}

bool
fc_store_open(const char *path, uint32 slots, FcStoreError *error)
{
	static char block[FC_HEADER_BLOCK] pg_attribute_aligned(FC_IO_ALIGN);
	struct stat st;
	bool		direct;
	int			fd;
	bool		held;

	if (!check_place(path, error))
		return false;

	/* a block device is opened exclusively: refuses one that is mounted */
	if (lstat(path, &st) == 0 && S_ISBLK(st.st_mode))
		fd = open_device(path, O_EXCL, &direct);
	else
		fd = open_device(path, O_CREAT, &direct);
	if (fd < 0)
		return fail(error, open_hint(), "could not open \"%s\": %m", path);
	if (fstat(fd, &st) != 0)
	{
		fail(error, "Check the device.", "could not stat \"%s\": %m", path);
		close(fd);
		return false;
	}
	if (!check_file(path, &st, error))
	{
		close(fd);
		return false;
	}

	/* the postmaster's lock is ours: it is the same server, one flock later */
	held = my_fd >= 0 && held_dev == st.st_dev && held_ino == st.st_ino;
	if (!held && flock(fd, LOCK_EX | LOCK_NB) != 0)
	{
		if (errno == EWOULDBLOCK)
			fail(error, "Give every server a file of its own.",
				 "\"%s\" is in use by another server", path);
		else
			fail(error, "Check the file system.", "could not lock \"%s\": %m", path);
		close(fd);
		return false;
	}
	if (!check_header(fd, path, &st, block, error) ||
		!make_room(fd, path, &st, slots, error) ||
		!write_header(fd, path, slots, block, error))
	{
		close(fd);
		return false;
	}

	/* keep the descriptor that holds the lock */
	if (held)
		close(fd);
	else
	{
		if (my_fd >= 0)
			close(my_fd);
		my_fd = fd;
		held_dev = st.st_dev;
		held_ino = st.st_ino;
	}
	shared->direct = direct;
	pg_atomic_write_u32(&shared->alignment, memory_alignment(my_fd, direct));
	shared->dev = st.st_dev;
	shared->ino = st.st_ino;
	strlcpy(shared->path, path, sizeof(shared->path));
	pg_atomic_write_u32(&shared->read_failures, 0);
	pg_atomic_write_u32(&shared->write_failures, 0);
	pg_write_barrier();
	my_generation = pg_atomic_add_fetch_u32(&shared->generation, 1);
	return true;
}

bool
fc_store_direct_io(void)
{
	return shared->direct;
}

/*
 * Makes my_fd lead to the device as opened last.  A file put in its place
 * since (other inode) is refused.
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
	if (generation == 0)
		return false;
	if (my_fd >= 0 && fstat(my_fd, &st) == 0 &&
		st.st_dev == shared->dev && st.st_ino == shared->ino)
	{
		my_generation = generation;
		return true;
	}
	fd = open_device(shared->path, 0, &direct);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || st.st_dev != shared->dev || st.st_ino != shared->ino)
	{
		close(fd);
		errno = ENOENT;
		return false;
	}
	if (my_fd >= 0)
		close(my_fd);
	my_fd = fd;
	my_generation = generation;
	return true;
}

bool
fc_store_adopt(FcStoreError *error)
{
	struct stat st;

	if (!follow() || fstat(my_fd, &st) != 0)
		return fail(error, "Check that the flash device is there and mounted.",
					"could not open \"%s\": %m", shared->path);
	if (st.st_dev == held_dev && st.st_ino == held_ino)
		return true;
	if (flock(my_fd, LOCK_EX | LOCK_NB) != 0)
		return fail(error, "Give every server a file of its own.",
					"\"%s\" is in use by another server", shared->path);
	held_dev = st.st_dev;
	held_ino = st.st_ino;
	return true;
}

/* ---- reading and writing ---- */

static FcIo
note_result(bool ok, pg_atomic_uint32 *failures, FcCounter errors)
{
	if (likely(ok))
	{
		if (unlikely(pg_atomic_read_u32(failures) != 0))
			pg_atomic_write_u32(failures, 0);
		return FC_IO_OK;
	}
	fc_count(errors);
	if (pg_atomic_add_fetch_u32(failures, 1) >= FAILURES_IN_A_ROW)
		return FC_IO_BROKEN;
	return FC_IO_FAILED;
}

/* One slot, through memory of our own: for targets that are not aligned. */
static ssize_t
read_through_bounce(FcSlotNo slot, char *page)
{
	static char bounce[BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
	ssize_t		n;

	do
		n = pread(my_fd, bounce, BLCKSZ, fc_slot_offset(slot));
	while (n < 0 && errno == EINTR);
	if (n == BLCKSZ)
		memcpy(page, bounce, BLCKSZ);
	return n < 0 ? -errno : n;
}

static ssize_t
read_segment(const FcSegment *s)
{
	ssize_t		n;

	do
		n = preadv(my_fd, s->iov, s->n, s->offset);
	while (n < 0 && errno == EINTR);
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

/* Groups neighbouring slots; returns the number of groups. */
static int
make_segments(const FcSlotNo *slots, char *const *pages, int n,
			  struct iovec *iov, FcSegment *segments)
{
	int			nsegments = 0;

	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
		if (i > 0 && slots[i] == slots[i - 1] + 1)
			segments[nsegments - 1].n++;
		else
			segments[nsegments++] = (FcSegment)
			{
				.first = i, .n = 1, .offset = fc_slot_offset(slots[i]),
					.iov = &iov[i], .result = FC_NOT_READ,
			};
	}
	return nsegments;
}

int
fc_store_read(const FcSlotNo *slots, char *const *pages, int n, FcIo *io)
{
	struct iovec iov[FC_STORE_MAX_READ];
	FcSegment	segments[FC_STORE_MAX_READ];
	uint32		alignment = pg_atomic_read_u32(&shared->alignment);
	bool		aligned = all_aligned(pages, n, alignment);
	int			nsegments = make_segments(slots, pages, n, iov, segments);
	int			done = 0;

	Assert(n > 0 && n <= FC_STORE_MAX_READ);
	*io = FC_IO_OK;
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (nsegments > 1 && aligned && follow())
		fc_uring_read(my_fd, segments, nsegments);
	for (int i = 0; i < nsegments && *io == FC_IO_OK; i++)
	{
		FcSegment  *s = &segments[i];
		int			got;

		if (!follow() || fc_failpoint(FC_FP_STORE_READ))
			s->result = -EIO;
		else if (!aligned)
			s->n = 1;			/* the caller asks again for the others */
		if (s->result == FC_NOT_READ)
			s->result = aligned ? read_segment(s) : read_through_bounce(slots[s->first], pages[s->first]);
		if (unlikely(s->result == -EINVAL && aligned && alignment < FC_IO_ALIGN))
		{
			/* the device asks for more than it said */
			pg_atomic_write_u32(&shared->alignment, FC_IO_ALIGN);
			s->result = read_through_bounce(slots[s->first], pages[s->first]);
		}

		got = s->result < 0 ? 0 : s->result / BLCKSZ;
		*io = note_result(got > 0, &shared->read_failures, FC_READ_ERRORS);
		done += got;
		if (got < s->n || (!aligned && n > 1))
			break;				/* only what is there from the start on */
	}
	pgstat_report_wait_end();
	if (unlikely(fc_failpoint(FC_FP_STORE_FLIP)))
		pages[0][BLCKSZ / 2] ^= 1;
	return done;
}

bool
fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n)
{
	ahead->iov.iov_base = pages;
	ahead->iov.iov_len = (size_t) n * BLCKSZ;
	ahead->result = FC_NOT_READ;
	return follow() && fc_uring_start(my_fd, &ahead->iov, fc_slot_offset(first), &ahead->result);
}

bool
fc_store_ahead_done(FcAhead *ahead)
{
	if (ahead->result == FC_IN_FLIGHT)
		fc_uring_look();
	return ahead->result != FC_IN_FLIGHT;
}

int
fc_store_ahead_finish(FcAhead *ahead, FcIo *io)
{
	int			got = 0;

	pgstat_report_wait_start(ahead->iov.iov_len > BLCKSZ ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	if (fc_uring_wait(&ahead->result) && ahead->result > 0 && !fc_failpoint(FC_FP_STORE_READ))
		got = ahead->result / BLCKSZ;
	pgstat_report_wait_end();
	*io = note_result(got > 0, &shared->read_failures, FC_READ_ERRORS);
	return got;
}

FcIo
fc_store_write(FcSlotNo first, char *const *pages, int n)
{
	struct iovec iov[FC_STORE_MAX_RUN];
	off_t		offset = fc_slot_offset(first);
	ssize_t		expected = (ssize_t) n * BLCKSZ;
	ssize_t		written = -1;
	uint64		begin = fc_now_ns();

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
	}
	if (follow() && !fc_failpoint(FC_FP_STORE_WRITE))
	{
		pgstat_report_wait_start(FC_WAIT_WRITE);
		fc_failpoint(FC_FP_STORE_WRITING);
		do
			written = pwritev(my_fd, iov, n, offset);
		while (written < 0 && errno == EINTR);
		pgstat_report_wait_end();
	}
	if (written == expected)
	{
		fc_count(FC_WRITES);
		fc_count_n(FC_WRITE_BYTES, expected);
		fc_count_n(FC_WRITE_NS, fc_now_ns() - begin);
	}
	return note_result(written == expected, &shared->write_failures, FC_WRITE_ERRORS);
}
