/*-------------------------------------------------------------------------
 *
 * attach/data_read.c
 *	  See data_read.h.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "attach/calls.h"
#include "attach/data_read.h"
#include "attach/locator.h"
#include "compat.h"
#include "storage/fd.h"

FcRel
fc_data_rel(Relation rel)
{
	return fc_rel_of(FC_LOCATOR_OF_SMGR(RelationGetSmgr(rel)));
}

int
fc_data_in_file(BlockNumber blk, int n)
{
	BlockNumber left = (BlockNumber) RELSEG_SIZE - blk % (BlockNumber) RELSEG_SIZE;

	return left < n ? (int) left : n;
}

/* As the server opens data files. */
static int
open_flags(void)
{
	int			flags = O_RDONLY | PG_BINARY;

#if PG_VERSION_NUM >= 160000
	/* the page cache may be behind a file that is written past it */
	if (io_direct_flags & IO_DIRECT_DATA)
		flags |= PG_O_DIRECT;
#endif
	return flags;
}

int
fc_data_read(const FcTag *first, int n, char *pages)
{
	off_t		offset = (off_t) (first->blk % (BlockNumber) RELSEG_SIZE) * BLCKSZ;
	size_t		wanted = (size_t) n * BLCKSZ;
	size_t		done = 0;
	char		path[MAXPGPATH];
	int			fd;

	Assert(n > 0 && fc_data_in_file(first->blk, n) == n);
	Assert((uintptr_t) pages % FC_IO_ALIGN == 0);
	fc_data_path(path, sizeof(path), first);
	fd = OpenTransientFile(path, open_flags()); /* L3 */
	if (fd < 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not open file \"%s\": %m", path)));
	while (done < wanted)
	{
		ssize_t		got;

		pgstat_report_wait_start(WAIT_EVENT_DATA_FILE_READ);
		got = pread(fd, pages + done, wanted - done, offset + (off_t) done);
		pgstat_report_wait_end();
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not read file \"%s\": %m", path)));
		done += got;
		/* its end; with direct I/O no read can begin within a block */
		if (got == 0 || done % BLCKSZ != 0)
			break;
	}
	if (CloseTransientFile(fd) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not close file \"%s\": %m", path)));
	return (int) (done / BLCKSZ);
}

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 0x8
#endif

/* As pread(), but what is not in the page cache fails with EAGAIN; where that can't be had, with EOPNOTSUPP. */
static ssize_t
read_cached(int fd, char *to, size_t len, off_t offset)
{
#ifdef __linux__
	struct iovec iov = {to, len};

	return preadv2(fd, &iov, 1, offset, RWF_NOWAIT);
#else
	errno = EOPNOTSUPP;
	return -1;
#endif
}

int
fc_data_peek(const FcTag *first, int n, char *pages, bool again)
{
	off_t		offset = (off_t) (first->blk % (BlockNumber) RELSEG_SIZE) * BLCKSZ;
	size_t		wanted = (size_t) n * BLCKSZ;
	size_t		done = 0;
	char		path[MAXPGPATH];
	bool		nowait = true;
	int			result = 0;
	int			fd;

	Assert(n > 0 && fc_data_in_file(first->blk, n) == n);
	fc_data_path(path, sizeof(path), first);
	fd = BasicOpenFile(path, open_flags()); /* L3 */
	if (fd < 0)
		return FC_PEEK_FAILED;
	while (done < wanted && result == 0)
	{
		ssize_t		got = nowait ? read_cached(fd, pages + done, wanted - done, offset + (off_t) done) :
			pread(fd, pages + done, wanted - done, offset + (off_t) done);

		if (got > 0)
			done += got;
		else if (got == 0)
			break;				/* its end */
		else if (errno == EOPNOTSUPP && again && nowait)
			nowait = false;		/* it has been told to be there by now */
		else if (errno == EAGAIN || errno == EOPNOTSUPP)
			result = FC_PEEK_NOT_YET;
		else if (errno != EINTR)
			result = FC_PEEK_FAILED;
	}
#ifdef USE_POSIX_FADVISE
	if (result == FC_PEEK_NOT_YET)
		(void) posix_fadvise(fd, offset, wanted, POSIX_FADV_WILLNEED);
#endif
	close(fd);
	return result != 0 ? result : (int) (done / BLCKSZ);
}
