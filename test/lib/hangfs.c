/*
 * hangfs.c
 *	  A file system that hangs when its process is stopped: a folder as it is, by way of FUSE.
 *
 * usage: hangfs FOLDER MOUNTPOINT
 *
 * The kernel keeps names and attributes for an hour, so that a file is found
 * without asking, and opening it, reading and closing it are what hangs.  To
 * close a file is a request (flush), as in file systems that write back then.
 */
#define FUSE_USE_VERSION 31
#define _GNU_SOURCE

#include <errno.h>
#include <fcntl.h>
#include <fuse3/fuse.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int	folder;

static const char *
name_of(const char *path)
{
	return path[1] != '\0' ? path + 1 : ".";
}

static int
result(int rc)
{
	return rc < 0 ? -errno : 0;
}

static void *
on_init(struct fuse_conn_info *conn, struct fuse_config *config)
{
	(void) conn;
	config->use_ino = 1;
	config->direct_io = 1;
	config->entry_timeout = config->attr_timeout = 3600;
	return NULL;
}

static int
on_getattr(const char *path, struct stat *st, struct fuse_file_info *file)
{
	if (file != NULL)
		return result(fstat((int) file->fh, st));
	return result(fstatat(folder, name_of(path), st, AT_SYMLINK_NOFOLLOW));
}

static int
open_it(const char *path, int flags, mode_t mode, struct fuse_file_info *file)
{
	int			fd = openat(folder, name_of(path), flags & ~O_DIRECT, mode);

	if (fd < 0)
		return -errno;
	file->fh = (uint64_t) fd;
	return 0;
}

static int
on_open(const char *path, struct fuse_file_info *file)
{
	return open_it(path, file->flags, 0, file);
}

static int
on_create(const char *path, mode_t mode, struct fuse_file_info *file)
{
	int			rc = open_it(path, file->flags | O_CREAT, mode, file);

	if (rc == 0 && fchown((int) file->fh, fuse_get_context()->uid, fuse_get_context()->gid) != 0)
		rc = -errno;
	return rc;
}

static int
on_read(const char *path, char *memory, size_t bytes, off_t offset, struct fuse_file_info *file)
{
	ssize_t		n = pread((int) file->fh, memory, bytes, offset);

	(void) path;
	return n < 0 ? -errno : (int) n;
}

static int
on_write(const char *path, const char *memory, size_t bytes, off_t offset, struct fuse_file_info *file)
{
	ssize_t		n = pwrite((int) file->fh, memory, bytes, offset);

	(void) path;
	return n < 0 ? -errno : (int) n;
}

static int
on_truncate(const char *path, off_t bytes, struct fuse_file_info *file)
{
	int			fd = file != NULL ? (int) file->fh : openat(folder, name_of(path), O_WRONLY);
	int			rc = fd < 0 ? -errno : result(ftruncate(fd, bytes));

	if (file == NULL && fd >= 0)
		close(fd);
	return rc;
}

static int
on_fallocate(const char *path, int mode, off_t offset, off_t bytes, struct fuse_file_info *file)
{
	(void) path;
	return result(fallocate((int) file->fh, mode, offset, bytes));
}

static int
on_fsync(const char *path, int data, struct fuse_file_info *file)
{
	(void) path;
	(void) data;
	return result(fdatasync((int) file->fh));
}

static int
on_flush(const char *path, struct fuse_file_info *file)
{
	(void) path;
	return result(close(dup((int) file->fh)));
}

static int
on_release(const char *path, struct fuse_file_info *file)
{
	(void) path;
	return result(close((int) file->fh));
}

static int
on_unlink(const char *path)
{
	return result(unlinkat(folder, name_of(path), 0));
}

static int
on_statfs(const char *path, struct statvfs *fs)
{
	(void) path;
	return result(fstatvfs(folder, fs));
}

static const struct fuse_operations operations = {
	.init = on_init,
	.getattr = on_getattr,
	.open = on_open,
	.create = on_create,
	.read = on_read,
	.write = on_write,
	.truncate = on_truncate,
	.fallocate = on_fallocate,
	.fsync = on_fsync,
	.flush = on_flush,
	.release = on_release,
	.unlink = on_unlink,
	.statfs = on_statfs,
};

int
main(int argc, char **argv)
{
	char	   *args[] = {argv[0], "-f", "-o", "allow_other,default_permissions,fsname=hangfs", argc > 2 ? argv[2] : "", NULL};

	if (argc != 3)
	{
		fprintf(stderr, "usage: hangfs FOLDER MOUNTPOINT\n");
		return 2;
	}
	folder = open(argv[1], O_RDONLY | O_DIRECTORY);
	if (folder < 0)
	{
		perror(argv[1]);
		return 1;
	}
	return fuse_main(5, args, &operations, NULL);
}
