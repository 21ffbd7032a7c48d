/*-------------------------------------------------------------------------
 *
 * next_oid.c
 *	  Sets the counter that new objects and data files are numbered from.
 *
 * For tests only: a file number comes back after 2^32 others, and a test
 * cannot wait for that.  FlashCacheMore.pm compiles and loads it.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "access/transam.h"
#include "fmgr.h"
#include "storage/lwlock.h"

/* renamed in 17 */
#if PG_VERSION_NUM >= 170000
#define ShmemVariableCache TransamVariables
#endif

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(fc_test_next_oid);

Datum
fc_test_next_oid(PG_FUNCTION_ARGS)
{
	LWLockAcquire(OidGenLock, LW_EXCLUSIVE);
	ShmemVariableCache->nextOid = PG_GETARG_OID(0);
	ShmemVariableCache->oidCount = 0;
	LWLockRelease(OidGenLock);
	PG_RETURN_VOID();
}
