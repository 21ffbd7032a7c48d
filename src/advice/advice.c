/*-------------------------------------------------------------------------
 *
 * advice/advice.c
 *	  See advice.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <math.h>

#include "admission/admission.h"
#include "advice/advice.h"
#include "admission/miniature.h"
#include "bufscan.h"
#include "common/hashfn.h"
#include "compat.h"
#include "miscadmin.h"
#include "policy.h"
#include "port/atomics.h"
#include "settings.h"
#include "storage/bufmgr.h"
#include "storage/lwlock.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"

/* Slots of the miniature that stands for factor 1. */
#define BASE_SLOTS 4096

#define PERIODS 6
#define PERIOD_US INT64CONST(600000000)

/* Buffers of the largest ring that is known as one: that of VACUUM by default, 2 MB from 17 on. */
#define MAX_RING 256

static const double factors[FC_ADVICE_SIZES] = {0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4};

typedef struct Period
{
	TimestampTz since;			/* 0 = none yet */
	uint64		reads;
	uint64		hits[FC_ADVICE_SIZES];
	uint64		writes[FC_ADVICE_SIZES];
	uint64		buffer_hits[FC_ADVICE_SIZES];

	/* without the lock */
	pg_atomic_uint64 disk_ns;
	pg_atomic_uint64 disk_reads;
	pg_atomic_uint64 dropped;
} Period;

/* The lock protects what is not atomic. */
struct FcAdvice
{
	LWLock		lock;			/* leaf */
	pg_atomic_uint32 base;		/* fc_advice_base(); no order needed, as of
								 * the next one: who is late puts a page in
								 * that nobody asks for */
	pg_atomic_uint64 limit;		/* hashes below it are the sample */
	double		rate;
	FcMiniature flash[FC_ADVICE_SIZES];
	FcQueue		buffers[FC_ADVICE_SIZES];
	FcFrames	pool;
	pg_atomic_uint32 *occupied; /* a bit for each frame of which `pool` knows
								 * a page; without the lock */
	Period		period[PERIODS];
	volatile int now;			/* the current period */
};

FcAdvice   *fc_advice = NULL;

/* Which frames this process has read into: each at the place of its number, modulo. */
static struct
{
	uint32		buffer;			/* its number from 1; 0 = none */
	uint32		at;				/* of `buffers_read` */
}			recent[2 * MAX_RING];
static uint32 buffers_read;

/* Before devices are added. */
static uint32
first_base(void)
{
	return fc_setting_size > 0 ? (uint32) fc_setting_size : (uint32) Min((uint64) NBuffers * 4, (uint64) INT_MAX);
}

uint32
fc_advice_base(void)
{
	return fc_advice != NULL ? pg_atomic_read_u32(&fc_advice->base) : first_base();
}

/* The largest one; that of a larger base has as many slots for each size. */
static double
sample_rate(void)
{
	return Min(1.0, (double) BASE_SLOTS / first_base());
}

static uint32
slots_for(double pages)
{
	return (uint32) Max(1.0, rint(pages * sample_rate()));
}

/* Twice the pages of the sample that shared_buffers has on average is more than there ever are. */
static uint32
frames_known(void)
{
	return (uint32) Min((uint64) NBuffers, 2 * (uint64) slots_for(NBuffers) + 64);
}

static Size
words_occupied(void)
{
	return ((Size) NBuffers + 31) / 32;
}

FcPart
fc_advice_part(void)
{
	Size		size = MAXALIGN(sizeof(FcAdvice));

	for (int i = 0; i < FC_ADVICE_SIZES; i++)
	{
		uint32		slots = slots_for(factors[i] * first_base());

		size = add_size(size, fc_miniature_size(slots));
		size = add_size(size, fc_queue_size(slots));
	}
	size = add_size(size, fc_frames_size(frames_known()));
	size = add_size(size, mul_size(words_occupied(), sizeof(pg_atomic_uint32)));
	return fc_part("pg_flashcache advice", size);
}

/* All miniatures are empty, and stand for a cache of that size. */
static void
begin_with(uint32 base)
{
	char	   *memory = (char *) fc_advice + MAXALIGN(sizeof(FcAdvice));
	double		rate = sample_rate() * first_base() / base;

	fc_advice->rate = rate;
	pg_atomic_write_u32(&fc_advice->base, base);
	pg_atomic_write_u64(&fc_advice->limit, rate >= 1 ? PG_UINT64_MAX : (uint64) ldexp(rate, 64));
	memset(memory, 0, fc_advice_part().size - MAXALIGN(sizeof(FcAdvice)));
	for (int i = 0; i < FC_ADVICE_SIZES; i++)
	{
		uint32		slots = slots_for(factors[i] * first_base());

		fc_miniature_init(&fc_advice->flash[i], slots, memory);
		memory += fc_miniature_size(slots);
		fc_queue_init(&fc_advice->buffers[i], slots, memory);
		memory += fc_queue_size(slots);
	}
	fc_frames_init(&fc_advice->pool, frames_known(), memory);
	fc_advice->occupied = (pg_atomic_uint32 *) (memory + fc_frames_size(frames_known()));
	for (Size i = 0; i < words_occupied(); i++)
		pg_atomic_write_u32(&fc_advice->occupied[i], 0);
}

void
fc_advice_shmem_init(int tranche)
{
	FcPart		part = fc_advice_part();
	bool		found;

	fc_advice = ShmemInitStruct(part.name, part.size, &found);
	memset(fc_advice, 0, part.size);
	LWLockInitialize(&fc_advice->lock, tranche);
	pg_atomic_init_u32(&fc_advice->base, 0);
	pg_atomic_init_u64(&fc_advice->limit, 0);
	begin_with(first_base());
	for (int i = 0; i < PERIODS; i++)
	{
		pg_atomic_init_u64(&fc_advice->period[i].disk_ns, 0);
		pg_atomic_init_u64(&fc_advice->period[i].disk_reads, 0);
		pg_atomic_init_u64(&fc_advice->period[i].dropped, 0);
	}
	fc_advice->period[0].since = GetCurrentTimestamp();
}

/* ---- periods ---- */

static void
begin_period(Period *period, TimestampTz now)
{
	period->since = now;
	period->reads = 0;
	memset(period->hits, 0, sizeof(period->hits));
	memset(period->writes, 0, sizeof(period->writes));
	memset(period->buffer_hits, 0, sizeof(period->buffer_hits));
	pg_atomic_write_u64(&period->disk_ns, 0);
	pg_atomic_write_u64(&period->disk_reads, 0);
	pg_atomic_write_u64(&period->dropped, 0);
}

/* The current one; the lock is held. */
static Period *
current_period(void)
{
	TimestampTz now = GetCurrentTimestamp();
	Period	   *period = &fc_advice->period[fc_advice->now];

	/* a clock that was set back begins a new one, too */
	if (now - period->since < PERIOD_US && now >= period->since)
		return period;
	fc_advice->now = (fc_advice->now + 1) % PERIODS;
	period = &fc_advice->period[fc_advice->now];
	begin_period(period, now);
	return period;
}

/* ---- what happens ---- */

/*
 * The key of a page of the sample, or 0.  The bits that decided are in every
 * key the same, so they are mixed once more.
 */
static uint64
key_of(const FcTag *tag)
{
	uint64		hash = hash_bytes_extended((const unsigned char *) tag, sizeof(*tag), 0);

	if (hash > pg_atomic_read_u64(&fc_advice->limit))
		return 0;
	hash ^= hash >> 33;
	hash *= UINT64CONST(0xff51afd7ed558ccd);
	hash ^= hash >> 33;
	return hash != 0 ? hash : 1;
}

/*
 * The admission in force; but neighbours are not in the sample together, so that
 * it cannot tell regions: pages stand for them, with a few hits less.
 */
static FcAdmission
mode_now(void)
{
	FcAdmission mode = fc_admission_mode((FcAdmission) fc_setting_admission);

	return mode == FC_ADMIT_REGION ? FC_ADMIT_PAGE : mode;
}

static bool
lock(void)
{
	if (likely(LWLockConditionalAcquire(&fc_advice->lock, LW_EXCLUSIVE)))
		return true;
	pg_atomic_fetch_add_u64(&fc_advice->period[fc_advice->now].dropped, 1);
	return false;
}

/* The page has left the pool. */
static void
note_eviction(Period *period, uint64 evicted)
{
	FcAdmission mode = mode_now();

	for (int i = 0; i < FC_ADVICE_SIZES; i++)
	{
		if (fc_miniature_offer(&fc_advice->flash[i], evicted, evicted, mode))
			period->writes[i]++;
		(void) fc_queue_put(&fc_advice->buffers[i], evicted);
	}
}

static bool
is_occupied(uint32 frame)
{
	return (pg_atomic_read_u32(&fc_advice->occupied[frame / 32]) & (UINT32_C(1) << frame % 32)) != 0;
}

/*
 * The page is in that frame now (key 0: it is not of the sample).  What was
 * there has been evicted, and is offered unless a ring of buffers has reused
 * its frame.  The lock is held.
 */
static void
put_into_frame(Period *period, uint32 frame, uint64 key, bool ring)
{
	uint64		evicted = fc_frames_put(&fc_advice->pool, frame, key);
	pg_atomic_uint32 *word = &fc_advice->occupied[frame / 32];
	uint32		bit = UINT32_C(1) << frame % 32;

	if (key != 0)
		pg_atomic_fetch_or_u32(word, bit);
	else
		pg_atomic_fetch_and_u32(word, ~bit);
	if (evicted != 0 && !ring)
		note_eviction(period, evicted);
}

static void
note_read(Period *period, uint64 key, bool ring)
{
	/*
	 * it is in no frame, or nobody would read it: what has come to its frame
	 * since was not read from disk, and has not been written yet
	 */
	if (fc_frames_take(&fc_advice->pool, key))
		note_eviction(period, key);
	period->reads++;
	for (int i = 0; i < FC_ADVICE_SIZES; i++)
	{
		if (fc_miniature_read(&fc_advice->flash[i], key))
			period->hits[i]++;
		/* what comes into the pool leaves the rest of a larger one */
		if (ring ? fc_queue_has(&fc_advice->buffers[i], key) : fc_queue_take(&fc_advice->buffers[i], key))
			period->buffer_hits[i]++;
	}
}

/* Has this process read into the frame a short while ago?  A pool of other frames would have had its turn before. */
static bool
is_of_ring(uint32 frame)
{
	uint32		buffer = frame + 1;
	int			i = buffer % lengthof(recent);
	bool		again = recent[i].buffer == buffer && buffers_read - recent[i].at <= (uint32) Min(MAX_RING, NBuffers / 8);

	recent[i].buffer = buffer;
	recent[i].at = buffers_read++;
	return again;
}

void
fc_advice_read_slow(const FcTag *tag, int n, void *const *pages)
{
	FcTag		t = *tag;

	for (int i = 0; i < n; i++, t.blk++)
	{
		uint32		frame = fc_bufscan_frame(pages[i]);
		bool		ring = is_of_ring(frame);
		uint64		key = key_of(&t);
		Period	   *period;

		if ((key == 0 && !is_occupied(frame)) || !lock())
			continue;
		period = current_period();
		if (key != 0)
			note_read(period, key, ring);
		put_into_frame(period, frame, key, ring);
		LWLockRelease(&fc_advice->lock);
	}
}

void
fc_advice_written_slow(const FcTag *tag, int n, const void *const *pages)
{
	FcTag		t = *tag;

	for (int i = 0; i < n; i++, t.blk++)
	{
		uint64		key = key_of(&t);
		int			frame;

		/* a copy, with the checksum, is written of many */
		frame = fc_bufscan_in_pool(pages[i]) ? (int) fc_bufscan_frame(pages[i]) : fc_bufscan_frame_of(&t);

		if ((key == 0 && (frame < 0 || !is_occupied(frame))) || !lock())
			continue;
		if (key != 0)
			for (int k = 0; k < FC_ADVICE_SIZES; k++)
				fc_miniature_forget(&fc_advice->flash[k], key, mode_now());
		if (frame >= 0)
			put_into_frame(current_period(), frame, key, false);
		LWLockRelease(&fc_advice->lock);
	}
}

void
fc_advice_disk_slow(uint64 begin, int n)
{
	Period	   *period = &fc_advice->period[fc_advice->now];

	pg_atomic_fetch_add_u64(&period->disk_ns, fc_now_ns() - begin);
	pg_atomic_fetch_add_u64(&period->disk_reads, n);
}

/* ---- what came of it ---- */

static void
add_period(FcAdviceSums *sums, Period *period, TimestampTz now)
{
	if (period->since == 0 || now - period->since > PERIODS * PERIOD_US)
		return;
	if (sums->since == 0 || period->since < sums->since)
		sums->since = period->since;
	sums->reads += period->reads;
	sums->dropped += pg_atomic_read_u64(&period->dropped);
	sums->disk_ns += pg_atomic_read_u64(&period->disk_ns);
	sums->disk_reads += pg_atomic_read_u64(&period->disk_reads);
	for (int i = 0; i < FC_ADVICE_SIZES; i++)
	{
		sums->flash[i].hits += period->hits[i];
		sums->flash[i].writes += period->writes[i];
		sums->buffers[i].hits += period->buffer_hits[i];
	}
}

bool
fc_advice_sums(FcAdviceSums *sums)
{
	TimestampTz now;

	memset(sums, 0, sizeof(*sums));
	if (fc_advice == NULL)
		return false;
	for (int i = 0; i < FC_ADVICE_SIZES; i++)
	{
		sums->flash[i].factor = sums->buffers[i].factor = factors[i];
		sums->flash[i].pages = sums->buffers[i].pages = (uint64) (factors[i] * fc_advice_base());
	}
	LWLockAcquire(&fc_advice->lock, LW_EXCLUSIVE);
	(void) current_period();
	now = GetCurrentTimestamp();
	sums->rate = fc_advice->rate;
	for (int i = 0; i < PERIODS; i++)
		add_period(sums, &fc_advice->period[i], now);
	LWLockRelease(&fc_advice->lock);
	sums->seconds = Max(1, now - sums->since) / 1e6;
	return true;
}

static void
reset(void)
{
	for (int i = 0; i < PERIODS; i++)
		begin_period(&fc_advice->period[i], 0);
	fc_advice->period[fc_advice->now].since = GetCurrentTimestamp();
}

/* The miniatures keep their pages. */
void
fc_advice_reset(void)
{
	if (fc_advice == NULL)
		return;
	LWLockAcquire(&fc_advice->lock, LW_EXCLUSIVE);
	reset();
	LWLockRelease(&fc_advice->lock);
}

void
fc_advice_set_base(uint32 pages)
{
	if (fc_advice == NULL || pages == pg_atomic_read_u32(&fc_advice->base))
		return;
	Assert(pages >= first_base());
	LWLockAcquire(&fc_advice->lock, LW_EXCLUSIVE);
	begin_with(pages);
	reset();
	LWLockRelease(&fc_advice->lock);
}
