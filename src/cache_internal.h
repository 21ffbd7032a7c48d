/*-------------------------------------------------------------------------
 *
 * cache_internal.h
 *	  What cache.c and cache_fill.c share, and nobody else.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_INTERNAL_H
#define FC_CACHE_INTERNAL_H

#include "checksum.h"
#include "types.h"

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
	pg_atomic_uint32 state;		/* FcState */
	pg_atomic_uint32 filling_stopped;
	pg_atomic_uint32 probe_interval;
	pg_atomic_uint32 times_ns[FC_SHARED_TIMES]; /* means, as in FcTimes */
	pg_atomic_uint32 verify_logged;
	Size		memory;
	slock_t		lock;			/* protects what follows; leaf */
	bool		warn;			/* the log has not been told yet */
	char		reason[FC_REASON_LEN];
	char		hint[FC_HINT_LEN];
};

/* ---- cache_ahead.c: pages read from flash before they are asked for ---- */

/* Starts to read the page into memory of this process, if it can be done. */
extern void fc_cache_ahead_start(const FcTag *tag, const FcSlotRef *ref);

/* Is or was it read ahead, and is that what the slot still holds? */
extern bool fc_cache_ahead_has(const FcTag *tag, const FcSlotRef *ref);

/* The stream goes on at tag: reads its next pages, as far as they are on flash. */
extern void fc_cache_ahead_continue(const FcTag *tag);

/*
 * Takes the first of n pages in a row that were read ahead: waits for them and
 * copies them.  Returns how many; the others must be read now.  A copy is as
 * good as a page that is read now: R3 is still to come.
 */
extern int	fc_cache_ahead_take(const FcTag *tag, const FcSlotRef *ref, char *const *pages, int n, FcIo *io);

/* ---- cache.c ---- */

/* The store gave up: switches the cache off. */
extern void fc_cache_device_broken(void);

/* Is a page that leaves the buffer pool worth writing, by what was measured? */
extern bool fc_cache_worth_filling(void);

/* Is this the page of that tag? */
static inline uint32
fc_page_checksum(const FcTag *tag, const char *page)
{
	return fc_checksum(tag, sizeof(*tag), page, BLCKSZ);
}

#endif							/* FC_CACHE_INTERNAL_H */
