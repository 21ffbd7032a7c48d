/*
 * slowdisk: one file with the service time of a disk array.
 *
 * A FUSE file system with a single file, `disk`, that passes reads and writes through to a backing
 * image and delays each completion by a model: K servers ("spindles"); a request takes the server that
 * is free first and occupies it for
 *
 *     (sequential to that server's last request ? 0 : seek) + bytes / bandwidth
 *
 * Completions are scheduled on the absolute clock, so queueing at high concurrency comes out right.
 * Put a loop device with direct I/O over `disk`, a real file system on it, and PostgreSQL's data
 * directory there (see slowdisk.sh). Measured: 1 spindle x 4 ms = 238 IOPS at depth 1 (p50 4.1 ms),
 * 4 spindles = 985 IOPS at depth 32; about 50 us of its own per request; CPU 7% of a core at 1,200 IOPS.
 *
 * The image is opened O_DIRECT, so that the machine's memory does not answer in its place. Where the file
 * system that holds it refuses O_DIRECT (tmpfs before Linux 6.6, for one) it is opened without and stderr
 * says so: the modelled times stay right, because they are a floor, not a sum.
 *
 * SIGUSR1 suspends the model (full speed, for loading and warming up), SIGUSR2 resumes it.
 *
 * build: cc -O2 -o slowdisk slowdisk.c $(pkg-config --cflags --libs fuse3) -lpthread
 * usage: slowdisk BACKING MOUNTPOINT SPINDLES READ_SEEK_US WRITE_SEEK_US MB_PER_S [THREADS]
 */
#define _GNU_SOURCE
#define FUSE_USE_VERSION 312
#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse_lowlevel.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAX_SPINDLES 256
#define MAX_IO (1u << 20)
#define ROOT_INO 1
#define DISK_INO 2

static struct
{
	int			backing_fd;
	uint64_t	size;
	int			spindles;
	double		read_seek_ns;
	double		write_seek_ns;
	double		ns_per_byte;
	pthread_mutex_t lock;
	uint64_t	free_at[MAX_SPINDLES];	/* absolute ns at which the spindle is idle again */
	uint64_t	next_off[MAX_SPINDLES]; /* where a sequential request would start */
}			disk = {.lock = PTHREAD_MUTEX_INITIALIZER};

static volatile sig_atomic_t model_on = 1;

static void
on_signal(int sig)
{
	model_on = sig == SIGUSR2;
}

static uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t) t.tv_sec * 1000000000u + t.tv_nsec;
}

/* Books a request on a spindle; returns the absolute time at which it completes. */
static uint64_t
book(uint64_t off, size_t len, double seek_ns)
{
	uint64_t	arrived = now_ns();
	uint64_t	start,
				done;
	int			s = -1;

	if (!model_on)
		return arrived;
	pthread_mutex_lock(&disk.lock);
	for (int i = 0; i < disk.spindles; i++)
		if (disk.next_off[i] == off)
		{
			s = i;
			seek_ns = 0;
			break;
		}
	if (s < 0)
	{
		s = 0;
		for (int i = 1; i < disk.spindles; i++)
			if (disk.free_at[i] < disk.free_at[s])
				s = i;
	}
	start = disk.free_at[s] > arrived ? disk.free_at[s] : arrived;
	done = start + (uint64_t) (seek_ns + len * disk.ns_per_byte);
	disk.free_at[s] = done;
	disk.next_off[s] = off + len;
	pthread_mutex_unlock(&disk.lock);
	return done;
}

static void
sleep_until(uint64_t t)
{
	struct timespec ts = {t / 1000000000u, t % 1000000000u};

	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &ts, NULL) == EINTR)
		;
}

/* One aligned buffer for each thread, as O_DIRECT wants it. */
static void *
io_buffer(void)
{
	static __thread void *buf;

	if (!buf && posix_memalign(&buf, 4096, MAX_IO))
		buf = NULL;
	return buf;
}

static void
fill_attr(fuse_ino_t ino, struct stat *st)
{
	memset(st, 0, sizeof(*st));
	st->st_ino = ino;
	st->st_mode = ino == ROOT_INO ? S_IFDIR | 0755 : S_IFREG | 0600;
	st->st_nlink = ino == ROOT_INO ? 2 : 1;
	if (ino == DISK_INO)
	{
		st->st_size = disk.size;
		st->st_blksize = 4096;
		st->st_blocks = disk.size / 512;
	}
}

static void
op_init(void *user, struct fuse_conn_info *conn)
{
	(void) user;
	conn->max_background = conn->congestion_threshold = 256;
	conn->max_read = conn->max_write = MAX_IO;
	if (conn->capable & FUSE_CAP_ASYNC_DIO)
		conn->want |= FUSE_CAP_ASYNC_DIO;
}

static void
op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st;

	(void) fi;
	fill_attr(ino, &st);
	fuse_reply_attr(req, &st, 3600);
}

static void
op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int to_set, struct fuse_file_info *fi)
{
	(void) attr;
	(void) to_set;
	op_getattr(req, ino, fi);
}

static void
op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct fuse_entry_param e = {.ino = DISK_INO, .attr_timeout = 3600, .entry_timeout = 3600};

	if (parent != ROOT_INO || strcmp(name, "disk") != 0)
	{
		fuse_reply_err(req, ENOENT);
		return;
	}
	fill_attr(DISK_INO, &e.attr);
	fuse_reply_entry(req, &e);
}

static void
op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void) ino;
	fi->keep_cache = 1;
	fuse_reply_open(req, fi);
}

static void
op_read(fuse_req_t req, fuse_ino_t ino, size_t len, off_t off, struct fuse_file_info *fi)
{
	uint64_t	done = book(off, len, disk.read_seek_ns);
	void	   *buf = io_buffer();
	ssize_t		n = buf ? pread(disk.backing_fd, buf, len, off) : (errno = ENOMEM, -1);
	int			err = errno;

	(void) ino;
	(void) fi;
	sleep_until(done);
	if (n < 0)
		fuse_reply_err(req, err);
	else
		fuse_reply_buf(req, buf, n);
}

static void
op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t len, off_t off, struct fuse_file_info *fi)
{
	uint64_t	done = book(off, len, disk.write_seek_ns);
	void	   *buf = io_buffer();
	ssize_t		n = buf ? pwrite(disk.backing_fd, memcpy(buf, data, len), len, off) : (errno = ENOMEM, -1);
	int			err = errno;

	(void) ino;
	(void) fi;
	sleep_until(done);
	if (n < 0)
		fuse_reply_err(req, err);
	else
		fuse_reply_write(req, n);
}

static void
op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	(void) ino;
	(void) datasync;
	(void) fi;
	fuse_reply_err(req, fdatasync(disk.backing_fd) ? errno : 0);
}

static void
op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t off, off_t len, struct fuse_file_info *fi)
{
	(void) ino;
	(void) fi;
	fuse_reply_err(req, fallocate(disk.backing_fd, mode, off, len) ? errno : 0);
}

static const struct fuse_lowlevel_ops ops = {
	.init = op_init, .lookup = op_lookup, .getattr = op_getattr, .setattr = op_setattr, .open = op_open,
	.read = op_read, .write = op_write, .fsync = op_fsync, .fallocate = op_fallocate,
};

int
main(int argc, char **argv)
{
	struct stat st;
	int			threads = argc > 7 ? atoi(argv[7]) : 64;
	char	   *fuse_argv[] = {argv[0], "-o", "max_read=1048576,default_permissions", NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, fuse_argv);
	struct fuse_session *session;
	struct fuse_loop_config *config;
	int			rc;

	if (argc < 7 || atoi(argv[3]) < 1 || atoi(argv[3]) > MAX_SPINDLES || atof(argv[6]) <= 0)
	{
		fprintf(stderr, "usage: %s BACKING MOUNTPOINT SPINDLES(1-%d) READ_SEEK_US WRITE_SEEK_US MB_PER_S [THREADS]\n",
				argv[0], MAX_SPINDLES);
		return 2;
	}
	disk.spindles = atoi(argv[3]);
	disk.read_seek_ns = atof(argv[4]) * 1e3;
	disk.write_seek_ns = atof(argv[5]) * 1e3;
	disk.ns_per_byte = 1e3 / atof(argv[6]);
	memset(disk.next_off, 0xff, sizeof(disk.next_off));
	disk.backing_fd = open(argv[1], O_RDWR | O_DIRECT);
	if (disk.backing_fd < 0 && errno == EINVAL)
	{
		fprintf(stderr, "%s: no O_DIRECT on this file system, going through the page cache\n", argv[1]);
		disk.backing_fd = open(argv[1], O_RDWR);
	}
	if (disk.backing_fd < 0 || fstat(disk.backing_fd, &st))
	{
		perror(argv[1]);
		return 1;
	}
	disk.size = st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(disk.backing_fd, BLKGETSIZE64, &disk.size))
	{
		perror(argv[1]);
		return 1;
	}
	prctl(PR_SET_TIMERSLACK, 1UL);

	session = fuse_session_new(&args, &ops, sizeof(ops), NULL);
	if (!session || fuse_session_mount(session, argv[2]) || fuse_set_signal_handlers(session))
		return 1;
	signal(SIGUSR1, on_signal);
	signal(SIGUSR2, on_signal);
	config = fuse_loop_cfg_create();
	fuse_loop_cfg_set_max_threads(config, threads);
	fuse_loop_cfg_set_idle_threads(config, threads);
	rc = fuse_session_loop_mt(session, config);
	fuse_session_unmount(session);
	return rc;
}
