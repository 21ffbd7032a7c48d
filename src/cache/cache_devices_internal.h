/*-------------------------------------------------------------------------
 *
 * cache_devices_internal.h
 *	  What the files share that deal with devices.
 *
 * Each of these calls those after it: cache_devices.c, cache_devices_change.c,
 * cache_devices_first.c, cache_devices_open.c, cache_trial.c and
 * cache_devices_place.c, cache_devices_trouble.c, cache_scrub.c,
 * cache_devices_list.c, cache_devices_state.c.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_DEVICES_INTERNAL_H
#define FC_CACHE_DEVICES_INTERNAL_H

#include "cache/cache_devices.h"
#include "store/store_list.h"

/* ---- cache_devices_state.c ---- */

typedef enum FcOpeningStep
{
	FC_OPENING_NONE,
	FC_OPENING_ASKED,
	FC_OPENING_OPENED,
	FC_OPENING_TRIED,
} FcOpeningStep;

/* What is under way for each device: the step that is being looked for. */
typedef struct FcDeviceOpening
{
	FcOpeningStep step;
	bool		make;			/* it is being added: the file may be made */
	uint32		log_blocks;
	uint64		since;			/* ns */
} FcDeviceOpening;

extern FcDeviceOpening fc_devices_openings[FC_DEVICES];

/* So many slots has the chunk that lies in that place of a device of so many slots. */
extern uint32 fc_devices_chunk_wants(uint32 slots, uint32 index);
extern FcSlotNo fc_devices_chunk_first(uint32 chunk);

/* What fc_devices_forget_some() has begun is not gone on with. */
extern void fc_devices_forget_anew(FcDeviceNo no);

/* ---- cache_devices_trouble.c ---- */

/* A writer begins. */
extern void fc_devices_begin_trouble(void);

extern void fc_devices_schedule_probe(FcDeviceNo no);

/* Is it off, and to be tried again now? */
extern bool fc_devices_probe_is_due(FcDeviceNo no);

/* It could not be opened, for the first time or again. */
extern void fc_devices_not_opened(FcDeviceNo no, const FcReason *error);

/* Of all chunks of a device that has so many slots. */
extern void fc_devices_set_flags(FcDeviceNo no, uint32 slots, bool open, bool readable);

extern void fc_devices_forget_trouble(FcDeviceNo no);

/* It has just been opened. */
extern void fc_devices_note_active(FcDeviceNo no);

/*
 * The next trouble is the first of a series.  When it is tried next stays: the
 * cache may be paused, and it is not tried now.
 */
extern void fc_devices_end_series(FcDeviceNo no);

/* ---- cache_devices_list.c ---- */

/* The list is written, with what the header of the device says now. */
extern void fc_devices_write_list(void);

/* If it could not be, it is tried again from time to time. */
extern void fc_devices_retry_list(void);
extern void fc_devices_note_identity(FcDeviceNo no, FcDeviceEntry *entry);

/* D11, K17: before it is opened, the list says which identity it may have after that. */
extern void fc_devices_offer(FcDeviceNo no);

/* ---- cache_devices_open.c ---- */

/*
 * Begins to open it, with the checks that opening has, and to try it; what comes
 * of it is looked at once a round, until it is not FC_STEP_MORE.  Then it is in
 * use.  `make`: the file may be made.  log_blocks: of the first one.
 */
extern FcStoreStep fc_devices_begin_to_open(FcDeviceNo no, bool make, uint32 log_blocks, FcReason *error);
extern FcStoreStep fc_devices_look(FcDeviceNo no, FcReason *error);

/* ---- cache_devices_first.c ---- */

/* No other one is in use any more: then the cache is off. */
extern void fc_devices_first_is_alone(void);

/* Does the cache wait for one of the others?  For that one, which has not been tried yet? */
extern bool fc_devices_waits(void);
extern bool fc_devices_is_waited_for(FcDeviceNo no);
extern void fc_devices_note_tried(FcDeviceNo no);

/* ---- cache_devices_place.c: chunks find a place ---- */

/* All chunks of the device have one, if they did not already; none of them may be read or taken yet.  False: too few are left. */
extern bool fc_devices_place(FcDeviceNo no, FcReason *error);

/* Places more, for a device that becomes larger; they may be taken. */
extern bool fc_devices_place_more(FcDeviceNo no, uint32 slots, FcReason *error);

/* Would that find place? */
extern bool fc_devices_would_fit(FcDeviceNo no, uint32 slots, FcReason *error);

/*
 * It is another device than before, or in doubt: forgets what it had, also what
 * a log has of it that is not loaded yet.  False: some of it, so it is to be
 * called again.
 */
extern bool fc_devices_begin_empty(FcDeviceNo no);

/* Its chunks are absent from now on: they have been drained. */
extern void fc_devices_unplace(FcDeviceNo no);

/* At start. */
extern void fc_devices_place_list(const FcDeviceList *list);

/* ---- cache_devices_change.c ---- */

/* Is the device being changed? */
extern bool fc_devices_changes(FcDeviceNo no);

/* It is no device any more.  What it held has been drained. */
extern void fc_devices_remove(FcDeviceNo no);

#endif							/* FC_CACHE_DEVICES_INTERNAL_H */
