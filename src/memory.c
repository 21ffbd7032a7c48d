/*-------------------------------------------------------------------------
 *
 * memory.c
 *	  See memory.h.
 *
 * Asked is what the server will need without the cache (the server computes
 * it itself), and what the machine, or the control group, has.  What happens
 * to be free at the moment is not: the answer should be the same at each
 * start.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "amount.h"
#include "compat.h"
#include "machine.h"
#include "memory.h"
#include "miscadmin.h"
#include "storage/ipc.h"
#include "storage/pg_shmem.h"
#include "storage/shmem.h"

/* One part in so many of the memory is left to processes and the page cache. */
#define RESERVE 8

/* Where processes are limited in their addresses (ulimit -v), what each needs beside shared memory. */
#define FOR_A_PROCESS ((Size) 64 << 20)

static const FcMemoryUser *user = NULL;
static shmem_startup_hook_type next_shmem_startup = NULL;

/* Once it has been decided. */
static bool decided = false;
static bool takes_part = false;

/* What the server needs for everything else. */
static Size others = 0;

static Size
size_of(const FcPart *parts, int n)
{
	Size		size = 0;

	for (int i = 0; i < n; i++)
		size = add_size(size, CACHELINEALIGN(parts[i].size));
	return size;
}

/* The parts, and whether they are wanted. */
static bool
wanted(FcPart *parts, int *n, Size *size)
{
	*n = user->parts(parts);
	Assert(*n <= FC_MAX_PARTS);
	*size = size_of(parts, *n);
	if (!decided)
	{
		others = fc_shmem_asked_for();
		takes_part = user->takes_part(*size);
		decided = true;
	}
	return takes_part;
}

static void
startup(void)
{
	FcPart		parts[FC_MAX_PARTS];
	int			n;
	Size		size;

	if (next_shmem_startup)
		next_shmem_startup();
	if (!wanted(parts, &n, &size))
		return;
	user->init(size);
}

#if PG_VERSION_NUM < 190000
static shmem_request_hook_type next_shmem_request = NULL;

static void
request(void)
{
	FcPart		parts[FC_MAX_PARTS];
	int			n;
	Size		size;

	if (next_shmem_request)
		next_shmem_request();
	if (wanted(parts, &n, &size))
		RequestAddinShmemSpace(size);
}
#else
/*
 * When the hook runs, the server does not know yet what it needs itself; the
 * callbacks of libraries run after its own.
 */
static void
request(void *arg)
{
	FcPart		parts[FC_MAX_PARTS];
	int			n;
	Size		size;

	if (!wanted(parts, &n, &size))
		return;
	for (int i = 0; i < n; i++)
		ShmemRequestStruct(.name = parts[i].name,
						   .size = parts[i].size);
}

static const ShmemCallbacks callbacks = {.request_fn = request};
#endif

void
fc_memory_register(const FcMemoryUser *the_user)
{
	Assert(user == NULL);
	user = the_user;
#if PG_VERSION_NUM < 190000
	next_shmem_request = shmem_request_hook;
	shmem_request_hook = request;
#else
	RegisterShmemCallbacks(&callbacks);
#endif
	next_shmem_startup = shmem_startup_hook;
	shmem_startup_hook = startup;
}

/* What there may be beside so much shared memory. */
static uint64
left_beside(uint64 shared)
{
	uint64		all = fc_machine_memory("");

	if (all == 0)
		return PG_UINT64_MAX;
	return all > shared + all / RESERVE ? all - shared - all / RESERVE : 0;
}

uint64
fc_memory_left(void)
{
	FcPart		parts[FC_MAX_PARTS];

	return left_beside(others + (takes_part ? size_of(parts, user->parts(parts)) : 0));
}

bool
fc_memory_fits(Size bytes, uint64 flash, const char *setting, FcReason *why)
{
	uint64		room = left_beside(others);
	Size		page = BLCKSZ;
	int			flags = 0;
	Size		map;
	FcAmount	amount[3];
	char		hint[FC_HINT_LEN];
	int			save;

	fc_amount(&amount[0], flash, FC_AMOUNT_DOWN);
	if (bytes > room)
	{
		snprintf(hint, sizeof(hint), "Set %s to at most %s and restart the server. Counted is the memory of the machine or of its control group, less the server's other shared memory and an eighth.",
				 setting, fc_amount(&amount[1], (double) flash * ((double) room / bytes) * 0.95, FC_AMOUNT_DOWN));
		return fc_fail_restart(why, hint, "a %s of %s needs %s of shared memory, and there is room for %s",
							   setting, amount[0].string, fc_amount(&amount[1], bytes, FC_AMOUNT_DOWN),
							   fc_amount(&amount[2], room, FC_AMOUNT_DOWN));
	}

	/*
	 * a server that only prints what it would need may run where the huge
	 * pages are still to be made
	 */
	if (fc_prints_setting())
		return true;
	if (huge_pages == HUGE_PAGES_ON)
		GetHugePageSize(&page, &flags);
	map = TYPEALIGN(page, others + bytes);
	if (shared_memory_type == SHMEM_TYPE_SYSV ? fc_machine_can_share(map, flags != 0) :
		fc_machine_can_map(flags != 0 ? map : map + FOR_A_PROCESS, flags))
		return true;
	save = errno;
	snprintf(hint, sizeof(hint), flags != 0 ? "Raise vm.nr_hugepages, or lower %s, and restart the server." :
			 "See the limits of the server's processes (ulimit -v), vm.overcommit_memory and kernel.shmmax, or lower %s, and restart the server.",
			 setting);
	fc_amount(&amount[1], map, FC_AMOUNT_DOWN);
	errno = save;
	fc_fail_restart(why, hint, "the kernel does not map %s of shared memory%s for the server and a %s of %s: %m",
					amount[1].string, flags != 0 ? " in huge pages" : "", setting, amount[0].string);
	return false;
}
