/*
 * slowread: a library for LD_PRELOAD that delays a server's reads of its data files.
 *
 * The fallback of slowdisk for machines on which nothing can be mounted (containers, no root); it needs no
 * privileges. pread() and its relatives take at least as long as a disk array would:
 *
 *     seek + bytes / bandwidth, on the one of K spindles that is free first
 *
 * on the absolute clock, so that concurrent readers queue up as they would there.
 *
 * What to say beside its figures: random reads have the same mean as on slowdisk; a sequential scan pays the
 * seek for every block, because below pread() there is no read-ahead that merges requests, and is overcharged
 * many times over; a page in the kernel's page cache costs as much as one on the disk (without a memory limit
 * the page cache would hide the disk altogether). Writes are not delayed.
 *
 * environment: SLOWREAD_DIR       reads of files whose path begins with it are delayed
 *              SLOWREAD_CONTROL   a file of 4 KiB, zeros at first, shared by all processes: byte 0 is '1' while
 *                                 the model is on; bytes 8-15 count the delayed reads (native integer)
 *              SLOWREAD_SPINDLES, SLOWREAD_READ_US, SLOWREAD_MB_PER_S
 * Where one of them is missing or wrong the library does nothing.
 *
 * build: cc -O2 -shared -fPIC -o slowread.so slowread.c -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_SIZE 4096
#define MAX_SPINDLES 256

typedef struct
{
	_Atomic char on;
	_Alignas(8) _Atomic uint64_t reads;
	_Alignas(64) _Atomic uint64_t free_at[MAX_SPINDLES];	/* absolute ns at which a spindle is idle again */
} Control;

_Static_assert(sizeof(Control) <= CONTROL_SIZE, "the control file is too small");

static Control *control;
static char dir[1024];
static size_t dir_len;
static int	spindles;
static uint64_t seek_ns;
static double ns_per_byte;

static double
number(const char *name)
{
	const char *value = getenv(name);

	return value ? atof(value) : 0;
}

__attribute__((constructor)) static void
init(void)
{
	const char *path = getenv("SLOWREAD_CONTROL");
	const char *below = getenv("SLOWREAD_DIR");
	void	   *map;
	int			fd;

	spindles = (int) number("SLOWREAD_SPINDLES");
	seek_ns = (uint64_t) (number("SLOWREAD_READ_US") * 1e3);
	if (!path || !below || strlen(below) >= sizeof(dir) || spindles < 1 || spindles > MAX_SPINDLES || number("SLOWREAD_MB_PER_S") <= 0)
		return;
	ns_per_byte = 1e3 / number("SLOWREAD_MB_PER_S");
	strcpy(dir, below);			/* PostgreSQL writes its process title over the environment */
	dir_len = strlen(dir);
	if ((fd = open(path, O_RDWR | O_CLOEXEC)) < 0)
		return;
	map = mmap(NULL, CONTROL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		control = map;
	prctl(PR_SET_TIMERSLACK, 1UL);
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000u + t.tv_nsec;
}

static int
is_data_file(int fd)
{
	char		name[32],
				path[1024];
	ssize_t		n;

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	n = readlink(name, path, sizeof(path));
	return n > (ssize_t) dir_len && memcmp(path, dir, dir_len) == 0;
}

/* Takes the spindle that is free first; returns when the request would be done there, 0 for "no delay". */
static uint64_t
book(int fd, size_t len)
{
	uint64_t	arrived,
				was,
				done;
	int			s;

	/* The file comes first: a process of the cache that reads none of these has given up all memory that is shared. */
	if (!control || !is_data_file(fd) || atomic_load_explicit(&control->on, memory_order_relaxed) != '1')
		return 0;
	arrived = now_ns();
	do
	{
		s = 0;
		for (int i = 1; i < spindles; i++)
			if (atomic_load(&control->free_at[i]) < atomic_load(&control->free_at[s]))
				s = i;
		was = atomic_load(&control->free_at[s]);
		done = (was > arrived ? was : arrived) + seek_ns + (uint64_t) (len * ns_per_byte);
	} while (!atomic_compare_exchange_weak(&control->free_at[s], &was, done));
	atomic_fetch_add(&control->reads, 1);
	return done;
}

static ssize_t
finish(ssize_t result, uint64_t done)
{
	struct timespec t = {done / 1000000000u, done % 1000000000u};
	int			saved = errno;

	if (done)
		while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR)
			;
	errno = saved;
	return result;
}

static size_t
total(const struct iovec *iov, int n)
{
	size_t		len = 0;

	for (int i = 0; i < n; i++)
		len += iov[i].iov_len;
	return len;
}

/* glibc has each call under two names; on 64-bit Linux they are the same. */
#define WRAP_PREAD(name) \
ssize_t name(int fd, void *buf, size_t len, off_t off) \
{ \
	static ssize_t (*next) (int, void *, size_t, off_t); \
	uint64_t	done = book(fd, len); \
	if (!next) \
		*(void **) &next = dlsym(RTLD_NEXT, #name); \
	return finish(next(fd, buf, len, off), done); \
}

#define WRAP_PREADV(name) \
ssize_t name(int fd, const struct iovec *iov, int n, off_t off) \
{ \
	static ssize_t (*next) (int, const struct iovec *, int, off_t); \
	uint64_t	done = book(fd, total(iov, n)); \
	if (!next) \
		*(void **) &next = dlsym(RTLD_NEXT, #name); \
	return finish(next(fd, iov, n, off), done); \
}

WRAP_PREAD(pread)
WRAP_PREAD(pread64)
WRAP_PREADV(preadv)
WRAP_PREADV(preadv64)
