/*-------------------------------------------------------------------------
 *
 * warm.h
 *	  Entries that survive an end of the server: src/warm.md.
 *
 * The log on flash, the files in the data directory, and loading.  The rules
 * K1 to K18 are those of src/warm.md.
 *
 * Without `keep` (pg_flashcache.persistence = off) nothing here does anything.
 * All functions but the first ones are for the writer; flash is reached by
 * the store's calls for the writer only, whose waits are bounded.  Nothing
 * raises.  What fails with the log ends it, and nothing else: the cache goes
 * on, and a log that is not written any more does no harm.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WARM_H
#define FC_WARM_H

#include "types.h"

#include "access/xlogdefs.h"
#include "datatype/timestamp.h"
#include "reason.h"
#include "store/store.h"

/* ---- for the postmaster ---- */

extern FcPart fc_warm_part(void);

/* K1, and registers K10. */
extern void fc_warm_shmem_init(bool keep);

/* ---- for views ---- */

/* K13: what has become of the list. */
typedef enum FcBuffers
{
	FC_BUFFERS_NONE,			/* there is none */
	FC_BUFFERS_WAITING,			/* for a background worker */
	FC_BUFFERS_LOADING,
	FC_BUFFERS_LOADED,
	FC_BUFFERS_FULL,			/* no buffer was free any more */
	FC_BUFFERS_AUTOPREWARM,		/* left to pg_prewarm */
	FC_BUFFERS_STOPPED,			/* the cache is not active, or nobody wants it */
} FcBuffers;

typedef struct FcWarmInfo
{
	TimestampTz loaded_at;		/* 0: nothing has been loaded */
	uint64		loading_us;
	uint64		restored;		/* entries; the next ones were not: */
	uint64		touched;		/* recovery has changed them */
	uint64		removed;		/* they were no longer current */
	uint64		torn;			/* blocks of the journal */
	char		refused[FC_REASON_LEN]; /* why no log was loaded; "" if one
										 * was */
	TimestampTz stamped_at;		/* 0: no stamp */
	XLogRecPtr	checkpoint;		/* of the stamp */
	bool		writing;
	/* K13: */
	bool		listed;			/* the last stop has left a list */
	uint32		list_pages;		/* so long */
	uint32		list_copied;	/* copied to flash at that stop, and */
	uint64		list_copy_us;	/* what it took for it */
	FcBuffers	buffers;
	uint64		buffers_loaded; /* pages */
	uint64		buffers_load_us;	/* 0 before it is over */
} FcWarmInfo;

/* False without `keep`. */
extern bool fc_warm_info(FcWarmInfo *info);

/* ---- for the writer ---- */

/* The writer begins; there may have been another one in this run. */
extern void fc_warm_start(void);

/* Blocks of the log; 0 without `keep`. */
extern uint32 fc_warm_log_blocks(void);

/* Has the log still to be looked at?  Until then, what the directory knows of the time since start must not be forgotten. */
extern bool fc_warm_pending(void);

/*
 * The device was opened: may its log be loaded?  If not, one LOG line says
 * why, and it will not be asked again.
 */
extern bool fc_warm_look(void);

typedef enum FcWarmLoad
{
	FC_WARM_LOADED,
	FC_WARM_COLD,				/* the log is not good after all: forget what
								 * was restored */
	FC_WARM_STOPPED,			/* the writer is to end */
	FC_WARM_FAILED,				/* the device; forget what was restored */
} FcWarmLoad;

/* Loads the log that fc_warm_look() has found good (K11). */
extern FcWarmLoad fc_warm_load(void);

/*
 * The cache begins without the device that has the log: it will not be asked for again, and no later run
 * of the server believes it (K7).
 */
extern void fc_warm_give_up(const char *why);

/*
 * Begins to write: K7, and a log that goes on with what was restored or, if
 * nothing was, an empty one.
 */
extern FcIo fc_warm_begin(bool restored);

/* Is it being written?  Not without the device that has it. */
extern bool fc_warm_writes(void);

/*
 * The log and its last group, 0 and 0 if none is written; FC_EVERY_LOG while one
 * may still be loaded: what is moved now has no record in it.
 */
extern void fc_warm_position(uint64 *log, uint64 *group);

/* Is a group due (K4)? */
extern bool fc_warm_group_due(void);
extern FcIo fc_warm_group(void);

/* Was there more for the last group than it took?  Another one is due. */
extern bool fc_warm_group_unfinished(void);

/* Once a round: K5, K9. */
extern FcIo fc_warm_round(void);

/* Instead of it, while the log is not written: K9. */
extern void fc_warm_round_unwritten(void);

/* Have so many restored slots turned out wrong that all should go (K12)?  True once. */
extern bool fc_warm_restored_is_wrong(void);

/* No slot has another page than its entry any more: none that was doubtful is in use (K12). */
extern void fc_warm_doubt_ends(void);

/* The entries are forgotten, or the device is: the log is not written any more. */
extern void fc_warm_end(void);

/* ---- shared_buffers: K13 ---- */

/*
 * By the writer, after fc_warm_leave(): the slots that have the pages of
 * shared_buffers, the hottest first.  `copied`: so many of them were copied to
 * flash for it, in so many microseconds.
 */
extern void fc_warm_save_list(const FcSlotNo *slots, uint32 n, uint32 copied, uint64 copy_us);

/*
 * The list of the run that was loaded, malloc'd; NULL if there is none, or it
 * is not there any more.  In any process.  Slots may have other pages by now.
 */
extern FcSlotNo *fc_warm_list(uint32 *n);

/* Nobody needs the list any more. */
extern void fc_warm_forget_list(void);

/* For the view: what becomes of it; a process has loaded so many of its pages. */
extern FcBuffers fc_warm_buffers(void);
extern void fc_warm_set_buffers(FcBuffers now);
extern void fc_warm_buffers_loaded(uint32 pages);

/* ---- the end ---- */

/* The writer leaves, with the server or without: the last group.  May wait for the device, 10 s at most. */
extern void fc_warm_leave(void);

/* Is there a log that it has not ended?  Then the next start finds nothing. */
extern bool fc_warm_unfinished(void);

#endif							/* FC_WARM_H */
