/*
 * test_machine.c
 *	  machine.c on made-up files of /proc and /sys.
 */
#include "check.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "machine.h"

#define GB (UINT64_C(1) << 30)
#define MEMINFO "MemTotal:       16777216 kB\nMemFree:         1048576 kB\n"

static char root[64];

/* A new tree. */
static void
begin(void)
{
	strcpy(root, "/tmp/fc-machine.XXXXXX");
	if (mkdtemp(root) == NULL)
		abort();
}

/* Makes a file of the tree, and the folders on the way. */
static void
put(const char *path, const char *text)
{
	char		name[512];
	FILE	   *file;

	snprintf(name, sizeof(name), "%s%s", root, path);
	for (char *slash = name + strlen(root) + 1; (slash = strchr(slash, '/')) != NULL; slash++)
	{
		*slash = '\0';
		if (mkdir(name, 0700) != 0 && errno != EEXIST)
			abort();
		*slash = '/';
	}
	file = fopen(name, "w");
	if (file == NULL)
		abort();
	fputs(text, file);
	fclose(file);
}

/* The answer, and an end of the tree. */
static uint64_t
end(void)
{
	char		command[128];
	uint64_t	memory = fc_machine_memory(root);

	snprintf(command, sizeof(command), "rm -r '%s'", root);
	if (system(command) != 0)
		abort();
	return memory;
}

int
main(void)
{
	begin();
	check(end() == 0, "nothing to read: unknown");

	begin();
	put("/proc/meminfo", MEMINFO);
	check(end() == 16 * GB, "no control group: the machine");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/memory.max", "max\n");
	put("/sys/fs/cgroup/system.slice/memory.max", "max\n");
	check(end() == 16 * GB, "version 2 without a limit: the machine");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "0::/system.slice/postgresql.service\n");
	put("/sys/fs/cgroup/system.slice/postgresql.service/memory.max", "4294967296\n");
	put("/sys/fs/cgroup/system.slice/memory.max", "8589934592\n");
	check(end() == 4 * GB, "version 2: its own limit");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "0::/a/b/c\n");
	put("/sys/fs/cgroup/a/b/c/memory.max", "max\n");
	put("/sys/fs/cgroup/a/b/memory.max", "8589934592\n");
	put("/sys/fs/cgroup/a/memory.max", "2147483648\n");
	check(end() == 2 * GB, "version 2: the limit of a group above");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "1073741824\n");
	check(end() == 1 * GB, "version 2 in a container: the root is its group");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "5:devices:/\n4:cpu,memory:/docker/0123\n1:name=memory-like:/x\n0::/\n");
	put("/sys/fs/cgroup/memory/docker/0123/memory.limit_in_bytes", "3221225472\n");
	put("/sys/fs/cgroup/memory/docker/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	check(end() == 3 * GB, "version 1: among other hierarchies");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "4:memory:/docker/0123\n");
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
	check(end() == GB / 2, "version 1 in a container: the path is the host's, the root is its group");

	begin();
	put("/proc/meminfo", MEMINFO);
	put("/proc/self/cgroup", "4:memory:/a\n3:xmemory,memoryx:/b\n");
	put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "4096\n");
	check(end() == 16 * GB, "version 1 without a limit, and controllers with similar names");

	begin();
	put("/proc/meminfo", "MemFree: 5 kB\n");
	put("/proc/self/cgroup", "nonsense\n0:\n0::\n");
	put("/sys/fs/cgroup/memory.max", "\n");
	check(end() == 0, "nonsense: unknown");

	check(fc_machine_can_map(1 << 20, 0), "a megabyte can be mapped");
	check(!fc_machine_can_map(SIZE_MAX / 2, 0), "half of all addresses can't");
	check(fc_machine_can_share(1 << 20, false), "a megabyte of System V's can be had");
	check(!fc_machine_can_share(SIZE_MAX / 2, false), "half of all addresses can't");
	return done();
}
