/*-------------------------------------------------------------------------
 *
 * failpoint.h
 *	  Places where a test may stop a process or make an operation fail.
 *
 * Each window of the protocol in src/protocol.md has a point; test/windows.txt
 * lists them with the tests that stand there.  Only builds with
 * -DFC_FAILPOINTS, those of the tests, have them: some faults write wrong
 * pages on purpose.  Everywhere else a point is the constant "nothing", and
 * neither shared memory nor the library's symbols know of it.
 *
 * In a test build a point with nothing armed costs one load of a shared flag
 * that nobody writes.  Points are armed from SQL through fc_failpoint_set(),
 * by superusers; the tests declare it, the extension script does not.
 *
 * FC_ARM in the environment of the postmaster, "POINT ACTION [ONLY]", arms one
 * from the start: where nobody can connect yet.
 *
 * A pause is bounded (60 s), holds no lock of ours and raises nothing, so it
 * may stand inside storage-manager calls.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_FAILPOINT_H
#define FC_FAILPOINT_H

#include "types.h"

#include "port/atomics.h"

typedef enum FcFailpointId
{
	FC_FP_FILL_BEGIN,			/* F1 | F2 */
	FC_FP_FILL_COPIED,			/* F2 | F3 */
	FC_FP_FILL_STAGED,			/* F3 | F4 */
	FC_FP_FILL_RESERVED,		/* F4 | F5 */
	FC_FP_FILL_WRITTEN,			/* F5 | F6 */
	FC_FP_LOAD_CHOSEN,			/* L1 | L2 */
	FC_FP_LOAD_GUARDED,			/* L2 | L3 */
	FC_FP_LOAD_READ,			/* L3 | L4 */
	FC_FP_LOAD_GIVING,			/* L4 | F4, a session gives its pages: between
								 * their tags and their content */
	FC_FP_LOAD_TAKEN,			/* L4 | F4, the writer has taken a job */
	FC_FP_INVALIDATE_BUMPED,	/* I1 | I2 */
	FC_FP_READ_LOOKED_UP,		/* R1 | R2 */
	FC_FP_READ_DONE,			/* R2 | R3 */
	FC_FP_SCRUB_TAKEN,			/* Z1 | Z2 */
	FC_FP_SCRUB_WRITTEN,		/* Z2 | Z3 */
	FC_FP_WRITE_BEFORE_MD,		/* C1 | C2, pages written */
	FC_FP_WRITE_AFTER_MD,		/* C2 | C3 */
	FC_FP_FILE_BEFORE_MD,		/* C1 | C2, files made, extended, cut, removed */
	FC_FP_FILE_AFTER_MD,		/* C2 | C3 */
	FC_FP_DATABASE_BEFORE,		/* C1 | C2, database-level commands and their
								 * redo */
	FC_FP_DATABASE_AFTER,		/* C2 | C3 */
	FC_FP_EVICT_WRITTEN,		/* C3 | E1 */
	FC_FP_AHEAD_STARTED,		/* A1 | A2 */
	FC_FP_ASYNC_READ,			/* S1 | S2 */
	FC_FP_SWITCH_PURGED,		/* O2 | O3 */
	FC_FP_SWITCH_OPENED,		/* O3 | O4 */
	FC_FP_STORE_READING,		/* within the wait for a read from the device */
	FC_FP_STORE_WRITING,		/* within the wait for a write to the device */
	FC_FP_STORE_LOOKED,			/* between looking at the device and opening
								 * it */
	FC_FP_STORE_CLAIM,			/* within the wait for who has the device */
	FC_FP_STORE_OPEN,			/* error, nospace: opening the device,
								 * reserving space */
	FC_FP_STORE_LATE,			/* error: a session's opening is answered too
								 * late */
	FC_FP_STORE_CLOSE,			/* a session closes the device; error: no
								 * thread for it; short: done, but it says
								 * that it was not.  delay: of a device
								 * process that closes it */
	FC_FP_STORE_READ,			/* faults of a read from the device */
	FC_FP_STORE_WRITE,			/* faults of a write to the device */
	FC_FP_STORE_SYNC,			/* error, delay: flushing the device's cache */
	FC_FP_STORE_RING,			/* error: no memory for a ring of io_uring */
	FC_FP_STORE_SUBMIT,			/* error: no memory for a request of io_uring */
	FC_FP_PROBE_DUE,			/* error: the time for the next probe does not
								 * come */
	FC_FP_SUSPECT_DUE,			/* error: a suspect device is not tried yet */
	FC_FP_TROUBLE_TOLD,			/* a session is about to wake the writer,
								 * since it could not read from flash */
	FC_FP_DISK_READ,			/* delay: of a read from a data file */
	FC_FP_LOG_WRITE,			/* faults of a write of the log */
	FC_FP_LOG_READ,				/* error: of a read of one block of the log,
								 * whose number plus 1 it is armed for */
	FC_FP_WARM_GROUP,			/* K4: the device is flushed | blocks of the
								 * journal */
	FC_FP_WARM_BLOCKS,			/* K4: blocks of the journal | the slots have
								 * their records */
	FC_FP_WARM_STAMP,			/* K5: pg_control shows R | stamp; error: none
								 * is made */
	FC_FP_WARM_MAP,				/* K5: map | root */
	FC_FP_WARM_LOAD,			/* K11: blocks of the journal | entries */
	FC_FP_BUFFERS_LOAD,			/* K13: before some pages of a relation are
								 * loaded */
	FC_FP_BYPASS_DUE,			/* error: the time to look at a tablespace
								 * does not come */
	FC_FP_POLICY_LOOK,			/* delay: of a look at the policies of a
								 * database */
	FC_FP_BUFFER_LOOK,			/* between a frame's state and its page */
	FC_FP_PURGE_STEP,			/* O2, D1: before some slots are forgotten,
								 * each time; error: none of them is */
	FC_FP_COUNT
} FcFailpointId;

typedef enum FcFailpointAction
{
	FC_FP_OFF,
	FC_FP_PAUSE,
	FC_FP_ERROR,				/* EIO, where it has a number */
	FC_FP_NOSPACE,				/* ENOSPC */
	FC_FP_SHORT,				/* half a page is done */
	FC_FP_FLIP,					/* one bit changes on the way */
	FC_FP_TORN,					/* of each page the second half is not written */
	FC_FP_MISPLACED,			/* another slot is read or written */
	FC_FP_DELAY,				/* it takes so much longer */
} FcFailpointAction;

/* What is to go wrong with an operation. */
typedef struct FcFault
{
	FcFailpointAction action;	/* FC_FP_OFF: nothing */
	uint32		us;				/* of FC_FP_DELAY */
} FcFault;

#ifdef FC_FAILPOINTS

#define FC_FP_MAX_DELAY_US ((1 << 24) - 1)

typedef struct FcFailpoints
{
	pg_atomic_uint32 armed;		/* how many points are not off; here no order
								 * is needed, tests wait */
	pg_atomic_uint32 action[FC_FP_COUNT];	/* FcFailpointAction, and above 8
											 * bits the delay */
	pg_atomic_uint32 only[FC_FP_COUNT]; /* relation number that a page must
										 * have, or number of a device, from 1
										 * on; 0 = any */
	pg_atomic_uint32 paused[FC_FP_COUNT];	/* processes standing there */
} FcFailpoints;

extern FcFailpoints *fc_failpoints;

extern FcPart fc_failpoint_part(void);
extern void fc_failpoint_shmem_init(void);

/* Index of a point by name, or -1. */
extern int	fc_failpoint_by_name(const char *name);

/* `only`: for pages of that relation; 0 = whichever.  Other processes may come by in the meantime: arm what is off. */
extern void fc_failpoint_arm(FcFailpointId id, FcFault fault, uint32 only);

/* The action by name, as in "short" or "delay:1500" (microseconds); false if there is none. */
extern bool fc_failpoint_action(const char *name, FcFault *fault);
extern uint32 fc_failpoint_paused(FcFailpointId id);

/* For a process that has no shared memory any more: nothing is armed. */
static inline void
fc_failpoint_forget(void)
{
	fc_failpoints = NULL;
}

extern bool fc_failpoint_slow(FcFailpointId id);
extern FcFault fc_failpoint_fault_slow(FcFailpointId id);

/* Is any point armed?  All that points cost when none is. */
static inline bool
fc_failpoints_armed(void)
{
	return fc_failpoints != NULL && pg_atomic_read_u32(&fc_failpoints->armed) != 0;
}

/* What a test wants to go wrong here.  The caller does it, delays included. */
static inline FcFault
fc_failpoint_fault(FcFailpointId id)
{
	FcFault		none = {FC_FP_OFF, 0};

	if (likely(!fc_failpoints_armed()))
		return none;
	return fc_failpoint_fault_slow(id);
}

/* Stops here, or for a while, if a test wants it to; true if the operation should fail. */
static inline bool
fc_failpoint(FcFailpointId id)
{
	if (likely(!fc_failpoints_armed()))
		return false;
	return fc_failpoint_slow(id);
}

/* The same at a point that is about a page of a relation. */
static inline bool
fc_failpoint_of(FcFailpointId id, uint32 rel)
{
	uint32		only;

	if (likely(!fc_failpoints_armed()))
		return false;
	only = pg_atomic_read_u32(&fc_failpoints->only[id]);
	return (only == 0 || only == rel) && fc_failpoint_slow(id);
}

/* What a test wants to go wrong with a device, or with all: `only` is its number plus 1. */
static inline FcFault
fc_failpoint_fault_of(FcFailpointId id, uint32 device)
{
	FcFault		none = {FC_FP_OFF, 0};
	uint32		only;

	if (likely(!fc_failpoints_armed()))
		return none;
	only = pg_atomic_read_u32(&fc_failpoints->only[id]);
	return only == 0 || only == device + 1 ? fc_failpoint_fault_slow(id) : none;
}

/* And about n pages, of which `rel(i)` belongs to that relation. */
static inline bool
fc_failpoint_about(FcFailpointId id, uint32 (*rel) (int), int n)
{
	uint32		only;

	if (likely(!fc_failpoints_armed()))
		return false;
	only = pg_atomic_read_u32(&fc_failpoints->only[id]);
	for (int i = 0; i < n; i++)
		if (only == 0 || rel(i) == only)
			return fc_failpoint_slow(id);
	return false;
}

/*
 * Is this rule broken on purpose?  FC_BREAK in the environment of the
 * postmaster names it: points are armed in shared memory, which is new when
 * the server starts.
 */
extern bool fc_breaks(const char *rule);

/*
 * FC_PAGE_CACHE_NS, or what FC_PAGE_CACHE_US in the environment of the
 * postmaster says: on a busy machine the page cache may take longer.
 */
extern uint64 fc_failpoint_page_cache_ns(uint64 usual);

/* What a variable in the environment of the postmaster says, or what is usual: times that a test cannot wait for. */
extern uint32 fc_failpoint_number(const char *name, uint32 usual);

#else							/* !FC_FAILPOINTS */

static inline uint32
fc_failpoint_number(const char *name, uint32 usual)
{
	return usual;
}

static inline bool
fc_breaks(const char *rule)
{
	return false;
}

static inline uint64
fc_failpoint_page_cache_ns(uint64 usual)
{
	return usual;
}

static inline FcPart
fc_failpoint_part(void)
{
	FcPart		none = {NULL, 0};

	return none;
}

static inline void
fc_failpoint_forget(void)
{
}

static inline void
fc_failpoint_shmem_init(void)
{
}

static inline bool
fc_failpoints_armed(void)
{
	return false;
}

static inline FcFault
fc_failpoint_fault(FcFailpointId id)
{
	FcFault		none = {FC_FP_OFF, 0};

	return none;
}

static inline FcFault
fc_failpoint_fault_of(FcFailpointId id, uint32 device)
{
	FcFault		none = {FC_FP_OFF, 0};

	return none;
}

static inline bool
fc_failpoint(FcFailpointId id)
{
	return false;
}

static inline bool
fc_failpoint_of(FcFailpointId id, uint32 rel)
{
	return false;
}

static inline bool
fc_failpoint_about(FcFailpointId id, uint32 (*rel) (int), int n)
{
	return false;
}

#endif							/* FC_FAILPOINTS */

#endif							/* FC_FAILPOINT_H */
