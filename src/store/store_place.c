/*-------------------------------------------------------------------------
 *
 * store_place.c
 *	  See store_place.h.
 *
 * The path is walked folder by folder, each opened relative to the one before
 * it and looked at once it is open.  So what was checked is what is used:
 * there is no moment between the two.  Whoever may change one of the folders,
 * or a symbolic link on the way, could lead the server to another place, and
 * have it write over a file of its own there.  Hence each must belong to root
 * or to the server's user, and nobody else may write to it, unless the sticky
 * bit protects what lies in it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "miscadmin.h"
#include "store/store_foreign.h"
#include "store/store_mount.h"
#include "store/store_place.h"

/* These are in no header. */
#define CONFIGFS_MAGIC 0x62656570
#define MQUEUE_MAGIC 0x19800202

#define MAX_LINKS 40			/* as the kernel */

#define FOLDER_FLAGS (O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

#define NO_FILE_HINT fc_place_hint("Name a regular file or a block device, and restart the server.", \
								   "Name a regular file or a block device.", NULL)

/* In the device process, of what is being opened; in a session, of what it could not open. */
static FcPlaceFor place_for = FC_FOR_FIRST;

void
fc_place_for(FcPlaceFor what)
{
	place_for = what;
}

const char *
fc_place_hint(const char *first, const char *added, const char *listed)
{
	if (place_for == FC_FOR_FIRST)
		return first;
	return place_for == FC_FOR_LISTED && listed != NULL ? listed : added;
}

#define OWNERS_HINT "Everything on the way to the file must belong to root or to the server's user."

/* A walk along a path. */
typedef struct Walk
{
	const char *path;			/* the whole path, for messages */
	int			fd;				/* where it has got to */
	char		at[PATH_MAX];	/* the same in words */
	char		rest[PATH_MAX]; /* what is still to go */
	int			links;			/* symbolic links so far */
	FcForeign	foreign;		/* of a server, on the way */
} Walk;

static bool
cannot_be_found(const Walk *walk, FcReason *error)
{
	int			why = errno;
	bool		in_dev = walk->fd >= 0 && fc_place_in_dev(walk->fd);

	errno = why;
	return fc_fail(error, in_dev ? DEVICE_HINT :
				   "Check that the flash device is mounted. If it is, create the folder there, owned by the server's user.",
				   "folder of \"%s\" cannot be found: %m", walk->path);
}

static bool
is_trusted(uid_t owner)
{
	return owner == 0 || owner == geteuid();
}

/* Who is in one of our groups may be as trusted as the group is. */
static bool
is_trusted_group(gid_t group)
{
	return group == 0 || group == getegid() || group_member(group);
}

static bool
check_folder(const Walk *walk, FcReason *error)
{
	const char *name = walk->at[0] ? walk->at : "/";
	struct stat st;

	Assert(walk->fd >= 0);
	if (fstat(walk->fd, &st) != 0)
		return cannot_be_found(walk, error);
	if (!is_trusted(st.st_uid))
		return fc_fail(error, OWNERS_HINT, "folder \"%s\" belongs to another user", name);
	/* of a sticky folder only who owns a thing can remove it */
	if ((st.st_mode & S_ISVTX) == 0 &&
		((st.st_mode & S_IWOTH) != 0 ||
		 ((st.st_mode & S_IWGRP) != 0 && !is_trusted_group(st.st_gid))))
		return fc_fail_restart(error, fc_place_hint("Take the right to write from the others (chmod go-w) and call pg_flashcache_enable(), or choose another folder and restart the server.",
													"Take the right to write from the others (chmod go-w), or choose another folder.", NULL),
							   "other users may write to folder \"%s\"", name);
	return true;
}

/* Puts the target of a link in front of what is still to go. */
static bool
follow_link(Walk *walk, int link, const char *name, FcReason *error)
{
	char		target[PATH_MAX];
	char		rest[PATH_MAX];
	struct stat st;
	ssize_t		n;

	Assert(link >= 0 && walk->fd >= 0);
	if (fstat(link, &st) != 0)
		return cannot_be_found(walk, error);
	if (!S_ISLNK(st.st_mode))
	{
		errno = ENOTDIR;
		return cannot_be_found(walk, error);
	}
	if (!is_trusted(st.st_uid))
		return fc_fail(error, OWNERS_HINT, "symbolic link \"%s/%s\" belongs to another user",
					   walk->at, name);
	n = readlinkat(link, "", target, sizeof(target) - 1);
	if (n < 0)
		return cannot_be_found(walk, error);
	target[n] = '\0';
	if (++walk->links > MAX_LINKS)
	{
		errno = ELOOP;
		return cannot_be_found(walk, error);
	}
	strlcpy(rest, walk->rest, sizeof(rest));
	if (snprintf(walk->rest, sizeof(walk->rest), "%s/%s", target, rest) >= sizeof(walk->rest))
	{
		errno = ENAMETOOLONG;
		return cannot_be_found(walk, error);
	}
	return true;
}

static void
go_to(Walk *walk, int fd, const char *name)
{
	Assert(fd >= 0 && fd != walk->fd);
	Assert(name == NULL || (name[0] != '\0' && strchr(name, '/') == NULL));
	if (walk->fd >= 0)
		close(walk->fd);
	walk->fd = fd;
	if (name == NULL)
		walk->at[0] = '\0';
	else
	{
		strlcat(walk->at, "/", sizeof(walk->at));
		strlcat(walk->at, name, sizeof(walk->at));
	}
	fc_foreign_come_to(&walk->foreign, fd, walk->at[0] ? walk->at : "/", name);
}

/* Begins at the root if what is to go does. */
static bool
start_at_root(Walk *walk, FcReason *error)
{
	int			fd;

	if (walk->rest[0] != '/')
		return true;
	fd = open("/", FOLDER_FLAGS);
	if (fd < 0)
		return cannot_be_found(walk, error);
	go_to(walk, fd, NULL);
	return check_folder(walk, error);
}

/* One name further. */
static bool
step(Walk *walk, FcReason *error)
{
	char		name[NAME_MAX + 1];
	char	   *begin = walk->rest + strspn(walk->rest, "/");
	size_t		len = strcspn(begin, "/");
	int			fd;
	int			link;
	bool		ok;

	Assert(walk->fd >= 0);		/* the path begins with / */
	if (len > NAME_MAX)
	{
		errno = ENAMETOOLONG;
		return cannot_be_found(walk, error);
	}
	memcpy(name, begin, len);
	name[len] = '\0';
	memmove(walk->rest, begin + len, strlen(begin + len) + 1);
	if (len == 0 || strcmp(name, ".") == 0)
		return true;

	/* O_DIRECTORY has automatic mounts made, which O_PATH alone has not */
	fd = openat(walk->fd, name, FOLDER_FLAGS);
	if (fd >= 0)
	{
		go_to(walk, fd, name);
		return check_folder(walk, error);
	}
	if (errno != ENOTDIR && errno != ELOOP)
		return cannot_be_found(walk, error);
	link = openat(walk->fd, name, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (link < 0)
		return cannot_be_found(walk, error);
	ok = follow_link(walk, link, name, error);
	close(link);
	return ok && start_at_root(walk, error);
}

/* Is that folder the other one, or below it, as far as the mount goes by which it was reached?  Names don't matter. */
static bool
lies_below(int at, int folder)
{
	struct stat wanted;
	struct stat st;
	struct stat above;
	bool		found = false;
	int			fd;

	Assert(at >= 0 && folder >= 0);
	if (fstat(folder, &wanted) != 0)
		return false;
	fd = openat(at, ".", FOLDER_FLAGS);
	while (fd >= 0 && !found && fstat(fd, &st) == 0)
	{
		int			up;

		found = st.st_dev == wanted.st_dev && st.st_ino == wanted.st_ino;
		up = openat(fd, "..", FOLDER_FLAGS);
		close(fd);
		fd = up;
		if (fd >= 0 && fstat(fd, &above) == 0 &&
			above.st_dev == st.st_dev && above.st_ino == st.st_ino)
			break;				/* the root is above itself */
	}
	if (fd >= 0)
		close(fd);
	return found;
}

/* Is the folder or file in the folder that `path` leads to, by whatever mounts? */
static bool
lies_in(int at, const char *table, const char *path)
{
	int			folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool		found;

	if (folder < 0)
		return false;
	found = lies_below(at, folder) || fc_mount_within(table, at, folder);
	close(folder);
	return found;
}

/* Or in one that a symbolic link in that folder leads to? */
static bool
lies_in_links(int at, const char *table, const char *path)
{
	char		name[MAXPGPATH * 2];
	DIR		   *d = opendir(path);
	struct dirent *de;
	bool		found = false;

	while (d != NULL && !found && (de = readdir(d)) != NULL)
	{
		if (de->d_name[0] == '.' || (de->d_type != DT_LNK && de->d_type != DT_UNKNOWN))
			continue;
		snprintf(name, sizeof(name), "%s/%s", path, de->d_name);
		found = lies_in(at, table, name);
	}
	if (d != NULL)
		closedir(d);
	return found;
}

bool
fc_place_check_foreign(int at, const char *path, FcReason *error)
{
	char	   *table = fc_mount_table();
	char		wal[MAXPGPATH];
	char		spaces[MAXPGPATH];
	char		base[MAXPGPATH];
	bool		ok = true;

	Assert(at >= 0 && path[0] == '/');
	snprintf(wal, sizeof(wal), "%s/pg_wal", DataDir);
	snprintf(spaces, sizeof(spaces), "%s/pg_tblspc", DataDir);
	snprintf(base, sizeof(base), "%s/base", DataDir);
	if (lies_in(at, table, DataDir))
		ok = fc_fail_restart(error, fc_place_hint("Choose a path on local flash outside the data directory, and restart the server.",
												  "Choose a path on local flash outside the data directory.", NULL),
							 "\"%s\" lies inside the data directory", path);
	else if (lies_in(at, table, wal))
		ok = fc_fail_restart(error, fc_place_hint("Choose a path on local flash outside the data directory, and restart the server.",
												  "Choose a path on local flash outside the data directory.", NULL),
							 "\"%s\" lies inside the folder of the write-ahead log", path);
	else if (lies_in_links(at, table, spaces))
		ok = fc_fail_restart(error, fc_place_hint("Choose a path that is no tablespace, and restart the server.",
												  "Choose a path that is no tablespace.", NULL),
							 "\"%s\" lies inside a tablespace", path);
	else if (lies_in_links(at, table, DataDir) || lies_in_links(at, table, base))
		ok = fc_fail_restart(error, fc_place_hint("Choose a path that no symbolic link in the data directory leads to, and restart the server.",
												  "Choose a path that no symbolic link in the data directory leads to.", NULL),
							 "\"%s\" lies inside the data directory", path);
	free(table);
	return ok;
}

static bool
shares_with(int at, const char *table, const char *path)
{
	int			folder = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	bool		same = folder >= 0 && fc_mount_same_system(table, at, folder);

	if (folder >= 0)
		close(folder);
	return same;
}

const char *
fc_place_shares(int at)
{
	char	   *table = fc_mount_table();
	char		wal[MAXPGPATH];
	const char *with = "";

	Assert(at >= 0);
	snprintf(wal, sizeof(wal), "%s/pg_wal", DataDir);
	if (shares_with(at, table, DataDir))
		with = "the data directory";
	else if (shares_with(at, table, wal))
		with = "the write-ahead log";
	else if (shares_with(at, table, "/"))
		with = "the root directory";
	free(table);
	return with;
}

bool
fc_place_in_dev(int folder)
{
	int			dev = open("/dev", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat st;
	struct stat dev_st;
	bool		found;

	if (dev < 0)
		return false;
	found = fstat(dev, &dev_st) == 0 && fstat(folder, &st) == 0 && st.st_dev == dev_st.st_dev && lies_below(folder, dev);
	close(dev);
	return found;
}

/*
 * Is the folder on a file system that has no blocks, where files are a way to
 * talk to the kernel?  To open one may do something, to write to it even more;
 * as a rule they seem to be empty.
 */
static bool
is_of_kernel(int folder)
{
	static const uint32 types[] = {
		PROC_SUPER_MAGIC, SYSFS_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC, SECURITYFS_MAGIC, SELINUX_MAGIC, CGROUP_SUPER_MAGIC,
		CGROUP2_SUPER_MAGIC, BPF_FS_MAGIC, PSTOREFS_MAGIC, EFIVARFS_MAGIC, BINFMTFS_MAGIC, DEVPTS_SUPER_MAGIC,
		CONFIGFS_MAGIC, MQUEUE_MAGIC
	};
	struct statfs fs;

	if (fstatfs(folder, &fs) != 0)
		return false;
	for (int i = 0; i < lengthof(types); i++)
		if ((uint32) fs.f_type == types[i])
			return true;
	return false;
}

/* Not only this server's: fc_place_check_foreign() knows more of that, and says so. */
static bool
check_servers(const FcForeign *foreign, FcReason *error)
{
	const char *hint;

	if (foreign->kind == FC_FOREIGN_NONE)
		return true;
	hint = fc_place_hint("Choose a path outside all data directories and tablespaces, and restart the server.",
						 "Choose a path outside all data directories and tablespaces.",
						 "pg_flashcache_remove_device(), then pg_flashcache_add_device() with a path outside all data directories and tablespaces.");
	if (foreign->kind == FC_FOREIGN_TABLESPACE)
		return fc_fail_restart(error, hint, "folder \"%s\" is a part of a tablespace of PostgreSQL", foreign->folder);
	return fc_fail_restart(error, hint, "folder \"%s\" is a data directory of PostgreSQL, or a part of one: it has a PG_VERSION",
						   foreign->folder);
}

int
fc_place_open(const char *path, const char **name, FcReason *error)
{
	Walk		walk = {
		.path = path,
		.fd = -1
	};
	const char *slash = strrchr(path, '/');
	bool		ok;

	Assert(path[0] == '/');
	*name = slash + 1;
	if (strlen(path) >= MAXPGPATH)
	{
		errno = ENAMETOOLONG;
		cannot_be_found(&walk, error);
		return -1;
	}
	memcpy(walk.rest, path, *name - path);
	for (ok = start_at_root(&walk, error); ok && walk.rest[0] != '\0';)
		ok = step(&walk, error);
	if (ok && **name == '\0')
		ok = fc_fail_restart(error, NO_FILE_HINT, "\"%s\" is a folder", path);
	if (ok && is_of_kernel(walk.fd))
		ok = fc_fail_restart(error, NO_FILE_HINT, "\"%s\" is on a file system of the kernel's own, which stores nothing", path);
	if (ok)
		ok = fc_place_check_foreign(walk.fd, path, error) && check_servers(&walk.foreign, error);
	Assert(!ok || walk.fd >= 0);
	if (ok)
		return walk.fd;
	if (walk.fd >= 0)
		close(walk.fd);
	return -1;
}

static bool
check_device(const char *path, const struct stat *st, FcReason *error)
{
	Assert(S_ISBLK(st->st_mode));

	/*
	 * its group is as a rule that of the machine's disks, which may read all
	 * of them anyway
	 */
	if (!is_trusted(st->st_uid))
		return fc_fail(error, "Give the device to the server's user, with a udev rule that lasts.",
					   "block device \"%s\" belongs to another user", path);
	if (st->st_mode & S_IRWXO)
		return fc_fail(error, "Use chmod o=, with a udev rule that lasts.",
					   "block device \"%s\" is accessible to all users", path);
	return true;
}

bool
fc_place_check(const char *path, const struct stat *st, FcReason *error)
{
	if (S_ISBLK(st->st_mode))
		return check_device(path, st, error);
	if (S_ISLNK(st->st_mode))
		return fc_fail_restart(error, fc_place_hint("Symbolic links are refused: name the file or the device itself, and restart the server.",
													"Symbolic links are refused: name the file or the device itself.", NULL),
							   "\"%s\" is a symbolic link", path);
	if (S_ISDIR(st->st_mode))
		return fc_fail_restart(error, NO_FILE_HINT, "\"%s\" is a folder", path);
	if (!S_ISREG(st->st_mode))
		return fc_fail_restart(error, NO_FILE_HINT, "\"%s\" is neither a regular file nor a block device", path);
	if (st->st_uid != geteuid())
		return fc_fail_restart(error, fc_place_hint("If this is the cache's file, give it to the server's user (chown) and call pg_flashcache_enable(); else choose another path and restart the server.",
													"If this is a file of the cache, give it to the server's user (chown); else choose another path.", NULL),
							   "\"%s\" belongs to another user", path);
	if (st->st_mode & (S_IRWXG | S_IRWXO))
		return fc_fail_restart(error, fc_place_hint("If this is the cache's file, use chmod 600 and call pg_flashcache_enable(); else choose another path and restart the server.",
													"If this is a file of the cache, use chmod 600; else choose another path.", NULL),
							   "\"%s\" is accessible to other users", path);
	if (st->st_nlink > 1)
		return fc_fail_restart(error, fc_place_hint("If this is the cache's file, remove its other names (find -samefile) and call pg_flashcache_enable(); else choose another path and restart the server.",
													"If this is a file of the cache, remove its other names (find -samefile); else choose another path.", NULL),
							   "\"%s\" has other names (hard links)", path);
	return true;
}
