/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  What differs between PostgreSQL versions and concerns more than one
 *	  room.  Differences of the storage-manager calls stay in attach/, those
 *	  of the buffer headers in bufscan.c.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_COMPAT_H
#define FC_COMPAT_H

#include "postgres.h"

#include <time.h>

#include "pgstat.h"
#include "utils/wait_event.h"

#if PG_VERSION_NUM < 150000 || PG_VERSION_NUM >= 200000
#error "pg_flashcache supports PostgreSQL 15 to 19"
#endif

/*
 * Named wait events for extensions exist since 17; before, every extension
 * shows as "Extension".  The postmaster asks for the numbers once, before it
 * forks; they are found here by whoever waits, at no cost.
 */
typedef enum FcWait
{
	FC_SINGLE_BLOCK_READ,
	FC_MULTI_BLOCK_READ,
	FC_WRITE,
	FC_WRITER_MAIN,
	FC_ENABLE,
	FC_SCRUB,
	FC_WAIT_COUNT
} FcWait;

extern uint32 fc_wait_events[FC_WAIT_COUNT];

#define FC_WAIT_SINGLE_BLOCK_READ	fc_wait_events[FC_SINGLE_BLOCK_READ]
#define FC_WAIT_MULTI_BLOCK_READ	fc_wait_events[FC_MULTI_BLOCK_READ]
#define FC_WAIT_WRITE				fc_wait_events[FC_WRITE]
#define FC_WAIT_WRITER_MAIN			fc_wait_events[FC_WRITER_MAIN]
#define FC_WAIT_ENABLE				fc_wait_events[FC_ENABLE]
#define FC_WAIT_SCRUB				fc_wait_events[FC_SCRUB]

/* For the postmaster; raises nothing.  What can't be had stays "Extension". */
extern void fc_wait_events_init(void);

/*
 * Direct I/O wants memory aligned as the device says (STATX_DIOALIGN), or to
 * its block where it does not say.  16 aligns the buffer pool to 4 kB
 * (PG_IO_ALIGN_SIZE); 15 only to a cache line, so there a page may have to be
 * read into an aligned private buffer and copied: store.c.
 */
#define FC_IO_ALIGN 4096

/* A process's number among those with shared memory; storage/proc.h. */
#if PG_VERSION_NUM < 170000
#define FC_PROC_NUMBER(proc) ((proc)->pgprocno)
#else
#define FC_PROC_NUMBER(proc) ((int) GetNumberFromPGProc(proc))
#endif

/* The number of this process's transaction, 0 outside; storage/proc.h. */
#if PG_VERSION_NUM < 170000
#define FC_MY_TRANSACTION (MyProc->lxid)
#else
#define FC_MY_TRANSACTION (MyProc->vxid.lxid)
#endif

/* Sets the page checksum, where the cluster has them. */
#if PG_VERSION_NUM < 190000
#define FC_SET_PAGE_CHECKSUM(page, blk) PageSetChecksumInplace(page, blk)
#else
#define FC_SET_PAGE_CHECKSUM(page, blk) PageSetChecksum(page, blk)
#endif

/*
 * Is this a process that never ends and hardly ever reads a page?  It would
 * keep the flash device open, and its file system could not be unmounted.
 */
extern bool fc_hardly_reads(void);

/* How many background workers have been registered; for the postmaster, while it loads libraries. */
extern int	fc_workers_registered(void);

/* A setting's variable that the server exports but declares in no header. */
extern PGDLLIMPORT bool ignore_checksum_failure;

/*
 * Symbols are hidden by default; this marks the few that are not.  Before 16
 * PGDLLEXPORT is empty on this platform, also within PG_MODULE_MAGIC and
 * PG_FUNCTION_INFO_V1, which expand where they are used.
 */
#if PG_VERSION_NUM < 160000
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#endif
#define FC_EXPORT PGDLLEXPORT

/* Monotonic nanoseconds; about 25 ns through the vDSO. */
static inline uint64
fc_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64) ts.tv_sec * UINT64CONST(1000000000) + (uint64) ts.tv_nsec;
}

#endif							/* FC_COMPAT_H */
