/*-------------------------------------------------------------------------
 *
 * cache_internal.h
 *	  What the files of this room share, and nobody else.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_INTERNAL_H
#define FC_CACHE_INTERNAL_H

#include "checksum.h"
#include "directory.h"
#include "policy.h"
#include "types.h"

#include "datatype/timestamp.h"
#include "port/atomics.h"
#include "storage/spin.h"

/* Order of FcCacheShared.times_ns. */
enum
{
	FC_TIME_DISK_STREAM,
	FC_TIME_DISK_SINGLE,
	FC_TIME_FLASH,
	FC_TIME_FLASH_RUN,
	FC_SHARED_TIMES
};

struct FcCacheShared
{
	pg_atomic_uint32 state;		/* FcState; a late look at it does no harm */
	pg_atomic_uint32 filling_stopped;	/* read after F2, which orders it */
	pg_atomic_uint32 probe_interval;	/* from here on hints, no order needed */
	pg_atomic_uint64 disk_timed_at; /* when a read was last made synchronous for that, ns */
	pg_atomic_uint32 times_ns[FC_SHARED_TIMES]; /* means, as in FcTimes */
	pg_atomic_uint32 verify_logged;
	pg_atomic_uint32 wrong_in_a_row;	/* pages with wrong content, no good one between */
	pg_atomic_uint32 pace_flash;	/* mean time of a request, ns; see cache_pace.c */
	pg_atomic_uint32 pace_disk;
	pg_atomic_uint32 pace_disk_samples; /* counted up to the first verdict */
	Size		memory;
	slock_t		lock;			/* protects what follows; leaf */
	bool		warn;			/* the log has not been told yet */
	TimestampTz since;			/* when the state was entered */
	char		reason[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];
};

/* ---- cache_ahead.c: pages read from flash before they are asked for ---- */

/* The server will ask for the page, which is on flash: reads it as soon as there is room. */
extern void fc_cache_ahead_announce(const FcTag *tag);

/* The page is being asked for now: from here on there is no point in reading it ahead. */
extern void fc_cache_ahead_asked(const FcTag *tag);

/* Is or was it read ahead, and is that what the slot still holds? */
extern bool fc_cache_ahead_has(const FcTag *tag, const FcSlotRef *ref);

/* A run of the stream, which begins at tag, is being asked for: reads the pages after it, as far as they are on flash. */
extern void fc_cache_ahead_continue(FcStream *stream, const FcTag *tag, const FcSlotRef *run, int run_length);

/*
 * Takes the first of n pages in a row that were read ahead: waits for them and
 * copies them.  Returns how many; the others must be read now.  A copy is as
 * good as a page that is read now: R3 is still to come.
 */
extern int	fc_cache_ahead_take(const FcTag *tag, const FcSlotRef *ref, char *const *pages, int n, FcIo *io);

/* ---- cache_fill.c ---- */

/* May a page more be written to flash now?  Takes it from the write budget. */
extern bool fc_cache_may_write(void);

/* ---- cache_scrub.c ---- */

/* The directory was emptied: a scrub that is under way begins again. */
extern void fc_cache_scrub_again(void);

/* ---- cache_source.c: where a page is best read from ---- */

/* Why a page is read from where it is: FcRun.why. */
typedef enum FcSource
{
	FC_FROM_FLASH,
	FC_NOT_ACTIVE,				/* no cache: not even a miss */
	FC_NOT_ON_FLASH,
	FC_LEFT_TO_STREAM,
	FC_LEFT_TO_PAGE_CACHE,
	FC_LEFT_UNBOUNDED,			/* this process could not turn away from a hung device */
} FcSource;

/* A run is about to be read; it is or is not part of a stream. */
extern void fc_source_reading(bool stream);

/*
 * From `begin` to `end` n pages were read from flash; `asked` had been asked
 * for, and some of them had been read ahead, or none.
 */
extern void fc_source_flash_read(uint64 begin, uint64 end, int n, int asked, bool ahead);

/* ---- cache_pace.c: is flash slower than the disk? ---- */

/* A request outside streams took so long, from flash or from disk. */
extern void fc_pace_flash(uint64 ns);
extern void fc_pace_disk(uint64 ns);

/* The writer has found flash slower: from now on fc_cache_disk_slowed() goes by what the disk takes at this moment. */
extern void fc_pace_found_slow(void);

/* ---- cache.c ---- */

/* The store gave up (FC_IO_BROKEN): switches the cache off. */
extern void fc_cache_device_broken(void);

/* Is this the page of that tag? */
static inline uint32
fc_page_checksum(const FcTag *tag, const char *page)
{
	return fc_checksum(tag, sizeof(*tag), page, BLCKSZ);
}

#endif							/* FC_CACHE_INTERNAL_H */
