/*-------------------------------------------------------------------------
 *
 * attach/calls.h
 *	  The wrapped storage-manager calls, and what they share.
 *
 *	  smgr_files.c	calls that make, change and remove files: all versions
 *	  smgr_block.c	reading and writing one block a call: 15 and 16
 *	  smgr_vector.c	reading and writing several: 17 and later
 *	  smgr_async.c	starting a read and letting it finish later: 18 and later
 *	  shape.c		the table they are put into
 *	  data_file.c	where md keeps a page, for whom only wants to look
 *
 * Order around each change of a file: invalidate, md, invalidate again.  A
 * page that is written is invalidated after md only: until then its buffer is
 * under I/O, so nobody reads it, and dirty, so no fill copies it.  If md raises
 * the buffer stays dirty, and the write will be tried again.
 *
 * Where only the main fork of a relation other than temporary matters, the
 * rest goes to md untouched.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#ifndef FC_ATTACH_CALLS_H
#define FC_ATTACH_CALLS_H

#include "attach/locator.h"
#include "cache/cache.h"
#include "stats/stats_relation.h"
#include "storage/md.h"
#include "storage/smgr.h"

#if PG_VERSION_NUM >= 180000
#include "storage/aio.h"
#endif

/* The calls, whatever their place in the table. */
typedef enum FcCall
{
	FC_CALL_CREATE,
	FC_CALL_UNLINK,
	FC_CALL_EXTEND,
	FC_CALL_ZEROEXTEND,
	FC_CALL_PREFETCH,
	FC_CALL_MAXCOMBINE,
	FC_CALL_READ,
	FC_CALL_STARTREAD,
	FC_CALL_WRITE,
	FC_CALL_TRUNCATE,
	FC_CALL_COUNT
} FcCall;

/* How often each was called in this process; for the self-test. */
extern uint64 fc_calls[FC_CALL_COUNT];

/* md has written or added n blocks, of whatever fork. */
static inline void
fc_count_written(SMgrRelation reln, FcRelCounter counter, BlockNumber n)
{
	fc_count_written_relation(fc_counted_as(reln), counter, n);
}

/* Buffers lost their "char *" in 16. */
#if PG_VERSION_NUM < 160000
typedef char FcBytes;
typedef char FcConstBytes;
#else
typedef void FcBytes;
typedef const void FcConstBytes;
#endif

/* ---- smgr_files.c ---- */

extern void fc_smgr_create(SMgrRelation reln, ForkNumber forknum, bool is_redo);
extern void fc_smgr_unlink(FcLocatorBackend locator, ForkNumber forknum, bool is_redo);
extern void fc_smgr_extend(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
						   FcConstBytes *page, bool skip_fsync);
#if PG_VERSION_NUM >= 160000
extern void fc_smgr_zeroextend(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
							   int nblocks, bool skip_fsync);
#endif

/*
 * Old and new number of blocks; or only the new one, where the minor release
 * of 15-17 dates from before they got both.  fc_smgr_truncate_init() finds out.
 */
extern void fc_smgr_truncate(SMgrRelation reln, ForkNumber forknum,
							 BlockNumber third, BlockNumber fourth);
extern void fc_smgr_truncate_init(void);

/* ---- smgr_block.c, smgr_vector.c ---- */

#if PG_VERSION_NUM < 170000
extern void fc_smgr_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, FcBytes *page);
extern void fc_smgr_write(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
						  FcConstBytes *page, bool skip_fsync);
extern bool fc_smgr_prefetch(SMgrRelation reln, ForkNumber forknum, BlockNumber blk);
#else
extern void fc_smgr_readv(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
						  void **pages, BlockNumber nblocks);
extern void fc_smgr_writev(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
						   const void **pages, BlockNumber nblocks, bool skip_fsync);
extern bool fc_smgr_prefetch(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, int nblocks);

/* Compares the first pages of a run, which came from flash, with the disk, and corrects them: verify = on. */
extern void fc_smgr_verify(SMgrRelation reln, const FcRun *run, void **pages, int n);
#endif

/* ---- smgr_async.c ---- */

#if PG_VERSION_NUM >= 180000
extern uint32 fc_smgr_maxcombine(SMgrRelation reln, ForkNumber forknum, BlockNumber blk);
extern void fc_smgr_startreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum,
							   BlockNumber blk, void **pages, BlockNumber nblocks);

/* Reads a page through the asynchronous call, waiting for it; for the self-test. */
extern void fc_smgr_exercise_async(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, void *page);
#endif

/* ---- listen.c ---- */

#if PG_VERSION_NUM < 170000
extern void fc_listen_read(SMgrRelation reln, ForkNumber forknum, BlockNumber blk, FcBytes *page);
extern void fc_listen_write(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
							FcConstBytes *page, bool skip_fsync);
#else
extern void fc_listen_readv(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
							void **pages, BlockNumber nblocks);
extern void fc_listen_writev(SMgrRelation reln, ForkNumber forknum, BlockNumber blk,
							 const void **pages, BlockNumber nblocks, bool skip_fsync);
#endif
#if PG_VERSION_NUM >= 180000
extern void fc_listen_startreadv(PgAioHandle *ioh, SMgrRelation reln, ForkNumber forknum,
								 BlockNumber blk, void **pages, BlockNumber nblocks);
#endif

/* ---- data_file.c ---- */

/* Blocks of the main fork, as this process last heard; InvalidBlockNumber if it has not. */
static inline BlockNumber
fc_known_size(SMgrRelation reln)
{
	return reln->smgr_cached_nblocks[MAIN_FORKNUM];
}

/* The file of a page, below the data directory. */
extern void fc_data_path(char *path, size_t len, const FcTag *tag);

/* An FcDataFd; `arg` is the SMgrRelation.  Only segments that md has open anyway. */
extern int	fc_data_fd(void *arg, BlockNumber blk, off_t *offset);

#if PG_VERSION_NUM >= 180000
/* md has just read there: if that segment's file was closed, it no longer is. */
extern void fc_data_used(SMgrRelation reln, BlockNumber blk);
#endif

/*
 * A session that ignores checksum failures may have brought a damaged page
 * into the buffer pool, where it looks clean; a copy of it would get a valid
 * checksum.  To be called for each page read from disk.  (A page zeroed by
 * zero_damaged_pages is all zeros and never taken.)
 */
extern void fc_watch_for_damage(BlockNumber blk, const char *page);

/* A page was written to disk, and invalidated: if that was to evict it, gives it to the writer. */
extern void fc_page_written(const FcTag *tag, const char *page);

#endif							/* FC_ATTACH_CALLS_H */
