/*-------------------------------------------------------------------------
 *
 * store_uring.h
 *	  Requests to the device that this process need not wait for.
 *
 * A process inside preadv() can't leave before the device has answered.  A
 * request given to io_uring goes on by itself: several can be under way, and
 * whoever has waited long enough turns away.  Memory and result of a request
 * must therefore stay where they are until it has finished, however long that
 * takes; the memory is never one that others use as well.
 *
 * Each process has a ring of its own, made when it first has use for one;
 * the postmaster never has, since its children would inherit it.  Where
 * memory or descriptors are short, or a ring has failed, another try is made
 * some time later.  Where the kernel has no io_uring (5.11 or later is asked
 * for), or does not let us use it, or the extension was built without
 * liburing, there will be none.  While fc_uring_ready() is false nothing below
 * it may be called.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_STORE_URING_H
#define FC_STORE_URING_H

#include "postgres.h"

/*
 * Results of requests: bytes, or -errno, or one of these.  To what is in
 * flight the number of its ring is added: what was given to a ring that has
 * failed is lost, and no ring that is made later will know of it.
 */
#define FC_NOT_BEGUN	((ssize_t) PG_INT32_MIN)
#define FC_NOT_TAKEN	((ssize_t) PG_INT32_MIN + 1)	/* the ring failed
														 * before the kernel
														 * took it */
#define FC_IN_FLIGHT	((ssize_t) PG_INT32_MIN + 2)
#define FC_MAX_RINGS	(1 << 30)

/* Deadline that never comes; others are in terms of fc_now_ns(). */
#define FC_FOR_EVER		PG_UINT64_MAX

/* Requests that may be prepared before they are submitted. */
#define FC_URING_BATCH	32

/* Can any process of this server have a ring, now or later?  If not: errno, 0 if this was built without liburing. */
extern bool fc_uring_possible(int *why);

/* Has this process one?  If not: errno. */
extern bool fc_uring_ready(void);

/* It has none, and will not get one either. */
extern bool fc_uring_never(void);
extern int	fc_uring_errno(void);

/* Is the result still to come, or lost? */
static inline bool
fc_in_flight(ssize_t result)
{
	return result >= FC_IN_FLIGHT && result < FC_IN_FLIGHT + FC_MAX_RINGS;
}

/*
 * Is it in flight in a ring that has failed?  It will never be known then, and
 * the kernel may go on writing to the request's memory.  Or did the kernel not
 * take it (FC_NOT_TAKEN)?  Then its memory is free.  Makes no ring.
 */
extern bool fc_uring_lost(ssize_t result);

/*
 * Reads that lie within this memory are cheaper from now on, by 0.6 of 2 us:
 * the kernel keeps it pinned.  Once for each process; it is best small, since
 * it counts as locked memory of the user.
 */
extern void fc_uring_pin(char *memory, size_t bytes);

/*
 * Prepares a request; *result is in flight from now on.  `by_thread`: a thread of
 * the kernel reads, so that to submit it takes no time; FUSE makes who submits
 * wait, once 12 requests are under way.  `late_us` is for tests: the kernel begins
 * the request so much later.
 */
extern void fc_uring_read(int fd, char *memory, size_t bytes, off_t offset, bool by_thread, ssize_t *result, uint32 late_us);

/* The result is a descriptor, perhaps one that comes when nobody waits for it any more. */
extern void fc_uring_open(const char *path, int flags, ssize_t *result);

/* The kernel may have to wait for the file system, or for the device.  The descriptor is gone, whatever the result. */
extern void fc_uring_close(int fd, ssize_t *result);

/* Submits what was prepared.  If that can't be done it is lost, with all else that is in flight. */
extern void fc_uring_submit(void);

/*
 * Submits, and waits until *result is known, or is lost, or the deadline has
 * come: then it is still in flight.
 */
extern void fc_uring_wait(const ssize_t *result, uint64 deadline);

/* Takes note of requests that have finished; doesn't wait. */
extern void fc_uring_look(void);

#endif							/* FC_STORE_URING_H */
