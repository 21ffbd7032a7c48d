/*-------------------------------------------------------------------------
 *
 * store_uring.h
 *	  Several reads from the device at once.
 *
 * Each process has a ring of its own, made when it first has use for one.
 * Where the kernel has no io_uring, or does not let us use it, or the
 * extension was built without liburing, fc_uring_read() does nothing and the
 * caller reads one after the other.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_URING_H
#define FC_STORE_URING_H

#include "postgres.h"

#include <sys/uio.h>

/* Neighbouring slots, which one request can read. */
typedef struct FcSegment
{
	int			first;			/* index of its first page */
	int			n;				/* pages */
	off_t		offset;
	struct iovec *iov;			/* n of them */
	ssize_t		result;			/* bytes, or -errno; FC_NOT_READ before */
} FcSegment;

/* Results of reads not begun, and not finished yet. */
#define FC_NOT_READ		((ssize_t) PG_INT32_MIN)
#define FC_IN_FLIGHT	((ssize_t) PG_INT32_MIN + 1)

/*
 * Reads the segments, and returns when no read is in flight any more.  Those
 * that could not even be started are left as FC_NOT_READ.
 */
extern void fc_uring_read(int fd, FcSegment *segments, int n);

/*
 * Starts one read and returns; *result becomes FC_IN_FLIGHT, and some time
 * later, in fc_uring_wait() or another call, bytes or -errno.  False if it
 * could not be started.  `iov`, its memory and *result must stay where they are.
 */
extern bool fc_uring_start(int fd, const struct iovec *iov, off_t offset, ssize_t *result);

/* Waits for such a read.  False if it will never be known to have finished. */
extern bool fc_uring_wait(ssize_t *result);

/* Takes note of reads that have finished; doesn't wait. */
extern void fc_uring_look(void);

#endif							/* FC_STORE_URING_H */
