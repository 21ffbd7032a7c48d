/*-------------------------------------------------------------------------
 *
 * pin.c
 *	  Keeps a buffer pinned for as long as somebody else holds an advisory lock.
 *
 * For tests only: no SQL command holds a pin on a page of one's own choice.
 *
 * Copyright (c) 2026, the pg_flashcache developers
 *
 *-------------------------------------------------------------------------
 */
#include "postgres.h"

#include "fmgr.h"
#include "storage/bufmgr.h"
#include "utils/fmgrprotos.h"
#include "utils/rel.h"
#include "utils/relcache.h"

PG_MODULE_MAGIC;

PG_FUNCTION_INFO_V1(fc_test_pin);

/* fc_test_pin(relation oid, block int, lock bigint) */
Datum
fc_test_pin(PG_FUNCTION_ARGS)
{
	Relation	rel = RelationIdGetRelation(PG_GETARG_OID(0));
	Buffer		buffer = ReadBuffer(rel, PG_GETARG_INT32(1));

	DirectFunctionCall1(pg_advisory_lock_int8, PG_GETARG_DATUM(2));
	ReleaseBuffer(buffer);
	RelationClose(rel);
	PG_RETURN_VOID();
}
