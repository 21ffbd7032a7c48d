/*-------------------------------------------------------------------------
 *
 * cache_extents.c
 *	  Filling by extents: with a page that is read from disk, its neighbours
 *	  come to flash ("Fill by extents" in src/protocol.md).
 *
 * A disk that has found its place reads 64 kB for little more than 8, and a
 * cache that is cold behind it is warm eight times as soon.
 *
 * The process that misses a page tells the kernel to read the aligned extent
 * around it (posix_fadvise), and then has md read the page: one operation of
 * the disk.  It leaves a hint; the writer takes the neighbours out of the page
 * cache, without waiting for the disk.  Where the page cache can't be asked
 * beforehand, the time of the read tells who has answered, and the writer has
 * the kernel read: a second operation beside the first.  On file systems that
 * don't read without waiting (RWF_NOWAIT), the writer reads what the kernel has
 * been told to have by then, and may wait for the rest.
 *
 * Neighbours take free slots only, within the spare part of the write limit,
 * and not the last ones.  Which of them earned it the marks of
 * directory_marks.c tell; policy.c judges.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>

#include "bufscan.h"
#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "compat.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff_hints.h"
#include "oscache.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "storage/fd.h"
#include "utils/memutils.h"

/* Extents that wait for the kernel, and for how long; and what is done in one round. */
#define MAX_WAITING 64
#define WAIT_NS UINT64CONST(1000000000)
#define EXTENTS_A_ROUND 32

StaticAssertDecl(FC_EXTENT_PAGES <= FC_LOAD_PAGES && RELSEG_SIZE % FC_EXTENT_PAGES == 0, "an extent is in one file");

typedef struct Waiting
{
	FcHint		hint;
	uint64		since;			/* ns */
} Waiting;

/* The writer's. */
static Waiting waiting[MAX_WAITING];
static int	nwaiting = 0;

/* ---- the process that reads ---- */

static FcTag
extent_of(const FcTag *tag)
{
	FcTag		first = *tag;

	first.blk -= first.blk % FC_EXTENT_PAGES;
	return first;
}

/* Which extents are read while only some are; always the same ones, so that what is seen of them is not mixed. */
static bool
is_chosen(const FcTag *tag, uint32 interval)
{
	FcTag		first = extent_of(tag);

	return interval == 1 || fc_directory_hash(&first) % interval == 0;
}

/* Are enough of the others not on flash?  There are none behind the end of the file, where that is known. */
static bool
is_missing(const FcTag *tag, BlockNumber nblocks)
{
	FcTag		t = extent_of(tag);
	int			missing = 0;
	int			others;

	if (tag->blk >= nblocks)
		nblocks = InvalidBlockNumber;	/* it has grown since */
	others = (int) Min(nblocks - t.blk, FC_EXTENT_PAGES) - 1;
	for (int i = 0; i < FC_EXTENT_PAGES && t.blk < nblocks; i++, t.blk++)
	{
		FcSlotRef	ref;

		if (t.blk != tag->blk && !fc_directory_lookup(&t, fc_directory_hash(&t), &ref))
			missing++;
	}
	return missing > 0 && missing >= Min(others, FC_EXTENT_MIN_MISSING);
}

FcExtentWish
fc_cache_extent_wish(const FcRun *run, const char *page, BlockNumber nblocks, FcDataFd data_fd, void *arg)
{
	uint32		interval;
	off_t		offset;
	int			fd;

	/* a page alone, and of no stream: the disk had to look for it */
	if (run == NULL || run->why[0] != FC_NOT_ON_FLASH || run->n != 1 || run->stream != NULL)
		return FC_EXTENT_NO;
	interval = pg_atomic_read_u32(&fc_cache->extents);
	if (likely(interval == 0) || !is_chosen(&run->tag, interval) ||
		!fc_bufscan_permanent(page) || !is_missing(&run->tag, nblocks))
		return FC_EXTENT_NO;
	if (fc_setting_os_cache_probe == FC_PROBE_OFF || !fc_oscache_available() ||
		(fd = data_fd(arg, run->tag.blk, &offset)) < 0)
		return FC_EXTENT_IF_SLOW;
	if (fc_oscache_holds(fd, offset, BLCKSZ))
		return FC_EXTENT_NO;
#ifdef USE_POSIX_FADVISE
	offset -= (off_t) (run->tag.blk % FC_EXTENT_PAGES) * BLCKSZ;
	(void) posix_fadvise(fd, offset, (off_t) FC_EXTENT_PAGES * BLCKSZ, POSIX_FADV_WILLNEED);
#endif
	return FC_EXTENT_YES;
}

void
fc_cache_extent_leave(const FcRun *run, FcExtentWish wish, uint64 begin)
{
	FcHint		hint;

	if (wish == FC_EXTENT_NO ||
		(wish == FC_EXTENT_IF_SLOW && (begin == 0 || fc_now_ns() - begin < fc_failpoint_page_cache_ns(FC_PAGE_CACHE_NS))))
		return;
	hint.tag = run->tag;
	hint.epoch = fc_directory_epoch();
	fc_hints_push(&hint);
}

void
fc_extents_hit(const FcSlotRef *ref)
{
	switch (fc_directory_take_mark(ref->slot))
	{
		case FC_MARK_NONE:
			break;
		case FC_MARK_ASKED:
			pg_atomic_fetch_add_u64(&fc_cache->asked_hits, fc_directory_mark_share());
			break;
		case FC_MARK_EXTENT:
			fc_count_n(FC_EXTENT_HITS, fc_directory_mark_share());
			break;
	}
}

/* ---- the writer ---- */

static void
set_state(FcExtentsState state, uint32 interval)
{
	Assert(fc_directory_is_mine());
	pg_atomic_write_u32(&fc_cache->extents_state, state);
	if (pg_atomic_read_u32(&fc_cache->extents) != interval)
		pg_atomic_write_u32(&fc_cache->extents, interval);
}

/* The sums since start. */
static void
sums_now(FcExtents *sums)
{
	sums->reads = fc_stats_total(FC_EXTENT_READS);
	sums->inserts = fc_stats_total(FC_EXTENT_INSERTS);
	sums->hits = fc_stats_total(FC_EXTENT_HITS);
	sums->asked_inserts = pg_atomic_read_u64(&fc_cache->asked_inserts);
	sums->asked_hits = pg_atomic_read_u64(&fc_cache->asked_hits);
}

/* pg_flashcache.extents = auto */
static uint32
judge(void)
{
	static FcExtents then;
	static uint32 interval = 0;
	FcExtents	now;
	FcExtents	since;
	bool		verdict;

	sums_now(&now);
	if (interval == 0)
	{
		interval = 1;
		then = now;
	}
	since.reads = now.reads - then.reads;
	since.inserts = now.inserts - then.inserts;
	since.hits = now.hits - then.hits;
	since.asked_inserts = now.asked_inserts - then.asked_inserts;
	since.asked_hits = now.asked_hits - then.asked_hits;
	interval = fc_policy_extents(interval, &since, fc_directory_capacity(), fc_times_seek(), fc_times().disk_stream, &verdict);
	if (verdict)
		then = now;
	return interval;
}

/* What all processes do from now on. */
static void
review(void)
{
	uint32		interval;

	if (fc_cache_state() != FC_STATE_ACTIVE || !fc_setting_enabled)
		set_state(FC_EXTENTS_NOT_IN_USE, 0);
	else if (fc_setting_extents == FC_EXTENTS_OFF)
		set_state(FC_EXTENTS_ARE_OFF, 0);
	else if (FC_DATA_DIRECT_IO())
		set_state(FC_EXTENTS_DIRECT_IO, 0);
	else if (!fc_cache_worth_filling())
		set_state(FC_EXTENTS_NOT_USEFUL, 0);
	else if (!fc_policy_extents_fit(fc_directory_used(), fc_directory_capacity()))
		set_state(FC_EXTENTS_FULL, 0);
	else if (fc_setting_extents == FC_EXTENTS_ON)
		set_state(FC_EXTENTS_FILLING, 1);
	else
	{
		interval = judge();
		set_state(interval == 1 ? FC_EXTENTS_FILLING : FC_EXTENTS_RESTING, interval);
	}
}

/* False: the kernel does not have it yet. */
static bool
take_extent(const FcHint *hint, FcDataPeek peek, bool again)
{
	static FcLoad *load = NULL;
	static char *pages;
	FcTag		first = extent_of(&hint->tag);
	FcTag		tag = first;
	FcLap		lap = fc_directory_lap(false, fc_setting_keep_limit);	/* X2 */
	FcLoadCounts counts = {0};
	FcLoadMask	wanted = 0;
	int			nread;

	if (load == NULL)
	{
		pages = (char *) TYPEALIGN(FC_IO_ALIGN, MemoryContextAlloc(TopMemoryContext, FC_EXTENT_PAGES * BLCKSZ + FC_IO_ALIGN));
		load = MemoryContextAlloc(TopMemoryContext, sizeof(FcLoad));
	}
	for (int i = 0; i < FC_EXTENT_PAGES; i++, tag.blk++)
		if (tag.blk != hint->tag.blk && fc_bypass_fills(&tag, fc_directory_hash(&tag)) && !fc_bufscan_holds(&tag))
			wanted |= (FcLoadMask) 1 << i;
	if (wanted == 0)
		return true;
	fc_cache_load_begin(load, &first, FC_EXTENT_PAGES, wanted, &counts);	/* L1, L2 */
	if (load->n == 0)
		return true;
	/* X1: what the file's name has meant since the page was read */
	for (int i = 0; i < load->n && !fc_breaks("X1"); i++)
		load->guard[i].epoch = hint->epoch;
	nread = peek(&load->tag[0], load->tag[load->n - 1].blk - load->tag[0].blk + 1, pages, again);	/* L3 */
	if (nread == FC_PEEK_NOT_YET)
		return false;
	if (nread <= 0)
		return true;			/* not readable; or the file ends before them */
	fc_count(FC_EXTENT_READS);
	fc_cache_load_check(load, pages, nread, &counts);	/* L4 */
	lap.mark = FC_MARK_EXTENT;
	/* what finds no slot soon, or is more than may be written, is left out */
	if (fc_cache_load_step(load, &lap, &counts) == FC_LOAD_LATER)
		fc_count_n(FC_SKIP_WRITE_LIMIT, load->n - load->next);
	return true;
}

static bool
is_waiting(const FcHint *hint)
{
	FcTag		first = extent_of(&hint->tag);

	for (int i = 0; i < nwaiting; i++)
	{
		FcTag		other = extent_of(&waiting[i].hint.tag);

		if (fc_tag_equal(&first, &other))
			return true;
	}
	return false;
}

bool
fc_cache_extents_run(FcDataPeek peek, void (*between) (void))
{
	FcHint		hint;
	int			n = nwaiting;

	review();
	nwaiting = 0;
	if (pg_atomic_read_u32(&fc_cache->extents) == 0)
	{
		for (int i = 0; i < EXTENTS_A_ROUND && fc_hints_pop(&hint); i++)
			;
		return false;
	}
	for (int i = 0; i < n && fc_cache_state() == FC_STATE_ACTIVE; i++)
	{
		if (!take_extent(&waiting[i].hint, peek, true) && fc_now_ns() - waiting[i].since < WAIT_NS)
			waiting[nwaiting++] = waiting[i];
		between();
	}
	for (int i = 0; i < EXTENTS_A_ROUND && nwaiting < MAX_WAITING && fc_cache_state() == FC_STATE_ACTIVE && fc_hints_pop(&hint); i++)
	{
		if (!is_waiting(&hint) && !take_extent(&hint, peek, false))
		{
			waiting[nwaiting].hint = hint;
			waiting[nwaiting++].since = fc_now_ns();
		}
		between();
	}
	return nwaiting > 0;
}

/* ---- views ---- */

const char *
fc_cache_extents_state(uint32 *interval)
{
	*interval = 0;
	if (fc_cache == NULL || fc_cache_state() != FC_STATE_ACTIVE)
		return "cache not active";
	*interval = pg_atomic_read_u32(&fc_cache->extents);
	switch ((FcExtentsState) pg_atomic_read_u32(&fc_cache->extents_state))
	{
		case FC_EXTENTS_NOT_IN_USE:
			break;
		case FC_EXTENTS_ARE_OFF:
			return "off";
		case FC_EXTENTS_DIRECT_IO:
			return "direct I/O";
		case FC_EXTENTS_NOT_USEFUL:
			return "disk is fast";
		case FC_EXTENTS_FULL:
			return "full";
		case FC_EXTENTS_FILLING:
			return "filling";
		case FC_EXTENTS_RESTING:
			return "resting";
	}
	return "cache not active";
}
