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

#include "failpoint.h"
#include "miscadmin.h"
#include "storage/shmem.h"

#define PAUSE_STEP_US 1000
#define PAUSE_MAX_STEPS 60000

FcFailpoints *fc_failpoints = NULL;

static const char *const names[FC_FP_COUNT] = {
	[FC_FP_FILL_BEGIN] = "fill_begin",
	[FC_FP_FILL_COPIED] = "fill_copied",
	[FC_FP_FILL_RESERVED] = "fill_reserved",
	[FC_FP_FILL_WRITTEN] = "fill_written",
	[FC_FP_INVALIDATE_BUMPED] = "invalidate_bumped",
	[FC_FP_READ_LOOKED_UP] = "read_looked_up",
	[FC_FP_READ_DONE] = "read_done",
	[FC_FP_WRITE_BEFORE_MD] = "write_before_md",
	[FC_FP_WRITE_AFTER_MD] = "write_after_md",
	[FC_FP_STORE_READING] = "store_reading",
	[FC_FP_STORE_WRITING] = "store_writing",
	[FC_FP_STORE_OPEN] = "store_open",
	[FC_FP_STORE_READ] = "store_read",
	[FC_FP_STORE_WRITE] = "store_write",
	[FC_FP_STORE_FLIP] = "store_flip",
};

Size
fc_failpoint_shmem_size(void)
{
	return sizeof(FcFailpoints);
}

void
fc_failpoint_shmem_init(void)
{
	bool		found;

	fc_failpoints = ShmemInitStruct("pg_flashcache failpoints", sizeof(FcFailpoints), &found);
	pg_atomic_init_u32(&fc_failpoints->armed, 0);
	for (int i = 0; i < FC_FP_COUNT; i++)
	{
		pg_atomic_init_u32(&fc_failpoints->action[i], FC_FP_OFF);
		pg_atomic_init_u32(&fc_failpoints->paused[i], 0);
	}
}

int
fc_failpoint_by_name(const char *name)
{
	for (int i = 0; i < FC_FP_COUNT; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

void
fc_failpoint_arm(FcFailpointId id, FcFailpointAction action)
{
	uint32		old = pg_atomic_exchange_u32(&fc_failpoints->action[id], action);

	if (old == FC_FP_OFF && action != FC_FP_OFF)
		pg_atomic_fetch_add_u32(&fc_failpoints->armed, 1);
	else if (old != FC_FP_OFF && action == FC_FP_OFF)
		pg_atomic_fetch_sub_u32(&fc_failpoints->armed, 1);
}

uint32
fc_failpoint_paused(FcFailpointId id)
{
	return pg_atomic_read_u32(&fc_failpoints->paused[id]);
}

bool
fc_failpoint_slow(FcFailpointId id)
{
	pg_atomic_uint32 *action = &fc_failpoints->action[id];

	if (pg_atomic_read_u32(action) == FC_FP_PAUSE)
	{
		pg_atomic_fetch_add_u32(&fc_failpoints->paused[id], 1);
		for (int i = 0; i < PAUSE_MAX_STEPS && pg_atomic_read_u32(action) == FC_FP_PAUSE; i++)
			pg_usleep(PAUSE_STEP_US);
		pg_atomic_fetch_sub_u32(&fc_failpoints->paused[id], 1);
	}
	return pg_atomic_read_u32(action) == FC_FP_ERROR;
}
