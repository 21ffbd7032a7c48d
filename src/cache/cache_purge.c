/*-------------------------------------------------------------------------
 *
 * cache_purge.c
 *	  Forgetting what is on flash; runs in the writer process only.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_devices.h"
#include "cache/cache_internal.h"
#include "cache/cache_looked.h"
#include "directory/directory.h"
#include "handoff.h"
#include "handoff_hints.h"
#include "store/store.h"

void
fc_cache_purge(void)
{
	Assert(fc_directory_is_mine() && fc_cache_state() != FC_STATE_ACTIVE);
	pg_atomic_write_u32(&fc_cache->distrusted, 0);
	pg_memory_barrier();		/* whoever sets it from here on wants another
								 * one */
	fc_cache_fill_forget();
	fc_handoff_clear();			/* guards of unknown age, too */
	fc_hints_clear();
	fc_directory_purge();
	fc_looked_forget();
	fc_cache_scrub_again();
}

void
fc_cache_purge_unless(bool same)
{
	Assert(fc_directory_is_mine() && fc_cache_state() != FC_STATE_ACTIVE);
	Assert(!fc_cache_fill_has_staged());	/* no fill spans this */
	same &= !fc_store_doubtful(FC_THE_DEVICE);
	if ((!same && !fc_devices_there()) || pg_atomic_read_u32(&fc_cache->distrusted) != 0)
	{
		fc_cache_purge();
		return;
	}
	/* the others keep theirs */
	if (!same)
		fc_devices_forget(FC_THE_DEVICE);

	/*
	 * entries have their checksums; that a slot was erased is but the word of
	 * a device that was out of sight
	 */
	fc_directory_forget_erased();
	fc_cache_scrub_again();
}
