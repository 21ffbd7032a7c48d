/*-------------------------------------------------------------------------
 *
 * compat.h
 *	  What differs between PostgreSQL versions and concerns more than one
 *	  module.  Differences of the storage-manager calls stay in attach/, those
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
#include "utils/guc.h"
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
	FC_PREWARM,
	FC_FOLLOWER_MAIN,
	FC_WAIT_COUNT
} FcWait;

extern uint32 fc_wait_events[FC_WAIT_COUNT];

#define FC_WAIT_SINGLE_BLOCK_READ	fc_wait_events[FC_SINGLE_BLOCK_READ]
#define FC_WAIT_MULTI_BLOCK_READ	fc_wait_events[FC_MULTI_BLOCK_READ]
#define FC_WAIT_WRITE				fc_wait_events[FC_WRITE]
#define FC_WAIT_WRITER_MAIN			fc_wait_events[FC_WRITER_MAIN]
#define FC_WAIT_ENABLE				fc_wait_events[FC_ENABLE]
#define FC_WAIT_SCRUB				fc_wait_events[FC_SCRUB]
#define FC_WAIT_PREWARM				fc_wait_events[FC_PREWARM]
#define FC_WAIT_FOLLOWER_MAIN		fc_wait_events[FC_FOLLOWER_MAIN]

/* For the postmaster; raises nothing.  What can't be had stays "Extension". */
extern void fc_wait_events_init(void);

/*
 * Direct I/O wants memory aligned as the device says (STATX_DIOALIGN), or to
 * its block where it does not say.  16 aligns the buffer pool to 4 kB
 * (PG_IO_ALIGN_SIZE); 15 only to a cache line, so there a page may have to be
 * read into an aligned private buffer and copied: store.c.
 */
#define FC_IO_ALIGN 4096

/* A page that md may read or write, whatever debug_io_direct says. */
#if PG_VERSION_NUM >= 160000
typedef PGIOAlignedBlock FcPage;
#else
typedef PGAlignedBlock FcPage;
#endif

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

/* A checkpoint without delays; access/xlog.h. */
#if PG_VERSION_NUM < 190000
#define FC_CHECKPOINT_FAST CHECKPOINT_IMMEDIATE
#else
#define FC_CHECKPOINT_FAST CHECKPOINT_FAST
#endif

/* The number of a relation's main file; utils/rel.h. */
#if PG_VERSION_NUM < 160000
#define FC_FILE_OF(rel) ((rel)->rd_node.relNode)
#else
#define FC_FILE_OF(rel) ((rel)->rd_locator.relNumber)
#endif

/* The next of sorted values, copied; utils/tuplesort.h. */
#if PG_VERSION_NUM < 160000
#define FC_TUPLESORT_GETDATUM(sort, value, isnull) tuplesort_getdatum(sort, true, value, isnull, NULL)
#else
#define FC_TUPLESORT_GETDATUM(sort, value, isnull) tuplesort_getdatum(sort, true, true, value, isnull, NULL)
#endif

/*
 * For a background worker that has connected to a database as the bootstrap
 * superuser, without a check of a role's right to log in: what ALTER DATABASE
 * and ALTER ROLE have set does not count, where it would matter.
 */
extern void fc_own_settings(void);

/* The relation of the current database, or a shared one, that has this file; InvalidOid if there is none. */
extern Oid	fc_relation_of(Oid spc, uint32 file);

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

/* A tranche of LWLocks, "pg_flashcache"; for the postmaster, whenever it makes shared memory.  Raises nothing; no lock may be held. */
extern int	fc_lock_tranche(void);

/* Shared memory that has been asked for so far; for the postmaster, before it makes any. */
extern Size fc_shmem_asked_for(void);

/* Does the server run only to print a setting that it computes (postgres -C)? */
extern bool fc_prints_setting(void);

/* How many background workers have been registered; for the postmaster, while it loads libraries. */
extern int	fc_workers_registered(void);

/* Does the server read and write data files past the page cache? */
#if PG_VERSION_NUM >= 160000
#define FC_DATA_DIRECT_IO() ((io_direct_flags & IO_DIRECT_DATA) != 0)
#else
#define FC_DATA_DIRECT_IO() false
#endif

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

/* The extension's, as in the control file; pg_get_loaded_modules() shows it from 18 on. */
#define FC_VERSION "1.1"

#if PG_VERSION_NUM >= 180000
#define FC_MODULE_MAGIC PG_MODULE_MAGIC_EXT(.name = "pg_flashcache", \
											.version = FC_VERSION)
#else
#define FC_MODULE_MAGIC PG_MODULE_MAGIC
#endif

/* Monotonic nanoseconds; about 25 ns through the vDSO. */
static inline uint64
fc_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64) ts.tv_sec * UINT64CONST(1000000000) + (uint64) ts.tv_nsec;
}

/* Where a setting of the server's own, of that variable, has its assign hook; NULL if there is no such setting. */
extern GucBoolAssignHook *fc_assign_hook(const char *name, const bool *variable);

#endif							/* FC_COMPAT_H */
