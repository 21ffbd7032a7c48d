/*-------------------------------------------------------------------------
 *
 * cache_devices.h
 *	  Devices beyond the first one: their coming and going.
 *
 * Writer only.  What sessions see of it are states, and places of slots
 * (store/store.h).  src/device.md, "Several devices", has the rules.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_CACHE_DEVICES_H
#define FC_CACHE_DEVICES_H

#include "types.h"

#include "reason.h"
#include "store/store.h"

/*
 * The writer begins: what the list says is placed, before anything is loaded
 * from the log or filled; or what a writer before this one had in use is
 * taken over, the first one as well.  False, with the reason, if that is not
 * what was opened.
 */
extern bool fc_devices_start(FcReason *error);

/* Are there any? */
extern bool fc_devices_there(void);

/* Slots of all devices that are there, or will be again: those that are disabled, or go, don't count. */
extern uint32 fc_devices_slots(void);

/* Where the log is at present (fc_warm_position()): given to chunks that are placed, or begin empty. */
extern void fc_devices_set_position(uint64 log, uint64 group);

/* Once a round, when nothing is staged: opens those that are to be opened, tells the log of trouble. */
extern void fc_devices_round(void);

/* Is the device being opened?  It is opened in another way, or not at all. */
extern bool fc_devices_opens(FcDeviceNo no);
extern void fc_devices_stop_opening(FcDeviceNo no);

/* So soon what is under way wants to be looked at; 0 if nothing is. */
extern int	fc_devices_look_again_ms(void);

/* The cache is disabled: none is in use any more, nor being opened. */
extern void fc_devices_close(void);

/* Then lets go of all, the first one as well; and of what a scrub has had open for itself. */
extern void fc_devices_release(void);

/* One that has just failed a write is not asked for slots any more. */
extern void fc_devices_note_trouble(void);

/* Frees slots of a device, each with a raised version, some in each call; false: that were all.  fc_devices_stop_opening() begins anew. */
extern bool fc_devices_forget_some(FcDeviceNo no);

/* Reserves slots of the device to try it with: free ones if there are any. */
extern int	fc_devices_reserve(FcDeviceNo no, int wanted, FcSlotNo *slots);

/* ---- the first device, in trouble while others are in use ---- */

/* Of devices that are in the list and have no place: what is on them is out of reach. */
extern uint32 fc_devices_slots_without_place(void);

/* It is off, and the cache is not. */
extern bool fc_devices_first_is_off(void);

/* It is not what was opened: it goes off, with the cache if no other is in use. */
extern void fc_devices_first_is_lost(const FcReason *why);

/* Somebody asks for it: its pauses are short again. */
extern void fc_devices_first_begins_anew(void);

/* Is it time to try it again? */
extern bool fc_devices_first_is_due(void);

/*
 * Begins to open and try it, or looks what has come of that (H8).  Done: it is in
 * use; the log is to be begun anew, which is the caller's.
 * fc_devices_first_failed() if it has failed.
 */
extern FcStoreStep fc_devices_open_first(uint32 log_blocks, FcReason *error);
extern void fc_devices_first_failed(const FcReason *error);

/*
 * It can't be opened, and the cache is not in use: are there others that might be?  They
 * are opened in the next rounds.  fc_devices_others(): one is in use, or none can be.
 * Then fc_devices_first_is_away() says of the first one that it alone is off.
 */
extern bool fc_devices_wait_for_others(void);
extern FcStoreStep fc_devices_others(void);
extern void fc_devices_wait_no_more(void);
extern void fc_devices_first_is_away(const FcReason *why);

/* The cache as a whole has been opened, or is off: it has no state of its own. */
extern void fc_devices_first_is_back(void);

/* ---- changes, by functions of SQL; one at a time ---- */

typedef enum FcDeviceChange
{
	FC_CHANGE_ADD,
	FC_CHANGE_REMOVE,
	FC_CHANGE_RESIZE,
	FC_CHANGE_DISABLE,
	FC_CHANGE_ENABLE,
} FcDeviceChange;

typedef enum FcChangeStep
{
	FC_CHANGE_DONE,
	FC_CHANGE_FAILED,
	FC_CHANGE_MORE,				/* call fc_devices_change_step() in the next
								 * round, at once */
	FC_CHANGE_LATER,			/* the same, but a device is waited for */
} FcChangeStep;

extern FcChangeStep fc_devices_change(FcDeviceChange change, const char *path, uint32 slots, FcReason *error);
extern FcChangeStep fc_devices_change_step(FcReason *error);

/* Are all changes in the list in the data directory?  Else it is tried once more; false: why not, they would not survive a restart. */
extern bool fc_devices_list_written(FcReason *why);

#endif							/* FC_CACHE_DEVICES_H */
