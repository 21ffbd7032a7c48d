/*-------------------------------------------------------------------------
 *
 * policy.h
 *	  What to write, when to leave a stream, is it of use: pure functions.
 *
 * Nothing here allocates, locks, waits, reads a clock or includes
 * postgres.h: the same code runs in the server, in unit tests and in a
 * simulator.  State is handed in; whoever owns it keeps it consistent.  What to
 * admit, and what to evict for it: policy_admission.h.
 *
 *	budget	a token bucket of bytes.  Who is at it for long, and takes what he
 *			can get, has a bucket of his own meanwhile: half of what comes goes
 *			there, and what one of the two has no room for to the other one.
 *	stream	a reader of block after block stays with the disk until a run of
 *			flash pages is long enough to pay for the seek back.  One that is
 *			read from flash is read ahead by a quarter of the blocks that it
 *			has asked for in a row: what is read ahead in vain, since the
 *			reader stops, stays a fraction of what was read.
 *	extent	on a miss its neighbours are read as well, while that pays: what
 *			they save of the disk's time is more than reading them takes of
 *			it, and a slot with a neighbour is hit not much less often than
 *			one with a page that somebody has asked for.
 *	probe	asks the page cache only while answers are worth the question.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_POLICY_H
#define FC_POLICY_H

#include "policy_admission.h"

#include <stdbool.h>
#include <stdint.h>

/* ---- replacement ---- */

/*
 * Are slots of files with the policy keep kept?  Not where they are more than
 * that share: then they are like all others, so that these do not starve.
 */
static inline bool
fc_policy_keeps(uint64_t kept, uint64_t slots, int percent)
{
	return kept * 100 <= slots * (uint64_t) percent;
}

/* ---- write budget ---- */

typedef struct FcBudget
{
	double		tokens;			/* bytes that may be written now */
	uint64_t	filled_at_ns;
	bool		shared;
	double		own;			/* shared: the same of the other bucket */
} FcBudget;

/* Takes `bytes` from the bucket; false if the limit (bytes/s, 0 = none) forbids it. */
extern bool fc_policy_spend(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes);

/*
 * The same for what can wait: leaves half of what may be saved up to those
 * that cannot.
 */
extern bool fc_policy_spend_spare(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes);

/*
 * From now on there are two buckets, each for half of what may be saved up; or
 * one again.  fc_policy_spend_own() takes from the other one, while there is one.
 */
extern void fc_policy_share(FcBudget *budget, bool shared);
extern bool fc_policy_spend_own(FcBudget *budget, uint64_t limit, uint64_t now_ns, uint32_t bytes);

/* ---- streams ---- */

#define FC_STREAMS 4			/* streams one process is followed in */
#define FC_STREAM_LENGTH 8		/* blocks in a row that make a stream */
#define FC_STREAM_GAP 4			/* blocks left out that do not end it */
#define FC_STREAM_MAX_RUN 2048	/* as far as a run is looked at: 0.4 ms */
#define FC_AHEAD_WINDOW 16		/* pages that are read ahead, at most */
#define FC_AHEAD_SHARE 4		/* and no more than one for so many in a row */
#define FC_AHEAD_PENALTY 4

typedef struct FcStream
{
	uint64_t	rel;			/* any number that identifies the relation */
	uint32_t	next;			/* block that would continue it */
	uint32_t	length;			/* blocks so far */
	uint32_t	flash_until;	/* on flash up to here: decided */
	uint32_t	disk_until;		/* on disk up to here: decided */
	uint32_t	steady;			/* blocks in a row; one that is left out costs
								 * FC_AHEAD_PENALTY */
	uint32_t	ahead_until;	/* read ahead up to here */
	uint32_t	used_at;		/* for replacement */
} FcStream;

typedef struct FcStreams
{
	FcStream	stream[FC_STREAMS];
	uint32_t	now;
} FcStreams;

/* A read "from disk" that is answered faster than this may have come from the kernel's page cache. */
#define FC_PAGE_CACHE_NS 100000

/* Mean service times in ns; 0 where nothing was measured yet. */
typedef struct FcTimes
{
	double		disk_stream;	/* a page read from disk within a stream */
	double		disk_single;	/* a page read from disk otherwise */
	double		flash;			/* a page read from flash alone */
	double		flash_run;		/* a page read from flash with its neighbours */
} FcTimes;

/* Notes that a block is being read; returns its stream, or NULL. */
extern FcStream *fc_policy_stream(FcStreams *streams, uint64_t rel, uint32_t blk);

/* Would reading blk continue a stream?  Changes nothing. */
extern bool fc_policy_in_stream(const FcStreams *streams, uint64_t rel, uint32_t blk);

/*
 * How many pages of a stream should be read ahead now, and from which block
 * on?  `blk` is the next one that it will ask for.  New ones are begun when
 * no more than half of the window is left.
 */
extern uint32_t fc_policy_ahead(const FcStream *stream, uint32_t blk, uint32_t *from);

/*
 * Length of a run of flash pages from which on leaving the disk's stream
 * pays; 0 if no run that is looked at would do.  `together`: its pages will
 * be read several at a time.
 */
extern uint32_t fc_policy_run_that_pays(const FcTimes *times, bool together);

/*
 * A mean that forgets over about `memory` samples, with n samples more that
 * took `sum_ns` together.  0 is one without samples.
 */
extern uint32_t fc_policy_mean(uint32_t mean, uint64_t sum_ns, uint32_t n, uint32_t memory);

/*
 * A page read alone, after a seek, can't be cheaper than one of a stream.  Does
 * the stream's time tell that of such a page, where hardly any is read alone?
 */
extern bool fc_policy_stream_tells_single(const FcTimes *times);

/*
 * Can flash gain anything?  Not while reads "from disk" are answered four
 * times as fast as flash answers: then the kernel's page cache has what falls
 * out of the buffer pool.  One real disk read among many raises the mean.
 */
extern bool fc_policy_worth_filling(const FcTimes *times);

/* ---- a device that is slower than the disk ---- */

/*
 * Is a flash device that takes so long slower than the disk, so that it had
 * better not be asked; and is one that was found so fast again?  Between the
 * two verdicts lies a margin, where things stay as they are.
 */
extern bool fc_policy_slower(uint64_t flash_ns, uint64_t disk_ns);
extern bool fc_policy_fast_again(uint64_t flash_ns, uint64_t disk_ns);

/* Seconds before the next probe of a device, after a pause that was too short. */
#define FC_FIRST_PAUSE_S 1
#define FC_LONGEST_PAUSE_S 300
extern uint32_t fc_policy_longer_pause(uint32_t seconds);

/* ---- warnings ---- */

/* Causes of trouble that the log was warned of; all zeros = of none. */
#define FC_CAUSES 8
typedef struct FcWarnings
{
	struct
	{
		uint64_t	cause;		/* 0 = none */
		uint64_t	warned_at_ns;
	}			of[FC_CAUSES];
} FcWarnings;

#define FC_WARNING_NS UINT64_C(3600000000000)	/* one an hour of each cause */

/*
 * Is it time for a warning of this cause?  If so, it is noted.  Two reasons
 * that differ in digits only (an offset, a time) have the same cause.  With
 * more causes than there is room for, the one warned of first is forgotten.
 */
extern bool fc_policy_warn(FcWarnings *warnings, const char *reason, uint64_t now_ns);

/* ---- is the cache of use? ---- */

#define FC_VERDICT_READS 64		/* pages that a verdict is based on, at least */

/*
 * What happened lately; times in ns, 0 where not known.  They are those of all
 * reads, whoever answered: flash that is not worth filling (see
 * fc_policy_worth_filling) is slower by these, too.
 */
typedef struct FcRecent
{
	bool		writer;			/* does it run? */
	uint64_t	used;			/* slots */
	uint64_t	slots;
	uint64_t	hits;
	uint64_t	misses;
	uint64_t	os_cache_hits;	/* among the misses */
	uint64_t	disk_reads;		/* of any kind: also what flash never holds */
	uint64_t	bypassed;		/* read from disk since that is as fast as
								 * flash */
	uint64_t	offered;		/* pages looked at for flash, whether taken or
								 * not */
	uint64_t	flash_ns;		/* mean read of one page */
	uint64_t	disk_ns;
} FcRecent;

/* In a few words; docs/views.md lists them. */
extern const char *fc_policy_verdict(const FcRecent *recent);

/* ---- filling by extents ---- */

#define FC_EXTENT_PAGES 8		/* aligned */
#define FC_EXTENT_MIN_MISSING 4 /* of the others; else it is not read */

/* When it does not pay only one extent in so many is read, to see whether it does by now. */
#define FC_EXTENTS_RETRY 16
#define FC_EXTENTS_RETRY_MAX 256

/* What has happened since the last verdict. */
typedef struct FcExtents
{
	uint64_t	reads;			/* extents */
	uint64_t	inserts;		/* neighbours that got to flash */
	uint64_t	hits;			/* neighbours asked for, the first time: a
								 * disk read that was saved */
	uint64_t	asked_inserts;	/* the same of pages evicted from the buffer */
	uint64_t	asked_hits;		/* pool, that somebody has asked for */
} FcExtents;

/* May neighbours still take slots?  One in 16 is left to pages that are asked for. */
static inline bool
fc_policy_extents_fit(uint64_t used, uint64_t slots)
{
	return used < slots - slots / 16;
}

/*
 * Do so many neighbours that nobody has asked for take slots that the others
 * should not wait to become wanted twice?  They go one by one, and no more are
 * brought once the cache is full.
 */
static inline bool
fc_policy_extents_give_way(uint64_t unproven, uint64_t slots)
{
	return unproven > slots / 16;
}

/*
 * One extent in how many should be read: 1 while it pays.  `interval` is the
 * present one.  A page of a seek takes the disk `disk_ns`, one of a stream
 * `stream_ns`; 0 where not known.  *verdict: this was a verdict, and what has
 * happened up to now is used up.
 */
extern uint32_t fc_policy_extents(uint32_t interval, const FcExtents *since, uint64_t slots,
								  double disk_ns, double stream_ns, bool *verdict);

/* ---- page-cache probe ---- */

#define FC_PROBE_WINDOW 1024	/* answers a verdict is based on */
#define FC_PROBE_SPARSE 64		/* one read in so many still asks when it does
								 * not pay */

/*
 * One read in how many should ask the page cache, after `asked` questions of
 * which `found` were answered with yes: 1, or FC_PROBE_SPARSE when fewer than
 * one in a hundred was.
 */
extern uint32_t fc_policy_probe_interval(uint64_t asked, uint64_t found);

#endif							/* FC_POLICY_H */
