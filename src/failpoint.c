/*-------------------------------------------------------------------------
 *
 * failpoint.c
 *	  See failpoint.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <ctype.h>

#include "failpoint.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#ifdef FC_FAILPOINTS

#define PAUSE_STEP_US 1000
#define PAUSE_MAX_STEPS 60000

FcFailpoints *fc_failpoints = NULL;

static const char *const names[FC_FP_COUNT] = {
	[FC_FP_FILL_BEGIN] = "fill_begin",
	[FC_FP_FILL_COPIED] = "fill_copied",
	[FC_FP_FILL_STAGED] = "fill_staged",
	[FC_FP_FILL_RESERVED] = "fill_reserved",
	[FC_FP_FILL_WRITTEN] = "fill_written",
	[FC_FP_LOAD_CHOSEN] = "load_chosen",
	[FC_FP_LOAD_GUARDED] = "load_guarded",
	[FC_FP_LOAD_READ] = "load_read",
	[FC_FP_LOAD_GIVING] = "load_giving",
	[FC_FP_LOAD_TAKEN] = "load_taken",
	[FC_FP_INVALIDATE_BUMPED] = "invalidate_bumped",
	[FC_FP_READ_LOOKED_UP] = "read_looked_up",
	[FC_FP_READ_DONE] = "read_done",
	[FC_FP_SCRUB_TAKEN] = "scrub_taken",
	[FC_FP_SCRUB_WRITTEN] = "scrub_written",
	[FC_FP_WRITE_BEFORE_MD] = "write_before_md",
	[FC_FP_WRITE_AFTER_MD] = "write_after_md",
	[FC_FP_FILE_BEFORE_MD] = "file_before_md",
	[FC_FP_FILE_AFTER_MD] = "file_after_md",
	[FC_FP_DATABASE_BEFORE] = "database_before",
	[FC_FP_DATABASE_AFTER] = "database_after",
	[FC_FP_EVICT_WRITTEN] = "evict_written",
	[FC_FP_AHEAD_STARTED] = "ahead_started",
	[FC_FP_ASYNC_READ] = "async_read",
	[FC_FP_SWITCH_PURGED] = "switch_purged",
	[FC_FP_SWITCH_OPENED] = "switch_opened",
	[FC_FP_STORE_READING] = "store_reading",
	[FC_FP_STORE_WRITING] = "store_writing",
	[FC_FP_STORE_LOOKED] = "store_looked",
	[FC_FP_STORE_CLAIM] = "store_claim",
	[FC_FP_STORE_OPEN] = "store_open",
	[FC_FP_STORE_LATE] = "store_late",
	[FC_FP_STORE_CLOSE] = "store_close",
	[FC_FP_STORE_READ] = "store_read",
	[FC_FP_STORE_WRITE] = "store_write",
	[FC_FP_STORE_SYNC] = "store_sync",
	[FC_FP_STORE_RING] = "store_ring",
	[FC_FP_STORE_SUBMIT] = "store_submit",
	[FC_FP_PROBE_DUE] = "probe_due",
	[FC_FP_SUSPECT_DUE] = "suspect_due",
	[FC_FP_TROUBLE_TOLD] = "trouble_told",
	[FC_FP_DISK_READ] = "disk_read",
	[FC_FP_LOG_WRITE] = "log_write",
	[FC_FP_LOG_READ] = "log_read",
	[FC_FP_WARM_GROUP] = "warm_group",
	[FC_FP_WARM_BLOCKS] = "warm_blocks",
	[FC_FP_WARM_STAMP] = "warm_stamp",
	[FC_FP_WARM_MAP] = "warm_map",
	[FC_FP_WARM_LOAD] = "warm_load",
	[FC_FP_BUFFERS_LOAD] = "buffers_load",
	[FC_FP_BYPASS_DUE] = "bypass_due",
	[FC_FP_POLICY_LOOK] = "policy_look",
	[FC_FP_BUFFER_LOOK] = "buffer_look",
	[FC_FP_PURGE_STEP] = "purge_step",
};

static const char *const action_names[] = {
	[FC_FP_OFF] = "off",
	[FC_FP_PAUSE] = "pause",
	[FC_FP_ERROR] = "error",
	[FC_FP_NOSPACE] = "nospace",
	[FC_FP_SHORT] = "short",
	[FC_FP_FLIP] = "flip",
	[FC_FP_TORN] = "torn",
	[FC_FP_MISPLACED] = "misplaced",
};

FcPart
fc_failpoint_part(void)
{
	return fc_part("pg_flashcache failpoints", sizeof(FcFailpoints));
}

/* By FC_ARM, as "point action only"; what that does not name rightly is not armed, which the test sees. */
static void
arm_from_start(const char *what)
{
	char		name[64];
	char		action[64];
	int			end = 0;
	FcFault		fault;
	int			id;

	if (what == NULL || sscanf(what, "%63s %63s%n", name, action, &end) < 2 ||
		(id = fc_failpoint_by_name(name)) < 0 || !fc_failpoint_action(action, &fault))
		return;
	fc_failpoint_arm((FcFailpointId) id, fault, (uint32) strtoul(what + end, NULL, 10));
}

void
fc_failpoint_shmem_init(void)
{
	FcPart		part = fc_failpoint_part();
	bool		found;

	fc_failpoints = ShmemInitStruct(part.name, part.size, &found);
	pg_atomic_init_u32(&fc_failpoints->armed, 0);
	for (int i = 0; i < FC_FP_COUNT; i++)
	{
		pg_atomic_init_u32(&fc_failpoints->action[i], FC_FP_OFF);
		pg_atomic_init_u32(&fc_failpoints->only[i], 0);
		pg_atomic_init_u32(&fc_failpoints->paused[i], 0);
	}
	arm_from_start(getenv("FC_ARM"));
}

int
fc_failpoint_by_name(const char *name)
{
	for (int i = 0; i < FC_FP_COUNT; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

bool
fc_failpoint_action(const char *name, FcFault *fault)
{
	static const char delay[] = "delay:";
	char	   *end;
	unsigned long us;

	fault->us = 0;
	for (int i = 0; i < lengthof(action_names); i++)
		if (strcmp(action_names[i], name) == 0)
		{
			fault->action = (FcFailpointAction) i;
			return true;
		}
	if (strncmp(name, delay, strlen(delay)) != 0 || !isdigit((unsigned char) name[strlen(delay)]))
		return false;
	errno = 0;
	us = strtoul(name + strlen(delay), &end, 10);
	if (errno != 0 || *end != '\0' || us > FC_FP_MAX_DELAY_US)
		return false;
	fault->action = FC_FP_DELAY;
	fault->us = (uint32) us;
	return true;
}

void
fc_failpoint_arm(FcFailpointId id, FcFault fault, uint32 only)
{
	uint32		old;

	pg_atomic_write_u32(&fc_failpoints->only[id], only);
	pg_write_barrier();
	old = pg_atomic_exchange_u32(&fc_failpoints->action[id], (uint32) fault.action | fault.us << 8);

	if (old == FC_FP_OFF && fault.action != FC_FP_OFF)
		pg_atomic_fetch_add_u32(&fc_failpoints->armed, 1);
	else if (old != FC_FP_OFF && fault.action == FC_FP_OFF)
		pg_atomic_fetch_sub_u32(&fc_failpoints->armed, 1);
}

uint32
fc_failpoint_paused(FcFailpointId id)
{
	return pg_atomic_read_u32(&fc_failpoints->paused[id]);
}

FcFault
fc_failpoint_fault_slow(FcFailpointId id)
{
	uint32		armed = pg_atomic_read_u32(&fc_failpoints->action[id]);
	FcFault		fault = {(FcFailpointAction) (armed & 0xFF), armed >> 8};

	return fault;
}

bool
fc_failpoint_slow(FcFailpointId id)
{
	pg_atomic_uint32 *action = &fc_failpoints->action[id];
	FcFault		fault = fc_failpoint_fault_slow(id);

	if (fault.action == FC_FP_PAUSE)
	{
		pg_atomic_fetch_add_u32(&fc_failpoints->paused[id], 1);
		for (int i = 0; i < PAUSE_MAX_STEPS && pg_atomic_read_u32(action) == FC_FP_PAUSE; i++)
			pg_usleep(PAUSE_STEP_US);
		pg_atomic_fetch_sub_u32(&fc_failpoints->paused[id], 1);
	}
	else if (fault.action == FC_FP_DELAY)
		pg_usleep(fault.us);
	return pg_atomic_read_u32(action) == FC_FP_ERROR;
}

bool
fc_breaks(const char *rule)
{
	const char *broken = getenv("FC_BREAK");
	Size		length = strlen(rule);

	while (unlikely(broken != NULL))
	{
		if (strncmp(broken, rule, length) == 0 && (broken[length] == '\0' || broken[length] == ','))
			return true;
		broken = strchr(broken, ',');
		broken = broken != NULL ? broken + 1 : NULL;
	}
	return false;
}

uint64
fc_failpoint_page_cache_ns(uint64 usual)
{
	const char *us = getenv("FC_PAGE_CACHE_US");

	return us != NULL ? strtoul(us, NULL, 10) * 1000 : usual;
}

uint32
fc_failpoint_number(const char *name, uint32 usual)
{
	const char *number = getenv(name);

	return number != NULL ? (uint32) strtoul(number, NULL, 10) : usual;
}

#endif							/* FC_FAILPOINTS */
