/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Definition of the pg_flashcache.* settings; docs/settings.md describes
 *	  them for users.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <limits.h>

#include "policy.h"
#include "settings.h"
#include "stats.h"
#include "utils/guc.h"

char	   *fc_setting_file = NULL;
int			fc_setting_size = 0;
bool		fc_setting_enabled = true;
bool		fc_setting_verify = false;
int			fc_setting_os_cache_probe = FC_PROBE_AUTO;
int			fc_setting_admission = FC_ADMIT_AUTO;
int			fc_setting_write_limit = 0;
int			fc_setting_io_timeout = 1000;
bool		fc_setting_pause_when_slow = true;
bool		fc_setting_keep_stats = true;
bool		fc_setting_require_mount = false;

static const struct config_enum_entry probe_options[] = {
	{"auto", FC_PROBE_AUTO, false},
	{"off", FC_PROBE_OFF, false},
	{NULL, 0, false},
};

static const struct config_enum_entry admission_options[] = {
	{"auto", FC_ADMIT_AUTO, false},
	{"all", FC_ADMIT_ALL, false},
	{"reuse", FC_ADMIT_REUSE, false},
	{NULL, 0, false},
};

static bool
check_file(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] != '\0' && !is_absolute_path(*newval))
	{
		GUC_check_errdetail("The path must be absolute.");
		GUC_check_errhint("Name a file on local flash, such as /mnt/nvme/pg_flashcache, or a raw block device.");
		return false;
	}
	return true;
}

static bool
check_size(int *newval, void **extra, GucSource source)
{
	if (*newval != 0 && *newval < FC_MIN_SLOTS)
	{
		GUC_check_errdetail("The smallest cache is %d kB; 0 disables the cache.",
							FC_MIN_SLOTS * (BLCKSZ / 1024));
		return false;
	}
	return true;
}

static void
assign_keep_stats(bool newval, void *extra)
{
	fc_stats_keep(newval);
}

void
fc_settings_define(void)
{
	DefineCustomStringVariable("pg_flashcache.file",
							   "File or block device on local flash that holds the cache.",
							   "Created with mode 0600 if it does not exist. Must lie outside the data directory.",
							   &fc_setting_file, "",
							   PGC_POSTMASTER, GUC_SUPERUSER_ONLY, check_file, NULL, NULL);
	DefineCustomIntVariable("pg_flashcache.size",
							"Size of the flash cache; 0 disables it.",
							"Typically 2 to 10 times shared_buffers.",
							&fc_setting_size, 0, 0, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_BLOCKS, check_size, NULL, NULL);
	DefineCustomBoolVariable("pg_flashcache.enabled",
							 "Uses the flash cache.",
							 "Switching it off forgets all cached pages; switching it on starts cold.",
							 &fc_setting_enabled, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_flashcache.verify",
							 "Compares every page read from flash with the disk.",
							 "For tests and for doubts: every hit then costs a disk read as well.",
							 &fc_setting_verify, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_flashcache.os_cache_probe",
							 "Reads a page from the kernel's page cache rather than from flash if it is there.",
							 "auto asks the kernel with cachestat(2) and stops asking where that hardly ever succeeds.",
							 &fc_setting_os_cache_probe, FC_PROBE_AUTO, probe_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable("pg_flashcache.admission",
							 "Which pages evicted from shared buffers are written to flash.",
							 "all: every page; reuse: pages evicted before; auto: every page until the cache is 80% full, then pages evicted before.",
							 &fc_setting_admission, FC_ADMIT_AUTO, admission_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_flashcache.write_limit",
							"Most megabytes a second written to flash; 0 is no limit.",
							"Protects the endurance of the drive: 22 MB/s are one drive write a day of 1.92 TB.",
							&fc_setting_write_limit, 0, 0, 1024 * 1024,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable("pg_flashcache.io_timeout",
							"Longest wait for the flash device; 0 is no limit.",
							"A device that does not answer in time is switched off, and the page read from disk. Needs io_uring.",
							&fc_setting_io_timeout, 1000, 0, 600000,
							PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_flashcache.pause_when_slow",
							 "Leaves the flash device alone while it is slower than the disk.",
							 "Pages stay where they are. Switch it off where reads from the disk are to be saved whatever they take.",
							 &fc_setting_pause_when_slow, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable("pg_flashcache.keep_stats",
							 "Keeps the counters of the flash cache over a clean restart (PostgreSQL 18 and later).",
							 "Switch it off and reload before the library is removed from shared_preload_libraries.",
							 &fc_setting_keep_stats, true,
							 PGC_SIGHUP, 0, NULL, assign_keep_stats, NULL);
	DefineCustomBoolVariable("pg_flashcache.require_mount",
							 "Refuses a file on the file system of the data directory, the write-ahead log, or the root directory.",
							 "For a file on a flash device that may not be mounted. Counts whenever the file is opened.",
							 &fc_setting_require_mount, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("pg_flashcache");
}
