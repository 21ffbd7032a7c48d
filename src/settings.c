/*-------------------------------------------------------------------------
 *
 * settings.c
 *	  Definition of the pg_flashcache.* settings; docs/settings.md describes
 *	  them for users.
 *
 * write_limit and what is in ms are floating-point numbers to the server, which
 * would round an integer before it can be looked at: 100 kB/s to 0 MB/s, "no
 * limit".  The variables that the modules read are set when a value is
 * assigned.  The upper limit is looked at here as well, since the server would
 * tell it in its own unit.  It shows such a number with six digits, so these
 * are rounded to what can be shown: SHOW prints what is in use.
 *
 * The library is loaded after the configuration was read.  A value that is
 * refused then only gets a WARNING of the server, and the setting its default:
 * a size of 0, no limit, not verified.  Nobody asked for that, so what was
 * asked for is remembered, and tried again when all is defined.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <float.h>
#include <limits.h>
#include <math.h>

#include "amount.h"
#include "lib/stringinfo.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "stats/stats_relation.h"
#include "stats/stats_statement.h"
#include "utils/guc.h"

char	   *fc_setting_file = NULL;
int			fc_setting_size = 0;
int			fc_setting_max_size = 0;
bool		fc_setting_advice = false;
double		fc_setting_advice_flash_read_time = 0.1;
bool		fc_setting_enabled = true;
bool		fc_setting_verify = false;
int			fc_setting_os_cache_probe = FC_PROBE_AUTO;
int			fc_setting_admission = FC_ADMIT_AUTO;
uint64		fc_setting_write_limit = 0;
int			fc_setting_io_timeout = 1000;
bool		fc_setting_pause_when_slow = true;
bool		fc_setting_keep_stats = true;
bool		fc_setting_require_mount = false;
bool		fc_setting_persistence = false;
int			fc_setting_extents = FC_EXTENTS_AUTO;
int			fc_setting_bypass = FC_BYPASS_MODE_AUTO;
int			fc_setting_max_shutdown_delay = 10000;
int			fc_setting_keep_limit = 80;
int			fc_setting_max_policy_files = 4000;
bool		fc_setting_follow = false;
bool		fc_setting_follow_buffers = true;
char	   *fc_setting_follow_conninfo = NULL;
int			fc_setting_follow_interval = 60;

/* As the server has them. */
static double write_limit_mb = 0;
static double io_timeout_ms = 1000;
static double max_shutdown_delay_ms = 10000;

#define MAX_SETTINGS 64
#define MAX_WRITE_LIMIT_MB (1024 * 1024)

static struct
{
	const char *name;
	const char *value;
}			asked_for[MAX_SETTINGS];
static int	nasked = 0;

/*
 * Options that are on or off as well take the spellings that the server's own
 * take (compute_query_id, for example), and don't show them.  Only a boolean
 * takes shorter ones, such as "t".
 */
static const struct config_enum_entry probe_options[] = {
	{"auto", FC_PROBE_AUTO, false},
	{"off", FC_PROBE_OFF, false},
	{"false", FC_PROBE_OFF, true},
	{"no", FC_PROBE_OFF, true},
	{"0", FC_PROBE_OFF, true},
	{NULL, 0, false},
};

static const struct config_enum_entry admission_options[] = {
	{"auto", FC_ADMIT_AUTO, false},
	{"all", FC_ADMIT_ALL, false},
	{"reuse", FC_ADMIT_REUSE, false},
	{"ghost_half", FC_ADMIT_GHOST_HALF, false},
	{"ghost", FC_ADMIT_GHOST, false},
	{"ghost_two", FC_ADMIT_GHOST_TWO, false},
	{"page", FC_ADMIT_PAGE, false},
	{"region", FC_ADMIT_REGION, false},
	{NULL, 0, false},
};

static const struct config_enum_entry extents_options[] = {
	{"auto", FC_EXTENTS_AUTO, false},
	{"on", FC_EXTENTS_ON, false},
	{"off", FC_EXTENTS_OFF, false},
	{"true", FC_EXTENTS_ON, true},
	{"false", FC_EXTENTS_OFF, true},
	{"yes", FC_EXTENTS_ON, true},
	{"no", FC_EXTENTS_OFF, true},
	{"1", FC_EXTENTS_ON, true},
	{"0", FC_EXTENTS_OFF, true},
	{NULL, 0, false},
};

static const struct config_enum_entry bypass_options[] = {
	{"auto", FC_BYPASS_MODE_AUTO, false},
	{"off", FC_BYPASS_MODE_OFF, false},
	{"false", FC_BYPASS_MODE_OFF, true},
	{"no", FC_BYPASS_MODE_OFF, true},
	{"0", FC_BYPASS_MODE_OFF, true},
	{NULL, 0, false},
};

static const struct config_enum_entry track_statements_options[] = {
	{"off", FC_TRACK_STATEMENTS_OFF, false},
	{"auto", FC_TRACK_STATEMENTS_AUTO, false},
	{"on", FC_TRACK_STATEMENTS_ON, false},
	{"true", FC_TRACK_STATEMENTS_ON, true},
	{"false", FC_TRACK_STATEMENTS_OFF, true},
	{"yes", FC_TRACK_STATEMENTS_ON, true},
	{"no", FC_TRACK_STATEMENTS_OFF, true},
	{"1", FC_TRACK_STATEMENTS_ON, true},
	{"0", FC_TRACK_STATEMENTS_OFF, true},
	{NULL, 0, false},
};

static bool
check_file(char **newval, void **extra, GucSource source)
{
	if ((*newval)[0] != '\0' && !is_absolute_path(*newval))
	{
		GUC_check_errdetail("The path must be absolute.");
		GUC_check_errhint("Name a file on local flash, such as /mnt/nvme/pg_flashcache/cache, or a raw block device.");
		return false;
	}
	if (strlen(*newval) >= MAXPGPATH)
	{
		GUC_check_errdetail("The path must be shorter than %d bytes.", MAXPGPATH);
		return false;
	}
	return true;
}

static bool
check_size(int *newval, void **extra, GucSource source)
{
	FcAmount	amount;

	if (*newval == 0 || *newval >= FC_MIN_SLOTS)
		return true;
	GUC_check_errmsg("invalid value for parameter \"pg_flashcache.size\": %s", fc_amount(&amount, (double) *newval * BLCKSZ, FC_AMOUNT_EXACT));
	GUC_check_errdetail("The smallest cache is %d kB; 0 disables the cache.", FC_MIN_KB);
	return false;
}

/* To kB below 100 MB, to MB below 100 GB, to GB. */
static double
shown_mb(double mb)
{
	double		unit = mb < 100 ? 1.0 / 1024 : mb < 100 * 1024 ? 1 : 1024;

	return rint(mb / unit) * unit;
}

static bool
check_write_limit(double *newval, void **extra, GucSource source)
{
	bool		too_high = *newval > MAX_WRITE_LIMIT_MB;
	FcAmount	amount;

	if (!too_high && (*newval == 0 || *newval * 1024 * 1024 >= BLCKSZ))
	{
		*newval = shown_mb(*newval);
		return true;
	}
	GUC_check_errmsg("invalid value for parameter \"pg_flashcache.write_limit\": %s", fc_amount(&amount, *newval * 1024 * 1024, FC_AMOUNT_EXACT));
	if (too_high)
		GUC_check_errdetail("The highest limit is %s a second; 0 is no limit.", fc_amount(&amount, MAX_WRITE_LIMIT_MB * 1024.0 * 1024, FC_AMOUNT_EXACT));
	else
		GUC_check_errdetail("The lowest limit is one page of %d kB a second; 0 is no limit.", BLCKSZ / 1024);
	return false;
}

static void
assign_write_limit(double newval, void *extra)
{
	fc_setting_write_limit = (uint64) (newval * 1024 * 1024);
}

/* Fractions do not end a wait too early. */
static bool
check_ms(double *newval, const char *name, const char *detail)
{
	if (*newval != 0 && *newval < 1)
	{
		GUC_check_errmsg("invalid value for parameter \"%s\": %g ms", name, *newval);
		GUC_check_errdetail("%s", detail);
		return false;
	}
	*newval = ceil(*newval);
	return true;
}

static bool
check_io_timeout(double *newval, void **extra, GucSource source)
{
	return check_ms(newval, "pg_flashcache.io_timeout", "The shortest time-out is 1 ms; 0 is no limit.");
}

static void
assign_io_timeout(double newval, void *extra)
{
	fc_setting_io_timeout = (int) newval;
}

static bool
check_max_shutdown_delay(double *newval, void **extra, GucSource source)
{
	return check_ms(newval, "pg_flashcache.max_shutdown_delay", "The shortest delay is 1 ms; 0 is none.");
}

static void
assign_max_shutdown_delay(double newval, void *extra)
{
	fc_setting_max_shutdown_delay = (int) newval;
}

static void
assign_keep_stats(bool newval, void *extra)
{
	fc_stats_keep(newval);
}

/* Remembers what the configuration says of a setting that is about to be defined; returns its name. */
static const char *
asked(const char *name)
{
	const char *value = GetConfigOption(name, true, false);

	Assert(nasked < MAX_SETTINGS);
	if (value != NULL && nasked < MAX_SETTINGS)
	{
		asked_for[nasked].name = name;
		asked_for[nasked++].value = pstrdup(value);
	}
	return name;
}

static bool
is_too_small(const char *name, const char *value)
{
	double		blocks;

	return strcmp(name, "pg_flashcache.size") == 0 && parse_real(value, &blocks, GUC_UNIT_BLOCKS, NULL) &&
		blocks != 0 && blocks < FC_MIN_SLOTS;
}

/* A size below half a block is 0 to the server, before anybody can look at it. */
static bool
is_rounded_away(const char *name, const char *value)
{
	return fc_setting_size == 0 && is_too_small(name, value);
}

uint32
fc_settings_slots(void)
{
	return (uint32) Max(fc_setting_size, fc_setting_max_size);
}

int
fc_settings_refused(char *reason, size_t len, bool *too_small)
{
	StringInfoData list;
	int			nrefused = 0;
	const char *first = NULL;

	*too_small = false;
	initStringInfo(&list);
	for (int i = 0; i < nasked; i++)
	{
		const char *name = asked_for[i].name;
		const char *value = asked_for[i].value;

		if (set_config_option(name, value, PGC_POSTMASTER, PGC_S_FILE, GUC_ACTION_SET, false, DEBUG5, false) != 0 &&
			!is_rounded_away(name, value))
			continue;
		*too_small |= is_too_small(name, value);
		if (nrefused++ == 0)
			first = psprintf("the value of %s is refused: \"%s\"", name, value);
		appendStringInfo(&list, "%s%s \"%s\"", nrefused > 1 ? ", " : "", name, value);
	}
	if (nrefused == 1)
		strlcpy(reason, first, len);
	else if (nrefused > 1)
		snprintf(reason, len, "the values of %d settings are refused: %s", nrefused, list.data);
	return nrefused;
}

void
fc_settings_define(void)
{
	DefineCustomStringVariable(asked("pg_flashcache.file"),
							   "File or block device on local flash that holds the cache.",
							   "Created with mode 0600 if it does not exist. Must lie outside the data directory.",
							   &fc_setting_file, "",
							   PGC_POSTMASTER, GUC_SUPERUSER_ONLY, check_file, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.size"),
							"Size of the flash cache; 0 disables it.",
							"Typically 2 to 10 times shared_buffers.",
							&fc_setting_size, 0, 0, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_BLOCKS, check_size, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.max_size"),
							"Largest size of the flash cache on all of its devices.",
							"Shared memory is reserved for it; devices are added by pg_flashcache_add_device(). 0: no more than pg_flashcache.size.",
							&fc_setting_max_size, 0, 0, INT_MAX,
							PGC_POSTMASTER, GUC_UNIT_BLOCKS, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.enabled"),
							 "Uses the flash cache.",
							 "Switching it off forgets all cached pages; switching it on starts cold.",
							 &fc_setting_enabled, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.verify"),
							 "Compares every page read from flash with the disk.",
							 "For tests and for doubts: every hit then costs a disk read as well.",
							 &fc_setting_verify, false,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(asked("pg_flashcache.os_cache_probe"),
							 "Reads a page from the kernel's page cache rather than from flash if it is there.",
							 "auto asks the kernel with cachestat(2) and stops asking where that hardly ever succeeds.",
							 &fc_setting_os_cache_probe, FC_PROBE_AUTO, probe_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(asked("pg_flashcache.admission"),
							 "Which pages evicted from shared buffers are written to flash.",
							 "auto: what would get the most hits, by caches in miniature; all: every page; reuse: pages evicted before; ghost_half, ghost, ghost_two, page, region: one of those among which auto chooses.",
							 &fc_setting_admission, FC_ADMIT_AUTO, admission_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomRealVariable(asked("pg_flashcache.write_limit"),
							 "Most that is written to flash in a second; 0 is no limit.",
							 "Protects the endurance of the drive: 22 MB a second are one drive write a day of 1.92 TB.",
							 &write_limit_mb, 0, 0, DBL_MAX,
							 PGC_SIGHUP, GUC_UNIT_MB, check_write_limit, assign_write_limit, NULL);
	DefineCustomRealVariable(asked("pg_flashcache.io_timeout"),
							 "Longest wait for the flash device; 0 is no limit.",
							 "A device that does not answer in time is switched off, and the page read from disk. Needs io_uring.",
							 &io_timeout_ms, 1000, 0, 600000,
							 PGC_SIGHUP, GUC_UNIT_MS, check_io_timeout, assign_io_timeout, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.pause_when_slow"),
							 "Leaves the flash device alone while it is slower than the disk.",
							 "Pages stay where they are. Switch it off where reads from the disk are to be saved whatever they take.",
							 &fc_setting_pause_when_slow, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.keep_stats"),
							 "Keeps the counters of the flash cache over a clean restart (PostgreSQL 18 and later).",
							 "Switch it off and reload before the library is removed from shared_preload_libraries.",
							 &fc_setting_keep_stats, true,
							 PGC_SIGHUP, 0, NULL, assign_keep_stats, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.require_mount"),
							 "Refuses a file on the file system of the data directory, the write-ahead log, or the root directory.",
							 "For a file on a flash device that may not be mounted. Counts whenever the file is opened.",
							 &fc_setting_require_mount, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.persistence"),
							 "Keeps cached pages over a restart and a crash.",
							 "Takes 0.5% more space on flash, and about 1% more writes.",
							 &fc_setting_persistence, false,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomRealVariable(asked("pg_flashcache.max_shutdown_delay"),
							 "Longest time that a stop of the server takes to copy shared buffers to flash; 0 copies nothing.",
							 "What was in shared buffers is loaded again from flash after the start. Has no effect unless persistence is on.",
							 &max_shutdown_delay_ms, 10000, 0, 3600000,
							 PGC_SIGHUP, GUC_UNIT_MS, check_max_shutdown_delay, assign_max_shutdown_delay, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.advice"),
							 "Estimates what caches of other sizes, and more shared buffers, would do.",
							 "See pg_flashcache_advice. Works without a cache, too: with pg_flashcache.size = 0.",
							 &fc_setting_advice, false,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomRealVariable(asked("pg_flashcache.advice_flash_read_time"),
							 "Time of a read from flash that advice is given for while no read from flash has been measured.",
							 NULL,
							 &fc_setting_advice_flash_read_time, 0.1, 0.001, 1000,
							 PGC_SIGHUP, GUC_UNIT_MS, NULL, NULL, NULL);
	DefineCustomEnumVariable(asked("pg_flashcache.extents"),
							 "Takes the neighbours of a page that is read from disk to flash as well, while there are free slots.",
							 "The aligned 64 kB around it are read by one operation of the disk. auto: while that saves more of the disk's time than it takes.",
							 &fc_setting_extents, FC_EXTENTS_AUTO, extents_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(asked("pg_flashcache.bypass"),
							 "Reads a tablespace without the cache where its own disk is about as fast as flash.",
							 "auto compares both by reads that are made at the same time, and tries again later.",
							 &fc_setting_bypass, FC_BYPASS_MODE_AUTO, bypass_options,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.keep_limit"),
							"Share of the slots, in percent, up to which pages with the policy keep are not evicted.",
							"Beyond that they are treated as all others.",
							&fc_setting_keep_limit, 80, 0, 100,
							PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.max_policy_files"),
							"Number of files that can have a policy; 0 switches policies off.",
							"Each takes 28 bytes of shared memory. A relation has one file, however large it is.",
							&fc_setting_max_policy_files, 4000, 0, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.track_relations"),
							 "Counts reads, inserts and evictions by relation.",
							 "See pg_stat_flashcache_relation.",
							 &fc_setting_track_relations, true,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomEnumVariable(asked("pg_flashcache.track_statements"),
							 "Counts reads by statement.",
							 "See pg_stat_flashcache_statements. \"auto\" counts statements that have query identifiers; \"on\" at the start of the server also asks for these.",
							 &fc_setting_track_statements, FC_TRACK_STATEMENTS_AUTO, track_statements_options,
							 PGC_SUSET, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.max_tracked_relations"),
							"Most relations that have counters of their own.",
							"Further ones share those of the rest of their database.",
							&fc_setting_max_tracked_relations, 10000, 16, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.max_tracked_statements"),
							"Most statements that have counters of their own.",
							"When there are more, little used ones are given up.",
							&fc_setting_max_tracked_statements, 5000, 16, 1000000,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.follow"),
							 "On a standby, loads to flash what its primary has on flash.",
							 "The primary is asked again and again; the pages are read from the standby's own data files.",
							 &fc_setting_follow, false,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomBoolVariable(asked("pg_flashcache.follow_buffers"),
							 "On a standby, loads to flash what its primary has in shared_buffers, too.",
							 "After a failover these pages are asked for first.",
							 &fc_setting_follow_buffers, true,
							 PGC_SIGHUP, 0, NULL, NULL, NULL);
	DefineCustomStringVariable(asked("pg_flashcache.follow_conninfo"),
							   "Connection string of the server that is followed.",
							   "What it does not name is taken from primary_conninfo, unless it names a server.",
							   &fc_setting_follow_conninfo, "",
							   PGC_SIGHUP, GUC_SUPERUSER_ONLY, NULL, NULL, NULL);
	DefineCustomIntVariable(asked("pg_flashcache.follow_interval"),
							"Time between two maps of the server that is followed.",
							"It is longer where a map takes long.",
							&fc_setting_follow_interval, 60, 1, 86400,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	MarkGUCPrefixReserved("pg_flashcache");
}
