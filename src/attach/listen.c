/*-------------------------------------------------------------------------
 *
 * attach/listen.c
 *	  The calls of a server without a cache, for advice: reads and writes are
 *	  noted, and md does them.
 *
 * Nothing here can make a difference to the server: there is no other page
 * than md's, and no self-test is needed.
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

#if PG_VERSION_NUM >= 180000
#include "storage/aio_internal.h"
#endif

#if PG_VERSION_NUM < 170000

void
fc_listen_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, FcBytes *page)
{
	bool		cacheable = fc_is_cacheable(reln, forknum) && fc_bufscan_in_pool(page);
	uint64		begin = fc_now_ns();

	mdread(reln, forknum, blk, page);
	fc_advice_disk(begin, 1);
	if (cacheable)
	{
		FcTag		tag = fc_tag_of(reln, blk);
		void	   *pages[1] = {page};

		fc_advice_read(&tag, 1, pages);
	}
}

void
fc_listen_write(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
				FcConstBytes *page, bool skip_fsync)
{
	mdwrite(reln, forknum, blk, page, skip_fsync);
	if (fc_is_cacheable(reln, forknum))
	{
		FcTag		tag = fc_tag_of(reln, blk);
		const void *pages[1] = {page};

		fc_advice_written(&tag, 1, pages);
	}
}

#else

static void
note_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, void **pages, BlockNumber nblocks)
{
	if (fc_is_cacheable(reln, forknum) && fc_bufscan_in_pool(pages[0]))
	{
		FcTag		tag = fc_tag_of(reln, blk);

		fc_advice_read(&tag, nblocks, pages);
	}
}

void
fc_listen_readv(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
				void **pages, BlockNumber nblocks)
{
	uint64		begin = fc_now_ns();

	mdreadv(reln, forknum, blk, pages, nblocks);
	fc_advice_disk(begin, nblocks);
	note_read(reln, forknum, blk, pages, nblocks);
}

void
fc_listen_writev(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
				 const void **pages, BlockNumber nblocks, bool skip_fsync)
{
	mdwritev(reln, forknum, blk, pages, nblocks, skip_fsync);
	if (fc_is_cacheable(reln, forknum))
	{
		FcTag		tag = fc_tag_of(reln, blk);

		fc_advice_written(&tag, nblocks, pages);
	}
}

#if PG_VERSION_NUM >= 180000

/* md has done it on return, or somebody else does it later: then its time is not known. */
void
fc_listen_startreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum,
					 BlockNumber blk, void **pages, BlockNumber nblocks)
{
	bool		at_once = io_method == IOMETHOD_SYNC || (ioh->flags & PGAIO_HF_SYNCHRONOUS) != 0;
	uint64		begin = fc_now_ns();

	note_read(reln, forknum, blk, pages, nblocks);
	mdstartreadv(ioh, reln, forknum, blk, pages, nblocks);
	if (at_once)
		fc_advice_disk(begin, nblocks);
}

#endif

#endif							/* PG_VERSION_NUM >= 170000 */
