/*
 * bench_directory.c
 *	  How long the directory takes, without a server: `make -C test/unit bench PG_CONFIG=... SLOTS=...`.  With EMPTY=1 it is
 *	  made, but not filled; with SCATTERED=1 neighbouring slots are of different relations.
 *
 * Its memory is a private mapping, its locks are as costly as LWLocks that nobody else wants: one atomic operation to take, one
 * to give back.
 */
#include "postgres.h"

#include <math.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "bufscan.h"
#include "directory/directory.h"
#include "miscadmin.h"
#include "objects.h"
#include "port/atomics.h"
#include "rules/rules.h"
#include "stats/stats.h"
#include "stats/stats_relation.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

#define RELATION_PAGES 16384
#define TIMES 1000000

/* ---- what the server has ---- */

FcStats    *fc_stats = NULL;
FcWorkersCell *fc_stats_leader = NULL;
int			fc_stats_my_stripe = -1;
uint64		fc_stats_mine[FC_COUNTERS];
int			MyProcPid = 0;
MemoryContext CurrentMemoryContext = NULL;
volatile sig_atomic_t InterruptPending = false;

void
ProcessInterrupts(void)
{
}

void *
palloc(Size size)
{
	return malloc(size);
}

void *
MemoryContextAllocZero(MemoryContext context, Size size)
{
	return calloc(1, size);
}

void *
MemoryContextAllocExtended(MemoryContext context, Size size, int flags)
{
	return calloc(1, size);
}

/* a hash table of more than 2^32 relations */
bool
errstart_cold(int elevel, const char *domain)
{
	abort();
}

int
errmsg_internal(const char *fmt,...)
{
	return 0;
}

void
errfinish(const char *filename, int lineno, const char *funcname)
{
	abort();
}

void
pfree(void *pointer)
{
	free(pointer);
}

/* shared buffers are not of the directory */
uint32
fc_bufscan_frames(void)
{
	return 0;
}

bool
fc_bufscan_relation(uint32 frame, FcRel *rel)
{
	return false;
}

void
fc_stats_choose_stripe(void)
{
}

void
fc_count_old_relation(FcRel rel, FcRelCounter counter, uint64 n)
{
}

FcRule
fc_rule_of(FcRel rel)
{
	return FC_RULE_NORMAL;
}

bool
pg_strong_random(void *buf, size_t len)
{
	memset(buf, 1, len);
	return true;
}

TimestampTz
GetCurrentTimestamp(void)
{
	return 0;
}

Size
add_size(Size a, Size b)
{
	return a + b;
}

Size
mul_size(Size a, Size b)
{
	return a * b;
}

void *
ShmemInitStruct(const char *name, Size size, bool *found)
{
	void	   *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void) name;
	if (p == MAP_FAILED)
		abort();
	*found = false;
	return p;
}

void
LWLockInitialize(LWLock *lock, int tranche)
{
	lock->tranche = tranche;
}

bool
LWLockAcquire(LWLock *lock, LWLockMode mode)
{
	(void) mode;
	pg_atomic_fetch_add_u32(&lock->state, 1);
	return true;
}

void
LWLockRelease(LWLock *lock)
{
	pg_atomic_fetch_sub_u32(&lock->state, 1);
}

int
s_lock(volatile slock_t *lock, const char *file, int line, const char *func)
{
	(void) lock, (void) file, (void) line, (void) func;
	abort();
}

/* ---- measuring ---- */

static double
now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static FcTag
tag_of(uint32 page)
{
	FcTag		tag = {1663, 5, 16384 + page / RELATION_PAGES, page % RELATION_PAGES};

	return tag;
}

/* Each page once: the step is a prime that divides no number of slots that makes sense. */
static void
fill(uint32 slots, uint32 step)
{
	for (uint32 i = 0; i < slots; i++)
	{
		FcTag		tag = tag_of((uint64) i * step % slots);
		uint64		hash = fc_directory_hash(&tag);
		FcGuard		guard = fc_directory_guard(hash);
		FcSlotNo	slot;

		if (fc_directory_reserve(1, NULL, 0, &slot) != 1 ||
			fc_directory_publish(slot, &tag, hash, &guard, i) != FC_PUBLISH_DONE)
			abort();
	}
}

static void
sweep(const char *what)
{
	double		begin = now_s();
	uint32		epoch = fc_directory_sweep_begin();
	double		longest = 0;
	FcSlotNo	at = 0;
	bool		more = true;
	uint32		used = fc_directory_used();

	while (more)
	{
		double		step = now_s();

		more = fc_directory_sweep(&at, 1048576, epoch);
		longest = Max(longest, now_s() - step);
	}
	printf("sweep, %s: %.3f s, longest step %.1f ms, %u entries freed\n",
		   what, now_s() - begin, longest * 1000, used - fc_directory_used());
}

static void
write_pages(const char *what, uint32 first)
{
	double		begin = now_s();

	for (uint32 i = 0; i < TIMES; i++)
	{
		FcTag		tag = tag_of(first + i * 7919u % TIMES);
		uint64		hash = fc_directory_hash(&tag);

		fc_directory_bump_page(hash);
		fc_directory_remove(&tag, hash);
	}
	printf("invalidation of a page, %s: %.0f ns\n", what, (now_s() - begin) / TIMES * 1e9);
}

/* What a cache that is disabled does, and one on another device (O2). */
static void
purge(const char *what)
{
	double		begin = now_s();
	double		longest = 0;
	FcSlotNo	at = 0;
	bool		more = true;
	uint32		used = fc_directory_linked();

	while (more)
	{
		double		step = now_s();

		more = fc_directory_purge(&at, FC_DIRECTORY_STEP);
		longest = Max(longest, now_s() - step);
	}
	printf("purge, %s: %.3f s, longest step %.1f ms, %u entries freed\n",
		   what, now_s() - begin, longest * 1000, used - fc_directory_linked());
}

/* Pages that are evicted from the buffer pool, not on flash; one in 16 is wanted, and what is promised is reserved. */
static void
offer_pages(FcAdmission mode, uint32 first)
{
	double		begin = now_s();
	uint32		wanted = 0;
	uint64		hashes[64];
	FcSlotNo	slots[64];

	fc_directory_set_admission(mode);
	for (uint32 i = 0; i < TIMES; i++)
	{
		FcTag		tag = tag_of(first + i * 7919u % TIMES);
		uint64		hash = fc_directory_hash(&tag);

		if (fc_directory_offer(&tag, hash, fc_directory_region(&tag), i % 16 == 0, FC_LOOKED_NOT, 80) != FC_OFFER_WANTED)
			continue;
		hashes[wanted++] = hash;
		if (wanted == 64)
		{
			uint32		n = fc_directory_reserve(wanted, hashes, 80, slots);

			while (n > 0)
				fc_directory_release(slots[--n]);
			wanted = 0;
		}
	}
	printf("offer of a page, %s: %.0f ns\n", fc_policy_admission_name(mode), (now_s() - begin) / TIMES * 1e9);
}

/* What pg_flashcache_relations does: all slots are looked at, or at most max_slots, and what that misses is shown. */
static void
count_objects(uint64 max_slots, uint32 filled)
{
	double		begin = now_s();
	uint32		every;
	FcObjects  *objects = fc_objects_count(5, max_slots, &every);
	FcObject	object;
	uint32		relations = 0;
	uint64		pages = 0;
	double		worst = 0;

	while (fc_objects_next(objects, &object))
	{
		relations++;
		pages += object.flash;
		if (object.rel.rel < 16384 + filled / RELATION_PAGES)
			worst = Max(worst, fabs(object.flash / (double) RELATION_PAGES - 1));
	}
	printf("count of the pages of each relation, one slot of %u: %.2f s; %u relations, " UINT64_FORMAT " pages, largest error of one with 128 MB %.1f%%\n",
		   every, now_s() - begin, relations, pages, 100 * worst);
}

int
main(int argc, char **argv)
{
	uint32		slots = argc > 1 ? strtoul(argv[1], NULL, 10) : 1 << 20;
	FcRel		rel = {1663, 5, 16384};
	struct rusage before;
	struct rusage after;
	double		begin;

	/* what the postmaster does at each start, and after each crash of a backend */
	getrusage(RUSAGE_SELF, &before);
	begin = now_s();
	fc_directory_shmem_init(slots, false, 0);
	getrusage(RUSAGE_SELF, &after);
	printf("%u slots made in %.3f ms, %ld pages of memory touched\n", slots, (now_s() - begin) * 1000,
		   after.ru_minflt - before.ru_minflt);
	if (argc > 2 && strcmp(argv[2], "scattered") != 0)
		return 0;
	begin = now_s();
	fill(slots, argc > 2 ? 1000003 : 1);
	printf("%u slots, %.1f bytes each, filled in %.1f s\n", slots, (double) fc_directory_part(slots, false).size / slots,
		   now_s() - begin);
	count_objects(slots, slots);
	count_objects(slots / 8, slots);
	sweep("first");
	sweep("nothing dead");
	for (int i = 0; i < 100 && i * RELATION_PAGES < (int64) slots; i++, rel.rel++)
		fc_directory_bump_relation(rel);
	sweep("100 relations of 128 MB dead");
	write_pages("not on flash", slots + RELATION_PAGES);
	write_pages("on flash", 100 * RELATION_PAGES);
	for (int i = 0; i < FC_CANDIDATES; i++)
		offer_pages(fc_policy_candidates[i], slots + RELATION_PAGES);
	purge("in use");
	purge("free");
	return 0;
}
