/*-------------------------------------------------------------------------
 *
 * pg_buffercache.c
 *	  The view pg_buffercache, for a server that comes without contrib.
 *
 * For tests only: as far as the regression and isolation suites use the
 * view.  test/server/wheel.sh builds it for PostgreSQL 16.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "funcapi.h"
#include "storage/buf_internals.h"
#include "storage/bufmgr.h"
#include "utils/tuplestore.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(pg_buffercache_pages);

Datum
pg_buffercache_pages(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;

	InitMaterializedSRF(fcinfo, 0);
	for (int i = 0; i < NBuffers; i++)
	{
		BufferDesc *buffer = GetBufferDescriptor(i);
		uint32		state = LockBufHdr(buffer);
		BufferTag	tag = buffer->tag;
		Datum		values[9];
		bool		nulls[9] = {0};

		UnlockBufHdr(buffer, state);
		values[0] = Int32GetDatum(i + 1);
		if ((state & BM_VALID) && (state & BM_TAG_VALID))
		{
			values[1] = ObjectIdGetDatum(tag.relNumber);
			values[2] = ObjectIdGetDatum(tag.spcOid);
			values[3] = ObjectIdGetDatum(tag.dbOid);
			values[4] = Int16GetDatum(tag.forkNum);
			values[5] = Int64GetDatum(tag.blockNum);
			values[6] = BoolGetDatum((state & BM_DIRTY) != 0);
			values[7] = Int16GetDatum(BUF_STATE_GET_USAGECOUNT(state));
			values[8] = Int32GetDatum(BUF_STATE_GET_REFCOUNT(state));
		}
		else
			memset(&nulls[1], true, sizeof(nulls) - sizeof(nulls[0]));
		tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
	}
	return (Datum) 0;
}
