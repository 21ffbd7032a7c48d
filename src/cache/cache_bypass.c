/*-------------------------------------------------------------------------
 *
 * cache_bypass.c
 *	  Tablespaces that are read without the cache, since their disk is about as
 *	  fast as flash; and the trials that tell.
 *
 * With data files on flash as well, a cache on the same flash saves nothing,
 * and costs what looking up, verifying and filling cost.  So reads of a
 * tablespace are compared: from flash, and from the disk, at the same time.
 * policy_bypass.c judges; here is where the samples come from, and what a
 * verdict means.
 *
 * A sample is a page that is read alone, of no stream, and of no relation that
 * the server prefetches.  In a window the arms advance together: neither is more than AHEAD
 * samples before the other, so both see the same moments, whatever the load
 * does meanwhile.  (On 18 and later, reads of the disk that nobody waits for
 * are made at once where a sample is due, fc_bypass_wants_time(), since nobody
 * can time them otherwise.)
 *
 *	cached		misses are samples of the disk.  Now and then a page that is on
 *				flash is read from the disk as well, in place of flash: as often
 *				as costs a fiftieth of one session's time, whatever a disk it is.
 *	on trial	of the pages that are read alone one half is read from the disk,
 *				and then most of them, by a hash of the page that is another one
 *				in each trial; neither looked up nor filled.
 *	bypassed	no page is looked up, read ahead or filled.  The cost is a look
 *				at a flag.
 *	back		on trial again: half of the pages that are read alone are looked
 *				up, and filled.
 *
 * What the kernel's page cache answers is no sample of the disk.  It is asked
 * before (and not counted as a probe: that has a rate of its own); where it
 * can't be asked, what takes less than FC_PAGE_CACHE_NS is no sample.
 *
 * Not seen is what a cache below the disk, or the page cache, would have of
 * pages that are now read from flash: there the disk is better than it looks,
 * and the tablespace may stay cached.  Only a long trial would show it, at the
 * expense of everybody whose disk has no such cache.
 *
 * Correctness does not depend on any of this: to leave flash out is always
 * allowed, and invalidation knows nothing of it.  Entries of a tablespace that
 * is bypassed are as good as any, and get old on flash.
 *
 * A tablespace has a place in shared memory from its first read on, for good;
 * one that finds none is never bypassed.  Only the writer changes `way`; the
 * others see it late, at worst.  A sample of a window that is over is left
 * out.  The lock of a place is a leaf, for a few instructions.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_bypass.h"
#include "cache/cache_internal.h"
#include "common/hashfn.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "miscadmin.h"
#include "oscache.h"
#include "policy.h"
#include "settings.h"
#include "storage/fd.h"

/* So many samples one arm may be ahead of the other. */
#define AHEAD 32

/* A read of the disk for the sake of a sample, and then none for so many times as long as it took. */
#define FORCED_RESTS 50

/* One that nobody hears of again (its process has died) keeps others from it for so long. */
#define FORCED_LOST_NS UINT64CONST(1000000000)

/* Of pages that are tried so many sixteenths are read from disk. */
#define HALF 8
#define MOST 15

/* After a page that the page cache has, none is asked for so long. */
#define PROBE_RESTS_NS UINT64CONST(1000000)

/* Bypassed: one read of the disk in so many is timed, by a mean of so many. */
#define TIMED_ONE_IN 16
#define TIMED_MEMORY 256

/* ---- places ---- */

/* That of a tablespace; takes one if it has none.  NULL: there is none. */
static FcTablespace *
place_of(Oid spc)
{
	static FcTablespace *last = NULL;
	uint32		at;

	if (likely(last != NULL && pg_atomic_read_u32(&last->spc) == spc))
		return last;
	at = hash_bytes_uint32(spc) % FC_BYPASS_PLACES;
	for (int i = 0; i < FC_BYPASS_PLACES; i++, at = (at + 1) % FC_BYPASS_PLACES)
	{
		FcTablespace *p = &fc_bypass_shared->of[at].place;
		uint32		owner = pg_atomic_read_u32(&p->spc);

		/* of two that are after a free one, the other may be of the same */
		if (owner == spc || (owner == InvalidOid && pg_atomic_compare_exchange_u32(&p->spc, &owner, spc)) || owner == spc)
			return last = p;
	}
	return NULL;
}

static FcWay
way_of(FcTablespace *p)
{
	if (unlikely(p == NULL || fc_setting_bypass == FC_BYPASS_MODE_OFF))
		return FC_WAY_CACHED;
	return (FcWay) pg_atomic_read_u32(&p->way);
}

/* Does the page belong to those that are read from disk, while that is tried? */
static bool
is_for_disk(FcTablespace *p, FcWay way, uint64 hash)
{
	uint32		share = hash_bytes_uint32((uint32) (hash >> 32) ^ pg_atomic_read_u32(&p->salt)) % 16;

	return share < (way == FC_WAY_MOST ? MOST : HALF);
}

/* ---- reads: which way ---- */

bool
fc_bypass_leaves(const FcTag *tag, bool alone)
{
	FcWay		way = way_of(place_of(tag->spc));

	return unlikely(way == FC_WAY_BYPASSED) || (unlikely(way == FC_WAY_BACK) && !alone);
}

bool
fc_bypass_watches(const FcTag *tag)
{
	return way_of(place_of(tag->spc)) != FC_WAY_CACHED;
}

/* May this arm have another sample now? */
static bool
takes(FcTablespace *p, FcArmOf arm)
{
	uint32		n = pg_atomic_read_u32(&p->begun[arm]);

	return n < pg_atomic_read_u32(&p->wanted) && n < pg_atomic_read_u32(&p->begun[1 - arm]) + AHEAD;
}

/*
 * The read that is about to begin is one.  It is decided now, not when it has
 * ended: of several reads that were begun, those that end first are not like
 * the others.
 */
static bool
begin_sample(FcTablespace *p, FcArmOf arm)
{
	uint32		n = pg_atomic_read_u32(&p->begun[arm]);

	return takes(p, arm) && pg_atomic_compare_exchange_u32(&p->begun[arm], &n, n + 1);
}

/* It is none after all.  (Should its window be over, there may be one too few begun, for a second.) */
static void
drop_sample(FcTablespace *p, const FcRun *run)
{
	uint32		n = pg_atomic_read_u32(&p->begun[run->arm]);

	if (run->window != pg_atomic_read_u32(&p->window))
		return;

	/*
	 * those that were lost may have been forgotten meanwhile, this one among
	 * them
	 */
	while (n > pg_atomic_read_u32(&p->n[run->arm]) &&
		   !pg_atomic_compare_exchange_u32(&p->begun[run->arm], &n, n - 1))
		;
}

/* May this process read from disk, or at once, for the sake of a sample?  If so, others may not for a while. */
static bool
may_force(FcTablespace *p)
{
	uint64		now = fc_now_ns();
	uint64		at = pg_atomic_read_u64(&p->force_at);

	return now >= at && pg_atomic_compare_exchange_u64(&p->force_at, &at, now + FORCED_LOST_NS);
}

/* Does the page cache have the page? */
static FcHeld
page_cache_holds(const FcTag *tag, FcDataFd data_fd, void *arg)
{
	off_t		offset;
	int			fd;

	if (FC_DATA_DIRECT_IO())
		return FC_HELD_NO;
	if (fc_setting_os_cache_probe == FC_PROBE_OFF || (fd = data_fd(arg, tag->blk, &offset)) < 0)
		return FC_HELD_UNKNOWN;
	return fc_oscache_page(fd, offset);
}

/* The page is read from disk, whether it is on flash or not. */
static void
leave_flash(FcRun *run)
{
	run->why[0] = FC_BYPASSED;
	run->from_flash = false;
}

void
fc_bypass_choose(FcRun *run, bool prefetched, FcDataFd data_fd, void *arg)
{
	FcTablespace *p = place_of(run->tag.spc);
	FcWay		way = way_of(p);
	bool		on_flash = run->why[0] == FC_FROM_FLASH;
	bool		leaves;
	FcHeld		held;

	Assert(run->n == 1 && run->arm == FC_ARM_NONE);
	if (way == FC_WAY_CACHED || way == FC_WAY_BYPASSED)
		return;					/* it was another one a moment ago */
	if (run->stream != NULL || prefetched || (!on_flash && run->why[0] != FC_NOT_ON_FLASH))
	{
		if (way == FC_WAY_BACK)
			leave_flash(run);
		return;
	}
	run->window = pg_atomic_read_u32(&p->window);
	if (way == FC_WAY_WATCHED)
	{
		run->forced = on_flash && takes(p, FC_ARM_DISK) && !fc_cache_ahead_has(&run->tag, &run->ref[0]) && may_force(p);
		leaves = run->forced;
	}
	else
		leaves = is_for_disk(p, way, fc_directory_hash(&run->tag));
	if (on_flash && !leaves)
	{
		if (begin_sample(p, FC_ARM_FLASH))
			run->arm = FC_ARM_FLASH;
		return;
	}

	/*
	 * from disk; a sample of it, unless it is a miss that brings its
	 * neighbours, which takes longer
	 */
	held = FC_HELD_YES;
	if (takes(p, FC_ARM_DISK) && (leaves || pg_atomic_read_u32(&fc_cache->extents) == 0))
		held = page_cache_holds(&run->tag, data_fd, arg);
	if (held == FC_HELD_YES && run->forced)
	{
		/* that would tell nothing */
		run->forced = false;
		pg_atomic_write_u64(&p->force_at, fc_now_ns() + PROBE_RESTS_NS);
		return;
	}
	if (leaves)
		leave_flash(run);
	if (held == FC_HELD_YES || !begin_sample(p, FC_ARM_DISK))
		return;
	run->arm = FC_ARM_DISK;
	run->if_slow = held == FC_HELD_UNKNOWN;
}

bool
fc_bypass_wants_time(FcRun *run)
{
	FcTablespace *p;

	if (run->arm != FC_ARM_DISK)
		return false;
	p = place_of(run->tag.spc);
	if (run->forced || may_force(p))
		return run->forced = true;
	drop_sample(p, run);
	run->arm = FC_ARM_NONE;
	return false;
}

/* ---- reads: samples ---- */

static void
add_sample(FcTablespace *p, const FcRun *run, uint64 ns)
{
	FcArmOf		arm = (FcArmOf) run->arm;
	bool		full = false;

	SpinLockAcquire(&p->lock);
	if (run->window == pg_atomic_read_u32(&p->window))
	{
		uint32		n = pg_atomic_read_u32(&p->n[arm]) + 1;

		fc_arm_add(&p->arm[arm], ns);
		pg_atomic_write_u32(&p->n[arm], n);
		full = n == pg_atomic_read_u32(&p->wanted) && pg_atomic_read_u32(&p->n[1 - arm]) >= n;
	}
	SpinLockRelease(&p->lock);
	if (full)
		fc_handoff_wake();		/* the writer judges */
}

void
fc_bypass_flash_read(const FcRun *run, uint64 ns)
{
	if (run->arm == FC_ARM_FLASH)
		add_sample(place_of(run->tag.spc), run, ns);
}

void
fc_bypass_count(const FcRun *run)
{
	FcTablespace *p = place_of(run->tag.spc);

	fc_count_n(FC_BYPASSED_READS, run->n);
	if (p != NULL)
		pg_atomic_fetch_add_u64(&fc_bypass_shared->stripe[MyProcPid % FC_STRIPES].bypassed[(FcPaddedTablespace *) p - fc_bypass_shared->of], run->n);
}

/*
 * Bypassed: has the disk become slower?  That is a reason for a trial, no verdict;
 * so a mean that may lose something will do.  What the page cache answers is not
 * the disk's, unless that was as fast.
 */
static void
note_bypassed(FcTablespace *p, uint64 ns)
{
	static uint32 skipped = 0;
	uint64		page_cache_ns = fc_failpoint_page_cache_ns(FC_PAGE_CACHE_NS);
	uint32		mean;

	if (ns < page_cache_ns && pg_atomic_read_u32(&p->disk_then) >= page_cache_ns)
		return;
	if (++skipped < TIMED_ONE_IN)
		return;
	skipped = 0;
	mean = pg_atomic_read_u32(&p->disk_now);
	pg_atomic_write_u32(&p->disk_now, fc_policy_mean(mean, ns, 1, TIMED_MEMORY));
}

void
fc_bypass_disk_read(const FcRun *run, uint64 ns)
{
	FcTablespace *p;

	if (likely(run->arm != FC_ARM_DISK && run->why[0] != FC_BYPASSED))
		return;
	p = place_of(run->tag.spc);
	if (p == NULL)
		return;
	if (run->forced)
		pg_atomic_write_u64(&p->force_at, fc_now_ns() + ns * FORCED_RESTS);
	if (run->arm != FC_ARM_DISK)
	{
		if (run->n == 1)
			note_bypassed(p, ns);
	}
	else if (!run->if_slow || ns >= fc_failpoint_page_cache_ns(FC_PAGE_CACHE_NS))
		add_sample(p, run, ns);
	else
		drop_sample(p, run);
}

/* ---- fills ---- */

bool
fc_bypass_fills(const FcTag *tag, uint64 hash)
{
	FcTablespace *p = place_of(tag->spc);
	FcWay		way = way_of(p);

	switch (way)
	{
		case FC_WAY_CACHED:
		case FC_WAY_WATCHED:
			break;
		case FC_WAY_BYPASSED:
			return false;
		case FC_WAY_HALF:
		case FC_WAY_MOST:
		case FC_WAY_BACK:
			return !is_for_disk(p, way, hash);
	}
	return true;
}
