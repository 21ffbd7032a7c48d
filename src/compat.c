/*-------------------------------------------------------------------------
 *
 * compat.c
 *	  See compat.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "compat.h"
#include "miscadmin.h"
#include "postmaster/bgworker_internals.h"
#include "replication/logicallauncher.h"
#include "replication/walsender.h"
#include "storage/lwlock.h"
#include "utils/wait_event.h"

uint32		fc_wait_events[FC_WAIT_COUNT] = {
	[FC_SINGLE_BLOCK_READ] = PG_WAIT_EXTENSION,
	[FC_MULTI_BLOCK_READ] = PG_WAIT_EXTENSION,
	[FC_WRITE] = PG_WAIT_EXTENSION,
	[FC_WRITER_MAIN] = PG_WAIT_EXTENSION,
	[FC_ENABLE] = PG_WAIT_EXTENSION,
	[FC_SCRUB] = PG_WAIT_EXTENSION,
};

void
fc_wait_events_init(void)
{
#if PG_VERSION_NUM >= 170000
	static const char *const names[FC_WAIT_COUNT] = {
		[FC_SINGLE_BLOCK_READ] = "FlashcacheSingleBlockRead",
		[FC_MULTI_BLOCK_READ] = "FlashcacheMultiBlockRead",
		[FC_WRITE] = "FlashcacheWrite",
		[FC_WRITER_MAIN] = "FlashcacheWriterMain",
		[FC_ENABLE] = "FlashcacheEnable",
		[FC_SCRUB] = "FlashcacheScrub",
	};
	MemoryContext context = CurrentMemoryContext;

	/* other extensions may have taken all the numbers; the server starts anyway */
	PG_TRY();
	{
		for (int i = 0; i < FC_WAIT_COUNT; i++)
			fc_wait_events[i] = WaitEventExtensionNew(names[i]);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
		LWLockReleaseAll();
		ereport(WARNING,
				(errmsg("pg_flashcache could not name all of its wait events"),
				 errdetail("Too many are in use; the others are shown as \"Extension\".")));
	}
	PG_END_TRY();
#endif
}

bool
fc_hardly_reads(void)
{
	if (am_walsender)
		return !am_db_walsender;	/* decoding reads catalogs */
#if PG_VERSION_NUM >= 170000
	if (MyBackendType == B_SLOTSYNC_WORKER)
		return true;
#endif
	return MyBackendType == B_AUTOVAC_LAUNCHER ||
		(MyBackendType == B_BG_WORKER && IsLogicalLauncher());
}

int
fc_workers_registered(void)
{
	int			n = 0;
#if PG_VERSION_NUM < 180000
	slist_iter	iter;

	slist_foreach(iter, &BackgroundWorkerList)
		n++;
#else
	dlist_iter	iter;

	dlist_foreach(iter, &BackgroundWorkerList)
		n++;
#endif
	return n;
}
