/*-------------------------------------------------------------------------
 *
 * oscache.c
 *	  See oscache.h.
 *
 * The structures are the kernel's ABI; distributions older than the call do
 * not declare them.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "oscache.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451		/* the same number on all architectures */
#endif

struct cachestat_range
{
	uint64		off;
	uint64		len;
};

struct cachestat
{
	uint64		nr_cache;		/* pages, not counting those below */
	uint64		nr_dirty;
	uint64		nr_writeback;
	uint64		nr_evicted;
	uint64		nr_recently_evicted;
};

static bool available = true;

bool
fc_oscache_available(void)
{
	return available;
}

bool
fc_oscache_holds(int fd, off_t offset, size_t len)
{
	static long page_size = 0;
	struct cachestat_range range = {offset, len};
	struct cachestat answer;

	if (!available)
		return false;
	if (page_size == 0)
		page_size = sysconf(_SC_PAGESIZE);
	if (syscall(SYS_cachestat, fd, &range, &answer, 0) != 0)
	{
		if (errno == ENOSYS || errno == EPERM || errno == EOPNOTSUPP)
			available = false;
		return false;
	}
	return answer.nr_cache >= (len + page_size - 1) / page_size;
}
