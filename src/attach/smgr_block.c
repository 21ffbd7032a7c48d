/*-------------------------------------------------------------------------
 *
 * attach/smgr_block.c
 *	  Reading and writing as in PostgreSQL 15 and 16: one block a call.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "advice/advice.h"
#include "attach/calls.h"
#include "bufscan.h"
#include "compat.h"
#include "failpoint.h"
#include "settings.h"

#if PG_VERSION_NUM < 170000

/* `run` is the page's, or NULL where none was planned. */
static void
read_from_disk(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, FcBytes *page, const FcRun *run)
{
	uint64		begin = fc_now_ns();
	FcExtentWish wish = fc_cache_extent_wish(run, page, fc_known_size(reln), fc_data_fd, reln);

	fc_failpoint_of(FC_FP_DISK_READ, fc_tag_of(reln, blk).rel);
	mdread(reln, forknum, blk, page);
	fc_cache_extent_leave(run, wish, begin);
	fc_cache_disk_read(run, fc_counted_as(reln), begin, 1);
	fc_advice_disk(begin, 1);
}

void
fc_smgr_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, FcBytes *page)
{
	FcTag		tag = fc_tag_of(reln, blk);
	bool		cacheable;
	FcRun		run;

	fc_calls[FC_CALL_READ]++;

	/* an address in the pool: the buffer manager reads, and holds the I/O */
	cacheable = fc_is_cacheable(reln, forknum) && fc_bufscan_in_pool(page);
	if (cacheable)
	{
		char	   *pages[1] = {page};

		fc_advice_read(&tag, 1, (void **) pages);
		fc_cache_plan(&run, &tag, 1, fc_data_fd, reln);
		if (fc_cache_read(&run, pages) == 1)
		{
			static FcPage disk;

			if (likely(!fc_setting_verify))
				return;
			read_from_disk(reln, forknum, blk, disk.data, &run);
			if (!fc_cache_verify(&tag, page, disk.data))
			{
				memcpy(page, disk.data, BLCKSZ);
				fc_watch_for_damage(blk, page);
			}
			return;
		}
	}
	read_from_disk(reln, forknum, blk, page, cacheable ? &run : NULL);
	if (cacheable)
		fc_watch_for_damage(blk, page);
}

bool
fc_smgr_prefetch(SMgrRelation reln, ForkNumber forknum, BlockNumber blk)
{
	FcTag		tag = fc_tag_of(reln, blk);

	fc_calls[FC_CALL_PREFETCH]++;
	if (fc_is_cacheable(reln, forknum) && fc_cache_prefetch(&tag))
		return true;
	return mdprefetch(reln, forknum, blk);
}

void
fc_smgr_write(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
			  FcConstBytes *page, bool skip_fsync)
{
	FcTag		tag = fc_tag_of(reln, blk);
	const void *pages[1] = {page};

	fc_calls[FC_CALL_WRITE]++;
	if (!fc_is_cacheable(reln, forknum))
	{
		mdwrite(reln, forknum, blk, page, skip_fsync);
		fc_count_written(reln, FC_REL_DISK_WRITES, 1);
		return;
	}
	fc_failpoint_of(FC_FP_WRITE_BEFORE_MD, tag.rel);
	mdwrite(reln, forknum, blk, page, skip_fsync);	/* C2 */
	fc_failpoint_of(FC_FP_WRITE_AFTER_MD, tag.rel);
	fc_cache_invalidate(&tag);	/* C3 */
	fc_page_written(&tag, page);
	fc_count_written(reln, FC_REL_DISK_WRITES, 1);
	fc_advice_written(&tag, 1, pages);
}

#endif							/* PG_VERSION_NUM < 170000 */
