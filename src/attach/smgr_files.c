/*-------------------------------------------------------------------------
 *
 * attach/smgr_files.c
 *	  Wrappers of the calls that make, change and remove files; calls.h says
 *	  in which order they do it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <dlfcn.h>

#include "access/xlogutils.h"
#include "attach/calls.h"
#include "failpoint.h"
#include "rules/rules.h"

uint64		fc_calls[FC_CALL_COUNT];

/*
 * Minor releases of 15, 16 and 17 (15.11, 16.7, 17.3 or so) inserted the old
 * number of blocks as third argument of mdtruncate().  The wrapper takes four
 * and passes four; a server that passes three puts the new number third and
 * ignores what md gets as fourth.
 */
typedef void (*TruncateFunction) (SMgrRelation reln, ForkNumber forknum,
								  BlockNumber third, BlockNumber fourth);

static bool truncate_has_old_blocks = false;

void
fc_smgr_truncate_init(void)
{
	truncate_has_old_blocks = PG_VERSION_NUM >= 180000 ||
		dlsym(RTLD_DEFAULT, "smgrtruncate2") != NULL;
}

void
fc_smgr_create(SMgrRelation reln, ForkNumber forknum, bool is_redo)
{
	FcRel		rel = fc_rel_of(FC_LOCATOR_OF_SMGR(reln));
	bool		unknown;

	fc_calls[FC_CALL_CREATE]++;

	/* redo "creates" the file of every block it touches: mostly it exists */
	if (!fc_is_cacheable(reln, forknum) ||
		(is_redo && (reln->md_num_open_segs[forknum] > 0 || mdexists(reln, forknum))))
	{
		mdcreate(reln, forknum, is_redo);
		return;
	}
	fc_rules_note(FC_NOTE_FILES);
	unknown = fc_rules_new_file(rel);
	fc_cache_invalidate_relation(rel);	/* C1 */
	fc_failpoint(FC_FP_FILE_BEFORE_MD);
	PG_TRY();
	{
		mdcreate(reln, forknum, is_redo);	/* C2 */
	}
	PG_CATCH();
	{
		/* nobody removes a file that could not be made */
		if (unknown)
			fc_rules_file_gone(rel);
		PG_RE_THROW();
	}
	PG_END_TRY();
	fc_failpoint(FC_FP_FILE_AFTER_MD);
	fc_cache_invalidate_relation(rel);	/* C3 */
}

void
fc_smgr_unlink(FcLocatorBackend locator, ForkNumber forknum, bool is_redo)
{
	FcRel		rel = fc_rel_of(FC_LOCATOR_OF_BACKEND(locator));
	bool		cacheable = !FC_LOCATOR_IS_TEMP(locator) &&
		(forknum == MAIN_FORKNUM || forknum == InvalidForkNumber);

	fc_calls[FC_CALL_UNLINK]++;
	if (!cacheable)
	{
		mdunlink(locator, forknum, is_redo);
		return;
	}
	fc_cache_invalidate_relation(rel);	/* C1 */
	fc_failpoint(FC_FP_FILE_BEFORE_MD);
	mdunlink(locator, forknum, is_redo);	/* C2 */
	fc_failpoint(FC_FP_FILE_AFTER_MD);
	fc_cache_invalidate_relation(rel);	/* C3 */
	fc_rules_file_gone(rel);
	fc_stats_forget_relation(rel);
}

/* Where the file ends now, as far as an extension at blk is concerned. */
static BlockNumber
end_before(SMgrRelation reln, ForkNumber forknum, BlockNumber blk)
{
	BlockNumber end = reln->smgr_cached_nblocks[forknum];

	/* a hash index extends past its end and leaves a gap of zeros */
	if (end != blk)
		end = mdnblocks(reln, forknum);
	return Min(end, blk);
}

void
fc_smgr_extend(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
			   FcConstBytes *page, bool skip_fsync)
{
	FcRel		rel = fc_rel_of(FC_LOCATOR_OF_SMGR(reln));
	BlockNumber end;

	fc_calls[FC_CALL_EXTEND]++;
	if (!fc_is_cacheable(reln, forknum))
	{
		mdextend(reln, forknum, blk, page, skip_fsync);
		fc_count_written(reln, FC_REL_DISK_EXTENDS, 1);
		return;
	}
	end = end_before(reln, forknum, blk);
	fc_cache_invalidate_range(rel, end, blk + 1);	/* C1 */
	fc_failpoint(FC_FP_FILE_BEFORE_MD);
	mdextend(reln, forknum, blk, page, skip_fsync); /* C2 */
	fc_failpoint(FC_FP_FILE_AFTER_MD);
	fc_cache_invalidate_range(rel, end, blk + 1);	/* C3 */
	fc_count_written(reln, FC_REL_DISK_EXTENDS, blk + 1 - end);
}

#if PG_VERSION_NUM >= 160000
void
fc_smgr_zeroextend(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
				   int nblocks, bool skip_fsync)
{
	FcRel		rel = fc_rel_of(FC_LOCATOR_OF_SMGR(reln));
	BlockNumber end;

	fc_calls[FC_CALL_ZEROEXTEND]++;
	if (!fc_is_cacheable(reln, forknum))
	{
		mdzeroextend(reln, forknum, blk, nblocks, skip_fsync);
		fc_count_written(reln, FC_REL_DISK_EXTENDS, nblocks);
		return;
	}
	end = end_before(reln, forknum, blk);
	fc_cache_invalidate_range(rel, end, blk + nblocks); /* C1 */
	fc_failpoint(FC_FP_FILE_BEFORE_MD);
	mdzeroextend(reln, forknum, blk, nblocks, skip_fsync);	/* C2 */
	fc_failpoint(FC_FP_FILE_AFTER_MD);
	fc_cache_invalidate_range(rel, end, blk + nblocks); /* C3 */
	fc_count_written(reln, FC_REL_DISK_EXTENDS, blk + nblocks - end);
}
#endif

void
fc_smgr_truncate(SMgrRelation reln, ForkNumber forknum, BlockNumber third, BlockNumber fourth)
{
	TruncateFunction md = (TruncateFunction) mdtruncate;
	FcRel		rel = fc_rel_of(FC_LOCATOR_OF_SMGR(reln));

	fc_calls[FC_CALL_TRUNCATE]++;
	if (!fc_is_cacheable(reln, forknum))
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
		fc_cache_invalidate_range(rel, fourth, third);	/* C1 */
		fc_failpoint(FC_FP_FILE_BEFORE_MD);
		md(reln, forknum, third, fourth);	/* C2 */
		fc_failpoint(FC_FP_FILE_AFTER_MD);
		fc_cache_invalidate_range(rel, fourth, third);	/* C3 */
	}
	else
	{
		fc_cache_invalidate_relation(rel);	/* C1 */
		fc_failpoint(FC_FP_FILE_BEFORE_MD);
		md(reln, forknum, third, fourth);	/* C2 */
		fc_failpoint(FC_FP_FILE_AFTER_MD);
		fc_cache_invalidate_relation(rel);	/* C3 */
	}
}
