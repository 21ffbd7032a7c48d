/*-------------------------------------------------------------------------
 *
 * attach/shape.c
 *	  The storage-manager table of this major version, and our entries.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include <sys/stat.h>

#include "attach/calls.h"
#include "attach/shape.h"
#include "catalog/pg_tablespace_d.h"
#include "compat.h"
#include "storage/lwlock.h"
#if PG_VERSION_NUM >= 180000
#include "storage/aio_subsys.h"
#endif

/* Order of the table; which major has which is below. */
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
#if PG_VERSION_NUM >= 160000
	AT_ZEROEXTEND,
#endif
	AT_PREFETCH,
#if PG_VERSION_NUM >= 180000
	AT_MAXCOMBINE,
#endif
	AT_READ,
#if PG_VERSION_NUM >= 180000
	AT_STARTREAD,
#endif
	AT_WRITE,
	AT_WRITEBACK,
	AT_NBLOCKS,
	AT_TRUNCATE,
	AT_IMMEDSYNC,
#if PG_VERSION_NUM >= 170000
	AT_REGISTERSYNC,
#endif
#if PG_VERSION_NUM >= 180000
	AT_FD,
#endif
	AT_COUNT
};

StaticAssertDecl((int) AT_COUNT <= FC_SHAPE_MAX_ENTRIES, "storage-manager table has grown");

static const FcShape shape = {
	.min_version = PG_VERSION_NUM / 10000 * 10000,
	.max_version = (PG_VERSION_NUM / 10000 + 1) * 10000,
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
#if PG_VERSION_NUM >= 160000
		[AT_ZEROEXTEND] = mdzeroextend,
#endif
		[AT_PREFETCH] = mdprefetch,
#if PG_VERSION_NUM < 170000
		[AT_READ] = mdread,
		[AT_WRITE] = mdwrite,
#else
		[AT_READ] = mdreadv,
		[AT_WRITE] = mdwritev,
		[AT_REGISTERSYNC] = mdregistersync,
#endif
#if PG_VERSION_NUM >= 180000
		[AT_MAXCOMBINE] = mdmaxcombine,
		[AT_STARTREAD] = mdstartreadv,
		[AT_FD] = mdfd,
#endif
		[AT_WRITEBACK] = mdwriteback,
		[AT_NBLOCKS] = mdnblocks,
		[AT_TRUNCATE] = mdtruncate,
		[AT_IMMEDSYNC] = mdimmedsync,
	},
	.ours = {
		[AT_CREATE] = fc_smgr_create,
		[AT_UNLINK] = fc_smgr_unlink,
		[AT_EXTEND] = fc_smgr_extend,
#if PG_VERSION_NUM >= 160000
		[AT_ZEROEXTEND] = fc_smgr_zeroextend,
#endif
		[AT_PREFETCH] = fc_smgr_prefetch,
#if PG_VERSION_NUM < 170000
		[AT_READ] = fc_smgr_read,
		[AT_WRITE] = fc_smgr_write,
#else
		[AT_READ] = fc_smgr_readv,
		[AT_WRITE] = fc_smgr_writev,
#endif
#if PG_VERSION_NUM >= 180000
		[AT_MAXCOMBINE] = fc_smgr_maxcombine,
		[AT_STARTREAD] = fc_smgr_startreadv,
#endif
		[AT_TRUNCATE] = fc_smgr_truncate,
	},
	.listening = {
#if PG_VERSION_NUM < 170000
		[AT_READ] = fc_listen_read,
		[AT_WRITE] = fc_listen_write,
#else
		[AT_READ] = fc_listen_readv,
		[AT_WRITE] = fc_listen_writev,
#endif
#if PG_VERSION_NUM >= 180000
		[AT_STARTREAD] = fc_listen_startreadv,
#endif
	},
};

const FcShape *
fc_shape(void)
{
	fc_smgr_truncate_init();
	return &shape;
}

/* ---- self-test ---- */

static const struct
{
	FcCall		call;
	const char *name;
}			expected[] = {
	{FC_CALL_CREATE, "smgr_create"},
	{FC_CALL_UNLINK, "smgr_unlink"},
	{FC_CALL_EXTEND, "smgr_extend"},
#if PG_VERSION_NUM >= 160000
	{FC_CALL_ZEROEXTEND, "smgr_zeroextend"},
#endif
	{FC_CALL_PREFETCH, "smgr_prefetch"},
#if PG_VERSION_NUM < 170000
	{FC_CALL_READ, "smgr_read"},
	{FC_CALL_WRITE, "smgr_write"},
#else
	{FC_CALL_READ, "smgr_readv"},
	{FC_CALL_WRITE, "smgr_writev"},
#endif
#if PG_VERSION_NUM >= 180000
	{FC_CALL_MAXCOMBINE, "smgr_maxcombine"},
	{FC_CALL_STARTREAD, "smgr_startreadv"},
#endif
	{FC_CALL_TRUNCATE, "smgr_truncate"},
};

const char *
fc_shape_not_called(void)
{
	for (int i = 0; i < lengthof(expected); i++)
		if (fc_calls[expected[i].call] == 0)
			return expected[i].name;
	return NULL;
}

/*
 * Its relation is a temporary one of a backend that cannot exist (the limit
 * is 262,143): nothing is logged or synced, no buffer belongs to it, and
 * should the server die in the middle, the next start removes the file with
 * the others of its kind.  18 has room for six digits in a path.
 */
#define TEST_BACKEND 999999
#define TEST_RELATION ((Oid) 4294967280U)

static Oid
database_with_directory(void)
{
	static const Oid candidates[] = {1, 5, 4};	/* template1, postgres,
												 * template0 */

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

static void
prefetch(SMgrRelation reln, BlockNumber blk)
{
#if PG_VERSION_NUM < 170000
	(void) smgrprefetch(reln, MAIN_FORKNUM, blk);
#else
	(void) smgrprefetch(reln, MAIN_FORKNUM, blk, 1);
#endif
}

static void
truncate_to_nothing(SMgrRelation reln)
{
	ForkNumber	forknum = MAIN_FORKNUM;
	BlockNumber none = 0;

#if PG_VERSION_NUM < 180000
	smgrtruncate(reln, &forknum, 1, &none);
#else
	BlockNumber old = smgrnblocks(reln, forknum);

	smgrtruncate(reln, &forknum, 1, &old, &none);
#endif
}

void
fc_shape_clean_up(void)
{
	LWLockReleaseAll();
#if PG_VERSION_NUM >= 180000
	pgaio_error_cleanup();
#endif
	smgrreleaseall();
}

bool
fc_shape_exercise(void)
{
	FcLocator	locator = {DEFAULTTABLESPACE_OID, database_with_directory(), TEST_RELATION};
	SMgrRelation reln = smgropen(locator, TEST_BACKEND);
	FcPage		written;
	FcPage		read;
	bool		same;

	memset(fc_calls, 0, sizeof(fc_calls));
	memset(written.data, 0x5a, BLCKSZ);
	memset(read.data, 0, BLCKSZ);

	/* left over from a writer that was killed in the middle */
	if (smgrexists(reln, MAIN_FORKNUM))
		smgrdounlinkall(&reln, 1, false);

	smgrcreate(reln, MAIN_FORKNUM, false);
	smgrextend(reln, MAIN_FORKNUM, 0, read.data, true);
#if PG_VERSION_NUM >= 160000
	smgrzeroextend(reln, MAIN_FORKNUM, 1, 1, true);
#endif
	smgrwrite(reln, MAIN_FORKNUM, 0, written.data, true);
	prefetch(reln, 0);
	smgrread(reln, MAIN_FORKNUM, 0, read.data);
	same = memcmp(written.data, read.data, BLCKSZ) == 0;
#if PG_VERSION_NUM >= 180000
	(void) smgrmaxcombine(reln, MAIN_FORKNUM, 0);
	memset(read.data, 0, BLCKSZ);
	fc_smgr_exercise_async(reln, MAIN_FORKNUM, 0, read.data);
	same = same && memcmp(written.data, read.data, BLCKSZ) == 0;
#endif
	truncate_to_nothing(reln);
	smgrdounlinkall(&reln, 1, false);
	smgrclose(reln);
	return same;
}
