/*-------------------------------------------------------------------------
 *
 * attach/smgr_async.c
 *	  Starting a read and letting it finish later, as in PostgreSQL 18 and
 *	  later.
 *
 * A request is answered as far as its first run goes: the first pages that
 * come from the same place.  The server takes that for a partial read and
 * asks again for the rest.
 *
 * A run that is not on flash is passed to md and stays asynchronous.
 *
 * A run on flash is read here and now, which takes about as long as giving
 * the request to somebody else would.  Its descriptor must not get into a
 * real asynchronous request: I/O workers open the file that belongs to the
 * target, which is the data file.  So the handle is completed with another
 * read that gives the right result: k pages read are reported by reading k
 * bytes from /dev/zero into a scratch variable.  Without md's callback, which
 * divides by the block size, the raw result k means k blocks, and the
 * buffer manager's own callback then verifies the pages as always.
 *
 * Nobody can time a request that somebody else completes.  So one in many is
 * read from disk here and now as well: that tells what the disk costs.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "../bufscan.h"
#include "../compat.h"
#include "../failpoint.h"
#include "../settings.h"
#include "calls.h"

#if PG_VERSION_NUM >= 180000

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

/* With io_method worker and io_uring. */
#define TIMED_ONE_IN 64

uint32
fc_smgr_maxcombine(SMgrRelation reln, ForkNumber forknum, BlockNumber blk)
{
	uint32		limit = mdmaxcombine(reln, forknum, blk);

	fc_calls[FC_CALL_MAXCOMBINE]++;
	if (fc_is_cacheable(reln, forknum) && limit > 1)
	{
		FcTag		tag = fc_tag_of(reln, blk);

		limit = fc_cache_combine(&tag, Min(limit, FC_MAX_RUN));
	}
	return limit;
}

/* A descriptor that any number of bytes can be read from; -1 if there is none. */
static int
endless_fd(void)
{
	static int	fd = -1;

	if (fd < 0)
		fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
	return fd;
}

/* Completes the request as a read of n blocks that has taken place. */
static void
complete(PgAioHandle *ioh, int fd, SMgrRelation reln, ForkNumber forknum, BlockNumber blk, int n)
{
	static char scratch[FC_MAX_RUN];
	struct iovec *iov;

	(void) pgaio_io_get_iovec(ioh, &iov);
	iov[0].iov_base = scratch;
	iov[0].iov_len = n;
	pgaio_io_set_flag(ioh, PGAIO_HF_SYNCHRONOUS);
	pgaio_io_set_flag(ioh, PGAIO_HF_BUFFERED);
	pgaio_io_set_target_smgr(ioh, reln, forknum, blk, n, false);
	pgaio_io_start_readv(ioh, fd, 1, 0);
}

void
fc_smgr_startreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum,
				   BlockNumber blk, void **pages, BlockNumber nblocks)
{
	FcTag		tag = fc_tag_of(reln, blk);
	FcRun		run;
	int			good;
	int			fd;
	uint64		begin;
	bool		now;
	static int	untimed = 0;

	fc_calls[FC_CALL_STARTREAD]++;
	if (!fc_is_cacheable(reln, forknum) || !fc_bufscan_in_pool(pages[0]) ||
		(fd = endless_fd()) < 0)
	{
		mdstartreadv(ioh, reln, forknum, blk, pages, nblocks);
		fc_cache_disk_read_started(nblocks);
		return;
	}
	fc_cache_plan(&run, &tag, nblocks, fc_data_fd, reln);
	run.asks_again = true;
	good = fc_cache_read(&run, (char **) pages);	/* S1 */
	if (good > 0)
	{
		if (unlikely(fc_setting_verify))
			fc_smgr_verify(reln, blk, pages, good);
		fc_failpoint(FC_FP_ASYNC_READ);
		complete(ioh, fd, reln, forknum, blk, good);	/* S2 */
		return;
	}

	/* the run; or, of a run on flash, the page that failed */
	nblocks = run.from_flash ? 1 : run.n;
	begin = fc_now_ns();
	if (io_method != IOMETHOD_SYNC && ++untimed == TIMED_ONE_IN)
		untimed = 0;
	now = unlikely(ignore_checksum_failure) || (io_method != IOMETHOD_SYNC && untimed == 0);
	fc_failpoint(FC_FP_DISK_READ);
	if (now)
	{
		mdreadv(reln, forknum, blk, pages, nblocks);
		for (BlockNumber i = 0; i < nblocks; i++)
			fc_watch_for_damage(blk + i, pages[i]);
		complete(ioh, fd, reln, forknum, blk, nblocks);
	}
	else
		mdstartreadv(ioh, reln, forknum, blk, pages, nblocks);
	if (now || io_method == IOMETHOD_SYNC)
		fc_cache_disk_read(begin, nblocks);
	else
		fc_cache_disk_read_started(nblocks);
}

void
fc_smgr_exercise_async(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, void *page)
{
	PgAioReturn result;
	PgAioWaitRef wref;
	PgAioHandle *ioh = pgaio_io_acquire(NULL, &result);

	/* no other process may fill memory of ours */
	pgaio_io_set_flag(ioh, PGAIO_HF_REFERENCES_LOCAL);
	pgaio_io_get_wref(ioh, &wref);
	smgrstartreadv(ioh, reln, forknum, blk, &page, 1);
	pgaio_wref_wait(&wref);
}

#endif							/* PG_VERSION_NUM >= 180000 */
