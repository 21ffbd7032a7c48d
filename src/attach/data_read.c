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
