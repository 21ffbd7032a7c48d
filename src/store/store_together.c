/*-------------------------------------------------------------------------
 *
 * store_together.c
 *	  Several devices at once: those that may hang together, and what the writer
 *	  wants of all of them.
 *
 * Drives behind one controller, enclosure or network hang together.  To find
 * that out of one after the other would take io_timeout for each.  So one wait
 * in vain makes the others in use suspect (D9), and the writer tries all of these
 * at the same time.  What it wants of all devices anyway it asks of all at once
 * (D10): to flush them, to adopt them, to let go of them.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "common/pg_prng.h"
#include "store/store_internal.h"
#include "store/store_process.h"

/* A device that is well passes its trial so soon, as a rule. */
#define SOON_MS 100

/* ---- D9 ---- */

bool
fc_store_any_suspect(void)
{
	return unlikely(fc_device_suspects() != 0);
}

bool
fc_store_is_suspect(FcDeviceNo no)
{
	return fc_is_among(fc_device_suspects(), no) && fc_device_readable(no);
}

void
fc_store_forget_suspects(void)
{
	Assert(fc_in_writer());
	fc_device_clear(PG_UINT32_MAX);
}

/*
 * The header, which is on the device for sure, and any slot.  A slot that was
 * never written may be known to the file system, which then does not ask the
 * device.
 */
static FcDeviceRequest *
new_trial(FcDeviceNo no, ssize_t *result)
{
	FcDeviceRequest *r = fc_call_new(no, FC_OP_READ, result);

	if (r == NULL)
		return NULL;
	r->fault.us = fc_failpoint_fault_of(FC_FP_STORE_READ, no).us;
	r->n = 2;
	r->offset[0] = 0;
	r->offset[1] = fc_slot_offset((FcSlotNo) pg_prng_uint64_range(&pg_global_prng_state, 0, fc_device(no)->slots - 1));
	return r;
}

/* One that has answered, also with an error, and whatever it was asked, is not suspect any more. */
static void
note_answer(FcDeviceNo no, ssize_t result, uint64 begin)
{
	if (!fc_has_answered(result))
		return;
	fc_device_passed(no, begin);
	fc_device_clear(FC_DEVICE_BIT(no));
}

/* Of several: those that have answered are not waited for any more. */
static void
let_pass(FcDeviceRequest **r, const ssize_t *result, uint64 begin)
{
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (r[no] != NULL && fc_has_answered(result[no]))
		{
			note_answer(no, result[no], begin);
			r[no] = NULL;
		}
}

/*
 * Tries all that are suspect.  Those that answer soon need not wait for those
 * that hang.  Returns what that means for one of them; the others go off here.
 * But trouble with the first device may be the end of the cache, which is its
 * caller's to see to: it stays suspect until somebody asks for that one, and is
 * tried again then; in vain, at once, if it has not answered by then (H5).
 */
static FcIo
try_all(FcDeviceNo asked, int timeout_ms)
{
	uint32		suspects = fc_device_suspects();
	FcDeviceRequest *r[FC_DEVICES] = {NULL};
	ssize_t		result[FC_DEVICES] = {0};
	uint64		begin = fc_now_ns();
	FcIo		io = FC_IO_OK;

	Assert(fc_in_writer() && timeout_ms > 0);
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_is_among(suspects, no) && fc_device_readable(no))
			r[no] = new_trial(no, &result[no]);
	fc_call_send_all(r);
	fc_call_await_all(r, result, begin, Min(timeout_ms, SOON_MS));
	let_pass(r, result, begin);
	fc_call_await_all(r, result, begin, timeout_ms);
	let_pass(r, result, begin);

	fc_state_judges_together(true);
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		FcIo		its = FC_IO_OK;

		if (!fc_is_among(suspects, no) || (no == FC_THE_DEVICE && asked != no && !fc_has_answered(result[no])))
			continue;
		if (!fc_has_answered(result[no]))
		{
			errno = 0;
			its = fc_state_judge(no, fc_state_opening(no), false, false, result[no], BLCKSZ, 0, timeout_ms);
		}
		fc_device_clear(FC_DEVICE_BIT(no));
		if (no == asked)
			io = its;
	}
	fc_state_judges_together(false);
	return io;
}

FcIo
fc_together_may_ask(FcDeviceNo no, int timeout_ms)
{
	if (likely(!fc_is_among(fc_device_suspects(), no)))
		return FC_IO_OK;
	if (timeout_ms <= 0)
	{
		fc_store_forget_suspects();
		return FC_IO_OK;
	}
	if (fc_failpoint(FC_FP_SUSPECT_DUE))
		return FC_IO_FAILED;
	return try_all(no, timeout_ms);
}

FcIo
fc_store_try_suspects(int timeout_ms)
{
	FcIo		io = FC_IO_OK;

	for (FcDeviceNo no = 0; no < FC_DEVICES && io != FC_IO_BROKEN; no++)
		io = fc_together_may_ask(no, timeout_ms);
	return io;
}

/*
 * D10: they have been asked at the same time; those that have answered pass, and
 * soon, whatever the others do.
 */
static void
await(FcDeviceRequest *const *r, ssize_t *result, uint64 begin, int timeout_ms)
{
	FcDeviceRequest *left[FC_DEVICES];

	memcpy(left, r, sizeof(left));
	if (timeout_ms > 0)
	{
		fc_call_await_all(left, result, begin, Min(timeout_ms, SOON_MS));
		let_pass(left, result, begin);
	}
	fc_call_await_all(left, result, begin, timeout_ms);
	let_pass(left, result, begin);
}

/* ---- flushing: D10 ---- */

/* The request; NULL if there is none, and the result. */
static FcDeviceRequest *
new_sync(FcDeviceNo no, ssize_t *result)
{
	FcFault		fault = fc_failpoint_fault_of(FC_FP_STORE_SYNC, no);
	FcDeviceRequest *r = fc_call_new(no, FC_OP_SYNC, result);

	if (r != NULL && fault.action == FC_FP_ERROR)
	{
		*result = -EIO;
		return NULL;
	}
	if (r != NULL)
		r->fault = fault;
	return r;
}

static FcIo
judge_sync(FcDeviceNo no, ssize_t result, int timeout_ms)
{
	errno = 0;
	return fc_state_judge(no, fc_state_opening(no), true, result == 0, result, 0, 0, timeout_ms);
}

FcIo
fc_store_sync_devices(uint32 devices, int timeout_ms, uint32 *failed)
{
	FcDeviceRequest *r[FC_DEVICES] = {NULL};
	ssize_t		result[FC_DEVICES] = {0};
	uint64		begin;
	FcIo		io = FC_IO_OK;

	*failed = 0;
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_is_among(devices, no))
			r[no] = new_sync(no, &result[no]);
	pgstat_report_wait_start(FC_WAIT_WRITE);
	begin = fc_now_ns();
	fc_call_send_all(r);
	await(r, result, begin, timeout_ms);
	pgstat_report_wait_end();

	fc_state_judges_together(true);
	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
	{
		FcReason	why;

		if (!fc_is_among(devices, no) || judge_sync(no, result[no], timeout_ms) == FC_IO_OK)
			continue;
		*failed |= FC_DEVICE_BIT(no);
		/* K15: what it confirmed may be lost, so it does not stay in use */
		errno = fc_store_last_errno();
		fc_fail(&why, "Check the device.", "could not flush \"%s\": %m", fc_store_path(no));
		fc_device_trouble(no, fc_state_opening(no), &why);
	}
	if (fc_is_among(devices, FC_THE_DEVICE))
		io = judge_sync(FC_THE_DEVICE, result[FC_THE_DEVICE], timeout_ms);
	if (io != FC_IO_OK)
		*failed |= FC_DEVICE_BIT(FC_THE_DEVICE);
	fc_state_judges_together(false);
	return io;
}

FcIo
fc_store_sync(int timeout_ms)
{
	uint32		devices = FC_DEVICE_BIT(FC_THE_DEVICE);
	uint32		failed;

	for (FcDeviceNo no = FC_THE_DEVICE + 1; no < FC_DEVICES; no++)
		if (fc_device_readable(no))
			devices |= FC_DEVICE_BIT(no);
	return fc_store_sync_devices(devices, timeout_ms, &failed);
}

/* ---- taking over, letting go: D10 ---- */

uint32
fc_store_adopt(uint32 devices, int timeout_ms, FcReason *why)
{
	FcDeviceRequest *r[FC_DEVICES] = {NULL};
	FcDeviceRequest *open[FC_DEVICES] = {NULL};
	FcDeviceRequest *to_open[FC_DEVICES] = {NULL};
	ssize_t		result[FC_DEVICES] = {0};
	uint32		asked = 0;
	uint32		adopted = 0;
	uint64		begin;

	Assert(fc_in_writer());
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
	{
		if (!fc_is_among(devices, no))
			continue;
		if (fc_state_opening(no) == 0)
		{
			fc_fail(&why[no], "Set pg_flashcache.enabled to on first.",
					"the flash device has not been opened since the server started");
			continue;
		}
		asked |= FC_DEVICE_BIT(no);
		r[no] = fc_new_adopt(no, &result[no]);

		/*
		 * One that has it open reads the header, no more.  Without a limit
		 * all are waited for as one: the settings may set one meanwhile.
		 */
		if (r[no] != NULL && r[no]->claimed && timeout_ms > 0)
			open[no] = r[no];
		else
			to_open[no] = r[no];
	}
	begin = fc_now_ns();
	fc_call_send_all(r);
	await(open, result, begin, timeout_ms);
	await(to_open, result, begin, fc_open_timeout(timeout_ms));
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_is_among(asked, no) &&
			fc_end_adopt(no, r[no], result[no], to_open[no] != NULL ? fc_open_timeout(timeout_ms) : timeout_ms, &why[no]))
			adopted |= FC_DEVICE_BIT(no);
	return adopted;
}

void
fc_store_release_all(uint32 devices, int timeout_ms)
{
	FcDeviceRequest *r[FC_DEVICES] = {NULL};
	ssize_t		result[FC_DEVICES] = {0};

	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_is_among(devices, no))
			r[no] = fc_new_close(no, &result[no]);
	fc_call_send_all(r);
	fc_call_await_all(r, result, fc_now_ns(), fc_close_timeout(timeout_ms));
	for (FcDeviceNo no = 0; no < FC_DEVICES; no++)
		if (fc_is_among(devices, no))
			fc_end_close(no, result[no]);
}
