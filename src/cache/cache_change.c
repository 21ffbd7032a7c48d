/*-------------------------------------------------------------------------
 *
 * cache_change.c
 *	  What happens when a page changes: invalidation, and the hand-over of a
 *	  dirty page that was written to make room.
 *
 * Steps I1-I2 and E1 are those of src/protocol.md.  May run in any process, at
 * any time, under any locks of the server.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "cache/cache.h"
#include "cache/cache_internal.h"
#include "directory/directory.h"
#include "failpoint.h"
#include "handoff.h"
#include "stats/stats.h"

/* Truncating more blocks than this drops the whole relation's entries. */
#define RANGE_LIMIT 4096

/* ---- invalidate ---- */

void
fc_cache_invalidate(const FcTag *tag)
{
	uint64		hash = fc_directory_hash(tag);

	Assert(fc_cache != NULL && !fc_directory_locked());
	Assert(OidIsValid(tag->rel) && tag->blk != InvalidBlockNumber);
	fc_directory_bump_page(hash);	/* I1 */
	fc_failpoint(FC_FP_INVALIDATE_BUMPED);
	fc_directory_remove(tag, hash); /* I2 */
}

void
fc_cache_invalidate_range(FcRel rel, BlockNumber from, BlockNumber to)
{
	FcTag		tag = {rel.spc, rel.db, rel.rel, 0};

	Assert(OidIsValid(rel.rel));
	if (from >= to)
		return;
	if (to - from > RANGE_LIMIT)
	{
		fc_cache_invalidate_relation(rel);
		return;
	}
	for (tag.blk = from; tag.blk < to; tag.blk++)
		fc_cache_invalidate(&tag);
}

/*
 * So many epochs have passed since dead entries were last looked for: before
 * they wrap around, and a dead entry would be current again, the cache goes
 * off, and forgets them.  Only a writer that has stood still for hours lets it
 * come to that.
 */
static void
look_at_epochs(uint32 unswept)
{
	static const FcReason why = {
		"the writer has not come by for too long",
		"See what the process \"pg_flashcache writer\" waits for, then call pg_flashcache_enable()."
	};
	FcState		state = fc_cache_state();

	if (fc_directory_sweep_urgent() && state == FC_STATE_ACTIVE)
		fc_handoff_wake();
	if (unlikely(unswept >= FC_EPOCHS_UNSWEPT))
		fc_cache_off_and_forget(&why);
}

void
fc_cache_invalidate_relation(FcRel rel)
{
	look_at_epochs(fc_directory_bump_relation(rel));
}

void
fc_cache_invalidate_database(Oid db)
{
	look_at_epochs(fc_directory_bump_database(db));
}

/* ---- eviction of a dirty page ---- */

void
fc_cache_evicted(const FcTag *tag, int frame, const char *page)
{
	uint64		hash;
	FcGuard		guard;

	if (!fc_cache_in_use() || !fc_handoff_has_writer())
		return;
	hash = fc_directory_hash(tag);
	if (!fc_cache_worth_filling() || !fc_bypass_fills(tag, hash))
	{
		fc_count(FC_SKIP_NOT_USEFUL);
		return;
	}

	/*
	 * E1.  The page's I/O is still ours, so nobody can have written it since,
	 * nor truncated or dropped the relation: those drop the buffer first and
	 * wait for us.  The guard taken now is that of the page's content.
	 */
	Assert(!fc_directory_locked());
	guard = fc_directory_guard(hash);
	if (!fc_handoff_push(tag, frame, &guard, page))
		fc_count(FC_SKIP_OVERLOADED);
}
