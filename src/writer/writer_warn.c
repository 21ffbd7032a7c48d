/*-------------------------------------------------------------------------
 *
 * writer_warn.c
 *	  What the writer warns of besides the state of the cache.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache_devices.h"
#include "compat.h"
#include "policy.h"
#include "settings.h"
#include "stats/stats.h"
#include "storage/proc.h"
#include "store/store.h"
#include "writer/writer.h"
#include "writer/writer_internal.h"

void
fc_writer_warn_wrong_content(void)
{
	uint64		now = fc_now_ns();
	uint64		n = fc_stats_total(FC_CHECKSUM_FAILURES) - fc_writer_shared->wrong_warned;

	if (n == 0 || (fc_writer_shared->wrong_warned_at != 0 && now - fc_writer_shared->wrong_warned_at < FC_WARNING_NS))
		return;
	fc_writer_shared->wrong_warned += n;
	fc_writer_shared->wrong_warned_at = now;
	ereport(WARNING,
			(errmsg_plural("pg_flashcache has read %llu page with wrong content from flash",
						   "pg_flashcache has read %llu pages with wrong content from flash",
						   (unsigned long) n, (unsigned long long) n),
			 fc_devices_there() ? errdetail("Queries got the right content from the disk. The slots are no longer used.") :
			 errdetail("Queries got the right content from the disk. The slots in \"%s\" are no longer used.", fc_setting_file),
			 errhint("Find out whether somebody else has shortened the file or written to it. If nobody has and it happens again, replace the device.")));
}

void
fc_writer_warn_shares(void)
{
	const char *with = fc_store_shares(FC_THE_DEVICE);

	if (with[0] != '\0' && strcmp(with, fc_writer_shared->shares) != 0)
		ereport(WARNING,
				(errmsg("pg_flashcache uses a file on the same file system as %s", with),
				 errdetail("\"%s\" takes space and bandwidth from it. A flash device that should be mounted there may not be.",
						   fc_setting_file),
				 errhint("Mount the flash device. With pg_flashcache.require_mount such a file is refused.")));
	strlcpy(fc_writer_shared->shares, with, sizeof(fc_writer_shared->shares));
}

void
fc_writer_warn_unbounded(void)
{
	static uint64 warned_at = 0;
	uint64		now = fc_now_ns();
	int			why = 0;

	if (warned_at != 0 && now - warned_at < FC_WARNING_NS)
		return;
	for (FcDeviceNo no = 0; no < FC_DEVICES && why == 0; no++)
		why = fc_store_unbounded(no);
	if (why == 0)
		return;
	warned_at = now;
	errno = why;
	ereport(WARNING,
			(errmsg("pg_flashcache: a session reads from the disk alone, since it could not bound its waits for flash: %m"),
			 errdetail("Each session needs a ring of io_uring while pg_flashcache.io_timeout is set. It tries again by itself; reads_unbounded in pg_stat_flashcache counts pages."),
			 why == EMFILE || why == ENFILE ? errhint("Raise the limit of open files (ulimit -n, LimitNOFILE).") :
			 why == ENOMEM ? errhint("Raise the limit of locked memory (ulimit -l, LimitMEMLOCK).") :
			 errhint("Allow io_uring, or set pg_flashcache.io_timeout to 0.")));
}
