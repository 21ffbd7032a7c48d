/*-------------------------------------------------------------------------
 *
 * warm_internal.h
 *	  What the files of this module share, and nobody else.
 *
 *		warm.c			shared memory; the postmaster's part
 *		warm_load.c		rules of acceptance, loading
 *		warm_log.c		groups, stamps, binding
 *		warm_journal.c	the records: written one after the other, round and round
 *		warm_buffers.c	the list of what was in shared_buffers
 *		warm_file.c		files in the data directory
 *		warm_fsync.c	was fsync off?
 *		warm_format.c	what lies on flash
 *		warm_state.c	what all of them use
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_WARM_INTERNAL_H
#define FC_WARM_INTERNAL_H

#include "warm/warm.h"
#include "warm/warm_format.h"

#include "port/atomics.h"
#include "storage/spin.h"

typedef struct FcWarmShared
{
	/* K1, by the postmaster; does not change */
	bool		keep;
	bool		control_read;
	bool		backup_label;
	ControlFileData control;

	/* of the writer; the postmaster reads it when all others have gone */
	bool		pending;
	bool		writing;		/* bound: groups and stamps are written */
	bool		gave_up;		/* the server log says that they no longer are */
	bool		spoilt;			/* a block of the log that is, or was, being
								 * loaded: another one takes its entries over */
	FcWarmRoot	root;			/* as written last */
	uint64		next;			/* block of the journal */
	uint32		stretch;		/* whose turn it is (K18) */
	uint64		group;			/* the last one */
	uint64		w;				/* the largest */
	uint64		run_w;			/* K14, in the file of the run */
	uint64		wrong_seen;		/* FC_RESTORED_WRONG when they were loaded */
	bool		left;			/* the writer has gone, and the log is
								 * complete */
	uint32		left_epoch;

	/* K9, by whichever process is told; set once */
	bool		fsync_was_off;
	bool		fsync_noted;	/* by the writer, in the file of the run that
								 * is there */

	/* K13, set once by the writer, before it starts another process */
	bool		listed;			/* the list of the run that was loaded is
								 * there */
	uint32		list_crc;

	slock_t		lock;			/* protects what follows; leaf */
	FcWarmInfo	info;
} FcWarmShared;

/* NULL without `keep`. */
extern FcWarmShared *fc_warm;

/* Memory for FC_STORE_MAX_RUN blocks, in the writer. */
extern char **fc_warm_blocks;

/* Blocks can't be aligned otherwise, so structs are copied to and from them. */

/* The last group is being written, or has been: it waits for the device so long at most, each call. */
#define FC_WARM_LEAVE_MS 10000
extern bool fc_warm_leaving;

/* pg_flashcache.io_timeout, or what is left for the last group. */
extern int	fc_warm_timeout(void);

/* The present timeline; of a standby, that of replay. */
extern uint32 fc_warm_timeline(void);

/* ---- warm_file.c: nothing raises; false means that it is not there, or not good ---- */

extern bool fc_warm_read_control(ControlFileData *control);
extern bool fc_warm_read_run(FcWarmRun *file);

/* Durable.  A new run, under the file's name when it is complete; or another W of the same run, in place. */
extern bool fc_warm_write_run(const FcRunId *run, uint64 w);
extern bool fc_warm_change_run(const FcRunId *run, uint64 w);

/* K9: notes in the file there is that fsync was off in this boot, durably. */
extern bool fc_warm_run_without_fsync(void);

/* *map and *list are malloc'd. */
extern bool fc_warm_read_stop(FcWarmStop *stop, uint32 slots, char **map, FcInvalidated **list);
extern bool fc_warm_write_stop(const FcWarmStop *stop, const void *map, Size map_bytes, const FcInvalidated *list);
extern void fc_warm_remove_stop(void);

/* *slot is malloc'd. */
extern bool fc_warm_read_list(FcWarmList *list, uint32 slots, FcSlotNo **slot);
extern bool fc_warm_write_list(const FcWarmList *list, const FcSlotNo *slot);
extern void fc_warm_remove_list(void);

extern bool fc_warm_boot_id(char *id);

/* ---- warm_fsync.c ---- */

/* By the postmaster, before it starts anybody: from now on whoever turns fsync off says so. */
extern void fc_warm_watch_fsync(void);

/* ---- warm_buffers.c ---- */

/* A log has been loaded: is there a list that goes with it?  None does unless that was a clean stop. */
extern void fc_warm_find_list(const FcWarmRoot *root, const FcWarmStamp *stamp, bool clean_stop);

/* ---- warm_journal.c ---- */

/* Blocks of the journal, from that place on, to fc_warm_blocks. */
extern FcIo fc_warm_read_journal(uint32 place, int n);

/* The number of the block behind the last one that was written. */
extern FcIo fc_warm_find_end(const FcWarmRoot *root, uint64 *end);

/* The records of a group (K4), of slots taken since the last one; of as many as fit, if some are not listed. */
extern FcIo fc_warm_write_records(uint32 timeline);

#endif							/* FC_WARM_INTERNAL_H */
