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
#include "storage/ipc.h"
#include "storage/lwlock.h"
#include "utils/guc_tables.h"
#if PG_VERSION_NUM < 160000
#include "utils/relfilenodemap.h"
#else
#include "utils/relfilenumbermap.h"
#endif
#include "utils/wait_event.h"

uint32		fc_wait_events[FC_WAIT_COUNT] = {
	[FC_SINGLE_BLOCK_READ] = PG_WAIT_EXTENSION,
	[FC_MULTI_BLOCK_READ] = PG_WAIT_EXTENSION,
	[FC_WRITE] = PG_WAIT_EXTENSION,
	[FC_WRITER_MAIN] = PG_WAIT_EXTENSION,
	[FC_ENABLE] = PG_WAIT_EXTENSION,
	[FC_SCRUB] = PG_WAIT_EXTENSION,
	[FC_PREWARM] = PG_WAIT_EXTENSION,
	[FC_FOLLOWER_MAIN] = PG_WAIT_EXTENSION,
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
		[FC_PREWARM] = "FlashcachePrewarm",
		[FC_FOLLOWER_MAIN] = "FlashcacheFollowerMain",
	};
	MemoryContext context = CurrentMemoryContext;

	/*
	 * other extensions may have taken all the numbers; the server starts
	 * anyway
	 */
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

int
fc_lock_tranche(void)
{
	static const char name[] = "pg_flashcache";
#if PG_VERSION_NUM < 190000
	int			tranche = LWLockNewTrancheId();

	LWLockRegisterTranche(tranche, name);
	return tranche;
#else
	MemoryContext context = CurrentMemoryContext;
	volatile int tranche = LWTRANCHE_BUFFER_MAPPING;

	/*
	 * other extensions may have taken all the numbers: then waits have a name
	 * that comes near
	 */
	PG_TRY();
	{
		tranche = LWLockNewTrancheId(name);
	}
	PG_CATCH();
	{
		MemoryContextSwitchTo(context);
		FlushErrorState();
	}
	PG_END_TRY();
	return tranche;
#endif
}

Size
fc_shmem_asked_for(void)
{
#if PG_VERSION_NUM < 190000
	return CalculateShmemSize(NULL);
#else
	return CalculateShmemSize();
#endif
}

/*
 * The postmaster then sets log_min_messages, and nothing else does so with
 * such priority.
 */
bool
fc_prints_setting(void)
{
	struct config_generic **settings;
	int			n;

#if PG_VERSION_NUM < 160000
	settings = get_guc_variables();
	n = GetNumConfigOptions();
#else
	settings = get_guc_variables(&n);
#endif
	for (int i = 0; i < n; i++)
		if (strcmp(settings[i]->name, "log_min_messages") == 0)
			return settings[i]->source == PGC_S_OVERRIDE;
	return false;
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

void
fc_own_settings(void)
{
	static const struct
	{
		const char *name;
		const char *value;
	}			own[] = {
		{"role", "none"},
		{"default_transaction_isolation", "read committed"},
		{"default_transaction_deferrable", "off"},
#if PG_VERSION_NUM >= 170000
		{"transaction_timeout", "0"},
#endif
	};

	for (int i = 0; i < lengthof(own); i++)
		SetConfigOption(own[i].name, own[i].value, PGC_SUSET, PGC_S_OVERRIDE);
}

Oid
fc_relation_of(Oid spc, uint32 file)
{
#if PG_VERSION_NUM < 160000
	return RelidByRelfilenode(spc, file);
#else
	return RelidByRelfilenumber(spc, file);
#endif
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

GucBoolAssignHook *
fc_assign_hook(const char *name, const bool *variable)
{
	struct config_generic *setting = NULL;
#if PG_VERSION_NUM < 160000
	struct config_generic **all = get_guc_variables();

	for (int i = 0; i < GetNumConfigOptions() && setting == NULL; i++)
		if (strcmp(all[i]->name, name) == 0)
			setting = all[i];
#else
	setting = find_option(name, false, true, DEBUG5);
#endif

	if (setting == NULL || setting->vartype != PGC_BOOL)
		return NULL;
#if PG_VERSION_NUM < 190000
	return ((struct config_bool *) setting)->variable == variable ? &((struct config_bool *) setting)->assign_hook : NULL;
#else
	return setting->_bool.variable == variable ? &setting->_bool.assign_hook : NULL;
#endif
}
