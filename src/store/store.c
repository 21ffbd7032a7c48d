/*-------------------------------------------------------------------------
 *
 * store.c
 *	  Reads and writes.  See store.h; layout.h says what lies where.
 *
 * Two kinds of processes are here.  Sessions read through a descriptor of their
 * own and wait by io_uring (H1).  The writer has nothing open: all that it
 * wants of the device is a request to the device process (H4).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/uio.h>

#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "store/store_internal.h"
#include "store/store_process.h"

/* For assertions: are these slots of the device that was opened last? */
static inline bool
slots_exist(const FcSlotNo *slots, int n)
{
	for (int i = 0; i < n; i++)
		if (slots[i] >= fc_device(FC_THE_DEVICE)->slots)
			return false;
	return n > 0;
}

/* Where a test wants a request to go instead: to a neighbour. */
static off_t
misplaced(const FcFault *fault, FcSlotNo first, int n)
{
	if (likely(fault->action != FC_FP_MISPLACED))
		return fc_slot_offset(first);
	return fc_slot_offset(first + n < fc_device(FC_THE_DEVICE)->slots ? first + 1 : first - 1);
}

/* What a test wants the device to have answered. */
static ssize_t
spoiled(const FcFault *fault, ssize_t result, char *page)
{
	if (fault->action == FC_FP_ERROR)
		return -EIO;
	if (fault->action == FC_FP_SHORT && result > 0)
		return Min(result, BLCKSZ / 2);
	if (fault->action == FC_FP_FLIP && result > 0)
		page[BLCKSZ / 2] ^= 1;
	return result;
}

/* How many of the first n slots lie in a row. */
static int
neighbours(const FcSlotNo *slots, int n)
{
	int			i = 1;

	Assert(n > 0);
	while (i < n && slots[i] == slots[0] + i)
		i++;
	return i;
}

/* ---- reading by io_uring ---- */

/* Reads n <= FC_STAGE_PAGES slots, all requests at once, and copies what was read in time. */
static int
read_staged(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, uint64 deadline, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	FcStage    *stage = fc_call_stage();
	int			done = 0;
	int			run;

	Assert(n > 0 && n <= FC_STAGE_PAGES);
	Assert(*io == FC_IO_OK && fc_follow_fd >= 0);
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
		run = neighbours(&slots[i], n - i);
		fc_uring_read(fc_follow_fd, stage->memory + (size_t) i * BLCKSZ, (size_t) run * BLCKSZ,
					  misplaced(&fault, slots[i], run), &stage->result[stage->nresults++], fault.us);
	}
	for (int r = 0; r < stage->nresults && *io == FC_IO_OK; r++)
	{
		char	   *from = stage->memory + (size_t) done * BLCKSZ;
		ssize_t		result;
		int			got;

		run = neighbours(&slots[done], n - done);
		fc_uring_wait(&stage->result[r], deadline);
		result = spoiled(&fault, stage->result[r], from);
		got = result < 0 ? 0 : result / BLCKSZ;
		Assert(got <= run);
		*io = fc_state_judge(fc_follow_opening, false, got > 0, result, (size_t) run * BLCKSZ, fc_slot_offset(slots[done]), timeout_ms);
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
read_through_bounce(off_t offset, char *page)
{
	static char bounce[BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
	ssize_t		n;

	do
		n = pread(fc_follow_fd, bounce, BLCKSZ, offset);
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
read_plain(off_t offset, char *const *pages, int n)
{
	struct iovec iov[FC_STORE_MAX_READ];
	uint32		alignment = pg_atomic_read_u32(&fc_device(FC_THE_DEVICE)->alignment);
	ssize_t		result;

	Assert(n > 0 && n <= FC_STORE_MAX_READ && offset >= FC_HEADER_BYTES);
	Assert(fc_follow_fd >= 0);
	Assert(alignment > 0 && alignment <= FC_IO_ALIGN);
	if (!all_aligned(pages, n, alignment))
		return read_through_bounce(offset, pages[0]);
	for (int i = 0; i < n; i++)
	{
		iov[i].iov_base = pages[i];
		iov[i].iov_len = BLCKSZ;
	}
	do
		result = preadv(fc_follow_fd, iov, n, offset);
	while (result < 0 && errno == EINTR);
	if (result >= 0)
		return result;
	if (errno != EINVAL || alignment >= FC_IO_ALIGN)
		return -errno;
	/* the device asks for more than it said */
	pg_atomic_write_u32(&fc_device(FC_THE_DEVICE)->alignment, FC_IO_ALIGN);
	return read_through_bounce(offset, pages[0]);
}

/* The same for one run after the other. */
static int
read_blocking(const FcSlotNo *slots, char *const *pages, int n, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	int			done = 0;
	int			got = 1;

	for (; done < n && *io == FC_IO_OK && got > 0; done += got)
	{
		int			run = neighbours(&slots[done], n - done);
		ssize_t		result;

		if (unlikely(fault.us > 0))
			pg_usleep(fault.us);
		result = spoiled(&fault, read_plain(misplaced(&fault, slots[done], run), &pages[done], run), pages[done]);
		got = result < 0 ? 0 : result / BLCKSZ;
		Assert(got <= run);
		*io = fc_state_judge(fc_follow_opening, false, got > 0, result, (size_t) run * BLCKSZ, fc_slot_offset(slots[done]), 0);
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
by_uring(const FcSlotNo *slots, int n, int timeout_ms)
{
	if (!fc_uring_ready() || (fc_device(FC_THE_DEVICE)->in_memory && !fc_failpoints_armed()))
		return false;
	return timeout_ms > 0 || neighbours(slots, n) < n;
}

int
fc_store_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, FcIo *io)
{
	int			done = 0;

	Assert(n > 0 && n <= FC_STORE_MAX_READ);
	Assert(timeout_ms >= 0);
	Assert(!fc_in_writer());	/* has fc_store_try_read() */
	*io = FC_IO_OK;
	if (unlikely(!fc_store_may_read(FC_THE_DEVICE, timeout_ms)))
	{
		fc_count(FC_READS_UNBOUNDED);
		*io = FC_IO_FAILED;
		return 0;
	}
	if (unlikely(!fc_follow(timeout_ms)))
	{
		*io = fc_state_no_way(fc_follow_opening, timeout_ms);
		return 0;
	}
	Assert(slots_exist(slots, n));
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (by_uring(slots, n, timeout_ms))
	{
		uint64		deadline = fc_call_deadline(timeout_ms);
		int			now;
		int			got;

		do
		{
			now = Min(n - done, FC_STAGE_PAGES);
			got = read_staged(&slots[done], &pages[done], now, timeout_ms, deadline, io);
			done += got;
			/* the ring may have broken just after the last answer */
		} while (done < n && got == now && *io == FC_IO_OK && fc_uring_ready());
	}
	else if (unlikely(!fc_store_may_read(FC_THE_DEVICE, timeout_ms)))
		*io = FC_IO_FAILED;		/* the ring broke while the device was opened */
	else
		done = read_blocking(slots, pages, n, io);
	pgstat_report_wait_end();
	Assert(done >= 0 && done <= n);
	return done;
}

/* ---- reading ahead ---- */

bool
fc_store_ahead_start(FcAhead *ahead, FcSlotNo first, char *pages, int n, int timeout_ms, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);

	*io = FC_IO_OK;
	if (unlikely(!fc_follow(timeout_ms)))
	{
		*io = fc_state_no_way(fc_follow_opening, timeout_ms);
		return false;
	}
	if (!fc_uring_ready())		/* it may break while the device is opened */
		return false;
	Assert(n > 0 && n <= FC_STORE_MAX_RUN && first + n <= fc_device(FC_THE_DEVICE)->slots);
	Assert((uintptr_t) pages % FC_IO_ALIGN == 0);
	ahead->opening = fc_follow_opening;
	ahead->n = n;
	ahead->offset = fc_slot_offset(first);
	fc_uring_read(fc_follow_fd, pages, (size_t) n * BLCKSZ, misplaced(&fault, first, n), &ahead->result, fault.us);
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
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	ssize_t		result;
	int			got;

	Assert(ahead->n > 0 && ahead->offset >= FC_HEADER_BYTES && ahead->result != FC_NOT_BEGUN);
	pgstat_report_wait_start(ahead->n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_uring_wait(&ahead->result, fc_call_deadline(timeout_ms));
	pgstat_report_wait_end();
	result = spoiled(&fault, ahead->result, pages);
	got = result < 0 ? 0 : result / BLCKSZ;
	*io = fc_state_judge(ahead->opening, false, got > 0, result, (size_t) ahead->n * BLCKSZ, ahead->offset, timeout_ms);
	return got;
}

/* ---- reading and writing, in the writer ---- */

int
fc_store_try_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, uint64 *ns, FcIo *io)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_READ);
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(FC_OP_READ, &result);
	int			got;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN && slots_exist(slots, n));
	*ns = 0;
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (r != NULL)
	{
		r->fault = fault;
		r->n = n;
		for (int i = 0; i < n; i++)
			r->offset[i] = misplaced(&fault, slots[i], 1);
		result = fc_call_make(r, timeout_ms);
	}
	pgstat_report_wait_end();
	if (r != NULL && result > 0)
		result = spoiled(&fault, result, r->pages[0]);
	got = r == NULL || result < 0 ? 0 : result / BLCKSZ;
	Assert(got <= n);
	for (int i = 0; i < got; i++)
		memcpy(pages[i], r->pages[i], BLCKSZ);
	*io = fc_state_judge(fc_state_opening(), false, got > 0, result, (size_t) n * BLCKSZ, fc_slot_offset(slots[0]), timeout_ms);
	if (got > 0)
		*ns = r->ns;
	return got;
}

static ssize_t
write_slots(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_WRITE);
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(FC_OP_WRITE, &result);

	if (r == NULL)
		return result;
	if (fault.action == FC_FP_ERROR)
		return -EIO;
	if (fault.action == FC_FP_NOSPACE)
		return -ENOSPC;
	r->fault = fault;
	r->n = n;
	r->offset[0] = misplaced(&fault, first, n);
	for (int i = 0; i < n; i++)
		memcpy(r->pages[i], pages[i], BLCKSZ);
	if (fault.action == FC_FP_FLIP)
		r->pages[0][BLCKSZ / 2] ^= 1;
	return fc_call_make(r, timeout_ms);
}

FcIo
fc_store_write(FcSlotNo first, char *const *pages, int n, int timeout_ms)
{
	ssize_t		expected = (ssize_t) n * BLCKSZ;
	uint64		begin = fc_now_ns();
	ssize_t		written;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN && first + n <= fc_device(FC_THE_DEVICE)->slots);
	pgstat_report_wait_start(FC_WAIT_WRITE);
	fc_failpoint(FC_FP_STORE_WRITING);
	written = write_slots(first, pages, n, timeout_ms);
	pgstat_report_wait_end();
	if (written == expected)
	{
		uint64		end = fc_now_ns();

		fc_count(FC_WRITES);
		fc_count_n(FC_WRITE_BYTES, expected);
		fc_count_n(FC_WRITE_NS, end - begin);
		fc_count_latency(FC_LATENCY_FLASH_WRITE, end - begin);
	}
	return fc_state_judge(fc_state_opening(), true, written == expected, written, expected, fc_slot_offset(first), timeout_ms);
}

/* ---- the log, in the writer ---- */

static off_t
log_offset(uint32 block)
{
	const FcDevice *device = fc_device(FC_THE_DEVICE);

	Assert(block < device->log_blocks);
	return fc_layout_bytes(device->slots, block);
}

FcIo
fc_store_read_log(uint32 first, char *const *blocks, int n, int timeout_ms)
{
	ssize_t		bytes = (ssize_t) n * BLCKSZ;
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(FC_OP_READ, &result);

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	pgstat_report_wait_start(FC_WAIT_MULTI_BLOCK_READ);
	if (r != NULL)
	{
		r->n = n;
		for (int i = 0; i < n; i++)
			r->offset[i] = log_offset(first) + (off_t) i * BLCKSZ;
		result = fc_call_make(r, timeout_ms);
	}
	pgstat_report_wait_end();
	for (int i = 0; r != NULL && result == bytes && i < n; i++)
		memcpy(blocks[i], r->pages[i], BLCKSZ);
	return fc_state_judge(fc_state_opening(), false, result == bytes, result, bytes, log_offset(first), timeout_ms);
}

FcIo
fc_store_write_log(uint32 first, char *const *blocks, int n, int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_LOG_WRITE);
	ssize_t		bytes = (ssize_t) n * BLCKSZ;
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(FC_OP_WRITE, &result);

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	pgstat_report_wait_start(FC_WAIT_WRITE);
	if (r != NULL && fault.action == FC_FP_ERROR)
		result = -EIO;
	else if (r != NULL)
	{
		r->fault = fault;
		r->n = n;
		r->device = *fc_device(FC_THE_DEVICE);
		r->offset[0] = log_offset(first);
		for (int i = 0; i < n; i++)
			memcpy(r->pages[i], blocks[i], BLCKSZ);
		result = fc_call_make(r, timeout_ms);
	}
	pgstat_report_wait_end();
	if (result == bytes)
		fc_count_n(FC_LOG_BYTES, bytes);
	return fc_state_judge(fc_state_opening(), true, result == bytes, result, bytes, log_offset(first), timeout_ms);
}

FcIo
fc_store_sync(int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_STORE_SYNC);
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(FC_OP_SYNC, &result);

	pgstat_report_wait_start(FC_WAIT_WRITE);
	if (r != NULL && fault.action == FC_FP_ERROR)
		result = -EIO;
	else if (r != NULL)
	{
		r->fault = fault;
		result = fc_call_make(r, timeout_ms);
	}
	pgstat_report_wait_end();
	return fc_state_judge(fc_state_opening(), true, result == 0, result, 0, 0, timeout_ms);
}
