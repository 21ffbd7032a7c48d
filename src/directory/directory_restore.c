/*-------------------------------------------------------------------------
 *
 * directory_restore.c
 *	  Entries that survive an end of the server: linked again, dropped, and
 *	  written down (src/warm.md).
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "catalog/pg_tablespace_d.h"
#include "directory/directory_internal.h"
#include "failpoint.h"

void
fc_directory_invalidate_again(const FcInvalidated *list, int n)
{
	Assert(fc_directory_is_mine());
	for (int i = 0; i < n; i++)
	{
		FcRel		rel = {InvalidOid, list[i].db, list[i].rel};

		if (OidIsValid(rel.rel))
			(void) fc_epoch_invalidate(rel);
		else
			(void) fc_epoch_invalidate_database(rel.db);
	}
}

/* By this load of the log, or by that of a writer that has ended in it. */
static bool
is_restored(const FcEntry *e, const FcRecord *record)
{
	uint32		word = pg_atomic_read_u32(unconstify(pg_atomic_uint32 *, &e->word));

	return fc_word_version(word) == FC_FIRST_VERSION && fc_word_state(word) == FC_SLOT_USED &&
		fc_tag_equal(&e->tag, &record->tag) && e->crc == record->crc;
}

/* As if it had been linked in that epoch. */
static FcRestore
restore(FcSlotNo slot, const FcRecord *record, uint32 epoch)
{
	FcEntry    *e = &fc_dir_entries[slot];
	uint64		hash = fc_directory_hash(&record->tag);
	FcRestore	result = FC_RESTORE_DONE;
	LWLock	   *lock;

	Assert(fc_directory_is_mine() && slot < fc_dir->slots && fc_directory_touching());
	/* the chunk is absent, or shorter, by now */
	if (!fc_directory_has(slot))
		return FC_RESTORE_TAKEN;
	/* a slot that is free is changed by this process only */
	if (pg_atomic_read_u32(&e->word) != fc_make_word(FC_FIRST_VERSION, FC_SLOT_FREE, 0))
		return is_restored(e, record) ? FC_RESTORE_DONE : FC_RESTORE_TAKEN;
	lock = fc_lock_partition(hash, LW_EXCLUSIVE);
	if (fc_keep_touched(hash) || fc_epoch_ended(fc_tag_rel(&record->tag), epoch))
		result = FC_RESTORE_TOUCHED;
	else if (fc_find_link(&record->tag, hash) != NULL)
		result = FC_RESTORE_EXISTS;
	else
	{
		if (slot >= fc_reached())
			pg_atomic_write_u32(&fc_dir->reached, slot + 1);
		fc_dir->restored = true;
		fc_link_entry(e, &record->tag, hash, record->crc, epoch, 0);
	}
	LWLockRelease(lock);
	return result;
}

FcRestore
fc_directory_restore(FcSlotNo slot, const FcRecord *record)
{
	return restore(slot, record, fc_breaks("K3-epoch") ? fc_epoch_now() : FC_START_32);
}

#ifdef FC_FAILPOINTS
void
fc_directory_make_up(uint32 n)
{
	Assert(fc_directory_is_mine());
	for (FcSlotNo slot = 0; slot < Min(n, fc_dir->slots); slot++)
	{
		FcRecord	record = {0};

		/* each is of 1 GB, in a database that there is not */
		record.tag.spc = DEFAULTTABLESPACE_OID;
		record.tag.db = FirstNormalObjectId - 1;
		record.tag.rel = FirstNormalObjectId + slot / RELSEG_SIZE;
		record.tag.blk = slot % RELSEG_SIZE;
		/* the epochs of the start may have been forgotten */
		(void) restore(slot, &record, fc_epoch_now());
	}
}
#endif

bool
fc_directory_restored_page(FcSlotNo slot, FcTag *tag)
{
	FcPageInfo	info;

	if (!fc_keep_is_on() || slot >= fc_dir->slots || !fc_directory_page(slot, &info) ||
		fc_word_version(pg_atomic_read_u32(&fc_dir_entries[slot].word)) != FC_FIRST_VERSION)
		return false;
	*tag = info.tag;
	return true;
}

bool
fc_directory_drop_restored(FcSlotNo *at, uint32 count)
{
	FcSlotNo	end = Min(fc_reached(), *at + count);

	Assert(fc_directory_is_mine() && count > 0 && *at <= end);
	for (FcSlotNo slot = *at; slot < end; slot++)
		if (fc_word_version(pg_atomic_read_u32(&fc_dir_entries[slot].word)) == FC_FIRST_VERSION)
			fc_free_used(slot, FC_EVICT_INVALIDATED);
	*at = end;
	return end < fc_reached();
}

void
fc_directory_export(FcSlotNo first, uint32 n, FcRecord *records)
{
	Assert(fc_directory_is_mine() && first + n <= fc_dir->slots);
	for (uint32 i = 0; i < n; i++)
	{
		FcEntry    *e = &fc_dir_entries[first + i];

		/*
		 * only this process links: what is seen here may at most be unlinked
		 * meanwhile
		 */
		memset(&records[i], 0, sizeof(records[i]));
		if (first + i >= fc_reached() || fc_word_state(pg_atomic_read_u32(&e->word)) != FC_SLOT_USED || !fc_entry_current(e))
			continue;
		records[i].tag = e->tag;
		records[i].crc = e->crc;
	}
}
