/*-------------------------------------------------------------------------
 *
 * attach/smgr_vector.c
 *	  Reading and writing as in PostgreSQL 17 and later: several neighbouring
 *	  blocks a call.
 *
 * A read is split into runs, each from one place: pages on flash are read
 * together, pages that are not go to md in one call.
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

#if PG_VERSION_NUM >= 170000

/* `run` is that of the pages, or NULL where none was planned. */
static void
read_from_disk(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, void **pages, BlockNumber n, const FcRun *run)
{
	uint64		begin = fc_now_ns();
	FcExtentWish wish = fc_cache_extent_wish(run, pages[0], fc_known_size(reln), fc_data_fd, reln);

	fc_failpoint_of(FC_FP_DISK_READ, fc_tag_of(reln, blk).rel);
	mdreadv(reln, forknum, blk, pages, n);
	fc_cache_extent_leave(run, wish, begin);
	fc_cache_disk_read(run, fc_counted_as(reln), begin, n);
	fc_advice_disk(begin, n);
}

void
fc_smgr_verify(SMgrRelation reln, const FcRun *run, void **pages, int n)
{
	static FcPage disk;
	FcTag		tag = run->tag;

	for (int i = 0; i < n; i++, tag.blk++)
	{
		void	   *target = disk.data;

		read_from_disk(reln, MAIN_FORKNUM, tag.blk, &target, 1, run);
		if (!fc_cache_verify(&tag, pages[i], disk.data))
		{
			memcpy(pages[i], disk.data, BLCKSZ);
			fc_watch_for_damage(tag.blk, pages[i]);
		}
	}
}

/* Are they all in the pool?  The buffer manager reads then, and holds the I/O. */
static bool
all_in_pool(void **pages, BlockNumber n)
{
	for (BlockNumber i = 0; i < n; i++)
		if (!fc_bufscan_in_pool(pages[i]))
			return false;
	return true;
}

static void
note_advice(SMgrRelation reln, BlockNumber blk, void **pages, BlockNumber nblocks)
{
	FcTag		tag = fc_tag_of(reln, blk);

	fc_advice_read(&tag, nblocks, pages);
}

void
fc_smgr_readv(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
			  void **pages, BlockNumber nblocks)
{
	fc_calls[FC_CALL_READ]++;
	if (!fc_is_cacheable(reln, forknum) || !all_in_pool(pages, nblocks))
	{
		read_from_disk(reln, forknum, blk, pages, nblocks, NULL);
		return;
	}
	note_advice(reln, blk, pages, nblocks);
	while (nblocks > 0)
	{
		FcTag		tag = fc_tag_of(reln, blk);
		FcRun		run;
		BlockNumber done;
		BlockNumber from_disk;

		fc_cache_plan(&run, &tag, nblocks, fc_data_fd, reln);
		done = fc_cache_read(&run, (char **) pages);
		if (done > 0 && unlikely(fc_setting_verify))
			fc_smgr_verify(reln, &run, pages, done);

		/* the whole run; or, of a run on flash, the page that failed */
		from_disk = run.from_flash ? Min(1, run.n - done) : run.n;
		if (from_disk > 0)
		{
			read_from_disk(reln, forknum, blk + done, pages + done, from_disk, &run);
			for (BlockNumber i = 0; i < from_disk; i++)
				fc_watch_for_damage(blk + done + i, pages[done + i]);
			done += from_disk;
		}
		blk += done;
		pages += done;
		nblocks -= done;
	}
}

bool
fc_smgr_prefetch(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, int nblocks)
{
	bool		ok = true;

	fc_calls[FC_CALL_PREFETCH]++;
	if (!fc_is_cacheable(reln, forknum))
		return mdprefetch(reln, forknum, blk, nblocks);
	while (nblocks > 0)
	{
		int			missing = 0;

		/* pages between those on flash are asked for together */
		while (missing < nblocks)
		{
			FcTag		tag = fc_tag_of(reln, blk + missing);

			if (fc_cache_prefetch(&tag))
				break;
			missing++;
		}
		if (missing > 0)
			ok &= mdprefetch(reln, forknum, blk, missing);
		missing = Min(missing + 1, nblocks);	/* one that is on flash */
		blk += missing;
		nblocks -= missing;
	}
	return ok;
}

void
fc_smgr_writev(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
			   const void **pages, BlockNumber nblocks, bool skip_fsync)
{
	FcTag		tag = fc_tag_of(reln, blk);

	fc_calls[FC_CALL_WRITE]++;
	if (!fc_is_cacheable(reln, forknum))
	{
		mdwritev(reln, forknum, blk, pages, nblocks, skip_fsync);
		fc_count_written(reln, FC_REL_DISK_WRITES, nblocks);
		return;
	}
	fc_failpoint_of(FC_FP_WRITE_BEFORE_MD, tag.rel);
	mdwritev(reln, forknum, blk, pages, nblocks, skip_fsync);	/* C2 */
	fc_failpoint_of(FC_FP_WRITE_AFTER_MD, tag.rel);
	for (BlockNumber i = 0; i < nblocks; i++, tag.blk++)
	{
		fc_cache_invalidate(&tag);	/* C3 */
		fc_page_written(&tag, pages[i]);
	}
	tag.blk = blk;
	fc_count_written(reln, FC_REL_DISK_WRITES, nblocks);
	fc_advice_written(&tag, nblocks, pages);
}

#endif							/* PG_VERSION_NUM >= 170000 */
