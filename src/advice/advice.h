/*-------------------------------------------------------------------------
 *
 * advice/advice.h
 *	  What would a flash cache of another size do, or more shared buffers?
 *
 * With pg_flashcache.advice = on, caches in miniature (miniature.h) of eight
 * sizes are given a sample of the pages that the buffer pool reads and writes:
 * those whose hash is below a limit, so few that the largest miniature has
 * MAX_SLOTS slots.  Beside them, eight sizes of more shared buffers.  It works
 * as well where there is no cache (pg_flashcache.size = 0): then the calls to
 * the storage manager are listened to, and nothing else happens.
 *
 * What is not seen is estimated:
 *
 *	evictions	A page that comes to a frame of the buffer pool, because it is read,
 *			has evicted the one that was there.  One that was not read (of a
 *			relation that was extended) is seen in its frame when it is
 *			written, or when what it has evicted is read again.
 *	scans	Pages that the server reads into a ring of buffers (of a large
 *			table, of VACUUM) leave the pool unseen by the cache.  A process
 *			that reads into a frame again that it has read into just before
 *			has such a ring.  They may be hits, and what leaves a frame this
 *			way is not offered.
 *
 * Left out: the write limit, and that pages are forgotten with their relation
 * or database; nobody asks for those again.
 *
 * Who reads or writes a page of the sample takes one lock, if it is free, and
 * goes on without a word if it is not: that page is counted as dropped.
 *
 * Figures are those of the last hour: six periods of ten minutes.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ADVICE_H
#define FC_ADVICE_H

#include "types.h"

#include "datatype/timestamp.h"

#define FC_ADVICE_SIZES 8

/* One size; all numbers are of the sample. */
typedef struct FcAdviceSize
{
	double		factor;			/* of fc_advice_base() */
	uint64		pages;			/* of the cache that it stands for */
	uint64		hits;
	uint64		writes;			/* 0 for shared buffers */
} FcAdviceSize;

typedef struct FcAdviceSums
{
	TimestampTz since;
	double		seconds;
	double		rate;			/* share of all pages that is looked at */
	uint64		reads;			/* pages of the sample that were read */
	uint64		dropped;		/* reads and writes that were not looked at */
	uint64		disk_ns;		/* of reads from disk whose time is known, */
	uint64		disk_reads;		/* and how many pages those were */
	FcAdviceSize flash[FC_ADVICE_SIZES];
	FcAdviceSize buffers[FC_ADVICE_SIZES];
} FcAdviceSums;

typedef struct FcAdvice FcAdvice;
extern FcAdvice *fc_advice;		/* NULL: off */

/* Pages of a cache of which the sizes are multiples: the one there is, on all of its devices, or four times shared_buffers. */
extern uint32 fc_advice_base(void);

/*
 * That is so many pages now, the first device's or more.  Writer only.  The miniatures stand for other
 * sizes from now on, by a smaller sample, and begin empty, as the figures do.
 */
extern void fc_advice_set_base(uint32 pages);

/* Only where advice is on.  In the postmaster. */
extern FcPart fc_advice_part(void);
extern void fc_advice_shmem_init(int tranche);

/* False if it is off. */
extern bool fc_advice_sums(FcAdviceSums *sums);
extern void fc_advice_reset(void);

extern void fc_advice_read_slow(const FcTag *tag, int n, void *const *pages);
extern void fc_advice_written_slow(const FcTag *tag, int n, const void *const *pages);
extern void fc_advice_disk_slow(uint64 begin, int n);

/* The buffer manager reads n pages into these buffers. */
static inline void
fc_advice_read(const FcTag *tag, int n, void *const *pages)
{
	if (unlikely(fc_advice != NULL))
		fc_advice_read_slow(tag, n, pages);
}

/* n pages have been written to disk, from there or from copies. */
static inline void
fc_advice_written(const FcTag *tag, int n, const void *const *pages)
{
	if (unlikely(fc_advice != NULL))
		fc_advice_written_slow(tag, n, pages);
}

/* n pages have been read from disk; `begin`: fc_now_ns() of the moment before. */
static inline void
fc_advice_disk(uint64 begin, int n)
{
	if (unlikely(fc_advice != NULL))
		fc_advice_disk_slow(begin, n);
}

#endif							/* FC_ADVICE_H */
