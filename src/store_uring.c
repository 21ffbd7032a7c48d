/*-------------------------------------------------------------------------
 *
 * store_uring.c
 *	  See store_uring.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "store_uring.h"

#ifdef FC_USE_LIBURING

#include <liburing.h>
#include <unistd.h>

#include "storage/fd.h"

/* Requests in flight at a time; more would only wait in the device's queue. */
#define ENTRIES 64

typedef enum RingState
{
	RING_UNKNOWN,
	RING_READY,
	RING_NONE,					/* the kernel won't, or something went wrong */
} RingState;

static struct io_uring ring;
static RingState ring_state = RING_UNKNOWN;

static bool
ring_ready(void)
{
	if (ring_state == RING_UNKNOWN)
	{
		ring_state = RING_NONE;
		if (io_uring_queue_init(ENTRIES, &ring, 0) == 0)
		{
			ring_state = RING_READY;
			ReserveExternalFD();
		}
	}
	return ring_state == RING_READY;
}

/* Requests left in the ring must never be submitted: their memory is gone. */
static void
give_up(void)
{
	io_uring_queue_exit(&ring);
	ReleaseExternalFD();
	ring_state = RING_NONE;
}

static void
read_batch(int fd, FcSegment *segments, int n)
{
	int			submitted = 0;
	int			rc;

	for (int i = 0; i < n; i++)
	{
		struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

		io_uring_prep_readv(sqe, fd, segments[i].iov, segments[i].n, segments[i].offset);
		io_uring_sqe_set_data(sqe, &segments[i]);
	}
	while (submitted < n)
	{
		rc = io_uring_submit(&ring);
		if (rc > 0)
			submitted += rc;
		else if (rc != -EINTR)
			break;
	}
	for (int i = 0; i < submitted; i++)
	{
		struct io_uring_cqe *cqe;

		/* until it is there: the kernel writes into our buffers */
		while ((rc = io_uring_wait_cqe(&ring, &cqe)) == -EINTR)
			;
		if (rc != 0)
		{
			/* not known to happen; the pages in question count as unread */
			for (int j = 0; j < n; j++)
				segments[j].result = -EIO;
			submitted = 0;
			break;
		}
		((FcSegment *) io_uring_cqe_get_data(cqe))->result = cqe->res;
		io_uring_cqe_seen(&ring, cqe);
	}
	if (submitted < n)
		give_up();
}

void
fc_uring_read(int fd, FcSegment *segments, int n)
{
	for (int first = 0; first < n && ring_ready(); first += ENTRIES)
		read_batch(fd, &segments[first], Min(ENTRIES, n - first));
}

#else

void
fc_uring_read(int fd, FcSegment *segments, int n)
{
}

#endif							/* FC_USE_LIBURING */
