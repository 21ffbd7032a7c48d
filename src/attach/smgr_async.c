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
 * Nobody can time a request that somebody else completes.  Where the server
 * will wait for the answer at once it says so, and then md reads before it
 * returns: these are timed.  Where only others are made, a few a second in the
 * whole server are read here and now, if their time would matter
 * (fc_cache_wants_disk_time); of a process that reads ahead hardly any, since
 * what it has asked for before has come by then, and its disk stands still.
 *
 * While the cache takes no part, requests go to md before anything else is
 * done, but for what keeps a damaged page out of the cache later on.
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

#if PG_VERSION_NUM >= 180000

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "access/xlog.h"
#include "storage/aio_internal.h"
#include "storage/bufmgr.h"

uint32
fc_smgr_maxcombine(SMgrRelation reln, ForkNumber forknum, BlockNumber blk)
{
	uint32		limit = mdmaxcombine(reln, forknum, blk);

	fc_calls[FC_CALL_MAXCOMBINE]++;
	if (limit > 1 && fc_cache_in_use() && fc_is_cacheable(reln, forknum))
	{
		FcTag		tag = fc_tag_of(reln, blk);

		/*
		 * no request of the server is longer; what is looked up here beyond
		 * it would be for nothing
		 */
		limit = fc_cache_combine(&tag, Min(limit, Min(io_combine_limit, FC_MAX_RUN)));
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

/* Reads from disk, and completes the request. */
static void
read_now(PgAioHandle *ioh, int fd, SMgrRelation reln, ForkNumber forknum,
		 BlockNumber blk, void **pages, BlockNumber nblocks)
{
	fc_failpoint_of(FC_FP_DISK_READ, fc_tag_of(reln, blk).rel);
	mdreadv(reln, forknum, blk, pages, nblocks);
	fc_data_used(reln, blk);
	for (BlockNumber i = 0; i < nblocks; i++)
		fc_watch_for_damage(blk + i, pages[i]);
	complete(ioh, fd, reln, forknum, blk, nblocks);
}

/* Lets md start the read; timed if it is `at_once`. */
static void
start_from_disk(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum,
				BlockNumber blk, void **pages, BlockNumber nblocks, const FcRun *run, bool at_once)
{
	uint64		begin = at_once ? fc_now_ns() : 0;
	FcExtentWish wish = fc_cache_extent_wish(run, pages[0], fc_known_size(reln), fc_data_fd, reln);

	fc_failpoint_of(FC_FP_DISK_READ, fc_tag_of(reln, blk).rel);
	mdstartreadv(ioh, reln, forknum, blk, pages, nblocks);
	fc_cache_extent_leave(run, wish, begin);
	if (run != NULL)
		fc_data_used(reln, blk);
	if (at_once)
	{
		fc_cache_disk_read(run, fc_counted_as(reln), begin, nblocks);
		fc_advice_disk(begin, nblocks);
	}
	else
		fc_cache_disk_read_started(fc_counted_as(reln), nblocks);
}

/*
 * Must the pages be looked at before they are in valid buffers?  Then they
 * have to be read now.
 */
static bool
may_be_damaged(void)
{
	return unlikely(ignore_checksum_failure) && DataChecksumsEnabled() && !fc_cache_filling_stopped();
}

/* Has this process asked for something that it has not waited for yet? */
static bool
reads_ahead(void)
{
	return pgaio_my_backend->num_staged_ios > 0 || !dclist_is_empty(&pgaio_my_backend->in_flight_ios);
}

void
fc_smgr_startreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum,
				   BlockNumber blk, void **pages, BlockNumber nblocks)
{
	FcTag		tag;
	FcRun		run;

	/* md does not return before the read has finished */
	bool		at_once = io_method == IOMETHOD_SYNC || (ioh->flags & PGAIO_HF_SYNCHRONOUS) != 0;
	FcExtentWish wish;
	uint64		begin;
	int			good;
	int			fd;

	fc_calls[FC_CALL_STARTREAD]++;
	if ((!fc_cache_takes_part() && !may_be_damaged()) ||
		!fc_is_cacheable(reln, forknum) || !fc_bufscan_in_pool(pages[0]) ||
		(fd = endless_fd()) < 0)
	{
		if (fc_is_cacheable(reln, forknum))
		{
			tag = fc_tag_of(reln, blk);
			fc_cache_note_read(&tag, nblocks);
			if (fc_bufscan_in_pool(pages[0]))
				fc_advice_read(&tag, nblocks, pages);
		}
		start_from_disk(ioh, reln, forknum, blk, pages, nblocks, NULL, at_once);
		return;
	}
	tag = fc_tag_of(reln, blk);
	fc_cache_plan(&run, &tag, nblocks, fc_data_fd, reln);
	run.asks_again = true;
	good = fc_cache_read(&run, (char **) pages);	/* S1 */
	if (good > 0)
	{
		fc_advice_read(&tag, good, pages);
		if (unlikely(fc_setting_verify))
			fc_smgr_verify(reln, &run, pages, good);
		fc_failpoint(FC_FP_ASYNC_READ);
		complete(ioh, fd, reln, forknum, blk, good);	/* S2 */
		return;
	}

	/* the run; or, of a run on flash, the page that failed */
	nblocks = run.from_flash ? 1 : run.n;
	fc_advice_read(&tag, nblocks, pages);
	if (!may_be_damaged() && (at_once || !fc_cache_wants_disk_time(&run, reads_ahead())))
	{
		start_from_disk(ioh, reln, forknum, blk, pages, nblocks, &run, at_once);
		return;
	}
	begin = fc_now_ns();
	wish = fc_cache_extent_wish(&run, pages[0], fc_known_size(reln), fc_data_fd, reln);
	read_now(ioh, fd, reln, forknum, blk, pages, nblocks);
	fc_cache_extent_leave(&run, wish, begin);
	fc_cache_disk_read(&run, fc_counted_as(reln), begin, nblocks);
	fc_advice_disk(begin, nblocks);
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
