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

#include "compat.h"
#include "storage/fd.h"

/* Twice a batch, since a test's delay is a request of its own. */
#define ENTRIES (2 * FC_URING_BATCH)

/*
 * Waiting with a time-out in one call; iovecs read at the submission; no
 * result is ever dropped.
 */
#define NEEDED (IORING_FEAT_EXT_ARG | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_NODROP)

typedef enum RingState
{
	RING_UNKNOWN,
	RING_READY,
	RING_NONE,					/* the kernel won't, or something went wrong */
} RingState;

static struct io_uring ring;
static RingState ring_state = RING_UNKNOWN;

static char *pinned = NULL;
static size_t pinned_bytes = 0;

/*
 * The kernel is out of memory, or worse: nothing of ours is submitted or
 * waited for again.  Requests whose fate is unknown stay FC_IN_FLIGHT, and
 * their memory is lost.
 */
static void
give_up(void)
{
	io_uring_queue_exit(&ring);
	ReleaseExternalFD();
	ring_state = RING_NONE;
}

static void
make_ring(void)
{
	/* cheapest first: one process, which looks for results when it waits */
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};

	ring_state = RING_NONE;
	for (int i = 0; i < lengthof(flags); i++)
	{
		int			rc = io_uring_queue_init(ENTRIES, &ring, flags[i]);

		if (rc == -EINVAL)
			continue;			/* a kernel before 6.1 */
		if (rc == 0)
		{
			ring_state = RING_READY;
			ReserveExternalFD();
			if ((ring.features & NEEDED) != NEEDED)
				give_up();
		}
		break;
	}
}

bool
fc_uring_ready(void)
{
	if (unlikely(ring_state == RING_UNKNOWN))
		make_ring();
	return ring_state == RING_READY;
}

void
fc_uring_pin(char *memory, size_t bytes)
{
	struct iovec iov = {memory, bytes};

	if (pinned == NULL && io_uring_register_buffers(&ring, &iov, 1) == 0)
	{
		pinned = memory;
		pinned_bytes = bytes;
	}
}

/* The next request; each carries the address of its result. */
static struct io_uring_sqe *
next_request(ssize_t *result, uint32 late_us)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (unlikely(late_us > 0))
	{
		/* read when it is submitted; all requests of a batch are late by the same time */
		static struct __kernel_timespec late;

		late.tv_sec = late_us / 1000000;
		late.tv_nsec = (long long) (late_us % 1000000) * 1000;
		io_uring_prep_timeout(sqe, &late, 0, 0);
		io_uring_sqe_set_data(sqe, NULL);
		/* what follows begins when the time is over, which counts as a failure */
		sqe->flags |= IOSQE_IO_HARDLINK;
		sqe = io_uring_get_sqe(&ring);
	}
	*result = FC_IN_FLIGHT;
	return sqe;
}

void
fc_uring_read(int fd, char *memory, size_t bytes, off_t offset, ssize_t *result, uint32 late_us)
{
	struct io_uring_sqe *sqe = next_request(result, late_us);

	if (memory == pinned && bytes <= pinned_bytes)
		io_uring_prep_read_fixed(sqe, fd, memory, bytes, offset, 0);
	else
		io_uring_prep_read(sqe, fd, memory, bytes, offset);
	io_uring_sqe_set_data(sqe, result);
}

void
fc_uring_write(int fd, const struct iovec *iov, int n, off_t offset, ssize_t *result, uint32 late_us)
{
	struct io_uring_sqe *sqe = next_request(result, late_us);

	io_uring_prep_writev(sqe, fd, iov, n, offset);
	io_uring_sqe_set_data(sqe, result);
}

void
fc_uring_sync(int fd, ssize_t *result, uint32 late_us)
{
	struct io_uring_sqe *sqe = next_request(result, late_us);

	io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
	io_uring_sqe_set_data(sqe, result);
}

void
fc_uring_look(void)
{
	struct io_uring_cqe *cqe;

	while (ring_state == RING_READY && io_uring_peek_cqe(&ring, &cqe) == 0)
	{
		ssize_t    *result = io_uring_cqe_get_data(cqe);

		if (result != NULL)
			*result = cqe->res;
		io_uring_cqe_seen(&ring, cqe);
	}
}


void
fc_uring_submit(void)
{
	while (ring_state == RING_READY && io_uring_sq_ready(&ring) > 0)
	{
		int			rc = io_uring_submit(&ring);

		if (rc <= 0 && rc != -EINTR)
			give_up();
	}
}

void
fc_uring_wait(const ssize_t *result, uint64 deadline)
{
	volatile const ssize_t *known = result;

	while (*known == FC_IN_FLIGHT && ring_state == RING_READY)
	{
		struct io_uring_cqe *cqe;
		struct __kernel_timespec left = {0};
		uint64		now = fc_now_ns();
		int			rc;

		if (now < deadline)
		{
			/* an hour for ever: then it is asked again */
			uint64		ns = Min(deadline - now, UINT64CONST(3600000000000));

			left.tv_sec = ns / 1000000000;
			left.tv_nsec = ns % 1000000000;
		}
		rc = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &left, NULL);
		if (unlikely(io_uring_sq_ready(&ring) > 0 && rc < 0 && rc != -EINTR && rc != -ETIME))
			give_up();
		fc_uring_look();
		if (now >= deadline)
			break;				/* that was the last look */
	}
}

#else

bool
fc_uring_ready(void)
{
	return false;
}

void
fc_uring_pin(char *memory, size_t bytes)
{
}

void
fc_uring_read(int fd, char *memory, size_t bytes, off_t offset, ssize_t *result, uint32 late_us)
{
}

void
fc_uring_write(int fd, const struct iovec *iov, int n, off_t offset, ssize_t *result, uint32 late_us)
{
}

void
fc_uring_sync(int fd, ssize_t *result, uint32 late_us)
{
}

void
fc_uring_submit(void)
{
}

void
fc_uring_wait(const ssize_t *result, uint64 deadline)
{
}

void
fc_uring_look(void)
{
}

#endif							/* FC_USE_LIBURING */
