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

/*
 * Requests of one batch; more would only wait in the device's queue.  There
 * is room for twice as many results, reads ahead included.
 */
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

/* After this nothing of ours is submitted or waited for again. */
static void
give_up(void)
{
	io_uring_queue_exit(&ring);
	ReleaseExternalFD();
	ring_state = RING_NONE;
}

/* Each request carries the address of its result. */
static void
prepare(int fd, const struct iovec *iov, int n, off_t offset, ssize_t *result)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	io_uring_prep_readv(sqe, fd, iov, n, offset);
	io_uring_sqe_set_data(sqe, result);
}

/* Returns how many of n prepared requests the kernel has taken. */
static int
submit(int n)
{
	int			submitted = 0;

	while (submitted < n)
	{
		int			rc = io_uring_submit(&ring);

		if (rc > 0)
			submitted += rc;
		else if (rc != -EINTR)
			break;
	}
	return submitted;
}

static void
note(struct io_uring_cqe *cqe)
{
	*(ssize_t *) io_uring_cqe_get_data(cqe) = cqe->res;
	io_uring_cqe_seen(&ring, cqe);
}

bool
fc_uring_wait(ssize_t *result)
{
	while (*result == FC_IN_FLIGHT)
	{
		struct io_uring_cqe *cqe;
		int			rc;

		if (ring_state != RING_READY)
			return false;
		rc = io_uring_wait_cqe(&ring, &cqe);
		if (rc == 0)
			note(cqe);
		else if (rc != -EINTR)
			give_up();			/* not known to happen */
	}
	return true;
}

void
fc_uring_look(void)
{
	struct io_uring_cqe *cqe;

	while (ring_state == RING_READY && io_uring_peek_cqe(&ring, &cqe) == 0)
		note(cqe);
}

bool
fc_uring_start(int fd, const struct iovec *iov, off_t offset, ssize_t *result)
{
	if (!ring_ready())
		return false;
	*result = FC_IN_FLIGHT;
	prepare(fd, iov, 1, offset, result);
	if (submit(1) == 1)
		return true;
	*result = FC_NOT_READ;
	give_up();
	return false;
}

static void
read_batch(int fd, FcSegment *segments, int n)
{
	int			submitted;

	for (int i = 0; i < n; i++)
		prepare(fd, segments[i].iov, segments[i].n, segments[i].offset, &segments[i].result);
	submitted = submit(n);
	for (int i = 0; i < submitted; i++)
		segments[i].result = FC_IN_FLIGHT;
	for (int i = 0; i < submitted; i++)
		if (!fc_uring_wait(&segments[i].result))
			segments[i].result = -EIO;
	if (submitted < n && ring_state == RING_READY)
		give_up();				/* what is left in the ring must not be submitted later */
}

void
fc_uring_read(int fd, FcSegment *segments, int n)
{
	for (int first = 0; first < n && ring_ready(); first += ENTRIES)
		read_batch(fd, &segments[first], Min(ENTRIES, n - first));
}

#else

bool
fc_uring_start(int fd, const struct iovec *iov, off_t offset, ssize_t *result)
{
	return false;
}

bool
fc_uring_wait(ssize_t *result)
{
	return false;
}

void
fc_uring_look(void)
{
}

void
fc_uring_read(int fd, FcSegment *segments, int n)
{
}

#endif							/* FC_USE_LIBURING */
