/*-------------------------------------------------------------------------
 *
 * store_state.c
 *	  What results mean, and what a process may do with a device.
 *
 * Whoever reads or writes has the result judged here.  What is enough to switch
 * the cache off is left in words for that process (fc_store_trouble()); nobody
 * gets it in another way.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "port/atomics.h"
#include "stats/stats.h"
#include "storage/shmem.h"
#include "store/store_internal.h"
#include "store/store_place.h"
#include "store/store_process.h"

/* Failures in a row, over all processes, after which the device is given up. */
#define FAILURES_IN_A_ROW 3

#define HUNG "the flash device did not answer for %d ms"
#define KERNEL_HINT "See the kernel's log for what ails the device."
#define HUNG_HINT KERNEL_HINT " If such pauses are normal for it, raise pg_flashcache.io_timeout."

static FcReason trouble;
static uint32 trouble_of = 0;	/* the opening that it is of */
static int	last_errno = 0;

/* The writer judges what has come of asking all that may be suspect, which makes none suspect. */
static bool together = false;

FcPart
fc_store_part(void)
{
	return fc_part("pg_flashcache store", FC_DEVICES * sizeof(FcDevice));
}

void
fc_store_shmem_init(uint32 slots, uint32 first)
{
	FcPart		part = fc_store_part();
	bool		found;

	fc_devices = ShmemInitStruct(part.name, part.size, &found);
	memset(fc_devices, 0, part.size);
	fc_store_map_init(slots, first);
	for (int i = 0; i < FC_DEVICES; i++)
	{
		FcDevice   *device = &fc_devices[i];

		pg_atomic_init_u32(&device->generation, 0);
		pg_atomic_init_u32(&device->read_failures, 0);
		pg_atomic_init_u32(&device->write_failures, 0);
		pg_atomic_init_u32(&device->alignment, FC_IO_ALIGN);
		pg_atomic_init_u32(&device->no_ring, 0);
	}
}

/* ---- what results mean ---- */

bool
fc_state_no_answer(ssize_t result, int timeout_ms, FcReason *error)
{
	Assert(!fc_has_answered(result));
	Assert(timeout_ms >= 0);
	if (result != FC_NO_PROCESS && timeout_ms == 0)
		return fc_fail(error, KERNEL_HINT, "the flash device does not answer");
	if (result != FC_NO_PROCESS)
		return fc_fail(error, HUNG_HINT, HUNG, timeout_ms);
	if (errno != 0)
		return fc_fail(error, "Check the limits of processes, memory and open files.",
					   "could not make the process that uses the flash device: %m");
	return fc_fail(error, "See the kernel's log: it may have been killed for lack of memory.",
				   "the process that uses the flash device has ended");
}

void
fc_state_judges_together(bool begins)
{
	together = begins;
}

/* D9: somebody has waited so long in vain for that device, so others may hang as well. */
static void
suspect_others(FcDeviceNo no, int timeout_ms)
{
	uint64		now = fc_now_ns();
	uint64		wait = (uint64) timeout_ms * 1000000;
	uint32		devices = 0;

	/*
	 * Without a time-out it was the kernel that gave up, and nobody bounds a
	 * wait.  All that may be suspect have been asked together with this one.
	 * And a device that is not in use is one that is being tried before it
	 * is, by a writer that does not wait for it (H8), or has gone off since.
	 */
	if (timeout_ms <= 0 || together || !fc_device_readable(no))
		return;
	for (FcDeviceNo other = 0; other < FC_DEVICES; other++)
		if (other != no && fc_device_readable(other) && fc_device_passed_at(other) + wait < now)
			devices |= FC_DEVICE_BIT(other);
	if (devices != 0)
		fc_device_suspect(devices);
}

/*
 * D4.  That is enough: the reason is in `trouble`.  Of the first device the cache
 * goes off, and the caller sees to that; another one goes off alone, here, and
 * for the caller the pages are not to be had.
 */
static FcIo
broken(FcDeviceNo no, uint32 opening)
{
	if (no != FC_THE_DEVICE)
	{
		fc_device_trouble(no, opening, &trouble);
		return FC_IO_FAILED;
	}
	trouble_of = opening;
	return FC_IO_BROKEN;
}

FcIo
fc_state_no_way(FcDeviceNo no, int timeout_ms)
{
	const FcDevice *device = fc_device(no);
	uint32		opening = fc_follow_opening[no];

	Assert(errno != 0);
	/* somebody has reopened it, or it has been let go of: that is no news */
	if (opening != fc_state_opening(no) || !fc_device_readable(no))
		return FC_IO_FAILED;
	switch (errno)
	{
		case EMFILE:
		case ENFILE:
		case ENOMEM:
		case EINTR:
		case EAGAIN:
		case ECANCELED:			/* io_uring could make no thread */
			return FC_IO_FAILED;
		case ESTALE:
			fc_fail(&trouble, FC_REPLACED_HINT, FC_REPLACED, device->path);
			break;
		case ETIMEDOUT:
			fc_count(FC_TIMEOUTS);
			fc_device_count(no, FC_DEVICE_TIMEOUTS, 1);
			fc_fail(&trouble, HUNG_HINT, HUNG, timeout_ms);
			suspect_others(no, timeout_ms);
			break;				/* H3 */
		default:
			/* a session sees one after the other: what to do depends on which */
			fc_place_for(no == FC_THE_DEVICE ? FC_FOR_FIRST : FC_FOR_LISTED);
			fc_fail(&trouble, fc_open_hint(S_ISBLK(device->seen.st_mode)), "could not open \"%s\": %m", device->path);
	}
	fc_count(FC_READ_ERRORS);
	fc_device_count(no, FC_DEVICE_READ_ERRORS, 1);
	return broken(no, opening);
}

void
fc_state_count_hang(FcDeviceNo no, ssize_t result)
{
	if (result != -ETIMEDOUT)
		return;
	fc_count(FC_READ_ERRORS);
	fc_device_count(no, FC_DEVICE_READ_ERRORS, 1);
	fc_count(FC_TIMEOUTS);
	fc_device_count(no, FC_DEVICE_TIMEOUTS, 1);
}

FcIo
fc_state_judge(FcDeviceNo no, uint32 opening, bool write, bool ok, ssize_t result, size_t bytes, off_t offset, int timeout_ms)
{
	FcDevice   *device = fc_device(no);
	pg_atomic_uint32 *failures = write ? &device->write_failures : &device->read_failures;
	bool		late;

	Assert(offset >= 0);
	Assert(!ok || (result >= 0 && result <= (ssize_t) bytes));
	Assert(!write || fc_in_writer());
	if (likely(ok))
	{
		if (unlikely(pg_atomic_read_u32(failures) != 0))
			pg_atomic_write_u32(failures, 0);
		return FC_IO_OK;
	}
	/* the ring broke, or could make no thread: not the device */
	if (fc_uring_lost(result) || result == -ECANCELED)
		return FC_IO_FAILED;
	/* it has become shorter: that was read by a former place of the slot */
	if (no != FC_THE_DEVICE && !write && offset + (off_t) bytes > fc_slot_offset(device->slots))
		return FC_IO_FAILED;
	/* H5: nothing was asked, so nobody has waited; but it still hangs */
	if (result == FC_NOT_ASKED)
	{
		last_errno = ETIMEDOUT;
		(void) fc_state_no_answer(result, timeout_ms, &trouble);
		return broken(no, opening);
	}
	fc_count(write ? FC_WRITE_ERRORS : FC_READ_ERRORS);
	fc_device_count(no, write ? FC_DEVICE_WRITE_ERRORS : FC_DEVICE_READ_ERRORS, 1);
	last_errno = result < 0 && !fc_in_flight(result) ? -result : 0;
	late = fc_in_flight(result) || result == -ETIMEDOUT;	/* or the kernel gave up */
	if (late)
	{
		fc_count(FC_TIMEOUTS);
		fc_device_count(no, FC_DEVICE_TIMEOUTS, 1);
	}
	if (opening != fc_state_opening(no))
		return FC_IO_FAILED;
	if (late)
	{
		fc_state_no_answer(-ETIMEDOUT, timeout_ms, &trouble);
		suspect_others(no, timeout_ms);
		return broken(no, opening); /* H3 */
	}
	if (result == FC_NO_PROCESS)
	{
		fc_state_no_answer(result, timeout_ms, &trouble);
		return broken(no, opening);
	}
	if (pg_atomic_add_fetch_u32(failures, 1) < FAILURES_IN_A_ROW)
		return FC_IO_FAILED;
	errno = result < 0 ? -result : 0;
	if (result < 0)
		fc_fail(&trouble, fc_store_hint(no, errno), "%d failures in a row, the last: could not %s %zu bytes at offset %lld of \"%s\": %m",
				FAILURES_IN_A_ROW, write ? "write" : "read", bytes, (long long) offset, device->path);
	else
		fc_fail(&trouble, "Check the device, and that nobody has shortened the file.",
				"%d failures in a row, the last: could %s only %zd of %zu bytes at offset %lld of \"%s\"",
				FAILURES_IN_A_ROW, write ? "write" : "read", result, bytes, (long long) offset, device->path);
	return broken(no, opening);
}

int
fc_store_last_errno(void)
{
	return last_errno;
}

const char *
fc_store_hint(FcDeviceNo no, int code)
{
	if (code == ENOSPC || code == EDQUOT)
		return "The storage below the device is full (thin provisioning, a sparse file): free space there.";
	if (code == EFBIG && no != FC_THE_DEVICE)
		return "Raise the limit of file sizes (ulimit -f), and restart the server; or remove the device by pg_flashcache_remove_device(), and add it again with a smaller size.";
	if (code == EFBIG)
		return "Raise the limit of file sizes (ulimit -f), or lower pg_flashcache.size, and restart the server.";
	return "Check the device.";
}

const FcReason *
fc_store_trouble(void)
{
	return &trouble;
}

void
fc_store_first_is_off(void)
{
	if (trouble_of != 0)
		fc_device_trouble(FC_THE_DEVICE, trouble_of, &trouble);
}

bool
fc_store_trouble_is_over(void)
{
	return trouble_of != fc_state_opening(FC_THE_DEVICE);
}

/* ---- who may use it ---- */

bool
fc_store_can_time_out(void)
{
	return fc_uring_ready();
}

bool
fc_store_may_read(FcDeviceNo no, int timeout_ms)
{
	FcDevice   *device = fc_device(no);
	uint32		none = 0;

	Assert(timeout_ms >= 0);
	if (likely(timeout_ms <= 0 || device->in_memory || fc_uring_ready()))
		return true;
	(void) pg_atomic_compare_exchange_u32(&device->no_ring, &none, (uint32) fc_uring_errno());
	return false;
}

bool
fc_store_may_read_slot(FcSlotNo slot, int timeout_ms)
{
	FcDeviceNo	no = fc_store_device_of(slot);

	return no == FC_NO_DEVICE || fc_store_may_read(no, timeout_ms);
}

int
fc_store_unbounded(FcDeviceNo no)
{
	FcDevice   *device = fc_device(no);

	Assert(fc_in_writer());
	if (pg_atomic_read_u32(&device->no_ring) == 0)
		return 0;
	return (int) pg_atomic_exchange_u32(&device->no_ring, 0);
}

bool
fc_store_can_bound(FcDeviceNo no, int timeout_ms, FcReason *error)
{
	int			save_errno;

	Assert(fc_in_writer());
	if (timeout_ms <= 0 || fc_device(no)->in_memory || fc_uring_possible(&save_errno))
		return true;
	if (save_errno == 0)
		return fc_fail(error, "Install liburing-dev, build and install the extension again, restart; or set pg_flashcache.io_timeout to 0: reads then wait for flash as long as it takes.",
					   "no wait for the flash device can be bounded: pg_flashcache was built without liburing");
	errno = save_errno;
	return fc_fail(error, "Allow io_uring, or set pg_flashcache.io_timeout to 0: reads then wait for flash as long as it takes.",
				   "no wait for the flash device can be bounded without io_uring: %m");
}
