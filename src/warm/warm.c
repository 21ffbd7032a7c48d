/*-------------------------------------------------------------------------
 *
 * warm.c
 *	  Shared memory, and the postmaster's part: K1 at its start and after a
 *	  crash, K10 at its end.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <unistd.h>

#include "access/xlog.h"
#include "directory/directory.h"
#include "miscadmin.h"
#include "settings.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "utils/timestamp.h"
#include "warm/warm_internal.h"

FcPart
fc_warm_part(void)
{
	return fc_part("pg_flashcache persistence", sizeof(FcWarmShared));
}

/*
 * K10.  All other processes have gone, or this does nothing: an immediate stop
 * ends with 0 as well, but pg_control says so.  No lock, no entry, no memory is
 * asked for, and nothing raised.
 */
static void
on_postmaster_exit(int code, Datum arg)
{
	static FcInvalidated list[FC_MOST_INVALIDATED];
	ControlFileData control;
	FcWarmStop	stop;
	const void *map;
	Size		map_bytes;
	int			n;

	if (code != 0 || IsUnderPostmaster || MyProcPid != (int) getpid() ||
		fc_warm == NULL || !fc_warm->left || !fc_warm->writing)
		return;
	if (!fc_warm_read_control(&control) ||
		(control.state != DB_SHUTDOWNED && control.state != DB_SHUTDOWNED_IN_RECOVERY))
		return;

	/*
	 * K9: the writer did not come to write it down, and this checkpoint may
	 * be without fsync
	 */
	if (fc_warm->fsync_was_off && !fc_warm->root.fsync_was_off)
		return;
	n = fc_directory_invalidated(fc_warm->left_epoch, list, lengthof(list));
	if (n < 0)
		return;
	map = fc_directory_map(&map_bytes);
	memset(&stop, 0, sizeof(stop));
	memcpy(stop.magic, FC_WARM_MAGIC, sizeof(FC_WARM_MAGIC));
	stop.format = FC_WARM_FORMAT;
	stop.slots = fc_directory_slots();
	stop.log = fc_warm->root.log;
	stop.run = fc_warm->root.run;
	stop.root = fc_warm->root.number;
	stop.stamp.checkpoint = control.checkPoint;
	memcpy(&stop.stamp.copy, &control.checkPointCopy, sizeof(stop.stamp.copy));
	stop.stamp.group = fc_warm->group;
	stop.stamp.timeline = control.state == DB_SHUTDOWNED ? control.checkPointCopy.ThisTimeLineID : control.minRecoveryPointTLI;
	stop.stamp.hand = fc_directory_hand();
	stop.stamp.at = GetCurrentTimestamp();
	stop.ninvalidated = n;
	stop.crc = fc_warm_stop_crc(&stop, map, map_bytes, list);
	(void) fc_warm_write_stop(&stop, map, map_bytes, list);
}

void
fc_warm_shmem_init(bool keep)
{
	FcPart		part = fc_warm_part();
	bool		found;

	fc_warm = ShmemInitStruct(part.name, part.size, &found);
	memset(fc_warm, 0, sizeof(*fc_warm));
	SpinLockInit(&fc_warm->lock);
	fc_warm->keep = keep;
	if (!keep)
	{
		fc_warm = NULL;
		return;
	}
	fc_warm->pending = true;
	fc_warm->control_read = fc_warm_read_control(&fc_warm->control);	/* K1 */
	fc_warm_watch_fsync();
	fc_warm->backup_label = access(BACKUP_LABEL_FILE, F_OK) == 0 || errno != ENOENT;
	/* shmem_exit() forgets it, and after a crash this is called again */
	on_shmem_exit(on_postmaster_exit, (Datum) 0);
}

bool
fc_warm_info(FcWarmInfo *info)
{
	if (fc_warm == NULL)
		return false;
	SpinLockAcquire(&fc_warm->lock);
	*info = fc_warm->info;
	SpinLockRelease(&fc_warm->lock);
	return true;
}
