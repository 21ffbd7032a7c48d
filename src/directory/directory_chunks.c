/*-------------------------------------------------------------------------
 *
 * directory_chunks.c
 *	  Which slots there are, and which may be used.
 *
 * A word for each chunk, changed by the writer only.  Taking slots is the
 * writer's as well, so it needs no order.  Others see a chunk that has become
 * unreadable a little late: what they read by then is verified as always (R3).
 *
 * How full the cache is, is a matter of chunks that may be read: entries of the
 * others take no room in them.  Whoever invalidates unlinks them at any time, so
 * the writer counts them anew, once a round, instead of keeping a sum that could
 * go wrong.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "directory/directory_internal.h"

static inline FcSlotNo
chunk_first(uint32 chunk)
{
	return chunk << fc_dir->chunk_shift;
}

void
fc_chunks_init(uint32 slots)
{
	fc_dir->chunk_shift = fc_chunk_shift(slots);
	pg_atomic_init_u32(&fc_dir->capacity, slots);
	for (uint32 i = 0; i < FC_CHUNKS; i++)
	{
		uint32		n = i < fc_chunks(slots) ? fc_chunk_slots(slots, i) : 0;

		fc_dir->chunk_slots[i] = n;
		pg_atomic_init_u32(&fc_dir->chunk[i], n | FC_CHUNK_READABLE);
		pg_atomic_init_u32(&fc_dir->chunk_used[i], 0);
		pg_atomic_init_u32(&fc_dir->chunk_kept[i], 0);
		pg_atomic_init_u32(&fc_dir->chunk_unproven[i], 0);
	}
	pg_atomic_init_u32(&fc_dir->away_used, 0);
	pg_atomic_init_u32(&fc_dir->away_kept, 0);
	pg_atomic_init_u32(&fc_dir->away_unproven, 0);
}

void
fc_directory_set_chunk(uint32 chunk, uint32 n, uint32 open, bool readable)
{
	bool		was_readable = (pg_atomic_read_u32(&fc_dir->chunk[chunk]) & FC_CHUNK_READABLE) != 0;
	uint32		was = was_readable ? fc_dir->chunk_slots[chunk] : 0;

	Assert(chunk < fc_chunks(fc_dir->slots) && open <= n && n <= fc_chunk_slots(fc_dir->slots, chunk));
	fc_dir->chunk_slots[chunk] = n;
	pg_atomic_write_u32(&fc_dir->capacity, pg_atomic_read_u32(&fc_dir->capacity) - was + (readable ? n : 0));
	pg_atomic_write_u32(&fc_dir->chunk[chunk], open | (readable ? FC_CHUNK_READABLE : 0));
	if (was_readable != readable && fc_directory_chunk_used(chunk) > 0)
		fc_directory_recount();
}

void
fc_directory_recount(void)
{
	uint32		used = 0;
	uint32		kept = 0;
	uint32		unproven = 0;

	for (uint32 i = 0; i < fc_chunks(fc_dir->slots); i++)
		if ((pg_atomic_read_u32(&fc_dir->chunk[i]) & FC_CHUNK_READABLE) == 0)
		{
			used += pg_atomic_read_u32(&fc_dir->chunk_used[i]);
			kept += pg_atomic_read_u32(&fc_dir->chunk_kept[i]);
			unproven += pg_atomic_read_u32(&fc_dir->chunk_unproven[i]);
		}
	pg_atomic_write_u32(&fc_dir->away_used, used);
	pg_atomic_write_u32(&fc_dir->away_kept, kept);
	pg_atomic_write_u32(&fc_dir->away_unproven, unproven);
}

/* Some of those away may be gone since they were counted: then it is too few for a round. */
static uint32
less_away(uint32 all, uint32 away)
{
	return all - Min(all, away);
}

uint32
fc_directory_used(void)
{
	return fc_dir ? less_away(fc_directory_linked(), pg_atomic_read_u32(&fc_dir->away_used)) : 0;
}

uint32
fc_directory_kept(void)
{
	return fc_dir ? less_away(pg_atomic_read_u32(&fc_dir->kept), pg_atomic_read_u32(&fc_dir->away_kept)) : 0;
}

uint32
fc_directory_unproven(void)
{
	if (fc_dir == NULL)
		return 0;
	return less_away(pg_atomic_read_u32(&fc_dir->unproven), pg_atomic_read_u32(&fc_dir->away_unproven)) * fc_directory_mark_share();
}

uint32
fc_directory_capacity(void)
{
	return fc_dir ? pg_atomic_read_u32(&fc_dir->capacity) : 0;
}

bool
fc_directory_has(FcSlotNo slot)
{
	Assert(fc_directory_is_mine() && slot < fc_dir->slots);
	return (slot & ((UINT32_C(1) << fc_dir->chunk_shift) - 1)) < fc_dir->chunk_slots[slot >> fc_dir->chunk_shift];
}

FcSlotNo
fc_next_open(FcSlotNo slot)
{
	uint32		nchunks = fc_chunks(fc_dir->slots);
	uint32		chunk = slot >> fc_dir->chunk_shift;

	Assert(slot < fc_dir->slots);
	if (likely(fc_slot_open(slot)))
		return slot;
	for (uint32 i = 0; i < nchunks; i++)
	{
		if (++chunk == nchunks)
			chunk = 0;
		if ((pg_atomic_read_u32(&fc_dir->chunk[chunk]) & FC_CHUNK_OPEN) > 0)
			return chunk_first(chunk);
	}
	return FC_NO_SLOT;
}

uint32
fc_directory_chunk_used(uint32 chunk)
{
	return pg_atomic_read_u32(&fc_dir->chunk_used[chunk]);
}
