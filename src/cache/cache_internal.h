/*-------------------------------------------------------------------------
 *
 * cache_internal.h
 *	  What the files of this module share, and nobody else.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_INTERNAL_H
#define FC_CACHE_INTERNAL_H

#include "cache/cache.h"
#include "checksum.h"
#include "directory/directory.h"
#include "policy.h"
#include "reason.h"
#include "types.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"

/* What reading takes: means in shared memory; see cache_times.c. */
typedef enum FcTime
{
	FC_TIME_DISK_STREAM,		/* a page of a stream */
	FC_TIME_DISK_SINGLE,		/* a request outside streams, whoever answers:
								 * the disk or the page cache */
	FC_TIME_DISK_SEEK,			/* the same, if the disk answered for sure */
	FC_TIME_FLASH,				/* a page alone */
	FC_TIME_FLASH_RUN,			/* a page with its neighbours, or read ahead */
	FC_TIME_FLASH_REQUEST,		/* a request outside streams */
	FC_SHARED_TIMES
} FcTime;

/* Why neighbours are brought, or not. */
typedef enum FcExtentsState
{
	FC_EXTENTS_NOT_IN_USE,		/* the cache is not active */
	FC_EXTENTS_ARE_OFF,
	FC_EXTENTS_DIRECT_IO,
	FC_EXTENTS_NOT_USEFUL,
	FC_EXTENTS_FULL,
	FC_EXTENTS_FILLING,
	FC_EXTENTS_RESTING,
} FcExtentsState;

struct FcCacheShared
{
	pg_atomic_uint32 state;		/* FcState; a late look at it does no harm */
	pg_atomic_uint32 filling_stopped;	/* read after F2, which orders it */
	pg_atomic_uint32 probe_interval;	/* from here on hints, no order needed */
	pg_atomic_uint64 disk_timed_at; /* when a read was last made synchronous
									 * for that, ns */
	pg_atomic_uint32 times_ns[FC_SHARED_TIMES]; /* by FcTime; 0 where nothing
												 * was measured yet */
	pg_atomic_uint32 seeks;		/* of FC_TIME_DISK_SEEK, counted up to the
								 * first verdict */
	pg_atomic_uint32 verify_logged;
	pg_atomic_uint32 distrusted;	/* not 0: what is on flash must be
									 * forgotten before the cache is on again;
									 * counts who says so */
	pg_atomic_uint32 extents;	/* hint: one miss in so many brings its
								 * neighbours; 0 none */
	pg_atomic_uint32 extents_state; /* FcExtentsState */
	pg_atomic_uint64 asked_inserts; /* pages that got FC_MARK_ASKED, and have
									 * been hit; since start */
	pg_atomic_uint64 asked_hits;
	Size		memory;
	slock_t		lock;			/* protects what follows; leaf */
	bool		warn;			/* not logged yet */
	TimestampTz since;			/* when the state was entered */
	FcReason	why;
};

/* ---- cache_ahead.c: pages read from flash before they are asked for ---- */

/* The server will ask for the page, which is on flash: reads it as soon as there is space. */
extern void fc_cache_ahead_announce(const FcTag *tag);

/* The page is being asked for now: from here on there is no point in reading it ahead. */
extern void fc_cache_ahead_asked(const FcTag *tag);

/* Is or was it read ahead, and is that what the slot still holds? */
extern bool fc_cache_ahead_has(const FcTag *tag, const FcSlotRef *ref);

/*
 * A run of the stream, which begins at tag, is being asked for: reads the pages
 * after it, as far as they are on flash.
 */
extern void fc_cache_ahead_continue(FcStream *stream, const FcTag *tag, const FcSlotRef *run, int run_length);

/*
 * Takes the first of n pages in a row that were read ahead: waits for them and
 * copies them.  Returns how many; the others must be read now.  A copy is as
 * good as a page that is read now: R3 is still to come.
 */
extern int	fc_cache_ahead_take(const FcTag *tag, const FcSlotRef *ref, char *const *pages, int n, FcIo *io);

/* ---- cache_fill.c ---- */

/* What has been staged is dropped, and a sweep that is under way; for fc_cache_purge(). */
extern void fc_cache_fill_forget(void);
#ifdef USE_ASSERT_CHECKING
extern bool fc_cache_fill_has_staged(void);
#endif

/* Memory of the writer for so many pages, when nothing is staged; until the next fill. */
#define FC_IDLE_PAGES 17
extern char *const *fc_cache_idle_pages(void);

/*
 * For cache_load.c.  Adds a page to a batch that is not full.  And writes the
 * batch: its first nslots pages to these slots, which are reserved; the others
 * are dropped.
 */
extern void fc_cache_stage(const FcTag *tag, uint64 hash, const FcGuard *guard, const char *page, FcMark mark);
extern void fc_cache_write_staged(const FcSlotNo *slots, int nslots, FcLoadCounts *counts);

/* ---- cache_extents.c ---- */

/* A page that is on flash was asked for. */
extern void fc_extents_hit(const FcSlotRef *ref);

/* The mark of a page that is evicted from the buffer pool to flash now. */
static inline FcMark
fc_extents_mark(void)
{
	return pg_atomic_read_u32(&fc_cache->extents) != 0 ? FC_MARK_ASKED : FC_MARK_NONE;
}

/* ---- cache_trial.c ---- */

/*
 * As fc_cache_try_flash(), of a device of a cache that is in use, and nobody waits (H8):
 * begins, and says what has come of it.  What is measured counts if nothing is known yet.
 */
extern FcStoreStep fc_cache_begin_trial(FcDeviceNo no, FcReason *error);
extern void fc_cache_end_trial(FcDeviceNo no, const FcStoreTrial *trial, bool good, FcReason *error);

/* ---- cache_scrub.c ---- */

/*
 * The directory was emptied, or there is something where a scrub has passed that it has not seen: a device
 * was opened, or chunks have got a place there.  If one is under way, it begins again; not for a device that
 * comes and goes.
 */
extern void fc_cache_scrub_again(void);
extern void fc_cache_scrub_has_come(FcDeviceNo no);

/* Why a page is read from where it is: FcRun.why. */
typedef enum FcSource
{
	FC_FROM_FLASH,
	FC_NOT_ACTIVE,				/* no cache: not even a miss */
	FC_NOT_ON_FLASH,
	FC_LEFT_TO_STREAM,
	FC_LEFT_TO_PAGE_CACHE,
	FC_LEFT_UNBOUNDED,			/* this process could not turn away from a
								 * hung device */
	FC_BYPASSED,				/* its tablespace is read without the cache,
								 * or that is tried */
} FcSource;

/* ---- cache_times.c ---- */

extern FcTimes fc_times(void);

/* What a page takes that the disk has answered for sure, ns; 0 if not known. */
extern uint32 fc_times_seek(void);

/*
 * From `begin` to `end` the first n pages of the run were read from flash; some
 * of them had been read ahead, or none.
 */
extern void fc_times_flash_read(const FcRun *run, uint64 begin, uint64 end, int n, bool ahead);

/* The writer has measured flash: this is the mean from now on. */
extern void fc_times_measured(FcTime what, uint64 ns);

/*
 * A cache that is paused was measured: a page takes so long, 0 if it could not
 * be read.  Is that good enough to go on?  If not, fc_cache_disk_slowed() goes
 * by what the disk takes at this moment.
 */
extern bool fc_times_fast_again(uint64 ns);

/* ---- cache_bypass.c: tablespaces that are read without the cache ---- */

extern FcPart fc_bypass_part(void);
extern void fc_bypass_shmem_init(void);

/* What a read is a sample of: FcRun.arm. */
typedef enum FcArmOf
{
	FC_ARM_FLASH,
	FC_ARM_DISK,
	FC_ARM_NONE,
} FcArmOf;

/* Is the page's tablespace read without the cache?  Some of its pages may not be while that is tried, if they are read `alone`. */
extern bool fc_bypass_leaves(const FcTag *tag, bool alone);

/* Are reads of the page's tablespace compared at present, so that fc_bypass_choose() wants to know? */
extern bool fc_bypass_watches(const FcTag *tag);

/*
 * A page that is read alone has been planned: may have it read from the disk
 * instead, and makes it a sample.  `prefetched`: the server has prefetched it,
 * perhaps.
 */
extern void fc_bypass_choose(FcRun *run, bool prefetched, FcDataFd data_fd, void *arg);

/* Should it be read at once, so that it can be timed? */
extern bool fc_bypass_wants_time(FcRun *run);

/* That took so long. */
extern void fc_bypass_flash_read(const FcRun *run, uint64 ns);
extern void fc_bypass_disk_read(const FcRun *run, uint64 ns);

/* A run is read from disk since its tablespace is bypassed, or that is tried. */
extern void fc_bypass_count(const FcRun *run);

/* Is a page of that tablespace taken to flash? */
extern bool fc_bypass_fills(const FcTag *tag, uint64 hash);

/* ---- cache.c ---- */

/*
 * Switches the cache off, for a reason that makes its pages doubtful as well:
 * they are forgotten before it is on again.
 */
extern void fc_cache_off_and_forget(const FcReason *why);

/* Writer only: may a page more be written to flash now?  Takes it from the write budget. */
extern bool fc_cache_may_write(void);

/* The same for a page that can wait: evictions come first. */
extern bool fc_cache_may_write_spare(void);

/*
 * The same for a slot that is erased.  While that goes on the budget is shared:
 * half of it is for either, and what one does not need for the other.
 */
extern void fc_cache_share_budget(bool shared);
extern bool fc_cache_may_erase(void);

/* Is this the page of that tag? */
static inline uint32
fc_page_checksum(const FcTag *tag, const char *page)
{
	return fc_checksum(tag, sizeof(*tag), page, BLCKSZ);
}

#endif							/* FC_CACHE_INTERNAL_H */
