/*-------------------------------------------------------------------------
 *
 * settings.h
 *	  The pg_flashcache.* settings, as the modules read them.
 *
 * Defined and documented in settings.c; each process sees a change when it
 * next reads the configuration.  Correctness never depends on two processes
 * agreeing on a setting.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_SETTINGS_H
#define FC_SETTINGS_H

#include "types.h"

typedef enum FcProbeMode
{
	FC_PROBE_OFF,
	FC_PROBE_AUTO,
} FcProbeMode;

typedef enum FcExtentsMode
{
	FC_EXTENTS_OFF,
	FC_EXTENTS_ON,
	FC_EXTENTS_AUTO,
} FcExtentsMode;

typedef enum FcBypassMode
{
	FC_BYPASS_MODE_OFF,
	FC_BYPASS_MODE_AUTO,
} FcBypassMode;

extern char *fc_setting_file;
extern int	fc_setting_size;	/* slots of the first device */
extern int	fc_setting_max_size;	/* of all; 0: no more than these */
extern bool fc_setting_advice;
extern double fc_setting_advice_flash_read_time;	/* ms */
extern bool fc_setting_enabled;
extern bool fc_setting_verify;
extern int	fc_setting_os_cache_probe;	/* FcProbeMode */
extern int	fc_setting_admission;	/* FcAdmission */
extern uint64 fc_setting_write_limit;	/* bytes a second, 0 = none */
extern int	fc_setting_io_timeout;	/* ms, 0 = none */
extern bool fc_setting_pause_when_slow;
extern bool fc_setting_keep_stats;
extern bool fc_setting_require_mount;
extern int	fc_setting_extents; /* FcExtentsMode */
extern int	fc_setting_bypass;	/* FcBypassMode */
extern bool fc_setting_persistence;
extern int	fc_setting_max_shutdown_delay;	/* ms, 0 = none */
extern int	fc_setting_keep_limit;	/* percent of the slots */
extern int	fc_setting_max_policy_files;
extern bool fc_setting_follow;
extern bool fc_setting_follow_buffers;
extern char *fc_setting_follow_conninfo;
extern int	fc_setting_follow_interval; /* s */

extern void fc_settings_define(void);

/* Slots for which there is shared memory. */
extern uint32 fc_settings_slots(void);

/*
 * How many values in the configuration were refused when the settings were
 * defined.  The reason names all of them; `too_small`: a size is among them that
 * is no cache.
 */
extern int	fc_settings_refused(char *reason, size_t len, bool *too_small);

#endif							/* FC_SETTINGS_H */
