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

#include "compat.h"
#include "failpoint.h"
#include "miscadmin.h"
#include "store/store_uring.h"

#ifdef FC_USE_LIBURING

#include <fcntl.h>
#include <liburing.h>
#include <unistd.h>

#include "storage/fd.h"

/* Twice a batch, since a test's delay is a request of its own. */
#define ENTRIES (2 * FC_URING_BATCH)

/*
 * Waiting with a time-out in one call; iovecs read at the submission; no
 * result is ever dropped.
 */
#define NEEDED (IORING_FEAT_EXT_ARG | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_NODROP)

/* After something went wrong it is tried again, first so soon, then ever less often. */
#define FIRST_PAUSE_NS UINT64CONST(1000000000)
#define LONGEST_PAUSE_NS UINT64CONST(60000000000)

typedef enum RingState
{
	RING_NONE,					/* not yet, or something went wrong: another
								 * try from try_at on */
	RING_READY,
	RING_NEVER,					/* the kernel can't, or won't let us */
} RingState;

static struct io_uring ring;
static int	ring_number = 0;	/* rings of this process so far; that of the
								 * current one */
static RingState ring_state = RING_NONE;
static int	ring_errno = 0;		/* why there is none */
static uint64 try_at = 0;		/* in terms of fc_now_ns() */
static uint64 pause_ns = FIRST_PAUSE_NS;

static char *pinned = NULL;
static size_t pinned_bytes = 0;
static bool pin_tried = false;	/* with this ring */

/* No ring, because of something that may pass. */
static void
try_later(int why)
{
	ring_state = RING_NONE;
	ring_errno = why;
	try_at = fc_now_ns() + pause_ns;
	pause_ns = Min(2 * pause_ns, LONGEST_PAUSE_NS);
}

static void
remove_ring(void)
{
	Assert(ring.ring_fd >= 0);
	io_uring_queue_exit(&ring);
	ReleaseExternalFD();
	pinned = NULL;
	pin_tried = false;
}

/*
 * The kernel is out of memory, or worse: nothing of ours is submitted to this
 * ring or waited for again.  What it has not taken it will never touch.  Other
 * requests stay in flight with the ring's number: they are lost.
 */
static void
give_up(int why)
{
	unsigned	first = io_uring_smp_load_acquire(ring.sq.khead);

	Assert(ring_state == RING_READY);
	Assert(why > 0);
	for (unsigned at = first; at != ring.sq.sqe_tail; at++)
	{
		ssize_t    *result = (ssize_t *) (uintptr_t) ring.sq.sqes[at & ring.sq.ring_mask].user_data;

		if (result != NULL)
			*result = FC_NOT_TAKEN;
	}
	remove_ring();
	try_later(why);
}

/* Out of memory (or of that which may be locked), descriptors or the like: it may pass. */
static bool
may_pass(int why)
{
	return why == ENOMEM || why == EMFILE || why == ENFILE || why == EBUSY || why == EAGAIN || why == EINTR;
}

/* errno, or 0. */
static int
make_ring(void)
{
	/* cheapest first: one process, which looks for results when it waits */
	static const unsigned flags[] = {
		IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
		0,
	};
	int			rc = fc_failpoint(FC_FP_STORE_RING) ? -ENOMEM : -EINVAL;

	Assert(IsUnderPostmaster);
	Assert(ring_state != RING_READY);
	/* EINVAL: a kernel before 6.1 */
	for (int i = 0; i < lengthof(flags) && rc == -EINVAL; i++)
		rc = io_uring_queue_init(ENTRIES, &ring, flags[i]);
	if (rc != 0)
		return -rc;
	ReserveExternalFD();
	if ((ring.features & NEEDED) == NEEDED)
		return 0;
	remove_ring();
	return ENOSYS;
}

static bool
try_ring(void)
{
	int			why;

	if (ring_state == RING_NEVER || fc_now_ns() < try_at)
		return false;
	why = make_ring();
	if (why == 0)
	{
		ring_state = RING_READY;
		Assert(ring_number < FC_MAX_RINGS - 1);
		ring_number++;			/* one a second at most: does not come to
								 * FC_MAX_RINGS */
		ring_errno = 0;
		pause_ns = FIRST_PAUSE_NS;
		return true;
	}
	try_later(why);
	if (!may_pass(why))
		ring_state = RING_NEVER;
	return false;
}

bool
fc_uring_ready(void)
{
	return likely(ring_state == RING_READY) || try_ring();
}

bool
fc_uring_never(void)
{
	return ring_state == RING_NEVER;
}

int
fc_uring_errno(void)
{
	return ring_errno;
}

bool
fc_uring_lost(ssize_t result)
{
	return result == FC_NOT_TAKEN ||
		(fc_in_flight(result) && (ring_state != RING_READY || result != FC_IN_FLIGHT + ring_number));
}

/* Who lets us make a ring may refuse its use.  errno, or 0. */
static int
try_request(void)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);
	struct io_uring_cqe *cqe;
	struct __kernel_timespec at_once = {0};
	int			rc;

	Assert(sqe != NULL);
	io_uring_prep_nop(sqe);
	rc = io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &at_once, NULL);
	return rc < 0 && rc != -ETIME ? -rc : 0;
}

bool
fc_uring_possible(int *why)
{
	*why = 0;
	if (ring_state == RING_READY)
		return true;
	*why = make_ring();
	if (*why == 0)
	{
		*why = try_request();
		remove_ring();
	}
	return *why == 0 || may_pass(*why);
}

void
fc_uring_pin(char *memory, size_t bytes)
{
	struct iovec iov = {memory, bytes};

	Assert(ring_state == RING_READY);
	Assert(memory != NULL && bytes > 0);
	if (likely(pin_tried))
		return;
	pin_tried = true;
	if (io_uring_register_buffers(&ring, &iov, 1) == 0)
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

	Assert(ring_state == RING_READY);
	Assert(sqe != NULL);		/* no more than FC_URING_BATCH are prepared */
	Assert(!fc_in_flight(*result) || fc_uring_lost(*result));
	if (unlikely(late_us > 0))
	{
		/*
		 * read when it is submitted; all requests of a batch are late by the
		 * same time
		 */
		static struct __kernel_timespec late;

		late.tv_sec = late_us / 1000000;
		late.tv_nsec = (long long) (late_us % 1000000) * 1000;
		io_uring_prep_timeout(sqe, &late, 0, 0);
		io_uring_sqe_set_data(sqe, NULL);

		/*
		 * what follows begins when the time is over, which counts as a
		 * failure
		 */
		sqe->flags |= IOSQE_IO_HARDLINK;
		sqe = io_uring_get_sqe(&ring);
		Assert(sqe != NULL);
	}
	*result = FC_IN_FLIGHT + ring_number;
	return sqe;
}

void
fc_uring_read(int fd, char *memory, size_t bytes, off_t offset, bool by_thread, ssize_t *result, uint32 late_us)
{
	struct io_uring_sqe *sqe = next_request(result, late_us);

	Assert(fd >= 0 && memory != NULL && bytes > 0 && offset >= 0);
	if (memory == pinned && bytes <= pinned_bytes)
		io_uring_prep_read_fixed(sqe, fd, memory, bytes, offset, 0);
	else
		io_uring_prep_read(sqe, fd, memory, bytes, offset);
	if (by_thread)
		sqe->flags |= IOSQE_ASYNC;
	io_uring_sqe_set_data(sqe, result);
}

void
fc_uring_open(const char *path, int flags, ssize_t *result)
{
	struct io_uring_sqe *sqe = next_request(result, 0);

	Assert(path[0] == '/');
	io_uring_prep_openat(sqe, AT_FDCWD, path, flags, 0);

	/*
	 * where the kernel knows the name it would open the file while it takes
	 * the request, however long that lasts
	 */
	sqe->flags |= IOSQE_ASYNC;
	io_uring_sqe_set_data(sqe, result);
}

void
fc_uring_close(int fd, ssize_t *result)
{
	struct io_uring_sqe *sqe;
	FcFailpointAction fault;

	Assert(fd >= 0);
	fault = fc_failpoint_fault(FC_FP_STORE_CLOSE).action;
	if (fault == FC_FP_SHORT)
		(void) close(fd);
	if (fault != FC_FP_OFF)
	{
		/* what follows one that fails is not begun */
		sqe = io_uring_get_sqe(&ring);
		io_uring_prep_close(sqe, -1);
		io_uring_sqe_set_data(sqe, NULL);
		sqe->flags |= IOSQE_IO_LINK;
	}
	sqe = next_request(result, 0);
	io_uring_prep_close(sqe, fd);
	/* the last one of a block device waits for whoever opens it at the moment */
	sqe->flags |= IOSQE_ASYNC;
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
		{
			Assert(fc_in_flight(*result) && !fc_uring_lost(*result));
			Assert(!fc_in_flight(cqe->res) && cqe->res != FC_NOT_BEGUN);
			*result = cqe->res;
		}
		io_uring_cqe_seen(&ring, cqe);
	}
}

/* No memory for a request, or for the results of those that have finished, in the kernel: that may pass at once. */
static bool
is_short(int why)
{
	return why == EAGAIN || why == EBUSY;
}

void
fc_uring_submit(void)
{
	bool		again = false;

	while (ring_state == RING_READY && io_uring_sq_ready(&ring) > 0)
	{
		int			rc = fc_failpoint(FC_FP_STORE_SUBMIT) ? -EAGAIN : io_uring_submit(&ring);

		if (rc > 0)
			again = false;
		else if (is_short(-rc) && !again)
		{
			fc_uring_look();	/* makes room */
			again = true;
		}
		else if (rc != -EINTR)
			give_up(rc < 0 ? -rc : EAGAIN);
	}
}

void
fc_uring_wait(const ssize_t *result, uint64 deadline)
{
	volatile const ssize_t *known = result;

	Assert(*known != FC_NOT_BEGUN);
	while (fc_in_flight(*known) && !fc_uring_lost(*known))
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
		rc = unlikely(io_uring_sq_ready(&ring) > 0 && fc_failpoint(FC_FP_STORE_SUBMIT)) ? -EAGAIN :
			io_uring_submit_and_wait_timeout(&ring, &cqe, 1, &left, NULL);
		fc_uring_look();
		if (unlikely(is_short(-rc)))
			fc_uring_submit();
		else if (unlikely(rc < 0 && rc != -EINTR && rc != -ETIME))
			give_up(-rc);
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

bool
fc_uring_never(void)
{
	return true;
}

int
fc_uring_errno(void)
{
	return ENOSYS;
}

bool
fc_uring_lost(ssize_t result)
{
	return result == FC_NOT_TAKEN;
}

bool
fc_uring_possible(int *why)
{
	*why = 0;
	return false;
}

void
fc_uring_pin(char *memory, size_t bytes)
{
}

void
fc_uring_read(int fd, char *memory, size_t bytes, off_t offset, bool by_thread, ssize_t *result, uint32 late_us)
{
}

void
fc_uring_open(const char *path, int flags, ssize_t *result)
{
}

void
fc_uring_close(int fd, ssize_t *result)
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
