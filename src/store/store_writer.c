/*-------------------------------------------------------------------------
 *
 * store_writer.c
 *	  The writer reads and writes: slots, and the log.
 *
 * The writer has nothing open: all that it wants of the device is a request to
 * the device process (H4), which it waits for as long as the caller says.  A
 * suspect device is tried before (D9).  What comes of it is a status, never an
 * error; what is enough to give the device up is judged in store_state.c.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "stats/stats.h"
#include "stats/stats_latency.h"
#include "store/store_faults.h"
#include "store/store_internal.h"
#include "store/store_process.h"

/* ---- reading and writing, in the writer ---- */

int
fc_store_try_read(const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, uint64 *ns, FcIo *io)
{
	FcDeviceNo	no = fc_place_of(slots[0]).no;
	FcFault		fault = read_fault(no);
	ssize_t		result;
	FcDeviceRequest *r;
	int			got;

	Assert(fc_in_writer());
	Assert(n > 0 && n <= FC_STORE_MAX_RUN && no != FC_NO_DEVICE);
	*ns = 0;
	*io = fc_together_may_ask(no, timeout_ms);
	if (unlikely(*io != FC_IO_OK))
		return 0;
	r = fc_call_new(no, FC_OP_READ, &result);
	pgstat_report_wait_start(n > 1 ? FC_WAIT_MULTI_BLOCK_READ : FC_WAIT_SINGLE_BLOCK_READ);
	fc_failpoint(FC_FP_STORE_READING);
	if (r != NULL)
	{
		r->fault = fault;
		r->n = n;
		for (int i = 0; i < n; i++)
		{
			FcPlace		place = fc_place_of(slots[i]);

			Assert(place.no == no);
			r->offset[i] = misplaced(&fault, &place, 1);
		}
		result = fc_call_make(r, timeout_ms);
	}
	pgstat_report_wait_end();
	if (r != NULL && result > 0)
		result = spoiled(&fault, result, r->pages[0]);
	got = r == NULL || result < 0 ? 0 : result / BLCKSZ;
	Assert(got <= n);
	for (int i = 0; i < got; i++)
		memcpy(pages[i], r->pages[i], BLCKSZ);
	*io = fc_state_judge(no, fc_state_opening(no), false, got > 0, result, (size_t) n * BLCKSZ, fc_place_of(slots[0]).offset, timeout_ms);
	if (got > 0)
		*ns = r->ns;
	return got;
}

static ssize_t
write_slots(const FcPlace *place, char *const *pages, int n, int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault_of(FC_FP_STORE_WRITE, place->no);
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(place->no, FC_OP_WRITE, &result);

	if (r == NULL)
		return result;
	if (fault.action == FC_FP_ERROR)
		return -EIO;
	if (fault.action == FC_FP_NOSPACE)
		return -ENOSPC;
	r->fault = fault;
	r->n = n;
	r->device.slots = fc_device(place->no)->slots;
	r->device.log_blocks = fc_device(place->no)->log_blocks;
	r->offset[0] = misplaced(&fault, place, n);
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
	FcPlace		place = fc_place_of(first);
	FcIo		io = fc_together_may_ask(place.no, timeout_ms);
	uint64		begin = fc_now_ns();
	ssize_t		written;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN && place.no != FC_NO_DEVICE && fc_store_in_a_row(first, n) == n);
	Assert(place.offset + (off_t) n * BLCKSZ <= fc_slot_offset(fc_device(place.no)->slots));
	if (unlikely(io != FC_IO_OK))
		return io;
	pgstat_report_wait_start(FC_WAIT_WRITE);
	fc_failpoint(FC_FP_STORE_WRITING);
	written = write_slots(&place, pages, n, timeout_ms);
	pgstat_report_wait_end();
	if (written == expected)
	{
		uint64		end = fc_now_ns();

		fc_count(FC_WRITES);
		fc_count_n(FC_WRITE_BYTES, expected);
		fc_count_n(FC_WRITE_NS, end - begin);
		fc_count_latency(FC_LATENCY_FLASH_WRITE, end - begin);
		fc_device_count(place.no, FC_DEVICE_WRITES, n);
		fc_device_count(place.no, FC_DEVICE_WRITE_REQUESTS, 1);
		fc_device_count(place.no, FC_DEVICE_WRITE_NS, end - begin);
	}
	return fc_state_judge(place.no, fc_state_opening(place.no), true, written == expected, written, expected, place.offset, timeout_ms);
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
	FcDeviceRequest *r = fc_call_new(FC_THE_DEVICE, FC_OP_READ, &result);

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	pgstat_report_wait_start(FC_WAIT_MULTI_BLOCK_READ);
	if (r != NULL)
	{
		r->n = n;
		for (int i = 0; i < n; i++)
			r->offset[i] = log_offset(first) + (off_t) i * BLCKSZ;
		result = fc_call_make(r, timeout_ms);
		for (int i = 0; i < n; i++)
			if (fc_failpoint_fault_of(FC_FP_LOG_READ, first + i).action == FC_FP_ERROR)
				result = -EIO;
	}
	pgstat_report_wait_end();
	for (int i = 0; r != NULL && result == bytes && i < n; i++)
		memcpy(blocks[i], r->pages[i], BLCKSZ);
	return fc_state_judge(FC_THE_DEVICE, fc_state_opening(FC_THE_DEVICE), false, result == bytes, result, bytes, log_offset(first), timeout_ms);
}

FcIo
fc_store_write_log(uint32 first, char *const *blocks, int n, int timeout_ms)
{
	FcFault		fault = fc_failpoint_fault(FC_FP_LOG_WRITE);
	ssize_t		bytes = (ssize_t) n * BLCKSZ;
	FcIo		io = fc_together_may_ask(FC_THE_DEVICE, timeout_ms);
	ssize_t		result;
	FcDeviceRequest *r;

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	if (unlikely(io != FC_IO_OK))
		return io;
	r = fc_call_new(FC_THE_DEVICE, FC_OP_WRITE, &result);
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
	return fc_state_judge(FC_THE_DEVICE, fc_state_opening(FC_THE_DEVICE), true, result == bytes, result, bytes, log_offset(first), timeout_ms);
}
