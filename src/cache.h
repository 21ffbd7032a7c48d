/*-------------------------------------------------------------------------
 *
 * cache.h
 *	  The flash cache: the protocol of src/README.md, and the state.
 *
 * The only room that composes the directory and the store.  Callers are the
 * storage-manager wrappers (read, invalidate, evict), the writer (fill,
 * state) and the SQL functions (state).
 *
 * Error policy: nothing here raises.  Whatever goes wrong with the cache is
 * a miss, counted; what goes wrong for good switches the cache off, and the
 * writer tells the log once.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_H
#define FC_CACHE_H

#include "types.h"

#include "datatype/timestamp.h"
#include "directory.h"
#include "port/atomics.h"
#include "store.h"

typedef struct FcCacheShared FcCacheShared;

extern FcCacheShared *fc_cache;

extern const char *fc_cache_tranche(void);
extern int	fc_cache_locks(void);
extern Size fc_cache_shmem_size(uint32 slots);
/* `memory`: shared memory of all rooms together, to be reported. */
extern void fc_cache_shmem_init(uint32 slots, Size memory);

/* The same, 0 without a cache. */
extern Size fc_cache_memory(void);

/* ---- state ---- */

/* For start-up: there will be no cache in this run of the server. */
extern void fc_cache_stay_out(FcState state, const char *reason, const char *hint);

extern FcState fc_cache_state(void);
extern const char *fc_state_name(FcState state);

/*
 * May this process use flash now?  The state is the same for all; but the
 * writer, which changes it, may be stopped, so each process goes by its own
 * pg_flashcache.enabled, too.  Invalidation asks neither.
 */
extern bool fc_cache_in_use(void);

/*
 * Does the cache have anything to do with reads at present?  If not, this
 * process lets go of the device (H7).
 */
extern bool fc_cache_takes_part(void);

/* The reason of the state, empty if there is none; and since when it is, 0 if unknown. */
extern TimestampTz fc_cache_reason(char *reason, size_t len);

/*
 * Changes the state and says why.  FC_STATE_OFF is entered only from ACTIVE,
 * STARTING or PAUSED: of several failures the first one is told.
 */
extern void fc_cache_set_state(FcState state, const char *reason, const char *hint);

/* A new reason for the state that it is in.  The log is not told. */
extern void fc_cache_set_reason(const char *reason, const char *hint);

/* The hint that goes with the reason. */
extern void fc_cache_hint(char *hint, size_t len);

/* True once after the cache went off or paused; the writer then warns. */
extern bool fc_cache_take_warning(char *reason, char *hint);

/* ---- read: R1-R3 ---- */

/*
 * How to ask the page cache about a page: returns a descriptor of the data
 * file and the page's offset in it, or -1.  Must not open or read anything.
 */
typedef int (*FcDataFd) (void *arg, BlockNumber blk, off_t *offset);

/* Blocks of one read that are looked at together, at most. */
#define FC_MAX_RUN FC_STORE_MAX_READ

/*
 * Neighbouring pages that are to be read from flash, or from disk.  Made by
 * fc_cache_plan(), used up by one fc_cache_read().
 */
typedef struct FcRun
{
	FcTag		tag;			/* of the first page */
	int			n;				/* at least 1 */
	bool		from_flash;
	FcStream   *stream;			/* that it is part of, or NULL; until the next run is planned */
	bool		asks_again;		/* set by a caller that is content with the first pages, and asks again for the rest */
	uint8		why[FC_MAX_RUN];	/* FcSource of each page */
	FcSlotRef	ref[FC_MAX_RUN];	/* of those on flash */
} FcRun;

/*
 * Looks up n neighbouring pages from `tag` on, and says how many of them are
 * to be read from where (R1).  Counts nothing yet.
 */
extern void fc_cache_plan(FcRun *run, const FcTag *tag, int n, FcDataFd data_fd, void *arg);

/*
 * Reads a run from flash, verified (R2, R3), and counts.  Returns how many of
 * its first pages are good.  If that is less than run->n, the caller reads
 * the page after these from disk, whatever its memory holds now, unless it
 * asks again for what follows good pages; of a run
 * that is not from flash (0 is returned), all pages.
 */
extern int	fc_cache_read(const FcRun *run, char *const *pages);

/* Tells that n pages have been read from disk, in one request that was begun at `begin` (ns). */
extern void fc_cache_disk_read(uint64 begin, int n);

/*
 * A run is about to be read from disk in a way that nobody can time.  Should
 * it be read at once instead, so that the caller can?  True a few times a
 * second in the whole server, and only where the time would be used.
 */
extern bool fc_cache_wants_disk_time(const FcRun *run);

/* Tells that n pages are being read from disk; how long it takes nobody will know. */
extern void fc_cache_disk_read_started(int n);

/*
 * How many pages from `tag` on, at most `limit`, are best asked for in one
 * request: a mixed one would have to be split.
 */
extern int	fc_cache_combine(const FcTag *tag, int limit);

/*
 * The server is about to read the page.  True if it is on flash, so that
 * prefetching it from disk would be wasted; it is being read ahead from flash
 * then, where that can be done.
 */
extern bool fc_cache_prefetch(const FcTag *tag);

/*
 * pg_flashcache.verify: compares a page just read from flash with the same
 * page from disk; false, counted and logged, if they differ.
 */
extern bool fc_cache_verify(const FcTag *tag, const char *from_flash, const char *from_disk);

/* ---- invalidate: I1, I2 ---- */

/* One page. */
extern void fc_cache_invalidate(const FcTag *tag);

/* Blocks from <= blk < to of a relation. */
extern void fc_cache_invalidate_range(FcRel rel, BlockNumber from, BlockNumber to);
extern void fc_cache_invalidate_relation(FcRel rel);
extern void fc_cache_invalidate_database(Oid db);

/* ---- fill ---- */

/*
 * A page that was just written to disk to make room: gives a copy to the
 * writer (E1).  The caller has invalidated it after the write, and still
 * holds its I/O.
 */
extern void fc_cache_evicted(const FcTag *tag, const char *page);

/*
 * A damaged page may be in the buffer pool, looking clean: no page is taken
 * from there until the server restarts.
 */
extern void fc_cache_stop_filling(void);
extern bool fc_cache_filling_stopped(void);

/* Is a page that leaves the buffer pool worth writing, by what was measured? */
extern bool fc_cache_worth_filling(void);

/* Writer only, from here on. */
typedef enum FcFill
{
	FC_FILL_DONE,				/* taken, or known not to be wanted */
	FC_FILL_LATER,				/* somebody is using it: worth another look */
} FcFill;

extern void fc_cache_fill_start(void);

/*
 * Tries the device on slots that are free: writes, reads back, compares, and
 * learns how fast it answers.  Nothing may be on flash then.
 */
extern bool fc_cache_try_flash(FcStoreError *error);

/* What reading one page takes on average, whoever answers for the disk; 0 where not known. */
extern void fc_cache_times(uint64 *flash_ns, uint64 *disk_ns);

/*
 * Is flash slower than the disk?  By what all processes have seen, and with
 * a sentence that says so.
 */
extern bool fc_cache_slower_than_disk(char *reason, size_t len);

/*
 * The same for a cache that is paused, where nobody but the writer reads from
 * flash: measures.  FC_IO_BROKEN if the device fails.
 */
extern FcIo fc_cache_still_slow(bool *slow);

/* Has the disk slowed down much since flash was found slower than it? */
extern bool fc_cache_disk_slowed(void);

extern FcFill fc_cache_fill_from_pool(uint32 frame, const FcTag *tag);

/* Takes what was evicted dirty; false if there is nothing. */
extern bool fc_cache_fill_from_handoff(void);

/* Writes and publishes what was taken so far. */
extern void fc_cache_fill_flush(void);

/* Frees the slots of dropped relations, some at a time; true if more is to do. */
extern bool fc_cache_sweep(void);

/* Decides from the last answers how often to ask the page cache. */
extern void fc_cache_review_probe(void);

/* Measures flash anew where streams stay with the disk though their pages are on flash. */
extern void fc_cache_review_streams(void);

/* Forgets all pages. */
extern void fc_cache_purge(void);

/* ---- scrub: Z1-Z3; writer only ---- */

typedef enum FcScrubStep
{
	FC_SCRUB_MORE,				/* call again */
	FC_SCRUB_LATER,				/* the write limit is reached: call again later */
	FC_SCRUB_DONE,				/* every slot was dealt with */
	FC_SCRUB_GAVE_UP,			/* the device fails, or the cache is not in use */
} FcScrubStep;

typedef struct FcScrubResult
{
	uint64		erased;			/* slots */
	uint64		failed;			/* slots that could not be written */
	FcStoreError why;			/* the device could not be had; else empty */
} FcScrubResult;

/*
 * Begins to write zeros over all slots without a current entry, or, with
 * `everything`, over all slots, forgetting what they hold.  A scrub that was
 * under way is forgotten.
 */
extern void fc_cache_scrub_begin(bool everything);

/* Goes on with it, by one batch. */
extern FcScrubStep fc_cache_scrub_step(FcScrubResult *result);

/* To be called when it is over, done or not. */
extern void fc_cache_scrub_end(void);

#endif							/* FC_CACHE_H */
