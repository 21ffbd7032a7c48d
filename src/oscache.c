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
#include <sys/uio.h>
#include <unistd.h>

#include "oscache.h"

#ifndef SYS_cachestat
#define SYS_cachestat 451		/* the same number on all architectures */
#endif

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x8
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

/* By reading what can be had without waiting. */
static FcHeld
peek(int fd, off_t offset)
{
#ifdef __linux__
	static char page[BLCKSZ];
	struct iovec iov = {page, BLCKSZ};
	ssize_t		n = preadv2(fd, &iov, 1, offset, RWF_NOWAIT);

	if (n == BLCKSZ)
		return FC_HELD_YES;
	if (n > 0 || (n < 0 && errno == EAGAIN))
		return FC_HELD_NO;
#endif
	return FC_HELD_UNKNOWN;
}

FcHeld
fc_oscache_page(int fd, off_t offset)
{
	bool		holds = fc_oscache_holds(fd, offset, BLCKSZ);

	if (!available)
		return peek(fd, offset);
	return holds ? FC_HELD_YES : FC_HELD_NO;
}
