/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Sessions read.  See store.h; layout.h says what lies where.
 *
 * A session reads through a descriptor of its own and waits by io_uring (H1),
 * into memory of this process (H2).  Nothing here is for the writer, which reads
 * and writes in another way (store_writer.c).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/uio.h>

#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "store/store_faults.h"
#include "store/store_internal.h"
#include "store/store_process.h"

/* How many of the first n places lie in a row. */
static int
neighbours(const FcPlace *places, int n)
{
	int			i = 1;

	Assert(n > 0);
	while (i < n && places[i].no == places[0].no && places[i].offset == places[0].offset + (off_t) i * BLCKSZ)
		i++;
	return i;
}

/* ---- reading by io_uring ---- */

/* Reads n <= FC_STAGE_PAGES slots, all requests at once, and copies what was read in time. */
static int
read_staged(const FcPlace *places, char *const *pages, int n, int timeout_ms, uint64 deadline, FcIo *io)
{
	FcStage    *stage = fc_call_stage();
	int			done = 0;
	int			run;

	Assert(n > 0 && n <= FC_STAGE_PAGES);
	Assert(*io == FC_IO_OK);
	if (stage == NULL)
	{
		if (fc_call_has_given_up())
			fc_count_n(FC_READS_UNBOUNDED, n);
		*io = FC_IO_FAILED;		/* a miss, and no news about the device */
		return 0;
	}
	stage->nresults = 0;
	for (int i = 0; i < n; i += run)
	{
		FcFault		fault = read_fault(places[i].no);

		Assert(fc_follow_fd[places[i].no] >= 0);
		run = neighbours(&places[i], n - i);
		fc_uring_read(fc_follow_fd[places[i].no], stage->memory + (size_t) i * BLCKSZ, (size_t) run * BLCKSZ,
					  misplaced(&fault, &places[i], run), fc_device(places[i].no)->by_thread, &stage->result[stage->nresults++], fault.us);
	}
	for (int r = 0; r < stage->nresults && *io == FC_IO_OK; r++)
	{
		const FcPlace *place = &places[done];
		FcFault		fault = read_fault(place->no);
		char	   *from = stage->memory + (size_t) done * BLCKSZ;
		ssize_t		result;
		int			got;

		run = neighbours(place, n - done);
		fc_uring_wait(&stage->result[r], deadline);
		result = spoiled(&fault, stage->result[r], from);
		got = result < 0 ? 0 : result / BLCKSZ;
		Assert(got <= run);
		*io = fc_state_judge(place->no, fc_follow_opening[place->no], false, got > 0, result, (size_t) run * BLCKSZ, place->offset, timeout_ms);
		for (int i = 0; i < got; i++)
			memcpy(pages[done + i], from + (size_t) i * BLCKSZ, BLCKSZ);
		done += got;
		if (got < run)
			break;				/* only what is there from the start on */
	}
	return done;
}

/* ---- reading by preadv ---- */

/* One slot, through memory of our own: for targets that are not aligned. */
static ssize_t
read_through_bounce(const FcPlace *place, char *page)
{
	static char bounce[BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
	ssize_t		n;

	do
		n = pread(fc_follow_fd[place->no], bounce, BLCKSZ, place->offset);
	while (n < 0 && errno == EINTR);
	if (n == BLCKSZ)
		memcpy(page, bounce, BLCKSZ);
	return n < 0 ? -errno : n;
}

static bool
all_aligned(char *const *pages, int n, uint32 alignment)
{
	for (int i = 0; i < n; i++)
		if ((uintptr_t) pages[i] % alignment != 0)
			return false;
	return true;
}

/* Reads the first of n slots, those that lie in a row or one alone; bytes, or -errno. */
static ssize_t
read_plain(const FcPlace *place, char *const *pages, int n)
{
	struct iovec iov[FC_STORE_MAX_READ];
	uint32		alignment = pg_atomic_read_u32(&fc_device(place->no)->alignment);
	ssize_t		result;

	Assert(n > 0 && n <= FC_STORE_MAX_READ && place->offset >= FC_HEADER_BYTES);
	Assert(fc_follow_fd[place->no] >= 0);
	Assert(alignment > 0 && alignment <= FC_IO_ALIGN);
	if (!all_aligned(pages, n, alignment))
		return read_through_bounce(place, pages[0]);
	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
	}
	do
		result = preadv(fc_follow_fd[place->no], iov, n, place->offset);
	while (result < 0 && errno == EINTR);
	if (result >= 0)
		return result;
	if (errno != EINVAL || alignment >= FC_IO_ALIGN)
		return -errno;
	/* the device asks for more than it said */
	pg_atomic_write_u32(&fc_device(place->no)->alignment, FC_IO_ALIGN);
	return read_through_bounce(place, pages[0]);
}

/* The same for one run after the other. */
static int
read_blocking(const FcPlace *places, char *const *pages, int n, FcIo *io)
{
	int			done = 0;
	int			got = 1;

	for (; done < n && *io == FC_IO_OK && got > 0; done += got)
	{
		FcPlace		place = places[done];
		FcFault		fault = read_fault(place.no);
		int			run = neighbours(&places[done], n - done);
		ssize_t		result;

		if (unlikely(fault.us > 0))
			pg_usleep(fault.us);
		place.offset = misplaced(&fault, &place, run);
		result = spoiled(&fault, read_plain(&place, &pages[done], run), pages[done]);
		got = result < 0 ? 0 : result / BLCKSZ;
		Assert(got <= run);
		*io = fc_state_judge(place.no, fc_follow_opening[place.no], false, got > 0, result, (size_t) run * BLCKSZ, places[done].offset, 0);
	}
	return done;
}

/* ---- reading, in a session ---- */

/*
 * Is a read to go through io_uring?  A file system in memory makes io_uring
 * hand each read to a thread of the kernel, which takes several times as long
 * as to copy a page.  Devices that tests make slow are an exception.
 */
static bool
by_uring(const FcPlace *places, int n, int timeout_ms)
{
	bool		in_memory = true;

	if (!fc_uring_ready())
		return false;
	for (int i = 0; i < n && in_memory; i++)
		in_memory = fc_device(places[i].no)->in_memory;
	if (in_memory && !fc_failpoints_armed())
		return false;
	return timeout_ms > 0 || neighbours(places, n) < n;
}

/* May this process read from the device at this moment, and does it have a way to it?  If not, *io says what that means. */
static bool
have_way(FcDeviceNo no, int timeout_ms, FcIo *io)
{
	*io = FC_IO_FAILED;
	if (unlikely(!fc_device_readable(no)) || fc_is_among(fc_device_suspects(), no))
		return false;
	if (unlikely(!fc_store_may_read(no, timeout_ms)))
	{
		fc_count(FC_READS_UNBOUNDED);
		return false;
	}
	if (unlikely(!fc_follow(no, timeout_ms)))
	{
		*io = fc_state_no_way(no, timeout_ms);
		return false;
	}
	return true;
}

/* Where n slots lie; how many of the first ones can be read.  *io: of the one after these. */
static int
find_places(const FcSlotNo *slots, FcPlace *places, int n, int timeout_ms, FcIo *io)
{
	FcDeviceNo	last = FC_NO_DEVICE;
	uint32		suspects;

	*io = FC_IO_OK;
	for (int i = 0; i < n; i++)
	{
		places[i] = fc_place_of(slots[i]);
		if (unlikely(places[i].no == FC_NO_DEVICE))
		{
			*io = FC_IO_FAILED; /* it has been moved since it was looked up */
			return i;
		}
		if (places[i].no != last && unlikely(!have_way(places[i].no, timeout_ms, io)))
			return i;
		*io = FC_IO_OK;
		last = places[i].no;
	}

	/*
	 * to open one may have let go of another, which has been given up
	 * meanwhile, or have made it suspect (D9)
	 */
	suspects = fc_device_suspects();
	for (int i = 0; i < n; i++)
		if (unlikely(fc_follow_fd[places[i].no] < 0) || fc_is_among(suspects, places[i].no))
		{
			*io = FC_IO_FAILED;
			return i;
		}
	return n;
}

/* Still, after something has been opened: the ring may have broken. */
static bool
may_read_all(const FcPlace *places, int n, int timeout_ms)
{
	for (int i = 0; i < n; i++)
		if (!fc_store_may_read(places[i].no, timeout_ms))
			return false;
	return true;
}

/* So many of the first pages were read. */
static void
count_read(const FcPlace *places, int n)
{
	int			run;

	for (int i = 0; i < n; i += run)
	{
		for (run = 1; i + run < n && places[i + run].no == places[i].no; run++)
			;
		fc_device_count(places[i].no, FC_DEVICE_READS, run);
	}
}

void
fc_store_read_took(const FcSlotNo *slots, int n, uint64 ns)
{
	FcDeviceNo	no = fc_place_of(slots[0]).no;

	for (int i = 1; i < n; i++)
		if (fc_place_of(slots[i]).no != no)
			return;				/* of several devices: whose time is it? */
	if (no == FC_NO_DEVICE)
		return;					/* it has gone meanwhile */
	fc_device_count(no, FC_DEVICE_READ_REQUESTS, 1);
	fc_device_count(no, FC_DEVICE_READ_NS, ns);
}

int
fc_store_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, FcIo *io)
{
	FcPlace		places[FC_STORE_MAX_READ];
	FcIo		after;			/* what keeps the others from being read */
	int			done = 0;

	Assert(n > 0 && n <= FC_STORE_MAX_READ);
	Assert(timeout_ms >= 0);
	Assert(!fc_in_writer());	/* has fc_store_try_read() */
	n = find_places(slots, places, n, timeout_ms, &after);
	if (unlikely(n == 0))
	{
		*io = after;
		return 0;
	}
	*io = FC_IO_OK;
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (by_uring(places, n, timeout_ms))
	{
		uint64		deadline = fc_call_deadline(timeout_ms);
		int			now;
		int			got;

		do
		{
			now = Min(n - done, FC_STAGE_PAGES);
			got = read_staged(&places[done], &pages[done], now, timeout_ms, deadline, io);
			done += got;
			/* the ring may have broken just after the last answer */
		} while (done < n && got == now && *io == FC_IO_OK && fc_uring_ready());
	}
	else if (unlikely(!may_read_all(places, n, timeout_ms)))
		*io = FC_IO_FAILED;		/* the ring broke while the device was opened */
	else
		done = read_blocking(places, pages, n, io);
	pgstat_report_wait_end();
	Assert(done >= 0 && done <= n);
	if (likely(done > 0))
		count_read(places, done);
	if (*io == FC_IO_OK && done == n)
		*io = after;
	return done;
}

/* ---- reading ahead ---- */

bool
fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n, int timeout_ms, FcIo *io)
{
	FcPlace		place = fc_place_of(first);
	FcFault		fault;

	*io = FC_IO_OK;

	/*
	 * it may have been moved since it was looked up, and no longer lie in a
	 * row
	 */
	if (unlikely(place.no == FC_NO_DEVICE || fc_store_in_a_row(first, n) < n) ||
		!fc_device_readable(place.no) || fc_is_among(fc_device_suspects(), place.no))
		return false;
	if (unlikely(!fc_follow(place.no, timeout_ms)))
	{
		*io = fc_state_no_way(place.no, timeout_ms);
		return false;
	}
	if (!fc_uring_ready())		/* it may break while the device is opened */
		return false;
	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	Assert((uintptr_t) pages % FC_IO_ALIGN == 0);
	fault = read_fault(place.no);
	ahead->no = place.no;
	ahead->opening = fc_follow_opening[place.no];
	ahead->n = n;
	ahead->offset = place.offset;
	fc_uring_read(fc_follow_fd[place.no], pages, (size_t) n * BLCKSZ, misplaced(&fault, &place, n), fc_device(place.no)->by_thread, &ahead->result, fault.us);
	fc_uring_submit();
	return true;
}

bool
fc_store_ahead_done(FcAhead *ahead)
{
	if (fc_in_flight(ahead->result))
		fc_uring_look();
	return !fc_in_flight(ahead->result);
}

bool
fc_store_ahead_lost(const FcAhead *ahead)
{
	return fc_in_flight(ahead->result) && fc_uring_lost(ahead->result);
}

int
fc_store_ahead_finish(FcAhead *ahead, char *pages, int timeout_ms, FcIo *io)
{
	FcFault		fault = read_fault(ahead->no);
	ssize_t		result;
	int			got;

	Assert(ahead->n > 0 && ahead->offset >= FC_HEADER_BYTES && ahead->result != FC_NOT_BEGUN);

	/*
	 * one that has been given up is not waited for once more, nor one that
	 * may hang as well (D9)
	 */
	if (!fc_device_readable(ahead->no) || ahead->opening != fc_state_opening(ahead->no) || fc_is_among(fc_device_suspects(), ahead->no))
	{
		if (!fc_store_ahead_done(ahead))
		{
			*io = FC_IO_FAILED;
			return 0;
		}
	}
	pgstat_report_wait_start(ahead->n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_uring_wait(&ahead->result, fc_call_deadline(timeout_ms));
	pgstat_report_wait_end();
	result = spoiled(&fault, ahead->result, pages);
	got = result < 0 ? 0 : result / BLCKSZ;
	*io = fc_state_judge(ahead->no, ahead->opening, false, got > 0, result, (size_t) ahead->n * BLCKSZ, ahead->offset, timeout_ms);
	if (got > 0)
		fc_device_count(ahead->no, FC_DEVICE_READS, got);
	return got;
}
