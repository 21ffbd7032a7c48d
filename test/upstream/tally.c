/*-------------------------------------------------------------------------
 *
 * tally.c
 *	  Writes down what the cache of a server has counted, when it ends.
 *
 * For PostgreSQL's own TAP suites, whose clusters are stopped at once, crash
 * and are thrown away, and in which no extension may be created: the counters
 * have to be taken from shared memory before that goes.  Preloaded beside
 * pg_flashcache by bin/pg_ctl.  One line for each life of the shared memory,
 * a restart after a crash included, is added to the file FC_TALLY; only a
 * postmaster that is killed itself writes none.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <unistd.h>

#include "fmgr.h"
#include "miscadmin.h"
#include "stats/stats.h"
#include "storage/ipc.h"
#include "storage/shmem.h"

#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif

PG_MODULE_MAGIC;

PGDLLEXPORT void _PG_init(void);

static shmem_startup_hook_type next_shmem_startup = NULL;
static FcStats *stats = NULL;

static uint64
sum(FcCounter counter)
{
	uint64		n = 0;

	for (int s = 0; s < FC_STRIPES; s++)
		n += pg_atomic_read_u64(&stats->stripe[s].counter[counter]);
	return n;
}

/* In the postmaster, when the shared memory is about to go. */
static void
tell(int code, Datum arg)
{
	const char *file = getenv("FC_TALLY");
	char		line[MAXPGPATH + 512];
	int			len;
	int			fd;

	if (IsUnderPostmaster || file == NULL)
		return;
	len = snprintf(line, sizeof(line), "%s %llu %llu %llu %llu %llu %llu %llu %llu %llu\n", DataDir,
				   (unsigned long long) sum(FC_HITS), (unsigned long long) sum(FC_MISSES),
				   (unsigned long long) sum(FC_INSERTS), (unsigned long long) sum(FC_VERIFY_CHECKS),
				   (unsigned long long) sum(FC_VERIFY_FAILURES), (unsigned long long) sum(FC_CHECKSUM_FAILURES),
				   (unsigned long long) sum(FC_READ_ERRORS), (unsigned long long) sum(FC_WRITE_ERRORS),
				   (unsigned long long) sum(FC_SLOTS_RETIRED));
	fd = open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
	if (fd < 0 || write(fd, line, len) != len)
		ereport(LOG, (errmsg("tally: could not write to \"%s\": %m", file)));
	if (fd >= 0)
		close(fd);
}

static void
find_counters(void)
{
	bool		found;

	/* pg_flashcache, loaded before, has made its memory */
	if (next_shmem_startup)
		next_shmem_startup();
	stats = ShmemInitStruct("pg_flashcache stats",
							CACHELINEALIGN(offsetof(FcStats, cell) + MaxBackends * sizeof(FcWorkersCell)), &found);
	if (!found)
		ereport(FATAL, (errmsg("tally: there is no cache in this server")));
	on_shmem_exit(tell, (Datum) 0);
}

void
_PG_init(void)
{
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = find_counters;
}
