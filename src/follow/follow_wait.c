/*-------------------------------------------------------------------------
 *
 * follow/follow_wait.c
 *	  Waiting, for the follower's process: what it looks at meanwhile.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "follow/follow_internal.h"
#include "miscadmin.h"
#include "postmaster/interrupt.h"
#include "storage/latch.h"
#include "utils/guc.h"

/* So often it looks whether this is still a standby. */
#define LOOK_MS 1000

FcFollowWhy
fc_follow_look(void)
{
	CHECK_FOR_INTERRUPTS();
	if (ConfigReloadPending)
	{
		ConfigReloadPending = false;
		ProcessConfigFile(PGC_SIGHUP);
	}
	return ShutdownRequestPending || fc_follow_wanted() != FC_WHY_NONE ? FC_WHY_STOP : FC_WHY_NONE;
}

void
fc_follow_wait(int fd, uint64 ns)
{
	long		ms = (long) Min(ns / 1000000 + 1, LOOK_MS);
	int			what = WL_LATCH_SET | WL_TIMEOUT | WL_EXIT_ON_PM_DEATH;

	if (fd >= 0)
		(void) WaitLatchOrSocket(MyLatch, what | WL_SOCKET_READABLE, fd, ms, FC_WAIT_FOLLOWER_MAIN);
	else
		(void) WaitLatch(MyLatch, what, ms, FC_WAIT_FOLLOWER_MAIN);
	ResetLatch(MyLatch);
}
