/*-------------------------------------------------------------------------
 *
 * cache_purge.c
 *	  Forgetting what is on flash; runs in the writer process only.
 *
 * That is a pass over all slots, which takes minutes when millions of them are
 * in use.  So it is done in steps: between them the writer goes on, or, where it
 * has nothing else to do (O2), sees whether it is to stop.  The state has
 * changed before, so nobody has a hit or takes a slot.  Invalidation goes on.
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
#include "failpoint.h"
#include "handoff.h"
#include "handoff_hints.h"
#include "store/store.h"

/* Where it has come to; FC_NO_SLOT: none is under way.  And what `distrusted` was when it began. */
static FcSlotNo purge_at = FC_NO_SLOT;
static uint32 purge_for;

void
fc_cache_purge_begin(void)
{
	Assert(fc_directory_is_mine() && fc_cache_state() != FC_STATE_ACTIVE);

	/*
	 * A writer that ends in it leaves that as it is.  Whoever sets it from
	 * here on wants another one.
	 */
	purge_for = pg_atomic_add_fetch_u32(&fc_cache->distrusted, 1);
	purge_at = 0;
	fc_cache_fill_forget();
	fc_handoff_clear();			/* guards of unknown age, too */
	fc_hints_clear();
}

bool
fc_cache_purge_step(void)
{
	uint32		expected = purge_for;

	Assert(fc_directory_is_mine() && fc_cache_state() != FC_STATE_ACTIVE && fc_cache_purges());
	if (fc_failpoint(FC_FP_PURGE_STEP) ||
		fc_directory_purge(&purge_at, fc_failpoint_number("FC_PURGE_STEP", FC_DIRECTORY_STEP)))
		return true;
	purge_at = FC_NO_SLOT;
	fc_looked_forget();
	fc_cache_scrub_again();
	(void) pg_atomic_compare_exchange_u32(&fc_cache->distrusted, &expected, 0);
	return false;
}

bool
fc_cache_purges(void)
{
	return purge_at != FC_NO_SLOT;
}

void
fc_cache_purge(void)
{
	fc_cache_purge_begin();
	while (fc_cache_purge_step())
		fc_store_look_for_stop();
}

bool
fc_cache_purge_unless(bool same)
{
	Assert(fc_directory_is_mine() && fc_cache_state() != FC_STATE_ACTIVE);
	Assert(!fc_cache_fill_has_staged());	/* no fill spans this */
	same &= !fc_store_doubtful(FC_THE_DEVICE);
	if (!fc_cache_purges() &&
		((!same && !fc_devices_there()) || pg_atomic_read_u32(&fc_cache->distrusted) != 0))
		fc_cache_purge_begin();
	if (fc_cache_purges())
		return !fc_cache_purge_step();
	/* the others keep theirs */
	if (!same && fc_devices_forget_some(FC_THE_DEVICE))
		return false;

	/*
	 * entries have their checksums; that a slot was erased is but the word of
	 * a device that was out of sight
	 */
	fc_directory_forget_erased();
	fc_cache_scrub_again();
	return true;
}
