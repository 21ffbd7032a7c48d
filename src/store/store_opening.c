/*-------------------------------------------------------------------------
 *
 * store_opening.c
 *	  The writer opens a device, and lets go of it.
 *
 * Sessions learn of that by the number of the opening, which is set after all
 * the rest (store_follow.c).
 *
 * There are two ways.  At start, and for a change of the device's size, the
 * writer waits, and has nothing else to do.  Devices that come to a cache that
 * is in use are opened step by step (H8): a step is begun, and looked at in
 * later rounds of the writer.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "miscadmin.h"
#include "port/atomics.h"
#include "postmaster/interrupt.h"
#include "stats/stats.h"
#include "storage/pmsignal.h"
#include "store/store_internal.h"
#include "store/store_list.h"
#include "store/store_process.h"

/*
 * Opening may take longer than reading: a step of it (the walk along the path,
 * a try for the lock, a piece of space) gets as long as this at least.
 */
#define OPEN_TIMEOUT_MS 10000

/* What somebody has turned away from is waited for so long. */
#define SETTLE_MS 100

/* H8: they have been opened, and are made ready for use; a bit for each. */
static uint32 prepares = 0;

void
fc_store_patience(int ms)
{
	fc_process_patience_ms = ms;
}

void
fc_store_own(const FcStoreOwner *owner)
{
	Assert(owner->stop != NULL && owner->reload != NULL);
	Assert(fc_process_owner == NULL && fc_follow_fd[FC_THE_DEVICE] < 0);
	fc_process_owner = owner;
}

void
fc_store_look_for_stop(void)
{
	Assert(fc_in_writer());
	if (ShutdownRequestPending || !PostmasterIsAlive())
		fc_process_owner->stop();
}

/* The device process is to open the device, in such a way; NULL with the reason. */
typedef struct Opening
{
	FcDeviceNo	no;
	FcDeviceOp	op;
	const char *path;
	uint32		slots;
	uint32		log_blocks;
	bool		require_mount;
	bool		make;
	const FcKnownDevice *known;
} Opening;

static void
fill_in(FcDeviceRequest *r, const Opening *o)
{
	Assert(o->path[0] == '/' && o->slots >= FC_MIN_SLOTS);
	r->fault.action = fc_failpoint_fault_of(FC_FP_STORE_OPEN, o->no).action;
	r->device = *fc_device(o->no);
	strlcpy(r->path, o->path, sizeof(r->path));
	r->slots = o->slots;
	r->log_blocks = o->log_blocks;
	r->require_mount = o->require_mount;
	r->make = o->make;
	if (o->make)
		r->kept = false;
	r->known = o->known != NULL;
	if (r->known)
	{
		memcpy(r->known_identity, o->known->identity, sizeof(r->known_identity));
		r->known_slots = o->known->slots;
	}
}

int
fc_open_timeout(int timeout_ms)
{
	return timeout_ms > 0 ? Max(timeout_ms, OPEN_TIMEOUT_MS) : 0;
}

/* Why it is not open: what the device process says, or that it says nothing. */
static bool
not_opened(const FcDeviceRequest *r, ssize_t result, int timeout_ms, FcReason *error)
{
	Assert(result < 0);
	if (r == NULL || result != -1)
		return fc_state_no_answer(result, timeout_ms, error);
	*error = r->error;
	return false;
}

static FcDeviceRequest *
ask_to_open(const Opening *o, int timeout_ms, FcReason *error)
{
	ssize_t		result;
	FcDeviceRequest *r;

	(void) fc_list_offer(o->no);
	r = fc_call_new(o->no, o->op, &result);
	if (r != NULL)
	{
		timeout_ms = fc_open_timeout(timeout_ms);
		fill_in(r, o);
		result = fc_call_make(r, timeout_ms);
	}
	if (result == 0)
		return r;
	fc_state_count_hang(o->no, result);
	(void) not_opened(r, result, timeout_ms, error);
	return NULL;
}

/* The number of the next opening. */
static uint32
next_opening(FcDevice *device)
{
	uint32		generation = pg_atomic_read_u32(&device->generation);

	generation = generation == 0 ? FC_START_32 + 1 : generation + 1;
	return generation == 0 ? 1 : generation;	/* 0 says that it is not open */
}

/* The device process has opened it, and it is ready for use: it is the device from now on. */
static void
lead_to(const FcDeviceRequest *r)
{
	FcDevice   *device = fc_device(r->no);

	Assert(r->device.slots == r->slots && strcmp(r->device.path, r->path) == 0);
	Assert(S_ISREG(r->device.seen.st_mode) || S_ISBLK(r->device.seen.st_mode));
	memcpy(device->identity, r->device.identity, sizeof(device->identity));
	fc_list_take_back(r->no);
	device->direct = r->device.direct;
	device->in_memory = r->device.in_memory;
	device->by_thread = r->device.by_thread;
	device->slots = r->device.slots;
	device->log_blocks = r->device.log_blocks;
	pg_atomic_write_u32(&device->alignment, pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &r->device.alignment)));
	device->seen = r->device.seen;
	strlcpy(device->path, r->device.path, sizeof(device->path));
	strlcpy(device->shares, r->device.shares, sizeof(device->shares));
	pg_atomic_write_u32(&device->read_failures, 0);
	pg_atomic_write_u32(&device->write_failures, 0);
	pg_write_barrier();			/* what leads to the device before its number */
	pg_atomic_write_u32(&device->generation, next_opening(device));
	Assert(pg_atomic_read_u32(&device->generation) != 0);
}

static bool
open_it(const Opening *o, int timeout_ms, FcStoreBeforeUse before_use, FcReason *error)
{
	FcDeviceRequest *r = ask_to_open(o, timeout_ms, error);

	if (r == NULL)
		return false;
	while (!before_use(r->same))
		fc_store_look_for_stop();
	lead_to(r);
	return true;
}

bool
fc_store_open(FcDeviceNo no, const char *path, uint32 slots, uint32 log_blocks, bool require_mount, int timeout_ms,
			  FcStoreBeforeUse before_use, FcReason *error)
{
	const Opening o = {no, FC_OP_OPEN, path, slots, log_blocks, require_mount, true, NULL};

	Assert(no == FC_THE_DEVICE);
	return open_it(&o, timeout_ms, before_use, error);
}

bool
fc_store_open_other(FcDeviceNo no, const char *path, uint32 slots, const FcKnownDevice *known, bool make,
					bool require_mount, int timeout_ms, FcStoreBeforeUse before_use, FcReason *error)
{
	const Opening o = {no, FC_OP_OPEN, path, slots, 0, require_mount, make, known};

	Assert(no != FC_THE_DEVICE && no < FC_DEVICES);
	return open_it(&o, timeout_ms, before_use, error);
}

void
fc_store_set_slots(FcDeviceNo no, uint32 slots)
{
	FcDevice   *device = fc_device(no);

	Assert(fc_in_writer() && no != FC_THE_DEVICE);
	device->slots = slots;
	pg_memory_barrier();		/* before the file is cut */
}

void
fc_store_forget(FcDeviceNo no)
{
	FcDevice   *device = fc_device(no);

	Assert(fc_in_writer() && no != FC_THE_DEVICE && !fc_device_readable(no));
	memset(&device->seen, 0, sizeof(device->seen));
	memset(device->identity, 0, sizeof(device->identity));
	device->shares[0] = '\0';
	fc_device_forget_counters(no);
}

FcDeviceRequest *
fc_new_adopt(FcDeviceNo no, ssize_t *result)
{
	const FcDevice *device = fc_device(no);
	const Opening o = {no, FC_OP_ADOPT, device->path, device->slots, device->log_blocks, false, false, NULL};
	FcDeviceRequest *r = fc_call_new(no, FC_OP_ADOPT, result);

	if (r != NULL)
		fill_in(r, &o);
	return r;
}

bool
fc_end_adopt(FcDeviceNo no, const FcDeviceRequest *r, ssize_t result, int timeout_ms, FcReason *error)
{
	fc_state_count_hang(no, result);
	return result == 0 || not_opened(r, result, timeout_ms, error);
}

bool
fc_store_answers(FcDeviceNo no, int timeout_ms, FcReason *error)
{
	ssize_t		result;
	FcDeviceRequest *r;

	Assert(no < FC_DEVICES);
	fc_process_settle(no, timeout_ms);
	r = fc_call_new(no, FC_OP_READ, &result);
	if (r != NULL)
	{
		r->fault.us = fc_failpoint_fault_of(FC_FP_STORE_READ, no).us;
		r->n = 1;
		r->offset[0] = 0;
		result = fc_call_make(r, timeout_ms);
	}
	if (fc_has_answered(result) || result == FC_NO_PROCESS)
		return true;
	fc_state_count_hang(no, result);
	return fc_state_no_answer(result, timeout_ms, error);
}

FcDeviceRequest *
fc_new_close(FcDeviceNo no, ssize_t *result)
{
	FcDeviceRequest *r;

	Assert(no < FC_DEVICES);
	fc_store_turn_away(no);
	r = fc_call_new(no, FC_OP_CLOSE, result);
	if (r != NULL)
		r->fault.us = fc_failpoint_fault_of(FC_FP_STORE_CLOSE, no).us;
	return r;
}

int
fc_close_timeout(int timeout_ms)
{
	return timeout_ms > 0 ? Min(timeout_ms, OPEN_TIMEOUT_MS) : OPEN_TIMEOUT_MS;
}

void
fc_end_close(FcDeviceNo no, ssize_t result)
{
	if (result != 0 && result != FC_NO_PROCESS)
		fc_process_abandon(no);
}

void
fc_store_release(FcDeviceNo no, int timeout_ms)
{
	ssize_t		result;
	FcDeviceRequest *r = fc_new_close(no, &result);

	if (r != NULL)
		result = fc_call_make(r, fc_close_timeout(timeout_ms));
	fc_end_close(no, result);
}

void
fc_store_keep(FcDeviceNo no)
{
	FcDeviceRequest *r = fc_process_memory(no, sizeof(FcDeviceRequest));

	Assert(fc_in_writer() && no != FC_THE_DEVICE && r != NULL);
	r->kept = true;
}

/* ---- step by step: H8 ---- */

bool
fc_store_prepares(FcDeviceNo no)
{
	return fc_is_among(prepares, no);
}

static FcStoreStep
prepare(const FcDeviceRequest *r, FcStoreBeforeUse before_use)
{
	prepares |= FC_DEVICE_BIT(r->no);
	if (!before_use(r->same))
		return FC_STEP_MORE;
	prepares &= ~FC_DEVICE_BIT(r->no);
	lead_to(r);
	return FC_STEP_DONE;
}

/* The step has been filled in: it is begun. */
static FcStoreStep
begin(FcDeviceRequest *r, ssize_t result, int timeout_ms, FcReason *error)
{
	if (r != NULL && fc_call_begin(r))
		return FC_STEP_MORE;
	if (r != NULL)
	{
		result = FC_NO_PROCESS;
		errno = 0;
	}
	(void) fc_state_no_answer(result, timeout_ms, error);
	return FC_STEP_FAILED;
}

FcStoreStep
fc_store_begin_to_ask(FcDeviceNo no, int timeout_ms, FcReason *error)
{
	ssize_t		result;
	FcDeviceRequest *r;

	/* one that is well has ended it by then */
	fc_process_settle(no, timeout_ms > 0 ? Min(timeout_ms, SETTLE_MS) : SETTLE_MS);
	r = fc_call_new(no, FC_OP_READ, &result);
	if (r == NULL && result == FC_NO_PROCESS)
		return FC_STEP_DONE;	/* nothing is open */
	if (r != NULL)
	{
		r->fault.us = fc_failpoint_fault_of(FC_FP_STORE_READ, no).us;
		r->n = 1;
		r->offset[0] = 0;
	}
	return begin(r, result, timeout_ms, error);
}

FcStoreStep
fc_store_begin_to_open(FcDeviceNo no, const char *path, uint32 slots, uint32 log_blocks, const FcKnownDevice *known,
					   bool make, bool require_mount, int timeout_ms, FcReason *error)
{
	const Opening o = {no, FC_OP_OPEN, path, slots, log_blocks, require_mount, make, known};
	ssize_t		result;
	FcDeviceRequest *r;

	(void) fc_list_offer(no);
	r = fc_call_new(no, FC_OP_OPEN, &result);
	if (r != NULL)
		fill_in(r, &o);
	return begin(r, result, timeout_ms, error);
}

FcStoreStep
fc_store_begin_to_try(FcDeviceNo no, const FcSlotNo *slots, char *const *pages, int n, int timeout_ms, FcReason *error)
{
	ssize_t		result;
	FcDeviceRequest *r = fc_call_new(no, FC_OP_TRY, &result);

	Assert(n > 0 && n <= FC_STORE_MAX_RUN);
	if (r != NULL)
	{
		r->fault = fc_failpoint_fault_of(FC_FP_STORE_WRITE, no);
		r->read_fault = fc_failpoint_fault_of(FC_FP_STORE_READ, no);
		r->device.slots = fc_device(no)->slots;
		r->device.log_blocks = fc_device(no)->log_blocks;
		r->n = n;
		for (int i = 0; i < n; i++)
		{
			FcPlace		place = fc_place_of(slots[i]);

			Assert(place.no == no);
			r->offset[i] = place.offset;
			memcpy(r->pages[i], pages[i], BLCKSZ);
		}
	}
	return begin(r, result, timeout_ms, error);
}

/* What has come of the trial. */
static FcStoreStep
look_at_trial(const FcDeviceRequest *r, ssize_t result, int timeout_ms, FcStoreTrial *trial, FcReason *error)
{
	FcDeviceNo	no = r->no;
	bool		answered = fc_has_answered(result);
	bool		wrote = answered && r->written > 0;

	memset(trial, 0, sizeof(*trial));
	if (wrote)
	{
		trial->written = r->written;
		trial->ns = r->ns;
		fc_count_n(FC_WRITES, r->written);
		fc_count_n(FC_WRITE_BYTES, (uint64) r->written * BLCKSZ);
		fc_count_n(FC_WRITE_NS, r->write_ns);
		fc_device_count(no, FC_DEVICE_WRITES, r->written);
		fc_device_count(no, FC_DEVICE_WRITE_REQUESTS, r->written);
		fc_device_count(no, FC_DEVICE_WRITE_NS, r->write_ns);
	}
	if (result > 0)
		return FC_STEP_DONE;

	/*
	 * 0: what was read was not what was written, which is no failure of the
	 * device's own
	 */
	if (result < 0)
		trial->io = fc_state_judge(no, fc_state_opening(no), !wrote, false, result, BLCKSZ, r->offset[0], timeout_ms);
	if (!answered)
		(void) fc_state_no_answer(result, timeout_ms, error);
	trial->answered = answered;
	return FC_STEP_FAILED;
}

FcStoreStep
fc_store_look(FcDeviceNo no, int timeout_ms, FcStoreBeforeUse before_use, FcStoreTrial *trial, FcReason *error)
{
	FcDeviceOp	op = fc_call_under_way(no);
	ssize_t		result;
	FcDeviceRequest *r;

	if (fc_store_prepares(no))
		return prepare(fc_process_memory(no, sizeof(FcDeviceRequest)), before_use);
	timeout_ms = op == FC_OP_OPEN ? fc_open_timeout(timeout_ms) : timeout_ms;
	r = fc_call_look(no, timeout_ms, &result);
	if (result == FC_NO_ANSWER_YET)
		return FC_STEP_MORE;
	switch (op)
	{
		case FC_OP_READ:
			/* only a device that does not answer is an error here */
			if (result != -ETIMEDOUT)
				return FC_STEP_DONE;
			(void) fc_state_no_answer(result, timeout_ms, error);
			return FC_STEP_FAILED;
		case FC_OP_OPEN:
			if (result == 0)
				return prepare(r, before_use);
			(void) not_opened(r, result, timeout_ms, error);
			return FC_STEP_FAILED;
		case FC_OP_TRY:
			return look_at_trial(r, result, timeout_ms, trial, error);
		default:
			break;
	}
	Assert(false);
	return FC_STEP_FAILED;
}

void
fc_store_turn_away(FcDeviceNo no)
{
	prepares &= ~FC_DEVICE_BIT(no);
	fc_process_turn_away(no);
}
