/*-------------------------------------------------------------------------
 *
 * store_mount.c
 *	  See store_mount.h.
 *
 * A line of /proc/self/mountinfo, as proc(5) has it:
 *
 *		36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw
 *		number, that of its parent, file system, folder of the file system
 *		that is mounted, where it is mounted
 *
 * The number of the mount by which a descriptor was opened is in its fdinfo,
 * and its name there is where /proc/self/fd leads to.  The name without the
 * place of the mount, behind the folder that is mounted, is the name within
 * the file system, and that does not depend on mounts.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store/store_mount.h"

#define TABLE "/proc/self/mountinfo"
#define LINE_MAX_BYTES (3 * PATH_MAX)

typedef struct Mount
{
	int			id;
	char		system[32];		/* major:minor */
	char		root[PATH_MAX]; /* in the file system */
	char		at[PATH_MAX];
} Mount;

/* A place in a file system. */
typedef struct Place
{
	Mount		mount;			/* by which it was reached */
	char		name[PATH_MAX]; /* by all mounts */
	char		inside[PATH_MAX];	/* in the file system */
} Place;

char *
fc_mount_table(void)
{
	size_t		size = 65536;
	size_t		used = 0;
	char	   *table = malloc(size);
	int			fd = open(TABLE, O_RDONLY | O_CLOEXEC);
	ssize_t		n = -1;

	while (fd >= 0 && table != NULL && (n = read(fd, table + used, size - used - 1)) > 0)
	{
		used += n;
		if (size - used < 4096)
		{
			char	   *larger = realloc(table, size *= 2);

			if (larger == NULL)
				free(table);
			table = larger;
		}
	}
	if (fd >= 0)
		close(fd);
	if (n != 0 || used == 0)
	{
		free(table);
		return NULL;
	}
	table[used] = '\0';
	return table;
}

/* Blanks and the like are written as \040. */
static void
unescape(char *s)
{
	char	   *to = s;

	for (; *s; s++)
	{
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' && s[3] >= '0' && s[3] <= '7')
		{
			*to++ = (char) ((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 3;
		}
		else
			*to++ = *s;
	}
	*to = '\0';
}

/* The mount of the next line that is understood; NULL after the last. */
static const char *
next_mount(const char *table, Mount *mount)
{
	Assert(table != NULL);
	while (*table)
	{
		const char *line = table;
		const char *end = strchr(line, '\n');
		char		copy[LINE_MAX_BYTES];
		char	   *rest;
		size_t		len = end ? (size_t) (end - line) : strlen(line);

		table += len + (end ? 1 : 0);
		if (len >= sizeof(copy))
			continue;
		memcpy(copy, line, len);
		copy[len] = '\0';
		mount->id = (int) strtol(copy, &rest, 10);
		if (rest == copy || sscanf(rest, " %*s %31s %4095s %4095s", mount->system, mount->root, mount->at) != 3)
			continue;
		unescape(mount->root);
		unescape(mount->at);
		return table;
	}
	return NULL;
}

/* What follows `above` in the name of something that is it or below it; NULL if it is neither. */
static const char *
below(const char *name, const char *above)
{
	size_t		len = strlen(above);

	if (len > 0 && above[len - 1] == '/')
		len--;					/* the root */
	if (strncmp(name, above, len) != 0 || (name[len] != '\0' && name[len] != '/'))
		return NULL;
	return name[len] == '/' && name[len + 1] == '\0' ? name + len + 1 : name + len;
}

/* Number of the mount, or -1. */
static int
mount_of(int fd)
{
	char		path[64];
	char		info_text[512];
	char	   *found;
	int			info;
	ssize_t		n;

	Assert(fd >= 0);
	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	info = open(path, O_RDONLY | O_CLOEXEC);
	if (info < 0)
		return -1;
	n = read(info, info_text, sizeof(info_text) - 1);
	close(info);
	info_text[Max(n, 0)] = '\0';
	found = strstr(info_text, "mnt_id:");
	return found != NULL ? (int) strtol(found + strlen("mnt_id:"), NULL, 10) : -1;
}

static bool
find_mount(const char *table, int fd, Mount *mount)
{
	int			id = mount_of(fd);

	while (id >= 0 && table != NULL && (table = next_mount(table, mount)) != NULL)
		if (mount->id == id)
			return true;
	return false;
}

static bool
find_place(const char *table, int fd, Place *place)
{
	char		link[64];
	const char *rest;
	ssize_t		n;

	if (!find_mount(table, fd, &place->mount))
		return false;
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, place->name, sizeof(place->name) - 1);
	if (n <= 0)
		return false;
	place->name[n] = '\0';
	rest = below(place->name, place->mount.at);
	return rest != NULL &&
		snprintf(place->inside, sizeof(place->inside), "%s%s",
				 strcmp(place->mount.root, "/") == 0 ? "" : place->mount.root, rest) < sizeof(place->inside);
}

bool
fc_mount_within(const char *table, int fd, int folder)
{
	Place		place;
	Place		whole;
	Mount		mount;

	if (!find_place(table, fd, &place) || !find_place(table, folder, &whole))
		return false;
	if (strcmp(place.mount.system, whole.mount.system) == 0 && below(place.inside, whole.inside) != NULL)
		return true;
	while ((table = next_mount(table, &mount)) != NULL)
		if (strcmp(place.mount.system, mount.system) == 0 &&
			below(mount.at, whole.name) != NULL && mount.id != whole.mount.id &&
			below(place.inside, mount.root) != NULL)
			return true;
	return false;
}

bool
fc_mount_same_system(const char *table, int fd, int other)
{
	Mount		mine;
	Mount		its;
	struct stat st;
	struct stat other_st;

	if (find_mount(table, fd, &mine) && find_mount(table, other, &its))
		return strcmp(mine.system, its.system) == 0;
	return fstat(fd, &st) == 0 && fstat(other, &other_st) == 0 && st.st_dev == other_st.st_dev;
}
