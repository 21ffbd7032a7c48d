/*-------------------------------------------------------------------------
 *
 * machine.c
 *	  See machine.h.
 *
 * What can't be read, or is not there, is no limit.  In a container the path
 * of the control group may be that of the host, of which the container sees
 * only the end, mounted as the root; so the limit of the root counts, too.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>

#define PATH_LEN 4096

/* The number in a file of one line; 0 if there is none, as in "max". */
static uint64_t
number_in(const char *path)
{
	char		line[64];
	FILE	   *file = fopen(path, "re");
	uint64_t	n = 0;

	if (file == NULL)
		return 0;
	if (fgets(line, sizeof(line), file) != NULL)
		n = strtoull(line, NULL, 10);
	(void) fclose(file);
	return n;
}

static void
lower(uint64_t *least, uint64_t limit)
{
	if (limit != 0 && (*least == 0 || limit < *least))
		*least = limit;
}

/* The limits of a group and of all above it, up to the root of its hierarchy. */
static void
lower_by_group(uint64_t *least, const char *root, const char *mount, const char *group, const char *limit)
{
	char		path[PATH_LEN];
	size_t		len = strlen(group);

	for (;;)
	{
		while (len > 0 && group[len - 1] == '/')
			len--;
		if (snprintf(path, sizeof(path), "%s%s%.*s/%s", root, mount, (int) len, group, limit) < (int) sizeof(path))
			lower(least, number_in(path));
		if (len == 0)
			return;
		while (len > 0 && group[len - 1] != '/')
			len--;
	}
}

/* Is the word in a list with commas between? */
static bool
listed(const char *list, const char *word)
{
	size_t		len = strlen(word);

	for (const char *at = list; (at = strstr(at, word)) != NULL; at += len)
		if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
			return true;
	return false;
}

/* Lines are HIERARCHY:CONTROLLERS:PATH; version 2 has hierarchy 0 and no controllers. */
static void
lower_by_groups(uint64_t *least, const char *root)
{
	char		line[PATH_LEN];
	FILE	   *file;

	if (snprintf(line, sizeof(line), "%s/proc/self/cgroup", root) >= (int) sizeof(line))
		return;
	file = fopen(line, "re");
	if (file == NULL)
		return;
	while (fgets(line, sizeof(line), file) != NULL)
	{
		char	   *controllers = strchr(line, ':');
		char	   *group = controllers ? strchr(controllers + 1, ':') : NULL;

		if (group == NULL)
			continue;
		*group++ = '\0';
		controllers++;
		group[strcspn(group, "\n")] = '\0';
		if (controllers[0] == '\0')
			lower_by_group(least, root, "/sys/fs/cgroup", group, "memory.max");
		else if (listed(controllers, "memory"))
			lower_by_group(least, root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes");
	}
	(void) fclose(file);
}

uint64_t
fc_machine_memory(const char *root)
{
	static const char total[] = "MemTotal:";
	char		line[PATH_LEN];
	FILE	   *file = NULL;
	uint64_t	kb = 0;
	uint64_t	least;

	if (snprintf(line, sizeof(line), "%s/proc/meminfo", root) < (int) sizeof(line))
		file = fopen(line, "re");
	if (file != NULL)
	{
		while (fgets(line, sizeof(line), file) != NULL)
			if (strncmp(line, total, strlen(total)) == 0)
				kb = strtoull(line + strlen(total), NULL, 10);
		(void) fclose(file);
	}
	least = kb * 1024;
	lower_by_groups(&least, root);
	return least;
}

bool
fc_machine_can_map(size_t bytes, int flags)
{
	void	   *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | flags, -1, 0);

	if (memory == MAP_FAILED)
		return false;
	(void) munmap(memory, bytes);
	return true;
}

bool
fc_machine_can_share(size_t bytes, bool huge)
{
	int			id = shmget(IPC_PRIVATE, bytes, IPC_CREAT | IPC_EXCL | 0600 | (huge ? SHM_HUGETLB : 0));

	if (id < 0)
		return false;
	(void) shmctl(id, IPC_RMID, NULL);
	return true;
}
