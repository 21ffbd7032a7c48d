/*-------------------------------------------------------------------------
 *
 * warm_state.c
 *	  What all files of this module use.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/xlog.h"
#include "access/xlogrecovery.h"
#include "settings.h"
#include "warm/warm_internal.h"

FcWarmShared *fc_warm = NULL;
char	  **fc_warm_blocks = NULL;
bool		fc_warm_leaving = false;

bool
fc_warm_pending(void)
{
	return fc_warm != NULL && fc_warm->pending;
}

int
fc_warm_timeout(void)
{
	if (!fc_warm_leaving)
		return fc_setting_io_timeout;
	return fc_setting_io_timeout > 0 ? Min(fc_setting_io_timeout, FC_WARM_LEAVE_MS) : FC_WARM_LEAVE_MS;
}

uint32
fc_warm_timeline(void)
{
	TimeLineID	timeline;

	if (!RecoveryInProgress())
		return GetWALInsertionTimeLine();
	(void) GetXLogReplayRecPtr(&timeline);
	return timeline;
}
