/*-------------------------------------------------------------------------
 *
 * writev.c
 *	  Changes neighbouring pages of a relation by one call of the storage
 *	  manager, past the buffer pool.
 *
 * For tests only: 17 and later can write several pages at once, and nothing
 * in the server does so yet.  None of the pages may be in the pool.  The
 * last byte of each page, which belongs to its first row, gets one higher.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "storage/bufpage.h"
#include "storage/smgr.h"
#include "utils/rel.h"
#include "utils/relcache.h"

#define MAX_PAGES 16

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(fc_test_writev);

Datum
fc_test_writev(PG_FUNCTION_ARGS)
{
	static PGIOAlignedBlock block[MAX_PAGES];
	const void *pages[MAX_PAGES];
	Relation	rel = RelationIdGetRelation(PG_GETARG_OID(0));
	BlockNumber n = PG_GETARG_INT32(1);

	if (rel == NULL || n > MAX_PAGES)
		elog(ERROR, "no such relation, or too many pages");
	for (BlockNumber blk = 0; blk < n; blk++)
	{
		smgrread(RelationGetSmgr(rel), MAIN_FORKNUM, blk, block[blk].data);
		block[blk].data[BLCKSZ - 1]++;
#if PG_VERSION_NUM < 190000
		PageSetChecksumInplace((Page) block[blk].data, blk);
#else
		PageSetChecksum((Page) block[blk].data, blk);
#endif
		pages[blk] = block[blk].data;
	}
	smgrwritev(RelationGetSmgr(rel), MAIN_FORKNUM, 0, pages, n, false);
	RelationClose(rel);
	PG_RETURN_VOID();
}
