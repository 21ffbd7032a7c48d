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

#include "../bufscan.h"
#include "../compat.h"
#include "../failpoint.h"
#include "calls.h"
#include "access/xlog.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
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

/* Is md's private structure what we think it is?  Asked once a process. */
static bool
knows_segments(SMgrRelation reln)
{
	static int	known = -1;

	if (known < 0)
	{
		char		path[MAXPGPATH];
		File		file = reln->md_seg_fds[MAIN_FORKNUM][0].mdfd_vfd;
		FcLocator	l = FC_LOCATOR_OF_SMGR(reln);

		/* plain snprintf: relpath() would allocate */
		if (FC_LOCATOR_SPC(l) == GLOBALTABLESPACE_OID)
			snprintf(path, sizeof(path), "global/%u", FC_LOCATOR_REL(l));
		else if (FC_LOCATOR_SPC(l) == DEFAULTTABLESPACE_OID)
			snprintf(path, sizeof(path), "base/%u/%u", FC_LOCATOR_DB(l), FC_LOCATOR_REL(l));
		else
			snprintf(path, sizeof(path), "pg_tblspc/%u/" TABLESPACE_VERSION_DIRECTORY "/%u/%u",
					 FC_LOCATOR_SPC(l), FC_LOCATOR_DB(l), FC_LOCATOR_REL(l));
		known = file > 0 && reln->md_seg_fds[MAIN_FORKNUM][0].mdfd_segno == 0 &&
			strcmp(FilePathName(file), path) == 0;
	}
	return known > 0;
}

int
fc_data_fd(void *arg, BlockNumber blk, off_t *offset)
{
	SMgrRelation reln = arg;
	int			segment = blk / RELSEG_SIZE;

	if (reln->md_num_open_segs[MAIN_FORKNUM] <= segment || !knows_segments(reln))
		return -1;
	*offset = (off_t) (blk % RELSEG_SIZE) * BLCKSZ;
	return FileGetRawDesc(reln->md_seg_fds[MAIN_FORKNUM][segment].mdfd_vfd);
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
	if (MyBackendType != B_CHECKPOINTER && MyBackendType != B_BG_WRITER &&
		fc_bufscan_being_evicted(tag))
	{
		fc_failpoint_of(FC_FP_EVICT_WRITTEN, tag->rel);
		fc_cache_evicted(tag, page);	/* E1 */
	}
}
