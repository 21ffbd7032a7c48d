/*-------------------------------------------------------------------------
 *
 * cache.h
 *	  The flash cache: the protocol of src/protocol.md, and the state.
 *
 * The only module that combines the directory and the store.  Callers are the
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
#include "directory/directory.h"
#include "port/atomics.h"
#include "store/store.h"

typedef struct FcCacheShared FcCacheShared;

extern FcCacheShared *fc_cache;

/* The cache's shared memory, without the writer's: puts the parts into the array and returns how many they are. */
#define FC_CACHE_PARTS 12
extern int	fc_cache_parts(uint32 slots, bool keep, FcPart *parts);

/*
 * `first`: slots of the first device; `keep`: entries survive an end of the
 * server; `memory`: shared memory of all modules together, to be reported;
 * `tranche`: of its locks.
 */
extern void fc_cache_shmem_init(uint32 slots, uint32 first, bool keep, Size memory, int tranche);

/* The same, 0 without a cache. */
extern Size fc_cache_memory(void);

/* ---- state ---- */

/* For start-up: there will be no cache in this run of the server. */
extern void fc_cache_stay_out(FcState state, const FcReason *why);

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
extern TimestampTz fc_cache_reason(FcReason *why);

/*
 * Changes the state and says why.  FC_STATE_OFF is entered only from ACTIVE,
 * STARTING or PAUSED: of several failures the first one is reported.  PAUSED is
 * entered only from ACTIVE, and ACTIVE not if the pages have become doubtful
 * since they were last forgotten.  False: the state is what it was.
 */
extern bool fc_cache_set_state(FcState state, const FcReason *why);

/*
 * From FC_STATE_PAUSED to ACTIVE.  False if it has been switched off meanwhile:
 * only opening the device ends that.  Writer only.
 */
extern bool fc_cache_resume(void);

/* A new reason for the state that it is in.  The caller logs it, or not. */
extern void fc_cache_set_reason(const FcReason *why);

/* The first device has failed for good: the cache goes off, unless it has others in use.  In any process that was told so (FC_IO_BROKEN). */
extern void fc_cache_device_broken(void);

/* True once after the cache went off or paused; the writer then warns. */
extern bool fc_cache_take_warning(FcReason *why);

/* ---- read: R1-R3 ---- */

/*
 * How to ask the page cache about a page: returns a descriptor of the data
 * file and the page's offset in it, or -1.  Must not read anything, nor wait for
 * the data file's file system; but see data_file.c for one that the server has
 * closed meanwhile.
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
	FcStream   *stream;			/* that it is part of, or NULL; until the next
								 * run is planned */
	bool		asks_again;		/* set by a caller that is content with the
								 * first pages, and asks again for the rest */
	uint8		arm;			/* FcArmOf: what it is a sample of; of a page
								 * alone, in cache_bypass.c */
	bool		forced;			/* it is read from disk, or at once, for that */
	bool		if_slow;		/* it may be the page cache that answers */
	uint32		window;
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

/*
 * Tells that n pages have been read from disk, in one request that was begun
 * at `begin` (ns).  They belong to a run, or (NULL) were never planned.  `rel`
 * is what they are counted for.
 */
extern void fc_cache_disk_read(const FcRun *run, FcRel rel, uint64 begin, int n);

/*
 * A run is about to be read from disk in a way that nobody can time.  Should
 * it be read at once instead, so that the caller can?  True at most four times
 * a second in the whole server, and only where the time would be used; once in
 * two seconds if this process has other reads under way, since these would no
 * longer overlap with the next ones.  Also for a trial of its tablespace, which
 * has a rate of its own (cache_bypass.c).
 */
extern bool fc_cache_wants_disk_time(FcRun *run, bool others_under_way);

/* Tells that n pages are being read from disk; how long it takes nobody will know. */
extern void fc_cache_disk_read_started(FcRel rel, int n);

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

/*
 * K3: n pages from `tag` on are about to be read from disk.  For a read that
 * is not planned.
 */
extern void fc_cache_note_read(const FcTag *tag, int n);

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
extern void fc_cache_evicted(const FcTag *tag, int frame, const char *page);

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
 * learns how fast it answers.  A cache that is full gives up the pages of 16.
 */
extern bool fc_cache_try_flash(FcReason *error);

/* What reading one page takes on average, whoever answers for the disk; 0 where not known. */
extern void fc_cache_times(uint64 *flash_ns, uint64 *disk_ns);

/* Is flash slower than the disk?  By what all processes have seen; *why says so then. */
extern bool fc_cache_slower_than_disk(FcReason *why);

/*
 * The same for a cache that is paused, where nobody but the writer reads from
 * flash: measures.  FC_IO_BROKEN if the device fails.
 */
extern FcIo fc_cache_still_slow(bool *slow);

/* Has the disk slowed down much since flash was found slower than it? */
extern bool fc_cache_disk_slowed(void);

extern FcFill fc_cache_fill_from_pool(uint32 frame, const FcTag *tag);

/*
 * The same for a page that is not about to be evicted: it is taken whatever the
 * admission, and not counted if it is not.
 */
typedef enum FcCopyHot
{
	FC_HOT_TAKEN,
	FC_HOT_LEFT,				/* it is on flash, in use, or not fit */
	FC_HOT_NO_BUDGET,			/* the write limit is reached: call again
								 * later */
} FcCopyHot;

extern FcCopyHot fc_cache_fill_hot(uint32 frame, const FcTag *tag);

/* Takes what was evicted dirty; false if there is nothing. */
extern bool fc_cache_fill_from_handoff(void);

/* Writes and publishes what was taken so far. */
extern void fc_cache_fill_flush(void);

/* Frees the slots of dropped relations, some at a time; true if more is to do. */
extern bool fc_cache_sweep(void);

/*
 * Takes policies of files that are new, and applies them to what is on flash,
 * some slots at a time; true if more is to do.  When nothing is staged.
 */
extern bool fc_cache_apply_rules(void);

/* Decides from the last answers how often to ask the page cache. */
extern void fc_cache_review_probe(void);

/* Measures flash anew where streams stay with the disk though their pages are on flash. */
extern void fc_cache_review_streams(void);

/* Writer only, once a round: tries devices that may hang since another one does (D9). */
extern void fc_cache_try_suspects(void);

/*
 * O2, between opening the device and the first use of it: forgets all pages,
 * unless it is the `same` device as before, with the header that was written
 * then, and nothing else is against it.  False: some of them, so it is to be
 * called again.
 */
extern bool fc_cache_purge_unless(bool same);

/*
 * Forgets all pages, some of them at a time.  fc_cache_purge_step(): false when
 * it has come to its end.  Until then the cache can't be active, also with
 * another writer, which begins anew.
 */
extern void fc_cache_purge_begin(void);
extern bool fc_cache_purge_step(void);
extern bool fc_cache_purges(void);

/* All of it; the writer may end meanwhile. */
extern void fc_cache_purge(void);

/* ---- load: L1-L4; a session reads pages from a data file, the writer fills ---- */

/* Pages that go from a session to the writer together; 256 kB. */
#define FC_LOAD_PAGES 32

/* What became of pages, one by one; all but `read` add up to those that were looked at. */
typedef struct FcLoadCounts
{
	uint64		read;			/* from the data file */
	uint64		exists;			/* on flash already */
	uint64		loaded;
	uint64		modified;		/* changed meanwhile, or no longer there */
	uint64		dirty;			/* in the buffer pool: will be written anyway */
	uint64		empty;			/* new pages */
	uint64		corrupt;		/* wrong checksum or header */
	uint64		full;			/* no slot for it */
	uint64		unwanted;		/* its policy is none */
	uint64		failed;			/* could not be written to flash */
} FcLoadCounts;

typedef struct FcLoad
{
	int			n;
	int			next;			/* the first one that the writer has not come
								 * to */
	FcTag		tag[FC_LOAD_PAGES]; /* ascending blocks of one relation */
	FcGuard		guard[FC_LOAD_PAGES];
	char		page[FC_LOAD_PAGES][BLCKSZ];
} FcLoad;

/* Which of neighbouring pages are meant: the lowest bit is the first page's. */
typedef uint32 FcLoadMask;

#define FC_LOAD_ALL ((FcLoadMask) PG_UINT32_MAX)

StaticAssertDecl(FC_LOAD_PAGES == 8 * sizeof(FcLoadMask), "a bit for each page");

/*
 * L1: chooses from n pages, the first of which is `first`, those that are
 * `wanted`, and neither on flash nor dirty in the buffer pool.  L2: takes their
 * guards.  The caller then opens the data file and reads (L3): in this order,
 * and without the buffer manager.
 */
extern void fc_cache_load_begin(FcLoad *load, const FcTag *first, int n, FcLoadMask wanted, FcLoadCounts *counts);

/*
 * L4: the chosen pages were read, with what lies between; there were `nread`
 * pages.  Keeps those that are sound.
 */
extern void fc_cache_load_check(FcLoad *load, const char *read, int nread, FcLoadCounts *counts);

/* Writer only, when nothing else is staged. */
typedef enum FcLoadStep
{
	FC_LOAD_DONE,				/* with all pages */
	FC_LOAD_MORE,				/* call again: looking for slots */
	FC_LOAD_LATER,				/* the write limit is reached: call again
								 * later */
} FcLoadStep;

/* F4-F6 for these pages, as far as there are slots for them in the lap. */
extern FcLoadStep fc_cache_load_step(FcLoad *load, FcLap *lap, FcLoadCounts *counts);

/* ---- extents: the neighbours of a page that is read from disk ---- */

/*
 * In the read wrapper, before md reads the run's page to that address of the
 * pool; `run` may be NULL.  `nblocks`: of the relation as far as is known, or
 * InvalidBlockNumber.
 */
typedef enum FcExtentWish
{
	FC_EXTENT_NO,
	FC_EXTENT_IF_SLOW,			/* if it was the disk that answered */
	FC_EXTENT_YES,				/* the kernel reads it with the page */
} FcExtentWish;

extern FcExtentWish fc_cache_extent_wish(const FcRun *run, const char *page, BlockNumber nblocks, FcDataFd data_fd, void *arg);

/* And when it has read, or begun to: since `begin`, 0 if how long it takes is not known. */
extern void fc_cache_extent_leave(const FcRun *run, FcExtentWish wish, uint64 begin);

/*
 * How to get pages of a data file without waiting for the disk: n blocks, which
 * are in one file, opened by name for it (L3).  How many there were, FC_PEEK_NOT_YET
 * if not all are in the page cache, in which case they are about to be; or
 * FC_PEEK_FAILED.  `again`: that was said before.
 */
#define FC_PEEK_FAILED (-1)
#define FC_PEEK_NOT_YET (-2)
typedef int (*FcDataPeek) (const FcTag *first, int n, char *pages, bool again);

/*
 * Writer only: once a round, when nothing is staged; calls `between` after each
 * extent.  True if there is more to do soon.
 */
extern bool fc_cache_extents_run(FcDataPeek peek, void (*between) (void));

/* For views: in a word, and one miss in how many brings its neighbours (0: none). */
extern const char *fc_cache_extents_state(uint32 *interval);

/* ---- tablespaces that are read without the cache: cache_bypass.c ---- */

/* Tablespaces that can be; others never are. */
#define FC_BYPASS_PLACES 64

/* Writer only: once a round; judges by the samples that there are. */
extern void fc_cache_review_bypass(void);

/* For views: that of a place, false if it is free. */
typedef struct FcBypassRow
{
	Oid			spc;
	bool		on_trial;
	bool		bypassed;		/* if not on trial */
	TimestampTz since;			/* being cached, or bypassed; 0: not looked at
								 * yet */
	TimestampTz next;			/* window, or trial; 0: now, or unknown */
	double		disk_ns;		/* means of the last window; 0: none yet */
	double		flash_ns;
	uint64		windows;
	uint64		bypasses;
	uint64		bypassed_reads; /* pages not looked for on flash */
} FcBypassRow;

extern bool fc_cache_bypass_row(int i, FcBypassRow *row);

/* ---- scrub: Z1-Z3; writer only ---- */

typedef enum FcScrubStep
{
	FC_SCRUB_MORE,				/* call again */
	FC_SCRUB_LATER,				/* the write limit is reached, or a device is
								 * being opened: call again later */
	FC_SCRUB_DONE,				/* every slot was dealt with */
	FC_SCRUB_GAVE_UP,			/* the device fails, or the cache is not in
								 * use */
} FcScrubStep;

typedef struct FcScrubResult
{
	uint64		erased;			/* slots */
	uint64		failed;			/* slots that could not be written */
	FcReason	why;			/* the device could not be had; else empty */
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
