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

static ssize_t
write_pages(FcDeviceRequest *r)
{
	ssize_t		n;

	Assert(r->n > 0 && r->n <= FC_STORE_MAX_RUN);
	Assert(r->offset[0] >= FC_HEADER_BYTES &&
		   r->offset[0] + (off_t) r->n * BLCKSZ <= fc_layout_bytes(r->device.slots, r->device.log_blocks));
	if (r->fault.action == FC_FP_SHORT)
		return fc_pwrite(fc_open_fd(), r->pages[0], BLCKSZ / 2, r->offset[0]);
	if (r->fault.action != FC_FP_TORN)
		return fc_pwrite(fc_open_fd(), r->pages[0], (size_t) r->n * BLCKSZ, r->offset[0]);

	/*
	 * of each page only the first half gets there, as when power fails;
	 * nobody notices
	 */
	for (int i = 0; i < r->n; i++)
	{
		n = fc_pwrite(fc_open_fd(), r->pages[i], BLCKSZ / 2, r->offset[0] + (off_t) i * BLCKSZ);
		if (n != BLCKSZ / 2)
			return n;
	}
	return (ssize_t) r->n * BLCKSZ;
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
			fc_open_close();
			r->result = 0;
			break;
	}
	r->ns = fc_now_ns() - begin;
}
