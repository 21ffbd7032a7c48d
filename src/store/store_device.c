/*-------------------------------------------------------------------------
 *
 * store_device.c
 *	  What the device process does: one request of the writer after the other.
 *
 * Everything it needs is in the request; shared memory is not there
 * (store_process.h has the rules).  A result is bytes, or 0, or -errno; for
 * opening -1 and why not.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store/store_internal.h"
#include "store/store_process.h"

/* The pages, those that lie in a row by one call; bytes of the first ones that could be read. */
static ssize_t
read_pages(FcDeviceRequest *r)
{
	ssize_t		done = 0;
	int			run;

	Assert(r->n > 0 && r->n <= FC_STORE_MAX_RUN);
	for (int i = 0; i < r->n; i += run)
	{
		ssize_t		n;

		for (run = 1; i + run < r->n && r->offset[i + run] == r->offset[i] + (off_t) run * BLCKSZ; run++)
			;
		n = fc_pread(fc_open_fd(), r->pages[i], (size_t) run * BLCKSZ, r->offset[i]);
		if (n < 0)
			return done > 0 ? done : n;
		done += n;
		if (n < (ssize_t) run * BLCKSZ)
			break;
	}
	return done;
}

/* n pages in a row. */
static ssize_t
write_run(const FcDeviceRequest *r, const char *from, int n, off_t offset)
{
	Assert(offset >= FC_HEADER_BYTES && offset + (off_t) n * BLCKSZ <= fc_layout_bytes(r->device.slots, r->device.log_blocks));
	if (r->fault.action == FC_FP_SHORT)
		return fc_pwrite(fc_open_fd(), from, BLCKSZ / 2, offset);
	if (r->fault.action != FC_FP_TORN)
		return fc_pwrite(fc_open_fd(), from, (size_t) n * BLCKSZ, offset);

	/*
	 * of each page only the first half gets there, as when power fails;
	 * nobody notices
	 */
	for (int i = 0; i < n; i++)
	{
		ssize_t		done = fc_pwrite(fc_open_fd(), from + (size_t) i * BLCKSZ, BLCKSZ / 2, offset + (off_t) i * BLCKSZ);

		if (done != BLCKSZ / 2)
			return done;
	}
	return (ssize_t) n * BLCKSZ;
}

static ssize_t
write_pages(FcDeviceRequest *r)
{
	Assert(r->n > 0 && r->n <= FC_STORE_MAX_RUN);
	return write_run(r, r->pages[0], r->n, r->offset[0]);
}

/* Neither writing nor reading takes longer, but that each is done once. */
#define TRY_NS UINT64CONST(500000000)

/* Where a test wants a page to be read instead. */
static off_t
misplaced(const FcDeviceRequest *r, off_t offset)
{
	if (r->read_fault.action != FC_FP_MISPLACED)
		return offset;
	return offset + BLCKSZ < fc_slot_offset(r->device.slots) ? offset + BLCKSZ : offset - BLCKSZ;
}

/*
 * Writes pages, and reads them back: each within the time-out.  How many were
 * read; 0 if one of them is not what was written.
 */
static ssize_t
try_pages(FcDeviceRequest *r)
{
	static char back[BLCKSZ] pg_attribute_aligned(FC_IO_ALIGN);
	uint64		begin = fc_now_ns();
	int			n = 0;

	r->written = 0;
	if (r->fault.action == FC_FP_ERROR || r->fault.action == FC_FP_NOSPACE)
		return r->fault.action == FC_FP_ERROR ? -EIO : -ENOSPC;
	while (n < r->n && (n == 0 || fc_now_ns() - begin < TRY_NS))
	{
		ssize_t		done;

		fc_process_sleep(r->fault.us);
		memcpy(back, r->pages[n], BLCKSZ);
		if (r->fault.action == FC_FP_FLIP)
			back[BLCKSZ / 2] ^= 1;
		done = write_run(r, back, 1, r->offset[n]);
		if (done != BLCKSZ)
			return done < 0 ? done : -EIO;
		fc_process_goes_on();
		n++;
	}
	r->written = n;
	r->write_ns = fc_now_ns() - begin;
	begin = fc_now_ns();
	for (n = 0; n < r->written && (n == 0 || fc_now_ns() - begin < TRY_NS); n++)
	{
		ssize_t		done;

		fc_process_sleep(r->read_fault.us);
		done = fc_pread(fc_open_fd(), back, BLCKSZ, misplaced(r, r->offset[n]));
		if (r->read_fault.action == FC_FP_ERROR || done != BLCKSZ)
			return done < 0 ? done : -EIO;
		if (r->read_fault.action == FC_FP_FLIP)
			back[BLCKSZ / 2] ^= 1;
		if (memcmp(back, r->pages[n], BLCKSZ) != 0)
			return 0;
		fc_process_goes_on();
	}
	r->ns = Max((fc_now_ns() - begin) / Max(n, 1), 1);
	return n;
}

void
fc_device_serve(void *memory)
{
	FcDeviceRequest *r = memory;
	uint64		begin = fc_now_ns();

	Assert(fc_in_device_process());
	Assert((uintptr_t) r->pages % FC_IO_ALIGN == 0);
	fc_devices = NULL;			/* so that whoever looks there by mistake
								 * crashes here */
	if (r->op != FC_OP_TRY)
		fc_process_sleep(r->fault.us);
	switch (r->op)
	{
		case FC_OP_OPEN:
			r->result = fc_open_for_server(r) ? 0 : -1;
			break;
		case FC_OP_ADOPT:
			r->result = fc_open_adopt(r) ? 0 : -1;
			break;
		case FC_OP_READ:
			r->result = read_pages(r);
			break;
		case FC_OP_WRITE:
			r->result = fc_open_claimed() ? write_pages(r) : -EBADF;
			break;
		case FC_OP_SYNC:
			r->result = fdatasync(fc_open_fd()) == 0 ? 0 : -errno;
			break;
		case FC_OP_CLOSE:
			fc_open_close(!r->kept);
			r->result = 0;
			break;
		case FC_OP_TRY:
			r->result = fc_open_claimed() ? try_pages(r) : -EBADF;
			return;
	}
	r->claimed = fc_open_claimed();
	r->ns = fc_now_ns() - begin;
}

void
fc_device_leave(void *memory)
{
	const FcDeviceRequest *r = memory;

	if (!r->kept)
		fc_made_undo();
}
