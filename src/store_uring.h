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

#define FC_NOT_READ PG_INT32_MIN

/*
 * Reads the segments, and returns when no read is in flight any more.  Those
 * that could not even be started are left as FC_NOT_READ.
 */
extern void fc_uring_read(int fd, FcSegment *segments, int n);

#endif							/* FC_STORE_URING_H */
