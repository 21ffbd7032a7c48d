/*-------------------------------------------------------------------------
 *
 * attach/smgr_block.c
 *	  Wrappers of the storage-manager calls as they are in PostgreSQL 15:
 *	  one block a call.
 *
 * Order around each change of a file: invalidate, md, invalidate again.  The
 * first keeps a hit from returning the old page while md writes the new one,
 * the second rejects fills that copied the old page in between.  If md
 * raises, the second is missing; then the buffer stays dirty, and no fill
 * copies a dirty page.
 *
 * Where only the main fork of a relation other than temporary matters, the
 * rest goes to md untouched.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include "../bufscan.h"
#include "../cache.h"
#include "../compat.h"
#include "../failpoint.h"
#include "../settings.h"
#include "access/xlog.h"
#include "access/xlogutils.h"
#include "catalog/pg_tablespace_d.h"
#include "common/relpath.h"
#include "miscadmin.h"
#include "shape.h"
#include "storage/bufmgr.h"
#include "storage/bufpage.h"
#include "storage/checksum.h"
#include "storage/fd.h"
#include "storage/md.h"
#include "storage/smgr.h"

/* Order of the table in 15. */
enum
{
	AT_INIT,
	AT_SHUTDOWN,
	AT_OPEN,
	AT_CLOSE,
	AT_CREATE,
	AT_EXISTS,
	AT_UNLINK,
	AT_EXTEND,
	AT_PREFETCH,
	AT_READ,
	AT_WRITE,
	AT_WRITEBACK,
	AT_NBLOCKS,
	AT_TRUNCATE,
	AT_IMMEDSYNC,
	AT_COUNT
};

/*
 * md.c's private description of an open segment; the same in 15-19.  Used to
 * ask the page cache only, and only after its contents have been checked.
 */
struct _MdfdVec
{
	File		mdfd_vfd;
	BlockNumber mdfd_segno;
};

/*
 * Minor releases from about 15.11 on pass the old number of blocks as third
 * argument.  The wrapper takes four and passes four; a server that passes
 * three puts the new number third and ignores what md gets as fourth.
 */
typedef void (*TruncateFunction) (SMgrRelation reln, ForkNumber forknum,
								  BlockNumber third, BlockNumber fourth);

uint64		fc_shape_calls[FC_SHAPE_MAX_ENTRIES];

static bool truncate_has_old_blocks = false;

/* ---- names ---- */

static inline bool
is_cacheable(SMgrRelation reln, ForkNumber forknum)
{
	return forknum == MAIN_FORKNUM && !SmgrIsTemp(reln);
}

static inline FcRel
rel_of(RelFileNode node)
{
	FcRel		rel = {node.spcNode, node.dbNode, node.relNode};

	return rel;
}

static inline FcTag
tag_of(SMgrRelation reln, BlockNumber blk)
{
	RelFileNode node = reln->smgr_rnode.node;
	FcTag		tag = {node.spcNode, node.dbNode, node.relNode, blk};

	return tag;
}

/* ---- reading ---- */

/* Is md's private structure what we think it is?  Asked once a process. */
static bool
knows_segments(SMgrRelation reln)
{
	static int	known = -1;

	if (known < 0)
	{
		char		path[MAXPGPATH];
		File		file = reln->md_seg_fds[MAIN_FORKNUM][0].mdfd_vfd;
		RelFileNode node = reln->smgr_rnode.node;

		/* plain snprintf: relpath() would allocate */
		if (node.spcNode == GLOBALTABLESPACE_OID)
			snprintf(path, sizeof(path), "global/%u", node.relNode);
		else if (node.spcNode == DEFAULTTABLESPACE_OID)
			snprintf(path, sizeof(path), "base/%u/%u", node.dbNode, node.relNode);
		else
			snprintf(path, sizeof(path), "pg_tblspc/%u/" TABLESPACE_VERSION_DIRECTORY "/%u/%u",
					 node.spcNode, node.dbNode, node.relNode);
		known = file > 0 && reln->md_seg_fds[MAIN_FORKNUM][0].mdfd_segno == 0 &&
			strcmp(FilePathName(file), path) == 0;
	}
	return known > 0;
}

/* For the page-cache probe: only segments that md has open anyway. */
static int
data_fd(void *arg, BlockNumber blk, off_t *offset)
{
	SMgrRelation reln = arg;
	int			segment = blk / RELSEG_SIZE;

	if (reln->md_num_open_segs[MAIN_FORKNUM] <= segment || !knows_segments(reln))
		return -1;
	*offset = (off_t) (blk % RELSEG_SIZE) * BLCKSZ;
	return FileGetRawDesc(reln->md_seg_fds[MAIN_FORKNUM][segment].mdfd_vfd);
}

/*
 * A session that ignores checksum failures may have brought a damaged page
 * into the buffer pool, where it looks clean; a copy of it would get a valid
 * checksum.  (A page zeroed by zero_damaged_pages is all zeros and never
 * taken.)
 */
static void
watch_for_damage(BlockNumber blk, char *page)
{
	if (likely(!ignore_checksum_failure))
		return;
	if (DataChecksumsEnabled() && !PageIsNew((Page) page) &&
		pg_checksum_page(page, blk) != ((PageHeader) page)->pd_checksum)
		fc_cache_stop_filling();
}

static void
read_from_disk(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, char *page)
{
	uint64		begin = fc_now_ns();

	mdread(reln, forknum, blk, page);
	fc_cache_disk_read(fc_now_ns() - begin);
}

static void
fc_smgr_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, char *page)
{
	bool		cacheable;
	FcTag		tag;

	fc_shape_calls[AT_READ]++;

	/* an address in the pool: the buffer manager reads, and holds the I/O */
	cacheable = is_cacheable(reln, forknum) && fc_bufscan_in_pool(page);
	tag = tag_of(reln, blk);
	if (cacheable && fc_cache_read(&tag, page, data_fd, reln))
	{
		static PGAlignedBlock disk;

		if (likely(!fc_setting_verify))
			return;
		read_from_disk(reln, forknum, blk, disk.data);
		if (!fc_cache_verify(&tag, page, disk.data))
			memcpy(page, disk.data, BLCKSZ);
		return;
	}
	read_from_disk(reln, forknum, blk, page);
	if (cacheable)
		watch_for_damage(blk, page);
}

static bool
fc_smgr_prefetch(SMgrRelation reln, ForkNumber forknum, BlockNumber blk)
{
	FcTag		tag = tag_of(reln, blk);

	fc_shape_calls[AT_PREFETCH]++;
	if (is_cacheable(reln, forknum) && fc_cache_covers(&tag))
		return true;
	return mdprefetch(reln, forknum, blk);
}

/* ---- changing ---- */

static void
fc_smgr_write(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, char *page, bool skip_fsync)
{
	FcTag		tag = tag_of(reln, blk);
	uint32		generation;

	fc_shape_calls[AT_WRITE]++;
	if (!is_cacheable(reln, forknum))
	{
		mdwrite(reln, forknum, blk, page, skip_fsync);
		return;
	}
	fc_cache_invalidate(&tag);
	fc_failpoint(FC_FP_WRITE_BEFORE_MD);
	mdwrite(reln, forknum, blk, page, skip_fsync);
	fc_failpoint(FC_FP_WRITE_AFTER_MD);
	generation = fc_cache_invalidate(&tag);

	/*
	 * The checkpointer writes what stays; the background writer's pages are
	 * still in the pool, and clean now, when the hand comes.
	 */
	if (MyBackendType != B_CHECKPOINTER && MyBackendType != B_BG_WRITER &&
		fc_bufscan_being_evicted(&tag))
		fc_cache_evicted(&tag, generation, page);
}

static void
fc_smgr_extend(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, char *page, bool skip_fsync)
{
	FcRel		rel = rel_of(reln->smgr_rnode.node);
	BlockNumber end;

	fc_shape_calls[AT_EXTEND]++;
	if (!is_cacheable(reln, forknum))
	{
		mdextend(reln, forknum, blk, page, skip_fsync);
		return;
	}

	/* a hash index extends past its end and leaves a gap of zeros */
	end = reln->smgr_cached_nblocks[forknum];
	if (end != blk)
		end = mdnblocks(reln, forknum);
	end = Min(end, blk);
	fc_cache_invalidate_range(rel, end, blk + 1);
	mdextend(reln, forknum, blk, page, skip_fsync);
	fc_cache_invalidate_range(rel, end, blk + 1);
}

static void
fc_smgr_truncate(SMgrRelation reln, ForkNumber forknum, BlockNumber third, BlockNumber fourth)
{
	TruncateFunction md = (TruncateFunction) mdtruncate;
	FcRel		rel = rel_of(reln->smgr_rnode.node);

	fc_shape_calls[AT_TRUNCATE]++;
	if (!is_cacheable(reln, forknum))
	{
		md(reln, forknum, third, fourth);
		return;
	}

	/*
	 * In redo the file may have been longer when its pages were cached than
	 * it is now; and where the server does not tell the old length, asking
	 * for it could raise.  Then the whole relation goes.
	 */
	if (truncate_has_old_blocks && !InRecovery)
	{
		fc_cache_invalidate_range(rel, fourth, third);
		md(reln, forknum, third, fourth);
		fc_cache_invalidate_range(rel, fourth, third);
	}
	else
	{
		fc_cache_invalidate_relation(rel);
		md(reln, forknum, third, fourth);
		fc_cache_invalidate_relation(rel);
	}
}

static void
fc_smgr_unlink(RelFileNodeBackend rnode, ForkNumber forknum, bool is_redo)
{
	bool		cacheable = !RelFileNodeBackendIsTemp(rnode) &&
	(forknum == MAIN_FORKNUM || forknum == InvalidForkNumber);

	fc_shape_calls[AT_UNLINK]++;
	if (cacheable)
		fc_cache_invalidate_relation(rel_of(rnode.node));
	mdunlink(rnode, forknum, is_redo);
	if (cacheable)
		fc_cache_invalidate_relation(rel_of(rnode.node));
}

static void
fc_smgr_create(SMgrRelation reln, ForkNumber forknum, bool is_redo)
{
	fc_shape_calls[AT_CREATE]++;

	/* redo "creates" the file of every block it touches: mostly it exists */
	if (!is_cacheable(reln, forknum) ||
		(is_redo && (reln->md_num_open_segs[forknum] > 0 || mdexists(reln, forknum))))
	{
		mdcreate(reln, forknum, is_redo);
		return;
	}
	fc_cache_invalidate_relation(rel_of(reln->smgr_rnode.node));
	mdcreate(reln, forknum, is_redo);
	fc_cache_invalidate_relation(rel_of(reln->smgr_rnode.node));
}

/* ---- the shape ---- */

static const FcShape shape = {
	.min_version = 150000,
	.max_version = 160000,
	.entries = AT_COUNT,
	.md = {
		[AT_INIT] = mdinit,
		[AT_SHUTDOWN] = NULL,
		[AT_OPEN] = mdopen,
		[AT_CLOSE] = mdclose,
		[AT_CREATE] = mdcreate,
		[AT_EXISTS] = mdexists,
		[AT_UNLINK] = mdunlink,
		[AT_EXTEND] = mdextend,
		[AT_PREFETCH] = mdprefetch,
		[AT_READ] = mdread,
		[AT_WRITE] = mdwrite,
		[AT_WRITEBACK] = mdwriteback,
		[AT_NBLOCKS] = mdnblocks,
		[AT_TRUNCATE] = mdtruncate,
		[AT_IMMEDSYNC] = mdimmedsync,
	},
	.ours = {
		[AT_CREATE] = fc_smgr_create,
		[AT_UNLINK] = fc_smgr_unlink,
		[AT_EXTEND] = fc_smgr_extend,
		[AT_PREFETCH] = fc_smgr_prefetch,
		[AT_READ] = fc_smgr_read,
		[AT_WRITE] = fc_smgr_write,
		[AT_TRUNCATE] = fc_smgr_truncate,
	},
	.name = {
		[AT_CREATE] = "smgr_create",
		[AT_UNLINK] = "smgr_unlink",
		[AT_EXTEND] = "smgr_extend",
		[AT_PREFETCH] = "smgr_prefetch",
		[AT_READ] = "smgr_read",
		[AT_WRITE] = "smgr_write",
		[AT_TRUNCATE] = "smgr_truncate",
	},
};

const FcShape *
fc_shape(void)
{
	truncate_has_old_blocks = dlsym(RTLD_DEFAULT, "smgrtruncate2") != NULL;
	return &shape;
}

/* ---- self-test ---- */

/*
 * Its relation is a temporary one of a backend that cannot exist: nothing is
 * logged or synced, no buffer belongs to it, and should the server die in
 * the middle, the next start removes the file with the others of its kind.
 */
#define TEST_BACKEND 99999999
#define TEST_RELATION ((Oid) 4294967280U)

static Oid
database_with_directory(void)
{
	static const Oid candidates[] = {1, 5, 4};	/* template1, postgres, template0 */

	for (int i = 0; i < lengthof(candidates); i++)
	{
		char		path[64];
		struct stat st;

		snprintf(path, sizeof(path), "base/%u", candidates[i]);
		if (stat(path, &st) == 0)
			return candidates[i];
	}
	ereport(ERROR, (errmsg("no database directory to test in")));
	return InvalidOid;			/* keep compiler quiet */
}

bool
fc_shape_exercise(void)
{
	RelFileNode node = {DEFAULTTABLESPACE_OID, database_with_directory(), TEST_RELATION};
	SMgrRelation reln = smgropen(node, TEST_BACKEND);
	ForkNumber	forknum = MAIN_FORKNUM;
	BlockNumber none = 0;
	PGAlignedBlock written;
	PGAlignedBlock read;
	bool		same;

	memset(written.data, 0x5a, BLCKSZ);
	memset(read.data, 0, BLCKSZ);

	/* left over from a writer that was killed in the middle */
	if (smgrexists(reln, forknum))
		smgrdounlinkall(&reln, 1, false);

	smgrcreate(reln, forknum, false);
	smgrextend(reln, forknum, 0, read.data, true);
	smgrwrite(reln, forknum, 0, written.data, true);
	(void) smgrprefetch(reln, forknum, 0);
	smgrread(reln, forknum, 0, read.data);
	same = memcmp(written.data, read.data, BLCKSZ) == 0;
	smgrtruncate(reln, &forknum, 1, &none);
	smgrdounlinkall(&reln, 1, false);
	smgrclose(reln);
	return same;
}
