/*-------------------------------------------------------------------------
 *
 * attach/data_file.c
 *	  What is known about a page beside its content: where md keeps it,
 *	  whether it may be damaged, why it was written.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "access/xlog.h"
#include "attach/calls.h"
#include "bufscan.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "compat.h"
#include "failpoint.h"
#include "miscadmin.h"
#include "storage/bufpage.h"
#include "storage/checksum.h"
#include "storage/fd.h"

/*
 * md.c's private description of an open segment; the same in 15-19.  Used to
 * ask the page cache only, and only after its contents have been checked.
 */
struct _MdfdVec
{
	File		mdfd_vfd;
	BlockNumber mdfd_segno;
};

/* Plain snprintf: relpath() would allocate. */
void
fc_data_path(char *path, size_t len, const FcTag *tag)
{
	BlockNumber segment = tag->blk / (BlockNumber) RELSEG_SIZE;
	int			n;

	if (tag->spc == GLOBALTABLESPACE_OID)
		n = snprintf(path, len, "global/%u", tag->rel);
	else if (tag->spc == DEFAULTTABLESPACE_OID)
		n = snprintf(path, len, "base/%u/%u", tag->db, tag->rel);
	else
		n = snprintf(path, len, "pg_tblspc/%u/" TABLESPACE_VERSION_DIRECTORY "/%u/%u",
					 tag->spc, tag->db, tag->rel);
	if (segment > 0)
		snprintf(path + n, len - n, ".%u", segment);
}

/* Is md's private structure what we think it is?  Asked once a process. */
static bool
knows_segments(SMgrRelation reln)
{
	static int	known = -1;

	if (known < 0)
	{
		char		path[MAXPGPATH];
		File		file = reln->md_seg_fds[MAIN_FORKNUM][0].mdfd_vfd;
		FcTag		tag = fc_tag_of(reln, 0);

		fc_data_path(path, sizeof(path), &tag);
		known = file > 0 && reln->md_seg_fds[MAIN_FORKNUM][0].mdfd_segno == 0 &&
			strcmp(FilePathName(file), path) == 0;
	}
	return known > 0;
}

#if PG_VERSION_NUM >= 180000

/*
 * A segment's descriptor, or -1, is in its virtual file (fd.c).  From 18 on
 * FileGetRawDesc() opens a file that was closed in favour of others, and may
 * close another one for that.  A question is not worth it.  So it is called
 * once for a segment, which the planner has asked for its size as a rule, and
 * then only when the server itself has used the file;
 * the number is believed as long as it leads to the same file.  To know that,
 * the file system is not asked: it may be one that answers late, or never.
 */
typedef struct RawDesc
{
	File		file;			/* 0: none yet */
	int			fd;
	FcTag		segment;		/* its number instead of a block's */
	uint32		dev_major;
	uint32		dev_minor;
	uint64		ino;
} RawDesc;

static RawDesc raw_descs[4096]; /* by virtual file */

static bool
which_file(int fd, struct statx *stx)
{
	return statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, stx) == 0;
}

static void
learn_raw_desc(RawDesc *d, File file, const FcTag *segment)
{
	struct statx stx;

	d->file = file;
	d->segment = *segment;
	d->fd = FileGetRawDesc(file);
	if (d->fd >= 0 && !which_file(d->fd, &stx))
		d->fd = -1;
	if (d->fd < 0)
		return;
	d->dev_major = stx.stx_dev_major;
	d->dev_minor = stx.stx_dev_minor;
	d->ino = stx.stx_ino;
}

static bool
is_raw_desc(const RawDesc *d, File file, const FcTag *segment)
{
	return d->file == file && fc_tag_equal(&d->segment, segment);
}

static int
raw_desc(SMgrRelation reln, int segment)
{
	FcTag		tag = fc_tag_of(reln, segment);
	File		file = reln->md_seg_fds[MAIN_FORKNUM][segment].mdfd_vfd;
	RawDesc    *d = &raw_descs[file % lengthof(raw_descs)];
	struct statx stx;

	if (!is_raw_desc(d, file, &tag))
		learn_raw_desc(d, file, &tag);
	else if (d->fd >= 0 && (!which_file(d->fd, &stx) || stx.stx_ino != d->ino ||
							stx.stx_dev_major != d->dev_major || stx.stx_dev_minor != d->dev_minor))
		d->fd = -1;
	return d->fd;
}

void
fc_data_used(SMgrRelation reln, BlockNumber blk)
{
	int			segment = blk / RELSEG_SIZE;
	FcTag		tag = fc_tag_of(reln, segment);
	File		file;
	RawDesc    *d;

	if (reln->md_num_open_segs[MAIN_FORKNUM] <= segment)
		return;
	file = reln->md_seg_fds[MAIN_FORKNUM][segment].mdfd_vfd;
	d = &raw_descs[file % lengthof(raw_descs)];
	if (unlikely(d->fd < 0 && is_raw_desc(d, file, &tag)))
		learn_raw_desc(d, file, &tag);
}

#else

static int
raw_desc(SMgrRelation reln, int segment)
{
	return FileGetRawDesc(reln->md_seg_fds[MAIN_FORKNUM][segment].mdfd_vfd);
}

#endif

int
fc_data_fd(void *arg, BlockNumber blk, off_t *offset)
{
	SMgrRelation reln = arg;
	int			segment = blk / RELSEG_SIZE;

	if (reln->md_num_open_segs[MAIN_FORKNUM] <= segment || !knows_segments(reln))
		return -1;
	*offset = (off_t) (blk % RELSEG_SIZE) * BLCKSZ;
	return raw_desc(reln, segment);
}

void
fc_watch_for_damage(BlockNumber blk, const char *page)
{
	if (likely(!ignore_checksum_failure))
		return;
	if (DataChecksumsEnabled() && !PageIsNew((Page) page) &&
		pg_checksum_page((char *) page, blk) != ((PageHeader) page)->pd_checksum)
		fc_cache_stop_filling();
}

/*
 * The checkpointer writes what stays; the background writer's pages are still
 * in the pool, and clean now, when the hand comes.
 */
void
fc_page_written(const FcTag *tag, const char *page)
{
	int			frame;

	if (MyBackendType != B_CHECKPOINTER && MyBackendType != B_BG_WRITER &&
		(frame = fc_bufscan_being_evicted(tag)) >= 0)
	{
		fc_failpoint_of(FC_FP_EVICT_WRITTEN, tag->rel);
		fc_cache_evicted(tag, frame, page); /* E1 */
	}
}
