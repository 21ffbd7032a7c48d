/*-------------------------------------------------------------------------
 *
 * writer_log.c
 *	  The log of what is on flash, once a round.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "settings.h"
#include "warm/warm.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

/* K12: all restored pages go, some in each round; true if there are more. */
static bool
drop_restored(void)
{
	static FcSlotNo at = FC_NO_SLOT;	/* FC_NO_SLOT: none is to go */

	if (fc_warm_restored_is_wrong() && at == FC_NO_SLOT)
		at = 0;
	if (at == FC_NO_SLOT)
		return false;
	if (fc_directory_drop_restored(&at, fc_failpoint_number("FC_PURGE_STEP", FC_DIRECTORY_STEP)))
		return true;
	at = FC_NO_SLOT;
	ereport(WARNING,
			(errmsg("pg_flashcache has dropped the pages that it had restored: too many of them had wrong content"),
			 errdetail("Queries got the right content from the disk. After a crash a few hundred may be wrong, not this many; restored_wrong in pg_stat_flashcache_persistence counts them."),
			 errhint("Find out whether somebody else has written to \"%s\", or the device has lost writes.", fc_setting_file)));
	return false;
}

/* Not of a cache that is off. */
bool
fc_writer_run_log(void)
{
	bool		keeps = fc_writer_keeps_pages();

	if (!keeps && !fc_warm_pending())
		fc_warm_end();
	fc_warm_round_unwritten();
	if (!keeps)
		return false;
	/* the log is on the first device */
	if (fc_devices_first_is_off())
		fc_warm_end();
	else if (fc_warm_round() == FC_IO_BROKEN)
		fc_cache_device_broken();
	return drop_restored();
}
